/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the step record says of the tasks' binding: the lists of their CPUs, one text for all tasks
 * of a set.
 */
#include <string.h>

#include "stepd/launch/plan.h"

static char *format(const struct bitset *set)
{
	size_t size = bitset_format_list(set, NULL, 0) + 1;
	char *text = malloc(size);

	if (text)
		(void)bitset_format_list(set, text, size);
	return text;
}

/* The texts of the sets stand behind the tasks' pointers to them. */
int plan_tell_binding(struct plan *plan)
{
	const struct binding_sets *cpus = &plan->binding.cpus;
	uint32_t ntasks = plan->spec->local_ntasks, i;

	if (!cpus->of_task)
		return 0;
	plan->task_cpus = calloc(ntasks + cpus->table.count + 1, sizeof(*plan->task_cpus));
	if (!plan->task_cpus)
		return -ENOMEM;
	for (i = 0; i < cpus->table.count; i++) {
		struct bitset set = bitset_table_get(&cpus->table, i);

		plan->task_cpus[ntasks + i] = format(&set);
		if (!plan->task_cpus[ntasks + i])
			return -ENOMEM;
	}
	for (i = 0; i < ntasks; i++)
		plan->task_cpus[i] = plan->task_cpus[ntasks + cpus->of_task[i]];
	plan->job.task_cpus = (const char *const *)plan->task_cpus;
	return 0;
}

void plan_binding_clear(struct plan *plan)
{
	char **text = plan->task_cpus ? plan->task_cpus + plan->spec->local_ntasks : NULL;

	for (; text && *text; text++)
		free(*text);
	free(plan->task_cpus);
	plan->task_cpus = NULL;
	binding_clear(&plan->binding);
}
