/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A stand-in for the job library of Cray and SGI: a job is a cgroup of version 2 below a directory
 * of the tests' own, made by the first call that needs it, and removed with its last job.
 *
 *	STEPD_TEST_LIBJOB=PATH   that directory; without it stepd-test-libjob of the first cgroup2
 *	STEPD_TEST_LIBJOB_FAIL=create    job_create() fails with EPERM
 *	STEPD_TEST_LIBJOB_FAIL=service   all fail with ENOENT, as without the job service
 *
 * As in the library a job begins with its creator, can't be empty, and takes no process that is in
 * another. Compiled with WITHOUT_ATTACH it lacks job_attachpid().
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t jid_t;

EXPORT jid_t job_create(jid_t requested, uid_t uid, int options);
EXPORT jid_t job_getjid(pid_t pid);
EXPORT jid_t job_attachpid(pid_t pid, jid_t jid);
EXPORT jid_t job_detachpid(pid_t pid);
EXPORT int job_killjid(jid_t jid, int sig);
EXPORT int job_getpidcnt(jid_t jid);
EXPORT int job_getpidlist(jid_t jid, pid_t *pids, int size_bytes);

#define NAME_MAX_BYTES (PATH_MAX + 64)

static char root[PATH_MAX];

static int has_fault(const char *name)
{
	const char *fault = getenv("STEPD_TEST_LIBJOB_FAIL");

	return fault && strcmp(fault, name) == 0;
}

static void find_root(void)
{
	const char *path = getenv("STEPD_TEST_LIBJOB");
	FILE *mounts = path ? NULL : setmntent("/proc/self/mounts", "re");
	struct mntent *m;

	if (path)
		(void)snprintf(root, sizeof(root), "%s", path);
	while (mounts && !root[0] && (m = getmntent(mounts))) {
		if (strcmp(m->mnt_type, "cgroup2") == 0)
			(void)snprintf(root, sizeof(root), "%s/stepd-test-libjob", m->mnt_dir);
	}
	if (mounts)
		(void)endmntent(mounts);
}

/* 0 or -1 with errno, as all below. */
static int open_service(void)
{
	if (!root[0])
		find_root();
	errno = ENOENT;
	if (!root[0] || has_fault("service"))
		return -1;
	if (mkdir(root, 0755) == 0 || errno == EEXIST)
		return 0;
	errno = ENOENT;
	return -1;
}

static void name_of(jid_t jid, const char *file, char path[NAME_MAX_BYTES])
{
	(void)snprintf(path, NAME_MAX_BYTES, "%s/%llu/%s", root, (unsigned long long)jid, file);
}

static int put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), saved;
	ssize_t n;

	if (fd < 0)
		return -1;
	n = write(fd, text, strlen(text));
	saved = errno;
	(void)close(fd);
	errno = saved;
	return n < 0 ? -1 : 0;
}

static int move_to(const char *path, pid_t pid)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%d", (int)pid);
	return put(path, text);
}

/* Their number, the first capacity of which are in pids. A job that is empty is none. */
static int read_pids(jid_t jid, pid_t *pids, int capacity)
{
	char path[NAME_MAX_BYTES];
	FILE *file;
	int n = 0, pid;

	name_of(jid, "cgroup.procs", path);
	file = fopen(path, "re");
	while (file && fscanf(file, "%d", &pid) == 1) {
		if (n < capacity)
			pids[n] = pid;
		n++;
	}
	if (file)
		(void)fclose(file);
	if (n > 0)
		return n;
	name_of(jid, "", path);
	(void)rmdir(path); /* fails if somebody has come meanwhile */
	errno = ENODATA;
	return -1;
}

