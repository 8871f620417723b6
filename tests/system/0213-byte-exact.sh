#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Each byte of a rank, over every path that its streams can take: compared by SHA-256.
# shellcheck source=tests/lib/steprun.sh
. "${top_srcdir:?}/tests/lib/steprun.sh"
cd "$tmpdir" || bail "no $tmpdir"
LC_ALL=C
export LC_ALL

# All values of a byte, then random ones. Each rank begins elsewhere, and ends within a line.
size=$(($(rounds 16 64) * 1048576))
{
	awk 'BEGIN { for (i = 0; i < 256; i++) printf "%c", i }'
	head -c $((size - 257)) /dev/urandom
} >data
cat >bytes <<'S'
from=$((${1:-$SLURM_PROCID} * 1000 + 1))
tail -c +$from data
head -c $((from - 1)) data
printf x
S
is "$(head -c 256 data | od -An -v -tu1 -w1 | sort -n | uniq | wc -l)" 256 "the bytes have all values"
is "$(sh bytes 0 | wc -c)" $size "a rank has as many bytes as wanted"

sum() {
	sha256sum | cut -d' ' -f1
}
sum_of() { # RANK
	sh bytes "$1" | sum
}
sum0=$(sum_of 0)
unlabelled() { # RANK: without the newline that the last line gets where another follows it
	sed -n "s/^ *$1: //p" | head -c $size
}
path() { # STEP ARG...: of "stepd run", beside others
	path_step=$1
	shift
	step -q --step "$path_step" "$@"
}

# ---- one rank, all paths at once ---------------------------------------------------------------
sh bytes 0 >input
path 1 -- sh bytes >inherited &
path 2 -- sh bytes | cat >piped &
path 3 --output file.%t -- sh bytes &
path 4 --output shared -- sh bytes &
path 5 --forward -- sh bytes | cat >forwarded &
path 6 --forward --output forwarded.%t -- sh bytes &
path 7 --label -- sh bytes | sed 's/^0: //' >labelled & # GNU sed keeps bytes, and a missing newline
path 8 --label --output labelled.%t -- sh bytes &
path 9 --unbuffered -- sh bytes | cat >unbuffered &
path 10 --forward --error stderr -- sh -c 'exec sh bytes >&2' &
path 11 -- cat <input >stdin-file &
# shellcheck disable=SC2002 # a pipe is meant
cat input | path 12 -- cat >stdin-pipe &
# shellcheck disable=SC2002
cat input | path 13 -n 2 --output stdin-all.%t -- cat &
# shellcheck disable=SC2002
cat input | path 14 -n 2 --input 1 --output stdin-rank.%t -- cat &
# shellcheck disable=SC2016 # the tasks'
srun_here -q --step 101 -N 2 -n 2 -i none -- sh -c '[ "$SLURM_PROCID" = 0 ] || exec sh bytes 0' >nodes &
# shellcheck disable=SC2016
srun_here -q --step 102 -N 2 -n 2 -i all -- sh -c 'cat >"stdin-nodes.$SLURM_PROCID"' <input &
# shellcheck disable=SC2016
srun_here -q --step 103 -N 2 -n 2 -l -i none -- sh -c '[ "$SLURM_PROCID" = 0 ] || exec sh bytes' >nodes-labelled &
wait
for name in inherited piped file.0 shared forwarded forwarded.0 labelled unbuffered stderr stdin-file stdin-pipe \
	stdin-all.0 stdin-all.1 stdin-rank.1 nodes stdin-nodes.0 stdin-nodes.1; do
	is "$(sum <$name)" "$sum0" "each byte arrives as it was written: $name"
done
is "$(sed 's/^0: //' labelled.0 | sum)" "$sum0" "each byte arrives behind its label: a file of one rank"
is "$(unlabelled 1 <nodes-labelled | sum)" "$(sum_of 1)" "each byte arrives behind its label from another node"
is "$(wc -c <stdin-rank.0)" 0 "a rank without input gets none"
is "$(tail -c 1 labelled)$(tail -c 1 forwarded)$(tail -c 1 unbuffered)" xxx "a last line without an end gets none"
rm -f inherited piped file.* shared forwarded* labelled* unbuffered stderr stdin-* nodes*

# ---- input of many ranks; their output is in 0214 ------------------------------------------------
ranks=$(rounds 4 64)
# shellcheck disable=SC2002
cat data | path 17 -n "$ranks" -- sh -c 'sha256sum' | cut -d' ' -f1 | sort | uniq -c >got
is "$(awk '{ print $1, $2 }' got)" "$ranks $(sum <data)" "each byte of standard input arrives at $ranks ranks"
nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
