#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016,SC2317 # texts are the tasks' scripts; functions are called by others
#
# Limits as users meet them, on any machine: what can't be had, best effort, devices, set-limits.
# What needs controllers is in tests/testbed/guest-limits.sh.
. "${top_srcdir:?}/tests/lib/step.sh"

# refused NAME REGEX ARG...: one sentence, nothing was started, nothing is left.
refused() {
	name=$1 regex=$2
	shift 2
	out=$(step "$@" -- touch "$tmpdir/started" 2>&1)
	is $? 125 "$name: the step fails with the agent's own status"
	like "$out" "$regex" "$name: the refusal of a limit names it"
	is "$(printf '%s\n' "$out" | wc -l)" 1 "$name: the refusal is one sentence"
	ok "$name: a refused limit starts no task" test ! -e "$tmpdir/started"
	nothing_left "$name: the job leaves no cgroup, process or file behind"
}

# ---- trackers that limit nothing ---------------------------------------------------------------

for tracker_without in pgid linuxproc; do
	refused "$tracker_without" \
		"error: limits.pids_max: proctrack/$tracker_without can't limit .*use proctrack/cgroup" \
		--proctrack $tracker_without --pids 9
	refused "$tracker_without, of a task" \
		"error: task_limits.memory_max_bytes: proctrack/$tracker_without can't limit" \
		--proctrack $tracker_without --task-mem 1G
	out=$(step --proctrack $tracker_without -n 3 --limits=best-effort --pids 9 --task-mem 1G \
		--task-cpus 1 -- echo ran 2>&1)
	is $? 0 "$tracker_without: a step with best effort runs"
	is "$(printf '%s\n' "$out" | grep -c '^ran')" 3 "$tracker_without: all tasks of a step with best effort run"
	is "$(printf '%s\n' "$out" | sed -n 's/.*warning: \([a-z_.]*\): .*, ignoring/\1/p' | tr '\n' ' ')" \
		"limits.pids_max task_limits.memory_max_bytes task_limits.cpu_max " \
		"$tracker_without: best effort warns once for each limit, not for each task"
	nothing_left "$tracker_without: the job leaves no cgroup, process or file behind"
done
out=$(step --proctrack pgid -q --limits=best-effort --pids 9 -- echo ran 2>&1)
is "$out" ran "-q suppresses the warnings of best effort"

# What is wrong by itself is an error with best effort, too.
refused "a wrong value" "^stepd run: --pids: 0 is not in the range" --limits=best-effort --pids 0

printf '{"argv": ["/bin/true"], "proctrack": "pgid", "job": %s, "limits": {"cpu_max": 1.5}}\n' \
	"$job" >"$tmpdir/spec"
out=$("$stepd" serve --spec "$tmpdir/spec" --result "$tmpdir/result" 2>&1)
is $? 125 "stepd serve refuses a spec whose limits can't be set"
like "$out" "limits.cpu_max: proctrack/pgid" "stepd serve names the limit that can't be set"
json_like "$tmpdir/result" error 'limits.cpu_max: proctrack/pgid' "the result names the limit that can't be set"

# ---- set-limits: what it can't do --------------------------------------------------------------

# answers STATUS REGEX NAME ARG...
answers() {
	wanted=$1 regex=$2 name=$3
	shift 3
	out=$("$stepctl" set-limits "$@" 2>&1)
	is $? "$wanted" "set-limits with $name exits with $wanted"
	like "$out" "$regex" "set-limits with $name reports why"
}

answers 2 "give it one STEP, such as 7.0" "no step"
answers 2 "give it one STEP" "two steps" 7.0 7.1 --pids 3
answers 2 "no limit given, such as --mem 4G" "no limit" 7.0
answers 2 "no limit given" "only a task" 7.0 --task 0
answers 2 "^stepctl set-limits: --pids: 0 is not in the range" "a wrong value" 7.0 --pids 0
answers 2 "^stepctl set-limits: --mem: '2X' is neither" "a wrong size" 7.0 --mem 2X
answers 2 "--task: 'x' is not a rank" "a wrong rank" 7.0 --task x --pids 3
answers 2 "there is no option --ntasks" "an option of run" 7.0 --ntasks 3
answers 2 "'maybe' is not one of strict, best-effort" "a wrong mode" 7.0 --limits maybe --pids 3
answers 1 "there is no step '$job.7' on this node" "no such step" \
	"$job.7" --pids 3
