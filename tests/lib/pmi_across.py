# SPDX-License-Identifier: BSD-3-Clause
"""Raw PMI over nodes, beyond pmi_talk.py: pmi_across.py SCENARIO [ARG...]

Each rank prints "rank R is there" first where the test has to do something to a step that waits.
"""
import os
import signal
import socket
import sys

from pmi_talk import RANK, SIZE, Talk, field, is_, print, wait_for


def awaits(t):
    """The ranks that are named never come to the fence of the others, who print what they hear."""
    t.init(1)
    print("rank %d is there" % RANK)
    wait_for(lambda: os.path.exists(os.environ["GO"]))  # or one that begins late is missing, too
    while str(RANK) in sys.argv[2:]:
        signal.pause()
    try:
        print("rank %d hears %s" % (RANK, t.call("cmd=barrier_in")))
    except (ConnectionError, EOFError):
        print("rank %d is hung up on" % RANK)
    while True:
        signal.pause()  # for the step to be ended


def leaves(t):
    """The ranks that are named end at once; the others go on among themselves."""
    t.init(1)
    t.call("cmd=barrier_in")
    if str(RANK) in sys.argv[2:]:
        t.call("cmd=finalize")
        print("rank %d leaves" % RANK)
        return
    others = [str(r) for r in range(SIZE) if str(r) not in sys.argv[2:]]
    bad = 0
    for turn in range(50):
        answer = t.call("cmd=barrier_in group=%s:t%d" % (",".join(others), turn))
        bad += answer != "cmd=barrier_out rc=0 tag=t%d" % turn
    t.call("cmd=finalize")
    print("rank %d goes on, bad %d" % (RANK, bad))


def start2(t):
    t.init(2)
    t.call("cmd=fullinit;")
    return field(t.call("cmd=job-getid;"), "jobid")


def put(t, key, value):
    return field(t.call("cmd=kvs-put;key=%s;value=%s;" % (key, value.replace(";", ";;"))), "rc")


def get(t, key):
    return field(t.call("cmd=kvs-get;key=%s;" % key), "value")


def sizes(t):
    """Values from nothing to 64 KiB, of bytes that need care, come whole to all nodes."""
    start2(t)
    bad = 0

    def value(rank, size):
        return ("%d;=%c" % (rank, 33 + rank) * size)[:size]

    lengths = (0, 1, 63, 255, 1023, 1024, 4096, 65536)
    for size in lengths:
        bad += put(t, "s%d.%d" % (RANK, size), value(RANK, size)) != "0"
    bad += field(t.call("cmd=kvs-fence;"), "rc") != "0"
    for rank in range(SIZE):
        for size in lengths:
            bad += get(t, "s%d.%d" % (rank, size)) != value(rank, size)
    t.call("cmd=finalize;")
    is_(bad, 0, "rank %d of %d has everything" % (RANK, SIZE))


def index(t):
    """PMI-1 by index: all pairs, each once, on every node."""
    t.init(1)
    t.call("cmd=put key=i%d value=v%d" % (RANK, RANK))
    t.call("cmd=barrier_in")
    pairs = []
    for i in range(1000):
        answer = t.call("cmd=getbyidx idx=%d" % i)
        if field(answer, "rc", " ") != "0":
            break
        pairs.append("%s=%s" % (field(answer, "key", " "), field(answer, "val", " ")))
    t.call("cmd=barrier_in")
    t.call("cmd=finalize")
    pairs = sorted(pair for pair in pairs if pair.startswith("i"))
    is_(pairs, sorted("i%d=v%d" % (r, r) for r in range(SIZE)), "rank %d of %d has everything" % (RANK, SIZE))


def read_mapping(text):
    """The node of each rank, by Slurm's vector form."""
    blocks = [tuple(map(int, block.split(","))) for block in text[len("(vector,("):-2].split("),(")]
    nodes = []
    while len(nodes) < SIZE:
        for first, count, each in blocks:
            for node in range(first, first + count):
                nodes += [node] * each
    return nodes[:SIZE]


