#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The programs, the plugins and the library as they are built: what an attacker wants to find in them is
# not there.
. "${top_srcdir:?}/tests/lib/tap.sh"
tmpdir

cd "${top_builddir:?}" || bail "no build"
command -v readelf >/dev/null || skip_all "needs readelf"
! grep -q '^#define STEPD_SANITIZERS 1' config.h || skip_all "a build with sanitizers"
flags=$(sed -n 's/^STEPD_CFLAGS = //p' Makefile)
case " $(sed -n 's/^CFLAGS = //p' Makefile) " in
*" -O0 "*) skip_all "built without optimization" ;;
esac

# Libtool's wrappers of programs are scripts.
programs=$(for program in stepd/cli/stepd stepd/cli/stepctl stepd/cli/steprun contrib/slurm/stepd-slurm-socket \
	contrib/slurm/stepd-slurmstepd contrib/slurm/stepd-slurm-doctor contrib/slurm/stepd-slurm-task \
	stepd/cli/selftest/mpi-selftest; do
	[ ! -e "$program" ] || real_program "$program"
done)
shared=$(find . -path '*/.libs/*.so' -type f | sort; find . -path '*/.libs/libstepd.so.*' -type f)

# Prints those of $2... for which readelf prints nothing that the pattern finds.
lack() { # PATTERN FILE...
	pattern=$1
	shift
	for file in "$@"; do
		readelf -dlhW "$file" | grep -q "$pattern" || echo "$file"
	done
}
# shellcheck disable=SC2086 # names without blanks
{
	is "$(lack 'Type: *DYN' $programs)" "" "no program stands at an address that is known"
	is "$(lack 'GNU_RELRO' $programs $shared)" "" "relocated data is read-only (RELRO)"
	is "$(lack 'BIND_NOW\|FLAGS_1.*NOW' $programs $shared)" "" "all symbols are bound at start (BIND_NOW)"
	is "$(lack 'GNU_STACK .* RW ' $programs $shared)" "" "no stack can be executed"
}
for file in $programs $shared; do
	readelf -lW "$file" | grep -q 'LOAD .* RWE ' && echo "$file"
done >"$tmpdir/rwe"
is "$(cat "$tmpdir/rwe")" "" "no segment is both writable and executable"
for file in $programs $shared; do
	readelf -dW "$file" | sed -n "s|.*TEXTREL.*|$file changes its code|p; s|.*R[UN]*PATH).*\[\(.*\)\]|\1|p"
done | tr ':' '\n' | sort -u | while IFS= read -r dir; do
	case $dir in
	/*) [ -z "$(find "$dir" -maxdepth 0 -perm /022)" ] || echo "$dir" ;;
	*) echo "$dir" ;;
	esac
done >"$tmpdir/paths"
is "$(cat "$tmpdir/paths")" "" "no RPATH leads to a directory that others may write to"
agent=$(real_program stepd/cli/stepd)
like "$(readelf -sW "$agent")" '__stack_chk_fail' "the agent is built with stack canaries"
like "$(readelf -sW "$agent")" '__[a-z]*_chk@' "the agent is built with _FORTIFY_SOURCE"

# The linker takes the mark from what is linked with an object that lacks it, as many systems' crt1.o
# does: so each object is looked at.
cc=$(sed -n 's/^CC = //p' Makefile)
# shellcheck disable=SC2086 # words
echo 'int marked;' | $cc -fcf-protection=full -x c -c -o "$tmpdir/marked.o" - 2>/dev/null
case $flags$(readelf -nW "$tmpdir/marked.o" 2>/dev/null) in
*-fcf-protection=none*) skip 1 "built without marks, as configured" ;;
*"IBT, SHSTK"*)
	find stepd mpi proctrack systemd -name '*.o' | while IFS= read -r object; do
		readelf -nW "$object" 2>/dev/null | grep -q 'IBT, SHSTK' || echo "$object"
	done >"$tmpdir/unmarked"
	is "$(head -n 5 "$tmpdir/unmarked")" "" "each object is ready for IBT and for a shadow stack"
	;;
*) skip 1 "the compiler has no -fcf-protection=full for this machine" ;;
esac
done_testing
