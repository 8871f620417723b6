#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Clients attached to a running step: what each gets, and from where; input; slow clients and dead
# ones; who may; upgrades of the agent, and its death.
# shellcheck disable=SC2016,SC2154,SC2317 # for the tasks; reexec.sh's; called by name
. "${top_srcdir:?}/tests/lib/reexec.sh"

attach() {
	timeout 300 "$stepctl" attach "$@"
}

# In the background; what it prints goes to $tmpdir/NAME and NAME.err.
start_client() { # NAME ARG...
	start_client_name=$1
	shift
	"$stepctl" attach "$@" >"$tmpdir/$start_client_name" 2>"$tmpdir/$start_client_name.err" </dev/null &
	client=$!
}

has_text() { # NAME REGEX
	grep -q -e "$2" "$tmpdir/$1"
}

wait_for() { # of a task's sh: a file that the test makes
	echo "until [ -e '$tmpdir/$1' ]; do sleep 0.02; done"
}

# ---- output, from where --------------------------------------------------------------------------
start_step --proctrack "$tracker" --attachable -- sh -c \
	"seq 1 1000; echo up; $(wait_for go); seq 1001 4000; $(wait_for end)"
eventually has_output up
start_client tail --tail "$job.0"
start_client since --since 3800 "$job.0"
start_client labels --tail --label "$job.0"
start_client errors --tail --stream stderr "$job.0"
eventually has_text tail up
eventually has_text since up
eventually has_text labels up
: >"$tmpdir/go"
eventually has_text tail '^4000$'
eventually has_text since '^4000$'
eventually has_text labels '4000$'
start_client late --tail "$job.0"
late=$client
eventually has_text late '^4000$'
: >"$tmpdir/end"
wait "$late"
is $? 0 "a client ends with status 0 when the step ends"
ended 0 "a step with clients succeeds"
wait
ok "a client gets what the agent has of the output, and what follows" cmp "$tmpdir/out" "$tmpdir/tail"
ok "one that comes later gets the same" cmp "$tmpdir/out" "$tmpdir/late"
tail -c +3801 "$tmpdir/out" >"$tmpdir/wanted"
ok "output is sent from an offset" cmp "$tmpdir/wanted" "$tmpdir/since"
sed 's/^/0: /' "$tmpdir/out" >"$tmpdir/wanted"
ok "labels stand before each line" cmp "$tmpdir/wanted" "$tmpdir/labels"
is "$(cat "$tmpdir/errors" "$tmpdir/errors.err")" "" "a client of one stream gets no other"

# From now on: what was written before is left out.
rm -f "$tmpdir/end"
start_step --proctrack "$tracker" --attachable -- sh -c \
	"i=0; until [ -e '$tmpdir/end' ]; do i=\$((i + 1)); echo line \$i; sleep 0.02; done"
eventually has_lines "$tmpdir/out" 10
start_client now "$job.0"
eventually has_lines "$tmpdir/now" 5
: >"$tmpdir/end"
ended 0 "a step with a client of new output succeeds"
wait
first=$(head -n 1 "$tmpdir/now")
ok "without an option output is shown from now on" [ "${first#line }" -gt 10 ]
is "$(tail -n 1 "$tmpdir/now")" "$(tail -n 1 "$tmpdir/out")" "up to the step's last line"

# ---- lines of several ranks ----------------------------------------------------------------------
rm -f "$tmpdir/end"
start_step --proctrack "$tracker" --attachable -n 4 -- sh -c \
	"echo up; $(wait_for go2); for i in \$(seq 200); do printf 'a line '; printf 'in pieces\n'; done"
start_client labels --tail --label --stream stdout "$job.0"
start_client one --tail --label "$job.0/2"
all_up() {
	has_lines "$tmpdir/labels" 4 && has_lines "$tmpdir/one" 1
}
eventually all_up
: >"$tmpdir/go2"
ended 0 "a step whose ranks write in pieces succeeds"
wait
is "$(grep -c '^[0-3]: a line in pieces$' "$tmpdir/labels") $(wc -l <"$tmpdir/labels")" "800 804" \
	"no rank's line is torn by another's under labels"
