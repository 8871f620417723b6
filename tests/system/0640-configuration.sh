#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The site's configuration: its keys are those of the manual, and what is wrong in it is said.
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

conf=$tmpdir/stepd.conf
given() { # TEXT
	# shellcheck disable=SC2059 # it has escapes
	printf "$1" >"$conf"
	out=$(step --config "$conf" -- true 2>&1)
}

refused() { # TEXT PATTERN NAME
	given "$1"
	is "$? $out" "125 stepd $job.0: error: $conf: $2" "$3"
}

# Each key of the table stands in the manual, and no other.
sed -n 's/^\t{"\([a-z_]*\)", take_.*/\1/p' "$top_srcdir/stepd/cli/site_config.c" >"$tmpdir/keys"
isnt "$(cat "$tmpdir/keys")" "" "there are keys"
is "$(sed -n 's/^\.It Cm //p' "$top_srcdir/doc/stepd.conf.5")" "$(cat "$tmpdir/keys")" \
	"those of the manual are those of the program, in its order"
is "$(sed -nE 's/^#?([a-z_]+) = .*/\1/p' "$top_srcdir/doc/examples/stepd.conf")" "$(cat "$tmpdir/keys")" \
	"and those of the example"
cp "$top_srcdir/doc/examples/stepd.conf" "$conf"
chmod 644 "$conf"
ok "the example is read" step --config "$conf" -- true

given 'operator_group = 0\nkeep_result = 1.5h ; and a comment\n\n# another\n'
is "$?$out" "0" "what is right is taken"
given '\357\273\277keep_result = 0'
is "$?$out" "0" "also behind a byte order mark, and without a last newline"
refused 'keep_result = 1h\n\ncolour = red\n' \
	"line 3: there is no key 'colour'; stepd.conf(5) has those that there are" "an unknown key"
refused 'keep_result = soon\n' \
	"line 1: keep_result: 'soon' is no duration; write 90s, 5m, 2h or 1d, or 0 to keep none" "a wrong value"
refused '\n\noperator_group = no-such-group\nkeep_result = soon\n' \
	"line 3: operator_group: there is no group 'no-such-group'; give the name of one, or its number" \
	"of two faults the first"
refused 'operator_group = 4294967295\n' \
	"line 1: operator_group: there is no group '4294967295'; give the name of one, or its number" \
	"a number that is no group's"
refused '# c\nkeep_result\nkeep_result = soon\n' "line 2: write 'key = value'" "a line that is none"
refused '[agent]\nkeep_result = 1h\n' "line 2: [agent]: there are no sections; write the keys without one" "a section"
refused 'keep_result = 1h\nkeep_result = 2h\n' \
	"line 2: keep_result is given twice (a line that begins with a blank goes on with the value before)" \
	"a key twice"
refused "keep_result = $(printf '%0300d' 1)\n" "line 1: the line is longer than 198 bytes" "a long line"
refused 'keep_result = 1h\n\000\n' "there is a NUL byte in it" "a NUL byte"

# What is said for steps: it holds where a step says nothing.
refused 'mpi_default = a/b\n' \
	"line 1: mpi_default: 'a/b' is no name of an mpi plugin (\"none\" or \"mpi/none\")" "no plugin's name"
refused 'pmi_timeout = soon\n' \
	"line 1: pmi_timeout: 'soon' is no duration; write 90s, 5m or 2h, or 0 for no deadline" "no deadline"
refused 'mpi_filter = off\n' "line 1: mpi_filter: 'off' is neither yes nor no" "a filter that is neither on nor off"
refused 'wire_auth = secret\n' "line 1: wire_auth: 'secret' is neither munge nor none" "a secret of the site's"
refused 'wire_fanout = 1\n' "line 1: wire_fanout: '1' is no whole number in the range 2 to 1024" "too few nodes"
refused 'wire_ifname = a/b\n' "line 1: wire_ifname: 'a/b' is no network interface's name" "no interface's name"
given 'mpi_default = nosuch\n'
is $? 125 "a plugin that is not installed starts nothing"
like "$out" "there is no plugin mpi/nosuch in .*; the plugin files there are: .*none" "and the list is given"
is "$(step --config "$conf" --mpi none -- sh -c 'echo ran')" ran "a step's own plugin comes before it"
printf '#!/bin/sh\necho ran\n' >"$tmpdir/script"
is "$(step --config "$conf" --batch "$tmpdir/script")" ran "a batch step has none"
printf '{"job": %d, "argv": ["true"]}' "$job" >"$tmpdir/spec"
out=$("$stepd" serve --config "$conf" --spec "$tmpdir/spec" 2>&1)
like "$out" "there is no plugin mpi/nosuch" "it is for steps of a spec too"
given 'pmi_timeout = 7s\npmi_memory = 64M\nwire_auth = none\nwire_fanout = 3\nwire_ifname = lo\n'
is "$?$out" 0 "the rest is taken"
"$stepd" run --config "$conf" --job "$job" --pmi-timeout 1s -- sleep 99 2>"$tmpdir/err" &
agent=$!
eventually running 0
is "$(sed -e 's/.*"pmi":/"pmi":/' -e 's/"wire":{[^}]*}.*/&/' "$run"/*_"$job".0/spec.json 2>/dev/null | grep -o '"\(pmi\|wire\)":{[^}]*}' | tr '\n' ' ')" \
	'"pmi":{"timeout_ms":1000,"memory_bytes":67108864} "wire":{"auth":"none","fanout":3,"ifname":"lo"} ' \
	"and stays with the step, but for what it says itself"
kill -KILL "$("$stepctl" pids "$job.0")"
wait "$agent"

# The file itself.
printf 'keep_result = 1h\n' >"$conf"
chmod go+w "$conf"
out=$(step --config "$conf" -- true 2>&1)
is $? 125 "a file that others may write is refused"
like "$out" "configuration: '$conf' can be written by others .*chmod go-w" "and the remedy told"
chmod go-w "$conf"
if [ "$(id -u)" = 0 ]; then
	chown nobody "$conf"
	out=$(step --config "$conf" -- true 2>&1)
	is $? 125 "so is another user's"
	like "$out" "'$conf' belongs to uid" "with whose it is"
else
	skip 2 "needs root"
fi
out=$(step --config "$tmpdir/none" -- true 2>&1)
is $? 125 "one that was named has to be there"
like "$out" "open the configuration '$tmpdir/none': No such file" "or is named"
mkfifo "$tmpdir/pipe"
out=$(step --config "$tmpdir/pipe" -- true 2>&1)
is $? 125 "a pipe does not hold the agent"
like "$out" "'$tmpdir/pipe' is no regular file" "and is refused"
out=$(step --keep-result long -- true 2>&1)
is $? 125 "--keep-result: a wrong value"
like "$out" "^stepd run: --keep-result: 'long' is no duration" "is told with the option"

# No file, no cost but one open: libinih is not loaded either.
if command -v strace >/dev/null; then
	strace -f -o "$tmpdir/trace" "$stepd" run --job "$job" --proctrack "$tracker" -- true
	is "$(grep -c 'stepd\.conf' "$tmpdir/trace")" 1 "a missing file costs one call"
	is "$(grep -c 'inih' "$tmpdir/trace")" 0 "and no library"
else
	skip 2 "needs strace"
fi
nothing_left "nothing is left"
done_testing
