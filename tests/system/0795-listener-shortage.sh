#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Sockets that listen while their process may open no file more: who connects waits, or is turned
# away, no processor spins for it, and all is served once there are descriptors again.
# shellcheck disable=SC2016 # for the tasks' shells
# shellcheck source=tests/lib/slurm.sh
. "${top_srcdir:?}/tests/lib/slurm.sh"

command -v prlimit >/dev/null || skip_all "prlimit is missing"

# Connects to HOST:PORT or a path, sends the text, and prints the first word of the answer.
cat >"$tmpdir/call.py" <<'PYTHON'
import socket, sys
address, text = sys.argv[1], sys.argv[2].encode() + b"\n"
if "/" in address:
    s = socket.socket(socket.AF_UNIX)
    s.connect(address)
else:
    s = socket.create_connection(address.rsplit(":", 1))
open(sys.argv[3], "w").close()
s.sendall(text)
try:
    print((s.recv(100).split() or [b"closed"])[0].decode(errors="replace"))
except ConnectionResetError:
    print("closed")
PYTHON
call() { # ADDRESS TEXT: begins it; the answer goes to $tmpdir/answer
	rm -f "$tmpdir/called"
	python3 "$tmpdir/call.py" "$1" "$2" "$tmpdir/called" >"$tmpdir/answer" &
	caller=$!
	eventually test -e "$tmpdir/called"
}

# For how much of half a second, which is the measure itself, a thread of a process has run or waited
# for a processor, in percent: who spins does nothing else, however loaded the machine is.
cat >"$tmpdir/load.py" <<'PYTHON'
import glob, sys, time
def busy_ns():
    busy = {}
    for path in glob.glob("/proc/%s/task/*/schedstat" % sys.argv[1]):
        with open(path, encoding="ascii") as f:
            running, waiting = f.read().split()[:2]
        busy[path] = int(running) + int(waiting)
    return busy
before, begun = busy_ns(), time.monotonic()
time.sleep(0.5)
after, took_ns = busy_ns(), (time.monotonic() - begun) * 1e9
print(max(int((after[path] - before.get(path, 0)) / took_ns * 100) for path in after))
PYTHON
[ -e /proc/self/schedstat ] || skip_all "this kernel does not count what threads wait for (CONFIG_SCHED_INFO)"
is_idle() { # PID NAME
	load=$(python3 "$tmpdir/load.py" "$1")
	ok "$2 (busy for $load %)" test "$load" -lt 60
}

shorten() { # PID: it can open nothing more
	full=$(prlimit --pid "$1" --nofile --output SOFT --noheadings | tr -d ' ')
	lowest=0
	while [ -e "/proc/$1/fd/$lowest" ]; do lowest=$((lowest + 1)); done
	prlimit --pid "$1" --nofile="${2:-$lowest}:"
}

restore() {
	prlimit --pid "$1" --nofile="$full:"
}

# Of the step whose agent is $agent.
find_service() {
	# shellcheck disable=SC2013 # words
	for child in $(cat "/proc/$agent"/task/*/children); do
		[ "$(cat "/proc/$child/comm" 2>/dev/null)" != stepd-mpi ] || service=$child
	done
}

begin() { # ARG... -- SCRIPT: a step whose agent is $agent; the task writes to $tmpdir/environ first
	rm -f "$tmpdir/environ" "$tmpdir/go"
	tmpdir=$tmpdir "$stepd" run -q --job "$job" --proctrack "$tracker" "$@" >"$tmpdir/out" 2>&1 &
	agent=$!
	eventually test -s "$tmpdir/environ"
	find_service
}
until_go='until [ -e "$tmpdir/go" ]; do sleep 0.05; done'

# ---- PMI over TCP ------------------------------------------------------------------------------
begin --mpi=pmi2 --pmi-tcp -n 1 -- sh -c \
	'echo "$PMI_PORT $PMI_ID" >"$tmpdir/new"; mv "$tmpdir/new" "$tmpdir/environ"; '"$until_go"
read -r port id <"$tmpdir/environ"
shorten "$service"
call "$port" "cmd=initack pmiid=$id"
is_idle "$service" "a PMI service that can't accept a connection sleeps"
restore "$service"
wait "$caller"
is "$(cat "$tmpdir/answer")" "cmd=initack" \
	"a client that connected to a PMI service without descriptors is served later"
: >"$tmpdir/go"
wait "$agent"

# ---- PMIx --------------------------------------------------------------------------------------
if [ -x "$top_builddir/tests/lib/pmixclient" ]; then
	client=$top_builddir/tests/lib/pmixclient begin --mpi=pmix -n 1 -- sh -c \
		'echo "$PMIX_SERVER_URI" >"$tmpdir/new"; mv "$tmpdir/new" "$tmpdir/environ"; '"$until_go"'
		timeout 300 "$client" init; timeout 300 "$client" init'
	shorten "$service"
	call "$(sed 's/.*://' "$tmpdir/environ")" hello
	is_idle "$service" "a PMIx service that can't accept a client of PMIx 1 sleeps"
	: >"$tmpdir/go"
	accepting() { # the thread that libpmix accepts on has tried
		[ "$(ss -Hltn "sport = :$pmix_port" | awk '{ print $2 }')" != 0 ]
	}
	pmix_port=$(tr '\0' '\n' <"/proc/$(state_of 0 'tasks[0]["pid"]')/environ" |
		sed -n 's|^PMIX_SERVER_URI41=.*:||p')
	if command -v ss >/dev/null; then
		eventually accepting
		ok "a client's connection waits in libpmix's queue" accepting
	else
		skip 1 "ss is missing"
	fi
	is_idle "$service" "libpmix's threads sleep while they can't accept a connection"
	restore "$service"
	wait "$agent"
	is $? 0 "a step whose PMIx service had no descriptors succeeds"
	is "$(grep -c '^init 0: of 1$' "$tmpdir/out")" 2 "a waiting client of PMIx is served, and the next one"
	end_child TERM "$caller"
	wait "$caller" 2>/dev/null
else
	skip 5 "built without mpi/pmix"
fi

# ---- Slurm's sockets ---------------------------------------------------------------------------
begin_agent n1 9.0 "$(id -u)"
begin_adapter
eventually has_socket n1_9.0
shorten "$adapter_pid" 3
call "$spool/n1_9.0" hello
is_idle "$adapter_pid" "an adapter that can't even turn a client away sleeps"
ok "an adapter that can't turn a client away does not flood its log" test "$(wc -l <"$tmpdir/adapter.log")" -lt 50
restore "$adapter_pid"
end_child TERM "$caller"
wait "$caller" 2>/dev/null
like "$(python3 -c 'import sys, slurm_client
print(slurm_client.Client(sys.argv[1], slurm_client.V26_11).state())' "$spool/n1_9.0" 2>&1)" '^[0-9]' \
	"an adapter serves clients once it has descriptors"
end_adapter
done_testing
