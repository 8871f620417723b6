/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a launcher adds before its tasks and after them: the time from its own exec to the first
 * and the last task's, and from the last task's end to its own. execdelay [-n ROUNDS] LAUNCHER
 * [ARG...]; its tasks are to be tests/bench/stamp, whose records come on the standard output.
 * Prints the medians in milliseconds.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/stamp.h"

static uint64_t now_ns(void)
{
	return stamp_take(0).time_ns;
}

static void launch(char **argv, int out)
{
	struct stamp s = {.kind = 'x'};
	int null = open("/dev/null", O_RDONLY);

	if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0)
		_exit(125);
	s.time_ns = now_ns();
	if (write(1, &s, sizeof(s)) != sizeof(s))
		_exit(125);
	execvp(argv[0], argv);
	_exit(127);
}

struct sums {
	uint64_t exec, first, last, end;
	int tasks;
};

static void count(struct sums *t, const struct stamp *s)
{
	if (s->kind == 'x')
		t->exec = s->time_ns;
	if (s->kind == 'b') {
		t->tasks++;
		if (!t->first || s->time_ns < t->first)
			t->first = s->time_ns;
		if (s->time_ns > t->last)
			t->last = s->time_ns;
	}
	if (s->kind == 'e' && s->time_ns > t->end)
		t->end = s->time_ns;
}

/* One round: first, last, tail in milliseconds. */
static int measure(char **argv, double *ret)
{
	struct sums t = {0};
	struct stamp s;
	int fds[2], status;
	uint64_t gone;
	pid_t pid;
	ssize_t n;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0)
		launch(argv, fds[1]);
	(void)close(fds[1]);
	if (pid < 0)
		return -1;
	while ((n = read(fds[0], &s, sizeof(s))) == (ssize_t)sizeof(s))
		count(&t, &s);
	(void)close(fds[0]);
	if (waitpid(pid, &status, 0) != pid || status != 0 || !t.tasks)
		return -1;
	gone = now_ns();
	ret[0] = (double)(t.first - t.exec) / 1e6;
	ret[1] = (double)(t.last - t.exec) / 1e6;
	ret[2] = (double)(gone - t.end) / 1e6;
	return 0;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
	int rounds = 15, opt, i, k;
	double *v[3], one[3];

	while ((opt = getopt(argc, argv, "+n:")) != -1) {
		if (opt == 'n')
			rounds = atoi(optarg);
		else
			return 2;
	}
	if (optind == argc || rounds < 1)
		return 2;
	for (k = 0; k < 3; k++)
		v[k] = calloc((size_t)rounds, sizeof(**v));
	for (i = -1; i < rounds; i++) { /* the first one does not count */
		if (measure(argv + optind, one) < 0) {
			fprintf(stderr, "execdelay: %s did not run as it should\n", argv[optind]);
			return 1;
		}
		for (k = 0; i >= 0 && k < 3; k++)
			v[k][i] = one[k];
	}
	for (k = 0; k < 3; k++)
		qsort(v[k], (size_t)rounds, sizeof(**v), compare);
	printf("exec to first task's exec %8.2f ms, to the last's %8.2f ms, last end to own end %6.2f ms\n",
		v[0][rounds / 2], v[1][rounds / 2], v[2][rounds / 2]);
	return 0;
}
