# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# For tests with another Slurm than this machine's, on top of step.sh:
#	find_slurm_root NAME      $slurm_root, made if it has to be; fails where it can't be had, with the reason
#	                          in $slurm_root_reason. NAME is a release of Debian, "trixie" or "sid", or a tree
#	                          by its path, with any Slurm below usr, and all that tests/testbed/slurm-root puts in
#	slurm_protocol NAME       the version of the protocol that its Slurm speaks; of "", Debian 12's. NAME may be another
#	                          tree that is in the cache of tests/testbed/slurm-root
#	in_slurm_root COMMAND...  runs it there, from $tmpdir
# STEPD_TEST_BEDS=no in the environment has none of them.

find_slurm_root() {
	case $1 in
	/*)
		slurm_root=$1
		slurm_root_reason="'$1' has no usr/sbin/slurmd"
		[ -x "$1/usr/sbin/slurmd" ]
		return
		;;
	esac
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

slurm_protocol() {
	case $1 in
	'') echo 9728 ;;      # 22.05
	trixie) echo 10752 ;; # 24.11
	sid) echo 11520 ;;    # 26.05
	*) # its library has the number as well
		slurm_tree=${STEPD_TESTBED_CACHE:-/var/cache/stepd-testbed}/slurm-$1/tree
		case $1 in /*) slurm_tree=$1 ;; esac
		find "$slurm_tree/usr/lib" -name 'libslurm.so.[0-9][0-9]' | sed -n '1s/.*\.so\.//p' | awk '{ print $1 * 256 }'
		;;
	esac
}

in_slurm_root() {
	# shellcheck disable=SC2086 # words
	(cd "$tmpdir" && exec ${own_network-} sh "$top_srcdir/tests/testbed/in-root" "$slurm_root" \
		"$(cd "$top_srcdir" && pwd -P)" "$(cd "${top_builddir:?}" && pwd -P)" "$tmpdir" -- "$@")
}
