/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Times whole commands in turn, A B C A B C ..., so that a machine that grows slow slows all of
 * them, and prints for each the median wall time and the median of its ratios to the last one,
 * pair by pair, and the same of the processor time of the command and all that it has waited for.
 * pairtime [-n ROUNDS] [-i IDLE_MS] [-t TITLE] COMMAND... ; each COMMAND is one argument, split at
 * blanks and executed without a shell; standard output and input are /dev/null.
 *
 * Each is run in a session of its own: where the kernel shares the processors out by sessions
 * (sched_autogroup), what has been started around this program does not count against it.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGS_MAX     64
#define COMMANDS_MAX 8

extern char **environ;

/* In milliseconds. */
struct cost {
	double wall, cpu;
};

/* How each command is run. */
struct how {
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
};

static double now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double timeval_ms(const struct timeval *t)
{
	return (double)t->tv_sec * 1e3 + (double)t->tv_usec / 1e3;
}

static void split(char *command, char **argv)
{
	int n = 0;
	char *save = NULL, *word;

	for (word = strtok_r(command, " ", &save); word && n < ARGS_MAX - 1;
		word = strtok_r(NULL, " ", &save))
		argv[n++] = word;
	argv[n] = NULL;
}

/* False if the command failed: its time would mean nothing. */
static bool run_once(char **argv, const struct how *how, struct cost *cost)
{
	double begin = now_ms();
	struct rusage usage;
	pid_t pid;
	int status, r = posix_spawnp(&pid, argv[0], &how->actions, &how->attributes, argv, environ);

	if (r != 0) {
		fprintf(stderr, "pairtime: %s: %s\n", argv[0], strerror(r));
		exit(1);
	}
	if (wait4(pid, &status, 0, &usage) == pid && status == 0) {
		cost->wall = now_ms() - begin;
		cost->cpu = timeval_ms(&usage.ru_utime) + timeval_ms(&usage.ru_stime);
		return true;
	}
	fprintf(stderr, "pairtime: %s ended with wait status %d\n", argv[0], status);
	return false;
}

/* A launcher that fails now and then on a busy machine is run again, one that always fails not. */
static struct cost run(char **argv, const struct how *how)
{
	struct cost cost;
	int tries;

	for (tries = 0; tries < 5; tries++) {
		if (run_once(argv, how, &cost))
			return cost;
	}
	exit(1);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), compare);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0; /* too short for the kernel's clock */
}

static void report_one(const char *title, const char *name, const struct cost *costs,
	const struct cost *last, int rounds)
{
	double *v = calloc((size_t)rounds * 4, sizeof(*v)), wall;
	int i;

	if (!v)
		exit(1);
	for (i = 0; i < rounds; i++) {
		v[i] = costs[i].wall;
		v[rounds + i] = ratio(costs[i].wall, last[i].wall);
		v[2 * rounds + i] = costs[i].cpu;
		v[3 * rounds + i] = ratio(costs[i].cpu, last[i].cpu);
	}
	wall = median(v, rounds); /* sorts v */
	printf("%-34s %9.2f ms  min %8.2f  max %8.2f  ratio %6.2f  cpu %8.2f ms  ratio %6.2f  %s\n",
		title, wall, v[0], v[rounds - 1], median(v + rounds, rounds),
		median(v + 2 * rounds, rounds), median(v + 3 * rounds, rounds), name);
	free(v);
}

static void open_how(struct how *how)
{
	posix_spawn_file_actions_init(&how->actions);
	posix_spawn_file_actions_addopen(&how->actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&how->actions, 1, "/dev/null", O_WRONLY, 0);
	posix_spawnattr_init(&how->attributes);
	posix_spawnattr_setflags(&how->attributes, POSIX_SPAWN_SETSID);
}

int main(int argc, char **argv)
{
	int rounds = 15, idle_ms = 0, opt, commands, c, i;
	char *names[COMMANDS_MAX], *args[COMMANDS_MAX][ARGS_MAX];
	const char *title = "";
	struct timespec idle;
	struct cost *costs;
	struct how how;

	while ((opt = getopt(argc, argv, "n:i:t:")) != -1) {
		if (opt == 'n')
			rounds = atoi(optarg);
		else if (opt == 'i')
			idle_ms = atoi(optarg);
		else if (opt == 't')
			title = optarg;
		else
			return 2;
	}
	commands = argc - optind;
	if (commands < 1 || commands > COMMANDS_MAX || rounds < 1)
		return 2;
	costs = calloc((size_t)(rounds * commands), sizeof(*costs));
	if (!costs)
		return 1;
	for (c = 0; c < commands; c++) {
		names[c] = strdup(argv[optind + c]);
		split(argv[optind + c], args[c]);
	}
	open_how(&how);
	idle = (struct timespec){idle_ms / 1000, (long)(idle_ms % 1000) * 1000000};
	for (c = 0; c < commands; c++)
		(void)run(args[c], &how); /* a warm-up that does not count */
	for (i = 0; i < rounds; i++) {
		for (c = 0; c < commands; c++) {
			if (idle_ms)
				(void)nanosleep(&idle, NULL);
			costs[c * rounds + i] = run(args[c], &how);
		}
	}
	for (c = 0; c < commands; c++)
		report_one(title, names[c], costs + c * rounds, costs + (commands - 1) * rounds,
			rounds);
	return 0;
}
