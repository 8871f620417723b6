#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# jobd --simulate: traces of each format, what comes out as table, JSON and picture, and whether that adds
# up; two configurations side by side; and what is wrong with what can't be simulated.
# shellcheck source=tests/lib/tap.sh
. "${top_srcdir:?}/tests/lib/tap.sh"

jobd=$(cd "${top_builddir:?}" && pwd)/contrib/jobd/server/jobd
plugins=$(cd "$top_builddir" && pwd)/stepd/cli/plugins
examples=$(cd "$top_srcdir" && pwd)/doc/examples/simulation
[ -x "$jobd" ] || skip_all "jobd is not built"
tmpdir
cd "$tmpdir" || bail "no $tmpdir"

simulate() { # TRACE OPTION...: into out, err and status
	trace=$1
	shift
	"$jobd" --plugin-dir "$plugins" --simulate "$trace" "$@" >out 2>err
	status=$?
	[ $status -eq 0 ] || diag "$(cat err)"
	return $status
}
are_xml() { # NAME SVG...
	are_xml_name=$1
	shift
	if command -v xmllint >xmllint.path; then
		ok "$are_xml_name" xmllint --noout "$@"
	else
		ok "$are_xml_name" python3 -c 'import sys, xml.dom.minidom
for f in sys.argv[1:]: xml.dom.minidom.parse(f)' "$@"
	fi
}
refused() { # STATUS REGEX NAME TRACE OPTION...: one sentence on why not
	wanted=$1 regex=$2 name=$3 trace=$4
	shift 4
	"$jobd" --plugin-dir "$plugins" --simulate "$trace" "$@" >out 2>err
	is "$? $(wc -l <out | tr -d ' ')" "$wanted 0" "$name is refused"
	like "$(cat err)" "$regex" "the sentence on $name"
}

cat >slurm.conf <<'END'
ClusterName=test
SelectType=select/cons_res
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=1000
NodeName=n[1-4] Sockets=1 CoresPerSocket=4 RealMemory=8000
PartitionName=batch Nodes=ALL Default=YES MaxTime=60
PartitionName=short Nodes=n[1-2] MaxTime=10
END

# ---- the first example of the guide -------------------------------------------------------------
cd "$examples" || bail "no examples"
"$jobd" --plugin-dir "$plugins" --simulate jobs --conf slurm.conf --json "$tmpdir/guide" --svg "$tmpdir/guide.svg" \
	>"$tmpdir/out"
is $? 0 "the first example of the guide is simulated"
"$jobd" --plugin-dir "$plugins" --simulate jobs --conf slurm.conf --compare requeue.conf \
	--svg "$tmpdir/both.svg" >"$tmpdir/both"
is $? 0 "the first example of the guide is simulated with two configurations"
cd "$tmpdir" || bail "no $tmpdir"
fits_schema "the document is as the schema has it" jobd-simulation.schema.json guide
json_is guide '[j["runs"][0]["nodes"] for j in simulations[0]["jobs"]]' \
	'["n12", "n13", "n14", "n15", "n16", "n[12-14]"]' "jobs are where the guide has them"
json_is guide '[[len(j["runs"]), j["preemptions"], j["suspensions"], j["suspended_s"]] for j in simulations[0]["jobs"]]' \
	'[[3, 1, 1, 30], [3, 1, 1, 30], [3, 1, 1, 30], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]' \
	"three jobs are preempted, and stand still while that of hipri runs for 30 s"
json_is guide 'simulations[0]["all"]["cpu_s"]' 1590.0 "the CPU time is that of all runs, without suspension"
json_is guide 'round(simulations[0]["utilisation"], 6)' 0.963636 "the utilisation is 1590 of 5 * 330 s"
json_is guide '[[g["name"], g["preemptions"], round(g["utilisation"], 6)] for g in simulations[0]["partitions"]]' \
	'[["active", 3, 0.909091], ["hipri", 0, 0.054545]]' \
	"the utilisation is 1500 of it by active, and 90 by hipri"
like "$(cat out)" '^  active  +5 .* 0:00 .* 1\.06 +3 +3 +0\.42 h +0\.00 h +90\.9 %$' \
	"the table has a line for each partition"
