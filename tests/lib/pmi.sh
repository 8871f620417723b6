# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# For tests of mpi/pmi2, on top of step.sh:
#	talk N SCENARIO...  a step of N tasks that run pmi_talk.py; $pmi has more options for stepd
#	lines TEXT          the "ok" and "not ok" lines of a program's output, as checks
#	and mpi.sh

# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"
# shellcheck source=tests/lib/mpi.sh
. "${top_srcdir:?}/tests/lib/mpi.sh"

command -v python3 >/dev/null || skip_all "needs python3"
talk_py=$top_srcdir/tests/lib/pmi_talk.py
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE
pmi=

talk() {
	talk_n=$1
	shift
	# shellcheck disable=SC2086 # options
	step --mpi=pmi2 $pmi -n "$talk_n" -- python3 "$talk_py" "$@"
}

lines() {
	printf '%s\n' "$1" | sort >"$tmpdir/lines"
	while IFS= read -r line; do
		case $line in
		'ok '*) ok "${line#ok }" ;;
		'not ok '*) not_ok "${line#not ok }" ;;
		*) diag "$line" ;;
		esac
	done <"$tmpdir/lines"
}
