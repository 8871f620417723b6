/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/result.h"

#include <assert.h>
#include <jansson.h>
#include <string.h>
#include <sys/socket.h>
#include <syslog.h>

#include "proctrack/proctrack.h"
#include "stepd/account/usage.h"
#include "stepd/base/clock.h"
#include "stepd/base/err.h"
#include "stepd/base/fs.h"
#include "stepd/base/proc.h"
#include "stepd/record/registry.h"
#include "stepd/record/report.h"
#include "stepd/record/state_doc.h"
#include "stepd/stdio/output.h"
#include "stepd/stdio/stdio.h"
#include "stepd/step/agent_impl.h"
#include "systemd/systemd.h"

/* ---- the agent as a document --------------------------------------------------------------- */

static int list_tasks(const struct agent *a, struct state_doc *s)
{
	const struct task *task = a->tasks.v;

	s->tasks = calloc(a->tasks.n + 1u, sizeof(*s->tasks));
	if (!s->tasks)
		return -ENOMEM;
	for (; s->tasks_count < a->tasks.n; s->tasks_count++, task++)
		s->tasks[s->tasks_count] = (struct state_task){.rank = task->rank,
			.pid = a->plan.job.task[s->tasks_count].pid,
			.spawn = task->spawn,
			.forked = task->forked};
	return 0;
}

struct json_t *agent_pack(struct agent *a)
{
	const struct agent_options *o = a->options;
	_cleanup_state_doc_ struct state_doc s = {
		.gid = a->plan.job.gid,
		.reason = a->state >= AGENT_ENDING ? agent_reason_names[a->reason] : NULL,
		.end_signal = a->end.signal,
		.limit_signal_sent = a->limits.signal_sent,
		.begin_ns = a->origin.begin_ns,
		.suspended_since_ns = a->suspend.stands ? a->suspend.since_ns : 0,
		.suspended_ns = a->suspend.total_ns,
		.suspending = a->suspend.wanted && !a->suspend.stands,
		.recover = a->origin.recover,
		.result_file = o->result_file,
		.sample_file = o->sample_file,
		.plugin_dir = o->plugin_dir,
		.sample_interval_ms = o->sample_interval_ms,
		.keep_result_ms = o->keep_result_ms,
		.usage_table = o->usage_table,
	};
	json_t *doc =
		list_tasks(a, &s) == 0 ? state_doc_pack(&s, added_pack(&a->origin.added)) : NULL;

	memcpy(a->origin.recover.boot_id, s.recover.boot_id, sizeof(a->origin.recover.boot_id));
	return doc;
}

static enum agent_reason find_reason(const char *name)
{
	enum agent_reason reason;

	for (reason = 0; name && reason < AGENT_REASON_MAX; reason++) {
		if (strcmp(agent_reason_names[reason], name) == 0)
			return reason;
	}
	return AGENT_REASON_COMPLETED;
}

void agent_unpack(struct agent *a, const struct state_doc *s)
{
	a->reason = find_reason(s->reason);
	a->end.signal = s->end_signal;
	a->limits.signal_sent = s->limit_signal_sent;
	a->origin.begin_ns = s->same_boot ? s->begin_ns : a->options->start_ns;
	a->origin.recover = s->recover;
	a->suspend.total_ns = s->suspended_ns;
	a->suspend.since_ns = s->suspended_since_ns;
}

static int add_joined(struct agent *a, const struct state_task *saved)
{
	const stepd_step_task_info_t info = {.gtid = saved->rank, .spawn = saved->spawn};
	int r = saved->spawn ? tasks_add(&a->tasks, saved->spawn, &saved->rank, 1) : -EBADMSG;

	if (r < 0)
		return r;
	a->tasks.v[a->tasks.n - 1].forked = saved->forked;
	return plan_add_tasks(&a->plan, &info, 1);
}