like "$(cat out)" '^  utilisation +96\.4 %$' "the table has the utilisation of all"
like "$(cat guide.svg)" '>utilisation 96\.4 %, mean wait 0 s, 3 preemptions<' "the picture names three preemptions"
like "$(cat both)" '^  preemptions +3 +3' "the tables of two configurations stand side by side"
like "$(cat both)" '^  time suspended +1:30 +0:00 +-100\.0 %' "and say how much they differ"
is "$(diff "$top_srcdir/doc/jobd-simulation.svg" both.svg)" "" "the picture of the manual is the one that is drawn"
are_xml "the pictures are XML" guide.svg both.svg
is "$(grep -c '<title>1, user' guide.svg)" 3 "the picture has a bar for each run of a job on a node"
is "$(grep -c 'fill="url(#lost)"/>' both.svg)" 3 "the picture hatches what a preemption has cost"

# ---- jobd's own traces --------------------------------------------------------------------------
cat >own <<'END'
# an array of three, two at a time; one that waits for all of it, one for a failure, one for ever
0 60 ann -a 1-3%2 -t 5
0 100:1 bob -N4 -n16 -t 5 -d afterok:1
10 5 bob -d afternotok:2
10 5 bob -d afterok:2
0 2h ann -t 2
0 10 ann -N9
0 10 ann -t 90
END
ok "a trace of jobd's own is simulated" simulate own --conf slurm.conf --json own.json
fits_schema "the document of a trace of jobd's own is as the schema has it" jobd-simulation.schema.json own.json
json_is own.json '[[j["job"], j["state"]] for j in simulations[0]["jobs"]]' \
	'[["1_1", "COMPLETED"], ["1_2", "COMPLETED"], ["1_3", "COMPLETED"], ["2", "FAILED"], ["5", "TIMEOUT"], ["7", "PENDING"], ["3", "COMPLETED"], ["4", "PENDING"]]' \
	"jobs are tasks of arrays, fail, and reach their time limits"
json_is own.json '[j["start"] - simulations[0]["begin"] for j in simulations[0]["jobs"] if "start" in j]' \
	'[0, 0, 60, 120, 0, 220]' "arrays have their limit, and jobs wait for those that they name"
json_is own.json '[[j["job"], j["line"]] for j in simulations[0]["refused"]]' '[["6", 7]]' \
	"a job that can never run is named"
json_is own.json '[[j["job"], j["reason"]] for j in simulations[0]["waiting"]]' \
	'[["7", "PartitionTimeLimit"], ["4", "DependencyNeverSatisfied"]]' "jobs that are left are named with their reasons"
like "$(cat out)" '^  job 6 \(line 7\): Requested node configuration is not available$' "the table names what can never run"
like "$(cat out)" '^  job 4 \(line 5\): DependencyNeverSatisfied$' "the table names what was left"

cp own.json before.json
simulate own --conf slurm.conf --json own.json
ok "the same trace gives the same document, to the byte" cmp before.json own.json
simulate own --conf slurm.conf --compare slurm.conf --json both.json
is "$(json_get both.json 'simulations[0] == simulations[1] == json.load(open("own.json"))["simulations"][0]' 2>&1)" \
	"$(json_get both.json True)" "two processes give the same result as one"
is "$(simulate own --conf slurm.conf --json - && json_get out 'len(simulations)')" 1 \
	"the document alone goes to standard output"
simulate own --conf slurm.conf
cp out table
is "$("$jobd" --plugin-dir "$plugins" --simulate - --conf slurm.conf <own | diff - table)" "" \
	"a trace comes by standard input, too"

# ---- sacct --------------------------------------------------------------------------------------
cat >sacct <<'END'
JobID|User|Partition|QOS|Submit|Start|End|Elapsed|Timelimit|NNodes|NCPUS|ReqMem|State|
21|ann|batch|normal|2026-01-20T10:00:00|2026-01-20T10:05:00|2026-01-20T10:06:00|00:01:00|00:10:00|4|16|32000M|COMPLETED|
21.batch||||2026-01-20T10:05:00|2026-01-20T10:05:00|2026-01-20T10:06:00|00:01:00||1|4||COMPLETED|
22_7|bob|old|normal|2026-01-20T10:00:30|2026-01-20T10:06:00|2026-01-20T10:36:00|00:30:00|Partition_Limit|1|1|2Gc|COMPLETED|
23|bob|batch|normal|2026-01-20T10:00:30|Unknown|Unknown|00:00:00|00:10:00|1|0|1Gn|PENDING|
24|bob|batch|normal|2026-01-20T10:00:30|None|2026-01-20T10:02:11|00:00:00|00:10:00|4|0|4G|CANCELLED by 1001|
END
ok "the output of sacct -p is simulated" simulate sacct --conf slurm.conf --map old=short --json sacct.json
json_is sacct.json '[[j["job"], j["partition"], j["state"], j["end"] - j["start"]] for j in simulations[0]["jobs"]]' \
	'[["21", "batch", "COMPLETED", 60], ["22_7", "short", "TIMEOUT", 600]]' \
	"a job that ran longer than its new partition allows is ended there"
json_is sacct.json '[j["start"] - j["submit"] for j in simulations[0]["jobs"]]' '[0, 30]' \
	"memory keeps jobs waiting, as the configuration counts it"
json_is sacct.json 'simulations[0]["begin"]' 1768903200 "times of day are taken as they are written"
like "$(cat err)" '1 rows of steps are left out' "what is left out is counted"
like "$(cat err)" '2 jobs that never started are left out' "jobs that waited or were cancelled before they ran are counted, too"
like "$(cat out)" '2 jobs have a QOS that is not configured' "a QOS that there is not is counted"
refused 1 "sacct:4: there is no partition old in slurm.conf: .*--map" "a partition that does not exist" sacct --conf slurm.conf
ok "any partition's jobs may be in the default one" simulate sacct --conf slurm.conf --map '*' --json sacct.json
json_is sacct.json '[j["partition"] for j in simulations[0]["jobs"]]' '["batch", "batch"]' \
	"jobs of partitions that do not exist are in the default one"

# ---- the Standard Workload Format ---------------------------------------------------------------
cat >swf <<'END'
; UnixStartTime: 1000000000
; MaxProcs: 16
; Queue: 1 short
1 0 -1 30 16 -1 -1 16 60 -1 1 1 1 -1 2 -1 -1 -1
2 5 -1 30 4 -1 -1 4 60 -1 0 2 1 -1 1 -1 -1 -1
END
ok "a trace in the Standard Workload Format is simulated" simulate swf --conf slurm.conf --json swf.json
json_is swf.json '[[j["partition"], j["state"], j["start"] - j["submit"]] for j in simulations[0]["jobs"]]' \
	'[["batch", "COMPLETED", 0], ["short", "FAILED", 25]]' "queues are partitions by their names, or the default one"
json_is swf.json 'simulations[0]["begin"]' 1000000000 "the header's time is the time of the begin"
json_is swf.json '[n for n in simulations[0]["notes"] if "machine" in n]' '[]' "a machine as large as that of the trace needs no note"
sed 's/MaxProcs: 16/MaxProcs: 17\n; MaxNodes: 5/' swf >large
ok "a trace of a larger machine is simulated" simulate large --conf slurm.conf
like "$(cat out)" '^The trace is that of a machine with 5 nodes \(MaxNodes\), slurm.conf has 4\.$' \
	"a configuration with fewer nodes than the trace's machine is noted"
like "$(cat out)" '^The trace is that of a machine with 17 CPUs \(MaxProcs\), slurm.conf has 16\.$' \
	"a configuration with fewer CPUs than the trace's machine is noted"

# ---- a QOS file, gangs, many nodes --------------------------------------------------------------
cat >qos <<'END'
QOSName=low Priority=1
QOSName=high Priority=10 Preempt=low
END
cat >preempt.conf <<'END'
ClusterName=test
SelectType=select/linear
PreemptType=preempt/qos
PreemptMode=CANCEL
NodeName=n[1-100] CPUs=4
PartitionName=batch Nodes=ALL Default=YES
END
printf '0 10m ann -q low -N60\n60 5m bob -q high -N80\n' >two
ok "a QOS preempts another one" simulate two --conf preempt.conf --qos qos --json two.json --svg two.svg
json_is two.json '[[g["name"], g["preempted"], g["lost_cpu_s"]] for g in simulations[0]["qos"]]' \
	'[["low", 1, 14400.0], ["high", 0, 0.0]]' "what a QOS has lost is 60 s of 60 nodes with 4 CPUs"
json_is two.json '[[g["name"], g["jobs"], g["cpu_s"], round(g["utilisation"], 6)] for g in simulations[0]["users"]]' \
	'[["ann", 1, 14400.0, 0.1], ["bob", 1, 96000.0, 0.666667]]' \
	"a user has had 60 s of 60 nodes, and the other one 300 s of 80, of 360 s of 100"
like "$(cat out)" '^  low +1 .* 1 +0 +4\.00 h +4\.00 h +10\.0 %$' "the table has a line for a QOS that was preempted"
like "$(cat out)" '^  high +1 .* 0 +0 +26\.67 h +0\.00 h +66\.7 %$' "the table has a line for the QOS that preempted it"
like "$(cat out)" '^  ann +1 .* 1 +0 +4\.00 h +4\.00 h +10\.0 %$' "the table has a line for a user whose job was preempted"
like "$(cat out)" '^  bob +1 .* 0 +0 +26\.67 h +0\.00 h +66\.7 %$' "the table has a line for the user who preempted it"
like "$(cat two.svg)" 'The darker' "the picture of many nodes is a map of their use"
ok "the other configuration may have a QOS file of its own" \
	simulate two --conf preempt.conf --compare preempt.conf --compare-qos qos --map '*' --json compared.json
like "$(cat out)" '^  preemptions +0 +1' "QOS files make the difference"
fits_schema "the document of two simulations is as the schema has it" jobd-simulation.schema.json compared.json
json_is compared.json '[[g["name"], g["preemptions"]] for s in simulations for g in s["qos"]]' \
	'[["(none)", 0], ["low", 1], ["high", 0]]' "each simulation of the document has its own groups"
lines_of() { # GROUP: of A and of B
	sed -n "/^  $1 /{N;p;q;}" out
}
like "$(lines_of ann)" '^  ann +A +1 .* 0 +0 +40\.00 h +0\.00 h +[0-9.]+ %$' "a user has a line for the first configuration"
like "$(lines_of ann)" '^ +B +1 .* 1 +0 +4\.00 h +4\.00 h +10\.0 %$' "a user has a line for the second configuration"
like "$(lines_of low)" '^  low +A( +-){10}$' "a QOS that the first configuration lacks has no values there"
like "$(lines_of low)" '^ +B +1 .* 1 +0 +4\.00 h +4\.00 h +10\.0 %$' "a QOS that the first configuration lacks has the second one's values"
like "$(lines_of '(none)')" '^ +B( +-){10}$' "jobs without a QOS have no values where all jobs have one"

# ---- what the values of a document add up to ----------------------------------------------------
# Five users, three QOS, two partitions: 200 jobs of 1 to 12 CPUs of 16, a fifth of them in high.
make_busy() {
	awk '
	function below(n) {
		x = (16807 * x) % 2147483647
		return int(n * (x / 2147483647))
	}
	BEGIN {
		x = 16
		for (i = 0; i < 200; i++) {
			t += below(40)
			run = 20 + below(200)
			printf "%d %d u%d -n%d -t5 -q %s%s\n", t, run, below(5), 1 + below(12),
				substr("q1q2q3", 1 + 2 * below(3), 2), below(5) == 0 ? " -p high" : ""
		}
	}' </dev/null
}
make_busy >busy
printf 'QOSName=%s\n' q1 q2 q3 >busy.qos
busy_conf() { # LINE...
	printf '%s\n' ClusterName=test SelectType=select/cons_tres SelectTypeParameters=CR_Core \
		PreemptType=preempt/partition_prio 'NodeName=n[1-4] Sockets=1 CoresPerSocket=4' "$@"
}
busy_conf PreemptMode=SUSPEND,GANG 'PartitionName=low Nodes=ALL Default=YES PriorityTier=1 OverSubscribe=FORCE:2' \
	'PartitionName=high Nodes=ALL PriorityTier=2 OverSubscribe=FORCE:1' >suspend.conf
busy_conf PreemptMode=REQUEUE 'PartitionName=low Nodes=ALL Default=YES PriorityTier=1' \
	'PartitionName=high Nodes=ALL PriorityTier=2' >requeue.conf
busy_conf PreemptMode=CANCEL PreemptExemptTime=00:00:20 \
	'PartitionName=low Nodes=ALL Default=YES PriorityTier=1 GraceTime=10' \
	'PartitionName=high Nodes=ALL PriorityTier=2' >cancel.conf

ran='for j in simulations[0]["jobs"] for r in j["runs"] if not r.get("suspended")'
stood='for j in simulations[0]["jobs"] for r in j["runs"] if r.get("suspended")'
total='simulations[0]["all"]'
for mode in suspend requeue cancel; do
	ok "200 jobs are simulated with $mode" \
		simulate busy --conf $mode.conf --qos busy.qos --json $mode.json --svg $mode.svg
	cp out $mode.out
	fits_schema "the document of $mode is as the schema has it" jobd-simulation.schema.json $mode.json
	json_is $mode.json "round(abs(sum(r['cpus'] * (r['end'] - r['begin']) $ran) - ${total}['cpu_s']), 6)" 0.0 \
		"runs add up to the CPU time with $mode"
	json_is $mode.json \
		"round(abs(sum(r['cpus'] * (r['end'] - r['begin']) $ran and r.get('lost')) - ${total}['lost_cpu_s']), 6)" \
		0.0 "lost runs add up to the lost CPU time with $mode"
	json_is $mode.json "round(abs(sum(r['end'] - r['begin'] $stood) - ${total}['suspended_s']), 6)" 0.0 \
		"suspensions add up to the time suspended with $mode"
	json_is $mode.json '[[key, value, name] for name in ["partitions", "qos", "users"]
		for key, value in simulations[0]["all"].items()
		if key.split("_")[0] not in ("wait", "slowdown")
		and abs(sum(g[key] for g in simulations[0][name]) - value) > 1e-6]' '[]' \
		"partitions, QOS and users add up to all jobs with $mode"
	json_is $mode.json '[len(simulations[0][name]) for name in ["partitions", "qos", "users", "jobs"]]' \
		'[2, 3, 5, 200]' "each partition, QOS, user and job is in the document of $mode"
	json_is $mode.json '[[key, simulations[0]["all"][key]] for key in ["preemptions", "suspensions"]
		if sum(j[key] for j in simulations[0]["jobs"]) != simulations[0]["all"][key]]' '[]' \
		"jobs add up to all preemptions and suspensions with $mode"
	json_is $mode.json "round(abs(${total}['cpu_s'] / (16 * simulations[0]['duration_s']) - simulations[0]['utilisation']), 9)" \
		0.0 "the utilisation is the CPU time's share of 16 CPUs with $mode"
	json_is $mode.json "max(sum(r['cpus'] $ran and r['begin'] <= t < r['end']) for t in {r['begin'] $ran})" 16 \
		"at most all 16 CPUs are in use at a time with $mode"
