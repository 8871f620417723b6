#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A service process in the hands of somebody who means harm: the agent takes none.
. "${top_srcdir:?}/tests/lib/attendant.sh"

cp "$top_builddir/tests/lib/plugins/mpi_hostile.so" "$tmpdir/plugins/" || bail "make check builds it"

# shellcheck disable=SC2016 # for the task's shell
through='read -r a <&$HOSTILE_FD; read -r a n busy <&$HOSTILE_FD;'

hostile() { # MOOD ARG...
	mood=$1
	shift
	STEP_HOSTILE=$mood step --mpi hostile "$@"
}

# Of the agent, in kB: its peak of memory, and its descriptors.
# shellcheck disable=SC2016
look='agent=$PPID; peak=$(sed -n "s/VmHWM:[^0-9]*\([0-9]*\).*/\1/p" /proc/$agent/status); fds=$(ls /proc/$agent/fd | wc -l);'
peak_of() { echo "$1" | sed -n 's/.*peak \([0-9]*\).*/\1/p'; }

out=$(hostile quiet -n 1 -- bash -c "$through $look"'echo "peak $peak fds $fds"')
quiet=$(peak_of "$out")
quiet_fds=$(echo "$out" | sed -n 's/.*fds \([0-9]*\).*/\1/p')
ok "one that does nothing" test -n "$quiet"

# kB that the agent may grow by. Sanitizers keep what is freed.
least=40000
most=100000
if grep -q '^#define STEPD_SANITIZERS 1' "${top_builddir:?}/config.h"; then
	least=1000000
	most=1000000
fi

# ---- its beginning ------------------------------------------------------------------------------
out=$(hostile greedy -n 1 -- true 2>&1)
is $? 125 "one that hands out environment without end: the step does not start"
like "$out" 'hands out more than 1048576 bytes of environment for all tasks' "and why is said"
nothing_left "and nothing is left"
out=$(hostile full -n 1 -- true 2>&1)
is $? 0 "half of it may be"

# ---- what it asks for ---------------------------------------------------------------------------
out=$(hostile storm -n 1 -- bash -c "$through $look"'echo "peak $peak"' 2>&1)
is $? 0 "signals to very many, whose answers it does not read: the step goes on"
ok "the agent's memory does not grow with them" test "$(peak_of "$out")" -lt $((quiet + least))
nothing_left "and nothing is left"

out=$(hostile thrower -n 1 -- bash -c "$through $look"'echo "fds $fds"' 2>&1)
is $? 0 "descriptors that it throws"
like "$out" "^fds $quiet_fds\$" "are not kept"
is "$(echo "$out" | grep -c caught)" 0 "nor is what they come with obeyed"
like "$out" 'thrown' "but what comes after it"

out=$(hostile crowd -n 1 -- bash -c "$through $look"'echo "peak $peak"' 2>&1)
is $? 0 "spawns that can't be: the step goes on"
like "$out" 'the environments of a spawn can have [0-9]* bytes on a node' \
	"those that would take too much memory are refused"
ok "and take little" test "$(peak_of "$out")" -lt $((quiet + most))
ok "the log has its share of them, and no more" test "$(echo "$out" | wc -l)" -le 2010
like "$out" 'its further ones are left out' "which is said"
nothing_left "and nothing is left"

for seed in $(rounds 1 "1 2 3 4 5 6"); do
	out=$(STEP_HOSTILE_SEED=$seed STEP_HOSTILE_COUNT=3000 \
		hostile fuzz -q -n 2 -- bash -c 'trap "" URG CONT
		[ $SLURM_PROCID -eq 0 ] || exit 0
		'"$through"' echo "answers $n"; exit 7' 2>&1)
	is $? 7 "3000 made-up messages, seed $seed"
	like "$out" '^answers [1-9]' "many of which are answered"
done
nothing_left "and nothing is left"

out=$(hostile empty -n 1 -- bash -c "$through exit 3")
is $? 3 "a message of no bytes"

# ---- its end ------------------------------------------------------------------------------------
draining() { "$stepctl" show "$job.0" 2>/dev/null | grep -q draining; }
stays() { # MOOD ARG...
	put "$this"
	mood=$1
	shift
	STEP_HOSTILE=$mood "$stepd" run --job "$job" --proctrack "$tracker" --mpi hostile "$@" \
		>"$tmpdir/out" 2>&1 &
	agent=$!
}

stays stay -n 1 -- true
ok "one that does not end when the tasks have: the agent waits for it" eventually draining
like "$("$stepctl" signal USR1 "$job.0" 2>&1)" 'needed by other nodes' "and says so"
ok "it can be told not to" "$stepctl" terminate "$job.0"
wait "$agent"
is $? 0 "then it ends, as its tasks did"
like "$(cat "$tmpdir/out")" 'does not end: killing it' "and the service with it"
nothing_left "and nothing is left"

stays stay --time-limit 1s -n 1 -- true
wait "$agent"
is $? 0 "or the time limit tells it"
like "$(cat "$tmpdir/out")" 'not waiting for the step.s other nodes any longer' "which is said"
nothing_left "and nothing is left"

stays stop -n 1 -- true
eventually draining
kill -TERM "$agent"
kill -TERM "$agent"
wait "$agent"
is $? 0 "one that stands still: SIGTERM ends the agent's wait"
nothing_left "and nothing is left"
done_testing
