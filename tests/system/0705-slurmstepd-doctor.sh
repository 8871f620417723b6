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
SlurmctldHost=here(127.0.0.1)
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
NamespaceType=namespace/linux
AcctGatherProfileType=acct_gather_profile/hdf5
TLSType=tls/s2n
E2
: >"$tmpdir/oci.conf"
doctor --slurm
like "$(of slurm.handover text)" "every step is handed over: read '$tmpdir/acct_gather.conf'" "a file that a step needs and that is not there is a finding"
: >"$tmpdir/acct_gather.conf"
doctor --slurm
is "$(values_of slurm.handover)" "namespace profile tls stepmgr container " "doctor --slurm reports what is handed over in any case"
text=$(timeout 900 "$stepd" doctor --slurm)
like "$(printf '%s' "$text" | tr -s '\n ' '  ')" \
	"by NamespaceType=namespace/linux this is handed over in any case: every step; the job's namespace is made" \
	"a finding names the line of slurm.conf and the steps"
sed -i 's/TLSType=.*/AcctGatherInterconnectType=acct_gather_interconnect\/ofed/' "$SLURM_CONF"
doctor --slurm
is "$(values_of slurm.handover)" "namespace profile stepmgr container " "a plugin for networks is nothing of the kind by itself"
printf 'AcctGatherEnergyType=acct_gather_energy/ipmi\nSwitchType=switch/own\n' >>"$SLURM_CONF"
doctor --slurm
is "$(values_of slurm.handover)" "site site namespace profile stepmgr container " "each line that has every step handed over is a finding"
for line in AcctGatherEnergyType=acct_gather_energy/ipmi SwitchType=switch/own; do
	like "$report" "by $line this is handed over in any case: every step" "a finding names $line"
done
sed -i '/ipmi$/d; /own$/d; s/^SlurmctldHost=.*/SlurmctldHost=nowhere.invalid/' "$SLURM_CONF"
doctor --slurm
like "$(of slurm.handover text)" "every step is handed over: find slurmctld's host 'nowhere.invalid'" "so is a slurmctld without an address"
is "$(of slurm.handover level)" warning "it is a warning"
sed -i 's/^SlurmctldHost=.*/SlurmctldHost=here(127.0.0.1)/' "$SLURM_CONF"
echo 'AccountingStorageTRES=gres/gpu,ic/ofed,fs/lustre' >>"$SLURM_CONF"
doctor --slurm
is "$(values_of slurm.handover)" "namespace profile stepmgr usage container " "it is one where slurmctld accounts for what it gathers"
is "$(printf '%s\n' "$text" | awk 'length($0) > 80 && NF > 2 + ($1 == "Remedy:")')" "" "the text fits 80 columns"

