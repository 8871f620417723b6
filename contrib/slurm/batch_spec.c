/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/batch_spec.h"

#include <ctype.h>
#include <jansson.h>
#include <string.h>

#include "contrib/slurm/site_conf.h"
#include "stepd/base/buffer.h"
#include "stepd/base/parse.h"

#define WIDTH_MAX 10u
#define NODES_MAX 65536u
#define TASKS_MAX (16u << 20)

void batch_files_clear(struct batch_files *files)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(files->path); i++)
		free(files->path[i]);
	*files = (struct batch_files){0};
}

/* ---- names of files ------------------------------------------------------------------------ */

bool batch_knows_pattern(const char *name)
{
	const char *at = name;

	/* A number is a task. A backslash switches patterns off, and more. */
	if (strchr(name, '\\') || !name[strspn(name, "0123456789")])
		return false;
	while ((at = strchr(at, '%'))) {
		size_t digits = strspn(at + 1, "0123456789");

		at += 1 + digits;
		if (!*at || !strchr(digits ? "AaJjNnstux" : "%AaJjNnstux", *at))
			return false;
		at++;
	}
	return true;
}

struct expansion {
	const struct slurm_launch *launch;
	const struct slurm_node_conf *node;
	struct buffer text;
	int r;
};

static void put_bytes(struct expansion *e, const char *bytes, size_t n)
{
	if (e->r == 0)
		e->r = buffer_add(&e->text, bytes, n);
}

static void put_string(struct expansion *e, const char *text)
{
	put_bytes(e, text ? text : "(null)", strlen(text ? text : "(null)"));
}

static void put_padded(struct expansion *e, uint32_t n, unsigned width)
{
	char digits[24];

	(void)snprintf(digits, sizeof(digits), "%0*u", (int)width, n);
	put_string(e, digits);
}

static void put_value(struct expansion *e, char kind, unsigned width)
{
	const struct slurm_launch *l = e->launch;
	const struct slurm_batch_job *b = &l->batch;

	switch (kind) {
	case 'a':
		put_padded(e, b->array_task, width);
		return;
	case 'A':
		put_padded(e, b->array_task == SLURM_NO_VAL ? l->id.job : b->array_job, width);
		return;
	case 'J':
	case 'j':
		put_padded(e, l->id.job, width);
		return;
	case 'n':
	case 't':
		put_padded(e, 0, width);
		return;
	case 'N':
		put_string(
			e, l->cred_release >= SLURM_25_11 ? e->node->node_name : e->node->hostname);
		return;
	case 's':
		put_string(e, "batch");
		return;
	case 'u':
		put_string(e, l->user);
		return;
	case 'x':
		put_string(e, step_spec_getenv(l, "SLURM_JOB_NAME"));
		return;
	default:
		put_bytes(e, &kind, 1);
	}
}

static void put_pattern(struct expansion *e, const char *at)
{
	unsigned width;
	size_t n;

	for (; *at; at++) {
		n = strcspn(at, "%");
		put_bytes(e, at, n);
		at += n;
		if (!*at)
			return;
		for (width = 0, at++; isdigit((unsigned char)*at); at++)
			width = width > WIDTH_MAX ? width : width * 10 + (unsigned)(*at - '0');
		if (!*at)
			return;
		put_value(e, *at, width < WIDTH_MAX ? width : WIDTH_MAX);
	}
}

/* These mean the descriptors of the process that opens them, which is not the user's. */
static bool is_descriptor(const char *path)
{
	return strncmp(path, "/dev/std", strlen("/dev/std")) == 0 ||
		strncmp(path, "/dev/fd/", strlen("/dev/fd/")) == 0 ||
		strncmp(path, "/proc/", strlen("/proc/")) == 0;
}

