/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What select plugins find in their host: bitmaps against a plain array of booleans, lists, and
 * buffers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stepd/api/bitstring.h"
#include "stepd/api/list.h"
#include "stepd/api/pack.h"
#include "stepd/api/plugin.h"
#include "stepd/base/cleanup.h"

/* ---- what ends the program --------------------------------------------------------------------
 */

struct mistake {
	void (*make)(void);
	const char *named; /* stands in the message */
};

/* A child makes it: SIGABRT, and a line on stderr that names the function. */
static void assert_ends(const struct mistake *m)
{
	const struct rlimit no_core = {0};
	char text[512] = "";
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)setrlimit(RLIMIT_CORE, &no_core);
		(void)dup2(fds[1], STDERR_FILENO);
		m->make();
		_exit(0);
	}
	(void)close(fds[1]);
	n = read(fds[0], text, sizeof(text) - 1);
	(void)close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (n <= 0 || !WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT ||
		!strstr(text, m->named))
		fail_msg("%s: status %#x, message '%s'", m->named, (unsigned)status, text);
}

static bitstr_t *ten(void)
{
	return bit_alloc(10);
}

static bitstr_t *eleven(void)
{
	return bit_alloc(11);
}

#define MISTAKE(name, call)                                                                        \
	static void name(void)                                                                     \
	{                                                                                          \
		(void)(call);                                                                      \
	}
MISTAKE(alloc_negative, bit_alloc(-1))
MISTAKE(alloc_huge, bit_alloc(INT64_MAX))
MISTAKE(size_of_null, bit_size(NULL))
MISTAKE(copy_of_null, bit_copy(NULL))
MISTAKE(test_of_null, bit_test(NULL, 0))
MISTAKE(test_behind, bit_test(ten(), 10))
MISTAKE(test_before, bit_test(ten(), -1))
MISTAKE(set_behind, (bit_set(ten(), 10), 0))
MISTAKE(clear_behind, (bit_clear(ten(), 10), 0))
MISTAKE(nset_behind, (bit_nset(ten(), 9, 10), 0))
MISTAKE(nset_before, (bit_nset(ten(), -1, 3), 0))
MISTAKE(nclear_behind, (bit_nclear(ten(), 10, 10), 0))
MISTAKE(count_behind, bit_set_count_range(ten(), 0, 11))
MISTAKE(count_before, bit_set_count_range(ten(), -1, 3))
MISTAKE(and_sizes, (bit_and(ten(), eleven()), 0))
MISTAKE(or_sizes, (bit_or(ten(), eleven()), 0))
MISTAKE(and_not_sizes, (bit_and_not(ten(), eleven()), 0))
MISTAKE(copybits_sizes, (bit_copybits(ten(), eleven()), 0))
MISTAKE(super_set_sizes, bit_super_set(ten(), eleven()))
MISTAKE(overlap_sizes, bit_overlap(ten(), eleven()))
MISTAKE(overlap_any_sizes, bit_overlap_any(ten(), NULL))
MISTAKE(ffs_of_null, bit_ffs(NULL))
MISTAKE(fls_of_null, bit_fls(NULL))
MISTAKE(count_of_null, bit_set_count(NULL))
MISTAKE(not_of_null, (bit_not(NULL), 0))
MISTAKE(xmalloc_huge, stepd_xmalloc(SIZE_MAX / 2))

static void pack_too_much(void)
{
	Buf buf = init_buf(0);
	char *data = stepd_xmalloc(1u << 20);

	for (;;)
		packmem(data, 1u << 20, buf);
}

