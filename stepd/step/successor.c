/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/successor.h"

#include <jansson.h>
#include <string.h>

#include "stepd/base/clock.h"
#include "stepd/base/fs.h"
#include "stepd/base/parse.h"
#include "stepd/record/events.h"
#include "stepd/record/registry.h"
#include "stepd/record/report.h"
#include "stepd/spec/spec.h"
#include "stepd/state/steps.h"
#include "stepd/step/agent_impl.h"

/* ---- which step ---------------------------------------------------------------------------- */

/* Looks for directories of the name "<node>_<label>"; all others are not ours to judge. */
static int find_node(DIR *dir, const char *node, const char *label, char **ret_node)
{
	_cleanup_free_ char *found = NULL;
	size_t len = strlen(label), at;
	struct dirent *d;

	while ((d = readdir(dir))) {
		at = strlen(d->d_name);
		if (at < len + 2 || strcmp(d->d_name + at - len, label) != 0 ||
			d->d_name[at - len - 1] != '_')
			continue;
		d->d_name[at - len - 1] = '\0';
		if (node && strcmp(d->d_name, node) != 0)
			continue;
		if (found)
			return -ENOTUNIQ;
		found = strdup(d->d_name);
		if (!found)
			return -ENOMEM;
	}
	if (!found)
		return -ENOENT;
	*ret_node = take_ptr(found);
	return 0;
}

/* "n1/7.0" into "n1" (or NULL), 7 and "0"; the strings point into text. */
static int split(char *text, const char **ret_node, const char **ret_label, stepd_step_rec_t *job)
{
	char *slash = strchr(text, '/'), *label = slash ? slash + 1 : text;
	char *dot = strchr(label, '.');
	int r;

	if (!dot || !dot[1] || strchr(label, '/'))
		return -EINVAL;
	*dot = '\0';
	r = parse_u32(label, 0, UINT32_MAX, &job->job_id);
	*dot = '.';
	if (slash)
		*slash = '\0';
	*ret_node = slash ? text : NULL;
	*ret_label = label;
	job->step_name = dot + 1;
	return r;
}

int successor_find(const char *runtime_dir, const char *step, stepd_step_rec_t *ret_job,
	char **ret_strings, struct err *err)
{
	_cleanup_free_ char *runtime = NULL, *text = strdup(step), *node_name = NULL;
	_cleanup_closedir_ DIR *dir = NULL;
	stepd_step_rec_t job = {0};
	const char *node, *label;
	char *strings = NULL;
	int r;

	if (!text)
		return err_set(err, -ENOMEM, "find step %s", step);
	if (split(text, &node, &label, &job) < 0)
		return err_set_text(
			err, -EINVAL, "'%s' is no step; write JOB.STEP or NODE/JOB.STEP", step);
	r = steps_find_dir(runtime_dir, &runtime, err);
	if (r < 0)
		return r;
	dir = opendir(runtime);
	r = dir ? find_node(dir, node, label, &node_name) : -errno;
	if (r == -ENOENT)
		return err_set_text(err, r, "there is no step %s in '%s'", step, runtime);
	if (r == -ENOTUNIQ)
		return err_set_text(
			err, r, "several nodes have a step %s here; write NODE/%s", step, step);
	/* One piece of memory for the caller: "<node>\0<step name>". */
	if (r == 0 && asprintf(&strings, "%s%c%s", node_name, '\0', job.step_name) < 0)
		r = -ENOMEM;
	if (r < 0)
		return err_set(err, r, "find step %s in '%s'", step, runtime);
	job.node_name = strings;
	job.step_name = strings + strlen(node_name) + 1;
	*ret_job = job;
	*ret_strings = strings;
	return 0;
}

/* ---- what was left ------------------------------------------------------------------------- */

static int read_spec(int dir_fd, struct successor *h, struct err *err)
{
	_cleanup_free_ char *text = NULL, *node = strdup(h->state.node_name);
	size_t size;
	int r = node ? fs_read(dir_fd, "spec.json", SPEC_SIZE_MAX, &text, &size) : -ENOMEM;

	if (r < 0)
		return err_set(err, r, "read the document that the step was made of, spec.json");
	r = spec_from_text(text, size, &h->spec, err);
	if (r < 0)
		return err ? err_prefix(err, "spec.json") : r;
	/* What a document may leave out, its agent has chosen. */
	h->spec->job_id = h->state.job_id;
	free(h->spec->node_name);
	h->spec->node_name = take_ptr(node);
	return 0;
}

