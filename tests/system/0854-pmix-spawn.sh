#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmix: PMIx_Spawn.

# shellcheck source=tests/lib/pmix.sh
. "${top_srcdir:?}/tests/lib/pmix.sh"

pmix 2 spawn "$client" 3
lines 1 '^spawn 0: connected$' "a rank spawns others and connects with them"
lines 3 '^child [0-2]: of 3, parent stepd\.[0-9]*\.0:0$' "these know how many they are and who asked for them"
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

nothing_left "nothing is left"
done_testing
