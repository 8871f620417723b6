/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The namespace of a job, as an extern step makes and removes it, in a mount namespace of the
 * test's own; and scripts of the site's.
 */
#include "contrib/slurm/job_tmpfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "contrib/slurm/decision.h"
#include "contrib/slurm/site_script.h"
#include "stepd/base/fs.h"
#include "stepd/process/mount_namespace.h"
#include "tests/lib/scratch.h"

#define UID 65534

struct ground {
	char *dir, *base;
	struct slurm_init init;
	int fds;
};

static bool can_mount;
static char logged[4096];

static int collect(_unused_ const struct log *log, _unused_ enum log_level level, const char *text)
{
	(void)snprintf(logged + strlen(logged), sizeof(logged) - strlen(logged), "%s\n", text);
	return 0;
}

static const struct log test_log = {.send = collect, .fd = -1, .most = LOG_LEVEL_INFO};

/* On one processor: a namespace can be mounted only where it has a higher number than the one
 * around it, and Linux 6.18 counts them for each processor. */
static int enter_own(_unused_ void **state)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	can_mount = sched_setaffinity(0, sizeof(set), &set) == 0 && unshare(CLONE_NEWNS) == 0 &&
		mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) == 0;
	/* BasePath is in no directory that jobs have of their own. */
	return can_mount ? setenv("TMPDIR", "/run", 1) : 0;
}

static void need_mounts(void)
{
	if (!can_mount)
		skip();
}

static int set_up(void **state)
{
	struct ground *g = calloc(1, sizeof(*g));

	if (!g)
		return -1;
	g->dir = scratch_make();
	g->base = scratch_path(g->dir, "base");
	g->init = (struct slurm_init){.frame.release = SLURM_24_11,
		.conf.node_name = "n1",
		.launch = {.kind = SLURM_KIND_EXTERN,
			.id.job = 42,
			.uid = UID,
			.gid = UID,
			.user = "nobody",
			.cwd = "/home",
			.het.job = SLURM_NO_VAL}};
	g->init.name_space.base = strdup(g->base);
	g->init.name_space.path = scratch_path(g->base, "42/.ns");
	g->init.name_space.dirs = strdup("/tmp,/dev/shm");
	g->init.name_space.clone_script_timeout_s = 10;
	g->init.name_space.clone_epilog_timeout_s = 10;
	*logged = '\0';
	*state = g;
	g->fds = scratch_count_fds();
	return mkdir(g->base, 0755);
}

static int tear_down(void **state)
{
	struct ground *g = *state;
	_cleanup_free_ char *job = scratch_path(g->base, "42");
	int more = scratch_count_fds() - g->fds, left = rmdir(g->base);

	if (left < 0) {
		(void)printf("# '%s' is left: %s\n", g->base, strerror(errno));
		(void)umount2(job, MNT_DETACH);
		(void)umount2(g->init.name_space.path, MNT_DETACH);
	}
	scratch_remove(g->dir);
	job_namespace_clear(&g->init.name_space);
	free(g->dir);
	free(g->base);
	free(g);
	return more || left < 0 ? -1 : 0;
}

static void set_text(char **text, const char *by)
{
	free(*text);
	*text = by ? strdup(by) : NULL;
}

static struct job_tmpfs *make(struct ground *g)
{
	struct job_tmpfs *t = NULL;
	struct err err = ERR_INIT;

	if (job_tmpfs_make(&g->init, "/etc/slurm/slurm.conf", &test_log, &t, &err) < 0)
		fail_msg("%s", err.text);
	return t;
}

static void assert_fails(struct ground *g, int error, const char *text)
{
	struct job_tmpfs *t = NULL;
	struct err err = ERR_INIT;

	assert_int_equal(
		job_tmpfs_make(&g->init, "/etc/slurm/slurm.conf", &test_log, &t, &err), error);
	assert_null(t);
	if (!strstr(err.text, text))
		fail_msg("'%s' has no '%s'", err.text, text);
	assert_string_equal(logged, "");
}

/* What a shell writes in the job's namespace, as its user or as root. */
static char *run_inside(const struct ground *g, uid_t uid, const char *commands)
{
	struct err err = ERR_INIT;
	int ns = mount_namespace_open(g->init.name_space.path, &err), fds[2], status;
	char *text = NULL;
	pid_t pid;

	assert_true(ns >= 0);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		if (mount_namespace_enter(ns) < 0 || dup2(fds[1], STDOUT_FILENO) < 0 ||
			setresuid(uid, uid, uid) < 0)
			_exit(99);
		(void)execl("/bin/sh", "sh", "-c", commands, NULL);
		_exit(98);
	}
	(void)close(fds[1]);
	(void)close(ns);
	assert_int_equal(fs_read_fd(fds[0], 65536, &text, NULL), 0);
	(void)close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status)
		fail_msg("status %d: %s", status, text);
	return text;
}

