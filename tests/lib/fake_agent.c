/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/lib/fake_agent.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALL_SIZE_MAX (1u << 20)

static int listen_below(const char *runtime, int backlog)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char path[4096];
	int dir_fd, fd;

	(void)snprintf(path, sizeof(path), "%s/n1_7.0", runtime);
	dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		err(99, "open '%s'", path);
	(void)snprintf(
		address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/socket", dir_fd);
	(void)unlinkat(dir_fd, "socket", 0); /* of one before */
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		fchmodat(dir_fd, "socket", 0666, 0) < 0 || listen(fd, backlog) < 0)
		err(99, "listen at '%s/socket'", path);
	(void)close(dir_fd);
	return fd;
}

_Noreturn static void serve(const char *runtime, fake_script_fn script, uid_t uid, int ready_fd)
{
	int fd, client;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* where a test fails */
	if (uid && (chmod(runtime, 0777) < 0 || setresuid(uid, uid, uid) < 0))
		_exit(98);
	fd = listen_below(runtime, script ? 8 : 0);
	if (write(ready_fd, "r", 1) != 1)
		_exit(98);
	while (!script)
		pause();
	for (;;) {
		client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (client < 0)
			_exit(98);
		script(client);
		(void)close(client);
	}
}

struct fake_agent fake_agent_start(const char *runtime, fake_script_fn script, uid_t uid)
{
	struct fake_agent agent = {0};
	char path[4096], byte;
	int ready[2];

	(void)snprintf(path, sizeof(path), "%s/n1_7.0", runtime);
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		err(99, "make '%s'", path);
	if (pipe(ready) < 0)
		err(99, "pipe");
	if (uid && chown(path, uid, (gid_t)-1) < 0)
		err(99, "chown '%s'", path);
	agent.pid = fork();
	if (agent.pid < 0)
		err(99, "fork");
	if (agent.pid == 0) {
		(void)close(ready[0]);
		serve(runtime, script, uid, ready[1]);
	}
	(void)close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		errx(99, "the fake agent does not listen");
	(void)close(ready[0]);
	return agent;
}

void fake_agent_stop(struct fake_agent *agent)
{
	if (agent->pid <= 0)
		return;
	(void)kill(agent->pid, SIGKILL);
	while (waitpid(agent->pid, NULL, 0) < 0 && errno == EINTR)
		;
	agent->pid = 0;
}

/* ---- words for scripts --------------------------------------------------------------------- */

char *fake_hear(int fd)
{
	char *text = malloc(CALL_SIZE_MAX);
	size_t size = 0;

	while (text && size < CALL_SIZE_MAX && read(fd, text + size, 1) == 1) {
		if (text[size++] == '\0')
			return text;
	}
	free(text);
	return NULL;
}

void fake_send(int fd, const void *data, size_t size)
{
	const char *p = data;
	ssize_t n;

	while (size > 0) {
		n = send(fd, p, size, MSG_NOSIGNAL);
		if (n < 0)
			return; /* the client need not take it */
		p += n;
		size -= (size_t)n;
	}
}

void fake_answer(int fd, const char *text)
{
	fake_send(fd, text, strlen(text) + 1);
}

void fake_exchange(int fd, const char *text)
{
	char *call = fake_hear(fd);

	if (call)
		fake_answer(fd, text);
	free(call);
}

void fake_rest(int fd)
{
	char byte;

	while (read(fd, &byte, 1) == 1)
		;
}
