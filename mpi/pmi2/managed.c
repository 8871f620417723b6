/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The other nodes of a step that another process manager has started, whose PMI servers need not be
 * ours: mpi/pmi/manager.h. It knows fences of all ranks, names of services, and the end of the
 * step; what else concerns several nodes fails.
 */
#include <string.h>

#include "mpi/pmi/manager.h"
#include "mpi/pmi2/gather.h"

static bool managed_send(struct pmi *pmi, enum manager_type type, const struct bytes *body)
{
	return !body->failed && pmi->config.manager->send(pmi->userdata, type, slice_of(body)) == 0;
}

/* ---- fences -------------------------------------------------------------------------------- */

static void managed_on_deadline(struct deadline *d)
{
	struct gather *g = (struct gather *)((char *)d - offsetof(struct gather, deadline));
	char why[120];

	(void)snprintf(why, sizeof(why),
		"ranks of other nodes did not come to the fence within %.3g s (--pmi-timeout)",
		(double)g->space->pmi->config.timeout_ms / 1000);
	gather_fail(g, PMI_OTHER, why);
}

void managed_exchange(struct gather *g)
{
	_cleanup_bytes_ struct bytes pairs = {0};
	struct pmi *pmi = g->space->pmi;

	if (g->kind != &fence_kind || !g->world) {
		gather_fail(
			g, PMI_OTHER, "the step's process manager knows fences of all ranks alone");
		return;
	}
	kvs_add_pending(&g->space->kvs, &pairs);
	deadline_stop(pmi, &g->deadline);
	deadline_start(pmi, &g->deadline, managed_on_deadline);
	g->exchanging = true;
	pmi->managed = g;
	if (!managed_send(pmi, MANAGER_FENCE, &pairs))
		gather_fail(g, PMI_OTHER, "the step's process manager can't be reached");
}

static int merge_pairs(struct kvs *kvs, struct slice pairs)
{
	struct slice key, value;
	int r = 0;

	while (r == 0 && pairs.size > 0)
		r = manager_pair_take(&pairs, &key, &value) ? kvs_set(kvs, key, value) : -EBADMSG;
	return r;
}

static void take_fenced(struct pmi *pmi, struct slice body)
{
	struct gather *g = pmi->managed;
	char why[200];
	uint32_t error;
	int r;

	if (!g)
		return; /* it has failed meanwhile */
	if (!slice_take_u32(&body, &error)) {
		gather_fail(g, PMI_OTHER, "the step's process manager has sent no result");
		return;
	}
	if (error) {
		(void)snprintf(why, sizeof(why), "%.*s",
			(int)(body.size < sizeof(why) ? body.size : sizeof(why) - 1), body.data);
		gather_fail(g, PMI_OTHER, why);
		return;
	}
	r = merge_pairs(&g->space->kvs, body);
	kvs_settle(&g->space->kvs);
	if (r < 0)
		gather_fail(g, r == -EBADMSG ? PMI_OTHER : PMI_NOMEM,
			"the data of the nodes can't be stored");
	else
		gather_finish(g);
}

/* ---- names, aborts ------------------------------------------------------------------------- */

bool managed_query(struct pmi *pmi, uint32_t id, enum manager_query query, struct slice name,
	struct slice value)
{
	_cleanup_bytes_ struct bytes body = {0};

	bytes_add_u32(&body, id);
	bytes_add_u32(&body, query);
	bytes_add_sized(&body, name);
	bytes_add_sized(&body, value);
	return managed_send(pmi, MANAGER_QUERY, &body);
}

bool managed_abort(struct pmi *pmi, int status, const char *text)
{
	_cleanup_bytes_ struct bytes body = {0};

	bytes_add_u32(&body, (uint32_t)status);
	bytes_add_sized(&body, slice_of_text(text));
	return managed_send(pmi, MANAGER_ABORT, &body);
}

/* ---- what comes in ------------------------------------------------------------------------- */

void pmi_manager_frame(struct pmi *pmi, const struct manager_frame *frame)
{
	if (frame->type == MANAGER_FENCED)
		take_fenced(pmi, frame->body);
	else if (frame->type == MANAGER_ANSWER)
		remote_take_answer(pmi, frame->body);
	pmi_run(pmi);
}

void pmi_manager_lost(struct pmi *pmi, const struct err *err)
{
	if (pmi->managed)
		gather_fail(pmi->managed, PMI_OTHER, err->text);
	remote_fail_all(pmi, err->text);
	pmi_run(pmi);
}
