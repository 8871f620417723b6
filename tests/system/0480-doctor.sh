#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# stepd doctor reports the state of this machine as it is, and with things taken away. Its output
# of a step's chances is compared with a step.
. "${top_srcdir:?}/tests/lib/doctor.sh"

without=${top_builddir:?}/tests/lib/without
nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
root=
[ "$(id -u)" -ne 0 ] || root=yes
mount=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)

# Where there is a cgroup2 that this user may write.
cgroups=
[ "$tracker" != cgroup ] || cgroups=yes

# ---- as it is ----------------------------------------------------------------------------------
agrees "on this machine"
is "$status" 0 "doctor reports that steps can be started on this machine"
all_ids >"$tmpdir/seen"
like "$(of step.tracker value)" '^proctrack/(cgroup|linuxproc)$' "doctor reports the tracker"
is "$(of kernel.version value)" "$(uname -r)" "doctor reports the kernel's version"
is "$(of runtime.directory value)" "$run" "doctor reports the runtime directory"
out=$(timeout 900 "$stepd" doctor)
is "$(printf '%s\n' "$out" | awk 'length($0) > 80 && NF > 2 + ($1 == "Remedy:")')" "" \
	"doctor's text fits 80 columns except for single longer words"
unlike "$out" "$(printf '\033')" "doctor's text has no colours in a pipe"
like "$out" "^A step started now is tracked by proctrack/" "doctor's text ends with the features that a step would have"
quiet=$(timeout 900 "$stepd" doctor --quiet)
unlike "$quiet" '^  (ok|-) ' "doctor --quiet omits what is well"
is "$(printf '%s\n' "$quiet" | grep -c '^  warning ')" "$(printf '%s\n' "$out" | grep -c '^  warning ')" \
	"doctor --quiet shows all warnings"
if command -v script >/dev/null; then
	like "$(TERM=vt100 script -qec "$stepd doctor" /dev/null </dev/null)" "$(printf '\033\\[')" \
		"doctor's text has colours on a terminal"
	unlike "$(NO_COLOR=1 TERM=vt100 script -qec "$stepd doctor" /dev/null </dev/null)" \
		"$(printf '\033')" "doctor's text has no colours with NO_COLOR"
	unlike "$(TERM=dumb script -qec "$stepd doctor" /dev/null </dev/null)" "$(printf '\033')" \
		"doctor's text has no colours on a dumb terminal"
else
	skip 3 "script is not installed"
fi
for wrong in --no-such-option argument --plugin-dir; do
	timeout 900 "$stepd" doctor $wrong >"$tmpdir/out" 2>"$tmpdir/err"
	is $? 125 "doctor $wrong exits with 125"
	like "$(cat "$tmpdir/err")" "$wrong" "doctor $wrong is reported by its name"
done
timeout 900 "$stepd" doctor --json >/dev/full 2>/dev/null
is $? 125 "doctor exits with 125 where its report can't be written"

# ---- the ids, in the program and in the manual -------------------------------------------------
# Each stands behind a level, in a row of a table, or is handed on.
cat "$top_srcdir"/stepd/cli/doctor/*.c "$top_srcdir"/proctrack/*/checkup*.c \
	"$top_srcdir/proctrack/pgid/pgid.c" "$top_srcdir/proctrack/linuxproc/linuxproc.c" \
	"$top_srcdir/proctrack/cray_aries/cray_aries.c" |
	tr -s '\n\t ' ' ' |
	grep -oE '(STEPD_FINDING_[A-Z]+,|\.id =) "[a-z]+\.[a-z0-9_.]+"' |
	sed 's/.* "\(.*\)"/\1/' | sort -u >"$tmpdir/reported"
awk '/^\.S[sh] / { on = $0 == ".Sh THE CHECK-UP" } on && /^\.It Cm [a-z]*\./' "$top_srcdir/doc/stepd.8" |
	sed 's/^\.It Cm //; s/ , /\n/g' | sort >"$tmpdir/manual"
