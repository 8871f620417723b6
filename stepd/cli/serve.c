/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepd serve: the agent as a node daemon starts it; and stepd adopt, which goes on with a step
 * whose agent has died.
 */
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "stepd/account/sample_text.h"
#include "stepd/base/clock.h"
#include "stepd/base/log.h"
#include "stepd/base/parse.h"
#include "stepd/cli/cli.h"
#include "stepd/cli/site.h"
#include "stepd/cli/version.h"
#include "stepd/frontend/frontends.h"
#include "stepd/process/process.h"
#include "stepd/spec/spec.h"
#include "stepd/spec/spec_json.h"
#include "stepd/step/adopt.h"
#include "stepd/step/agent.h"
#include "stepd/step/service.h"

struct serve {
	const char *adopt; /* the step to take over; NULL: begin the one of the spec */
	const char *spec_file;
	int spec_fd;
	struct agent_options agent;
	struct site_options site;
	struct log log;
	bool help;
};

enum {
	OPT_SPEC = 256,
	OPT_ADOPT,
	OPT_ENDED_ONLY,
	OPT_SPEC_FD,
	OPT_READY_FD,
	OPT_SUPERVISOR_FD,
	OPT_RESULT,
	OPT_KEEP_RESULT,
	OPT_CONFIG,
	OPT_SAMPLE,
	OPT_TRACE,
	OPT_USAGE,
	OPT_PLUGIN_DIR,
	OPT_RUNTIME_DIR
};

