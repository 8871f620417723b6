#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The descriptors that wire names: an agent that starts a step takes them, one that takes it over or
# goes on with it in another program needs none, and tasks have neither them nor the secret.
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

command -v python3 >/dev/null || skip_all "needs python3"
secret=a-secret-of-this-test-0123456789

# Executes the arguments with a listening socket as 20 and the secret behind 21.
cat >"$tmpdir/with-fds" <<'PYTHON'
import os, socket, sys
listening = socket.socket()
listening.bind(("127.0.0.1", 0))
listening.listen()
os.dup2(listening.fileno(), 20)
out, into = os.pipe()
os.write(into, sys.argv[1].encode())
os.close(into)
os.dup2(out, 21)
os.execvp(sys.argv[2], sys.argv[2:])
PYTHON
with_fds() { # COMMAND ARG...
	python3 "$tmpdir/with-fds" "$secret" "$@"
}

out=$(with_fds "$stepd" run --runtime-dir "$run" --job "$job" --proctrack "$tracker" \
	--wire-listen-fd 20 --wire-secret-fd 21 --wire-addresses 127.0.0.1:9 -- \
	sh -c 'ls /proc/self/fd; env' 2>&1)
is $? 0 "a step accepts the descriptors of a socket and a secret"
unlike "$out" '^2[01]$' "tasks do not have the descriptors of wire"
unlike "$out" "$secret" "tasks do not have the secret of wire"
printf '{"job": %d, "argv": ["true"], "wire": {"listen_fd": 20, "secret_fd": 21}}' "$job" >"$tmpdir/spec"
ok "stepd serve accepts the descriptors of a socket and a secret" with_fds "$stepd" serve --runtime-dir "$run" --spec "$tmpdir/spec"
ok "check-spec accepts a spec whose descriptors are not open" "$stepd" check-spec "$tmpdir/spec"
out=$(with_fds "$stepd" check-spec "$tmpdir/spec")
unlike "$out" "$secret" "check-spec prints no secret"

refused() { # PATTERN NAME ARG...
	pattern=$1 name=$2
	shift 2
	out=$(with_fds "$stepd" run --runtime-dir "$run" --job "$job" "$@" -- echo ran 2>&1)
	is $? 125 "wire with $name is refused"
	like "$out" "$pattern" "the refusal of wire with $name has the reason"
}
refused 'wire.listen_fd: 21 is not a TCP socket' "no socket" --wire-listen-fd 21
refused 'wire.listen_fd: 99 is not an open descriptor; pass the listening socket' "no descriptor" --wire-listen-fd 99
refused 'wire.secret_fd: 99 is not an open descriptor' "no secret" --wire-secret-fd 99
refused 'wire.secret_fd: read the secret from descriptor 20' "a secret that can't be read" --wire-secret-fd 20
secret=short
refused 'wire.secret_fd: the secret has 5 bytes, less than 16' "a short secret" --wire-secret-fd 21
secret=a-secret-of-this-test-0123456789

# Executed anew, and taken over.
python3 "$tmpdir/with-fds" "$secret" "$stepd" run --runtime-dir "$run" --job "$job" --proctrack "$tracker" \
	--wire-listen-fd 20 --wire-secret-fd 21 -- sleep 60 2>"$tmpdir/err" &
agent=$!
eventually running 0
is "$(json_get "$(step_dir 0)/spec.json" '[wire["listen_fd"], wire["secret_fd"]]')" "[20, 21]" \
	"the step's spec has the descriptors of wire"
unlike "$(cat "$run"/*_"$job".0/*.json)" "$secret" "no file of the step has the secret"
ok "stepctl reexec of a step with wire succeeds" "$stepctl" reexec "$job.0"
ok "the agent of a step with wire goes on after an upgrade" "$stepctl" show "$job.0"
kill_agent
"$stepd" adopt --runtime-dir "$run" "$job.0" 2>"$tmpdir/err" &
agent=$!
eventually "$stepctl" show "$job.0" >/dev/null 2>&1
ok "a step with wire is adopted without descriptors" "$stepctl" show "$job.0"
unlike "$(cat "$tmpdir/err")" "wire" "adopt of a step with wire reports nothing of wire"
ok "terminate of an adopted step with wire succeeds" "$stepctl" terminate "$job.0"
wait "$agent"
is $? 143 "an adopted step with wire ends with 143"
rm -rf "$run"/*_"$job".0
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