static void assert_inside(
	const struct ground *g, uid_t uid, const char *commands, const char *output)
{
	_cleanup_free_ char *text = run_inside(g, uid, commands);

	assert_string_equal(text, output);
}

static void write_script(const struct ground *g, const char *name, const char *text, char **path)
{
	scratch_write(g->dir, name, text, strlen(text), 0755);
	free(*path);
	*path = scratch_path(g->dir, name);
}

static char *read_result(const struct ground *g, const char *name)
{
	_cleanup_free_ char *path = scratch_path(g->dir, name);
	char *text = NULL;

	assert_int_equal(fs_read(AT_FDCWD, path, 65536, &text, NULL), 0);
	return text;
}

static void assert_gone(const struct ground *g)
{
	assert_int_equal(faccessat(AT_FDCWD, g->init.name_space.path, F_OK, 0), -1);
	assert_int_equal(rmdir(g->base), 0); /* it is empty */
	assert_int_equal(mkdir(g->base, 0755), 0);
}

/* ---- the namespace -------------------------------------------------------------------------- */

static void test_private(void **state)
{
	struct ground *g = *state;
	_cleanup_free_ char *seen = NULL;
	struct job_tmpfs *t;

	need_mounts();
	set_text(&g->init.name_space.dirs, "/tmp,/var/tmp,/dev/shm");
	t = make(g);
	assert_inside(g, UID,
		"ls -A /tmp /var/tmp /dev/shm; stat -c '%u %a' /tmp /var/tmp /dev/shm",
		"/dev/shm:\n\n/tmp:\n\n/var/tmp:\n65534 700\n65534 700\n0 1777\n");
	assert_inside(g, UID, "echo one >/tmp/x; echo two >/var/tmp/y; echo three >/dev/shm/z", "");
	assert_inside(g, UID, "cat /tmp/x /var/tmp/y /dev/shm/z", "one\ntwo\nthree\n");
	assert_inside(g, 0,
		"sed -n 's,.* /dev/shm tmpfs \\([^ ]*\\) .*,\\1,p' /proc/self/mounts | tail -n 1 |"
		" tr , '\\n' | grep -c '^no[sd]'",
		"2\n");
	seen = run_inside(g, 0, "cat /proc/self/mounts");
	assert_null(strstr(seen, g->base)); /* as a mount point */
	assert_int_equal(faccessat(AT_FDCWD, "/tmp/x", F_OK, 0), -1);
	assert_null(job_tmpfs_remove(t));
	assert_string_equal(logged, "");
	assert_gone(g);
}

/* 22.05's have one directory, and no settings. */
static void test_first_release(void **state)
{
	struct ground *g = *state;
	struct job_tmpfs *t;

	need_mounts();
	g->init.frame.release = SLURM_22_05;
	set_text(&g->init.name_space.dirs, NULL);
	t = make(g);
	assert_inside(g, UID,
		"ls -A /tmp /dev/shm; stat -c '%u %a' /tmp; echo x >/tmp/x; cat /tmp/x",
		"/dev/shm:\n\n/tmp:\n65534 700\nx\n");
	assert_null(job_tmpfs_remove(t));
	assert_string_equal(logged, "");
	assert_gone(g);
}

static void test_shm_alone(void **state)
{
	struct ground *g = *state;
	_cleanup_free_ char *outside = scratch_path(g->dir, "outside");
	char commands[PATH_MAX];
	struct job_tmpfs *t;
	struct stat st;

	need_mounts();
	set_text(&g->init.name_space.dirs, "/dev/shm");
	scratch_write(g->dir, "outside", "", 0, 0644);
	t = make(g);
	(void)snprintf(
		commands, sizeof(commands), "ls -A /dev/shm; [ -e '%s' ] && echo outside", outside);
	assert_inside(g, 0, commands, "outside\n");
	assert_null(job_tmpfs_remove(t));
	set_text(&g->init.name_space.dirs, "");
	t = make(g);
	assert_int_equal(stat("/dev/shm", &st), 0);
	(void)snprintf(commands, sizeof(commands),
		"[ $(stat -c %%d /dev/shm) = %llu ] && echo the same",
		(unsigned long long)st.st_dev);
	assert_inside(g, 0, commands, "the same\n");
	assert_null(job_tmpfs_remove(t));
	assert_string_equal(logged, "");
	assert_gone(g);
}

