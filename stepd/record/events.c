/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/record/events.h"

#include <assert.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "stepd/base/clock.h"
#include "stepd/base/err.h"
#include "stepd/base/fs.h"
#include "stepd/base/json.h"
#include "stepd/snapshot/handover.h"

/* ---- lines --------------------------------------------------------------------------------- */

/* What every line begins with. */
#define HEAD "{\"sequence\":"

/* Bytes of the text; the rest of a line takes less than a fourth of that. */
#define TEXT_MAX (EVENT_LINE_MAX - 1024)

const char *const event_kind_names[EVENT_KIND_MAX] = {
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

/* Writes text as the contents of a JSON string, at most size bytes; returns their number. */
static size_t escape(char *out, size_t size, const char *text)
{
	size_t at = 0, n;
	char one[8];

	while (*text) {
		n = err_utf8_size(text);
		if (n == 0)
			(void)snprintf(one, sizeof(one), "?");
		else if (*text == '"' || *text == '\\')
			(void)snprintf(one, sizeof(one), "\\%c", *text);
		else if (n == 1 && *text < 0x20)
			(void)snprintf(one, sizeof(one), "\\u%04x", (unsigned)*text);
		else
			(void)snprintf(one, sizeof(one), "%.*s", (int)n, text);
		text += n ? n : 1;
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
	size_t at;

	at = (size_t)snprintf(line, EVENT_LINE_MAX, HEAD "%llu,\"time_usec\":%llu,\"kind\":\"%s\"",
		(unsigned long long)sequence, (unsigned long long)clock_wall_usec(),
		event_kind_names[event->kind]);
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

/* ---- the file ------------------------------------------------------------------------------ */

#define EVENTS_FILE "events.jsonl"

/* Lines that are collected before they are written: some 256 starts of tasks. */
#define COLLECT_MAX 32768u

/* The offsets of some events, evenly spread: when the table is full, every second mark is
 * dropped. */
#define MARKS_MAX 512u

/* Usual bytes of the events of a step, and of each of its tasks. */
#define RESERVE_STEP_SIZE 4096u
#define RESERVE_TASK_SIZE 384u
#define RESERVE_MAX       (1u << 20) /* one step must not fill the file system of all */

/* The most that memory holds at a time; older events are dropped. */
#define MEMORY_MAX (4u << 20)

struct mark {
	uint64_t sequence;
	off_t offset;
};

/* Offsets continue from the file into the memory that replaces it: [0, file_end) is in the file,
 * [memory_begin, end) in memory; the events between them were dropped. */
struct events {
	const struct log *log;
	int file_fd;
	int memory_fd; /* -1: there is none */
	off_t file_end, memory_begin, end;
	uint64_t last;         /* number of the last event */
	uint64_t memory_first; /* of the first event in memory; 0: all are in the file */
	struct mark marks[MARKS_MAX];
	size_t marks_count;
	uint64_t mark_every; /* events */
	unsigned collecting; /* depth of events_begin() */
	char *collected;     /* COLLECT_MAX and a line */
	size_t collected_size;
	uint64_t collected_first; /* number of the first event in it */
	void (*listener)(void *userdata);
	void *userdata;
};

/* ---- where events begin -------------------------------------------------------------------- */

static void add_mark(struct events *ev, uint64_t sequence, off_t offset)
{
	size_t i;

	if (ev->marks_count && sequence < ev->marks[ev->marks_count - 1].sequence + ev->mark_every)
		return;
	if (ev->marks_count == MARKS_MAX) {
		for (i = 0; i < MARKS_MAX / 2; i++)
			ev->marks[i] = ev->marks[2 * i];
		ev->marks_count = MARKS_MAX / 2;
		ev->mark_every *= 2;
	}
	ev->marks[ev->marks_count++] = (struct mark){.sequence = sequence, .offset = offset};
}

static struct mark find_mark(const struct events *ev, uint64_t sequence)
{
	struct mark found = {.sequence = 1, .offset = 0};
	size_t lo = 0, hi = ev->marks_count, mid;

	while (lo < hi) {
		mid = (lo + hi) / 2;
		if (ev->marks[mid].sequence <= sequence) {
			found = ev->marks[mid];
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return found;
}

/* ---- writing ------------------------------------------------------------------------------- */

static int write_at(int fd, const char *text, size_t size, off_t offset)
{
	ssize_t n;

	while (size > 0) {
		n = pwrite(fd, text, size, offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ENOSPC;
		text += n;
		size -= (size_t)n;
		offset += n;
	}
	return 0;
}

static void use_memory(struct events *ev, int why)
{
	ev->memory_fd = memfd_create("stepd-events", MFD_CLOEXEC);
	ev->memory_begin = ev->end;
	ev->memory_first = ev->collected_first;
	log_warning(ev->log, "can't write '" EVENTS_FILE "': %s; %s", strerror(-why),
		ev->memory_fd < 0 ? "there is no memory either, and events are lost"
				  : "events are in memory from now on, the latest of them");
	/* half a line and the next line would be read as one */
	(void)!ftruncate(ev->file_fd, ev->file_end);
}

/* Drops the events in memory if size more bytes would exceed the bound. */
static int write_memory(struct events *ev, const char *text, size_t size)
{
	if (ev->memory_fd < 0)
		return -EBADF;
	if ((uint64_t)(ev->end - ev->memory_begin) + size > MEMORY_MAX) {
		if (ftruncate(ev->memory_fd, 0) < 0)
			return -errno;
		ev->memory_begin = ev->end;
		ev->memory_first = ev->collected_first;
	}
	return write_at(ev->memory_fd, text, size, ev->end - ev->memory_begin);
}

static void write_collected(struct events *ev)
{
	size_t size = ev->collected_size;
	int r = -ENOSPC;

	if (size == 0)
		return;
	if (ev->memory_first == 0) {
		r = write_at(ev->file_fd, ev->collected, size, ev->end);
		if (r == 0)
			ev->file_end += (off_t)size;
		else
			use_memory(ev, r);
	}
	if (r < 0 && write_memory(ev, ev->collected, size) < 0) {
		/* as if it had been dropped */
		ev->memory_begin = ev->end + (off_t)size;
		ev->memory_first = ev->last + 1;
	}
	ev->end += (off_t)size;
	ev->collected_size = 0;
	if (ev->listener)
		ev->listener(ev->userdata);
}

void events_add(struct events *ev, const struct event *event)
{
	if (!ev)
		return;
	assert(event->kind < EVENT_KIND_MAX);
	if (ev->collected_size == 0)
		ev->collected_first = ev->last + 1;
	add_mark(ev, ev->last + 1, ev->end + (off_t)ev->collected_size);
	ev->collected_size += event_format(event, ++ev->last, ev->collected + ev->collected_size);
	if (!ev->collecting || ev->collected_size >= COLLECT_MAX)
		write_collected(ev);
}

void events_begin(struct events *ev)
{
	if (ev)
		ev->collecting++;
}

void events_end(struct events *ev)
{
	if (!ev)
		return;
	assert(ev->collecting > 0);
	if (--ev->collecting == 0)
		write_collected(ev);
}

uint64_t events_last(const struct events *ev)
{
	return ev ? ev->last : 0;
}

void events_set_listener(struct events *ev, void (*fn)(void *userdata), void *userdata)
{
	if (!ev)
		return;
	ev->listener = fn;
	ev->userdata = userdata;
}

/* ---- reading ------------------------------------------------------------------------------- */

static ssize_t read_at(const struct events *ev, off_t offset, char *buf, size_t size)
{
	bool in_file = offset < ev->file_end;
	off_t left = (in_file ? ev->file_end : ev->end) - offset;
	ssize_t n;

	if ((off_t)size > left)
		size = (size_t)left;
	if (size == 0)
		return 0;
	do
		n = pread(in_file ? ev->file_fd : ev->memory_fd, buf, size,
			in_file ? offset : offset - ev->memory_begin);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* Skips the dropped events. */
static void skip_hole(const struct events *ev, struct events_cursor *cursor)
{
	if (cursor->offset < ev->file_end || cursor->offset >= ev->memory_begin ||
		ev->memory_first == 0)
		return;
	if (ev->memory_first > cursor->next)
		cursor->lost += ev->memory_first - cursor->next;
	cursor->next = ev->memory_first;
	cursor->offset = ev->memory_begin;
}

ssize_t events_read(struct events *ev, struct events_cursor *cursor, char *buf, size_t size)
{
	const char *last, *line;
	uint64_t sequence;
	ssize_t n;

	assert(size >= EVENT_LINE_MAX);
	skip_hole(ev, cursor);
	n = read_at(ev, cursor->offset, buf, size);
	if (n <= 0)
		return n;
	last = memrchr(buf, '\n', (size_t)n);
	sequence = event_get_sequence(buf, (size_t)n);
	if (!last || sequence == 0)
		return -EBADMSG; /* another process has written to it */
	if (sequence > cursor->next)
		cursor->lost += sequence - cursor->next;
	n = last + 1 - buf;
	cursor->offset += n;
	line = memrchr(buf, '\n', (size_t)n - 1);
	line = line ? line + 1 : buf;
	cursor->next = event_get_sequence(line, (size_t)(last + 1 - line)) + 1;
	return n;
}

/* Moves from a mark to the line of the event from. */
static int walk(struct events *ev, uint64_t from, struct events_cursor *cursor)
{
	_cleanup_free_ char *buf = malloc(COLLECT_MAX);
	struct events_cursor at = *cursor;
	const char *line, *end;
	ssize_t n = 0;

	if (!buf)
		return -ENOMEM;
	while (cursor->next < from && (n = events_read(ev, &at, buf, COLLECT_MAX)) > 0) {
		end = buf + n;
		for (line = buf; line < end;
			line = (const char *)memchr(line, '\n', (size_t)(end - line)) + 1) {
			if (event_get_sequence(line, (size_t)(end - line)) >= from)
				break;
		}
		*cursor = at;
		if (line == end)
			continue;
		cursor->next = event_get_sequence(line, (size_t)(end - line));
		cursor->offset = at.offset - (end - line);
		break;
	}
	cursor->lost = cursor->next > from ? cursor->next - from : 0;
	return n < 0 ? (int)n : 0;
}

int events_seek(struct events *ev, uint64_t from, struct events_cursor *ret_cursor)
{
	struct events_cursor cursor = {.next = ev->last + 1, .offset = ev->end};
	struct mark mark;
	int r = 0;

	write_collected(ev);
	cursor.offset = ev->end;
	if (from > 0 && from <= ev->last) {
		mark = find_mark(ev, from);
		cursor = (struct events_cursor){.next = mark.sequence, .offset = mark.offset};
		skip_hole(ev, &cursor);
		cursor.lost = cursor.next > from ? cursor.next - from : 0;
		r = cursor.next < from ? walk(ev, from, &cursor) : 0;
	}
	if (r == 0)
		*ret_cursor = cursor;
	return r;
}

/* ---- life ---------------------------------------------------------------------------------- */

/* Takes over a dead agent's file, up to its last complete line that begins correctly. */
static int inherit(struct events *ev)
{
	_cleanup_free_ char *buf = malloc(COLLECT_MAX);
	const char *line, *end;
	uint64_t sequence;
	struct stat st;
	ssize_t n;

	if (!buf)
		return -ENOMEM;
	if (fstat(ev->file_fd, &st) < 0)
		return -errno;
	for (ev->file_end = 0;; ev->file_end += line - buf) {
		do
			n = pread(ev->file_fd, buf, COLLECT_MAX, ev->file_end);
		while (n < 0 && errno == EINTR);
		if (n < 0)
			return -errno;
		for (line = buf; (end = memchr(line, '\n', (size_t)(buf + n - line)));
			line = end + 1) {
			sequence = event_get_sequence(line, (size_t)(end - line));
			if (sequence <= ev->last)
				break;
			add_mark(ev, sequence, ev->file_end + (line - buf));
			ev->last = sequence;
		}
		if (line == buf)
			break;
	}
	ev->end = ev->file_end;
	return st.st_size > ev->end && ftruncate(ev->file_fd, ev->end) < 0 ? -errno : 0;
}

static int open_file(int dir_fd, bool inherit_it)
{
	int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, fd;

	if (!inherit_it) {
		if (unlinkat(dir_fd, EVENTS_FILE, 0) < 0 && errno != ENOENT)
			return -errno;
		flags |= O_EXCL;
	}
	fd = openat(dir_fd, EVENTS_FILE, flags, 0600);
	return fd < 0 ? -errno : fd;
}

void events_set_readers(struct events *ev, uid_t owner, gid_t operators)
{
	int r = fs_set_readers(ev->file_fd, 0600, owner, operators);

	if (r < 0)
		log_debug(ev->log,
			"only the agent's user can read '" EVENTS_FILE "' (%s); the step answers "
			"all the same",
			strerror(-r));
}

DEFINE_CLEANUP(struct events *, events_close);

static struct events *events_new(const struct log *log)
{
	_cleanup_(events_close_p) struct events *ev = calloc(1, sizeof(*ev));

	if (!ev)
		return NULL;
	ev->log = log;
	ev->mark_every = 64;
	ev->file_fd = ev->memory_fd = -1;
	ev->collected = malloc(COLLECT_MAX + EVENT_LINE_MAX);
	return ev->collected ? take_ptr(ev) : NULL;
}

int events_open(int dir_fd, bool inherit_it, const struct log *log, struct events **ret_events,
	struct err *err)
{
	_cleanup_(events_close_p) struct events *ev = events_new(log);
	int r;

	if (!ev)
		return err_set(err, -ENOMEM, "record the step's events");
	ev->file_fd = r = open_file(dir_fd, inherit_it);
	if (r >= 0 && inherit_it)
		r = inherit(ev);
	if (r < 0)
		return err_set(err, r, "open '" EVENTS_FILE "' in the step's directory");
	*ret_events = take_ptr(ev);
	return 0;
}

void events_reserve(struct events *ev, size_t tasks)
{
	size_t size = RESERVE_STEP_SIZE + tasks * RESERVE_TASK_SIZE;

	/* On a full disk the rest goes to memory. */
	(void)!fallocate(ev->file_fd, FALLOC_FL_KEEP_SIZE, ev->end,
		(off_t)(size < RESERVE_MAX ? size : RESERVE_MAX));
}

/* To be called outside events_begin(), so that no line is still collected. */
void events_save(const struct events *ev, struct handover *h, json_t *object)
{
	json_t *marks = handover_put_array(h, object, "marks");
	size_t i;

	assert(ev->collected_size == 0);
	handover_put_fd(h, object, "file_fd", ev->file_fd);
	handover_put_fd(h, object, "memory_fd", ev->memory_fd);
	handover_put_int(h, object, "file_end", ev->file_end);
	handover_put_int(h, object, "memory_begin", ev->memory_begin);
	handover_put_int(h, object, "end", ev->end);
	handover_put_int(h, object, "last", (int64_t)ev->last);
	handover_put_int(h, object, "memory_first", (int64_t)ev->memory_first);
	handover_put_int(h, object, "mark_every", (int64_t)ev->mark_every);
	for (i = 0; i < ev->marks_count; i++) {
		handover_append_int(h, marks, (int64_t)ev->marks[i].sequence);
		handover_append_int(h, marks, ev->marks[i].offset);
	}
}

static int events_restore_fields(struct events *ev, const json_t *object)
{
	const json_t *marks = json_get_array(object, "marks");
	size_t i;

	ev->file_fd = handover_get_fd(object, "file_fd");
	ev->memory_fd = handover_get_fd(object, "memory_fd");
	ev->file_end = json_get_int(object, "file_end", 0);
	ev->memory_begin = json_get_int(object, "memory_begin", 0);
	ev->end = json_get_int(object, "end", -1);
	ev->last = (uint64_t)json_get_int(object, "last", 0);
	ev->memory_first = (uint64_t)json_get_int(object, "memory_first", 0);
	ev->mark_every = (uint64_t)json_get_int(object, "mark_every", 64);
	for (i = 0; i + 1 < json_array_size(marks) && ev->marks_count < MARKS_MAX; i += 2)
		ev->marks[ev->marks_count++] = (struct mark){
			.sequence = (uint64_t)json_integer_value(json_array_get(marks, i)),
			.offset = json_integer_value(json_array_get(marks, i + 1)),
		};
	return ev->file_fd < 0 || ev->end < ev->file_end ? -EPROTO : 0;
}

int events_restore(
	const json_t *object, const struct log *log, struct events **ret_events, struct err *err)
{
	_cleanup_(events_close_p) struct events *ev = events_new(log);

	if (!ev)
		return err_set(err, -ENOMEM, "record the step's events");
	if (events_restore_fields(ev, object) < 0)
		return handover_err_part("events", err);
	*ret_events = take_ptr(ev);
	return 0;
}

struct events *events_close(struct events *ev)
{
	if (!ev)
		return NULL;
	ev->listener = NULL;
	write_collected(ev);
	(void)close_fd(ev->file_fd);
	(void)close_fd(ev->memory_fd);
	free(ev->collected);
	free(ev);
	return NULL;
}

/* ---- what has become of the tasks ---------------------------------------------------------- */

/* More than a writer's own bound. */
#define HISTORY_SIZE_MAX (256u << 20)

static bool is(const json_t *doc, const char *name, const char *value)
{
	return strcmp(json_get_text(doc, name, ""), value) == 0;
}

/* Whether doc is the end of a task. */
static bool get_end(const json_t *doc, struct history_end *end)
{
	if (!is(doc, "kind", "task_exit") || json_get_int(doc, "rank", -1) < 0)
		return false;
	*end = (struct history_end){.rank = (uint32_t)json_get_int(doc, "rank", 0),
		.lost = !json_is_integer(json_object_get(doc, "wait_status")),
		.wait_status = (int)json_get_int(doc, "wait_status", 0),
		.exit_code = (int)json_get_int(doc, "exit_code", 0),
		/* of a failed spawn, while the step continued */
		.on_request = strstr(json_get_text(doc, "text", ""), "on request"),
		.time_usec = (uint64_t)json_get_int(doc, "time_usec", 0)};
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
