/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/bench/slurmask.h"

#include <err.h>
#include <string.h>
#include <unistd.h>

#define PID_IN_CONTAINER 8
#define LIST_PIDS        15
/* 26.11's. One that is older answers with its own, and both requests are the same in all. */
#define VERSION  (46 << 8)
#define PIDS_MAX (1u << 16)

static void send_numbers(int fd, const int32_t *numbers, size_t count)
{
	size_t size = count * sizeof(*numbers);

	if (write(fd, numbers, size) != (ssize_t)size)
		err(1, "ask slurmstepd");
}

static void receive(int fd, void *buf, size_t size)
{
	size_t at = 0;
	ssize_t n;

	while (at < size) {
		n = read(fd, (char *)buf + at, size - at);
		if (n < 0)
			err(1, "read slurmstepd's answer");
		if (n == 0)
			errx(1, "slurmstepd closes the connection in its answer");
		at += (size_t)n;
	}
}

void slurm_greet(int fd)
{
	int32_t version = VERSION;

	send_numbers(fd, &version, 1);
	receive(fd, &version, sizeof(version));
	if (version < 0)
		errx(1, "slurmstepd does not speak the version %d of its protocol", VERSION);
}

uint32_t slurm_list_pids(int fd, pid_t *ret_first)
{
	static uint32_t pids[PIDS_MAX];
	const int32_t request = LIST_PIDS;
	uint32_t count;

	send_numbers(fd, &request, 1);
	receive(fd, &count, sizeof(count));
	if (count > PIDS_MAX)
		errx(1, "slurmstepd lists %u pids; at most %u are measured", count, PIDS_MAX);
	receive(fd, pids, count * sizeof(*pids));
	if (ret_first)
		*ret_first = count ? (pid_t)pids[0] : 0;
	return count;
}

bool slurm_has_pid(int fd, pid_t pid)
{
	const int32_t request[] = {PID_IN_CONTAINER, pid};
	uint8_t has;

	send_numbers(fd, request, 2);
	receive(fd, &has, sizeof(has));
	return has;
}
