/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages of Slurm's mpi/pmi2, and a record of accounting that nodes have added up.
 */
#include "contrib/slurm/pmi_gather.h"
#include "contrib/slurm/pmi_messages.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "contrib/slurm/step_record.h"

static struct slice slice_of_pack(const struct pack *p)
{
	return (struct slice){buffer_bytes(&p->bytes), buffer_size(&p->bytes)};
}

static void assert_bytes(const struct pack *p, const void *expected, size_t size)
{
	assert_false(p->failed);
	assert_int_equal(buffer_size(&p->bytes), size);
	assert_memory_equal(buffer_bytes(&p->bytes), expected, size);
}

static void test_fence(void **state)
{
	static const char expected[] = "\0\0"
				       "\0\0\0\3"
				       "\0\0\0\3n4\0"
				       "\0\0\0\1"
				       "\0\0\0\2"
				       "\0\0\0\4key\0"
				       "\0\0\0\6value\0";
	_cleanup_bytes_ struct bytes pairs = {0};
	_cleanup_pack_ struct pack p = {0}, packed = {0}, torn = {0};
	struct slurm_pmi_part part = {.node = 3, .name = "n4", .nodes = 1, .number = 2}, again;
	struct slice rest;
	size_t cut;

	(void)state;
	manager_pair_add(&pairs, slice_of_text("key"), slice_of_text("value"));
	rest = slice_of(&pairs);
	assert_int_equal(slurm_pmi_pack_pairs(&packed, rest), 0);
	part.pairs = slice_of_pack(&packed);
	slurm_pmi_fence(&p, &part);
	assert_bytes(&p, expected, sizeof(expected) - 1);
	rest.size--;
	assert_int_equal(slurm_pmi_pack_pairs(&torn, rest), -EBADMSG);
	for (cut = 0; cut < sizeof(expected) - 1; cut++) {
		rest = (struct slice){expected, cut};
		/* Before the first pair, and behind it. */
		assert_int_equal(slurm_pmi_read_fence(rest, &again), cut == 21 ? 0 : -EBADMSG);
	}
	assert_int_equal(slurm_pmi_read_fence(slice_of_pack(&p), &again), 0);
	assert_int_equal(again.node, 3);
	assert_string_equal(again.name, "n4");
	assert_int_equal(again.nodes, 1);
	assert_int_equal(again.number, 2);
	assert_int_equal(again.pairs.size, part.pairs.size);
}

/* ---- the tree ------------------------------------------------------------------------------ */

/* As reverse_tree_info() of Slurm 22.05.8 has them: "node above+below". */
static void test_places(void **state)
{
	static const struct {
		uint32_t nodes, width;
		const char *places;
	} rows[] = {
		{1, 2, "-1+0"},
		{2, 2, "-1+0 -1+0"},
		{3, 2, "-1+2 0+0 0+0"},
		{9, 2, "-1+6 0+2 1+0 1+0 0+2 4+0 4+0 -1+1 7+0"},
		{9, 3, "-1+3 0+0 0+0 0+0 -1+3 4+0 4+0 4+0 -1+0"},
		{9, 5, "-1+5 0+0 0+0 0+0 0+0 0+0 -1+2 6+0 6+0"},
		{4, 5, "-1+0 -1+0 -1+0 -1+0"},
		{4, 2147483647, "-1+0 -1+0 -1+0 -1+0"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[256] = "";
		uint32_t node, at = 0;

		for (node = 0; node < rows[i].nodes; node++) {
			struct pmi_place place = pmi_place_find(node, rows[i].nodes, rows[i].width);

			at += (uint32_t)snprintf(text + at, sizeof(text) - at, "%s%d+%u",
				node ? " " : "", (int)place.above, place.below);
		}
		assert_string_equal(text, rows[i].places);
	}
}

/* Of each node it is the same tree: who is below is told by those who are above. */
static void test_places_agree(void **state)
{
	static const uint32_t widths[] = {2, 3, 7, 50};
	uint32_t below[3000] = {0}, node;
	struct pmi_place place;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(widths); i++) {
		memset(below, 0, sizeof(below));
		for (node = ARRAY_SIZE(below); node-- > 0;) {
			place = pmi_place_find(node, ARRAY_SIZE(below), widths[i]);
			assert_int_equal(place.below, below[node]);
			assert_true(place.above < node || place.above == PMI_PLACE_SRUN);
			if (place.above != PMI_PLACE_SRUN)
				below[place.above] += place.below + 1;
		}
	}
}

