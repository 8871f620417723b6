/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Parameters beyond their types.
 */
#include <limits.h>
#include <string.h>

#include "stepd/api/proctrack.h"
#include "stepd/base/parse.h"
#include "stepd/operations/operations_impl.h"
#include "stepd/spec/rank_bits.h"

/* ---- parameters ------------------------------------------------------------------------------ */

bool param_is_given(const json_t *parameters, const char *name)
{
	const json_t *value = json_object_get(parameters, name);

	return value && !json_is_null(value);
}

int64_t param_int(const json_t *parameters, const char *name, int64_t otherwise)
{
	const json_t *value = json_object_get(parameters, name);

	return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

bool param_bool(const json_t *parameters, const char *name, bool otherwise)
{
	const json_t *value = json_object_get(parameters, name);

	return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

const char *param_text(const json_t *parameters, const char *name)
{
	return json_string_value(json_object_get(parameters, name));
}

bool param_pid(struct op_call *call, const json_t *parameters, const char *name, pid_t *ret_pid)
{
	int64_t pid = param_int(parameters, name, 0);

	if (param_is_given(parameters, name) && (pid < 1 || pid > INT_MAX)) {
		op_fail_parameter(call, name);
		return false;
	}
	*ret_pid = (pid_t)pid;
	return true;
}

bool param_start_ticks(struct op_call *call, const json_t *parameters, uint64_t *ret_ticks)
{
	int64_t ticks = param_int(parameters, "start_ticks", 0);

	/* no process but the first ones starts at 0, and 0 means "any" further on */
	if (param_is_given(parameters, "start_ticks") && ticks < 1) {
		op_fail_parameter(call, "start_ticks");
		return false;
	}
	*ret_ticks = (uint64_t)ticks;
	return true;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

struct rank_reader {
	unsigned char *here; /* ranks of this node */
	uint32_t limit;
	struct rank_choice *choice;
	uint32_t missing;
};

static int take_rank(uint32_t rank, void *userdata)
{
	struct rank_reader *reader = userdata;

	if (rank >= reader->limit || !rank_bits_test(reader->here, rank)) {
		reader->missing = rank;
		return -ENOENT;
	}
	if (!rank_bits_set(reader->choice->bits, rank))
		reader->choice->count++;
	return 0;
}

static int read_ranks(const struct agent *a, const char *text, struct rank_reader *reader)
{
	uint32_t i;

	reader->limit = a->plan.job.ntasks;
	for (i = 0; i < a->tasks.n; i++) { /* of spawns, they may be far above */
		if (a->tasks.v[i].rank >= reader->limit)
			reader->limit = a->tasks.v[i].rank + 1;
	}
	reader->here = rank_bits_new(reader->limit);
	reader->choice->bits = rank_bits_new(reader->limit);
	reader->choice->limit = reader->limit;
	if (!reader->here || !reader->choice->bits)
		return -ENOMEM;
	for (i = 0; i < a->tasks.n; i++)
		(void)rank_bits_set(reader->here, a->tasks.v[i].rank);
	return parse_ranges(text, UINT32_MAX, take_rank, reader);
}

bool param_ranks(const struct agent *a, struct op_call *call, const json_t *parameters,
	struct rank_choice *ret_choice)
{
	const char *text = param_text(parameters, "ranks");
	struct rank_reader reader = {.choice = ret_choice};
	int r;

	*ret_choice = (struct rank_choice){0};
	if (!text)
		return true;
	r = read_ranks(a, text, &reader);
	free(reader.here);
	if (r == 0)
		return true;
	rank_choice_clear(ret_choice);
	if (r == -ENOENT)
		op_fail_task(call, reader.missing);
	else if (r == -ENOMEM)
		op_fail_no_memory(call);
	else
		op_fail_parameter(call, "ranks");
	return false;
}

void rank_choice_clear(struct rank_choice *choice)
{
	free(choice->bits);
	*choice = (struct rank_choice){0};
}

bool rank_choice_has(const struct rank_choice *choice, uint32_t rank)
{
	if (!choice->bits)
		return true;
	/* one that has joined the step since is none of them */
	return rank < choice->limit && rank_bits_test(choice->bits, rank);
}

uint32_t *rank_choice_list(const struct agent *a, const struct rank_choice *choice)
{
	uint32_t *ranks = malloc((choice->count + 1) * sizeof(*ranks)), i;
	size_t n = 0;

	for (i = 0; ranks && i < a->tasks.n; i++) {
		if (rank_choice_has(choice, a->tasks.v[i].rank))
			ranks[n++] = a->tasks.v[i].rank;
	}
	return ranks;
}
