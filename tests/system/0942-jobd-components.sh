#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Heterogeneous jobs over real agents, on four named nodes of this machine: their components start
# together, on nodes of their own, with one script and its variables; they are found again by another
# jobd, cancelled together, and preempted together.
# shellcheck source=tests/lib/jobd.sh
. "${top_srcdir:?}/tests/lib/jobd.sh"

sed -i '/^\(PartitionName\|SelectType\)/d' "$tmpdir/slurm.conf"
cat >>"$tmpdir/slurm.conf" <<'CONF'
SelectType=select/cons_res
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=lo Nodes=n[1-4] Default=YES PriorityTier=1
PartitionName=back Nodes=n[1-4] PriorityTier=1 PreemptMode=REQUEUE
PartitionName=hi Nodes=n[1-4] PriorityTier=2
CONF
begin_jobd

states_of() { # JOB: of each component
	"$jobctl" queue -h -t all -j "$1" -o '%i %t' | sort | tr '\n' ';'
}
have_states() { # JOB STATES
	[ "$(states_of "$1")" = "$2" ]
}

script waits <<'S'
#SBATCH -n 2 --exclusive
#SBATCH hetjob
#SBATCH -N 2 -n 3
env | grep '^SLURM.*HET\|^SLURM_JOB_ID=\|^SLURM_JOB_NODELIST=' | sort >"$1.env"
SLURM_JOB_ID=$SLURM_JOB_ID_HET_GROUP_1 SLURM_JOB_NODELIST=$SLURM_JOB_NODELIST_HET_GROUP_1 \
	"$STEPRUN" --proctrack "$TRACKER" sh -c 'echo "$SLURM_JOB_ID $SLURMD_NODENAME"' >"$1.step" 2>&1
echo up >"$1"
while [ ! -e "$1.end" ]; do sleep 0.1; done
exit 3
S

job=$(submit waits one)
next=$((job + 1))
eventually wrote one
is "$(states_of "$job")" "$job+0 R;$job+1 R;" "the components of a job run together"
is "$(doc_of "$job+0" '["nodes"]') $(doc_of "$job+1" '["nodes"]')" "n1 n[2-3]" \
	"each component has nodes of its own"
is "$(doc_of "$job+1" '["job_id"]')" "$next" "the numbers of components follow each other"
is "$(grep -c . "$work/one.env")" "$(sort -u "$work/one.env" | wc -l)" "no variable of a component is set twice"
for line in SLURM_HET_SIZE=2 SLURM_JOB_ID=$job "SLURM_JOB_ID_HET_GROUP_0=$job" \
	"SLURM_JOB_ID_HET_GROUP_1=$next" SLURM_JOB_NODELIST=n1 SLURM_JOB_NODELIST_HET_GROUP_0=n1 \
	'SLURM_JOB_NODELIST_HET_GROUP_1=n\[2-3\]' SLURM_NTASKS_HET_GROUP_1=3; do
	ok "the script of a heterogeneous job has $line" grep -qx "$line" "$work/one.env"
done
like "$(sort -u "$work/one.step" | tr '\n' ';')" "^$next n2;$next n3;\$" \
	"a step with a component's variables runs on its nodes"
kill_jobd
begin_jobd
is "$(states_of "$job")" "$job+0 R;$job+1 R;" "the components run on when jobd is killed"
touch "$work/one.end"
ends_as "$job+0" FAILED "the first component ends with the script's status"
ends_as "$job+1" FAILED "the other component ends with the script's status"
is "$(doc_of "$next" '["exit_code"]')" 768 "a component has the script's exit status"

job=$(submit waits two)
eventually wrote two
"$jobctl" cancel "$job+1"
ends_as "$job" CANCELLED "the first component is cancelled with another one"
ends_as "$job+1" CANCELLED "a component is cancelled"

job=$(submit -p lo : -p back waits three)
eventually wrote three
high=$(submit -p hi -w n2 waits four)
eventually has_state RUNNING "$high"
eventually have_states "$job" "$job+0 PD;$job+1 PD;"
is "$(doc_of "$job" '["state_reason"]') $(doc_of "$job+1" '["restart_cnt"]')" "Resources 1" \
	"all components are queued again where one of them may be"
"$jobctl" cancel "$job" "$high"
ends_as "$job+1" CANCELLED "a component that waits is cancelled with the first one"
eventually has_ended "$high"
nothing_left_of_jobs 100
done_testing
