#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Who may resume a suspended step by SIGCONT to its agent: root, the agent's user, and who leads the
# agent's session; not whoever happens to be in that session, to whom the kernel allows the signal.
# shellcheck disable=SC2016,SC2317,SC2086 # for the tasks; words
. "${top_srcdir:?}/tests/lib/step.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root, to be others"
command -v python3 >/dev/null || skip_all "needs python3"
command -v setpriv >/dev/null || skip_all "needs setpriv"

stranger=65533
ptyjob=${top_builddir:?}/tests/lib/ptyjob

# Sends SIGCONT to a process in one of three ways; the last one claims to be root.
cat >"$tmpdir/continue.py" <<'P'
import ctypes, os, platform, signal, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
way, pid = sys.argv[1], int(sys.argv[2])
if way == "kill":
    os.kill(pid, signal.SIGCONT)
elif way == "tgkill":
    r = libc.syscall({"x86_64": 234, "aarch64": 131}[platform.machine()], pid, pid, int(signal.SIGCONT))
    sys.exit(r < 0)
else:
    SI_QUEUE = -1
    info = struct.pack("iiiiii", signal.SIGCONT, 0, SI_QUEUE, 0, os.getpid(), 0).ljust(128, b"\0")
    r = libc.syscall({"x86_64": 129, "aarch64": 138}[platform.machine()], pid, int(signal.SIGCONT), info)
    sys.exit(r < 0)
P

