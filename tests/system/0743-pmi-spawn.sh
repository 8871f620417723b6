#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Spawn in both protocols, by bare words and by Slurm's client: several commands at once become one
# MPI_COMM_WORLD of their own within the step.
. "${top_srcdir:?}/tests/lib/pmi.sh"

check_children() { # NAME WORD OUTPUT
	for i in 0 1 2; do
		like "$3" "^child $i of 3 appnum $((i / 2)) spawner $job.0 word $2 other $(((i + 1) % 3)) spawned 1 jobid $job.0.1 in /usr args " \
			"$1: the spawned task $i knows its place and its spawner"
	done
}

out=$(talk 2 spawn1 2>&1)
is $? 0 "a step that spawns with PMI-1 succeeds"
like "$out" "^answer cmd=spawn_result rc=0 jobid=$job.0.1 errcodes=0,0,0\$" \
	"the reply to a spawn of PMI-1 has the new job and no error"
check_children PMI-1 "hello you" "$out"
like "$out" 'child 1 .* args one x y$' "PMI-1: the spawned task's arguments are whole"

for pmi in '' --pmi-tcp; do
	out=$(talk 2 spawn2 2>&1)
	like "$out" "^answer cmd=spawn-response;rc=0;jobid=$job.0.1;errcodes=0,0,0;\$" \
		"the reply to a spawn of PMI-2 $pmi has the new job and no error"
	check_children "PMI-2 $pmi" "a;b" "$out"
done
pmi=

out=$(talk 2 spawn_fails 2>&1)
like "$out" '^rc bad errcodes -1,-1$' "a spawn of a missing program fails for all of its tasks"
is "$(printf '%s\n' "$out" | grep -c 'goes on')" 2 "the step goes on after a failed spawn"
like "$out" "rank 0 can't spawn: .*nonexistent/program" "the log has the reason of a failed spawn"

# shellcheck disable=SC2086 # the compiler's name may have words
if ${CC:-cc} -o "$tmpdir/client" "$top_srcdir/tests/lib/pmi2_client.c" -lpmi2 >"$tmpdir/cc.log" 2>&1; then
	cat >"$tmpdir/child" <<END
#!/bin/sh
exec python3 '$talk_py' "\$@"
END
	chmod 755 "$tmpdir/child"
	out=$(SPAWN_PROGRAM=$tmpdir/child step -q --mpi=pmi2 -n 2 -- "$tmpdir/client")
	like "$out" '^ok rank 0: a spawn$' "Slurm's client spawns"
	is "$(printf '%s\n' "$out" | grep -c '^child . of 2 .* word w ')" 2 "the children of Slurm's client run"
else
	skip 2 "needs libpmi2-0-dev"
fi
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
