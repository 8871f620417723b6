/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/record/event_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "stepd/record/events.h"

/* What every line begins with. */
#define HEAD "{\"sequence\":"

/* Of the text; the rest of a line takes less than a fourth of it. */
#define TEXT_MAX (EVENT_LINE_MAX - 1024)

const char *const event_kind_words[EVENT_KIND_MAX] = {
	[EVENT_STATE] = "state",
	[EVENT_TASK_START] = "task_start",
	[EVENT_TASK_EXIT] = "task_exit",
	[EVENT_OOM] = "oom",
	[EVENT_SUSPEND] = "suspend",
	[EVENT_RESUME] = "resume",
	[EVENT_LIMITS] = "limits",
	[EVENT_SIGNAL] = "signal",
	[EVENT_ADD] = "add",
	[EVENT_NOTIFY] = "notify",
	[EVENT_ADOPT] = "adopt",
	[EVENT_REEXEC] = "reexec",
	[EVENT_LOST] = "lost",
	[EVENT_MPI_LOST] = "mpi_lost",
};

/* The bytes of the UTF-8 sequence that p begins with, 0 where it is none (RFC 3629). */
static size_t utf8_size(const unsigned char *p)
{
	size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	size_t i;

	if (p[0] > 0xf4)
		return 0;
	for (i = 1; i < n; i++) { /* a NUL ends it, too */
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	}
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
		(p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

/* text as a JSON string's inside, at most size bytes of it: their number. */
static size_t escape(char *out, size_t size, const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t at = 0, n;

	while (*p) {
		char one[8];

		n = utf8_size(p);
		if (n == 0)
			(void)snprintf(one, sizeof(one), "?");
		else if (*p == '"' || *p == '\\')
			(void)snprintf(one, sizeof(one), "\\%c", *p);
		else if (*p < 0x20)
			(void)snprintf(one, sizeof(one), "\\u%04x", *p);
		else
			(void)snprintf(one, sizeof(one), "%.*s", (int)n, (const char *)p);
		p += n ? n : 1;
		n = strlen(one);
		if (at + n > size)
			break;
		memcpy(out + at, one, n);
		at += n;
	}
	return at;
}

static size_t put_number(char *line, size_t at, const char *name, int64_t n)
{
	if (n == -1)
		return at;
	return at +
		(size_t)snprintf(
			line + at, EVENT_LINE_MAX - at, ",\"%s\":%lld", name, (long long)n);
}

size_t event_format(const struct event *event, uint64_t sequence, char line[EVENT_LINE_MAX])
{
	struct timespec now;
	size_t at;

	(void)clock_gettime(CLOCK_REALTIME, &now); /* can't fail with this clock */
	at = (size_t)snprintf(line, EVENT_LINE_MAX, HEAD "%llu,\"time_usec\":%lld,\"kind\":\"%s\"",
		(unsigned long long)sequence, (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000,
		event_kind_words[event->kind]);
	if (event->state)
		at += (size_t)snprintf(
			line + at, EVENT_LINE_MAX - at, ",\"state\":\"%s\"", event->state);
	at = put_number(line, at, "rank", event->rank);
	at = put_number(line, at, "pid", event->pid);
	at = put_number(line, at, "wait_status", event->wait_status);
	at = put_number(line, at, "exit_code", event->exit_code);
	at = put_number(line, at, "count", event->count);
	if (event->text) {
		at += (size_t)snprintf(line + at, EVENT_LINE_MAX - at, ",\"text\":\"");
		at += escape(line + at, TEXT_MAX, event->text);
		line[at++] = '"';
	}
	return at + (size_t)snprintf(line + at, EVENT_LINE_MAX - at, "}\n");
}

uint64_t event_get_sequence(const char *text, size_t size)
{
	size_t at = strlen(HEAD), i;
	uint64_t n = 0;

	if (size <= at || memcmp(text, HEAD, at) != 0)
		return 0;
	for (i = at; i < size && text[i] >= '0' && text[i] <= '9' && i < at + 18; i++)
		n = n * 10 + (uint64_t)(text[i] - '0');
	return i < size && text[i] == ',' ? n : 0;
}
