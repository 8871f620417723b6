#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks of the adapter's protocol, for tests/system/0700-slurm-protocol.sh:

    slurm_checks.py GROUP SPOOL NODE [ARG...]

Each check is a line, "ok NAME" or "not ok NAME: WHY".
"""
import errno
import os
import random
import resource
import struct
import sys
import time

import slurm_client as slurm
from slurm_client import Client, Closed

VERSIONS = (slurm.V22_05, slurm.V23_02, slurm.V23_11, slurm.V25_11, slurm.V26_05, slurm.V26_11)
FIRST_PID = 100000  # of slurm_agent.py
STRANGER = 65534


def check(name, got, wanted):
    print(f"ok {name}" if got == wanted else f"not ok {name}: got {got!r}, wanted {wanted!r}",
          flush=True)


def check_closed(name, function):
    try:
        print(f"not ok {name}: got {function()!r}", flush=True)
    except Closed:
        print(f"ok {name}", flush=True)


def path(spool, node, step):
    return f"{spool}/{node}_{step}"


def as_stranger(function, *args):
    """Runs it as another user; whether it came to its end."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(STRANGER, STRANGER, STRANGER)
            os.setresuid(STRANGER, STRANGER, STRANGER)
            function(*args)
            sys.stdout.flush()
            os._exit(0)
        except BaseException as e:
            print(f"not ok as another user: {e!r}", flush=True)
            os._exit(1)
    os.waitpid(pid, 0)


# ---- what is answered -----------------------------------------------------------------------------
def check_queries(spool, node, agent_pid):
    for version in VERSIONS:
        c = Client(path(spool, node, "7.0"), version)
        check(f"{version}: the version is answered", c.hello, version)
        check(f"{version}: the state is answered", c.state(), 2)
        check(f"{version}: the daemon's pid is answered", c.number(slurm.DAEMON_PID), int(agent_pid))
        check(f"{version}: the uid is answered", c.number(slurm.UID), 1234)
        check(f"{version}: the node id is answered", c.number(slurm.NODEID), 3)
        check(f"{version}: a pid of the step is found in it", c.has_pid(FIRST_PID), 1)
        check(f"{version}: a pid of another step is not found", c.has_pid(1), 0)
        check(f"{version}: a pid of no process is not found", c.has_pid(-1), 0)
        check(f"{version}: the tasks are answered", c.task_info(),
              [(0, 10, -1, 1, 256), (1, 11, -1, 0, -1), (2, 12, FIRST_PID + 2, 0, -1)])
        check(f"{version}: 10000 pids are answered", c.list_pids(), list(range(FIRST_PID, FIRST_PID + 10000)))
        check(f"{version}: the memory limits are answered", set(c.mem_limits()), {0})
        check(f"{version}: a second request on the connection is answered", c.state(), 2)
        c.close()


def check_states(spool, node):
    """A step of each state, 8.0 and on, in this order."""
    for i, (old, new) in enumerate(((1, 1), (2, 2), (2, 2), (3, 3), (3, 4), (3, 4))):
        for version, wanted in ((slurm.V23_02, old), (slurm.V23_11, new)):
            c = Client(path(spool, node, f"8.{i}"), version)
            check(f"{version}: the state of 8.{i} is answered", c.state(), wanted)
            c.close()


def check_actions(spool, node):
    for version in VERSIONS:
        c = Client(path(spool, node, "7.0"), version)
        check(f"{version}: a signal with a reason is accepted", c.signal(15, 0, b"why not"), (0, 0))
        check(f"{version}: a signal without a reason is accepted", c.signal(10), (0, 0))
        check(f"{version}: suspend is accepted", c.suspend(), (0, 0))
        check(f"{version}: resume is accepted", c.resume(), (0, 0))
        check(f"{version}: an announcement is accepted", c.signal(996), (0, 0))
        check(f"{version}: a number that is no signal is refused", c.signal(500), (-1, errno.EINVAL))
        check(f"{version}: a signal for debuggers is not supported", c.signal(995), (-1, errno.EOPNOTSUPP))
        check(f"{version}: terminate is accepted", c.terminate(), (0, 0))
        c.close()
        c = Client(path(spool, node, "7.1"), version)
        check(f"{version}: an action that fails has its error", c.signal(15), (-1, 4027))
        check(f"{version}: the connection goes on after an action that failed", c.state(), 2)
        c.close()


def check_pipeline(spool, node):
    c = Client(path(spool, node, "7.0"), None)
    c.version = slurm.V26_11
    c.send(struct.pack("=iiii", slurm.V26_11, slurm.STATE, slurm.UID, slurm.NODEID))
    c.sock.shutdown(1)
    check("all requests sent at once are answered, also after half a close", c.take("iiIi"),
          (slurm.V26_11, 2, 1234, 3))
    check("the connection is closed after half a close", c.at_end(), True)
    c = Client(path(spool, node, "7.0"), None)
    for byte in struct.pack("=iii", slurm.V26_11, slurm.STATE, slurm.UID):
        c.send(bytes([byte]))
        time.sleep(0.002)
    check("requests sent byte by byte are answered", c.take("iiI"), (slurm.V26_11, 2, 1234))


