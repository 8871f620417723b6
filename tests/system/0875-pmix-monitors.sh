#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmix: what watches processes: a heart and a file that stand still are told, those that go on
# are not, and what can't be watched is refused. And fabrics.

# shellcheck source=tests/lib/pmix.sh
. "${top_srcdir:?}/tests/lib/pmix.sh"

# Told while it went on? Where the machine did not let it go on, that says nothing: between two looks
# of the server is a second.
verdict() {
	printf '%s\n' "$out" | awk '
		/^alive 0: until/ { last = $4 + 0; gap = $6 }
		/^alert 1: at/ { at = $4 }
		END {
			if (!last || !at)
				print "nothing"
			else if (at > last)
				print "after"
			else
				print gap < 500000 ? "before" : "slow"
		}'
}

for what in heartbeat size access modify; do
	tries=0
	while [ "$tries" -lt 5 ]; do
		tries=$((tries + 1))
		rm -f "$tmpdir/file"
		pmix 2 watch $what "$tmpdir/file"
		told=$(verdict)
		[ "$told" = slow ] || break
	done
	lines 1 '^alert 1: .*ALERT.* from 0$' "what stands still is told: $what"
	if [ "$told" = slow ]; then
		skip 1 "this machine is too slow for it"
	else
		is "$told" after "and not before that: $what"
	fi
done

pmix 2 appears "$tmpdir/later"
lines 1 '^appears 1: .*FILE.* from 0$' "a file that is not there yet is watched when it is"
pmix 2 unwatched
lines 2 '^unwatched [01]: heartbeat BAD-PARAM$' "without an interval there is no monitor of a heart"
lines 2 '^unwatched [01]: file BAD-PARAM$' "nor one of a file"
lines 2 '^unwatched [01]: cancel ' "the end of one that there is not is answered"
lines 2 '^served [01]: on$' "and the server goes on"

pmix 2 fabric
for call in register update deregister; do
	lines 2 "^fabric [01]: $call (SUCCESS|NOT-SUPPORTED)\$" "a fabric is answered: $call"
done
lines 2 '^served [01]: on$' "and the server goes on"

nothing_left "nothing is left"
done_testing
