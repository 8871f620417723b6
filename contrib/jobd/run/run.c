/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/run/run.h"

#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "contrib/jobd/run/run_impl.h"
#include "stepd/base/err.h"
#include "stepd/base/fs.h"
#include "stepd/state/steps.h"

/* For a result, a log, and what the store writes meanwhile. */
#define SPACE_LEAST (1u << 20) /* bytes */

/* ---- jobs --------------------------------------------------------------------------------------
 */

bool run_is_remote(const struct run *run, const node_record_t *node)
{
	return run->options.launcher && strcmp(node->name, run->host) != 0;
}

static struct agent *agent_free(struct agent *a)
{
	if (a)
		agent_clear(a);
	free(a);
	return NULL;
}

static void run_job_free(struct run_job *j)
{
	uint32_t i;

	for (i = 0; i < j->count; i++)
		(void)agent_free(j->agents[i]);
	free(j->agents);
	free(j);
}

/* NULL: no memory. */
static struct agent *add_agent(struct run_job *j, bitoff_t node)
{
	struct agent **grown = reallocarray(j->agents, j->count + 1, sizeof(*grown));
	struct agent *a = grown ? calloc(1, sizeof(*a)) : NULL;

	if (grown)
		j->agents = grown;
	if (!a)
		return NULL;
	*a = (struct agent){.job = j,
		.node = &node_record_table_ptr[node],
		.batch = j->count == 0 && j->job->request.script,
		.process = PIDREF_INIT,
		.ready_fd = -1,
		.spec_fd = -1,
		.exit_code = -1};
	a->remote = run_is_remote(j->run, a->node);
	calls_init(&a->calls, a);
	j->agents[j->count++] = a;
	return a;
}

static struct agent *find_agent(const struct run_job *j, bitoff_t node)
{
	uint32_t i;

	for (i = 0; i < j->count; i++) {
		if (j->agents[i]->node->index == (uint32_t)node)
			return j->agents[i];
	}
	return NULL;
}

/* For nodes that have none; that of the script, which is of the first one, comes before. */
static int add_agents(struct run_job *j, const bitstr_t *nodes, bool leaves)
{
	struct agent *a;
	bitoff_t i = 0;

	for (; nodes && (i = bit_ffs_from_bit(nodes, i)) >= 0; i++) {
		if (find_agent(j, i))
			continue;
		a = add_agent(j, i);
		if (!a)
			return -ENOMEM;
		a->leaves = leaves;
	}
	return 0;
}

struct run_job *run_job_new(struct run *run, struct job *job, struct err *err)
{
	const struct job *first = engine_get_component(job, 0);
	struct run_job *j = calloc(1, sizeof(*j));
	int r = j ? 0 : -ENOMEM;

	if (r == 0) {
		j->run = run;
		j->job = job;
		j->id = job->record.job_id;
		j->restarts = job->restarts;
		j->status = SIGTERM; /* of one that is ended before it began */
	}
	if (r == 0 && first && first->request.script) {
		if (!add_agent(j, job->batch_node))
			r = -ENOMEM;
		if (r == 0)
			r = add_agents(j, job->record.job_resrcs->node_bitmap, false);
		if (r == 0)
			r = add_agents(j, job->leaving_nodes, true);
	}
	if (r < 0) {
		if (j)
			run_job_free(j);
		(void)err_set(err, r, "start job %u", job->record.job_id);
		return NULL;
	}
	job->runner_data = j;
	return j;
}

static void want_turn(struct run *run)
{
	if (ev_is_active(&run->work_timer))
		return;
	ev_timer_set(&run->work_timer, 0., 0.);
	ev_timer_start(run->options.loop, &run->work_timer);
}

void run_want_work(struct run_job *j)
{
	struct run *run = j->run;

	if (j->has_work)
		return;
	j->has_work = true;
	j->next_work = NULL;
	*run->work_end = j;
	run->work_end = &j->next_work;
	want_turn(run);
}

