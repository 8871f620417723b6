#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The node daemon of contrib/example-noded, built outside the tree by pkg-config: it launches steps
# and follows them, is killed and started again, and misses nothing of them.
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

command -v pkg-config >/dev/null || skip_all "pkg-config is not installed"
stage=$tmpdir/stage
unset MAKEFLAGS MFLAGS MAKELEVEL # of the "make check" around us
if ! make -s -C "${top_builddir:?}" install DESTDIR="$stage" >"$tmpdir/install.log" 2>&1; then
	not_ok "stepd installs below DESTDIR" "$(tail -n 20 "$tmpdir/install.log")"
	done_testing
fi
PKG_CONFIG_PATH=$(dirname "$(find "$stage" -name libstepd.pc)"):${PKG_CONFIG_PATH-}
LD_LIBRARY_PATH=$(dirname "$(find "$stage" -name libstepd.so.0)")
cflags="-O2 -g -Werror"
case $(nm -D "$LD_LIBRARY_PATH/libstepd.so.0" 2>/dev/null) in
*__asan_*) cflags="$cflags -fsanitize=address,undefined" ;;
esac
cp -R "$top_srcdir/contrib/example-noded" "$tmpdir/noded"
chmod -R u+w "$tmpdir/noded"
# Jansson's own .pc is not below DESTDIR: the paths of ours are given instead.
ok "the example daemon builds outside the tree" env PKG_CONFIG_PATH="$PKG_CONFIG_PATH" make -s -C "$tmpdir/noded" \
	CFLAGS="$cflags -I$(dirname "$(dirname "$(find "$stage" -name client.h)")")" \
	LDFLAGS="-L$LD_LIBRARY_PATH"
lines=$(grep -vcE '^[[:space:]]*$|^[[:space:]]*/?\*|^#' "$tmpdir/noded/noded.c")
ok "the example daemon has at most 150 lines ($lines) but for includes and comments" test "$lines" -le 150
export LD_LIBRARY_PATH

# ---- three steps ---------------------------------------------------------------------------------
# Rank R of step S waits for the file go.S.R, and ends with status 3 then; without the test it ends
# as well.
cat >"$tmpdir/task" <<'END'
#!/bin/sh
until [ -e "$1/go.$SLURM_STEP_ID.$SLURM_PROCID" ] || [ ! -d "$1" ]; do
	sleep 0.05
done
exit 3
END
chmod 755 "$tmpdir/task"
for number in 0 1 2; do
	cat >"$tmpdir/spec.$number" <<END
{"version": 1, "job": $job, "step": $number, "ntasks": 2, "argv": ["$tmpdir/task", "$tmpdir"],
 "proctrack": "$tracker",
 "env": {"PATH": "/usr/bin:/bin", "STEPD_TEST_JOB": "$job"}}
END
done
mkdir "$tmpdir/spool" "$tmpdir/bin"
ln -s "$(cd "${stepd%/*}" && pwd)/stepd" "$tmpdir/bin/stepd"
PATH=$tmpdir/bin:$PATH

noded() { # LOG ARG...
	log=$1
	shift
	"$tmpdir/noded/noded" "$tmpdir/spool" "$@" >"$log" 2>"$log.err" &
	noded=$!
}
logged() { # LOG STEP REGEX
	grep -Eq "^[^ ]*_$job\.$2 $3" "$1"
}
logged_all() {
	logged "$1" 0 "$2" && logged "$1" 1 "$2" && logged "$1" 2 "$2"
}

noded "$tmpdir/first" "$tmpdir/spec.0" "$tmpdir/spec.1" "$tmpdir/spec.2"
ok "the daemon launches three steps and follows them" eventually logged_all "$tmpdir/first" '[0-9]+ state running'
touch "$tmpdir/go.0.0"
ok "the daemon gets the event of a task's end" eventually logged "$tmpdir/first" 0 '[0-9]+ task_exit - rank=0 exit=3'

# ---- away --------------------------------------------------------------------------------------
kill -9 "$noded"
wait "$noded" 2>/dev/null
ok "the agents live on without the daemon" test "$(find "$run" -name socket | wc -l)" -eq 3
touch "$tmpdir/go.1.0" "$tmpdir/go.1.1"
result_1() {
	set -- "$run"/*_"$job.1"
	[ -f "$1/result.json" ] && [ ! -e "$1/state.json" ]
}
ok "one step ends while the daemon is dead" eventually result_1

# ---- back --------------------------------------------------------------------------------------
noded "$tmpdir/second"
ok "the restarted daemon gets the result of the step that ended" eventually logged "$tmpdir/second" 1 'result completed exit=3'
kill -9 "$(state_of 2 agent_pid)"
ok "the daemon replaces a killed agent, and follows its step" eventually logged "$tmpdir/second" 2 \
	'[0-9]+ adopt '
touch "$tmpdir/go.2.0" "$tmpdir/go.2.1"
ok "the daemon follows the step of a killed agent to its end" eventually logged "$tmpdir/second" 2 'result '
touch "$tmpdir/go.0.1"
ok "the daemon follows the other step to its end" eventually logged "$tmpdir/second" 0 'result completed exit=3'
wait "$noded"
is $? 0 "the daemon exits once all steps have ended"
# The messages of agents go to the same stderr.
is "$(cat "$tmpdir/first.err" "$tmpdir/second.err" | grep -v "^stepd ")" "" "the daemon reports no failure"

# ---- nothing missed ----------------------------------------------------------------------------
for number in 0 2; do
	sequence=$(cat "$tmpdir/first" "$tmpdir/second" | sed -n "s/^[^ ]*_$job\.$number \([0-9][0-9]*\) .*/\1/p")
	is "$sequence" "$(seq 1 "$(echo "$sequence" | wc -l)")" \
		"step $number: the daemon gets each event once, in order, over both lives"
done
is "$(grep -c "_$job\.0 [0-9]* task_exit" "$tmpdir/second")" 1 \
	"the restarted daemon gets the event of the other task's end"
noded "$tmpdir/third"
wait "$noded"
is "$? $(cat "$tmpdir/third")" "0 " "the daemon does not handle ended steps again"
done_testing
