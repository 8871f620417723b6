# SPDX-License-Identifier: BSD-3-Clause
#
# slurm_init.py RECORDED LOG [RELEASE]: prints a recorded init with another log file of slurmd's and, if it
# is given, another release's number. The first item is the node's configuration: its length, and packed
# fields, of which a text is its length with the NUL, and its bytes.
import struct
import sys

data = open(sys.argv[1], "rb").read()
(size,) = struct.unpack_from("=i", data)
conf, rest = data[4 : 4 + size], data[4 + size :]


def packed(text):
    return struct.pack(">I", len(text) + 1) + text + b"\0"


begin = conf.index(b"/tmp/slurm-log.")
old = conf[begin : conf.index(b"\0", begin)]
conf = conf.replace(packed(old), packed(sys.argv[2].encode()), 1)
if len(sys.argv) > 3:
    conf = struct.pack(">H", int(sys.argv[3])) + conf[2:]
sys.stdout.buffer.write(struct.pack("=i", len(conf)) + conf + rest)
