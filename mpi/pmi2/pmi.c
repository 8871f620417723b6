/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmi2/pmi.h"

#include <stdarg.h>
#include <string.h>

#include "mpi/pmi2/gather.h"
#include "mpi/pmi2/pmi_impl.h"

int pmi_new(const struct pmi_config *config, const struct pmi_ops *ops, void *userdata,
	struct pmi **ret_pmi, struct err *err)
{
	struct pmi *pmi = calloc(1, sizeof(*pmi));

	if (!pmi)
		return err_set(err, -ENOMEM, "make the PMI server");
	pmi->config = *config;
	pmi->ops = *ops;
	pmi->userdata = userdata;
	TAILQ_INIT(&pmi->spaces);
	TAILQ_INIT(&pmi->ready);
	TAILQ_INIT(&pmi->deadlines);
	TAILQ_INIT(&pmi->remotes);
	TAILQ_INIT(&pmi->names);
	pmi->label = strdup(config->label);
	pmi->node_name = strdup(config->node_name);
	if (!pmi->label || !pmi->node_name) {
		(void)pmi_free(pmi);
		return err_set(err, -ENOMEM, "make the PMI server");
	}
	*ret_pmi = pmi;
	return 0;
}

struct pmi *pmi_free(struct pmi *pmi)
{
	if (!pmi)
		return NULL;
	while (!TAILQ_EMPTY(&pmi->spaces))
		pmi_remove_space(pmi, TAILQ_FIRST(&pmi->spaces)->number);
	remote_drop(pmi);
	bytes_clear(&pmi->scratch);
	pmi_message_clear(&pmi->message);
	free(pmi->label);
	free(pmi->node_name);
	free(pmi);
	return NULL;
}

/* ---- turns --------------------------------------------------------------------------------- */

void pmi_make_ready(struct pmi_task *task)
{
	if (task->ready)
		return;
	task->ready = true;
	TAILQ_INSERT_TAIL(&task->pmi->ready, task, ready_link);
}

void pmi_resume(struct pmi_space *space)
{
	uint32_t i;

	for (i = 0; i < space->local_count; i++) {
		if (!space->tasks[i].stalled)
			continue;
		space->tasks[i].stalled = false;
		pmi_make_ready(&space->tasks[i]);
	}
}

/* One after another and never one inside another, however much the tasks have sent ahead. */
void pmi_run(struct pmi *pmi)
{
	struct pmi_task *task;

	if (pmi->running)
		return;
	pmi->running = true;
	while ((task = TAILQ_FIRST(&pmi->ready))) {
		TAILQ_REMOVE(&pmi->ready, task, ready_link);
		task->ready = false;
		conn_run(task);
		pmi->ops.attend(pmi->userdata, task);
	}
	pmi->running = false;
}

void pmi_end(struct pmi_task *task, const char *fmt, ...)
{
	char why[200];
	va_list args;

	if (task->ended || task->gone)
		return;
	va_start(args, fmt);
	(void)vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	serve_log(task->pmi->config.serve, LOG_LEVEL_WARNING,
		"%s: the PMI conversation with rank %u is ended: %s", task->space->name, task->rank,
		why);
	task->ended = true;
	task->died = true;
	bytes_clear(&task->in);
	(void)snprintf(task->how, sizeof(task->how), "has sent data that is not PMI");
	gather_task_went(task, task->how);
	pmi_make_ready(task);
}

/* ---- input and output ---------------------------------------------------------------------- */

void pmi_input(struct pmi_task *task, const void *data, size_t size)
{
	if (task->ended || task->gone)
		return;
	bytes_add(&task->in, data, size);
	pmi_make_ready(task);
	pmi_run(task->pmi);
}

bool pmi_is_full(const struct pmi_task *task)
{
	return bytes_size(&task->in) > PMI2_HEAD_SIZE + PMI2_BODY_MAX;
}

struct slice pmi_output(const struct pmi_task *task)
{
	return slice_of(&task->out);
}

