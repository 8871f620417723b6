#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The units beside the steps': stepd-clean.timer and its service, stepd-slurm-socket.service.
. "${top_srcdir:?}/tests/lib/step.sh"

units=/run/systemd/system
spool=/run/stepd-slurm
# Where the unit's own /tmp and /home don't hide it.
cp "$top_builddir/contrib/slurm/stepd-slurm-socket" /usr/local/sbin/
sed "s|@sbindir@|/usr/local/sbin|" "$top_srcdir/contrib/slurm/stepd-slurm-socket.service.in" \
	>$units/stepd-slurm-socket.service
sed "s|@stepctl@|$stepctl|" "$top_srcdir/systemd/stepd-clean.service.in" >$units/stepd-clean.service
cp "$top_srcdir/systemd/stepd-clean.timer" "$top_srcdir/systemd/stepd.slice" $units/
names="stepd-clean.service stepd-clean.timer stepd-slurm-socket.service"
# shellcheck disable=SC2086 # words
is "$(cd $units && systemd-analyze verify --man=no $names 2>&1)" "" "systemd-analyze finds no fault in the units"
systemctl daemon-reload
systemd-tmpfiles --create "$top_srcdir/systemd/stepd.conf"
unset STEPD_RUNTIME_DIR # units have the default
run=/run/stepd

# ---- tidying up ----------------------------------------------------------------------------------
left_behind() { # a step whose agent and tasks were killed
	"$stepd" run -q --job "$job" --proctrack "$tracker" -- sleep 600 &
	agent=$!
	eventually running 0 || bail "no step runs"
	task=$("$stepctl" pids "$job.0")
	kill -9 $agent
	wait $agent 2>/dev/null
	# shellcheck disable=SC2086 # pids
	kill -9 $task
}
tidy() {
	[ -z "$(find /sys/fs/cgroup $run -name "*$job*")" ]
}
failed() {
	systemctl list-units --plain --no-legend --failed 'stepd-*'
}

left_behind
fails "a step is left behind" tidy
ok "the service starts, and ends well" timeout 60 systemctl start stepd-clean.service
ok "it tidies up" tidy

# The timer's own times are for a node; here it need not be waited for.
mkdir -p $units/stepd-clean.timer.d
cat >$units/stepd-clean.timer.d/soon.conf <<'E'
[Timer]
OnBootSec=
OnUnitInactiveSec=
OnActiveSec=1s
RandomizedDelaySec=0
AccuracySec=100ms
E
systemctl daemon-reload
left_behind
systemctl start stepd-clean.timer
ok "the timer has it done" eventually tidy
systemctl stop stepd-clean.timer
rm -r $units/stepd-clean.timer.d
systemctl daemon-reload
systemctl start stepd-clean.timer
next=$(systemctl show -P NextElapseUSecMonotonic stepd-clean.timer)
isnt "$next" "" "the timer waits for its next time ($next)"
systemctl stop stepd-clean.timer
is "$(failed)" "" "the timer leaves no failed unit"

# ---- sockets for Slurm's clients -----------------------------------------------------------------
unit='stepd-slurm-socket.service'
shows() { # PROPERTY
	systemctl show -P "$1" $unit
}
connects() {
	perl -MIO::Socket::UNIX -e 'exit !IO::Socket::UNIX->new(Peer => $ARGV[0])' "$spool"/*_"$job.0"
}
"$stepd" run -q --job "$job" --proctrack "$tracker" -- sleep 600 &
agent=$!
eventually running 0
ok "the adapter starts, and is ready" timeout 60 systemctl start $unit
is "$(shows ActiveState)" active "the adapter's unit is active"
ok "a step has a socket, at which it answers" eventually connects
main=$(shows MainPID)
[ "$main" -gt 1 ] || bail "its pid is '$main'"
kill -9 "$main"
again() {
	[ "$(shows ActiveState)" = active ] && [ "$(shows MainPID)" != "$main" ] && connects
}
ok "killed, it is started again, and answers" eventually again
ok "the step goes on" kill -0 $agent
"$stepctl" terminate --now "$job.0"
wait $agent
no_socket() {
	[ -z "$(find $spool -name "*_$job.0")" ]
}
ok "the socket goes with the step" eventually no_socket
ok "stopped" timeout 60 systemctl stop $unit
is "$(shows Result)" success "the adapter's unit ends with success"
ok "and leaves nothing" test ! -e $spool
is "$(failed)" "" "the adapter leaves no failed unit"
ok "nothing is left of the step" tidy
# shellcheck disable=SC2086 # words
(cd $units && rm $names stepd.slice)
rm /usr/local/sbin/stepd-slurm-socket
systemctl daemon-reload
done_testing
