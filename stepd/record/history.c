/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/record/history.h"

#include <fcntl.h>
#include <jansson.h>
#include <string.h>

#include "stepd/base/fs.h"

/* More than its writer lets it grow to. */
#define HISTORY_SIZE_MAX (256u << 20)

static bool is(const json_t *doc, const char *name, const char *value)
{
	const char *text = json_string_value(json_object_get(doc, name));

	return text && strcmp(text, value) == 0;
}

/* Whether doc is the end of a task. */
static bool get_end(const json_t *doc, struct history_end *end)
{
	const json_t *rank = json_object_get(doc, "rank");
	const json_t *wait_status = json_object_get(doc, "wait_status");
	const json_t *exit_code = json_object_get(doc, "exit_code");
	const char *text = json_string_value(json_object_get(doc, "text"));

	if (!is(doc, "kind", "task_exit") || !json_is_integer(rank))
		return false;
	*end = (struct history_end){.rank = (uint32_t)json_integer_value(rank),
		.lost = !json_is_integer(wait_status),
		.wait_status = (int)json_integer_value(wait_status),
		.exit_code = (int)json_integer_value(exit_code),
		/* of a spawn that failed, while the step went on */
		.on_request = text && strstr(text, "on request"),
		.time_usec = (uint64_t)json_integer_value(json_object_get(doc, "time_usec"))};
	return true;
}

int history_read(int dir_fd, history_fn ended, void *userdata)
{
	_cleanup_free_ char *text = NULL;
	struct history_end end;
	bool ending = false;
	char *line, *next;
	json_t *doc;
	size_t size;
	int r;

	r = fs_read(dir_fd, "events.jsonl", HISTORY_SIZE_MAX, &text, &size);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	for (line = text; (next = memchr(line, '\n', size - (size_t)(line - text))); line = next) {
		doc = json_loadb(line, (size_t)(next++ - line), 0, NULL);
		ending = ending || (is(doc, "kind", "state") && is(doc, "state", "ending"));
		if (doc && get_end(doc, &end)) {
			end.on_request |= ending;
			ended(&end, userdata);
		}
		json_decref(doc);
	}
	return 0;
}