int agent_unpack_tasks(struct agent *a, const struct state_doc *s)
{
	const struct spec *spec = a->plan.spec;
	size_t i;
	int r;

	if (s->tasks_count < spec->local_ntasks || s->tasks_count > SPEC_TASKS_MAX)
		return -EBADMSG;
	r = tasks_init(&a->tasks, spec->ranks, spec->local_ntasks);
	for (i = 0; r == 0 && i < s->tasks_count; i++) {
		if (i >= spec->local_ntasks)
			r = add_joined(a, &s->tasks[i]);
		if (r == 0 && s->tasks[i].rank != a->tasks.v[i].rank)
			r = -EBADMSG;
		if (r == 0)
			a->plan.job.task[i].pid = s->tasks[i].pid;
	}
	return r;
}

/* ---- the service manager ------------------------------------------------------------------- */

/* The ending's time beside its waits: streams, removal, the result on the disk. */
#define ENDING_SLACK_MS 10000u

static int send_to_journal(const struct log *log, enum log_level level, const char *text)
{
	static const int priorities[LOG_LEVEL_MAX] = {
		[LOG_LEVEL_ERROR] = LOG_ERR,
		[LOG_LEVEL_WARNING] = LOG_WARNING,
		[LOG_LEVEL_INFO] = LOG_INFO,
		[LOG_LEVEL_DEBUG] = LOG_DEBUG,
	};
	const char *blank = strchr(log->ident, ' '), *slash = strrchr(log->ident, '/');
	const struct journal_line line = {.priority = priorities[level],
		.step = slash   ? slash + 1
			: blank ? blank + 1
				: NULL,
		.text = text};

	return journal_send(&line);
}

void service_name_log(struct log *log, const struct spec *spec)
{
	bool is_one_of_many = spec->node_count > 1 && spec->node_name;

	(void)snprintf(log->ident, sizeof(log->ident), "stepd %s%s%u.%s",
		is_one_of_many ? spec->node_name : "", is_one_of_many ? "/" : "", spec->job_id,
		spec->step_name);
}

void service_use_journal(struct log *log)
{
	if (journal_has_stream(log->fd))
		log->send = send_to_journal;
}

static void warn(const struct agent *a, int r)
{
	if (r < 0)
		log_warning(a->log,
			"can't notify the service manager (NOTIFY_SOCKET): %s, ignoring",
			strerror(-r));
}

static uint64_t ending_usec(const struct spec *spec)
{
	uint64_t ms = spec->unkillable_timeout_ms + ENDING_SLACK_MS;
	size_t i;

	for (i = 0; i < spec->kill_sequence_count; i++)
		ms += spec->kill_sequence[i].wait_ms;
	return ms * 1000;
}

void service_notify_state(const struct agent *a)
{
	const char *state = agent_state_names[a->state];

	if (!notify_is_wanted())
		return;
	if (a->state == AGENT_RUNNING)
		warn(a,
			notify_send("READY=1\nSTATUS=step %s: %s, %u tasks\n", a->plan.label, state,
				a->tasks.n));
	else if (a->state == AGENT_ENDING)
		warn(a,
			notify_send("STOPPING=1\nSTATUS=step %s: %s (%s)\n"
				    "EXTEND_TIMEOUT_USEC=%llu\n",
				a->plan.label, state, agent_reason_names[a->reason],
				(unsigned long long)ending_usec(a->plan.spec)));
	else
		warn(a, notify_send("STATUS=step %s: %s\n", a->plan.label, state));
}

void service_notify_end(const struct agent *a)
{
	if (!notify_is_wanted())
		return;
	if (a->end.failure.code)
		warn(a, notify_send("STATUS=the step was not started: %s\n", a->end.failure.text));
	else
		warn(a,
			notify_send("STOPPING=1\nSTATUS=step %s: %s (%s), exit status %d\n",
				a->plan.label, agent_state_names[a->state],
				agent_reason_names[a->reason], agent_exit_code(a)));
}

/* ---- the supervisor ------------------------------------------------------------------------ */

