/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/group.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <time.h>

#include "proctrack/cgroup/files.h"
#include "proctrack/cgroup/pidset.h"
#include "proctrack/cgroup/tree.h"
#include "stepd/base/fs.h"

static int64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t); /* can't fail */
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

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
	int64_t left = deadline_ms < 0 ? -1 : deadline_ms - now_ms();

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
	int64_t deadline_ms = timeout_ms < 0 ? -1 : now_ms() + timeout_ms;
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

int group_freeze(int fd, int timeout_ms, bool *ret_was)
{
	struct group_events events;
	int r;

	*ret_was = is_told_to_freeze(fd);
	r = *ret_was ? 0 : fs_write(fd, "cgroup.freeze", "1");
	if (r == -ENOENT && group_get_events(fd, &events) == 0)
		return -EOPNOTSUPP;
	return r < 0 ? cgfile_gone(r) : await(fd, WAIT_FROZEN, timeout_ms);
}

int group_suspend(int fd)
{
	bool was = false;
	int r = group_freeze(fd, GROUP_SUSPEND_FREEZE_MS, &was);

	if (r < 0 && !was)
		(void)group_resume(fd); /* r says more */
	return r;
}

int group_resume(int fd)
{
	return cgfile_gone(fs_write(fd, "cgroup.freeze", "0"));
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
