/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a new program needs beside what any successor has (agent_pack()): descriptors, buffers,
 * what waits, and how far each module is. Both halves, side by side: each line of a save_...()
 * has its counterpart in a restore_...(). A module saves and restores its private state itself.
 */
#include <jansson.h>
#include <signal.h>
#include <string.h>

#include "mpi/mpi.h"
#include "proctrack/generic.h"
#include "proctrack/proctrack.h"
#include "stepd/account/account.h"
#include "stepd/base/clock.h"
#include "stepd/base/err.h"
#include "stepd/base/failpoint.h"
#include "stepd/base/proc.h"
#include "stepd/plugin/plugin.h"
#include "stepd/record/events.h"
#include "stepd/record/registry.h"
#include "stepd/record/report.h"
#include "stepd/record/state_doc.h"
#include "stepd/snapshot/handover.h"
#include "stepd/spec/spec.h"
#include "stepd/stdio/stdio.h"
#include "stepd/step/agent_impl.h"
#include "stepd/step/ending.h"
#include "stepd/step/mpi_link.h"
#include "stepd/step/reaping.h"
#include "stepd/step/reexec.h"
#include "stepd/step/result.h"

/* ---- what the agent was called with -------------------------------------------------------- */

static void save_options(const struct agent *a, struct handover *h, json_t *object)
{
	const struct agent_options *o = a->options;

	handover_put_text(h, object, "runtime_dir", o->runtime_dir);
	handover_put_text(h, object, "trace_file", o->trace_file);
	handover_put_int(h, object, "operator_gid", (int64_t)o->operator_gid);
	handover_put_int(h, object, "start_ns", (int64_t)o->start_ns);
	handover_put_fd(h, object, "log_fd", a->log->fd);
	handover_put_int(h, object, "log_most", a->log->most);
	handover_put_text(h, object, "log_ident", a->log->ident);
	handover_put_fd(h, object, "supervisor_fd", a->watch.supervisor.fd);
	handover_put_text(h, object, "program", a->reexec.program);
	handover_put_bool(h, object, "ignores_hup", process_ignores_hup());
}

/* Its strings are borrowed from the handover. */
static int read_state(const struct handover *h, struct state_doc *ret_state, struct err *err)
{
	json_t *doc = json_get_object(handover_root(h), "agent");

	if (!doc)
		return handover_err_part("agent", err);
	return state_doc_unpack(doc, ret_state, err);
}

/* The agent's options. The texts are borrowed from the handover, which must live as long. */
static int restore_options(const struct handover *h, struct agent_options *ret_options,
	struct log *ret_log, struct err *err)
{
	const json_t *object = json_get_object(handover_root(h), "options");
	const char *ident = handover_get_text(h, object, "log_ident");
	_cleanup_state_doc_ struct state_doc state = {0};
	int r = read_state(h, &state, err);

	if (r < 0)
		return r;
	*ret_options = (struct agent_options){
		.plugin_dir = state.plugin_dir,
		.runtime_dir = handover_get_text(h, object, "runtime_dir"),
		.trace_file = handover_get_text(h, object, "trace_file"),
		.result_file = state.result_file,
		.sample_file = state.sample_file,
		.sample_interval_ms = state.sample_interval_ms,
		.usage_table = state.usage_table,
		.operator_gid = (gid_t)json_get_int(object, "operator_gid", (gid_t)-1),
		.keep_result_ms = state.keep_result_ms,
		.ready_fd = -1,
		.supervisor_fd = handover_get_fd(object, "supervisor_fd"),
		.start_ns = (uint64_t)json_get_int(object, "start_ns", 0),
		.log = ret_log,
	};
	*ret_log = (struct log){
		.fd = handover_is_trial(h) ? -1 : handover_get_fd(object, "log_fd"),
		.most = (enum log_level)json_get_int(object, "log_most", LOG_LEVEL_INFO),
	};
	(void)snprintf(ret_log->ident, sizeof(ret_log->ident), "%s", ident ? ident : "stepd");
	return 0;
}

static bool ignores_hup(const struct handover *h)
{
	return json_get_bool(json_get_object(handover_root(h), "options"), "ignores_hup", false);
}

/* ---- how far the step has come ------------------------------------------------------------- */

