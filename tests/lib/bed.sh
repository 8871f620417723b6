# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# For tests that run in a test bed, on top of tap.sh:
#	in_bed vm|container SCRIPT ARG...   runs tests/testbed/SCRIPT in that guest, and reports what its
#	                             parts print as checks of this test; skips all where there is no such bed
# STEPD_TEST_BEDS=no in the environment skips them.

# shellcheck source=tests/lib/tap.sh
. "${top_srcdir:?}/tests/lib/tap.sh"

# A line "ok 7 - NAME" of a part, with our number.
relay_result() { # "ok" | "not ok", REST
	relay_rest=${2#"${2%%[!0-9]*}"}
	relay_rest=${relay_rest# }
	tap_count=$((tap_count + 1))
	relay_seen=$((relay_seen + 1))
	printf '%s %d - %s: %s\n' "$1" "$tap_count" "$relay_part" "${relay_rest#- }"
}

relay_end() { # STATUS SECONDS
	diag "$relay_part took $2 s"
	is "status $1, $relay_seen checks" "status 0, ${relay_plan:-no plan of} checks" \
		"$relay_part: came to its end"
}

relay() {
	relay_part='' relay_complete=''
	while IFS= read -r line; do
		case $line in
		'ok '*) relay_result ok "${line#ok }" ;;
		'not ok '*) relay_result 'not ok' "${line#not ok }" ;;
		'1..0 # SKIP '*)
			relay_plan=1
			relay_result ok "- # SKIP ${line#1..0 # SKIP }"
			;;
		'1..'*) relay_plan=${line#1..} ;;
		'# begin '*)
			relay_part=${line#\# begin }
			relay_seen=0 relay_plan=''
			;;
		"# end $relay_part "*)
			# shellcheck disable=SC2086 # two numbers
			relay_end ${line#"# end $relay_part "}
			relay_part=''
			;;
		'# all parts ran') relay_complete=yes ;;
		*) diag "${line#\# }" ;;
		esac
	done
}

in_bed() {
	bed_kind=$1 bed_script=$2
	shift 2
	[ "${STEPD_TEST_BEDS-yes}" != no ] || skip_all "STEPD_TEST_BEDS=no"
	tmpdir
	"$top_srcdir/tests/testbed/image" >"$tmpdir/image" 2>"$tmpdir/err" ||
		skip_all "$(tail -n 1 "$tmpdir/err")"
	mkfifo "$tmpdir/stream"
	bed_begin=$(date +%s)
	"$top_srcdir/tests/testbed/$bed_kind" sh "$top_srcdir/tests/testbed/$bed_script" "$@" \
		>"$tmpdir/stream" 2>"$tmpdir/err" &
	bed=$!
	at_exit '[ -z "$bed" ] || { kill $bed && wait $bed; }'
	relay <"$tmpdir/stream"
	wait $bed
	bed_status=$?
	bed=
	[ "$bed_status" -ne 125 ] || [ "$tap_count" -ne 0 ] || skip_all "$(tail -n 1 "$tmpdir/err")"
	diag "$(cat "$tmpdir/err")"
	diag "the $bed_kind took $(($(date +%s) - bed_begin)) s in all"
	is "$bed_status $relay_complete" "0 yes" "the $bed_kind ran all its parts"
}
