#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The last member of a step, which is no child of the agent, ends just when the agent would begin to
# watch it: the step ends then, not when its kill sequence does.
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

command -v python3 >/dev/null || skip_all "needs python3"
mkdir "$tmpdir/plugins"
ln -s "$top_builddir"/stepd/cli/plugins/* "$top_builddir/tests/lib/plugins/proctrack_lastgasp.so" "$tmpdir/plugins"
printf '{"job": %s, "kind": "extern", "node": {"name": "n1"}, "proctrack": "lastgasp", "kill_sequence": [' \
	"$job" >"$tmpdir/spec"
echo '{"signal": "TERM", "wait_ms": 20000}, {"signal": "KILL"}]}' >>"$tmpdir/spec"

STEPD_TEST_GASP=$tmpdir/gasp
export STEPD_TEST_GASP
"$stepd" serve -q --plugin-dir "$tmpdir/plugins" --keep-result 0 --spec "$tmpdir/spec" 2>"$tmpdir/err" &
agent=$!
eventually running extern
sleep 60 &
member=$!
ok "AddPid to an extern step is accepted" \
	"$top_srcdir/tests/lib/varlink.py" call "$run/n1_$job.extern/socket" AddPid "{\"pid\": $member}"
touch "$STEPD_TEST_GASP"
has_gone() {
	process_ended "$agent" && ! running extern && ! test -e "$run/n1_$job.extern"
}
kill -TERM "$agent"
ok "the agent sees the last member end" eventually has_gone
end_child KILL "$member"
end_child KILL "$agent"
wait "$agent"
is $? 143 "the step of the last member ends by the signal"
wait "$member" 2>/dev/null
is "$(cat "$tmpdir/err")" "" "the agent of the last member reports nothing"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
