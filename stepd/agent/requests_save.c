/* SPDX-License-Identifier: BSD-3-Clause */
#include <jansson.h>

#include "stepd/agent/reexec/handover.h"
#include "stepd/agent/requests.h"

static const char *const kind_words[] = {
	[REQUEST_SIGNAL] = "signal",
	[REQUEST_SUSPEND] = "suspend",
	[REQUEST_RESUME] = "resume",
};

void requests_save(const struct requests *rq, struct handover *h, json_t *object)
{
	json_t *waiting = handover_put_array(h, object, "waiting"), *one;
	const struct request *request;

	handover_put_bool(h, object, "gone", rq->last == NULL);
	handover_put_bool(h, object, "holding", rq->holding);
	handover_put_int(h, object, "held", (int64_t)rq->held);
	for (request = rq->first; request; request = request->next) {
		one = handover_append_object(h, waiting);
		handover_put_text(h, one, "kind", kind_words[request->kind]);
		handover_put_int(h, one, "signal", request->signal);
	}
}

int requests_restore(struct requests *rq, const json_t *object)
{
	const json_t *waiting = handover_get_array(object, "waiting"), *one;
	int kind, r = 0;
	size_t i;

	rq->resting = true;
	for (i = 0; r == 0 && i < json_array_size(waiting); i++) {
		one = json_array_get(waiting, i);
		kind = handover_get_word(one, "kind", kind_words, (int)ARRAY_SIZE(kind_words), -1);
		r = kind < 0 ? -EPROTO
			     : requests_add(rq, (enum request_kind)kind,
				       (int)handover_get_int(one, "signal", 0));
	}
	rq->holding = handover_get_bool(object, "holding", false);
	rq->held = (uint64_t)handover_get_int(object, "held", 0);
	if (handover_get_bool(object, "gone", false))
		requests_clear(rq);
	return r;
}
