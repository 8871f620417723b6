# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Tests across hosts, on top of step.sh and tests/testbed/nodes:
#	on_nodes COUNT "$0" "$@"   the test goes on with that many hosts, or is skipped with a reason
#	across NODES ARG...        "steprun" in this test's job over the first NODES of them
#	printed COUNT REGEX NAME   checks that $status is 0, and that so many lines of $out match
#	and mpi.sh
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"
# shellcheck source=tests/lib/mpi.sh
. "${top_srcdir:?}/tests/lib/mpi.sh"

steprun=$top_builddir/stepd/cli/steprun

on_nodes() {
	[ -z "${STEPD_NODES-}" ] || return 0
	[ "$(id -u)" -eq 0 ] || skip_all "needs root, to make hosts"
	command -v ip >/dev/null || skip_all "needs ip(8), of iproute2"
	"$top_srcdir/tests/testbed/nodes" 1 true 2>"$tmpdir/err" || skip_all "no hosts can be made here: $(cat "$tmpdir/err")"
	nodes_count=$1
	shift
	rm -rf "$tmpdir"
	exec "$top_srcdir/tests/testbed/nodes" "$nodes_count" "$@"
}

across() {
	across_n=$1
	shift
	timeout 300 "$steprun" --job "$job" --hosts "node[1-$across_n]" --launcher 'exec:on-node %h %c' \
		--wire-ifname eth0 "$@"
}

# shellcheck disable=SC2154 # $status and $out are the tests'
printed() {
	is "$status, $(printf '%s\n' "$out" | grep -Ec "$2")" "0, $1" "$3"
	[ "$status" -eq 0 ] || diag "$out"
}