jid_t job_create(jid_t requested, uid_t uid, int options)
{
	char path[NAME_MAX_BYTES];
	uint32_t n = 0;
	jid_t jid = requested;

	(void)uid;
	(void)options;
	if (open_service() < 0)
		return (jid_t)-1;
	errno = EPERM;
	if (has_fault("create"))
		return (jid_t)-1;
	if (jid == 0 && getrandom(&n, sizeof(n), 0) == sizeof(n))
		jid = UINT64_C(1) << 32 | n; /* as of the machine 1 */
	errno = EBUSY;
	if (read_pids(jid, NULL, 0) > 0)
		return (jid_t)-1;
	name_of(jid, "", path);
	if (mkdir(path, 0755) < 0)
		return (jid_t)-1;
	name_of(jid, "cgroup.procs", path);
	return move_to(path, getpid()) == 0 ? jid : (jid_t)-1;
}

jid_t job_getjid(pid_t pid)
{
	char path[40], line[PATH_MAX], *at;
	const char *base;
	unsigned long long jid = 0;
	FILE *file;

	if (open_service() < 0)
		return (jid_t)-1;
	(void)snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	file = pid > 0 ? fopen(path, "re") : NULL;
	if (!file) {
		errno = ESRCH;
		return (jid_t)-1;
	}
	base = strrchr(root, '/') + 1;
	while (jid == 0 && fgets(line, sizeof(line), file)) {
		at = strncmp(line, "0::", 3) == 0 ? strstr(line, base) : NULL;
		if (at && at[-1] == '/' && at[strlen(base)] == '/')
			jid = strtoull(at + strlen(base) + 1, NULL, 10);
	}
	(void)fclose(file);
	errno = ENODATA;
	return jid ? jid : (jid_t)-1;
}

#ifndef WITHOUT_ATTACH
jid_t job_attachpid(pid_t pid, jid_t jid)
{
	char path[NAME_MAX_BYTES];

	if (open_service() < 0)
		return (jid_t)-1;
	if (job_getjid(pid) != (jid_t)-1) {
		errno = EINVAL;
		return (jid_t)-1;
	}
	if (errno != ENODATA || read_pids(jid, NULL, 0) < 0)
		return (jid_t)-1;
	name_of(jid, "cgroup.procs", path);
	return move_to(path, pid) == 0 ? jid : (jid_t)-1;
}
#endif

jid_t job_detachpid(pid_t pid)
{
	char path[NAME_MAX_BYTES];
	jid_t jid = job_getjid(pid);

	if (jid == (jid_t)-1)
		return jid;
	(void)snprintf(path, sizeof(path), "%s/../cgroup.procs", root);
	return move_to(path, pid) == 0 ? jid : (jid_t)-1;
}

int job_killjid(jid_t jid, int sig)
{
	char path[NAME_MAX_BYTES];
	pid_t pids[4096];
	int i, n;

	if (open_service() < 0)
		return -1;
	n = read_pids(jid, pids, 4096);
	name_of(jid, "cgroup.kill", path);
	if (n > 0 && sig == SIGKILL && put(path, "1") == 0) /* since Linux 5.14 */
		return 0;
	for (i = 0; i < n && i < 4096; i++)
		(void)kill(pids[i], sig);
	return n < 0 ? -1 : 0;
}

int job_getpidcnt(jid_t jid)
{
	return open_service() < 0 ? -1 : read_pids(jid, NULL, 0);
}

int job_getpidlist(jid_t jid, pid_t *pids, int size_bytes)
{
	int capacity = size_bytes / (int)sizeof(*pids);
	int n = open_service() < 0 ? -1 : read_pids(jid, pids, capacity);

	return n < capacity ? n : capacity;
}

/* Jobs that have ended, and the directory when none is left. */
__attribute__((destructor)) static void clean_up(void)
{
	char path[NAME_MAX_BYTES];
	struct dirent *entry;
	DIR *dir;

	if (!root[0])
		find_root(); /* a child of this process may have made it */
	dir = root[0] ? opendir(root) : NULL;
	while (dir && (entry = readdir(dir))) {
		if (strtoull(entry->d_name, NULL, 10) == 0)
			continue;
		name_of(strtoull(entry->d_name, NULL, 10), "", path);
		(void)rmdir(path); /* fails if it has processes */
	}
	if (dir)
		(void)closedir(dir);
	if (root[0])
		(void)rmdir(root);
}
