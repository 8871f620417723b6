#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmix: groups by invitation, on one node and over two, which are agents on this machine: one
# that is made, and those that are not, since a rank declines, dies, or never answers. Nobody waits
# for these; their outcome is reported by events alone.

# shellcheck source=tests/lib/pmix.sh
. "${top_srcdir:?}/tests/lib/pmix.sh"

steprun=${top_builddir:?}/stepd/cli/steprun

on_nodes() { # NODES VERB ARG...
	on_count=$1
	shift
	if [ "$on_count" = 1 ]; then
		pmix 4 "$@"
		return
	fi
	# shellcheck disable=SC2086 # $options: several words
	out=$(timeout 300 "$steprun" --launcher=local --job "$job" --mpi=pmix -N "$on_count" -n 4 \
		$options "$client" "$@" 2>&1 | sort)
}

for count in 1 2; do
	options=
	on_nodes $count invite
	lines 3 '^invited [1-3]: to test-invited by 0$' "an invitation reaches all ranks on $count nodes"
	lines 1 '^invite 0: complete$' "the inviting rank gets the group's completion on $count nodes"
	lines 3 '^joined [1-3]: test-invited$' "the invited ranks get the group's completion on $count nodes"
	lines 4 '^members [0-3]: 4$' "the server knows the members of an invited group on $count nodes"
	lines 4 '^left [0-3]: (NOT-SUPPORTED|SUCCESS)$' "a rank that leaves an invited group is answered on $count nodes"
	lines 4 '^invite [0-3]: gone$' "an invited group can be destructed once on $count nodes"
	lines 4 '^members [0-3]: NOT-FOUND$' "a destructed group is not known on $count nodes"
	on_nodes $count uninvited decline
	lines 1 '^uninvited 0: .*DECLINED of 3$' "the inviting rank gets a declined invitation on $count nodes"
	lines 0 '^over' "a group with a declined invitation is not made on $count nodes"
	lines 4 '^served [0-3]: on$' "a declined invitation does not stop the ranks on $count nodes"
	on_nodes $count uninvited wait
	lines 4 '^served [0-3]: on$' "an unanswered invitation does not stop the ranks on $count nodes"
	options=-K0
	on_nodes $count uninvited die
	lines 1 '^uninvited 0: PROC-ABORTED-BY-SIG of 3$' "the inviting rank gets the death of an invited one on $count nodes"
	lines 3 '^served [0-2]: on$' "the other ranks go on after an invited one died on $count nodes"
done

nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
