#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Tasks that join a running step: what they are, where they stand, and how they are listed.
. "${top_srcdir:?}/tests/lib/step.sh"
. "$top_srcdir/tests/lib/spawn.sh"

for tracker in $(backends); do
	spawning --proctrack "$tracker" -n 2 --result "$tmpdir/r" sh -c "$requests"'
		[ "$SLURM_PROCID" = 0 ] || exit 0
		one 1 2 3 "[\"sh\",\"-c\",\"echo join \$SLURM_PROCID \$SLURM_NTASKS \$SLURM_LOCALID \$SPAWNER \$SPAWNER_COMMON \$SPAWNER_PREFORK\"]"
		echo "$answer"' >"$tmpdir/out" 2>"$tmpdir/err"
	is $? 0 "$tracker: a step with a spawn succeeds"
	is "$(grep ^join "$tmpdir/out" | sort)" "join 0 3 0 1:0:3:0 yes yes
join 1 3 1 1:1:3:0 yes yes
join 2 3 2 1:2:3:0 yes yes" "$tracker: spawned tasks know their ranks and their number"
	is "$(grep tell "$tmpdir/out" | json_get - '[error, id, locals, tell]')" '[0, 0, [2, 3, 4], "spawned"]' \
		"$tracker: the request of a spawn is answered"
	is "$(cat "$tmpdir/err")" "" "$tracker: a spawn causes no message in the log"
	is "$(json_get "$tmpdir/r" '[[t["rank"], t.get("spawn", 0), t["exit_code"]] for t in tasks]')" \
		"[[0, 0, 0], [1, 0, 0], [2, 1, 0], [3, 1, 0], [4, 1, 0]]" "$tracker: the result has the spawned tasks"
	nothing_left "$tracker: the job leaves no cgroup, process or file behind"
done

: >"$tmpdir/stay"
stay="while [ -e $tmpdir/stay ]; do sleep 0.05; done"
spawning --proctrack "$(backends | head -n 1)" -n 1 sh -c "$requests one 4 7 2 '[\"sh\",\"-c\",\"$stay\"]'
	'$stepctl' show $job.0; rm '$tmpdir/stay'" >"$tmpdir/out" 2>&1
is "$(awk '$1 == "RANK" {tasks = 1} tasks {print $1, $3, $4}' "$tmpdir/out")" "RANK SPAWN STATE
0 - running
7 4 running
8 4 running" "stepctl show has the spawn of each task"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
