#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What happens around the steps and scripts that stepd-slurmstepd serves, beside those of Slurm's own
# slurmstepd, in two Slurms at the same time: slurmd is ended and killed, and comes back; slurmctld is away
# while they end, for $STEPD_TEST_AWAY_S seconds; an administrator sends them messages; their time is over.
# shellcheck source=tests/lib/local_slurm.sh
. "${top_srcdir:?}/tests/lib/local_slurm.sh"

needs_slurm sbatch scancel scontrol sinfo squeue srun
serve "srun, batch"
AWAY_S=${STEPD_TEST_AWAY_S:-20}
export AWAY_S

cat >>"$tmpdir/functions" <<'S'
pause=0.2
# A task that writes its step's number and "up", and ends by a signal or the file NAME.
waits() { # NAME STATUS
	echo "trap 'echo term; exit 9' TERM; echo step \$SLURM_STEP_ID; echo up; until [ -e $PWD/$1 ]; do sleep 0.1; done; exit $2"
}
# srun in the background, in an allocation of its own: its output, messages and status are in files.
begin() { # NAME OPTION... COMMAND...
	line "$@"
}
has() { # FILE REGEX
	grep -Eqs "$2" "$1"
}
shows() { # NAME COUNT REGEX: what srun has shown so often
	[ "$(grep -Ec "$3" "$1.out")" -ge "$2" ]
}
has_ended() { # NAME
	[ -s "$1.rc" ]
}
S

# ---- slurmd ----------------------------------------------------------------------------------
# Twice: it is ended, and killed. There are steps that talk, that end meanwhile, and that are cancelled later.
cat >"$tmpdir/slurmd" <<'S'
says() { # WORD...: when there is a file for it
	for word; do
		until [ -e "$word-$n" ]; do sleep 0.1; done
		echo "$word"
	done
}
slurmd_goes() { # SIGNAL
	n=$1
	{
		says before meanwhile after | srun -Q -n 2 -l cat >"talk-$n.out" 2>"talk-$n.err"
		echo $? >"talk-$n.rc"
	} &
	: >"before-$n"
	begin "ends-$n" srun -Q -n 2 sh -c "$(waits "go-$n" 7)"
	begin "cancelled-$n" srun -Q -J "cancelled-$n" -n 2 sh -c "$(waits never 0)"
	submit "script-ends-$n" "$(waits "go-$n" 4)"
	submit "script-cancelled-$n" "$(waits never 0)"
	until_true shows "talk-$n" 2 before
	for name in "ends-$n" "cancelled-$n"; do
		until_true shows "$name" 2 up
	done
	for name in "script-ends-$n" "script-cancelled-$n"; do
		until_true has "$name/slurm-$(job "$name").out" up
	done
	end_slurmd "$n" "$NODE"
	: >"meanwhile-$n"
	until_true shows "talk-$n" 2 meanwhile
	: >"go-$n"
	until_true has_ended "ends-$n"
	begin_slurmd "$NODE"
	: >"after-$n"
	until_true shows "talk-$n" 2 after
	exec
	until_true has_ended "talk-$n"
	until_true is_over "script-ends-$n"
	scancel -n "cancelled-$n"
	scancel "$(job "script-cancelled-$n")"
	until_true has_ended "cancelled-$n"
	until_true is_over "script-cancelled-$n"
	sed -i 's/^step [0-9]*/step/' "ends-$n.out" "cancelled-$n.out"
}
slurmd_goes TERM
slurmd_goes KILL
S

# ---- slurmctld -------------------------------------------------------------------------------
# Steps and scripts end while it is away. One step waits beyond that.
cat >"$tmpdir/slurmctld" <<'S'
script status "$(waits away 5)"
script signal 'touch up; echo up; until [ -e ../away ]; do sleep 0.1; done; kill -USR1 $$'
script steps "srun -Q -n 2 sh -c 'touch up; echo up; until [ -e ../away ]; do sleep 0.1; done; exit \$SLURM_PROCID'; echo first \$?; exit 3" -n 2
script beyond "srun -Q -n 1 sh -c 'echo up; until [ -e ../back ]; do sleep 0.1; done; exit 6'; exit \$?"
begin lone srun -Q -J lone -n 2 sh -c "$(waits away 8)"
until_true shows lone 2 up
wait_for='status signal steps beyond'
for name in $wait_for; do
	until_true test -s "$name.id"
	until_true has "$name/slurm-$(job "$name").out" up
done
kill_slurmctld
: >away
sleep "$AWAY_S"
begin_slurmctld
for name in status signal steps; do
	until_true is_over "$name"
done
state beyond | sed -n 's/^JobState=//p' >beyond.between
: >back
until_true is_over beyond
until_true has_ended lone
scancel -n lone # srun had nobody to give its allocation back to
S

# ---- messages --------------------------------------------------------------------------------
cat >"$tmpdir/messages" <<'S'
submit notified "srun -Q -n 2 sh -c 'echo up; until [ -e ../told ]; do sleep 0.1; done'; echo end" -n 2
until_true has "notified/slurm-$(job notified).out" up
scontrol notify "$(job notified)" two words >notify.act 2>&1
echo $? >>notify.act
until_true has "notified/slurm-$(job notified).out" 'two words'
scontrol notify "$(job notified).0" 'of the step' >>notify.act 2>&1
echo $? >>notify.act
: >told
until_true is_over notified
S

