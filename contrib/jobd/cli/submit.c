/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sbatch and salloc: make a request from the options and the script, and send it with this
 * process's working directory and environment.
 */
#include "config.h"

#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contrib/jobd/cli/columns.h"
#include "contrib/jobd/cli/jobctl.h"
#include "contrib/jobd/cli/options.h"
#include "stepd/base/fs.h"
#include "stepd/base/json.h"

#define COMMAND_MAX 8192u /* as a request has it */

extern char **environ;

/* ---- the request ------------------------------------------------------------------------------
 */

static int print_help(const char *name, enum options_command command)
{
	(void)printf("Usage: %s [OPTION...] %s\n", name,
		command == OPTIONS_SBATCH ? "[SCRIPT [ARGUMENT...]]" : "[COMMAND [ARGUMENT...]]");
	options_print(command, stdout);
	return 0;
}

static void print_notes(const char *name, const struct options *options)
{
	size_t i;

	for (i = 0; !options->quiet && i < options->notes.n; i++)
		jobctl_warn(name, options->notes.v[i]);
}

static int check_script(const char *text, size_t size, const char *file, struct err *err)
{
	if (strlen(text) != size)
		return err_set_text(
			err, -EINVAL, "'%s' is not a batch script: it has a NUL byte", file);
	if (strncmp(text, "#!", 2) != 0)
		return err_set_text(err, -EINVAL,
			"'%s' is not a batch script: its first line must name the interpreter, "
			"such as #!/bin/sh",
			file);
	if (strstr(text, "\r\n"))
		return err_set_text(err, -EINVAL,
			"'%s' has DOS line breaks (\\r\\n), which the interpreter would take for "
			"text: convert it",
			file);
	return 0;
}

/* Of a file, "-" or none for standard input, or --wrap. */
static int read_script(const struct options *options, char **ret_script, struct err *err)
{
	const char *file = options->rest.n ? options->rest.v[0] : "-";
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int fd = -1;
	size_t size = 0;
	int r;

	if (options->wrap) {
		if (asprintf(ret_script, "#!/bin/sh\n%s\n", options->wrap) < 0)
			return err_set(err, -ENOMEM, "--wrap");
		return 0;
	}
	fd = cli_open_file(file, err);
	if (fd < 0)
		return err_prefix(err, "'%s'", file);
	r = fs_read_fd(fd, OPTIONS_SCRIPT_MAX, &text, &size);
	if (r < 0)
		return err_set(err, r, "read the script '%s'", file);
	r = check_script(text, size, strcmp(file, "-") == 0 ? "standard input" : file, err);
	if (r == 0)
		*ret_script = take_ptr(text);
	return r;
}

static int set_name(struct options *options, const char *fallback, struct err *err)
{
	const char *file = options->rest.n ? options->rest.v[0] : fallback;
	const char *slash = strrchr(file, '/');

	if (options->request.name)
		return 0;
	options->request.name = strdup(slash ? slash + 1 : file);
	return options->request.name ? 0 : err_set(err, -ENOMEM, "name the job");
}

/* --chdir, relative to here. */
static int set_work_dir(struct job_request *request, struct err *err)
{
	_cleanup_free_ char *here = getcwd(NULL, 0), *given = request->work_dir;

	request->work_dir = NULL;
	if (!here)
		return err_set(err, -errno, "find the working directory; name one with --chdir");
	if (!given)
		request->work_dir = take_ptr(here);
	else if (*given == '/')
		request->work_dir = take_ptr(given);
	else if (asprintf(&request->work_dir, "%s/%s", here, given) < 0)
		request->work_dir = NULL;
	return request->work_dir ? 0 : err_set(err, -ENOMEM, "name the working directory");
}

/* Whether a job can get the variable: its step's document only has names and values in UTF-8. */
static bool is_passable(const char *entry)
{
	const char *equals = strchr(entry, '=');

	return equals && equals != entry && err_is_utf8(entry);
}

static int drop_variables(struct strv *env, struct strv *notes)
{
	char shown[80];
	size_t i, n = 0;
	int r = 0;

	for (i = 0; i < env->n; i++) {
		if (is_passable(env->v[i])) {
			env->v[n++] = env->v[i];
			continue;
		}
		err_printable(shown, sizeof(shown), env->v[i]);
		r |= strv_addf(
			notes, "the variable '%s' is not NAME=VALUE in UTF-8, ignoring", shown);
		free(env->v[i]);
	}
	env->n = n;
	env->v[n] = NULL;
	return r;
}

