#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Labels: each line behind its task's rank, byte for byte, whatever the reader does.
. "${top_srcdir:?}/tests/lib/step.sh"
cd "$tmpdir" || bail "no $tmpdir"

# ---- form --------------------------------------------------------------------------------------
is "$(step -l -- echo hello)" "0: hello" "a label is the rank, a colon and a blank"
is "$(step -l -n 12 -- sh -c 'echo $SLURM_PROCID' | sort -n | sed -n '2p;11p')" \
	"$(printf ' 1: 1\n10: 10')" "labels are as wide as the step's highest rank"
is "$(step -l -n 101 --ranks 7 --local-ntasks 1 --node-count 2 -- echo hello)" "  7: hello" \
	"labels are as wide as the highest rank of all nodes"
step -l -- printf 'a\n\n\nb\n' >out
is "$(od -An -c out | tr -d ' \n')" '0:a\n0:\n0:\n0:b\n' "an empty line has a label"
step -l -- printf 'one\ntwo' >out
is "$(od -An -c out | tr -d ' \n')" '0:one\n0:two' "a last line without a newline is written without one"
# Each once what the one before has written is there.
: >out
step -l -n 3 -- sh -c '
	before=$((SLURM_PROCID - 1))
	until [ "$SLURM_PROCID" = 0 ] || grep -q "$before: x" out; do sleep 0.02; done
	printf x' >out
is "$(od -An -c out | tr -d ' \n')" '0:x\n1:x\n2:x' \
	"a line without a newline is ended before another task's line"
step -l -- true >out
is "$(wc -c <out)" 0 "a task without output has no label"
is "$(step -l -n 2 -- sh -c 'echo e >&2' 2>&1 >/dev/null | sort)" "$(printf '0: e\n1: e')" \
	"labelled stderr goes to the agent's stderr"
out=$(step -l -n 3 -- sh -c 'exec >/dev/stdout; echo again')
is "$(echo "$out" | sort)" "$(printf '0: again\n1: again\n2: again')" "a labelled task can open /dev/stdout"

# ---- exact -------------------------------------------------------------------------------------
head -c 300000 /dev/urandom >random
step -l -- cat random | sed 's/^0: //' >out # GNU sed keeps bytes and a missing newline
ok "random bytes of one task pass through labels unchanged" cmp random out
for rank in 0 1 2 3 4 5; do
	head -c 200000 /dev/urandom >random.$rank
	echo >>random.$rank # a last line without an end would be ended before another's
done
step -l -n 6 -- sh -c "cat $tmpdir/random.\$SLURM_PROCID" >out
for rank in 0 1 2 3 4 5; do
	LC_ALL=C sed -n "s/^$rank: //p" out >out.$rank
	ok "random bytes of rank $rank among six pass through labels unchanged" cmp random.$rank out.$rank
done
# shellcheck disable=SC2016 # the tasks'
script='i=0; while [ $i -lt 50 ]; do echo "$SLURM_PROCID $i"; i=$((i+1)); done; printf "%s end" $SLURM_PROCID'
step -l -n 256 -- sh -c "$script" >out
is "$(grep -c '' out)" $((256 * 51)) "256 labelled tasks have as many lines as they wrote"
is "$(sed 's/^ *\([0-9]*\): \([0-9]*\) .*/\1 \2/' out | awk '$1 != $2' | wc -l)" 0 \
	"each line of 256 tasks stands behind its own rank"
is "$(grep -c ': [0-9]* end$' out)" 256 "no last line of 256 tasks is lost"
is "$(sort -u out | wc -l)" $((256 * 51)) "no line of 256 tasks appears twice"
step -l -n 4 -- sh -c 'head -c 1048575 /dev/zero | tr "\0" "$SLURM_PROCID"; echo' >out
is "$(awk '{ print length($0), substr($0, 1, 4) }' out | sort)" \
	"$(for r in 0 1 2 3; do echo "1048578 $r: $r"; done)" "lines of a megabyte don't mix"
