#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# stepctl clean: what dead agents left goes, with its container; what lives, or is kept, stays.
. "${top_srcdir:?}/tests/lib/step.sh"

begin() { # BACKEND STEP
	start_step --step "$2" --proctrack "$1" -- sh -c 'echo up; exec sleep 300'
	task=$(state_of "$2" 'tasks[0]["pid"]')
}
died() { # waits until nothing holds the lock any more
	eventually sh -c "'$stepctl' list | grep -q ' died\$'"
}

cleaned() {
	"$stepctl" clean --json >"$tmpdir/json" &&
		[ "$(json_get "$tmpdir/json" 'len(removed)')" -gt 0 ]
}

printf '{"job": %s, "step": 7, "argv": ["/bin/true"]}\n' "$job" >"$tmpdir/spec"
for b in $(backends); do
	begin "$b" 1
	living=$agent
	"$stepd" serve -q --spec "$tmpdir/spec" --keep-result 1h
	begin "$b" 0
	kill_agent
	died
	is "$("$stepctl" clean 2>/dev/null)" "" "$b: clean does not remove a dead agent's step whose processes live"
	ok "$b: list shows a dead agent's step after clean" sh -c "'$stepctl' list | grep -q '^$job\.0 .* died\$'"
	kill -9 "$task"
	eventually sh -c "! kill -0 $task"
	out=$("$stepctl" clean --dry-run)
	like "$out" "_$job\.0: left by an agent that died\$" "$b: clean --dry-run reports a dead agent's step"
	ok "$b: clean --dry-run removes nothing" test -e "$(step_dir 0)"
	eventually cleaned
	is "$(json_get "$tmpdir/json" 'removed[0]["what"]')" "left by an agent that died" \
		"$b: clean --json has what it removed"
	fits_schema "$b: clean --json fits its schema" stepctl.schema.json "$tmpdir/json" clean
	is "$(find "$run" -name "*_$job.0")" "" "$b: clean removes the directory of a dead agent's step"
	is "$(find /sys/fs/cgroup -type d -path "*job_$job/step_0" 2>/dev/null)" "" \
		"$b: clean removes the cgroup of a dead agent's step"
	like "$("$stepctl" list)" "^$job\.1 .*running" "$b: clean does not change a living step"
	like "$("$stepctl" list)" "^$job\.7 .*ended" "$b: clean does not remove a retained result"
	is "$("$stepctl" clean 2>/dev/null)" "" "$b: a second clean has nothing to remove"
	result=$(step_dir 7)/result.json
	json_get "$result" '{**d, "keep_until_time_usec": 1}' >"$tmpdir/expired"
	cat "$tmpdir/expired" >"$result"
	like "$("$stepctl" clean --dry-run)" "_$job\.7: a result whose retention time is over\$" \
		"$b: clean --dry-run reports an expired result"
	is "$(ls "$run"/*_"$job.7")" result.json "$b: clean --dry-run does not remove an expired result"
	like "$("$stepctl" clean)" "_$job\.7: a result whose retention time is over\$" \
		"$b: clean removes an expired result"
	if [ "$(id -u)" = 0 ] && setpriv --reuid 64999 --clear-groups "$stepctl" --version >/dev/null 2>&1; then
		begin "$b" 0
		kill -9 "$agent" "$task"
		wait "$agent" 2>/dev/null
		died
		is "$(setpriv --reuid 64999 --regid 64999 --clear-groups "$stepctl" clean --runtime-dir "$run" 2>/dev/null)" "" \
			"$b: clean of another user removes nothing"
		chown 64999 "$run"/*_"$job.0"/state.json
		out=$("$stepctl" clean 2>&1)
		is "$?" 3 "$b: clean of root refuses another user's state.json"
		chown 0 "$run"/*_"$job.0"/state.json
		eventually sh -c "[ -n \"\$('$stepctl' clean)\" ]"
	else
		skip 2 "needs root, setpriv and a build directory that others may enter"
	fi
	kill "$living"
	wait "$living"
	nothing_left "$b: the job leaves no cgroup, process or file behind"
done
is "$(STEPD_RUNTIME_DIR=$tmpdir/none "$stepctl" clean --json | json_get - d)" '{"dry_run": false, "removed": []}' \
	"clean --json without a runtime directory removes nothing"
done_testing
