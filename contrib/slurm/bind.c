/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/bind.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stepd/base/bitset.h"

#define CPUS_MAX 65536u

/* The first that fits. */
struct bind_row {
	unsigned flag;
	const char *name; /* of the spec's */
	bool has_list;
	const char *kind;
};

static const struct bind_row cpu_rows[] = {
	{SLURM_CPU_OFF, "none", false, "NONE"},
	{SLURM_CPU_BY_RANK, "rank", false, "RANK"},
	{SLURM_CPU_BY_MAP, "map_cpu", true, "MAP "},
	{SLURM_CPU_BY_MASK, "mask_cpu", true, "MASK"},
	{SLURM_CPU_BY_LDOM_RANK, "rank_ldom", false, "LDRANK"},
	{SLURM_CPU_BY_LDOM_MAP, "map_ldom", true, "LDMAP"},
	{SLURM_CPU_BY_LDOM_MASK, "mask_ldom", true, "LDMASK"},
};

static const struct bind_row mem_rows[] = {
	{SLURM_MEM_OFF, "none", false, "NONE"},
	{SLURM_MEM_BY_RANK, "rank", false, "RANK"},
	{SLURM_MEM_BY_MAP, "map_mem", true, "MAP"},
	{SLURM_MEM_BY_MASK, "mask_mem", true, "MASK"},
	{SLURM_MEM_TO_LOCAL, "local", false, "LOC"},
};

static const struct bind_row *find_row(const struct bind_row *rows, size_t n, unsigned flags)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (flags & rows[i].flag)
			return &rows[i];
	}
	return NULL;
}

/* A list must be there, if it has to be. */
static bool is_whole(const struct bind_row *row, const char *list)
{
	return !row || !row->has_list || (list && *list);
}

bool bind_is_served(const struct slurm_launch *l)
{
	return !(l->mem_bind_type & SLURM_MEM_SORT) &&
		is_whole(find_row(cpu_rows, ARRAY_SIZE(cpu_rows), l->cpu_bind_type), l->cpu_bind) &&
		is_whole(find_row(mem_rows, ARRAY_SIZE(mem_rows), l->mem_bind_type), l->mem_bind);
}

static int set_field(
	json_t *doc, const char *field, const struct bind_row *row, bool prefer, const char *list)
{
	_cleanup_free_ char *text = NULL;

	if (!row)
		return 0;
	if (asprintf(&text, "%s%s%s%s", prefer ? "prefer," : "", row->name,
		    row->has_list ? ":" : "", row->has_list ? list : "") < 0) {
		text = NULL;
		return -ENOMEM;
	}
	return json_object_set_new(doc, field, json_string(text)) < 0 ? -ENOMEM : 0;
}

int bind_set(json_t *doc, const struct slurm_launch *l)
{
	int r = set_field(doc, "cpu_bind",
		find_row(cpu_rows, ARRAY_SIZE(cpu_rows), l->cpu_bind_type), false, l->cpu_bind);

	return r < 0 ? r
		     : set_field(doc, "mem_bind",
			       find_row(mem_rows, ARRAY_SIZE(mem_rows), l->mem_bind_type),
			       l->mem_bind_type & SLURM_MEM_PREFER, l->mem_bind);
}

/* ---- lists with an entry for each task ----------------------------------------------------- */

static uint64_t get_repeat(const char *entry)
{
	const char *star = memchr(entry, '*', strcspn(entry, ","));
	int repeat = star ? atoi(star + 1) : 1;

	return repeat > 0 ? (uint64_t)repeat : 1;
}

/* NULL: that was the last. Empty ones don't count. */
static const char *next_entry(const char *entry)
{
	entry += strcspn(entry, ",");
	entry += strspn(entry, ",");
	return *entry ? entry : NULL;
}

const char *bind_find_entry(const char *list, uint32_t task)
{
	const char *first = list + strspn(list, ","), *entry;
	uint64_t n = 0, at;

	if (!*first)
		return NULL;
	for (entry = first; entry; entry = next_entry(entry))
		n += get_repeat(entry);
	at = task % n;
	for (entry = first; at >= get_repeat(entry); entry = next_entry(entry))
		at -= get_repeat(entry);
	return entry;
}

static int add_entry(const char *entry, bool mask, struct bitset *cpus)
{
	size_t n = strcspn(entry, ",*");
	unsigned long number;

	if (mask && strncmp(entry, "0x", 2) == 0)
		return bitset_add_hex(cpus, entry + 2, n - 2);
	if (mask)
		return bitset_add_hex(cpus, entry, n);
	number = strtoul(entry, NULL, 0);
	if (number >= CPUS_MAX)
		return -ERANGE;
	(void)bitset_set(cpus, (uint32_t)number);
	return 0;
}

int bind_find_cpus(const struct slurm_launch *l, uint32_t task, struct bitset *cpus)
{
	const struct bind_row *row = find_row(cpu_rows, ARRAY_SIZE(cpu_rows), l->cpu_bind_type);
	const char *entry;
	int r;

	if (!row || row->flag == SLURM_CPU_OFF)
		return 0;
	if (row->flag != SLURM_CPU_BY_MAP && row->flag != SLURM_CPU_BY_MASK)
		return -EOPNOTSUPP;
	entry = l->cpu_bind ? bind_find_entry(l->cpu_bind, task) : NULL;
	if (!entry)
		return -EINVAL;
	r = bitset_init(cpus, CPUS_MAX);
	if (r == 0)
		r = add_entry(entry, row->flag == SLURM_CPU_BY_MASK, cpus);
	return r < 0 ? r : 1;
}

/* ---- what is printed ----------------------------------------------------------------------- */

static const char *find_kind(
	const struct bind_row *rows, size_t n, unsigned flags, unsigned verbose)
{
	const struct bind_row *row = flags & verbose ? find_row(rows, n, flags) : NULL;

	return row ? row->kind : NULL;
}

const char *bind_cpu_kind(const struct slurm_launch *l)
{
	return find_kind(cpu_rows, ARRAY_SIZE(cpu_rows), l->cpu_bind_type, SLURM_CPU_VERBOSE);
}

const char *bind_mem_kind(const struct slurm_launch *l)
{
	return find_kind(mem_rows, ARRAY_SIZE(mem_rows), l->mem_bind_type, SLURM_MEM_VERBOSE);
}
