#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Clients that a control socket must stand, and one that it must serve meanwhile.

  hostile_clients.py [--uid UID] KIND SOCKET SECONDS

Each kind but good ends by itself after SECONDS with status 0, whatever the service did to it; good
prints CALLS MEDIAN_MS MAX_MS of its calls on one connection.
"""
import argparse
import array
import json
import os
import random
import select
import socket
import struct
import sys
import time


def connect(path, timeout_s=5):
    """Waits in the queue where that is full: settimeout() would fail instead."""
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
        s.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", timeout_s, 0))
    s.connect(path)
    return s


def connect_or_fail(path):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    s.connect(path)
    return s


def frame(method, parameters=None, **flags):
    doc = dict(flags, method=method if "." in method else "io.stepd.Step." + method)
    if parameters is not None:
        doc["parameters"] = parameters
    return json.dumps(doc).encode() + b"\0"


def answer(s):
    data = b""
    while not data.endswith(b"\0"):
        piece = s.recv(65536)
        if not piece:
            raise EOFError
        data += piece
    return json.loads(data[:-1].split(b"\0")[-1])


def until(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield


def good(path, seconds, least_calls):
    """So long, and until it has had so many answers: how many come in a time is the machine's affair."""
    s = connect(path, 60)
    times = []
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(times) < least_calls:
        begin = time.monotonic()
        s.sendall(frame("Describe"))
        reply = answer(s)
        if "error" in reply:
            sys.exit("an error to a good call: %s" % json.dumps(reply))
        times.append((time.monotonic() - begin) * 1e3)
        time.sleep(0.001)
    times.sort()
    print(len(times), "%.3f" % times[len(times) // 2], "%.3f" % times[-1])


def attempt(action):
    """The service may refuse, close or let wait: that is its right."""
    try:
        return action()
    except (OSError, EOFError, ValueError):
        return None


def fill(s, data):
    """Sends what goes without waiting, and no more."""
    s.setblocking(False)
    try:
        while True:
            s.send(data)
    except OSError:
        pass


def hold(path, seconds, count, begin):
    """So many connections at once, each with what begin(s) does to it, held to the end."""
    held = []
    for _ in range(count):
        s = attempt(lambda: connect(path))
        if s:
            attempt(lambda: begin(s))
            held.append(s)
    time.sleep(seconds)
    for s in held:
        s.close()


def thousand(path, seconds):
    hold(path, seconds, 1000, lambda s: s.sendall(frame("Describe")))


def half(path, seconds):
    hold(path, seconds, 400, lambda s: s.sendall(b'{"method":"' + b"x" * 200000))


def stopped(path, seconds):
    """Sends request after request, and reads nothing."""
    calls = frame("org.varlink.service.GetInterfaceDescription", {"interface": "io.stepd.Step"})
    hold(path, seconds, 300, lambda s: fill(s, calls * 50))


def followers(path, seconds):
    hold(path, seconds, 300, lambda s: s.sendall(frame("Events", {"from": 1}, more=True)))


def waiters(path, seconds):
    """Wait, and hang up: over and over."""
    for _ in until(seconds):
        s = attempt(lambda: connect(path))
        if s:
            attempt(lambda: s.sendall(frame("Wait", more=True)))
            attempt(lambda: s.recv(1))
            s.close()


def pipeline(path, seconds):
    calls = frame("ListPids") * 2000
    s = connect(path)
    for _ in until(seconds):
        fill(s, calls)
        s.setblocking(False)
        attempt(lambda: s.recv(1 << 20))


def noise(path, seconds):
    rnd = random.Random(4711)
    for _ in until(seconds):
        s = attempt(lambda: connect(path))
        if s:
            attempt(lambda: s.sendall(rnd.randbytes(rnd.randrange(1, 5000))))
            s.close()


NONSENSE = [
    b"\0", b"{}\0", b"[]\0", b"null\0", b"{" * 30000 + b"\0", b"[" * 100000 + b"\0",
    b'{"method":"io.stepd.Step.FindPid","parameters":{"pid":"1"}}\0',
    b'{"method":"io.stepd.Step.FindPid","parameters":{"pid":1,"pid":2}}\0',
    b'{"method":"io.stepd.Step.FindPid","parameters":{"pid":1e400}}\0',
    b'{"method":"io.stepd.Step.FindPid","parameters":{"uid":0,"pid":1}}\0',
    b'{"method":"io.stepd.Step.Describe","upgrade":true}\0',
    b'{"method":"io.stepd.Step.\xff\xfe"}\0', b'{"method":"io.stepd.Step.\\u0000"}\0',
    b'{"method":"' + b"a" * 250000 + b'"}\0', b'{"method":"' + b"a" * 400000 + b'"}\0',
    b'{"method":"io.stepd.Step.FindPids","parameters":{"pids":[' + b"1," * 100000 + b'1]}}\0',
    b"GET / HTTP/1.1\r\n\r\n\0",
]


def nonsense(path, seconds):
    n = 0
    for _ in until(seconds):
        s = attempt(lambda: connect(path))
        if s:
            attempt(lambda: s.sendall(NONSENSE[n % len(NONSENSE)]))
            attempt(lambda: s.recv(4096))
            s.close()
        n += 1


def descriptors(path, seconds):
    """Throws descriptors at it, with calls and without."""
    mine = array.array("i", [0, 1, 2] * 50)
    for _ in until(seconds):
        s = attempt(lambda: connect(path))
        if s:
            for data in (b"x", frame("Describe")):
                attempt(lambda: s.sendmsg(
                    [data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, mine)]))
            s.close()


def storm(path, seconds):
    """Connects, and leaves at once, as often as the queue has a slot."""
    for _ in until(seconds):
        s = attempt(lambda: connect_or_fail(path))
        if s:
            s.close()


# The frame whose reading costs the most, of those that no bound refuses: nothing but empty objects.
COSTLY = (b'{"method":"io.stepd.Step.Signal","parameters":{"signal":['
          + b",".join([b"{}"] * 16000) + b"]}}\0")


def flood(path, seconds):
    """450 connections, as many of which are open as the service takes, each with costly frames as
    fast as they go; who is closed comes again."""
    events = select.poll()
    open_ones = {}

    def come():
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        if attempt(lambda: (s.connect(path), s)):
            open_ones[s.fileno()] = s
            events.register(s, select.POLLIN | select.POLLOUT)
            attempt(lambda: s.send(COSTLY))

    def go(fd):
        events.unregister(fd)
        open_ones.pop(fd).close()

    for _ in until(seconds):
        for _ in range(450 - len(open_ones)):
            come()
        for fd, event in events.poll(10):
            s = open_ones[fd]
            if event & (select.POLLERR | select.POLLHUP):
                go(fd)
            elif event & select.POLLIN and not attempt(lambda: s.recv(1 << 16)):
                go(fd)
            else:
                attempt(lambda: s.send(COSTLY))


KINDS = (good, thousand, half, stopped, followers, waiters, pipeline, noise, nonsense, descriptors,
         storm, flood)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--uid", type=int)
    parser.add_argument("kind", choices=[k.__name__ for k in KINDS])
    parser.add_argument("socket")
    parser.add_argument("seconds", type=float)
    parser.add_argument("least_calls", type=int, nargs="?", help="of the good one")
    args = parser.parse_args()
    if args.uid is not None:
        os.setgroups([])
        os.setresgid(args.uid, args.uid, args.uid)
        os.setresuid(args.uid, args.uid, args.uid)
    more = [] if args.least_calls is None else [args.least_calls]
    next(k for k in KINDS if k.__name__ == args.kind)(args.socket, args.seconds, *more)


if __name__ == "__main__":
    main()