static void test_mistakes(void **state)
{
	static const struct mistake mistakes[] = {
		{alloc_negative, "bit_alloc"},
		{alloc_huge, "bit_alloc"},
		{size_of_null, "bit_size"},
		{copy_of_null, "bit_size"},
		{test_of_null, "bit_test"},
		{test_behind, "bit_test"},
		{test_before, "bit_test"},
		{set_behind, "bit_set"},
		{clear_behind, "bit_clear"},
		{nset_behind, "bit_nset"},
		{nset_before, "bit_nset"},
		{nclear_behind, "bit_nclear"},
		{count_behind, "bit_set_count_range"},
		{count_before, "bit_set_count_range"},
		{and_sizes, "bit_and"},
		{or_sizes, "bit_or"},
		{and_not_sizes, "bit_and_not"},
		{copybits_sizes, "bit_copybits"},
		{super_set_sizes, "bit_super_set"},
		{overlap_sizes, "bit_overlap"},
		{overlap_any_sizes, "bit_overlap_any"},
		{ffs_of_null, "bit_size"},
		{fls_of_null, "bit_size"},
		{count_of_null, "bit_size"},
		{not_of_null, "bit_size"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(mistakes); i++)
		assert_ends(&mistakes[i]);
}

/* Memory that there is not: under AddressSanitizer its own message comes first. */
static void test_no_memory(void **state)
{
	static const struct mistake huge = {xmalloc_huge, "out of memory"};
	static const struct mistake packs = {pack_too_much, "out of memory"};

	(void)state;
#ifdef __SANITIZE_ADDRESS__
	skip();
#endif
	assert_ends(&huge);
	assert_ends(&packs);
}

/* ---- bitmaps against a model ------------------------------------------------------------------
 */

#define MODEL_MAX 300

struct model {
	bool bits[MODEL_MAX];
	bitoff_t size;
};

static unsigned seed;

static unsigned below(unsigned n)
{
	return n ? (unsigned)rand_r(&seed) % n : 0;
}

static bitstr_t *random_bits(struct model *m, bitoff_t size)
{
	bitstr_t *b = bit_alloc(size);
	unsigned often = 1 + below(8);
	bitoff_t i;

	m->size = size;
	for (i = 0; i < size; i++) {
		m->bits[i] = below(often) == 0;
		if (m->bits[i])
			bit_set(b, i);
	}
	return b;
}

static void assert_same(const bitstr_t *b, const struct model *m)
{
	bitoff_t i, first = -1, last = -1, first_clear = -1;
	int32_t n = 0;

	assert_int_equal(bit_size(b), m->size);
	for (i = 0; i < m->size; i++) {
		assert_int_equal(bit_test(b, i), m->bits[i]);
		n += m->bits[i];
		if (m->bits[i] && first < 0)
			first = i;
		if (m->bits[i])
			last = i;
		if (!m->bits[i] && first_clear < 0)
			first_clear = i;
	}
	assert_int_equal(bit_set_count(b), n);
	assert_int_equal(bit_clear_count(b), m->size - n);
	assert_int_equal(bit_ffs(b), first);
	assert_int_equal(bit_fls(b), last);
	assert_int_equal(bit_ffc(b), first_clear);
}

static bitoff_t model_find(const struct model *m, bitoff_t from, bool value)
{
	for (; from >= 0 && from < m->size; from++) {
		if (m->bits[from] == value)
			return from;
	}
	return -1;
}

static bitoff_t model_row(const struct model *m, int32_t n, bool value)
{
	bitoff_t i;
	int32_t k;

	for (i = 0; i + n <= m->size; i++) {
		for (k = 0; k < n && m->bits[i + k] == value; k++)
			;
		if (k == n)
			return i;
	}
	return -1;
}

static int32_t model_count(const struct model *m, bitoff_t from, bitoff_t end)
{
	int32_t n = 0;

	for (; from < end; from++)
		n += m->bits[from];
	return n;
}

static const bitoff_t sizes[] = {0, 1, 2, 63, 64, 65, 127, 128, 129, 200, 300};

static void test_search(void **state)
{
	struct model m;
	bitstr_t *b;
	unsigned round;
	bitoff_t i, end;

	(void)state;
	for (round = 0; round < 50 * ARRAY_SIZE(sizes); round++) {
		b = random_bits(&m, sizes[round % ARRAY_SIZE(sizes)]);
		assert_same(b, &m);
		for (i = -2; i < m.size + 3; i++) {
			assert_int_equal(bit_ffs_from_bit(b, i), model_find(&m, i, true));
			assert_int_equal(bit_ffc_from_bit(b, i), model_find(&m, i, false));
		}
		for (i = 1; i <= m.size + 1; i += 1 + below(9)) {
			assert_int_equal(bit_nffs(b, (int32_t)i), model_row(&m, (int32_t)i, true));
			assert_int_equal(bit_nffc(b, (int32_t)i), model_row(&m, (int32_t)i, false));
		}
		for (i = 0; i < m.size; i += 1 + below(20)) {
			end = i + below((unsigned)(m.size - i) + 1);
			assert_int_equal(bit_set_count_range(b, i, end), model_count(&m, i, end));
		}
		assert_int_equal(bit_set_count_range(b, 0, m.size), bit_set_count(b));
		bit_free(b);
	}
	bit_free(NULL);
}

static void test_change(void **state)
{
	struct model m;
	bitstr_t *b, *copy;
	unsigned round;
	bitoff_t i, start, stop;

	(void)state;
	for (round = 0; round < 200 * ARRAY_SIZE(sizes); round++) {
		b = random_bits(&m, sizes[round % ARRAY_SIZE(sizes)]);
		copy = bit_copy(b);
		assert_true(bit_equal(b, copy));
		if (m.size > 0) {
			start = below((unsigned)m.size);
			stop = start + below((unsigned)(m.size - start));
			for (i = start; i <= stop; i++)
				m.bits[i] = round % 2;
			if (round % 2)
				bit_nset(b, start, stop);
			else
				bit_nclear(b, start, stop);
			assert_same(b, &m);
			i = below((unsigned)m.size);
			bit_set(b, i);
			assert_true(bit_test(b, i));
			bit_clear(b, i);
			m.bits[i] = false;
		}
		bit_not(b);
		for (i = 0; i < m.size; i++)
			m.bits[i] = !m.bits[i];
		assert_same(b, &m);
		bit_copybits(b, copy);
		assert_true(bit_equal(b, copy));
		bit_set_all(b);
		assert_int_equal(bit_set_count(b), m.size);
		bit_clear_all(b);
		assert_int_equal(bit_set_count(b), 0);
		bit_free(b);
		FREE_NULL_BITMAP(copy);
		assert_null(copy);
	}
}

/* A row that ends before it begins has no bits. */
static void test_empty_rows(void **state)
{
	bitstr_t *b = bit_alloc(130);

	(void)state;
	bit_nset(b, 5, 4);
	bit_nset(b, 129, 0);
	assert_int_equal(bit_set_count(b), 0);
	bit_set_all(b);
	bit_nclear(b, 65, 64);
	bit_nclear(b, 128, 3);
	assert_int_equal(bit_set_count(b), 130);
	assert_int_equal(bit_set_count_range(b, 7, 7), 0);
	assert_int_equal(bit_set_count_range(b, 200, 100), 0);
	bit_free(b);
}

static void check_pair(
	const struct model *x, const struct model *y, const bitstr_t *a, const bitstr_t *b)
{
	bool super = true, equal = true;
	int32_t both = 0;
	bitoff_t i;

	for (i = 0; i < x->size; i++) {
		both += x->bits[i] && y->bits[i];
		super &= !x->bits[i] || y->bits[i];
		equal &= x->bits[i] == y->bits[i];
	}
	assert_int_equal(bit_overlap(a, b), both);
	assert_int_equal(bit_overlap_any(a, b), both > 0);
	assert_int_equal(bit_super_set(a, b), super);
	assert_int_equal(bit_equal(a, b), equal);
}

static void check_combined(const struct model *x, const struct model *y, const bitstr_t *a,
	const bitstr_t *b, void (*combine)(bitstr_t *, const bitstr_t *), unsigned truth)
{
	struct model m = *x;
	bitstr_t *c = bit_copy(a);
	bitoff_t i;

	combine(c, b);
	for (i = 0; i < m.size; i++)
		m.bits[i] = truth >> (2 * x->bits[i] + y->bits[i]) & 1;
	assert_same(c, &m);
	bit_free(c);
}

static void test_pairs(void **state)
{
	struct model x, y;
	bitstr_t *a, *b;
	unsigned round;

	(void)state;
	for (round = 0; round < 100 * ARRAY_SIZE(sizes); round++) {
		a = random_bits(&x, sizes[round % ARRAY_SIZE(sizes)]);
		b = random_bits(&y, x.size);
		check_pair(&x, &y, a, b);
		check_combined(&x, &y, a, b, bit_and, 0x8);
		check_combined(&x, &y, a, b, bit_or, 0xe);
		check_combined(&x, &y, a, b, bit_and_not, 0x4);
		check_combined(&x, &y, a, b, bit_copybits, 0xa);
		bit_and(b, a);
		assert_true(bit_super_set(b, a));
		bit_free(b);
		b = bit_alloc(x.size + 1);
		assert_false(bit_equal(a, b));
		bit_free(b);
		bit_free(a);
	}
}

static void test_text(void **state)
{
	struct model m;
	char text[2048];
	bitstr_t *b, *back;
	unsigned round;

	(void)state;
	for (round = 0; round < 50 * ARRAY_SIZE(sizes); round++) {
		b = random_bits(&m, sizes[round % ARRAY_SIZE(sizes)]);
		back = bit_alloc(m.size);
		assert_ptr_equal(bit_fmt(text, sizeof(text), b), text);
		assert_int_equal(bit_unfmt(back, text), 0);
		assert_true(bit_equal(b, back));
		bit_free(b);
		bit_free(back);
	}
}

static void test_fmt(void **state)
{
	bitstr_t *b = bit_alloc(100);
	char text[16];
	int32_t size;

	(void)state;
	assert_string_equal(bit_fmt(text, sizeof(text), b), "");
	bit_nset(b, 0, 3);
	bit_set(b, 7);
	bit_nset(b, 98, 99);
	assert_string_equal(bit_fmt(text, sizeof(text), b), "0-3,7,98-99");
	for (size = 1; size <= 12; size++) {
		memset(text, 'x', sizeof(text));
		(void)bit_fmt(text, size, b);
		assert_int_equal(strlen(text), size - 1);
		assert_memory_equal(text, "0-3,7,98-99", (size_t)size - 1);
		assert_int_equal(text[size], 'x');
	}
	text[0] = 'x';
	(void)bit_fmt(text, 0, b);
	assert_int_equal(text[0], 'x');
	bit_free(b);
}

static void test_unfmt(void **state)
{
	static const char *const wrong[] = {",", "1,", ",1", "1,,2", "-", "1-", "-1", "3-2", "10",
		"0-10", "a", "1 ", " 1", "1-2-3", "99999999999999999999", "0x1", "+1", "1;2"};
	bitstr_t *b = ten();
	char text[32];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		if (bit_unfmt(b, wrong[i]) != -1)
			fail_msg("'%s' was taken", wrong[i]);
	}
	assert_int_equal(bit_unfmt(b, "9,0-2,1-3,5"), 0);
	assert_string_equal(bit_fmt(text, sizeof(text), b), "0-3,5,9");
	assert_int_equal(bit_unfmt(b, ""), 0);
	assert_int_equal(bit_set_count(b), 0);
	bit_free(b);
}

