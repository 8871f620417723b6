#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A task that has become its user and waits for its program is the user's process, with what the agent
# had open, and often in the launcher's memory: the user has no way into it. Not under
# fs.suid_dumpable 1 either, where the kernel lets him trace such a process: what is shared then is
# nothing.
# shellcheck disable=SC2317 # eventually calls them
. "${top_srcdir:?}/tests/lib/step.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root, to be others"
[ "$tracker" = cgroup ] || skip_all "needs proctrack/cgroup: other trackers' tasks are always copies"
python=/usr/bin/python3
[ -x $python ] || skip_all "needs $python, which every user has"

owner=65533 stranger=65531 held=7
make_halfway

# What a user tries with a process; a line for each way in.
cat >"$tmpdir/attack.py" <<'P'
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
pid = int(sys.argv[1])
def attempt(what, call):
    try:
        call()
        print(what)
    except OSError:
        pass
def must(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
attempt("mem", lambda: os.close(os.open("/proc/%d/mem" % pid, os.O_RDWR)))
attempt("maps", lambda: open("/proc/%d/maps" % pid).read())
attempt("environ", lambda: open("/proc/%d/environ" % pid).read())
attempt("fd", lambda: os.listdir("/proc/%d/fd" % pid))
attempt("cwd", lambda: os.chdir("/proc/%d/cwd" % pid))
attempt("seize", lambda: must(libc.ptrace(0x4206, pid, None, None)))
P
# How many of the pids share memory with another one, or with the first.
cat >"$tmpdir/sharing.py" <<'P'
import ctypes, platform, sys
libc = ctypes.CDLL(None, use_errno=True)
kcmp = {"x86_64": 312, "aarch64": 272}[platform.machine()]
pids = [int(pid) for pid in sys.argv[1:]]
print(sum(any(libc.syscall(kcmp, a, b, 1, 0, 0) == 0 for b in pids if a != b) for a in pids))
P
chmod 644 "$tmpdir"/*.py

of_owner() { # the held tasks
	for status in /proc/[0-9]*/status; do
		grep -qs "^Name:.stepd$" "$status" && grep -qs "^Uid:.$owner.$owner" "$status" &&
			grep -qzxF "STEPD_TEST_JOB=$job" "${status%status}environ" && echo "$status" | tr -dc '0-9\n'
	done 2>/dev/null
}

stopped() { # the process that makes the tasks: the agent, or its launcher
	for stat in /proc/[0-9]*/stat; do
		grep -qs '^[0-9]* (stepd[a-z-]*) T ' "$stat" && grep -qzxF "STEPD_TEST_JOB=$job" "${stat%stat}environ" &&
			echo "$stat" | tr -dc '0-9\n'
	done 2>/dev/null
}

all_held() {
	[ "$(of_owner | wc -l)" = $held ] && [ "$(stopped | wc -l)" = 1 ]
}

# begin COMMAND...: a step of which some tasks are held, for as long as their maker is stopped.
begin() {
	STEPD_TEST_HALFWAY=stop "$@" timeout 300 "$stepd" run -q --job "$job" --plugin-dir "$tmpdir/plugins" \
		--proctrack halfway --uid $owner --gid $owner --chdir / -n 12 -- true >"$tmpdir/out" 2>&1 &
	step=$!
	ok "$name: tasks of the user are held" eventually all_held
	tasks=$(of_owner)
	maker=$(stopped)
}

go_on() {
	kill -CONT "$maker"
	wait $step
	is $? 0 "$name: the step of held tasks goes on and succeeds"
	is "$(cat "$tmpdir/out")" "" "$name: the step of held tasks reports nothing"
}

ways_in() {
	for who in $owner $stranger; do
		for task in $tasks; do
			setpriv --reuid $who --regid $who --clear-groups $python "$tmpdir/attack.py" "$task"
		done
	done | sort | uniq -c
}

name="as this machine is"
begin env
is "$(ways_in)" "" "$name: no user has access to a held task"
go_on

name="where users may trace what became theirs"
echo 1 >"$tmpdir/exposed"
# shellcheck disable=SC2016 # of the inner shell
begin unshare -m sh -c 'mount --bind "$0" /proc/sys/fs/suid_dumpable && exec "$@"' "$tmpdir/exposed"
# shellcheck disable=SC2086 # a pid a word
is "$($python "$tmpdir/sharing.py" $maker $tasks)" 0 "$name: no held task shares memory with another process"
is "$(ways_in)" "" "$name: no user has access to a held task"
go_on
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
