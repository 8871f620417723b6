# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Steps with a service process that executes requests of its tasks (tests/lib/attendant_plugin.c), on
# top of reexec.sh:
#	$requests   for a script of a task (of bash: dash knows no descriptor above 9): "request TEXT"
#	            sends a line to the service, "answer" prints its answer
#	attended ARG...   "step" with that plugin
#	hostile MOOD ARG...   the same with tests/lib/hostile_plugin.c
# shellcheck source=tests/lib/reexec.sh
. "${top_srcdir:?}/tests/lib/reexec.sh"

mkdir "$tmpdir/plugins"
for so in "$top_builddir"/stepd/cli/plugins/*.so "$top_builddir"/tests/lib/plugins/mpi_attendant.so \
	"$top_builddir"/tests/lib/plugins/mpi_hostile.so; do
	cp "$so" "$tmpdir/plugins/" || bail "no plugin (make check builds it)"
done
STEPD_PLUGIN_DIR=$tmpdir/plugins
export STEPD_PLUGIN_DIR

# shellcheck disable=SC2016,SC2034 # for the task's shell; of those who read this
requests='request() { printf "%s\n" "$*" >&$ATTEND_FD; }; answer() { head -n1 <&$ATTEND_FD; };'

attended() {
	step --mpi attendant "$@"
}

hostile() {
	mood=$1
	shift
	STEP_HOSTILE=$mood step --mpi hostile "$@"
}

standing() { # NAME: of the service process, as it has handed it out to the tasks in $tmpdir/out
	eventually grep -q "$1=" "$tmpdir/out" # the step runs, its task may not have written it yet
	grep -o "$1=[^ ]*" "$tmpdir/out" | head -n 1 | cut -d= -f2
}