# Beside the rest: a minute is the least.
cat >"$tmpdir/limits" <<'S'
begin limit srun -Q -n 2 -t 1 sh -c "$(waits never 0)"
begin limit-stubborn srun -Q -n 1 -t 1 sh -c 'trap "" TERM; echo up; while :; do sleep 1; done'
begin limit-of-step salloc -Q -n 2 srun -Q -t 1 -n 2 sh -c "$(waits never 0)"
script limit-of-script-step "srun -Q -n 1 -t 1 sh -c 'echo up; exec sleep 300'; echo \$?"
S

cat >"$tmpdir/inside" <<'S'
. "$1/functions"
mkdir "$1/$2"
cd "$1/$2"
NODE=$(first_node)
. "$1/limits"
. "$1/messages"
. "$1/slurmd"
for name in limit limit-stubborn limit-of-step; do
	until_true has_ended $name
	sed -i 's/^step [0-9]*/step/' $name.out
done
until_true is_over limit-of-script-step
. "$1/slurmctld"
sed -i 's/^step [0-9]*/step/' lone.out
until_true idle
until_true no_step
for id in *.id; do
	state "${id%.id}" >"${id%.id}.state"
	sed 's/^step [0-9]*/step/' "${id%.id}/slurm-$(job "${id%.id}").out" >"${id%.id}.text"
done
ls "$at"/spool/* >spool
sinfo -h -o '%T %E' >nodes
cp "$at/slurmctld.log" "$at/slurmctld-again.log" .
end_daemons
echo >over
S

BENCH_SLURM_LINES="CommunicationParameters=block_null_hash,block_zero_hash
FirstJobId=$first_job
KillWait=2
MinJobAge=2000
DebugFlags=Steps
SlurmctldDebug=verbose
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_min_interval=1
$slurmd_log"
export BENCH_SLURM_LINES
limit_s=$((340 + 2 * AWAY_S))
in_both

# ---- the comparison --------------------------------------------------------------------------
# slurmstepd says that it was cancelled for each signal, if srun is still there to show it. An srun gets messages
# that are for another, of the same port, which is gone.
seen() { # WHICH NAME
	for part in out err rc state text act between; do
		[ ! -e "$tmpdir/$1/$2.$part" ] || {
			echo "== $part"
			alike "$tmpdir/$1/$2.$part" | sed -E '/\*\*\* STEP ID ON NODE CANCELLED AT TIME \*\*\*/d; /Invalid IO init header/d; s/slurm-[0-9]+/slurm-ID/' | sort
		}
	done
}
for rc in "$tmpdir"/real/*.rc "$tmpdir"/real/*.id; do
	name=$(basename "${rc%.*}")
	is "$(seen served "$name")" "$(seen real "$name")" "$name: users see the same of what is served"
done
is "$(seen served notify)" "$(seen real notify)" "scontrol notify ends the same"
like "$(cat "$tmpdir/served/notified.text")" 'slurmstepd-bench[0-9]+: error: two words' "a message to a job is in its output"

for n in TERM KILL; do
	for name in before meanwhile after; do
		is "$(grep -c $name "$tmpdir/served/talk-$n.out")" 2 "$n: the streams of a step go on: $name"
	done
	is "$(cat "$tmpdir/served/ends-$n.rc")" 7 "$n: srun has the status of a step that ended while slurmd was away"
	like "$(cat "$tmpdir/served/script-ends-$n.state")" '^ExitCode=4:0$' \
		"$n: the status arrives of a script that ended while slurmd was away"
	like "$(cat "$tmpdir/served/script-cancelled-$n.state")" '^JobState=CANCELLED$' "$n: a script is cancelled by the next slurmd"
	id=$(cat "$tmpdir/served/script-cancelled-$n.id")
	like "$(cat "$tmpdir/served/script-cancelled-$n/slurm-$id.out")" "\\*\\*\\* JOB $id ON bench" "$n: the user's line has its number"
done
for name in status=5:0 signal=0:10 steps=3:0 beyond=6:0; do
	like "$(cat "$tmpdir/served/${name%=*}.state")" "^ExitCode=${name#*=}$" "$name: the status is right that slurmctld was not there for"
done
is "$(cat "$tmpdir/served/beyond.between")" RUNNING "a job goes on beyond slurmctld's absence"
like "$(cat "$tmpdir/served/limit.err")" 'STEP [0-9]+\.0 ON bench[0-9]+ CANCELLED AT [-0-9]+T[0-9:]+ DUE TO TIME LIMIT' \
	"a step beyond its time limit says so"
is "$(cat "$tmpdir/served/nodes")" "$(cat "$tmpdir/real/nodes")" "the nodes stay in use"

# ---- what is left ----------------------------------------------------------------------------
is "$(grep -E '^job|_[0-9]+\.' "$tmpdir/served/spool")" "" "what was served has left nothing in slurmd's directory"
is "$(ls "$run")" "" "what was served has left nothing in the runtime directory"
node=$(basename "$tmpdir"/served.bench*.log .log)
is "$(ls -d "/run/stepd-slurmstepd/${node#served.}"_* 2>/dev/null)" "" "what was served has left no FIFO"
is "$(log_lines | grep -c 'handed over')" 0 "no step was handed over"
diag "$(log_lines | grep -v ' served$' | head -n 20)"
done_testing
