#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A batch script is root's file that its user alone may read: nobody fills the file system of all
# steps with it. And where that fills up, a step that was given its start loses no result.
# shellcheck disable=SC2016 # what stands in single quotes is for the tasks
. "${top_srcdir:?}/tests/lib/control.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root, to be others"
mount -t tmpfs -o size=1m,mode=755 stepd-test "$run" 2>/dev/null || skip_all "can't mount a tmpfs"
at_exit "umount '$run'"
at_exit end_steps

user=65533 other=65532 group=65530

free_blocks() {
	stat -f -c %a "$run"
}

# ---- the script -------------------------------------------------------------------------------

cat >"$tmpdir/script" <<'X'
#!/bin/sh
chmod u+w "$0" && echo "changed its mode"
dd if=/dev/zero bs=4k count=4096 >>"$0" && echo "grew it"
rm -f "$0" && echo "removed it"
ln "$0" "${0%/*}/more" && echo "linked it"
(: >"${0%/*}/more") && echo "made another file"
if [ "$1" = begin ]; then
	exec /bin/sh "$0" again "$2"
fi
echo "reads $(sed -n 2p "$0")"
echo "up $0"
read -r line <"$2"
exit 7
X
mkfifo "$tmpdir/go"
chmod 666 "$tmpdir/go"
start_step --proctrack "$tracker" --uid $user --gid $group --chdir / --batch "$tmpdir/script" begin "$tmpdir/go"
script=$(sed -n 's/^up //p' "$tmpdir/out")
is "$(grep -v '^reads\|^up' "$tmpdir/out")" "" "the user can't change, grow, remove or link the script"
like "$(cat "$tmpdir/out")" '^reads chmod u' "the script can read itself"
like "$script" "^$run/.*_$job.batch/script\$" "the script's name is a path in the step's directory"
is "$(stat -c '%U %s' "$script")" "root $(stat -c %s "$tmpdir/script")" \
	"the script belongs to root and keeps its size"
is "$(setpriv --reuid $user --regid $group --clear-groups cat "$script" | cmp - "$tmpdir/script" 2>&1)" "" \
	"other processes of the user can read the script"
fails "another user of the same group can't read it" \
	setpriv --reuid $other --regid $group --clear-groups cat "$script"
ok "the next step of root starts beside the batch step" step --step 1 -- true
timeout 300 sh -c 'echo >"$1"' - "$tmpdir/go"
wait "$agent"
is $? 7 "the batch step ends as its script does"
out=$(step --uid $user --gid $group --groups "$group,$other" --batch "$tmpdir/script" again /dev/null 2>/dev/null)
like "$out" '^reads chmod u' "the script is readable whatever the user's groups are"
nothing_left "the job leaves no cgroup, process or file behind"

# ---- a file system that is full ---------------------------------------------------------------

ntasks=20
python3 - "$job" $ntasks $user $group "$tmpdir/go" >"$tmpdir/spec" <<'X'
import json, sys
job, ntasks, uid, gid, go = sys.argv[1:]
print(json.dumps({"job": int(job), "step": 2, "ntasks": int(ntasks), "uid": int(uid), "gid": int(gid),
	"cwd": "/", "argv": ["sh", "-c", "read -r line <%s; exit 3" % go],
	"env": {"PATH": "/usr/bin:/bin", "STEPD_TEST_JOB": job}}))
X
"$stepd" serve --spec "$tmpdir/spec" --keep-result 1h --result "$tmpdir/result" 2>"$tmpdir/err" &
agent=$!
eventually running 2
dd if=/dev/zero of="$run/fill" bs=4k 2>/dev/null
is "$(free_blocks)" 0 "the file system of the steps is full"
# Who reads a state keeps its blocks when it is replaced.
exec 9<"$(step_dir 2)/state.json"
if [ "$tracker" = cgroup ]; then
	ok "a step is suspended on a full file system" "$stepctl" suspend "$job.2"
	is "$(state_of 2 state)" suspended "the state of a suspended step is written on a full file system"
	ok "a step is resumed on a full file system" "$stepctl" resume "$job.2"
else
	skip 3 "needs proctrack/cgroup"
fi
exec 9<&-
# Each of its 20 readers needs to find it open, and its end.
sleep 300 >"$tmpdir/go" &
holder=$!
yes >"$tmpdir/go" &
writer=$!
wait $agent
is $? 3 "a step on a full file system ends with its tasks' status"
kill $holder
end_child TERM $writer
wait $holder $writer 2>/dev/null
unlike "$(cat "$tmpdir/err")" "No space" "an agent on a full file system reports no lack of space"
is "$(json_get "$(step_dir 2)/result.json" '{k: v for k, v in d.items() if k != "keep_until_time_usec"}')" \
	"$(json_get "$tmpdir/result" d)" "the result is retained, whole, on a full file system"
is "$(json_get "$tmpdir/result" 'len(tasks)')" "$ntasks" "the result on a full file system has all tasks"
is "$(ls -A "$run"/*_"$job.2")" result.json "only the result is retained on a full file system"
dd if=/dev/zero of="$run/more" bs=4k 2>/dev/null
out=$(step --step 3 -- true 2>&1)
is $? 125 "a step without space for its files is not started"
like "$out" "No space left on device" "the refusal of a step without space has the reason"
rm -f "$run/fill" "$run/more"
ok "the step starts once there is space again" step --step 3 -- true
"$stepd" serve --spec "$tmpdir/spec" --keep-result 1s 2>/dev/null &
agent=$!
eventually running 2
kill -TERM $agent
wait $agent
rm -f "$run"/*_"$job.2"/result.json
rmdir "$run"/*_"$job.2"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
