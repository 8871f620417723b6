#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tasks in a mount namespace that somebody else has made, with a /tmp of its own. The test's own
# files are outside, below /tmp, too.
. "${top_srcdir:?}/tests/lib/step.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root"
unshare --mount true 2>/dev/null || skip_all "needs to make mount namespaces"

# One whose /tmp is a file system of its own, for as long as process $holder lives.
unshare --mount --propagation private sh -c '
	mount -t tmpfs -o mode=1777 inside /tmp && mkdir -m 1777 /tmp/inner && cp /bin/echo /tmp/only-inside &&
	ln -s /tmp/inner /tmp/link && exec sleep 1000' </dev/null >/dev/null 2>&1 &
holder=$!
end_holder() { end_child KILL "$holder"; }
at_exit end_holder
has_namespace() { [ -x "/proc/$holder/root/tmp/only-inside" ] && [ -h "/proc/$holder/root/tmp/link" ]; }
eventually has_namespace
namespace=/proc/$holder/ns/mnt
inside=/proc/$holder/root/tmp
# The build may be below /tmp, too, and with it the current directory.
within() { step --mount-namespace "$namespace" --chdir / "$@"; }

# A marker outside, that tasks must not see.
outside=$(mktemp -d /tmp/stepd-outside.XXXXXX)
remove_outside() { rm -rf "$outside"; }
at_exit remove_outside
chmod 777 "$outside"

is "$(within -- readlink /proc/self/ns/mnt)" "$(readlink "$namespace")" "a task is in the namespace"
is "$(within -- sh -c 'ls -d /tmp/inner; ls -d "$1" 2>/dev/null' sh "$outside")" /tmp/inner "a task sees the namespace's /tmp"
for n in 1 3 64; do
	out=$(within -n "$n" --uid nobody -- readlink /proc/self/ns/mnt | sort | uniq -c | tr -s ' ')
	is "$out" " $n $(readlink "$namespace")" "all of $n tasks of another user are in it"
done
is "$(within -n 8 --no-hold --uid nobody -- readlink /proc/self/ns/mnt | sort -u)" "$(readlink "$namespace")" \
	"tasks that are not held are in it"
within --uid nobody -- sh -c 'echo mine >/tmp/inner/file'
is "$(cat "$inside/inner/file") $(stat -c %U "$inside/inner/file")" "mine nobody" "what a task writes to /tmp is inside, and the user's"
out=$(within --uid nobody -- cat /proc/self/status)
for set in Inh Prm Eff Amb; do
	like "$out" "^Cap$set:	0000000000000000\$" "a task has no capability in its set $set"
done
is "$(within -n 8 --uid nobody -- ls /proc/self/fd | sort -u | tr '\n' ' ')" "0 1 2 3 " "descriptors of the launch are closed, and ls has one"

is "$(within --uid nobody -- /tmp/only-inside found)" found "a program is found inside by its path"
is "$(within --uid nobody --export "PATH=/nowhere:/tmp" -- only-inside found)" found "a program is found inside by PATH"
out=$(step --uid nobody -- /tmp/only-inside found 2>&1)
is $? 127 "the same program is not there without the namespace"
is "$(within --uid nobody --chdir /tmp/link -- /bin/pwd -P)" /tmp/inner "a directory is entered inside"
out=$(within --uid nobody --chdir "$outside" -- true 2>&1)
is $? 126 "a directory that is outside alone gives 126"
like "$out" "can't change to the directory '$outside': No such file" "a directory that is not inside is reported"

