# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# For tests of tasks that join a running step, on top of step.sh (or reexec.sh): with the plugin
# mpi/spawner (spawner_plugin.c).
#	spawning ARG...      "stepd run" with it, in $job
#	$requests                of a task's sh: request JSON, whose answer is in $answer
#	                     one 1 7 2 '["true"]' requests a spawn of one command: number, first rank,
#	                     count, argv

plugins=${tmpdir:?}/plugins
mkdir "$plugins"
for built in "${top_builddir:?}"/stepd/cli/plugins/*.so; do
	ln -s "$(readlink -f "$built")" "$plugins"
done
ln -s "$(readlink -f "$top_builddir/tests/lib/plugins/mpi_spawner.so")" "$plugins"

# shellcheck disable=SC2016,SC2034 # of the task's shell; the tests use it
requests='request() { echo "$1" >&9 && read -r answer <&9; }
one() {
	request "{\"do\":\"spawn\",\"number\":$1,\"first_rank\":$2,\"size\":$3,\"groups\":[{\"argv\":$4,\"count\":$3,\"appnum\":0,\"rank\":0}]}"
}
'

spawning() {
	timeout 300 "${stepd:?}" run --job "${job:?}" --plugin-dir "$plugins" --mpi spawner "$@"
}
