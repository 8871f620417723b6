#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What a step uses, over time: the file's form and contents, and what becomes of odd ones.
. "${top_srcdir:?}/tests/lib/step.sh"
command -v python3 >/dev/null || skip_all "needs python3"
cd "$tmpdir" || exit

# ---- contents -----------------------------------------------------------------------------------
# check FILE CODE: rows is a list of dicts of texts or numbers, whatever the form.
check() {
	python3 - "$1" "$2" <<'X'
import csv, json, sys
name = sys.argv[1]
if name.endswith(".jsonl"):
    rows = []
    for line in open(name):
        o = json.loads(line)
        rows.append({**o["usage"], **{k: o[k] for k in o if k != "usage"}})
    for r in rows:
        r.setdefault("rank", None)
else:
    rows = [{k: (v if k == "sources" else int(v) if v else None) for k, v in r.items()}
            for r in csv.DictReader(open(name))]
times = sorted({r["time_usec"] for r in rows})
print(eval(sys.argv[2]))
X
}
cat >work <<'X'
if [ "$SLURM_PROCID" = 0 ]; then
	sleep 0.5
	: >ended
	exit
fi
exec python3 -c '
import os, time
hog = bytearray(32 << 20)
while os.times().user < 0.3 or not os.path.exists("ended"):
    pass
begin = time.monotonic()
while time.monotonic() - begin < 0.6: # samples that have this task alone
    pass'
X
for b in $(backends); do
	for file in samples.csv samples.jsonl; do
		echo old >$file
		rm -f ended
		step --proctrack "$b" -n 2 --sample 200ms $file -- sh work
		is $? 0 "$b: a step is sampled into $file"
		is "$(check $file 'len(times) >= 4 and times == sorted(times)')" True \
			"$b: $file has samples of the beginning, the interval and the end"
		is "$(check $file '[sum(1 for r in rows if r["time_usec"] == t and r["rank"] is None) for t in times] == [1] * len(times)')" \
			True "$b: each sample in $file has a line of the step"
		is "$(check $file 'sorted(r["rank"] for r in rows if r["time_usec"] == times[0] and r["rank"] is not None)')" \
			"[0, 1]" "$b: the first sample in $file has a line of each task"
		is "$(check $file 'sorted(r["rank"] for r in rows if r["time_usec"] == times[-2] and r["rank"] is not None)')" \
			"[1]" "$b: a later sample in $file has the tasks that run"
		is "$(check $file 'sorted(r["rank"] for r in rows if r["time_usec"] == times[-1] and r["rank"] is not None)')" \
			"[0, 1]" "$b: the last sample in $file has all tasks"
		is "$(check $file '[c == sorted(c) for c in [[r["cpu_user_usec"] for r in rows if r["rank"] == k and r["cpu_user_usec"] is not None] for k in (None, 0, 1)]]')" \
			"[True, True, True]" "$b: CPU time in $file never decreases"
		is "$(check $file 'max(r["cpu_user_usec"] for r in rows if r["rank"] is None) >= 200000 and max(r.get("memory_bytes") or 0 for r in rows if r["rank"] == 1) >= 32 << 20')" \
			True "$b: $file has the CPU time and memory that the tasks used"
		is "$(check $file '[r["elapsed_usec"] for r in rows] == sorted(r["elapsed_usec"] for r in rows) and rows[-1]["elapsed_usec"] - rows[0]["elapsed_usec"] <= times[-1] - times[0] + 1000000')" \
			True "$b: $file has the time since the start"
		is "$(check $file '{len(r["sources"]) for r in rows}, {c for r in rows for c in r["sources"]} <= set("cpr-")')" \
			"({17}, True)" "$b: $file has a letter for each value's source"
	done
done
cat >spec <<X
{"job": $job, "step": 3, "argv": ["sleep", "0.3"], "proctrack": "$tracker", "env": {"PATH": "$PATH", "STEPD_TEST_JOB": "$job"}}
X
ok "stepd serve takes samples" "$stepd" serve --spec spec --sample 100ms served.csv
is "$(check served.csv 'len(times) >= 2')" True "the file of stepd serve has samples"

