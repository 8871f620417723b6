#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Without systemd: a cgroup given to an ordinary user by chown(1), whose steps hang below it.
. "${top_srcdir:?}/tests/lib/step.sh"

[ "$(id -u)" -eq 0 ] || skip_all "needs root, to give nobody a cgroup"
"$stepd" plugins | grep -q "^proctrack/cgroup" || skip_all "built without proctrack/cgroup"
mount=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
[ -n "$mount" ] || skip_all "no cgroup2 is mounted here"
setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$stepd" ||
	skip_all "nobody may not run what is built in $top_builddir"
given=$mount/stepd-test-given-$$
mkdir "$given" 2>"$tmpdir/err" || skip_all "no cgroup can be made here: $(cat "$tmpdir/err")"

remove_given() {
	[ ! -f "$given/cgroup.kill" ] || echo 1 >"$given/cgroup.kill"
	eventually find "$given" -depth -type d -exec rmdir {} +
}
at_exit remove_given
mkdir "$given/agents"
# The kernel's documentation names these four as what makes a delegation: the directory, and files
# by which processes are moved and controllers handed down.
for group in "$given" "$given/agents"; do
	chown 65534:65534 "$group" "$group/cgroup.procs" "$group/cgroup.threads" \
		"$group/cgroup.subtree_control"
done
chown 65534:65534 "$run"

# as_nobody GROUP COMMAND...: in that group, as a session there would be.
cat >"$tmpdir/as-nobody" <<'E'
echo $$ >"$1/cgroup.procs" && shift && exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
E
as_nobody() {
	timeout 300 sh "$tmpdir/as-nobody" "$@"
}

# In the agents' own group: a step hangs below that, as systemd's Delegate= with User= has it.
out=$(as_nobody "$given/agents" "$stepd" plugins 2>&1)
like "$out" "steps below $given/agents/stepd \(delegated to this process\)" \
	"stepd plugins reports the cgroup that was delegated to a user"
out=$(as_nobody "$given/agents" "$stepd" run --job "$job" --proctrack cgroup -n 3 -- \
	sh -c 'setsid sleep 99 & echo "$(id -u) $(grep ^0:: /proc/self/cgroup)"' 2>&1 | sort)
below=/stepd-test-given-$$/agents/stepd/job_$job/step_0
is "$(echo "$out" | sed "s|0::.*$below|$below|")" "65534 $below/task_0
65534 $below/task_1
65534 $below/task_2" "a user's tasks are in the delegated cgroup"
is "$(find "$given" -mindepth 1 -type d)" "$given/agents" \
	"a user's step leaves no cgroup in the delegated one, though tasks left daemons"

# The agent in a leaf, the steps beside it.
out=$(as_nobody "$given/agents" "$stepd" run --job "$job" --proctrack cgroup --cgroup-root "$given" -- \
	sed -n 's|^0::.*/stepd-test-given|/stepd-test-given|p' /proc/self/cgroup 2>&1)
is "$out" "/stepd-test-given-$$/stepd/job_$job/step_0/task_0" \
	"--cgroup-root makes a user's step beside the agent's cgroup"
is "$(find "$given" -mindepth 1 -type d)" "$given/agents" \
	"a user's step by --cgroup-root leaves no cgroup behind"

# Asked and ended from outside, by nobody and by root.
sh "$tmpdir/as-nobody" "$given/agents" "$stepd" run --job "$job" --proctrack cgroup -n 2 -- \
	sh -c 'setsid sleep 99 & exec sleep 99' 2>"$tmpdir/err" &
agent=$!
listed() {
	[ "$("$stepctl" pids "$job.0" | wc -l)" -eq "$1" ]
}
ok "stepctl pids of root lists a user's step, daemons too" eventually listed 4
pid=$("$stepctl" pids "$job.0" | sort -n | head -n 1)
like "$("$stepctl" find "$pid")" "^$pid step $job.0 .*\(proctrack/cgroup\)" \
	"stepctl find of root names a user's step"
is "$(as_nobody "$given" "$stepctl" pids "$job.0" | wc -l)" 4 \
	"stepctl pids of the user lists the step, from another of the user's cgroups"
kill -TERM $agent
wait $agent
is $? 143 "a user's step ends by SIGTERM to its agent"
is "$(find "$given" -mindepth 1 -type d)" "$given/agents" "a user's ended step leaves no cgroup behind"

# Outside of what was given there is no way in.
out=$(setpriv --reuid=65534 --regid=65534 --clear-groups "$stepd" run --job "$job" --proctrack cgroup \
	--cgroup-root "$given" -- true 2>&1)
is $? 125 "a step from a cgroup that is not the user's is refused"
like "$out" "into the step's container: Permission denied" \
	"the refusal of a step from another cgroup has the reason"
is "$(find "$given" -mindepth 1 -type d)" "$given/agents" "a step from another cgroup leaves no cgroup behind"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
