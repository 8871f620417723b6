/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/relay/supervisor.h"

#include <assert.h>
#include <ev.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "stepd/api/client.h"
#include "stepd/base/buffer.h"
#include "stepd/base/fs.h"
#include "stepd/base/json.h"
#include "stepd/base/proc.h"
#include "stepd/base/strv.h"
#include "stepd/process/process.h"

#define RESULT_MAX (64u << 20) /* bytes */
#define READY_MAX  (16u << 20)

/* A document that the agent writes. */
struct intake {
	struct supervisor *supervisor;
	int fd;
	ev_io io;
	struct buffer text;
	size_t max;
};

/* A connection of libstepd's, watched by the loop. */
struct connection {
	struct supervisor *supervisor;
	struct stepd_client *client; /* NULL: closed */
	ev_io io;
};

struct supervisor {
	struct ev_loop *loop;
	struct pidref agent;
	ev_io exit;
	struct intake ready, result;
	struct connection calls, follow;
	json_t *requests; /* [method, parameters]; once connected the first has been sent */
	bool started, terminated, adopts;
	char *step; /* "node/7.0" */
	struct supervisor_start start;
	const struct supervisor_events *events;
	void *userdata;
};

static void supervisor_report(struct supervisor *k, const char *text)
{
	k->events->report(text, k->userdata);
}

/* ---- requests to the agent ----------------------------------------------------------------- */

static void connection_watch(struct connection *c)
{
	ev_io_stop(c->supervisor->loop, &c->io);
	ev_io_set(&c->io, stepd_get_fd(c->client),
		EV_READ | (stepd_wants_write(c->client) ? EV_WRITE : 0));
	ev_io_start(c->supervisor->loop, &c->io);
}

static void connection_close(struct connection *c)
{
	if (!c->client)
		return;
	ev_io_stop(c->supervisor->loop, &c->io);
	c->client = stepd_disconnect(c->client);
}

static void request_send_next(struct supervisor *k)
{
	struct stepd_error error;
	const json_t *next;

	while (k->calls.client && (next = json_array_get(k->requests, 0))) {
		_cleanup_free_ char *parameters = json_dumps(json_array_get(next, 1), 0);

		if (stepd_start_call(k->calls.client, json_string_value(json_array_get(next, 0)),
			    parameters, 0, &error) == 0) {
			connection_watch(&k->calls);
			return;
		}
		supervisor_report(k, error.text);
		(void)json_array_remove(k->requests, 0); /* it is there */
	}
}

/* One after the other: a connection has one call at a time. */
static void request(struct supervisor *k, const char *method, const char *name, const char *value)
{
	if (json_array_append_new(k->requests, json_pack("[s, {s:s}]", method, name, value)) < 0)
		supervisor_report(k, "there is no memory for a request to the agent");
	else if (json_array_size(k->requests) == 1)
		request_send_next(k);
}

static void on_reply(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct supervisor *k = w->data;
	_cleanup_free_ char *reply = NULL;
	struct stepd_error error;
	bool continues;
	int r;

	assert(k);
	r = stepd_next(k->calls.client, 0, &reply, &continues, &error);
	if (r == -EAGAIN) {
		connection_watch(&k->calls);
		return;
	}
	(void)json_array_remove(k->requests, 0); /* without the agent there may be none */
	if (r < 0 && *error.name)
		supervisor_report(k, error.text);
	else if (r < 0)
		connection_close(&k->calls); /* the agent is gone: on_exit_fd() follows */
	request_send_next(k);
}

static void supervisor_on_event(struct supervisor *k, const struct stepd_event *event)
{
	bool suspend = strcmp(event->kind, "suspend") == 0;

	if (strcmp(event->kind, "task_exit") == 0 && event->rank >= 0)
		k->events->task_ended((uint32_t)event->rank, (int)event->wait_status, k->userdata);
	else if (k->events->out_of_memory && strcmp(event->kind, "oom") == 0 && event->rank >= 0 &&
		event->count > 0)
		k->events->out_of_memory(
			(uint32_t)event->rank, (uint64_t)event->count, k->userdata);
	else if (k->events->suspended && (suspend || strcmp(event->kind, "resume") == 0))
		k->events->suspended(suspend, k->userdata);
}

