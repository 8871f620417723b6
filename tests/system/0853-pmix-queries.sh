#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# mpi/pmix: queries, job control, logs, monitors, tools, and what is refused.

# shellcheck source=tests/lib/pmix.sh
. "${top_srcdir:?}/tests/lib/pmix.sh"

pmix 2 query pmix.qry.ns pmix.qry.jst pmix.qry.ptable pmix.qry.lptable pmix.qry.pgrpnum \
	pmix.qry.psets pmix.qry.mem pmix.qry.spawn pmix.qry.nsinfo pmix.qry.qlst
lines 2 '^query [01]: SUCCESS$' "queries are answered"
lines 2 'qry.ns=stepd\.[0-9]*\.0$' "the query of namespaces is answered"
lines 2 'qry.jst=SUCCESS$' "the query of the job's status is answered"
lines 2 'qry.ptable=\[2\]$' "the query of the table of processes is answered"
lines 2 'qry.nsinfo=\[1\]$' "the query of namespaces with their commands is answered"
lines 2 "^namespace [01]: stepd\.[0-9]*\.0 runs $client query pmix.qry.ns pmix.qry.jst" \
	"the query of namespaces has each one's command as text"
pmix 2 query pmix.qry.ptable
pids_agree "the table of processes has the process ids of all"
pmix 2 query pmix.qry.lptable pmix.qry.mem pmix.qry.pgrpnum
pids_agree "the node's table of processes has the process ids of all"
lines 2 'qry.lptable=\[2\]$' "the query of the node's table of processes is answered"
lines 2 'qry.mem=\[1\]$' "the query of memory is answered"
lines 2 'qry.pgrpnum=0$' "the query of groups is answered"
pmix 1 query pmix.qry.qlst
lines 1 '^query 0: NOT-SUPPORTED$' "the query of the scheduler's queues is not supported"
pmix 1 nobody 1
lines 1 'query NOT-FOUND$' "the query of another job finds nothing"

options=-K0
pmix 3 control
lines 1 '^control 2: signalled$' "a rank signals another, stops it and continues it"
lines 1 'task 2 killed by signal 15' "a rank ends another"
lines 0 '^rank' "job control that can't be done is refused"
options=
: >"$tmpdir/later"
pmix 1 cleanup "$tmpdir/later"
lines 2 '^cleanup 0: .* SUCCESS$' "a file is registered for removal, and a rank as preemptible"
[ ! -e "$tmpdir/later" ]
is $? 0 "a file that is registered for removal is removed with its rank"

pmix 2 log "one
two"
lines 2 'rank [01]: one$' "PMIx_Log for stderr writes to the step's log"
lines 2 'rank [01]: two$' "PMIx_Log for stderr writes line by line"

: >"$tmpdir/still"
pmix 2 monitor file "$tmpdir/still"
lines 1 '^monitor 1: .*FILE.* from 0$' "a monitored file that does not grow raises an event"
pmix 2 monitor heartbeat
lines 1 '^monitor 1: .*HEARTBEAT.* from 0$' "a missing heartbeat raises an event"

options="--input none"
pmix 1 refused
options=
for what in allocation iof stdin credential validation record; do
	lines 1 "^refused 0: $what NOT-SUPPORTED\$" "$what is refused as not supported"
done

# ---- tools ----

export client
# shellcheck disable=SC2016 # for the task's shell
out=$(step --mpi pmix -- sh -c 'env -i "$client" tool "$PMIX_SERVER_URI41"
	stat -c "%a %u" "$PMIX_SERVER_TMPDIR/.."; ls "$PMIX_SERVER_TMPDIR"' 2>&1)
lines 1 '^tool 0: stepd\.[0-9]*\.0\.tool-0\.1$' "a tool connects and gets a name"
lines 1 'namespaces=stepd\.[0-9]*\.0$' "a tool's query is answered"
lines 1 "^700 $(id -u)$" "the rendezvous file is in a private directory of the owner's"
lines 1 '^pmix\..*\.tool\.[0-9]*$' "the rendezvous file exists"
# shellcheck disable=SC2016 # for the task's shell
out=$(step --mpi pmix -- sh -c 'env -i "$client" tool "${PMIX_SERVER_URI41%.0;*}.9;tcp4://127.0.0.1:1"' 2>&1)
isnt $? 0 "a tool fails without a server"
if [ "$(id -u)" -eq 0 ]; then
	mkfifo "$tmpdir/go"
	export tmpdir
	# shellcheck disable=SC2016
	step --mpi pmix -- sh -c 'cd /
		setpriv --reuid=65534 --regid=65534 --clear-groups env -i "$client" tool "$PMIX_SERVER_URI41" &
		read -r go <"$tmpdir/go"
		kill $! 2>/dev/null
		exec "$client" init' >"$tmpdir/out" 2>&1 &
	ok "another user's tool is refused, which is logged" \
		eventually grep -q 'refused: it is of uid 65534' "$tmpdir/out"
	echo >"$tmpdir/go"
	wait
	out=$(cat "$tmpdir/out")
	lines 0 '^tool .*stepd' "another user's tool gets no name"
	lines 1 '^init 0: of 1$' "the server goes on after another user's tool"
else
	skip 3 "only root can be another user"
fi

nothing_left "the job leaves no cgroup, process or file behind"
done_testing
