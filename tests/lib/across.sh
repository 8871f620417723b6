# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Steps over hosts whose tasks speak raw PMI, on top of nodes.sh:
#	talk NODES ARG...        a step over them that runs pmi_talk.py; see across
#	wide NODES ARG...        the same with pmi_across.py
#	all_have NAME            checks that each of the $tasks ranks got all values; $out, $status
#	begin NODES ARG...       wide, in the background, until all its ranks are there; $tasks of them
#	heard N                  whether N ranks at least have printed that their fence has failed
#	halt                     sends steprun the signal that ends it
#	finish                   waits for it: $out, $status
#	agent_of NODE, service_of NODE   the pid of its agent, of its MPI service process

# shellcheck source=tests/lib/nodes.sh
. "${top_srcdir:?}/tests/lib/nodes.sh"

command -v python3 >/dev/null || skip_all "needs python3"
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE
talk_py=$top_srcdir/tests/lib/pmi_talk.py
across_py=$top_srcdir/tests/lib/pmi_across.py
GO=$tmpdir/go
export GO
tasks=8
options=

# shellcheck disable=SC2086 # $options are several
run_ranks() { # PROGRAM NODES ARG...
	ranks_program=$1 ranks_nodes=$2
	shift 2
	across "$ranks_nodes" --mpi=pmi2 -n "$tasks" $options -- python3 "$ranks_program" "$@"
}

talk() {
	out=$(run_ranks "$talk_py" "$@" 2>&1)
	status=$?
}

wide() {
	out=$(run_ranks "$across_py" "$@" 2>&1)
	status=$?
}

all_have() {
	is "$status $(printf '%s\n' "$out" | grep -c '^ok rank .* has everything')" "0 $tasks" "$1"
	[ "$status" -eq 0 ] || diag "$out"
}

are_there() {
	[ "$(grep -c 'is there$' "$tmpdir/begun")" -eq "$tasks" ]
}

begin() {
	: >"$tmpdir/begun"
	rm -f "$GO"
	run_ranks "$across_py" "$@" >"$tmpdir/begun" 2>&1 &
	begun=$!
	eventually are_there || diag "not all are there: $(cat "$tmpdir/begun")"
	: >"$GO"
}

finish() {
	wait "$begun"
	# shellcheck disable=SC2034 # of those who read this
	status=$?
	out=$(cat "$tmpdir/begun")
}

agent_of() {
	json_get "$run/$1_$job.0/state.json" agent_pid
}

service_of() {
	pgrep -P "$(agent_of "$1")" stepd-mpi
}

heard() {
	[ "$(grep -c '^rank .* hears ' "$tmpdir/begun")" -ge "$1" ]
}

halt() { # timeout(1) forwards it
	kill "$(pgrep -P "$begun")"
}
