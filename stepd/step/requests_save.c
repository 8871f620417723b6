/* SPDX-License-Identifier: BSD-3-Clause */
#include <jansson.h>

#include "stepd/snapshot/handover.h"
#include "stepd/step/requests.h"

static const char *const kind_words[] = {
	[REQUEST_SIGNAL] = "signal",
	[REQUEST_SUSPEND] = "suspend",
	[REQUEST_RESUME] = "resume",
};

/* Who waits for the answer is told by who keeps the call. */
static void save_one(const struct request *request, struct handover *h, json_t *one)
{
	const struct request_target *target = &request->target;
	json_t *ranks = handover_put_array(h, one, "ranks");
	size_t i;

	handover_put_text(h, one, "kind", kind_words[request->kind]);
	handover_put_int(h, one, "signal", request->signal);
	handover_put_int(h, one, "whom", target->whom);
	handover_put_bool(h, one, "alone", target->alone);
	handover_put_int(h, one, "pid", target->pid);
	handover_put_int(h, one, "start_ticks", (int64_t)target->start_ticks);
	for (i = 0; i < target->ranks_count; i++)
		handover_append_int(h, ranks, target->ranks[i]);
}

void requests_save(const struct requests *rq, struct handover *h, json_t *object)
{
	json_t *waiting = handover_put_array(h, object, "waiting");
	json_t *held = handover_put_array(h, object, "held_requests");
	const struct request *request;

	handover_put_bool(h, object, "gone", rq->last == NULL);
	handover_put_bool(h, object, "holding", rq->holding);
	handover_put_int(h, object, "held", (int64_t)rq->held);
	for (request = rq->first; request; request = request->next)
		save_one(request, h, handover_append_object(h, waiting));
	for (request = rq->held_first; request; request = request->next)
		save_one(request, h, handover_append_object(h, held));
}

static int restore_signal(struct requests *rq, const json_t *one, int signal)
{
	const json_t *array = handover_get_array(one, "ranks");
	const struct request_answer nobody = {.fn = NULL};
	int64_t whom = handover_get_int(one, "whom", REQUEST_STEP);
	struct request_target target = {
		.alone = handover_get_bool(one, "alone", false),
		.ranks_count = json_array_size(array),
		.pid = (pid_t)handover_get_int(one, "pid", 0),
		.start_ticks = (uint64_t)handover_get_int(one, "start_ticks", 0),
	};
	_cleanup_free_ uint32_t *ranks = calloc(target.ranks_count + 1, sizeof(*ranks));
	size_t i;

	if (!ranks)
		return -ENOMEM;
	if (whom < REQUEST_STEP || whom > REQUEST_PROCESS)
		return -EPROTO;
	target.whom = (enum request_whom)whom;
	target.ranks = ranks;
	for (i = 0; i < target.ranks_count; i++)
		ranks[i] = (uint32_t)json_integer_value(json_array_get(array, i));
	return requests_add_signal(rq, signal, &target, &nobody);
}

/* Those that wait for a resumption: as long as rq->holding they go there again. */
static int restore_held(struct requests *rq, const json_t *array)
{
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < json_array_size(array); i++)
		r = restore_signal(rq, json_array_get(array, i),
			(int)handover_get_int(json_array_get(array, i), "signal", 0));
	return r;
}

static int restore_all(struct requests *rq, const json_t *array)
{
	const json_t *one;
	int kind, signal, r = 0;
	size_t i;

	for (i = 0; r == 0 && i < json_array_size(array); i++) {
		one = json_array_get(array, i);
		kind = handover_get_word(one, "kind", kind_words, (int)ARRAY_SIZE(kind_words), -1);
		signal = (int)handover_get_int(one, "signal", 0);
		if (kind < 0)
			r = -EPROTO;
		else if (kind == REQUEST_SIGNAL)
			r = restore_signal(rq, one, signal);
		else
			r = requests_add(rq, (enum request_kind)kind, signal);
		rq->holding = false; /* they stand in the queue behind what held them */
	}
	return r;
}

int requests_restore(struct requests *rq, const json_t *object)
{
	int r;

	rq->resting = true;
	r = restore_all(rq, handover_get_array(object, "waiting"));
	rq->holding = handover_get_bool(object, "holding", false);
	rq->held = (uint64_t)handover_get_int(object, "held", 0);
	if (r == 0 && rq->holding)
		r = restore_held(rq, handover_get_array(object, "held_requests"));
	if (handover_get_bool(object, "gone", false))
		requests_clear(rq);
	return r;
}

int64_t requests_number_of(const struct requests *rq, const void *asker)
{
	const struct request *request;
	int64_t number = 0;

	for (request = rq->first; request; request = request->next, number++) {
		if (request->answer.fn && request->answer.userdata == asker)
			return number;
	}
	return -1;
}

bool requests_set_answer(struct requests *rq, int64_t number, const struct request_answer *answer)
{
	struct request *request;

	for (request = rq->first; request && number > 0; request = request->next)
		number--;
	if (!request || number < 0)
		return false;
	request->answer = *answer;
	return true;
}
