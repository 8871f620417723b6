/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "stepd/base/clock.h"
#include "stepd/base/err.h"
#include "stepd/cli/bootstrap.h"
#include "stepd/cli/cli.h"
#include "stepd/cli/run/run_options.h"
#include "stepd/frontend/frontends.h"
#include "stepd/process/process.h"
#include "stepd/spec/spec.h"
#include "stepd/step/agent.h"
#include "stepd/step/result.h"

extern char **environ;

/* Completes the spec by the site's configuration and the engine's PMI. */
static int complete_spec(struct run_options *o, struct agent_options *options, struct err *err)
{
	struct spec *spec = NULL;
	int changed = site_apply(&o->site, 0, options, o->doc, err), r = 0;

	if (changed < 0)
		return changed;
	if (o->bootstrap)
		r = bootstrap_fill(o->bootstrap, environ, o->doc, err);
	if (r == 0 && (changed || o->bootstrap))
		r = spec_from_json(o->doc, &spec, err);
	if (r < 0)
		return r;
	if (spec) {
		(void)spec_free(o->spec);
		o->spec = spec;
	}
	return spec_take_fds(o->spec, err);
}

static int run(struct run_options *o, uint64_t start_ns)
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
		.step_hooks_fd = -1,
		.supervisor_fd = -1,
		.start_ns = start_ns,
		.log = &log,
		.version = stepd_version,
		.frontend = &frontends,
	};
	struct err err = ERR_INIT;
	int code = STATUS_FAILED, r;

	r = complete_spec(o, &options, &err);
	(void)snprintf(log.ident, sizeof(log.ident), "stepd");
	if (o->spec)
		service_name_log(&log, o->spec);
	log.crlf = o->spec && o->spec->pty_count > 0 && isatty(log.fd);
	service_use_journal(&log);
	if (o->verbosity > 0)
		log.most = LOG_LEVEL_DEBUG;
	else if (o->verbosity < 0)
		log.most = LOG_LEVEL_ERROR;
	if (r == 0) {
		options.listen_fd = &o->spec->wire.listen_fd;
		r = agent_run(o->spec, &options, &code, &err);
	}
	if (r < 0) {
		log_error(&log, "%s", err.text);
		return STATUS_FAILED;
	}
	return code;
}

int cli_run(int argc, char **argv)
{
	uint64_t start_ns = clock_now_ns();
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
	if (r == 0 && options.mpi_list) {
		r = plugins_print_mpi(options.plugin_dir, &err);
		if (r == 0)
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
