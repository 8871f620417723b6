#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What the fuzz targets of tests/fuzz take, and what they once found faults with: no input of the corpus
# breaks what it is for.
. "${top_srcdir:?}/tests/lib/tap.sh"
tmpdir

corpus=$top_srcdir/tests/fuzz/corpus
programs=${top_builddir:?}/tests/fuzz
names() { # DIRECTORY: what its fuzz_NAME.c are for
	for source in "$1"/fuzz_*.c; do
		source=${source##*/fuzz_}
		echo "${source%.c}"
	done
}

is "$(ls "$corpus")" "$(names "$top_srcdir/tests/fuzz")" "each target has a corpus, and no other has one"

# fuzz_methods signals the members of its container, which is found by descent: its own pids are for
# where that would be wrong.
STEPD_PLUGIN_DIR=$top_builddir/stepd/cli/plugins
STEPD_RUNTIME_DIR=$tmpdir
TMPDIR=$tmpdir/left
mkdir "$TMPDIR"
export STEPD_PLUGIN_DIR STEPD_RUNTIME_DIR TMPDIR
apart=
! unshare -pf --mount-proc true 2>/dev/null || apart='unshare -pf --mount-proc'

for target in $(names "$top_srcdir/tests/fuzz"); do
	# shellcheck disable=SC2012 # names without blanks
	count=$(ls "$corpus/$target" | wc -l)
	if [ "$target" = methods ]; then
		if [ -z "$apart" ]; then
			skip 1 "needs a pid namespace"
			continue
		fi
		# shellcheck disable=SC2086 # words
		out=$(timeout 300 $apart "$programs/fuzz_$target" "$corpus/$target" 2>"$tmpdir/err")
	else
		out=$(timeout 300 "$programs/fuzz_$target" "$corpus/$target" 2>"$tmpdir/err")
	fi
	is "$? $(echo "$out" | tail -n 1)" "0 $count inputs" "fuzz_$target takes all of its corpus" ||
		diag "$(tail -n 5 "$tmpdir/err")"
done
is "$(ls -A "$TMPDIR")" "" "the targets leave no file behind"
done_testing
