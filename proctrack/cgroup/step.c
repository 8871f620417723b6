/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/step.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "proctrack/cgroup/group.h"
#include "proctrack/cgroup/root.h"
#include "stepd/base/buffer.h"
#include "stepd/base/fs.h"
#include "stepd/base/parse.h"
#include "stepd/base/proc.h"

#define TOP      "stepd"
#define JOB      "job_"
#define STEP     "step_"
#define TASK     "task_"
#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* How often another agent may remove what we hang our step in, or make ours again. */
#define RACES_MAX 100

#define JOB_NAME_SIZE  16
#define TASK_NAME_SIZE 16

static void task_name(uint32_t rank, char name[TASK_NAME_SIZE])
{
	(void)snprintf(name, TASK_NAME_SIZE, TASK "%u", (unsigned)rank);
}

bool step_parse_task(const char *below, uint32_t *ret_rank)
{
	char name[TASK_NAME_SIZE], again[TASK_NAME_SIZE];
	size_t len = strcspn(below, "/");
	uint32_t rank;

	if (len >= sizeof(name) || strncmp(below, TASK, strlen(TASK)) != 0)
		return false;
	memcpy(name, below, len);
	name[len] = '\0';
	if (parse_u32(name + strlen(TASK), 0, UINT32_MAX - 1, &rank) < 0)
		return false;
	task_name(rank, again);
	if (strcmp(name, again) != 0) /* "task_007" is another group */
		return false;
	*ret_rank = rank;
	return true;
}

static void job_name(uint32_t job_id, char name[JOB_NAME_SIZE])
{
	(void)snprintf(name, JOB_NAME_SIZE, JOB "%u", (unsigned)job_id);
}

void step_dir_clear(struct step_dir *dir)
{
	dir->fd = close_fd(dir->fd);
	dir->members_fd = close_fd(dir->members_fd);
	dir->id = 0;
}

/* -EINVAL: it can't be one. */
static int make_name(const stepd_step_rec_t *job, char name[STEP_NAME_SIZE])
{
	const char *step = job->step_name;
	int n;

	if (!step || !*step || strpbrk(step, "/\n"))
		return -EINVAL;
	if (job->nnodes > 1)
		n = snprintf(name, STEP_NAME_SIZE, STEP "%s.%u", step, (unsigned)job->nodeid);
	else
		n = snprintf(name, STEP_NAME_SIZE, STEP "%s", step);
	return n < 0 || (size_t)n >= STEP_NAME_SIZE ? -EINVAL : 0;
}

bool step_is_of(const struct step_dir *dir, const stepd_step_rec_t *job)
{
	char name[STEP_NAME_SIZE];

	return dir->job_id == job->job_id && make_name(job, name) == 0 &&
		strcmp(dir->name, name) == 0;
}

/* ---- making ------------------------------------------------------------------------------- */

static void remove_above(int top_parent_fd, int top_fd, uint32_t job_id)
{
	char name[JOB_NAME_SIZE];

	/* Both are shared with other steps: then they are busy and stay. */
	job_name(job_id, name);
	(void)unlinkat(top_fd, name, AT_REMOVEDIR);
	(void)unlinkat(top_parent_fd, TOP, AT_REMOVEDIR);
}

/* Opens STEP_MEMBERS of a step that is split; *ret_fd is -1 for one that is not. */
static int open_members(int step_fd, int *ret_fd)
{
	*ret_fd = -1;
	if (faccessat(step_fd, STEP_SERVICE, F_OK, 0) < 0)
		return errno == ENOENT ? 0 : cgfile_gone(-errno);
	*ret_fd = openat(step_fd, STEP_MEMBERS, OPEN_DIR);
	return *ret_fd < 0 && errno != ENOENT ? cgfile_gone(-errno) : 0;
}

/* The service process outlives the members by what it takes to see that they have gone; one of a
 * dead agent is nobody's child. */
static int end_service(int step_fd)
{
	_cleanup_close_ int members_fd = -1, fd = openat(step_fd, STEP_SERVICE, OPEN_DIR);
	struct group_events events;
	int r = open_members(step_fd, &members_fd);

	if (r < 0 || members_fd < 0 || fd < 0)
		return r;
	r = group_get_events(members_fd, &events);
	if (r < 0 || events.populated)
		return r;
	r = group_wait_empty(fd, STEP_SERVICE_END_MS);
	if (r != -ETIMEDOUT)
		return r;
	r = group_kill(fd);
	return r == 0 ? group_wait_empty(fd, STEP_SERVICE_END_MS) : r;
}

