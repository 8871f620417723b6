#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# cppcheck finds nothing in the tree. "make analyze" is the longer look.
. "${top_srcdir:?}/tests/lib/tap.sh"

command -v cppcheck >/dev/null || skip_all "needs cppcheck"
out=$(top_builddir="${top_builddir:?}" "$top_srcdir/tests/lib/analyze" cppcheck 2>&1)
is "$? $out" "0 " "cppcheck finds nothing"
done_testing
