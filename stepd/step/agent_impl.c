/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What an agent begins as, whether it runs a step, adopts one or goes on with its own; and what of
 * it goes over to one that does.
 */
#include "stepd/step/agent_impl.h"

#include <assert.h>
#include <jansson.h>
#include <string.h>

#include "stepd/base/log.h"
#include "stepd/process/process.h"
#include "stepd/record/report.h"
#include "stepd/record/state_doc.h"
#include "stepd/step/ending.h"

void agent_close_inherited(const struct agent_options *o)
{
	const int keep[] = {o->ready_fd, o->supervisor_fd, o->listen_fd ? *o->listen_fd : -1,
		o->log->fd, report_descriptor_of(o->result_file),
		report_descriptor_of(o->sample_file), report_descriptor_of(o->trace_file)};

	process_close_inherited(keep, ARRAY_SIZE(keep));
}

void agent_init(struct agent *a, const struct agent_options *options)
{
	size_t i;

	*a = (struct agent){
		.options = options,
		.log = options->log,
		.start = {.launch = LAUNCH_INIT},
		.mpi = {.service_cgroup_fd = -1},
		.watch = {.signal_fd = -1,
			.container = PRI_WATCH_INIT,
			.member = MEMBER_WATCH_INIT,
			.supervisor = {.fd = options->supervisor_fd}},
		.account = ACCOUNT_INIT,
		.reexec = REEXEC_INIT,
		.origin = {.begin_ns = options->start_ns},
		.ready = {.fd = options->ready_fd},
	};
	for (i = 0; i < AGENT_SPARE_FDS; i++)
		a->start.spare_fd[i] = -1;
}

struct account_setup agent_account_setup(struct agent *a)
{
	const struct agent_options *o = a->options;

	return (struct account_setup){
		.loop = a->loop,
		.log = a->log,
		.pt = a->pt,
		.job = &a->plan.job,
		.tasks = &a->tasks,
		.events = a->events,
		.label = a->plan.label,
		.begin_ns = a->origin.begin_ns,
		.sample_file = o->sample_file,
		.sample_interval_ms = o->sample_interval_ms,
		.usage_table = o->usage_table,
		.result_has_usage = o->result_file || o->keep_result_ms,
		.on_oom = ending_on_oom,
		.userdata = a,
	};
}

/* ---- during the launch ---------------------------------------------------------------------- */

static void on_readable(struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	assert(w->data);
	*(bool *)w->data = true;
	ev_break(loop, EVBREAK_ONE);
}

static void on_too_long(struct ev_loop *loop, _unused_ ev_timer *w, _unused_ int revents)
{
	ev_break(loop, EVBREAK_ONE);
}

bool agent_serve_meanwhile(struct agent *a, int fd, uint64_t limit_ms)
{
	bool readable = false;
	ev_timer limit;
	ev_io io;

	ev_io_stop(a->loop, &a->watch.signal_io);
	supervisor_line_pause(&a->watch.supervisor, true);
	ev_io_init(&io, on_readable, fd, EV_READ);
	io.data = &readable;
	ev_timer_init(&limit, on_too_long, (double)limit_ms / 1e3, 0.);
	if (fd >= 0)
		ev_io_start(a->loop, &io);
	ev_now_update(a->loop);
	if (limit_ms != AGENT_NO_LIMIT)
		ev_timer_start(a->loop, &limit);
	ev_run(a->loop, fd >= 0 ? 0 : EVRUN_NOWAIT);
	ev_timer_stop(a->loop, &limit);
	ev_io_stop(a->loop, &io);
	ev_io_start(a->loop, &a->watch.signal_io);
	supervisor_line_pause(&a->watch.supervisor, false);
	return readable;
}

/* ---- what goes over ------------------------------------------------------------------------- */

static int list_tasks(const struct agent *a, struct state_doc *s)
{
	const struct task *task = a->tasks.v;

	s->tasks = calloc(a->tasks.n + 1u, sizeof(*s->tasks));
	if (!s->tasks)
		return -ENOMEM;
	for (; s->tasks_count < a->tasks.n; s->tasks_count++, task++)
		s->tasks[s->tasks_count] = (struct state_task){.rank = task->rank,
			.pid = a->plan.job.task[s->tasks_count].pid,
			.spawn = task->spawn,
			.forked = task->forked};
	return 0;
}

struct json_t *agent_pack(struct agent *a)
{
	const struct agent_options *o = a->options;
	_cleanup_state_doc_ struct state_doc s = {
		.gid = a->plan.job.gid,
		.reason = a->state >= AGENT_ENDING ? agent_reason_names[a->reason] : NULL,
		.end_signal = a->end.signal,
		.limit_signal_sent = a->limits.signal_sent,
		.begin_ns = a->origin.begin_ns,
		.suspended_since_ns = a->suspend.stands ? a->suspend.since_ns : 0,
		.suspended_ns = a->suspend.total_ns,
		.suspending = a->suspend.wanted && !a->suspend.stands,
		.recover = a->origin.recover,
		.result_file = o->result_file,
		.sample_file = o->sample_file,
		.plugin_dir = o->plugin_dir,
		.sample_interval_ms = o->sample_interval_ms,
		.keep_result_ms = o->keep_result_ms,
		.usage_table = o->usage_table,
	};
	json_t *doc =
		list_tasks(a, &s) == 0 ? state_doc_pack(&s, added_pack(&a->origin.added)) : NULL;

	memcpy(a->origin.recover.boot_id, s.recover.boot_id, sizeof(a->origin.recover.boot_id));
	return doc;
}

static enum agent_reason find_reason(const char *name)
{
	enum agent_reason reason;

	for (reason = 0; name && reason < AGENT_REASON_MAX; reason++) {
		if (strcmp(agent_reason_names[reason], name) == 0)
			return reason;
	}
	return AGENT_REASON_COMPLETED;
}

void agent_unpack(struct agent *a, const struct state_doc *s)
{
	a->reason = find_reason(s->reason);
	a->end.signal = s->end_signal;
	a->limits.signal_sent = s->limit_signal_sent;
	a->origin.begin_ns = s->same_boot ? s->begin_ns : a->options->start_ns;
	a->origin.recover = s->recover;
	a->suspend.total_ns = s->suspended_ns;
	a->suspend.since_ns = s->suspended_since_ns;
}

static int add_joined(struct agent *a, const struct state_task *saved)
{
	const stepd_step_task_info_t info = {.gtid = saved->rank, .spawn = saved->spawn};
	int r = saved->spawn ? tasks_add(&a->tasks, saved->spawn, &saved->rank, 1) : -EBADMSG;

	if (r < 0)
		return r;
	a->tasks.v[a->tasks.n - 1].forked = saved->forked;
	return plan_add_tasks(&a->plan, &info, 1);
}

int agent_unpack_tasks(struct agent *a, const struct state_doc *s)
{
	const struct spec *spec = a->plan.spec;
	size_t i;
	int r;

	if (s->tasks_count < spec->local_ntasks || s->tasks_count > SPEC_TASKS_MAX)
		return -EBADMSG;
	r = tasks_init(&a->tasks, spec->ranks, spec->local_ntasks);
	for (i = 0; r == 0 && i < s->tasks_count; i++) {
		if (i >= spec->local_ntasks)
			r = add_joined(a, &s->tasks[i]);
		if (r == 0 && s->tasks[i].rank != a->tasks.v[i].rank)
			r = -EBADMSG;
		if (r == 0)
			a->plan.job.task[i].pid = s->tasks[i].pid;
	}
	return r;
}
