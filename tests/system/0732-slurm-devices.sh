#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Devices of single tasks of steps that stepd-slurmstepd serves: --gpu-bind and what implies it, by variables and
# where devices are constrained; and devices that are shared, mps and shard. The same command lines in a Slurm of
# slurmstepd's; users must see the same.
# shellcheck source=tests/lib/slurm_pair.sh
. "${top_srcdir:?}/tests/lib/slurm_pair.sh"

lines="SelectTypeParameters=CR_CPU_Memory
CommunicationParameters=block_null_hash,block_zero_hash
FirstJobId=$first_job
$slurmd_log"
BENCH_SLURM_CPUS=4
export BENCH_SLURM_CPUS BENCH_SLURM_GRES BENCH_SLURM_NODE_WORDS BENCH_SLURM_LINES
cat >"$tmpdir/show" <<'END'
#!/bin/sh
env | grep -E 'GPU|NIC|CUDA|ROCR|SHARD|OMPI_MCA' | grep -v ^BENCH_ | sort | sed "s/^/${SLURM_PROCID-} /"
END
chmod 755 "$tmpdir/show"

# ---- variables -------------------------------------------------------------------------------
cat >"$tmpdir/prolog" <<'END'
#!/bin/sh
echo "print prolog $SLURM_PROCID $CUDA_VISIBLE_DEVICES"
END
chmod 755 "$tmpdir/prolog"
cat >"$tmpdir/steps" <<'END'
. "$1/functions"
show=$1/show
srun='srun -Q --overlap -n 4'
for bind in map_gpu:1,0 map_gpu:3*3,0x2 mask_gpu:0x3,0xc closest single:1 single:2 per_task:1 none \
	verbose,map_gpu:0,2 verbose,per_task:1 verbose,none verbose,closest map_gpu:9; do
	in_turn "$(echo "$bind" | tr ':,*' ___)" $srun --gpu-bind=$bind sh "$show"
done
in_turn labels $srun -l --gpu-bind=verbose,map_gpu:1,2,3,0 sh "$show"
in_turn few srun -Q -n 2 --gres=gpu:b:1 --gpu-bind=map_gpu:0,3 sh "$show"
in_turn some srun -Q -n 3 --gres=gpu:b:2 --gpu-bind=per_task:1 sh "$show"
in_turn each srun -Q -n 2 --gpus-per-task=2 sh "$show"
in_turn alone srun -Q -n 1 --gpus=2 --gpu-bind=map_gpu:1 sh "$show"
in_turn nics $srun --gres=gpu:a:2,nic:2 --accel-bind=gn sh "$show"
in_turn gpus $srun --accel-bind=vg sh "$show"
in_turn without srun -Q -n 2 --gres=none --gpu-bind=map_gpu:1,0 sh "$show"
in_turn prolog $srun --gpu-bind=verbose,map_gpu:1,0 --task-prolog="$1/prolog" sh "$show"
printf '0-1,3 sh %s\n2 echo other %%t\n' "$show" >programs
in_turn programs $srun --gpu-bind=verbose,map_gpu:2,1 --multi-prog programs
END
cat >"$tmpdir/variables" <<'END'
. "$1/functions"
salloc -Q -n 4 --gres=gpu:a:2,gpu:b:2,nic:2 sh "$1/steps" "$1"
in_turn outside srun -Q -n 2 --gpus-per-task=1 sh "$1/show"
in_turn script sbatch -Q --wait -o script.log -n 2 --gpus-per-task=1 "$1/show"
cat script.log >script.out
END
gres_with() { # CORES of the third GPU
	BENCH_SLURM_GRES="Name=gpu Type=a File=/dev/null Cores=0
Name=gpu Type=a File=/dev/zero Cores=1
Name=gpu Type=b File=/dev/full Cores=$1
Name=gpu Type=b File=/dev/random
Name=nic File=/dev/tty Cores=1
Name=nic File=/dev/urandom"
}
# 24.11 takes those of one socket, which has one here, or all.
cores=0-1
[ -z "${STEPD_TEST_SLURM-}" ] || cores=2
gres_with $cores
BENCH_SLURM_NODE_WORDS="RealMemory=4000 Gres=gpu:a:2,gpu:b:2,nic:2"
BENCH_SLURM_LINES="GresTypes=gpu,nic
$lines"
both variables
same variables
is "$(grep -h STEP_GPUS "$tmpdir/variables-served/map_gpu_1_0.out" | sort | tr '\n' ' ')" \
	"0 SLURM_STEP_GPUS=1 1 SLURM_STEP_GPUS=0 2 SLURM_STEP_GPUS=1 3 SLURM_STEP_GPUS=0 " "each task has its own GPU"
