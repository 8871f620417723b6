/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/cgroupfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "stepd/base/buffer.h"
#include "stepd/base/fs.h"
#include "stepd/base/parse.h"
#include "stepd/base/strv.h"

/* ---- files ----------------------------------------------------------------------------------- */

int cgfile_gone(int r)
{
	return r == -ENOENT || r == -ENODEV ? -ESRCH : r;
}

int cgfile_make_group(int parent_fd, const char *name)
{
	mode_t mask = umask(022);
	int r = mkdirat(parent_fd, name, 0755) < 0 && errno != EEXIST ? -errno : 0, fd;

	(void)umask(mask);
	if (r < 0)
		return r == -ENODEV ? -ENOENT : r;
	fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int cgfile_get_path(int fd, char path[PATH_MAX])
{
	char name[40];
	ssize_t n;

	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	n = readlink(name, path, PATH_MAX - 1);
	if (n < 0) {
		n = -errno;
		memcpy(path, "?", sizeof("?"));
		return (int)n;
	}
	path[n] = '\0';
	return 0;
}

bool cgfile_is_cgroup2(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (uint32_t)fs.f_type == CGROUP2_SUPER_MAGIC;
}

/* ---- processes ------------------------------------------------------------------------------- */

#define LIST_MAX_BYTES (64u << 20) /* every pid there can be (2^22), with its newline */

/* The index at which pid stands or would stand. */
static size_t index_of(const struct pidset *set, pid_t pid)
{
	size_t low = 0, high = set->n, mid;

	if (set->n && set->v[set->n - 1] < pid)
		return set->n; /* lists come nearly ascending */
	while (low < high) {
		mid = low + (high - low) / 2;
		if (set->v[mid] < pid)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

bool pidset_has(const struct pidset *set, pid_t pid)
{
	size_t i = index_of(set, pid);

	return i < set->n && set->v[i] == pid;
}

int pidset_add(struct pidset *set, pid_t pid)
{
	size_t i = index_of(set, pid);

	if (i < set->n && set->v[i] == pid)
		return 0;
	if (array_reserve(set->v, set->capacity, set->n + 1) < 0)
		return -ENOMEM;
	memmove(set->v + i + 1, set->v + i, (set->n - i) * sizeof(*set->v));
	set->v[i] = pid;
	set->n++;
	return 0;
}

int pidset_add_text(struct pidset *set, const char *text)
{
	char *end;
	long pid;
	int r;

	for (; *text; text += strspn(text, "\n")) {
		pid = strtol(text, &end, 10);
		if (end != text && (*end == '\n' || *end == '\0') && pid > 0 && pid <= INT_MAX) {
			r = pidset_add(set, (pid_t)pid);
			if (r < 0)
				return r;
		}
		text += strcspn(text, "\n");
	}
	return 0;
}

/* The process that a thread belongs to, or 0. */
static pid_t process_of(pid_t tid)
{
	_cleanup_free_ char *text = NULL;
	char name[40];
	uint64_t pid = 0;

	(void)snprintf(name, sizeof(name), "/proc/%d/status", (int)tid);
	if (fs_read(AT_FDCWD, name, 1u << 20, &text, NULL) == 0)
		/* The process's name, which comes first, has its newlines escaped. */
		(void)!parse_line_u64(text, "Tgid:", &pid);
	return (pid_t)pid;
}

static int read_threads(struct pidset *set, int fd)
{
	_cleanup_pidset_ struct pidset threads = {0};
	_cleanup_free_ char *text = NULL;
	pid_t pid;
	size_t i;
	int r = fs_read(fd, "cgroup.threads", LIST_MAX_BYTES, &text, NULL);

	if (r == 0)
		r = pidset_add_text(&threads, text);
	for (i = 0; r == 0 && i < threads.n; i++) {
		pid = process_of(threads.v[i]);
		if (pid > 0)
			r = pidset_add(set, pid);
	}
	return r;
}

int pidset_read_group(struct pidset *set, int fd)
{
	_cleanup_free_ char *text = NULL;
	int r = fs_read(fd, "cgroup.procs", LIST_MAX_BYTES, &text, NULL);

	if (r == 0)
		r = pidset_add_text(set, text);
	else if (r == -EOPNOTSUPP)
		r = read_threads(set, fd);
	return r == -ENOENT || r == -ENODEV ? 0 : r; /* the group went meanwhile */
}

void pidset_clear(struct pidset *set)
{
	free(set->v);
	*set = (struct pidset){0};
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* A group that the walk is in, with the children that it had when it was entered. */
struct level {
	struct strv children;
	size_t next;
	ino_t ino;
};

struct walk {
	int fd; /* the group of the last level */
	struct level *v;
	size_t n;
	size_t capacity;
	const struct tree_ops *ops;
	void *userdata;
};

static void walk_clear(struct walk *w)
{
	while (w->n > 0)
		strv_clear(&w->v[--w->n].children);
	free(w->v);
	w->fd = close_fd(w->fd);
}

static int add_child(const char *name, uint8_t type, void *userdata)
{
	if (type != DT_DIR || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return 0;
	return strv_add(userdata, name);
}

/* By the descriptor itself, which was opened for this walk and stands at its start: readdir(3)
 * would take half as many system calls again as a step of one process costs in all. */
static int list_children(int fd, struct strv *ret_names)
{
	return dirnames_each(fd, DIRNAMES_PIECE_MAX, add_child, ret_names);
}

/* Enters the group at fd, which becomes the walk's if the group has children: then *fd is -1. */
static int push(struct walk *w, int *fd)
{
	struct level level = {.next = 0};
	struct stat st;
	int r = w->ops->enter ? w->ops->enter(*fd, w->userdata) : 0;

	if (r < 0)
		return r;
	if (fstat(*fd, &st) < 0)
		return -errno;
	if (st.st_nlink == 2)
		return 0; /* no children: saves reading the names of some 20 files */
	r = list_children(*fd, &level.children);
	if (r == 0)
		r = array_reserve(w->v, w->capacity, w->n + 1);
	if (r < 0 || level.children.n == 0) {
		strv_clear(&level.children);
		return r == -ENOENT || r == -ENODEV ? 0 : r;
	}
	level.ino = st.st_ino;
	w->v[w->n++] = level;
	(void)close_fd(w->fd);
	w->fd = take_fd(fd);
	return 0;
}

static int leave(struct walk *w, const char *name)
{
	return w->ops->leave ? w->ops->leave(w->fd, name, w->userdata) : 0;
}

/* Goes to the next child of the group that the walk is in. */
static int step_down(struct walk *w)
{
	struct level *top = &w->v[w->n - 1];
	const char *name = top->children.v[top->next++];
	_cleanup_close_ int child = -1;
	int r = w->ops->before ? w->ops->before(w->fd, name, w->userdata) : 0;

	if (r != 0)
		return r < 0 ? r : 0;
	child = openat(w->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (child < 0)
		return errno == ENOENT || errno == ENODEV ? 0 : -errno;
	r = push(w, &child);
	if (r < 0 || child < 0)
		return r;
	return leave(w, name);
}

/* Back to the parent: by "..", which leads there from a group that was removed, too. Cgroup2 has
 * no rename; the inode is compared all the same. */
static int step_up(struct walk *w)
{
	_cleanup_close_ int parent = -1;
	struct level *top;
	struct stat st;

	strv_clear(&w->v[--w->n].children);
	if (w->n == 0)
		return 0;
	top = &w->v[w->n - 1];
	parent = openat(w->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (parent < 0 || fstat(parent, &st) < 0)
		return -errno;
	if (st.st_ino != top->ino)
		return -ESTALE;
	(void)close_fd(w->fd);
	w->fd = take_fd(&parent);
	return leave(w, top->children.v[top->next - 1]);
}

int tree_walk(int fd, const struct tree_ops *ops, void *userdata)
{
	_cleanup_(walk_clear) struct walk w = {.fd = -1, .ops = ops, .userdata = userdata};
	_cleanup_close_ int start = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (start < 0)
		return errno == ENOENT || errno == ENODEV ? 0 : -errno;
	r = push(&w, &start);
	while (r == 0 && w.n > 0) {
		struct level *top = &w.v[w.n - 1];

		r = top->next < top->children.n ? step_down(&w) : step_up(&w);
	}
	return r;
}

/* A group with children is EBUSY as one with processes is: then the walk goes in, and after its
 * children it is tried again. */
static int remove_before(int parent_fd, const char *name, _unused_ void *userdata)
{
	if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT || errno == ENODEV)
		return 1;
	return errno == EBUSY || errno == ENOTEMPTY ? 0 : -errno;
}

static int remove_after(int parent_fd, const char *name, _unused_ void *userdata)
{
	if (unlinkat(parent_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT && errno != ENODEV)
		return errno == ENOTEMPTY ? -EBUSY : -errno;
	return 0;
}

int tree_remove_below(int fd)
{
	static const struct tree_ops ops = {.before = remove_before, .leave = remove_after};

	return tree_walk(fd, &ops, NULL);
}