/* ---- lists ------------------------------------------------------------------------------------
 */

static int freed;

static void count_free(void *item)
{
	freed++;
	free(item);
}

static int *number(int n)
{
	int *p = malloc(sizeof(*p));

	assert_non_null(p);
	*p = n;
	return p;
}

static int is_number(void *item, void *key)
{
	return *(int *)item == *(int *)key;
}

static int is_odd(void *item, void *key)
{
	(void)key;
	return *(int *)item % 2;
}

/* "1 2 3" */
static void assert_list(List list, const char *wanted)
{
	ListIterator i = list_iterator_create(list);
	char got[256] = "";
	size_t at = 0;
	int *n;

	while ((n = list_next(i)))
		at += (size_t)snprintf(got + at, sizeof(got) - at, "%s%d", at ? " " : "", *n);
	assert_string_equal(got, wanted);
	assert_null(list_next(i));
	list_iterator_reset(i);
	assert_ptr_equal(list_next(i), list_peek(list));
	list_iterator_destroy(i);
}

static List list_of(int n)
{
	List list = list_create(count_free);
	int i, *item;

	for (i = 1; i <= n; i++) {
		item = number(i);
		assert_ptr_equal(list_append(list, item), item);
	}
	return list;
}

static void test_list(void **state)
{
	int five = 5, twelve = 12, *item;
	List list = list_create(count_free);

	(void)state;
	freed = 0;
	assert_true(list_is_empty(list));
	assert_int_equal(list_count(list), 0);
	assert_null(list_peek(list));
	assert_null(list_pop(list));
	assert_list(list, "");
	list_destroy(list);
	list = list_of(10);
	item = number(0);
	assert_ptr_equal(list_prepend(list, item), item);
	assert_list(list, "0 1 2 3 4 5 6 7 8 9 10");
	assert_int_equal(*(int *)list_find_first(list, is_number, &five), 5);
	assert_null(list_find_first(list, is_number, &twelve));
	item = list_pop(list);
	assert_int_equal(*item, 0);
	count_free(item);
	assert_int_equal(list_delete_all(list, is_odd, NULL), 5);
	assert_list(list, "2 4 6 8 10");
	assert_int_equal(list_count(list), 5);
	assert_false(list_is_empty(list));
	assert_int_equal(freed, 6);
	FREE_NULL_LIST(list);
	assert_null(list);
	assert_int_equal(freed, 11);
	list_destroy(NULL);
}

