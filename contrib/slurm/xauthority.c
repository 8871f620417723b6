/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/xauthority.h"

#include <assert.h>
#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "contrib/slurm/user_child.h"
#include "stepd/base/clock.h"
#include "stepd/base/fs.h"
#include "stepd/base/proc.h"
#include "stepd/process/identity.h"
#include "stepd/process/mount_namespace.h"
#include "stepd/process/process.h"

/* As slurmstepd waits for it: it waits itself while another one has the file locked. */
#define XAUTH_TIMEOUT_MS 10000
#define KILL_TIMEOUT_MS  2000
#define COOKIE_MAX       256 /* digits; there are 32 */

struct xauthority {
	struct identity identity;
	char *mount_namespace; /* NULL: none */
	char *path;
	bool is_new; /* there is nothing else in it */
	unsigned display;
	char host[HOST_NAME_MAX + 1];
};

/* ---- xauth ----------------------------------------------------------------------------------- */

struct xauth {
	const struct xauthority *file;
	int namespace_fd; /* -1: none */
	int commands_fd;  /* one a line, for they have the cookie: an argument is seen by everybody
			   */
};

static int execute_xauth(void *userdata)
{
	static const char *const paths[] = {
		"/usr/bin/xauth", "/usr/local/bin/xauth", "/usr/X11R6/bin/xauth"};
	const struct xauth *xauth = userdata;
	const char *const argv[] = {"xauth", "-q", "-f", xauth->file->path, "source", "-", NULL};
	const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
	int fd, r = xauth->namespace_fd < 0 ? 0 : mount_namespace_enter(xauth->namespace_fd);
	size_t i;

	if (r == 0)
		r = identity_become(&xauth->file->identity);
	if (r < 0)
		return r;
	(void)umask(077);
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (fd < 0 || chdir("/") < 0 || dup2(xauth->commands_fd, STDIN_FILENO) < 0 ||
		dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
		return -errno;
	for (i = 0, errno = ENOENT; i < ARRAY_SIZE(paths) && errno == ENOENT; i++)
		(void)execve(paths[i], (char *const *)argv, (char *const *)env);
	return -errno;
}

static int check_status(int status, struct err *err)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return WIFEXITED(status)
		? err_set_text(
			  err, -EREMOTEIO, "xauth has failed with status %d", WEXITSTATUS(status))
		: err_set_text(err, -EREMOTEIO, "xauth was ended by signal %d", WTERMSIG(status));
}

/* One that even KILL does not end, in a file system whose server is gone, stays behind. */
static int reap(const struct pidref *process, struct err *err)
{
	int status, r = fs_wait_readable(process->fd, clock_now_ms() + XAUTH_TIMEOUT_MS);
	pid_t pid;

	if (r <= 0) {
		(void)!pidref_signal(process, SIGKILL); /* it may have ended just now */
		if (fs_wait_readable(process->fd, clock_now_ms() + KILL_TIMEOUT_MS) > 0)
			(void)waitpid(process->pid, NULL, 0);
		return err_set(err, r < 0 ? r : -ETIMEDOUT, "wait for xauth");
	}
	do
		pid = waitpid(process->pid, &status, 0);
	while (pid < 0 && errno == EINTR);
	return pid < 0 ? err_set(err, -errno, "wait for xauth") : check_status(status, err);
}

static int run_xauth(const struct xauthority *file, const char *commands, struct err *err)
{
	struct xauth xauth = {.file = file, .namespace_fd = -1};
	_cleanup_pidref_ struct pidref process = PIDREF_INIT;
	_cleanup_close_ int from = -1, to = -1, namespace_fd = -1;
	int fds[2], r;

	if (file->mount_namespace) {
		namespace_fd = mount_namespace_open(file->mount_namespace, err);
		if (namespace_fd < 0)
			return namespace_fd;
		xauth.namespace_fd = namespace_fd;
	}
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, -errno, "run xauth");
	from = xauth.commands_fd = fds[0];
	to = fds[1];
	r = fs_write_all(to, commands, strlen(commands)); /* a pipe holds it */
	to = close_fd(to);
	if (r == 0)
		r = process_execute(execute_xauth, &xauth, &process);
	return r < 0 ? err_set(err, r, "run xauth (/usr/bin/xauth)") : reap(&process, err);
}

/* ---- the file -------------------------------------------------------------------------------- */

static int take_identity(const struct xauthority_options *o, struct identity *id, struct err *err)
{
	size_t i;

	*id = (struct identity){.uid = o->uid, .gid = o->gid, .groups_count = o->groups_count};
	id->groups = calloc(o->groups_count ? o->groups_count : 1, sizeof(*id->groups));
	if (asprintf(&id->user_name, "%u", (unsigned)o->uid) < 0)
		id->user_name = NULL;
	if (!id->groups || !id->user_name)
		return err_set(err, -ENOMEM, "make the job's Xauthority file");
	for (i = 0; i < o->groups_count; i++)
		id->groups[i] = o->groups[i];
	return identity_compare_with_agent(id, err);
}

