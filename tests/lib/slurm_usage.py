# SPDX-License-Identifier: BSD-3-Clause
#
# slurm_usage.py SOCKET: calls a step's socket as slurmd does, and prints a line for each thing that does
# not depend on when it is called: the form of the record of usage, the limits of memory, what the step
# answers to a notice and to a new configuration.
import struct
import sys

from slurm_client import Client

UNKNOWN = 2**64 - 1
COLUMNS = ["max", "max_node", "max_task", "min", "min_node", "min_task", "tot"]


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, layout):
        values = struct.unpack_from(">" + layout, self.data, self.at)
        self.at += struct.calcsize(">" + layout)
        return values[0]

    def text(self):
        size = self.take("I")
        self.at += size
        return self.data[self.at - size : self.at]

    def array(self, layout):
        return [self.take(layout) for _ in range(self.take("I"))]


def show(record):
    r = Reader(record)
    if not r.take("B"):
        print("no record")
        return
    for layout in "QIQI":
        r.take(layout)
    r.take("I")
    print("energy", r.take("Q"))
    print("tres", r.array("I"))
    for _ in range(r.take("I")):
        r.take("Q"), r.take("Q")
        print(r.take("I"), r.text(), r.text())
    for way in ("in", "out"):
        for column in COLUMNS:
            values = r.array("Q")
            print(way, column, ["known" if v < UNKNOWN - 1 else "-" for v in values])
    print("rest", len(record) - r.at)


client = Client(sys.argv[1])
record, tasks = client.usage()
show(record)
print("tasks", tasks)
print("limits", client.mem_limits())
print("notice", client.notify("a notice"))
print("reconfigured", client.reconfigure())
print("usage again", client.usage()[1])
