#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What people see of stepctl: names that tasks give themselves move no cursor, tables fit, colours
# are for terminals, and top gives the terminal back as it was, whatever ends it.
. "${top_srcdir:?}/tests/lib/step.sh"
command -v python3 >/dev/null || skip_all "needs python3"

# A task whose name and arguments are a hostile terminal's input.
cat >"$tmpdir/hostile.py" <<'X'
import ctypes, sys, os, time
name = b"\x1b[2J\x07\r\nx\x9b1m"
ctypes.CDLL(None).prctl(15, name, 0, 0, 0)
if len(sys.argv) == 1:
    os.execv(sys.executable, [sys.executable, __file__, "\x1b]0;owned\x07", "two\nlines", "\u202etxt.exe", b"\xff\xfe\x80".decode("utf8", "surrogateescape"), "gr\u00fcn"])
print("up", flush=True)
time.sleep(300)
X
start_step --proctrack "$tracker" -n 2 -- python3 "$tmpdir/hostile.py"
eventually sh -c "[ \$(grep -c up '$tmpdir/out') = 2 ]"

# ---- names ---------------------------------------------------------------------------------------
for locale in C C.UTF-8; do
	LC_ALL=$locale "$stepctl" ps "$job.0" >"$tmpdir/ps"
	is "$(LC_ALL=C tr -d '\n\40-\176\200-\377' <"$tmpdir/ps" | wc -c)" 0 \
		"$locale: ps prints no control character of a task's name"
	is "$(wc -l <"$tmpdir/ps")" 5 "$locale: ps prints no newline of a task's arguments"
	like "$(LC_ALL=C cat "$tmpdir/ps")" '\?\]0;owned\? two\?lines' \
		"$locale: ps prints a question mark for a control character"
done
ok "ps prints letters beyond ASCII in UTF-8" grep -q "$(printf 'gr\303\274n')" "$tmpdir/ps"
ok "ps prints no character that turns the direction of writing" sh -c "! grep -q '$(printf '\342\200\256')' '$tmpdir/ps'"
is "$(LC_ALL=C.UTF-8 iconv -f UTF-8 -t UTF-8 "$tmpdir/ps" 2>&1 >/dev/null)" "" "ps prints valid UTF-8"
LC_ALL=C "$stepctl" ps "$job.0" >"$tmpdir/ps"
is "$(LC_ALL=C tr -d '\n\40-\176' <"$tmpdir/ps" | wc -c)" 0 "ps prints ASCII alone without UTF-8"
"$stepctl" ps --json "$job.0" >"$tmpdir/json"
ok "ps --json prints JSON of hostile names" json_get "$tmpdir/json" d
is "$("$stepctl" notify "$job.0" "$(printf 'a\033[2Jb')" 2>&1)" "" \
	"notify accepts a message with an escape sequence"

# ---- widths --------------------------------------------------------------------------------------
for width in 20 40 80 132; do
	for args in list "ps $job.0" "show $job.0" "top -b -n 1 -i 100ms"; do
		# shellcheck disable=SC2086 # words
		is "$(COLUMNS=$width LC_ALL=C.UTF-8 "$stepctl" $args | python3 -c 'import sys
print(max([len(l.rstrip("\n")) for l in sys.stdin if not l.startswith(("start", "cont", "track", "vers"))]) <= max(int(sys.argv[1]), 34))' $width)" \
			True "${args%% *} fits $width columns"
	done
done
unlike "$("$stepctl" list)" "$(printf '\033')" "list prints no colours in a pipe"

# ---- a terminal ----------------------------------------------------------------------------------
# A line each of what the terminal of a run showed and how it was left.
cat >"$tmpdir/screen.py" <<'X'
import fcntl, os, pty, re, select, signal, struct, sys, termios, time

program = sys.argv[1]

