/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/job_tmpfs.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contrib/slurm/decision.h"
#include "contrib/slurm/site_script.h"
#include "stepd/base/fs.h"
#include "stepd/base/strv.h"

#define OPEN_DIR              (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define INIT_SCRIPT_TIMEOUT_S 10
#define SHM                   "/dev/shm"

struct job_tmpfs {
	const struct slurm_init *init;
	const struct job_namespace *name_space;
	const struct log *log;
	char *conf_path, *directory, *source; /* BASE/JOB, BASE/JOB/.JOB */
};

/* ---- the site's scripts -------------------------------------------------------------------- */

static int add_env_of_step(const struct job_tmpfs *t, struct strv *env)
{
	const struct slurm_launch *l = &t->init->launch;
	int r = 0;

	if (l->het.job && l->het.job != SLURM_NO_VAL)
		r = strv_addf(env, "SLURM_HET_JOB_ID=%u", l->het.job);
	if (r == 0)
		r = strv_addf(env, "SLURM_JOB_GID=%u", l->gid);
	if (r == 0)
		r = strv_addf(env, "SLURM_JOB_UID=%u", l->uid);
	if (r == 0)
		r = strv_addf(env, "SLURM_JOB_USER=%s", l->user ? l->user : "");
	if (r == 0 && (l->cred_node_aliases || t->init->frame.release < SLURM_23_11))
		r = strv_addf(env, "SLURM_NODE_ALIASES=%s",
			l->cred_node_aliases ? l->cred_node_aliases : "(null)");
	if (r == 0 && l->cwd)
		r = strv_addf(env, "SLURM_JOB_WORK_DIR=%s", l->cwd);
	return r;
}

/* What else there is depends on the script; 22.05 has less of it. */
static int make_env(const struct job_tmpfs *t, bool source, bool path, struct strv *env)
{
	const struct slurm_init *i = t->init;
	int r = strv_addf(env, "SLURM_JOB_ID=%u", i->launch.id.job);

	if (r == 0)
		r = strv_addf(env, "SLURM_CONF=%s", t->conf_path);
	if (r == 0)
		r = strv_addf(env, "SLURMD_NODENAME=%s", i->conf.node_name);
	if (r == 0 && source)
		r = strv_addf(env, "SLURM_JOB_MOUNTPOINT_SRC=%s", t->source);
	if (r == 0 && source && i->frame.release > SLURM_22_05)
		r = add_env_of_step(t, env);
	if (r == 0 && path)
		r = strv_addf(env, "SLURM_NS=%s", t->name_space->path);
	return r;
}

struct script {
	const char *setting, *path; /* NULL: the site has none */
	uint32_t timeout_s;
	bool source, ns; /* which variables it has */
};

static int run_script(const struct job_tmpfs *t, const struct script *script, struct err *err)
{
	_cleanup_strv_ struct strv env = {0};
	struct site_script run = {.setting = script->setting,
		.path = script->path,
		.timeout_ms = script->timeout_s < UINT32_MAX / 1000 ? script->timeout_s * 1000
								    : UINT32_MAX};

	if (!script->path)
		return 0;
	if (make_env(t, script->source, script->ns, &env) < 0)
		return err_set(err, -ENOMEM, "run %s", script->setting);
	run.env = env.v;
	return site_script_run(&run, err);
}

static int run_init_script(const struct job_tmpfs *t, struct err *err)
{
	const struct script script = {.setting = "InitScript",
		.path = t->name_space->init_script,
		.timeout_s = INIT_SCRIPT_TIMEOUT_S,
		.source = true};

	return run_script(t, &script, err);
}

static int run_clone_script(const struct job_tmpfs *t, struct err *err)
{
	const struct script script = {.setting = "CloneNSScript",
		.path = t->name_space->clone_script,
		.timeout_s = t->name_space->clone_script_timeout_s,
		.source = true,
		.ns = true};

	return run_script(t, &script, err);
}

