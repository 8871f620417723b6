#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The manual pages are well-formed, refer to pages that are there, and name what the program has:
# options, exit statuses, variables, reasons, and the fields of what it writes.
# shellcheck source=tests/lib/tap.sh
. "${top_srcdir:?}/tests/lib/tap.sh"

stepd=${top_builddir:?}/stepd/cli/stepd
doc=$top_srcdir/doc
manual=$doc/stepd.8
tmpdir
STEPD_RUNTIME_DIR=$tmpdir/run
export STEPD_RUNTIME_DIR

set --
for page in "$doc"/*.[1-8]; do
	# Some names only lead to another page.
	case $(head -n 1 "$page") in
	".so man${page##*.}/"*)
		to=$(sed 's|^\.so man./||' "$page")
		ok "${page##*/} leads to a page" grep -q '^\.Sh NAME' "$doc/$to"
		;;
	*) set -- "$@" "$page" ;;
	esac
done

# What is wrong with a page, as each of the two formatters has it, and its lines beyond 80 columns: in
# ASCII a byte is a column.
mandoc_faults() {
	# A machine without a database of its manual pages warns of each reference.
	mandoc -Tlint -Wwarning "$1" 2>&1 | grep -v 'mandoc\.db'
}
mandoc_wide() {
	mandoc -Tascii -Owidth=78 "$1" 2>/dev/null | sed 's/.\x08//g' | awk 'length($0) > 80'
}
# shellcheck disable=SC2069 # the warnings alone
troff_faults() {
	groff -mdoc -Tascii -ww "$1" 2>&1 >/dev/null
}
troff_wide() {
	groff -mdoc -Tascii -P -bcu "$1" 2>/dev/null | awk 'length($0) > 80'
}

