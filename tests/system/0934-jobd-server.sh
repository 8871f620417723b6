#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# jobd's service, org.stepd.jobs: what is submitted, listed, waited for and changed, by whom, and what
# is there again after a kill -9. The runner has no processes (tests/lib/jobd_without_agents.c); real
# jobs are the subject of others.

# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

jobd=$(cd "${top_builddir:?}" && pwd)/tests/lib/jobd-without-agents
plugins=$top_builddir/stepd/cli/plugins
[ -x "$jobd" ] || skip_all "built without jobd"
[ "$(id -u)" = 0 ] || skip_all "needs root: other users call"

plugins=$(cd "$plugins" && pwd)
command -v python3 >/dev/null || skip_all "python3 is missing"
state=$tmpdir/state
as=
at=$tmpdir/jobd/socket
pid=

cat >"$tmpdir/slurm.conf" <<'EOF'
ClusterName=lab
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmctldPort=6817
MaxJobCount=40
SchedulerParameters=bf_interval=1
KillWait=1
NodeName=n[1-4] CPUs=4 Sockets=1 CoresPerSocket=4 RealMemory=4000
PartitionName=main Nodes=n[1-4] Default=YES MaxTime=INFINITE
PartitionName=night Nodes=n[1-2] MaxTime=60 State=DOWN
EOF

# ---- helpers -----------------------------------------------------------------------------------

start_jobd() {
	rm -f "$tmpdir/jobd.log" # that of before has the same lines
	"$jobd" --conf "$tmpdir/slurm.conf" --state "$state" --socket "$at" --plugin-dir "$plugins" \
		2>"$tmpdir/jobd.log" &
	pid=$!
	eventually grep -q "listens at" "$tmpdir/jobd.log" || bail "jobd does not start: $(cat "$tmpdir/jobd.log")"
}

stop_jobd() { # SIGNAL: the exit status is in $status
	kill "-$1" "$pid"
	wait "$pid" 2>/dev/null
	status=$?
	pid=
}
at_exit '[ -z "$pid" ] || end_child KILL "$pid"'

result() { # EXPRESSION METHOD [PARAMETERS]
	# shellcheck disable=SC2086 # $as is options
	python3 -B "$top_srcdir/tests/lib/jobd_call.py" $as "$at" "$@"
}

error_of() { # METHOD [PARAMETERS]: its name and message
	result 'd.get("error", "no error").split(".")[-1] + ": " + p.get("message", p.get("parameter", ""))' "$@"
}

submit() { # REQUEST: the job's id
	result 'p["job_id"]' Submit "{\"request\": $1}"
}

show() { # JOB EXPRESSION of its document, j
	result "[$2 for j in p['jobs']][0]" ListJobs "{\"job\": \"$1\"}"
}

state_is() { # JOB STATE
	[ "$(show "$1" 'j["job_state"]')" = "$2" ]
}

# ---- start -------------------------------------------------------------------------------------

start_jobd
like "$(cat "$tmpdir/jobd.log")" 'that jobd ignores: SlurmctldPort$' "jobd names the keys that it leaves out"
is "$(stat -c %a "$at")" 666 "every user may connect to jobd's socket"
is "$(result '" ".join(p["interfaces"])' org.varlink.service.GetInfo)" "org.varlink.service org.stepd.jobs" \
	"the service has the interface org.stepd.jobs"
like "$(result 'p["description"]' org.varlink.service.GetInterfaceDescription '{"interface": "org.stepd.jobs"}')" \
	'^method Submit\(' "the service describes its interface"
"$jobd" --conf "$tmpdir/slurm.conf" --state "$state" --socket "$tmpdir/other/socket" \
	--plugin-dir "$plugins" >"$tmpdir/second" 2>&1
is $? 1 "a second jobd with the same state ends at once"
like "$(cat "$tmpdir/second")" "$pid" "a second jobd names the process that has the state"
"$jobd" --conf "$tmpdir/slurm.conf" --state "$tmpdir/state2" --socket "$at" \
	--plugin-dir "$plugins" >"$tmpdir/second" 2>&1
is $? 1 "a second jobd at the same socket ends at once"
like "$(cat "$tmpdir/second")" "another jobd \(pid $pid\) listens at '$at'" "a second jobd names the process that has the socket"

# ---- files that others can change --------------------------------------------------------------

