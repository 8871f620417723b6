#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The MPI service process over an upgrade of its agent, and over the agent's death.
. "${top_srcdir:?}/tests/lib/attendant.sh"

[ -x "$next" ] || skip_all "no second program (make check builds it)"

start_step --mpi attendant -n 2 --proctrack "$tracker" -- bash -c "$requests echo \"\$ATTEND_STANDING\"; $until_gone
	[ \$SLURM_PROCID -eq 0 ] || exec sleep 30
	request log still there; answer; request signal USR1 1; answer; request abort 21; sleep 30"
ok "an agent with a service process is upgraded" upgrade
service=$(standing pid)
ok "the service process stays the same over an upgrade" kill -0 "$service"
ok "an agent with a service process is upgraded twice" upgrade
rm -f "$tmpdir/stay"
ended 21 "an abort of the service ends the step after upgrades"
like "$(cat "$tmpdir/err")" 'mpi/attendant: still there' \
	"a message of the service reaches the log after upgrades"
like "$(cat "$tmpdir/out")" '^done 0' "a signal of the service reaches the tasks after upgrades"
ok "the service ends with the step after upgrades" eventually process_ended "$service"
nothing_left "an upgraded step with a service leaves no cgroup, process or file behind"

start_step --mpi attendant -n 1 --proctrack "$tracker" -- sh -c "echo \"\$ATTEND_STANDING\"; $until_gone"
ok "another agent with a service process is upgraded" upgrade
service=$(standing pid)
kill -9 "$service"
logged() { grep -q 'ended by signal 9' "$tmpdir/err"; }
ok "an upgraded agent sees the service die" eventually logged
rm -f "$tmpdir/stay"
ended 0 "a step whose service died after an upgrade ends with its status"

if [ "$tracker" = cgroup ]; then
	start_step --mpi attendant -n 2 --proctrack "$tracker" -- sh -c "echo \"\$ATTEND_STANDING\"; $until_gone; exit 6"
	service=$(standing pid)
	kill_agent
	"$stepd" adopt "$job.0" >"$tmpdir/adopted" 2>&1 &
	successor=$!
	ok "a step with a service whose agent was killed is adopted" eventually adopted 0
	rm -f "$tmpdir/stay"
	wait "$successor"
	ok "the service ends with an adopted step" eventually process_ended "$service"
	nothing_left "an adopted step with a service leaves no cgroup, process or file behind"
else
	skip 3 "needs cgroups"
fi
done_testing
