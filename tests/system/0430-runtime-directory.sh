#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The runtime directory: whose it is, how it is reached, and what dead agents left in it.
. "${top_srcdir:?}/tests/lib/step.sh"
cd "$tmpdir" || exit

printf '#!/bin/sh\necho from the script\n' >script
mkdir rel
out=$(step --runtime-dir rel --chdir / --batch script 2>&1)
is "$out" "from the script" "a script is found below a relative directory from another one"
rmdir rel

if [ "$(id -u)" = 0 ]; then
	out=$(umask 077 && step --uid 65534 --gid 65534 --chdir / --batch script 2>&1)
	is "$out" "from the script" "another user reads its script though the agent has a tight umask"
else
	skip 1 "needs root"
fi
out=$(umask 077 && step -- sh -c "stat -c %a '$run'/*_$job.0 '$run'/*_$job.0/state.json; umask")
is "$out" "755
644
0077" "everyone can read the state though the agent has a tight umask, which tasks keep"

# An agent that dies while it replaces state.json.
dir=$(step -- sh -c "echo '$run'/*_$job.0")
mkdir -p "$dir"
echo '{' >"$dir/state.json.4711.new"
ok "a step starts though a dead agent left a half-written state" step -- true
nothing_left "a half-written state of a dead agent is removed"

# linuxproc's containers are named after the agent's pid, which others have after its death.
sleep 60 &
mkdir "$dir"
: >"$dir/lock"
cat >"$dir/state.json" <<X
{"version": 1, "job": $job, "step": "0", "node": "n", "node_id": 0, "uid": 0, "user": "x",
 "state": "running", "proctrack": "proctrack/linuxproc", "container_id": $$, "agent_pid": $$,
 "agent_start_ticks": 1, "tasks": []}
X
is "$("$stepctl" pids "$job.0" 2>"$tmpdir/err")" "" "children of the process that has a dead agent's pid are not the step's"
like "$(cat "$tmpdir/err")" "with proctrack/linuxproc nobody else knows" \
	"stepctl pids warns that linuxproc's members are unknown without the agent"
is "$("$stepctl" find $!)" "$! is in no step" "stepctl find does not find children of the process that has a dead agent's pid"
kill $!
rm -r "$dir"

uid=$((40000 + $$ % 20000)) # nobody's, and no other test's
if [ "$(id -u)" = 0 ]; then
	mkdir "/tmp/stepd-$uid" || bail "'/tmp/stepd-$uid' is there"
	at_exit "rm -rf /tmp/stepd-$uid"
	chown $((uid + 1)) "/tmp/stepd-$uid"
	unset STEPD_RUNTIME_DIR XDG_RUNTIME_DIR
	as_user() { setpriv --reuid $uid --regid $uid --clear-groups "$@"; }
	out=$(as_user "$stepctl" list 2>&1)
	isnt $? 0 "a runtime directory in /tmp that another user made is refused by list"
	like "$out" "/tmp/stepd-$uid' belongs to uid $((uid + 1))" \
		"the refusal of another user's runtime directory names that user"
	out=$(as_user "$stepd" run --chdir / -- true 2>&1)
	is $? 125 "a runtime directory in /tmp that another user made is refused by run"
	like "$out" "runtime directory \(--runtime-dir for another\)" \
		"the refusal of another user's runtime directory names the option"
	STEPD_RUNTIME_DIR=$run
else
	skip 4 "needs root"
fi
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