# A suspended step goes on being sampled, and uses nothing.
"$stepd" run --job "$job" --step 4 --proctrack "$tracker" --sample 100ms stopped.csv -- sh -c 'while :; do :; done' &
agent=$!
eventually sh -c "[ \$(wc -l <stopped.csv) -gt 3 ]"
pid=$("$stepctl" pids "$job.4")
kill -STOP "$pid"
eventually grep -q '^State:	T' "/proc/$pid/status"
lines=$(wc -l <stopped.csv)
eventually sh -c "[ \$(wc -l <stopped.csv) -gt $((lines + 8)) ]"
is "$(python3 - "$((lines + 3))" <<'X'
import csv, sys
rows = [r["cpu_user_usec"] for r in csv.DictReader(open("stopped.csv")) if r["rank"] == "0"]
print(len(set(rows[-4:-1]))) # the last one is of its end
X
)" 1 "a stopped task is sampled, and its CPU time does not change"
kill -KILL "$pid"
wait $agent

# ---- arguments ----------------------------------------------------------------------------------
for interval in 1 99ms 2d x '' -1s; do
	out=$(step --sample "$interval" f.csv -- touch started 2>&1)
	case $interval in
	1) is $? 0 "an interval of '$interval' is accepted" && rm -f started ;;
	*) is $? 125 "an interval of '$interval' is refused" ;;
	esac
done
out=$(step --sample 1s 2>&1)
is $? 125 "--sample with an interval alone is refused"
like "$out" "--sample needs two values: INTERVAL FILE" "the refusal of --sample names the missing value"
out=$("$stepd" serve --spec spec --sample 1s 2>&1)
is $? 125 "stepd serve refuses --sample with an interval alone"
mkdir dir
out=$(step --sample 1s dir -- touch started 2>&1)
is $? 125 "--sample with a directory is refused"
like "$out" "--sample: 'dir' can't be written: Is a directory" \
	"the refusal of --sample with a directory names it"
out=$(step --sample 1s nodir/f -- touch started 2>&1)
is $? 125 "--sample with a file in no directory is refused"
ok "a wrong --sample is refused before a task starts" test ! -e started

# ---- files --------------------------------------------------------------------------------------
echo precious >target
ln -s target link
ok "a step is sampled to a file whose name is a link" step --sample 1s link -- true
is "$(cat target)" precious "--sample does not follow a link"
ok "--sample replaces a link by a file" test ! -L link
out=$(step --sample 100ms /dev/full -- sh -c 'sleep 0.4; exit 3' 2>&1)
is $? 3 "a full disk for samples does not change the step's status"
is "$(printf '%s\n' "$out" | grep -c 'No space left')" 1 "a full disk for samples is reported once"
like "$out" "--sample: write '/dev/full': No space left on device; no more samples are taken" \
	"the report of a full disk names the file and the consequence"

mkfifo fifo
out=$(step --sample 100ms fifo -- touch started 2>&1)
is $? 125 "--sample with a FIFO that nobody reads is refused"
ok "--sample with a FIFO that nobody reads is refused before a task starts" test ! -e started
head -n 2 <fifo >/dev/null &
out=$(step --sample 100ms fifo -- sh -c 'sleep 0.5; exit 3' 2>&1)
is $? 3 "a reader of samples that goes away does not change the step's status"
is "$(printf '%s\n' "$out" | grep -c 'no more samples')" 1 "a reader of samples that goes away is reported once"
like "$out" "write 'fifo': Broken pipe" "the report of a reader that goes away has the reason"

# A reader that takes nothing: 1,000 lines don't fit into a pipe.
# shellcheck disable=SC2217 # that is the point
sleep 60 <fifo &
reader=$!
out=$(step -n 600 --sample 100ms fifo -- sleep 1 2>&1)
is $? 0 "a reader of samples that takes nothing does not stop the step"
like "$out" "'fifo' was read too slowly: [1-9][0-9]* samples are missing" \
	"the number of samples that a slow reader missed is reported"
kill $reader
wait $reader 2>/dev/null
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
