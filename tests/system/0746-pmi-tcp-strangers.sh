#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Who may speak over --pmi-tcp: a process of the step's user that knows a task's PMI_ID, and nobody
# else, however soon the caller closes its end.
. "${top_srcdir:?}/tests/lib/pmi.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root, to be others"
stranger=65531
rushes=20

# UID: starts a step whose task waits; its $port and $id
start_step() {
	rm -f "$tmpdir/go" "$tmpdir/environ"
	# shellcheck disable=SC2016 # the task's
	step --mpi=pmi2 --pmi-tcp --uid "$1" --gid "$1" -n 1 -- sh -c '
		echo "$PMI_PORT $PMI_ID"
		until [ -e "$1" ]; do sleep 0.1; done' sh "$tmpdir/go" >"$tmpdir/environ" 2>"$tmpdir/log" &
	agent=$!
	eventually test -s "$tmpdir/environ"
	read -r port id <"$tmpdir/environ"
}

end_step() { # its exit status is in $status
	: >"$tmpdir/go"
	wait "$agent"
	status=$?
}

stranger() { # VERB UID TEXT [COUNT]
	stranger_verb=$1 stranger_uid=$2
	shift 2
	python3 "$top_srcdir/tests/lib/pmi_stranger.py" "$stranger_verb" "$port" "$stranger_uid" "$@" 2>&1
}

# shellcheck disable=SC2317 # by eventually
refused() { # COUNT: so many refusals are in the log, or the step has ended
	[ "$(grep -c 'PMI: a connection.* is refused' "$tmpdir/log")" -ge "$1" ] || ! kill -0 "$agent" 2>/dev/null
}

for owner in 0 65533; do
	case $owner in
	0) whose="root's step" ;;
	*) whose="user $owner's step" ;;
	esac
	start_step $owner
	for guess in "$id" 0; do
		attack="cmd=initack pmiid=$guess\ncmd=abort exitcode=7\n"
		is "$(stranger rush $stranger "$attack" $rushes)" "" \
			"$whose: a stranger that sends and closes gets no reply (PMI_ID $guess)"
		is "$(stranger call $stranger "$attack")" refused \
			"$whose: a stranger that stays is refused (PMI_ID $guess)"
	done
	eventually refused $((2 * (rushes + 1)))
	is "$(grep -c 'PMI: a connection.* is refused' "$tmpdir/log")" $((2 * (rushes + 1))) \
		"$whose: the log has the refusal of each connection of a stranger"
	ok "$whose: the PMI_ID of rank 0 is not its rank" test "$id" != 0
	for guess in "the rank|0" "another number|$((id / 2))" "its tenfold|${id}0" "a sign before it|-$id" \
		"a letter before it|x$id" "nothing|"; do
		is "$(stranger call $owner "cmd=initack pmiid=${guess#*|}\n")" refused \
			"$whose: its own user with ${guess%%|*} in place of the PMI_ID is refused"
	done
	is "$(stranger call $owner "cmd=initack pmiid=$id\n")" "cmd=initack" \
		"$whose: the step's user with a task's PMI_ID is accepted"
	end_step
	is "$status" 0 "$whose: no stranger aborts the step"
done

# shellcheck disable=SC2016 # the tasks'
out=$(step --mpi=pmi2 --pmi-tcp -n 20 -- sh -c 'echo "id $PMI_ID"')
is "$(printf '%s\n' "$out" | sort -u | grep -cE '^id [1-9][0-9]{0,9}$')" 20 "each task has a PMI_ID of its own"
# shellcheck disable=SC2016 # the tasks'
out=$(step -q --mpi=pmi2 --pmi-tcp -n 2 -- sh -c 'exec "$1" run -q --bootstrap=pmi --proctrack linuxproc \
	--job "$2" --step 1 --node-name "n$PMI_RANK" -- sh -c "echo \$SLURM_PROCID of \$SLURM_STEP_NODELIST"' \
	sh "$stepd" "$job" 2>&1 | sort)
is "$out" "0 of n[0-1]
1 of n[0-1]" "agents that are tasks find each other by their PMI_ID"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