is "$(tr -d '0\n' <out | tr -s '123' | grep -c '1: 1\|2: 2\|3: 3')" 1 \
	"no line of a megabyte has another task's bytes"

# ---- readers -----------------------------------------------------------------------------------
# What tasks do is seen by what each leaves in its file.
step -l -n 4 -- sh -c "seq 200000; echo \$? >$tmpdir/done.\$SLURM_PROCID" 2>err | head -1 >out
is "$(grep -c '' out)" 1 "a reader gets one line before it leaves"
is "$(cat done.*)" "$(printf '0\n0\n0\n0')" "a reader that leaves does not stop the tasks"
is "$(grep -c 'warning: .*standard output: Broken pipe' err)" 1 "a reader that leaves is reported once"
is "$(grep -c '' err)" 1 "a reader that leaves causes no other message"
rm done.*
step -l -n 4 -- sh -c "seq 200000; echo to stderr >&2; echo \$? >$tmpdir/done.\$SLURM_PROCID" 2>err >/dev/full
is $? 120 "a full disk below labelled output makes the exit status 120"
is "$(cat done.*)" "$(printf '0\n0\n0\n0')" "a full disk does not stop the tasks"
is "$(grep -c 'warning: .*standard output: No space left on device' err)" 1 "a full disk is reported once"
is "$(grep -c ': to stderr$' err)" 4 "stderr goes on where stdout is on a full disk"
step -l -n 4 --output /dev/full -- seq 200000 2>err
is "$(cat err | sed 's/^[^:]*: //')" \
	"warning: write the tasks' output to /dev/full: No space left on device; it is lost until it can be written again (make space there)" \
	"an output file on a full disk is reported with its name"
step -n 4 --output /dev/full -- sh -c 'echo x' 2>err
isnt $? 0 "a task without labels sees the full disk itself"

step -l -n 4 -- seq 100000 | (sleep 0.5 && cat) | sed 's/^.: //' | sort -n >out
is "$(uniq -c out | awk '{ print $1 }' | sort -u)" 4 "a late reader gets all lines of all tasks"
is "$(wc -l <out)" 400000 "a late reader gets no line twice"
(
	# shellcheck disable=SC2016 # the tasks'
	"$stepd" run --job "$job" -l -n 8 -- sh -c 'yes $SLURM_PROCID' 2>err &
	agent=$!
	eventually running 0
	sleep 0.5 # for what could grow
	awk '/^VmRSS/ { print $2 }' /proc/$agent/status >rss
	kill -TERM $agent
	eventually sh -c "! ps -o stat=,comm= --ppid $agent | grep -v stepd-hold | grep -q '^[^Z]'"
	test -d /proc/$agent && echo waits >waits
	kill -TERM $agent
	wait $agent
	echo $? >status
) | eventually test -s status # takes nothing and stays
ok "with a reader that takes nothing the agent does not grow without bounds" test "$(cat rss)" -lt 98304
is "$(cat waits)" waits "the agent waits for its reader once the tasks have ended"
is "$(cat status)" 143 "a second SIGTERM ends the agent's wait for its reader"
unlike "$(grep -v "processes are tracked by" err)" warning \
	"no output is reported lost while the agent waits for its reader"
lost() { # of --result
	json_get result '"%s %s %s" % (d.get("output_lost"), exit_code, reason)'
}
if command -v python3 >/dev/null; then
	step -q -l --result result -n 2 -- echo x >/dev/full 2>err
	is "$? $(lost)" "120 True 120 completed" "the result reports lost output"
	step -q -l --result result -n 2 -- sh -c 'echo x; exit 3' >/dev/full 2>err
	is "$? $(lost)" "3 True 3 completed" "a task's own failure precedes lost output in the exit status"
	step -q -l --result result -n 2 -- echo x >out 2>err
	is "$? $(lost)" "0 None 0 completed" "the result of a step without lost output reports none"
	{
		step -q -l --result result -- sh -c 'seq 200000' 2>err
		echo $? >status
	} | true
	is "$(cat status) $(lost)" "120 True 120 completed" "the result reports output lost by a reader that left"
else
	skip 4 "needs python3"
fi
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
