#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# An agent under steprun ends its step when steprun, or the relay, is killed, whatever it did before:
# opened files as the step's user, was upgraded; and its result reaches steprun after an upgrade.
# shellcheck source=tests/lib/steprun.sh
. "${top_srcdir:?}/tests/lib/steprun.sh"

# A program that may be replaced, as a package manager does it.
bin=$tmpdir/bin
mkdir "$bin"
chmod 755 "$bin"
ln -s "$top_builddir/stepd/cli/plugins" "$bin/plugins"
cp "$stepd" "$bin/stepd"
next=$top_builddir/tests/lib/stepd-next
upgraded() {
	[ "$(grep -c 'continues as version' "$tmpdir/err")" -ge "$1" ]
}
upgrade() { # COUNT: all agents
	cp "$next" "$bin/new" && mv -f "$bin/new" "$bin/stepd"
	# shellcheck disable=SC2046 # pids
	kill -USR2 $(for state in "$run"/*/state.json; do json_get "$state" agent_pid; done)
	eventually upgraded "$1"
}
restore() {
	cp "$stepd" "$bin/new" && mv -f "$bin/new" "$bin/stepd"
}
ends_with() { # NAME PID...
	ends_name=$1
	shift
	kill -9 "$@"
	finish 2>/dev/null
	nothing_left_soon "$ends_name"
}
sleeper='echo up; exec sleep 300'
have_text() { # FILE...
	for file; do
		[ -s "$file" ] || return 1
	done
}

# ---- files that are opened as the user -----------------------------------------------------------
begin -N 2 -n 2 -o "$tmpdir/out.%t" -- sh -c "$sleeper"
eventually have_text "$tmpdir/out.0" "$tmpdir/out.1"
# shellcheck disable=SC2046 # pids
ends_with "relays killed with -o leave no cgroup, process or file behind" $(relays) "$pid"
if [ "$(id -u)" = 0 ]; then
	mkdir "$tmpdir/own" && chown nobody "$tmpdir/own"
	begin -N 2 -n 2 --uid nobody -o "$tmpdir/own/out.%t" -- sh -c "$sleeper"
	eventually have_text "$tmpdir/own/out.0" "$tmpdir/own/out.1"
	is "$(stat -c %U "$tmpdir/own/out.1")" nobody "output files of a step with --uid belong to the user"
	# shellcheck disable=SC2046 # pids
	ends_with "relays killed with -o and --uid leave no cgroup, process or file behind" $(relays) "$pid"
	begin --uid nobody -o "$tmpdir/own/here" -- sh -c "$sleeper"
	eventually have_text "$tmpdir/own/here"
	ends_with "a steprun killed on one node with -o and --uid leaves nothing behind" "$pid"
else
	skip 3 "needs root, to become another user"
fi

# ---- upgrades ------------------------------------------------------------------------------------
if [ ! -x "$next" ]; then
	skip 9 "no second program (make check builds it)"
	done_testing
fi
begin --stepd "$bin/stepd" -N 2 -n 2 --result "$tmpdir/result" -- \
	sh -c 'echo up; while [ ! -e "$0" ]; do sleep 0.05; done; echo down; exit $((4 + SLURM_PROCID))' "$tmpdir/go"
eventually has_lines "$tmpdir/out" 2
ok "the agents of both nodes are upgraded" upgrade 2
: >"$tmpdir/go"
finish
is "$status $(sort "$tmpdir/out" | tr '\n' ' ')" "5 down down up up " \
	"streams and status of upgraded agents arrive"
is "$(json_get "$tmpdir/result" 'len(nodes)')" 2 "the results of upgraded agents arrive"
rm "$tmpdir/go"
restore
rm -f "$tmpdir/out.0" "$tmpdir/out.1"
begin --stepd "$bin/stepd" -N 2 -n 2 -o "$tmpdir/out.%t" -- sh -c "$sleeper"
eventually have_text "$tmpdir/out.0" "$tmpdir/out.1"
ok "the agents of both nodes are upgraded with -o" upgrade 2
# shellcheck disable=SC2046 # pids
ends_with "upgraded agents end when their relays are killed" $(relays) "$pid"
restore
begin --stepd "$bin/stepd" --result "$tmpdir/result" -- sh -c "$sleeper"
eventually has_lines "$tmpdir/out" 1
ok "the agent of one node is upgraded" upgrade 1
kill -TERM "$pid"
finish
is "$status" 143 "a signal ends the step of an upgraded agent on one node"
is "$(json_get "$tmpdir/result" exit_code)" 143 "an upgraded agent on one node writes the result"
restore

# ---- the option ----------------------------------------------------------------------------------
"$stepd" run --job "$job" --print-spec -- true >"$tmpdir/spec"
out=$("$stepd" serve --spec "$tmpdir/spec" --supervisor-fd 7 7<"$tmpdir/spec" 2>&1)
is "$? $out" "125 stepd: error: --supervisor-fd: descriptor 7 is not a socket" "--supervisor-fd refuses what is not a socket"
out=$("$stepd" serve --spec "$tmpdir/spec" --supervisor-fd 7 7<&- 2>&1)
like "$? $out" "^125 .*--supervisor-fd: descriptor 7: Bad file descriptor" \
	"--supervisor-fd refuses a descriptor that is not open"
python3 - "$stepd" "$tmpdir/spec" "$tmpdir/received" <<'EOF'
import socket, subprocess, sys

ours, theirs = socket.socketpair()
agent = subprocess.Popen([sys.argv[1], "serve", "--spec", sys.argv[2], "--keeper-fd",
                          str(theirs.fileno())], pass_fds=[theirs.fileno()])
theirs.close()
with open(sys.argv[3], "wb") as received:
    while data := ours.recv(65536):
        received.write(data)
sys.exit(agent.wait())
EOF
is "$?" 0 "--keeper-fd, which older launchers give, is taken for --supervisor-fd"
is "$(json_get "$tmpdir/received" exit_code)" 0 "the result goes to the socket of --keeper-fd"
unlike "$("$stepd" serve --help; "$stepd" adopt --help)" "keeper" "the older name --keeper-fd is not shown"
nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
