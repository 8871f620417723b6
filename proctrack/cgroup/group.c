/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/group.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/xattr.h>

#include "proctrack/cgroup/cgroupfs.h"
#include "stepd/base/clock.h"
#include "stepd/base/fs.h"
#include "stepd/base/parse.h"
#include "stepd/base/proc.h"

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
	r = parse_line_u64(text, "populated ", &populated);
	if (r < 0)
		return r;
	(void)!parse_line_u64(text, "frozen ", &frozen); /* not before Linux 5.2: then 0 */
	*ret_events = (struct group_events){.populated = populated != 0, .frozen = frozen != 0};
	return 0;
}

static int open_events(int fd)
{
	int events_fd = openat(fd, "cgroup.events", O_RDONLY | O_CLOEXEC);

	return events_fd < 0 ? cgfile_gone(-errno) : events_fd;
}

int group_get_events(int fd, struct group_events *ret_events)
{
	_cleanup_close_ int events_fd = open_events(fd);

	return events_fd < 0 ? events_fd : read_events(events_fd, ret_events);
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
 * still: so it is tested after 1, 2, 4 ... ms as well, ten times at most until the deadline. */
static int await(int fd, int what, int timeout_ms)
{
	int64_t deadline_ms = timeout_ms < 0 ? -1 : clock_now_ms() + timeout_ms;
	_cleanup_close_ int events_fd = open_events(fd);
	int most_ms = what == WAIT_FROZEN ? 1 : -1, r = events_fd < 0 ? events_fd : 0;
	struct group_events events;

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

/* Whether the group itself, not one above it, was frozen. */
static bool is_freeze_set(int fd)
{
	_cleanup_free_ char *text = NULL;

	return fs_read(fd, "cgroup.freeze", CGFILE_MAX_BYTES, &text, NULL) == 0 && text[0] == '1';
}

/* On the directory of a group that is frozen for a moment only. It is gone with the group, and only
 * a process that may write cgroup.freeze may set it. */
#define MOMENTARY_MARK "user.stepd.momentary"

/* fd may be of O_PATH, which fsetxattr(2) takes none of. */
static const char *mark_path(int fd, char path[32])
{
	(void)snprintf(path, 32, "/proc/self/fd/%d", fd);
	return path;
}

/* group_get_freeze() reports what fails here, if it ever matters. */
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

/* The nearest group above that is frozen; -ENOENT: none that can be seen. */
static int find_frozen_above(int fd, char path[PATH_MAX])
{
	_cleanup_close_ int at = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int next;

	while (at >= 0 && cgfile_is_cgroup2(at)) {
		if (is_freeze_set(at))
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
	freeze.frozen_itself = text[0] == '1';
	r = freeze.frozen_itself ? has_mark(fd, &freeze.momentary) : 0;
	if (r == 0 && (freeze.frozen_itself || events.frozen))
		freeze.above = find_frozen_above(fd, freeze.path) == 0 || !freeze.frozen_itself;
	if (r == 0)
		*ret_freeze = freeze;
	return r;
}

/* briefly: by a mark group_get_freeze() knows so until group_resume(), should this process be ended
 * before that. */
static int freeze_for(int fd, int timeout_ms, bool briefly, bool *ret_was)
{
	struct group_events events;
	int r;

	*ret_was = is_freeze_set(fd);
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

int group_suspend(int fd)
{
	bool was = false;
	int r = group_freeze(fd, GROUP_SUSPEND_FREEZE_MS, &was);

	if (r < 0 && r != -ETIMEDOUT && !was)
		(void)group_resume(fd); /* r has the reason */
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
	bool was = is_freeze_set(fd);
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

/* ---- signals --------------------------------------------------------------------------------- */

/* A signal to all of a cgroup: to each process once, to none that is not in it. */

#define BATCH_MAX 512 /* pidfds held at once */

/* How often the lists are read again while new processes appear. Where all stand still nothing new
 * does; this ends the race with a fork bomb that could not be stopped. */
#define PASSES_MAX 100

struct sender {
	int signal;
	struct pidset done; /* those that were sent it */
	bool fresh;         /* this pass has seen one that was sent nothing yet */
	int error;          /* the first that a process answered, 0 for none */
	struct pidref batch[BATCH_MAX];
	size_t batched;
};

static void send_one(struct sender *s, const struct pidref *ref)
{
	int r = pidref_signal(ref, s->signal);

	if (r < 0 && r != -ESRCH && s->error == 0)
		s->error = r;
}

/* Sends to a process that is still listed after its pidfd was opened: so the pidfd is of the
 * process that the list meant, whatever process has its pid by now. */
static int flush_batch(struct sender *s, int fd)
{
	_cleanup_pidset_ struct pidset now = {0};
	int r = s->batched ? pidset_read_group(&now, fd) : 0;

	for (; s->batched > 0; s->batched--) {
		struct pidref *ref = &s->batch[s->batched - 1];

		if (r == 0 && pidset_has(&now, ref->pid)) {
			send_one(s, ref);
			r = pidset_add(&s->done, ref->pid);
		}
		pidref_close(ref);
	}
	return r;
}

static int hold(struct sender *s, pid_t pid)
{
	int r = pidref_open(pid, 0, &s->batch[s->batched]);

	if (r == 0)
		s->batched++;
	return r == -ESRCH ? 0 : r;
}

/* Out of descriptors: sends to the batch, whose last gives back the one that the list needs. */
static int flush_for_fd(struct sender *s, int fd)
{
	struct pidref *last = &s->batch[--s->batched];
	pid_t pid = last->pid;
	int r;

	pidref_close(last);
	r = flush_batch(s, fd);
	return r < 0 ? r : hold(s, pid);
}

static int add_to_batch(struct sender *s, int fd, pid_t pid)
{
	int r = hold(s, pid);

	if ((r == -EMFILE || r == -ENFILE) && s->batched > 1) {
		r = flush_for_fd(s, fd);
		if (r == 0)
			r = hold(s, pid);
	}
	return r == 0 && s->batched == BATCH_MAX ? flush_batch(s, fd) : r;
}

static int send_to_group(int fd, void *userdata)
{
	_cleanup_pidset_ struct pidset list = {0};
	struct sender *s = userdata;
	size_t i;
	int r = pidset_read_group(&list, fd), flushed;

	for (i = 0; r == 0 && i < list.n; i++) {
		if (pidset_has(&s->done, list.v[i]))
			continue;
		s->fresh = true; /* if it is gone by now, it may have left a child behind */
		r = add_to_batch(s, fd, list.v[i]);
	}
	flushed = flush_batch(s, fd); /* after an error too: it closes */
	return r < 0 ? r : flushed;
}

static int send_to_all(int fd, struct sender *s)
{
	static const struct tree_ops ops = {.enter = send_to_group};
	int passes = 0, r;

	do {
		s->fresh = false;
		r = tree_walk(fd, &ops, s);
	} while (r == 0 && s->fresh && ++passes < PASSES_MAX);
	return r == 0 && s->fresh ? -ETIMEDOUT : r;
}

/* To a process that stands still the signal goes once, and nothing new can appear. What moves gets
 * it moving, and what is in the middle of a fork then has a child that got nothing: so, after the
 * signal has made it move on, all is done again. */
static int stop_and_send(int fd, struct sender *s)
{
	bool was = false, still_was;
	int frozen = freeze_for(fd, GROUP_SIGNAL_FREEZE_MS, true, &was);
	int r = send_to_all(fd, s), thawed;

	if (r == 0 && frozen == -ETIMEDOUT) {
		(void)group_freeze(fd, GROUP_SIGNAL_SETTLE_MS, &still_was);
		r = send_to_all(fd, s);
	}
	thawed = was ? 0 : group_resume(fd);
	/* A group that went meanwhile, or that the kernel can't stop, needs no thaw. */
	return r < 0 || thawed == -ESRCH ? r : thawed;
}

int group_signal(int fd, int signal)
{
	struct sender s = {.signal = signal};
	struct group_events events;
	int r;

	if (signal < 0 || signal >= _NSIG)
		return -EINVAL;
	r = group_get_events(fd, &events);
	if (r < 0)
		return r;
	if (!events.populated)
		return -ESRCH;
	if (signal == 0)
		return 0;
	r = stop_and_send(fd, &s);
	if (r == 0)
		r = s.done.n ? s.error : -ESRCH;
	pidset_clear(&s.done);
	return r;
}

/* cgroup.kill signals the first thread of each process alone: one whose first thread has ended, and
 * others not, lives on (seen on Linux 6.18). By its pidfd the process is hit. Nothing need be
 * frozen for that: a process that has been sent SIGKILL forks no more, and one forked before is in
 * the next list. */
static int kill_rest(int fd)
{
	struct sender s = {.signal = SIGKILL};
	int r = send_to_all(fd, &s);

	if (r == 0)
		r = s.error;
	pidset_clear(&s.done);
	return r == -ESRCH ? 0 : r;
}

int group_kill(int fd)
{
	struct group_events events;
	int r = group_get_events(fd, &events);

	if (r < 0)
		return r;
	if (!events.populated)
		return -ESRCH;
	r = fs_write(fd, "cgroup.kill", "1");
	/* ENOENT: before Linux 5.14, or the group went just now; EOPNOTSUPP: it was made threaded.
	 * SIGKILL ends what stands still, too. */
	if (r == -ENOENT || r == -EOPNOTSUPP)
		return group_signal(fd, SIGKILL);
	return r < 0 ? r : kill_rest(fd);
}
