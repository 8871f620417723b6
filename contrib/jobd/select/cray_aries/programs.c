/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/select/cray_aries/programs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contrib/jobd/conf/lines.h"
#include "stepd/base/clock.h"
#include "stepd/base/fs.h"
#include "stepd/base/parse.h"

#define LIMIT_DEFAULT_S 60u
#define LIMIT_MOST_S    3600u

/* A program that runs. */
struct run {
	uint32_t job_id;
	pid_t pid;
	int64_t deadline_ms;
	bool is_begin;
};

static struct {
	char *begin_program, *end_program; /* NULL: none */
	uint32_t limit_s;
	struct run *runs;
	size_t count, capacity;
} programs;

/* ---- the file ----------------------------------------------------------------------------------
 */

static int check_program(const char *path, struct err *err)
{
	_cleanup_close_ int fd = -1;

	if (path[0] != '/')
		return err_set_text(err, -EINVAL, "'%s' must be an absolute path", path);
	fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "open '%s'", path);
	if (access(path, X_OK) < 0)
		return err_set(err, -errno, "'%s' must be a program", path);
	return fs_check_file(fd, path, err);
}

static int set_program(char **program, const char *path, struct err *err)
{
	int r = check_program(path, err);
	char *copy = r == 0 ? strdup(path) : NULL;

	if (r < 0)
		return r;
	if (!copy)
		return err_set(err, -ENOMEM, "read it");
	free(*program);
	*program = copy;
	return 0;
}

static int take_pair(const struct conf_pair *pair, struct err *err)
{
	if (strcasecmp(pair->key, "begin_program") == 0)
		return set_program(&programs.begin_program, pair->value, err);
	if (strcasecmp(pair->key, "end_program") == 0)
		return set_program(&programs.end_program, pair->value, err);
	if (strcasecmp(pair->key, "time_limit") != 0)
		return err_set_text(err, -EINVAL,
			"'%.100s' must be begin_program, end_program or time_limit", pair->key);
	if (parse_u32(pair->value, 1, LIMIT_MOST_S, &programs.limit_s) < 0)
		return err_set_text(err, -EINVAL, "time_limit=%.100s: must be from 1 to %u",
			pair->value, LIMIT_MOST_S);
	return 0;
}

static int take_line(const struct conf_line *line, _unused_ void *userdata, struct err *err)
{
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < line->n; i++)
		r = take_pair(&line->pairs[i], err);
	return r;
}

int programs_open(struct err *err)
{
	const char *file = secure_getenv("JOBD_CRAY_CONF");
	int r;

	programs.limit_s = LIMIT_DEFAULT_S;
	if (!file || !*file)
		return 0;
	if (file[0] != '/')
		return err_set_text(
			err, -EINVAL, "JOBD_CRAY_CONF=%s: must be an absolute path", file);
	r = conf_lines_read_trusted(file, take_line, NULL, err);
	if (r < 0)
		programs_close();
	return r < 0 ? err_prefix(err, "JOBD_CRAY_CONF") : 0;
}

/* ---- what runs ---------------------------------------------------------------------------------
 */

static struct run *find_run(uint32_t job_id, bool is_begin)
{
	size_t i;

	for (i = 0; i < programs.count; i++) {
		if (programs.runs[i].job_id == job_id && programs.runs[i].is_begin == is_begin)
			return &programs.runs[i];
	}
	return NULL;
}

static void forget(struct run *run)
{
	*run = programs.runs[--programs.count];
}

/* Its session leads a process group of the same number. The pid is its own: nobody has waited. */
static void kill_run(const struct run *run)
{
	(void)kill(-run->pid, SIGKILL); /* it may have ended */
}

