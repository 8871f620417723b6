# SPDX-License-Identifier: BSD-3-Clause
"""A client of Slurm's step sockets for tests: requests as bytes, answers by their sizes."""
import os
import socket
import struct

V22_05, V23_02, V23_11, V24_05, V25_11, V26_05, V26_11 = (n << 8 for n in (38, 39, 40, 41, 44, 45, 46))

USUAL = int(os.environ.get("STEPD_TEST_PROTOCOL", V22_05))

SIGNAL, STATE, PID_IN_CONTAINER, DAEMON_PID, SUSPEND, RESUME, TERMINATE = 4, 5, 8, 9, 10, 11, 12
TASK_INFO, LIST_PIDS, COMPLETION, MEM_LIMITS, UID, NODEID = 14, 15, 18, 19, 20, 21
RECONFIGURE, USAGE, NOTIFY = 16, 17, 4022
ADD_PID, X11_DISPLAY, USER, GROUPS, NAMESPACE, NAMESPACES, MEM_UPDATE = 22, 23, 24, 25, 26, 28, 30


class Closed(Exception):
    """The other end closed the connection in place of an answer."""


class Client:
    def __init__(self, path, version=USUAL, timeout=30):
        self.version = version
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(timeout)
        self.sock.connect(path)
        self.hello = None
        if version is not None:
            self.send(struct.pack("=i", version))
            (self.hello,) = self.take("i")

    def send(self, data):
        try:
            self.sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            raise Closed("before all was sent") from None

    def take_bytes(self, size):
        data = b""
        while len(data) < size:
            try:
                more = self.sock.recv(size - len(data))
            except ConnectionResetError:
                more = b""
            if not more:
                raise Closed(f"after {len(data)} of {size} bytes")
            data += more
        return data

    def take(self, layout):
        return struct.unpack("=" + layout, self.take_bytes(struct.calcsize("=" + layout)))

    def call(self, request, layout, body=b""):
        self.send(struct.pack("=i", request) + body)
        return self.take(layout)

    def signal(self, number, flags=0, details=b"", uid=0):
        body = struct.pack("=iii", number, flags, len(details)) + details + struct.pack("=I", uid)
        return self.call(SIGNAL, "ii", body)

    def suspend(self, request=SUSPEND):
        return self.call(request, "ii", struct.pack("=H", 0xffff) if self.version < V23_11 else b"")

    def resume(self):
        return self.suspend(RESUME)

    def terminate(self):
        return self.call(TERMINATE, "ii")

    def completion(self, first, last, status):
        """As slurmd sends it, without accounting, and for no step that manages others."""
        step = struct.pack("=IB", 0, 0) if self.version >= V24_05 else b""
        return self.call(COMPLETION, "ii", struct.pack("=iii", first, last, status) + step + struct.pack("=iB", 1, 0))

    def state(self):
        return self.call(STATE, "i")[0]

    def has_pid(self, pid):
        return self.call(PID_IN_CONTAINER, "B", struct.pack("=i", pid))[0]

    def number(self, request):
        return self.call(request, "I")[0]

    def mem_limits(self):
        return self.call(MEM_LIMITS, "QQ" if self.version < V26_05 else "Q")

    def update_memory(self, mb):
        """From 26.05 on."""
        return self.call(MEM_UPDATE, "i", struct.pack("=Q", mb))[0]

    def task_info(self):
        """[(local id, rank, pid, exited, status)]"""
        (n,) = self.call(TASK_INFO, "I")
        return [self.take("iIiBi") for _ in range(n)]

    def list_pids(self):
        (n,) = self.call(LIST_PIDS, "I")
        return list(struct.unpack(f"={n}I", self.take_bytes(4 * n)))

    def usage(self):
        """(the packed record, the number of tasks)"""
        (size,) = self.call(USAGE, "i")
        return self.take_bytes(size), self.take("I")[0]

    def notify(self, text):
        text = text.encode() + b"\0"
        return self.call(NOTIFY, "i", struct.pack("=i", len(text)) + text)[0]

    def reconfigure(self):
        return self.call(RECONFIGURE, "ii", struct.pack("=i", 0) if self.version >= V23_11 else b"")

    def add_pid(self, pid):
        return self.call(ADD_PID, "i", struct.pack("=i", pid))[0]

    def x11_display(self):
        """(the display, the length of its file's name)"""
        return self.call(X11_DISPLAY, "ii")

    def text(self):
        return self.take_bytes(self.take("i")[0]).decode()

    def look_up(self, request, match, number, name=""):
        name = name.encode()
        return self.call(request, "i", struct.pack("=iIi", match, number, len(name)) + name)[0]

    def user(self, match, number, name=""):
        """The entry as getent shows it, or ""."""
        if not self.look_up(USER, match, number, name):
            return ""
        return ":".join([self.text(), self.text(), *map(str, self.take("II")), self.text(), self.text(), self.text()])

    def groups(self, match, number, name=""):
        n = self.look_up(GROUPS, match, number, name)
        return " ".join(":".join([self.text(), self.text(), str(self.take("I")[0]), self.text()]) for _ in range(n))

    def namespace(self):
        return self.call(NAMESPACE if self.version < V25_11 else NAMESPACES, "i")[0]

    def namespace_of(self):
        """As readlink shows it; or what comes in place of a descriptor."""
        number = self.namespace()
        if number <= 0:
            return number
        if self.version >= V25_11:
            self.take("i")
        _, fds, _, _ = socket.recv_fds(self.sock, 1, 1)
        return f"mnt:[{os.fstat(fds[0]).st_ino}]"

    def at_end(self):
        """Whether the other end has closed, with nothing before it."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self):
        self.sock.close()
