#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Under systemd: a step in a scope of its own, without D-Bus, and beside a node daemon that is
# restarted.
. "${top_srcdir:?}/tests/lib/step.sh"

node=$(uname -n)
cg=/sys/fs/cgroup
# Of a user: each has a runtime directory.
mkdir "$tmpdir/run-stepper"
chown stepper "$tmpdir/run-stepper"

# A running step of two tasks with a daemon each; $agent is its agent.
start() {
	"$stepd" run --job "$job" --proctrack cgroup --result "$tmpdir/r" -n 2 -- \
		sh -c 'setsid sleep 99 & exec sleep 99' 2>"$tmpdir/err" &
	agent=$!
	eventually listed 4
}
listed() { # COUNT
	[ "$("$stepctl" pids "$job.0" | wc -l)" = "$1" ]
}
scopes() {
	systemctl list-units --all --plain --no-legend "stepd-${node}_$job.*.scope" | awk '{ print $1 }'
	find $cg -name "stepd-${node}_$job.*.scope"
}
no_scope() {
	[ -z "$(scopes)" ]
}
gone() { # NAME
	ok "$1: systemd removes the scope" eventually no_scope
	nothing_left "$1: the job leaves no cgroup, process or file behind"
}
stop() { # NAME
	kill -TERM "$agent"
	wait "$agent"
	is $? 143 "$1: the step ends by SIGTERM to its agent"
}

# ---- made, and gone ----------------------------------------------------------------------------

eventually no_scope # of the question for $tracker
like "$("$stepd" plugins 2>&1)" "cgroup v2 at $cg, each step in a scope that the system's systemd makes" \
	"stepd plugins reports that a step gets a scope"
is "$(scopes)" "" "stepd plugins makes no scope"

start
unit=stepd-${node}_$job.0-$agent.scope
slice=/stepd.slice/$unit
like "$(sed -n 's/^0:://p' "/proc/$agent/cgroup")" "^$slice(/stepd-agents)?\$" "the agent is in the scope"
is "$(for pid in $("$stepctl" pids "$job.0"); do sed -n 's/^0:://p' "/proc/$pid/cgroup"; done | sort -u)" \
	"$slice/stepd/job_$job/step_0/task_0
$slice/stepd/job_$job/step_0/task_1" "tasks and their daemons are in their cgroups below the scope"
pid=$("$stepctl" pids "$job.0" | head -n 1)
like "$("$stepctl" find "$pid")" "^$pid step $job.0 " "stepctl find knows the tasks of a scope"
show=$(systemctl show "$unit" -p Delegate -p Slice -p TasksMax -p CollectMode -p Description)
for line in Delegate=yes Slice=stepd.slice TasksMax=infinity CollectMode=inactive-or-failed \
	"Description=stepd: step $job.0 of root on $node"; do
	like "$show" "^$line\$" "the scope has $line"
done
unlike "$(cat "/proc/$agent/maps")" libsystemd "the agent unloads libsystemd"
is "$(cat "$tmpdir/err")" "" "a step in a scope gives no warning"

members() {
	for pid in $("$stepctl" pids "$job.0"); do
		echo "$pid $(grep ^0:: "/proc/$pid/cgroup")"
	done
}
before=$(members)
systemctl daemon-reload
systemctl daemon-reexec
is "$(members)" "$before" "a daemon-reload and a daemon-reexec move no process"
stop "a step in a scope"
gone "a step in a scope"

out=$(LD_DEBUG=files step -- true 2>&1)
like "$out" "libsystemd" "a step with a scope loads libsystemd"
out=$(LD_DEBUG=files step --scope no -- grep ^0:: /proc/self/cgroup 2>&1)
unlike "$out" "libsystemd" "a step with --scope no does not load libsystemd"
like "$out" "^0::/stepd/job_$job/step_0/task_0" "a step with --scope no is below the top cgroup"
step --scope yes -- sh -c '"$0" run --job "$1" --step 1 -- grep ^0:: /proc/self/cgroup' "$stepd" "$job" \
	>"$tmpdir/out" 2>&1
like "$(cat "$tmpdir/out")" "^0::/stepd/job_$job/step_1/task_0" "a step within a step gets no scope"
gone "other steps"

# ---- controllers: the agent in a leaf ----------------------------------------------------------

start
slice=/stepd.slice/stepd-${node}_$job.0-$agent.scope
if grep -q memory $cg/cgroup.controllers; then
	is "$(sed -n 's/^0:://p' "/proc/$agent/cgroup")" "$slice/stepd-agents" "the agent of a step with controllers is in a leaf"
	like "$(cat "$cg$slice/cgroup.subtree_control")" memory "the scope of a step with controllers delegates them"
	like "$(ls "$cg$slice/stepd/job_$job/step_0")" "^memory.current\$" "the step in a scope has the controllers"
