/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a step can't do without, and nothing else: a program that is linked as stepd is and loads
 * two plugins; a directory with the step's files and sockets; four cgroups and one for each task;
 * the tasks, born in them and held until a file tells of them; and the removal of all that. Nothing
 * is checked, read, recorded or served: no launch of stepd's can be faster than this.
 *
 *	barestep DIR GROUP N PROGRAM PLUGIN...
 */
#include <dlfcn.h>
#include <err.h>
#include <ev.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stepd/base/proc.h"
#include "stepd/base/rawcall.h"

extern char **environ;

/* As stepd: few tasks are copies, many share the memory of who makes them. */
#define SHARED_FROM 4
#define STACK_BYTES 16384
#define STATE_BYTES 700
#define SPEC_BYTES  1800

static const char *const files[] = {
	"lock", "spec.json", "state.json", "events.jsonl", "socket.agent", "socket"};
static const char *const groups[] = {"stepd", "job", "step"};
#define GROUPS (sizeof(groups) / sizeof(*groups))

struct task {
	char **argv;
	int gate_fd;
};

static int dir_fd;

static void must(int r, const char *what)
{
	if (r < 0)
		err(1, "%s", what);
}

static int make_file(const char *name, size_t bytes)
{
	static char text[SPEC_BYTES];
	int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	must(fd, name);
	must((int)write(fd, text, bytes), name);
	return fd;
}

/* A reader never sees half of it. */
static void put_state(void)
{
	(void)close(make_file("state.json.new", STATE_BYTES));
	must(renameat(dir_fd, "state.json.new", dir_fd, "state.json"), "rename");
}

static int listen_at(const char *dir, const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	must(fd, "socket");
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", dir, name);
	must(bind(fd, (struct sockaddr *)&address, sizeof(address)), "bind");
	must(listen(fd, 2048), "listen");
	return fd;
}

static int make_group(int parent_fd, const char *name)
{
	int fd;

	must(mkdirat(parent_fd, name, 0755), "mkdir of a cgroup");
	fd = openat(parent_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	must(fd, name);
	return fd;
}

/* No C library: the memory may be another process's, too. */
static void run_task(void *arg)
{
	const struct task *task = arg;
	struct pollfd gate = {.fd = task->gate_fd, .events = POLLIN};

	(void)rawcall(SYS_ppoll, &gate, 1, NULL, NULL, 0);
	(void)rawcall(SYS_execve, task->argv[0], task->argv, environ);
	(void)rawcall(SYS_exit_group, 127);
}

static pid_t copy_one(struct task *task, int cgroup_fd)
{
	struct clone_args args = {
		.exit_signal = SIGCHLD, .flags = CLONE_INTO_CGROUP, .cgroup = (uint64_t)cgroup_fd};
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

	if (pid == 0)
		run_task(task);
	return pid;
}

static pid_t share_one(struct task *task, int cgroup_fd, char *stack)
{
	struct clone how = {.cgroup_fd = cgroup_fd, .stack = stack, .stack_size = STACK_BYTES};
	bool cleared;
	pid_t pid = -1;

	return clone_child(&how, run_task, task, &cleared, &pid) < 0 ? -1 : pid;
}

static void load(const char *path)
{
	if (!dlopen(path, RTLD_NOW | RTLD_LOCAL))
		errx(1, "%s", dlerror());
}

int main(int argc, char **argv)
{
	struct task task = {.argv = (char *[]){argv[4], NULL}};
	int gate[2], group_fd[GROUPS + 1], lock_fd, n, i;
	struct ev_loop *loop;
	json_t *json;
	char *stacks = NULL, name[24];
	pid_t *pids;

	if (argc < 5 || (n = atoi(argv[3])) <= 0)
		errx(2, "Usage: barestep DIR GROUP N PROGRAM PLUGIN...");
	must(mkdir(argv[1], 0755), argv[1]);
	dir_fd = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(dir_fd, argv[1]);
	lock_fd = make_file("lock", 0);
	must(flock(lock_fd, LOCK_EX | LOCK_NB), "flock");
	for (i = 5; i < argc; i++)
		load(argv[i]);
	loop = ev_loop_new(EVFLAG_NOENV);
	json = json_object();
	pids = calloc((size_t)n, sizeof(*pids));
	if (n >= SHARED_FROM)
		stacks = aligned_alloc(4096, (size_t)n * STACK_BYTES);
	if (!loop || !json || !pids || (n >= SHARED_FROM && !stacks))
		errx(1, "no memory");
	(void)close(make_file("spec.json", SPEC_BYTES));
	put_state();
	group_fd[0] = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(group_fd[0], argv[2]);
	for (i = 0; i < (int)GROUPS; i++)
		group_fd[i + 1] = make_group(group_fd[i], groups[i]);
	(void)make_file("events.jsonl", 0);
	(void)listen_at(argv[1], "socket.agent");
	(void)listen_at(argv[1], "socket");
	must(pipe2(gate, O_CLOEXEC), "pipe");
	task.gate_fd = gate[0];
	for (i = 0; i < n; i++) {
		int fd;

		(void)snprintf(name, sizeof(name), "task_%d", i);
		fd = make_group(group_fd[GROUPS], name);
		pids[i] = stacks ? share_one(&task, fd, stacks + (size_t)i * STACK_BYTES)
				 : copy_one(&task, fd);
		must(pids[i], "clone");
		(void)close(fd);
	}
	put_state();
	must((int)write(gate[1], "", 1), "write");
	for (i = 0; i < n; i++)
		must(waitpid(pids[i], NULL, 0), "wait");
	for (i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name), "task_%d", i);
		must(unlinkat(group_fd[GROUPS], name, AT_REMOVEDIR), "rmdir of a cgroup");
	}
	for (i = GROUPS; i > 0; i--)
		must(unlinkat(group_fd[i - 1], groups[i - 1], AT_REMOVEDIR), "rmdir of a cgroup");
	for (i = 0; i < (int)(sizeof(files) / sizeof(*files)); i++)
		must(unlinkat(dir_fd, files[i], 0), files[i]);
	must(rmdir(argv[1]), argv[1]);
	return 0;
}
