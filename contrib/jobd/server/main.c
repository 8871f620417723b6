/* SPDX-License-Identifier: BSD-3-Clause
 *
 * jobd: a job queue over stepd's agents, with the configuration and the select plugins of Slurm.
 */
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "config.h"
#include "contrib/jobd/server/daemon.h"
#include "contrib/jobd/server/here.h"
#include "contrib/jobd/sim/replay.h"
#include "contrib/jobd/sim/simulate.h"
#include "stepd/cli/options.h"
#include "stepd/plugin/plugin.h"

#define EXIT_USAGE 2

struct options {
	struct daemon_options daemon;
	bool here, replay, check_conf;
	struct simulate_options simulate;
	bool verbose, quiet, help, version;
	struct log log;
};

/* The agents have another working directory. */
static int take_path(const struct cli_option *option, const char *arg, void *into, struct err *err)
{
	if (arg[0] != '/')
		return err_set_text(err, -EINVAL, "needs an absolute path, not '%.200s'", arg);
	return cli_take_text(option, arg, into, err);
}

#define AT(member_) offsetof(struct options, member_)

/* clang-format off */
static const struct cli_option rows[] = {
	{.name = "conf", .letter = 'f', .arg = "FILE", .take = cli_take_text, .offset = AT(daemon.conf_file),
	 .heading = "Modes",
	 .doc = "serve the queue that this slurm.conf describes"},
	{.name = "here", .take = cli_take_flag, .offset = AT(here),
	 .doc = "make this machine a queue, with a configuration made for it"},
	{.name = "replay", .take = cli_take_flag, .offset = AT(replay),
	 .doc = "replay recorded CASEs in virtual time, and compare"},
	{.name = "check-conf", .take = cli_take_flag, .offset = AT(check_conf),
	 .doc = "read the configuration of --conf, and report what is wrong"},
	{.name = "simulate", .arg = "TRACE", .take = cli_take_text, .offset = AT(simulate.trace_file),
	 .doc = "run the jobs of TRACE in virtual time with the configuration of --conf"},
	{.name = "compare", .arg = "FILE", .take = cli_take_text, .offset = AT(simulate.other_conf),
	 .heading = "Simulations",
	 .doc = "simulate this configuration, too, and show both"},
	{.name = "compare-qos", .arg = "FILE", .take = cli_take_text, .offset = AT(simulate.other_qos),
	 .doc = "its QOSName= lines (those of --qos)"},
	{.name = "map", .arg = "OLD=NEW,...", .take = cli_take_text, .offset = AT(simulate.conf.map),
	 .doc = "partitions of the trace that the configuration does not have; * for all, no NEW for the default"},
	{.name = "json", .arg = "FILE", .take = cli_take_text, .offset = AT(simulate.json_file),
	 .doc = "write the results as JSON, with each job; - for standard output"},
	{.name = "svg", .arg = "FILE", .take = cli_take_text, .offset = AT(simulate.svg_file),
	 .doc = "draw which jobs were on which nodes when"},
	{.name = "qos", .arg = "FILE", .take = cli_take_text, .offset = AT(daemon.qos_file),
	 .heading = "How",
	 .doc = "QOSName= lines, since there is no slurmdbd"},
	{.name = "state", .arg = "DIR", .take = cli_take_text, .offset = AT(daemon.state_dir),
	 .doc = "directory of the state (StateSaveLocation, or /var/lib/jobd)"},
	{.name = "socket", .arg = "PATH", .take = cli_take_text, .offset = AT(daemon.socket),
	 .doc = "the socket to listen at (/run/jobd/socket; $XDG_RUNTIME_DIR/jobd/socket)"},
	{.name = "plugin-dir", .arg = "DIR", .take = cli_take_text, .offset = AT(daemon.plugin_dir),
	 .doc = "directory of plugins, its own and the agents'"},
	{.name = "stepd", .arg = "PROGRAM", .take = take_path, .offset = AT(daemon.stepd),
	 .doc = "the agents' program"},
	{.name = "runtime-dir", .arg = "DIR", .take = take_path, .offset = AT(daemon.runtime_dir),
	 .doc = "runtime directory of the agents"},
	{.name = "cgroup-root", .arg = "DIR", .take = take_path, .offset = AT(daemon.cgroup_root),
	 .doc = "cgroup in which the agents make those of their steps"},
	{.name = "launcher", .arg = "COMMAND", .take = cli_take_text, .offset = AT(daemon.launcher),
	 .doc = "for sh(1), runs %c (quoted: %q) on host %h"},
	{.name = "step-launcher", .arg = "LAUNCHER", .take = cli_take_text, .offset = AT(daemon.step_launcher),
	 .doc = "STEPRUN_LAUNCHER of jobs, for steprun in them"},
	{.name = "allow-swap", .take = cli_take_flag, .offset = AT(daemon.allow_swap),
	 .doc = "jobs whose memory is limited may use swap"},
	{.name = "verbose", .letter = 'v', .take = cli_take_flag, .offset = AT(verbose),
	 .heading = "Messages",
	 .doc = "log more"},
	{.name = "quiet", .letter = 'q', .take = cli_take_flag, .offset = AT(quiet),
	 .doc = "log errors only"},
	{.name = "help", .letter = 'h', .take = cli_take_help, .offset = AT(help),
	 .doc = "show this"},
	{.name = "version", .take = cli_take_help, .offset = AT(version),
	 .doc = "show the version"},
};
/* clang-format on */

