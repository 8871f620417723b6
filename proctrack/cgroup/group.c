/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/group.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include "stepd/base/buffer.h"
#include "stepd/base/clock.h"
#include "stepd/base/fs.h"
#include "stepd/base/parse.h"
#include "stepd/base/proc.h"
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
	int r = fs_find_path(fd, path);

	if (r < 0)
		memcpy(path, "?", sizeof("?"));
	return r;
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

static int find_runnable(int fd, void *userdata)
{
	_cleanup_pidset_ struct pidset list = {0};
	bool *found = userdata;
	size_t i;
	int r = pidset_read_group(&list, fd);

	for (i = 0; r == 0 && i < list.n && !*found; i++)
		*found = procstat_is_runnable(list.v[i]);
	return r;
}

/* Waits on for a group that is being frozen, as long as one of its processes would stop if it had a
 * processor. */
static int await_starved(int fd, int64_t deadline_ms)
{
	static const struct tree_ops ops = {.enter = find_runnable};
	int r = -ETIMEDOUT;

	while (r == -ETIMEDOUT && clock_now_ms() < deadline_ms) {
		bool found = false;

		if (tree_walk(fd, &ops, &found) < 0 || !found)
			break;
		r = await(fd, WAIT_FROZEN, GROUP_SIGNAL_FREEZE_MS);
	}
	return r;
}

/* To a process that stands still the signal goes once, and nothing new can appear. What moves gets
 * it moving, and what is in the middle of a fork then has a child that got nothing: so, after the
 * signal has made it move on, all is done again. */
