#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Slurm's own "scontrol listpids" (Debian's package slurm-client) lists steps of ours. It needs a
# slurm.conf with the names of its nodes and the spool directory, and no daemon, no key and no
# network. Another version's is taken by hand:
#	STEPD_TEST_SCONTROL   the program, where it is not the one in PATH
#	STEPD_TEST_SLURM_CONF a file of further lines for its slurm.conf, as "AuthType=auth/none"
# shellcheck source=tests/lib/slurm.sh
. "${top_srcdir:?}/tests/lib/slurm.sh"
scontrol=${STEPD_TEST_SCONTROL:-scontrol}
command -v "$scontrol" >/dev/null || skip_all "needs scontrol (slurm-client)"

node=$(hostname -s)
cat >"$tmpdir/slurm.conf" <<END
ClusterName=test
SlurmctldHost=localhost
SlurmdSpoolDir=$spool
NodeName=$node,other
END
[ -z "${STEPD_TEST_SLURM_CONF-}" ] || cat "$STEPD_TEST_SLURM_CONF" >>"$tmpdir/slurm.conf"
SLURM_CONF=$tmpdir/slurm.conf
export SLURM_CONF
diag "$("$scontrol" --version)"

listpids() {
	timeout 900 "$scontrol" listpids "$@" 2>&1
}

# The lines but for the heading, with one blank between words.
rows() {
	timeout 900 "$scontrol" listpids "$@" 2>/dev/null | sed -n '1!p' | sed 's/  */ /g; s/ $//' | sort
}

begin_adapter
like "$(listpids)" "No job steps exist on this node" "scontrol lists no steps at first"

# A step of two tasks, each with a process of its own.
"$stepd" run --job "$job" --proctrack "$tracker" --step 0 -n 2 -- sh -c 'sleep 600 & exec sleep 600' &
agent=$!
eventually running 0
eventually has_socket "${node}_$job.0"
tasks=$(state_of 0 '" ".join(str(t["pid"]) for t in tasks)')
first=${tasks% *}
second=${tasks#* }
children_of() {
	for parent in "$@"; do
		tr ' ' '\n' <"/proc/$parent/task/$parent/children" | grep .
	done
}
two_sleep() {
	[ "$(children_of "$first" "$second" | wc -l)" = 2 ] &&
		[ "$(cat "/proc/$first/comm")$(cat "/proc/$second/comm")" = sleepsleep ]
}
eventually two_sleep
children=$(children_of "$first" "$second")
wanted=$( (echo "$first $job 0 0 0"; echo "$second $job 0 1 1"
	for pid in $children; do echo "$pid $job 0 - -"; done) | sort)
ok "each task of the step has a child" two_sleep
like "$(listpids "$job")" "^PID +JOBID +STEPID +LOCALID +GLOBALID *$" "scontrol prints its heading"
is "$(rows "$job")" "$wanted" "scontrol lists the tasks by their ranks and their children with -"
is "$(rows "$job.0")" "$wanted" "scontrol lists a step by its number"
is "$(rows)" "$wanted" "scontrol lists all steps without a number"
is "$(rows "$job.0" "$node")" "$wanted" "scontrol lists a step with the node's name"
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	is "$(setpriv --reuid 65534 --regid 65534 --clear-groups timeout 900 "$scontrol" listpids "$job" |
		sed -n '1!p' | sed 's/  */ /g; s/ $//' | sort)" "$wanted" "scontrol of another user lists the same"
else
	skip 1 "needs root and setpriv"
fi
like "$(listpids "$job.7")" "does not exist on" "scontrol reports that a step does not exist"
listpids "$job.7" >/dev/null
is $? 1 "scontrol fails for a missing step"
like "$(listpids $((job + 1)))" "There are no steps for job" "scontrol reports that another job has no steps"

# Batch and extern steps have numbers in Slurm's file names, and names on its screen.
cat >"$tmpdir/batch" <<END
{"kind": "batch", "job": $job, "script": "#!/bin/sh\nsleep 600\n", "proctrack": "$tracker",
 "env": {"PATH": "/usr/bin:/bin", "STEPD_TEST_JOB": "$job"}}
