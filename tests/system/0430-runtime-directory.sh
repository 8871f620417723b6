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
	is "$out" "from the script" "an agent with a tight umask: the user reads its script"
else
	skip 1 "needs root"
fi
out=$(umask 077 && step -- sh -c "stat -c %a '$run'/*_$job.0 '$run'/*_$job.0/state.json; umask")
is "$out" "755
644
0077" "and everyone what runs here, while the tasks keep that mask"

# An agent that dies while it replaces state.json.
dir=$(step -- sh -c "echo '$run'/*_$job.0")
mkdir -p "$dir"
echo '{' >"$dir/state.json.4711.new"
ok "a half-written state of a dead agent is no obstacle" step -- true
nothing_left "and is removed"

# linuxproc's containers are named after the agent's pid, which others have after its death.
sleep 60 &
mkdir "$dir"
: >"$dir/lock"
cat >"$dir/state.json" <<X
{"version": 1, "job": $job, "step": "0", "node": "n", "node_id": 0, "uid": 0, "user": "x",
 "state": "running", "proctrack": "proctrack/linuxproc", "container_id": $$, "agent_pid": $$,
 "agent_start_ticks": 1, "tasks": []}
X
is "$("$stepctl" pids "$job.0" 2>"$tmpdir/err")" "" "the children of who has a dead agent's pid are not the step's"
like "$(cat "$tmpdir/err")" "with proctrack/linuxproc nobody else knows" "which is said"
is "$("$stepctl" find $!)" "$! is in no step" "nor are they found in it"
kill $!
rm -r "$dir"

if [ "$(id -u)" = 0 ] && [ ! -e /tmp/stepd-64999 ] && mkdir /tmp/stepd-64999; then
	at_exit 'rm -rf /tmp/stepd-64999'
	chown 64998 /tmp/stepd-64999
	unset STEPD_RUNTIME_DIR XDG_RUNTIME_DIR
	as_user() { setpriv --reuid 64999 --regid 64999 --clear-groups "$@"; }
	out=$(as_user "$stepctl" list 2>&1)
	isnt $? 0 "a directory in /tmp that another user made is not believed"
	like "$out" "/tmp/stepd-64999' belongs to uid 64998" "and that user is named"
	out=$(as_user "$stepd" run --chdir / -- true 2>&1)
	is $? 125 "nor used"
	like "$out" "runtime directory \(--runtime-dir for another\)" "and the way out is told"
	STEPD_RUNTIME_DIR=$run
else
	skip 4 "needs root"
fi
nothing_left "nothing is left"
done_testing
