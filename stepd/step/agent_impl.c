/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What an agent begins as, whether it runs a step, adopts one or goes on with its own.
 */
#include "stepd/step/agent_impl.h"

#include "stepd/base/log.h"
#include "stepd/process/process.h"
#include "stepd/record/report.h"

void agent_close_inherited(const struct agent_options *o)
{
	const int keep[] = {o->ready_fd, o->keeper_fd, o->listen_fd ? *o->listen_fd : -1,
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
		.launch = LAUNCH_INIT,
		.signal_fd = -1,
		.service_cgroup_fd = -1,
		.container = PRI_WATCH_INIT,
		.member = MEMBER_WATCH_INIT,
		.oom = OOM_INIT,
		.reexec = REEXEC_INIT,
		.begin_ns = options->start_ns,
		.ready = {.fd = options->ready_fd},
		.keeper = {.fd = options->keeper_fd},
	};
	for (i = 0; i < AGENT_SPARE_FDS; i++)
		a->spare_fd[i] = -1;
}
