/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepd relay: steprun's per-node relay. It sends hello, gets the step's document, starts the agent
 * and carries its streams, its events and its end; channel.h has the lines. If the channel hangs
 * up, the step is ended by its kill sequence.
 *
 * To steprun:    hello TEXT    version=N node=NAME port=N got=1 doc=1 frames=0|1 addr=ADDRESS...
 *                probe, frames as below
 *                out, err      bytes of the step's streams
 *                doc N         so many bytes of the document have come
 *                got N         so many bytes of standard input are stored
 *                ack N         so many of them the step has taken
 *                dropped N     so many bytes its tasks lack in all: before the result
 *                closed        the step reads no standard input any more
 *                terminal on|off  the agent reads its terminal, which is like steprun's
 *                task RANK WAIT_STATUS
 *                say           bytes: a message for the user
 *                result        bytes of the result, a JSON document
 *                end STATUS    the agent's exit status; the last line, upon which steprun
 *                              closes the channel, once each relay behind it has sent its own
 * From steprun:  doc           bytes of the document, for all (relay_doc.h; or attachment.h, which
 *                              has what is said then)
 *                go NODE NAME  the document is whole; start as this node
 *                in, eof       bytes of standard input, and its end
 *                signal NAME, terminate, kill, suspend, resume
 *                close out|err this stream is not written any more
 *                size ROWS COLUMNS XPIXEL YPIXEL   of the terminal
 *                frames        as below
 *
 * Frames (channel.h): hello says that the relay knows them. Where no other relay has the same
 * channel, steprun says "frames", upon which the relay sends a probe. Once that has come unchanged,
 * steprun takes frames, and sends a probe itself. When that comes, the relay sends frames; if it
 * has come unchanged, it takes them too, and says "frames".
 */
#include <assert.h>
#include <ev.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#include "stepd/base/buffer.h"
#include "stepd/base/err.h"
#include "stepd/base/parse.h"
#include "stepd/base/proc.h"
#include "stepd/cli/cli.h"
#include "stepd/cli/options.h"
#include "stepd/cli/relay/address.h"
#include "stepd/cli/relay/attachment.h"
#include "stepd/cli/relay/channel.h"
#include "stepd/cli/relay/relay_doc.h"
#include "stepd/cli/relay/streams.h"
#include "stepd/cli/relay/supervisor.h"
#include "stepd/process/process.h"
#include "stepd/stdio/pty.h"

#define DOC_MAX    (96u << 20)
#define INDEX_FROM "PMIX_RANK,FLUX_TASK_RANK,OMPI_COMM_WORLD_RANK,PMI_RANK,SLURM_PROCID"

#define CLOSING_TIMEOUT_MS 5000       /* for a launcher that does not pass on the end of input */
#define INPUT_PIPE_SIZE    (1u << 20) /* bytes: twice what steprun sends without an answer */

/* ---- options ------------------------------------------------------------------------------- */

struct relay_options {
	uint32_t index;
	char node[256];
	const char *index_from; /* names of variables; NULL: index was given */
	const char *ifname;     /* of argv; NULL: any */
	bool help;
};

static int find_index(const char *names, uint32_t *ret_index, struct err *err)
{
	_cleanup_free_ char *copy = strdup(names);
	char *rest = copy, *name;
	const char *value;

	if (!copy)
		return err_set(err, -ENOMEM, "read the options");
	while ((name = strsep(&rest, ","))) {
		value = secure_getenv(name);
		if (!value)
			continue;
		if (parse_u32(value, 0, CHANNEL_ALL - 1, ret_index) < 0)
			return err_set_text(err, -EINVAL,
				"the variable %s is '%.64s', which is not a number", name, value);
		return 0;
	}
	return err_set_text(err, -EINVAL,
		"the launcher does not name this relay's number: none of the variables %s is set; give --index",
		names);
}

