/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/launch/plan.h"

#include <jansson.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "mpi/mpi.h"
#include "stepd/api/plugin.h"
#include "stepd/snapshot/handover.h"

static int make_job(struct plan *plan, struct err *err)
{
	const struct spec *spec = plan->spec;
	stepd_step_rec_t *job = &plan->job;
	uint32_t i;

	*job = (stepd_step_rec_t){
		.api_version = STEPD_API_VERSION,
		.kind = spec->kind,
		.job_id = spec->job_id,
		.step_id = spec->step_id,
		.step_name = spec->step_name,
		.uid = plan->id.uid,
		.gid = plan->id.gid,
		.user_name = plan->id.user_name,
		.node_name = spec->node_name,
		.nodeid = spec->node_id,
		.nnodes = spec->node_count,
		.ntasks = spec->ntasks,
		.node_tasks = spec->local_ntasks,
		.jmgr_pid = getpid(),
	};
	job->rank_nodes = spec->rank_nodes;
	if (spec->node_count == 1) {
		plan->own_name = calloc(1, sizeof(*plan->own_name));
		if (!plan->own_name)
			return err_set(err, -ENOMEM, "plan the step");
		plan->own_name[0] = spec->node_name;
		job->node_names = plan->own_name;
	} else {
		job->node_names = (const char *const *)spec->node_names.v; /* NULL: not told */
	}
	job->task = calloc(spec->local_ntasks + 1, sizeof(*job->task));
	if (!job->task || asprintf(&plan->label, "%u.%s", spec->job_id, spec->step_name) < 0)
		return err_set(err, -ENOMEM, "plan the step");
	for (i = 0; i < spec->local_ntasks; i++) {
		job->task[i].id = i;
		job->task[i].gtid = spec->ranks[i];
	}
	return 0;
}

static int make_cwd(struct plan *plan, struct err *err)
{
	char buf[PATH_MAX];

	if (plan->spec->cwd)
		plan->cwd = strdup(plan->spec->cwd);
	else if (getcwd(buf, sizeof(buf)))
		plan->cwd = strdup(buf);
	else
		return err_set(
			err, -errno, "cwd: find the agent's working directory; give cwd (--chdir)");
	return plan->cwd ? 0 : err_set(err, -ENOMEM, "plan the step");
}

int plan_make(const struct spec *spec, struct plan *ret_plan, struct err *err)
{
	_cleanup_plan_ struct plan plan = {.spec = spec};
	int r;

	r = identity_resolve(spec, &plan.id, err);
	if (r == 0)
		r = make_job(&plan, err);
	if (r == 0)
		r = make_cwd(&plan, err);
	if (r == 0)
		r = plan_make_programs(&plan, err);
	if (r < 0)
		return r;
	plan.umask = spec->umask;
	if (!spec->umask_given) {
		plan.umask = umask(0);
		(void)umask(plan.umask);
	}
	*ret_plan = plan;
	plan = (struct plan){0};
	return 0;
}

int plan_make_adopted(const struct spec *spec, uid_t uid, gid_t gid, const char *user_name,
	struct plan *ret_plan, struct err *err)
{
	_cleanup_plan_ struct plan plan = {.spec = spec};
	int r;

	plan.id.uid = uid;
	plan.id.gid = gid;
	plan.id.user_name = strdup(user_name);
	if (!plan.id.user_name)
		return err_set(err, -ENOMEM, "plan the step");
	r = make_job(&plan, err);
	if (r < 0)
		return r;
	*ret_plan = plan;
	plan = (struct plan){0};
	return 0;
}

/* "#!INTERPRETER [ARGUMENT]", as execve(2) reads it. The script is not executed itself, so that
 * its place may be a noexec file system, as /run often is. */
