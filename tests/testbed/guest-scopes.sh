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
	nothing_left "$1: nothing is left"
}
stop() { # NAME
	kill -TERM "$agent"
	wait "$agent"
	is $? 143 "$1: the step ends when it is told to"
}

# ---- made, and gone ----------------------------------------------------------------------------

eventually no_scope # of the question for $tracker
like "$("$stepd" plugins 2>&1)" "cgroup v2 at $cg, each step in a scope that the system's systemd is asked for" \
	"stepd plugins says that a step gets a scope"
is "$(scopes)" "" "and makes none"

start
unit=stepd-${node}_$job.0-$agent.scope
slice=/stepd.slice/$unit
like "$(sed -n 's/^0:://p' "/proc/$agent/cgroup")" "^$slice(/stepd-agents)?\$" "the agent is in the scope"
is "$(for pid in $("$stepctl" pids "$job.0"); do sed -n 's/^0:://p' "/proc/$pid/cgroup"; done | sort -u)" \
	"$slice/stepd/job_$job/step_0/task_0
$slice/stepd/job_$job/step_0/task_1" "the tasks, and their daemons, in their groups below"
pid=$("$stepctl" pids "$job.0" | head -n 1)
like "$("$stepctl" find "$pid")" "^$pid step $job.0 " "another process finds whose they are"
show=$(systemctl show "$unit" -p Delegate -p Slice -p TasksMax -p CollectMode -p Description)
for line in Delegate=yes Slice=stepd.slice TasksMax=infinity CollectMode=inactive-or-failed \
	"Description=stepd: step $job.0 of root on $node"; do
	like "$show" "^$line\$" "the scope has $line"
done
unlike "$(cat "/proc/$agent/maps")" libsystemd "libsystemd is not kept"
is "$(cat "$tmpdir/err")" "" "nobody is warned"

members() {
	for pid in $("$stepctl" pids "$job.0"); do
		echo "$pid $(grep ^0:: "/proc/$pid/cgroup")"
	done
}
before=$(members)
systemctl daemon-reload
systemctl daemon-reexec
is "$(members)" "$before" "after a daemon-reload and a daemon-reexec all is where it was"
stop "a step in a scope"
gone "a step in a scope"

out=$(LD_DEBUG=files step -- true 2>&1)
like "$out" "libsystemd" "to ask for a scope libsystemd is loaded"
out=$(LD_DEBUG=files step --scope no -- grep ^0:: /proc/self/cgroup 2>&1)
unlike "$out" "libsystemd" "with --scope no it is not"
like "$out" "^0::/stepd/job_$job/step_0/task_0" "and the step hangs at the top"
step --scope yes -- sh -c '"$0" run --job "$1" --step 1 -- grep ^0:: /proc/self/cgroup' "$stepd" "$job" \
	>"$tmpdir/out" 2>&1
like "$(cat "$tmpdir/out")" "^0::/stepd/job_$job/step_1/task_0" "a step within a step asks for none"
gone "other steps"

# ---- controllers: the agent in a leaf ----------------------------------------------------------

start
slice=/stepd.slice/stepd-${node}_$job.0-$agent.scope
if grep -q memory $cg/cgroup.controllers; then
	is "$(sed -n 's/^0:://p' "/proc/$agent/cgroup")" "$slice/stepd-agents" "with controllers the agent is in a leaf"
	like "$(cat "$cg$slice/cgroup.subtree_control")" memory "and the scope hands them down"
	like "$(ls "$cg$slice/stepd/job_$job/step_0")" "^memory.current\$" "to the step"
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
is "$("$stepctl" pids "$job.0" | wc -l)" 4 "the agent killed: its tasks live"
is "$(systemctl is-active "$unit")" active "and so does the scope"
out=$("$stepd" run --job "$job" --proctrack cgroup -- true 2>&1)
is $? 125 "the step is not started again beside them"
like "$out" "step $job.0 has processes that an agent left behind" "which is said"
is "$("$stepctl" pids "$job.0" | wc -l)" 4 "they can still be listed"
systemctl kill --signal=KILL "$unit"
eventually no_scope
is "$(step -- echo again 2>&1)" again "once they have ended, and the scope with them, it is"
gone "the agent and then the tasks killed"

# ---- a user ------------------------------------------------------------------------------------

