#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# steprun over ssh: a server of the test's own, with its own keys and port, plays two hosts.
# shellcheck source=tests/lib/steprun.sh
. "${top_srcdir:?}/tests/lib/steprun.sh"

sshd=$(command -v sshd || echo /usr/sbin/sshd)
[ -x "$sshd" ] && command -v ssh-keygen >/dev/null || skip_all "needs openssh-server"
[ "$(id -u)" = 0 ] || skip_all "needs root"
keys=$tmpdir/keys
mkdir -m 700 "$keys"
ssh-keygen -q -t ed25519 -N '' -f "$keys/host"
ssh-keygen -q -t ed25519 -N '' -f "$keys/user"
cp "$keys/user.pub" "$keys/authorized"
# Debian's sshd needs it. It stays: another suite's sshd may need it, too.
[ -d /run/sshd ] || mkdir -m 755 /run/sshd
port=$((20000 + $$ % 10000))
cat >"$keys/config" <<END
Port $port
ListenAddress 127.0.0.1
HostKey $keys/host
AuthorizedKeysFile $keys/authorized
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
PermitUserEnvironment no
# What root starts a shell with here (it may wait for a lock) is none of this test's business.
SetEnv HOME=$keys
AcceptEnv STEPD_*
MaxStartups 100
END
cat >"$keys/client" <<END
Host n1 n2
	HostName 127.0.0.1
	Port $port
	User root
	IdentityFile $keys/user
	IdentitiesOnly yes
	UserKnownHostsFile /dev/null
	StrictHostKeyChecking no
	LogLevel ERROR
	SendEnv STEPD_*
END
"$sshd" -D -f "$keys/config" -E "$keys/log" &
server=$!
at_exit "end_child TERM $server; wait $server 2>/dev/null"
eventually sh -c "grep -q 'Server listening' '$keys/log'" || bail "no sshd: $(cat "$keys/log")"
ssh -F "$keys/client" -o BatchMode=yes n1 true 2>"$keys/err" || skip_all "sshd lets nobody in: $(head -n 1 "$keys/err")"

over="ssh:-F $keys/client"
is "$(srun_here -w 'n[1-2]' -n 4 --launcher "$over" -- sh -c 'echo $SLURM_PROCID $SLURMD_NODENAME' | sort | tr '\n' ' ')" \
	"0 n1 1 n1 2 n2 3 n2 " "tasks run on both hosts over ssh"
head -c 1000000 /dev/urandom >"$tmpdir/bytes"
srun_here -w n1,n2 -n 2 -i 1 --launcher "$over" cat <"$tmpdir/bytes" | cmp - "$tmpdir/bytes"
is $? 0 "bytes pass through ssh unchanged, there and back"
# The task writes when both sides have found that frames arrive.
{
	eventually grep -aq '^@stepd 0 frames' "$tmpdir/tap"
	echo
} | srun_here -w n1 --launcher "exec:ssh -F $keys/client %h %q | tee $tmpdir/tap" \
	sh -c 'read -r line; cat "$0"' "$tmpdir/bytes" | cmp - "$tmpdir/bytes"
is $? 0 "bytes of a task pass through ssh unchanged"
ok "bytes travel through ssh without being encoded" sh -c "LC_ALL=C grep -aq '^@stepd 0 out #' '$tmpdir/tap'"
srun_here -w n1 --launcher "exec:ssh -tt -F $keys/client %h %q | tee $tmpdir/tap" cat "$tmpdir/bytes" </dev/null |
	cmp - "$tmpdir/bytes"
is $? 0 "bytes of a task pass through ssh with a terminal unchanged"
fails "bytes travel through a terminal in lines" sh -c "LC_ALL=C grep -aq '^@stepd 0 out #' '$tmpdir/tap'"
srun_here -q -w n1,n2 --launcher "$over" -- sh -c 'exit $((3 + SLURM_PROCID))' 2>/dev/null
is $? 4 "the status arrives over ssh"
is "$(srun_here -w n1 --launcher "$over" -- echo "it's  one word" 2>&1)" "it's  one word" \
	"the remote shell does not split arguments"

begin -w n1,n2 --launcher "$over" --attachable --input attach -- sh -c 'echo up; read -r line; echo "$SLURM_PROCID: $line"'
eventually has_lines "$tmpdir/out" 2
echo typed | timeout -k 5 300 "$steprun" attach -w n1,n2 --launcher "$over" --stdin --tail "$job.0" >"$tmpdir/shown" 2>"$tmpdir/shown.err"
is "$? $(sort "$tmpdir/shown" | tr '\n' ' ')$(cat "$tmpdir/shown.err")" "0 0: typed 1: typed up up " \
	"a client over ssh shows both hosts, and types to both"
finish
is "$status" 0 "a step on two hosts with a client succeeds"

begin -w n1,n2 --launcher "$over" -- sh -c 'echo up; exec sleep 300'
eventually has_lines "$tmpdir/out" 2
kill -9 "$(relays | head -n 1)"
finish
is "$status" 125 "a lost connection fails the step"
like "$(cat "$tmpdir/err")" "node n[12] is lost: its launcher killed by signal 9" \
	"the node of a lost connection is named"
nothing_left_soon "a lost connection leaves no cgroup, process or file behind"

begin -w n1,n2 --launcher "$over" -- sh -c 'echo up; exec sleep 300'
eventually has_lines "$tmpdir/out" 2
kill -9 "$pid"
finish 2>/dev/null
nothing_left_soon "a steprun killed over ssh leaves no cgroup, process or file behind"

out=$(srun_here -w n1,n2 --launcher "$over" --stepd /nonexistent/stepd -- true 2>&1)
is "$?" 125 "a missing stepd on a host gives 125"
like "$out" "/nonexistent/stepd" "the remote shell's message of a missing stepd is shown"
done_testing
