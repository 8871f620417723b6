#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# stepctl clean: what dead agents left goes, with its container; what lives, or is kept, stays.
. "${top_srcdir:?}/tests/lib/step.sh"

agent() { # BACKEND STEP
	: >"$tmpdir/out"
	"$stepd" run -q --job "$job" --step "$2" --proctrack "$1" -- sh -c 'echo up; exec sleep 300' >"$tmpdir/out" 2>/dev/null &
	agent=$!
	eventually test -s "$tmpdir/out"
	task=$(sed -n 's/.*"rank":0,"pid":\([0-9]*\).*/\1/p' "$run"/*_"$job.$2"/state.json)
}
died() { # waits until nothing holds the lock any more
	eventually sh -c "'$stepctl' list | grep -q ' died\$'"
}

printf '{"job": %s, "step": 7, "argv": ["/bin/true"]}\n' "$job" >"$tmpdir/spec"
for b in $(backends); do
	agent "$b" 1
	living=$agent
	"$stepd" serve -q --spec "$tmpdir/spec" --keep-result 1h
	agent "$b" 0
	kill -9 "$agent"
	wait "$agent" 2>/dev/null
	died
	is "$("$stepctl" clean 2>/dev/null)" "" "$b: a dead agent's step whose processes live stays"
	ok "$b: a dead agent's step whose processes live is still listed" sh -c "'$stepctl' list | grep -q '^$job\.0 .* died\$'"
	kill -9 "$task"
	eventually sh -c "! kill -0 $task"
	out=$("$stepctl" clean --dry-run)
	like "$out" "_$job\.0: left by an agent that died\$" "$b: --dry-run names what would go"
	ok "$b: --dry-run removes nothing" test -e "$(echo "$run"/*_"$job.0")"
	eventually sh -c "'$stepctl' clean --json >'$tmpdir/json' && grep -q '_$job\.0' '$tmpdir/json'"
	like "$(cat "$tmpdir/json")" '"what": "left by an agent that died"' "$b: clean --json has what was removed"
	if python3 -c 'import jsonschema' 2>/dev/null; then
		ok "$b: as the schema says" python3 - "$top_srcdir/doc/stepctl.schema.json" "$tmpdir/json" <<'X'
import json, sys, jsonschema
schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator({"$defs": schema["$defs"], "$ref": "#/$defs/clean"}).validate(json.load(open(sys.argv[2])))
X
	else
		skip 1 "python3-jsonschema is not installed"
	fi
	is "$(find "$run" -name "*_$job.0")" "" "$b: clean removes the directory of the step"
	is "$(find /sys/fs/cgroup -type d -path "*job_$job/step_0" 2>/dev/null)" "" "$b: clean removes the container of the step"
	like "$("$stepctl" list)" "^$job\.1 .*running" "$b: a living step is not touched"
	like "$("$stepctl" list)" "^$job\.7 .*ended" "$b: a retained result is not touched"
	is "$("$stepctl" clean 2>/dev/null)" "" "$b: a second clean removes nothing"
	sed -i 's/"keep_until_time_usec": [0-9]*/"keep_until_time_usec": 1/' "$run"/*_"$job.7"/result.json
	like "$("$stepctl" clean --dry-run)" "_$job\.7: a result that was kept long enough\$" "$b: --dry-run names an old result"
	is "$(ls "$run"/*_"$job.7")" result.json "$b: --dry-run leaves the old result"
	like "$("$stepctl" clean)" "_$job\.7: a result that was kept long enough\$" "$b: clean removes an old result"
	if [ "$(id -u)" = 0 ] && setpriv --reuid 64999 --clear-groups "$stepctl" --version >/dev/null 2>&1; then
		agent "$b" 0
		kill -9 "$agent" "$task"
		wait "$agent" 2>/dev/null
		died
		is "$(setpriv --reuid 64999 --regid 64999 --clear-groups "$stepctl" clean --runtime-dir "$run" 2>/dev/null)" "" \
			"$b: another user removes nothing"
		chown 64999 "$run"/*_"$job.0"/state.json
		out=$("$stepctl" clean 2>&1)
		is "$?" 3 "$b: root does not clean on the claim of another user"
		chown 0 "$run"/*_"$job.0"/state.json
		eventually sh -c "[ -n \"\$('$stepctl' clean)\" ]"
	else
		skip 2 "needs root, setpriv and a build directory that others may enter"
	fi
	kill "$living"
	wait "$living"
	nothing_left "$b: nothing is left"
done
is "$(STEPD_RUNTIME_DIR=$tmpdir/none "$stepctl" clean --json | tr -d ' \n')" '{"dry_run":false,"removed":[]}' \
	"where there is no runtime directory there is nothing to do"
done_testing
