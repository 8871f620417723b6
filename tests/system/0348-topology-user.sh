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
mkdir "$tmpdir/plugins"
mkfifo "$tmpdir/plugins/hwloc_fifo.so"
is "$(HWLOC_XMLFILE=$tmpdir/none.xml HWLOC_THISSYSTEM=1 cpus)" "$plain" "the caller's HWLOC_XMLFILE is not read"
is "$(HWLOC_COMPONENTS=synthetic,stop HWLOC_SYNTHETIC="pu:1" cpus)" "$plain" "nor is another machine made up"
is "$(HWLOC_PLUGINS_PATH=$tmpdir/plugins HWLOC_DEBUG_CHECK=1 timeout 60 "$stepd" run -q --job "$job" --proctrack "$tracker" \
	--cpu-bind=cores -- awk '/^Cpus_allowed_list/ { print $2 }' /proc/self/status 2>&1)" "$plain" \
	"nor are the caller's plugins opened"

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
	is "$(theirs "$tmpdir/theirs.xml")" "" "a file that the user may read is read"
	like "$(theirs "$tmpdir/mine.xml")" "topology: .*'FILE': Permission denied" "one that is root's is not"
	like "$(theirs "$tmpdir/private/machine.xml")" "topology: .*'FILE': Permission denied" "nor below a directory of root's"
	is "$(theirs "$tmpdir/private/none.xml")" "$(theirs "$tmpdir/private/machine.xml")" \
		"where what is there looks as what is not"
	like "$(theirs /proc/version)" "topology: .*'FILE': it is a file of /proc" "a file of /proc is refused"
else
	skip 5 "needs root, to be others"
fi
nothing_left "nothing is left"
done_testing