static void run_clone_epilog(const struct job_tmpfs *t)
{
	const struct script script = {.setting = "CloneNSEpilog",
		.path = t->name_space->clone_epilog,
		.timeout_s = t->name_space->clone_epilog_timeout_s,
		.ns = true};
	struct err err = ERR_INIT;

	if (run_script(t, &script, &err) < 0)
		log_error(t->log, "%s, ignoring", err.text);
}

/* ---- in a child, whose namespace it is ----------------------------------------------------- */

static int set_propagation(const struct job_tmpfs *t, struct err *err)
{
	bool shared = t->name_space->is_shared;
	int r = 0;

	if (shared && mount(NULL, "/", NULL, MS_SHARED | MS_REC, NULL) < 0)
		r = -errno;
	if (r == 0 && mount(NULL, "/", NULL, (shared ? MS_SLAVE : MS_PRIVATE) | MS_REC, NULL) < 0)
		r = -errno;
	return r < 0 ? err_set(err, r, "make the mounts of the job its own") : 0;
}

/* A directory of the user's in that one, which root alone reaches: "_var_tmp" for "/var/tmp".
 * InitScript may have made it. */
static int make_private(
	const struct job_tmpfs *t, const char *dir, size_t size, char **ret_path, struct err *err)
{
	char *at;

	if (asprintf(ret_path, "%s/%.*s", t->source, (int)size, dir) < 0) {
		*ret_path = NULL;
		return err_set(err, -ENOMEM, "make a private directory");
	}
	for (at = *ret_path + strlen(t->source) + 1; *at; at++)
		*at = *at == '/' ? '_' : *at;
	if ((mkdir(*ret_path, 0700) < 0 && errno != EEXIST) ||
		lchown(*ret_path, t->init->launch.uid, (gid_t)-1) < 0)
		return err_set(err, -errno, "make '%s' for the job's user", *ret_path);
	return 0;
}

static int mount_private(const struct job_tmpfs *t, const char *dir, size_t size, struct err *err)
{
	_cleanup_free_ char *path = NULL, *target = strndup(dir, size);
	int r = target ? make_private(t, dir, size, &path, err)
		       : err_set(err, -ENOMEM, "make a private directory");

	if (r < 0)
		return r;
	return mount(path, target, NULL, MS_BIND, NULL) < 0
		? err_set(err, -errno, "mount a private '%s'", target)
		: 0;
}

/* /dev/shm has its turn later. */
static int mount_directories(const struct job_tmpfs *t, bool *ret_shm, struct err *err)
{
	const char *dirs = t->name_space->dirs;
	int r = 0;
	size_t n;

	*ret_shm = !dirs;
	if (!dirs)
		return mount(t->source, "/tmp", NULL, MS_BIND | MS_REC, NULL) < 0
			? err_set(err, -errno, "mount a private '/tmp'")
			: 0;
	for (; r == 0 && *dirs; dirs += n + (dirs[n] == ',')) {
		n = strcspn(dirs, ",");
		if (n == strlen(SHM) && strncmp(dirs, SHM, n) == 0)
			*ret_shm = true;
		else if (n > 0)
			r = mount_private(t, dirs, n, err);
	}
	return r;
}

/* Of those of other jobs, too, where mounts are shared: tasks see no more than their own. */
static int detach(const char *name, _unused_ uint8_t type, void *userdata)
{
	const struct job_tmpfs *t = userdata;
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%s/%s", t->name_space->base, name) < 0)
		path = NULL;
	else if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
		(void)umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW); /* if it is a mount */
	return 0;
}

