/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Calls to an agent, one after the other: by libstepd over its socket, or on another host by
 * stepctl and the launcher. The connection exists as long as there are calls.
 */
#include <assert.h>
#include <signal.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/wait.h>

#include "contrib/jobd/run/run_impl.h"
#include "stepd/base/clock.h"
#include "stepd/base/json.h"
#include "stepd/base/proc.h"

#define RETRY_S        0.05 /* more clients than its socket takes: the kernel has no event for that */
#define REMOTE_RETRY_S 0.5
#define FAILURES_MAX   6 /* each doubles the time to the next try: 64 s at most */
#define MS_PER_S       1000.0

#define STEPCTL_NOT_FOUND 1 /* an exit status */

#define WATCHED (IN_ONLYDIR | IN_CREATE | IN_MOVED_TO)

static void calls_next(struct agent *a);

/* ---- the connection ---------------------------------------------------------------------------
 */

static struct ev_loop *loop_of(const struct agent *a)
{
	return a->job->run->options.loop;
}

static void calls_disconnect(struct agent *a)
{
	struct calls *c = &a->calls;

	ev_io_stop(loop_of(a), &c->io);
	ev_timer_stop(loop_of(a), &c->timer);
	c->client = stepd_disconnect(c->client);
	c->watch_fd = close_fd(c->watch_fd);
	pidref_close(&c->command);
	c->begun_ms = 0;
}

/* The first call has an end. */
static void call_end(struct agent *a, int r, const char *why)
{
	struct call *call = a->calls.first;

	ev_timer_stop(loop_of(a), &a->calls.timer);
	a->calls.begun_ms = 0;
	a->calls.failures = 0;
	if (r < 0)
		calls_disconnect(a);
	a->calls.first = call->next;
	if (!call->next)
		a->calls.end = &a->calls.first;
	run_call_ended(a, call, r, why);
	free(call);
	calls_next(a);
}

static uint64_t ms_left(const struct calls *c)
{
	uint64_t passed = (uint64_t)clock_now_ms() - c->begun_ms;

	return passed < CALL_TIMEOUT_MS ? CALL_TIMEOUT_MS - passed : 0;
}

static void timer_start(struct agent *a, double seconds)
{
	ev_timer_stop(loop_of(a), &a->calls.timer);
	ev_timer_set(&a->calls.timer, seconds, 0.);
	ev_timer_start(loop_of(a), &a->calls.timer);
}

/* Nobody else ends a step on another host, which may only be out of reach for a time: that is tried
 * again until it has ended. */
static void call_failed(struct agent *a, int r, const char *why)
{
	struct calls *c = &a->calls;
	unsigned wait_s;

	if (!a->remote || c->first->kind != CALL_TERMINATE) {
		call_end(a, r, why);
		return;
	}
	wait_s = 1u << c->failures;
	if (c->failures < FAILURES_MAX)
		c->failures++;
	log_warning(a->job->run->options.log,
		"job %u can't be ended on node %s: %s; this is tried again in %u s", a->job->id,
		a->node->name, why, wait_s);
	if (c->command.pid > 0) /* one that hangs would be one more each time */
		(void)!pidref_signal(&c->command, SIGKILL);
	calls_disconnect(a);
	timer_start(a, wait_s);
}

static void on_timer(_unused_ struct ev_loop *loop, ev_timer *w, _unused_ int revents)
{
	struct agent *a = w->data;

	assert(a);
	if (a->calls.client || a->calls.command.pid > 0 ||
		(a->calls.begun_ms && ms_left(&a->calls) == 0))
		call_failed(a, -ETIMEDOUT, "its agent does not reply");
	else
		calls_next(a);
}

/* ---- over the socket --------------------------------------------------------------------------
 */

static void client_watch(struct agent *a)
{
	struct calls *c = &a->calls;

	ev_io_stop(loop_of(a), &c->io);
	ev_io_set(&c->io, stepd_get_fd(c->client),
		EV_READ | (stepd_wants_write(c->client) ? EV_WRITE : 0));
	ev_io_start(loop_of(a), &c->io);
}

static bool is_gone(int r)
{
	return r == -ENOENT || r == -ECONNREFUSED || r == -ECONNRESET;
}

/* Behind the first call, before the others. */
static void insert_signal(struct agent *a, int signal, pid_t pid)
{
	struct call *first = a->calls.first, *call = calloc(1, sizeof(*call));

	if (!call)
		return; /* as if it had ended before */
	*call = (struct call){
		.next = first->next, .kind = CALL_SIGNAL, .signal = signal, .pid = pid};
	if (!first->next)
		a->calls.end = &call->next;
	first->next = call;
}

