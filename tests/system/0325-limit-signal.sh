#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# --signal: a signal some time before the time limit, once, whatever becomes of the agent meanwhile.
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"
command -v python3 >/dev/null || skip_all "needs python3"
steprun=${top_builddir:?}/stepd/cli/steprun

# A task that prints which signals it gets, and ends with status 9 at the second kind.
cat >"$tmpdir/task" <<'EOF2'
trap 'echo got USR1' USR1
trap 'echo got USR2; exit 9' USR2
echo there
while :; do sleep 0.05; done
EOF2

begin() { # OPTION...
	: >"$tmpdir/out"
	rm -f "$tmpdir/r"
	"$stepd" run --job "$job" --proctrack "$tracker" --result "$tmpdir/r" "$@" -- \
		sh "$tmpdir/task" >"$tmpdir/out" 2>"$tmpdir/err" &
	agent=$!
	eventually grep -q there "$tmpdir/out"
}

sent() { # so many times
	[ "$(grep -c '^got USR1' "$tmpdir/out")" -eq "$1" ]
}

logged() { # how often the agents' logs report it
	cat "$tmpdir/err" "$tmpdir"/err.* 2>/dev/null | grep -c 'time limit of 300 s is near: sending USR1'
}

# A later signal proves that no other came before.
finish() { # NAME
	"$stepctl" signal --signal USR2 "$job.0" >/dev/null
	wait "$agent"
	is "$? $(grep -c '^got USR1' "$tmpdir/out")" "9 1" "$1"
}

# ---- when, and to whom ---------------------------------------------------------------------------
begin --time-limit=300s --signal=USR1@297s
ok "the signal comes before the time limit" eventually sent 1
is "$(logged)" 1 "the log has a line for the signal before the time limit"
finish "the signal before the time limit is sent once, and ends nothing by itself"
is "$(json_get "$tmpdir/r" reason)" completed "a step that got its signal completes as it would without"

begin --time-limit=63s --signal=SIGUSR1
eventually sent 1
"$stepctl" signal --signal USR2 "$job.0"
wait "$agent"
ok "--signal without a number means 60 seconds before the time limit" test "$(json_get "$tmpdir/r" elapsed_usec)" -ge 3000000 -a "$(json_get "$tmpdir/r" reason)" != time-limit

out=$(step --time-limit=300s --signal=USR1@10m -- sh -c 'sleep 200' 2>&1)
is $? 138 "the signal is sent at once where the time limit is nearer from the beginning"

# These tasks have five seconds to ignore it, or to set their traps.
out=$(step -q --time-limit=65s --signal=10@60 -- sh -c "trap '' USR1; sleep 6; echo \"child \$?\"" 2>&1)
is "$out" "child 0" "a signal that all ignore changes nothing"
out=$(step -q --time-limit=300s --signal=USR1@295 -- sh -c 'trap : USR1; sleep 200; echo "child $?"' 2>/dev/null)
is "$out" "child 138" "all processes of the step get the signal"
out=$(step -q --time-limit=300s --signal=b:USR1@295 -- bash -c 'trap "echo shell" USR1; sleep 200 & wait; kill -0 $! && echo "child lives"; kill $!' 2>&1)
is "$out" "shell
child lives" "with B: the tasks' first processes alone get the signal"
out=$(step --time-limit=60s --signal=USR1@1 -- true 2>&1)
is "$?$out" 0 "a step that ends before gets no signal"

cat >"$tmpdir/script" <<'EOF2'
#!/bin/bash
trap 'echo saved; kill $!; exit 3' USR1
sleep 200 &
wait
EOF2
out=$(step -q --time-limit=300s --signal=B:USR1@295 --batch "$tmpdir/script" 2>&1)
is "$? $out" "3 saved" "a batch script gets the signal"

out=$(timeout 900 "$steprun" -q --launcher=local --job "$job" --proctrack "$tracker" -N 2 -n 2 --time-limit=300s \
	--signal=USR1@295 sh -c 'trap "echo got; exit 4" USR1; while :; do sleep 0.05; done' 2>&1)
is "$? $(printf '%s\n' "$out" | grep -c '^got')" "4 2" "the tasks of all nodes get the signal under steprun"

# ---- suspended, upgraded, adopted ----------------------------------------------------------------
begin --time-limit=300s --signal=USR1@299
"$stepctl" suspend "$job.0"
# Longer than until the signal: it must not come meanwhile, which nothing else can show.
sleep 1.5
is "$(logged)" 0 "the time before the signal does not pass while the step is suspended"
"$stepctl" reexec "$job.0" >/dev/null
is $? 0 "the agent of a suspended step is replaced"
is "$(logged)" 0 "the replaced agent sends nothing to a suspended step"
"$stepctl" resume "$job.0"
ok "the new program sends the signal once the step is resumed" eventually sent 1
"$stepctl" reexec "$job.0" >/dev/null
finish "another upgrade does not send the signal again"
ok "the step ran for all of its time before the signal" test $(($(json_get "$tmpdir/r" elapsed_usec) - $(json_get "$tmpdir/r" suspended_usec))) -ge 1000000


adopt() {
	kill_agent
	mv "$tmpdir/err" "$tmpdir/err.1"
	"$stepd" adopt --result "$tmpdir/r" "$job.0" >>"$tmpdir/out" 2>"$tmpdir/err" &
	agent=$!
	eventually adopted 0
}

begin --time-limit=300s --signal=USR1@297
adopt
ok "the agent that adopts a step sends its signal" eventually sent 1
is "$(logged)" 1 "only the agent that adopts the step sends the signal"
finish "the agent that adopts a step sends the signal once"
rm -f "$tmpdir/err.1"

begin --time-limit=300s --signal=USR1@299
eventually sent 1
adopt
finish "the agent that adopts a step that has had its signal does not send it again"
rm -f "$tmpdir/err.1"

# ---- what can't be -------------------------------------------------------------------------------
refused() { # MESSAGE NAME OPTION...
	refused_message=$1 refused_name=$2
	shift 2
	out=$("$stepd" run "$@" -- true 2>&1)
	is "$? $out" "125 stepd run: --signal: $refused_message" "$refused_name"
}
refused 'needs a time limit: give time_limit_ms (--time or --time-limit), too' \
	"--signal without a time limit is refused with the names of the options" --signal=USR1@60
refused "'FOO' is not a signal" "--signal with a word that is not a signal is refused" --time=1 --signal=FOO@1
refused "'' is not a signal" "--signal without a signal is refused" --time=1 --signal=@1
refused "'soon' is not a number of seconds before the time limit" "--signal with a time that is not a number is refused" --time=1 --signal=USR1@soon
echo '{"argv": ["true"], "time_limit_signal_ms": 5}' >"$tmpdir/spec"
out=$("$stepd" check-spec "$tmpdir/spec" 2>&1)
like "$out" 'time_limit_signal_ms: needs time_limit_signal$' \
	"time_limit_signal_ms without time_limit_signal is refused"

nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
