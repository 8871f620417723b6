# SPDX-License-Identifier: BSD-3-Clause
"""A step of several nodes on this machine, an agent each:

    pmi_nodes.py STEPD NODES TASKS block|cyclic JOB [OPTION...] -- PROGRAM [ARG...]

Its exit status is the first node's; the agents' are printed in the last line, "status 0 0".
"""
import os
import socket
import subprocess
import sys


def main():
    stepd, nodes, tasks, layout, job = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
    sockets = []
    for _ in range(nodes):
        s = socket.socket()
        s.bind(("127.0.0.1", 0))
        s.listen(64)
        sockets.append(s)
    addresses = ",".join("127.0.0.1:%d" % s.getsockname()[1] for s in sockets)
    each = -(-tasks // nodes)
    node_of = [r // each if layout == "block" else r % nodes for r in range(tasks)]
    ranks = ":".join(",".join(str(r) for r in range(tasks) if node_of[r] == i) for i in range(nodes))
    agents = []
    for i in range(nodes):
        secret, end = os.pipe()
        os.write(end, b"0123456789abcdef" * 2)
        os.close(end)
        agents.append(subprocess.Popen(
            [stepd, "run", "--mpi=pmi2", "--job", job, "--node-id", str(i), "--node-count", str(nodes),
             "--node-list", "n[0-%d]" % (nodes - 1), "--node-name", "n%d" % i, "--node-ranks", ranks,
             "-n", str(tasks), "--wire-addresses", addresses, "--wire-listen-fd",
             str(sockets[i].fileno()), "--wire-secret-fd", str(secret)] + sys.argv[6:],
            pass_fds=[sockets[i].fileno(), secret]))
        os.close(secret)
    for s in sockets:
        s.close()
    status = [agent.wait() for agent in agents]
    print("status", *status, flush=True)
    sys.exit(status[0])


main()
