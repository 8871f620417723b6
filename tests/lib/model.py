#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""model.py [--seed N] [--operations N] [--backend NAME]... STEPD MODELPROC DIRECTORY

A randomised test of process tracking through the control socket: real steps of processes that do
commands that they get (modelproc.c) are driven in random order, and after each operation the socket must
reply as this model does. A seed makes the same run again, but for the pids.

What a backend can't know, by its manual, is written down in class Model, rule by rule, and nowhere
else. Everything else is exact: who is a member, whose it is, who got which signal, who lives.
"""

import argparse
import ctypes
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time

PATIENCE_S = 120
LIVING_MAX = 40
STEP_OPERATIONS = 120
RANKS = [3, 7, 12, 13]
COUNTED = "RTMIN+1"
NAMES = ["a b", "x) R 1", "tmux: server", "stepd", "a\tb", ") Z 0 0 0 0 0", "((((", "))))", "1 (x) S 0"]
PR_SET_CHILD_SUBREAPER = 36
PF_EXITING = 4


class Mismatch(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Mismatch(text)


def until(what, text):
    """Waits until what() is true, for what the kernel or the agent does on its own."""
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        check(time.monotonic() < deadline, "still not: " + text)
        time.sleep(0.0005)


# ---- processes -------------------------------------------------------------------------------


def read_stat(pid, task=""):
    """(state, threads, start ticks, flags), or None."""
    try:
        with open(f"/proc/{pid}{task}/stat", "rb") as f:
            fields = f.read().rpartition(b")")[2].split()
        return fields[0].decode(), int(fields[17]), int(fields[19]), int(fields[6])
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return None


class Proc:
    """A process of modelproc.c, and what the model knows of it."""

    def __init__(self, pid, connection, parent, rank, leader=False, outside=False):
        self.pid = pid
        self.connection = connection
        self.parent = parent  # None: the agent, or what reaps outside of the step
        self.rank = rank  # of the task it was started by; None: it was added
        self.leader = leader  # a task's first process
        self.outside = outside  # not below the agent
        self.added = False
        self.escaped = parent.escaped if parent else outside  # has another process group
        self.group_leader = False
        self.leaderless = False
        self.alive = True
        self.stopped = False
        self.count = 0
        self.pending = 0
        self.start = read_stat(pid)[2]

    def __repr__(self):
        return f"pid {self.pid} (rank {self.rank}{', leader' if self.leader else ''})"

    def post(self, command):
        try:
            self.connection.send(command.encode())
        except BrokenPipeError:
            raise Mismatch(f"{self} has ended before '{command}'") from None

    def answer(self):
        check(select.select([self.connection], [], [], PATIENCE_S)[0], f"{self} does not answer")
        text = self.connection.recv(256).decode()
        check(text, f"{self} has ended")
        return text

    def do(self, command):
        self.post(command)
        return self.answer()

    def is_silent(self):
        return not select.select([self.connection], [], [], 0)[0]

    def is_dead(self):
        stat = read_stat(self.pid)
        return not stat or stat[2] != self.start or (stat[0] in "ZX" and stat[1] <= 1)

    def has_left(self):
        """Whether none of its threads comes back to its program: the kernel takes an exiting thread from its
        cgroup some time before it is a zombie (do_exit() of 6.18)."""
        try:
            threads = os.listdir(f"/proc/{self.pid}/task")
        except FileNotFoundError:
            return True
        stats = [read_stat(self.pid, "/task/" + t) for t in threads]
        return self.is_dead() or all(not s or s[3] & PF_EXITING for s in stats)

    def is_stopped(self):
        try:
            threads = os.listdir(f"/proc/{self.pid}/task")
        except FileNotFoundError:
            return False
        stats = [read_stat(self.pid, "/task/" + t) for t in threads]
        return all(s and s[0] in "TtZX" for s in stats)


# ---- the socket ------------------------------------------------------------------------------


class CallError(Exception):
    pass


class Client:
    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(path)
        self.data = b""

    def send(self, method, more=False, **parameters):
        message = {"method": "io.stepd.Step." + method, "parameters": parameters}
        if more:
            message["more"] = True
        self.method = method
        try:
            self.sock.sendall(json.dumps(message).encode() + b"\0")
        except BrokenPipeError:
            raise Mismatch(f"the agent has closed the connection before {method}") from None

    def receive(self):
        while b"\0" not in self.data:
            try:
                piece = self.sock.recv(1 << 20)
            except TimeoutError:
                raise Mismatch(f"{self.method} is not answered") from None
            check(piece, "the agent has closed the connection")
            self.data += piece
        frame, _, self.data = self.data.partition(b"\0")
        reply = json.loads(frame)
        if "error" in reply:
            raise CallError(reply["error"].rpartition(".")[2], reply.get("parameters"))
        return reply.get("parameters", {})

    def call(self, method, **parameters):
        self.send(method, **parameters)
        return self.receive()

    def error_of(self, method, **parameters):
        try:
            self.call(method, **parameters)
        except CallError as error:
            return error.args[0]
        return None


# ---- the model -------------------------------------------------------------------------------


class Model:
    """What is true of a step, and what its backend knows of it."""

    def __init__(self, backend):
        self.backend = backend
        self.procs = []
        self.suspended = False

    def living(self):
        return [p for p in self.procs if p.alive]

    def is_member(self, p):
        if self.backend == "pgid":  # what changed its group, or never was in it, is lost
            return not p.escaped
        if self.backend == "linuxproc" and p.outside:  # added ones, and what was seen below them
            while p and not p.added:
                p = p.parent
            return p is not None
        return not p.outside or p.added

    def rank_of(self, p):
        if self.backend == "cgroup":
            return p.rank
        while p and not p.leader:  # by the line of parents, which ends with one that is dead
            p = p.parent
        return p.rank if p else None

    def members(self):
        return [p for p in self.living() if self.is_member(p)]

    def of_ranks(self, ranks):
        return [p for p in self.members() if self.rank_of(p) in ranks]

    def leaders(self):
        return [p for p in self.living() if p.leader]

    def tree(self, root):
        def descends(p):
            while p and p is not root:
                p = p.parent
            return p is root

        return [p for p in self.members() if descends(p)]

    def stands(self, p):
        return p.stopped or (self.suspended and self.is_member(p))

    def moving(self):
        return [p for p in self.living() if not self.stands(p)]

    def may_kill_suspended(self):
        # An end can orphan a process group; the kernel continues its stopped processes then.
        return self.backend == "cgroup"

    def may_add(self):
        # pgid takes children of the agent only; with linuxproc what is added runs on.
        return self.backend == "cgroup" or (self.backend == "linuxproc" and not self.suspended)

    def die(self, dead):
        for p in dead:
            p.alive = False
            p.connection.close()
        for p in self.living():
            if p.parent and not p.parent.alive:
                p.parent = None


# ---- a step ----------------------------------------------------------------------------------


class Step:
    def __init__(self, options, backend, job, rng, listener):
        self.options = options
        self.rng = rng
        self.listener = listener
        self.model = Model(backend)
        self.waiting = {}  # connections of processes that nobody has claimed yet, by pid
        self.exits = {}  # of leaders by rank: wait status
        self.run = os.path.join(options.directory, f"run{job}")
        os.mkdir(self.run)
        self.job = job
        self.stranger = os.getpid()
        self.outsiders = []
        self.start()

    def start(self):
        ranks = ",".join(map(str, RANKS))
        environ = dict(os.environ, STEPD_RUNTIME_DIR=self.run)
        self.agent = subprocess.Popen(
            [self.options.stepd, "run", "-q", "--job", str(self.job), "-n", "40", "--local-ntasks",
             str(len(RANKS)), "--ranks", ranks, "--node-count", "10", "--proctrack", self.model.backend,
             "--", self.options.modelproc, self.listener.getsockname()],
            env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        for _ in RANKS:
            pid, rank, connection = self.accept()
            self.model.procs.append(Proc(pid, connection, None, rank, leader=True))
        until(lambda: self.sockets(), "the step's socket")
        self.client = Client(self.sockets()[0])
        about = self.client.call("Describe")
        self.container, self.name = about["container_id"], about["step"]
        self.group = self.job_group()
        check(about["proctrack"].endswith(self.model.backend), "another tracker: " + about["proctrack"])

    def job_group(self):
        """The directory of the step's cgroup, which must go with it."""
        if self.model.backend != "cgroup":
            return None
        with open("/proc/mounts", encoding="ascii", errors="replace") as f:
            mount = next(m.split()[1] for m in f if m.split()[2] == "cgroup2")
        with open(f"/proc/{self.model.procs[0].pid}/cgroup", encoding="utf-8") as f:
            path = next(g for g in f if g.startswith("0::"))[3:].strip()
        group = os.path.dirname(mount + path)
        # This is node 0 of ten: such a part of a step has its node's number in its group's name.
        check(group.endswith(f"job_{self.job}/step_0.0"), f"a task is in {path}")
        return group if os.path.isdir(group) else None  # in a cgroup namespace it has other names

    def sockets(self):
        paths = [os.path.join(self.run, d, "socket") for d in os.listdir(self.run)]
        return [p for p in paths if os.path.exists(p)]

    def accept(self):
        check(select.select([self.listener], [], [], PATIENCE_S)[0], "a process does not report")
        connection = self.listener.accept()[0]
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        pid = int.from_bytes(credentials[:4], sys.byteorder)
        text = connection.recv(256).decode().split()
        check(text[0] == "hello", f"pid {pid} does not report but '{text}'")
        return pid, int(text[1]), connection

    def draw(self):
        if self.model.suspended and self.rng.random() < 0.15:
            return Step.suspend_or_resume
        return self.rng.choices([o[0] for o in OPERATIONS], [o[1] for o in OPERATIONS])[0]

    def pick(self, procs):
        return self.rng.choice(procs) if procs else None

    # ---- operations: each changes the world and the model alike

    def fork(self):
        parent = self.pick(self.model.moving())
        if not parent or len(self.model.living()) >= LIVING_MAX:
            return False
        reported = int(parent.do("fork").split()[1])
        pid, _, connection = self.accept()
        check(pid == reported, f"{parent} forked {reported}, and {pid} reports")
        self.model.procs.append(Proc(pid, connection, parent, parent.rank, outside=parent.outside))
        self.inherit(self.model.procs[-1], parent)
        return True

    def inherit(self, child, parent):
        # In a cgroup what descends from an added process was born there.
        child.added = parent.added and self.model.backend == "cgroup"

    def daemon(self):
        parent = self.pick(self.model.moving())
        if not parent or len(self.model.living()) >= LIVING_MAX:
            return False
        check(parent.do("daemon") == "ok", f"{parent} makes no daemon")
        pid, _, connection = self.accept()
        child = Proc(pid, connection, None, parent.rank, outside=parent.outside)
        child.escaped = True
        self.inherit(child, parent)
        self.model.procs.append(child)
        return True

    def change_group(self):
        p = self.pick(self.model.moving())
        if not p or p.do(self.rng.choice(["setpgid", "setsid"])) != "ok":
            return False
        p.escaped = True
        return True

    def rename(self):
        p = self.pick(self.model.moving())
        if not p:
            return False
        check(p.do("name " + self.rng.choice(NAMES)) == "ok", f"{p} does not rename")
        return True

    def lose_first_thread(self):
        p = self.pick([p for p in self.model.moving() if not p.leaderless])
        if not p:
            return False
        check(p.do("leaderless") == "ok", f"{p} can't go on without its first thread")
        until(lambda: read_stat(p.pid)[0] == "Z", f"the end of the first thread of {p}")
        p.leaderless = True
        return True

    def expendable(self, procs):
        """Whether the step goes on without these."""
        return any(p not in procs for p in self.model.leaders())

    def see_added(self):
        """Before an end: linuxproc remembers what it has listed while its parent lived."""
        if self.model.backend == "linuxproc":
            self.client.call("ListPids")
            for p in self.model.members():
                p.added = p.added or p.outside

    def bury(self, dead, wait_status):
        for p in dead:
            until(p.is_dead, f"the end of {p}")
            if p.leader:
                self.exits[p.rank] = wait_status
        self.model.die(dead)

    def exit(self):
        p = self.pick(self.model.moving())
        if not p or not self.expendable([p]):
            return False
        self.see_added()
        status = self.rng.randrange(100)
        p.post(f"exit {status}")
        self.bury([p], status << 8)
        return True

    def add(self):
        if not self.model.may_add() or len(self.model.living()) >= LIVING_MAX:
            return False
        environ = {k: v for k, v in os.environ.items() if not k.startswith("SLURM_")}
        child = subprocess.Popen([self.options.modelproc, self.listener.getsockname()], env=environ,
                                 stdin=subprocess.DEVNULL)
        pid, _, connection = self.accept()
        p = Proc(pid, connection, None, None, outside=True)
        self.outsiders.append(child)
        self.model.procs.append(p)
        self.find_one(p)
        check(self.client.error_of("AddPid", pid=pid, start_ticks=p.start + 1) == "NoSuchProcess",
              "another process of the same pid is added")
        self.client.call("AddPid", pid=pid, start_ticks=p.start)
        p.added = True
        self.find_one(p)
        return True

    def draw_target(self):
        """Parameters of Signal, and who gets it."""
        m, rng = self.model, self.rng
        kind = rng.choice(["all", "ranks", "leaders", "one", "tree", "tree"])
        if kind == "all":
            return {}, m.members()
        if kind in ("one", "tree"):
            p = self.pick(m.members())
            if not p:
                return {}, []
            parameters = {"pid": p.pid, "leader": kind == "one"}
            if rng.random() < 0.5:
                parameters["start_ticks"] = p.start
            return parameters, [p] if kind == "one" else m.tree(p)
        ranks = rng.sample(RANKS, rng.randrange(1, len(RANKS)))
        if kind == "leaders":
            ranks = [p.rank for p in m.leaders() if p.rank in ranks and m.is_member(p)]
        else:
            ranks = [r for r in ranks if m.of_ranks([r])]
        text = ",".join(map(str, sorted(ranks)))
        if kind == "leaders":
            return {"ranks": text, "leader": True}, [p for p in m.leaders() if p.rank in ranks]
        return {"ranks": text}, m.of_ranks(ranks)

    def count(self):
        """Signals that are counted: each target gets exactly one, whoever else gets none."""
        parameters, targets = self.draw_target()
        if not targets:
            return False
        self.client.call("Signal", signal=COUNTED, **parameters)
        for p in targets:
            if self.model.stands(p):
                p.pending += 1
            else:
                p.count += 1
        self.expect_counts()
        return True

    def expect_counts(self):
        moving = self.model.moving()
        for p in moving:
            p.post("count")
        for p in moving:
            got = p.answer()
            check(got == f"ok {p.count}", f"{p} had {p.count} signals, and reports '{got}'")

    def flush(self, procs):
        for p in procs:
            if not self.model.stands(p):
                p.count += p.pending
                p.pending = 0

    def kill(self):
        """Signals that end a part of the step, and nobody else."""
        if self.model.suspended and not self.model.may_kill_suspended():
            return False
        name = "KILL" if self.model.suspended else self.rng.choice(["KILL", "SIGTERM", "9", "HUP"])
        parameters, targets = self.draw_target()
        if not parameters or not targets or not self.expendable(targets):
            return False
        self.see_added()
        self.client.call("Signal", signal=name, **parameters)
        number = 9 if name in ("KILL", "9") else getattr(signal, "SIG" + name.replace("SIG", ""))
        self.bury(targets, int(number))
        for p in self.model.living():
            check(not p.is_dead(), f"{p} was ended by {name} to {parameters}, which is not its own")
        return True

    def stop_and_continue(self):
        """Stopped ones stay so over a suspension, and keep their signals."""
        if self.model.suspended:
            return False
        parameters, targets = self.draw_target()
        if not targets:
            return False
        self.client.call("Signal", signal="STOP", **parameters)
        for p in targets:
            until(p.is_stopped, f"the stop of {p}")
            p.stopped = True
        self.count()
        self.list_all()
        if self.rng.random() < 0.5:
            self.suspend()
            self.count()
            self.resume()
            for p in targets:
                check(p.is_stopped(), f"{p} was stopped before the suspension, and goes on after it")
        self.client.call("Signal", signal="CONT", **parameters)
        for p in targets:
            p.stopped = False
        self.flush(targets)
        self.expect_counts()
        return True

    def suspend(self):
        check(not self.model.suspended, "suspended twice")
        self.client.call("Suspend")
        self.model.suspended = True
        check(self.client.call("Describe")["state"] == "suspended", "the step is not called suspended")
        self.counted = [p for p in self.model.members() if not p.stopped]
        for p in self.counted:
            p.post("count")

    def resume(self):
        check(all(p.is_silent() for p in self.counted if p.alive), "a process moves in a suspended step")
        self.client.call("Resume")
        self.model.suspended = False
        counted = [p for p in self.counted if p.alive]
        for p in counted:
            # The count was requested before the signals were sent; but a pending signal comes before an answer.
            p.count += p.pending
            p.pending = 0
            got = p.answer()
            check(got == f"ok {p.count}", f"{p} had {p.count} signals, and reports '{got}'")
        self.flush(self.model.living())
        self.expect_counts()

    def suspend_or_resume(self):
        if self.model.suspended:
            self.resume()
        else:
            self.suspend()

    # ---- questions

    def listed_members(self, **parameters):
        return sorted((p["pid"], -1 if p.get("rank") is None else p["rank"], p.get("start_ticks"))
                      for p in self.client.call("ListPids", **parameters)["pids"])

    def known_members(self, procs, ticks=True):
        ranks = {p: self.model.rank_of(p) for p in procs}
        return sorted((p.pid, -1 if ranks[p] is None else ranks[p], p.start if ticks else None)
                      for p in procs)

    def list_all(self):
        ticks = self.rng.random() < 0.5
        listed = self.listed_members(start_ticks=ticks)
        known = self.known_members(self.model.members(), ticks)
        check([t[:2] for t in listed] == [k[:2] for k in known], f"ListPids: {listed}, and not {known}")
        check(not ticks or listed == known, f"ListPids: start times {listed}, and not {known}")

    def list_ranks(self):
        ranks = self.rng.sample(RANKS, self.rng.randrange(1, len(RANKS) + 1))
        listed = self.listed_members(ranks=",".join(map(str, sorted(ranks))))
        known = self.known_members(self.model.of_ranks(ranks))
        check(listed == known, f"ListPids of {ranks}: {listed}, and not {known}")

    def check_found(self, p, found):
        check(found["pid"] == p.pid and found.get("rank") == self.model.rank_of(p) and
              found["start_ticks"] == p.start and found["container_id"] == self.container and
              found["step"] == self.name and found["namespace_pids"][0] == p.pid,
              f"FindPid of {p}: {found}, and not rank {self.model.rank_of(p)}")

    def find_one(self, p):
        if self.model.is_member(p):
            self.check_found(p, self.client.call("FindPid", pid=p.pid)["found"])
        else:
            error = self.client.error_of("FindPid", pid=p.pid)
            check(error == "NoSuchProcess", f"FindPid of {p}, which is none of the step's: {error}")

    def find(self):
        p = self.pick(self.model.living())
        if p:
            self.find_one(p)
        error = self.client.error_of("FindPid", pid=self.rng.choice([self.stranger, 1, self.agent.pid]))
        check(error == "NoSuchProcess", f"FindPid of a stranger: {error}")

    def find_many(self):
        procs = self.rng.sample(self.model.living(), self.rng.randrange(len(self.model.living()) + 1))
        pids = [p.pid for p in procs] + [1, self.stranger]
        self.rng.shuffle(pids)
        found = {f["pid"]: f for f in self.client.call("FindPids", pids=pids)["found"]}
        members = {p.pid: p for p in procs if self.model.is_member(p)}
        check(set(found) == set(members), f"FindPids: {sorted(found)}, and not {sorted(members)}")
        for pid, p in members.items():
            self.check_found(p, found[pid])

    def list_tasks(self):
        leaders = {p.rank: p for p in self.model.leaders()}

        def agrees(task):
            rank = task["rank"]
            if rank in leaders:
                return task["state"] == "running" and task["pid"] == leaders[rank].pid and \
                    task["start_ticks"] == leaders[rank].start
            return task["state"] == "ended" and task["wait_status"] == self.exits[rank]

        # An end is seen by this model a moment before the agent has reaped it.
        last = []

        def all_agree():
            last[:] = self.client.call("ListTasks")["tasks"]
            return [t["rank"] for t in last] == RANKS and all(map(agrees, last))

        try:
            until(all_agree, "")
        except Mismatch:
            raise Mismatch(f"ListTasks: {last}, and not {leaders}, {self.exits}") from None

    def signal_nobody(self):
        """Errors, and nobody is hit."""
        m = self.model
        dead = [r for r in RANKS if not m.of_ranks([r])]
        if dead:
            error = self.client.error_of("Signal", signal="KILL", ranks=str(dead[0]))
            check(error == "NoSuchTask", f"a signal to rank {dead[0]}, which has no process: {error}")
        for pid in (1, self.stranger, self.agent.pid):
            error = self.client.error_of("Signal", signal=COUNTED, pid=pid)
            check(error == "NoSuchProcess", f"a signal to pid {pid}, a stranger: {error}")
        p = self.pick(m.members())
        if p:
            error = self.client.error_of("Signal", signal="KILL", pid=p.pid, start_ticks=p.start + 1)
            check(error == "NoSuchProcess", f"a signal to another process of {p}'s pid: {error}")
        lost = self.pick([p for p in m.living() if not m.is_member(p)])
        if lost:
            error = self.client.error_of("Signal", signal="KILL", pid=lost.pid)
            check(error == "NoSuchProcess", f"a signal to {lost}, which is none of the step's: {error}")
        self.expect_counts()

    # ---- the end

    def end(self):
        m = self.model
        if m.suspended:
            self.resume()
        members, how = m.members(), self.rng.choice(["kill", "terminate", "exit"])
        if not all(m.is_member(p) for p in m.leaders()):
            how = "exit"  # a task that is lost can't be ended
        client = Client(self.sockets()[0])
        client.send("Wait", more=True)
        check(client.receive()["state"] == "running", "the step does not run")
        if how == "kill":
            self.client.call("Signal", signal="KILL")
        elif how == "terminate":
            self.client.call("Terminate", grace_ms=100)
        else:
            for p in m.leaders():
                p.post("exit 0")
        answer = client.receive()
        while answer.get("result") is None:
            answer = client.receive()
        check(answer["state"] == "ended", f"Wait answers {answer}")
        check(len(answer["result"]["tasks"]) == len(RANKS), f"the result is {answer['result']}")
        for p in members:
            check(p.has_left(), f"{p} outlives its step: {read_stat(p.pid)} after {how}")
        self.agent.wait(PATIENCE_S)
        check(not os.listdir(self.run), f"there is left {os.listdir(self.run)}")
        os.rmdir(self.run)
        check(not self.group or not os.path.exists(self.group), f"{self.group} is left")
        self.clear()

    def clear(self):
        """Ends what the step had lost, as its backend may."""
        for p in self.model.living():
            if not p.is_dead():
                os.kill(p.pid, signal.SIGKILL)
            until(p.is_dead, f"the end of {p}")
            p.connection.close()
        for child in self.outsiders:
            child.wait(PATIENCE_S)

    def give_up(self):
        """After a mismatch."""
        self.agent.kill()
        for p in self.model.living():
            if not p.is_dead():
                os.kill(p.pid, signal.SIGKILL)
        self.agent.wait()


