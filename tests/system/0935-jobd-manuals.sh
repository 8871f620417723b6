#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# jobctl(1), jobd(8) and jobd.conf(5) have what the programs have, and nothing else: commands,
# options, columns, states, variables, and of the configuration each key with its range.
# shellcheck source=tests/lib/tap.sh
. "${top_srcdir:?}/tests/lib/tap.sh"

jobd_dir=$top_srcdir/contrib/jobd
jobctl=${top_builddir:?}/contrib/jobd/cli/jobctl
jobd=$top_builddir/contrib/jobd/server/jobd
LC_ALL=C
export LC_ALL
[ -x "$jobctl" ] || skip_all "jobd is not built"
tmpdir

# The lines of sections, with those of subsections of their own only if these are named.
section() { # PAGE HEADING...
	page=$1
	shift
	for heading in "$@"; do
		awk -v heading="$heading" '/^\.S[sh] / { on = substr($0, 5) == heading } on' "$page"
	done
}

# "A" and "all" of ".It Fl A , Fl -all", whatever names and arguments there are.
options_of_items() {
	sed -n 's/^\.It \(Fl .*\)/ \1 /p' | tr -d ',' | tr ' ' '\n' | sed -n 's/^-\([a-zA-Z][a-zA-Z0-9-]*\)$/\1/p' | sort
}

# Letters stand before a name: ".It Fl A , Fl -all".
letters_of_items() {
	sed -nE 's/^\.It Fl ([a-zA-Z]) , Fl -([a-zA-Z0-9-]+)( .*)?$/\1 \2/p' | sort
}

options_of_help() { # COMMAND...
	"$@" --help | sed -n 's/^ *\(-[a-zA-Z], \)\{0,1\}--\([a-zA-Z][a-zA-Z0-9-]*\).*/\2/p' | sort
}

letters_of_help() { # COMMAND...
	"$@" --help | sed -n 's/^ *-\([a-zA-Z]\), --\([a-zA-Z][a-zA-Z0-9-]*\).*/\1 \2/p' | sort
}

# --help stands once in the page, for all commands.
without_help() {
	grep -vxE '(h )?help'
}

# What one list has and the other has not is what a failure shows.
same_lists() { # TOLD REAL NAME
	is "$(comm -23 "$1" "$2" | tr '\n' ' ')/$(comm -13 "$1" "$2" | tr '\n' ' ')" / "$3"
}

same_options() { # NAME PAGE COMMAND HEADING...
	name=$1 page=$2 command=$3
	shift 3
	section "$page" "$@" >"$tmpdir/section"
	options_of_items <"$tmpdir/section" | without_help >"$tmpdir/told"
	# shellcheck disable=SC2086 # the command and its verb
	options_of_help $command | without_help >"$tmpdir/real"
	same_lists "$tmpdir/told" "$tmpdir/real" "the manual has the options of $name"
	letters_of_items <"$tmpdir/section" | without_help >"$tmpdir/told"
	# shellcheck disable=SC2086
	letters_of_help $command | without_help >"$tmpdir/real"
	same_lists "$tmpdir/told" "$tmpdir/real" "the manual has the letters of $name"
}

# ---- jobctl -------------------------------------------------------------------------------------
manual=$top_srcdir/doc/jobctl.1
"$jobctl" --help | sed -n 's/^  \([a-z]*\)  *.*/\1/p' >"$tmpdir/commands"
ok "jobctl has commands" test "$(wc -l <"$tmpdir/commands")" -gt 15
is "$(section "$manual" DESCRIPTION | sed -n 's/^\.It Cm //p')" "$(cat "$tmpdir/commands")" \
	"the manual of jobctl has every command, in the order of its table"
"$jobctl" --help | sed -n 's/^  [a-z]*  .*(\([a-z]*\))$/\1/p' | sort >"$tmpdir/links"
is "$(section "$manual" NAME | sed -n 's/^\.Nm \([a-z]*\).*/\1/p' | grep -vx jobctl | sort)" "$(cat "$tmpdir/links")" \
	"the manual of jobctl has every name that leads to it"
