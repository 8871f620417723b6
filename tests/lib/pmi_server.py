#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""pmi_server.py SIZE FAULT[:COMMAND] PROGRAM [ARG...]: an engine's PMI-1 server with one fault.

Starts the program SIZE times with PMI_FD, PMI_RANK and PMI_SIZE, serves all until they have ended,
and exits with the greatest status. Faults: none, split (answers byte by byte), absent (the last
process is not started), kill (whoever hangs up is killed, as Hydra does it), and of the answer to a command: silent, hangup, garbage, long, refuse,
other, spaces (more blanks and unknown keys); card:TEXT is what stepd-1 holds."""
import os
import selectors
import socket
import subprocess
import sys
import time


class Server:
    def __init__(self, size, fault):
        self.size = size
        self.fault, _, self.about = fault.partition(":")
        self.space = {}
        self.processes = {}
        self.waiting = []
        self.selector = selectors.DefaultSelector()

    def start(self, argv):
        children = []
        for rank in range(self.size - (self.fault == "absent")):
            ours, theirs = socket.socketpair()
            env = dict(os.environ, PMI_FD=str(theirs.fileno()), PMI_RANK=str(rank),
                       PMI_SIZE=str(self.size), PMI_JOBID="outer", PMIX_NAMESPACE="outer")
            children.append(subprocess.Popen(argv, env=env, pass_fds=[theirs.fileno()]))
            theirs.close()
            self.processes[ours] = children[-1]
            self.selector.register(ours, selectors.EVENT_READ, bytearray())
        return children

    def answer(self, fields):
        command = fields["cmd"]
        if command == "init":
            return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
        if command == "get_maxes":
            return "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024"
        if command == "get_my_kvsname":
            return "cmd=my_kvsname kvsname=kvs_1"
        if command == "put":
            self.space[fields["key"]] = fields["value"]
            return "cmd=put_result rc=0 msg=success"
        if command == "get":
            value = self.space.get(fields["key"])
            if self.fault == "card" and fields["key"] == "stepd-1":
                value = self.about
            if value is None:
                return "cmd=get_result rc=-1 msg=key_not_found value=unknown"
            return "cmd=get_result rc=0 msg=success value=" + value
        if command == "finalize":
            return "cmd=finalize_ack rc=0"
        raise ValueError(command)

    def spoil(self, conn, command, text):
        """Whether the fault has taken the answer's place."""
        if self.about != command or self.fault in ("none", "split", "absent", "kill", "card"):
            return False
        if self.fault == "hangup":
            self.selector.unregister(conn)
            conn.close()
        elif self.fault == "garbage":
            conn.sendall(b"\xff\x00 what\n")
        elif self.fault == "long":
            try:
                conn.sendall(b"cmd=" + b"x" * 20000)
            except BrokenPipeError:
                pass  # it has seen enough
        elif self.fault == "refuse":
            conn.sendall(b"cmd=%s rc=-1 msg=no_such_thing\n" % text.split()[0][4:].encode())
        elif self.fault == "other":
            conn.sendall(b"cmd=surprise rc=0\n")
        elif self.fault == "spaces":
            conn.sendall(text.replace(" ", "   new_key=1  ", 1).encode() + b"\n")
        return True

    def send(self, conn, command, text):
        if self.spoil(conn, command, text):
            return
        for piece in (text + "\n" if self.fault == "split" else [text + "\n"]):
            conn.sendall(piece.encode())
            if self.fault == "split":
                time.sleep(0)

    def serve(self, conn, line):
        head, _, value = line.partition(" value=")
        fields = dict(pair.split("=", 1) for pair in head.split())
        fields["value"] = value
        if fields["cmd"] != "barrier_in":
            self.send(conn, fields["cmd"], self.answer(fields))
            return
        self.waiting.append(conn)
        if len(self.waiting) == self.size:
            for waiting in self.waiting:
                self.send(waiting, "barrier_in", "cmd=barrier_out")
            self.waiting = []

    def read(self, key):
        try:
            data = key.fileobj.recv(4096)
        except ConnectionResetError:
            data = b""
        if not data:
            self.selector.unregister(key.fileobj)
            if self.fault == "kill":
                self.processes[key.fileobj].kill()
            return
        key.data.extend(data)
        while b"\n" in key.data:
            line, _, rest = bytes(key.data).partition(b"\n")
            key.data[:] = rest
            self.serve(key.fileobj, line.decode())

    def run(self, argv):
        children = self.start(argv)
        while self.selector.get_map():
            for key, _ in self.selector.select():
                if key.fileobj.fileno() >= 0:
                    self.read(key)
        return max(child.wait() for child in children)


if __name__ == "__main__":
    sys.exit(Server(int(sys.argv[1]), sys.argv[2]).run(sys.argv[3:]))