/* ---- what a node gathers ------------------------------------------------------------------- */

static int add_part(
	struct pmi_gather *g, uint32_t node, uint32_t nodes, uint32_t number, const char *key)
{
	_cleanup_bytes_ struct bytes pairs = {0};
	_cleanup_pack_ struct pack packed = {0}, p = {0};
	struct slurm_pmi_part part = {.node = node, .name = "n", .nodes = nodes, .number = number};

	manager_pair_add(&pairs, slice_of_text(key), slice_of_text("v"));
	assert_int_equal(slurm_pmi_pack_pairs(&packed, slice_of(&pairs)), 0);
	part.pairs = slice_of_pack(&packed);
	slurm_pmi_fence(&p, &part);
	return pmi_gather_add_message(g, slice_of_pack(&p));
}

static void test_gather(void **state)
{
	/* Node 1 of a step, with 2 to 5 below it, of which 4 speaks for 5, too. */
	const struct pmi_place place = {.above = 0, .below = 4};
	_cleanup_bytes_ struct bytes own = {0};
	struct pmi_gather g;
	uint32_t number;

	(void)state;
	manager_pair_add(&own, slice_of_text("own"), slice_of_text("v"));
	assert_int_equal(pmi_gather_init(&g, 1, place), 0);
	for (number = 1; number < 4; number++) {
		_cleanup_pack_ struct pack message = {0};
		struct slurm_pmi_part part;

		assert_int_equal(add_part(&g, 2, 1, number, "a"), 0);
		assert_int_equal(add_part(&g, 2, 1, number, "a"), -EALREADY);
		assert_int_equal(add_part(&g, 1, 5, number, "own"), -EALREADY);
		assert_int_equal(add_part(&g, 3, 1, number + 1, "b"), -ERANGE);
		assert_int_equal(add_part(&g, 3, 1, number - 1, "b"), -ERANGE);
		assert_int_equal(add_part(&g, 0, 1, number, "b"), -ERANGE);
		assert_int_equal(add_part(&g, 6, 1, number, "b"), -ERANGE);
		assert_int_equal(add_part(&g, 3, 0, number, "b"), -ERANGE);
		assert_int_equal(add_part(&g, 3, 4, number, "b"), -ERANGE);
		assert_int_equal(add_part(&g, 4, 2, number, "c"), 0);
		if (number == 2)
			assert_int_equal(pmi_gather_add_own(&g, slice_of(&own)), 0);
		assert_int_equal(add_part(&g, 3, 1, number, "b"), 0);
		assert_int_equal(pmi_gather_is_complete(&g), number == 2);
		if (number != 2)
			assert_int_equal(pmi_gather_add_own(&g, slice_of(&own)), 0);
		assert_true(pmi_gather_is_complete(&g));
		pmi_gather_take(&g, "n1", &message);
		assert_false(message.failed || pmi_gather_is_complete(&g));
		assert_int_equal(slurm_pmi_read_fence(slice_of_pack(&message), &part), 0);
		assert_int_equal(part.node, 1);
		assert_int_equal(part.nodes, 5);
		assert_int_equal(part.number, number);
		assert_int_equal(part.pairs.size, 3 * (4 + 2 + 4 + 2) + 4 + 4 + 4 + 2);
	}
	assert_int_equal(pmi_gather_add_own(&g, slice_of_text("torn")), -EBADMSG);
	pmi_gather_clear(&g);
}

