#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes binding.golden: which CPUs and NUMA nodes each task shall be bound to.

A second model of the rules in stepd/binding/placement.h, which reads the XML of topology/ by itself,
so that the goldens don't come from the code that they judge. Run it by hand after the rules have
changed, and look at the difference.
"""
import os
import sys
import xml.etree.ElementTree as xml

HERE = os.path.dirname(os.path.abspath(__file__))


def lowest_bit(mask):
    words = [int(w, 16) if w else 0 for w in mask.split(",")]
    value = 0
    for w in words:
        value = value << 32 | w
    return (value & -value).bit_length() - 1


def read_machine(name):
    """[(cpu, core, socket, node)] in the order of the file, which is the machine's."""
    cpus, counts = [], {"Core": 0, "Package": 0}

    def walk(element, core, socket):
        if element.tag == "object":
            kind = element.get("type")
            if kind == "Core":
                core, counts[kind] = counts[kind], counts[kind] + 1
            if kind == "Package":
                socket, counts[kind] = counts[kind], counts[kind] + 1
            if kind == "PU":
                node = lowest_bit(element.get("nodeset"))
                cpus.append((int(element.get("os_index")), core, socket, node))
        for inner in element:
            walk(inner, core, socket)

    walk(xml.parse(os.path.join(HERE, "topology", name + ".xml")).getroot(), 0, 0)
    return cpus


def numbers(text):
    got = []
    for piece in text.split(","):
        first, _, last = piece.partition("-")
        got += range(int(first), int(last or first) + 1)
    return got


def ranges(values):
    values, out = sorted(values), []
    while values:
        run = 1
        while run < len(values) and values[run] == values[0] + run:
            run += 1
        out.append(f"{values[0]}-{values[run - 1]}" if run > 1 else str(values[0]))
        values = values[run:]
    return ",".join(out)


LEVEL = {"threads": 0, "cores": 1, "sockets": 2, "ldoms": 3}


def deal(cpus, tasks, need, bind, distribution, grain):
    """The CPUs that are taken for each task, until there is no room."""
    by = 3 if bind == "ldoms" else 2
    domains = []  # a list of units each; a unit is a list of CPUs
    for cpu in cpus:
        if not domains or domains[-1][0][0][by] != cpu[by]:
            domains.append([])
        if domains[-1] and domains[-1][-1][0][grain] == cpu[grain]:
            domains[-1][-1].append(cpu)
        else:
            domains[-1].append([cpu])
    plane = {"block": 10**9, "cyclic": 1}.get(distribution) or int(distribution[6:])
    room = lambda d: sum(len(u) for u in domains[d])
    at, turn, dealt = 0, 0, []
    while len(dealt) < tasks and sum(map(room, range(len(domains)))) >= need:
        if turn == plane:
            at, turn = (at + 1) % len(domains), 0
        order = [(at + i) % len(domains) for i in range(len(domains))]
        whole = [d for d in order if room(d) >= need]
        some = [d for d in order if room(d) > 0]
        chosen = (whole or some)[0]
        if chosen != at:
            at, turn = chosen, 0
        turn += 1
        got = []
        for d in [(at + i) % len(domains) for i in range(len(domains))]:
            while len(got) < need and domains[d]:
                got += domains[d].pop(0)
        dealt.append(got)
    return dealt


