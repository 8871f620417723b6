# SPDX-License-Identifier: BSD-3-Clause
"""A client of PMIx 1, as far as a server of today sees one: the rank has from
PMIX_SERVER_URI ("NAMESPACE:RANK:SOCKET"), the socket to which it sends its name and version.

	pmix_old.py hello VERSION   prints the status that it gets
	pmix_old.py bytes           sends it byte by byte
	pmix_old.py hostile         what no client would send; "quiet" if the server answers none of it
"""
import os
import socket
import struct
import sys


def connect():
    path = os.environ["PMIX_SERVER_URI"].split(":")[2]
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.connect(path)
    return s


def hello(version, nspace=None, rank=None):
    nspace = os.environ["PMIX_NAMESPACE"] if nspace is None else nspace
    rank = int(os.environ["PMIX_RANK"]) if rank is None else rank
    message = nspace.encode() + b"\0" + struct.pack("<I", rank) + version.encode() + b"\0"
    message += struct.pack("<Q", 0) + b"native\0"
    return struct.pack("<iIQ", -1, 0xFFFFFFFF, len(message)) + message


def answer(s):
    """The status, or None where the server has hung up."""
    try:
        got = s.recv(4, socket.MSG_WAITALL)
    except ConnectionResetError:
        return None
    return struct.unpack("<i", got)[0] if len(got) == 4 else None


def exchange(s, message):
    """The answer to all that will be sent."""
    try:
        s.sendall(message)
        s.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # it has hung up
    return answer(s)


def byte_by_byte(version):
    s = connect()
    try:
        for byte in hello(version):
            s.sendall(bytes([byte]))
    except OSError:
        pass  # it has heard enough
    return answer(s)


def hostile():
    waiting = [connect() for _ in range(40)]  # more than are heard at a time
    answers = [exchange(s, b"") for s in waiting]
    answers += [exchange(connect(), junk) for junk in (b"\xff" * 4096, b"", hello("1.2.5")[:20])]
    for message in (
        b"\0" * 4096,
        hello("1.2.5", nspace="no.such.job"),
        hello("1.2.5", rank=4000000000),
    ):
        exchange(connect(), message)
    count = sum(a is not None for a in answers)
    return "%d answers" % count if count else "quiet"


def main():
    rank = os.environ["PMIX_RANK"]
    if sys.argv[1] == "hello":
        print("old %s: %s" % (rank, exchange(connect(), hello(sys.argv[2]))))
    elif sys.argv[1] == "bytes":
        print("old %s: %s" % (rank, byte_by_byte("1.1.4")))
    else:
        print("hostile %s: %s" % (rank, hostile()))


main()
