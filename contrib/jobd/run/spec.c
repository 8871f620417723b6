/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Makes the document of a job's step on a node, stepd-spec(5), for its agent. Everything that a
 * user has chosen (files, directories, the script) remains text: the agent opens it as that user.
 */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "contrib/jobd/run/machine.h"
#include "contrib/jobd/run/run_impl.h"
#include "stepd/base/base64.h"
#include "stepd/base/err.h"
#include "stepd/base/fs.h"
#include "stepd/base/parse.h"

#define CPUS_TEXT_MAX 4096
#define BYTES_PER_MB  (UINT64_C(1) << 20)
#define MARKED_SIZE   (UINT16_MAX + 1u) /* more CPUs than there are */
#define PAD_MAX       10u /* digits of a number in a file's name, as Slurm and stepd have it */

/* On a busy machine processes may need long to stop, and a suspension that is refused is taken back
 * on all nodes of the job: so as long as the agent can have until jobd gives its call up, which
 * must still see the refusal. An agent has 5 seconds to resume them then, and some remain for the
 * way. */
#define SUSPEND_TIMEOUT_MS (CALL_TIMEOUT_MS - 10000u)

/* ---- the machine -------------------------------------------------------------------------------
 */

struct machine_cpu {
	uint32_t package, core, cpu;
};

static int compare_cpus(const void *x, const void *y)
{
	const struct machine_cpu *a = x, *b = y;

	if (a->package != b->package)
		return a->package < b->package ? -1 : 1;
	if (a->core != b->core)
		return a->core < b->core ? -1 : 1;
	return a->cpu < b->cpu ? -1 : a->cpu > b->cpu;
}

struct machine_cpus {
	struct machine_cpu *v;
	size_t n, capacity;
};

static int add_cpu(uint32_t n, void *userdata)
{
	struct machine_cpus *cpus = userdata;

	if (array_reserve(cpus->v, cpus->capacity, cpus->n + 1) < 0)
		return -ENOMEM;
	cpus->v[cpus->n++] =
		(struct machine_cpu){.package = machine_read_topology(n, "physical_package_id", 0),
			.core = machine_read_topology(n, "core_id", 0),
			.cpu = n};
	return 0;
}

/* By sockets, cores and threads, as slurm.conf's CPUs are numbered. */
static int probe_cpus(struct run *run)
{
	_cleanup_free_ char *text = NULL;
	struct machine_cpus cpus = {0};
	size_t i;
	int r = fs_read(AT_FDCWD, "/sys/devices/system/cpu/online", CPUS_TEXT_MAX, &text, NULL);

	if (r == 0) {
		text[strcspn(text, "\n")] = '\0';
		r = parse_ranges(text, UINT16_MAX, add_cpu, &cpus);
	}
	if (r == 0 && cpus.n > 0) {
		qsort(cpus.v, cpus.n, sizeof(*cpus.v), compare_cpus);
		run->cpus = calloc(cpus.n, sizeof(*run->cpus));
		for (i = 0; run->cpus && i < cpus.n; i++)
			run->cpus[i] = cpus.v[i].cpu;
		run->cpus_count = run->cpus ? cpus.n : 0;
		r = run->cpus ? 0 : -ENOMEM;
	}
	free(cpus.v);
	return r;
}

int spec_probe(struct run *run, struct err *err)
{
	int r = probe_cpus(run);

	if (r == -ENOMEM)
		return err_set(err, r, "list the machine's CPUs");
	if (r < 0)
		log_warning(run->options.log,
			"this machine's CPUs can't be listed: jobs are not bound to the CPUs that "
			"they got, ignoring");
	run->has_cpuset = machine_has_controller(run->options.cgroup_root, "cpuset");
	run->has_memory = machine_has_controller(run->options.cgroup_root, "memory");
	if (run->cpus_count && !run->has_cpuset)
		log_info(run->options.log,
			"there is no cpuset controller of cgroup v2: the cores of a job are "
			"the affinity of its processes, which they can change");
	return 0;
}

/* ---- environment -------------------------------------------------------------------------------
 */

static int set_text(json_t *env, const char *name, const char *value)
{
	return value ? json_object_set_new(env, name, json_string(value)) : 0;
}