static int take_index(
	_unused_ const struct cli_option *option, const char *arg, void *into, struct err *err)
{
	struct relay_options *o = into;

	o->index_from = NULL;
	return parse_u32(arg, 0, CHANNEL_ALL - 1, &o->index) < 0
		? err_set_text(err, -EINVAL, "'%s' is not a number", arg)
		: 0;
}

static int take_node(_unused_ const struct cli_option *option, const char *arg, void *into,
	_unused_ struct err *err)
{
	struct relay_options *o = into;

	(void)snprintf(o->node, sizeof(o->node), "%s", arg);
	return 0;
}

#define AT(member_) offsetof(struct relay_options, member_)

/* clang-format off */
static const struct cli_option rows[] = {
	{.name = "index", .arg = "N", .take = take_index,
	 .doc = "this is relay number N"},
	{.name = "index-from", .arg = "NAME,...", .take = cli_take_text, .offset = AT(index_from),
	 .doc = "the first of these variables that is set has the number (" INDEX_FROM ")"},
	{.name = "node", .arg = "NAME", .take = take_node,
	 .doc = "this node's name (SLURMD_NODENAME, or the host's)"},
	{.name = "ifname", .arg = "NAME", .take = cli_take_text, .offset = AT(ifname),
	 .doc = "the network interface that other nodes reach this one by"},
	{.name = "help", .letter = 'h', .take = cli_take_help, .offset = AT(help), .doc = "show this"},
};
/* clang-format on */

static void options_print_help(void)
{
	puts("Usage: stepd relay [OPTION...]\n"
	     "steprun's relay on a node, which it starts through a launcher: carries a step's streams,\n"
	     "signals and result over standard input and output. Not for people.\n");
	cli_options_print(rows, ARRAY_SIZE(rows), stdout);
}

static void name_node(struct relay_options *o)
{
	const char *name = secure_getenv("SLURMD_NODENAME");

	if (*o->node)
		return;
	if (name)
		(void)snprintf(o->node, sizeof(o->node), "%s", name);
	else if (gethostname(o->node, sizeof(o->node)) < 0)
		(void)snprintf(o->node, sizeof(o->node), "localhost");
	o->node[sizeof(o->node) - 1] = '\0';
	if (!name)
		o->node[strcspn(o->node, ".")] = '\0';
}

/* The relay's number comes from its option, else from the launcher's variable; the node's name from
 * its option, SLURMD_NODENAME, or the host's name without its domain. */
static int options_parse(int argc, char **argv, struct relay_options *o, struct err *err)
{
	struct cli_options options = {
		.rows = rows, .n = ARRAY_SIZE(rows), .command = "stepd relay"};
	int rest, r;

	*o = (struct relay_options){.index_from = INDEX_FROM};
	r = cli_options_parse(&options, argc, argv, o, &rest, err);
	if (r < 0 || o->help)
		return r;
	name_node(o);
	return o->index_from ? find_index(o->index_from, &o->index, err) : 0;
}

/* ------------------------------------------------------------------------------------------- */

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
	struct attachment attachment;
	bool attaches;     /* to an agent that runs already */
	int terminal_fd;   /* the master of the agent's terminal; -1: it has none */
	bool has_terminal; /* the channel */
	bool gone;         /* steprun is */
	bool ended;        /* the last line is sent */
	ev_timer closing;  /* until steprun has closed the channel */
};

/* ---- the agent ----------------------------------------------------------------------------- */

static void relay_send(struct relay *y, const char *verb, const char *text)
{
	channel_send(y->carrier.channel, y->carrier.index, verb, text);
}

static void relay_send_bytes(struct relay *y, const char *verb, const char *bytes, size_t size)
{
	channel_send_bytes(y->carrier.channel, y->carrier.index, verb, bytes, size);
}

/* To steprun's user. */
static void relay_report(struct relay *y, const char *text)
{
	if (y->gone)
		log_error(&y->log, "%s", text);
	else
		channel_send_lines(y->carrier.channel, y->carrier.index, "say", text,
			strnlen(text, CHANNEL_PIECE_MAX));
}

