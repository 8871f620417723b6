#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Steps whose agents are killed and upgraded in random order, while their tasks end.

  upheaval.py STEPD NEXT JOB ROUNDS BACKEND...

Each round runs a step with tasks that end at random moments, each with a status that is known
beforehand; its agent is killed (the next one adopts at once) and upgraded to NEXT, over and over,
until the step has ended. A subscriber follows the events from one agent to the next. Complains on
standard output, a line for each thing that is not as it must be; the last line counts. The exit
status is 1 if there were complaints. STEPD_RUNTIME_DIR is the place; UPHEAVAL_SEED repeats a run.
"""
import glob
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import varlink  # noqa: E402

LIMIT_S = 600
STATUS_LOST = 121
TASK = """d() { sleep 0.$1; }
set -- %s
shift $((SLURM_PROCID * 2))
d $1
case $2 in -*) kill $2 $$;; esac
exit $2
"""


def is_ready(pid):
    """Whether a signal would not end it: as any program, it has to begin first."""
    try:
        with open("/proc/%d/status" % pid) as f:
            blocked = [line for line in f if line.startswith("SigBlk:")]
    except OSError:
        return False
    return bool(int(blocked[0].split()[1], 16) >> (signal.SIGUSR2 - 1) & 1) if blocked else False


class Follower(threading.Thread):
    """Reads events from the number after the last one it has, as long as there is a socket."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path = path
        self.numbers = []
        self.ends = {}
        self.connections = 0
        self.over = threading.Event()

    def follow(self):
        s = varlink.connect(self.path, LIMIT_S)
        with s:
            frame = {"method": "io.stepd.Step.Events", "more": True,
                     "parameters": {"from": self.numbers[-1] + 1 if self.numbers else 1}}
            s.sendall(json.dumps(frame).encode() + b"\0")
            self.connections += 1
            for answer in varlink.frames(s):
                self.note(json.loads(answer).get("parameters", {}).get("event"))

    def note(self, event):
        if not event:
            return
        self.numbers.append(event["sequence"])
        if event["kind"] == "task_exit":
            self.ends.setdefault(event["rank"], []).append(event.get("wait_status"))

    def run(self):
        while not self.over.is_set():
            try:
                self.follow()
            except OSError:
                pass
            time.sleep(0.002)


