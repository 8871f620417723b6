#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Standard input for tasks of which some don't read: kept in a file, dropped, or awaited.
. "${top_srcdir:?}/tests/lib/reexec.sh"
cd "$tmpdir" || bail "no $tmpdir"

size=3000000
head -c $size /dev/urandom >input
mkdir spill files
chmod 1777 spill files
user=$(id -un)
[ "$(id -u)" != 0 ] || user=nobody
uid=$(id -u "$user")

# Rank 0 reads at once, rank 1 from the file "go" on, and rank 2 never; it ends with the file "end".
# shellcheck disable=SC2016 # the tasks'
reader='case $SLURM_PROCID in
	0) exec cat ;;
	1) until [ -e go ]; do sleep 0.02; done; exec cat ;;
	2) until [ -e end ]; do sleep 0.02; done ;;
	esac'

# begin OPTION...: with FIFO as input; $agent is the agent.
begin() {
	rm -f go end files/* fifo
	mkfifo fifo
	: >err
	TMPDIR=$tmpdir/spill "$stepd" run --job "$job" --proctrack "$tracker" --result result \
		--output "$tmpdir/files/got.%t" "$@" -- sh -c "$reader" <fifo 2>err &
	agent=$!
}
holds() { # RANK SIZE: it has got as much, or more
	[ "$(stat -c %s "files/got.$1" 2>/dev/null || echo 0)" -ge "$2" ]
}
spill_fds() {
	find "/proc/$agent/fd" -lname "$tmpdir/spill/*(deleted)" 2>/dev/null
}
spill_size() {
	for spill_fd in $(spill_fds); do
		stat -Lc %s "$spill_fd"
	done
}
is_given_back() {
	[ "$(spill_size)" = 0 ]
}

# ---- spill -------------------------------------------------------------------------------------
put "$this"
begin --uid "$user" -n 3
exec 8>fifo
cat input >&8
eventually holds 0 $size
ok "a rank that reads gets all input while others read none" cmp input files/got.0
is "$(cat files/got.[12] 2>/dev/null)" "" "ranks that read nothing have got nothing"
is "$(spill_fds | wc -l)" 1 "what two ranks lack is in one file"
is "$(spill_fds | while read -r fd; do stat -Lc '%u %a %h' "$fd"; done)" "$uid 600 0" \
	"the file belongs to the tasks' user and has no name"
is "$(ls spill)" "" "nothing is seen in the directory of the file"
ok "the file has what does not fit into memory" test "$(spill_size)" -ge $((size - 65536 * 3 - 1048576))
if [ -x "$next" ]; then
	ok "an agent with such a file is upgraded" upgrade
	is "$(spill_fds | wc -l)" 1 "the new program has the file"
else
	skip 2 "no second program (make check builds it)"
fi
: >go
eventually holds 1 $size
ok "a rank that reads late gets all input, over an upgrade" cmp input files/got.1
: >end
eventually is_given_back
is "$(spill_size)" 0 "the file is empty when all ranks that still run have read it"
cat input >&8
exec 8>&-
wait $agent
is $? 0 "a step with a rank that never reads its input succeeds"
cat input input >twice
ok "input goes on for a rank after another one has ended" cmp twice files/got.0
ok "the file is used again" cmp twice files/got.1
json_is result 'd.get("stdin_dropped_bytes")' null "nothing is dropped with a file"
is "$(grep -c warning err)" 0 "nothing is warned of with a file"

# ---- drop --------------------------------------------------------------------------------------
put "$this"
begin -n 2 --input-overflow=drop
cat input >fifo
eventually holds 0 $size
ok "a rank that reads gets all input where another's is dropped" cmp input files/got.0
is "$(spill_fds | wc -l)" 0 "there is no file where input is dropped"
[ ! -x "$next" ] || upgrade
: >go
wait $agent
is $? 0 "a step whose input was dropped for a rank succeeds"
got=$(stat -c %s files/got.1)
json_is result stdin_dropped_bytes $((size - got)) "the result counts the bytes that were dropped"
ok "a rank that is behind has a window of 1 MiB, and what its pipe holds" test "$got" -ge 1048576 -a "$got" -le 1179648
tail -c 1000000 input >wanted
tail -c 1000000 files/got.1 >last
ok "a rank whose input was dropped gets the last of it" cmp wanted last
is "$(grep -c 'warning: rank 1 reads its standard input too slowly' err)" 1 "dropping input is reported once"

# ---- wait --------------------------------------------------------------------------------------
begin -n 2 --input-overflow=wait
cat input >fifo &
eventually holds 0 1048576
sleep 0.3 # for what must not come
fails "with --input-overflow=wait a rank waits for another" holds 0 $((1048576 + 65536 * 3))
is "$(spill_fds | wc -l)" 0 "there is no file where ranks wait"
: >go
wait $agent
is "$?$(cmp input files/got.0)$(cmp input files/got.1)" 0 "all ranks get all input where they wait for each other"

# ---- a file that can't grow --------------------------------------------------------------------
begin -n 2 --input-spill-max 512K
cat input >fifo &
eventually grep -q warning err
like "$(cat err)" "maximum of 524288 bytes \(--input-spill-max\); the next input is read when rank 1 has read more" \
	"a file that has its maximum is reported"
holds 0 $size
is $? 1 "at the maximum of the file a rank waits for another"
: >go
wait $agent
is "$?$(cmp input files/got.0)$(cmp input files/got.1)" 0 "all ranks get all input in spite of a maximum"
is "$(grep -c warning err)" 1 "a maximum is reported once"

begin -n 2 --export "ALL,TMPDIR=$tmpdir/missing"
cat input >fifo
eventually holds 0 $size
: >go
wait $agent
is "$?$(cmp input files/got.1)" 0 "without a directory TMPDIR the file is in another one"

if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
	rm -f go
	# shellcheck disable=SC2016 # the other shell's
	unshare -m sh -c 'mount -t tmpfs -o size=256k none "$0" && exec "$@"' "$tmpdir/spill" \
		env TMPDIR="$tmpdir/spill" "$stepd" run --job "$job" --proctrack "$tracker" -n 2 \
		--output "$tmpdir/files/got.%t" -- sh -c "$reader" <input 2>err &
	agent=$!
	eventually grep -q warning err
	like "$(cat err)" "No space left on device; the next input is read when rank 1 has read more" \
		"a full disk below the file is reported with its reason"
	: >go
	wait $agent
	is "$?$(cmp input files/got.0)$(cmp input files/got.1)" 0 "no input is lost by a full disk below the file"
else
	skip 2 "needs root and mount namespaces"
fi
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