mkdir "$tmpdir/conf"
printf 'NodeName=n1 CPUs=4\nPartitionName=main Nodes=n1\n' >"$tmpdir/conf/nodes"
printf 'Include nodes\n' >"$tmpdir/conf/slurm.conf"
printf 'QOSName=normal\n' >"$tmpdir/conf/qos"
refused() { # FILE NAME: a file that others may write to
	chmod 666 "$tmpdir/conf/$1"
	"$jobd" --conf "$tmpdir/conf/slurm.conf" --qos "$tmpdir/conf/qos" --state "$tmpdir/state2" \
		--socket "$tmpdir/other/socket" --plugin-dir "$plugins" 2>"$tmpdir/second"
	is $? 1 "jobd as root refuses $2 that others may write to"
	like "$(cat "$tmpdir/second")" "'$tmpdir/conf/$1' can be written by others" "the message names $2"
	chmod 644 "$tmpdir/conf/$1"
}
refused slurm.conf "a configuration"
refused nodes "an included file"
refused qos "a QOS file"
chmod 777 "$tmpdir/conf"
like "$("$jobd" --check-conf --conf "$tmpdir/conf/slurm.conf" 2>&1)" "'$tmpdir/conf', above '$tmpdir/conf/slurm.conf', can be changed" \
	"--check-conf reports a configuration in a directory of others"
chmod 755 "$tmpdir/conf"
ok "--check-conf accepts a configuration that only root may write to" \
	"$jobd" --check-conf --conf "$tmpdir/conf/slurm.conf" --qos "$tmpdir/conf/qos"
(
	cd "$tmpdir/conf" && chmod o+w nodes &&
		"$jobd" --check-conf --conf slurm.conf 2>"$tmpdir/second"
)
like "$(cat "$tmpdir/second")" "slurm.conf:1: 'nodes' can be written" "a relative configuration is checked, too"
chmod 666 "$tmpdir/slurm.conf"
like "$(error_of Reconfigure)" "'$tmpdir/slurm.conf' can be written by others" \
	"a running jobd does not take a configuration that others may write to"
chmod 644 "$tmpdir/slurm.conf"

# ---- jobs --------------------------------------------------------------------------------------

short=$(submit '{"script": "#!/bin/sh\n", "argv": ["0.1", "3"], "work_dir": "/tmp", "name": "short"}')
is "$(result 'p["job"]["job_state"] + " " + str(p["job"]["exit_code"] >> 8)' Wait "{\"job\": \"$short\", \"until\": \"ended\"}")" \
	"FAILED 3" "Wait is answered when the job has ended, with its exit status"
is "$(result 'p["job"]["name"]' Wait "{\"job\": \"$short\", \"until\": \"ended\"}")" short \
	"Wait for a job that has ended is answered at once"
long=$(submit '{"ntasks": 2}')
is "$(result 'p["job"]["job_state"]' Wait "{\"job\": \"$long\", \"until\": \"started\"}")" RUNNING \
	"Wait is answered when the job has started"
is "$(show "$long" 'j["nodes"] + " " + str(j["cpus"])')" "n1 2" "ListJobs shows what the job has"
is "$(result 'sum(n["alloc_cpus"] for n in p["nodes"])' ListNodes)" 2 "ListNodes counts what jobs have"
is "$(result '",".join(x["name"] for x in p["partitions"])' ListPartitions)" main,night \
	"ListPartitions has them in the order of the configuration"
is "$(result 'p["running"]' Stats)" 1 "Stats counts jobs that run"
tasks=$(submit '{"array": "0-3%2"}')
eventually state_is "${tasks}_1" RUNNING
is "$(result '" ".join("%d:%s" % (j["array_task_id"], j["job_state"]) for j in p["jobs"])' ListJobs \
	"{\"job\": \"${tasks}_[1-2]\"}")" "1:RUNNING 2:PENDING" "some tasks of an array can be listed"
is "$(error_of Cancel "{\"job\": \"$tasks\"}")" "no error: " "an array is cancelled by its number"
is "$(result 'sorted({j["job_state"] for j in p["jobs"]})' ListJobs "{\"job\": \"$tasks\"}")" '["CANCELLED"]' \
	"all tasks of a cancelled array are"
is "$(error_of Cancel "{\"job\": \"$tasks\"}")" "WrongState: all tasks of job $tasks have ended" \
	"an array that has ended can't be cancelled"
