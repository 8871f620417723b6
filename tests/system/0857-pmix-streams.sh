#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# shellcheck disable=SC2317 # functions are called by others
#
# mpi/pmix: the tasks' streams for tools: what they pull, what they push, and that no task waits for
# them.

# shellcheck source=tests/lib/pmixtool.sh
. "${top_srcdir:?}/tests/lib/pmixtool.sh"

export tmpdir await

sorted_log() { # NAME
	sort "$tmpdir/$1.log"
}

# ---- pull ----

fifos go0 go1 go2
task_sh <<'END'
$await "$tmpdir/go$PMIX_RANK"
echo "out $PMIX_RANK"
echo "err $PMIX_RANK" >&2
END

begin --forward -n 3
pulls all both all ends=6
pulls some out 1 ends=1
go go0
go go1
go go2
wait "$tool"
is "$?" 0 "a tool that pulls one rank ends with it"
ended 0 "a step that tools pull from succeeds"
patiently grep -q 'end 2 err' "$tmpdir/all.log"
is "$(sorted_log all | grep '^end')" "end 0 err
end 0 out
end 1 err
end 1 out
end 2 err
end 2 out" "a tool that pulls all ranks gets the end of each stream"
is "$(cat "$tmpdir/all/0.out" "$tmpdir/all/1.out" "$tmpdir/all/2.out" "$tmpdir/all/0.err" \
	"$tmpdir/all/1.err" "$tmpdir/all/2.err")" "out 0
out 1
out 2
err 0
err 1
err 2" "a tool that pulls all ranks gets the output of each stream"
is "$(cd "$tmpdir/some" && ls && cat ./*)" "1.out
out 1" "a tool that pulls one channel of one rank gets that alone"
is "$(sort "$tmpdir/out")" "out 0
out 1
out 2" "the step's own stdout is complete beside tools"
is "$(grep -c '^err [012]$' "$tmpdir/err")" 3 "the step's own stderr is complete beside tools"

begin --forward --label -n 3 -o "$tmpdir/file.%t"
pulls all both 0,2
go go0
go go1
go go2
ended 0 "a step with labels and files that a tool pulls from succeeds"
is "$(cat "$tmpdir/file.2")" "2: out 2
2: err 2" "labelled files are complete beside a tool"
prints all '^server gone$'
is "$(cd "$tmpdir/all" && ls && cat ./*)" "0.out
2.out
out 0
err 0
out 2
err 2" "a tool gets output without labels, and what goes to one file as one stream"
is "$(sorted_log all | grep -c '^end [02] ')" 4 "a tool gets the end of the stream that goes to the other's file"

# ---- what can't be pulled ----

begin -n 1
tool none pull "$tmpdir/none" out all
wait "$tool"
is "$?" 1 "a pull is refused where output does not pass through the agent"
is "$(cat "$tmpdir/none.log")" "NOT-SUPPORTED" "a pull without --forward is not supported"
go go0
ended 0 "a step goes on after a refused pull"

begin --forward -n 1
tool none pull "$tmpdir/none" out 7
wait "$tool"
is "$(cat "$tmpdir/none.log")" "NOT-FOUND" "a pull of a missing rank finds nothing"
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	cp "$file" "$tmpdir/rendezvous"
	chmod 644 "$tmpdir/rendezvous"
	out=$(timeout 120 setpriv --reuid=65534 --regid=65534 --clear-groups "$pmixtool" "$file" \
		pull "$tmpdir/none" out all 2>&1)
	unlike "$out" 'pulling' "another user finds no server"
	out=$(timeout 120 setpriv --reuid=65534 --regid=65534 --clear-groups "$pmixtool" \
		"$tmpdir/rendezvous" pull "$tmpdir/none" out all 2>&1)
	unlike "$out" 'pulling' "another user with the rendezvous file can't pull"
	# The agent hears of it from the service, beside the tool's end.
	ok "the refusal of another user's tool is logged" \
		eventually grep -q 'connection to the PMIx server is refused: it is of uid 65534' "$tmpdir/err"
else
	skip 3 "needs root and setpriv"
fi
go go0
ended 0 "a step goes on after another user's tool"

# ---- tools that stop, or go ----

fifos go0 stop
task_sh <<'END'
echo before
$await "$tmpdir/go0"
echo one
$await "$tmpdir/go0"
echo two
$await "$tmpdir/go0"
echo three
END
begin --forward -n 1
patiently grep -q before "$tmpdir/out"
pulls gone out all stop="$tmpdir/stop"
go go0
patiently grep -q one "$tmpdir/gone/0.out"
go stop
prints gone '^stopped$'
pulls killed out all
go go0
patiently grep -q two "$tmpdir/killed/0.out"
pkill_tool() {
	kill -KILL "$(cat /proc/"$tool"/task/*/children)" # timeout's
	wait "$tool"
}
pkill_tool 2>/dev/null
go go0
ended 0 "a step whose tools have stopped or were killed succeeds"
go stop
is "$(cat "$tmpdir/gone/0.out")" "one" "a tool gets nothing after it deregistered"
is "$(tr '\n' ' ' <"$tmpdir/out")" "before one two three " \
	"the output of a step whose tools were killed is complete"

