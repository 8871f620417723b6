# SPDX-License-Identifier: BSD-3-Clause
#
# start_all.py COUNT COMMAND: starts all relays of a steprun, as srun does: each has its rank in PMI_RANK,
# the last one first, and gets what comes for any; and their lines are mixed, none of which may be longer
# than 1,024 bytes (status 99).
import os, subprocess, sys, threading

n, command = int(sys.argv[1]), sys.argv[2]
parts = [subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env=dict(os.environ, PMI_RANK=str(n - 1 - i))) for i in range(n)]
lock = threading.Lock()


def feed():
    for line in sys.stdin.buffer:
        for part in parts:
            try:
                part.stdin.write(line)
                part.stdin.flush()
            except OSError:
                pass
    for part in parts:
        try:
            part.stdin.close()
        except OSError:
            pass


def mix(part):
    pending = b""
    while chunk := os.read(part.stdout.fileno(), 65536):
        lines = (pending + chunk).split(b"\n")
        pending = lines.pop()
        with lock:
            if any(len(line) > 1023 for line in lines):
                os._exit(99)
            sys.stdout.buffer.write(b"".join(line + b"\n" for line in lines))
            sys.stdout.buffer.flush()


threading.Thread(target=feed, daemon=True).start()
mixers = [threading.Thread(target=mix, args=(part,)) for part in parts]
for mixer in mixers:
    mixer.start()
for mixer in mixers:
    mixer.join()
os._exit(max(part.wait() for part in parts))