is "$(lines_of variables | grep 'handed over')" "" "no step was handed over that is bound to devices"

# ---- devices by processors -------------------------------------------------------------------
cat >"$tmpdir/close" <<'END'
. "$1/functions"
show=$1/show
srun='srun -Q --overlap -n 2'
in_turn bound $srun --gpu-bind=verbose,closest sh "$show"
in_turn cores $srun --cpu-bind=cores --gpu-bind=closest --accel-bind=n sh "$show"
in_turn single $srun --gpu-bind=single:1 sh "$show"
in_turn ranks $srun --cpu-bind=rank --gpu-bind=closest sh "$show"
in_turn unbound $srun --cpu-bind=none --gpu-bind=closest sh "$show"
in_turn mapped $srun --cpu-bind=map_cpu:1,0 --gpu-bind=closest sh "$show"
END
cat >"$tmpdir/processors" <<'END'
. "$1/functions"
salloc -Q -n 2 --gres=gpu:a:2,gpu:b:2,nic:2 sh "$1/close" "$1"
END
if [ "$(nproc)" -ge 2 ]; then
	BENCH_SLURM_CPUS=2
	gres_with 0-1
	BENCH_SLURM_LINES="GresTypes=gpu,nic
TaskPlugin=task/affinity
$lines"
	both processors
	same processors
	like "$(cat "$tmpdir/processors-served/mapped.out")" "^0 SLURM_STEP_GPUS=1,2,3$" "a task has the GPUs of its processor"
	# From 23.11 on --accel-bind is another way, and from 24.11 on nothing is bound by ranks.
	ranks="tasks get the devices closest to their processors"
	ways="its tasks are bound to devices in two ways"
	if [ "$STEPD_TEST_PROTOCOL" -lt 10240 ]; then
		reason=$ranks
	elif [ "$STEPD_TEST_PROTOCOL" -lt 10752 ]; then
		reason="$ways
$ranks"
	else
		reason=$ways
	fi
	is "$(lines_of processors | grep 'handed over' | sed 's/.*served: //; s/ (.*//')" "$reason" \
		"only a step whose binding is not served was handed over"
else
	skip 2 "there is one processor"
fi

# ---- devices ---------------------------------------------------------------------------------
cat >"$tmpdir/try" <<'END'
#!/bin/sh
for device in zero full random; do
	if (: </dev/$device) 2>/dev/null; then
		echo "$SLURM_PROCID $CUDA_VISIBLE_DEVICES $SLURM_STEP_GPUS $device opens"
	else
		echo "$SLURM_PROCID $CUDA_VISIBLE_DEVICES $SLURM_STEP_GPUS $device does not"
	fi
done
END
cat >"$tmpdir/tries" <<'END'
. "$1/functions"
srun='srun -Q --overlap -n 2'
for bind in map_gpu:1,2 mask_gpu:0x1,0x6 per_task:1 single:1 closest none verbose,map_gpu:0,1; do
	in_turn "$(echo "$bind" | tr ':,' __)" $srun --gpu-bind=$bind sh "$1/try"
