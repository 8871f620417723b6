/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/selftest.h"

#include <stdarg.h>
#include <string.h>

#include "stepd/base/clock.h"
#include "stepd/base/parse.h"

const char *const selftest_stage_names[SELFTEST_STAGE_MAX] = {
	[SELFTEST_INIT] = "init",
	[SELFTEST_RANK] = "rank-and-size",
	[SELFTEST_PUT] = "put",
	[SELFTEST_FENCE] = "fence",
	[SELFTEST_GET] = "get",
	[SELFTEST_FINALIZE] = "finalize",
};

/* Nobody is there to get a failure. */
static void print(const struct selftest *t, const char *fmt, ...) _printf_(2, 3);
static void print(const struct selftest *t, const char *fmt, ...)
{
	char line[SELFTEST_TEXT_MAX + 96], *at;
	va_list ap;
	int n = snprintf(line, sizeof(line), "%u ", t->rank);

	va_start(ap, fmt);
	(void)vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
	va_end(ap);
	for (at = line; *at; at++) {
		if ((unsigned char)*at < ' ')
			*at = ' ';
	}
	*at++ = '\n'; /* in place of the NUL */
	(void)!write(STDOUT_FILENO, line, (size_t)(at - line));
}

int selftest_begin(struct selftest *t)
{
	const char *rank = getenv("SLURM_PROCID"), *size = getenv("SLURM_NTASKS");
	uint32_t n;

	*t = (struct selftest){.begin_ns = clock_now_ns()};
	if (!rank || !size || parse_u32(rank, 0, SELFTEST_SIZE - 1, &t->rank) < 0 ||
		parse_u32(size, SELFTEST_SIZE, SELFTEST_SIZE, &n) < 0)
		return -EINVAL;
	return 0;
}

void selftest_at(struct selftest *t, enum selftest_stage stage)
{
	t->stage = stage;
	print(t, SELFTEST_AT " %s", selftest_stage_names[stage]);
}

int selftest_absent(const struct selftest *t, const char *why)
{
	print(t, SELFTEST_ABSENT " %s", why);
	return EXIT_FAILURE;
}

int selftest_fail(const struct selftest *t, const char *fmt, ...)
{
	char why[SELFTEST_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	print(t, SELFTEST_FAILED " %s %s", selftest_stage_names[t->stage], why);
	return EXIT_FAILURE;
}

int selftest_done(const struct selftest *t, const char *details)
{
	print(t, SELFTEST_DONE " %llu%s%.*s",
		(unsigned long long)(clock_now_ns() - t->begin_ns) / 1000, *details ? " " : "",
		(int)SELFTEST_TEXT_MAX, details);
	return EXIT_SUCCESS;
}

int selftest_check_rank(const struct selftest *t, uint32_t rank, uint32_t size)
{
	if (rank == t->rank && size == SELFTEST_SIZE)
		return EXIT_SUCCESS;
	return selftest_fail(t, "the server takes it for rank %u of %u, and it is rank %u of %u",
		rank, size, t->rank, SELFTEST_SIZE);
}

void selftest_make_key(uint32_t rank, char key[static SELFTEST_PAIR_SIZE])
{
	(void)snprintf(key, SELFTEST_PAIR_SIZE, "stepd-selftest-%u", rank);
}

void selftest_make_value(uint32_t rank, char value[static SELFTEST_PAIR_SIZE])
{
	(void)snprintf(value, SELFTEST_PAIR_SIZE, "value-of-rank-%u", rank);
}

int selftest_check_value(const struct selftest *t, uint32_t rank, const char *got)
{
	char wanted[SELFTEST_PAIR_SIZE];

	selftest_make_value(rank, wanted);
	if (strcmp(got, wanted) == 0)
		return EXIT_SUCCESS;
	return selftest_fail(
		t, "'%.64s' comes for the value of rank %u, which is '%s'", got, rank, wanted);
}
