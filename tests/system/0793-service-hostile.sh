#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A service process in the hands of somebody who means harm: the agent takes none.
. "${top_srcdir:?}/tests/lib/attendant.sh"

# shellcheck disable=SC2016 # for the task's shell
through='read -r a <&$HOSTILE_FD; read -r a n busy <&$HOSTILE_FD;'

# Of the agent, in kB: its peak of memory, and its descriptors.
# shellcheck disable=SC2016
measure='agent=$PPID; peak=$(sed -n "s/VmHWM:[^0-9]*\([0-9]*\).*/\1/p" /proc/$agent/status); fds=$(ls /proc/$agent/fd | wc -l);'
peak_of() { echo "$1" | sed -n 's/.*peak \([0-9]*\).*/\1/p'; }

out=$(hostile quiet -n 1 -- bash -c "$through $measure"'echo "peak $peak fds $fds"')
quiet=$(peak_of "$out")
quiet_fds=$(echo "$out" | sed -n 's/.*fds \([0-9]*\).*/\1/p')
ok "a step with a service that does nothing shows the agent's memory" test -n "$quiet"

# kB that the agent may grow by. Sanitizers keep what is freed.
least=40000
most=100000
if grep -q '^#define STEPD_SANITIZERS 1' "${top_builddir:?}/config.h"; then
	least=1000000
	most=1000000
fi

# ---- its beginning ------------------------------------------------------------------------------
out=$(hostile greedy -n 1 -- true 2>&1)
is $? 125 "a service that hands out environment without end fails the step"
like "$out" 'hands out more than 1048576 bytes of environment for all tasks' \
	"the refusal of environment without end has the reason"
nothing_left "a service that hands out environment without end leaves nothing behind"
out=$(hostile full -n 1 -- true 2>&1)
is $? 0 "a service may hand out half a megabyte of environment"

# ---- its requests ------------------------------------------------------------------------------
out=$(STEP_HOSTILE_COUNT=$(rounds 500 2000) hostile storm -n 1 -- bash -c "$through $measure"'echo "peak $peak"' 2>&1)
is $? 0 "a step whose service signals very many without reading replies goes on"
ok "unread replies to signals do not let the agent's memory grow" test "$(peak_of "$out")" -lt $((quiet + least))
nothing_left "a service that does not read replies leaves no cgroup, process or file behind"

out=$(hostile thrower -n 1 -- bash -c "$through $measure"'echo "fds $fds"' 2>&1)
is $? 0 "a step whose service sends descriptors goes on"
# Its own differ by some, as the launch ends while the task runs; a message brings 128.
ok "the agent closes descriptors that the service sends" \
	test "$(echo "$out" | sed -n 's/^fds //p')" -lt $((quiet_fds + 32))
is "$(echo "$out" | grep -c caught)" 0 "the agent ignores a message that comes with descriptors"
like "$out" 'thrown' "the agent handles a message that comes after descriptors"

out=$(hostile crowd -n 1 -- bash -c "$through $measure"'echo "peak $peak"' 2>&1)
is $? 0 "a step whose service requests impossible spawns goes on"
like "$out" 'the environments of a spawn can have [0-9]* bytes on a node' \
	"spawns that need too much memory are refused"
ok "refused spawns do not let the agent's memory grow" test "$(peak_of "$out")" -lt $((quiet + most))
ok "the log has a limited number of refused spawns" test "$(echo "$out" | wc -l)" -le 2010
like "$out" 'further lines are left out' "the limit of messages of refused spawns is reported"
nothing_left "refused spawns leave no cgroup, process or file behind"

for seed in $(rounds 1 "1 2 3 4 5 6"); do
	out=$(STEP_HOSTILE_SEED=$seed STEP_HOSTILE_COUNT=$(rounds 1000 3000) \
		hostile fuzz -q -n 2 -- bash -c 'trap "" URG CONT
		[ $SLURM_PROCID -eq 0 ] || exit 0
		'"$through"' echo "answers $n"; exit 7' 2>&1)
	is $? 7 "a step whose service sends made-up messages goes on, seed $seed"
	like "$out" '^answers [1-9]' "the agent answers made-up messages, seed $seed"
done
nothing_left "made-up messages leave no cgroup, process or file behind"

out=$(hostile empty -n 1 -- bash -c "$through exit 3")
is $? 3 "a step whose service sends an empty message goes on"

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
ok "the agent waits for a service that does not end with the tasks" eventually draining
like "$("$stepctl" signal USR1 "$job.0" 2>&1)" 'needed by other nodes' \
	"a signal to a step that waits for its service is refused with the reason"
ok "terminate of a step that waits for its service succeeds" "$stepctl" terminate "$job.0"
wait "$agent"
is $? 0 "terminate ends the wait for the service with the tasks' status"
like "$(cat "$tmpdir/out")" 'does not end: killing it' "terminate kills a service that does not end"
nothing_left "a service that does not end leaves no cgroup, process or file behind"

stays stay --time-limit 1s -n 1 -- true
wait "$agent"
is $? 0 "the time limit ends the wait for the service with the tasks' status"
like "$(cat "$tmpdir/out")" 'not waiting for the step.s other nodes any longer' \
	"the end of the wait for the service is reported"
nothing_left "a service ended by the time limit leaves no cgroup, process or file behind"

stays stop -n 1 -- true
eventually draining
kill -TERM "$agent"
kill -TERM "$agent"
wait "$agent"
is $? 0 "SIGTERM ends the wait for a stopped service"
nothing_left "a stopped service leaves no cgroup, process or file behind"
done_testing
