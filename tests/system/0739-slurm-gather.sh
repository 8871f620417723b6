#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Sites that gather more than the usage of tasks: profiles in HDF5 files, and what goes over network
# interfaces. A step that is profiled, and each step where slurmctld accounts for such a use, is handed over;
# the others are served, and users see the same of them. Two Slurms at the same time, one of them with Slurm's
# own slurmstepd, and the same command lines in both. So it is with --cpu-freq, where the processors'
# frequencies can't be set.
# shellcheck source=tests/lib/slurm_pair.sh
. "${top_srcdir:?}/tests/lib/slurm_pair.sh"
# shellcheck source=tests/lib/slurm_database.sh
. "$top_srcdir/tests/lib/slurm_database.sh"

needs_slurm sbatch srun
[ -n "$(find "$slurm_root/usr/lib" -name acct_gather_profile_hdf5.so 2>/dev/null | head -n 1)" ] ||
	skip_all "needs slurm-wlm-hdf5-plugin"
echo 'slurm_serve = srun, batch, extern' >"$STEPD_CONFIG"

cat >"$tmpdir/one" <<'S'
. "$1/functions"
profiles() { # NAME: the files that have been made, by their job's place in the order and their step
	until_true no_step
	ls "$(dirname "$SLURM_CONF")/profiles/root" 2>"$1.none" | sed 's/^[0-9]*_\(.*\)_bench[0-9]*\.h5$/\1/' | sort >"$1.out"
	rm -rf "$(dirname "$SLURM_CONF")/profiles/root"
	: >"$1.err"
	echo 0 >"$1.rc"
}
in_turn plain srun -Q -n 2 -l sh -c 'echo $SLURM_PROCID of $SLURM_NTASKS; exit 3'
profiles plain-files
in_turn none srun -Q --profile=none -n 2 -l echo not profiled
profiles none-files
in_turn asked srun -Q --profile=task --acctg-freq=task=1 -n 2 -l echo profiled
profiles asked-files
in_turn script sbatch -Q --wait -n 1 -o script.log --wrap 'echo a script; srun -Q -n 1 echo its step'
cat script.log >>script.out
profiles script-files
in_turn asks sbatch -Q --wait --profile=task -n 1 -o asks.log --wrap 'echo a script; srun -Q -n 1 echo its step; srun -Q --profile=none -n 1 echo another'
cat asks.log >>asks.out
profiles asks-files
in_turn frequency srun -Q --cpu-freq=high -n 2 -l sh -c 'echo $SLURM_CPU_FREQ_REQ'
in_turn governor srun -Q --cpu-freq=low-high:performance -n 1 sh -c 'echo $SLURM_CPU_FREQ_REQ'
in_turn frequencies sbatch -Q --wait --cpu-freq=low -n 1 -o frequencies.log --wrap 'echo $SLURM_CPU_FREQ_REQ; srun -Q -n 1 sh -c "echo \$SLURM_CPU_FREQ_REQ"'
cat frequencies.log >>frequencies.out
profiles frequency-files
S

handed_over() { # NAME: of a Slurm; how many steps, by their reasons
	sed -n 's/.* stepd-slurmstepd: .* handed over to [^:]*: //p' "$tmpdir/$1".*.log | sort | uniq -c | sed 's/^ *//'
}
BENCH_SLURM_CPUS=4
export BENCH_SLURM_CPUS BENCH_SLURM_LINES BENCH_SLURM_GATHER
lines="AcctGatherProfileType=acct_gather_profile/hdf5
AcctGatherInterconnectType=acct_gather_interconnect/sysfs
JobAcctGatherType=jobacct_gather/linux
PrologFlags=Contain
CommunicationParameters=block_null_hash,block_zero_hash
FirstJobId=$first_job
$slurmd_log"
gather="ProfileHDF5Dir=@DIR@/profiles
SysfsInterfaces=lo"
profiled='it is profiled (--profile, or the default of acct_gather.conf)'

# Those that ask are a step, a script, and the step of the script that says nothing of its own.
BENCH_SLURM_LINES=$lines
BENCH_SLURM_GATHER=$gather
both one
same one
is "$(handed_over one-served)" "3 $profiled" "a step that asks for a profile is handed over, and no other"
is "$(cat "$tmpdir/one-served/plain-files.out")" "" "a step that does not ask for a profile has none"
is "$(wc -l <"$tmpdir/one-served/asked-files.out")" 1 "a step that asks for a profile has one"

# A site that profiles each step which does not say "none".
rm -rf "$tmpdir"/one-*
BENCH_SLURM_GATHER="$gather
ProfileHDF5Default=Task"
both one
same one
is "$(handed_over one-served | sed 's/^[0-9]* //')" "$profiled" "profiles are the one reason"
like "$(cat "$tmpdir/one-served/plain-files.out")" '^0$' "by the site's default a step is profiled"
unlike "$(cat "$tmpdir/one-served/none-files.out")" '^0$' "a step that says so is not"

# What goes over an interface is accounted for, which needs a slurmdbd.
is "$(ls "$run")" "" "the served steps have left nothing in the runtime directory"
if [ -n "$slurm_root" ] || ! command -v mariadbd slurmdbd >/dev/null; then
	skip 2 "needs slurmdbd and mariadb-server-core"
	done_testing
	exit
fi
begin_database
cat >"$tmpdir/one" <<'S'
. "$1/functions"
in_turn plain srun -Q -n 2 -l echo counted
S
BENCH_SLURM_LINES="$lines
AccountingStorageTRES=ic/sysfs"
BENCH_SLURM_GATHER=$gather
BENCH_SLURM_STEPD=$slurm_program in_slurm counted "$(slurm_port 3)" one
is "$(sort "$tmpdir/counted/plain.out")" "0: counted
1: counted" "a step whose use of the network is accounted for runs"
is "$(handed_over counted | sed 's/^[0-9]* //')" "its use of a network or of Lustre is accounted for (AccountingStorageTRES)" \
	"it is handed over"
done_testing
