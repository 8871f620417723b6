/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "stepd/base/err.h"
#include "stepd/record/events.h"
#include "tests/lib/scratch.h"

#define BUF_SIZE 65536

struct rig {
	char *dir;
	int dir_fd;
	int warnings;
	struct log log;
	struct events *ev;
	int told; /* by the listener */
};

static int count_warning(const struct log *log, enum log_level level, const char *text)
{
	struct rig *rig = (struct rig *)((const char *)log - offsetof(struct rig, log));

	assert_true(level == LOG_LEVEL_WARNING && text[0]);
	rig->warnings++;
	return 0;
}

static void rig_reopen(struct rig *rig, bool inherit)
{
	struct err err = ERR_INIT;

	rig->ev = events_close(rig->ev);
	if (events_open(rig->dir_fd, inherit, &rig->log, &rig->ev, &err) < 0)
		fail_msg("%s", err.text);
}

static void rig_open(struct rig *rig)
{
	*rig = (struct rig){
		.dir = scratch_make(),
		.log = {.send = count_warning, .fd = -1, .most = LOG_LEVEL_WARNING},
	};
	rig->dir_fd = open(rig->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(rig->dir_fd >= 0);
	rig_reopen(rig, false);
}

static void rig_close(struct rig *rig)
{
	rig->ev = events_close(rig->ev);
	(void)close(rig->dir_fd);
	scratch_remove(rig->dir);
	free(rig->dir);
}

static void add_signal(struct rig *rig, const char *text)
{
	struct event event = EVENT_INIT(EVENT_SIGNAL);

	event.text = text;
	events_add(rig->ev, &event);
}

static void add_many(struct rig *rig, unsigned n)
{
	struct event event = EVENT_INIT(EVENT_TASK_START);

	for (; n > 0; n--) {
		event.rank = n;
		event.pid = 100000;
		events_add(rig->ev, &event);
	}
}

/* Reads all from the cursor on: how many; each is JSON with the number that follows. */
static unsigned read_all(struct rig *rig, struct events_cursor *cursor, uint64_t next)
{
	char *buf = malloc(BUF_SIZE);
	const char *line, *end;
	unsigned n = 0;
	ssize_t size;
	json_t *doc;

	assert_non_null(buf);
	while ((size = events_read(rig->ev, cursor, buf, BUF_SIZE)) > 0) {
		for (line = buf; line < buf + size; line = end + 1) {
			end = memchr(line, '\n', (size_t)(buf + size - line));
			assert_non_null(end);
			doc = json_loadb(line, (size_t)(end - line), 0, NULL);
			assert_non_null(doc);
			assert_int_equal(
				json_integer_value(json_object_get(doc, "sequence")), next + n++);
			json_decref(doc);
		}
	}
	assert_int_equal(size, 0);
	free(buf);
	return n;
}

static struct events_cursor seek(struct rig *rig, uint64_t from)
{
	struct events_cursor cursor;

	assert_int_equal(events_seek(rig->ev, from, &cursor), 0);
	return cursor;
}

static off_t file_size(const struct rig *rig)
{
	struct stat st;

	assert_int_equal(fstatat(rig->dir_fd, "events.jsonl", &st, 0), 0);
	return st.st_size;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void test_a_line_has_what_is_told(_unused_ void **state)
{
	struct event event = EVENT_INIT(EVENT_TASK_EXIT);
	char line[EVENT_LINE_MAX];
	json_t *doc;
	size_t size;

	event.rank = 0;
	event.pid = 71;
	event.wait_status = 0;
	event.exit_code = 0;
	event.text = "a \"quoted\" \\ text\nin \x1b[1m and \xc3\xa4 and \xff and \xed\xa0\x80";
	size = event_format(&event, 12, line);
	assert_int_equal(line[size - 1], '\n');
	assert_int_equal(event_get_sequence(line, size), 12);
	doc = json_loadb(line, size, 0, NULL);
	assert_non_null(doc);
	assert_string_equal(json_string_value(json_object_get(doc, "kind")), "task_exit");
	assert_int_equal(json_integer_value(json_object_get(doc, "rank")), 0);
	assert_int_equal(json_integer_value(json_object_get(doc, "exit_code")), 0);
	assert_null(json_object_get(doc, "count"));
	assert_null(json_object_get(doc, "state"));
	assert_true(json_integer_value(json_object_get(doc, "time_usec")) > 0);
	assert_string_equal(json_string_value(json_object_get(doc, "text")),
		"a \"quoted\" \\ text\nin \x1b[1m and \xc3\xa4 and ? and ???");
	json_decref(doc);
}

static void test_a_long_text_is_cut(_unused_ void **state)
{
	struct event event = EVENT_INIT(EVENT_NOTIFY);
	char text[4 * EVENT_LINE_MAX], line[EVENT_LINE_MAX];
	json_t *doc;
	size_t size;

	memset(text, 1, sizeof(text)); /* six bytes each */
	text[sizeof(text) - 1] = '\0';
	event.text = text;
	size = event_format(&event, UINT32_MAX, line);
	assert_true(size < sizeof(line));
	doc = json_loadb(line, size, 0, NULL);
	assert_non_null(doc);
	json_decref(doc);
}

static void test_what_is_no_line(_unused_ void **state)
{
	static const char *const texts[] = {"", "{", "{\"sequence\":", "{\"sequence\":12",
		"{\"sequence\":,", "{\"sequence\":12}", "{\"sequenze\":12,",
		"{\"sequence\":1234567890123456789012345,"};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(texts); i++)
		assert_int_equal(event_get_sequence(texts[i], strlen(texts[i])), 0);
	assert_int_equal(event_get_sequence("{\"sequence\":12,", 15), 12);
}

static void test_every_kind_has_a_word(_unused_ void **state)
{
	int i;

	for (i = 0; i < EVENT_KIND_MAX; i++)
		assert_non_null(event_kind_names[i]);
}

/* ---- the file -------------------------------------------------------------------------------- */

static void test_replay_from_any_event(_unused_ void **state)
{
	struct events_cursor cursor;
	struct rig rig;
	uint64_t from;

	rig_open(&rig);
	assert_int_equal(events_last(rig.ev), 0);
	cursor = seek(&rig, 0);
	add_many(&rig, 70000); /* marks are thinned out more than once */
	assert_int_equal(events_last(rig.ev), 70000);
	assert_int_equal(read_all(&rig, &cursor, 1), 70000);
	for (from = 1; from <= 70000; from += from < 300 ? 1 : 977) {
		cursor = seek(&rig, from);
		assert_int_equal(cursor.next, from);
		assert_int_equal(cursor.lost, 0);
	}
	cursor = seek(&rig, 69990);
	assert_int_equal(read_all(&rig, &cursor, 69990), 11);
	cursor = seek(&rig, 70000);
	assert_int_equal(read_all(&rig, &cursor, 70000), 1);
	cursor = seek(&rig, 70001); /* what is still to come, and beyond */
	assert_int_equal(read_all(&rig, &cursor, 0), 0);
	cursor = seek(&rig, 80000);
	add_signal(&rig, "TERM");
	assert_int_equal(read_all(&rig, &cursor, 70001), 1);
	assert_int_equal(rig.warnings, 0);
	rig_close(&rig);
}

static void count(void *userdata)
{
	(*(int *)userdata)++;
}

static void test_collected_lines_are_one_write(_unused_ void **state)
{
	struct events_cursor cursor;
	struct rig rig;

	rig_open(&rig);
	events_set_listener(rig.ev, count, &rig.told);
	events_begin(rig.ev);
	events_begin(rig.ev);
	add_many(&rig, 200);
	events_end(rig.ev);
	assert_int_equal(file_size(&rig), 0);
	events_end(rig.ev);
	assert_int_equal(rig.told, 1);
	assert_true(file_size(&rig) > 0);
	events_begin(rig.ev);
	add_many(&rig, 2000); /* more than is collected */
	assert_true(rig.told > 1);
	cursor = seek(&rig, 1); /* who asks finds all that was added */
	assert_int_equal(read_all(&rig, &cursor, 1), 2200);
	events_end(rig.ev);
	events_set_listener(rig.ev, NULL, NULL);
	add_signal(&rig, NULL);
	rig_close(&rig);
}

static void test_an_heir_goes_on(_unused_ void **state)
{
	struct events_cursor cursor;
	struct rig rig;

	rig_open(&rig);
	add_many(&rig, 1000);
	rig_reopen(&rig, true);
	assert_int_equal(events_last(rig.ev), 1000);
	add_signal(&rig, "KILL");
	cursor = seek(&rig, 999);
	assert_int_equal(read_all(&rig, &cursor, 999), 3);
	rig_reopen(&rig, false); /* another step */
	assert_int_equal(events_last(rig.ev), 0);
	assert_int_equal(file_size(&rig), 0);
	rig_close(&rig);
}

static void append(struct rig *rig, const char *text)
{
	int fd = openat(rig->dir_fd, "events.jsonl", O_WRONLY | O_APPEND | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	(void)close(fd);
}

static void test_a_torn_end_is_cut(_unused_ void **state)
{
	static const char *const ends[] = {"{\"sequence\":11,\"time_us", "{", "no line\n",
		"{\"sequence\":4,\"time_usec\":1}\n", "{\"sequence\":11,\"time_usec\":1}"};
	struct events_cursor cursor;
	struct rig rig;
	off_t size;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ends); i++) {
		rig_open(&rig);
		add_many(&rig, 10);
		size = file_size(&rig);
		append(&rig, ends[i]);
		rig_reopen(&rig, true);
		assert_int_equal(file_size(&rig), size);
		assert_int_equal(events_last(rig.ev), 10);
		add_signal(&rig, "TERM");
		cursor = seek(&rig, 1);
		assert_int_equal(read_all(&rig, &cursor, 1), 11);
		rig_close(&rig);
	}
}

