/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/account/account.h"

#include <assert.h>
#include <ev.h>
#include <string.h>
#include <time.h>

#include "proctrack/proctrack.h"
#include "stepd/account/tasks.h"
#include "stepd/account/usage.h"
#include "stepd/base/buffer.h"
#include "stepd/base/clock.h"
#include "stepd/base/err.h"
#include "stepd/base/parse.h"
#include "stepd/record/events.h"
#include "stepd/record/report.h"
#include "stepd/snapshot/handover.h"

/* ---- tasks that ran out of memory ---------------------------------------------------------- */

#define PAUSE_SECONDS 0.25

bool oom_is_counted(const struct account *acc)
{
	return acc->oom.watch.fd >= 0;
}

/* Reads the step's count once more, without those of its tasks: true if some of those killed are
 * not attributed to a task yet. */
static bool oom_is_unsettled(struct account *acc)
{
	struct oom *oom = &acc->oom;

	if (!oom_is_counted(acc) || pri_watch_read(&oom->watch) < 0)
		return false;
	if (parse_line_u64(oom->watch.text, "oom_kill ", &oom->kills) < 0)
		oom->kills = 0;
	return oom->kills > oom->attributed;
}

static void oom_log_task(
	const struct account *acc, const struct task *task, const stepd_usage_t *now)
{
	char peak[USAGE_TEXT_SIZE];

	log_error(acc->setup.log,
		"task %u (pid %d) ran out of memory: the kernel killed %llu process%s of it%s%s",
		task->rank, (int)task->pid, (unsigned long long)task->oom_kills,
		task->oom_kills == 1 ? "" : "es",
		now->source[STEPD_USAGE_MEMORY_PEAK_BYTES] ? "; its peak was " : "",
		now->source[STEPD_USAGE_MEMORY_PEAK_BYTES]
			? usage_text(now, STEPD_USAGE_MEMORY_PEAK_BYTES, peak)
			: "");
}

static void oom_record_task(const struct account *acc, const struct task *task)
{
	struct event event = EVENT_INIT(EVENT_OOM);

	event.rank = task->rank;
	event.pid = task->pid;
	event.count = (int64_t)task->oom_kills;
	events_add(acc->setup.events, &event);
}

/* Notes the counts that were just read of the task. */
static void oom_note_task(struct account *acc, struct task *task, const stepd_usage_t *now)
{
	uint64_t kills = now->value[STEPD_USAGE_OOM_KILLS];
	bool first = task->oom_kills == 0;

	if (!now->source[STEPD_USAGE_OOM_KILLS])
		return;
	task->oom_counted = true;
	if (kills <= task->oom_kills)
		return;
	acc->oom.attributed += kills - task->oom_kills;
	task->oom_kills = kills;
	oom_record_task(acc, task);
	if (first)
		oom_log_task(acc, task, now);
}

static void oom_read_tasks(struct account *acc)
{
	stepd_usage_t now;
	uint32_t i;

	for (i = 0; i < acc->setup.tasks->n && acc->oom.kills > acc->oom.attributed; i++) {
		if (proctrack_usage(acc->setup.pt, acc->setup.job->cont_id,
			    &acc->setup.tasks->v[i].rank, &now) == 0)
			oom_note_task(acc, &acc->setup.tasks->v[i], &now);
	}
}

/* Reads the tasks' counts, unless that was a moment ago. */
static void oom_poll(struct account *acc)
{
	struct oom *oom = &acc->oom;

	oom->late = ev_is_active(&oom->pause);
	if (oom->late)
		return;
	oom_read_tasks(acc);
	ev_now_update(acc->setup.loop);
	ev_timer_set(&oom->pause, PAUSE_SECONDS, 0.);
	ev_timer_start(acc->setup.loop, &oom->pause);
}

static void oom_on_pause_over(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct account *acc = w->data;

	assert(acc);
	(void)loop;
	(void)revents;
	if (acc->oom.late)
		oom_poll(acc);
}

