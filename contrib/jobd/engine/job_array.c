/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/engine/job_array.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stepd/base/bitset.h"
#include "stepd/base/buffer.h"
#include "stepd/base/parse.h"

/* Ids may be named several times, but not so often that it takes long. */
#define NAMED_TIMES_MAX 4u

/* ---- text to ids -------------------------------------------------------------------------------
 */

struct range {
	uint32_t first, last, step;
};

struct parser {
	const char *text; /* all of it, for sentences */
	uint32_t max_size;
	uint64_t named; /* ids until now, again and again */
	struct bitset ids;
	struct err *err;
};

static int refuse(const struct parser *p, int code, const char *why, const char *part)
{
	return err_set_text(p->err, code, "Invalid job array specification '%.60s': %s '%.30s'",
		p->text, why, part);
}

static int parse_id(const struct parser *p, const char *text, uint32_t *ret_id)
{
	uint32_t n;

	if (parse_u32(text, 0, UINT32_MAX, &n) == -EINVAL)
		return refuse(p, -EINVAL, "a task id must be a number, not", text);
	if (parse_u32(text, 0, p->max_size - 1, ret_id) < 0)
		return err_set_text(p->err, -ERANGE,
			"Invalid job array specification '%.60s': task ids are at most %u "
			"(MaxArraySize less 1), not %.30s",
			p->text, p->max_size - 1, text);
	return 0;
}

/* "N", "N-M" or "N-M:STEP". Changes part. */
static int parse_range(const struct parser *p, char *part, struct range *ret_range)
{
	char *rest = part, *ends = strsep(&rest, ":"), *first = strsep(&ends, "-");
	struct range range = {.step = 1};
	int r = parse_id(p, first, &range.first);

	if (r < 0)
		return r;
	range.last = range.first;
	if (ends)
		r = parse_id(p, ends, &range.last);
	if (r < 0)
		return r;
	if (range.last < range.first)
		return refuse(p, -EINVAL, "a range ends below its first id, at", ends);
	if (rest && (!ends || parse_u32(rest, 1, UINT32_MAX, &range.step) < 0))
		return refuse(p, -EINVAL,
			"a range's ':' must be followed by a step of 1 or more, as in 0-8:2, not",
			rest);
	*ret_range = range;
	return 0;
}

static int add_range(struct parser *p, const struct range *range)
{
	uint64_t id; /* the last one and a step may be beyond 32 bits */

	p->named += (range->last - range->first) / range->step + 1;
	if (p->named > (uint64_t)NAMED_TIMES_MAX * p->max_size)
		return err_set_text(p->err, -E2BIG,
			"Invalid job array specification '%.60s': it names more than %u times the "
			"%u tasks that an array may have (MaxArraySize)",
			p->text, NAMED_TIMES_MAX, p->max_size);
	for (id = range->first; id <= range->last; id += range->step)
		bitset_set(&p->ids, (uint32_t)id);
	return 0;
}