# Streams are files outside, by absolute and by relative names, shared or not, as the user.
echo typed >"$outside/typed"
ln -s "$outside/there" "$outside/away"
mkdir -m 777 "$outside/there"
(
	cd "$outside" || exit 1
	within --uid nobody --chdir / -n 2 --output "$outside/shared" -- echo shared
	within --uid nobody --chdir / -n 2 --output "$outside/absolute.%t" -- echo absolute
	within --uid nobody --chdir / -n 2 --output "$outside/away/by-link.%t" -- echo link
	within --uid nobody --chdir / -n 2 --output "$outside/there/../dots.%t" -- echo dots
	within --uid nobody --chdir / -n 2 --output "../$outside/relative.%t" -- echo relative
	within --uid nobody --chdir / -n 2 --label --output "$outside/label.%t" -- echo label
	within --uid nobody --chdir / -n 2 --output "$outside/both.%t" --error "$outside/error.%t" -- sh -c 'echo o; echo e >&2'
)
is "$(cat "$outside/shared")" "shared
shared" "the file that tasks share is outside"
for file in absolute there/by-link dots relative; do
	is "$(cat "$outside/$file.0" "$outside/$file.1")" "${file##*/*-}
${file##*/*-}" "files of single tasks are outside ($file)"
done
is "$(cat "$outside/label.0" "$outside/label.1")" "0: label
1: label" "files of single tasks with labels are outside"
is "$(cat "$outside/both.1" "$outside/error.1")" "o
e" "standard error has a file outside of its own"
is "$(stat -c '%U' "$outside/absolute.1")" nobody "a task's file is the user's"
is "$(within --uid nobody --input "$outside/typed" -- cat)" typed "standard input is a file outside"
is "$(ls "$inside")" "inner
link
only-inside" "no file of a stream is made inside"
mkdir -m 700 "$outside/private"
out=$(within --uid nobody -n 2 --output "$outside/private/file.%t" -- true 2>&1)
isnt $? 0 "a file where the user may not write is refused"
like "$out" "can't open '$outside/private/file.[01]' for stdout: Permission denied" "the refused file is named"
out=$(within --uid nobody -n 2 --output /proc/self/root/etc/file.%t -- true 2>&1)
isnt $? 0 "a file behind a link of /proc is refused"

# A process of mpi/pmi2 and mpi/pmix is inside, too, and loads its server from there.
for type in $("$stepd" plugins | sed -n 's|^mpi/\(pmi[2x]\) .*|\1|p'); do
	case $type$(cd "$top_builddir" && pwd -P) in
	pmix/tmp/*)
		skip 1 "the build is below /tmp, which is another one inside"
		continue
		;;
	esac
	is "$(within --mpi "$type" --uid nobody -n 2 -- sh -c '
		readlink /proc/self/ns/mnt
		d=${PMIX_SERVER_TMPDIR:-/tmp}; [ -d "$d" ] || echo "no directory $d"' | sort | uniq -c | tr -s ' ')" \
		" 2 $(readlink "$namespace")" "tasks with mpi/$type are in it, with its directory"
done
is "$(find /tmp "$inside" -maxdepth 1 -name 'stepd-pmix*' -user nobody)" "" "no directory of a service is left"

# A task that can't enter it says so.
out=$(setpriv --bounding-set=-sys_chroot "$stepd" run --job "$job" --proctrack "$tracker" --mount-namespace "$namespace" --chdir / -- true 2>&1)
is $? 126 "a task that can't enter the namespace gives 126"
like "$out" "task 0 can't enter the mount namespace '$namespace': Operation not permitted" "the failure to enter is reported"

# What is no namespace.
mkfifo "$tmpdir/fifo"
for file in /etc/passwd "/proc/$holder/ns/net" "$tmpdir/fifo"; do
	out=$(step --mount-namespace "$file" -- true 2>&1)
	is $? 125 "$file is refused"
	like "$out" "'$file' is not a mount namespace" "the refusal of $file has the reason"
done
out=$(step --mount-namespace "$tmpdir/none" -- true 2>&1)
is $? 125 "a file that does not exist is refused"
like "$out" "$tmpdir/none': No such file" "the refusal of a file that does not exist names it"
out=$(step --mount-namespace "" -- true 2>&1)
isnt $? 0 "an empty name is refused"
out=$(setpriv --reuid nobody --clear-groups env STEPD_RUNTIME_DIR="$outside/run" "$stepd" run --mount-namespace "$namespace" -- true 2>&1)
is $? 125 "an agent that is not root's is refused"
like "$out" "only root's agent" "the refusal of a user's agent has the reason"

nothing_left "nothing is left of the steps"
done_testing
