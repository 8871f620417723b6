#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Each fuzz target of tests/fuzz for a minute, with sanitizers, from its corpus on: nothing breaks it.
#	FUZZ_SECONDS   of each (60)
#	FUZZ_TARGETS   (all)
. "${top_srcdir:?}/tests/lib/tap.sh"
tmpdir

command -v clang >/dev/null || skip_all "needs clang"
[ ! -e "$top_srcdir/config.status" ] || skip_all "the source tree itself is a build: no other one can be made of it"
echo 'int LLVMFuzzerTestOneInput(const char *d, long n) { return d && n < 0; }' >"$tmpdir/probe.c"
clang -fsanitize=fuzzer,address -o "$tmpdir/probe" "$tmpdir/probe.c" 2>/dev/null ||
	skip_all "needs libFuzzer, which is in Debian's libclang-rt-dev"

seconds=${FUZZ_SECONDS:-60}
targets=${FUZZ_TARGETS:-$(for source in "$top_srcdir"/tests/fuzz/fuzz_*.c; do
	source=${source##*/fuzz_}
	echo "${source%.c}"
done)}
mkdir "$tmpdir/build"
cd "$tmpdir/build" || bail "no build directory"
unset MAKEFLAGS MFLAGS MAKELEVEL
# shellcheck disable=SC2046,SC2086 # words
{ "$top_srcdir/configure" --quiet CC=clang --enable-fuzzing --enable-sanitizers &&
	make -s -j "$(nproc)" $(printf 'tests/fuzz/fuzz_%s ' $targets); } >"$tmpdir/log" 2>&1 ||
	bail "the targets can't be built: $(tail -n 20 "$tmpdir/log")"

# fuzz_methods signals the members of its container, which is found by descent: its own pids are for
# where that would be wrong, and the sanitizers' helpers would be members.
STEPD_PLUGIN_DIR=${top_builddir:?}/stepd/cli/plugins
STEPD_RUNTIME_DIR=$tmpdir
TMPDIR=$tmpdir/left
mkdir "$TMPDIR"
export STEPD_PLUGIN_DIR STEPD_RUNTIME_DIR TMPDIR
apart=
! unshare -pf --mount-proc true 2>/dev/null || apart='unshare -pf --kill-child --mount-proc'

for target in $targets; do
	if [ "$target" = methods ] && [ -z "$apart" ]; then
		skip 1 "needs a pid namespace"
		continue
	fi
	within='' options=''
	[ "$target" != methods ] ||
		within="$apart env ASAN_OPTIONS=symbolize=0" options='-print_funcs=0 -detect_leaks=0'
	mkdir -p "$tmpdir/found/$target"
	# shellcheck disable=SC2086 # words
	if timeout -k 10 $((seconds + 600)) $within "tests/fuzz/fuzz_$target" $options \
		-max_total_time="$seconds" -print_final_stats=1 -artifact_prefix="$tmpdir/" \
		"$tmpdir/found/$target" "$top_srcdir/tests/fuzz/corpus/$target" >"$tmpdir/log" 2>&1; then
		ok "fuzz_$target finds no input that breaks the parser: $(sed -n 's/^stat::number_of_executed_units: *//p' "$tmpdir/log") inputs"
		continue
	fi
	not_ok "fuzz_$target finds no input that breaks the parser" "$(tail -n 40 "$tmpdir/log")"
	for input in "$tmpdir"/crash-* "$tmpdir"/timeout-* "$tmpdir"/oom-* "$tmpdir"/leak-*; do
		[ ! -f "$input" ] || diag "the input, in base64: $(base64 -w 0 "$input")"
		rm -f "$input"
	done
done
is "$(ls -A "$TMPDIR")" "" "the targets leave no file behind"
done_testing