static void on_event(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct supervisor *k = w->data;
	struct stepd_error error;
	struct stepd_event event;
	int r;

	assert(k);
	while ((r = stepd_next_event(k->follow.client, 0, &event, &error)) > 0) {
		supervisor_on_event(k, &event);
	}
	if (r == -EAGAIN)
		connection_watch(&k->follow);
	else
		connection_close(&k->follow);
}

static int connection_open(struct connection *c, struct supervisor *k,
	void (*on_io)(struct ev_loop *, ev_io *, int), struct stepd_error *error)
{
	int r = stepd_connect(k->start.runtime_dir, k->step, 0, &c->client, error);

	if (r < 0)
		return r;
	c->supervisor = k;
	ev_init(&c->io, on_io);
	c->io.data = k;
	connection_watch(c);
	return 0;
}

static void disconnect(struct supervisor *k)
{
	connection_close(&k->calls);
	connection_close(&k->follow);
	(void)json_array_clear(k->requests); /* it is an array */
}

static void connect_agent(struct supervisor *k)
{
	struct stepd_error error;
	int r = connection_open(&k->calls, k, on_reply, &error);

	if (r == 0)
		r = connection_open(&k->follow, k, on_event, &error);
	if (r == 0)
		r = stepd_follow(k->follow.client, 1, &error);
	if (r == 0) {
		connection_watch(&k->follow);
		request_send_next(k);
		return;
	}
	disconnect(k);
	if (r != -ENOENT && r != -ECONNREFUSED && r != -ECONNRESET) /* it has ended already */
		supervisor_report(k, error.text);
}

/* ---- the process --------------------------------------------------------------------------- */

/* The input of the child, all made before the fork. */
struct child {
	const struct supervisor_start *start;
	struct strv argv;
	int spec_fd, ready_fd, supervisor_fd; /* -1: it does not get one */
};

static void child_clear(struct child *c)
{
	strv_clear(&c->argv);
	c->spec_fd = close_fd(c->spec_fd);
	c->ready_fd = close_fd(c->ready_fd);
	c->supervisor_fd = close_fd(c->supervisor_fd);
}

static int leave_open(int fd)
{
	return fd < 0 ? 0 : fcntl(fd, F_SETFD, 0);
}

static int set_stdio(const int stdio[3])
{
	int i;

	for (i = 0; i < 3; i++) {
		if (stdio[i] != i && dup2(stdio[i], i) < 0)
			return -1;
	}
	return 0;
}

static int execute_agent(void *userdata)
{
	const struct child *c = userdata;
	const struct supervisor_start *s = c->start;
	size_t i;
	int r;

	/* A session of its own, else a process group: the supervisor handles the terminal's
	 * signals. */
	process_leave_session();
	r = getpgrp() == getpid() ? 0 : setpgid(0, 0);
	if (r == 0)
		r = set_stdio(s->stdio);
	if (r == 0)
		r = leave_open(c->spec_fd) | leave_open(c->ready_fd) | leave_open(c->supervisor_fd);
	for (i = 0; r == 0 && i < s->extra_fds_count; i++)
		r = leave_open(s->extra_fds[i]);
	if (r == 0)
		(void)execv(s->program, c->argv.v);
	return -errno;
}

/* 0 or -ENOMEM, as all that adds to it. */
static int make_argv(struct child *c, const struct supervisor *k)
{
	int r = strv_add(&c->argv, "stepd");

	r |= strv_add(&c->argv, k->adopts ? "adopt" : "serve");
	r |= strv_addf(&c->argv, "--ready-fd=%d", c->ready_fd);
	r |= strv_addf(&c->argv, "--supervisor-fd=%d", c->supervisor_fd);
	if (!k->adopts) {
		r |= strv_addf(&c->argv, "--spec-fd=%d", c->spec_fd);
		return r | strv_extend(&c->argv, k->start.args);
	}
	if (k->start.runtime_dir)
		r |= strv_addf(&c->argv, "--runtime-dir=%s", k->start.runtime_dir);
	return r | strv_add(&c->argv, k->step);
}

static int make_spec_fd(const json_t *doc, int *ret_fd, struct err *err)
{
	_cleanup_free_ char *text = json_dumps(doc, JSON_COMPACT);

	if (!text)
		return err_set_text(err, -EILSEQ,
			"an argument or a variable is not UTF-8 text, which a step spec can't hold");
	*ret_fd = fs_memory("spec", text, strlen(text));
	return *ret_fd < 0 ? err_set(err, *ret_fd, "send the step's spec to the agent") : 0;
}