static int parse_shebang(const struct spec *spec, struct strv *argv, struct err *err)
{
	const char *end = memchr(spec->script, '\n', spec->script_size);
	size_t len = end ? (size_t)(end - spec->script) : spec->script_size;
	_cleanup_free_ char *line = NULL;
	char *interpreter, *argument;
	int r;

	if (len < 3 || strncmp(spec->script, "#!", 2) != 0 || len > 255 ||
		memchr(spec->script, '\0', len))
		return err_say(err, -ENOEXEC,
			"script: the first line must be '#!' and the path of an interpreter, at most "
			"255 bytes");
	line = strndup(spec->script + 2, len - 2);
	if (!line)
		return err_set(err, -ENOMEM, "plan the step");
	interpreter = line + strspn(line, " \t");
	interpreter[strcspn(interpreter, "\r")] = '\0';
	argument = interpreter + strcspn(interpreter, " \t");
	if (*argument)
		*argument++ = '\0';
	argument += strspn(argument, " \t");
	if (interpreter[0] != '/')
		return err_say(err, -ENOEXEC,
			"script: its interpreter '%s' is not an absolute path", interpreter);
	r = strv_add(argv, interpreter);
	if (r == 0 && *argument)
		r = strv_add(argv, argument);
	return r < 0 ? err_set(err, r, "plan the step") : 0;
}

int plan_set_script(struct plan *plan, const char *script, struct err *err)
{
	_cleanup_strv_ struct strv argv = {0};
	int r;

	r = parse_shebang(plan->spec, &argv, err);
	if (r < 0)
		return r;
	r = strv_add(&argv, script);
	if (r == 0)
		r = strv_extend(&argv, &plan->spec->argv);
	if (r < 0)
		return err_set(err, r, "plan the step");
	plan->script_argv = argv.v; /* NULL-terminated; freed by plan_clear() */
	argv = (struct strv){0};
	plan->programs[0].argv = plan->script_argv;
	return 0;
}

/* Room in the children's vector for the largest environment. */
static int reserve_task_env(struct plan *plan, struct err *err)
{
	size_t k, most = 0;
	int r;

	for (k = 0; k < plan->programs_count; k++) {
		if (plan->programs[k].env.n > most)
			most = plan->programs[k].env.n;
	}
	r = environ_task_reserve(&plan->task_env, most);
	return r < 0 ? err_set(err, r, "make the tasks' environment") : 0;
}

int plan_make_environ(struct plan *plan, const char *mpi_type, struct err *err)
{
	const struct spec *spec = plan->spec;
	const struct strv *extra;
	size_t k;
	int r;

	for (k = 0; k < plan->programs_count; k++) {
		if (!plan_has_program(plan, k))
			continue;
		extra = k ? &spec->overrides[k - 1].env : NULL;
		r = environ_make_common(
			spec, extra, &plan->job, &plan->id, mpi_type, &plan->programs[k].env, err);
		if (r < 0)
			return r;
		if (binding_environ(spec, &plan->binding, &plan->programs[k].env) < 0)
			return err_set(err, -ENOMEM, "make the tasks' environment");
	}
	return reserve_task_env(plan, err);
}

/* What the hook made of the environment: entries of its own, and names that it took away. */
struct hook_changes {
	char **put; /* the hook's, from malloc() */
	size_t put_count;
	bool *gone; /* by the place in what it was given */
};

static void hook_changes_free(struct hook_changes *changes)
{
	size_t i;

	for (i = 0; i < changes->put_count; i++)
		free(changes->put[i]);
	free(changes->put);
	free(changes->gone);
}

/* What it left is where it was, unless it took something away: then it is looked for by name. */
static int find_before(
	const struct strv *before, struct strv_names *names, char *entry, size_t at, size_t *ret_at)
{
	int r = 0;

	*ret_at = at;
	if (at < before->n && before->v[at] == entry)
		return 0;
	if (!names->order)
		r = strv_names_make(names, before->v, before->n);
	if (r == 0)
		*ret_at = strv_names_find(names, entry);
	return r;
}

