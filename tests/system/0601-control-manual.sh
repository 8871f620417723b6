#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# stepd-control(7) has the bounds and the methods that the program has, and its example works.
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

page=$top_srcdir/doc/stepd-control.7
interface=$top_srcdir/stepd/control/io.stepd.Step.varlink

# The value of a constant, computed as C does.
constant() { # NAME
	value=$(sed -n "s|^#define $1  *\([^/]*\).*|\1|p" "$top_srcdir"/stepd/control/*.[ch] |
		sed 's/\([0-9]\)u/\1/g')
	echo $(($value)) # text: a variable would have to be a number
}

tr '\n' ' ' <"$page" >"$tmpdir/page"
has() { # TEXT NAME
	ok "$2" grep -q -e "$1" "$tmpdir/page"
}

has " $(constant CONTROL_FRAME_MAX) bytes" "the bytes of a call"
has " $(constant CONTROL_DEPTH_MAX) deep" "how deep it nests"
has " $(constant CONTROL_VALUES_MAX) values" "its values"
has " $(constant CONTROL_CALL_TIMEOUT_MS) ms from" "its time"
has "are at most $(constant CONTROL_CONNECTIONS_MAX)," "connections"
has "has $(constant CALLS_PER_TURN) calls handled" "calls of a turn"
has "has $(constant CONTROL_SMALL_FRAME_MAX) bytes and $(constant CONTROL_SMALL_VALUES) values" \
	"a stranger's call"
budget() { # ACCESS: milliseconds of a turn
	sed -n "s/^	\[CONTROL_$1\] = \([0-9]*\),$/\1/p" "$top_srcdir/stepd/control/room.c"
}
accepting() { # LISTENER
	sed -n "s/^	\[LISTENER_$1\] = {\([0-9]*\), .*/\1/p" "$top_srcdir/stepd/control/server.c"
}
has "$(budget AGENT) to root's, $(budget OWNER) to those of the owner" "the time of root's calls and the owner's"
has "$(budget ASK) to those of the operator group, and $(budget EVERYBODY) to those of everybody else" \
	"and of the others'"
has "$(accepting AGENT) ms at .Pa socket.agent , $(accepting OWNER) ms at .Pa socket.owner and $(accepting ALL) ms at .Pa socket , and takes $(constant ACCEPTS_LEAST) at" \
	"the time of accepting"
has "is at most $(($(constant CONTROL_MEMORY_MAX) >> 20)) MiB" "memory"
shares=$(sed -n 's/.*\[CONTROL_\(OWNER\|ASK\|EVERYBODY\)\] = {\([0-9]*\), \([0-9]*\)}.*/\1 \2 \3/p' \
	"$top_srcdir/stepd/control/room.c")
is "$(echo "$shares" | wc -l)" 3 "the shares are known"
set -- $shares
has "the owner has $2," "the owner's connections"
has "group have $5 each" "an operator's"
has "everybody may has $8, and all those together have $9;" "a stranger's, and all strangers'"

# Who may call a method is the first word of the comment above it; no such word: the agent's user.
methods_of() { # WORD
	awk -v word="$1" '
		/^$/ { kind = "" }
		/^#/ && kind == "" { kind = $2; sub(/[:,]$/, "", kind) }
		/^method / && kind == word { sub(/\(.*/, ""); print $2 }' "$interface" | sort
}
section() { # WORD
	awk -v word="$1" '/^\.It Sy / { on = $3 == word } on' "$page" |
		sed -n 's/^\.Fn \([A-Za-z]*\).*/\1/p' | sort
}
isnt "$(methods_of ask)" "" "methods are found in the interface"
is "$(section ask)" "$(methods_of ask)" "who may ask, may ask these"
is "$(section owner)" "$(methods_of owner)" "and the owner also these"

for error in InterfaceNotFound MethodNotFound InvalidParameter ExpectedMore; do
	has "Sy org.varlink.service.$error" "$error"
done
for error in PermissionDenied TooManyConnections Failed; do
	has "Sy io.stepd.Step.$error" "$error"
	ok "which the interface has" grep -q "^error $error " "$interface"
done

# ---- the installed file is what the agent says --------------------------------------------------
step -n 1 -- sleep 60 &
launcher=$!
timeout 900 sh -c "until ls '$run'/*_$job.0/socket >/dev/null 2>&1; do sleep 0.05; done"
agent=$(sed 's/.*"agent_pid":\([0-9]*\).*/\1/' "$run"/*_"$job.0"/state.json)
at_exit "kill $agent 2>/dev/null"
socket=$(echo "$run"/*_"$job".0/socket)
if command -v python3 >/dev/null; then
	python3 "$top_srcdir/tests/lib/varlink.py" call "$socket" \
		org.varlink.service.GetInterfaceDescription '{"interface":"io.stepd.Step"}' |
		python3 -c 'import json, sys; sys.stdout.write(json.load(sys.stdin)["parameters"]["description"])' \
			>"$tmpdir/description"
	ok "the agent's description is the interface file" cmp "$tmpdir/description" "$interface"
else
	skip 1 "python3 is not installed"
fi

# ---- the example ---------------------------------------------------------------------------------
if command -v socat >/dev/null; then
	awk '/^printf/ { on = 1 } /^\.Ed/ { on = 0 } on' "$page" | sed 's/\\e/\\/g' >"$tmpdir/example"
	ln -s "${socket%/socket}" "$tmpdir/step"
	sed -i "s|/run/stepd/n1_7.0|$tmpdir/step|" "$tmpdir/example"
	like "$(sh "$tmpdir/example")" "\"step\":\"$job.0\"" "the example with socat works"
else
	skip 1 "socat is not installed"
fi
kill "$agent"
wait "$launcher"
nothing_left "nothing is left"
done_testing
