/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/service.h"

#include <string.h>
#include <syslog.h>

#include "stepd/base/log.h"
#include "stepd/step/agent_impl.h"
#include "stepd/step/result.h"
#include "systemd/notify.h"

/* What the ending takes beside its waits: streams, removal, the result on the disk. */
#define ENDING_SLACK_MS 10000u

static int send_to_journal(const struct log *log, enum log_level level, const char *text)
{
	static const int priorities[LOG_LEVEL_MAX] = {
		[LOG_LEVEL_ERROR] = LOG_ERR,
		[LOG_LEVEL_WARNING] = LOG_WARNING,
		[LOG_LEVEL_INFO] = LOG_INFO,
		[LOG_LEVEL_DEBUG] = LOG_DEBUG,
	};
	const char *blank = strchr(log->ident, ' '), *slash = strrchr(log->ident, '/');
	const struct journal_line line = {.priority = priorities[level],
		.step = slash   ? slash + 1
			: blank ? blank + 1
				: NULL,
		.text = text};

	return journal_send(&line);
}

void service_name_log(struct log *log, const struct spec *spec)
{
	bool is_one_of_many = spec->node_count > 1 && spec->node_name;

	(void)snprintf(log->ident, sizeof(log->ident), "stepd %s%s%u.%s",
		is_one_of_many ? spec->node_name : "", is_one_of_many ? "/" : "", spec->job_id,
		spec->step_name);
}

void service_use_journal(struct log *log)
{
	if (journal_has_stream(log->fd))
		log->send = send_to_journal;
}

static void warn(const struct agent *a, int r)
{
	if (r < 0)
		log_warning(a->log,
			"can't notify the service manager (NOTIFY_SOCKET): %s, ignoring",
			strerror(-r));
}

static uint64_t ending_usec(const struct spec *spec)
{
	uint64_t ms = spec->unkillable_timeout_ms + ENDING_SLACK_MS;
	size_t i;

	for (i = 0; i < spec->kill_sequence_count; i++)
		ms += spec->kill_sequence[i].wait_ms;
	return ms * 1000;
}

void service_notify_state(const struct agent *a)
{
	const char *state = agent_state_names[a->state];

	if (!notify_is_wanted())
		return;
	if (a->state == AGENT_RUNNING)
		warn(a,
			notify_send("READY=1\nSTATUS=step %s: %s, %u tasks\n", a->plan.label, state,
				a->tasks.n));
	else if (a->state == AGENT_ENDING)
		warn(a,
			notify_send("STOPPING=1\nSTATUS=step %s: %s (%s)\n"
				    "EXTEND_TIMEOUT_USEC=%llu\n",
				a->plan.label, state, agent_reason_names[a->reason],
				(unsigned long long)ending_usec(a->plan.spec)));
	else
		warn(a, notify_send("STATUS=step %s: %s\n", a->plan.label, state));
}

void service_notify_end(const struct agent *a)
{
	if (!notify_is_wanted())
		return;
	if (a->end.failure.code)
		warn(a, notify_send("STATUS=the step was not started: %s\n", a->end.failure.text));
	else
		warn(a,
			notify_send("STOPPING=1\nSTATUS=step %s: %s (%s), exit status %d\n",
				a->plan.label, agent_state_names[a->state],
				agent_reason_names[a->reason], agent_exit_code(a)));
}
