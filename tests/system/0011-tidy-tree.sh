#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The tree is complete and tidy: what "make dist" lists exists, what exists is listed, every test
# is run, sources have the layout of .clang-format and scripts pass shellcheck (where these are
# installed).
. "${top_srcdir:?}/tests/lib/tap.sh"
tmpdir

# Prints the words of a variable of the Makefile, one a line.
names_of() {
	# shellcheck disable=SC2016 # make's
	(unset MAKEFLAGS MFLAGS MAKELEVEL && cd "${top_builddir:?}" &&
		printf 'include Makefile\nprint-words:\n\t@printf "%%s\\n" $(%s)\n' "$1" |
		make -s -f - print-words) | sed "s|^$srcdir/||" | sort -u
}

srcdir='[.]'
srcdir=$(names_of srcdir) # the Makefile writes it before some names

# ---- make dist ---------------------------------------------------------------------------------
names_of DISTFILES >"$tmpdir/listed"
ok "make dist lists files" test -s "$tmpdir/listed"
missing=
while IFS= read -r file; do
	case $file in
	/*) ;;
	*) [ -e "$top_srcdir/$file" ] || [ -e "$top_builddir/$file" ] || missing="$missing $file" ;;
	esac
done <"$tmpdir/listed"
is "$missing" "" "every file that make dist lists exists"

# Of what is written by hand; a build in the tree adds other kinds.
(cd "$top_srcdir" && find stepd proctrack mpi systemd doc contrib tests -type f \
	\( -name '*.[ch]' -o -name '*.sh' -o -name '*.mk' -o -name '*.md' -o -name '*.json' \
	-o -name '*.py' -o -name '*.[1-8]' \) 2>/dev/null) | sort >"$tmpdir/present"
is "$(comm -23 "$tmpdir/present" "$tmpdir/listed")" "" "make dist lists every file of the tree"

# ---- tests -------------------------------------------------------------------------------------
names_of 'TESTS) $(TESTS_LONG' >"$tmpdir/tests"
names_of TESTS_LONG >"$tmpdir/long"
(cd "$top_srcdir" && find tests/system -name '*.sh') | sort >"$tmpdir/scripts"
is "$(comm -23 "$tmpdir/scripts" "$tmpdir/tests")" "" \
	"every system test is run by ./bootstrap check, or with --all"
is "$(cd "$top_srcdir" && find tests/system -name '*.sh' ! -perm -100)" "" "every system test can be executed"
is "$(names_of TESTS | comm -12 - "$tmpdir/long")" "" "no test is in both TESTS and TESTS_LONG"
is "$(names_of TESTS_FIRST | grep '\.sh$' | comm -23 - "$tmpdir/scripts")" "" \
	"every script of TESTS_FIRST exists"
if grep -q '^tests/unit/' "$tmpdir/tests"; then
	# By the list itself: a build without a library runs fewer.
	grep -oh 'tests/unit/test_[a-z0-9_]*' "$top_srcdir/tests/local.mk" \
		"$top_srcdir/contrib/jobd/local.mk" | sort -u >"$tmpdir/units"
	is "$(cd "$top_srcdir" && find tests/unit -name 'test_*.c' | sed 's/\.c$//' | sort | comm -23 - "$tmpdir/units")" \
		"" "every unit test is run by make check"
else
	skip 1 "built without cmocka"
fi

# ---- layout ------------------------------------------------------------------------------------
cd "$top_srcdir" || bail "no $top_srcdir"
sources=$(grep '\.[ch]$' "$tmpdir/present")
scripts=$(grep '\.sh$' "$tmpdir/present")
[ ! -f bootstrap ] || scripts="$scripts bootstrap"
[ ! -f .ci/run ] || scripts="$scripts .ci/run"
# shellcheck disable=SC2086 # names without blanks, here and below
is "$(grep -L 'SPDX-License-Identifier: BSD-3-Clause' $sources)" "" "every source names its licence"

unbounded='\<(v?sprintf|str(cpy|cat)|stpcpy|gets) ?\('
# shellcheck disable=SC2086
is "$(grep -nE "$unbounded" $sources)" "" "no source writes without a bound"
# shellcheck disable=SC2086
is "$(grep -nwE 'TO''DO|FIX''ME|for'' now' $sources $scripts)" "" "no source or script has a note of work to do"
# What it makes of a line that is too long for it, beside one that begins with a tab.
# shellcheck disable=SC2086
is "$(grep -nE '^ \*[^ /]' $sources | grep -vE '^[^:]*:[0-9]*: \*	')" "" "no comment is torn"

# Another version decides some lines in another way.
case $(clang-format --version 2>/dev/null) in
*' version 14.'*)
	# One process for all: it takes longer to start than to look at a source.
	# shellcheck disable=SC2086
	is "$(clang-format --dry-run -Werror $sources 2>&1 | sed -n 's/^\([^ :]*\):[0-9].*/\1/p' | sort -u)" "" \
		"every source has the layout of .clang-format"
	;;
*) skip 1 "clang-format 14 is not installed" ;;
esac

if command -v shellcheck >/dev/null; then
	# SC3045: dash and bash, which are sh here, have the options of ulimit.
	# A test takes long, together with what it has from tests/lib: those are checked with --all.
	thorough || scripts=$(printf '%s\n' $scripts | grep -v '^tests/system/')
	# shellcheck disable=SC2086
	is "$(shellcheck -S warning -e SC3045 -f gcc $scripts 2>&1)" "" "every script passes shellcheck"
else
	skip 1 "shellcheck is not installed"
fi
# Such a value is that of one moment: the wait would be for a text that never changes.
# shellcheck disable=SC2016 # not a variable of this script
is "$(grep -nE '(eventually|comes) (test|\[) "?\$\(' tests/system/*.sh tests/lib/*.sh tests/testbed/*.sh)" "" \
	"no condition that is awaited is evaluated before the wait"
# What the test beds run stands there by name alone.
missing=$(cd "$top_srcdir" && grep -ohE 'tests/(unit|system)/[a-zA-Z0-9_-]+' tests/testbed/guest* |
	sort -u | while read -r name; do
	for file in "$name" "$name.c" "$name"-*.sh; do
		[ ! -e "$file" ] || continue 2
	done
	echo "$name"
done)
is "$missing" "" "the scripts that the test beds run exist"
done_testing
