# SPDX-License-Identifier: BSD-3-Clause
"""A process that connects to a PMIx server without libpmix, for tests of who is let in.

	pmix_raw.py URI KIND UID MODE

URI is a PMIX_SERVER_URI41. KIND is what it claims to be: "client" (rank 0 of PMIX_NAMESPACE) or "tool";
UID and the same group is what it claims to be of. It prints "KIND: N bytes", N being those of the
answer. MODE: "wait" for the answer; "close" at once after the hello, and print nothing; "twice":
connect so often and keep both; "hold": print, then wait for the end of standard input.
"""
import os
import re
import socket
import struct
import sys


def connect(uri):
    host, port = re.search(r"tcp[46]://(.*):(\d+)$", uri).groups()
    sock = socket.create_connection((host, int(port)))
    sock.settimeout(300)
    return sock


def hello(kind, uid):
    ids = struct.pack("!II", uid, uid)
    text = b"native\0" + struct.pack("!I", 8) + struct.pack("=II", uid, uid)
    if kind == "client":
        text += b"\0" + os.environ["PMIX_NAMESPACE"].encode() + b"\0" + struct.pack("!I", 0)
    else:
        text += b"\3" + ids
    text += b"4.2.2\0v41\0\1hash\0"
    return struct.pack("=iIII", -1, 0, len(text), 0) + text


def answer(sock):
    """How many bytes come, of a status and an index at most."""
    count = 0
    try:
        while count < 8:
            got = sock.recv(8 - count)
            if not got:
                break
            count += len(got)
    except OSError:
        pass
    return count


def main():
    uri, kind, uid, mode = sys.argv[1:5]
    socks = []
    for _ in range(2 if mode == "twice" else 1):
        sock = connect(uri)
        sock.sendall(hello(kind, int(uid)))
        socks.append(sock)
        if mode != "close":
            print(f"{kind}: {answer(sock)} bytes", flush=True)
    if mode == "hold":
        sys.stdin.read()


main()
