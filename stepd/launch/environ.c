/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/launch/environ.h"

#include <assert.h>
#include <string.h>

#include "stepd/base/buffer.h"
#include "stepd/binding/binding.h"
#include "stepd/process/identity.h"
#include "stepd/spec/spec.h"

/* Set by the child for each task; removed from the spec's environment. */
static const char *const task_variables[] = {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_TASK_PID"};

static int set_number(struct strv *env, const char *name, uint64_t n)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	return strv_env_set(env, name, text);
}

/* In a batch step these are the job's, for the steps that the script starts, not those of its one
 * task. */
static const char *const job_variables[] = {"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NNODES",
	"SLURM_NODELIST", "SLURM_TASKS_PER_NODE", "SLURM_CPUS_ON_NODE"};

struct text_variable {
	const char *name;
	const char *value; /* NULL: it stays as it is */
};

static int set_texts(struct strv *env, const struct text_variable *variables, size_t n)
{
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < n; i++) {
		if (variables[i].value)
			r = strv_env_set(env, variables[i].name, variables[i].value);
	}
	return r;
}

/* Slurm's compressed list, "2(x3),1": 2, 2, 2 and 1. NULL: no memory. */
static char *tasks_per_node_text(const uint32_t *counts, uint32_t n)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	uint32_t i, same;

	if (!f)
		return NULL;
	for (i = 0; i < n; i += same) {
		for (same = 1; i + same < n && counts[i + same] == counts[i]; same++)
			;
		fprintf(f, i ? ",%u" : "%u", counts[i]);
		if (same > 1)
			fprintf(f, "(x%u)", same);
	}
	return fclose(f) == 0 ? take_ptr(text) : NULL;
}

static int set_layout(const struct spec *spec, const stepd_step_rec_t *job, struct strv *env)
{
	_cleanup_free_ char *tasks = NULL;
	const char *nodes = spec->node_list;

	/* A step on one node knows its layout; of several nodes, only what the spec has is set. */
	if (!nodes && spec->node_count == 1)
		nodes = spec->node_name;
	if (spec->tasks_per_node)
		tasks = tasks_per_node_text(spec->tasks_per_node, spec->node_count);
	else if (spec->node_count == 1)
		tasks = tasks_per_node_text(&job->node_tasks, 1);
	if (!tasks && (spec->tasks_per_node || spec->node_count == 1))
		return -ENOMEM;
	const struct text_variable variables[] = {
		{"SLURM_STEP_NODELIST", nodes},
		{"SLURM_NODELIST", nodes},
		{"SLURM_TASKS_PER_NODE", tasks},
		{"SLURM_STEP_TASKS_PER_NODE", tasks},
	};
	return set_texts(env, variables, ARRAY_SIZE(variables));
}

static int set_gtids(const uint32_t *ranks, uint32_t count, struct strv *env)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	uint32_t i;

	if (!f)
		return -ENOMEM;
	for (i = 0; i < count; i++)
		fprintf(f, i ? ",%u" : "%u", ranks[i]);
	if (fclose(f) != 0)
		return -ENOMEM;
	return strv_env_set(env, "SLURM_GTIDS", text);
}

static int set_numbers(const struct spec *spec, const stepd_step_rec_t *job, struct strv *env)
{
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = {
		{"SLURM_JOB_ID", job->job_id},
		{"SLURM_JOBID", job->job_id},
		{"SLURM_STEP_ID", job->step_id},
		{"SLURM_STEPID", job->step_id},
		{"SLURM_NTASKS", job->ntasks},
		{"SLURM_NPROCS", job->ntasks},
		{"SLURM_STEP_NUM_TASKS", job->ntasks},
		{"SLURM_NNODES", job->nnodes},
		{"SLURM_STEP_NUM_NODES", job->nnodes},
		{"SLURM_NODEID", job->nodeid},
		{"SLURM_JOB_UID", job->uid},
		{"SLURM_JOB_GID", job->gid},
	};
	_cleanup_bitset_ struct bitset cpus = {0};
	size_t i;
	int r;

	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		r = set_number(env, numbers[i].name, numbers[i].value);
		if (r < 0)
			return r;
	}
	if (spec->node_cpus)
		return set_number(env, "SLURM_CPUS_ON_NODE", spec->node_cpus);
	/* As "nproc" counts them; left out where they are not known. */
	if (binding_read_cpus(&cpus) < 0)
		return 0;
	return set_number(env, "SLURM_CPUS_ON_NODE", bitset_count(&cpus));
}

