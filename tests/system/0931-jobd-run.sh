#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Jobs of jobd on four named nodes of this machine, through real agents: exit statuses, files and
# arrays, steprun in a script, suspension, ends that a script does not want, agents and nodes that
# fail, and a jobd that is killed. 0937-jobd-killed.sh kills it at random moments.
# shellcheck source=tests/lib/jobd.sh
. "${top_srcdir:?}/tests/lib/jobd.sh"

# The pids of this user's processes whose environment has such a text.
hears() { # TEXT UID
	python3 - "$@" <<'P'
import os, sys
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        if os.stat("/proc/" + pid).st_uid == int(sys.argv[2]) and \
           sys.argv[1].encode() in open("/proc/%s/environ" % pid, "rb").read():
            print(pid, open("/proc/%s/cmdline" % pid).read().replace("\0", " "))
    except OSError:
        pass
P
}

# ---- twenty jobs

begin_jobd
script exits <<'S'
echo "job $SLURM_JOB_ID has $SLURM_NTASKS on $SLURM_JOB_NUM_NODES: $*"
echo "error" >&2
exit "$1"
S
for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do
	submit -n 2 -N $((i % 2 + 1)) exits $i >>"$tmpdir/ids"
done
eventually all_have_ended
i=0
wrong=
while read -r id; do
	wanted=$((i * 256))
	[ "$(doc_of "$id" '["exit_code"]')" = $wanted ] &&
		[ "$(cat "$work/slurm-$id.out")" = "job $id has 2 on $((i % 2 + 1)): $i
error" ] || wrong="$wrong $id"
	i=$((i + 1))
done <"$tmpdir/ids"
is "$i,$wrong" 20, "each of twenty jobs has its own exit status, and its output in slurm-JOB.out"
is "$("$jobctl" queue -h -t all -o %T | sort | uniq -c | tr -s ' \n' ' ')" " 1 COMPLETED 19 FAILED " \
	"a job with exit status 0 is COMPLETED, others are FAILED"

# ---- files and arrays

script where <<'S'
echo "$SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $(id -u) $(id -g) $(pwd)"
echo "aside" >&2
S
id=$(submit --array 3,5 -J 'a b' -o 'x%%-%A-%3a-%u-%x-%N.out' -e 'e-%a' -w n2 where)
eventually all_have_ended
is "$(cat "$work/x%-$id-003-root-a b-n2.out")" "$id 3 0 0 $work" "output is in the file of the pattern, with the array task"
is "$(cat "$work/x%-$id-005-root-a b-n2.out")" "$id 5 0 0 $work" "each array task has its own output"
is "$(cat "$work/e-3")" aside "errors have a file of their own"
id=$(submit -o none-such/x where)
ends_as "$id" FAILED "a job whose output file can't be made fails"
is "$("$jobctl" nodes -h -o %t | sort -u)" idle "no node is drained for a file that a user has named"
mkdir -m 700 "$tmpdir/private"
if command -v setpriv >/dev/null; then
	id=$(cd "$work" && setpriv --reuid 65534 --regid 65534 --clear-groups "$jobctl" submit --parsable -o nobodys where)
	eventually has_ended "$id"
	is "$(cat "$work/nobodys") $(stat -c %u "$work/nobodys")" "  65534 65534 $work
aside 65534" "a job runs, and its output is opened, as its user"
	id=$(cd "$work" && setpriv --reuid 65534 --regid 65534 --clear-groups "$jobctl" submit --parsable -o "$tmpdir/private/x" where)
	ends_as "$id" FAILED "a user's job can't write where the user can't"
	is "$(ls "$tmpdir/private")" "" "no file is made in root's name"
	# What a user's environment says is for the user's processes.
	script waits <<'S'
echo up >"$1"
until [ -e "$1.end" ]; do sleep 0.05; done
S
	mkdir "$tmpdir/hostile"
	id=$(cd "$work" && LD_PRELOAD=$tmpdir/hostile/none.so STEPD_PLUGIN_DIR=$tmpdir/hostile \
		STEPD_CGROUP_ROOT=$tmpdir/hostile STEPD_PROCTRACK=pgid JOBD_CRAY_CONF=$tmpdir/hostile \
		setpriv --reuid 65534 --regid 65534 --clear-groups "$jobctl" submit --parsable waits hostile \
		2>/dev/null)
	eventually wrote hostile
	like "$(hears "$tmpdir/hostile" 65534)" . "a user's environment comes to the user's script"
	is "$(hears "$tmpdir/hostile" 0)" "" "no process of root has anything of a user's environment"
	touch "$work/hostile.end"
	ends_as "$id" COMPLETED "a job with such an environment comes to its end"
else
	skip 6 "needs setpriv"
fi

# ---- steps in a script

script steps <<'S'
"$STEPRUN" --proctrack "$TRACKER" sh -c 'echo "rank $SLURM_PROCID on $SLURMD_NODENAME of $SLURM_JOB_ID"'
S
id=$(submit -n 4 -N 2 --ntasks-per-node 2 -w 'n[2-3]' -o steps.out steps)
ends_as "$id" COMPLETED "a script with a step completes"
is "$(sort "$work/steps.out")" "rank 0 on n2 of $id
rank 1 on n2 of $id
rank 2 on n3 of $id
rank 3 on n3 of $id" "steprun without options runs the job's tasks on the job's nodes"

script told <<'S'
trap 'echo script >>told.out' USR1
"$STEPRUN" --proctrack "$TRACKER" -n 2 sh -c 'trap "echo task; exit 0" USR1; echo up; while :; do sleep 0.05; done' >>told.out
wait
S
id=$(submit -n 2 -N 2 -o told.log told)
eventually wrote told.out up
eventually sh -c "[ \$(grep -c up '$work/told.out') = 2 ]"
"$jobctl" cancel -s USR1 "$id"
ends_as "$id" COMPLETED "a signal to a job's steps reaches their tasks"
is "$(sort "$work/told.out" | tr '\n' ' ')" "task task up up " "a signal to a job's steps does not reach the script"

script traps <<'S'
out=$1
trap 'echo script >>"$out"' USR1
sh -c 'trap "echo child; exit 0" USR1; echo up; while :; do sleep 0.05; done' >>"$out" &
"$STEPRUN" --proctrack "$TRACKER" -n 2 sh -c 'trap "echo task; exit 0" USR1; echo up; while :; do sleep 0.05; done' >>"$out" &
until wait; do :; done
S
all_up() { # FILE
	[ "$(grep -c up "$work/$1")" = 3 ]
}
id=$(submit -n 2 -N 2 -o traps.log traps traps.out)
eventually all_up traps.out
"$jobctl" cancel --batch -s USR1 "$id"
ok "a signal to the batch script alone reaches it" eventually wrote traps.out script
sleep 0.3
is "$(sort "$work/traps.out" | tr '\n' ' ')" "script up up up " \
	"a signal to the batch script alone reaches neither its children nor its steps"
"$jobctl" cancel --full -s USR1 "$id"
ends_as "$id" COMPLETED "a signal to all of a job reaches its steps"
is "$(sort "$work/traps.out" | uniq | tr '\n' ' ') $(grep -c script "$work/traps.out")" "child script task up  2" \
	"a signal to all of a job reaches the script and its children, too"
id=$(submit traps killed.out)
eventually wrote killed.out
"$jobctl" cancel --batch "$id"
eventually has_ended "$id"
is "$(doc_of "$id" '["job_state"]') $(doc_of "$id" '["exit_code"]')" "FAILED 9" \
	"only the batch script is killed where no signal is named"
"$jobctl" alloc --no-shell -J empty
id=$("$jobctl" queue -h -n empty -o %i)
is "$("$jobctl" cancel --batch -s USR1 "$id" 2>&1)" \
	"jobctl cancel: error: job $id has no batch script: signal its steps, without --batch" \
	"a signal to the batch script of a job without one is refused"
"$jobctl" cancel "$id"

# ---- signals of the user's choice before the end

script warned <<'S'
out=$1
trap 'echo script >>"$out"' USR1
trap 'echo mark >>"$out"' USR2
"$STEPRUN" --proctrack "$TRACKER" -n 1 sh -c 'trap "echo task" USR1; echo up; while :; do sleep 0.05; done' >>"$out" &
until wait; do :; done
S
steps=$(submit -t 60 --signal=USR1@600 warned steps.warned)
batch=$(submit -t 60 --signal=B:USR1@600 warned batch.warned)
like "$("$jobctl" show job "$batch")" '^   Signal=B:USR1@600$' "the signal before its end is shown of a job"
eventually wrote steps.warned up
eventually wrote batch.warned up
kill_jobd
begin_jobd
fails "no job is warned before the time" grep -Eq 'script|task' "$work/steps.warned" "$work/batch.warned"
"$jobctl" update "$steps" TimeLimit=10
"$jobctl" update "$batch" TimeLimit=10
ok "the steps of a job are warned before its end" eventually wrote steps.warned task
ok "with B: the script is warned before the end" eventually wrote batch.warned script
kill_jobd
begin_jobd
for id in $steps $batch; do
	"$jobctl" cancel --batch -s USR2 "$id"
done
eventually wrote steps.warned mark
eventually wrote batch.warned mark
is "$(tr '\n' ' ' <"$work/steps.warned")" "up task mark " \
	"a signal for the steps comes once, also when jobd is killed, and not to the script"
is "$(tr '\n' ' ' <"$work/batch.warned")" "up script mark " \
	"a signal for the script comes once, also when jobd is killed, and not to its steps"
is "$(cd "$work" && "$jobctl" submit --signal=B:NONE warned x 2>&1)" \
	"jobctl submit: error: --signal: 'B:NONE' is not [B:]SIGNAL[@SECONDS]: a signal such as USR1 or 10, and 0 to 65535 seconds before the end" \
	"a signal that does not exist is refused"
"$jobctl" cancel "$steps"
"$jobctl" cancel "$batch"
eventually all_have_ended

# ---- suspension

script spins <<'S'
echo $$ >"$1"
while :; do :; done
S
script sleeps <<'S'
exec sleep 300
S
limited=$(submit -t 1 sleeps) # it is looked for later
id=$(submit -N 2 spins spins.pid)
eventually wrote spins.pid
"$jobctl" suspend "$id"
eventually has_state SUSPENDED "$id"
before=$(ticks_of spins.pid)
sleep 0.5
is "$(ticks_of spins.pid)" "$before" "a suspended job gets no CPU time"
"$jobctl" resume "$id"
eventually has_state RUNNING "$id"
runs_on() {
	[ "$(ticks_of spins.pid)" -gt "$before" ]
}
ok "a resumed job runs on" eventually runs_on
"$jobctl" suspend "$id"
eventually has_state SUSPENDED "$id"
"$jobctl" cancel "$id"
ends_as "$id" CANCELLED "a suspended job can be cancelled"

# A step that is ending can't be suspended: the node refuses it. Its agent is held until the processes
# of the other nodes stand.
id=$(submit -N 3 -w 'n[1-3]' spins again.pid)
eventually wrote again.pid
spins_on n2 "$id" deaf.pid
spins_on n3 "$id" third.pid
"$stepctl" terminate --grace 1h --runtime-dir "$run" "n2/$id.extern" >/dev/null
hold "$(agent_of n2 "$id.extern")"
"$jobctl" suspend "$id" 2>/dev/null
ok "a job is suspended on the first node before another one refuses" eventually stands again.pid
ok "a job is suspended on the third node before the second one refuses" eventually stands third.pid
is "$(doc_of "$id" '["job_state"]')" RUNNING "a job is not suspended as long as one of its nodes has not replied"
let_go
eventually grep -q "job $id could not be suspended" "$tmpdir/log"
like "$(cat "$tmpdir/log")" "job $id can't be suspended on node n2: " "a node that refuses a suspension is named"
is "$(doc_of "$id" '["job_state"]')" RUNNING "a job with a node that can't be suspended runs on"
ok "a suspension that one node refuses is taken back on the first one" eventually moves again.pid
ok "a suspension that one node refuses is taken back on the third one" eventually moves third.pid
"$jobctl" cancel "$id"
eventually has_ended "$id"
eventually process_ended "$(cat "$work/deaf.pid")"
eventually process_ended "$(cat "$work/third.pid")"

# ---- ends

script deaf <<'S'
trap '' TERM
echo $$ >"$1"
while :; do sleep 0.1; done
S
id=$(submit -N 2 deaf ignores.pid)
eventually wrote ignores.pid
begun_ms=$(now_ms)
"$jobctl" cancel "$id"
ends_as "$id" CANCELLED "a script that ignores SIGTERM is killed"
ok "it has KillWait before" [ $(($(now_ms) - begun_ms)) -ge 900 ]
id=$(submit -N 2 spins quick.pid)
"$jobctl" cancel "$id"
ends_as "$id" CANCELLED "a job can be cancelled while it begins"
ends_as "$limited" TIMEOUT "a job is ended by its time limit"

# ---- agents and nodes that fail

# The pid of the step's agent, which is none while nobody has the step's lock.
agent_pid() { # STEP
	"$stepctl" list --runtime-dir "$run" --json | json_get - "[s[\"agent_pid\"] for s in (d if isinstance(d, list) else d[\"steps\"]) if s[\"step\"] == \"$1\" and s[\"agent_pid\"]][0]" 2>/dev/null
}
has_other_agent() { # STEP
	new_agent=$(agent_pid "$1") && [ "$new_agent" != "$agent" ]
}
kill_agent() { # STEP: one that has not been killed yet
	eventually has_other_agent "$1"
	agent=$new_agent
	kill -KILL "$agent"
}
agent=
script slow <<'S'
echo up >"$1"
until [ -e "$2" ]; do sleep 0.05; done
exit 7
S
id=$(submit -N 2 slow slow.up slow.go)
eventually wrote slow.up
kill_agent "$id.batch"
kill_agent "$id.batch"
kill_agent "$id.batch"
has_died_thrice() {
	[ "$(grep -c "job $id: its agent on node .* has died" "$tmpdir/log")" = 3 ]
}
ok "a job's agent is replaced each time it dies" eventually has_died_thrice
eventually has_other_agent "$id.batch"
is "$(doc_of "$id" '["job_state"]')" RUNNING "a job outlives the death of its agents"
touch "$work/slow.go"
ends_as "$id" FAILED "the end of a job whose agent was replaced is seen"
is "$(doc_of "$id" '["exit_code"]')" 1792 "its exit status is the script's"

# A call under way to an agent that dies is the next one's.
id=$(submit -N 2 slow still.up still.go)
eventually wrote still.up
eventually has_other_agent "$id.batch"
agent=$new_agent
kill -STOP "$agent"
"$jobctl" suspend "$id" >"$tmpdir/suspend" 2>&1
kill -KILL "$agent"
ok "a job is suspended by the agent that replaces one that has died meanwhile" eventually has_state SUSPENDED "$id"
fails "no call is sent twice at a time" grep "is pending on this connection" "$tmpdir/log"
"$jobctl" resume "$id"
eventually has_state RUNNING "$id"
touch "$work/still.go"
ends_as "$id" FAILED "that job runs on, and ends"

kill_jobd
begin_jobd --runtime-dir /proc/none
id=$(submit -w n4 exits 0)
eventually sh -c "'$jobctl' nodes -h -n n4 -o %t | grep -q dr"
like "$("$jobctl" show node n4)" '[Rr]eason.*proc' "a node whose agent can't be started is drained, with the reason"
is "$(doc_of "$id" '["job_state"]')" PENDING "its job is queued again"
"$jobctl" cancel "$id"
"$jobctl" update NodeName=n4 State=RESUME

# ---- jobd is killed

kill_jobd
begin_jobd
script counted <<'S'
echo $$ >>"runs-$SLURM_JOB_ID"
until [ -e "$1" ]; do sleep 0.05; done
exit 9
S
long=$(submit -N 2 counted long.go)
short=$(submit counted short.go)
still=$(submit -N 2 spins still.pid)
eventually wrote "runs-$long"
eventually wrote "runs-$short"
eventually wrote still.pid
"$jobctl" suspend "$still"
eventually has_state SUSPENDED "$still"
kill_jobd
touch "$work/short.go"
gone() {
	[ -z "$(ls -d "$run/"*"_$short.batch" 2>/dev/null)" ]
}
eventually gone
before=$(ticks_of still.pid)
begin_jobd
ends_as "$short" FAILED "a job that has ended without jobd has ended when jobd returns"
is "$(doc_of "$short" '["exit_code"]')" 2304 "its exit status is known"
is "$(doc_of "$long" '["job_state"]')" RUNNING "a running job runs when jobd returns"
is "$(doc_of "$still" '["job_state"]')" SUSPENDED "a suspended job is suspended when jobd returns"
sleep 0.3
is "$(ticks_of still.pid)" "$before" "a suspended job stands still while jobd returns"
touch "$work/long.go"
ends_as "$long" FAILED "the end of a job that was found again is seen"
is "$(doc_of "$long" '["exit_code"]')" 2304 "with its exit status"
"$jobctl" cancel "$still"
ends_as "$still" CANCELLED "a suspended job that was found again can be cancelled"

# A job that is cancelled while the agent of its second node starts, before that of its script has its
# spec. jobd is killed then: the first agent goes on, the other one ends without a spec.
mkdir "$tmpdir/bin"
cat >"$tmpdir/bin/stepd" <<S
#!/bin/sh
case "\$*" in
*.n2.result*)
	echo \$\$ >>'$tmpdir/held'
	while [ -e '$tmpdir/hold' ]; do sleep 0.02; done
	;;
