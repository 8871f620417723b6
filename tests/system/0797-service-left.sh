#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# An MPI service process that hangs when its agent has been killed ends with its step, whoever brings
# that to its end, and no other process is ever taken for it.
# shellcheck source=tests/lib/reexec.sh
. "${top_srcdir:?}/tests/lib/reexec.sh"

[ -x "$next" ] || skip_all "no second program (make check builds it)"
command -v python3 >/dev/null || skip_all "python3 is missing"

state_of() { # EXPRESSION: of the step's state.json, s
	python3 -c 'import json, sys; s = json.load(open(sys.argv[1])); print('"$1"')' "$run"/*_"$job.0"/state.json
}
change_state() { # STATEMENT
	python3 -c 'import json, sys
path = sys.argv[1]
s = json.load(open(path))
'"$1"'
json.dump(s, open(path, "w"), separators=(",", ":"))' "$run"/*_"$job.0"/state.json
}
kill_agent() {
	kill -KILL "$agent"
	wait "$agent" 2>/dev/null
}
gone() { # PID
	! kill -0 "$1" 2>/dev/null || grep -qs '^State:	Z' "/proc/$1/status"
}
adopted() { # TIMES
	[ "$(state_of 's["adopted"]')" = "$1" ]
}
begin() { # a step whose service is $service
	agent --proctrack "$b" --mpi pmi2 -n 2 -- sh -c "$until_gone"
	service=$(state_of 's["mpi_service"]["pid"]')
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
	for pid in $task_pids; do gone "$pid" || return 1; done
}
end_tasks() {
	task_pids=$(state_of '" ".join(str(t["pid"]) for t in s["tasks"])')
	rm -f "$tmpdir/stay"
}

for b in $(backends); do
	begin
	is "$(cat "/proc/$service/comm")" stepd-mpi "$b: state.json names the service process"
	lose_agent
	begin_adopter
	ok "$b: a step whose service hangs is adopted" eventually adopted 1
	end_tasks
	wait "$adopter"
	ok "$b: its adopter comes to an end" test $? -ne 124
	ok "$b: and the service is gone with it" gone "$service"
	nothing_left "$b: nothing is left"

	begin
	lose_agent
	end_tasks
	eventually tasks_gone
	out=$(timeout 120 "$stepctl" clean 2>&1)
	ok "$b: 'stepctl clean' comes to an end" test $? -ne 124
	ok "$b: and the service that hung is gone" gone "$service"
	nothing_left "$b: nothing is left ($out)"

	# By programs that were put in place of others.
	begin
	ok "$b: an agent executes a new program" upgrade
	lose_agent
	begin_adopter
	ok "$b: its step is adopted" eventually adopted 1
	"$stepctl" reexec "$job.0" >/dev/null 2>&1
	ok "$b: the adopter executes itself anew and knows the service" \
		test "$(state_of 's["mpi_service"]["pid"]')" = "$service"
	end_tasks
	wait "$adopter"
	ok "$b: that program comes to an end" test $? -ne 124
	ok "$b: and the service is gone with it" gone "$service"
	nothing_left "$b: nothing is left"
done

# ---- a pid alone is no name --------------------------------------------------------------------
b=linuxproc
setsid sleep 600 &
stranger=$!
begin
kill_agent
ticks=$(state_of 's["mpi_service"]["start_ticks"]')
change_state "s['mpi_service']['pid'] = $stranger"
end_tasks
eventually tasks_gone
"$stepctl" clean >/dev/null 2>&1
ok "a process that began at another time than the service lives" kill -0 "$stranger"
ok "start times are told" test "$ticks" -gt 0
nothing_left "the step is tidied up"

begin
kill_agent
change_state 's["mpi_service"] = {"pid": '"$stranger"'}'
end_tasks
eventually tasks_gone
"$stepctl" clean >/dev/null 2>&1
ok "so does one whose start time nobody has noted" kill -0 "$stranger"
nothing_left "and that step is tidied up"
kill "$stranger"

# ---- state.json of an agent that does not know of it -------------------------------------------
begin
kill_agent
change_state 'del s["mpi_service"]'
begin_adopter
ok "a step of an agent that has not noted its service is adopted" eventually adopted 1
end_tasks
wait "$adopter"
ok "its service ends by itself" eventually gone "$service"
nothing_left_soon "nothing is left"

b=linuxproc
agent --proctrack "$b" --mpi none -n 1 -- sh -c "$until_gone"
is "$(state_of '"mpi_service" in s')" False "a step without a service process names none"
rm -f "$tmpdir/stay"
wait "$agent"
nothing_left_soon "nothing is left of it"
done_testing