static void oom_on_change(void *userdata)
{
	struct account *acc = userdata;

	assert(acc);
	if (oom_is_unsettled(acc))
		oom_poll(acc);
	if (acc->oom.kills > 0)
		acc->setup.on_oom(acc->setup.userdata);
}

/* Before the first fork. A tracker without counts is not an error. */
static int oom_watch(struct account *acc, struct err *err)
{
	int fd = proctrack_oom_fd(acc->setup.pt, acc->setup.job->cont_id), r;

	ev_init(&acc->oom.pause, oom_on_pause_over);
	acc->oom.pause.data = acc;
	if (fd == -EOPNOTSUPP)
		return 0;
	r = fd < 0 ? fd : pri_watch_start(&acc->oom.watch, acc->setup.loop, fd, oom_on_change, acc);
	return r < 0 ? err_set(err, r, "watch whether the step runs out of memory") : 0;
}

/* The last poll, while the container stands. */
static void oom_finish(struct account *acc)
{
	if (oom_is_unsettled(acc))
		oom_read_tasks(acc);
	if (oom_is_unsettled(acc))
		log_error(acc->setup.log,
			"the step ran out of memory: the kernel killed %llu more process%s, which "
			"belong to no task",
			(unsigned long long)(acc->oom.kills - acc->oom.attributed),
			acc->oom.kills - acc->oom.attributed == 1 ? "" : "es");
}

/* At a re-exec (handover.h). restore: after oom_watch(); runs: processes of
 * the step may still be killed. */
static void oom_save(const struct oom *oom, struct handover *h, struct json_t *object)
{
	handover_put_int(h, object, "kills", (int64_t)oom->kills);
	handover_put_int(h, object, "attributed", (int64_t)oom->attributed);
}

/* The pause between two polls is not handed over: it costs one more poll. */
static void oom_restore(struct account *acc, const struct json_t *object, bool runs)
{
	acc->oom.kills = (uint64_t)json_get_int(object, "kills", 0);
	acc->oom.attributed = (uint64_t)json_get_int(object, "attributed", 0);
	if (runs && oom_is_unsettled(acc))
		oom_poll(acc);
}

static void oom_unwatch(struct account *acc)
{
	if (!acc->setup.loop)
		return;
	ev_timer_stop(acc->setup.loop, &acc->oom.pause);
	pri_watch_stop(&acc->oom.watch);
}

/* ---- samples ------------------------------------------------------------------------------- */

/* At the step's start, at an interval and at its end, a line for the step and one for each task go
 * to a file: as CSV or, if its name ends in .json, .jsonl or .ndjson, as lines of JSON. stepd(8)
 * describes them.
 *
 * A regular file is replaced. A pipe is written at the pace of its reader: a sample is left out
 * while its predecessor is pending. A write error is logged once and ends the sampling, never the
 * step. Sampling many tasks costs CPU time: the next sample is at least nine times that time away.
 */

#define LOAD_SHARE 9u /* times the CPU time that a sample took, before the next one */

struct sample {
	struct account *acc;
	const char *file;
	enum sample_format format;
	uint64_t interval_ns;
	uint64_t next_ns;
	ev_timer timer;
	ev_io io;              /* active while text is pending */
	int fd;                /* -1: the sampling has ended */
	struct buffer pending; /* text that is not written yet */
	uint64_t left_out;
	bool heading; /* is written */
};

static bool sample_is_pending(const struct sample *s)
{
	return buffer_size(&s->pending) > 0;
}

static void sample_stop(struct sample *s)
{
	buffer_clear(&s->pending);
	ev_io_stop(s->acc->setup.loop, &s->io);
	ev_timer_stop(s->acc->setup.loop, &s->timer);
	s->fd = close_fd(s->fd);
}

static void sample_push(struct sample *s, int patience_ms)
{
	ssize_t n = report_write_patiently(
		s->fd, buffer_bytes(&s->pending), buffer_size(&s->pending), patience_ms);

	if (n < 0) {
		log_warning(s->acc->setup.log,
			"--sample: write '%s': %s; no more samples are taken", s->file,
			strerror((int)-n));
		sample_stop(s);
		return;
	}
	buffer_drop(&s->pending, (size_t)n);
	if (!sample_is_pending(s))
		ev_io_stop(s->acc->setup.loop, &s->io);
}