esac
exec '$here$stepd' "\$@"
S
chmod 755 "$tmpdir/bin/stepd"
kill_jobd
begin_jobd --stepd "$tmpdir/bin/stepd"
touch "$tmpdir/hold"
id=$(submit -N 2 -w 'n[1-2]' sleeps)
eventually test -s "$tmpdir/held"
eventually pgrep -f "$tmpdir.*/${id}[.]0[.]n1[.]result"
script_agent=$(pgrep -f "$tmpdir.*/${id}[.]0[.]n1[.]result")
"$jobctl" cancel "$id"
kill_jobd
eventually process_ended "$script_agent"
rm "$tmpdir/hold"
eventually test -S "$run/n2_$id.extern/socket"
begin_jobd
ends_as "$id" CANCELLED "a job that was cancelled before its script began ends when jobd returns"

# The same, and jobd is back before that agent listens.
kill_jobd
rm -f "$tmpdir/held"
begin_jobd --stepd "$tmpdir/bin/stepd"
touch "$tmpdir/hold"
id=$(submit -N 2 -w 'n[1-2]' sleeps)
eventually test -s "$tmpdir/held"
kill_jobd
begin_jobd
"$jobctl" cancel "$id"
switches() {
	awk '/^voluntary_ctxt_switches/ { print $2 }' "/proc/$jobd_pid/status"
}
before=$(switches)
sleep 2
# A look each 20 ms would be 100; what else there is to do takes some ten.
ok "jobd does not poll while it waits for an agent that starts" [ $(($(switches) - before)) -lt 50 ]
rm "$tmpdir/hold"
ends_as "$id" CANCELLED "a cancelled job ends once its agent listens"

