#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The tasks of another user have a session keyring of their own, which no third one can prepare.
. "${top_srcdir:?}/tests/lib/step.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root"
cp "${top_builddir:?}/tests/lib/keyring" "$tmpdir/keyring"
chmod 755 "$tmpdir/keyring"
"$tmpdir/keyring" show >/dev/null || skip_all "this kernel or container has no keyrings"

out=$(step --uid 65534 --gid 65534 --chdir / -- "$tmpdir/keyring" show)
is "$out" _ses "tasks get a keyring without a name"

mkfifo "$tmpdir/hold"
"$tmpdir/keyring" lure stepd 64999 <"$tmpdir/hold" >"$tmpdir/ready" &
exec 8>"$tmpdir/hold"
ok "another user makes a keyring that all may use" eventually grep -q ready "$tmpdir/ready"
out=$(step --uid 65534 --gid 65534 --chdir / -- "$tmpdir/keyring" show)
is "$out" _ses "a task does not get the keyring that another user made"
exec 8>&-
wait
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
