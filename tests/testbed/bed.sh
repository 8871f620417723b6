# shellcheck shell=sh disable=SC2034
# SPDX-License-Identifier: BSD-3-Clause
#
# What tests/testbed/vm and tests/testbed/container have in common: a directory $io that the guest
# has as /run/bed, in which we leave "command" and it leaves "up", "output" and "status"; and two
# trees, the source and the build, that it has at the same paths as we.
# Exit status: the command's; 124 past the limit; 125 if the guest didn't come up, with the reason
# as the last line on stderr.
set -eu

bed=$(basename "$0")
if [ $# -eq 0 ]; then
	echo "usage: $bed COMMAND [ARGUMENT...]   as root in the guest, from this directory" >&2
	exit 2
fi
here=$(cd "$(dirname "$0")" && pwd -P)
: "${top_srcdir:=$(cd "$here/../.." && pwd -P)}" "${top_builddir:=$PWD}"
limit=${STEPD_TESTBED_LIMIT:-3000} # seconds
image=$("$here/image") || exit 125

# One tree may lie within the other: then the outer one is enough.
shares=$top_srcdir
case $top_builddir/ in
"$top_srcdir"/*) ;;
*) shares="$shares $top_builddir" ;;
esac

quote() {
	for word in "$@"; do
		printf '%s' "$word" | sed "s/'/'\\\\''/g; 1s/^/'/; \$s/\$/' /"
	done
}

write_command() {
	printf 'top_srcdir=%s top_builddir=%s CMOCKA_MESSAGE_OUTPUT=TAP\n' \
		"$(quote "$top_srcdir")" "$(quote "$top_builddir")"
	printf 'export top_srcdir top_builddir CMOCKA_MESSAGE_OUTPUT\n'
	printf 'cd %s || exit 125\n' "$(quote "$top_builddir")"
	quote "$@"
	echo
}

# Waits, showing what the command writes, until the process that runs the guest ends.
follow() { # PID
	tail -q -s 0.1 -n +1 -f --pid="$1" "$io/output"
	wait "$1" || : # the command's status counts, in $io/status
}

finish() {
	[ ! -s "$io/status" ] || exit "$(cat "$io/status")"
	[ ! -s "$io.console" ] || tail -n 30 "$io.console" >&2
	if [ -e "$io/up" ]; then
		echo "$bed: stopped after $limit s, or the guest died" >&2
		exit 124
	fi
	echo "no test bed: the guest of tests/testbed/$bed didn't come up here" >&2
	exit 125
}

io=$(mktemp -d)
trap 'exit 143' HUP INT TERM
: >"$io/output"
