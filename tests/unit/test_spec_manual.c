/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepd-spec(5) and the tables of the spec's fields say the same: each table has a section, each
 * field an entry in it, in the table's order, with its range, its words and the kinds of step that
 * may have it. Reads $top_srcdir/doc/stepd-spec.5.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>

#include "stepd/base/fs.h"
#include "stepd/spec/spec_json.h"

#define MANUAL_SIZE_MAX (1u << 20)
#define ENTRY           "\n.It Cm "

static const char *const headings[SPEC_TABLE_MAX] = {
	[SPEC_TABLE_STEP] = "THE DOCUMENT",
	[SPEC_TABLE_NODE] = "NODE",
	[SPEC_TABLE_TASK] = "ENTRY OF TASKS",
	[SPEC_TABLE_STREAM] = "STREAM",
	[SPEC_TABLE_RLIMIT] = "LIMIT",
	[SPEC_TABLE_KILL] = "ENTRY OF KILL_SEQUENCE",
	[SPEC_TABLE_PMI] = "PMI",
	[SPEC_TABLE_WIRE] = "WIRE",
	[SPEC_TABLE_LIMITS] = "LIMITS OF USE",
	[SPEC_TABLE_IO] = "ENTRY OF IO_MAX",
	[SPEC_TABLE_DEVICE] = "ENTRY OF DEVICES",
};

/* The manual's text; the caller frees it. */
static void read_manual(char **ret_text)
{
	const char *top = getenv("top_srcdir");
	_cleanup_free_ char *path = NULL;
	size_t size;

	if (!top)
		fail_msg("top_srcdir is not set");
	assert_true(asprintf(&path, "%s/doc/stepd-spec.5", top) > 0);
	if (fs_read(AT_FDCWD, path, MANUAL_SIZE_MAX, ret_text, &size) < 0)
		fail_msg("%s can't be read", path);
}

/* The text of the section with that heading; the caller frees it. */
static char *get_section(const char *manual, const char *heading)
{
	_cleanup_free_ char *line = NULL;
	const char *begin, *end;
	char *section;

	assert_true(asprintf(&line, "\n.Sh %s\n", heading) > 0);
	begin = strstr(manual, line);
	if (!begin)
		fail_msg("there is no section %s", heading);
	begin += strlen(line) - 1;
	end = strstr(begin, "\n.Sh ");
	section = strndup(begin, end ? (size_t)(end - begin) : strlen(begin));
	assert_non_null(section);
	return section;
}

/* An entry: its .It line from the name on, and what stands below. */
struct entry {
	char *name;
	char *rest; /* of the line: "Pq number , 1 to 2 ; normal" */
	char *body;
};

static void entry_clear(struct entry *e)
{
	free(e->name);
	free(e->rest);
	free(e->body);
}

/* Reads the entry that *at, of the section, leads to, and moves on. False: there is none. */
static bool next_entry(const char **at, struct entry *ret_entry)
{
	const char *begin = strstr(*at, ENTRY), *name_end, *line_end, *end;

	if (!begin)
		return false;
	begin += strlen(ENTRY);
	name_end = begin + strcspn(begin, " \n");
	line_end = name_end + strcspn(name_end, "\n");
	end = strstr(line_end, ENTRY);
	if (!end)
		end = line_end + strlen(line_end);
	ret_entry->name = strndup(begin, (size_t)(name_end - begin));
	ret_entry->rest = strndup(name_end, (size_t)(line_end - name_end));
	ret_entry->body = strndup(line_end, (size_t)(end - line_end));
	assert_true(ret_entry->name && ret_entry->rest && ret_entry->body);
	*at = end;
	return true;
}

