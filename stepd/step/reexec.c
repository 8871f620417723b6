/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/reexec.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include "stepd/base/clock.h"
#include "stepd/base/log.h"
#include "stepd/snapshot/handover.h"
#include "stepd/step/agent_impl.h"
#include "stepd/step/frontend.h"

/* More than any program takes to read what there is; requests rest so long at most. */
#define TRIAL_LIMIT_MS 10000

/* How long a caller may take to read an answer of many pieces before the agent goes on without it.
 */
#define PATIENCE_NS 1000000000u

static bool same_file(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The name that was executed, as long as it leads here: a link to the version in use can lead to
 * another one tomorrow. Else the file's own. */
static int find_program(char **ret_path)
{
	const char *name = (const char *)getauxval(AT_EXECFN);
	char real[PATH_MAX];
	ssize_t n;

	if (name && name[0] == '/' && strncmp(name, "/dev/fd/", strlen("/dev/fd/")) != 0 &&
		same_file(name, "/proc/self/exe")) {
		*ret_path = strdup(name);
		return *ret_path ? 0 : -ENOMEM;
	}
	n = readlink("/proc/self/exe", real, sizeof(real) - 1);
	if (n < 0)
		return 0; /* without /proc nothing runs here; told when somebody asks */
	real[n] = '\0';
	*ret_path = strdup(real);
	return *ret_path ? 0 : -ENOMEM;
}

/* ---- the end of it that is not wanted ------------------------------------------------------ */

static void drop_trial(struct reexec *re)
{
	re->trial = handover_free(re->trial);
	re->trial_fd = close_fd(re->trial_fd);
}

/* The agent goes on as it was. */
static void give_up(struct agent *a, const struct err *err)
{
	struct reexec *re = &a->reexec;

	log_error(a->log, "no upgrade, the agent goes on as it was: %s", err->text);
	re->wanted = re->trying = false;
	ev_timer_stop(a->loop, &re->due);
	drop_trial(re);
	re->program_fd = close_fd(re->program_fd);
	requests_rest(&a->suspend.requests, false);
	frontend_not_reexeced(a, err);
	join_go_on(a);
}

/* ---- the change ---------------------------------------------------------------------------- */

/* From here on signals wait: in the new program they have no handlers yet. */
static int change(struct agent *a, const struct handover *h, struct err *err)
{
	_cleanup_close_ int fd = handover_finish((struct handover *)h, err);
	sigset_t all, saved;
	int r;

	if (fd < 0)
		return fd;
	(void)sigfillset(&all); /* can't fail, nor can the calls with valid arguments */
	(void)sigprocmask(SIG_SETMASK, &all, &saved);
	r = handover_set_inherited(h, true);
	if (r == 0 && fcntl(fd, F_SETFD, 0) < 0)
		r = -errno;
	if (r == 0)
		r = reexec_execute(a->reexec.program_fd, fd, false, err);
	else
		(void)err_set(err, r, "keep descriptors for the new program");
	(void)!handover_set_inherited(h, false); /* what could be set can be set back */
	(void)sigprocmask(SIG_SETMASK, &saved, NULL);
	return r;
}

static void become_due(struct agent *a, double sec)
{
	ev_timer_stop(a->loop, &a->reexec.due);
	ev_now_update(a->loop);
	ev_timer_set(&a->reexec.due, sec, 0.);
	ev_timer_start(a->loop, &a->reexec.due);
}

void reexec_answered(struct agent *a)
{
	if (ev_is_active(&a->reexec.due))
		become_due(a, 0.);
}

static void on_due(struct ev_loop *loop, ev_timer *w, int revents)
{
	_cleanup_handover_ struct handover *h = NULL;
	struct agent *a = w->data;
	struct err err = ERR_INIT;

	assert(a);
	(void)loop;
	(void)revents;
	if (a->state >= AGENT_ENDED)
		return;
	a->reexec.asked_ns = clock_now_ns();
	if (frontend_is_answering(a) && a->reexec.asked_ns < a->reexec.patience_ns) {
		become_due(a, (double)(a->reexec.patience_ns - a->reexec.asked_ns) / 1e9);
		return;
	}
	h = reexec_save(a);
	if (!h)
		(void)err_set(&err, -ENOMEM, "write down what the new program needs");
	else
		(void)!change(a, h, &err); /* it comes back with err only */
	give_up(a, &err);
}

static void on_tried(int r, const struct err *err, void *userdata)
{
	struct agent *a = userdata;
	struct err said = *err;

	assert(a);
	a->reexec.trying = false;
	drop_trial(&a->reexec);
	if (r < 0) {
		(void)err_prefix(&said, "'%s'", a->reexec.program);
		give_up(a, &said);
		return;
	}
	/* Behind whatever else is due in this turn of the loop: a timer that has run out and whose
	 * function was not called yet could not be written down. */
	a->reexec.patience_ns = clock_now_ns() + PATIENCE_NS;
	become_due(a, 0.);
}

/* ---- the trial ----------------------------------------------------------------------------- */

static int try_it(void *userdata, struct err *err)
{
	const struct reexec *re = userdata;

	return reexec_try(re->program_fd, re->trial_fd, re->trial, err);
}

static int begin_trial(struct agent *a, struct err *err)
{
	struct reexec *re = &a->reexec;
	int r;

	if (!re->program)
		return err_say(err, -ENOENT,
			"which program this is can't be told (/proc/self/exe); is /proc mounted?");
	r = reexec_open_program(re->program, err);
	if (r < 0)
		return r;
	re->program_fd = r;
	re->trial = reexec_save(a);
	if (!re->trial)
		return err_set(err, -ENOMEM, "write down what the new program needs");
	r = handover_finish(re->trial, err);
	if (r < 0)
		return r;
	re->trial_fd = r;
	r = worker_start(&re->worker, try_it, re, TRIAL_LIMIT_MS);
	return r < 0 ? err_set(err, r, "try the new program") : 0;
}

void reexec_go_on(struct agent *a)
{
	struct reexec *re = &a->reexec;
	struct err err = ERR_INIT;

	if (!re->wanted || re->trying || ev_is_active(&re->due) || a->state < AGENT_RUNNING ||
		a->state >= AGENT_ENDED || requests_is_busy(&a->suspend.requests) ||
		join_is_busy(a))
		return;
	re->trying = true;
	if (begin_trial(a, &err) < 0)
		give_up(a, &err);
}

void reexec_ask(struct agent *a)
{
	if (a->reexec.wanted)
		return; /* one serves all who ask */
	a->reexec.wanted = true;
	requests_rest(&a->suspend.requests, true);
	reexec_go_on(a);
}

/* ---- life ---------------------------------------------------------------------------------- */

int reexec_init(struct agent *a, struct err *err)
{
	struct reexec *re = &a->reexec;
	int r = re->program ? 0 : find_program(&re->program);

	if (r == 0)
		r = worker_init(&re->worker, a->loop, &a->plan.job, on_tried, a);
	if (r < 0)
		return err_set(err, r, "prepare upgrades");
	ev_init(&re->due, on_due);
	ev_set_priority(&re->due, EV_MINPRI);
	re->due.data = a;
	return 0;
}

void reexec_clear(struct agent *a)
{
	struct reexec *re = &a->reexec;

	if (a->loop)
		ev_timer_stop(a->loop, &re->due);
	worker_clear(&re->worker);
	drop_trial(re);
	re->program_fd = close_fd(re->program_fd);
	free(re->program);
	re->program = NULL;
}
