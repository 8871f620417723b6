# SPDX-License-Identifier: BSD-3-Clause
"""A raw PMI client, as a task of a step: pmi_talk.py SCENARIO [ARG...]

Each scenario prints the answers, a line each, or "ok NAME" and "not ok NAME: WHY". The connection
is PMI_FD's, or PMI_PORT's.
"""
import os
import socket
import sys
import time

RANK = int(os.environ.get("PMI_RANK", "-1"))
SIZE = int(os.environ.get("PMI_SIZE", "-1"))


def connect():
    if "PMI_FD" in os.environ:
        return socket.socket(fileno=int(os.environ["PMI_FD"]))
    host, port = os.environ["PMI_PORT"].rsplit(":", 1)
    s = socket.create_connection((host, int(port)))
    s.sendall(b"cmd=initack pmiid=%s\n" % os.environ["PMI_ID"].encode())
    return s


class Talk:
    def __init__(self):
        self.socket = connect()
        self.have = b""
        self.version = 1
        if "PMI_FD" not in os.environ:
            self.hello = [self.line() for _ in range(4)]

    def send(self, data):
        self.socket.sendall(data)

    def more(self):
        data = self.socket.recv(65536)
        if not data:
            raise EOFError("the server has hung up")
        self.have += data

    def line(self):
        while b"\n" not in self.have:
            self.more()
        line, self.have = self.have.split(b"\n", 1)
        return line.decode("latin-1")

    def frame(self):
        while len(self.have) < 6:
            self.more()
        size = 6 + int(self.have[:6])
        while len(self.have) < size:
            self.more()
        body, self.have = self.have[6:size], self.have[size:]
        return body.decode("latin-1")

    def call(self, text):
        """Sends a command and returns its answer."""
        self.post(text)
        return self.hear()

    def post(self, text):
        data = text.encode("latin-1")
        self.send(data + b"\n" if self.version == 1 else b"%-6d" % len(data) + data)

    def hear(self):
        return self.line() if self.version == 1 else self.frame()

    def init(self, version):
        self.version = 1
        answer = self.call("cmd=init pmi_version=%d pmi_subversion=%d" % (version, version % 2))
        self.version = version
        return answer


def print(text):  # a line is one write, or those of several tasks mix
    os.write(1, (text + "\n").encode())


def field(answer, key, between=";"):
    for part in answer.replace(";;", "\0").split(between):
        if part.startswith(key + "="):
            return part[len(key) + 1:].replace("\0", ";")
    return None


def is_(got, wanted, name):
    print("ok %s" % name if got == wanted else "not ok %s: got '%s', wanted '%s'" % (name, got, wanted))


def conversation1(t):
    """What MPICH sends, and a little more."""
    out = [t.init(1)]
    out.append(t.call("cmd=get_maxes"))
    out.append(t.call("cmd=get_appnum"))
    kvs = t.call("cmd=get_my_kvsname")
    out.append(kvs)
    kvs = kvs.split("kvsname=")[1]
    out.append(t.call("cmd=get kvsname=%s key=PMI_process_mapping" % kvs))
    out.append(t.call("cmd=barrier_in"))
    out.append(t.call("cmd=put kvsname=%s key=k%d value=v%d=x" % (kvs, RANK, RANK)))
    out.append(t.call("cmd=barrier_in"))
    out.append(t.call("cmd=get kvsname=%s key=k%d" % (kvs, (RANK + 1) % SIZE)))
    out.append(t.call("cmd=get kvsname=%s key=-NONEXIST-KEY" % kvs))
    out.append(t.call("cmd=barrier_in"))
    if RANK == 0:
        out.append(t.call("cmd=publish_name service=svc port=port1"))
        out.append(t.call("cmd=lookup_name service=svc"))
        out.append(t.call("cmd=unpublish_name service=svc"))
        out.append(t.call("cmd=lookup_name service=svc"))
    out.append(t.call("cmd=finalize"))
    print("\n".join(line.replace(kvs, "KVS") for line in out))


