#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""For tests/system/0719-slurm-extern.sh:

    slurm_adopt.py queries SOCKET        what an extern step answers, a line each; then the same of the user
                                         and the groups to a process that has been added to it
    slurm_adopt.py login DIRECTORY USER  a login by Slurm's own PAM module: DIRECTORY has the file "sshd" of
                                         the service. Prints the job that the module has put this process
                                         into, and becomes a process that sleeps
"""
import ctypes
import os
import sys

import slurm_client
from slurm_client import Client, Closed


class Conversation(ctypes.Structure):
    _fields_ = [("function", ctypes.c_void_p), ("data", ctypes.c_void_p)]


# Of a name and the step's own process, of all, of its own process, and what is none.
def look_up(client, who, user, groups):
    for match in (0, 1, 2, 3, -1):
        for number, name in ((65534, ""), (7, ""), (7, "nobody"), (7, "root"), (7, "nogroup")):
            if user:
                print(who, "user", match, number, name, client.user(match, number, name))
            # slurmstepd of 22.05 does not look at the process there
            if groups and (match or who == "member"):
                print(who, "groups", match, number, name, client.groups(match, number, name))


# As another user; the interpreter may be where that one can't execute it.
def add_as_stranger(path):
    pid = os.getpid()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(65533)
        os.setuid(65533)
        try:
            result = Client(path).add_pid(pid)
        except Closed: # as slurmstepd from 25.11 on; that is a failure, too
            result = -1
        print("added by a stranger", result, flush=True)
        os._exit(0)
    os.waitpid(child, 0)


def queries(path):
    client = Client(path)
    print("state", client.state())
    print("uid", client.number(slurm_client.UID), "node", client.number(slurm_client.NODEID))
    print("tasks", client.task_info())
    print("display", client.x11_display(), "namespace", client.namespace())
    print("limits", client.mem_limits())
    if client.version >= slurm_client.V26_05: # slurmctld reduces a job's memory
        print("update", client.update_memory(77), client.mem_limits())
    print("member", client.has_pid(os.getpid()), client.has_pid(1))
    look_up(client, "stranger", True, True)
    add_as_stranger(path)
    print("added", client.add_pid(os.getpid()), "member", client.has_pid(os.getpid()))
    look_up(client, "member", True, True)


def login(directory, user):
    pam = ctypes.CDLL("libpam.so.0", mode=ctypes.RTLD_GLOBAL)  # for the module, which is not linked with it
    handle = ctypes.c_void_p()
    conversation = Conversation()
    pam.pam_getenv.restype = ctypes.c_char_p
    status = pam.pam_start_confdir(
        b"sshd", user.encode(), ctypes.byref(conversation), directory.encode(), ctypes.byref(handle))
    if status == 0:
        status = pam.pam_acct_mgmt(handle, 0)
    job = pam.pam_getenv(handle, b"SLURM_JOB_ID") if handle else None
    print("status", status, "job", (job or b"none").decode(), flush=True)
    if status == 0:
        os.execvp("sleep", ["sleep", "1000"])


{"queries": queries, "login": login}[sys.argv[1]](*sys.argv[2:])
