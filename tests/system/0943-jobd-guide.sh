#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The examples of Slurm's guide on preemption as they are typed there, on clusters of named nodes of this
# machine, in real seconds: the tables that it prints, with CPU time that stands still, and the same by
# simulation. One thing is not the guide's: what the TIME column has is compared between tables.
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

jobd=$(cd "${top_builddir:?}" && pwd)/contrib/jobd/server/jobd
plugins=$(cd "$top_builddir" && pwd)/stepd/cli/plugins
jobctl=$(cd "$top_builddir" && pwd)/contrib/jobd/cli/jobctl
source=$(cd "$top_srcdir" && pwd)
if ! [ -x "$jobd" ] || ! [ -x "$jobctl" ]; then
	skip_all "jobd is not built"
fi
[ "$(id -u)" = 0 ] || skip_all "needs root"
command -v python3 >/dev/null || skip_all "needs python3"
unset STEPD_RUNTIME_DIR
case $stepd in
/*) ;;
*) stepd=$(pwd)/$stepd ;;
esac
mkdir "$tmpdir/bin"
for name in sbatch squeue sinfo scancel; do
	ln -s "$jobctl" "$tmpdir/bin/$name"
done
PATH=$tmpdir/bin:$PATH

# ---- clusters, each with a jobd of its own

groups=/sys/fs/cgroup
[ ! -d $groups/unified ] || groups=$groups/unified
clusters=
end_clusters() {
	for cluster in $clusters; do
		end_child KILL "$(cat "$tmpdir/$cluster/pid")"
	done
}
at_exit end_clusters

on() { # CLUSTER
	cluster=$1
	cd "$tmpdir/$cluster" || bail "no $tmpdir/$cluster"
	JOBD_SOCKET=$tmpdir/$cluster/socket
	export JOBD_SOCKET
}

# The numbers are the guide's, so that each cluster has cgroups and steps of its own.
begin() { # CLUSTER FIRST_JOB [OPTION...]: standard input is the configuration
	first=$2
	mkdir -m 755 "$tmpdir/$1" "$tmpdir/$1/run" "$groups/stepd-guide-$$-$1"
	mkdir -m 700 "$tmpdir/$1/state"
	clusters="$clusters $1"
	{
		printf '%s\n' ClusterName=guide FirstJobId="$first" KillWait=1
		cat
	} >"$tmpdir/$1/slurm.conf"
	on "$1"
	shift 2
	"$jobd" --conf slurm.conf --state state --socket "$JOBD_SOCKET" --stepd "$stepd" --runtime-dir "$PWD/run" \
		--cgroup-root "$groups/stepd-guide-$$-$cluster" "$@" >log 2>&1 &
	echo $! >pid
	eventually sinfo || bail "jobd does not start: $(cat log)"
	# They run for so many seconds, a twentieth of them on the CPU, and on until the test has seen it.
	for program in runit.pl sleepme tmp; do
		cat >$program <<'S'
#!/bin/sh
echo $$ >"$SLURM_JOB_ID.pid"
exec python3 -c '
import os, sys, time
wanted = float(sys.argv[1]) if len(sys.argv) > 1 else 0
spent = 0.0
while spent < wanted or not os.path.exists(os.environ["SLURM_JOB_ID"] + ".end"):
    begun = time.process_time()
    while time.process_time() < begun + 0.01:
        pass
    time.sleep(0.19)
    spent += 0.2' "$@"
S
		chmod 755 $program
	done
}

# A table without what is not compared: the widths of columns, the user, the times, and the end of a
# heading that the guide has in some examples only.
plain() {
	sed 's/NODELIST(REASON)/NODELIST/' |
		awk '$5 ~ /^[A-Z][A-Z]?$/ && $6 ~ /:/ { $4 = "user"; $6 = "T" } { $1 = $1; print }'
}
shows() { # TABLE COMMAND...
	wanted=$1
	shift
	[ "$("$@" | plain)" = "$wanted" ]
}
prints() { # NAME COMMAND...: standard input is what the guide has, with T as time
	prints_name=$1 guides=$(plain)
	shift
	eventually shows "$guides" "$@"
	is "$("$@" | plain)" "$guides" "$prints_name"
}
seconds() { # JOB: what squeue has as its TIME
	squeue -h -j "$1" -o %M | awk -F: '{ print $1 * 60 + $2 }'
}
submitted() { # NAME JOB COMMAND...
	submitted_name=$1 number=$2
	shift 2
	is "$("$@")" "Submitted batch job $number" "$submitted_name"
}
job_ticks() { # JOB
	cpu_ticks "$(cat "$1.pid")"
}
stand_still() { # NAME JOB...
	stand_name=$1
	shift
	before=
	for id; do before="$before $(job_ticks "$id")"; done
	sleep 2
	after=
	for id; do after="$after $(job_ticks "$id")"; done
	is "$after" "$before" "$stand_name"
}
moves() { # JOB
	before=$(job_ticks "$1")
	sleep 1
	[ "$(job_ticks "$1")" -gt "$before" ]
}

# ---- all of them begin

begin simple 485 <<'C'
SelectType=select/linear
PreemptType=preempt/partition_prio
PreemptMode=SUSPEND,GANG
NodeName=n[12-16] CPUs=1
PartitionName=DEFAULT OverSubscribe=FORCE:1 Nodes=n[12-16]
PartitionName=active PriorityTier=1 Default=YES
PartitionName=hipri  PriorityTier=2
C
prints "sinfo prints the nodes of the simple example" sinfo <<'T'
PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
active*      up   infinite     5   idle n[12-16]
hipri        up   infinite     5   idle n[12-16]
T
for number in 485 486 487 488 489; do
	submitted "the simple example's job $number is submitted" $number sbatch -N1 ./runit.pl 300
	eventually test -s "$number.pid"
done
prints "five jobs run, in the order of the nodes" squeue -Si <<'T'
JOBID PARTITION     NAME   USER  ST   TIME  NODES NODELIST
  485    active runit.pl   user   R   T      1 n12
  486    active runit.pl   user   R   T      1 n13
  487    active runit.pl   user   R   T      1 n14
  488    active runit.pl   user   R   T      1 n15
  489    active runit.pl   user   R   T      1 n16
T

future() { # CLUSTER PARAMETERS
	begin "$1" 17 <<C
SelectType=select/cons_res
SelectTypeParameters=$2
PreemptType=preempt/partition_prio
PreemptMode=SUSPEND,GANG
NodeName=n[1-5] CPUs=2
PartitionName=DEFAULT OverSubscribe=FORCE:1 Nodes=n[1-5]
PartitionName=active PriorityTier=1 Default=YES
PartitionName=hipri  PriorityTier=2
C
	prints "$1: all five nodes are idle" sinfo <<'T'
PARTITION AVAIL  TIMELIMIT NODES  STATE NODELIST
active*      up   infinite     5   idle n[1-5]
hipri        up   infinite     5   idle n[1-5]
T
	for number in 17 18 19; do
		submitted "$1: job $number is submitted" $number sbatch -N1 -n2 ./sleepme 60
		eventually test -s "$number.pid"
	done
	prints "$1: three jobs run" squeue <<'T'
  JOBID PARTITION     NAME     USER  ST       TIME  NODES NODELIST(REASON)
     17    active  sleepme  user   R       T      1 n1
     18    active  sleepme  user   R       T      1 n2
     19    active  sleepme  user   R       T      1 n3
T
}
future future CR_Core
future least CR_Core,CR_Least_Preempt

# ---- the simple example goes on

on simple
submitted "a job of hipri is submitted" 490 sbatch -N3 -p hipri ./runit.pl 30
prints "a job of hipri has the nodes of three that are suspended" squeue -Si <<'T'
JOBID PARTITION     NAME   USER  ST   TIME  NODES NODELIST
  485    active runit.pl   user   S   T      1 n12
  486    active runit.pl   user   S   T      1 n13
  487    active runit.pl   user   S   T      1 n14
  488    active runit.pl   user   R   T      1 n15
  489    active runit.pl   user   R   T      1 n16
  490     hipri runit.pl   user   R   T      3 n[12-14]
T
stand_still "the suspended jobs of the simple example use no CPU time" 485 486 487
ok "a job of another node goes on" eventually moves 488
stood=$(seconds 485)
ran=$(seconds 488)

# ---- future ideas

for cluster in future least; do
	on $cluster
	submitted "$cluster: a job of hipri is submitted" 20 sbatch -N3 -n6 -p hipri ./sleepme 20
done
on future
prints "a job of hipri takes the nodes of three jobs out of five" squeue -Si <<'T'
  JOBID PARTITION     NAME     USER  ST       TIME  NODES NODELIST(REASON)
     17    active  sleepme  user   S       T      1 n1
     18    active  sleepme  user   S       T      1 n2
     19    active  sleepme  user   S       T      1 n3
     20     hipri  sleepme  user   R       T      3 n[1-3]
T
prints "the nodes of the others are idle" sinfo <<'T'
PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
active*      up   infinite     3  alloc n[1-3]
active*      up   infinite     2   idle n[4-5]
hipri        up   infinite     3  alloc n[1-3]
hipri        up   infinite     2   idle n[4-5]
T
stand_still "the three jobs that gave their nodes use no CPU time" 17 18 19
on least
prints "with CR_Least_Preempt the job of hipri is placed on n[3-5], and jobs 17 and 18 run on" squeue -Si <<'T'
  JOBID PARTITION     NAME     USER  ST       TIME  NODES NODELIST(REASON)
     17    active  sleepme  user   R       T      1 n1
     18    active  sleepme  user   R       T      1 n2
     19    active  sleepme  user   S       T      1 n3
     20     hipri  sleepme  user   R       T      3 n[3-5]
T
stand_still "the job that gave its node uses no CPU time" 19
ok "a job that is not preempted runs on" eventually moves 17

# ---- three mechanisms in three partitions

begin three 94 <<'C'
SelectType=select/linear
PreemptType=preempt/partition_prio
PreemptMode=SUSPEND,GANG
NodeName=linux CPUs=1
PartitionName=low Nodes=linux Default=YES OverSubscribe=NO      PriorityTier=10 PreemptMode=requeue
PartitionName=med Nodes=linux Default=NO  OverSubscribe=FORCE:1 PriorityTier=20 PreemptMode=suspend
PartitionName=hi  Nodes=linux Default=NO  OverSubscribe=FORCE:1 PriorityTier=30 PreemptMode=off
C
submitted "a job of low is submitted" 94 sbatch tmp
eventually test -s 94.pid
submitted "a job of med is submitted" 95 sbatch -p med tmp
eventually test -s 95.pid
submitted "a job of hi is submitted" 96 sbatch -p hi tmp
prints "the job of low is queued again, that of med suspended, and that of hi runs" squeue <<'T'
  JOBID PARTITION     NAME     USER  ST       TIME  NODES NODELIST(REASON)
     96        hi      tmp      user   R       T      1 linux
     94       low      tmp      user  PD       T      1 (Resources)
     95       med      tmp      user   S       T      1 linux
T
stand_still "the job of med uses no CPU time" 95
touch 96.end
prints "the job of med goes on after that of hi" squeue <<'T'
  JOBID PARTITION     NAME     USER  ST       TIME  NODES NODELIST(REASON)
     94       low      tmp      user  PD       T      1 (Resources)
     95       med      tmp      user   R       T      1 linux
T
ok "its CPU time goes on" eventually moves 95
touch 94.end 95.end
scancel 94

# ---- a QOS whose jobs share the nodes of others in time slices

printf 'QOSName=usual\nQOSName=urgent Priority=10 Preempt=usual\n' >"$tmpdir/qos.conf"
begin qos 7 --qos "$tmpdir/qos.conf" <<'C'
SelectType=select/cons_res
SelectTypeParameters=CR_Core
SchedulerTimeSlice=5
NodeName=linux CPUs=2
PreemptMode=Suspend,Gang
PreemptType=preempt/qos
PartitionName=normal Nodes=linux Default=NO  OverSubscribe=FORCE:1
C
state_of_jobs() {
	squeue -h -Si -o '%i %t' | tr '\n' ' '
}
is_state() { # STATES
	[ "$(state_of_jobs)" = "$1" ]
}
submitted "a job of the usual QOS is submitted" 7 sbatch -p normal --qos usual -n2 tmp
eventually test -s 7.pid
submitted "another one is submitted" 8 sbatch -p normal --qos usual -n2 tmp
submitted "a job of the urgent QOS is submitted" 9 sbatch -p normal --qos urgent -n2 tmp
ok "the urgent job starts in place of the usual one, and the other waits" eventually is_state "7 S 8 PD 9 R "
stand_still "the usual job uses no CPU time in the urgent one's turn" 7
ok "both have their turns" eventually is_state "7 R 8 PD 9 S "
stand_still "the urgent job uses no CPU time in the usual one's turn" 9
ok "the urgent job has its turn again" eventually is_state "7 S 8 PD 9 R "
touch 7.end 8.end 9.end

# ---- the ends

on simple
is "$(seconds 485) $(($(seconds 488) > ran))" "$stood 1" "the run time of a suspended job stands still, and that of another job goes on"
touch 490.end
ended() { # JOB
	[ -z "$(squeue -h -j "$1" -t R,S,PD)" ]
}
eventually ended 490
prints "the suspended jobs run again after the job of hipri" squeue <<'T'
JOBID PARTITION     NAME   USER  ST   TIME  NODES NODELIST
  485    active runit.pl   user   R   T      1 n12
  486    active runit.pl   user   R   T      1 n13
  487    active runit.pl   user   R   T      1 n14
  488    active runit.pl   user   R   T      1 n15
  489    active runit.pl   user   R   T      1 n16
T
ok "jobs that were suspended go on" eventually moves 485
on future
touch 20.end
eventually ended 20
ok "the three jobs go on after the one that preempted them" eventually is_state "17 R 18 R 19 R "
for cluster in $clusters; do
	on "$cluster"
	scancel -u root
done

# ---- the same by simulation, to the second of the guide's tables

for case in simple three-modes qos future-ideas future-least; do
	guides=$source/tests/data/jobd/guide-$case.json
	is "$("$jobd" --plugin-dir "$plugins" --replay "$guides" | sed 's/, [0-9]* comparisons//')" \
		"1 cases, 0 differences" "replayed, $case prints the guide's tables with their times"
done

simulated() { # NAME CLUSTER WANTED [OPTION...]: standard input is the trace; nodes, preemptions, seconds suspended
	simulated_name=$1 on=$2 simulated_wanted=$3
	shift 3
	cd "$tmpdir/$on" || bail "no $on"
	cat >trace
	"$jobd" --plugin-dir "$plugins" --simulate trace --conf slurm.conf "$@" --json simulated >/dev/null
	json_is simulated '[[j["runs"][-1]["nodes"], j["preemptions"], j["suspended_s"]] for j in simulations[0]["jobs"]]' \
		"$simulated_wanted" "$simulated_name"
}
simulated "the simple example is the same by simulation" simple \
	'[["n12", 1, 30], ["n13", 1, 30], ["n14", 1, 30], ["n15", 0, 0], ["n16", 0, 0], ["n[12-14]", 0, 0]]' <<'T'
0	300	user	-N1
0	300	user	-N1
0	300	user	-N1
0	300	user	-N1
0	300	user	-N1
27	30	user	-N3 -p hipri
T
ideas() {
	printf '0\t60\tuser\t-N1 -n2\n%.0s' 1 2 3
	printf '16\t20\tuser\t-N3 -n6 -p hipri\n'
}
ideas >"$tmpdir/ideas"
simulated "that of n[1-3] is the same by simulation" future \
	'[["n1", 1, 20], ["n2", 1, 20], ["n3", 1, 20], ["n[1-3]", 0, 0]]' <"$tmpdir/ideas"
simulated "that of n[3-5] is the same by simulation" least \
	'[["n1", 0, 0], ["n2", 0, 0], ["n3", 1, 20], ["n[3-5]", 0, 0]]' <"$tmpdir/ideas"
simulated "that of three mechanisms is the same by simulation" three \
	'[["linux", 1, 0], ["linux", 1, 24], ["linux", 0, 0]]' <<'T'
0	100	user	-N1
4	60	user	-N1 -p med
6	24	user	-N1 -p hi
T
simulated "that of time slices is the same by simulation" qos \
	'[["linux", 0, 20], ["linux", 0, 0], ["linux", 0, 15]]' --qos "$tmpdir/qos.conf" <<'T'
0	40	user	-n2 -p normal --qos usual
0	10	user	-n2 -p normal --qos usual
2	20	user	-n2 -p normal --qos urgent
T
nobody_waits() {
	[ -z "$(squeue -h)" ]
}
for cluster in $clusters; do
	on "$cluster"
	eventually nobody_waits
	kill -TERM "$(cat pid)"
	wait "$(cat pid)"
	is "$(find run state/run "$groups/stepd-guide-$$-$cluster" -mindepth 1 -maxdepth 1 ! -type f)" "" \
		"$cluster: no step or cgroup is left"
	rmdir "$groups/stepd-guide-$$-$cluster"
done
clusters=
done_testing
