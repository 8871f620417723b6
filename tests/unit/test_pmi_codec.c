/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages of PMI-1 and PMI-2: found in a stream, parsed and written.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "mpi/pmi/codec.h"

#define TEXT_MAX 8192u

static struct slice text(const char *s)
{
	return (struct slice){s, strlen(s)};
}

/* ---- frames ---------------------------------------------------------------------------------- */

static void a_line_is_found_in_a_stream(void **state)
{
	static char long_text[TEXT_MAX + 2];
	struct slice bytes = {long_text, TEXT_MAX};
	struct pmi_frame f = {0};

	(void)state;
	assert_int_equal(pmi_frame_find(PMI_1, text(""), TEXT_MAX, &f), -EAGAIN);
	assert_int_equal(pmi_frame_find(PMI_1, text("cmd=x"), TEXT_MAX, &f), -EAGAIN);
	assert_int_equal(pmi_frame_find(PMI_1, text("cmd=x\ncmd=y\n"), TEXT_MAX, &f), 0);
	assert_true(f.begin == 0 && f.size == 5 && f.total == 6);
	memset(long_text, 'x', sizeof(long_text));
	assert_int_equal(pmi_frame_find(PMI_1, bytes, TEXT_MAX, &f), -EAGAIN);
	bytes.size = TEXT_MAX + 1;
	assert_int_equal(pmi_frame_find(PMI_1, bytes, TEXT_MAX, &f), -EMSGSIZE);
	long_text[TEXT_MAX] = '\n';
	assert_int_equal(pmi_frame_find(PMI_1, bytes, TEXT_MAX, &f), 0);
	assert_int_equal(f.size, TEXT_MAX);
	long_text[TEXT_MAX] = 'x';
	long_text[TEXT_MAX + 1] = '\n';
	bytes.size = TEXT_MAX + 2;
	assert_int_equal(pmi_frame_find(PMI_1, bytes, TEXT_MAX, &f), -EMSGSIZE);
}

/* A wrong length is found before all of it is there, and one that is too long before its text is.
 */
static void a_message_with_its_length_is_found_in_a_stream(void **state)
{
	static const struct {
		const char *bytes;
		int r; /* or the size of the text */
	} cases[] = {
		{"6     cmd=a;", 6},
		{"6     cmd=a;6", 6},
		{"     6cmd=a;6", 6},
		{"  6   cmd=a;", 6},
		{"000006cmd=a;", 6},
		{"", -EAGAIN},
		{"12", -EAGAIN},
		{"  ", -EAGAIN},
		{"12 ", -EAGAIN},
		{"12    ", -EAGAIN},
		{"6     cmd=a", -EAGAIN},
		{"x", -EBADMSG},
		{"1 2", -EBADMSG},
		{"12x", -EBADMSG},
		{"1\n    ", -EBADMSG},
		{"0x10  ", -EBADMSG},
		{"12 4  ", -EBADMSG},
		{"      ", -EBADMSG},
		{"0     ", -EBADMSG},
		{"-12   ", -EBADMSG},
		{"+1    ", -EBADMSG},
		{"8193  ", -EMSGSIZE},
		{"999999", -EMSGSIZE},
	};
	struct pmi_frame f;
	size_t i;
	int r;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		r = pmi_frame_find(PMI_2, text(cases[i].bytes), TEXT_MAX, &f);
		if (r == 0) {
			assert_true(f.begin == PMI2_HEAD_SIZE && f.total == f.begin + f.size);
			r = (int)f.size;
		}
		if (r != cases[i].r)
			fail_msg("'%s': %d, not %d", cases[i].bytes, r, cases[i].r);
	}
	assert_int_equal(pmi_frame_find(PMI_2, text("999999"), PMI2_BODY_MAX, &f), -EAGAIN);
}

/* ---- fields ---------------------------------------------------------------------------------- */

static int parse(enum pmi_protocol protocol, char *body, struct pmi_message *m)
{
	return protocol == PMI_1 ? pmi1_parse(text(body), m) : pmi2_parse(body, strlen(body), m);
}

