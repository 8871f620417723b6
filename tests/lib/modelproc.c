/* SPDX-License-Identifier: BSD-3-Clause
 *
 * modelproc SOCKET: a process of the model test (model.py), which executes commands that it gets
 * over a socket of its own, and so does every process that it forks. It introduces itself with
 * "hello RANK" (-1: no task). Then, one packet each way:
 *
 *	fork            a child: "ok PID"
 *	daemon          a grandchild in a session of its own, whose parent has ended: "ok"
 *	setpgid         into a process group of its own: "ok"
 *	setsid          into a session of its own: "ok", or "no" if it leads a group
 *	name TEXT       calls itself that: "ok"
 *	leaderless      its first thread ends, another one goes on: "ok"
 *	count           how many SIGRTMIN+1 it has had: "ok N"
 *	exit STATUS     no answer
 */
#include <err.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define PACKET_MAX 256

static const char *socket_path;
static int sock = -1;
static atomic_int signals;

__attribute__((noreturn)) static void serve(void);

static void on_signal(int signal)
{
	(void)signal;
	atomic_fetch_add(&signals, 1);
}

static void answer(const char *text)
{
	if (send(sock, text, strlen(text), MSG_NOSIGNAL) < 0)
		_exit(0); /* the model is gone */
}

static void introduce(const char *rank)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	char text[32];

	if (sock >= 0)
		(void)close(sock);
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0)
		err(99, "socket");
	(void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", socket_path);
	if (connect(sock, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		err(99, "connect to '%s'", socket_path);
	(void)snprintf(text, sizeof(text), "hello %s", rank);
	answer(text);
}

static pid_t must_fork(void)
{
	pid_t pid = fork();

	if (pid < 0)
		err(99, "fork");
	if (pid == 0)
		atomic_store(&signals, 0);
	return pid;
}

static void do_fork(void)
{
	char text[32];
	pid_t pid = must_fork();

	if (pid == 0) {
		introduce("-1");
		return;
	}
	(void)snprintf(text, sizeof(text), "ok %d", (int)pid);
	answer(text);
}

static void do_daemon(void)
{
	pid_t pid = must_fork();

	if (pid > 0) {
		while (waitpid(pid, NULL, 0) < 0)
			;
		answer("ok");
		return;
	}
	if (setsid() < 0)
		err(99, "setsid");
	if (must_fork() > 0)
		_exit(0);
	introduce("-1");
}

static void do_count(void)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "ok %d", atomic_load(&signals));
	answer(text);
}

static void *go_on(void *userdata)
{
	pthread_t first = *(pthread_t *)userdata;

	if (pthread_join(first, NULL) != 0)
		_exit(99);
	answer("ok");
	serve();
}

static void do_leaderless(void)
{
	static pthread_t first;
	pthread_t thread;

	first = pthread_self();
	if (pthread_create(&thread, NULL, go_on, &first) != 0)
		errx(99, "no thread");
	pthread_exit(NULL);
}

static void obey(const char *command)
{
	if (strcmp(command, "fork") == 0)
		do_fork();
	else if (strcmp(command, "daemon") == 0)
		do_daemon();
	else if (strcmp(command, "setpgid") == 0)
		answer(setpgid(0, 0) < 0 ? "no" : "ok");
	else if (strcmp(command, "setsid") == 0)
		answer(setsid() < 0 ? "no" : "ok");
	else if (strncmp(command, "name ", 5) == 0)
		answer(prctl(PR_SET_NAME, command + 5) < 0 ? "no" : "ok");
	else if (strcmp(command, "leaderless") == 0)
		do_leaderless();
	else if (strcmp(command, "count") == 0)
		do_count();
	else if (strncmp(command, "exit ", 5) == 0)
		_exit(atoi(command + 5));
	else
		answer("what");
}

static void serve(void)
{
	char command[PACKET_MAX];
	ssize_t n;

	for (;;) {
		n = recv(sock, command, sizeof(command) - 1, 0);
		if (n <= 0)
			_exit(0); /* the model is gone */
		command[n] = '\0';
		obey(command);
	}
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	const char *rank = getenv("SLURM_PROCID");

	if (argc != 2)
		errx(2, "usage: modelproc SOCKET");
	socket_path = argv[1];
	if (sigaction(SIGRTMIN + 1, &action, NULL) < 0)
		err(99, "sigaction");
	introduce(rank ? rank : "-1");
	serve();
}
