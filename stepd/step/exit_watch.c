/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/exit_watch.h"

#include <assert.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include "stepd/base/buffer.h"
#include "stepd/base/fs.h"
#include "stepd/snapshot/handover.h"
#include "stepd/step/agent_impl.h"
#include "stepd/step/reaping.h"

#define EVENTS_MAX    64
#define PATIENCE_S    1.
#define INFO_EXIT     (1u << 3)
#define PIDFD_INFO_NR 11

/* <linux/pidfd.h> of Linux 6.13, whose size is part of the call's number. */
struct pidfd_info_v0 {
	uint64_t mask, cgroupid;
	uint32_t pid, tgid, ppid, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
	int32_t exit_code; /* as wait(2) has it; Linux 6.15 */
};

struct entry {
	struct pidref ref; /* fd -1: reported */
	uint32_t index;    /* of the task */
	bool late;         /* it has ended, and its parent has not reaped it */
};

struct exit_watch {
	struct agent *a;
	/* All pidfds are in here, edge-triggered: a zombie's would be readable all the time. The
	 * first edge is the end, the second, which is a hang-up, that it was reaped. */
	int epoll_fd;
	ev_io io;
	ev_timer patience;
	struct entry *v;
	size_t n, capacity, count; /* count: not reported */
};

/* 1: known, 0: not yet, or never, -errno: this kernel doesn't know. */
static int read_status(int pidfd, int *ret_status)
{
	struct pidfd_info_v0 info = {.mask = INFO_EXIT};

	if (ioctl(pidfd, _IOWR(0xff, PIDFD_INFO_NR, struct pidfd_info_v0), &info) < 0)
		return -errno;
	if (!(info.mask & INFO_EXIT))
		return 0;
	*ret_status = info.exit_code;
	return 1;
}

/* Whether /proc shows us all of that process: it writes a 0 in the place of what it hides. The link
 * has the same condition as the status (PTRACE_MODE_READ_FSCREDS), and a zombie has it, too. */
static bool is_open_to_us(pid_t pid)
{
	char path[64], target[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	return readlink(path, target, sizeof(target)) > 0;
}

/* Of a zombie: the last field of its /proc/PID/stat (Linux 3.5). */
static bool read_zombie(const struct pidref *ref, int *ret_status)
{
	_cleanup_free_ char *text = NULL;
	const char *last;
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)ref->pid);
	if (!is_open_to_us(ref->pid) || fs_read(AT_FDCWD, path, 8192, &text, NULL) < 0)
		return false;
	last = strrchr(text, ' ');
	if (!last || pidref_signal(ref, 0) < 0)
		return false; /* it was reaped meanwhile: who was read may be another of that pid */
	*ret_status = (int)strtol(last, NULL, 10);
	return true;
}

static void report(struct exit_watch *w, size_t i, bool known, int wait_status)
{
	pidref_close(&w->v[i].ref);
	w->v[i].late = false;
	w->count--;
	reaping_adopted_task(w->a, w->v[i].index, known, wait_status);
}

static void poll_one(struct exit_watch *w, size_t i, bool reaped)
{
	int status = 0, r;

	if (w->v[i].ref.fd < 0)
		return;
	r = read_status(w->v[i].ref.fd, &status);
	if (r <= 0 && !reaped && read_zombie(&w->v[i].ref, &status))
		r = 1;
	if (r > 0 || r < 0 || reaped) {
		report(w, i, r > 0, status);
		return;
	}
	w->v[i].late = true;
	if (!ev_is_active(&w->patience)) {
		ev_now_update(w->a->loop);
		ev_timer_set(&w->patience, PATIENCE_S, 0.);
		ev_timer_start(w->a->loop, &w->patience);
	}
}

static void on_patience(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct exit_watch *w = timer->data;
	size_t i;

	assert(w);
	for (i = 0; i < w->n; i++) {
		if (w->v[i].late)
			report(w, i, false, 0);
	}
	reaping_settled(w->a);
}

void exit_watch_poll(struct exit_watch *w)
{
	struct epoll_event events[EVENTS_MAX];
	int n = w ? EVENTS_MAX : 0, i;

	while (n == EVENTS_MAX) {
		n = epoll_wait(w->epoll_fd, events, EVENTS_MAX, 0);
		for (i = 0; i < n; i++)
			poll_one(w, events[i].data.u64, events[i].events & EPOLLHUP);
	}
}

static void on_ends(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct exit_watch *w = io->data;

	assert(w);
	exit_watch_poll(w);
	reaping_settled(w->a);
}

int exit_watch_open(struct agent *a)
{
	struct exit_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->a = a;
	w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (w->epoll_fd < 0) {
		free(w);
		return -errno;
	}
	ev_io_init(&w->io, on_ends, w->epoll_fd, EV_READ);
	ev_init(&w->patience, on_patience);
	w->io.data = w->patience.data = w;
	ev_io_start(a->loop, &w->io);
	a->origin.exits = w;
	return 0;
}

int exit_watch_add_take(struct exit_watch *w, struct pidref *ref, uint32_t index)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};

	if (w->count == 0)
		w->n = 0;
	event.data.u64 = w->n;
	if (array_reserve(w->v, w->capacity, w->n + 1) < 0)
		return -ENOMEM;
	if (epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, ref->fd, &event) < 0)
		return -errno;
	w->v[w->n++] = (struct entry){.ref = *ref, .index = index};
	w->count++;
	*ref = (struct pidref)PIDREF_INIT;
	return 0;
}

void exit_watch_save(const struct exit_watch *w, struct handover *h, json_t *object)
{
	json_t *array = handover_put_array(h, object, "processes"), *one;
	size_t i;

	for (i = 0; i < w->n; i++) {
		if (w->v[i].ref.fd < 0)
			continue;
		one = handover_append_object(h, array);
		handover_put_fd(h, one, "pidfd", w->v[i].ref.fd);
		handover_put_int(h, one, "pid", w->v[i].ref.pid);
		handover_put_int(h, one, "start_ticks", (int64_t)w->v[i].ref.start_ticks);
		handover_put_int(h, one, "index", w->v[i].index);
	}
}

/* A descriptor that becomes watched reports all that was before: its first edge. Who is late has
 * a second of patience anew. */
int exit_watch_restore(struct agent *a, const json_t *object, struct err *err)
{
	const json_t *array = json_get_array(object, "processes"), *one;
	_cleanup_pidref_ struct pidref ref = PIDREF_INIT;
	size_t i;
	int r = exit_watch_open(a);

	for (i = 0; r == 0 && i < json_array_size(array); i++) {
		one = json_array_get(array, i);
		ref.pid = (pid_t)json_get_int(one, "pid", 0);
		ref.fd = handover_get_fd(one, "pidfd");
		ref.start_ticks = (uint64_t)json_get_int(one, "start_ticks", 0);
		if (ref.pid <= 0 || ref.fd < 0)
			return handover_err_part("processes", err);
		r = exit_watch_add_take(
			a->origin.exits, &ref, (uint32_t)json_get_int(one, "index", 0));
	}
	return r < 0 ? err_set(err, r, "go on watching the step's processes") : 0;
}

struct exit_watch *exit_watch_close(struct exit_watch *w)
{
	size_t i;

	if (!w)
		return NULL;
	ev_io_stop(w->a->loop, &w->io);
	ev_timer_stop(w->a->loop, &w->patience);
	for (i = 0; i < w->n; i++)
		pidref_close(&w->v[i].ref);
	(void)close_fd(w->epoll_fd);
	free(w->v);
	free(w);
	return NULL;
}
