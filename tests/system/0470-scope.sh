#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Where systemd is not the init: no scope, and no trace of libsystemd. And the notifications of an agent to a
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
status 3" "an agent notifies its service manager of its readiness and of the step's end"
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
status 143" "an agent requests time of its service manager: the kill sequence, the unkillable timeout, 10 s"
	like "$(manager --output "$tmpdir/none/x" -- true)" "^STATUS=the step was not started: .*none/x" \
		"an agent notifies its service manager why the step was not started"
else
	skip 3 "needs python3"
fi
out=$(NOTIFY_SOCKET=$tmpdir/nobody step -- true 2>&1)
is $? 0 "a step runs though no service manager listens"
like "$out" "warning: can't notify the service manager .*ignoring" \
	"a service manager that does not listen is reported"
nothing_left "a step that notifies leaves no cgroup, process or file behind"

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
is $? 125 "--scope yes is refused without systemd"
like "$out" "no scope of systemd can be had for the step: (systemd is not the init|this stepd was built without)" \
	"the refusal of --scope yes has the reason"
out=$(LD_DEBUG=files step -- true 2>&1)
is $? 0 "a step without --scope runs without systemd"
like "$out" "proctrack_cgroup.so" "the loader's trace shows the tracker's plugin"
unlike "$out" "libsystemd" "libsystemd is not loaded without systemd"
out=$("$stepd" run --job "$job" --proctrack pgid --scope yes -- true 2>&1)
like "$out" "a scope of systemd is requested, and proctrack/pgid has none" \
	"--scope yes is refused with another tracker than cgroup"
out=$(step --scope yes --cgroup-root /sys/fs/cgroup -- true 2>&1)
like "$out" "a scope of systemd is requested, and the root '/sys/fs/cgroup' too" \
	"--scope yes is refused with a cgroup root"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
