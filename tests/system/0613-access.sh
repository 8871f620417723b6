#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Access at a step's socket: its owner, an operator, anybody else. The kernel names the client.
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

start_step --config "$tmpdir/stepd.conf" --proctrack "$tracker" --uid $owner --gid $owner -- sh -c 'echo up; sleep 600'

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
		"$name may call the methods that the interface allows"
done

as="--uid $stranger --gid $stranger"
is "$(reply '[p["method"].split(".")[-1], p["needs"]]' Signal '{"signal": "KILL"}')" '["Signal", "owner"]' \
	"the refusal of a stranger's call has the access that it needs"
is "$(refused Wait | cut -d' ' -f1)" PermissionDenied "Wait of a stranger is refused"
is "$(follow Events | json_get - error)" io.stepd.Step.PermissionDenied "Events of a stranger are refused"
is "$(request org.varlink.service.GetInfo | json_get - 'p["interfaces"]')" '["org.varlink.service", "io.stepd.Step"]' \
	"GetInfo of a stranger is answered"
as="--uid $operator --gid $group"
is "$(refused Wait | cut -d' ' -f1)" PermissionDenied "Wait of an operator is refused"
is "$(reply 'p["state"]' Describe)" running "Describe of an operator is answered"

# ---- the contents of the directory's files --------------------------------------------------------
# Nothing that the methods deny: who may not follow the events may not read them either.
dir=$(dirname "$(socket)")
reads() { # UID GID FILE
	setpriv --reuid "$1" --regid "$2" --clear-groups cat "$dir/$3" >"$tmpdir/read" 2>&1
}
as=
is "$(request Notify '{"message": "the colour is blue"}')" '{"parameters":{}}' "Notify of root is accepted"
ok "root can read the events" reads 0 0 events.jsonl
ok "the file of events has root's message" grep -q "the colour is blue" "$tmpdir/read"
fails "somebody else can't read the events, which the method denies him" reads $stranger $stranger events.jsonl
fails "somebody else can't read the spec" reads $stranger $stranger spec.json
ok "somebody else can read the state" reads $stranger $stranger state.json
unlike "$(cat "$tmpdir/read")" "blue|sleep" "the state has neither messages nor commands"
# Whether files in that file system can have such a list at all: one that lets user 1 read.
: >"$run/listed"
listed=$(python3 -c 'import os, struct, sys
entries = ((1, 6, -1), (2, 4, 1), (4, 0, -1), (16, 4, -1), (32, 0, -1))
acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
os.setxattr(sys.argv[1], "system.posix_acl_access", acl)' "$run/listed" 2>&1)
rm "$run/listed"
if [ -z "$listed" ]; then
	ok "the owner can read the events" reads $owner $owner events.jsonl
	ok "an operator can read the events" reads $operator $group events.jsonl
	fails "the owner can't write the events" \
		setpriv --reuid $owner --regid $owner --clear-groups sh -c 'echo >>"$1"' - "$dir/events.jsonl"
else
	skip 3 "no access control lists here: $(printf '%s' "$listed" | tail -n 1)"
fi

as="--uid $owner --gid $owner"
follow Wait >"$tmpdir/waited" &
waiter=$!
eventually test -s "$tmpdir/waited"
is "$(request Terminate '{"grace_ms": 0}')" '{"parameters":{}}' "Terminate of the owner is accepted"
as=
wait "$agent"
wait $waiter
is "$(json_get "$tmpdir/waited" 'docs[-1]["parameters"]["state"]')" ended "Wait of the owner has the step's end"

# Without an agent the file is all there is.
start_step --config "$tmpdir/stepd.conf" --proctrack "$tracker" --uid $owner --gid $owner -- sh -c 'echo up; sleep 600'
has_begun() {
	[ "$(json_get "$(step_dir 0)/events.jsonl" 'any(e.get("state") == "running" for e in docs)')" = true ]
}
eventually has_begun
kill_agent
for who in $owner $stranger; do
	setpriv --reuid $who --regid $who --clear-groups "$stepctl" events "$job.0" \
		>"$tmpdir/events-$who" 2>"$tmpdir/events-$who.err"
	echo $? >"$tmpdir/events-$who.status"
done
is "$(cat "$tmpdir/events-$stranger.status")" 3 "stepctl events of somebody else is refused without an agent"
like "$(cat "$tmpdir/events-$stranger.err")" "only root, the step's owner and the operator group may read '.*/events.jsonl'" \
	"the refusal of a dead agent's events names the users that are allowed"
like "$(cat "$tmpdir/events-$owner")" "running" "stepctl events of the owner shows a dead agent's events"
"$stepd" adopt -q "$job.0" &
adopter=$!
eventually running 0
eventually has_adoption 0
dir=$(dirname "$(socket)")
fails "somebody else can't read the events of an adopted step" reads $stranger $stranger events.jsonl
is "$(request Terminate '{"grace_ms": 0}')" '{"parameters":{}}' "Terminate of an adopted step is accepted"
wait $adopter
nothing_left "the job leaves no cgroup, process or file behind"

done_testing
