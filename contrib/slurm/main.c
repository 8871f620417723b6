/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepd-slurm-socket: answers Slurm's own clients for the steps of stepd on this node.
 */
#include <assert.h>
#include <ev.h>
#include <getopt.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "config.h"
#include "contrib/slurm/server.h"
#include "contrib/slurm/watch.h"
#include "stepd/base/err.h"
#include "systemd/systemd.h"

#define DEFAULT_SPOOL "/run/stepd-slurm"

struct options {
	const char *runtime_dir;
	const char *spool;
	bool private;
	bool force;
	bool help, version;
	struct log log;
};

struct adapter {
	struct options options;
	struct spool *spool;
	struct server server;
	struct watch *watch;
	int status;
};

enum {
	OPT_RUNTIME_DIR = 256,
	OPT_SPOOL,
	OPT_PRIVATE,
	OPT_FORCE,
	OPT_VERSION
};

static const struct option long_options[] = {
	{"runtime-dir", required_argument, NULL, OPT_RUNTIME_DIR},
	{"spool", required_argument, NULL, OPT_SPOOL},
	{"private", no_argument, NULL, OPT_PRIVATE},
	{"force", no_argument, NULL, OPT_FORCE},
	{"verbose", no_argument, NULL, 'v'},
	{"quiet", no_argument, NULL, 'q'},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, OPT_VERSION},
	{0},
};

static const char help_text[] =
	"Usage: stepd-slurm-socket [OPTION...]\n\n"
	"Makes a socket for each step of stepd that runs on this node, in a directory of\n"
	"its own, at which scontrol listpids and other clients of Slurm are answered.\n\n"
	"  --runtime-dir DIR   stepd's runtime directory\n"
	"  --spool DIR         SlurmdSpoolDir of the clients, /run/stepd-slurm if not given;\n"
	"                      never that of a slurmd\n"
	"  --private           only a step's owner and root are served\n"
	"  --force             use the directory, whoever has it\n"
	"  -v, --verbose       log more\n"
	"  -q, --quiet         log errors only\n"
	"  -h, --help          show this\n"
	"  --version           show the version\n\n"
	"Described in stepd-slurm-socket(8).\n";

