#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# stepd-slurm-task, which runs task prologs in a task's place and prints its binding, without a Slurm.
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

task=$(cd "$top_builddir" && pwd)/contrib/slurm/stepd-slurm-task
cd "$tmpdir" || exit 1

prolog() { # NAME LINE...
	name=$1
	shift
	printf '#!/bin/sh\n' >"$name"
	printf '%s\n' "$@" >>"$name"
	chmod 755 "$name"
}

is "$("$task" node=n1 -- echo one two)" "one two" "a task without a prolog is its program"
prolog first 'echo "export A=1 = 2  "' 'echo "  export B=no"' 'echo unset GONE' 'echo "print $SLURM_SCRIPT_CONTEXT of $RANK"' \
	'echo "export"' 'echo "export =3"' 'echo exporting C=1' 'printf "export LAST=%s" "$A"'
prolog second 'echo "export LAST=second after $A"'
is "$(GONE=x RANK=7 "$task" node=n1 site_prolog=./first user_prolog="$tmpdir/second" -- sh -c 'echo "$A|$B|$C|$LAST|${GONE-gone}|${SLURM_SCRIPT_CONTEXT-none}"')" \
	"prolog_task of 7
1 = 2|||second after 1 = 2|gone|prolog_task" "a prolog's output changes the environment of the program, and is printed where it says so"
is "$("$task" node=n1 set=A=given -- printenv A)" given "a variable is set"
prolog fails 'exit 3'
is "$("$task" node=n1 user_prolog=./fails -- echo reached 2>err; echo $?)" 3 "a task ends with the status of a prolog that fails"
prolog background 'sleep 300 >/dev/null 2>&1 &' 'echo $! >child'
is "$("$task" node=n1 user_prolog=./background -- echo reached)" reached "a task goes on when its prolog has ended"
eventually sh -c '! kill -0 "$(cat child)" 2>/dev/null'
is $? 0 "what a prolog leaves behind is killed"
is "$("$task" node=n1 user_prolog=/nowhere -- echo reached 2>err; echo $?)" 1 "a prolog that is not there ends the task"
is "$(cat err)" "slurmstepd-n1: error: run_command: user task_prolog can not be executed (/nowhere) No such file or directory
slurmstepd-n1: error: user task_prolog did not exit normally. reason: Run command failed - configuration error
slurmstepd-n1: error: --task-prolog failed status=1" "the messages are slurmstepd's"
"$task" node=n1 timed user_prolog=/nowhere -- echo reached 2>err
like "$(cat err)" "^\[[-0-9]+T[0-9:]+\.[0-9]{3}\] error: --task-prolog failed status=1$" "messages begin with the time where they are to"
prolog killed 'kill -TERM $$'
is "$("$task" node=n1 site_prolog=./killed -- echo reached 2>err; echo $?)" 1 "a prolog that is killed ends the task"
like "$(cat err)" "^slurmstepd-n1: error: TaskProlog failed status=1$" "the message has whose prolog it was"
is "$("$task" node=n1 epilog -- ./nowhere; echo $?)" 253 "an epilog that is not there is told by the status"
printf '#!/bin/sh\n' >no-program
is "$("$task" node=n1 epilog -- ./no-program; echo $?)" 254 "an epilog that can't be executed is told by the status"
is "$("$task" node=n1 epilog -- ./fails; echo $?)" 3 "an epilog's own status is its own"
prolog path "echo \"export PATH=$tmpdir:/bin\""
prolog own 'echo found'
is "$("$task" node=n1 user_prolog=./path -- own)" found "the program is found by the PATH that the prolog has set"
is "$("$task" node=n1 -- nothing-of-that-name 2>err; echo $?)" 2 "a program that is nowhere ends the task with the errno"
is "$(cat err)" "slurmstepd-n1: error: execve(): nothing-of-that-name: No such file or directory" "the message is slurmstepd's"
printf 'text\n' >text
chmod 755 text
is "$("$task" node=n1 -- ./text 2>/dev/null; echo $?)" 8 "a file that is no program is not given to a shell"
SLURM_PROCID=3 SLURM_LOCALID=1 SLURM_CPU_BIND=quiet,mask_cpu:0x1 SLURM_CPU_BIND_VERBOSE=quiet taskset -c 0 \
	"$task" node=n1 cpu_bind=MASK -- sh -c 'echo "$SLURM_CPU_BIND $SLURM_CPU_BIND_VERBOSE"' >out 2>err
like "$(cat err)" "^cpu-bind=MASK - n1, task  3  1 \[[0-9]+\]: mask 0x1 set$" "a verbose binding is printed as Slurm prints it"
is "$(cat out)" "verbose,mask_cpu:0x1 verbose" "the variables say that the binding is verbose"
is "$("$task" node=n1 "note=a = line" "error=no GPU" -- sh -c 'echo $#' sh x 2>err)" 1 "lines are not the program's"
is "$(cat err)" "a = line
slurmstepd-n1: error: no GPU" "lines are printed before the program, as they are and as slurmstepd's"
"$task" node=n1 program 2>/dev/null
is $? 2 "arguments without a program are refused"
done_testing