void pmi_written(struct pmi_task *task, size_t size)
{
	bytes_drop(&task->out, size);
	if (bytes_size(&task->in) == 0)
		return;
	pmi_make_ready(task);
	pmi_run(task->pmi);
}

bool pmi_has_ended(const struct pmi_task *task)
{
	return task->ended;
}

bool pmi_is_initialized(const struct pmi_task *task)
{
	return task->protocol != PMI_NONE;
}

bool pmi_leaves_others(const struct pmi_task *task)
{
	bool alone = task->space->size == 1 && !TAILQ_NEXT(task->space, link) &&
		TAILQ_FIRST(&task->pmi->spaces) == task->space;

	return pmi_is_initialized(task) && !task->has_aborted && !alone;
}

void pmi_hung_up(struct pmi_task *task, const char *how)
{
	bool was_initialized = task->protocol != PMI_NONE;

	if (task->gone)
		return;
	task->gone = true;
	task->died |= !task->finalized;
	bytes_clear(&task->in);
	bytes_clear(&task->out);
	bytes_clear(&task->block);
	/* Where the server has ended it, that is the reason. */
	if (!task->ended)
		(void)snprintf(task->how, sizeof(task->how), "%s",
			how ? how
			    : (was_initialized ? "has hung up without PMI_Finalize()"
					       : "has hung up"));
	gather_task_went(task, task->how);
	pmi_run(task->pmi);
}

/* ---- time ---------------------------------------------------------------------------------- */

/* All have the same time, so that the order of their starts is that of their ends. */
void deadline_start(struct pmi *pmi, struct deadline *d, void (*expired)(struct deadline *d))
{
	if (pmi->config.timeout_ms == 0)
		return;
	d->at_ms = pmi->ops.now_ms(pmi->userdata) + pmi->config.timeout_ms;
	d->expired = expired;
	d->set = true;
	TAILQ_INSERT_TAIL(&pmi->deadlines, d, link);
}

void deadline_stop(struct pmi *pmi, struct deadline *d)
{
	if (!d->set)
		return;
	d->set = false;
	TAILQ_REMOVE(&pmi->deadlines, d, link);
}

uint64_t pmi_next_ms(const struct pmi *pmi)
{
	const struct deadline *first = TAILQ_FIRST(&pmi->deadlines);

	return first ? first->at_ms : 0;
}

void pmi_expire(struct pmi *pmi)
{
	uint64_t now_ms = pmi->ops.now_ms(pmi->userdata);
	struct deadline *d;

	while ((d = TAILQ_FIRST(&pmi->deadlines)) && d->at_ms <= now_ms) {
		deadline_stop(pmi, d);
		d->expired(d);
	}
	pmi_run(pmi);
}

/* ---- spaces ---------------------------------------------------------------------------------
 *
 * Spaces: the tasks that share an MPI_COMM_WORLD, and where they are.
 */

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

static struct pmi_space *space_free(struct pmi_space *space)
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
	bitset_clear(&space->remote_deaths);
	kvs_clear(&space->kvs);
	kvs_clear(&space->node_attrs);
	free(space);
	return NULL;
}
DEFINE_CLEANUP(struct pmi_space *, space_free);

static int space_set_nodes(struct pmi_space *space, const struct pmi_layout *layout)
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

static int space_fill(struct pmi_space *space, const struct pmi_layout *layout)
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
	r = space_set_nodes(space, layout);
	return r < 0 ? r : kvs_set_list(&space->kvs, preput);
}

int pmi_add_space(struct pmi *pmi, const struct pmi_layout *layout, struct err *err)
{
	_cleanup_(space_free_p) struct pmi_space *space = calloc(1, sizeof(*space));
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
		r = space_fill(space, layout);
	}
	if (r < 0)
		return err_set(err, r, "PMI: add a space of %u tasks", layout->size);
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
	(void)space_free(space);
}
