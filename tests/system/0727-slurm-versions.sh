#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The Slurms of newer Debians, each in a tree of its own, with stepd-slurmstepd in slurmstepd's place. It
# serves no step here: each is handed over byte for byte and does what it does without it, and what slurmd
# has sent for it is decoded as what the user's command was.
# shellcheck source=tests/lib/local_slurm.sh
. "${top_srcdir:?}/tests/lib/local_slurm.sh"
# shellcheck source=tests/lib/slurm_root.sh
. "$top_srcdir/tests/lib/slurm_root.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root"
program=$(cd "$top_builddir" && pwd -P)/contrib/slurm/stepd-slurmstepd
decode=$(cd "$top_builddir" && pwd -P)/tests/lib/slurm_decode

# ---- in the tree -----------------------------------------------------------------------------
# In slurmstepd's own place: what is handed over is kept beside the record that is made of it.
cat >"$tmpdir/stand-in" <<'S'
#!/bin/sh
[ $# -eq 0 ] || exec /usr/sbin/slurmstepd "$@"
tee "$STAND_IN/$$" | /usr/sbin/slurmstepd
S
chmod 755 "$tmpdir/stand-in"

cp "$top_srcdir/tests/lib/in_slurm.sh" "$tmpdir/functions"

# In an allocation.
cat >"$tmpdir/session" <<'S'
. ../functions
echo "$SLURM_JOB_ID" >job
MARK='a=b c' srun -Q -n 3 -l -D / printf '%s\n' 'hello there' '' >hello 2>&1
printf 'line\n' | srun -Q -n 1 cat >input 2>&1
srun -Q -n 2 sh -c 'exit $((SLURM_PROCID + 3))' >bad 2>&1
echo $? >bad.rc
srun -Q -n 2 -o files.%t --multi-prog ./programs
srun -Q -n 1 sh -c 'echo up; until [ -e attached ]; do sleep 0.1; done; exec sleep 300' >step 2>&1 &
step=$!
until_true test -s step
sattach -Q "$SLURM_JOB_ID.4" >attach 2>&1 &
attach=$!
until_true test -s attach
scontrol listpids "$SLURM_JOB_ID.4" >pids 2>&1
: >attached
scancel "$SLURM_JOB_ID.4"
wait $step
echo $? >step.rc
wait $attach
S

cat >"$tmpdir/inside" <<'S'
cd "$1"
. ../functions
printf '0 echo first\n1 echo second\n' >programs
printf '#!/bin/sh\n#SBATCH -o batch.out\necho "$1 of $MARK"; srun -Q -n 1 echo in its step; exit 7\n' >script
MARK=batch sbatch --parsable --wait script words >batch 2>&1
echo $? >batch.rc
salloc -Q -n 3 sh ../session
setpriv --reuid=65534 --regid=65534 --clear-groups srun -Q -n 1 -D / id -u >user 2>&1
until_true no_step
echo >over
S

# ---- the checks ------------------------------------------------------------------------------
record() { # JOB.STEP: what was recorded, as JSON
	"$decode" "$(ls "$tmpdir/$release/records/$1"-*.init)" 2>&1
}

is_recorded() { # JOB.STEP EXPRESSION WANTED NAME
	record "$1" >"$tmpdir/decoded"
	json_is "$tmpdir/decoded" "$2" "$3" "$release: $4"
}

check_commands() {
	is "$(sort hello)" "0: 
0: hello there
1: 
1: hello there
2: 
2: hello there" "$release: srun starts tasks with labels"
	is "$(cat input)" line "$release: a task reads srun's input"
	is "$(cat bad.rc)" 4 "$release: srun ends with the largest status of its tasks"
	is "$(cat files.0 files.1)" "first
second" "$release: tasks of several programs write to files"
	is "$(cat batch.rc) $(tr '\n' ' ' <batch.out)" "7 words of batch in its step " \
		"$release: a script has its arguments, its environment and its status"
	is "$(head -n 1 attach)" up "$release: sattach shows what was written"
	like "$(cat pids)" "^PID +JOBID +STEPID" "$release: scontrol lists a step's processes"
	like "$(cat step)" "STEP $job.4 ON .* CANCELLED AT" "$release: a step that is cancelled says so"
	is "$(cat user)" 65534 "$release: another user's step runs as that user"
}

check_records() {
	batch=$(head -n 1 batch)
	user=$((job + 1))
	is_recorded "$job.0" '[argv, ntasks, nnodes, uid, user, cwd, ranks, kind]' \
		'[["printf", "%s\\n", "hello there", ""], 3, 1, 0, "root", "/", [[0, 1, 2]], "srun"]' \
		"the record of a step has its command, tasks, user and directory"
	is_recorded "$job.0" '"MARK=a=b c" in env and "SLURM_JOB_ID=%s" % step.split(".")[0] in env' true \
		"the record of a step has its environment"
	is_recorded "$job.0" '[release == srun_release == credential_release, signature > 100, cred_type]' \
		'[true, true, "cred/munge"]' "the record of a step has a credential that is signed"
	is_recorded "$job.3" '[stdout, flags & 2]' '["files.%t", 2]' \
		"the record of a step of several programs has the names of its files"
	is_recorded "$batch.batch" '[kind, uid, cwd == "'"$PWD"'", argv[1:], stdout, partition]' \
		'["batch", 0, true, ["words"], "'"$PWD"'/batch.out", "bench"]' \
		"the record of a script has its user, directory, arguments and file"
	is_recorded "$batch.batch" 'script' "$(cat script)" "the record of a script has its text"
	is_recorded "$batch.batch" '"MARK=batch" in env' true "the record of a script has its environment"
	is_recorded "$batch.extern" 'kind' extern "the record of an extern step is one"
	is_recorded "$user.0" '[uid, gid, argv]' '[65534, 65534, ["id", "-u"]]' \
		"the record of another user's step has that user"
	for file in records/*.init; do
		pid=${file##*-}
		cmp -s "$file" "got/${pid%.init}" || echo "$file"
	done >differ
	is "$(cat differ)" "" "$release: slurmstepd gets each byte that slurmd has written, and no other"
	is "$(find records -name '*.init' | wc -l) $(find got -type f | wc -l)" "12 12" \
		"$release: each step is recorded"
}

check_log() {
	lines=$(grep ' stepd-slurmstepd: ' log)
	is "$(echo "$lines" | grep -c ': steps of this kind are not served here (slurm_serve')" 12 \
		"$release: slurmd's log has the reason of each step" || diag "$lines"
}

try_release() {
	dir=$tmpdir/$release
	mkdir "$dir" "$dir/got"
	mkdir -m 700 "$dir/records"
	printf 'slurm_stepd_path = %s\nslurm_record = %s\n' "$tmpdir/stand-in" "$dir/records" >"$dir/stepd.conf"
	STEPD_CONFIG=$dir/stepd.conf STAND_IN=$dir/got BENCH_SLURM_STEPD=$program BENCH_SLURM_ALLOCATION=no \
		BENCH_SLURM_PORT=$(slurm_port 2) BENCH_SLURM_LINES="SlurmdLogFile=$dir/log
PrologFlags=Contain" in_slurm_root timeout -k 90 300 sh "$top_srcdir/tests/bench/with-slurm" \
		sh "$tmpdir/inside" "$dir" >"$dir/slurm" 2>&1
	ok "$release: its Slurm starts, and runs what it is given" test -e "$dir/over" || return
	cd "$dir" || bail "no directory '$dir'"
	job=$(cat job)
	check_commands
	check_records
	check_log
	cd "$tmpdir" || bail "no directory '$tmpdir'"
	is "$(grep -c " $slurm_root" /proc/mounts)" 0 "$release: nothing of the tree is left mounted"
}

for release in trixie sid; do
	if find_slurm_root $release; then
		try_release
	else
		skip 1 "$release: $slurm_root_reason"
	fi
done
done_testing
