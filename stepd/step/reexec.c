/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/reexec.h"

#include <assert.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "mpi/mpi.h"
#include "proctrack/generic.h"
#include "proctrack/proctrack.h"
#include "stepd/account/account.h"
#include "stepd/base/clock.h"
#include "stepd/base/err.h"
#include "stepd/base/failpoint.h"
#include "stepd/base/fs.h"
#include "stepd/base/proc.h"
#include "stepd/base/strv.h"
#include "stepd/launch/hooks.h"
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
#include "stepd/step/result.h"

extern char **environ;

#define COMMAND_LINE_MAX ((size_t)64 << 20)

/* Bytes that a tried program may write. */
#define TRIAL_TEXT_MAX 65536

/* The longest trial; requests are paused for that long at most. */
#define TRIAL_LIMIT_MS 10000

/* How long a caller may take to read a reply of many pieces before the agent goes on without it.
 */
#define PATIENCE_NS 1000000000u

/* What a new program needs beside what any successor has (agent_pack()): descriptors, buffers,
 * what waits, and how far each module is. Both halves, side by side: each line of a save_...()
 * has its counterpart in a restore_...(). A module saves and restores its private state itself. */

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
	handover_put_bool(h, object, "log_crlf", a->log->crlf);
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
		.step_hooks_fd = -1,
		.supervisor_fd = handover_get_fd(object, "supervisor_fd"),
		.start_ns = (uint64_t)json_get_int(object, "start_ns", 0),
		.log = ret_log,
	};
	*ret_log = (struct log){
		.fd = handover_is_trial(h) ? -1 : handover_get_fd(object, "log_fd"),
		.most = (enum log_level)json_get_int(object, "log_most", LOG_LEVEL_INFO),
		.crlf = json_get_bool(object, "log_crlf", false),
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
	handover_put_int(h, object, "input_dropped", (int64_t)a->end.input_dropped);
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
	a->end.input_dropped = (uint64_t)json_get_int(object, "input_dropped", 0);
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

/* Saves the agent's whole state: NULL without memory. */
static struct handover *reexec_save(struct agent *a)
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
	if (r == 0 && a->stdio)
		a->plan.job.holder_pid = stdio_get_holder(a->stdio);
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

/* ---- which program ------------------------------------------------------------------------- */

/* A script would be executed by another program than the one that is checked here. */
static int check_kind(int fd, const char *path, struct err *err)
{
	char magic[4];
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(err, -errno, "read '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set_text(err, -EACCES, "'%s' is not a regular file", path);
	if (pread(fd, magic, sizeof(magic), 0) != (ssize_t)sizeof(magic) ||
		memcmp(magic, "\177ELF", sizeof(magic)) != 0)
		return err_set_text(
			err, -ENOEXEC, "'%s' is not a program of this machine (a script?)", path);
	return 0;
}

/* As root: a user who can change it must not gain privileges. */
static int check_trusted(int fd, const char *path, struct err *err)
{
	return geteuid() == 0 ? fs_check_file(fd, path, err) : 0;
}

/* Opens the program and checks that it is one, and as root that nobody else could have changed it:
 * a descriptor, or -errno. */
static int open_program(const char *path, struct err *err)
{
	_cleanup_close_ int low = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	_cleanup_close_ int fd = -1;
	int r;

	if (low < 0)
		return err_set(err, -errno, "open '%s'", path);
	fd = fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (fd < 0)
		return err_set(err, -errno, "open '%s'", path);
	r = check_kind(fd, path, err);
	if (r == 0)
		r = check_trusted(fd, path, err);
	if (r == 0 && faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0)
		r = err_set(err, -errno, "execute '%s'", path);
	return r < 0 ? r : take_fd(&fd);
}

/* ---- executing it -------------------------------------------------------------------------- */

/* This process's arguments, without "continue FD" of an earlier upgrade. */
static int add_own_arguments(struct strv *argv, const char *text, size_t size)
{
	const char *end = text + size, *p;
	size_t i = 0, skip = 1;
	int r = 0;

	for (p = text; r == 0 && p < end; p += strlen(p) + 1, i++) {
		if (i == 1 && strcmp(p, "continue") == 0)
			skip = 3;
		if (i >= skip)
			r = strv_add(argv, p);
	}
	return r;
}

static int make_arguments(struct strv *argv, int handover_fd, bool check)
{
	_cleanup_free_ char *text = NULL;
	char number[16];
	size_t size = 0;
	int r;

	(void)snprintf(number, sizeof(number), "%d", handover_fd);
	r = fs_read(AT_FDCWD, "/proc/self/cmdline", COMMAND_LINE_MAX, &text, &size);
	if (r == 0)
		r = strv_add(argv, size > 0 ? text : "stepd");
	if (r == 0)
		r = strv_add(argv, "continue");
	if (r == 0 && check)
		r = strv_add(argv, "--check");
	if (r == 0)
		r = strv_add(argv, number);
	return r < 0 || check ? r : add_own_arguments(argv, text, size);
}

/* Executes the program of program_fd with "continue FD" and this one's arguments, or with
 * "continue --check FD". Returns -errno. */
static int execute_program(int program_fd, int handover_fd, bool check, struct err *err)
{
	_cleanup_strv_ struct strv argv = {0};
	int r = make_arguments(&argv, handover_fd, check);

	if (r < 0)
		return err_set(err, r, "make the new program's arguments");
	(void)execveat(program_fd, "", argv.v, environ, AT_EMPTY_PATH);
	return err_set(err, -errno, "execute the new program");
}

/* ---- trying it ----------------------------------------------------------------------------- */

/* Its output is its reply, or the error, such as a missing library. */
_noreturn_ static void be_trial(int program_fd, int handover_fd, int answer_fd, pid_t parent)
{
	struct err err = ERR_INIT;
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent || null_fd < 0 ||
		dup2(null_fd, STDIN_FILENO) < 0 || dup2(answer_fd, STDOUT_FILENO) < 0 ||
		dup2(answer_fd, STDERR_FILENO) < 0)
		_exit(1);
	(void)execute_program(program_fd, handover_fd, true, &err);
	(void)dprintf(STDERR_FILENO, "%s\n", err.text);
	_exit(1);
}

static int judge(int status, char *text, struct err *err)
{
	const char *line = text[0] && text[0] != '\n' ? text : "no output";

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
		strncmp(text, REEXEC_CHECKED, strlen(REEXEC_CHECKED)) == 0)
		return 0;
	text[strcspn(text, "\n")] = '\0';
	if (WIFSIGNALED(status))
		return err_set_text(err, -ENOEXEC, "tried, it was killed by signal %d: %s",
			WTERMSIG(status), line);
	return err_set_text(
		err, -ENOEXEC, "tried, it ended with status %d: %s", WEXITSTATUS(status), line);
}

