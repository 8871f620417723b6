#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The calls of a select plugin, in the order of Slurm's guide, as a jobd with real agents makes them
# (tests/lib/traced_select.c has a line for each); jobs that get another's nodes or give some up, with
# the processes there; what is found again after a kill -9. At the end each function of the guide has
# been called.
# shellcheck source=tests/lib/jobd.sh
. "${top_srcdir:?}/tests/lib/jobd.sh"

# shellcheck disable=SC2154 # $tmpdir, $work, $state are of jobd.sh
built=$(cd "${top_builddir:?}" && pwd)
mkdir -m 755 "$tmpdir/plugins"
cp "$built"/stepd/cli/plugins/*.so "$built/tests/lib/plugins/select_traced.so" "$tmpdir/plugins"
calls=$tmpdir/calls
TRACED_SELECT_PLUGIN=$built/stepd/cli/plugins/select_cons_res.so
TRACED_SELECT_LOG=$calls
export TRACED_SELECT_PLUGIN TRACED_SELECT_LOG
sed -i 's,SelectType=.*,SelectType=select/traced,; s,CR_Core,CR_Core_Memory,' "$tmpdir/slurm.conf"
cat >>"$tmpdir/slurm.conf" <<'CONF'
DefMemPerNode=100
CONF

begin_traced() {
	begin_jobd --plugin-dir "$tmpdir/plugins"
}
# Those from this one on of the file of calls; those of lists, which tables cause, are not counted.
mark() {
	marked=$(wc -l <"$calls")
}
since_mark() { # REGEX: calls that it fits, in one line
	tail -n "+$((marked + 1))" "$calls" | grep -Ex "$1" | tr '\n' ';'
}
was_called() { # REGEX
	tail -n "+$((marked + 1))" "$calls" | grep -Eqx "$1"
}

script waits <<'S'
echo $$ >>"$1"
until [ -e "$1.end" ]; do sleep 0.05; done
S

# ---- the start

: >"$calls"
mark
begin_traced
is "$(since_mark 'init|node_ranking|node_init.*|state_restore|job_init.*|nodeinfo_alloc|nodeinfo_set_all|ba_.*')" \
	"init;node_ranking;node_init 4;nodeinfo_alloc;nodeinfo_alloc;nodeinfo_alloc;nodeinfo_alloc;state_restore;job_init 0;nodeinfo_set_all;ba_init 4 n1 8 0;ba_get_dims;" \
	"a plugin starts with its nodes, then its state, then its jobs"
like "$(cat "$tmpdir/log")" "dimension 2 of the machine has 2 elements" "dimensions that a plugin has are logged"

# ---- a job

mark
job=$(submit -N 2 waits a)
eventually wrote a
is "$(since_mark "(job|step)_[a-z_]* $job.*|nodeinfo_set $job|job_test .*")" \
	"job_test 0 TEST_ONLY;job_test $job RUN_NOW;job_begin $job;nodeinfo_set $job;job_ready $job;step_pick_nodes $job 2;" \
	"a job is tested without regard to others before it has a number, then for this moment, begun, ready, and has a step"
mark
touch "$work/a.end"
ends_as "$job" COMPLETED "a traced job ends"
is "$(since_mark "(job_fini|step_finish|nodeinfo_set) $job.*|jobinfo_get 1")" \
	"step_finish $job 0;job_fini $job;nodeinfo_set $job;jobinfo_get 1;" "the end of its step comes before that of the job"
mark
fails "a job that can never run is refused" submit --mem 5000 waits b 2>/dev/null
is "$(since_mark 'job_.*')" "job_test 0 TEST_ONLY;" "a job that can never run is tested once"
script deaf <<'S'
trap '' TERM
echo $$ >>"$1"
while :; do sleep 0.1; done
S
job=$(submit deaf deaf.pid)
eventually wrote deaf.pid
mark
"$jobctl" cancel "$job"
eventually has_ended "$job"
is "$(since_mark "(job_fini|step_finish) $job.*")" "job_fini $job;step_finish $job 1;step_finish $job 0;" \
	"a plugin hears of a cancelled job before SIGKILL, and when the job is gone"

# ---- what is done to it

job=$(submit -w n1 waits c)
eventually wrote c
mark
"$jobctl" suspend "$job"
eventually has_state SUSPENDED "$job"
"$jobctl" resume "$job"
eventually has_state RUNNING "$job"
"$jobctl" cancel -s CONT "$job"
is "$(since_mark "job_(suspend|resume|signal) .*")" "job_suspend $job 1;job_resume $job 1;job_signal $job 18;" \
	"a plugin hears of suspension, resumption and signals by hand"
mark
"$jobctl" update NodeName=n4 State=DRAIN Reason=test
"$jobctl" update NodeName=n4 State=RESUME
"$jobctl" reserve ReservationName=r Nodes=n4 StartTime=now Duration=5 Users=root >/dev/null
"$jobctl" reserve --delete r
"$jobctl" reconfigure >/dev/null
is "$(since_mark 'update_.*|resv_test.*|reconfigure')" "update_node_state n4;update_node_state n4;resv_test r;reconfigure;" \
	"a plugin hears of nodes, reservations and the configuration"

# ---- jobs that are alike, and what a user says of networks

mark
array=$(submit --array 1-3 --network "dev=ib0" -w n4 waits d)
eventually wrote d
is "$(since_mark 'jobinfo_(set|copy).*')" "jobinfo_set 5;jobinfo_copy dev=ib0;jobinfo_copy dev=ib0;" \
	"tasks of an array have copies of the first one's information"
is "$("$jobctl" queue -h -r -j "${array}_2" -o '%s')" "1/dev=ib0" "a column shows what a plugin has of a job"
like "$("$jobctl" show job "${array}_3")" '^   SelectJobInfo=Begun=1 Network=dev=ib0$' "all that a plugin has of a job is shown"
touch "$work/d.end"
eventually has_ended "${array}_3"

# ---- nodes of one job become another's, with its processes

giver=$(submit -w n2 waits e)
getter=$(submit -w n3 waits f)
eventually wrote e
eventually wrote f
mark
"$jobctl" expand "$giver" "$getter"
ends_as "$giver" CANCELLED "a job that has given its resources to another one ends"
is "$(since_mark "job_(expand.*|fini .*)")" "job_expand_allow;job_expand $giver $getter;" "a plugin gives all of one job to the other"
is "$("$jobctl" queue -h -j "$getter" -o '%N %B')" "n[2-3] n3" "the job that was expanded has the nodes of both, and its script where it was"
has_step() { # STEP
	[ -S "$run/$1/socket" ]
}
ok "the job that was expanded gets an agent on its new node" eventually has_step "n2_$getter.extern"
kill_jobd
mark
begin_traced
is "$(doc_of "$getter" '["job_state"]') $(doc_of "$getter" '["batch_host"]')" "RUNNING n3" \
	"a job that was expanded runs on when jobd is killed"
is "$(wc -l <"$work/f")" 1 "its script is not started again"

mark
is "$("$jobctl" update "$getter" NodeList=n2 2>&1)" \
	"jobctl update: error: nodelist=n2: the job's script is on node n3, which it can't give up" \
	"a job does not give up the node of its script"
sh -c 'trap "" TERM; echo up; while :; do sleep 0.1; done' >"$tmpdir/stays" &
stays=$!
eventually grep -q up "$tmpdir/stays"
"$stepctl" add --runtime-dir "$run" "n2/$getter.extern" "$stays" >/dev/null
"$jobctl" update "$getter" NodeList=n3
is "$(since_mark 'job_resized .*')" "job_resized $getter n2;" "a plugin hears of a node that a job gives up"
is "$("$jobctl" queue -h -j "$getter" -o %N) $(doc_of "$getter" '["leaving_nodes"]') $("$jobctl" nodes -h -n n2 -o %t)" \
	"n3 n2 comp" "a node that a job gives up is completing as long as it has processes there"
kill_jobd
begin_traced
is "$("$jobctl" nodes -h -n n2 -o %t)" comp "a node that is given up is completing for the next jobd, too"
is_idle() { # NODE
	[ "$("$jobctl" nodes -h -n "$1" -o %t)" = idle ]
}
ok "a node that was given up is idle when its processes have ended" eventually is_idle n2
wait "$stays" 2>/dev/null
fails "an agent of a node that was given up has ended" has_step "n2_$getter.extern"
is "$(doc_of "$getter" '["job_state"]') $(wc -l <"$work/f")" "RUNNING 1" "the job that gave up a node runs on, on the nodes that it kept"
next=$(submit -w n2 waits g)
ok "the next job gets the node that was given up" eventually wrote g
touch "$work/g.end" "$work/f.end"
ends_as "$getter" COMPLETED "a job that has given up a node comes to its end"
eventually has_ended "$next"

# ---- another machine than before

job2=$(submit -w n2 --mem 900 waits h)
eventually wrote h
kill_jobd
sed -i 's,^NodeName=.*,NodeName=n1 CPUs=8 Sockets=1 CoresPerSocket=8 RealMemory=1000\nNodeName=n2 CPUs=8 Sockets=1 CoresPerSocket=8 RealMemory=800\nNodeName=n[3-4] CPUs=8 Sockets=1 CoresPerSocket=8 RealMemory=1000,' \
	"$tmpdir/slurm.conf"
mark
begin_traced
eventually was_called "job_mem_confirm $job2"
is "$(since_mark 'init|node_init.*|nodeinfo_(alloc|unpack)|job_init.*|update_node_config.*')" \
	"init;node_init 4;nodeinfo_unpack;nodeinfo_unpack;nodeinfo_unpack;nodeinfo_unpack;job_init 2;update_node_config n2;" \
	"a plugin's information on nodes is unpacked, and it hears of a node that has changed"
eventually has_state PENDING "$job2"
is "$(doc_of "$job2" '["state_reason"]') $(doc_of "$job" '["job_state"]')" "BeginTime RUNNING" \
	"a job that was given more memory than its node has now is queued again, another one runs on"
like "$(cat "$tmpdir/log")" "node n2: it has 8 CPUs and 800 MB now, and had 8 and 1000" "the change is logged"
is "$("$jobctl" show job "$array" | grep -c 'SelectJobInfo=Begun=1 Network=dev=ib0')" 3 \
	"a plugin's information on jobs is unpacked"
touch "$work/c.end" "$work/h.end"
"$jobctl" cancel "$job2"
ends_as "$job" COMPLETED "the other job comes to its end"
mark
nothing_left_of_jobs 100
is "$(since_mark 'state_save|fini')" "state_save;fini;" "a plugin saves its state before it is unloaded"

# ---- all of it

grep -oE '\bselect_p_[a-z_]+' "$top_srcdir/stepd/api/select.h" | sort -u |
	sed 's/^select_p_//; s/^select_\(node\|job\)info/\1info/' >"$tmpdir/functions"
missing=
while read -r function; do
	grep -Eqx "$function( .*)?" "$calls" || missing="$missing $function"
done <"$tmpdir/functions"
is "$missing" "" "each function of the guide was called"
done_testing
