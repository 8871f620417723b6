/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The runner of a jobd that has no processes, in the place of contrib/jobd/run/: for tests of what
 * is around it. A job with a script ends after so many seconds with such a status as its first two
 * arguments have it; without arguments, or without a script, it ends when it is signalled. After a
 * restart jobs are taken to have run on.
 */
#include "contrib/jobd/run/run.h"

#include <ev.h>
#include <signal.h>
#include <stdlib.h>

struct run {
	struct run_options options;
	struct engine *engine;
};

struct fake_job {
	struct run *run;
	struct job *job;
	ev_timer end, change;
	int status;
};

static struct fake_job *fake_of(struct job *job)
{
	return job->runner_data;
}

static void on_end(struct ev_loop *loop, ev_timer *timer, int revents)
{
	struct fake_job *fake = timer->data;
	struct run *run = fake->run;

	(void)revents;
	ev_timer_stop(loop, timer);
	engine_job_ended(run->engine, fake->job, fake->status, false); /* which forgets it */
	run->options.on_report(run->options.userdata);
}

static void on_change(struct ev_loop *loop, ev_timer *timer, int revents)
{
	struct fake_job *fake = timer->data;
	struct run *run = fake->run;

	(void)revents;
	ev_timer_stop(loop, timer);
	if (fake->job->change == JOB_SUSPENDING)
		engine_job_suspended(run->engine, fake->job, 0);
	else
		engine_job_resumed(run->engine, fake->job, 0);
	run->options.on_report(run->options.userdata);
}

static void end_in(struct fake_job *fake, double seconds, int status)
{
	struct ev_loop *loop = fake->run->options.loop;

	fake->status = status;
	ev_timer_stop(loop, &fake->end);
	ev_timer_set(&fake->end, seconds, 0.);
	ev_timer_start(loop, &fake->end);
}

static int start_job(struct run *run, struct job *job)
{
	struct fake_job *fake = calloc(1, sizeof(*fake));
	char *const *argv = job->request.argv;

	if (!fake)
		return -ENOMEM;
	fake->run = run;
	fake->job = job;
	ev_init(&fake->end, on_end);
	ev_timer_init(&fake->change, on_change, 0., 0.);
	fake->end.data = fake->change.data = fake;
	job->runner_data = fake;
	if (job->request.script && argv && argv[0])
		end_in(fake, atof(argv[0]), argv[1] ? atoi(argv[1]) << 8 : 0);
	return 0;
}

static int run_start(struct job *job, void *userdata, struct err *err)
{
	int r = start_job(userdata, job);

	return r < 0 ? err_set(err, r, "start job %u", job->record.job_id) : 0;
}

static void run_signal(struct job *job, int signal, enum job_signal_target target, void *userdata)
{
	(void)target;
	(void)userdata;
	if (fake_of(job) && (signal == SIGTERM || signal == SIGKILL))
		end_in(fake_of(job), 0., signal);
}

static void run_change(struct job *job, void *userdata)
{
	struct run *run = userdata;

	if (fake_of(job))
		ev_timer_start(run->options.loop, &fake_of(job)->change);
}

static void run_forget(struct job *job, void *userdata)
{
	struct run *run = userdata;
	struct fake_job *fake = fake_of(job);

	if (fake) {
		ev_timer_stop(run->options.loop, &fake->end);
		ev_timer_stop(run->options.loop, &fake->change);
	}
	free(fake);
	job->runner_data = NULL;
}

const struct engine_runner run_functions = {
	.start = run_start,
	.signal = run_signal,
	.suspend = run_change,
	.resume = run_change,
	.forget = run_forget,
};

int run_new(const struct run_options *options, struct run **ret_run, struct err *err)
{
	struct run *run = calloc(1, sizeof(*run));

	if (!run)
		return err_set(err, -ENOMEM, "make the runner");
	run->options = *options;
	*ret_run = run;
	return 0;
}

void run_set_engine(struct run *run, struct engine *engine)
{
	run->engine = engine;
}

int run_recover(struct run *run, struct err *err)
{
	const size_t count = engine_count_jobs(run->engine);
	struct job *job;
	size_t i;

	for (i = 0; i < count; i++) {
		job = engine_get_job(run->engine, i);
		if (job && job->launched && start_job(run, job) < 0)
			return err_set(err, -ENOMEM, "find jobs again");
	}
	return 0;
}

struct run *run_free(struct run *run)
{
	free(run);
	return NULL;
}
