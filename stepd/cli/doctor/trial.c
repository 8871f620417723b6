/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Three processes: the doctor, which waits; a supervisor, which outlives a doctor that is killed
 * for as long as it takes to end the step; and the agent. What that agent leaves if it has to be
 * killed becomes a child of the supervisor, which has no others: so it may kill them.
 */
#include "stepd/cli/doctor/doctor.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "mpi/pmi/client.h"
#include "stepd/base/clock.h"
#include "stepd/base/fs.h"
#include "stepd/base/proc.h"
#include "stepd/base/strv.h"
#include "stepd/process/process.h"
#include "stepd/record/clean.h"
#include "stepd/state/steps.h"
#include "stepd/step/agent.h"

#define OUTPUT_MAX      (64u << 10) /* bytes that are read of each stream */
#define STREAM_MAX      (4u << 20)  /* that the step can write of each */
#define FIRST_JOB       0xff000000u /* with a pid on top: above all ids that Slurm gives */
#define END_TIMEOUT_MS  3000u       /* for an agent that is to end its step */
#define GONE_TIMEOUT_MS 1000u       /* for a process that was killed */
#define DIR_PATTERN     "doctor-??????"
#define DIR_STALE_SEC   60 /* no trial takes that long */

/* The supervisor's exit status. */
enum {
	SUPERVISOR_GOOD,
	SUPERVISOR_FAILED, /* the step's status is other than 0, or it could not be run */
	SUPERVISOR_LATE,
};

/* A trial under way. */
struct run {
	const char *plugin_dir;
	char *dir; /* its runtime directory, until the supervisor removes it */
	struct strv argv, env;
	int stdio[3];         /* above 2 */
	struct pidref doctor; /* the step ends with it */
	pid_t supervisor;
};

static void run_clear(struct run *run)
{
	int i;

	free(run->dir);
	strv_clear(&run->argv);
	strv_clear(&run->env);
	pidref_close(&run->doctor);
	for (i = 0; i < 3; i++)
		run->stdio[i] = close_fd(run->stdio[i]);
}

void trial_clear(struct trial *t)
{
	free(t->out);
	free(t->agent_error);
}

/* ---- the runtime directory ----------------------------------------------------------------- */

/* Its name is not that of a step, so no list of steps has it. */

static void on_cleaned(_unused_ const struct clean_found *found, _unused_ void *userdata)
{
}

/* Also removes the cgroups of an agent that was killed. What can't be removed stays for the next
 * trial. */
static void dir_remove(const char *path, const char *plugin_dir)
{
	const struct clean_options options = {.runtime_dir = path,
		.plugin_dir = plugin_dir,
		.settle = adopt_settle,
		.report = on_cleaned};

	if (rmdir(path) == 0)
		return;
	(void)!clean_all(&options, NULL); /* then the rmdir fails, too */
	(void)rmdir(path);
}

static bool dir_is_stale(DIR *dir, const char *name)
{
	struct stat st;

	return fnmatch(DIR_PATTERN, name, 0) == 0 &&
		fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
		st.st_uid == geteuid() && time(NULL) - st.st_mtime > DIR_STALE_SEC;
}

/* Of earlier trials whose processes were all killed. */
static void dir_remove_stale(const char *above, const char *plugin_dir)
{
	_cleanup_closedir_ DIR *dir = opendir(above);
	_cleanup_free_ char *path = NULL;
	struct dirent *d;

	while (dir && (d = readdir(dir))) {
		if (!dir_is_stale(dir, d->d_name))
			continue;
		free(path);
		if (asprintf(&path, "%s/%s", above, d->d_name) < 0)
			path = NULL;
		else
			dir_remove(path, plugin_dir);
	}
}

/* Below the runtime directory of all steps, or beside it where that is not there yet. */
static int dir_make(
	const char *runtime_dir, const char *plugin_dir, char **ret_path, struct err *err)
{
	_cleanup_free_ char *dir = NULL, *path = NULL;
	const char *above;
	int r = steps_find_dir(runtime_dir, &dir, err);

	if (r < 0)
		return r;
	above = access(dir, F_OK) == 0 ? dir : dirname(dir);
	dir_remove_stale(above, plugin_dir);
	if (asprintf(&path, "%s/doctor-XXXXXX", above) < 0) {
		path = NULL;
		return err_set(err, -ENOMEM, "make a directory for a step");
	}
	if (!mkdtemp(path))
		return err_set(err, -errno, "make a directory for a step in '%s'", above);
	*ret_path = take_ptr(path);
	return 0;
}

/* ---- the supervisor ------------------------------------------------------------------------ */

