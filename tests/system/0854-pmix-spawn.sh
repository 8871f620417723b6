#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmix: PMIx_Spawn.

# shellcheck source=tests/lib/pmix.sh
. "${top_srcdir:?}/tests/lib/pmix.sh"

pmix 2 spawn "$client" 3
lines 1 '^spawn 0: connected$' "a rank spawns others and connects with them"
lines 3 '^child [0-2]: of 3, parent stepd\.[0-9]*\.0:0$' "these know how many they are and who asked for them, as a job and as ranks"
lines 3 "^value [0-2]: pmix.app.argv=$client child\$" "and what they run"
is "$status" 0 "and the step ends well"

pmix 2 spawn "$client" 3 crew
lines 1 '^spawn 0: connected$' "a spawn that asks for a process set"
lines 1 '^value 0: pmix.qry.psetnum=1$' "is one"
lines 1 '^value 0: pmix.qry.psets=crew$' "of that name"
lines 1 '^value 0: pmix.qry.pmems=\[3\]$' "with its ranks"

pmix 2 spawn "$tmpdir/nowhere" 2
lines 1 '^spawn 0: ' "a program that is not there is a failed spawn"
lines 0 'connected' "and no more"
lines 0 'killed by signal' "those who asked go on"

pmix 2 spawns pmix.wdir /tmp
lines 1 '^spawned in /tmp, WORD=$' "a spawn has the directory that it asks for"
for key in env-set env-add; do
	pmix 2 spawns $key x
	lines 1 ', WORD=x$' "and the variable: $key"
done
pmix 2 spawns pmix.wdir "$tmpdir/nowhere"
lines 1 '^spawns 0: pmix.wdir NOT-FOUND$' "a directory that is not there fails it"
pmix 2 spawns pmix.host nowhere
lines 1 '^spawns 0: pmix.host NOT-FOUND$' "and so does a node that is none of the step's"
pmix 2 spawns test.unknown x
lines 1 '^spawned in ' "a wish that is not known is ignored"
pmix 2 spawns test.unknown x required
lines 1 '^spawns 0: test.unknown NOT-SUPPORTED$' "but not one that is required"
lines 0 '^spawned' "nothing is spawned then"

nothing_left "nothing is left"
done_testing