/* wanted: "key=value|..."; NULL: it is none. */
static void assert_message(enum pmi_protocol protocol, const char *body, const char *wanted)
{
	_cleanup_pmi_message_ struct pmi_message m = {0};
	_cleanup_free_ char *copy = strdup(body);
	_cleanup_bytes_ struct bytes all = {0};
	size_t i;

	assert_non_null(copy);
	if (!wanted) {
		if (parse(protocol, copy, &m) != -EBADMSG)
			fail_msg("'%s' is taken for a message", body);
		return;
	}
	assert_int_equal(parse(protocol, copy, &m), 0);
	for (i = 0; i < m.count; i++) {
		bytes_add_text(&all, i ? "|" : "");
		bytes_add(&all, m.fields[i].key.data, m.fields[i].key.size);
		bytes_add_text(&all, "=");
		bytes_add(&all, m.fields[i].value.data, m.fields[i].value.size);
	}
	if (!slice_is(slice_of(&all), wanted))
		fail_msg("'%s' is '%.*s'", body, (int)bytes_size(&all), buffer_bytes(&all.held));
}

static void messages_are_parsed_into_fields(void **state)
{
	(void)state;
	assert_message(PMI_1, "cmd=maxes kvsname_max=256", "cmd=maxes|kvsname_max=256");
	assert_message(PMI_1, "  cmd=x   a=  b=c ", "cmd=x|a=|b=c");
	assert_message(PMI_1, "cmd=get_result rc=0 value=a b=c  d ",
		"cmd=get_result|rc=0|value=a b=c  d ");
	assert_message(PMI_1, "cmd=put key=k value=a b c=d", "cmd=put|key=k|value=a b c=d");
	assert_message(PMI_1, "cmd=get  kvsname=a key=b=c", "cmd=get|kvsname=a|key=b=c");
	assert_message(PMI_1, "cmd=get value=a b", NULL);
	assert_message(PMI_1, "", NULL);
	assert_message(PMI_1, "   ", NULL);
	assert_message(PMI_1, "=a", NULL);
	assert_message(PMI_1, "cmd=x word", NULL);
	assert_message(PMI_1, "cmd=x =y", NULL);
	assert_message(PMI_2, "cmd=a;b=c;", "cmd=a|b=c");
	assert_message(PMI_2, "cmd=a;b=c d=e", "cmd=a|b=c d=e");
	assert_message(PMI_2, "cmd=a;b=x;;y;c=;;;", "cmd=a|b=x;y|c=;");
	assert_message(PMI_2, "", NULL);
	assert_message(PMI_2, "cmd", NULL);
	assert_message(PMI_2, "cmd=x;word;", NULL);
	assert_message(PMI_2, ";cmd=x;", NULL);
}

static void escaped_semicolons_are_restored(void **state)
{
	static const struct {
		const char *body, *value;
	} cases[] = {
		{"cmd=x;v=a;", "a"},
		{"cmd=x;v=a", "a"},
		{"cmd=x;v=;", ""},
		{"cmd=x;v=;w=1;", ""},
		{"cmd=x;v=a;;b;w=1;", "a;b"},
		{"cmd=x;v=;;;w=1;", ";"},
		{"cmd=x;v=;;;;;w=1;", ";;"},
		{"cmd=x;v=a=b;w=1;", "a=b"},
		{"cmd=x;v=a b\n;w=1;", "a b\n"},
	};
	_cleanup_pmi_message_ struct pmi_message m = {0};
	struct pmi_writer w;
	struct slice value;
	char body[64];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bytes_ struct bytes again = {0};

		(void)snprintf(body, sizeof(body), "%s", cases[i].body);
		assert_int_equal(pmi2_parse(body, strlen(body), &m), 0);
		assert_true(pmi_message_get(&m, "v", &value));
		if (!slice_is(value, cases[i].value))
			fail_msg("'%s'", cases[i].body);
		pmi_write_begin(&w, &again, PMI_2);
		pmi_write_field(&w, "v", value);
		assert_int_equal(pmi_write_end(&w), 0);
		assert_int_equal(bytes_size(&again),
			PMI2_HEAD_SIZE + strlen("v=;") + pmi2_escaped_size(value));
	}
}

