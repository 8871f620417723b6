/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepd serve: the agent as a node daemon starts it; stepd adopt, which takes over a step whose
 * agent has died; and stepd continue.
 */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "stepd/account/usage.h"
#include "stepd/base/clock.h"
#include "stepd/base/err.h"
#include "stepd/base/parse.h"
#include "stepd/base/proc.h"
#include "stepd/cli/cli.h"
#include "stepd/cli/options.h"
#include "stepd/cli/site_config.h"
#include "stepd/frontend/frontends.h"
#include "stepd/process/process.h"
#include "stepd/spec/spec.h"
#include "stepd/spec/spec_json.h"
#include "stepd/step/agent.h"
#include "stepd/step/reexec.h"
#include "stepd/step/result.h"

struct serve {
	const char *adopt; /* the step to take over; NULL: start that of the spec */
	const char *spec_file;
	int spec_fd;
	struct agent_options agent;
	struct site_options site;
	struct log log;
	bool help;
};

/* ---- options ------------------------------------------------------------------------------- */

/* An open descriptor by its number. */
static int take_descriptor(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	int *ret_fd = (int *)((char *)into + o->offset);
	uint32_t fd;

	if (parse_u32(arg, 0, 1u << 20, &fd) < 0)
		return err_set_text(err, -EINVAL, "'%s' is not a descriptor's number", arg);
	if (fcntl((int)fd, F_GETFD) < 0)
		return err_set(err, -errno, "descriptor %u", fd);
	/* Standard streams stay as they are for the tasks: a copy is closed instead. */
	*ret_fd = fd > STDERR_FILENO ? (int)fd : fcntl((int)fd, F_DUPFD_CLOEXEC, 3);
	return *ret_fd < 0 ? err_set(err, -errno, "copy descriptor %u", fd) : 0;
}

static int take_socket(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	const int *fd = (const int *)((char *)into + o->offset);
	struct stat st;
	int r = take_descriptor(o, arg, into, err);

	if (r == 0 && (fstat(*fd, &st) < 0 || !S_ISSOCK(st.st_mode)))
		return err_set_text(err, -ENOTSOCK, "descriptor %s is not a socket", arg);
	return r;
}

static int take_ended_only(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	struct serve *s = into;

	(void)o;
	(void)arg;
	(void)err;
	s->agent.remains_only = true;
	s->agent.frontend = NULL; /* for such a short time the socket is not needed */
	return 0;
}

static int take_keep_result(
	const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	(void)o;
	return site_take_keep_result(&((struct serve *)into)->site, arg, err);
}

static int take_interval(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	(void)o;
	return sample_parse_interval(arg, &((struct serve *)into)->agent.sample_interval_ms, err);
}

static int take_verbose(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	(void)o;
	(void)arg;
	(void)err;
	((struct serve *)into)->log.most = LOG_LEVEL_DEBUG;
	return 0;
}

static int take_quiet(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	(void)o;
	(void)arg;
	(void)err;
	((struct serve *)into)->log.most = LOG_LEVEL_ERROR;
	return 0;
}

#define AT(member_) offsetof(struct serve, member_)

/* clang-format off */
/* The options that serve and adopt share. Older launchers pass --keeper-fd. */
#define END_ROWS                                                                                   \
	{.name = "supervisor-fd", .arg = "N", .take = take_socket,                                 \
	 .offset = AT(agent.supervisor_fd),                                                        \
	 .doc = "end the step when this socket hangs up; the result goes there, too"},             \
	{.name = "keeper-fd", .arg = "N", .take = take_socket, .offset = AT(agent.supervisor_fd)}, \
	{.name = "result", .arg = "FILE", .take = cli_take_text, .offset = AT(agent.result_file),  \
	 .doc = "write the result there at the end; - is standard output"}
#define CONFIG_ROW                                                                                 \
	{.name = "config", .arg = "FILE", .take = cli_take_text, .offset = AT(site.config_file),   \
	 .doc = "the site's configuration, stepd.conf(5)"}
#define LAST_ROWS                                                                                  \
	{.name = "plugin-dir", .arg = "DIR", .take = cli_take_text, .offset = AT(agent.plugin_dir), \
	 .doc = "where the plugins are"},                                                          \
	{.name = "runtime-dir", .arg = "DIR", .take = cli_take_text,                               \
	 .offset = AT(agent.runtime_dir), .doc = "where the node's steps are registered"},         \
	{.name = "verbose", .letter = 'v', .take = take_verbose, .doc = "log more"},               \
	{.name = "quiet", .letter = 'q', .take = take_quiet, .doc = "log errors only"},            \
	{.name = "help", .letter = 'h', .take = cli_take_help, .offset = AT(help),                 \
	 .doc = "show this"}

