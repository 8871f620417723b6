/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/job_cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stepd/base/fs.h"

#define HOLD     "served_"
#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* How often steps that end may remove what this one makes. */
#define RACES_MAX 100

struct job_cgroup {
	int scope_fd, job_fd;
	int hold_fd; /* locked */
	const char *job_name;
	char hold_name[32];
	char *path; /* of the job's, job_name is its end */
};

/* ---- making -------------------------------------------------------------------------------- */

/* Users can't open it, nor lock it. 1: somebody has removed it, or the job's, meanwhile. */
static int try_hold(struct job_cgroup *g)
{
	_cleanup_close_ int job_fd = -1, hold_fd = -1;

	if (mkdirat(g->scope_fd, g->job_name, 0755) < 0 && errno != EEXIST)
		return -errno;
	job_fd = openat(g->scope_fd, g->job_name, OPEN_DIR);
	if (job_fd >= 0 && mkdirat(job_fd, g->hold_name, 0700) < 0 && errno != EEXIST &&
		errno != ENOENT && errno != ENODEV)
		return -errno;
	hold_fd = job_fd < 0 ? -1 : openat(job_fd, g->hold_name, OPEN_DIR);
	if (hold_fd < 0)
		return errno == ENOENT || errno == ENODEV ? 1 : -errno;
	if (flock(hold_fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? 1 : -errno;
	if (faccessat(job_fd, g->hold_name, F_OK, 0) < 0)
		return 1;
	g->job_fd = take_fd(&job_fd);
	g->hold_fd = take_fd(&hold_fd);
	return 0;
}

static int hold(struct job_cgroup *g, struct err *err)
{
	int races, r = 1;

	for (races = 0; races < RACES_MAX && r == 1; races++)
		r = try_hold(g);
	return r ? err_set(err, r < 0 ? r : -EBUSY, "make the job's cgroup '%s'", g->path) : 0;
}

/* ---- limits -------------------------------------------------------------------------------- */

/* slurmd has switched them on for its own steps, as a rule; where one is missing the job's or the
 * agent's limits fail. */
static void switch_on(int fd)
{
	(void)!fs_write(fd, "cgroup.subtree_control", "+memory");
	(void)!fs_write(fd, "cgroup.subtree_control", "+cpuset");
}

static int set_bytes(const struct job_cgroup *g, const char *file, uint64_t bytes, struct err *err)
{
	char text[32];
	int r;

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
	r = fs_write(g->job_fd, file, text);
	return r < 0 ? err_set(err, r, "write '%s' to '%s/%s'", text, g->path, file) : 0;
}

int job_cgroup_set(const struct job_cgroup *g, const struct step_limits *limits, struct err *err)
{
	const struct memory_limits *job = &limits->job;
	int r = set_bytes(g, "memory.high", job->high_bytes, err);

	if (r == 0)
		r = set_bytes(g, "memory.max", job->max_bytes, err);
	if (r == 0 && limits->has_swap)
		r = set_bytes(g, "memory.swap.max", job->swap_bytes, err);
	return r;
}

int job_cgroup_open(
	const struct step_limits *limits, struct job_cgroup **ret_cgroup, struct err *err)
{
	struct job_cgroup *g = calloc(1, sizeof(*g));
	int r = 0;

	if (!g)
		return err_set(err, -ENOMEM, "limit the job");
	g->job_fd = g->hold_fd = -1;
	g->scope_fd = open(limits->scope, OPEN_DIR);
	if (g->scope_fd < 0)
		r = err_set(err, -errno, "open slurmd's scope '%s'", limits->scope);
	g->path = strdup(limits->cgroup_root);
	if (r == 0 && !g->path)
		r = err_set(err, -ENOMEM, "limit the job");
	if (r == 0) {
		g->job_name = strrchr(g->path, '/') + 1;
		(void)snprintf(g->hold_name, sizeof(g->hold_name), HOLD "%d", (int)getpid());
		switch_on(g->scope_fd);
		r = hold(g, err);
	}
	if (r == 0)
		r = job_cgroup_set(g, limits, err);
	if (r < 0)
		g = job_cgroup_close(g);
	else
		*ret_cgroup = g;
	return r;
}

/* ---- removing ------------------------------------------------------------------------------ */

static bool is_hold(const char *name)
{
	return strncmp(name, HOLD, strlen(HOLD)) == 0;
}

/* Calls fn for each group in fd that has such a name. */
static void for_each_group(
	int fd, bool (*has_name)(const char *name), void (*fn)(int fd, const char *name))
{
	int dir_fd = openat(fd, ".", OPEN_DIR);
	_cleanup_closedir_ DIR *dir = dir_fd < 0 ? NULL : fdopendir(dir_fd);
	const struct dirent *e;

	if (!dir) {
		(void)close_fd(dir_fd);
		return;
	}
	while ((e = readdir(dir))) {
		if (e->d_type == DT_DIR && has_name(e->d_name))
			fn(fd, e->d_name);
	}
}

/* One of a program that lives is locked. */
static void remove_hold(int job_fd, const char *name)
{
	_cleanup_close_ int fd = openat(job_fd, name, OPEN_DIR);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
		(void)unlinkat(job_fd, name, AT_REMOVEDIR);
}

/* One that has a step is busy, and stays. */
static void remove_job(int scope_fd, const char *name)
{
	_cleanup_close_ int fd = openat(scope_fd, name, OPEN_DIR);

	if (fd >= 0)
		for_each_group(fd, is_hold, remove_hold);
	(void)unlinkat(scope_fd, name, AT_REMOVEDIR);
}

/* By slurmstepd's lock: it makes a job's group and its step's below it without a hold. A user can
 * have the lock, too; then it is left to the step that ends next. */
static void remove_empty(int scope_fd)
{
	if (flock(scope_fd, LOCK_EX | LOCK_NB) < 0)
		return;
	for_each_group(scope_fd, step_limits_is_job_name, remove_job);
	(void)flock(scope_fd, LOCK_UN);
}

void job_cgroup_sweep(struct job_cgroup *g)
{
	if (g)
		remove_empty(g->scope_fd);
}

struct job_cgroup *job_cgroup_close(struct job_cgroup *g)
{
	if (!g)
		return NULL;
	if (g->hold_fd >= 0)
		(void)unlinkat(g->job_fd, g->hold_name, AT_REMOVEDIR);
	g->hold_fd = close_fd(g->hold_fd);
	g->job_fd = close_fd(g->job_fd);
	if (g->scope_fd >= 0)
		remove_empty(g->scope_fd);
	g->scope_fd = close_fd(g->scope_fd);
	free(g->path);
	free(g);
	return NULL;
}
