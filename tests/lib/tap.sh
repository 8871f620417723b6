# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Test Anything Protocol in POSIX sh. A test begins with
#	. "${top_srcdir:?}/tests/lib/tap.sh"
# and ends with done_testing. Standard output is the protocol: what a tested command prints is
# caught (out=$(...)) or sent to a file below $tmpdir. The name of a check is what holds if it
# passes. A failed check doesn't end the test.
#
#	plan COUNT               optional; else done_testing prints the plan
#	ok NAME [COMMAND ARG...] passes; with a command, if that succeeds (its output is shown if not)
#	not_ok NAME [REASON]     fails
#	fails NAME COMMAND ARG...  passes if the command fails
#	is GOT WANTED NAME       compares text
#	isnt GOT UNWANTED NAME
#	like TEXT REGEX NAME     some line of the text matches the extended regular expression
#	unlike TEXT REGEX NAME
#	json_is FILE EXPRESSION WANTED NAME      compares what json_get prints; is skipped in guests of
#	json_like FILE EXPRESSION REGEX NAME     tests/testbed, which have no Python
#	fits_schema NAME SCHEMA FILE [DEFINITION]  the JSON in FILE is as the schema of doc/, or a definition
#	                         in it, has it; of a definition that ends in -line each document of FILE
#	skip COUNT REASON        stands for COUNT checks that can't be made here
#	skip_all REASON          the same for the whole test, which ends; before the first check
#	diag TEXT                a comment
#	bail REASON              ends everything: the ground is gone
#	done_testing             the last line
#	tmpdir                   makes an empty directory, $tmpdir, and removes it at the end. Of a test that failed
#	                         its files below 2 MiB stay in the build directory, in tests/failed/TEST
#	at_exit COMMAND          runs at the end, however it comes; the last one given runs first
#	end_child SIGNAL PID     signals it if it is a child of this test's still: the pid of one that the shell has
#	                         reaped, which it does whenever it waits for a command, may be somebody else's
#	json_get FILE EXPRESSION prints what a Python expression makes of the JSON in FILE, or - for standard
#	                         input: its fields by their names, d all of it, p its "parameters", docs all
#	                         documents if there are several (lines of events); a text as it is,
#	                         anything else as JSON
#	rounds SHORT LONG        prints SHORT, or with STEPD_TEST_ALL=1 LONG: how often, how many
#	real_program PROGRAM     prints the path of the program of which libtool may have made a wrapper
#	thorough                 with STEPD_TEST_ALL=1 succeeds: what else is long may be done

set -u

# With it, print() writes a line and its end apart, and another rank's line may come between them.
unset PYTHONUNBUFFERED

tap_count=0
tap_plan=
tap_done=
tap_failed=
tap_cleanup=

end_child() {
	[ "$(sed -n 's/^PPid:[^0-9]*//p' "/proc/$2/status" 2>/dev/null)" != $$ ] || kill "-$1" "$2"
}

diag() {
	printf '%s\n' "$*" | sed 's/^/# /'
}

tap_result() { # PREFIX NAME [DIRECTIVE]
	tap_count=$((tap_count + 1))
	tap_text=$2
	[ "$1" = ok ] || tap_failed=yes
	# A '#' in a name would begin a directive.
	case $tap_text in
	*'#'* | *"
"*) tap_text=$(printf '%s' "$tap_text" | tr '#\n' '= ') ;;
	esac
	printf '%s %d - %s%s\n' "$1" "$tap_count" "$tap_text" "${3-}"
}

plan() {
	tap_plan=$1
	printf '1..%d\n' "$tap_plan"
}