else
	skip 3 "no controllers here"
fi
stop "the step in a scope with its controllers"
gone "the step in a scope with its controllers"

# ---- the agent is killed -----------------------------------------------------------------------

start
unit=stepd-${node}_$job.0-$agent.scope
kill -9 $agent
wait $agent 2>/dev/null
is "$("$stepctl" pids "$job.0" | wc -l)" 4 "the tasks of a killed agent in a scope live"
is "$(systemctl is-active "$unit")" active "the scope of a killed agent stays active"
out=$("$stepd" run --job "$job" --proctrack cgroup -- true 2>&1)
is $? 125 "the step of a killed agent is not started again beside its tasks"
like "$out" "step $job.0 has processes that an agent left behind" "the refusal names the processes left behind"
is "$("$stepctl" pids "$job.0" | wc -l)" 4 "the tasks of a killed agent in a scope are listed"
systemctl kill --signal=KILL "$unit"
eventually no_scope
is "$(step -- echo again 2>&1)" again "the step starts again once its tasks and the scope have ended"
gone "the agent and then the tasks killed"

# ---- a user ------------------------------------------------------------------------------------

uid=$(id -u stepper)
as_stepper() {
	STEPD_RUNTIME_DIR=$tmpdir/run-stepper XDG_RUNTIME_DIR=/run/user/$uid timeout 60 \
		setpriv --reuid="$uid" --regid="$uid" --clear-groups "$@"
}
systemctl start "user@$uid.service"
manager=/user.slice/user-$uid.slice/user@$uid.service
like "$(as_stepper "$stepd" plugins 2>&1)" "each step in a scope that the user's own systemd makes" \
	"a user's steps get scopes of the user's own systemd"
out=$(as_stepper "$stepd" run --job "$job" -n 2 -- grep ^0:: /proc/self/cgroup 2>&1 | sort)
like "$out" "^0::$manager/stepd.slice/stepd-${node}_$job.0-[0-9]*.scope/stepd/job_$job/step_0/task_1\$" \
	"a user's steps are below the user's systemd, though the user came from outside"
gone "the user's"
out=$(as_stepper systemd-run --user --quiet --wait --pipe --collect --setenv=STEPD_RUNTIME_DIR="$tmpdir/run-stepper" \
	"$stepd" run --job "$job" -- grep ^0:: /proc/self/cgroup 2>&1)
like "$out" "^0::$manager/stepd.slice/stepd-${node}_$job.0-[0-9]*.scope/stepd/job_$job/step_0/task_0\$" \
	"a user's steps get scopes from a unit that is not delegated"
gone "the unit's"
systemctl stop "user@$uid.service"
out=$(as_stepper "$stepd" run --job "$job" -- true 2>&1)
like "$out" "linuxproc.*no scope of systemd can be had.*(D-Bus socket '/run/user/$uid/bus'|connect to D-Bus .the user's.)" \
	"a user's step without a systemd uses linuxproc, and reports why"

# ---- D-Bus that is not there, or does not answer -----------------------------------------------

# Both at once: each may wait for systemd as long as a step does.
refused() { # NAME REASON
	step --step 1 --scope yes -- true >"$tmpdir/insists" 2>&1 &
	insists=$!
	out=$(step -- grep ^0:: /proc/self/cgroup 2>&1)
	is $? 0 "$1: a step that does not require a scope runs"
	like "$out" "^0::/stepd/job_$job/step_0/task_0" "$1: the step is below the top cgroup"
	like "$out" "warning: no scope of systemd can be had for the step: .*$2.*, ignoring\$" "$1: a warning reports that there is no scope"
	is "$(echo "$out" | grep -c warning)" 1 "$1: the warning is given once"
	wait $insists
	is $? 125 "$1: --scope yes is refused"
	like "$(cat "$tmpdir/insists")" "no scope of systemd can be had for the step: .*$2" "$1: the refusal of --scope yes has the reason"
	nothing_left "$1: a step without a scope leaves no cgroup, process or file behind"
}
DBUS_SYSTEM_BUS_ADDRESS=unix:path=$tmpdir/none
export DBUS_SYSTEM_BUS_ADDRESS
refused "a bus that is not there" "connect to D-Bus"
# Somebody listens and never accepts.
DBUS_SYSTEM_BUS_ADDRESS=unix:path=/run/bed-silent
systemd-run --quiet --unit="bed-silent" --socket-property=ListenStream=/run/bed-silent \
	--socket-property=Accept=no sleep 99
