#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Real steps in random order against a model: start, fork, daemons, other process groups, hostile
# names, first threads that end, signals to all, to ranks, to one and to trees, suspensions, added
# processes, exits, and after each the questions of the socket. tests/lib/model.py has how, and what
# each backend can't know.
#
#	MODEL_OPERATIONS  in all (3000, 30000 with --all)
#	MODEL_SEED        of the run that shall be repeated (a random one)
#	MODEL_BACKENDS    (all that can be used here)

# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"

command -v python3 >/dev/null || skip_all "python3 is not installed"
backends=${MODEL_BACKENDS:-$(backends)}
[ -n "$backends" ] || bail "no backend can be used here"
seed=${MODEL_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
# shellcheck disable=SC2086 # words
count=$(set -- $backends; echo $#)
each=$(((${MODEL_OPERATIONS:-$(rounds 3000 30000)} + count - 1) / count))

for backend in $backends; do
	# The listening socket's path has to be short.
	dir=$(mktemp -d /tmp/stepd-model.XXXXXX)
	at_exit "rm -rf '$dir'"
	out=$(python3 "$top_srcdir/tests/lib/model.py" --seed "$seed" --operations "$each" \
		--job $((100000 + $$ % 1000000)) --backend "$backend" \
		"$stepd" "$top_builddir/tests/lib/modelproc" "$dir" 2>&1)
	status=$?
	diag "$out"
	is "$status" 0 "$backend: the socket and the model agree (MODEL_SEED=$seed)"
done
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
