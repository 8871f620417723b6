# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# For tests that read the output of "stepd doctor --json", on top of step.sh:
#	doctor [OPTION...]      runs it; $status is its exit status, $report what it wrote
#	all_ids                 the ids of all findings in $report, a line each
#	of ID FIELD             that field of the first finding of that id in $report, or nothing
#	agrees NAME [OPTION...] checks that a step can be started if, and only if, it reports so; the
#	                        options are for both

# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

doctor() {
	report=$(timeout 900 "$stepd" doctor --json "$@" 2>&1)
	status=$?
}

# By awk: guests of tests/testbed have no Python.
all_ids() {
	printf '%s\n' "$report" | sed -n 's/^      "id": "\(.*\)",$/\1/p'
}

of() {
	printf '%s\n' "$report" | awk -v id="$1" -v field="$2" '
		/^      "id": / { on = $0 == "      \"id\": \"" id "\"," }
		on && index($0, "      \"" field "\": ") == 1 {
			sub(/^ *"[a-z]*": "?/, "")
			sub(/"?,?$/, "")
			print
			exit
		}'
}

agrees() {
	agrees_name=$1
	shift
	doctor "$@"
	"$stepd" run -q --job "$job" "$@" -- true >"$tmpdir/agrees" 2>&1
	agrees_run=$?
	is "$status $agrees_run" "$([ "$agrees_run" -eq 0 ] && echo '0 0' || echo '1 125')" \
		"doctor and run agree $agrees_name"
}
