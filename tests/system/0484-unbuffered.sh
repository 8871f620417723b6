#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# --unbuffered: programs write each line when it is complete, and every byte is as they wrote it.
# shellcheck disable=SC2016 # for the tasks
. "${top_srcdir:?}/tests/lib/reexec.sh"

# A program that uses the C library's streams, and waits behind its first line.
slow='import os, sys, time
print("first")
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
print("last")'
begin() { # ARG...
	rm -f "$tmpdir/go"
	: >"$tmpdir/out"
	"$stepd" run -q --job "$job" --proctrack "$tracker" "$@" -- python3 -c "$slow" "$tmpdir/go" \
		>"$tmpdir/out" 2>"$tmpdir/err" </dev/null &
	agent=$!
}
if command -v python3 >/dev/null; then
	begin
	eventually running 0
	sleep 0.5
	is "$(cat "$tmpdir/out")" "" "a program holds back lines that go to a file"
	: >"$tmpdir/go"
	ended 0 "a step that holds back its lines ends"
	begin --unbuffered
	ok "with --unbuffered a line comes when it is complete" eventually has_output '^first$'
	is "$(wc -c <"$tmpdir/out")" 6 "with --unbuffered no byte is added to a line"
	: >"$tmpdir/go"
	ended 0 "a step with --unbuffered ends"
	is "$(tr '\n' '|' <"$tmpdir/out")" "first|last|" "with --unbuffered all lines come"
else
	skip 6 "needs python3"
fi

head -c 67108864 /dev/urandom >"$tmpdir/bytes"
sum=$(sha256sum <"$tmpdir/bytes")
is "$(step -q --unbuffered -- cat "$tmpdir/bytes" </dev/null | sha256sum)" "$sum" "64 MiB by --unbuffered are exact"
step -q --unbuffered --output "$tmpdir/copy" -- cat "$tmpdir/bytes" </dev/null
is "$(sha256sum <"$tmpdir/copy")" "$sum" "64 MiB by --unbuffered to a file are exact"
is "$(sh -c 'exec "$@" 2>&1 >/dev/null' - "$stepd" run -q --job "$job" --proctrack "$tracker" -u -- \
	sh -c 'cat "$0" >&2' "$tmpdir/bytes" </dev/null | sha256sum)" "$sum" "64 MiB of standard error by --unbuffered are exact"

out=$(step -q --unbuffered -n 2 -- sh -c 'test -t 0 || test ! -t 1 || test ! -t 2 || echo out and err
	(: </dev/tty) 2>/dev/null || echo none controls; cat; stty -a <&2 | grep -o -e "-opost"' </dev/null | LC_ALL=C sort | uniq -c | xargs)
is "$out" "2 -opost 2 none controls 2 out and err" \
	"standard output and error are terminals that change no byte and control no task, and standard input is none"
is "$(step -q --unbuffered -n 2 --output "$tmpdir/out.%t" -- sh -c 'echo $SLURM_PROCID; echo error >&2' </dev/null
	cat "$tmpdir/out.0" "$tmpdir/out.1" | tr '\n' '|')" "0|error|1|error|" "each task has its file"
is "$(step -q --unbuffered -n 300 -- sh -c 'echo $SLURM_PROCID' </dev/null | sort -n | sha256sum)" \
	"$(seq 0 299 | sha256sum)" "300 tasks have terminals for output"

# A reader that has gone ends nobody.
step -q --unbuffered -- sh -c 'seq 1 1000000; exit 3' </dev/null 2>/dev/null | head -n 1 >/dev/null
is "$(step -q --unbuffered -- sh -c 'seq 1 200000 | tail -n 1' </dev/null)" 200000 "a long output is whole"

# The document has it, too.
step --unbuffered --print-spec -- true >"$tmpdir/doc"
json_is "$tmpdir/doc" unbuffered true "the document of --unbuffered has it"
step --pty=0,2-3 -n 4 --print-spec -- true >"$tmpdir/doc"
json_is "$tmpdir/doc" pty "0,2-3" "the document of --pty has the ranks"
ok "the document of --pty is valid" "$stepd" check-spec "$tmpdir/doc"

if [ -x "$next" ]; then
	seq 1 60000 >"$tmpdir/wanted"
	start_step --proctrack "$tracker" --unbuffered -- sh -c '
		i=0
		while [ $i -lt 60 ]; do seq $((i * 1000 + 1)) $((i * 1000 + 1000)); i=$((i + 1)); sleep 0.03; done'
	upgrade_often 8
	ended 0 "a step with --unbuffered succeeds, upgraded $n times"
	ok "by --unbuffered each line is written once over upgrades" cmp "$tmpdir/wanted" "$tmpdir/out"
else
	skip 2 "no second program (make check builds it)"
fi
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
