#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What steprun's relays carry arrives byte for byte by each way: as it is where a relay has its channel
# alone and bytes pass it unchanged, in lines everywhere else; and a channel that breaks off or is
# damaged loses nothing that had come.
# shellcheck source=tests/lib/steprun.sh
. "${top_srcdir:?}/tests/lib/steprun.sh"
command -v python3 >/dev/null || skip_all "needs python3"

# ---- the ways ----------------------------------------------------------------------------------
raw='local'
tapped="exec:%c | tee $tmpdir/tap.%n"
mixing="exec:exec python3 $top_srcdir/tests/lib/start_all.py %N %q | tee $tmpdir/tap.all"
# shellcheck disable=SC2034 # by eval below
no_nul="exec:%c | sed -u 's/\\x00//g' | tee $tmpdir/tap.%n"
# shellcheck disable=SC2034
carriage="exec:%c | sed -u 's/\$/\\r/' | tee $tmpdir/tap.%n"
# shellcheck disable=SC2034
terminal="exec:exec python3 -c 'import pty, sys, tty; tty.setraw(0) if sys.stdin.isatty() else None; pty.spawn(sys.argv[1:])' sh -c %q | tee $tmpdir/tap.%n"

in_frames() { # FILE...
	LC_ALL=C grep -aq '^@stepd [0-9]* out #' "$@"
}

# ---- bytes of one node ---------------------------------------------------------------------------
mib=$(rounds 16 256)
head -c $((mib * 1048576)) /dev/urandom >"$tmpdir/bytes"
sum=$(sha256sum <"$tmpdir/bytes")
is "$(srun_here -N 2 -n 2 --launcher "$raw" -i none sh -c \
	'[ "$SLURM_PROCID" = 0 ] && exec cat "$0"; exec cat "$0" >&2' "$tmpdir/bytes" 2>"$tmpdir/err" | sha256sum) $(sha256sum <"$tmpdir/err")" \
	"$sum $sum" "$mib MiB on stdout of one node and stderr of another arrive through private channels"
srun_here -N 1 -n 1 --launcher "$raw" cat "$tmpdir/bytes" >"$tmpdir/copy"
ok "$mib MiB arrive in a file" cmp "$tmpdir/bytes" "$tmpdir/copy"
echo before >"$tmpdir/copy"
srun_here -N 1 -n 1 --launcher "$raw" cat "$tmpdir/bytes" >>"$tmpdir/copy"
is "$(tail -c +8 "$tmpdir/copy" | sha256sum)" "$sum" "$mib MiB arrive behind what a file had"
rm "$tmpdir/copy"
is "$(srun_here -w n1 --launcher "$tapped" cat "$tmpdir/bytes" | sha256sum)" "$sum" \
	"$mib MiB arrive through a command of the site's"
ok "bytes travel as they are through a command of the site's" in_frames "$tmpdir/tap.0"
rm -f "$tmpdir"/tap.*
is "$(srun_here -w n1,n2 -n 2 --launcher "$tapped" -i 1 cat <"$tmpdir/bytes" | sha256sum)" "$sum" \
	"$mib MiB arrive at a task and come back"
rm -f "$tmpdir"/tap.*

head -c 4000000 "$tmpdir/bytes" >"$tmpdir/less"
less=$(sha256sum <"$tmpdir/less")
for way in mixing no_nul carriage terminal; do
	launcher=
	eval "launcher=\$$way"
	is "$(srun_here -w n1 --launcher "$launcher" cat "$tmpdir/less" 2>"$tmpdir/err" | sha256sum)" "$less" \
		"4 MB arrive through a launcher that is no private channel for them ($way)"
	fails "bytes travel in lines through a launcher that is no private channel for them ($way)" in_frames "$tmpdir"/tap.*
	rm -f "$tmpdir"/tap.*
done

