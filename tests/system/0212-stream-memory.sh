#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What the agent holds of the tasks' streams is bounded as stepd-stdio(7) states, whoever does not
# read.
. "${top_srcdir:?}/tests/lib/step.sh"
cd "$tmpdir" || bail "no $tmpdir"

stream_kib=64 dest_kib=64 input_kib=1152 # the table of stepd-stdio(7)
slack_kib=512                            # of malloc(3), and of the stack

within() { # GROWN BOUND CHECK
	if grep -q '^#define STEPD_SANITIZERS 1' "$top_builddir/config.h"; then
		skip 1 "sanitizers want memory of their own"
	else
		ok "$3" test "$1" -le "$2"
	fi
}
anonymous_kib() {
	awk '/^RssAnon:/ { print $2 }' "/proc/$agent/status"
}
# Ranks wait for the file "start". The last one writes to standard error, the others to standard output.
# shellcheck disable=SC2016 # the tasks'
writer='until [ -e start ]; do sleep 0.02; done
	if [ "$SLURM_PROCID" = 3 ]; then
		yes "a line of the last rank" | head -c $((MIB * 1048576)) >&2
	else
		yes "rank $SLURM_PROCID" | head -c 7000000
	fi
	: >"ended.$SLURM_PROCID"'

# ---- a reader that takes nothing ---------------------------------------------------------------
mkfifo fifo
for option in --forward --label; do
	mib=$(rounds 128 1024)
	[ $option = --forward ] || mib=$(rounds 32 1024) # labels take longer
	rm -f start ended.* got errors
	MIB=$mib "$stepd" run --job "$job" --proctrack "$tracker" -n 4 $option --error errors -- \
		sh -c "$writer" >fifo 2>log &
	agent=$!
	exec 8<fifo
	eventually running 0
	before=$(anonymous_kib)
	: >start
	eventually test -e ended.3
	grown=$(($(anonymous_kib) - before))
	bound=$((4 * 2 * stream_kib + 2 * dest_kib + slack_kib))
	ok "$option: a rank writes $mib MiB to its file while nobody reads the others" \
		test "$(stat -c %s errors)" -ge $((mib * 1048576))
	is "$(echo ended.*)" ended.3 "$option: ranks whose reader takes nothing wait for it"
	within "$grown" "$bound" "$option: the agent grows by no more than is stated"
	diag "$option: grown by $grown KiB, of $bound"
	cat <&8 >got
	exec 8<&-
	wait $agent
	is "$? $(sed 's/^[0-3]: //' got | wc -c)" "0 21000000" "$option: what was not read at once is not lost"
done

# ---- input that is not read --------------------------------------------------------------------
mib=$(rounds 128 1024)
rm -f start ended.*
# shellcheck disable=SC2016 # the tasks'
head -c $((mib * 1048576)) /dev/zero |
	TMPDIR=$tmpdir "$stepd" run --job "$job" --proctrack "$tracker" -n 8 --output none -- sh -c '
		if [ "$SLURM_PROCID" = 0 ]; then
			dd bs=1 count=1 status=none
			: >begun
			until [ -e start ]; do sleep 0.02; done
			cat >/dev/null
			: >ended.0
		fi
		until [ -e end ]; do sleep 0.02; done' 2>log &
pipeline=$!
eventually test -e begun
agent=$(state_of 0 agent_pid)
before=$(anonymous_kib)
: >start
eventually test -e ended.0
grown=$(($(anonymous_kib) - before))
within "$grown" $((input_kib + slack_kib)) \
	"ranks that don't read $mib MiB of input don't let the agent grow by more than is stated"
diag "grown by $grown KiB, of $((input_kib + slack_kib))"
: >end
wait $pipeline
is $? 0 "ranks that don't read their input succeed"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
