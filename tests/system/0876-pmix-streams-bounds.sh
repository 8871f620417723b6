#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# shellcheck disable=SC2317 # functions are called by others
#
# mpi/pmix: the bounds of what tools get and send: one that does not read what a rank of another node
# writes, a push of just what a call can have and of a byte more, and pulls that are open when the
# step ends.

# shellcheck source=tests/lib/pmixtool.sh
. "${top_srcdir:?}/tests/lib/pmixtool.sh"

export tmpdir await

# ---- a tool that does not read, and a rank of another node ----

fifos go0 go1 hold
task_sh <<'END'
$await "$tmpdir/go$PMIX_RANK"
[ "$PMIX_RANK" != 1 ] || {
	head -c 50000000 /dev/zero | tr '\0' x
	echo done >"$tmpdir/done"
	$await "$tmpdir/go1"
	until [ -e "$tmpdir/enough" ]; do
		printf '\nafter\n'
		echo >>"$tmpdir/rounds"
		sleep 0.1
	done
}
END
after() {
	grep -q '^after$' "$tmpdir/slow/1.out"
}
begin_nodes 2 --forward
pulls slow out 1 hold="$tmpdir/hold" ends=1
go go1
prints slow '^holding$'
ok "a rank of another node writes 50 MB while the tool does not read" patiently test -s "$tmpdir/done"
ok "the step's output over nodes is complete beside a tool that does not read" patiently has_written 50000000
ok "a tool that does not read over nodes is logged" patiently grep -Eq 'does not (take|read)' "$tmpdir/err"
go hold
# Until there is space again, that is omitted, too.
go go1
ok "a tool that reads again over nodes gets what is written later" patiently after
ok "a tool that reads again over nodes gets how much is missing" prints slow '^lost 1 out [0-9]+$'
: >"$tmpdir/enough"
go go0
wait "$tool"
is "$?" 0 "a slow tool over nodes ends with its rank"
written=$((50000000 + 7 * $(wc -l <"$tmpdir/rounds")))
got=$(wc -c <"$tmpdir/slow/1.out")
lost=$(awk '/^lost/ { sum += $4 } END { printf "%d", sum }' "$tmpdir/slow.log")
is $((got + lost)) $written "the output that a slow tool over nodes got and missed is all that was written"
ended 0 "a step over nodes with a slow tool succeeds"
ok "the step's output over nodes is complete at its end" has_written $written

# ---- pulls that are open at the end ----

fifos go0 go1
task_sh <<'END'
$await "$tmpdir/go$PMIX_RANK"
echo "out $PMIX_RANK"
[ "$PMIX_RANK" = 1 ] || $await "$tmpdir/go$PMIX_RANK"
END
begin_nodes 2 --forward
pulls far out 1
far=$tool
pulls all both all
go go0
go go1
for name in far all; do
	ok "a tool that pulls without an end gets the end of a stream: $name" prints $name '^end 1 out$'
done
has_first() {
	grep -q '^out 0$' "$tmpdir/all/0.out"
}
ok "a tool that pulls without an end gets the other rank's output" patiently has_first
go go0
ended 0 "the step ends while they still pull"
ok "a tool that pulls one rank gets the server's end" prints far '^server gone$'
ok "a tool that pulls all ranks gets the server's end" prints all '^server gone$'
wait "$far"
is "$?" 0 "a tool that pulls all ranks ends with the server"
wait "$tool"
is "$?" 0 "a tool that pulls one rank ends with the server"
is "$(cat "$tmpdir/far/1.out" "$tmpdir/all/1.out")" "out 1
out 1" "tools that pull without an end get what was written"

# ---- how much a call can push ----

task_sh <<'END'
cat >"$tmpdir/in.$PMIX_RANK"
END
most=$((16 << 20))
head -c $((most + 1)) /dev/urandom >"$tmpdir/more"
head -c $most "$tmpdir/more" >"$tmpdir/most"
begin_nodes 2 --input tool
for rank in 0 1; do
	tool push push $rank open size=$((most + 1)) <"$tmpdir/more"
	wait "$tool"
	is "$?" 1 "a byte more than 16 MiB in a call is refused: rank $rank"
	like "$(cat "$tmpdir/push.log")" 'OUT.OF.RESOURCE' \
		"the refusal of more than 16 MiB has the reason: rank $rank"
	tool push push $rank open size=$most <"$tmpdir/most"
	wait "$tool"
	is "$(cat "$tmpdir/push.log")" pushed "16 MiB in a call are accepted: rank $rank"
done
# The end of their input is the end of the step, and of who answers.
tool push push all </dev/null
ended 0 "ranks with 16 MiB of input succeed"
wait "$tool"
for rank in 0 1; do
	ok "a rank gets 16 MiB of input, and nothing else: rank $rank" cmp "$tmpdir/most" "$tmpdir/in.$rank"
done

nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
