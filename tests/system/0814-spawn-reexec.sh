#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Tasks that have joined a step survive their agent's upgrade and its death; the new program can
# start further ones.
. "${top_srcdir:?}/tests/lib/reexec.sh"
. "$top_srcdir/tests/lib/spawn.sh"

[ -x "$next" ] || skip_all "no second program (make check builds it)"
said() {
	grep -q "$1" "$tmpdir/out"
}
begin() { # what agent of reexec.sh does, with these plugins
	agent --plugin-dir "$plugins" --mpi asking "$@"
}
tell='[\"sh\",\"-c\",\"echo join \$SLURM_PROCID \$SLURM_NTASKS \$ASKING \$ASKING_COMMON \$ASKING_PREFORK; '$until_gone'; exit \$SLURM_PROCID\"]'

for tracker in $(backends); do
	begin -n 1 --proctrack "$tracker" --label --result "$tmpdir/r" sh -c "$asks"'
		one 1 1 2 "'"$tell"'"; echo "$answer"; until [ -e "$0" ]; do sleep 0.02; done
		one 2 3 2 "'"$tell"'"; echo "$answer"; '"$until_gone" "$tmpdir/again"
	ok "$tracker: a spawn" eventually said '"locals":\[1,2\]'
	ok "$tracker: an upgrade with its tasks" upgrade
	ok "$tracker: which are tasks as before" sh -c "[ \$('$stepctl' pids '$job.0/1-2' | wc -l) -ge 2 ]"
	: >"$tmpdir/again"
	ok "$tracker: the new program starts further ones" eventually said '"locals":\[3,4\]'
	ok "$tracker: which run" eventually said '^[34]: join 1 2 2:1:2:0 yes yes'
	ok "$tracker: another upgrade" upgrade
	rm -f "$tmpdir/stay" "$tmpdir/again"
	ended 1 "$tracker: and the step's end, with the status of one of them"
	ok "$tracker: the result has them all" holds "$tmpdir/r" '[
		[t["rank"], t.get("spawn", 0), t["exit_code"]] for t in r["tasks"]] == [
		[0, 0, 0], [1, 1, 0], [2, 1, 1], [3, 2, 0], [4, 2, 1]]'
	nothing_left "$tracker: nothing is left"
done

# A spawn that comes while the agent executes its new program waits for that one.
begin -n 1 --proctrack "$tracker" sh -c "$asks"'n=0
	while [ -e "$0" ]; do n=$((n + 1)); one $n $n 1 "[\"true\"]"; case $answer in *\"error\":0*) ;; *) echo "$answer" ;; esac; done
	echo "made $n"' "$tmpdir/stay"
for i in 1 2 3; do
	ok "upgrade $i among spawns" upgrade
done
rm -f "$tmpdir/stay"
ended 0 "none of them fails"
is "$(sed 's/made [0-9]*/made/' "$tmpdir/out")" made "not one"
nothing_left "nothing is left"

# The agent is killed: who takes over has the tasks that have joined, and no more spawns.
for tracker in $(backends); do
	begin -n 1 --proctrack "$tracker" sh -c "$asks"'
		one 1 1 2 "'"$tell"'"; echo "$answer"; '"$until_gone"'; exit 0'
	eventually said '"locals":\[1,2\]'
	kill -KILL "$agent"
	wait "$agent" 2>/dev/null
	"$stepd" adopt --plugin-dir "$plugins" --result "$tmpdir/r" "$job.0" 2>"$tmpdir/err" &
	agent=$!
	eventually sh -c "grep -qs '\"agent_pid\":$agent,' '$run'/*_'$job.0'/state.json"
	ok "$tracker: a successor has them" sh -c "[ \$('$stepctl' pids '$job.0/1-2' | wc -l) -ge 2 ]"
	rm -f "$tmpdir/stay"
	wait "$agent"
	ok "$tracker: and tells of their ends" holds "$tmpdir/r" '[
		[t["rank"], t.get("spawn", 0)] for t in r["tasks"]] == [[0, 0], [1, 1], [2, 1]]'
	nothing_left "$tracker: nothing is left of it"
done
done_testing