done
in_turn all $srun sh "$1/try"
in_turn few $srun --gres=gpu:2 --gpu-bind=map_gpu:1,0 sh "$1/try"
END
# What is added to an extern step has the job's, whatever steps have.
cat >"$tmpdir/adopt" <<'END'
. "$1/functions"
node=$(ls "$at/spool")
in_turn "added-$2" "$ADOPTED" "$at/spool/$node/${node}_$SLURM_JOB_ID.4294967292" "$STEPD_TEST_PROTOCOL" sh "$1/try"
END
cat >"$tmpdir/devices" <<'END'
. "$1/functions"
salloc -Q -n 2 --gres=gpu:3 sh "$1/tries" "$1"
salloc -Q -n 1 --gres=gpu:2 sh "$1/adopt" "$1" two
salloc -Q -n 1 sh "$1/adopt" "$1" none
until_true idle
# slurmstepd of 24.11 leaves the socket of such an extern step.
[ "${PWD##*/}" != devices-real ] || rm -f "$at"/spool/*/*.4294967292
END
ADOPTED=$(cd "$top_builddir" && pwd)/tests/lib/slurm_adopted
export ADOPTED
if grep -q cgroup2 /proc/mounts && "$stepd" run -q --job "$job" --proctrack cgroup --device 'a *:*' -- true 2>/dev/null; then
	BENCH_SLURM_GRES="Name=gpu File=/dev/zero
Name=gpu File=/dev/full
Name=gpu File=/dev/random"
	BENCH_SLURM_NODE_WORDS="RealMemory=4000 Gres=gpu:3"
	BENCH_SLURM_CGROUP=ConstrainDevices=yes
	export BENCH_SLURM_CGROUP
	BENCH_SLURM_LINES="GresTypes=gpu
TaskPlugin=task/affinity,task/cgroup
PrologFlags=Contain
$lines"
	echo 'slurm_serve = srun, batch, extern' >"$STEPD_CONFIG"
	both devices
	same devices
	is "$(grep -ho '[a-z]* opens' "$tmpdir/devices-served/added-two.out" | tr '\n' ' ')" "zero opens full opens " \
		"what is added to an extern step opens the job's devices alone"
	is "$(grep -h opens "$tmpdir/devices-served/map_gpu_1_2.out" | sort | cut -d ' ' -f 1,4 | tr '\n' ' ')" \
		"0 full 1 random " "each task opens its own GPU alone"
	is "$(lines_of devices | grep 'handed over')" "" "no step was handed over where devices are constrained"
	BENCH_SLURM_CGROUP=
else
	skip 3 "no device program can be attached here"
fi

# ---- shared devices --------------------------------------------------------------------------
BENCH_SLURM_CPUS=4
cat >"$tmpdir/shares" <<'END'
. "$1/functions"
show=$1/show
in_turn all srun -Q -n 1 sh "$show"
in_turn some srun -Q -n 1 --gres=$2:10 sh "$show"
in_turn none srun -Q -n 1 --gres=none sh "$show"
in_turn bound srun -Q -n 2 --gpu-bind=map_gpu:0,1 sh "$show"
END
for kind in mps shard; do
	cat >"$tmpdir/$kind" <<END
. "\$1/functions"
salloc -Q -n 2 --gres=$kind:30 sh "\$1/shares" "\$1" $kind
in_turn script sbatch -Q --wait -o script.log --gres=$kind:20 "\$1/show"
in_turn gpu srun -Q -n 1 --gres=gpu:1 sh "\$1/show"
cat script.log >script.out
END
done
if mknod "$tmpdir/gpu0" c 1 5 && mknod "$tmpdir/gpu1" c 1 7; then
	for kind in mps shard; do
		BENCH_SLURM_GRES="Name=gpu File=$tmpdir/gpu[0-1]
Name=$kind Count=120"
		BENCH_SLURM_NODE_WORDS="RealMemory=4000 Gres=gpu:2,$kind:120"
		BENCH_SLURM_LINES="GresTypes=gpu,$kind
$lines"
		both $kind
		same $kind
		# Later releases share parts of devices out to tasks by rules of their own.
		reason=
		[ "$STEPD_TEST_PROTOCOL" -lt 10240 ] || reason="its tasks are bound to parts of devices, '$kind'"
		is "$(lines_of $kind | grep 'handed over' | sed 's/.*served: //; s/ (slurm.*//')" "$reason" \
			"no step with '$kind' was handed over but one of such a binding"
	done
	like "$(cat "$tmpdir/mps-served/some.out")" "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=16$" "a step has its part of a GPU's threads"
	like "$(cat "$tmpdir/shard-served/some.out")" "SLURM_SHARDS_ON_NODE=10$" "a step has its shards"
else
	skip 4 "no device node can be made here"
fi
is "$(ls "$run")" "" "the served steps have left nothing in the runtime directory"
done_testing