static int stop_and_send(int fd, struct sender *s)
{
	int64_t deadline_ms = clock_now_ms() + GROUP_SIGNAL_STARVED_MS;
	bool was = false, still_was;
	int frozen = freeze_for(fd, GROUP_SIGNAL_FREEZE_MS, true, &was), r, thawed;

	if (frozen == -ETIMEDOUT)
		frozen = await_starved(fd, deadline_ms);
	r = send_to_all(fd, s);
	if (r == 0 && frozen == -ETIMEDOUT) {
		if (group_freeze(fd, GROUP_SIGNAL_SETTLE_MS, &still_was) == -ETIMEDOUT)
			(void)await_starved(fd, deadline_ms);
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

/* ---- usage: forms of text -------------------------------------------------------------------- */

/* Finds the number that key means in a file's text; false if it is not there. */
typedef bool (*find_fn)(const char *text, const char *key, uint64_t *ret_n);

static bool find_number(const char *text, _unused_ const char *key, uint64_t *ret_n)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	*ret_n = strtoull(text, &end, 10);
	return *end == '\n' || *end == '\0';
}

static bool find_line(const char *text, const char *key, uint64_t *ret_n)
{
	return parse_line_u64(text, key, ret_n) == 0;
}

/* "8:0 rbytes=1 wbytes=2 ...", a line for each device, "rbytes=" being the key. A device without
 * any has a line without numbers, and a group without devices an empty file: both are 0. */
static bool find_sum(const char *text, const char *key, uint64_t *ret_n)
{
	const char *at = text;
	uint64_t sum = 0;

	while ((at = strstr(at, key))) {
		if (at > text && at[-1] == ' ')
			sum += strtoull(at + strlen(key), NULL, 10);
		at += strlen(key);
	}
	*ret_n = sum;
	return true;
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=5", and a second line, "full". */
static bool find_total(const char *text, const char *key, uint64_t *ret_n)
{
	const char *total;

	if (strncmp(text, key, strlen(key)) != 0)
		return false;
	total = strstr(text, "total=");
	if (!total || total > text + strcspn(text, "\n"))
		return false;
	*ret_n = strtoull(total + strlen("total="), NULL, 10);
	return true;
}

/* By file. */
static const struct counter {
	const char *file;
	const char *key;
	find_fn find;
	enum stepd_usage_value value;
} counters[] = {
	{"cpu.stat", "user_usec ", find_line, STEPD_USAGE_CPU_USER_USEC},
	{"cpu.stat", "system_usec ", find_line, STEPD_USAGE_CPU_SYSTEM_USEC},
	{"cpu.stat", "throttled_usec ", find_line, STEPD_USAGE_CPU_THROTTLED_USEC},
	{"memory.current", NULL, find_number, STEPD_USAGE_MEMORY_BYTES},
	{"memory.peak", NULL, find_number, STEPD_USAGE_MEMORY_PEAK_BYTES}, /* Linux 5.19 */
	{"memory.swap.current", NULL, find_number, STEPD_USAGE_SWAP_BYTES},
	{"memory.stat", "pgfault ", find_line, STEPD_USAGE_PAGE_FAULTS},
	{"memory.stat", "pgmajfault ", find_line, STEPD_USAGE_MAJOR_FAULTS},
	{"memory.events", "oom ", find_line, STEPD_USAGE_OOM_EVENTS},
	{"memory.events", "oom_kill ", find_line, STEPD_USAGE_OOM_KILLS},
	{"pids.events", "max ", find_line, STEPD_USAGE_PIDS_MAX_EVENTS},
	{"io.stat", "rbytes=", find_sum, STEPD_USAGE_IO_READ_BYTES},
	{"io.stat", "wbytes=", find_sum, STEPD_USAGE_IO_WRITE_BYTES},
	{"cpu.pressure", "some ", find_total, STEPD_USAGE_CPU_PRESSURE_USEC},
	{"memory.pressure", "some ", find_total, STEPD_USAGE_MEMORY_PRESSURE_USEC},
	{"io.pressure", "some ", find_total, STEPD_USAGE_IO_PRESSURE_USEC},
};

static void set_value(stepd_usage_t *usage, enum stepd_usage_value which, uint64_t value)
{
	usage->value[which] = value;
	usage->source[which] = STEPD_USAGE_CGROUP;
}

void group_parse_usage(const char *file, const char *text, stepd_usage_t *usage)
{
	const struct counter *c;
	uint64_t n;

	for (c = counters; c < counters + ARRAY_SIZE(counters); c++) {
		if (strcmp(c->file, file) == 0 && c->find(text, c->key, &n))
			set_value(usage, c->value, n);
	}
}

/* ---- usage: groups --------------------------------------------------------------------------- */

bool group_forgets_refused(int fd)
{
	return faccessat(fd, "pids.events", F_OK, 0) == 0 &&
		faccessat(fd, "pids.events.local", F_OK, 0) < 0; /* Linux 6.11 */
}

static int add_refused(int fd, void *userdata)
{
	_cleanup_free_ char *text = NULL;
	uint64_t *sum = userdata, n;

	if (fs_read(fd, "pids.events", CGFILE_MAX_BYTES, &text, NULL) == 0 &&
		parse_line_u64(text, "max ", &n) == 0)
		*sum += n;
	return 0;
}

uint64_t group_get_refused(int fd)
{
	static const struct tree_ops ops = {.enter = add_refused};
	uint64_t sum = 0;

	return tree_walk(fd, &ops, &sum) < 0 ? 0 : sum;
}

/* Not pids.current: that counts threads. */
static int count_processes(int fd, stepd_usage_t *usage)
{
	_cleanup_pidset_ struct pidset set = {0};
	int r = group_list(fd, &set);

	if (r == 0)
		set_value(usage, STEPD_USAGE_PROCESSES, set.n);
	return r;
}

int group_read_usage(int fd, int members_fd, stepd_usage_t *ret_usage)
{
	stepd_usage_t u = {0};
	const char *last = "";
	size_t i;
	int r;

	for (i = 0; i < ARRAY_SIZE(counters); i++) {
		_cleanup_free_ char *text = NULL;

		if (strcmp(counters[i].file, last) == 0)
			continue;
		last = counters[i].file;
		r = fs_read(fd, last, CGFILE_MAX_BYTES, &text, NULL);
		if (r < 0 && i == 0)
			return cgfile_gone(r); /* cpu.stat is in every group */
		if (r == 0)
			group_parse_usage(last, text, &u);
	}
	if (group_forgets_refused(fd))
		u.value[STEPD_USAGE_PIDS_MAX_EVENTS] = group_get_refused(fd);
	r = count_processes(members_fd, &u);
	if (r == 0)
		*ret_usage = u;
	return r;
}
