#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Labels: each line behind its task's rank, byte for byte, whatever the reader does.
. "${top_srcdir:?}/tests/lib/step.sh"
cd "$tmpdir" || bail "no $tmpdir"

# ---- form --------------------------------------------------------------------------------------
is "$(step -l -- echo hello)" "0: hello" "rank, colon, blank"
is "$(step -l -n 12 -- sh -c 'echo $SLURM_PROCID' | sort -n | sed -n '2p;11p')" \
	"$(printf ' 1: 1\n10: 10')" "ranks are as wide as the step's widest"
is "$(step -l -n 101 --ranks 7 --local-ntasks 1 --node-count 2 -- echo hello)" "  7: hello" \
	"of the whole step, not this node's"
step -l -- printf 'a\n\n\nb\n' >out
is "$(od -An -c out | tr -d ' \n')" '0:a\n0:\n0:\n0:b\n' "empty lines are lines"
step -l -- printf 'one\ntwo' >out
is "$(od -An -c out | tr -d ' \n')" '0:one\n0:two' "a last line without an end comes out as it is"
# Each once what the one before has written is there.
: >out
step -l -n 3 -- sh -c '
	before=$((SLURM_PROCID - 1))
	until [ "$SLURM_PROCID" = 0 ] || grep -q "$before: x" out; do sleep 0.02; done
	printf x' >out
is "$(od -An -c out | tr -d ' \n')" '0:x\n1:x\n2:x' "before another one it is ended"
step -l -- true >out
is "$(wc -c <out)" 0 "no output, no label"
is "$(step -l -n 2 -- sh -c 'sleep 0.$SLURM_PROCID; echo e >&2' 2>&1 >/dev/null)" "$(printf '0: e\n1: e')" \
	"stderr goes where the agent's goes"
out=$(step -l -n 3 -- sh -c 'exec >/dev/stdout; echo again')
is "$(echo "$out" | sort)" "$(printf '0: again\n1: again\n2: again')" "a task can open /dev/stdout anew"

# ---- exact -------------------------------------------------------------------------------------
head -c 300000 /dev/urandom >random
step -l -- cat random | sed 's/^0: //' >out # GNU sed keeps bytes and a missing newline
ok "random bytes of one task" cmp random out
for rank in 0 1 2 3 4 5; do
	head -c 200000 /dev/urandom >random.$rank
	echo >>random.$rank # a last line without an end would be ended before another's
done
step -l -n 6 -- sh -c "cat $tmpdir/random.\$SLURM_PROCID" >out
for rank in 0 1 2 3 4 5; do
	LC_ALL=C sed -n "s/^$rank: //p" out >out.$rank
	ok "random bytes of rank $rank among six" cmp random.$rank out.$rank
done
# shellcheck disable=SC2016 # the tasks'
words='i=0; while [ $i -lt 50 ]; do echo "$SLURM_PROCID $i"; i=$((i+1)); done; printf "%s end" $SLURM_PROCID'
step -l -n 256 -- sh -c "$words" >out
is "$(grep -c '' out)" $((256 * 51)) "256 tasks: as many lines as were written"
is "$(sed 's/^ *\([0-9]*\): \([0-9]*\) .*/\1 \2/' out | awk '$1 != $2' | wc -l)" 0 "each behind its own rank"
is "$(grep -c ': [0-9]* end$' out)" 256 "no last line is lost"
is "$(sort -u out | wc -l)" $((256 * 51)) "and none is twice"
step -l -n 4 -- sh -c 'head -c 1048575 /dev/zero | tr "\0" "$SLURM_PROCID"; echo' >out
is "$(awk '{ print length($0), substr($0, 1, 4) }' out | sort)" \
	"$(for r in 0 1 2 3; do echo "1048578 $r: $r"; done)" "lines of a megabyte don't mix"