# ---- four nodes at once --------------------------------------------------------------------------
# Each rank writes lines of letters that no other rank has: so its bytes are known, whatever comes
# between them.
letters() { # RANK
	set -- "$1" 0-9a-f g-v G-V '\200-\217'
	shift "$(($1 + 1))"
	printf '%s\n' "$1"
}
for rank in 0 1 2 3; do
	mkfifo "$tmpdir/split.$rank"
	head -c 524288 /dev/urandom | od -An -v -tx1 -w"$((32 + rank * 200))" | tr -d ' ' |
		LC_ALL=C tr 0-9a-f "$(letters $rank)" >"$tmpdir/lines.$rank"
done
four() { # LAUNCHER TIMES: the ranks whose bytes have not come as they were
	for rank in 0 1 2 3; do
		LC_ALL=C tr -dc "$(letters $rank)" <"$tmpdir/split.$rank" | sha256sum >"$tmpdir/sum.$rank" &
	done
	# shellcheck disable=SC2016 # for the tasks' shell
	srun_here -w 'n[1-4]' -n 4 --launcher "$1" -- sh -c '
		for i in $(seq "$1"); do cat "$0.$SLURM_PROCID"; done' "$tmpdir/lines" "$2" |
		tee "$tmpdir/split.0" "$tmpdir/split.1" "$tmpdir/split.2" "$tmpdir/split.3" | wc -lc >"$tmpdir/count"
	wait
	for rank in 0 1 2 3; do
		for _ in $(seq "$2"); do cat "$tmpdir/lines.$rank"; done | tee -a "$tmpdir/all" |
			LC_ALL=C tr -d '\n' | sha256sum | cmp -s - "$tmpdir/sum.$rank" || echo "rank $rank"
	done
	# shellcheck disable=SC2046 # words
	[ "$(echo $(wc -lc <"$tmpdir/all"))" = "$(echo $(cat "$tmpdir/count"))" ] || echo "the lines"
	rm "$tmpdir/all"
}
mib=$(rounds 16 256) # of each
is "$(four "$raw" "$mib")" "" "$mib MiB from each of four nodes arrive through private channels"
mib=$(rounds 4 256)
is "$(four "$mixing" "$mib")" "" "$mib MiB from each of four nodes arrive through a launcher that mixes their lines"
rm -f "$tmpdir"/tap.*

# ---- memory --------------------------------------------------------------------------------------
# Tasks write as much as they can to a reader that takes nothing: no process holds more than a bound.
high() { # PID: KiB
	sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$1/status"
}
mkfifo "$tmpdir/fifo"
sleep 600 <>"$tmpdir/fifo" &
holder=$!
"$steprun" --job "$job" --proctrack "$tracker" -q -N 2 -n 2 -- cat /dev/zero >"$tmpdir/fifo" &
pid=$!
eventually stands "$pid"
sleep 1 # it would take more
if grep -q '^#define STEPD_SANITIZERS 1' "$top_builddir/config.h"; then
	skip 3 "sanitizers want memory of their own"
else
	# 2.6 MiB each were measured, most of it the program.
	for process in $pid $(relays); do
		name=$(tr '\0' ' ' <"/proc/$process/cmdline" | sed 's/ --job.*//')
		ok "with a reader that takes nothing a process holds at most 8 MiB: ${name##*/}" \
			test "$(high "$process")" -le 8192
	done
fi
kill "$pid"
kill "$holder"
finish
wait "$holder" 2>/dev/null

# ---- channels that break -------------------------------------------------------------------------
# A relay of the test's own: relay NUMBER FILE [old] sends a hello and a probe, and what FILE has; at
# WAIT in it until something is written into FILE.go, a FIFO. An old one knows no frames.
cat >"$tmpdir/relay.py" <<'P'
import sys
n, name = sys.argv[1].encode(), sys.argv[2]
script = open(name, "rb").read().split(b"WAIT")
def say(data):
	sys.stdout.buffer.write(data)
	sys.stdout.buffer.flush()
def play():
	for i, part in enumerate(script):
		if i:
			open(name + ".go").read()
		say(part)
	sys.exit(0)
