/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/launch/plan.h"

#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "mpi/mpi.h"
#include "stepd/api/plugin.h"
#include "stepd/base/fs.h"
#include "stepd/process/mount_namespace.h"
#include "stepd/record/registry.h"
#include "stepd/snapshot/handover.h"

/* ---- the tasks' binding -------------------------------------------------------------------- */

static char *format_list(const struct bitset *set)
{
	size_t size = bitset_format_list(set, NULL, 0) + 1;
	char *text = malloc(size);

	if (text)
		(void)bitset_format_list(set, text, size);
	return text;
}

/* The texts of the sets are stored behind the tasks' pointers to them. */
int plan_record_binding(struct plan *plan)
{
	const struct binding_sets *cpus = &plan->binding.cpus;
	uint32_t ntasks = plan->spec->local_ntasks, i;

	if (!cpus->of_task)
		return 0;
	plan->task_cpus = calloc(ntasks + cpus->table.count + 1, sizeof(*plan->task_cpus));
	if (!plan->task_cpus)
		return -ENOMEM;
	for (i = 0; i < cpus->table.count; i++) {
		struct bitset set = bitset_table_get(&cpus->table, i);

		plan->task_cpus[ntasks + i] = format_list(&set);
		if (!plan->task_cpus[ntasks + i])
			return -ENOMEM;
	}
	for (i = 0; i < ntasks; i++)
		plan->task_cpus[i] = plan->task_cpus[ntasks + cpus->of_task[i]];
	plan->job.task_cpus = (const char *const *)plan->task_cpus;
	return 0;
}

static void clear_binding(struct plan *plan)
{
	char **text = plan->task_cpus ? plan->task_cpus + plan->spec->local_ntasks : NULL;

	for (; text && *text; text++)
		free(*text);
	free(plan->task_cpus);
	plan->task_cpus = NULL;
	binding_clear(&plan->binding);
}

/* ---- command lines ------------------------------------------------------------------------- */

/* The command line of each task, and the step record's list of them. */

/* The same on all nodes of the step, whichever of the command lines their tasks run. */
static int number_programs(struct plan *plan, struct err *err)
{
	const struct spec *spec = plan->spec;
	/* The step's own command line does not count if no task can run it. */
	uint32_t own = spec->argv.n > 0, entry, i;

	if (!spec->rank_entries)
		return 0;
	plan->rank_appnums = calloc((size_t)spec->ntasks + 1, sizeof(*plan->rank_appnums));
	if (!plan->rank_appnums)
		return err_set(err, -ENOMEM, "plan the step");
	for (i = 0; i < spec->ntasks; i++) {
		entry = spec->rank_entries[i];
		plan->rank_appnums[i] = entry ? entry - 1 + own : 0;
	}
	for (i = 0; i < spec->local_ntasks; i++)
		plan->job.task[i].appnum = plan->rank_appnums[spec->ranks[i]];
	plan->job.rank_appnums = plan->rank_appnums;
	return 0;
}

/* [0] is the step's own, the others are those of its entries. */
static int make_programs(struct plan *plan, struct err *err)
{
	const struct spec *spec = plan->spec;
	size_t k;

	plan->programs_count = spec->overrides_count + 1;
	plan->programs = calloc(plan->programs_count, sizeof(*plan->programs));
	if (!plan->programs)
		return err_set(err, -ENOMEM, "plan the step");
	plan->programs[0] = (struct plan_program){.argv = spec->argv.v, .cwd = plan->cwd};
	for (k = 0; k < spec->overrides_count; k++) {
		const struct spec_override *o = &spec->overrides[k];

		plan->programs[k + 1] = (struct plan_program){
			.argv = o->argv.n ? o->argv.v : spec->argv.v,
			.cwd = o->cwd ? o->cwd : plan->cwd,
		};
	}
	return 0;
}

/* Whether a task of this node runs programs[k], or may. */
static bool plan_has_program(const struct plan *plan, size_t k)
{
	return k == 0 || plan->spec->overrides[k - 1].ranks_count > 0;
}

static int choose_programs(struct plan *plan, struct err *err)
{
	const struct spec *spec = plan->spec;
	uint32_t i;

	plan->task_program = calloc(spec->local_ntasks + 1, sizeof(*plan->task_program));
	if (!plan->task_program)
		return err_set(err, -ENOMEM, "plan the step");
	for (i = 0; spec->rank_entries && i < spec->local_ntasks; i++)
		plan->task_program[i] = spec->rank_entries[spec->ranks[i]];
	return 0;
}

/* As number_programs() counts them. */
static int record_commands(struct plan *plan, struct err *err)
{
	size_t first = plan->spec->rank_entries && plan->spec->argv.n == 0, k;

	plan->commands = calloc(plan->programs_count, sizeof(*plan->commands));
	if (!plan->commands)
		return err_set(err, -ENOMEM, "plan the step");
	for (k = first; k < plan->programs_count; k++)
		plan->commands[k - first] = (stepd_step_command_t){
			.argv = (const char *const *)plan->programs[k].argv,
			.cwd = plan->programs[k].cwd,
		};
	plan->job.cwd = plan->cwd;
	plan->job.commands = plan->commands;
	plan->job.command_count = (uint32_t)(plan->programs_count - first);
	return 0;
}

