#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmix: groups by invitation, on one node and over two, which are agents on this machine: one
# that is made, and those that are not, since a rank declines, dies, or never answers. Nobody waits
# for these; what becomes of them is told by events alone.

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
	lines 3 '^invited [1-3]: to test-invited by 0$' "an invitation reaches all ranks: nodes: $count"
	lines 1 '^invite 0: complete$' "who has invited hears of all that come"
	lines 3 '^joined [1-3]: test-invited$' "they hear that the group is complete"
	lines 4 '^members [0-3]: 4$' "and the server knows its members"
	lines 4 '^left [0-3]: (NOT-SUPPORTED|SUCCESS)$' "who leaves it is answered"
	lines 4 '^invite [0-3]: gone$' "it can be destructed, once"
	lines 4 '^members [0-3]: NOT-FOUND$' "and is not known any more"
	on_nodes $count uninvited decline
	lines 1 '^uninvited 0: .*DECLINED of 3$' "that a rank declines is told to who has invited it"
	lines 0 '^over' "and the group is not made"
	lines 4 '^served [0-3]: on$' "which holds nobody up"
	on_nodes $count uninvited wait
	lines 4 '^served [0-3]: on$' "nor does an invitation that is never answered"
	options=-K0
	on_nodes $count uninvited die
	lines 1 '^uninvited 0: PROC-ABORTED-BY-SIG of 3$' "that an invited rank dies is told, too"
	lines 3 '^served [0-2]: on$' "and the others go on"
done

nothing_left_soon "nothing is left"
done_testing
