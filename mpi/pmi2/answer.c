/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>

#include "mpi/pmi2/pmi_impl.h"

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
	*a = (struct answer){.ask = ask, .is_sent = is_current(ask)};
	if (!a->is_sent)
		return;
	pmi_write_begin(&a->writer, &ask->task->out, ask->protocol);
	pmi_write_text(&a->writer, "cmd", ask->answer);
	if (ask->thrid[0])
		pmi_write_text(&a->writer, "thrid", ask->thrid);
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
	if (a->is_sent && pmi_write_end(&a->writer) < 0)
		answer_fail(a->ask, PMI_VALLEN, "the answer is longer than a message may be");
	else
		release(a->ask);
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