static int compare_environs(const struct strv *before, char **after, struct hook_changes *changes)
{
	_cleanup_strv_names_ struct strv_names names = {0};
	size_t n = 0, i, k;
	int r;

	while (after[n])
		n++;
	changes->put = calloc(n + 1, sizeof(*changes->put));
	changes->gone = malloc(before->n + 1);
	if (!changes->put || !changes->gone)
		return -ENOMEM;
	memset(changes->gone, true, before->n);
	for (i = 0; i < n; i++) {
		r = find_before(before, &names, after[i], i, &k);
		if (r < 0)
			return r;
		if (k != STRV_NAMES_NONE)
			changes->gone[k] = false;
		if (k == STRV_NAMES_NONE || before->v[k] != after[i])
			changes->put[changes->put_count++] = after[i];
	}
	return 0;
}

/* Gives one program what the hook added to, changed in and took from before. */
static int apply_changes(
	struct strv *env, const struct strv *before, const struct hook_changes *changes)
{
	_cleanup_free_ char *name = NULL;
	size_t i;
	int r = strv_env_put_all(env, changes->put, changes->put_count);

	for (i = 0; r == 0 && i < before->n; i++) {
		if (!changes->gone[i])
			continue;
		free(name);
		name = strndup(before->v[i], strcspn(before->v[i], "="));
		if (!name)
			return -ENOMEM;
		strv_env_unset(env, name);
	}
	return r;
}

int plan_run_prefork(
	struct plan *plan, struct mpi *mpi, const struct mpi_host *host, struct err *err)
{
	_cleanup_(hook_changes_free) struct hook_changes changes = {0};
	_cleanup_strv_ struct strv before = {0};
	_cleanup_free_ char **env = NULL;
	int r, compared;
	size_t k;

	r = strv_extend(&before, &plan->programs[0].env);
	env = r == 0 ? calloc(before.n + 1, sizeof(*env)) : NULL;
	if (!env)
		return err_set(err, -ENOMEM, "run the MPI plugin's prefork hook");
	memcpy(env, before.v, before.n * sizeof(*env));
	r = mpi_prefork(mpi, &plan->job, host, &env, err);
	compared = compare_environs(&before, env, &changes); /* after a failure, too: to free it */
	if (r < 0)
		return r;
	r = compared;
	for (k = 0; r == 0 && k < plan->programs_count; k++) {
		if (plan_has_program(plan, k))
			r = apply_changes(&plan->programs[k].env, &before, &changes);
	}
	return r < 0 ? err_set(err, r, "run the MPI plugin's prefork hook")
		     : reserve_task_env(plan, err);
}

const struct plan_program *plan_task_program(
	const struct plan *plan, const struct plan_joined *joined, uint32_t local_id)
{
	if (joined)
		return &joined->programs[joined->task_program[local_id - joined->first_local]];
	return &plan->programs[plan->task_program[local_id]];
}

int plan_add_tasks(struct plan *plan, const stepd_step_task_info_t *tasks, uint32_t n)
{
	stepd_step_rec_t *job = &plan->job;
	stepd_step_task_info_t *grown =
		realloc(job->task, ((size_t)job->node_tasks + n + 1) * sizeof(*grown));
	uint32_t i;

	if (!grown)
		return -ENOMEM;
	job->task = grown;
	for (i = 0; i < n; i++) {
		grown[job->node_tasks] = tasks[i];
		grown[job->node_tasks].id = job->node_tasks;
		job->node_tasks++;
	}
	return 0;
}

/* What tasks need that join the step, where there is somebody who may ask for them. */
static void save_start(const struct plan *plan, struct handover *h, struct json_t *object)
{
	struct json_t *groups = handover_put_array(h, object, "groups");
	size_t i;

	for (i = 0; i < plan->id.groups_count; i++)
		handover_append_int(h, groups, plan->id.groups[i]);
	handover_put_strv(h, object, "environ", &plan->programs[0].env);
}

void plan_save(const struct plan *plan, struct handover *h, struct json_t *object)
{
	if (plan->job.service_pid && plan->programs)
		save_start(plan, h, object);
	handover_put_text(h, object, "user_name", plan->id.user_name);
	handover_put_int(h, object, "uid", plan->id.uid);
	handover_put_int(h, object, "gid", plan->id.gid);
	handover_put_text(h, object, "cwd", plan->cwd);
	handover_put_int(h, object, "umask", plan->umask);
	handover_put_int(h, object, "job_id", plan->job.job_id);
	handover_put_text(h, object, "node_name", plan->job.node_name);
	handover_put_int(h, object, "agent_pid", plan->job.jmgr_pid);
	handover_put_int(h, object, "service_pid", plan->job.service_pid);
	handover_put_int(h, object, "container_id", (int64_t)plan->job.cont_id);
}

