#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A site's own select plugin: built outside the tree against what "make install" leaves on a machine,
# loaded by jobd's host of select plugins, and used to place jobs.
. "${top_srcdir:?}/tests/lib/tap.sh"

command -v pkg-config >/dev/null || skip_all "pkg-config is not installed"
probe=${top_builddir:?}/tests/lib/selectprobe
[ -x "$probe" ] || skip_all "jobd is not built"
tmpdir
stage=$tmpdir/stage

# MAKEFLAGS of the "make check" around us are not for these.
unset MAKEFLAGS MFLAGS MAKELEVEL
if ! make -s -C "$top_builddir" install-data DESTDIR="$stage" >"$tmpdir/install.log" 2>&1; then
	not_ok "stepd's headers install below DESTDIR" "$(tail -n 20 "$tmpdir/install.log")"
	done_testing
fi
ok "stepd's headers install below DESTDIR"
PKG_CONFIG_PATH=$(dirname "$(find "$stage" -name stepd.pc)")
PKG_CONFIG_SYSROOT_DIR=$stage
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR

# A copy without the source tree around it: nothing but the installed headers can be found.
cp -R "$top_srcdir/contrib/example-select" "$tmpdir/example"
chmod -R u+w "$tmpdir/example"
if ! make -C "$tmpdir/example" install CFLAGS="-O2 -Werror" DESTDIR="$stage" plugindir=/plugins \
	>"$tmpdir/make.log" 2>&1; then
	not_ok "a select plugin builds with pkg-config stepd alone" "$(cat "$tmpdir/make.log")"
	done_testing
fi
ok "a select plugin builds with pkg-config stepd alone"

status=0
out=$("$probe" "$stage/plugins" rotate 2>"$tmpdir/err") || status=$?
is "$status" 0 "the host of select plugins loads one that was built outside the tree"
diag "$(cat "$tmpdir/err")"
is "$out" "select/rotate
n1
n2
n3" "a plugin that was built outside the tree places jobs on nodes in turn"
if command -v c++ >/dev/null; then
	wrong=
	for header in "$(dirname "$(find "$stage" -name select.h -path '*/stepd/*')")"/*.h; do
		printf '#include <stepd/%s>\nint main() { return 0; }\n' "$(basename "$header")" >"$tmpdir/one.cc"
		# shellcheck disable=SC2046 # words
		c++ -std=c++17 -pedantic -Wall -Wextra -Werror -fsyntax-only $(pkg-config --cflags stepd) \
			"$tmpdir/one.cc" >>"$tmpdir/cc.log" 2>&1 || wrong="$wrong $(basename "$header")"
	done
	is "$wrong" "" "each installed header can be read by a C++ compiler, by itself"
	diag "$(cat "$tmpdir/cc.log")"
else
	skip 1 "needs a C++ compiler"
fi
make -s -C "$tmpdir/example" clean
ok "make clean leaves no plugin" test ! -e "$tmpdir/example/select_rotate.so"
done_testing
