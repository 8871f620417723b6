/* SPDX-License-Identifier: BSD-3-Clause
 *
 * slicetime SECONDS ROUNDS GROUP...: cgroups of jobs that take turns, half of which stand still at
 * a time, each time slice being so long and beginning at a multiple of it. Prints how many ms after
 * that the last group has changed its state, a line for each round. SECONDS 0: it changes them by
 * itself: it freezes those that run, waits, thaws the others, and waits.
 */
#include <err.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define GROUPS_MAX 4096
#define READ_US    500 /* between two reads of all groups */
#define EARLY_MS   500 /* before a slice begins */
#define TOO_LONG_S 60
#define NS_PER_MS  1000000

struct group {
	int events, freeze;
	bool frozen; /* as it was when the round began */
};

static struct group groups[GROUPS_MAX];
static int count;

static int open_in(const char *directory, const char *file, int flags)
{
	char path[4096];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", directory, file);
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		err(1, "open '%s'", path);
	return fd;
}

static bool is_frozen(const struct group *g)
{
	char text[256];
	ssize_t n = pread(g->events, text, sizeof(text) - 1, 0);

	if (n < 0)
		err(1, "read cgroup.events");
	text[n] = '\0';
	return strstr(text, "frozen 1") != NULL;
}

static int64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 * NS_PER_MS + t.tv_nsec;
}

static void sleep_ns(int64_t ns)
{
	const struct timespec t = {
		.tv_sec = ns / (1000 * NS_PER_MS), .tv_nsec = ns % (1000 * NS_PER_MS)};

	if (ns > 0)
		(void)nanosleep(&t, NULL);
}

/* Those that were in that state are in the other one. */
static void wait_for(bool was_frozen, int64_t end_ns)
{
	int i;

	for (i = 0; i < count;) {
		if (groups[i].frozen != was_frozen || is_frozen(&groups[i]) != was_frozen) {
			i++;
			continue;
		}
		if (now_ns() > end_ns)
			errx(1, "group %d of %d is %s after %d s", i, count,
				was_frozen ? "still frozen" : "not frozen", TOO_LONG_S);
		sleep_ns(READ_US * 1000);
	}
}

static void write_all(bool was_frozen)
{
	int i;

	for (i = 0; i < count; i++) {
		if (groups[i].frozen == was_frozen &&
			pwrite(groups[i].freeze, was_frozen ? "0" : "1", 1, 0) != 1)
			err(1, "write cgroup.freeze");
	}
}

static void see_all(void)
{
	int i;

	for (i = 0; i < count; i++)
		groups[i].frozen = is_frozen(&groups[i]);
}

/* Returns when the next slice begins, at that time; where this program was too late, another one.
 */
static int64_t see_before_slice(int64_t slice_ns)
{
	int64_t begin_ns;

	do {
		begin_ns = now_ns();
		begin_ns += slice_ns - begin_ns % slice_ns;
		sleep_ns(begin_ns - now_ns() - EARLY_MS * (int64_t)NS_PER_MS);
		see_all();
	} while (now_ns() >= begin_ns);
	sleep_ns(begin_ns - now_ns());
	return begin_ns;
}

static int64_t see_and_stop(void)
{
	int64_t begin_ns;

	see_all();
	begin_ns = now_ns();
	write_all(false);
	return begin_ns;
}

int main(int argc, char **argv)
{
	int64_t slice_ns = argc > 3 ? 1000 * (int64_t)NS_PER_MS * atoi(argv[1]) : 0;
	int64_t begun_ns, end_ns;
	int rounds = argc > 3 ? atoi(argv[2]) : 0;

	if (rounds < 1 || argc - 3 > GROUPS_MAX)
		errx(2, "slicetime SECONDS ROUNDS GROUP...");
	for (count = 0; count < argc - 3; count++) {
		groups[count].events = open_in(argv[count + 3], "cgroup.events", O_RDONLY);
		groups[count].freeze = open_in(argv[count + 3], "cgroup.freeze", O_WRONLY);
	}
	while (rounds-- > 0) {
		if (slice_ns > 0)
			begun_ns = see_before_slice(slice_ns);
		else
			begun_ns = see_and_stop();
		end_ns = begun_ns + TOO_LONG_S * 1000 * (int64_t)NS_PER_MS;
		wait_for(false, end_ns);
		if (slice_ns == 0)
			write_all(true);
		wait_for(true, end_ns);
		(void)printf("%.1f\n", (double)(now_ns() - begun_ns) / NS_PER_MS);
		(void)fflush(stdout);
	}
	return 0;
}
