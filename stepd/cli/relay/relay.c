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
#include <getopt.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

#include "stepd/agent/launch/process.h"
#include "stepd/agent/status.h"
#include "stepd/api/client.h"
#include "stepd/base/log.h"
#include "stepd/base/parse.h"
#include "stepd/cli/cli.h"
#include "stepd/cli/relay/address.h"
#include "stepd/cli/relay/channel.h"
#include "stepd/cli/relay/keeper.h"
#include "stepd/cli/relay/relay_doc.h"
#include "stepd/control/buffer.h"

#define QUEUE_MOST (256u << 10) /* bytes on their way to steprun before streams have to wait */
#define DRAIN_MOST (1u << 20)   /* bytes of a stream that are still carried at the end */
#define DOC_MOST   (96u << 20)
#define INDEX_FROM "PMIX_RANK,FLUX_TASK_RANK,OMPI_COMM_WORLD_RANK,PMI_RANK,SLURM_PROCID"

enum {
	OPT_INDEX = 256,
	OPT_INDEX_FROM,
	OPT_NODE,
	OPT_IFNAME
};

/* An output stream of the step. */
struct outlet {
	struct relay *relay;
	const char *verb;
	int fd;
	ev_io io;
};

/* Its input. */
struct inlet {
	int fd;
	ev_io io;
	struct buffer bytes;
	bool ends;
};

struct relay {
	struct ev_loop *loop;
	struct channel *channel;
	struct log log;
	uint32_t index;
	char node[256];
	const char *ifname;
	int listen_fd, signal_fd;
	uint16_t port;
	ev_io signals;
	struct buffer doc_text;
	struct relay_doc doc;
	struct keeper *keeper;
	struct outlet out, err;
	struct inlet in;
	bool gone;  /* steprun is */
	bool ended; /* the last line is written */
};

/* ---- the step's output -------------------------------------------------------------------- */

static void outlet_close(struct outlet *o)
{
	if (o->fd >= 0)
		ev_io_stop(o->relay->loop, &o->io);
	o->fd = close_fd(o->fd);
}

/* False: there is nothing now. */
static bool outlet_read(struct outlet *o, size_t *ret_size)
{
	char bytes[16384];
	ssize_t n;

	if (o->fd < 0)
		return false;
	n = read(o->fd, bytes, sizeof(bytes));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		outlet_close(o);
		return false;
	}
	channel_send_bytes(o->relay->channel, o->relay->index, o->verb, bytes, (size_t)n);
	*ret_size = (size_t)n;
	return true;
}

static void on_output(struct ev_loop *loop, ev_io *w, int revents)
{
	struct outlet *o = w->data;
	size_t n;

	assert(o);
	(void)revents;
	(void)outlet_read(o, &n);
	if (!o->relay->gone && channel_queued(o->relay->channel) > QUEUE_MOST)
		ev_io_stop(loop, w); /* on_drained() begins again */
}

static void outlet_drain(struct outlet *o)
{
	size_t total = 0, n;

	while (total < DRAIN_MOST && outlet_read(o, &n))
		total += n;
	outlet_close(o);
}

static void outlet_resume(struct outlet *o)
{
	if (o->fd >= 0)
		ev_io_start(o->relay->loop, &o->io);
}

static int outlet_open(struct relay *y, struct outlet *o, const char *verb, int *ret_fd)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	*o = (struct outlet){.relay = y, .verb = verb, .fd = fds[0]};
	*ret_fd = fds[1];
	if (fcntl(o->fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	ev_io_init(&o->io, on_output, o->fd, EV_READ);
	o->io.data = o;
	ev_io_start(y->loop, &o->io);
	return 0;
}

/* ---- the step's input --------------------------------------------------------------------- */

static void inlet_close(struct relay *y)
{
	if (y->in.fd >= 0)
		ev_io_stop(y->loop, &y->in.io);
	y->in.fd = close_fd(y->in.fd);
	buffer_clear(&y->in.bytes);
}

static void inlet_push(struct relay *y)
{
	struct inlet *in = &y->in;
	ssize_t n = 0;

	if (in->fd >= 0 && buffer_size(&in->bytes) > 0)
		n = write(in->fd, buffer_bytes(&in->bytes), buffer_size(&in->bytes));
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		inlet_close(y);
		channel_send(y->channel, y->index, "closed", "");
		return;
	}
	if (n > 0) {
		buffer_drop(&in->bytes, (size_t)n);
		channel_sendf(y->channel, y->index, "ack", "%zd", n);
	}
	if (buffer_size(&in->bytes) > 0 && in->fd >= 0)
		ev_io_start(y->loop, &in->io);
	else if (in->fd >= 0)
		ev_io_stop(y->loop, &in->io);
	if (buffer_size(&in->bytes) == 0 && in->ends)
		inlet_close(y);
}

