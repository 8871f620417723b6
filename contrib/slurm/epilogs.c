/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/epilogs.h"

#include <assert.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/wait.h>

#include "contrib/slurm/task_script.h"
#include "mpi/pmi/manager.h"
#include "stepd/base/json.h"
#include "stepd/base/strv.h"
#include "stepd/cli/relay/supervisor.h"

#define USER_TIME_MS        5000
#define STATUS_NOT_EXECUTED 127
/* No step of Slurm's has such a number, and no two of a job have the same at a time. */
#define STEP_FIRST 4200000000u
#define STEPS_MAX  47000u
#define RUNS_MAX   2000u

/* The epilogs of some tasks. */
struct run {
	LIST_ENTRY(run) link;
	struct epilogs *epilogs;
	struct supervisor *supervisor;
	bool of_site; /* else the user's */
	bool killed;
	uint32_t number;
	uint32_t n;
	uint32_t ids[];
};

struct epilogs {
	struct epilogs_options options;
	LIST_HEAD(, run) runs;
	uint32_t count; /* of the steps so far */
};

/* ---- the spec ------------------------------------------------------------------------------- */

/* What the tasks had, but for their program, their streams and their end. */
static const char *const copied[] = {"job", "name", "node", "ntasks", "uid", "gid", "groups",
	"umask", "mount_namespace", "rlimits", "nice", "env", "env_complete", "cwd"};

static int set(json_t *object, const char *name, json_t *value)
{
	return value && json_object_set_new(object, name, value) == 0 ? 0 : -ENOMEM;
}

static json_t *pack_entry(const struct run *run, uint32_t id)
{
	const struct epilogs_options *o = &run->epilogs->options;
	char local_id[48], node[128];

	(void)snprintf(local_id, sizeof(local_id), "set=SLURM_LOCALID=%u", id);
	(void)snprintf(node, sizeof(node), "node=%s",
		json_get_text(json_object_get(o->doc, "node"), "name", ""));
	return json_pack("{s:I, s:[s, s, s, s, s, s, s]}", "rank", (json_int_t)o->ranks[id], "argv",
		o->task_program, node, local_id, "set=SLURM_SCRIPT_CONTEXT=epilog_task", "epilog",
		"--", run->of_site ? o->site : o->user);
}

static int set_tasks(json_t *doc, const struct run *run)
{
	json_t *tasks = json_array(), *ranks = json_array();
	uint32_t i;
	int r = set(doc, "tasks", tasks);

	if (r == 0)
		r = set(doc, "ranks", ranks);
	else
		json_decref(ranks);
	for (i = 0; r == 0 && i < run->n; i++) {
		if (json_array_append_new(tasks, pack_entry(run, run->ids[i])) < 0 ||
			json_array_append_new(
				ranks, json_integer(run->epilogs->options.ranks[run->ids[i]])) < 0)
			r = -ENOMEM;
	}
	return r;
}

/* What is the PMI server's: the layout, which names all tasks, and the way to its manager. */
static int leave_out(json_t *doc, const char *object, const char *member)
{
	json_t *copy = json_object_get(doc, object);

	if (!json_object_get(copy, member))
		return 0;
	copy = json_copy(copy);
	if (!copy)
		return -ENOMEM;
	(void)json_object_del(copy, member); /* it is there */
	return set(doc, object, copy);
}

static json_t *make_doc(const struct run *run)
{
	static const char *const servers[] = {
		MANAGER_VARIABLE, MANAGER_NSPACE_VARIABLE, MANAGER_TMPDIR_VARIABLE};
	const json_t *of_step = run->epilogs->options.doc;
	json_auto_t *doc = json_object();
	int r = doc ? 0 : -ENOMEM;
	size_t i;

	for (i = 0; r == 0 && i < ARRAY_SIZE(copied); i++) {
		json_t *value = json_object_get(of_step, copied[i]);

		if (value && json_object_set(doc, copied[i], value) < 0)
			r = -ENOMEM;
	}
	if (r == 0)
		r = leave_out(doc, "node", "ranks");
	for (i = 0; r == 0 && i < ARRAY_SIZE(servers); i++)
		r = leave_out(doc, "env", servers[i]);
	if (r == 0)
		r = leave_out(doc, "env", MANAGER_JOB_VARIABLE);
	if (r == 0)
		r = set(doc, "step", json_integer(run->number));
	if (r == 0)
		r = set(doc, "mpi", json_string("none"));
	if (r == 0)
		r = set(doc, "kill_on_bad_exit", json_false());
	if (r == 0)
		r = set(doc, "stdout", json_string("none"));
	if (r == 0)
		r = set(doc, "stderr", json_string("none"));
	if (r == 0 && !run->of_site)
		r = set(doc, "time_limit_ms", json_integer(USER_TIME_MS));
	if (r == 0) /* no grace: the time is up */
		r = set(doc, "kill_sequence", json_pack("[{s:s}]", "signal", "KILL"));
	if (r == 0)
		r = set_tasks(doc, run);
	return r == 0 ? json_incref(doc) : NULL;
}

/* ---- an agent ------------------------------------------------------------------------------- */

static void run_next(struct run *run);

static void run_end(struct run *run)
{
	struct epilogs *e = run->epilogs;

	LIST_REMOVE(run, link);
	run->supervisor = supervisor_free(run->supervisor);
	free(run);
	if (LIST_EMPTY(&e->runs))
		e->options.done(e->options.userdata);
}

static void epilog_on_task_ended(
	_unused_ uint32_t rank, _unused_ int wait_status, _unused_ void *userdata)
{
}

