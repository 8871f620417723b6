/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/suspend.h"

#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>

#include "proctrack/proctrack.h"
#include "stepd/base/clock.h"
#include "stepd/base/err.h"
#include "stepd/base/failpoint.h"
#include "stepd/base/proc.h"
#include "stepd/record/events.h"
#include "stepd/snapshot/handover.h"
#include "stepd/stdio/stdio.h"
#include "stepd/step/agent_impl.h"
#include "stepd/step/ending.h"
#include "stepd/step/result.h"

/* The number of ignored signals that are logged: their sender can send any number. */
#define IGNORED_LOGGED_MAX 16

/* ---- reports ------------------------------------------------------------------------------- */

const char *suspend_state_name(const struct agent *a)
{
	return a->state == AGENT_RUNNING && a->suspend.stands ? "suspended"
							      : agent_state_names[a->state];
}

/* Replies to all who requested it: with the reason of a failure, or NULL. Requests by signal get
 * no reply; the state shows the outcome. */
static void suspend_answer(struct agent *a, enum request_kind kind, const char *why)
{
	result_publish_state(a, suspend_state_name(a));
	frontend_suspended(a, kind == REQUEST_SUSPEND, -EIO, why);
}

static void report(const struct agent *a, enum event_kind kind)
{
	struct event event = EVENT_INIT(kind);

	events_add(a->events, &event);
}

/* ---- the moments between which nothing runs ------------------------------------------------ */

static void begin_standing(struct agent *a)
{
	if (a->suspend.stands)
		return;
	a->suspend.stands = true;
	a->suspend.since_ns = clock_now_ns();
	pausable_pause(&a->limits.time);
	pausable_pause(&a->limits.signal);
	pausable_pause(&a->limits.wait);
	pausable_pause(&a->limits.bad_exit_grace);
	if (a->stdio)
		stdio_pause_terminal(a->stdio, true);
}

static void end_standing(struct agent *a)
{
	if (!a->suspend.stands)
		return;
	a->suspend.stands = false;
	a->suspend.total_ns += clock_now_ns() - a->suspend.since_ns;
	pausable_continue(&a->limits.time);
	pausable_continue(&a->limits.signal);
	pausable_continue(&a->limits.wait);
	pausable_continue(&a->limits.bad_exit_grace);
	if (a->stdio)
		stdio_pause_terminal(a->stdio, false);
}

/* ---- the agent as a job of a shell --------------------------------------------------------- */