# ---- a tool that does not read ----

fifos go0 hold
task_sh <<'END'
$await "$tmpdir/go0"
head -c 100000000 /dev/zero | tr '\0' x
echo done >"$tmpdir/done"
$await "$tmpdir/go0"
echo
while
	echo after
	$await "$tmpdir/go0"
	[ ! -e "$tmpdir/enough" ]
do
	:
done
END
rm -f "$tmpdir/done" "$tmpdir/enough"
begin --forward -n 1
pulls slow out all hold="$tmpdir/hold" ends=1
go go0
prints slow '^holding$'
ok "a task writes 100 MB while a tool does not read" patiently test -s "$tmpdir/done"
ok "the step's output is complete beside a tool that does not read" patiently has_written 100000000
ok "a tool that does not read is logged" patiently grep -Eq 'does not (take|read)' "$tmpdir/err"
go hold
go go0
patiently has_written 100000007
grown() { # BYTES
	[ "$(wc -c <"$tmpdir/out")" -gt "$1" ]
}
after() { # it may be left out, too, as long as the tool has not read much: then there is more
	grep -q '^after$' "$tmpdir/slow/0.out" && return
	size=$(wc -c <"$tmpdir/out")
	go go0
	(patiently grown "$size")
	false
}
ok "a tool that reads again gets what is written later" patiently after
ok "a tool that reads again gets how much is missing" prints slow '^lost 0 out [0-9]+$'
accounted() {
	got=$(wc -c <"$tmpdir/slow/0.out")
	lost=$(awk '/^lost/ { sum += $4 } END { printf "%d", sum }' "$tmpdir/slow.log")
	[ $((got + lost)) -eq "$(wc -c <"$tmpdir/out")" ]
}
ok "the output that a slow tool got and missed is all that was written" patiently accounted
: >"$tmpdir/enough"
go go0
ended 0 "a step with a slow tool succeeds"
wait "$tool"
is "$?" 0 "a slow tool ends with its step"

rm -f "$tmpdir/done"
begin --forward -n 1
pulls slow out all hold="$tmpdir/hold"
go go0
prints slow '^holding$'
patiently test -s "$tmpdir/done"
go go0
patiently has_written 100000007
go go0
ended 0 "a step ends while a tool does not read"
ok "the step's output is complete at its end beside a tool that does not read" has_written 100000007
kill "$tool"
wait "$tool"

# ---- push ----

fifos go0 go1
task_sh <<'END'
[ "$PMIX_RANK" != 1 ] || exec cat >"$tmpdir/in.1"
$await "$tmpdir/go0"
cat >"$tmpdir/in.0"
END
begin --input tool -n 2
head -c 3000000 /dev/urandom >"$tmpdir/data"
tool push push 1 size=1000000 <"$tmpdir/data"
wait "$tool"
is "$(cat "$tmpdir/push.log")" pushed "a tool pushes to a rank"
same() {
	cmp -s "$tmpdir/data" "$tmpdir/in.$1"
}
ok "a rank gets all that a tool pushes, and its end" patiently same 1
tool push push 0 size=1000000 <"$tmpdir/data"
go go0
wait "$tool"
is "$(cat "$tmpdir/push.log")" pushed "a tool pushes to a rank that reads late"
ok "a rank that reads late gets all that a tool pushes" patiently same 0
ended 0 "a step that tools push to succeeds"

begin --input tool -n 2
echo "for all" >"$tmpdir/data"
tool push push all <"$tmpdir/data"
wait "$tool"
go go0
ended 0 "a step ends with the end of what a tool pushes"
is "$(cat "$tmpdir/in.0" "$tmpdir/in.1")" "for all
for all" "a tool pushes to several ranks at once"

task_sh <<'END'
exec <&-
$await "$tmpdir/go0"
END
for given in none:NOT-SUPPORTED all:RESOURCE-BUSY /dev/zero:NOT-SUPPORTED tool:IOF; do
	begin --input "${given%:*}" -n 1
	tool push push 0 <"$tmpdir/data"
	wait "$tool"
	like "$(cat "$tmpdir/push.log")" "${given#*:}" \
		"a push is refused with --input ${given%:*}: ${given#*:}"
	go go0
	ended 0 "a task goes on after a refused push with --input ${given%:*}"
done

nothing_left "the job leaves no cgroup, process or file behind"
done_testing