/* Checks that every task has a program, which the spec's check can't know where overrides are
 * used. */
static int check_programs(const struct plan *plan, struct err *err)
{
	const struct plan_program *p;
	uint32_t i;

	if (plan->spec->kind != STEPD_STEP_NORMAL)
		return 0;
	for (i = 0; i < plan->spec->local_ntasks; i++) {
		p = &plan->programs[plan->task_program[i]];
		if (!p->argv || !p->argv[0])
			return err_set_text(err, -EINVAL,
				"argv: rank %u has no program; give argv for the step or for this rank",
				plan->spec->ranks[i]);
	}
	return 0;
}

static int make_all_programs(struct plan *plan, struct err *err)
{
	int r = make_programs(plan, err);

	if (r == 0)
		r = choose_programs(plan, err);
	if (r == 0)
		r = number_programs(plan, err);
	if (r == 0)
		r = check_programs(plan, err);
	return r < 0 ? r : record_commands(plan, err);
}

/* ---- the plan ------------------------------------------------------------------------------ */

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
		job->node_names = (const char *const *)spec->node_names.v; /* NULL: not known */
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

/* It is opened again for each launch: nobody else holds it while the tasks run. */
static int check_namespace(const struct spec *spec, struct err *err)
{
	int fd = spec->mount_namespace ? mount_namespace_open(spec->mount_namespace, err) : -1;

	if (fd < 0)
		return spec->mount_namespace ? fd : 0;
	(void)close_fd(fd);
	return 0;
}

int plan_make(const struct spec *spec, struct plan *ret_plan, struct err *err)
{
	_cleanup_plan_ struct plan plan = {.spec = spec};
	int r;

	r = identity_resolve(spec, &plan.id, err);
	if (r == 0)
		r = check_namespace(spec, err);
	if (r == 0)
		r = make_job(&plan, err);
	if (r == 0)
		r = make_cwd(&plan, err);
	if (r == 0)
		r = make_all_programs(&plan, err);
	if (r < 0)
		return r;
	plan.umask = spec->umask;
	if (!spec->umask_given) {
		plan.umask = umask(0);
		(void)umask(plan.umask);
	}
	*ret_plan = take_struct(plan);
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
	if (r == 0)
		*ret_plan = take_struct(plan);
	return r;
}

/* "#!INTERPRETER [ARGUMENT]", as execve(2) reads it. The script is not executed itself, so that
 * its directory may be on a noexec file system, as /run often is. */
static int parse_shebang(const struct spec *spec, struct strv *argv, struct err *err)
{
	const char *end = memchr(spec->script, '\n', spec->script_size);
	size_t len = end ? (size_t)(end - spec->script) : spec->script_size;
	_cleanup_free_ char *line = NULL;
	char *interpreter, *argument;
	int r;

	if (len < 3 || strncmp(spec->script, "#!", 2) != 0 || len > 255 ||
		memchr(spec->script, '\0', len))
		return err_set_text(err, -ENOEXEC,
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
		return err_set_text(err, -ENOEXEC,
			"script: its interpreter '%s' is not an absolute path", interpreter);
	r = strv_add(argv, interpreter);
	if (r == 0 && *argument)
		r = strv_add(argv, argument);
	return r < 0 ? err_set(err, r, "plan the step") : 0;
}

/* The command line of a batch step. A file of the caller's is executed itself. */
static int set_script(struct plan *plan, const char *script, struct err *err)
{
	_cleanup_strv_ struct strv argv = {0};
	int r;

	r = plan->spec->script_file ? 0 : parse_shebang(plan->spec, &argv, err);
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

/* The children's vector has capacity for the largest environment. */
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
		if (environ_set_binding(spec, &plan->binding, &plan->programs[k].env) < 0)
			return err_set(err, -ENOMEM, "make the tasks' environment");
	}
	return reserve_task_env(plan, err);
}

/* The hook's changes of the environment: its entries, and the names that it removed. */
struct hook_changes {
	char **put; /* the hook's, from malloc() */
	size_t put_count;
	bool *gone; /* by the index in the original */
};

static void hook_changes_free(struct hook_changes *changes)
{
	size_t i;

	for (i = 0; i < changes->put_count; i++)
		free(changes->put[i]);
	free(changes->put);
	free(changes->gone);
}

/* Entries that it left have their old index, unless it has removed some: then they are found by
 * name. */
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

/* Applies the hook's changes to one program's environment. */
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

int plan_change_environ(
	struct plan *plan, plan_environ_fn fn, void *userdata, int *ret_status, struct err *err)
{
	_cleanup_(hook_changes_free) struct hook_changes changes = {0};
	_cleanup_strv_ struct strv before = {0};
	_cleanup_free_ char **env = NULL;
	int r, compared;
	size_t k;

