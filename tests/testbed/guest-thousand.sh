#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A thousand steps with limits, one after the other: no cgroup is left, dead or alive.
. "${top_srcdir:?}/tests/lib/step.sh"

groups() {
	find /sys/fs/cgroup -type d | wc -l
}
STEPD_CGROUP_ROOT=/sys/fs/cgroup
export STEPD_CGROUP_ROOT
ok "the first step runs" "$stepd" run -q --job "$job" --mem 64M --pids 20 -- true
before=$(groups)
i=0 failed=0
while [ $i -lt 1000 ]; do
	"$stepd" run -q --job "$job" --step $i --mem 64M --pids 20 -- true || failed=$((failed + 1))
	i=$((i + 1))
done
is $failed 0 "a thousand steps run"
is "$(groups)" "$before" "a thousand steps leave no cgroup behind"
nothing_left "a thousand steps leave no process or file behind"
done_testing