/* Of a pattern, whose name is the result then. */
static int make_new(void *userdata, void *result)
{
	const struct xauthority *file = userdata;
	char *path = result;
	int fd;

	if (strlen(file->path) >= PATH_MAX)
		return -ENAMETOOLONG;
	(void)snprintf(path, PATH_MAX, "%s", file->path);
	fd = mkostemp(path, O_CLOEXEC); /* 0600 */
	if (fd < 0)
		return -errno;
	(void)close(fd);
	return 0;
}

static int remove_new(void *userdata, _unused_ void *result)
{
	const struct xauthority *file = userdata;

	return unlink(file->path) < 0 && errno != ENOENT ? -errno : 0;
}

/* size: of a result, which is a new path. */
static int act_as_user(struct xauthority *file, int (*act)(void *userdata, void *result),
	size_t size, char *result, struct err *err)
{
	const struct user_child child = {.identity = &file->identity,
		.mount_namespace = file->mount_namespace,
		.timeout_ms = XAUTH_TIMEOUT_MS,
		.run = act,
		.userdata = file,
		.result_size = size};

	return user_child_run(&child, result, err);
}

static int make_path(const struct xauthority_options *o, struct xauthority *file, struct err *err)
{
	char path[PATH_MAX];
	int r;

	file->is_new = !o->home;
	if (asprintf(&file->path, "%s/.Xauthority%s", o->home ? o->home : o->directory,
		    o->home ? "" : "-XXXXXX") < 0) {
		file->path = NULL;
		return err_set(err, -ENOMEM, "make the job's Xauthority file");
	}
	if (o->home)
		return 0; /* xauth makes it, if there is none */
	r = act_as_user(file, make_new, sizeof(path), path, err);
	if (r < 0) {
		file->is_new = false; /* it is not there */
		return err_prefix(err, "make a file in '%s'", o->directory);
	}
	free(file->path);
	file->path = strndup(path, sizeof(path) - 1);
	return file->path ? 0 : err_set(err, -ENOMEM, "make the job's Xauthority file");
}

static bool is_cookie(const char *text)
{
	size_t n;

	for (n = 0; isxdigit((unsigned char)text[n]); n++)
		;
	return n > 0 && n <= COOKIE_MAX && !text[n];
}

static int add_entry(const struct xauthority *file, const char *cookie, struct err *err)
{
	char commands[HOST_NAME_MAX + COOKIE_MAX + 64];

	if (!cookie || !is_cookie(cookie))
		return err_set_text(err, -EINVAL, "the X display's cookie is not hexadecimal");
	(void)snprintf(commands, sizeof(commands), "add %s/unix:%u MIT-MAGIC-COOKIE-1 %s\n",
		file->host, file->display, cookie);
	return run_xauth(file, commands, err);
}

static void xauthority_free(struct xauthority *file)
{
	identity_clear(&file->identity);
	free(file->mount_namespace);
	free(file->path);
	free(file);
}

static int remove_file(struct xauthority *file, struct err *err)
{
	if (act_as_user(file, remove_new, 0, NULL, err) < 0)
		return err_prefix(err, "remove '%s'", file->path);
	return 0;
}

static int remove_entry(const struct xauthority *file, struct err *err)
{
	char commands[HOST_NAME_MAX + 64];

	(void)snprintf(
		commands, sizeof(commands), "remove %s/unix:%u\n", file->host, file->display);
	return run_xauth(file, commands, err);
}

int xauthority_make(
	const struct xauthority_options *options, struct xauthority **ret_file, struct err *err)
{
	struct xauthority *file = calloc(1, sizeof(*file));
	struct err ignored = ERR_INIT;
	int r;

	assert(options->home || options->directory);
	if (!file)
		return err_set(err, -ENOMEM, "make the job's Xauthority file");
	file->display = options->display;
	if (options->mount_namespace)
		file->mount_namespace = strdup(options->mount_namespace);
	if (options->mount_namespace && !file->mount_namespace)
		r = err_set(err, -ENOMEM, "make the job's Xauthority file");
	else if (gethostname(file->host, sizeof(file->host) - 1) < 0)
		r = err_set(err, -errno, "read the host's name");
	else
		r = take_identity(options, &file->identity, err);
	if (r == 0)
		r = make_path(options, file, err);
	if (r == 0)
		r = add_entry(file, options->cookie, err);
	if (r == 0) {
		*ret_file = file;
		return 0;
	}
	if (file->is_new && file->path)
		(void)remove_file(file, &ignored);
	xauthority_free(file);
	return r;
}

const char *xauthority_get_path(const struct xauthority *file)
{
	return file->path;
}

struct xauthority *xauthority_remove(struct xauthority *file, const struct log *log)
{
	struct err err = ERR_INIT;

	if (!file)
		return NULL;
	if ((file->is_new ? remove_file(file, &err) : remove_entry(file, &err)) < 0)
		log_warning(log, "can't remove the X display's cookie from '%s': %s", file->path,
			err.text);
	xauthority_free(file);
	return NULL;
}
