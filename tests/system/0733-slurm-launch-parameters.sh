#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Steps of a site whose LaunchParameters leave a user's groups to the nodes (disable_send_gids), limit
# what extern steps get (ulimit_pam_adopt), and lock the memory of step daemons (slurmstepd_memlock): two Slurms at the same time, one of them with Slurm's own
# slurmstepd, and the same command lines in both.
# shellcheck source=tests/lib/slurm_pair.sh
. "${top_srcdir:?}/tests/lib/slurm_pair.sh"

needs_slurm python3 salloc sbatch setpriv srun
unshare --mount true 2>/dev/null || skip_all "needs to make mount namespaces"
echo 'slurm_serve = srun, batch, extern' >"$STEPD_CONFIG"
[ -n "$slurm_root" ] || own_mounts="unshare --mount --propagation private"
# shellcheck source=tests/lib/slurm_extern.sh
. "$top_srcdir/tests/lib/slurm_extern.sh"

mkdir "$tmpdir/etc" "$tmpdir/of-group"
cp "$slurm_root/etc/group" "$tmpdir/etc/group"
cat >>"$tmpdir/etc/group" <<S
stepd-test-1:x:64001:nobody
stepd-test-2:x:64002:games,nobody
stepd-test-3:x:64003:root
S
chown 0:64001 "$tmpdir/of-group"
chmod 2770 "$tmpdir/of-group"
chmod 755 "$tmpdir"

cat >"$tmpdir/groups" <<'S'
. "$1/functions"
mkdir -m 777 user
nobody='setpriv --reuid=65534 --regid=65534'
own=$1/of-group/${PWD##*-}
in_turn root srun -Q -n 2 -l sh -c 'id -u; id -g; id -G'
in_turn user $nobody --init-groups srun -Q -n 2 -l -D "$PWD/user" sh -c 'id -un; id -gn; id -G'
in_turn writes $nobody --init-groups srun -Q -n 1 -D "$PWD/user" sh -c "echo written >$own && stat -c '%U %g' $own"
in_turn without $nobody --clear-groups srun -Q -n 1 -D "$PWD/user" id -G
in_turn another setpriv --reuid=5 --regid=60 --clear-groups srun -Q -n 1 -D "$PWD/user" id -G
in_turn locked srun -Q -n 1 sh -c 'for n in $(seq 100); do
	awk "/VmLck/ { exit \$2 < 500 }" /proc/$PPID/status && echo locked && exit; sleep 0.1; done; echo not locked'
in_turn other-gid setpriv --reuid=5 --regid=65534 --clear-groups srun -Q -n 1 -D "$PWD/user" sh -c 'id -g; id -G'
in_turn script $nobody --clear-groups sbatch -Q --wait -n 1 -D "$PWD/user" -o "$PWD/user/log" --wrap 'id -un; id -G; srun -Q id -G'
cat user/log >>script.out
until_true no_step
S

# A process that is added, its limits, and those that are below it already.
cat >"$tmpdir/adopted" <<'S'
. "$1/functions"
limits() { # NAME
	sleep 1000 &
	pid=$!
	[ -z "$2" ] || prlimit --pid $pid --rss="$2"
	{
		request "$job" add_pid $pid
		awk '/resident set|address space/' /proc/$pid/limits
	} >"$1.out" 2>"$1.err"
	echo 0 >"$1.rc"
	kill $pid
	wait $pid
}
allocate adopted --mem=64
job=$(cat adopted.id)
limits limited ""
limits lower 1000000:2000000
limits between 1000000:200000000
in_turn task srun -Q --jobid="$job" -n 1 awk '/resident set|address space/' /proc/self/limits
scancel "$job"
no_server() {
	! request "$job" state >no.server 2>&1
}
until_true no_server
rm -f "$(socket_of "$job")" # which that of 24.11 leaves: it ends by SIGSEGV here
until_true no_step
S
BENCH_SLURM_LINES="LaunchParameters=disable_send_gids,batch_step_set_cpu_freq,lustre_no_flush,slurmstepd_memlock,ulimit_pam_adopt
PrologFlags=Contain
SelectTypeParameters=CR_CPU_Memory
VSizeFactor=150
FirstJobId=$first_job
$slurmd_log"
BENCH_SLURM_NODE_WORDS=RealMemory=1000
BENCH_SLURM_ETC=$tmpdir/etc
BENCH_SLURM_CPUS=4
export BENCH_SLURM_LINES BENCH_SLURM_NODE_WORDS BENCH_SLURM_ETC BENCH_SLURM_CPUS
both groups
same groups
like "$(cat "$tmpdir/groups-served/locked.out")" "^locked$" "the memory of a served step's agent is locked"
like "$(cat "$tmpdir/groups-served/user.out")" "^0: 65534 64001 64002$" "a task has the groups that its node knows"
like "$(cat "$tmpdir/groups-served/writes.out")" "^nobody 64001$" "a task may what its groups may"
like "$(cat "$tmpdir/groups-served/without.out")" "^65534 64001 64002$" "those of srun's process count for nothing"
like "$(cat "$tmpdir/groups-served/script.out")" "^65534 64001 64002$" "a script has the groups that its node knows"
both adopted
same adopted
# From 23.02 on.
[ "$STEPD_TEST_PROTOCOL" -lt 9984 ] ||
	like "$(cat "$tmpdir/adopted-served/limited.out")" "^Max resident set +67108864 +67108864 " \
		"what an extern step gets is limited to the job's memory"
for script in groups adopted; do
	is "$(lines_of $script | grep 'handed over')" "" "$script: no step was handed over"
done
is "$(ls "$run")" "" "the served steps have left nothing in the runtime directory"
done_testing
