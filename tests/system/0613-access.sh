#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Who may what at a step's socket: its owner, an operator, anybody else. The kernel tells who it is.
# shellcheck disable=SC2016,SC2317 # what stands in single quotes is for eval, Python and the tasks
. "${top_srcdir:?}/tests/lib/control.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root, to be others"

owner=65533 operator=65532 stranger=65531 group=65530
printf 'operator_group = %s\n' $group >"$tmpdir/stepd.conf"

# METHOD PARAMETERS, one that does no harm to the step, or fails of itself.
cat >"$tmpdir/asks" <<'END'
Describe {}
ListPids {}
ListTasks {}
FindPid {"pid":1}
FindPids {"pids":[1]}
Usage {}
END
cat >"$tmpdir/owns" <<'END'
Signal {"signal":"USR1","ranks":"7"}
Terminate {"kill_sequence":"TERM"}
END
cat >"$tmpdir/agents" <<'END'
Suspend {}
Resume {}
SetLimits {"limits":{}}
AddPid {"pid":1}
Notify {"message":""}
END

denied() { # CLASS OPTIONS: how many of them are denied
	as=$2
	while read -r method parameters; do
		refused "$method" "$parameters"
	done <"$tmpdir/$1" | grep -c '^PermissionDenied'
	as=
}

count() {
	grep -c . "$tmpdir/$1"
}

agent --config "$tmpdir/stepd.conf" --proctrack "$tracker" --uid $owner --gid $owner -- sh -c 'echo up; sleep 600'

for who in "root|" "the owner|--uid $owner --gid $owner" "an operator|--uid $operator --gid $group" \
	"somebody else|--uid $stranger --gid $stranger"; do
	name=${who%%|*}
	options=${who#*|}
	case $name in
	root) wanted="0 0 0" ;;
	"the owner") wanted="0 0 $(count agents)" ;;
	"an operator") wanted="0 $(count owns) $(count agents)" ;;
	*) wanted="$(count asks) $(count owns) $(count agents)" ;;
	esac
	is "$(denied asks "$options") $(denied owns "$options") $(denied agents "$options")" "$wanted" \
		"$name may what the interface says"
done

as="--uid $stranger --gid $stranger"
is "$(answer '[p["method"].split(".")[-1], p["needs"]]' Signal '{"signal": "KILL"}')" '["Signal", "owner"]' \
	"who may not is told what it needs"
is "$(refused Wait | cut -d' ' -f1)" PermissionDenied "nor may he wait"
is "$(follow Events | field 'a["error"]')" io.stepd.Step.PermissionDenied "or follow"
is "$(ask org.varlink.service.GetInfo | field 'p["interfaces"]')" '["org.varlink.service", "io.stepd.Step"]' \
	"what the service is everybody may ask"
as="--uid $operator --gid $group"
is "$(refused Wait | cut -d' ' -f1)" PermissionDenied "an operator does not wait"
is "$(answer 'p["state"]' Describe)" running "but asks"

# ---- what the files of the directory tell --------------------------------------------------------
# Nothing that the methods deny: who may not follow the events may not read them either.
dir=$(dirname "$(socket)")
reads() { # UID GID FILE
	setpriv --reuid "$1" --regid "$2" --clear-groups cat "$dir/$3" >"$tmpdir/read" 2>&1
}
as=
is "$(ask Notify '{"message": "the colour is blue"}')" '{"parameters":{}}' "root leaves a note among the events"
ok "root can read the events" reads 0 0 events.jsonl
ok "with the note among them" grep -q "the colour is blue" "$tmpdir/read"
fails "somebody else can't read the events, which the method denies him" reads $stranger $stranger events.jsonl
fails "nor the spec" reads $stranger $stranger spec.json
ok "but what runs here" reads $stranger $stranger state.json
unlike "$(cat "$tmpdir/read")" "blue|sleep" "which has neither notes nor commands"
# Whether files in that file system can have such a list at all: one that lets user 1 read.
: >"$run/listed"
listed=$(python3 -c 'import os, struct, sys
entries = ((1, 6, -1), (2, 4, 1), (4, 0, -1), (16, 4, -1), (32, 0, -1))
acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
os.setxattr(sys.argv[1], "system.posix_acl_access", acl)' "$run/listed" 2>&1)
rm "$run/listed"
if [ -z "$listed" ]; then
	ok "the owner can read the events" reads $owner $owner events.jsonl
	ok "and so can an operator" reads $operator $group events.jsonl
	fails "but the owner can't write them" \
		setpriv --reuid $owner --regid $owner --clear-groups sh -c 'echo >>"$1"' - "$dir/events.jsonl"
else
	skip 3 "no access control lists here: $(printf '%s' "$listed" | tail -n 1)"
fi

as="--uid $owner --gid $owner"
follow Wait >"$tmpdir/waited" &
waiter=$!
eventually test -s "$tmpdir/waited"
is "$(ask Terminate '{"grace_ms": 0}')" '{"parameters":{}}' "the owner ends it"
as=
wait "$agent"
wait $waiter
is "$(tail -n 1 "$tmpdir/waited" | field 'p["state"]')" ended "and is told so"

# Without an agent the file is all there is.
agent --config "$tmpdir/stepd.conf" --proctrack "$tracker" --uid $owner --gid $owner -- sh -c 'echo up; sleep 600'
eventually grep -q '"running"' "$run"/*_"$job".0/events.jsonl
kill -9 "$agent"
wait "$agent" 2>/dev/null
for who in $owner $stranger; do
	setpriv --reuid $who --regid $who --clear-groups "$stepctl" events "$job.0" \
		>"$tmpdir/events-$who" 2>"$tmpdir/events-$who.err"
	echo $? >"$tmpdir/events-$who.status"
done
is "$(cat "$tmpdir/events-$stranger.status")" 3 "of a dead agent's events somebody else learns nothing"
like "$(cat "$tmpdir/events-$stranger.err")" "only root, the step's owner and the operator group may read '.*/events.jsonl'" \
	"but who may"
like "$(cat "$tmpdir/events-$owner")" "running" "the owner reads them"
"$stepd" adopt -q "$job.0" &
adopter=$!
eventually running 0
eventually grep -q '"kind":"adopt"' "$run"/*_"$job.0"/events.jsonl
dir=$(dirname "$(socket)")
fails "nor after the step was taken over" reads $stranger $stranger events.jsonl
is "$(ask Terminate '{"grace_ms": 0}')" '{"parameters":{}}' "which ends"
wait $adopter
nothing_left "nothing is left"

done_testing
