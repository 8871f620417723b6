#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# steprun on one node: the agent has its streams, signals and its end.
# shellcheck source=tests/lib/steprun.sh
. "${top_srcdir:?}/tests/lib/steprun.sh"

is "$(srun_here -n 3 -- sh -c 'echo $SLURM_PROCID' | sort | tr '\n' ' ')" "0 1 2 " \
	"steprun runs tasks on one node"
srun_here -n 2 -- sh -c 'exit $((SLURM_PROCID * 3))' 2>/dev/null
is $? 3 "steprun has the largest status of its tasks"
srun_here -- sh -c 'kill -9 $$' 2>/dev/null
is $? 137 "steprun has the status of a task killed by a signal"
is "$(echo word | srun_here -n 2 -- sh -c 'cat; echo end' | sort | tr '\n' ' ')" "end end word " \
	"rank 0 reads standard input"
is "$(echo word | srun_here -n 2 -i all -- cat | tr '\n' ' ')" "word word " \
	"all ranks read standard input with -i all"
srun_here -- sh -c 'ls -l /proc/$$/fd; true' >"$tmpdir/file"
like "$(cat "$tmpdir/file")" " 1 -> $tmpdir/file" "a task on one node writes to steprun's own output"
is "$(SR_TEST=1 srun_here --export=SR_TEST -- sh -c 'echo $SR_TEST')" 1 "steprun accepts options of stepd run"
is "$(srun_here -- sh -c 'echo $SLURM_NTASKS $SLURM_NNODES $SLURM_NODEID')" "1 1 0" \
	"a task has the variables of a layout of one node"
out=$("$steprun" --nodess 2 true 2>&1)
is "$? $out" "125 steprun: there is no option --nodess; did you mean --nodes?" "a wrong option is named"
like "$("$steprun" 2>&1)" "no program given: steprun" "a missing program is reported"
like "$("$steprun" --mpi=list)" "^  none " "--mpi=list lists the plugins"
like "$("$steprun" --version)" "^steprun [0-9]" "steprun --version prints the version"
is "$("$steprun" -n 2 --print-spec true | json_get - ntasks)" 2 "steprun --print-spec prints the spec"
like "$("$steprun" --mpi=nosuch true 2>&1)" "nosuch" "a plugin that is not there is named"

# ---- signals -----------------------------------------------------------------------------------
begin -- sh -c 'trap "echo usr1" USR1; trap "echo usr2; exit 4" USR2; echo up; while :; do sleep 0.05; done'
eventually has_lines "$tmpdir/out" 1
kill -USR1 "$pid"
eventually grep -q usr1 "$tmpdir/out"
kill -USR2 "$pid"
finish
is "$status $(tr '\n' ' ' <"$tmpdir/out")" "4 up usr1 usr2 " "signals to steprun reach the tasks"

begin -- sh -c 'echo up; exec sleep 300'
eventually has_lines "$tmpdir/out" 1
kill -INT "$pid"
eventually grep -q 'running: tasks 0' "$tmpdir/err"
ok "the first ^C reports which tasks run" grep -q 'running: tasks 0' "$tmpdir/err"
ok "the first ^C does not end the step" kill -0 "$pid"
kill -INT "$pid"
finish
is "$status" 130 "the second ^C ends the step"

begin --kill-sequence TERM:1h,KILL -- sh -c 'trap "" TERM; echo up; while :; do sleep 0.05; done'
eventually has_lines "$tmpdir/out" 1
kill -QUIT "$pid"
eventually grep -q 'ending the step' "$tmpdir/err"
kill -INT "$pid"
finish
is "$status" 131 "a ^C while the step is ending kills it"

begin -- sh -c 'echo up; exec sleep 300'
eventually has_lines "$tmpdir/out" 1
kill -9 "$pid"
finish 2>/dev/null
nothing_left_soon "an agent whose steprun is killed ends its step, and leaves nothing"

# ---- the client's hooks ------------------------------------------------------------------------
cp "$top_builddir/stepd/cli/plugins/"*.so "$tmpdir/" 2>/dev/null
mkdir "$tmpdir/plugins" && chmod 755 "$tmpdir/plugins" && mv "$tmpdir"/*.so "$tmpdir/plugins/"
cat >"$tmpdir/hooks.c" <<'C'
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <stepd/env.h>
#include <stepd/mpi.h>
const char plugin_type[] = "mpi/" NAME;
const char plugin_name[] = "hooks of the client";
const uint32_t plugin_version = STEPD_API_VERSION;
int init(void) { return SLURM_SUCCESS; }
void fini(void) { }
mpi_plugin_client_state_t *p_mpi_hook_client_prelaunch(
	const mpi_plugin_client_info_t *job, char ***env)
{
	static char state;
	char text[32];
	if (getenv("FAIL_PRELAUNCH")) {
		errno = ENODEV;
		return NULL;
	}
	snprintf(text, sizeof(text), "%u/%u", job->ntasks, job->nnodes);
	return stepd_env_set(env, "FROM_HOOK", text) < 0 ? NULL : &state;
}
int p_mpi_hook_slurmstepd_prefork(const stepd_step_rec_t *job, char ***env) { return SLURM_SUCCESS; }
void p_mpi_hook_slurmstepd_task(const mpi_plugin_task_info_t *job, char ***env) { }
int p_mpi_hook_client_fini(mpi_plugin_client_state_t *state)
{
	fprintf(stderr, "fini\n");
	errno = EIO;
	return getenv("FAIL_FINI") ? SLURM_ERROR : SLURM_SUCCESS;
}
C
mkdir "$tmpdir/include" && ln -s "$top_srcdir/stepd/api" "$tmpdir/include/stepd"
if ${CC:-cc} -shared -fPIC -DNAME='"hooky"' -I"$tmpdir/include" -o "$tmpdir/plugins/mpi_hooky.so" "$tmpdir/hooks.c" 2>"$tmpdir/cc"; then
	hooky() {
		srun_here -q --plugin-dir "$tmpdir/plugins" --mpi=hooky "$@"
	}
	is "$(hooky -n 2 -- sh -c 'echo $FROM_HOOK $SLURM_MPI_TYPE' 2>"$tmpdir/err" | sort -u)" "2/1 hooky" \
		"the tasks have what prelaunch put into the environment"
	is "$(cat "$tmpdir/err")" fini "fini is called once"
	is "$(hooky -N 2 -n 2 -- sh -c 'echo $FROM_HOOK' 2>/dev/null | sort -u)" "2/2" \
		"the tasks of all nodes have what prelaunch put into the environment"
	out=$(FAIL_PRELAUNCH=1 hooky -- sh -c 'echo ran' 2>&1)
	is "$?" 125 "a failing prelaunch fails steprun"
	like "$out" "p_mpi_hook_client_prelaunch\(\) failed: No such device" "a failing prelaunch is reported"
	unlike "$out" "ran|fini" "a failing prelaunch fails before a task starts"
	out=$(FAIL_FINI=1 hooky -- echo ran 2>&1)
	is "$?" 125 "a failing fini fails steprun"
	like "$out" "p_mpi_hook_client_fini\(\) failed" "a failing fini is reported"
else
	skip 8 "no C compiler: $(head -n 1 "$tmpdir/cc")"
fi
nothing_left "the job leaves no cgroup, process or file behind"
done_testing