/* Removes a step's cgroup that has no processes. Groups may be made in it meanwhile. */
static int remove_step(int job_fd, int step_fd, const char *name)
{
	struct group_events events;
	int r = group_get_events(step_fd, &events), races;

	if (r == 0 && events.populated) {
		r = end_service(step_fd);
		if (r == 0 || r == -ESRCH || r == -ETIMEDOUT)
			r = group_get_events(step_fd, &events);
	}
	if (r < 0)
		return r;
	for (races = 0; races < RACES_MAX && !events.populated; races++) {
		if (unlinkat(job_fd, name, AT_REMOVEDIR) == 0)
			return 0;
		if (errno == ENOENT || errno == ENODEV)
			return -ESRCH;
		if (errno != EBUSY && errno != ENOTEMPTY)
			return -errno;
		/* Mostly all that is left of a step that is split; else a walk finds out. */
		if (unlinkat(step_fd, STEP_SERVICE, AT_REMOVEDIR) == 0 &&
			unlinkat(step_fd, STEP_MEMBERS, AT_REMOVEDIR) == 0)
			continue;
		r = tree_remove_below(step_fd);
		if (r == 0 || r == -EBUSY)
			r = group_get_events(step_fd, &events);
		if (r < 0)
			return r;
	}
	return -EBUSY;
}

/* An earlier step of the same name: 0 once it is gone. */
static int step_remove_stale(int job_fd, const char *name)
{
	_cleanup_close_ int fd = openat(job_fd, name, OPEN_DIR);
	int r;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	r = remove_step(job_fd, fd, name);
	if (r == -ESRCH)
		return 0;
	return r == -EBUSY ? -EEXIST : r;
}

/* One attempt. 0 if it was made, 1 if an earlier one was removed; -ENOENT: something above went. */
static int try_make(int top_fd, struct step_dir *dir)
{
	_cleanup_close_ int job_fd = -1, fd = -1;
	char name[JOB_NAME_SIZE];
	struct stat st;
	int r;

	job_name(dir->job_id, name);
	job_fd = cgfile_make_group(top_fd, name);
	if (job_fd < 0)
		return job_fd;
	if (mkdirat(job_fd, dir->name, 0755) < 0) {
		if (errno != EEXIST)
			return errno == ENODEV ? -ENOENT : -errno;
		r = step_remove_stale(job_fd, dir->name);
		return r < 0 ? r : 1;
	}
	fd = openat(job_fd, dir->name, OPEN_DIR);
	if (fd < 0 || fstat(fd, &st) < 0) {
		r = -errno;
		(void)unlinkat(job_fd, dir->name, AT_REMOVEDIR); /* r has the reason */
		return r;
	}
	dir->id = st.st_ino;
	dir->fd = take_fd(&fd);
	return 0;
}

int step_make(const struct cgroup_root *root, const stepd_step_rec_t *job, struct step_dir *ret_dir)
{
	struct step_dir dir = {.fd = -1, .members_fd = -1, .job_id = job->job_id};
	int r = -ENOENT, races;
	mode_t mask;

	if (make_name(job, dir.name) < 0)
		return -EINVAL;
	mask = umask(022); /* members must be able to read their own group, whatever ours is */
	for (races = 0; races < RACES_MAX && (r == -ENOENT || r == 1); races++) {
		_cleanup_close_ int top_fd = cgfile_make_group(root->fd, TOP);

		r = top_fd < 0 ? top_fd : try_make(top_fd, &dir);
		if (r < 0 && top_fd >= 0)
			remove_above(root->fd, top_fd, job->job_id);
	}
	(void)umask(mask);
	if (r != 0)
		return r < 0 ? r : -EBUSY;
	*ret_dir = dir;
	return 0;
}

