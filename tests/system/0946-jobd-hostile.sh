#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What a local user tries, and what a machine does to jobd: texts that are no UTF-8, files that are not
# the user's, names that would disturb a terminal, libraries that root's processes are to load, a full
# disk, a clock that jumps. No node is drained for a user's mistake, nothing of it runs as root, and the
# user learns why a job failed.
# shellcheck source=tests/lib/jobd.sh
. "${top_srcdir:?}/tests/lib/jobd.sh"

command -v setpriv >/dev/null || skip_all "needs setpriv"
# shellcheck disable=SC2154 # $tmpdir, $work, $state are of jobd.sh
built=$(cd "${top_builddir:?}" && pwd)
nobody="setpriv --reuid 65534 --regid 65534 --clear-groups"
theirs() { # OPTION... SCRIPT [ARG...]: as submit, of another user
	(cd "$work" && $nobody "$jobctl" submit --parsable "$@")
}
refused() { # NAME REGEX OPTION...: it is, with such a sentence
	refused_name=$1 refused_regex=$2
	shift 2
	theirs "$@" >"$tmpdir/accepted" 2>"$tmpdir/err"
	is "$(cat "$tmpdir/accepted")" "" "$refused_name is refused"
	like "$(cat "$tmpdir/err")" "$refused_regex" "$refused_name is refused with the reason"
}
description() { # JOB
	doc_of "$1" '.get("state_description", "")'
}
nodes_are_idle() {
	[ "$("$jobctl" nodes -h -o %t | sort -u)" = idle ]
}
begin_jobd

# ---- texts that are no UTF-8

printf '#!/bin/sh\nprintf "caf\351 $GOOD ${BAD-none}"\n' >"$work/latin"
chmod 755 "$work/latin"
BAD=$(printf 'x\377y')
id=$(GOOD=ok BAD=$BAD theirs -o latin.out latin 2>"$tmpdir/err")
ends_as "$id" COMPLETED "a script that is not UTF-8 runs"
is "$(od -An -tx1 "$work/latin.out" | tr -d ' \n')" "636166e9206f6b206e6f6e65" "a script that is not UTF-8 has its own bytes, and no variable that is not UTF-8"
like "$(cat "$tmpdir/err")" "^jobctl submit: the variable 'BAD=x.xffy' is not NAME=VALUE in UTF-8, ignoring" \
	"a variable that a job does not get is named"
for option in -J -o --comment= -D/; do
	refused "$option with a text that is not UTF-8" ": must be UTF-8" "$option$BAD" latin
done
refused "an argument that is not UTF-8" "argv: must be UTF-8" latin "$BAD"
id=$(theirs --hold latin)
fails "a job can't be given a name that is not UTF-8" "$jobctl" update "$id" "JobName=$BAD" 2>/dev/null
"$jobctl" cancel "$id"
ok "no node is drained for such texts" nodes_are_idle

# ---- files that are not the user's

mkdir -m 700 "$tmpdir/private"
echo secret >"$tmpdir/private/file"
ln -s "$tmpdir/private/file" "$work/link"
mkdir -m 777 "$work/directory"
mkfifo -m 666 "$work/fifo"
script echoes <<'S'
echo text
S
for output in link directory fifo "$tmpdir/private/new" /proc/self/mem "$work/none/x"; do
	id=$(theirs -o "$output" echoes)
	ends_as "$id" FAILED "a job fails whose output can't be opened as its user: $output"
	like "$(description "$id")" "^standard output: " "its user sees why"
done
is "$("$jobctl" queue -h -t all -j "$id" -o %r)" JobLaunchFailure "the queue shows a job whose output can't be opened as a failure to launch"
like "$("$jobctl" show job "$id")" "^   StateDesc=standard output: open '$work/none/x" "show has the sentence"
is "$(cat "$tmpdir/private/file") $(ls "$tmpdir/private")" "secret file" "nothing of root's was written"
id=$(theirs -i fifo -o /dev/null echoes)
eventually has_state RUNNING "$id"
"$jobctl" cancel "$id"
ends_as "$id" CANCELLED "a job that waits for its input can be cancelled"
ok "no node is drained for files of users" nodes_are_idle

# ---- a name for a terminal

name=$(printf 'a\nb\033[31mred\tx\r\042; `id`')
id=$(theirs -J "$name" -o name.out --wrap 'echo "$SLURM_JOB_ID"')
ends_as "$id" COMPLETED "a job with an odd name runs"
is "$("$jobctl" queue -h -t all -j "$id" -o %j; "$jobctl" show job "$id" | grep -c JobName)" 'a?b?[31mred?x?"; `id`
1' "control characters of a name are not printed"
is "$("$jobctl" queue -t all -j "$id" --json | json_get - '[d["jobs"][0]["name"]]')" \
	'["a\nb\u001b[31mred\tx\r\"; `id`"]' "JSON has the name as it is"
long=$(printf '%010240d' 0)
refused "a name of 10 KiB" "name: is longer than 1024 bytes" -J "$long" echoes

# ---- what would make root's processes run something

: >"$tmpdir/preloaded"
chmod 666 "$tmpdir/preloaded"
chmod 711 "$tmpdir"
script steps <<'S'
"$STEPRUN" --proctrack "$TRACKER" -n 2 sleep 0
S
id=$(theirs -N 2 -n 2 -o preload.out --export="ALL,LD_PRELOAD=$built/tests/lib/preloaded.so,PRELOADED_LOG=$tmpdir/preloaded" steps)
ends_as "$id" COMPLETED "a job whose programs are preloaded completes"
is "$(cut -d' ' -f1,2 "$tmpdir/preloaded" | sort -u)" "65534 65534" "no program of root's loads a library of a user"
like "$(cat "$tmpdir/preloaded")" "65534 65534 sleep$" "the user's own programs do"

