#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The extern steps that stepd-slurmstepd serves (PrologFlags=Contain), beside those of Slurm's own slurmstepd:
# two Slurms at the same time, and the same in both. Processes are added as pam_slurm_adopt adds them, by it
# where it is installed; they are listed and accounted for, and end with their job.
# shellcheck source=tests/lib/local_slurm.sh
. "${top_srcdir:?}/tests/lib/local_slurm.sh"

needs_slurm python3 sbatch scancel scontrol setpriv squeue srun sstat
serve "srun, batch, extern"
# shellcheck source=tests/lib/slurm_extern.sh
. "$top_srcdir/tests/lib/slurm_extern.sh"
STEPD=$(cd "$top_builddir" && pwd)/stepd/cli/stepd
# shellcheck disable=SC2154 # of tap.sh
MODULE=${STEPD_TEST_PAM_SLURM_ADOPT:-$(find /lib/security /lib/*/security -name pam_slurm_adopt.so 2>/dev/null | head -n 1)}
[ -z "$slurm_root" ] || MODULE= # it is one of this system's Slurm
export STEPD MODULE
chmod 755 "$tmpdir" # another user's job is in it

cat >>"$tmpdir/functions" <<'S'
as_nobody() {
	setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}
no_socket() { # JOB
	[ ! -e "$(socket_of "$1")" ]
}
# A process that is added to a job's extern step, and then starts another one: their pids are in NAME.pids.
adopt() { # NAME JOB
	sh -c 'until [ -e "$0.go" ]; do sleep 0.1; done; sleep 1000 & echo $$ $! >"$0.new"; mv "$0.new" "$0.pids"; wait' "$1" \
		>/dev/null 2>&1 &
	request "$2" add_pid $! >"$1.added"
	touch "$1.go"
	until_true test -s "$1.pids"
}
# A zombie, whose parent is this script, has ended.
lives() { # PID
	grep -qsE '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status"
}
are_gone() { # NAME
	for pid in $(cat "$1.pids"); do
		! lives "$pid" || return 1
	done
}
ended() { # NAME: what was added has ended
	until_true are_gone "$1"
	are_gone "$1" && echo "ended"
}
has_ended() { # JOB
	scontrol -o show job "$1" | grep -Eq 'JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL)'
}
end_of() { # JOB
	until_true has_ended "$1"
	scontrol -o show job "$1" | tr ' ' '\n' | grep -E "^(JobState|Reason|ExitCode)="
}
S

# Each of these is done beside the others; what users see is in NAME.out.
cat >"$tmpdir/both" <<'S'
queries() {
	as=as_nobody
	allocate queries
	job=$(cat queries.id)
	{
		python3 "$PYTHONPATH/slurm_adopt.py" queries "$(socket_of "$job")"
		adopt queries "$job"
		echo added $(cat queries.added)
		read -r parent child <queries.pids
		echo members $(request "$job" has_pid "$parent") $(request "$job" has_pid "$child")
		scontrol listpids "$job" | awk -v a="$parent" -v b="$child" '$1 == a || $1 == b { print $3, $4, $5 }'
		squeue -s -h -j "$job" -o '%i %j %u' | sed "s/$job/JOB/"
		sstat -n -P -o NTasks,MinCPUTask "$job.extern"
		python3 "$PYTHONPATH/slurm_usage.py" "$(socket_of "$job")"
		as_nobody srun -Q -D / --jobid="$job" -n 1 sh -c 'echo in the job; exit 5' 2>queries.srun
		echo "srun $?"
		cat queries.srun
		scancel "$job"
		ended queries
		end_of "$job"
	} >queries.out 2>&1
}
batch() {
	submit batch 'touch up; until [ -e go ]; do sleep 0.1; done; exit 3' -o out
	until_true is_up batch
	adopt batch "$(job batch)"
	touch batch/go
	{
		ended batch
		end_of "$(job batch)"
	} >batch.out 2>&1
}
limited() {
	allocate limited -t 1
	job=$(cat limited.id)
	adopt limited "$job"
	{
		ended limited
		end_of "$job"
	} >limited.out 2>&1
}
alone() { # the end of the extern step alone
	allocate alone
	job=$(cat alone.id)
	adopt alone "$job"
	{
		request "$job" signal 15
		ended alone
		until_true no_socket "$job"
		squeue -h -j "$job" -o %T
		scancel "$job"
		end_of "$job"
	} >alone.out 2>&1
}
empty() { # a job whose extern step gets no process
	srun -Q -n 2 -J empty echo hello >empty.out 2>&1
}
login() {
	[ -n "$MODULE" ] || return 0
	mkdir pam
	echo "account required $MODULE service=sshd nodename=$node action_adopt_failure=deny" >pam/sshd
	until_true test -s queries.out # the one job of its user
	until_true grep -q JobState queries.out
	as=as_nobody
	allocate login
	job=$(cat login.id)
	python3 "$PYTHONPATH/slurm_adopt.py" login pam nobody >login.job 2>&1 &
	echo $! >login.pids
	until_true test -s login.job
	{
		sed "s/$job/JOB/" login.job
		echo member $(request "$job" has_pid "$(cat login.pids)")
		scancel "$job"
		ended login
		end_of "$job"
		until_true no_socket "$job"
		python3 "$PYTHONPATH/slurm_adopt.py" login pam nobody
	} >login.out 2>&1
}
S

# What only a served step has.
cat >"$tmpdir/served-only" <<'S'
# Of an extern step: the process that serves it, and its agent.
server_of() {
	request "$1" daemon_pid
}
agent_of() {
	cat "/proc/$1/task/$1/children"
}
signals() {
	allocate signals
	job=$(cat signals.id)
	sh -c 'trap "echo usr1 >>signals.said" USR1; echo $$ >signals.new; mv signals.new signals.pids; while :; do sleep 1000 & wait; done' &
	until_true test -s signals.pids
	{
		request "$job" add_pid "$(cat signals.pids)"
		scancel -s USR1 "$job"
		until_true test -s signals.said
		request "$job" state
		request "$job" add_pid 0
		request "$job" add_pid 1
		scancel "$job"
		ended signals
		end_of "$job"
	} >signals.out 2>&1
}
agent() {
	allocate agent
	job=$(cat agent.id)
	adopt agent "$job"
	{
		kill -9 $(agent_of "$(server_of "$job")")
		ended agent
		until_true no_socket "$job"
		srun -Q --jobid="$job" -n 1 echo the job goes on
		scancel "$job"
		end_of "$job"
	} >agent.out 2>&1
}
server() {
	allocate server
	job=$(cat server.id)
	adopt server "$job"
	{
		kill -9 "$(server_of "$job")"
		ended server
		srun -Q --jobid="$job" -n 1 echo the job goes on
		scancel "$job"
		end_of "$job"
	} >server.out 2>&1
	rm "$(socket_of "$job")" # which a slurmd that starts would remove
}
# Its agent finds the step's directory in use.
taken() { # JOB
	printf '{"kind": "extern", "job": %s, "node": {"name": "%s"}}' "$1" "$node" >taken.json
	"$STEPD" serve --keep-result 0 --spec taken.json >taken.log 2>&1 &
	other=$!
	until_true test -e "$STEPD_RUNTIME_DIR/${node}_$1.extern/socket"
	allocate taken
	{
		[ "$(cat taken.id)" = "$1" ] || echo "another job: $(cat taken.id)"
		adopt taken "$1"
		echo added $(cat taken.added)
		scancel "$1"
		ended taken
		end_of "$1"
	} >taken.out 2>&1
	kill "$other"
	wait "$other"
}
S

cat >"$tmpdir/inside" <<'S'
. "$1/functions"
. "$1/both"
. "$1/served-only"
mkdir "$1/$2"
cd "$1/$2"
if [ "$2" = served ]; then
	# with-slurm's own job was the first one
	taken $(($(sed -n 's/^FirstJobId=//p' "$SLURM_CONF") + 1))
	for name in signals agent server; do
		$name &
	done
fi
for name in queries batch limited alone empty login; do
	$name &
done
wait
until_true no_step
cp "$at/slurmctld.log" slurmctld.log
echo >over
S

BENCH_SLURM_LINES="PrologFlags=Contain
SelectTypeParameters=CR_CPU
LaunchParameters=enable_nss_slurm
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
FirstJobId=$first_job
$slurmd_log"
export BENCH_SLURM_LINES
in_both

# ---- the comparison --------------------------------------------------------------------------
for name in queries batch limited alone empty login; do
	[ -e "$tmpdir/real/$name.out" ] || continue
	is "$(alike "$tmpdir/served/$name.out")" "$(alike "$tmpdir/real/$name.out")" \
		"$name: an extern step that is served is as one of slurmstepd's"
done
like "$(cat "$tmpdir/served/queries.out")" "^extern - -$" "scontrol listpids has a process that was added"
like "$(cat "$tmpdir/served/queries.out")" "^members 1 1$" "root adds a process to an extern step, with its child"
like "$(cat "$tmpdir/served/queries.out")" "^added by a stranger -1$" "another user adds none"
like "$(cat "$tmpdir/served/queries.out")" "^stranger user 1 7  nobody:[x*]:65534:65534:" "nss_slurm gets the entry of a job's user"
like "$(cat "$tmpdir/served/queries.out")" "^member groups 2 7  nogroup:[x*]:65534:nobody" "nss_slurm gets the groups of a job's user"
for name in queries batch limited alone; do
	like "$(cat "$tmpdir/served/$name.out")" "^ended$" "$name: what was added ends with the step"
done
like "$(cat "$tmpdir/served/limited.out")" "^JobState=TIMEOUT$" "a job with an extern step ends at its time limit"
if [ -n "$MODULE" ]; then
	like "$(cat "$tmpdir/served/login.out")" "^status 0 job JOB$" "pam_slurm_adopt adds a login to its user's job"
	like "$(cat "$tmpdir/served/login.out")" "^member 1$" "the login is in the extern step"
else
	skip 2 "pam_slurm_adopt is not installed (libpam-slurm-adopt)"
fi

# ---- what only a served step has -------------------------------------------------------------
is "$(tr '\n' ' ' <"$tmpdir/served/signals.out")" "0 2 -1 -1 ended JobState=CANCELLED Reason=None ExitCode=0:0 " \
	"a signal that ends no process that was added leaves the extern step"
for name in agent server; do
	like "$(cat "$tmpdir/served/$name.out")" "^ended$" "$name: what was added ends when the step's $name is killed"
	like "$(cat "$tmpdir/served/$name.out")" "^the job goes on$" "$name: the job goes on without its extern step"
	like "$(cat "$tmpdir/served/$name.out")" "^JobState=CANCELLED$" "$name: the job ends as usual"
done
is "$(sed -n 1p "$tmpdir/served/taken.out")" "added 0" "a step whose agent does not start is handed over"
is "$(log_lines | grep 'handed over' | sed 's/.*stepd-slurmstepd: //')" \
	"extern step handed over to /usr/sbin/slurmstepd: its agent does not start" "no other step was handed over"
# Of a record that it can't read it has an error, and of a busy machine others.
is "$(grep -iE 'error:.*(malformed|unpack|STEP_COMPLETE|jobacctinfo|protocol)' "$tmpdir/served/slurmctld.log")" "" \
	"slurmctld takes the reports of extern steps"
is "$(ls "$run")" "" "the served steps have left nothing in the runtime directory"
done_testing