# Memory that is used up on a node without the script: the agent there, which stands in for one of a
# kernel that counts memory, ends its step for that. The node is fine.
mkdir "$tmpdir/used"
cat >"$tmpdir/used/stepd" <<S
#!/bin/sh
case "\$*" in
*.n2.result*)
	for word; do
		[ "\$last" != --result ] || result=\$word
		last=\$word
	done
	cat <&3 >/dev/null
	echo ready >&4
	exec 4>&-
	until [ -e '$tmpdir/used-up' ]; do sleep 0.05; done
	echo '{"reason": "out-of-memory", "exit_code": 122, "oom_killed": true, "tasks": []}' >"\$result"
	exit 122
	;;
esac
exec '$here$stepd' "\$@"
S
chmod 755 "$tmpdir/used/stepd"
kill_jobd
begin_jobd --stepd "$tmpdir/used/stepd"
id=$(submit -N 2 -w 'n[1-2]' spins used.pid)
eventually wrote used.pid
touch "$tmpdir/used-up"
ends_as "$id" OUT_OF_MEMORY "a job whose memory is used up on any node ends as a whole"
like "$("$jobctl" show job "$id")" '^   StateDesc=it has used more than its memory on node n2$' \
	"the node on which the memory of a job was used up is shown"
is "$("$jobctl" nodes -h -o %t | sort -u)" idle "no node is drained because a job has used up its memory"

