#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What a step opens as its user before its program runs, it opens by the path: never what root's
# agent or the daemon before it happens to hold, by a link of /proc to that.
# shellcheck disable=SC2016 # what stands in single quotes is for the tasks
. "${top_srcdir:?}/tests/lib/step.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root, to be others"
without=${top_builddir:?}/tests/lib/without
user=65533 group=65530
as_user="--uid $user --gid $group"
cd / || bail "no /"

# Files that their modes would give to everybody, in a directory that only root may enter.
private=$tmpdir/private theirs=$tmpdir/theirs
mkdir "$private" "$private/inner" "$theirs"
chmod 700 "$private"
chown $user "$theirs"
echo secret >"$private/file"
echo secret >"$private/inner/file"
echo kept >"$private/log"
chmod 666 "$private"/*log
chmod 777 "$private/inner"

# daemon ARG...: a step whose agent was started by a daemon that left these descriptors open.
daemon() {
	# shellcheck disable=SC2086 # $as_user and $under are words
	timeout 900 $under "$stepd" run -q --job "$job" --proctrack "$tracker" $as_user "$@" \
		6<"$private/inner" 8<"$private" 9<"$private/file" 7>>"$private/log" 2>"$tmpdir/err" </dev/null
}

ln -s /proc/self/fd/9 "$theirs/link"
ln -s "$theirs/link" "$theirs/link2"
ln -s /proc/thread-self/fd/6 "$theirs/dir"
# Where each task has a file of its own, its own process opens it.
for task in 0 1 2 3 4 5 6 7; do
	ln -s /proc/self/fd/7 "$theirs/log.$task"
done
ln -s "$theirs/loop" "$theirs/loop"

# What another user leaves in a directory for all, in the hope that this one's step comes by: links to a
# file that is this one's.
shared=$tmpdir/shared
mkdir -m 1777 "$shared"
for link in link link.0 link.1; do
	setpriv --reuid 65531 --regid 65531 --clear-groups ln -s "$theirs/precious" "$shared/$link"
done
setpriv --reuid 65531 --regid 65531 --clear-groups ln -s "$theirs" "$shared/dir"

for call in "" openat2 "openat2 close_range"; do
	under=
	with="with all of the kernel"
	if [ -n "$call" ]; then
		under="$without $call --"
		with="without $call"
	fi
	for tasks in 1 8; do
		for path in /proc/self/fd/9 /dev/fd/9 "$theirs/link" "$theirs/link2" "$theirs/dir/file" \
			/proc/thread-self/fd/9 /proc/self/fd/8/file /proc/self/maps /proc/self/environ; do
			out=$(daemon -n $tasks --input "$path" -- cat)
			isnt $? 0 "$with: $tasks tasks that read $path don't run"
			is "$out" "" "$with: $tasks tasks read nothing of $path"
		done
		for path in /proc/self/fd/7 /dev/fd/7 "$theirs/log.%t" /proc/self/fd/6/new "$theirs/dir/new.%t"; do
			daemon -n $tasks --output "$path" -- echo "more of a user"
			isnt $? 0 "$with: $tasks tasks that write to $path don't run"
		done
		for path in /proc/self/fd/6 "$theirs/dir" /proc/self/root/tmp /proc/self/cwd; do
			daemon -n $tasks --chdir "$path" --output "$theirs/out" -- pwd
			isnt $? 0 "$with: $tasks tasks don't begin in $path"
		done
	done
	is "$(cat "$private/log")" kept "$with: a task writes nothing to what the daemon holds"
	is "$(ls "$private/inner")" file "$with: a task creates nothing in what the daemon holds"
	out=$(daemon --input "$theirs/loop" -- cat)
	like "$(cat "$tmpdir/err")" "can't open '$theirs/loop' for stdin: it leads through too many links" \
		"$with: a loop of links is reported as one"
	out=$(daemon --input /proc/self/fd/9 -- cat)
	like "$(cat "$tmpdir/err")" "can't open '/proc/self/fd/9' for stdin: it leads through .* /proc" \
		"$with: the refusal of a link of /proc has the reason"
	out=$(daemon --input /proc/version -- cat)
	like "$(cat "$tmpdir/err")" "can't open '/proc/version' for stdin: it is a file of /proc" \
		"$with: files of /proc are refused by their name"
	out=$(daemon --chdir /proc/self/fd/8 -- pwd)
	like "$(cat "$tmpdir/err")" "can't change to the directory '/proc/self/fd/8': it leads through" \
		"$with: a directory by a link of /proc is refused"

	# As the kernel does where it resolves the path itself (fs.protected_symlinks).
	echo precious >"$theirs/precious"
	chown $user "$theirs/precious"
	if [ -n "$call" ] || grep -qsx 1 /proc/sys/fs/protected_symlinks; then
		for path in link link.%t; do
			daemon -n 2 --output "$shared/$path" -- echo gone
			isnt $? 0 "$with: another user's link in a directory for all, $path, is not written through"
			like "$(cat "$tmpdir/err")" "Permission denied" "$with: the refusal of $path has the reason"
		done
		is "$(cat "$theirs/precious")" precious "$with: the target of another user's link is unchanged"
		daemon --chdir "$shared/dir" -- true
		isnt $? 0 "$with: a task does not begin where another user's link leads"
		is "$(daemon --chdir "$shared" --input dir/precious -- cat)" precious \
			"$with: another user's link is followed within a path, as by the kernel"
	else
		skip 7 "fs.protected_symlinks is 0"
	fi
	setpriv --reuid $user --regid $group --clear-groups ln -sf "$theirs/precious" "$shared/own"
	ln -sf "$theirs/precious" "$theirs/roots"
	is "$(daemon --input "$shared/own" -- cat)" precious \
		"$with: the user's own link in a directory for all is followed"
	is "$(daemon --input "$theirs/roots" -- cat)" precious \
		"$with: anybody's link in a directory of the user's is followed"

	# What users write all the time goes on.
	mkdir -p "$theirs/a/b"
	chown $user "$theirs/a/b"
	rm -f "$theirs/a/l" "$theirs/a/abs" "$theirs/a/b/new"
	ln -s ../a/b "$theirs/a/l"
	ln -s "$theirs/a/l/new" "$theirs/a/abs"
	is "$(cd "$theirs" && daemon -n 2 --chdir "a//l/." --output ../b/new -- pwd && cat "$theirs/a/b/new")" \
		"$(printf '%s\n%s' "$theirs/a/b" "$theirs/a/b")" "$with: a path of links, '..' and slashes leads to a new file"
	is "$(daemon --chdir "$theirs" --input a/abs --output "x.%t" --error /dev/null -- cat && cat "$theirs/x.0")" \
		"$(printf '%s\n%s' "$theirs/a/b" "$theirs/a/b")" "$with: absolute and relative paths and /dev/null are opened"
	daemon --output "$theirs/a/" -- true
	isnt $? 0 "$with: a directory as output file is refused"
	daemon --input "$theirs/x.0/" -- true
	like "$(cat "$tmpdir/err")" "Not a directory" "$with: a file as directory is refused"
	daemon --output "$theirs/none/x" -- true
	like "$(cat "$tmpdir/err")" "No such file or directory" "$with: a missing directory is reported as such"
done
under=

# The names of a process's own streams mean the agent's.
is "$(daemon -n 2 --output /dev/stdout --error /dev/null -- echo out)" "$(printf 'out\nout')" "/dev/stdout is the agent's own"
is "$(daemon --output /dev/null --error /dev/stderr -- sh -c 'echo out; echo err >&2' && cat "$tmpdir/err")" err \
	"/dev/stderr is the agent's own"
is "$(daemon --error /dev/stdout -- sh -c 'echo err >&2')" err "stderr may go to /dev/stdout"
# shellcheck disable=SC2086 # $as_user is words
is "$(echo in | step $as_user --input /dev/stdin -- cat)" in "/dev/stdin is the agent's own"
daemon --output /dev/stderr -- true
is $? 125 "--output /dev/stderr is refused"
like "$(cat "$tmpdir/err")" "--output: .*'/dev/stderr' is another stream of the agent" \
	"the refusal of --output /dev/stderr has the reason"

# What the agent was left is gone in it as well.
"$stepd" run -q --job "$job" --step 1 --proctrack "$tracker" -- sleep 300 8<"$private" 9<"$private/file" &
agent=$!
eventually running 1
is "$(find "/proc/$agent/fd" -lname "$private*")" "" \
	"the agent closes the descriptors that its caller left open"
kill -TERM $agent
wait $agent
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
