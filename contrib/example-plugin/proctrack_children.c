/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proctrack/children: a site's own tracker, for nodes without cgroup v2 and with very many
 * processes. The container is the descendants of the agent, its id the agent's pid, as with
 * proctrack/linuxproc; but the tree is walked downwards through the kernel's lists of children
 * (/proc/PID/task/TID/children), so the cost is that of the step, not that of the whole machine.
 *
 * Limits: a process that was not forked below the agent can't be added, and one that forks faster
 * than the lists are read outruns a signal.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <stepd/proctrack.h>

#define PASSES_MAX 100

const char plugin_type[] = "proctrack/children";
const char plugin_name[] = "Process tracking by the kernel's lists of children";
const uint32_t plugin_version = STEPD_API_VERSION;

/* A pid alone may be another process's tomorrow; with the time of its start it is not. */
struct proc {
	pid_t pid, parent;
	unsigned long long start;
};

struct set {
	struct proc *v;
	size_t n, capacity;
};

/* The agent's step while a container stands; the interface has no handle. */
static const stepd_step_rec_t *own;

/* Children of the agent that are none of the step's. */
static int is_agents_own(uint64_t id, pid_t pid)
{
	return own && own->cont_id == id &&
		(pid == own->service_pid || pid == own->worker_pid || pid == own->holder_pid);
}

static int fail(int code)
{
	errno = code;
	return SLURM_ERROR;
}

/* ESRCH: there is no such process, or only a zombie is left of it. */
static int read_proc(pid_t pid, struct proc *p)
{
	char name[64], text[1024], state;
	const char *after;
	int threads;
	FILE *f;

	(void)snprintf(name, sizeof(name), "/proc/%d/stat", (int)pid);
	f = fopen(name, "re");
	if (!f)
		return fail(errno == ENOENT ? ESRCH : errno);
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	(void)fclose(f);
	/* The name before may hold ") R 1" and anything else: count from the last parenthesis. */
	after = strrchr(text, ')');
	if (!after ||
		sscanf(after, ") %c %d%*d%*d%*d%*d%*u%*u%*u%*u%*u%*u%*u%*d%*d%*d%*d%d%*d%llu",
			&state, &p->parent, &threads, &p->start) != 4)
		return fail(ESRCH); /* it ended while we read */
	p->pid = pid;
	return (state == 'Z' || state == 'X') && threads <= 1 ? fail(ESRCH) : SLURM_SUCCESS;
}

static int is_alive(const struct proc *p)
{
	struct proc now;

	return read_proc(p->pid, &now) == 0 && now.start == p->start;
}

/* Through a pidfd, so that the process that is checked is the one that is hit. */
static int send_signal(const struct proc *p, int signal)
{
	int fd = (int)syscall(SYS_pidfd_open, p->pid, 0), code = ESRCH;

	if (fd < 0)
		return SLURM_ERROR;
	if (is_alive(p))
		code = syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0) < 0 ? errno : 0;
	(void)close(fd);
	return code ? fail(code) : SLURM_SUCCESS;
}

/* ---- the tree --------------------------------------------------------------------------- */

static int add_member(struct set *set, pid_t pid)
{
	struct proc p, *grown;
	size_t i;

	if (read_proc(pid, &p) < 0)
		return 0; /* gone already */
	for (i = 0; i < set->n; i++) {
		if (set->v[i].pid == pid && set->v[i].start == p.start)
			return 0;
	}
	if (set->n == set->capacity) {
		grown = realloc(set->v, (set->capacity + 64) * 2 * sizeof(*grown));
		if (!grown)
			return fail(ENOMEM);
		set->v = grown;
		set->capacity = (set->capacity + 64) * 2;
	}
	set->v[set->n++] = p;
	return 0;
}

/* Children belong to the thread that forked them: each thread has its own list. */
static int add_children(struct set *set, pid_t parent, uint64_t id)
{
	char name[320];
	struct dirent *de;
	DIR *tasks;
	FILE *f;
	int pid, r = 0;

	(void)snprintf(name, sizeof(name), "/proc/%d/task", (int)parent);
	tasks = opendir(name);
	while (tasks && r == 0 && (de = readdir(tasks))) {
		(void)snprintf(
			name, sizeof(name), "/proc/%d/task/%s/children", (int)parent, de->d_name);
		f = fopen(name, "re"); /* fails for "." and "..", and for what has ended */
		while (f && r == 0 && fscanf(f, "%d", &pid) == 1)
			r = is_agents_own(id, pid) ? 0 : add_member(set, pid);
		if (f)
			(void)fclose(f);
	}
	if (tasks)
		(void)closedir(tasks);
	return r;
}