def bind_cpus(machine, allowed, tasks, need, bind, distribution):
    cpus = [c for c in machine if c[0] in allowed]
    if bind in LEVEL:
        level = LEVEL[bind]
        dealt = deal(cpus, tasks, need, bind, distribution, min(level, 1))
        sets = [{c[0] for c in cpus if c[level] in {g[level] for g in got}} for got in dealt]
        if distribution == "block":  # neighbours share
            return [sets[i * len(sets) // tasks] for i in range(tasks)]
    elif bind == "rank":
        sets = [{n} for n in sorted(allowed)]
    elif bind == "none":
        sets = [set(allowed)]
    elif bind.endswith("rank_ldom"):
        nodes = sorted({c[3] for c in cpus})
        sets = [{c[0] for c in cpus if c[3] == n} for n in nodes]
    else:
        kind, _, items = bind.partition(":")
        sets = []
        for item in items.split(","):
            value, _, times = item.partition("*")
            if kind.startswith("map"):
                wanted = {int(value, 0)}
            else:
                mask = int(value, 16)
                wanted = {n for n in range(mask.bit_length()) if mask >> n & 1}
            if kind.endswith("ldom"):
                wanted = {c[0] for c in cpus if c[3] in wanted}
            sets += [wanted] * int(times or 1)
    return [sets[i % len(sets)] for i in range(tasks)]


# MACHINE ALLOWED TASKS CPUS_PER_TASK BIND DISTRIBUTION MEM
CASES = """
cores1 0 1 1 threads block -
cores1 0 1 1 sockets cyclic local
cores1 0 3 1 cores block -
cores1 0 2 1 ldoms plane=7 local
cores4smt 0-7 1 1 threads block -
cores4smt 0-7 8 1 threads block -
cores4smt 0-7 10 1 threads cyclic -
cores4smt 0-7 1 1 cores block -
cores4smt 0-7 4 1 cores block local
cores4smt 0-7 4 1 cores cyclic -
cores4smt 0-7 4 2 cores block -
cores4smt 0-7 5 1 cores block -
cores4smt 0-7 8 1 cores block -
cores4smt 0-7 9 1 cores block -
cores4smt 0-7 2 3 cores block -
cores4smt 0-7 2 3 threads block -
cores4smt 0-7 3 3 cores block -
cores4smt 0-7 1 8 cores block -
cores4smt 0-7 2 1 sockets block -
cores4smt 2-5 2 1 cores block -
cores4smt 1,3-4 3 1 cores block -
cores4smt 1,3-4 3 1 threads block -
cores4smt 1,3-4 4 1 sockets block -
cores4smt 1,3-4 5 1 rank block -
cores4smt 0-7 3 1 map_cpu:7,0x0,3 block local
cores4smt 0-7 7 1 map_cpu:5*2,1,2*3 block -
cores4smt 0-7 3 1 mask_cpu:0xf,0F0 block -
cores12llc 0-11 4 1 ldoms cyclic local
cores12llc 0-11 6 2 cores block local
cores12llc 0-11 3 1 rank_ldom block local
cores16 0-15 16 1 cores block -
cores16 0-15 16 1 cores cyclic local
cores16 0-15 16 1 threads plane=2 -
cores16 0-15 16 1 cores plane=3 -
cores16 0-15 20 1 cores cyclic -
cores16 0-15 4 1 cores block local
cores16 0-15 4 1 cores cyclic local
cores16 0-15 5 3 cores block local
cores16 0-15 5 3 cores cyclic local
cores16 0-15 2 9 cores block local
cores16 0-15 1 9 cores block local
cores16 0-15 4 1 sockets block local
cores16 0-15 4 1 sockets cyclic local
cores16 0-15 12 1 sockets block -
cores16 0-15 3 1 ldoms cyclic local
cores16 0-15 3 1 rank_ldom block local
cores16 0-15 3 1 map_ldom:1,0 block local
cores16 0-15 3 1 mask_ldom:3,0x2 block local
cores16 0-15 2 1 none block local
cores16 0-3,9,11 5 1 cores cyclic -
cores16 0-3,9,11 3 2 cores block -
cores16 1,3,5 4 1 cores cyclic local
cores16 0-15 18 1 rank block -
cores64smt 0-127 64 1 cores block local
cores64smt 0-127 64 1 cores cyclic local
cores64smt 0-127 8 1 cores cyclic -
cores64smt 0-127 16 1 cores plane=4 -
cores64smt 0-127 32 4 cores block -
cores64smt 0-127 8 16 cores cyclic local
cores64smt 0-127 100 1 cores block -
cores64smt 0-127 128 1 threads block -
cores64smt 0-127 128 1 threads cyclic -
cores64smt 0-127 130 1 threads block -
cores64smt 0-127 4 1 ldoms block local
cores64smt 0-127 8 1 ldoms cyclic local
cores64smt 0-127 6 16 ldoms plane=2 local
cores64smt 0-127 4 1 sockets cyclic local
cores64smt 0-31,64-95 32 1 cores cyclic -
cores64smt 0-63 64 1 cores cyclic -
cores64smt 0-63 70 1 cores block -
cores64smt 8-23,40 5 1 ldoms block local
cores64smt 0-127 5 1 mask_ldom:0x5,0xa block local
cores64smt 0-127 3 1 mask_cpu:0x10000000000000001,0xffffffff000000000000000000000000 block local
cores256smt 0-511 256 1 cores block local
cores256smt 0-511 256 1 cores cyclic -
cores256smt 0-511 512 1 threads block -
cores256smt 0-511 600 1 threads cyclic -
cores256smt 0-511 8 64 cores block local
cores256smt 0-511 8 1 ldoms cyclic local
cores256smt 0-511 4 1 sockets cyclic local
cores256smt 0-511 64 2 cores plane=8 -
cores256smt 0-511 3 100 cores block local
cores256smt 0-511 9 1 rank_ldom block local
cores256smt 100-140,300-420 40 2 cores cyclic local
"""


def main():
    out = ["# Made by binding-golden.py:",
           "# MACHINE ALLOWED TASKS CPUS_PER_TASK BIND DISTRIBUTION MEM : CPUS... : NODES..."]
    for line in CASES.strip().splitlines():
        name, allowed, tasks, need, bind, distribution, mem = line.split()
        machine = read_machine(name)
        sets = bind_cpus(machine, set(numbers(allowed)), int(tasks), int(need), bind, distribution)
        nodes = []
        if mem == "local":
            nodes = [{c[3] for c in machine if c[0] in s} for s in sets]
        out.append(" ".join([line, ":"] + [ranges(s) for s in sets] + [":"] +
                            [ranges(n) for n in nodes]).strip())
    with open(os.path.join(HERE, "binding.golden"), "w") as f:
        f.write("\n".join(out) + "\n")


if __name__ == "__main__":
    sys.exit(main())
