#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A step with very many variables costs what copying them costs, and one that no kernel executes is
# refused before anything of it is made. Times are of processors, for the machine may be busy.
. "${top_srcdir:?}/tests/lib/control.sh"

# document COUNT STEP MEMBER...: a spec with that many variables, and more members as Python has them.
# Its task is env itself: dash's time goes with the square of their number.
document() {
	python3 - "$job" "$@" <<'X'
import json, sys
job, count, step, *more = sys.argv[1:]
doc = {"job": int(job), "step": int(step), "argv": ["env"],
	"env": {"PATH": "/usr/bin:/bin", "STEPD_TEST_JOB": job}}
doc["env"].update(("V_%d" % i, "x") for i in range(int(count)))
for member in more:
	name, value = member.split("=", 1)
	doc[name] = eval(value)
print(json.dumps(doc))
X
}

# cpu ARG...: runs "stepd ARG...", its output in $tmpdir/out and $tmpdir/err: its status, and whether it
# and its children took less than 5 s of a processor.
cpu() {
	python3 - "$tmpdir/out" "$tmpdir/err" "$stepd" "$@" <<'X'
import resource, subprocess, sys
out, err, *command = sys.argv[1:]
# Who takes far too long is killed, so that the others have their turn.
status = subprocess.call(command, stdout=open(out, "w"), stderr=open(err, "w"),
	preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (20, 20)))
used = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds = used.ru_utime + used.ru_stime
print(status, "soon" if seconds < 5 else "after %.1f s" % seconds)
X
}

document 80000 0 >"$tmpdir/spec"
is "$(cpu serve --keep-result 0 --spec "$tmpdir/spec")" "0 soon" "a step with 80,000 variables starts and ends"
is "$(grep -c ^V_ "$tmpdir/out")" 80000 "a task gets 80,000 variables"
document 80000 0 'tasks=[{"ranks": "1", "env": {"V_%d" % i: "y" for i in range(60000)}}]' 'ntasks=2' \
	'label=True' >"$tmpdir/spec"
is "$(cpu serve --keep-result 0 --spec "$tmpdir/spec")" "0 soon" \
	"a step in which a rank has other variables starts and ends"
is "$(grep -c '^0: V_.*=y$' "$tmpdir/out") $(grep -c '^1: V_.*=y$' "$tmpdir/out")" "0 60000" "each task has its own variables"

# shellcheck disable=SC2317 # eventually calls it
gone() {
	[ -z "$("$stepctl" pids "$job.1" 2>/dev/null)" ]
}

document 1000000 0 >"$tmpdir/spec"
is "$(cpu serve --keep-result 0 --spec "$tmpdir/spec")" "125 soon" "a step with a million variables is refused"
is "$(wc -l <"$tmpdir/err")" 1 "the refusal of a million variables is one line"
like "$(cat "$tmpdir/err")" "env: .*holds 10000.. variables of [0-9]* bytes.* executes no program with more" \
	"the refusal of a million variables names the limit"
is "$(ls -A "$run")" "" "a step with a million variables is refused before anything is created"
document 1 0 'argv=["true"] + ["x"] * 1000000' >"$tmpdir/spec"
is "$(cpu serve --keep-result 0 --spec "$tmpdir/spec")" "125 soon" "a million arguments are refused"
like "$(cat "$tmpdir/err")" "argv: .*holds 1000001 arguments" \
	"the refusal of a million arguments names their number"

# One that died is adopted, or brought to its end, within the time that this has.
document 80000 1 'argv=["sh", "-c", "echo up; sleep 600"]' >"$tmpdir/spec"
if [ "$tracker" = cgroup ]; then
	: >"$tmpdir/out"
	"$stepd" serve --spec "$tmpdir/spec" >"$tmpdir/out" 2>"$tmpdir/err" &
	agent=$!
	eventually grep -q up "$tmpdir/out"
	tasks=$("$stepctl" pids "$job.1")
	kill_agent
	# shellcheck disable=SC2086 # a pid a word
	kill -9 $tasks
	eventually gone
	out=$("$stepctl" clean 2>&1)
	is "$?" 0 "stepctl clean removes what a dead agent with many variables left: $out"
	is "$(find "$run" -name state.json)" "" "stepctl clean leaves no state of a step with many variables"
	find "$run" -name result.json -delete
else
	skip 2 "needs proctrack/cgroup"
fi
find "$run" -mindepth 1 -type d -empty -delete
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
