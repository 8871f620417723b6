/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The operation Attach: the caller becomes a client of the tasks' streams (stepd/stdio/attach.h),
 * over the connection of its call.
 */
#include <string.h>
#include <unistd.h>

#include "stepd/operations/operations_impl.h"
#include "stepd/stdio/attach.h"
#include "stepd/stdio/stdio.h"

#define STDOUT_BIT (1u << STDOUT_FILENO)
#define STDERR_BIT (1u << STDERR_FILENO)

/* 0: there is no such choice. */
static unsigned streams_of(const char *name)
{
	static const struct {
		const char *name;
		unsigned streams;
	} table[] = {
		{"stdout", STDOUT_BIT},
		{"stderr", STDERR_BIT},
		{"both", STDOUT_BIT | STDERR_BIT},
	};
	size_t i;

	for (i = 0; name && i < ARRAY_SIZE(table); i++) {
		if (strcmp(table[i].name, name) == 0)
			return table[i].streams;
	}
	return name ? 0 : STDOUT_BIT | STDERR_BIT;
}

/* NULL, or the parameter that is wrong. */
static const char *read_choice(
	const struct op_call *call, const json_t *parameters, struct attach_choice *ret_choice)
{
	int64_t since = param_int(parameters, "since", 0);

	*ret_choice = (struct attach_choice){
		.streams = streams_of(param_text(parameters, "stream")),
		.input = param_bool(parameters, "input", false),
		.uid = call->uid,
	};
	if (param_bool(parameters, "tail", false))
		ret_choice->from = ATTACH_FROM_TAIL;
	if (!ret_choice->streams)
		return "stream";
	if (!param_is_given(parameters, "since"))
		return NULL;
	if (since < 0 || ret_choice->from == ATTACH_FROM_TAIL)
		return "since";
	ret_choice->from = ATTACH_FROM_OFFSET;
	ret_choice->offset = (uint64_t)since;
	return NULL;
}

static int compare_ranks(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* The streams as the call has chosen them, but for the ranks. */
static void attach_chosen(
	struct op_call *call, const struct agent *a, const struct attach_choice *choice)
{
	struct err err = ERR_INIT;
	bool terminal = false;
	json_t *reply;
	int fd, r;

	r = stdio_attach(a->stdio, choice, &terminal, &err);
	if (r < 0) {
		op_fail(call, r, err.text);
		return;
	}
	reply = json_pack("{s:b, s:I, s:I}", "terminal", (int)terminal, "ntasks",
		(json_int_t)a->plan.job.ntasks, "nodes", (json_int_t)a->plan.job.nnodes);
	if (op_upgrade_take(call, reply, &fd) < 0)
		return; /* the call has ended */
	r = stdio_attach_take(a->stdio, fd, choice);
	if (r < 0) /* the client sees the end of its channel */
		log_warning(a->log, "attach a client of user %lld: %s", (long long)choice->uid,
			strerror(-r));
}

void op_attach(struct op_call *call, const json_t *parameters, struct operations *o)
{
	const struct agent *a = o->a;
	_cleanup_rank_choice_ struct rank_choice ranks = {0};
	_cleanup_free_ uint32_t *list = NULL;
	struct attach_choice choice;
	const char *wrong = read_choice(call, parameters, &choice);

	if (wrong) {
		op_fail_parameter(call, wrong);
		return;
	}
	if (a->state >= AGENT_ENDED || !a->stdio) {
		op_fail_state(call, a,
			a->state >= AGENT_ENDED
				? "the step has ended"
				: "the step's streams are not this agent's: it has taken the step "
				  "over");
		return;
	}
	if (!param_ranks(a, call, parameters, &ranks))
		return;
	if (ranks.given) {
		list = rank_choice_list(a, &ranks);
		if (!list) {
			op_fail_no_memory(call);
			return;
		}
		qsort(list, ranks.count, sizeof(*list), compare_ranks);
		choice.ranks = list;
		choice.ranks_count = ranks.count;
	}
	attach_chosen(call, a, &choice);
}
