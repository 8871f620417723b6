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
whole() {
	[ "$(wc -c <"$tmpdir/out")" -eq "$1" ]
}
after() {
	grep -q '^after$' "$tmpdir/slow/1.out"
}
begin_nodes 2 --forward
pulls slow out 1 hold="$tmpdir/hold" ends=1
go go1
says slow '^holding$'
ok "a rank of another node writes 50 MB while the tool does not read" patiently test -s "$tmpdir/done"
ok "all of it is in the step's output" patiently whole 50000000
ok "it is told in the log" patiently grep -Eq 'does not (take|read)' "$tmpdir/err"
go hold
# Until there is room again, that is left out, too.
go go1
ok "what is written later comes" patiently after
ok "with how much is missing" says slow '^lost 1 out [0-9]+$'
: >"$tmpdir/enough"
go go0
wait "$tool"
is "$?" 0 "the tool has its end"
written=$((50000000 + 7 * $(wc -l <"$tmpdir/rounds")))
got=$(wc -c <"$tmpdir/slow/1.out")
lost=$(awk '/^lost/ { sum += $4 } END { printf "%d", sum }' "$tmpdir/slow.words")
is $((got + lost)) $written "what has come and what is missing is what was written"
ended 0 "and the step ends well"
ok "with all of its output" whole $written

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
	ok "tools that pull without an end are told the end of a stream: $name" says $name '^end 1 out$'
done
has_first() {
	grep -q '^out 0$' "$tmpdir/all/0.out"
}
ok "and have what the other has written" patiently has_first
go go0
ended 0 "the step ends while they still pull"
ok "which the tools are told" says far '^server gone$'
ok "both" says all '^server gone$'
wait "$far"
is "$?" 0 "they end by themselves"
wait "$tool"
is "$?" 0 "both"
is "$(cat "$tmpdir/far/1.out" "$tmpdir/all/1.out")" "out 1
out 1" "with what was written"

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
	like "$(cat "$tmpdir/push.words")" 'OUT.OF.RESOURCE' "and says why"
	tool push push $rank open size=$most <"$tmpdir/most"
	wait "$tool"
	is "$(cat "$tmpdir/push.words")" pushed "16 MiB are not"
done
# The end of their input is the end of the step, and of who answers.
tool push push all </dev/null
ended 0 "the ranks end well"
wait "$tool"
for rank in 0 1; do
	ok "and have all of that, and nothing else: rank $rank" cmp "$tmpdir/most" "$tmpdir/in.$rank"
done

nothing_left_soon "nothing is left"
done_testing
