#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A step of another user, started by root at a terminal: its tasks have no way to root's shell. They
# can't type for it (TIOCSTI), read what is typed, or get the terminal back. Who runs as himself
# keeps the terminal.
# shellcheck disable=SC2016,SC2317,SC2086 # for the tasks; words
. "${top_srcdir:?}/tests/lib/step.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root, to run steps of others"
command -v python3 >/dev/null || skip_all "needs python3"

user=65533
ptyjob=${top_builddir:?}/tests/lib/ptyjob

# on-terminal COMMAND...: a shell of root's on a terminal of its own, whose job in the foreground
# COMMAND is. What that writes comes out here; then "shell: typed X" of what the shell finds typed.
cat >"$tmpdir/on-terminal" <<'P'
import os, pty, signal, sys, termios
pid, fd = pty.fork()
if pid == 0:
    attributes = termios.tcgetattr(0)
    attributes[3] &= ~(termios.ECHO | termios.ICANON)
    attributes[6][termios.VMIN] = attributes[6][termios.VTIME] = 0
    termios.tcsetattr(0, termios.TCSANOW, attributes)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execvp(sys.argv[1], sys.argv[1:])
    os.waitpid(job, 0)
    os.tcsetpgrp(0, os.getpid())
    print("shell: typed", repr(os.read(0, 100)), flush=True)
    os._exit(0)
seen = b""
try:
    while True:
        seen += os.read(fd, 4096)
except OSError:
    pass
sys.stdout.buffer.write(seen.replace(b"\r", b""))
os.waitpid(pid, 0)
P

# What a hostile task tries; a line each, of what it found or got.
cat >"$tmpdir/attack.py" <<'P'
import errno, fcntl, os, signal, termios
TIOCLINUX = 0x541C
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
signal.signal(signal.SIGTTIN, signal.SIG_IGN)
def attempt(what, call):
    try:
        call()
        print(what, "succeeded", flush=True)
    except OSError as e:
        print(what, errno.errorcode[e.errno], flush=True)
def type_in(fd):
    for c in b"id\n":
        fcntl.ioctl(fd, termios.TIOCSTI, bytes([c]))
def tty():
    return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
print("terminal", open("/proc/self/stat").read().rsplit(")", 1)[1].split()[4], flush=True)
attempt("open", tty)
attempt("type", lambda: type_in(1))
attempt("type2", lambda: type_in(2))
attempt("paste", lambda: fcntl.ioctl(1, TIOCLINUX, bytes([3])))
attempt("reopen", lambda: os.open("/proc/self/fd/1", os.O_RDWR | os.O_NOCTTY))
attempt("foreground", lambda: os.tcsetpgrp(1, os.getpgrp()))
os.set_blocking(1, False)
attempt("read", lambda: os.read(1, 1))
os.set_blocking(1, True)
pid = os.fork()
if pid == 0:
    os.setsid()
    attempt("take", lambda: fcntl.ioctl(1, termios.TIOCSCTTY, 0))
    attempt("take by force", lambda: fcntl.ioctl(1, termios.TIOCSCTTY, 1))
    attempt("type as a leader", lambda: type_in(1))
    os._exit(0)
os.waitpid(pid, 0)
P
chmod 644 "$tmpdir/attack.py"

at_terminal() { # ARG...: of "stepd run"
	timeout 900 python3 "$tmpdir/on-terminal" "$stepd" run -q --job "$job" --input none "$@" 2>&1
}

# Of the kernel where nobody may do that any more, or of the terminal that is not the caller's.
refused="(EPERM|EIO)"

for b in $(backends); do
	for session in "" --session=agent; do
		t="$b${session:+, $session}:"
		out=$(at_terminal --proctrack "$b" $session --uid $user --gid $user \
			-- python3 "$tmpdir/attack.py")
		like "$out" '^terminal 0$' "$t a task of another user has no controlling terminal"
		like "$out" '^open ENXIO$' "$t a task of another user can't open the terminal of root's shell"
		like "$out" "^type $refused\$" \
			"$t a task of another user can't type into root's shell by its standard output"
		like "$out" "^type2 $refused\$" \
			"$t a task of another user can't type into root's shell by its standard error"
		unlike "$out" '^paste succeeded' "$t a task of another user can't paste into root's shell"
		like "$out" '^read EBADF$' "$t a task of another user can't read what is typed for root's shell"
		like "$out" '^reopen EACCES$' "$t a task of another user can't open the terminal again to read it"
		like "$out" '^foreground ENOTTY$' "$t a task of another user can't take the terminal's foreground"
		like "$out" '^take EPERM$' "$t the leader of a new session can't get root's terminal"
		like "$out" '^take by force EPERM$' "$t the leader of a new session can't get root's terminal by force"
		like "$out" "^type as a leader $refused\$" "$t the leader of a new session can't type into root's shell"
		like "$out" "^shell: typed b''\$" "$t nothing was typed into root's shell"
	done
done

# six and more tasks share the launcher's memory
out=$(at_terminal --proctrack "$tracker" -n 8 --uid $user --gid $user -- \
	sh -c '(: </dev/tty) 2>/dev/null && echo "a terminal"; cut -d" " -f7 /proc/self/stat')
is "$(echo "$out" | grep -c '^0$')" 8 "none of many tasks of another user has a terminal"

# ---- who runs as himself ---------------------------------------------------------------------------
for b in $(backends); do
	out=$(at_terminal --proctrack "$b" -- \
		sh -c '[ "$(cut -d" " -f7 /proc/self/stat)" != 0 ] && : </dev/tty && echo "it is there"')
	like "$out" '^it is there$' "$b: a task of the agent's own user keeps the terminal"
done

# ---- job control for a step of another user --------------------------------------------------------
: >"$tmpdir/printed"
: >"$tmpdir/stay"
"$ptyjob" "$stepd" run -q --job "$job" --proctrack "$tracker" --uid $user --gid $user -- \
	sh -c 'while [ -e "$0" ]; do sleep 0.02; done; exit 7' "$tmpdir/stay" >"$tmpdir/printed" &
shell=$!
eventually running 0
kill -USR1 $shell
ok "^Z stops the agent" eventually grep -q stopped "$tmpdir/printed"
ok "^Z suspends another user's step" suspended
kill -USR2 $shell
ok "fg resumes another user's step" eventually running 0
rm "$tmpdir/stay"
wait $shell
is "$(tail -n 1 "$tmpdir/printed")" "exited 7" "a step that was suspended at a terminal ends with its status"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
