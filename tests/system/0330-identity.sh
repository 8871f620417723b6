#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A step as another user, started by root: nothing of root is left in a task.
. "${top_srcdir:?}/tests/lib/step.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root"

out=$(step --uid nobody -- sh -c 'id -u; id -g; id -G; cat /proc/self/status')
nobody_groups=$(id -G nobody)
is "$(printf '%s\n' "$out" | head -3 | tr '\n' '/')" "$(id -u nobody)/$(id -g nobody)/$nobody_groups/" \
	"uid, gid and groups are the user's"
uid=$(id -u nobody)
like "$out" "^Uid:	$uid	$uid	$uid	$uid\$" "real, effective, saved and file system uid"
for set in Inh Prm Eff Amb; do
	like "$out" "^Cap$set:	0000000000000000\$" "no capability is left: $set"
done
like "$out" "^SigBlk:	0000000000000000\$" "no signal is blocked"
like "$out" "^SigIgn:	0000000000000000\$" "no signal is ignored"
like "$out" "^NoNewPrivs:	0\$" "no_new_privs is not set unasked"
like "$(step --uid nobody --no-new-privs -- cat /proc/self/status)" "^NoNewPrivs:	1\$" "asked for, it is"

out=$(sh -c 'trap "" HUP PIPE USR1; exec "$@"' sh "$stepd" run --job "$job" -- cat /proc/self/status)
like "$out" "^SigIgn:	0000000000000000\$" "what the agent's caller ignores is reset for tasks"

out=$(step --uid 65533 --gid 65532 --groups 11,12 -- sh -c 'id -u; id -g; id -G' | tr '\n' '/')
is "$out" "65533/65532/65532 11 12/" "ids that no database knows"
out=$(step --uid 65533 -- true 2>&1)
is $? 125 "a uid that the database does not know, without a gid"
like "$out" "--?gid" "names the remedy"
out=$(step --uid nosuchuser -- true 2>&1)
like "$out" "nosuchuser" "a user that does not exist is named"

# Descriptors of the agent's caller do not reach a task.
out=$(exec 7</etc/passwd 8</etc/shadow && step --uid nobody -- sh -c 'ls /proc/$$/fd' | tr '\n' ' ')
is "$out" "0 1 2 " "descriptors above 2 are closed"

mkdir "$tmpdir/private" && chmod 700 "$tmpdir/private"
out=$(step --uid nobody --chdir "$tmpdir/private" -- true 2>&1)
is $? 126 "a directory that root may enter and the user not"
like "$out" "can't change to the directory '$tmpdir/private': Permission denied" "is refused as the user"
out=$(step --uid nobody --output "$tmpdir/private/out" -- true 2>&1)
isnt $? 0 "a file in it likewise"
like "$out" "Permission denied" "with the reason"
is "$(ls "$tmpdir/private")" "" "and root has made no file there"

mkdir "$tmpdir/theirs" && chown nobody "$tmpdir/theirs"
ln -s /etc/stepd-test-target "$tmpdir/theirs/link"
step -q --uid nobody --output "$tmpdir/theirs/link" -- echo x 2>/dev/null
is "$(ls /etc/stepd-test-target 2>/dev/null)" "" "a link to where only root may write leads nowhere"
step --uid nobody --umask 0027 --output "$tmpdir/theirs/out.%t" -n 2 -- echo hello
is "$(stat -c '%U %a' "$tmpdir/theirs/out.1")" "nobody 640" "files are the user's, less the umask"
step --uid nobody --umask 0077 --output "$tmpdir/theirs/shared" -n 2 -- echo hello
is "$(stat -c '%U %a' "$tmpdir/theirs/shared")" "nobody 600" "shared ones too"

is "$(step --uid nobody -- sh -c 'echo $USER $LOGNAME $HOME $SHELL')" \
	"nobody nobody $(getent passwd nobody | cut -d: -f6,7 | tr : ' ')" "USER, LOGNAME, HOME and SHELL"
out=$(step --rlimit nofile=77:99 --rlimit core=0 --nice=5 --oom-score-adj 300 -- \
	sh -c 'ulimit -Sn; ulimit -Hn; ulimit -c; nice; cat /proc/self/oom_score_adj' | tr '\n' ' ')
is "$out" "77 99 0 5 300 " "limits, nice and oom_score_adj"
# shellcheck disable=SC3045 # dash and bash have it
is "$(step -- sh -c 'ulimit -Sn')" "$(ulimit -Sn)" "the limit of open files is the caller's, not the agent's"
is "$(step -- cat /proc/self/oom_score_adj)" "$(cat /proc/self/oom_score_adj)" "oom_score_adj likewise"

if command -v keyctl >/dev/null; then
	# shellcheck disable=SC2016 # the inner shell's
	out=$(keyctl session - sh -c 'keyctl add user stepd-test secret @s >&2; exec "$@"' sh \
		"$stepd" run --job "$job" --uid nobody -n 2 -- sh -c 'keyctl show @s; keyctl add user mine x @s' 2>"$tmpdir/err")
	unlike "$out" "stepd-test" "root's session keyring is not a task's"
	like "$out" " $uid +$(id -g nobody) +keyring: " "it is the user's own"
	is "$(printf '%s\n' "$out" | grep -c '^[0-9]*$')" 2 "who may add to it"
	out=$(step --uid nobody -- keyctl show @s)
	unlike "$out" "user: mine" "each step has another"
else
	skip 4 "needs keyctl"
fi

# While it is held or runs, the user can't look into a task that has root's memory.
out=$(step --uid nobody -- sh -c 'cat /proc/$PPID/environ 2>&1; kill -0 $PPID 2>&1; echo $?' | tail -1)
is "$out" 1 "the user can't signal the agent"

out=$(setpriv --reuid=65534 --regid=65534 --clear-groups env XDG_RUNTIME_DIR= STEPD_RUNTIME_DIR= \
	"$stepd" run --uid root -- true 2>&1)
isnt $? 0 "a user can't start a step as root"
nothing_left "nothing is left"
done_testing
