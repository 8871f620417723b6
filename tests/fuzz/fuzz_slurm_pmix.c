/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Any bytes as what comes from the other nodes of a step to this end of Slurm's mpi/pmix: messages
 * one behind the other, as slurmd brings them or by a connection, to node 1 of 4, which has begun
 * two fences. What is taken of the data of a rank is the same when it is sent again.
 */
#include <ev.h>
#include <stdlib.h>

#include "contrib/slurm/pmix_fence.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NSPACE "n"

static const uint32_t rank_nodes[] = {0, 1, 2, 3};

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void on_send(
	void *userdata, uint32_t node, const struct slurm_pmix_head *head, struct pack *body)
{
	(void)userdata;
	require(node < 4 && node != 1 && head->type < SLURM_PMIX_TYPE_MAX);
	pack_clear(body);
}

static void on_done(void *userdata, uint32_t id, int error, struct slice data)
{
	bool *waits = userdata;

	require(id < 2 && waits[id] && error >= 0 && (data.size == 0 || data.data));
	waits[id] = false;
}

static void on_broken(void *userdata, const char *why)
{
	(void)userdata;
	require(why);
}

static void read_modex(struct slice body)
{
	_cleanup_pack_ struct pack again = {0};
	struct slurm_pmix_modex first, second;

	if (!slurm_pmix_read_modex(body, &first))
		return;
	slurm_pmix_put_modex(&again, &first);
	require(slurm_pmix_read_modex(
		(struct slice){buffer_bytes(&again.bytes), buffer_size(&again.bytes)}, &second));
	require(first.is_reply == second.is_reply && first.rank == second.rank &&
		first.status == second.status && first.nspace.size == second.nspace.size &&
		first.data.size == second.data.size);
}

static void take(struct pmix_fences *fences, uint32_t from, const struct slurm_pmix_head *head,
	struct slice body)
{
	uint16_t port;

	if (head->has_port && !slurm_pmix_take_port(&body, &port))
		return;
	if (head->type == SLURM_PMIX_MODEX)
		read_modex(body);
	else if (head->type == SLURM_PMIX_CONNECT)
		(void)slurm_pmix_read_credential(body, 101); /* it may be one */
	else
		pmix_fences_take(fences, from, head, body);
}

static void begin(struct pmix_fences *fences, enum slurm_pmix_kind kind, bool *waits)
{
	_cleanup_pack_ struct pack set = {0};

	slurm_pmix_begin_set(&set, 1);
	slurm_pmix_add_rank(&set, slice_of_text(NSPACE), SLURM_PMIX_WILDCARD);
	waits[kind] = true;
	require(pmix_fences_begin(fences, kind,
			(struct slice){buffer_bytes(&set.bytes), buffer_size(&set.bytes)}, kind,
			slice_of_text("own")) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_NOENV);
	bool waits[2] = {false, false};
	const struct pmix_fences_options options = {.loop = loop,
		.timeout_s = 60,
		.nspace = NSPACE,
		.node = 1,
		.nnodes = 4,
		.rank_nodes = rank_nodes,
		.ntasks = 4,
		.tree_width = 2,
		.direct = size % 2,
		.send = on_send,
		.done = on_done,
		.broken = on_broken,
		.userdata = waits};
	struct slice in = {(const char *)data, size}, body;
	struct pmix_fences *fences;
	struct slurm_pmix_head head;

	require(loop && pmix_fences_new(&options, &fences) == 0);
	begin(fences, SLURM_PMIX_BY_TREE, waits);
	begin(fences, SLURM_PMIX_BY_RING, waits);
	while (slurm_pmix_read_head(in, false, &head) == 0) {
		in.data += SLURM_PMIX_HEAD_SIZE;
		in.size -= SLURM_PMIX_HEAD_SIZE;
		if (!slice_take(&in, head.size, &body))
			break;
		if (head.node < 4)
			take(fences, head.node, &head, body);
	}
	(void)pmix_fences_free(fences); /* always NULL */
	ev_loop_destroy(loop);
	return 0;
}