say(b"@stepd %s hello version=1 node=n%s port=1%s\n" % (n, n, b"" if sys.argv[3:] else b" frames=1"))
log = open(name + ".log", "wb")
for line in sys.stdin.buffer:
	log.write(line)
	log.flush()
	words = line.split()
	if words[2] == b"frames":
		say(b"@stepd %s probe " % n + bytes(i for i in range(256) if i != 10) + b"\n")
	elif words[2] == b"probe" or (sys.argv[3:] and words[2] == b"go"):
		play()
P
broken() { # BYTES: a step whose relay sends a hello, and then these
	# shellcheck disable=SC2059
	printf "$1" >"$tmpdir/script"
	begin -q -w n0 --launcher "exec:: %c; exec python3 $tmpdir/relay.py %n $tmpdir/script" -- true
	finish
}
broken '@stepd 0 out #6\nhello\n\n@stepd 0 task 0 0\n@stepd 0 end 0\n'
is "$status $(cat "$tmpdir/out") $(cat "$tmpdir/err")" "0 hello " "a relay's frame is written"
printf '@stepd 0 out aGVsbG8K\n@stepd 0 end 0\n' >"$tmpdir/script"
begin -q -w n0 --launcher "exec:: %c; exec python3 $tmpdir/relay.py %n $tmpdir/script old" -- true
finish
is "$status $(cat "$tmpdir/out") $(cat "$tmpdir/err")" "0 hello " "a relay of an earlier version is understood"
is "$(LC_ALL=C grep -acE 'frames|probe|#' "$tmpdir/script.log")" 0 "a relay of an earlier version is sent what it knows alone"
interrupt_shows() { # REGEX: what a single ^C prints
	sleep 1.1 # two within a second would end the step
	kill -INT "$pid"
	comes grep -qE "$1" "$tmpdir/err"
}
mkfifo "$tmpdir/0.go" "$tmpdir/1.go"
printf '@stepd 0 out #8\nbegWAITin\nab\n\n@stepd 0 task 0 0\n@stepd 0 end 0\n' >"$tmpdir/0"
printf 'WAIT@stepd 1 out #6\nother\n\n@stepd 1 task 1 0\n@stepd 1 end 0\n' >"$tmpdir/1"
begin -w n0,n1 -n 2 --launcher "exec:: %c; exec python3 $tmpdir/relay.py %n $tmpdir/%n" -- true
eventually grep -q '^beg' "$tmpdir/out"
echo >"$tmpdir/1.go"
eventually grep -q other "$tmpdir/out"
eventually interrupt_shows 'running: tasks 0; ended: tasks 1$'
echo >"$tmpdir/0.go"
finish
is "$status $(tr '\n' , <"$tmpdir/out")" "0 begother,in,ab" \
	"a node whose frame does not end holds up nothing of another's"
broken '@stepd 0 out #6\nhello\n\n@stepd 0 out #100\nabc'
is "$status $(tr '\n' ' ' <"$tmpdir/out")" "125 hello abc" "what has come of a frame is not lost where its relay ends"
is "$(cat "$tmpdir/err")" \
	"steprun: node n0 is lost: its channel ended in the middle of output: 97 of 100 bytes are missing" \
	"the end of a relay in the middle of a frame is reported in one line"
broken '@stepd 0 out #3\nabcd\n@stepd 0 end 0\n'
is "$status $(cat "$tmpdir/out") $(cat "$tmpdir/err")" \
	"125 abc steprun: node n0 is lost: its channel is damaged: another program has written into its output" \
	"what another program writes into a frame is reported"
broken '@stepd 0 out #99999999\nabcd\n@stepd 0 end 0\n'
is "$status $(cat "$tmpdir/out") $(cat "$tmpdir/err")" \
	"125  steprun: node n0 is lost: its channel is damaged: it announces '99999999' bytes" \
	"a frame of a hostile size is refused"
begin -q -w n1 --launcher 'exec:printf "Welcome, no newline"; %c' -- head -c 100000 "$tmpdir/bytes"
finish
ok "a greeting on the channel does not disturb frames" cmp -n 100000 "$tmpdir/out" "$tmpdir/bytes"
is "$(cat "$tmpdir/err")" "steprun: launcher: Welcome, no newline" "a greeting on the channel is shown"
nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
