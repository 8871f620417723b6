/* SPDX-License-Identifier: BSD-3-Clause
 *
 * hostile MODE [ARGUMENT...]: processes that a tracker finds hard, for the contract suite.
 *
 * Each process that the suite shall know writes its pid, four bytes, to stdout once it is what it
 * is to be, and those of chains and bomb -1 if they come to their natural end. None lives longer
 * than a minute, so that a test that dies leaves nothing for long.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIFETIME_S 60

__attribute__((noreturn)) static void fail(const char *what)
{
	perror(what);
	_exit(1);
}

static void report_as(int32_t pid)
{
	if (write(STDOUT_FILENO, &pid, sizeof(pid)) != sizeof(pid))
		_exit(1); /* the suite is gone */
}

static void report(void)
{
	report_as((int32_t)getpid());
}

__attribute__((noreturn)) static void rest(void)
{
	alarm(LIFETIME_S);
	for (;;)
		pause();
}

static pid_t must_fork(void)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	return pid;
}

static int64_t now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* rest [N]: with N - 1 children. */
static void mode_rest(int argc, char **argv)
{
	int n = argc > 0 ? atoi(argv[0]) : 1, i;

	for (i = 1; i < n; i++) {
		if (must_fork() == 0)
			break;
	}
	report();
	rest();
}

/* live MS: ends by itself. */
static void mode_live(int argc, char **argv)
{
	report();
	(void)poll(NULL, 0, argc > 0 ? atoi(argv[0]) : 0);
}

/* name NAME: called that, with a child. */
static void mode_name(int argc, char **argv)
{
	if (argc != 1 || prctl(PR_SET_NAME, argv[0]) < 0)
		fail("PR_SET_NAME");
	(void)must_fork();
	report();
	rest();
}

/* daemon: ends, and leaves one that forked twice and has its own session, with a child. */
static void mode_daemon(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	if (must_fork() != 0)
		return;
	if (setsid() < 0)
		fail("setsid");
	if (must_fork() != 0)
		return;
	(void)must_fork();
	report();
	rest();
}

/* group: stays, and has a child in a group of its own. */
static void mode_group(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	if (must_fork() == 0 && setpgid(0, 0) < 0)
		fail("setpgid");
	report();
	rest();
}

/* chains N: N times a process that forks and ends at once, for 50 seconds. Nice, since on few
 * cores they would not let the suite run before their zombies have used up the pids. */
static void mode_chains(int argc, char **argv)
{
	int n = argc > 0 ? atoi(argv[0]) : 1, i;
	int64_t end = now_ms() + 50000;

	errno = 0;
	if (nice(10) == -1 && errno)
		fail("nice");
	for (i = 0; i < n; i++) {
		if (must_fork() != 0)
			continue;
		report();
		while (now_ms() < end) {
			if (must_fork() != 0)
				_exit(0);
		}
		report_as(-1);
		_exit(0);
	}
}

/* bomb N: every process forks, and so do those, until there were N; for 50 seconds. Each takes
 * a breath between two forks, so that it goes on long enough for a kill to fall into it. */
