#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Steps of a site with UsePAM: the modules of the service "slurm" run for a served step as for one of
# slurmstepd, and what they set is so in its tasks. Two Slurms at the same time, one of them with Slurm's own
# slurmstepd, and the same command lines in both.
# shellcheck source=tests/lib/slurm_pair.sh
. "${top_srcdir:?}/tests/lib/slurm_pair.sh"

needs_slurm sbatch setpriv srun
unshare --mount true 2>/dev/null || skip_all "needs to make mount namespaces"
for module in pam_limits pam_exec; do
	[ -n "$(find "$slurm_root/usr/lib" "$slurm_root/lib" -name $module.so 2>/dev/null | head -n 1)" ] ||
		skip_all "there is no $module.so"
done
! grep -q '^#define HAVE_LIBPAM' "$top_builddir/config.h" && skip_all "built without PAM"
echo 'slurm_serve = srun, batch, extern' >"$STEPD_CONFIG"
[ -n "$slurm_root" ] || own_mounts="unshare --mount --propagation private"

mkdir -p "$tmpdir/etc/pam.d"
cat >"$tmpdir/limits" <<S
root hard nofile 777
root soft stack 1234
root hard core 5000
root soft core 4000
nobody hard nofile 555
nobody soft nproc 99
S
# The lists of both Slurms' sessions, by the step daemon. That of the user games is refused.
cat >"$tmpdir/session" <<S
#!/bin/sh
[ "\$PAM_USER" != games ] || exit 1
case \$(readlink "/proc/\$PPID/exe") in
*/stepd-slurmstepd) of=served ;;
*) of=real ;;
esac
echo "\$PAM_TYPE \$PAM_SERVICE \$PAM_USER \$PAM_RUSER \${PAM_RHOST:+a host}" >>"$tmpdir/list.\$of"
S
chmod 755 "$tmpdir/session"
cat >"$tmpdir/etc/pam.d/slurm" <<S
account required pam_permit.so
auth required pam_permit.so
session required pam_limits.so conf=$tmpdir/limits
session required pam_exec.so seteuid $tmpdir/session
S
printf 'auth required pam_permit.so\naccount required pam_permit.so\nsession required pam_permit.so\n' >"$tmpdir/etc/pam.d/other"

cat >"$tmpdir/one" <<'S'
. "$1/functions"
mkdir -m 777 user
list=$1/list.${PWD##*-}
all='ulimit -Hn; ulimit -Sn; ulimit -Ss; ulimit -Hc; ulimit -Sc'
# slurmstepd removes a step's socket before it closes the session.
all_closed() {
	no_step && [ "$(grep -c ^open "$list")" = "$(grep -c ^close "$list")" ]
}
sessions() { # NAME: of the line before
	until_true all_closed
	sort "$list" >"$1.out"
	rm -f "$list"
	: >"$1.err"
	echo 0 >"$1.rc"
}
rm -f "$list" # of what has gone before
in_turn limits srun -Q -n 2 -l sh -c "$all"
sessions limits-sessions
in_turn lower sh -c "ulimit -n 100; ulimit -s 800; ulimit -c 0; srun -Q -n 1 sh -c '$all'"
in_turn higher sh -c "ulimit -Sc unlimited; ulimit -Ss unlimited; srun -Q -n 1 sh -c '$all'"
in_turn user setpriv --reuid=65534 --regid=65534 --clear-groups srun -Q -n 2 -l -D "$PWD/user" sh -c 'ulimit -Hn; ulimit -Sn; grep processes /proc/self/limits'
sessions user-sessions
in_turn script sbatch -Q --wait -n 1 -o script.log --wrap "$all; srun -Q sh -c '$all'"
cat script.log >>script.out
sessions script-sessions
in_turn refused setpriv --reuid=5 --regid=60 --clear-groups srun -Q -n 1 -D "$PWD/user" echo not reached
in_turn fails srun -Q -n 2 false
in_turn missing srun -Q -n 1 /nowhere/program
until_true no_step
S
# With sanitizers a program's own limit of cores is 0.
! grep -q '^#define STEPD_SANITIZERS' "$top_builddir/config.h" || sed -i 's/; ulimit -Sc//' "$tmpdir/one"
for propagated in ALL NONE; do
	BENCH_SLURM_LINES="UsePAM=1
PrologFlags=Contain
PropagateResourceLimits=$propagated
CommunicationParameters=block_null_hash,block_zero_hash
FirstJobId=$first_job
$slurmd_log"
	BENCH_SLURM_ETC=$tmpdir/etc
	BENCH_SLURM_CPUS=4
	export BENCH_SLURM_LINES BENCH_SLURM_ETC BENCH_SLURM_CPUS
	rm -rf "$tmpdir"/one-*
	both one
	same one
	like "$(cat "$tmpdir/one-served/limits.out")" '^1: 777$' "$propagated: a limit of PAM's is that of the tasks"
	is "$(cat "$tmpdir/one-served/limits-sessions.out")" "close_session slurm root root a host
open_session slurm root root a host" "$propagated: a step has one session"
	is "$(lines_of one | grep 'handed over' | sed 's/.*: PAM/PAM/' | sort -u)" \
		"PAM, service slurm: open a session: System error" \
		"$propagated: a step whose session is refused is handed over, and no other"
done
is "$(ls "$run")" "" "the served steps have left nothing in the runtime directory"
done_testing
