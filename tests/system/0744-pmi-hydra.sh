#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The same words to hydra's server and to ours, and with --all to slurmstepd's: the
# answers are the same. What differs is listed here, each with its reason.
. "${top_srcdir:?}/tests/lib/pmi.sh"

command -v mpiexec.hydra >/dev/null || skip_all "needs hydra"

# In an order of their own, and without differences in wording.
normal() {
	sed -E -e 's/ (msg|info)=[^ ]*//g' -e 's/;(errmsg|thrid)=[^;]*//g' -e 's/appnum=-?[0-9]+/appnum=N/' \
		-e 's/rc=-?[1-9][0-9]*/rc=BAD/g' "$1" | awk '
		{
			sep = index($0, ";") ? ";" : " "
			n = split($0, part, sep)
			line = part[1]
			for (i = 2; i <= n; i++) fields[i - 1] = part[i]
			for (i = 1; i < n; i++)
				for (k = i + 1; k < n; k++)
					if (fields[k] < fields[i]) { t = fields[i]; fields[i] = fields[k]; fields[k] = t }
			for (i = 1; i < n; i++) if (fields[i] != "") line = line sep fields[i]
			print line
		}'
}

for v in 1 2; do
	talk 1 conversation$v >"$tmpdir/ours" 2>&1
	timeout 300 mpiexec.hydra -n 1 python3 "$talk_py" conversation$v >"$tmpdir/hydra" 2>&1
	normal "$tmpdir/ours" >"$tmpdir/ours.n"
	# hydra adds a value to what is not found, and does not know the size of the universe in PMI-2.
	normal "$tmpdir/hydra" | sed -e 's/ value=unknown$//' >"$tmpdir/hydra.n"
	sed -i 's/^\(cmd=info-getjobattr-response;found=\)TRUE;rc=0;value=1$/\1FALSE;rc=0/' "$tmpdir/ours.n"
	is "$(diff "$tmpdir/ours.n" "$tmpdir/hydra.n")" "" "PMI-$v: hydra's server and ours reply alike"
done

# ---- slurmstepd's ------------------------------------------------------------------------------
# It sends rc=0 where there is nothing to fail, and of a name that is not there only that in "info".
canonical() {
	sed -E -e 's/[ ;]rc=0//' -e 's/^(cmd=lookup_result) rc=BAD$/\1/' "$1"
}

cat >"$tmpdir/inside" <<'END'
for v in 1 2; do
	timeout 300 srun --overlap --mpi=pmi2 -n 1 python3 "$1" conversation$v >"$2/slurm$v" 2>&1
done
echo done >"$2/slurm-done"
END
thorough || done_testing # a Slurm takes long
if [ "$(id -u)" = 0 ] && command -v slurmctld slurmd munged srun >/dev/null &&
	timeout 700 sh "$top_srcdir/tests/bench/with-slurm" sh "$tmpdir/inside" "$talk_py" "$tmpdir" >/dev/null 2>&1 &&
	[ -e "$tmpdir/slurm-done" ]; then
	for v in 1 2; do
		talk 1 conversation$v >"$tmpdir/ours" 2>&1
		normal "$tmpdir/ours" >"$tmpdir/ours.n"
		normal "$tmpdir/slurm$v" >"$tmpdir/slurm.n"
		is "$(canonical "$tmpdir/ours.n")" "$(canonical "$tmpdir/slurm.n")" \
			"PMI-$v: slurmstepd's server and ours reply alike"
	done
else
	skip 2 "needs root and Debian's Slurm"
fi
done_testing
