/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "mpi/pmi2/pmi_impl.h"

static struct slice slice_text(const char *text)
{
	return (struct slice){text, strlen(text)};
}

static bool is_current(const struct ask *ask)
{
	const struct pmi_task *task = ask->task;

	return ask->epoch == task->epoch && !task->gone && !task->ended;
}

void ask_park(struct ask *stored, const struct ask *ask)
{
	*stored = *ask;
	stored->parked = true;
	/* Other threads of the task may go on. */
	stored->holds = ask->thrid[0] == '\0';
	if (stored->holds)
		stored->task->held++;
}

void answer_open(struct answer *a, struct ask *ask)
{
	struct pmi_task *task = ask->task;

	*a = (struct answer){.ask = ask, .out = is_current(ask) ? &task->out : NULL};
	if (!a->out)
		return;
	a->begin = a->out->size;
	if (ask->protocol == PMI_2)
		bytes_add(a->out, "      ", PMI2_HEAD_SIZE);
	answer_text(a, "cmd", ask->answer);
	if (ask->thrid[0])
		answer_text(a, "thrid", ask->thrid);
}

void answer_add(struct answer *a, const char *key, struct slice value)
{
	if (!a->out)
		return;
	if (a->ask->protocol == PMI_1 && a->out->size > a->begin)
		bytes_add(a->out, " ", 1);
	bytes_add_text(a->out, key);
	bytes_add(a->out, "=", 1);
	if (a->ask->protocol == PMI_2) {
		pmi2_escape(value, a->out);
		bytes_add(a->out, ";", 1);
	} else {
		bytes_add(a->out, value.data, value.size);
	}
}

void answer_text(struct answer *a, const char *key, const char *value)
{
	answer_add(a, key, slice_text(value));
}

void answer_int(struct answer *a, const char *key, int64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRId64, value);
	answer_text(a, key, text);
}

/* The conversation may go on. */
static void release(struct ask *ask)
{
	struct pmi_task *task = ask->task;

	if (ask->parked && ask->holds && ask->epoch == task->epoch)
		task->held--;
	ask->parked = false;
	pmi_make_ready(task);
}

void answer_close(struct answer *a)
{
	struct ask *ask = a->ask;
	char head[16];
	size_t size;

	if (a->out && ask->protocol == PMI_2 && !a->out->failed) {
		size = a->out->size - a->begin - PMI2_HEAD_SIZE;
		if (size > PMI2_BODY_MAX) {
			bytes_cut(a->out, a->begin);
			answer_fail(ask, PMI_VALLEN, "the answer is longer than a message may be");
			return;
		}
		(void)snprintf(head, sizeof(head), "%-6zu", size);
		memcpy(a->out->data + a->begin, head, PMI2_HEAD_SIZE);
	} else if (a->out) {
		bytes_add(a->out, "\n", 1);
	}
	release(ask);
}

void answer_ok(struct ask *ask)
{
	struct answer a;

	answer_open(&a, ask);
	answer_int(&a, "rc", PMI_OK);
	if (ask->protocol == PMI_1)
		answer_text(&a, "msg", "success");
	answer_close(&a);
}

void answer_fail(struct ask *ask, enum pmi_code code, const char *fmt, ...)
{
	char text[400], *p;
	struct answer a;
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	for (p = text; *p; p++) {
		if (*p == '\n' || (ask->protocol == PMI_1 && *p == ' '))
			*p = '_';
	}
	answer_open(&a, ask);
	answer_int(&a, "rc", ask->protocol == PMI_1 ? PMI_FAIL : code);
	answer_text(&a, ask->protocol == PMI_1 ? "msg" : "errmsg", text);
	answer_close(&a);
}

void answer_value(struct ask *ask, const struct slice *value)
{
	struct answer a;

	answer_open(&a, ask);
	answer_int(&a, "rc", PMI_OK);
	answer_text(&a, "found", value ? "TRUE" : "FALSE");
	if (value)
		answer_add(&a, "value", *value);
	answer_close(&a);
}