answers 0 "Usage: stepctl set-limits .*STEP" "help" --help

"$stepd" run --job "$job" --proctrack pgid --step 1 -- sleep 60 &
agent=$!
ok "a step of pgid runs" eventually running 1
answers 7 "limits.pids_max: proctrack/pgid can't limit" "a tracker that can't" "$job.1" --pids 3
answers 0 "limits.pids_max: proctrack/pgid can't limit.*, ignoring" "best effort" \
	"$job.1" --pids 3 --limits=best-effort
answers 1 "NoSuchTask: the step has no task of rank 1 on this node" "no such task" --task=1 --pids 3 "$job.1"
kill -TERM $agent
wait $agent
nothing_left "a step of pgid leaves no cgroup, process or file behind"

if [ "$tracker" != cgroup ]; then
	skip 1 "cgroup can't be used"
	done_testing
fi

# ---- controllers -------------------------------------------------------------------------------

# The root of this machine's steps, as a step of it sees it.
"$stepd" run --job "$job" --proctrack cgroup --step 2 -- sleep 60 &
agent=$!
ok "a step of cgroup runs" eventually running 2
root=$(dirname "$(find /sys/fs/cgroup -type d -name "job_$job" | head -n 1)")
controllers=$(cat "$root/cgroup.controllers") # now: a scope goes with its step
kill -TERM $agent
wait $agent
if echo "$controllers" | grep -qw memory; then
	skip 1 "the memory controller is here"
else
	refused "no controller" "error: limits.memory_max_bytes: .*memory" --mem 1G
	refused "no controller for a task" "error: task_limits.memory_high_bytes: .*memory" --task-mem-high 1G
	out=$(step --limits=best-effort --mem 1G --device default -- \
		sh -c 'echo ran; true </dev/null && echo null' 2>&1)
	is $? 0 "a step with best effort runs without the memory controller"
	like "$out" "warning: limits.memory_max_bytes: .*memory.*, ignoring" \
		"best effort warns of the missing memory controller"
	like "$out" "^null$" "best effort applies the limits that it can"
	nothing_left "a step without the memory controller leaves no cgroup, process or file behind"
fi

# ---- devices -----------------------------------------------------------------------------------

if [ "$(id -u)" != 0 ] || ! step -q --device default -- true 2>/dev/null; then
	skip 1 "device programs can't be loaded here"
	done_testing
fi
refused "no such device" "limits.devices: look up the device '/dev/nosuch'" --device /dev/nosuch
refused "a way out of /dev" "limits.devices: '/dev/../etc/passwd' leads out of /dev" \
	--device /dev/../etc/passwd
refused "no device" "limits.devices: '/dev/pts/' is not a device" --task-device /dev/pts/

# /dev/kmsg, with a node of our own, which no container hides.
if ! mknod -m 666 "$tmpdir/kmsg" c 1 11 || ! true <"$tmpdir/kmsg"; then
	skip 1 "no device node can be made or opened here"
	done_testing
fi 2>/dev/null
cat >"$tmpdir/try" <<'T'
for device in "$@"; do
	if { true <"$device"; } 2>/dev/null; then echo "${device##*/}: read"; fi
	if { true >>"$device"; } 2>/dev/null; then echo "${device##*/}: written"; fi
done
T
is "$(step -- sh "$tmpdir/try" "$tmpdir/kmsg")" "kmsg: read
kmsg: written" "a task without a device limit opens any device"
is "$(step --device default -- sh "$tmpdir/try" "$tmpdir/kmsg")" "" "a task with default devices opens no other"
like "$(step --device default -- cat "$tmpdir/kmsg" 2>&1)" "Operation not permitted" \
	"a device outside the limit is refused with EPERM"
