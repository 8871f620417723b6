#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A signal to the agent at any moment of its life leaves nothing behind.
. "${top_srcdir:?}/tests/lib/step.sh"

mkdir "$tmpdir/plugins"
chmod 755 "$tmpdir/plugins"
cp "${top_builddir:?}"/stepd/cli/plugins/mpi_none.so \
	"$top_builddir/tests/lib/plugins/proctrack_untimely.so" "$tmpdir/plugins"
untimely() {
	step --plugin-dir "$tmpdir/plugins" --proctrack untimely -n 2 --result "$tmpdir/r" \
		--kill-sequence TERM:10s,KILL "$@" 2>"$tmpdir/err"
}

STEPD_TEST_TERM=load untimely -- sleep 60
is $? 143 "SIGTERM while plugins are loaded ends the step"
is "$(json_get "$tmpdir/r" reason)" signal "the reason of SIGTERM while plugins are loaded is signal"
nothing_left "SIGTERM while plugins are loaded leaves no cgroup, process or file behind"

STEPD_TEST_TERM=create untimely -- sleep 60
is $? 143 "SIGTERM while the container is made ends the step"
is "$(json_get "$tmpdir/r" reason)" signal "the reason of SIGTERM while the container is made is signal"
nothing_left "SIGTERM while the container is made leaves no cgroup, process or file behind"

STEPD_TEST_TERM=destroy untimely -- sh -c 'exit 3'
is $? 3 "SIGTERM while the container is removed does not change the status"
is "$(json_get "$tmpdir/r" reason)" completed \
	"SIGTERM while the container is removed does not change the reason"
nothing_left "SIGTERM while the container is removed leaves no cgroup, process or file behind"

# From outside, at all moments of the start; before the step exists the agent just dies. In a shell
# without traps: with one, a signal to a child that it has just forked can be lost.
cat >"$tmpdir/rounds" <<'X'
for round in $(seq 0 59); do
	"$1" run -q --job "$2" -n 2 -- sleep 60 &
	agent=$!
	sleep "0.00$((round / 10))$((round % 10))"
	kill -TERM $agent
	wait $agent
	status=$?
	[ $status = 143 ] || echo "round $round: $status"
	# Now: the next agent of this step would clear it away.
	[ -z "$(ls "$STEPD_RUNTIME_DIR")" ] || echo "round $round: state is left"
done 2>/dev/null
X
bad=$(sh "$tmpdir/rounds" "$stepd" "$job")
is "$bad" "" "SIGTERM in the first 6 ms ends the agent with 143 in all of 60 rounds"
nothing_left "SIGTERM in the first 6 ms leaves no cgroup, process or file behind"

# What a task did before the end was requested is its own doing.
step --kill-on-bad-exit -n 8 -- sh -c 'exit $((SLURM_PROCID + 1))' 2>/dev/null
status=$?
ok "tasks that end by themselves give the status, whoever ends first" test $status -ge 1 -a $status -le 8
done_testing
