#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Options of sbatch and salloc that choose nodes and cores: the command line, "#SBATCH" lines and
# the environment, what is shown of them, what a job is told, and a kill -9 of jobd.
# shellcheck source=tests/lib/jobd.sh disable=SC2119
. "${top_srcdir:?}/tests/lib/jobd.sh"

# shellcheck disable=SC2154 # $tmpdir, $work are of jobd.sh
sed -i 's,Sockets=1 CoresPerSocket=8,Sockets=2 CoresPerSocket=4,' "$tmpdir/slurm.conf"
begin_jobd
# What an allocation with these options gets, "n1:0-1 n2:4"; it ends then.
cores() {
	"$jobctl" alloc --no-shell -Q "$@" || return
	job=$("$jobctl" queue -h -t R -o %A)
	cores_of "$job"
	"$jobctl" cancel "$job"
	eventually has_ended "$job"
}
cores_of() { # JOB
	"$jobctl" show -d job "$1" | sed -n 's/^ *Nodes=\([^ ]*\) CPUs=.* CPU_IDs=\([^ ]*\) .*/\1:\2/p' | tr '\n' ' '
}

# ---- each option

is "$(cores -n 3)" "n1:0-1,4 " "without options tasks take the sockets in turn"
is "$(cores -n 3 -m block:block)" "n1:0-2 " "block behind the colon takes as few sockets as possible"
is "$(cores -n 3 --distribution=plane=2)" "n1:0-2 " "a plane of tasks takes as few sockets as possible"
is "$(cores -n 3 -m plane=2:cyclic)" "n1:0-1,4 " "the part behind the colon counts for a plane, too"
is "$(cores -n 1 -c 2 -m '*:fcyclic')" "n1:0,4 " "fcyclic takes the cores of one task on each socket in turn"
is "$(cores -n 8 --ntasks-per-socket=2)" "n1:0-1,4-5 n2:0-1,4-5 " "a socket has no more tasks than --ntasks-per-socket"
is "$(cores -n 3 --ntasks-per-core=1)" "n1:0-1,4 " "--ntasks-per-core is no limit where a core has one thread"
is "$(cores -n 6 --spread-job)" "n1:0,4 n2:0,4 n3:0 n4:0 " "--spread-job takes all nodes, and evenly many tasks on them"
is "$(cores -N 1-4 -n 6 --use-min-nodes)" "n1:0-2,4-6 " "--use-min-nodes takes the least of a range of nodes"
is "$(cores -N 1-4 -n 6)" "n1:0-1,4 n2:0 n3:0 n4:0 " "without it a range of nodes aims at the most"

# ---- what is refused, and what is ignored

"$jobctl" alloc --no-shell -m spiral 2>"$tmpdir/err"
is "$?" 1 "a distribution that there is not is an error"
like "$(cat "$tmpdir/err")" "--distribution: 'spiral' is not block, cyclic or plane=N" "the wrong distribution is named"
fails "more tasks than sockets may have are refused" "$jobctl" alloc --no-shell -N 1 -n 3 --ntasks-per-socket=1 2>/dev/null
"$jobctl" submit --test-only -m cyclic:block:cyclic,NoPack --spread-job --use-min-nodes --ntasks-per-socket=2 \
	--ntasks-per-core=1 --wrap true >"$tmpdir/err" 2>&1
is "$(grep -c ignoring "$tmpdir/err") $(grep -c "':cyclic,NoPack'.*ignoring" "$tmpdir/err")" "1 1" \
	"only the parts of a distribution that are not served are ignored with a note"

# ---- a script's lines, and a kill -9 between its submission and its start

script placed <<'S'
#SBATCH -N 2 -n 5 -m cyclic:block --ntasks-per-socket=4
#SBATCH --ntasks-per-core=1 --spread-job --hold
env | grep -E '^SLURM_(DIST|NTASKS_PER|TASKS_PER)' | sort >"$1"
until [ -e "$1.end" ]; do sleep 0.05; done
S
placed=$(SBATCH_USE_MIN_NODES=1 submit placed told)
kill_jobd
begin_jobd
is "$("$jobctl" show job "$placed" | sed -n 's/.*\(NtasksPerN.*\)/\1/p; s/^ *\(Distribution.*\)/\1/p' | tr '\n' ' ')" \
	"NtasksPerN:S:C=0:4:1 Distribution=cyclic:block SpreadJob=1 UseMinNodes=1 " \
	"a kill of jobd loses none of the options of a job"
is "$("$jobctl" queue -h -j "$placed" -O Distribution,NTPerSocket,NTPerCore | tr -s ' ')" "cyclic:block 4 1 " \
	"the columns of these options are those of squeue"
"$jobctl" release "$placed"
eventually wrote told SLURM_TASKS_PER_NODE
is "$(cores_of "$placed")" "n1:0-2 n2:0-1 " "a job is placed by the options of its script when jobd has been killed"
is "$(tr '\n' ' ' <"$work/told")" \
	"SLURM_DISTRIBUTION=cyclic:block SLURM_NTASKS_PER_CORE=1 SLURM_NTASKS_PER_SOCKET=4 SLURM_TASKS_PER_NODE=3,2 " \
	"a job is told how its tasks are distributed"
touch "$work/told.end"
ends_as "$placed" COMPLETED "a job with such options ends"
nothing_left_of_jobs 100
done_testing
