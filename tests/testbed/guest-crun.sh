#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A container runtime as a task: it makes groups below the task's own, with controllers and limits
# of its own, and what it leaves behind goes with the step.
. "${top_srcdir:?}/tests/lib/step.sh"

command -v crun >/dev/null || skip_all "crun is not installed"

bundle=$tmpdir/bundle
mkdir -p "$bundle/rootfs/dev" "$bundle/rootfs/proc" "$bundle/rootfs/usr"
for link in bin lib lib64; do
	ln -s usr/$link "$bundle/rootfs/$link"
done

# The group of a runtime must hold no processes where it hands controllers down: so it goes into one
# of its own, as every runtime in a delegated group has to.
cat >"$tmpdir/runtime" <<'E'
group=$(sed -n s/^0:://p /proc/self/cgroup)
mkdir "/sys/fs/cgroup$group/runtime"
echo $$ >"/sys/fs/cgroup$group/runtime/cgroup.procs"
cat >"$1/config.json" <<END
{
	"ociVersion": "1.0.0",
	"process": {
		"user": {"uid": 0, "gid": 0},
		"args": ["/bin/sh", "-c", "$3"],
		"env": ["PATH=/usr/bin:/bin"],
		"cwd": "/"
	},
	"root": {"path": "rootfs"},
	"mounts": [
		{"destination": "/proc", "type": "proc", "source": "proc"},
		{"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]}
	],
	"linux": {
		"cgroupsPath": "$group/container",
		"namespaces": [{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}],
		"resources": {"memory": {"limit": 67108864}, "pids": {"limit": 32}}
	}
}
END
exec crun --root "$1/state" run --bundle "$1" "$2"
E

out=$(step -n 1 -- sh "$tmpdir/runtime" "$bundle" one-$$ 'cat /proc/self/cgroup; exit 7' 2>&1)
is $? 7 "a container's exit status is the task's"
like "$out" "^0::.*/stepd/job_$job/step_0/task_0/container" "the container ran below the task's cgroup"
nothing_left "a container's step leaves no cgroup, process or file behind"

"$stepd" run --job "$job" --proctrack "$tracker" -n 1 -- \
	sh "$tmpdir/runtime" "$bundle" two-$$ 'sleep 98 & sleep 99' >"$tmpdir/out" 2>&1 &
agent=$!
eventually sh -c "[ \"\$('$stepctl' pids '$job.0' | wc -l)\" -ge 4 ]"
diag "$(cat "$tmpdir/out")"
group=$(find /sys/fs/cgroup -path "*/stepd/job_$job/step_0/task_0")
like "$(cat "$group/cgroup.subtree_control")" "memory.* pids" "the runtime enabled its controllers"
is "$(cat "$group/container/memory.max" "$group/container/pids.max")" "67108864
32" "the runtime set the container's limits"
kill -TERM $agent
wait $agent
is $? 143 "a container's step ends by SIGTERM to its agent"
nothing_left "a cancelled container leaves no cgroup, process or file behind"
done_testing
