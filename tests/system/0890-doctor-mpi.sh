#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# stepd doctor --mpi tries each MPI plugin by a step: those of the tree, and one that fails in each
# way there is (tests/lib/ailing_plugin.c). However a trial ends, nothing of it is left.
. "${top_srcdir:?}/tests/lib/doctor.sh"

nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
plugins=${top_builddir:?}/stepd/cli/plugins
plain=$stepd
mkdir "$tmpdir/tmp"
TMPDIR=$tmpdir/tmp
export TMPDIR

# Where cgroups are to be had, trials hang below one of the test's own.
group=
root_option=
mount=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
if [ "$tracker" = cgroup ] && [ "$(id -u)" -eq 0 ]; then
	group=$mount/stepd-test-doctor-mpi-$$
	mkdir "$group"
	at_exit "find '$group' -depth -type d -exec rmdir {} +"
	root_option="--cgroup-root $group"
fi

trial() { # [OPTION...]
	# shellcheck disable=SC2086 # words
	doctor --mpi $root_option "$@"
}

# What trials leave: processes with the test's mark, directories, groups.
left_of_trials() {
	left_processes
	find "$run" "$tmpdir" -name 'doctor-??????'
	find "$TMPDIR" -mindepth 1
	[ -z "$group" ] || find "$group" -mindepth 1 -type d ! -path "$group/stepd"
}
clean_after() { # NAME
	is "$(left_of_trials)" "" "doctor leaves nothing behind $1"
}

# ---- the plugins of the tree -------------------------------------------------------------------
doctor
unlike "$(all_ids)" '^mpi\.' "doctor without --mpi runs no step"
trial
is "$status" 0 "doctor --mpi finds no problem on this machine"
is "$(of mpi.none.env level)" ok "mpi/none gives tasks their ranks"
for kind in pmi1 pmi2; do
	is "$(of mpi.pmi2.$kind level)" ok "mpi/pmi2 serves $kind"
	like "$(of mpi.pmi2.$kind value)" '^[0-9]+\.[0-9]$' "doctor --mpi reports how many ms $kind took"
done
is "$(of mpi.pmi2.pmi2 plugin)" mpi/pmi2 "a finding of doctor --mpi names its plugin"
if [ -e "$plugins/mpi_pmix.so" ]; then
	is "$(of mpi.pmix.pmix level)" ok "mpi/pmix serves PMIx"
	like "$(of mpi.pmix.pmix value)" '^[0-9.]+ client=[0-9][^ ]* server=[0-9][^ ]*$' \
		"doctor --mpi reports the versions of libpmix on both sides"
else
	unlike "$(all_ids)" '^mpi\.pmix' "doctor --mpi does not report mpi/pmix, which is not built"
	skip 1 "no mpi/pmix"
fi
clean_after "after trials that succeed"
all_ids | grep '^mpi\.' | sort -u >"$tmpdir/seen"
while read -r id; do
	like "$(cat "$top_srcdir/doc/stepd.8")" "^\.It (Cm|Li) (.* , )?(mpi\.NAME\.${id##*.}|$id)( |\$)" \
		"the manual has $id"
done <"$tmpdir/seen"
like "$(TERM=dumb "$stepd" doctor --mpi)" 'exchange values by PMI-2 in' "doctor's text has the trials of --mpi"
bash=$(command -v bash)
if [ -n "$bash" ]; then
	is "$(PATH=$top_builddir/stepd/cli:$PATH bash -c '
		source "$1"; COMP_WORDS=("$2" doctor --mp); COMP_CWORD=2; compopt() { :; }
		_stepd; echo "${COMPREPLY[@]}"' - "$top_srcdir/contrib/completion/stepd" "$stepd")" \
		"--mpi" "the option --mpi is completed"
else
	skip 1 "needs bash"
fi

# What an engine has left for the doctor itself is not for the step.
PMI_FD=77 PMI_RANK=1 PMI_SIZE=9 PMIX_NAMESPACE=other PMIX_RANK=4 SLURM_PROCID=3 trial
is "$(of mpi.none.env level) $(of mpi.pmi2.pmi1 level)" "ok ok" \
	"an engine's variables do not disturb doctor --mpi"

# ---- the document ------------------------------------------------------------------------------
fits() { # NAME: of $report
	printf '%s\n' "$report" >"$tmpdir/report"
	fits_schema "$1" stepd-doctor.schema.json "$tmpdir/report"
}
fits "the document of doctor --mpi is as the schema has it"

# ---- a plugin that is not well -----------------------------------------------------------------
mkdir "$tmpdir/plugins"
for so in "$plugins"/proctrack_*.so "$plugins/mpi_none.so" "$top_builddir/tests/lib/plugins/mpi_ailing.so"; do
	cp -L "$so" "$tmpdir/plugins/" || bail "no plugin (make check builds it)"
