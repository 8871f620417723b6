#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Signals to steprun, on one node and over several, before the tasks run and while they do.
# shellcheck source=tests/lib/steprun.sh
. "${top_srcdir:?}/tests/lib/steprun.sh"

cat >"$tmpdir/task" <<'S'
trap 'echo USR1' USR1
trap 'echo USR2' USR2
trap 'echo ALRM' ALRM
trap 'echo HUP' HUP
trap 'echo TERM; exit 7' TERM
echo up
while :; do sleep 0.05; done
S
for n in 1 2; do
	begin -N $n -n $n sh "$tmpdir/task"
	eventually has_lines "$tmpdir/out" $n
	count=$n
	for signal in USR1 USR2 ALRM HUP TERM; do
		kill -$signal "$pid"
		count=$((count + n))
		eventually has_lines "$tmpdir/out" $count
	done
	finish
	is "$status $(LC_ALL=C sort "$tmpdir/out" | uniq -c | tr -s ' \n' ' ')" \
		"7  $n ALRM $n HUP $n TERM $n USR1 $n USR2 $n up " "$n: signals reach all tasks"
	begin -N $n -n $n -- sh -c 'echo up; exec sleep 300'
	eventually has_lines "$tmpdir/out" $n
	kill -QUIT "$pid"
	finish
	is "$status" 131 "$n: SIGQUIT ends the step"
	like "$(cat "$tmpdir/err")" "^steprun: ending the step" "$n: SIGQUIT reports the end of the step"
done

# ---- before there are tasks ----------------------------------------------------------------------
mkfifo "$tmpdir/gate"
waiting() {
	begin -N 2 -n 2 --launcher "exec:[ %n = 0 ] || { : >$tmpdir/here; read x <$tmpdir/gate; }; %c" "$@"
	eventually test -e "$tmpdir/here"
	rm "$tmpdir/here"
}
for signal in TERM:143 HUP:129 QUIT:131; do
	waiting -- echo ran
	kill "-${signal%:*}" "$pid"
	finish
	is "$status $(cat "$tmpdir/out")" "${signal#*:} " \
		"SIG${signal%:*} while nodes are awaited ends steprun before a task runs"
done
waiting -- echo ran
kill -INT "$pid"
eventually grep -q 'again within' "$tmpdir/err"
like "$(cat "$tmpdir/err")" "steprun: [01] of 2 nodes are connected" "the first ^C reports how many nodes are connected"
kill -INT "$pid"
finish
is "$status $(cat "$tmpdir/out")" "130 " "the second ^C ends steprun before a task runs"
waiting sh "$tmpdir/task"
kill -USR1 "$pid"
echo go >"$tmpdir/gate"
comes grep -q USR1 "$tmpdir/out" || eventually has_lines "$tmpdir/out" 1
kill -QUIT "$pid"
finish
like "$(cat "$tmpdir/out")$status" "131|138" "a signal for the tasks waits for them"

# ---- nodes that do not answer --------------------------------------------------------------------
begin -N 2 -n 2 -- sh -c 'echo up; exec sleep 300'
eventually has_lines "$tmpdir/out" 2
stopped=$(relays | head -n 1)
kill -STOP "$stopped"
kill -QUIT "$pid"
eventually grep -q 'ending the step' "$tmpdir/err"
kill -QUIT "$pid"
eventually grep -q 'killing the step' "$tmpdir/err"
kill -QUIT "$pid"
finish
is "$status" 125 "a node that does not answer does not stop the end of the step"
like "$(cat "$tmpdir/err")" "node .* is lost: its launcher killed by signal 9" \
	"a node that does not answer at the end is named"
nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
