#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Tasks that have joined a step survive their agent's upgrade and its death; the new program can
# start further ones.
. "${top_srcdir:?}/tests/lib/reexec.sh"
. "$top_srcdir/tests/lib/spawn.sh"

[ -x "$next" ] || skip_all "no second program (make check builds it)"
begin() { # what start_step of reexec.sh does, with these plugins
	start_step --plugin-dir "$plugins" --mpi spawner "$@"
}
program='[\"sh\",\"-c\",\"echo join \$SLURM_PROCID \$SLURM_NTASKS \$SPAWNER \$SPAWNER_COMMON \$SPAWNER_PREFORK; '$until_gone'; exit \$SLURM_PROCID\"]'

for tracker in $(backends); do
	begin -n 1 --proctrack "$tracker" --label --result "$tmpdir/r" sh -c "$requests"'
		one 1 1 2 "'"$program"'"; echo "$answer"; until [ -e "$0" ]; do sleep 0.02; done
		one 2 3 2 "'"$program"'"; echo "$answer"; '"$until_gone" "$tmpdir/again"
	ok "$tracker: a spawn is answered" eventually has_output '"locals":\[1,2\]'
	ok "$tracker: an agent with spawned tasks is upgraded" upgrade
	ok "$tracker: spawned tasks are members after an upgrade" sh -c "[ \$('$stepctl' pids '$job.0/1-2' | wc -l) -ge 2 ]"
	: >"$tmpdir/again"
	ok "$tracker: the new program answers a spawn" eventually has_output '"locals":\[3,4\]'
	ok "$tracker: the tasks that the new program spawns run" eventually has_output '^[34]: join 1 2 2:1:2:0 yes yes'
	ok "$tracker: an agent with more spawned tasks is upgraded" upgrade
	rm -f "$tmpdir/stay" "$tmpdir/again"
	ended 1 "$tracker: a step with spawned tasks ends with their status after upgrades"
	is "$(json_get "$tmpdir/r" '[[t["rank"], t.get("spawn", 0), t["exit_code"]] for t in tasks]')" \
		"[[0, 0, 0], [1, 1, 0], [2, 1, 1], [3, 2, 0], [4, 2, 1]]" "$tracker: the result has all spawned tasks after upgrades"
	nothing_left "$tracker: the job leaves no cgroup, process or file behind"
done

# A spawn that comes while the agent executes its new program waits for that one.
begin -n 1 --proctrack "$tracker" sh -c "$requests"'n=0
	while [ -e "$0" ]; do n=$((n + 1)); one $n $n 1 "[\"true\"]"; case $answer in *\"error\":0*) ;; *) echo "$answer" ;; esac; done
	echo "made $n"' "$tmpdir/stay"
for i in 1 2 3; do
	ok "upgrade $i among spawns succeeds" upgrade
done
rm -f "$tmpdir/stay"
ended 0 "a step that spawns during upgrades succeeds"
is "$(sed 's/made [0-9]*/made/' "$tmpdir/out")" made "no spawn during upgrades fails"
nothing_left "spawns during upgrades leave no cgroup, process or file behind"


# The agent is killed: who takes over has the tasks that have joined, and no more spawns.
for tracker in $(backends); do
	begin -n 1 --proctrack "$tracker" sh -c "$requests"'
		one 1 1 2 "'"$program"'"; echo "$answer"; '"$until_gone"'; exit 0'
	eventually has_output '"locals":\[1,2\]'
	kill_agent
	"$stepd" adopt --plugin-dir "$plugins" --result "$tmpdir/r" "$job.0" 2>"$tmpdir/err" &
	agent=$!
	eventually has_agent 0
	ok "$tracker: a successor has the spawned tasks" sh -c "[ \$('$stepctl' pids '$job.0/1-2' | wc -l) -ge 2 ]"
	rm -f "$tmpdir/stay"
	wait "$agent"
	is "$(json_get "$tmpdir/r" '[[t["rank"], t.get("spawn", 0)] for t in tasks]')" "[[0, 0], [1, 1], [2, 1]]" \
		"$tracker: a successor's result has the spawned tasks"
	nothing_left "$tracker: an adopted step with spawned tasks leaves nothing behind"
done
done_testing
