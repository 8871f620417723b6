#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""An agent for tests that an agent can't be made to be: it hangs, answers nonsense, or has a million
pids. It makes a step's directory, locks it, and speaks Varlink there as its options have it:

    slurm_agent.py RUNTIME NODE JOB.STEP UID [KEY=VALUE...]

    hang=METHOD     never answers this method, or any ("all"); it takes connections
    stop=yes        takes no connection
    garbage=TEXT    answers everything with these bytes
    pids=N          ListPids has that many, from 100000 on, in pieces of 4096
    tasks=N         so many tasks, the first has exited, the second is new
    state=WORD
    error=NAME      all actions fail with this error of io.stepd.Step
    log=FILE        a line of JSON for each call

It prints "ready" once it listens, and is killed with who started it, leaving all behind.
"""
import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import sys
import threading

PIECE = 4096


class Agent:
    def __init__(self, runtime, node, step, uid, options):
        self.options = options
        self.step = step
        self.node = node
        self.uid = uid
        self.directory = f"{runtime}/{node}_{step}"
        os.makedirs(self.directory, 0o755, exist_ok=True)
        self.lock = os.open(f"{self.directory}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        whole = struct.pack("hhlli4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        fcntl.fcntl(self.lock, 37, whole)  # F_OFD_SETLK

    def write_state(self):
        job, name = self.step.split(".")
        state = {
            "version": 1, "job": int(job), "step": name, "node": self.node, "node_id": 3,
            "uid": self.uid, "user": "x", "state": "running", "proctrack": "proctrack/linuxproc",
            "container_id": 1, "agent_pid": os.getpid(), "tasks": [],
        }
        with open(f"{self.directory}/.state", "w") as f:
            json.dump(state, f)
        os.rename(f"{self.directory}/.state", f"{self.directory}/state.json")

    def listen(self):
        self.write_state()
        path = f"{self.directory}/socket"
        if os.path.exists(path):
            os.unlink(path)
        server = socket.socket(socket.AF_UNIX)
        server.bind(path)
        server.listen(128)
        return server

    # ---- methods: each yields its answers -------------------------------------------------------
    def Describe(self, parameters):
        yield {"agent_pid": os.getpid(), "uid": self.uid, "node_id": 3,
               "state": self.options.get("state", "running")}

    def ListPids(self, parameters):
        n = int(self.options.get("pids", 3))
        pids = [{"pid": 100000 + i} for i in range(n)]
        for at in range(0, max(n, 1), PIECE):
            yield {"pids": pids[at:at + PIECE]}

    def ListTasks(self, parameters):
        n = int(self.options.get("tasks", 3))
        tasks = [{"rank": 10 + i, "local_id": i, "state": "running", "text": "runs",
                  "pid": 100000 + i, "on_request": False} for i in range(n)]
        if n > 0:
            tasks[0].update(state="ended", wait_status=256)
            del tasks[0]["pid"]
        if n > 1:
            tasks[1].update(state="new")
            del tasks[1]["pid"]
        for at in range(0, max(n, 1), PIECE):
            yield {"tasks": tasks[at:at + PIECE]}

    def FindPids(self, parameters):
        n = int(self.options.get("pids", 3))
        yield {"found": [{"pid": p} for p in parameters["pids"] if 100000 <= p < 100000 + n]}

    def act(self, parameters):
        yield {}

    Signal = Terminate = Suspend = Resume = Notify = act

    # ---- the wire -------------------------------------------------------------------------------
    def answer(self, connection, call):
        method = call["method"].rsplit(".", 1)[1]
        if "log" in self.options:
            with open(self.options["log"], "a") as f:
                f.write(json.dumps({"method": method, "parameters": call.get("parameters")}) + "\n")
        if self.options.get("hang") in (method, "all"):
            return
        if "garbage" in self.options:
            connection.sendall(self.options["garbage"].encode() + b"\0")
            return
        function = getattr(self, method)
        if "error" in self.options and function.__name__ == "act":
            replies = [{"error": "io.stepd.Step." + self.options["error"],
                        "parameters": {"message": "as it was told", "state": "ending"}}]
        else:
            replies = [{"parameters": p} for p in function(call.get("parameters") or {})]
        for reply in replies[:-1]:
            reply["continues"] = True
        for reply in replies:
            connection.sendall(json.dumps(reply).encode() + b"\0")

    def serve(self, connection):
        data = b""
        try:
            while True:
                more = connection.recv(65536)
                if not more:
                    break
                data += more
                while b"\0" in data:
                    frame, data = data.split(b"\0", 1)
                    self.answer(connection, json.loads(frame))
        except (BrokenPipeError, ConnectionResetError):
            pass
        connection.close()

    def accept(self, server):
        while True:
            connection, _ = server.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()


def main():
    runtime, node, step, uid = sys.argv[1:5]
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    options = dict(a.split("=", 1) for a in sys.argv[5:])
    agent = Agent(runtime, node, step, int(uid), options)
    server = agent.listen()
    if options.get("stop") != "yes":
        threading.Thread(target=agent.accept, args=(server,), daemon=True).start()
    print("ready", flush=True)
    signal.pause()


main()
