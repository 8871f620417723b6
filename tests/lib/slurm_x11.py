# SPDX-License-Identifier: BSD-3-Clause
#
# A program of X that needs no library of X, for tasks: at $DISPLAY, a TCP one, with the cookie of $XAUTHORITY.
#	ask          prints what display it has, the file's owner and mode, and the server's vendor
#	bulk MIB     has the server keep so many bytes and reads them back, in pieces
#	half         ends its own side of the connection first, and reads what the server sends yet
#	hold FILE    makes the file once it is connected, and waits until the server is gone
#	many COUNT   has so many connections at the same time
#	wrong        with another cookie: prints the server's reason
import hashlib
import os
import socket
import stat
import struct
import sys


def cookies(path):
    """The cookie of each "ADDRESS NUMBER" of an Xauthority file, Xau(3)."""
    found, data = {}, open(path, "rb").read()
    while data:
        parts, data = [], data[2:]
        for _ in range(4):
            size = struct.unpack(">H", data[:2])[0]
            parts.append(data[2:2 + size])
            data = data[2 + size:]
        found["%s %s" % (parts[0].decode(), parts[1].decode())] = parts[3]
    return found


def number():
    """Of the display: localhost:20.0."""
    host, rest = os.environ["DISPLAY"].split(":")
    assert host == "localhost", os.environ["DISPLAY"]
    return int(rest.split(".")[0])


def padded(data):
    return data + bytes(-len(data) % 4)


class Server:
    def __init__(self, cookie=None):
        if cookie is None:
            cookie = cookies(os.environ["XAUTHORITY"])["%s %d" % (socket.gethostname(), number())]
        self.socket = socket.create_connection(("127.0.0.1", 6000 + number()), 60)
        name = b"MIT-MAGIC-COOKIE-1"
        self.socket.sendall(struct.pack("<BxHHHHxx", 0x6C, 11, 0, len(name), len(cookie)) + padded(name) + padded(cookie))
        status, size, _, _, length = struct.unpack("<BBHHH", self.read(8))
        rest = self.read(length * 4)
        if status != 1:
            raise PermissionError(rest[:size].decode().strip())
        vendor = struct.unpack("<H", rest[16:18])[0]
        self.vendor = rest[32:32 + vendor].decode()
        formats = rest[21]
        self.root = struct.unpack("<I", rest[32 + len(padded(bytes(vendor))) + 8 * formats:][:4])[0]

    def read(self, size):
        data = b""
        while len(data) < size:
            piece = self.socket.recv(min(size - len(data), 65536))
            if not piece:
                raise EOFError("after %d of %d bytes" % (len(data), size))
            data += piece
        return data

    def atom(self, name):
        self.socket.sendall(struct.pack("<BxHHxx", 16, 2 + len(padded(name)) // 4, len(name)) + padded(name))
        return struct.unpack("<I", self.read(32)[8:12])[0]

    def keep(self, atom, data):
        """XA_STRING, bytes."""
        self.socket.sendall(struct.pack("<BBHIIIBxxxI", 18, 0, 6 + len(data) // 4, self.root, atom, 31, 8, len(data)) + data)

    def take(self, atom, size):
        self.socket.sendall(struct.pack("<BBHIIIII", 20, 1, 6, self.root, atom, 0, 0, size // 4))
        head = self.read(32)
        return self.read(struct.unpack("<I", head[4:8])[0] * 4)


def ask():
    info = os.stat(os.environ["XAUTHORITY"])
    print("display", 20 <= number() <= 99, "file", os.path.dirname(os.environ["XAUTHORITY"]), info.st_uid == os.getuid(),
          "%o" % stat.S_IMODE(info.st_mode), len(cookies(os.environ["XAUTHORITY"])))
    print(Server().vendor)


def bulk(mib):
    server = Server()
    atom = server.atom(b"bulk.%s.%d" % (os.environ.get("SLURM_PROCID", "x").encode(), os.getpid()))
    sent, got = hashlib.sha256(), hashlib.sha256()
    for _ in range(int(mib) * 8):
        data = os.urandom(131072)
        sent.update(data)
        server.keep(atom, data)
        got.update(server.take(atom, len(data)))
    print(mib, "MiB", "whole" if sent.digest() == got.digest() else "broken")


def half():
    server = Server()
    server.socket.sendall(struct.pack("<BxHHxx", 16, 3, 4) + b"half")
    server.socket.shutdown(socket.SHUT_WR)
    # Xorg ends a connection whose client has ended its side, with or without the answer.
    size = 0
    while piece := server.socket.recv(4096):
        size += len(piece)
    print("ended", size in (0, 32))


def hold(path):
    server = Server()
    open(path, "w").close()
    server.socket.settimeout(None)
    try:
        print("gone" if not server.socket.recv(1) else "more")
    except ConnectionResetError:
        print("gone")


def many(count):
    servers = [Server() for _ in range(int(count))]
    print(len({s.vendor for s in servers}), "vendor", len(servers), "connections")


def wrong():
    try:
        print("let in", Server(bytes(16)).vendor)
    except PermissionError as e:
        print("refused:", e)


{"ask": ask, "bulk": bulk, "half": half, "hold": hold, "many": many, "wrong": wrong}[sys.argv[1]](*sys.argv[2:])