static void save_state(const struct agent *a, struct handover *h, json_t *object)
{
	handover_put_text(h, object, "state", agent_state_names[a->state]);
	handover_put_int(h, object, "abort_code", a->end.abort_code);
	handover_put_int(h, object, "linked", a->start.linked);
	handover_put_bool(h, object, "streams_done", a->end.streams_done);
	handover_put_bool(h, object, "output_lost", a->end.output_lost);
	handover_put_bool(h, object, "unkillable", a->end.unkillable);
	handover_put_text(h, object, "unkillable_text", a->end.unkillable_text);
	handover_put_int(h, object, "end_ns", (int64_t)a->end.time_ns);
	handover_put_int(h, object, "release_ns", (int64_t)a->start.release_ns);
	handover_put_bool(h, object, "exec_failed", a->start.exec_failed);
	if (a->end.failure.code) {
		handover_put_int(h, object, "failure", a->end.failure.code);
		handover_put_text(h, object, "failure_text", a->end.failure.text);
	}
}

static int restore_state(
	struct agent *a, const struct handover *h, const json_t *object, struct err *err)
{
	const char *failure = handover_get_text(h, object, "failure_text");
	int state = json_get_choice(object, "state", agent_state_names, AGENT_STATE_MAX, -1);

	if (state < AGENT_RUNNING || state > AGENT_DRAINING)
		return handover_err_part("state", err);
	a->state = (enum agent_state)state;
	a->end.abort_code = (int)json_get_int(object, "abort_code", 0);
	a->start.linked = (unsigned)json_get_int(object, "linked", 0);
	a->end.streams_done = json_get_bool(object, "streams_done", false);
	a->end.output_lost = json_get_bool(object, "output_lost", false);
	a->end.unkillable = json_get_bool(object, "unkillable", false);
	a->end.time_ns = (uint64_t)json_get_int(object, "end_ns", 0);
	a->start.release_ns = (uint64_t)json_get_int(object, "release_ns", 0);
	a->start.exec_failed = json_get_bool(object, "exec_failed", false);
	a->end.failure.code = (int)json_get_int(object, "failure", 0);
	(void)snprintf(
		a->end.failure.text, sizeof(a->end.failure.text), "%s", failure ? failure : "");
	return handover_copy_text(h, object, "unkillable_text", &a->end.unkillable_text) < 0
		? err_set(err, -ENOMEM, "take over the step")
		: 0;
}

/* The tasks' report pipe, and the gate for tasks that have not read it yet. */
static void save_launch(const struct agent *a, struct handover *h, json_t *object)
{
	handover_put_fd(h, object, "report_fd", a->start.launch.report_fd);
	handover_put_fd(h, object, "hold_write_fd", a->start.launch.hold_write_fd);
	handover_put_int(h, object, "rss_kib", a->start.launch.rss_kib);
	handover_put_int(h, object, "nofile", (int64_t)a->start.saved.nofile.rlim_cur);
	handover_put_int(h, object, "nofile_most", (int64_t)a->start.saved.nofile.rlim_max);
	handover_put_text(h, object, "oom_score_adj", a->start.saved.oom_score_adj);
	handover_put_fd(h, object, "ready_fd", a->ready.fd);
	if (a->ready.text)
		handover_put_bytes(h, object, "ready", a->ready.text + a->ready.at,
			a->ready.size - a->ready.at);
}

static int restore_launch(
	struct agent *a, const struct handover *h, const json_t *object, struct err *err)
{
	const char *adj = handover_get_text(h, object, "oom_score_adj"), *ready;
	size_t size = 0;

	a->start.launch.report_fd = handover_get_fd(object, "report_fd");
	a->start.launch.hold_write_fd = handover_get_fd(object, "hold_write_fd");
	a->start.launch.rss_kib = (long)json_get_int(object, "rss_kib", 0);
	a->start.saved.nofile.rlim_cur = (rlim_t)json_get_int(object, "nofile", -1);
	a->start.saved.nofile.rlim_max = (rlim_t)json_get_int(object, "nofile_most", -1);
	(void)snprintf(a->start.saved.oom_score_adj, sizeof(a->start.saved.oom_score_adj), "%s",
		adj ? adj : "");
	a->ready.fd = handover_get_fd(object, "ready_fd");
	ready = handover_get_bytes(h, object, "ready", &size);
	return result_restore_ready(a, ready, size) < 0
		? err_set(err, -ENOMEM, "take over the ready line")
		: 0;
}

/* ---- the container ------------------------------------------------------------------------- */

static void save_stopped(const struct agent *a, struct handover *h, json_t *object)
{
	const struct generic_stopped *stopped = proctrack_get_stopped(a->pt);
	json_t *array = handover_put_array(h, object, "stopped");
	uint32_t i;

	handover_put_bool(h, object, "stopped_owned", stopped->owned);
	handover_put_bool(h, object, "stopped_active", stopped->active);
	for (i = 0; stopped->active && i < stopped->n; i++) {
		handover_append_int(h, array, stopped->v[i].pid);
		handover_append_int(h, array, (int64_t)stopped->v[i].start_ticks);
	}
}

