/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of operations and io.stepd.Step.varlink are twins: names, parameters, who may call and
 * how often one answers stand in both. Here is a reader of the file that knows as much of Varlink's
 * grammar as the file uses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "stepd/base/cleanup.h"
#include "stepd/control/control.h"
#include "stepd/operations/operations.h"

#define METHODS_MAX 64

/* A method of the file. */
struct declared {
	char name[64];
	char comment[1024]; /* its lines, without "# ", a blank between them */
	struct {
		char name[64];
		char type[32];
	} parameters[OP_PARAMETERS_MAX + 1];
	size_t count;
};

struct declared_all {
	struct declared v[METHODS_MAX];
	size_t n;
};

static const char *const type_names[OP_TYPE_MAX] = {
	[OP_BOOL] = "bool",
	[OP_INT] = "int",
	[OP_STRING] = "string",
	[OP_OBJECT] = "object",
	[OP_INT_ARRAY] = "[]int",
};

static const char *skip_blanks(const char *p)
{
	return p + strspn(p, " \t\n");
}

static const char *read_word(const char *p, const char *letters, char *word, size_t size)
{
	size_t n;

	p = skip_blanks(p);
	n = strspn(p, letters);
	if (n == 0 || n >= size)
		fail_msg("no word: '%.40s'", p);
	memcpy(word, p, n);
	word[n] = '\0';
	return skip_blanks(p + n);
}

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"

/* "Name(a: int, b: ?string) -> (" */
static void read_method(const char *p, struct declared *d)
{
	p = read_word(p, NAME_LETTERS, d->name, sizeof(d->name));
	assert_int_equal(*p, '(');
	p = skip_blanks(p + 1);
	while (*p != ')') {
		assert_true(d->count < OP_PARAMETERS_MAX);
		p = read_word(p, NAME_LETTERS, d->parameters[d->count].name,
			sizeof(d->parameters[0].name));
		assert_int_equal(*p, ':');
		p = read_word(p + 1, NAME_LETTERS "[]?", d->parameters[d->count].type,
			sizeof(d->parameters[0].type));
		d->count++;
		if (*p == ',')
			p = skip_blanks(p + 1);
	}
	p = skip_blanks(p + 1);
	assert_memory_equal(p, "->", 2);
}

static void add_comment(struct declared *d, const char *line, size_t size)
{
	size_t at = strlen(d->comment);

	line += size > 1 ? 2 : 1;
	size -= size > 1 ? 2 : 1;
	assert_true(at + size + 2 < sizeof(d->comment));
	(void)snprintf(
		d->comment + at, sizeof(d->comment) - at, "%s%.*s", at ? " " : "", (int)size, line);
}

static struct declared_all *read_interface(void)
{
	struct declared_all *all = calloc(1, sizeof(*all));
	struct declared next = {0};
	const char *line, *end;

	assert_non_null(all);
	for (line = control_interface_text; *line; line = end + 1) {
		end = strchr(line, '\n');
		assert_non_null(end);
		if (*line == '#') {
			add_comment(&next, line, (size_t)(end - line));
			continue;
		}
		if (strncmp(line, "method ", 7) == 0) {
			assert_true(all->n < METHODS_MAX);
			read_method(line + 7, &next);
			all->v[all->n++] = next;
		}
		next = (struct declared){0};
	}
	return all;
}

static const struct operation *find_row(const char *name)
{
	const struct operation *table;
	size_t n, i;

	table = operations_get_table(&n);
	for (i = 0; i < n; i++) {
		if (strcmp(table[i].name, name) == 0)
			return &table[i];
	}
	return NULL;
}

static void test_each_method_has_a_row(_unused_ void **state)
{
	_cleanup_free_ struct declared_all *all = read_interface();
	size_t i, n;

	for (i = 0; i < all->n; i++) {
		if (!find_row(all->v[i].name))
			fail_msg("%s has no row", all->v[i].name);
	}
	(void)operations_get_table(&n);
	for (i = 0; i < all->n; i++)
		n -= find_row(all->v[i].name) != NULL;
	assert_int_equal(n, 0); /* and no row is without its method */
}

