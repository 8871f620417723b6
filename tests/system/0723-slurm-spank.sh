#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# SPANK plugins in steps that stepd-slurmstepd serves, beside those of Slurm's own slurmstepd: two Slurms at the
# same time, the same plugins, which trace their hooks, and the same command lines. The traces and what users see
# must be the same.
# shellcheck source=tests/lib/local_slurm.sh
. "${top_srcdir:?}/tests/lib/local_slurm.sh"

needs_slurm sbatch scontrol setpriv srun
command -v "${CC:-cc}" >/dev/null || skip_all "needs a compiler"
serve 'srun, batch, extern'
version=$(in_system slurmd -V | sed 's/.* //' | awk -F. '{ printf "0x%02x%02x%02x", $1, $2, $3 }')
flags=
[ "$STEPD_TEST_PROTOCOL" -lt 11008 ] || flags=-DINIT_FAILURE=3012 # the job's, not the node's
for name in traced second; do
	"${CC:-cc}" -DNAME="\"$name\"" $flags -DSPANK_VERSION=$version -shared -fPIC -I"$top_srcdir/tests/lib" -o "$tmpdir/$name.so" \
		"$top_srcdir/tests/lib/spank_traced.c" || bail "can't compile a plugin"
done

# ---- the command lines -----------------------------------------------------------------------
# slurmstepd and its tasks write messages in pieces, which mix: only one of them has any at a time.
cat >"$tmpdir/commands" <<'S'
line() { # NAME COMMAND...
	name=$1
	shift
	{ TRACED_NAME=$name TRACED_GIVEN=given TRACED_GONE=x "$@" >"$name.out" 2>"$name.err" </dev/null; echo $? >"$name.rc"; } &
}
task='env | grep ^TRACED_ | sort; echo end; exit $SLURM_PROCID'
line plain env TRACED_SAYS=init,user_init,task_exit,exit, srun -Q --overlap -n 2 sh -c "$task"
line says env TRACED_SAYS=task_init, srun -Q --overlap -n 1 sh -c "$task"
line levels env TRACED_SAYS=user_init, srun -Q --overlap --slurmd-debug=info -n 1 true
line option srun -Q --overlap -n 2 -c 2 --traced-value='a b' --second-value=2 sh -c "$task"
line many srun -Q --overlap -n 6 --traced-value=x true
line killed srun -Q --overlap -n 2 sh -c 'kill -9 $$'
for hook in init init_post_opt user_init task_init_privileged task_init task_post_fork task_exit exit; do
	line "fails-$hook" env traced_FAIL="$hook:-1" srun -Q --overlap -n 1 sh -c "$task"
done
for hook in init task_init task_post_fork; do
	line "optional-$hook" env second_FAIL="$hook:-1" srun -Q --overlap -n 2 sh -c "$task"
done
line positive env traced_FAIL=task_init:2 srun -Q --overlap -n 1 sh -c "$task"
wait
S

