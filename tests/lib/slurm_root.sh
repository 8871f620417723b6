# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# For tests with the Slurm of another Debian, on top of step.sh:
#	find_slurm_root RELEASE   $slurm_root, made if it has to be; fails where it can't be had, with the reason
#	                          in $slurm_root_reason
#	in_slurm_root COMMAND...  runs it there, from $tmpdir
# STEPD_TEST_BEDS=no in the environment has none of them.

find_slurm_root() {
	slurm_root_reason="STEPD_TEST_BEDS=no"
	[ "${STEPD_TEST_BEDS-yes}" != no ] || return 1
	# shellcheck disable=SC2154 # of tap.sh
	if slurm_root=$("$top_srcdir/tests/testbed/slurm-root" "$1" 2>"$tmpdir/root.err"); then
		return 0
	fi
	# shellcheck disable=SC2034 # for the tests
	slurm_root_reason=$(tail -n 1 "$tmpdir/root.err")
	return 1
}

in_slurm_root() {
	# shellcheck disable=SC2086 # words
	(cd "$tmpdir" && exec ${own_network-} sh "$top_srcdir/tests/testbed/in-root" "$slurm_root" \
		"$(cd "$top_srcdir" && pwd -P)" "$(cd "${top_builddir:?}" && pwd -P)" "$tmpdir" -- "$@")
}
