#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The MPI service process: what it is, what it gives to tasks, and what it may request of the agent.
. "${top_srcdir:?}/tests/lib/attendant.sh"

out=$(attended -q -n 3 --label -- sh -c 'echo "local $ATTEND_LOCAL, $SLURM_MPI_TYPE"' 2>&1)
is "$(echo "$out" | sort)" "0: local 0, attendant
1: local 1, attendant
2: local 2, attendant" "each task gets what the service has handed out for it, and SLURM_MPI_TYPE"
nothing_left "a step with a service process leaves no cgroup, process or file behind"

# ---- its standing ------------------------------------------------------------------------------
attended -n 1 -- sh -c 'echo "$ATTEND_STANDING"; cat /proc/self/cgroup' >"$tmpdir/out" 2>&1
is "$(standing uid)" "$(id -u)" "the service runs as the step's user"
is "$(standing strays)" 0 "the service has no descriptor of the agent"
is "$(standing dumpable)" 0 "the service is not dumpable"
is "$(standing nnp)" 1 "the service has no_new_privs"
is "$(standing name)" stepd-mpi "the service has a name of its own in ps(1)"
is "$(standing cwd)" / "the service's working directory is the root"
is "$(standing group)" 1 "the service is in a process group of its own"
is "$(standing environment)" cleared "the service does not have the agent's environment"
is "$(standing umask)" 077 "the service has the umask 077"
quarter=$(awk '/^MemTotal:/ {printf "%.0f", $2 * 1024 / 4}' /proc/meminfo)
ok "the service may use a quarter of the machine's memory" test "$(standing left)" -gt $((quarter * 3 / 4)) \
	-a "$(standing left)" -le "$quarter"
attended -n 1 --pmi-memory=64M -- sh -c 'echo "$ATTEND_STANDING"' >"$tmpdir/out" 2>&1
ok "--pmi-memory limits the service's memory" test "$(standing left)" -gt 48000000 -a "$(standing left)" -le 67108864
if [ "$(ulimit -d)" = unlimited ]; then
	attended -n 1 --pmi-memory=0 -- sh -c 'echo "$ATTEND_STANDING"' >"$tmpdir/out" 2>&1
	is "$(standing left)" -1 "--pmi-memory=0 does not limit the service's memory"
else
	skip 1 "there is a limit of data here"
fi
if [ "$(id -u)" -eq 0 ]; then
	attended -n 1 --uid nobody -- sh -c 'echo "$ATTEND_STANDING"' >"$tmpdir/out" 2>&1
	is "$(standing uid)" "$(id -u nobody)" "the service of another user's step runs as that user"
	is "$(standing gid)" "$(id -g nobody)" "the service of another user's step has that user's group"
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
like "$(cat "$tmpdir/out")" '^a terminal' "a task at a terminal keeps the terminal"
is "$(standing terminal)" 0 "the service at a terminal has no terminal open"
is "$(standing group)" 1 "the service at a terminal is in a process group of its own"
like "$(cat "$tmpdir/out")" '^sessions: 1' "the service at a terminal shares the tasks' session"

put "$this"
: >"$tmpdir/stay"
"$stepd" run --job "$job" --mpi attendant -n 2 -- \
	sh -c "echo \"\$ATTEND_STANDING\"; $until_gone" >"$tmpdir/out" 2>"$tmpdir/err" &
agent=$!
eventually running 0
written() { [ "$(grep -c ATTEND "$tmpdir/out")" -ge 0 ] && [ -n "$(standing pid)" ]; }
eventually written
service=$(standing pid)
is "$("$stepctl" pids "$job.0" | grep -cx "$service")" 0 "the service is no process of the step"
ok "the service runs beside the step" kill -0 "$service"
"$stepctl" signal --signal KILL "$job.0" >/dev/null 2>&1 || "$stepctl" signal KILL "$job.0" >/dev/null 2>&1
wait "$agent"
ok "the service ends with the step" eventually process_ended "$service"

# ---- its requests -----------------------------------------------------------------------------
out=$(attended -n 2 -- bash -c "$requests"'
	[ $SLURM_PROCID -eq 1 ] || exec sleep 30
	request abort 13; sleep 30' 2>&1)
is $? 13 "an abort ends the step with its code"
like "$out" 'a task wanted it\\x0aso' "an abort is reported with its reason, in one line"
nothing_left "an aborted step leaves no cgroup, process or file behind"
attended -n 1 --result "$tmpdir/r" -- bash -c "$requests request abort 256; sleep 30" 2>/dev/null
is $? 0 "an abort's code is cut to its low byte"
is "$(json_get "$tmpdir/r" reason)" abort "the reason of an aborted step is abort"

out=$(attended -n 3 -- bash -c "$requests"'
	trap "echo rank \$SLURM_PROCID got it; exit 0" USR1
	[ $SLURM_PROCID -eq 0 ] || { : >"$0.$SLURM_PROCID"; while :; do sleep 0.05; done; }
	until [ -e "$0.1" ] && [ -e "$0.2" ]; do sleep 0.02; done
	request signal USR1 1; answer
	request signal USR1 7; answer
	request signal NOSUCH 1; answer
	request signal KILL 2; answer' "$tmpdir/trapped" 2>&1)
like "$out" '^rank 1 got it' "a signal of the service reaches its rank"
is "$(echo "$out" | grep "^done" | tr '\n' ' ')" "done 0 done 3 done 22 done 0 " \
	"the service gets a reply to each signal: done, no such task, no such signal"

out=$(attended -n 2 -- bash -c "$requests"'
	[ $SLURM_PROCID -eq 0 ] || exit 3
	n=0; while [ $n -lt 1 ]; do request ends; n=$(answer); sleep 0.02; done
	echo "ends: $n"' 2>&1)
like "$out" '^ends: 1' "the service gets a task's end"

out=$(attended -n 1 -- bash -c "$requests request log hello there; answer" 2>&1)
like "$out" 'mpi/attendant: hello there' "a message of the service is in the step's log with its name"

# ---- what it can't do --------------------------------------------------------------------------
out=$(attended -n 1 -- bash -c "$requests request flood 5000; answer; echo still here" 2>&1)
is $? 0 "a flood of malformed messages does not end the step"
like "$out" '^still here' "the step goes on after a flood of malformed messages"
ok "the service's messages in the log are limited" test "$(echo "$out" | grep -c much)" -le 2000
like "$out" 'further lines are left out' "the limit of the service's messages is reported"
nothing_left "a flooded step leaves no cgroup, process or file behind"
done_testing
