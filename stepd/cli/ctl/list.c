/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl list: the steps of this node, as recorded in their directories. No agent is contacted.
 */
#include <jansson.h>
#include <string.h>

#include "stepd/cli/ctl/ctl.h"
#include "stepd/record/report.h"

/* A copied step, with the columns in the table's order. */
struct row {
	char *node, *step, *user, *state, *proctrack;
	json_t *doc; /* of --json */
	pid_t agent_pid;
	enum stepd_presence presence;
};

struct listing {
	struct ctl *ctl;
	struct row *v;
	size_t n, capacity;
};

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

static void row_clear(struct row *row)
{
	free(row->node);
	free(row->step);
	free(row->user);
	free(row->state);
	free(row->proctrack);
	json_decref(row->doc);
}

static int on_step(const struct stepd_step *step, void *userdata)
{
	struct listing *l = userdata;
	size_t capacity = l->capacity ? l->capacity * 2 : 64;
	struct row *row;

	if (l->n == l->capacity) {
		row = reallocarray(l->v, capacity, sizeof(*row));
		if (!row)
			return -ENOMEM;
		l->v = row;
		l->capacity = capacity;
	}
	row = &l->v[l->n++];
	*row = (struct row){.node = strdup(step->node),
		.step = strdup(step->step),
		.user = strdup(step->user),
		.state = strdup(step->state),
		.proctrack = strdup(step->proctrack),
		.doc = l->ctl->opt.json ? pack(step) : NULL,
		.agent_pid = step->agent_pid,
		.presence = step->presence};
	if (!row->node || !row->step || !row->user || !row->state || !row->proctrack ||
		(l->ctl->opt.json && !row->doc))
		return -ENOMEM;
	return 0;
}

/* Numbers in the names by their value: 7.0, 7.1, 10.0. */
static int compare(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int r = strcmp(x->node, y->node);

	return r ? r : strverscmp(x->step, y->step);
}

static void add_row(struct table *table, const struct row *row)
{
	const char *proctrack = strncmp(row->proctrack, "proctrack/", 10) == 0 ? row->proctrack + 10
									       : row->proctrack;
	char agent[16] = "-";

	/* The agent of a step that could not be killed has exited by itself, with a result. */
	if (row->presence == STEPD_ORPHAN)
		(void)snprintf(agent, sizeof(agent), "%s",
			strcmp(row->state, "unkillable") == 0 ? "gone" : "died");
	else if (row->presence == STEPD_LIVES)
		(void)snprintf(agent, sizeof(agent), "%d", (int)row->agent_pid);
	table_add(table,
		(const char *const[]){
			row->step, row->node, row->user, row->state, proctrack, agent});
	table_paint(table, 3, term_paint_of(row->state));
	if (row->presence == STEPD_ORPHAN)
		table_paint(table, 5, TERM_BAD);
}

static int print(struct listing *l)
{
	static const struct column columns[] = {
		{"STEP", false, 0, 0},
		{"NODE", false, 6, 3},
		{"USER", false, 6, 2},
		{"STATE", false, 0, 0},
		{"TRACKER", false, 6, 4},
		{"AGENT", true, 0, 1},
	};
	_cleanup_table_ struct table table = TABLE_INIT(columns, &l->ctl->term);
	size_t i;

	for (i = 0; i < l->n && !l->ctl->opt.names; i++)
		add_row(&table, &l->v[i]);
	for (i = 0; i < l->n && l->ctl->opt.names; i++) {
		_cleanup_free_ char *node = term_printable(&l->ctl->term, l->v[i].node, TERM_WHOLE);

		printf("%s/%s\n", node ? node : "", l->v[i].step);
	}
	return l->ctl->opt.names ? 0 : table_print(&table, stdout, 0);
}

static int pack_rows(struct listing *l)
{
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < l->n; i++)
		r = json_array_append_new(l->ctl->out.steps, take_ptr(l->v[i].doc));
	return r == 0 ? 0 : -ENOMEM;
}

int ctl_list(struct ctl *ctl)
{
	struct listing l = {.ctl = ctl};
	struct stepd_error error = {0};
	size_t i;
	int r;

	r = stepd_each_step(ctl->opt.runtime_dir, on_step, &l, &error);
	if (r == -ENOMEM)
		(void)err_set(&ctl->err, r, "list the steps");
	else if (r < 0)
		(void)err_say(&ctl->err, r, "%s", error.text);
	if (l.n > 0)
		qsort(l.v, l.n, sizeof(*l.v), compare);
	if (r == 0 && (ctl->opt.json ? pack_rows(&l) : print(&l)) < 0)
		r = err_set(&ctl->err, -ENOMEM, "list the steps");
	for (i = 0; i < l.n; i++)
		row_clear(&l.v[i]);
	free(l.v);
	return r;
}
