/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pmitask: a task that says to its PMI server what the shortest MPI program does, init, a barrier
 * and finalize, by PMI-1's words on PMI_FD.
 *
 * Each is the leader of a session, as hydra makes its tasks: where the kernel schedules by sessions
 * (sched_autogroup), a launcher whose tasks stay in one would have less of a busy machine.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int talk(int fd, const char *request, const char *wanted)
{
	char answer[256];
	size_t have = 0;
	ssize_t n;

	if (write(fd, request, strlen(request)) != (ssize_t)strlen(request))
		return -1;
	while (have < sizeof(answer) && (have == 0 || answer[have - 1] != '\n')) {
		n = read(fd, answer + have, sizeof(answer) - have);
		if (n <= 0)
			return -1;
		have += (size_t)n;
	}
	return strncmp(answer, wanted, strlen(wanted)) == 0 ? 0 : -1;
}

int main(void)
{
	const char *number = getenv("PMI_FD");
	int fd = number ? atoi(number) : -1;

	(void)setsid(); /* hydra's is a leader already */
	if (talk(fd, "cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init") < 0 ||
		talk(fd, "cmd=barrier_in\n", "cmd=barrier_out") < 0 ||
		talk(fd, "cmd=finalize\n", "cmd=finalize_ack") < 0)
		return 1;
	return 0;
}
