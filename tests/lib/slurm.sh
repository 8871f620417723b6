# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# For tests of contrib/slurm, on top of step.sh:
#	$adapter            the program
#	$spool              a spool directory of the test's own, which the adapter makes
#	begin_adapter ARG...  starts it for $run and $spool, and waits until it listens; $adapter_pid
#	end_adapter         ends it; $adapter_status
#	begin_agent NODE JOB.STEP UID [KEY=VALUE...]  a scripted agent (slurm_agent.py); $agent_pid
#	has_socket NAME     whether a socket of that name is in $spool
#	checks COMMAND...   runs a program that prints "ok NAME" and "not ok NAME: WHY" lines

# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

command -v python3 >/dev/null || skip_all "needs python3"
adapter=${top_builddir:?}/contrib/slurm/stepd-slurm-socket
# shellcheck disable=SC2154 # of tap.sh
spool=$tmpdir/spool
adapter_pid=
PYTHONPATH=$top_srcdir/tests/lib
PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH PYTHONDONTWRITEBYTECODE

begin_adapter() {
	"$adapter" -v --runtime-dir "$run" --spool "$spool" "$@" 2>>"$tmpdir/adapter.log" &
	adapter_pid=$!
	eventually adapter_listens || bail "the adapter does not start: $(cat "$tmpdir/adapter.log")"
}

# Not the lock's name alone: the steps that live have their sockets when this is logged.
adapter_listens() {
	kill -0 "$adapter_pid" && [ "$(grep -c 'sockets are in' "$tmpdir/adapter.log")" -gt "$adapters" ] &&
		adapters=$((adapters + 1))
}
adapters=0

end_adapter() {
	[ -n "$adapter_pid" ] || return 0
	end_child TERM "$adapter_pid"
	wait "$adapter_pid"
	# shellcheck disable=SC2034 # for the tests
	adapter_status=$?
	adapter_pid=
}

agents=
begin_agent() {
	rm -f "$tmpdir/agent.$1_$2" # which has "ready" of the one before
	python3 "$top_srcdir/tests/lib/slurm_agent.py" "$run" "$@" >"$tmpdir/agent.$1_$2" &
	agent_pid=$!
	agents="$agents $agent_pid"
	eventually grep -q ready "$tmpdir/agent.$1_$2" || bail "no scripted agent"
}

end_agents() {
	for pid in $agents; do
		end_child KILL "$pid"
	done
	# shellcheck disable=SC2086 # pids; without one it would wait for the adapter
	[ -z "$agents" ] || wait $agents 2>/dev/null
	agents=
}

has_socket() {
	[ -S "$spool/$1" ]
}

no_socket() {
	[ ! -e "$spool/$1" ]
}

checks() {
	"$@" >"$tmpdir/checks" 2>&1
	checks_status=$?
	while IFS= read -r line; do
		case $line in
		'ok '*) ok "${line#ok }" ;;
		'not ok '*) not_ok "${line#not ok }" ;;
		*) diag "$line" ;;
		esac
	done <"$tmpdir/checks"
	is "$checks_status" 0 "the program of checks ran to its end"
}

end_all() {
	end_agents
	end_adapter
}
at_exit end_all