/* Sends the last line; relay_leave() follows when it is written. */
static void relay_end(struct relay *y, int code)
{
	if (y->gone) {
		ev_break(y->carrier.loop, EVBREAK_ALL);
		return;
	}
	y->ended = true;
	channel_sendf(y->carrier.channel, y->carrier.index, "end", "%d", code);
	channel_finish(y->carrier.channel);
}

/* Closes what is left of the agent's input: its terminal, too, which then hangs up. */
static void relay_hang_up(struct relay *y)
{
	inlet_close(&y->in);
	if (y->terminal_fd >= 0 && y->doc.terminal.is_out)
		outlet_close(&y->out);
	if (y->terminal_fd >= 0 && y->doc.terminal.is_err)
		outlet_close(&y->err);
	y->terminal_fd = close_fd(y->terminal_fd);
}

static void relay_on_ready(_unused_ const struct json_t *line, void *userdata)
{
	struct relay *y = userdata;

	if (y->terminal_fd >= 0)
		relay_send(y, "terminal", "on");
	outlet_release(&y->out);
	outlet_release(&y->err);
}

static void relay_on_suspended(bool on, void *userdata)
{
	struct relay *y = userdata;

	if (y->terminal_fd >= 0)
		relay_send(y, "terminal", on ? "off" : "on");
}

static void on_task_ended(uint32_t rank, int wait_status, void *userdata)
{
	struct relay *y = userdata;

	channel_sendf(y->carrier.channel, y->carrier.index, "task", "%u %d", rank, wait_status);
}

static void relay_on_report(const char *text, void *userdata)
{
	relay_report(userdata, text);
}

static void on_ended(int exit_code, const char *result, void *userdata)
{
	struct relay *y = userdata;

	y->supervisor = supervisor_free(y->supervisor);
	outlet_drain(&y->out);
	outlet_drain(&y->err);
	if (y->in.dropped > 0)
		channel_sendf(y->carrier.channel, y->carrier.index, "dropped", "%llu",
			(unsigned long long)y->in.dropped * y->doc.readers);
	relay_hang_up(y);
	if (result)
		relay_send_bytes(y, "result", result, strlen(result));
	relay_end(y, exit_code);
}

static void on_input_taken(size_t size, void *userdata)
{
	struct relay *y = userdata;

	channel_sendf(y->carrier.channel, y->carrier.index, "ack", "%zu", size);
}

static void on_input_refused(void *userdata)
{
	relay_send(userdata, "closed", "");
}

static void on_input_stored(size_t size, void *userdata)
{
	struct relay *y = userdata;

	channel_sendf(y->carrier.channel, y->carrier.index, "got", "%zu", size);
}

static const struct inlet_events inlet_events = {.stored = on_input_stored,
	.taken = on_input_taken,
	.refused = on_input_refused,
	.warn = relay_on_report};

/* Other nodes' tasks may be faster than those here. */
static int relay_store_input(struct relay *y, struct err *err)
{
	struct backlog *backlog;
	bool drops = false;
	int r = relay_doc_open_backlog(&y->doc, &backlog, &drops, err);

	if (r == 0 && backlog)
		inlet_store_in_take(&y->in, backlog, drops);
	return r;
}

