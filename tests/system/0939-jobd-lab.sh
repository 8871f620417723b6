#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A day of a small lab in seconds: four nodes, two partitions and over 200 jobs of all kinds through
# jobctl and real agents. What became of each is compared with what was asked for: state, exit status,
# nodes, CPUs, order and output; and no core has two jobs at any time (tests/lib/jobd_lab.py).
# shellcheck source=tests/lib/jobd.sh disable=SC2119
. "${top_srcdir:?}/tests/lib/jobd.sh"

# shellcheck disable=SC2154 # $tmpdir, $work are of jobd.sh
sed -i '/^\(SelectTypeParameters\|NodeName\|PartitionName\)/d' "$tmpdir/slurm.conf"
cat >>"$tmpdir/slurm.conf" <<'CONF'
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=bf_interval=1
DefMemPerCPU=50
NodeName=n[1-2] CPUs=8 Sockets=2 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=1000 Feature=quick,old
NodeName=n[3-4] CPUs=8 Sockets=2 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=1000 Feature=big
PartitionName=main Nodes=n[1-4] Default=YES MaxTime=60 PriorityTier=1
PartitionName=urgent Nodes=n[1-4] MaxTime=30 PriorityTier=10
CONF
mkdir -m 777 "$work/r" "$work/elsewhere"
chmod 777 "$work/r" "$work/elsewhere"
: >"$tmpdir/wanted"

# Notes its begin and its end, and prints what it has. It waits for a file if one is named.
script work <<S
mark() {
	read -r up rest </proc/uptime
	echo "\$1 \$up" >>"$work/r/\$SLURM_JOB_ID"
}
ended() {
	mark term
	mark end
	exit 15
}
trap ended TERM
trap 'mark user' USR1
mark begin
echo "\$SLURM_JOB_ID \$SLURM_JOB_NODELIST \$SLURM_JOB_NUM_NODES \${SLURM_CPUS_ON_NODE--} \${SLURM_NTASKS--} \$SLURM_JOB_PARTITION"
if [ \$# -gt 1 ]; then
	until [ -e "\$2" ]; do sleep 0.1; done
else
	sleep 0.05
fi
mark end
exit "\$1"
S

want() { # JOB KEY=VALUE...
	echo "$*" >>"$tmpdir/wanted"
}
job() { # "KEY=VALUE..." OPTION... SCRIPT [ARG...]: submits it; $id is its number
	job_wanted=$1
	shift
	id=$(submit "$@") || bail "refused: $*"
	want "$id" "$job_wanted"
}
uptime_now() {
	read -r up_now _ </proc/uptime
	echo "$up_now"
}
has_reason() { # JOB REASON
	case $(doc_of "$1" '["state_reason"]') in "$2"*) ;; *) return 1 ;; esac
}
has_marks() { # JOB REGEX
	wrote "r/$1" "$2"
}
refused() { # NAME REGEX OPTION...
	refused_name=$1 refused_regex=$2
	shift 2
	(cd "$work" && ! "$jobctl" submit "$@" work 0) >"$tmpdir/refused" 2>&1 || echo "was accepted" >>"$tmpdir/refused"
	is "$(($(wc -l <"$tmpdir/refused"))) $(grep -Ec "$refused_regex" "$tmpdir/refused")" "1 1" "$refused_name"
}

# ---- the morning: one job has all nodes, and a queue grows behind it

begin_jobd
job "count=4 cpus=32" -N 4 --exclusive work 0 go-day
eventually has_marks "$id" begin

# Of those that need the same node, one of a higher tier is first, then by priority.
job "nodes=n1 cpus=8" -w n1 --exclusive --priority 4294967100 work 0
third=$id
job "nodes=n1 cpus=8" -w n1 --exclusive --priority 4294967200 work 0
second=$id
job "nodes=n1 cpus=8" -w n1 --exclusive --priority 4294967050 work 0
raised=$id
"$jobctl" update "$raised" Priority=4294967250
job "nodes=n1 cpus=8 partition=urgent" -p urgent -w n1 --exclusive work 0
want order "$id" "$raised" "$second" "$third"