static int parse_ids(struct parser *p, char *text)
{
	struct range range = {.step = 1};
	char *part;
	int r;

	while ((part = strsep(&text, ","))) {
		r = parse_range(p, part, &range);
		if (r == 0)
			r = add_range(p, &range);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Cuts it off. */
static int parse_limit(const struct parser *p, char *text, uint32_t *ret_limit)
{
	char *percent = strchr(text, '%');

	*ret_limit = 0;
	if (!percent)
		return 0;
	*percent = '\0';
	if (parse_u32(percent + 1, 1, UINT32_MAX, ret_limit) < 0)
		return refuse(p, -EINVAL,
			"'%' must be followed by the number of tasks that may run at a time, 1 or "
			"more, not",
			percent + 1);
	return 0;
}

static char *copy_without_brackets(const char *text)
{
	size_t size = strlen(text);

	if (size >= 2 && text[0] == '[' && text[size - 1] == ']')
		return strndup(text + 1, size - 2);
	return strdup(text);
}

static int list_ids(const struct bitset *ids, struct job_array_tasks *tasks)
{
	uint32_t id;

	tasks->ids = reallocarray(NULL, bitset_count(ids), sizeof(*tasks->ids));
	if (!tasks->ids)
		return -ENOMEM;
	for (id = bitset_next(ids, 0); id != BITSET_NONE; id = bitset_next(ids, id + 1))
		tasks->ids[tasks->count++] = id;
	return 0;
}

static int parse_text(struct parser *p, struct job_array_tasks *tasks)
{
	_cleanup_free_ char *copy = copy_without_brackets(p->text);
	int r = copy ? parse_limit(p, copy, &tasks->limit) : -ENOMEM;

	if (r == 0)
		r = parse_ids(p, copy);
	if (r == 0)
		r = list_ids(&p->ids, tasks);
	return r == -ENOMEM ? err_set(p->err, r, "read the job array specification") : r;
}

int job_array_parse(
	const char *text, uint32_t max_size, struct job_array_tasks *ret_tasks, struct err *err)
{
	struct parser p = {.text = text, .max_size = max_size, .err = err};
	_cleanup_job_array_tasks_ struct job_array_tasks tasks = {0};
	int r;

	assert(max_size > 0 && max_size <= JOB_ARRAY_SIZE_MAX);
	if (bitset_init(&p.ids, max_size) < 0)
		return err_set(err, -ENOMEM, "read the job array specification");
	r = parse_text(&p, &tasks);
	bitset_clear(&p.ids);
	if (r == 0)
		*ret_tasks = take_struct(tasks);
	return r;
}

void job_array_tasks_clear(struct job_array_tasks *tasks)
{
	free(tasks->ids);
	*tasks = (struct job_array_tasks){0};
}

/* ---- ids to text -------------------------------------------------------------------------------
 */

/* The distance of all neighbours, 0: it isn't one, or so few that they are shown one by one. */
static uint32_t find_step(const struct job_array_tasks *tasks)
{
	const uint32_t *ids = tasks->ids;
	uint32_t step;
	size_t i;

	if (tasks->count < 3 || ids[tasks->count - 1] - ids[0] <= 10)
		return 0;
	step = ids[1] - ids[0];
	for (i = 2; i < tasks->count; i++) {
		if (ids[i] - ids[i - 1] != step)
			return 0;
	}
	return step > 1 ? step : 0;
}

/* The range of neighbours that begins at ids[*i], which moves behind it: its length in text. */
static int format_range(const struct job_array_tasks *tasks, size_t *i, char *text, size_t size)
{
	size_t first = *i, last = first;

	while (last + 1 < tasks->count && tasks->ids[last + 1] == tasks->ids[last] + 1)
		last++;
	*i = last + 1;
	if (first == last)
		return snprintf(text, size, "%s%u", first ? "," : "", tasks->ids[first]);
	return snprintf(
		text, size, "%s%u-%u", first ? "," : "", tasks->ids[first], tasks->ids[last]);
}

static int add_ranges(struct buffer *b, const struct job_array_tasks *tasks, size_t max_chars)
{
	static const char cut[] = ",...";
	const size_t begin = buffer_size(b);
	size_t i, fits = 0; /* chars up to an id behind which the cut fits */
	char text[32];
	int length, r;

	for (i = 0; i < tasks->count;) {
		length = format_range(tasks, &i, text, sizeof(text));
		r = buffer_add(b, text, (size_t)length);
		if (r < 0)
			return r;
		if (max_chars == 0 || buffer_size(b) - begin + strlen(cut) <= max_chars)
			fits = buffer_size(b) - begin;
		if (max_chars == 0 || buffer_size(b) - begin <= max_chars)
			continue;
		b->end = b->at + begin + fits;
		return fits ? buffer_add(b, cut, strlen(cut))
			    : buffer_add(b, cut + 1, strlen(cut) - 1);
	}
	return 0;
}

static int add_ids(struct buffer *b, const struct job_array_tasks *tasks, size_t max_chars)
{
	uint32_t step = find_step(tasks);
	char text[48];
	int length;

	if (!step)
		return add_ranges(b, tasks, max_chars);
	length = snprintf(
		text, sizeof(text), "%u-%u:%u", tasks->ids[0], tasks->ids[tasks->count - 1], step);
	return buffer_add(b, text, (size_t)length);
}

char *job_array_format(const struct job_array_tasks *tasks, size_t max_chars)
{
	_cleanup_buffer_ struct buffer b = {0};
	char limit[32] = "]";
	int r;

	if (tasks->limit)
		(void)snprintf(limit, sizeof(limit), "%%%u]", tasks->limit);
	r = buffer_add(&b, "[", 1);
	if (r == 0)
		r = add_ids(&b, tasks, max_chars);
	if (r == 0)
		r = buffer_add(&b, limit, strlen(limit) + 1);
	return r < 0 ? NULL : strdup(buffer_bytes(&b));
}
