#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmix: the tasks' streams for tools, of ranks on other nodes than the tool's server.

# shellcheck source=tests/lib/pmixtool.sh
. "${top_srcdir:?}/tests/lib/pmixtool.sh"

export tmpdir await

fifos go0 go1 go2
task_sh <<'END'
$await "$tmpdir/go$PMIX_RANK"
echo "out $PMIX_RANK"
echo "err $PMIX_RANK" >&2
[ "$PMIX_RANK" != 2 ] || head -c 3000000 /dev/zero | tr '\0' '\n'
END
begin_nodes 3 --forward
pulls all both all ends=6
pulls far out 2 ends=1
go go0
go go1
go go2
wait "$tool"
is "$?" 0 "a tool that pulls a rank of another node ends with it"
ended 0 "a step over nodes that tools pull from succeeds"
ok "a tool that pulls all ranks over nodes gets all their ends" prints all '^end 2 err$'
is "$(cat "$tmpdir/all/0.out" "$tmpdir/all/1.out" "$tmpdir/all/0.err" "$tmpdir/all/1.err" \
	"$tmpdir/all/2.err")" "out 0
out 1
err 0
err 1
err 2" "a tool that pulls all ranks over nodes gets their output"
is "$(head -n 1 "$tmpdir/far/2.out"; ls "$tmpdir/far")" "out 2
2.out" "a tool that pulls a rank of another node gets its output alone"
is "$(grep '^out' "$tmpdir/out" | sort)" "out 0
out 1
out 2" "the step's own output over nodes is complete beside tools"

begin_nodes 2
tool none pull "$tmpdir/none" out 1
wait "$tool"
is "$(cat "$tmpdir/none.log")" NOT-SUPPORTED "a pull without --forward is refused from another node"
go go0
go go1
ended 0 "a step over nodes goes on after a refused pull"

task_sh <<'END'
cat >"$tmpdir/in.$PMIX_RANK"
END
begin_nodes 2 --input tool
head -c 1000000 /dev/urandom >"$tmpdir/data"
tool push push all size=300000 <"$tmpdir/data"
wait "$tool"
is "$(cat "$tmpdir/push.log")" pushed "a tool pushes to ranks on two nodes"
ended 0 "a step over nodes ends with the end of what a tool pushes"
ok "a rank of the tool's node gets all that a tool pushes" cmp "$tmpdir/data" "$tmpdir/in.0"
ok "a rank of another node gets all that a tool pushes" cmp "$tmpdir/data" "$tmpdir/in.1"

nothing_left "the job leaves no cgroup, process or file behind"
done_testing
