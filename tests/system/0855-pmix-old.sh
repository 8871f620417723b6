#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmix: clients of versions that libpmix does not serve get that in one sentence.

# shellcheck source=tests/lib/pmix.sh
. "${top_srcdir:?}/tests/lib/pmix.sh"

old() { # TASKS ARG...
	old_tasks=$1
	shift
	out=$(step --mpi pmix -n "$old_tasks" -- python3 "$top_srcdir/tests/lib/pmix_old.py" "$@" 2>&1)
	status=$?
}

sentence='error: mpi/pmix: rank [012] of stepd\.[0-9]*\.0 has libpmix [^ ]*'
old 3 hello 1.2.5
lines 3 '^old [012]: -1$' "a client of PMIx 1 is refused"
lines 1 "$sentence, which libpmix [0-9.a-z]* of this node can't serve: build its MPI library with PMIx 2\.[01] or newer" \
	"the refusal of clients of PMIx 1 is logged once, with the remedy"
lines 1 'has libpmix 1\.2\.5, ' "the refusal of a client of PMIx 1 has its version"
old 1 bytes
lines 1 'has libpmix 1\.1\.4, ' "the refusal of a client that sends slowly has its version"
old 1 hello 3.2.3
lines 1 "$sentence and could be served, but does not reach the server's port" \
	"a client that could be served at the other port is logged as such"

old 2 hostile
lines 2 '^hostile [01]: quiet$' "malformed messages are not answered"
lines 0 'rank 4000000000|no.such.job|%n' "malformed messages are not logged"
is "$status" 0 "malformed messages do not end the step"

# shellcheck disable=SC2016 # for the task's shell
out=$(step --mpi pmix -n 2 -- sh -c 'python3 "$0" hostile; exec "$1" modex collect' \
	"$top_srcdir/tests/lib/pmix_old.py" "$client" 2>&1)
lines 2 '^modex [01]: all$' "malformed messages do not disturb other clients"

# A socket's path can't hold a long name: then there is no such listener, and nothing else changes.
deep=$tmpdir/$(printf '%0100d' 0)
mkdir "$deep"
out=$(TMPDIR=$deep step --mpi pmix -- sh -c 'env; exec "$0" init' "$client" 2>&1)
lines 0 '^PMIX_SERVER_URI=' "tasks do not get the name of a socket that is too long"
lines 1 '^init 0: of 1$' "a step without a socket for old clients serves new ones"

nothing_left "the job leaves no cgroup, process or file behind"
done_testing
