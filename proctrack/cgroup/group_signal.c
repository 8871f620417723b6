/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A signal to all of a cgroup: to each process once, to none that is not in it.
 */
#include "proctrack/cgroup/group.h"

#include <signal.h>
#include <string.h>

#include "proctrack/cgroup/pidset.h"
#include "proctrack/cgroup/tree.h"
#include "stepd/base/fs.h"
#include "stepd/base/pidref.h"

#define BATCH_MAX 512 /* pidfds held at once */

/* How often the lists are read again while new processes appear. Where all stand still nothing new
 * does; this ends the race with a fork bomb that could not be stopped. */
#define PASSES_MAX 100

struct sender {
	int signal;
	struct pidset done; /* who was sent it */
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

/* Sends to who is still listed after its pidfd was opened: so the pidfd is of the process that the
 * list meant, whoever has its pid by now. */
static int flush_batch(struct sender *s, int fd)
{
	_cleanup_pidset_ struct pidset now = PIDSET_INIT;
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
static int make_room(struct sender *s, int fd)
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
		r = make_room(s, fd);
		if (r == 0)
			r = hold(s, pid);
	}
	return r == 0 && s->batched == BATCH_MAX ? flush_batch(s, fd) : r;
}

static int send_to_group(int fd, void *userdata)
{
	_cleanup_pidset_ struct pidset list = PIDSET_INIT;
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

/* To who stands still the signal goes once, and nothing new can appear. What moves gets it moving,
 * and what is in the middle of a fork then has a child that got nothing: so, after the signal has
 * made it move on, all is done again. */
static int stop_and_send(int fd, struct sender *s)
{
	bool was = false, still_was;
	int frozen = group_freeze_briefly(fd, GROUP_SIGNAL_FREEZE_MS, &was);
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
	struct sender s = {.signal = signal, .done = PIDSET_INIT};
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
 * frozen for that: who has been sent SIGKILL forks no more, and who was forked before is in the
 * next list. */
static int kill_rest(int fd)
{
	struct sender s = {.signal = SIGKILL, .done = PIDSET_INIT};
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
