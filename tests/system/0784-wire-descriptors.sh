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
is $? 0 "a step takes both"
unlike "$out" '^2[01]$' "its tasks have neither"
unlike "$out" "$secret" "nor the secret"
printf '{"job": %d, "argv": ["true"], "wire": {"listen_fd": 20, "secret_fd": 21}}' "$job" >"$tmpdir/spec"
ok "stepd serve takes them too" with_fds "$stepd" serve --runtime-dir "$run" --spec "$tmpdir/spec"
ok "check-spec asks for none" "$stepd" check-spec "$tmpdir/spec"
out=$(with_fds "$stepd" check-spec "$tmpdir/spec")
unlike "$out" "$secret" "and shows no secret"

refused() { # PATTERN NAME ARG...
	pattern=$1 name=$2
	shift 2
	out=$(with_fds "$stepd" run --runtime-dir "$run" --job "$job" "$@" -- echo ran 2>&1)
	is $? 125 "$name: nothing starts"
	like "$out" "$pattern" "$name: the reason"
}
refused 'wire.listen_fd: 21 is no TCP socket' "no socket" --wire-listen-fd 21
refused 'wire.listen_fd: 99 is no open descriptor; hand over the listening socket' "no descriptor" --wire-listen-fd 99
refused 'wire.secret_fd: 99 is no open descriptor' "no secret" --wire-secret-fd 99
refused 'wire.secret_fd: read the secret from descriptor 20' "a secret that can't be read" --wire-secret-fd 20
secret=short
refused 'wire.secret_fd: the secret has 5 bytes, less than 16' "a short secret" --wire-secret-fd 21
secret=a-secret-of-this-test-0123456789

# Executed anew, and taken over.
python3 "$tmpdir/with-fds" "$secret" "$stepd" run --runtime-dir "$run" --job "$job" --proctrack "$tracker" \
	--wire-listen-fd 20 --wire-secret-fd 21 -- sleep 60 2>"$tmpdir/err" &
agent=$!
eventually running 0
spec=$(cat "$run"/*_"$job".0/spec.json)
like "$spec" '"listen_fd":20,"secret_fd":21' "the step's document names them"
unlike "$(cat "$run"/*_"$job".0/*.json)" "$secret" "and no file of the step has the secret"
ok "the agent executes itself anew" "$stepctl" reexec "$job.0"
ok "and goes on" "$stepctl" show "$job.0"
kill -KILL "$agent"
wait "$agent" 2>/dev/null
"$stepd" adopt --runtime-dir "$run" "$job.0" 2>"$tmpdir/err" &
agent=$!
eventually "$stepctl" show "$job.0" >/dev/null 2>&1
ok "another one takes the step over" "$stepctl" show "$job.0"
unlike "$(cat "$tmpdir/err")" "wire" "without a word of them"
ok "which can be told to end" "$stepctl" terminate "$job.0"
wait "$agent"
is $? 143 "and ends it"
rm -rf "$run"/*_"$job".0
nothing_left "nothing is left"
done_testing
