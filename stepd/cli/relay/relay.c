/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepd relay: steprun's hand on a node. It says hello, gets the step's document, starts the agent
 * and carries its streams, its events and its end; channel.h has the lines. If the channel hangs
 * up, the step is ended by its kill sequence.
 *
 * To steprun:    hello WORDS   version=N node=NAME port=N addr=ADDRESS/PREFIX...
 *                started       tasks run
 *                out, err      bytes of the step's streams
 *                ack N         so many bytes of standard input were taken
 *                closed        the step reads no standard input any more
 *                task RANK WAIT_STATUS
 *                say           bytes: a sentence for people
 *                result        bytes of the result, a JSON document
 *                end STATUS    the agent's exit status; the last line
 * From steprun:  doc           bytes of the document, for all (relay_doc.h)
 *                go NODE NAME  the document is whole; start as this node
 *                in, eof       bytes of standard input, and its end
 *                signal NAME, terminate, kill, suspend, resume
 *                close out|err nobody takes this stream any more
 */
#include <assert.h>
#include <ev.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

#include "stepd/api/client.h"
#include "stepd/base/log.h"
#include "stepd/base/parse.h"
#include "stepd/base/status.h"
#include "stepd/cli/cli.h"
#include "stepd/cli/relay/address.h"
#include "stepd/cli/relay/channel.h"
#include "stepd/cli/relay/options.h"
#include "stepd/cli/relay/relay_doc.h"
#include "stepd/cli/relay/streams.h"
#include "stepd/cli/relay/supervisor.h"
#include "stepd/control/buffer.h"
#include "stepd/process/process.h"

#define DOC_MOST (96u << 20)

struct relay {
	struct relay_options options; /* node: of "go", once that has come */
	struct carrier carrier;
	struct log log;
	int listen_fd, signal_fd;
	uint16_t port;
	ev_io signals;
	struct buffer doc_text;
	struct relay_doc doc;
	struct supervisor *supervisor;
	struct outlet out, err;
	struct inlet in;
	bool gone;  /* steprun is */
	bool ended; /* the last line is written */
};

/* ---- the agent ---------------------------------------------------------------------------- */

static void tell(struct relay *y, const char *text)
{
	size_t size = strlen(text);

	if (y->gone)
		log_error(&y->log, "%s", text);
	else
		channel_send_bytes(y->carrier.channel, y->carrier.index, "say", text,
			size < CHANNEL_PIECE_MAX ? size : CHANNEL_PIECE_MAX);
}

/* The last line; the loop ends when it is out. */
static void end(struct relay *y, int code)
{
	if (y->gone) {
		ev_break(y->carrier.loop, EVBREAK_ALL);
		return;
	}
	y->ended = true;
	channel_sendf(y->carrier.channel, y->carrier.index, "end", "%d", code);
	channel_finish(y->carrier.channel);
}

static void on_started(void *userdata)
{
	struct relay *y = userdata;

	channel_send(y->carrier.channel, y->carrier.index, "started", "");
}

static void on_event(const struct stepd_event *event, void *userdata)
{
	struct relay *y = userdata;

	if (strcmp(event->kind, "task_exit") == 0 && event->rank >= 0)
		channel_sendf(y->carrier.channel, y->carrier.index, "task", "%lld %lld",
			(long long)event->rank, (long long)event->wait_status);
}

static void on_say(const char *text, void *userdata)
{
	tell(userdata, text);
}

static void on_ended(int exit_code, const char *result, void *userdata)
{
	struct relay *y = userdata;

	y->supervisor = supervisor_free(y->supervisor);
	outlet_drain(&y->out);
	outlet_drain(&y->err);
	inlet_close(&y->in);
	if (result)
		channel_send_bytes(
			y->carrier.channel, y->carrier.index, "result", result, strlen(result));
	end(y, exit_code);
}

struct ends {
	int fd[3];
};

static void ends_clear(struct ends *e)
{
	size_t i;

	for (i = 0; i < 3; i++)
		e->fd[i] = close_fd(e->fd[i]);
}