/* A pipe for the agent's "ready", and the socket by which it sees that its supervisor has gone, and
 * the supervisor gets the result. */
static int make_channels(struct supervisor *k, struct child *c)
{
	int fds[2], r = stdfd_pipe(true, fds);

	if (r < 0)
		return r;
	k->ready.fd = fds[0];
	c->ready_fd = fds[1];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	k->result.fd = fds[0];
	c->supervisor_fd = fds[1];
	return stdfd_set_nonblock(k->result.fd, true);
}

/* ---- the agent's documents ----------------------------------------------------------------- */

static void report_ready(struct supervisor *k)
{
	json_auto_t *line = NULL;

	if (!k->events->ready)
		return;
	line = json_loadb(buffer_bytes(&k->ready.text), buffer_size(&k->ready.text), 0, NULL);
	if (!line)
		supervisor_report(k, "the agent's ready line can't be read");
	k->events->ready(line, k->userdata);
}

static void on_ready(struct supervisor *k)
{
	if (k->adopts) {
		supervisor_terminate(k, false);
		return;
	}
	report_ready(k); /* signals that it sends wait for the connection */
	k->started = true;
	connect_agent(k);
}

static void intake_close(struct intake *in)
{
	if (in->fd >= 0)
		ev_io_stop(in->supervisor->loop, &in->io);
	in->fd = close_fd(in->fd);
}

static void intake_read(struct intake *in)
{
	char bytes[16384];
	ssize_t n;

	while (in->fd >= 0) {
		n = read(in->fd, bytes, sizeof(bytes));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0 || buffer_size(&in->text) + (size_t)n > in->max ||
			buffer_add(&in->text, bytes, (size_t)n) < 0)
			intake_close(in);
	}
}

static void on_intake(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct intake *in = w->data;

	assert(in);
	intake_read(in);
	if (in == &in->supervisor->ready && in->fd < 0 && buffer_size(&in->text) > 0)
		on_ready(in->supervisor);
}

static void intake_watch(struct intake *in, struct supervisor *k, size_t max)
{
	in->supervisor = k;
	in->max = max;
	ev_io_init(&in->io, on_intake, in->fd, EV_READ);
	in->io.data = in;
	ev_io_start(k->loop, &in->io);
}

/* ---- the end ------------------------------------------------------------------------------- */

static int start_agent(struct supervisor *k, struct err *err);

static void close_agent(struct supervisor *k)
{
	disconnect(k);
	intake_close(&k->ready);
	intake_close(&k->result);
	buffer_clear(&k->ready.text);
	buffer_clear(&k->result.text);
}

/* The agent was killed, and tasks may run: another agent ends them. */
static bool supervisor_take_over(struct supervisor *k)
{
	_cleanup_close_ int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct err err = ERR_INIT;

	if (k->adopts || null_fd < 0)
		return false;
	supervisor_report(k, "the agent has been killed: ending what is left of its step");
	k->adopts = k->started = true;
	k->terminated = false;
	/* The step's streams and descriptors are lost with the dead agent; this one only logs. */
	k->start.stdio[0] = k->start.stdio[1] = null_fd;
	k->start.stdio[2] = STDERR_FILENO;
	k->start.extra_fds_count = 0;
	close_agent(k);
	if (start_agent(k, &err) < 0) {
		supervisor_report(k, err.text);
		return false;
	}
	return true;
}

/* The agent has ended: what it has written before is all there. */
static void take_ready(struct supervisor *k)
{
	intake_read(&k->ready);
	if (buffer_size(&k->ready.text) == 0)
		return;
	k->started = true;
	report_ready(k);
}

static void on_exit_fd(struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct supervisor *k = w->data;
	_cleanup_free_ char *result = NULL;
	int status = 0, code;
	bool killed, early;

	assert(k);
	if (waitpid(k->agent.pid, &status, WNOHANG) != k->agent.pid)
		return;
	ev_io_stop(loop, w);
	pidref_close(&k->agent);
	intake_read(&k->result);
	if (!k->started && !k->adopts)
		take_ready(k); /* a short step's may come with its end */
	killed = WIFSIGNALED(status);
	early = killed && !k->started && k->terminated && WTERMSIG(status) != SIGKILL;
	if (killed && !early && supervisor_take_over(k))
		return;
	code = killed || k->adopts ? STATUS_FAILED : WEXITSTATUS(status);
	if (early) /* ended by our signal: it had not begun */
		code = STATUS_SIGNAL_BASE + WTERMSIG(status);
	if (buffer_size(&k->result.text) > 0)
		result = strndup(buffer_bytes(&k->result.text), buffer_size(&k->result.text));
	k->events->ended(code, result, k->userdata);
}