while read -r command; do
	both=
	case $command in submit | alloc) both="Options of submit and alloc" ;; esac
	same_options "jobctl $command" "$manual" "$jobctl $command" "jobctl $command" "$both"
done <"$tmpdir/commands"

columns() { # FILE: "i JobArrayID", "- STDOUT"
	sed -nE "/^static const struct column columns/,/^};/s/^\t[A-Z_]*[({]('(.)'|0), \"([^\"]*)\".*/\2- \3/p" "$1" |
		sed 's/^\([^-]\)- /\1 /' | sort
}

told_columns() { # HEADING
	section "$manual" "$1" | sed -nE 's/^\.It (\\\&|.) Ta ([^ ]*) Ta .*/\1 \2/p' | sed 's/^\\& /- /' | sort
}

for table in queue node; do
	heading="Columns of $table"
	[ $table = queue ] || heading="Columns of nodes"
	columns "$jobd_dir/cli/${table}_table.c" >"$tmpdir/columns"
	ok "${table}_table.c has columns" test "$(wc -l <"$tmpdir/columns")" -gt 40
	told_columns "$heading" >"$tmpdir/told"
	same_lists "$tmpdir/told" "$tmpdir/columns" "the manual has each column of ${table}_table.c"
done

sed -nE 's/^\t\{"([A-Z_]+)", "([A-Z]+)", (true|false)\},$/\1 , \2/p' "$jobd_dir/cli/queue_table.c" >"$tmpdir/states"
ok "queue_table.c has a table of states" test -s "$tmpdir/states"
is "$(section "$manual" "jobctl queue" | sed -nE 's/^\.It Cm ([A-Z_]+ , [A-Z]+)$/\1/p')" "$(cat "$tmpdir/states")" \
	"the manual has each state of a job"

sed -nE '/changes\[\] = /,/^};/s/^\t\{"([A-Za-z]+)", "([a-z-]+)"\},$/\1 \2/p' "$jobd_dir/cli/act.c" >"$tmpdir/changes"
ok "act.c has a table of what can be changed" test -s "$tmpdir/changes"
is "$(section "$manual" "jobctl update" | awk '/^\.It Cm / { name = $3; getline; print name, $2 }')" \
	"$(cat "$tmpdir/changes")" "the manual has what can be changed of a job, and the options for it"
sed -nE '/reserve_members\[\] = /,/^};/s/^\t\{"([A-Za-z]+)", .*/\1/p' "$jobd_dir/cli/act.c" | sort >"$tmpdir/members"
ok "act.c has a table of what a reservation has" test -s "$tmpdir/members"
is "$(section "$manual" "jobctl reserve" | sed -nE 's/^(\.It )?\.?Cm ([A-Z][A-Za-z]+)( \.)?$/\2/p' | sort -u)" \
	"$(cat "$tmpdir/members")" "the manual has what a reservation can have"

sed -nE '/variables\[\] = /,/^};/s/^\t\{"([A-Z_]+)", "([a-z-]+)", .*/SBATCH_\1 \2/p' "$jobd_dir/cli/options.c" >"$tmpdir/variables"
ok "options.c has a table of variables" test -s "$tmpdir/variables"
is "$(section "$manual" ENVIRONMENT | awk '/^\.It Ev SBATCH_/ { name = $3; getline; sub(/^-/, "", $2); print name, $2 }')" \
	"$(cat "$tmpdir/variables")" "the manual has the variables with options, and these"
grep -ho 'getenv("[A-Z_]*")' "$jobd_dir"/cli/*.c | sed 's/.*"\(.*\)".*/\1/' | sort -u >"$tmpdir/read"
is "$(section "$manual" ENVIRONMENT | sed -n 's/^\.It Ev //p' | grep -v '^SBATCH_' | sort)" "$(cat "$tmpdir/read")" \
	"the manual has the variables that jobctl reads"