static void restore_stopped(struct agent *a, const json_t *object)
{
	struct generic_stopped *stopped = proctrack_get_stopped(a->pt);
	const json_t *array = json_get_array(object, "stopped");
	uint32_t n = (uint32_t)json_array_size(array) / 2, i;

	stopped->owned = json_get_bool(object, "stopped_owned", false);
	stopped->active = json_get_bool(object, "stopped_active", false);
	stopped->n = n < GENERIC_STOPPED_MAX ? n : GENERIC_STOPPED_MAX;
	for (i = 0; i < stopped->n; i++) {
		stopped->v[i].pid = (pid_t)json_integer_value(json_array_get(array, i * 2));
		stopped->v[i].start_ticks =
			(uint64_t)json_integer_value(json_array_get(array, i * 2 + 1));
	}
}

/* A tracker without state outside the agent may know some members only by this. */
static void save_container(const struct agent *a, struct handover *h, json_t *object)
{
	json_t *array = handover_put_array(h, object, "members");
	_cleanup_free_ pid_t *pids = NULL;
	int i, n = 0;

	handover_put_text(h, object, "proctrack", proctrack_get_type(a->pt));
	save_stopped(a, h, object);
	if (registry_get_root(a->registry))
		return;
	if (proctrack_get_pids(a->pt, a->plan.job.cont_id, &pids, &n) < 0)
		n = 0; /* none is left */
	for (i = 0; i < n; i++) {
		/* Unless adopted, tasks are known as the agent's children. */
		if (a->origin.exits || !tasks_find(&a->tasks, pids[i]))
			handover_append_int(h, array, pids[i]);
	}
}

static int adopt(struct agent *a, const json_t *array, struct err *err)
{
	int n = (int)json_array_size(array), i, r;
	_cleanup_free_ pid_t *pids = calloc((size_t)n + 1, sizeof(*pids));

	if (!pids)
		return err_set(err, -ENOMEM, "take over the step's container");
	for (i = 0; i < n; i++)
		pids[i] = (pid_t)json_integer_value(json_array_get(array, (size_t)i));
	r = proctrack_adopt(a->pt, &a->plan.job, pids, n);
	if (a->origin.recover.adopted && (r == -ESRCH || r == -ENOENT)) {
		/* Nothing of the agent's holds the container: it was removed with its last
		 * process, just now. */
		a->plan.job.cont_id = 0;
		return 0;
	}
	return r < 0 ? err_set(err, r, "take over the step's container") : 0;
}

static int restore_container(
	struct agent *a, const struct handover *h, const json_t *object, struct err *err)
{
	const json_t *agent = json_get_object(handover_root(h), "agent");
	const char *type = handover_get_text(h, object, "proctrack");
	const char *root = registry_get_root(a->registry);
	_cleanup_free_ char *dir = NULL;
	int r;

	if (!type)
		return handover_err_part("container", err);
	r = root ? proctrack_set_root(root) : 0;
	if (r < 0)
		return err_set(err, r, "set the root '%s'", root);
	r = plugin_dir_find(a->options->plugin_dir, &dir, err);
	if (r == 0)
		r = proctrack_open(dir, type, &a->pt, err);
	if (r == 0 && added_unpack(&a->origin.added, json_get_array(agent, "added")) < 0)
		r = err_set(err, -ENOMEM, "take over the step's container");
	if (r == 0 && !handover_is_trial(h)) /* which is the agent's still */
		r = adopt(a, json_get_array(object, "members"), err);
	if (r < 0)
		return r;
	restore_stopped(a, object);
	return a->plan.spec->kind == STEPD_STEP_NORMAL && a->origin.recover.adopted == 0
		? mpi_open(dir, a->plan.spec->mpi, &a->mpi.host, err)
		: 0;
}

/* ---- all of it ----------------------------------------------------------------------------- */

struct handover *reexec_save(struct agent *a)
{
	struct handover *h = handover_new(a->options->version);
	json_t *root;

