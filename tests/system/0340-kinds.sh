#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Batch and extern steps.
. "${top_srcdir:?}/tests/lib/step.sh"

cat >"$tmpdir/script" <<'X'
#!/bin/sh -f
echo "args: $*"
echo "script: $0"
echo "ids: $SLURM_JOB_ID $SLURM_STEP_ID $SLURM_PROCID"
stat -c 'mode: %a %U' "$0"
echo *
exit 9
X
out=$(cd "$tmpdir" && step --batch script one 'two three' 2>"$tmpdir/err")
is $? 9 "the step has the status of its batch script"
like "$out" "^args: one two three\$" "a batch script gets its arguments"
like "$out" "^script: $run/.*_$job.batch/script\$" "a batch script is in the step's directory"
like "$out" "^ids: $job 4294967291 0\$" "a batch script has the ids of the batch step"
like "$out" "^\*\$" "a batch script's interpreter gets the argument of the first line"
like "$out" "^mode: 500 $(id -un)\$" "a batch script is accessible to its user alone"
if [ "$(id -u)" = 0 ]; then
	out=$(step --uid nobody --batch "$tmpdir/script" --chdir / 2>/dev/null)
	like "$out" "^mode: 550 root\$" "another user may read the script, which stays root's"
else
	skip 1 "needs root"
fi
cp "$tmpdir/script" "$tmpdir/own"
chmod 700 "$tmpdir/own"
printf '{"kind": "batch", "script_file": "%s", "argv": ["one"], "env": {"PATH": "%s", "A": "1"}, "env_complete": true,
	"cwd": "/", "job": %s, "stdout": "inherit"}' "$tmpdir/own" "$PATH" "$job" >"$tmpdir/spec"
echo 'env' >>"$tmpdir/own"
sed -i '/exit 9/d' "$tmpdir/own"
out=$("$stepd" serve -q --runtime-dir "$run" --spec "$tmpdir/spec" 2>"$tmpdir/err")
like "$out" "^args: one\$" "a script that is a file of the caller's gets its arguments"
like "$out" "^script: $tmpdir/own\$" "a script that is a file of the caller's is executed there"
is "$(echo "$out" | sed -n 's/^\(A\|SLURM_[A-Z_]*\|TMPDIR\|HOME\)=.*/\1/p' | sort | tr '\n' ' ')" \
	"A SLURM_LOCALID SLURM_PROCID SLURM_TASK_PID " "a complete environment gets the task's own variables alone"
ok "a script that is a file of the caller's stays" test -x "$tmpdir/own"
printf 'echo no interpreter\n' >"$tmpdir/script"
out=$(step --batch "$tmpdir/script" 2>&1)
is $? 125 "a script without #! is refused"
like "$out" "#!" "the refusal of a script without #! names the remedy"
out=$(step -n 2 --batch "$tmpdir/script" 2>&1)
is $? 125 "a batch step with two tasks is refused"
printf '#!/bin/sh\n: %s\necho end\n' "$(head -c 200000 /dev/zero | tr '\0' x)" >"$tmpdir/script"
is "$(step --batch "$tmpdir/script")" end "a batch script of 200 KB runs"

for b in $(backends); do
	"$stepd" run --job "$job" --extern --proctrack "$b" --result "$tmpdir/r" 2>"$tmpdir/err" &
	agent=$!
	eventually running extern
	ok "$b: an extern step runs without a task" test -d "/proc/$agent"
	if [ "$b" = cgroup ]; then
		sleep 99 &
		added=$!
		group=$(find /sys/fs/cgroup -type d -path "*/job_$job/step_extern" | head -1)
		echo $added >"$group/cgroup.procs"
		is "$("$stepctl" pids "$job.extern")" "$added" \
			"$b: an extern step has the processes that are added to it"
		like "$("$stepctl" find $added)" "step $job.extern" \
			"$b: stepctl find reports an added process in the extern step"
	fi
	kill -TERM $agent
	wait $agent
	is $? 143 "$b: SIGTERM to its agent ends an extern step"
	if [ "$b" = cgroup ]; then
		wait $added
		is $? 143 "$b: an extern step ends the processes that were added to it"
	fi
	json_is "$tmpdir/r" tasks "[]" "$b: the result of an extern step has no task"
done
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
