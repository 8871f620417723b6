#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Programs of an MPI library under a plugin that it does not speak, or under none, run as jobs of one
# rank each: a warning reports it, and which plugin serves them. Others run without a message.
# shellcheck source=tests/lib/step.sh
. "${top_srcdir:?}/tests/lib/step.sh"
# shellcheck source=tests/lib/mpi.sh
. "${top_srcdir:?}/tests/lib/mpi.sh"
steprun=${top_builddir:?}/stepd/cli/steprun
unset TMPDIR
# Without a launcher Open MPI's ranks take root for a mistake.
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
build_mpi "$top_srcdir/tests/lib/mpiprogram.c" "$tmpdir/mpich"
[ -x "$top_builddir/tests/lib/pmixclient" ] || skip_all "built without mpi/pmix: configure found no libpmix"

warnings() { # OPTION... -- PROGRAM...: what is warned of
	step "$@" 2>&1 | sed -n 's/^stepd [0-9]*\.0: warning: //p'
}

without='and the step has no MPI plugin: each task runs as a job of one rank'
silent='each ran as a job of one rank'

is "$(warnings -n 2 --mpi=none -- "$tmpdir/mpich" hello)" \
	"the program is linked with libmpich.so, $without (--mpi=pmi2 serves it)" "MPICH without a plugin is warned of"
is "$(cd "$tmpdir" && PATH=$tmpdir:$PATH warnings -n 2 -- mpich hello)" \
	"the program is linked with libmpich.so, $without (--mpi=pmi2 serves it)" "MPICH found in PATH without a plugin is warned of"
is "$(warnings -n 2 --mpi=pmix -- "$tmpdir/mpich" hello)" \
	"mpi/pmix: the program is linked with libmpich.so, and no task has contacted mpi/pmix: $silent (--mpi=pmi2 serves it)" \
	"MPICH under mpi/pmix is warned of"
is "$(warnings -n 2 --mpi=pmi2 -- "$tmpdir/mpich" hello)" "" "MPICH under mpi/pmi2 gives no warning"
is "$(warnings -n 1 -- "$tmpdir/mpich" hello)" "" "MPICH in a step of one task gives no warning"
is "$(warnings -n 2 --mpi=pmix -- hostname)" "" "a program without MPI gives no warning"
is "$(warnings -n 2 --mpi=pmi2 -- "$top_builddir/tests/lib/pmixclient" nokey)" \
	"mpi/pmi2: the program is linked with libpmix.so, and no task has contacted mpi/pmi2: $silent (--mpi=pmix serves it)" \
	"a client of PMIx without MPI under mpi/pmi2 is warned of"

if command -v mpicc.openmpi >/dev/null; then
	build_ompi "$top_srcdir/tests/lib/mpiprogram.c" "$tmpdir/ompi"
	is "$(warnings -n 2 --mpi=pmi2 -- "$tmpdir/ompi" hello)" \
		"mpi/pmi2: the program is linked with libmpi.so, and no task has contacted mpi/pmi2: $silent (--mpi=pmix serves it)" \
		"Open MPI under mpi/pmi2 is warned of"
	is "$(warnings -n 2 -- "$tmpdir/ompi" hello)" \
		"the program is linked with libmpi.so, $without (--mpi=pmix serves it)" "Open MPI without a plugin is warned of"
	is "$(warnings -n 2 --mpi=pmix -- "$tmpdir/ompi" hello)" "" "Open MPI under mpi/pmix gives no warning"
else
	skip 3 "needs Open MPI"
fi

out=$(timeout 900 "$steprun" --launcher=local --job "$job" --proctrack "$tracker" -N 3 -n 3 --mpi=pmix \
	"$tmpdir/mpich" hello 2>&1)
is "$(printf '%s\n' "$out" | grep -c 'warning: .*no task has contacted')" 1 "only one of several nodes warns"

# ---- programs that can't be looked at, or that lie -----------------------------------------------
if [ "$(id -u)" = 0 ]; then
	cp "$tmpdir/mpich" "$tmpdir/unreadable"
	chmod 711 "$tmpdir/unreadable"
	is "$(warnings -n 2 --uid 65534 --gid 65534 --groups= -- "$tmpdir/unreadable" hello)" "" \
		"a program that its user may not read gives no warning"
else
	skip 1 "needs root"
fi
mkfifo "$tmpdir/fifo"
chmod 755 "$tmpdir/fifo"
out=$(step -n 2 -- "$tmpdir/fifo" 2>&1)
is $? 126 "a pipe in the program's place gives 126"
head -c 100 "$tmpdir/mpich" >"$tmpdir/short"
chmod 755 "$tmpdir/short"
out=$(step -n 2 -- "$tmpdir/short" 2>&1)
is $? 126 "a truncated program gives 126"

nothing_left_soon "the job leaves no cgroup, process or file behind"
done_testing
