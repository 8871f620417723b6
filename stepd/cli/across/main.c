/* SPDX-License-Identifier: BSD-3-Clause
 *
 * steprun: the client that starts a step, here or on several nodes.
 */
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "stepd/api/env.h"
#include "stepd/base/parse.h"
#include "stepd/base/status.h"
#include "stepd/cli/across/across.h"
#include "stepd/cli/across/here.h"
#include "stepd/cli/across/hooks.h"
#include "stepd/cli/mpi_list.h"
#include "stepd/cli/program.h"
#include "stepd/cli/site_config.h"
#include "stepd/cli/version.h"
#include "stepd/process/process.h"
#include "stepd/spec/spec.h"

extern char **environ;

static int find_program(struct steprun_options *o, struct err *err)
{
	int r = o->program ? 0 : program_find_stepd(&o->program, err);

	o->launcher.program = o->program;
	return r;
}

/* Who the step is, so that all of its nodes and hooks know it by the same name. In an allocation it
 * is the job's, and has a number that no other step of it has. */
static int name_step(struct steprun_options *o, struct err *err)
{
	const char *job =
		o->launcher.kind == LAUNCHER_SLURM ? stepd_env_get(environ, "SLURM_JOB_ID") : NULL;
	json_t *doc = o->run.doc;
	uint32_t id = (uint32_t)getpid(), step = 0;
	int r = 0;

	if (job && parse_u32(job, 1, UINT32_MAX - 1, &id) == 0)
		step = (uint32_t)getpid();
	if (!json_object_get(doc, "job"))
		r |= json_object_set_new(doc, "job", json_integer(id));
	if (!json_object_get(doc, "step"))
		r |= json_object_set_new(doc, "step", json_integer(step));
	if (o->here && r == 0)
		r = json_object_set_new(doc, "node", json_pack("{s:s}", "name", o->nodes.v[0]));
	return r < 0 ? err_set(err, -ENOMEM, "name the step") : 0;
}

static int apply_site(struct steprun_options *o, struct err *err)
{
	struct site_config config = SITE_CONFIG_INIT;
	int r = site_config_read(o->run.site.config_file, &config, err);

	if (r == 0)
		r = site_config_fill_spec(&config, o->run.doc, err);
	if (r < 0)
		return r;
	o->launcher.ifname =
		json_string_value(json_object_get(json_object_get(o->run.doc, "wire"), "ifname"));
	return 0;
}

static int run(struct steprun_options *o, int *ret_code, struct err *err)
{
	_cleanup_(hooks_clear) struct hooks hooks = {0};
	struct err own = ERR_INIT;
	int r = find_program(o, err);

	if (r == 0)
		r = name_step(o, err);
	if (r == 0)
		r = apply_site(o, err);
	if (r == 0)
		r = hooks_prelaunch(o->run.plugin_dir, o->run.doc, o->layout.nodes,
			o->layout.ntasks, &hooks, err);
	if (r < 0)
		return r;
	r = o->here ? here_run(o, ret_code, err) : across_run(o, ret_code, err);
	if (hooks_fini(&hooks, &own) < 0 && r == 0)
		r = err_say(err, own.code, "%s", own.text);
	return r;
}

static int parse(int argc, char **argv, struct steprun_options *o, bool *done, struct err *err)
{
	int r;

	if (argc >= 2 && strcmp(argv[1], "--version") == 0) {
		printf("steprun %s\n", stepd_version);
		*done = true;
		return 0;
	}
	r = steprun_options_parse(argc, argv, environ, o, err);
	if (r < 0)
		return r;
	*done = o->run.help || o->run.mpi_list || o->run.print_spec;
	if (o->run.help)
		steprun_options_print_help(stdout);
	else if (o->run.mpi_list)
		r = mpi_list_print(o->run.plugin_dir, stdout, err);
	else if (o->run.print_spec)
		r = run_options_print_spec(&o->run, stdout, err);
	if (r == 0 && *done && (fflush(stdout) != 0 || ferror(stdout)))
		r = err_set(err, errno ? -errno : -EIO, "write to standard output");
	return r;
}

int main(int argc, char **argv)
{
	_cleanup_(steprun_options_clear) struct steprun_options options = STEPRUN_OPTIONS_INIT;
	struct err err = ERR_INIT;
	int code = STATUS_FAILED;
	bool done = false;
	int r = process_prepare(&err);

	if (r == 0)
		r = parse(argc, argv, &options, &done, &err);
	if (r == 0 && !done)
		r = run(&options, &code, &err);
	if (r < 0) {
		fprintf(stderr, "steprun: %s\n", err.text);
		return STATUS_FAILED;
	}
	return done ? 0 : code;
}