static int set_number(json_t *env, const char *name, uint64_t n)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	return set_text(env, name, text);
}

static int set_given(json_t *env, const char *name, uint32_t n)
{
	return n == NO_VAL ? 0 : set_number(env, name, n);
}

/* The environment of the submission, without variables of a job in which it was submitted. */
static int set_submitted(json_t *env, char *const *entries)
{
	const char *equals;
	int r = 0;

	for (; entries && *entries && r == 0; entries++) {
		_cleanup_free_ char *name = NULL;

		equals = strchr(*entries, '=');
		if (!equals || equals == *entries || strncmp(*entries, "SLURM", 5) == 0)
			continue;
		name = strndup(*entries, (size_t)(equals - *entries));
		r = name ? set_text(env, name, equals + 1) : -ENOMEM;
	}
	return r;
}

/* Slurm's list of a number for each node, "4(x2),8". */
static char *counts_text(const uint32_t *counts, uint32_t n)
{
	_cleanup_free_ char *text = NULL;
	uint32_t i, same;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	for (i = 0; i < n; i += same) {
		for (same = 1; i + same < n && counts[i + same] == counts[i]; same++)
			;
		fprintf(out, i ? ",%u" : "%u", counts[i]);
		if (same > 1)
			fprintf(out, "(x%u)", same);
	}
	return fclose(out) == 0 ? take_ptr(text) : NULL;
}

static uint32_t given_or(uint32_t n, uint32_t other)
{
	return n == NO_VAL || n == 0 ? other : n;
}

/* Tasks that each node may have: by its CPUs, unless a number is given. */
static void find_capacities(const struct job *job, uint32_t *capacities)
{
	const job_resources_t *res = job->record.job_resrcs;
	const struct job_request *q = &job->request;
	uint32_t by_sockets, i = 0;
	bitoff_t node = 0;

	for (; (node = bit_ffs_from_bit(res->node_bitmap, node)) >= 0; node++, i++) {
		by_sockets = given_or(q->ntasks_per_socket, UINT16_MAX) *
			node_record_table_ptr[node].tot_sockets;
		capacities[i] =
			given_or(q->ntasks_per_node, res->cpus[i] / given_or(q->cpus_per_task, 1));
		if (given_or(q->ntasks_per_socket, 0) && capacities[i] > by_sockets)
			capacities[i] = by_sockets;
	}
}

/* In blocks: as many on each node as it may have, and one at least. */
static void fill_nodes(uint32_t tasks, uint32_t n, const uint32_t *capacities, uint32_t *counts)
{
	uint32_t left = tasks, i, others;

	for (i = 0; i < n; i++) {
		others = n - 1 - i;
		counts[i] = left > others ? left - others : 1;
		counts[i] = counts[i] < capacities[i] ? counts[i] : capacities[i];
		counts[i] = counts[i] ? counts[i] : 1;
		left -= left > counts[i] ? counts[i] : left;
	}
}

/* So many on each node in turn, up to what it may have, and one at least. */
static void deal_to_nodes(
	uint32_t tasks, uint32_t plane, uint32_t n, const uint32_t *capacities, uint32_t *counts)
{
	uint32_t left = tasks, before, i, some;

	do {
		before = left;
		for (i = 0; i < n; i++) {
			some = capacities[i] - counts[i];
			some = some < plane ? some : plane;
			some = some < left ? some : left;
			counts[i] += some;
			left -= some;
		}
	} while (left > 0 && left < before);
	for (i = 0; i < n; i++)
		counts[i] = counts[i] ? counts[i] : 1;
}

/* counts: 0 */
static void distribute_tasks(const struct job *job, const uint32_t *capacities, uint32_t *counts)
{
	const job_details_t *d = &job->details;
	const uint32_t n = job->record.job_resrcs->nhosts,
		       kind = d->task_dist & SLURM_DIST_NODEMASK;
	const uint32_t tasks = given_or(job->request.ntasks, UINT32_MAX);

	if (tasks != UINT32_MAX && kind == SLURM_DIST_PLANE)
		deal_to_nodes(tasks, d->plane_size, n, capacities, counts);
	else if (tasks != UINT32_MAX && kind == SLURM_DIST_CYCLIC)
		deal_to_nodes(tasks, 1, n, capacities, counts);
	else
		fill_nodes(tasks, n, capacities, counts);
}