static void mode_bomb(int argc, char **argv)
{
	atomic_int *count = mmap(
		NULL, sizeof(*count), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int n = argc > 0 ? atoi(argv[0]) : 1;
	int64_t end = now_ms() + 50000;

	if (count == MAP_FAILED)
		fail("mmap");
	while (now_ms() < end) {
		if (atomic_fetch_add(count, 1) < n && must_fork() == 0)
			report();
		(void)poll(NULL, 0, 3);
	}
	report_as(-1);
}

/* stopped: stops itself. */
static void mode_stopped(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	report();
	(void)raise(SIGSTOP);
	rest();
}

/* traced: has a child that it holds in a ptrace stop. */
static void mode_traced(int argc, char **argv)
{
	pid_t child = must_fork();

	(void)argc;
	(void)argv;
	if (child == 0)
		rest();
	if (ptrace(PTRACE_ATTACH, child, NULL, NULL) < 0)
		fail("PTRACE_ATTACH");
	if (waitpid(child, NULL, __WALL) != child)
		fail("waitpid");
	report_as(child);
	report();
	rest();
}

/* traceme: traced by the suite, and stopped. */
static void mode_traceme(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
		fail("PTRACE_TRACEME");
	report();
	(void)raise(SIGSTOP);
	rest();
}

static void *thread_rest(void *userdata)
{
	pthread_t first = *(pthread_t *)userdata;

	if (pthread_join(first, NULL) != 0)
		_exit(1);
	report();
	rest();
}

/* leaderless: the first thread has ended, another goes on; /proc shows a zombie. */
static void mode_leaderless(int argc, char **argv)
{
	static pthread_t first;
	pthread_t thread;

	(void)argc;
	(void)argv;
	first = pthread_self();
	if (pthread_create(&thread, NULL, thread_rest, &first) != 0)
		_exit(1);
	pthread_exit(NULL);
}

__attribute__((noreturn)) static int vfork_child(void *userdata)
{
	report_as((int32_t)getpid());
	report_as(*(int32_t *)userdata);
	for (;;)
		pause();
}

/* vfork: a parent that the kernel holds until its child, which shares its memory, execs. */
static void mode_vfork(int argc, char **argv)
{
	static char stack[65536] __attribute__((aligned(64)));
	int32_t parent = (int32_t)getpid();

	(void)argc;
	(void)argv;
	alarm(LIFETIME_S); /* ends the parent at least */
	if (clone(vfork_child, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, &parent) <
		0)
		fail("clone");
}

__attribute__((noreturn)) static void *thread_spin(void *userdata)
{
	volatile unsigned long *n = userdata;

	for (;;)
		++*n;
}

/* spin: two threads that burn CPU. */
static void mode_spin(int argc, char **argv)
{
	static unsigned long n[2];
	pthread_t thread;

	(void)argc;
	(void)argv;
	alarm(LIFETIME_S);
	if (pthread_create(&thread, NULL, thread_spin, &n[0]) != 0)
		_exit(1);
	report();
	thread_spin(&n[1]);
}

/* count N: N processes, each of which reports once more for each SIGRTMIN that it gets. */
static void mode_count(int argc, char **argv)
{
	int n = argc > 0 ? atoi(argv[0]) : 1, i, sig;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		fail("sigprocmask");
	for (i = 1; i < n; i++) {
		if (must_fork() == 0)
			break;
	}
	alarm(LIFETIME_S);
	report();
	while (sigwait(&set, &sig) == 0)
		report();
}

/* hang: writes from memory whose page never comes, in the kernel, where it looks for fatal signals
 * only: state D, and no freezer stops it. Ends where there is no userfaultfd. */
static void mode_hang(int argc, char **argv)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register reg = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC), ends[2];
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)argc;
	(void)argv;
	alarm(LIFETIME_S);
	reg.range.start = (uintptr_t)page;
	reg.range.len = 4096;
	if (fd < 0 || page == MAP_FAILED || pipe(ends) < 0 || ioctl(fd, UFFDIO_API, &api) < 0 ||
		ioctl(fd, UFFDIO_REGISTER, &reg) < 0)
		fail("userfaultfd");
	(void)!write(ends[1], page, 4096);
}

static const struct {
	const char *name;
	void (*run)(int argc, char **argv);
} modes[] = {
	{"rest", mode_rest},
	{"live", mode_live},
	{"name", mode_name},
	{"daemon", mode_daemon},
	{"group", mode_group},
	{"chains", mode_chains},
	{"bomb", mode_bomb},
	{"stopped", mode_stopped},
	{"traced", mode_traced},
	{"traceme", mode_traceme},
	{"leaderless", mode_leaderless},
	{"vfork", mode_vfork},
	{"spin", mode_spin},
	{"count", mode_count},
	{"hang", mode_hang},
};

int main(int argc, char **argv)
{
	size_t i;

	for (i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(modes[i].name, argv[1]) == 0) {
			modes[i].run(argc - 2, argv + 2);
			return 0;
		}
	}
	(void)fprintf(stderr, "usage: hostile MODE [ARGUMENT...]; see the source\n");
	return 2;
}
