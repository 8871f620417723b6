#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What was added to a step from outside is known to whoever goes on in its agent's place, also where
# the container no longer shows it.
# shellcheck disable=SC2154 # of control.sh
# shellcheck source=tests/lib/control.sh
. "${top_srcdir:?}/tests/lib/control.sh"

step_name=extern

replaced() { # COUNT: by so many successors
	adopted extern "$1" && running extern
}

successors=0
replace() { # the agent is killed, another takes over
	kill_agent
	successors=$((successors + 1))
	"$stepd" adopt -q --keep-result 0 "$job.extern" 2>>"$tmpdir/err" &
	agent=$!
	eventually replaced $successors
}

pids() {
	"$stepctl" pids "$job.extern" | sort -n | tr '\n' ' '
}

all_ended() { # PID...
	for pid; do
		! kill -0 "$pid" 2>/dev/null || return 1
	done
}

for b in cgroup linuxproc; do
	backends | grep -qx $b || {
		skip 14 "$b can't be used"
		continue
	}
	successors=0
	start_extern
	sleep 600 &
	first=$!
	rm -f "$tmpdir/go"
	sh -c 'until [ -e "$0" ]; do sleep 0.02; done; sleep 600 & wait' "$tmpdir/go" &
	second=$!
	sleep 600 &
	third=$!
	for pid in $first $second $third; do
		is "$(request AddPid "{\"pid\": $pid}")" '{"parameters":{}}' "$b: AddPid to an extern step is accepted"
	done
	kill $third
	wait $third 2>/dev/null
	touch "$tmpdir/go"
	eventually pgrep -P $second -f 'sleep 600'
	all=$(printf '%s\n' $first $second "$(pgrep -P $second)" | sort -n | tr '\n' ' ')
	is "$(pids)" "$all" "$b: added processes that live are members, with their children"
	replace
	is "$(pids)" "$all" "$b: a successor knows the added processes"
	replace
	is "$(pids)" "$all" "$b: a second successor knows the added processes"
	before=$agent
	ok "$b: a successor is upgraded by stepctl reexec" "$stepctl" reexec "$job.extern"
	is "$(pids)" "$all" "$b: an upgraded successor knows the added processes"
	sleep 600 &
	third=$!
	is "$(request AddPid "{\"pid\": $third}")" '{"parameters":{}}' \
		"$b: AddPid to an upgraded successor is accepted"
	replace
	isnt "$agent" "$before" "$b: another successor has another pid"
	is "$(pids)" "$(printf '%s\n' $all $third | sort -n | tr '\n' ' ')" \
		"$b: the successor of an upgraded agent knows all added processes"
	"$stepctl" terminate --now "$job.extern"
	wait "$agent"
	is $? 143 "$b: stepctl terminate ends an extern step with 143"
	wait $first $second $third 2>/dev/null
	ok "$b: added processes end with the step" all_ended $first $second $third
	nothing_left "$b: the job leaves no cgroup, process or file behind"
done
done_testing