static int open_terminal(void)
{
	return open("/dev/tty", O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
}

/* The shell takes the terminal when it notices the stop, which may be late, or never if the agent
 * is continued at once. Given to the shell now, the terminal shows later whether an fg came. The
 * leader's group exists as long as the leader; SIGTTOU is blocked (process.h). */
static bool give_terminal(void)
{
	_cleanup_close_ int fd = open_terminal();
	const pid_t own = getpgrp(), leader = getsid(0);

	return fd >= 0 && leader > 0 && leader != own && tcgetpgrp(fd) == own &&
		tcsetpgrp(fd, leader) == 0;
}

static void take_terminal_back(void)
{
	_cleanup_close_ int fd = open_terminal();

	if (fd >= 0 && tcgetpgrp(fd) == getsid(0))
		(void)tcsetpgrp(fd, getpgrp()); /* best effort */
}

static bool has_terminal_again(const struct suspend *s)
{
	_cleanup_close_ int fd = s->gave_terminal ? open_terminal() : -1;

	return fd >= 0 && tcgetpgrp(fd) == getpgrp();
}

/* Stops here, until a SIGCONT; false if no shell could continue it (an orphaned process group):
 * then the default action of SIGTSTP, unlike SIGSTOP's, does not stop it. */
static bool stand_still(const sigset_t *stop)
{
	sigset_t pending;

	(void)sigprocmask(SIG_UNBLOCK, stop, NULL); /* stopped here */
	(void)sigprocmask(SIG_BLOCK, stop, NULL);
	(void)sigpending(&pending);
	return sigismember(&pending, SIGCONT); /* it is read like any other signal */
}

/* raise() drops a pending SIGCONT. An fg gives the terminal before it sends SIGCONT: if that was
 * dropped here, the terminal is ours; if it comes later, it undoes the stop. */
static void stop_agent(struct agent *a)
{
	const struct timespec now = {0};
	struct suspend *s = &a->suspend;
	sigset_t stop;

	s->stop_self = false;
	if (!s->stopped)
		s->gave_terminal = give_terminal();
	s->stopped = true;
	(void)sigemptyset(&stop); /* can't fail, nor can the others with valid arguments */
	(void)sigaddset(&stop, SIGTSTP);
	(void)raise(SIGTSTP);
	if (has_terminal_again(s)) {
		(void)sigtimedwait(&stop, NULL, &now); /* EAGAIN: the SIGCONT came */
		suspend_resume(a);
		return;
	}
	if (stand_still(&stop))
		return;
	/* Otherwise nothing would resume the step. */
	log_warning(a->log,
		"there is no shell with job control that could continue the step: it "
		"goes on");
	if (s->gave_terminal)
		take_terminal_back();
	suspend_resume(a);
}

/* The owner of this session's leader: of a shell on the agent's terminal. */
static bool leads_session(uid_t uid)
{
	char path[32];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%d", (int)getsid(0));
	return stat(path, &st) == 0 && st.st_uid == uid;
}

/* With any other code, as of sigqueue(3), the sender chose the uid. */
static bool names_sender(const struct signalfd_siginfo *info)
{
	return info->ssi_code == SI_USER || info->ssi_code == SI_TKILL;
}

/* For all other signals the kernel has checked that the sender may signal the agent. */
static bool may_continue(const struct signalfd_siginfo *info)
{
	uid_t uid = info->ssi_uid;

	if (info->ssi_code > 0) /* sent by the kernel */
		return true;
	if (!names_sender(info))
		return false;
	return uid == 0 || uid == getuid() || uid == geteuid() || leads_session(uid);
}

/* It has continued the agent anyway, if that was stopped. */
static void ignore_continue(struct agent *a, const struct signalfd_siginfo *info)
{
	struct suspend *s = &a->suspend;

	if (s->ignored++ >= IGNORED_LOGGED_MAX)
		;
	else if (names_sender(info))
		log_warning(a->log,
			"got CONT of pid %u, uid %u, who may not resume the step, ignoring",
			(unsigned)info->ssi_pid, (unsigned)info->ssi_uid);
	else
		log_warning(a->log,
			"got CONT by sigqueue(3), whose sender is not certain, ignoring (use kill(2) "
			"or 'stepctl resume')");
	if (s->stands && s->stopped)
		stop_agent(a);
}

void suspend_on_signal(struct agent *a, const struct signalfd_siginfo *info)
{
	if (info->ssi_signo == SIGCONT) {
		if (may_continue(info))
			suspend_resume(a);
		else
			ignore_continue(a, info);
		/* After a SIGSTOP, which suspends nothing, the shell has used the terminal. */
		if (!a->suspend.stands && a->stdio)
			stdio_pause_terminal(a->stdio, false);
		return;
	}
	if (info->ssi_code == SI_KERNEL && a->state == AGENT_RUNNING)
		a->suspend.stop_self = true; /* typed at the terminal */
	suspend_request(a);
}

/* ---- requests ------------------------------------------------------------------------------ */

static void add(struct agent *a, enum request_kind kind)
{
	if (requests_add(&a->requests, kind, 0) == 0)
		return;
	a->suspend.wanted = a->suspend.stands;
	a->suspend.resuming = false;
	a->suspend.stop_self = false;
	log_error(a->log, "no memory to suspend or resume the step");
	suspend_answer(a, kind, "the agent has no memory left");
}

void suspend_thaw(struct agent *a)
{
	if (proctrack_can_freeze(a->pt) && !a->suspend.wanted && !a->suspend.stands)
		add(a, REQUEST_RESUME);
}

/* ---- what is done by hand ------------------------------------------------------------------ */

/* remedy: "", or what is needed besides a resumption. */
static void begin_frozen(struct agent *a, const char *remedy)
{
	begin_standing(a);
	log_warning(a->log, "step %s was frozen by hand, and counts as suspended: %s",
		a->plan.label, remedy[0] ? remedy : "'stepctl resume' resumes it");
	report(a, EVENT_SUSPEND);
}

static void end_thawed(struct agent *a)
{
	a->suspend.wanted = false;
	end_standing(a);
	log_warning(a->log,
		"step %s was suspended, and resumed by hand: it counts as running; 'stepctl "
		"suspend' stops it again",
		a->plan.label);
	report(a, EVENT_RESUME);
}

static bool is_at_rest(const struct agent *a)
{
	const struct suspend *s = &a->suspend;

	return !s->resuming && (!s->wanted || s->stands) && STAILQ_EMPTY(&a->requests.waiting) &&
		!requests_is_busy(&a->requests);
}

void suspend_check(struct agent *a)
{
	struct suspend *s = &a->suspend;
	char text[ERR_TEXT_SIZE];
	bool found, requested;

	s->to_check = a->state == AGENT_RUNNING && !is_at_rest(a);
	if (a->state != AGENT_RUNNING || s->to_check)
		return;
	if (proctrack_is_suspended(a->pt, a->plan.job.cont_id, &found, text, sizeof(text)) < 0 ||
		found == s->stands)
		return;
	if (found) {
		begin_frozen(a, text);
	} else {
		requested = s->wanted;
		end_thawed(a);
		/* Held signals are sent. What was frozen by hand holds none, and may be frozen
		 * again by now. */
		if (requested) {
			s->resuming = true;
			add(a, REQUEST_RESUME);
		}
	}
	result_publish_state(a, suspend_state_name(a));
}

/* ---- requests ------------------------------------------------------------------------------ */

void suspend_request(struct agent *a)
{
	struct suspend *s = &a->suspend;

	if (a->state != AGENT_RUNNING) {
		suspend_answer(a, REQUEST_SUSPEND, "the step is ending");
		return;
	}
	suspend_check(a); /* it may just have been done by hand */
	if (!s->wanted) {
		s->wanted = true;
		s->resuming = false;
		/* An adopter must know about a request that may be half done. */
		result_publish_state(a, suspend_state_name(a));
		add(a, REQUEST_SUSPEND);
		failpoint("suspending");
	} else if (s->stands) {
		suspend_answer(a, REQUEST_SUSPEND, NULL);
		if (s->stop_self)
			stop_agent(a);
	}
}

void suspend_resume(struct agent *a)
{
	struct suspend *s = &a->suspend;

	s->stop_self = s->stopped = s->gave_terminal = false;
	suspend_check(a); /* it may just have been done by hand */
	if (s->wanted || (s->stands && !s->resuming)) {
		s->wanted = false;
		s->resuming = true;
		requests_withdraw_suspend(&a->requests);
		frontend_suspended(a, true, -EIO, "the step was resumed meanwhile");
		add(a, REQUEST_RESUME);
	} else if (!s->resuming) {
		suspend_answer(a, REQUEST_RESUME, NULL);
	}
}

void suspend_give_up(struct agent *a)
{
	if (!a->suspend.wanted && !a->suspend.stands)
		return;
	log_info(a->log, "the step is suspended: resuming it, so that it can end");
	suspend_resume(a);
}

void suspend_end(struct agent *a)
{
	end_standing(a);
	requests_clear(&a->requests);
	/* While output is still written there is nothing to resume. */
	a->suspend.wanted = a->suspend.resuming = a->suspend.stop_self = false;
	frontend_suspended(a, true, -ESRCH, "no process of the step is left");
	frontend_suspended(a, false, -ESRCH, "no process of the step is left");
}

void suspend_overtaken(struct agent *a)
{
	struct suspend *s = &a->suspend;

	if (a->state != AGENT_RUNNING || s->stands || (!s->wanted && !s->resuming))
		return;
	s->wanted = s->stop_self = false;
	s->resuming = true;
	frontend_suspended(a, true, -EIO, "the step was killed meanwhile");
	add(a, REQUEST_RESUME);
}

void suspend_done(struct agent *a, int r, const struct err *err)
{
	struct suspend *s = &a->suspend;

	if (!s->wanted)
		return;              /* cancelled meanwhile: a resumption follows */
	if (r == 0 || r == -ESRCH) { /* no member: an extern step before the first */
		failpoint("standing");
		begin_standing(a);
		log_info(a->log, "the step is suspended");
		report(a, EVENT_SUSPEND);
		suspend_answer(a, REQUEST_SUSPEND, NULL);
		if (s->stop_self)
			stop_agent(a);
		return;
	}
	s->wanted = s->stop_self = false;
	s->to_check = s->stands; /* as an adopted one, or by hand, before */
	log_error(a->log, "%s; it runs on", err->text);
	if (worker_is_lost(r)) /* which undid nothing */
		add(a, REQUEST_RESUME);
	suspend_answer(a, REQUEST_SUSPEND, err->text);
}

void suspend_resume_done(struct agent *a, int r, const struct err *err)
{
	struct suspend *s = &a->suspend;
	bool requested = s->resuming;
	const char *why = r < 0 && r != -ESRCH ? err->text : NULL;

	s->resuming = false;
	if (r < 0 && r != -ESRCH) {
		s->wanted = s->stands;
		log_error(a->log, "%s", err->text);
	} else if (s->stands) {
		end_standing(a);
		log_info(a->log, "the step goes on");
		report(a, EVENT_RESUME);
	}
	if (requested)
		result_publish_state(a, suspend_state_name(a));
	frontend_suspended(a, false, -EIO, why);
}

/* ---- a step that was taken over ------------------------------------------------------------ */

void suspend_adopt(struct agent *a, bool suspended, bool suspending, uint64_t since_ns)
{
	struct suspend *s = &a->suspend;
	char text[ERR_TEXT_SIZE] = "";
	bool found = suspended;

	if (suspended)
		proctrack_adopt_suspended(a->pt);
	if (suspending ||
		proctrack_is_suspended(a->pt, a->plan.job.cont_id, &found, text, sizeof(text)) < 0)
		found = suspended; /* nobody knows */
	if (!found && !suspended)
		return;
	if (found && !suspended) {
		begin_frozen(a, text);
		return;
	}
	begin_standing(a);
	if (since_ns) /* missing: an older agent did not record it */
		s->since_ns = since_ns;
	s->wanted = found;
	if (!found) /* the time is unknown */
		end_thawed(a);
}

void suspend_adopted(struct agent *a, bool suspending)
{
	if (a->suspend.wanted)
		add(a, REQUEST_SUSPEND); /* it may have been about to continue */
	else if (!a->suspend.stands && (suspending || proctrack_can_freeze(a->pt)))
		add(a, REQUEST_RESUME); /* sending a signal freezes for a moment, too */
}

/* ---- re-exec ------------------------------------------------------------------------------- */

void suspend_save(const struct suspend *s, struct handover *h, struct json_t *object)
{
	handover_put_bool(h, object, "wanted", s->wanted);
	handover_put_bool(h, object, "resuming", s->resuming);
	handover_put_bool(h, object, "stands", s->stands);
	handover_put_bool(h, object, "stop_self", s->stop_self);
	handover_put_bool(h, object, "stopped", s->stopped);
	handover_put_bool(h, object, "gave_terminal", s->gave_terminal);
}

void suspend_restore(struct suspend *s, const struct json_t *object)
{
	s->wanted = json_get_bool(object, "wanted", false);
	s->resuming = json_get_bool(object, "resuming", false);
	s->stands = json_get_bool(object, "stands", false);
	s->stop_self = json_get_bool(object, "stop_self", false);
	s->stopped = json_get_bool(object, "stopped", false);
	s->gave_terminal = json_get_bool(object, "gave_terminal", false);
}