/* A list that was given no function does not free. */
static void test_list_borrows(void **state)
{
	int one = 1;
	List list = list_create(NULL);

	(void)state;
	(void)list_append(list, &one);
	(void)list_append(list, &one);
	assert_int_equal(list_delete_all(list, is_odd, NULL), 2);
	(void)list_append(list, &one);
	list_destroy(list);
}

static int stop_at(void *item, void *arg)
{
	return *(int *)item == *(int *)arg ? -1 : 1;
}

static void test_for_each(void **state)
{
	int three = 3, ten_and_one = 11;
	List list = list_of(10);

	(void)state;
	assert_int_equal(list_for_each(list, stop_at, &ten_and_one), 10);
	assert_int_equal(list_for_each(list, stop_at, &three), -3);
	list_destroy(list);
}

static int by_tens(void *a, void *b)
{
	return **(int **)a / 10 - **(int **)b / 10;
}

static void test_sort(void **state)
{
	static const int values[] = {31, 12, 35, 11, 4, 19, 30, 2, 15};
	List list = list_create(count_free);
	size_t i;

	(void)state;
	list_sort(list, by_tens);
	for (i = 0; i < ARRAY_SIZE(values); i++)
		(void)list_append(list, number(values[i]));
	list_sort(list, by_tens);
	assert_list(list, "4 2 12 11 19 15 31 35 30");
	list_destroy(list);
}