static void on_input_room(struct ev_loop *loop, ev_io *w, int revents)
{
	assert(w->data);
	(void)loop;
	(void)revents;
	inlet_push(w->data);
}

static int inlet_open(struct relay *y, int *ret_fd)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	*ret_fd = fds[0];
	y->in.fd = fds[1];
	if (fcntl(y->in.fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	ev_io_init(&y->in.io, on_input_room, y->in.fd, EV_WRITE);
	y->in.io.data = y;
	return 0;
}

static void take_input(struct relay *y, const struct channel_line *line)
{
	ssize_t n = channel_get_bytes(line);

	if (n <= 0)
		return;
	if (y->in.fd < 0)
		return; /* "closed" was said, or will be by the end */
	if (buffer_add(&y->in.bytes, line->text, (size_t)n) < 0) {
		inlet_close(y);
		channel_send(y->channel, y->index, "closed", "");
		return;
	}
	inlet_push(y);
}

/* ---- the agent ---------------------------------------------------------------------------- */

static void tell(struct relay *y, const char *text)
{
	size_t size = strlen(text);

	if (y->gone)
		log_error(&y->log, "%s", text);
	else
		channel_send_bytes(y->channel, y->index, "say", text,
			size < CHANNEL_PIECE_MAX ? size : CHANNEL_PIECE_MAX);
}

/* The last line; the loop ends when it is out. */
static void end(struct relay *y, int code)
{
	if (y->gone) {
		ev_break(y->loop, EVBREAK_ALL);
		return;
	}
	y->ended = true;
	channel_sendf(y->channel, y->index, "end", "%d", code);
	channel_finish(y->channel);
}

static void on_started(void *userdata)
{
	struct relay *y = userdata;

	channel_send(y->channel, y->index, "started", "");
}

static void on_event(const struct stepd_event *event, void *userdata)
{
	struct relay *y = userdata;

	if (strcmp(event->kind, "task_exit") == 0 && event->rank >= 0)
		channel_sendf(y->channel, y->index, "task", "%lld %lld", (long long)event->rank,
			(long long)event->wait_status);
}

static void on_say(const char *text, void *userdata)
{
	tell(userdata, text);
}

static void on_ended(int exit_code, const char *result, void *userdata)
{
	struct relay *y = userdata;

	y->keeper = keeper_free(y->keeper);
	outlet_drain(&y->out);
	outlet_drain(&y->err);
	inlet_close(y);
	if (result)
		channel_send_bytes(y->channel, y->index, "result", result, strlen(result));
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
		r = inlet_open(y, &ends->fd[0]);
	else
		ends->fd[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (r == 0 && ends->fd[0] < 0)
		r = -errno;
	if (r == 0)
		r = outlet_open(y, &y->out, "out", &ends->fd[1]);
	if (r == 0)
		r = outlet_open(y, &y->err, "err", &ends->fd[2]);
	return r < 0 ? err_set(err, r, "make the step's streams") : 0;
}

static int start(struct relay *y, uint32_t node, struct err *err)
{
	static const struct keeper_events events = {
		.started = on_started, .event = on_event, .say = on_say, .ended = on_ended};
	_cleanup_(ends_clear) struct ends ends = {{-1, -1, -1}};
	int keep[2], r;
	size_t n = 0;

	r = relay_doc_read(buffer_bytes(&y->doc_text), buffer_size(&y->doc_text), node, y->node,
		y->listen_fd, &y->doc, err);
	buffer_clear(&y->doc_text);
	if (r == 0)
		r = open_streams(y, &ends, err);
	if (r < 0)
		return r;
	if (y->doc.wired && y->listen_fd >= 0)
		keep[n++] = y->listen_fd;
	if (y->doc.secret_fd >= 0)
		keep[n++] = y->doc.secret_fd;
	r = keeper_new(y->loop,
		&(const struct keeper_start){.program = "/proc/self/exe",
			.args = y->doc.args.v,
			.runtime_dir = y->doc.runtime_dir,
			.doc = y->doc.spec,
			.stdio = {ends.fd[0], ends.fd[1], ends.fd[2]},
			.keep_fds = keep,
			.keep_fds_count = n},
		&events, y, &y->keeper, err);
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

	if (y->keeper || !name)
		return;
	*name++ = '\0';
	if (parse_u32(line->text, 0, CHANNEL_ALL - 1, &node) < 0)
		return;
	(void)snprintf(y->node, sizeof(y->node), "%s", name);
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

static void take_eof(struct relay *y, const struct channel_line *line)
{
	(void)line;
	y->in.ends = true;
	inlet_push(y);
}

static void take_signal(struct relay *y, const struct channel_line *line)
{
	if (y->keeper)
		keeper_signal(y->keeper, line->text);
}

/* Before there is an agent there is nothing to be ended. */
static void terminate(struct relay *y, bool now)
{
	if (y->keeper)
		keeper_terminate(y->keeper, now);
	else
		end(y, STATUS_SIGNAL_BASE + SIGTERM);
}

static void take_terminate(struct relay *y, const struct channel_line *line)
{
	terminate(y, strcmp(line->verb, "kill") == 0);
}

static void take_suspend(struct relay *y, const struct channel_line *line)
{
	if (y->keeper)
		keeper_suspend(y->keeper, strcmp(line->verb, "suspend") == 0);
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

	if (line->node != y->index && line->node != CHANNEL_ALL)
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
	y->gone = true;
	outlet_resume(&y->out);
	outlet_resume(&y->err);
	if (y->keeper)
		keeper_terminate(y->keeper, false);
	else
		ev_break(y->loop, EVBREAK_ALL);
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
		ev_break(y->loop, EVBREAK_ALL);
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

/* ---- the command -------------------------------------------------------------------------- */

static const struct option long_options[] = {
	{"index", required_argument, NULL, OPT_INDEX},
	{"index-from", required_argument, NULL, OPT_INDEX_FROM},
	{"node", required_argument, NULL, OPT_NODE},
	{"ifname", required_argument, NULL, OPT_IFNAME},
	{"help", no_argument, NULL, 'h'},
	{0},
};

static const char help_text[] =
	"Usage: stepd relay [OPTION...]\n"
	"steprun's hand on a node, which it starts through a launcher: carries a step's streams,\n"
	"signals and result over standard input and output. Not for people.\n\n"
	"  --index N           this is relay number N\n"
	"  --index-from NAME,...\n"
	"                      the first of these variables that is set has the number\n"
	"                      (" INDEX_FROM ")\n"
	"  --node NAME         this node's name (SLURMD_NODENAME, or the host's)\n"
	"  --ifname NAME       the network interface that other nodes reach this one by\n"
	"  -h, --help          show this\n";

static int find_index(const char *names, uint32_t *ret_index, struct err *err)
{
	_cleanup_free_ char *copy = strdup(names);
	char *save = NULL, *name;
	const char *value;

	if (!copy)
		return err_set(err, -ENOMEM, "read the options");
	for (name = strtok_r(copy, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
		value = secure_getenv(name);
		if (!value)
			continue;
		if (parse_u32(value, 0, CHANNEL_ALL - 1, ret_index) < 0)
			return err_say(err, -EINVAL,
				"the variable %s is '%.64s', which is no number", name, value);
		return 0;
	}
	return err_say(err, -EINVAL,
		"the launcher did not say which relay this is: none of the variables %s is set; give --index",
		names);
}

static int take_option(
	struct relay *y, int opt, const char **index_from, bool *help, struct err *err)
{
	switch (opt) {
	case OPT_INDEX:
		*index_from = NULL;
		return parse_u32(optarg, 0, CHANNEL_ALL - 1, &y->index) < 0
			? err_say(err, -EINVAL, "--index: '%s' is no number", optarg)
			: 0;
	case OPT_INDEX_FROM:
		*index_from = optarg;
		return 0;
	case OPT_NODE:
		(void)snprintf(y->node, sizeof(y->node), "%s", optarg);
		return 0;
	case OPT_IFNAME:
		y->ifname = optarg;
		return 0;
	case 'h':
		*help = true;
		return 0;
	default:
		return err_say(err, -EINVAL, "wrong option (see stepd relay --help)");
	}
}

static int parse(struct relay *y, int argc, char **argv, bool *help, struct err *err)
{
	const char *index_from = INDEX_FROM;
	int opt, r = 0;

	while (r == 0 && (opt = getopt_long(argc, argv, "+h", long_options, NULL)) != -1)
		r = take_option(y, opt, &index_from, help, err);
	if (r < 0 || *help)
		return r;
	if (optind < argc)
		return err_say(
			err, -EINVAL, "'%s' is no option (see stepd relay --help)", argv[optind]);
	return index_from ? find_index(index_from, &y->index, err) : 0;
}

static void say_hello(struct relay *y)
{
	struct address list[ADDRESS_MOST];
	size_t n = address_list(y->ifname, list), i;
	char text[CHANNEL_LINE_MAX - 64], address[ADDRESS_TEXT_SIZE];
	int at;

	at = snprintf(text, sizeof(text), "version=%d node=%.200s port=%u", CHANNEL_VERSION,
		y->node, y->port);
	for (i = 0; i < n; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at, " addr=%s",
			address_format(&list[i], address, sizeof(address)));
	channel_send(y->channel, y->index, "hello", text);
}

static void name_node(struct relay *y)
{
	const char *name = secure_getenv("SLURMD_NODENAME");

	if (*y->node)
		return;
	if (name)
		(void)snprintf(y->node, sizeof(y->node), "%s", name);
	else if (gethostname(y->node, sizeof(y->node)) < 0)
		(void)snprintf(y->node, sizeof(y->node), "localhost");
	y->node[sizeof(y->node) - 1] = '\0';
	if (!name)
		y->node[strcspn(y->node, ".")] = '\0';
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
	ev_io_start(y->loop, &y->signals);
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
	r = channel_new_take(y->loop, in, out, &events, y, &y->channel);
	return r < 0 ? err_set(err, r, "open the channel to steprun") : 0;
}

static int run(struct relay *y, struct err *err)
{
	int r;

	y->loop = ev_loop_new(EVFLAG_AUTO);
	if (!y->loop)
		return err_say(err, -ENOMEM, "there is no event loop to be had");
	name_node(y);
	y->listen_fd = address_listen(&y->port);
	if (y->listen_fd < 0)
		y->port = 0; /* a step that needs none can do without */
	r = open_channel(y, err);
	if (r == 0)
		r = watch_signals(y, err);
	if (r < 0)
		return r;
	say_hello(y);
	(void)ev_run(y->loop, 0);
	return 0;
}

static void relay_clear(struct relay *y)
{
	y->keeper = keeper_free(y->keeper);
	outlet_close(&y->out);
	outlet_close(&y->err);
	inlet_close(y);
	y->channel = channel_free(y->channel);
	if (y->signal_fd >= 0)
		ev_io_stop(y->loop, &y->signals);
	y->signal_fd = close_fd(y->signal_fd);
	y->listen_fd = close_fd(y->listen_fd);
	buffer_clear(&y->doc_text);
	relay_doc_clear(&y->doc);
	if (y->loop)
		ev_loop_destroy(y->loop);
}

int cli_relay(int argc, char **argv)
{
	_cleanup_(relay_clear) struct relay y = {.listen_fd = -1,
		.signal_fd = -1,
		.out = {.fd = -1},
		.err = {.fd = -1},
		.in = {.fd = -1},
		.doc = RELAY_DOC_INIT,
		.log = {.fd = STDERR_FILENO, .most = LOG_LEVEL_INFO, .ident = "stepd relay"}};
	struct err err = ERR_INIT;
	bool help = false;
	int r = process_prepare(&err);

	if (r == 0)
		r = parse(&y, argc, argv, &help, &err);
	if (r == 0 && help) {
		fputs(help_text, stdout);
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