static int expand(const struct slurm_launch *launch, const struct slurm_node_conf *node,
	const char *pattern, char **ret_path, struct err *err)
{
	struct expansion e = {.launch = launch, .node = node};
	_cleanup_free_ char *path = NULL;

	if (pattern[0] != '/') {
		put_string(&e, launch->cwd);
		put_bytes(&e, "/", 1);
	}
	put_pattern(&e, pattern);
	put_bytes(&e, "", 1);
	if (e.r == 0)
		path = strdup(buffer_bytes(&e.text));
	buffer_clear(&e.text);
	if (!path)
		return err_set(err, -ENOMEM, "expand the file's name '%s'", pattern);
	if (is_descriptor(path))
		return err_set_text(err, -EINVAL,
			"the file '%s' is a descriptor of the process that opens it", path);
	*ret_path = take_ptr(path);
	return 0;
}

int batch_expand_files(const struct slurm_launch *launch, const struct slurm_node_conf *node,
	struct batch_files *ret_files, struct err *err)
{
	const char *usual =
		launch->batch.array_task == SLURM_NO_VAL ? "slurm-%J.out" : "slurm-%A_%a.out";
	const char *patterns[3] = {
		launch->files[0], launch->files[1] ? launch->files[1] : usual, launch->files[2]};
	_cleanup_batch_files_ struct batch_files files = {0};
	size_t i;
	int r;

	for (i = 0; i < ARRAY_SIZE(patterns); i++) {
		if (!patterns[i])
			continue;
		r = expand(launch, node, patterns[i], &files.path[i], err);
		if (r < 0)
			return r;
	}
	if (files.path[2] && strcmp(files.path[1], files.path[2]) == 0) {
		free(files.path[2]);
		files.path[2] = NULL;
	}
	*ret_files = files;
	files = (struct batch_files){0};
	return 0;
}

/* ---- the tasks of the job's nodes ---------------------------------------------------------- */

/* One task after the other to each node that has processors for it; what is left goes to all in
 * turn. */
void batch_lay_out(
	const uint32_t *capacity, uint32_t *tasks, uint32_t n, uint32_t total, bool packs)
{
	bool fits = !packs;
	uint32_t i, given = 0, round;

	memset(tasks, 0, n * sizeof(*tasks));
	for (i = 0; packs && i < n && given < total; i++, given++)
		tasks[i] = 1;
	for (i = 0; packs && i < n && given < total; i++) {
		while (tasks[i] < capacity[i] && given < total) {
			tasks[i]++;
			given++;
		}
	}
	for (round = 0; n > 0 && given < total; round++) {
		bool more_fit = false;

		for (i = 0; i < n && given < total; i++) {
			if (round >= capacity[i] && fits)
				continue;
			tasks[i]++;
			given++;
			more_fit |= round + 1 < capacity[i];
		}
		fits = fits && more_fit;
	}
}

/* "2(x3),1" */
static int print_counts(const uint32_t *counts, uint32_t n, char **ret_text)
{
	size_t size;
	FILE *f = open_memstream(ret_text, &size);
	uint32_t i, same;

	if (!f)
		return -ENOMEM;
	for (i = 0; i < n; i += same) {
		for (same = 1; i + same < n && counts[i + same] == counts[i]; same++)
			;
		(void)fprintf(f, i ? ",%u" : "%u", counts[i]);
		if (same > 1)
			(void)fprintf(f, "(x%u)", same);
	}
	return fclose(f) == 0 ? 0 : -ENOMEM;
}

/* The processors of each node: *ret_cpus is for free(). The number of nodes, or -errno. */
static int64_t read_node_cpus(const struct slurm_batch_job *b, uint32_t **ret_cpus)
{
	uint64_t total = 0;
	uint32_t i, k, n = 0;

	for (i = 0; i < b->node_cpus_reps.n; i++)
		total += slurm_array_u32(&b->node_cpus_reps, i);
	if (total == 0 || total > NODES_MAX)
		return -E2BIG;
	*ret_cpus = calloc(total, sizeof(**ret_cpus));
	if (!*ret_cpus)
		return -ENOMEM;
	for (i = 0; i < b->node_cpus.n; i++) {
		for (k = slurm_array_u32(&b->node_cpus_reps, i); k > 0; k--)
			(*ret_cpus)[n++] = slurm_array_u16(&b->node_cpus, i);
	}
	return n;
}