# All sizes and kinds of places.
i=0
while [ $i -lt 105 ]; do
	status=0
	[ $((i % 7)) != 3 ] || status=$i
	result="state=COMPLETED exit=0"
	[ $status = 0 ] || result="state=FAILED exit=$((status * 256))"
	case $((i % 15)) in
	0) job "$result count=1 cpus=1 mem=50" work $status ;;
	1) job "$result tasks=4 cpus=4" -n 4 work $status ;;
	2) job "$result count=2 tasks=4 cpus=4" -N 2 -n 4 work $status ;;
	3) job "$result tasks=2 cpus=4" -n 2 -c 2 work $status ;;
	4) job "$result count=2 each=4,4 tasks=4 cpus=8" -N 2 -n 4 --ntasks-per-node 2 -c 2 work $status ;;
	5) job "$result count=1 cpus=8" --exclusive work $status ;;
	6) job "$result count=1 mem=600" --mem 600 work $status ;;
	7) job "$result nodes=n3 cpus=2 tasks=2" -w n3 -N 1 -n 2 work $status ;;
	8) job "$result among=n3,n4 cpus=3 tasks=3" -x 'n[1-2]' -n 3 work $status ;;
	9) job "$result nodes=n1,n2" -C quick -N 2 work $status ;;
	10) job "$result count=2 mem=300" -N 2 --mem 300M --contiguous work $status ;;
	11) job "$result tasks=3 cpus=3" -n 3 --mem-per-cpu 100 work $status ;;
	12) job "$result among=n3,n4 count=1" -C big -t 1 work $status ;;
	13) job "$result count=4 tasks=4 each=1,1,1,1" -N 4 -n 4 work $status ;;
	14) job "$result partition=urgent among=n1,n2 cpus=6 tasks=2" -p urgent -C 'quick&old' -N 1 -n 2 -c 3 work $status ;;
	esac
	i=$((i + 1))
done

# Arrays, of which two or three tasks run at a time.
id=$(submit --array 0-19%3 -n 2 work 0)
array=$id
for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do want "${id}_$i" "cpus=2 tasks=2"; done
id=$(submit --array 1,4-8:2 -o 'a-%A-%a-%j.txt' work 6)
for i in 1 4 6 8; do want "${id}_$i" "state=FAILED exit=1536 out=a-$id-$i-ID.txt"; done
id=$(submit --array 0-29%2 work 0)
for i in $(seq 0 29); do want "${id}_$i" "count=1"; done
"$jobctl" cancel "${id}_29"
sed -i "s/^${id}_29 .*/${id}_29 state=CANCELLED runs=0/" "$tmpdir/wanted"

# Dependencies of each kind.
job "" work 0
good=$id
job "state=FAILED exit=512" work 2
bad=$id
job "after=$good" -d "afterok:$good" work 0
job "after=$bad" -d "afternotok:$bad" work 0
job "after=$good,$bad" -d "afterany:$good:$bad" work 0
job "after=$good,$bad" -d "afterok:$good,afternotok:$bad" work 0
job "follows=$bad" -d "after:$bad" work 0
job "after=$good" -d "afterok:$bad?afterok:$good" work 0
job "after=${array}_0,${array}_7,${array}_19" -d "afterok:$array" work 0
job "after=${array}_3" -d "afterok:${array}_3" work 0
job "state=CANCELLED runs=0" -d "afterok:$bad" work 0
never="$id"
job "state=CANCELLED runs=0" -d "afternotok:$good" work 0
never="$never $id"
job "state=CANCELLED runs=0" -d "after:$good+5" work 0
later=$id
chain=
for i in 1 2 3; do
	job "name=chain" -J chain -d singleton work 0
	chain="$chain $id"
done
want "order$chain"

# Held, for later, changed and withdrawn.
job "" -H work 0
held=$id
job "" work 0
"$jobctl" hold "$id"
held="$held $id"
begin_s=$(($(date +%s) + 5))
job "notbefore=$begin_s" --begin now+5 work 0
job "state=CANCELLED runs=0" --begin now+2hours work 0
late=$id
job "count=2 time_limit_min=7 name=renamed comment=why" -J first work 0
"$jobctl" update "$id" NumNodes=2 TimeLimit=7 JobName=renamed Comment=why
job "state=CANCELLED runs=0" work 0
"$jobctl" cancel "$id"
job "state=CANCELLED runs=0 name=unwanted" -J unwanted work 0
job "state=CANCELLED runs=0 name=unwanted" -J unwanted -p urgent work 0
"$jobctl" cancel -n unwanted
(cd "$work" && "$jobctl" submit --parsable --nice=100 work 0) >"$tmpdir/id" 2>"$tmpdir/nice"
want "$(cat "$tmpdir/id")" "count=1"
like "$(cat "$tmpdir/nice")" "nice.*ignor" "an option that is ignored is named"

