#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The MPI service process: what it is, what it hands out, and what it may ask the agent for.
. "${top_srcdir:?}/tests/lib/attendant.sh"

out=$(attended -q -n 3 --label -- sh -c 'echo "local $ATTEND_LOCAL, $SLURM_MPI_TYPE"' 2>&1)
is "$(echo "$out" | sort)" "0: local 0, attendant
1: local 1, attendant
2: local 2, attendant" "each task gets what the service has handed out for it, and SLURM_MPI_TYPE"
nothing_left "and nothing is left"

# ---- its standing ------------------------------------------------------------------------------
attended -n 1 -- sh -c 'echo "$ATTEND_STANDING"; cat /proc/self/cgroup' >"$tmpdir/out" 2>&1
is "$(standing uid)" "$(id -u)" "it runs as the step's user"
is "$(standing strays)" 0 "it holds no descriptor of the agent's"
is "$(standing dumpable)" 0 "it is not dumpable"
is "$(standing nnp)" 1 "no program that it could execute gives it rights"
is "$(standing name)" stepd-mpi "ps(1) shows it by a name of its own"
is "$(standing cwd)" / "it holds no directory"
is "$(standing group)" 1 "a terminal's signals are not for it"
is "$(standing environment)" cleared "it does not have the agent's environment"
is "$(standing umask)" 077 "what files it makes are its user's alone"
quarter=$(awk '/^MemTotal:/ {printf "%.0f", $2 * 1024 / 4}' /proc/meminfo)
ok "it may grow by a quarter of the machine's memory" test "$(standing room)" -gt $((quarter * 3 / 4)) \
	-a "$(standing room)" -le "$quarter"
attended -n 1 --pmi-memory=64M -- sh -c 'echo "$ATTEND_STANDING"' >"$tmpdir/out" 2>&1
ok "or by what the step says" test "$(standing room)" -gt 48000000 -a "$(standing room)" -le 67108864
if [ "$(ulimit -d)" = unlimited ]; then
	attended -n 1 --pmi-memory=0 -- sh -c 'echo "$ATTEND_STANDING"' >"$tmpdir/out" 2>&1
	is "$(standing room)" -1 "or without limit"
else
	skip 1 "there is a limit of data here"
fi
if [ "$(id -u)" -eq 0 ]; then
	attended -n 1 --uid nobody -- sh -c 'echo "$ATTEND_STANDING"' >"$tmpdir/out" 2>&1
	is "$(standing uid)" "$(id -u nobody)" "with another user: it is that one"
	is "$(standing gid)" "$(id -g nobody)" "with that one's group"
else
	skip 2 "needs root"
fi

# on a terminal, which the tasks keep; with a session of its own, where the kernel shares the
# processors out by sessions, it would wait for its turn for long
cat >"$tmpdir/on-terminal" <<'END'
import pty, sys
sys.exit(pty.spawn(sys.argv[1:]) >> 8)
END
python3 "$tmpdir/on-terminal" "$stepd" run --job "$job" --mpi attendant -n 1 -- \
	sh -c ': </dev/tty && echo "a terminal"; echo "$ATTEND_STANDING"
		pid=${ATTEND_STANDING#pid=} pid=${pid%% *}
		echo "sessions: $(cut -d" " -f6 "/proc/$pid/stat" /proc/self/stat | uniq | wc -l)"' \
	>"$tmpdir/out" </dev/null 2>&1
like "$(cat "$tmpdir/out")" '^a terminal' "a step on a terminal"
is "$(standing terminal)" 0 "the service has none"
is "$(standing group)" 1 "and its signals are not for it"
like "$(cat "$tmpdir/out")" '^sessions: 1' "though it shares the session of the tasks"

put "$this"
: >"$tmpdir/stay"
"$stepd" run --job "$job" --mpi attendant -n 2 -- \
	sh -c "echo \"\$ATTEND_STANDING\"; $until_gone" >"$tmpdir/out" 2>"$tmpdir/err" &
agent=$!
eventually running 0
written() { [ "$(grep -c ATTEND "$tmpdir/out")" -ge 0 ] && [ -n "$(standing pid)" ]; }
eventually written
service=$(standing pid)
is "$("$stepctl" pids "$job.0" | grep -cx "$service")" 0 "it is none of the step's processes"
ok "though it is there" kill -0 "$service"
"$stepctl" signal --signal KILL "$job.0" >/dev/null 2>&1 || "$stepctl" signal KILL "$job.0" >/dev/null 2>&1
wait "$agent"
ok "it ends with the step" eventually gone "$service"

# ---- what it asks for --------------------------------------------------------------------------
out=$(attended -n 2 -- bash -c "$ask"'
	[ $SLURM_PROCID -eq 1 ] || exec sleep 30
	ask abort 13; sleep 30' 2>&1)
is $? 13 "an abort ends the step with its code"
like "$out" 'a task wanted it\\x0aso' "and says why, in one line"
nothing_left "and leaves nothing"
attended -n 1 --result "$tmpdir/r" -- bash -c "$ask ask abort 256; sleep 30" 2>/dev/null
is $? 0 "a code is that of an exit status: its low byte"
like "$(cat "$tmpdir/r")" '"reason": *"abort"' "and the result tells it from an end of its own"

out=$(attended -n 3 -- bash -c "$ask"'
	trap "echo rank \$SLURM_PROCID got it; exit 0" USR1
	[ $SLURM_PROCID -eq 0 ] || { while :; do sleep 0.05; done; }
	sleep 0.3
	ask signal USR1 1; answer
	ask signal USR1 7; answer
	ask signal NOSUCH 1; answer
	ask signal KILL 2; answer' 2>&1)
like "$out" '^rank 1 got it' "a signal reaches the rank that it is for"
is "$(echo "$out" | grep "^done" | tr '\n' ' ')" "done 0 done 3 done 22 done 0 " \
	"and each is answered: done, no such task, no such signal"

out=$(attended -n 2 -- bash -c "$ask"'
	[ $SLURM_PROCID -eq 0 ] || exit 3
	n=0; while [ $n -lt 1 ]; do ask ends; n=$(answer); sleep 0.02; done
	echo "ends: $n"' 2>&1)
like "$out" '^ends: 1' "it is told of a task's end"

out=$(attended -n 1 -- bash -c "$ask ask log hello there; answer" 2>&1)
like "$out" 'mpi/attendant: hello there' "what it says stands in the step's log, with its name"

# ---- what it can't do --------------------------------------------------------------------------
out=$(attended -n 1 -- bash -c "$ask ask flood 5000; answer; echo still here" 2>&1)
is $? 0 "a flood of what is no message does not harm"
like "$out" '^still here' "the step goes on"
ok "and its share of the log is limited" test "$(echo "$out" | grep -c much)" -le 2000
like "$out" 'its further ones are left out' "which is said"
nothing_left "and nothing is left"
done_testing