done
json_is suspend.json "[${total}['completed'], ${total}['lost_cpu_s'], ${total}['suspensions'] > ${total}['preemptions'] > 0]" \
	'[200, 0.0, true]' "with suspension all jobs are completed, some after preemptions, some after time slices"
grep -v 'p high' busy >equals
ok "equals are simulated alone" simulate equals --conf suspend.conf --qos busy.qos --json equals.json
json_is equals.json "[${total}['preemptions'], ${total}['suspensions'] > 0]" '[0, true]' \
	"a job that is suspended for its equal's turn is not preempted"
sed 's/FORCE:2/FORCE:1/' suspend.conf >alone.conf
ok "a partition whose jobs share nothing is simulated" \
	simulate busy --conf alone.conf --qos busy.qos --json alone.json
json_is alone.json "${total}['preemptions'] == ${total}['suspensions'] > 0" true \
	"each suspension is a preemption where only jobs of another partition share cores"
json_is suspend.json '[j["job"] for j in simulations[0]["jobs"] if j["partition"] == "high" and j["preemptions"]]' '[]' \
	"no job of the high partition is preempted"
json_is requeue.json "[${total}['completed'], ${total}['lost_cpu_s'] > 0, ${total}['suspensions']]" '[200, true, 0]' \
	"jobs that are queued again repeat what they have lost, and are completed"