def places(t):
    """The mapping has the node of each rank: each rank puts its host, and all compare."""
    start2(t)
    nodes = read_mapping(field(t.call("cmd=info-getjobattr;key=PMI_process_mapping;"), "value"))
    put(t, "h%d" % RANK, "%s %s" % (socket.gethostname(), os.environ["SLURM_NODEID"]))
    t.call("cmd=kvs-fence;")
    there = [get(t, "h%d" % rank).split() for rank in range(SIZE)]
    t.call("cmd=finalize;")
    is_([(int(i), name) for name, i in there], [(n, "node%d" % (n + 1)) for n in nodes],
        "rank %d of %d has everything" % (RANK, SIZE))


def node_attributes(t):
    """What one rank of a node puts is its node's: the others there get it, those elsewhere do not."""
    start2(t)
    node = int(os.environ["SLURM_NODEID"])
    bad = 0
    if os.environ["SLURM_LOCALID"] == "0" and node != 1:
        bad += field(t.call("cmd=info-putnodeattr;key=na;value=of-%d;" % node), "rc") != "0"
    if node != 1:
        bad += field(t.call("cmd=info-getnodeattr;key=na;wait=TRUE;"), "value") != "of-%d" % node
    t.call("cmd=kvs-fence;")
    if node == 1:
        bad += field(t.call("cmd=info-getnodeattr;key=na;wait=FALSE;"), "found") != "FALSE"
    t.call("cmd=finalize;")
    is_(bad, 0, "rank %d of %d has everything" % (RANK, SIZE))


def names(t):
    """Published on one node, looked up and unpublished on others."""
    start2(t)
    bad = 0

    def port(rank):
        return field(t.call("cmd=name-lookup;name=n%d;" % rank), "port")

    bad += field(t.call("cmd=name-publish;name=n%d;port=p%d;" % (RANK, RANK)), "rc") != "0"
    t.call("cmd=kvs-fence;")
    bad += sum(port(rank) != "p%d" % rank for rank in range(SIZE))
    t.call("cmd=kvs-fence;")
    # again by another rank: taken; then gone, by whom it does not belong to
    bad += field(t.call("cmd=name-publish;name=n%d;port=x;" % ((RANK + 1) % SIZE)), "rc") == "0"
    t.call("cmd=kvs-fence;")
    bad += field(t.call("cmd=name-unpublish;name=n%d;" % ((RANK + 1) % SIZE)), "rc") != "0"
    t.call("cmd=kvs-fence;")
    bad += sum(field(t.call("cmd=name-lookup;name=n%d;" % rank), "rc") == "0" for rank in range(SIZE))
    t.call("cmd=kvs-fence;")
    t.call("cmd=finalize;")
    is_(bad, 0, "rank %d of %d has everything" % (RANK, SIZE))


def rings(t):
    """Ten rings with counts and values of their own, in the order of the ranks wherever they are."""
    start2(t)
    bad = 0
    for turn in range(10):
        answer = t.call("cmd=ring;ring-count=%d;ring-left=l%d.%d;ring-right=r%d.%d;"
                       % (RANK + turn, turn, RANK, turn, RANK))
        bad += answer != ("cmd=ring-response;rc=0;ring-count=%d;ring-left=r%d.%d;ring-right=l%d.%d;"
                          % (sum(range(RANK)) + turn * RANK, turn, (RANK - 1) % SIZE, turn,
                             (RANK + 1) % SIZE))
    t.call("cmd=finalize;")
    is_(bad, 0, "rank %d of %d has everything" % (RANK, SIZE))


