#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Files for the tasks' streams: names by Slurm's patterns, append and truncate, one file for all or
# one each, and files that can't be had.
. "${top_srcdir:?}/tests/lib/step.sh"
cd "$tmpdir" || bail "no $tmpdir"

files_of() {
	find "$1" -type f | sort | tr '\n' ' '
}

# ---- patterns ----------------------------------------------------------------------------------
mkdir p
step --step 5 -n 2 -J sim --node-name n001 --output 'p/%j-%J-%s-%t-%n-%N-%x-%%' -- echo hello
is "$(files_of p)" "p/$job-$job.5-5-0-0-n001-sim-% p/$job-$job.5-5-1-0-n001-sim-% " \
	"all patterns of a file name are replaced"
is "$(cat p/"$job-$job.5-5-1-0-n001-sim-%")" hello "a file named by patterns has the task's output"
rm -r p && mkdir p
step -n 12 --step 3 --output 'p/%4t.%2s.%10j' -- true
is "$(find p -type f | sort | sed -n 12p)" "p/0011.03.$(printf %010d "$job")" \
	"the width of a pattern pads with zeros"
is "$(find p -type f | wc -l)" 12 "%t gives each task a file of its own"
rm -r p && mkdir p
step --output 'p/%u' -- true
is "$(files_of p)" "p/$(id -un) " "%u is the user"
rm -r p && mkdir p
step --output 'p/\%t' -- echo literal
is "$(files_of p)" "p/%t " "a backslash switches patterns off"
rm -r p && mkdir p
step -J ../../x --output 'p/%x' -- true
is "$(files_of p)" "p/.._.._x " "a job's name does not lead to another directory"
rm -r p && mkdir p
out=$(step --output 'p/%A' -- true 2>&1)
is $? 125 "an unknown pattern is refused"
like "$out" "'%A' is not known; use %j %J %s %t %n %N %u %x" \
	"the refusal of an unknown pattern lists the known ones"
is "$(files_of p)" "" "an unknown pattern creates no file"

# ---- one file for all --------------------------------------------------------------------------
# shellcheck disable=SC2016 # the tasks'
lines='i=0; while [ $i -lt 500 ]; do echo "$SLURM_PROCID $i out"; echo "$SLURM_PROCID $i err" >&2; i=$((i+1)); done'
expect_lines() { # FILE TASKS WORD...
	wanted=$(for text in "$3" ${4-}; do
		for rank in $(seq 0 $(($2 - 1))); do
			seq -f "$rank %.0f $text" 0 499
		done
	done | sort | md5sum)
	[ "$(sort "$1" | md5sum)" = "$wanted" ]
}
echo old >joint
step -n 16 --output joint -- sh -c "$lines"
ok "16 tasks share a file for stdout and stderr without losing or mixing lines" expect_lines joint 16 out err
step -n 16 --output joint --error joint.err -- sh -c "$lines"
ok "a shared file is truncated by the next step" expect_lines joint 16 out
ok "--error gives stderr a file of its own" expect_lines joint.err 16 err
step -n 16 --output joint --error ./joint -- sh -c "$lines"
ok "stdout and stderr share a file that has two names" expect_lines joint 16 out err
printf old >kept
step -n 3 --open-mode append --output kept -- echo more
is "$(cat kept)" "$(printf 'oldmore\nmore\nmore')" "--open-mode append keeps what is in the file"
step -n 2 --umask 0077 --output mode -- true
is "$(stat -c %a mode)" 600 "a file has the mode of the tasks' umask"
mkdir sub
step --chdir "$tmpdir/sub" --output rel -- pwd
is "$(cat sub/rel)" "$tmpdir/sub" "file names are relative to the tasks' directory"
ln -s sub/target link
step --output link -- echo through
is "$(cat sub/target)" through "a symbolic link as output file is followed"

# ---- a file for each task ----------------------------------------------------------------------
step -n 4 --output each.%t -- sh -c "$lines"
for rank in 0 1 2 3; do
	sed "s/^$rank/0/" each.$rank >one
	ok "rank $rank writes stdout and stderr to one file, neither over the other" expect_lines one 1 out err
done
printf old >each.1
step -n 4 --open-mode append --output each.%t --error errors.%t -- sh -c 'echo x; echo y >&2'
is "$(cat each.1)" "oldx" "--open-mode append keeps what is in a task's own file"
is "$(cat errors.3)" "y" "a task has its own file for stderr"
step -n 2 --output lab.%t --label -- sh -c 'echo a; printf b; printf c >&2'
is "$(od -An -c lab.1 | tr -d ' ')" '1:a\n1:bc' "a task's own file is labelled, to the byte"

# ---- inherited, none, one rank -----------------------------------------------------------------
is "$(step -n 3 --output none -- echo x 2>&1)" "" "--output none discards all output"
is "$(step -n 3 --output 1 -- sh -c 'echo $SLURM_PROCID')" 1 \
	"--output with a rank passes on that rank's stdout alone"
is "$(step -n 3 --output none --error 2 -- sh -c 'echo $SLURM_PROCID >&2' 2>&1)" 2 \
	"--error with a rank passes on that rank's stderr alone"
is "$(step -n 2 --output all.out --error all -- sh -c 'echo e >&2' 2>&1)" "$(printf 'e\ne')" \
	"stderr can be inherited while stdout goes to a file"
is "$(step -- readlink /proc/self/fd/1 | cut -d: -f1)" pipe "an inherited stdout is the agent's own"
step -- sh -c 'test -t 0; readlink /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2' \
	<&- 2>&- | sort -u >closed
is "$(grep -v pipe closed)" /dev/null "closed streams of the agent become /dev/null"

# ---- FIFOs -------------------------------------------------------------------------------------
mkfifo fifo fifo.0
for name in fifo fifo.%t; do
	out=$(timeout 300 "$stepd" run --job "$job" --output "$name" -- true 2>&1)
	isnt $? 124 "$name without a reader does not stop the agent"
	like "$out" "fifo" "the refusal of $name without a reader names it"
	nothing_left "a step refused for $name leaves no cgroup, process or file behind"
done
cat fifo >taken &
reader=$!
eventually step --output fifo -- seq 30000
wait $reader
is "$(md5sum <taken)" "$(seq 30000 | md5sum)" "a FIFO with a reader gets all output"

# ---- files that can't be had -------------------------------------------------------------------
mkdir dir
for name in dir missing/file missing/%t.file /proc/missing; do
	out=$(step -n 2 --output "$name" -- true 2>&1)
	isnt $? 0 "the output file $name is refused"
	like "$out" "${name%/*}.*: (Is a directory|No such file or directory|Permission denied|Input/output error)" \
		"the refusal of $name has the reason and the name"
	nothing_left "a step refused for $name leaves no cgroup, process or file behind"
done
out=$(step --output good --error missing/bad -- true 2>&1)
like "$out" "^stepd $job.0: error: standard error: open '$tmpdir/missing/bad' as user $(id -un): No such file or directory\$" \
	"the refusal of an output file names stream, file and user"
done_testing