static int execute_agent(void *userdata)
{
	const struct run *run = userdata;
	int i;

	/* SIGTERM once the supervisor is gone. */
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0)
		return -errno;
	if (getppid() != run->supervisor)
		return -ESRCH;
	for (i = 0; i < 3; i++) {
		if (dup2(run->stdio[i], i) < 0)
			return -errno;
	}
	(void)execve("/proc/self/exe", run->argv.v, run->env.v);
	return -errno;
}

/* 1: it has ended; 0: it has not within that time, or other has; -errno. All signals are blocked.
 */
static int wait_end(const struct pidref *agent, const struct pidref *other, int limit_ms)
{
	struct pollfd p[] = {{.fd = agent->fd, .events = POLLIN},
		{.fd = other ? other->fd : -1, .events = POLLIN}};

	return poll(p, ARRAY_SIZE(p), limit_ms) < 0 ? -errno : p[0].revents != 0;
}

static void kill_children(void)
{
	_cleanup_free_ char *text = NULL;
	char path[64], *rest, *pid;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	if (fs_read(AT_FDCWD, path, 1u << 20, &text, NULL) < 0)
		return; /* a kernel without that list */
	for (rest = text; (pid = strsep(&rest, " "));) {
		if (*pid)
			(void)kill((pid_t)atoi(pid), SIGKILL); /* not reaped: the pid is its own */
	}
}

/* The children of a killed process become children here, too. A process stuck in the kernel is
 * not waited for. */
static void end_children(void)
{
	const struct timespec limit = {.tv_sec = GONE_TIMEOUT_MS / 1000};
	sigset_t child;
	pid_t pid;

	(void)sigemptyset(&child); /* can't fail with valid arguments, nor can the next */
	(void)sigaddset(&child, SIGCHLD);
	do {
		kill_children();
		while ((pid = waitpid(-1, NULL, WNOHANG | __WALL)) > 0)
			;
	} while (pid == 0 && (sigtimedwait(&child, NULL, &limit) >= 0 || errno == EINTR));
}

static int supervise(struct run *run)
{
	struct pidref agent = PIDREF_INIT;
	bool late = false;
	int status = 0, r = prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ? -errno : 0;

	run->supervisor = getpid();
	if (r == 0)
		r = process_execute(execute_agent, run, &agent);
	if (r < 0) {
		(void)dprintf(run->stdio[2], "stepd: start the agent: %s\n", strerror(-r));
		return SUPERVISOR_FAILED;
	}
	r = wait_end(&agent, &run->doctor, TRIAL_TIMEOUT_MS);
	if (r == 0) {
		late = true;
		(void)!pidref_signal(&agent, SIGTERM); /* -ESRCH: it has ended */
		r = wait_end(&agent, NULL, END_TIMEOUT_MS);
	}
	if (r <= 0)
		(void)!pidref_signal(&agent, SIGKILL);
	if (r < 0)
		(void)dprintf(run->stdio[2], "stepd: wait for the agent: %s\n", strerror(-r));
	while (waitpid(agent.pid, &status, 0) < 0 && errno == EINTR)
		;
	pidref_close(&agent);
	if (late && r >= 0)
		return SUPERVISOR_LATE;
	return r < 0 || status != 0 ? SUPERVISOR_FAILED : SUPERVISOR_GOOD;
}

static _noreturn_ void be_supervisor(struct run *run)
{
	sigset_t all;
	int status;

	process_default_signals();
	/* The terminal's signals end the doctor, and so the step. */
	(void)sigfillset(&all); /* can't fail with valid arguments, nor can the next */
	(void)sigprocmask(SIG_BLOCK, &all, NULL);
	status = supervise(run);
	end_children();
	dir_remove(run->dir, run->plugin_dir);
	_exit(status);
}

/* It has the directory from then on. */
static int fork_supervisor(struct run *run)
{
	/* If the caller ignores SIGCHLD there is no exit status otherwise. */
	int r = signal(SIGCHLD, SIG_DFL) == SIG_ERR ? -errno : 0;

	if (r == 0)
		r = pidref_open(getpid(), 0, &run->doctor);
	if (r < 0)
		return r;
	run->supervisor = fork();
	if (run->supervisor == 0)
		be_supervisor(run);
	if (run->supervisor < 0)
		return -errno;
	free(take_ptr(run->dir));
	return 0;
}

/* ---- its command and streams --------------------------------------------------------------- */

/* Without an engine's variables for this process: the step must not find another server.
 * Variables that a user sets for libpmix stay. */
