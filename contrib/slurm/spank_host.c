/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/spank_host.h"

#include <dlfcn.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "stepd/base/json.h"

#define SLURM_PLUGIN_NAME_INVALID 1011
#define SLURM_EXECVE_FAILED       4020
#define STEP_FAILED               (-1) /* SLURM_ERROR */

/* A task that a plugin fails ends so, as with slurmstepd. */
#define TASK_FAILED 1

struct spank_host spank_host = {.fd = -1, .node = "", .failure = -1};

/* ---- plugins ------------------------------------------------------------------------------- */

/* Vectors of the process's life, as plugins may hold them. */
static char **make_vector(const json_t *array, int *ret_count)
{
	size_t n = json_array_size(array), i;
	char **v = calloc(n + 1, sizeof(*v));

	for (i = 0; v && i < n; i++) {
		v[i] = strdup(json_string_value(json_array_get(array, i)));
		if (!v[i])
			return NULL;
	}
	*ret_count = (int)n;
	return v;
}

/* Functions that are only called elsewhere need not be there, as with slurmstepd. */
static bool open_plugin(struct spank_plugin *p)
{
	const uint32_t *version;
	uint32_t release = spank_release();

	p->library = dlopen(p->path, RTLD_LAZY);
	if (!p->library) {
		spank_error("spank: %s", dlerror());
		return false;
	}
	version = dlsym(p->library, "plugin_version");
	if (version && (*version & SPANK_VERSION_MASK) == release)
		return true;
	spank_error("spank: %s was not made for Slurm %u.%02u", p->path, release >> 16,
		release >> 8 & 0xff);
	(void)dlclose(p->library); /* what can't be unloaded stays */
	return false;
}

static bool load_plugin(struct spank_plugin *p)
{
	const struct spank_option *option;
	int (*init)(void);
	int hook;

	if (!open_plugin(p))
		return false;
	p->name = dlsym(p->library, "plugin_name");
	*(void **)&init = dlsym(p->library, "init");
	if (!p->name || (init && init() != 0))
		return false;
	for (hook = 0; hook < SPANK_HOOK_STEP_MAX; hook++)
		*(void **)&p->hooks[hook] =
			dlsym(p->library, spank_hook_symbol((enum spank_hook)hook));
	p->init_failure = dlsym(p->library, "slurm_spank_init_failure_mode");
	for (option = dlsym(p->library, "spank_options"); option && option->name; option++)
		(void)spank_register(p, option); /* as Slurm: the others are there */
	return true;
}

static bool take_plugin(const json_t *entry, struct spank_plugin *p)
{
	const char *path = json_string_value(json_object_get(entry, "path")), *slash;

	if (!path)
		return false;
	slash = strrchr(path, '/');
	*p = (struct spank_plugin){.path = path,
		.base = slash ? slash + 1 : path,
		.where = json_string_value(json_object_get(entry, "where")),
		.required = json_is_true(json_object_get(entry, "required"))};
	p->argv = make_vector(json_object_get(entry, "args"), &p->argc);
	return p->argv && p->where;
}

/* False: a required one can't be loaded. */
static bool load_plugins(void)
{
	const json_t *array = json_object_get(spank_host.facts, "plugins"), *entry;
	size_t i;

	spank_host.plugins = calloc(json_array_size(array) + 1, sizeof(*spank_host.plugins));
	if (!spank_host.plugins)
		return false;
	json_array_foreach (array, i, entry) {
		struct spank_plugin *p = &spank_host.plugins[spank_host.plugins_count];

		if (!take_plugin(entry, p))
			return false;
		if (load_plugin(p)) {
			spank_host.plugins_count++;
		} else if (p->required) {
			spank_error("spank: %s: Failed to load plugin %s. Aborting.", p->where,
				p->path);
			return false;
		}
	}
	return true;
}

static void unload_plugins(void)
{
	void (*fini)(void);
	size_t i;

	for (i = 0; i < spank_host.plugins_count; i++) {
		*(void **)&fini = dlsym(spank_host.plugins[i].library, "fini");
		if (fini)
			fini();
		(void)dlclose(spank_host.plugins[i].library); /* what can't be unloaded stays */
	}
	spank_host.plugins_count = 0;
}

