/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/server/waits.h"

#include <assert.h>
#include <jansson.h>
#include <sys/queue.h>

#include "stepd/control/control.h"

struct wait {
	TAILQ_ENTRY(wait) entry;
	struct waits *waits;
	struct control_call *call;
	bool until_started;
	bool no_memory;      /* for the document */
	uint32_t *ids;       /* ascending: jobs that have not come so far */
	size_t ids_count;    /* 0: it is to be answered */
	json_t *document;    /* of the job that counts most until now; NULL: none */
	int document_status; /* its exit status */
};

TAILQ_HEAD(wait_list, wait);

struct waits {
	const struct engine *engine;
	struct wait_list all;
};

struct waits *waits_new(const struct engine *e)
{
	struct waits *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->engine = e;
	TAILQ_INIT(&w->all);
	return w;
}

static void wait_free(struct wait *wait)
{
	TAILQ_REMOVE(&wait->waits->all, wait, entry);
	json_decref(wait->document);
	free(wait->ids);
	free(wait);
}

struct waits *waits_free(struct waits *w)
{
	struct wait *wait;

	if (!w)
		return NULL;
	while ((wait = TAILQ_FIRST(&w->all)))
		wait_free(wait);
	free(w);
	return NULL;
}

static void on_gone(struct control_call *call, void *userdata)
{
	struct wait *wait = userdata;

	(void)call;
	assert(wait);
	wait_free(wait);
}

/* ---- jobs that have come so far -----------------------------------------------------------------
 */

static bool has_come(const struct wait *wait, const struct job *job)
{
	const uint32_t state = job->record.job_state;

	if (wait->until_started)
		return (state & JOB_STATE_BASE) != JOB_PENDING && !(state & JOB_CONFIGURING);
	return target_has_ended(job);
}

static void take_document(struct wait *wait, const struct job *job)
{
	json_t *document;

	if (wait->document && job->exit_status < wait->document_status)
		return;
	document = job_to_json(wait->waits->engine, job);
	if (!document) {
		wait->no_memory = true;
		return;
	}
	json_decref(wait->document);
	wait->document = document;
	wait->document_status = job->exit_status;
}

/* The index of that id, or of the first one above it. */
static size_t find_id(const struct wait *wait, uint32_t id)
{
	size_t low = 0, high = wait->ids_count, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (wait->ids[middle] < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool waits_for(const struct wait *wait, uint32_t id)
{
	const size_t i = find_id(wait, id);

	return i < wait->ids_count && wait->ids[i] == id;
}

static void drop_id(struct wait *wait, uint32_t id)
{
	size_t i = find_id(wait, id);

	for (; i + 1 < wait->ids_count; i++)
		wait->ids[i] = wait->ids[i + 1];
	wait->ids_count--;
}

void waits_job_changed(struct waits *w, const struct job *job)
{
	struct wait *wait;

	TAILQ_FOREACH(wait, &w->all, entry)
	{
		if (!waits_for(wait, job->record.job_id) || !has_come(wait, job))
			continue;
		take_document(wait, job);
		drop_id(wait, job->record.job_id);
	}
}

void waits_job_forgotten(struct waits *w, uint32_t job_id)
{
	struct wait *wait;

	TAILQ_FOREACH(wait, &w->all, entry)
	{
		if (waits_for(wait, job_id))
			drop_id(wait, job_id);
	}
}

/* ---- the calls ----------------------------------------------------------------------------------
 */

static void answer(struct wait *wait)
{
	struct control_call *call = wait->call;
	const bool is_unknown = !wait->document && !wait->no_memory; /* forgotten before it came */
	json_t *document = wait->no_memory ? NULL : json_incref(wait->document);
	json_t *reply = document ? json_pack("{s:o}", "job", document) : NULL;

	wait_free(wait);
	if (reply)
		control_reply_take(call, reply, true);
	else if (is_unknown)
		control_error_take(call, "NoSuchJob",
			json_pack("{s:s, s:s}", "job", "", "message", "the job was forgotten"));
	else
		control_no_memory(call);
}

void waits_answer(struct waits *w)
{
	struct wait *wait = TAILQ_FIRST(&w->all), *next;

	/* a reply ends no other call here: that comes from the loop */
	for (; wait; wait = next) {
		next = TAILQ_NEXT(wait, entry);
		if (wait->ids_count == 0)
			answer(wait);
	}
}

void waits_add(
	struct waits *w, struct control_call *call, const struct target *target, bool until_started)
{
	struct wait *wait = calloc(1, sizeof(*wait));
	size_t i;

	if (!wait || !(wait->ids = calloc(target->count, sizeof(*wait->ids)))) {
		free(wait);
		control_no_memory(call);
		return;
	}
	wait->waits = w;
	wait->call = call;
	wait->until_started = until_started;
	TAILQ_INSERT_TAIL(&w->all, wait, entry);
	for (i = 0; i < target->count; i++) {
		if (has_come(wait, target->jobs[i]))
			take_document(wait, target->jobs[i]);
		else
			wait->ids[wait->ids_count++] = target->jobs[i]->record.job_id;
	}
	if (wait->ids_count == 0)
		answer(wait);
	else
		control_call_on_gone(call, on_gone, wait);
}