/* Walks down the tree until nothing new appears, for a list is no snapshot: the children of a
 * process that ends behind us become the agent's. Sends signal, unless 0, to each member once. */
static int sweep(struct set *set, uint64_t id, int signal)
{
	size_t before, i, sent = 0;
	int pass = 0, code = 0;
	struct proc agent;

	if (id == 0 || id > INT_MAX || (id == (uint64_t)getpid() && !own))
		return fail(ESRCH);
	if (read_proc((pid_t)id, &agent) < 0)
		return SLURM_ERROR;
	do {
		before = set->n;
		if (add_children(set, agent.pid, id) < 0)
			return SLURM_ERROR;
		for (i = 0; i < set->n; i++) { /* the set is its own queue */
			if (add_children(set, set->v[i].pid, 0) < 0)
				return SLURM_ERROR;
		}
		for (; signal && sent < set->n; sent++) {
			if (send_signal(&set->v[sent], signal) < 0 && errno != ESRCH)
				code = errno;
		}
	} while (set->n > before && ++pass < PASSES_MAX);
	return code ? fail(code) : SLURM_SUCCESS;
}

static int is_below(uint64_t id, pid_t pid)
{
	struct proc p = {.parent = pid};

	while (p.parent > 1 && !is_agents_own(id, p.parent) && read_proc(p.parent, &p) == 0) {
		if ((uint64_t)p.parent == id)
			return 1;
	}
	return 0;
}

/* ---- the plugin ------------------------------------------------------------------------- */

int proctrack_p_create(stepd_step_rec_t *job)
{
	if (own)
		return fail(EEXIST);
	own = job;
	job->cont_id = (uint64_t)getpid();
	return SLURM_SUCCESS;
}

int proctrack_p_add(stepd_step_rec_t *job, pid_t pid)
{
	struct proc p;

	if (is_below(job->cont_id, pid))
		return SLURM_SUCCESS;
	return read_proc(pid, &p) == 0 ? fail(EOPNOTSUPP) : SLURM_ERROR;
}

int proctrack_p_signal(uint64_t id, int signal)
{
	struct set set = {0};
	int r = signal < 0 || signal > SIGRTMAX ? fail(EINVAL) : sweep(&set, id, signal);

	free(set.v);
	return r == 0 && set.n == 0 ? fail(ESRCH) : r;
}

int proctrack_p_destroy(uint64_t id)
{
	if (!own || own->cont_id != id)
		return fail(ESRCH);
	own = NULL;
	return SLURM_SUCCESS;
}

uint64_t proctrack_p_find(pid_t pid)
{
	return own && is_below(own->cont_id, pid) ? own->cont_id : 0;
}

uint32_t proctrack_p_get_pids(uint64_t cont_id, pid_t **pids, int *npids)
{
	struct set set = {0};
	pid_t *list = NULL;
	size_t i;
	int n = 0, r = sweep(&set, cont_id, 0);

	if (r == 0 && set.n > 0 && !(list = calloc(set.n, sizeof(*list))))
		r = fail(ENOMEM);
	for (i = 0; list && i < set.n; i++) {
		if (is_alive(&set.v[i]))
			list[n++] = set.v[i].pid;
	}
	free(set.v);
	if (n == 0) {
		free(list);
		list = NULL;
	}
	*pids = list;
	*npids = n;
	return (uint32_t)r;
}

int init(void)
{
	return SLURM_SUCCESS;
}

void fini(void)
{
	own = NULL;
}

int plugin_probe(char *text, size_t size)
{
	if (access("/proc/thread-self/children", R_OK) < 0) {
		(void)snprintf(text, size, "no lists of children here: %s", strerror(errno));
		return SLURM_ERROR;
	}
	(void)snprintf(text, size,
		"descent from the agent, at the cost of the step alone; what forks and exits quickly "
		"can outrun a signal");
	return SLURM_SUCCESS;
}
