#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What descends from a process that was added to a step ends with the step, also where its parent
# ends first: it becomes nobody's child that the agent knows.
# shellcheck disable=SC2154 # of control.sh
# shellcheck source=tests/lib/control.sh
. "${top_srcdir:?}/tests/lib/control.sh"

step_name=extern

# An extern step, and $parent in it, which SIGTERM ends, with $child, which ignores it.
begin() {
	start_extern
	rm -f "$tmpdir/child" "$tmpdir/go"
	# shellcheck disable=SC2016 # the other shells' variables
	sh -c 'until [ -e "$0/go" ]; do sleep 0.02; done
		sh -c "trap \"\" TERM; echo \$\$ >$0/child; exec sleep 600" &
		wait' "$tmpdir" &
	parent=$!
	is "$(request AddPid "{\"pid\": $parent}")" '{"parameters":{}}' "$b: AddPid to an extern step is accepted"
	touch "$tmpdir/go"
	eventually ignores_term
}

ignores_term() { # sleep(1) runs, with SIGTERM, bit 14 of the mask, ignored
	child=$(cat "$tmpdir/child") && [ "$(cat "/proc/$child/comm")" = sleep ] &&
		[ $((0x$(sed -n 's/^SigIgn:[^0-9a-f]*//p' "/proc/$child/status") & 0x4000)) -ne 0 ]
}

members() {
	"$stepctl" pids "$job.extern" | sort -n | tr '\n' ' '
}

is_member_alone() {
	[ "$(members)" = "$child " ]
}

finish() { # NAME
	wait "$agent"
	is $? 143 "$b: $1: the extern step ends with 143"
	wait "$parent" 2>/dev/null
	ok "$b: $1: the child of the added process ends with the step" process_ended "$child"
	nothing_left "$b: $1: the job leaves no cgroup, process or file behind"
}

for b in cgroup linuxproc; do
	backends | grep -qx $b || {
		skip 14 "$b can't be used"
		continue
	}
	begin
	"$stepctl" terminate --grace 1s "$job.extern"
	finish "SIGTERM ends the parent and SIGKILL the child"

	begin
	"$stepctl" terminate --now "$job.extern"
	finish "both are killed"

	begin
	is "$(members)" "$(printf '%s\n' "$parent" "$child" | sort -n | tr '\n' ' ')" \
		"$b: an added process and its child are members"
	kill "$parent"
	wait "$parent" 2>/dev/null
	ok "$b: the child of an added process is a member after its parent has ended" eventually is_member_alone
	"$stepctl" terminate --now "$job.extern"
	finish "the parent has ended before"
done
done_testing