json_is cancel.json "[${total}['preempted'] == ${total}['preemptions'] > 0, ${total}['completed'] + ${total}['preempted'], ${total}['waiting']]" \
	'[true, 200, 0]' "jobs that are cancelled for others do not come again"
json_is cancel.json "min(r['end'] - r['begin'] $ran and r.get('lost')) >= 30" true \
	"no job is cancelled before PreemptExemptTime and GraceTime are over"
for mode in suspend cancel; do
	simulate busy --conf $mode.conf --qos busy.qos --json again.json --svg again.svg
	ok "time slices, grace and exempt times are the same in each simulation with $mode" \
		cmp $mode.json again.json
	is "$(diff $mode.out out && diff $mode.svg again.svg)" "" "table and picture are the same in each simulation with $mode"
done

# ---- hostile names ------------------------------------------------------------------------------
# U+FFFE and U+FFFF, which XML does not allow; control characters, also one of the C1 set; markup; a byte
# that is no UTF-8; and a character that is cut to fit the table.
printf '0 60 %b\n' 'a\0357\0277\0276b' 'a\0357\0277\0277b' 'a\0033[31mb' 'a\0302\0233b' \
	'"<b>&]]></title>' 'a\0377b' 'abcdefghijklmnopq\0303\0244\0303\0244' >hostile
