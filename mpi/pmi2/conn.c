/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A task's conversation: bytes, in any pieces, into messages. Messages are taken one by one while
 * nothing holds the conversation: a command that waits, or output that the task does not read.
 */
#include <stdarg.h>
#include <string.h>

#include "mpi/pmi2/pmi_impl.h"

/* A task that runs one program after another begins a new conversation with each. */
static const char init_start[] = "cmd=init";

void conn_restart(struct pmi_task *task, enum pmi_protocol protocol)
{
	task->finalized = task->protocol != PMI_NONE && protocol == PMI_NONE;
	task->protocol = protocol;
	task->pmi->had_client |= protocol != PMI_NONE;
	task->epoch++;
	task->held = 0;
	task->has_aborted = false;
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
	bytes_add(scratch, slice_of(&task->in).data + frame.begin, frame.size);
	if (scratch->failed)
		return -ENOMEM;
	r = pmi2_run_body(task, scratch->held.data, frame.size);
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
	r = pmi1_run_line(task, (struct slice){slice_of(&task->in).data, frame.size});
	bytes_drop(&task->in, frame.total);
	return r < 0 ? r : 1;
}

/* In PMI-2 a line can only be the first one of the next program. */
static bool may_be_init(struct slice in)
{
	size_t n = sizeof(init_start) - 1;

	return memcmp(in.data, init_start, in.size < n ? in.size : n) == 0;
}

static int take_message(struct pmi_task *task)
{
	struct slice in = slice_of(&task->in);
	char first;

	if (in.size == 0)
		return 0;
	first = in.data[0];
	if (task->protocol != PMI_1 && (first == ' ' || (first >= '0' && first <= '9')))
		return take_frame(task);
	if (task->protocol == PMI_2 && !may_be_init(in))
		return -EBADMSG;
	if (task->protocol == PMI_NONE && first != 'c' && first != 'm')
		return -EBADMSG;
	return take_line(task);
}

void conn_run(struct pmi_task *task)
{
	int r = 1;

	while (r > 0 && task->held == 0 && !task->stalled && !task->ended && !task->gone &&
		bytes_size(&task->out) < PMI_OUT_MAX)
		r = take_message(task);
	if (task->in.failed || task->out.failed || r == -ENOMEM)
		pmi_end(task, "there is no memory for its messages");
	else if (r < 0)
		pmi_end(task, "it sent data that is no message of PMI-1 or PMI-2");
}

/* ---- answers -------------------------------------------------------------------------------- */

static bool is_current(const struct request *request)
{
	const struct pmi_task *task = request->task;

	return request->epoch == task->epoch && !task->gone && !task->ended;
}

void request_park(struct request *stored, const struct request *request)
{
	*stored = *request;
	stored->parked = true;
	/* Other threads of the task may go on. */
	stored->holds = request->thrid[0] == '\0';
	if (stored->holds)
		stored->task->held++;
}

void answer_open(struct answer *a, struct request *request)
{
	*a = (struct answer){.request = request, .is_sent = is_current(request)};
	if (!a->is_sent)
		return;
	pmi_write_begin(&a->writer, &request->task->out, request->protocol);
	pmi_write_text(&a->writer, "cmd", request->answer);
	if (request->thrid[0])
		pmi_write_text(&a->writer, "thrid", request->thrid);
}

void answer_add(struct answer *a, const char *key, struct slice value)
{
	if (a->is_sent)
		pmi_write_field(&a->writer, key, value);
}

void answer_text(struct answer *a, const char *key, const char *value)
{
	if (a->is_sent)
		pmi_write_text(&a->writer, key, value);
}

void answer_int(struct answer *a, const char *key, int64_t value)
{
	if (a->is_sent)
		pmi_write_int(&a->writer, key, value);
}

/* The conversation may go on. */
static void release(struct request *request)
{
	struct pmi_task *task = request->task;

	if (request->parked && request->holds && request->epoch == task->epoch)
		task->held--;
	request->parked = false;
	pmi_make_ready(task);
}

void answer_close(struct answer *a)
{
	if (a->is_sent && pmi_write_end(&a->writer) < 0)
		answer_fail(a->request, PMI_VALLEN, "the answer is longer than a message may be");
	else
		release(a->request);
}

void answer_ok(struct request *request)
{
	struct answer a;

	answer_open(&a, request);
	answer_int(&a, "rc", PMI_OK);
	if (request->protocol == PMI_1)
		answer_text(&a, "msg", "success");
	answer_close(&a);
}

void answer_error(struct answer *a, enum pmi_code code, char *text)
{
	bool is_1 = a->request->protocol == PMI_1;
	char *p;

	for (p = text; *p; p++) {
		if (*p == '\n' || (is_1 && *p == ' '))
			*p = '_';
	}
	answer_int(a, "rc", is_1 ? PMI_FAIL : code);
	answer_text(a, is_1 ? "msg" : "errmsg", text);
}

void answer_fail(struct request *request, enum pmi_code code, const char *fmt, ...)
{
	char text[400];
	struct answer a;
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	answer_open(&a, request);
	answer_error(&a, code, text);
	answer_close(&a);
}
