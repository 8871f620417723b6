/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "contrib/slurm/spank_host.h"
#include "stepd/api/env.h"

#define CONTEXT_REMOTE 2

/* What plugins call has the names and types of <slurm/spank.h>. */
SPANK_EXPORT int spank_get_item(struct spank_handle *handle, int item, ...);
SPANK_EXPORT int spank_getenv(struct spank_handle *h, const char *name, char *buffer, int size);
SPANK_EXPORT int spank_setenv(
	struct spank_handle *h, const char *name, const char *value, int overwrite);
SPANK_EXPORT int spank_unsetenv(struct spank_handle *h, const char *name);
SPANK_EXPORT int spank_job_control_getenv(
	struct spank_handle *h, const char *name, char *buffer, int size);
SPANK_EXPORT int spank_job_control_setenv(
	struct spank_handle *h, const char *name, const char *value, int overwrite);
SPANK_EXPORT int spank_job_control_unsetenv(struct spank_handle *h, const char *name);
SPANK_EXPORT int spank_symbol_supported(const char *symbol);
SPANK_EXPORT int spank_remote(struct spank_handle *h);
SPANK_EXPORT int spank_context(void);
SPANK_EXPORT const char *spank_strerror(int error);
SPANK_EXPORT void slurm_error(const char *format, ...) _printf_(1, 2);
SPANK_EXPORT void slurm_info(const char *format, ...) _printf_(1, 2);
SPANK_EXPORT void slurm_verbose(const char *format, ...) _printf_(1, 2);
SPANK_EXPORT void slurm_debug(const char *format, ...) _printf_(1, 2);
SPANK_EXPORT void slurm_debug2(const char *format, ...) _printf_(1, 2);
SPANK_EXPORT void slurm_debug3(const char *format, ...) _printf_(1, 2);
SPANK_EXPORT void slurm_debug4(const char *format, ...) _printf_(1, 2);
SPANK_EXPORT void slurm_debug5(const char *format, ...) _printf_(1, 2);
SPANK_EXPORT void slurm_spank_log(const char *format, ...) _printf_(1, 2);

static bool is_handle(const struct spank_handle *h)
{
	return h && h->magic == SPANK_MAGIC;
}

/* Where nothing can be changed any more there is still what was. */
static char ***env_of(const struct spank_handle *h)
{
	return h->at->env ? h->at->env : &spank_host.env;
}

/* ---- items --------------------------------------------------------------------------------- */

/* In the order of <slurm/spank.h>. */
enum item {
	ITEM_JOB_UID,
	ITEM_JOB_GID,
	ITEM_JOB_ID,
	ITEM_JOB_STEPID,
	ITEM_JOB_NNODES,
	ITEM_JOB_NODEID,
	ITEM_JOB_LOCAL_TASK_COUNT,
	ITEM_JOB_TOTAL_TASK_COUNT,
	ITEM_JOB_NCPUS,
	ITEM_JOB_ARGV,
	ITEM_JOB_ENV,
	ITEM_TASK_ID,
	ITEM_TASK_GLOBAL_ID,
	ITEM_TASK_EXIT_STATUS,
	ITEM_TASK_PID,
	ITEM_JOB_PID_TO_GLOBAL_ID,
	ITEM_JOB_PID_TO_LOCAL_ID,
	ITEM_JOB_LOCAL_TO_GLOBAL_ID,
	ITEM_JOB_GLOBAL_TO_LOCAL_ID,
	ITEM_JOB_SUPPLEMENTARY_GIDS,
	ITEM_SLURM_VERSION,
	ITEM_SLURM_VERSION_MAJOR,
	ITEM_SLURM_VERSION_MINOR,
	ITEM_SLURM_VERSION_MICRO,
	ITEM_STEP_CPUS_PER_TASK,
	ITEM_JOB_ALLOC_CORES,
	ITEM_JOB_ALLOC_MEM,
	ITEM_STEP_ALLOC_CORES,
	ITEM_STEP_ALLOC_MEM,
	ITEM_SLURM_RESTART_COUNT,
	ITEM_JOB_ARRAY_ID,
	ITEM_JOB_ARRAY_TASK_ID,
	ITEM_MAX,
};

/* One call of spank_get_item(): its arguments. */
struct item_call {
	const struct spank_handle *handle;
	const stepd_step_rec_t *step;
	const stepd_step_task_info_t *task; /* NULL: the function is about no task */
	va_list ap;
};

