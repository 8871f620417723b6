#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A new program that will not do is refused in a sentence, and the agent goes on as it was.
. "${top_srcdir:?}/tests/lib/reexec.sh"

[ -x "$next" ] || skip_all "no second program (make check builds it)"

start_step --proctrack "$tracker" -n 2 -- sleep 60
before_fds=$(least_fds)
old=$(readlink "/proc/$agent/exe")

refuses /bin/false "'$stepd': tried, it ended with status 1: no output" \
	"a program that fails is refused"
refuses /bin/true "tried, it ended with status 0: no output" \
	"a program that succeeds with something else is refused"
refuses /bin/cat "tried, it ended with status 1: .*unrecognized option" \
	"the refusal of a program quotes its complaint"
yes=$(command -v yes)
refuses "$yes" "tried, it " "a program that writes without end is refused"

printf '#!/bin/sh\necho "stepd can go on: 1"\n' >"$tmpdir/script"
chmod 755 "$tmpdir/script"
refuses "$tmpdir/script" "is not a program of this machine \(a script\?\)" "a script is refused"
: >"$tmpdir/empty"
chmod 755 "$tmpdir/empty"
refuses "$tmpdir/empty" "is not a program of this machine" "an empty file is refused"
cp "$next" "$tmpdir/foreign"
printf '\002' | dd of="$tmpdir/foreign" bs=1 seek=18 conv=notrunc 2>/dev/null # e_machine: SPARC
refuses "$tmpdir/foreign" "execute the new program: Exec format error" \
	"a program of another machine is refused"
head -c 3000 "$next" >"$tmpdir/cut"
chmod 755 "$tmpdir/cut"
refuses "$tmpdir/cut" "tried, it |execute the new program: " "a program that was cut off is refused"

put "$next"
chmod 644 "$stepd"
refuses_it "execute '$stepd': Permission denied" "a program that is not executable is refused"
rm -f "$stepd"
refuses_it "open '$stepd': No such file or directory" "a missing program is refused"
mkdir "$stepd"
refuses_it "'$stepd' is not a regular file" "a directory is refused"
rmdir "$stepd"
mkfifo "$stepd"
refuses_it "'$stepd' is not a regular file" "a FIFO is refused without waiting for its writer"
rm -f "$stepd"

if [ "$(id -u)" = 0 ]; then
	put "$next"
	chmod 757 "$stepd"
	refuses_it "can be written by others than its owner" "root's agent refuses a program that others can write"
	put "$next"
	chown 65534 "$stepd"
	refuses_it "belongs to uid 65534" "root's agent refuses another user's program"
	put "$next"
	chmod 777 "$bin"
	refuses_it "can be changed by others" "root's agent refuses a program in a directory that others can write"
	chmod 755 "$bin"
	mkdir "$tmpdir/other"
	chmod 777 "$tmpdir/other"
	cp "$next" "$tmpdir/other/stepd"
	ln -sf "$tmpdir/other/stepd" "$stepd"
	refuses_it "can be changed by others" "root's agent refuses a link into a directory that others can write"
	rm -f "$stepd"
else
	skip 4 "needs root"
fi

is "$(readlink "/proc/$agent/exe" | sed 's/ (deleted)//')" "$(printf '%s' "$old" | sed 's/ (deleted)//')" \
	"the agent's program is unchanged after refused upgrades"
ok "refused upgrades leave no descriptor open" eventually fds_at_most "$before_fds"
is "$("$stepctl" pids "$job.0" | wc -l)" 2 "refused upgrades do not change the step's processes"
ok "an agent can be upgraded after refused upgrades" upgrade
refuses /bin/false "tried, it ended with status 1" "the new program refuses as the old one did"
kill -TERM "$agent"
ended 143 "an agent ends its step after refused upgrades"
nothing_left "the job leaves no cgroup, process or file behind"

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
request_upgrade
eventually upgraded_more_than 0
is "$(readlink "/proc/$agent/exe")" "$bin/v2/stepd" \
	"an upgrade follows a link that leads to another version now"
kill -TERM "$agent"
ended 143 "an agent upgraded by a link ends its step"
done_testing
