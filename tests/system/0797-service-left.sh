#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# An MPI service process that hangs when its agent has been killed ends with its step, whoever brings
# that to its end, and no other process is ever taken for it.
# shellcheck source=tests/lib/reexec.sh
. "${top_srcdir:?}/tests/lib/reexec.sh"

[ -x "$next" ] || skip_all "no second program (make check builds it)"
command -v python3 >/dev/null || skip_all "python3 is missing"

change_state() { # STATEMENT
	python3 -c 'import json, sys
path = sys.argv[1]
s = json.load(open(path))
'"$1"'
json.dump(s, open(path, "w"), separators=(",", ":"))' "$run"/*_"$job.0"/state.json
}
begin() { # a step whose service is $service
	start_step --proctrack "$b" --mpi pmi2 -n 2 -- sh -c "$until_gone"
	service=$(state_of 0 'mpi_service["pid"]')
}
# Stopped only now: the kernel wakes and ends what stands still when its parent dies.
lose_agent() {
	kill_agent
	kill -STOP "$service"
}
begin_adopter() {
	timeout -k 5 120 "$stepd" adopt -q "$job.0" >"$tmpdir/adopted" 2>&1 &
	adopter=$!
}
tasks_gone() {
	# shellcheck disable=SC2086 # a pid a word
	process_ended $task_pids
}
end_tasks() {
	task_pids=$(state_of 0 '" ".join(str(t["pid"]) for t in tasks)')
	rm -f "$tmpdir/stay"
}

for b in $(backends); do
	begin
	is "$(cat "/proc/$service/comm")" stepd-mpi "$b: state.json has the service process"
	lose_agent
	begin_adopter
	ok "$b: a step whose service hangs is adopted" eventually adopted 0
	end_tasks
	wait "$adopter"
	ok "$b: adopt of a step whose service hangs ends" test $? -ne 124
	ok "$b: a hanging service ends with its adopted step" process_ended "$service"
	nothing_left "$b: an adopted step with a hanging service leaves nothing behind"

	begin
	lose_agent
	end_tasks
	eventually tasks_gone
	out=$(timeout 120 "$stepctl" clean 2>&1)
	ok "$b: clean of a step whose service hangs ends" test $? -ne 124
	ok "$b: clean ends a hanging service" process_ended "$service"
	nothing_left "$b: clean of a step whose service hangs leaves nothing behind ($out)"

	# By programs that were put in place of others.
	begin
	ok "$b: an agent with a service is upgraded" upgrade
	lose_agent
	begin_adopter
	ok "$b: the step of an upgraded agent whose service hangs is adopted" eventually adopted 0
	"$stepctl" reexec "$job.0" >/dev/null 2>&1
	ok "$b: an upgraded adopter knows the hanging service" \
		test "$(state_of 0 'mpi_service["pid"]')" = "$service"
	end_tasks
	wait "$adopter"
	ok "$b: an upgraded adopter of a hanging service ends" test $? -ne 124
	ok "$b: a hanging service ends with an upgraded adopter's step" process_ended "$service"
	nothing_left "$b: an upgraded adopter of a hanging service leaves nothing behind"
done

# ---- a pid alone is no name --------------------------------------------------------------------
b=linuxproc
setsid sleep 600 &
stranger=$!
begin
kill_agent
ticks=$(state_of 0 'mpi_service["start_ticks"]')
change_state "s['mpi_service']['pid'] = $stranger"
end_tasks
eventually tasks_gone
"$stepctl" clean >/dev/null 2>&1
ok "a process with the service's pid and another start is not killed" kill -0 "$stranger"
ok "state.json has the service's start" test "$ticks" -gt 0
nothing_left "a step whose service's pid is another process leaves nothing behind"

begin
kill_agent
change_state 's["mpi_service"] = {"pid": '"$stranger"'}'
end_tasks
eventually tasks_gone
"$stepctl" clean >/dev/null 2>&1
ok "a process with the service's pid is not killed without a start" kill -0 "$stranger"
nothing_left "a step whose service has no start leaves nothing behind"
kill "$stranger"

# ---- state.json of an agent that does not know of it -------------------------------------------
begin
kill_agent
change_state 'del s["mpi_service"]'
begin_adopter
ok "a step of an agent that has not noted its service is adopted" eventually adopted 0
end_tasks
wait "$adopter"
ok "a service that state.json does not have ends by itself" eventually process_ended "$service"
nothing_left_soon "a step whose state.json has no service leaves nothing behind"

b=linuxproc
start_step --proctrack "$b" --mpi none -n 1 -- sh -c "$until_gone"
is "$(state_of 0 '"mpi_service" in d')" false "state.json of a step without a service has none"
rm -f "$tmpdir/stay"
wait "$agent"
nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
