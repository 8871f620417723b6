#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What a step and its tasks have used, with each tracker: in the result, as a table, and of a running
# step. Which values are right under a cgroup's controllers is tests/testbed/guest-usage.sh's affair.
. "${top_srcdir:?}/tests/lib/step.sh"
command -v python3 >/dev/null || skip_all "needs python3"

# get FILE EXPRESSION: of the document d; u and s are the step's usage and sources.
get() {
	json_get "$1" "(lambda u, s, t: $2)(d.get('usage', {}), d.get('usage_sources', {}), tasks)"
}

# A task of rank 1 computes for 300 ms in a child of its own, and has 48 MiB; rank 0 does nothing.
cat >"$tmpdir/work" <<'X'
[ "$SLURM_PROCID" = 1 ] || exit 0
python3 -c '
import time
hog = bytearray(48 << 20)
while time.process_time() < 0.3:
    pass
open("'"$1"'", "w").write("done")
'"$2"'
'
exit 0
X
for b in $(backends); do
	out=$(step --proctrack "$b" -n 2 --result "$tmpdir/r" --usage -- sh "$tmpdir/work" "$tmpdir/x" '' 2>&1)
	is $? 0 "$b: a step with --usage succeeds"
	is "$(get "$tmpdir/r" 'u.keys() == s.keys() and all(x["usage"].keys() == x["usage_sources"].keys() for x in t)')" \
		true "$b: each value has its source, and no source is without a value"
	is "$(get "$tmpdir/r" 'set(s.values()) | {w for x in t for w in x["usage_sources"].values()} <= {"cgroup", "proc", "rusage"}')" \
		true "$b: each source is cgroup, proc or rusage"
	cpu='u["cpu_user_usec"] + u["cpu_system_usec"]'
	is "$(get "$tmpdir/r" "300000 <= $cpu < 60000000")" true "$b: the result has the step's CPU time"
	is "$(get "$tmpdir/r" "[300000 <= $cpu < 60000000 for u in [x['usage'] for x in t]]")" "[false, true]" \
		"$b: the result has the CPU time of the task that used it"
	is "$(get "$tmpdir/r" '[(48 << 20) <= x["usage"].get("memory_peak_bytes", 0) < (1 << 30) for x in t]')" \
		"[false, true]" "$b: the result has the task's peak memory"
	is "$(get "$tmpdir/r" '[x["usage"]["page_faults"] >= (48 << 20) // 4096 for x in t]')" \
		"[false, true]" "$b: the result has the task's page faults"
	is "$(get "$tmpdir/r" 'u["memory_peak_bytes"] >= t[1]["usage"]["memory_peak_bytes"] and u["page_faults"] >= sum(x["usage"]["page_faults"] for x in t)')" \
		true "$b: the step used no less memory and page faults than its tasks"
	is "$(get "$tmpdir/r" '[[("oom_killed" in x) == ("oom_kills" in x["usage"]) for x in [d] + t], d.get("oom_killed", False)]')" \
		"[[true, true, true], false]" "$b: the result has oom_killed where OOM kills are counted, and only there"
	case $b in
	cgroup) wanted=cgroup ;;
	*) wanted=rusage ;;
	esac
	is "$(get "$tmpdir/r" '[s["cpu_user_usec"], t[1]["usage_sources"]["cpu_user_usec"]]')" \
		"[\"$wanted\", \"$wanted\"]" "$b: CPU time is from $wanted"
	if [ "$b" != cgroup ]; then
		is "$(get "$tmpdir/r" '"oom_killed" in d or "oom_kills" in u or "memory_bytes" in u or "processes" in u')" \
			false "$b: the result omits what nobody counted"
	fi
	like "$out" "^Usage of step $job\.0, 2 tasks, [0-9.]+ m?s$" "$b: the table of usage has a heading"
	like "$out" "^(memory peak|largest process) +[0-9.]+ MiB +([0-9.]+ [KM]iB|-) +[0-9.]+ MiB  [cpr*]{1,2}$" \
		"$b: the table of usage has a row for memory"
done