static void print_help(void)
{
	(void)printf("Usage: jobd --conf FILE [OPTION...]\n"
		     "       jobd --here [OPTION...]\n"
		     "       jobd --check-conf --conf FILE [--qos FILE]\n"
		     "       jobd --simulate TRACE --conf FILE [--qos FILE] [--compare FILE] "
		     "[OPTION...]\n"
		     "       jobd --replay CASE...\n");
	cli_options_print(rows, ARRAY_SIZE(rows), stdout);
	(void)printf("\nDescribed in jobd(8).\n");
}

static int check_simulation(const struct options *o, struct err *err)
{
	const struct simulate_options *s = &o->simulate;

	if (!s->trace_file &&
		(s->other_conf || s->other_qos || s->conf.map || s->json_file || s->svg_file))
		return err_set_text(err, -EINVAL,
			"--compare, --compare-qos, --map, --json and --svg are for --simulate");
	if (s->trace_file && (!o->daemon.conf_file || o->check_conf))
		return err_set_text(err, -EINVAL,
			"--simulate needs a configuration, --conf FILE, and excludes --check-conf");
	if (s->other_qos && !s->other_conf)
		return err_set_text(err, -EINVAL, "--compare-qos needs --compare FILE");
	if (s->json_file && s->svg_file && strcmp(s->json_file, "-") == 0 &&
		strcmp(s->svg_file, "-") == 0)
		return err_set_text(err, -EINVAL, "--json and --svg can't both be standard output");
	return 0;
}

static int check_options(const struct options *o, int arguments, struct err *err)
{
	const int modes = o->here + o->replay + (o->check_conf || o->daemon.conf_file);

	if (check_simulation(o, err) < 0)
		return err->code;
	if (modes > 1)
		return err_set_text(err, -EINVAL, "--conf, --here and --replay exclude each other");
	if (modes == 0 || (o->check_conf && !o->daemon.conf_file))
		return err_set_text(err, -EINVAL,
			"name a configuration with --conf, or use this machine with --here");
	if (o->replay && arguments == 0)
		return err_set_text(err, -EINVAL, "--replay needs a CASE");
	if (!o->replay && arguments > 0)
		return err_set_text(err, -EINVAL, "only --replay has arguments");
	return 0;
}

/* ---- the build tree -----------------------------------------------------------------------------
 */

#define FOLDER "/contrib/jobd/server"

/* A program of the build tree that this one is in; NULL: it is in none, or has no such program. */
static char *find_in_build_tree(const char *name)
{
	_cleanup_free_ char *exe = realpath("/proc/self/exe", NULL), *path = NULL;
	char *slash = exe ? strrchr(exe, '/') : NULL;
	size_t size;

	if (!slash)
		return NULL;
	*slash = '\0';
	size = strlen(exe);
	if (size < strlen(FOLDER) || strcmp(exe + size - strlen(FOLDER), FOLDER) != 0)
		return NULL;
	exe[size - strlen(FOLDER)] = '\0';
	if (asprintf(&path, "%s/%s", exe, name) < 0) {
		path = NULL;
		return NULL;
	}
	return access(path, X_OK) == 0 ? take_ptr(path) : NULL;
}

/* ---- --here -------------------------------------------------------------------------------------
 */

struct here_context {
	const struct options *options;
	const struct here *here;
	const char *conf_file;
	const char *socket;
	const char *program; /* jobctl, as it is to be typed */
};

static void print_here(void *userdata)
{
	const struct here_context *c = userdata;
	const bool is_default = strcmp(c->socket, "/run/jobd/socket") == 0;
	const char *set = is_default ? "" : "JOBD_SOCKET=", *path = is_default ? "" : c->socket;
	const char *blank = is_default ? "" : " ";

	(void)printf("This machine is a queue: node %s, %u CPUs, %llu MB%s.\n"
		     "Its socket is %s, its configuration %s.\n"
		     "Try in another terminal:\n\n"
		     "  %s%s%s%s submit --wrap 'hostname; sleep 30'\n"
		     "  %s%s%s%s queue\n"
		     "  %s%s%s%s nodes\n\n"
		     "^C stops jobd; running jobs continue.\n",
		c->here->host, c->here->cpus, (unsigned long long)c->here->memory_mb,
		c->here->limits_memory ? "" : " (which jobs are not limited to)", c->socket,
		c->conf_file, set, path, blank, c->program, set, path, blank, c->program, set, path,
		blank, c->program);
	(void)fflush(stdout); /* whoever started it may have no terminal: nobody reads it then */
}

