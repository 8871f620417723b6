#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares jobs of 0939-jobd-lab.sh with what was asked for:

    jobd_lab.py TOPIC JOBS WANTED WORK

JOBS is what "jobctl queue -t all --json" has printed. WANTED has a line for each job: its number, or
ARRAY_TASK, then KEY=VALUE words; or "order" and jobs that follow each other. WORK/r/JOB has what the
job's script wrote: "begin UPTIME", "end UPTIME", and its output is in a file of WORK. Each deviation
is a line; the topics are the methods below that have no underscore.
"""
import itertools
import json
import os
import sys


def numbers(text):
    """The numbers of "0-2,5"."""
    parts = [part.split("-") for part in text.split(",") if part]
    return [n for part in parts for n in range(int(part[0]), int(part[-1]) + 1)]


class Lab:
    def __init__(self, jobs, wanted, work):
        with open(jobs, encoding="utf-8") as f:
            self.jobs = {str(job["job_id"]): job for job in json.load(f)["jobs"]}
        for job in list(self.jobs.values()):
            if "array_job_id" in job:
                self.jobs["%d_%d" % (job["array_job_id"], job["array_task_id"])] = job
        self.work = work
        self.wanted = []
        self.orders = []
        with open(wanted, encoding="utf-8") as f:
            for line in f:
                words = line.split()
                if words[0] == "order":
                    self.orders.append(words[1:])
                else:
                    self.wanted.append((words[0], dict(word.split("=", 1) for word in words[1:])))

    def _all(self):
        """Those that are there, each with its job's document and what is wanted of it."""
        return [(name, self.jobs[name], keys) for name, keys in self.wanted if name in self.jobs]

    def _times(self, job, kind):
        path = os.path.join(self.work, "r", str(job["job_id"]))
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as f:
            return [float(line.split()[1]) for line in f if line.split()[0] == kind]

    def _runs(self):
        """(begin, end, document) of each job's last run, where both are known."""
        for job in {job["job_id"]: job for job in self.jobs.values()}.values():
            begins, ends = self._times(job, "begin"), self._times(job, "end")
            if begins and len(begins) == len(ends) and "allocated_nodes" in job:
                yield begins[-1], ends[-1], job

    @staticmethod
    def _differs(name, what, got, wanted):
        if str(got) != str(wanted):
            print(f"job {name}: {what} is {got}, not {wanted}")

    def states(self):
        for name, keys in self.wanted:
            if name not in self.jobs:
                print(f"job {name} is lost")
        for name, job, keys in self._all():
            state = ",".join([job["job_state"]] + job["state_flags"])
            self._differs(name, "state", state, keys.get("state", "COMPLETED"))
            wanted = keys.get("exit", "0" if state == "COMPLETED" else "any")
            if wanted != "any":
                self._differs(name, "exit_code", job.get("exit_code", "none"), wanted)
            for key in ("restart_cnt", "comment", "name", "time_limit_min", "user_id", "partition"):
                if key in keys:
                    self._differs(name, key, job.get(key), keys[key])

    def runs(self):
        for name, job, keys in self._all():
            begins = len(self._times(job, "begin"))
            self._differs(name, "number of runs", begins, keys.get("runs", 1))
            if keys.get("ends") != "any":
                ends = len(self._times(job, "end"))
                self._differs(name, "number of ends", ends, keys.get("ends", begins))

    def places(self):
        for name, job, keys in self._all():
            allocated = job.get("allocated_nodes", [])
            nodes = [node["name"] for node in allocated]
            if not nodes:
                if keys.get("runs") != "0":
                    print(f"job {name} has no nodes")
                continue
            if "cpus" in keys:
                self._differs(name, "number of CPUs", job["cpus"], keys["cpus"])
            self._differs(name, "sum of CPUs", sum(node["cpus"] for node in allocated), job["cpus"])
            for node in allocated:
                self._differs(name, "number of cores", len(numbers(node["cores"])), node["cpus"])
                if "mem" in keys:
                    self._differs(name, "memory", node["memory_mb"], keys["mem"])
            if "nodes" in keys:
                self._differs(name, "node list", ",".join(nodes), keys["nodes"])
            self._differs(name, "number of nodes", len(nodes), keys.get("count", len(nodes)))
            if not set(nodes) <= set(keys.get("among", ",".join(nodes)).split(",")):
                print(f"job {name}: {nodes} are not all of {keys['among']}")
            if "each" in keys:
                self._differs(name, "CPUs of nodes", ",".join(str(n["cpus"]) for n in allocated), keys["each"])

    def output(self):
        for name, job, keys in self._all():
            path = keys.get("out", f"slurm-{name}.out").replace("ID", str(job["job_id"]))
            if path == "none" or keys.get("runs") == "0":
                continue
            try:
                with open(os.path.join(self.work, path), encoding="utf-8") as f:
                    text = f.readline().strip()
            except OSError as e:
                print(f"job {name}: {e}")
                continue
            first = job["allocated_nodes"][0]
            self._differs(name, "output", text, " ".join(
                [str(job["job_id"]), job["nodes"], str(len(job["allocated_nodes"])), str(first["cpus"]),
                 keys.get("tasks", str(len(job["allocated_nodes"]))), job["partition"]]))

    def order(self):
        for name, job, keys in self._all():
            begins = self._times(job, "begin")
            for other in filter(None, keys.get("after", "").split(",")):
                ends = self._times(self.jobs[other], "end")
                if not begins or not ends or begins[0] < ends[0]:
                    print(f"job {name} begins at {begins}, before the end of {other}, {ends}")
            # By the daemon's times: both may start in one pass, and then their scripts run in any order.
            for other in filter(None, keys.get("follows", "").split(",")):
                start, earlier = job.get("start_time", 0), self.jobs[other].get("start_time", 0)
                if not begins or not 0 < earlier <= start:
                    print(f"job {name} starts at {start}, before {other}, {earlier}")
            if begins and begins[0] < float(keys.get("since", 0)):
                print(f"job {name} begins at {begins}, before {keys['since']}")
            if job.get("start_time", 0) < int(keys.get("notbefore", 0)):
                print(f"job {name} starts at {job.get('start_time')}, before {keys['notbefore']}")
        for names in self.orders:
            for one, next_one in zip(names, names[1:]):
                end, begin = self._times(self.jobs[one], "end"), self._times(self.jobs[next_one], "begin")
                if not end or not begin or begin[0] < end[0]:
                    print(f"job {next_one} begins at {begin}, and {one} before it ends at {end}")

    def cores(self):
        places = {}
        for begin, end, job in self._runs():
            for node in job["allocated_nodes"]:
                for core in numbers(node["cores"]):
                    places.setdefault((node["name"], core), []).append((begin, end, job["job_id"]))
        for place, spans in sorted(places.items()):
            spans.sort()
            for (_, end, one), (begin, _, other) in zip(spans, spans[1:]):
                if begin < end:
                    print(f"core {place} has jobs {one} and {other} at a time")
        if len(places) < 32:
            print(f"only {len(places)} cores were in use")

    def memory(self):
        changes = {}
        for begin, end, job in self._runs():
            for node in job["allocated_nodes"]:
                changes.setdefault(node["name"], []).extend(
                    [(begin, 1, node["memory_mb"]), (end, 0, -node["memory_mb"])])
        for node, moments in sorted(changes.items()):
            most = max(itertools.accumulate(change for _, _, change in sorted(moments)))
            if most > 1000:
                print(f"jobs have {most} MB of node {node} at a time")

    def arrays(self):
        limits, changes = {}, {}
        for begin, end, job in self._runs():
            if job.get("array_max_tasks"):
                limits[job["array_job_id"]] = job["array_max_tasks"]
                changes.setdefault(job["array_job_id"], []).extend([(begin, 1), (end, -1)])
        for array, moments in changes.items():
            most = max(itertools.accumulate(change for _, change in sorted(moments)))
            if most > limits[array]:
                print(f"{most} tasks of array {array} run at a time")
        if not changes:
            print("no array has a limit")


if __name__ == "__main__":
    getattr(Lab(*sys.argv[2:5]), sys.argv[1])()