static void check_parameters(const struct declared *d, const struct operation *row)
{
	const struct op_parameter *p;
	const char *type;
	size_t i;

	for (i = 0; i < d->count; i++) {
		p = &row->parameters[i];
		type = d->parameters[i].type;
		if (!p->name || strcmp(p->name, d->parameters[i].name) != 0)
			fail_msg("%s: parameter %zu is '%s' in the file", d->name, i,
				d->parameters[i].name);
		if (p->optional != (type[0] == '?'))
			fail_msg("%s.%s: optional in one only", d->name, p->name);
		if (strcmp(type + (type[0] == '?'), type_names[p->type]) != 0)
			fail_msg("%s.%s: %s in the file", d->name, p->name, type);
	}
	if (row->parameters[d->count].name)
		fail_msg("%s.%s is not in the file", d->name, row->parameters[d->count].name);
}

static void test_parameters_are_the_same(_unused_ void **state)
{
	_cleanup_free_ struct declared_all *all = read_interface();
	const struct operation *row;
	size_t i;

	for (i = 0; i < all->n; i++) {
		row = find_row(all->v[i].name);
		if (row)
			check_parameters(&all->v[i], row);
	}
}

static enum op_access declared_access(const struct declared *d)
{
	static const struct {
		const char *word;
		enum op_access access;
	} words[] = {{"ask", OP_ACCESS_READ}, {"owner", OP_ACCESS_OWNER}};
	size_t i, n;

	for (i = 0; i < ARRAY_SIZE(words); i++) {
		n = strlen(words[i].word);
		if (strncmp(d->comment, words[i].word, n) == 0 &&
			(d->comment[n] == ':' || d->comment[n] == ','))
			return words[i].access;
	}
	return OP_ACCESS_AGENT;
}

static void test_who_may_is_the_same(_unused_ void **state)
{
	_cleanup_free_ struct declared_all *all = read_interface();
	const struct operation *row;
	size_t i;

	for (i = 0; i < all->n; i++) {
		row = find_row(all->v[i].name);
		if (row && row->access != declared_access(&all->v[i]))
			fail_msg("%s: '%.20s...' in the file", row->name, all->v[i].comment);
	}
}

static unsigned declared_flags(const struct declared *d)
{
	unsigned flags = 0;

	if (strstr(d->comment, "ith more"))
		flags |= OP_MORE;
	if (strstr(d->comment, "with more only"))
		flags |= OP_MORE_ONLY;
	if (strstr(d->comment, "with upgrade"))
		flags |= OP_UPGRADE;
	/* What changes the step is none of "ask", and nobody follows it. */
	if (declared_access(d) != OP_ACCESS_READ && !(flags & OP_MORE))
		flags |= OP_WHEN_READY;
	return flags;
}

static void test_flags_are_the_same(_unused_ void **state)
{
	_cleanup_free_ struct declared_all *all = read_interface();
	const struct operation *row;
	size_t i;

	for (i = 0; i < all->n; i++) {
		row = find_row(all->v[i].name);
		if (row && row->flags != declared_flags(&all->v[i]))
			fail_msg("%s: %x in the table, %x in the file", row->name, row->flags,
				declared_flags(&all->v[i]));
	}
}

/* The reader itself: it finds what stands there. */
static void test_the_reader_reads(_unused_ void **state)
{
	_cleanup_free_ struct declared_all *all = read_interface();

	assert_true(all->n >= 15);
	assert_string_equal(all->v[0].name, "Describe");
	assert_int_equal(all->v[0].count, 0);
	assert_string_equal(all->v[1].name, "ListPids");
	assert_int_equal(all->v[1].count, 2);
	assert_string_equal(all->v[1].parameters[0].name, "ranks");
	assert_string_equal(all->v[1].parameters[0].type, "?string");
	assert_int_equal(declared_flags(&all->v[1]), OP_MORE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_reader_reads),
		cmocka_unit_test(test_each_method_has_a_row),
		cmocka_unit_test(test_parameters_are_the_same),
		cmocka_unit_test(test_who_may_is_the_same),
		cmocka_unit_test(test_flags_are_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
