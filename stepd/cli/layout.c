/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/layout.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "stepd/base/parse.h"
#include "stepd/spec/spec.h"

int layout_parse(const char *text, enum layout_kind *ret_kind, uint32_t *ret_plane)
{
	static const struct {
		const char *name;
		enum layout_kind kind;
	} names[] = {
		{"block", LAYOUT_BLOCK},
		{"*", LAYOUT_BLOCK},
		{"cyclic", LAYOUT_CYCLIC},
		{"arbitrary", LAYOUT_ARBITRARY},
	};
	size_t i, len = strcspn(text, ":,");

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		if (strlen(names[i].name) == len && strncmp(names[i].name, text, len) == 0) {
			*ret_kind = names[i].kind;
			return 0;
		}
	}
	if (strncmp(text, "plane=", 6) != 0 ||
		parse_u32(text + 6, 1, SPEC_TASKS_MAX, ret_plane) < 0)
		return -EINVAL;
	*ret_kind = LAYOUT_PLANE;
	return 0;
}

void layout_clear(struct layout *layout)
{
	free(layout->counts);
	free(layout->rank_nodes);
	free(layout->ranks);
	free(layout->begins);
	*layout = (struct layout){0};
}

/* ---- who gets how many --------------------------------------------------------------------- */

/* The capacity of the node, at most the limit for one node. */
static uint32_t get_capacity(const struct layout_request *q, uint32_t node)
{
	if (q->counts)
		return q->counts[node];
	return q->tasks_per_node ? q->tasks_per_node : SPEC_TASKS_MAX;
}

static int check_request(const struct layout_request *q, uint32_t *ret_ntasks, struct err *err)
{
	uint64_t capacity = 0;
	uint32_t i;

	if (q->nodes == 0 || q->nodes > SPEC_NODES_MAX)
		return err_set_text(err, -EINVAL, "%u nodes are not in the range 1 to %u", q->nodes,
			SPEC_NODES_MAX);
	for (i = 0; i < q->nodes; i++)
		capacity += get_capacity(q, i);
	*ret_ntasks = q->ntasks;
	if (q->ntasks == 0 && !q->counts && !q->tasks_per_node)
		*ret_ntasks = q->nodes; /* a task a node, as srun has it */
	else if (q->ntasks == 0)
		*ret_ntasks = (uint32_t)(capacity > UINT32_MAX ? UINT32_MAX : capacity);
	if (*ret_ntasks == 0 || *ret_ntasks > SPEC_NTASKS_MAX)
		return err_set_text(err, -EINVAL, "%u tasks are not in the range 1 to %u",
			*ret_ntasks, SPEC_NTASKS_MAX);
	if (*ret_ntasks > capacity)
		return err_set_text(err, -EINVAL, "%u tasks don't fit on %u node%s of %llu in all",
			*ret_ntasks, q->nodes, q->nodes == 1 ? "" : "s",
			(unsigned long long)capacity);
	return 0;
}

/* Gives so many to each node in turn, up to its capacity, until all are placed. */
static void distribute(const struct layout_request *q, struct layout *l, uint32_t plane)
{
	uint32_t rank = 0, node, i, n;

	while (rank < l->ntasks) {
		for (node = 0; node < l->nodes && rank < l->ntasks; node++) {
			n = get_capacity(q, node) - l->counts[node];
			n = n < plane ? n : plane;
			for (i = 0; i < n && rank < l->ntasks; i++) {
				l->rank_nodes[rank++] = node;
				l->counts[node]++;
			}
		}
	}
}

/* The counts are those of a cyclic layout, the order is not. */
static void distribute_block(const struct layout_request *q, struct layout *l)
{
	uint32_t rank = 0, node, i;

	distribute(q, l, 1);
	for (node = 0; node < l->nodes; node++) {
		for (i = 0; i < l->counts[node]; i++)
			l->rank_nodes[rank++] = node;
	}
}

static int take_arbitrary(const struct layout_request *q, struct layout *l, struct err *err)
{
	uint32_t rank, node;

	for (rank = 0; rank < l->ntasks; rank++) {
		node = q->on_nodes[rank];
		if (node >= q->nodes)
			return err_set_text(
				err, -EINVAL, "rank %u is on node %u of %u", rank, node, q->nodes);
		if (l->counts[node]++ == get_capacity(q, node))
			return err_set_text(err, -EINVAL, "node %u has more than %u tasks", node,
				get_capacity(q, node));
		l->rank_nodes[rank] = node;
	}
	return 0;
}

static int alloc_layout(struct layout *l, struct err *err)
{
	l->counts = calloc(l->nodes, sizeof(*l->counts));
	l->begins = calloc(l->nodes, sizeof(*l->begins));
	l->rank_nodes = calloc(l->ntasks, sizeof(*l->rank_nodes));
	l->ranks = calloc(l->ntasks, sizeof(*l->ranks));
	if (l->counts && l->begins && l->rank_nodes && l->ranks)
		return 0;
	return err_set(err, -ENOMEM, "lay out the tasks");
}

static void sort_ranks(struct layout *l)
{
	uint32_t node, rank, end = 0;

	for (node = 0; node < l->nodes; node++) {
		l->begins[node] = end;
		end += l->counts[node];
	}
	for (rank = 0; rank < l->ntasks; rank++)
		l->ranks[l->begins[l->rank_nodes[rank]]++] = rank;
	for (node = 0; node < l->nodes; node++)
		l->begins[node] -= l->counts[node];
}

int layout_make(const struct layout_request *q, struct layout *ret_layout, struct err *err)
{
	_cleanup_layout_ struct layout l = {.nodes = q->nodes};
	int r = check_request(q, &l.ntasks, err);

	if (r < 0)
		return r;
	r = alloc_layout(&l, err);
	if (r < 0)
		return r;
	switch (q->kind) {
	case LAYOUT_CYCLIC:
		distribute(q, &l, 1);
		break;
	case LAYOUT_PLANE:
		distribute(q, &l, q->plane ? q->plane : 1);
		break;
	case LAYOUT_ARBITRARY:
		r = take_arbitrary(q, &l, err);
		break;
	default:
		distribute_block(q, &l);
		break;
	}
	if (r < 0)
		return r;
	sort_ranks(&l);
	*ret_layout = l;
	l = (struct layout){0};
	return 0;
}

/* ---- as text ------------------------------------------------------------------------------- */

char *layout_text(const struct layout *l, uint32_t node)
{
	const uint32_t *ranks = l->ranks + l->begins[node];
	uint32_t i, first, n = l->counts[node];
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	bool failed;

	if (!out)
		return NULL;
	for (i = 0; i < n; i++) {
		first = i;
		while (i + 1 < n && ranks[i + 1] == ranks[i] + 1)
			i++;
		fprintf(out, "%s%u", first ? "," : "", ranks[first]);
		if (i > first)
			fprintf(out, "-%u", ranks[i]);
	}
	failed = ferror(out);
	if (fclose(out) == 0 && !failed)
		return text;
	free(text);
	return NULL;
}

json_t *layout_json(const struct layout *l)
{
	json_auto_t *array = json_array();
	uint32_t node;
	int r = 0;

	for (node = 0; node < l->nodes && r == 0; node++) {
		_cleanup_free_ char *text = layout_text(l, node);

		r = text ? json_array_append_new(array, json_string(text)) : -1;
	}
	return r < 0 ? NULL : take_ptr(array);
}
