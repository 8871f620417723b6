/* SPDX-License-Identifier: BSD-3-Clause
 *
 * steprun: the client that starts a step, here or on several nodes, and calls the MPI plugin's two
 * hooks of a client: one before anything is launched, which may change the tasks' environment, and
 * one after all tasks have ended.
 */
#include <ev.h>
#include <jansson.h>
#include <pwd.h>
#include <string.h>

#include "mpi/mpi.h"
#include "stepd/api/env.h"
#include "stepd/api/mpi.h"
#include "stepd/base/parse.h"
#include "stepd/base/proc.h"
#include "stepd/cli/across/session.h"
#include "stepd/cli/options.h"
#include "stepd/cli/cli.h"
#include "stepd/cli/relay/relay_doc.h"
#include "stepd/cli/relay/streams.h"
#include "stepd/cli/relay/supervisor.h"
#include "stepd/cli/site_config.h"
#include "stepd/plugin/plugin.h"
#include "stepd/process/process.h"
#include "stepd/spec/spec.h"

/* ---- a step on this node alone ------------------------------------------------------------- */

/* One agent, without a launcher, which has steprun's own streams. */

struct local {
	const struct steprun_options *options;
	struct ev_loop *loop;
	struct user user;
	struct supervisor *supervisor;
	struct running running;
	struct strv args;
	int code;

	/* For a terminal, which an agent in a process group of its own can't read. */
	struct input input;
	struct inlet inlet;
};

static void local_on_signal(const char *name, void *userdata)
{
	const struct local *l = userdata;

	supervisor_signal(l->supervisor, name);
}

static void local_on_terminate(bool now, void *userdata)
{
	const struct local *l = userdata;

	supervisor_terminate(l->supervisor, now);
}

static void local_on_suspend(bool on, void *userdata)
{
	const struct local *l = userdata;

	supervisor_suspend(l->supervisor, on);
}

static void local_on_resized(void *userdata)
{
	const struct local *l = userdata;

	supervisor_resize(l->supervisor);
}

static void local_on_status(void *userdata)
{
	const struct local *l = userdata;

	running_print(&l->running);
}

static void local_on_task_ended(uint32_t rank, _unused_ int wait_status, void *userdata)
{
	struct local *l = userdata;

	running_end(&l->running, rank);
}

static void local_on_report(const char *text, _unused_ void *userdata)
{
	user_report("%s", text);
}

static void local_on_ended(int exit_code, _unused_ const char *result, void *userdata)
{
	struct local *l = userdata;
	int by_user = l->user.ended_by;

	l->code = exit_code;
	/* Ended by ^C: the agent got another signal. */
	if (by_user && exit_code > STATUS_SIGNAL_BASE)
		l->code = STATUS_SIGNAL_BASE + by_user;
	l->supervisor = supervisor_free(l->supervisor);
	ev_break(l->loop, EVBREAK_ALL);
}

static void local_on_taken(size_t size, void *userdata)
{
	struct local *l = userdata;

	input_taken(&l->input, l->input.taken + size);
}

static void local_on_refused(void *userdata)
{
	struct local *l = userdata;

	input_stop(&l->input);
}

static void local_on_input(const void *bytes, size_t size, void *userdata)
{
	struct local *l = userdata;

	if (size > 0)
		inlet_write(&l->inlet, bytes, size);
	else
		inlet_end(&l->inlet);
}

/* *ret_fd: what the agent reads. */
static int open_terminal(struct local *l, int *ret_fd, struct err *err)
{
	static const struct inlet_events inlet_events = {
		.taken = local_on_taken, .refused = local_on_refused};
	int r;

	if (!isatty(STDIN_FILENO) || !relay_doc_reads_stdin(l->options->run.doc, "0"))
		return 0;
	r = inlet_open(&l->inlet, l->loop, &inlet_events, l, ret_fd);
	if (r < 0)
		return err_set(err, r, "make a pipe for standard input");
	input_start(&l->input, l->loop, local_on_input, l);
	return 0;
}

/* 0 or -ENOMEM, as all that adds to a vector. */
static int add_option(struct strv *args, const char *option, const char *value)
{
	return value ? strv_addf(args, "--%s=%s", option, value) : 0;
}

int session_agent_args(const struct run_options *o, struct strv *args)
{
	int r = add_option(args, "config", o->config);

	r |= add_option(args, "plugin-dir", o->plugin_dir);
	r |= add_option(args, "runtime-dir", o->runtime_dir);
	if (o->usage)
		r |= strv_add(args, "--usage");
	if (o->verbosity)
		r |= strv_add(args, o->verbosity > 0 ? "--verbose" : "--quiet");
	return r;
}

