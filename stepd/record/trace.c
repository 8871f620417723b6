/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/record/trace.h"

#include <jansson.h>
#include <string.h>

#include "stepd/base/buffer.h"
#include "stepd/base/clock.h"
#include "stepd/record/report.h"
#include "stepd/snapshot/handover.h"

struct event {
	const char *name;
	int64_t rank; /* -1: the agent's */
	uint64_t begin_ns, end_ns;
};

struct trace {
	uint64_t start_ns;
	struct event *v;
	size_t n, capacity;
	bool lost;     /* for want of memory: said in the file */
	json_t *names; /* of events that another program has noted: their texts */
};

struct trace *trace_new(uint64_t start_ns)
{
	struct trace *t = calloc(1, sizeof(*t));

	if (t)
		t->start_ns = start_ns;
	return t;
}

static void add(struct trace *t, const struct event *e)
{
	if (!t)
		return;
	if (array_reserve(t->v, t->capacity, t->n + 1) == 0)
		t->v[t->n++] = *e;
	else
		t->lost = true;
}

void trace_phase(struct trace *t, const char *name, uint64_t begin_ns)
{
	add(t, &(struct event){name, -1, begin_ns, clock_now_ns()});
}

void trace_task(
	struct trace *t, const char *name, uint32_t rank, uint64_t begin_ns, uint64_t end_ns)
{
	add(t, &(struct event){name, rank, begin_ns, end_ns});
}

/* One complete event ("ph": "X"), microseconds as Chrome has them. Row 0 is the agent's. */
static json_t *pack_event(const struct trace *t, const struct event *e)
{
	return json_pack("{s:s, s:s, s:f, s:f, s:i, s:I}", "name", e->name, "ph", "X", "ts",
		(double)(e->begin_ns - t->start_ns) / 1e3, "dur",
		(double)(e->end_ns - e->begin_ns) / 1e3, "pid", 1, "tid",
		(json_int_t)(e->rank + 1));
}

static json_t *pack(const struct trace *t, const char *label)
{
	json_t *events = json_array(), *doc;
	size_t i;
	int r = events ? 0 : -1;

	for (i = 0; r == 0 && i < t->n; i++)
		r = json_array_append_new(events, pack_event(t, &t->v[i]));
	doc = r == 0
		? json_pack("{s:O, s:s, s:{s:s, s:b}}", "traceEvents", events, "displayTimeUnit",
			  "ms", "otherData", "step", label, "incomplete", (int)t->lost)
		: NULL;
	json_decref(events);
	return doc;
}

int trace_write(const struct trace *t, const char *path, const char *label, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	json_t *doc = pack(t, label);
	int r;

	text = doc ? json_dumps(doc, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
	json_decref(doc);
	if (!text)
		return err_set(err, -ENOMEM, "write the trace '%s'", path);
	r = report_store(path, text, false);
	return r < 0 ? err_set(err, r, "write the trace '%s'", path) : 0;
}

/* name, rank, begin and end of each. */
void trace_save(const struct trace *t, struct handover *h, json_t *object)
{
	json_t *events = handover_put_array(h, object, "events");
	const struct event *e;
	size_t i;

	handover_put_int(h, object, "start_ns", (int64_t)t->start_ns);
	handover_put_bool(h, object, "lost", t->lost);
	for (i = 0; i < t->n; i++) {
		e = &t->v[i];
		handover_append_text(h, events, e->name);
		handover_append_int(h, events, e->rank);
		handover_append_int(h, events, (int64_t)e->begin_ns);
		handover_append_int(h, events, (int64_t)e->end_ns);
	}
}

struct trace *trace_restore(const json_t *object)
{
	struct trace *t = trace_new((uint64_t)json_get_int(object, "start_ns", 0));
	const char *name;
	size_t i;

	if (!t)
		return NULL;
	t->lost = json_get_bool(object, "lost", false);
	t->names = json_incref(json_get_array(object, "events"));
	for (i = 0; i + 3 < json_array_size(t->names); i += 4) {
		name = json_string_value(json_array_get(t->names, i));
		if (name)
			add(t,
				&(struct event){name,
					json_integer_value(json_array_get(t->names, i + 1)),
					(uint64_t)json_integer_value(
						json_array_get(t->names, i + 2)),
					(uint64_t)json_integer_value(
						json_array_get(t->names, i + 3))});
	}
	return t;
}

struct trace *trace_free(struct trace *t)
{
	if (t) {
		json_decref(t->names);
		free(t->v);
	}
	free(t);
	return NULL;
}