/* The number of tasks that steprun starts without options: one on each node if the user gave none.
 * Without it the agent would set that of the batch step, 1. */
static uint32_t count_tasks(const struct job *job)
{
	const struct job_request *q = &job->request;
	const uint32_t per_node = given_or(q->ntasks_per_node, 1);

	return given_or(q->ntasks, job->record.node_cnt * per_node);
}

static int set_counts(json_t *env, const struct job *job)
{
	const job_resources_t *res = job->record.job_resrcs;
	_cleanup_free_ uint32_t *counts = calloc(res->nhosts, sizeof(*counts));
	_cleanup_free_ uint32_t *numbers = calloc(res->nhosts, sizeof(*numbers));
	_cleanup_free_ char *cpus = NULL, *tasks = NULL;
	uint32_t i;

	if (!counts || !numbers)
		return -ENOMEM;
	for (i = 0; i < res->nhosts; i++)
		numbers[i] = res->cpus[i];
	cpus = counts_text(numbers, res->nhosts);
	if (!cpus)
		return -ENOMEM;
	find_capacities(job, numbers);
	distribute_tasks(job, numbers, counts);
	tasks = counts_text(counts, res->nhosts);
	if (!tasks)
		return -ENOMEM;
	return set_text(env, "SLURM_JOB_CPUS_PER_NODE", cpus) |
		set_text(env, "SLURM_TASKS_PER_NODE", tasks);
}

/* As srun reads it: "plane" and its size are two variables. */
static int set_distribution(json_t *env, const struct job *job)
{
	static const char *const over_nodes[] = {
		[SLURM_DIST_CYCLIC] = "cyclic",
		[SLURM_DIST_BLOCK] = "block",
		[SLURM_DIST_PLANE] = "plane",
	};
	const job_details_t *d = &job->details;
	const char *text = job->request.distribution, *sockets = text ? strchr(text, ':') : NULL;
	const char *name = over_nodes[d->task_dist & SLURM_DIST_NODEMASK];
	_cleanup_free_ char *value = NULL;
	int r = 0;

	if (!text)
		return 0;
	if (asprintf(&value, "%s%s", name ? name : "*", sockets ? sockets : "") < 0)
		return -ENOMEM;
	if (d->plane_size)
		r = set_number(env, "SLURM_DIST_PLANESIZE", d->plane_size);
	return r | set_text(env, "SLURM_DISTRIBUTION", value);
}

static int set_memory(json_t *env, uint64_t memory_mb)
{
	if (memory_mb == NO_VAL64)
		return 0;
	if (memory_mb & MEM_PER_CPU)
		return set_number(env, "SLURM_MEM_PER_CPU", memory_mb & ~MEM_PER_CPU);
	return set_number(env, "SLURM_MEM_PER_NODE", memory_mb);
}

static int set_array(json_t *env, const job_record_t *r)
{
	if (r->array_task_id == NO_VAL)
		return 0;
	return set_number(env, "SLURM_ARRAY_JOB_ID", r->array_job_id) |
		set_number(env, "SLURM_ARRAY_TASK_ID", r->array_task_id);
}

/* A launcher of jobs on other hosts is also that of their steps. */
static int set_step_launcher(json_t *env, const struct run *run)
{
	_cleanup_free_ char *text = NULL;

	if (run->options.step_launcher)
		return set_text(env, "STEPRUN_LAUNCHER", run->options.step_launcher);
	if (!run->options.launcher)
		return set_text(env, "STEPRUN_LAUNCHER", "local");
	if (asprintf(&text, "exec:%s", run->options.launcher) < 0)
		return -ENOMEM;
	return set_text(env, "STEPRUN_LAUNCHER", text);
}

