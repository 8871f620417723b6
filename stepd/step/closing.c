/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/closing.h"

#include <poll.h>
#include <signal.h>
#include <string.h>

#include "mpi/mpi.h"
#include "proctrack/proctrack.h"
#include "stepd/account/account.h"
#include "stepd/base/clock.h"
#include "stepd/base/failpoint.h"
#include "stepd/base/log.h"
#include "stepd/base/pidref.h"
#include "stepd/record/events.h"
#include "stepd/record/registry.h"
#include "stepd/record/report.h"
#include "stepd/stdio/stdio.h"
#include "stepd/step/agent_impl.h"
#include "stepd/step/ending.h"
#include "stepd/step/frontend.h"
#include "stepd/step/mpi_link.h"
#include "stepd/step/reaping.h"
#include "stepd/step/result.h"
#include "stepd/step/service.h"

void closing_release_fds(struct agent *a)
{
	size_t i;

	for (i = 0; i < AGENT_SPARE_FDS; i++)
		a->start.spare_fd[i] = close_fd(a->start.spare_fd[i]);
}

/* The container stood, and no more. */
void closing_note_failure(struct agent *a, const struct err *err)
{
	a->end.failure = *err;
	a->reason = AGENT_REASON_LAUNCH;
	a->state = AGENT_ENDED;
	a->end.time_ns = clock_now_ns();
}

/* The MPI service process of the dead agent ends by itself, once no process of the step is left.
 * One that doesn't gets SIGTERM, and SIGKILL. */
#define SERVICE_END_MS 1000 /* by itself, by SIGTERM, by SIGKILL */

static bool has_ended(const struct pidref *ref, int timeout_ms)
{
	struct pollfd end = {.fd = ref->fd, .events = POLLIN};
	int n;

	do
		n = poll(&end, 1, timeout_ms);
	while (n < 0 && errno == EINTR);
	return n > 0;
}

static void end_service_of_dead_agent(struct agent *a)
{
	const struct recover_service service = a->origin.recover.service;
	_cleanup_pidref_ struct pidref ref = PIDREF_INIT;
	int r;

	a->origin.recover.service = (struct recover_service){.pid = 0};
	if (!service.pid)
		return;
	r = pidref_open(service.pid, service.start_ticks, &ref);
	if (r < 0 && r != -ESRCH)
		log_warning(a->log,
			"can't find the MPI service process of the dead agent (pid %d): %s",
			(int)service.pid, strerror(-r));
	if (r < 0 || has_ended(&ref, SERVICE_END_MS))
		return;
	if (pidref_signal(&ref, SIGTERM) == -ESRCH || has_ended(&ref, SERVICE_END_MS))
		return;
	log_warning(a->log,
		"the MPI service process of the dead agent (pid %d) does not end: killing it",
		(int)service.pid);
	if (pidref_signal(&ref, SIGKILL) < 0 || !has_ended(&ref, SERVICE_END_MS))
		log_error(a->log, "SIGKILL did not end the MPI service process (pid %d)",
			(int)service.pid);
}

static void remove_container(struct agent *a)
{
	int r;

	if (!a->plan.job.cont_id)
		return;
	r = proctrack_destroy(a->pt, a->plan.job.cont_id);
	/* ESRCH: it is gone, as when systemd has removed its scope, which this agent is not in. */
	if (r < 0 && r != -ESRCH)
		log_warning(a->log, "can't remove the step's container: %s; 'stepctl clean' can",
			strerror(-r));
}

static void write_reports(struct agent *a)
{
	const char *trace_file = a->options->trace_file;
	struct err err = ERR_INIT;

	if (a->state == AGENT_ENDED && result_keep(a, &err) < 0)
		log_error(a->log, "%s", err.text);
	if (a->state == AGENT_ENDED && result_write(a, &err) < 0)
		log_error(a->log, "%s", err.text);
	if (a->reason != AGENT_REASON_LAUNCH)
		account_report(&a->account, a->end.time_ns);
	if (a->trace && trace_write(a->trace, trace_file, a->plan.label, &err) < 0)
		log_error(a->log, "%s", err.text);
}

static void agent_clear(struct agent *a)
{
	reexec_clear(a);
	a->stdio = stdio_free(a->stdio);
	closing_release_fds(a);
	result_drop_ready(a);
	if (a->loop) {
		mpi_link_close(a);
		account_close(&a->account);
		a->origin.exits = exit_watch_close(a->origin.exits);
		ending_unwatch(a);
		frontend_close(a);
		ev_loop_destroy(a->loop);
	}
	a->events = events_close(a->events);
	added_clear(&a->origin.added);
	launch_close(&a->start.launch);
	a->mpi.host = mpi_close(a->mpi.host);
	if (a->end.unkillable && a->registry) {
		/* Who is called for them at night shall find them: 'stepctl pids' still lists them.
		 */
		result_publish_state(a, "unkillable");
		a->registry = registry_leave(a->registry);
	}
	a->mpi.service_cgroup_fd = close_fd(a->mpi.service_cgroup_fd);
	a->pt = proctrack_close(a->pt);
	failpoint("leaving");
	if (a->result_kept)
		a->registry = registry_retire(a->registry);
	a->registry = registry_close(a->registry);
	a->trace = trace_free(a->trace);
	tasks_clear(&a->tasks);
	plan_clear(&a->plan);
	free(a->end.unkillable_text);
	supervisor_line_close(&a->watch.supervisor);
	a->watch.signal_fd = close_fd(a->watch.signal_fd);
}

int closing_finish(struct agent *a, int r, int *ret_code, const struct err *err)
{
	closing_release_fds(a);
	if (a->loop)
		mpi_link_close(a); /* where the launch failed: it is in the container */
	if (a->origin.recover.adopted)
		end_service_of_dead_agent(a);
	remove_container(a);
	failpoint("removed");
	write_reports(a);
	failpoint("result");
	if (r < 0)
		a->end.failure = *err;
	frontend_end(a);
	failpoint("client-told");
	service_notify_end(a);
	result_end_ready(a);
	if (r == 0)
		*ret_code = agent_exit_code(a);
	agent_clear(a);
	return r;
}