not_ok() {
	tap_result 'not ok' "$1"
	[ $# -lt 2 ] || diag "$2"
	return 0
}

ok() {
	tap_name=$1
	shift
	if [ $# -eq 0 ]; then
		tap_result ok "$tap_name"
		return 0
	fi
	if tap_out=$("$@" 2>&1); then
		tap_result ok "$tap_name"
	else
		not_ok "$tap_name" "status $? of: $*
$tap_out"
	fi
}

fails() {
	tap_name=$1
	shift
	if tap_out=$("$@" 2>&1); then
		not_ok "$tap_name" "succeeded: $*
$tap_out"
	else
		tap_result ok "$tap_name"
	fi
}

is() {
	if [ "$1" = "$2" ]; then
		tap_result ok "$3"
	else
		not_ok "$3" "got:    $1
wanted: $2"
	fi
}

isnt() {
	if [ "$1" != "$2" ]; then
		tap_result ok "$3"
	else
		not_ok "$3" "got what was not wanted: $1"
	fi
}

like() {
	if printf '%s\n' "$1" | grep -Eq -e "$2"; then
		tap_result ok "$3"
	else
		not_ok "$3" "got:    $1
wanted a line that matches: $2"
	fi
}

unlike() {
	if printf '%s\n' "$1" | grep -Eq -e "$2"; then
		not_ok "$3" "got:    $1
wanted no line that matches: $2"
	else
		tap_result ok "$3"
	fi
}

json_get() {
	python3 -ISc 'import json, sys
path, expression = sys.argv[1:]
try:
    data = sys.stdin.buffer.read() if path == "-" else open(path, "rb").read()
    text, at, docs = data.decode("utf-8", "replace").strip(), 0, []
    while at < len(text):
        doc, at = json.JSONDecoder().raw_decode(text, at)
        docs.append(doc)
        while text[at:at + 1].isspace():
            at += 1
    d = docs[0]
    names = dict(d) if isinstance(d, dict) else {}
    names.update(d=d, docs=docs, p=names.get("parameters"), json=json)
    value = eval("(%s)" % expression, names)
except Exception as e:
    sys.exit("json_get: %s of %s: %r" % (expression, path, e))
sys.stdout.reconfigure(errors="replace")
print(value if isinstance(value, str) else json.dumps(value))' "$@"
}

json_is() {
	if command -v python3 >/dev/null; then
		is "$(json_get "$1" "$2" 2>&1)" "$3" "$4"
	else
		skip 1 "needs python3"
	fi
}

json_like() {
	if command -v python3 >/dev/null; then
		like "$(json_get "$1" "$2" 2>&1)" "$3" "$4"
	else
		skip 1 "needs python3"
	fi
}

# The Python that has jsonschema, or an empty text.
tap_python=unknown
find_schema_python() {
	for tap_python in python3 /usr/bin/python3; do
		! "$tap_python" -c 'from jsonschema import Draft202012Validator' 2>/dev/null || return 0
	done
	tap_python=
}

fits_schema() {
	[ "$tap_python" != unknown ] || find_schema_python
	if [ -z "$tap_python" ]; then
		skip 1 "python3-jsonschema is not installed"
		return 0
	fi
	# shellcheck disable=SC2016 # Python's
	ok "$1" "$tap_python" -c 'import json, sys
from jsonschema import Draft202012Validator
schema_path, path, definition = sys.argv[1:]
schema = json.load(open(schema_path))
Draft202012Validator.check_schema(schema)
if definition:
    schema = {"$schema": schema["$schema"], "$defs": schema["$defs"], "$ref": "#/$defs/" + definition}
text = open(path).read()
docs = text.splitlines() if definition.endswith("-line") else [text]
assert docs, "nothing was printed"
for doc in docs:
    Draft202012Validator(schema).validate(json.loads(doc))' "${top_srcdir:?}/doc/$2" "$3" "${4-}"
}

skip() {
	tap_left=$1
	while [ "$tap_left" -gt 0 ]; do
		tap_result ok "" "# SKIP $2"
		tap_left=$((tap_left - 1))
	done
}

skip_all() {
	# In the middle what came before would count for nothing.
	[ "$tap_count" -eq 0 ] || bail "after check $tap_count: $1"
	printf '1..0 # SKIP %s\n' "$1"
	tap_done=yes
	exit 0
}

bail() {
	printf 'Bail out! %s\n' "$1"
	tap_done=yes
	tap_failed=yes
	exit 1
}

# Exit status 0 with failed checks too: the lines have reported it, and the driver would count a
# status as one more failure.
done_testing() {
	tap_done=yes
	# Else a condition that can't come is only a minute that is lost.
	[ ! -s "${tmpdir-}/waited-in-vain" ] ||
		not_ok "each condition that the test has waited for has come" "$(cat "$tmpdir/waited-in-vain")"
	[ -n "$tap_plan" ] || printf '1..%d\n' "$tap_count"
	exit 0
}

at_exit() {
	tap_cleanup="$1
$tap_cleanup"
}

# What failed once among other tests may not be had again: its logs are all there is to read then.
tap_kept=$(cd "${top_builddir:-.}" && pwd)/tests/failed/$(basename "$0" .sh)
tap_keep() {
	rm -rf "$tap_kept"
	if [ -n "$tap_failed" ] && [ -d "${tmpdir-}" ] && mkdir -p "$tap_kept"; then
		(cd "$tmpdir" && find . -xdev -type f -size -2048k -exec cp -p --parents -t "$tap_kept" {} +)
	fi
}

tap_end() {
	tap_status=$?
	trap - EXIT HUP INT TERM
	[ -n "$tap_done" ] || tap_failed=yes
	tap_keep
	eval "$tap_cleanup"
	if [ -z "$tap_done" ]; then
		diag "ended with status $tap_status after check $tap_count, before done_testing"
		[ "$tap_status" -ne 0 ] || tap_status=99
	fi
	exit "$tap_status"
}
trap tap_end EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

thorough() {
	[ "${STEPD_TEST_ALL:-0}" = 1 ]
}

rounds() { # SHORT LONG
	if thorough; then echo "$2"; else echo "$1"; fi
}

real_program() {
	tap_lt=${1%/*}/.libs/${1##*/}
	if [ -e "$tap_lt" ]; then echo "$tap_lt"; else echo "$1"; fi
}

tmpdir() {
	tmpdir=$(mktemp -d "${TMPDIR:-/tmp}/stepd-test.XXXXXX") || bail "no temporary directory"
	at_exit "rm -rf '$tmpdir'"
}
