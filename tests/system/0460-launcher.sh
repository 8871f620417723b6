#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Many tasks are made by the launcher, with its memory shared until their exec; few get a copy of
# the agent's. A program must not be able to tell the difference.
. "${top_srcdir:?}/tests/lib/step.sh"
[ "$tracker" = cgroup ] || skip_all "needs proctrack/cgroup: other trackers' tasks are always copies"
! grep -q 'define STEPD_SANITIZERS' "${top_builddir:?}/config.h" ||
	skip_all "built with sanitizers, which want memory of their own: there is no launcher"
few=3 many=12

cat >"$tmpdir/look" <<'LOOK'
#!/bin/sh
id
grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp|Sig[BIC]|Threads|Cpus_allowed_list)' /proc/self/status
ulimit -a
umask
pwd
nice
cat /proc/self/oom_score_adj
ls /proc/self/fd
readlink /proc/self/fd/0
env | grep -vE '^(SLURM_(NTASKS|NPROCS|STEP_NUM_TASKS|GTIDS|TASKS_PER_NODE|STEP_TASKS_PER_NODE|TASK_PID|CPU_BIND.*)|PWD|SHLVL|_)=' | sort
[ "$SLURM_TASK_PID" = $$ ] && echo "pid is right"
LOOK
chmod 755 "$tmpdir/look"
mkdir -m 1777 "$tmpdir/out"

# The output of the last task of the few, and the same rank's among the many.
same() { # NAME ARG...
	name=$1
	shift
	rm -f "$tmpdir/out/"*
	step -n $few --output "$tmpdir/out/few.%t" "$@" "$tmpdir/look"
	step -n $many --output "$tmpdir/out/many.%t" "$@" "$tmpdir/look"
	like "$(cat "$tmpdir/out/few.2")" "pid is right" "$name: a task of a few runs"
	is "$(cat "$tmpdir/out/many.2")" "$(cat "$tmpdir/out/few.2")" \
		"$name: a task of many sees what a task of a few sees"
	is "$(grep -l "pid is right" "$tmpdir"/out/many.* | wc -l)" $many "$name: each of many tasks runs"
	is "$(sed -n 's/^SLURM_PROCID=//p' "$tmpdir"/out/many.* | sort -n | tr '\n' ' ')" \
		"0 1 2 3 4 5 6 7 8 9 10 11 " "$name: each of many tasks has its own rank"
}

same "as is"
same "limits" --rlimit nofile=40:50 --rlimit core=0 --rlimit stack=1048576 --umask 027 --nice=3 --chdir /usr
same "no_new_privs, not held" --no-new-privs --no-hold
same "bound" --cpu-bind rank
same "a program from PATH, traced" --trace "$tmpdir/trace" --export "PATH=/nonexistent:$tmpdir:/usr/bin:/bin" env --
same "with PMI" --mpi pmi2 env PMI_SIZE=any
same "streams that the agent carries" --forward
if [ "$(id -u)" = 0 ]; then
	same "another user" --uid nobody --oom-score-adj 77
	same "in an agent that has a score of its own" --uid 12345 --gid 54321
	echo 5 >/proc/self/oom_score_adj
	same "with a caller's oom_score_adj"
	is "$(grep -lx 5 "$tmpdir"/out/many.* | wc -l)" $many \
		"tasks of the launcher have the caller's oom_score_adj"
	echo 0 >/proc/self/oom_score_adj
else
	skip 13 "needs root"
fi

# ---- an MPI plugin that makes the environment --------------------------------------------------

mkdir "$tmpdir/mpi"
cp -L "$top_builddir"/stepd/cli/plugins/proctrack_*.so "$top_builddir/tests/lib/plugins/mpi_environ.so" \
	"$top_builddir/tests/lib/plugins/mpi_trial.so" "$tmpdir/mpi"
chmod go-w "$tmpdir"/mpi/*
for n in $few $many; do
	out=$(TRIAL_REMOVED=x step --plugin-dir "$tmpdir/mpi" --mpi environ -n $n -- \
		sh -c 'echo "$TRIAL_ENVIRON,$TRIAL_TASK,$TRIAL_REMOVED,$SLURM_LOCALID"; [ $SLURM_TASK_PID = $$ ]')
	is $? 0 "$n tasks: each has its pid in the environment"
	is "$(echo "$out" | sort -V)" "$(seq 0 $((n - 1)) | sed "s/.*/rank & of $n, local &,,,&/")" \
		"$n tasks: each has the environment that p_mpi_task_environ() made, and no other hook's"
done
out=$(step --plugin-dir "$tmpdir/mpi" --mpi trial -n $many -- sh -c 'echo "$TRIAL_TASK"' | sort -V | tr '\n' ,)
is "$out" "$(seq 0 $((many - 1)) | sed 's/^/rank /' | tr '\n' ,)" \
	"a plugin without p_mpi_task_environ() has its task hook called in each task"