def conversation2(t):
    out = [t.init(2)]
    out.append(t.call("cmd=fullinit;pmijobid=%s;pmirank=%d;threaded=FALSE;"
                     % (os.environ.get("PMI_JOBID", "0"), RANK)))
    kvs = t.call("cmd=job-getid;")
    out.append(kvs)
    kvs = field(kvs, "jobid")
    out.append(t.call("cmd=info-getjobattr;key=PMI_process_mapping;"))
    out.append(t.call("cmd=info-getjobattr;key=universeSize;"))
    out.append(t.call("cmd=kvs-put;key=k%d;value=v%d=x;" % (RANK, RANK)))
    out.append(t.call("cmd=kvs-fence;"))
    out.append(t.call("cmd=kvs-get;jobid=%s;srcid=-1;key=k%d;" % (kvs, (RANK + 1) % SIZE)))
    out.append(t.call("cmd=kvs-get;jobid=%s;srcid=-1;key=nothing;" % kvs))
    if RANK == 0:
        out.append(t.call("cmd=info-putnodeattr;key=na;value=nv;"))
    out.append(t.call("cmd=info-getnodeattr;key=na;wait=TRUE;"))
    out.append(t.call("cmd=kvs-fence;"))
    out.append(t.call("cmd=finalize;"))
    print("\n".join(line.replace(kvs, "KVS") for line in out))


def pieces(t):
    """Byte by byte, and everything in one write; the other rank likewise."""
    text = (b"cmd=init pmi_version=1 pmi_subversion=1\ncmd=put key=p%d value=1\ncmd=barrier_in\n"
            b"cmd=get key=p%d\ncmd=finalize\n" % (RANK, 1 - RANK))
    if RANK == 0:
        for byte in text:
            t.send(bytes([byte]))
    else:
        t.send(text)
    got = [t.line() for _ in range(5)]
    is_(got[3], "cmd=get_result rc=0 msg=success value=1", "PMI-1 sent in pieces is answered, rank %d" % RANK)
    t.version = 2
    text = b"cmd=init pmi_version=2 pmi_subversion=0\n"
    for body in (b"cmd=fullinit;", b"cmd=kvs-put;key=q%d;value=a;;b;" % RANK, b"cmd=kvs-fence;",
                 b"cmd=kvs-get;key=q%d;" % (1 - RANK), b"cmd=finalize;"):
        text += b"%6d" % len(body) + body
    if RANK == 1:
        for byte in text:
            t.send(bytes([byte]))
    else:
        t.send(text)
    t.line()
    got = [t.frame() for _ in range(5)]
    is_(got[3], "cmd=kvs-get-response;rc=0;found=TRUE;value=a;;b;", "PMI-2 sent in pieces is answered, rank %d" % RANK)


def malformed(t):
    """Rank 0's conversation is ended; the others go on and their fence names it."""
    t.init(2)
    t.call("cmd=fullinit;")
    if RANK == 0:
        t.send(b"12x456cmd=oops;")
        try:
            t.frame()
            print("not ok a rank that sends malformed data is disconnected: it was answered")
        except EOFError:
            print("ok a rank that sends malformed data is disconnected")
        return
    answer = t.call("cmd=kvs-fence;")
    is_(field(answer, "errmsg"), "rank 0 has sent data that is not PMI before the fence",
        "rank %d gets the error of a fence with a rank that sends malformed data" % RANK)
    is_(t.call("cmd=sing;"), "cmd=sing-response;rc=14;errmsg=unknown command;",
        "rank %d: an unknown command is answered" % RANK)


def death(t):
    """The last rank dies in the middle of a message."""
    t.init(1)
    if RANK == SIZE - 1:
        t.send(b"cmd=barrier")
        os.kill(os.getpid(), 9)
    print(t.call("cmd=barrier_in"))
    t.call("cmd=finalize")  # else this would be the next death


