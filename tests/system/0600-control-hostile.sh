#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Hostile clients at the socket of a real step, of the agent's user and of another: a good client is
# answered in time beside each of them, and when they have gone the agent has the descriptors and the
# memory that it had, and the step its processes.
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

command -v python3 >/dev/null || skip_all "needs python3"
hostile="python3 $top_srcdir/tests/lib/hostile_clients.py"
varlink="python3 $top_srcdir/tests/lib/varlink.py"
kinds="thousand half stopped followers waiters pipeline noise nonsense descriptors storm"
# A machine that runs other things too; what a client could make the agent wait is without bound.
bound_ms=2000
least_calls=10
sanitizers=$(grep -c '^#define STEPD_SANITIZERS 1' "${top_builddir:?}/config.h")

step -n 3 -- sleep 600 &
launcher=$!
eventually running 0
dir=$(step_dir 0)
socket=$dir/socket

# A path that fits an address, wherever the tests run.
ln -s "$dir" "$tmpdir/step"
short=$tmpdir/step/socket

call() {
	$varlink call "$socket" "$@"
}

agent=$(call Describe | json_get - 'p["agent_pid"]')
ok "Describe has the agent's pid" test -d "/proc/$agent"
pids=$(call ListPids)

count_fds() {
	# shellcheck disable=SC2012 # names are numbers
	ls "/proc/$agent/fd" | wc -l
}

memory_kib() { # VmRSS or VmHWM, the most it was
	awk -v key="$1:" '$1 == key { print $2 }' "/proc/$agent/status"
}

# $kind and a good client side by side. ARG... are options of the hostile one.
attack() { # KIND NAME [ARG...]
	kind=$1 name=$2
	shift 2
	# shellcheck disable=SC2086
	$hostile good "$short" "$(rounds 1 2)" $((least_calls + 1)) >"$tmpdir/good" 2>&1 &
	good=$!
	# shellcheck disable=SC2086
	timeout 300 $hostile "$@" "$kind" "$short" "$(rounds 0.7 1.5)" >"$tmpdir/hostile" 2>&1
	hostile_status=$?
	if wait $good; then
		read -r calls median_ms most_ms <"$tmpdir/good"
		diag "$name: $calls good calls, median $median_ms ms, at most $most_ms ms"
		ok "a good client beside $name is answered in time" \
			awk "BEGIN { exit !($calls > $least_calls && $most_ms < $bound_ms) }"
	else
		not_ok "a good client beside $name is answered in time" "$(cat "$tmpdir/good")"
	fi
	is "$hostile_status" 0 "the hostile client $name ran to its end"
}

fds_before=$(count_fds)
memory_before=$(memory_kib VmRSS)
for kind in $kinds; do
	attack "$kind" "$kind"
done
if [ "$(id -u)" = 0 ]; then
	for kind in thousand half nonsense storm; do
		attack "$kind" "$kind of another user" --uid 65534
	done
	# He may have eight connections, and root has its own all the same.
	$hostile --uid 65534 thousand "$short" 900 &
	other=$!
	is_refused() {
		$varlink --uid 65534 call "$socket" org.varlink.service.GetInfo | grep -q TooManyConnections
	}
	eventually is_refused
	is "$($varlink --uid 65534 call "$socket" org.varlink.service.GetInfo | json_get - '[error, p["limit"] > 0]')" \
		'["io.stepd.Step.TooManyConnections", true]' "a user with too many connections is refused"
	is "$(call Describe | json_get - 'p["state"]')" running \
		"root is served beside a user with too many connections"
	kill $other
	wait $other 2>/dev/null
	is_served() {
		! is_refused
	}
	eventually is_served
	is "$($varlink --uid 65534 call "$socket" org.varlink.service.GetInfo | json_get - '"product" in p')" true \
		"a user is served once the user's other connections have closed"
	is "$($varlink --uid 65534 call "$socket" ListPids | json_get - '[error, p["method"], p["needs"]]')" \
		'["io.stepd.Step.PermissionDenied", "io.stepd.Step.ListPids", "ask"]' "a user without access is refused"
else
	skip 4 "another user needs root"
fi

# All at once: the agent is one of a dozen programs that want a processor.
bound_ms=10000
least_calls=2
pids_of_clients=
for kind in $kinds; do
	$hostile "$kind" "$short" 3 >/dev/null 2>&1 &
	pids_of_clients="$pids_of_clients $!"
done
attack noise "all of them at once"
for pid in $pids_of_clients; do
	wait "$pid"
done

# ---- what is left ------------------------------------------------------------------------------
as_many_fds() { [ "$(count_fds)" -le "$fds_before" ]; }
eventually as_many_fds
is "$(count_fds)" "$fds_before" "the agent has as many descriptors as before the hostile clients"
grown=$(($(memory_kib VmRSS) - memory_before))
most=$(($(memory_kib VmHWM) - memory_before))
diag "the agent had grown by $most KiB, and has now by $grown KiB"
if [ "$sanitizers" = 0 ]; then
	# 64 MiB of buffers, a call, and what malloc loses between them.
	ok "the agent's memory never grew beyond its bound" test $most -lt $((96 * 1024))
	ok "the agent returns the memory that hostile clients took" test $grown -lt $((16 * 1024))
else
	skip 2 "sanitizers keep freed memory"
fi
ticks=$(cpu_ticks "$agent")
sleep 1
ok "the agent uses no processor time without requests" test $(($(cpu_ticks "$agent") - ticks)) -le 2
is "$(call ListPids)" "$pids" "the step has the processes that it had before the hostile clients"

# ---- a call that never ends --------------------------------------------------------------------
begin=$(date +%s)
timeout 120 python3 - "$short" <<'END'
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b'{"method":"io.stepd')
s.settimeout(100)
sys.exit(0 if s.recv(1) == b"" else 1)
END
is $? 0 "a client that sends half a call is disconnected"
took=$(($(date +%s) - begin))
ok "a client that sends half a call is not disconnected before ten seconds" test $took -ge 9

is "$(call Terminate)" '{"parameters":{}}' "the step is ended through its socket"
wait "$launcher"
nothing_left "the step of hostile clients leaves no cgroup, process or file behind"
done_testing
