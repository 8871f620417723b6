#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spank_host.py STEPD LIBRARY SPEC FACTS: "stepd serve" with the library that hosts SPANK plugins, as
stepd-slurmstepd starts it (contrib/slurm/spank_wire.h). Prints the messages, a line each, and the exit
status."""
import array
import os
import socket
import subprocess
import sys

stepd, library, spec, facts = sys.argv[1:]
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
memory = os.memfd_create("facts")
with open(facts, "rb") as f:
    os.write(memory, f.read())
ours.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [memory]))])
os.close(memory)
agent = subprocess.Popen(
    [stepd, "serve", "--quiet", "--spec", spec, "--step-hooks", library, "--step-hooks-fd", str(theirs.fileno())],
    pass_fds=[theirs.fileno()])
theirs.close()
while message := ours.recv(8192):
    print(message.decode())
print("status", agent.wait())
