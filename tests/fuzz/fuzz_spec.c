/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Any text as a step spec: it is refused with a sentence, or it makes a spec that holds what
 * spec.h promises.
 */
#include <signal.h>
#include <stdint.h>
#include <string.h>

#include "stepd/spec/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void check_ranks(const struct spec *spec)
{
	uint32_t i;

	require(spec->local_ntasks <= SPEC_TASKS_MAX && spec->ntasks <= SPEC_NTASKS_MAX);
	require(spec->local_ntasks <= spec->ntasks);
	require((spec->kind == STEPD_STEP_EXTERN) == (spec->local_ntasks == 0));
	for (i = 0; i < spec->local_ntasks; i++)
		require(spec->ranks[i] < spec->ntasks);
	if (spec->tasks_per_node)
		require(spec->tasks_per_node[spec->node_id] == spec->local_ntasks);
	for (i = 0; spec->rank_nodes && i < spec->ntasks; i++)
		require(spec->rank_nodes[i] < spec->node_count);
	for (i = 0; spec->rank_nodes && i < spec->local_ntasks; i++)
		require(spec->rank_nodes[spec->ranks[i]] == spec->node_id);
	require(spec->node_names.n == 0 || spec->node_names.n == spec->node_count);
}

static void check_overrides(const struct spec *spec)
{
	size_t i, k;

	for (i = 0; i < spec->overrides_count; i++) {
		const struct spec_override *o = &spec->overrides[i];

		require(o->ranks_count > 0 && o->ranks_count <= spec->local_ntasks);
		for (k = 0; k < o->ranks_count; k++)
			require(o->ranks[k] < spec->ntasks &&
				(k == 0 || o->ranks[k - 1] < o->ranks[k]));
		require(!o->cwd || o->cwd[0] == '/');
	}
}

static void check_stream(const struct spec *spec, const struct spec_stream *stream)
{
	require(stream->mode < SPEC_STREAM_MODE_MAX);
	require((stream->mode == SPEC_STREAM_FILE) == (stream->pattern != NULL));
	require(stream->mode != SPEC_STREAM_RANK || stream->rank < spec->ntasks);
}

static void check(const struct spec *spec)
{
	require(spec->step_name && spec->job_name && spec->node_name);
	require(spec->proctrack && spec->mpi && spec->node_id < spec->node_count);
	require(!spec->cwd || spec->cwd[0] == '/');
	require((spec->kind == STEPD_STEP_BATCH) == (spec->script != NULL));
	require(spec->kill_sequence_count > 0);
	require(spec->kill_sequence[spec->kill_sequence_count - 1].signal == SIGKILL);
	require(spec->wire.auth && spec->wire.listen_fd == -1 && !spec->wire.secret);
	require(!spec->wire.addresses || spec->wire.addresses_count == spec->node_count);
	check_ranks(spec);
	check_overrides(spec);
	check_stream(spec, &spec->in);
	check_stream(spec, &spec->out);
	check_stream(spec, &spec->err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_spec_ struct spec *spec = NULL;
	struct err err = ERR_INIT;
	int r = spec_from_text((const char *)data, size, &spec, &err);

	require((r == 0) == (spec != NULL));
	require(r == 0 || (r == err.code && err.text[0]));
	if (spec)
		check(spec);
	return 0;
}
