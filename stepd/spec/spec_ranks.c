/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lists of ranks, and what differs for some of them (MPMD).
 */
#include <jansson.h>
#include <string.h>

#include "stepd/base/parse.h"
#include "stepd/spec/rank_bits.h"
#include "stepd/spec/spec_json.h"

int spec_read_ranks(const struct spec_at *at, const json_t *value, uint32_t limit,
	parse_range_fn add, void *userdata, struct err *err)
{
	const char *text = NULL;
	int64_t rank = 0;
	size_t i;
	int r;

	if (!json_is_string(value)) {
		r = spec_check_array(at, value, err);
		for (i = 0; i < json_array_size(value) && r == 0; i++) {
			r = spec_get_int(SPEC_AT_INDEX(at, i), json_array_get(value, i), 0,
				limit - 1, &rank, err);
			if (r == 0)
				r = add((uint32_t)rank, userdata);
		}
		return r;
	}
	r = spec_get_text(at, value, &text, err);
	if (r < 0)
		return r;
	r = parse_ranges(text, limit, add, userdata);
	if (r == -EINVAL)
		return spec_bad(err, at, "'%.200s' is no list of ranks such as \"0-3,8\"", text);
	if (r == -ERANGE)
		return spec_bad(err, at, "'%.200s' holds a rank above %u", text, limit - 1);
	return r == -ENOMEM ? spec_no_memory(err) : r;
}

static int add_rank(uint32_t **ranks, size_t *count, size_t *room, uint32_t rank)
{
	size_t more = *room ? *room * 2 : 16;
	uint32_t *grown;

	if (*count == *room) {
		grown = realloc(*ranks, more * sizeof(**ranks));
		if (!grown)
			return -ENOMEM;
		*ranks = grown;
		*room = more;
	}
	(*ranks)[(*count)++] = rank;
	return 0;
}

struct rank_list {
	struct spec_draft *draft;
	size_t room;
	const struct spec_at *at;
	struct err *err;
};

static int take_rank(uint32_t rank, void *userdata)
{
	struct rank_list *list = userdata;
	struct spec_draft *draft = list->draft;

	if (draft->ranks_count == SPEC_TASKS_MAX) {
		(void)spec_bad(
			list->err, list->at, "has more than %u ranks for one node", SPEC_TASKS_MAX);
		return -ECANCELED;
	}
	return add_rank(&draft->ranks, &draft->ranks_count, &list->room, rank);
}

int spec_row_ranks(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct rank_list list = {.draft = into, .at = at, .err = err};
	int r = spec_read_ranks(at, value, SPEC_NTASKS_MAX, take_rank, &list, err);

	(void)field;
	if (r == -ENOMEM)
		return spec_no_memory(err);
	if (r < 0)
		return -EINVAL;
	if (list.draft->ranks_count == 0)
		return spec_bad(err, at, "is empty");
	return 0;
}

/* ---- entries of tasks --------------------------------------------------------------------- */

struct override_ranks {
	struct spec_task_draft *task;
	const struct spec_at *at;
	struct err *err;
};

static int take_override_rank(uint32_t rank, void *userdata)
{
	struct override_ranks *list = userdata;
	struct spec_task_draft *task = list->task;

	if (task->rank_entries[rank]) {
		(void)spec_bad(list->err, list->at, "rank %u has an entry already", rank);
		return -ECANCELED;
	}
	task->rank_entries[rank] = task->entry;
	if (!rank_bits_test(task->local, rank))
		return 0; /* another node's */
	return add_rank(
		&task->override.ranks, &task->override.ranks_count, &task->ranks_room, rank);
}

int spec_row_task_ranks(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct spec_task_draft *task = into;
	struct override_ranks list = {.task = task, .at = at, .err = err};
	int r = spec_read_ranks(at, value, task->ntasks, take_override_rank, &list, err);

	(void)field;
	if (r == -ENOMEM)
		return spec_no_memory(err);
	if (r < 0)
		return -EINVAL;
	if (json_is_array(value) && json_array_size(value) == 0)
		return spec_bad(err, at, "is empty");
	return 0;
}

int spec_row_task_rank(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct spec_task_draft *task = into;
	struct override_ranks list = {.task = task, .at = at, .err = err};
	int64_t rank = 0;
	int r = spec_get_int(at, value, 0, task->ntasks - 1, &rank, err);

	(void)field;
	if (r < 0)
		return r;
	r = take_override_rank((uint32_t)rank, &list);
	if (r == -ENOMEM)
		return spec_no_memory(err);
	return r < 0 ? -EINVAL : 0;
}

static int compare_ranks(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static int read_override(struct spec_task_draft *task, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct spec_override *o = &task->override;
	bool rank, ranks;
	int r = spec_check_object(SPEC_TABLE_TASK, at, value, err);

	if (r < 0)
		return r;
	rank = json_object_get(value, "rank");
	ranks = json_object_get(value, "ranks");
	if (rank == ranks)
		return spec_bad(err, at,
			rank ? "rank and ranks conflict; give one of them"
			     : "says no rank; give rank or ranks");
	r = spec_read_object(SPEC_TABLE_TASK, task, at, value, err);
	if (r < 0)
		return r;
	if (json_object_get(value, "argv") && o->argv.n == 0)
		return spec_bad(err, SPEC_AT(at, "argv"), "is empty");
	if (o->argv.n > 0 && !o->argv.v[0][0])
		return spec_bad(err, SPEC_AT_INDEX(SPEC_AT(at, "argv"), 0), "is empty");
	if (o->ranks_count > 1)
		qsort(o->ranks, o->ranks_count, sizeof(*o->ranks), compare_ranks);
	return 0;
}

static void override_clear(struct spec_override *o)
{
	free(o->ranks);
	strv_clear(&o->argv);
	free(o->cwd);
	strv_clear(&o->env);
	*o = (struct spec_override){0};
}

/* Of an entry without a rank of this node its command line is kept: MPI ranks may ask for it. */
static int add_override(struct spec *spec, size_t *room, struct spec_override *o, struct err *err)
{
	size_t more = *room ? *room * 2 : 8;
	struct spec_override *grown;

	if (o->ranks_count == 0)
		strv_clear(&o->env);
	if (spec->overrides_count == *room) {
		grown = realloc(spec->overrides, more * sizeof(*grown));
		if (!grown)
			return spec_no_memory(err);
		spec->overrides = grown;
		*room = more;
	}
	spec->overrides[spec->overrides_count++] = *o;
	*o = (struct spec_override){0};
	return 0;
}

int spec_row_tasks(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct spec *spec = &((struct spec_draft *)into)->spec;
	_cleanup_free_ unsigned char *local = rank_bits_new(spec->ntasks);
	struct spec_task_draft task = {.ntasks = spec->ntasks, .local = local};
	size_t i, room = 0;
	int r = spec_check_array(at, value, err);

	(void)field;
	task.rank_entries = spec->rank_entries =
		calloc((size_t)spec->ntasks + 1, sizeof(*spec->rank_entries));
	if (!spec->rank_entries || !local)
		return spec_no_memory(err);
	for (i = 0; i < spec->local_ntasks; i++)
		(void)rank_bits_set(local, spec->ranks[i]);
	for (i = 0; i < json_array_size(value) && r == 0; i++) {
		task.ranks_room = 0;
		task.entry = (uint32_t)i + 1;
		r = read_override(&task, SPEC_AT_INDEX(at, i), json_array_get(value, i), err);
		if (r == 0)
			r = add_override(spec, &room, &task.override, err);
		else
			override_clear(&task.override);
		r = spec_kept(r, err);
	}
	override_clear(&task.override);
	return r;
}
