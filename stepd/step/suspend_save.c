/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/snapshot/handover.h"
#include "stepd/step/suspend.h"

void suspend_save(const struct suspend *s, struct handover *h, struct json_t *object)
{
	handover_put_bool(h, object, "wanted", s->wanted);
	handover_put_bool(h, object, "resuming", s->resuming);
	handover_put_bool(h, object, "stands", s->stands);
	handover_put_bool(h, object, "stop_self", s->stop_self);
	handover_put_bool(h, object, "stopped", s->stopped);
	handover_put_bool(h, object, "gave_terminal", s->gave_terminal);
	handover_put_int(h, object, "since_ns", (int64_t)s->since_ns);
	handover_put_int(h, object, "total_ns", (int64_t)s->total_ns);
	requests_save(&s->requests, h, handover_put_object(h, object, "requests"));
}

int suspend_restore(struct suspend *s, const struct json_t *object)
{
	s->wanted = handover_get_bool(object, "wanted", false);
	s->resuming = handover_get_bool(object, "resuming", false);
	s->stands = handover_get_bool(object, "stands", false);
	s->stop_self = handover_get_bool(object, "stop_self", false);
	s->stopped = handover_get_bool(object, "stopped", false);
	s->gave_terminal = handover_get_bool(object, "gave_terminal", false);
	s->since_ns = (uint64_t)handover_get_int(object, "since_ns", 0);
	s->total_ns = (uint64_t)handover_get_int(object, "total_ns", 0);
	return requests_restore(&s->requests, handover_get_object(object, "requests"));
}