	r = strv_extend(&before, &plan->programs[0].env);
	env = r == 0 ? calloc(before.n + 1, sizeof(*env)) : NULL;
	if (!env)
		return err_set(err, -ENOMEM, "change the tasks' environment");
	memcpy(env, before.v, before.n * sizeof(*env));
	*ret_status = fn(&env, userdata);
	compared = compare_environs(&before, env, &changes); /* after a failure, too: to free it */
	if (*ret_status < 0)
		return 0;
	r = compared;
	for (k = 0; r == 0 && k < plan->programs_count; k++) {
		if (plan_has_program(plan, k))
			r = apply_changes(&plan->programs[k].env, &before, &changes);
	}
	return r < 0 ? err_set(err, r, "change the tasks' environment")
		     : reserve_task_env(plan, err);
}

/* The MPI plugin's prefork hook. */
struct prefork {
	struct mpi *mpi;
	struct plan *plan;
	const struct mpi_host *host;
	struct err *err;
};

static int run_prefork(char ***env, void *userdata)
{
	const struct prefork *p = userdata;

	return mpi_prefork(p->mpi, &p->plan->job, p->host, env, p->err);
}

int plan_run_prefork(
	struct plan *plan, struct mpi *mpi, const struct mpi_host *host, struct err *err)
{
	struct prefork prefork = {.mpi = mpi, .plan = plan, .host = host, .err = err};
	int status, r = plan_change_environ(plan, run_prefork, &prefork, &status, err);

	return r < 0 ? r : status;
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

/* Prepares for tasks that join the step, where a service may request them. */
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

int plan_restore(const struct spec *spec, const struct handover *h, const struct json_t *object,
	struct plan *ret_plan, struct err *err)
{
	_cleanup_plan_ struct plan plan = {.spec = spec};
	int r;

	plan.id.uid = (uid_t)json_get_int(object, "uid", (uid_t)-1);
	plan.id.gid = (gid_t)json_get_int(object, "gid", (gid_t)-1);
	plan.umask = (mode_t)json_get_int(object, "umask", 022);
	if (handover_copy_text(h, object, "user_name", &plan.id.user_name) < 0 ||
		handover_copy_text(h, object, "cwd", &plan.cwd) < 0)
		return err_set(err, -ENOMEM, "take over the step");
	r = make_job(&plan, err);
	if (r == 0)
		r = make_all_programs(&plan, err);
	if (r == 0)
		r = restore_start(&plan, h, object, err);
	/* for messages only: the script is with its interpreter already */
	if (r == 0 && spec->kind == STEPD_STEP_BATCH)
		r = set_script(&plan, spec->script_file ? spec->script_file : "script", err);
	plan.job.jmgr_pid = (pid_t)json_get_int(object, "agent_pid", plan.job.jmgr_pid);
	plan.job.service_pid = (pid_t)json_get_int(object, "service_pid", 0);
	plan.job.cont_id = (uint64_t)json_get_int(object, "container_id", 0);
	if (r == 0 && (!plan.id.user_name || plan.job.cont_id == 0))
		r = handover_err_part("plan", err);
	if (r == 0)
		*ret_plan = take_struct(plan);
	return r;
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
	clear_binding(plan);
	environ_task_clear(&plan->task_env);
	identity_clear(&plan->id);
	*plan = (struct plan){0};
}

/* ---- the script of a batch step ------------------------------------------------------------ */

#define SCRIPT_MODE 0500u

int plan_store_script(struct plan *plan, const struct registry *reg, struct err *err)
{
	const struct spec *spec = plan->spec;
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;
	int r;

	if (spec->script_file)
		return set_script(plan, spec->script_file, err);
	if (asprintf(&path, "%s/script", registry_get_path(reg)) < 0)
		return err_set(err, -ENOMEM, "store the batch script");
	(void)unlinkat(registry_get_dirfd(reg), "script", 0); /* possibly left by a dead agent */
	fd = openat(registry_get_dirfd(reg), "script",
		O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, SCRIPT_MODE);
	if (fd < 0)
		return err_set(err, -errno, "store the batch script '%s'", path);
	r = fs_write_all(fd, spec->script, spec->script_size);
	if (r < 0)
		return err_set(err, r, "store the batch script '%s'", path);
	/* Root stays its owner: the user could grow it until the file system of all steps is
	 * full. */
	r = fs_set_readers(fd, SCRIPT_MODE, plan->id.uid, (gid_t)-1);
	if (r == -EOPNOTSUPP)
		return err_set_text(err, r,
			"the batch script '%s' can't be made readable for user %s alone: the file "
			"system has no access control lists (mount it with them, or choose another "
			"--runtime-dir)",
			path, plan->id.user_name);
	if (r < 0)
		return err_set(err, r, "make the batch script '%s' readable for user %s", path,
			plan->id.user_name);
	return set_script(plan, path, err);
}