class Round:
    def __init__(self, number, backend, args):
        self.number = number
        self.backend = backend
        self.stepd, self.next, self.job = args
        self.name = "%s.%d" % (self.job, number)
        self.dir = os.path.join(os.environ["STEPD_RUNTIME_DIR"], "n1_" + self.name)
        self.wrong = []
        self.acts = []
        self.lost = 0
        count = random.choice((1, 2, 5, 12))
        self.tasks = [(random.randrange(60), random.choice((0, 1, 3, 77, 255, -9, -15)))
                      for _ in range(count)]

    def put(self, program):
        new = "%s.new" % self.stepd
        shutil.copy(program, new)
        os.rename(new, self.stepd)

    def start(self, words):
        self.agent = subprocess.Popen(
            [self.stepd] + words, stdin=subprocess.DEVNULL, stderr=self.log, stdout=self.log)

    def launch(self):
        words = " ".join("%02d %d" % task for task in self.tasks)
        spec = {"job": int(self.job), "step": self.number, "ntasks": len(self.tasks), "node": {"name": "n1"},
                "proctrack": self.backend, "argv": ["sh", "-c", TASK % words],
                "env": {"PATH": "/usr/bin:/bin", "STEPD_TEST_JOB": self.job}}
        path = os.path.join(os.environ["STEPD_RUNTIME_DIR"], "..", "spec")
        with open(path, "w") as f:
            json.dump(spec, f)
        ready, ours = os.pipe()
        os.set_inheritable(ours, True)
        self.agent = subprocess.Popen(
            [self.stepd, "serve", "--spec", path, "--ready-fd", str(ours)], pass_fds=[ours],
            stdin=subprocess.DEVNULL, stderr=self.log, stdout=self.log)
        os.close(ours)
        with os.fdopen(ready) as f:
            if not f.readline():
                self.wrong.append("was not launched")

    def upheave(self):
        """Until the step has ended; the status of its last agent."""
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            # Ever less often: where a successor needs longer to take over than it has, none would.
            pause = random.choice((0, 0, 0.001, 0.005, 0.02, 0.05)) * random.random() * 2
            time.sleep(pause * 1.01 ** len(self.acts))
            code = self.agent.poll()
            if code is not None:
                return code
            act = random.choice(("upgrade", "upgrade", "kill", "both"))
            self.acts.append(act)
            if act != "kill" and is_ready(self.agent.pid):
                self.agent.send_signal(signal.SIGUSR2)
            if act != "upgrade":
                self.agent.kill()
                if self.agent.wait() != -signal.SIGKILL:
                    return self.agent.returncode
                self.start(["adopt", self.name])
                self.adopted += 1
        self.wrong.append("an agent is stuck")
        self.agent.kill()
        return self.agent.wait()

    def wanted(self, i):
        status = self.tasks[i][1]
        return status << 8 if status >= 0 else -status

    def check_result(self, code):
        try:
            with open(self.dir + "/result.json") as f:
                result = json.load(f)
        except (OSError, ValueError) as e:
            self.wrong.append("no result: %s (status %d)" % (e, code))
            return
        got = [task["wait_status"] for task in result["tasks"]]
        for i, status in enumerate(got):
            if status is None:
                self.lost += 1
            elif status != self.wanted(i):
                self.wrong.append("task %d: %r, not %d" % (i, status, self.wanted(i)))
        for rank, statuses in self.follower.ends.items():
            if got[rank] is not None and statuses != [got[rank]]:
                self.wrong.append("task %d: told %r, result %r" % (rank, statuses, got[rank]))
        if result["state"] != "ended":
            self.wrong.append("the result's state is " + result["state"])
        if code not in (result["exit_code"], 125 if self.adopted else None):
            self.wrong.append("exits with %d, the result says %d" % (code, result["exit_code"]))

    def check_left(self):
        left = [e for e in os.listdir(self.dir) if e != "result.json"] if os.path.isdir(self.dir) else []
        for pattern in ("/sys/fs/cgroup/*/job_%s/step_%d", "/sys/fs/cgroup/*/*/job_%s/step_%d"):
            left += glob.glob(pattern % (self.job, self.number))
        if left:
            self.wrong.append("left: %s" % " ".join(left))

    def check_events(self):
        numbers = self.follower.numbers
        if numbers != list(range(1, len(numbers) + 1)):
            self.wrong.append("events: %r" % numbers)

    def run(self):
        self.adopted = 0
        self.put(self.next)
        path = os.path.join(os.environ["STEPD_RUNTIME_DIR"], "..", "log")
        with open(path, "w+") as self.log:
            self.launch()
            self.follower = Follower(self.dir + "/socket")
            self.follower.start()
            self.code = self.upheave()
            self.follower.over.set()
            self.follower.join(LIMIT_S)
            self.check_result(self.code)
            self.check_events()
            self.check_left()
            self.log.seek(0)
            self.text = self.log.read()
        shutil.rmtree(self.dir, ignore_errors=True)


def main():
    stepd, nxt, job, rounds = sys.argv[1:5]
    backends = sys.argv[5:]
    seed = int(os.environ.get("UPHEAVAL_SEED", 0)) or random.randrange(1, 1 << 32)
    random.seed(seed)
    bad = tasks = lost = kills = upgrades = connections = 0
    for number in range(int(rounds)):
        r = Round(number, backends[number % len(backends)], (stepd, nxt, job))
        r.run()
        tasks += len(r.tasks)
        lost += r.lost
        kills += r.adopted
        upgrades += r.text.count("continues as version")
        connections += r.follower.connections
        if r.wrong:
            bad += 1
            print("round %d (seed %d), %s, %s: %s\n%s" % (
                number, seed, r.backend, " ".join(r.acts[-50:]), "; ".join(r.wrong), r.text), flush=True)
    print("%d rounds, %d tasks, %d agents killed, %d upgrades, %d subscriptions: %d statuses lost, %d rounds wrong" % (
        int(rounds), tasks, kills, upgrades, connections, lost, bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
