#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The site's configuration: its keys are those of the manual, and faults in it are reported.
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
isnt "$(cat "$tmpdir/keys")" "" "site_config.c has a table of keys"
is "$(sed -n 's/^\.It Cm //p' "$top_srcdir/doc/stepd.conf.5")" "$(cat "$tmpdir/keys")" \
	"the manual has the keys of the program, in its order"
is "$(sed -nE 's/^#?([a-z_]+) = .*/\1/p' "$top_srcdir/doc/examples/stepd.conf")" "$(cat "$tmpdir/keys")" \
	"the example has the keys of the program, in its order"
cp "$top_srcdir/doc/examples/stepd.conf" "$conf"
chmod 644 "$conf"
ok "the example is accepted as configuration" step --config "$conf" -- true

given 'operator_group = 0\nkeep_result = 1.5h ; and a comment\n\n# another\n'
is "$?$out" "0" "a configuration with comments is accepted"
given '\357\273\277keep_result = 0'
is "$?$out" "0" "a configuration behind a byte order mark, without a last newline, is accepted"
refused 'keep_result = 1h\n\ncolour = red\n' \
	"line 3: there is no key 'colour'; stepd.conf(5) lists the keys" "an unknown key is refused"
refused 'keep_result = soon\n' \
	"line 1: keep_result: 'soon' is not a duration; write 90s, 5m, 2h or 1d, or 0 for no result" "a wrong value is refused"
refused '\n\noperator_group = no-such-group\nkeep_result = soon\n' \
	"line 3: operator_group: there is no group 'no-such-group'; give the name of one, or its number" \
	"the first of two faults is reported"
refused 'operator_group = 4294967295\n' \
	"line 1: operator_group: there is no group '4294967295'; give the name of one, or its number" \
	"a number that is no group's is refused"
refused '# c\nkeep_result\nkeep_result = soon\n' "line 2: write 'key = value'" "a line without a value is refused"
refused '[agent]\nkeep_result = 1h\n' "line 2: [agent]: there are no sections; write the keys without one" "a section is refused"
refused 'keep_result = 1h\nkeep_result = 2h\n' \
	"line 2: keep_result is given twice (a line that begins with a blank continues the value before it)" \
	"a key that is given twice is refused"
refused "keep_result = $(printf '%0300d' 1)\n" "line 1: the line is longer than 198 bytes" "a long line is refused"
refused 'keep_result = 1h\n\000\n' "there is a NUL byte in it" "a NUL byte is refused"

# Defaults of steps: they hold for options that a step does not have.
refused 'mpi_default = a/b\n' \
	"line 1: mpi_default: 'a/b' is not the name of an mpi plugin (\"none\" or \"mpi/none\")" "a default that is no plugin's name is refused"
refused 'pmi_timeout = soon\n' \
	"line 1: pmi_timeout: 'soon' is not a duration; write 90s, 5m or 2h, or 0 for no deadline" "a PMI timeout that is not a duration is refused"
refused 'mpi_filter = off\n' "line 1: mpi_filter: 'off' is neither yes nor no" "a filter that is neither on nor off is refused"
refused 'wire_auth = secret\n' "line 1: wire_auth: 'secret' is neither munge nor none" "an authentication by secret is refused"
refused 'wire_fanout = 1\n' "line 1: wire_fanout: '1' is not a whole number in the range 2 to 1024" "a fanout of one is refused"
refused 'wire_ifname = a/b\n' "line 1: wire_ifname: 'a/b' is not a network interface's name" "a name that is not a network interface's is refused"
given 'mpi_default = nosuch\n'
is $? 125 "a default plugin that is not installed fails the step"
like "$out" "there is no plugin mpi/nosuch in .*; the plugin files there are: .*none" \
	"the refusal of a default plugin lists the installed ones"
is "$(step --config "$conf" --mpi none -- sh -c 'echo ran')" ran \
	"a step's own plugin overrides the default plugin"
printf '#!/bin/sh\necho ran\n' >"$tmpdir/script"
is "$(step --config "$conf" --batch "$tmpdir/script")" ran "a batch step does not use the default plugin"
printf '{"job": %d, "argv": ["true"]}' "$job" >"$tmpdir/spec"
out=$("$stepd" serve --config "$conf" --spec "$tmpdir/spec" 2>&1)
like "$out" "there is no plugin mpi/nosuch" "the default plugin is used for steps of a spec"
given 'pmi_timeout = 7s\npmi_memory = 64M\nwire_auth = none\nwire_fanout = 3\nwire_ifname = lo\n'
is "$?$out" 0 "a configuration of MPI and wire is accepted"
"$stepd" run --config "$conf" --job "$job" --pmi-timeout 1s -- sleep 99 2>"$tmpdir/err" &
agent=$!
eventually running 0
is "$(json_get "$(step_dir 0)/spec.json" '[pmi, wire]')" \
	'[{"timeout_ms": 1000, "memory_bytes": 67108864}, {"auth": "none", "fanout": 3, "ifname": "lo"}]' \
	"the step's spec has the configuration, but for the step's own options"
kill -KILL "$("$stepctl" pids "$job.0")"
wait "$agent"

# The file itself.
printf 'keep_result = 1h\n' >"$conf"
chmod go+w "$conf"
out=$(step --config "$conf" -- true 2>&1)
is $? 125 "a file that others may write is refused"
like "$out" "configuration: '$conf' can be written by others .*chmod go-w" \
	"the refusal of a file that others may write names the remedy"
chmod go-w "$conf"
if [ "$(id -u)" = 0 ]; then
	chown nobody "$conf"
	out=$(step --config "$conf" -- true 2>&1)
	is $? 125 "a configuration of another user is refused"
	like "$out" "'$conf' belongs to uid" "the refusal of another user's configuration names the owner"
else
	skip 2 "needs root"
fi
out=$(step --config "$tmpdir/none" -- true 2>&1)
is $? 125 "a missing configuration that --config names is refused"
like "$out" "open the configuration '$tmpdir/none': No such file" \
	"the refusal of a missing configuration names it"
mkfifo "$tmpdir/pipe"
out=$(step --config "$tmpdir/pipe" -- true 2>&1)
is $? 125 "a pipe as configuration is refused"
like "$out" "'$tmpdir/pipe' is not a regular file" "the refusal of a pipe has the reason"
out=$(step --keep-result long -- true 2>&1)
is $? 125 "--keep-result with a wrong value is refused"
like "$out" "^stepd run: --keep-result: 'long' is not a duration" \
	"the refusal of a wrong --keep-result names the option"

# No file, no cost but one open: libinih is not loaded either.
if command -v strace >/dev/null; then
	strace -f -o "$tmpdir/trace" "$stepd" run --job "$job" --proctrack "$tracker" -- true
	is "$(grep -c 'stepd\.conf' "$tmpdir/trace")" 1 "a missing configuration costs one system call"
	is "$(grep -c 'inih' "$tmpdir/trace")" 0 "a missing configuration loads no library"
else
	skip 2 "needs strace"
fi
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
