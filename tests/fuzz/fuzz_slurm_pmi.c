/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Any bytes as what comes to the node's end of Slurm's tree of PMI-2, by the first of them: 0 a
 * message of srun's, 1 its reply to a query, 2 frames of the step's PMI server, 3 a record of
 * accounting of the nodes below. What is taken of a message is the same when it goes up and comes
 * down again; of a record, when it is packed again.
 */
#include <stdlib.h>
#include <string.h>

#include "contrib/slurm/pmi_gather.h"
#include "contrib/slurm/pmi_messages.h"
#include "contrib/slurm/step_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

/* A fence's pairs and its end's differ in what stands before them. */
#define FENCED_HEAD (sizeof(uint16_t) + sizeof(uint32_t))

static void read_fenced(struct slice message)
{
	_cleanup_bytes_ struct bytes pairs = {0}, again = {0}, down = {0};
	_cleanup_pack_ struct pack up = {0};
	uint32_t number;

	if (slurm_pmi_fenced(message, &number, &pairs) < 0)
		return;
	require(slurm_pmi_pack_pairs(&up, slice_of(&pairs)) == 0 && !up.failed);
	bytes_add(&down, message.data, FENCED_HEAD);
	bytes_add(&down, buffer_bytes(&up.bytes), buffer_size(&up.bytes));
	require(slurm_pmi_fenced(slice_of(&down), &number, &again) == 0);
	require(bytes_size(&again) == bytes_size(&pairs) &&
		(bytes_size(&again) == 0 ||
			memcmp(slice_of(&again).data, slice_of(&pairs).data, bytes_size(&again)) ==
				0));
}

/* What a node above makes of it, it reads again. */
static void read_fence(struct slice message)
{
	const struct pmi_place place = {.above = PMI_PLACE_SRUN, .below = 3};
	_cleanup_pack_ struct pack up = {0};
	struct slurm_pmi_part part;
	struct pmi_gather g;

	require(pmi_gather_init(&g, 2, place) == 0);
	if (pmi_gather_add_message(&g, message) == 0) {
		require(g.missing < 3 && pmi_gather_add_message(&g, message) == -EALREADY);
		pmi_gather_take(&g, "n", &up);
		require(slurm_pmi_read_fence(
				(struct slice){buffer_bytes(&up.bytes), buffer_size(&up.bytes)},
				&part) == 0);
		require(part.nodes == 4 && part.number == 1);
	}
	pmi_gather_clear(&g);
}

static void read_message(struct slice message)
{
	if (slurm_pmi_type(message) == SLURM_PMI_FENCED)
		read_fenced(message);
	else
		read_fence(message);
}

static void read_reply(struct slice reply)
{
	struct slice value;

	(void)slurm_pmi_reply(MANAGER_LOOKUP, reply, &value); /* any status is right */
	(void)slurm_pmi_reply(MANAGER_PUBLISH, reply, &value);
	require(value.size == 0);
}

static void read_frames(struct slice in)
{
	struct manager_frame frame;
	ssize_t size;

	while ((size = manager_frame_read(in, &frame)) > 0) {
		_cleanup_pack_ struct pack up = {0};

		require((size_t)size <= in.size &&
			frame.body.size == (size_t)size - MANAGER_HEAD_SIZE);
		if (frame.type == MANAGER_FENCE)
			(void)!slurm_pmi_pack_pairs(&up, frame.body); /* or they are none */
		in.data += size;
		in.size -= (size_t)size;
	}
}

static void read_record(struct slice data)
{
	_cleanup_step_record_ struct step_record r = {0}, again = {0}, sum = {0};
	_cleanup_pack_ struct pack p = {0};

	if (step_record_read(&r, data.data, data.size) < 0)
		return;
	step_record_pack(&r, &p);
	require(!p.failed &&
		step_record_read(&again, buffer_bytes(&p.bytes), buffer_size(&p.bytes)) == 0 &&
		again.n == r.n);
	require(step_record_add(&sum, &r) == 0 && step_record_add(&sum, &again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const readers[])(struct slice) = {
		read_message, read_reply, read_frames, read_record};
	_cleanup_free_ char *bytes = malloc(size ? size : 1);

	require(bytes != NULL);
	if (size < 1 || data[0] >= ARRAY_SIZE(readers))
		return 0;
	/* Memory of just these bytes, for the sanitizer to see a read behind them. */
	memcpy(bytes, data + 1, size - 1);
	readers[data[0]]((struct slice){bytes, size - 1});
	return 0;
}
