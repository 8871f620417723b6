#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Ranks with a pseudo-terminal where the agent has no terminal: input and its end, labels, exact
# output, several ranks, another user, what is left and what no task has; and what is refused.
# shellcheck disable=SC2016,SC2086,SC2317 # for the tasks; words; functions that are called by name
. "${top_srcdir:?}/tests/lib/step.sh"

pty() {
	step -q --pty "$@" 2>&1
}
plain() {
	tr -d '\r'
}

# ---- input ---------------------------------------------------------------------------------------
is "$(printf 'one\ntwo\n' | pty -- wc | plain | xargs)" "2 2 8" "the end of the agent's input is the program's"
is "$(printf 'one\ntwo' | pty -- wc -c | plain | xargs)" 7 "an incomplete line is input, too"
is "$(pty -- cat </dev/null)" "" "a program at a pseudo-terminal without input reads its end"
is "$(pty --input none -- sh -c 'cat; echo end' | plain)" end "with --input=none it reads its end"
# It changes the mode of the terminal when the end may have been typed.
like "$(echo 'echo "h""ere"' | PS1='$ ' pty -- bash --norc --noprofile -i | plain)" '^here$' \
	"a shell that edits its line runs what it reads, and ends with its input"
pty -- bash --norc --noprofile -i </dev/null >/dev/null
is $? 0 "a shell that edits its line ends without input"
seq 1 100000 >"$tmpdir/lines"
is "$(pty -- sh -c 'sum=0; while read x; do sum=$((sum + x)); done; echo $sum' <"$tmpdir/lines" | plain)" \
	5000050000 "each of many lines is read once"

# ---- output --------------------------------------------------------------------------------------
head -c 67108864 /dev/urandom >"$tmpdir/bytes"
sum=$(sha256sum <"$tmpdir/bytes")
is "$(pty -- sh -c 'stty raw; exec cat "$0"' "$tmpdir/bytes" | sha256sum)" "$sum" \
	"64 MiB through a pseudo-terminal that is raw are exact"
is "$(pty -- sh -c 'head -c 40000 /dev/zero | tr "\0" x' | wc -c)" 40000 "a program's last bytes are not lost"

pty -- sh -c 'exec <&- >&- 2>&-; sleep 0.3; exit 7' </dev/null
is $? 7 "a program that closes its terminal before it ends is not sent SIGHUP"

out=$(echo text | pty -n 3 --pty=1 -l -- sh -c '[ -t 0 ] || { cat; echo "no terminal"; exit; }; read x; echo "got $x"' | plain)
is "$(echo "$out" | sort | tr '\n' '|')" "0: no terminal|1: got text|2: no terminal|" \
	"one rank of several has the pseudo-terminal, with labels, and the others have no input"
out=$(printf 'a\n' | pty -n 4 --pty=1-2 -- sh -c 'read x; echo "$SLURM_PROCID <$x> $(test -t 0 && echo yes)"' | plain | sort)
is "$(echo "$out" | tr '\n' '|')" "0 <> |1 <a> yes|2 <a> yes|3 <> |" "each of several ranks reads all that is typed"
out=$(printf 'a\n' | pty -n 3 --pty=1-2 --input 2 -- sh -c 'read x; echo "$SLURM_PROCID <$x>"' | plain | sort)
is "$(echo "$out" | tr '\n' '|')" "0 <>|1 <>|2 <a>|" "the rank of --input alone reads what is typed"
is "$(pty -n 8 --pty=0-7 -l -- tty | plain | sed 's/.*: //' | sort -u | wc -l)" 8 "each rank has a pseudo-terminal of its own"

# A background process that holds it does not hold up the step.
is "$(pty -- sh -c 'sleep 300 & echo started' | plain)" started "a process that is left with the pseudo-terminal is killed"
is "$(pty --proctrack linuxproc --wait-background -- sh -c 'trap "" HUP; (sleep 0.2; echo late) & echo early' | plain | tr '\n' '|')" \
	"early|late|" "what a remaining process writes later comes out, too"

# ---- what tasks have -----------------------------------------------------------------------------
out=$(pty -n 8 --pty=0-7 --unbuffered -- sh -c 'ls -l /proc/self/fd | sed -n "s/.*-> //p"')
like "$out" '^/dev/pts/' "tasks have pseudo-terminals open"
unlike "$out" ptmx "no task has a master of a pseudo-terminal open"
pty -n 8 --pty=0-7 -- sh -c ': >"$0/up.$SLURM_PROCID"; exec sleep 300' "$tmpdir" >/dev/null </dev/null &
waiting=$!
all_up() {
	[ "$(find "$tmpdir" -name 'up.*' | wc -l)" = 8 ]
}
eventually all_up
has_masters=$(for pid in $(left_processes); do
	tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q '^sleep ' || continue
	ls -l "/proc/$pid/fd"
done | grep -c ptmx)
is "$has_masters" 0 "none of several tasks has a master of another's"
"$stepctl" terminate "$job.0" >/dev/null
wait "$waiting"