static int put_u32(struct item_call *c, uint32_t value)
{
	*va_arg(c->ap, uint32_t *) = value;
	return SPANK_SUCCESS;
}

static int put_u64(struct item_call *c, uint64_t value)
{
	*va_arg(c->ap, uint64_t *) = value;
	return SPANK_SUCCESS;
}

/* Borrowed, as all texts and vectors. */
static int put_text(struct item_call *c, const char *value)
{
	*va_arg(c->ap, const char **) = value;
	return SPANK_SUCCESS;
}

static int get_ncpus(struct item_call *c)
{
	*va_arg(c->ap, uint16_t *) = (uint16_t)spank_fact_number("cpus");
	return SPANK_SUCCESS;
}

static int get_argv(struct item_call *c)
{
	*va_arg(c->ap, int *) = spank_host.argc;
	*va_arg(c->ap, char ***) = spank_host.argv;
	return SPANK_SUCCESS;
}

static int get_env(struct item_call *c)
{
	*va_arg(c->ap, char ***) = *env_of(c->handle);
	return SPANK_SUCCESS;
}

static int get_groups(struct item_call *c)
{
	*va_arg(c->ap, gid_t **) = spank_host.groups;
	*va_arg(c->ap, int *) = spank_host.groups_count;
	return SPANK_SUCCESS;
}

static int get_task_id(struct item_call *c)
{
	*va_arg(c->ap, int *) = c->task ? (int)c->task->id : -1;
	return c->task ? SPANK_SUCCESS : SPANK_NOT_TASK;
}

static int get_task_global_id(struct item_call *c)
{
	return c->task ? put_u32(c, c->task->gtid) : SPANK_NOT_TASK;
}

static int get_task_status(struct item_call *c)
{
	if (!c->task || c->handle->phase != SPANK_HOOK_TASK_EXIT)
		return SPANK_NOT_TASK;
	*va_arg(c->ap, int *) = spank_host.tasks[c->task->id].status;
	return SPANK_SUCCESS;
}

/* In the task's process there is none, as with slurmstepd, whose copy is from before the fork. */
static int get_task_pid(struct item_call *c)
{
	*va_arg(c->ap, pid_t *) = c->task ? spank_host.tasks[c->task->id].pid : 0;
	return c->task ? SPANK_SUCCESS : SPANK_NOT_TASK;
}

static bool has_pids(enum spank_hook phase)
{
	return phase == SPANK_HOOK_TASK_POST_FORK || phase == SPANK_HOOK_TASK_EXIT ||
		phase == SPANK_HOOK_EXIT;
}

static int find_pid(struct item_call *c, bool global)
{
	pid_t pid = va_arg(c->ap, pid_t);
	uint32_t *ret_id = va_arg(c->ap, uint32_t *), i;

	*ret_id = UINT32_MAX;
	if (!has_pids(c->handle->phase))
		return SPANK_NOT_EXECD;
	for (i = 0; i < spank_host.tasks_count; i++) {
		if (spank_host.tasks[i].pid != pid)
			continue;
		*ret_id = global ? c->step->task[i].gtid : i;
		return SPANK_SUCCESS;
	}
	return SPANK_NOEXIST;
}

static int get_global_of_local(struct item_call *c)
{
	uint32_t local = va_arg(c->ap, uint32_t), *ret_id = va_arg(c->ap, uint32_t *);

	*ret_id = UINT32_MAX;
	if (local >= c->step->node_tasks)
		return SPANK_NOEXIST;
	*ret_id = c->step->task[local].gtid;
	return SPANK_SUCCESS;
}

static int get_local_of_global(struct item_call *c)
{
	uint32_t global = va_arg(c->ap, uint32_t), *ret_id = va_arg(c->ap, uint32_t *), i;

	*ret_id = UINT32_MAX;
	if (global >= spank_fact_number("ntasks"))
		return SPANK_BAD_ARG;
	for (i = 0; i < c->step->node_tasks; i++) {
		if (c->step->task[i].gtid != global)
			continue;
		*ret_id = i;
		return SPANK_SUCCESS;
	}
	return SPANK_NOEXIST;
}

static int get_pid_to_global(struct item_call *c)
{
	return find_pid(c, true);
}

static int get_pid_to_local(struct item_call *c)
{
	return find_pid(c, false);
}