class Run:
    def __init__(self, args, rows, columns, env=()):
        master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.master, self.slave = master, slave
        self.before = termios.tcgetattr(slave)
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            for fd in (0, 1, 2):
                os.dup2(slave, fd)
            os.closerange(3, 64)
            os.environ.update({"TERM": "xterm", "LC_ALL": "C.UTF-8"})
            os.environ.pop("NO_COLOR", None)
            os.environ.update(env)
            os.execv(program, [program] + args)
        self.seen = ""

    def until(self, pattern, seconds=300):
        end = time.time() + seconds
        while not re.search(pattern, self.seen, re.S):
            if not self.read(end - time.time()):
                return False
        return True

    def read(self, seconds):
        ready, _, _ = select.select([self.master], [], [], max(seconds, 0))
        if not ready:
            return False
        try:
            self.seen += os.read(self.master, 65536).decode("utf8", "replace")
        except OSError:
            return False
        return True

    def frame(self):
        return self.seen.split("\x1b[H")[-1]

    def resize(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.kill(self.pid, signal.SIGWINCH)

    def wait(self):
        _, status = os.waitpid(self.pid, 0)
        while self.read(0.05):
            pass
        return status

    def restored(self):
        return (termios.tcgetattr(self.slave) == self.before
                and self.seen.rstrip().endswith("\x1b[?25h\x1b[?1049l"))

def report(name, value):
    print(name, value, flush=True)

def fits(frame, rows, columns):
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", frame.replace("\r", "")).split("\n")
    return len(lines) <= rows and max(map(len, lines)) <= columns

step = sys.argv[2]
run = Run(["list"], 24, 80)
run.wait()
report("colour", "\x1b[32mrunning" in run.seen)
run = Run(["list"], 24, 80, {"NO_COLOR": "1"})
run.wait()
report("no_color", "\x1b" not in run.seen)

for rows, columns in ((24, 80), (10, 40), (3, 20)):
    run = Run(["top", "-i", "100ms"], rows, columns)
    report("shown_%dx%d" % (columns, rows), run.until(re.escape(step) + ".*\x1b\\[J.*" + re.escape(step) + ".*\x1b\\[J"))
    report("fits_%dx%d" % (columns, rows), fits(run.frame(), rows, columns))
    os.write(run.master, b"h")
    report("help_%dx%d" % (columns, rows), run.until("quit"))
    os.write(run.master, b"\x1b[Bjkt\x1b[5~\x1b[6~GgrsumpecX")
    run.until("nothing", 0.3)
    os.write(run.master, b"q")
    report("quit_%dx%d" % (columns, rows), run.wait() == 0 and run.restored())

run = Run(["top", "-i", "100ms"], 24, 80)
run.until(re.escape(step))
run.seen = ""
run.resize(10, 30)
run.until("\x1b\\[J.*\x1b\\[J.*\x1b\\[J")
report("resized", fits(run.frame(), 10, 30))
os.write(run.master, b"\x03")
report("control_c", os.WIFSIGNALED(run.wait()) and run.restored())

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    run = Run(["top", "-i", "100ms"], 24, 80)
    run.until(re.escape(step))
    os.kill(run.pid, number)
    status = run.wait()
    report(number.name, os.WIFSIGNALED(status) and os.WTERMSIG(status) == number and run.restored())

run = Run(["top", "-i", "100ms", "-n", "3"], 24, 80)
report("count", run.wait() == 0 and run.restored())
run = Run(["top", "nonsense"], 24, 80)
report("failed", os.WEXITSTATUS(run.wait()) == 1 and termios.tcgetattr(run.slave) == run.before)
X
python3 "$tmpdir/screen.py" "$stepctl" "$job.0" >"$tmpdir/screen" 2>"$tmpdir/err"
is "$?,$(cat "$tmpdir/err")" "0," "the checks at a terminal ran to their end"
for name in colour no_color shown_80x24 fits_80x24 help_80x24 quit_80x24 shown_40x10 fits_40x10 \
	help_40x10 quit_40x10 shown_20x3 fits_20x3 help_20x3 quit_20x3 resized control_c SIGTERM SIGINT \
	SIGHUP SIGQUIT count failed; do
	is "$(sed -n "s/^$name //p" "$tmpdir/screen")" True "the check '$name' at a terminal passes"
done
kill $agent
wait $agent

# ---- output that nobody takes --------------------------------------------------------------------
start_step --proctrack "$tracker" -- sh -c 'echo up; exec sleep 300'
while read -r args; do
	# shellcheck disable=SC2086 # words
	out=$("$stepctl" $args 2>&1 >/dev/full)
	is "$?" 9 "stepctl $args exits with 9 on a full disk"
	like "$out" "can't write to standard output: No space left on device" "stepctl $args reports a full disk"
	# shellcheck disable=SC2086
	out=$("$stepctl" $args 2>&1 >&-)
	is "$?" 9 "stepctl $args exits with 9 without standard output"
	# shellcheck disable=SC2086
	out=$({ timeout 900 python3 -c 'import os, signal, sys
signal.signal(signal.SIGPIPE, signal.SIG_IGN)
r, w = os.pipe()
os.close(r)
os.dup2(w, 1)
os.execv(sys.argv[1], sys.argv[1:])' "$stepctl" $args; } 2>&1)
	is "$?,$out" "9," "stepctl $args exits with 9 at a closed pipe, with SIGPIPE ignored"
done <<X
list
show $job.0
ps $job.0
pids $job.0
find 1
usage $job.0
usage -i 100ms $job.0
events $job.0
top --batch -i 100ms
list --json
--help
X
ok "a reader that goes away ends usage -i" timeout 900 sh -c "'$stepctl' usage -i 100ms $job.0 | head -n 1"
kill $agent
wait $agent
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
