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
	"the step and its tasks have their limits"
out=$(mine --pids 5 -- sh -c 'for i in 1 2 3 4 5 6 7 8; do sleep 9 & done; wait' 2>&1)
like "$out" "[Cc]annot fork" "a fork too many is refused"
out=$(mine --mem 16M --mem-swap 0 -- dd if=/dev/zero of=/dev/null bs=64M count=1 2>&1)
is $? 137 "what takes too much memory is killed"
like "$out" "ran out of memory" "and the verdict told"
out=$(mine --result "$tmpdir/result" -- true 2>&1)
is $? 125 "a result where the user may not write is refused"
like "$out" "--result: '$tmpdir/result' can't be written" "with the reason"
like "$(mine --usage -- true 2>&1)" "memory" "usage is told"
like "$(mine --device default -- true 2>&1)" "limits.devices: .*run as root" "devices are root's to limit"
nothing_left "nothing is left"
done_testing
