/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/account/sample.h"

#include <assert.h>
#include <ev.h>
#include <string.h>
#include <time.h>

#include "stepd/account/account.h"
#include "stepd/account/sample_text.h"
#include "stepd/account/tasks.h"
#include "stepd/base/buffer.h"
#include "stepd/base/clock.h"
#include "stepd/base/log.h"
#include "stepd/record/report.h"
#include "stepd/snapshot/handover.h"

#define LOAD_SHARE 9u /* times the CPU time that a sample took, before the next one */

struct sample {
	struct account *acc;
	const char *file;
	enum sample_format format;
	uint64_t interval_ns;
	uint64_t next_ns;
	ev_timer timer;
	ev_io io;              /* active while a reader is waited for */
	int fd;                /* -1: the sampling has ended */
	struct buffer pending; /* for its reader */
	uint64_t left_out;
	bool heading; /* is written */
};

/* ---- writing ------------------------------------------------------------------------------- */

static bool is_pending(const struct sample *s)
{
	return buffer_size(&s->pending) > 0;
}

static void stop(struct sample *s)
{
	buffer_clear(&s->pending);
	ev_io_stop(s->acc->setup.loop, &s->io);
	ev_timer_stop(s->acc->setup.loop, &s->timer);
	s->fd = close_fd(s->fd);
}

static void push(struct sample *s, int patience_ms)
{
	ssize_t n = report_write_patiently(
		s->fd, buffer_bytes(&s->pending), buffer_size(&s->pending), patience_ms);

	if (n < 0) {
		log_warning(s->acc->setup.log,
			"--sample: write '%s': %s; no more samples are taken", s->file,
			strerror((int)-n));
		stop(s);
		return;
	}
	buffer_drop(&s->pending, (size_t)n);
	if (!is_pending(s))
		ev_io_stop(s->acc->setup.loop, &s->io);
}

static void on_writable(struct ev_loop *loop, ev_io *w, int revents)
{
	assert(w->data);
	(void)loop;
	(void)revents;
	push(w->data, 0);
}

/* ---- taking -------------------------------------------------------------------------------- */

/* A task that has ended has one more line in the last sample, else none. */
static void print_tasks(FILE *f, const struct sample *s, const struct sample_line *step, bool last)
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
static int print_sample(struct sample *s, uint64_t end_ns)
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
	print_tasks(f, s, &line, end_ns != 0);
	if (fclose(f) != 0 || buffer_add(&s->pending, text, size) < 0)
		return -ENOMEM;
	s->heading = true;
	return 0;
}

static void take(struct sample *s, uint64_t end_ns)
{
	if (s->fd < 0)
		return;
	if (is_pending(s)) {
		s->left_out++;
		return;
	}
	if (print_sample(s, end_ns) < 0) {
		log_warning(s->acc->setup.log, "--sample: no memory; no more samples are taken");
		stop(s);
		return;
	}
	push(s, 0);
	if (is_pending(s))
		ev_io_start(s->acc->setup.loop, &s->io);
}

/* What the agent itself has run, whoever else wants the CPUs. */
static uint64_t cpu_ns(void)
{
	struct timespec used;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used); /* can't fail */
	return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

/* At fixed times from the start on, of which those are left out that have gone by. */
static void plan_next(struct sample *s, uint64_t begin_cpu_ns)
{
	uint64_t now = clock_now_ns(), least = now + (cpu_ns() - begin_cpu_ns) * LOAD_SHARE;

	if (s->fd < 0)
		return;
	do
		s->next_ns += s->interval_ns;
	while (s->next_ns < least);
	ev_now_update(s->acc->setup.loop);
	ev_timer_set(&s->timer, (double)(s->next_ns - now) / 1e9, 0.);
	ev_timer_start(s->acc->setup.loop, &s->timer);
}

static void on_timer(struct ev_loop *loop, ev_timer *w, int revents)
{
	uint64_t begin_cpu_ns = cpu_ns();
	struct sample *s = w->data;

	assert(s);
	(void)loop;
	(void)revents;
	account_poll(s->acc);
	take(s, 0);
	plan_next(s, begin_cpu_ns);
}

/* ---- life ---------------------------------------------------------------------------------- */

static struct sample *make(struct account *acc, int fd)
{
	struct sample *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->acc = acc;
	s->file = acc->setup.sample_file;
	s->format = sample_format_of(s->file);
	s->interval_ns = acc->setup.sample_interval_ms * 1000000u;
	s->fd = fd;
	ev_init(&s->timer, on_timer);
	ev_io_init(&s->io, on_writable, fd, EV_WRITE);
	s->timer.data = s->io.data = s;
	return s;
}

int sample_open(struct account *acc, struct sample **ret_sample, struct err *err)
{
	const char *file = acc->setup.sample_file;
	_cleanup_close_ int fd = report_open(file);
	struct sample *s;

	if (fd < 0)
		return err_set(err, fd, "--sample: '%s' can't be written", file);
	s = make(acc, fd);
	if (!s)
		return err_set(err, -ENOMEM, "--sample");
	(void)take_fd(&fd);
	*ret_sample = s;
	return 0;
}

void sample_start(struct sample *s)
{
	if (!s)
		return;
	s->next_ns = clock_now_ns();
	on_timer(s->acc->setup.loop, &s->timer, 0);
}

void sample_pause(struct sample *s)
{
	if (s)
		ev_timer_stop(s->acc->setup.loop, &s->timer);
}

void sample_end(struct sample *s, uint64_t end_ns)
{
	if (!s || s->fd < 0)
		return;
	if (is_pending(s))
		push(s, REPORT_PATIENCE_MS);
	take(s, end_ns);
	if (is_pending(s))
		push(s, REPORT_PATIENCE_MS);
	if (is_pending(s))
		s->left_out++;
	if (s->left_out)
		log_warning(s->acc->setup.log,
			"--sample: '%s' was read too slowly: %llu samples are missing", s->file,
			(unsigned long long)s->left_out);
	stop(s);
}

void sample_save(const struct sample *s, struct handover *h, struct json_t *object)
{
	handover_put_fd(h, object, "fd", s->fd);
	handover_put_int(h, object, "next_ns", (int64_t)s->next_ns);
	handover_put_int(h, object, "left_out", (int64_t)s->left_out);
	handover_put_bool(h, object, "heading", s->heading);
	handover_put_bool(h, object, "runs", ev_is_active(&s->timer));
	if (is_pending(s))
		handover_put_bytes(
			h, object, "text", buffer_bytes(&s->pending), buffer_size(&s->pending));
}

int sample_restore(struct account *acc, const struct handover *h, const struct json_t *object,
	struct sample **ret_sample)
{
	struct sample *s = make(acc, handover_get_fd(object, "fd"));
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

struct sample *sample_free(struct sample *s)
{
	if (s)
		stop(s);
	free(s);
	return NULL;
}