/* In a worker: tries the program in a child. */
static int try_program(int program_fd, int handover_fd, const struct handover *h, struct err *err)
{
	_cleanup_close_ int read_end = -1;
	_cleanup_free_ char *text = NULL;
	pid_t self = getpid(), pid;
	int ends[2], status = 0, r;

	r = handover_set_inherited(h, true); /* in this worker only */
	if (r == 0 && fcntl(handover_fd, F_SETFD, 0) < 0)
		r = -errno;
	if (r == 0 && pipe2(ends, O_CLOEXEC) < 0)
		r = -errno;
	if (r < 0)
		return err_set(err, r, "try the new program");
	pid = fork();
	if (pid == 0)
		be_trial(program_fd, handover_fd, ends[1], self);
	read_end = ends[0];
	(void)close_fd(ends[1]);
	if (pid < 0)
		return err_set(err, -errno, "try the new program");
	r = fs_read_fd(read_end, TRIAL_TEXT_MAX, &text, NULL);
	read_end = close_fd(read_end); /* SIGPIPE ends one that writes more */
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return r < 0 ? err_set(err, r, "try the new program") : judge(status, text, err);
}

/* ---- the upgrade --------------------------------------------------------------------------- */

static bool same_file(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The name that was executed, as long as it leads to this file: a link to the version in use can
 * be changed later. Else the file's own. */
static int find_program(char **ret_path)
{
	const char *name = (const char *)getauxval(AT_EXECFN);
	char real[PATH_MAX];
	ssize_t n;

	if (!name || name[0] != '/' || strncmp(name, "/dev/fd/", strlen("/dev/fd/")) == 0 ||
		!same_file(name, "/proc/self/exe")) {
		n = readlink("/proc/self/exe", real, sizeof(real) - 1);
		if (n < 0)
			return 0; /* no /proc: reported on a request */
		real[n] = '\0';
		name = real;
	}
	*ret_path = strdup(name);
	return *ret_path ? 0 : -ENOMEM;
}

/* ---- the end of it that is not wanted ------------------------------------------------------ */

static void drop_trial(struct reexec *re)
{
	re->trial = handover_free(re->trial);
	re->trial_fd = close_fd(re->trial_fd);
}

/* The agent goes on unchanged. */
static void reexec_give_up(struct agent *a, const struct err *err)
{
	struct reexec *re = &a->reexec;

	log_error(a->log, "no upgrade, the agent goes on as it was: %s", err->text);
	re->wanted = re->trying = false;
	ev_timer_stop(a->loop, &re->due);
	drop_trial(re);
	re->program_fd = close_fd(re->program_fd);
	requests_rest(&a->requests, false);
	frontend_not_reexeced(a, err);
	join_go_on(a);
}

/* ---- the change ---------------------------------------------------------------------------- */

/* From here on signals are pending: in the new program they have no handlers yet. */
static int change(struct agent *a, const struct handover *h, struct err *err)
{
	_cleanup_close_ int fd = handover_finish((struct handover *)h, err);
	sigset_t all, saved;
	int r;

	if (fd < 0)
		return fd;
	(void)sigfillset(&all); /* can't fail, nor can the calls with valid arguments */
	(void)sigprocmask(SIG_SETMASK, &all, &saved);
	r = handover_set_inherited(h, true);
	if (r == 0 && fcntl(fd, F_SETFD, 0) < 0)
		r = -errno;
	if (r == 0)
		r = execute_program(a->reexec.program_fd, fd, false, err);
	else
		(void)err_set(err, r, "hold descriptors for the new program");
	(void)!handover_set_inherited(h, false); /* can't fail where setting it succeeded */
	(void)sigprocmask(SIG_SETMASK, &saved, NULL);
	return r;
}

static void become_due(struct agent *a, double sec)
{
	ev_timer_stop(a->loop, &a->reexec.due);
	ev_now_update(a->loop);
	ev_timer_set(&a->reexec.due, sec, 0.);
	ev_timer_start(a->loop, &a->reexec.due);
}

void reexec_answered(struct agent *a)
{
	if (ev_is_active(&a->reexec.due))
		become_due(a, 0.);
}

static void on_due(_unused_ struct ev_loop *loop, ev_timer *w, _unused_ int revents)
{
	_cleanup_handover_ struct handover *h = NULL;
	struct agent *a = w->data;
	struct err err = ERR_INIT;

	assert(a);
	if (a->state >= AGENT_ENDED)
		return;
	a->reexec.requested_ns = clock_now_ns();
	if (frontend_is_answering(a) && a->reexec.requested_ns < a->reexec.patience_ns) {
		become_due(a, (double)(a->reexec.patience_ns - a->reexec.requested_ns) / 1e9);
		return;
	}
	h = reexec_save(a);
	if (!h)
		(void)err_set(&err, -ENOMEM, "save the agent's state");
	else
		(void)!change(a, h, &err); /* returns only on failure */
	reexec_give_up(a, &err);
}

static void on_tried(int r, const struct err *err, void *userdata)
{
	struct agent *a = userdata;
	struct err why = *err;

	assert(a);
	a->reexec.trying = false;
	drop_trial(&a->reexec);
	if (r < 0) {
		(void)err_prefix(&why, "'%s'", a->reexec.program);
		reexec_give_up(a, &why);
		return;
	}
	/* After all other events of this turn of the loop: an expired timer whose callback is
	 * still due could not be saved. */
	a->reexec.patience_ns = clock_now_ns() + PATIENCE_NS;
	become_due(a, 0.);
}

/* ---- the trial ----------------------------------------------------------------------------- */

static int try_it(void *userdata, struct err *err)
{
	const struct reexec *re = userdata;

	return try_program(re->program_fd, re->trial_fd, re->trial, err);
}

static int begin_trial(struct agent *a, struct err *err)
{
	struct reexec *re = &a->reexec;
	int r;

	if (!re->program)
		return err_set_text(err, -ENOENT,
			"can't find out the path of this program (/proc/self/exe); is /proc mounted?");
	if (a->hooks) /* which keep their state in this program's memory */
		return err_set_text(err, -EOPNOTSUPP,
			"the step has hooks of '%s', which a new program could not continue",
			hooks_get_library(a->hooks));
	r = open_program(re->program, err);
	if (r < 0)
		return r;
	re->program_fd = r;
	re->trial = reexec_save(a);
	if (!re->trial)
		return err_set(err, -ENOMEM, "save the agent's state");
	r = handover_finish(re->trial, err);
	if (r < 0)
		return r;
	re->trial_fd = r;
	r = worker_start(&re->worker, try_it, re, TRIAL_LIMIT_MS);
	return r < 0 ? err_set(err, r, "try the new program") : 0;
}

void reexec_go_on(struct agent *a)
{
	struct reexec *re = &a->reexec;
	struct err err = ERR_INIT;

	if (!re->wanted || re->trying || ev_is_active(&re->due) || a->state < AGENT_RUNNING ||
		a->state >= AGENT_ENDED || requests_is_busy(&a->requests) || a->start.joins.now)
		return;
	re->trying = true;
	if (begin_trial(a, &err) < 0)
		reexec_give_up(a, &err);
}

void reexec_request(struct agent *a)
{
	if (a->reexec.wanted)
		return; /* one upgrade serves all requests */
	a->reexec.wanted = true;
	requests_rest(&a->requests, true);
	reexec_go_on(a);
}

/* ---- life ---------------------------------------------------------------------------------- */

int reexec_init(struct agent *a, struct err *err)
{
	struct reexec *re = &a->reexec;
	int r = re->program ? 0 : find_program(&re->program);

	if (r == 0)
		r = worker_init(&re->worker, a->loop, &a->plan.job, on_tried, a);
	if (r < 0)
		return err_set(err, r, "prepare upgrades");
	ev_init(&re->due, on_due);
	ev_set_priority(&re->due, EV_MINPRI);
	re->due.data = a;
	return 0;
}

void reexec_clear(struct agent *a)
{
	struct reexec *re = &a->reexec;

	if (a->loop)
		ev_timer_stop(a->loop, &re->due);
	worker_clear(&re->worker);
	drop_trial(re);
	re->program_fd = close_fd(re->program_fd);
	free(re->program);
	re->program = NULL;
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
	agent_settle(a);
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