/* Variables of a component, or of a job without components. */
static int set_component(json_t *env, const struct job *job)
{
	const job_record_t *r = &job->record;
	const struct job_request *q = &job->request;
	int ret = set_counts(env, job);

	ret |= set_number(env, "SLURM_JOB_ID", r->job_id);
	ret |= set_number(env, "SLURM_JOBID", r->job_id);
	ret |= set_text(env, "SLURM_JOB_NODELIST", r->nodes);
	ret |= set_text(env, "SLURM_NODELIST", r->nodes);
	ret |= set_number(env, "SLURM_JOB_NUM_NODES", r->node_cnt);
	ret |= set_number(env, "SLURM_NNODES", r->node_cnt);
	ret |= set_number(env, "SLURM_NTASKS", count_tasks(job));
	ret |= set_number(env, "SLURM_NPROCS", count_tasks(job));
	ret |= set_given(env, "SLURM_CPUS_PER_TASK", q->cpus_per_task);
	ret |= set_given(env, "SLURM_NTASKS_PER_NODE", q->ntasks_per_node);
	ret |= set_given(env, "SLURM_NTASKS_PER_SOCKET", q->ntasks_per_socket);
	ret |= set_given(env, "SLURM_NTASKS_PER_CORE", q->ntasks_per_core);
	ret |= set_distribution(env, job);
	ret |= set_text(env, "SLURM_JOB_PARTITION", r->partition);
	ret |= set_text(env, "SLURM_JOB_QOS", r->qos);
	ret |= set_text(env, "SLURM_JOB_RESERVATION", q->reservation);
	return ret | set_memory(env, q->memory_mb);
}

/* The variables of each component, with its number. */
static int set_components(json_t *env, const struct job *job)
{
	uint32_t n = engine_count_components(job), i;
	int r = n > 1 ? set_number(env, "SLURM_HET_SIZE", n) : 0;

	for (i = 0; r == 0 && n > 1 && i < n; i++) {
		const struct job *one = engine_get_component(job, i);
		json_auto_t *its = json_object();
		const char *name;
		json_t *value;

		if (!one || !one->record.job_resrcs)
			continue; /* it has ended already */
		r = its ? set_component(its, one) : -ENOMEM;
		json_object_foreach (its, name, value) {
			_cleanup_free_ char *long_name = NULL;

			if (r == 0 && asprintf(&long_name, "%s_HET_GROUP_%u", name, i) < 0)
				r = -ENOMEM;
			if (r == 0)
				r = json_object_set(env, long_name, value);
		}
	}
	return r;
}

/* The index of its node in the arrays of its job. */
static uint32_t place_of(const struct agent *a)
{
	return (uint32_t)bit_set_count_range(
		a->job->job->record.job_resrcs->node_bitmap, 0, (bitoff_t)a->node->index);
}

static int set_job(json_t *env, const struct agent *a)
{
	const struct job *job = a->job->job;
	const job_record_t *r = &job->record;
	int ret = set_component(env, job) | set_components(env, job);

	ret |= set_number(env, "SLURM_CPUS_ON_NODE", r->job_resrcs->cpus[place_of(a)]);
	ret |= set_text(env, "SLURM_SUBMIT_DIR", job->request.work_dir);
	ret |= set_text(env, "SLURM_SUBMIT_HOST", a->job->run->host);
	ret |= set_text(env, "SLURM_CLUSTER_NAME", a->job->run->cluster_name ?: "cluster");
	ret |= set_array(env, r);
	if (job->restarts > 0)
		ret |= set_number(env, "SLURM_RESTART_COUNT", job->restarts);
	return ret | set_step_launcher(env, a->job->run);
}

/* ---- files -------------------------------------------------------------------------------------
 */

/* %A and %a are Slurm's alone; of the others the agent has these. */
static void put_letter(FILE *out, const job_record_t *r, const char *pad, size_t pad_length, char c)
{
	uint32_t width = 0;
	uint32_t value = r->array_task_id == NO_VAL && c == 'A' ? r->job_id
		: c == 'A'                                      ? r->array_job_id
								: r->array_task_id;

	for (size_t i = 0; i < pad_length && width < PAD_MAX; i++)
		width = width * 10 + (uint32_t)(pad[i] - '0');
	if (c == 'A' || c == 'a')
		fprintf(out, "%0*u", (int)(width < PAD_MAX ? width : PAD_MAX), value);
	else if (c && strchr("jJstnNux%", c))
		fprintf(out, "%%%.*s%c", (int)pad_length, pad, c);
	else
		fprintf(out, "%%%%%.*s%.1s", (int)pad_length, pad, c ? (char[]){c, 0} : "");
}

