#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# libstepd against real agents: each of its functions, and its errors when an agent is stopped,
# killed, or has ended.
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

probe() {
	timeout 300 "${top_builddir:?}/tests/lib/clientprobe" "$@"
}

cat >"$tmpdir/task" <<'END'
#!/bin/sh
trap 'echo usr1 >>"$1/usr1.$SLURM_PROCID"' USR1
echo "$$" >"$1/task.$SLURM_STEP_ID.$SLURM_PROCID.new"
mv "$1/task.$SLURM_STEP_ID.$SLURM_PROCID.new" "$1/task.$SLURM_STEP_ID.$SLURM_PROCID"
while [ -d "$1" ]; do
	sleep 0.1
done
END
chmod 755 "$tmpdir/task"
begin() { # STEP
	step -n 2 --step "$1" -- "$tmpdir/task" "$tmpdir" 2>"$tmpdir/err.$1" &
	agent=$!
	started=$1
}
all_run() {
	running "$started" && [ -f "$tmpdir/task.$started.0" ] && [ -f "$tmpdir/task.$started.1" ]
}
agent_of() { # STEP
	sed 's/.*"agent_pid":\([0-9]*\).*/\1/' "$run"/*_"$job.$1"/state.json
}

# ---- queries -----------------------------------------------------------------------------------
begin 0
first=$agent
ok "a step runs" eventually all_run
like "$(probe "$job.0" describe)" "\"step\":\"$job\.0\".*\"state\":\"running\"" "describe: the step and its state"
like "$(probe "$job" usage)" '"tasks":\[\{.*"rank":1' "usage: each task, by the beginning of the step's name"
pid=$(cat "$tmpdir/task.0.1")
like "$(probe "$job.0" pids)" "^$pid 1 -\$" "list_pids: each process"
like "$(probe "$job.0" pids:1:ticks)" "^$pid 1 since\$" "list_pids: the processes of one rank, with their start times"
unlike "$(probe "$job.0" pids:1)" ' 0 ' "list_pids: no process of another rank"
is "$(probe "$job.0" "find:$pid")" "$pid 1 since" "find_pids: one pid of the step among twenty thousand"
is "$(probe "$job.0" find:1)" "" "find_pids: not a pid of another process"
is "$(probe "$job.0" tasks)" "0 0 running pid -1
1 1 running pid -1" "list_tasks: each task"
name=$(basename "$run"/*_"$job.0" | sed 's/_\([^_]*\)$/\/\1/')
is "$(probe "$job.0" pids:5)" \
	"ESRCH step $name: ListPids: NoSuchTask: the step has no task of rank 5 on this node (ListTasks has those it has)" \
	"list_pids: the error of a rank that does not exist"

# ---- actions -----------------------------------------------------------------------------------
is "$(probe "$job.0" signal:USR1:1)" "" "signal: one rank"
ok "signal: the rank gets it" eventually test -s "$tmpdir/usr1.1"
is "$(ls "$tmpdir"/usr1.0 2>/dev/null)" "" "signal: no other rank gets it"
is "$(probe "$job.0" "signal-pid:USR1:$(cat "$tmpdir/task.0.0")")" "" "signal: one pid"
ok "signal: the process gets it" eventually test -s "$tmpdir/usr1.0"
like "$(probe "$job.0" signal-pid:KILL:1)" '^ESRCH .*: Signal: NoSuchProcess: ' "signal: a pid of another process is refused"
like "$(probe "$job.0" signal-pid:KILL:-1)" '^EINVAL .*: -1 is no pid of one process' "signal: -1 is refused"
like "$(probe "$job.0" signal:NONE)" '^EINVAL .*signal' "signal: an unknown name is refused"
is "$(probe "$job.0" suspend describe | sed 's/.*"state":"\([a-z]*\)".*/\1/')" suspended "suspend: the step is suspended"
is "$(probe "$job.0" resume describe | sed 's/.*"state":"\([a-z]*\)".*/\1/')" running "resume: the step runs"
is "$(probe "$job.0" "notify:hello from outside")" "" "notify: a line for the step's stderr"
ok "notify: the line is in the step's stderr" eventually grep -q 'hello from outside' "$tmpdir/err.0"
setsid sleep 600 </dev/null >/dev/null 2>&1 &
added=$!
at_exit "kill $added 2>/dev/null"
is "$(probe "$job.0" "add:$added")" "" "add_pid: a process is added"
like "$(probe "$job.0" pids)" "^$added " "add_pid: the process is listed"
if [ "$tracker" = cgroup ]; then
	like "$(probe "$job.0" limits:pids_max=500)" '^-$|pids' "set_limits: limits are set, or there are warnings"
else
	like "$(probe "$job.0" limits:pids_max=500)" 'NotSupported|pids|^-$' "set_limits: not supported by this tracker"
fi

# ---- an agent that is stopped ------------------------------------------------------------------
kill -STOP "$(agent_of 0)"
out=$(probe "$job.0" timeout:300 describe describe)
kill -CONT "$(agent_of 0)"
like "$out" '^ETIMEDOUT .*: Describe: no answer in 300 ms' "a stopped agent blocks no call longer than its timeout"
like "$out" '^ECONNRESET .*connect again' "a late reply makes the connection unusable"

# ---- the end -----------------------------------------------------------------------------------
probe "$job.0" events:1 >"$tmpdir/events" &
follower=$!
is "$(probe "$job.0" wait:20 terminate:KILL | sed 's/ .*//')" "ETIMEDOUT
EINVAL" "wait: no other call can be made on the connection"
probe "$job.0" wait:0 wait:60000 >"$tmpdir/wait" &
waiter=$!
ok "wait: -EAGAIN before the end of the step" eventually grep -q '^EAGAIN ' "$tmpdir/wait"
follows() { # REGEX
	grep -Eq "$1" "$tmpdir/events"
}
ok "follow: past events come first" eventually follows ' state running '
is "$(probe "$job.0" reexec tasks:1)" "$("$stepd" --version | grep -oE '[0-9]+\.[0-9.]+')
1 1 running pid -1" "reexec: the agent executes its program, and the connection stays"
ok "follow: the reexec is an event" eventually follows ' reexec '
is "$(probe "$job.0" terminate:KILL)" "" "terminate: the end begins"
wait "$waiter"
like "$(cat "$tmpdir/wait")" '"exit_code":137' "wait: the result of the step"
wait "$follower"
is $? 0 "follow: 0 at the end of the step"
like "$(cat "$tmpdir/events")" '^[0-9]+ task_exit - 1 137$' "follow: the exit of a task is an event"
like "$(cat "$tmpdir/events")" '^[0-9]+ suspend ' "follow: an action is an event"
is "$(cut -d' ' -f1 "$tmpdir/events")" "$(seq 1 "$(wc -l <"$tmpdir/events")")" "follow: events are numbered without a gap"
wait "$first"
like "$(probe "$job.0")" "^ENOENT there is no step '$job\.0' on this node" "connect: the error of a step that has ended"

# ---- an agent that is killed -------------------------------------------------------------------
begin 1
second=$agent
ok "a second step runs" eventually all_run
: >"$tmpdir/events" # the follower empties it some time: until then it shows the first step's events
probe "$job.1" events:1 >"$tmpdir/events" &
follower=$!
ok "the second step is followed" eventually follows ' state running '
kill -9 "$(agent_of 1)"
wait "$second" 2>/dev/null
wait "$follower"
is $? 1 "a client that follows the events of a killed agent ends with an error"
like "$(cat "$tmpdir/events")" '^ECONNRESET' "follow: ECONNRESET at once when the agent is killed"
begun=$(date +%s)
like "$(probe "$job.1")" "^ECONNREFUSED step [^ ]*/$job\.1: its agent is gone; 'stepd adopt " \
	"connect: the error of a killed agent names the remedy"
ok "connect: a killed agent is found without a timeout" test "$(($(date +%s) - begun))" -lt 10
# ---- and another in its place ------------------------------------------------------------------
last=$(sed -n 's/^\([0-9][0-9]*\) .*/\1/p' "$tmpdir/events" | tail -n 1)
timeout 300 "$stepd" adopt "$job.1" 2>"$tmpdir/err.adopt" &
second=$!
adopted() {
	probe "$job.1" describe | grep -q '"adopted":true'
}
ok "another agent takes the step over" eventually adopted
probe "$job.1" "events:$((last + 1))" >"$tmpdir/more" &
follower=$!
is "$(probe "$job.1" tasks | cut -d' ' -f1-3)" "0 0 running
1 1 running" "list_tasks: the tasks of an adopted step run"
is "$(probe "$job.1" terminate:KILL)" "" "terminate: an adopted step is ended"
wait "$follower"
is $? 0 "follow: 0 at the end of an adopted step"
is "$(sed 's/ .*//' "$tmpdir/more")" "$(seq $((last + 1)) $((last + $(wc -l <"$tmpdir/more"))))" \
	"follow: events go on behind the last one of the dead agent"
like "$(cat "$tmpdir/more")" '^[0-9]+ adopt ' "follow: the adoption is an event"
wait "$second"
nothing_left "nothing is left"
done_testing
