#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# stepd doctor tells what is so: on this machine as it is, and with things taken away. What it says
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

all_ids() {
	printf '%s\n' "$report" | sed -n 's/^      "id": "\(.*\)",$/\1/p'
}

# ---- as it is ----------------------------------------------------------------------------------
agrees "on this machine"
is "$status" 0 "steps can be started here"
all_ids >"$tmpdir/seen"
like "$(of step.tracker value)" '^proctrack/(cgroup|linuxproc)$' "it names the tracker"
is "$(of kernel.version value)" "$(uname -r)" "and the kernel"
is "$(of runtime.directory value)" "$run" "and where steps are registered"
out=$(timeout 900 "$stepd" doctor)
is "$(printf '%s\n' "$out" | awk 'length($0) > 80 && NF > 2 + ($1 == "Remedy:")')" "" \
	"the text fits 80 columns but for a word that doesn't"
unlike "$out" "$(printf '\033')" "and has no colours where nobody can see them"
like "$out" "^A step started now is tracked by proctrack/" "it ends with what a step would have"
quiet=$(timeout 900 "$stepd" doctor --quiet)
unlike "$quiet" '^  (ok|-) ' "--quiet leaves out what is well"
is "$(printf '%s\n' "$quiet" | grep -c '^  warning ')" "$(printf '%s\n' "$out" | grep -c '^  warning ')" \
	"and shows all warnings"
if command -v script >/dev/null; then
	like "$(TERM=vt100 script -qec "$stepd doctor" /dev/null </dev/null)" "$(printf '\033\\[')" \
		"on a terminal it has colours"
	unlike "$(NO_COLOR=1 TERM=vt100 script -qec "$stepd doctor" /dev/null </dev/null)" \
		"$(printf '\033')" "but not with NO_COLOR"
	unlike "$(TERM=dumb script -qec "$stepd doctor" /dev/null </dev/null)" "$(printf '\033')" \
		"nor on a terminal that has none"
else
	skip 3 "script is not installed"
fi
for wrong in --no-such-option argument --plugin-dir; do
	timeout 900 "$stepd" doctor $wrong >"$tmpdir/out" 2>"$tmpdir/err"
	is $? 125 "wrong usage, $wrong, gives 125"
	like "$(cat "$tmpdir/err")" "$wrong" "and is named"
done
timeout 900 "$stepd" doctor --json >/dev/full 2>/dev/null
is $? 125 "what can't be written is a failure"

# ---- the ids, in the program and in the manual -------------------------------------------------
# Each stands behind a level, in a row of a table, or is handed on.
cat "$top_srcdir"/stepd/cli/doctor/*.c "$top_srcdir"/proctrack/*/checkup*.c \
	"$top_srcdir/proctrack/pgid/pgid.c" "$top_srcdir/proctrack/linuxproc/linuxproc.c" |
	tr -s '\n\t ' ' ' |
	grep -oE '(STEPD_FINDING_[A-Z]+,|\.id =) "[a-z]+\.[a-z0-9_.]+"' |
	sed 's/.* "\(.*\)"/\1/' | sort -u >"$tmpdir/told"
awk '/^\.S[sh] / { on = $0 == ".Sh THE CHECK-UP" } on && /^\.It Cm [a-z]*\./' "$top_srcdir/doc/stepd.8" |
	sed 's/^\.It Cm //; s/ , /\n/g' | sort >"$tmpdir/manual"
is "$(cat "$tmpdir/manual")" "$(cat "$tmpdir/told")" "the manual has each id of the program, and no other"
is "$(sort -u "$tmpdir/seen" | comm -23 - "$tmpdir/told")" "" "and it tells no other"

# ---- the document ------------------------------------------------------------------------------
python=
for candidate in python3 /usr/bin/python3; do
	if $candidate -c 'import jsonschema; jsonschema.Draft202012Validator' 2>/dev/null; then
		python=$candidate
		break
	fi
done
cat >"$tmpdir/check.py" <<'PYTHON'
import json, sys
from jsonschema import Draft202012Validator

schema = json.load(open(sys.argv[1]))
Draft202012Validator.check_schema(schema)
doc = json.load(sys.stdin)
Draft202012Validator(schema).validate(doc)
for level, count in doc["counts"].items():
    found = [f for f in doc["findings"] if f["level"] == level]
    assert len(found) == count, level
