#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmix: the tasks' streams for tools while the agent is upgraded, or dies; and those of spawned
# tasks.

# shellcheck source=tests/lib/pmixtool.sh
. "${top_srcdir:?}/tests/lib/pmixtool.sh"

export tmpdir await

# ---- an upgrade ----

fifos go0
task_sh <<'END'
echo one
$await "$tmpdir/go0"
echo two
read -r line
echo "$line"
END
begin --forward --input tool -n 1
patiently grep -q one "$tmpdir/out" # before a tool pulls
pulls kept out all ends=1
"$stepctl" reexec "$job.0" >/dev/null 2>&1
ok "an agent is upgraded while a tool pulls" patiently grep -q 'continues as version' "$tmpdir/err"
go go0
ok "a tool gets what is written after an upgrade" patiently grep -q two "$tmpdir/kept/0.out"
echo "three" >"$tmpdir/data"
tool push push 0 open <"$tmpdir/data"
wait "$tool"
is "$(cat "$tmpdir/push.log")" pushed "a tool pushes after an upgrade"
ended 0 "a step with tools over an upgrade succeeds"
ok "a tool gets the end of a stream after an upgrade" prints kept '^end 0 out$'
is "$(cat "$tmpdir/kept/0.out")" "two
three" "a tool gets all output over an upgrade"

# ---- the agent's death ----

begin --forward -n 1
pulls left both all ends=2
kill -KILL "$(cat /proc/"$agent"/task/*/children)"
wait "$agent"
ok "a tool gets the end of stdout when the agent dies" prints left '^end 0 out$'
ok "a tool gets the end of stderr when the agent dies" prints left '^end 0 err$'
tool late pull "$tmpdir/late" out all
wait "$tool"
is "$?" 1 "a tool can't pull from a step without an agent"
go go0
timeout 900 "$stepd" adopt -q "$job.0" 2>/dev/null
ok "adopt of a step with tools ends" test "$?" -ne 124
"$stepctl" clean >/dev/null 2>&1

# ---- spawned tasks ----

fifos go0 spawn
task_sh <<'END'
$await "$tmpdir/go0"
END
children() {
	[ "$(grep -c '^from a child$' "$1")" -eq "$2" ]
}
begin --forward -n 1
tool spawner spawn 3 "$tmpdir/spawn"
ok "a tool's spawn succeeds" prints spawner '^SUCCESS$'
ok "a tool gets the output of the tasks that it spawned" patiently children "$tmpdir/spawner.log" 3
ok "the step's output has that of tasks that a tool spawned" patiently children "$tmpdir/out" 3
go spawn
wait "$tool"
tool spawner spawn 2 "$tmpdir/spawn" required
ok "a tool that requires the output of spawned tasks gets it" patiently children "$tmpdir/spawner.log" 2
go spawn
wait "$tool"
go go0
ended 0 "a step that a tool spawns in succeeds"

begin -n 1
tool spawner spawn 2 "$tmpdir/spawn"
ok "a tool's spawn succeeds without --forward" prints spawner '^SUCCESS$'
ok "the log has why a tool gets no output of spawned tasks" patiently grep -q 'see --forward' "$tmpdir/err"
go spawn
wait "$tool"
tool spawner spawn 2 "$tmpdir/spawn" required
ok "a tool's spawn that requires output is refused without --forward" prints spawner '^NOT-SUPPORTED$'
go spawn
wait "$tool"
go go0
ended 0 "a step goes on after a tool's refused spawn"

nothing_left "the job leaves no cgroup, process or file behind"
done_testing
