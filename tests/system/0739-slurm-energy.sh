#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The energy of a node while a step runs, of a site with AcctGatherEnergyType: what sstat, and sacct, have of a
# served step is what they have of one of slurmstepd. Two Slurms at the same time, one of them with Slurm's own
# slurmstepd, and the same command lines in both. No machine of these tests has such counters, so each Slurm has
# files in the places of those of a Cray and of registers, which both read, and which tasks count on.
# shellcheck source=tests/lib/slurm_pair.sh
. "${top_srcdir:?}/tests/lib/slurm_pair.sh"
# shellcheck source=tests/lib/slurm_database.sh
. "$top_srcdir/tests/lib/slurm_database.sh"

needs_slurm sbatch srun sstat
unshare --mount true 2>/dev/null || skip_all "needs to make mount namespaces"
grep -q '^physical id' /proc/cpuinfo || skip_all "no package of processors has a number here"
[ -d /dev/cpu ] || skip_all "there is no /dev/cpu"
for plugin in pm_counters rapl; do
	[ -n "$(find "$slurm_root/usr/lib" -name acct_gather_energy_$plugin.so 2>/dev/null | head -n 1)" ] ||
		skip_all "there is no plugin $plugin"
done
echo 'slurm_serve = srun, batch, extern' >"$STEPD_CONFIG"

# Nobody makes a directory in /sys. The registers' unit is a joule.
cat >"$tmpdir/counters" <<'S'
set -e
top=$1
shift
sys=$(mktemp -d "$top/sys.XXXXXX")
mount --rbind /sys "$sys"
mount -t tmpfs -o mode=755,size=1m tmpfs /sys
for entry in "$sys"/*; do
	mkdir "/sys/${entry##*/}"
	mount --rbind "$entry" "/sys/${entry##*/}"
done
umount -l "$sys"
rmdir "$sys"
mkdir -p /sys/cray/pm_counters
cd /sys/cray/pm_counters
echo '100000 J' >energy
echo '300 W' >power
chmod -R a+rwX /sys/cray
mount -t tmpfs -o mode=755,size=1m tmpfs /dev/cpu
cpu=$(awk '/^processor/ { cpu = $3 } /^physical id/ { print cpu; exit }' /proc/cpuinfo)
mkdir "/dev/cpu/$cpu"
ln -s "$cpu" /dev/cpu/one
msr=/dev/cpu/one/msr
truncate -s 4096 $msr
printf '\001' | dd of=$msr bs=1 seek=$((0x606)) conv=notrunc status=none
chmod a+rw $msr
cd /
"$top/count" 40
exec "$@"
S
# "count JOULES", for tasks.
cat >"$tmpdir/count" <<'S'
#!/bin/sh
set -e
joules=$(($(sed 's/ J//' /sys/cray/pm_counters/energy) + $1))
echo "$joules J" >/sys/cray/new
mv /sys/cray/new /sys/cray/pm_counters/energy # a reader never sees half of it
joules=$((joules - 100000))
printf "\\$(printf %o $((joules % 256)))\\$(printf %o $((joules / 256)))" |
	dd of=/dev/cpu/one/msr bs=1 seek=$((0x611)) conv=notrunc status=none
S
chmod 755 "$tmpdir/count"
own_mounts="unshare --mount --propagation private sh $tmpdir/counters $tmpdir"

cat >"$tmpdir/one" <<'S'
. "$1/functions"
count=$1/count
# What sstat has of a step whose first task has counted, while it runs.
during() { # NAME JOULES OPTION...
	name=$1
	joules=$2
	shift 2
	srun -Q "$@" sh -c 'echo $SLURM_JOB_ID.$SLURM_STEP_ID >"$1.id.$SLURM_PROCID"; [ "$SLURM_PROCID" != 0 ] || "$2" "$3"
		touch "$1.counted.$SLURM_PROCID"; until [ -e "$1.go" ]; do sleep 0.1; done' sh "$name" "$count" "$joules" &
	until_true test -e "$name.counted.0"
	sstat -n -P -j "$(cat "$name.id.0")" -o ConsumedEnergyRaw,TRESUsageInMax,TRESUsageInTot >"$name.sstat" 2>"$name.err"
	echo $? >"$name.rc"
	tr '|,' '\n\n' <"$name.sstat" | grep -E '^(energy|[0-9]+$)' >"$name.out"
	touch "$name.go"
	wait $!
}
during task 500 -J task -n 1
during tasks 300 -J tasks -n 4
in_turn plain srun -Q -J plain -n 1 "$count" 70
in_turn none srun -Q -J none -n 1 true
in_turn script sbatch -Q -J script --wait -n 1 -o script.log --wrap "$count 600; srun -Q -J within -n 1 $count 90; $count 7"
cat script.log >>script.out
# A node without the counters of a Cray.
rm -r /sys/cray/pm_counters
in_turn absent srun -Q -J absent -n 1 true
[ -n "${MYSQL_UNIX_PORT-}" ] || exit 0
srun -Q -J last true
is_settled() {
	sacct -P -n -a -D -S now-1hour -o JobName,State >states
	grep -q '^last|COMPLETED' states && ! grep -Eq 'RUNNING|PENDING|COMPLETING' states
}
until_true is_settled
sacct -P -n -a -D -S now-1hour -o JobName,State,ConsumedEnergyRaw,TRESUsageInTot,TRESUsageOutTot >sacct.all 2>sacct.err
# Which of several tasks has the last of a node's energy depends on how they end, with slurmstepd. Of a node that
# takes nothing its readings of registers are 1 and 0 in turn, and how many there are is chance; a served step has 1.
nothing=
[ "${PWD##*/}" != rapl-real ] || nothing='s/\|0\|energy=0\|/|1|energy=1|/; s/\|0\|\|$/|1||/'
sed -E "/^tasks/d; s/(cpu|fs|mem|pages|vmem)[^,|]*//g; s/,+//g; $nothing" sacct.all | sort >sacct.out
: >sacct.err
echo 0 >sacct.rc
S
BENCH_SLURM_CPUS=4
export BENCH_SLURM_CPUS BENCH_SLURM_LINES
if [ -z "$slurm_root" ] && command -v mariadbd slurmdbd >/dev/null; then
	begin_database
fi
for plugin in pm_counters rapl; do
	BENCH_SLURM_LINES="AcctGatherEnergyType=acct_gather_energy/$plugin
JobAcctGatherType=jobacct_gather/linux
PrologFlags=Contain
CommunicationParameters=block_null_hash,block_zero_hash
FirstJobId=$first_job
$slurmd_log"
	cp "$tmpdir/one" "$tmpdir/$plugin" # whose name each database has
	both "$plugin"
	same "$plugin"
	is "$(lines_of "$plugin" | grep 'handed over')" "" "$plugin: no step is handed over"
	like "$(cat "$tmpdir/$plugin-served/task.out")" '^energy=500$' "$plugin: what the node has taken is a running step's"
done
[ -n "${BENCH_SLURM_DATABASE-}" ] || skip 2 "needs slurmdbd and mariadb-server-core: what sacct has"
is "$(ls "$run")" "" "the served steps have left nothing in the runtime directory"
done_testing