static void epilog_on_report(const char *text, void *userdata)
{
	const struct run *run = userdata;

	assert(run);
	log_warning(run->epilogs->options.log, "task epilog: %s", text);
}

/* It could not be executed. What its status is then. */
static int note_no_access(const struct run *run, int status)
{
	const struct epilogs_options *o = &run->epilogs->options;
	const char *program = run->of_site ? o->site : o->user;
	bool missing = status == TASK_SCRIPT_MISSING << 8, later = o->release >= SLURM_23_02;
	char text[PATH_MAX + 128];

	if (later) {
		(void)snprintf(text, sizeof(text), "execve(%s): %s", program,
			strerror(missing ? ENOENT : EACCES));
		o->note(text, o->userdata);
	}
	if (!later || !missing) {
		(void)snprintf(text, sizeof(text),
			"Could not run %s task_epilog [%s]: access denied",
			run->of_site ? "slurm" : "user", program);
		o->note(text, o->userdata);
	}
	return later ? STATUS_NOT_EXECUTED : -1;
}

/* Users know the sentences, one for each task; from 23.02 on with the exit status alone. */
static void note_failure(const struct run *run, int status)
{
	const struct epilogs_options *o = &run->epilogs->options;
	char text[128];

	if (status == TASK_SCRIPT_NO_ACCESS << 8 || status == TASK_SCRIPT_MISSING << 8)
		status = note_no_access(run, status);
	else if (o->release >= SLURM_23_02 && WIFEXITED(status))
		status = WEXITSTATUS(status);
	(void)snprintf(text, sizeof(text), "%s failed status=%d",
		run->of_site ? "--task-epilog" : "TaskEpilog", status);
	o->note(text, o->userdata);
}

static void note_failures(const struct run *run, const char *text)
{
	json_auto_t *result = text ? json_loads(text, 0, NULL) : NULL;
	const json_t *entry;
	int64_t status;
	size_t i;

	json_array_foreach (json_get_array(result, "tasks"), i, entry) {
		if (json_get_range(entry, "wait_status", 1, INT32_MAX, &status))
			note_failure(run, (int)status);
	}
}

static void epilog_on_ended(_unused_ int exit_code, const char *result, void *userdata)
{
	struct run *run = userdata;

	assert(run);
	note_failures(run, result);
	run->supervisor = supervisor_free(run->supervisor);
	if (run->of_site || run->killed) {
		run_end(run);
	} else {
		run->of_site = true;
		run_next(run);
	}
}

static int start(struct run *run, struct err *err)
{
	static const struct supervisor_events events = {.task_ended = epilog_on_task_ended,
		.report = epilog_on_report,
		.ended = epilog_on_ended};
	const struct epilogs_options *o = &run->epilogs->options;
	_cleanup_close_ int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	json_auto_t *doc = make_doc(run);
	const struct supervisor_start how = {.program = o->program,
		.args = o->args,
		.runtime_dir = o->runtime_dir,
		.doc = doc,
		.stdio = {null_fd, null_fd, o->log->fd >= 0 ? o->log->fd : null_fd}};

	if (null_fd < 0)
		return err_set(err, -errno, "open '/dev/null'");
	return doc ? supervisor_new(o->loop, &how, &events, run, &run->supervisor, err)
		   : err_set(err, -ENOMEM, "run a task epilog");
}

/* The user's and then the site's, as far as there are such. */
static void run_next(struct run *run)
{
	const struct epilogs_options *o = &run->epilogs->options;
	struct err err = ERR_INIT;

	if (!run->of_site && !o->user)
		run->of_site = true;
	run->number =
		STEP_FIRST + o->step % STEPS_MAX * RUNS_MAX + run->epilogs->count++ % RUNS_MAX;
	if (run->of_site && !o->site) {
		run_end(run);
	} else if (start(run, &err) < 0) {
		log_error(o->log, "task epilog: %s", err.text);
		run_end(run);
	}
}

/* ---- all of them ---------------------------------------------------------------------------- */

int epilogs_open(
	const struct epilogs_options *options, struct epilogs **ret_epilogs, struct err *err)
{
	struct epilogs *e = calloc(1, sizeof(*e));

	if (!e)
		return err_set(err, -ENOMEM, "prepare task epilogs");
	e->options = *options;
	LIST_INIT(&e->runs);
	*ret_epilogs = e;
	return 0;
}

void epilogs_run(struct epilogs *e, const uint32_t *ids, uint32_t n)
{
	struct run *run;

	if (!e || n == 0)
		return;
	run = malloc(sizeof(*run) + n * sizeof(*ids));
	if (!run) {
		log_error(e->options.log, "no memory for task epilogs");
		return;
	}
	*run = (struct run){.epilogs = e, .n = n};
	memcpy(run->ids, ids, n * sizeof(*ids));
	LIST_INSERT_HEAD(&e->runs, run, link);
	run_next(run);
}

bool epilogs_are_running(const struct epilogs *e)
{
	return e && !LIST_EMPTY(&e->runs);
}

void epilogs_kill(struct epilogs *e)
{
	struct run *run;

	if (!e)
		return;
	LIST_FOREACH(run, &e->runs, link)
	{
		run->killed = true;
		if (run->supervisor)
			supervisor_terminate(run->supervisor, true);
	}
}

struct epilogs *epilogs_close(struct epilogs *e)
{
	struct run *run;

	while (e && (run = LIST_FIRST(&e->runs))) {
		LIST_REMOVE(run, link);
		run->supervisor = supervisor_free(run->supervisor);
		free(run);
	}
	free(e);
	return NULL;
}