static void fill_options(const struct agent_options *given, struct successor *h)
{
	struct agent_options *o = &h->options;

	*o = *given;
	/* A descriptor of the dead agent's is none of this one's. */
	if (!o->result_file && report_descriptor_of(h->state.result_file) < 0)
		o->result_file = h->state.result_file;
	if (!o->sample_file && h->state.sample_file &&
		report_descriptor_of(h->state.sample_file) < 0) {
		o->sample_file = h->state.sample_file;
		o->sample_interval_ms = h->state.sample_interval_ms;
	}
	if (!o->plugin_dir)
		o->plugin_dir = h->state.plugin_dir;
	if (o->keep_result_ms == AGENT_KEEP_AS_BEFORE)
		o->keep_result_ms = h->state.keep_result_ms;
	o->usage_table = o->usage_table || h->state.usage_table;
}

static int fill_tasks(struct agent *a, const struct successor *h)
{
	const struct state_doc *state = &h->state;
	int r = agent_unpack_tasks(a, state);
	size_t i;

	for (i = 0; r == 0 && i < state->tasks_count; i++) {
		if (state->tasks[i].pid) {
			tasks_started(&a->tasks, (uint32_t)i, state->tasks[i].pid,
				state->recover.running_ns);
		} else if (state->recover.forked.most) {
			/* It had ended; how is recorded elsewhere, or lost. */
			a->tasks.v[i].state = TASK_RUNNING;
			a->tasks.v[i].start_ns = state->recover.running_ns;
			a->tasks.running++;
		}
	}
	return r;
}

static struct task *find_rank(struct tasks *ts, uint32_t rank)
{
	uint32_t i = ts->n ? rank - ts->v[0].rank : 0;

	if (i < ts->n && ts->v[i].rank == rank)
		return &ts->v[i]; /* most steps' ranks follow one another */
	for (i = 0; i < ts->n; i++) {
		if (ts->v[i].rank == rank)
			return &ts->v[i];
	}
	return NULL;
}

static uint64_t to_monotonic_ns(uint64_t time_usec)
{
	uint64_t now_usec = clock_wall_usec();

	return clock_now_ns() - (now_usec > time_usec ? (now_usec - time_usec) * 1000 : 0);
}

static void note_end(const struct history_end *end, void *userdata)
{
	struct agent *a = userdata;
	struct task *task = find_rank(&a->tasks, end->rank);
	uint64_t end_ns = to_monotonic_ns(end->time_usec);

	if (!task || task->state != TASK_RUNNING)
		return;
	if (end_ns < task->start_ns)
		end_ns = task->start_ns; /* the clock was set meanwhile */
	task->requested = end->on_request;
	if (end->exit_code == STATUS_NOT_FOUND || end->exit_code == STATUS_NOT_EXECUTABLE)
		task->exec_status =
			status_exit_code(end->wait_status) == end->exit_code ? 0 : end->exit_code;
	/* One that can't be executed takes its spawn with it, and its status is no more than that.
	 */
	task->dropped = task->spawn && task->exec_status;
	if (end->lost)
		tasks_lost(&a->tasks, task, end_ns);
	else
		tasks_ended(&a->tasks, task, end->wait_status, end_ns);
	a->plan.job.task[task - a->tasks.v].pid = 0;
}

int successor_load(struct agent *a, int dir_fd, struct successor *h, struct err *err)
{
	int r;

	r = state_doc_read(dir_fd, &h->state, err);
	if (r == 0)
		r = read_spec(dir_fd, h, err);
	if (r < 0)
		return r;
	fill_options(a->options, h);
	a->options = &h->options;
	r = plan_make_adopted(
		h->spec, h->state.uid, h->state.gid, h->state.user_name, &a->plan, err);
	if (r < 0)
		return r;
	r = fill_tasks(a, h);
	if (r == 0)
		r = history_read(dir_fd, note_end, a);
	if (r < 0)
		return err_set(err, r, "read what became of the step's tasks, events.jsonl");
	a->plan.job.cont_id = h->state.cont_id;
	agent_unpack(a, &h->state);
	if (h->state.reason)
		tasks_mark_requested(&a->tasks);
	a->origin.recover.adopted++;
	return 0;
}

void successor_clear(struct successor *h)
{
	h->spec = spec_free(h->spec);
	state_doc_clear(&h->state);
}
