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
ok "it builds outside the tree" env PKG_CONFIG_PATH="$PKG_CONFIG_PATH" make -s -C "$tmpdir/noded" \
	CFLAGS="$cflags -I$(dirname "$(dirname "$(find "$stage" -name client.h)")")" \
	LDFLAGS="-L$LD_LIBRARY_PATH"
lines=$(grep -vcE '^[[:space:]]*$|^[[:space:]]*/?\*|^#' "$tmpdir/noded/noded.c")
ok "in 150 lines ($lines), not counting includes and comments" test "$lines" -le 150
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

noded=
at_exit '[ -z "$noded" ] || kill -9 "$noded" 2>/dev/null'
noded() { # LOG ARG...
	log=$1
	shift
	"$tmpdir/noded/noded" "$tmpdir/spool" "$@" >"$log" 2>"$log.err" &
	noded=$!
}
said() { # LOG STEP REGEX
	grep -Eq "^[^ ]*_$job\.$2 $3" "$1"
}
said_all() {
	said "$1" 0 "$2" && said "$1" 1 "$2" && said "$1" 2 "$2"
}

noded "$tmpdir/first" "$tmpdir/spec.0" "$tmpdir/spec.1" "$tmpdir/spec.2"
ok "it launches them and follows them" eventually said_all "$tmpdir/first" '[0-9]+ state running'
touch "$tmpdir/go.0.0"
ok "it hears of a task that ends" eventually said "$tmpdir/first" 0 '[0-9]+ task_exit - rank=0 exit=3'

# ---- away --------------------------------------------------------------------------------------
kill -9 "$noded"
wait "$noded" 2>/dev/null
ok "the agents live on without it" test "$(find "$run" -name socket | wc -l)" -eq 3
touch "$tmpdir/go.1.0" "$tmpdir/go.1.1"
result_1() {
	set -- "$run"/*_"$job.1"
	[ -f "$1/result.json" ] && [ ! -e "$1/state.json" ]
}
ok "one step ends while it is away" eventually result_1

# ---- back --------------------------------------------------------------------------------------
noded "$tmpdir/second"
ok "back again, it has the result of that one" eventually said "$tmpdir/second" 1 'result completed exit=3'
kill -9 "$(sed 's/.*"agent_pid":\([0-9]*\).*/\1/' "$run"/*_"$job.2"/state.json)"
ok "an agent that is killed is replaced, and its step followed on" eventually said "$tmpdir/second" 2 \
	'[0-9]+ adopt '
touch "$tmpdir/go.2.0" "$tmpdir/go.2.1"
ok "to its end" eventually said "$tmpdir/second" 2 'result '
touch "$tmpdir/go.0.1"
ok "and follows the other to its end" eventually said "$tmpdir/second" 0 'result completed exit=3'
wait "$noded"
is $? 0 "then it has nothing to do any more"
# What agents say goes to the same stderr.
is "$(cat "$tmpdir/first.err" "$tmpdir/second.err" | grep -v "^stepd ")" "" "it complained of nothing"

# ---- nothing missed ----------------------------------------------------------------------------
for number in 0 2; do
	sequence=$(cat "$tmpdir/first" "$tmpdir/second" | sed -n "s/^[^ ]*_$job\.$number \([0-9][0-9]*\) .*/\1/p")
	is "$sequence" "$(seq 1 "$(echo "$sequence" | wc -l)")" \
		"step $number: each event came once, in order, over both lives"
done
is "$(grep -c "_$job\.0 [0-9]* task_exit" "$tmpdir/second")" 1 "the other task's end in the second"
noded "$tmpdir/third"
wait "$noded"
is "$? $(cat "$tmpdir/third")" "0 " "what was dealt with once is not dealt with again"
done_testing