/* ---- calls --------------------------------------------------------------------------------- */

/* A negative number if it is a failure: before 25.05 only negative ones were; from then on a plugin
 * may also choose that its init can't fail the step. */
static int note_failure(const struct spank_plugin *p, enum spank_hook phase, int returned)
{
	bool from_plugin = phase == SPANK_HOOK_INIT && p->init_failure;

	spank_error("spank: required plugin %s: %s() failed with rc=%d", p->base,
		spank_hook_symbol(phase) + strlen("slurm_spank_"), returned);
	if (spank_release() < SPANK_25_05)
		return returned;
	spank_host.failure = from_plugin ? *p->init_failure : returned;
	return spank_host.failure ? -1 : 0;
}

/* In the order of plugstack.conf. What a required one returns ends the call. */
static int call_plugins(enum spank_hook phase, const stepd_step_hook_t *at)
{
	struct spank_handle handle = {.magic = SPANK_MAGIC, .phase = phase, .at = at};
	size_t i;
	int r;

	spank_host.phase = phase;
	for (i = 0; i < spank_host.plugins_count; i++) {
		const struct spank_plugin *p = &spank_host.plugins[i];

		if (!p->hooks[phase])
			continue;
		handle.plugin = p;
		r = p->hooks[phase](&handle, p->argc, p->argv);
		if (r && p->required)
			return note_failure(p, phase, r);
	}
	return 0;
}

/* Once nothing can be changed any more there is still what was. */
static void keep_env(char **env)
{
	size_t n = 0, i;

	while (env[n])
		n++;
	for (i = 0; spank_host.env && spank_host.env[i]; i++)
		free(spank_host.env[i]);
	free(spank_host.env);
	spank_host.env = calloc(n + 1, sizeof(*env));
	for (i = 0; spank_host.env && i < n; i++)
		spank_host.env[i] = strdup(env[i]);
}

/* ---- the hooks ----------------------------------------------------------------------------- */

static int take_facts(const stepd_step_rec_t *step)
{
	const json_t *groups, *entry;
	size_t i;

	spank_host.node = spank_fact_text("node");
	spank_host.argv = make_vector(json_object_get(spank_host.facts, "argv"), &spank_host.argc);
	spank_host.tasks_count = step->node_tasks;
	spank_host.tasks = calloc((size_t)step->node_tasks + 1, sizeof(*spank_host.tasks));
	groups = json_object_get(spank_host.facts, "groups");
	spank_host.groups = calloc(json_array_size(groups) + 1, sizeof(*spank_host.groups));
	if (!spank_host.node || !spank_host.argv || !spank_host.tasks || !spank_host.groups)
		return -ENOMEM;
	for (i = 0; i < spank_host.tasks_count; i++)
		spank_host.tasks[i].pid = -1;
	json_array_foreach (groups, i, entry)
		spank_host.groups[spank_host.groups_count++] = (gid_t)json_integer_value(entry);
	return 0;
}

/* An extern step has no environment but what plugins put there. */
static int make_extern(const stepd_step_rec_t *step)
{
	uint32_t node = (uint32_t)spank_fact_number("node_id");

	spank_host.is_extern = true;
	spank_host.extern_task = (stepd_step_task_info_t){.gtid = node, .pid = -1};
	spank_host.extern_step = *step;
	spank_host.extern_step.nodeid = node;
	spank_host.extern_step.node_tasks = 1;
	spank_host.extern_step.task = &spank_host.extern_task;
	spank_host.env = calloc(1, sizeof(*spank_host.env));
	return spank_host.env ? 0 : -ENOMEM;
}

/* What plugins get of the step. */
static stepd_step_hook_t hook_for_plugins(const stepd_step_hook_t *hook)
{
	const stepd_step_hook_t extern_hook = {.step = &spank_host.extern_step};

	return spank_host.is_extern ? extern_hook : *hook;
}

static int init_plugins(const stepd_step_hook_t *hook)
{
	if (!load_plugins() || call_plugins(SPANK_HOOK_INIT, hook) < 0)
		return -1;
	spank_apply_options(hook->env ? hook->env : &spank_host.env);
	return call_plugins(SPANK_HOOK_INIT_POST_OPT, hook);
}

