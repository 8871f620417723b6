#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Output files on a full disk, and on one that has space again.
if [ -z "${STEPD_TEST_MOUNTS-}" ] && [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
	STEPD_TEST_MOUNTS=own exec unshare -m sh "$0"
fi
. "${top_srcdir:?}/tests/lib/reexec.sh"
[ -n "${STEPD_TEST_MOUNTS-}" ] || skip_all "needs root and mount namespaces"
cd "$tmpdir" || bail "no $tmpdir"
mkdir disk
mount -t tmpfs -o size=256k none disk || skip_all "a tmpfs can't be mounted"
at_exit "umount '$tmpdir/disk'"

fill() { # but for 64 KiB
	rm -f disk/*
	head -c $((192 * 1024)) /dev/zero >disk/filler
}
loses() { # FILE
	grep -qs "output to $1: No space left on device" err
}
# Each rank first writes 100,000 bytes, which don't fit; then it waits for the file "go".
# shellcheck disable=SC2016 # the tasks'
writer='i=0
	while [ $i -lt 1000 ]; do
		printf "%099d\n" $i
		i=$((i + 1))
	done
	until [ -e go ]; do sleep 0.02; done
	echo again
	echo more'
begin() { # OPTION...
	rm -f go
	put "$this"
	"$stepd" run --job "$job" --proctrack "$tracker" --result result --uid nobody "$@" -- sh -c "$writer" 2>err &
	agent=$!
}

# ---- a file for each rank, unchanged bytes -----------------------------------------------------
fill
begin --forward -n 2 --output disk/out.%t
eventually loses disk/out.0
eventually loses disk/out.1
if [ -x "$next" ]; then
	ok "an agent with files that are full is upgraded" upgrade
else
	skip 1 "no second program (make check builds it)"
fi
rm disk/filler
: >go
wait $agent
is $? 120 "a step whose output did not fit on a disk ends with the status for that"
for rank in 0 1; do
	is "$(stat -c %U disk/out.$rank)" nobody "rank $rank: its file belongs to the tasks' user"
	is "$(tail -n 1 disk/out.$rank)" more "rank $rank: a file that has space again is written again"
	json_is result "['%s %d %s' % (d['stream'], d['bytes'], d['error'])
		for d in output_losses if d['file'] == 'disk/out.$rank' and d['rank'] == $rank]" \
		"[\"stdout $((100011 - $(stat -c %s disk/out.$rank))) No space left on device\"]" \
		"rank $rank: the result has as many lost bytes as its file lacks"
	is "$(grep -c "warning: write rank $rank's output to disk/out.$rank: No space" err)" 1 \
		"rank $rank: its full file is reported once"
	is "$(grep -c "rank $rank's output is written to disk/out.$rank again; [0-9]* bytes are missing" err)" 1 \
		"rank $rank: that its file is written again is reported once"
done
json_is result "output_lost and output_lost_bytes == sum(d['bytes'] for d in output_losses)" true \
	"the result has the sum of all lost bytes"

# ---- one file, with labels ---------------------------------------------------------------------
fill
begin --label -n 2 --output disk/all
eventually loses disk/all
rm disk/filler
: >go
wait $agent
is $? 120 "a step whose labelled output did not fit on a disk ends with the status for that"
is "$(grep -Evc '^([01]:? ?|[01]: ([0-9]*|again|more))$' disk/all)" 0 \
	"with labels no line is torn by another behind what was lost"
is "$(grep -c '^[01]: more$' disk/all)" 2 "a labelled file that has space again is written again"
is "$(grep -c "warning: write the tasks' output to disk/all: No space" err)" 1 "a full shared file is reported once"
json_is result "[len(output_losses), output_losses[0].get('rank'),
	output_losses[0]['bytes'] + $(stat -c %s disk/all) >= 206034]" "[1, null, true]" \
	"the result has the lost bytes of a shared file once, without a rank"

# ---- without the agent -------------------------------------------------------------------------
fill
: >go
# shellcheck disable=SC2016 # the task's
"$stepd" run --job "$job" --proctrack "$tracker" --result result --output disk/own.%t -- \
	sh -c 'head -c 100000 /dev/zero; echo $? >seen' 2>err
is "$(cat seen)" 1 "a task that writes to its file itself sees the full disk"
json_is result "[d.get('output_losses'), d.get('output_lost')]" "[null, null]" \
	"the result has no lost output that did not pass through the agent"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