static int set_if_missing(struct strv *env, const char *name, const char *value)
{
	return strv_env_get(env, name) ? 0 : strv_env_set(env, name, value);
}

/* A task that runs as another user than the agent's caller must not see the caller's home. */
static int set_user(const struct spec *spec, const struct identity *id, struct strv *env)
{
	const struct text_variable variables[] = {
		{"HOME", id->home},
		{"USER", id->user_name},
		{"LOGNAME", id->user_name},
		{"SHELL", id->shell},
	};
	int r = set_if_missing(env, "PATH", "/usr/local/bin:/usr/bin:/bin");

	if (r == 0)
		r = set_if_missing(env, "TMPDIR", "/tmp");
	return r < 0 || !spec->user ? r : set_texts(env, variables, ARRAY_SIZE(variables));
}

/* Those that the document has. */
static int set_job(const struct spec *spec, struct strv *env)
{
	const char *value;
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < ARRAY_SIZE(job_variables); i++) {
		value = strv_env_get(&spec->env, job_variables[i]);
		if (value)
			r = strv_env_set(env, job_variables[i], value);
	}
	return r;
}

/* The shell of an salloc begins steps of the whole job, whose numbers are the spec's. */
static int keep_job(const struct spec *spec, struct strv *env)
{
	static const char *const names[] = {
		"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_TASKS_PER_NODE", "SLURM_MPI_TYPE"};
	const char *value;
	size_t i;
	int r = 0;

	for (i = 0; i < ARRAY_SIZE(names) && r == 0; i++) {
		value = strv_env_get(&spec->env, names[i]);
		if (value)
			r = strv_env_set(env, names[i], value);
	}
	return r;
}

/* What a step's tasks are told besides the spec's variables. */
static int set_step(const struct spec *spec, const stepd_step_rec_t *job, const struct identity *id,
	const char *mpi_type, struct strv *env)
{
	const struct text_variable variables[] = {
		{"SLURM_JOB_USER", id->user_name},
		{"SLURMD_NODENAME", job->node_name},
		{"SLURM_JOB_NAME", spec->job_name},
		{"SLURM_MPI_TYPE", mpi_type},
	};
	int r;

	strv_env_unset(env, "SLURM_MPI_TYPE");
	r = set_user(spec, id, env);
	if (r == 0)
		r = set_numbers(spec, job, env);
	if (r == 0)
		r = set_texts(env, variables, ARRAY_SIZE(variables));
	if (r == 0)
		r = set_layout(spec, job, env);
	if (r == 0 && spec->kind == STEPD_STEP_BATCH)
		r = set_job(spec, env);
	if (r == 0)
		r = set_gtids(spec->ranks, spec->local_ntasks, env);
	if (r == 0 && spec->step_id == STEPD_STEP_ID_INTERACTIVE)
		r = keep_job(spec, env);
	return r;
}

int environ_make_common(const struct spec *spec, const struct strv *extra,
	const stepd_step_rec_t *job, const struct identity *id, const char *mpi_type,
	struct strv *ret_env, struct err *err)
{
	_cleanup_strv_ struct strv env = {0};
	size_t i;
	int r = strv_extend(&env, &spec->env);

	if (r == 0 && extra)
		r = strv_env_put_all(&env, extra->v, extra->n);
	for (i = 0; i < ARRAY_SIZE(task_variables); i++)
		strv_env_unset(&env, task_variables[i]);
	if (r == 0 && !spec->env_complete)
		r = set_step(spec, job, id, mpi_type, &env);
	if (r < 0)
		return err_set(err, r, "make the tasks' environment");
	*ret_env = take_struct(env);
	return 0;
}

/* ---- about the binding --------------------------------------------------------------------- */

/* These are Slurm's. A computed mode is given as the resulting masks, of this node's tasks by
 * local id. */

/* The maximum of a variable, well below the kernel's (128 KiB). */
#define VALUE_MAX 100000u

/* The variables of a part of the binding. */
struct bind_variables {
	const char *whole; /* the value of --cpu-bind */
	const char *type;
	const char *list;
	const char *verbose;
	const char *prefer; /* NULL: none */
};