is "$(step --device 'c 1:11:r' -- sh "$tmpdir/try" "$tmpdir/kmsg")" "kmsg: read" \
	"a device allowed by number to be read is read alone"
is "$(step --device 'c 1:*:w' -- sh "$tmpdir/try" "$tmpdir/kmsg")" "kmsg: written" \
	"a device allowed by its major to be written is written alone"
is "$(step --device max -- sh "$tmpdir/try" "$tmpdir/kmsg")" "kmsg: read
kmsg: written" "--device max allows all devices"
fails "a task with default devices can't make another device" step --device default -- mknod "$tmpdir/disk" b 7 0
is "$(step --device 'c 1:11' --task-device default -- sh "$tmpdir/try" "$tmpdir/kmsg")" "" \
	"a device that the task may not open is refused, whatever the step may"
is "$(step --device default --task-device 'c 1:11' -- sh "$tmpdir/try" "$tmpdir/kmsg")" "" \
	"a device that the step may not open is refused, whatever the task may"
is "$(step --task-device 'c 1:11' -n 2 -- sh "$tmpdir/try" "$tmpdir/kmsg" | sort | uniq -c | tr -s ' ')" \
	" 2 kmsg: read
 2 kmsg: written" "each task opens the devices of --task-device"
cat >"$tmpdir/spec" <<T
{"argv": ["sh", "$tmpdir/try", "$tmpdir/kmsg"], "ntasks": 2, "tasks": [
	{"rank": 0, "limits": {"devices": [{"device": "c 1:11", "access": "r"}]}},
	{"rank": 1, "limits": {"devices": [{"device": "c 1:11", "access": "w"}]}}]}
T
is "$(step --label --spec "$tmpdir/spec" | sort)" "0: kmsg: read
1: kmsg: written" "each task opens the devices of its own entry in the document"
if [ -c /dev/fuse ]; then
	like "$(step --device /dev/fuse:r -- sh -c 'true </dev/fuse && echo opened' 2>&1)" "^opened$" \
		"a device allowed by its path is opened"
else
	skip 1 "there is no /dev/fuse"
fi
is "$(step --limits=best-effort --device /dev/nosuch --device 'c 1:11:r' -- sh "$tmpdir/try" "$tmpdir/kmsg" 2>/dev/null)" \
	"kmsg: read" "best effort skips a missing device and allows the others"

# The default devices are enough for programs as they are.
out=$(step --device default -- sh "$tmpdir/try" /dev/null /dev/zero /dev/full /dev/random /dev/urandom | grep -c read)
is "$out" 5 "the default devices can be read"
cat >"$tmpdir/script" <<'T'
#!/bin/sh
set -e
list=$(ls / | sort | head -n 3 2>/dev/null)
head -c 4096 /dev/zero | tr '\0' x | wc -c
[ -n "$list" ]
if echo x >/dev/full; then exit 1; fi 2>/dev/null
cat <<X | tee /dev/null
$(head -c 16 /dev/urandom | wc -c)
X
T
is "$(step --device default -- sh "$tmpdir/script")" "4096
16" "a shell script runs with the default devices"
python=$(command -v /usr/bin/python3 python3 2>/dev/null | head -n 1)
if [ -n "$python" ]; then
	cat >"$tmpdir/terminals.py" <<'T'
