/* SPDX-License-Identifier: BSD-3-Clause
 *
 * slurmlist ROUNDS SOCKET: how long the list of a step's pids takes at the step's socket, as
 * scontrol listpids asks for it; the median in microseconds, and how many there are.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/slurmask.h"

static double now_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Each client has a connection of its own. */
static int open_socket(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(address.sun_path))
		errx(1, "'%s' is too long for a socket", path);
	memcpy(address.sun_path, path, strlen(path) + 1);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		err(1, "connect to '%s'", path);
	return fd;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	int rounds = argc == 3 ? atoi(argv[1]) : 0, i, fd;
	uint32_t count = 0;
	double *took, begin;

	if (rounds < 1)
		errx(2, "usage: slurmlist ROUNDS SOCKET");
	took = calloc((size_t)rounds, sizeof(*took));
	if (!took)
		err(1, "memory");
	for (i = 0; i < rounds; i++) {
		begin = now_us();
		fd = open_socket(argv[2]);
		slurm_greet(fd);
		count = slurm_list_pids(fd, NULL);
		took[i] = now_us() - begin;
		(void)close(fd);
	}
	qsort(took, (size_t)rounds, sizeof(*took), by_value);
	(void)printf("%.1f %u\n", took[rounds / 2], count);
	free(took);
	return 0;
}
