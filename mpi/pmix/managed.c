/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The other nodes of a step that another process manager has started, whose PMIx servers need not
 * be ours: mpi/pmi/manager.h. It knows fences, the data of single ranks and the end of the step;
 * what else concerns several nodes is not supported.
 */
#include <string.h>

#include "mpi/pmi/manager_link.h"
#include "mpi/pmix/px.h"

/* A call of libpmix's that waits for the manager. */
struct managed_wait {
	struct managed_wait *next;
	uint32_t id;
	struct call *call;
	collective_fn done;   /* of a fence; NULL: it is a modex */
	pmix_status_t status; /* of this node's ranks */
	uint64_t context;
};

struct managed {
	struct manager_link *link;
	struct managed_wait *waits;
	uint32_t last_id;
	bool has_aborted; /* the others' ends are its consequence */
};

static void wait_finish(
	struct px *px, struct managed_wait **at, pmix_status_t status, struct slice data)
{
	struct managed_wait *w = *at;
	char *copy = malloc(data.size + 1);

	*at = w->next;
	if (copy && data.size)
		memcpy(copy, data.data, data.size);
	if (!copy)
		status = PMIX_ERR_NOMEM;
	if (status == PMIX_SUCCESS)
		status = w->status;
	if (w->done)
		w->done(px, w->call, status, w->context, copy, copy ? data.size : 0);
	else
		call_answer_modex(w->call, status, copy, copy ? data.size : 0);
	free(w);
}

static void managed_finish_all(struct px *px, pmix_status_t status)
{
	while (px->managed->waits)
		wait_finish(px, &px->managed->waits, status, (struct slice){"", 0});
}

/* ---- to the manager ------------------------------------------------------------------------ */

static bool managed_send(struct px *px, enum manager_type type, const struct bytes *body)
{
	return !body->failed && manager_link_send(px->managed->link, type, slice_of(body)) == 0;
}

/* Takes the call: NULL where memory is short. */
static struct managed_wait *wait_new(struct px *px, struct call *call)
{
	struct managed_wait *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->id = ++px->managed->last_id;
	w->call = call;
	w->context = (uint64_t)(px->node + 1) << 32 | ++px->contexts;
	w->next = px->managed->waits;
	px->managed->waits = w;
	return w;
}

static struct slice slice_of_nspace(const pmix_proc_t *proc)
{
	return (struct slice){proc->nspace, strnlen(proc->nspace, PMIX_MAX_NSLEN)};
}

static void send_fence(struct px *px, const struct managed_wait *w, const void *data, size_t size)
{
	_cleanup_bytes_ struct bytes body = {0};
	const struct call *call = w->call;

	bytes_add_u32(&body, w->id);
	/* That the directive is there counts for Slurm, and not its value. */
	bytes_add_u32(&body, call_find(call, PMIX_COLLECT_DATA) != NULL);
	bytes_add_u32(&body, (uint32_t)call->nprocs);
	for (size_t i = 0; i < call->nprocs; i++) {
		bytes_add_sized(&body, slice_of_nspace(&call->procs[i]));
		bytes_add_u32(&body, call->procs[i].rank);
	}
	bytes_add(&body, data, size);
	if (!managed_send(px, MANAGER_COLLECT, &body))
		wait_finish(px, &px->managed->waits, PMIX_ERR_UNREACH, (struct slice){"", 0});
}

static pmix_status_t local_status(const struct call *call)
{
	const pmix_info_t *info = call_find(call, PMIX_LOCAL_COLLECTIVE_STATUS);

	return info && info->value.type == PMIX_STATUS ? info->value.data.status : PMIX_SUCCESS;
}

/* 1: it has ranks of other nodes; 0: none; or -errno. */
static int has_others(struct px *px, const struct call *call)
{
	_cleanup_bitset_ struct bitset nodes = {.words = NULL};
	int r = bitset_init(&nodes, px->nnodes);

	if (r == 0)
		r = names_nodes(&px->names, call->procs, call->nprocs, px->node, &nodes);
	if (r < 0)
		return r;
	bitset_set(&nodes, px->node);
	return bitset_count(&nodes) > 1;
}

void managed_begin(struct px *px, enum collective_kind kind, struct call *call, const void *data,
	size_t size, collective_fn done)
{
	int others = has_others(px, call);
	struct managed_wait *w = others < 0 ? NULL : wait_new(px, call);

	if (!w) {
		done(px, call, call_status_of(others < 0 ? others : -ENOMEM), 0, NULL, 0);
		return;
	}
	w->done = done;
	w->status = local_status(call);
	if (others && kind == COLLECTIVE_FENCE)
		send_fence(px, w, data, size);
	else if (others)
		wait_finish(px, &px->managed->waits, PMIX_ERR_NOT_SUPPORTED, (struct slice){"", 0});
	else
		wait_finish(px, &px->managed->waits, PMIX_SUCCESS, (struct slice){data, size});
}