/* What others do to the list while one goes through it. */
static void test_iterators(void **state)
{
	List list = list_of(6);
	ListIterator i = list_iterator_create(list), other = list_iterator_create(list);

	(void)state;
	assert_int_equal(*(int *)list_next(i), 1);
	assert_int_equal(*(int *)list_next(i), 2);
	(void)list_prepend(list, number(0));
	assert_int_equal(*(int *)list_next(i), 3);
	assert_int_equal(*(int *)list_next(other), 0);
	free(list_pop(list));
	assert_int_equal(*(int *)list_next(other), 1);
	(void)list_append(list, number(7));
	assert_int_equal(list_delete_all(list, is_odd, NULL), 4);
	assert_int_equal(*(int *)list_next(i), 4);
	assert_int_equal(*(int *)list_next(other), 2);
	assert_int_equal(*(int *)list_next(i), 6);
	assert_null(list_next(i));
	(void)list_append(list, number(8));
	assert_int_equal(*(int *)list_next(i), 8);
	list_iterator_reset(i);
	assert_int_equal(*(int *)list_next(i), 2);
	list_iterator_destroy(other);
	list_destroy(list); /* and i with it */
}

/* Only what list_next() returned last is removed, and only once. */
static void test_removal(void **state)
{
	List list = list_of(6);
	ListIterator i = list_iterator_create(list), other = list_iterator_create(list);
	int *item;

	(void)state;
	freed = 0;
	assert_null(list_remove(i));
	assert_int_equal(list_delete_item(i), 0);
	(void)list_next(i);
	(void)list_next(i);
	item = list_remove(i);
	assert_int_equal(*item, 2);
	free(item);
	assert_null(list_remove(i));
	assert_list(list, "1 3 4 5 6");
	assert_int_equal(*(int *)list_next(i), 3);
	assert_int_equal(list_delete_item(i), 1);
	assert_int_equal(list_delete_item(i), 0);
	assert_int_equal(freed, 1);
	assert_list(list, "1 4 5 6");
	(void)list_next(i); /* 4, and somebody else removes it */
	(void)list_next(other);
	(void)list_next(other);
	assert_int_equal(list_delete_item(other), 1);
	assert_null(list_remove(i));
	assert_int_equal(*(int *)list_next(i), 5);
	(void)list_prepend(list, number(0));
	assert_int_equal(list_delete_item(i), 1);
	assert_list(list, "0 1 6");
	assert_int_equal(*(int *)list_next(i), 6);
	assert_null(list_next(i));
	assert_null(list_remove(i));
	list_iterator_reset(i);
	assert_null(list_remove(i));
	list_iterator_destroy(i);
	list_iterator_destroy(other);
	list_destroy(list);
}

