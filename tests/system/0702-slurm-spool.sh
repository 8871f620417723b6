#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Sockets come and go with the agents, and the directory they are in belongs to one adapter, and never
# to a slurmd.
# shellcheck source=tests/lib/slurm.sh
. "${top_srcdir:?}/tests/lib/slurm.sh"

slurm_state() {
	python3 -c 'import sys, slurm_client
try:
    print(slurm_client.Client(sys.argv[1], slurm_client.V26_11).state())
except (OSError, slurm_client.Closed) as e:
    print(e)' "$spool/$1"
}

refused() { # REGEX NAME ARG...
	refused_like=$1
	refused_name=$2
	shift 2
	out=$(timeout 300 "$adapter" --runtime-dir "$run" --spool "$spool" "$@" 2>&1)
	is $? 1 "the adapter does not start with $refused_name"
	like "$out" "$refused_like" "the adapter reports why it does not start with $refused_name"
}

# ---- whose directory ---------------------------------------------------------------------------
for mark in cred_state conf-cache hwloc_topo_whole.xml slurmd.socket; do
	mkdir -p "$spool"
	: >"$spool/$mark"
	refused "'$spool' is the spool directory of a slurmd \($mark is there\).*--spool" "a slurmd's $mark in its spool directory"
	rm "$spool/$mark"
done
: >"$spool/cred_state"
begin_adapter --force
end_adapter
is "$adapter_status" 0 "the adapter starts in a slurmd's directory with --force"
rm -r "$spool"

mkdir "$spool"
chmod 777 "$spool"
refused "can be written by others.*chmod go-w" "a directory of everybody"
rm -r "$spool"
mkdir "$spool"
python3 -c 'import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
time.sleep(600)' "$spool/n1_9.0" &
listener=$!
agents="$agents $listener"
eventually has_socket n1_9.0
eventually sh -c "grep -q '$spool/n1_9.0' /proc/net/unix"
refused "a process answers at '$spool/n1_9.0'.*--spool" "a socket that answers"
begin_adapter --force
begin_agent n1 9.0 "$(id -u)"
eventually grep -q "step 9.0 has no socket: another process answers at" "$tmpdir/adapter.log"
like "$(cat "$tmpdir/adapter.log")" "step 9.0 has no socket: another process answers" \
	"the adapter does not replace a socket that answers, even with --force"
