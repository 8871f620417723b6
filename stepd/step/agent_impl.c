/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What an agent begins as, whether it runs a step, adopts one or goes on with its own.
 */
#include "stepd/step/agent_impl.h"

#include "stepd/base/log.h"
#include "stepd/process/process.h"
#include "stepd/record/report.h"
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

static struct account_setup account_setup(struct agent *a)
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

void agent_set_account(struct agent *a)
{
	a->account.setup = account_setup(a);
}

int agent_open_account(struct agent *a, struct err *err)
{
	const struct account_setup setup = account_setup(a);

	return account_open(&a->account, &setup, err);
}

int agent_restore_account(
	struct agent *a, const struct handover *h, const struct json_t *object, struct err *err)
{
	const struct account_setup setup = account_setup(a);

	return account_restore(&a->account, &setup, h, object, a->state < AGENT_DRAINING, err);
}