# ---- other hosts, which a launcher of the site reaches

kill -TERM "$jobd_pid"
wait "$jobd_pid"
is $? 0 "jobd ends by SIGTERM"
printf 'echo "$1" >>%s/launched; STEPD_RUNTIME_DIR=%s/remote exec sh -c "$2"\n' "$tmpdir" "$tmpdir" >"$tmpdir/launch"
begin_launching() {
	begin_jobd --step-launcher local --launcher "sh $tmpdir/launch %h %q"
}
mkdir "$tmpdir/open"
cp "$tmpdir/launch" "$tmpdir/open/launch"
chmod 777 "$tmpdir/open"
"$jobd" --conf "$tmpdir/slurm.conf" --state "$state" --socket "$JOBD_SOCKET" --stepd "$here$stepd" \
	--runtime-dir "$run" --launcher "sh $tmpdir/open/launch %h %q" 2>"$tmpdir/refused"
is "$? $(grep -c "the launcher: '$tmpdir/open', above '$tmpdir/open/launch', can be changed" "$tmpdir/refused")" "1 1" \
	"jobd as root refuses a launcher that others can change"
chmod 755 "$tmpdir/open/launch"
(
	cd "$tmpdir" && PATH=open:$PATH && "$jobd" --conf "$tmpdir/slurm.conf" --state "$state" --socket "$JOBD_SOCKET" \
		--stepd "$here$stepd" --runtime-dir "$run" --launcher "launch %h %q" 2>"$tmpdir/refused"
)
like "$(cat "$tmpdir/refused")" "the launcher: '$tmpdir/open', above '$tmpdir/open/launch', can be changed" \
	"jobd finds the launcher's program as a shell does"