static int run_here(struct options *o, struct err *err)
{
	_cleanup_free_ char *dir = NULL, *conf_file = NULL, *socket = NULL,
			    *program = find_in_build_tree("contrib/jobd/cli/jobctl");
	struct here_context context = {.options = o};
	struct here here;
	int r = here_find(&here, o->daemon.cgroup_root, err);

	if (r == 0 && !o->daemon.state_dir) {
		r = here_make_state_dir(&dir, err);
		o->daemon.state_dir = dir;
	}
	if (r == 0)
		r = here_write_conf(&here, o->daemon.state_dir, &conf_file, err);
	if (r == 0 && !o->daemon.socket) {
		r = daemon_make_socket_path(&socket, err);
		o->daemon.socket = socket;
	}
	if (r < 0)
		return r;
	o->daemon.conf_file = context.conf_file = conf_file;
	context.here = &here;
	context.socket = o->daemon.socket;
	context.program = program ? program : "jobctl";
	o->daemon.on_ready = print_here;
	o->daemon.userdata = &context;
	return daemon_run(&o->daemon, err);
}

/* ---- --replay -----------------------------------------------------------------------------------
 */

static int run_replay(const struct options *o, int count, char **cases, struct err *err)
{
	_cleanup_free_ char *plugin_dir = NULL;
	int r = plugin_dir_find(o->daemon.plugin_dir, &plugin_dir, err);

	return r < 0 ? r : replay_main(count, cases, plugin_dir, &o->log);
}

/* ---- --simulate ---------------------------------------------------------------------------------
 */

static int run_simulation(struct options *o, struct err *err)
{
	struct simulate_options *s = &o->simulate;
	_cleanup_free_ char *plugin_dir = NULL;
	int r = plugin_dir_find(o->daemon.plugin_dir, &plugin_dir, err);

	if (r < 0)
		return r;
	s->conf.conf_file = o->daemon.conf_file;
	s->conf.qos_file = o->daemon.qos_file;
	s->conf.plugin_dir = plugin_dir;
	s->conf.lists_jobs = s->json_file || s->svg_file;
	s->conf.log = &o->log;
	return simulate_main(s);
}

/* ---- the program --------------------------------------------------------------------------------
 */

/* A descriptor for each client and for each agent: more than the usual 1,024. */
static void raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max < 65536 ? limit.rlim_max : 65536;
	(void)setrlimit(RLIMIT_NOFILE, &limit); /* with fewer, clients are turned away */
}

static int run(struct options *o, int count, char **arguments)
{
	_cleanup_free_ char *stepd = find_in_build_tree("stepd/cli/stepd");
	struct err err = ERR_INIT;
	int r;

	if (!o->daemon.stepd)
		o->daemon.stepd = stepd;
	if (o->replay)
		r = run_replay(o, count, arguments, &err);
	else if (o->simulate.trace_file)
		r = run_simulation(o, &err);
	else if (o->check_conf)
		r = daemon_check_conf(&o->daemon, stdout, &err);
	else if (o->here)
		r = run_here(o, &err);
	else
		r = daemon_run(&o->daemon, &err);
	if (r < 0)
		log_error(&o->log, "%s", err.text);
	return r < 0 ? EXIT_FAILURE : r > 0 ? r : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct options o = {.log = {.fd = STDERR_FILENO, .most = LOG_LEVEL_INFO, .ident = "jobd"}};
	struct cli_options options = {.rows = rows,
		.n = ARRAY_SIZE(rows),
		.command = "jobd",
		.anywhere = true,
		.most = -1};
	struct err err = ERR_INIT;
	int rest = argc, status;

	if (cli_options_parse(&options, argc, argv, &o, &rest, &err) < 0 ||
		(!o.help && !o.version && check_options(&o, argc - rest, &err) < 0)) {
		(void)fprintf(stderr, "jobd: %s\nTry 'jobd --help'.\n", err.text);
		return EXIT_USAGE;
	}
	if (o.help || o.version) {
		if (o.help)
			print_help();
		else
			(void)printf("jobd %s\n", PACKAGE_VERSION);
		return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
	}
	o.log.most = o.quiet ? LOG_LEVEL_ERROR : o.verbose ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO;
	o.daemon.log = &o.log;
	(void)signal(SIGPIPE, SIG_IGN); /* the reader of our messages may go */
	(void)umask(022);
	raise_descriptors();
	status = run(&o, argc - rest, argv + rest);
	return fflush(stdout) == 0 ? status : EXIT_FAILURE;
}
