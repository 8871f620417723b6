#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Steps of a site whose jobs have a /tmp of their own, by Slurm's plugin tmpfs: the extern step makes it, and the
# others enter it. Two Slurms at the same time, one of them with Slurm's own slurmstepd, and the same command lines
# in both; then served steps beside extern ones of slurmstepd's.
TMPDIR=/var/tmp # what is below /tmp is not seen by the tasks
export TMPDIR
# shellcheck source=tests/lib/slurm_pair.sh
. "${top_srcdir:?}/tests/lib/slurm_pair.sh"
# shellcheck source=tests/lib/mpi.sh
. "$top_srcdir/tests/lib/mpi.sh"

needs_slurm python3 sbatch sbcast scancel scontrol setpriv srun
# shellcheck source=tests/lib/slurm_extern.sh
. "$top_srcdir/tests/lib/slurm_extern.sh"
case $(cd "$top_builddir" && pwd -P) in
/tmp/*) skip_all "the build is below /tmp, where the tasks don't see its programs" ;;
esac
unshare --mount true 2>/dev/null || skip_all "needs to make mount namespaces"
echo 'slurm_serve = srun, batch, extern, interactive' >"$STEPD_CONFIG"
plugin=JobContainerType=job_container/tmpfs
[ "$STEPD_TEST_PROTOCOL" -lt 11264 ] || plugin=NamespaceType=namespace/tmpfs
plugins=$(find "$slurm_root/usr/lib" -name "$(echo "${plugin#*=}" | tr / _).so" 2>/dev/null)
[ -n "$plugins" ] || skip_all "this Slurm has no ${plugin#*=}"
# The mounts are in a namespace of the Slurm's own: with a root of its own it has one. On one processor: to be
# mounted a namespace must have a higher number than the one around it, and Linux 6.18 has series of numbers for
# each processor.
own_mounts="taskset -c $(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')"
[ -n "$slurm_root" ] || own_mounts="$own_mounts unshare --mount --propagation private"
BENCH_SLURM_DIR=$tmpdir
BENCH_SLURM_CPUS=8
export BENCH_SLURM_DIR BENCH_SLURM_CPUS

if has_program xauth; then
	touch "$tmpdir/user.auth"
	xauth -q -f "$tmpdir/user.auth" add localhost:7 MIT-MAGIC-COOKIE-1 "$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
fi
mkdir "$tmpdir/programs"
cat >"$tmpdir/programs/prolog" <<'S'
#!/bin/sh
echo "print prolog sees $(cat /tmp/mine)"
echo "export ADDED=$(readlink /proc/self/ns/mnt | tr -dc 0-9 | wc -c)"
S
printf '#!/bin/sh\necho "epilog $(cat /tmp/mine)" >>/tmp/epilog\n' >"$tmpdir/programs/epilog"
chmod 755 "$tmpdir"/programs/*
build_sums "$tmpdir/programs"
echo "$sums" >"$tmpdir/libraries"
OMPI_ALLOW_RUN_AS_ROOT=1
OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM

# In a job: its steps see what others of them have written, and nobody else does.
cat >"$tmpdir/job" <<'S'
. "$1/functions"
dir=$1
programs=$1/programs
of=$2 # a name for files outside
step="srun -Q -n 1"
in_turn first $step sh -c 'ls -A /tmp /dev/shm; stat -c "%u %a" /tmp; echo mine >/tmp/mine; [ -e /dev/shm/mine ] || echo >/dev/shm/mine'
in_turn second $step sh -c 'cat /tmp/mine; ls -A /tmp /dev/shm'
in_turn others srun -Q -n 4 -l sh -c 'cat /tmp/mine; readlink /proc/self/ns/mnt | tr -dc a-z'
in_turn program $step sh -c 'cp /bin/echo /tmp/only-here; mkdir /tmp/inner'
in_turn execute $step /tmp/only-here found
in_turn execute-path env PATH="$PATH:/tmp" $step only-here found
in_turn execute-many srun -Q -n 4 -l /tmp/only-here found
in_turn missing $step /tmp/nowhere
printf '0 /tmp/only-here one\n1 /tmp/only-here two\n' >list
in_turn programs srun -Q -n 2 -l --multi-prog list
# slurmstepd and its tasks say so in pieces, which would mix.
in_turn nowhere srun -Q -n 1 -D /nowhere/at-all pwd
mkdir "/tmp/$of.outside"
in_turn outside sh -c "srun -Q -n 2 -D /tmp/$of.outside pwd 2>&1 | sed s/[0-9.]*outside/OUTSIDE/"
rmdir "/tmp/$of.outside"
in_turn inner srun -Q -n 2 -D /tmp/inner pwd
# Files of streams are outside.
in_turn output-file srun -Q -n 2 --output="/tmp/$of.%t" echo outside
cat "/tmp/$of.0" "/tmp/$of.1" >>output-file.out
rm -f "/tmp/$of.0" "/tmp/$of.1"
in_turn output-shared srun -Q -n 2 --output="/tmp/$of" --error="/tmp/$of.err" sh -c 'echo outside; echo error >&2'
cat "/tmp/$of" "/tmp/$of.err" >>output-shared.out
in_turn input $step --input="/tmp/$of" cat
rm -f "/tmp/$of" "/tmp/$of.err"
in_turn output-relative srun -Q -n 2 --output=relative.%t echo relative
cat relative.0 relative.1 >>output-relative.out
in_turn output-refused $step --output=/nowhere/at-all/x.%t echo not reached
in_turn nothing $step sh -c "ls /tmp | grep '$of'"
in_turn prolog srun -Q -n 2 -l --task-prolog="$programs/prolog" printenv ADDED
in_turn epilog srun -Q -n 2 -l --task-epilog="$programs/epilog" echo done
in_turn epilog-was $step cat /tmp/epilog
in_turn cast sbcast -f list /tmp/cast
in_turn cast-was $step cat /tmp/cast
in_turn two-at-once sh -c 'srun -Q -n 1 --exact true & srun -Q -n 1 --exact cat /tmp/mine; wait'
for library in $(cat "$dir/libraries"); do
	case $library in
	mpich) in_turn mpich srun -Q -n 2 --mpi=pmi2 "$programs/mpich" ;;
	openmpi) in_turn openmpi srun -Q -n 2 --mpi=pmix "$programs/openmpi" ;;
	esac
done
# Where pam_slurm_adopt puts a login.
in_turn login sh -c 'inside=$(srun -Q -n 1 readlink /proc/self/ns/mnt)
	. "$0/functions"
	[ "$(request "$SLURM_JOB_ID" namespace_of)" = "$inside" ] && echo the same' "$dir"
in_turn directories $step sh -c 'ls -A /tmp | grep -v spmix_appdir_'
S
cat >"$tmpdir/one" <<'S'
. "$1/functions"
mkdir -m 777 user
salloc -Q -n 8 sh "$1/job" "$1" "stepd-$$"
cp first.out first-job
in_turn alone srun -Q -n 2 -l ls -A /tmp
# What a step does at the end finds its /tmp. slurmstepd of 22.05 removes it at once.
srun -Q -J late -n 1 sh -c 'trap "sleep 3; cat /tmp/kept; exit 0" TERM
	echo kept >/tmp/kept; touch late.up; sleep 300 & wait' >late.text 2>&1 </dev/null &
until_true test -e late.up
scancel -n late
wait $!
# Another user's.
in_turn user setpriv --reuid=65534 --regid=65534 --clear-groups srun -Q -n 2 -D "$PWD/user" sh -c '
	id -u; stat -c "%u %a" /tmp; echo x >"/tmp/$SLURM_PROCID"; [ "$(stat -c %u "/tmp/$SLURM_PROCID")" = 65534 ] && echo written'
# The file with the cookie of a display is inside.
[ ! -e "$1/user.auth" ] ||
	in_turn x11 env DISPLAY=localhost:7.0 XAUTHORITY="$1/user.auth" srun -Q --x11 -n 1 sh -c '
		echo "$XAUTHORITY" | sed "s/-.*/-X/"; stat -c "%u %a" "$XAUTHORITY"; ls -A /tmp | wc -l; xauth -f "$XAUTHORITY" list | wc -l'