/* Whether text holds words, with no letter or digit before or behind. */
static bool has_words(const char *text, const char *words)
{
	static const char part[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
	size_t len = strlen(words);
	const char *p;

	for (p = text; (p = strstr(p, words)); p++) {
		if ((p == text || !strchr(part, p[-1])) && (!p[len] || !strchr(part, p[len])))
			return true;
	}
	return false;
}

static void want(const struct entry *e, const char *text, const char *words, bool wanted)
{
	if (has_words(text, words) != wanted)
		fail_msg("the entry of %s %s '%s': .It Cm %s%s", e->name,
			wanted ? "lacks" : "must not say", words, e->name, e->rest);
}

static bool is_number(const struct spec_field *f)
{
	return f->parse == spec_row_u32 || f->parse == spec_row_u64 || f->parse == spec_row_int ||
		f->parse == spec_row_task_rank || f->parse == spec_row_limit_size ||
		f->parse == spec_row_limit_count || f->parse == spec_row_limit_weight ||
		f->parse == spec_row_limit_rate || f->parse == spec_row_limit_ops;
}

static void check_value(const struct spec_field *f, const struct entry *e)
{
	char words[96];
	size_t i;

	if (is_number(f)) {
		(void)snprintf(words, sizeof(words), "number , %lld to %lld", (long long)f->least,
			(long long)f->most);
		want(e, e->rest, words, true);
	}
	if (f->parse == spec_row_text && f->most) {
		(void)snprintf(words, sizeof(words), "at most %lld", (long long)f->most);
		want(e, e->body, words, true);
	}
	for (i = 0; f->choices && f->choices[i]; i++)
		want(e, e->rest, f->choices[i], true);
	want(e, e->body, "Must be given.", f->required);
}

/* The line "Modes: none, inherit." of a stream. */
static void check_modes(const struct spec_field *f, const struct entry *e)
{
	const struct spec_field *fields;
	const char *line = strstr(e->body, "\nModes: ");
	_cleanup_free_ char *modes = NULL;
	size_t n, i;

	if (!f->modes)
		return;
	if (!line)
		fail_msg("the entry of %s lacks its line of modes", e->name);
	modes = strndup(line + 1, strcspn(line + 1, "\n"));
	assert_non_null(modes);
	fields = spec_table_get(SPEC_TABLE_STREAM, &n);
	assert_string_equal(fields[0].name, "mode");
	for (i = 0; fields[0].choices[i]; i++)
		want(e, modes, fields[0].choices[i], f->modes & 1u << i);
}

static void check_kinds(const struct spec_field *f, const struct entry *e)
{
	const char *kinds = strchr(e->rest, ';');
	int kind;

	if (f->kinds == SPEC_KINDS_ALL) {
		if (kinds)
			fail_msg("every kind may have %s, but its entry names some", e->name);
		return;
	}
	if (!kinds)
		fail_msg("the entry of %s lacks the kinds that may have it", e->name);
	for (kind = 0; kind < STEPD_STEP_KIND_MAX; kind++)
		want(e, kinds, spec_kind_name((enum stepd_step_kind)kind), f->kinds & 1u << kind);
}

static void check_table(enum spec_table table)
{
	_cleanup_free_ char *manual = NULL;
	_cleanup_free_ char *section = NULL;
	const struct spec_field *fields;
	const char *at;
	size_t n, i;

	read_manual(&manual);
	at = section = get_section(manual, headings[table]);
	fields = spec_table_get(table, &n);
	for (i = 0; i < n; i++) {
		_cleanup_(entry_clear) struct entry e = {0};

		if (!next_entry(&at, &e))
			fail_msg("%s: there is no entry of %s", headings[table], fields[i].name);
		if (strcmp(e.name, fields[i].name) != 0)
			fail_msg("%s: entry %zu is of %s, not of %s", headings[table], i + 1,
				e.name, fields[i].name);
		check_value(&fields[i], &e);
		check_modes(&fields[i], &e);
		check_kinds(&fields[i], &e);
	}
	if (strstr(at, ENTRY))
		fail_msg("%s: there are more entries than fields:%s", headings[table], at);
}

static void test_document(void **state)
{
	(void)state;
	check_table(SPEC_TABLE_STEP);
}

static void test_node(void **state)
{
	(void)state;
	check_table(SPEC_TABLE_NODE);
}

static void test_tasks(void **state)
{
	(void)state;
	check_table(SPEC_TABLE_TASK);
}

static void test_stream(void **state)
{
	(void)state;
	check_table(SPEC_TABLE_STREAM);
}

static void test_limit(void **state)
{
	(void)state;
	check_table(SPEC_TABLE_RLIMIT);
}

static void test_kill_sequence(void **state)
{
	(void)state;
	check_table(SPEC_TABLE_KILL);
}

static void test_pmi(void **state)
{
	(void)state;
	check_table(SPEC_TABLE_PMI);
}

static void test_wire(void **state)
{
	(void)state;
	check_table(SPEC_TABLE_WIRE);
}

static void test_limits(void **state)
{
	(void)state;
	check_table(SPEC_TABLE_LIMITS);
}

static void test_io_max(void **state)
{
	(void)state;
	check_table(SPEC_TABLE_IO);
}

static void test_devices(void **state)
{
	(void)state;
	check_table(SPEC_TABLE_DEVICE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_document),
		cmocka_unit_test(test_node),
		cmocka_unit_test(test_tasks),
		cmocka_unit_test(test_stream),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_kill_sequence),
		cmocka_unit_test(test_pmi),
		cmocka_unit_test(test_wire),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_io_max),
		cmocka_unit_test(test_devices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
