#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What tasks that join a step read and write: as the others, by their ranks in the step.
. "${top_srcdir:?}/tests/lib/step.sh"
. "$top_srcdir/tests/lib/spawn.sh"

program='[\"sh\",\"-c\",\"echo out \$SLURM_PROCID; echo err \$SLURM_PROCID >&2\"]'
parent=$requests'echo parent; one 1 10 2 "'$program'"'

spawning --label -n 1 sh -c "$parent" >"$tmpdir/out" 2>"$tmpdir/err"
is "$(sort "$tmpdir/out")" "0: parent
10: out 0
11: out 1" "labels of spawned tasks are their ranks in the step"
is "$(sort "$tmpdir/err")" "10: err 0
11: err 1" "labels of spawned tasks on stderr are their ranks in the step"

cd "$tmpdir" || bail "no directory"
spawning -o 'o.%t' -e 'e.%t' -n 1 sh -c "$parent"
is "$(cat o.0 o.10 o.11 e.10 e.11)" "parent
out 0
out 1
err 0
err 1" "each spawned task has a file of its own"

spawning -o all.txt -e all.txt -n 1 sh -c "$parent; echo after"
is "$(sort all.txt)" "after
err 0
err 1
out 0
out 1
parent" "a spawn does not truncate a shared file"

spawning --label -o all.txt -n 1 sh -c "$requests"'echo parent; exec >/dev/null 2>&1; while ls -l /proc/$PPID/fd | grep -q all.txt; do sleep 0.02; done; one 1 10 1 "'"$program"'"' 2>/dev/null
is "$(sort all.txt)" "0: parent
10: err 0
10: out 0" "a spawn opens a shared file again that its last writer closed"

out=$(echo words | spawning -i all -n 1 sh -c "$requests"'cat; one 1 1 1 "[\"sh\",\"-c\",\"cat; echo end\"]"')
is "$out" "words
end" "spawned tasks get no input that was read by all before"
out=$(echo words | spawning -i 0 -n 2 sh -c "$requests"'[ $SLURM_PROCID = 0 ] || exit 0; one 1 2 1 "[\"sh\",\"-c\",\"cat; echo end\"]"; cat')
is "$(printf '%s\n' "$out" | sort)" "end
words" "spawned tasks get no input of one rank"
mkdir sub
out=$(spawning -n 1 sh -c "$requests"'request "{\"do\":\"spawn\",\"number\":1,\"first_rank\":1,\"size\":1,\"groups\":[{\"argv\":[\"pwd\"],\"count\":1,\"appnum\":0,\"rank\":0,\"cwd\":\"sub\"}]}"')
is "$out" "$(pwd)/sub" "a spawned task's directory is relative to the step's"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
