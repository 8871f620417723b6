/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The tasks' variables about their binding, which are Slurm's: a mode that was computed is given
 * as the masks that came of it, of this node's tasks by local id.
 */
#include <string.h>

#include "stepd/binding/binding.h"
#include "stepd/spec/spec.h"

/* Of a variable, well below what the kernel takes as one (128 KiB). */
#define VALUE_MAX 100000u

/* The variables of a part of the binding. */
struct names {
	const char *whole; /* what --cpu-bind would be given */
	const char *type;
	const char *list;
	const char *verbose;
	const char *prefer; /* NULL: none */
};

static const struct names cpu_names = {
	.whole = "SLURM_CPU_BIND",
	.type = "SLURM_CPU_BIND_TYPE",
	.list = "SLURM_CPU_BIND_LIST",
	.verbose = "SLURM_CPU_BIND_VERBOSE",
};

static const struct names mem_names = {
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
static int put_variables(struct strv *env, const struct names *names, const struct bind_text *text,
	const char *type, const char *list)
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

void binding_environ_none(struct strv *env)
{
	unset_prefix(env, cpu_names.whole);
	unset_prefix(env, mem_names.whole);
}

int binding_environ(const struct spec *spec, const struct binding *b, struct strv *env)
{
	const struct bind_text *mem = &spec->mem_bind;
	char number[16];
	int r;

	binding_environ_none(env);
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