# ---- jobd ---------------------------------------------------------------------------------------
manual=$top_srcdir/doc/jobd.8
if [ -x "$jobd" ]; then
	same_options jobd "$manual" "$jobd" OPTIONS
	is "$(section "$manual" OPTIONS | grep -cE '^\.It Fl (. , Fl )?-?(h , Fl -)?help$')" 1 "the manual of jobd has --help"
	find "$jobd_dir" -name '*.c' ! -path '*/cli/*' -exec grep -ho 'getenv("[A-Z_]*")' {} + |
		sed 's/.*"\(.*\)".*/\1/' | sort -u >"$tmpdir/read"
	is "$(section "$manual" ENVIRONMENT | sed -n 's/^\.It Ev //p')" "$(cat "$tmpdir/read")" \
		"the manual has the variables that jobd reads"
else
	skip 4 "jobd is not built"
fi

# ---- the configuration --------------------------------------------------------------------------
manual=$top_srcdir/doc/jobd.conf.5
conf=$jobd_dir/conf/conf.c

# A line for each key: its name, and of numbers the least and the most.
keys() { # TABLE
	awk -v head="static const struct key $1[] = {" '
		$0 == head { on = 1; next }
		on && /^};/ { exit }
		on { all = all $0 }
		function member(text, name) {
			if (!match(text, "[.]" name " = [^,}]*"))
				return ""
			return substr(text, RSTART + length(name) + 4, RLENGTH - length(name) - 4)
		}
		END {
			n = split(all, entry, "[{]")
			for (i = 2; i <= n; i++) {
				name = member(entry[i], "name"); gsub(/"/, "", name)
				type = member(entry[i], "type")
				least = member(entry[i], "least"); most = member(entry[i], "most")
				print name, what(type, least, most)
			}
		}
		function what(type, least, most) {
			least = least == "" ? 0 : least
			if (type == "TYPE_U16")
				return "number " least " " (most == "" ? "65535" : most)
			if (type == "TYPE_U32")
				return "number " least " " (most == "" ? "4294967293" : most)
			if (type == "TYPE_COUNT")
				return "number " least " 4294967293 INFINITE"
			if (type == "TYPE_MB")
				return least ? "size " least : "size"
			if (type == "TYPE_MOST_MB" || type == "TYPE_CPU_MB")
				return "size INFINITE"
			if (type == "TYPE_BOOL")
				return "bool"
			if (type == "TYPE_MINUTES" || type == "TYPE_SECONDS")
				return "time"
			return type == "TYPE_TEXT" ? "text" : "other"
		}' "$conf"
}

# The same of the manual: the line behind a key begins with its type. And its default.
told_keys() { # HEADING
	section "$manual" "$1" | awk '
		BEGIN {
			types["Text."] = "text"; types["YES or NO."] = "bool"; types["A time."] = "time"
			types["Flag."] = "flag"; types["A size."] = "size"
			types["A size, or INFINITE or UNLIMITED."] = "size INFINITE"
		}
		/^\.It Cm / {
			line = $0; sub(/^\.It Cm /, "", line)
			n = split(line, name, " , ")
			getline
			type = $0 in types ? types[$0] : "other"
			if ($0 ~ /^A size, [0-9]+ MB or more\.$/)
				type = "size " $3
			if ($0 ~ /^A number from [0-9]+ to [0-9]+(, or INFINITE or UNLIMITED)?\.$/) {
				type = "number " $4 " " $6 ($7 == "" ? "" : " INFINITE")
				gsub(/[.,]/, "", type)
			}
			if (type == "other" && $0 ~ /^A (number|size|time)/)
				type = "unreadable: " $0
			for (i = 1; i <= n; i++)
				print name[i], type
		}' | sort
}