	if (!h)
		return NULL;
	root = handover_root(h);
	handover_put_json_take(h, root, "agent", agent_pack(a));
	save_options(a, h, handover_put_object(h, root, "options"));
	handover_put_text(h, root, "spec", a->plan.spec->text);
	plan_save(&a->plan, h, handover_put_object(h, root, "plan"));
	save_state(a, h, handover_put_object(h, root, "state"));
	save_launch(a, h, handover_put_object(h, root, "launch"));
	tasks_save(&a->tasks, h, handover_put_object(h, root, "tasks"));
	registry_save(a->registry, h, handover_put_object(h, root, "registry"));
	save_container(a, h, handover_put_object(h, root, "container"));
	mpi_link_save(a, h, handover_put_object(h, root, "mpi"));
	join_save(a, h, root);
	ending_save(a, h, handover_put_object(h, root, "ending"));
	account_save(&a->account, h, handover_put_object(h, root, "account"));
	if (a->origin.exits)
		exit_watch_save(a->origin.exits, h, handover_put_object(h, root, "adopted"));
	if (a->stdio)
		stdio_save(a->stdio, h, handover_put_object(h, root, "stdio"));
	if (a->events)
		events_save(a->events, h, handover_put_object(h, root, "events"));
	frontend_save(a, h, root);
	if (a->trace)
		trace_save(a->trace, h, handover_put_object(h, root, "trace"));
	handover_put_int(h, root, "asked_ns", (int64_t)a->reexec.requested_ns);
	return h;
}

static int restore_tasks(
	struct agent *a, const struct state_doc *state, const json_t *object, struct err *err)
{
	int r = agent_unpack_tasks(a, state);

	if (r == 0)
		r = tasks_restore(&a->tasks, object);
	return r == -ENOMEM ? err_set(err, r, "take over the tasks")
		: r < 0     ? handover_err_part("tasks", err)
			    : 0;
}

static int restore_account(
	struct agent *a, const struct handover *h, const json_t *object, struct err *err)
{
	const struct account_setup setup = agent_account_setup(a);

	return account_restore(&a->account, &setup, h, object, a->state < AGENT_DRAINING, err);
}

/* Watchers and streams, once everything that they need exists. */
static int restore_watchers(
	struct agent *a, const struct handover *h, const json_t *root, struct err *err)
{
	const json_t *stdio = json_get_object(root, "stdio");
	const json_t *events = json_get_object(root, "events");
	const json_t *adopted = json_get_object(root, "adopted");
	int r;

	r = events ? events_restore(events, a->log, &a->events, err) : 0;
	if (r == 0)
		r = mpi_link_restore(a, h, json_get_object(root, "mpi"), err);
	if (r == 0)
		r = ending_restore(a, h, json_get_object(root, "ending"), err);
	if (r == 0)
		r = restore_account(a, h, json_get_object(root, "account"), err);
	if (r == 0 && adopted)
		r = exit_watch_restore(a, adopted, err);
	if (r == 0 && stdio)
		r = stdio_restore(a->plan.spec, &a->plan.id, a->loop, a->log, h, stdio,
			ending_streams_done, a, &a->stdio, err);
	if (r == 0)
		mpi_streams_restored(a);
	return r;
}

/* a has its options, its loop and its signals. */
static int restore_agent(
	struct agent *a, const struct spec *spec, const struct handover *h, struct err *err)
{
	const json_t *root = handover_root(h);
	const json_t *trace = json_get_object(root, "trace");
	_cleanup_state_doc_ struct state_doc state = {0};
	int r = read_state(h, &state, err);

	if (r < 0)
		return r;
	agent_unpack(a, &state);
	r = plan_restore(spec, h, json_get_object(root, "plan"), &a->plan, err);
	if (r == 0)
		r = restore_state(a, h, json_get_object(root, "state"), err);
	if (r == 0)
		r = restore_tasks(a, &state, json_get_object(root, "tasks"), err);
	if (r == 0)
		r = registry_restore(h, json_get_object(root, "registry"), &a->registry, err);
	if (r == 0)
		r = restore_container(a, h, json_get_object(root, "container"), err);
	if (r == 0)
		r = restore_launch(a, h, json_get_object(root, "launch"), err);
	if (r == 0)
		r = restore_watchers(a, h, root, err);
	if (r == 0 && join_restore(a, root) < 0)
		r = err_set(err, -ENOMEM, "take over the step");
	if (r < 0)
		return r;
	a->trace = trace ? trace_restore(trace) : NULL; /* no memory: no trace */
	return handover_copy_text(
		       h, json_get_object(root, "options"), "program", &a->reexec.program) < 0
		? err_set(err, -ENOMEM, "take over the step")
		: 0;
}

/* ---- from the handover to the loop, as agent.c goes from the spec to the loop -------------- */

static const struct json_t *get_plan(const struct handover *h)
{
	return json_get_object(handover_root(h), "plan");
}