/* ---- the environment ----------------------------------------------------------------------- */

struct variables {
	json_t *env;
	int r; /* of the first failure */
};

static void put(struct variables *v, const char *name, const char *value)
{
	json_t *text;

	if (!value || v->r < 0)
		return;
	text = json_string(value);
	v->r = text ? json_object_set_new(v->env, name, text) : -EILSEQ;
}

static void put_number(struct variables *v, const char *name, uint64_t n)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	put(v, name, text);
}

/* A variable with two names. */
static void put_both(struct variables *v, const char *name, const char *old_name, const char *value)
{
	put(v, name, value);
	put(v, old_name, value);
}

/* From 23.02 on ntasks counts only what --ntasks was given for. */
static uint32_t count_tasks(const struct slurm_launch *l, int64_t nodes)
{
	const char *per_node = l->ntasks || l->cred_release < SLURM_23_02
		? NULL
		: step_spec_getenv(l, "SLURM_NTASKS_PER_NODE");
	uint32_t n;

	if (!per_node || parse_u32(per_node, 0, TASKS_MAX / (uint32_t)nodes, &n) < 0)
		return l->ntasks;
	return n * (uint32_t)nodes;
}

/* In 22.05 sbatch's own count is left. */
static void put_ntasks(struct variables *v, const struct slurm_launch *l, uint32_t ntasks)
{
	static const char *const names[] = {"SLURM_NTASKS", "SLURM_NPROCS"};
	size_t i;

	for (i = 0; ntasks && i < ARRAY_SIZE(names); i++) {
		if (l->cred_release >= SLURM_23_02 || !json_object_get(v->env, names[i]))
			put_number(v, names[i], ntasks);
	}
}

static uint32_t count_cpus_per_task(const struct slurm_batch_job *b)
{
	return b->cpus_per_task && b->cpus_per_task != SLURM_NO_VAL16 ? b->cpus_per_task : 1;
}

/* What mpirun has the tasks of the script by. */
static int put_tasks_per_node(struct variables *v, const struct step_spec_input *in, uint32_t *cpus,
	uint32_t n, uint32_t ntasks)
{
	const struct slurm_batch_job *b = &in->launch->batch;
	uint32_t per_task = count_cpus_per_task(b);
	_cleanup_free_ uint32_t *tasks = calloc(n, sizeof(*tasks));
	_cleanup_free_ char *text = NULL;
	uint32_t i, total = 0;
	int r;

	if (!tasks)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		total += cpus[i] / per_task;
		cpus[i] = cpus[i] < per_task ? 1 : cpus[i] / per_task;
	}
	if (ntasks)
		total = ntasks;
	if (total > TASKS_MAX)
		return -E2BIG;
	batch_lay_out(cpus, tasks, n, total, in->site->packs_nodes);
	r = print_counts(tasks, n, &text);
	put(v, "SLURM_TASKS_PER_NODE", text);
	return r;
}

/* What the tasks of a later srun in the script are distributed by. From 26.05 on slurmctld has laid
 * out the tasks. */
static int put_layout(struct variables *v, const struct step_spec_input *in)
{
	const struct slurm_launch *l = in->launch;
	_cleanup_free_ uint32_t *cpus = NULL;
	_cleanup_free_ char *cpus_text = NULL;
	int64_t n = read_node_cpus(&l->batch, &cpus);
	uint32_t ntasks;

	if (n < 0)
		return (int)n;
	ntasks = count_tasks(l, n);
	put_ntasks(v, l, ntasks);
	if (print_counts(cpus, (uint32_t)n, &cpus_text) < 0)
		return -ENOMEM;
	put_number(v, "SLURM_CPUS_ON_NODE", cpus[0]);
	put(v, "SLURM_JOB_CPUS_PER_NODE", cpus_text);
	put_number(v, "SLURM_JOB_NUM_NODES", (uint64_t)n);
	put_number(v, "SLURM_NNODES", (uint64_t)n);
	if (json_object_get(v->env, "SLURM_CPUS_PER_TASK"))
		put_number(v, "SLURM_CPUS_PER_TASK", count_cpus_per_task(&l->batch));
	put(v, "SLURM_TRES_PER_TASK", l->batch.tres_per_task);
	return l->cred_release >= SLURM_26_05
		? 0
		: put_tasks_per_node(v, in, cpus, (uint32_t)n, ntasks);
}