end_adapter
ok "the adapter does not remove a socket that answers" has_socket n1_9.0
kill "$listener" "$agent_pid"
wait "$listener" "$agent_pid" 2>/dev/null
rm -r "$spool" "${run:?}"/*

# ---- steps come and go -------------------------------------------------------------------------
begin_adapter
is "$(stat -c %a "$spool")" 755 "the adapter makes the spool directory, for everybody to read"
refused "another stepd-slurm-socket has '$spool'" "another adapter in its directory"
begin_agent n1 7.0 "$(id -u)"
ok "a step that begins has a socket" eventually has_socket n1_7.0
is "$(stat -c %a "$spool/n1_7.0")" 666 "a step's socket is open to everybody"
is "$(slurm_state n1_7.0)" 2 "a step's socket answers"
begin_agent n2 7.batch "$(id -u)"
ok "a batch step of another node has a socket" eventually has_socket n2_7.4294967291
batch=$agent_pid
begin_agent n1 7.1 "$(id -u)"
eventually has_socket n1_7.1
kill -9 "$agent_pid"
wait "$agent_pid" 2>/dev/null
ok "the socket of a killed agent is removed" eventually no_socket n1_7.1
begin_agent n1 7.1 "$(id -u)"
ok "a step that was adopted has a socket again" eventually has_socket n1_7.1
rm "$run/n1_7.1/socket"
ok "the socket of an agent that closes its own is removed" eventually no_socket n1_7.1
kill "$agent_pid"
rm -r "$run/n1_7.1"
mkdir "$run/specs" "$run/n1_8.0" "$run/n1_8.1"
echo nonsense >"$run/n1_8.0/state.json"
: >"$run/n1_8.0/socket"
ln -s "$run/n1_7.0" "$run/n1_7.9"
begin_agent n1 7.2 "$(id -u)"
eventually has_socket n1_7.2
is "$(ls "$spool" | tr '\n' ' ')" "n1_7.0 n1_7.2 n2_7.4294967291 " "a directory that is no step has no socket"
rm -r "$run/specs" "$run/n1_8.0" "$run/n1_8.1" "$run/n1_7.9"

# It does nothing while nothing happens.
switches() {
	awk '/^voluntary_ctxt/ { print $2 }' "/proc/$adapter_pid/status"
}
eventually sh -c "awk '/^State/ { exit \$2 != \"S\" }' /proc/$adapter_pid/status"
before=$(switches)
sleep 1
is "$(switches)" "$before" "the adapter never wakes in a quiet second"

# ---- an adapter that is killed -----------------------------------------------------------------
kill -9 "$adapter_pid"
wait "$adapter_pid" 2>/dev/null
ok "the sockets of a killed adapter stay" has_socket n2_7.4294967291
kill -9 "$batch"
wait "$batch" 2>/dev/null
: >"$spool/n1_7.7"
: >"$spool/other"
begin_adapter
ok "the next adapter removes the socket of a step that has ended" no_socket n2_7.4294967291
is "$(slurm_state n1_7.0)" 2 "the next adapter takes over the other sockets"
ok "the next adapter does not touch other files" test -f "$spool/other"
begin_agent n1 7.7 "$(id -u)"
eventually grep -q "step 7.7 has no socket" "$tmpdir/adapter.log"
like "$(cat "$tmpdir/adapter.log")" "step 7.7 has no socket: '$spool/n1_7.7' is not a socket" \
	"the adapter reports a file in a socket's place"
rm "$spool/n1_7.7" "$spool/other"

# Another's socket in the place of ours is not ours to remove.
rm "$spool/n1_7.2"
python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$spool/n1_7.2"
end_adapter
is "$adapter_status" 0 "the adapter ends by SIGTERM"
is "$(ls "$spool")" "n1_7.2" "the adapter removes its own sockets, and no other"

# ---- what it can't do --------------------------------------------------------------------------
long=$tmpdir/$(printf '%080d' 0)
spool=$long
begin_adapter
eventually grep -q "7.0 has no socket.*longer than the 107 bytes" "$tmpdir/adapter.log"
like "$(cat "$tmpdir/adapter.log")" "step 7.0 has no socket: '$long/n1_7.0' is longer than the 107 bytes.*--spool" \
	"the adapter reports a path that is too long for a socket"
end_adapter
spool=$tmpdir/spool
begin_adapter
rm -r "$run"
wait "$adapter_pid"
is $? 1 "the adapter ends with the runtime directory"
adapter_pid=
like "$(cat "$tmpdir/adapter.log")" "the runtime directory '$run' has gone" \
	"the adapter reports that the runtime directory has gone"
is "$(ls "$spool")" "" "the adapter leaves no socket when the runtime directory has gone"
out=$("$adapter" --runtime-dir "$run" --spool "$spool" 2>&1)
is $? 1 "the adapter does not start without a runtime directory"
like "$out" "find the runtime directory '$run' \(--runtime-dir\): No such file" \
	"the adapter reports a missing runtime directory"
out=$("$adapter" --nonsense 2>&1)
is $? 2 "the adapter refuses an unknown option"
out=$("$adapter" more 2>&1)
is $? 2 "the adapter refuses an argument"
mkdir "$run"

# ---- the manual --------------------------------------------------------------------------------
manual=$top_srcdir/doc/stepd-slurm-socket.8
is "$(sed -n 's/^\.It .*Fl -\([a-z-]*\).*/\1/p' "$manual" | sort)" \
	"$("$adapter" --help | sed -n 's/^ *\(-[a-z], \)\{0,1\}--\([a-z-]*\).*/\2/p' | sort)" \
	"the manual has the options of the help"
done_testing
