# SPDX-License-Identifier: BSD-3-Clause
"""A step of several nodes on this machine, an agent each:

    pmi_nodes.py STEPD NODES TASKS block|cyclic JOB [OPTION...] -- PROGRAM [ARG...]

Its exit status is the first node's; the agents' are printed in the last line, "status 0 0". With
PMI_NODES_TAP, a file, the nodes reach each other through a relay, which appends to it all that
passes.
"""
import os
import socket
import subprocess
import sys
import threading


def relay(source, target, tap):
    while True:
        data = source.recv(65536)
        if not data:
            break
        tap.write(data)
        target.sendall(data)
    target.shutdown(socket.SHUT_WR)


def listen_between(address, tap):
    """The port of a relay to that address."""
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen(64)

    def serve():
        while True:
            here = s.accept()[0]
            there = socket.create_connection(address)
            for ends in ((here, there), (there, here)):
                threading.Thread(target=relay, args=(*ends, tap), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return s.getsockname()[1]


def main():
    stepd, nodes, tasks, layout, job = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
    sockets = []
    for _ in range(nodes):
        s = socket.socket()
        s.bind(("127.0.0.1", 0))
        s.listen(64)
        sockets.append(s)
    ports = [s.getsockname()[1] for s in sockets]
    if "PMI_NODES_TAP" in os.environ:
        tap = open(os.environ["PMI_NODES_TAP"], "ab", buffering=0)
        ports = [listen_between(("127.0.0.1", port), tap) for port in ports]
    addresses = ",".join("127.0.0.1:%d" % port for port in ports)
    each = -(-tasks // nodes)
    node_of = [r // each if layout == "block" else r % nodes for r in range(tasks)]
    ranks = ":".join(",".join(str(r) for r in range(tasks) if node_of[r] == i) for i in range(nodes))
    agents = []
    has_secret = "--wire-auth=none" not in sys.argv
    for i in range(nodes):
        secret, end = os.pipe()
        os.write(end, b"0123456789abcdef" * 2)
        os.close(end)
        agents.append(subprocess.Popen(
            [stepd, "run", "--mpi=pmi2", "--job", job, "--node-id", str(i), "--node-count", str(nodes),
             "--node-list", "n[0-%d]" % (nodes - 1), "--node-name", "n%d" % i, "--node-ranks", ranks,
             "-n", str(tasks), "--wire-addresses", addresses, "--wire-listen-fd",
             str(sockets[i].fileno())] + (["--wire-secret-fd", str(secret)] if has_secret else [])
            + sys.argv[6:],
            pass_fds=[sockets[i].fileno(), secret]))
        os.close(secret)
    for s in sockets:
        s.close()
    status = [agent.wait() for agent in agents]
    print("status", *status, flush=True)
    sys.exit(status[0])


main()
