#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Lines with labels over several nodes, and the other modes of output: none is torn by another node's,
# whatever its length, each byte passes, and standard error goes where it is sent.
# shellcheck disable=SC2016 # for the tasks
# shellcheck source=tests/lib/steprun.sh
. "${top_srcdir:?}/tests/lib/steprun.sh"
cd "$tmpdir" || bail "no $tmpdir"

# ---- whole lines ---------------------------------------------------------------------------------
for rank in 0 1 2 3; do
	head -c 1000000 /dev/urandom >random.$rank
	echo >>random.$rank # a last line without an end would be ended before another's
done
srun_here -N 2 -n 4 -l -- sh -c "cat $tmpdir/random.\$SLURM_PROCID" >out
for rank in 0 1 2 3; do
	LC_ALL=C sed -n "s/^$rank: //p" out >out.$rank
	ok "random bytes of rank $rank of four on two nodes pass through labels unchanged" cmp random.$rank out.$rank
done
mib=$(rounds 1 16)
srun_here -N 2 -n 4 -l -- sh -c "head -c $((mib * 1048576 - 1))"' /dev/zero | tr "\0" "$SLURM_PROCID"; echo' >out
is "$(awk '{ print length($0), substr($0, 1, 4) }' out | sort)" \
	"$(for r in 0 1 2 3; do echo "$((mib * 1048576 + 2)) $r: $r"; done)" "lines of $mib MiB of two nodes don't mix"
script='i=0; while [ $i -lt 50 ]; do echo "$SLURM_PROCID $i"; i=$((i + 1)); done; printf "%s end" $SLURM_PROCID'
n=$(rounds 48 256)
srun_here -N 6 -n "$n" -l -- sh -c "$script" >out
is "$(sed 's/^ *\([0-9]*\): \([0-9]*\) .*/\1 \2/' out | awk '$1 != $2' | wc -l) $(sort -u out | wc -l) $(grep -c '' out)" \
	"0 $((n * 51)) $((n * 51))" "each line of $n tasks on six nodes stands behind its own rank, the last ones too"
is "$(srun_here -N 12 -n 12 -l -- sh -c 'echo $SLURM_PROCID' | sort -n | sed -n '2p;11p')" "$(printf ' 1: 1\n10: 10')" \
	"labels are as wide as the highest rank of all nodes"

# ---- lines without an end ------------------------------------------------------------------------
srun_here -N 2 -n 2 -l -- sh -c '[ $SLURM_PROCID = 1 ] || printf "one\ntwo"' >out
is "$(od -An -c out | tr -d ' \n')" '0:one\n0:two' "a last line without a newline is written without one"
# Each once what the one before has written is there.
: >out
srun_here -N 3 -n 3 -l -- sh -c '
	before=$((SLURM_PROCID - 1))
	until [ "$SLURM_PROCID" = 0 ] || grep -q "$before: x" out; do sleep 0.02; done
	printf x' >out
is "$(od -An -c out | tr -d ' \n')" '0:x\n1:x\n2:x' "a line without a newline is ended before another node's line"
# While its node runs it waits for its end, however long others write.
begin -N 2 -n 2 -l -- sh -c 'if [ $SLURM_PROCID = 1 ]; then i=0; while [ $i -lt 30 ]; do echo $i; sleep 0.01; i=$((i + 1)); done; exit; fi
	printf begun; while [ ! -e go ]; do sleep 0.02; done; echo " and ended"'
eventually grep -q '^1: 29$' out
is "$(grep -c begun out)" 0 "the beginning of a line waits for its end"
: >go
finish
is "$status $(grep -c '^0: begun and ended$' out) $(grep -c '' out)" "0 1 31" "a line that was begun before others ends whole"

# ---- standard error ------------------------------------------------------------------------------
both='echo "out $SLURM_PROCID"; echo "err $SLURM_PROCID" >&2'
is "$(srun_here -N 2 -n 2 --error /dev/stdout -- sh -c "$both" 2>err | sort | tr '\n' '|') $(cat err)" \
	"err 0|err 1|out 0|out 1| " "standard error of two nodes is merged into standard output"
srun_here -N 2 -n 2 -l --error /dev/stdout -- sh -c "$both" >out 2>err
is "$(sort out | tr '\n' '|') $(cat err)" "0: err 0|0: out 0|1: err 1|1: out 1| " \
	"merged standard error has labels, too"
is "$(grep '^1: ' out | tr '\n' '|')" "1: out 1|1: err 1|" "merged standard error stands in the order in which it was written"
srun_here -N 2 -n 2 -l -- sh -c "$both" >out 2>err
is "$(sort out | tr '\n' '|') $(sort err | tr '\n' '|')" "0: out 0|1: out 1| 0: err 0|1: err 1|" \
	"labelled standard error of two nodes stays apart"

# ---- unbuffered ----------------------------------------------------------------------------------
if command -v python3 >/dev/null; then
	begin -N 2 -n 2 --unbuffered -- python3 -c 'import os, sys, time
print("first", os.environ["SLURM_PROCID"])
while not os.path.exists("last"):
    time.sleep(0.02)
print("last")'
	both_are_there() {
		[ "$(sort out | tr '\n' '|')" = "first 0|first 1|" ]
	}
	ok "with --unbuffered a line of either node comes when it is complete" eventually both_are_there
	: >last
	finish
	is "$status $(sort out | tr '\n' '|')" "0 first 0|first 1|last|last|" "with --unbuffered all lines of two nodes come"
else
	skip 2 "needs python3"
fi
head -c 4000000 /dev/urandom >bytes
is "$(srun_here -N 2 -n 2 -u -i none -- sh -c '[ $SLURM_PROCID = 0 ] || exec cat bytes' | sha256sum)" "$(sha256sum <bytes)" \
	"4 MB by --unbuffered from the second node are exact"
nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
