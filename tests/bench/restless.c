/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tasks that a step's end has to find all processes of:
 *
 *	restless fork N   N lines of processes, each of which lives some milliseconds, leaves a
 *	                  child in a session of its own, and ends
 *	restless leave N  N daemons that ignore SIGTERM, and the task's end; a record of it is
 *	                  added to the file that BENCH_MARK_FILE names
 *
 * "all" is written when they are there. What nobody ends does so after a minute.
 */
#include <err.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/stamp.h"

#define LIFE_S     60
#define FORK_EVERY 5000000 /* ns */

static uint64_t now_ns(void)
{
	return stamp_take(0).time_ns;
}

_Noreturn static void fork_on(void)
{
	const struct timespec piece = {.tv_nsec = FORK_EVERY};
	uint64_t end = now_ns() + LIFE_S * UINT64_C(1000000000);
	pid_t pid = 0;

	while (now_ns() < end) {
		(void)nanosleep(&piece, NULL);
		pid = fork();
		if (pid > 0)
			_exit(0);
		if (pid == 0)
			(void)setsid();
	}
	_exit(0);
}

_Noreturn static void stay(void)
{
	(void)setsid();
	(void)signal(SIGTERM, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN);
	(void)close(STDIN_FILENO); /* the step's streams end with the task */
	(void)close(STDOUT_FILENO);
	(void)close(STDERR_FILENO);
	(void)alarm(LIFE_S);
	for (;;)
		pause();
}

static void note_end(void)
{
	const struct stamp s = stamp_take('e');

	(void)!write(stamp_open(-1), &s, sizeof(s)); /* else the round does not count */
}

int main(int argc, char **argv)
{
	int n = argc == 3 ? atoi(argv[2]) : 0, i;
	pid_t pid;

	if (n < 1)
		errx(2, "usage: restless fork|leave N");
	(void)signal(SIGCHLD, SIG_IGN);
	for (i = 0; i < n; i++) {
		pid = fork();
		if (pid < 0)
			err(1, "fork");
		if (pid == 0)
			strcmp(argv[1], "fork") == 0 ? fork_on() : stay();
	}
	(void)!write(STDOUT_FILENO, "all\n", 4);
	if (strcmp(argv[1], "fork") != 0) {
		note_end();
		return 0;
	}
	(void)alarm(LIFE_S);
	for (;;)
		pause();
}
