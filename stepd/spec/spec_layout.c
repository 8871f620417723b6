/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How many ranks the step has, which of them are this node's, what is known of those of the other
 * nodes, and what differs for some of them (MPMD).
 */
#include <jansson.h>
#include <string.h>

#include "stepd/base/bitset.h"
#include "stepd/base/buffer.h"
#include "stepd/base/hostlist.h"
#include "stepd/base/parse.h"
#include "stepd/spec/spec_json.h"

/* ---- lists of ranks ------------------------------------------------------------------------ */

struct rank_reader {
	struct spec_ranks *ranks;
	size_t most; /* limit of the list's length then */
};

static int add_rank(uint32_t rank, void *userdata)
{
	const struct rank_reader *reader = userdata;
	struct spec_ranks *ranks = reader->ranks;

	if (ranks->n == reader->most)
		return -E2BIG;
	if (array_reserve(ranks->v, ranks->capacity, ranks->n + 1) < 0)
		return -ENOMEM;
	ranks->v[ranks->n++] = rank;
	return 0;
}

/* Adds 1 to most ranks, given as "0-3,8" or as an array of numbers, each below limit. */
static int layout_read_ranks(const struct spec_at *at, const json_t *value, uint32_t limit,
	uint32_t most, struct spec_ranks *ranks, struct err *err)
{
	struct rank_reader reader = {.ranks = ranks, .most = ranks->n + most};
	const char *text = NULL;
	int64_t rank = 0;
	size_t i;
	int r;

	if (json_is_string(value)) {
		r = spec_get_text(at, value, &text, err);
		if (r < 0)
			return r;
		r = parse_ranges(text, limit, add_rank, &reader);
		if (r == -EINVAL)
			return spec_bad(
				err, at, "'%.200s' is not a list of ranks such as \"0-3,8\"", text);
		if (r == -ERANGE)
			return spec_bad(err, at, "'%.200s' holds a rank above %u", text, limit - 1);
	} else {
		r = spec_check_array(at, value, SIZE_MAX, err);
		if (r == 0 && json_array_size(value) == 0)
			return spec_bad(err, at, "is empty");
		for (i = 0; i < json_array_size(value) && r == 0; i++) {
			r = spec_get_int(SPEC_AT_INDEX(at, i), json_array_get(value, i), 0,
				limit - 1, &rank, err);
			if (r == 0)
				r = add_rank((uint32_t)rank, &reader);
		}
	}
	if (r == -E2BIG)
		return spec_bad(err, at, "has more than %u ranks%s", most,
			most == SPEC_TASKS_MAX ? " for one node" : "");
	return r == -ENOMEM ? spec_no_memory(err) : r;
}

int spec_row_ranks(_unused_ const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct spec_draft *draft = into;

	return layout_read_ranks(at, value, SPEC_NTASKS_MAX, SPEC_TASKS_MAX, &draft->ranks, err);
}