begin_launching
id=$(submit -n 4 -N 2 --ntasks-per-node 2 -w 'n[2-3]' -o remote.out steps)
ends_as "$id" COMPLETED "a job on other hosts completes"
is "$(grep -c "^rank . on n[23] of $id" "$work/remote.out")" 4 "steps of a job on other hosts run"
is "$(sort -u "$tmpdir/launched" | tr '\n' ' ')" "n2 n3 " "the launcher gets the host"
id=$(submit -N 2 spins remote.pid)
eventually wrote remote.pid
"$jobctl" suspend "$id"
eventually has_state SUSPENDED "$id"
before=$(ticks_of remote.pid)
kill_jobd
sleep 0.3
begin_launching
is "$(doc_of "$id" '["job_state"]')" SUSPENDED "a suspended job on other hosts is found again"
is "$(ticks_of remote.pid)" "$before" "a suspended job on other hosts gets no CPU time"
"$jobctl" resume "$id"
eventually has_state RUNNING "$id"
runs_on() {
	[ "$(ticks_of remote.pid)" -gt "$before" ]
}
ok "a resumed job on other hosts runs on" eventually runs_on
"$jobctl" cancel "$id"
ends_as "$id" CANCELLED "a job on other hosts can be cancelled"
script waits <<'S'
trap 'echo script >>"$1"; exit 5' USR1
sh -c 'trap "echo child" USR1; echo up; while :; do sleep 0.05; done' >>"$1" &
wait
S
id=$(submit waits waits.out)
eventually wrote waits.out up
"$jobctl" cancel --batch -s USR1 "$id"
eventually has_ended "$id"
is "$(doc_of "$id" '["exit_code"]') $(tr '\n' ' ' <"$work/waits.out")" "1280 up script " \
	"a signal to the batch script alone reaches it on other hosts"
