# SPDX-License-Identifier: BSD-3-Clause
#
# talk.py STEP... -- COMMAND...: COMMAND as the foreground job of a small shell, on a terminal of its
# own of 24 lines and 80 columns. Prints "ok" once all steps are done, else what was seen instead:
#	see TEXT         waits until that is written, behind what was seen before
#	type TEXT        both with escapes of Python, such as \x03
#	size ROWS COLS   of the terminal from now on
#	raw, cooked      waits until the terminal is so
#	is-raw           it is already, for whoever types now
#	run COMMAND      of sh, which must succeed; $job_pid is the job's
#	still FILE       waits until it does not grow any more
#	fg               of a job that was stopped, behind "see shell: stopped"
# The shell writes "shell: stopped" where the job was stopped, and at its end "shell: modes kept", or
# "changed", of the terminal, and "shell: status N".
import fcntl, os, pty, select, signal, struct, subprocess, sys, termios, time

PATIENCE = 300
at = sys.argv.index("--")
steps, command = sys.argv[1:at], sys.argv[at + 1:]
go, let_go = os.pipe()
told, tell = os.pipe()


def start_job():
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execvp(command[0], command)
    os.write(tell, b"%d\n" % job)
    return job


def be_shell():
    os.read(go, 1)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    modes = termios.tcgetattr(0)
    job = start_job()
    while True:
        _, status = os.waitpid(job, os.WUNTRACED)
        os.tcsetpgrp(0, os.getpid())
        kept = termios.tcgetattr(0) == modes
        termios.tcsetattr(0, termios.TCSANOW, modes)
        if not os.WIFSTOPPED(status):
            break
        print("shell: stopped", flush=True)
        os.read(0, 100)  # a line is fg
        os.tcsetpgrp(0, job)
        os.killpg(job, signal.SIGCONT)
    print("shell: modes", "kept" if kept else "changed", flush=True)
    print("shell: status", os.waitstatus_to_exitcode(status), flush=True)
    os._exit(0)


def set_size(rows, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", int(rows), int(columns), 0, 0))


def fail(*text):
    print(*text)
    os.kill(pid, signal.SIGHUP)
    sys.exit(1)


def unescaped(text):
    return text.encode().decode("unicode_escape").encode("latin1")


def take():
    """What is written next; it ends with the terminal."""
    global seen
    try:
        more = os.read(fd, 65536)
    except OSError:
        more = b""
    seen += more
    return more != b""


def see(text):
    global seen
    end = time.monotonic() + PATIENCE
    while text not in seen:
        left = end - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            fail("not seen:", text, "in", seen)
        if not take() and text not in seen:
            fail("ended before", text, "in", seen)
    seen = seen[seen.index(text) + len(text):]


def wait_for(what, is_so):
    end = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > end:
            fail("never", what, "in", seen)
        if select.select([fd], [], [], 0.02)[0] and not take():
            fail("ended before", what, "in", seen)


def is_raw():
    return not termios.tcgetattr(fd)[3] & termios.ICANON


sizes = []


def is_still(path):
    sizes.append(os.path.getsize(path))
    time.sleep(0.3)  # what was on its way when it was stopped
    return sizes[-1] == os.path.getsize(path)


def run(text):
    result = subprocess.run(["sh", "-c", text], env=dict(os.environ, job_pid=job_pid),
                            stdin=subprocess.DEVNULL, capture_output=True)
    if result.returncode:
        fail("status", result.returncode, "of", text, result.stdout, result.stderr)


pid, fd = pty.fork()
if pid == 0:
    be_shell()
set_size(24, 80)
seen = b""
os.write(let_go, b"g")
job_pid = os.read(told, 32).decode().strip()
for step in steps:
    verb, _, rest = step.partition(" ")
    if verb == "see":
        see(unescaped(rest))
    elif verb == "type":
        os.write(fd, unescaped(rest))
    elif verb == "size":
        set_size(*rest.split())
    elif verb == "raw":
        wait_for(verb, is_raw)
    elif verb == "is-raw":
        if not is_raw():
            fail("the terminal is not raw yet")
    elif verb == "cooked":
        wait_for(verb, lambda: not is_raw())
    elif verb == "run":
        run(rest)
    elif verb == "still":
        wait_for(step, lambda: is_still(rest))
    elif verb == "fg":
        os.write(fd, b"fg\n")
    else:
        fail("no such step:", step)
print("ok")
