#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The generic resources and the limits of steps that stepd-slurmstepd serves: variables, devices, and what is
# handed over where the node has no controllers of cgroup v2.
# shellcheck source=tests/lib/slurm_pair.sh
. "${top_srcdir:?}/tests/lib/slurm_pair.sh"

# ---- variables -------------------------------------------------------------------------------
cat >"$tmpdir/show" <<'END'
#!/bin/sh
env | grep -E 'GPU|NIC|CUDA|ROCR|ZE_|GRES|OMPI_MCA|TRES' | grep -v ^BENCH_ | sort
END
cat >"$tmpdir/steps" <<'END'
. "$1/functions"
show=$1/show
in_turn all srun -Q -n 1 sh "$show"
in_turn one srun -Q -n 1 --gres=gpu:1 sh "$show"
in_turn type srun -Q -n 1 --gres=gpu:b:1 sh "$show"
in_turn types srun -Q -n 1 --gres=gpu:a:1,gpu:b:2 sh "$show"
in_turn tasks srun -Q -n 2 --gres=gpu:2 sh "$show"
in_turn nics srun -Q -n 1 --gres=nic:2 sh "$show"
in_turn both srun -Q -n 1 --gres=gpu:a:2,nic:1 sh "$show"
in_turn none srun -Q -n 1 --gres=none sh "$show"
in_turn count srun -Q -n 1 --gres=naf:2 sh "$show"
in_turn gpus srun -Q -n 1 --gpus=1 sh "$show"
in_turn left env CUDA_VISIBLE_DEVICES=9 SLURM_GPUS_ON_NODE=9 srun -Q -n 1 --gres=none sh "$show"
END
cat >"$tmpdir/variables" <<'END'
. "$1/functions"
salloc -Q -n 2 --gres=gpu:a:2,gpu:b:2,nic:2,naf:2 sh "$1/steps" "$1"
in_turn script sbatch -Q --wait -o script.log --gres=gpu:b:2,nic:1 "$1/show"
in_turn script-none sbatch -Q --wait -o script-none.log "$1/show"
cat script.log script-none.log >script.out
in_turn outside env CUDA_VISIBLE_DEVICES=9 srun -Q -n 1 sh "$1/show"
END
# Any devices do that are there everywhere: nothing is done with them.
BENCH_SLURM_GRES="Name=gpu Type=a File=/dev/null
Name=gpu Type=a File=/dev/zero
Name=gpu Type=b File=/dev/full
Name=gpu Type=b File=/dev/random
Name=nic File=/dev/tty
Name=nic File=/dev/urandom
Name=naf Count=3"
BENCH_SLURM_NODE_WORDS="RealMemory=4000 Gres=gpu:a:2,gpu:b:2,nic:2,naf:3"
BENCH_SLURM_CPUS=4
lines="GresTypes=gpu,nic,naf
SelectTypeParameters=CR_CPU_Memory
CommunicationParameters=block_null_hash,block_zero_hash
FirstJobId=$first_job"
BENCH_SLURM_LINES="$lines
$slurmd_log"
export BENCH_SLURM_GRES BENCH_SLURM_NODE_WORDS BENCH_SLURM_CPUS BENCH_SLURM_LINES
both variables
same variables
like "$(cat "$tmpdir/variables-served/types.out")" "^SLURM_STEP_GPUS=[01],2,3$" "a step has the devices of its types"
like "$(cat "$tmpdir/variables-served/nics.out")" "^OMPI_MCA_btl_openib_if_include=mlx4_" "a step has its NICs"
is "$(grep -c VISIBLE "$tmpdir/variables-served/left.out")" 0 "a step without GPUs has no variable of them"
is "$(lines_of variables | grep 'handed over')" "" "no step with GRES was handed over"

# ---- devices ---------------------------------------------------------------------------------
cat >"$tmpdir/try" <<'END'
#!/bin/sh
env | grep -E 'STEP_GPUS|JOB_GPUS|CUDA' | sort
for device in zero full random null; do
	if (: </dev/$device) 2>/dev/null; then
		echo "$device opens"
	else
		echo "$device does not"
	fi
done
END
cat >"$tmpdir/tries" <<'END'
. "$1/functions"
try=$1/try
in_turn all srun -Q -n 1 sh "$try"
in_turn one srun -Q -n 1 --gres=gpu:1 sh "$try"
in_turn other srun -Q -n 1 --gres=gpu:b:1 sh "$try"
in_turn none srun -Q -n 2 --gres=none sh "$try"
END
cat >"$tmpdir/devices" <<'END'
. "$1/functions"
salloc -Q -n 2 --gres=gpu:a:1,gpu:b:1 sh "$1/tries" "$1"
in_turn script sbatch -Q --wait -o script.log --gres=gpu:b:1 "$1/try"
cat script.log >script.out
END
if grep -q cgroup2 /proc/mounts && "$stepd" run -q --job "$job" --proctrack cgroup --device 'a *:*' -- true 2>/dev/null; then
	BENCH_SLURM_GRES="Name=gpu Type=a File=/dev/full
Name=gpu Type=b File=/dev/random"
	BENCH_SLURM_NODE_WORDS="RealMemory=4000 Gres=gpu:a:1,gpu:b:1"
	BENCH_SLURM_CGROUP=ConstrainDevices=yes
	BENCH_SLURM_LINES="$lines
TaskPlugin=task/cgroup
$slurmd_log"
	export BENCH_SLURM_CGROUP
	both devices
	same devices
	like "$(cat "$tmpdir/devices-served/other.out")" "^full does not$" "a step can't open another's device"
	is "$(lines_of devices | grep 'handed over')" "" "no step was handed over where devices are constrained"
else
	skip 2 "no device program can be attached here"
fi

# ---- limits that can't be had ----------------------------------------------------------------
cat >"$tmpdir/limits" <<'END'
. "$1/functions"
in_turn step srun -Q -n 1 --mem=100 echo done
END
BENCH_SLURM_CGROUP="ConstrainRAMSpace=yes
ConstrainCores=yes"
BENCH_SLURM_LINES="$lines
TaskPlugin=task/affinity,task/cgroup
$slurmd_log"
export BENCH_SLURM_CGROUP
if [ ! -d /sys/fs/cgroup/system.slice ] && grep -q '^cgroup .*[ ,]memory' /proc/mounts; then
	served limits
	is "$(cat "$tmpdir/limits-served/step.out")" "done" "a step whose limits can't be had runs in slurmstepd"
	like "$(lines_of limits)" "handed over to .*: its limits \\(task/cgroup\\) can't be had here: slurmd's scope" \
		"slurmd's log has why the step was handed over"
else
	skip 2 "there are controllers of cgroup v2, or none at all"
fi
is "$(ls "$run")" "" "the served steps have left nothing in the runtime directory"
done_testing