void managed_modex(struct px *px, struct call *call)
{
	_cleanup_bytes_ struct bytes body = {0};
	struct managed_wait *w = wait_new(px, call);

	if (!w) {
		call_answer_modex(call, PMIX_ERR_NOMEM, NULL, 0);
		return;
	}
	bytes_add_u32(&body, w->id);
	bytes_add_sized(&body, slice_of_nspace(&call->proc));
	bytes_add_u32(&body, call->proc.rank);
	if (!managed_send(px, MANAGER_MODEX, &body))
		wait_finish(px, &px->managed->waits, PMIX_ERR_UNREACH, (struct slice){"", 0});
}

/* The requester's time ends what is not sent. */
void managed_reply(struct px *px, uint64_t id, pmix_status_t status, const char *data, size_t size)
{
	_cleanup_bytes_ struct bytes body = {0};

	bytes_add_u32(&body, (uint32_t)id);
	bytes_add_u32(&body, (uint32_t)status);
	if (status == PMIX_SUCCESS)
		bytes_add(&body, data, size);
	(void)managed_send(px, MANAGER_MODEXED, &body);
}

bool managed_abort(struct px *px, int code, const char *text)
{
	_cleanup_bytes_ struct bytes body = {0};

	if (px->managed->has_aborted)
		return true;
	bytes_add_u32(&body, (uint32_t)code);
	bytes_add_sized(&body, slice_of_text(text));
	if (!managed_send(px, MANAGER_ABORT, &body))
		return false;
	px->managed->has_aborted = true;
	serve_log(px->serve, LOG_LEVEL_ERROR, "%s", text);
	return true;
}

/* ---- from the manager ---------------------------------------------------------------------- */

static struct managed_wait **find_wait(struct px *px, uint32_t id, bool is_fence)
{
	struct managed_wait **at = &px->managed->waits;

	while (*at && ((*at)->id != id || ((*at)->done != NULL) != is_fence))
		at = &(*at)->next;
	return at;
}

static void take_collected(struct px *px, struct slice body)
{
	struct managed_wait **at;
	uint32_t id, error;

	if (!slice_take_u32(&body, &id) || !slice_take_u32(&body, &error))
		return;
	at = find_wait(px, id, true);
	if (*at)
		wait_finish(px, at,
			!error                       ? PMIX_SUCCESS
				: error == ETIMEDOUT ? PMIX_ERR_TIMEOUT
						     : PMIX_ERROR,
			body);
}

static void take_modexed(struct px *px, struct slice body)
{
	struct managed_wait **at;
	uint32_t id, status;

	if (!slice_take_u32(&body, &id) || !slice_take_u32(&body, &status))
		return;
	at = find_wait(px, id, false);
	if (*at)
		wait_finish(px, at, (pmix_status_t)status, body);
}

static void take_modex(struct px *px, struct slice body)
{
	pmix_proc_t proc = {.rank = 0};
	struct slice nspace;
	uint32_t id, rank;

	if (!slice_take_u32(&body, &id) || !slice_take_sized(&body, &nspace) ||
		!slice_take_u32(&body, &rank) || nspace.size > PMIX_MAX_NSLEN)
		return;
	memcpy(proc.nspace, nspace.data, nspace.size);
	proc.rank = rank;
	modex_serve_managed(px, &proc, id);
}

static void on_manager_frame(void *userdata, const struct manager_frame *frame)
{
	if (frame->type == MANAGER_COLLECTED)
		take_collected(userdata, frame->body);
	else if (frame->type == MANAGER_MODEXED)
		take_modexed(userdata, frame->body);
	else if (frame->type == MANAGER_MODEX)
		take_modex(userdata, frame->body);
}

static void on_manager_lost(void *userdata, const struct err *err)
{
	struct px *px = userdata;

	serve_log(px->serve, LOG_LEVEL_WARNING, "PMIx: %s", err->text);
	managed_finish_all(px, PMIX_ERR_LOST_CONNECTION);
}

/* ---- life ---------------------------------------------------------------------------------- */

int managed_open(struct px *px, const char *path, struct err *err)
{
	const struct manager_link_options options = {.loop = px->loop,
		.path = path,
		.frame = on_manager_frame,
		.lost = on_manager_lost,
		.userdata = px};
	int r;

	px->managed = calloc(1, sizeof(*px->managed));
	if (!px->managed)
		return err_set(err, -ENOMEM, "serve PMIx");
	r = manager_link_open(&options, &px->managed->link, err);
	if (r < 0) {
		free(px->managed);
		px->managed = NULL;
	}
	return r;
}

void managed_close(struct px *px)
{
	if (!px->managed)
		return;
	managed_finish_all(px, PMIX_ERR_LOST_CONNECTION);
	px->managed->link = manager_link_close(px->managed->link);
	free(px->managed);
	px->managed = NULL;
}