out=$(TRIAL_FAILS=7 step --plugin-dir "$tmpdir/mpi" --mpi environ -n $many -- true 2>&1)
is $? 125 "a task that gets no environment fails the step"
like "$out" 'make the environment of task 7: Disk quota exceeded' \
	"a task of many that gets no environment is reported with the reason"
nothing_left "the seven tasks before one without an environment leave nothing behind"
out=$(TRIAL_FAILS=2 step --plugin-dir "$tmpdir/mpi" --mpi environ -n $few -- true 2>&1)
is $? 126 "a task of a few that gets no environment gives 126"
like "$out" "task 2 can't run the MPI task hook: Disk quota exceeded" \
	"a task of a few that gets no environment is reported with the reason"

# ---- failures in the child ------------------------------------------------------------------

refused() { # NAME STATUS REGEX ARG...
	name=$1 status=$2 regex=$3
	shift 3
	# The first that fails ends the step: TERM would end those that have not come so far.
	out=$(step -n $many --kill-sequence CONT:60s,KILL "$@" 2>&1)
	is $? "$status" "$name: the step of many tasks exits with $status"
	is "$(printf '%s\n' "$out" | grep -cE "$regex")" $many "$name: each of many tasks reports the reason"
	nothing_left "$name: the job leaves no cgroup, process or file behind"
}
refused "no program" 127 "can't execute '/nonexistent/x': No such file" /nonexistent/x
refused "none in PATH" 127 "can't execute 'nosuchprogram' \(looked for in PATH\)" nosuchprogram
printf 'nothing\n' >"$tmpdir/plain"
refused "not executable" 126 "can't execute '$tmpdir/plain': Permission denied" "$tmpdir/plain"
PATH=$tmpdir:$PATH refused "not executable, by PATH" 126 "can't execute 'plain'.*: Permission denied" plain
refused "no directory" 126 "can't change to the directory '/nonexistent'" --chdir /nonexistent true
refused "no file" 126 "can't open '/nonexistent/out.[0-9]*' for stdout" --output /nonexistent/out.%t true
long=$(printf '%04000d' 0)
refused "a PATH too long" 127 "can't execute 'nosuchprogram'" --export "PATH=/$long/$long:/$long" nosuchprogram

# ---- the launcher's own end -----------------------------------------------------------------

make_halfway

halfway() { # WHAT ARG...: the agent's sentence, and its status at the end
	what=$1
	shift
	out=$(STEPD_TEST_HALFWAY=$what timeout 300 "$stepd" run --job "$job" --plugin-dir "$tmpdir/plugins" \
		--proctrack halfway -n $many "$@" -- touch "$tmpdir/ran" 2>&1)
	printf '%s %s\n' "$out" $?
}
like "$(halfway none)" '^ 0$' "the plugin halfway runs a step"
rm "$tmpdir/ran"
for label in "" --label; do
	name="launcher${label:+ with $label}"
	# shellcheck disable=SC2086 # an option or none
	like "$(halfway kill $label)" 'the launcher of the tasks was killed by signal 9; is memory short\? 125$' \
		"$name: one that is killed fails the step with the reason"
	nothing_left "$name: one that is killed leaves no cgroup, process or file behind"
	# shellcheck disable=SC2086
	like "$(halfway fail $label)" 'make the container of task 7: No space left on device 125$' \
		"$name: a task that can't be made fails the step, with its reason"
	nothing_left "$name: the seven tasks before one that can't be made leave nothing behind"
	# shellcheck disable=SC2086
	like "$(halfway parent $label)" '137$' "$name: its agent is killed in mid-launch"
	fails "$name: no held task runs after its agent was killed in mid-launch" test -e "$tmpdir/ran"
	eventually sh -c "! STEPD_RUNTIME_DIR='$run' '$stepctl' pids $job.0 2>/dev/null | grep -q ."
	# shellcheck disable=SC2086
	ok "$name: a step whose agent was killed in mid-launch starts again" \
		step $label -n $many -- touch "$tmpdir/ran"
	nothing_left "$name: a step started again after a kill in mid-launch leaves nothing behind"
	rm "$tmpdir/ran"
done
out=$(step --label --output "$tmpdir/none/%t" -n $many -- touch "$tmpdir/ran" 2>&1)
is "$?" 125 "a labelled file that the agent can't open while the launcher works fails the step"
like "$out" "standard output: open '$tmpdir/none/0' as user" \
	"a labelled file that can't be opened while the launcher works is reported with the reason"
fails "no held task runs where one's labelled file can't be opened" test -e "$tmpdir/ran"
nothing_left "tasks whose labelled files can't be opened leave nothing behind"
is "$(step --label --no-hold --output "$tmpdir/out/%t.labelled" -n 40 -- sh -c 'echo $SLURM_PROCID' 2>&1)" "" \
	"40 tasks that are not held run with labelled files of their own"
is "$(cat "$tmpdir"/out/*.labelled | sort -n | tr -d ' ' | md5sum)" "$(seq 0 39 | sed 's/.*/&:&/' | md5sum)" \
	"each labelled file of 40 tasks has its task's line"
done_testing
