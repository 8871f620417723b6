/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of operations. Its twin is stepd/control/io.stepd.Step.varlink; a test holds both
 * together.
 */
#include <string.h>

#include "stepd/operations/operations_impl.h"

#define MANDATORY(name_, type_)                                                                    \
	{                                                                                          \
		.name = (name_), .type = (type_)                                                   \
	}
#define OPTIONAL(name_, type_)                                                                     \
	{                                                                                          \
		.name = (name_), .type = (type_), .optional = true                                 \
	}

static const struct operation table[] = {
	{.name = "Describe", .access = OP_ACCESS_READ, .run = op_describe},
	{.name = "ListPids",
		.access = OP_ACCESS_READ,
		.flags = OP_MORE,
		.parameters = {OPTIONAL("ranks", OP_STRING), OPTIONAL("start_ticks", OP_BOOL)},
		.run = op_list_pids},
	{.name = "ListTasks",
		.access = OP_ACCESS_READ,
		.flags = OP_MORE,
		.parameters = {OPTIONAL("ranks", OP_STRING)},
		.run = op_list_tasks},
	{.name = "FindPid",
		.access = OP_ACCESS_READ,
		.parameters = {MANDATORY("pid", OP_INT), OPTIONAL("pid_namespace", OP_INT)},
		.run = op_find_pid},
	{.name = "FindPids",
		.access = OP_ACCESS_READ,
		.parameters = {MANDATORY("pids", OP_INT_ARRAY), OPTIONAL("pid_namespace", OP_INT)},
		.run = op_find_pids},
	{.name = "Usage",
		.access = OP_ACCESS_READ,
		.flags = OP_MORE,
		.parameters = {OPTIONAL("tasks", OP_BOOL), OPTIONAL("interval_ms", OP_INT)},
		.run = op_usage},
	{.name = "Events",
		.access = OP_ACCESS_READ,
		.flags = OP_MORE | OP_MORE_ONLY,
		.parameters = {OPTIONAL("from", OP_INT)},
		.run = op_events},
	{.name = "Wait", .access = OP_ACCESS_OWNER, .flags = OP_MORE, .run = op_wait},
	{.name = "Signal",
		.access = OP_ACCESS_OWNER,
		.flags = OP_WHEN_READY,
		.parameters = {MANDATORY("signal", OP_STRING), OPTIONAL("ranks", OP_STRING),
			OPTIONAL("pid", OP_INT), OPTIONAL("start_ticks", OP_INT),
			OPTIONAL("leader", OP_BOOL)},
		.run = op_signal},
	{.name = "Terminate",
		.access = OP_ACCESS_OWNER,
		.flags = OP_WHEN_READY,
		.parameters = {OPTIONAL("kill_sequence", OP_STRING), OPTIONAL("grace_ms", OP_INT)},
		.run = op_terminate},
	{.name = "Suspend", .access = OP_ACCESS_AGENT, .flags = OP_WHEN_READY, .run = op_suspend},
	{.name = "Resume", .access = OP_ACCESS_AGENT, .flags = OP_WHEN_READY, .run = op_resume},
	{.name = "SetLimits",
		.access = OP_ACCESS_AGENT,
		.flags = OP_WHEN_READY,
		.parameters = {MANDATORY("limits", OP_OBJECT), OPTIONAL("ranks", OP_STRING),
			OPTIONAL("best_effort", OP_BOOL)},
		.run = op_set_limits},
	{.name = "AddPid",
		.access = OP_ACCESS_AGENT,
		.flags = OP_WHEN_READY,
		.parameters = {MANDATORY("pid", OP_INT), OPTIONAL("start_ticks", OP_INT)},
		.run = op_add_pid},
	{.name = "Notify",
		.access = OP_ACCESS_AGENT,
		.flags = OP_WHEN_READY,
		.parameters = {MANDATORY("message", OP_STRING)},
		.run = op_notify},
	{.name = "Reexec", .access = OP_ACCESS_AGENT, .flags = OP_WHEN_READY, .run = op_reexec},
};

const struct operation *operations_get_table(size_t *ret_count)
{
	*ret_count = ARRAY_SIZE(table);
	return table;
}

const struct operation *operations_find(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(table); i++) {
		if (strcmp(table[i].name, name) == 0)
			return &table[i];
	}
	return NULL;
}