static const struct cli_option serve_rows[] = {
	{.name = "spec", .arg = "FILE", .take = cli_take_text, .offset = AT(spec_file),
	 .doc = "the step's spec, a JSON document (stepd-spec(5))"},
	{.name = "spec-fd", .arg = "N", .take = take_descriptor, .offset = AT(spec_fd),
	 .doc = "the same from an open descriptor, read to its end"},
	{.name = "adopt", .arg = "STEP", .take = cli_take_text, .offset = AT(adopt),
	 .doc = "take over this step, whose agent has died"},
	{.name = "ready-fd", .arg = "N", .take = take_descriptor, .offset = AT(agent.ready_fd),
	 .doc = "write a line of JSON there once the step runs"},
	END_ROWS,
	{.name = "keep-result", .arg = "DURATION", .take = take_keep_result,
	 .doc = "how long the result stays in the step's directory (1h)"},
	CONFIG_ROW,
	{.name = "sample", .arg = "INTERVAL", .arg_second = "FILE", .take = take_interval,
	 .take_second = cli_take_text, .offset = AT(agent.sample_file),
	 .doc = "write what the step uses there, over time"},
	{.name = "step-hooks", .arg = "LIBRARY", .take = cli_take_text, .offset = AT(agent.step_hooks),
	 .doc = "call the functions of this library in the step's course"},
	{.name = "step-hooks-fd", .arg = "N", .take = take_descriptor, .offset = AT(agent.step_hooks_fd),
	 .doc = "a descriptor for that library"},
	{.name = "trace", .arg = "FILE", .take = cli_take_text, .offset = AT(agent.trace_file),
	 .doc = "write the phases of the launch there, as Chrome's trace JSON"},
	{.name = "usage", .take = cli_take_flag, .offset = AT(agent.usage_table),
	 .doc = "print the usage of the step and its tasks at the end"},
	LAST_ROWS,
};

static const struct cli_option adopt_rows[] = {
	{.name = "ended-only", .take = take_ended_only,
	 .doc = "only a step that has no living process: write its result, clean up"},
	{.name = "ready-fd", .arg = "N", .take = take_descriptor, .offset = AT(agent.ready_fd),
	 .doc = "write a line of JSON there once it has been taken over"},
	END_ROWS,
	{.name = "keep-result", .arg = "DURATION", .take = take_keep_result,
	 .doc = "how long the result stays in the step's directory"},
	CONFIG_ROW,
	LAST_ROWS,
};
/* clang-format on */

static void print_serve_help(void)
{
	puts("Usage: stepd serve --spec FILE | --spec-fd N | --adopt STEP [OPTION...]\n");
	cli_options_print(serve_rows, ARRAY_SIZE(serve_rows), stdout);
	puts("\nExits with the step's status; 123 to 127 are described in stepd(8).");
}

static void print_adopt_help(void)
{
	puts("Usage: stepd adopt [OPTION...] STEP\n"
	     "Takes over a step, JOB.STEP or NODE/JOB.STEP, whose agent has died.\n");
	cli_options_print(adopt_rows, ARRAY_SIZE(adopt_rows), stdout);
	puts("\nOptions that are not given are as the dead agent had them. Exits with the "
	     "step's status; 120 to 127 are\ndescribed in stepd(8).");
}

/* Reports options that conflict. */
static int check_options(const struct serve *s, struct err *err)
{
	if (s->adopt && s->agent.trace_file)
		return err_set_text(err, -EINVAL, "--trace: an adopted step has no launch");
	if (s->adopt && s->agent.step_hooks)
		return err_set_text(err, -EINVAL, "--step-hooks: an adopted step has no hooks");
	if (s->agent.step_hooks_fd >= 0 && !s->agent.step_hooks)
		return err_set_text(err, -EINVAL, "--step-hooks-fd is for --step-hooks");
	if (s->agent.supervisor_fd >= 0 && s->agent.supervisor_fd == s->agent.ready_fd)
		return err_set_text(err, -EINVAL,
			"--ready-fd and --supervisor-fd: %d can't be both", s->agent.ready_fd);
	if (s->spec_fd >= 0 &&
		(s->spec_fd == s->agent.ready_fd || s->spec_fd == s->agent.supervisor_fd))
		return err_set_text(err, -EINVAL, "--spec-fd and --%s-fd: %d can't be both",
			s->spec_fd == s->agent.ready_fd ? "ready" : "supervisor", s->spec_fd);
	return 0;
}

static int parse_serve(struct serve *s, int argc, char **argv, struct err *err)
{
	struct cli_options options = {
		.rows = serve_rows, .n = ARRAY_SIZE(serve_rows), .command = "stepd serve"};
	int rest, r = cli_options_parse(&options, argc, argv, s, &rest, err);

	if (r < 0 || s->help)
		return r;
	if ((s->spec_file != NULL) + (s->spec_fd >= 0) + (s->adopt != NULL) != 1)
		return err_set_text(
			err, -EINVAL, "give one of --spec FILE, --spec-fd N and --adopt STEP");
	return check_options(s, err);
}

static int parse_adopt(struct serve *s, int argc, char **argv, struct err *err)
{
	struct cli_options options = {.rows = adopt_rows,
		.n = ARRAY_SIZE(adopt_rows),
		.command = "stepd adopt",
		.most = 1};
	int rest, r = cli_options_parse(&options, argc, argv, s, &rest, err);

	if (r < 0 || s->help)
		return r;
	s->adopt = argv[rest];
	if (!s->adopt)
		return err_set_text(err, -EINVAL, "give one step, JOB.STEP or NODE/JOB.STEP");
	return check_options(s, err);
}