int step_split(struct step_dir *dir)
{
	_cleanup_close_ int service_fd = cgfile_make_group(dir->fd, STEP_SERVICE);

	if (service_fd >= 0 && dir->members_fd < 0)
		dir->members_fd = cgfile_make_group(dir->fd, STEP_MEMBERS);
	if (service_fd < 0 || dir->members_fd < 0)
		return cgfile_gone(service_fd < 0 ? service_fd : dir->members_fd);
	return take_fd(&service_fd);
}

int step_open_task(const struct step_dir *dir, uint32_t rank)
{
	char name[TASK_NAME_SIZE];

	task_name(rank, name);
	return cgfile_gone(cgfile_make_group(step_get_members(dir), name));
}

int step_find_task(const struct step_dir *dir, uint32_t rank)
{
	char name[TASK_NAME_SIZE];
	int fd;

	task_name(rank, name);
	fd = openat(step_get_members(dir), name, OPEN_DIR);
	return fd < 0 ? cgfile_gone(-errno) : fd;
}

bool step_remove_task(const struct step_dir *dir, uint32_t rank)
{
	char name[TASK_NAME_SIZE];

	task_name(rank, name);
	return unlinkat(step_get_members(dir), name, AT_REMOVEDIR) == 0;
}

int step_remove(const struct step_dir *dir)
{
	/* ".." and not the root: it stays right if another root was configured since. */
	_cleanup_close_ int job_fd = openat(dir->fd, "..", OPEN_DIR);
	_cleanup_close_ int top_fd = -1, root_fd = -1;
	int r;

	if (job_fd < 0)
		return cgfile_gone(-errno);
	r = remove_step(job_fd, dir->fd, dir->name);
	if (r < 0)
		return r;
	top_fd = openat(job_fd, "..", OPEN_DIR);
	root_fd = top_fd < 0 ? -1 : openat(top_fd, "..", OPEN_DIR);
	if (root_fd < 0)
		return errno == ENOENT || errno == ENODEV ? 0 : -errno;
	remove_above(root_fd, top_fd, dir->job_id);
	return 0;
}

void step_remove_above(const struct cgroup_root *root, const stepd_step_rec_t *job)
{
	_cleanup_close_ int top_fd = openat(root->fd, TOP, OPEN_DIR);

	if (top_fd >= 0)
		remove_above(root->fd, top_fd, job->job_id);
}

/* ---- finding ------------------------------------------------------------------------------ */

/* Walks the directories of fd whose name begins with prefix, until found returns other than 0. */
typedef int (*found_fn)(int parent_fd, const struct dirent *entry, void *userdata);

static int each_dir(int parent_fd, const char *name, const char *prefix, found_fn found, void *data)
{
	_cleanup_close_ int fd = openat(parent_fd, name, OPEN_DIR);
	_cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	int r = 0, own_fd;

	if (!dir)
		return errno == ENOENT || errno == ENODEV ? 0 : -errno;
	own_fd = take_fd(&fd);
	while (r == 0 && (e = readdir(dir))) {
		if (e->d_type == DT_DIR && strncmp(e->d_name, prefix, strlen(prefix)) == 0)
			r = found(own_fd, e, data);
	}
	return r;
}

struct search {
	uint64_t id;
	uint32_t job_id;
	struct step_dir *ret_dir;
};

static int match_step(int job_fd, const struct dirent *e, void *userdata)
{
	struct search *s = userdata;
	struct step_dir dir = {.id = s->id, .fd = -1, .members_fd = -1, .job_id = s->job_id};
	struct stat st;
	int r;

	if (e->d_ino != s->id || strlen(e->d_name) >= sizeof(dir.name))
		return 0;
	dir.fd = openat(job_fd, e->d_name, OPEN_DIR);
	if (dir.fd < 0 || fstat(dir.fd, &st) < 0 || st.st_ino != s->id) {
		step_dir_clear(&dir);
		return 0; /* removed since, or made again */
	}
	r = open_members(dir.fd, &dir.members_fd);
	if (r < 0) {
		step_dir_clear(&dir);
		return r == -ESRCH ? 0 : r;
	}
	memcpy(dir.name, e->d_name, strlen(e->d_name) + 1);
	*s->ret_dir = dir;
	return 1;
}

static int match_job(int top_fd, const struct dirent *e, void *userdata)
{
	struct search *s = userdata;

	if (parse_u32(e->d_name + strlen(JOB), 0, UINT32_MAX, &s->job_id) < 0)
		return 0;
	return each_dir(top_fd, e->d_name, STEP, match_step, s);
}

