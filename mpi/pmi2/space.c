/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Spaces: the tasks that share an MPI_COMM_WORLD, and where they are.
 */
#include <string.h>

#include "mpi/pmi2/gather.h"
#include "mpi/pmi2/mapping.h"
#include "mpi/pmi2/pmi_impl.h"

struct pmi_space *pmi_find_space(struct pmi *pmi, uint32_t number)
{
	struct pmi_space *space;

	TAILQ_FOREACH(space, &pmi->spaces, link)
	{
		if (space->number == number)
			return space;
	}
	return NULL;
}

struct pmi_space *pmi_find_space_by_name(struct pmi *pmi, struct slice name)
{
	struct pmi_space *space;

	TAILQ_FOREACH(space, &pmi->spaces, link)
	{
		if (slice_is(name, space->name))
			return space;
	}
	return NULL;
}

struct pmi_task *space_find_rank(const struct pmi_space *space, uint32_t rank)
{
	uint32_t low = 0, high = space->local_count, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (space->tasks[middle].rank < rank)
			low = middle + 1;
		else
			high = middle;
	}
	return low < space->local_count && space->tasks[low].rank == rank ? &space->tasks[low]
									  : NULL;
}

uint32_t space_node_of(const struct pmi_space *space, uint32_t rank)
{
	return space->nodes ? space->nodes[rank] : space->pmi->config.node;
}

void space_name_ranks(
	const struct pmi_space *space, const struct bitset *ranks, char *text, size_t size)
{
	char list[300], spaced[400];
	size_t from, to = 0;

	(void)bitset_format_list(ranks, list, sizeof(list));
	for (from = 0; list[from] && to + 2 < sizeof(spaced); from++) {
		spaced[to++] = list[from];
		if (list[from] == ',')
			spaced[to++] = ' ';
	}
	spaced[to] = '\0';
	if (space->number > 0)
		(void)snprintf(text, size, "rank%s %s of spawn %u",
			bitset_count(ranks) == 1 ? "" : "s", spaced, space->number);
	else
		(void)snprintf(
			text, size, "rank%s %s", bitset_count(ranks) == 1 ? "" : "s", spaced);
}

struct pmi_task *pmi_get_task(struct pmi *pmi, uint32_t number, uint32_t local)
{
	struct pmi_space *space = pmi_find_space(pmi, number);

	return space && local < space->local_count ? &space->tasks[local] : NULL;
}

struct pmi_task *pmi_find_task(struct pmi *pmi, uint32_t step_rank)
{
	struct pmi_space *space;

	TAILQ_FOREACH(space, &pmi->spaces, link)
	{
		if (step_rank >= space->first_rank && step_rank - space->first_rank < space->size)
			return space_find_rank(space, step_rank - space->first_rank);
	}
	return NULL;
}

void pmi_set_secret(struct pmi_task *task, uint32_t secret)
{
	task->secret = secret;
}

struct pmi_task *pmi_find_by_secret(struct pmi *pmi, uint32_t secret)
{
	struct pmi_space *space;
	uint32_t i;

	TAILQ_FOREACH(space, &pmi->spaces, link)
	{
		for (i = 0; i < space->local_count; i++) {
			if (space->tasks[i].secret == secret && secret != 0)
				return &space->tasks[i];
		}
	}
	return NULL;
}

static struct pmi_space *free_space(struct pmi_space *space)
{
	uint32_t i;

	if (!space)
		return NULL;
	for (i = 0; i < space->local_count && space->tasks; i++) {
		struct pmi_task *task = &space->tasks[i];

		if (task->ready)
			TAILQ_REMOVE(&space->pmi->ready, task, ready_link);
		bytes_clear(&task->in);
		bytes_clear(&task->out);
		bytes_clear(&task->block);
	}
	free(space->tasks);
	free(space->nodes);
	free(space->mapping);
	bitset_clear(&space->node_set);
	bitset_clear(&space->far_deaths);
	kvs_clear(&space->kvs);
	kvs_clear(&space->node_attrs);
	free(space);
	return NULL;
}
DEFINE_CLEANUP(struct pmi_space *, free_space);

static int place(struct pmi_space *space, const struct pmi_layout *layout)
{
	const struct pmi_config *config = &space->pmi->config;
	uint32_t i;

	if (bitset_init(&space->node_set, config->node_count) < 0)
		return -ENOMEM;
	if (!layout->nodes) {
		for (i = 0; i < config->node_count; i++)
			bitset_set(&space->node_set, i);
		/* All of them are here, or nobody knows. */
		return config->node_count == 1 ? mapping_format(NULL, space->size, &space->mapping)
					       : 0;
	}
	space->nodes = calloc(space->size, sizeof(*space->nodes));
	if (!space->nodes)
		return -ENOMEM;
	for (i = 0; i < space->size; i++) {
		if (layout->nodes[i] >= config->node_count)
			return -EINVAL;
		space->nodes[i] = layout->nodes[i];
		bitset_set(&space->node_set, layout->nodes[i]);
	}
	return mapping_format(space->nodes, space->size, &space->mapping);
}

static int fill(struct pmi_space *space, const struct pmi_layout *layout)
{
	struct slice preput = {layout->preput, layout->preput_size};
	uint32_t i;
	int r;

	space->tasks = calloc(layout->local_count + 1, sizeof(*space->tasks));
	if (!space->tasks)
		return -ENOMEM;
	space->local_count = layout->local_count;
	for (i = 0; i < layout->local_count; i++) {
		if (layout->ranks[i] >= layout->size ||
			(i > 0 && layout->ranks[i] <= layout->ranks[i - 1]))
			return -EINVAL;
		space->tasks[i] = (struct pmi_task){.pmi = space->pmi,
			.space = space,
			.rank = layout->ranks[i],
			.local = i,
			.appnum = layout->appnums ? layout->appnums[i] : 0};
	}
	r = place(space, layout);
	return r < 0 ? r : kvs_set_list(&space->kvs, preput);
}

int pmi_add_space(struct pmi *pmi, const struct pmi_layout *layout, struct err *err)
{
	_cleanup_(free_space_p) struct pmi_space *space = calloc(1, sizeof(*space));
	int r = -ENOMEM;

	if (space) {
		*space = (struct pmi_space){.pmi = pmi,
			.number = layout->number,
			.first_rank = layout->first_rank,
			.size = layout->size,
			.parent = layout->parent};
		TAILQ_INIT(&space->gathers);
		TAILQ_INIT(&space->node_waits);
		if (layout->number > 0)
			(void)snprintf(space->name, sizeof(space->name), "%s.%u", pmi->label,
				layout->number);
		else
			(void)snprintf(space->name, sizeof(space->name), "%s", pmi->label);
		r = fill(space, layout);
	}
	if (r < 0)
		return err_set(err, r, "PMI: make room for %u tasks", layout->size);
	TAILQ_INSERT_TAIL(&pmi->spaces, space, link);
	(void)take_ptr(space);
	return 0;
}

void pmi_remove_space(struct pmi *pmi, uint32_t number)
{
	struct pmi_space *space = pmi_find_space(pmi, number);

	if (!space)
		return;
	gather_drop_all(space);
	attr_drop_waits(space);
	TAILQ_REMOVE(&pmi->spaces, space, link);
	(void)free_space(space);
}