/* ---- the step ------------------------------------------------------------------------------ */

static int read_doc(const struct serve *s, json_t **ret_doc, struct err *err)
{
	_cleanup_close_ int fd = s->spec_fd;

	if (s->spec_file) {
		fd = open(s->spec_file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
		if (fd < 0)
			return err_set(err, -errno, "open the spec '%s'", s->spec_file);
	}
	return spec_json_load_fd(fd, ret_doc, err);
}

/* The spec, completed by the site's configuration. */
static int make_spec(struct serve *s, struct spec **ret_spec, struct err *err)
{
	json_auto_t *doc = NULL;
	int r = read_doc(s, &doc, err);

	if (r == 0)
		r = site_apply(&s->site, SITE_SERVE_KEEP_RESULT_MS, &s->agent, doc, err);
	if (r >= 0)
		r = spec_from_json(doc, ret_spec, err);
	return r < 0 ? r : spec_take_fds(*ret_spec, err);
}

static int adopt(struct serve *s, int *ret_code, struct err *err)
{
	int r = site_apply(&s->site, SITE_SERVE_KEEP_RESULT_MS, &s->agent, NULL, err);

	if (r < 0)
		return r;
	(void)snprintf(s->log.ident, sizeof(s->log.ident), "stepd %s", s->adopt);
	service_use_journal(&s->log);
	if (!s->site.keep_result_given)
		s->agent.keep_result_ms = AGENT_RESULT_TIME_INHERITED;
	return agent_adopt(s->adopt, &s->agent, ret_code, err);
}

static int serve(struct serve *s, int *ret_code, struct err *err)
{
	_cleanup_spec_ struct spec *spec = NULL;
	int r = make_spec(s, &spec, err);

	if (r < 0)
		return r;
	service_name_log(&s->log, spec);
	s->log.crlf = spec->pty_count > 0 && isatty(s->log.fd);
	service_use_journal(&s->log);
	s->agent.listen_fd = &spec->wire.listen_fd;
	return agent_run(spec, &s->agent, ret_code, err);
}

static int become_agent(int argc, char **argv,
	int (*parse)(struct serve *, int, char **, struct err *), void (*print_help)(void))
{
	struct serve s = {
		.spec_fd = -1,
		.agent = {.ready_fd = -1,
			.supervisor_fd = -1,
			.step_hooks_fd = -1,
			.start_ns = clock_now_ns(),
			.log = &s.log,
			.version = stepd_version,
			.frontend = &frontends},
		.log = {.fd = STDERR_FILENO, .most = LOG_LEVEL_INFO, .ident = "stepd"},
	};
	struct err err = ERR_INIT;
	int code = STATUS_FAILED, r;

	r = process_prepare(&err);
	if (r == 0)
		r = parse(&s, argc, argv, &err);
	if (r == 0 && s.help) {
		print_help();
		return 0;
	}
	if (r == 0)
		r = s.adopt ? adopt(&s, &code, &err) : serve(&s, &code, &err);
	if (r < 0) {
		log_error(&s.log, "%s", err.text);
		return STATUS_FAILED;
	}
	return code;
}

int cli_serve(int argc, char **argv)
{
	return become_agent(argc, argv, parse_serve, print_serve_help);
}

int cli_adopt(int argc, char **argv)
{
	return become_agent(argc, argv, parse_adopt, print_adopt_help);
}

/* ---- stepd continue ------------------------------------------------------------------------ */

/* stepd continue: what an agent executes in place of its own program when it is upgraded
 * (reexec.h). Nobody else has the descriptor. */

/* On one line: the agent that is about to be replaced logs it. */
_noreturn_ static void check_continue(int fd)
{
	struct err err = ERR_INIT;
	int r = agent_try_to_continue(fd, stepd_version, &err);

	if (r < 0)
		printf("%s\n", err.text);
	else
		printf(REEXEC_CHECKED "%s\n", stepd_version);
	_exit(fflush(stdout) != 0 || r < 0 ? STATUS_FAILED : 0);
}

int cli_continue(int argc, char **argv)
{
	bool only_check = argc > 1 && strcmp(argv[1], "--check") == 0;
	const char *number = argc > 1 + only_check ? argv[1 + only_check] : "";
	struct err err = ERR_INIT;
	int code = STATUS_FAILED;
	uint32_t fd;

	if (parse_u32(number, STDERR_FILENO + 1, INT32_MAX, &fd) < 0) {
		fprintf(stderr,
			"stepd continue: this is for an agent that is upgraded, see stepd(8), UPGRADING\n");
		return STATUS_FAILED;
	}
	/* By a descriptor, kernels before 6.14 name the process after its number. */
	(void)prctl(PR_SET_NAME, "stepd");
	if (only_check)
		check_continue((int)fd);
	if (agent_continue((int)fd, stepd_version, &frontends, &code, &err) < 0) {
		fprintf(stderr, "stepd continue: %s\n", err.text);
		_exit(STATUS_FAILED); /* the step is another's to take over: nothing is cleared */
	}
	return code;
}
