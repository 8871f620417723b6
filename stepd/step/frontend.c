/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/frontend.h"

#include "stepd/snapshot/handover.h"
#include "stepd/step/agent_impl.h"

static const struct frontend *frontend_of(const struct agent *a)
{
	return a->frontends ? a->options->frontend : NULL;
}

int frontend_open(struct agent *a, struct err *err)
{
	return a->options->frontend ? a->options->frontend->open(a, err) : 0;
}

void frontend_ready(struct agent *a)
{
	if (frontend_of(a))
		frontend_of(a)->ready(a->frontends);
}

void frontend_state_changed(struct agent *a)
{
	if (frontend_of(a))
		frontend_of(a)->state_changed(a->frontends);
}

void frontend_suspended(struct agent *a, bool suspend, int code, const char *why)
{
	if (frontend_of(a))
		frontend_of(a)->suspended(a->frontends, suspend, code, why);
}

bool frontend_mpi_request(struct agent *a, const char *name, const struct json_t *request)
{
	return frontend_of(a) && frontend_of(a)->mpi_request(a->frontends, name, request);
}

void frontend_end(struct agent *a)
{
	if (frontend_of(a))
		frontend_of(a)->end(a->frontends);
}

void frontend_close(struct agent *a)
{
	if (frontend_of(a))
		a->frontends = frontend_of(a)->close(a->frontends);
}

bool frontend_is_answering(const struct agent *a)
{
	return frontend_of(a) && frontend_of(a)->is_answering(a->frontends);
}

void frontend_not_reexeced(struct agent *a, const struct err *why)
{
	if (frontend_of(a))
		frontend_of(a)->not_reexeced(a->frontends, why);
}

void frontend_save(const struct agent *a, struct handover *h, struct json_t *root)
{
	if (frontend_of(a))
		frontend_of(a)->save(a->frontends, h, handover_put_object(h, root, "methods"));
}

int frontend_restore(
	struct agent *a, const struct handover *h, const struct json_t *object, struct err *err)
{
	return a->options->frontend ? a->options->frontend->restore(a, h, object, err) : 0;
}