void programs_close(void)
{
	size_t i;

	for (i = 0; i < programs.count; i++) {
		kill_run(&programs.runs[i]);
		while (waitpid(programs.runs[i].pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	free(programs.begin_program);
	free(programs.end_program);
	free(programs.runs);
	memset(&programs, 0, sizeof(programs));
}

/* 1: it has ended with *ret_status; 0: it runs. */
static int poll_run(const struct run *run, int *ret_status)
{
	pid_t pid;

	do
		pid = waitpid(run->pid, ret_status, WNOHANG);
	while (pid < 0 && errno == EINTR);
	return pid < 0 ? -errno : pid > 0;
}

/* ---- a start -----------------------------------------------------------------------------------
 */

#define VARIABLES_MAX 7

static void free_environ(char *env[VARIABLES_MAX])
{
	size_t i;

	for (i = 0; i < VARIABLES_MAX; i++)
		free(env[i]);
}

__attribute__((format(printf, 2, 3))) static int set_variable(char **env, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(env, fmt, ap);
	va_end(ap);
	if (n < 0)
		*env = NULL;
	return n < 0 ? -ENOMEM : 0;
}

/* The last one stays NULL. */
static int make_environ(const job_record_t *job, char *env[VARIABLES_MAX])
{
	const char *partition = job->partition ? job->partition : "";

	if (set_variable(&env[0], "SLURM_JOB_ID=%u", job->job_id) < 0 ||
		set_variable(&env[1], "SLURM_JOB_UID=%u", (unsigned)job->user_id) < 0 ||
		set_variable(&env[2], "SLURM_JOB_GID=%u", (unsigned)job->group_id) < 0 ||
		set_variable(&env[3], "SLURM_JOB_PARTITION=%s", partition) < 0 ||
		set_variable(&env[4], "SLURM_JOB_NODELIST=%s", job->nodes ? job->nodes : "") < 0 ||
		set_variable(&env[5], "PATH=/usr/sbin:/usr/bin:/sbin:/bin") < 0)
		return -ENOMEM;
	return 0;
}

/* The signals that jobd handles or blocks are as they were for a login. */
static int set_attributes(posix_spawnattr_t *attr)
{
	sigset_t none, all;
	int r;

	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	r = posix_spawnattr_setflags(
		attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	if (r == 0)
		r = posix_spawnattr_setsigmask(attr, &none);
	return r == 0 ? posix_spawnattr_setsigdefault(attr, &all) : r;
}

static int set_streams(posix_spawn_file_actions_t *actions)
{
	int r = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);

	return r == 0 ? posix_spawn_file_actions_adddup2(actions, STDERR_FILENO, STDOUT_FILENO) : r;
}

/* A positive errno, as posix_spawn() has it. */
static int spawn(const char *program, char *const env[], pid_t *ret_pid)
{
	char *argv[] = {(char *)program, NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	int r = posix_spawnattr_init(&attr);

	if (r != 0)
		return r;
	r = posix_spawn_file_actions_init(&actions);
	if (r == 0) {
		r = set_attributes(&attr);
		if (r == 0)
			r = set_streams(&actions);
		if (r == 0)
			r = posix_spawn(ret_pid, program, &actions, &attr, argv, env);
		(void)posix_spawn_file_actions_destroy(&actions);
	}
	(void)posix_spawnattr_destroy(&attr);
	return r;
}

static int reserve_run(void)
{
	size_t capacity = programs.capacity ? 2 * programs.capacity : 16;
	struct run *grown;

	if (programs.count < programs.capacity)
		return 0;
	grown = reallocarray(programs.runs, capacity, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	programs.runs = grown;
	programs.capacity = capacity;
	return 0;
}

static int start(const job_record_t *job, const char *program, bool is_begin, struct err *err)
{
	char *env[VARIABLES_MAX] = {NULL};
	pid_t pid = 0;
	int r = reserve_run();

	if (r == 0)
		r = make_environ(job, env);
	if (r == 0)
		r = -spawn(program, env, &pid);
	free_environ(env);
	if (r < 0)
		return err_set(err, r, "job %u: run '%s'", job->job_id, program);
	programs.runs[programs.count++] = (struct run){.job_id = job->job_id,
		.pid = pid,
		.deadline_ms = clock_now_ms() + 1000 * (int64_t)programs.limit_s,
		.is_begin = is_begin};
	return 0;
}

int programs_begin(const job_record_t *job, struct err *err)
{
	return programs.begin_program ? start(job, programs.begin_program, true, err) : 0;
}

static int describe_failure(uint32_t job_id, const char *what, int status, struct err *err)
{
	if (WIFSIGNALED(status))
		return err_set_text(err, -ECANCELED, "job %u: %s was ended by signal %d", job_id,
			what, WTERMSIG(status));
	return err_set_text(err, -ECANCELED, "job %u: %s ended with exit status %d", job_id, what,
		WEXITSTATUS(status));
}

static void end_run(struct run *run)
{
	kill_run(run);
	while (waitpid(run->pid, NULL, 0) < 0 && errno == EINTR) /* it is killed */
		;
	forget(run);
}

/* Each status is reported once. */
static int poll_program(uint32_t job_id, bool is_begin, const char *what, struct err *err)
{
	struct run *run = find_run(job_id, is_begin);
	int status = 0, r;

	if (!run)
		return 1;
	r = poll_run(run, &status);
	if (r == 0 && clock_now_ms() < run->deadline_ms)
		return 0;
	if (r == 0) {
		end_run(run);
		return err_set_text(err, -ETIMEDOUT,
			"job %u: %s has not ended within time_limit=%u seconds", job_id, what,
			programs.limit_s);
	}
	forget(run);
	if (r < 0)
		return err_set(err, r, "job %u: wait for %s", job_id, what);
	return status == 0 ? 1 : describe_failure(job_id, what, status, err);
}

int programs_poll_begin(const job_record_t *job, struct err *err)
{
	return poll_program(job->job_id, true, "its begin_program", err);
}

int programs_poll_end(uint32_t job_id, struct err *err)
{
	return poll_program(job_id, false, "its end_program", err);
}

int programs_end(const job_record_t *job, struct err *err)
{
	struct run *run = find_run(job->job_id, true);

	if (run)
		end_run(run);
	return programs.end_program ? start(job, programs.end_program, false, err) : 0;
}
