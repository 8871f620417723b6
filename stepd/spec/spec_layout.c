/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How many ranks the step has, and which of them are this node's.
 */
#include <jansson.h>

#include "stepd/spec/rank_bits.h"
#include "stepd/spec/spec_json.h"

int spec_row_tasks_per_node(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct spec_draft *draft = into;
	size_t i, n = json_array_size(value);
	int64_t tasks = 0;
	int r = spec_check_array(at, value, err);

	(void)field;
	if (r < 0)
		return r;
	if (n > SPEC_NODES_MAX)
		return spec_bad(err, at, "has %zu entries, more than %u", n, SPEC_NODES_MAX);
	draft->spec.tasks_per_node = calloc(n + 1, sizeof(*draft->spec.tasks_per_node));
	if (!draft->spec.tasks_per_node)
		return spec_no_memory(err);
	draft->tasks_per_node_count = n;
	for (i = 0; i < n && r == 0; i++) {
		r = spec_get_int(SPEC_AT_INDEX(at, i), json_array_get(value, i), 0, SPEC_TASKS_MAX,
			&tasks, err);
		if (r == 0)
			draft->spec.tasks_per_node[i] = (uint32_t)tasks;
	}
	return r;
}

/* ---- layout ------------------------------------------------------------------------------- */

static bool given(const struct spec_draft *draft, const char *name)
{
	return json_object_get(draft->doc, name);
}

static uint64_t tasks_before(const struct spec_draft *draft, size_t node)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < node; i++)
		sum += draft->spec.tasks_per_node[i];
	return sum;
}

static int check_node(struct spec_draft *draft, struct err *err)
{
	const struct spec_at *node = SPEC_AT(NULL, "node");
	const struct spec *spec = &draft->spec;

	if (spec->node_id >= spec->node_count)
		return spec_bad(err, SPEC_AT(node, "id"), "%u is not below node.count (%u)",
			spec->node_id, spec->node_count);
	if (spec->tasks_per_node && spec->kind != STEPD_STEP_NORMAL)
		return spec_bad(err, SPEC_AT(node, "tasks_per_node"), "is for normal steps only");
	if (draft->map_counts && spec->kind != STEPD_STEP_NORMAL)
		return spec_bad(err, SPEC_AT(node, "ranks"), "is for normal steps only");
	if (draft->map_counts && draft->map_nodes_count != spec->node_count)
		return spec_bad(err, SPEC_AT(node, "ranks"),
			"has %zu entries, but node.count is %u", draft->map_nodes_count,
			spec->node_count);
	if (spec->tasks_per_node && draft->tasks_per_node_count != spec->node_count)
		return spec_bad(err, SPEC_AT(node, "tasks_per_node"),
			"has %zu entries, but node.count is %u", draft->tasks_per_node_count,
			spec->node_count);
	return 0;
}

static int choose_local_ntasks(struct spec_draft *draft, struct err *err)
{
	struct spec *spec = &draft->spec;

	if (given(draft, "local_ntasks")) {
		if (draft->ranks && draft->ranks_count != spec->local_ntasks)
			return spec_bad(err, SPEC_AT(NULL, "local_ntasks"),
				"%u, but ranks lists %zu", spec->local_ntasks, draft->ranks_count);
		return 0;
	}
	if (draft->ranks)
		spec->local_ntasks = (uint32_t)draft->ranks_count;
	else if (spec->tasks_per_node)
		spec->local_ntasks = spec->tasks_per_node[spec->node_id];
	else if (spec->node_count > 1)
		return spec_bad(err, SPEC_AT(NULL, "local_ntasks"),
			"is missing: node.count is %u, so say how many tasks are this node's "
			"(local_ntasks, ranks or node.tasks_per_node)",
			spec->node_count);
	else
		spec->local_ntasks = given(draft, "ntasks") ? spec->ntasks : 1;
	if (spec->local_ntasks == 0)
		return spec_bad(err, SPEC_AT(SPEC_AT(NULL, "node"), "tasks_per_node"),
			"has no task for this node (node.id %u)", spec->node_id);
	if (spec->local_ntasks > SPEC_TASKS_MAX)
		return spec_bad(err, SPEC_AT(NULL, "ntasks"),
			"%u tasks are more than one node can have (%u)", spec->local_ntasks,
			SPEC_TASKS_MAX);
	return 0;
}

