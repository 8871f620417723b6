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
ok "all, from a file" same 5
cat input | step -n 5 --output got.%t -- cat # a pipe is the matter
ok "all, from a pipe" same 5
mkfifo fifo
cat input >fifo &
step -n 5 --output got.%t -- cat <fifo
ok "all, from a FIFO" same 5
cat input | step -n 5 --output got.%t -- sh -c 'sleep 0.$SLURM_PROCID; exec dd bs=3001 status=none'
ok "all, by readers of several speeds" same 5
cat input | step -n 1 --output got.%t -- cat
ok "one task" same 1
is "$(printf x | step -n 1 -- readlink /proc/self/fd/0 | cut -d: -f1)" pipe "which has the agent's own stdin"
is "$(printf 'no end' | step -n 3 -l -- cat | sort)" "$(printf '0: no end\n1: no end\n2: no end')" \
	"an input without an end of line"
step -n 3 --output got.%t -- wc -c </dev/null
is "$(cat got.*)" "$(printf '0\n0\n0')" "/dev/null"
step -n 3 --output got.%t -- wc -c <&-
is "$(cat got.*)" "$(printf '0\n0\n0')" "closed"
rm got.*
head -c 300000 input >short
step -n 256 -- md5sum <short >sums
is "$(sort sums | uniq -c | awk '{ print $1, $2 }')" "256 $(md5sum <short | cut -d' ' -f1)" "256 tasks"

# ---- readers that leave ------------------------------------------------------------------------
cat input | step -n 4 --output got.%t -- sh -c 'case $SLURM_PROCID in 1) ;; 2) head -c 1 ;; *) cat ;; esac'
is $? 0 "some tasks leave early"
ok "the first has all" cmp input got.0
ok "the last too" cmp input got.3
is "$(wc -c <got.1) $(wc -c <got.2)" "0 1" "and they what they took"
rm got.*
sh -c 'echo $$ >writer; exec sleep 600' | { step -n 4 -- true; echo $? >status; } &
eventually test -s status -a -s writer
is "$(cat status)" 0 "an input that does not end does not hold up the end"
ok "but goes on behind it" kill "$(cat writer)"

# ---- one rank, none, files ---------------------------------------------------------------------
step -n 4 --input 2 --output got.%t -- cat <input
ok "one rank has all" cmp input got.2
is "$(cat got.0 got.1 got.3 | wc -c)" 0 "the others nothing"
cat input | step -n 4 --input 0 --output got.%t -- cat
ok "rank 0, from a pipe" cmp input got.0
step -n 4 --input none --output got.%t -- cat <input
is "$(cat got.* | wc -c)" 0 "none: nobody has anything"
printf abc | { step -n 2 --input none -- true; cat; } >rest
is "$(cat rest)" abc "and the agent has read nothing"
step -n 3 --input input --output got.%t -- cat </dev/null
ok "a file, whole for each" same 3
for rank in 0 1 2; do
	echo "for $rank" >"in.00$rank"
done
is "$(step -n 3 --input in.%3t -- cat | sort)" "$(printf 'for 0\nfor 1\nfor 2')" "a file each"
out=$(step -n 2 --input missing -- true 2>&1)
isnt $? 0 "a file that is missing"
like "$out" "'missing' for stdin: No such file or directory" "is named"

# ---- a terminal --------------------------------------------------------------------------------
if command -v script >/dev/null; then
	printf '%s\n' "exec '$stepd' run --job $job -n 2 --output '$tmpdir/tty.%t' -- head -1" >run.sh
	# The line is typed once the step runs; script(1) ends the input after it.
	(
		eventually test -e "$tmpdir/tty.1"
		echo typed
		sleep 1
	) | timeout 900 script -qec "sh $tmpdir/run.sh" /dev/null >typescript 2>&1
	is "$(cat tty.0) $(cat tty.1)" "typed typed" "what is typed at a terminal reaches all tasks"
	is "$(timeout 900 script -qec "'$stepd' run --job $job --output '$tmpdir/tty' -- test -t 0; echo \$?" \
		/dev/null </dev/null | tr -d '\r' | tail -1)" 1 "one task has not the terminal itself"
else
	skip 2 "needs script"
fi
nothing_left "nothing is left"
done_testing