/* ---- buffers ----------------------------------------------------------------------------------
 */

static void pack_all(Buf buf)
{
	pack8(0xfe, buf);
	pack16(0x1234, buf);
	pack32(0xdeadbeef, buf);
	pack64(UINT64_C(0x0102030405060708), buf);
	packbool(true, buf);
	pack_time((time_t)-1, buf);
	packmem("ab\0c", 4, buf);
	packmem(NULL, 0, buf);
	packstr("node", buf);
	packstr("", buf);
	packstr(NULL, buf);
}

/* How many of the eleven values are there. */
static int unpack_all(Buf buf)
{
	uint8_t u8 = 0;
	uint16_t u16 = 0;
	uint32_t u32 = 0, size = 0;
	uint64_t u64 = 0;
	bool yes = false;
	time_t t = 0;
	char *p = NULL;

	if (unpack8(&u8, buf) != SLURM_SUCCESS)
		return 0;
	assert_int_equal(u8, 0xfe);
	if (unpack16(&u16, buf) != SLURM_SUCCESS)
		return 1;
	assert_int_equal(u16, 0x1234);
	if (unpack32(&u32, buf) != SLURM_SUCCESS)
		return 2;
	assert_int_equal(u32, 0xdeadbeef);
	if (unpack64(&u64, buf) != SLURM_SUCCESS)
		return 3;
	assert_true(u64 == UINT64_C(0x0102030405060708));
	if (unpackbool(&yes, buf) != SLURM_SUCCESS)
		return 4;
	assert_true(yes);
	if (unpack_time(&t, buf) != SLURM_SUCCESS)
		return 5;
	assert_true(t == (time_t)-1);
	if (unpackmem_xmalloc(&p, &size, buf) != SLURM_SUCCESS)
		return 6;
	assert_int_equal(size, 4);
	assert_memory_equal(p, "ab\0c", 4);
	xfree(p);
	assert_null(p);
	if (unpackmem_xmalloc(&p, &size, buf) != SLURM_SUCCESS)
		return 7;
	assert_null(p);
	assert_int_equal(size, 0);
	if (unpackstr_xmalloc(&p, &size, buf) != SLURM_SUCCESS)
		return 8;
	assert_string_equal(p, "node");
	assert_int_equal(size, 5);
	xfree(p);
	if (unpackstr_xmalloc(&p, &size, buf) != SLURM_SUCCESS)
		return 9;
	assert_string_equal(p, "");
	xfree(p);
	if (unpackstr_xmalloc(&p, &size, buf) != SLURM_SUCCESS)
		return 10;
	assert_null(p);
	return 11;
}

