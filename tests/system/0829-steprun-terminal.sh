#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# steprun as the job of a shell on a terminal: typed input reaches rank 0, ^C reports and then ends,
# ^Z stops the step with it, and it goes on in the foreground.
# shellcheck source=tests/lib/steprun.sh
. "${top_srcdir:?}/tests/lib/steprun.sh"

command -v python3 >/dev/null || skip_all "needs python3"

# talk STEPS... -- COMMAND...: on a terminal of its own, with a shell's job control. Steps are
# "see TEXT" (waits for it), "type TEXT", "stopped", "still FILE" (which does not grow), "fg".
cat >"$tmpdir/talk.py" <<'P'
import os, pty, re, select, signal, sys, time, termios
at = sys.argv.index("--")
steps, command = sys.argv[1:at], sys.argv[at + 1:]
pid, fd = pty.fork()
if pid == 0:
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execv(command[0], command)
    while True:
        _, status = os.waitpid(job, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            os.tcsetpgrp(0, os.getpid())
            print("shell: stopped", flush=True)
            attributes = termios.tcgetattr(0)
            os.read(0, 100)  # a line is fg
            os.tcsetpgrp(0, job)
            os.killpg(job, signal.SIGCONT)
            continue
        print("shell: status", os.waitstatus_to_exitcode(status), flush=True)
        os._exit(0)
seen = b""
def see(text, seconds=300):
    global seen
    end = time.monotonic() + seconds
    while text not in seen:
        left = end - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            print("not seen:", text, "in", seen)
            os.kill(pid, signal.SIGHUP)
            sys.exit(1)
        try:
            seen += os.read(fd, 65536)
        except OSError:
            seen += b"<end>"
            if text not in seen:
                print("ended before", text, "in", seen)
                sys.exit(1)
    seen = seen[seen.index(text) + len(text):]
for step in steps:
    verb, _, rest = step.partition(" ")
    if verb == "see":
        see(rest.encode())
    elif verb == "type":
        os.write(fd, rest.encode().decode("unicode_escape").encode("latin1"))
    elif verb == "fg":
        os.write(fd, b"fg\n")
    elif verb == "still":
        size = -1
        for _ in range(200):  # what was on its way when it was stopped
            before, size = size, os.path.getsize(rest)
            time.sleep(0.3)
            if before == size:
                break
        else:
            print("it still writes")
            sys.exit(1)
print("ok")
P
talk() {
	timeout -k 5 900 python3 "$tmpdir/talk.py" "$@"
}
for n in 1 2; do
	program="$steprun --job $job --proctrack $tracker -N $n -n $n --"
	# shellcheck disable=SC2086 # words
	is "$(talk 'see up' 'type hello\n' 'see got hello' 'type \x04' 'see shell: status 0' -- $program \
		sh -c '[ $SLURM_PROCID = 0 ] || exit 0; echo up; read x; echo "got $x"; cat')" ok \
		"$n: typed input reaches rank 0, and ^D ends it"
	# shellcheck disable=SC2086
	is "$(talk 'see up' 'type \x03' 'see running: tasks 0' 'see interrupt again' 'type \x03' 'see shell: status 130' -- \
		$program sh -c '[ $SLURM_PROCID != 0 ] || echo up; exec sleep 300')" ok "$n: the first ^C reports, the second ends the step"
	# shellcheck disable=SC2086
	is "$(talk 'see up' 'type \x1c' 'see shell: status 131' -- \
		$program sh -c '[ $SLURM_PROCID != 0 ] || echo up; exec sleep 300')" ok "$n: ^\\ ends the step"
	rm -f "$tmpdir/go"
	# shellcheck disable=SC2086
	is "$(talk 'see up' 'type \x1a' 'see shell: stopped' "still $tmpdir/beats" fg 'type more\n' 'see got more' 'see shell: status 0' -- \
		$program sh -c '[ $SLURM_PROCID = 0 ] || exit 0; (while :; do echo x; sleep 0.05; done >"$0") & b=$!
			sleep 0.1; echo up; read x; echo "got $x"; kill $b' "$tmpdir/beats")" ok "$n: ^Z stops the step, fg resumes it"
done
nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