static void test_an_heir_without_a_file(_unused_ void **state)
{
	struct rig rig;

	rig_open(&rig);
	assert_int_equal(unlinkat(rig.dir_fd, "events.jsonl", 0), 0);
	rig_reopen(&rig, true);
	add_signal(&rig, "TERM");
	assert_int_equal(events_last(rig.ev), 1);
	rig_close(&rig);
}

/* What an agent lost that had gone over to memory, and died. */
static void test_a_gap_is_counted(_unused_ void **state)
{
	struct events_cursor cursor;
	char buf[BUF_SIZE];
	struct rig rig;

	rig_open(&rig);
	add_many(&rig, 5);
	append(&rig, "{\"sequence\":9,\"time_usec\":1,\"kind\":\"add\"}\n");
	rig_reopen(&rig, true);
	assert_int_equal(events_last(rig.ev), 9);
	cursor = seek(&rig, 7);
	assert_int_equal(cursor.next, 9);
	assert_int_equal(cursor.lost, 2);
	cursor = seek(&rig, 1);
	assert_true(events_read(rig.ev, &cursor, buf, sizeof(buf)) > 0);
	assert_int_equal(cursor.next, 10);
	rig_close(&rig);
}

/* ---- a full disk ----------------------------------------------------------------------------- */

static void limit_files(rlim_t bytes)
{
	const struct rlimit limit = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};

	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* How many are read, with those that are told to be lost. */