END
cat >"$tmpdir/extern" <<END
{"kind": "extern", "job": $job, "proctrack": "$tracker",
 "env": {"PATH": "/usr/bin:/bin", "STEPD_TEST_JOB": "$job"}}
END
"$stepd" serve --spec "$tmpdir/batch" 2>"$tmpdir/batch.err" &
batch=$!
"$stepd" serve --spec "$tmpdir/extern" 2>"$tmpdir/extern.err" &
extern=$!
ok "a batch step's socket has the number of batch steps" eventually has_socket "${node}_$job.4294967291"
ok "an extern step's socket has the number of extern steps" eventually has_socket "${node}_$job.4294967292"
eventually running batch
like "$(rows "$job")" "^[0-9]+ $job batch 0 0" "scontrol lists the batch step's script as its task"
has_other_pid() {
	rows "$job" | grep -q 'batch - -$'
}
eventually has_other_pid
like "$(rows "$job")" "^[0-9]+ $job batch - -" "scontrol lists the batch step's other processes"
unlike "$(listpids "$job")" "extern|rror|nable" "scontrol lists no process of an extern step without an error"
kill "$batch" "$extern"
wait "$batch" "$extern"
ok "an ended step's socket is removed" eventually no_socket "${node}_$job.4294967291"
ok "an ended extern step's socket is removed" eventually no_socket "${node}_$job.4294967292"

# A hundred tasks.
"$stepd" run --job "$job" --proctrack "$tracker" --step 1 -n 100 -- sleep 600 &
hundred=$!
eventually running 1
eventually has_socket "${node}_$job.1"
rows "$job.1" >"$tmpdir/hundred"
is "$(cut -d' ' -f4,5 "$tmpdir/hundred" | sort -n | tr '\n' ' ')" \
	"$(seq 0 99 | sed 's/.*/& &/' | tr '\n' ' ')" "scontrol lists a hundred tasks, each once"
is "$(cut -d' ' -f1 "$tmpdir/hundred" | sort -u | wc -l)" 100 \
	"scontrol lists each of a hundred tasks with its own pid"

# One that ends while it is listed, again and again: whatever is listed of it is whole.
kill "$hundred"
: >"$tmpdir/racing"
while ! process_ended "$hundred"; do
	listpids "$job" >"$tmpdir/one"
	# SIGPIPE ends scontrol where its next request meets a closed socket: a line of what it has written by then
	# is cut where its buffer was full.
	[ $? -ne 141 ] || { head -n "$(wc -l <"$tmpdir/one")" "$tmpdir/one" >"$tmpdir/whole" && mv "$tmpdir/whole" "$tmpdir/one"; }
	cat "$tmpdir/one" >>"$tmpdir/racing"
done
wait "$hundred"
listpids "$job" >>"$tmpdir/racing"
is "$(grep -Ev "^PID |^[0-9-]+ +$job +[01] +([0-9]+|-) +([0-9]+|-) *$|does not exist|Unable to connect|Connection re" \
	"$tmpdir/racing")" "" "scontrol prints whole lines of a step that ends meanwhile"
is "$(rows "$job")" "$wanted" "scontrol lists the other step as before"

# Two nodes on one machine.
cat >"$tmpdir/other" <<END
{"job": $job, "step": 3, "argv": ["sleep", "600"], "proctrack": "$tracker",
 "node": {"name": "other"}, "env": {"PATH": "/usr/bin:/bin", "STEPD_TEST_JOB": "$job"}}
END
"$stepd" serve --spec "$tmpdir/other" 2>"$tmpdir/other.err" &
other=$!
eventually has_socket "other_$job.3" || diag "$(cat "$tmpdir/other.err")"
eventually running 3
like "$(rows "$job" other)" "^[0-9]+ $job 3 0 0$" "scontrol lists another node's step by that node's name"
is "$(rows "$job" other | wc -l)" 1 "scontrol lists one step of another node"
is "$(rows "$job")" "$wanted" "scontrol does not list another node's step for this node"
kill "$other" "$agent"
wait "$other" "$agent"
eventually no_socket "${node}_$job.0"
end_adapter
is "$(ls "$spool")" "" "the adapter leaves nothing in the spool directory"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
