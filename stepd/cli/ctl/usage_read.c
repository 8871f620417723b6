/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/ctl/usage_read.h"

#include <jansson.h>
#include <string.h>

#include "stepd/account/usage_values.h"

void usage_reply_clear(struct usage_reply *usage)
{
	free(take_ptr(usage->tasks));
	free(take_ptr(usage->task));
	usage->n = 0;
}

static enum stepd_usage_source source_of(const json_t *row, const char *name)
{
	const char *word =
		json_string_value(json_object_get(json_object_get(row, "usage_sources"), name));
	int i;

	for (i = STEPD_USAGE_UNKNOWN + 1; word && i < STEPD_USAGE_SOURCE_COUNT; i++) {
		if (strcmp(word, usage_source_words[i]) == 0)
			return (enum stepd_usage_source)i;
	}
	return STEPD_USAGE_PROC; /* a source that is not known here: a value all the same */
}

static void read_values(const json_t *row, stepd_usage_t *usage)
{
	const json_t *values = json_object_get(row, "usage"), *value;
	size_t i;

	for (i = 0; i < STEPD_USAGE_COUNT; i++) {
		value = json_object_get(values, usage_values[i].name);
		if (!json_is_integer(value) || json_integer_value(value) < 0)
			continue;
		usage->value[i] = (uint64_t)json_integer_value(value);
		usage->source[i] = (uint8_t)source_of(row, usage_values[i].name);
	}
}

static uint64_t number_of(const json_t *object, const char *key)
{
	json_int_t number = json_integer_value(json_object_get(object, key));

	return number > 0 ? (uint64_t)number : 0;
}

int usage_read(const json_t *reply, struct usage_reply *ret_usage)
{
	const json_t *rows = json_object_get(reply, "tasks"), *row;
	struct usage_reply u = {.time_usec = number_of(reply, "time_usec"),
		.elapsed_usec = number_of(reply, "elapsed_usec"),
		.n = json_array_size(rows)};
	size_t i;

	u.tasks = calloc(u.n + 1, sizeof(*u.tasks));
	u.task = calloc(u.n + 1, sizeof(*u.task));
	if (!u.tasks || !u.task) {
		usage_reply_clear(&u);
		return -ENOMEM;
	}
	read_values(json_object_get(reply, "step"), &u.step);
	json_array_foreach (rows, i, row) {
		u.task[i].id = (uint32_t)i;
		u.task[i].gtid = (uint32_t)number_of(row, "rank");
		read_values(row, &u.tasks[i]);
	}
	*ret_usage = u;
	return 0;
}

static bool read_cpu(const stepd_usage_t *usage, uint64_t *ret_usec)
{
	if (!usage->source[STEPD_USAGE_CPU_USER_USEC] ||
		!usage->source[STEPD_USAGE_CPU_SYSTEM_USEC])
		return false;
	*ret_usec =
		usage->value[STEPD_USAGE_CPU_USER_USEC] + usage->value[STEPD_USAGE_CPU_SYSTEM_USEC];
	return true;
}

double usage_cpu_share_of(
	const stepd_usage_t *now, const stepd_usage_t *before, uint64_t between_usec)
{
	uint64_t later, earlier;

	if (between_usec == 0 || !read_cpu(now, &later) || !read_cpu(before, &earlier) ||
		later < earlier)
		return -1;
	return (double)(later - earlier) / (double)between_usec;
}

double usage_cpu_share(const struct usage_reply *now, const struct usage_reply *before)
{
	if (now->time_usec <= before->time_usec || before->time_usec == 0)
		return -1;
	return usage_cpu_share_of(&now->step, &before->step, now->time_usec - before->time_usec);
}