static int open_streams(struct relay *y, struct ends *ends, struct err *err)
{
	int r = 0;

	if (y->doc.reads_stdin)
		r = inlet_open(&y->in, &y->carrier, &ends->fd[0]);
	else
		ends->fd[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (r == 0 && ends->fd[0] < 0)
		r = -errno;
	if (r == 0)
		r = outlet_open(&y->out, &y->carrier, "out", &ends->fd[1]);
	if (r == 0)
		r = outlet_open(&y->err, &y->carrier, "err", &ends->fd[2]);
	return r < 0 ? err_set(err, r, "make the step's streams") : 0;
}

static int start(struct relay *y, uint32_t node, struct err *err)
{
	static const struct supervisor_events events = {
		.started = on_started, .event = on_event, .say = on_say, .ended = on_ended};
	_cleanup_(ends_clear) struct ends ends = {{-1, -1, -1}};
	int keep[2], r;
	size_t n = 0;

	r = relay_doc_read(buffer_bytes(&y->doc_text), buffer_size(&y->doc_text), node,
		y->options.node, y->listen_fd, &y->doc, err);
	buffer_clear(&y->doc_text);
	if (r == 0)
		r = open_streams(y, &ends, err);
	if (r < 0)
		return r;
	if (y->doc.wired && y->listen_fd >= 0)
		keep[n++] = y->listen_fd;
	if (y->doc.secret_fd >= 0)
		keep[n++] = y->doc.secret_fd;
	r = supervisor_new(y->carrier.loop,
		&(const struct supervisor_start){.program = "/proc/self/exe",
			.args = y->doc.args.v,
			.runtime_dir = y->doc.runtime_dir,
			.doc = y->doc.spec,
			.stdio = {ends.fd[0], ends.fd[1], ends.fd[2]},
			.keep_fds = keep,
			.keep_fds_count = n},
		&events, y, &y->supervisor, err);
	/* They are the agent's now. */
	y->listen_fd = close_fd(y->listen_fd);
	y->doc.secret_fd = close_fd(y->doc.secret_fd);
	return r;
}

static void take_go(struct relay *y, const struct channel_line *line)
{
	struct err err = ERR_INIT;
	char *name = strchr(line->text, ' ');
	uint32_t node;

	if (y->supervisor || !name)
		return;
	*name++ = '\0';
	if (parse_u32(line->text, 0, CHANNEL_ALL - 1, &node) < 0)
		return;
	(void)snprintf(y->options.node, sizeof(y->options.node), "%s", name);
	if (start(y, node, &err) == 0)
		return;
	outlet_close(&y->out);
	outlet_close(&y->err);
	tell(y, err.text);
	end(y, STATUS_FAILED);
}

/* ---- the channel -------------------------------------------------------------------------- */

static void take_doc(struct relay *y, const struct channel_line *line)
{
	ssize_t n = channel_get_bytes(line);

	if (n < 0 || buffer_size(&y->doc_text) + (size_t)n > DOC_MOST ||
		buffer_add(&y->doc_text, line->text, (size_t)n) < 0)
		tell(y, "the step's document can't be taken: it is broken, or too large");
}

static void take_input(struct relay *y, const struct channel_line *line)
{
	inlet_take(&y->in, line);
}

static void take_eof(struct relay *y, const struct channel_line *line)
{
	(void)line;
	inlet_end(&y->in);
}

static void take_signal(struct relay *y, const struct channel_line *line)
{
	if (y->supervisor)
		supervisor_signal(y->supervisor, line->text);
}

/* Before there is an agent there is nothing to be ended. */
static void terminate(struct relay *y, bool now)
{
	if (y->supervisor)
		supervisor_terminate(y->supervisor, now);
	else
		end(y, STATUS_SIGNAL_BASE + SIGTERM);
}

static void take_terminate(struct relay *y, const struct channel_line *line)
{
	terminate(y, strcmp(line->verb, "kill") == 0);
}

static void take_suspend(struct relay *y, const struct channel_line *line)
{
	if (y->supervisor)
		supervisor_suspend(y->supervisor, strcmp(line->verb, "suspend") == 0);
}

static void take_close(struct relay *y, const struct channel_line *line)
{
	outlet_close(strcmp(line->text, "out") == 0 ? &y->out : &y->err);
}

static const struct {
	const char *verb;
	void (*take)(struct relay *y, const struct channel_line *line);
} verbs[] = {
	{"doc", take_doc},
	{"go", take_go},
	{"in", take_input},
	{"eof", take_eof},
	{"signal", take_signal},
	{"terminate", take_terminate},
	{"kill", take_terminate},
	{"suspend", take_suspend},
	{"resume", take_suspend},
	{"close", take_close},
};

static void on_line(const struct channel_line *line, void *userdata)
{
	struct relay *y = userdata;
	size_t i;

	if (line->node != y->carrier.index && line->node != CHANNEL_ALL)
		return;
	for (i = 0; i < ARRAY_SIZE(verbs); i++) {
		if (strcmp(verbs[i].verb, line->verb) == 0) {
			verbs[i].take(y, line);
			return;
		}
	}
}

/* Nobody is left to carry anything for: the step is ended, its output is read and dropped, so that
 * tasks can end in their own way. */
static void lose(struct relay *y)
{
	if (y->gone)
		return;
	y->gone = y->out.untaken = y->err.untaken = true;
	outlet_resume(&y->out);
	outlet_resume(&y->err);
	if (y->supervisor)
		supervisor_terminate(y->supervisor, false);
	else
		ev_break(y->carrier.loop, EVBREAK_ALL);
}

static void on_channel_end(int error, void *userdata)
{
	(void)error;
	lose(userdata);
}

static void on_drained(void *userdata)
{
	struct relay *y = userdata;

	if (y->ended) {
		ev_break(y->carrier.loop, EVBREAK_ALL);
		return;
	}
	outlet_resume(&y->out);
	outlet_resume(&y->err);
}

static void on_signal(struct ev_loop *loop, ev_io *w, int revents)
{
	struct relay *y = w->data;
	struct signalfd_siginfo info;

	assert(y);
	(void)loop;
	(void)revents;
	if (read(y->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		terminate(y, false);
}

static void on_broken(int error, void *userdata)
{
	(void)error;
	lose(userdata);
}

/* ---- its life ------------------------------------------------------------------------------ */

static void say_hello(struct relay *y)
{
	struct address list[ADDRESS_MOST];
	size_t n = address_list(y->options.ifname, list), i;
	char text[CHANNEL_LINE_MAX - 64], address[ADDRESS_TEXT_SIZE];
	int at;

	at = snprintf(text, sizeof(text), "version=%d node=%.200s port=%u", CHANNEL_VERSION,
		y->options.node, y->port);
	for (i = 0; i < n; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at, " addr=%s",
			address_format(&list[i], address, sizeof(address)));
	channel_send(y->carrier.channel, y->carrier.index, "hello", text);
}

static int watch_signals(struct relay *y, struct err *err)
{
	sigset_t set;

	(void)sigemptyset(&set); /* can't fail, nor can the others with valid arguments */
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	y->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (y->signal_fd < 0)
		return err_set(err, -errno, "make a descriptor for signals");
	ev_io_init(&y->signals, on_signal, y->signal_fd, EV_READ);
	y->signals.data = y;
	ev_io_start(y->carrier.loop, &y->signals);
	return 0;
}

/* Copies, for libraries that write to standard output by mistake must not write into the channel,
 * and what a program reads from standard input is not what steprun sends. */
static int open_channel(struct relay *y, struct err *err)
{
	static const struct channel_events events = {
		.line = on_line, .end = on_channel_end, .broken = on_broken, .drained = on_drained};
	int in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3), r;
	int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	_cleanup_close_ int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (in < 0 || out < 0 || null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 ||
		dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
		r = -errno;
		(void)close_fd(in);
		(void)close_fd(out);
		return err_set(err, r, "open the channel to steprun");
	}
	(void)!write(out, "\n", 1); /* a greeting may have left a line without its end */
	r = channel_new_take(y->carrier.loop, in, out, &events, y, &y->carrier.channel);
	return r < 0 ? err_set(err, r, "open the channel to steprun") : 0;
}

static int run(struct relay *y, struct err *err)
{
	int r;

	y->carrier.index = y->options.index;
	y->carrier.loop = ev_loop_new(EVFLAG_AUTO);
	if (!y->carrier.loop)
		return err_say(err, -ENOMEM, "there is no event loop to be had");
	y->listen_fd = address_listen(&y->port);
	if (y->listen_fd < 0)
		y->port = 0; /* a step that needs none can do without */
	r = open_channel(y, err);
	if (r == 0)
		r = watch_signals(y, err);
	if (r < 0)
		return r;
	say_hello(y);
	(void)ev_run(y->carrier.loop, 0);
	return 0;
}

static void relay_clear(struct relay *y)
{
	y->supervisor = supervisor_free(y->supervisor);
	outlet_close(&y->out);
	outlet_close(&y->err);
	inlet_close(&y->in);
	y->carrier.channel = channel_free(y->carrier.channel);
	if (y->signal_fd >= 0)
		ev_io_stop(y->carrier.loop, &y->signals);
	y->signal_fd = close_fd(y->signal_fd);
	y->listen_fd = close_fd(y->listen_fd);
	buffer_clear(&y->doc_text);
	relay_doc_clear(&y->doc);
	if (y->carrier.loop)
		ev_loop_destroy(y->carrier.loop);
}

int cli_relay(int argc, char **argv)
{
	_cleanup_(relay_clear) struct relay y = {.listen_fd = -1,
		.signal_fd = -1,
		.out = OUTLET_INIT,
		.err = OUTLET_INIT,
		.in = INLET_INIT,
		.doc = RELAY_DOC_INIT,
		.log = {.fd = STDERR_FILENO, .most = LOG_LEVEL_INFO, .ident = "stepd relay"}};
	struct err err = ERR_INIT;
	int r = process_prepare(&err);

	if (r == 0)
		r = relay_options_parse(argc, argv, &y.options, &err);
	if (r == 0 && y.options.help) {
		fputs(relay_help_text, stdout);
		return 0;
	}
	if (r == 0)
		r = run(&y, &err);
	if (r < 0) {
		log_error(&y.log, "%s", err.text);
		return STATUS_FAILED;
	}
	return y.gone ? STATUS_FAILED : 0;
}