static int choose_ntasks(struct spec_draft *draft, struct err *err)
{
	const struct spec_at *per_node = SPEC_AT(SPEC_AT(NULL, "node"), "tasks_per_node");
	struct spec *spec = &draft->spec;
	uint64_t sum;

	if (!spec->tasks_per_node) {
		if (!given(draft, "ntasks"))
			spec->ntasks = spec->local_ntasks;
		return 0;
	}
	sum = tasks_before(draft, spec->node_count);
	if (sum > SPEC_NTASKS_MAX)
		return spec_bad(err, per_node, "its sum is %llu, more than %u",
			(unsigned long long)sum, SPEC_NTASKS_MAX);
	if (!given(draft, "ntasks"))
		spec->ntasks = (uint32_t)sum;
	if (sum != spec->ntasks)
		return spec_bad(err, per_node, "its sum is %llu, but ntasks is %u",
			(unsigned long long)sum, spec->ntasks);
	if (spec->tasks_per_node[spec->node_id] != spec->local_ntasks)
		return spec_bad(err, SPEC_AT_INDEX(per_node, spec->node_id),
			"%u, but this node has %u tasks", spec->tasks_per_node[spec->node_id],
			spec->local_ntasks);
	return 0;
}

/* The ranks are one range unless listed: from first_rank on, or, with the counts of all nodes
 * known, behind those of the nodes before. */
static int choose_range(struct spec_draft *draft, struct err *err)
{
	struct spec *spec = &draft->spec;
	uint32_t i;

	if (!given(draft, "first_rank") && spec->tasks_per_node)
		draft->first_rank = (uint32_t)tasks_before(draft, spec->node_id);
	else if (!given(draft, "first_rank") && spec->node_id > 0)
		return spec_bad(err, SPEC_AT(NULL, "first_rank"),
			"is missing: node.id is %u, so say which ranks are this node's "
			"(first_rank, ranks or node.tasks_per_node)",
			spec->node_id);
	if (draft->first_rank + (uint64_t)spec->local_ntasks > spec->ntasks)
		return spec_bad(err,
			SPEC_AT(NULL, given(draft, "first_rank") ? "first_rank" : "local_ntasks"),
			"the node's %u tasks from rank %u on don't fit into ntasks (%u)",
			spec->local_ntasks, draft->first_rank, spec->ntasks);
	for (i = 0; i < spec->local_ntasks; i++)
		spec->ranks[i] = draft->first_rank + i;
	return 0;
}

static int choose_listed(struct spec_draft *draft, struct err *err)
{
	struct spec *spec = &draft->spec;
	_cleanup_free_ unsigned char *seen = rank_bits_new(spec->ntasks);
	const struct spec_at *at = SPEC_AT(NULL, "ranks");
	uint32_t i;

	if (!seen)
		return spec_no_memory(err);
	for (i = 0; i < spec->local_ntasks; i++) {
		spec->ranks[i] = draft->ranks[i];
		if (spec->ranks[i] >= spec->ntasks)
			return spec_bad(err, at, "rank %u is not below ntasks (%u%s)",
				spec->ranks[i], spec->ntasks,
				given(draft, "ntasks") ? "" : " by default; give it");
		if (rank_bits_set(seen, spec->ranks[i]))
			return spec_bad(err, at, "rank %u is listed twice", spec->ranks[i]);
	}
	return 0;
}

static int layout_batch(struct spec_draft *draft, struct err *err)
{
	static const char *const counts[] = {"ntasks", "local_ntasks"};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(counts); i++) {
		const json_t *n = json_object_get(draft->doc, counts[i]);

		if (n && json_integer_value(n) != 1)
			return spec_bad(err, SPEC_AT(NULL, counts[i]), "a batch step has one task");
	}
	draft->spec.ntasks = draft->spec.local_ntasks = 1;
	return 0;
}

int spec_layout(struct spec_draft *draft, struct err *err)
{
	struct spec *spec = &draft->spec;
	int r = check_node(draft, err);

	if (r == 0)
		r = spec_map_names(spec, err);
	if (r < 0 || spec->kind == STEPD_STEP_EXTERN)
		return r;
	if (draft->ranks && given(draft, "first_rank"))
		return spec_bad(
			err, SPEC_AT(NULL, "first_rank"), "conflicts with ranks; give one of them");
	if (draft->map_counts)
		r = spec_map_ranks(draft, err);
	if (r < 0)
		return r;
	if (spec->kind == STEPD_STEP_BATCH)
		r = layout_batch(draft, err);
	else
		r = choose_local_ntasks(draft, err);
	if (r == 0 && spec->kind == STEPD_STEP_NORMAL)
		r = choose_ntasks(draft, err);
	if (r < 0)
		return r;
	spec->ranks = calloc(spec->local_ntasks, sizeof(*spec->ranks));
	if (!spec->ranks)
		return spec_no_memory(err);
	if (draft->ranks)
		r = choose_listed(draft, err);
	else if (spec->kind != STEPD_STEP_BATCH)
		r = choose_range(draft, err);
	return r < 0 ? r : spec_map_nodes(spec, err);
}