static bool is_alive(const struct agent *a)
{
	return a->state == AGENT_STARTING || a->state == AGENT_RUNNING;
}

/* It is, on a node that the job has. */
static bool is_present(const struct agent *a)
{
	return is_alive(a) && !a->leaves;
}

static bool is_completing(const struct run_job *j)
{
	return j->job->record.job_state & JOB_COMPLETING;
}

/* ---- what the engine wants ---------------------------------------------------------------------
 */

static int on_start(struct job *job, void *userdata, struct err *err)
{
	struct run_job *j = run_job_new(userdata, job, err);

	if (!j)
		return err_set(err, -ENOMEM, "start job %u", job->record.job_id);
	run_want_work(j);
	return 0;
}

static void job_end_steps(struct run_job *j);

static void signal_agent(struct agent *a, int signal)
{
	/* Until its tasks run it can only be ended itself, and ends them. */
	if (a->state != AGENT_STARTING || signal != SIGKILL)
		calls_add(a, CALL_SIGNAL, signal);
	else if (pidref_signal(&a->process, SIGTERM) < 0)
		log_debug(a->job->run->options.log, "job %u: an agent has just ended", a->job->id);
}

/* To the agent of the batch script, where all of its step is not meant. */
static void signal_batch_agent(struct agent *a, int signal, enum job_signal_target target)
{
	calls_add(a, target == JOB_SIGNAL_BATCH ? CALL_SIGNAL_SCRIPT : CALL_SIGNAL_STEPS, signal);
}

static void on_signal(struct job *job, int signal, enum job_signal_target target, void *userdata)
{
	struct run_job *j = job->runner_data;
	uint32_t i;

	(void)userdata;
	if (!j)
		return;
	/* where no script is, nothing ends by itself */
	if (is_completing(j) && signal == SIGKILL && !job->request.script)
		job_end_steps(j);
	if (is_completing(j) && (signal == SIGTERM || signal == SIGKILL)) {
		for (i = 0; i < j->count && !is_alive(j->agents[i]); i++)
			;
		j->ending = j->ending || i == j->count; /* nothing to be waited for */
		run_want_work(j);
	}
	for (i = 0; i < j->count; i++) {
		struct agent *a = j->agents[i];

		if (!is_alive(a) || (!a->batch && target == JOB_SIGNAL_BATCH))
			continue;
		if (a->batch && target != JOB_SIGNAL_BOTH) {
			signal_batch_agent(a, signal, target);
			continue;
		}
		/* stopped processes can't act on a signal */
		if (is_completing(j) && signal == SIGCONT && (a->stands || a->changes))
			run_change_agent(a, false);
		signal_agent(a, signal);
	}
}

void run_change_agent(struct agent *a, bool suspend)
{
	a->changes++;
	calls_add(a, suspend ? CALL_SUSPEND : CALL_RESUME, 0);
}

static void begin_change(struct run_job *j, enum change change)
{
	uint32_t i;

	if (!j)
		return;
	j->change = change;
	j->taken_back = false;
	j->change_error = 0;
	for (i = 0; i < j->count; i++) {
		if (is_present(j->agents[i]))
			run_change_agent(j->agents[i], change == CHANGE_SUSPEND);
	}
	run_want_work(j);
}

static void on_suspend(struct job *job, _unused_ void *userdata)
{
	begin_change(job->runner_data, CHANGE_SUSPEND);
}

static void on_resume(struct job *job, _unused_ void *userdata)
{
	begin_change(job->runner_data, CHANGE_RESUME);
}

static void update_limits(struct run_job *j)
{
	uint32_t i;

	for (i = 0; i < j->count; i++) {
		json_auto_t *limits =
			is_present(j->agents[i]) ? spec_make_limits(j->agents[i]) : NULL;

		if (json_object_size(limits) > 0)
			calls_add(j->agents[i], CALL_LIMITS, 0);
	}
}

