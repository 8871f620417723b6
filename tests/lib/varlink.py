#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A raw Varlink client for tests: it sends what it gets as arguments, and prints what comes as it came.

  varlink.py call   SOCKET METHOD [PARAMETERS]   one call; METHOD without a dot is io.stepd.Step's
  varlink.py more   SOCKET METHOD [PARAMETERS]   with "more": a line for each answer
  varlink.py oneway SOCKET METHOD [PARAMETERS]   sends, and waits for nothing
  varlink.py raw    SOCKET [FRAME...]            each argument a frame, all sent at once, then EOF;
                                                 without one: standard input's bytes as they are

Options before the subcommand: --timeout SECONDS (30 at first), --count N (ends after N answers),
--uid UID and --gid GID (connects as that user, without other groups).

Prints an answer a line, the JSON as it came. Exit status: 0, 1 if an answer was an error, 2 if the
connection ended or failed before the last answer, 3 if none came in time.
"""
import argparse
import json
import os
import socket
import struct
import sys


def connect(path, timeout_s):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    timeout = struct.pack("ll", int(timeout_s), int(timeout_s % 1 * 1e6))
    for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):  # connect(2) waits, too
        s.setsockopt(socket.SOL_SOCKET, option, timeout)
    directory = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
    s.connect("/proc/self/fd/%d/%s" % (directory, os.path.basename(path)))  # of any length
    os.close(directory)
    return s


def frames(s):
    pending = b""
    while True:
        piece = s.recv(65536)
        if not piece:
            return
        *whole, pending = (pending + piece).split(b"\0")
        yield from whole


def send(s, data):
    try:
        s.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        pass  # refused: the answer has the reason


def call(s, args):
    frame = {"method": args.method if "." in args.method else "io.stepd.Step." + args.method}
    if args.parameters is not None:
        frame["parameters"] = json.loads(args.parameters)
    if args.command != "call":
        frame[args.command] = True
    send(s, json.dumps(frame).encode() + b"\0")


def show(s, last, count):
    """Prints answers until last(answer) or count of them; the exit status."""
    shown = 0
    status = 0
    for frame in frames(s):
        sys.stdout.buffer.write(frame + b"\n")
        sys.stdout.buffer.flush()
        answer = json.loads(frame)
        status = 1 if "error" in answer else status
        shown += 1
        if shown == count or last(answer):
            return status
    return 2 if last({}) else status


def become(uid, gid):
    if uid is None and gid is None:
        return
    os.setgroups([])
    if gid is not None:
        os.setresgid(gid, gid, gid)
    if uid is not None:
        os.setresuid(uid, uid, uid)


def main():
    parser = argparse.ArgumentParser(add_help=True)
    parser.add_argument("--timeout", type=float, default=30)
    parser.add_argument("--count", type=int)
    parser.add_argument("--uid", type=int)
    parser.add_argument("--gid", type=int)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("call", "more", "oneway"):
        p = commands.add_parser(name)
        p.add_argument("socket")
        p.add_argument("method")
        p.add_argument("parameters", nargs="?")
    p = commands.add_parser("raw")
    p.add_argument("socket")
    p.add_argument("frames", nargs="*")
    args = parser.parse_args()
    become(args.uid, args.gid)
    try:
        s = connect(args.socket, args.timeout)
        if args.command == "raw":
            data = b"".join(f.encode("utf-8", "surrogateescape") + b"\0" for f in args.frames)
            send(s, data if args.frames else sys.stdin.buffer.read())
            try:
                s.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # ended already
            return show(s, lambda answer: False, args.count)
        call(s, args)
        if args.command == "oneway":
            return 0
        return show(s, lambda answer: not answer.get("continues"), args.count)
    except BlockingIOError:
        print("no answer in %g s" % args.timeout, file=sys.stderr)
        return 3
    except OSError as e:
        print("%s: %s" % (args.socket, e), file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