/* Slurm's pattern as the agent's. NULL: no memory. */
static char *agents_pattern(const char *pattern, const job_record_t *r)
{
	_cleanup_free_ char *text = NULL;
	size_t size, digits;
	const char *p = pattern;
	FILE *out;

	if (strchr(pattern, '\\')) /* nothing is replaced, by either */
		return strdup(pattern);
	out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	while (*p) {
		if (*p != '%') {
			fputc(*p++, out);
			continue;
		}
		digits = strspn(p + 1, "0123456789");
		put_letter(out, r, p + 1, digits, p[1 + digits]);
		p += 1 + digits + (p[1 + digits] != '\0');
	}
	return fclose(out) == 0 ? take_ptr(text) : NULL;
}

static json_t *file_stream(const char *pattern, const struct job *job, bool append)
{
	_cleanup_free_ char *path = agents_pattern(pattern, &job->record);
	json_t *stream = path ? json_pack("{s:s, s:s}", "mode", "file", "path", path) : NULL;

	if (stream && append && json_object_set_new(stream, "append", json_true()) < 0) {
		json_decref(stream);
		return NULL;
	}
	return stream;
}

static int set_streams(json_t *doc, const struct job *job)
{
	const struct job_request *q = &job->request;
	const char *output =
		job->record.array_task_id == NO_VAL ? "slurm-%j.out" : "slurm-%A_%a.out";
	int r = json_object_set_new(doc, "stdin",
		q->stdin_file && *q->stdin_file ? file_stream(q->stdin_file, job, false)
						: json_string("none"));

	if (q->stdout_file && *q->stdout_file)
		output = q->stdout_file;
	r |= json_object_set_new(doc, "stdout", file_stream(output, job, q->append));
	return r |
		json_object_set_new(doc, "stderr",
			q->stderr_file && *q->stderr_file
				? file_stream(q->stderr_file, job, q->append)
				: json_string("stdout"));
}

/* ---- cores and memory --------------------------------------------------------------------------
 */

/* A step for several nodes of this machine may use the CPUs of all of them. */
static bool shares_step(const struct agent *a, const struct agent *other)
{
	return a == other || (a->batch && !a->remote && !other->remote);
}

/* The first CPU of the node on this machine. Nodes that fit into the machine together divide it in
 * their order; if they don't, each node that is as large as the machine has all of it. -1: the node
 * has no CPUs of this machine. */
static int64_t first_cpu(const struct run *run, const node_record_t *node)
{
	uint64_t before = 0, all = 0, cpus;
	int i;

	for (i = 0; i < node_record_count; i++) {
		const node_record_t *other = &node_record_table_ptr[i];

		if (run_is_remote(run, other))
			continue;
		cpus = (uint64_t)other->tot_cores * other->threads;
		if (other->index < node->index)
			before += cpus;
		all += cpus;
	}
	if (all <= run->cpus_count)
		return (int64_t)before;
	cpus = (uint64_t)node->tot_cores * node->threads;
	return cpus == run->cpus_count ? 0 : -1;
}

/* False: they are not this machine's. */
static bool mark_cpus(const struct agent *a, bool *marked)
{
	const struct run *run = a->job->run;
	const bitstr_t *cores = a->job->job->record.job_resrcs->core_bitmap;
	const int64_t first = a->remote || !cores ? -1 : first_cpu(run, a->node);
	uint32_t core, thread;
	uint64_t cpu;

	if (first < 0)
		return false;
	for (core = 0; core < a->node->tot_cores; core++) {
		if (!bit_test(cores, (bitoff_t)a->node->core_offset + core))
			continue;
		for (thread = 0; thread < a->node->threads; thread++) {
			cpu = (uint64_t)first + (uint64_t)core * a->node->threads + thread;
			marked[run->cpus[cpu]] = true;
		}
	}
	return true;
}

