# SPDX-License-Identifier: BSD-3-Clause
"""What a local user can send to a step's PMI port:

    pmi_stranger.py rush HOST:PORT UID TEXT COUNT
        Stops the service while UID connects, sends and closes COUNT times, so that it accepts
        what has no owner any more.
    pmi_stranger.py call HOST:PORT UID TEXT
        Prints the first line of the answer, or "refused".

TEXT has its newlines as \\n.
"""
import os
import signal
import socket
import sys


def connect(address):
    host, port = address.rsplit(":", 1)
    s = socket.socket()  # of IPv4: nothing is looked up, and no module loaded for it
    s.connect((host, int(port)))
    return s


def find_service(address):
    """The process that listens there."""
    port = int(address.rsplit(":", 1)[1])
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table.readlines()[1:]]
    links = {"socket:[%s]" % row[9] for row in rows
             if row[3] == "0A" and int(row[1].split(":")[1], 16) == port}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            fds = os.listdir("/proc/%s/fd" % pid)
            if any(os.readlink("/proc/%s/fd/%s" % (pid, fd)) in links for fd in fds):
                return int(pid)
        except OSError:
            continue  # it has ended
    sys.exit("nobody listens at %s" % address)


def as_user(uid, function):
    """In a child, as that user; its exit status is 0 or the test's failure."""
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        function()
        sys.stdout.flush()
        os._exit(0)
    if os.waitpid(pid, 0)[1] != 0:
        sys.exit("user %d could not even try" % uid)


def main():
    verb, address, uid = sys.argv[1], sys.argv[2], int(sys.argv[3])
    text = sys.argv[4].replace("\\n", "\n").encode()

    def rush():
        for _ in range(int(sys.argv[5])):
            s = connect(address)
            s.sendall(text)
            s.close()

    def call():
        try:
            s = connect(address)
            s.sendall(text)
            print(s.makefile().readline().strip() or "refused")
        except ConnectionRefusedError:
            print("nobody listens")
        except ConnectionError:
            print("refused")

    if verb == "call":
        as_user(uid, call)
        return
    service = find_service(address)
    os.kill(service, signal.SIGSTOP)
    try:
        as_user(uid, rush)
    finally:
        os.kill(service, signal.SIGCONT)


main()
