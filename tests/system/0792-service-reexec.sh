#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The MPI service process over an upgrade of its agent, and over the agent's death.
. "${top_srcdir:?}/tests/lib/attendant.sh"

[ -x "$next" ] || skip_all "no second program (make check builds it)"

agent --mpi attendant -n 2 --proctrack "$tracker" -- bash -c "$ask echo \"\$ATTEND_STANDING\"; $until_gone
	[ \$SLURM_PROCID -eq 0 ] || exec sleep 30
	ask log still there; answer; ask signal USR1 1; answer; ask abort 21; sleep 30"
ok "an agent with a service process executes a new program" upgrade
service=$(standing pid)
ok "which is the same as before" kill -0 "$service"
ok "and does so again" upgrade
rm -f "$tmpdir/stay"
ended 21 "the service speaks with the new one"
like "$(cat "$tmpdir/err")" 'mpi/attendant: still there' "its words reach the log"
like "$(cat "$tmpdir/out")" '^done 0' "and its signals the tasks"
ok "it ends with the step" eventually gone "$service"
nothing_left "and nothing is left"

agent --mpi attendant -n 1 --proctrack "$tracker" -- sh -c "echo \"\$ATTEND_STANDING\"; $until_gone"
ok "once more" upgrade
service=$(standing pid)
kill -9 "$service"
said() { grep -q 'ended by signal 9' "$tmpdir/err"; }
ok "a new program sees its death" eventually said
rm -f "$tmpdir/stay"
ended 0 "and the step ends as it does"

if [ "$tracker" = cgroup ]; then
	agent --mpi attendant -n 2 --proctrack "$tracker" -- sh -c "echo \"\$ATTEND_STANDING\"; $until_gone; exit 6"
	service=$(standing pid)
	kill -9 "$agent"
	wait "$agent" 2>/dev/null
	"$stepd" adopt "$job.0" >"$tmpdir/adopted" 2>&1 &
	successor=$!
	adopted() { "$stepctl" pids "$job.0" >/dev/null 2>&1; }
	ok "a step whose agent was killed is taken over" eventually adopted
	rm -f "$tmpdir/stay"
	wait "$successor"
	ok "the service process ends with it" eventually gone "$service"
	nothing_left "and nothing is left"
else
	skip 3 "needs cgroups"
fi
done_testing
