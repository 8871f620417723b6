/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl list: the steps of this node, as recorded in their directories. No agent is contacted.
 */
#include <string.h>

#include "stepd/base/json.h"
#include "stepd/cli/ctl/ctl.h"
#include "stepd/record/report.h"

static const char *const presence_names[] = {
	[STEPD_LIVES] = "lives",
	[STEPD_ORPHAN] = "died",
	[STEPD_ENDED] = "ended",
};

static json_t *pack(const struct stepd_step *step)
{
	return json_pack("{s:o, s:o, s:o, s:I, s:s, s:s, s:o, s:I, s:o, s:o}", "step",
		report_json_text(step->step), "node", report_json_text(step->node), "user",
		report_json_text(step->user), "uid", (json_int_t)step->uid, "state", step->state,
		"agent", presence_names[step->presence], "proctrack",
		report_json_text(step->proctrack), "container_id", (json_int_t)step->container_id,
		"agent_pid", step->agent_pid > 0 ? json_integer(step->agent_pid) : json_null(),
		"directory", report_json_text(step->directory));
}

static int on_step(const struct stepd_step *step, void *userdata)
{
	return json_array_append_new(userdata, pack(step)) < 0 ? -ENOMEM : 0;
}

/* Numbers in the names by their value: 7.0, 7.1, 10.0. */
static int compare(const void *a, const void *b)
{
	const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
	int r = strcmp(json_get_text(x, "node", ""), json_get_text(y, "node", ""));

	return r ? r : strverscmp(json_get_text(x, "step", ""), json_get_text(y, "step", ""));
}

static int sort_steps(json_t *steps)
{
	size_t n = json_array_size(steps), i;
	_cleanup_free_ json_t **v = calloc(n + 1, sizeof(*v));
	int r = v ? 0 : -ENOMEM;

	for (i = 0; r == 0 && i < n; i++)
		v[i] = json_incref(json_array_get(steps, i));
	if (r == 0 && n > 0)
		qsort(v, n, sizeof(*v), compare);
	for (i = 0; r == 0 && i < n; i++)
		r = json_array_set_new(steps, i, v[i]);
	return r;
}

static void add_row(struct table *table, const json_t *step)
{
	const char *state = json_get_text(step, "state", "");
	const char *agent = json_get_text(step, "agent", "");
	const char *proctrack = json_get_text(step, "proctrack", "");
	bool died = strcmp(agent, presence_names[STEPD_ORPHAN]) == 0;
	char text[24] = "-";

	if (strncmp(proctrack, "proctrack/", 10) == 0)
		proctrack += 10;
	/* The agent of a step that could not be killed has exited by itself, with a result. */
	if (died)
		(void)snprintf(text, sizeof(text), "%s",
			strcmp(state, "unkillable") == 0 ? "gone" : agent);
	else if (strcmp(agent, presence_names[STEPD_LIVES]) == 0)
		(void)snprintf(
			text, sizeof(text), "%lld", (long long)json_get_int(step, "agent_pid", 0));
	table_add(table,
		(const char *const[]){json_get_text(step, "step", ""),
			json_get_text(step, "node", ""), json_get_text(step, "user", ""), state,
			proctrack, text});
	table_paint(table, 3, term_paint_of(state));
	if (died)
		table_paint(table, 5, TERM_BAD);
}

static int print_steps(const struct ctl *ctl, const json_t *steps)
{
	static const struct column columns[] = {
		{"STEP", false, 0, 0},
		{"NODE", false, 6, 3},
		{"USER", false, 6, 2},
		{"STATE", false, 0, 0},
		{"TRACKER", false, 6, 4},
		{"AGENT", true, 0, 1},
	};
	_cleanup_table_ struct table table = TABLE_INIT(columns, &ctl->term);
	const json_t *step;
	size_t i;

	json_array_foreach (steps, i, step) {
		_cleanup_free_ char *node = NULL;

		if (!ctl->opt.names) {
			add_row(&table, step);
			continue;
		}
		node = term_printable(&ctl->term, json_get_text(step, "node", ""), TERM_WHOLE);
		printf("%s/%s\n", node ? node : "", json_get_text(step, "step", ""));
	}
	return ctl->opt.names ? 0 : table_print(&table, stdout, 0);
}

int ctl_list(struct ctl *ctl)
{
	struct stepd_error error = {0};
	int r = stepd_each_step(ctl->opt.runtime_dir, on_step, ctl->out.steps, &error);

	if (r < 0 && r != -ENOMEM)
		return err_set_text(&ctl->err, r, "%s", error.text);
	if (r == 0)
		r = sort_steps(ctl->out.steps);
	if (r == 0 && !ctl->opt.json)
		r = print_steps(ctl, ctl->out.steps);
	return r < 0 ? err_set(&ctl->err, -ENOMEM, "list the steps") : 0;
}