/* *ret_fd: the agent's end. */
static int relay_open_input(struct relay *y, int *ret_fd)
{
	if (y->doc.reads_stdin)
		return inlet_open(&y->in, y->carrier.loop, &inlet_events, y, ret_fd);
	*ret_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

/* The agent finds the user's settings, which it gives to its ranks' terminals, and makes it raw. */
static int relay_set_up_terminal(const struct relay_terminal *like, int slave)
{
	if ((like->has_modes && tcsetattr(slave, TCSANOW, &like->modes) < 0) ||
		ioctl(slave, TIOCSWINSZ, &like->size) < 0 || fchmod(slave, S_IRUSR | S_IWUSR) < 0)
		return -errno;
	return 0;
}

static int relay_copy_fd(int fd, int *ret_fd)
{
	*ret_fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	return *ret_fd < 0 ? -errno : 0;
}

/* A terminal in place of steprun's: for all streams that are the same there. What is written to it
 * comes by one way, so that its order is kept. */
static int relay_open_terminal(struct relay *y, int stdio[3])
{
	const struct relay_terminal *like = &y->doc.terminal;
	struct outlet *one = like->is_out ? &y->out : &y->err;
	int in = -1, out = -1, r = pty_open_pair(&y->terminal_fd, &stdio[0]);

	if (r == 0)
		r = relay_set_up_terminal(like, stdio[0]);
	if (r == 0 && y->doc.reads_stdin)
		r = relay_copy_fd(y->terminal_fd, &in);
	if (in >= 0)
		inlet_init_take(&y->in, y->carrier.loop, &inlet_events, y, in);
	if (r == 0 && like->is_out)
		r = relay_copy_fd(stdio[0], &stdio[1]);
	if (r == 0 && like->is_err)
		r = relay_copy_fd(stdio[0], &stdio[2]);
	if (r == 0 && (like->is_out || like->is_err))
		r = relay_copy_fd(y->terminal_fd, &out);
	if (out >= 0) {
		outlet_init_take(one, &y->carrier, like->is_out ? "out" : "err", out);
		/* Whoever sees what a program writes may type: steprun's terminal is raw by then.
		 */
		outlet_hold(one);
	}
	return r;
}

/* stdio: the agent's ends. */
static int relay_open_streams(struct relay *y, int stdio[3], struct err *err)
{
	int r = y->doc.has_terminal ? relay_open_terminal(y, stdio)
				    : relay_open_input(y, &stdio[0]);

	if (r == 0 && stdio[1] < 0)
		r = outlet_open(&y->out, &y->carrier, "out", &stdio[1]);
	if (r == 0 && stdio[2] < 0)
		r = outlet_open(&y->err, &y->carrier, "err", &stdio[2]);
	if (r == 0)
		return relay_store_input(y, err);
	return err_set(err, r, "make the step's streams%s",
		y->doc.has_terminal ? ", with a pseudo-terminal" : "");
}

static int relay_start(struct relay *y, uint32_t node, struct err *err)
{
	static const struct supervisor_events events = {.ready = relay_on_ready,
		.suspended = relay_on_suspended,
		.task_ended = on_task_ended,
		.report = relay_on_report,
		.ended = on_ended};
	struct supervisor_start start = {.program = "/proc/self/exe", .stdio = {-1, -1, -1}};
	int extra[2], i, r;

	r = relay_doc_read(buffer_bytes(&y->doc_text), buffer_size(&y->doc_text), node,
		y->options.node, y->listen_fd, &y->doc, err);
	buffer_clear(&y->doc_text);
	if (r == 0)
		r = relay_open_streams(y, start.stdio, err);
	if (y->doc.wired)
		extra[start.extra_fds_count++] = y->listen_fd;
	if (y->doc.secret_fd >= 0)
		extra[start.extra_fds_count++] = y->doc.secret_fd;
	start.args = &y->doc.args;
	start.runtime_dir = y->doc.runtime_dir;
	start.doc = y->doc.spec;
	start.extra_fds = extra;
	if (r == 0)
		r = supervisor_new(y->carrier.loop, &start, &events, y, &y->supervisor, err);
	/* They are the agent's now. */
	for (i = 0; i < 3; i++)
		(void)close_fd(start.stdio[i]);
	y->listen_fd = close_fd(y->listen_fd);
	y->doc.secret_fd = close_fd(y->doc.secret_fd);
	return r;
}

static void on_attachment_ended(int code, void *userdata)
{
	relay_end(userdata, code);
}

/* Whether that is what the document is for. */
static bool relay_attach(struct relay *y)
{
	json_auto_t *doc = json_loadb(buffer_bytes(&y->doc_text) ?: "", buffer_size(&y->doc_text),
		JSON_REJECT_DUPLICATES, NULL);

	y->attaches = json_is_object(json_object_get(doc, "attach"));
	if (!y->attaches)
		return false;
	buffer_clear(&y->doc_text);
	y->listen_fd = close_fd(y->listen_fd);
	attachment_start(&y->attachment, &y->carrier, doc, y->options.node, on_attachment_ended, y);
	return true;
}

static void on_go(struct relay *y, const struct channel_line *line)
{
	struct err err = ERR_INIT;
	char *name = strchr(line->text, ' ');
	uint32_t node;

	if (y->supervisor || y->attaches || !name)
		return;
	*name++ = '\0';
	if (parse_u32(line->text, 0, CHANNEL_ALL - 1, &node) < 0)
		return;
	(void)snprintf(y->options.node, sizeof(y->options.node), "%s", name);
	if (relay_attach(y) || relay_start(y, node, &err) == 0)
		return;
	relay_hang_up(y);
	outlet_close(&y->out);
	outlet_close(&y->err);
	relay_report(y, err.text);
	relay_end(y, STATUS_FAILED);
}

/* ---- the channel --------------------------------------------------------------------------- */

static void on_doc(struct relay *y, const struct channel_line *line)
{
	const char *bytes;
	ssize_t n = channel_get_bytes(line, &bytes);
	size_t before = buffer_size(&y->doc_text), size;

	if (n < 0 || before + (size_t)n > DOC_MAX || buffer_add(&y->doc_text, bytes, (size_t)n) < 0)
		relay_report(y, "the step's document can't be taken: it is broken, or too large");
	size = buffer_size(&y->doc_text);
	if (size / DOC_REPORT_SIZE > before / DOC_REPORT_SIZE)
		channel_sendf(y->carrier.channel, y->carrier.index, "doc", "%zu", size);
}

static void relay_on_input(struct relay *y, const struct channel_line *line)
{
	const char *bytes;
	ssize_t n = channel_get_bytes(line, &bytes);

	if (n > 0)
		inlet_write(y->attaches ? &y->attachment.in : &y->in, bytes, (size_t)n);
}

/* A terminal's end is that it hangs up. */
static void on_eof(struct relay *y, _unused_ const struct channel_line *line)
{
	if (y->terminal_fd >= 0)
		relay_hang_up(y);
	else
		inlet_end(&y->in);
}

static void on_size(struct relay *y, const struct channel_line *line)
{
	struct winsize size = {0};
	int n = sscanf(line->text, "%hu %hu %hu %hu", &size.ws_row, &size.ws_col, &size.ws_xpixel,
		&size.ws_ypixel);

	if (n == 4 && y->terminal_fd >= 0 && ioctl(y->terminal_fd, TIOCSWINSZ, &size) == 0 &&
		y->supervisor)
		supervisor_resize(y->supervisor);
}

static void relay_on_signal(struct relay *y, const struct channel_line *line)
{
	if (y->supervisor)
		supervisor_signal(y->supervisor, line->text);
}

/* Without an agent there is nothing to end. */
static void relay_terminate(struct relay *y, bool now)
{
	if (y->supervisor)
		supervisor_terminate(y->supervisor, now);
	else
		relay_end(y, STATUS_SIGNAL_BASE + SIGTERM);
}

static void relay_on_terminate(struct relay *y, const struct channel_line *line)
{
	relay_terminate(y, strcmp(line->verb, "kill") == 0);
}

static void relay_on_suspend(struct relay *y, const struct channel_line *line)
{
	if (y->supervisor)
		supervisor_suspend(y->supervisor, strcmp(line->verb, "suspend") == 0);
}

static void on_close(struct relay *y, const struct channel_line *line)
{
	const struct relay_terminal *t = &y->doc.terminal;
	bool is_out = strcmp(line->text, "out") == 0;

	if (y->terminal_fd >= 0 && (is_out ? t->is_out : t->is_err))
		relay_hang_up(y);
	else
		outlet_close(is_out ? &y->out : &y->err);
}

static void on_frames(struct relay *y, _unused_ const struct channel_line *line)
{
	channel_probe(y->carrier.channel, y->carrier.index);
}

static void on_probed(bool unchanged, void *userdata)
{
	struct relay *y = userdata;

	channel_send_frames(y->carrier.channel);
	if (!unchanged)
		return;
	channel_take_frames(y->carrier.channel);
	relay_send(y, "frames", "");
}

static const struct {
	const char *verb;
	void (*on_line)(struct relay *y, const struct channel_line *line);
} verbs[] = {
	{"doc", on_doc},
	{"go", on_go},
	{"in", relay_on_input},
	{"eof", on_eof},
	{"signal", relay_on_signal},
	{"terminate", relay_on_terminate},
	{"kill", relay_on_terminate},
	{"suspend", relay_on_suspend},
	{"resume", relay_on_suspend},
	{"close", on_close},
	{"size", on_size},
	{"frames", on_frames},
};

static void on_line(const struct channel_line *line, void *userdata)
{
	struct relay *y = userdata;
	size_t i;

	if (y->ended || (line->node != y->carrier.index && line->node != CHANNEL_ALL))
		return;
	for (i = 0; i < ARRAY_SIZE(verbs); i++) {
		if (strcmp(verbs[i].verb, line->verb) == 0) {
			verbs[i].on_line(y, line);
			return;
		}
	}
}

static bool relay_is_done(const struct relay *y)
{
	return y->ended && channel_queued(y->carrier.channel) == 0;
}

static void on_closing_timeout(struct ev_loop *loop, _unused_ ev_timer *w, _unused_ int revents)
{
	ev_break(loop, EVBREAK_ALL);
}

/* All is written. A launcher that passes input to a program which is gone may fail, and lose what
 * that has written last, as hydra does: so the relay takes what is under way until steprun has
 * closed the channel. One that has others behind it is closed with the last of them. */
static void relay_leave(struct relay *y)
{
	if (y->options.index_from) {
		ev_break(y->carrier.loop, EVBREAK_ALL);
		return;
	}
	ev_timer_init(&y->closing, on_closing_timeout, CLOSING_TIMEOUT_MS / 1e3, 0.);
	ev_timer_start(y->carrier.loop, &y->closing);
}

/* Ends the step. Its output is still read, and dropped by the channel, so that tasks do not
 * block. */
static void on_steprun_gone(void *userdata)
{
	struct relay *y = userdata;

	if (y->gone)
		return;
	if (relay_is_done(y)) {
		ev_break(y->carrier.loop, EVBREAK_ALL);
		return;
	}
	y->gone = true;
	if (channel_fault(y->carrier.channel))
		log_error(&y->log, "steprun is lost: %s; ending the step",
			channel_fault(y->carrier.channel));
	outlet_release(&y->out);
	outlet_release(&y->err);
	if (y->supervisor)
		supervisor_terminate(y->supervisor, false);
	else
		ev_break(y->carrier.loop, EVBREAK_ALL);
}

static void on_drained(void *userdata)
{
	struct relay *y = userdata;

	if (y->ended) {
		relay_leave(y);
		return;
	}
	outlet_resume(&y->out);
	outlet_resume(&y->err);
	outlet_resume(&y->attachment.out);
}

static void on_own_signal(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct relay *y = w->data;
	struct signalfd_siginfo info;

	assert(y);
	if (read(y->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	if (relay_is_done(y))
		ev_break(y->carrier.loop, EVBREAK_ALL);
	else
		relay_terminate(y, false);
}

/* ---- its life ------------------------------------------------------------------------------ */

static void relay_send_hello(struct relay *y)
{
	struct address list[ADDRESS_MAX];
	size_t n = address_list(y->options.ifname, list), i;
	char text[CHANNEL_LINE_MAX - 64], address[ADDRESS_TEXT_SIZE];
	int at;

	/* A terminal changes what passes it, and a probe that it reads could be ^C. */
	at = snprintf(text, sizeof(text), "version=%d node=%.200s port=%u got=1 doc=1 frames=%d",
		CHANNEL_VERSION, y->options.node, y->port, y->has_terminal ? 0 : 1);
	for (i = 0; i < n; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at, " addr=%s",
			address_format(&list[i], address, sizeof(address)));
	relay_send(y, "hello", text);
}

static int relay_watch_signals(struct relay *y, struct err *err)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP};

	y->signal_fd = process_watch_signals(signals, ARRAY_SIZE(signals), err);
	if (y->signal_fd < 0)
		return y->signal_fd;
	ev_io_init(&y->signals, on_own_signal, y->signal_fd, EV_READ);
	y->signals.data = y;
	ev_io_start(y->carrier.loop, &y->signals);
	return 0;
}

/* hydra writes to a process without waiting, and ends if a pipe has no space for all of it. */
static void relay_widen_input(int in)
{
	if (secure_getenv("PMI_RANK"))
		(void)fcntl(in, F_SETPIPE_SZ, INPUT_PIPE_SIZE); /* else it is smaller, or no pipe */
}

/* Copies, so that libraries that write to standard output do not write into the channel, and
 * programs do not read from it. */
static int relay_open_channel(struct relay *y, struct err *err)
{
	static const struct channel_events events = {.line = on_line,
		.end = on_steprun_gone,
		.broken = on_steprun_gone,
		.drained = on_drained,
		.probed = on_probed};
	int in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3), r;
	int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	_cleanup_close_ int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	y->has_terminal = isatty(STDIN_FILENO) || isatty(STDOUT_FILENO);
	if (in < 0 || out < 0 || null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 ||
		dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
		r = -errno;
		(void)close_fd(in);
		(void)close_fd(out);
		return err_set(err, r, "open the channel to steprun");
	}
	relay_widen_input(in);
	(void)!write(out, "\n", 1); /* a greeting may have left an incomplete line */
	r = channel_new_take(y->carrier.loop, in, out, &events, y, &y->carrier.channel);
	return r < 0 ? err_set(err, r, "open the channel to steprun") : 0;
}