systemctl stop bed-silent.service 2>/dev/null
begin=$(date +%s)
refused "a bus that does not answer" "did not answer within 30000 ms"
took=$(($(date +%s) - begin))
ok "a bus that does not answer: they waited for it ($took s)" test $took -ge 30
systemctl stop bed-silent.socket bed-silent.service 2>/dev/null
unset DBUS_SYSTEM_BUS_ADDRESS

# The bus stands still, as on a node that boots, for longer than is usual, and goes on.
bus=$(systemctl show -P MainPID dbus.service)
kill -STOP "$bus"
step --scope yes -- grep ^0:: /proc/self/cgroup >"$tmpdir/out" 2>&1 &
late=$!
sleep 6 # what "unusual" means is a time
kill -CONT "$bus"
wait $late
is $? 0 "a step runs though the bus answers late"
like "$(cat "$tmpdir/out")" "^0::/stepd.slice/" "a step is in its scope though the bus answers late"
like "$(cat "$tmpdir/out")" "warning: systemd took [0-9]+ ms to start the step's scope .*, ignoring\$" \
	"a bus that answers late is a warning"
gone "a bus that answers late"

systemctl stop dbus.socket dbus.service 2>/dev/null
refused "D-Bus stopped" "D-Bus"
systemctl start dbus.socket
out=$(step --scope yes -- true 2>&1)
is "$? $out" "0 " "a step gets a scope once D-Bus is back"
gone "D-Bus again"

# ---- a node daemon is restarted ----------------------------------------------------------------

# It starts one step when it is first started, and is there.
cat >"$tmpdir/daemon" <<'E'
#!/bin/sh
if mkdir "$1.started" 2>/dev/null; then
	"$stepd" serve --spec "$1.json" --result "$1.result" 2>"$1.err" &
fi
exec sleep infinity
E
chmod 755 "$tmpdir/daemon"
daemon() { # NAME SCOPE PROPERTY...
	name=$1
	cat >"$tmpdir/$name.json" <<E
{"version": 1, "job": $job, "step": 0, "ntasks": 2, "scope": "$2", "proctrack": "cgroup",
 "argv": ["/bin/sleep", "99"], "env": {"STEPD_TEST_JOB": "$job"}}
E
	shift 2
	properties=
	for property; do
		properties="$properties -p $property"
	done
	# shellcheck disable=SC2086 # words
	systemd-run --quiet --unit="bed-$job" $properties --setenv=STEPD_RUNTIME_DIR \
		--setenv=stepd="$stepd" "$tmpdir/daemon" "$tmpdir/$name"
	eventually listed 2
	agent=$("$stepctl" list | awk -v step="$job.0" '$1 == step { print $6 }')
	before=$(members)
	first=$(systemctl show -P MainPID "bed-$job")
	systemctl restart "bed-$job"
	isnt "$(systemctl show -P MainPID "bed-$job")" "$first" "$name: the daemon was restarted"
	is "$(systemctl is-active "bed-$job")" active "$name: the restarted daemon is active"
}
survives() {
	is "$(members)" "$before" "$name: the step's processes stay where they were"
	ok "$name: the agent lives on" kill -0 "$agent"
	kill -TERM "$agent"
	eventually test -s "$tmpdir/$name.result"
	like "$(cat "$tmpdir/$name.result")" '"reason": "signal"' "$name: the step has its result"
	eventually no_scope
	systemctl stop "bed-$job"
	systemctl reset-failed "bed-$job" 2>/dev/null
	nothing_left "$name: the job leaves no cgroup, process or file behind"
}
daemon "daemon-scope" auto
like "$before" "/stepd.slice/stepd-${node}_$job.0-$agent.scope/" "the steps of a daemon in a plain unit are in scopes"
survives
daemon "daemon-yes" yes Delegate=yes
like "$before" "/stepd.slice/stepd-${node}_$job.0-$agent.scope/" "the steps of a daemon in a delegated unit with scope yes are in scopes"
survives
daemon "daemon-delegate" auto Delegate=yes KillMode=process
like "$before" "/system.slice/bed-$job.service/stepd/job_$job/" "the steps of a daemon in a delegated unit are below it"
survives
daemon "daemon-killed" auto Delegate=yes
is "$(members)" "" "the steps of a daemon without KillMode=process end with it"
systemctl stop "bed-$job"
rm -rf "${run:?}"/*
nothing_left "steps that end with their daemon leave no cgroup, process or file behind"
done_testing
