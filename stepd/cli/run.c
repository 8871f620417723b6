/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "stepd/agent/agent.h"
#include "stepd/agent/launch/process.h"
#include "stepd/agent/service.h"
#include "stepd/agent/spec/spec.h"
#include "stepd/agent/trace.h"
#include "stepd/base/log.h"
#include "stepd/cli/cli.h"
#include "stepd/cli/run_options.h"
#include "stepd/cli/version.h"

extern char **environ;

static int run(const struct run_options *o, uint64_t start_ns)
{
	struct log log = {.fd = STDERR_FILENO, .most = LOG_LEVEL_INFO};
	struct agent_options options = {
		.plugin_dir = o->plugin_dir,
		.runtime_dir = o->runtime_dir,
		.trace_file = o->trace,
		.result_file = o->result,
		.sample_file = o->sample,
		.sample_interval_ms = o->sample_interval_ms,
		.usage_table = o->usage,
		.ready_fd = -1,
		.start_ns = start_ns,
		.log = &log,
		.version = stepd_version,
	};
	struct err err = ERR_INIT;
	int code = STATUS_FAILED, r;

	(void)snprintf(
		log.ident, sizeof(log.ident), "stepd %u.%s", o->spec->job_id, o->spec->step_name);
	service_use_journal(&log);
	if (o->verbosity > 0)
		log.most = LOG_LEVEL_DEBUG;
	else if (o->verbosity < 0)
		log.most = LOG_LEVEL_ERROR;
	r = site_apply(&o->site, 0, &options, &err);
	if (r == 0)
		r = agent_run(o->spec, &options, &code, &err);
	if (r < 0) {
		log_error(&log, "%s", err.text);
		return STATUS_FAILED;
	}
	return code;
}

int cli_run(int argc, char **argv)
{
	uint64_t start_ns = trace_now_ns();
	_cleanup_run_options_ struct run_options options = RUN_OPTIONS_INIT;
	struct err err = ERR_INIT;
	int r;

	r = process_prepare(&err);
	if (r == 0)
		r = run_options_parse(argc, argv, environ, &options, &err);
	if (r == 0 && options.help) {
		run_options_print_help(stdout);
		return 0;
	}
	if (r == 0 && options.print_spec)
		r = run_options_print_spec(&options, stdout, &err);
	if (r < 0) {
		fprintf(stderr, "stepd run: %s\n", err.text);
		return STATUS_FAILED;
	}
	return options.print_spec ? 0 : run(&options, start_ns);
}
