#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A step as an instance of stepd@.service: ready, its status, stopped, failed, its agent killed.
. "${top_srcdir:?}/tests/lib/step.sh"

unit=stepd@$job.service
result=/run/stepd/results/$job.json
sed "s|@sbindir@/stepd|$stepd|" "$top_srcdir/systemd/stepd@.service.in" >/run/systemd/system/stepd@.service
cp "$top_srcdir/systemd/stepd.slice" /run/systemd/system/
is "$(systemd-analyze verify --man=no "/run/systemd/system/$unit" /run/systemd/system/stepd.slice 2>&1)" "" \
	"systemd-analyze finds no fault in the units"
systemctl daemon-reload
systemd-tmpfiles --create "$top_srcdir/systemd/stepd.conf"
is "$(stat -c '%a %U' /run/stepd /run/stepd/specs /run/stepd/results)" "755 root
700 root
755 root" "the directories are there"
unset STEPD_RUNTIME_DIR # the unit's agent has the default
run=/run/stepd
left() { # NAME
	rm -f "/run/stepd/specs/$job.json" "$result"
	for kept in /run/stepd/*_"$job".*; do # the node daemon may ask for it later
		[ "$(ls "$kept" 2>/dev/null)" != result.json ] || rm -r "$kept"
	done
	is "$(find /sys/fs/cgroup /run/stepd -name "*$job*"; left_processes)" "" "$1"
}

spec() { # MORE SCRIPT
	cat >"/run/stepd/specs/$job.json" <<E
{"version": 1, "job": $job, "step": 0, "ntasks": 2, $1
 "env": {"STEPD_TEST_JOB": "$job", "PATH": "/usr/bin:/bin"}, "argv": ["sh", "-c", "$2"]}
E
}
shows() { # PROPERTY
	systemctl show -P "$1" "$unit"
}
members() {
	for pid in $("$stepctl" pids "$job.0"); do
		echo "$pid $(grep ^0:: "/proc/$pid/cgroup")"
	done
}
listed() { # COUNT
	[ "$("$stepctl" pids "$job.0" | wc -l)" = "$1" ]
}

# SIGTERM goes to the agent alone, whose kill sequence takes longer than the unit's own limit.
mkdir -p /run/systemd/system/stepd@.service.d
printf '[Service]\nTimeoutStopSec=2s\n' >/run/systemd/system/stepd@.service.d/short.conf
systemctl daemon-reload
spec '"kill_sequence": [{"signal": "TERM", "wait_ms": 5000}, {"signal": "KILL"}],' \
	"trap : TERM; while :; do sleep 1; done"
ok "an instance of the unit starts, and is ready" timeout 60 systemctl start "$unit"
is "$(shows ActiveState)" active "a started instance is active"
is "$(shows StatusText)" "step $job.0: running, 2 tasks" "an instance's status is the step's"
main=$(shows MainPID)
like "$(members)" "^[0-9]+ 0::/stepd.slice/$unit/stepd/job_$job/step_0/task_1\$" "the step is below the unit's cgroup"
bounding() { # PID
	printf '%d' "0x$(sed -n 's/^CapBnd:[^0-9a-f]*//p' "/proc/$1/status")"
}
# CAP_MAC_OVERRIDE and so on, by their numbers in <linux/capability.h>
dropped=$((1 << 16 | 1 << 17 | 1 << 22 | 1 << 25 | 1 << 30 | 1 << 32 | 1 << 33 | 1 << 34 | 1 << 35))
is "$(bounding "$main")" "$(($(bounding $$) & ~dropped))" "the unit drops the capabilities that no step needs"
begin=$(date +%s)
systemctl --no-block stop "$unit"
ending() {
	[ "$(shows StatusText)" = "step $job.0: ending (signal)" ]
}
ok "stopped: its status says so" eventually ending
ok "stopping an instance waits for the kill sequence" timeout 60 systemctl stop "$unit"
took=$(($(date +%s) - begin))
ok "stopped: it took $took s, not the unit's 2" test $took -ge 5
is "$(shows Result)" success "a stopped instance is no failed unit"
like "$(cat "$result")" '"reason": "signal"' "a stopped instance writes the result"
like "$(cat /run/stepd/*_"$job".0/result.json)" '"reason": "signal"' "a stopped instance retains the result"
left "stopped: nothing is left"

spec '' "exit 3"
systemctl start "$unit"
eventually test -s "$result"
like "$(cat "$result")" '"exit_code": 3' "a step that fails has its result"
is "$(systemctl list-units --plain --no-legend --failed 'stepd@*')" "" "a step that fails leaves no failed unit"

spec '"uid": "nobody-of-that-name",' true
fails "an instance whose step can't be started fails" timeout 60 systemctl start "$unit"
journalctl --sync
like "$(journalctl -o export "STEPD_STEP=$job.0" PRIORITY=3 2>&1)" "^MESSAGE=.*nobody-of-that-name" \
	"the journal has why a step can't be started, with its step and priority"

spec '' "exec sleep 99"
systemctl start "$unit"
eventually listed 2
before=$(members)
main=$(shows MainPID)
[ "$main" -gt 1 ] || bail "the agent's pid is '$main'"
kill -9 "$main"
failed() {
	[ "$(shows ActiveState)" = failed ]
}
ok "its agent killed: the unit has failed" eventually failed
is "$(members)" "$before" "the tasks of an instance's killed agent live"
fails "an instance is not started again beside the tasks of its killed agent" timeout 60 systemctl start "$unit"
is "$(members)" "$before" "the tasks of a killed agent live on after the refused start"
systemctl kill --kill-whom=all --signal=KILL "$unit"
unit_empty() {
	[ -z "$(find /sys/fs/cgroup -name "$unit")" ]
}
ok "all killed: systemd removes the group" eventually unit_empty
rm -rf /run/stepd/*_"$job".0
left "all killed: nothing is left"
rm -r /run/systemd/system/stepd@.service /run/systemd/system/stepd@.service.d /run/systemd/system/stepd.slice
systemctl daemon-reload
done_testing