static void test_gather_too_much(void **state)
{
	const struct pmi_place place = {.above = PMI_PLACE_SRUN, .below = 2};
	char *much = calloc(1, SLURM_PMI_MAX / 2);
	_cleanup_bytes_ struct bytes pairs = {0};
	struct pmi_gather g;

	(void)state;
	assert_non_null(much);
	memset(much, 'x', SLURM_PMI_MAX / 2 - 1);
	manager_pair_add(&pairs, slice_of_text("k"), slice_of_text(much));
	assert_int_equal(pmi_gather_init(&g, 0, place), 0);
	assert_int_equal(pmi_gather_add_own(&g, slice_of(&pairs)), 0);
	assert_int_equal(add_part(&g, 1, 1, 1, "k"), 0);
	assert_int_equal(pmi_gather_add_own(&g, slice_of(&pairs)), -EMSGSIZE);
	pmi_gather_clear(&g);
	free(much);
}

static void test_fenced(void **state)
{
	static const char message[] = "\0\1"
				      "\0\0\0\2"
				      "\0\0\0\2a\0"
				      "\0\0\0\3b;\0"
				      "\0\0\0\2c\0"
				      "\0\0\0\0";
	struct slice all = {message, sizeof(message) - 1}, rest, key, value;
	size_t cut;
	uint32_t number = 0;

	(void)state;
	assert_int_equal(slurm_pmi_type(all), SLURM_PMI_FENCED);
	for (cut = 0; cut <= all.size; cut++) {
		_cleanup_bytes_ struct bytes pairs = {0};
		int r = slurm_pmi_fenced((struct slice){message, cut}, &number, &pairs);

		/* Without pairs, with one, with both. */
		assert_int_equal(r, cut == 6 || cut == 19 || cut == all.size ? 0 : -EBADMSG);
		if (cut < all.size)
			continue;
		assert_int_equal(number, 2);
		rest = slice_of(&pairs);
		assert_true(manager_pair_take(&rest, &key, &value));
		assert_true(slice_is(key, "a") && slice_is(value, "b;"));
		assert_true(manager_pair_take(&rest, &key, &value));
		assert_true(slice_is(key, "c") && value.size == 0 && rest.size == 0);
	}
	assert_int_equal(slurm_pmi_type((struct slice){"\0", 1}), SLURM_PMI_TYPE_MAX);
	assert_int_equal(slurm_pmi_type((struct slice){"\0\11", 2}), SLURM_PMI_TYPE_MAX);
}

static void test_names(void **state)
{
	static const char publish[] = "\0\4"
				      "\0\0\0\2n\0"
				      "\0\0\0\2p\0",
			  lookup[] = "\0\6"
				     "\0\0\0\2n\0";
	_cleanup_pack_ struct pack p = {0}, l = {0}, unknown = {0};
	struct slice value;

	(void)state;
	assert_int_equal(
		slurm_pmi_query(&p, MANAGER_PUBLISH, slice_of_text("n"), slice_of_text("p")), 0);
	assert_bytes(&p, publish, sizeof(publish) - 1);
	assert_int_equal(
		slurm_pmi_query(&l, MANAGER_LOOKUP, slice_of_text("n"), slice_of_text("")), 0);
	assert_bytes(&l, lookup, sizeof(lookup) - 1);
	assert_int_equal(
		slurm_pmi_query(&unknown, MANAGER_QUERY_MAX, slice_of_text("n"), slice_of_text("")),
		-EBADMSG);

	assert_int_equal(slurm_pmi_reply(MANAGER_PUBLISH, (struct slice){"\0\0\0\0", 4}, &value),
		MANAGER_DONE);
	assert_int_equal(slurm_pmi_reply(MANAGER_UNPUBLISH, (struct slice){"\0\0\0\1", 4}, &value),
		MANAGER_FAILED);
	assert_int_equal(
		slurm_pmi_reply(MANAGER_PUBLISH, (struct slice){"\0", 1}, &value), MANAGER_FAILED);
	assert_int_equal(slurm_pmi_reply(MANAGER_LOOKUP, (struct slice){"\0\0\0\0", 4}, &value),
		MANAGER_UNKNOWN);
	assert_int_equal(slurm_pmi_reply(MANAGER_LOOKUP, (struct slice){"\0\0\0\3pq\0", 7}, &value),
		MANAGER_DONE);
	assert_true(slice_is(value, "pq"));
}