is "$(tr -d '0\n' <out | tr -s '123' | grep -c '1: 1\|2: 2\|3: 3')" 1 "no byte of another stands in one"

# ---- readers -----------------------------------------------------------------------------------
# What tasks do is seen by what each leaves in its file.
step -l -n 4 -- sh -c "seq 200000; echo \$? >$tmpdir/done.\$SLURM_PROCID" 2>err | head -1 >out
is "$(grep -c '' out)" 1 "a reader that takes a line and leaves"
is "$(cat done.*)" "$(printf '0\n0\n0\n0')" "does not stop the tasks"
is "$(grep -c 'warning: .*standard output: Broken pipe' err)" 1 "and is reported once"
is "$(grep -c '' err)" 1 "with no other word"
rm done.*
step -l -n 4 -- sh -c "seq 200000; echo to stderr >&2; echo \$? >$tmpdir/done.\$SLURM_PROCID" 2>err >/dev/full
is $? 120 "a full disk shows in the exit status, as tasks of their own output would show it"
is "$(cat done.*)" "$(printf '0\n0\n0\n0')" "does not stop the tasks"
is "$(grep -c 'warning: .*standard output: No space left on device' err)" 1 "and is reported once"
is "$(grep -c ': to stderr$' err)" 4 "the other stream goes on"
step -l -n 4 --output /dev/full -- seq 200000 2>err
is "$(cat err | sed 's/^[^:]*: //')" \
	"warning: write the tasks' output to /dev/full: No space left on device; what comes for it from now on is lost" \
	"a file on a full disk"
step -n 4 --output /dev/full -- sh -c 'echo x' 2>err
isnt $? 0 "without labels the tasks see it themselves"

step -l -n 4 -- seq 100000 | (sleep 0.5 && cat) | sed 's/^.: //' | sort -n >out
is "$(uniq -c out | awk '{ print $1 }' | sort -u)" 4 "a late reader gets all"
is "$(wc -l <out)" 400000 "and no more"
(
	# shellcheck disable=SC2016 # the tasks'
	"$stepd" run --job "$job" -l -n 8 -- sh -c 'yes $SLURM_PROCID' 2>err &
	agent=$!
	eventually sh -c "grep -q running $run/*_$job.0/state.json"
	sleep 0.5 # for what could grow
	awk '/^VmRSS/ { print $2 }' /proc/$agent/status >rss
	kill -TERM $agent
	eventually sh -c "! ps -o stat= --ppid $agent | grep -q '^[^Z]'"
	test -d /proc/$agent && echo waits >waits
	kill -TERM $agent
	wait $agent
	echo $? >status
) | eventually test -s status # takes nothing and stays
ok "with a reader that takes nothing the agent does not grow without bounds" test "$(cat rss)" -lt 98304
is "$(cat waits)" waits "it is waited for once the step has ended"
is "$(cat status)" 143 "until the agent is told again"
unlike "$(grep -v "processes are tracked by" err)" warning "nothing was lost before"
lost() { # of --result
	python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(d.get("output_lost"), d["exit_code"], d["reason"])' result
}
if command -v python3 >/dev/null; then
	step -q -l --result result -n 2 -- echo x >/dev/full 2>err
	is "$? $(lost)" "120 True 120 completed" "the result tells of output that was lost"
	step -q -l --result result -n 2 -- sh -c 'echo x; exit 3' >/dev/full 2>err
	is "$? $(lost)" "3 True 3 completed" "a task's own failure comes before it in the exit status"
	step -q -l --result result -n 2 -- echo x >out 2>err
	is "$? $(lost)" "0 None 0 completed" "where all was written nothing of it stands there"
	{
		step -q -l --result result -- sh -c 'seq 200000' 2>err
		echo $? >status
	} | true
	is "$(cat status) $(lost)" "120 True 120 completed" "so it is where the reader has gone"
else
	skip 4 "needs python3"
fi
nothing_left "nothing is left"
done_testing
