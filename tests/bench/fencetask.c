/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fencetask ROUNDS BYTES: a task that speaks PMI-2 on PMI_FD: each round puts a value of that many
 * bytes and fences. Rank 0 prints the least and the median time of a fence, in us.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_MAX 1000

static int fd;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void write_all(const char *data, size_t size)
{
	ssize_t n;

	for (; size > 0; data += n, size -= (size_t)n) {
		n = write(fd, data, size);
		if (n <= 0)
			fail("write");
	}
}

static void read_all(char *data, size_t size)
{
	ssize_t n;

	for (; size > 0; data += n, size -= (size_t)n) {
		n = read(fd, data, size);
		if (n <= 0)
			fail("read");
	}
}

/* One command, and its answer, which must tell of success. */
static void exchange(const char *command)
{
	char head[24], answer[4096];
	size_t size;

	(void)snprintf(head, sizeof(head), "%-6zu", strlen(command));
	write_all(head, 6);
	write_all(command, strlen(command));
	read_all(head, 6);
	head[6] = '\0';
	size = (size_t)atol(head);
	if (size >= sizeof(answer))
		fail("a long answer");
	read_all(answer, size);
	answer[size] = '\0';
	if (!strstr(answer, "rc=0;")) {
		fprintf(stderr, "%s: %s\n", command, answer);
		exit(1);
	}
}

static void greet(const char *rank)
{
	static const char init[] = "cmd=init pmi_version=2 pmi_subversion=0\n";
	char c = 0, text[128];

	write_all(init, sizeof(init) - 1);
	while (c != '\n')
		read_all(&c, 1);
	(void)snprintf(text, sizeof(text), "cmd=fullinit;pmirank=%s;threaded=FALSE;", rank);
	exchange(text);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now); /* can't fail */
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	const char *text = getenv("PMI_FD"), *rank = getenv("PMI_RANK");
	int rounds = argc > 2 ? atoi(argv[1]) : 0, bytes = argc > 2 ? atoi(argv[2]) : 0, i;
	static uint64_t took[ROUNDS_MAX];
	char *put;

	if (!text || !rank || rounds < 1 || rounds > ROUNDS_MAX || bytes < 1 || bytes > 1 << 20) {
		fprintf(stderr, "usage: stepd run --mpi=pmi2 -- fencetask ROUNDS BYTES\n");
		return 2;
	}
	fd = atoi(text);
	put = malloc((size_t)bytes + 128);
	if (!put)
		fail("malloc");
	greet(rank);
	exchange("cmd=kvs-fence;"); /* all are there */
	for (i = 0; i < rounds; i++) {
		int at = snprintf(put, 128, "cmd=kvs-put;key=k%s-%d;value=", rank, i);

		memset(put + at, 'x', (size_t)bytes);
		put[at + bytes] = ';';
		put[at + bytes + 1] = '\0';
		exchange(put);
		took[i] = now_ns();
		exchange("cmd=kvs-fence;");
		took[i] = now_ns() - took[i];
	}
	exchange("cmd=finalize;");
	qsort(took, (size_t)rounds, sizeof(*took), compare);
	if (strcmp(rank, "0") == 0)
		printf("%.0f %.0f\n", (double)took[0] / 1e3, (double)took[rounds / 2] / 1e3);
	free(put);
	return 0;
}
