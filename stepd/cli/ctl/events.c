/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl events: the events of a step, from its first one or from a given one, and with --follow
 * those until it ends. Where its agent has died they are read from the file that it wrote.
 */
#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "stepd/base/json.h"
#include "stepd/base/fs.h"
#include "stepd/cli/ctl/target.h"
#include "stepd/client/client.h"
#include "stepd/record/events.h"

static void print_number(const json_t *event, const char *key, const char *title)
{
	const json_t *value = json_object_get(event, key);

	if (json_is_integer(value))
		printf(" %s %lld", title, (long long)json_integer_value(value));
}

static void print_event(const struct ctl *ctl, const json_t *event)
{
	int64_t usec = json_get_int(event, "time_usec", 0);
	_cleanup_free_ char *text =
		term_printable(&ctl->term, json_get_text(event, "text", ""), TERM_WHOLE);
	_cleanup_free_ char *kind =
		term_printable(&ctl->term, json_get_text(event, "kind", ""), TERM_WHOLE);
	_cleanup_free_ char *state =
		term_printable(&ctl->term, json_get_text(event, "state", ""), TERM_WHOLE);
	time_t seconds = (time_t)(usec / 1000000);
	enum term_paint paint = term_paint_of(state ? state : "");
	char when[32] = "-";
	struct tm tm;

	if (localtime_r(&seconds, &tm))
		(void)strftime(when, sizeof(when), "%F %T", &tm);
	printf("%s.%06d %5lld %-10s", when, (int)(usec % 1000000),
		(long long)json_get_int(event, "sequence", 0), kind ? kind : "");
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

/* 0, or -EIO where the reader has gone. */
static int show_event(struct ctl *ctl, const json_t *event)
{
	if (!ctl->opt.json)
		print_event(ctl, event);
	else if (ctl_print_json(ctl, json_incref((json_t *)event), true) < 0)
		return -ENOMEM;
	return ctl->opt.follow && fflush(stdout) == EOF ? -EIO : 0;
}

/* The number of the last event that has happened. */
static int get_last(struct target *target, uint64_t *ret_last, struct stepd_error *error)
{
	json_auto_t *doc = NULL;
	int r = client_call_take(target->client, "Describe", NULL, &doc, error);

	if (r == 0)
		*ret_last = (uint64_t)json_get_int(doc, "last_event", 0);
	return r;
}

/* 1: there are more. */
static int take_event(
	struct ctl *ctl, struct target *target, uint64_t last, struct stepd_error *error)
{
	_cleanup_reply_ struct reply reply = {0};
	const json_t *event;
	bool continues;
	int r = client_next(target->client, -1, &reply, error);

	if (r < 0)
		return r;
	continues = reply.continues;
	event = json_object_get(reply.parameters, "event");
	if (json_is_object(event)) {
		r = show_event(ctl, event);
		if (!ctl->opt.follow)
			continues &= (uint64_t)json_get_int(event, "sequence", 0) < last;
	}
	if (r == -EIO)
		return 0; /* main() reports the write error */
	return r < 0 ? client_no_memory(error) : continues;
}

static int follow(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	uint64_t from = ctl->opt.from, last = UINT64_MAX;
	int r = ctl->opt.follow ? 0 : get_last(target, &last, error);

	if (r < 0 || (!ctl->opt.follow && (from > last || from == 0)))
		return r;
	r = stepd_follow(target->client, from, error);
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
	json_auto_t *event = json_loads(line, 0, NULL);

	/* The last line of an agent that was killed need not be whole. */
	if (!json_is_object(event) || (uint64_t)json_get_int(event, "sequence", 0) < ctl->opt.from)
		return 0;
	return show_event(ctl, event);
}

static int read_file(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_fclose_ FILE *file = NULL;
	char line[EVENT_LINE_MAX + 1];
	int r = 0, fd;

	if (asprintf(&path, "%s/events.jsonl", target->directory) < 0) {
		path = NULL;
		return client_no_memory(error);
	}
	fd = fs_open_regular(AT_FDCWD, path);
	if (fd == -EACCES)
		return client_error(error, fd,
			"its agent has died, and only root, the step's owner and the operator group "
			"may read '%s'",
			path);
	if (fd < 0)
		return client_error(error, fd, "read '%s': %s", path, strerror(-fd));
	file = fdopen(fd, "r");
	if (!file) {
		(void)close(fd);
		return client_no_memory(error);
	}
	/* No agent writes longer lines: a cut one is no event. */
	while (r == 0 && fgets(line, sizeof(line), file))
		r = read_line(ctl, line);
	if (r == -ENOMEM)
		return client_no_memory(error);
	ctl_warn(ctl, target->label,
		"its agent has died: these are the events that it wrote; 'stepd adopt' takes the step over");
	return 0;
}

int ctl_events(struct ctl *ctl)
{
	static const struct request request = {.run = follow,
		.in_turn = true,
		.without_agent = read_file,
		.without_agent_if = STEPD_ORPHAN};

	ctl->out.printed = ctl->opt.json; /* lines, even if there is none */
	return request_steps(ctl, &request);
}