/* SLURM_SUBMIT_DIR and SLURM_SUBMIT_HOST are what only this side knows. */
static int set_env(struct options *options, struct err *err)
{
	_cleanup_strv_ struct strv env = {0};
	_cleanup_free_ char *here = getcwd(NULL, 0);
	char host[256] = "", **exported = NULL;
	size_t n = 0;
	int r = options_export(options->export_names, environ, &exported, err);

	if (r < 0)
		return r;
	while (exported[n])
		n++;
	env = (struct strv){.v = exported, .n = n, .capacity = n + 1};
	(void)gethostname(host, sizeof(host) - 1); /* without it, it is "" */
	r = drop_variables(&env, &options->notes);
	if (r == 0)
		r = strv_env_set(&env, "SLURM_SUBMIT_HOST", host);
	if (r == 0 && here)
		r = strv_env_set(&env, "SLURM_SUBMIT_DIR", here);
	if (r < 0)
		return err_set(err, r, "copy the environment");
	options->request.env = take_struct(env).v;
	return 0;
}

/* The command that squeue and scontrol show: the absolute path of the script's file. */
static int set_script_file(struct options *options, struct err *err)
{
	const char *file = options->rest.n ? options->rest.v[0] : "-";
	_cleanup_free_ char *here = NULL;

	if (options->wrap || strcmp(file, "-") == 0)
		return 0;
	if (*file == '/')
		options->request.command = strdup(file);
	else if (!(here = getcwd(NULL, 0)))
		return err_set(err, -errno, "find the working directory");
	else if (asprintf(&options->request.command, "%s/%s", here, file) < 0)
		options->request.command = NULL;
	return options->request.command ? 0 : err_set(err, -ENOMEM, "name the script");
}

/* Likewise of an allocation: as it was typed. One that is too long to be shown is left out. */
static int set_command(struct options *options, struct err *err)
{
	_cleanup_free_ char *command = NULL;

	if (options->rest.n == 0)
		return 0;
	command = strv_join(options->rest.v, ' ');
	if (!command)
		return err_set(err, -ENOMEM, "copy the command");
	if (strlen(command) <= COMMAND_MAX)
		options->request.command = take_ptr(command);
	return 0;
}

/* The arguments behind the script. */
static int set_arguments(struct options *options, struct err *err)
{
	_cleanup_strv_ struct strv argv = {0};
	size_t i;

	for (i = 1; i < options->rest.n; i++) {
		if (strv_add(&argv, options->rest.v[i]) < 0)
			return err_set(err, -ENOMEM, "copy the script's arguments");
	}
	options->request.argv = take_struct(argv).v;
	return 0;
}

static int copy_text(char **into, const char *text)
{
	if (!*into && text && !(*into = strdup(text)))
		return -ENOMEM;
	return 0;
}

/* Their name is the first one's, and its directory, unless they have others. */
static int set_components(struct options *options, struct err *err)
{
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < options->components_count; i++) {
		struct job_request *one = &options->components[i];

		r = copy_text(&one->name, options->request.name);
		if (r < 0)
			return err_set(err, r, "name the job");
		if (one->work_dir)
			r = set_work_dir(one, err);
		else if (copy_text(&one->work_dir, options->request.work_dir) < 0)
			r = err_set(err, -ENOMEM, "name the working directory");
	}
	return r;
}