is "$(cat "$tmpdir/manual")" "$(cat "$tmpdir/reported")" "the manual has each id of the program, and no other"
is "$(sort -u "$tmpdir/seen" | comm -23 - "$tmpdir/reported")" "" \
	"doctor reports no id that its sources do not have"

# ---- the document ------------------------------------------------------------------------------
fits() { # NAME: of $report
	printf '%s\n' "$report" >"$tmpdir/report"
	fits_schema "$1" stepd-doctor.schema.json "$tmpdir/report"
	is "$(json_get "$tmpdir/report" 'all(n == sum(f["level"] == level for f in findings) for level, n in counts.items()) and
		step["can_run"] == (counts["problem"] == 0)')" true "$1, and its counts are right"
}
fits "the document is as the schema has it"

# ---- without system calls ----------------------------------------------------------------------
plain=$stepd
lacking() { # CALLS: $stepd without these
	printf '#!/bin/sh\nexec %s %s -- %s "$@"\n' "$without" "$1" "$plain" >"$tmpdir/stepd"
	chmod +x "$tmpdir/stepd"
	stepd=$tmpdir/stepd
}
plugins=${top_builddir:?}/stepd/cli/plugins
lacking clone3
agrees "without clone3" --plugin-dir "$plugins"
is "$(of kernel.clone3 level)" warning "a missing clone3 is a warning"
[ -z "$cgroups" ] || is "$(of cgroup.birth level)" warning "doctor tries a birth in a cgroup, and warns without clone3"
agrees "without clone3 and with proctrack/pgid" --plugin-dir "$plugins" --proctrack pgid
is "$(of pgid.clone3 level)" problem "a missing clone3 is a problem for proctrack/pgid"
fits "the document of a problem is as the schema has it"
lacking pidfd_open
agrees "without pidfd_open" --plugin-dir "$plugins"
is "$(of kernel.pidfd level)" warning "a missing pidfd_open is a warning"
lacking "clone3 pidfd_open"
agrees "without clone3 and pidfd_open" --plugin-dir "$plugins"
is "$(of kernel.pidfd level)" warning "missing clone3 and pidfd_open are a warning, for tasks start without"
lacking "close_range bpf"
agrees "without close_range and bpf" --plugin-dir "$plugins"
is "$(of kernel.close_range level)" note "a missing close_range is a note"
[ -z "$cgroups" ] || is "$(of cgroup.limits.devices level)" warning "a missing bpf is a warning for device limits"
stepd=$plain