static const struct bind_variables cpu_names = {
	.whole = "SLURM_CPU_BIND",
	.type = "SLURM_CPU_BIND_TYPE",
	.list = "SLURM_CPU_BIND_LIST",
	.verbose = "SLURM_CPU_BIND_VERBOSE",
};

static const struct bind_variables mem_names = {
	.whole = "SLURM_MEM_BIND",
	.type = "SLURM_MEM_BIND_TYPE",
	.list = "SLURM_MEM_BIND_LIST",
	.verbose = "SLURM_MEM_BIND_VERBOSE",
	.prefer = "SLURM_MEM_BIND_PREFER",
};

static void unset_prefix(struct strv *env, const char *prefix)
{
	size_t i, n = 0;

	for (i = 0; i < env->n; i++) {
		if (strncmp(env->v[i], prefix, strlen(prefix)) == 0)
			free(env->v[i]);
		else
			env->v[n++] = env->v[i];
	}
	if (env->n)
		env->v[n] = NULL;
	env->n = n;
}

static int set_whole(struct strv *env, const char *name, const struct bind_text *text,
	const char *type, const char *list)
{
	_cleanup_free_ char *value = NULL;

	if (asprintf(&value, "%s,%s%s%s%s", text->verbose ? "verbose" : "quiet",
		    text->prefer ? "prefer," : "", type, *list ? ":" : "", list) < 0) {
		value = NULL;
		return -ENOMEM;
	}
	return strv_env_set(env, name, value);
}

/* type is a name such as "mask_cpu". A list that is too long for a variable is left out. */
static int put_variables(struct strv *env, const struct bind_variables *names,
	const struct bind_text *text, const char *type, const char *list)
{
	bool fits = strlen(list) <= VALUE_MAX;
	char type_colon[32];
	int r;

	(void)snprintf(type_colon, sizeof(type_colon), "%s%s", type, fits && *list ? ":" : "");
	r = set_whole(env, names->whole, text, type, fits ? list : "");
	if (r == 0)
		r = strv_env_set(env, names->type, type_colon);
	if (r == 0 && fits)
		r = strv_env_set(env, names->list, list);
	if (r == 0)
		r = strv_env_set(env, names->verbose, text->verbose ? "verbose" : "quiet");
	if (r == 0 && text->prefer)
		r = strv_env_set(env, names->prefer, "prefer");
	return r;
}

/* How many masks are enough for all: a list begins again at its end. */
static uint32_t list_length(const struct binding_sets *sets, uint32_t ntasks)
{
	uint32_t i, count = (uint32_t)sets->table.count;

	for (i = 0; i < ntasks && sets->of_task[i] == i % count; i++)
		;
	return i == ntasks && count < ntasks ? count : ntasks;
}

/* NULL: no memory. */
static char *masks_text(const struct binding_sets *sets, uint32_t ntasks)
{
	_cleanup_free_ char *text = NULL;
	size_t mask_size = sets->table.width * BITSET_WORD_BITS / 4 + 3, used = 0, size;
	uint32_t n = list_length(sets, ntasks), i;
	struct bitset set;

	size = n * mask_size + 1;
	text = malloc(size);
	if (!text)
		return NULL;
	text[0] = '\0';
	for (i = 0; i < n; i++) {
		if (i)
			text[used++] = ',';
		set = bitset_table_get(&sets->table, sets->of_task[i]);
		used += bitset_format_hex(&set, text + used, size - used);
	}
	return take_ptr(text);
}

static int set_cpus(const struct spec *spec, const struct binding *b, struct strv *env)
{
	const struct bind_text *text = &spec->cpu_bind;
	const char *type = bind_cpu_names[text->how];
	_cleanup_free_ char *masks = NULL;

	if (!binding_is_computed(text->how))
		return put_variables(env, &cpu_names, text, type, text->list ? text->list : "");
	masks = masks_text(&b->cpus, spec->local_ntasks);
	if (!masks)
		return -ENOMEM;
	if (strlen(masks) <= VALUE_MAX)
		type = bind_cpu_names[BIND_CPU_MASK];
	return put_variables(env, &cpu_names, text, type, masks);
}