hostile=$(printf 'a<b>&\033[1m.conf')
cp slurm.conf "$hostile"
ok "a trace with hostile names is simulated" \
	simulate hostile --conf "$hostile" --compare "$hostile" --json hostile.json --svg hostile.svg
fits_schema "the document of hostile names is as the schema has it" jobd-simulation.schema.json hostile.json
are_xml "the picture of hostile names is XML" hostile.svg
titles() {
	python3 -ISc 'import sys, xml.dom.minidom
names = {t.firstChild.data for t in xml.dom.minidom.parse(sys.argv[1]).getElementsByTagName("title")}
print("".join(sorted(ascii(n.split(", ", 1)[1]) + "\n" for n in names)), end="")' "$1"
}
if command -v python3 >python3.path; then
	is "$(titles hostile.svg)" "$(cat <<'END'
'"<b>&]]></title>'
'a?[31mb'
'a?b'
'a?b'
'a\\xffb'
'a\x9bb'
'abcdefghijklmnopq\xe4\xe4'
END
	)" "the picture has users' names as they are, but for what XML does not allow"
else
	skip 1 "needs python3"
fi
is "$(cat out err | tr -d '\n' | LC_ALL=C tr -d ' -~\200-\377' | wc -c | tr -d ' ')" 0 \
	"no control character of a name gets to the terminal"
