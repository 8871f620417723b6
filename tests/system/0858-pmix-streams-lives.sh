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
pulls kept out all ends=1
"$stepctl" reexec "$job.0" >/dev/null 2>&1
ok "an agent is upgraded while a tool pulls" patiently grep -q 'goes on as version' "$tmpdir/err"
go go0
ok "which gets what is written then" patiently grep -q two "$tmpdir/kept/0.out"
echo "three" >"$tmpdir/data"
tool push push 0 open <"$tmpdir/data"
wait "$tool"
is "$(cat "$tmpdir/push.words")" pushed "and another one pushes"
ended 0 "the step ends well"
ok "the tool is told the end" says kept '^end 0 out$'
is "$(cat "$tmpdir/kept/0.out")" "two
three" "and has it all"

# ---- the agent's death ----

begin --forward -n 1
pulls left both all ends=2
kill -KILL "$(cat /proc/"$step"/task/*/children)"
wait "$step"
ok "a tool is told the end of what its dead agent carried" says left '^end 0 out$'
ok "of each stream" says left '^end 0 err$'
tool late pull "$tmpdir/late" out all
wait "$tool"
is "$?" 1 "and can't begin anew"
go go0
timeout 900 "$stepd" adopt -q "$job.0" 2>/dev/null
ok "who adopts the step says what is lost" test "$?" -ne 124
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
ok "a tool spawns" says spawner '^SUCCESS$'
ok "and gets the output of its children" patiently children "$tmpdir/spawner.words" 3
ok "as the step does" patiently children "$tmpdir/out" 3
go spawn
wait "$tool"
tool spawner spawn 2 "$tmpdir/spawn" required
ok "where it requires that, too" patiently children "$tmpdir/spawner.words" 2
go spawn
wait "$tool"
go go0
ended 0 "the step ends well"

begin -n 1
tool spawner spawn 2 "$tmpdir/spawn"
ok "elsewhere it spawns all the same" says spawner '^SUCCESS$'
ok "and the log says why it gets no output" patiently grep -q 'see --forward' "$tmpdir/err"
go spawn
wait "$tool"
tool spawner spawn 2 "$tmpdir/spawn" required
ok "unless it requires that" says spawner '^NOT-SUPPORTED$'
go spawn
wait "$tool"
go go0
ended 0 "and that step goes on"

nothing_left "nothing is left"
done_testing
