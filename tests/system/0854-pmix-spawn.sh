#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmix: PMIx_Spawn.

# shellcheck source=tests/lib/pmix.sh
. "${top_srcdir:?}/tests/lib/pmix.sh"

pmix 2 spawn "$client" 3
lines 1 '^spawn 0: connected$' "a rank spawns others and connects with them"
lines 3 '^child [0-2]: of 3, parent stepd\.[0-9]*\.0:0$' "spawned ranks know their number and their parent"
lines 3 "^value [0-2]: pmix.app.argv=$client child\$" "spawned ranks know what they run"
is "$status" 0 "a step that spawns by PMIx succeeds"

pmix 2 spawn "$client" 3 crew
lines 1 '^spawn 0: connected$' "a spawn with a process set connects"
lines 1 '^value 0: pmix.qry.psetnum=1$' "a spawn with a process set makes one"
lines 1 '^value 0: pmix.qry.psets=crew$' "a spawn's process set has the name that was given"
lines 1 '^value 0: pmix.qry.pmems=\[3\]$' "a spawn's process set has the spawned ranks"

pmix 2 spawn "$tmpdir/nowhere" 2
lines 1 '^spawn 0: ' "a spawn of a missing program returns"
lines 0 'connected' "a spawn of a missing program connects nothing"
lines 0 'killed by signal' "the spawning ranks go on after a failed spawn"

pmix 2 spawns pmix.wdir /tmp
lines 1 '^spawned in /tmp, WORD=$' "a spawned rank has the directory of pmix.wdir"
for key in env-set env-add; do
	pmix 2 spawns $key x
	lines 1 ', WORD=x$' "a spawned rank has the variable of $key"
done
pmix 2 spawns pmix.wdir "$tmpdir/nowhere"
lines 1 '^spawns 0: pmix.wdir NOT-FOUND$' "a spawn in a missing directory fails"
pmix 2 spawns pmix.host nowhere
lines 1 '^spawns 0: pmix.host NOT-FOUND$' "a spawn on a node that is not the step's fails"
pmix 2 spawns test.unknown x
lines 1 '^spawned in ' "an unknown attribute of a spawn is ignored"
pmix 2 spawns test.unknown x required
lines 1 '^spawns 0: test.unknown NOT-SUPPORTED$' "an unknown required attribute of a spawn is refused"
lines 0 '^spawned' "a refused spawn starts no task"

nothing_left "the job leaves no cgroup, process or file behind"
done_testing
