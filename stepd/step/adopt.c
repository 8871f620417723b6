/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/agent.h"

#include <assert.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>

#include "proctrack/proctrack.h"
#include "stepd/base/clock.h"
#include "stepd/base/err.h"
#include "stepd/base/failpoint.h"
#include "stepd/base/fs.h"
#include "stepd/base/parse.h"
#include "stepd/base/proc.h"
#include "stepd/plugin/plugin.h"
#include "stepd/record/clean.h"
#include "stepd/record/events.h"
#include "stepd/record/registry.h"
#include "stepd/record/report.h"
#include "stepd/spec/spec.h"
#include "stepd/state/steps.h"
#include "stepd/stdio/stdio.h"
#include "stepd/step/agent_impl.h"
#include "stepd/step/ending.h"
#include "stepd/step/reaping.h"
#include "stepd/step/result.h"

/* ---- an agent made of what a dead one left ------------------------------------------------- */

/* Read from the step's directory: state.json, spec.json and events.jsonl. The adopter then has
 * the dead agent's state; the step itself is not changed. */
struct successor {
	struct state_doc state;
	struct spec *spec;
	struct agent_options options; /* the given ones, and the dead agent's for the others */
};

/* Searches directories named "<node>_<label>"; others are ignored. */
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
static int split_step_name(
	char *text, const char **ret_node, const char **ret_label, stepd_step_rec_t *job)
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

/* Parses "7.0" or "n1/7.0", the name of a step with a directory: sets the members of job that
 * registry_take_over() needs; the caller frees the strings. -ENOENT, or -ENOTUNIQ if several
 * nodes have the step. */