/* Agents that are missing are started as those of a new job. */
static void on_grow(struct job *job, _unused_ void *userdata)
{
	struct run_job *j = job->runner_data;

	if (!j || j->count == 0)
		return;
	if (add_agents(j, job->record.job_resrcs->node_bitmap, false) < 0)
		log_error(j->run->options.log,
			"job %u: out of memory for the agents of nodes that it got, ignoring",
			j->id);
	update_limits(j);
	j->begun = false;
	run_want_work(j);
}

static void agent_leave(struct agent *a)
{
	a->leaves = true;
	if (is_alive(a))
		calls_add(a, CALL_TERMINATE, 0);
	else if (a->state == AGENT_WAITS)
		agent_refuse_spec(a);
	else
		a->state = AGENT_ENDED;
}

static bool on_leave(struct job *job, uint32_t node, _unused_ void *userdata)
{
	struct run_job *j = job->runner_data;
	struct agent *a = j ? find_agent(j, node) : NULL;

	if (!a)
		return false;
	agent_leave(a);
	update_limits(j);
	run_want_work(j);
	return true;
}

/* The engine may be within a call of on_work(): memory goes later. Files go when the store has the
 * job's end. */
static void on_forget(struct job *job, void *userdata)
{
	struct run *run = userdata;
	struct run_job *j = job->runner_data;

	job->runner_data = NULL;
	if (!j)
		return;
	j->job = NULL;
	j->next_forgotten = run->forgotten;
	run->forgotten = j;
	run_want_work(j);
}

const struct engine_runner run_functions = {
	.start = on_start,
	.signal = on_signal,
	.suspend = on_suspend,
	.resume = on_resume,
	.grow = on_grow,
	.leave = on_leave,
	.forget = on_forget,
};

/* ---- calls that have ended ---------------------------------------------------------------------
 */

void run_call_ended(struct agent *a, const struct call *call, int r, const char *why)
{
	static const char *const verbs[] = {[CALL_SIGNAL] = "signalled",
		[CALL_SIGNAL_SCRIPT] = "signalled",
		[CALL_SIGNAL_STEPS] = "signalled",
		[CALL_SUSPEND] = "suspended",
		[CALL_RESUME] = "resumed",
		[CALL_TERMINATE] = "ended",
		[CALL_LIMITS] = "given other limits"};
	struct run_job *j = a->job;

	/* It, or the process to be signalled, has just ended. */
	if (r == -EBUSY && call->kind != CALL_SUSPEND)
		r = -ESRCH;
	if (r < 0 && r != -ESRCH)
		log_warning(j->run->options.log, "job %u can't be %s on node %s: %s", j->id,
			verbs[call->kind], a->node->name, why);
	if (call->kind != CALL_SUSPEND && call->kind != CALL_RESUME)
		return;
	a->changes--;
	if (r == 0)
		a->stands = call->kind == CALL_SUSPEND;
	else if (r != -ESRCH && j->change_error == 0)
		j->change_error = r;
	run_want_work(j);
}

/* ---- starts ------------------------------------------------------------------------------------
 */

static void agent_fail(struct agent *a, const char *why)
{
	a->lost = true;
	(void)snprintf(a->why, sizeof(a->why), "%.*s", (int)sizeof(a->why) - 1, why);
	agent_refuse_spec(a);
	if (a->state == AGENT_NONE)
		a->state = AGENT_ENDED;
}

/* Something that jobd lacks, not the node. */
static bool is_own_want(int r)
{
	return r == -ENOSPC || r == -EDQUOT || r == -EROFS || r == -ENOMEM || r == -EAGAIN ||
		r == -EMFILE || r == -ENFILE;
}

/* A step whose result could not be written would be taken for lost. */
static int check_space(const struct run *run, struct err *err)
{
	struct statvfs fs;

	if (fstatvfs(run->dir_fd, &fs) < 0 || (uint64_t)fs.f_bavail * fs.f_frsize >= SPACE_LEAST)
		return 0;
	return err_set_text(err, -ENOSPC,
		"the file system of '%s' has less than %u KiB left: make space there", run->dir,
		SPACE_LEAST >> 10);
}