id=$(submit -n 2 -N 2 -o far.log traps far.out)
eventually all_up far.out
"$jobctl" cancel -s USR1 "$id"
both_tasks() {
	[ "$(grep -c task "$work/far.out")" = 2 ]
}
ok "a signal to a job's steps reaches their tasks on other hosts" eventually both_tasks
fails "a signal to a job's steps reaches neither the script nor its children on other hosts" \
	grep -Eq 'script|child' "$work/far.out"
"$jobctl" cancel "$id"
eventually has_ended "$id"
id=$(submit -N 2 exits 6)
eventually has_ended "$id"
is "$(doc_of "$id" '["exit_code"]')" 1536 "the exit status of a job on other hosts is known"

# An agent that has its step only when all else of the job is over: the first calls find none. And then a call
# that does not get there.
kill_jobd
cat >"$tmpdir/late" <<S
case "\$2" in
*serve*) [ "\$1" != n2 ] || until [ -e '$tmpdir/called' ]; do sleep 0.05; done ;;
esac
case "\$2" in
*terminate*) ! mkdir '$tmpdir/fails' 2>/dev/null || exit 255 ;;
esac
STEPD_RUNTIME_DIR='$tmpdir/remote' sh -c "\$2"
status=\$?
case "\$2" in
*terminate*) echo "\$1 \$status" >>'$tmpdir/called' ;;
esac
exit \$status
S
begin_jobd --step-launcher local --launcher "sh $tmpdir/late %h %q"
id=$(submit -w 'n[1-2]' exits 7)
eventually has_ended "$id"
is "$(doc_of "$id" '["exit_code"]') $(sort -u "$tmpdir/called" | tr '\n' ' ')" "1792 n2 0 n2 1 " \
	"an agent on another host that begins late ends with its job"
is "$(grep -c "job $id can't be ended on node n2: stepctl has failed there;.* tried again in 1 s" "$tmpdir/log")" 1 \
	"a call that does not get to the host is made again"

# ---- what is left

nothing_left_of_jobs 100
done_testing