int step_find(const struct cgroup_root *root, uint64_t id, struct step_dir *ret_dir)
{
	struct search search = {.id = id, .ret_dir = ret_dir};
	int r = id ? each_dir(root->fd, TOP, JOB, match_job, &search) : 0;

	return r == 0 ? -ESRCH : r < 0 ? r : 0;
}

/* The length of "stepd/job_J/step_S" at the start of a path below the root, 0 if it isn't there. */
static size_t step_prefix(const char *path)
{
	const char *at = path;

	if (strncmp(at, TOP "/" JOB, strlen(TOP "/" JOB)) != 0)
		return 0;
	at = strchr(at + strlen(TOP "/" JOB), '/');
	if (!at || strncmp(at, "/" STEP, strlen("/" STEP)) != 0)
		return 0;
	at++;
	return (size_t)(at - path) + strcspn(at, "/");
}

/* The kernel adds " (deleted)" to the path of a group that was removed and that a zombie was in.
 * A group may be called so as well; but then it is there. */
static bool is_removed(const struct cgroup_root *root, const char *path)
{
	static const char mark[] = " (deleted)";
	size_t len = strlen(path), mark_len = strlen(mark);

	return len > mark_len && strcmp(path + len - mark_len, mark) == 0 &&
		faccessat(root->fd, path, F_OK, 0) < 0;
}

/* A path below the step's group without STEP_MEMBERS. NULL: it is that of the
 * service process, no member. */
static const char *path_of_member(
	const struct cgroup_root *root, const char *step, const char *below)
{
	char service[PATH_MAX];
	const char *rest = cgpath_below(STEP_MEMBERS, below);
	bool of_service = cgpath_below(STEP_SERVICE, below) != NULL;

	if (!rest && !of_service)
		return below;
	(void)snprintf(
		service, sizeof(service), "%s/%s", step, of_service ? STEP_MEMBERS : STEP_SERVICE);
	if (faccessat(root->fd, service, F_OK, 0) < 0)
		return below; /* a group that a member made and called so */
	return rest;
}