done
ailing() { # MOOD [OPTION...]
	mood=$1
	shift
	STEP_AILING=$mood
	export STEP_AILING
	trial --plugin-dir "$tmpdir/plugins" "$@"
	unset STEP_AILING
}
ailing well
is "$status $(of mpi.ailing.pmi1 level)" "0 ok" "doctor --mpi finds which protocol a site's own plugin serves"
is "$(of mpi.ailing.pmi2 level)$(of mpi.ailing.pmix level)$(of mpi.ailing.env level)" "" \
	"doctor --mpi reports no protocol that a plugin does not serve"
fits "the document of a site's own plugin is as the schema has it"
ailing idle
is "$(of mpi.ailing.env level) $(of mpi.selftest level)" "ok note" "a plugin that serves no protocol is a note"
ailing refuse
is "$status $(of mpi.ailing.env level)" "0 warning" "a plugin that can't start is a warning"
like "$(of mpi.ailing.env text)" "prefork.* failed: Host is down" \
	"a plugin that can't start is reported with the step's own message"
is "$(of mpi.ailing.env value)" start "a plugin that can't start has the stage as value"
isnt "$(of mpi.ailing.env remedy)" "" "a plugin that can't start has a remedy"
ailing rainy
like "$(of mpi.ailing.env text)" "it rains; wait for sun" \
	"a plugin whose service can't start is reported with its own message"
ailing die
is "$(of mpi.ailing.pmi1 level) $(of mpi.ailing.pmi1 value)" "warning fence" \
	"a plugin whose service dies in the fence has the stage as value"
like "$(of mpi.ailing.pmi1 text)" "hung up; the step reports: .*exited with status 7" \
	"a plugin whose service dies in the fence is reported with the reason"
fits "the document of a failure is as the schema has it"
ailing linger
like "$(of mpi.ailing.pmi1 text)" "hung up; the step reports: .*exited with status 7" \
	"a plugin whose service has not quite ended when its tasks have is reported with the reason"
ailing forget
is "$(of mpi.ailing.pmi1 value)" get "a plugin that forgets values fails at get"
ailing liar
like "$(of mpi.ailing.pmi1 text)" "takes it for rank 0 of 2, and it is rank 1" \
	"a plugin that takes all for rank 0 is reported as such"
clean_after "after a plugin that fails"

# Those that hang, at the same time.
hang() { # MOOD
	# shellcheck disable=SC2086 # words, here and below
	STEP_AILING=$1 timeout 300 "$stepd" doctor --json --mpi $root_option --plugin-dir "$tmpdir/plugins" \
		>"$tmpdir/hang.$1" 2>&1 &
}
for mood in stuck unready hook mute; do
	hang $mood
done
wait
for mood in stuck unready hook; do
	report=$(cat "$tmpdir/hang.$mood")
	like "$(of mpi.ailing.env level) $(of mpi.ailing.env text)" \
		"warning a step hangs before its tasks begin, and was ended after 10 s" "$mood: a step that hangs is ended and reported"
done
report=$(cat "$tmpdir/hang.mute")
is "$(of mpi.ailing.pmi1 value)" fence "a plugin that never answers has the stage as value"
like "$(of mpi.ailing.pmi1 text)" "does not answer in time" "a plugin that never answers is reported as such"
clean_after "after a plugin that hangs"

# A doctor that is killed.
for signal in KILL TERM INT; do
	# shellcheck disable=SC2086
	STEP_AILING=mute "$stepd" doctor --mpi $root_option --plugin-dir "$tmpdir/plugins" >/dev/null 2>&1 &
	pid=$!
	eventually sh -c "pgrep -f '^$(dirname "$stepd")/selftest/mpi-selftest pmi1' >/dev/null"
	[ $signal != INT ] || signal=HUP # of those in the background a shell has INT ignored
	kill -$signal $pid
	wait $pid 2>/dev/null
	eventually sh -c "! ls '$run'/doctor-?????? 2>/dev/null"
	clean_after "after it got SIG$signal"
done
i=0
while [ $i -lt 12 ]; do
	i=$((i + 1))
	# shellcheck disable=SC2086
	timeout -s KILL "0.0$((i % 6))" "$stepd" doctor --mpi $root_option --plugin-dir "$tmpdir/plugins" >/dev/null 2>&1
done
# One that was killed between two steps of its own may leave an empty directory; the next one
# removes it, when it is old enough to be nobody's.
eventually sh -c "! ls '$run'/doctor-??????/* 2>/dev/null"
find "$run" -maxdepth 1 -name 'doctor-??????' -exec touch -d '5 minutes ago' {} +
mkdir "$run/doctor-AbCdEf"
touch -d '5 minutes ago' "$run/doctor-AbCdEf"
ailing idle
clean_after "at the latest after the next run"

