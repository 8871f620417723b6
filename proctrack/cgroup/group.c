/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/group.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/xattr.h>

#include "proctrack/cgroup/files.h"
#include "proctrack/cgroup/pidset.h"
#include "proctrack/cgroup/tree.h"
#include "stepd/base/clock.h"
#include "stepd/base/fs.h"

static int read_events(int events_fd, struct group_events *ret_events)
{
	uint64_t populated, frozen = 0;
	char text[256];
	ssize_t n;
	int r;

	do
		n = pread(events_fd, text, sizeof(text) - 1, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return cgfile_gone(-errno);
	text[n] = '\0';
	r = cgfile_get_key(text, "populated", &populated);
	if (r < 0)
		return r;
	(void)cgfile_get_key(text, "frozen", &frozen); /* not before Linux 5.2: then 0 */
	*ret_events = (struct group_events){.populated = populated != 0, .frozen = frozen != 0};
	return 0;
}

static int open_events(int fd, int *ret_fd)
{
	*ret_fd = openat(fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
	return *ret_fd < 0 ? cgfile_gone(-errno) : 0;
}

int group_get_events(int fd, struct group_events *ret_events)
{
	_cleanup_close_ int events_fd = -1;
	int r = open_events(fd, &events_fd);

	return r < 0 ? r : read_events(events_fd, ret_events);
}

/* ---- waiting ------------------------------------------------------------------------------ */

enum {
	WAIT_EMPTY,
	WAIT_FROZEN
};

static bool is_reached(const struct group_events *events, int what)
{
	return what == WAIT_EMPTY ? !events->populated : events->frozen;
}

/* Waits for a change of the events that were just read, until deadline (< 0: none). */
static int await_change(int events_fd, int64_t deadline_ms, int most_ms)
{
	struct pollfd p = {.fd = events_fd, .events = POLLPRI};
	int64_t left = deadline_ms < 0 ? -1 : deadline_ms - clock_now_ms();

	if (deadline_ms >= 0 && left <= 0)
		return -ETIMEDOUT;
	if (most_ms >= 0 && (left < 0 || left > most_ms))
		left = most_ms;
	if (poll(&p, 1, left > INT_MAX ? INT_MAX : (int)left) < 0 && errno != EINTR)
		return -errno;
	return 0;
}

/* The news of a freeze comes up to 20 ms late (see the head of group.h), and meanwhile all stand
 * still: so it is looked for after 1, 2, 4 ... ms as well, ten times at most until the deadline. */
static int await(int fd, int what, int timeout_ms)
{
	int64_t deadline_ms = timeout_ms < 0 ? -1 : clock_now_ms() + timeout_ms;
	int most_ms = what == WAIT_FROZEN ? 1 : -1, r;
	_cleanup_close_ int events_fd = -1;
	struct group_events events;

	r = open_events(fd, &events_fd);
	while (r == 0) {
		r = read_events(events_fd, &events);
		if (r < 0 || is_reached(&events, what))
			break;
		r = await_change(events_fd, deadline_ms, most_ms);
		if (most_ms > 0)
			most_ms *= 2;
	}
	return r;
}

int group_wait_empty(int fd, int timeout_ms)
{
	return await(fd, WAIT_EMPTY, timeout_ms);
}

/* ---- stopping ----------------------------------------------------------------------------- */

/* Whether the group itself, not one above it, was told to stand still. */
static bool is_told_to_freeze(int fd)
{
	_cleanup_free_ char *text = NULL;

	return fs_read(fd, "cgroup.freeze", CGFILE_MAX_BYTES, &text, NULL) == 0 && text[0] == '1';
}

/* On the directory of a group that is told to stand still for a moment only. It is gone with the
 * group, and only who may write cgroup.freeze may set it. */
#define MOMENTARY_MARK "user.stepd.momentary"

/* fd may be of O_PATH, which fsetxattr(2) takes none of. */
static const char *mark_path(int fd, char path[32])
{
	(void)snprintf(path, 32, "/proc/self/fd/%d", fd);
	return path;
}

/* What fails here is told by group_get_freeze(), if it ever matters. */
static void set_mark(int fd)
{
	char path[32];

	(void)setxattr(mark_path(fd, path), MOMENTARY_MARK, "1", 1, 0);
}

static void remove_mark(int fd)
{
	char path[32];

	(void)removexattr(mark_path(fd, path), MOMENTARY_MARK); /* mostly there is none */
}

static int has_mark(int fd, bool *ret_has)
{
	char path[32];

	*ret_has = getxattr(mark_path(fd, path), MOMENTARY_MARK, NULL, 0) >= 0;
	return !*ret_has && errno == EOPNOTSUPP ? -EAGAIN : 0;
}

/* The nearest group above that is told to stand still; -ENOENT: none that can be seen. */
static int find_frozen_above(int fd, char path[PATH_MAX])
{
	_cleanup_close_ int at = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int next;

	while (at >= 0 && cgfile_is_cgroup2(at)) {
		if (is_told_to_freeze(at))
			return cgfile_get_path(at, path);
		if (faccessat(at, "cgroup.freeze", F_OK, 0) < 0)
			break; /* the top */
		next = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		(void)close_fd(at);
		at = next;
	}
	return -ENOENT;
}

int group_get_freeze(int fd, struct group_freeze *ret_freeze)
{
	struct group_freeze freeze = {.path = ""};
	_cleanup_free_ char *text = NULL;
	struct group_events events;
	int r = group_get_events(fd, &events);

	if (r < 0)
		return r;
	r = fs_read(fd, "cgroup.freeze", CGFILE_MAX_BYTES, &text, NULL);
	if (r < 0)
		return r == -ENOENT ? -EOPNOTSUPP : cgfile_gone(r);
	freeze.told = text[0] == '1';
	r = freeze.told ? has_mark(fd, &freeze.momentary) : 0;
	if (r == 0 && (freeze.told || events.frozen))
		freeze.above = find_frozen_above(fd, freeze.path) == 0 || !freeze.told;
	if (r == 0)
		*ret_freeze = freeze;
	return r;
}

static int freeze_for(int fd, int timeout_ms, bool briefly, bool *ret_was)
{
	struct group_events events;
	int r;

	*ret_was = is_told_to_freeze(fd);
	if (!*ret_was && briefly)
		set_mark(fd);
	r = *ret_was ? 0 : fs_write(fd, "cgroup.freeze", "1");
	if (r == -ENOENT && group_get_events(fd, &events) == 0)
		return -EOPNOTSUPP;
	return r < 0 ? cgfile_gone(r) : await(fd, WAIT_FROZEN, timeout_ms);
}

int group_freeze(int fd, int timeout_ms, bool *ret_was)
{
	return freeze_for(fd, timeout_ms, false, ret_was);
}

int group_freeze_briefly(int fd, int timeout_ms, bool *ret_was)
{
	return freeze_for(fd, timeout_ms, true, ret_was);
}

int group_suspend(int fd)
{
	bool was = false;
	int r = group_freeze(fd, GROUP_SUSPEND_FREEZE_MS, &was);

	if (r < 0 && r != -ETIMEDOUT && !was)
		(void)group_resume(fd); /* r says more */
	else if (was)
		remove_mark(fd);
	return r;
}

int group_resume(int fd)
{
	int r = fs_write(fd, "cgroup.freeze", "0");

	if (r == 0)
		remove_mark(fd);
	return cgfile_gone(r);
}

int group_resume_left(int fd)
{
	bool left = false;
	int r = has_mark(fd, &left);

	return r == 0 && !left ? 0 : group_resume(fd); /* -EAGAIN: it may have been */
}

/* The kernel takes "frozen" back before the write returns, unless a group above holds on to it:
 * then nothing has moved meanwhile. */
int group_resume_checked(int fd)
{
	bool was = is_told_to_freeze(fd);
	int r = cgfile_gone(fs_write(fd, "cgroup.freeze", "0"));
	struct group_events events;

	if (r < 0)
		return r;
	if (group_get_events(fd, &events) == 0 && events.frozen) {
		r = was ? cgfile_gone(fs_write(fd, "cgroup.freeze", "1")) : 0;
		return r < 0 ? r : -EBUSY;
	}
	remove_mark(fd);
	return 0;
}

/* ---- listing ------------------------------------------------------------------------------ */

static int list_one(int fd, void *userdata)
{
	return pidset_read_group(userdata, fd);
}

int group_list(int fd, struct pidset *set)
{
	static const struct tree_ops ops = {.enter = list_one};

	return tree_walk(fd, &ops, set);
}
