#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# select/cray_aries with real jobs: a job begins after the site's begin program and is completing until its
# end program has ended, over a kill of jobd, too; nodes whose end program fails are drained.
# shellcheck source=tests/lib/jobd.sh
. "${top_srcdir:?}/tests/lib/jobd.sh"

sed -i '/^SelectType/d' "$tmpdir/slurm.conf"
echo SelectType=select/cray_aries >>"$tmpdir/slurm.conf"
for name in begin end; do
	cat >"$tmpdir/$name" <<S
#!/bin/sh
echo "$name \$SLURM_JOB_ID \$SLURM_JOB_NODELIST" >>'$tmpdir/programs'
until [ -e '$tmpdir/go-$name' ]; do sleep 0.05; done
[ ! -e '$tmpdir/bad-$name' ]
S
	chmod 755 "$tmpdir/$name"
done
printf '%s\n' "begin_program=$tmpdir/begin" "end_program=$tmpdir/end" >"$tmpdir/cray.conf"
JOBD_CRAY_CONF=$tmpdir/cray.conf
export JOBD_CRAY_CONF
ran() { # PROGRAM JOB TIMES
	[ "$(grep -c "^$1 $2 " "$tmpdir/programs")" = "$3" ]
}
is_in() { # JOB STATE
	[ "$("$jobctl" queue -h -t all -j "$1" -o %t)" = "$2" ]
}
node_states() {
	"$jobctl" nodes -h -N -o '%N %t' | sort -u | tr '\n' ';'
}

begin_jobd
script writes <<'S'
echo "$SLURM_JOB_NODELIST" >"$1"
S
id=$(submit -N 2 writes one)
eventually ran begin "$id" 1
is "$(cat "$tmpdir/programs")" "begin $id n[1-2]" "the begin program knows the job and its nodes"
ok "a job whose begin program runs is configured" is_in "$id" CF
ok "its script has not begun" [ ! -e "$work/one" ]
touch "$tmpdir/go-begin"
eventually ran end "$id" 1
is "$(cat "$work/one")" "n[1-2]" "the script runs after the begin program, and before the end program"
ok "a job whose end program runs is completing" eventually is_in "$id" CG
is "$(node_states)" "n1 comp;n2 comp;n3 idle;n4 idle;" "its nodes are, too"
id=$(submit -w n2 writes two)
kill_jobd
begin_jobd
ok "the end program runs once more when jobd was killed meanwhile" eventually ran end "$first_job" 2
ok "the job is still completing" is_in "$first_job" CG
ok "another job waits for the nodes of a job whose end program runs" is_in "$id" PD
touch "$tmpdir/go-end"
ends_as "$first_job" COMPLETED "the job ends after its end program"
ends_as "$id" COMPLETED "the other job has the nodes then"

touch "$tmpdir/bad-end"
id=$(submit -w n3 writes three)
ends_as "$id" COMPLETED "a job whose end program fails has the state of its script"
is "$(node_states)" "n1 idle;n2 idle;n3 drain;n4 idle;" "the node whose end program failed is drained"
like "$("$jobctl" show node n3)" 'Reason=.*select/cray_aries' "the reason names the plugin"
like "$(cat "$tmpdir/log")" "job $id: its end_program ended with exit status 1" "the log says what failed"
rm "$tmpdir/bad-end"
touch "$tmpdir/bad-begin"
id=$(submit -w n4 writes four)
ok "a job whose begin program fails is queued again" \
	eventually sh -c "'$jobctl' queue -h -j $id -o '%t %r' | grep -qx 'PD BeginFailed'"
ok "its script has not run" [ ! -e "$work/four" ]
ran end "$id" 1
is $? 0 "its end program has"
"$jobctl" cancel "$id"
nothing_left_of_jobs 100
done_testing
