#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What a real Slurm 22.05 did, replayed by jobd --replay: cases agree, or differ as preempt(7) and
# select(7) say, in nothing else.
# shellcheck source=tests/lib/tap.sh
. "${top_srcdir:?}/tests/lib/tap.sh"

jobd=$(real_program "${top_builddir:?}/contrib/jobd/server/jobd")
plugins=$top_builddir/stepd/cli/plugins
data=$top_srcdir/tests/data/jobd
[ -x "$jobd" ] || skip_all "jobd is not built"
tmpdir

replay() { # CASE: prints the differences, without the case's name
	"$jobd" --plugin-dir "$plugins" --replay "$data/$1.json" >"$tmpdir/out"
	sed -n "s/^$1: //p" "$tmpdir/out" | sort
}
agrees() { # NAME CASE...
	agrees_name=$1
	shift
	agrees_found=
	for case; do
		found=$(replay "$case")
		agrees_found=$agrees_found${found:+$case: $found}
		tail -n 1 "$tmpdir/out" | grep -q '^1 cases, [1-9][0-9]* comparisons, 0 differences$' ||
			agrees_found="$agrees_found $case: $(tail -n 1 "$tmpdir/out")"
	done
	is "$agrees_found" "" "$agrees_name"
}
differs() { # NAME CASE: standard input is all that differs
	wanted=$(sort)
	is "$(replay "$2")" "$wanted" "$1"
}

agrees "the guide's simple example agrees with linear and with cons_tres" \
	A1-guide-simple-constres-core A1-guide-simple-linear
agrees "the guide's future ideas agree with linear and with cons_tres" \
	A4-future-constres-core A4-future-linear
agrees "the time before a job can be preempted and three tiers agree" B4-exempt20 B6-three-tiers
agrees "the choice of candidates agrees" C-constres-default C-constres-strict C-linear-default C-linear-suspend
agrees "time slices agree" D1-core-force2-three-full D2-core-force4-four-full D4-core-force2-mixed
agrees "memory of suspended jobs agrees" D6-corememory-fit D7-suspend-memory
agrees "a heterogeneous job that is cancelled agrees" F1-het-cancel
agrees "nodes on a line with linear and backfill agree" E1-line-linear G2-backfill

differs "A2 differs in the reason of a job that was queued again, which is the guide's" \
	A2-guide-lowmedhi-linear <<'T'
23.9 s, job 94: Reason: expected 'BeginTime', got 'Resources'
11.6 s, job 94: expected 'PD (BeginTime)', got 'PD (Resources), runs for 0 s'
18.1 s, job 94: expected 'PD (BeginTime)', got 'PD (Resources), runs for 0 s'
23.7 s, job 94: expected 'PD (BeginTime)', got 'PD (Resources), runs for 0 s'
3.2 s, job 94: expected 'R linux', got 'PD (Resources), runs for 0 s'
5.8 s, job 94: expected 'CG linux', got 'PD (Resources), runs for 0 s'
6.8 s, job 94: expected 'PD (BeginTime)', got 'PD (Resources), runs for 0 s'
T
differs "A3 differs in when the sleep of a job begins whose first turn comes later" \
	A3-guide-qos-force1 <<'T'
28.0 s, job 1: expected 'R linux', got 'S linux, runs for 20 s'
25.0 s, job 3: expected 'gone ', got 'R linux, runs for 5 s'
38.5 s, job 4: expected 'gone ', got 'R linux, runs for 3 s'
T
differs "B1 differs in the end of a grace time, which is the guide's" \
	B1-cancel-grace10-exits-on-term <<'T'
29.3 s, job 2: expected 'R n1', got 'gone , runs for 0 s'
18.0 s, job 1: expected 'R n1', got 'gone , runs for 0 s'
18.0 s, job 2: expected 'PD (Resources)', got 'R n1, runs for 0 s'
24.9 s, job 1: expected 'CG n1', got 'gone , runs for 0 s'
T
differs "B1 differs in it also where the job ignores SIGTERM" \
	B1-cancel-grace10-ignores-term <<'T'
32.0 s, job 2: expected 'R n1', got 'gone , runs for 0 s'
32.0 s, sinfo: expected 'hi|allocated|1|n1 lo*|allocated|1|n1', got 'hi|idle|1|n1 lo*|idle|1|n1'
18.0 s, job 1: expected 'R n1', got 'gone , runs for 0 s'
18.0 s, job 2: expected 'PD (Resources)', got 'R n1, runs for 0 s'
24.3 s, job 1: expected 'CG n1', got 'gone , runs for 0 s'
T
differs "B2 differs in that reason, and in a start that is sooner" \
	B2-requeue-flags <<'T'
11.8 s, job 1: Reason: expected 'BeginTime', got 'Resources'
12.0 s, job 3: Reason: expected 'BeginTime', got 'Resources'
5.2 s, job 1: expected 'R n1', got 'PD (Resources), runs for 0 s'
5.2 s, job 2: expected 'R n2', got 'gone , runs for 0 s'
5.2 s, job 3: expected 'R n3', got 'PD (Resources), runs for 0 s'
7.5 s, job 1: expected 'CG n1', got 'PD (Resources), runs for 0 s'
7.5 s, job 3: expected 'CG n3', got 'PD (Resources), runs for 0 s'
13.0 s, job 4: expected 'R n[1-3]', got 'gone , runs for 0 s'
8.5 s, job 1: expected 'PD (BeginTime)', got 'PD (Resources), runs for 0 s'
8.5 s, job 3: expected 'PD (BeginTime)', got 'PD (Resources), runs for 0 s'
T
differs "F4 differs in that reason of both components" \
	F4-het-mixed-requeue-cancel <<'T'
6.5 s, job 2+0: expected 'R n1', got 'PD (Resources), runs for 0 s'
6.5 s, job 2+1: expected 'R n2', got 'PD (Resources), runs for 0 s'
8.2 s, job 2+0: expected 'PD (BeginTime)', got 'PD (Resources), runs for 0 s'
8.2 s, job 2+1: expected 'PD (BeginTime)', got 'PD (Resources), runs for 0 s'
T

# ---- the manuals name them

differing=
for path in "$data"/[A-G]*.json; do
	case=$(basename "$path" .json)
	"$jobd" --plugin-dir "$plugins" --replay "$path" >"$tmpdir/out" 2>&1
	case $? in
	0) ;;
	1) differing="$differing ${case%%-*}" ;;
	*) bail "$case can't be replayed: $(cat "$tmpdir/out")" ;;
	esac
done
names() {
	tr ' ' '\n' | sed '/^$/d' | sort -u
}
section='/^\.Sh WHERE SLURM DIFFERS/,/^\.Sh WRITING/s/^\.It \([A-G][0-9].*\)/\1/p'
for page in preempt select; do
	sed -n "$section" "$top_srcdir/doc/$page.7" | tr -d ','
done | names >"$tmpdir/named"
is "$(cat "$tmpdir/named")" "$(echo "$differing" | names)" \
	"preempt(7) and select(7) name all cases that differ, and no others"
done_testing