static int make_args(const struct run_options *o, struct strv *args)
{
	int r = session_agent_args(o, args) | strv_add(args, "--keep-result=0");

	r |= add_option(args, "trace", o->trace);
	r |= add_option(args, "result", o->result);
	if (!o->sample)
		return r;
	r |= strv_add(args, "--sample");
	r |= strv_addf(args, "%llums", (unsigned long long)o->sample_interval_ms);
	return r | strv_add(args, o->sample);
}

static void local_clear(struct local *l)
{
	inlet_close(&l->inlet);
	input_stop(&l->input);
	l->supervisor = supervisor_free(l->supervisor);
	user_clear(&l->user);
	running_clear(&l->running);
	strv_clear(&l->args);
	if (l->loop)
		ev_loop_destroy(l->loop);
}

static int start_agent(struct local *l, struct err *err)
{
	static const struct supervisor_events events = {.task_ended = local_on_task_ended,
		.report = local_on_report,
		.ended = local_on_ended};
	_cleanup_close_ int read_fd = -1;
	int r = open_terminal(l, &read_fd, err);

	if (r < 0)
		return r;
	return supervisor_new(l->loop,
		&(const struct supervisor_start){.program = l->options->launcher.program,
			.args = &l->args,
			.runtime_dir = l->options->run.runtime_dir,
			.doc = l->options->run.doc,
			.stdio = {read_fd >= 0 ? read_fd : STDIN_FILENO, STDOUT_FILENO,
				STDERR_FILENO}},
		&events, l, &l->supervisor, err);
}

static int local_run(const struct steprun_options *options, int *ret_code, struct err *err)
{
	static const struct user_events events = {.signal = local_on_signal,
		.terminate = local_on_terminate,
		.suspend = local_on_suspend,
		.status = local_on_status,
		.resized = local_on_resized};
	_cleanup_(local_clear) struct local l = {
		.options = options, .code = STATUS_FAILED, .inlet = INLET_INIT};
	int r;

	l.loop = ev_loop_new(EVFLAG_AUTO);
	if (!l.loop || make_args(&options->run, &l.args) < 0 ||
		running_init(&l.running, options->layout.ntasks) < 0)
		return err_set(err, -ENOMEM, "prepare the step");
	r = user_watch(&l.user, l.loop, &events, &l, err);
	if (r == 0)
		r = start_agent(&l, err);
	if (r < 0)
		return r;
	(void)ev_run(l.loop, 0);
	*ret_code = l.code;
	return 0;
}

extern char **environ;

/* ---- the MPI plugin's hooks ---------------------------------------------------------------- */

struct hooks {
	struct mpi *mpi;
	mpi_plugin_client_state_t *state;
};

static int env_from_doc(const json_t *doc, struct strv *env)
{
	json_t *object = json_object_get(doc, "env"), *value;
	const char *name;
	int r = 0; /* or -ENOMEM */

	json_object_foreach (object, name, value)
		r |= strv_addf(env, "%s=%s", name, json_string_value(value) ?: "");
	return r;
}

/* Converts the plugin's vector to the document's object. */
static int env_to_doc(json_t *doc, char *const *env)
{
	json_t *object = json_object();
	const char *equals;
	int r = 0;

	for (; *env; env++) {
		_cleanup_free_ char *name = NULL;

		equals = strchr(*env, '=');
		name = equals && equals > *env ? strndup(*env, (size_t)(equals - *env)) : NULL;
		if (name)
			r |= json_object_set_new_nocheck(
				object, name, json_string_nocheck(equals + 1));
	}
	return json_object_set_new(doc, "env", object) < 0 || r < 0 ? -ENOMEM : 0;
}

/* Frees strings that a hook has added; the earlier ones are in made. */
static void free_added(char **env, const struct strv *made)
{
	size_t i, j;

	for (i = 0; env[i]; i++) {
		for (j = 0; j < made->n && made->v[j] != env[i]; j++)
			;
		if (j == made->n)
			free(env[i]);
	}
}

static int call_with_env(
	struct hooks *h, const mpi_plugin_client_info_t *info, json_t *doc, struct err *err)
{
	_cleanup_strv_ struct strv made = {0};
	_cleanup_free_ char **env = NULL;
	const char *type = mpi_get_env_type(h->mpi);
	int r = env_from_doc(doc, &made);

	env = r < 0 ? NULL : calloc(made.n + 1, sizeof(*env));
	if (!env)
		return err_set(err, -ENOMEM, "make the environment of the MPI plugin");
	if (made.n)
		memcpy(env, made.v, made.n * sizeof(*env));
	if (type)
		r = stepd_env_set(&env, "SLURM_MPI_TYPE", type) < 0 ? -errno : 0;
	if (r == 0)
		r = mpi_client_prelaunch(h->mpi, info, &env, &h->state, err);
	if (r == 0 && env_to_doc(doc, env) < 0)
		r = err_set(err, -ENOMEM, "read the environment of the MPI plugin");
	free_added(env, &made);
	return r;
}

