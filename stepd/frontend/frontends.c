/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/frontend/frontends.h"

#include "stepd/frontend/mpi_requests.h"
#include "stepd/frontend/varlink.h"
#include "stepd/operations/operations.h"
#include "stepd/snapshot/handover.h"
#include "stepd/step/agent_impl.h"
#include "stepd/step/frontend.h"

/* One takes callers in, one reads their calls, and one is for those whose turn came between. */
#define LAST_ROUNDS 3

struct frontends {
	struct operations *operations;
	struct varlink *varlink;
};

static struct frontends *frontends_close(struct frontends *f)
{
	if (!f)
		return NULL;
	f->varlink = varlink_close(f->varlink);
	f->operations = operations_free(f->operations);
	free(f);
	return NULL;
}

static struct frontends *frontends_new(struct agent *a)
{
	struct frontends *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->operations = operations_new(a);
	return f->operations ? f : frontends_close(f);
}

static int frontends_open(struct agent *a, struct err *err)
{
	struct frontends *f = a->frontends; /* of a restore() that has failed */
	int r;

	if (!f)
		f = a->frontends = frontends_new(a);
	if (!f)
		return err_set(err, -ENOMEM, "open the step's socket");
	r = varlink_open(f->operations, NULL, NULL, &f->varlink, err);
	if (r < 0)
		return r;
	operations_state_changed(f->operations);
	return 0;
}

static void frontends_ready(struct frontends *f)
{
	varlink_set_ready(f->varlink);
}

static void frontends_state_changed(struct frontends *f)
{
	operations_state_changed(f->operations);
}

static void frontends_suspended(struct frontends *f, bool suspend, int code, const char *why)
{
	operations_suspended(f->operations, suspend, code, why);
}

static bool frontends_mpi_request(
	struct frontends *f, const char *name, const struct json_t *request)
{
	return mpi_requests_take(f->operations, name, request);
}

static void frontends_end(struct frontends *f)
{
	const struct agent *a = operations_get_agent(f->operations);
	int i;

	operations_end(f->operations);
	/* Whoever stands in the socket's queue has called in time. */
	for (i = 0; i < LAST_ROUNDS; i++)
		ev_run(a->loop, EVRUN_NOWAIT);
	varlink_finish(f->varlink);
}

static bool frontends_is_answering(const struct frontends *f)
{
	return operations_is_answering(f->operations);
}

static void frontends_not_reexeced(struct frontends *f, const struct err *why)
{
	operations_not_reexeced(f->operations, why);
}

static void frontends_save(const struct frontends *f, struct handover *h, struct json_t *object)
{
	varlink_save(f->varlink, h, object);
	operations_save(f->operations, h, object);
}

static int frontends_restore(
	struct agent *a, const struct handover *h, const struct json_t *object, struct err *err)
{
	struct frontends *f = a->frontends = frontends_new(a);

	if (!f)
		return err_set(err, -ENOMEM, "go on with the step's socket");
	operations_restore(f->operations, object);
	return varlink_open(f->operations, h, object, &f->varlink, err);
}

bool frontends_has_pending(const struct frontends *f)
{
	return operations_has_pending(f->operations);
}

const struct frontend frontends = {
	.open = frontends_open,
	.ready = frontends_ready,
	.state_changed = frontends_state_changed,
	.suspended = frontends_suspended,
	.mpi_request = frontends_mpi_request,
	.end = frontends_end,
	.close = frontends_close,
	.is_answering = frontends_is_answering,
	.not_reexeced = frontends_not_reexeced,
	.save = frontends_save,
	.restore = frontends_restore,
};
