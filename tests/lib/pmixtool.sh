# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# For tests of PMIx tools and the tasks' streams, on top of pmix.sh:
#	begin ARG...          starts "$stepd run --mpi pmix ARG..." with $tmpdir/task.sh for its tasks,
#	                      which begins with a server's directory in $tmpdir/where; $file is what a
#	                      tool finds it by, $agent the pid of stepd or steprun, output goes to $tmpdir/out and
#	                      $tmpdir/err
#	begin_nodes NODES ARG...  the same by steprun, a task on each of so many nodes
#	began                 the same for a step that somebody else has started
#	tool NAME ARG...      runs tests/lib/pmixtool.c on $file; its output goes to $tmpdir/NAME.log,
#	                      what it gets to $tmpdir/NAME, $tool is its pid
#	pulls NAME ARG...     the same with "pull"; returns once it pulls
#	prints NAME REGEX       waits until it has written that
#	has_written BYTES     whether the step's output has that size
#	go FIFO               lets go on who waits for FIFO: in task.sh, with $await FIFO
#	patiently COMMAND     as "eventually", for what takes long on a busy machine

# shellcheck source=tests/lib/pmix.sh
. "${top_srcdir:?}/tests/lib/pmix.sh"

pmixtool=$tmpdir/pmixtool
cp "${top_builddir:?}/tests/lib/pmixtool" "$pmixtool"
chmod 755 "$pmixtool"

# A reader that opens it before the previous writer has closed reads only an end, and waits again.
cat >"$tmpdir/await" <<'END'
#!/bin/sh
until read -r word <"$1"; do
	:
done
END
chmod 755 "$tmpdir/await"
# shellcheck disable=SC2034 # of the tests
await=$tmpdir/await

patiently() {
	comes "$@" || comes "$@" || comes "$@" || comes "$@" || eventually "$@"
}

fifos() {
	for fifo; do
		rm -f "$tmpdir/$fifo"
		mkfifo -m 666 "$tmpdir/$fifo"
	done
}

go() {
	# shellcheck disable=SC2016 # for that shell
	timeout 900 sh -c 'echo go >"$1"' sh "$tmpdir/$1"
}

task_sh() { # reads the script
	{
		echo '#!/bin/sh'
		# shellcheck disable=SC2016 # for the task
		echo '[ "$PMIX_RANK" != 0 ] || { echo "$PMIX_SERVER_TMPDIR" >"$tmpdir/where.new"; mv "$tmpdir/where.new" "$tmpdir/where"; }'
		cat
	} >"$tmpdir/task.sh"
	chmod 755 "$tmpdir/task.sh"
}

begin_nodes() { # NODES ARG...
	rm -f "$tmpdir/where"
	nodes=$1
	shift
	timeout 300 "${top_builddir:?}/stepd/cli/steprun" --launcher=local --job "$job" --mpi=pmix \
		-N "$nodes" -n "$nodes" "$@" "$tmpdir/task.sh" >"$tmpdir/out" 2>"$tmpdir/err" &
	agent=$!
	began
}

began() {
	patiently test -s "$tmpdir/where"
	# shellcheck disable=SC2034 # of the tests
	file=$(ls "$(cat "$tmpdir/where")"/pmix.*.tool.[0-9]*)
}

begin() {
	rm -f "$tmpdir/where"
	timeout 300 "$stepd" run --job "$job" --proctrack "$tracker" --mpi pmix "$@" -- \
		"$tmpdir/task.sh" >"$tmpdir/out" 2>"$tmpdir/err" &
	agent=$!
	began
}

tool() {
	name=$1
	shift
	rm -rf "${tmpdir:?}/$name"
	mkdir "$tmpdir/$name"
	: >"$tmpdir/$name.log" # before it begins: the log of an earlier one of this name is not its own
	# What is started with & has no stdin unless it is given one.
	exec 3<&0
	env -i timeout 300 "$pmixtool" "$file" "$@" <&3 3<&- >"$tmpdir/$name.log" 2>&1 &
	exec 3<&-
	# shellcheck disable=SC2034 # of the tests
	tool=$!
}

prints() {
	patiently grep -Eq "$2" "$tmpdir/$1.log"
}

has_written() {
	[ "$(wc -c <"$tmpdir/out")" -eq "$1" ]
}

pulls() {
	pulls_name=$1
	shift
	tool "$pulls_name" pull "$tmpdir/$pulls_name" "$@"
	prints "$pulls_name" '^pulling$'
}