same_keys() { # HEADING TABLE
	keys "$2" | sort >"$tmpdir/keys"
	[ "$2" != scheduler_keys ] ||
		sed -n '/scheduler_flags\[\] = /,/^};/s/^\t{"\([a-z_]*\)", .*/\1 flag/p' "$conf" >>"$tmpdir/keys"
	ok "conf.c has $2" test "$(wc -l <"$tmpdir/keys")" -gt 4
	# A list of nodes is text to the reader of lines.
	sed 's/^Nodes text$/Nodes other/' "$tmpdir/keys" | sort >"$tmpdir/sorted"
	told_keys "$1" >"$tmpdir/told"
	same_lists "$tmpdir/told" "$tmpdir/sorted" "the manual has $2, with types and ranges"
	section "$manual" "$1" >"$tmpdir/section"
	is "$(grep -c '^Default: ' "$tmpdir/section")" "$(grep -c '^\.It Cm ' "$tmpdir/section")" \
		"the manual has a default for each of $2"
}

# Numbers that a member has before the files are read: "KillWait 30", 0 where none is set.
defaults() { # TABLE BEGIN
	awk -v head="static const struct key $1[] = {" -v begin="$2" '
		$0 == head { keys = 1; next }
		keys && /^};/ { keys = 0 }
		keys { all = all $0 }
		index($0, begin) == 1 { code = 1 }
		code && /^}/ { code = 0 }
		code { text = text $0 }
		END {
			n = split(all, entry, "[{]")
			for (i = 2; i <= n; i++) {
				if (entry[i] !~ /[.]type = TYPE_U(16|32)/)
					continue
				name = entry[i]; sub(/.*[.]name = "/, "", name); sub(/".*/, "", name)
				field = entry[i]; sub(/.*[.]offset = [A-Z]*[(]/, "", field); sub(/[)].*/, "", field)
				value = "0"
				if (match(text, "[.>]" field " = [0-9a-fx]+")) {
					value = substr(text, RSTART, RLENGTH)
					sub(/.* = /, "", value)
				}
				print name, value
			}
		}' "$conf" | while read -r name value; do printf '%s %d\n' "$name" "$value"; done | sort
}

told_defaults() { # HEADING: of numbers
	section "$manual" "$1" | awk '
		/^\.It Cm / { name = $3; getline; number = /^A number/ && !/INFINITE/ }
		number && /^Default: [0-9]+\.$/ { sub(/\.$/, "", $2); print name, $2 }' | sort
}

same_defaults() { # HEADING TABLE BEGIN
	defaults "$2" "$3" >"$tmpdir/real"
	told_defaults "$1" >"$tmpdir/told"
	same_lists "$tmpdir/told" "$tmpdir/real" "the manual has the defaults of numbers of $2"
}

same_keys "THE CLUSTER" cluster_keys
same_defaults "THE CLUSTER" cluster_keys "static int set_defaults("
same_defaults SchedulerParameters scheduler_keys "static int set_defaults("
same_defaults PARTITIONS part_keys "static int read_conf("
same_defaults "THE QOS FILE" qos_keys "static int take_qos_line("
same_keys SchedulerParameters scheduler_keys
same_keys NODES node_keys
same_keys PARTITIONS part_keys
same_keys "THE QOS FILE" qos_keys

# Words of a value: the entry has those of the function that reads it.
words() { # FUNCTION
	awk -v head="static int $1(" 'index($0, head) == 1 { on = 1 } on && /^}/ { exit } on' "$conf" |
		grep -o '{"[A-Za-z_]*"' | tr -d '{"' | sort
}

same_words() { # HEADING KEY PATTERN FUNCTION
	section "$manual" "$1" | awk -v key="$2" '/^\.It Cm / { on = $3 == key } on && !/^\.It/' |
		sed -n 's/^\.Cm //p' | tr ',' '\n' | tr -d ' :' | grep -xE "$3" | sort -u >"$tmpdir/told"
	words "$4" >"$tmpdir/real"
	ok "$4() has words" test -s "$tmpdir/real"
	same_lists "$tmpdir/told" "$tmpdir/real" "the manual has the words of $2"
}

same_words "THE CLUSTER" SelectTypeParameters 'CR_[A-Za-z_]+' set_select_param
same_words "THE CLUSTER" EnforcePartLimits '[A-Z]+' set_enforce
same_words "THE CLUSTER" PreemptMode '[A-Z]+' parse_preempt_mode
same_words NODES State '[A-Z]+' set_node_state
done_testing
