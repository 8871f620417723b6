#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# stdin for all tasks, for one, for none, from files.
. "${top_srcdir:?}/tests/lib/step.sh"
cd "$tmpdir" || bail "no $tmpdir"

head -c 5000000 /dev/urandom >input

same() { # TASKS: each has the input
	for rank in $(seq 0 $(($1 - 1))); do
		cmp input "got.$rank" || return 1
	done
	rm got.*
}

# ---- all ---------------------------------------------------------------------------------------
step -n 5 --output got.%t -- cat <input
ok "all tasks get the input from a file" same 5
cat input | step -n 5 --output got.%t -- cat # a pipe is the matter
ok "all tasks get the input from a pipe" same 5
mkfifo fifo
cat input >fifo &
step -n 5 --output got.%t -- cat <fifo
ok "all tasks get the input from a FIFO" same 5
cat input | step -n 5 --output got.%t -- sh -c 'sleep 0.$SLURM_PROCID; exec dd bs=3001 status=none'
ok "tasks of different speeds all get the input" same 5
cat input | step -n 1 --output got.%t -- cat
ok "a single task gets the input" same 1
is "$(printf x | step -n 1 -- readlink /proc/self/fd/0 | cut -d: -f1)" pipe \
	"a single task has the agent's own stdin"
is "$(printf 'no end' | step -n 3 -l -- cat | sort)" "$(printf '0: no end\n1: no end\n2: no end')" \
	"an input without a newline reaches all tasks as it is"
step -n 3 --output got.%t -- wc -c </dev/null
is "$(cat got.*)" "$(printf '0\n0\n0')" "/dev/null as input is empty for all tasks"
step -n 3 --output got.%t -- wc -c <&-
is "$(cat got.*)" "$(printf '0\n0\n0')" "a closed stdin is empty for all tasks"
rm got.*
head -c 300000 input >short
step -n 256 -- md5sum <short >sums
is "$(sort sums | uniq -c | awk '{ print $1, $2 }')" "256 $(md5sum <short | cut -d' ' -f1)" \
	"256 tasks all get the input"

# ---- readers that leave ------------------------------------------------------------------------
cat input | step -n 4 --output got.%t -- sh -c 'case $SLURM_PROCID in 1) ;; 2) head -c 1 ;; *) cat ;; esac'
is $? 0 "a step whose tasks close stdin early succeeds"
ok "the first task has all input though others left early" cmp input got.0
ok "the last task has all input though others left early" cmp input got.3
is "$(wc -c <got.1) $(wc -c <got.2)" "0 1" "tasks that leave early have what they read"
rm got.*
sh -c 'echo $$ >writer; exec sleep 600' | { step -n 4 -- true; echo $? >status; } &
eventually test -s status -a -s writer
is "$(cat status)" 0 "an input that does not end does not delay the step's end"
ok "the writer of an endless input outlives the step" kill "$(cat writer)"

# ---- one rank, none, files ---------------------------------------------------------------------
step -n 4 --input 2 --output got.%t -- cat <input
ok "--input with a rank gives that rank all input" cmp input got.2
is "$(cat got.0 got.1 got.3 | wc -c)" 0 "--input with a rank gives the others nothing"
cat input | step -n 4 --input 0 --output got.%t -- cat
ok "--input 0 gives rank 0 the input from a pipe" cmp input got.0
step -n 4 --input none --output got.%t -- cat <input
is "$(cat got.* | wc -c)" 0 "--input none gives no task any input"
printf abc | { step -n 2 --input none -- true; cat; } >rest
is "$(cat rest)" abc "--input none leaves the agent's stdin unread"
step -n 3 --input input --output got.%t -- cat </dev/null
ok "--input with a file gives each task the whole file" same 3
for rank in 0 1 2; do
	echo "for $rank" >"in.00$rank"
done
is "$(step -n 3 --input in.%3t -- cat | sort)" "$(printf 'for 0\nfor 1\nfor 2')" \
	"--input with a pattern gives each task its own file"
out=$(step -n 2 --input missing -- true 2>&1)
isnt $? 0 "a missing input file is refused"
like "$out" "'missing' for stdin: No such file or directory" "the refusal of a missing input file names it"

# ---- a terminal --------------------------------------------------------------------------------
if command -v script >/dev/null; then
	printf '%s\n' "exec '$stepd' run --job $job -n 2 --output '$tmpdir/tty.%t' -- head -1" >run.sh
	# The line is typed once the step runs; script(1) ends the input after it.
	(
		eventually test -e "$tmpdir/tty.1"
		echo typed
		eventually sh -c "[ -s '$tmpdir/tty.0' ] && [ -s '$tmpdir/tty.1' ]"
	) | timeout 900 script -qec "sh $tmpdir/run.sh" /dev/null >typescript 2>&1
	is "$(cat tty.0) $(cat tty.1)" "typed typed" "input typed at a terminal reaches all tasks"
	is "$(timeout 900 script -qec "'$stepd' run --job $job --output '$tmpdir/tty' -- test -t 0; echo \$?" \
		/dev/null </dev/null | tr -d '\r' | tail -1)" 1 "a single task does not get the terminal itself"
else
	skip 2 "needs script"
fi
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
