/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/record/report.h"

#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

#include "stepd/base/buffer.h"
#include "stepd/base/clock.h"
#include "stepd/base/fs.h"
#include "stepd/snapshot/handover.h"

ssize_t report_write_patiently(int fd, const char *text, size_t size, int patience_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	size_t at = 0, piece;
	ssize_t n;

	while (at < size) {
		n = poll(&p, 1, patience_ms);
		if (n == 0)
			break;
		piece = size - at < PIPE_BUF ? size - at : PIPE_BUF;
		n = n < 0 ? n : write(fd, text + at, piece);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		at += n > 0 ? (size_t)n : 0;
	}
	return (ssize_t)at;
}

static bool is_below(const char *path, const char *dir)
{
	return strncmp(path, dir, strlen(dir)) == 0;
}

/* 1: path is, or can become, a file to be replaced; 0: it is to be written to. The links of /dev
 * and /proc are never replaced, and no other is followed. */
static int is_replaceable(const char *path)
{
	struct stat st;

	if (is_below(path, "/proc/") || (is_below(path, "/dev/") && !is_below(path, "/dev/shm/")))
		return 0;
	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 1 : -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	return S_ISREG(st.st_mode) || S_ISLNK(st.st_mode);
}

int report_descriptor_of(const char *path)
{
	int fd = -1;
	char behind;

	if (!path ||
		(sscanf(path, "/dev/fd/%9d%c", &fd, &behind) != 1 &&
			sscanf(path, "/proc/self/fd/%9d%c", &fd, &behind) != 1))
		return -1;
	return fd;
}

int report_write(int fd, const char *text)
{
	ssize_t n = report_write_patiently(fd, text, strlen(text), REPORT_PATIENCE_MS);

	if (n < 0)
		return (int)n;
	return (size_t)n == strlen(text) ? 0 : -ETIMEDOUT;
}

static int open_as_it_is(const char *path)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int report_open(const char *path)
{
	int r = is_replaceable(path);

	if (r <= 0)
		return r < 0 ? r : open_as_it_is(path);
	return fs_replace(AT_FDCWD, path, 0644);
}

int report_store(const char *path, const char *text, bool sync)
{
	_cleanup_close_ int fd = -1;
	int r = is_replaceable(path);

	if (r < 0)
		return r;
	if (r > 0)
		return fs_write_atomic(AT_FDCWD, path, text, strlen(text), 0644, sync);
	fd = open_as_it_is(path);
	return fd < 0 ? fd : report_write(fd, text);
}

int report_check(const char *path)
{
	_cleanup_free_ char *dir = NULL;
	char *slash;
	int r = is_replaceable(path);

	if (r < 0)
		return r;
	if (r == 0)
		return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) < 0 ? -errno : 0;
	dir = strdup(path);
	if (!dir)
		return -ENOMEM;
	slash = strrchr(dir, '/');
	if (slash)
		slash[slash == dir] = '\0';
	return faccessat(AT_FDCWD, slash ? dir : ".", W_OK | X_OK, AT_EACCESS) < 0 ? -errno : 0;
}

json_t *report_json_text(const char *text)
{
	_cleanup_free_ char *ascii = NULL;
	json_t *value = json_string(text);
	char *p;

	if (value)
		return value;
	ascii = strdup(text);
	for (p = ascii; p && *p; p++) {
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	}
	return ascii ? json_string(ascii) : NULL;
}

/* ---- the launch trace ---------------------------------------------------------------------- */

struct trace_event {
	const char *name;
	int64_t rank; /* -1: the agent's */
	uint64_t begin_ns, end_ns;
};

struct trace {
	uint64_t start_ns;
	struct trace_event *v;
	size_t n, capacity;
	bool lost;     /* lost for lack of memory: noted in the file */
	json_t *names; /* the texts of events of the previous program */
};

struct trace *trace_new(uint64_t start_ns)
{
	struct trace *t = calloc(1, sizeof(*t));