/* The check of the spec reports an account that does not exist. */
static void fill_identity(const json_t *doc, mpi_plugin_client_info_t *info)
{
	const char *user = json_string_value(json_object_get(doc, "uid"));
	const json_t *number = json_object_get(doc, "uid");
	const struct passwd *pw;

	info->uid = getuid();
	info->gid = getgid();
	if (json_is_integer(number))
		info->uid = (uid_t)json_integer_value(number);
	else if (user && parse_u32(user, 0, UINT32_MAX - 1, &info->uid) < 0) {
		pw = getpwnam(user);
		info->uid = pw ? pw->pw_uid : info->uid;
	}
	pw = getpwuid(info->uid);
	if (pw && info->uid != getuid())
		info->gid = pw->pw_gid;
}

static int hooks_prelaunch(
	const struct steprun_options *o, struct hooks *ret_hooks, struct err *err)
{
	json_t *doc = o->run.doc;
	mpi_plugin_client_info_t info = {.api_version = STEPD_API_VERSION,
		.job_id = (uint32_t)json_integer_value(json_object_get(doc, "job")),
		.step_id = (uint32_t)json_integer_value(json_object_get(doc, "step")),
		.nnodes = o->layout.nodes,
		.ntasks = o->layout.ntasks};
	const char *name = json_string_value(json_object_get(doc, "mpi")) ?: "none";
	_cleanup_free_ char *dir = NULL;
	int r = plugin_dir_find(o->run.plugin_dir, &dir, err);

	fill_identity(doc, &info);
	if (r == 0)
		r = mpi_open(dir, name, &ret_hooks->mpi, err);
	return r < 0 ? r : call_with_env(ret_hooks, &info, doc, err);
}

static void hooks_clear(struct hooks *h)
{
	h->mpi = mpi_close(h->mpi);
}

/* ---- the step ------------------------------------------------------------------------------ */

static int find_program(struct steprun_options *o, struct err *err)
{
	int r = o->program ? 0 : program_find("stepd", STEPD_PROGRAM, &o->found_program, err);

	o->launcher.program = o->program ?: o->found_program;
	return r;
}

/* The same ids for all nodes and hooks: in an allocation the job's, and an unused step id. */
static int name_step(struct steprun_options *o, struct err *err)
{
	const char *job = o->allocated || o->launcher.kind == LAUNCHER_SLURM
		? stepd_env_get(environ, "SLURM_JOB_ID")
		: NULL;
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
	int r = site_apply(&o->run.site, 0, NULL, o->run.doc, err);

	if (r < 0)
		return r;
	o->launcher.ifname =
		json_string_value(json_object_get(json_object_get(o->run.doc, "wire"), "ifname"));
	return 0;
}

static int steprun_run(struct steprun_options *o, int *ret_code, struct err *err)
{
	_cleanup_(hooks_clear) struct hooks hooks = {0};
	struct err own = ERR_INIT;
	int r = find_program(o, err);

	/* An agent in the background can't have the user's terminal. */
	o->here = o->here && !typing_wanted(o);
	if (r == 0)
		r = name_step(o, err);
	if (r == 0)
		r = apply_site(o, err);
	if (r == 0)
		r = hooks_prelaunch(o, &hooks, err);
	if (r < 0)
		return r;
	r = o->here ? local_run(o, ret_code, err) : session_run(o, ret_code, err);
	if (mpi_client_fini(hooks.mpi, hooks.state, &own) < 0 && r == 0)
		r = err_set_text(err, own.code, "%s", own.text);
	return r;
}

/* "steprun attach". A program of that name is run as "steprun -- attach". */
static int attach_main(
	int argc, char **argv, struct steprun_options *o, int *ret_code, struct err *err)
{
	int r = steprun_attach_parse(argc, argv, environ, o, err);

	if (r == 0 && o->run.help) {
		steprun_attach_print_help(stdout);
		*ret_code = 0;
		return 0;
	}
	if (r == 0)
		r = find_program(o, err);
	return r < 0 ? err_prefix(err, "attach") : attach_run(o, ret_code, err);
}

static int steprun_parse(
	int argc, char **argv, struct steprun_options *o, bool *done, struct err *err)
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
		r = plugins_print_mpi(o->run.plugin_dir, err);
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
	bool attaches = argc >= 2 && strcmp(argv[1], "attach") == 0;

	if (r == 0 && attaches)
		r = attach_main(argc - 1, argv + 1, &options, &code, &err);
	else if (r == 0)
		r = steprun_parse(argc, argv, &options, &done, &err);
	if (r == 0 && !done && !attaches)
		r = steprun_run(&options, &code, &err);
	if (r < 0) {
		fprintf(stderr, "steprun: %s\n", err.text);
		return STATUS_FAILED;
	}
	return done ? 0 : code;
}
