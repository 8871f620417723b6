/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/launch/hooks.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>

#include "stepd/api/step_hooks.h"
#include "stepd/base/fs.h"
#include "stepd/launch/child.h"
#include "stepd/launch/plan.h"
#include "stepd/process/identity.h"

struct hooks {
	const stepd_step_hooks_t *functions;
	char *library;
	int fd;     /* until the library has it */
	int cwd_fd; /* to go back to; -1: nowhere */
	bool began;
};

/* ---- the library --------------------------------------------------------------------------- */

static struct hooks *hooks_free(struct hooks *hooks)
{
	if (!hooks)
		return NULL;
	/* The library stays mapped: its threads and exit handlers may still be there. */
	hooks->fd = close_fd(hooks->fd);
	hooks->cwd_fd = close_fd(hooks->cwd_fd);
	free(hooks->library);
	free(hooks);
	return NULL;
}

DEFINE_CLEANUP(struct hooks *, hooks_free);

static int check_library(const char *library, struct err *err)
{
	_cleanup_close_ int fd = -1;

	if (geteuid() != 0)
		return err_set_text(
			err, -EPERM, "step hooks '%s': only root's agent has them", library);
	if (library[0] != '/')
		return err_set_text(
			err, -EINVAL, "step hooks '%s': it must be an absolute path", library);
	fd = open(library, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return err_set(err, -errno, "open the step hooks '%s'", library);
	return fs_check_file(fd, library, err);
}

/* For all: plugins that the library loads find its functions, too. */
static int load_library(struct hooks *hooks, struct err *err)
{
	void *handle = dlopen(hooks->library, RTLD_NOW | RTLD_GLOBAL);

	if (!handle)
		return err_set_text(
			err, -ENOEXEC, "load the step hooks '%s': %s", hooks->library, dlerror());
	hooks->functions = dlsym(handle, "stepd_step_hooks");
	if (!hooks->functions)
		return err_set_text(err, -ENOEXEC, "'%s' has no step hooks", hooks->library);
	if (hooks->functions->version != STEPD_STEP_HOOKS_VERSION)
		return err_set_text(err, -EPROTONOSUPPORT,
			"'%s' has step hooks of version %u, this stepd wants %u", hooks->library,
			hooks->functions->version, STEPD_STEP_HOOKS_VERSION);
	return 0;
}

int hooks_open(const char *library, int fd, struct hooks **ret_hooks, struct err *err)
{
	_cleanup_(hooks_free_p) struct hooks *hooks = NULL;
	int r = check_library(library, err);

	if (r < 0)
		return r;
	hooks = calloc(1, sizeof(*hooks));
	if (!hooks)
		return err_set(err, -ENOMEM, "load the step hooks");
	hooks->cwd_fd = -1;
	hooks->fd = fd;
	if (fd >= 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return err_set(err, -errno, "descriptor %d", fd);
	hooks->library = strdup(library);
	if (!hooks->library)
		return err_set(err, -ENOMEM, "load the step hooks");
	r = load_library(hooks, err);
	if (r == 0)
		*ret_hooks = take_ptr(hooks);
	return r;
}

const char *hooks_get_library(const struct hooks *hooks)
{
	return hooks->library;
}

/* ---- the environment ----------------------------------------------------------------------- */

/* A call that may change the environment of the tasks to come. */
struct hook_call {
	int (*run)(const struct hook_call *call);
	struct hooks *hooks;
	stepd_step_hook_t hook;
};

static int run_begin(const struct hook_call *call)
{
	return call->hooks->functions->begin(&call->hook, take_fd(&call->hooks->fd));
}

static int run_before_tasks(const struct hook_call *call)
{
	return call->hooks->functions->before_tasks(&call->hook);
}

static int run_task_privileged(const struct hook_call *call)
{
	return call->hooks->functions->task_privileged(&call->hook);
}

static int run_call(char ***env, void *userdata)
{
	struct hook_call *call = userdata;

	call->hook.env = env;
	return call->run(call);
}

static int fail(const struct hooks *hooks, const char *name, struct err *err)
{
	return err_set_text(err, -ECANCELED, "the step hooks '%s' let the step fail in %s()",
		hooks->library, name);
}

/* ---- in the agent -------------------------------------------------------------------------- */

int hooks_begin(struct hooks *hooks, struct plan *plan, struct err *err)
{
	struct hook_call call = {
		.run = run_begin, .hooks = hooks, .hook = {.step = hooks ? &plan->job : NULL}};
	int status = 0, r;

	if (!hooks)
		return 0;
	r = hooks->functions->begin ? plan_change_environ(plan, run_call, &call, &status, err) : 0;
	if (r < 0)
		return r;
	hooks->began = status >= 0;
	return status < 0 ? fail(hooks, "begin", err) : 0;
}

/* As the user, since the way there may be the user's. */
static int enter_directory(struct hooks *hooks, const struct plan *plan, struct err *err)
{
	int r;

	hooks->cwd_fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (hooks->cwd_fd < 0)
		return err_set(err, -errno, "open the agent's directory");
	r = userpath_chdir(plan->programs[0].cwd);
	return r < 0 ? err_set(err, r, "change to the directory '%s'", plan->programs[0].cwd) : 0;
}

int hooks_before_tasks(struct hooks *hooks, struct plan *plan, struct err *err)
{
	struct hook_call call = {.run = run_before_tasks,
		.hooks = hooks,
		.hook = {.step = hooks ? &plan->job : NULL}};
	int status = 0, r;

	if (!hooks)
		return 0;
	r = identity_assume(&plan->id, err);
	if (r < 0)
		return r;
	r = enter_directory(hooks, plan, err);
	if (r == 0 && hooks->functions->before_tasks)
		r = plan_change_environ(plan, run_call, &call, &status, err);
	identity_restore(&plan->id);
	if (r == 0 && status < 0)
		r = fail(hooks, "before_tasks", err);
	if (r < 0)
		hooks_after_forks(hooks);
	return r;
}

void hooks_after_forks(struct hooks *hooks)
{
	if (!hooks || hooks->cwd_fd < 0)
		return;
	(void)!fchdir(hooks->cwd_fd); /* it was there */
	hooks->cwd_fd = close_fd(hooks->cwd_fd);
}

static int call_task_forked(struct hooks *hooks, const struct plan *plan,
	const stepd_step_task_info_t *task, struct err *err)
{
	const stepd_step_hook_t hook = {.step = &plan->job, .task = task};

	if (!hooks->functions->task_forked)
		return 0;
	return hooks->functions->task_forked(&hook) < 0 ? fail(hooks, "task_forked", err) : 0;
}

int hooks_task_forked(
	struct hooks *hooks, const struct plan *plan, uint32_t local_id, struct err *err)
{
	return hooks ? call_task_forked(hooks, plan, &plan->job.task[local_id], err) : 0;
}

int hooks_extern_started(struct hooks *hooks, const struct plan *plan, struct err *err)
{
	return hooks ? call_task_forked(hooks, plan, NULL, err) : 0;
}

void hooks_task_ended(
	struct hooks *hooks, const struct plan *plan, uint32_t local_id, pid_t pid, int wait_status)
{
	stepd_step_task_info_t task;
	stepd_step_hook_t hook = {.step = &plan->job, .task = &task, .wait_status = wait_status};

	if (!hooks || !hooks->began || !hooks->functions->task_ended)
		return;
	task = plan->job.task[local_id];
	task.pid = pid; /* the record has none any more */
	hooks->functions->task_ended(&hook);
}

struct hooks *hooks_end(struct hooks *hooks, const struct plan *plan)
{
	const stepd_step_hook_t hook = {.step = &plan->job};

	hooks_after_forks(hooks); /* of a launch that failed before them */
	if (hooks && hooks->began && hooks->functions->end)
		hooks->functions->end(&hook);
	return hooks_free(hooks);
}

/* ---- in a task's process ------------------------------------------------------------------- */

static stepd_step_task_info_t make_task(const struct plan *plan, uint32_t local_id)
{
	stepd_step_task_info_t task = plan->job.task[local_id];

	task.pid = getpid();
	return task;
}

/* The plan is this process's own copy. */
int hooks_task_privileged(struct hooks *hooks, struct plan *plan, struct child_context *context)
{
	stepd_step_task_info_t task;
	struct hook_call call = {.run = run_task_privileged,
		.hooks = hooks,
		.hook = {.step = &plan->job, .task = &task}};
	struct err err = ERR_INIT;
	int status = 0, r;

	if (!hooks || !hooks->functions->task_privileged)
		return 0;
	task = make_task(plan, context->io.local_id);
	r = plan_change_environ(plan, run_call, &call, &status, &err);
	context->env = plan->task_env; /* it may have grown */
	return r < 0 ? r : status;
}

int hooks_task(struct hooks *hooks, struct plan *plan, struct child_context *context)
{
	stepd_step_task_info_t task;
	const stepd_step_hook_t hook = {.step = &plan->job, .task = &task, .env = &context->env.v};

	if (!hooks || !hooks->functions->task)
		return 0;
	task = make_task(plan, context->io.local_id);
	return hooks->functions->task(&hook);
}