/* What is mounted on the node later is seen. */
static void test_shared(void **state)
{
	struct ground *g = *state;
	_cleanup_free_ char *late = scratch_path(g->dir, "late");
	char commands[PATH_MAX];
	struct job_tmpfs *t, *other = NULL;
	struct slurm_init init = g->init;
	struct err err = ERR_INIT;

	need_mounts();
	assert_int_equal(mkdir(late, 0755), 0);
	set_text(&g->init.name_space.dirs, "/var/tmp");
	g->init.name_space.is_shared = true;
	assert_int_equal(mount(NULL, "/", NULL, MS_SHARED | MS_REC, NULL), 0);
	init.name_space = (struct job_namespace){.base = g->base,
		.path = scratch_path(g->base, "43/.ns"),
		.dirs = (char *)"/var/tmp"};
	init.launch.id.job = 43;
	assert_int_equal(job_tmpfs_make(&init, "/x", &test_log, &other, &err), 0);
	t = make(g);
	assert_int_equal(mount("tmpfs", late, "tmpfs", 0, NULL), 0);
	(void)snprintf(commands, sizeof(commands), "grep -c ' %s ' /proc/self/mounts", late);
	assert_inside(g, 0, commands, "1\n");
	(void)snprintf(
		commands, sizeof(commands), "grep -c ' %s/' /proc/self/mounts; true", g->base);
	assert_inside(g, 0, commands, "0\n");
	assert_int_equal(umount(late), 0);
	assert_null(job_tmpfs_remove(other));
	assert_null(job_tmpfs_remove(t));
	assert_int_equal(mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL), 0);
	free(init.name_space.path);
	assert_string_equal(logged, "");
	assert_gone(g);
}

/* However deep, and whatever its names, modes and links. */
static void test_left(void **state)
{
	struct ground *g = *state;
	struct job_tmpfs *t;

	need_mounts();
	t = make(g);
	assert_inside(g, UID,
		"cd /tmp; i=0; while [ $i -lt 300 ]; do mkdir d; cd d; i=$((i + 1)); done; echo >x;"
		"cd /tmp; mkdir -- 'a b' -x '*'; ln -s / root; ln -s / '*/root'; chmod 0 'a b'; echo >-x/.y;"
		"mkfifo fifo; echo >/dev/shm/z",
		"");
	assert_null(job_tmpfs_remove(t));
	assert_string_equal(logged, "");
	assert_gone(g);
}

/* ---- failures ------------------------------------------------------------------------------- */

static void test_exists(void **state)
{
	struct ground *g = *state;
	_cleanup_free_ char *job = scratch_path(g->base, "42"), *file = scratch_path(job, "file");

	need_mounts();
	assert_int_equal(mkdir(job, 0700), 0);
	scratch_write(job, "file", "", 0, 0644);
	assert_fails(g, -EEXIST, "/base/42");
	assert_int_equal(unlink(file), 0); /* which was not touched */
	assert_int_equal(rmdir(job), 0);
}

static void test_no_base(void **state)
{
	struct ground *g = *state;

	need_mounts();
	assert_int_equal(rmdir(g->base), 0);
	assert_fails(g, -ENOENT, "/base");
	assert_int_equal(mkdir(g->base, 0777), 0);
	assert_int_equal(chmod(g->base, 0777), 0);
	assert_fails(g, -EPERM, "/base");
	assert_int_equal(chmod(g->base, 01777), 0);
	assert_null(job_tmpfs_remove(make(g)));
	assert_gone(g);
}

static void test_no_directory(void **state)
{
	struct ground *g = *state;

	need_mounts();
	set_text(&g->init.name_space.dirs, "/tmp,/nowhere/at/all,/dev/shm");
	assert_fails(g, -ENOENT, "mount a private '/nowhere/at/all'");
	assert_gone(g);
}

/* ---- scripts of the site's ------------------------------------------------------------------- */

