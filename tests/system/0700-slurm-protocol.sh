#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Slurm's step sockets, request by request, for both ends of the range of versions and each one in
# between at which a format changes: with agents that are scripted, as a real one neither hangs nor
# talks nonsense.
# shellcheck source=tests/lib/slurm.sh
. "${top_srcdir:?}/tests/lib/slurm.sh"
[ "$(id -u)" = 0 ] || skip_all "needs root, for steps of several users"

# Under AddressSanitizer memory proves nothing.
STEPD_TEST_SANITIZERS=$(grep 'define STEPD_SANITIZERS' "${top_builddir:?}/config.h")
export STEPD_TEST_SANITIZERS
begin_agent n1 7.1 1234 error=WrongState
begin_agent n1 7.2 65534
begin_agent n1 7.3 1234 hang=all
begin_agent n1 7.4 1234 stop=yes
begin_agent n1 7.5 1234 garbage=nonsense
begin_agent n1 7.6 1234 pids=1000
i=0
for state in starting running suspended ending draining unkillable; do
	begin_agent n1 8.$i 1234 state=$state
	i=$((i + 1))
done
begin_agent n1 7.0 1234 pids=10000 "log=$tmpdir/calls"
begin_adapter
descriptors=$(find "/proc/$adapter_pid/fd" -type l | wc -l)

checks_of() {
	group=$1
	shift
	checks python3 "$top_srcdir/tests/lib/slurm_checks.py" "$group" "$spool" n1 "$@"
}

checks_of queries "$agent_pid"
checks_of states
: >"$tmpdir/calls"
checks_of actions
like "$(cat "$tmpdir/calls")" '"Signal", "parameters": \{"signal": "15", "leader": false\}' \
	"the agent gets the request to signal the step"
like "$(cat "$tmpdir/calls")" '"Terminate", "parameters": \{"kill_sequence": "KILL"\}' \
	"the agent gets the request to end the step at once"
like "$(cat "$tmpdir/calls")" '"Notify", "parameters": \{"message": "the job.s time limit is reached"\}' \
	"the agent gets the request to report the time limit"
checks_of pipeline
: >"$tmpdir/calls"
checks_of access
unlike "$(cat "$tmpdir/calls")" 'Signal|Terminate|Suspend|Resume|Notify' \
	"a request that a user may not make does not reach the agent"
checks_of garbage
checks_of disconnects
checks_of many
checks_of cap
checks_of slow
checks_of broken
checks_of resources "$adapter_pid" "$descriptors"

end_adapter
is "$adapter_status" 0 "the adapter ends by SIGTERM"
is "$(ls "$spool")" "" "the adapter leaves no socket behind"
begin_adapter --private
checks_of private
done_testing