# ---- a dead agent ---------------------------------------------------------------------------------
# Nobody has its terminals any more (0655 has them held).
start_agent 0 --proctrack "$tracker" --pty -- sh -c 'trap "echo HUP >>\"\$0\"" HUP; : >"$0.up"; while :; do sleep 300 & wait $!; done' \
	"$tmpdir/signals" </dev/null
eventually test -e "$tmpdir/signals.up"
eventually held
holder=$(stream_holder)
kill -TERM "$holder"
eventually process_ended "$holder"
kill_agent
ok "a pseudo-terminal of a dead agent that nobody holds hangs up" eventually grep -q HUP "$tmpdir/signals"
"$stepd" adopt "$job.0" 2>"$tmpdir/err" &
agent=$!
eventually adopted 0
like "$(cat "$tmpdir/err")" 'the pseudo-terminals of step .* have hung up' "an adopter logs that they have hung up"
"$stepctl" terminate "$job.0" >/dev/null
wait "$agent"

# ---- another user --------------------------------------------------------------------------------
if [ "$(id -u)" = 0 ]; then
	out=$(pty --uid 65533 --gid 65533 -- sh -c 'stat -c "%u %a" "$(tty)"; : <>/dev/tty && echo its own
		: <>"$(tty)" && echo by name' | plain)
	like "$out" '^65533 6[02]0$' "a pseudo-terminal is its user's"
	like "$out" '^its own$' "a user can open the controlling terminal"
	like "$out" '^by name$' "a user can open the terminal by its name"

	# With a devpts of its own, all there are can be counted.
	cat >"$tmpdir/places" <<'END'
mount --make-rprivate / && mount -t devpts -o newinstance,ptmxmode=666,max=4 devpts /dev/pts || exit 99
count() { ls /dev/pts | grep -cv ptmx; }
echo "before: $(count)"
"$1" run -q --job "$2" --proctrack "$3" -n 3 --pty=0-2 -- true; echo "status $?, left: $(count)"
"$1" run -q --job "$2" --proctrack "$3" -n 2 --unbuffered -- true; echo "status $?, left: $(count)"
"$1" run -q --job "$2" --proctrack "$3" -n 6 --pty=0-5 -- true; echo "status $?, left: $(count)"
umount /dev/pts && mount -t tmpfs none /dev/pts
"$1" run -q --job "$2" --proctrack "$3" --pty -- true; echo "status $?"
END
	out=$(unshare -m sh "$tmpdir/places" "$stepd" "$job" "$tracker" 2>&1 </dev/null)
	if [ "${out%%:*}" = before ]; then
		is "$(echo "$out" | grep -c 'left: 0$')" 3 "no pseudo-terminal is left behind, not by a step that can't start"
		like "$out" 'make a pseudo-terminal for rank [0-9]: .*kernel\.pty\.max' \
			"a step without enough pseudo-terminals names the limit"
		like "$out" 'make a pseudo-terminal for rank 0: .*is devpts mounted' "a step without devpts says what is missing"
		is "$(echo "$out" | grep -c '^status 125')" 2 "a step that can't have its pseudo-terminals is not started"
	else
		skip 4 "no file system can be mounted here: $out"
	fi
else
	skip 7 "needs root"
fi

# ---- what is refused -----------------------------------------------------------------------------
refused() { # REGEX NAME ARG...
	refused_regex=$1
	refused_name=$2
	shift 2
	out=$(step "$@" -- true 2>&1 </dev/null)
	is "$?" 125 "$refused_name: the step is not started"
	like "$out" "$refused_regex" "$refused_name: the message has the reason"
}
refused '^stepd run: --output: conflicts with pty' "a pseudo-terminal and an output file" --pty --output "$tmpdir/o"
refused '^stepd run: --error: conflicts with pty' "a pseudo-terminal and an error file" --pty --error "$tmpdir/o"
refused '^stepd run: --input: conflicts with pty' "a pseudo-terminal and an input file" --pty --input "$tmpdir/o"
refused '^stepd run: --session: .agent. conflicts with pty' "a pseudo-terminal in the agent's session" --pty --session agent
refused '^stepd run: --pty: .* above 1' "a pseudo-terminal of a rank that does not exist" -n 2 --pty=2
refused '^stepd run: --input.* 1 is not one of pty' "typed input for a rank without a pseudo-terminal" -n 2 --pty --input 1
refused '^stepd run: --pty: .*list of ranks' "a pseudo-terminal of no rank" --pty=x
refused 'pty: proctrack/pgid needs .* one process group' "a pseudo-terminal with pgid" --proctrack pgid --pty
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
