#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The programs and plugins as they are built: what only some steps use is loaded by those alone. The
# loader's work for a library is a twentieth of a small step.
. "${top_srcdir:?}/tests/lib/tap.sh"
tmpdir

cd "${top_builddir:?}" || bail "no build"
command -v readelf >/dev/null || skip_all "needs readelf"
! grep -q '^#define STEPD_SANITIZERS 1' config.h || skip_all "a build with sanitizers"

# Prints "FILE: LIBRARY" for each that is needed and is none of those that all have.
needed() { # FILE...
	for file in "$@"; do
		readelf -dW "$file" | sed -n "s|.*(NEEDED).*\\[\\(.*\\)\\].*|${file##*/}: \\1|p"
	done | grep -vE ': (ld-linux.*|ld64.*|libc|libm|libev|libjansson|libgcc_s)\.so'
}

is "$(needed "$(real_program stepd/cli/stepd)")" "" "the agent is linked with no library that some steps can do without"
find mpi proctrack -path '*/.libs/*.so' -type f ! -name pmix_server.so | sort >"$tmpdir/plugins"
like "$(cat "$tmpdir/plugins")" 'mpi_pmi2\.so' "the build has plugins to check"
# shellcheck disable=SC2046 # names without blanks
is "$(needed $(cat "$tmpdir/plugins"))" "" "no plugin is linked with a library that some steps can do without"
server=mpi/pmix/.libs/pmix_server.so
if [ -e $server ]; then
	is "$(needed $server | grep -v ': lib\(pmix\|hwloc\)\.so')" "" \
		"the server of mpi/pmix is linked with libpmix and hwloc, and no other"
fi
done_testing
