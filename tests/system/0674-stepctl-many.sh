#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Many steps at once: requests to 30 (with --all 100), 10,000 pids in one call of find, numbers of other
# pid namespaces, and the list of 1,000 steps. Durations are printed as comments.
. "${top_srcdir:?}/tests/lib/step.sh"
command -v python3 >/dev/null || skip_all "needs python3"
steps=${STEPD_TEST_STEPS:-$(rounds 30 100)}

took() { # NAME COMMAND...: its standard output is in $tmpdir/answer, and its status is $status
	took_name=$1
	shift
	began=$(now_ms)
	"$@" >"$tmpdir/answer" 2>"$tmpdir/err"
	status=$?
	diag "$took_name: $(($(now_ms) - began)) ms, load $(cut -d ' ' -f 1 /proc/loadavg)"
}

agents=
for b in $(backends); do
	[ "$b" != pgid ] || continue
	n=0
	agents=
	while [ $n -lt "$steps" ]; do
		"$stepd" run -q --job "$job" --step $n --proctrack "$b" -n 2 -- sh -c 'sleep 300 & wait' 2>>"$tmpdir/log" &
		agents="$agents $!"
		n=$((n + 1))
	done
	comes sh -c "[ \$('$stepctl' list | grep -c running) = $steps ]" || eventually sh -c "[ \$('$stepctl' list | grep -c running) = $steps ]"
	is "$("$stepctl" list | grep -c " running ")" "$steps" "$b: $steps steps run"
	"$stepctl" list --names >"$tmpdir/names"
	# shellcheck disable=SC2046 # names
	{
		took "$b: pids of $steps steps" "$stepctl" pids $(cat "$tmpdir/names")
		is "$status,$(sort -u "$tmpdir/answer" | wc -l)" "0,$((4 * steps))" \
			"$b: one stepctl pids lists the processes of $steps steps"
		cp "$tmpdir/answer" "$tmpdir/pids"
		took "$b: suspend $steps steps" "$stepctl" suspend $(cat "$tmpdir/names")
		is "$status,$("$stepctl" list | grep -c " suspended ")" "0,$steps" \
			"$b: one stepctl suspend suspends $steps steps"
		took "$b: resume $steps steps" "$stepctl" resume $(cat "$tmpdir/names")
		is "$status,$("$stepctl" list | grep -c " running ")" "0,$steps" \
			"$b: one stepctl resume resumes $steps steps"
		took "$b: usage of $steps steps" "$stepctl" usage $(cat "$tmpdir/names")
		is "$status,$(grep -c '^Usage of' "$tmpdir/answer")" "0,$steps" \
			"$b: one stepctl usage reports $steps steps"
	}
	took "$b: top of $steps steps" "$stepctl" top --batch -n 1 -i 500ms
	is "$status,$(grep -c " running " "$tmpdir/answer")" "0,$steps" "$b: top shows $steps steps"

	# 10,000 numbers: all of the steps, and others that are in none.
	{
		cat "$tmpdir/pids"
		seq 1 10000 | grep -vxFf "$tmpdir/pids" | head -n $((10000 - 4 * steps))
	} >"$tmpdir/wanted"
	is "$(wc -l <"$tmpdir/wanted")" 10000 "$b: the list for find has 10,000 pids"
	took "$b: find of 10,000 pids over $steps steps" "$stepctl" find - <"$tmpdir/wanted"
	is "$status" 1 "$b: find of 10,000 pids exits with 1, as some are in no step"
	is "$(wc -l <"$tmpdir/answer")" 10000 "$b: find prints a line for each of 10,000 pids"
	is "$(awk '{ print $1 }' "$tmpdir/answer" | cmp - "$tmpdir/wanted" && echo same)" same \
		"$b: find prints 10,000 pids in their order"
	is "$(grep -c " step $job\.[0-9]* task [01] " "$tmpdir/answer")" $((4 * steps)) \
		"$b: find prints step and task of each process of the steps"
	if [ "$b" = cgroup ]; then
		# shellcheck disable=SC2046 # pids
		if command -v strace >/dev/null; then
			strace -f -e trace=connect -o "$tmpdir/trace" "$stepctl" find - <"$tmpdir/wanted" >/dev/null
			is "$(grep -c 'socket"' "$tmpdir/trace")" 0 "$b: find sends no request to an agent"
		else
			skip 1 "strace is not installed"
		fi
	fi

	# ---- numbers of another pid namespace
	if [ "$b" = cgroup ] && [ "$(id -u)" = 0 ] && unshare --pid --fork --mount-proc true 2>/dev/null; then
		mkfifo "$tmpdir/inner"
		"$stepd" run -q --job "$job" --step ns --proctrack cgroup -- true 2>/dev/null
		"$stepd" run -q --job "$job" --step $((steps + 1)) --proctrack cgroup -- \
			unshare --pid --fork --mount-proc sh -c "sleep 300 & echo \$! >'$tmpdir/inner'; wait" &
		inner_agent=$!
		read -r inner <"$tmpdir/inner"
		host=$("$stepctl" pids "$job.$((steps + 1))" | while read -r p; do
			[ "$(cat "/proc/$p/comm")" != sleep ] || echo "$p"
		done)
		like "$("$stepctl" find --namespace "$host" "$inner")" \
			"^$inner step $job.$((steps + 1)) task 0 .* pid $host\$" "find knows a pid of another namespace, given by a pid"
		inode=$(stat -L -c %i "/proc/$host/ns/pid")
		like "$("$stepctl" find --namespace "$inode" "$inner" 1)" "^$inner .* pid $host\$" \
			"find knows a pid of another namespace, given by its inode"
		like "$("$stepctl" find --namespace "$$" "$host")" "^$host step" \
			"find --namespace accepts a pid of its own namespace"
		kill $inner_agent
		wait $inner_agent
	elif [ "$b" = cgroup ]; then
		skip 3 "no pid namespace can be made"
	fi
	# shellcheck disable=SC2046 # names
	took "$b: end $steps steps" "$stepctl" terminate --now $(cat "$tmpdir/names")
	is "$status" 0 "$b: one stepctl terminate ends $steps steps"
	for agent in $agents; do
		wait "$agent"
	done
	nothing_left "$b: the job leaves no cgroup, process or file behind"
done

# ---- a thousand ----------------------------------------------------------------------------------
# Directories as agents leave them: the list is of what stands there.
n=1000
cat >"$tmpdir/make.py" <<'X'
import json, os, sys
for i in range(int(sys.argv[2])):
    d = "%s/n%d_%s.%d" % (sys.argv[1], i % 3, sys.argv[3], i)
    os.mkdir(d)
    open(d + "/lock", "w").close()
    json.dump({"version": 1, "job": int(sys.argv[3]), "step": str(i), "node": "n%d" % (i % 3), "node_id": 0,
               "uid": 0, "user": "root", "state": "running", "proctrack": "proctrack/cgroup", "container_id": 4711 + i,
               "container_root": "/sys/fs/cgroup", "agent_pid": 1, "agent_start_ticks": 1,
               "tasks": [{"rank": k, "pid": 0} for k in range(4)]}, open(d + "/state.json", "w"))
X
python3 "$tmpdir/make.py" "$run" $n "$job"
took "list of $n steps" "$stepctl" list
is "$status,$(grep -c ' died$' "$tmpdir/answer")" "0,$n" "list prints $n steps"
took "list --json of $n steps" "$stepctl" list --json
is "$(json_get "$tmpdir/answer" 'len(steps)')" $n "list --json prints $n steps"
rm -rf "${run:?}"/*
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