held=$(submit '{"hold": true, "ntasks": 1}')
is "$(show "$held" 'j["state_reason"]')" JobHeldUser "a job can be submitted held"
is "$(error_of Release "{\"job\": \"$held\"}")" "no error: " "a held job is released"
eventually state_is "$held" RUNNING
ok "a released job starts" state_is "$held" RUNNING
is "$(error_of Hold "{\"job\": \"$held\"}")" "WrongState: job $held can't be held: it is RUNNING" \
	"a job that runs can't be held"
is "$(error_of Suspend "{\"job\": \"$held\"}")" "no error: " "root suspends a job"
eventually state_is "$held" SUSPENDED
is "$(error_of Resume "{\"job\": \"$held\"}")" "no error: " "root resumes a job"
eventually state_is "$held" RUNNING
is "$(error_of Signal "{\"job\": \"$held\", \"signal\": \"SIGTERM\"}")" "no error: " "a job is sent a signal"
eventually state_is "$held" FAILED
is "$(error_of Update "{\"job\": \"$long\", \"changes\": {\"time_limit_min\": 5}}")" "no error: " \
	"a time limit is changed"
is "$(show "$long" 'j["time_limit_min"]')" 5 "a changed time limit is shown"

# ---- jobctl ------------------------------------------------------------------------------------

jobctl() {
	JOBD_SOCKET=$at "$top_builddir/contrib/jobd/cli/jobctl" "$@"
}
last=$(result 'p["jobs"][-1]["job_id"]' ListJobs)
jobctl submit --test-only --wrap true -n 3 -c 2 >"$tmpdir/out" 2>"$tmpdir/err"
is "$? $(sed 's/at [-0-9]*T[:0-9]* /at TIME /' "$tmpdir/err")" \
	"0 jobctl submit: Job to start at TIME using 6 processors on nodes n[1-2] in partition main" \
	"--test-only prints when and where the job would start"
is "$(cat "$tmpdir/out")" "" "--test-only prints no job's number"
is "$(jobctl submit -Q --test-only --wrap true 2>&1)" "" "--test-only prints nothing with --quiet"
jobctl submit --test-only --wrap true -N 5 2>"$tmpdir/err"
is "$? $(cat "$tmpdir/err")" "1 jobctl submit: error: Requested node configuration is not available" \
	"--test-only fails for a job that can never run"
jobctl submit --test-only --wrap true -p night 2>"$tmpdir/err"
is "$? $(cat "$tmpdir/err")" "1 jobctl submit: error: partition night is down: none of its jobs start" \
	"--test-only fails for a job in a partition that is down"
is "$(result 'p["jobs"][-1]["job_id"]' ListJobs)" "$last" "--test-only submits nothing"
is "$(submit '{"hold": true}')" $((last + 1)) "--test-only uses no job's number"
is "$(error_of Cancel "{\"job\": \"$((last + 1))\"}")" "no error: " "the job with the next number is cancelled"
script=$(jobctl submit --wrap true -J wrapped -o /dev/null | sed 's/.* //')
eventually state_is "$script" RUNNING
is "$(jobctl queue -h -j "$script" -o '%i %j %T %N')" "$script wrapped RUNNING n1" "jobctl shows a job that it has submitted"
ok "jobctl cancels it" jobctl cancel "$script"
eventually state_is "$script" CANCELLED
like "$(jobctl cancel 99999 2>&1)" "there is no job 99999" "jobctl prints jobd's own sentence"
is "$(jobctl nodes -h -o '%D %t' | sort | tr '\n' ' ')" "1 mix 3 idle " "jobctl counts nodes by their states"

# ---- what is wrong -----------------------------------------------------------------------------

is "$(error_of Submit '{"request": {"nodes": 2}}')" "Invalid: a job's request has no member 'nodes'" \
	"an unknown member of a request is named"
is "$(error_of Submit '{"request": {"ntasks": 99}}')" "Invalid: Requested node configuration is not available" \
	"a job that can never run is refused"
is "$(error_of Submit '{"request": {"script": "echo", "work_dir": "/tmp"}}' | cut -c1-47)" \
	"Invalid: This does not look like a batch script" "a script without #! is refused"
is "$(error_of Cancel '{"job": "99999"}')" "NoSuchJob: there is no job 99999, or it has ended some time ago" \
	"an unknown job is named"
like "$(error_of Cancel '{"job": "; rm"}')" "^Invalid: '; rm' is not a job" "a text that is not a job's number is refused"
like "$(error_of Cancel '{"job": "1_[0-99999999]"}')" "^Invalid: job '1_\[0-99999999\]'" \
	"tasks beyond MaxArraySize are refused"