/* A supervisor writes nothing: any bytes from it are read and dropped. */
static void supervisor_line_on_readable(struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct supervisor_line *line = w->data;
	char bytes[256];
	ssize_t n;

	assert(line);
	n = recv(line->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	ev_io_stop(loop, w);
	line->gone(line->userdata);
}

void supervisor_line_watch(
	struct supervisor_line *line, struct ev_loop *loop, supervisor_line_fn gone, void *userdata)
{
	line->loop = loop;
	line->gone = gone;
	line->userdata = userdata;
	if (line->fd < 0)
		return;
	ev_io_init(&line->io, supervisor_line_on_readable, line->fd, EV_READ);
	line->io.data = line;
	ev_io_start(loop, &line->io);
}

void supervisor_line_pause(struct supervisor_line *line, bool pause)
{
	if (line->fd < 0)
		return;
	if (pause)
		ev_io_stop(line->loop, &line->io);
	else
		ev_io_start(line->loop, &line->io);
}

/* A supervisor that is gone is not an error. 0 or -errno. */
static int supervisor_line_write(const struct supervisor_line *line, const char *text)
{
	int r = line->fd < 0 ? 0 : report_write(line->fd, text);

	return r == -EPIPE || r == -ECONNRESET ? 0 : r;
}

void supervisor_line_close(struct supervisor_line *line)
{
	if (line->loop && line->fd >= 0)
		ev_io_stop(line->loop, &line->io);
	line->fd = close_fd(line->fd);
}

/* ---- state, ready line and result ---------------------------------------------------------- */

#define RESULT_VERSION  1
#define RESULT_SIZE_MAX (64u << 20)

/* The largest size of a result, as long as no tasks join the step: every number at its longest,
 * and texts with some characters that JSON escapes. */
#define RESULT_STEP_SIZE 8192u
#define RESULT_TASK_SIZE 2560u

/* Beyond some 400 tasks no more is reserved: one user's step must not fill the runtime file
 * system of all. */
#define RESERVE_MAX (1u << 20)

const char *const agent_state_names[AGENT_STATE_MAX] = {
	[AGENT_STARTING] = "starting",
	[AGENT_RUNNING] = "running",
	[AGENT_ENDING] = "ending",
	[AGENT_DRAINING] = "draining",
	[AGENT_ENDED] = "ended",
};

const char *const agent_reason_names[AGENT_REASON_MAX] = {
	[AGENT_REASON_COMPLETED] = "completed",
	[AGENT_REASON_SIGNAL] = "signal",
	[AGENT_REASON_TIME_LIMIT] = "time-limit",
	[AGENT_REASON_BAD_EXIT] = "bad-exit",
	[AGENT_REASON_WAIT] = "wait",
	[AGENT_REASON_OOM] = "oom",
	[AGENT_REASON_EXEC] = "exec-failed",
	[AGENT_REASON_LAUNCH] = "launch-failed",
	[AGENT_REASON_ABORT] = "abort",
};

int agent_exit_code(const struct agent *a)
{
	if (a->end.unkillable)
		return STATUS_UNKILLABLE;
	switch (a->reason) {
	case AGENT_REASON_LAUNCH:
		return STATUS_FAILED;
	case AGENT_REASON_TIME_LIMIT:
		return STATUS_TIME_LIMIT;
	case AGENT_REASON_OOM:
		return STATUS_OUT_OF_MEMORY;
	case AGENT_REASON_SIGNAL:
		return STATUS_SIGNAL_BASE + a->end.signal;
	case AGENT_REASON_ABORT:
		return a->end.abort_code;
	default:
		if (a->tasks.status.code)
			return a->tasks.status.code;
		return a->tasks.lost ? STATUS_LOST : a->end.output_lost ? STATUS_OUTPUT_LOST : 0;
	}
}

/* ---- the ready line ------------------------------------------------------------------------ */

void result_drop_ready(struct agent *a)
{
	struct ready *ready = &a->ready;

	if (a->loop)
		ev_io_stop(a->loop, &ready->io);
	ready->fd = close_fd(ready->fd);
	free(ready->text);
	ready->text = NULL;
}

static void push_ready(struct agent *a, int patience_ms)
{
	struct ready *ready = &a->ready;
	ssize_t n = report_write_patiently(
		ready->fd, ready->text + ready->at, ready->size - ready->at, patience_ms);

	if (n < 0)
		log_warning(a->log, "write the ready line: %s, ignoring", strerror((int)-n));
	ready->at += n > 0 ? (size_t)n : 0;
	if (n < 0 || ready->at == ready->size)
		result_drop_ready(a);
}

static void on_ready_fd(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	assert(w->data);
	push_ready(w->data, 0);
}

static void watch_ready(struct agent *a)
{
	if (a->ready.fd < 0)
		return;
	ev_io_init(&a->ready.io, on_ready_fd, a->ready.fd, EV_WRITE);
	a->ready.io.data = a;
	ev_io_start(a->loop, &a->ready.io);
}

/* Takes the reference; returns the document's text and a newline; NULL: no memory. */
static char *make_text(json_t *doc, size_t flags)
{
	json_auto_t *owned = doc;
	_cleanup_free_ char *text = owned ? json_dumps(owned, flags) : NULL;
	char *line = NULL;

	return text && asprintf(&line, "%s\n", text) >= 0 ? line : NULL;
}

static int make_ready(struct agent *a)
{
	json_auto_t *all = agent_pack(a);

	a->ready.text = make_text(
		json_pack("{s:s, s:i, s:s, s:{s:s, s:I}, s:O}", "step", a->plan.label, "pid",
			(int)getpid(), "state", agent_state_names[a->state], "container", "plugin",
			proctrack_get_type(a->pt), "id", (json_int_t)a->plan.job.cont_id, "tasks",
			json_object_get(all, "tasks")),
		JSON_COMPACT);
	if (!a->ready.text)
		return -ENOMEM;
	a->ready.size = strlen(a->ready.text);
	return 0;
}

void result_send_ready(struct agent *a)
{
	if (a->ready.fd < 0)
		return;
	if (make_ready(a) < 0) {
		log_warning(a->log, "no memory for the ready line: it is not written");
		result_drop_ready(a);
		return;
	}
	push_ready(a, 0);
	watch_ready(a);
}

int result_restore_ready(struct agent *a, const char *text, size_t size)
{
	if (!text || a->ready.fd < 0)
		return 0;
	a->ready.text = malloc(size + 1);
	if (!a->ready.text)
		return -ENOMEM;
	memcpy(a->ready.text, text, size);
	a->ready.size = size;
	watch_ready(a);
	return 0;
}

void result_end_ready(struct agent *a)
{
	if (a->ready.text && a->reason != AGENT_REASON_SIGNAL)
		push_ready(a, REPORT_PATIENCE_MS);
	if (a->ready.text)
		log_warning(a->log, "nobody reads the ready line: it was not written");
	result_drop_ready(a);
}

/* ---- the result ---------------------------------------------------------------------------- */

int result_publish(struct agent *a, const char *state, struct err *err)
{
	json_auto_t *more = agent_pack(a);

	if (!more)
		return err_set(
			err, -ENOMEM, "write '%s/state.json'", registry_get_path(a->registry));
	return registry_publish(
		a->registry, &a->plan.job, proctrack_get_type(a->pt), state, more, err);
}

void result_publish_state(struct agent *a, const char *state)
{
	struct err err = ERR_INIT;

	if (result_publish(a, state, &err) < 0)
		log_warning(a->log, "%s, ignoring", err.text);
	frontend_state_changed(a);
}

/* given_up: the step has ended, but for the processes that could not be killed. */
static json_t *pack_task(const struct task *task, const stepd_usage_t *usage, bool given_up)
{
	char outcome[TASK_TEXT_SIZE];
	const char *text = given_up && task->state == TASK_RUNNING
		? "given up: it could not be killed"
		: task_text(task, outcome, sizeof(outcome));
	json_auto_t *doc = json_pack("{s:I, s:i, s:s, s:b}", "rank", (json_int_t)task->rank, "pid",
		(int)task->pid, "text", text, "on_request", (int)task->requested);
	int r = doc ? 0 : -1;

	if (doc && task->spawn)
		r = json_object_set_new(doc, "spawn", json_integer((json_int_t)task->spawn));
	if (r == 0 && task->state != TASK_ENDED)
		return take_ptr(doc);
	r |= json_object_set_new(
		doc, "wait_status", task->lost ? json_null() : json_integer(task->wait_status));
	r |= json_object_set_new(
		doc, "exit_code", task->lost ? json_null() : json_integer(task_exit_code(task)));
	r |= json_object_set_new(doc, "elapsed_usec",
		json_integer((json_int_t)((task->end_ns - task->start_ns) / 1000)));
	if (task->oom_counted) {
		r |= json_object_set_new(doc, "oom_killed", json_boolean(task->oom_kills > 0));
		r |= json_object_set_new(
			doc, "oom_kills", json_integer((json_int_t)task->oom_kills));
	}
	if (usage)
		r |= usage_pack(doc, usage);
	return r == 0 ? take_ptr(doc) : NULL;
}

static json_t *pack_tasks(const struct agent *a)
{
	json_auto_t *tasks = json_array();
	uint32_t i;
	int r = tasks ? 0 : -1;

	for (i = 0; r == 0 && i < a->tasks.n; i++)
		r = json_array_append_new(tasks,
			pack_task(&a->tasks.v[i],
				a->account.usage.tasks ? &a->account.usage.tasks[i] : NULL,
				a->end.unkillable));
	return r == 0 ? take_ptr(tasks) : NULL;
}

/* Each of tens of thousands of tasks may have a file. */
#define LOSSES_MAX 100

struct losses {
	json_t *array;
	uint64_t bytes;
	int r;
};

static void pack_loss(const struct sink_loss *loss, void *userdata)
{
	const char *stream = loss->stream == STDERR_FILENO ? "stderr" : "stdout";
	struct losses *losses = userdata;
	json_t *doc;

	losses->bytes += loss->bytes;
	if (losses->r < 0 || json_array_size(losses->array) == LOSSES_MAX)
		return;
	doc = json_pack("{s:o, s:s, s:I, s:s}", "file", report_json_text(loss->name), "stream",
		stream, "bytes", (json_int_t)loss->bytes, "error", strerror(loss->error));
	if (doc && loss->rank >= 0)
		losses->r |= json_object_set_new(doc, "rank", json_integer(loss->rank));
	losses->r |= json_array_append_new(losses->array, doc);
}

static int pack_losses(const struct agent *a, json_t *doc)
{
	struct losses losses = {.array = json_array()};

	if (!losses.array)
		return -1;
	if (a->stdio)
		stdio_each_loss(a->stdio, pack_loss, &losses);
	losses.r |= json_object_set_new(doc, "output_lost", json_true());
	losses.r |= json_object_set_new(
		doc, "output_lost_bytes", json_integer((json_int_t)losses.bytes));
	return losses.r | json_object_set_new(doc, "output_losses", losses.array);
}

json_t *result_pack(const struct agent *a)
{
	const stepd_step_rec_t *job = &a->plan.job;
	char name[SIGNALS_NAME_SIZE];
	json_auto_t *doc = NULL;
	int r = 0;

	doc = json_pack("{s:i, s:s, s:s, s:I, s:s, s:s, s:s, s:i, s:I, s:I, s:{s:s, s:I}, s:o}",
		"version", RESULT_VERSION, "step", a->plan.label, "node", job->node_name, "uid",
		(json_int_t)job->uid, "user", job->user_name, "state", agent_state_names[a->state],
		"reason", agent_reason_names[a->reason], "exit_code", agent_exit_code(a),
		"elapsed_usec", (json_int_t)((a->end.time_ns - a->origin.begin_ns) / 1000),
		"suspended_usec", (json_int_t)(a->suspend.total_ns / 1000), "container", "plugin",
		proctrack_get_type(a->pt), "id", (json_int_t)job->cont_id, "tasks", pack_tasks(a));
	if (!doc)
		return NULL;
	if (a->reason == AGENT_REASON_SIGNAL)
		r |= json_object_set_new(doc, "signal",
			json_string(signals_name(a->end.signal, name, sizeof(name))));
	if (a->reason == AGENT_REASON_LAUNCH)
		r |= json_object_set_new(doc, "error", report_json_text(a->end.failure.text));
	if (a->origin.recover.adopted)
		r |= json_object_set_new(doc, "adopted", json_true());
	if (a->end.output_lost)
		r |= pack_losses(a, doc);
	if (a->end.input_dropped > 0)
		r |= json_object_set_new(
			doc, "stdin_dropped_bytes", json_integer((json_int_t)a->end.input_dropped));
	if (oom_is_counted(&a->account))
		r |= json_object_set_new(doc, "oom_killed", json_boolean(a->account.oom.kills > 0));
	if (a->account.usage.enabled && a->reason != AGENT_REASON_LAUNCH)
		r |= usage_pack(doc, &a->account.usage.step);
	if (a->end.unkillable)
		r |= json_object_set_new(doc, "unkillable",
			report_json_text(a->end.unkillable_text ? a->end.unkillable_text : "?"));
	return r == 0 ? take_ptr(doc) : NULL;
}

int result_check_files(const struct agent *a, struct err *err)
{
	const struct agent_options *o = a->options;
	const struct {
		const char *option, *path;
	} files[] = {
		{"--result", o->result_file && strcmp(o->result_file, "-") ? o->result_file : NULL},
		{"--sample", o->sample_file},
		{"--trace", o->trace_file},
	};
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < ARRAY_SIZE(files); i++) {
		r = files[i].path ? report_check(files[i].path) : 0;
		if (r < 0)
			return err_set(err, r, "%s: '%s' can't be written", files[i].option,
				files[i].path);
	}
	return 0;
}

