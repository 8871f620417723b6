#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmix: monitors of processes. A heartbeat or a file that stops raises an alert, one that goes on
# raises none, and what can't be watched is refused. And fabrics.

# shellcheck source=tests/lib/pmix.sh
. "${top_srcdir:?}/tests/lib/pmix.sh"

# Was the alert raised while the process went on? Where the machine did not let it go on, that proves
# nothing: between two probes of the server is a second.
order() {
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
		when=$(order)
		[ "$when" = slow ] || break
	done
	lines 1 '^alert 1: .*ALERT.* from 0$' "a monitor of $what raises an alert once the process stops"
	if [ "$when" = slow ]; then
		skip 1 "this machine is too slow for it"
	else
		is "$when" after "a monitor of $what raises no alert before the process stops"
	fi
done

pmix 2 appears "$tmpdir/later"
lines 1 '^appears 1: .*FILE.* from 0$' "a file that does not exist yet is monitored once it does"
pmix 2 unwatched
lines 2 '^unwatched [01]: heartbeat BAD-PARAM$' "a monitor of a heart without an interval is refused"
lines 2 '^unwatched [01]: file BAD-PARAM$' "a monitor of a file without an interval is refused"
lines 2 '^unwatched [01]: cancel ' "the cancellation of a missing monitor is answered"
lines 2 '^served [01]: on$' "the server goes on after refused monitors"

pmix 2 fabric
for call in register update deregister; do
	lines 2 "^fabric [01]: $call (SUCCESS|NOT-SUPPORTED)\$" "the call to $call a fabric is answered"
done
lines 2 '^served [01]: on$' "the server goes on after calls of fabrics"

nothing_left "the job leaves no cgroup, process or file behind"
done_testing