/* NULL: there are none, or there is no memory. */
static json_t *components_json(const struct options *options)
{
	json_t *array = options->components_count ? json_array() : NULL;
	size_t i;

	for (i = 0; array && i < options->components_count; i++) {
		if (json_array_append_new(array, request_to_json(&options->components[i])) < 0) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}

static int call_submit(struct jobd_client *client, const struct options *options,
	json_t **ret_reply, struct err *err)
{
	json_auto_t *request = request_to_json(&options->request);
	json_auto_t *components = components_json(options);

	if (!request || (options->components_count && !components))
		return err_set(err, -ENOMEM, "submit the job");
	return jobd_call_take(client, "Submit",
		json_pack("{s:O, s:O*, s:o*}", "request", request, "components", components,
			"test_only", options->test_only ? json_true() : NULL),
		JOBD_TIMEOUT_MS, ret_reply, err);
}

/* ---- sbatch -----------------------------------------------------------------------------------
 */

/* The options once more, now that the script is known. */
static int parse_with_script(
	const struct options_input *input, struct options *options, struct err *err)
{
	struct options_input again = *input;
	_cleanup_free_ char *script = NULL;
	int r = read_script(options, &script, err);

	if (r < 0)
		return r;
	options_clear(options);
	again.script = script;
	r = options_parse(options, &again, err);
	if (r == 0)
		options->request.script = take_ptr(script);
	return r;
}

static int complete(struct options *options, const char *fallback_name, struct err *err)
{
	int r = set_name(options, fallback_name, err);

	if (r == 0)
		r = set_work_dir(&options->request, err);
	if (r == 0)
		r = set_components(options, err);
	return r < 0 ? r : set_env(options, err);
}

/* sbatch's sentence; it has no job's number, since none is used. */
static int print_test(const char *name, const json_t *reply, struct err *err)
{
	_cleanup_free_ char *time =
		text_of_time(json_get_int(reply, "start_time", 0), "an unknown time");

	if (!time)
		return err_set(err, -ENOMEM, "print the time");
	(void)fprintf(stderr,
		"%s: Job to start at %s using %lld processors on nodes %s in partition %s\n", name,
		time, (long long)json_get_int(reply, "cpus", 0), json_get_text(reply, "nodes", ""),
		json_get_text(reply, "partition", ""));
	return 0;
}

/* As wait(2) has it: what a shell would make of it. */
static int exit_status_of(const json_t *job)
{
	const int status = (int)json_get_int(job, "exit_code", 0);

	if (WIFSIGNALED(status))
		return 128 + WTERMSIG(status);
	if (WEXITSTATUS(status))
		return WEXITSTATUS(status);
	return strcmp(json_get_text(job, "job_state", ""), "COMPLETED") == 0 ? 0 : 1;
}

static int wait_for_end(struct jobd_client *client, const char *job, struct err *err)
{
	json_auto_t *reply = NULL;
	int r = jobd_call_take(client, "Wait",
		json_pack("{s:s, s:s}", "job", job, "until", "ended"), JOBD_FOR_EVER, &reply, err);

	return r < 0 ? r : exit_status_of(json_get_object(reply, "job"));
}

static int submit(const char *name, const struct options *options, struct err *err)
{
	_cleanup_jobd_client_ struct jobd_client *client = NULL;
	json_auto_t *reply = NULL;
	char job[24];
	int r = jobd_connect(&client, err);

	if (r == 0)
		r = call_submit(client, options, &reply, err);
	if (r < 0)
		return r;
	if (options->test_only)
		return options->quiet ? 0 : print_test(name, reply, err);
	(void)snprintf(job, sizeof(job), "%lld", (long long)json_get_int(reply, "job_id", 0));
	if (options->parsable)
		(void)printf("%s\n", job);
	else if (!options->quiet)
		(void)printf("Submitted batch job %s\n", job);
	(void)fflush(stdout); /* main() finds a failure; with --wait it is read now */
	return options->wait ? wait_for_end(client, job, err) : 0;
}

int jobctl_submit(const char *name, int argc, char **argv, struct err *err)
{
	_cleanup_options_ struct options options = {0};
	const struct options_input input = {.command = OPTIONS_SBATCH,
		.argc = argc,
		.argv = argv,
		.env = environ,
		.now = time(NULL)};
	int r = options_parse(&options, &input, err);

	if (r < 0)
		return r;
	if (options.help)
		return print_help(name, OPTIONS_SBATCH);
	if (options.version)
		return printf("jobd (stepd) %s\n", PACKAGE_VERSION) < 0;
	r = parse_with_script(&input, &options, err);
	if (r == 0)
		r = set_arguments(&options, err);
	if (r == 0)
		r = set_script_file(&options, err);
	if (r == 0)
		r = complete(&options, options.wrap ? "wrap" : "sbatch", err);
	if (r < 0)
		return r;
	print_notes(name, &options);
	return submit(name, &options, err);
}

/* ---- salloc -----------------------------------------------------------------------------------
 */

static int cancel(const char *job, struct err *err)
{
	_cleanup_jobd_client_ struct jobd_client *client = NULL;
	json_auto_t *reply = NULL;
	int r = jobd_connect(&client, err);

	return r < 0 ? r
		     : jobd_call_take(client, "Cancel", json_pack("{s:s}", "job", job),
			       JOBD_TIMEOUT_MS, &reply, err);
}

/* Signals that end this command, and with it the allocation: their descriptor. */
static int watch_signals(sigset_t *ret_before, struct err *err)
{
	sigset_t set;
	int fd;

	(void)sigemptyset(&set); /* none of these fails with valid arguments */
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &set, ret_before);
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	return fd < 0 ? err_set(err, -errno, "wait for signals") : fd;
}