/* A member of the step record, a number or a text of the facts, or what a function puts. */
static const struct {
	size_t step;
	const char *u32, *u64, *text;
	int (*get)(struct item_call *call);
} items[ITEM_MAX] = {
#define OF_STEP(member_) .step = 1 + offsetof(stepd_step_rec_t, member_)
	[ITEM_JOB_UID] = {OF_STEP(uid)},
	[ITEM_JOB_GID] = {OF_STEP(gid)},
	[ITEM_JOB_ID] = {OF_STEP(job_id)},
	[ITEM_JOB_STEPID] = {OF_STEP(step_id)},
	[ITEM_JOB_NNODES] = {.u32 = "nnodes"},
	[ITEM_JOB_NODEID] = {OF_STEP(nodeid)},
	[ITEM_JOB_LOCAL_TASK_COUNT] = {OF_STEP(node_tasks)},
	[ITEM_JOB_TOTAL_TASK_COUNT] = {.u32 = "ntasks"},
	[ITEM_JOB_NCPUS] = {.get = get_ncpus},
	[ITEM_JOB_ARGV] = {.get = get_argv},
	[ITEM_JOB_ENV] = {.get = get_env},
	[ITEM_TASK_ID] = {.get = get_task_id},
	[ITEM_TASK_GLOBAL_ID] = {.get = get_task_global_id},
	[ITEM_TASK_EXIT_STATUS] = {.get = get_task_status},
	[ITEM_TASK_PID] = {.get = get_task_pid},
	[ITEM_JOB_PID_TO_GLOBAL_ID] = {.get = get_pid_to_global},
	[ITEM_JOB_PID_TO_LOCAL_ID] = {.get = get_pid_to_local},
	[ITEM_JOB_LOCAL_TO_GLOBAL_ID] = {.get = get_global_of_local},
	[ITEM_JOB_GLOBAL_TO_LOCAL_ID] = {.get = get_local_of_global},
	[ITEM_JOB_SUPPLEMENTARY_GIDS] = {.get = get_groups},
	[ITEM_SLURM_VERSION] = {.text = "version"},
	[ITEM_SLURM_VERSION_MAJOR] = {.text = "version_major"},
	[ITEM_SLURM_VERSION_MINOR] = {.text = "version_minor"},
	[ITEM_SLURM_VERSION_MICRO] = {.text = "version_micro"},
	[ITEM_STEP_CPUS_PER_TASK] = {.u32 = "cpus_per_task"},
	[ITEM_JOB_ALLOC_CORES] = {.text = "job_cores"},
	[ITEM_JOB_ALLOC_MEM] = {.u64 = "job_memory_mb"},
	[ITEM_STEP_ALLOC_CORES] = {.text = "step_cores"},
	[ITEM_STEP_ALLOC_MEM] = {.u64 = "step_memory_mb"},
	[ITEM_SLURM_RESTART_COUNT] = {.u32 = "restarts"},
	[ITEM_JOB_ARRAY_ID] = {.u32 = "array_job"},
	[ITEM_JOB_ARRAY_TASK_ID] = {.u32 = "array_task"},
};

static int get_item(struct item_call *c, int item)
{
	uint32_t value;

	if (item < 0 || item >= ITEM_MAX)
		return SPANK_BAD_ARG;
	if (items[item].get)
		return items[item].get(c);
	if (items[item].text)
		return put_text(c, spank_fact_text(items[item].text));
	if (items[item].u64)
		return put_u64(c, spank_fact_number(items[item].u64));
	if (items[item].u32)
		return put_u32(c, (uint32_t)spank_fact_number(items[item].u32));
	memcpy(&value, (const char *)c->step + items[item].step - 1, sizeof(value));
	return put_u32(c, value);
}

int spank_get_item(struct spank_handle *handle, int item, ...)
{
	struct item_call call = {.handle = handle};
	int r;

	if (!is_handle(handle))
		return SPANK_BAD_ARG;
	call.step = handle->at->step;
	call.task = handle->at->task;
	va_start(call.ap, item);
	r = get_item(&call, item);
	va_end(call.ap);
	return r;
}

/* ---- the environment ----------------------------------------------------------------------- */