static int parse_options(struct options *o, int argc, char **argv)
{
	int opt;

	while ((opt = getopt_long(argc, argv, "vqh", long_options, NULL)) != -1) {
		switch (opt) {
		case OPT_RUNTIME_DIR:
			o->runtime_dir = optarg;
			break;
		case OPT_SPOOL:
			o->spool = optarg;
			break;
		case OPT_PRIVATE:
			o->private = true;
			break;
		case OPT_FORCE:
			o->force = true;
			break;
		case OPT_VERSION:
			o->version = true;
			break;
		case 'v':
			o->log.most = LOG_LEVEL_DEBUG;
			break;
		case 'q':
			o->log.most = LOG_LEVEL_ERROR;
			break;
		case 'h':
			o->help = true;
			break;
		default:
			return -EINVAL;
		}
	}
	if (optind < argc)
		(void)fprintf(stderr, "stepd-slurm-socket: '%s' is not an option\n", argv[optind]);
	return optind < argc ? -EINVAL : 0;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void *on_lives(const struct watch_step *step, void *userdata)
{
	const struct listener_step listener_step = {.step = step->step,
		.node = step->node,
		.directory = step->directory,
		.owner = step->owner};
	struct adapter *a = userdata;
	struct listener *listener = NULL;
	struct err err = ERR_INIT;

	assert(a);
	if (listener_open(&a->server, &listener_step, &listener, &err) < 0)
		log_warning(&a->options.log, "step %s has no socket: %s", step->step, err.text);
	else
		log_debug(&a->options.log, "step %s on %s has a socket", step->step, step->node);
	return listener;
}

static void on_gone(void *step_data, void *userdata)
{
	const struct listener *listener = step_data;
	const struct adapter *a = userdata;

	assert(a);
	if (listener)
		log_debug(&a->options.log, "step %s has gone", listener->label);
	(void)listener_close(step_data);
}

static void main_on_lost(const struct err *err, void *userdata)
{
	struct adapter *a = userdata;

	assert(a);
	log_error(&a->options.log, "%s", err->text);
	a->status = EXIT_FAILURE;
	ev_break(a->server.loop, EVBREAK_ALL);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void on_signal(struct ev_loop *loop, ev_signal *watcher, int revents)
{
	(void)watcher;
	(void)revents;
	ev_break(loop, EVBREAK_ALL);
}

/* A descriptor for each client and each step: more than the usual 1,024. */
static void raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max < 65536 ? limit.rlim_max : 65536;
	(void)setrlimit(RLIMIT_NOFILE, &limit); /* with fewer, clients are turned away */
}

static int open_all(struct adapter *a, struct ev_loop *loop, struct err *err)
{
	const struct watch_options watch = {.loop = loop,
		.runtime_dir = a->options.runtime_dir,
		.lives = on_lives,
		.gone = on_gone,
		.lost = main_on_lost,
		.userdata = a};
	int r = spool_open(a->options.spool, a->options.force, &a->spool, err);

	if (r == 0)
		r = server_open(
			&a->server, loop, &a->options.log, a->spool, a->options.private, err);
	if (r == 0)
		r = watch_open(&watch, &a->watch, err);
	return r;
}

static void close_all(struct adapter *a)
{
	a->watch = watch_close(a->watch);
	if (a->server.loop)
		server_close(&a->server);
	a->spool = spool_close(a->spool);
}

static void notify_manager(const struct adapter *a, const char *lines)
{
	int r = notify_send("%s", lines);

	if (r < 0)
		log_warning(&a->options.log,
			"can't notify the service manager (NOTIFY_SOCKET): %s, ignoring",
			strerror(-r));
}

static int run(struct adapter *a)
{
	static const int signals[] = {SIGTERM, SIGINT};
	struct ev_loop *loop = ev_loop_new(EVFLAG_NOENV);
	ev_signal watchers[ARRAY_SIZE(signals)];
	struct err err = ERR_INIT;
	size_t i;

	if (!loop) {
		log_error(&a->options.log, "can't make an event loop");
		return EXIT_FAILURE;
	}
	for (i = 0; i < ARRAY_SIZE(signals); i++) {
		ev_signal_init(&watchers[i], on_signal, signals[i]);
		ev_signal_start(loop, &watchers[i]);
	}
	if (open_all(a, loop, &err) < 0) {
		log_error(&a->options.log, "%s", err.text);
		a->status = EXIT_FAILURE;
	} else {
		log_info(&a->options.log, "sockets are in '%s'", spool_get_path(a->spool));
		notify_manager(a, "READY=1\n");
		ev_run(loop, 0);
		notify_manager(a, "STOPPING=1\n");
	}
	close_all(a);
	for (i = 0; i < ARRAY_SIZE(signals); i++)
		ev_signal_stop(loop, &watchers[i]);
	ev_loop_destroy(loop);
	return a->status;
}

int main(int argc, char **argv)
{
	struct adapter a = {.options = {.spool = DEFAULT_SPOOL,
				    .log = {.fd = STDERR_FILENO,
					    .most = LOG_LEVEL_INFO,
					    .ident = "stepd-slurm-socket"}}};

	if (parse_options(&a.options, argc, argv) < 0) {
		(void)fprintf(stderr, "Try 'stepd-slurm-socket --help'.\n");
		return 2;
	}
	if (a.options.help || a.options.version) {
		(void)printf("%s", a.options.help ? help_text : PACKAGE_STRING "\n");
		return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
	}
	/* The reader of our messages may go. */
	(void)signal(SIGPIPE, SIG_IGN);
	raise_descriptors();
	return run(&a);
}
