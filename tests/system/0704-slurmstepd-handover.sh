#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A real slurmctld and slurmd, with stepd-slurmstepd in slurmstepd's place: users' commands do what they do
# without it, each step has its line in slurmd's log, and slurmd can be restarted meanwhile.
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root"
for program in munged slurmctld slurmd salloc sbatch scontrol srun; do
	command -v $program >/dev/null || skip_all "needs Slurm: there is no $program"
done
PROGRAM=$(cd "$top_builddir" && pwd)/contrib/slurm/stepd-slurmstepd
STEPD_CONFIG=$tmpdir/stepd.conf
log=$tmpdir/slurmd.log
export PROGRAM STEPD_CONFIG
: >"$STEPD_CONFIG"

cat >"$tmpdir/functions" <<'S'
dir=$(dirname "$SLURM_CONF")
until_true() {
	tries=0
	until "$@" || [ $tries -gt 3000 ]; do sleep 0.02; tries=$((tries + 1)); done
}
ended() { # PID
	! kill -0 "$1" 2>/dev/null
}
no_step() {
	! ls "$dir"/spool/*/*_[0-9]*.[0-9]* >/dev/null 2>&1
}
S

# In an allocation. The slurmd that it starts stays, for the allocation's end.
cat >"$tmpdir/session" <<'S'
. ./functions
srun -Q -l -n 3 echo hello >srun 2>&1
printf 'line\n' | srun -Q -n 1 cat >input 2>&1
srun -Q -n 2 sh -c 'exit $((SLURM_PROCID + 3))' >bad 2>&1
echo $? >bad.status
srun -Q -n 1 --container=/nothing true >container 2>&1
echo 'slurm_stepd_path = /nothing' >"$STEPD_CONFIG"
srun -Q -n 1 true >refused 2>&1
echo $? >refused.status
: >"$STEPD_CONFIG"
srun -Q -n 1 sh -c 'echo up; until [ -e restarted ]; do sleep 0.1; done; echo through' >restart 2>&1 &
step=$!
until_true test -s restart
slurmd=$(cat "$dir"/slurmd-*.pid)
name=$(basename "$dir"/spool/*)
kill "$slurmd"
until_true ended "$slurmd"
setsid slurmd -D -d "$PROGRAM" -f "$SLURM_CONF" -N "$name" >restarted.err 2>&1 &
until_true scontrol listpids "$SLURM_JOB_ID" >pids 2>/dev/null
: >restarted
wait $step
echo $? >restart.status
srun -Q -n 1 echo after >after 2>&1
S

# A script of 300 KB does not fit a pipe.
cat >"$tmpdir/inside" <<'S'
cd "$1"
. ./functions
{
	printf '#!/bin/sh\n#SBATCH -o batch.out\n'
	printf '# %0300000d\n' 0
	printf 'echo in batch; srun -Q -n 1 echo in its step; exit 7\n'
} >script
sbatch --wait script >batch 2>&1
echo $? >batch.status
salloc -Q -n 3 sh session
until_true no_step
slurmd=$(cat "$dir"/slurmd-*.pid)
kill "$slurmd"
until_true ended "$slurmd"
S
BENCH_SLURM_STEPD=$PROGRAM BENCH_SLURM_ALLOCATION=no BENCH_SLURM_LINES="SlurmdLogFile=$log
PrologFlags=Contain" timeout -k 90 600 sh "$top_srcdir/tests/bench/with-slurm" \
	sh "$tmpdir/inside" "$tmpdir" >"$tmpdir/slurm" 2>&1
[ -s "$tmpdir/batch.status" ] || skip_all "no Slurm came up: $(tail -n 1 "$tmpdir/slurm")"

# ---- the commands ----------------------------------------------------------------------------
is "$(cat "$tmpdir/batch.status")" 7 "sbatch gets the exit status of its script, of 300 KB"
is "$(cat "$tmpdir/batch.out")" "in batch
in its step" "a batch script and a step in it write to the job's file"
is "$(sort "$tmpdir/srun")" "0: hello
1: hello
2: hello" "srun starts tasks with labels"
is "$(cat "$tmpdir/input")" line "a task reads srun's input"
is "$(cat "$tmpdir/bad.status")" 4 "srun ends with the largest status of its tasks"
like "$(cat "$tmpdir/bad")" "task 1: Exited with exit code 4" "srun reports a task's status"
isnt "$(cat "$tmpdir/refused.status")" 0 "srun fails where Slurm's own slurmstepd can't be executed"
like "$(cat "$tmpdir/refused")" "launch failed|launch .* failed" "srun says that the launch failed"
is "$(cat "$tmpdir/restart.status") $(tr '\n' ' ' <"$tmpdir/restart")" "0 up through " \
	"a step goes on while slurmd is restarted"
like "$(cat "$tmpdir/pids")" "^PID +JOBID +STEPID" "scontrol finds the steps that ran before slurmd's restart"
is "$(cat "$tmpdir/after")" after "a step starts after slurmd's restart"

# ---- slurmd's log ----------------------------------------------------------------------------
grep ' stepd-slurmstepd: ' "$log" >"$tmpdir/lines"
steps_of() { # REGEX: whose lines have it
	sed -nE "s/^\[[^]]*\] \[([^]]*)\] stepd-slurmstepd: $1.*/\1/p" "$tmpdir/lines" | sort | tr '\n' ' '
}
is "$(steps_of 'batch step handed over to .*: steps of this kind are not served here')" "2.batch " "the log has the batch script"
is "$(steps_of 'extern step handed over to .*: steps of this kind are not served here')" "1.extern 2.extern 3.extern " \
	"the log has the extern step of each job"
is "$(steps_of 'srun step handed over to .*: steps of this kind are not served here')" "2.0 3.0 3.1 3.2 3.5 3.6 " \
	"the log has each of srun's steps"
is "$(steps_of 'srun step handed over to .*: it runs in an OCI container')" "3.3 " \
	"the log says of a step in a container that it is one"
is "$(steps_of "error: can't execute Slurm's own slurmstepd '\/nothing'.*: the step is refused")" "3.4 " \
	"the log says why a step was refused"
is "$(wc -l <"$tmpdir/lines")" 12 "the log has no more than one line for a step" || diag "$(cat "$tmpdir/lines")"
done_testing
