#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A jobd that is killed at random moments, while jobs are submitted, run, end and are cancelled, by
# whatever is under way then: no job whose number was printed is lost, none runs twice, and the end of
# each is known. Nothing of them is left. The long form has 300 rounds. The same while jobs of a higher
# tier suspend some, and cancel others after a grace time: nothing is left standing still, and nothing
# is killed early.
# shellcheck source=tests/lib/jobd.sh disable=SC2119
. "${top_srcdir:?}/tests/lib/jobd.sh"

rounds=$(rounds 10 300)

script brief <<'S'
echo $$ >>"runs-$SLURM_JOB_ID"
sleep 0.1
exit "$1"
S
script waits <<'S'
echo $$ >>"runs-$SLURM_JOB_ID"
until [ -e "$1" ]; do sleep 0.05; done
exit "$2"
S
script sleeps <<'S'
echo $$ >>"runs-$SLURM_JOB_ID"
exec sleep 3000
S

# What is accepted has its line: job, state and exit status that it shall have, and how often its
# script may run at least. No exit status: any.
accept() { # STATE STATUS RUNS OPTION...
	accept_end=$1,$2,$3
	shift 3
	accepted=$(submit "$@" 2>>"$tmpdir/refused") || return
	echo "$accepted,$accept_end" >>"$tmpdir/accepted"
}

# The jobs with a line that have ended otherwise, or were preempted and had not all of their grace time.
wrong_ends() { # GRACE_S
	"$jobctl" queue -t all --json >"$tmpdir/jobs"
	# shellcheck disable=SC2016 # Python's
	python3 -c 'import json, os, sys
jobs = {j["job_id"]: j for j in json.load(open(sys.argv[1]))["jobs"]}
for line in open(sys.argv[2]):
    number, state, status, least = line.strip().split(",")
    job = jobs.get(int(number))
    if not job:
        print(number, "is lost")
        continue
    path = os.path.join(sys.argv[3], "runs-" + number)
    runs = len(open(path).readlines()) if os.path.exists(path) else 0
    early = state == "PREEMPTED" and job["end_time"] - job.get("preempt_time", 0) < int(sys.argv[4])
    if job["job_state"] != state or job["state_flags"] or status and job["exit_code"] != int(status) << 8 or \
            not int(least) <= runs <= 1 or job["restart_cnt"] or early:
        print(line.strip(), "has", job["job_state"], job["state_flags"], job.get("exit_code"), "runs", runs,
              "restarts", job["restart_cnt"], "killed early" if early else "")
' "$tmpdir/jobs" "$tmpdir/accepted" "$work" "$1" 2>&1
}

# Each round has another exit status. The third job runs until the next round's jobd is dead; the last
# one is cancelled, and again at the end where no jobd was there to reply.
submit_round() { # ROUND
	accept FAILED $(($1 % 200 + 1)) 1 brief $(($1 % 200 + 1))
	accept FAILED $(($1 % 200 + 2)) 1 -N $(($1 % 3 + 1)) brief $(($1 % 200 + 2))
	accept FAILED $(($1 % 200 + 3)) 1 waits "go-$(($1 + 1))" $(($1 % 200 + 3))
	accept CANCELLED '' 0 -N 2 sleeps || return
	[ $(($1 % 2)) = 0 ] || sleep "$(random_ms 200)"
	"$jobctl" cancel "$accepted" 2>>"$tmpdir/refused" || echo "$accepted" >>"$tmpdir/uncancelled"
}

: >"$tmpdir/accepted"
: >"$tmpdir/uncancelled"
begin_jobd
round=0
while [ "$round" -lt "$rounds" ]; do
	submit_round "$round" &
	submitter=$!
	sleep "$(random_ms 500)"
	kill_jobd
	touch "$work/go-$round"
	wait "$submitter"
	begin_jobd
	round=$((round + 1))
done
touch "$work/go-$round"
while read -r id; do
	"$jobctl" cancel "$id" || diag "$id can't be cancelled"
done <"$tmpdir/uncancelled"
# A job may have been accepted by a jobd that was killed before its reply: nobody has its number.
"$jobctl" queue -h -o '%i %j' | while read -r id name; do
	[ "$name" != sleeps ] || grep -q "^$id," "$tmpdir/accepted" || "$jobctl" cancel "$id"
done
ok "all jobs of a jobd that is killed $rounds times end" eventually all_have_ended

is "$(wrong_ends 0)" "" \
	"jobs of a jobd that is killed $rounds times run once, and their ends are known"
diag "$(wc -l <"$tmpdir/accepted") jobs were accepted, $(wc -l <"$tmpdir/uncancelled") were cancelled again"
is "$("$jobctl" nodes -h -o %t | sort -u)" idle "no node is drained because jobd was killed"

# ---- preemption

kill -TERM "$jobd_pid"
wait "$jobd_pid"
# shellcheck disable=SC2154 # $state is of jobd.sh
rm -rf "$state"
mkdir -m 700 "$state"
sed -i "/^\(PartitionName\|SelectType\)/d; s/^FirstJobId=.*/FirstJobId=$((first_job + 1500))/" "$tmpdir/slurm.conf"
grace=2
cat >>"$tmpdir/slurm.conf" <<CONF
SelectType=select/linear
PreemptType=preempt/partition_prio
PreemptMode=SUSPEND,GANG
SchedulerTimeSlice=5
PartitionName=ends Nodes=n[1-2] PriorityTier=1 PreemptMode=CANCEL GraceTime=$grace
PartitionName=stands Nodes=n[3-4] PriorityTier=1 OverSubscribe=FORCE:1
PartitionName=hi Nodes=n[1-4] PriorityTier=2 OverSubscribe=FORCE:1 Default=YES
CONF
rounds=$(rounds 5 100)

script endures <<'S'
trap '' TERM
echo $$ >>"runs-$SLURM_JOB_ID"
until [ -e "$1" ]; do sleep 0.05; done
S

# Of the three jobs of a round the third one preempts both others. The first kill is in the grace time of
# the first one, when that is over, or while the second one is suspended; the second kill when the third
# job ends, and the second one is resumed.
preempt_round() { # ROUND
	accept PREEMPTED '' 1 -N 2 -p ends endures "over-$1"
	eventually wrote "runs-$accepted"
	accept COMPLETED 0 1 -N 2 -p stands endures "over-$1"
	eventually wrote "runs-$accepted"
	accept COMPLETED 0 1 -N 4 -p hi endures "high-$1"
	sleep "$(random_ms 4000)"
	kill_jobd
	begin_jobd
	eventually wrote "runs-$accepted"
	touch "$work/high-$1"
	sleep "$(random_ms 1000)"
	kill_jobd
	touch "$work/over-$1"
	begin_jobd
	eventually all_have_ended
}

: >"$tmpdir/accepted"
begin_jobd
round=0
while [ "$round" -lt "$rounds" ]; do
	preempt_round "$round"
	round=$((round + 1))
done
ok "all jobs that were preempted by a jobd that is killed $((2 * rounds)) times end" all_have_ended
is "$(wc -l <"$tmpdir/accepted")" $((3 * rounds)) "all jobs of these rounds were accepted"
is "$(wrong_ends "$grace")" "" \
	"jobs that were preempted by such a jobd run once, and none is killed early or left standing still"
nothing_left_of_jobs 2500
done_testing