/* ---- records ------------------------------------------------------------------------------- */

#define COLUMNS 14
#define UNKNOWN UINT64_MAX

/* Of two resources; values: those of the first, whose others are unknown. */
static void pack_record(struct pack *p, uint32_t second_id, uint64_t sec, uint32_t usec,
	const uint64_t values[COLUMNS])
{
	int c;

	pack_u8(p, 1);
	pack_u64(p, sec);
	pack_u32(p, usec);
	pack_u64(p, 0);
	pack_u32(p, 0);
	pack_u32(p, 0);
	pack_u64(p, 0);
	pack_u32_array(p, (const uint32_t[]){1, second_id}, 2);
	pack_u32(p, 0xfffffffe);
	for (c = 0; c < COLUMNS; c++) {
		pack_u32(p, 2);
		pack_u64(p, values[c]);
		pack_u64(p, UNKNOWN);
	}
}

static void read_record(struct step_record *r, const struct pack *p)
{
	struct slice s = slice_of_pack(p);

	assert_int_equal(step_record_read(r, s.data, s.size), 0);
}

static void test_records_are_added(void **state)
{
	/* most, its node and task, least, its node and task, sum; the same of what is put out */
	static const uint64_t one[COLUMNS] = {9, 0, 4, 2, 0, 5, 11, UNKNOWN, UNKNOWN, UNKNOWN,
		UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN},
			      two[COLUMNS] = {7, 1, 6, 1, 1, 7, 8, 3, 1, 6, 3, 1, 6, 3},
			      sum[COLUMNS] = {9, 0, 4, 1, 1, 7, 19, 3, 1, 6, 3, 1, 6, 3};
	_cleanup_pack_ struct pack a = {0}, b = {0}, c = {0}, expected = {0}, got = {0};
	_cleanup_step_record_ struct step_record total = {0}, other = {0}, strange = {0};

	(void)state;
	pack_record(&a, 2, 1, 600000, one);
	pack_record(&b, 2, 2, 500000, two);
	pack_record(&c, 3, 0, 0, two);
	pack_record(&expected, 2, 4, 100000, sum);
	read_record(&other, &a);
	assert_int_equal(step_record_add(&total, &other), 0); /* to nothing */
	step_record_clear(&other);
	assert_int_equal(step_record_add(&total, &other), 0); /* nothing to it */
	read_record(&other, &b);
	assert_int_equal(step_record_add(&total, &other), 0);
	read_record(&strange, &c);
	assert_int_equal(step_record_add(&total, &strange), -EINVAL);
	step_record_pack(&total, &got);
	assert_bytes(&got, buffer_bytes(&expected.bytes), buffer_size(&expected.bytes));
}

static void test_records_are_read_whole(void **state)
{
	static const uint64_t values[COLUMNS] = {0};
	_cleanup_step_record_ struct step_record r = {0};
	_cleanup_pack_ struct pack p = {0};
	struct slice all;
	size_t cut;

	(void)state;
	pack_record(&p, 2, 1, 2, values);
	all = slice_of_pack(&p);
	for (cut = 1; cut < all.size; cut++)
		assert_int_equal(step_record_read(&r, all.data, cut), -EBADMSG);
	assert_int_equal(step_record_read(&r, "\0", 1), 0);
	assert_null(r.values);
	assert_int_equal(step_record_read(&r, NULL, 0), 0);
	assert_null(r.values);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fence),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_places_agree),
		cmocka_unit_test(test_gather),
		cmocka_unit_test(test_gather_too_much),
		cmocka_unit_test(test_fenced),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_records_are_added),
		cmocka_unit_test(test_records_are_read_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