# A table that is too wide, and a macro that does not exist.
{
	printf '.Dd January 1, 2025\n.Dt BAD 7\n.Os\n.Sh NAME\n.Nm bad\n.Nd bad\n.Sh TABLE\n'
	printf '.Bl -column "%040d" "%040d"\n.It %040d Ta %040d\n.El\n.Zz\n' 1 2 3 4
} >"$tmpdir/bad.7"
check_pages() { # FORMATTER PACKAGE PAGE...
	formatter=$1
	if ! command -v "$2" >/dev/null 2>&1; then
		shift 2
		skip $((2 + 2 * $#)) "$formatter is not installed"
		return
	fi
	shift 2
	isnt "$("${formatter}_faults" "$tmpdir/bad.7")" "" "$formatter finds an unknown macro"
	isnt "$("${formatter}_wide" "$tmpdir/bad.7")" "" "a table wider than 80 columns is found with $formatter"
	for page; do
		is "$("${formatter}_faults" "$page")" "" "$formatter renders ${page##*/} without a warning"
		is "$("${formatter}_wide" "$page")" "" "${page##*/} renders within 80 columns with $formatter"
	done
}
check_pages mandoc mandoc "$@"
check_pages troff groff "$@"
if command -v mandoc >/dev/null 2>&1; then
	for page; do
		unlike "$(mandoc -Tutf8 "$page" 2>/dev/null)" "’’" "${page##*/} closes no quotation twice"
	done
fi

# Pages of ours that others refer to: "stepd", "stepctl", "proctrack" and the like.
sed -nE 's/^\.Xr (step[^ ]*|proctrack|mpi|job[^ ]*) ([0-9]).*/\1.\2/p; s/^\.Xr (select|preempt) 7.*/\1.7/p' "$@" | sort -u >"$tmpdir/references"
ok "the manual pages refer to other pages of ours" test -s "$tmpdir/references"
while read -r page; do
	ok "the page $page, which others refer to, exists" test -f "$doc/$page"
done <"$tmpdir/references"

# Long options of a section of the manual, and of the help of a command.
manual_options() { # SECTION
	awk -v heading=".Ss $1" '/^\.S[sh] / { on = $0 == heading } on && /^\.It / ' "$manual" |
		grep -o ' Fl -[a-z][a-z-]*' | sed 's/ Fl -//' | sort
}

help_options() { # COMMAND
	"$stepd" "$1" --help | sed -n 's/^ *\(-[a-zA-Z], \)\{0,1\}--\([a-z][a-z-]*\).*/\2/p' | sort
}

short_options() { # COMMAND
	"$stepd" "$1" --help | sed -n 's/^ *-\([a-zA-Z]\), --\([a-z-]*\).*/\1 \2/p'
}

isnt "$(help_options run)" "" "stepd run --help lists options"
is "$(manual_options "stepd run")" "$(help_options run)" "the manual has the options of stepd run"
is "$(manual_options "stepd serve" | grep -vx help)" "$(help_options serve | grep -vx help)" \
	"the manual has the options of stepd serve"
is "$(manual_options "stepd adopt")" "$(help_options adopt)" "the manual has the options of stepd adopt"
is "$(manual_options "stepd plugins")" "$(help_options plugins)" "the manual has the options of stepd plugins"
is "$(manual_options "stepd doctor")" "$(help_options doctor)" "the manual has the options of stepd doctor"
is "$(manual_options "stepd relay")" "$(help_options relay)" "the manual has the options of stepd relay"
for command in run serve adopt doctor; do
	short_options $command >"$tmpdir/short"
	while read -r letter name; do
		like "$(awk -v heading=".Ss stepd $command" '/^\.S[sh] / { on = $0 == heading } on' "$manual")" \
			"^\.It Fl $letter , Fl -$name( |\$)" "the manual of stepd $command has -$letter beside --$name"
	done <"$tmpdir/short"
done

# Limits: each option, its field and the kernel's file.
"$top_builddir/stepd/cli/stepctl" set-limits --help | sed -n 's/^ *--\([a-z][a-z-]*\).*/\1/p' | sort >"$tmpdir/help"
grep -vxE 'task|json|limits|plugin-dir|runtime-dir|help' "$tmpdir/help" >"$tmpdir/limits"
help_options run >"$tmpdir/options"
ok "stepctl set-limits --help lists limits" test -s "$tmpdir/limits"
while read -r option; do
	like "$(cat "$doc/stepd-limits.7")" "^\.It Fl -$option ," "stepd-limits(7) has --$option"
	ok "stepd run has --task-$option" grep -qx "task-$option" "$tmpdir/options"
done <"$tmpdir/limits"

"$stepd" --help | sed -n 's/^  \([a-z-]*\)  .*/\1/p' >"$tmpdir/commands"
while read -r command; do
	like "$(cat "$manual")" "^\.It Cm $command\$" "the manual has an entry for the command $command"
done <"$tmpdir/commands"

# Exit statuses: each STATUS_ constant of proc.h, and no other.
section() { # HEADING
	awk -v heading=".Sh $1" '/^\.Sh / { on = $0 == heading } on' "$manual"
}
sed -n 's/^\tSTATUS_[A-Z_]* = \([0-9]*\),.*/\1/p' "$top_srcdir/stepd/base/proc.h" | sort >"$tmpdir/codes"
section "EXIT STATUS" | sed -n 's/^\.It \(1[0-9]*\)\(+ .*\)\{0,1\}$/\1/p' | sort -u >"$tmpdir/documented"
is "$(cat "$tmpdir/documented")" "$(cat "$tmpdir/codes")" "the manual has an entry for every exit status"

# Variables that tasks get.
grep -ho '"[A-Z][A-Z_]*"' "$top_srcdir/stepd/launch/environ.c" | tr -d '"' | sort -u >"$tmpdir/set"
awk '/^\.S[sh] / { on = $0 == ".Ss Given to the tasks" } on && /^\.It Ev /' "$manual" |
	grep -o '[A-Z][A-Z_]*[A-Z]' | sort -u >"$tmpdir/documented"
is "$(cat "$tmpdir/documented")" "$(cat "$tmpdir/set")" "the manual has the variables that tasks get"

# Variables that the program reads.
find "$top_srcdir/stepd" "$top_srcdir/proctrack" "$top_srcdir/mpi" "$top_srcdir/systemd" -name '*.[ch]' \
	! -path '*/cli/ctl/*' -exec sed -n 's/.*secure_getenv("\([A-Z_]*\)").*/\1/p; s/^#define STEPD_[A-Z_]*_ENV "\(.*\)"$/\1/p' {} + |
	sort -u >"$tmpdir/read"
awk '/^\.S[sh] / { on = $0 == ".Ss Read by stepd" } on && /^\.It Ev /' "$manual" |
	sed 's/^\.It Ev //' | sort -u >"$tmpdir/documented"
is "$(cat "$tmpdir/documented")" "$(cat "$tmpdir/read")" "the manual has the variables that stepd reads"

# Reasons.
sed -n 's/^\t\[AGENT_REASON_[A-Z_]*\] = "\(.*\)",$/\1/p' "$top_srcdir/stepd/step/result.c" |
	sort >"$tmpdir/reasons"
section "THE RESULT" | awk '/-compact/ { on = 1 } /^\.El/ { on = 0 } on && /^\.It Cm /' |
	sed 's/^\.It Cm //' | sort >"$tmpdir/documented"
is "$(cat "$tmpdir/documented")" "$(cat "$tmpdir/reasons")" "the manual has the reasons of a result"

# Fields of a result, a ready line and a state, of real steps.
fields() { # FILE
	grep -o '"[a-z_]*":' "$1" | tr -d '":' | sort -u
}

documents_all() { # HEADING NAME
	section "$1" | tr ' ' '\n' | sort -u >"$tmpdir/words"
	is "$(comm -23 "$tmpdir/fields" "$tmpdir/words")" "" "$2"
}

cat >"$tmpdir/spec" <<'SPEC'
{"argv": ["/bin/sh", "-c", "cat \"$STEPD_RUNTIME_DIR\"/*/state.json >\"$OUT\"; kill -9 $$"],
SPEC
printf '"env": {"STEPD_RUNTIME_DIR": "%s", "OUT": "%s"}}\n' "$tmpdir/run" "$tmpdir/state" >>"$tmpdir/spec"
"$stepd" serve -q --spec "$tmpdir/spec" --ready-fd 9 --result "$tmpdir/result" 9>"$tmpdir/ready" 2>/dev/null
is $? 137 "a step ends by a signal"
"$stepd" run -q --result "$tmpdir/failed" --output "$tmpdir/none/x" -- true 2>/dev/null
is $? 125 "a step without its output file exits with 125"
fields "$tmpdir/ready" >"$tmpdir/fields"
ok "stepd serve writes a ready line" test -s "$tmpdir/fields"
documents_all "THE READY LINE" "the manual has each field of the ready line"
{ fields "$tmpdir/result"; fields "$tmpdir/failed"; } | sort -u >"$tmpdir/fields"
like "$(cat "$tmpdir/fields")" '^cpu_user_usec$' "the result has what an ended task used"
like "$(cat "$tmpdir/fields")" '^error$' "the result of a failed step has the error"
# Those of usage are a table's; its section has them in the table's order, which is that of samples.
sed -n 's/.*] = {\.name = "\([a-z_]*\)", .*/\1/p' "$top_srcdir/stepd/account/usage.c" >"$tmpdir/values"
ok "usage.c has a table of values" test -s "$tmpdir/values"
is "$(section USAGE | sed -n 's/^\.It Cm //p' | tr -d ' ' | tr ',' '\n' | grep _)" "$(grep _ "$tmpdir/values")" \
	"the manual has each value of usage, in the table's order"
sort "$tmpdir/values" | comm -23 "$tmpdir/fields" - >"$tmpdir/outer"
mv "$tmpdir/outer" "$tmpdir/fields"
# container's fields stand with the ready line's
sed -n '/"container"/,/}/s/.*"\([a-z_]*\)":.*/\1/p' "$tmpdir/result" | grep -vx container | sort >"$tmpdir/inner"
comm -23 "$tmpdir/fields" "$tmpdir/inner" >"$tmpdir/outer"
mv "$tmpdir/outer" "$tmpdir/fields"
documents_all "THE RESULT" "the manual has each field of the result"
fields "$tmpdir/state" >"$tmpdir/fields"
ok "a running step has a state file" test -s "$tmpdir/fields"
documents_all "FILES" "the manual has each field of the state"

# ---- steprun ------------------------------------------------------------------------------------
"$top_builddir/stepd/cli/steprun" --help >"$tmpdir/help"
sed -n 's/^ *\(-[a-zA-Z], \)\{0,1\}--\([a-z][a-z-]*\).*/\2/p' "$tmpdir/help" | sort >"$tmpdir/all"
help_options run | sort >"$tmpdir/of_run"
# Two of its own have the names of other ones there.
is "$(awk '/^\.S[sh] / { on = $0 == ".Sh OPTIONS" } on && /^\.It Fl /' "$doc/steprun.1" |
	grep -o ' Fl -[a-z][a-z-]*' | sed 's/ Fl -//' | sort)" \
	"$({ comm -23 "$tmpdir/all" "$tmpdir/of_run"; echo distribution; echo ntasks; } | sort)" \
	"the options of steprun that stepd run has not are those of its manual"
sed -n '1,/^The step:/s/^ *-\([a-zA-Z]\), --\([a-z-]*\).*/\1 \2/p' "$tmpdir/help" >"$tmpdir/short"
while read -r letter name; do
	like "$(cat "$doc/steprun.1")" "^\.It Fl $letter , Fl -$name( |\$)" \
		"the manual of steprun has -$letter beside --$name"
done <"$tmpdir/short"
"$top_builddir/stepd/cli/steprun" attach --help | sed -n 's/^ *\(-[a-zA-Z], \)\{0,1\}--\([a-z][a-z-]*\).*/\2/p' | sort >"$tmpdir/of_attach"
# Those that it shares with steprun stand in one paragraph; --attachable is the step's.
is "$(awk '/^\.S[sh] / { on = $0 == ".Sh ATTACHING" } on && /^\.(It )?Fl /' "$doc/steprun.1" |
	grep -o ' -[a-z][a-z-]*' | sed 's/ -//' | grep -vx attachable | sort -u)" "$(cat "$tmpdir/of_attach")" \
	"the options of steprun attach are those of its manual"

# ---- stepctl ------------------------------------------------------------------------------------
stepctl=$top_builddir/stepd/cli/stepctl
manual=$doc/stepctl.1
"$stepctl" --help | sed -n 's/^  \([a-z][a-z-]*\)  *.*/\1/p' >"$tmpdir/verbs"
ok "stepctl has verbs" test "$(wc -l <"$tmpdir/verbs")" -gt 15
is "$(awk '/^\.Ss / { exit } /^\.It Cm / { print $3 }' "$manual")" "$(cat "$tmpdir/verbs")" \
	"the manual of stepctl has every verb, in the order of its table"
manual_options "Options of every verb" >"$tmpdir/common"
ctl_options() { # VERB
	"$stepctl" "$1" --help | sed -n 's/^ *\(-[a-zA-Z], \)\{0,1\}--\([a-z][a-z-]*\).*/\2/p' | sort
}
while read -r verb; do
	is "$(manual_options "stepctl $verb")" "$(ctl_options "$verb" | comm -23 - "$tmpdir/common")" \
		"the manual has the options of stepctl $verb"
	like "$(cat "$manual")" "^\.Ss stepctl $verb\$" "the manual has a section for stepctl $verb"
	"$stepctl" "$verb" --help | sed -n 's/^ *-\([a-zA-Z]\), --\([a-z-]*\).*/\1 \2/p' >"$tmpdir/short"
	while read -r letter name; do
		like "$(awk -v a=".Ss stepctl $verb" -v b=".Ss Options of every verb" \
			'/^\.S[sh] / { on = $0 == a || $0 == b } on' "$manual")" \
			"^\.It Fl $letter , Fl -$name( |\$)" "the manual of stepctl $verb has -$letter beside --$name"
	done <"$tmpdir/short"
done <"$tmpdir/verbs"
sed -n 's/^\t\[CTL_[A-Z_]*\] = {"\([a-z_]*\)", .*/\1/p' "$top_srcdir/stepd/cli/ctl/main.c" |
	awk '{ print NR - 1, $1 }' >"$tmpdir/exits"
ok "stepctl has a table of exit statuses" test -s "$tmpdir/exits"
is "$(section "EXIT STATUS" | sed -n 's/^\.It //p')" "$(cat "$tmpdir/exits")" \
	"the manual has the exit statuses of stepctl"
sed -n 's/.*secure_getenv("\([A-Z_]*\)").*/\1/p' "$top_srcdir"/stepd/cli/ctl/*.c | sort -u >"$tmpdir/read"
section ENVIRONMENT | sed -n 's/^\.It Ev //p' | sort -u >"$tmpdir/documented"
is "$(cat "$tmpdir/documented")" "$(cat "$tmpdir/read")" "the manual has the variables that stepctl reads"
done_testing
