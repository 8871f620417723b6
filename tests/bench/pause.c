/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pause N: N processes, this one included, that wait to be ended. For lists of them; it writes a
 * line when all are there.
 */
#include <err.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1, i;
	pid_t pid = 1;

	for (i = 1; i < n && pid > 0; i++) {
		pid = fork();
		if (pid < 0)
			err(1, "fork");
	}
	if (pid > 0)
		(void)!write(STDOUT_FILENO, "all\n", 4);
	for (;;)
		pause();
}
