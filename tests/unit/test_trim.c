/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/loop/trim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config.h"
#include "stepd/base/cleanup.h"
#include "stepd/base/parse.h"

#define BLOCKS     1000u
#define BLOCK_SIZE 1024u

/* KiB of this process's memory of that kind. */
static uint64_t read_kib(const char *key)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/smaps_rollup", "re");
	_cleanup_free_ char *line = NULL;
	uint64_t kib = 0;
	size_t size = 0;

	assert_non_null(f);
	while (getline(&line, &size, f) > 0) {
		if (parse_line_u64(line, key, &kib) == 0)
			return kib;
	}
	fail();
	return 0;
}

/* The last block keeps the heap from shrinking. */
static void test_freed_memory_goes_back(void **state)
{
	static char *blocks[BLOCKS];
	uint64_t before;
	size_t i;

	(void)state;
#ifdef STEPD_SANITIZERS
	skip(); /* their malloc has freed memory for itself */
#endif
	trim_now();
	for (i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(BLOCK_SIZE);
		assert_non_null(blocks[i]);
		memset(blocks[i], (int)i, BLOCK_SIZE);
	}
	for (i = 0; i + 1 < BLOCKS; i++)
		free(blocks[i]);
	before = read_kib("Private_Dirty:");
	trim_now();
	assert_in_range(read_kib("Private_Dirty:"), 0, before - BLOCKS * BLOCK_SIZE / 1024 / 2);
	for (i = 0; i < BLOCK_SIZE; i++)
		assert_int_equal(blocks[BLOCKS - 1][i], (char)(BLOCKS - 1));
	free(blocks[BLOCKS - 1]);
}

static void test_the_last_start_counts(void **state)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_NOENV);
	struct trim s;

	(void)state;
	assert_non_null(loop);
	trim_init(&s);
	trim_stop(&s, loop); /* was never begun */
	trim_again(&s, loop);
	assert_false(ev_is_active(&s.timer));
	trim_start(&s, loop);
	trim_start(&s, loop);
	ev_run(loop, 0);
	assert_false(ev_is_active(&s.timer));
	trim_again(&s, loop);
	assert_true(ev_is_active(&s.timer));
	trim_start(&s, loop);
	trim_stop(&s, loop);
	assert_false(ev_is_active(&s.timer));
	ev_loop_destroy(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_freed_memory_goes_back),
		cmocka_unit_test(test_the_last_start_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
