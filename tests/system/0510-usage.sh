#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What a step and its tasks have used, with each tracker: in the result, as a table, and of a running
# step. Which values are right under a cgroup's controllers is tests/testbed/guest-usage.sh's affair.
. "${top_srcdir:?}/tests/lib/step.sh"
command -v python3 >/dev/null || skip_all "needs python3"

# get FILE EXPRESSION: of the document d; u and s are the step's usage and sources.
get() {
	python3 -c '
import json, sys
d = json.load(open(sys.argv[1]))
u, s = d.get("usage", {}), d.get("usage_sources", {})
t = d["tasks"]
print(eval(sys.argv[2]))' "$1" "$2"
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
	is $? 0 "$b: a step ends"
	is "$(get "$tmpdir/r" 'u.keys() == s.keys() and all(x["usage"].keys() == x["usage_sources"].keys() for x in t)')" \
		True "$b: each value has its source, and no source is without a value"
	is "$(get "$tmpdir/r" 'set(s.values()) | {w for x in t for w in x["usage_sources"].values()} <= {"cgroup", "proc", "rusage"}')" \
		True "$b: which is one of three"
	cpu='u["cpu_user_usec"] + u["cpu_system_usec"]'
	is "$(get "$tmpdir/r" "300000 <= $cpu < 60000000")" True "$b: the step's CPU time"
	is "$(get "$tmpdir/r" "[300000 <= $cpu < 60000000 for u in [x['usage'] for x in t]]")" "[False, True]" \
		"$b: and that of the task that used it"
	is "$(get "$tmpdir/r" '[(48 << 20) <= x["usage"].get("memory_peak_bytes", 0) < (1 << 30) for x in t]')" \
		"[False, True]" "$b: its peak memory"
	is "$(get "$tmpdir/r" '[x["usage"]["page_faults"] >= (48 << 20) // 4096 for x in t]')" \
		"[False, True]" "$b: and its page faults"
	is "$(get "$tmpdir/r" 'u["memory_peak_bytes"] >= t[1]["usage"]["memory_peak_bytes"] and u["page_faults"] >= sum(x["usage"]["page_faults"] for x in t)')" \
		True "$b: the step has no less than they"
	is "$(get "$tmpdir/r" '[("oom_killed" in x) == ("oom_kills" in x["usage"]) for x in [d] + t], d.get("oom_killed", False)')" \
		"([True, True, True], False)" "$b: a verdict on memory where somebody counts, and only there"
	case $b in
	cgroup) wanted=cgroup ;;
	*) wanted=rusage ;;
	esac
	is "$(get "$tmpdir/r" 's["cpu_user_usec"], t[1]["usage_sources"]["cpu_user_usec"]')" \
		"('$wanted', '$wanted')" "$b: CPU time is from $wanted"
	if [ "$b" != cgroup ]; then
		is "$(get "$tmpdir/r" '"oom_killed" in d or "oom_kills" in u or "memory_bytes" in u or "processes" in u')" \
			False "$b: what nobody counted is not there"
	fi
	like "$out" "^Usage of step $job\.0, 2 tasks, [0-9.]+ m?s$" "$b: the table has its heading"
	like "$out" "^(memory peak|largest process) +[0-9.]+ MiB +([0-9.]+ [KM]iB|-) +[0-9.]+ MiB  [cpr*]{1,2}$" "$b: and a row for each value"
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
	is $? 0 "$b: a running step is asked"
	python3 -c 'import json, sys; json.dump(json.load(sys.stdin)["steps"][0], sys.stdout)' \
		<"$tmpdir/all" >"$tmpdir/live"
	is "$(get "$tmpdir/live" 'd["step"], [x["rank"] for x in t]')" \
		"('$job.7', [0, 1])" "$b: it is the right one"
	is "$(get "$tmpdir/live" '[250000 <= x["usage"]["cpu_user_usec"] + x["usage"]["cpu_system_usec"] < 60000000 for x in t]')" \
		"[False, True]" "$b: the CPU time of a task's descendants, now"
	is "$(get "$tmpdir/live" '[(48 << 20) <= x["usage"]["memory_bytes"] < (1 << 30) for x in t], u["memory_bytes"] >= (48 << 20)')" \
		"([False, True], True)" "$b: their memory, now"
	is "$(get "$tmpdir/live" 'u["processes"], [x["usage"]["processes"] for x in t]')" "(3, [1, 2])" \
		"$b: their number"
	out=$("$stepctl" usage "$job.7")
	like "$out" "^processes now +3 +1 +2  [cp]$" "$b: and as a table"
	kill -TERM $agent
	wait $agent
done
out=$("$stepctl" usage "$job.7" 2>&1)
is $? 1 "a step that is over is not found"
like "$out" "stepctl usage: .*there is no step '$job.7'" "which is said"

# ---- tables -------------------------------------------------------------------------------------
widest() {
	awk '{ if (length($0) > n) n = length($0) } END { print n + 0 }'
}
out=$(step --usage -- true 2>&1)
like "$out" "^Usage of step $job\.0, 1 task," "a table of one task"
like "$out" "^                     step        @0  from$" "has one column for it"
# shellcheck disable=SC2016 # the task's shell expands it
out=$(step -n 5 --usage -- sh -c '[ $SLURM_PROCID != 3 ] || exec python3 -c "x = bytearray(32 << 20)"' 2>&1)
like "$out" "^(memory peak|largest process) .* [0-9.]+ [KM]iB @[0-4] .* [0-9.]+ MiB @3 " "of five, the rank of the largest is told"
out=$(step -n 1000 --usage -- true 2>&1)
is $? 0 "1,000 tasks"
like "$out" "^Usage of step $job\.0, 1000 tasks" "have a table"
is "$([ "$(printf '%s\n' "$out" | wc -l)" -le 18 ] && [ "$(printf '%s\n' "$out" | widest)" -le 80 ] && echo fits)" fits \
	"of a screen's height and width"
out=$(step --node-count 2 --ranks 16777210-16777215 -n 16777216 --usage -- true 2>&1)
like "$out" "@1677721[0-5]" "with the largest ranks there are"
is "$([ "$(printf '%s\n' "$out" | widest)" -le 80 ] && echo fits)" fits "too"
out=$(step --usage --output "$tmpdir/none/x" -- true 2>&1)
is $? 125 "a step that can't be started"
unlike "$out" "Usage of step" "has no table"
out=$(step -q --usage -- true 2>&1)
like "$out" "Usage of step" "who asks for quiet and a table gets it"
nothing_left "nothing is left"
done_testing
