# SPDX-License-Identifier: BSD-3-Clause
"""The rows of run-slurmd, which starts two Slurms: steps that stepd-slurmstepd serves in turn with those of
slurmstepd. Each row is a function that measures one round with one of them and returns numbers; a table has
the medians, and the median of slurmstepd's number divided by ours, round by round: above 1 we are ahead.

slurmd_rows.py DIRECTORY BUILD ROW...; BENCH_ROUNDS.
"""

import os
import pathlib
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(sys.argv[2])
PROGRAMS = BUILD / "tests/bench"
OUTPUT_BYTES = 100_000_000
LISTED = 1000
LINES = 32
DAEMONS = 10
PATIENCE_S = 90
SETTLE_S = 0.5


class Failed(Exception):
    pass


class Slurm:
    """One of the two, and its allocation."""

    def __init__(self, directory, name):
        text = (directory / f"{name}.env").read_bytes()
        pairs = (entry.split(b"=", 1) for entry in text.split(b"\0") if b"=" in entry)
        self.env = {key.decode(): value.decode() for key, value in pairs}
        self.marks = directory / f"{name}.marks"
        self.job = self.env["SLURM_JOB_ID"]
        self.node = self.env["SLURM_JOB_NODELIST"]
        self.spool = pathlib.Path(self.env["SLURM_CONF"]).parent / "spool" / self.node

    def start(self, *args, **how):
        how.setdefault("stdout", subprocess.DEVNULL)
        how.setdefault("stderr", subprocess.DEVNULL)
        return subprocess.Popen(args, env=self.env, stdin=subprocess.DEVNULL, start_new_session=True, **how)

    def srun(self, n, *command, **how):
        return self.start("srun", "-Q", "--overlap", "-n", str(n), *map(str, command), **how)

    def step(self, n, *command):
        """A step that writes "all" when it is there; srun's process and the step's number."""
        script = 'test "$SLURM_PROCID" != 0 || echo $SLURM_STEP_ID; exec "$@"'
        srun = self.srun(n, "sh", "-c", script, "-", *command, stdout=subprocess.PIPE)
        lines = [srun.stdout.readline().decode().strip() for _ in range(n + 1)]
        number = [line for line in lines if line.isdigit()]
        if lines.count("all") != n or len(number) != 1:
            srun.kill()
            raise Failed(f"no step of {n} tasks")
        return srun, number[0]

    def cancel(self, number, srun):
        self.start("scancel", f"{self.job}.{number}").wait()
        srun.wait(PATIENCE_S)
        self.await_end(number)

    def socket(self, number):
        return self.spool / f"{self.node}_{self.job}.{number}"

    def await_end(self, number):
        """Until nobody of the step's daemon is left."""
        end = time.monotonic() + PATIENCE_S
        while self.daemons(number):
            if time.monotonic() > end:
                raise Failed(f"step {number} does not end")
            time.sleep(0.001)

    def daemons(self, number):
        """slurmstepd by its title, stepd-slurmstepd and the agent by slurmd's environment."""
        title = f"[{self.job}.{number}]".encode()
        node = f"BENCH_SLURM_NODE={self.node}\0".encode()
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                exe = os.readlink(f"/proc/{pid}/exe")
                if "step" not in os.path.basename(exe):
                    continue
                line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                env = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:
                continue
            if title in line or node in env:
                found.append(int(pid))
        return found

    def take_marks(self, kind):
        text = self.marks.read_bytes()
        records = [struct.unpack_from("=QQ", text, at) for at in range(0, len(text), 16)]
        return sorted(at for at, of in records if of == ord(kind))


def ms_since(begin):
    return (time.monotonic() - begin) * 1e3


def wait(process, what):
    if process.wait(PATIENCE_S) != 0:
        raise Failed(f"{what} ends with {process.returncode}")


# ---- the rows ----------------------------------------------------------------------------------


def command(slurm, n):
    begin = time.monotonic()
    wait(slurm.srun(n, "true"), "srun")
    return [ms_since(begin)]


def start_up(slurm, n):
    """From slurmd's exec to the first and to the last task's."""
    os.truncate(slurm.marks, 0)
    wait(slurm.srun(n, PROGRAMS / "stamp"), "srun")
    execs, begins = slurm.take_marks("x"), slurm.take_marks("b")
    if len(execs) != 1 or len(begins) != n:
        raise Failed(f"{len(execs)} steps with {len(begins)} tasks")
    return [(begins[0] - execs[0]) / 1e6, (begins[-1] - execs[0]) / 1e6]


def pages(pids):
    """MiB of these processes: their pages divided by those who have them, what they alone have, and what of that was
    written."""
    pss = uss = written = 0
    for pid in pids:
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "Pss":
                pss += int(value.split()[0])
            elif name in ("Private_Clean", "Private_Dirty"):
                uss += int(value.split()[0])
                written += int(value.split()[0]) if name == "Private_Dirty" else 0
    if not pids:
        raise Failed("nobody of the step's daemon is found")
    return pss / 1024, uss / 1024, written / 1024


def memory(slurm, n):
    """Of all processes of the daemon of its node's only step; and what that of one more such step has alone."""
    srun, number = slurm.step(n, PROGRAMS / "pause")
    time.sleep(SETTLE_S)
    pids = slurm.daemons(number)
    pss, _, written = pages(pids)
    other_srun, other = slurm.step(n, PROGRAMS / "pause")
    time.sleep(SETTLE_S)
    _, added, _ = pages([pid for pid in slurm.daemons(other) if pid not in pids])
    slurm.start("scancel", f"{slurm.job}.{other}").wait()
    other_srun.wait(PATIENCE_S)
    slurm.cancel(number, srun)
    return [pss, written, added]