import multiprocessing, os, pty, random, secrets, subprocess, sys, tempfile
main, peer = pty.openpty()
os.write(peer, b"through a pty\n")
print(os.read(main, 100).decode().split("\r")[0])
secrets.token_bytes(8)
subprocess.run(["true"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
tempfile.TemporaryFile().write(b"x")
multiprocessing.Lock().acquire()
pid, fd = pty.fork()
if pid == 0:
    open("/dev/tty", "w").write("through a tty\n")
    os._exit(0)
print(os.read(fd, 100).decode().split("\r")[0])
T
	is "$(step --device default -- "$python" "$tmpdir/terminals.py" 2>&1)" "through a pty
through a tty" "Python has pseudo-terminals and locks with the default devices"
else
	skip 1 "there is no Python"
fi

cat >"$tmpdir/hello.c" <<'T'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	int rank;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	printf("hello from %d\n", rank);
	MPI_Finalize();
	return 0;
}
T
for mpi in mpich openmpi; do
	if ! mpicc.$mpi -o "$tmpdir/hello" "$tmpdir/hello.c" 2>/dev/null; then
		skip 1 "there is no mpicc.$mpi"
		continue
	fi
	# Alone, and knowing of no step: none serves its MPI here. hwloc would try the X servers of the machine.
	is "$(step --device default -- env -i PATH="$PATH" HOME="$tmpdir" HWLOC_COMPONENTS=-gl OMPI_ALLOW_RUN_AS_ROOT=1 \
		OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$tmpdir/hello" 2>&1)" "hello from 0" "a program of $mpi runs with the default devices"
done

# ---- changed while it runs ---------------------------------------------------------------------

mkfifo "$tmpdir/go" "$tmpdir/replies"
cat >"$tmpdir/opener" <<'T'
while read -r request; do
	echo "$request $({ true <"$1"; } 2>/dev/null && echo opened || echo refused)"
done <"$2" >"$3"
T
"$stepd" run --job "$job" --proctrack cgroup --step 3 --device default -- sh "$tmpdir/opener" "$tmpdir/kmsg" "$tmpdir/go" "$tmpdir/replies" &
agent=$!
exec 7>"$tmpdir/go" 8<"$tmpdir/replies"
try_device() {
	echo "$1" >&7
	read -r reply <&8
}
ok "a step with limited devices runs" eventually running 3
try_device first
is "$reply" "first refused" "the device is refused before set-limits"
ok "set-limits allows a device" "$stepctl" set-limits "$job.3" --device 'c 1:11:r'
try_device second
is "$reply" "second opened" "the device is opened after set-limits"
ok "set-limits sets the devices of a task" "$stepctl" set-limits --task 0 --device default "$job.3"
try_device third
is "$reply" "third refused" "the device is refused after set-limits for the task"
ok "set-limits --device max removes the task's limit" "$stepctl" set-limits --task 0 --device max "$job.3"
try_device fourth
is "$reply" "fourth opened" "the device is opened after the task's limit was removed"
if id nobody >/dev/null 2>&1 && command -v setpriv >/dev/null 2>&1; then
	out=$(cd / && setpriv --reuid=nobody --clear-groups \
		"$stepctl" set-limits --runtime-dir "$run" "$job.3" --device default 2>&1)
	status=$?
	case $out in
	*'Permission denied'*"$stepd"*|*'not found'*) skip 2 "nobody can't execute the program" ;;
	*)
		is $status 3 "set-limits of another user is refused"
		like "$out" "set-limits: step .*$job\.3: SetLimits: PermissionDenied: " \
			"the refusal of another user's set-limits has the reason"
		;;
	esac
	try_device fifth
	is "$reply" "fifth opened" "the refused set-limits of another user changes nothing"
else
	skip 3 "there is no user nobody"
fi
exec 7>&- 8<&- # the task's input ends
wait $agent
"$stepd" run -q --job "$job" --proctrack cgroup --step 4 -n 2 -- \
	sh -c '[ "$SLURM_PROCID" = 1 ] || exec sleep 60' &
agent=$!
ok "a step runs of which one task ends" eventually running 4
has_ended() {
	"$stepctl" set-limits "$job.4" --task 1 --device default 2>&1 | grep -q "NoSuchTask"
}
ok "set-limits for an ended task fails" eventually has_ended
ok "set-limits for the other task succeeds" "$stepctl" set-limits "$job.4" --task 0 --device default
kill -TERM $agent
wait $agent
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