def group_barriers(t):
    """Barriers of ranks that several nodes share, of several groups at once."""
    t.init(1)
    bad = 0
    groups = [[r for r in range(SIZE) if r % k == RANK % k] for k in (2, 3)]
    groups.append([r for r in range(SIZE) if (r < SIZE // 2) == (RANK < SIZE // 2)])
    for turn in range(20):
        for k, group in enumerate(groups):
            answer = t.call("cmd=barrier_in group=%s:t%d.%d" % (",".join(map(str, group)), k, turn))
            bad += answer != "cmd=barrier_out rc=0 tag=t%d.%d" % (k, turn)
        bad += t.call("cmd=barrier_in group=WORLD:w") != "cmd=barrier_out rc=0 tag=w"
        bad += t.call("cmd=barrier_in group=NODE:n") != "cmd=barrier_out rc=0 tag=n"
    t.call("cmd=finalize")
    is_(bad, 0, "rank %d of %d has everything" % (RANK, SIZE))


# ---- spawn ------------------------------------------------------------------------------------

def me(*args):
    """The command line of this program, for a spawn."""
    return [sys.executable, os.path.abspath(sys.argv[0])] + list(args)


def ask_spawn(t, *commands):
    """Each a count, an argv and infos; all get the pre-put key "word"."""
    text = "cmd=spawn;ncmds=%d;preputcount=1;ppkey0=word;ppval0=w%d;" % (len(commands), RANK)
    for count, argv, infos in commands:
        text += "subcmd=%s;maxprocs=%d;argc=%d;" % (argv[0], count, len(argv) - 1)
        text += "".join("argv%d=%s;" % pair for pair in enumerate(argv[1:]))
        text += "infokeycount=%d;" % len(infos)
        text += "".join("infokey%d=%s;infoval%d=%s;" % (i, key, i, value)
                        for i, (key, value) in enumerate(infos))
    return t.call(text)


def spawned(t):
    """A spawned task: exchanges with those that were spawned with it, wherever they are."""
    t.init(2)
    full = t.call("cmd=fullinit;")
    nodes = read_mapping(field(t.call("cmd=info-getjobattr;key=PMI_process_mapping;"), "value"))
    put(t, "k%d" % RANK, socket.gethostname())
    t.call("cmd=kvs-fence;")
    hosts = [get(t, "k%d" % rank) for rank in range(SIZE)]
    ring = t.call("cmd=ring;ring-count=1;ring-left=l%d;ring-right=r%d;" % (RANK, RANK))
    good = (hosts == ["node%d" % (n + 1) for n in nodes] and field(ring, "ring-count") == str(RANK) and
            field(ring, "ring-left") == "r%d" % ((RANK - 1) % SIZE) and os.environ["PMI_SPAWNED"] == "1" and
            # of those that were not spawned nothing is here
            get(t, "e0.0") is None)
    print("spawned %d of %d on %s appnum %s jobid %s by %s word %s %s"
          % (RANK, SIZE, socket.gethostname(), field(full, "appnum"), os.environ["PMI_JOBID"],
             field(full, "spawner-jobid"), get(t, "word"), "right" if good else "WRONG"))
    t.call("cmd=kvs-fence;")
    if RANK == 0:
        t.call("cmd=name-publish;name=done%s;port=1;" % os.environ["PMI_JOBID"].rsplit(".", 1)[-1])
    t.call("cmd=finalize;")


def spawns(t):
    """Rank 0 spawns two commands at once, over all nodes and on a node by name; then all ranks do."""
    start2(t)

    def until(number):
        wait_for(lambda: field(t.call("cmd=name-lookup;name=done%d;" % number), "rc") == "0")

    if RANK == 0:
        answer = ask_spawn(t, (4, me("spawned"), []), (3, me("spawned"), [("host", "node2")]))
        print("answer %s errcodes %s" % (field(answer, "rc"), field(answer, "errcodes")))
        until(1)
    t.call("cmd=kvs-fence;")
    answer = ask_spawn(t, (2, me("spawned"), []))
    until(int(field(answer, "jobid").rsplit(".", 1)[-1]))
    t.call("cmd=kvs-fence;")
    t.call("cmd=finalize;")


def spawn_breaks(t):
    """One of two commands can't run, on its node: those of the other are ended as well."""
    start2(t)
    if RANK == 0:
        answer = ask_spawn(t, (2, ["sleep", "4321." + os.environ["SLURM_JOB_ID"]], [("host", "node2")]),
                           (2, ["/nonexistent/program"], [("host", "node3")]))
        print("answer %s errcodes %s" % (field(answer, "rc"), field(answer, "errcodes")))
    t.call("cmd=kvs-fence;")
    t.call("cmd=finalize;")
    print("rank %d goes on" % RANK)


def aborts(t):
    start2(t)
    if RANK == SIZE - 1:
        t.post("cmd=abort;isworld=TRUE;msg=application called MPI_Abort(MPI_COMM_WORLD, 7) - process 1;")
    while True:
        signal.pause()


def spawn_aborts(t):
    start2(t)
    if RANK == 0:
        ask_spawn(t, (3, me("aborts"), []))
    while True:
        signal.pause()


if __name__ == "__main__":
    globals()[sys.argv[1]](Talk())
