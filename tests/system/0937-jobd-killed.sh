#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A jobd that is killed at random moments, while jobs are submitted, run, end and are cancelled, by
# whatever is under way then: no job whose number was printed is lost, none runs twice, and the end of
# each is known. Nothing of them is left. The long form has 300 rounds.
# shellcheck source=tests/lib/jobd.sh disable=SC2119
first_job=$(($$ % 4000 * 2500 + 52000000)) # above those of 0931-jobd-run.sh
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

"$jobctl" queue -t all --json >"$tmpdir/jobs"
# shellcheck disable=SC2016 # Python's
is "$(python3 -c 'import json, os, sys
jobs = {j["job_id"]: j for j in json.load(open(sys.argv[1]))["jobs"]}
for line in open(sys.argv[2]):
    number, state, status, least = line.strip().split(",")
    job = jobs.get(int(number))
    if not job:
        print(number, "is lost")
        continue
    path = os.path.join(sys.argv[3], "runs-" + number)
    runs = len(open(path).readlines()) if os.path.exists(path) else 0
    if job["job_state"] != state or job["state_flags"] or status and job["exit_code"] != int(status) << 8 or \
            not int(least) <= runs <= 1 or job["restart_cnt"]:
        print(line.strip(), "has", job["job_state"], job["state_flags"], job["exit_code"], "runs", runs,
              "restarts", job["restart_cnt"])
' "$tmpdir/jobs" "$tmpdir/accepted" "$work" 2>&1)" "" \
	"jobs of a jobd that is killed $rounds times run once, and their ends are known"
diag "$(wc -l <"$tmpdir/accepted") jobs were accepted, $(wc -l <"$tmpdir/uncancelled") were cancelled again"
is "$("$jobctl" nodes -h -o %t | sort -u)" idle "no node is drained because jobd was killed"
nothing_left_of_jobs 2500
done_testing