static int on_begin(const stepd_step_hook_t *hook, int fd)
{
	stepd_step_hook_t at;
	int r;

	spank_host.fd = fd;
	r = spank_facts_read(fd);
	if (r == 0 && json_is_true(json_object_get(spank_host.facts, "extern")))
		r = make_extern(hook->step);
	at = hook_for_plugins(hook);
	if (r == 0)
		r = take_facts(at.step);
	if (r < 0)
		return r;
	r = init_plugins(&at);
	if (at.env)
		keep_env(*at.env);
	if (r >= 0)
		return 0;
	spank_error("Plugin stack initialization failed.");
	/* Then it is the step's error. */
	spank_report_failure(
		spank_release() >= SPANK_25_05 ? spank_host.failure : SLURM_PLUGIN_NAME_INVALID);
	return -1;
}

static int on_before_tasks(const stepd_step_hook_t *hook)
{
	int r;

	spank_host.shows_messages = true; /* the streams are there */
	r = call_plugins(SPANK_HOOK_USER_INIT, hook);
	keep_env(*hook->env);
	if (r >= 0)
		return 0;
	spank_error("spank_user failed.");
	spank_report_failure(SLURM_EXECVE_FAILED);
	return -1;
}

static int on_task_privileged(const stepd_step_hook_t *hook)
{
	if (call_plugins(SPANK_HOOK_TASK_INIT_PRIVILEGED, hook) >= 0)
		return 0;
	spank_error("spank_task_init_privileged failed");
	return TASK_FAILED;
}

/* Slurm's own step goes on, too; from 23.11 on slurmd ends the job for it. */
static int on_extern_started(const stepd_step_hook_t *hook)
{
	const stepd_step_hook_t at = hook_for_plugins(hook);

	if (call_plugins(SPANK_HOOK_TASK_POST_FORK, &at) >= 0)
		return 0;
	spank_error("spank extern task post-fork failed");
	if (spank_release() < SPANK_23_11)
		return 0;
	spank_report_failure(STEP_FAILED);
	return -1;
}

/* All have their pids when the first function is called. */
static int on_task_forked(const stepd_step_hook_t *hook)
{
	uint32_t i;

	if (!hook->task)
		return on_extern_started(hook);
	for (i = 0; i < spank_host.tasks_count; i++)
		spank_host.tasks[i].pid = hook->step->task[i].pid;
	if (call_plugins(SPANK_HOOK_TASK_POST_FORK, hook) >= 0)
		return 0;
	spank_host.failed = true;
	spank_error("spank task %u post-fork failed", hook->task->id);
	spank_report_failure(SLURM_EXECVE_FAILED);
	return -1;
}

static int on_task(const stepd_step_hook_t *hook)
{
	if (call_plugins(SPANK_HOOK_TASK_INIT, hook) >= 0)
		return 0;
	spank_error("Failed to invoke spank plugin stack");
	return TASK_FAILED;
}

static void on_task_ended(const stepd_step_hook_t *hook)
{
	if (spank_host.failed || hook->task->id >= spank_host.tasks_count)
		return;
	spank_host.tasks[hook->task->id].status = hook->wait_status;
	if (call_plugins(SPANK_HOOK_TASK_EXIT, hook) < 0)
		spank_error("Unable to spank task %u at exit", hook->task->id);
}

static void on_end(const stepd_step_hook_t *hook)
{
	const stepd_step_hook_t at = hook_for_plugins(hook);

	/* srun's streams have ended; a script's file is there */
	spank_host.shows_messages = json_is_true(json_object_get(spank_host.facts, "script"));
	if (call_plugins(SPANK_HOOK_EXIT, &at) < 0)
		spank_error("spank_fini failed");
	unload_plugins();
	spank_host.fd = close_fd(spank_host.fd);
}

SPANK_EXPORT const stepd_step_hooks_t stepd_step_hooks = {
	.version = STEPD_STEP_HOOKS_VERSION,
	.begin = on_begin,
	.before_tasks = on_before_tasks,
	.task_privileged = on_task_privileged,
	.task_forked = on_task_forked,
	.task = on_task,
	.task_ended = on_task_ended,
	.end = on_end,
};
