# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# For tests of agents that an engine starts, on top of step.sh:
#	$agent_command  a program that becomes "stepd run" as node n0, n1, ... by the engine's rank
#	$where          a shell program for tasks: prints where it is, a line of $places each
#	leaks           a shell program for tasks: what of the engine's they have

# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

# shellcheck disable=SC2034 # of those who read this
agent_command=$tmpdir/agent
cat >"$agent_command" <<END
#!/bin/sh
exec $stepd run --runtime-dir "$run" --proctrack linuxproc --node-name "n\${PMI_RANK:-\$PMI_ID}" "\$@"
END
chmod +x "$agent_command"

# shellcheck disable=SC2016,SC2034 # the task's own
where='echo "$SLURM_JOB_ID.$SLURM_STEP_ID node $SLURM_NODEID of $SLURM_NNODES rank $SLURM_PROCID of $SLURM_NTASKS on $SLURM_STEP_NODELIST $SLURM_TASKS_PER_NODE"'
# shellcheck disable=SC2016,SC2034
leaks='env | grep -E "^(PMI|PMIX|HYDI|HYDRA|MPI_LOCAL|SLURM_LAUNCH|SLURM_SRUN|SLURM_STEP_LAUNCHER)"
	ls -l /proc/self/fd | grep -c socket:; true'