static void numbers_are_parsed_whole_and_within_bounds(void **state)
{
	_cleanup_pmi_message_ struct pmi_message m = {0};
	int64_t n;

	(void)state;
	assert_int_equal(pmi1_parse(text("cmd=x n=-5 big=99999999999999999999 bad=5x no="), &m), 0);
	assert_int_equal(pmi_message_get_int(&m, "n", -5, 5, &n), 0);
	assert_int_equal(n, -5);
	assert_int_equal(pmi_message_get_int(&m, "n", 0, 5, &n), -EINVAL);
	assert_int_equal(pmi_message_get_int(&m, "big", 0, INT64_MAX, &n), -EINVAL);
	assert_int_equal(pmi_message_get_int(&m, "bad", 0, 9, &n), -EINVAL);
	assert_int_equal(pmi_message_get_int(&m, "no", 0, 9, &n), -EINVAL);
	assert_int_equal(pmi_message_get_int(&m, "none", 0, 9, &n), -EINVAL);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void messages_are_written_as_their_protocol_has_them(void **state)
{
	static char value[PMI2_BODY_MAX];
	_cleanup_bytes_ struct bytes b = {0};
	struct pmi_writer w;

	(void)state;
	pmi_write_begin(&w, &b, PMI_1);
	pmi_write_text(&w, "cmd", "put");
	pmi_write_int(&w, "n", -5);
	pmi_write_text(&w, "value", "a;b");
	assert_int_equal(pmi_write_end(&w), 0);
	assert_true(slice_is(slice_of(&b), "cmd=put n=-5 value=a;b\n"));
	bytes_cut(&b, 0);
	bytes_add_text(&b, "before");
	pmi_write_begin(&w, &b, PMI_2);
	pmi_write_text(&w, "cmd", "kvs-put");
	pmi_write_text(&w, "value", "a;b");
	assert_int_equal(pmi_write_end(&w), 0);
	assert_true(slice_is(slice_of(&b), "before23    cmd=kvs-put;value=a;;b;"));
	/* One that is too long leaves nothing behind. */
	memset(value, 'x', sizeof(value));
	pmi_write_begin(&w, &b, PMI_2);
	pmi_write_field(&w, "v", (struct slice){value, sizeof(value) - 3});
	assert_int_equal(pmi_write_end(&w), 0);
	bytes_cut(&b, 6);
	pmi_write_begin(&w, &b, PMI_2);
	pmi_write_field(&w, "v", (struct slice){value, sizeof(value) - 2});
	assert_int_equal(pmi_write_end(&w), -EMSGSIZE);
	assert_true(slice_is(slice_of(&b), "before"));
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void bytes_are_added_and_dropped_in_order(void **state)
{
	_cleanup_bytes_ struct bytes b = {0};
	struct slice s, taken;
	uint32_t n;
	int i;

	(void)state;
	for (i = 0; i < 10000; i++) {
		bytes_addf(&b, "%04d", i);
		if (i % 2)
			bytes_drop(&b, 4);
	}
	assert_int_equal(bytes_size(&b), 20000);
	assert_memory_equal(buffer_bytes(&b.held), "50005001", 8);
	assert_true(b.held.capacity < 100000);
	bytes_clear(&b);
	bytes_add_u32(&b, 3);
	bytes_add(&b, "abcd", 4);
	s = slice_of(&b);
	assert_true(slice_take_sized(&s, &taken) && slice_is(taken, "abc"));
	assert_false(slice_take_u32(&s, &n));
	assert_true(slice_take(&s, 1, &taken) && slice_is(taken, "d"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_found_in_a_stream),
		cmocka_unit_test(a_message_with_its_length_is_found_in_a_stream),
		cmocka_unit_test(messages_are_parsed_into_fields),
		cmocka_unit_test(escaped_semicolons_are_restored),
		cmocka_unit_test(numbers_are_parsed_whole_and_within_bounds),
		cmocka_unit_test(messages_are_written_as_their_protocol_has_them),
		cmocka_unit_test(bytes_are_added_and_dropped_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