like "$(cat out)" '^  a\\x1b\[31mb +A +1 ' "the table has a control character by its number"
like "$(cat out)" '^  a\\xc2\\x9bb +A +1 ' "the table has a control character of the C1 set by its numbers"
like "$(cat out)" '^A  a<b>&\\x1b\[1m\.conf: 4 nodes' "the table has a control character of a file's name by its number"
is "$(iconv -f UTF-8 -t UTF-8 out >out.utf8 && cmp out out.utf8)" "" "the table is UTF-8, also where it cuts a name"

# ---- what can't be simulated --------------------------------------------------------------------
printf '0 60 ann\n0 60 ann --nodes=few\n' >bad
refused 1 "bad:2: --nodes: " "an option's bad value" bad --conf slurm.conf
printf 'JobID|Elapsed\n' >bad
refused 1 "bad:1: the columns JobID, Submit and Elapsed are needed" "a missing column" bad --conf slurm.conf
: >bad
refused 1 "bad has no job that ran" "an empty trace" bad --conf slurm.conf
refused 1 "nowhere" "a trace that there is not" nowhere --conf slurm.conf
refused 1 "nowhere.conf" "a configuration that does not exist" own --conf nowhere.conf
refused 1 "nowhere.conf" "another configuration that does not exist" own --conf slurm.conf --compare nowhere.conf
refused 1 "there is no partition none in slurm.conf" "a --map to nowhere" sacct --conf slurm.conf --map old=none
refused 1 "open '/nonexistent/a' for the JSON" "a file that can't be written" own --conf slurm.conf --json /nonexistent/a
refused 2 "needs a configuration" "a simulation without configuration" own
"$jobd" --conf slurm.conf --json x >out 2>err
is $? 2 "options of simulations need one"
done_testing
