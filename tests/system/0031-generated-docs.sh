#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What the documentation takes from the program's tables is as "make regenerate-docs" makes it.
. "${top_srcdir:?}/tests/lib/tap.sh"

generate=${top_builddir:?}/doc/generate/generate
doc=$top_srcdir/doc
tmpdir

same() { # FILE COMMAND...
	file=$1
	shift
	"$@" >"$tmpdir/made" 2>"$tmpdir/err" || cat "$tmpdir/err" >>"$tmpdir/made"
	is "$(diff "$doc/$file" "$tmpdir/made" | head -n 20)" "" \
		"$file agrees with the tables, else call make regenerate-docs"
}

same stepd-spec.schema.json "$generate" schema "$doc/generate/spec.json"
same stepd-spec.5 "$generate" manual "$doc/generate/spec.json" "$doc/stepd-spec.5"
same stepd.8 "$generate" manual "$doc/generate/spec.json" "$doc/stepd.8"

# A heading or a table that is no longer there can't leave its part of the page as it was.
printf '.\\" BEGIN options None such\n.\\" END\n' >"$tmpdir/page"
"$generate" manual "$doc/generate/spec.json" "$tmpdir/page" >/dev/null 2>"$tmpdir/err"
is "$?" 1 "marks without a table fail the generator"
like "$(cat "$tmpdir/err")" "None such: there is no such table or heading" "the generator names the marks without a table"
done_testing