static void sample_on_writable(struct ev_loop *loop, ev_io *w, int revents)
{
	assert(w->data);
	(void)loop;
	(void)revents;
	sample_push(w->data, 0);
}

/* A task that has ended has one more line in the last sample, else none. */
static void sample_print_tasks(
	FILE *f, const struct sample *s, const struct sample_line *step, bool last)
{
	const struct account *acc = s->acc;
	struct sample_line line = *step;
	uint32_t i;

	for (i = 0; i < acc->setup.tasks->n; i++) {
		line.rank = acc->setup.tasks->v[i].rank;
		line.usage = &acc->usage.tasks[i];
		if (last || acc->setup.tasks->v[i].state == TASK_RUNNING)
			sample_print_line(f, s->format, &line);
	}
}

/* end_ns: of the step, for its last sample; 0: it goes on. */
static int sample_print(struct sample *s, uint64_t end_ns)
{
	const struct account *acc = s->acc;
	struct sample_line line = {
		.time_usec = clock_wall_usec(),
		.elapsed_usec = ((end_ns ? end_ns : clock_now_ns()) - acc->setup.begin_ns) / 1000,
		.rank = -1,
		.usage = &acc->usage.step,
	};
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return -ENOMEM;
	if (!s->heading)
		sample_print_heading(f, s->format);
	sample_print_line(f, s->format, &line);
	sample_print_tasks(f, s, &line, end_ns != 0);
	if (fclose(f) != 0 || buffer_add(&s->pending, text, size) < 0)
		return -ENOMEM;
	s->heading = true;
	return 0;
}

static void sample_take(struct sample *s, uint64_t end_ns)
{
	if (s->fd < 0)
		return;
	if (sample_is_pending(s)) {
		s->left_out++;
		return;
	}
	if (sample_print(s, end_ns) < 0) {
		log_warning(s->acc->setup.log, "--sample: no memory; no more samples are taken");
		sample_stop(s);
		return;
	}
	sample_push(s, 0);
	if (sample_is_pending(s))
		ev_io_start(s->acc->setup.loop, &s->io);
}

/* CPU time of the agent itself. */
static uint64_t agent_cpu_ns(void)
{
	struct timespec used;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used); /* can't fail */
	return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

/* Samples are due at fixed times from the start on; times that have passed are left out. */
static void sample_plan_next(struct sample *s, uint64_t begin_cpu_ns)
{
	uint64_t now = clock_now_ns(), least = now + (agent_cpu_ns() - begin_cpu_ns) * LOAD_SHARE;

	if (s->fd < 0)
		return;
	do
		s->next_ns += s->interval_ns;
	while (s->next_ns < least);
	ev_now_update(s->acc->setup.loop);
	ev_timer_set(&s->timer, (double)(s->next_ns - now) / 1e9, 0.);
	ev_timer_start(s->acc->setup.loop, &s->timer);
}

static void sample_on_timer(struct ev_loop *loop, ev_timer *w, int revents)
{
	uint64_t begin_cpu_ns = agent_cpu_ns();
	struct sample *s = w->data;

	assert(s);
	(void)loop;
	(void)revents;
	account_poll(s->acc);
	sample_take(s, 0);
	sample_plan_next(s, begin_cpu_ns);
}

static struct sample *sample_make(struct account *acc, int fd)
{
	struct sample *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->acc = acc;
	s->file = acc->setup.sample_file;
	s->format = sample_format_of(s->file);
	s->interval_ns = acc->setup.sample_interval_ms * 1000000u;
	s->fd = fd;
	ev_init(&s->timer, sample_on_timer);
	ev_io_init(&s->io, sample_on_writable, fd, EV_WRITE);
	s->timer.data = s->io.data = s;
	return s;
}

