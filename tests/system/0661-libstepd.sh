#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# libstepd as it is installed: it exports what <stepd/client.h> declares and nothing else, each
# function has its manual page, and a program outside the tree builds with it by pkg-config, in C and
# in C++, the manual's example among them.
. "${top_srcdir:?}/tests/lib/tap.sh"

command -v pkg-config >/dev/null || skip_all "pkg-config is not installed"
tmpdir
stage=$tmpdir/stage
header=$top_srcdir/stepd/api/client.h
map=$top_srcdir/stepd/client/libstepd.map
doc=$top_srcdir/doc

unset MAKEFLAGS MFLAGS MAKELEVEL # of the "make check" around us
if ! make -s -C "${top_builddir:?}" install DESTDIR="$stage" >"$tmpdir/install.log" 2>&1; then
	not_ok "stepd installs below DESTDIR" "$(tail -n 20 "$tmpdir/install.log")"
	done_testing
fi
ok "stepd installs below DESTDIR"
pc=$(find "$stage" -name libstepd.pc)
PKG_CONFIG_PATH=$(dirname "$pc")
PKG_CONFIG_SYSROOT_DIR=$stage
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
library=$(find "$stage" -name libstepd.so.0)
LD_LIBRARY_PATH=$(dirname "$library")
export LD_LIBRARY_PATH

# ---- what it exports ---------------------------------------------------------------------------
grep -v '^#' "$header" >"$tmpdir/plain.h"
header=$tmpdir/plain.h
tr '\n' ' ' <"$header" | grep -oE 'STEPD_CLIENT_EXPORT [^(;]*\(' |
	sed 's/.*[ *]\(stepd_[a-z_]*\)($/\1/' | sort >"$tmpdir/declared"
ok "the header declares functions" test "$(wc -l <"$tmpdir/declared")" -gt 20
if command -v nm >/dev/null; then
	nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sort >"$tmpdir/exported"
	is "$(cat "$tmpdir/exported")" "$(sed 's/$/@@LIBSTEPD_0/' "$tmpdir/declared")" \
		"libstepd exports the declared functions, each with its version, and nothing else"
	is "$(objdump -p "$library" | awk '$1 == "SONAME" { print $2 }')" libstepd.so.0 \
		"the soname of libstepd is libstepd.so.0"
	is "$(objdump -p "$library" | awk '$1 == "NEEDED" { print $2 }' | grep -vE '^lib(c|asan|ubsan)\.so|^ld-')" \
		libjansson.so.4 "libstepd needs jansson alone beside libc"
else
	skip 3 "nm is not installed"
fi
is "$(sed -n 's/^\t\(stepd_[a-z_]*\);$/\1/p' "$map")" "$(cat "$tmpdir/declared")" \
	"the version script has the declared functions, in order"

# ---- its manual --------------------------------------------------------------------------------
missing=
while read -r function; do
	page=$doc/$function.3
	[ -f "$page" ] || { missing="$missing $function"; continue; }
	page=$doc/$(sed -n 's|^\.so man3/||p' "$page" | grep . || echo "$function.3")
	grep -qE "^\.Nm $function( ,)?\$" "$page" && grep -qxF ".Fo $function" "$page" ||
		missing="$missing $function(${page##*/})"
done <"$tmpdir/declared"
is "$missing" "" "each function has a page with its name and its arguments"
extra=
for page in "$doc"/stepd_*.3; do
	grep -qxF "$(basename "$page" .3)" "$tmpdir/declared" || extra="$extra ${page##*/}"
done
is "$extra" "" "no manual page has a function that is not declared"

# Arguments as the header has them: the words between the parentheses, without blanks.
arguments() { # FUNCTION: of the header
	tr '\n\t' '  ' <"$header" | grep -oE "STEPD_CLIENT_EXPORT [^(;]*[ *]$1\([^;]*\);" |
		sed 's/^[^(]*(//; s/);$//' | tr -d ' '
}
page_arguments() { # FUNCTION PAGE
	awk -v begin=".Fo $1" '$0 == begin { on = 1; next } $0 == ".Fc" { on = 0 }
		on { sub(/^\.Fa "/, ""); sub(/"$/, ""); line = line sep $0; sep = "," }
		END { print line }' "$2" | tr -d ' '
}
different=
while read -r function; do
	page=$(sed -n 's|^\.so man3/||p' "$doc/$function.3" | grep . || echo "$function.3")
	[ "$(arguments "$function")" = "$(page_arguments "$function" "$doc/$page")" ] ||
		different="$different $function"
done <"$tmpdir/declared"
is "$different" "" "each manual page has the types of the header"
for code in $(grep -oE '^ \* -E[A-Z]+' "$header" | sed 's/.*-E/E/' | sort -u); do
	ok "libstepd(3) has $code" grep -qxF ".It Bq Er $code" "$doc/libstepd.3"
done

# ---- programs outside the tree -----------------------------------------------------------------
flags=$(pkg-config --cflags --libs libstepd)
like "$flags" '-lstepd' "pkg-config knows the library"
unlike "$flags" 'jansson' "pkg-config links libstepd and nothing else"
awk '/^\.Sh / { on = $2 == "EXAMPLES" } on && /^\.Ed/ { exit } code { print } on && /^\.Bd -literal/ { code = 1 }' \
	"$doc/libstepd.3" | sed 's/\\e/\\/g; s/\\-/-/g' >"$tmpdir/example.c"
cc=${CC:-cc}
case $(nm -D "$library" 2>/dev/null) in
*__asan_*) flags="$flags -fsanitize=address,undefined" ;;
esac
# shellcheck disable=SC2086 # words
ok "the manual's example builds without a warning" $cc -std=c11 -pedantic -Wall -Wextra -Werror \
	-o "$tmpdir/example" "$tmpdir/example.c" $flags
mkdir -m 0755 "$tmpdir/run"
STEPD_RUNTIME_DIR=$tmpdir/run
export STEPD_RUNTIME_DIR
status=0
out=$("$tmpdir/example" 7.0 2>&1) || status=$?
is "$status $out" "1 there is no step '7.0' on this node" \
	"the manual's example runs, and reports that there is no such step"

cat >"$tmpdir/plus.cc" <<'END'
#include <stepd/client.h>
int main()
{
	stepd_error error = {};
	stepd_client *client = nullptr;
	int r = stepd_connect(nullptr, "7.0", STEPD_TIMEOUT_MS, &client, &error);
	return stepd_disconnect(client) == nullptr && r < 0 && error.code == r ? 0 : 1;
}
END
if command -v c++ >/dev/null; then
	# shellcheck disable=SC2086
	ok "a program in C++ builds with libstepd" c++ -std=c++17 -pedantic -Wall -Wextra -Werror \
		-o "$tmpdir/plus" "$tmpdir/plus.cc" $flags
	ok "a program in C++ runs with libstepd" "$tmpdir/plus"
else
	skip 2 "no C++ compiler is installed"
fi

make -s -C "$top_builddir" uninstall DESTDIR="$stage" >/dev/null 2>&1
is "$(find "$stage" -name 'libstepd*' -o -name client.h -o -name 'stepd_*.3')" "" \
	"make uninstall removes all of libstepd"
done_testing
