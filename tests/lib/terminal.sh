# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# For tests at a terminal, on top of step.sh, or of what is on top of that:
#	talk STEP... -- COMMAND...  tests/lib/talk.py; ends the test where there is no Python

command -v python3 >/dev/null || skip_all "needs python3"

talk() {
	timeout -k 5 900 python3 "${top_srcdir:?}/tests/lib/talk.py" "$@"
}