static int hide(struct job_tmpfs *t, struct err *err)
{
	_cleanup_close_ int fd = -1;
	int r = 0;

	if (!t->name_space->is_shared) {
		r = umount2(t->directory, MNT_DETACH) < 0 ? -errno : 0;
	} else {
		fd = open(t->name_space->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = fd < 0 ? -errno : dirnames_each(fd, DIRNAMES_PIECE_MAX, detach, t);
	}
	return r < 0 ? err_set(err, r, "hide '%s' from the job", t->name_space->base) : 0;
}

/* Where mounts are shared the old one stays below. */
static int mount_shm(const struct job_tmpfs *t, struct err *err)
{
	if (!t->name_space->is_shared && umount(SHM) < 0 && errno != EINVAL)
		return err_set(err, -errno, "take '" SHM "' from the job");
	return mount("tmpfs", SHM, "tmpfs", MS_NOSUID | MS_NODEV, NULL) < 0
		? err_set(err, -errno, "mount a private '" SHM "'")
		: 0;
}

static int fill(struct job_tmpfs *t, struct err *err)
{
	bool shm = false;
	int r = set_propagation(t, err);

	if (r == 0)
		r = mount_directories(t, &shm, err);
	if (r == 0 && chown(t->source, t->init->launch.uid, (gid_t)-1) < 0)
		r = err_set(err, -errno, "give '%s' to the job's user", t->source);
	if (r == 0)
		r = hide(t, err);
	return r == 0 && shm ? mount_shm(t, err) : r;
}

/* Says that the namespace is there, by a byte; waits until it is bound; and sends the error. */
static _noreturn_ void run_child(struct job_tmpfs *t, int fd)
{
	struct err err = ERR_INIT;
	char byte = 0;
	int r = unshare(CLONE_NEWNS) < 0 ? err_set(&err, -errno, "make a mount namespace") : 0;

	if (r == 0 && (send(fd, &byte, 1, MSG_NOSIGNAL) != 1 || recv(fd, &byte, 1, 0) != 1))
		_exit(EXIT_FAILURE);
	if (r == 0)
		(void)fill(t, &err); /* err has it */
	_exit(send(fd, &err, sizeof(err), MSG_NOSIGNAL) == (ssize_t)sizeof(err) ? EXIT_SUCCESS
										: EXIT_FAILURE);
}

/* ---- in the parent ------------------------------------------------------------------------- */

static ssize_t receive(int fd, void *data, size_t size)
{
	ssize_t n;

	do
		n = recv(fd, data, size, 0);
	while (n < 0 && errno == EINTR);
	return n;
}

/* Bound to a file a namespace lasts without a process in it. */
static int bind_child(const struct job_tmpfs *t, pid_t pid, int fd, struct err *err)
{
	const char *path = t->name_space->path;
	struct err got = ERR_INIT;
	char of_child[64], byte = 0;
	ssize_t n = receive(fd, &got, sizeof(got));

	(void)snprintf(of_child, sizeof(of_child), "/proc/%d/ns/mnt", (int)pid);
	if (n == 1) {
		if (mount(of_child, path, NULL, MS_BIND, NULL) < 0)
			return err_set(err, -errno, "mount the job's namespace on '%s'", path);
		if (send(fd, &byte, 1, MSG_NOSIGNAL) != 1)
			return err_set(err, -errno, "make the job's namespace");
		n = receive(fd, &got, sizeof(got));
	}
	if (n != (ssize_t)sizeof(got))
		return err_set(err, n < 0 ? -errno : -EPIPE, "make the job's namespace");
	return got.code < 0 ? err_set_text(err, got.code, "%s", got.text) : 0;
}

static int make_namespace(struct job_tmpfs *t, struct err *err)
{
	_cleanup_close_ int ours = -1, theirs = -1;
	int fds[2], r;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return err_set(err, -errno, "make the job's namespace");
	ours = fds[0];
	theirs = fds[1];
	pid = fork();
	if (pid < 0)
		return err_set(err, -errno, "make the job's namespace");
	if (pid == 0) {
		(void)close_fd(ours);
		run_child(t, theirs);
	}
	theirs = close_fd(theirs);
	r = bind_child(t, pid, ours, err);
	ours = close_fd(ours); /* a child that waits ends by it */
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return r;
}

/* So that nothing of it is propagated to other namespaces. */
static int mount_directory(const struct job_tmpfs *t, struct err *err)
{
	const char *dir = t->directory;
	int r = mount(dir, dir, NULL, MS_BIND, NULL) < 0 ||
			mount(dir, dir, NULL, MS_PRIVATE | MS_REC, NULL) < 0
		? -errno
		: 0;

	return r < 0 ? err_set(err, r, "mount '%s' on itself", dir) : 0;
}

static int make_holder(const struct job_tmpfs *t, struct err *err)
{
	const char *path = t->name_space->path;
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700);

	if (fd < 0)
		return err_set(err, -errno, "make '%s'", path);
	(void)close_fd(fd);
	return 0;
}

