/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/doctor/doctor_trial.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "mpi/pmi_client/pmi_client.h"
#include "stepd/base/clock.h"
#include "stepd/base/pidref.h"
#include "stepd/base/strv.h"
#include "stepd/cli/doctor/doctor_dir.h"
#include "stepd/cli/doctor/doctor_supervisor.h"

#define OUTPUT_MOST (64u << 10) /* bytes that are kept; what is more is read and lost */
#define FIRST_JOB   0xff000000u /* with a pid on top: above all ids that Slurm gives */

extern char **environ;

struct intake {
	int fd;
	char *text;
	size_t used;
};

/* A trial under way. */
struct run {
	char *dir; /* its runtime directory, until somebody else removes it */
	struct strv argv, env;
	struct pidref supervisor;
	struct intake out, err;
};

static void intake_clear(struct intake *in)
{
	in->fd = close_fd(in->fd);
	free(in->text);
}

static void run_clear(struct run *run)
{
	free(run->dir);
	strv_clear(&run->argv);
	strv_clear(&run->env);
	pidref_close(&run->supervisor);
	intake_clear(&run->out);
	intake_clear(&run->err);
}

void trial_clear(struct trial *t)
{
	free(t->out);
	free(t->agent_error);
}

/* ---- what it is made of ------------------------------------------------------------------- */

char *trial_find_program(const char *name)
{
	char exe[PATH_MAX];
	char *path = NULL;
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n > 0) {
		exe[n] = '\0';
		if (asprintf(&path, "%s/selftest/%s", dirname(exe), name) < 0)
			return NULL;
		if (access(path, X_OK) == 0)
			return path;
		free(path);
	}
	return asprintf(&path, "%s/%s", STEPD_LIBEXEC_DIR, name) < 0 ? NULL : path;
}

/* Without what an engine has left for this process: the step must not find another's server. What
 * a user tells libpmix stays. */
static int make_environ(struct run *run)
{
	static const char own[] = "PMIX_MCA_";
	char **entry;
	int r = 0;

	for (entry = environ; r == 0 && *entry; entry++) {
		if (!pmi_client_is_variable(*entry) || strncmp(*entry, own, sizeof(own) - 1) == 0)
			r = strv_add(&run->env, *entry);
	}
	return r;
}

static int add_option(struct run *run, const char *name, const char *value)
{
	return value ? strv_addf(&run->argv, "--%s=%s", name, value) : 0;
}

static int make_argv(struct run *run, const struct trial_options *options, const char *mpi,
	const char *program, const char *kind)
{
	/* One task's failure ends the other's wait at once. A rank that is missing in a fence is
	 * named by the server before the step's time is over. */
	static const char *const fixed[] = {"stepd", "run", "--quiet", "--ntasks=2",
		"--kill-on-bad-exit=1", "--kill-sequence=KILL", "--unkillable-timeout=2s",
		"--pmi-timeout=8s", "--input=none", "--output=all", "--chdir=/"};
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < ARRAY_SIZE(fixed); i++)
		r = strv_add(&run->argv, fixed[i]);
	if (r == 0)
		r = strv_addf(&run->argv, "--job=%u", FIRST_JOB + (unsigned)getpid());
	if (r == 0)
		r = add_option(run, "mpi", mpi);
	if (r == 0)
		r = add_option(run, "proctrack", options->proctrack);
	if (r == 0)
		r = add_option(run, "cgroup-root", options->cgroup_root);
	if (r == 0)
		r = add_option(run, "plugin-dir", options->plugin_dir);
	if (r == 0)
		r = add_option(run, "runtime-dir", run->dir);
	if (r == 0)
		r = strv_add(&run->argv, "--");
	if (r == 0)
		r = strv_add(&run->argv, program);
	return r == 0 && kind ? strv_add(&run->argv, kind) : r;
}

/* ---- its processes ------------------------------------------------------------------------- */

/* The descriptor is above 2, so that dup2() makes another, without O_CLOEXEC. */
static int open_pipe(struct intake *in, int *ret_write_fd)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	in->fd = fds[0];
	*ret_write_fd = fcntl(fds[1], F_DUPFD_CLOEXEC, 3);
	fds[1] = close_fd(fds[1]);
	/* For the tasks it is as any pipe is. */
	return *ret_write_fd < 0 || fcntl(*ret_write_fd, F_SETFL, 0) < 0 ? -errno : 0;
}

static int open_null(int *ret_fd)
{
	_cleanup_close_ int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	*ret_fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return *ret_fd < 0 ? -errno : 0;
}

/* The supervisor has the directory from then on. */
static int fork_supervisor(struct run *run, struct supervisor *k)
{
	pid_t pid;
	int r;

	/* A caller who ignores the ends of children has them not told. */
	if (signal(SIGCHLD, SIG_DFL) == SIG_ERR)
		return -errno;
	r = pidref_open(getpid(), 0, &k->doctor);
	if (r < 0)
		return r;
	pid = fork();
	if (pid == 0)
		supervisor_run(k);
	r = pid < 0 ? -errno : 0;
	pidref_close(&k->doctor);
	if (r < 0)
		return r;
	free(take_ptr(run->dir));
	return pidref_open(pid, 0, &run->supervisor);
}