static void test_pack(void **state)
{
	Buf buf = init_buf(0);
	uint32_t size;

	(void)state;
	pack_all(buf);
	size = get_buf_offset(buf);
	assert_int_equal(size, 1 + 2 + 4 + 8 + 1 + 8 + 8 + 4 + 9 + 5 + 4);
	assert_true(size_buf(buf) >= size);
	assert_int_equal(remaining_buf(buf), size_buf(buf) - size);
	assert_memory_equal(get_buf_data(buf), "\xfe\x12\x34\xde\xad\xbe\xef\x01\x02", 9);
	set_buf_offset(buf, 0);
	assert_int_equal(unpack_all(buf), 11);
	assert_int_equal(get_buf_offset(buf), size);
	set_buf_offset(buf, UINT32_MAX);
	assert_int_equal(get_buf_offset(buf), size_buf(buf));
	assert_int_equal(remaining_buf(buf), 0);
	free_buf(buf);
	free_buf(NULL);
}

/* Each shorter one lacks a value, and is not read behind its end. */
static void test_short_buffers(void **state)
{
	Buf whole = init_buf(1), buf;
	uint32_t size, n, at;
	char *data;
	int got, last = 0;

	(void)state;
	pack_all(whole);
	size = get_buf_offset(whole);
	for (n = 0; n < size; n++) {
		data = stepd_xmalloc(n);
		memcpy(data, get_buf_data(whole), n);
		buf = create_buf(data, n);
		got = unpack_all(buf);
		assert_in_range(got, last, 10);
		last = got;
		at = get_buf_offset(buf);
		assert_true(at <= n);
		free_buf(buf);
	}
	assert_int_equal(last, 10);
	free_buf(whole);
}

static Buf buffer_of(const char *bytes, uint32_t size)
{
	char *data = stepd_xmalloc(size);

	memcpy(data, bytes, size);
	return create_buf(data, size);
}

/* A string without its NUL, with one inside, or larger than what follows: nothing is taken. */
static void test_wrong_strings(void **state)
{
	static const struct {
		const char *bytes;
		uint32_t size;
	} wrong[] = {
		{"\0\0\0\2ab", 6},
		{"\0\0\0\3a\0\0", 7},
		{"\0\0\0\3ab", 6},
		{"\xff\xff\xff\xff", 4},
		{"\0\0\0", 3},
		{"", 0},
	};
	char *text = NULL;
	uint32_t size, at;
	size_t i;
	Buf buf;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		buf = buffer_of(wrong[i].bytes, wrong[i].size);
		size = 77;
		assert_int_equal(unpackstr_xmalloc(&text, &size, buf), SLURM_ERROR);
		assert_null(text);
		assert_int_equal(size, 0);
		at = get_buf_offset(buf);
		assert_int_equal(at, 0);
		free_buf(buf);
	}
}

static void test_memory(void **state)
{
	char *p = stepd_xmalloc(0), *text = xstrdup("text");
	static const char zeroes[100];

	(void)state;
	assert_non_null(p);
	xfree(p);
	assert_null(p);
	xfree(p);
	p = xmalloc(sizeof(zeroes));
	assert_memory_equal(p, zeroes, sizeof(zeroes));
	xfree(p);
	assert_string_equal(text, "text");
	xfree(text);
	assert_null(xstrdup(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mistakes),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_search),
		cmocka_unit_test(test_change),
		cmocka_unit_test(test_empty_rows),
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_fmt),
		cmocka_unit_test(test_unfmt),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_list_borrows),
		cmocka_unit_test(test_for_each),
		cmocka_unit_test(test_sort),
		cmocka_unit_test(test_iterators),
		cmocka_unit_test(test_removal),
		cmocka_unit_test(test_pack),
		cmocka_unit_test(test_short_buffers),
		cmocka_unit_test(test_wrong_strings),
		cmocka_unit_test(test_memory),
	};

	seed = 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