int plan_restore_names(
	struct spec *spec, const struct handover *h, const struct json_t *object, struct err *err)
{
	char *name;

	spec->job_id = (uint32_t)json_get_int(object, "job_id", spec->job_id);
	if (handover_copy_text(h, object, "node_name", &name) < 0)
		return err_set(err, -ENOMEM, "take over the step");
	if (name) {
		free(spec->node_name);
		spec->node_name = name;
	}
	return 0;
}

static int restore_start(
	struct plan *plan, const struct handover *h, const struct json_t *object, struct err *err)
{
	const struct json_t *groups = json_get_array(object, "groups");
	struct identity *id = &plan->id;
	size_t n = json_array_size(groups);
	int r;

	if (!groups)
		return 0;
	r = handover_copy_strv(h, object, "environ", &plan->programs[0].env);
	id->groups = calloc(n + 1, sizeof(*id->groups));
	if (r < 0 || !id->groups)
		return err_set(err, -ENOMEM, "take over the step");
	for (; id->groups_count < n; id->groups_count++)
		id->groups[id->groups_count] =
			(gid_t)json_integer_value(json_array_get(groups, id->groups_count));
	return identity_compare_with_agent(id, err);
}

static int restore_plan(
	struct plan *plan, const struct handover *h, const struct json_t *object, struct err *err)
{
	int r;

	plan->id.uid = (uid_t)json_get_int(object, "uid", (uid_t)-1);
	plan->id.gid = (gid_t)json_get_int(object, "gid", (gid_t)-1);
	plan->umask = (mode_t)json_get_int(object, "umask", 022);
	if (handover_copy_text(h, object, "user_name", &plan->id.user_name) < 0 ||
		handover_copy_text(h, object, "cwd", &plan->cwd) < 0)
		return err_set(err, -ENOMEM, "take over the step");
	r = make_job(plan, err);
	if (r == 0)
		r = plan_make_programs(plan, err);
	if (r == 0)
		r = restore_start(plan, h, object, err);
	/* for messages only: the script is with its interpreter already */
	if (r == 0 && plan->spec->kind == STEPD_STEP_BATCH)
		r = plan_set_script(plan, "script", err);
	plan->job.jmgr_pid = (pid_t)json_get_int(object, "agent_pid", plan->job.jmgr_pid);
	plan->job.service_pid = (pid_t)json_get_int(object, "service_pid", 0);
	plan->job.cont_id = (uint64_t)json_get_int(object, "container_id", 0);
	if (r == 0 && (!plan->id.user_name || plan->job.cont_id == 0))
		r = handover_say_bad("plan", err);
	return r;
}

int plan_restore(const struct spec *spec, const struct handover *h, const struct json_t *object,
	struct plan *ret_plan, struct err *err)
{
	_cleanup_plan_ struct plan plan = {.spec = spec};
	int r = restore_plan(&plan, h, object, err);

	if (r < 0)
		return r;
	*ret_plan = plan;
	plan = (struct plan){0};
	return 0;
}

void plan_clear(struct plan *plan)
{
	size_t k;
	char **s;

	for (k = 0; plan->programs && k < plan->programs_count; k++)
		strv_clear(&plan->programs[k].env);
	for (s = plan->script_argv; s && *s; s++)
		free(*s);
	free(plan->script_argv);
	free(plan->programs);
	free(plan->task_program);
	free(plan->job.task);
	free(plan->own_name);
	free(plan->label);
	free(plan->cwd);
	free(plan->rank_appnums);
	free(plan->commands);
	plan_binding_clear(plan);
	environ_task_clear(&plan->task_env);
	identity_clear(&plan->id);
	*plan = (struct plan){0};
}