OPERATIONS = [
    (Step.fork, 22), (Step.daemon, 6), (Step.change_group, 4), (Step.rename, 4),
    (Step.lose_first_thread, 1), (Step.exit, 5), (Step.add, 2), (Step.count, 10), (Step.kill, 6),
    (Step.stop_and_continue, 3), (Step.suspend_or_resume, 6), (Step.list_all, 10),
    (Step.list_ranks, 6), (Step.find, 8), (Step.find_many, 5), (Step.list_tasks, 4),
    (Step.signal_nobody, 3),
]


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def run_step(options, backend, job, rng, listener, operations):
    history, done = [], 0
    step = Step(options, backend, job, rng, listener)
    try:
        while done < operations:
            operation = step.draw()
            history.append(operation.__name__)
            done += operation(step) is not False
        step.list_all()
        history.append("end")
        step.end()
    except BaseException:
        print(f"# {backend}, job {job}: after {' '.join(history[-12:])}", flush=True)
        step.give_up()
        raise
    reap()
    return done + 1


def run_backend(options, backend, listener):
    rng = random.Random(f"{options.seed} {backend}")
    done = steps = 0
    begin = time.monotonic()
    while done < options.operations:
        least = min(STEP_OPERATIONS, options.operations - done)
        done += run_step(options, backend, options.job + steps, rng, listener, least)
        steps += 1
    took = time.monotonic() - begin
    print(f"# {backend}: {done} operations in {steps} steps, {took:.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--operations", type=int, default=3400)
    parser.add_argument("--job", type=int, default=os.getpid())
    parser.add_argument("--backend", action="append", required=True)
    parser.add_argument("stepd")
    parser.add_argument("modelproc")
    parser.add_argument("directory")
    options = parser.parse_args()
    # What leaves a step, or was added to one, comes here when its parent ends.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(os.path.join(options.directory, "model"))
    listener.listen(128)
    for backend in options.backend:
        print(f"# {backend}: seed {options.seed}", flush=True)
        try:
            run_backend(options, backend, listener)
        except (Mismatch, CallError, OSError) as error:
            print(f"# {backend}: seed {options.seed}: {error!r}", flush=True)
            return 1
    return 0


sys.exit(main())