	if (t)
		t->start_ns = start_ns;
	return t;
}

static void trace_add(struct trace *t, const struct trace_event *e)
{
	if (!t)
		return;
	if (array_reserve(t->v, t->capacity, t->n + 1) == 0)
		t->v[t->n++] = *e;
	else
		t->lost = true;
}

void trace_phase(struct trace *t, const char *name, uint64_t begin_ns)
{
	trace_add(t, &(struct trace_event){name, -1, begin_ns, clock_now_ns()});
}

void trace_task(
	struct trace *t, const char *name, uint32_t rank, uint64_t begin_ns, uint64_t end_ns)
{
	trace_add(t, &(struct trace_event){name, rank, begin_ns, end_ns});
}

/* One complete event ("ph": "X"), times in microseconds, as Chrome expects. Row 0 is the agent's.
 */
static json_t *trace_pack_event(const struct trace *t, const struct trace_event *e)
{
	return json_pack("{s:s, s:s, s:f, s:f, s:i, s:I}", "name", e->name, "ph", "X", "ts",
		(double)(e->begin_ns - t->start_ns) / 1e3, "dur",
		(double)(e->end_ns - e->begin_ns) / 1e3, "pid", 1, "tid",
		(json_int_t)(e->rank + 1));
}

static json_t *trace_pack(const struct trace *t, const char *label)
{
	json_t *events = json_array(), *doc;
	size_t i;
	int r = events ? 0 : -1;

	for (i = 0; r == 0 && i < t->n; i++)
		r = json_array_append_new(events, trace_pack_event(t, &t->v[i]));
	doc = r == 0
		? json_pack("{s:O, s:s, s:{s:s, s:b}}", "traceEvents", events, "displayTimeUnit",
			  "ms", "otherData", "step", label, "incomplete", (int)t->lost)
		: NULL;
	json_decref(events);
	return doc;
}

int trace_write(const struct trace *t, const char *path, const char *label, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	json_t *doc = trace_pack(t, label);
	int r;

	text = doc ? json_dumps(doc, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
	json_decref(doc);
	if (!text)
		return err_set(err, -ENOMEM, "write the trace '%s'", path);
	r = report_store(path, text, false);
	return r < 0 ? err_set(err, r, "write the trace '%s'", path) : 0;
}

/* name, rank, begin and end of each. */
void trace_save(const struct trace *t, struct handover *h, json_t *object)
{
	json_t *events = handover_put_array(h, object, "events");
	const struct trace_event *e;
	size_t i;

	handover_put_int(h, object, "start_ns", (int64_t)t->start_ns);
	handover_put_bool(h, object, "lost", t->lost);
	for (i = 0; i < t->n; i++) {
		e = &t->v[i];
		handover_append_text(h, events, e->name);
		handover_append_int(h, events, e->rank);
		handover_append_int(h, events, (int64_t)e->begin_ns);
		handover_append_int(h, events, (int64_t)e->end_ns);
	}
}

struct trace *trace_restore(const json_t *object)
{
	struct trace *t = trace_new((uint64_t)json_get_int(object, "start_ns", 0));
	const char *name;
	size_t i;

	if (!t)
		return NULL;
	t->lost = json_get_bool(object, "lost", false);
	t->names = json_incref(json_get_array(object, "events"));
	for (i = 0; i + 3 < json_array_size(t->names); i += 4) {
		name = json_string_value(json_array_get(t->names, i));
		if (name)
			trace_add(t,
				&(struct trace_event){name,
					json_integer_value(json_array_get(t->names, i + 1)),
					(uint64_t)json_integer_value(
						json_array_get(t->names, i + 2)),
					(uint64_t)json_integer_value(
						json_array_get(t->names, i + 3))});
	}
	return t;
}

struct trace *trace_free(struct trace *t)
{
	if (t) {
		json_decref(t->names);
		free(t->v);
	}
	free(t);
	return NULL;
}
