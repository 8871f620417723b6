#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A file that describes the machine is read as the step's user, and without the variables of the
# agent's caller, which may name plugins and files for hwloc.
# shellcheck disable=SC2016 # single quotes are for awk
. "${top_srcdir:?}/tests/lib/step.sh"

step --cpu-bind=cores -- true >/dev/null 2>&1 || skip_all "needs hwloc"
machine=$top_srcdir/tests/data/topology/cores16.xml
cpus() {
	step --cpu-bind=cores -- awk '/^Cpus_allowed_list/ { print $2 }' /proc/self/status 2>&1
}

plain=$(cpus)
cat >"$tmpdir/none.xml" <<'X'
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0"></topology>
X
# A user's plugin, as all of hwloc's are named.
mkdir -m 777 "$tmpdir/plugins"
cp "${top_builddir:?}/tests/lib/loaded.so" "$tmpdir/plugins/hwloc_attack.so" || bail "make check builds it"
is "$(HWLOC_XMLFILE=$tmpdir/none.xml HWLOC_THISSYSTEM=1 cpus)" "$plain" "the caller's HWLOC_XMLFILE is not read"
# No machine has such cores, with all of its CPUs in the first of them.
is "$(HWLOC_COMPONENTS=synthetic,stop HWLOC_SYNTHETIC="core:1 pu:64" cpus)" "$plain" \
	"the caller's HWLOC_SYNTHETIC is not used"
is "$(HWLOC_PLUGINS_PATH=$tmpdir/plugins cpus)" "$plain" "the caller's HWLOC_PLUGINS_PATH changes nothing"
fails "no plugin of the caller's HWLOC_PLUGINS_PATH is loaded" grep . "$tmpdir/plugins/loaded"
if [ "$(id -u)" = 0 ]; then
	HWLOC_PLUGINS_PATH=$tmpdir/plugins step --uid 65533 --gid 65530 --chdir / --cpu-bind=cores -- true
	fails "no plugin of HWLOC_PLUGINS_PATH is loaded for a step of another user" grep . "$tmpdir/plugins/loaded"
else
	skip 1 "needs root, to be others"
fi

if [ "$(id -u)" = 0 ]; then
	user=65533 group=65530
	mkdir "$tmpdir/private"
	chmod 700 "$tmpdir/private"
	cp "$machine" "$tmpdir/private/machine.xml"
	cp "$machine" "$tmpdir/mine.xml"
	chmod 600 "$tmpdir/mine.xml"
	cp "$machine" "$tmpdir/theirs.xml"
	chmod 644 "$tmpdir/theirs.xml"
	theirs() {
		step --uid $user --gid $group --chdir / --cpu-bind=cores --topology "$1" -- true 2>&1 | sed "s|$1|FILE|"
	}
	is "$(theirs "$tmpdir/theirs.xml")" "" "a topology file that the user may read is read"
	like "$(theirs "$tmpdir/mine.xml")" "topology: .*'FILE': Permission denied" \
		"a topology file of root's is refused"
	like "$(theirs "$tmpdir/private/machine.xml")" "topology: .*'FILE': Permission denied" \
		"a topology file below a directory of root's is refused"
	is "$(theirs "$tmpdir/private/none.xml")" "$(theirs "$tmpdir/private/machine.xml")" \
		"a file below a directory of root's looks like one that is missing"
	like "$(theirs /proc/version)" "topology: .*'FILE': it is a file of /proc" \
		"a topology file of /proc is refused"
else
	skip 5 "needs root, to be others"
fi
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
