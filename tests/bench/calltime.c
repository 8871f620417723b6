/* SPDX-License-Identifier: BSD-3-Clause
 *
 * calltime [ROUNDS]: what a call of the control socket costs that does nothing, beside the same
 * number of bytes there and back over a bare socket pair, where a process that only reads and
 * writes answers. In turn, 100 of each, so that both see the same load. Prints medians of ROUNDS.
 */
#include <err.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include <ev.h>
#include <jansson.h>

#include "stepd/base/err.h"
#include "stepd/control/control.h"

#define CALLS 100

static const char call_text[] =
	"{\"method\":\"io.stepd.Step.Find\",\"parameters\":{\"pid\":12345}}";
static const char answer_text[] = "{\"parameters\":{\"pid\":12345}}";

static void run_find(struct control_call *call, const json_t *parameters, void *userdata)
{
	(void)userdata;
	control_reply_take(call,
		json_pack("{s:I}", "pid", json_integer_value(json_object_get(parameters, "pid"))),
		true);
}

static const struct control_method methods[] = {
	{.name = "Find",
		.access = CONTROL_OPERATOR,
		.parameters = {{"pid", CONTROL_INT, false}},
		.run = run_find},
};

static void serve(const char *dir, int ready_fd)
{
	const struct log log = {.fd = 2, .most = LOG_LEVEL_WARNING, .ident = "calltime"};
	struct control_options options = {.loop = ev_loop_new(EVFLAG_NOENV),
		.log = &log,
		.dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
		.path = dir,
		.methods = methods,
		.methods_count = ARRAY_SIZE(methods),
		.interface = "io.stepd.Step",
		.operator_gid = (gid_t)-1};
	struct control *control;
	struct err error = ERR_INIT;

	if (control_open(&options, &control, &error) < 0)
		errx(1, "%s", error.text);
	(void)close(ready_fd);
	(void)ev_run(options.loop, 0);
}

/* Answers as many bytes as the service would. */
static void echo(int fd)
{
	char buf[4096];

	while (recv(fd, buf, sizeof(buf), 0) > 0) {
		if (send(fd, answer_text, sizeof(answer_text), MSG_NOSIGNAL) < 0)
			break;
	}
}

static double now_us(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static double time_calls(int fd)
{
	const double begin = now_us();
	char buf[4096];
	int i;

	for (i = 0; i < CALLS; i++) {
		if (send(fd, call_text, sizeof(call_text), 0) != sizeof(call_text) ||
			recv(fd, buf, sizeof(buf), 0) != sizeof(answer_text) ||
			memcmp(buf, answer_text, sizeof(answer_text)) != 0)
			errx(1, "a wrong answer");
	}
	return (now_us() - begin) / CALLS;
}

static pid_t fork_child(void)
{
	pid_t pid = fork();

	if (pid < 0)
		err(1, "fork");
	if (pid == 0)
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static int connect_service(const char *dir)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/socket", dir);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		err(1, "connect '%s'", sa.sun_path);
	return fd;
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare);
	return values[n / 2];
}

/* Forks the service; returns when it listens. */
static pid_t begin_service(const char *dir)
{
	char byte;
	int ready[2];
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC) < 0)
		err(1, "pipe");
	pid = fork_child();
	if (pid == 0)
		serve(dir, ready[1]);
	(void)close(ready[1]);
	if (read(ready[0], &byte, 1) != 0)
		err(1, "wait for the service");
	(void)close(ready[0]);
	return pid;
}

static pid_t begin_bare(int *ret_fd)
{
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		err(1, "socketpair");
	pid = fork_child();
	if (pid == 0) {
		(void)close(pair[0]);
		echo(pair[1]);
		_exit(0);
	}
	(void)close(pair[1]);
	*ret_fd = pair[0];
	return pid;
}

static void end_child(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

static void measure(int bare_fd, int fd, size_t rounds)
{
	double *bare = calloc(rounds, sizeof(*bare)), *calls = calloc(rounds, sizeof(*calls));
	double bare_us, call_us;
	size_t i;

	if (!bare || !calls)
		err(1, "memory");
	for (i = 0; i < rounds; i++) {
		bare[i] = time_calls(bare_fd);
		calls[i] = time_calls(fd);
	}
	bare_us = median(bare, rounds);
	call_us = median(calls, rounds);
	printf("%zu rounds of %d: bare pair %.1f us, call %.1f us, ratio %.2f\n", rounds, CALLS,
		bare_us, call_us, call_us / bare_us);
	free(bare);
	free(calls);
}

int main(int argc, char **argv)
{
	const int rounds = argc > 1 ? atoi(argv[1]) : 200;
	char dir[] = "/tmp/stepd-bench.XXXXXX", path[64];
	pid_t server, peer;
	int bare_fd;

	if (rounds < 1 || !mkdtemp(dir))
		err(1, "calltime [ROUNDS]");
	server = begin_service(dir);
	peer = begin_bare(&bare_fd);
	measure(bare_fd, connect_service(dir), (size_t)rounds);
	end_child(server);
	end_child(peer);
	(void)snprintf(path, sizeof(path), "%s/socket", dir);
	(void)unlink(path);
	(void)rmdir(dir);
	return 0;
}
