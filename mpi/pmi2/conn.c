/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A task's conversation: bytes, in any pieces, into messages. Messages are taken one by one while
 * nothing holds the conversation: a command that waits, or output that the task does not read.
 */
#include <string.h>

#include "mpi/pmi2/pmi_impl.h"

/* A task that runs one program after another begins a new line of talk with each. */
static const char init_start[] = "cmd=init";

void conn_restart(struct pmi_task *task, enum pmi_protocol protocol)
{
	task->finalized = task->protocol != PMI_NONE && protocol == PMI_NONE;
	task->protocol = protocol;
	task->pmi->spoken |= protocol != PMI_NONE;
	task->epoch++;
	task->held = 0;
	task->gave_up = false;
	task->in_block = false;
	task->block_spawns = 0;
	bytes_clear(&task->block);
}

/* 1: there is a whole message; 0: more bytes are needed; -EBADMSG. */
static int find_message(
	const struct pmi_task *task, enum pmi_protocol protocol, struct pmi_frame *frame)
{
	int r = pmi_frame_find(protocol, slice_of(&task->in),
		protocol == PMI_1 ? PMI1_LINE_MAX : PMI2_BODY_MAX, frame);

	if (r == -EAGAIN)
		return 0;
	return r < 0 ? -EBADMSG : 1;
}

/* 1: a message was taken; 0: more bytes are needed, or it has to wait; -EBADMSG; -ENOMEM. */
static int take_frame(struct pmi_task *task)
{
	struct bytes *scratch = &task->pmi->scratch;
	struct pmi_frame frame;
	int r = find_message(task, PMI_2, &frame);

	if (r <= 0)
		return r;
	/* A copy: the parser changes it, and the command may have to be run again. */
	bytes_cut(scratch, 0);
	bytes_add(scratch, task->in.data + frame.begin, frame.size);
	if (scratch->failed)
		return -ENOMEM;
	r = pmi2_run_body(task, scratch->data, frame.size);
	if (r == PMI_AGAIN) {
		task->stalled = true;
		return 0;
	}
	bytes_drop(&task->in, frame.total);
	return r < 0 ? r : 1;
}

static int take_line(struct pmi_task *task)
{
	struct pmi_frame frame;
	int r = find_message(task, PMI_1, &frame);

	if (r <= 0)
		return r;
	r = pmi1_run_line(task, (struct slice){task->in.data, frame.size});
	bytes_drop(&task->in, frame.total);
	return r < 0 ? r : 1;
}

/* In PMI-2 a line can only be the first one of the next program. */
static bool may_be_init(const struct pmi_task *task)
{
	size_t n = sizeof(init_start) - 1;

	return memcmp(task->in.data, init_start, task->in.size < n ? task->in.size : n) == 0;
}

static int take_message(struct pmi_task *task)
{
	char first;

	if (task->in.size == 0)
		return 0;
	first = task->in.data[0];
	if (task->protocol != PMI_1 && (first == ' ' || (first >= '0' && first <= '9')))
		return take_frame(task);
	if (task->protocol == PMI_2 && !may_be_init(task))
		return -EBADMSG;
	if (task->protocol == PMI_NONE && first != 'c' && first != 'm')
		return -EBADMSG;
	return take_line(task);
}

void conn_run(struct pmi_task *task)
{
	int r = 1;

	while (r > 0 && task->held == 0 && !task->stalled && !task->ended && !task->gone &&
		task->out.size < PMI_OUT_MAX)
		r = take_message(task);
	if (task->in.failed || task->out.failed || r == -ENOMEM)
		pmi_end(task, "there is no memory for its messages");
	else if (r < 0)
		pmi_end(task, "it sent what is no message of PMI-1 or PMI-2");
}
