#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# libstepd against real agents: each of its functions, and what it says when an agent is stopped,
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

# ---- asking ------------------------------------------------------------------------------------
begin 0
first=$agent
ok "a step runs" eventually all_run
like "$(probe "$job.0" describe)" "\"step\":\"$job\.0\".*\"state\":\"running\"" "describe"
like "$(probe "$job" usage)" '"tasks":\[\{.*"rank":1' "usage, by the beginning of the name"
pid=$(cat "$tmpdir/task.0.1")
like "$(probe "$job.0" pids)" "^$pid 1 -\$" "the processes"
like "$(probe "$job.0" pids:1:ticks)" "^$pid 1 since\$" "of one rank, with their starts"
unlike "$(probe "$job.0" pids:1)" ' 0 ' "and no other's"
is "$(probe "$job.0" "find:$pid")" "$pid 1 since" "one pid found among twenty thousand"
is "$(probe "$job.0" find:1)" "" "and one that is not the step's"
is "$(probe "$job.0" tasks)" "0 0 running pid -1
1 1 running pid -1" "the tasks"
name=$(basename "$run"/*_"$job.0" | sed 's/_\([^_]*\)$/\/\1/')
is "$(probe "$job.0" pids:5)" \
	"ESRCH step $name: ListPids: NoSuchTask: the step has no task of rank 5 on this node (ListTasks has those it has)" \
	"a rank that is not there"

# ---- acting ------------------------------------------------------------------------------------
is "$(probe "$job.0" signal:USR1:1)" "" "a signal to one rank"
ok "gets to it" eventually test -s "$tmpdir/usr1.1"
is "$(ls "$tmpdir"/usr1.0 2>/dev/null)" "" "and to no other"
is "$(probe "$job.0" "signal-pid:USR1:$(cat "$tmpdir/task.0.0")")" "" "a signal to one pid"
ok "gets to that" eventually test -s "$tmpdir/usr1.0"
like "$(probe "$job.0" signal-pid:KILL:1)" '^ESRCH .*: Signal: NoSuchProcess: ' "none to a pid of others"
like "$(probe "$job.0" signal-pid:KILL:-1)" '^EINVAL .*: -1 is no pid of one process' "nor to all there are"
like "$(probe "$job.0" signal:NONE)" '^EINVAL .*signal' "nor by a name that none has"
is "$(probe "$job.0" suspend describe | sed 's/.*"state":"\([a-z]*\)".*/\1/')" suspended "suspended"
is "$(probe "$job.0" resume describe | sed 's/.*"state":"\([a-z]*\)".*/\1/')" running "and resumed"
is "$(probe "$job.0" "notify:hello from outside")" "" "a line for the step's stderr"
ok "is there" eventually grep -q 'hello from outside' "$tmpdir/err.0"
setsid sleep 600 </dev/null >/dev/null 2>&1 &
added=$!
at_exit "kill $added 2>/dev/null"
is "$(probe "$job.0" "add:$added")" "" "a process is added"
like "$(probe "$job.0" pids)" "^$added " "and is the step's"
if [ "$tracker" = cgroup ]; then
	like "$(probe "$job.0" limits:pids_max=500)" '^-$|pids' "limits are set, or what can't be had is told"
else
	like "$(probe "$job.0" limits:pids_max=500)" 'NotSupported|pids|^-$' "limits take another tracker"
fi

# ---- an agent that is stopped ------------------------------------------------------------------
kill -STOP "$(agent_of 0)"
out=$(probe "$job.0" timeout:300 describe describe)
kill -CONT "$(agent_of 0)"
like "$out" '^ETIMEDOUT .*: Describe: no answer in 300 ms' "a stopped agent holds nobody longer than agreed"
like "$out" '^ECONNRESET .*connect again' "and its late answer is nobody's"

# ---- the end -----------------------------------------------------------------------------------
probe "$job.0" events:1 >"$tmpdir/events" &
follower=$!
is "$(probe "$job.0" wait:20 terminate:KILL | sed 's/ .*//')" "ETIMEDOUT
EINVAL" "who waits on a connection asks nothing else there"
probe "$job.0" wait:0 wait:60000 >"$tmpdir/wait" &
waiter=$!
ok "who waits has to wait" eventually grep -q '^EAGAIN ' "$tmpdir/wait"
follows() { # REGEX
	grep -Eq "$1" "$tmpdir/events"
}
ok "and who follows hears of what was before" eventually follows ' state running '
is "$(probe "$job.0" reexec tasks:1)" "$("$stepd" --version | grep -oE '[0-9]+\.[0-9.]+')
1 1 running pid -1" "its agent executes its program again, and the connection that asked for it stays"
ok "who follows hears of it" eventually follows ' reexec '
is "$(probe "$job.0" terminate:KILL)" "" "the end begins"
wait "$waiter"
like "$(cat "$tmpdir/wait")" '"exit_code":137' "who waited has the result"
wait "$follower"
is $? 0 "who followed has come to the end"
like "$(cat "$tmpdir/events")" '^[0-9]+ task_exit - 1 137$' "past each task's"
like "$(cat "$tmpdir/events")" '^[0-9]+ suspend ' "past what was done to it"
is "$(cut -d' ' -f1 "$tmpdir/events")" "$(seq 1 "$(wc -l <"$tmpdir/events")")" "from the first event on, without a gap"
wait "$first"
like "$(probe "$job.0")" "^ENOENT there is no step '$job\.0' on this node" "it is no more"

# ---- an agent that is killed -------------------------------------------------------------------
begin 1
second=$agent
ok "another step runs" eventually all_run
: >"$tmpdir/events" # the follower empties it some time: until then it shows the first step's events
probe "$job.1" events:1 >"$tmpdir/events" &
follower=$!
ok "it is followed" eventually follows ' state running '
kill -9 "$(agent_of 1)"
wait "$second" 2>/dev/null
wait "$follower"
is $? 1 "a client that follows the events of a killed agent ends with an error"
like "$(cat "$tmpdir/events")" '^ECONNRESET' "a client that follows the events hears at once that the agent is gone"
begun=$(date +%s)
like "$(probe "$job.1")" "^ECONNREFUSED step [^ ]*/$job\.1: its agent is gone; 'stepd adopt " \
	"who comes later is told so, and what to do"
ok "at once" test "$(($(date +%s) - begun))" -lt 10
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
1 1 running" "its tasks run on"
is "$(probe "$job.1" terminate:KILL)" "" "it is ended"
wait "$follower"
is $? 0 "who followed on has come to the end"
is "$(sed 's/ .*//' "$tmpdir/more")" "$(seq $((last + 1)) $((last + $(wc -l <"$tmpdir/more"))))" \
	"from behind the last event of the dead agent, without a gap"
like "$(cat "$tmpdir/more")" '^[0-9]+ adopt ' "past the adoption"
wait "$second"
nothing_left "nothing is left"
done_testing