/* 1: a signal has come. 0: the reply has. */
static int wait_either(int client_fd, int signal_fd, struct err *err)
{
	struct pollfd fds[] = {
		{.fd = client_fd, .events = POLLIN}, {.fd = signal_fd, .events = POLLIN}};
	int n;

	do
		n = poll(fds, ARRAY_SIZE(fds), -1);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_set(err, -errno, "wait for the allocation");
	return fds[1].revents != 0;
}

static int wait_for_start(struct jobd_client *client, const char *job, int signal_fd,
	json_t **ret_job, struct err *err)
{
	json_auto_t *reply = NULL;
	int r = jobd_send_take(
		client, "Wait", json_pack("{s:s, s:s}", "job", job, "until", "started"), err);

	if (r == 0)
		r = wait_either(jobd_get_fd(client), signal_fd, err);
	if (r > 0)
		return err_set_text(err, -EINTR, "interrupted; job %s is cancelled", job);
	if (r == 0)
		r = jobd_receive(client, "Wait", JOBD_TIMEOUT_MS, &reply, err);
	if (r < 0)
		return r;
	*ret_job = json_incref(json_get_object(reply, "job"));
	if (strcmp(json_get_text(*ret_job, "job_state", "RUNNING"), "RUNNING") == 0)
		return 0;
	return err_set_text(err, -ECANCELED, "job %s has ended before it began: %s", job,
		json_get_text(*ret_job, "job_state", ""));
}

/* Of a job, or behind each name with suffix: of one component. */
static int set_variables(const json_t *job, const char *suffix)
{
	static const struct {
		const char *name, *member;
		bool of_component; /* it has one with the suffix, too */
	} variables[] = {
		{"SLURM_JOB_ID", "job_id", true},
		{"SLURM_JOBID", "job_id", false},
		{"SLURM_JOB_NODELIST", "nodes", true},
		{"SLURM_NODELIST", "nodes", false},
		{"SLURM_JOB_PARTITION", "partition", true},
		{"SLURM_JOB_NUM_NODES", "node_count", true},
		{"SLURM_NNODES", "node_count", false},
		{"SLURM_NTASKS", "tasks", true},
		{"SLURM_CPUS_PER_TASK", "cpus_per_task", true},
	};
	char name[96], number[24];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(variables); i++) {
		const json_t *value = json_object_get(job, variables[i].member);
		const char *text = json_is_string(value) ? json_string_value(value) : number;

		if (!value || (*suffix && !variables[i].of_component))
			continue;
		(void)snprintf(name, sizeof(name), "%s%s", variables[i].name, suffix);
		(void)snprintf(
			number, sizeof(number), "%lld", (long long)json_integer_value(value));
		if (setenv(name, text, 1) < 0)
			return -errno;
	}
	return 0;
}

/* Those of the first component, and of each with its number. */
static int set_all_variables(const json_t *jobs)
{
	const size_t n = json_array_size(jobs);
	char text[40];
	size_t i;
	int r = set_variables(json_array_get(jobs, 0), "");

	(void)snprintf(text, sizeof(text), "%zu", n);
	if (r == 0 && n > 1 && setenv("SLURM_HET_SIZE", text, 1) < 0)
		r = -errno;
	for (i = 0; r == 0 && n > 1 && i < n; i++) {
		(void)snprintf(text, sizeof(text), "_HET_GROUP_%zu", i);
		r = set_variables(json_array_get(jobs, i), text);
	}
	return r;
}