def deaths(t):
    """The last rank dies; whatever the others fence later fails. None ends before all have seen that
    (in the directory that is named): a node whose ranks have ended would be another reason."""
    t.init(1)
    if RANK == SIZE - 1:
        t.call("cmd=get_appnum")
        os.kill(os.getpid(), 9)
    got = [t.call("cmd=barrier_in") for _ in range(4)]
    got.append(t.call("cmd=barrier_in group=0,%d:some" % (SIZE - 1)) if RANK == 0 else got[0])
    bad = [line for line in got if "_%d_" % (SIZE - 1) not in line]
    open(os.path.join(sys.argv[2], str(RANK)), "w").close()
    wait_for(lambda: len(os.listdir(sys.argv[2])) == SIZE - 1)
    t.call("cmd=finalize")
    is_(bad, [], "rank %d: every fence names the dead rank" % RANK)


def late(t):
    """Some ranks never come. The others come at the same time, for the deadline is the first one's, and end
    when all of them have reported it (both in the directory that is named): the end of one ends the step."""
    def gather(what):
        open(os.path.join(sys.argv[2], "%s.%d" % (what, RANK)), "w").close()
        wait_for(lambda: sum(name.startswith(what) for name in os.listdir(sys.argv[2])) == 3)

    t.init(1)
    if RANK in (1, 3, 4):
        try:
            while True:
                t.more() # until the step is over
        except EOFError:
            return
    gather("here")
    print(t.call("cmd=barrier_in"))
    gather("done")


def double(t):
    """Rank 0 fences twice before the other does once."""
    t.init(2)
    t.call("cmd=fullinit;")
    if RANK == 0:
        t.post("cmd=kvs-fence;thrid=1;")
        t.post("cmd=kvs-fence;thrid=2;")
        t.post("cmd=info-putnodeattr;key=go;value=1;thrid=3;")
        first = t.hear()
        # The put is behind the second fence, which can't begin before.
        is_(first, "cmd=kvs-fence-response;thrid=1;rc=0;", "the first fence ends first")
        is_(sorted([t.hear(), t.hear()])[0], "cmd=info-putnodeattr-response;thrid=3;rc=0;",
            "the put behind the fence is done")
    else:
        t.call("cmd=kvs-put;key=late;value=1;")
        t.call("cmd=kvs-fence;")
        t.call("cmd=kvs-fence;")
        print("ok the second fence has both ranks")


def groups(t):
    t.init(1)
    if RANK < 2:
        is_(t.call("cmd=barrier_in group=0,1:pair"), "cmd=barrier_out rc=0 tag=pair",
            "a barrier of two ranks succeeds, rank %d" % RANK)
    is_(t.call("cmd=barrier_in group=NODE:n"), "cmd=barrier_out rc=0 tag=n", "a barrier of a node succeeds, rank %d" % RANK)
    is_(t.call("cmd=barrier_in group=WORLD:w"), "cmd=barrier_out rc=0 tag=w", "a barrier of all ranks succeeds, rank %d" % RANK)
    t.call("cmd=finalize")


def appnum(t):
    t.init(1)
    print("rank %d appnum %s" % (RANK, t.call("cmd=get_appnum").split("=")[-1]))
    t.call("cmd=finalize")


def mixed(t):
    """Even ranks speak PMI-1, odd ones PMI-2."""
    value = None
    if RANK % 2 == 0:
        t.init(1)
        t.call("cmd=put key=m%d value=v%d" % (RANK, RANK))
        t.call("cmd=barrier_in")
        value = t.call("cmd=get key=m%d" % ((RANK + 1) % SIZE)).split("value=")[1]
        t.call("cmd=finalize")
    else:
        t.init(2)
        t.call("cmd=fullinit;")
        t.call("cmd=kvs-put;key=m%d;value=v%d;" % (RANK, RANK))
        t.call("cmd=kvs-fence;")
        value = field(t.call("cmd=kvs-get;key=m%d;" % ((RANK + 1) % SIZE)), "value")
        t.call("cmd=finalize;")
    is_(value, "v%d" % ((RANK + 1) % SIZE), "rank %d reads its neighbour's value" % RANK)