def output(slurm, n):
    source = slurm.marks.parent / f"output.{n}"
    if not source.exists():
        line = b"%079d\n" % 7
        source.write_bytes(line * (OUTPUT_BYTES // n // len(line)))
    begin = time.monotonic()
    wait(slurm.srun(n, "cat", source), "srun")
    return [ms_since(begin)]


def listpids(slurm, n):
    srun, number = slurm.step(1, PROGRAMS / "pause", n)
    begin = time.monotonic()
    scontrol = slurm.start("scontrol", "listpids", f"{slurm.job}.{number}", stdout=subprocess.PIPE)
    lines = scontrol.stdout.read().count(b"\n") - 1
    wait(scontrol, "scontrol")
    took = ms_since(begin)
    raw = subprocess.run([PROGRAMS / "slurmlist", "20", slurm.socket(number)], capture_output=True, check=True)
    slurm.cancel(number, srun)
    return [took, float(raw.stdout.split()[0]) / 1e3, lines]


def restless():
    """Pids of that program's processes, whoever runs it."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/exe") == str(PROGRAMS / "restless"):
                found.append(int(pid))
        except OSError:
            continue
    return found


def end_restless():
    for _ in range(1000):
        pids = restless()
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def forking(slurm, n):
    """From scancel until srun has ended, and until nobody of the step's daemon is left; who lives then."""
    srun, number = slurm.step(1, PROGRAMS / "restless", "fork", n)
    begin = time.monotonic()
    slurm.start("scancel", f"{slurm.job}.{number}").wait()
    srun.wait(PATIENCE_S)
    ended = ms_since(begin)
    slurm.await_end(number)
    whole = ms_since(begin)
    left = len(restless())
    end_restless()
    return [ended, whole, left]


def daemons(slurm, n):
    """From the task's end until srun has ended, and until nobody of the step's daemon is left; who lives then."""
    os.truncate(slurm.marks, 0)
    srun, number = slurm.step(1, PROGRAMS / "restless", "leave", n)
    wait(srun, "srun")
    now = time.monotonic()
    slurm.await_end(number)
    end = time.monotonic()
    begin = slurm.take_marks("e")
    left = len(restless())
    end_restless()
    if len(begin) != 1:
        raise Failed("no record of the task's end")
    return [(now - begin[0] / 1e9) * 1e3, (end - begin[0] / 1e9) * 1e3, left]


MS, MIB, COUNT = "ms", "MiB", ""
ROWS = {
    "true": (command, (1, 16, 64, 256), [("srun -n %d true", MS)]),
    "start": (start_up, (1, 16, 64, 256),
              [("%d tasks, exec of the agent to the first task's", MS), ("%d tasks, to the last task's", MS)]),
    "memory": (memory, (1, 64, 256),
               [("memory of the agent, %d tasks, PSS", MIB), ("the same, %d tasks, its own that was written", MIB),
                ("one more step's, %d tasks, its own", MIB)]),
    "output": (output, (1, 16), [("100 MB of output by %d tasks", MS)]),
    "listpids": (listpids, (LISTED,),
                 [("scontrol listpids of %d", MS), ("the request alone, of %d", MS), ("pids listed, of %d", COUNT)]),
    "forking": (forking, (LINES,),
                [("scancel of %d lines that fork, to srun's end", MS), ("the same, %d, to the agent's end", MS),
                 ("survivors, of %d", COUNT)]),
    "daemons": (daemons, (DAEMONS,),
                [("end with %d daemons left, to srun's end", MS), ("the same, %d, to the agent's end", MS),
                 ("survivors, of %d", COUNT)]),
}

# ---- the table ---------------------------------------------------------------------------------


def median_ratio(real, served):
    pairs = [r / s for r, s in zip(real, served) if s > 0]
    return f"{statistics.median(pairs):8.2f}" if pairs else "       -"


def print_row(title, unit, served, real):
    ours, theirs = statistics.median(served), statistics.median(real)
    ratio = median_ratio(real, served) if unit else "        "
    form = "10.2f" if unit else "10.0f"
    print(f"{title:52} {ours:{form}} {theirs:{form}} {unit:3} {ratio}", flush=True)


def measure(function, slurm, n):
    for attempt in range(3):
        try:
            return function(slurm, n)
        except (Failed, OSError, subprocess.SubprocessError) as why:
            print(f"# {function.__name__} {n} on {slurm.node}: {why}", flush=True)
            end_restless()
    raise Failed("three times: given up")


def run_row(slurms, name, rounds):
    function, sizes, columns = ROWS[name]
    chosen = [int(n) for n in os.environ.get("BENCH_TASKS", "").split()]
    for n in [n for n in sizes if not chosen or len(sizes) == 1 or n in chosen]:
        got = [[], []]
        for slurm in slurms:
            measure(function, slurm, n)  # a warm-up
        for i in range(rounds):
            for k in (0, 1) if i % 2 else (1, 0):
                got[k].append(measure(function, slurms[k], n))
        for at, (title, unit) in enumerate(columns):
            print_row(title % n, unit, [g[at] for g in got[0]], [g[at] for g in got[1]])


def main():
    directory = pathlib.Path(sys.argv[1])
    slurms = [Slurm(directory, "served"), Slurm(directory, "real")]
    rounds = int(os.environ.get("BENCH_ROUNDS", "7"))
    load = " ".join(f"{n:.0f}" for n in os.getloadavg())
    print(f"{os.cpu_count()} processors, Linux {os.uname().release}, load {load}; medians of {rounds} rounds in turn")
    print(f"{'':52} {'served':>10} {'slurmstepd':>10}      {'times':>8}", flush=True)
    for name in sys.argv[3:] or ROWS:
        run_row(slurms, name, rounds)
    print(f"load {' '.join(f'{n:.0f}' for n in os.getloadavg())} at the end")


main()
