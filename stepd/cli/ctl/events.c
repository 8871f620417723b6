/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl events: what has happened in a step, from its first event on or from one that is named,
 * and with --follow what happens until it ends. Of a step whose agent has died the file that it
 * wrote tells.
 */
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <time.h>

#include "stepd/base/fs.h"
#include "stepd/cli/ctl/ask.h"
#include "stepd/record/event_text.h"
#include "stepd/record/events.h"

static void print_number(const json_t *event, const char *key, const char *title)
{
	const json_t *value = json_object_get(event, key);

	if (json_is_integer(value))
		printf(" %s %lld", title, (long long)json_integer_value(value));
}

static void print_event(const struct ctl *ctl, const json_t *event)
{
	json_int_t usec = json_integer_value(json_object_get(event, "time_usec"));
	_cleanup_free_ char *text =
		term_printable(&ctl->term, ctl_json_text(event, "text"), TERM_WHOLE);
	_cleanup_free_ char *kind =
		term_printable(&ctl->term, ctl_json_text(event, "kind"), TERM_WHOLE);
	_cleanup_free_ char *state =
		term_printable(&ctl->term, ctl_json_text(event, "state"), TERM_WHOLE);
	time_t seconds = (time_t)(usec / 1000000);
	enum term_paint paint = term_paint_of(state ? state : "");
	char when[32] = "-";
	struct tm tm;

	if (localtime_r(&seconds, &tm))
		(void)strftime(when, sizeof(when), "%F %T", &tm);
	printf("%s.%06d %5lld %-10s", when, (int)(usec % 1000000),
		(long long)json_integer_value(json_object_get(event, "sequence")),
		kind ? kind : "");
	if (state && *state)
		printf(" %s%s%s", term_paint(&ctl->term, paint), state,
			term_unpaint(&ctl->term, paint));
	print_number(event, "rank", "task");
	print_number(event, "pid", "pid");
	print_number(event, "count", "count");
	if (text && *text)
		printf(" %s", text);
	putchar('\n');
}

/* 0, or -EIO where nobody takes it any more. */
static int show_event(struct ctl *ctl, const json_t *event)
{
	if (!ctl->json)
		print_event(ctl, event);
	else if (ctl_print_json(ctl, json_incref((json_t *)event), true) < 0)
		return -ENOMEM;
	return ctl->follow && fflush(stdout) == EOF ? -EIO : 0;
}

/* The number of the last event that has happened. */
static int get_last(struct target *target, uint64_t *ret_last, struct stepd_error *error)
{
	_cleanup_free_ char *text = NULL;
	json_t *doc = NULL;
	int r = stepd_describe(target->client, &text, error);

	if (r == 0)
		r = ask_parse(text, &doc, error);
	if (r == 0)
		*ret_last = (uint64_t)json_integer_value(json_object_get(doc, "last_event"));
	json_decref(doc);
	return r;
}

/* 1: go on. */
static int take_event(
	struct ctl *ctl, struct target *target, uint64_t last, struct stepd_error *error)
{
	_cleanup_free_ char *text = NULL;
	json_t *doc = NULL;
	const json_t *event;
	bool continues = true;
	int r = stepd_next(target->client, -1, &text, &continues, error);

	if (r < 0 || !text)
		return r;
	r = ask_parse(text, &doc, error);
	if (r < 0)
		return r;
	event = json_object_get(doc, "event");
	if (json_is_object(event)) {
		r = show_event(ctl, event);
		if (!ctl->follow)
			continues &= (uint64_t)json_integer_value(
					     json_object_get(event, "sequence")) < last;
	}
	json_decref(doc);
	if (r == -EIO)
		return 0; /* the end tells */
	return r < 0 ? target_error(error, r, "no memory left") : continues;
}

static int follow(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	char parameters[64] = "{}";
	uint64_t last = UINT64_MAX;
	int r = ctl->follow ? 0 : get_last(target, &last, error);

	if (r < 0 || (!ctl->follow && (ctl->from > last || ctl->from == 0)))
		return r;
	if (ctl->from > 0)
		(void)snprintf(parameters, sizeof(parameters), "{\"from\":%llu}",
			(unsigned long long)ctl->from);
	r = stepd_start_call(target->client, "Events", parameters, STEPD_CALL_MORE, error);
	if (r < 0)
		return r;
	do
		r = take_event(ctl, target, last, error);
	while (r > 0);
	return r;
}

/* ---- without an agent ---------------------------------------------------------------------- */

static int read_line(struct ctl *ctl, const char *line)
{
	json_t *event = json_loads(line, 0, NULL);
	int r = 0;

	/* The last line of an agent that was killed need not be whole. */
	if (json_is_object(event) &&
		(uint64_t)json_integer_value(json_object_get(event, "sequence")) >= ctl->from)
		r = show_event(ctl, event);
	json_decref(event);
	return r;
}

static int read_file(struct ctl *ctl, const struct target *target, struct stepd_error *error)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_fclose_ FILE *file = NULL;
	char line[EVENT_LINE_MAX + 1];
	int r = 0, fd;

	if (asprintf(&path, "%s/events.jsonl", target->directory) < 0) {
		path = NULL;
		return target_error(error, -ENOMEM, "no memory left");
	}
	fd = fs_open_regular(AT_FDCWD, path);
	if (fd == -EACCES)
		return target_error(error, fd,
			"its agent has died, and only root, the step's owner and the operator group "
			"may read '%s'",
			path);
	if (fd < 0)
		return target_error(error, fd, "read '%s': %s", path, strerror(-fd));
	file = fdopen(fd, "r");
	if (!file) {
		(void)close(fd);
		return target_error(error, -ENOMEM, "no memory left");
	}
	/* No agent writes longer lines: what is cut tells nothing. */
	while (r == 0 && fgets(line, sizeof(line), file))
		r = read_line(ctl, line);
	if (r == -ENOMEM)
		return target_error(error, r, "no memory left");
	ctl_warn(ctl, target->label,
		"its agent has died: this is what it wrote, 'stepd adopt' takes the step over");
	return 0;
}

int ctl_events(struct ctl *ctl)
{
	_cleanup_target_ struct target target = TARGET_INIT;
	struct stepd_error error = {0};
	int r;

	ctl->printed = ctl->json; /* lines, even if there is none */
	r = target_find(ctl, ctl->args[0], false, &target, &error);
	if (r == 0)
		r = target_connect(ctl, &target, &error);
	if (r == 0 && target.client)
		r = follow(ctl, &target, &error);
	else if (r == 0 && target.presence == STEPD_ORPHAN)
		r = read_file(ctl, &target, &error);
	else if (r == 0)
		r = target_say_gone(&target, &error);
	if (r < 0)
		ctl_complain(ctl, target.label, &error, NULL);
	return 0;
}
