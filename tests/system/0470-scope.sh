#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Where systemd is not the init: no scope, and no trace of libsystemd. And what an agent tells a
# service manager, whoever that is. Under systemd: tests/testbed/guest-scopes.sh.
. "${top_srcdir:?}/tests/lib/step.sh"

# ---- a service ---------------------------------------------------------------------------------

cat >"$tmpdir/manager.py" <<'END'
import os, socket, subprocess, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
s.settimeout(60)
p = subprocess.Popen(sys.argv[2:], env=dict(os.environ, NOTIFY_SOCKET=sys.argv[1]))
while True:
    text = s.recv(4096).decode()
    print(text, end="--\n", flush=True)
    if "READY=1" in text and "sleep" in sys.argv:
        p.terminate()
    if "ended" in text or "not started" in text:
        break
print("status", p.wait())
END
manager() {
	rm -f "$tmpdir/notify"
	timeout 300 python3 "$tmpdir/manager.py" "$tmpdir/notify" "$stepd" run -q --job "$job" --proctrack \
		"$tracker" "$@" 2>/dev/null
}
if command -v python3 >/dev/null; then
	is "$(manager -n 2 -- sh -c 'exit 3')" "READY=1
STATUS=step $job.0: running, 2 tasks
--
STOPPING=1
STATUS=step $job.0: ended (completed), exit status 3
--
status 3" "an agent tells its service manager that it is ready, and how the step ended"
	is "$(manager --kill-sequence TERM:7s,KILL --unkillable-timeout 4s -- sleep 99)" "READY=1
STATUS=step $job.0: running, 1 tasks
--
STOPPING=1
STATUS=step $job.0: ending (signal)
EXTEND_TIMEOUT_USEC=21000000
--
STOPPING=1
STATUS=step $job.0: ended (signal), exit status 143
--
status 143" "and how long its ending may take: the kill sequence, the unkillable timeout, 10 s"
	like "$(manager --output "$tmpdir/none/x" -- true)" "^STATUS=the step was not started: .*none/x" \
		"and why one can't be started"
else
	skip 3 "needs python3"
fi
out=$(NOTIFY_SOCKET=$tmpdir/nobody step -- true 2>&1)
is $? 0 "one that nobody listens to runs"
like "$out" "warning: can't tell the service manager .*ignoring" "and says so"
nothing_left "nothing is left"

# ---- no systemd --------------------------------------------------------------------------------

if [ -d /run/systemd/system ]; then
	skip 6 "systemd is the init here"
	done_testing
fi
[ "$tracker" = cgroup ] || {
	skip 6 "no cgroup can be used here"
	done_testing
}
out=$(step --scope yes -- true 2>&1)
is $? 125 "who wants a scope of systemd gets none"
like "$out" "no scope of systemd can be had for the step: (systemd is not the init|this stepd was built without)" \
	"which is said"
out=$(LD_DEBUG=files step -- true 2>&1)
is $? 0 "without that wish a step runs"
like "$out" "proctrack_cgroup.so" "what is loaded is seen"
unlike "$out" "libsystemd" "libsystemd is not"
out=$("$stepd" run --job "$job" --proctrack pgid --scope yes -- true 2>&1)
like "$out" "a scope of systemd is asked for, and proctrack/pgid knows of none" \
	"another tracker than cgroup has none"
out=$(step --scope yes --cgroup-root /sys/fs/cgroup -- true 2>&1)
like "$out" "a scope of systemd is asked for, and the root '/sys/fs/cgroup' too" "nor is there one with a root"
nothing_left "nothing is left"
done_testing
