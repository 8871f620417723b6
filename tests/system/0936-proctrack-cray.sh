#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# proctrack/cray_aries: steps in job containers of the vendor's library, of which tests/lib/libjob.c
# stands in; and what is reported where the library, or a part of it, is missing.
# shellcheck disable=SC2154 # of step.sh
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

tracker=cray_aries
standin=$top_builddir/tests/lib/libjob
mount=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/self/mounts)
STEPD_TEST_LIBJOB=$mount/job_$job
export STEPD_TEST_LIBJOB

# With the stand-in that lies in that directory.
with() { # DIRECTORY COMMAND...
	(
		LD_LIBRARY_PATH=$1
		export LD_LIBRARY_PATH
		shift
		"$@"
	)
}

row() {
	"$stepd" plugins | grep '^proctrack/cray_aries '
}

no_step() { # REGEX NAME
	like "$(cat "$tmpdir/err")" "$1" "$2"
	nothing_left "$2, and leaves nothing"
}

# ---- without the library, or with a part of it ------------------------------------------------

if "$stepd" plugins | grep -q '^proctrack/cray_aries .*libjob.so.0 can.t be loaded'; then
	like "$(row)" ' no +.*libjob\.so\.0 can.t be loaded \(install .* or use another tracker\)' \
		"stepd plugins names the library that is missing, and the remedy"
	step -- true 2>"$tmpdir/err"
	is $? 125 "a step is not started where the library is missing"
	no_step "create the step's container with proctrack/cray_aries .'stepd plugins' .*shared library" \
		"a step without the library is refused with the reason"
else
	skip 4 "this machine has a job library"
fi
like "$(with "$standin/old" row)" ' no +.*libjob\.so\.0 lacks the function job_attachpid\(\)' \
	"stepd plugins names the function that the library lacks"
with "$standin/old" step -- true 2>"$tmpdir/err"
is $? 125 "a step is not started with a library that lacks a function"
no_step "container with proctrack/cray_aries" "a step with half a library is refused"

export STEPD_TEST_LIBJOB_FAIL=service
like "$(with "$standin" row)" ' no +.*does not answer: No such file.* \(load the kernel.s job module' \
	"stepd plugins reports a job service that does not run, and the remedy"
export STEPD_TEST_LIBJOB_FAIL=
if ! with "$standin" row | grep -q ' yes '; then
	skip_rest=$(with "$standin" row)
	skip 20 "no cgroup that the stand-in can use: $skip_rest"
	done_testing
fi
STEPD_TEST_LIBJOB_FAIL=create with "$standin" step -- true 2>"$tmpdir/err"
is $? 125 "a step is not started where job_create() fails"
no_step "container with proctrack/cray_aries.*: Operation not permitted" \
	"a step whose job can't be created is refused with the reason"

# ---- steps ---------------------------------------------------------------------------------------

LD_LIBRARY_PATH=$standin
export LD_LIBRARY_PATH
like "$(row)" ' yes +a job container .*daemons too' "stepd plugins reports what the tracker can do"
# shellcheck disable=SC2016 # the tasks expand it
is "$(step -q -n 3 -- sh -c 'echo $SLURM_PROCID; exit 3' | sort | tr '\n' ' ')" "0 1 2 " \
	"tasks of a step in a job container run"
step -q -- sh -c 'exit 7'
is $? 7 "the exit status of a step in a job container is its task's"
nothing_left "a step in a job container leaves nothing"

mkdir "$tmpdir/plugins"
cp -L "$top_builddir"/stepd/cli/plugins/proctrack_cray_aries.so \
	"$top_builddir"/stepd/cli/plugins/proctrack_linuxproc.so \
	"$top_builddir"/stepd/cli/plugins/mpi_none.so "$tmpdir/plugins"
like "$("$stepd" run --job "$job" --plugin-dir "$tmpdir/plugins" -- true 2>&1)" \
	'tracked by proctrack/linuxproc' "auto does not take the tracker though it can be used"