static char *cpus_list(const bool *marked)
{
	_cleanup_free_ char *text = NULL;
	const char *separator = "";
	size_t size;
	uint32_t i;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	for (i = 0; i < UINT16_MAX; i++) {
		if (marked[i]) {
			fprintf(out, "%s%u", separator, i);
			separator = ",";
		}
	}
	return fclose(out) == 0 ? take_ptr(text) : NULL;
}

static char *cpus_mask(const bool *marked)
{
	_cleanup_free_ char *text = NULL;
	bool leading = true;
	uint32_t i, digit;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	fputs("0x", out);
	for (i = MARKED_SIZE / 4; i-- > 0;) {
		digit = (uint32_t)marked[4 * i] | (uint32_t)marked[4 * i + 1] << 1 |
			(uint32_t)marked[4 * i + 2] << 2 | (uint32_t)marked[4 * i + 3] << 3;
		leading = leading && digit == 0;
		if (!leading)
			fprintf(out, "%x", digit);
	}
	return fclose(out) == 0 ? take_ptr(text) : NULL;
}

static int set_marked(json_t *doc, json_t *limits, const struct agent *a, const bool *marked)
{
	_cleanup_free_ char *text = NULL, *bind = NULL;

	if (a->job->run->has_cpuset) {
		text = cpus_list(marked);
		return text ? json_object_set_new(limits, "cpuset_cpus", json_string(text))
			    : -ENOMEM;
	}
	if (!a->batch)
		return 0; /* it has no task to be bound */
	text = cpus_mask(marked);
	if (!text || asprintf(&bind, "quiet,mask_cpu:%s", text) < 0)
		return -ENOMEM;
	return json_object_set_new(doc, "cpu_bind", json_string(bind));
}

/* The agents of the job, and of other components where this is the first one's. */
static const struct agent *next_agent(const struct agent *a, uint32_t *component, uint32_t *index)
{
	const struct job *job = a->job->job;

	for (; *component < engine_count_components(job); (*component)++, *index = 0) {
		const struct job *one = engine_get_component(job, *component);
		const struct run_job *j = one ? one->runner_data : NULL;

		while (j && (j == a->job || a->batch) && *index < j->count) {
			const struct agent *other = j->agents[(*index)++];

			if (!other->leaves)
				return other;
		}
	}
	return NULL;
}

static int set_cpus(json_t *doc, json_t *limits, const struct agent *a)
{
	_cleanup_free_ bool *marked = calloc(MARKED_SIZE, sizeof(*marked));
	uint32_t component = 0, i = 0;
	const struct agent *other;

	if (!marked)
		return -ENOMEM;
	while ((other = next_agent(a, &component, &i))) {
		if (shares_step(a, other) && !mark_cpus(other, marked))
			return 0;
	}
	return set_marked(doc, limits, a, marked);
}

/* What the job has on the agent's node, or all nodes of its step; 0: its memory is not counted. */
static uint64_t sum_memory_bytes(const struct agent *a)
{
	const struct agent *other;
	uint64_t sum_mb = 0;
	uint32_t component = 0, i = 0;

	if (!(slurm_conf.select_type_param & CR_MEMORY))
		return 0;
	while ((other = next_agent(a, &component, &i))) {
		const job_resources_t *res = other->job->job->record.job_resrcs;

		if (shares_step(a, other) && res->memory_allocated)
			sum_mb += res->memory_allocated[place_of(other)];
	}
	return sum_mb > INT64_MAX / BYTES_PER_MB ? 0 : sum_mb * BYTES_PER_MB;
}

/* Pages of a job that stands still would be the first to be swapped out. */
static int set_memory_limit(json_t *limits, const struct agent *a)
{
	const struct run *run = a->job->run;
	const json_int_t bytes = a->remote || run->has_memory ? (json_int_t)sum_memory_bytes(a) : 0;
	int r = bytes ? json_object_set_new(limits, "memory_max_bytes", json_integer(bytes)) : 0;

	if (bytes && !run->options.allow_swap)
		r |= json_object_set_new(limits, "memory_swap_max_bytes", json_integer(0));
	return r;
}

/* A job that exceeds its memory ends as a whole. Without the kernel's counting, each of its
 * processes has the limit by itself, as far as its data goes. */
