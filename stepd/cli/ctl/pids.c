/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl pids: the processes of steps, a pid a line for scripts. Those of a step whose agent has
 * died are told where its tracker knows them.
 */
#include <jansson.h>

#include "stepd/cli/ctl/tracker.h"

static int compare(const void *a, const void *b)
{
	const struct stepd_process *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static int pack(json_t *entry, const struct stepd_process *p, size_t n)
{
	json_t *rows = json_array();
	size_t i;
	int r = rows ? 0 : -1;

	for (i = 0; r == 0 && i < n; i++)
		r = json_array_append_new(rows,
			json_pack("{s:i, s:o}", "pid", (int)p[i].pid, "rank",
				p[i].rank == STEPD_NO_RANK ? json_null()
							   : json_integer(p[i].rank)));
	if (r == 0)
		return ctl_put(entry, "processes", rows);
	json_decref(rows);
	return -ENOMEM;
}

static void print(const struct ctl *ctl, const struct stepd_process *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (!ctl->tasks)
			printf("%d\n", (int)p[i].pid);
		else if (p[i].rank == STEPD_NO_RANK)
			printf("%d -\n", (int)p[i].pid);
		else
			printf("%d %lld\n", (int)p[i].pid, (long long)p[i].rank);
	}
}

static int list_step(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	_cleanup_free_ struct stepd_process *processes = NULL;
	size_t n = 0;
	int r = tracker_list(ctl, target, false, &processes, &n, error);

	if (r < 0)
		return r;
	if (n > 0)
		qsort(processes, n, sizeof(*processes), compare);
	if (!ctl->json)
		print(ctl, processes, n);
	else if (pack(target->entry, processes, n) < 0)
		return target_error(error, -ENOMEM, "no memory left");
	return 0;
}

int ctl_pids(struct ctl *ctl)
{
	int i, r;

	for (i = 0; i < ctl->count; i++) {
		_cleanup_target_ struct target target = TARGET_INIT;
		struct stepd_error error = {0};

		r = target_find(ctl, ctl->args[i], true, &target, &error);
		if (r == 0)
			r = target_connect(ctl, &target, &error);
		if (r == 0)
			r = list_step(ctl, &target, &error);
		if (r < 0)
			ctl_complain(ctl, target.label, &error, target.entry);
	}
	return 0;
}
