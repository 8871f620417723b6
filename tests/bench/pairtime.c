/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Times whole commands in turn, A B C A B C ..., so that a machine that grows slow slows all of
 * them, and prints for each the median wall time and the median of its ratios to the last one,
 * pair by pair. pairtime [-n ROUNDS] [-i IDLE_MS] [-t TITLE] COMMAND... ; each COMMAND is one
 * argument, split at blanks and executed without a shell; standard output and input are /dev/null.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGS_MAX     64
#define COMMANDS_MAX 8

extern char **environ;

static double now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
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

/* One run in milliseconds, negative if the command failed: its time would mean nothing. */
static double run_once(char **argv, posix_spawn_file_actions_t *actions)
{
	double begin = now_ms();
	pid_t pid;
	int status, r = posix_spawnp(&pid, argv[0], actions, NULL, argv, environ);

	if (r != 0) {
		fprintf(stderr, "pairtime: %s: %s\n", argv[0], strerror(r));
		exit(1);
	}
	if (waitpid(pid, &status, 0) == pid && status == 0)
		return now_ms() - begin;
	fprintf(stderr, "pairtime: %s ended with wait status %d\n", argv[0], status);
	return -1;
}

/* A launcher that fails now and then on a busy machine is run again, one that always fails not. */
static double run(char **argv, posix_spawn_file_actions_t *actions)
{
	double ms = -1;
	int tries;

	for (tries = 0; ms < 0 && tries < 5; tries++)
		ms = run_once(argv, actions);
	if (ms < 0)
		exit(1);
	return ms;
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

static void report(const char *title, char **names, double *times, int commands, int rounds)
{
	double *v = calloc((size_t)rounds, sizeof(*v)), ratio, mid;
	int c, i;

	if (!v)
		exit(1);
	for (c = 0; c < commands; c++) {
		for (i = 0; i < rounds; i++)
			v[i] = times[c * rounds + i] / times[(commands - 1) * rounds + i];
		ratio = median(v, rounds);
		for (i = 0; i < rounds; i++)
			v[i] = times[c * rounds + i];
		mid = median(v, rounds); /* sorts v */
		printf("%-34s %9.2f ms  min %8.2f  max %8.2f  ratio %6.2f  %s\n", title, mid, v[0],
			v[rounds - 1], ratio, names[c]);
	}
	free(v);
}

int main(int argc, char **argv)
{
	int rounds = 15, idle_ms = 0, opt, commands, c, i;
	char *names[COMMANDS_MAX], *args[COMMANDS_MAX][ARGS_MAX];
	posix_spawn_file_actions_t actions;
	const char *title = "";
	struct timespec idle;
	double *times;

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
	times = calloc((size_t)(rounds * commands), sizeof(*times));
	for (c = 0; c < commands; c++) {
		names[c] = strdup(argv[optind + c]);
		split(argv[optind + c], args[c]);
	}
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	idle = (struct timespec){idle_ms / 1000, (long)(idle_ms % 1000) * 1000000};
	for (c = 0; c < commands; c++)
		(void)run(args[c], &actions); /* a warm-up that does not count */
	for (i = 0; i < rounds; i++) {
		for (c = 0; c < commands; c++) {
			if (idle_ms)
				(void)nanosleep(&idle, NULL);
			times[c * rounds + i] = run(args[c], &actions);
		}
	}
	report(title, names, times, commands, rounds);
	return 0;
}
