#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A step as another user, started by root: nothing of root is left in a task.
. "${top_srcdir:?}/tests/lib/step.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root"

out=$(step --uid nobody -- sh -c 'id -u; id -g; id -G; cat /proc/self/status')
nobody_groups=$(id -G nobody)
is "$(printf '%s\n' "$out" | head -3 | tr '\n' '/')" "$(id -u nobody)/$(id -g nobody)/$nobody_groups/" \
	"a task has the user's uid, gid and groups"
uid=$(id -u nobody)
like "$out" "^Uid:	$uid	$uid	$uid	$uid\$" "a task has the user's real, effective, saved and file system uid"
for set in Inh Prm Eff Amb; do
	like "$out" "^Cap$set:	0000000000000000\$" "a task of another user has no capability in its set $set"
done
like "$out" "^SigBlk:	0000000000000000\$" "a task has no signal blocked"
like "$out" "^SigIgn:	0000000000000000\$" "a task ignores no signal"
like "$out" "^NoNewPrivs:	0\$" "no_new_privs is not set by default"
like "$(step --uid nobody --no-new-privs -- cat /proc/self/status)" "^NoNewPrivs:	1\$" \
	"--no-new-privs sets no_new_privs"

out=$(sh -c 'trap "" HUP PIPE USR1; exec "$@"' sh "$stepd" run --job "$job" -- cat /proc/self/status)
like "$out" "^SigIgn:	0000000000000000\$" "signals that the agent's caller ignores are reset for tasks"

out=$(step --uid 65533 --gid 65532 --groups 11,12 -- sh -c 'id -u; id -g; id -G' | tr '\n' '/')
is "$out" "65533/65532/65532 11 12/" "a task can have ids that no database knows"
out=$(step --uid 65533 -- true 2>&1)
is $? 125 "a uid that the database does not know is refused without a gid"
like "$out" "--?gid" "the refusal of an unknown uid names --gid"
out=$(step --uid nosuchuser -- true 2>&1)
like "$out" "nosuchuser" "a user that does not exist is named"

# Descriptors of the agent's caller do not reach a task.
out=$(exec 7</etc/passwd 8</etc/shadow && step --uid nobody -- sh -c 'ls /proc/$$/fd' | tr '\n' ' ')
is "$out" "0 1 2 " "descriptors above 2 are closed"

mkdir "$tmpdir/private" && chmod 700 "$tmpdir/private"
out=$(step --uid nobody --chdir "$tmpdir/private" -- true 2>&1)
is $? 126 "a directory that root may enter and the user not gives 126"
like "$out" "can't change to the directory '$tmpdir/private': Permission denied" \
	"a directory that the user may not enter is reported"
out=$(step --uid nobody --output "$tmpdir/private/out" -- true 2>&1)
isnt $? 0 "an output file in a directory that the user may not enter is refused"
like "$out" "Permission denied" "the refusal of such an output file has the reason"
is "$(ls "$tmpdir/private")" "" "root creates no file where the user may not"

mkdir "$tmpdir/theirs" && chown nobody "$tmpdir/theirs"
ln -s /etc/stepd-test-target "$tmpdir/theirs/link"
step -q --uid nobody --output "$tmpdir/theirs/link" -- echo x 2>/dev/null
is "$(ls /etc/stepd-test-target 2>/dev/null)" "" "a user's link does not lead root to write elsewhere"
step --uid nobody --umask 0027 --output "$tmpdir/theirs/out.%t" -n 2 -- echo hello
is "$(stat -c '%U %a' "$tmpdir/theirs/out.1")" "nobody 640" \
	"a task's output file belongs to the user and has the umask's mode"
step --uid nobody --umask 0077 --output "$tmpdir/theirs/shared" -n 2 -- echo hello
is "$(stat -c '%U %a' "$tmpdir/theirs/shared")" "nobody 600" \
	"a shared output file belongs to the user and has the umask's mode"

is "$(step --uid nobody -- sh -c 'echo $USER $LOGNAME $HOME $SHELL')" \
	"nobody nobody $(getent passwd nobody | cut -d: -f6,7 | tr : ' ')" "a task has the user's USER, LOGNAME, HOME and SHELL"
out=$(step --rlimit nofile=77:99 --rlimit core=0 --nice=5 --oom-score-adj 300 -- \
	sh -c 'ulimit -Sn; ulimit -Hn; ulimit -c; nice; cat /proc/self/oom_score_adj' | tr '\n' ' ')
is "$out" "77 99 0 5 300 " "a task has the limits, nice value and oom_score_adj of the options"
# shellcheck disable=SC3045 # dash and bash have it
is "$(step -- sh -c 'ulimit -Sn')" "$(ulimit -Sn)" \
	"a task has the caller's limit of open files, not the agent's"
is "$(step -- cat /proc/self/oom_score_adj)" "$(cat /proc/self/oom_score_adj)" \
	"a task has the caller's oom_score_adj, not the agent's"

if command -v keyctl >/dev/null; then
	# shellcheck disable=SC2016 # the inner shell's
	out=$(keyctl session - sh -c 'keyctl add user stepd-test secret @s >&2; exec "$@"' sh \
		"$stepd" run --job "$job" --uid nobody -n 2 -- sh -c 'keyctl show @s; keyctl add user mine x @s' 2>"$tmpdir/err")
	unlike "$out" "stepd-test" "a task does not have root's session keyring"
	like "$out" " $uid +$(id -g nobody) +keyring: " "a task's session keyring belongs to the user"
	is "$(printf '%s\n' "$out" | grep -c '^[0-9]*$')" 2 "a task may add keys to its session keyring"
	out=$(step --uid nobody -- keyctl show @s)
	unlike "$out" "user: mine" "each step has another session keyring"
else
	skip 4 "needs keyctl"
fi

# While it is held or runs, the user can't look into a task that has root's memory.
out=$(step --uid nobody -- sh -c 'cat /proc/$PPID/environ 2>&1; kill -0 $PPID 2>&1; echo $?' | tail -1)
is "$out" 1 "the user can't signal the agent"

out=$(setpriv --reuid=65534 --regid=65534 --clear-groups env XDG_RUNTIME_DIR= STEPD_RUNTIME_DIR= \
	"$stepd" run --uid root -- true 2>&1)
isnt $? 0 "a user can't start a step as root"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