static int successor_find(const char *runtime_dir, const char *step, stepd_step_rec_t *ret_job,
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
	if (split_step_name(text, &node, &label, &job) < 0)
		return err_set_text(
			err, -EINVAL, "'%s' is not a step; write JOB.STEP or NODE/JOB.STEP", step);
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
	/* One allocation for the caller to free: "<node>\0<step name>". */
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

static int successor_read_spec(int dir_fd, struct successor *h, struct err *err)
{
	_cleanup_free_ char *text = NULL, *node = strdup(h->state.node_name);
	size_t size;
	int r = node ? fs_read(dir_fd, "spec.json", SPEC_SIZE_MAX, &text, &size) : -ENOMEM;

	if (r < 0)
		return err_set(err, r, "read the document that the step was made of, spec.json");
	r = spec_from_text(text, size, &h->spec, err);
	if (r < 0)
		return err ? err_prefix(err, "spec.json") : r;
	/* Options that the document leaves out were the agent's choice. */
	h->spec->job_id = h->state.job_id;
	free(h->spec->node_name);
	h->spec->node_name = take_ptr(node);
	return 0;
}

static void successor_fill_options(const struct agent_options *given, struct successor *h)
{
	struct agent_options *o = &h->options;

	*o = *given;
	/* The dead agent's descriptors do not exist here. */
	if (!o->result_file && report_descriptor_of(h->state.result_file) < 0)
		o->result_file = h->state.result_file;
	if (!o->sample_file && h->state.sample_file &&
		report_descriptor_of(h->state.sample_file) < 0) {
		o->sample_file = h->state.sample_file;
		o->sample_interval_ms = h->state.sample_interval_ms;
	}
	if (!o->plugin_dir)
		o->plugin_dir = h->state.plugin_dir;
	if (o->keep_result_ms == AGENT_RESULT_TIME_INHERITED)
		o->keep_result_ms = h->state.keep_result_ms;
	o->usage_table = o->usage_table || h->state.usage_table;
}

static int successor_fill_tasks(struct agent *a, const struct successor *h)
{
	const struct state_doc *state = &h->state;
	int r = agent_unpack_tasks(a, state);
	size_t i;

	for (i = 0; r == 0 && i < state->tasks_count; i++) {
		if (state->tasks[i].pid) {
			tasks_started(&a->tasks, (uint32_t)i, state->tasks[i].pid,
				state->recover.running_ns);
		} else if (state->recover.forked.most) {
			/* The task had ended; its status is recorded elsewhere, or lost. */
			a->tasks.v[i].state = TASK_RUNNING;
			a->tasks.v[i].start_ns = state->recover.running_ns;
			a->tasks.running++;
		}
	}
	return r;
}

static struct task *find_task(struct tasks *ts, uint32_t rank)
{
	uint32_t i = ts->n ? rank - ts->v[0].rank : 0;

	if (i < ts->n && ts->v[i].rank == rank)
		return &ts->v[i]; /* most steps' ranks are consecutive */
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

static void on_history_end(const struct history_end *end, void *userdata)
{
	struct agent *a = userdata;
	struct task *task = find_task(&a->tasks, end->rank);
	uint64_t end_ns = to_monotonic_ns(end->time_usec);

	if (!task || task->state != TASK_RUNNING)
		return;
	if (end_ns < task->start_ns)
		end_ns = task->start_ns; /* the clock was set meanwhile */
	task->requested = end->on_request;
	if (end->exit_code == STATUS_NOT_FOUND || end->exit_code == STATUS_NOT_EXECUTABLE)
		task->exec_status =
			status_exit_code(end->wait_status) == end->exit_code ? 0 : end->exit_code;
	/* A task that can't be executed ends its spawn, and has no status of its own.
	 */
	task->dropped = task->spawn && task->exec_status;
	if (end->lost)
		tasks_lost(&a->tasks, task, end_ns);
	else
		tasks_ended(&a->tasks, task, end->wait_status, end_ns);
	a->plan.job.task[task - a->tasks.v].pid = 0;
}

/* Fills a's plan, tasks, times and options from the directory; a->registry is the caller's, with
 * its lock. Tasks with a pid in state.json and without a recorded end are TASK_RUNNING; whether
 * they still run is not checked. -ENOENT: no state.json. h must outlive a. */
static int successor_load(struct agent *a, int dir_fd, struct successor *h, struct err *err)
{
	int r;

	r = state_doc_read(dir_fd, &h->state, err);
	if (r == 0)
		r = successor_read_spec(dir_fd, h, err);
	if (r < 0)
		return r;
	successor_fill_options(a->options, h);
	a->options = &h->options;
	r = plan_make_adopted(
		h->spec, h->state.uid, h->state.gid, h->state.user_name, &a->plan, err);
	if (r < 0)
		return r;
	r = successor_fill_tasks(a, h);
	if (r == 0)
		r = history_read(dir_fd, on_history_end, a);
	if (r < 0)
		return err_set(err, r, "read how the step's tasks have ended, events.jsonl");
	a->plan.job.cont_id = h->state.cont_id;
	agent_unpack(a, &h->state);
	if (h->state.reason)
		tasks_mark_requested(&a->tasks);
	a->origin.recover.adopted++;
	return 0;
}

static void successor_clear(struct successor *h)
{
	h->spec = spec_free(h->spec);
	state_doc_clear(&h->state);
}

/* ---- adoption ------------------------------------------------------------------------------ */

/* How long readers may take for the output of a step without processes: the tool that cleans up
 * (record/clean.c) waits a little longer. */
#define DRAIN_LIMIT_S 3.

struct adoption {
	struct agent *agent;
	struct successor successor;
	bool has_container;
};

/* ---- the processes ------------------------------------------------------------------------- */

/* Opens the task with that pid, checked by its start time: 0, -ESRCH if it has ended, -errno. */
static int open_task(const struct fork_ticks *forked, pid_t pid, struct pidref *ret_ref)
{
	_cleanup_pidref_ struct pidref ref = PIDREF_INIT;
	struct procstat st;
	int r = pidref_open(pid, 0, &ref);

	if (r == 0)
		r = procstat_read(pid, &st);
	if (r < 0)
		return r;
	if (st.start_ticks < forked->least || st.start_ticks > forked->most)
		return -ESRCH; /* the pid has been reused */
	*ret_ref = ref;
	ref = (struct pidref)PIDREF_INIT;
	return 0;
}

/* Holds the living tasks, and records the end of the others; *ret_pids are the living ones'. */
static int hold_tasks(struct agent *a, bool same_boot, pid_t **ret_pids, int *ret_count)
{
	_cleanup_free_ pid_t *pids = calloc((size_t)a->tasks.n + 1, sizeof(*pids));
	_cleanup_pidref_ struct pidref ref = PIDREF_INIT;
	struct task *task;
	int n = 0, r = 0;
	uint32_t i;

	if (!pids)
		return -ENOMEM;
	for (i = 0; r == 0 && i < a->tasks.n; i++) {
		task = &a->tasks.v[i];
		if (task->state != TASK_RUNNING)
			continue;
		r = same_boot && task->pid
			? open_task(task->spawn ? &task->forked : &a->origin.recover.forked,
				  task->pid, &ref)
			: -ESRCH;
		if (r == 0) {
			pids[n++] = task->pid;
			r = exit_watch_add_take(a->origin.exits, &ref, i);
		} else if (r == -ESRCH) {
			reaping_report_lost(a, task);
			tasks_lost(&a->tasks, task, clock_now_ns());
			a->plan.job.task[i].pid = 0;
			r = 0;
		}
	}
	*ret_pids = take_ptr(pids);
	*ret_count = n;
	return r;
}

/* The added processes: the container has no other record of them. */
static int hold_added(struct adoption *ad, pid_t **pids, int *count)
{
	struct agent *a = ad->agent;
	pid_t *grown;
	size_t i;
	int r = 0;

	if (ad->successor.state.same_boot)
		r = added_unpack(
			&a->origin.added, json_object_get(ad->successor.state.doc, "added"));
	if (r < 0 || a->origin.added.n == 0)
		return r;
	grown = reallocarray(*pids, (size_t)*count + a->origin.added.n, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	for (i = 0; i < a->origin.added.n; i++)
		grown[(*count)++] = a->origin.added.v[i].pid;
	*pids = grown;
	return 0;
}

/* ---- the container ------------------------------------------------------------------------- */

static int open_tracker(struct adoption *ad, struct err *err)
{
	const struct state_doc *state = &ad->successor.state;
	struct agent *a = ad->agent;
	_cleanup_free_ char *dir = NULL;
	int r;

	r = state->container_root ? proctrack_set_root(state->container_root) : 0;
	if (r < 0)
		return err_set(err, r, "set the root '%s'", state->container_root);
	r = plugin_dir_find(a->options->plugin_dir, &dir, err);
	if (r == 0)
		r = proctrack_open(dir, state->proctrack, &a->pt, err);
	if (r == 0 && state->container_root)
		r = registry_set_root(a->registry, state->container_root);
	return r;
}

/* The dead agent may have created the container without recording its name: nothing runs in it. */
static int take_unnamed(struct agent *a, struct err *err)
{
	int r = proctrack_create(a->pt, &a->plan.job);

	return r < 0
		? err_set(err, r, "find the step's container with %s", proctrack_get_type(a->pt))
		: 0;
}

static int take_container(struct adoption *ad, const pid_t *pids, int n, struct err *err)
{
	struct agent *a = ad->agent;
	int r;

	if (!a->plan.job.cont_id)
		return take_unnamed(a, err);
	r = ad->successor.state.same_boot ? proctrack_adopt(a->pt, &a->plan.job, pids, n) : -ESRCH;
	if (r == -ESRCH || r == -ENOENT) { /* it is gone, with its processes */
		a->plan.job.cont_id = 0;
		return 0;
	}
	return r < 0 ? err_set(err, r, "take over the step's container with %s",
			       proctrack_get_type(a->pt))
		     : 0;
}

/* ---- the step's life ----------------------------------------------------------------------- */

/* Of what the dead agent's holder (stdio/hold.h) does not hold. */
static void warn_of_streams(const struct agent *a)
{
	const struct spec *spec = a->plan.spec;

	if (spec->label && !a->stdio)
		log_warning(a->log,
			"the output of step %s had labels, which its dead agent put there: further "
			"output of its tasks is lost",
			a->plan.label);
	else if ((spec->forward || spec->unbuffered || spec->attachable) && !a->stdio)
		log_warning(a->log,
			"the output of step %s passed through its dead agent: further output of its "
			"tasks is lost",
			a->plan.label);
	if (spec->pty_count > 0 && !a->stdio)
		log_warning(a->log,
			"the pseudo-terminals of step %s were its dead agent's: they have hung up",
			a->plan.label);
	else if (spec->pty_count == 0 &&
		(spec->in.mode == SPEC_STREAM_ATTACH ||
			(spec->in.mode == SPEC_STREAM_ALL && spec->kind == STEPD_STEP_NORMAL &&
				(spec->local_ntasks > 1 || spec->attachable))))
		log_warning(a->log,
			"the standard input of step %s went through its dead agent: it ends here",
			a->plan.label);
}

/* Whether bytes passed through the dead agent that a holder may have. */
static bool has_carried(const struct spec *spec)
{
	return spec->kind != STEPD_STEP_EXTERN &&
		(spec->label || spec->forward || spec->unbuffered || spec->attachable ||
			spec->pty_count > 0);
}

static void adopt_streams(struct agent *a)
{
	struct err err = ERR_INIT;
	int r = -ENOENT;

	if (has_carried(a->plan.spec))
		r = stdio_adopt(a->plan.spec, &a->plan.id, a->loop, a->log,
			registry_get_dirfd(a->registry), a->plan.label, &a->stdio, &err);
	if (r == 0)
		log_info(a->log, "goes on with the streams of the dead agent%s%s%s",
			a->plan.spec->pty_count > 0 ? " ('stepctl attach --stdin " : "",
			a->plan.spec->pty_count > 0 ? a->plan.label : "",
			a->plan.spec->pty_count > 0 ? "' types to its pseudo-terminals)" : "");
	else if (r != -ENOENT)
		log_warning(a->log, "%s", err.text);
}

static int adopt_take_over(struct adoption *ad, struct err *err)
{
	_cleanup_free_ pid_t *pids = NULL;
	struct agent *a = ad->agent;
	struct account_setup setup;
	int n = 0, r;

	a->loop = ev_loop_new(EVFLAG_NOENV);
	r = a->loop ? exit_watch_open(a) : -ENOMEM;
	if (r == 0)
		r = hold_tasks(a, ad->successor.state.same_boot, &pids, &n);
	if (r == 0)
		r = hold_added(ad, &pids, &n);
	if (r < 0)
		return err_set(err, r, "take over the processes of step %s", a->plan.label);
	r = reexec_init(a, err);
	if (r == 0)
		r = take_container(ad, pids, n, err);
	if (r == 0 && result_reserve(a, err) < 0)
		log_warning(a->log, "%s, ignoring", err->text);
	ad->has_container = r == 0 && a->plan.job.cont_id;
	setup = agent_account_setup(a);
	if (r < 0 ||
		!ad->has_container) { /* nothing more can be read: the known state is reported */
		a->account.setup = setup;
		return r;
	}
	r = ending_watch(a, err);
	if (r == 0)
		r = account_open(&a->account, &setup, err);
	return r < 0 ? r : frontend_open(a, err);
}

/* The dead agent's state. */
static void go_on(struct adoption *ad, bool suspended)
{
	const struct state_doc *state = &ad->successor.state;
	struct agent *a = ad->agent;

	a->state = AGENT_RUNNING;
	suspend_adopt(a, suspended, state->suspending, state->suspended_since_ns);
	ending_started(a);
	account_started(&a->account);
	suspend_adopted(a, state->suspending);
	failpoint("adopt-held");
	result_publish_state(a, suspend_state_name(a));
	failpoint("adopt-running");
	result_send_ready(a);
	frontend_ready(a);
	service_notify_state(a);
	if (state->reason)
		ending_begin(a, a->reason);
	ending_check(a);
	reexec_go_on(a);
	agent_settle(a);
	if (a->state != AGENT_ENDED)
		ev_run(a->loop, 0);
}

/* Its tasks are held before their exec: none runs a program of the step yet. */
static int end_unstarted(struct adoption *ad, struct err *err)
{
	struct agent *a = ad->agent;
	int r = err_set_text(err, -EOWNERDEAD,
		"step %s was not started: its agent (pid %d) died while it was about to",
		a->plan.label, (int)ad->successor.state.agent_pid);

	agent_note_failure(a, err);
	if (!ad->has_container || !proctrack_is_populated(a->pt, a->plan.job.cont_id))
		return r;
	a->state = AGENT_RUNNING;
	ending_kill(a, AGENT_REASON_LAUNCH);
	if (a->state != AGENT_ENDED)
		ev_run(a->loop, 0);
	return r;
}

/* No process is left, and the container is gone. */
static void note_ended(struct agent *a)
{
	uint32_t i;

	exit_watch_poll(a->origin.exits); /* zombies still have their exit status */
	a->state = AGENT_ENDED;
	a->end.time_ns = a->origin.begin_ns;
	for (i = 0; i < a->tasks.n; i++) {
		reaping_adopted_task(a, i, false, 0);
		if (a->tasks.v[i].end_ns > a->end.time_ns)
			a->end.time_ns = a->tasks.v[i].end_ns;
	}
}

static void on_drain_limit(struct ev_loop *loop, _unused_ ev_timer *w, _unused_ int revents)
{
	ev_break(loop, EVBREAK_ALL);
}

/* What the tasks had written before they ended, and nobody had read. */
static void drain_streams(struct agent *a)
{
	ev_timer limit;

	if (!a->stdio)
		return;
	stdio_finish(a->stdio, ending_streams_done, a);
	ev_timer_init(&limit, on_drain_limit, DRAIN_LIMIT_S, 0.);
	ev_now_update(a->loop);
	ev_timer_start(a->loop, &limit);
	if (!a->end.streams_done)
		ev_run(a->loop, 0);
	ev_timer_stop(a->loop, &limit);
	if (a->end.streams_done)
		return;
	a->end.output_lost = true;
	log_warning(a->log, "nobody reads the output of step %s: the rest of it is lost",
		a->plan.label);
}

static bool is_over(const struct adoption *ad)
{
	const struct agent *a = ad->agent;

	return a->tasks.running == 0 &&
		(!ad->has_container || !proctrack_is_populated(a->pt, a->plan.job.cont_id));
}

static int live_on(struct adoption *ad, struct err *err)
{
	const char *state = ad->successor.state.state;
	struct agent *a = ad->agent;

	registry_inherit(a->registry);
	if (is_over(ad) && result_forward(a))
		return 0; /* only its removal is missing */
	if (strcmp(state, agent_state_names[AGENT_STARTING]) == 0 ||
		(ad->successor.state.reason && a->reason == AGENT_REASON_LAUNCH))
		return end_unstarted(ad, err);
	adopt_streams(a);
	/* An extern step that is only cleaned up gets no more processes. */
	if (ad->has_container &&
		!(a->options->remains_only && a->plan.spec->kind == STEPD_STEP_EXTERN)) {
		warn_of_streams(a);
		go_on(ad, strcmp(state, "suspended") == 0);
	} else {
		note_ended(a);
		drain_streams(a);
	}
	return 0;
}

/* ---- entry point --------------------------------------------------------------------------- */

static int claim(struct agent *a, const char *step, struct err *err)
{
	_cleanup_free_ char *strings = NULL;
	stepd_step_rec_t job;
	int r;

	r = successor_find(a->options->runtime_dir, step, &job, &strings, err);
	if (r == 0)
		r = registry_take_over(a->options->runtime_dir, &job, &a->registry, err);
	if (r == -EACCES)
		return err_set_text(err, r,
			"step %s is another user's: adopt it as that user, or as root", step);
	return r;
}

/* The dead agent had only claimed the directory, or had reported everything. */
static int check_left(struct agent *a, const char *step, struct err *err)
{
	int fd = registry_get_dirfd(a->registry);

	if (faccessat(fd, "state.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (faccessat(fd, "result.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
		a->registry = registry_retire(a->registry);
		return err_set_text(err, -ENOENT, "step %s has ended; its result is there", step);
	}
	return err_set_text(err, -ENOENT,
		"step %s had not begun when its agent died: there is nothing to adopt", step);
}

static void log_adoption(const struct adoption *ad)
{
	struct event event = EVENT_INIT(EVENT_ADOPT);
	char text[64];

	(void)snprintf(text, sizeof(text), "the agent with pid %d has died",
		(int)ad->successor.state.agent_pid);
	event.pid = getpid();
	event.text = text;
	events_add(ad->agent->events, &event);
}

static int adopt_prepare(struct adoption *ad, const char *step, struct err *err)
{
	struct agent *a = ad->agent;
	int r;

	r = process_become_agent(&a->start.saved, err);
	if (r == 0)
		r = a->watch.signal_fd = process_catch_signals(err);
	if (r >= 0)
		r = claim(a, step, err);
	failpoint("adopt-claimed");
	if (r == 0)
		r = check_left(a, step, err);
	if (r == 0)
		r = successor_load(a, registry_get_dirfd(a->registry), &ad->successor, err);
	if (r == 0) /* after what it reported was read */
		r = events_open(registry_get_dirfd(a->registry), true, a->log, &a->events, err);
	if (r < 0)
		return r;
	events_set_readers(a->events, a->plan.job.uid, a->options->operator_gid);
	log_adoption(ad);
	failpoint("adopt-loaded");
	r = open_tracker(ad, err);
	return r < 0 ? r : adopt_take_over(ad, err);
}

int agent_adopt(
	const char *step, const struct agent_options *options, int *ret_code, struct err *err)
{
	struct agent a;
	struct adoption ad = {.agent = &a};
	int r;

	agent_close_inherited(options);
	agent_init(&a, options);
	r = adopt_prepare(&ad, step, err);
	if (r == 0 && options->remains_only)
		exit_watch_poll(a.origin.exits);
	if (r == 0 && options->remains_only && !is_over(&ad))
		r = err_set_text(err, -EBUSY, "step %s has processes that live", a.plan.label);
	if (r < 0) { /* the dead agent's files stay for the next attempt */
		a.plan.job.cont_id = 0;
		a.origin.recover.service = (struct recover_service){.pid = 0};
	} else {
		r = live_on(&ad, err);
	}
	r = agent_finish(&a, r, ret_code, err);
	successor_clear(&ad.successor);
	return r;
}

int adopt_settle(const char *step, const struct clean_options *options)
{
	static const struct log silent = {.fd = -1, .ident = "stepd"};
	const struct agent_options agent = {.plugin_dir = options->plugin_dir,
		.runtime_dir = options->runtime_dir,
		.remains_only = true,
		.keep_result_ms = AGENT_RESULT_TIME_INHERITED,
		.operator_gid = (gid_t)-1,
		.ready_fd = -1,
		.step_hooks_fd = -1,
		.supervisor_fd = -1,
		.log = &silent};
	struct err err = ERR_INIT;
	int code;

	(void)unsetenv(
		"NOTIFY_SOCKET"); /* notifications to that socket concern the caller's own step */
	return agent_adopt(step, &agent, &code, &err);
}