static uint64_t count_all(struct rig *rig, struct events_cursor *cursor, uint64_t *ret_lost)
{
	uint64_t read = 0, next;
	char *buf = malloc(BUF_SIZE);
	const char *line;
	ssize_t size;

	assert_non_null(buf);
	next = cursor->next;
	while ((size = events_read(rig->ev, cursor, buf, BUF_SIZE)) > 0) {
		for (line = buf; line < buf + size;
			line = (const char *)memchr(line, '\n', (size_t)(buf + size - line)) + 1) {
			assert_true(event_get_sequence(line, (size_t)(buf + size - line)) >= next);
			next = event_get_sequence(line, (size_t)(buf + size - line)) + 1;
			read++;
		}
	}
	assert_int_equal(size, 0);
	free(buf);
	*ret_lost = cursor->lost;
	return read + cursor->lost;
}

static void test_memory_takes_the_place_of_a_full_disk(_unused_ void **state)
{
	struct events_cursor behind, all;
	uint64_t lost;
	struct rig rig;
	off_t size;

	rig_open(&rig);
	add_many(&rig, 10);
	size = file_size(&rig);
	behind = seek(&rig, 0);
	limit_files((rlim_t)size + 20);
	add_signal(&rig, "USR1");
	limit_files(RLIM_INFINITY);
	assert_int_equal(rig.warnings, 1);
	assert_int_equal(file_size(&rig), size); /* no half line is left */
	add_many(&rig, 10);
	assert_int_equal(read_all(&rig, &behind, 11), 11);
	all = seek(&rig, 1);
	assert_int_equal(read_all(&rig, &all, 1), 21);
	all = seek(&rig, 1);
	behind = seek(&rig, 15);
	add_many(&rig, 100000); /* more than it keeps */
	assert_int_equal(count_all(&rig, &all, &lost), 100021);
	assert_true(lost > 0);
	assert_int_equal(count_all(&rig, &behind, &lost), 100021 - 14);
	assert_true(lost > 0);
	all = seek(&rig, 12);
	assert_true(all.lost > 0 && all.next == 12 + all.lost);
	rig_reopen(&rig, true);
	assert_int_equal(events_last(rig.ev), 10); /* all that a dead agent leaves */
	assert_int_equal(rig.warnings, 1);
	rig_close(&rig);
}

static void test_no_memory_either(_unused_ void **state)
{
	struct events_cursor behind;
	uint64_t lost;
	struct rig rig;

	rig_open(&rig);
	behind = seek(&rig, 1);
	limit_files(10);
	add_many(&rig, 10);
	limit_files(RLIM_INFINITY);
	add_many(&rig, 2);
	assert_int_equal(rig.warnings, 1);
	assert_int_equal(events_last(rig.ev), 12);
	assert_int_equal(count_all(&rig, &behind, &lost), 12);
	assert_int_equal(lost, 10);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_line_has_what_is_told),
		cmocka_unit_test(test_a_long_text_is_cut),
		cmocka_unit_test(test_what_is_no_line),
		cmocka_unit_test(test_every_kind_has_a_word),
		cmocka_unit_test(test_replay_from_any_event),
		cmocka_unit_test(test_collected_lines_are_one_write),
		cmocka_unit_test(test_an_heir_goes_on),
		cmocka_unit_test(test_a_torn_end_is_cut),
		cmocka_unit_test(test_an_heir_without_a_file),
		cmocka_unit_test(test_a_gap_is_counted),
		cmocka_unit_test(test_memory_takes_the_place_of_a_full_disk),
		cmocka_unit_test(test_no_memory_either),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