uid=$(id -u stepper)
as_stepper() {
	STEPD_RUNTIME_DIR=$tmpdir/run-stepper XDG_RUNTIME_DIR=/run/user/$uid timeout 60 \
		setpriv --reuid="$uid" --regid="$uid" --clear-groups "$@"
}
systemctl start "user@$uid.service"
manager=/user.slice/user-$uid.slice/user@$uid.service
like "$(as_stepper "$stepd" plugins 2>&1)" "each step in a scope that the user's own systemd is asked for" \
	"a user's steps get scopes of the user's own systemd"
out=$(as_stepper "$stepd" run --job "$job" -n 2 -- grep ^0:: /proc/self/cgroup 2>&1 | sort)
like "$out" "^0::$manager/stepd.slice/stepd-${node}_$job.0-[0-9]*.scope/stepd/job_$job/step_0/task_1\$" \
	"they hang below it, though the user came from outside"
gone "the user's"
out=$(as_stepper systemd-run --user --quiet --wait --pipe --collect --setenv=STEPD_RUNTIME_DIR="$tmpdir/run-stepper" \
	"$stepd" run --job "$job" -- grep ^0:: /proc/self/cgroup 2>&1)
like "$out" "^0::$manager/stepd.slice/stepd-${node}_$job.0-[0-9]*.scope/stepd/job_$job/step_0/task_0\$" \
	"also from a unit of the user's that is not delegated"
gone "the unit's"
systemctl stop "user@$uid.service"
out=$(as_stepper "$stepd" run --job "$job" -- true 2>&1)
like "$out" "linuxproc.*no scope of systemd can be had.*(D-Bus socket '/run/user/$uid/bus'|connect to D-Bus .the user's.)" \
	"without the user's systemd it is linuxproc, and said why"

# ---- D-Bus that is not there, or does not answer -----------------------------------------------

# Both at once: each may wait for systemd as long as a step does.
refused() { # NAME REASON
	step --step 1 --scope yes -- true >"$tmpdir/insists" 2>&1 &
	insists=$!
	out=$(step -- grep ^0:: /proc/self/cgroup 2>&1)
	is $? 0 "$1: a step runs that does not insist on a scope"
	like "$out" "^0::/stepd/job_$job/step_0/task_0" "$1: at the top"
	like "$out" "warning: no scope of systemd can be had for the step: .*$2.*, ignoring\$" "$1: with a warning"
	is "$(echo "$out" | grep -c warning)" 1 "$1: one"
	wait $insists
	is $? 125 "$1: who insists on a scope gets none"
	like "$(cat "$tmpdir/insists")" "no scope of systemd can be had for the step: .*$2" "$1: which is said"
	nothing_left "$1: nothing is left"
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
is $? 0 "a bus that answers late: the step runs"
like "$(cat "$tmpdir/out")" "^0::/stepd.slice/" "a bus that answers late: in its scope"
like "$(cat "$tmpdir/out")" "warning: systemd took [0-9]+ ms to start the step's scope .*, ignoring\$" \
	"a bus that answers late: with a warning"
gone "a bus that answers late"

systemctl stop dbus.socket dbus.service 2>/dev/null
refused "D-Bus stopped" "D-Bus"
systemctl start dbus.socket
out=$(step --scope yes -- true 2>&1)
is "$? $out" "0 " "with D-Bus again there are scopes again"
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
	is "$(systemctl is-active "bed-$job")" active "$name: and is there"
}
survives() {
	is "$(members)" "$before" "$name: the step goes on, all where it was"
	ok "$name: the agent too" kill -0 "$agent"
	kill -TERM "$agent"
	eventually test -s "$tmpdir/$name.result"
	like "$(cat "$tmpdir/$name.result")" '"reason": "signal"' "$name: and has its result"
	eventually no_scope
	systemctl stop "bed-$job"
	systemctl reset-failed "bed-$job" 2>/dev/null
	nothing_left "$name: nothing is left"
}
daemon "daemon-scope" auto
like "$before" "/stepd.slice/stepd-${node}_$job.0-$agent.scope/" "a daemon in a plain unit: its steps are in scopes"
survives
daemon "daemon-yes" yes Delegate=yes
like "$before" "/stepd.slice/stepd-${node}_$job.0-$agent.scope/" "in a delegated unit with scope yes, too"
survives
daemon "daemon-delegate" auto Delegate=yes KillMode=process
like "$before" "/system.slice/bed-$job.service/stepd/job_$job/" "in a delegated unit they are below it"
survives
daemon "daemon-killed" auto Delegate=yes
is "$(members)" "" "without KillMode=process they end with the daemon"
systemctl stop "bed-$job"
rm -rf "${run:?}"/*
nothing_left "and nothing is left"
done_testing
