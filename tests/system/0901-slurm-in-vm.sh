#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The limits of served steps where they can be had: in the VM, whose cgroup v2 has all controllers, with this
# machine's Slurm: tests/testbed/guest-slurm.sh.
. "${top_srcdir:?}/tests/lib/bed.sh"

packages='munge libmunge2 slurm-client slurm-wlm-basic-plugins slurmctld slurmd'
# shellcheck disable=SC2086 # words
dpkg -L $packages >/dev/null 2>&1 || skip_all "needs Debian's packages $packages"
command -v ip >/dev/null || skip_all "needs ip"

# Their files, and the libraries of those; the guest has the rest.
tmpdir
# shellcheck disable=SC2086
dpkg -L $packages | grep -v /usr/share/ >"$tmpdir/list"
{
	while read -r file; do
		[ ! -f "$file" ] || echo "$file"
	done <"$tmpdir/list"
	# shellcheck disable=SC2046 # words
	ldd $(grep -E '/s?bin/|\.so' "$tmpdir/list") "$(command -v ip)" 2>/dev/null |
		awk '$3 ~ /^\// { print $3 }'
	for program in slurmctld slurmd slurmstepd ip; do
		command -v $program # Slurm's lead to /etc/alternatives
	done
} | sort -u >"$tmpdir/files"
archive=${top_builddir:?}/tests/slurm-guest.tar
at_exit "rm -f '$archive'"
tar -chf "$archive" --absolute-names --transform 's,^/,,' -T "$tmpdir/files" 2>"$tmpdir/tar" ||
	skip_all "no archive of Slurm: $(tail -n 1 "$tmpdir/tar")"
in_bed vm guest-slurm.sh
done_testing