/* A script's steps are where steprun started them. Its name is its user's to fake: it is their
 * process in any case. */
static void signal_stepruns(struct agent *a, const char *reply)
{
	json_auto_t *doc = json_loads(reply, 0, NULL);
	const json_t *pids = json_get_array(doc, "pids");
	struct procstat stat;
	size_t i;

	for (i = 0; i < json_array_size(pids); i++) {
		int64_t pid = json_get_int(json_array_get(pids, i), "pid", 0);

		if (pid > 0 && pid <= INT32_MAX && procstat_read((pid_t)pid, &stat) == 0 &&
			strcmp(stat.comm, "steprun") == 0)
			insert_signal(a, a->calls.first->signal, (pid_t)pid);
	}
}

static void on_reply(struct agent *a)
{
	_cleanup_free_ char *reply = NULL;
	struct stepd_error error = {0};
	bool continues = false;
	int r;

	do {
		free(reply);
		reply = NULL;
		r = stepd_next(a->calls.client, 0, &reply, &continues, &error);
		if (r == 0 && a->calls.first->kind == CALL_SIGNAL_STEPS)
			signal_stepruns(a, reply);
	} while (r == 0 && continues);
	if (r == -EAGAIN) {
		client_watch(a);
		return;
	}
	/* It ends in this moment, or is replaced by another one: its process shows which. */
	call_end(a, is_gone(r) ? -ESRCH : r, error.text);
}

/* Of SetLimits: free() it; NULL: no memory. */
static char *limits_parameters(const struct agent *a)
{
	json_auto_t *doc =
		json_pack("{s:o, s:b}", "limits", spec_make_limits(a), "best_effort", true);

	return doc ? json_dumps(doc, JSON_COMPACT) : NULL;
}

static int send_call(struct agent *a, const struct call *call, struct stepd_error *error)
{
	static const char *const methods[] = {[CALL_SIGNAL] = "Signal",
		[CALL_SIGNAL_SCRIPT] = "Signal",
		[CALL_SIGNAL_STEPS] = "ListPids",
		[CALL_SUSPEND] = "Suspend",
		[CALL_RESUME] = "Resume",
		[CALL_TERMINATE] = "Terminate",
		[CALL_LIMITS] = "SetLimits"};
	_cleanup_free_ char *limits = NULL;
	char name[SIGNALS_NAME_SIZE], parameters[96] = "{}";

	(void)signals_name(call->signal, name, sizeof(name));
	if (call->kind == CALL_SIGNAL && call->pid)
		(void)snprintf(parameters, sizeof(parameters),
			"{\"signal\":\"%s\",\"pid\":%d,\"leader\":true}", name, call->pid);
	else if (call->kind == CALL_SIGNAL)
		(void)snprintf(parameters, sizeof(parameters), "{\"signal\":\"%s\"}", name);
	else if (call->kind == CALL_SIGNAL_SCRIPT)
		(void)snprintf(parameters, sizeof(parameters),
			"{\"signal\":\"%s\",\"leader\":true}", name);
	else if (call->kind == CALL_LIMITS && !(limits = limits_parameters(a)))
		return -ENOMEM;
	return stepd_start_call(a->calls.client, methods[call->kind], limits ?: parameters,
		call->kind == CALL_SIGNAL_STEPS ? STEPD_CALL_MORE : 0, error);
}

/* ---- an agent that is starting ----------------------------------------------------------------
 * One that was found again may not listen yet. When it does it replaces a file of its step's
 * directory, its state: that comes after its socket, and is an event of the directory. */

/* The directory and the two above it, those first: one that is made in between is watched, too. */
static int watch_directory(struct calls *c, const char *directory)
{
	_cleanup_free_ char *path = strdup(directory);
	char *runtime_end = path ? strrchr(path, '/') : NULL, *parent_end = NULL;

	if (!runtime_end)
		return -ENOMEM; /* it is absolute */
	if (c->watch_fd < 0)
		c->watch_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (c->watch_fd < 0)
		return -errno;
	*runtime_end = '\0';
	parent_end = strrchr(path, '/');
	if (parent_end && parent_end > path) {
		*parent_end = '\0';
		(void)inotify_add_watch(c->watch_fd, path, WATCHED);
		*parent_end = '/';
	}
	/* a missing directory will be an event of its parent */
	if (inotify_add_watch(c->watch_fd, path, WATCHED) < 0 && errno != ENOENT)
		return -errno;
	if (inotify_add_watch(c->watch_fd, directory, WATCHED) < 0 && errno != ENOENT)
		return -errno;
	return 0;
}

static bool is_starting(int r)
{
	return r == -ENOENT || r == -ECONNREFUSED;
}