/* Of all components. */
static int call_list(const char *job, json_t **ret_reply, struct err *err)
{
	_cleanup_jobd_client_ struct jobd_client *client = NULL;
	int r = jobd_connect(&client, err);

	return r < 0 ? r
		     : jobd_call_take(client, "ListJobs", json_pack("{s:s}", "job", job),
			       JOBD_TIMEOUT_MS, ret_reply, err);
}

static _noreturn_ void exec_command(const struct options *options, const sigset_t *before)
{
	const struct passwd *pw = options->rest.n ? NULL : getpwuid(getuid());
	const char *shell = getenv("SHELL");
	char *own[] = {(char *)(shell && *shell ? shell : pw ? pw->pw_shell : "/bin/sh"), NULL};
	char **argv = options->rest.n ? options->rest.v : own;

	(void)sigprocmask(SIG_SETMASK, before, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)execvp(argv[0], argv);
	(void)fprintf(stderr, "salloc: error: %s: %s\n", argv[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

/* ^C and others go to the command, which is in the same process group: it decides. */
static int run_command(const struct options *options, const sigset_t *before, struct err *err)
{
	pid_t pid;
	int status;

	(void)fflush(stdout); /* else it is written twice */
	pid = fork();
	if (pid < 0)
		return err_set(err, -errno, "run the command");
	if (pid == 0)
		exec_command(options, before);
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return err_set(err, -errno, "wait for the command");
	}
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void report(
	const char *name, const struct options *options, const char *what, const char *job)
{
	if (!options->quiet)
		(void)fprintf(stderr, "%s: %s job allocation %s\n", name, what, job);
}

/* The allocation lives as long as the command; with --no-shell it is left. */
static int hold_allocation(const char *name, struct jobd_client *client,
	const struct options *options, const char *job, struct err *err)
{
	json_auto_t *document = NULL, *reply = NULL;
	sigset_t before;
	_cleanup_close_ int signal_fd = watch_signals(&before, err);
	int r = signal_fd < 0 ? signal_fd : wait_for_start(client, job, signal_fd, &document, err);
	struct err ignored = ERR_INIT;

	if (r < 0) {
		(void)cancel(job, &ignored); /* the first failure is the one to report */
		return r;
	}
	report(name, options, "Granted", job);
	if (options->no_shell)
		return 0;
	if (options->components_count)
		r = call_list(job, &reply, err);
	else
		reply = json_pack("{s:[O]}", "jobs", document);
	if (r < 0) {
		(void)cancel(job, &ignored);
		return r;
	}
	r = reply ? set_all_variables(json_get_array(reply, "jobs")) : -ENOMEM;
	r = r < 0 ? err_set(err, r, "set the allocation's variables")
		  : run_command(options, &before, err);
	report(name, options, "Relinquishing", job);
	if (cancel(job, &ignored) < 0 && ignored.code != -ESRCH && ignored.code != -EBUSY)
		jobctl_warn(name, ignored.text);
	return r;
}

int jobctl_alloc(const char *name, int argc, char **argv, struct err *err)
{
	_cleanup_options_ struct options options = {0};
	_cleanup_jobd_client_ struct jobd_client *client = NULL;
	const struct options_input input = {.command = OPTIONS_SALLOC,
		.argc = argc,
		.argv = argv,
		.env = environ,
		.now = time(NULL)};
	json_auto_t *reply = NULL;
	char job[24];
	int r = options_parse(&options, &input, err);

	if (r < 0)
		return r;
	if (options.help)
		return print_help(name, OPTIONS_SALLOC);
	if (options.version)
		return printf("jobd (stepd) %s\n", PACKAGE_VERSION) < 0;
	r = complete(&options, options.no_shell ? "no-shell" : "interactive", err);
	if (r == 0)
		r = set_command(&options, err);
	if (r < 0)
		return r;
	print_notes(name, &options);
	r = jobd_connect(&client, err);
	if (r == 0)
		r = call_submit(client, &options, &reply, err);
	if (r < 0)
		return r;
	(void)snprintf(job, sizeof(job), "%lld", (long long)json_get_int(reply, "job_id", 0));
	report(name, &options, "Pending", job);
	return hold_allocation(name, client, &options, job, err);
}
