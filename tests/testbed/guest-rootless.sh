#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# An ordinary user in a delegated unit: limits need no root.
. "${top_srcdir:?}/tests/lib/step.sh"

chown nobody "$run"

# A step of nobody's, whose agent is the unit's main process: it goes into a leaf by itself.
mine() {
	systemd-run -q --pipe --wait --uid nobody -p Delegate=yes -p RuntimeMaxSec=60 \
		-E STEPD_RUNTIME_DIR="$run" "$stepd" run -q --job "$job" --proctrack cgroup "$@"
}
# shellcheck disable=SC2016 # for the task
own='own=/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)'

out=$(mine -n 2 --mem 64M --pids 30 --cpus 0.5 --cpuset 0 --task-mem 32M -- \
	sh -c "$own; cat \$own/../memory.max \$own/../pids.max \$own/../cpu.max \$own/../cpuset.cpus \$own/memory.max; id -un")
is "$(printf '%s\n' "$out" | sort -u)" "$(printf '%s\n' 0 30 33554432 '50000 100000' 67108864 nobody)" \
	"a user's step and its tasks have their limits"
out=$(mine --pids 5 -- sh -c 'for i in 1 2 3 4 5 6 7 8; do sleep 9 & done; wait' 2>&1)
like "$out" "[Cc]annot fork" "a fork beyond the limit of a user's step is refused"
out=$(mine --mem 16M --mem-swap 0 -- dd if=/dev/zero of=/dev/null bs=64M count=1 2>&1)
is $? 137 "a process above the memory limit of a user's step is killed"
like "$out" "ran out of memory" "a user's task that ran out of memory is reported"
out=$(mine --result "$tmpdir/result" -- true 2>&1)
is $? 125 "a result where the user may not write is refused"
like "$out" "--result: '$tmpdir/result' can't be written" "the refusal of a result has the reason"
like "$(mine --usage -- true 2>&1)" "memory" "a user's step reports its usage"
like "$(mine --device default -- true 2>&1)" "limits.devices: .*run as root" "a device limit of a user's step is refused"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
