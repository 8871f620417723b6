#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# stepd doctor --slurm: what a node's slurm.conf has for a step daemon, and what is handed over in any case.
# shellcheck source=tests/lib/doctor.sh
. "${top_srcdir:?}/tests/lib/doctor.sh"

SLURM_CONF=$tmpdir/slurm.conf
STEPD_CONFIG=$tmpdir/stepd.conf
export SLURM_CONF STEPD_CONFIG
printf '#!/bin/sh\n' >"$tmpdir/slurmstepd"
chmod 755 "$tmpdir/slurmstepd"
configured() { # LINE...: of stepd.conf, besides the real slurmstepd
	printf '%s\n' "slurm_stepd_path = $tmpdir/slurmstepd" "$@" >"$STEPD_CONFIG"
	chmod 644 "$STEPD_CONFIG"
}
# The values of all findings of an id.
values_of() {
	printf '%s\n' "$report" | sed -n "/^      \"id\": \"$1\",/,/^    }/s/^      \"value\": \"\(.*\)\",$/\1/p" | tr '\n' ' '
}

configured
cat >"$SLURM_CONF" <<'E2'
ClusterName=c
SlurmctldHost=here
proctracktype=proctrack/linuxproc
Include more.conf
NodeName=n CPUs=1
E2
printf 'TaskPlugin=task/cgroup,task/affinity # both\nPrologFlags=Contain\n' >"$tmpdir/more.conf"
doctor --slurm
is "$(of slurm.conf level) $(of slurm.conf value)" "ok $SLURM_CONF" "doctor --slurm reads the file that SLURM_CONF names"
is "$(values_of slurm.needs)" "proctrack/linuxproc task/cgroup,task/affinity jobacct_gather/none none Contain " \
	"doctor --slurm reports what steps need, of included files, too"
is "$(values_of slurm.handover)" "" "nothing of a plain slurm.conf is handed over in any case"
is "$(of slurm.slurmstepd level) $(of slurm.slurmstepd value)" "ok $tmpdir/slurmstepd" "doctor --slurm finds the slurmstepd of stepd.conf"
is "$(of slurm.served value)" none "doctor --slurm says that no step is served yet"
printf '%s\n' "$report" >"$tmpdir/report"
fits_schema "the document with findings of Slurm is as the schema has it" stepd-doctor.schema.json "$tmpdir/report"
doctor
is "$(of slurm.conf level)" "" "without --slurm doctor reads no slurm.conf"

cat >>"$SLURM_CONF" <<'E2'
PrologFlags=Alloc,x11
SlurmctldParameters=enable_configless,enable_stepmgr
SwitchType=switch/none
JobContainerType=job_container/tmpfs
AcctGatherProfileType=acct_gather_profile/hdf5
TLSType=tls/s2n
E2
: >"$tmpdir/oci.conf"
doctor --slurm
is "$(values_of slurm.handover)" "namespace profile tls x11 stepmgr container " "doctor --slurm reports what is handed over in any case"
text=$(timeout 900 "$stepd" doctor --slurm)
like "$(printf '%s' "$text" | tr -s '\n ' '  ')" \
	"by JobContainerType=job_container/tmpfs this is handed over in any case: every step; the job has a namespace" \
	"a finding names the line of slurm.conf and the steps"
is "$(printf '%s\n' "$text" | awk 'length($0) > 80 && NF > 2 + ($1 == "Remedy:")')" "" "the text fits 80 columns"

# ---- faults, none of which keeps steps of stepd from starting --------------------------------
echo 'no pair' >>"$SLURM_CONF"
doctor --slurm
is "$status $(of slurm.conf level)" "0 warning" "a slurm.conf that can't be read is a warning"
like "$(of slurm.conf text)" "slurm.conf:12: 'no pair' must be Key=Value" "the line at fault is named"
SLURM_CONF=$tmpdir/nothing
doctor --slurm
is "$status $(of slurm.conf level)" "0 warning" "a slurm.conf that is missing is a warning"
echo 'slurm_stepd_path = /nothing' >"$STEPD_CONFIG"
doctor --slurm
is "$status $(of slurm.slurmstepd level)" "0 warning" "a slurmstepd that is missing is a warning"
configured 'slurm_record = here'
doctor --slurm
like "$(of slurm.settings text)" "line 2: slurm_record: 'here' is not an absolute path" "a fault in stepd.conf is a finding"
configured 'slurm_serve = srun, batch' 'slurm_handover = user root 1001, partition not debug'
doctor --slurm
is "$(of slurm.served value)" "srun,batch" "doctor --slurm reports the kinds of steps that are served"
is "$(values_of slurm.rule)" "user root 1001 partition not debug " "doctor --slurm reports the rules of what is handed over"
configured 'slurm_handover = user no-such-user'
doctor --slurm
is "$(of slurm.rule level)" warning "a rule with a user who does not exist is a warning"
like "$(of slurm.rule text)" "there is no user 'no-such-user'" "the user who does not exist is named"
configured 'slurm_handover = usr root'
doctor --slurm
like "$(of slurm.settings text)" "line 2: slurm_handover: 'usr root' must begin with 'user', 'group', 'partition' or 'kind'" \
	"a rule that is none is a finding"
if [ "$(id -u)" = 0 ]; then
	configured "slurm_record = $tmpdir/records"
	doctor --slurm
	is "$(of slurm.record level)$([ ! -e "$tmpdir/records" ] || echo made)" ok "doctor makes no directory for records"
	mkdir -m 755 "$tmpdir/records"
	doctor --slurm
	is "$(of slurm.record level)" warning "a directory of records that others may read is a warning"
	chmod 700 "$tmpdir/records"
	i=0
	while [ $i -lt 200 ]; do
		: >"$tmpdir/records/$i.init"
		i=$((i + 1))
	done
	doctor --slurm
	like "$(of slurm.record text)" "is full: no more inits are kept" "a full directory of records is reported"
else
	skip 3 "needs root: a directory of records is root's"
fi

# The ids, in the program and in the manual.
tr -s '\n\t ' ' ' <"$top_srcdir/contrib/slurm/doctor.c" | grep -oE '"slurm\.[a-z]+"' | tr -d '"' | sort -u >"$tmpdir/reported"
sed -n '/^\.Ss The check-up/,/^\.Ss /s/^\.It Cm \(slurm\.\)/\1/p' "$top_srcdir/doc/stepd-slurm.8" | sort >"$tmpdir/manual"
is "$(cat "$tmpdir/manual")" "$(cat "$tmpdir/reported")" "the manual has each id of doctor --slurm, and no other"
done_testing