static int relay_run(struct relay *y, struct err *err)
{
	int r;

	y->carrier.index = y->options.index;
	y->carrier.loop = ev_loop_new(EVFLAG_AUTO);
	if (!y->carrier.loop)
		return err_set_text(err, -ENOMEM, "no event loop can be made");
	y->listen_fd = address_listen(&y->port);
	if (y->listen_fd < 0)
		y->port = 0; /* some steps need none */
	r = relay_open_channel(y, err);
	if (r == 0)
		r = relay_watch_signals(y, err);
	if (r < 0)
		return r;
	relay_send_hello(y);
	(void)ev_run(y->carrier.loop, 0);
	return 0;
}

static void relay_clear(struct relay *y)
{
	y->supervisor = supervisor_free(y->supervisor);
	attachment_close(&y->attachment);
	outlet_close(&y->out);
	outlet_close(&y->err);
	inlet_close(&y->in);
	y->terminal_fd = close_fd(y->terminal_fd);
	if (y->carrier.loop)
		ev_timer_stop(y->carrier.loop, &y->closing);
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
		.terminal_fd = -1,
		.out = OUTLET_INIT,
		.err = OUTLET_INIT,
		.in = INLET_INIT,
		.attachment = ATTACHMENT_INIT,
		.doc = RELAY_DOC_INIT,
		.log = {.fd = STDERR_FILENO, .most = LOG_LEVEL_INFO, .ident = "stepd relay"}};
	struct err err = ERR_INIT;
	int r = process_prepare(&err);

	if (r == 0)
		r = options_parse(argc, argv, &y.options, &err);
	if (r == 0 && y.options.help) {
		options_print_help();
		return 0;
	}
	if (r == 0)
		r = relay_run(&y, &err);
	if (r < 0) {
		log_error(&y.log, "%s", err.text);
		return STATUS_FAILED;
	}
	/* A viewer may leave at any time. */
	return y.gone && !y.attaches ? STATUS_FAILED : 0;
}
