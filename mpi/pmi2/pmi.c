/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmi2/pmi.h"

#include <stdarg.h>
#include <string.h>

#include "mpi/pmi2/gather.h"
#include "mpi/pmi2/names.h"
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

void pmi_log(struct pmi *pmi, enum log_level level, const char *fmt, ...)
{
	char text[1024];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	pmi->ops.log(pmi->userdata, level, text);
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
	pmi_log(task->pmi, LOG_LEVEL_WARNING, "%s: the PMI conversation with rank %u is ended: %s",
		task->space->name, task->rank, why);
	task->ended = true;
	task->died = true;
	bytes_clear(&task->in);
	(void)snprintf(task->how, sizeof(task->how), "has sent what is no PMI");
	gather_task_went(task, task->how);
	pmi_make_ready(task);
}

/* ---- input and output ---------------------------------------------------------------------- */

void pmi_feed(struct pmi_task *task, const void *data, size_t size)
{
	if (task->ended || task->gone)
		return;
	bytes_add(&task->in, data, size);
	pmi_make_ready(task);
	pmi_run(task->pmi);
}

bool pmi_is_full(const struct pmi_task *task)
{
	return task->in.size > PMI2_HEAD_SIZE + PMI2_BODY_MAX;
}

struct slice pmi_output(const struct pmi_task *task)
{
	return slice_of(&task->out);
}

void pmi_written(struct pmi_task *task, size_t size)
{
	bytes_drop(&task->out, size);
	if (task->out.size == 0)
		bytes_clear(&task->out);
	if (task->in.size == 0)
		return;
	pmi_make_ready(task);
	pmi_run(task->pmi);
}

bool pmi_has_ended(const struct pmi_task *task)
{
	return task->ended;
}

bool pmi_is_talking(const struct pmi_task *task)
{
	return task->protocol != PMI_NONE;
}

bool pmi_has_spoken(const struct pmi *pmi)
{
	return pmi->spoken;
}

bool pmi_leaves_others(const struct pmi_task *task)
{
	bool alone = task->space->size == 1 && !TAILQ_NEXT(task->space, link) &&
		TAILQ_FIRST(&task->pmi->spaces) == task->space;

	return pmi_is_talking(task) && !task->gave_up && !alone;
}

void pmi_hung_up(struct pmi_task *task, const char *how)
{
	bool spoke = task->protocol != PMI_NONE;

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
			how ? how : (spoke ? "has hung up without PMI_Finalize()" : "has hung up"));
	gather_task_went(task, task->how);
	pmi_run(task->pmi);
}

void pmi_set_data(struct pmi_task *task, void *data)
{
	task->data = data;
}

void *pmi_get_data(const struct pmi_task *task)
{
	return task->data;
}

uint32_t pmi_get_rank(const struct pmi_task *task)
{
	return task->rank;
}

uint32_t pmi_get_size(const struct pmi_task *task)
{
	return task->space->size;
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
