/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Notify: a line into the step's standard error, where its users look. It goes where the agent has
 * that open for the tasks (stdio_note()); where each task opens a file of its own there is none for
 * the step.
 */
#include <string.h>

#include "stepd/base/log.h"
#include "stepd/frontend/methods_impl.h"
#include "stepd/record/events.h"
#include "stepd/stdio/stdio.h"

/* A terminal shows it: nothing in it may disturb that, or look like a second line. */
static void make_line(const struct agent *a, const char *message, char *line, size_t size)
{
	static const char hex[] = "0123456789abcdef";
	size_t at = (size_t)snprintf(line, size, "%s: ", a->log->ident);
	const unsigned char *p = (const unsigned char *)message;

	for (; *p && at + 6 < size; p++) {
		if (*p >= 0x20 && *p != 0x7f) {
			line[at++] = (char)*p;
			continue;
		}
		line[at++] = '\\';
		line[at++] = 'x';
		line[at++] = hex[*p >> 4];
		line[at++] = hex[*p & 15];
	}
	line[at++] = '\n';
	line[at] = '\0';
}

void method_notify(struct control_call *call, const json_t *parameters, void *userdata)
{
	const char *message = param_text(parameters, "message");
	char line[sizeof(((struct log *)NULL)->ident) + 4 * METHODS_MESSAGE_MAX + 8];
	struct event event = EVENT_INIT(EVENT_NOTIFY);
	struct methods *m = userdata;
	struct agent *a = m->a;
	struct err err = ERR_INIT;
	int r;

	if (!message[0] || strlen(message) > METHODS_MESSAGE_MAX) {
		answer_invalid(call, "message");
		return;
	}
	if (!methods_can_act(call, a))
		return;
	make_line(a, message, line, sizeof(line));
	if (a->stdio)
		r = stdio_note(a->stdio, line, strlen(line), &err);
	else
		r = err_say(&err, -EOPNOTSUPP, "the step has no standard error: it has no tasks");
	if (r < 0) {
		answer_failed(call, r, err.text);
		return;
	}
	event.text = message;
	events_add(a->events, &event);
	control_reply_take(call, NULL);
}