# ---- who may ----------------------------------------------------------------------------------------
def stranger_calls(spool, node):
    for version in (slurm.V22_05, slurm.V26_11):
        c = Client(path(spool, node, "7.0"), version)
        check(f"{version}: a query of another user is answered", c.list_pids()[:2], [FIRST_PID, FIRST_PID + 1])
        check(f"{version}: a signal of another user is refused", c.signal(9, 0, b"", 0), (-1, errno.EPERM))
        check(f"{version}: terminate of another user is refused", c.terminate(), (-1, errno.EPERM))
        check(f"{version}: suspend of another user is refused", c.suspend(), (-1, errno.EPERM))
        check(f"{version}: resume of another user is refused", c.resume(), (-1, errno.EPERM))
        check(f"{version}: an announcement of another user is refused", c.signal(996), (-1, errno.EPERM))
        check(f"{version}: a query of another user is answered after refused actions", c.number(slurm.UID), 1234)


def owner_calls(spool, node):
    """7.2 is STRANGER's."""
    c = Client(path(spool, node, "7.2"), slurm.V26_11)
    check("a query of the owner is answered", c.number(slurm.UID), STRANGER)
    check("a signal of the owner is accepted", c.signal(15), (0, 0))
    check("terminate of the owner is accepted", c.terminate(), (0, 0))
    check("suspend of the owner is refused", c.suspend(), (-1, errno.EPERM))
    check("resume of the owner is refused", c.resume(), (-1, errno.EPERM))
    check("a message of the owner to the step's standard error is refused", c.signal(999), (-1, errno.EPERM))


def check_access(spool, node):
    as_stranger(stranger_calls, spool, node)
    as_stranger(owner_calls, spool, node)


def private_stranger(spool, node):
    for request in (slurm.STATE, slurm.TASK_INFO, slurm.LIST_PIDS, slurm.UID, slurm.MEM_LIMITS):
        c = Client(path(spool, node, "7.0"), slurm.V26_11)
        check_closed(f"private: another user's request {request} is not answered",
                     lambda: c.call(request, "i"))
    c = Client(path(spool, node, "7.0"), slurm.V26_11)
    check("private: an action is refused", c.terminate(), (-1, errno.EPERM))
    c = Client(path(spool, node, "7.2"), slurm.V26_11)
    check("private: a query of the owner is answered", c.number(slurm.UID), STRANGER)


def check_private(spool, node):
    as_stranger(private_stranger, spool, node)
    c = Client(path(spool, node, "7.0"), slurm.V26_11)
    check("private: a query of root is answered", c.number(slurm.UID), 1234)


# ---- what is no request -----------------------------------------------------------------------------
def check_garbage(spool, node):
    address = path(spool, node, "7.0")
    for version in (0, -1, 1, 9727, -2**31):
        c = Client(address, version)
        check(f"version {version} is refused", c.hello, -1)
        check(f"version {version} is refused, and the connection closed", c.at_end(), True)
    for version in (slurm.V26_11 + 1, 12032, 2**31 - 1):
        c = Client(address, version)
        check(f"version {version} is answered with ours", c.hello, slurm.V26_11)
    for request in (-1, 0, 2, 3, 6, 7, 13, 16, 17, 27, 29, 31, 4004, 2**31 - 1):
        c = Client(address, slurm.V26_11)
        check_closed(f"request {request} is unknown", lambda: c.call(request, "i"))
    c = Client(address, slurm.V22_05)
    check_closed("a completion is not taken", lambda: c.completion(1, 1, 0))
    for length in (-1, -2**31, 4097, 2**31 - 1):
        c = Client(address, slurm.V26_11)
        check_closed(f"a reason of {length} bytes is refused",
                     lambda: c.call(slurm.SIGNAL, "ii", struct.pack("=iii", 15, 0, length)))
    c = Client(address, slurm.V26_11)
    check("a reason of 4096 bytes is accepted", c.signal(10, 0, b"x" * 4096), (0, 0))
    rng = random.Random(7)
    for _ in range(300):
        c = Client(address, rng.choice((None, slurm.V22_05, slurm.V26_11)))
        try:
            c.send(rng.randbytes(rng.randrange(1, 6000)))
        except Closed:
            pass
        c.close()
    c = Client(address, slurm.V26_11)
    check("a request after 300 times random bytes is answered", c.state(), 2)