static int start_agent(struct agent *a, struct err *err)
{
	int r = check_space(a->job->run, err);

	return r < 0 ? r : agent_spawn(a, err);
}

/* Those that are not there yet: all of a new job. */
static void job_spawn(struct run_job *j)
{
	struct err err = ERR_INIT;
	uint32_t i;
	int r;

	j->begun = true;
	j->ending = j->ending || (j->count && j->agents[0]->state == AGENT_ENDED) ||
		(is_completing(j) && j->count && j->agents[0]->state == AGENT_NONE);
	for (i = 0; i < j->count; i++) {
		struct agent *a = j->agents[i];

		if (a->state != AGENT_NONE)
			continue;
		if (j->ending) {
			a->state = AGENT_ENDED; /* see_ends() ends those that were found again */
			a->status = j->status;
		} else if ((r = start_agent(a, &err)) < 0) {
			j->refused = j->refused || is_own_want(r);
			agent_fail(a, err.text);
			j->ending = true;
		}
	}
}

static int store_agents(struct run_job *list, struct err *err)
{
	struct run_job *j;
	uint32_t i;
	int r = 0;

	for (j = list; j && r == 0; j = j->next_work) {
		for (i = 0; i < j->count && r == 0; i++) {
			if (j->agents[i]->state == AGENT_WAITS && !j->agents[i]->stored)
				r = agent_store(j->agents[i], err);
		}
	}
	return r;
}

static void fail_unstored(struct run_job *list, const char *why)
{
	struct run_job *j;
	uint32_t i;

	for (j = list; j; j = j->next_work) {
		for (i = 0; i < j->count; i++) {
			if (j->agents[i]->state != AGENT_WAITS)
				continue;
			j->refused = true;
			agent_fail(j->agents[i], why);
		}
	}
}

/* In one transaction for all jobs that start now. */
static void store_starts(struct run *run)
{
	struct err err = ERR_INIT;
	int r;

	if (!run->options.store)
		return;
	r = store_begin(run->options.store, &err);
	if (r == 0) {
		r = store_agents(run->work, &err);
		if (r == 0)
			r = store_commit(run->options.store, &err);
		else
			store_rollback(run->options.store);
	}
	if (r < 0)
		fail_unstored(run->work, err.text);
}

static bool components_are_ready(const struct run_job *j)
{
	uint32_t i, k;

	for (i = 1; i < engine_count_components(j->job); i++) {
		const struct job *one = engine_get_component(j->job, i);
		const struct run_job *other = one ? one->runner_data : NULL;

		if (!other || !other->begun)
			return false;
		for (k = 0; k < other->count; k++) {
			if (other->agents[k]->state != AGENT_RUNNING && !other->agents[k]->leaves)
				return false;
		}
	}
	return true;
}

/* A component may be what the script of the first one waits for. */
static void wake_script(const struct run_job *j)
{
	const struct job *first = j->job ? engine_get_component(j->job, 0) : NULL;
	struct run_job *other = first && first != j->job ? first->runner_data : NULL;

	if (other && other->count && other->agents[0]->state == AGENT_WAITS)
		run_want_work(other);
}

/* The script begins when all other nodes are ready for it. */
static void send_specs(struct run_job *j)
{
	bool ready = true;
	uint32_t i;

	for (i = j->count; i-- > 0;) {
		struct agent *a = j->agents[i];

		if (a->state == AGENT_WAITS && (j->ending || a->lost))
			agent_refuse_spec(a);
		else if (a->state == AGENT_WAITS &&
			(!a->batch || (ready && components_are_ready(j))))
			agent_send_spec(a);
		ready = ready && (a->state == AGENT_RUNNING || a->leaves);
	}
}

/* ---- ends --------------------------------------------------------------------------------------
 */

