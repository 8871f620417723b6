/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/relay/supervisor.h"

#include <assert.h>
#include <ev.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "stepd/base/fs.h"
#include "stepd/base/pidref.h"
#include "stepd/base/status.h"
#include "stepd/base/strv.h"
#include "stepd/cli/relay/talk.h"
#include "stepd/control/buffer.h"
#include "stepd/process/process.h"

#define RESULT_MAX (64u << 20) /* bytes */
#define READY_MAX  (16u << 20)

/* Text that comes through a pipe. */
struct intake {
	struct supervisor *supervisor;
	int fd;
	ev_io io;
	struct buffer text;
	size_t most;
};

struct supervisor {
	struct ev_loop *loop;
	struct pidref agent;
	ev_io exit;
	struct intake ready, result;
	struct talk *talk;
	struct strv signals; /* that came before the step had started */
	bool started, terminated, adopts;
	char *step; /* "7.0" */
	const char *node;
	struct supervisor_start start;
	const struct supervisor_events *events;
	void *userdata;
};

/* ---- the process -------------------------------------------------------------------------- */

/* What the child needs, all made before the fork. */
struct birth {
	const struct supervisor_start *start;
	struct strv argv;
	int spec_fd, ready_fd, line_fd; /* -1: not for it */
	int error_fd;
};

static void birth_clear(struct birth *b)
{
	strv_clear(&b->argv);
	b->spec_fd = close_fd(b->spec_fd);
	b->ready_fd = close_fd(b->ready_fd);
	b->line_fd = close_fd(b->line_fd);
	b->error_fd = close_fd(b->error_fd);
}

static int keep_open(int fd)
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

static _noreturn_ void be_agent(const struct birth *b)
{
	const struct supervisor_start *s = b->start;
	sigset_t none;
	size_t i;
	int r;

	(void)sigemptyset(&none); /* can't fail with valid arguments, nor can the next two */
	process_default_signals();
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	/* A group of its own, or better a session: what a terminal sends is for the supervisor to
	 * judge. */
	process_leave_session();
	r = getpgrp() == getpid() ? 0 : setpgid(0, 0);
	if (r == 0)
		r = set_stdio(s->stdio);
	if (r == 0)
		r = keep_open(b->spec_fd) | keep_open(b->ready_fd) | keep_open(b->line_fd);
	for (i = 0; r == 0 && i < s->keep_fds_count; i++)
		r = keep_open(s->keep_fds[i]);
	if (r == 0)
		(void)execv(s->program, b->argv.v);
	r = errno;
	(void)!write(b->error_fd, &r, sizeof(r)); /* else the exit status says less */
	_exit(STATUS_FAILED);
}

static int add_fd(struct strv *argv, const char *option, int fd)
{
	return strv_addf(argv, "%s=%d", option, fd);
}

static int make_argv(struct birth *b, const struct supervisor *k)
{
	char *const *args = k->start.args;
	int r = strv_add(&b->argv, "stepd");

	if (r == 0)
		r = strv_add(&b->argv, k->adopts ? "adopt" : "serve");
	if (r == 0 && b->spec_fd >= 0)
		r = add_fd(&b->argv, "--spec-fd", b->spec_fd);
	if (r == 0 && b->ready_fd >= 0)
		r = add_fd(&b->argv, "--ready-fd", b->ready_fd);
	if (r == 0)
		r = add_fd(&b->argv, "--keeper-fd", b->line_fd);
	for (; !k->adopts && r == 0 && *args; args++)
		r = strv_add(&b->argv, *args);
	if (k->adopts && r == 0 && k->start.runtime_dir)
		r = strv_addf(&b->argv, "--runtime-dir=%s", k->start.runtime_dir);
	if (k->adopts && r == 0)
		r = strv_addf(&b->argv, "%s/%s", k->node, k->step);
	return r;
}

static int make_spec_fd(const json_t *doc, int *ret_fd, struct err *err)
{
	_cleanup_free_ char *text = json_dumps(doc, JSON_COMPACT);
	_cleanup_close_ int fd = -1;
	int r;

	if (!text)
		return err_say(err, -EILSEQ,
			"an argument or a variable is no UTF-8 text, which a step spec can't hold");
	fd = memfd_create("spec", MFD_CLOEXEC);
	r = fd < 0 ? -errno : fs_write_all(fd, text, strlen(text));
	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = -errno;
	if (r < 0)
		return err_set(err, r, "hand the step's spec to the agent");
	*ret_fd = take_fd(&fd);
	return 0;
}

