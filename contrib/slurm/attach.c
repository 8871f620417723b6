/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/attach.h"

/* It has answered slurmd's request, so it is there, or never again. */
const struct delivery_retry attach_retry = {.tries = 1};

int attach_add(struct attach *a, struct srun_io *io, const struct wire_attach *request,
	const struct attach_peer **ret_peer, struct err *err)
{
	const struct srun_io_attach streams = {.id = a->last_id + 1,
		.address = request->io,
		.version = request->version,
		.key = request->key,
		.key_size = request->key_size};
	int r;

	if (request->io.sin_family != AF_INET || request->response.sin_family != AF_INET)
		return err_set_text(err, -EAFNOSUPPORT, "sattach has no address of IPv4");
	if (request->encrypted)
		return err_set_text(
			err, -EPROTONOSUPPORT, "sattach wants encrypted connections (TLSType)");
	if (a->count == ARRAY_SIZE(a->peers))
		return err_set_text(
			err, -EUSERS, "%u have been attached already, which is the most", a->count);
	r = srun_io_attach(io, &streams, err);
	if (r < 0)
		return r;
	a->peers[a->count] = (struct attach_peer){.id = ++a->last_id,
		.response = request->response,
		.version = request->version,
		.uid = request->uid};
	*ret_peer = &a->peers[a->count++];
	return 0;
}

void attach_remove(struct attach *a, unsigned id)
{
	uint32_t i;

	for (i = 0; i < a->count && a->peers[i].id != id; i++)
		;
	if (i < a->count)
		a->peers[i] = a->peers[--a->count];
}