/* ---- life ---------------------------------------------------------------------------------- */

static int start_agent(struct supervisor *k, struct err *err)
{
	_cleanup_(child_clear) struct child c = {
		.start = &k->start, .spec_fd = -1, .ready_fd = -1, .supervisor_fd = -1};
	int r = k->adopts ? 0 : make_spec_fd(k->start.doc, &c.spec_fd, err);

	if (r < 0)
		return r;
	r = make_channels(k, &c);
	if (r == 0)
		r = make_argv(&c, k);
	if (r == 0)
		r = process_execute(execute_agent, &c, &k->agent);
	if (r < 0)
		return err_set(err, r, "start the agent '%s'", k->start.program);
	ev_io_init(&k->exit, on_exit_fd, k->agent.fd, EV_READ);
	k->exit.data = k;
	ev_io_start(k->loop, &k->exit);
	intake_watch(&k->ready, k, READY_MAX);
	intake_watch(&k->result, k, RESULT_MAX);
	return 0;
}

/* NULL: no memory. */
static char *name_step(const json_t *doc)
{
	const char *node = json_get_text(json_object_get(doc, "node"), "name", NULL);
	const char *kind = json_get_text(doc, "kind", "normal");
	long long job = (long long)json_get_int(doc, "job", 0);
	char *name = NULL;
	int n;

	assert(node);
	if (strcmp(kind, "normal") == 0)
		n = asprintf(
			&name, "%s/%lld.%lld", node, job, (long long)json_get_int(doc, "step", 0));
	else
		n = asprintf(&name, "%s/%lld.%s", node, job, kind); /* its name has no number */
	return n < 0 ? NULL : name;
}

int supervisor_new(struct ev_loop *loop, const struct supervisor_start *start,
	const struct supervisor_events *events, void *userdata, struct supervisor **ret_supervisor,
	struct err *err)
{
	struct supervisor *k = calloc(1, sizeof(*k));
	int r;

	if (!k)
		return err_set(err, -ENOMEM, "start the agent");
	*k = (struct supervisor){.loop = loop,
		.agent = PIDREF_INIT,
		.ready = {.fd = -1, .supervisor = k},
		.result = {.fd = -1, .supervisor = k},
		.requests = json_array(),
		.step = name_step(start->doc),
		.start = *start,
		.events = events,
		.userdata = userdata};
	r = k->requests && k->step ? start_agent(k, err) : err_set(err, -ENOMEM, "start the agent");
	if (r < 0) {
		(void)supervisor_free(k); /* always NULL */
		return r;
	}
	k->start.doc = NULL; /* the caller may free it: an adopter reads the step's own */
	*ret_supervisor = k;
	return 0;
}

void supervisor_signal(struct supervisor *k, const char *signal)
{
	if (k->calls.client || !k->started)
		request(k, "Signal", "signal", signal);
}

/* An agent handles signals at any time. -ESRCH: it has ended by itself. */
static void signal_agent(struct supervisor *k, int signal)
{
	int r = pidref_signal(&k->agent, signal);

	if (r < 0 && r != -ESRCH)
		supervisor_report(k, "the agent can't be signalled");
}

void supervisor_terminate(struct supervisor *k, bool now)
{
	if (now && k->calls.client)
		request(k, "Terminate", "kill_sequence", "KILL");
	else
		signal_agent(k, now && k->terminated ? SIGINT : SIGTERM);
	k->terminated = true;
}

void supervisor_suspend(struct supervisor *k, bool on)
{
	signal_agent(k, on ? SIGTSTP : SIGCONT);
}

void supervisor_resize(struct supervisor *k)
{
	signal_agent(k, SIGWINCH);
}

struct supervisor *supervisor_free(struct supervisor *k)
{
	if (!k)
		return NULL;
	if (k->agent.fd >= 0)
		ev_io_stop(k->loop, &k->exit);
	close_agent(k);
	pidref_close(&k->agent);
	json_decref(k->requests);
	free(k->step);
	free(k);
	return NULL;
}