static int make_pipe(struct intake *intake, int *ret_write_fd)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	intake->fd = fds[0];
	*ret_write_fd = fds[1];
	return fcntl(intake->fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

/* Through which the agent sees that its supervisor has gone, and the supervisor gets the result. */
static int make_line(struct supervisor *k, int *ret_agent_fd)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	k->result.fd = fds[0];
	*ret_agent_fd = fds[1];
	return fcntl(k->result.fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

/* Waits for the exec, which takes no time that anybody would notice. */
static int fork_agent(struct supervisor *k, struct birth *b, struct err *err)
{
	_cleanup_close_ int told_fd = -1;
	int error = 0, fds[2], r;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, -errno, "start the agent");
	told_fd = fds[0];
	b->error_fd = fds[1];
	pid = fork();
	if (pid == 0)
		be_agent(b);
	if (pid < 0)
		return err_set(err, -errno, "start the agent");
	b->error_fd = close_fd(b->error_fd);
	r = pidref_open(pid, 0, &k->agent);
	if (r < 0) {
		(void)kill(pid, SIGKILL); /* our child, not waited for: it can be no other */
		(void)waitpid(pid, NULL, 0);
		return err_set(err, r, "hold the agent");
	}
	if (read(told_fd, &error, sizeof(error)) == (ssize_t)sizeof(error)) {
		(void)waitpid(pid, NULL, 0);
		pidref_close(&k->agent);
		return err_set(err, -error, "start the agent '%s'", k->start.program);
	}
	return 0;
}

/* ---- what the agent tells ----------------------------------------------------------------- */

static void say(struct supervisor *k, const struct err *err)
{
	k->events->say(err->text, k->userdata);
}

static void on_refused(const char *why, void *userdata)
{
	struct supervisor *k = userdata;

	k->events->say(why, k->userdata);
}

static void on_step_event(const struct stepd_event *event, void *userdata)
{
	struct supervisor *k = userdata;

	k->events->event(event, k->userdata);
}

static void send_kept(struct supervisor *k)
{
	size_t i;

	for (i = 0; i < k->signals.n; i++)
		talk_signal(k->talk, k->signals.v[i]);
	strv_clear(&k->signals);
}

static void dial(struct supervisor *k)
{
	static const struct talk_events events = {.refused = on_refused, .event = on_step_event};
	_cleanup_free_ char *name = NULL;
	struct err err = ERR_INIT;
	int r;

	if (asprintf(&name, "%s/%s", k->node, k->step) < 0) {
		name = NULL;
		return;
	}
	r = talk_open(k->loop, k->start.runtime_dir, name, &events, k, &k->talk, &err);
	if (r == 0)
		send_kept(k);
	else if (r != -ENOENT && r != -ECONNREFUSED) /* it has ended already */
		say(k, &err);
}

static void on_ready_line(struct supervisor *k)
{
	json_t *doc = json_loadb(buffer_bytes(&k->ready.text), buffer_size(&k->ready.text),
		JSON_DISABLE_EOF_CHECK, NULL);
	const char *step = json_string_value(json_object_get(doc, "step"));

	if (step && !k->step)
		k->step = strdup(step);
	json_decref(doc);
	if (k->adopts)
		supervisor_terminate(k, false);
	if (!k->step || k->started)
		return;
	k->started = true;
	dial(k);
	k->events->started(k->userdata);
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
		if (n <= 0 || buffer_size(&in->text) + (size_t)n > in->most ||
			buffer_add(&in->text, bytes, (size_t)n) < 0)
			intake_close(in);
	}
}

static void on_intake(struct ev_loop *loop, ev_io *w, int revents)
{
	struct intake *in = w->data;

	assert(in);
	(void)loop;
	(void)revents;
	intake_read(in);
	if (in == &in->supervisor->ready && in->fd < 0 && buffer_size(&in->text) > 0)
		on_ready_line(in->supervisor);
}

static void intake_watch(struct intake *in, struct supervisor *k, size_t most)
{
	in->supervisor = k;
	in->most = most;
	ev_io_init(&in->io, on_intake, in->fd, EV_READ);
	in->io.data = in;
	ev_io_start(k->loop, &in->io);
}

/* ---- the end ------------------------------------------------------------------------------ */

static int begin(struct supervisor *k, struct err *err);

