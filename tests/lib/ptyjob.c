/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ptyjob [-o] PROGRAM [ARG...]: runs PROGRAM as the foreground job of a small shell with job
 * control on a terminal of its own; with -o without a shell, as the leader of the terminal's
 * session, whose process group is an orphaned one. SIGUSR1 types ^Z, SIGUSR2 is the shell's fg.
 * Prints "stopped" on standard output and "exited N" of the job; the terminal's output is thrown
 * away.
 */
#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

static void die(const char *what)
{
	(void)dprintf(STDERR_FILENO, "ptyjob: %s: %s\n", what, strerror(errno));
	_exit(2);
}

static void execute(char **argv)
{
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)execvp(argv[0], argv);
	die(argv[0]);
}

static void foreground(pid_t job)
{
	if (tcsetpgrp(STDIN_FILENO, job) < 0)
		die("tcsetpgrp");
}

/* On the terminal. commands: a byte is fg. */
static void be_shell(char **argv, int commands, int out)
{
	int status;
	char byte;
	pid_t job;

	(void)signal(SIGTTOU, SIG_IGN);
	(void)signal(SIGTSTP, SIG_IGN);
	job = fork();
	if (job < 0)
		die("fork");
	if (job == 0) {
		(void)setpgid(0, 0);
		foreground(getpid());
		(void)signal(SIGTTOU, SIG_DFL);
		(void)signal(SIGTSTP, SIG_DFL);
		execute(argv);
	}
	(void)setpgid(job, job);
	while (waitpid(job, &status, WUNTRACED) == job) {
		if (!WIFSTOPPED(status)) {
			(void)dprintf(out, "exited %d\n",
				WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
			_exit(0);
		}
		foreground(getpid());
		(void)dprintf(out, "stopped\n");
		if (read(commands, &byte, 1) != 1)
			break;
		foreground(job);
		(void)kill(-job, SIGCONT);
	}
	_exit(0);
}

static int catch_signals(void)
{
	sigset_t set;
	int fd;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGUSR1);
	(void)sigaddset(&set, SIGUSR2);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		die("sigprocmask");
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (fd < 0)
		die("signalfd");
	return fd;
}

/* Until the terminal has no user any more. */
static void serve(int terminal, int signals, int commands)
{
	struct pollfd p[] = {{.fd = terminal, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
	struct signalfd_siginfo info;
	char text[512];

	for (;;) {
		if (poll(p, 2, -1) < 0)
			die("poll");
		if (p[0].revents && read(terminal, text, sizeof(text)) <= 0)
			return;
		if (!p[1].revents || read(signals, &info, sizeof(info)) != sizeof(info))
			continue;
		if (info.ssi_signo == SIGUSR1)
			(void)!write(terminal, "\032", 1);
		else
			(void)!write(commands, "", 1);
	}
}

int main(int argc, char **argv)
{
	int terminal, out = dup(STDOUT_FILENO), commands[2], signals, status, orphaned;
	pid_t child;

	orphaned = argc > 1 && strcmp(argv[1], "-o") == 0;
	argv += 1 + orphaned;
	if (!argv[0] || out < 0 || pipe(commands) < 0)
		die("usage: ptyjob [-o] PROGRAM [ARG...]");
	signals = catch_signals();
	child = forkpty(&terminal, NULL, NULL, NULL);
	if (child < 0)
		die("forkpty");
	if (child == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGHUP);
		(void)close(commands[1]);
		if (orphaned)
			execute(argv);
		be_shell(argv, commands[0], out);
	}
	serve(terminal, signals, commands[1]);
	if (waitpid(child, &status, 0) == child && orphaned)
		(void)dprintf(out, "exited %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 255);
	return 0;
}
