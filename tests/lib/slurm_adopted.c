/* SPDX-License-Identifier: BSD-3-Clause
 *
 *	slurm_adopted SOCKET VERSION PROGRAM [ARG...]
 *
 * Adds itself to the extern step with that socket, as pam_slurm_adopt adds a login, and executes
 * the program. For the VM, which has no Python.
 */
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ADD_PID 22

static int32_t take(int fd)
{
	int32_t number;

	if (recv(fd, &number, sizeof(number), MSG_WAITALL) != (ssize_t)sizeof(number))
		errx(1, "the step has closed the connection");
	return number;
}

int main(int argc, char **argv)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int32_t version, request[2] = {ADD_PID, (int32_t)getpid()}, result;

	if (argc < 4 || strlen(argv[1]) >= sizeof(address.sun_path))
		errx(2, "usage: slurm_adopted SOCKET VERSION PROGRAM [ARG...]");
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", argv[1]);
	version = atoi(argv[2]);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		err(1, "connect to '%s'", argv[1]);
	if (send(fd, &version, sizeof(version), 0) < 0)
		err(1, "send the version");
	(void)take(fd);
	if (send(fd, request, sizeof(request), 0) < 0)
		err(1, "send the request");
	result = take(fd);
	if (result)
		errx(1, "the step does not take this process: %d", result);
	(void)execvp(argv[3], argv + 3);
	err(127, "execute '%s'", argv[3]);
}
