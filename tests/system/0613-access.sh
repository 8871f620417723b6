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
as="--uid $owner --gid $owner"
follow Wait >"$tmpdir/waited" &
waiter=$!
eventually test -s "$tmpdir/waited"
is "$(ask Terminate '{"grace_ms": 0}')" '{"parameters":{}}' "the owner ends it"
as=
wait "$agent"
wait $waiter
is "$(tail -n 1 "$tmpdir/waited" | field 'p["state"]')" ended "and is told so"
nothing_left "nothing is left"

done_testing
