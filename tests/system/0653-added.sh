#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What was added to a step from outside is known to whoever goes on in its agent's place, also where
# the container tells of it no more.
# shellcheck disable=SC2154 # of control.sh
# shellcheck source=tests/lib/control.sh
. "${top_srcdir:?}/tests/lib/control.sh"

socket() {
	echo "$run/n1_$job.extern/socket"
}

replaced() { # COUNT: by so many successors
	grep -q "\"adopted\":$1," "$run/n1_$job.extern/state.json" && running extern
}

successors=0
replace() { # the agent is killed, another takes over
	kill -9 "$agent"
	wait "$agent" 2>/dev/null
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
	extern_agent
	sleep 600 &
	first=$!
	rm -f "$tmpdir/go"
	sh -c 'until [ -e "$0" ]; do sleep 0.02; done; sleep 600 & wait' "$tmpdir/go" &
	second=$!
	sleep 600 &
	third=$!
	for pid in $first $second $third; do
		is "$(ask AddPid "{\"pid\": $pid}")" '{"parameters":{}}' "$b: a process is added"
	done
	kill $third
	wait $third 2>/dev/null
	touch "$tmpdir/go"
	eventually pgrep -P $second -f 'sleep 600'
	all=$(printf '%s\n' $first $second "$(pgrep -P $second)" | sort -n | tr '\n' ' ')
	is "$(pids)" "$all" "$b: those that live are members, with their children"
	replace
	is "$(pids)" "$all" "$b: a successor knows them"
	replace
	is "$(pids)" "$all" "$b: and its own successor"
	before=$agent
	ok "$b: the successor executes the program anew" "$stepctl" reexec "$job.extern"
	is "$(pids)" "$all" "$b: which knows them"
	sleep 600 &
	third=$!
	is "$(ask AddPid "{\"pid\": $third}")" '{"parameters":{}}' "$b: and takes another"
	replace
	isnt "$agent" "$before" "$b: another successor"
	is "$(pids)" "$(printf '%s\n' $all $third | sort -n | tr '\n' ' ')" "$b: knows all of them"
	"$stepctl" terminate --now "$job.extern"
	wait "$agent"
	is $? 143 "$b: the step is ended"
	wait $first $second $third 2>/dev/null
	ok "$b: and they with it" all_ended $first $second $third
	nothing_left "$b: nothing is left"
done
done_testing
