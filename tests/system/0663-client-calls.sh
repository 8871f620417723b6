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
described() { # EXPRESSION PROBE-ARG...: of the last line, which Describe has printed
	described_expression=$1
	shift
	probe "$@" | tail -n 1 | json_get - "$described_expression"
}

# ---- queries -----------------------------------------------------------------------------------
begin 0
first=$agent
ok "a step runs for the client" eventually all_run
is "$(described '[step, state]' "$job.0" describe)" "[\"$job.0\", \"running\"]" \
	"describe has the step and its state"
is "$(described '[t["rank"] for t in tasks]' "$job" usage)" "[0, 1]" \
	"usage finds a step by the beginning of its name"
pid=$(cat "$tmpdir/task.0.1")
like "$(probe "$job.0" pids)" "^$pid 1 -\$" "pids has a task with its rank"
like "$(probe "$job.0" pids:1:ticks)" "^$pid 1 since\$" "pids of one rank has the processes with their start"
unlike "$(probe "$job.0" pids:1)" ' 0 ' "pids of one rank has no other rank's processes"
is "$(probe "$job.0" "find:$pid")" "$pid 1 since" "find finds one pid among twenty thousand"
is "$(probe "$job.0" find:1)" "" "find omits a pid that is not the step's"
name=$(basename "$run"/*_"$job.0" | sed 's/_\([^_]*\)$/\/\1/')
is "$(probe "$job.0" pids:5)" \
	"ESRCH step $name: ListPids: NoSuchTask: the step has no task of rank 5 on this node (ListTasks has those it has)" \
	"pids of a missing rank fails with the reason"

# ---- acting ------------------------------------------------------------------------------------
is "$(probe "$job.0" signal:USR1:1)" "" "a signal to one rank is accepted"
ok "a signal to one rank reaches it" eventually test -s "$tmpdir/usr1.1"
is "$(ls "$tmpdir"/usr1.0 2>/dev/null)" "" "a signal to one rank reaches no other"
is "$(probe "$job.0" "signal-pid:USR1:$(cat "$tmpdir/task.0.0")")" "" "a signal to one pid is accepted"
ok "a signal to one pid reaches it" eventually test -s "$tmpdir/usr1.0"
like "$(probe "$job.0" signal-pid:KILL:1)" '^ESRCH .*: Signal: NoSuchProcess: ' \
	"a signal to a pid of others fails"
like "$(probe "$job.0" signal-pid:KILL:-1)" '^EINVAL .*: -1 is not a pid of one process' "a signal to pid -1 fails"
like "$(probe "$job.0" signal:NONE)" '^EINVAL .*signal' "a signal by an unknown name fails"
is "$(described state "$job.0" suspend describe)" suspended "suspend suspends the step"
is "$(described state "$job.0" resume describe)" running "resume resumes the step"
is "$(probe "$job.0" "notify:hello from outside")" "" "notify is accepted"
ok "notify writes to the step's stderr" eventually grep -q 'hello from outside' "$tmpdir/err.0"
setsid sleep 600 </dev/null >/dev/null 2>&1 &
added=$!
is "$(probe "$job.0" "add:$added")" "" "add of a process is accepted"
like "$(probe "$job.0" pids)" "^$added " "an added process is a member of the step"

# ---- an agent that is stopped ------------------------------------------------------------------
kill -STOP "$(state_of 0 agent_pid)"
out=$(probe "$job.0" timeout:300 describe describe)
kill -CONT "$(state_of 0 agent_pid)"
like "$out" '^ETIMEDOUT .*: Describe: no reply within 300 ms' "a call to a stopped agent fails at its timeout"
like "$out" '^ECONNRESET .*connect again' \
	"the next call on that connection fails instead of reading the late reply"

# ---- the end -----------------------------------------------------------------------------------
probe "$job.0" events:1 >"$tmpdir/events" &
follower=$!
is "$(probe "$job.0" wait:20 terminate:KILL | sed 's/ .*//')" "ETIMEDOUT
EINVAL" "a call on a connection that waits is refused"
probe "$job.0" wait:0 wait:60000 >"$tmpdir/wait" &
waiter=$!
ok "wait without a timeout returns EAGAIN while the step runs" eventually grep -q '^EAGAIN ' "$tmpdir/wait"
follows() { # REGEX
	grep -Eq "$1" "$tmpdir/events"
}
ok "a follower gets earlier events" eventually follows ' state running '
probe "$job.0" reexec describe >"$tmpdir/upgraded"
is "$(head -n 1 "$tmpdir/upgraded")" "$("$stepd" --version | grep -oE '[0-9]+\.[0-9.]+')" "the agent is upgraded"
is "$(tail -n 1 "$tmpdir/upgraded" | json_get - running_tasks)" 2 \
	"the connection of the request for the upgrade stays open"
ok "a follower gets the event of the upgrade" eventually follows ' reexec '
is "$(probe "$job.0" terminate:KILL)" "" "terminate is accepted"
wait "$waiter"
is "$(tail -n 1 "$tmpdir/wait" | json_get - '[t["exit_code"] for t in d.get("result", d)["tasks"]]')" "[137, 137]" \
	"wait returns the result of a killed step"
wait "$follower"
is $? 0 "events end with the step"
like "$(cat "$tmpdir/events")" '^[0-9]+ task_exit - 1 137$' "events have the end of a task"
like "$(cat "$tmpdir/events")" '^[0-9]+ suspend ' "events have the suspension"
is "$(cut -d' ' -f1 "$tmpdir/events")" "$(seq 1 "$(wc -l <"$tmpdir/events")")" \
	"events are numbered from 1 without a gap"
wait "$first"
like "$(probe "$job.0")" "^ENOENT there is no step '$job\.0' on this node" \
	"a call to a step that has ended fails with ENOENT"

# ---- an agent that is killed -------------------------------------------------------------------
begin 1
second=$agent
ok "a second step runs for the client" eventually all_run
: >"$tmpdir/events" # the follower empties it some time: until then it shows the first step's events
probe "$job.1" events:1 >"$tmpdir/events" &
follower=$!
ok "the second step is followed" eventually follows ' state running '
kill -9 "$(state_of 1 agent_pid)"
wait "$second" 2>/dev/null
wait "$follower"
is $? 1 "a client that follows the events of a killed agent ends with an error"
like "$(cat "$tmpdir/events")" '^ECONNRESET' \
	"a client that follows the events gets ECONNRESET from a killed agent"
like "$(probe "$job.1")" "^ECONNREFUSED step [^ ]*/$job\.1: its agent is gone; 'stepd adopt " \
	"a call to a killed agent fails with the remedy"
# ---- and another in its place ------------------------------------------------------------------
last=$(sed -n 's/^\([0-9][0-9]*\) .*/\1/p' "$tmpdir/events" | tail -n 1)
timeout 300 "$stepd" adopt "$job.1" 2>"$tmpdir/err.adopt" &
second=$!
is_adopted() {
	[ "$(described 'd.get("adopted")' "$job.1" describe)" = true ]
}
ok "another agent adopts the step" eventually is_adopted
probe "$job.1" "events:$((last + 1))" >"$tmpdir/more" &
follower=$!
is "$(described running_tasks "$job.1" describe)" 2 "the tasks of an adopted step run on"
is "$(probe "$job.1" terminate:KILL)" "" "terminate of an adopted step is accepted"
wait "$follower"
is $? 0 "events of an adopted step end with it"
is "$(sed 's/ .*//' "$tmpdir/more")" "$(seq $((last + 1)) $((last + $(wc -l <"$tmpdir/more"))))" \
	"events of an adopted step continue the dead agent's without a gap"
like "$(cat "$tmpdir/more")" '^[0-9]+ adopt ' "events of an adopted step have the adoption"
wait "$second"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