# ---- more than can be sent

(
	echo '#!/bin/sh'
	head -c 4000000 /dev/zero | tr '\0' '\1'
) >"$work/control"
refused "a request that is larger than jobd accepts" "have [0-9]+ MiB, and jobd accepts 8: pass on less" control

# ---- a full disk

eventually all_have_ended
kill -TERM "$jobd_pid"
wait "$jobd_pid"
jobd_pid=
if mount -t tmpfs -o size=8m,mode=700 stepd-test "$state" 2>/dev/null; then
	at_exit "umount -l '$state' 2>/dev/null"
	begin_jobd
	script notes <<'S'
echo $$ >>"$1"
until [ -e "$1.end" ]; do sleep 0.05; done
exit 3
S
	running=$(submit notes running)
	held=$(submit --hold notes held)
	eventually wrote running
	head -c 16m /dev/zero >"$state/ballast" 2>/dev/null
	waits=$(submit --hold notes waits 2>"$tmpdir/err")
	is "$waits" "" "a job that can't be stored is not accepted"
	like "$(cat "$tmpdir/err")" "its file system is full; make space there" "the refusal names the file system"
	"$jobctl" cancel "$held"
	ends_as "$held" CANCELLED "a job can be cancelled while the disk is full"
	touch "$work/running.end"
	eventually has_ended "$running"
	is "$(doc_of "$running" '["job_state"]') $(doc_of "$running" '["exit_code"]') $(doc_of "$running" '["restart_cnt"]')" \
		"FAILED 768 0" "a job that ends while the disk is full ends with its own status"
	ok "no node is drained for a full disk" nodes_are_idle
	rm "$state/ballast"
	released=$(submit --hold notes released) # a small file
	head -c 16m /dev/zero >"$state/ballast" 2>/dev/null
	rm -f "$work/released"
	"$jobctl" release "$released"
	waits_for_space() {
		[ "$(doc_of "$released" '["state_reason"]')" = BeginFailed ]
	}
	ok "a job does not start while there is no space for its result" eventually waits_for_space
	like "$(description "$released")" "has less than .* left: make space there" "its user sees why"
	ok "no node is drained for a start without space" nodes_are_idle
	rm "$state/ballast"
	if grep -q "was not written to" "$tmpdir/log"; then # unless SQLite's log had space in it
		eventually grep -q "all that could not be written before is now in '$state'" "$tmpdir/log"
	fi
	kill_jobd
	begin_jobd
	is "$(doc_of "$held" '["job_state"]') $(doc_of "$running" '["job_state"]')" "CANCELLED FAILED" \
		"the next jobd knows what happened while the disk was full"
	"$jobctl" update "$released" StartTime=now
	ok "a job starts once there is space" eventually wrote released
	touch "$work/released.end"
	eventually has_ended "$released"
	is "$(wc -l <"$work/released")" 1 "it ran once"
else
	skip 12 "needs a file system of its own"
fi

# ---- a clock that jumps

kill_jobd
begin_with_clock() { # jobd, whose clock is ahead by so many seconds as $tmpdir/ahead has
	JUMPING_CLOCK=$tmpdir/ahead
	LD_PRELOAD=$built/tests/lib/jumping_clock.so
	export LD_PRELOAD JUMPING_CLOCK
	begin_jobd
	unset LD_PRELOAD JUMPING_CLOCK
}
set_clock() { # SECONDS ahead of the machine's
	echo "$1" >"$tmpdir/ahead.new"
	mv "$tmpdir/ahead.new" "$tmpdir/ahead"
}
set_clock 0
echo "PartitionName=endless Nodes=n[1-4] MaxTime=INFINITE" >>"$tmpdir/slurm.conf"
begin_with_clock
script waits <<'S'
until [ -e "$1" ]; do sleep 0.05; done
S
limited=$(submit -t 60 waits never)
endless=$(submit -p endless -t UNLIMITED waits go)
later=$(submit --begin=now+1hour waits go)
eventually has_state RUNNING "$limited"
eventually has_state RUNNING "$endless"
set_clock -36000
id=$(submit --wrap true)
ends_as "$id" COMPLETED "jobs run while the clock is set back"
is "$(doc_of "$limited" '["job_state"]') $(doc_of "$later" '["job_state"]')" "RUNNING PENDING" \
	"running and later jobs stay what they are when the clock is set back"
ok "no job has begun before it was submitted" [ "$(doc_of "$id" '["start_time"] - d["jobs"][0]["submit_time"]')" -ge 0 ]
"$jobctl" suspend "$endless"
eventually has_state SUSPENDED "$endless"
kill_jobd
begin_with_clock
is "$("$jobctl" queue -h -j "$limited" -o %M)" 0:00 "no job has run for a time below zero after a restart with an earlier clock"
"$jobctl" resume "$endless"
eventually has_state RUNNING "$endless"
is "$(doc_of "$endless" '.get("suspended_s", 0)')" 0 "no job was suspended for a time below zero"
set_clock 7200
"$jobctl" update "$endless" Comment=now >/dev/null # jobd looks at its clock at once
ends_as "$limited" TIMEOUT "a job's limit passes where the clock is set ahead"
eventually has_state RUNNING "$later"
touch "$work/go"
ends_as "$later" COMPLETED "a job for later begins where the clock is set ahead"
ends_as "$endless" COMPLETED "a job without a limit outlives the changes of the clock"

kill_jobd
begin_jobd
nothing_left_of_jobs 100
done_testing
