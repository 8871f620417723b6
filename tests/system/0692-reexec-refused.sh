#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A new program that will not do is refused in a sentence, and the agent goes on as it was.
. "${top_srcdir:?}/tests/lib/reexec.sh"

[ -x "$next" ] || skip_all "no second program (make check builds it)"

agent --proctrack "$tracker" -n 2 -- sleep 60
before_fds=$(fds)
old=$(readlink "/proc/$agent/exe")

refuses /bin/false "'$stepd': tried, it ended with status 1: it says nothing" \
	"one that fails"
refuses /bin/true "tried, it ended with status 0: it says nothing" \
	"one that does something else, and well"
refuses /bin/cat "tried, it ended with status 1: .*unrecognized option" \
	"one that complains is quoted"
yes=$(command -v yes)
refuses "$yes" "tried, it " "one that does not stop talking"

printf '#!/bin/sh\necho "stepd can go on: 1"\n' >"$tmpdir/script"
chmod 755 "$tmpdir/script"
refuses "$tmpdir/script" "is no program of this machine \(a script\?\)" "a script"
: >"$tmpdir/empty"
chmod 755 "$tmpdir/empty"
refuses "$tmpdir/empty" "is no program of this machine" "an empty file"
cp "$next" "$tmpdir/foreign"
printf '\002' | dd of="$tmpdir/foreign" bs=1 seek=18 conv=notrunc 2>/dev/null # e_machine: SPARC
refuses "$tmpdir/foreign" "execute the new program: Exec format error" \
	"one of another machine"
head -c 3000 "$next" >"$tmpdir/cut"
chmod 755 "$tmpdir/cut"
refuses "$tmpdir/cut" "tried, it |execute the new program: " "one that was cut off"

put "$next"
chmod 644 "$stepd"
refuses_it "execute '$stepd': Permission denied" "one that is not executable"
rm -f "$stepd"
refuses_it "open '$stepd': No such file or directory" "a program that is gone"
mkdir "$stepd"
refuses_it "'$stepd' is no regular file" "a directory"
rmdir "$stepd"
mkfifo "$stepd"
refuses_it "'$stepd' is no regular file" "a FIFO, without waiting for its writer"
rm -f "$stepd"

if [ "$(id -u)" = 0 ]; then
	put "$next"
	chmod 757 "$stepd"
	refuses_it "can be written by others than its owner" "as root: one that others can write"
	put "$next"
	chown 65534 "$stepd"
	refuses_it "belongs to uid 65534" "as root: another user's"
	put "$next"
	chmod 777 "$bin"
	refuses_it "can be changed by others" "as root: one in a directory that others can write"
	chmod 755 "$bin"
	mkdir "$tmpdir/other"
	chmod 777 "$tmpdir/other"
	cp "$next" "$tmpdir/other/stepd"
	ln -sf "$tmpdir/other/stepd" "$stepd"
	refuses_it "can be changed by others" "as root: a link to one in such a directory"
	rm -f "$stepd"
else
	skip 4 "needs root"
fi

is "$(readlink "/proc/$agent/exe" | sed 's/ (deleted)//')" "$(printf '%s' "$old" | sed 's/ (deleted)//')" \
	"after all of that the agent is what it was"
ok "it has no more descriptors than before" test "$(fds)" -le "$before_fds"
is "$("$stepctl" pids "$job.0" | wc -l)" 2 "and its step"
ok "and still can be upgraded" upgrade
refuses /bin/false "tried, it ended with status 1" "the new program refuses as the old one did"
kill -TERM "$agent"
ended 143 "it ends its step"
nothing_left "nothing is left"

# The name by which it was started counts: a link to the version in use.
mkdir "$bin/v1" "$bin/v2"
ln -s "$bin/plugins" "$bin/v1/plugins"
ln -s "$bin/plugins" "$bin/v2/plugins"
cp "$this" "$bin/v1/stepd"
cp "$next" "$bin/v2/stepd"
ln -sfn "$bin/v1/stepd" "$stepd"
: >"$tmpdir/err"
"$stepd" run --job "$job" --proctrack "$tracker" -- sleep 60 2>"$tmpdir/err" &
agent=$!
eventually running 0
ln -sfn "$bin/v2/stepd" "$bin/link"
mv -T "$bin/link" "$stepd"
asks
eventually upgraded_more_than 0
is "$(readlink "/proc/$agent/exe")" "$bin/v2/stepd" "a link that leads to another version now is followed"
kill -TERM "$agent"
ended 143 "and its step ends"
done_testing