is "$(sort "$tmpdir/one" | uniq -c | xargs)" "200 2: a line in pieces 1 2: up" "a client of one rank gets that alone"

# ---- slow clients, and dead ones -----------------------------------------------------------------
start_step --proctrack "$tracker" --attachable -- sh -c \
	"echo up; $(wait_for go3); head -c 8000000 /dev/zero | tr '\\0' x; : >'$tmpdir/written'; $(wait_for end3)"
eventually has_output up
quiet=$(least_fds)
start_client dead --tail "$job.0"
dead=$client
start_client slow --tail "$job.0"
slow=$client
start_client fast --tail "$job.0"
eventually has_text dead up
eventually has_text slow up
eventually has_text fast up
kill -KILL "$dead"
kill -STOP "$slow"
ok "a client that is killed is removed at once" eventually fds_at_most $((quiet + 2))
: >"$tmpdir/go3"
ok "a task writes on while a client reads nothing" eventually [ -e "$tmpdir/written" ]
kill -CONT "$slow"
missing() { # NAME: bytes that the client was told to lack
	sed -n 's/.* \([0-9]*\) bytes of its standard output are missing here.*/\1/p' "$tmpdir/$1.err" |
		awk '{ n += $1 } END { print n + 0 }'
}
has_all() { # NAME
	[ $(($(wc -c <"$tmpdir/$1") + $(missing "$1"))) = 8000003 ]
}
ok "a slow client is told how many bytes it lacks, and has the others" eventually has_all slow
isnt "$(missing slow)" 0 "a slow client lacks some"
eventually has_all fast
: >"$tmpdir/end3"
ended 0 "a step with a slow client succeeds"
is "$(wc -c <"$tmpdir/out")" 8000003 "a slow client takes nothing from the step's own output"
wait

# ---- who may -------------------------------------------------------------------------------------
start_step --proctrack "$tracker" --attachable -- sh -c "$until_gone"
if command -v python3 >/dev/null; then
	denied() { # VARLINK'S OPTIONS
		varlink "$@" call "$(step_dir 0)/socket" Attach '{}' |
			json_get - 'd.get("error", "").split(".")[-1] + " " + p.get("needs", p.get("parameter", ""))'
	}
	if [ "$(id -u)" = 0 ]; then
		is "$(denied --uid 65531 --gid 65531)" "PermissionDenied owner" "another user is refused"
	else
		skip 1 "needs root, to be another user"
	fi
	is "$(denied)" "InvalidParameter upgrade" "a call without a channel is refused"
else
	skip 2 "needs python3"
fi
attach --stdin "$job.0" 2>"$tmpdir/why"
is $? 7 "input for tasks that have none is refused"
like "$(cat "$tmpdir/why")" '--input attach' "the refusal names the remedy"
attach "$job.0/7" 2>/dev/null
is $? 1 "a rank that does not exist is refused"
attach --tail --since 1 "$job.0" 2>/dev/null
is $? 2 "--tail and --since conflict"
rm "$tmpdir/stay"
ended 0 "a step whose clients were refused succeeds"
start_step --proctrack "$tracker" -- sh -c "$until_gone"
attach "$job.0" 2>"$tmpdir/why"
is $? 7 "a step that is not attachable refuses clients"
like "$(cat "$tmpdir/why")" '--attachable' "the refusal names the option"
rm "$tmpdir/stay"
ended 0 "a step that is not attachable succeeds"

# ---- input ---------------------------------------------------------------------------------------
start_step --proctrack "$tracker" --attachable --input attach -n 3 -- sh -c \
	'while read x; do echo "$SLURM_PROCID got $x"; done; echo "$SLURM_PROCID ended"'