static const struct option long_options[] = {
	{"spec", required_argument, NULL, OPT_SPEC},
	{"adopt", required_argument, NULL, OPT_ADOPT},
	{"ended-only", no_argument, NULL, OPT_ENDED_ONLY},
	{"spec-fd", required_argument, NULL, OPT_SPEC_FD},
	{"ready-fd", required_argument, NULL, OPT_READY_FD},
	{"keeper-fd", required_argument, NULL, OPT_SUPERVISOR_FD},
	{"result", required_argument, NULL, OPT_RESULT},
	{"keep-result", required_argument, NULL, OPT_KEEP_RESULT},
	{"config", required_argument, NULL, OPT_CONFIG},
	{"sample", required_argument, NULL, OPT_SAMPLE},
	{"trace", required_argument, NULL, OPT_TRACE},
	{"usage", no_argument, NULL, OPT_USAGE},
	{"plugin-dir", required_argument, NULL, OPT_PLUGIN_DIR},
	{"runtime-dir", required_argument, NULL, OPT_RUNTIME_DIR},
	{"verbose", no_argument, NULL, 'v'},
	{"quiet", no_argument, NULL, 'q'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

static const char help_text[] =
	"Usage: stepd serve --spec FILE | --spec-fd N | --adopt STEP [OPTION...]\n\n"
	"  --spec FILE         the step's spec, a JSON document (stepd-spec(5))\n"
	"  --spec-fd N         the same from an open descriptor, read to its end\n"
	"  --adopt STEP        take over this step, whose agent has died\n"
	"  --ready-fd N        write a line of JSON there once the step runs\n"
	"  --keeper-fd N       end the step when this socket hangs up; the result goes there, too\n"
	"  --result FILE       write the result there at the end; - is standard output\n"
	"  --keep-result DURATION\n"
	"                      how long the result stays in the step's directory (1h)\n"
	"  --config FILE       the site's configuration, stepd.conf(5)\n"
	"  --sample INTERVAL FILE\n"
	"                      write what the step uses there, over time\n"
	"  --trace FILE        write the phases of the launch there, as Chrome's trace JSON\n"
	"  --usage             print at the end what the step and its tasks have used\n"
	"  --plugin-dir DIR    where the plugins are\n"
	"  --runtime-dir DIR   where the node's steps are registered\n"
	"  -v, --verbose       say more\n"
	"  -q, --quiet         say errors only\n"
	"  -h, --help          show this\n\n"
	"Exits with the step's status; 123 to 127 are described in stepd(8).\n";

static const char adopt_help_text[] =
	"Usage: stepd adopt [OPTION...] STEP\n"
	"Takes over a step, JOB.STEP or NODE/JOB.STEP, whose agent has died.\n\n"
	"  --ended-only        only a step that has no living process: write its result, clean up\n"
	"  --ready-fd N        write a line of JSON there once it has been taken over\n"
	"  --keeper-fd N       end the step when this socket hangs up; the result goes there, too\n"
	"  --result FILE       write the result there at the end; - is standard output\n"
	"  --keep-result DURATION\n"
	"                      how long the result stays in the step's directory\n"
	"  --config FILE       the site's configuration, stepd.conf(5)\n"
	"  --plugin-dir DIR    where the plugins are\n"
	"  --runtime-dir DIR   where the node's steps are registered\n"
	"  -v, --verbose       say more\n"
	"  -q, --quiet         say errors only\n"
	"  -h, --help          show this\n\n"
	"What is not given is as the dead agent was told. Exits with the step's status; 120 to 127 are\n"
	"described in stepd(8).\n";

/* An open descriptor by its number. */
static int parse_fd(const char *option, const char *text, int *ret_fd, struct err *err)
{
	uint32_t fd;

	if (parse_u32(text, 0, 1u << 20, &fd) < 0)
		return err_say(err, -EINVAL, "%s: '%s' is no descriptor's number", option, text);
	if (fcntl((int)fd, F_GETFD) < 0)
		return err_set(err, -errno, "%s: descriptor %u", option, fd);
	/* One of the three stays what it is for the tasks: a copy of it is closed in its place. */
	*ret_fd = fd > STDERR_FILENO ? (int)fd : fcntl((int)fd, F_DUPFD_CLOEXEC, 3);
	return *ret_fd < 0 ? err_set(err, -errno, "%s: copy descriptor %u", option, fd) : 0;
}

static int parse_supervisor_fd(const char *text, int *ret_fd, struct err *err)
{
	struct stat st;
	int r = parse_fd("--keeper-fd", text, ret_fd, err);

	if (r == 0 && (fstat(*ret_fd, &st) < 0 || !S_ISSOCK(st.st_mode)))
		return err_say(err, -ENOTSOCK, "--keeper-fd: descriptor %s is no socket", text);
	return r;
}

/* The option's second word is the file: getopt_long() knows of the first one only. */
static int parse_sample(struct serve *s, int argc, char **argv, struct err *err)
{
	if (optind >= argc)
		return err_say(err, -EINVAL, "--sample needs an interval and a file");
	s->agent.sample_file = argv[optind++];
	return sample_parse_interval(optarg, &s->agent.sample_interval_ms, err);
}

static int parse_option(struct serve *s, int opt, struct err *err)
{
	switch (opt) {
	case OPT_SPEC:
		s->spec_file = optarg;
		return 0;
	case OPT_ADOPT:
		s->adopt = optarg;
		return 0;
	case OPT_ENDED_ONLY:
		s->agent.remains_only = true;
		s->agent.frontend = NULL; /* for a moment nobody needs its socket */
		return 0;
	case OPT_SPEC_FD:
		return parse_fd("--spec-fd", optarg, &s->spec_fd, err);
	case OPT_READY_FD:
		return parse_fd("--ready-fd", optarg, &s->agent.ready_fd, err);
	case OPT_SUPERVISOR_FD:
		return parse_supervisor_fd(optarg, &s->agent.supervisor_fd, err);
	case OPT_RESULT:
		s->agent.result_file = optarg;
		return 0;
	case OPT_KEEP_RESULT:
		return site_take_keep_result(&s->site, optarg, err);
	case OPT_CONFIG:
		s->site.config_file = optarg;
		return 0;
	case OPT_TRACE:
		s->agent.trace_file = optarg;
		return 0;
	case OPT_USAGE:
		s->agent.usage_table = true;
		return 0;
	case OPT_PLUGIN_DIR:
		s->agent.plugin_dir = optarg;
		return 0;
	case OPT_RUNTIME_DIR:
		s->agent.runtime_dir = optarg;
		return 0;
	case 'v':
		s->log.most = LOG_LEVEL_DEBUG;
		return 0;
	case 'q':
		s->log.most = LOG_LEVEL_ERROR;
		return 0;
	case 'h':
		s->help = true;
		return 0;
	default:
		return err_say(err, -EINVAL, "wrong option (see --help)");
	}
}

static int parse_arguments(struct serve *s, int argc, char **argv, struct err *err)
{
	int opt, r;

	while ((opt = getopt_long(argc, argv, "+vqh", long_options, NULL)) != -1) {
		r = opt == OPT_SAMPLE ? parse_sample(s, argc, argv, err)
				      : parse_option(s, opt, err);
		if (r < 0 || s->help)
			return r;
	}
	if (strcmp(argv[0], "adopt") == 0 && !s->adopt && optind < argc)
		s->adopt = argv[optind++];
	if (optind < argc)
		return err_say(err, -EINVAL, "'%s' is no option (see --help)", argv[optind]);
	if ((s->spec_file != NULL) + (s->spec_fd >= 0) + (s->adopt != NULL) != 1)
		return err_say(err, -EINVAL, "%s",
			strcmp(argv[0], "adopt") == 0
				? "give one step, JOB.STEP or NODE/JOB.STEP"
				: "give one of --spec FILE, --spec-fd N and --adopt STEP");
	if (!s->adopt && s->agent.remains_only)
		return err_say(err, -EINVAL, "--ended-only is of a step that is adopted");
	if (s->adopt && s->agent.trace_file)
		return err_say(err, -EINVAL, "--trace: an adopted step has no launch");
	if (s->agent.supervisor_fd >= 0 && s->agent.supervisor_fd == s->agent.ready_fd)
		return err_say(err, -EINVAL, "--ready-fd and --keeper-fd: %d can't be both",
			s->agent.ready_fd);
	if (s->spec_fd >= 0 &&
		(s->spec_fd == s->agent.ready_fd || s->spec_fd == s->agent.supervisor_fd))
		return err_say(err, -EINVAL, "--spec-fd and --%s-fd: %d can't be both",
			s->spec_fd == s->agent.ready_fd ? "ready" : "keeper", s->spec_fd);
	return 0;
}

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

/* The spec, with what the site has decided and the document does not say. */
static int make_spec(struct serve *s, struct spec **ret_spec, struct err *err)
{
	json_t *doc = NULL;
	int r = read_doc(s, &doc, err);

	if (r == 0)
		r = site_apply(&s->site, SITE_SERVE_KEEP_RESULT_MS, &s->agent, doc, err);
	if (r >= 0)
		r = spec_from_json(doc, ret_spec, err);
	json_decref(doc);
	return r < 0 ? r : spec_take_fds(*ret_spec, err);
}

static int adopt(struct serve *s)
{
	struct err err = ERR_INIT;
	int code = STATUS_FAILED;

	(void)snprintf(s->log.ident, sizeof(s->log.ident), "stepd %s", s->adopt);
	service_use_journal(&s->log);
	if (!s->site.keep_result_given)
		s->agent.keep_result_ms = AGENT_KEEP_AS_BEFORE;
	if (agent_adopt(s->adopt, &s->agent, &code, &err) < 0) {
		log_error(&s->log, "%s", err.text);
		return STATUS_FAILED;
	}
	return code;
}

static int serve(struct serve *s)
{
	_cleanup_spec_ struct spec *spec = NULL;
	struct err err = ERR_INIT;
	int code = STATUS_FAILED, r;

	if (s->adopt) {
		r = site_apply(&s->site, SITE_SERVE_KEEP_RESULT_MS, &s->agent, NULL, &err);
		if (r == 0)
			return adopt(s);
	} else {
		r = make_spec(s, &spec, &err);
	}
	if (r == 0) {
		service_name_log(&s->log, spec);
		service_use_journal(&s->log);
		s->agent.listen_fd = &spec->wire.listen_fd;
		r = agent_run(spec, &s->agent, &code, &err);
	}
	if (r < 0) {
		log_error(&s->log, "%s", err.text);
		return STATUS_FAILED;
	}
	return code;
}

int cli_serve(int argc, char **argv)
{
	struct serve s = {
		.spec_fd = -1,
		.agent = {.ready_fd = -1,
			.supervisor_fd = -1,
			.start_ns = clock_now_ns(),
			.log = &s.log,
			.version = stepd_version,
			.frontend = &frontends},
		.log = {.fd = STDERR_FILENO, .most = LOG_LEVEL_INFO, .ident = "stepd"},
	};
	struct err err = ERR_INIT;
	int r;

	r = process_prepare(&err);
	if (r == 0)
		r = parse_arguments(&s, argc, argv, &err);
	if (r < 0) {
		log_error(&s.log, "%s", err.text);
		return STATUS_FAILED;
	}
	if (s.help) {
		fputs(strcmp(argv[0], "adopt") == 0 ? adopt_help_text : help_text, stdout);
		return 0;
	}
	return serve(&s);
}

int cli_adopt(int argc, char **argv)
{
	return cli_serve(argc, argv);
}
