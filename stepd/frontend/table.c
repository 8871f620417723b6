/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of methods. Its twin is stepd/control/io.stepd.Step.varlink; a test holds both
 * together.
 */
#include "stepd/frontend/methods_impl.h"

#define MANDATORY(name_, type_)                                                                    \
	{                                                                                          \
		.name = (name_), .type = (type_)                                                   \
	}
#define OPTIONAL(name_, type_)                                                                     \
	{                                                                                          \
		.name = (name_), .type = (type_), .optional = true                                 \
	}

static const struct control_method table[] = {
	{.name = "Describe", .access = CONTROL_ASK, .run = method_describe},
	{.name = "ListPids",
		.access = CONTROL_ASK,
		.flags = CONTROL_MORE,
		.parameters = {OPTIONAL("ranks", CONTROL_STRING),
			OPTIONAL("start_ticks", CONTROL_BOOL)},
		.run = method_list_pids},
	{.name = "ListTasks",
		.access = CONTROL_ASK,
		.flags = CONTROL_MORE,
		.parameters = {OPTIONAL("ranks", CONTROL_STRING)},
		.run = method_list_tasks},
	{.name = "FindPid",
		.access = CONTROL_ASK,
		.parameters = {MANDATORY("pid", CONTROL_INT),
			OPTIONAL("pid_namespace", CONTROL_INT)},
		.run = method_find_pid},
	{.name = "FindPids",
		.access = CONTROL_ASK,
		.parameters = {MANDATORY("pids", CONTROL_INT_ARRAY),
			OPTIONAL("pid_namespace", CONTROL_INT)},
		.run = method_find_pids},
	{.name = "Usage",
		.access = CONTROL_ASK,
		.flags = CONTROL_MORE,
		.parameters = {OPTIONAL("tasks", CONTROL_BOOL),
			OPTIONAL("interval_ms", CONTROL_INT)},
		.run = method_usage},
	{.name = "Events",
		.access = CONTROL_ASK,
		.flags = CONTROL_MORE | CONTROL_MORE_ONLY,
		.parameters = {OPTIONAL("from", CONTROL_INT)},
		.run = method_events},
	{.name = "Wait", .access = CONTROL_OWNER, .flags = CONTROL_MORE, .run = method_wait},
	{.name = "Signal",
		.access = CONTROL_OWNER,
		.flags = CONTROL_WHEN_READY,
		.parameters = {MANDATORY("signal", CONTROL_STRING),
			OPTIONAL("ranks", CONTROL_STRING), OPTIONAL("pid", CONTROL_INT),
			OPTIONAL("start_ticks", CONTROL_INT), OPTIONAL("leader", CONTROL_BOOL)},
		.run = method_signal},
	{.name = "Terminate",
		.access = CONTROL_OWNER,
		.flags = CONTROL_WHEN_READY,
		.parameters = {OPTIONAL("kill_sequence", CONTROL_STRING),
			OPTIONAL("grace_ms", CONTROL_INT)},
		.run = method_terminate},
	{.name = "Suspend",
		.access = CONTROL_AGENT,
		.flags = CONTROL_WHEN_READY,
		.run = method_suspend},
	{.name = "Resume",
		.access = CONTROL_AGENT,
		.flags = CONTROL_WHEN_READY,
		.run = method_resume},
	{.name = "SetLimits",
		.access = CONTROL_AGENT,
		.flags = CONTROL_WHEN_READY,
		.parameters = {MANDATORY("limits", CONTROL_OBJECT),
			OPTIONAL("ranks", CONTROL_STRING), OPTIONAL("best_effort", CONTROL_BOOL)},
		.run = method_set_limits},
	{.name = "AddPid",
		.access = CONTROL_AGENT,
		.flags = CONTROL_WHEN_READY,
		.parameters = {MANDATORY("pid", CONTROL_INT), OPTIONAL("start_ticks", CONTROL_INT)},
		.run = method_add_pid},
	{.name = "Notify",
		.access = CONTROL_AGENT,
		.flags = CONTROL_WHEN_READY,
		.parameters = {MANDATORY("message", CONTROL_STRING)},
		.run = method_notify},
	{.name = "Reexec",
		.access = CONTROL_AGENT,
		.flags = CONTROL_WHEN_READY,
		.run = method_reexec},
};

const struct control_method *methods_get_table(size_t *ret_count)
{
	*ret_count = ARRAY_SIZE(table);
	return table;
}
