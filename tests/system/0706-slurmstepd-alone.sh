#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# stepd-slurmstepd without a slurmd: recorded inits on standard input, and a script in the place of Slurm's
# own slurmstepd, which writes down what it gets.
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root: a directory of records is root's"
command -v python3 >/dev/null || skip_all "needs python3"
program=$top_builddir/contrib/slurm/stepd-slurmstepd
recorded=$top_srcdir/tests/fuzz/corpus/slurm_init
STEPD_CONFIG=$tmpdir/stepd.conf
export STEPD_CONFIG GOT="$tmpdir/got"
log=$tmpdir/slurmd.log

# Reads as many bytes as $SIZE has, answers, reads slurmd's last four, and the end.
cat >"$tmpdir/real" <<'S'
#!/bin/sh
mkdir -p "$GOT"
children=
[ ! -e "/proc/$$/task/$$/children" ] || read -r children <"/proc/$$/task/$$/children" || : # it has no newline
echo "pid=$$ arguments=$# $* children=$children" >"$GOT/call"
[ $# = 0 ] || exit 0
head -c "$SIZE" >"$GOT/init"
[ "${ANSWERS-yes}" = yes ] || exit 3
printf '\0\0\0\0'
cat >"$GOT/end"
S
chmod 755 "$tmpdir/real"

configured() { # LINE...: of stepd.conf
	printf '%s\n' "$@" >"$STEPD_CONFIG"
	chmod 644 "$STEPD_CONFIG"
}

init_of() { # NAME [RELEASE]: into $tmpdir/init
	# without its end, which slurmd writes when it has the answer
	python3 "$top_srcdir/tests/lib/slurm_init.py" "$recorded/$1" "$log" ${2:+"$2"} | head -c -4 >"$tmpdir/init"
	SIZE=$(wc -c <"$tmpdir/init")
	export SIZE
}

# What slurmd does with $tmpdir/init: $answer, in hexadecimal digits, $status and $pid.
launch() {
	rm -rf "$GOT" "$tmpdir/to" "$tmpdir/from" "$log"
	mkfifo "$tmpdir/to" "$tmpdir/from"
	timeout 60 "$program" <"$tmpdir/to" >"$tmpdir/from" 2>"$tmpdir/err" &
	pid=$!
	exec 3>"$tmpdir/to" 4<"$tmpdir/from"
	cat "$tmpdir/init" >&3
	answer=$(timeout 60 head -c 4 <&4 | od -An -tx1 | tr -d ' ')
	printf '\0\0\0\0' >&3
	exec 3>&- 4<&-
	wait "$pid"
	status=$?
}

handed_over() { # NAME
	eventually test -f "$GOT/end"
	ok "$1" cmp "$tmpdir/init" "$GOT/init"
}

# ---- what slurmstepd gets --------------------------------------------------------------------
configured "slurm_stepd_path = $tmpdir/real"
init_of srun
launch
handed_over "slurmstepd reads slurmd's bytes as slurmd wrote them"
is "$answer $status" "00000000 0" "slurmd gets slurmstepd's own answer"
is "$(od -An -tx1 <"$GOT/end" | tr -d ' ')" 00000000 "slurmstepd reads what slurmd writes behind its answer"
like "$(cat "$GOT/call")" "^pid=[0-9]+ arguments=0  children=$" "slurmstepd has no argument, and no child that it did not start"
like "$(cat "$log")" "^\[[-0-9T:.]{23}\] \[2\.0\] stepd-slurmstepd: srun step handed over to $tmpdir/real: steps of this kind are not served here \\(slurm_serve in stepd.conf\\)$" \
	"slurmd's log says which step it was, and why it was handed over"
is "$(wc -l <"$log")" 1 "the log of slurmd has one line for a step"

for row in "batch|\[3.batch\] .*: batch step .*not served here" "x11|\[3.extern\] .*: extern step .*not served here" \
	"container|\[10.0\] .*: srun step .*: it runs in an OCI container" "profile|\[11.0\] .*: srun step .*not served here" \
	"het|\[8.0\] .*: het step " "interactive|\[2.interactive\] .*: interactive step "; do
	init_of "${row%%|*}"
	launch
	handed_over "a step with an init like '${row%%|*}' is handed over"
	like "$(cat "$log")" "${row#*|}" "the log has the kind of '${row%%|*}' and its reason"
done

# ---- what is no init --------------------------------------------------------------------------
init_of srun 12032
launch
handed_over "an init of an unknown release is handed over"
init_of srun 10240
launch
handed_over "an init that is not as its release has it is handed over"
python3 - "$tmpdir/init" <<'P'
import os, sys
open(sys.argv[1], "wb").write(b"\xff" * 300000 + os.urandom(10))
P
SIZE=300010
launch
handed_over "bytes that are no init, and more than a pipe holds, are handed over"
init_of srun
head -c 700 "$tmpdir/init" >"$tmpdir/cut"
rm -rf "$GOT"
timeout 60 "$program" <"$tmpdir/cut" >/dev/null
eventually test -f "$GOT/end"
ok "what was read of an init that ends early is handed over" cmp "$tmpdir/cut" "$GOT/init"

# ---- other calls -----------------------------------------------------------------------------
rm -rf "$GOT"
timeout 60 "$program" spank prolog </dev/null
like "$(cat "$GOT/call")" "arguments=2 spank prolog " "a call with arguments is slurmstepd's, with them"

# ---- without a slurmstepd ---------------------------------------------------------------------
init_of srun
ANSWERS=no
export ANSWERS
launch
is "$answer" "" "slurmd sees the end of the reply pipe when slurmstepd dies"
unset ANSWERS
configured "slurm_stepd_path = $tmpdir/nothing"
launch
is "$answer $status" "ffffffff 1" "slurmd is told that the step can't be started"
like "$(cat "$log")" "error: can't execute Slurm's own slurmstepd '$tmpdir/nothing' \(slurm_stepd_path in stepd.conf\): No such file or directory: the step is refused$" \
	"the log says which program can't be executed"
configured "slurm_stepd_path = $program"
launch
is "$answer $status" "ffffffff 1" "a slurmstepd that is stepd-slurmstepd is refused"
printf 'no program' >"$tmpdir/text"
chmod 755 "$tmpdir/text"
configured "slurm_stepd_path = $tmpdir/text"
launch
is "$answer $status" "ffffffff 1" "slurmd is told that slurmstepd is no program"
like "$(cat "$log")" "Exec format error: the step is refused$" "the log says that slurmstepd is no program"

# ---- records -------------------------------------------------------------------------------------
configured "slurm_stepd_path = $tmpdir/real" "slurm_record = $tmpdir/records"
launch
is_kept() {
	ls "$tmpdir"/records/2.0-*.init >"$tmpdir/kept" 2>/dev/null
}
eventually is_kept
{
	cat "$tmpdir/init"
	printf '\0\0\0\0'
} >"$tmpdir/whole"
ok "slurm_record keeps an init, to its end" cmp "$(cat "$tmpdir/kept")" "$tmpdir/whole"
is "$(stat -c '%a %u' "$tmpdir/records" "$(cat "$tmpdir/kept")" | tr '\n' ' ')" "700 0 600 0 " \
	"nobody but root can read what is kept"
is "$(wc -l <"$log")" 1 "a step that is kept has one line in the log"
i=0
while [ $i -lt 199 ]; do
	: >"$tmpdir/records/$i.init"
	i=$((i + 1))
done
launch
# The relay has let the directory go when this can be locked.
flock "$tmpdir/records" true
is "$(find "$tmpdir/records" -name '*.init' | wc -l)" 200 "no more than 200 inits are kept"
rm -r "$tmpdir/records"
mkdir -m 755 "$tmpdir/records"
launch
handed_over "a step goes on where its init can't be kept"
like "$(cat "$log")" "error: '$tmpdir/records' \(slurm_record\) must be root's, with mode 0700: credentials get into it, ignoring" \
	"a directory of records that others may read is refused"
is "$(ls "$tmpdir/records")" "" "nothing is written into a directory that others may read"
configured "slurm_stepd_path = $tmpdir/real" "slurm_record = records"
launch
handed_over "a step goes on where the configuration has a fault"
like "$(cat "$log")" "line 2: slurm_record: 'records' is not an absolute path, ignoring" "a fault of the configuration is logged"

# ---- kinds that are to be served --------------------------------------------------------------
SLURM_CONF=$tmpdir/slurm.conf # there is none, so nothing is served
export SLURM_CONF
for kinds in batch "srun,batch" "batch, srun"; do
	configured "slurm_stepd_path = $tmpdir/real" "slurm_serve = $kinds"
	init_of batch
	launch
	handed_over "a script is handed over without a slurm.conf (slurm_serve = $kinds)"
	like "$(cat "$log")" "batch step handed over to .*: slurm.conf has what is not served: " \
		"'slurm_serve = $kinds' chooses scripts"
done
init_of extern
launch
handed_over "a kind that is not in the list is handed over"
like "$(cat "$log")" "extern step handed over to .*: steps of this kind are not served here" "the log says that its kind is not chosen"
configured "slurm_stepd_path = $tmpdir/real" "slurm_serve = srun, pty"
launch
like "$(cat "$log")" "slurm_serve: 'srun, pty' is not 'no', or a list of 'srun', 'batch', 'extern', 'interactive' and 'het', ignoring" \
	"a kind that can't be served is a fault of the configuration"

# ---- rules of what is handed over ---------------------------------------------------------------
serving() { # KINDS RULES
	configured "slurm_stepd_path = $tmpdir/real" "slurm_serve = $1" "slurm_handover = $2"
}
reason() { # of the last launch
	sed -n 's/.* step handed over to [^:]*: //p' "$log"
}
by_rule="by a rule of the site \(slurm_handover in stepd.conf"
for row in "srun|user root" "batch|user not nobody" "srun|group 0" "srun|partition bench" "interactive|partition not debug" \
	"batch|kind srun batch" "srun|user nobody, partition bench"; do
	init_of "${row%%|*}"
	serving "srun, batch, interactive" "${row#*|}"
	launch
	rule=${row##*|}
	like "$(reason)" "^$by_rule: ${rule##*, }\)$" "'$rule' holds for a step of root's in the partition 'bench', and the log has it"
done
handed_over "a step for which a rule holds is handed over"
init_of srun
for rules in "user nobody" "user not root" "group 12345" "partition debug" "partition not bench" "kind batch" "no"; do
	serving srun "$rules"
	launch
	like "$(reason)" "^slurm.conf has what is not served" "'$rules' does not hold for a step of root's in the partition 'bench'"
done
# What follows in the message is the user's.
python3 - "$tmpdir/init" <<'P'
import sys
data = open(sys.argv[1], "rb").read()
assert data.count(b"SLURM_JOB_PARTITION=bench\0") == 1
open(sys.argv[1], "wb").write(data.replace(b"SLURM_JOB_PARTITION=bench\0", b"SLURM_JOB_PARTITION=debug\0"))
P
serving srun "partition bench"
launch
like "$(reason)" "^$by_rule: partition bench\)$" "srun's environment does not choose the partition of a rule"
serving srun "user no-such-user"
launch
like "$(reason)" "^$by_rule: user no-such-user\): there is no user 'no-such-user'$" \
	"a rule with a user who does not exist hands every step over, and the log says why"
for row in "usr root|'usr root' must begin with 'user', 'group', 'partition' or 'kind'" "user not|'user not' has no name of a user" \
	"kind btch|'kind btch': 'btch' is none of the kinds 'srun', 'batch', 'extern', 'interactive' and 'het'"; do
	serving srun "${row%%|*}"
	launch
	like "$(cat "$log")" "line 3: slurm_handover: ${row#*|}, ignoring" "'slurm_handover = ${row%%|*}' is a fault that the log has"
	like "$(reason)" "not served here" "nothing is served where slurm_handover has a fault"
done
configured "slurm_stepd_path = $tmpdir/real" "slurm_serve = srun" "slurm_record = records" "slurm_handover = user root"
launch
like "$(reason)" "not served here" "nothing is served where a line before the rules has a fault"
done_testing