# Scripts that fail, and files of all kinds.
script dies <<'S'
kill -"$1" $$
S
for signal in 9 15 6; do
	job "state=FAILED exit=$signal runs=0" dies $signal
done
printf '#!/no/such/interpreter\n' >"$work/bad"
job "state=FAILED runs=0" bad
job "state=FAILED runs=0" -D "$tmpdir/none" work 0
job "state=FAILED runs=0" -o /proc/none/x work 0
user=$(id -un)
job "out=o-ID-patterns-$user-n2.txt" -J patterns -w n2 -o 'o-%j-%x-%u-%N.txt' work 0
job "out=elsewhere/slurm-ID.out" -D "$work/elsewhere" work 0
for i in 1 2; do
	job "out=none name=both" -J both -d singleton --open-mode append -o both.txt work 0
	both="${both-}$id "
done
script copies <<'S'
cat
echo "$A$B" >&2
S
echo text >"$work/input"
A=a B=b
export A B
job "runs=0" -i input -o out-all -e err-all copies
job "runs=0" -i input -o out-one -e err-one --export B copies
unset A B
job "runs=0" -o wrapped --wrap 'echo $((6 * 7))'
script marked <<'S'
#SBATCH -n 3 -c 2 --job-name=marked
#SBATCH --output=marked-%j.out
echo "$SLURM_NTASKS $SLURM_CPUS_PER_TASK"
S
job "runs=0 cpus=6 name=marked" marked
marked=$id
if command -v setpriv >/dev/null; then
	as_nobody="setpriv --reuid 65534 --regid 65534 --clear-groups"
	id=$(cd "$work" && $as_nobody "$jobctl" submit --parsable -n 2 -o nobodys.txt work 0)
	want "$id" "user_id=65534 cpus=2 tasks=2 out=nobodys.txt"
	fails "a user cannot cancel another one's job" $as_nobody "$jobctl" cancel "$good"
else
	skip 1 "needs setpriv"
fi

refused "a job of more nodes than the cluster has is refused" "node" -N 5
refused "a job of more memory than a node has is refused" "." --mem 2000
refused "a job of a feature that no node has is refused" "." -C none
refused "a job of a partition that does not exist is refused" "none" -p none
refused "a job of GPUs is refused" "gpus" -G 1
is "$("$jobctl" queue -h -t R -o %i | wc -l)" 1 "no job has begun while one has all nodes"
touch "$work/go-day"

# ---- noon: what is held and what never comes

for id in $never; do # words
	ok "a dependency that can't be met any more is shown" eventually has_reason "$id" DependencyNeverSatisfied
	"$jobctl" cancel "$id"
done
"$jobctl" cancel "$later" "$late"
only_held() {
	[ "$("$jobctl" queue -h -o %i | sort -n | tr '\n' ' ')" = "$held " ]
}
ok "all but the held jobs end" eventually only_held
for id in $held; do
	is "$(doc_of "$id" '["state_reason"]')" JobHeldUser "a held job shows its reason"
	sed -i "s/^$id /&since=$(uptime_now) /" "$tmpdir/wanted"
	"$jobctl" release "$id"
done
eventually all_have_ended

# ---- the afternoon: by hand

job "state=CANCELLED" -N 2 work 0 never
eventually has_marks "$id" begin
is "$(doc_of "$id" '["end_time"] - d["jobs"][0]["start_time"]')" 3600 "a job's end is planned by its partition's limit"
"$jobctl" update "$id" TimeLimit=2
is "$(doc_of "$id" '["end_time"] - d["jobs"][0]["start_time"]')" 120 "its end moves with its limit"
"$jobctl" cancel --full -s USR1 "$id"
ok "a signal reaches a job's script" eventually has_marks "$id" user
is "$(doc_of "$id" '["job_state"]')" RUNNING "a job whose script takes a signal runs on"
"$jobctl" cancel "$id"
ok "a cancelled job is warned by SIGTERM" eventually has_marks "$id" term

job "restart_cnt=1 runs=2" -N 2 work 0 go-again
again=$id
eventually has_marks "$again" begin
"$jobctl" requeue "$again"
ok "a job that is queued again waits" eventually has_reason "$again" BeginTime
touch "$work/go-again"
"$jobctl" update "$again" StartTime=now
job "state=CANCELLED" --no-requeue work 0 never
eventually has_marks "$id" begin
fails "a job with --no-requeue is not queued again" "$jobctl" requeue "$id"
"$jobctl" cancel "$id"