/* The first member, so that a cleaner reads only the first bytes. */
static json_t *put_keep_until(json_t *result, uint64_t until_usec)
{
	json_auto_t *doc = json_pack("{s:I}", RESULT_KEEP_UNTIL, (json_int_t)until_usec);
	json_auto_t *rest = result;

	return doc && rest && json_object_update(doc, rest) == 0 ? take_ptr(doc) : NULL;
}

int result_reserve(struct agent *a, struct err *err)
{
	size_t size = RESULT_STEP_SIZE + (size_t)a->tasks.n * RESULT_TASK_SIZE;

	if (!a->options->keep_result_ms)
		return 0;
	return registry_reserve_result(a->registry, size < RESERVE_MAX ? size : RESERVE_MAX, err);
}

int result_store(struct agent *a, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	int r;

	if (!a->options->keep_result_ms)
		return 0;
	text = make_text(put_keep_until(result_pack(a),
				 clock_wall_usec() + a->options->keep_result_ms * 1000),
		JSON_INDENT(2));
	if (!text)
		return err_set(
			err, -ENOMEM, "write '%s/result.json'", registry_get_path(a->registry));
	r = registry_store_result(a->registry, text, err);
	a->result_stored = r == 0;
	return r;
}

static int store(const char *path, const char *text)
{
	return strcmp(path, "-") == 0 ? report_write(STDOUT_FILENO, text)
				      : report_store(path, text, true);
}