/* InitScript may have made it. */
static int make_source(const struct job_tmpfs *t, struct err *err)
{
	return mkdir(t->source, 0700) < 0 && errno != EEXIST
		? err_set(err, -errno, "make '%s'", t->source)
		: 0;
}

static int make_all(struct job_tmpfs *t, struct err *err)
{
	int r = mount_directory(t, err);

	if (r == 0)
		r = make_holder(t, err);
	if (r == 0)
		r = run_init_script(t, err);
	if (r == 0)
		r = make_source(t, err);
	if (r == 0)
		r = make_namespace(t, err);
	return r == 0 ? run_clone_script(t, err) : r;
}

/* ---- removing ------------------------------------------------------------------------------ */

static int empty(const struct job_tmpfs *t)
{
	_cleanup_close_ int fd = open(t->directory, OPEN_DIR);

	return fd < 0 ? -errno : fs_empty_directory(fd);
}

/* The second time what was below mounts, of InitScript's, too, which are gone by then. */
static void remove_all(const struct job_tmpfs *t)
{
	int r;

	if (umount2(t->name_space->path, MNT_DETACH) < 0 && errno != EINVAL && errno != ENOENT)
		log_error(t->log, "unmount '%s': %s", t->name_space->path, strerror(errno));
	(void)!empty(t);
	if (umount2(t->directory, MNT_DETACH) < 0 && errno != EINVAL)
		log_error(t->log, "unmount '%s': %s", t->directory, strerror(errno));
	r = empty(t);
	if (r < 0)
		log_error(t->log, "remove what is in '%s': %s", t->directory, strerror(-r));
	else if (rmdir(t->directory) < 0)
		log_error(t->log, "remove '%s': %s", t->directory, strerror(errno));
}

static struct job_tmpfs *tmpfs_free(struct job_tmpfs *t)
{
	free(t->conf_path);
	free(t->directory);
	free(t->source);
	free(t);
	return NULL;
}

struct job_tmpfs *job_tmpfs_remove(struct job_tmpfs *t)
{
	if (!t)
		return NULL;
	run_clone_epilog(t);
	remove_all(t);
	return tmpfs_free(t);
}

/* ---- making -------------------------------------------------------------------------------- */

static int find_paths(struct job_tmpfs *t, const char *conf_path)
{
	uint32_t job = t->init->launch.id.job;

	t->conf_path = strdup(conf_path);
	if (asprintf(&t->directory, "%s/%u", t->name_space->base, job) < 0)
		t->directory = NULL;
	if (asprintf(&t->source, "%s/%u/.%u", t->name_space->base, job, job) < 0)
		t->source = NULL;
	return t->conf_path && t->directory && t->source ? 0 : -ENOMEM;
}

int job_tmpfs_make(const struct slurm_init *init, const char *conf_path, const struct log *log,
	struct job_tmpfs **ret_tmpfs, struct err *err)
{
	struct job_tmpfs *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return err_set(err, -ENOMEM, "make the job's namespace");
	t->init = init;
	t->name_space = &init->name_space;
	t->log = log;
	r = find_paths(t, conf_path);
	if (r < 0)
		r = err_set(err, r, "make the job's namespace");
	else
		r = fs_check_parents(t->directory, NULL, err);
	if (r == 0 && mkdir(t->directory, 0700) < 0)
		r = err_set(err, -errno, "make '%s'", t->directory);
	if (r < 0) {
		(void)tmpfs_free(t);
		return r;
	}
	r = make_all(t, err);
	if (r < 0) {
		remove_all(t);
		(void)tmpfs_free(t);
		return r;
	}
	*ret_tmpfs = t;
	return 0;
}
