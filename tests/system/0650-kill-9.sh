#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The agent is killed at every phase of a step, and again while another one takes over; the next one
# ends the step as it should have ended: no process is lost, no result, and nothing is left.
# KILL9_ROUNDS rounds; each phase with each backend once if it is not given, or hundreds with --all.
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

failing=$top_builddir/tests/lib/stepd-failpoints
# Plugins of the build, not those beside the test program.
STEPD_PLUGIN_DIR=$top_builddir/stepd/cli/plugins
export STEPD_PLUGIN_DIR
[ -x "$failing" ] || bail "tests/lib/stepd-failpoints was not built"
rounds=${KILL9_ROUNDS:-$(rounds 70 500)}

# Three tasks: one ends by itself with 3, one with 0, one stays until the file is there.
spec() { # BACKEND
	printf '{"job": %s, "step": %s, "ntasks": 3, "proctrack": "%s", "kill_sequence": [' "$job" "$step_no" "$1"
	printf '{"signal": "TERM", "wait_ms": 2000}, {"signal": "KILL"}], "argv": ["sh", "-c", "%s"],' \
		'case $SLURM_PROCID in 0) exit 3;; 1) exit 0;; esac; while [ ! -e $UP ]; do sleep 0.02; done; exit 5'
	printf ' "env": {"PATH": "/usr/bin:/bin", "STEPD_TEST_JOB": "%s", "UP": "%s"}}\n' "$job" "$tmpdir/up"
}

# What makes a step go through that phase.
provoke() { # FAILPOINT PID
	case $1 in
	suspending | standing)
		eventually running "$step_no"
		kill -TSTP "$2"
		;;
	ending)
		eventually running "$step_no"
		kill -TERM "$2"
		;;
	*) touch "$tmpdir/up" ;;
	esac
}

# What the step may exit with in the end: as if nobody had been killed, or 121 where a status may be
# lost, or 125 where it had not begun.
wanted() { # FAILPOINT
	case $1 in
	claimed | described | contained | published | listening | forked | released) echo 125 ;;
	ending) echo '143|121|3' ;;
	*) echo '5|3|121' ;;
	esac
}

result() { # EXPRESSION
	json_get "$(step_dir "$step_no")/result.json" "$1" 2>/dev/null
}

one_round() { # BACKEND FAILPOINT
	rm -f "$tmpdir/up"
	spec "$1" >"$tmpdir/spec"
	point=$2
	at=
	case $2 in
	adopt-*) point='running' ;;
	waited | task-recorded | reaped) at=":$((step_no % 3 + 1))" ;;
	esac
	STEPD_FAILPOINT=$point$at timeout -k 5 150 "$failing" serve -q --spec "$tmpdir/spec" 2>"$tmpdir/err" &
	runner=$!
	case $2 in
	suspending | standing | ending)
		eventually running "$step_no"
		provoke "$2" "$(state_of "$step_no" agent_pid)"
		;;
	adopt-*) ;;
	*) provoke "$2" ;;
	esac
	wait $runner
	code=$?
	[ "$code" = 137 ] || { complaint="the agent was not killed (status $code)"; return 1; }
	case $2 in
	adopt-*)
		STEPD_FAILPOINT=$2 timeout -k 5 150 "$failing" adopt -q "$job.$step_no" 2>>"$tmpdir/err"
		code=$?
		[ "$code" = 137 ] || { complaint="the adopter was not killed (status $code)"; return 1; }
		;;
	esac
	touch "$tmpdir/up" # only now: of a step that is over an adopter has less to do
	timeout -k 5 150 "$stepd" adopt -q "$job.$step_no" 2>>"$tmpdir/err"
	code=$?
	wants=$(wanted "$2")
	# Who died after the result was written leaves the one that it wrote.
	printf '%s\n' "$code" | grep -Eqx "$wants" || { complaint="status $code, not $wants"; return 1; }
	if [ "$2" != claimed ] && [ "$(result state)" != ended ]; then
		complaint="no result"
		return 1
	fi
	left="$(left_entries)$(find /sys/fs/cgroup -type d -path "*job_$job/step_$step_no")$(left_named)"
	[ -z "$left" ] || { complaint="left: $left"; return 1; }
	return 0
}

points=$(grep -ho 'failpoint("[a-z-]*")' "$top_srcdir"/stepd/step/*.c |
	sed 's/.*"\(.*\)".*/\1/' | sort -u)
ok "the agent's sources have failpoints" test -n "$points"
step_no=0
good=0
lost=0
done_rounds=0
while [ "$done_rounds" -lt "$rounds" ]; do
	for b in $(backends); do
		for p in $points; do
			[ "$done_rounds" -lt "$rounds" ] || break 2
			# Who was stopped by a signal is ended by SIGHUP when the agent dies.
			case $p,$b in standing,cgroup) ;; standing,* | suspending,linuxproc | suspending,pgid) continue ;; esac
			step_no=$((step_no + 1))
			done_rounds=$((done_rounds + 1))
			if one_round "$b" "$p"; then
				good=$((good + 1))
				[ "$code" != 121 ] && [ "$(result 'any("was lost" in t["text"] for t in tasks)')" != true ] || lost=$((lost + 1))
			else
				not_ok "$b: a step whose agent is killed at '$p' ends as it should" "$complaint
$(cat "$tmpdir/err")"
			fi
		done
	done
done
is "$good of $done_rounds" "$done_rounds of $done_rounds" "every step whose agent was killed ended as it should"
diag "kill -9 at every phase: $good of $done_rounds rounds right; in $lost of them a status was lost, and reported as lost"
rm -rf "${run:?}"/*
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
