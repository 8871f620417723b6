#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Preemption over real agents, on four named nodes of this machine: jobs of a higher tier in place of
# those of a lower one, which stand still and go on, are cancelled after their grace time, or queued
# again; time slices of two jobs on the same nodes; and a jobd that is killed while jobs stand still.
first_job=$(($$ % 500000 * 100 + 2000000))
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

cpu_ticks() { # FILE that holds a pid
	awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$(cat "$work/$1")/stat"
}
stands() { # FILE
	stands_before=$(cpu_ticks "$1")
	sleep 0.5
	[ "$(cpu_ticks "$1")" = "$stands_before" ]
}
moves() { # FILE
	moves_before=$(cpu_ticks "$1")
	sleep 0.3
	[ "$(cpu_ticks "$1")" -gt "$moves_before" ]
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
	"PartitionName=lo Nodes=n[1-4] Default=YES PriorityTier=1 GraceTime=3" \
	"PartitionName=back Nodes=n[1-4] PriorityTier=1 PreemptMode=REQUEUE" \
	"PartitionName=hi Nodes=n[1-4] PriorityTier=2"
begin_anew
script steps <<'S'
trap 'echo script >>"$out"' TERM
out=$1
"$STEPRUN" --proctrack "$TRACKER" sh -c 'trap "echo step >>\"$0\"" TERM; echo up >>"$0"; while :; do sleep 0.05; done' "$out" &
until wait; do :; done
S
low=$(submit -N 2 steps low.out)
back=$(submit -N 2 -p back spins back)
eventually wrote low.out up
eventually wrote back
began=$(date +%s)
high=$(submit -N 3 -p hi spins hi)
eventually wrote low.out step
unlike "$(cat "$work/low.out")" script "a script gets no signal when its job is preempted"
is "$(doc_of "$low" '["job_state"]')" RUNNING "a preempted job runs through its grace time"
preempted=$(doc_of "$low" '["preempt_time"]')
isnt "$preempted" "" "a preempted job shows when it was"
kill_jobd
begin_jobd
is "$(doc_of "$low" '["preempt_time"]')" "$preempted" "a preempted job is still preempted when jobd returns"
ends_as "$low" PREEMPTED "a job whose grace time is over is preempted"
took=$(($(date +%s) - began))
ok "a preempted job has its grace time ($took s)" test "$took" -ge 3
is "$(doc_of "$back" '["job_state"]') $(doc_of "$back" '["state_reason"]') $(doc_of "$back" '["restart_cnt"]')" \
	"PENDING Resources 1" "a job of a partition with REQUEUE is queued again"
eventually has_state RUNNING "$high"
is "$(doc_of "$high" '["nodes"]')" "n[1-3]" "the preemptor has the nodes of the jobs that it preempted"
"$jobctl" cancel "$back"
touch "$work/hi.end"
ends_as "$high" COMPLETED "the preemptor comes to its end"
nothing_left_of_jobs 100
done_testing