int spank_getenv(struct spank_handle *h, const char *name, char *buffer, int size)
{
	const char *value;

	if (!is_handle(h) || !name || !buffer || size < 0)
		return SPANK_BAD_ARG;
	value = *env_of(h) ? stepd_env_get(*env_of(h), name) : NULL;
	if (!value)
		return SPANK_ENV_NOEXIST;
	return snprintf(buffer, (size_t)size, "%s", value) >= size ? SPANK_NOSPACE : SPANK_SUCCESS;
}

int spank_setenv(struct spank_handle *h, const char *name, const char *value, int overwrite)
{
	if (!is_handle(h) || !name || !value)
		return SPANK_BAD_ARG;
	if (!*env_of(h))
		return SPANK_ERROR;
	if (!overwrite && stepd_env_get(*env_of(h), name))
		return SPANK_ENV_EXISTS;
	return stepd_env_set(env_of(h), name, value) < 0 ? SPANK_ERROR : SPANK_SUCCESS;
}

int spank_unsetenv(struct spank_handle *h, const char *name)
{
	if (!is_handle(h) || !name)
		return SPANK_BAD_ARG;
	if (*env_of(h))
		stepd_env_unset(*env_of(h), name);
	return SPANK_SUCCESS;
}

/* These are srun's. */
int spank_job_control_getenv(
	struct spank_handle *h, _unused_ const char *name, _unused_ char *buffer, _unused_ int size)
{
	return is_handle(h) ? SPANK_NOT_LOCAL : SPANK_BAD_ARG;
}

int spank_job_control_setenv(struct spank_handle *h, _unused_ const char *name,
	_unused_ const char *value, _unused_ int overwrite)
{
	return is_handle(h) ? SPANK_NOT_LOCAL : SPANK_BAD_ARG;
}

int spank_job_control_unsetenv(struct spank_handle *h, _unused_ const char *name)
{
	return is_handle(h) ? SPANK_NOT_LOCAL : SPANK_BAD_ARG;
}

/* ---- the host ------------------------------------------------------------------------------ */

int spank_symbol_supported(const char *symbol)
{
	int hook;

	if (!symbol)
		return -1;
	for (hook = 0; hook < SPANK_HOOK_MAX; hook++) {
		if (strcmp(spank_hook_symbol((enum spank_hook)hook), symbol) == 0)
			return 1;
	}
	return 0;
}

int spank_remote(struct spank_handle *h)
{
	return is_handle(h) ? 1 : -1;
}

int spank_context(void)
{
	return CONTEXT_REMOTE;
}

const char *spank_strerror(int error)
{
	static const char *const texts[] = {
		"SPANK failure",
		"SPANK argument is not valid",
		"SPANK function is about no task",
		"SPANK environment variable exists",
		"SPANK environment variable does not exist",
		"SPANK buffer is too small",
		"SPANK function is only for the remote context",
		"SPANK process or task does not exist",
		"SPANK tasks are not executed yet",
		"SPANK item is not available here",
		"SPANK function is only for the local context",
	};

	if (error == SPANK_SUCCESS)
		return "Success";
	if (error < SPANK_ERROR || error > SPANK_NOT_LOCAL)
		return strerror(error);
	return texts[error - SPANK_ERROR];
}

/* ---- messages ------------------------------------------------------------------------------ */

#define DEFINE_LOG(name_, level_, plain_)                                                          \
	void name_(const char *format, ...)                                                        \
	{                                                                                          \
		va_list ap;                                                                        \
                                                                                                   \
		va_start(ap, format);                                                              \
		spank_vlog(level_, plain_, format, ap);                                            \
		va_end(ap);                                                                        \
	}                                                                                          \
	struct spank_needs_a_semicolon

DEFINE_LOG(slurm_error, SPANK_LEVEL_ERROR, false);
DEFINE_LOG(slurm_info, SPANK_LEVEL_INFO, false);
DEFINE_LOG(slurm_verbose, SPANK_LEVEL_VERBOSE, false);
DEFINE_LOG(slurm_debug, SPANK_LEVEL_DEBUG, false);
DEFINE_LOG(slurm_debug2, SPANK_LEVEL_DEBUG2, false);
DEFINE_LOG(slurm_debug3, SPANK_LEVEL_DEBUG3, false);
DEFINE_LOG(slurm_debug4, SPANK_LEVEL_DEBUG4, false);
DEFINE_LOG(slurm_debug5, SPANK_LEVEL_DEBUG5, false);
DEFINE_LOG(slurm_spank_log, SPANK_LEVEL_ERROR, true);