def check_disconnects(spool, node):
    address = path(spool, node, "7.0")
    for body in (b"", b"\0", struct.pack("=i", slurm.V26_11),
                 struct.pack("=iib", slurm.V26_11, slurm.SIGNAL, 1),
                 struct.pack("=ii", slurm.V26_11, slurm.LIST_PIDS)):
        for _ in range(20):
            c = Client(address, None)
            c.send(body)
            c.close()
    c = Client(address, slurm.V26_11)
    check("a request after 100 disconnects is answered", c.state(), 2)


# ---- many, slow and dead ----------------------------------------------------------------------------
def check_many(spool, node):
    """7.6 has a thousand processes."""
    clients = [Client(path(spool, node, "7.6"), slurm.V26_11) for _ in range(200)]
    for c in clients:
        c.send(struct.pack("=i", slurm.LIST_PIDS))
    wanted = list(range(FIRST_PID, FIRST_PID + 1000))
    right = 0
    for c in clients:
        (n,) = c.take("I")
        right += list(struct.unpack(f"={n}I", c.take_bytes(4 * n))) == wanted
    check("200 connections at once are all answered", right, 200)


def many_of_a_user(spool, node):
    clients = []
    for i in range(64):
        clients.append(Client(path(spool, node, "7.0"), slurm.V26_11))
    check_closed("a user's 65th connection is closed",
                 lambda: Client(path(spool, node, "7.0"), slurm.V26_11))
    check("a user's 64th connection is served", clients[63].state(), 2)
    clients[0].close()
    c = None
    for _ in range(500):  # the close has to be seen first
        try:
            c = Client(path(spool, node, "7.0"), slurm.V26_11)
            break
        except Closed:
            time.sleep(0.01)
    check("a user's closed connection lets another one connect", c is not None and c.state(), 2)


def check_cap(spool, node):
    as_stranger(many_of_a_user, spool, node)


def check_slow(spool, node):
    """7.3 hangs in all, 7.4 takes no connection; 7.0 is well."""

    def served():
        begin = time.monotonic()
        c = Client(path(spool, node, "7.0"), slurm.V26_11)
        for _ in range(20):
            c.state()
            c.list_pids()
        return time.monotonic() - begin

    alone = served()
    hung = [Client(path(spool, node, "7.3"), slurm.V26_11) for _ in range(10)]
    for c in hung:
        c.send(struct.pack("=i", slurm.LIST_PIDS))
    stopped = [Client(path(spool, node, "7.4"), slurm.V26_11) for _ in range(3)]
    for c in stopped:
        c.send(struct.pack("=i", slurm.STATE))
    lazy = Client(path(spool, node, "7.0"), slurm.V26_11)
    lazy.send(struct.pack("=i", slurm.LIST_PIDS) * 1000)  # and takes none of the answers
    silent = Client(path(spool, node, "7.0"), None)
    half = Client(path(spool, node, "7.0"), slurm.V26_11)
    half.send(struct.pack("=i", slurm.SIGNAL))
    acting = Client(path(spool, node, "7.3"), slurm.V26_11)
    acting.send(struct.pack("=i", slurm.TERMINATE))
    began = time.monotonic()
    beside = served()
    alone_or_not = "hung agents and slow clients do not delay others: %.0f ms, and %.0f alone"
    check(alone_or_not % (beside * 1e3, alone * 1e3), beside < max(20 * alone, 1), True)
    for name, each in (("hung", hung), ("stopped", stopped)):
        closed = 0
        for c in each:
            try:
                c.take("I")
            except Closed:
                closed += 1
        check(f"queries to a {name} agent are closed", closed, len(each))
    check_closed("a client that sends half a request is disconnected", lambda: half.take("i"))
    check_closed("a client that sends nothing is disconnected", lambda: silent.take("i"))
    check("hung agents and slow clients are not disconnected before 8 seconds", time.monotonic() - began > 8, True)


def check_broken(spool, node):
    c = Client(path(spool, node, "7.5"), slurm.V26_11)
    check_closed("a query to an agent that sends nonsense is closed", c.state)
    c = Client(path(spool, node, "7.5"), slurm.V26_11)
    check("an action by an agent that sends nonsense fails", c.terminate()[0], -1)


# ---- the adapter's own size -------------------------------------------------------------------------
def check_resources(spool, node, adapter_pid, before):
    """After all of the above: as many descriptors as before, and memory is small."""
    fds = []
    for _ in range(500):
        fds = os.listdir(f"/proc/{adapter_pid}/fd")
        if len(fds) == int(before):
            break
        time.sleep(0.02)
    check("the adapter has as many descriptors as before", len(fds), int(before))
    with open(f"/proc/{adapter_pid}/status") as f:
        kib = next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
    print(f"# resident: {kib} KiB")
    if not os.environ.get("STEPD_TEST_SANITIZERS"):
        check("the adapter has less than 64 MiB of memory", kib < 64 * 1024, True)


def main():
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    globals()["check_" + sys.argv[1]](*sys.argv[2:])


main()
