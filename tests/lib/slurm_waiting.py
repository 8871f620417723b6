# SPDX-License-Identifier: BSD-3-Clause
"""A task of one process, which writes its step's number and waits: for SIGUSR2, with which it ends."""
import os
import signal


def on_usr2(*_):
    print("usr2", flush=True)
    os._exit(5)


signal.signal(signal.SIGUSR2, on_usr2)
print(os.environ["SLURM_STEP_ID"], flush=True)
while True:
    signal.pause()