/* Its script has ended, or never begins. */
static void job_end_steps(struct run_job *j)
{
	uint32_t i;

	j->ending = true;
	for (i = 0; i < j->count; i++) {
		if (!j->agents[i]->batch && is_present(j->agents[i]))
			calls_add(j->agents[i], CALL_TERMINATE, 0);
	}
	send_specs(j);
}

static void report_failure(struct run_job *j, const struct agent *a)
{
	const char *why = a->lost ? a->why : "what held the job's steps there has ended";
	bool known = j->ending && a->state == AGENT_ENDED && !a->lost;

	job_end_steps(j);
	if (is_completing(j) || known)
		return;
	j->run->reported = true;
	if (j->refused)
		engine_job_refused(j->run->engine, j->job, why);
	else
		engine_node_failed(j->run->engine, j->job, a->node->index, why);
}

/* The memory of the job there was used up, and its agent has ended its processes: the node is fine.
 */
static void report_out_of_memory(struct run_job *j, const struct agent *a)
{
	char why[128];

	if (is_completing(j))
		return;
	(void)snprintf(
		why, sizeof(why), "it has used more than its memory on node %.64s", a->node->name);
	log_info(j->run->options.log, "job %u is ended: %s", j->id, why);
	j->run->reported = true;
	engine_job_out_of_memory(j->run->engine, j->job, why);
}

static void script_ended(struct run_job *j, const struct agent *a)
{
	if (a->lost && !a->users_fault) {
		report_failure(j, a);
		return;
	}
	j->status = a->lost ? W_EXITCODE(EXIT_FAILURE, 0) : a->status;
	j->out_of_memory = a->out_of_memory;
	if (a->lost) {
		log_info(j->run->options.log, "job %u could not begin: %s", j->id, a->why);
		engine_job_describe(j->job, a->why);
	}
	job_end_steps(j);
}

static void report_left(struct run_job *j, const struct agent *a)
{
	j->run->reported = true;
	engine_node_left(j->run->engine, j->job, a->node->index);
}

static void see_ends(struct run_job *j)
{
	uint32_t i;

	for (i = 0; i < j->count && j->job; i++) {
		struct agent *a = j->agents[i];

		if (a->state != AGENT_ENDED || a->seen)
			continue;
		a->seen = true;
		if (a->leaves)
			report_left(j, a);
		else if (a->batch)
			script_ended(j, a);
		else if (a->out_of_memory && !a->lost)
			report_out_of_memory(j, a);
		else if (!j->ending || a->lost)
			report_failure(j, a);
	}
}

static void report_end(struct run_job *j)
{
	uint32_t i;

	for (i = 0; i < j->count && j->agents[i]->state == AGENT_ENDED; i++)
		;
	if (i < j->count || !j->ending || j->ended)
		return;
	j->ended = true;
	j->run->reported = true;
	engine_job_ended(j->run->engine, j->job, j->status, j->out_of_memory);
}

/* ---- suspension --------------------------------------------------------------------------------
 */

/* All nodes, or none. */
static void take_back(struct run_job *j)
{
	bool suspended = j->change == CHANGE_SUSPEND;
	uint32_t i;

	j->taken_back = true;
	for (i = 0; i < j->count; i++) {
		struct agent *a = j->agents[i];

		if (is_present(a) && a->stands == suspended)
			run_change_agent(a, !suspended);
	}
}

static bool is_changing(const struct run_job *j)
{
	uint32_t i;

	for (i = 0; i < j->count && (j->agents[i]->changes == 0 || j->agents[i]->leaves); i++)
		;
	return i < j->count;
}

static void see_change(struct run_job *j)
{
	enum change change = j->change;

	if (change == CHANGE_NONE || is_changing(j))
		return;
	if (j->change_error < 0 && !j->taken_back)
		take_back(j);
	if (is_changing(j))
		return;
	j->change = CHANGE_NONE;
	j->run->reported = true;
	if (change == CHANGE_SUSPEND)
		engine_job_suspended(j->run->engine, j->job, j->change_error);
	else
		engine_job_resumed(j->run->engine, j->job, j->change_error);
}

