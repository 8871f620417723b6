# shellcheck shell=sh disable=SC2154
# SPDX-License-Identifier: BSD-3-Clause
#
# Programs of real MPI libraries, on top of step.sh:
#	build_mpi SOURCE PROGRAM    compiles with MPICH; skips the test without it
#	build_ompi SOURCE PROGRAM   the same with Open MPI
#	build_sums DIRECTORY        makes mpi_sum there with each library that can be had, as "mpich" and "openmpi";
#	                            $sums are their names
#	bring_libraries PROGRAM     makes it run in $slurm_root of slurm_root.sh, too
#	bring_ompi PROGRAM          the same for one of Open MPI, which loads parts of its own

build_with() { # COMPILER NAME SOURCE PROGRAM
	command -v "$1" >/dev/null || skip_all "needs $2"
	"$1" -O1 -o "$4" "$3" >"$tmpdir/mpicc.log" 2>&1 || bail "$1: $(cat "$tmpdir/mpicc.log")"
}

missing_libraries() { # FILE: those that the tree has not
	ldd "$1" | sed -n 's,.* => \(/[^ ]*\) .*,\1,p' | while read -r library; do
		[ -e "$slurm_root/usr/${library#/usr/}" ] || [ -e "$slurm_root/usr$library" ] || echo "$library"
	done
}

# They are beside the program, which is a script then.
bring_libraries() {
	mkdir -p "$1.libraries"
	missing_libraries "$1" | while read -r library; do
		cp -L "$library" "$1.libraries"
	done
	mv "$1" "$1.program"
	printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$1.libraries" "$1.program" >"$1"
	chmod 755 "$1"
}

# Not those that need more libraries, which are for networks.
bring_ompi() {
	bring_libraries "$1"
	mkdir -p "$1.parts"
	for part in "$(ompi_info --parsable --path pkglibdir | cut -d: -f3)"/mca_*.so; do
		missing_libraries "$part" | while read -r library; do
			[ -e "$1.libraries/${library##*/}" ] || exit 1
		done && cp "$part" "$1.parts"
	done
	sed -i "2i OMPI_MCA_mca_base_component_path=$1.parts\nexport OMPI_MCA_mca_base_component_path" "$1"
}

build_sums() {
	sums=
	for library in mpich openmpi; do
		# Open MPI has parts of its own besides libraries.
		[ "$library" = mpich ] || [ -z "$slurm_root" ] || continue
		mpicc.$library -O1 -o "$1/$library" "$top_srcdir/tests/lib/mpi_sum.c" 2>/dev/null || continue
		[ -z "$slurm_root" ] || bring_libraries "$1/$library"
		sums="$sums $library"
	done
}

build_mpi() {
	build_with mpicc.mpich MPICH "$@"
}

build_ompi() {
	build_with mpicc.openmpi "Open MPI" "$@"
}