# Starts a program as the leader of a process group, which therefore can't leave this session.
cat >"$tmpdir/in-session.py" <<'P'
import os, sys
os.setpgid(0, 0)
os.execvp(sys.argv[1], sys.argv[1:])
P
chmod 644 "$tmpdir"/*.py

# Not what root's PATH may have first.
python=/usr/bin/python3
[ -x $python ] || skip_all "needs $python"

as_stranger() {
	setpriv --reuid $stranger --regid $stranger --clear-groups "$@"
}

ignored() { # COUNT
	[ "$(grep -cE "got CONT (of pid [0-9]+, uid $stranger, who may not|by sigqueue)" "$tmpdir/err")" = "$1" ]
}

agent_stands() {
	[ "$(process_state "$(state_of 0 agent_pid)")" = T ]
}

session() { # PID
	python3 -c 'import sys; print(open("/proc/%s/stat" % sys.argv[1]).read().rsplit(")", 1)[1].split()[3])' "$1"
}

# ---- one who shares the agent's session ------------------------------------------------------------
: >"$tmpdir/stay"
python3 "$tmpdir/in-session.py" "$stepd" run --job "$job" --proctrack "$tracker" -- \
	sh -c 'while [ -e "$0" ]; do sleep 0.02; done' "$tmpdir/stay" 2>"$tmpdir/err" &
agent=$!
eventually running 0
is "$(session "$agent")" "$(session $$)" "an agent that leads a process group goes on in its caller's session"
kill -TSTP "$agent"
ok "root's TSTP suspends the step" eventually suspended
n=0
for way in kill tgkill queue; do
	n=$((n + 1))
	ok "$way: the kernel lets a stranger of the session send CONT to the agent" \
		as_stranger $python "$tmpdir/continue.py" $way "$agent"
	ok "$way: the agent ignores a stranger's CONT, and logs whose it was" eventually ignored $n
	ok "$way: the step stays suspended after a stranger's CONT" suspended
done
kill -CONT "$agent"
ok "root's CONT resumes the step" eventually running 0
rm "$tmpdir/stay"
wait "$agent"

# ---- the leader of the session: a user's shell, below which root's agent is ----------------------
cat >"$tmpdir/leader.py" <<'P'
import os, signal, sys
os.setsid()
agent = os.fork()
if agent == 0:
    os.setpgid(0, 0)
    os.execvp(sys.argv[2], sys.argv[2:])
uid = sys.argv[1]
os.execvp("setpriv", ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "/usr/bin/python3", "-c", """
import os, signal, sys
agent = int(sys.argv[1])
for line in sys.stdin:
    os.kill(agent, signal.SIGCONT)
print(os.waitpid(agent, 0)[1])
""", str(agent)])
P
: >"$tmpdir/stay"
mkfifo "$tmpdir/commands"
python3 "$tmpdir/leader.py" $stranger "$stepd" run --job "$job" --proctrack "$tracker" --input none -- \
	sh -c 'while [ -e "$0" ]; do sleep 0.02; done' "$tmpdir/stay" \
	<"$tmpdir/commands" >"$tmpdir/out" 2>"$tmpdir/err" &
leader=$!
exec 9>"$tmpdir/commands"
eventually running 0
kill -TSTP "$(pgrep -P $leader -x stepd)"
ok "the step below a user's shell is suspended" eventually suspended
echo fg >&9
ok "CONT of the user who leads the session resumes the step" eventually running 0
exec 9>&-
rm "$tmpdir/stay"
wait $leader
is "$(cat "$tmpdir/out")" 0 "a step that its session's leader resumed ends with its status"

# ---- an agent that ^Z has stopped ------------------------------------------------------------------
# The stranger is in the session, and in no way a job of its shell.
cat >"$tmpdir/beside.py" <<'P'
import os, sys
agent = os.getpid()
if os.fork() == 0:
    os.setpgid(0, 0)
    os.execvp("setpriv", ["setpriv", "--reuid", sys.argv[1], "--regid", sys.argv[1], "--clear-groups",
        "/usr/bin/python3", "-c", """
import os, sys
os.read(os.open(sys.argv[1], os.O_RDONLY), 1)
os.execv("/usr/bin/python3", ["python3", sys.argv[2], "kill", sys.argv[3]])
""", sys.argv[2], sys.argv[3], str(agent)])
os.execvp(sys.argv[4], sys.argv[4:])
P
mkfifo -m 644 "$tmpdir/go"
: >"$tmpdir/stay"
"$ptyjob" python3 "$tmpdir/beside.py" $stranger "$tmpdir/go" "$tmpdir/continue.py" \
	sh -c 'exec 2>"$0"; exec "$@"' "$tmpdir/err" \
	"$stepd" run --job "$job" --proctrack "$tracker" -- \
	sh -c 'while [ -e "$0" ]; do sleep 0.02; done; exit 7' "$tmpdir/stay" >"$tmpdir/out" &
shell=$!
eventually running 0
kill -USR1 $shell
ok "^Z stops the agent" eventually grep -q stopped "$tmpdir/out"
ok "^Z suspends the step" suspended
echo >"$tmpdir/go"
ok "an agent stopped by ^Z ignores a stranger's CONT" eventually ignored 1
ok "an agent stopped by ^Z stops again after a stranger's CONT" eventually agent_stands
ok "a step suspended by ^Z stays suspended after a stranger's CONT" suspended
kill -USR2 $shell
ok "fg resumes the step after a stranger's CONT" eventually running 0
rm "$tmpdir/stay"
wait $shell
is "$(tail -n 1 "$tmpdir/out")" "exited 7" "a step resumed by fg ends with its status"

# ---- a stranger's CONT just before the shell's -----------------------------------------------------
# Two that are pending at once are one, of which the first one's sender is known. This shell is both
# senders, by its real uid, on one processor, where it is not interrupted for the agent.
cat >"$tmpdir/shell.py" <<'P'
import os, pty, signal, sys
stranger, argv = int(sys.argv[1]), sys.argv[2:]
commands, out = os.dup(0), os.dup(1)
leader, terminal = pty.fork()
if leader:
    signal.signal(signal.SIGUSR1, lambda *_: os.write(terminal, b"\032"))
    while True:
        try:
            if not os.read(terminal, 512):
                break
        except OSError:
            break
    os.waitpid(leader, 0)
    sys.exit(0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
signal.signal(signal.SIGTSTP, signal.SIG_IGN)
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    os.execvp(argv[0], argv)
def print_line(text):
    os.write(out, (text + "\n").encode())
def as_stranger():
    os.setresuid(stranger, stranger, 0)
    os.kill(job, signal.SIGCONT)
    os.setresuid(0, 0, 0)
def by_stranger():  # this shell, which leads the session, is root all the time: the agent looks
    child = os.fork()
    if child == 0:
        os.setresuid(stranger, stranger, stranger)
        os.kill(job, signal.SIGCONT)
        os._exit(0)
    os.waitpid(child, 0)
for line in os.fdopen(commands):
    if line == "stopped\n":  # by a ^Z
        os.waitpid(job, os.WUNTRACED)
        os.tcsetpgrp(0, os.getpid())
    elif line == "stranger\n":
        by_stranger()
    elif line == "fg\n":
        os.tcsetpgrp(0, job)
        as_stranger()
        os.kill(job, signal.SIGCONT)
    print_line(line.strip())
status = os.waitpid(job, 0)[1]
print_line("exited %d" % os.waitstatus_to_exitcode(status))
P
shell() { # COMMAND: once it is done
	echo "$1" >&9
	shell_done=$((shell_done + 1))
	eventually has_lines "$tmpdir/out" $shell_done
}
: >"$tmpdir/stay"
shell_done=0
rm "$tmpdir/commands"
mkfifo "$tmpdir/commands"
# The shell is the leader of the session, and root: the stranger is neither.
python3 "$tmpdir/shell.py" $stranger sh -c 'exec 2>"$0"; exec "$@"' "$tmpdir/err" \
	"$stepd" run --job "$job" --proctrack "$tracker" -- \
	sh -c 'while [ -e "$0" ]; do sleep 0.02; done; exit 7' "$tmpdir/stay" <"$tmpdir/commands" >"$tmpdir/out" &
shell=$!
exec 9>"$tmpdir/commands"
eventually running 0
agent=$(state_of 0 agent_pid)
kill -USR1 $shell
ok "^Z stops an agent whose shell is root" eventually agent_stands
shell stopped
shell stranger
ok "an agent whose shell is root ignores a stranger's CONT" eventually ignored 1
ok "an agent whose shell is root stops again after a stranger's CONT" eventually agent_stands
ok "a step whose shell is root stays suspended after a stranger's CONT" suspended
shell fg
ok "fg resumes the step though a stranger's CONT came just before the shell's" eventually running 0
rm -f "$tmpdir/stay"
# Where the step was not resumed.
kill -CONT "$agent"
exec 9>&-
wait $shell
is "$(tail -n 1 "$tmpdir/out")" "exited 7" "a step resumed after two signals at once ends with its status"

# ---- what keeps them apart in the first place ------------------------------------------------------
for b in $(backends); do
	: >"$tmpdir/stay"
	"$stepd" run --job "$job" --proctrack "$b" -- \
		sh -c 'while [ -e "$0" ]; do sleep 0.02; done' "$tmpdir/stay" 2>"$tmpdir/err" &
	agent=$!
	eventually running 0
	is "$(session "$agent")" "$agent" "$b: an agent without a terminal has a session of its own"
	out=$(timeout 900 "$stepd" run -q --job "$job" --step 1 --proctrack "$b" --uid $stranger --gid $stranger -- \
		$python "$tmpdir/continue.py" kill "$agent" 2>&1)
	like "$out" "PermissionError" "$b: a task of another user can't send CONT to its agent"
	task=$(state_of 0 'tasks[0]["pid"]')
	out=$(timeout 900 "$stepd" run -q --job "$job" --step 1 --proctrack "$b" --uid $stranger --gid $stranger -- \
		$python "$tmpdir/continue.py" kill "$task" 2>&1)
	like "$out" "PermissionError" "$b: a task of another user can't send CONT to the agent's tasks"
	rm "$tmpdir/stay"
	wait "$agent"
done
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