/* ---- the loop ----------------------------------------------------------------------------------
 */

static void job_work(struct run_job *j)
{
	if (!j->begun)
		return; /* it came meanwhile: in the next turn */
	if (j->job)
		see_ends(j);
	if (j->job)
		send_specs(j);
	wake_script(j);
	if (j->job)
		see_change(j);
	if (j->job)
		report_end(j);
}

static void clear_forgotten(struct run *run, bool all)
{
	struct run_job **place = &run->forgotten, *j;
	uint32_t i;

	while ((j = *place)) {
		if (j->has_work && !all) {
			place = &j->next_forgotten;
			continue;
		}
		*place = j->next_forgotten;
		for (i = 0; j->ended && i < j->count; i++)
			agent_remove_files(j->agents[i]);
		run_job_free(j);
	}
}

static struct run_job *take_work(struct run *run)
{
	struct run_job *j = run->work;

	if (!j)
		return NULL;
	run->work = j->next_work;
	if (!run->work)
		run->work_end = &run->work;
	j->has_work = false;
	return j;
}

static void on_work(_unused_ struct ev_loop *loop, ev_timer *w, _unused_ int revents)
{
	struct run *run = w->data;
	struct run_job *j;
	size_t n = 0;

	assert(run);
	for (j = run->work; j; j = j->next_work, n++) {
		if (j->job && !j->begun)
			job_spawn(j);
	}
	store_starts(run);
	for (; n > 0 && (j = take_work(run)); n--)
		job_work(j);
	clear_forgotten(run, false);
	if (run->work)
		want_turn(run);
	if (run->reported && run->options.on_report) {
		run->reported = false;
		run->options.on_report(run->options.userdata);
	}
}

/* ---- life --------------------------------------------------------------------------------------
 */

static int check_launcher(const char *launcher, struct err *err)
{
	if (!launcher ||
		(strstr(launcher, "%h") && (strstr(launcher, "%c") || strstr(launcher, "%q"))))
		return 0;
	return err_set_text(err, -EINVAL,
		"the launcher '%.200s' needs %%h, the host, and %%c or %%q, the command to run "
		"there",
		launcher);
}

/* The program that the shell would run: free(); NULL: none, or out of memory. */
static char *find_in_path(const char *name)
{
	const char *path = getenv("PATH");
	_cleanup_free_ char *copy = strdup(path ?: "/usr/bin:/bin"), *file = NULL;
	char *rest = copy, *dir;

	while ((dir = strsep(&rest, ":"))) {
		if (asprintf(&file, "%s/%s", *dir ? dir : ".", name) < 0) {
			file = NULL;
			return NULL;
		}
		if (access(file, X_OK) == 0)
			return take_ptr(file);
		free(file);
		file = NULL;
	}
	return NULL;
}

/* Only regular files are checked: the command reports others. */
static int check_launcher_file(const char *path, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	return fs_check_file(fd, path, err) < 0 ? err_prefix(err, "the launcher") : 0;
}

/* The program, and files that are named by absolute paths, as in "sh /etc/launch %h %q". A word of
 * the shell's own, with quotes or variables, is left out. */
static int check_launcher_files(const char *launcher, struct err *err)
{
	_cleanup_free_ char *copy = strdup(launcher), *found = NULL;
	char *rest = copy, *word;
	bool first = true;
	int r = copy ? 0 : err_set(err, -ENOMEM, "check the launcher");

	while (r == 0 && (word = strsep(&rest, " \t\n"))) {
		if (!*word || strpbrk(word, "'\"\\$`;&|<>()*?[]{}#~=%!"))
			continue;
		if (word[0] == '/' || (first && strchr(word, '/')))
			r = check_launcher_file(word, err);
		else if (first && (found = find_in_path(word)))
			r = check_launcher_file(found, err);
		first = false;
	}
	return r;
}