static int connect_agent(struct agent *a, struct stepd_error *error)
{
	_cleanup_free_ char *directory = agent_directory(a);
	struct calls *c = &a->calls;
	int r;

	if (c->client)
		return 0;
	if (!directory)
		return -ENOMEM;
	r = stepd_connect_directory(directory, 0, &c->client, error);
	if (!is_starting(r))
		return r;
	r = watch_directory(c, directory);
	return r < 0 ? r : stepd_connect_directory(directory, 0, &c->client, error);
}

/* The end of its process ends this, too. */
static void wait_for_agent(struct agent *a)
{
	struct calls *c = &a->calls;

	timer_start(a, (double)ms_left(c) / MS_PER_S);
	ev_io_stop(loop_of(a), &c->io);
	ev_io_set(&c->io, c->watch_fd, EV_READ);
	ev_io_start(loop_of(a), &c->io);
}

static void on_change(struct agent *a)
{
	char events[4096];

	while (read(a->calls.watch_fd, events, sizeof(events)) > 0)
		; /* whatever it was */
	calls_next(a);
}

static void begin_local(struct agent *a)
{
	struct calls *c = &a->calls;
	struct stepd_error error = {0};
	int r = connect_agent(a, &error);

	if (is_starting(r)) {
		wait_for_agent(a);
		return;
	}
	ev_io_stop(loop_of(a), &c->io);
	c->watch_fd = close_fd(c->watch_fd);
	if (r == -ETIMEDOUT) {
		timer_start(a, RETRY_S);
		return;
	}
	if (r == 0)
		r = send_call(a, c->first, &error);
	if (r < 0) {
		call_end(a, is_gone(r) ? -ESRCH : r, error.text);
		return;
	}
	timer_start(a, CALL_TIMEOUT_MS / MS_PER_S);
	client_watch(a);
}

/* ---- on another host --------------------------------------------------------------------------
 */

/* The launcher that starts an agent says nothing of when that has its step: until it has replied
 * once, a step that is not found is one that does not run yet. One that has ended ends this, too,
 * with the launcher. Of a signal it may as well be its process that is not found. */
static bool may_begin_yet(const struct agent *a, int status)
{
	switch (a->calls.first->kind) {
	case CALL_SIGNAL:
	case CALL_SIGNAL_SCRIPT:
	case CALL_SIGNAL_STEPS:
		return false;
	default:
		return status == STEPCTL_NOT_FOUND && !a->has_replied && ms_left(&a->calls) > 0;
	}
}

static void on_command(struct agent *a)
{
	siginfo_t info = {0};
	int r = waitid(P_PIDFD, (id_t)a->calls.command.fd, &info, WEXITED | WNOHANG), status = -1;

	if (r == 0 && info.si_pid == 0)
		return;
	ev_io_stop(loop_of(a), &a->calls.io);
	pidref_close(&a->calls.command);
	/* ECHILD: the loop's own handler has taken the status, which then nobody knows. */
	if (r == 0 && info.si_code == CLD_EXITED)
		status = info.si_status;
	a->has_replied |= status == 0;
	if (status == 0)
		call_end(a, 0, "");
	else if (may_begin_yet(a, status))
		timer_start(a, REMOTE_RETRY_S);
	else
		call_failed(a, -EIO, "stepctl has failed there; the node's log has its reason");
}

/* On another host there are those of memory. */
static int add_limits_argv(const struct agent *a, struct strv *argv)
{
	json_auto_t *limits = spec_make_limits(a);
	int64_t bytes = json_get_int(limits, "memory_max_bytes", 0);
	int64_t swap_bytes = json_get_int(limits, "memory_swap_max_bytes", -1);
	int r;

	if (!limits)
		return -ENOMEM;
	if (bytes == 0)
		return 0;
	r = strv_add(argv, "--limits=best-effort") |
		strv_addf(argv, "--mem=%lld", (long long)bytes);
	return swap_bytes < 0 ? r : r | strv_addf(argv, "--mem-swap=%lld", (long long)swap_bytes);
}

/* As signal_stepruns() does it here. A process that has just ended is none any more. */
static int add_steps_argv(const struct agent *a, const struct call *call, struct strv *argv)
{
	static const char script[] =
		"pids=$(\"$0\" pids \"$2\") || exit; failed=0; for pid in $pids; do "
		"[ \"$(cat \"/proc/$pid/comm\" 2>/dev/null)\" != steprun ] || "
		"\"$0\" signal --leader --pid \"$pid\" -s \"$1\" \"$2\" || "
		"[ $? = 1 ] || failed=1; done; exit $failed";
	_cleanup_free_ char *step = agent_step_name(a);
	char name[SIGNALS_NAME_SIZE];
	int r = step ? strv_add(argv, "/bin/sh") | strv_add(argv, "-c") : -ENOMEM;

	return r | strv_add(argv, script) | strv_add(argv, a->job->run->stepctl) |
		strv_add(argv, signals_name(call->signal, name, sizeof(name))) |
		(step ? strv_add(argv, step) : 0);
}

