#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
#
# What many ranks write, and the SHA-256 of what arrives, a line for each rank:
#	make MIB                      bytes of all values, in lines of up to 30,000 bytes, to standard output
#	write FILE RANK [ACK]         what the rank writes: all of FILE, begun at a place of its own. With ACK,
#	                              a FIFO, no more than CHUNK bytes that its reader has not acknowledged
#	wanted FILE RANKS             the sums of what they write
#	fifos PREFIX RANKS            those of FIFOs PREFIX.RANK, all read at once; makes PREFIX.read once
#	                              writers find a reader
#	labelled RANKS SIZE [ACKS]    those of lines behind labels, SIZE bytes of each rank, from standard
#	                              input; acknowledges to ACKS.RANK
# A writer imports little: there are many.
import mmap, os, sys

CHUNK = 262144
HELD = 65536  # of a line that has not ended a client may hold so much


def make(mib):
    import random

    size, rng = int(mib) << 20, random.Random(int(mib))
    out = sys.stdout.buffer
    size -= out.write(bytes(range(256)))
    while size > 0:
        longest = rng.choice((20, 8000, 8000, 8000, 30000))
        line = rng.randbytes(rng.randrange(longest)).replace(b"\n", b"\v") + b"\n"
        size -= out.write(line[:size])


def parts(path, rank):
    """The bytes of a rank, as two views: it begins within a line, and ends there."""
    with open(path, "rb") as file:
        view = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
    begin = rank * 1000 + 1
    return view[begin:], view[:begin]


def write_all(data):
    while data:
        data = data[os.write(1, data):]


def write(path, rank, ack=None):
    acks = os.open(ack, os.O_RDONLY) if ack else -1
    sent = 0
    for part in parts(path, int(rank)):
        while part:
            piece = part[:CHUNK - sent % CHUNK]
            write_all(piece)
            part = part[len(piece):]
            sent += len(piece)
            if ack and sent % CHUNK == 0:
                os.read(acks, 1)


def sum_all(sum_of, arguments):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(arguments)) as pool:
        show(pool.map(sum_of, arguments))


def show(sums):
    for one in sums:
        print(one.hexdigest())


def wanted(path, ranks):
    import hashlib

    def sum_of(rank):
        one = hashlib.sha256()
        for part in parts(path, rank):
            one.update(part)
        return one

    sum_all(sum_of, range(int(ranks)))


def fifos(prefix, ranks):
    import hashlib, select

    fds = [os.open(f"{prefix}.{rank}", os.O_RDONLY | os.O_NONBLOCK) for rank in range(int(ranks))]
    open(f"{prefix}.read", "w").close()

    def sum_of(fd):
        one, first = hashlib.sha256(), select.poll()
        first.register(fd)
        first.poll() # until there is a writer: before it a read finds an end
        os.set_blocking(fd, True)
        while data := os.read(fd, 1 << 20):
            one.update(data)
        return one

    sum_all(sum_of, fds)


class Rank:
    def __init__(self, size, ack):
        import hashlib

        self.sum, self.left, self.size = hashlib.sha256(), size, size
        self.acks = os.open(ack, os.O_RDWR) if ack else -1
        self.acknowledged = 0

    def add(self, data):
        if self.left < len(data) and data[self.left:] == b"\n":
            data = data[:self.left] # another rank's line follows a last one without an end
        self.sum.update(data)
        self.left -= len(data)
        while self.acks >= 0 and self.size - self.left + HELD >= self.acknowledged + CHUNK:
            self.acknowledged += CHUNK
            os.write(self.acks, b"a")


def labelled(ranks, size, acks=None):
    of = [Rank(int(size), f"{acks}.{rank}" if acks else None) for rank in range(int(ranks))]
    rest = b""
    while chunk := os.read(0, 1 << 20):
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()
        for line in lines:
            label, _, data = line.partition(b": ")
            of[int(label)].add(data + b"\n")
    if rest:
        label, _, data = rest.partition(b": ")
        of[int(label)].add(data)
    show(one.sum for one in of)


{"make": make, "write": write, "wanted": wanted, "fifos": fifos, "labelled": labelled}[sys.argv[1]](*sys.argv[2:])
