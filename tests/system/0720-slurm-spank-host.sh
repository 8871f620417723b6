#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The library of step hooks that hosts SPANK plugins, without a Slurm; beside a Slurm's slurmstepd it is in
# 0723-slurm-spank.sh.
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root: only its agents have step hooks"
command -v python3 >/dev/null || skip_all "needs python3"
command -v "${CC:-cc}" >/dev/null || skip_all "needs a compiler"
built=$(cd "$top_builddir" && pwd)/contrib/slurm/.libs/step_hooks_spank.so
[ -e "$built" ] || skip_all "it is not built"
library=$tmpdir/library.so
mkdir "$tmpdir/traces"
mkdir -m 777 "$tmpdir/streams"
cp "$built" "$library"
for name in traced second; do
	"${CC:-cc}" -DNAME="\"$name\"" -shared -fPIC -I"$top_srcdir/tests/lib" -o "$tmpdir/$name.so" \
		"$top_srcdir/tests/lib/spank_traced.c" || bail "can't compile a plugin"
done
"${CC:-cc}" -DNAME='"other"' -DSPANK_VERSION=0x180b00 -shared -fPIC -I"$top_srcdir/tests/lib" -o "$tmpdir/other.so" \
	"$top_srcdir/tests/lib/spank_traced.c" || bail "can't compile a plugin"

hosted() { # NAME PLUGIN... of which each is a path, "required" or not: true or false, VARIABLE
	cat >"$tmpdir/spec" <<S
{"job": $job, "ntasks": 2, "argv": ["sh", "-c", "env | grep ^TRACED_task | sort"], "cwd": "/", "proctrack": "$tracker",
 "uid": 65534, "gid": 65534, "groups": [], "stdout": {"mode": "file", "path": "$tmpdir/streams/out.%t"}, "stderr": {"mode": "file", "path": "$tmpdir/streams/errors.%t"},
 "env": {"PATH": "/usr/bin:/bin", "STEPD_TEST_JOB": "$job", "TRACED_NAME": "$1", "TRACED_GIVEN": "given",
  "_SLURM_SPANK_OPTION_second_second_value": "by environment", $3 "TRACED_SAYS": "init,user_init,task_init,exit,"}}
S
	cat >"$tmpdir/facts" <<S
{"node": "n1", "plugins": [$2], "options": [["traced-value:traced", "given by srun"], ["other:missing", null]],
 "argv": ["one", "two words"], "groups": [7, 8], "job_cores": "0-3", "step_cores": "1", "version": "22.05.8",
 "version_major": "22", "version_minor": "05", "version_micro": "8", "script": false, "nnodes": 1, "ntasks": 2, "cpus": 4,
 "cpus_per_task": 2, "restarts": 3, "debug": 0, "array_job": 5, "array_task": 6, "job_memory_mb": 70, "step_memory_mb": 60}
S
	rm -f "$tmpdir"/streams/*
	timeout 120 python3 "$top_srcdir/tests/lib/spank_host.py" "$stepd" "$library" "$tmpdir/spec" "$tmpdir/facts" >"$tmpdir/messages" 2>"$tmpdir/err"
}
plugin() { # NAME REQUIRED
	printf '{"path": "%s", "where": "plugstack.conf:1", "required": %s, "args": ["%s"]}' "$tmpdir/$1.so" "$2" "$tmpdir/traces"
}
order() {
	grep -E ' own=1|^option' "$tmpdir/traces/$1" | sed 's/ .*//' | tr '\n' ' '
}

hosted plain "$(plugin traced true), $(plugin second false), $(plugin missing false), $(plugin other false)" ''
like "$(cat "$tmpdir/messages")" "status 0$" "a step with plugins ends as its tasks do"
is "$(order plain.traced)" "init option init_post_opt user_init task_post_fork task_post_fork task_exit task_exit exit " \
	"a plugin's functions are called in the order of slurmstepd"
is "$(cat "$tmpdir/streams/out.0")" "TRACED_task_init=set
TRACED_task_init_privileged=set" "a task has the variables that plugins have set"
like "$(cat "$tmpdir/traces/plain.traced")" "^option val=7 arg=given by srun remote=1$" "an option of srun's reaches its plugin"
like "$(cat "$tmpdir/traces/plain.second")" "^option val=7 arg=by environment remote=1$" "an option of the environment reaches its plugin"
is "$(grep -c '_SLURM_SPANK_OPTION_traced_traced_value=3004' "$tmpdir/traces/plain.second")" "$(grep -c ' env ' "$tmpdir/traces/plain.second")" \
	"options are not in the tasks' environment"
like "$(cat "$tmpdir/traces/plain.traced")" "^task_init items .* ncpus=0:4 .* cpt=0:2 jmem=0:70 smem=0:60 restarts=0:3 atask=0:6 .* text0=22.05.8 text1=22 text2=05 text3=8 text4=0-3 text5=1 argv0=one argv1=two words gid0=7 gid1=8$" \
	"plugins get what Slurm has of the step"
is "$(grep -c '^S.*traced' "$tmpdir/messages") $(grep '^S' "$tmpdir/messages" | head -n 2 | tr '\n' '|')" \
	"2 S2slurmstepd-n1: error: traced error of user_init|S2traced line of user_init|" "users get messages once there are streams, errors alone"
is "$(cat "$tmpdir/streams/errors.1")" "slurmstepd-n1: error: traced error of task_init
traced line of task_init
slurmstepd-n1: error: second error of task_init
second line of task_init" "a task's own messages are on its standard error"
like "$(cat "$tmpdir/messages")" "^L2Warning: SPANK plugin \"missing\" option \"other\" not found$" "an option whose plugin is not there is reported"
like "$(cat "$tmpdir/messages")" "^L2spank: $tmpdir/missing.so: " "an optional plugin that can't be loaded is reported"
is "$(ls "$tmpdir/traces") $(grep -c "^L2spank: $tmpdir/other.so was not made for Slurm 22.05$" "$tmpdir/messages")" "plain.second
plain.traced 1" "a plugin for another release of Slurm is reported, and none of its functions is called"

hosted init "$(plugin traced true)" '"traced_FAIL": "init:-1",'
like "$(cat "$tmpdir/messages")" "^F01011$" "a step that a required plugin fails has Slurm's error"
like "$(cat "$tmpdir/messages")" "status 125$" "such a step does not begin"
hosted task "$(plugin traced true)" '"traced_FAIL": "task_init:-1",'
like "$(cat "$tmpdir/messages")" "status 1$" "a task that a required plugin fails has the status 1"
hosted optional "$(plugin traced false)" '"traced_FAIL": "task_init:-1",'
like "$(cat "$tmpdir/messages")" "status 0$" "an optional plugin fails no task"
nothing_left "steps with plugins leave nothing"
done_testing