# ---- what of the node is served --------------------------------------------------------------
whole_conf=$SLURM_CONF
node=$tmpdir/node
mkdir "$node"
SLURM_CONF=$node/slurm.conf
plugin() { # FILE VERSION
	printf '#include "spank_plugin.h"\nSPANK_PLUGIN("any");\n' >"$tmpdir/plugin.c"
	"${CC:-cc}" -shared -fPIC -I"$top_srcdir/tests/lib" "-DSPANK_VERSION=$2" -o "$node/$1" "$tmpdir/plugin.c" ||
		bail "can't compile a plugin"
}
served() { # LINE...: of slurm.conf
	printf '%s\n' ClusterName=c "SlurmctldHost=here(127.0.0.1)" "PluginDir=$node" "$@" >"$SLURM_CONF"
	doctor --slurm
}
served
is "$(of slurm.limits level) $(values_of slurm.limits)" "note none " "doctor --slurm says that steps have no limits without task/cgroup"
is "$(values_of slurm.gres)" "" "a node without GresTypes has no finding of them"
if command -v "${CC:-cc}" >/dev/null; then
	for release in 22.05:0x160508:ok 24.11:0x180b05:ok 19.05:0x130500:note; do
		version=${release#*:}
		plugin auth_munge.so "${version%:*}"
		served
		is "$(of slurm.release level) $(values_of slurm.release)" "${release##*:} ${release%%:*} " \
			"doctor --slurm reports the release ${release%%:*}, and whether its steps are served"
	done
	plugin gres_own.so 0x160508
	served GresTypes=gpu,shard,own,licence
	is "$(values_of slurm.gres)" "gpu shard own licence " "doctor --slurm has each of GresTypes"
	like "$report" "served steps have the variables of 'shard'" "GRES that share devices are reported"
	like "$report" "what '$node/gres_own.so' does is not done" "a GRES plugin of the site's own is reported"
	plugin auth_munge.so 0x180b05
	served GresTypes=gpu,shard
	like "$report" "served steps have the variables of 'gpu'" "devices of 24.11 are served"
	like "$report" "served steps have the variables of 'shard'" "parts of devices of 24.11 are served"
	plugin auth_munge.so 0x1a0505
	served GresTypes=gpu
	like "$report" "served steps have the variables of 'gpu'" "devices of 26.05 are served"
	rm "$node/auth_munge.so"
else
	skip 9 "needs a compiler"
fi
served TaskPlugin=task/affinity,task/cgroup
is "$(of slurm.limits level) $(values_of slurm.limits)" "note none " "a node without cgroup.conf constrains nothing"
printf 'CgroupMountpoint=%s\nConstrainCores=yes\nConstrainRAMSpace=yes\n' "$node/cgroup" >"$node/cgroup.conf"
doctor --slurm
is "$(of slurm.limits level) $(values_of slurm.limits)" "note cores,memory " "limits that the node can't have are reported"
like "$(of slurm.limits text)" "steps are handed over: slurmd's scope of cgroup v2 is not there" "a missing scope of slurmd's is named"
scope=$node/cgroup/system.slice/slurmstepd.scope
mkdir -p "$scope"
echo 'cpuset cpu' >"$scope/cgroup.controllers"
doctor --slurm
like "$(of slurm.limits text)" "steps are handed over: slurmd's scope .* has no memory controller" "a missing controller is named"
echo 'cpuset cpu memory' >"$scope/cgroup.controllers"
doctor --slurm
is "$(of slurm.limits level) $(values_of slurm.limits)" "ok cores,memory " "limits that served steps have are reported"
like "$(of slurm.limits text)" "in '$scope'" "where the containers of limited steps are is reported"
if command -v "${CC:-cc}" >/dev/null; then
	plugin auth_munge.so 0x180b05
	doctor --slurm
	is "$(of slurm.limits level) $(values_of slurm.limits)" "ok cores,memory " "limits of 24.11 are served"
	plugin auth_munge.so 0x1a0505
	doctor --slurm
	is "$(of slurm.limits level) $(values_of slurm.limits)" "ok cores,memory " "limits of 26.05 are served"
	mv "$node/cgroup/system.slice" "$node/cgroup/site.slice"
	echo 'CgroupSlice=site.slice' >>"$node/cgroup.conf"
	doctor --slurm
	like "$(of slurm.limits text)" "in '$node/cgroup/site.slice/slurmstepd.scope'" "a slice of the site's own is found"
	echo 'ConstrainDevices=yes' >"$node/cgroup.conf"
	doctor --slurm
	is "$(of slurm.limits level) $(values_of slurm.limits)" "ok devices " "limits of devices of 26.05 are served"
else
	skip 4 "needs a compiler"
fi
SLURM_CONF=$whole_conf

# ---- faults, none of which keeps steps of stepd from starting --------------------------------
echo 'no pair' >>"$SLURM_CONF"
doctor --slurm
is "$status $(of slurm.conf level)" "0 warning" "a slurm.conf that can't be read is a warning"
like "$(of slurm.conf text)" "slurm.conf:13: 'no pair' must be Key=Value" "the line at fault is named"
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