def exchange(t):
    """Everybody's value comes to everybody, three times over."""
    t.init(2)
    t.call("cmd=fullinit;")
    bad = 0
    for turn in range(3):
        t.call("cmd=kvs-put;key=e%d.%d;value=%s;" % (turn, RANK, "x" * (RANK + 1)))
        t.call("cmd=kvs-fence;")
        for other in range(SIZE):
            answer = t.call("cmd=kvs-get;key=e%d.%d;" % (turn, other))
            bad += field(answer, "value") != "x" * (other + 1)
    answer = t.call("cmd=ring;ring-count=1;ring-left=l%d;ring-right=r%d;" % (RANK, RANK))
    bad += answer != ("cmd=ring-response;rc=0;ring-count=%d;ring-left=r%d;ring-right=l%d;"
                      % (RANK, (RANK - 1) % SIZE, (RANK + 1) % SIZE))
    if RANK == SIZE - 1:
        bad += field(t.call("cmd=name-publish;name=far;port=p%d;" % RANK), "rc") != "0"
    t.call("cmd=kvs-fence;")
    bad += field(t.call("cmd=name-lookup;name=far;"), "port") != "p%d" % (SIZE - 1)
    t.call("cmd=kvs-fence;")
    t.call("cmd=finalize;")
    is_(bad, 0, "rank %d of %d has everything" % (RANK, SIZE))


def confide(t):
    """Each rank's value comes to all, over the wire."""
    t.init(2)
    t.call("cmd=fullinit;")
    value = "a value of rank %d that nobody else is to see"
    t.call("cmd=kvs-put;key=confidential%d;value=%s;" % (RANK, value % RANK))
    t.call("cmd=kvs-fence;")
    got = [field(t.call("cmd=kvs-get;key=confidential%d;" % other), "value") for other in range(SIZE)]
    is_(got, [value % other for other in range(SIZE)], "rank %d has all values" % RANK)
    t.call("cmd=finalize;")


def conflict(t):
    """All put one key, in both protocols: nobody finds it before the fence, all find the same."""
    key, version = "shared", 1 + RANK % 2
    t.init(version)
    if version == 2:
        t.call("cmd=fullinit;")

    def get():
        if version == 2:
            return field(t.call("cmd=kvs-get;key=%s;" % key), "value")
        return field(t.call("cmd=get key=%s" % key), "value", " ")

    def put(value):
        t.call(("cmd=kvs-put;key=%s;value=%s;" if version == 2 else "cmd=put key=%s value=%s")
              % (key, value))

    def fence():
        t.call("cmd=kvs-fence;" if version == 2 else "cmd=barrier_in")

    put("by%d" % RANK)
    before = get()
    fence()
    first = get()
    if RANK == 0:
        put("later")
    second = get()
    fence()
    is_((before, first, second, get()), (None, "by%d" % (SIZE - 1), "by%d" % (SIZE - 1), "later"),
        "rank %d finds what all find" % RANK)
    t.call("cmd=finalize;" if version == 2 else "cmd=finalize")


def fill(t):
    """Puts until there is no room: that is an error of the put, and the conversation goes on."""
    t.init(2)
    t.call("cmd=fullinit;")
    t.call("cmd=kvs-put;key=first;value=1;")
    value = "x" * 60000
    code, n = "0", 0
    while code == "0" and n < 20000:
        code = field(t.call("cmd=kvs-put;key=f%d;value=%s;" % (n, value)), "rc")
        n += 1
    is_(code, "2", "a put beyond the memory limit is refused")
    is_(n > 100, True, "puts within the memory limit are accepted")
    t.call("cmd=kvs-fence;")
    is_(field(t.call("cmd=kvs-get;key=first;"), "value"), "1", "a value put before the memory limit is found")
    t.call("cmd=finalize;")


