#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Which rank steprun puts on which node, as srun does, and the variables that the tasks have for it.
# shellcheck source=tests/lib/steprun.sh
. "${top_srcdir:?}/tests/lib/steprun.sh"

# Nodes of the ranks in turn: "0 0 1".
nodes_of() {
	# shellcheck disable=SC2016 # the task's
	srun_here -q "$@" -- sh -c 'echo $SLURM_PROCID $SLURM_NODEID' 2>"$tmpdir/err" | sort -n | cut -d ' ' -f 2 | tr '\n' ' '
}

# What srun 22.05 gives for nodes that have room.
is "$(nodes_of -N 2 -n 5)" "0 0 0 1 1 " "block gives the first nodes one task more"
is "$(nodes_of -N 3 -n 8 -m block)" "0 0 0 1 1 1 2 2 " "block distributes eight tasks over three nodes"
is "$(nodes_of -N 2 -n 5 -m cyclic)" "0 1 0 1 0 " "cyclic distributes tasks in turn"
is "$(nodes_of -N 2 -n 8 -m plane=3)" "0 0 0 1 1 1 0 0 " "plane distributes tasks in planes"
is "$(nodes_of -m arbitrary --launcher local -w b,a,b,c,a)" "0 1 0 2 1 " \
	"arbitrary distributes tasks by the list of hosts"
printf 'b # one\na\n\nb\n' >"$tmpdir/hosts"
is "$(nodes_of -m arbitrary --launcher local --hostfile "$tmpdir/hosts")" "0 1 0 " \
	"arbitrary distributes tasks by a host file"
is "$(nodes_of -m arbitrary --launcher local -w b,a,c -n 2)" "0 1 " \
	"arbitrary uses the first hosts for fewer tasks"
is "$(nodes_of -N 3)" "0 1 2 " "-N alone starts a task on each node"
is "$(nodes_of -N 2 --ntasks-per-node 2)" "0 0 1 1 " "--ntasks-per-node gives each node its tasks"
is "$(nodes_of -N 3 -n 2)" "0 1 " "fewer tasks than nodes use fewer nodes"
is "$(srun_here -N 3 -n 2 true 2>&1)" "steprun: 2 tasks can't be on 3 nodes: 2 of them are used" \
	"steprun reports that fewer nodes are used"
is "$(nodes_of --launcher local -w 'n[1-3]' -N 2 -n 2)" "0 1 " "-N uses the first of the hosts"

cat >"$tmpdir/show" <<'S'
echo "$SLURM_PROCID: $SLURM_LOCALID $SLURM_NODEID $SLURM_NNODES $SLURM_NTASKS $SLURM_GTIDS" \
	"$SLURM_TASKS_PER_NODE $SLURM_STEP_NODELIST $SLURMD_NODENAME $SLURM_DISTRIBUTION"
S
is "$(srun_here --launcher local -w 'n[1-2],login' -n 4 -m cyclic sh "$tmpdir/show" | sort)" \
	"0: 0 0 3 4 0,3 2,1(x2) n[1-2],login n1 cyclic
1: 0 1 3 4 1 2,1(x2) n[1-2],login n2 cyclic
2: 0 2 3 4 2 2,1(x2) n[1-2],login login cyclic
3: 1 0 3 4 0,3 2,1(x2) n[1-2],login n1 cyclic" "the variables of the layout are right on every node"
printf '0-1 echo one\n2-3 echo two %%t\n' >"$tmpdir/programs"
is "$(srun_here -N 2 -n 4 --multi-prog "$tmpdir/programs" | sort | tr '\n' ' ')" "one one two 2 two 3 " \
	"--multi-prog runs several programs over nodes"

refused() { # PATTERN NAME ARG...
	pattern=$1 name=$2
	shift 2
	out=$("$steprun" "$@" -- true 2>&1)
	is "$?" 125 "steprun refuses $name"
	like "$out" "$pattern" "the refusal of $name has the reason"
}
# An allocation that names the launcher.
allocated() {
	# shellcheck disable=SC2016 # the task's
	SLURM_JOB_ID=$job SLURM_JOB_NODELIST='m[3-4]' SLURM_JOB_CPUS_PER_NODE='1,3' SLURM_NTASKS=4 \
		STEPRUN_LAUNCHER=local "$steprun" -q --proctrack "$tracker" "$@" -- \
		sh -c 'echo "$SLURM_PROCID $SLURMD_NODENAME $SLURM_JOB_ID"' 2>"$tmpdir/err" | sort -n | tr '\n' ','
}
is "$(allocated)" "0 m3 $job,1 m4 $job,2 m4 $job,3 m4 $job," \
	"with STEPRUN_LAUNCHER the nodes, their CPUs and the tasks are those of the allocation"
is "$(allocated -N 1 -n 1)" "0 m3 $job," "a step of one node uses the allocation's first"
is "$(allocated -n 5)" "" "an allocation with STEPRUN_LAUNCHER has no CPU twice"
is "$(allocated -w x1,x2 -n 2)" "0 x1 $job,1 x2 $job," "STEPRUN_LAUNCHER also reaches other hosts"
is "$(allocated --launcher local -N 2 -n 2 | grep -c m3)" 0 "--launcher counts in place of STEPRUN_LAUNCHER"
is "$(STEPRUN_LAUNCHER=local srun_here -q -n 2 true; echo $?)" 0 "STEPRUN_LAUNCHER needs no allocation"
refused "5 tasks don't fit on 2 nodes" "too many tasks for the nodes" -N 2 -n 5 --ntasks-per-node 2
refused "needs the node of each task" "arbitrary without a list" -m arbitrary -N 2
refused "4 tasks need as many hosts" "arbitrary with a short list" -m arbitrary --launcher local -w a,b -n 4
refused "only 2 are given" "more nodes than hosts" --launcher local -w a,b -N 3
refused "is not a list of hosts" "a broken list" -w 'n[1-'
refused "is not one of local" "no such launcher" --launcher telnet -N 2
refused "is not one of local" "a template without the command" --launcher 'exec:run %h' -N 2
refused "is not one of block" "no such distribution" -m wild
STEPRUN_LAUNCHER=telnet
export STEPRUN_LAUNCHER
refused "STEPRUN_LAUNCHER: 'telnet' is not one of local" "no such launcher in the environment"
unset STEPRUN_LAUNCHER
refused "needs nodes" "ssh without hosts" --launcher ssh -N 2
refused "lays the tasks out itself" "a spec with a layout" --spec "$top_srcdir/tests/data/steprun-node.json"
nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
