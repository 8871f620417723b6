#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A site's own plugin: built outside the tree against what "make install" leaves on a machine,
# listed, and used for a real step.
. "${top_srcdir:?}/tests/lib/tap.sh"

command -v pkg-config >/dev/null || skip_all "pkg-config is not installed"
tmpdir
stage=$tmpdir/stage

# MAKEFLAGS of the "make check" around us are not for these.
unset MAKEFLAGS MFLAGS MAKELEVEL
if ! make -s -C "${top_builddir:?}" install DESTDIR="$stage" >"$tmpdir/install.log" 2>&1; then
	not_ok "stepd installs below DESTDIR" "$(tail -n 20 "$tmpdir/install.log")"
	done_testing
fi
ok "stepd installs below DESTDIR"
pc=$(find "$stage" -name stepd.pc)
is "$(printf '%s\n' "$pc" | wc -l)" 1 "one stepd.pc is installed"
is "$(find "$stage" -name '*.la')" "" "no libtool file is installed"
program=$(find "$stage" -name stepd -type f -perm -u=x)
PKG_CONFIG_PATH=$(dirname "$pc")
PKG_CONFIG_SYSROOT_DIR=$stage
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR

# A copy without the source tree around it: nothing but the installed headers can be found.
cp -R "$top_srcdir/contrib/example-plugin" "$tmpdir/example"
chmod -R u+w "$tmpdir/example"
if ! make -C "$tmpdir/example" install CFLAGS="-O2 -Werror" DESTDIR="$stage" \
	>"$tmpdir/make.log" 2>&1; then
	not_ok "the example builds with pkg-config stepd alone" "$(cat "$tmpdir/make.log")"
	done_testing
fi
ok "the example builds with pkg-config stepd alone"
plugins=$stage$(pkg-config --variable=plugindir stepd | sed "s|^$stage||")
ok "the example installs beside stepd's own plugins" test -f "$plugins/proctrack_children.so" -a \
	-f "$plugins/mpi_none.so"

# Who is root loads only what root alone can change; a build directory may be another's.
status=0
list=$("$program" plugins --plugin-dir "$plugins" 2>&1) || status=$?
is "$status" 0 "stepd plugins succeeds"
like "$list" '^TYPE +NAME +VERSION +HERE' "the table of stepd plugins has a head"
like "$list" '^proctrack/children +Process tracking by .* +0\.1\.0 +yes +descent from the agent' \
	"the example is listed with name, version and what it offers"
for type in proctrack/linuxproc proctrack/pgid mpi/none; do
	like "$list" "^$type .* yes " "$type is listed as usable"
done

json=$("$program" plugins --json --plugin-dir "$plugins") || json=
if command -v python3 >/dev/null; then
	ok "--json is an array of objects with the documented keys" python3 -c '
import json, sys
rows = json.loads(sys.argv[1])
assert isinstance(rows, list) and len(rows) >= 4, rows
for row in rows:
    assert set(row) == {"type", "path", "name", "version", "usable", "text", "error"}, row
    assert row["error"] is None and isinstance(row["usable"], bool), row
types = [row["type"] for row in rows]
of = lambda kind: [t for t in types if t.startswith(kind)]
assert types == sorted(of("proctrack/")) + sorted(of("mpi/")) and "mpi/none" in types, types
' "$json"
else
	skip 1 "python3 is not installed"
fi

# ---- what the list does with bad files and bad options ------------------------------------------
echo 'not a plugin' >"$plugins/proctrack_broken.so"
status=0
list=$("$program" plugins --plugin-dir "$plugins" 2>&1) || status=$?
is "$status" 1 "a file that can't be loaded makes the status 1"
like "$list" '^proctrack/broken +- +- +broken +.*proctrack_broken\.so' \
	"a file that can't be loaded has a row with the reason"
like "$list" '^proctrack/children .* yes ' "the plugins beside a broken one are listed as before"
status=0
json=$("$program" plugins --json --plugin-dir "$plugins") || status=$?
is "$status" 1 "a file that can't be loaded makes the status 1 with --json"
is "$(printf '%s' "$json" | json_get - '"proctrack/children" in [row["type"] for row in d]')" true \
	"--json has the example"
like "$(printf '%s' "$json" | json_get - '[row["error"] for row in d if row["error"]]')" 'proctrack_broken\.so' \
	"--json has the reason why a file can't be loaded"
rm "$plugins/proctrack_broken.so"

for options in "--colour" "--plugin-dir" "more" "--plugin-dir $tmpdir/nowhere"; do
	status=0
	# shellcheck disable=SC2086 # two options
	out=$("$program" plugins $options 2>&1 >"$tmpdir/out") || status=$?
	is "$status" 125 "stepd plugins $options exits with 125"
	isnt "$out" "" "stepd plugins $options reports why it fails"
	is "$(cat "$tmpdir/out")" "" "stepd plugins $options prints no list"
done
status=0
"$program" plugins --plugin-dir "$plugins" >/dev/full 2>"$tmpdir/err" || status=$?
is "$status" 125 "a list that can't be written is a failure"

# ---- a step -------------------------------------------------------------------------------------
# Each task leaves a daemon of its own session behind, which is to be found and ended.
cat >"$tmpdir/task" <<'END'
#!/bin/sh
echo "rank $SLURM_PROCID of $SLURM_NTASKS"
setsid sleep 1000 </dev/null >/dev/null 2>&1 &
echo $! >"$1/daemon.$SLURM_PROCID"
END
chmod 755 "$tmpdir/task"
STEPD_RUNTIME_DIR=$tmpdir/run
export STEPD_RUNTIME_DIR
mkdir -m 0755 "$tmpdir/run"
status=0
out=$("$program" run -n 3 --proctrack children --plugin-dir "$plugins" --runtime-dir "$tmpdir/run" \
	-- "$tmpdir/task" "$tmpdir" 2>"$tmpdir/err") || status=$?
is "$status" 0 "a step tracked by the example succeeds"
is "$(printf '%s\n' "$out" | sort)" "rank 0 of 3
rank 1 of 3
rank 2 of 3" "all tasks of a step tracked by the example ran"
diag "$(cat "$tmpdir/err")"
left=
for rank in 0 1 2; do
	daemon=$(cat "$tmpdir/daemon.$rank") || daemon=
	[ -n "$daemon" ] || left="$left no-pid-of-rank-$rank"
	# A zombie has ended; who reaps it, the agent or init, is not the matter here.
	state=$(sed -n 's/^.*) \([A-Z]\) .*$/\1/p' "/proc/$daemon/stat" 2>/dev/null)
	case $state in
	'' | Z | X) ;;
	*) left="$left $daemon($state)" ;;
	esac
done
is "$left" "" "the example finds and ends the daemons that tasks leave behind"
for daemon in $left; do
	kill "${daemon%(*}" 2>/dev/null
done

done_testing