# Scripts, whose own files are outside, too, and their steps.
cat >script.text <<'T'
#!/bin/sh
ls -A /tmp
echo from the script >/tmp/shared
srun -Q -n 2 -l cat /tmp/shared
echo "$TMPDIR"
readlink /proc/self/ns/mnt | tr -dc a-z
T
out=/tmp/stepd-${PWD##*/}-script.$$
in_turn script sbatch -Q --wait -n 2 -o "$out" script.text
cat "$out" >>script.out
in_turn script-user setpriv --reuid=65534 --regid=65534 --clear-groups sbatch -Q --wait -n 2 -D "$PWD/user" -o "$out.user" script.text
cat "$out.user" >>script-user.out
rm -f "$out" "$out.user"
in_turn script-inside sbatch -Q --wait -n 1 -D /tmp -o "$out" --wrap 'pwd; echo x >here; ls /tmp/here'
cat "$out" >>script-inside.out
rm -f "$out"
until_true no_step
of_jobs() {
	find "$at/base" -name '[0-9]*'
}
none_left() { [ -z "$(of_jobs)" ]; }
until_true none_left
of_jobs >left.out
grep -c "$at/base" /proc/self/mounts >>left.out
ls "$at" | grep -c base >>left.out
: >left.err
echo 0 >left.rc
S

BENCH_SLURM_LINES="$plugin
PrologFlags=Contain,X11
CommunicationParameters=block_null_hash,block_zero_hash
FirstJobId=$first_job
$slurmd_log"
BENCH_SLURM_CONTAINER="BasePath=@DIR@/base AutoBasePath=true"
export BENCH_SLURM_LINES BENCH_SLURM_CONTAINER
both one
same one
for library in $sums; do
	like "$(cat "$tmpdir/one-served/$library.out")" "rank 1 of 2, 2 here: right" "an MPI program of $library runs"
done
is "$(cat "$tmpdir/one-served/second.out")" "mine
/dev/shm:
mine

/tmp:
mine" "a served step sees what the one before it has written"
is "$(lines_of one | grep 'handed over')" "" "no step is handed over"
is "$(lines_of one | grep 'error:' | grep -v "a file of its tasks can't be opened")" "" "nothing else has failed"
is "$(cat "$tmpdir/one-served/login.out")" "the same" "a login gets the namespace"
like "$(cat "$tmpdir/one-served/late.text")" "^kept$" "what a step has in its /tmp is there until it has ended"
is "$(lines_of one | grep -c '^batch step served')" 3 "scripts are served"
is "$(ls "$run")" "" "the served steps have left nothing in the runtime directory"

# ---- settings ---------------------------------------------------------------------------------
# For this node, as the last line that has it says.
cat >"$tmpdir/settings" <<'S'
. "$1/functions"
mkdir "/tmp/stepd-outside.$$"
in_turn where srun -Q -n 1 sh -c 'echo >/tmp/stepd-inside; cd /tmp; ls | sed "s/[.].*//" | grep -E "^stepd-(in|out)side"'
rm -rf "/tmp/stepd-outside.$$" /tmp/stepd-inside
S
check_settings() { # NAME LINE...: what a step of the served Slurm sees
	name=$1
	shift
	served settings
	is "$(cat "$tmpdir/settings-served/where.rc" "$tmpdir/settings-served/where.err")" 0 "$name: a step runs"
	is "$(cat "$tmpdir/settings-served/where.out")" "$(printf '%s\n' "$@")" "$name: what a step sees"
	is "$(lines_of settings | sed -nE 's/ (handed over|served).*/ \1/p' | sort -u)" "$settings_lines" "$name: what is served"
	rm -rf "$tmpdir"/settings-served*
}
settings_lines='extern step served
srun step served'
BENCH_SLURM_CONTAINER='AutoBasePath=true
NodeName=other[1-3] BasePath=@DIR@/others
NodeName=other[4-9],@NODES@ BasePath=@DIR@/mine'
check_settings "lines for nodes" stepd-inside
if [ "$STEPD_TEST_PROTOCOL" -ge 9984 ]; then # 23.02
	BENCH_SLURM_CONTAINER='BasePath=@DIR@/base AutoBasePath=true Dirs=/dev/shm Shared=true'
	check_settings "other directories" stepd-inside stepd-outside
fi
if [ "$STEPD_TEST_PROTOCOL" -ge 10240 ]; then # 23.11
	BENCH_SLURM_CONTAINER='BasePath=none'
	check_settings "none on this node" stepd-inside stepd-outside
fi
if [ "$STEPD_TEST_PROTOCOL" -ge 10752 ]; then # 24.11
	BENCH_SLURM_CONTAINER='BasePath=@DIR@/base AutoBasePath=true EntireStepInNS=true'
	check_settings EntireStepInNS stepd-inside
fi

# ---- the site's scripts -----------------------------------------------------------------------
for script in init clone epilog; do
	cat >"$tmpdir/programs/$script" <<-P
		#!/bin/sh
		at=\${SLURM_JOB_MOUNTPOINT_SRC:-\$SLURM_NS}
		at=\${at%%/base/*}/$script
		env | grep ^SLURM | sort >"\$at.new"
		mv "\$at.new" "\$at.env"
	P
	chmod 755 "$tmpdir/programs/$script"
done
cat >"$tmpdir/scripts" <<'S'
. "$1/functions"
scripts='init clone epilog'
[ "$STEPD_TEST_PROTOCOL" -ge 10752 ] || scripts=init
# slurmstepd of 23.02 and 23.11 has "(null)" there.
unlike=
[ "$STEPD_TEST_PROTOCOL" -lt 9984 ] || [ "$STEPD_TEST_PROTOCOL" -ge 10496 ] || unlike=/^SLURM_CONF=/d
in_turn one srun -Q -n 1 -D / ls -A /tmp
until_true no_step
for script in $scripts; do
	until_true test -e "$at/$script.env"
	sed -E "s|$at|AT|g; s|$node|NODE|g; s|/\.?[0-9]{6,}|/JOB|g; s|(SLURM_JOB_ID)=.*|\1|; $unlike" "$at/$script.env" >"$script.out"
	: >"$script.err"
	echo 0 >"$script.rc"
done
S
BENCH_SLURM_CONTAINER="BasePath=@DIR@/base AutoBasePath=true InitScript=$tmpdir/programs/init"
[ "$STEPD_TEST_PROTOCOL" -lt 10752 ] ||
	BENCH_SLURM_CONTAINER="$BENCH_SLURM_CONTAINER CloneNSScript=$tmpdir/programs/clone CloneNSEpilog=$tmpdir/programs/epilog"
both scripts
same scripts
like "$(cat "$tmpdir/scripts-served/init.out")" "^SLURM_JOB_MOUNTPOINT_SRC=AT/base/" "InitScript has been called"
is "$(lines_of scripts | grep 'handed over')" "" "a site with scripts has its extern steps served"

# ---- beside slurmstepd's ----------------------------------------------------------------------
echo 'slurm_serve = srun' >"$STEPD_CONFIG"
settings_lines='extern step handed over
srun step served'
BENCH_SLURM_CONTAINER='BasePath=@DIR@/base AutoBasePath=true'
check_settings "an extern step of slurmstepd's" stepd-inside
done_testing