static int find_programs(struct run *run, struct err *err)
{
	const char *stepd = run->options.stepd, *slash = stepd ? strrchr(stepd, '/') : NULL;
	int n;

	run->stepd = strdup(stepd ?: STEPD_PROGRAM);
	if (slash)
		n = asprintf(&run->stepctl, "%.*s/stepctl", (int)(slash - stepd), stepd);
	else
		n = asprintf(&run->stepctl, "%s", STEPCTL_PROGRAM);
	if (n < 0)
		run->stepctl = NULL;
	return run->stepd && run->stepctl ? 0 : err_set(err, -ENOMEM, "find the agent's program");
}

static int find_host(struct run *run, struct err *err)
{
	char host[HOST_NAME_MAX + 1] = "";

	if (gethostname(host, sizeof(host) - 1) < 0)
		return err_set(err, -errno, "read the host's name");
	host[strcspn(host, ".")] = '\0';
	run->host = strdup(host);
	return run->host ? 0 : err_set(err, -ENOMEM, "read the host's name");
}

static int read_boot_id(struct run *run, struct err *err)
{
	static const char file[] = "/proc/sys/kernel/random/boot_id";
	_cleanup_free_ char *text = NULL;
	int r = fs_read(AT_FDCWD, file, BOOT_ID_SIZE - 1, &text, NULL);

	if (r < 0)
		return err_set(err, r, "read '%s'", file);
	text[strcspn(text, " \n")] = '\0';
	(void)snprintf(run->boot_id, sizeof(run->boot_id), "%s", text);
	return 0;
}

static int open_files(struct run *run, struct err *err)
{
	if (asprintf(&run->dir, "%s/run", run->options.state_dir) < 0) {
		run->dir = NULL;
		return err_set(err, -ENOMEM, "open '%s'", run->options.state_dir);
	}
	if (mkdir(run->dir, 0700) < 0 && errno != EEXIST)
		return err_set(err, -errno, "make the directory '%s'", run->dir);
	run->dir_fd = open(run->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (run->dir_fd < 0)
		return err_set(err, -errno, "open '%s'", run->dir);
	return fs_check_trusted(run->dir_fd, run->dir, err);
}

int run_new(const struct run_options *options, struct run **ret_run, struct err *err)
{
	_cleanup_run_ struct run *run = calloc(1, sizeof(*run));
	int r = check_launcher(options->launcher, err);

	if (!run)
		return err_set(err, -ENOMEM, "prepare to run jobs");
	run->options = *options;
	run->options.cluster_name = NULL; /* run->cluster_name */
	run->dir_fd = -1;
	run->work_end = &run->work;
	ev_timer_init(&run->work_timer, on_work, 0., 0.);
	run->work_timer.data = run;
	if (r == 0 && options->launcher && geteuid() == 0)
		r = check_launcher_files(options->launcher, err);
	if (r == 0)
		r = find_programs(run, err);
	/* jobd.conf may be read again meanwhile, and is another one then */
	if (r == 0 && options->cluster_name && !(run->cluster_name = strdup(options->cluster_name)))
		r = err_set(err, -ENOMEM, "prepare to run jobs");
	if (r == 0)
		r = find_host(run, err);
	if (r == 0)
		r = read_boot_id(run, err);
	if (r == 0)
		r = steps_find_dir(options->runtime_dir, &run->runtime_dir, err);
	if (r == 0)
		r = open_files(run, err);
	if (r == 0)
		r = spec_probe(run, err);
	if (r < 0)
		return r;
	*ret_run = take_ptr(run);
	return 0;
}

void run_set_engine(struct run *run, struct engine *engine)
{
	run->engine = engine;
}

struct run *run_free(struct run *run)
{
	if (!run)
		return NULL;
	clear_forgotten(run, true);
	ev_timer_stop(run->options.loop, &run->work_timer);
	run->dir_fd = close_fd(run->dir_fd);
	free(run->stepd);
	free(run->stepctl);
	free(run->cluster_name);
	free(run->runtime_dir);
	free(run->host);
	free(run->dir);
	free(run->cpus);
	free(run);
	return NULL;
}