# ---- a running step -----------------------------------------------------------------------------
for b in $(backends); do
	rm -f "$tmpdir/x"
	"$stepd" run --job "$job" --step 7 --proctrack "$b" -n 2 --result "$tmpdir/r" -- \
		sh -c "[ \$SLURM_PROCID = 1 ] || exec sleep 99; . $tmpdir/work" sh "$tmpdir/x" 'time.sleep(99)' &
	agent=$!
	# "sh -c TEXT sh ARGS": the sourced script sees them as its own.
	eventually test -s "$tmpdir/x"
	"$stepctl" usage --json "$job.7" >"$tmpdir/all"
	is $? 0 "$b: stepctl usage of a running step succeeds"
	json_get "$tmpdir/all" 'steps[0]' >"$tmpdir/live"
	is "$(get "$tmpdir/live" '[d["step"], [x["rank"] for x in t]]')" \
		"[\"$job.7\", [0, 1]]" "$b: stepctl usage reports the step and its tasks"
	is "$(get "$tmpdir/live" '[250000 <= x["usage"]["cpu_user_usec"] + x["usage"]["cpu_system_usec"] < 60000000 for x in t]')" \
		"[false, true]" "$b: stepctl usage reports the CPU time of a task's descendants"
	is "$(get "$tmpdir/live" '[[(48 << 20) <= x["usage"]["memory_bytes"] < (1 << 30) for x in t], u["memory_bytes"] >= (48 << 20)]')" \
		"[[false, true], true]" "$b: stepctl usage reports the memory of a task's descendants"
	is "$(get "$tmpdir/live" '[u["processes"], [x["usage"]["processes"] for x in t]]')" "[3, [1, 2]]" \
		"$b: stepctl usage reports the number of processes"
	out=$("$stepctl" usage "$job.7")
	like "$out" "^processes now +3 +1 +2  [cp]$" "$b: stepctl usage prints a table"
	kill -TERM $agent
	wait $agent
done
out=$("$stepctl" usage "$job.7" 2>&1)
is $? 1 "stepctl usage does not find a step that has ended"
like "$out" "stepctl usage: .*there is no step '$job.7'" "stepctl usage reports that there is no such step"

# ---- tables -------------------------------------------------------------------------------------
widest() {
	awk '{ if (length($0) > n) n = length($0) } END { print n + 0 }'
}
out=$(step --usage -- true 2>&1)
like "$out" "^Usage of step $job\.0, 1 task," "a table of one task has a heading"
like "$out" "^                     step        @0  from$" "a table of one task has one column for it"
# shellcheck disable=SC2016 # the task's shell expands it
out=$(step -n 5 --usage -- sh -c '[ $SLURM_PROCID != 3 ] || exec python3 -c "x = bytearray(32 << 20)"' 2>&1)
like "$out" "^(memory peak|largest process) .* [0-9.]+ [KM]iB @[0-4] .* [0-9.]+ MiB @3 " \
	"a table of five tasks has the rank of the largest"
out=$(step -n 1000 --usage -- true 2>&1)
is $? 0 "a step of 1,000 tasks with --usage succeeds"
like "$out" "^Usage of step $job\.0, 1000 tasks" "a table of 1,000 tasks has a heading"
is "$([ "$(printf '%s\n' "$out" | wc -l)" -le 18 ] && [ "$(printf '%s\n' "$out" | widest)" -le 80 ] && echo fits)" fits \
	"a table of 1,000 tasks fits a screen"
out=$(step --node-count 2 --ranks 16777210-16777215 -n 16777216 --usage -- true 2>&1)
like "$out" "@1677721[0-5]" "a table has the largest ranks there are"
is "$([ "$(printf '%s\n' "$out" | widest)" -le 80 ] && echo fits)" fits \
	"a table with the largest ranks fits 80 columns"
out=$(step --usage --output "$tmpdir/none/x" -- true 2>&1)
is $? 125 "a step without its output file exits with 125"
unlike "$out" "Usage of step" "a step that can't be started has no table"
out=$(step -q --usage -- true 2>&1)
like "$out" "Usage of step" "--usage prints a table with -q, too"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