is "$(error_of Wait '{"job": "1", "until": "never"}')" "InvalidParameter: until" "an unknown condition of Wait is refused"
is "$(error_of Submit)" "InvalidParameter: request" "Submit needs a request"
is "$(error_of UpdateNodes '{"nodes": "n1", "state": "DRAIN"}')" "Invalid: DRAIN needs a reason" \
	"a node is not drained without a reason"
deep=$(printf '%0100d' 0 | sed 's/0/[/g')
is "$(varlink raw "$at" "{\"method\":\"a.b\",\"parameters\":$deep")" "" "a request that nests too deep ends its connection"
is "$(result 'p["cluster"]' Stats)" lab "jobd serves others meanwhile"

# ---- other users -------------------------------------------------------------------------------

as='--uid 65534 --gid 65534'
theirs=$(submit '{"hold": true, "comment": "theirs", "env": ["SECRET=1"]}')
is "$(show "$theirs" '"%d %d" % (j["user_id"], j["group_id"])')" "65534 65534" \
	"a job belongs to the user whom the kernel reports"
is "$(result 'sorted(p)[1]' Cancel "{\"job\": \"$long\"}")" method "a refusal names the method"
like "$(error_of Cancel "{\"job\": \"$long\"}")" "^PermissionDenied: job $long belongs to another user" \
	"another user's job can't be cancelled"
for method in Signal:',"signal": "TERM"' Hold: Release: Requeue: Update:',"changes": {}' Expand:",\"to\": \"$theirs\""; do
	is "$(result 'd.get("error", "").split(".")[-1] + " " + p.get("needs", "")' "${method%%:*}" \
		"{\"job\": \"$long\"${method#*:}}")" "PermissionDenied owner" "${method%%:*} of another user's job is denied"