/* By options->sample_file and sample_interval_ms. */
static int sample_open(struct account *acc, struct sample **ret_sample, struct err *err)
{
	const char *file = acc->setup.sample_file;
	_cleanup_close_ int fd = report_open(file);
	struct sample *s;

	if (fd < 0)
		return err_set(err, fd, "--sample: '%s' can't be written", file);
	s = sample_make(acc, fd);
	if (!s)
		return err_set(err, -ENOMEM, "--sample");
	(void)take_fd(&fd);
	*ret_sample = s;
	return 0;
}

static void sample_start(struct sample *s)
{
	if (!s)
		return;
	s->next_ns = clock_now_ns();
	sample_on_timer(s->acc->setup.loop, &s->timer, 0);
}

/* No process is left: only the last sample follows. */
static void sample_pause(struct sample *s)
{
	if (s)
		ev_timer_stop(s->acc->setup.loop, &s->timer);
}

/* The last sample, of the usage as it was read last; its reader has two seconds to read it. */
static void sample_end(struct sample *s, uint64_t end_ns)
{
	if (!s || s->fd < 0)
		return;
	if (sample_is_pending(s))
		sample_push(s, REPORT_PATIENCE_MS);
	sample_take(s, end_ns);
	if (sample_is_pending(s))
		sample_push(s, REPORT_PATIENCE_MS);
	if (sample_is_pending(s))
		s->left_out++;
	if (s->left_out)
		log_warning(s->acc->setup.log,
			"--sample: '%s' was read too slowly: %llu samples are missing", s->file,
			(unsigned long long)s->left_out);
	sample_stop(s);
}

/* At a re-exec (handover.h). */
static void sample_save(const struct sample *s, struct handover *h, struct json_t *object)
{
	handover_put_fd(h, object, "fd", s->fd);
	handover_put_int(h, object, "next_ns", (int64_t)s->next_ns);
	handover_put_int(h, object, "left_out", (int64_t)s->left_out);
	handover_put_bool(h, object, "heading", s->heading);
	handover_put_bool(h, object, "runs", ev_is_active(&s->timer));
	if (sample_is_pending(s))
		handover_put_bytes(
			h, object, "text", buffer_bytes(&s->pending), buffer_size(&s->pending));
}

static struct sample *sample_free(struct sample *s)
{
	if (s)
		sample_stop(s);
	free(s);
	return NULL;
}

static int sample_restore(struct account *acc, const struct handover *h,
	const struct json_t *object, struct sample **ret_sample)
{
	struct sample *s = sample_make(acc, handover_get_fd(object, "fd"));
	const char *text;
	size_t size;

	if (!s)
		return -ENOMEM;
	s->next_ns = (uint64_t)json_get_int(object, "next_ns", 0);
	s->left_out = (uint64_t)json_get_int(object, "left_out", 0);
	s->heading = json_get_bool(object, "heading", true);
	text = handover_get_bytes(h, object, "text", &size);
	if (text && s->fd >= 0) {
		if (buffer_add(&s->pending, text, size) < 0) {
			*ret_sample = sample_free(s);
			return -ENOMEM;
		}
		ev_io_start(acc->setup.loop, &s->io);
	}
	if (s->fd >= 0 && json_get_bool(object, "runs", false)) {
		ev_now_update(acc->setup.loop);
		ev_timer_set(&s->timer, handover_left_sec((int64_t)s->next_ns), 0.);
		ev_timer_start(acc->setup.loop, &s->timer);
	}
	*ret_sample = s;
	return 0;
}

/* ---- the step's accounting ----------------------------------------------------------------- */

int account_open(struct account *acc, const struct account_setup *setup, struct err *err)
{
	int r = 0;

	acc->setup = *setup;
	if (setup->result_has_usage || setup->usage_table || setup->sample_file)
		r = usage_open(&acc->usage, setup->tasks->n);
	if (r < 0)
		return err_set(err, r, "set up the step's accounting");
	r = oom_watch(acc, err);
	if (r == 0 && setup->sample_file)
		r = sample_open(acc, &acc->sample, err);
	return r;
}

void account_started(struct account *acc)
{
	sample_start(acc->sample);
}

