#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The limits of served steps of Slurm 24.11 where they can be had, in the VM, as 0901 has them for 22.05:
# tests/testbed/guest-slurm-24.11.sh.
. "${top_srcdir:?}/tests/lib/bed.sh"
# shellcheck source=tests/lib/slurm_root.sh
. "$top_srcdir/tests/lib/slurm_root.sh"

command -v ip >/dev/null || skip_all "needs ip"
tmpdir
find_slurm_root trixie || skip_all "$slurm_root_reason"

# The tree where the guest looks for it, but what is only read by people.
archive=${top_builddir:?}/tests/slurm-24.11-guest.tar
at_exit "rm -f '$archive'"
{
	ldd "$(command -v ip)" | awk '$3 ~ /^\// { print $3 }'
	command -v ip
} >"$tmpdir/files"
cache=var/cache/stepd-testbed
tar -chf "$archive" --absolute-names --transform 's,^/,,' -T "$tmpdir/files" &&
	tar -rf "$archive" --exclude=tree/usr/share/locale --transform "s,^,$cache/slurm-trixie/,S" \
		-C "${slurm_root%/*}" made-by tree || bail "no archive of the tree"
in_bed vm guest-slurm-24.11.sh
done_testing