static int start(struct run *run, const char *plugin_dir)
{
	_cleanup_close_ int null_fd = -1, out_fd = -1, err_fd = -1;
	struct supervisor k = {.doctor = PIDREF_INIT,
		.argv = run->argv.v,
		.env = run->env.v,
		.runtime_dir = run->dir,
		.plugin_dir = plugin_dir};
	int r = open_pipe(&run->out, &out_fd);

	if (r == 0)
		r = open_pipe(&run->err, &err_fd);
	if (r == 0)
		r = open_null(&null_fd);
	k.stdio[0] = null_fd;
	k.stdio[1] = out_fd;
	k.stdio[2] = err_fd;
	return r < 0 ? r : fork_supervisor(run, &k);
}

/* Takes what is there. */
static int intake_read(struct intake *in)
{
	char bytes[4096], *grown;
	size_t room;
	ssize_t n;

	while (in->fd >= 0) {
		n = read(in->fd, bytes, sizeof(bytes));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0) {
			in->fd = close_fd(in->fd);
			return 0;
		}
		room = in->used < OUTPUT_MOST ? OUTPUT_MOST - in->used : 0;
		n = (size_t)n < room ? n : (ssize_t)room;
		grown = realloc(in->text, in->used + (size_t)n + 1);
		if (!grown)
			return -ENOMEM;
		in->text = grown;
		memcpy(in->text + in->used, bytes, (size_t)n);
		in->used += (size_t)n;
		in->text[in->used] = '\0';
	}
	return 0;
}

/* Until the supervisor has ended, which it does in time. */
static int read_all(struct run *run)
{
	bool ended = false;
	int r = 0;

	while (r == 0 && !ended) {
		struct pollfd p[] = {{.fd = run->supervisor.fd, .events = POLLIN},
			{.fd = run->out.fd, .events = POLLIN},
			{.fd = run->err.fd, .events = POLLIN}};

		if (poll(p, ARRAY_SIZE(p), -1) < 0) {
			r = errno == EINTR ? 0 : -errno;
			continue;
		}
		ended = p[0].revents != 0;
		r = intake_read(&run->out);
		if (r == 0)
			r = intake_read(&run->err);
	}
	return r;
}

static int finish(struct run *run, struct trial *trial)
{
	int status = 0, r = read_all(run);

	/* If not all was read: no task waits for that any more. */
	run->out.fd = close_fd(run->out.fd);
	run->err.fd = close_fd(run->err.fd);
	while (waitpid(run->supervisor.pid, &status, 0) < 0 && errno == EINTR)
		;
	trial->failed = status != 0;
	trial->late = WIFEXITED(status) && WEXITSTATUS(status) == SUPERVISOR_LATE;
	return r;
}

/* ---- all of it ---------------------------------------------------------------------------- */

/* Behind "stepd JOB.STEP: error: "; NULL: the line is not the agent's. That it ends the step for a
 * task's failure is no news. */
static const char *read_complaint(const char *line)
{
	static const char error[] = "error: ";
	const char *text = strncmp(line, "stepd", 5) == 0 ? strstr(line, ": ") : NULL;

	if (!text || strstr(text, "(kill_on_bad_exit)"))
		return NULL;
	text += 2;
	return strncmp(text, error, sizeof(error) - 1) == 0 ? text + sizeof(error) - 1 : text;
}

/* The first one; changes the text, which may be NULL. */
static char *find_complaint(char *text)
{
	const char *complaint;
	char *line;

	while ((line = strsep(&text, "\n"))) {
		complaint = read_complaint(line);
		if (complaint)
			return strdup(complaint);
	}
	return strdup("");
}

static int run_it(struct run *run, const struct trial_options *options, struct trial *trial)
{
	int r = make_environ(run);

	if (r == 0)
		r = start(run, options->plugin_dir);
	return r < 0 ? r : finish(run, trial);
}

int trial_run(const struct trial_options *options, const char *mpi, const char *program,
	const char *kind, struct trial *ret_trial, struct err *err)
{
	_cleanup_(run_clear) struct run run = {
		.supervisor = PIDREF_INIT, .out = {.fd = -1}, .err = {.fd = -1}};
	uint64_t begin_us = clock_now_ns() / 1000;
	int r;

	*ret_trial = (struct trial){0};
	r = doctor_dir_make(options->runtime_dir, options->plugin_dir, &run.dir, err);
	if (r < 0)
		return r;
	r = make_argv(&run, options, mpi, program, kind);
	if (r == 0)
		r = run_it(&run, options, ret_trial);
	if (run.dir) /* no supervisor has it */
		doctor_dir_remove(run.dir, options->plugin_dir);
	if (r < 0)
		return err_set(err, r, "start the step of the self-test");
	ret_trial->took_us = clock_now_ns() / 1000 - begin_us;
	ret_trial->out = run.out.text ? take_ptr(run.out.text) : strdup("");
	ret_trial->agent_error = find_complaint(run.err.text);
	return ret_trial->out && ret_trial->agent_error
		? 0
		: err_set(err, -ENOMEM, "read what the self-test tells");
}
