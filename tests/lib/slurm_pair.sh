# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# On top of local_slurm.sh, for tests with several scripts, "$tmpdir/SCRIPT", whose command lines wait for
# each other, so that both Slurms give them the same resources:
#	both SCRIPT      runs "sh SCRIPT $tmpdir" in both, outside of an allocation
#	served SCRIPT    only where stepd-slurmstepd serves
#	same SCRIPT      that users saw the same of each command line, a check for each
#	lines_of SCRIPT  what stepd-slurmstepd has logged
# A script has, besides in_slurm.sh, "in_turn NAME COMMAND...".

# shellcheck source=tests/lib/local_slurm.sh
. "${top_srcdir:?}/tests/lib/local_slurm.sh"

needs_slurm sbatch scontrol srun
serve 'srun, batch'

# shellcheck disable=SC2154 # of tap.sh
cat >>"$tmpdir/functions" <<'END'

in_turn() {
	line "$@"
	wait $!
}
END
cat >"$tmpdir/inside" <<'END'
. "$1/functions"
mkdir "$1/$2"
cd "$1/$2"
sh "$1/$3" "$1" >script 2>&1
until_true no_step
cp "$(dirname "$SLURM_CONF")/slurmctld.log" .
echo >over
END

both() {
	in_both -p "$1-" "$1"
}
served() {
	# shellcheck disable=SC2154 # of local_slurm.sh
	BENCH_SLURM_STEPD=$slurm_program in_slurm "$1-served" "$(slurm_port 2)" "$1"
	came_to_end "$1-served"
}
seen() { # SCRIPT KIND NAME
	for part in out err rc; do
		alike "$tmpdir/$1-$2/$3.$part" | sort
	done
}
same() {
	for rc in "$tmpdir/$1-real"/*.rc; do
		name=$(basename "$rc" .rc)
		is "$(seen "$1" served "$name")" "$(seen "$1" real "$name")" "$1: $name: users see the same of a served step"
	done
}
lines_of() {
	sed -n 's/.* stepd-slurmstepd: //p' "$tmpdir/$1-served".*.log
}