assert doc["step"]["can_run"] == (doc["counts"]["problem"] == 0)
PYTHON
fits() { # NAME: of $report
	if [ -n "$python" ]; then
		printf '%s\n' "$report" >"$tmpdir/report"
		ok "$1" "$python" "$tmpdir/check.py" "$top_srcdir/doc/stepd-doctor.schema.json" \
			<"$tmpdir/report"
	else
		skip 1 "python3-jsonschema is not installed"
	fi
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
is "$(of kernel.clone3 level)" warning "which is told"
[ -z "$cgroups" ] || is "$(of cgroup.birth level)" warning "births are tried, not guessed"
agrees "without clone3, tracked by group" --plugin-dir "$plugins" --proctrack pgid
is "$(of pgid.clone3 level)" problem "proctrack/pgid needs it"
fits "the document of a problem is as the schema has it, too"
lacking pidfd_open
agrees "without pidfd_open" --plugin-dir "$plugins"
is "$(of kernel.pidfd level)" warning "which is told"
lacking "clone3 pidfd_open"
agrees "without clone3 and pidfd_open" --plugin-dir "$plugins"
is "$(of kernel.pidfd level)" warning "both are missed, and not needed to start tasks"
lacking "close_range bpf"
agrees "without close_range and bpf" --plugin-dir "$plugins"
is "$(of kernel.close_range level)" note "the one is told"
[ -z "$cgroups" ] || is "$(of cgroup.limits.devices level)" warning "and what the other is for"
stepd=$plain

# ---- plugins -----------------------------------------------------------------------------------
agrees "without a plugin directory" --plugin-dir "$tmpdir/none"
is "$(of plugins.directory level)" problem "which is told"
mkdir "$tmpdir/plugins"
agrees "without plugins" --plugin-dir "$tmpdir/plugins"
cp -L "$plugins"/*_linuxproc.so "$plugins"/*_none.so "$tmpdir/plugins"
cp "${top_builddir:?}/tests/lib/plugins/proctrack_stubborn.so" "$tmpdir/plugins"
echo junk >"$tmpdir/plugins/proctrack_junk.so"
chmod go-w "$tmpdir"/plugins/*
agrees "with a plugin that is none" --plugin-dir "$tmpdir/plugins"
is "$status $(printf '%s\n' "$report" | grep -c 'proctrack_junk.so.* can.t be loaded')" "0 1" \
	"it is told, and steps do without"
is "$(of plugins.probe value)" proctrack/stubborn "one without a check-up is asked by its probe"
agrees "and asked for" --plugin-dir "$tmpdir/plugins" --proctrack junk
is "$status" 1 "it is a problem"
if [ -n "$root" ]; then
	chmod o+w "$tmpdir/plugins"
	agrees "with plugins that anybody can change" --plugin-dir "$tmpdir/plugins"
	like "$(of step.tracker text)" "can be written by others" "they are not trusted"
else
	skip 2 "not root: nothing is gained by changing plugins"
fi

# ---- the runtime directory ---------------------------------------------------------------------
agrees "with a runtime directory that can't be made" --runtime-dir "$tmpdir/none/at/all"
is "$(of runtime.directory level)" problem "which is told"
agrees "with a file for a runtime directory" --runtime-dir /dev/null
doctor --runtime-dir "$tmpdir/new"
is "$status $(of runtime.directory level)" "0 ok" "one that can be made is well"
ok "and is not made" test ! -e "$tmpdir/new"
mkdir -m 777 "$tmpdir/open"
agrees "with one that anybody can change" --runtime-dir "$tmpdir/open"
like "$(of runtime.directory text)" "can be written by others" "it is not trusted"
doctor --runtime-dir /dev/shm/stepd-test-none-$$
is "$(of runtime.directory level)" ok "one below /dev/shm is well"

"$stepd" run -q --job "$job" --proctrack "$tracker" -- sleep 99 &
agent=$!
eventually running 0
doctor
like "$(of runtime.steps text)" "1 step runs, and none without" "a step that runs is counted"
task=$("$stepctl" pids "$job.0")
kill -9 $agent
wait $agent 2>/dev/null
doctor
is "$(of runtime.steps level) $(of runtime.steps value)" "warning $job.0" "one whose agent died is named"
kill -9 "$task"
eventually sh -c "! kill -0 $task"
"$stepd" run -q --job "$job" --proctrack "$tracker" -- true
doctor
is "$(of runtime.steps level)" ok "and no more when it was started again"

# ---- limits and rights -------------------------------------------------------------------------
report=$(ulimit -n 100 && "$stepd" doctor --json)
is "$(of limits.nofile level) $(of limits.nofile value)" "warning 100" "few open files are warned of"
if [ -n "$root" ] && $nobody test -x "$stepd"; then
	stepd="$nobody env STEPD_RUNTIME_DIR=$tmpdir/nobody $plain"
	mkdir "$tmpdir/nobody"
	chown 65534 "$tmpdir/nobody"
	# shellcheck disable=SC2086 # words, here and below
	report=$(timeout 900 $stepd doctor --json)
	status=$?
	$stepd run -q --job "$job" -- true 2>/dev/null
	is "$status $?" "0 0" "as nobody: doctor and run agree"
	is "$(of user.rights level) $(of user.rights value)" "note 65534" "whose rights are told"
	if [ -n "$cgroups" ]; then
		report=$(timeout 900 $stepd doctor --json --proctrack cgroup)
		is "$? $(of cgroup.place level)" "1 problem" "if it is to be cgroup, nobody can start a step"
		like "$(of cgroup.place remedy)" "Delegate=yes" "and the remedy is told"
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
is "$(of cgroup.mount value)" "$mount" "the mount is found"
is "$(of cgroup.place value)" "$(step -- sed -n "s|^0::\(.*\)/job_$job/.*|$mount\1|p" /proc/self/cgroup)" \
	"and where a step hangs"

# What cgroup v1 holds can't be limited, and its mount is named.
if awk '$1 == "memory" && $2 > 0 { found = 1 } END { exit !found }' /proc/cgroups; then
	is "$(of cgroup.limits.memory level)" warning "a controller of cgroup v1 is no use"
	like "$(of cgroup.limits.memory text)" "'$(awk '$3 == "cgroup" && $4 ~ /(^|,)memory(,|$)/ { print $2; exit }' /proc/mounts)'" \
		"and where it is is told"
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
is "$status $(of cgroup.mount level)" "0 warning" "steps do without"
agrees "without cgroup2 and with cgroup asked for" --plugin-dir "$plugins" --proctrack cgroup
is "$status $(of cgroup.mount level)" "1 problem" "or not, if it is asked for"
stepd=$plain
agrees "with a root that is no cgroup" --cgroup-root "$tmpdir"

is "$(unshare -C "$stepd" doctor --json | grep -c '"cgroup.namespace"')" 1 "a cgroup namespace is told"
is "$("$stepd" doctor --json | grep -c '"cgroup.namespace"')" \
	"$([ "$(stat -Lc %i /proc/self/ns/cgroup)" = 4026531835 ] && echo 0 || echo 1)" "where there is one"

# Groups of the test's own, with one fault each.
group=$mount/stepd-test-doctor-$$
mkdir "$group"
at_exit "find '$group' -depth -type d -exec rmdir {} +"
agrees "below a group" --cgroup-root "$group"
is "$(of cgroup.place value)" "$group/stepd" "steps would hang there"
echo 3 >"$group/cgroup.max.descendants"
agrees "where three groups may be made" --cgroup-root "$group"
is "$(of cgroup.groups level) $(of cgroup.groups value)" "problem 3" "which is told"
echo 100 >"$group/cgroup.max.descendants"
agrees "where a hundred may be" --cgroup-root "$group"
is "$(of cgroup.groups level) $(of cgroup.groups value)" "warning 100" "which is told, too"
echo max >"$group/cgroup.max.descendants"
echo 3 >"$group/cgroup.max.depth"
agrees "where they may be three deep" --cgroup-root "$group"
is "$(of cgroup.groups level)" problem "which is told"
echo max >"$group/cgroup.max.depth"

echo 1 >"$group/cgroup.freeze"
doctor --cgroup-root "$group"
is "$status $(of cgroup.frozen level)" "1 problem" "a group that is frozen is told"
echo 0 >"$group/cgroup.freeze"

# In a group that was once killed no process is born into another.
mkdir "$group/killed"
echo 1 >"$group/killed/cgroup.kill"
# shellcheck disable=SC2016
report=$(sh -c 'echo $$ >"$1/killed/cgroup.procs" && exec "$2" doctor --json --cgroup-root "$1"' - \
	"$group" "$stepd")
is "$? $(of cgroup.birth level)" "0 warning" "a group that was once killed is found out"
rmdir "$group/killed"

# However it ends, nothing is left, at the latest after the next.
i=0
while [ $i -lt 30 ]; do
	i=$((i + 1))
	timeout -s KILL "0.00$((i % 10))" "$stepd" doctor --cgroup-root "$group" >/dev/null 2>&1
done
doctor --cgroup-root "$group"
is "$(find "$group" -mindepth 1 -name 'stepd-checkup-*')" "" "nothing is left of those that were killed"
nothing_left "nothing is left"
done_testing