static void put_job(struct variables *v, const struct slurm_launch *l)
{
	const struct slurm_batch_job *b = &l->batch;
	char id[16];

	(void)snprintf(id, sizeof(id), "%u", l->id.job);
	put_both(v, "SLURM_JOB_ID", "SLURM_JOBID", id);
	put_both(v, "SLURM_JOB_NODELIST", "SLURM_NODELIST", l->nodes);
	put(v, "SLURM_JOB_PARTITION", b->partition);
	if (l->cred_release >= SLURM_26_05) { /* a signed number to Slurm */
		(void)snprintf(id, sizeof(id), "%d", (int)l->id.step);
		put_both(v, "SLURM_STEP_ID", "SLURM_STEPID", id);
	}
	if (l->cred_release < SLURM_23_11)
		put(v, "SLURM_NODE_ALIASES", b->node_aliases ? b->node_aliases : "(null)");
	put(v, "SLURM_JOB_ACCOUNT", b->account);
	put(v, "SLURM_JOB_QOS", b->qos);
	put(v, "SLURM_JOB_RESERVATION", b->reservation);
	if (b->array_task != SLURM_NO_VAL) {
		put_number(v, "SLURM_ARRAY_JOB_ID", b->array_job);
		put_number(v, "SLURM_ARRAY_TASK_ID", b->array_task);
	}
	if (b->memory_mb & SLURM_MEMORY_PER_CPU)
		put_number(v, "SLURM_MEM_PER_CPU", b->memory_mb & ~SLURM_MEMORY_PER_CPU);
	else if (b->memory_mb)
		put_number(v, "SLURM_MEM_PER_NODE", b->memory_mb);
	if (b->restart_count)
		put_number(v, "SLURM_RESTART_COUNT", b->restart_count);
	if (b->overcommit)
		put(v, "SLURM_OVERCOMMIT", "1");
}

static void put_place(struct variables *v, const struct step_spec_input *in)
{
	const struct site_conf *site = in->site;
	char text[512];

	put(v, "SLURM_CLUSTER_NAME", site->cluster);
	put(v, "HOSTNAME", in->node->node_name);
	put(v, "SLURMD_NODENAME", in->node->node_name);
	put(v, "ENVIRONMENT", "BATCH");
	put(v, "SLURM_NODEID", "0");
	put(v, "SLURM_GTIDS", "0");
	put(v, "SLURM_JOB_USER", in->launch->user);
	put_number(v, "SLURM_JOB_UID", in->launch->uid);
	put_number(v, "SLURM_JOB_GID", in->launch->gid);
	put(v, "SLURM_CONF", secure_getenv("SLURM_CONF"));
	if (site->cluster && site->controller_name && site->select_plugin &&
		in->launch->cred_release < SLURM_23_11) {
		(void)snprintf(text, sizeof(text), "%s:%s:%u:%u:%u", site->cluster,
			site->controller_name, ntohs(site->controllers.address[0].sin_port),
			(unsigned)in->launch->cred_release, site->select_plugin);
		put(v, "SLURM_WORKING_CLUSTER", text);
	}
	if (!json_object_get(v->env, "TMPDIR"))
		put(v, "TMPDIR", "/tmp");
}

static int complete_env(json_t *doc, const struct step_spec_input *in)
{
	struct variables v = {.env = json_object_get(doc, "env")};
	int r;

	(void)json_object_del(v.env, "SLURM_UMASK"); /* perhaps there is none */
	(void)json_object_del(v.env, "SLURM_CONF_SERVER");
	put_job(&v, in->launch);
	put_place(&v, in);
	r = put_layout(&v, in);
	return v.r < 0 ? v.r : r;
}