echo hello | "$stepctl" attach --stdin --tail --stream stdout "$job.0/1" >"$tmpdir/typed" &
eventually has_text typed '1 ended'
has_input() {
	has_output '1 got hello' && has_output '1 ended'
}
ok "input goes to the chosen rank, and its end ends that rank's" eventually has_input
seq 1 20000 | attach --stdin --stream stderr "$job.0" >/dev/null 2>"$tmpdir/why"
ended 0 "a step whose input comes from clients succeeds"
wait
is "$(grep -c '^0 got ' "$tmpdir/out") $(grep -c '^1 got ' "$tmpdir/out") $(grep -c '^2 got ' "$tmpdir/out")" \
	"20000 1 20000" "input without a choice goes to all ranks that read"
is "$(cat "$tmpdir/typed")" "1 got hello
1 ended" "the client of a rank gets that rank's output"

# The step's own input, and a client's between.
mkfifo "$tmpdir/in"
put "$this"
: >"$tmpdir/out"
"$stepd" run -q --job "$job" --proctrack "$tracker" --attachable -- sh -c 'echo up; while read x; do echo "got $x"; done' \
	>"$tmpdir/out" 2>"$tmpdir/err" <"$tmpdir/in" &
agent=$!
exec 8>"$tmpdir/in"
eventually has_output up
echo one >&8
eventually has_output 'got one'
echo two | "$stepctl" attach --stdin "$job.0" >/dev/null 2>&1 8>&- &
eventually has_output 'got two'
echo three >&8
eventually has_output 'got three'
exec 8>&-
ended 0 "the end of a client's input is not that of the step's own"
wait
is "$(cat "$tmpdir/out")" "up
got one
got two
got three" "a client types between what the step itself reads"

# ---- upgrades ------------------------------------------------------------------------------------
if [ -x "$next" ]; then
	rm -f "$tmpdir/end"
	start_step --proctrack "$tracker" --attachable --attach-ring 4M --input attach -n 2 -- sh -c '
		i=0
		while [ $i -lt 20 ]; do seq $((i * 1000 + 1)) $((i * 1000 + 1000)); i=$((i + 1)); sleep 0.05; done
		read x; echo "got $x"; read x; echo "got $x"'
	start_client kept --since 0 "$job.0/0"
	start_client labels --since 0 --label "$job.0"
	mkfifo "$tmpdir/keys"
	"$stepctl" attach --stdin --stream stderr "$job.0" <"$tmpdir/keys" >/dev/null 2>&1 &
	exec 9>"$tmpdir/keys"
	upgrade
	upgrade
	upgrade
	eventually has_text kept '^20000$'
	echo one >&9
	eventually has_text kept '^got one$'
	upgrade
	echo two >&9
	eventually has_text kept '^got two$'
	exec 9>&-
	ended 0 "a step with clients succeeds, upgraded meanwhile"
	wait
	{
		seq 1 20000
		echo 'got one'
		echo 'got two'
	} >"$tmpdir/wanted"
	ok "a client gets each byte once over upgrades" cmp "$tmpdir/wanted" "$tmpdir/kept"
	for rank in 0 1; do
		sed -n "s/^$rank: //p" "$tmpdir/labels" >"$tmpdir/got"
		ok "a client with labels gets rank $rank's lines over upgrades" cmp "$tmpdir/wanted" "$tmpdir/got"
	done
else
	skip 4 "no second program (make check builds it)"
fi

# ---- the agent's death ---------------------------------------------------------------------------
start_step --proctrack "$tracker" --attachable -- sh -c "echo up; echo \$\$ >'$tmpdir/pid'; exec sleep 600"
eventually has_output up
start_client orphan --tail "$job.0"
eventually has_text orphan up
kill_agent
wait "$client"
is $? 4 "a client ends when the agent is killed"
is "$(cat "$tmpdir/orphan.err")" "stepctl attach: step $job.0: its agent is gone, and its streams with it; its tasks \
may still run ('stepctl show $job.0')" "in one sentence it tells of the agent's death"
task=$(cat "$tmpdir/pid")
ok "the tasks of a killed agent live on" kill -0 "$task"
attach "$job.0" 2>/dev/null
is $? 4 "a step without its agent has no streams to attach to"
kill -KILL "$task"
eventually process_ended "$task"
"$stepctl" clean >/dev/null

nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
