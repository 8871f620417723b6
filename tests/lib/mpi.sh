# shellcheck shell=sh disable=SC2154
# SPDX-License-Identifier: BSD-3-Clause
#
# Programs of real MPI libraries, on top of step.sh:
#	build_mpi SOURCE PROGRAM    compiles with MPICH; skips the test without it
#	build_ompi SOURCE PROGRAM   the same with Open MPI

build_with() { # COMPILER NAME SOURCE PROGRAM
	command -v "$1" >/dev/null || skip_all "needs $2"
	"$1" -O1 -o "$4" "$3" >"$tmpdir/mpicc.log" 2>&1 || bail "$1: $(cat "$tmpdir/mpicc.log")"
}

build_mpi() {
	build_with mpicc.mpich MPICH "$@"
}

build_ompi() {
	build_with mpicc.openmpi "Open MPI" "$@"
}
