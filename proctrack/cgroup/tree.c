/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "stepd/base/buffer.h"
#include "stepd/base/dirnames.h"
#include "stepd/base/strv.h"

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