static void test_scripts(void **state)
{
	struct ground *g = *state;
	struct job_namespace *n = &g->init.name_space;
	_cleanup_free_ char *init = NULL, *clone = NULL, *epilog = NULL;
	struct job_tmpfs *t;
	char wanted[PATH_MAX * 2];

	need_mounts();
	write_script(g, "init", "#!/bin/sh\nenv | grep ^SLURM | sort >${0%/*}/init.out\n",
		&n->init_script);
	write_script(g, "clone",
		"#!/bin/sh\nenv | grep ^SLURM | sort >${0%/*}/clone.out\nreadlink /proc/self/fd/0 >>${0%/*}/clone.out\n",
		&n->clone_script);
	write_script(g, "epilog",
		"#!/bin/sh\nenv | grep ^SLURM | sort >${0%/*}/epilog.out\nid -u >>${0%/*}/epilog.out\n",
		&n->clone_epilog);
	g->init.launch.het.job = 7;
	g->init.launch.cred_node_aliases = "n1:10.0.0.1";
	t = make(g);
	assert_null(job_tmpfs_remove(t));
	assert_string_equal(logged, "");
	init = read_result(g, "init.out");
	clone = read_result(g, "clone.out");
	epilog = read_result(g, "epilog.out");
	(void)snprintf(wanted, sizeof(wanted),
		"SLURMD_NODENAME=n1\nSLURM_CONF=/etc/slurm/slurm.conf\nSLURM_HET_JOB_ID=7\n"
		"SLURM_JOB_GID=65534\nSLURM_JOB_ID=42\nSLURM_JOB_MOUNTPOINT_SRC=%s/42/.42\n"
		"SLURM_JOB_UID=65534\nSLURM_JOB_USER=nobody\nSLURM_JOB_WORK_DIR=/home\n"
		"SLURM_NODE_ALIASES=n1:10.0.0.1\n",
		g->base);
	assert_string_equal(init, wanted);
	(void)snprintf(wanted + strlen(wanted), sizeof(wanted) - strlen(wanted),
		"SLURM_NS=%s/42/.ns\n/dev/null\n", g->base);
	assert_string_equal(clone, wanted);
	(void)snprintf(wanted, sizeof(wanted),
		"SLURMD_NODENAME=n1\nSLURM_CONF=/etc/slurm/slurm.conf\nSLURM_JOB_ID=42\n"
		"SLURM_NS=%s/42/.ns\n0\n",
		g->base);
	assert_string_equal(epilog, wanted);
	assert_gone(g);
}

/* In 22.05 it has less. It may mount something where the job's directory will be, and even make it.
 */
static void test_init_script(void **state)
{
	struct ground *g = *state;
	_cleanup_free_ char *init = NULL;
	struct job_tmpfs *t;
	char wanted[PATH_MAX];

	need_mounts();
	g->init.frame.release = SLURM_22_05;
	set_text(&g->init.name_space.dirs, NULL);
	write_script(g, "init",
		"#!/bin/sh\nenv | grep ^SLURM | sort >${0%/*}/init.out\nmkdir -m 700 \"$SLURM_JOB_MOUNTPOINT_SRC\"\n"
		"mount -t tmpfs tmpfs \"$SLURM_JOB_MOUNTPOINT_SRC\"\necho >\"$SLURM_JOB_MOUNTPOINT_SRC/mine\"\n",
		&g->init.name_space.init_script);
	t = make(g);
	init = read_result(g, "init.out");
	(void)snprintf(wanted, sizeof(wanted),
		"SLURMD_NODENAME=n1\nSLURM_CONF=/etc/slurm/slurm.conf\nSLURM_JOB_ID=42\n"
		"SLURM_JOB_MOUNTPOINT_SRC=%s/42/.42\n",
		g->base);
	assert_string_equal(init, wanted);
	assert_inside(g, UID, "ls /tmp; stat -f -c %T /tmp", "mine\ntmpfs\n");
	assert_null(job_tmpfs_remove(t));
	assert_string_equal(logged, "");
	assert_gone(g);
}

/* It binds a directory of a disk, say, which is empty again afterwards, as deep as it was. */
static void test_bound_directory(void **state)
{
	struct ground *g = *state;
	_cleanup_free_ char *disk = scratch_path(g->dir, "disk"),
			    *kept = scratch_path(g->dir, "kept");
	struct job_tmpfs *t;

	need_mounts();
	assert_int_equal(mkdir(disk, 0700), 0);
	write_script(g, "init",
		"#!/bin/sh\nmkdir -m 700 \"$SLURM_JOB_MOUNTPOINT_SRC\"\n"
		"mount --bind \"${0%/*}/disk\" \"$SLURM_JOB_MOUNTPOINT_SRC\"\n",
		&g->init.name_space.init_script);
	t = make(g);
	assert_inside(g, UID,
		"cd /tmp; i=0; while [ $i -lt 100 ]; do mkdir d; cd d; echo >x; i=$((i + 1)); done",
		"");
	assert_int_equal(rename(disk, kept), 0); /* it is in no way found by its name */
	assert_null(job_tmpfs_remove(t));
	assert_string_equal(logged, "");
	assert_int_equal(rmdir(kept), 0);
	assert_gone(g);
}

