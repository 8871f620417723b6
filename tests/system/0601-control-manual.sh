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

has " $(constant CONTROL_FRAME_MAX) bytes" "the manual has the most bytes of a call"
has " $(constant CONTROL_DEPTH_MAX) deep" "the manual has how deep a call may nest"
has " $(constant CONTROL_VALUES_MAX) values" "the manual has the most values of a call"
has " $(constant CONTROL_CALL_TIMEOUT_MS) ms from" "the manual has the time limit of a call"
has "are at most $(constant CONTROL_CONNECTIONS_MAX)," "the manual has the most connections"
has "has $(constant CALLS_PER_TURN) calls handled" "the manual has the most calls of a turn"
has "has $(constant CONTROL_SMALL_FRAME_MAX) bytes and $(constant CONTROL_SMALL_VALUES) values" \
	"the manual has the bounds of a stranger's call"
budget() { # ACCESS: milliseconds of a turn
	sed -n "s/^	\[CONTROL_$1\] = \([0-9]*\),$/\1/p" "$top_srcdir/stepd/control/conn.c"
}
accepting() { # LISTENER
	sed -n "s/^	\[LISTENER_$1\] = {\([0-9]*\), .*/\1/p" "$top_srcdir/stepd/control/server.c"
}
has "$(budget AGENT) to root's, $(budget OWNER) to those of the owner" "the manual has the time of root's and the owner's calls in a turn"
has "$(budget OPERATOR) to those of the operator group, and $(budget EVERYBODY) to those of everybody else" \
	"the manual has the time of the operators' and all others' calls in a turn"
has "$(accepting AGENT) ms at .Pa socket.agent , $(accepting OWNER) ms at .Pa socket.owner and $(accepting ALL) ms at .Pa socket , and takes $(constant ACCEPTS_LEAST) at" \
	"the manual has the time of accepting connections in a turn"
has "is at most $(($(constant CONTROL_MEMORY_MAX) >> 20)) MiB" "the manual has the most memory of the socket"
shares=$(sed -n 's/.*\[CONTROL_\(OWNER\|OPERATOR\|EVERYBODY\)\] = {\([0-9]*\), \([0-9]*\)}.*/\1 \2 \3/p' \
	"$top_srcdir/stepd/control/conn.c")
is "$(echo "$shares" | wc -l)" 3 "the source has shares of connections for three classes"
set -- $shares
has "the owner has $2," "the manual has the owner's share of connections"
has "group have $5 each" "the manual has an operator's share of connections"
has "access of everybody has $8, and all those together have $9;" "the manual has the shares of connections of a stranger and of all strangers"

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
isnt "$(methods_of ask)" "" "the interface has methods"
is "$(section ask)" "$(methods_of ask)" "the manual has the methods that operators may call"
is "$(section owner)" "$(methods_of owner)" "the manual has the methods that the owner may call as well"

for error in InterfaceNotFound MethodNotFound InvalidParameter ExpectedMore; do
	has "Sy org.varlink.service.$error" "the manual has the error $error"
done
for error in PermissionDenied TooManyConnections Failed; do
	has "Sy io.stepd.Step.$error" "the manual has the error $error"
	ok "the interface has the error $error" grep -q "^error $error " "$interface"
done

# ---- the installed file is the agent's description --------------------------------------------------
step -n 1 -- sleep 60 &
launcher=$!
eventually running 0
agent=$(state_of 0 agent_pid)
socket=$(step_dir 0)/socket
is "$(python3 "$top_srcdir/tests/lib/varlink.py" call "$socket" \
	org.varlink.service.GetInterfaceDescription '{"interface":"io.stepd.Step"}' | json_get - 'p["description"]')" \
	"$(cat "$interface")" "the agent's description is the interface file"

# ---- the example ---------------------------------------------------------------------------------
if command -v socat >/dev/null; then
	awk '/^printf/ { on = 1 } /^\.Ed/ { on = 0 } on' "$page" | sed 's/\\e/\\/g' >"$tmpdir/example"
	ln -s "${socket%/socket}" "$tmpdir/step"
	sed -i "s|/run/stepd/n1_7.0|$tmpdir/step|" "$tmpdir/example"
	is "$(sh "$tmpdir/example" | tr -d '\0' | json_get - 'p["step"]')" "$job.0" \
		"the manual's example with socat works"
else
	skip 1 "socat is not installed"
fi
kill "$agent"
wait "$launcher"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