# A daemon of two sessions, and one that is called as the container's holder is.
cp "$(command -v sleep)" "$tmpdir/stepd-jobholder"
cat >"$tmpdir/daemons" <<-END
	setsid sh -c 'setsid sleep 1001 & sleep 1002 & "\$0" 1003 & wait' "\$2" &
	\$1
END
daemons() {
	processes | while read -r pid; do
		tr '\0' ' ' <"/proc/$pid/cmdline" | grep -E '(sleep|stepd-jobholder) 100[123] $'
	done 2>/dev/null | sort | tr '\n' ' '
}
# The pid of "sleep SECONDS" in this step: another suite may run on the machine.
daemon() {
	processes | while read -r pid; do
		if [ "$(tr '\0' ' ' <"/proc/$pid/cmdline")" = "sleep $1 " ]; then echo "$pid"; fi
	done 2>/dev/null
}
# shellcheck disable=SC2317 # eventually calls it
all_daemons() {
	[ "$(daemons | wc -w)" = 6 ]
}
members() {
	"$stepctl" pids "$job.0" | wc -l
}

step -q --step 0 -- sh "$tmpdir/daemons" "sleep 600" "$tmpdir/stepd-jobholder" 2>"$tmpdir/err" &
runner=$!
eventually all_daemons
agent=$(state_of 0 agent_pid)
is "$(state_of 0 proctrack)" proctrack/cray_aries "the step's record names the tracker"
is "$(members)" 6 "daemons are members, also one that is called as the holder is"
holder=$(pgrep -P "$agent" -x stepd-jobholder)
unlike " $("$stepctl" pids "$job.0" | tr '\n' ' ')" " $holder " "the holder is not a member"
is "$("$stepctl" find "$(daemon 1001)" 2>&1 | grep -c "$job.0")" 1 \
	"stepctl find knows the step of a daemon"
ok "a step in a job container is suspended" "$stepctl" suspend "$job.0"
is "$(process_state "$(daemon 1002)")" T "a daemon of a suspended step stands"
ok "a step in a job container is resumed" "$stepctl" resume "$job.0"
ok "the agent executes a new program" "$stepctl" reexec "$job.0"
is "$(members)" 6 "an agent that has executed a new program has the same members"
is "$(pgrep -P "$agent" -x stepd-jobholder)" "$holder" \
	"an agent that has executed a new program has the same holder"
ok "stepctl terminate ends the step" "$stepctl" terminate --now "$job.0"
wait $runner
is "$(daemons)" "" "the daemons of a step end with it"
nothing_left "a step with daemons leaves nothing"

step -q -- sh "$tmpdir/daemons" "sleep 0.2" "$tmpdir/stepd-jobholder"
is "$(daemons)" "" "daemons that a task leaves behind are ended"
nothing_left "a step whose task leaves daemons leaves nothing"

# ---- an agent that is killed --------------------------------------------------------------------

step -q --step 0 -- sh "$tmpdir/daemons" "sleep 600" sleep 2>"$tmpdir/err" &
runner=$!
eventually all_daemons
agent=$(state_of 0 agent_pid)
holder=$(pgrep -P "$agent" -x stepd-jobholder)
kill -KILL "$agent"
wait $runner 2>/dev/null
eventually process_ended "$holder"
is $? 0 "the holder ends with a killed agent"
is "$(members)" 6 "the members are known without an agent"
"$stepd" adopt -q --keep-result 0 "$job.0" 2>>"$tmpdir/err" &
agent=$!
eventually adopted 0
is "$(members)" 6 "an agent that adopts the step has all members"
ok "the adopted step is terminated" "$stepctl" terminate --now "$job.0"
wait $agent
is "$(daemons)" "" "the daemons of an adopted step end with it"
nothing_left "an adopted step leaves nothing"

done_testing