/* As its agent would have told: tasks run before it does. */
static int name_step(struct supervisor *k)
{
	const json_t *job = json_object_get(k->start.doc, "job");
	const json_t *step = json_object_get(k->start.doc, "step");

	if (k->step)
		return 0;
	if (!json_is_integer(job) || !json_is_integer(step) ||
		asprintf(&k->step, "%lld.%lld", (long long)json_integer_value(job),
			(long long)json_integer_value(step)) < 0) {
		k->step = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* The agent was killed, while tasks may have run: another one ends them. */
static bool take_over(struct supervisor *k)
{
	_cleanup_close_ int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct err err = ERR_INIT;
	char text[128];

	if (k->adopts || null_fd < 0 || name_step(k) < 0)
		return false;
	(void)snprintf(
		text, sizeof(text), "the agent has been killed: ending what is left of its step");
	k->events->say(text, k->userdata);
	k->adopts = k->started = true;
	k->terminated = false;
	/* The step's streams were the dead agent's; this one has words for people alone. */
	k->start.stdio[0] = k->start.stdio[1] = null_fd;
	k->start.stdio[2] = STDERR_FILENO;
	k->talk = talk_free(k->talk);
	intake_close(&k->ready);
	intake_close(&k->result);
	buffer_clear(&k->ready.text);
	buffer_clear(&k->result.text);
	if (begin(k, &err) < 0) {
		say(k, &err);
		return false;
	}
	return true;
}

static void on_exit_fd(struct ev_loop *loop, ev_io *w, int revents)
{
	struct supervisor *k = w->data;
	_cleanup_free_ char *result = NULL;
	int status = 0, code;
	bool killed, early;

	assert(k);
	(void)revents;
	if (waitpid(k->agent.pid, &status, WNOHANG) != k->agent.pid)
		return;
	ev_io_stop(loop, w);
	pidref_close(&k->agent);
	intake_read(&k->result);
	killed = WIFSIGNALED(status);
	early = killed && !k->started && k->terminated && WTERMSIG(status) != SIGKILL;
	if (killed && !early && take_over(k))
		return;
	code = killed || k->adopts ? STATUS_FAILED : WEXITSTATUS(status);
	if (early) /* by our signal: it had not begun */
		code = STATUS_SIGNAL_BASE + WTERMSIG(status);
	if (buffer_size(&k->result.text) > 0)
		result = strndup(buffer_bytes(&k->result.text), buffer_size(&k->result.text));
	k->events->ended(code, result, k->userdata);
}

/* ---- life --------------------------------------------------------------------------------- */

static int begin(struct supervisor *k, struct err *err)
{
	_cleanup_(birth_clear) struct birth b = {
		.start = &k->start, .spec_fd = -1, .ready_fd = -1, .line_fd = -1, .error_fd = -1};
	int r = k->adopts ? 0 : make_spec_fd(k->start.doc, &b.spec_fd, err);

	if (r < 0)
		return r;
	r = make_pipe(&k->ready, &b.ready_fd);
	if (r == 0)
		r = make_line(k, &b.line_fd);
	if (r == 0)
		r = make_argv(&b, k);
	if (r < 0)
		return err_set(err, r, "start the agent");
	r = fork_agent(k, &b, err);
	if (r < 0)
		return r;
	ev_io_init(&k->exit, on_exit_fd, k->agent.fd, EV_READ);
	k->exit.data = k;
	ev_io_start(k->loop, &k->exit);
	if (k->ready.fd >= 0)
		intake_watch(&k->ready, k, READY_MAX);
	if (k->result.fd >= 0)
		intake_watch(&k->result, k, RESULT_MAX);
	return 0;
}

int supervisor_new(struct ev_loop *loop, const struct supervisor_start *start,
	const struct supervisor_events *events, void *userdata, struct supervisor **ret_supervisor,
	struct err *err)
{
	struct supervisor *k = calloc(1, sizeof(*k));
	int r;

	if (!k)
		return err_set(err, -ENOMEM, "start the agent");
	k->loop = loop;
	k->agent = (struct pidref)PIDREF_INIT;
	k->ready.fd = k->result.fd = -1;
	k->ready.supervisor = k->result.supervisor = k;
	k->start = *start;
	k->node = json_string_value(json_object_get(json_object_get(start->doc, "node"), "name"));
	k->events = events;
	k->userdata = userdata;
	assert(k->node);
	r = begin(k, err);
	if (r < 0) {
		(void)supervisor_free(k); /* always NULL */
		return r;
	}
	*ret_supervisor = k;
	return 0;
}

void supervisor_signal(struct supervisor *k, const char *signal)
{
	if (k->talk)
		talk_signal(k->talk, signal);
	else if (!k->started && strv_add(&k->signals, signal) < 0)
		k->events->say("there is no memory for a signal", k->userdata);
}

/* An agent takes signals at any time. -ESRCH: it has ended by itself. */
static void signal_agent(struct supervisor *k, int signal)
{
	int r = pidref_signal(&k->agent, signal);

	if (r < 0 && r != -ESRCH)
		k->events->say("the agent can't be signalled", k->userdata);
}

void supervisor_terminate(struct supervisor *k, bool now)
{
	if (now && k->talk)
		talk_terminate(k->talk, "KILL");
	else
		signal_agent(k, now && k->terminated ? SIGINT : SIGTERM);
	k->terminated = true;
}

void supervisor_suspend(struct supervisor *k, bool on)
{
	signal_agent(k, on ? SIGTSTP : SIGCONT);
}

struct supervisor *supervisor_free(struct supervisor *k)
{
	if (!k)
		return NULL;
	k->talk = talk_free(k->talk);
	if (k->agent.fd >= 0)
		ev_io_stop(k->loop, &k->exit);
	intake_close(&k->ready);
	intake_close(&k->result);
	buffer_clear(&k->ready.text);
	buffer_clear(&k->result.text);
	pidref_close(&k->agent);
	strv_clear(&k->signals);
	free(k->step);
	free(k);
	return NULL;
}
