#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The limits of served steps of Slurm 24.11 where they can be had, in the VM, as 0901 has them for 22.05:
# tests/testbed/guest-slurm-release.sh. 0730-slurm-26.05-in-vm.sh has the same for 26.05.
. "${top_srcdir:?}/tests/lib/bed.sh"
# shellcheck source=tests/lib/slurm_root.sh
. "$top_srcdir/tests/lib/slurm_root.sh"

release=${STEPD_TEST_SLURM:-trixie}
command -v ip >/dev/null || skip_all "needs ip"
tmpdir
find_slurm_root "$release" || skip_all "$slurm_root_reason"

# The tree where the guest looks for it, but what is only read by people. A site's own is "site" there.
case $release in /*) release=site ;; esac
archive=${top_builddir:?}/tests/slurm-$release-guest.tar
at_exit "rm -f '$archive'"
{
	ldd "$(command -v ip)" | awk '$3 ~ /^\// { print $3 }'
	command -v ip
} >"$tmpdir/files"
cache=var/cache/stepd-testbed
tar -chf "$archive" --absolute-names --transform 's,^/,,' -T "$tmpdir/files" &&
	tar -rf "$archive" --transform "s,.*,$cache/slurm-$release/made-by," -C "$top_srcdir" tests/testbed/slurm-root &&
	tar -rf "$archive" --exclude=./usr/share/locale --transform "s,^\.,$cache/slurm-$release/tree,S" -C "$slurm_root" . ||
	bail "no archive of the tree"
in_bed vm guest-slurm-release.sh "$release"
done_testing