cat >"$tmpdir/end" <<'S'
wait
tries=0
while ls "$(dirname "$SLURM_CONF")"/spool/*/*_[0-9]*.[0-9]* >/dev/null 2>&1 && [ $tries -lt 3000 ]; do
	sleep 0.02
	tries=$((tries + 1))
done
echo >over
S
cat >"$tmpdir/inside" <<'S'
mkdir "$1/$2"
cd "$1/$2"
salloc -Q -n 100 sh "$1/commands" >salloc 2>&1 &
TRACED_NAME=user setpriv --reuid=65534 --regid=65534 --groups=65534,12 srun -Q -n 2 -D / --traced-value=u \
	sh -c 'id -u; env | grep ^TRACED_task | sort' >user.out 2>user.err </dev/null
echo $? >user.rc
printf '#!/bin/sh\nenv | grep ^TRACED_ | sort\nexit 3\n' >script
TRACED_NAME=script TRACED_SAYS=user_init,exit, sbatch -Q --wait --traced-value=s -o "$1/$2/script.text" script one two >script.out 2>script.err
echo $? >script.rc
. "$1/end"
S

# Jobs with extern steps, whose plugins know them by their memory; one for each function that fails. They come
# after each other, so that they have the same cores.
cat >"$tmpdir/extern" <<'S'
mkdir "$1/$2"
cd "$1/$2"
job() { # NAME MEMORY [COMMAND...]
	name=$1
	memory=$2
	shift 2
	TRACED_NAME=$name "$@" salloc -Q -n 1 --mem="$memory" srun -Q -n 1 -D / echo ran >"$name.out" 2>"$name.err" </dev/null
	echo $? >"$name.rc"
}
job plain 21
job user 22 setpriv --reuid=65534 --regid=65534 --groups=65534,12
job fails-init 31
job fails-init_post_opt 32
job fails-task_post_fork 33
job fails-exit 34
job optional 35
. "$1/end"
S

failing="31:init:-1 32:init_post_opt:-1 33:task_post_fork:-1 34:exit:-1"
slurm() { # SCRIPT NAME PORT [STEPD]
	script=$1
	shift
	mkdir "$tmpdir/$1.traces"
	printf 'required %s %s %s\ninclude %s.more\n' "$tmpdir/traced.so" "$tmpdir/$1.traces" "$failing" "$tmpdir/$1" >"$tmpdir/$1.conf"
	printf 'optional second.so %s 35:init:-1 35:task_post_fork:-1\noptional missing.so\n' "$tmpdir/$1.traces" >"$tmpdir/$1.more"
	BENCH_SLURM_NODE_WORDS=RealMemory=4000 BENCH_SLURM_LINES="$lines
CommunicationParameters=block_null_hash,block_zero_hash
FirstJobId=$first_job
PlugStackConfig=$tmpdir/$1.conf
PluginDir=$plugin_dir:$tmpdir
SlurmdLogFile=$tmpdir/$1.log" BENCH_SLURM_PORT=$2 BENCH_SLURM_STEPD=${3-} BENCH_SLURM_ALLOCATION=no in_system timeout -k 90 300 \
		sh "$top_srcdir/tests/bench/with-slurm" sh "$tmpdir/$script" "$tmpdir" "$1" >"$tmpdir/$1.slurm" 2>&1
}
plugin_dir=$(dirname "$(find "$slurm_root/usr/lib" "$slurm_root/usr/lib64" -name auth_munge.so 2>/dev/null | head -n 1)")
plugin_dir=${plugin_dir#"$slurm_root"}
port=$((20000 + $$ % 2500 * 4))
both() { # SCRIPT PREFIX
	slurm "$1" "$2served" $port "$PROGRAM" &
	slurm "$1" "$2real" $((port + 2))
	wait
	for name in served real; do
		[ -s "$tmpdir/$2$name/over" ] || skip_all "no Slurm came up: $(tail -n 1 "$tmpdir/$2$name.slurm")"
	done
}
lines=
both inside ''
lines="PrologFlags=Contain
SelectTypeParameters=CR_CPU_Memory"
both extern extern-

# ---- the comparison --------------------------------------------------------------------------
seen() { # FILE: lines of tasks come in any order
	sed -E 's/bench[0-9]+/NODE/g; s,[^ ]*/(extern-)?(real|served)(\.traces)?\>,DIR,g; s/StepId=[0-9.]+/StepId=ID/; s/job [0-9]+/job ID/; s/^\[[-0-9]{10}T[0-9:]{8}\.[0-9]{3}\] /[TIME] /
		s,=[^ ]*/job[0-9]+/slurm_script,=SCRIPT,
		/debug:|debug levels|: task .* started|: starting . tasks|: task .* exited/d
		/^[a-z]*\/none$/d # the rest of a line of the kind before, which slurmstepd has written in two pieces
		/fatal: _fork_all_tasks: /d # by its successor
		/write(\(fd:[0-9]+\))? to unblock task|_exec_wait_child_wait_for_parent/d
		s/^(.*): tasks 0(-1|,2): (.*)$/\1: task 0: \3\n\1: task\2: \3/; s/: task[-,]([12]): /: task \1: /' "$1" | sort
}
order() { # FILE: of the functions that are called in the step's own process
	grep -E ' own=1|^option' "$1" | sed 's/ .*//'
}
# slurmstepd kills the tasks of a step that fails while they call these.
own() {
	case $1 in *post_fork.*) grep -v '^task_init_privileged' "$1" ;; *) cat "$1" ;; esac >"$1.own"
	seen "$1.own"
}
same_traces() { # PREFIX NAME
	for plugin in traced second; do
		is "$(own "$tmpdir/$1served.traces/$2.$plugin")" "$(own "$tmpdir/$1real.traces/$2.$plugin")" \
			"$2: the functions of plugin $plugin are called as the same user with the same values"
		is "$(order "$tmpdir/$1served.traces/$2.$plugin")" "$(order "$tmpdir/$1real.traces/$2.$plugin")" \
			"$2: the functions of plugin $plugin are called in the same order"
	done
}
same() { # PREFIX
	for rc in "$tmpdir/$1real"/*.rc; do
		name=$(basename "$rc" .rc)
		for part in rc out err; do
			is "$(seen "$tmpdir/$1served/$name.$part")" "$(seen "$tmpdir/$1real/$name.$part")" "$1$name.$part: users see the same"
		done
		same_traces "$1" "$name"
	done
}
same ''
is "$(seen "$tmpdir/served/script.text")" "$(seen "$tmpdir/real/script.text")" "a script has the same environment and messages"

# ---- what only a served step has -------------------------------------------------------------
is "$(grep -c ' stepd-slurmstepd: .* step served$' "$tmpdir/served.log")" "$(ls "$tmpdir"/real/*.rc | wc -l)" "each step was served"
is "$(grep -c 'handed over' "$tmpdir/served.log")" 0 "no step was handed over"
like "$(cat "$tmpdir/served.log")" "stepd-slurmstepd: error: traced error of init$" "slurmd's log has the plugins' errors"
is "$(ls "$run")" "" "the served steps have left nothing in the runtime directory"

# ---- extern steps ----------------------------------------------------------------------------
same extern-
for memory in 21 22 31 32 33 34 35; do
	# A thread of slurmstepd 24.11 may have the user's group, and be the user, while the last function is called,
	# which then can't write.
	if grep -qE '^exit uid=0/(0|65534) gid=0/65534 ' "$tmpdir/extern-real.traces/extern-$memory.traced"; then
		for plugin in traced second; do
			served=$tmpdir/extern-served.traces/extern-$memory.$plugin
			like "$(cat "$served")" "^exit uid=0/0 gid=0/0 own=1 " "extern-$memory: the last function of $plugin is root's"
			is "$(order "$served")" "$(order "$tmpdir/extern-real.traces/extern-21.$plugin")" \
				"extern-$memory: the functions of plugin $plugin are called in the same order"
		done
	else
		same_traces extern- extern-$memory
	fi
done
failures() {
	sed -nE '/missing.so/d; s/.*(error: spank.*|error: .*failed.*)/\1/p' "$tmpdir/extern-$1.log" | sed 's/^error: _[a-z_]*: /error: /' | sort
}
is "$(failures served)" "$(failures real)" "slurmd's log has the same of plugins that fail extern steps"
like "$(order "$tmpdir/extern-served.traces/extern-21.traced" | tr '\n' ' ')" "^init .*init_post_opt .*task_post_fork .*exit " \
	"the functions of an extern step are called"
is "$(grep -c ' stepd-slurmstepd: extern step served$' "$tmpdir/extern-served.log")" 8 "each extern step was served"
is "$(grep -c 'handed over' "$tmpdir/extern-served.log")" 0 "none was handed over for its plugins"
is "$(ls "$run")" "" "the served extern steps have left nothing in the runtime directory"
done_testing
