#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# PMI in its bare words: pieces, malformed messages, deaths, deadlines, groups; both protocols.
. "${top_srcdir:?}/tests/lib/pmi.sh"

for scenario in pieces malformed double; do
	out=$(talk 2 $scenario 2>&1)
	lines "$out"
done
like "$(talk 2 malformed 2>&1)" 'the PMI conversation with rank 0 is ended: it sent data that is no message' \
	"the step's log reports a malformed message"
lines "$(talk 3 groups)"
lines "$(talk 4 mixed)"
lines "$(talk 5 exchange)"
pmi=--pmi-memory=32M
lines "$(talk 1 fill)"
pmi=--pmi-tcp
lines "$(talk 4 mixed)"
pmi=

# ---- those that don't come -----------------------------------------------------------------------
pmi=-K0 # else the step would end
out=$(talk 3 death 2>&1)
like "$out" 'msg=rank_2_(has_hung_up_without_PMI_Finalize\(\)|was_killed_by_signal_9)_before_the_fence' \
	"the others of a fence get an error where a rank dies in the middle of a message"
like "$out" 'PMI fence failed: rank 2 ' "the step's log reports a fence that fails by a rank's death"

pmi=--pmi-timeout=3s
mkdir "$tmpdir/late"
out=$(timeout 120 "$stepd" run --job "$job" --proctrack "$tracker" --mpi=pmi2 $pmi -n 6 --kill-on-bad-exit=1 -- \
	sh -c "python3 '$talk_py' late '$tmpdir/late'; exit 3" 2>&1)
like "$out" 'PMI fence failed: ranks 1, 3-4 did not come to the fence within 3 s' \
	"a fence has a deadline, and its error names the ranks"
is "$(printf '%s\n' "$out" | grep -c 'barrier_out rc=-1 msg=ranks_1,_3-4_did_not_come')" 3 \
	"the ranks that wait in a fence get its deadline's error"
pmi=

# ---- command lines -------------------------------------------------------------------------------
cat >"$tmpdir/multi" <<END
0-1 python3 $talk_py appnum
2   python3 $talk_py appnum x
END
is "$(step -q --mpi=pmi2 -n 3 --multi-prog "$tmpdir/multi" | sort | tr '\n' ' ')" \
	"rank 0 appnum 0 rank 1 appnum 0 rank 2 appnum 1 " "appnum is the command line's number"

# ---- abort ---------------------------------------------------------------------------------------
talk 4 abort 5 >/dev/null 2>&1
is $? 5 "an abort's code is the step's"
talk 4 abort 256 >/dev/null 2>&1
is $? 1 "an abort's code never becomes success"

# ---- TCP: who may come ---------------------------------------------------------------------------
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	chmod 755 "$tmpdir"
	# shellcheck disable=SC2016 # the task's
	cp "$talk_py" "$tmpdir/talk.py"
	out=$(step --mpi=pmi2 --pmi-tcp -n 2 -- sh -c '
		[ "$PMI_RANK" = 0 ] || exec python3 "$1" appnum
		setpriv --reuid 65534 --clear-groups /usr/bin/python3 "$1" appnum 2>&1 | tail -n 1
		exec python3 "$1" appnum' sh "$tmpdir/talk.py" 2>&1)
	like "$out" 'a connection of user 65534 is refused' "another user's connection is refused"
	is "$(printf '%s\n' "$out" | grep -c '^rank . appnum 0')" 2 \
		"the tasks' own connections over TCP are accepted"
else
	skip 2 "needs root and setpriv"
fi

nothing_left "the job leaves no cgroup, process or file behind"
done_testing
