#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# steprun attach: the streams of a step on several nodes in one client. What it shows, and from where;
# input for ranks of any node; nodes that can't be reached, are lost, or have no part of it; a rank's
# terminal on another node; and the step goes on whatever becomes of a client.
# shellcheck disable=SC2016,SC2086,SC2317 # for the tasks; words; called by name
# shellcheck source=tests/lib/steprun.sh
. "${top_srcdir:?}/tests/lib/steprun.sh"
cd "$tmpdir" || bail "no $tmpdir"

# In the background; what it prints goes to NAME and NAME.err.
start_client() { # NAME ARG...
	start_client_name=$1
	shift
	"$steprun" attach "$@" >"$start_client_name" 2>"$start_client_name.err" </dev/null &
	client=$!
}

attach() {
	timeout -k 5 300 "$steprun" attach "$@"
}

has() { # FILE REGEX COUNT: lines
	[ "$(grep -c -e "$2" "$1")" = "$3" ]
}

ended_with() { # STATUS NAME: of the step
	finish
	is "$status" "$1" "$2"
}

# Each node's command, unless it is n9, from which nothing comes.
nodes="exec:[ %h != n9 ] || exit 7; %c"

# ---- output --------------------------------------------------------------------------------------
begin -N 2 -n 4 --attachable -- sh -c 'echo up
	until [ -e go ]; do sleep 0.02; done
	i=0; while [ $i -lt 50 ]; do printf "a line "; printf "of %s\n" "$SLURM_PROCID"; i=$((i + 1)); done
	echo "error of $SLURM_PROCID" >&2
	until [ -e end ]; do sleep 0.02; done
	printf "last of %s" "$SLURM_PROCID"'
eventually has out '^up$' 4
start_client labels --tail --label "$job.0"
labels=$client
start_client plain --tail --stream stdout "$job.0"
start_client ranks -l --tail "$job.0/1-2"
start_client since --since 3 --stream stdout "$job.0/3"
start_client errors --tail --stream stderr "$job.0"
eventually has labels ': up$' 4
eventually has plain '^up$' 4
eventually has ranks ': up$' 2
start_client dead --tail "$job.0"
eventually has dead '^up$' 4
dead_relays=$(children "$client")
kill -KILL "$client"
# shellcheck disable=SC2086
ok "the relays of a client that is killed end" eventually process_ended $dead_relays
: >go
eventually has labels 'a line of' 200
eventually has_lines plain 204 # pieces of lines, in any order
eventually has ranks 'a line of' 100
eventually has since 'a line of' 50
start_client late --tail "$job.0"
eventually has_lines late 204
: >end
ended_with 0 "a step on two nodes with clients succeeds, one of which was killed"
wait "$labels"
is $? 0 "a client ends with status 0 when the step has ended on all nodes"
wait
for rank in 0 1 2 3; do
	is "$(grep -c "^$rank: a line of $rank\$" labels) $(grep -c "^$rank: up\$" labels) $(grep -c "^$rank: last of $rank\$" labels)" \
		"50 1 1" "rank $rank's lines stand whole behind its label, the last one, too"
done
is "$(grep -c '' labels.err) $(grep -c '^[0-3]: error of' labels.err)" "4 4" "standard error comes on standard error"
is "$(sort plain | tr -d '\n' | wc -c) $(grep -c '' plain.err)" "$(sort out | tr -d '\n' | wc -c) 0" \
	"a client of one stream gets all bytes of all nodes"
is "$(cut -c 1 ranks | sort | uniq -c | xargs)" "52 1 52 2" "a client of some ranks gets those, of two nodes"
is "$(head -n 1 since)" "a line of 3" "output is sent from an offset"
is "$(cat errors; sort errors.err | tr '\n' ' ')" "error of 0 error of 1 error of 2 error of 3 " \
	"a client of standard error gets no other"
is "$(sort late | tr -d '\n' | wc -c)" "$(sort out | tr -d '\n' | wc -c)" "a client that comes later gets what the agents hold"
rm -f go end