/* "plane=4" has two variables. */
static int set_distribution(const struct spec *spec, struct strv *env)
{
	const char *plane = spec->distribution ? strstr(spec->distribution, "plane=") : NULL;
	_cleanup_free_ char *kind = NULL;
	int r;

	if (!spec->distribution)
		return 0;
	kind = strndup(spec->distribution,
		plane ? (size_t)(plane - spec->distribution) + 5 : strlen(spec->distribution));
	if (!kind)
		return -ENOMEM;
	r = strv_env_set(env, "SLURM_DISTRIBUTION", kind);
	strv_env_unset(env, "SLURM_DIST_PLANESIZE");
	if (r == 0 && plane)
		r = strv_env_set(env, "SLURM_DIST_PLANESIZE", plane + 6);
	return r;
}

static void unset_binding(struct strv *env)
{
	unset_prefix(env, cpu_names.whole);
	unset_prefix(env, mem_names.whole);
}

int environ_set_binding(const struct spec *spec, const struct binding *b, struct strv *env)
{
	const struct bind_text *mem = &spec->mem_bind;
	char number[16];
	int r;

	if (!spec->env_complete)
		unset_binding(env);
	r = set_distribution(spec, env);
	if (r == 0 && spec->cpus_per_task) {
		(void)snprintf(number, sizeof(number), "%u", spec->cpus_per_task);
		r = strv_env_set(env, "SLURM_CPUS_PER_TASK", number);
	}
	if (r == 0 && spec->cpu_bind.given)
		r = set_cpus(spec, b, env);
	if (r == 0 && mem->given)
		r = put_variables(
			env, &mem_names, mem, bind_mem_names[mem->how], mem->list ? mem->list : "");
	return r;
}

/* ---- of tasks that join the step ----------------------------------------------------------- */

int environ_make_joined(const struct strv *base, const struct strv *extra, uint32_t size,
	const uint32_t *ranks, uint32_t count, struct strv *ret_env)
{
	static const char *const counts[] = {
		"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"};
	static const char *const others[] = {"SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE",
		"SLURM_DISTRIBUTION", "SLURM_DIST_PLANESIZE"};
	_cleanup_strv_ struct strv env = {0};
	size_t i;
	int r = strv_extend(&env, base);

	if (r == 0)
		r = strv_env_put_all(&env, extra->v, extra->n);
	for (i = 0; i < ARRAY_SIZE(task_variables); i++)
		strv_env_unset(&env, task_variables[i]);
	for (i = 0; i < ARRAY_SIZE(others); i++)
		strv_env_unset(&env, others[i]);
	for (i = 0; r == 0 && i < ARRAY_SIZE(counts); i++)
		r = set_number(&env, counts[i], size);
	if (r == 0)
		r = set_gtids(ranks, count, &env);
	if (r < 0)
		return r;
	unset_binding(&env);
	*ret_env = take_struct(env);
	return 0;
}

/* ---- of one task --------------------------------------------------------------------------- */

int environ_task_reserve(struct environ_task *task, size_t vars)
{
	return array_reserve(task->v, task->capacity, vars + ARRAY_SIZE(task_variables) + 1);
}

/* NAME=NUMBER. Without printf(3): in a child each page of the C library that is touched costs a
 * fault. */
static void put_number(char *text, const char *name, uint32_t n)
{
	char digits[10];
	size_t len = 0;

	while (*name)
		*text++ = *name++;
	do
		digits[len++] = (char)('0' + n % 10);
	while (n /= 10);
	while (len > 0)
		*text++ = digits[--len];
	*text = '\0';
}

void environ_task_fill(struct environ_task *task, const struct strv *base, uint32_t rank,
	uint32_t local_id, pid_t pid)
{
	size_t n = base->n;

	assert(n + ARRAY_SIZE(task_variables) + 1 <= task->capacity);
	put_number(task->procid, "SLURM_PROCID=", rank);
	put_number(task->localid, "SLURM_LOCALID=", local_id);
	environ_task_set_pid(task, pid);
	if (n)
		memcpy(task->v, base->v, n * sizeof(*task->v));
	task->v[n++] = task->procid;
	task->v[n++] = task->localid;
	task->v[n++] = task->task_pid;
	task->v[n] = NULL;
}

void environ_task_set_pid(struct environ_task *task, pid_t pid)
{
	put_number(task->task_pid, "SLURM_TASK_PID=", (uint32_t)pid);
}

void environ_task_clear(struct environ_task *task)
{
	free(task->v);
	task->v = NULL;
	task->capacity = 0;
}
