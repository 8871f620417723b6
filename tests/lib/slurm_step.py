#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What Slurm's clients can do to a real step, for tests/system/0703-slurm-actions.sh:

    slurm_step.py SOCKET VERSION VERB [ARG...]

Prints what came back, a value a line; "closed" if the connection was.
"""
import sys

import slurm_client
from slurm_client import Client, Closed


def main():
    path, version, verb, *args = sys.argv[1:]
    numbers = [int(a) if a.lstrip("-").isdigit() else a for a in args]
    try:
        c = Client(path, int(version), timeout=60)
        if verb == "tasks":
            for task in c.task_info():
                print(*task)
        elif verb == "pids":
            print(*sorted(c.list_pids()), sep="\n")
        elif verb in ("uid", "nodeid", "daemon_pid"):
            print(c.number(getattr(slurm_client, verb.upper())))
        else:
            result = getattr(c, verb)(*numbers)
            print(*result if isinstance(result, tuple) else (result,))
    except Closed:
        print("closed")


main()