static int add_command_argv(const struct agent *a, const struct call *call, struct strv *argv)
{
	static const char *const verbs[] = {[CALL_SIGNAL] = "signal",
		[CALL_SIGNAL_SCRIPT] = "signal",
		[CALL_SIGNAL_STEPS] = "signal", /* add_steps_argv() */
		[CALL_SUSPEND] = "suspend",
		[CALL_RESUME] = "resume",
		[CALL_TERMINATE] = "terminate",
		[CALL_LIMITS] = "set-limits"};
	_cleanup_free_ char *step = agent_step_name(a);
	char name[SIGNALS_NAME_SIZE];
	int r;

	if (call->kind == CALL_SIGNAL_STEPS)
		return add_steps_argv(a, call, argv);
	r = strv_add(argv, a->job->run->stepctl) | strv_add(argv, verbs[call->kind]);
	if (call->kind == CALL_SIGNAL_SCRIPT)
		r |= strv_add(argv, "--leader");
	if (call->kind == CALL_SIGNAL || call->kind == CALL_SIGNAL_SCRIPT)
		r |= strv_add(argv, "-s") |
			strv_add(argv, signals_name(call->signal, name, sizeof(name)));
	if (call->kind == CALL_LIMITS)
		r |= add_limits_argv(a, argv);
	return step ? r | strv_add(argv, step) : -ENOMEM;
}

static void begin_remote(struct agent *a)
{
	_cleanup_strv_ struct strv command = {0}, argv = {0};
	struct calls *c = &a->calls;
	int r = add_command_argv(a, c->first, &command);

	if (r == 0)
		r = make_launcher_argv(a->job->run, a->node->name, &command, &argv);
	if (r == 0)
		r = spawn_process(&(struct spawn){.argv = argv.v,
					  .in = -1,
					  .out = STDERR_FILENO,
					  .error = STDERR_FILENO,
					  .spec = -1,
					  .ready = -1},
			&c->command);
	if (r < 0) {
		call_failed(a, r, "the launcher can't be started");
		return;
	}
	timer_start(a, CALL_TIMEOUT_MS / MS_PER_S);
	ev_io_set(&c->io, c->command.fd, EV_READ);
	ev_io_start(loop_of(a), &c->io);
}

/* ---- the queue ---------------------------------------------------------------------------------
 */

static void on_io(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct agent *a = w->data;

	assert(a);
	if (a->calls.client)
		on_reply(a);
	else if (a->calls.watch_fd >= 0)
		on_change(a);
	else
		on_command(a);
}

static void calls_next(struct agent *a)
{
	if (!a->calls.first) {
		calls_disconnect(a);
		return;
	}
	if (!a->calls.begun_ms)
		a->calls.begun_ms = (uint64_t)clock_now_ms();
	if (a->remote)
		begin_remote(a);
	else
		begin_local(a);
}

void calls_init(struct calls *c, struct agent *a)
{
	*c = (struct calls){.watch_fd = -1, .command = PIDREF_INIT};
	c->end = &c->first;
	ev_init(&c->io, on_io);
	ev_init(&c->timer, on_timer);
	c->io.data = c->timer.data = a;
}

void calls_add(struct agent *a, enum call_kind kind, int signal)
{
	struct call *call = calloc(1, sizeof(*call));

	if (!call) {
		run_call_ended(a, &(struct call){.kind = kind, .signal = signal}, -ENOMEM,
			"out of memory for a call to its agent");
		return;
	}
	call->kind = kind;
	call->signal = signal;
	*a->calls.end = call;
	a->calls.end = &call->next;
	if (a->state == AGENT_RUNNING && a->calls.first == call)
		calls_next(a);
}

void calls_begin(struct agent *a)
{
	if (a->calls.first)
		calls_next(a);
}

void calls_interrupt(struct agent *a)
{
	calls_disconnect(a);
}

void calls_end(struct agent *a)
{
	struct call *call;

	calls_disconnect(a);
	while ((call = a->calls.first)) {
		a->calls.first = call->next;
		run_call_ended(a, call, -ESRCH, "its agent is gone");
		free(call);
	}
	a->calls.end = &a->calls.first;
}

void calls_clear(struct agent *a)
{
	struct call *call;

	calls_disconnect(a);
	while ((call = a->calls.first)) {
		a->calls.first = call->next;
		free(call);
	}
}
