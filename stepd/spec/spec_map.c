/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The layout of the whole step: the ranks and the name of every node.
 */
#include <jansson.h>
#include <string.h>

#include "stepd/base/hostlist.h"
#include "stepd/spec/rank_bits.h"
#include "stepd/spec/spec_json.h"

/* ---- node.ranks --------------------------------------------------------------------------- */

struct map_reader {
	struct spec_draft *draft;
	size_t room;
	uint32_t count; /* of the node */
	const struct spec_at *at;
	struct err *err;
};

static int take_rank(uint32_t rank, void *userdata)
{
	struct map_reader *reader = userdata;
	struct spec_draft *draft = reader->draft;
	size_t more = reader->room ? reader->room * 2 : 64;
	uint32_t *grown;

	if (reader->count == SPEC_TASKS_MAX || draft->map_ranks_count == SPEC_NTASKS_MAX) {
		(void)spec_bad(reader->err, reader->at, "has more than %u ranks",
			reader->count == SPEC_TASKS_MAX ? SPEC_TASKS_MAX : SPEC_NTASKS_MAX);
		return -ECANCELED;
	}
	if (draft->map_ranks_count == reader->room) {
		grown = realloc(draft->map_ranks, more * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		draft->map_ranks = grown;
		reader->room = more;
	}
	draft->map_ranks[draft->map_ranks_count++] = rank;
	reader->count++;
	return 0;
}

/* "" is a node without tasks. */
static int read_node(struct map_reader *reader, const json_t *value)
{
	const char *text = NULL;
	int r = spec_get_text(reader->at, value, &text, reader->err);

	reader->count = 0;
	if (r < 0 || !*text)
		return r;
	r = spec_read_ranks(reader->at, value, SPEC_NTASKS_MAX, take_rank, reader, reader->err);
	if (r == -ENOMEM)
		return spec_no_memory(reader->err);
	return r < 0 ? -EINVAL : 0;
}

int spec_row_node_ranks(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct map_reader reader = {.draft = into, .err = err};
	size_t i, n = json_array_size(value);
	int r = spec_check_array(at, value, err);

	(void)field;
	if (r < 0)
		return r;
	if (n > SPEC_NODES_MAX)
		return spec_bad(err, at, "has %zu entries, more than %u", n, SPEC_NODES_MAX);
	reader.draft->map_counts = calloc(n + 1, sizeof(*reader.draft->map_counts));
	if (!reader.draft->map_counts)
		return spec_no_memory(err);
	reader.draft->map_nodes_count = n;
	for (i = 0; i < n && r == 0; i++) {
		const struct spec_at *entry = SPEC_AT_INDEX(at, i);

		reader.at = entry;
		r = read_node(&reader, json_array_get(value, i));
		reader.draft->map_counts[i] = reader.count;
	}
	return r;
}

/* As many different ranks below their number as there are: each one once. */
static int check_ranks(const struct spec_draft *draft, struct err *err)
{
	uint32_t ntasks = (uint32_t)draft->map_ranks_count, node, i;
	_cleanup_free_ unsigned char *seen = rank_bits_new(ntasks);
	const struct spec_at *at = SPEC_AT(SPEC_AT(NULL, "node"), "ranks");
	const uint32_t *rank = draft->map_ranks;

	if (!seen)
		return spec_no_memory(err);
	for (node = 0; node < draft->map_nodes_count; node++) {
		for (i = 0; i < draft->map_counts[node]; i++, rank++) {
			if (*rank >= ntasks)
				return spec_bad(err, SPEC_AT_INDEX(at, node),
					"rank %u is not below the number of ranks that are listed "
					"(%u)",
					*rank, ntasks);
			if (rank_bits_set(seen, *rank))
				return spec_bad(err, SPEC_AT_INDEX(at, node),
					"rank %u is listed twice", *rank);
		}
	}
	return 0;
}

static int take_counts(struct spec_draft *draft, struct err *err)
{
	const struct spec_at *at = SPEC_AT(SPEC_AT(NULL, "node"), "ranks");
	struct spec *spec = &draft->spec;
	uint32_t i;

	if (json_object_get(draft->doc, "ntasks") && spec->ntasks != draft->map_ranks_count)
		return spec_bad(err, at, "lists %zu ranks, but ntasks is %u",
			draft->map_ranks_count, spec->ntasks);
	for (i = 0; spec->tasks_per_node && i < spec->node_count; i++) {
		if (spec->tasks_per_node[i] != draft->map_counts[i])
			return spec_bad(err, SPEC_AT_INDEX(at, i),
				"lists %u ranks, but node.tasks_per_node has %u tasks there",
				draft->map_counts[i], spec->tasks_per_node[i]);
	}
	if (!spec->tasks_per_node) {
		spec->tasks_per_node = draft->map_counts;
		draft->map_counts = NULL;
	}
	return 0;
}

static int take_own(struct spec_draft *draft, const uint32_t *own, uint32_t count, struct err *err)
{
	const struct spec_at *at = SPEC_AT(SPEC_AT(NULL, "node"), "ranks");
	uint32_t node = draft->spec.node_id;

	if (count == 0)
		return spec_bad(err, SPEC_AT_INDEX(at, node), "has no rank for this node");
	if (json_object_get(draft->doc, "first_rank"))
		return spec_bad(err, SPEC_AT(NULL, "first_rank"),
			"conflicts with node.ranks; give one of them");
	if (draft->ranks) {
		if (draft->ranks_count == count &&
			memcmp(draft->ranks, own, count * sizeof(*own)) == 0)
			return 0;
		return spec_bad(err, SPEC_AT(NULL, "ranks"),
			"says otherwise than node.ranks[%u]; give one of them", node);
	}
	draft->ranks = calloc(count, sizeof(*own));
	if (!draft->ranks)
		return spec_no_memory(err);
	memcpy(draft->ranks, own, count * sizeof(*own));
	draft->ranks_count = count;
	return 0;
}

int spec_map_ranks(struct spec_draft *draft, struct err *err)
{
	struct spec *spec = &draft->spec;
	const uint32_t *rank = draft->map_ranks, *own = rank;
	uint32_t node, i, count = draft->map_counts[spec->node_id];
	int r = check_ranks(draft, err);

	if (r < 0)
		return r;
	spec->rank_nodes = calloc(draft->map_ranks_count + 1, sizeof(*spec->rank_nodes));
	if (!spec->rank_nodes)
		return spec_no_memory(err);
	for (node = 0; node < spec->node_count; node++) {
		if (node == spec->node_id)
			own = rank;
		for (i = 0; i < draft->map_counts[node]; i++)
			spec->rank_nodes[*rank++] = node;
	}
	r = take_own(draft, own, count, err);
	return r < 0 ? r : take_counts(draft, err);
}

/* ---- which node each rank is on ------------------------------------------------------------ */

/* Whether this node's ranks are those that it has where each node's follow the ones of the node
 * before. */
static bool is_block(const struct spec *spec, uint32_t first)
{
	uint32_t i;

	for (i = 0; i < spec->local_ntasks && spec->ranks[i] == first + i; i++)
		;
	return i == spec->local_ntasks;
}

int spec_map_nodes(struct spec *spec, struct err *err)
{
	uint32_t node, i, rank = 0, first = 0;

	if (spec->rank_nodes || (spec->node_count > 1 && !spec->tasks_per_node) ||
		(spec->node_count == 1 && spec->local_ntasks != spec->ntasks))
		return 0;
	for (node = 0; node < spec->node_id; node++)
		first += spec->tasks_per_node[node];
	if (spec->node_count > 1 && !is_block(spec, first))
		return 0; /* dealt out in a way that was not told */
	spec->rank_nodes = calloc(spec->ntasks, sizeof(*spec->rank_nodes));
	if (!spec->rank_nodes)
		return spec_no_memory(err);
	for (node = 0; spec->node_count > 1 && node < spec->node_count; node++) {
		for (i = 0; i < spec->tasks_per_node[node]; i++)
			spec->rank_nodes[rank++] = node;
	}
	return 0;
}

/* ---- node.list ---------------------------------------------------------------------------- */

static int add_name(const char *name, void *userdata)
{
	return strv_add(userdata, name);
}

int spec_map_names(struct spec *spec, struct err *err)
{
	int r;

	if (!spec->node_list)
		return 0;
	r = hostlist_each(spec->node_list, SPEC_NODES_MAX, add_name, &spec->node_names);
	if (r < 0) /* its form is checked */
		return spec_no_memory(err);
	if (spec->node_names.n != spec->node_count)
		return spec_bad(err, SPEC_AT(SPEC_AT(NULL, "node"), "list"),
			"names %zu nodes, but node.count is %u", spec->node_names.n,
			spec->node_count);
	return 0;
}
