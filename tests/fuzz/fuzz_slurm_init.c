/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Any bytes as what slurmd writes to a step daemon: the stream, the node's configuration, the
 * launch message with its credential, in the formats of whichever release the bytes name. Wherever
 * the stream is cut the reader knows that more has to come, and never wants what does not belong to
 * it; each text that it found is one, within the bytes; there is a reason against serving the step.
 */
#include <stdlib.h>
#include <string.h>

#include "contrib/slurm/decision.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

/* Memory of just these bytes, for the sanitizer to see a read behind them. */
static ssize_t missing_of(const uint8_t *data, size_t size, struct slurm_frame *ret_frame)
{
	_cleanup_free_ void *bytes = malloc(size ? size : 1);

	require(bytes != NULL);
	if (size)
		memcpy(bytes, data, size);
	return slurm_init_missing(bytes, size, ret_frame);
}

/* As a reader goes: with what is missing at least, again and again. */
static ssize_t read_by_pieces(const uint8_t *data, size_t size, struct slurm_frame *ret_frame)
{
	size_t have = 0;
	ssize_t missing;

	while ((missing = missing_of(data, have, ret_frame)) > 0) {
		if ((size_t)missing > size - have)
			return missing;
		have += (size_t)missing;
	}
	require(missing < 0 || ret_frame->end == have);
	return missing;
}

static bool is_within(const uint8_t *data, size_t size, const char *text)
{
	const uint8_t *at = (const uint8_t *)text;

	return !text ||
		(at >= data && at < data + size && memchr(at, '\0', size - (size_t)(at - data)));
}

static void check_texts(const uint8_t *data, size_t size, struct slurm_strs strs)
{
	const char *text;
	uint32_t n = 0;

	while ((text = slurm_strs_next(&strs))) {
		require(!*text || is_within(data, size, text));
		n++;
	}
	require(strs.n == 0 && n <= size / sizeof(uint32_t));
}

static void check_init(const uint8_t *data, size_t size, const struct slurm_init *init)
{
	const struct slurm_launch *l = &init->launch;
	const struct slurm_node_conf *c = &init->conf;
	char label[SLURM_LABEL_SIZE];
	uint32_t node;

	require(is_within(data, size, c->node_name) && is_within(data, size, c->log_file));
	require(is_within(data, size, c->switch_type) && is_within(data, size, c->tls_type));
	require(is_within(data, size, l->user) && is_within(data, size, l->cwd));
	require(is_within(data, size, l->script) && is_within(data, size, l->container));
	check_texts(data, size, l->argv);
	check_texts(data, size, l->env);
	require(l->kind < SLURM_KIND_MAX && slurm_kind_name(l->kind));
	slurm_step_label(&l->id, label);
	require(strlen(label) < sizeof(label) - 1);
	require(slurm_launch_find_node(l, c->node_name, &node) < 0 || node < l->nnodes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slurm_frame frame = {0}, again = {0};
	ssize_t missing = missing_of(data, size, &frame);
	char text[SLURM_REASON_SIZE];
	enum slurm_reason reason;
	struct slurm_init init;

	require(missing <= SLURM_INIT_MAX);
	require((read_by_pieces(data, size, &again) > 0) == (missing > 0));
	require(missing != 0 || (frame.end <= size && again.end == frame.end));
	slurm_init_decode(&init, data, &frame, missing > 0 ? -ENODATA : (int)missing);
	check_init(data, size, &init);
	reason = slurm_decide(&init);
	require(reason < SLURM_REASON_MAX);
	require(init.error == 0 || reason <= SLURM_REASON_UNREADABLE);
	slurm_reason_print(&init, reason, text);
	require(*text && strlen(text) < sizeof(text));
	return 0;
}
