#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Standard input for ranks of several nodes: the fastest node sets the pace, what a node that reads nothing
# lacks is kept there, left out or waited for, and steprun and its relays have bounded memory. And what
# another program writes between a relay's frames.
# shellcheck disable=SC2016,SC2317 # for the tasks; called by name
# shellcheck source=tests/lib/steprun.sh
. "${top_srcdir:?}/tests/lib/steprun.sh"
cd "$tmpdir" || bail "no $tmpdir"
mkdir spill
export TMPDIR="$tmpdir/spill"

mib=$(rounds 8 64)
head -c $((mib * 1048576)) /dev/urandom >bytes
sum=$(sha256sum <bytes | cut -d ' ' -f 1)

# Rank 1 reads nothing before a file "go" is there; each writes the sum and the count of what it read.
reads='[ $SLURM_PROCID != 1 ] || until [ -e go ]; do sleep 0.02; done
	tee "in.$SLURM_PROCID" | sha256sum | cut -d " " -f 1 >"sum.$SLURM_PROCID.new"; mv "sum.$SLURM_PROCID.new" "sum.$SLURM_PROCID"'
begin_reading() { # ARG...: of steprun
	rm -f go sum.* in.*
	: >err
	"$steprun" --job "$job" --proctrack "$tracker" -N 3 -n 3 -i all "$@" -- sh -c "$reads" <bytes >out 2>err &
	pid=$!
}
got() { # RANK
	cat "sum.$1" 2>/dev/null
}
both_are_done() {
	[ -e sum.0 ] && [ -e sum.2 ]
}
has_got_some() {
	[ -s in.0 ] && [ -s in.2 ]
}
high() { # PID: KiB
	sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$1/status"
}
# Files without a name that relays have there, as "user bytes".
spilled() {
	for relay in $(relays); do
		find "/proc/$relay/fd" -lname "$TMPDIR/*(deleted)" -exec stat -L -c '%u %s' {} + 2>/dev/null
	done
}

# ---- kept in a file ------------------------------------------------------------------------------
begin_reading
ok "nodes that read are not held up by one that does not" eventually both_are_done
is "$(got 0) $(got 2)" "$sum $sum" "they get each byte"
# The pipes, the memory of the relay and the beginning of the line are not in it.
is "$(spilled | awk -v least=$((mib * 1048576 - 3 * 1048576)) '{ print $1, ($2 >= least) }')" "$(id -u) 1" \
	"what the other node lacks is in one file of that node's relay, of the user"
if grep -q '^#define STEPD_SANITIZERS 1' "$top_builddir/config.h"; then
	skip 2 "sanitizers want memory of their own"
else
	# The relays of the other nodes may have ended.
	for relay in $(relays); do
		! tr '\0' ' ' <"/proc/$relay/cmdline" | grep -q -e ' --index=1 ' || holder=$relay
	done
	ok "meanwhile steprun holds at most 8 MiB" test "$(high "$pid")" -le 8192
	ok "meanwhile the relay of the node that reads nothing holds at most 8 MiB" test "$(high "${holder:-0}")" -le 8192
fi
: >go
finish
is "$status $(got 1) $(cat err)" "0 $sum " "the node that begins late gets each byte, too"

# ---- a small file, and none ----------------------------------------------------------------------
# With one node that reads: another one could fall behind it, too.
begin_reading -N 2 -n 2 --input-spill-max 2M
eventually grep -q 'spill-max' err
fails "with a file that is full the other node waits" [ -e sum.0 ]
: >go
finish
is "$status $(got 0) $(got 1)" "0 $sum $sum" "and then both get each byte"
# Once it reads, it may be ahead of the other one, by as much.
is "$(grep -c -e '-1: the next input waits for the tasks here: .*maximum of 2097152 bytes (--input-spill-max)$' err)" 1 \
	"a file that is full is reported once, with the node and the option"
begin_reading --input-overflow wait
eventually has_got_some
: >go
finish
is "$status $(got 0) $(got 1) $(got 2) $(cat err)" "0 $sum $sum $sum " "without a file all get each byte"

# ---- left out ------------------------------------------------------------------------------------
begin_reading -N 2 -n 2 --input-overflow drop --result result
ok "a node that reads is not held up where bytes are left out for another" eventually [ -e sum.0 ]
: >go
finish
is "$status $(got 0)" "0 $sum" "a node that reads gets each byte where bytes are left out for another"
json_is result 'sum(n.get("stdin_dropped_bytes", 0) for n in d["nodes"])' "$((mib * 1048576 - $(wc -c <in.1)))" \
	"the result has the number of bytes that are left out"
is "$(grep -c 'bytes are left out' err)" 1 "that bytes are left out is reported once"

# ---- a node whose reader ends --------------------------------------------------------------------
rm -f sum.* in.*
"$steprun" --job "$job" --proctrack "$tracker" -N 2 -n 2 -i all -- sh -c \
	'[ $SLURM_PROCID = 1 ] || exit 0; sha256sum | cut -d " " -f 1 >sum.1' <bytes >out 2>err
is "$? $(got 1) $(cat err)" "0 $sum " "a node whose task ends without reading holds up no other"

# ---- as another user -----------------------------------------------------------------------------
if [ "$(id -u)" = 0 ]; then
	chmod 755 "$tmpdir"
	chmod 1777 spill
	rm -f go sum.* in.*
	chmod 1777 "$tmpdir"
	begin_reading --uid 65531 --gid 65531
	eventually both_are_done
	is "$(spilled | awk '{ print $1, ($2 > 0) }')" "65531 1" "the file of a step of another user is that user's"
	: >go
	finish
	is "$status $(got 0) $(got 1) $(got 2)" "0 $sum $sum $sum" "another user's step gets each byte"
else
	skip 2 "needs root, to be another user"
fi

# ---- what others write on a channel --------------------------------------------------------------
# A process that the host's shell has left in the background writes once the step has, without a newline.
noisy="exec:(until [ -e noise ]; do sleep 0.02; done; printf 'noise without an end'; : >written) & exec %c"
rm -f noise written
begin -w n1 --launcher "$noisy" -- sh -c 'echo before; until [ -e written ]; do sleep 0.02; done; cat bytes; echo; echo after'
eventually grep -q before out
: >noise
finish
is "$status $(cat err)" "0 steprun: n1: noise without an end" "what another program writes on a channel is shown with its node"
is "$(head -n 1 out) $(tail -n 1 out) $(tail -c +8 out | head -c $((mib * 1048576)) | sha256sum | cut -d ' ' -f 1)" \
	"before after $sum" "it takes nothing from the step's output"

nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