/* ---- the whole ----------------------------------------------------------------------------- */

/* The reference is taken over; NULL is a text that is not UTF-8, or a lack of memory. */
static int set(json_t *object, const char *name, json_t *value)
{
	if (!value)
		return -EILSEQ;
	return json_object_set_new(object, name, value) < 0 ? -ENOMEM : 0;
}

/* The arguments behind the program's own name: the script's, or those of the program before it. */
static int set_arguments(json_t *doc, const struct step_spec_input *in, const char *script)
{
	struct slurm_strs rest = in->launch->argv;
	size_t i, before = in->before ? in->before->n : 0;
	json_t *argv = json_array();
	const char *text;
	int r = argv ? set(doc, "argv", argv) : -ENOMEM;

	for (i = 1; r == 0 && i < before; i++)
		r = json_array_append_new(argv, json_string(in->before->v[i])) < 0 ? -EILSEQ : 0;
	if (r == 0 && before > 0)
		r = json_array_append_new(argv, json_string(script)) < 0 ? -EILSEQ : 0;
	(void)slurm_strs_next(&rest);
	while (r == 0 && (text = slurm_strs_next(&rest)))
		r = json_array_append_new(argv, json_string(text)) < 0 ? -EILSEQ : 0;
	return r;
}

/* The path as a pattern that means nothing else: with a backslash in it nothing is replaced, and
 * each one stands for the character behind it. */
static json_t *pack_file(const char *path, bool append)
{
	bool literal = strchr(path, '\\');
	_cleanup_free_ char *pattern = malloc(2 * strlen(path) + 1);
	char *to = pattern;

	if (!pattern)
		return NULL;
	for (; *path; path++) {
		if (*path == (literal ? '\\' : '%'))
			*to++ = *path;
		*to++ = *path;
	}
	*to = '\0';
	return append ? json_pack("{s:s, s:s, s:b}", "mode", "file", "path", pattern, "append", 1)
		      : json_pack("{s:s, s:s}", "mode", "file", "path", pattern);
}

/* Who has probed the files has also emptied them. */
static int set_files(json_t *doc, const struct batch_files *files)
{
	int r = set(doc, "stdin",
		files->path[0] ? pack_file(files->path[0], false) : json_string("none"));

	if (r == 0)
		r = set(doc, "stdout", pack_file(files->path[1], true));
	if (r == 0)
		r = set(doc, "stderr",
			files->path[2] ? pack_file(files->path[2], true) : json_string("stdout"));
	return r;
}

static int set_job(json_t *doc, const struct step_spec_input *in, const char *script)
{
	const char *name = step_spec_getenv(in->launch, "SLURM_JOB_NAME");
	bool before = in->before && in->before->n > 0;
	int r = set(doc, "kind", json_string("batch"));

	if (r == 0)
		r = set(doc, "job", json_integer(in->launch->id.job));
	if (r == 0 && name && *name)
		r = set(doc, "name", json_string(name));
	if (r == 0)
		r = set(doc, "node", json_pack("{s:s}", "name", in->node->node_name));
	if (r == 0)
		r = set(doc, "cwd", json_string(in->cwd));
	if (r == 0)
		r = set(doc, "script_file", json_string(before ? in->before->v[0] : script));
	return r == 0 ? set(doc, "env_complete", json_true()) : r;
}

int batch_spec_make(const struct step_spec_input *input, const struct batch_files *files,
	const char *script, json_t **ret_doc, struct err *err)
{
	json_auto_t *doc = json_object();
	int r = doc ? set_job(doc, input, script) : -ENOMEM;

	if (r == 0)
		r = step_spec_set_shared(doc, input);
	if (r == 0)
		r = complete_env(doc, input);
	if (r == 0)
		r = set_arguments(doc, input, script);
	if (r == 0)
		r = set_files(doc, files);
	if (r < 0)
		return err_set(err, r, "make the script's spec");
	*ret_doc = json_incref(doc);
	return 0;
}
