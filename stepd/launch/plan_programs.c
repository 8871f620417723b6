/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which command line each task of the step runs, and what the step record says of them.
 */
#include "stepd/launch/plan.h"

/* The same on all nodes of the step, whichever of the command lines their tasks run. */
static int number_programs(struct plan *plan, struct err *err)
{
	const struct spec *spec = plan->spec;
	/* Where no task can run the step's own command line, that is none. */
	uint32_t own = spec->argv.n > 0, entry, i;

	if (!spec->rank_entries)
		return 0;
	plan->rank_appnums = calloc((size_t)spec->ntasks + 1, sizeof(*plan->rank_appnums));
	if (!plan->rank_appnums)
		return err_set(err, -ENOMEM, "plan the step");
	for (i = 0; i < spec->ntasks; i++) {
		entry = spec->rank_entries[i];
		plan->rank_appnums[i] = entry ? entry - 1 + own : 0;
	}
	for (i = 0; i < spec->local_ntasks; i++)
		plan->job.task[i].appnum = plan->rank_appnums[spec->ranks[i]];
	plan->job.rank_appnums = plan->rank_appnums;
	return 0;
}

/* [0] is the step's own, the others are those of its entries. */
static int make_programs(struct plan *plan, struct err *err)
{
	const struct spec *spec = plan->spec;
	size_t k;

	plan->programs_count = spec->overrides_count + 1;
	plan->programs = calloc(plan->programs_count, sizeof(*plan->programs));
	if (!plan->programs)
		return err_set(err, -ENOMEM, "plan the step");
	plan->programs[0] = (struct plan_program){.argv = spec->argv.v, .cwd = plan->cwd};
	for (k = 0; k < spec->overrides_count; k++) {
		const struct spec_override *o = &spec->overrides[k];

		plan->programs[k + 1] = (struct plan_program){
			.argv = o->argv.n ? o->argv.v : spec->argv.v,
			.cwd = o->cwd ? o->cwd : plan->cwd,
		};
	}
	return 0;
}

bool plan_has_program(const struct plan *plan, size_t k)
{
	return k == 0 || plan->spec->overrides[k - 1].ranks_count > 0;
}

static int choose_programs(struct plan *plan, struct err *err)
{
	const struct spec *spec = plan->spec;
	uint32_t i;

	plan->task_program = calloc(spec->local_ntasks + 1, sizeof(*plan->task_program));
	if (!plan->task_program)
		return err_set(err, -ENOMEM, "plan the step");
	for (i = 0; spec->rank_entries && i < spec->local_ntasks; i++)
		plan->task_program[i] = spec->rank_entries[spec->ranks[i]];
	return 0;
}

/* As number_programs() counts them. */
static int tell_commands(struct plan *plan, struct err *err)
{
	size_t first = plan->spec->rank_entries && plan->spec->argv.n == 0, k;

	plan->commands = calloc(plan->programs_count, sizeof(*plan->commands));
	if (!plan->commands)
		return err_set(err, -ENOMEM, "plan the step");
	for (k = first; k < plan->programs_count; k++)
		plan->commands[k - first] = (stepd_step_command_t){
			.argv = (const char *const *)plan->programs[k].argv,
			.cwd = plan->programs[k].cwd,
		};
	plan->job.cwd = plan->cwd;
	plan->job.commands = plan->commands;
	plan->job.command_count = (uint32_t)(plan->programs_count - first);
	return 0;
}

/* Every task has something to run: the spec's check can't know it where overrides are used. */
static int check_programs(const struct plan *plan, struct err *err)
{
	const struct plan_program *p;
	uint32_t i;

	if (plan->spec->kind != STEPD_STEP_NORMAL)
		return 0;
	for (i = 0; i < plan->spec->local_ntasks; i++) {
		p = &plan->programs[plan->task_program[i]];
		if (!p->argv || !p->argv[0])
			return err_say(err, -EINVAL,
				"argv: rank %u has no program; give argv for the step or for this rank",
				plan->spec->ranks[i]);
	}
	return 0;
}

int plan_make_programs(struct plan *plan, struct err *err)
{
	int r = make_programs(plan, err);

	if (r == 0)
		r = choose_programs(plan, err);
	if (r == 0)
		r = number_programs(plan, err);
	if (r == 0)
		r = check_programs(plan, err);
	return r < 0 ? r : tell_commands(plan, err);
}
