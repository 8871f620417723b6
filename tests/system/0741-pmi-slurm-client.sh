#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Slurm's own PMI-2 client library, libpmi2, against mpi/pmi2.
. "${top_srcdir:?}/tests/lib/pmi.sh"

printf '#include <slurm/pmi2.h>\nint main(void) { return PMI2_Initialized(); }\n' >"$tmpdir/t.c"
# shellcheck disable=SC2086 # the compiler's name may have words
${CC:-cc} -o "$tmpdir/t" "$tmpdir/t.c" -lpmi2 2>/dev/null || skip_all "needs libpmi2-0-dev"
# shellcheck disable=SC2086
${CC:-cc} -o "$tmpdir/client" "$top_srcdir/tests/lib/pmi2_client.c" -lpmi2 >"$tmpdir/cc.log" 2>&1 ||
	bail "$(cat "$tmpdir/cc.log")"

for n in 1 4; do
	out=$(step -q --mpi=pmi2 -n $n -- "$tmpdir/client")
	is $? 0 "a step of $n tasks with Slurm's libpmi2 succeeds"
	lines "$out"
	is "$(printf '%s\n' "$out" | grep -c '^ok')" $((n * 14 + 4)) \
		"all checks of Slurm's libpmi2 in $n tasks were made"
done

out=$(step --mpi=pmi2 -n 2 -- "$tmpdir/client" abort 2>&1)
is $? 9 "an abort ends the step with the code in its text"
like "$out" 'rank 0 called MPI_Abort\(\) with code 9' "the log names the rank that aborted"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
