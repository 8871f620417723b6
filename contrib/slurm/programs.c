/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/programs.h"

#include <assert.h>
#include <jansson.h>
#include <string.h>

#include "contrib/slurm/launch.h"
#include "stepd/base/parse.h"
#include "stepd/cli/run/multi_prog.h"

/* More is handed over: slurmd waits, and each entry is compared with all programs. */
#define NAMES_MAX 1024u
/* Of all entries, in which a line, and what follows the list, stand for each rank. */
#define ENTRIES_BYTES_MAX ((uint64_t)64 << 20)

void programs_clear(struct programs *programs)
{
	json_decref(programs->tasks);
	programs->tasks = NULL;
	strv_clear(&programs->names);
}

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "read the step's programs");
}

static int add_name(struct programs *p, const char *name, struct err *err)
{
	size_t i;

	for (i = 0; i < p->names.n; i++) {
		if (strcmp(p->names.v[i], name) == 0)
			return 0;
	}
	if (p->names.n == NAMES_MAX)
		return err_set_text(err, -E2BIG, "it has more than %u programs", NAMES_MAX);
	return strv_add(&p->names, name) < 0 ? no_memory(err) : 0;
}

/* A document holds UTF-8 alone. */
static bool is_text(const char *text)
{
	json_auto_t *value = json_string(text);

	return value;
}

/* Slurm has double quotes, backslashes and other marks than these in a way of its own. */
static bool is_plain(const char *list)
{
	const char *at = list;

	if (list[strcspn(list, "\"\\")])
		return false;
	while ((at = strchr(at, '%'))) {
		if (at[1] != 't' && at[1] != 'o')
			return false;
		at++;
	}
	return true;
}

/* What all entries may have, of which there are as many as lines, or as ranks. */
static bool fits(const char *list, uint32_t ntasks, const struct strv *extra)
{
	uint64_t entries = 0, size, longest = 0, more = 0;
	const char *line = list;
	size_t i;

	for (; *line; line += size + (line[size] != '\0')) {
		size = strcspn(line, "\n");
		longest = size > longest ? size : longest;
		entries++;
	}
	if (strchr(list, '%') || entries > ntasks)
		entries = ntasks;
	for (i = 0; i < extra->n; i++)
		more += strlen(extra->v[i]) + 1;
	return entries == 0 || longest + more <= ENTRIES_BYTES_MAX / entries;
}

static int read_list(struct programs *p, const struct slurm_launch *launch, struct err *err)
{
	struct slurm_strs rest = launch->argv;
	_cleanup_strv_ struct strv extra = {0};
	const char *list, *text, *name;
	const json_t *entry;
	size_t i;
	int r = 0;

	(void)slurm_strs_next(&rest); /* the file's name */
	list = slurm_strs_next(&rest);
	if (!list)
		return err_set_text(err, -EBADMSG, "the message has no list of programs");
	while (r == 0 && (text = slurm_strs_next(&rest)))
		r = is_text(text) ? strv_add(&extra, text) : -EILSEQ;
	if (r == 0 && !is_text(list))
		r = -EILSEQ;
	if (r < 0)
		return err_set(err, r, "read the step's programs");
	if (!is_plain(list))
		return err_set_text(err, -EOPNOTSUPP,
			"its list of programs has double quotes, backslashes, or other marks than "
			"%%t and %%o");
	if (!fits(list, launch->ntasks, &extra))
		return err_set_text(err, -E2BIG, "its list of programs is too long for %u tasks",
			launch->ntasks);
	r = multi_prog_parse(list, launch->ntasks, extra.v, &p->tasks, err);
	if (r < 0)
		return r;
	json_array_foreach (p->tasks, i, entry) {
		name = json_string_value(json_array_get(json_object_get(entry, "argv"), 0));
		r = name ? add_name(p, name, err) : no_memory(err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- the ranks of a component -------------------------------------------------------------- */

struct shift {
	json_t *ranks;
	uint32_t by;
};

static int shift_rank(uint32_t rank, void *userdata)
{
	struct shift *shift = userdata;

	assert(shift);
	return json_array_append_new(shift->ranks, json_integer((json_int_t)rank + shift->by));
}

/* An entry has a number, or a list as a text. */
static int shift_entry(json_t *entry, uint32_t ntasks, uint32_t by)
{
	const json_t *rank = json_object_get(entry, "rank");
	struct shift shift = {.by = by};
	const char *list = json_string_value(json_object_get(entry, "ranks"));
	int r;

	if (rank)
		return json_object_set_new(
			entry, "rank", json_integer(json_integer_value(rank) + (json_int_t)by));
	shift.ranks = json_array();
	r = shift.ranks && list ? parse_ranges(list, ntasks, shift_rank, &shift) : -1;
	if (r == 0)
		return json_object_set_new(entry, "ranks", shift.ranks);
	json_decref(shift.ranks);
	return r;
}

/* The list has the component's ranks, the spec those of the whole. */
static int shift_ranks(const struct programs *p, const struct slurm_launch *launch, struct err *err)
{
	uint32_t by = slurm_whole_first_rank(launch);
	json_t *entry;
	size_t i;

	if (by == 0)
		return 0;
	json_array_foreach (p->tasks, i, entry) {
		if (shift_entry(entry, launch->ntasks, by) < 0)
			return no_memory(err);
	}
	return 0;
}

/* ---- all of it ------------------------------------------------------------------------------ */

int programs_read(const struct slurm_launch *launch, struct programs *ret_programs, struct err *err)
{
	_cleanup_programs_ struct programs p = {0};
	struct slurm_strs rest = launch->argv;
	const char *name = slurm_strs_next(&rest);
	int r;

	if (!name)
		return err_set_text(err, -EBADMSG, "the message has no program");
	if (launch->flags & SLURM_FLAG_MULTI_PROG)
		r = read_list(&p, launch, err);
	else
		r = strv_add(&p.names, name) < 0 ? no_memory(err) : 0;
	if (r == 0)
		r = shift_ranks(&p, launch, err);
	if (r < 0)
		return r;
	*ret_programs = p;
	p = (struct programs){0};
	return 0;
}