# ---- tasks that report other things --------------------------------------------------------------
mkdir -p "$tmpdir/bin/selftest"
cp "$plain" "$tmpdir/bin/stepd"
stepd=$tmpdir/bin/stepd
ailing idle
is "$(of mpi.selftest level) $(of mpi.none.env level)" "warning " \
	"doctor --mpi warns without the self-test's program"
like "$(of mpi.selftest remedy)" "install" "doctor --mpi has a remedy for a missing self-test"
cp "$(dirname "$plain")/selftest/mpi-selftest" "$tmpdir/bin/selftest/"
tasks_are() { # SCRIPT: in place of the PMIx client
	# shellcheck disable=SC2016 # for the task's shell, here and below
	printf '#!/bin/sh\nr=$SLURM_PROCID\n%s\n' "$1" >"$tmpdir/bin/selftest/mpi-selftest-pmix"
	chmod +x "$tmpdir/bin/selftest/mpi-selftest-pmix"
	ailing idle
}
# shellcheck disable=SC2016
tasks_are 'echo "$r at init"; echo "$r done 1500 client=5.0.1 server=4.2.2"'
is "$(of mpi.ailing.pmix level) $(of mpi.ailing.pmix value)" "note 1.5 client=5.0.1 server=4.2.2" \
	"a client of another major version that works is a note"
# shellcheck disable=SC2016
tasks_are 'echo "$r at init"; echo "$r failed init UNREACHABLE (client=5.0.1 server=4.2.2)"; exit 1'
like "$(of mpi.ailing.pmix remedy)" "libpmix of major version 4, .*not 5" \
	"a client of another major version that fails has a remedy"
# shellcheck disable=SC2016
tasks_are '[ $r = 1 ] && { echo "1 at fence"; exec sleep 60; }; echo "0 at fence"; echo "0 done 10"'
like "$(of mpi.ailing.pmix text)" "^rank 1 of two hangs at 'fence' of PMIx, and the step was ended after 10 s" \
	"a client that hangs is ended at the deadline and reported with the stage"
# shellcheck disable=SC2016
tasks_are 'echo "$r at get"; kill -SEGV $$'
like "$(of mpi.ailing.pmix text)" "ended in the middle of 'get'" \
	"a client that crashes is reported with the stage"
# shellcheck disable=SC2016
tasks_are 'yes "9 at fence" | head -c 300000; printf "\n\n \n0\n7 done\nrubbish\n$r at \033[31m\n$r failed\n"; exit 1'
is "$(of mpi.ailing.pmix level)" warning "a client that prints rubbish is a warning"
fits "the document of rubbish is as the schema has it"
tasks_are 'exit 0'
is "$(of mpi.ailing.pmix level)" warning "a client that prints nothing is a warning"
clean_after "after odd clients"
stepd=$plain

# ---- no plugins, no tracker, another user ------------------------------------------------------
mkdir "$tmpdir/few"
cp -L "$plugins"/proctrack_linuxproc.so "$tmpdir/few"
trial --plugin-dir "$tmpdir/few"
is "$status $(of mpi.selftest level)" "1 warning" "doctor --mpi warns where there is no MPI plugin"
trial --proctrack none-such
is "$status $(of mpi.pmi2.pmi1 level)" "1 warning" "doctor --mpi warns where there is no tracker"
like "$(of mpi.pmi2.pmi1 text)" "none-such" "a missing tracker is reported with the step's own message"
like "$(of mpi.none.env level)" problem "a missing tracker is a problem for mpi/none"
trial --runtime-dir "$tmpdir/none/at/all"
like "$(of mpi.selftest text)" "mpi/.* can't be tried: .*No such file" \
	"doctor --mpi reports a missing runtime directory"
trial --runtime-dir "$tmpdir/new"
is "$(of mpi.none.env level)" ok "doctor --mpi runs trials where the runtime directory does not exist yet"
ok "doctor --mpi does not make the runtime directory" test ! -e "$tmpdir/new"
clean_after "where the runtime directory does not exist yet"
if [ "$(id -u)" -eq 0 ] && $nobody test -x "$stepd"; then
	mkdir "$tmpdir/nobody"
	chown 65534 "$tmpdir/nobody"
	# shellcheck disable=SC2086 # words
	report=$(STEPD_RUNTIME_DIR=$tmpdir/nobody timeout 300 $nobody env -u TMPDIR "$stepd" doctor --json --mpi)
	is "$? $(of mpi.none.env level) $(of mpi.pmi2.pmi1 level) $(of mpi.pmi2.pmi2 level)" "0 ok ok ok" \
		"doctor --mpi of another user finds no problem"
	[ ! -e "$plugins/mpi_pmix.so" ] || is "$(of mpi.pmix.pmix level)" ok "doctor --mpi of another user finds no problem with PMIx"
	is "$(find "$tmpdir/nobody" -mindepth 1)" "" "doctor --mpi of another user leaves nothing behind"
else
	skip 2 "needs root, and a build that nobody may run"
fi
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