static int make_environ(struct run *run)
{
	static const char own[] = "PMIX_MCA_";
	char **entry;
	int r = 0; /* or -ENOMEM, as below */

	for (entry = environ; *entry; entry++) {
		if (!pmi_client_is_variable(*entry) || strncmp(*entry, own, sizeof(own) - 1) == 0)
			r |= strv_add(&run->env, *entry);
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

	for (i = 0; i < ARRAY_SIZE(fixed); i++)
		r |= strv_add(&run->argv, fixed[i]);
	r |= strv_addf(&run->argv, "--job=%u", FIRST_JOB + (unsigned)getpid());
	r |= add_option(run, "mpi", mpi);
	r |= add_option(run, "proctrack", options->proctrack);
	r |= add_option(run, "cgroup-root", options->cgroup_root);
	r |= add_option(run, "plugin-dir", options->plugin_dir);
	r |= add_option(run, "runtime-dir", run->dir);
	r |= strv_add(&run->argv, "--") | strv_add(&run->argv, program);
	return kind ? r | strv_add(&run->argv, kind) : r;
}

static int open_above(int fd, int *ret_fd)
{
	int r = fd < 0 ? -errno : stdfd_move_above(fd);

	*ret_fd = r < 0 ? -1 : r;
	return r < 0 ? r : 0;
}

/* A file in memory, of a size that does not change: a writer of more gets an error. It is opened
 * once more, as writers of one open file would share its position and the lock on it.
 */
static int open_output(int *ret_fd)
{
	_cleanup_close_ int fd = memfd_create("output", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char path[64];

	if (fd < 0 || ftruncate(fd, STREAM_MAX) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) < 0)
		return -errno;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open_above(open(path, O_RDWR | O_CLOEXEC), ret_fd);
}

static int open_stdio(struct run *run)
{
	int r = open_above(open("/dev/null", O_RDONLY | O_CLOEXEC), &run->stdio[0]);

	if (r == 0)
		r = open_output(&run->stdio[1]);
	return r < 0 ? r : open_output(&run->stdio[2]);
}

static int read_output(int fd, char **ret_text)
{
	_cleanup_free_ char *text = calloc(1, OUTPUT_MAX + 1);

	if (!text)
		return -ENOMEM;
	if (pread(fd, text, OUTPUT_MAX, 0) < 0)
		return -errno;
	*ret_text = take_ptr(text);
	return 0;
}

/* Behind "stepd JOB.STEP: error: "; NULL: the line is not the agent's. The message that a task's
 * failure ends the step is skipped. */
static const char *read_error(const char *line)
{
	static const char error[] = "error: ";
	const char *text = strncmp(line, "stepd", 5) == 0 ? strstr(line, ": ") : NULL;

	if (!text || strstr(text, "(kill_on_bad_exit)"))
		return NULL;
	text += 2;
	return strncmp(text, error, sizeof(error) - 1) == 0 ? text + sizeof(error) - 1 : text;
}

/* The first one; modifies the text. */
static char *find_error(char *text)
{
	const char *error = NULL;
	char *line;

	while (!error && (line = strsep(&text, "\n")))
		error = read_error(line);
	return strdup(error ? error : "");
}

/* ---- all of it ----------------------------------------------------------------------------- */

static int read_trial(const struct run *run, struct trial *trial)
{
	_cleanup_free_ char *errors = NULL;
	int status = 0, r;

	while (waitpid(run->supervisor, &status, 0) < 0 && errno == EINTR)
		;
	trial->failed = status != 0;
	trial->late = WIFEXITED(status) && WEXITSTATUS(status) == SUPERVISOR_LATE;
	r = read_output(run->stdio[1], &trial->out);
	if (r == 0)
		r = read_output(run->stdio[2], &errors);
	if (r == 0)
		trial->agent_error = find_error(errors);
	return r == 0 && !trial->agent_error ? -ENOMEM : r;
}

int trial_run(const struct trial_options *options, const char *mpi, const char *program,
	const char *kind, struct trial *ret_trial, struct err *err)
{
	_cleanup_(run_clear) struct run run = {
		.plugin_dir = options->plugin_dir, .stdio = {-1, -1, -1}, .doctor = PIDREF_INIT};
	uint64_t begin_us = clock_now_ns() / 1000;
	int r;

	*ret_trial = (struct trial){0};
	r = dir_make(options->runtime_dir, options->plugin_dir, &run.dir, err);
	if (r < 0)
		return r;
	r = make_argv(&run, options, mpi, program, kind);
	if (r == 0)
		r = make_environ(&run);
	if (r == 0)
		r = open_stdio(&run);
	if (r == 0)
		r = fork_supervisor(&run);
	if (run.dir) /* there is no supervisor */
		dir_remove(run.dir, options->plugin_dir);
	if (r < 0)
		return err_set(err, r, "start the step of the self-test");
	r = read_trial(&run, ret_trial);
	if (r < 0)
		return err_set(err, r, "read the self-test's output");
	ret_trial->took_us = clock_now_ns() / 1000 - begin_us;
	return 0;
}