# ---- input ---------------------------------------------------------------------------------------
begin -N 2 -n 4 --attachable --input attach -- sh -c \
	'echo up; while read x; do echo "$SLURM_PROCID got $x"; done; echo "$SLURM_PROCID ended"'
eventually has out '^up$' 4
echo hello | attach --stdin --stream stderr "$job.0/3" 2>err.typed &
ok "input goes to the chosen rank of the second node, and its end" eventually has out '^3 ended$' 1
is "$(grep -c got out)" 1 "input for one rank reaches no other"
seq 1 3000 | attach --stdin --stream stderr "$job.0/0-2" >/dev/null 2>&1
ended_with 0 "a step whose input comes from clients ends with it"
wait
is "$(grep -c '^[012] got ' out)" 9000 "input for ranks of two nodes reaches each of them whole"

# ---- nodes ---------------------------------------------------------------------------------------
begin -w n1,n2 -n 2 --launcher "$nodes" --attachable -- sh -c \
	'echo up; until [ -e end ]; do sleep 0.02; done; echo "rest of $SLURM_PROCID"'
eventually has out '^up$' 2
start_client here --tail "$job.0"
start_client known -w n1,n2 --launcher "$nodes" --tail "$job.0"
start_client half -w n1,n9 --launcher "$nodes" --tail "$job.0"
half=$client
start_client more -w n1,n2,n3 --launcher "$nodes" --tail "$job.0"
more=$client
start_client lost -w n1,n2 --launcher "$nodes" --tail "$job.0"
lost=$client
for name in here known more lost; do
	eventually has $name '^up$' 2
done
eventually has half '^up$' 1
eventually has_lines half.err 2
eventually has_lines more.err 1
is "$(cat half.err)" "steprun attach: node n9 can't be reached: its launcher exited with status 7
steprun attach: 1 of the 2 nodes of step $job.0 are shown" "a node that can't be reached is reported, and the other is shown"
is "$(cat more.err)" "steprun attach: node n3: step $job.0 has no agent there" "a node without a part of the step is reported"
kill -KILL "$(children "$lost" | tail -n 1)"
ok "a node whose connection is lost is reported" eventually has lost.err 'node n2 is lost: its launcher killed by signal 9' 1
: >end
ended_with 0 "a step succeeds whose client has lost a connection"
wait "$half"
is $? 125 "a client that could not reach a node has status 125"
wait "$more"
is $? 125 "so has one that was given a node without a part of the step"
wait "$lost"
is $? 125 "and one that has lost a connection"
wait
is "$(grep -c 'rest of' here) $(grep -c 'rest of' known) $(cat here.err known.err)" "2 2 " \
	"the nodes of this machine are found without a list, and others by one"
is "$(grep -c 'rest of 0' half) $(grep -c 'rest of 0' lost)" "1 1" "the other nodes are shown to the end"
rm -f end

begin -N 2 -n 2 --attachable -- sh -c 'echo up; exec sleep 300'
eventually has out '^up$' 2
start_client orphan -l --tail "$job.0"
eventually has orphan ': up$' 2
kill -KILL "$(agents | tail -n 1)"
finish
wait "$client"
is $? 125 "a client of an agent that is killed has status 125"
like "$(cat orphan.err)" "^steprun attach: node .*-1: the step's agent is gone, and its streams with it" \
	"the node of an agent that is killed is named"

# ---- one command for all nodes -------------------------------------------------------------------
if command -v python3 >/dev/null; then
	mixing="exec:exec python3 $top_srcdir/tests/lib/start_all.py %N %q"
	begin -w n1,n2 -n 2 --launcher "$mixing" --attachable --input attach -- sh -c \
		'echo up; read x; echo "$SLURM_PROCID got $x"'
	eventually has out '^up$' 2
	# Its relays have the host's name, and the agents those of the step's nodes: each takes its own by number.
	echo typed | attach -w n1,n2 --launcher "$mixing" --stdin --tail "$job.0" >mixed 2>mixed.err
	ended_with 0 "a step succeeds that a launcher of all nodes attaches to"
	is "$(sort mixed | tr '\n' '|') $(cat mixed.err)" "0 got typed|1 got typed|up|up| " \
		"output and input pass a launcher that starts all relays and mixes their lines"