bool result_forward(struct agent *a)
{
	const char *path = a->options->result_file;
	_cleanup_free_ char *text = NULL;
	int r;

	if (fs_read(registry_get_dirfd(a->registry), "result.json", RESULT_SIZE_MAX, &text, NULL) <
		0)
		return false;
	r = path ? store(path, text) : 0;
	if (r < 0)
		log_error(a->log, "write the result '%s': %s", path, strerror(-r));
	r = supervisor_line_write(&a->watch.supervisor, text);
	if (r < 0)
		log_error(a->log, "write the result to the step's supervisor: %s", strerror(-r));
	a->result_stored = true;
	return true;
}

int result_write(const struct agent *a, struct err *err)
{
	const char *path = a->options->result_file;
	_cleanup_free_ char *line = NULL;
	int r, sent;

	if (!path && a->watch.supervisor.fd < 0)
		return 0;
	line = make_text(result_pack(a), JSON_INDENT(2));
	if (!line)
		return err_set(err, -ENOMEM, "write the result");
	r = path ? store(path, line) : 0;
	sent = supervisor_line_write(&a->watch.supervisor, line);
	if (r < 0)
		return err_set(err, r, "write the result '%s'", path);
	return sent < 0 ? err_set(err, sent, "write the result to the step's supervisor") : 0;
}
