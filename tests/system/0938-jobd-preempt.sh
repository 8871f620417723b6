#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Preemption over real agents, on four named nodes of this machine: jobs of a higher tier in place of
# those of a lower one, which stand still and go on, are cancelled after their grace time, or queued
# again; time slices of two jobs on the same nodes; nodes that refuse to suspend a job; and a jobd that
# is killed while jobs stand still, or some of their nodes do.
# shellcheck source=tests/lib/jobd.sh
. "${top_srcdir:?}/tests/lib/jobd.sh"

configure() { # LINE...: in place of what jobd.sh has of partitions and plugins
	sed -i '/^\(PartitionName\|Preempt\|SchedulerTimeSlice\|SelectType\)/d' "$tmpdir/slurm.conf"
	printf '%s\n' "$@" >>"$tmpdir/slurm.conf"
}

# With other partitions, and so without the jobs of those before.
# shellcheck disable=SC2154 # $state is of jobd.sh
begin_anew() {
	eventually all_have_ended
	kill -TERM "$jobd_pid"
	wait "$jobd_pid"
	rm -rf "$state"
	mkdir -m 700 "$state"
	begin_jobd
}

script spins <<'S'
echo $$ >"$1"
while [ ! -e "$1.end" ]; do :; done
S

# ---- the guide's simple example: suspended, and resumed by the gang scheduler

configure "SelectType=select/linear" "PreemptType=preempt/partition_prio" "PreemptMode=SUSPEND,GANG" \
	"SchedulerTimeSlice=5" \
	"PartitionName=active Nodes=n[1-4] Default=YES PriorityTier=1 OverSubscribe=FORCE:1" \
	"PartitionName=hipri Nodes=n[1-4] PriorityTier=2 OverSubscribe=FORCE:1"
begin_jobd
one=$(submit -N 1 spins one)
two=$(submit -N 1 spins two)
other=$(submit -N 2 spins other)
for job_file in one two other; do eventually wrote $job_file; done
high=$(submit -N 2 -p hipri spins high)
eventually wrote high
eventually has_state SUSPENDED "$one"
eventually has_state SUSPENDED "$two"
ok "jobs of a lower tier stand still while another has their nodes" eventually stands one
ok "each job below a higher tier stands still" eventually stands two
ok "a job on other nodes runs on" eventually moves other
is "$(doc_of "$high" '["nodes"]')" "n[1-2]" "the job of the higher tier has the nodes of those that stand still"
is "$("$jobctl" queue -h -o '%i %t %N' | sort -n | tr '\n' ';')" \
	"$one S n1;$two S n2;$other R n[3-4];$high R n[1-2];" "the queue is as the guide has it"
kill_jobd
begin_jobd
is "$(doc_of "$one" '["job_state"]')" SUSPENDED "a preempted job stands still when jobd returns"
ok "the processes of a preempted job stand still when jobd returns" eventually stands one
touch "$work/high.end"
ends_as "$high" COMPLETED "the job of the higher tier ends"
eventually has_state RUNNING "$one"
eventually has_state RUNNING "$two"
ok "a preempted job goes on when the other has ended" eventually moves one
ok "each preempted job goes on when the other has ended" eventually moves two
touch "$work/one.end" "$work/two.end" "$work/other.end"
ends_as "$one" COMPLETED "a preempted job comes to its end"
eventually all_have_ended

# ---- jobd is killed when one of two nodes has suspended a job: the agent of the other one is held