def abort(t):
    """One rank aborts, the others wait for ever."""
    t.init(1)
    if RANK == SIZE - 1:
        t.post("cmd=abort exitcode=%s" % sys.argv[2])
    t.call("cmd=barrier_in")


def bench(t):
    t.init(1)
    t.call("cmd=barrier_in")
    t.call("cmd=finalize")


# ---- spawn ------------------------------------------------------------------------------------

def child(t):
    """A spawned task: speaks with those that were spawned with it, and reads what was put before."""
    t.init(2)
    full = t.call("cmd=fullinit;")
    word = field(t.call("cmd=kvs-get;key=word;"), "value")
    t.call("cmd=kvs-put;key=c%d;value=%d;" % (RANK, RANK))
    t.call("cmd=kvs-fence;")
    other = field(t.call("cmd=kvs-get;key=c%d;" % ((RANK + 1) % SIZE)), "value")
    print("child %d of %d appnum %s spawner %s word %s other %s spawned %s jobid %s in %s args %s"
          % (RANK, SIZE, field(full, "appnum"), field(full, "spawner-jobid"), word, other,
             os.environ.get("PMI_SPAWNED"), os.environ.get("PMI_JOBID"), os.getcwd(),
             " ".join(sys.argv[2:])))
    if RANK == 0:
        t.call("cmd=name-publish;name=done%s;port=1;" % os.environ["PMI_JOBID"].split(".")[-1])
    t.call("cmd=finalize;")


def spawn1(t):
    t.init(1)
    if RANK == 0:
        python, script = sys.executable, os.path.abspath(sys.argv[0])
        for so_far, (count, args) in enumerate(((2, ["one", "x y"]), (1, ["two"])), 1):
            lines = ["mcmd=spawn", "nprocs=%d" % count, "execname=%s" % python, "totspawns=2",
                     "spawnssofar=%d" % so_far, "arg1=%s" % script, "arg2=child"]
            lines += ["arg%d=%s" % (i, arg) for i, arg in enumerate(args, 3)]
            lines += ["argcnt=%d" % (2 + len(args)), "preput_num=1", "preput_key_0=word",
                      "preput_val_0=hello you", "info_num=1", "info_key_0=wdir", "info_val_0=/usr",
                      "endcmd"]
            t.send(("\n".join(lines) + "\n").encode())
        print("answer %s" % t.line())
        wait_for(lambda: "rc=0" in t.call("cmd=lookup_name service=done1"))
    t.call("cmd=barrier_in")
    t.call("cmd=finalize")


def spawn2(t):
    t.init(2)
    t.call("cmd=fullinit;")
    if RANK == 0:
        python, script = sys.executable, os.path.abspath(sys.argv[0])
        text = "cmd=spawn;ncmds=2;preputcount=1;ppkey0=word;ppval0=a;;b;"
        for count, arg in ((2, "one"), (1, "two")):
            text += ("subcmd=%s;maxprocs=%d;argc=3;argv0=%s;argv1=child;argv2=%s;infokeycount=1;"
                     "infokey0=wdir;infoval0=/usr;" % (python, count, script, arg))
        print("answer %s" % t.call(text))
        wait_for(lambda: field(t.call("cmd=name-lookup;name=done1;"), "rc") == "0")
    t.call("cmd=kvs-fence;")
    t.call("cmd=finalize;")


def spawn_fails(t):
    t.init(2)
    t.call("cmd=fullinit;")
    if RANK == 0:
        answer = t.call("cmd=spawn;ncmds=1;subcmd=/nonexistent/program;maxprocs=2;argc=0;")
        print("rc %s errcodes %s" % ("0" if field(answer, "rc") == "0" else "bad", field(answer, "errcodes")))
    t.call("cmd=kvs-fence;")
    t.call("cmd=finalize;")
    print("rank %d goes on" % RANK)


def wait_for(condition):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    print("not ok waited in vain")


if __name__ == "__main__":
    globals()[sys.argv[1]](Talk())
