#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What passes through an agent while it is upgraded: each byte arrives once, in its order.
. "${top_srcdir:?}/tests/lib/reexec.sh"

[ -x "$next" ] || skip_all "no second program (make check builds it)"

# lines RANK FILE: what that task has written, of those behind labels.
lines() {
	sed -n "s/^ *$1: //p" "$2"
}

seq 1 60000 >"$tmpdir/wanted"
start_step --proctrack "$tracker" -l -n 3 -- sh -c '
	i=0
	while [ $i -lt 60 ]; do seq $((i * 1000 + 1)) $((i * 1000 + 1000)); i=$((i + 1)); sleep 0.03; done'
upgrade_often 12
ended 0 "a step with labels succeeds, upgraded $n times under load"
for rank in 0 1 2; do
	lines $rank "$tmpdir/out" >"$tmpdir/got"
	ok "task $rank: each line is written once, in its order, over upgrades" cmp "$tmpdir/wanted" "$tmpdir/got"
done
is "$(grep -cv '^[0-2]: [0-9]*$' "$tmpdir/out")" 0 "no line is torn over upgrades"

# Lines that are not at their end when the program changes, and one without an end.
start_step --proctrack "$tracker" -l -n 2 -- sh -c '
	part() { printf "$1"; : >"$0/$2.$SLURM_PROCID"; until [ -e "$0/$2.go" ]; do sleep 0.02; done; }
	part "begun " 1; part "and " 2; echo ended; printf last' "$tmpdir"
for part in 1 2; do
	eventually sh -c "[ -e '$tmpdir/$part.0' ] && [ -e '$tmpdir/$part.1' ]"
	upgrade
	: >"$tmpdir/$part.go"
done
ended 0 "a step with unfinished lines succeeds over upgrades"
is "$(sort "$tmpdir/out" | tr '\n' '|')" "0: begun and ended|0: last|1: begun and ended|1: last|" \
	"unfinished lines are written whole over upgrades"

# A reader that takes nothing: the tasks end, the streams still flow.
mkfifo "$tmpdir/fifo"
seq 1 20000 >"$tmpdir/wanted"
put "$this"
: >"$tmpdir/err"
"$stepd" run --job "$job" --proctrack "$tracker" -l --result "$tmpdir/r" -- seq 1 20000 >"$tmpdir/fifo" 2>"$tmpdir/err" &
agent=$!
exec 8<"$tmpdir/fifo"
eventually running 0
tasks_gone() {
	[ "$(left_processes | wc -l)" -le 1 ] && [ -z "$("$stepctl" pids "$job.0" 2>/dev/null)" ]
}
eventually tasks_gone
ok "an agent that drains to a reader that takes nothing is upgraded" upgrade
ok "an agent that drains is upgraded twice" upgrade
cat <&8 >"$tmpdir/out"
exec 8<&-
ended 0 "an agent that drains ends when the rest is read"
lines 0 "$tmpdir/out" >"$tmpdir/got"
ok "no output is lost by upgrades while the agent drains" cmp "$tmpdir/wanted" "$tmpdir/got"

# The agent's standard input, handed out to three tasks, one of which is slow.
seq 1 150000 >"$tmpdir/wanted"
put "$this"
: >"$tmpdir/err"
{
	head -n 50000 "$tmpdir/wanted"
	sleep 0.5
	tail -n +50001 "$tmpdir/wanted" | head -n 50000
	sleep 0.5
	tail -n +100001 "$tmpdir/wanted"
} | "$stepd" run --job "$job" --proctrack "$tracker" -n 3 -- sh -c "
	if [ \$SLURM_PROCID = 1 ]; then
		while dd bs=20000 count=1 2>/dev/null >'$tmpdir/piece'; [ -s '$tmpdir/piece' ]; do
			cat '$tmpdir/piece'
			sleep 0.01
		done
	else
		cat
	fi >'$tmpdir/in'.\$SLURM_PROCID" 2>"$tmpdir/err" &
eventually running 0
agent=$(state_of 0 agent_pid)
upgrade_often 10
wait $!
diag "upgraded $n times while stdin was handed out"
for rank in 0 1 2; do
	ok "task $rank gets all input over upgrades" cmp "$tmpdir/wanted" "$tmpdir/in.$rank"
done

nothing_left "the job leaves no cgroup, process or file behind"
done_testing