killed_between() { # NODE.STEP STANDING MOVING: which agent is held, whose process stands, and whose does not
	rm -f "$work"/half*
	low=$(submit -N 2 -w 'n[1-2]' spins half1)
	eventually wrote half1
	spins_on n2 "$low" half2
	hold "$(agent_of "${1%.*}" "$low.${1#*.}")"
	high=$(submit -N 2 -w 'n[1-2]' -p hipri spins half-high)
	ok "$1 is held: the other node suspends the job" eventually stands "$2"
	ok "$1 is held: its own processes run" eventually moves "$3"
	fails "$1 is held: the other job waits" test -e "$work/half-high"
	kill_jobd
	[ "$1" = n1.batch ] || let_go
	begin_jobd
	let_go
	eventually wrote half-high
	is "$(doc_of "$low" '["job_state"]') $(doc_of "$high" '["job_state"]')" "SUSPENDED RUNNING" \
		"$1 was held: the job is suspended by the next jobd, and the other one runs"
	ok "$1 was held: the processes on the first node stand" eventually stands half1
	ok "$1 was held: the processes on the second node stand" eventually stands half2
	touch "$work/half-high.end"
	ends_as "$high" COMPLETED "$1 was held: the other job ends"
	eventually has_state RUNNING "$low"
	ok "$1 was held: the processes on the first node go on" eventually moves half1
	ok "$1 was held: the processes on the second node go on" eventually moves half2
	touch "$work/half1.end" "$work/half2.end"
	ends_as "$low" COMPLETED "$1 was held: the preempted job comes to its end"
}
killed_between n1.batch half2 half1
killed_between n2.extern half1 half2

# ---- one of three nodes refuses: its step is ending, and its agent is held until the others stand

low=$(submit -N 3 -w 'n[1-3]' spins part1)
eventually wrote part1
spins_on n2 "$low" part2
spins_on n3 "$low" part3
"$stepctl" terminate --grace 1h --runtime-dir "$run" "n2/$low.extern" >/dev/null
hold "$(agent_of n2 "$low.extern")"
high=$(submit -N 3 -w 'n[1-3]' -p hipri spins part-high)
ok "a preempted job is suspended on the first node before another one refuses" eventually stands part1
ok "a preempted job is suspended on the third node before the second one refuses" eventually stands part3
let_go
eventually grep -q "job $low could not be suspended" "$tmpdir/log"
ok "a preemption that one node refuses is taken back on the first one" eventually moves part1
ok "a preemption that one node refuses is taken back on the third one" eventually moves part3
is "$(doc_of "$high" '["state_flags"][0]') $(test -e "$work/part-high" || echo waits)" "CONFIGURING waits" \
	"the preemptor has no process as long as a node refuses"
"$jobctl" cancel "$low"
eventually wrote part-high
for file in part2 part3; do eventually process_ended "$(cat "$work/$file")"; done
touch "$work/part-high.end"
ends_as "$high" COMPLETED "the preemptor runs when the job that could not be suspended has ended"
is "$("$jobctl" nodes -h -o %t | sort -u)" idle "no node is drained because it has refused"

# ---- time slices

configure "SelectType=select/linear" "PreemptMode=GANG" "SchedulerTimeSlice=5" \
	"PartitionName=shared Nodes=n[1-4] Default=YES OverSubscribe=FORCE:2"
begin_anew
rm -f "$work"/one* "$work"/two*
one=$(submit -N 4 spins one)
eventually wrote one
# Submitted again where the first job's slice ended before both were looked at.
begins_suspended() {
	[ -z "$two" ] || { "$jobctl" cancel "$two" && eventually has_state CANCELLED "$two"; }
	rm -f "$work"/two*
	two=$(submit -N 4 spins two)
	[ ! -e "$work/two" ] && has_state SUSPENDED "$two"
}
two=
if comes begins_suspended; then
	ok "a job whose turn is later begins suspended, without a process"
else
	not_ok "a job whose turn is later begins suspended, without a process"
fi
eventually wrote two
eventually has_state SUSPENDED "$one"
ok "in the second slice the first job stands still" eventually stands one
eventually has_state RUNNING "$one"
ok "in the third slice the first job runs again" eventually moves one
kill_jobd
begin_jobd
eventually has_state RUNNING "$two"
ok "a jobd that was killed in a slice gives the other job its turn" eventually moves two
kill_jobd
begin_jobd
eventually has_state RUNNING "$one"
ok "a jobd that was killed in the second job's slice gives the first one its turn" eventually moves one
eventually has_state RUNNING "$two"
ok "the second job has its turn again" eventually moves two
touch "$work/one.end" "$work/two.end"
ends_as "$one" COMPLETED "the first job of two ends"
ends_as "$two" COMPLETED "the second job of two ends"

# ---- cancelled with a grace time, or queued again

configure "SelectType=select/linear" "PreemptType=preempt/partition_prio" "PreemptMode=CANCEL" \
	"PreemptParameters=send_user_signal" \
	"PartitionName=lo Nodes=n[1-4] Default=YES PriorityTier=1 GraceTime=3" \
	"PartitionName=back Nodes=n[1-4] PriorityTier=1 PreemptMode=REQUEUE" \
	"PartitionName=hi Nodes=n[1-4] PriorityTier=2"
begin_anew
# The agents of a cancelled job's steps are killed with it: what they leave is for this test alone.
steps_run=$tmpdir/steps
mkdir "$steps_run"
export steps_run
script steps <<'S'
export STEPD_RUNTIME_DIR="$steps_run"
trap 'echo script >>"$out"' TERM
trap 'echo warned >>"$out"' USR1
out=$1
"$STEPRUN" --proctrack "$TRACKER" sh -c 'trap "echo step >>\"$0\"" TERM; echo up >>"$0"; while :; do sleep 0.05; done' "$out" &
until wait; do :; done
S
low=$(submit -N 2 steps low.out)
back=$(submit -N 1 -p back spins back)
own=$(submit -N 1 --signal=B:USR1 steps own.out)
eventually wrote low.out up
eventually wrote own.out up
eventually wrote back
high=$(submit -N 4 -p hi spins hi)
eventually wrote low.out step
ok "a script gets the signal that its user has chosen when its job is preempted" eventually wrote own.out warned
unlike "$(cat "$work/own.out")" step "a signal that a user has chosen takes the place of SIGTERM to the steps"
unlike "$(cat "$work/low.out")" script "a script gets no signal when its job is preempted"
is "$(doc_of "$low" '["job_state"]')" RUNNING "a preempted job runs through its grace time"
preempted=$(doc_of "$low" '["preempt_time"]')
isnt "$preempted" "" "a preempted job shows when it was"
kill_jobd
begin_jobd
is "$(doc_of "$low" '["preempt_time"]')" "$preempted" "a preempted job is still preempted when jobd returns"
ends_as "$low" PREEMPTED "a job whose grace time is over is preempted"
for id in $low $own; do
	eventually has_state PREEMPTED "$id"
	took=$(($(doc_of "$id" '["end_time"]') - $(doc_of "$id" '["preempt_time"]')))
	ok "preempted job $((id - low + 1)) has its grace time ($took s)" test "$took" -ge 3
done
is "$(doc_of "$back" '["job_state"]') $(doc_of "$back" '["state_reason"]') $(doc_of "$back" '["restart_cnt"]')" \
	"PENDING Resources 1" "a job of a partition with REQUEUE is queued again"
eventually has_state RUNNING "$high"
is "$(doc_of "$high" '["nodes"]')" "n[1-4]" "the preemptor has the nodes of the jobs that it preempted"
"$jobctl" cancel "$back"
touch "$work/hi.end"
ends_as "$high" COMPLETED "the preemptor comes to its end"

# ---- the grace time of a job that stands still for another one's turn

slices() { # SECONDS
	configure "SelectType=select/linear" "PreemptType=preempt/partition_prio" "PreemptMode=CANCEL,GANG" \
		"SchedulerTimeSlice=$1" \
		"PartitionName=lo Nodes=n[1-4] Default=YES PriorityTier=1 OverSubscribe=FORCE:2 GraceTime=600" \
		"PartitionName=hi Nodes=n[1-4] PriorityTier=2"
}
slices 5
begin_anew
one=$(submit -N 4 steps turn1.out)
two=$(submit -N 4 steps turn2.out)
eventually wrote turn1.out up
eventually wrote turn2.out up
slices 65000 # from the next one on, which is the first job's
"$jobctl" reconfigure >/dev/null
eventually has_state SUSPENDED "$two"
high=$(submit -N 4 -p hi spins late)
ok "a preempted job that has its turn is notified" eventually wrote turn1.out step
ok "a preempted job that stands still is notified, too" eventually wrote turn2.out step
eventually has_state RUNNING "$two"
is "$(doc_of "$one" '["job_state"]')" RUNNING "both use their grace time"
"$jobctl" cancel "$one" "$two"
eventually wrote late
touch "$work/late.end"
ends_as "$high" COMPLETED "the preemptor of both comes to its end"
nothing_left_of_jobs 100
done_testing