static int read_handed_over_spec(const struct handover *h, struct spec **ret_spec, struct err *err)
{
	const char *text = handover_get_text(h, handover_root(h), "spec");
	int r;

	if (!text)
		return handover_err_part("spec", err);
	r = spec_from_text(text, strlen(text), ret_spec, err);
	return r < 0 ? r : plan_restore_names(*ret_spec, h, get_plan(h), err);
}

static int reexec_restore_all(
	struct agent *a, const struct spec *spec, const struct handover *h, struct err *err)
{
	int r;

	a->loop = ev_loop_new(EVFLAG_NOENV);
	if (!a->loop)
		return err_set(err, -ENOMEM, "make the event loop");
	r = restore_agent(a, spec, h, err);
	return r < 0 ? r : reexec_init(a, err);
}

/* The step goes on without it. The trial left this out: connections would notice it.
 */
static void reopen_socket(struct agent *a, const struct handover *h)
{
	const struct json_t *object = json_get_object(handover_root(h), "methods");
	struct err err = ERR_INIT;
	int r = object ? frontend_restore(a, h, object, &err) : 0;

	if (r < 0) {
		log_error(a->log, "%s; all connections to the step are lost", err.text);
		r = frontend_open(a, &err);
		frontend_ready(a);
	}
	if (r < 0)
		log_error(a->log, "%s; no requests are served any more", err.text);
}

static void report_reexec(struct agent *a, const char *before)
{
	struct event event = EVENT_INIT(EVENT_REEXEC);
	char text[128];

	(void)snprintf(text, sizeof(text), "%.48s replaces %.48s", a->options->version, before);
	event.text = text;
	events_add(a->events, &event);
}

static int reexec_take_over(struct agent *a, const struct spec *spec, const struct handover *h,
	const struct log *log, struct err *err)
{
	const char *before = handover_get_version(h);
	uint64_t requested_ns = (uint64_t)json_get_int(handover_root(h), "asked_ns", 0);
	int r = reexec_restore_all(a, spec, h, err);

	if (r == 0 && failpoint_breaks("reexec-restore"))
		r = err_set_text(err, -EPROTO, "a test has it fail here");
	if (r < 0)
		return r;
	reopen_socket(a, h);
	report_reexec(a, before);
	log_info(log, "continues as version %s, which replaces %s", a->options->version, before);
	log_debug(log, "the change of programs took %llu us",
		(unsigned long long)((clock_now_ns() - requested_ns) / 1000));
	ending_go_on(a);
	if (a->state != AGENT_ENDED)
		ev_run(a->loop, 0);
	return 0;
}

int agent_continue(int fd, const char *version, const struct frontend *frontend, int *ret_code,
	struct err *err)
{
	_cleanup_handover_ struct handover *h = NULL;
	_cleanup_spec_ struct spec *spec = NULL;
	_cleanup_close_ int handover_fd = fd;
	struct agent_options options;
	struct agent a;
	struct log log;
	int signal_fd = -1, r;

	r = handover_open(fd, false, &h, err);
	if (r == 0)
		r = restore_options(h, &options, &log, err);
	if (r == 0)
		r = signal_fd = process_continue(ignores_hup(h), err);
	if (r < 0)
		return r;
	handover_fd = close_fd(handover_fd);
	options.version = version;
	options.frontend = frontend;
	service_use_journal(&log);
	agent_init(&a, &options);
	a.watch.signal_fd = signal_fd;
	r = read_handed_over_spec(h, &spec, err);
	if (r == 0)
		r = reexec_take_over(&a, spec, h, &log, err);
	if (r < 0) /* despite the trial: ends as if killed, and clears nothing that an adopter needs
		    */
		return err_prefix(
			err, "the step is left without an agent ('stepd adopt' takes it over)");
	return agent_finish(&a, r, ret_code, err);
}

/* Clears nothing, since that would end the step: the process must end by _exit(2). */
int agent_try_to_continue(int fd, const char *version, struct err *err)
{
	struct handover *h = NULL;
	struct spec *spec = NULL;
	struct agent *a = calloc(1, sizeof(*a));
	struct agent_options options;
	struct log log;
	int r;

	r = a ? handover_open(fd, true, &h, err) : err_set(err, -ENOMEM, "try to go on");
	if (r == 0)
		r = restore_options(h, &options, &log, err);
	if (r < 0)
		return r;
	options.version = version;
	agent_init(a, &options);
	r = a->watch.signal_fd = process_catch_signals(err);
	if (r >= 0)
		r = read_handed_over_spec(h, &spec, err);
	return r < 0 ? r : reexec_restore_all(a, spec, h, err);
}