else
	skip 2 "needs python3"
fi

# ---- refusals ------------------------------------------------------------------------------------
begin -N 2 -n 2 --attachable --input none -- sh -c 'echo up; until [ -e end ]; do sleep 0.02; done'
eventually has out '^up$' 2
refused() { # STATUS ARG...
	attach "$@" 2>&1 </dev/null
	echo "$?"
}
like "$(refused "$job.0/7" | tr '\n' ' ')" "none of the ranks 7 on these nodes 125 $" "ranks that no node has are refused"
like "$(refused --stdin "$job.0" | tr '\n' ' ')" "attach without --stdin .*125 $" "input for tasks that have none is refused"
like "$(refused "$job.99" | tr '\n' ' ')" "step $job.99 has no agent on this machine: give the nodes with --hosts 125 $" \
	"a step that is not here is refused"
like "$(refused -w n1 --launcher "$nodes" "$job.99" | tr '\n' ' ')" "node n1: step $job.99 has no agent there 125 $" \
	"a step that is on no given node is refused"
like "$(refused --tail --since 1 "$job.0" | tr '\n' ' ')" "conflicts with --since.*125 $" "--tail and --since conflict"
like "$(refused notastep | tr '\n' ' ')" "'notastep' is not a step and its ranks.*125 $" "what is no step is refused"
: >end
ended_with 0 "a step that refused clients succeeds"
rm -f end
begin -N 2 -n 2 -- sh -c 'echo up; until [ -e end ]; do sleep 0.02; done'
eventually has out '^up$' 2
like "$(refused "$job.0" | tr '\n' ' ')" "without --attachable.*125 $" "a step that is not attachable refuses clients"
: >end
ended_with 0 "a step that is not attachable succeeds"
rm -f end

# ---- a rank's terminal ---------------------------------------------------------------------------
if command -v python3 >/dev/null; then
	# shellcheck source=tests/lib/terminal.sh
	. "$top_srcdir/tests/lib/terminal.sh"
	cat >sizes.py <<'P'
import os, signal, sys
if os.environ["SLURM_PROCID"] != "1":
    print("other", flush=True)
    sys.stdin.read()
    while not os.path.exists("end"):
        signal.sigtimedwait([], 0.05)
    sys.exit()
signal.signal(signal.SIGWINCH, lambda *_: os.write(1, b"now %d %d\r\n" % os.get_terminal_size()))
os.write(1, b"up\n")
for line in sys.stdin:
    os.write(1, b"got " + line.encode())
    if line == "end\n":
        open("end", "w")
        break
P
	begin -N 2 -n 2 --pty=1 --attachable --input attach -- python3 sizes.py
	eventually has out 'up' 1
	at="$steprun attach --tail --stdin $job.0"
	is "$(talk 'see now 80 24' raw 'type hello\n' 'see got hello' 'size 50 132' 'see now 132 50' \
		'type \x10\x11' 'see detached' 'see shell: modes kept' 'see shell: status 0' -- $at)" ok \
		"keys and the window reach a rank's terminal on another node, and the detach keys end the client alone"
	is "$(talk raw 'type \n' 'see got' 'run kill -TERM $job_pid' 'see shell: modes kept' -- $at)" ok \
		"SIGTERM to a client leaves its terminal as it was"
	second="python3 $top_srcdir/tests/lib/talk.py raw 'size 30 90' 'see now 90 30' 'type \\x10\\x11' 'see detached' -- $steprun attach --stdin $job.0"
	is "$(talk raw 'size 40 100' 'see now 100 40' "run $second" 'see now 100 40' 'type end\n' \
		'see got end' 'see shell: modes kept' 'see shell: status 0' -- $at)" ok \
		"of two clients the window of the one that is left counts"
	ended_with 0 "a session on another node ends when its program does"
else
	skip 4 "needs python3"
fi

nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