# ---- plugins -----------------------------------------------------------------------------------
agrees "without a plugin directory" --plugin-dir "$tmpdir/none"
is "$(of plugins.directory level)" problem "a missing plugin directory is a problem"
mkdir "$tmpdir/plugins"
agrees "without plugins" --plugin-dir "$tmpdir/plugins"
cp -L "$plugins"/*_linuxproc.so "$plugins"/*_none.so "$tmpdir/plugins"
cp "${top_builddir:?}/tests/lib/plugins/proctrack_stubborn.so" "$tmpdir/plugins"
echo junk >"$tmpdir/plugins/proctrack_junk.so"
chmod go-w "$tmpdir"/plugins/*
agrees "with a plugin that is none" --plugin-dir "$tmpdir/plugins"
is "$status $(printf '%s\n' "$report" | grep -c 'proctrack_junk.so.* can.t be loaded')" "0 1" \
	"a file that is no plugin is reported, and steps run without it"
is "$(of plugins.probe value)" proctrack/stubborn "a plugin without a check-up is probed"
agrees "with a plugin that is none, which --proctrack names" --plugin-dir "$tmpdir/plugins" --proctrack junk
is "$status" 1 "a file that is no plugin is a problem if --proctrack names it"
if [ -n "$root" ]; then
	chmod o+w "$tmpdir/plugins"
	agrees "with plugins that anybody can change" --plugin-dir "$tmpdir/plugins"
	like "$(of step.tracker text)" "can be written by others" "plugins that anybody can change are not trusted"
else
	skip 2 "not root: nothing is gained by changing plugins"
fi

# ---- the runtime directory ---------------------------------------------------------------------
agrees "with a runtime directory that can't be made" --runtime-dir "$tmpdir/none/at/all"
is "$(of runtime.directory level)" problem "a runtime directory that can't be made is a problem"
agrees "with a file for a runtime directory" --runtime-dir /dev/null
doctor --runtime-dir "$tmpdir/new"
is "$status $(of runtime.directory level)" "0 ok" "a runtime directory that can be made is well"
ok "doctor does not make the runtime directory" test ! -e "$tmpdir/new"
mkdir -m 777 "$tmpdir/open"
agrees "with a runtime directory that anybody can change" --runtime-dir "$tmpdir/open"
like "$(of runtime.directory text)" "can be written by others" \
	"a runtime directory that anybody can change is not trusted"
doctor --runtime-dir /dev/shm/stepd-test-none-$$
is "$(of runtime.directory level)" ok "a runtime directory below /dev/shm is well"

start_agent 0 --proctrack "$tracker" -- sleep 99
doctor
like "$(of runtime.steps text)" "1 step runs, and none without" "doctor counts a running step"
task=$("$stepctl" pids "$job.0")
kill_agent
# A child that has not executed its program yet has the lock, too.
eventually sh -c "'$stepctl' list | grep -q ' died\$'"
doctor
is "$(of runtime.steps level) $(of runtime.steps value)" "warning $job.0" \
	"doctor warns of a step whose agent died"
kill -9 "$task"
eventually sh -c "! kill -0 $task"
"$stepd" run -q --job "$job" --proctrack "$tracker" -- true
doctor
is "$(of runtime.steps level)" ok "doctor does not warn of a step that was started again"

# ---- limits and rights -------------------------------------------------------------------------
report=$(ulimit -n 100 && "$stepd" doctor --json)
is "$(of limits.nofile level) $(of limits.nofile value)" "warning 100" "doctor warns of few open files"
if [ -n "$root" ] && $nobody test -x "$stepd"; then
	stepd="$nobody env STEPD_RUNTIME_DIR=$tmpdir/nobody $plain"
	mkdir "$tmpdir/nobody"
	chown 65534 "$tmpdir/nobody"
	# shellcheck disable=SC2086 # words, here and below
	report=$(timeout 900 $stepd doctor --json)
	status=$?
	$stepd run -q --job "$job" -- true 2>/dev/null
	is "$status $?" "0 0" "as nobody: doctor and run agree"
	is "$(of user.rights level) $(of user.rights value)" "note 65534" "doctor notes the user's rights"
	if [ -n "$cgroups" ]; then
		report=$(timeout 900 $stepd doctor --json --proctrack cgroup)
		is "$? $(of cgroup.place level)" "1 problem" \
			"doctor reports that nobody can't start a step with proctrack/cgroup"
		like "$(of cgroup.place remedy)" "Delegate=yes" "doctor's remedy for nobody is a delegated cgroup"
	else
		skip 2 "proctrack/cgroup can't be used here"
	fi
	stepd=$plain
else
	skip 4 "needs root, and a build that nobody may run"
fi

# ---- cgroups -----------------------------------------------------------------------------------
if [ -z "$root" ] || [ -z "$cgroups" ]; then
	skip 20 "needs root and proctrack/cgroup"
	done_testing
fi
doctor
is "$(of cgroup.mount value)" "$mount" "doctor reports the mount of cgroup2"
is "$(of cgroup.place value)" "$(step -- sed -n "s|^0::\(.*\)/job_$job/.*|$mount\1|p" /proc/self/cgroup)" \
	"doctor reports the cgroup below which steps are made"

# What cgroup v1 holds can't be limited, and its mount is named.
if awk '$1 == "memory" && $2 > 0 { found = 1 } END { exit !found }' /proc/cgroups; then
	is "$(of cgroup.limits.memory level)" warning "doctor warns of a controller that cgroup v1 has"
	like "$(of cgroup.limits.memory text)" "'$(awk '$3 == "cgroup" && $4 ~ /(^|,)memory(,|$)/ { print $2; exit }' /proc/mounts)'" \
		"doctor names the mount of a controller that cgroup v1 has"
else
	skip 2 "cgroup v1 does not hold the memory controller here"
fi

# In a mount namespace without cgroup2.
cat >"$tmpdir/stepd" <<E
#!/bin/sh
exec unshare -m sh -c 'umount -a -t cgroup2 && exec "\$@"' - "$plain" "\$@"
E
stepd=$tmpdir/stepd
agrees "without cgroup2" --plugin-dir "$plugins"
is "$status $(of cgroup.mount level)" "0 warning" "a missing cgroup2 is a warning"
agrees "without cgroup2 and with --proctrack cgroup" --plugin-dir "$plugins" --proctrack cgroup
is "$status $(of cgroup.mount level)" "1 problem" "a missing cgroup2 is a problem if --proctrack names cgroup"
stepd=$plain
agrees "with a cgroup root that is no cgroup" --cgroup-root "$tmpdir"

namespaces='sum(f["id"] == "cgroup.namespace" for f in findings)'
is "$(unshare -C "$stepd" doctor --json | json_get - "$namespaces")" 1 "doctor reports a cgroup namespace"
is "$("$stepd" doctor --json | json_get - "$namespaces")" \
	"$([ "$(stat -Lc %i /proc/self/ns/cgroup)" = 4026531835 ] && echo 0 || echo 1)" "doctor reports no cgroup namespace where there is none"

# Groups of the test's own, with one fault each.
group=$mount/stepd-test-doctor-$$
mkdir "$group"
at_exit "find '$group' -depth -type d -exec rmdir {} +"
agrees "below a cgroup root" --cgroup-root "$group"
is "$(of cgroup.place value)" "$group/stepd" "doctor reports the cgroup below a given root"
echo 3 >"$group/cgroup.max.descendants"
agrees "where three cgroups may be made" --cgroup-root "$group"
is "$(of cgroup.groups level) $(of cgroup.groups value)" "problem 3" "a limit of three cgroups is a problem"
echo 100 >"$group/cgroup.max.descendants"
agrees "where a hundred cgroups may be made" --cgroup-root "$group"
is "$(of cgroup.groups level) $(of cgroup.groups value)" "warning 100" \
	"a limit of a hundred cgroups is a warning"
echo max >"$group/cgroup.max.descendants"
echo 3 >"$group/cgroup.max.depth"
agrees "where cgroups may be three deep" --cgroup-root "$group"
is "$(of cgroup.groups level)" problem "a limit of three levels of cgroups is a problem"
echo max >"$group/cgroup.max.depth"

echo 1 >"$group/cgroup.freeze"
doctor --cgroup-root "$group"
is "$status $(of cgroup.frozen level)" "1 problem" "a frozen cgroup root is a problem"
echo 0 >"$group/cgroup.freeze"

# In a group that was once killed no process is born into another.
mkdir "$group/killed"
echo 1 >"$group/killed/cgroup.kill"
# shellcheck disable=SC2016
report=$(sh -c 'echo $$ >"$1/killed/cgroup.procs" && exec "$2" doctor --json --cgroup-root "$1"' - \
	"$group" "$stepd")
is "$? $(of cgroup.birth level)" "0 warning" "a cgroup root that was once killed is a warning"
rmdir "$group/killed"

# However it ends, nothing is left, at the latest after the next.
i=0
while [ $i -lt 30 ]; do
	i=$((i + 1))
	timeout -s KILL "0.00$((i % 10))" "$stepd" doctor --cgroup-root "$group" >/dev/null 2>&1
done
doctor --cgroup-root "$group"
is "$(find "$group" -mindepth 1 -name 'stepd-checkup-*')" "" \
	"a killed doctor leaves no cgroup behind, at the latest after the next run"
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
