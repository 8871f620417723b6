#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The link to an MPI service process that stands still, or that ends while its agent does: nothing of
# what goes over it is lost.
# shellcheck disable=SC2016 # for the tasks' shells
. "${top_srcdir:?}/tests/lib/attendant.sh"

[ -x "$next" ] || skip_all "no second program (make check builds it)"
command -v python3 >/dev/null || skip_all "python3 is missing"

# ---- tasks that end while the service stands still ---------------------------------------------
# More than its socket takes reports of. Rank 0 shows how many of them the service knows.
tasks=900
begin() {
	rm -f "$tmpdir/go" "$tmpdir/requests" "$tmpdir/enough"
	mkfifo "$tmpdir/go"
	start_step --mpi attendant -n $tasks --proctrack "$tracker" -- sh -c '
		[ "$SLURM_PROCID" = 0 ] || { read -r go <"$0/go"; exit 0; }
		exec bash -c "$1" "$0"' "$tmpdir" "$requests"'
		echo "$ATTEND_STANDING"
		until [ -e "$0/requests" ]; do sleep 0.05; done
		until [ "$n" = '$((tasks - 1))' ] || [ -e "$0/enough" ]; do request ends; n=$(answer); sleep 0.05; done
		echo "ends: $n"'
	exec 9<>"$tmpdir/go" # for who opens it late
	eventually grep -q pid= "$tmpdir/out"
	service=$(standing pid)
}
exits() {
	[ "$(json_get "$(step_dir 0)/events.jsonl" 'sum(e["kind"] == "task_exit" for e in docs)')" -eq $((tasks - 1)) ]
}
all_known() {
	grep -q "^ends: $((tasks - 1))\$" "$tmpdir/out"
}
end_tasks() {
	kill -STOP "$service"
	yes go | head -n $((tasks - 1)) >&9
	eventually exits
}
go_on() {
	kill -CONT "$service"
	: >"$tmpdir/requests"
}

begin
end_tasks
ok "the agent answers while its service is stopped" "$stepctl" show "$job.0"
go_on
ok "a service that was stopped gets each task's end" eventually all_known
: >"$tmpdir/enough"
ended 0 "a step whose service was stopped goes on"

begin
end_tasks
ok "an agent with messages for a stopped service is upgraded" upgrade
go_on
ok "a service that was stopped over an upgrade gets each task's end" eventually all_known
: >"$tmpdir/enough"
ended 0 "a step whose service was stopped over an upgrade goes on"

begin
end_tasks
kill -TERM "$agent"
ended 143 "a step whose service is stopped can be ended"
eventually process_ended "$service"
nothing_left "a step ended with a stopped service leaves no cgroup, process or file behind"

# ---- lines that nobody has read yet ------------------------------------------------------------
# LINE... are written while the agent stands still, and the service is requested to end before it is read.
start_step -v --mpi attendant -n 1 --proctrack "$tracker" -- bash -c "$requests"'
	echo "$ATTEND_STANDING"; until [ -e "$0/stopped" ]; do sleep 0.02; done
	for i in 1 2 3 4 5 6 7 8 9; do request log "line $i"; answer >/dev/null; done
	: >"$0/written"' "$tmpdir"
kill -STOP "$agent"
: >"$tmpdir/stopped"
eventually test -e "$tmpdir/written"
task=$(state_of 0 'tasks[0]["pid"]')
ok "a task has ended before its agent sees it" eventually grep -q '^State:	Z' "/proc/$task/status"
kill -TERM "$agent"
kill -CONT "$agent"
wait "$agent"
is "$(grep -c 'attendant: line [1-9]$' "$tmpdir/err")" 9 \
	"messages that a service wrote before the step's end reach the log"

# The same of one that has ended by itself.
rm -f "$tmpdir/stopped" "$tmpdir/written" "$tmpdir/dead"
start_step --mpi attendant -n 1 --proctrack "$tracker" -- bash -c "$requests"'
	echo "$ATTEND_STANDING"; until [ -e "$0/stopped" ]; do sleep 0.02; done
	for i in 1 2 3 4 5 6 7 8 9; do request log "line $i"; answer >/dev/null; done
	request die; until [ -e "$0/dead" ]; do sleep 0.02; done' "$tmpdir"
service=$(standing pid)
kill -STOP "$agent"
: >"$tmpdir/stopped"
ok "a service ends before its agent sees it" eventually grep -q '^State:	Z' "/proc/$service/status"
kill -CONT "$agent"
: >"$tmpdir/dead"
wait "$agent"
is "$(grep -c 'attendant: line [1-9]$' "$tmpdir/err")" 9 "messages that a dead service wrote reach the log"
nothing_left "a dead service leaves no cgroup, process or file behind"

# ---- one that stands still when all is over ----------------------------------------------------
rm -f "$tmpdir/stopped"
start_step --mpi attendant -n 1 --proctrack "$tracker" -- bash -c '
	echo "$ATTEND_STANDING"; until [ -e "$0/stopped" ]; do sleep 0.02; done' "$tmpdir"
service=$(standing pid)
kill -STOP "$service"
: >"$tmpdir/stopped"
ended 0 "a step whose service is stopped ends with its status"
like "$(cat "$tmpdir/err")" "the MPI service process does not end: killing it" \
	"the log reports a stopped service that is killed"
ok "a service that is stopped at the step's end is killed" eventually process_ended "$service"
nothing_left "a killed service leaves no cgroup, process or file behind"
done_testing