done
for method in Suspend:"\"job\": \"$theirs\"" Resume:"\"job\": \"$theirs\"" Reserve:'"reservation": {}' \
	DeleteReservation:'"name": "a"' UpdateNodes:'"nodes": "n1", "state": "RESUME"' Reconfigure:; do
	is "$(result 'd.get("error", "").split(".")[-1] + " " + p.get("needs", "")' "${method%%:*}" \
		"{${method#*:}}")" "PermissionDenied root" "${method%%:*} is root's alone"
done
is "$(result '"request" in p["jobs"][0]' ListJobs "{\"job\": \"$long\", \"details\": true}")" false \
	"another user's request is not shown"
is "$(result 'p["jobs"][0]["request"]["env"][0]' ListJobs "{\"job\": \"$theirs\", \"details\": true}")" "SECRET=1" \
	"the owner sees the job's request"
is "$(error_of Release "{\"job\": \"$theirs\"}")" "no error: " "an owner releases what he has held"
as=
is "$(error_of Hold "{\"job\": \"$theirs\"}" | cut -d: -f1 | sed 's/WrongState/no error/')" "no error" \
	"root holds another user's job"
is "$(result '"request" in p["jobs"][0]' ListJobs "{\"job\": \"$theirs\", \"details\": true}")" true \
	"root sees another user's request"
is "$(error_of Cancel "{\"job\": \"$theirs\"}")" "no error: " "root cancels another user's job"
as='--uid 64999 --gid 64999'
like "$(error_of Submit '{"request": {}}')" '^Invalid: user 64999 is not in this node' \
	"a user whom the node does not know can't submit"
as='--uid 65534 --gid 65534'
i=0
while [ $i -lt 3 ]; do
	submit '{"array": "0-7", "hold": true}' >/dev/null
	i=$((i + 1))
done
like "$(error_of Submit '{"request": {"array": "0-7", "hold": true}}')" '^Invalid: user 65534 has 24 jobs, .*three quarters' \
	"one user can't have more than three quarters of MaxJobCount"
as=
isnt "$(submit '{"hold": true}')" "" "another user may submit when one has too many jobs"

# ---- nodes, reservations, the configuration ----------------------------------------------------

is "$(error_of UpdateNodes '{"nodes": "n4", "state": "DRAIN", "reason": "disk"}')" "no error: " "root drains a node"
is "$(result '[n["reason"] for n in p["nodes"] if "DRAIN" in n["state_flags"]]' ListNodes)" '["disk"]' \
	"a drained node shows its reason"
is "$(result 'p["name"]' Reserve '{"reservation": {"name": "upkeep", "nodes": "n3", "duration_min": 60, "users": [0]}}')" \
	upkeep "root makes a reservation"
is "$(result 'p["reservations"][0]["nodes"]' ListReservations)" n3 "a reservation is listed"
is "$(error_of Reserve '{"reservation": {"nodes": "n4", "users": [-1]}}')" \
	"Invalid: reservation: member 'users' is unknown, or has a wrong value" "a reservation's bad member is named"
sed -i 's/State=DOWN/State=UP/' "$tmpdir/slurm.conf"
is "$(result 'p["left_out"]' Reconfigure)" '["SlurmctldPort"]' "Reconfigure names the keys that are left out"
is "$(result 'p["partitions"][1]["state"]' ListPartitions)" UP "Reconfigure takes a partition's state"
sed -i 's/State=UP$/State=UQ/' "$tmpdir/slurm.conf"
like "$(error_of Reconfigure)" '^Invalid: .*slurm\.conf:10: ' "a bad configuration is refused with its line"
kill -HUP "$pid"
eventually grep -q "stays as it was" "$tmpdir/jobd.log"
like "$(grep "stays as it was" "$tmpdir/jobd.log")" 'slurm\.conf:10: ' "SIGHUP with a bad configuration is logged, and jobd goes on"
"$jobd" --check-conf --conf "$tmpdir/slurm.conf" >"$tmpdir/check" 2>&1
is $? 1 "--check-conf fails for a bad configuration"
is "$(wc -l <"$tmpdir/check")" 1 "--check-conf has one sentence for a bad configuration"
like "$(cat "$tmpdir/check")" '^jobd: .*slurm\.conf:10: ' "--check-conf names file and line"
sed -i 's/State=UQ/State=UP/' "$tmpdir/slurm.conf"
like "$("$jobd" --check-conf --conf "$tmpdir/slurm.conf")" '4 nodes, 2 partitions' "--check-conf counts what a good one has"
{
	printf 'PreemptType=preempt/partition_prio\nPreemptMode=SUSPEND,GANG\nSelectTypeParameters=CR_Core\n'
	grep -v '^Select' "$tmpdir/slurm.conf"
} >"$tmpdir/swaps.conf"
like "$("$jobd" --check-conf --conf "$tmpdir/swaps.conf")" \
	'warning: .*swaps\.conf:2: PreemptMode=SUSPEND, but memory is not counted' \
	"--check-conf warns of suspended jobs whose memory is not counted"

# ---- after a restart ---------------------------------------------------------------------------

documents() {
	result 'sorted((j["job_id"], j["job_state"], j["user_id"], j.get("nodes", ""), j.get("array_task_id", -1)) for j in p["jobs"])' ListJobs
}
last=$(submit '{"ntasks": 1, "env": ["A=b"], "comment": "last"}')
eventually state_is "$last" RUNNING
documents >"$tmpdir/before"
stop_jobd KILL
sed -i s/MaxJobCount=40/MaxJobCount=10000/ "$tmpdir/slurm.conf" # for those of the rounds below
sed -i 's/^PartitionName=night.*/& GraceTime=5/' "$tmpdir/slurm.conf"
printf 'PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n' >>"$tmpdir/slurm.conf"
start_jobd
like "$(cat "$tmpdir/jobd.log")" 'partition night: GraceTime has no effect with PreemptMode=REQUEUE' \
	"a grace time that has no effect is reported when jobd starts"
is "$(documents)" "$(cat "$tmpdir/before")" "all jobs are there after a kill -9"
is "$(result '[n["reason"] for n in p["nodes"] if "DRAIN" in n["state_flags"]]' ListNodes)" '["disk"]' \
	"a drained node is after a kill -9"
is "$(result 'p["reservations"][0]["name"]' ListReservations)" upkeep "a reservation exists after a kill -9"
is "$(result 'p["jobs"][0]["request"]["env"]' ListJobs "{\"job\": \"$last\", \"details\": true}")" '["A=b"]' \
	"a job's request exists after a kill -9"
next=$(submit '{"hold": true}')
lost=$(submit '{"partition": "night", "hold": true}')
ok "job ids go on after a kill -9" test "$next" -gt "$last"
is "$(error_of Cancel "{\"job\": \"$last\"}")" "no error: " "a job of before is cancelled"
eventually state_is "$last" CANCELLED

# Submissions under way: what was answered is there.
i=0
while [ $i -lt "$(rounds 3 30)" ]; do
	(while id=$(submit '{"script": "#!/bin/sh\n", "argv": ["0"], "work_dir": "/tmp"}' 2>/dev/null) && [ -n "$id" ]; do
		echo "$id"
		result 'p' Cancel "{\"job\": \"$id\"}" >/dev/null 2>&1
	done) >"$tmpdir/accepted" 2>/dev/null &
	client=$!
	eventually test -s "$tmpdir/accepted"
	stop_jobd KILL
	wait "$client"
	start_jobd
	missing=
	while read -r id; do
		[ "$(show "$id" 'j["job_id"]' 2>/dev/null)" = "$id" ] || missing="$missing $id"
	done <"$tmpdir/accepted"
	is "$missing" "" "no job that was accepted is lost by a kill -9 (round $i)"
	i=$((i + 1))
done

# Without its partition a job that waits keeps jobd from starting; one that has ended is forgotten.
stop_jobd TERM
sed -i.before /=night/d "$tmpdir/slurm.conf"
"$jobd" --conf "$tmpdir/slurm.conf" --state "$state" --socket "$at" --plugin-dir "$plugins" 2>"$tmpdir/second"
is $? 1 "jobd does not start where a waiting job has lost its partition"
like "$(cat "$tmpdir/second")" "can't be restored \(start with the old configuration, and cancel it\): job $lost: " \
	"the job and what to do are named"
cp "$tmpdir/slurm.conf.before" "$tmpdir/slurm.conf"
start_jobd
is "$(error_of Cancel "{\"job\": \"$lost\"}")" "no error: " "a job that lost its partition can be cancelled with the old configuration"
stop_jobd TERM
sed -i /=night/d "$tmpdir/slurm.conf"
start_jobd
like "$(cat "$tmpdir/jobd.log")" "a job that has ended is forgotten: job $lost: " "an ended job that has lost its partition is forgotten"
is "$(error_of ListJobs "{\"job\": \"$lost\"}" | cut -d: -f1)" NoSuchJob "it is not listed"
stop_jobd TERM
is "$status" 0 "jobd ends with SIGTERM"
start_jobd
fails "it is forgotten once" grep -q forgotten "$tmpdir/jobd.log"
stop_jobd TERM
fails "a jobd that has ended leaves no socket" test -e "$at"

# ---- this machine ------------------------------------------------------------------------------

"$jobd" --here --state "$tmpdir/here" --socket "$tmpdir/here.d/socket" --plugin-dir "$plugins" \
	>"$tmpdir/here.out" 2>"$tmpdir/jobd.log" &
pid=$!
at=$tmpdir/here.d/socket
eventually grep -q "stops jobd" "$tmpdir/here.out" || diag "$(cat "$tmpdir/jobd.log")"
host=$(hostname)
like "$(cat "$tmpdir/here.out")" "^This machine is a queue: node ${host%%.*}, $(nproc) CPUs" \
	"--here makes a node of this machine"
is "$(grep -c "^  JOBD_SOCKET=$at .*jobctl" "$tmpdir/here.out")" 3 "--here prints three commands to try"
is "$(result 'p["nodes"][0]["cpus"]' ListNodes)" "$(nproc)" "the machine's node has its CPUs"
id=$(submit '{}')
is "$(result 'p["job"]["partition"]' Wait "{\"job\": \"$id\", \"until\": \"started\"}")" main \
	"a job runs in the partition of --here"
stop_jobd INT
is "$status" 0 "^C ends jobd"

# ---- the command line --------------------------------------------------------------------------

usage() { # ARG...
	"$jobd" "$@" 2>&1 | head -n 1
}
like "$(usage)" "name a configuration with --conf" "jobd needs a configuration"
like "$(usage --conf a --here)" "exclude each other" "--conf and --here exclude each other"
like "$(usage --cnf a)" "did you mean --conf" "a misspelt option is named"
like "$(usage --conf "$tmpdir/none")" "$tmpdir/none" "a configuration that does not exist is named"
like "$(usage --conf "$tmpdir/slurm.conf" --state "$tmpdir/no/such")" "$tmpdir/no" "a state directory without a parent is named"
is "$("$jobd" --help | head -n 1)" "Usage: jobd --conf FILE [OPTION...]" "--help shows how it is used"
done_testing