int spec_row_tasks_per_node(_unused_ const struct spec_field *field, void *into,
	const struct spec_at *at, const json_t *value, struct err *err)
{
	struct spec_draft *draft = into;
	size_t i, n = json_array_size(value);
	int64_t tasks = 0;
	int r = spec_check_array(at, value, SPEC_NODES_MAX, err);

	if (r < 0)
		return r;
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

/* ---- node.ranks ---------------------------------------------------------------------------- */

int spec_row_node_ranks(_unused_ const struct spec_field *field, void *into,
	const struct spec_at *at, const json_t *value, struct err *err)
{
	struct spec_draft *draft = into;
	size_t i, before, n = json_array_size(value);
	const char *text = NULL;
	int r = spec_check_array(at, value, SPEC_NODES_MAX, err);

	if (r < 0)
		return r;
	draft->map_counts = calloc(n + 1, sizeof(*draft->map_counts));
	if (!draft->map_counts)
		return spec_no_memory(err);
	draft->map_nodes_count = n;
	for (i = 0; i < n && r == 0; i++) {
		const struct spec_at *entry = SPEC_AT_INDEX(at, i);
		const json_t *node = json_array_get(value, i);

		before = draft->map_ranks.n;
		r = spec_get_text(entry, node, &text, err);
		if (r == 0 && *text) /* else a node without tasks */
			r = layout_read_ranks(entry, node, SPEC_NTASKS_MAX, SPEC_TASKS_MAX,
				&draft->map_ranks, err);
		if (r == 0 && draft->map_ranks.n > SPEC_NTASKS_MAX)
			r = spec_bad(err, at, "has more than %u ranks", SPEC_NTASKS_MAX);
		draft->map_counts[i] = (uint32_t)(draft->map_ranks.n - before);
	}
	return r;
}

/* True if the list has each rank below their number once. */
static int check_map(const struct spec_draft *draft, struct err *err)
{
	uint32_t ntasks = (uint32_t)draft->map_ranks.n, node, i;
	_cleanup_bitset_ struct bitset seen = {0};
	const struct spec_at *at = SPEC_AT(SPEC_AT(NULL, "node"), "ranks");
	const uint32_t *rank = draft->map_ranks.v;

	if (bitset_init(&seen, ntasks) < 0)
		return spec_no_memory(err);
	for (node = 0; node < draft->map_nodes_count; node++) {
		for (i = 0; i < draft->map_counts[node]; i++, rank++) {
			if (*rank >= ntasks)
				return spec_bad(err, SPEC_AT_INDEX(at, node),
					"rank %u is not below the number of ranks that are listed "
					"(%u)",
					*rank, ntasks);
			if (bitset_set(&seen, *rank))
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

	if (json_object_get(draft->doc, "ntasks") && spec->ntasks != draft->map_ranks.n)
		return spec_bad(err, at, "lists %zu ranks, but ntasks is %u", draft->map_ranks.n,
			spec->ntasks);
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
	if (draft->ranks.v) {
		if (draft->ranks.n == count &&
			memcmp(draft->ranks.v, own, count * sizeof(*own)) == 0)
			return 0;
		return spec_bad(err, SPEC_AT(NULL, "ranks"),
			"differs from node.ranks[%u]; give one of them", node);
	}
	draft->ranks.v = calloc(count, sizeof(*own));
	if (!draft->ranks.v)
		return spec_no_memory(err);
	memcpy(draft->ranks.v, own, count * sizeof(*own));
	draft->ranks.n = count;
	return 0;
}

/* Checks node.ranks, and derives from it tasks_per_node, ntasks and this node's ranks unless they
 * are given. */
static int map_ranks(struct spec_draft *draft, struct err *err)
{
	struct spec *spec = &draft->spec;
	const uint32_t *rank = draft->map_ranks.v, *own = rank;
	uint32_t node, i, count = draft->map_counts[spec->node_id];
	int r = check_map(draft, err);

	if (r < 0)
		return r;
	spec->rank_nodes = calloc(draft->map_ranks.n + 1, sizeof(*spec->rank_nodes));
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

/* Whether this node's ranks are those of the block distribution: each node's ranks follow those
 * of the node before. */
static bool is_block(const struct spec *spec, uint32_t first)
{
	uint32_t i;

	for (i = 0; i < spec->local_ntasks && spec->ranks[i] == first + i; i++)
		;
	return i == spec->local_ntasks;
}

/* Fills in the node of each rank, if the complete layout has it. */
static int map_nodes(struct spec *spec, struct err *err)
{
	uint32_t node, i, rank = 0, first = 0;

	if (spec->rank_nodes || (spec->node_count > 1 && !spec->tasks_per_node) ||
		(spec->node_count == 1 && spec->local_ntasks != spec->ntasks))
		return 0;
	for (node = 0; node < spec->node_id; node++)
		first += spec->tasks_per_node[node];
	if (spec->node_count > 1 && !is_block(spec, first))
		return 0; /* distributed in an unknown way */
	spec->rank_nodes = calloc(spec->ntasks, sizeof(*spec->rank_nodes));
	if (!spec->rank_nodes)
		return spec_no_memory(err);
	for (node = 0; spec->node_count > 1 && node < spec->node_count; node++) {
		for (i = 0; i < spec->tasks_per_node[node]; i++)
			spec->rank_nodes[rank++] = node;
	}
	return 0;
}

/* ---- node.list ----------------------------------------------------------------------------- */

static int spec_add_name(const char *name, void *userdata)
{
	return strv_add(userdata, name);
}

static int map_names(struct spec *spec, struct err *err)
{
	int r;

	if (!spec->node_list)
		return 0;
	r = hostlist_each(spec->node_list, SPEC_NODES_MAX, spec_add_name, &spec->node_names);
	if (r < 0) /* its syntax has been checked */
		return spec_no_memory(err);
	if (spec->node_names.n != spec->node_count)
		return spec_bad(err, SPEC_AT(SPEC_AT(NULL, "node"), "list"),
			"names %zu nodes, but node.count is %u", spec->node_names.n,
			spec->node_count);
	return 0;
}

/* ---- layout -------------------------------------------------------------------------------- */

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
		if (draft->ranks.v && draft->ranks.n != spec->local_ntasks)
			return spec_bad(err, SPEC_AT(NULL, "local_ntasks"),
				"%u, but ranks lists %zu", spec->local_ntasks, draft->ranks.n);
		return 0;
	}
	if (draft->ranks.v)
		spec->local_ntasks = (uint32_t)draft->ranks.n;
	else if (spec->tasks_per_node)
		spec->local_ntasks = spec->tasks_per_node[spec->node_id];
	else if (spec->node_count > 1)
		return spec_bad(err, SPEC_AT(NULL, "local_ntasks"),
			"is missing: node.count is %u, so give the number of this node's tasks "
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
 * known, after those of the nodes before. */
static int choose_range(struct spec_draft *draft, struct err *err)
{
	struct spec *spec = &draft->spec;
	uint32_t i;

	if (!given(draft, "first_rank") && spec->tasks_per_node)
		draft->first_rank = (uint32_t)tasks_before(draft, spec->node_id);
	else if (!given(draft, "first_rank") && spec->node_id > 0)
		return spec_bad(err, SPEC_AT(NULL, "first_rank"),
			"is missing: node.id is %u, so give this node's ranks "
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
	_cleanup_bitset_ struct bitset seen = {0};
	const struct spec_at *at = SPEC_AT(NULL, "ranks");
	uint32_t i;

	if (bitset_init(&seen, spec->ntasks) < 0)
		return spec_no_memory(err);
	for (i = 0; i < spec->local_ntasks; i++) {
		spec->ranks[i] = draft->ranks.v[i];
		if (spec->ranks[i] >= spec->ntasks)
			return spec_bad(err, at, "rank %u is not below ntasks (%u%s)",
				spec->ranks[i], spec->ntasks,
				given(draft, "ntasks") ? "" : " by default; give it");
		if (bitset_set(&seen, spec->ranks[i]))
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
		r = map_names(spec, err);
	if (r < 0 || spec->kind == STEPD_STEP_EXTERN)
		return r;
	if (draft->ranks.v && given(draft, "first_rank"))
		return spec_bad(
			err, SPEC_AT(NULL, "first_rank"), "conflicts with ranks; give one of them");
	if (draft->map_counts)
		r = map_ranks(draft, err);
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
	if (draft->ranks.v)
		r = choose_listed(draft, err);
	else if (spec->kind != STEPD_STEP_BATCH)
		r = choose_range(draft, err);
	return r < 0 ? r : map_nodes(spec, err);
}

/* ---- entries of tasks ---------------------------------------------------------------------- */

static int take_override_rank(
	struct spec_task_draft *task, uint32_t rank, const struct spec_at *at, struct err *err)
{
	struct spec_override *o = &task->override;

	if (task->rank_entries[rank])
		return spec_bad(err, at, "rank %u has an entry already", rank);
	task->rank_entries[rank] = task->entry;
	if (!bitset_test(task->local, rank))
		return 0; /* another node's */
	if (array_reserve(o->ranks, task->ranks_capacity, o->ranks_count + 1) < 0)
		return spec_no_memory(err);
	o->ranks[o->ranks_count++] = rank;
	return 0;
}

int spec_row_task_ranks(_unused_ const struct spec_field *field, void *into,
	const struct spec_at *at, const json_t *value, struct err *err)
{
	struct spec_task_draft *task = into;
	struct spec_ranks ranks = {0};
	size_t i;
	int r = layout_read_ranks(at, value, task->ntasks, SPEC_NTASKS_MAX, &ranks, err);

	for (i = 0; r == 0 && i < ranks.n; i++)
		r = take_override_rank(task, ranks.v[i], at, err);
	free(ranks.v);
	return r;
}

int spec_row_task_rank(_unused_ const struct spec_field *field, void *into,
	const struct spec_at *at, const json_t *value, struct err *err)
{
	struct spec_task_draft *task = into;
	int64_t rank = 0;
	int r = spec_get_int(at, value, 0, task->ntasks - 1, &rank, err);

	return r < 0 ? r : take_override_rank(task, (uint32_t)rank, at, err);
}

static int layout_compare_ranks(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static int read_override(struct spec_task_draft *task, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct spec_override *o = &task->override;
	bool rank, ranks;
	int r = spec_check_object(SPEC_TABLE_TASK, at, value, err);

	if (r < 0)
		return r;
	rank = json_object_get(value, "rank");
	ranks = json_object_get(value, "ranks");
	if (rank == ranks)
		return spec_bad(err, at,
			rank ? "rank and ranks conflict; give one of them"
			     : "has no rank; give rank or ranks");
	r = spec_read_rows(SPEC_TABLE_TASK, task, at, value, err);
	if (r < 0)
		return r;
	if (json_object_get(value, "argv") && o->argv.n == 0)
		return spec_bad(err, SPEC_AT(at, "argv"), "is empty");
	if (o->argv.n > 0 && !o->argv.v[0][0])
		return spec_bad(err, SPEC_AT_INDEX(SPEC_AT(at, "argv"), 0), "is empty");
	if (o->ranks_count > 1)
		qsort(o->ranks, o->ranks_count, sizeof(*o->ranks), layout_compare_ranks);
	return 0;
}

/* The command line of an entry without a rank of this node is retained: MPI ranks may need it. */
static int add_override(
	struct spec *spec, size_t *capacity, struct spec_override *o, struct err *err)
{
	if (o->ranks_count == 0)
		strv_clear(&o->env);
	if (array_reserve(spec->overrides, *capacity, spec->overrides_count + 1) < 0)
		return spec_no_memory(err);
	spec->overrides[spec->overrides_count++] = *o;
	*o = (struct spec_override){0};
	return 0;
}

int spec_row_tasks(_unused_ const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct spec *spec = &((struct spec_draft *)into)->spec;
	_cleanup_bitset_ struct bitset local = {0};
	struct spec_task_draft task = {.ntasks = spec->ntasks, .local = &local};
	size_t i, capacity = 0;
	int r = spec_check_array(at, value, SIZE_MAX, err);

	task.rank_entries = spec->rank_entries =
		calloc((size_t)spec->ntasks + 1, sizeof(*spec->rank_entries));
	if (!spec->rank_entries || bitset_init(&local, spec->ntasks) < 0)
		return spec_no_memory(err);
	for (i = 0; i < spec->local_ntasks; i++)
		(void)bitset_set(&local, spec->ranks[i]);
	for (i = 0; i < json_array_size(value) && r == 0; i++) {
		task.ranks_capacity = 0;
		task.entry = (uint32_t)i + 1;
		r = read_override(&task, SPEC_AT_INDEX(at, i), json_array_get(value, i), err);
		if (r == 0)
			r = add_override(spec, &capacity, &task.override, err);
		spec_override_clear(&task.override);
		r = spec_collect(r, err);
	}
	return r;
}

/* ---- ranks with a pseudo-terminal ---------------------------------------------------------- */

int spec_row_pty(_unused_ const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct spec *spec = &((struct spec_draft *)into)->spec;
	struct spec_ranks ranks = {0};
	size_t i;
	int r = layout_read_ranks(at, value, spec->ntasks, SPEC_NTASKS_MAX, &ranks, err);

	spec->pty_ranks = ranks.v;
	spec->pty_count = ranks.n;
	if (r < 0)
		return r;
	qsort(ranks.v, ranks.n, sizeof(*ranks.v), layout_compare_ranks);
	for (i = 1; i < ranks.n; i++) {
		if (ranks.v[i] == ranks.v[i - 1])
			return spec_bad(err, at, "rank %u is listed twice", ranks.v[i]);
	}
	return 0;
}

bool spec_has_pty(const struct spec *spec, uint32_t rank)
{
	return spec->pty_count > 0 &&
		bsearch(&rank, spec->pty_ranks, spec->pty_count, sizeof(rank),
			layout_compare_ranks);
}

/* The terminal is all three streams, so that no other mode than the default can be meant. */
static int check_pty_stream(
	const char *name, enum spec_stream_mode mode, unsigned modes, struct err *err)
{
	if (modes >> mode & 1)
		return 0;
	return spec_bad(err, SPEC_AT(NULL, name),
		"conflicts with pty: a pseudo-terminal is all three streams of its rank; leave "
		"this out, or run those ranks without pty");
}

/* The output of one rank alone is that of its terminal. */
static int check_pty_output(const struct spec *spec, const char *name,
	const struct spec_stream *stream, struct err *err)
{
	if (stream->mode != SPEC_STREAM_RANK || spec_has_pty(spec, stream->rank))
		return 0;
	return spec_bad(err, SPEC_AT(SPEC_AT(NULL, name), "rank"),
		"%u is not one of pty; add it there, or leave this out", stream->rank);
}

int spec_check_pty(const struct spec *spec, struct err *err)
{
	const unsigned in = 1u << SPEC_STREAM_ALL | 1u << SPEC_STREAM_NONE |
		1u << SPEC_STREAM_RANK | 1u << SPEC_STREAM_ATTACH;
	const unsigned out = 1u << SPEC_STREAM_INHERIT | 1u << SPEC_STREAM_RANK;
	int r;

	if (spec->pty_count == 0)
		return 0;
	r = check_pty_stream("stdin", spec->in.mode, in, err);
	if (r == 0)
		r = check_pty_stream("stdout", spec->out.mode, out, err);
	if (r == 0)
		r = check_pty_stream("stderr", spec->err.mode, out | 1u << SPEC_STREAM_STDOUT, err);
	if (r < 0)
		return r;
	if (spec->in.mode == SPEC_STREAM_RANK && !spec_has_pty(spec, spec->in.rank))
		return spec_bad(err, SPEC_AT(SPEC_AT(NULL, "stdin"), "rank"),
			"%u is not one of pty, whose ranks alone read standard input in such a "
			"step; add it there",
			spec->in.rank);
	r = check_pty_output(spec, "stdout", &spec->out, err);
	if (r == 0)
		r = check_pty_output(spec, "stderr", &spec->err, err);
	if (r < 0)
		return r;
	if (spec->session == SPEC_SESSION_AGENT)
		return spec_bad(err, SPEC_AT(NULL, "session"),
			"'agent' conflicts with pty: a task with a terminal leads a session of its "
			"own; give auto or task");
	return 0;
}