int step_find_pid(const struct cgroup_root *root, pid_t pid, uint64_t *ret_id, char **ret_below)
{
	_cleanup_free_ char *cgroup = NULL, *path = NULL, *below = NULL;
	struct stat st;
	const char *member;
	size_t len;
	int r;

	r = pid > 0 ? cgpath_of(pid, &cgroup) : -ESRCH;
	if (r < 0)
		return r;
	r = root_map(root, cgroup, &path);
	if (r < 0)
		return r;
	len = step_prefix(path);
	if (len == 0 || is_removed(root, path))
		return -ENOENT;
	member = path + len + (path[len] == '/');
	path[len] = '\0';
	member = path_of_member(root, path, member);
	if (!member)
		return -ENOENT;
	below = strdup(member);
	if (!below || fstatat(root->fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	*ret_id = st.st_ino;
	if (ret_below)
		*ret_below = take_ptr(below);
	return 0;
}

/* A zombie is moved without complaint, and is no member: -ESRCH for it. What has a dead first
 * thread and living others differs only by not being listed. */
static int check_alive(int fd, pid_t pid)
{
	_cleanup_pidset_ struct pidset set = {0};
	struct procstat st;
	int r = procstat_read(pid, &st);

	if (r < 0 || (st.state != 'Z' && st.state != 'X'))
		return r;
	r = pidset_read_group(&set, fd);
	return r < 0 || pidset_has(&set, pid) ? r : -ESRCH;
}

int step_add(
	const struct cgroup_root *root, const struct step_dir *dir, const uint32_t *rank, pid_t pid)
{
	_cleanup_free_ char *below = NULL;
	_cleanup_close_ int fd = -1;
	char text[16], name[TASK_NAME_SIZE] = STEP_ADDED;
	uint64_t id = 0;
	int r;

	if (pid <= 0)
		return -EINVAL; /* 0 in cgroup.procs would be this process */
	if (rank)
		task_name(*rank, name);
	/* A process that is there already isn't moved: that costs some 8 ms, and nested groups are
	 * their own. One that was added and is in a task's group is the step's. */
	r = step_find_pid(root, pid, &id, &below);
	if (r == 0 && id == dir->id && (rank ? cgpath_below(name, below) != NULL : *below != '\0'))
		return 0;
	if (r < 0 && r != -ENOENT)
		return r;
	fd = cgfile_make_group(step_get_members(dir), name);
	if (fd < 0)
		return cgfile_gone(fd);
	(void)snprintf(text, sizeof(text), "%d", (int)pid);
	r = fs_write(fd, "cgroup.procs", text);
	return r < 0 ? cgfile_gone(r) : check_alive(fd, pid);
}

/* ---- its members ----------------------------------------------------------------------------- */

/* A walk over the step's groups, and what it has met. */
struct listing {
	stepd_member_t *v;
	size_t n, capacity;
	int depth;     /* of the group that the walk is in; 1 is the step's own */
	uint32_t rank; /* of the task's group that it is in or below */
	bool sorted;   /* by pid, each once, as the kernel gives them mostly */
};

static int listing_add(struct listing *l, pid_t pid)
{
	if (array_reserve(l->v, l->capacity, l->n + 1) < 0)
		return -ENOMEM;
	l->sorted &= l->n == 0 || l->v[l->n - 1].pid < pid;
	l->v[l->n++] = (stepd_member_t){.pid = pid, .rank = l->rank};
	return 0;
}

static int before(_unused_ int parent_fd, const char *name, void *userdata)
{
	struct listing *l = userdata;

	if (l->depth == 1 && !step_parse_task(name, &l->rank))
		l->rank = STEPD_MEMBER_NO_RANK;
	return 0;
}

static int enter(int fd, void *userdata)
{
	_cleanup_pidset_ struct pidset set = {0};
	struct listing *l = userdata;
	size_t i;
	int r = pidset_read_group(&set, fd);

	l->depth++;
	for (i = 0; r == 0 && i < set.n; i++)
		r = listing_add(l, set.v[i]);
	return r;
}

static int leave(_unused_ int parent_fd, _unused_ const char *name, void *userdata)
{
	struct listing *l = userdata;

	l->depth--;
	return 0;
}

/* A process that was moved during the walk is listed twice: with its task first, if it has one. */
static int by_pid_and_rank(const void *a, const void *b)
{
	const stepd_member_t *ma = a, *mb = b;

	if (ma->pid != mb->pid)
		return ma->pid > mb->pid ? 1 : -1;
	return (ma->rank > mb->rank) - (ma->rank < mb->rank);
}

static void sort_each_once(struct listing *l)
{
	size_t i, n = 0;

	qsort(l->v, l->n, sizeof(*l->v), by_pid_and_rank);
	for (i = 0; i < l->n; i++) {
		if (n == 0 || l->v[n - 1].pid != l->v[i].pid)
			l->v[n++] = l->v[i];
	}
	l->n = n;
}

int cgmembers_list(int fd, stepd_member_t **ret_members, int *ret_count)
{
	static const struct tree_ops ops = {.before = before, .enter = enter, .leave = leave};
	struct listing l = {.rank = STEPD_MEMBER_NO_RANK, .sorted = true};
	struct group_events events;
	int r = tree_walk(fd, &ops, &l);

	if (r == 0 && l.n == 0)
		r = group_get_events(fd, &events); /* -ESRCH: that is why */
	if (r < 0) {
		free(l.v);
		return r;
	}
	if (!l.sorted)
		sort_each_once(&l);
	*ret_members = l.v;
	*ret_count = (int)l.n;
	return 0;
}

/* ---- thawing ------------------------------------------------------------------------------ */

static int thaw_task(int parent_fd, const char *name, _unused_ void *userdata)
{
	_cleanup_close_ int fd = -1;
	uint32_t rank;
	int r;

	if (!step_parse_task(name, &rank))
		return 1;
	fd = openat(parent_fd, name, OPEN_DIR);
	r = fd < 0 ? cgfile_gone(-errno) : group_resume_left(fd);
	return r < 0 && r != -ESRCH ? r : 1; /* what is below it is passed over */
}

int cgmembers_thaw_tasks(int fd)
{
	static const struct tree_ops ops = {.before = thaw_task};

	return tree_walk(fd, &ops, NULL);
}