static void test_script_fails(void **state)
{
	struct ground *g = *state;
	struct job_namespace *n = &g->init.name_space;

	need_mounts();
	write_script(g, "init", "#!/bin/sh\necho there is no room\necho at all >&2\nexit 3\n",
		&n->init_script);
	assert_fails(g, -EREMOTEIO, "/init' has failed with status 3; it says: there is no room");
	set_text(&n->init_script, NULL);
	write_script(g, "clone", "#!/bin/sh\nkill -USR1 $$\n", &n->clone_script);
	assert_fails(g, -EREMOTEIO, "/clone' was ended by signal 10");
	write_script(g, "clone", "#!/bin/sh\nsleep 1000\n", &n->clone_script);
	n->clone_script_timeout_s = 1;
	assert_fails(g, -ETIMEDOUT, "/clone' has not ended within 1000 ms");
	assert_gone(g);
	/* At the end it is only reported. */
	set_text(&n->clone_script, NULL);
	write_script(g, "epilog", "#!/bin/sh\nexit 4\n", &n->clone_epilog);
	assert_null(job_tmpfs_remove(make(g)));
	assert_non_null(strstr(logged, "/epilog' has failed with status 4"));
	assert_gone(g);
}

static int run_script(
	const struct ground *g, const char *path, unsigned timeout_ms, struct err *err)
{
	char *env[] = {NULL};
	const struct site_script script = {
		.setting = "Script", .path = path, .env = env, .timeout_ms = timeout_ms};

	(void)g;
	*err = (struct err)ERR_INIT;
	return site_script_run(&script, err);
}

static void test_no_script(void **state)
{
	struct ground *g = *state;
	_cleanup_free_ char *path = NULL;
	struct err err;

	assert_int_equal(run_script(g, "script", 1000, &err), -EINVAL);
	assert_int_equal(run_script(g, "/nowhere/at/all", 1000, &err), -ENOENT);
	write_script(g, "script", "#!/bin/sh\ntrue\n", &path);
	assert_int_equal(run_script(g, path, 1000, &err), 0);
	assert_int_equal(chmod(path, 0644), 0);
	assert_int_equal(run_script(g, path, 1000, &err), -EACCES);
	assert_int_equal(chmod(path, 0777), 0);
	assert_int_equal(run_script(g, path, 1000, &err), -EPERM);
	assert_non_null(strstr(err.text, "Script"));
	write_script(g, "other", "#!/nowhere/sh\n", &path);
	assert_int_equal(run_script(g, path, 1000, &err), -ENOENT);
}

/* What it has started, and who writes on, is ended with it and not waited for. */
static void test_background(void **state)
{
	struct ground *g = *state;
	_cleanup_free_ char *path = NULL, *pid = NULL;
	struct err err;

	write_script(g, "script",
		"#!/bin/sh\nsh -c 'while :; do echo y; done' &\necho $! >${0%/*}/pid\n", &path);
	assert_int_equal(run_script(g, path, 60000, &err), 0);
	pid = read_result(g, "pid");
	while (kill((pid_t)atoi(pid), 0) == 0) /* init takes its time */
		assert_int_equal(sched_yield(), 0);
	write_script(g, "script", "#!/bin/sh\nyes | head -c 1000000\nexit 5\n", &path);
	assert_int_equal(run_script(g, path, 60000, &err), -EREMOTEIO);
	assert_non_null(strstr(err.text, "status 5; it says: y"));
}

#define TEST(f_) cmocka_unit_test_setup_teardown(f_, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_private),
		TEST(test_first_release),
		TEST(test_shm_alone),
		TEST(test_shared),
		TEST(test_left),
		TEST(test_exists),
		TEST(test_no_base),
		TEST(test_no_directory),
		TEST(test_scripts),
		TEST(test_init_script),
		TEST(test_bound_directory),
		TEST(test_script_fails),
		TEST(test_no_script),
		TEST(test_background),
	};

	return cmocka_run_group_tests(tests, enter_own, NULL);
}