void account_poll(struct account *acc)
{
	struct tasks *tasks = acc->setup.tasks;
	uint32_t i;
	int r;

	if (!acc->usage.enabled)
		return;
	r = usage_poll(&acc->usage, acc->setup.pt, acc->setup.job);
	if (r < 0 && r != -ESRCH)
		log_debug(acc->setup.log, "can't read the step's usage: %s", strerror(-r));
	for (i = 0; r == 0 && i < tasks->n; i++)
		oom_note_task(acc, &tasks->v[i], &acc->usage.polled[i]);
}

/* ru may be NULL, as in usage_task_ended(). */
static void account_note_end(struct account *acc, struct task *task, const struct rusage *ru)
{
	stepd_usage_t now;
	int r = proctrack_usage(acc->setup.pt, acc->setup.job->cont_id, &task->rank, &now);

	if (r == 0)
		oom_note_task(acc, task, &now);
	if (acc->usage.enabled && (r == 0 || ru))
		usage_task_ended(&acc->usage, (uint32_t)(task - acc->setup.tasks->v),
			r == 0 ? &now : NULL, ru);
}

void account_reaped(struct account *acc, struct task *task, const struct rusage *ru, long floor_kib)
{
	bool unsettled = task && oom_is_unsettled(acc);

	acc->usage.floor_kib = floor_kib;
	if (acc->usage.enabled)
		usage_reaped(&acc->usage, ru);
	if (task && (acc->usage.enabled || unsettled))
		account_note_end(acc, task, ru);
}

void account_read_oom(struct account *acc)
{
	if (oom_is_unsettled(acc))
		oom_read_tasks(acc);
}

void account_poll_task(struct account *acc, struct task *task)
{
	account_note_end(acc, task, NULL);
}

void account_finish(struct account *acc, bool all_ended)
{
	if (acc->usage.enabled && all_ended)
		usage_finish(&acc->usage, acc->setup.pt, acc->setup.job);
	else
		account_poll(acc);
	oom_finish(acc);
	sample_pause(acc->sample);
}

void account_report(struct account *acc, uint64_t end_ns)
{
	const struct account_setup *setup = &acc->setup;
	_cleanup_free_ char *text = NULL;

	sample_end(acc->sample, end_ns);
	if (!setup->usage_table)
		return;
	const struct usage_view view = {
		.label = setup->label,
		.elapsed_usec = (end_ns - setup->begin_ns) / 1000,
		.step = &acc->usage.step,
		.tasks = acc->usage.tasks,
		.task = setup->job->task,
		.n = setup->tasks->n,
	};
	text = usage_table_format(&view);
	if (!text || report_write(setup->log->fd, text) < 0)
		log_warning(setup->log, "can't print the step's usage");
}

void account_save(const struct account *acc, struct handover *h, struct json_t *object)
{
	if (acc->usage.tasks)
		usage_save(&acc->usage, acc->setup.tasks->n, h,
			handover_put_object(h, object, "usage"));
	oom_save(&acc->oom, h, handover_put_object(h, object, "oom"));
	if (acc->sample)
		sample_save(acc->sample, h, handover_put_object(h, object, "sample"));
}

int account_restore(struct account *acc, const struct account_setup *setup,
	const struct handover *h, const struct json_t *object, bool runs, struct err *err)
{
	const struct json_t *usage = json_get_object(object, "usage");
	const struct json_t *sample = json_get_object(object, "sample");
	int r = usage ? usage_open(&acc->usage, setup->tasks->n) : 0;

	if (r < 0)
		return err_set(err, r, "set up the step's accounting");
	acc->setup = *setup;
	if (usage)
		usage_restore(&acc->usage, setup->tasks->n, usage);
	r = oom_watch(acc, err);
	if (r < 0)
		return r;
	oom_restore(acc, json_get_object(object, "oom"), runs);
	r = sample ? sample_restore(acc, h, sample, &acc->sample) : 0;
	return r < 0 ? err_set(err, r, "restore the samples") : 0;
}

void account_close(struct account *acc)
{
	acc->sample = sample_free(acc->sample);
	oom_unwatch(acc);
	usage_clear(&acc->usage);
}