job "ends=1 tasks=8 cpus=8" -n 8 work 0 go-stopped
stopped=$id
eventually has_marks "$stopped" begin
"$jobctl" suspend "$stopped"
eventually has_state SUSPENDED "$stopped"
touch "$work/go-stopped"
sleep 0.5
fails "a suspended job does not end" has_marks "$stopped" end
"$jobctl" resume "$stopped"

script steps <<'S'
"$STEPRUN" --proctrack "$TRACKER" sh -c 'echo "$SLURM_PROCID $SLURMD_NODENAME"'
S
job "runs=0 count=2" -N 2 -o steps-default.out steps
job "runs=0 count=2 tasks=4 each=2,2" -N 2 -n 4 --ntasks-per-node 2 -w 'n[2-3]' -o steps.out steps
(cd "$work" && STEPRUN_LAUNCHER=local "$jobctl" alloc -N 2 -n 2 -J by-hand ./work 4) >"$tmpdir/alloc" 2>&1
is $? 4 "an allocation ends with its command's status"
like "$(cat "$tmpdir/alloc")" "^[0-9]+ n\[?[1-4][-,][1-4]\]? 2 - 2 main$" "the command of an allocation has its variables"
(cd "$work" && "$jobctl" submit --wait --wrap 'exit 9' >"$tmpdir/id")
is $? 9 "submit --wait ends with the script's status"
want "$(tr -dc 0-9 <"$tmpdir/id")" "state=FAILED exit=2304 runs=0"
like "$(cd "$work" && "$jobctl" submit --test-only -N 4 work 0 2>&1)" "n\[1-4\]" "--test-only names the nodes"

eventually has_ended "$again"
eventually has_ended "$stopped"
"$jobctl" reserve ReservationName=course Nodes=n4 StartTime=now Duration=60 Users=root Flags=ignore_jobs >/dev/null
job "nodes=n4 cpus=4 tasks=4" --reservation course -n 4 work 0
ends_as "$id" COMPLETED "a job with a reservation runs"
job "nodes=n4 follows=$id" -w n4 work 0
ok "a job without the reservation waits for a reserved node" eventually has_reason "$id" ReqNodeNotAvail
job "among=n1,n2,n3" -N 3 work 0
ends_as "$id" COMPLETED "a job goes where nothing is reserved"
"$jobctl" reserve --delete course
eventually all_have_ended

# ---- the evening: the books

"$jobctl" queue -t all --json >"$tmpdir/jobs"
compare() { # TOPIC NAME
	is "$(python3 "$top_srcdir/tests/lib/jobd_lab.py" "$1" "$tmpdir/jobs" "$tmpdir/wanted" "$work" 2>&1)" "" "$2"
}
count=$(json_get "$tmpdir/jobs" 'len(d["jobs"])')
ok "there were 200 jobs ($count)" test "$count" -ge 200
compare states "each job has the state and the exit status that it should"
compare runs "each job ran as often as it should"
compare places "each job got the nodes, CPUs and memory that it requested"
compare output "each job's output is in its file, and shows what it got"
compare order "jobs began after those they waited for, and by tier and priority"
compare cores "no core had two jobs at any time"
compare memory "no node's memory was given twice at any time"
compare arrays "no array had more tasks at a time than its limit"
is "$(cut -d' ' -f1 "$work/both.txt" | tr '\n' ' ')" "$both" "two jobs append to one file, one after the other"
is "$(cat "$work/out-all" "$work/err-all" "$work/out-one" "$work/err-one" | tr '\n' ' ')" "text ab text b " \
	"standard input, standard error and the environment are as requested"
is "$(cat "$work/wrapped" "$work/marked-$marked.out" | tr '\n' ' ')" "42 3 2 " \
	"a wrapped command runs, and options of a script's comments count"
is "$(sort "$work/steps.out" | tr '\n' ';')" "0 n2;1 n2;2 n3;3 n3;" "a step runs the job's tasks on the job's nodes"
is "$(sort "$work/steps-default.out" | cut -d' ' -f1 | tr '\n' ' ')" "0 1 " \
	"a step of a job without a number of tasks has one on each node"
is "$("$jobctl" nodes -h -o %t | sort -u)" idle "all nodes are idle at the end"
like "$("$jobctl" show node n1)" "[Rr]eal.*1000" "nodes are shown"
is "$(find "$state/run" -mindepth 1)" "" "no result of an ended job is kept"
nothing_left_of_jobs 500
done_testing
