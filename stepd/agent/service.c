/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/agent/service.h"

#include <string.h>

#include "stepd/agent/agent_impl.h"
#include "stepd/agent/result.h"
#include "stepd/base/log.h"
#include "systemd/notify.h"

/* What the ending takes beside its waits: streams, removal, the result on the disk. */
#define ENDING_SLACK_MS 10000u

static void warn(const struct agent *a, int r)
{
	if (r < 0)
		log_warning(a->log, "can't tell the service manager (NOTIFY_SOCKET): %s, ignoring",
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

void service_tell_state(const struct agent *a)
{
	const char *state = agent_state_words[a->state];

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
				a->plan.label, state, agent_reason_words[a->reason],
				(unsigned long long)ending_usec(a->plan.spec)));
	else
		warn(a, notify_send("STATUS=step %s: %s\n", a->plan.label, state));
}

void service_tell_end(const struct agent *a)
{
	if (!notify_is_wanted())
		return;
	if (a->failure.code)
		warn(a, notify_send("STATUS=the step was not started: %s\n", a->failure.text));
	else
		warn(a,
			notify_send("STOPPING=1\nSTATUS=step %s: %s (%s), exit status %d\n",
				a->plan.label, agent_state_words[a->state],
				agent_reason_words[a->reason], agent_exit_code(a)));
}