static int set_memory_end(json_t *doc, const json_t *limits, const struct agent *a)
{
	const json_int_t bytes = (json_int_t)sum_memory_bytes(a);

	if (json_object_get(limits, "memory_max_bytes"))
		return json_object_set_new(doc, "oom_kill_step", json_true());
	if (bytes == 0 || !a->batch)
		return 0;
	return json_object_set_new(doc, "rlimits", json_pack("{s:I}", "data", bytes));
}

json_t *spec_make_limits(const struct agent *a)
{
	json_auto_t *limits = json_object(), *unused = json_object();

	if (!limits || !unused || set_cpus(unused, limits, a) < 0 ||
		set_memory_limit(limits, a) < 0)
		return NULL;
	return json_incref(limits);
}

static int set_limits(json_t *doc, const struct agent *a)
{
	json_auto_t *limits = json_object();
	int r = limits ? 0 : -ENOMEM;

	if (r == 0)
		r = set_cpus(doc, limits, a) | set_memory_limit(limits, a);
	if (r == 0)
		r = set_memory_end(doc, limits, a);
	if (r == 0 && json_object_size(limits) > 0)
		r = json_object_set(doc, "limits", limits) |
			json_object_set_new(doc, "limits_mode", json_string("best-effort"));
	return r;
}

/* ---- the document ------------------------------------------------------------------------------
 */

static int set_script_text(json_t *doc, const char *script)
{
	const size_t size = strlen(script);
	_cleanup_free_ char *coded = NULL;

	if (err_is_utf8(script))
		return json_object_set_new(doc, "script", json_string(script));
	coded = malloc(BASE64_SIZE(size) + 1);
	if (!coded)
		return -ENOMEM;
	base64_encode(script, size, coded);
	return json_object_set_new(doc, "script_base64", json_string(coded));
}

static int set_script(json_t *doc, const struct agent *a)
{
	const struct job_request *q = &a->job->job->request;
	json_t *env = json_object(), *argv = json_array();
	int r = json_object_set_new(doc, "env", env) | json_object_set_new(doc, "argv", argv);
	size_t i;

	if (r == 0)
		r = set_submitted(env, q->env) | set_job(env, a);
	for (i = 0; r == 0 && q->argv && q->argv[i]; i++)
		r = json_array_append_new(argv, json_string(q->argv[i]));
	r |= set_script_text(doc, q->script);
	r |= json_object_set_new(doc, "session", json_string("task"));
	return r | set_streams(doc, a->job->job);
}

json_t *spec_make(const struct agent *a, struct err *err)
{
	const job_record_t *r = &a->job->job->record;
	const char *work_dir = a->job->job->request.work_dir;
	json_auto_t *doc = json_pack("{s:s, s:I, s:{s:s}, s:I, s:I, s:s, s:I}", "kind",
		a->batch ? "batch" : "extern", "job", (json_int_t)r->job_id, "node", "name",
		a->node->name, "uid", (json_int_t)r->user_id, "gid", (json_int_t)r->group_id, "cwd",
		work_dir && *work_dir ? work_dir : "/", "suspend_timeout_ms",
		(json_int_t)SUSPEND_TIMEOUT_MS);
	int ret = doc ? 0 : -ENOMEM;

	if (request_check_texts(&a->job->job->request, err) < 0)
		return NULL;
	/* Nodes of one machine have their groups beside each other, by these numbers, which are the
	 * cluster's: those of a job change when it gets nodes or gives some up. */
	if (ret == 0 && !a->batch)
		ret = json_object_update_new(json_object_get(doc, "node"),
			json_pack("{s:I, s:I}", "id", (json_int_t)a->node->index, "count",
				(json_int_t)node_record_count));
	if (ret == 0 && r->name && *r->name)
		ret = json_object_set_new(doc, "name", json_string(r->name));
	if (ret == 0 && a->job->run->options.cgroup_root && !a->remote)
		ret = json_object_set_new(
			doc, "cgroup_root", json_string(a->job->run->options.cgroup_root));
	if (ret == 0 && a->batch)
		ret = set_script(doc, a);
	if (ret == 0)
		ret = set_limits(doc, a);
	if (ret < 0) {
		(void)err_set(err, -ENOMEM, "make the step of job %u", r->job_id);
		return NULL;
	}
	return take_ptr(doc);
}
