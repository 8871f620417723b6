#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Clients of a step whose agent is upgraded again and again; what came of it is printed, a line each.

  reexec_clients.py count                  a task: counts signals RTMIN+3 until RTMIN+4, prints them
  reexec_clients.py storm SOCKET ROUNDS    upgrades ROUNDS times while clients ask, signal, suspend,
                                           resume and follow, each on a connection of its own
  reexec_clients.py slow SOCKET            requests many pids, and reads the answer late
"""
import json
import os
import signal
import socket
import sys
import threading
import time


class Client:
    def __init__(self, path):
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.s.settimeout(600)
        self.s.connect(path)
        self.pending = b""

    def send(self, method, parameters=None, more=False):
        frame = {"method": "io.stepd.Step." + method, "parameters": parameters or {}}
        if more:
            frame["more"] = True
        self.s.sendall(json.dumps(frame).encode() + b"\0")

    def receive(self):
        while b"\0" not in self.pending:
            piece = self.s.recv(65536)
            if not piece:
                raise EOFError("the connection ended")
            self.pending += piece
        frame, self.pending = self.pending.split(b"\0", 1)
        return json.loads(frame)

    def call(self, method, parameters=None):
        self.send(method, parameters)
        return self.receive()


def count():
    wanted, last = signal.SIGRTMIN + 3, signal.SIGRTMIN + 4
    signal.pthread_sigmask(signal.SIG_BLOCK, [wanted, last])
    print("ready", flush=True)
    n = 0
    while signal.sigwaitinfo([wanted, last]).si_signo == wanted:
        n += 1
    # one write, also where Python does not buffer: the other task writes there, too
    os.write(1, b"counted %d\n" % n)


class Storm:
    def __init__(self, path):
        self.path = path
        self.over = False
        self.lock = threading.Lock()
        self.done = {}
        self.wrong = []

    def note(self, what, answer):
        with self.lock:
            self.done[what] = self.done.get(what, 0) + 1
            if "error" in answer:
                self.wrong.append("%s: %s" % (what, json.dumps(answer)))

    def repeat(self, what, method, parameters, pause_s):
        c = Client(self.path)
        while not self.over:
            self.note(what, c.call(method, parameters))
            time.sleep(pause_s)

    def suspend(self):
        c = Client(self.path)
        while not self.over:
            self.note("suspend", c.call("Suspend"))
            self.note("resume", c.call("Resume"))
            time.sleep(0.02)

    def usage(self):
        c = Client(self.path)
        c.send("Usage", {"interval_ms": 100}, more=True)
        while not self.over:
            self.note("usage", c.receive())

    def run(self, function, *args):
        def guarded():
            try:
                function(*args)
            except (OSError, EOFError, ValueError) as e:
                with self.lock:
                    self.wrong.append("%s %s: %r" % (function.__name__, args, e))

        thread = threading.Thread(target=guarded)
        thread.start()
        return thread


def follow(path, sequences, ended):
    c = Client(path)
    c.send("Events", {"from": 0}, more=True)
    while True:
        answer = c.receive()
        if "error" in answer:
            sequences.append("error")
            return
        sequences.append(answer["parameters"]["event"]["sequence"])
        if not answer.get("continues"):
            ended.append(answer["parameters"]["event"]["state"])
            return


def storm(path, rounds):
    st = Storm(path)
    me = {"pid": os.getpid()}
    waiter = Client(path)
    waiter.send("Wait")
    sequences, ended = [], []
    followers = [([], []) for _ in range(20)]
    follower_threads = [st.run(follow, path, *f) for f in followers]
    threads = [
        st.run(st.repeat, "signal", "Signal", {"signal": "RTMIN+3", "ranks": "0", "leader": True}, 0)
        for _ in range(3)
    ]
    threads.append(st.run(st.repeat, "list", "ListPids", {}, 0))
    threads.append(st.run(st.repeat, "tasks", "ListTasks", {}, 0))
    threads.append(st.run(st.repeat, "describe", "Describe", {}, 0.001))
    threads.append(st.run(st.repeat, "find", "FindPids", {"pids": [me["pid"]]}, 0))
    threads.append(st.run(st.suspend))
    threads.append(st.run(st.usage))
    upgrader = Client(path)
    versions = set()
    for _ in range(rounds):
        answer = upgrader.call("Reexec")
        versions.add(answer.get("parameters", {}).get("version", json.dumps(answer)))
        time.sleep(0.05)
    st.over = True
    for thread in threads:
        thread.join()
    last = Client(path)
    st.note("last", last.call("Signal", {"signal": "RTMIN+4", "leader": True}))
    print("versions", *sorted(versions))
    print("signals", st.done.get("signal", 0))
    for what in sorted(st.done):
        print("done", what, st.done[what])
    for line in st.wrong[:10]:
        print("wrong", line)
    print("wait", waiter.receive().get("parameters", {}).get("state"))
    for thread in follower_threads:
        thread.join()
    good = [f for f in followers if f[0] == list(range(1, len(f[0]) + 1)) and f[1] == ["ended"]]
    print("followers", len(good), "of", len(followers))
    print("events", len({len(f[0]) for f in followers}) == 1 and "all the same")


def slow(path):
    c = Client(path)
    c.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    c.send("ListPids", {}, more=True)
    time.sleep(0.5)
    pids = []
    while True:
        answer = c.receive()
        if "error" in answer:
            print("error", answer["error"])
            return
        pids += [p["pid"] for p in answer["parameters"]["pids"]]
        if not answer.get("continues"):
            break
    print("pids", len(pids), len(set(pids)))


if __name__ == "__main__":
    if sys.argv[1] == "count":
        count()
    elif sys.argv[1] == "storm":
        storm(sys.argv[2], int(sys.argv[3]))
    else:
        slow(sys.argv[2])
