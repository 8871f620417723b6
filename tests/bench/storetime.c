/* SPDX-License-Identifier: BSD-3-Clause
 *
 * storetime DIR [COUNT]: changes of state a second that jobd's store takes in a directory below
 * DIR, for each way to wait for the disk, one by one and 100 in a transaction. 1,000 jobs, each
 * with a document of some 1,500 bytes, and an environment and script of 20 kB.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/jobd/store/store.h"
#include "stepd/base/clock.h"
#include "stepd/base/parse.h"

#define JOBS       1000u
#define GROUP_SIZE 100u

static json_t *make_job(void)
{
	char text[20001];
	json_t *job = json_object();
	int i;

	memset(text, 't', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (i = 0; i < 50; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "member_%d", i);
		if (json_object_set_new(job, name, json_string("a value of some length")) < 0)
			errx(1, "no memory");
	}
	if (json_object_set_new(job, "script", json_string(text)) < 0)
		errx(1, "no memory");
	return job;
}

static void check(int r, const struct err *err)
{
	if (r < 0)
		errx(1, "%s", err->text);
}

static double measure(struct store *s, json_t *job, uint32_t count, uint32_t group)
{
	uint64_t begin_ns = clock_now_ns();
	struct err err = ERR_INIT;
	uint32_t i;

	for (i = 0; i < count; i++) {
		if (group > 1 && i % group == 0)
			check(store_begin(s, &err), &err);
		(void)json_object_set_new(job, "state", json_integer(i));
		check(store_save_job(s, 1 + i % JOBS, job, &err), &err);
		if (group > 1 && (i % group == group - 1 || i == count - 1))
			check(store_commit(s, &err), &err);
	}
	return count * 1e9 / (double)(clock_now_ns() - begin_ns);
}

static void measure_sync(const char *dir, enum store_sync sync, uint32_t count)
{
	_cleanup_free_ char *own = NULL;
	_cleanup_store_ struct store *s = NULL;
	json_auto_t *job = make_job();
	struct err err = ERR_INIT;
	double one;

	if (asprintf(&own, "%s/%s", dir, store_sync_names[sync]) < 0)
		errx(1, "no memory");
	check(store_open(own, sync, &s, &err), &err);
	(void)printf("%-6s  new %8.0f", store_sync_names[sync], measure(s, job, JOBS, GROUP_SIZE));
	one = measure(s, job, count, 1);
	(void)printf("  one by one %8.0f  in groups %8.0f a second\n", one,
		measure(s, job, count, GROUP_SIZE));
}

int main(int argc, char **argv)
{
	uint32_t count = 10000;

	if (argc < 2 || argc > 3 || (argc == 3 && parse_u32(argv[2], 1, UINT32_MAX, &count) < 0))
		errx(2, "usage: storetime DIR [COUNT]");
	measure_sync(argv[1], STORE_SYNC_NORMAL, count);
	measure_sync(argv[1], STORE_SYNC_FULL, count);
	return 0;
}
