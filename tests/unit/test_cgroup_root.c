/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where steps hang in the cgroup2 tree: the texts of /proc taken apart, and the choice of the root
 * on this machine, in cgroup namespaces, below bind mounts, delegated, and for a plain user.
 */
#include "proctrack/cgroup/root.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/xattr.h>

#include "proctrack/cgroup/probe.h"
#include "tests/lib/cgroup_rig.h"

#define NOBODY 65534

static struct rig rig;

static int set_up(_unused_ void **state)
{
	if (!rig_open(&rig))
		rig.fd = -1;
	return 0;
}

static int tear_down(_unused_ void **state)
{
	return rig_tear_down(&rig);
}

#define need_root()                                                                                \
	do {                                                                                       \
		if (rig.fd < 0 || geteuid() != 0)                                                  \
			skip();                                                                    \
	} while (0)

/* ---- texts -------------------------------------------------------------------------------- */

static void test_mountinfo(_unused_ void **state)
{
	char text[] =
		"22 27 0:21 / /proc rw,relatime - proc proc rw\n"
		"40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n"
		"41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
		"42 31 0:38 /../a\\040b /mnt/x\\011y\\134z\\012\\043 rw shared:7 master:1 - cgroup2 none rw\n"
		"43 31 0:38 / /mnt/fake rw - ext4 cgroup2 rw\n"
		"44 31 0:38 / /mnt/short - cgroup2\n"
		"45 31 0:38 / /mnt/untyped rw -\n"
		"46 31 0:38 relative /mnt rw - cgroup2 none rw\n"
		"x 31 0:38 / /mnt rw - cgroup2 none rw\n"
		"47 31\n"
		"\n"
		"48 31 0:38 /b\\9\\0 /last rw - cgroup2 none rw";
	_cleanup_cgmounts_ struct cgmounts mounts = {0};

	assert_int_equal(cgmounts_parse(text, &mounts), 0);
	assert_int_equal(mounts.n, 3);
	assert_int_equal(mounts.v[0].id, 41);
	assert_string_equal(mounts.v[0].root, "/");
	assert_string_equal(mounts.v[0].point, "/sys/fs/cgroup/unified");
	assert_int_equal(mounts.v[1].id, 42);
	assert_string_equal(mounts.v[1].root, "/../a b");
	assert_string_equal(mounts.v[1].point, "/mnt/x\ty\\z\n#");
	assert_string_equal(mounts.v[2].root, "/b\\9\\0");
}

static void test_path_below(_unused_ void **state)
{
	assert_string_equal(cgpath_below("/", "/a/b"), "a/b");
	assert_string_equal(cgpath_below("/", "/"), "");
	assert_string_equal(cgpath_below("", "a"), "a");
	assert_string_equal(cgpath_below("/a", "/a"), "");
	assert_string_equal(cgpath_below("/a/", "/a//b"), "b");
	assert_string_equal(cgpath_below("a", "a/b"), "b");
	assert_null(cgpath_below("/a", "/ab"));
	assert_null(cgpath_below("/a/b", "/a"));
	assert_null(cgpath_below("task_1", "task_10/x"));
}

static void test_path_map(_unused_ void **state)
{
	static const struct {
		const char *mount_root, *ns_root, *path, *want; /* NULL: r says why not */
		int r;
	} cases[] = {
		/* the whole tree */
		{"/", NULL, "/", "", 0},
		{"/", NULL, "/a/b", "a/b", 0},
		{"/", NULL, "/../x", NULL, -ENOENT},
		/* a container's subtree, bind-mounted */
		{"/ct/7", NULL, "/ct/7/a", "a", 0},
		{"/ct/7", NULL, "/ct/7", "", 0},
		{"/ct/7", NULL, "/ct/77", NULL, -ENOENT},
		{"/ct/7", NULL, "/", NULL, -ENOENT},
		{"/ct/7", NULL, "/../x", NULL, -ENOENT},
		/* a namespace below the mount: .. is known, what is inside needs its name */
		{"/../..", NULL, "/../../s/t", "s/t", 0},
		{"/../..", NULL, "/../..", "", 0},
		{"/../..", NULL, "/../../..", NULL, -ENOENT},
		{"/../..", NULL, "/", NULL, -ENODATA},
		{"/../..", "p/q", "/", "p/q", 0},
		{"/../..", "p/q", "/x", "p/q/x", 0},
		{"/../..", "p/q", "/..", "p", 0},
		{"/../..", "p/q", "/../x/y", "p/x/y", 0},
		{"/..", "p", "/../x", "x", 0},
		/* names that only look like ".." */
		{"/..", "p", "/..x", "p/..x", 0},
		{"/", NULL, "/..x", "..x", 0},
		/* beside the namespace: nothing of it is seen there */
		{"/../side", NULL, "/../side/a", "a", 0},
		{"/../side", NULL, "/", NULL, -ENOENT},
		{"/../side", "p", "/../other", NULL, -ENOENT},
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *got = NULL;
		int r = cgpath_map(cases[i].mount_root, cases[i].ns_root, cases[i].path, &got);

		if (r != cases[i].r || (cases[i].want && strcmp(got, cases[i].want) != 0))
			fail_msg("%s below %s (%s): %d '%s'", cases[i].path, cases[i].mount_root,
				cases[i].ns_root ? cases[i].ns_root : "-", r, got ? got : "-");
	}
}

/* ---- what is asked for -------------------------------------------------------------------- */

static void test_a_root_that_will_not_do(_unused_ void **state)
{
	static const struct {
		const char *configured;
		int r;
	} cases[] = {
		{"sys/fs/cgroup", -EINVAL},
		{".", -EINVAL},
		{"/nowhere/at/all", -ENOENT},
		{"/proc/self/mountinfo", -ENOTDIR},
		{"/proc", -EMEDIUMTYPE},
		{"/", -EMEDIUMTYPE},
	};
	int fds = scratch_count_fds();
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_cgroup_root_ struct cgroup_root *root = NULL;
		struct err err = ERR_INIT;

		assert_int_equal(root_open(cases[i].configured, &root, &err), cases[i].r);
		assert_null(root);
		assert_int_equal(err.code, cases[i].r);
		assert_non_null(strstr(err.text, ROOT_ENV));
		assert_non_null(strstr(err.text, cases[i].configured));
	}
	assert_int_equal(scratch_count_fds(), fds);
}

static void test_a_configured_root(_unused_ void **state)
{
	_cleanup_free_ char *crooked = NULL, *below = NULL;
	_cleanup_cgroup_root_ struct cgroup_root *root = NULL, *found = NULL;

	need_rig(&rig);
	assert_true(asprintf(&crooked, "%s/.././%s/", rig.path, rig.name) > 0);
	assert_int_equal(root_open(crooked, &root, NULL), 0);
	assert_int_equal(root->origin, ROOT_CONFIGURED);
	assert_string_equal(root->path, rig.path);
	assert_int_equal(root_open("", &found, NULL), 0);
	assert_int_not_equal(found->origin, ROOT_CONFIGURED);
	assert_int_equal(root_map(root, "/nowhere", &below), -ENOENT);
}

/* libcgroup talks to stdout or stderr where nobody stops it. */
static void test_nothing_is_printed(_unused_ void **state)
{
	int fd = memfd_create("output", 0), status;
	struct stat st;
	pid_t pid = fork();

	if (pid == 0) {
		struct cgroup_root *root = NULL;

		(void)setenv("CGROUP_LOGLEVEL", "DEBUG", 1);
		if (dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
			_exit(9);
		(void)!root_open(NULL, &root, NULL);
		(void)fflush(NULL);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 0);
	(void)close(fd);
}

/* ---- what is found ------------------------------------------------------------------------ */

/* The checks below run in children that are where the test wants them; they say by their exit
 * status on which line they failed. */
#define child_check(x)                                                                             \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			(void)dprintf(2, "# line %d: %s (%s)\n", __LINE__, #x, strerror(errno));   \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static void test_own_cgroup_if_delegated(_unused_ void **state)
{
	_cleanup_close_ int own = -1;
	pid_t pid;

	need_root();
	own = rig_group(rig.fd, "own unit");
	pid = rig_fork(own);
	if (pid == 0) {
		_cleanup_free_ char *path = scratch_path(rig.path, "own unit"), *self = NULL,
				    *below = NULL;
		struct cgroup_root *root = NULL;

		child_check(root_open(NULL, &root, NULL) == 0);
		child_check(root->origin == ROOT_TOP); /* root isn't asked for permission */
		root = root_close(root);
		child_check(fsetxattr(own, "user.delegate", "0", 1, 0) == 0);
		child_check(root_open(NULL, &root, NULL) == 0);
		child_check(root->origin == ROOT_TOP);
		root = root_close(root);
		child_check(fsetxattr(own, "user.delegate", "1", 1, 0) == 0);
		child_check(root_open(NULL, &root, NULL) == 0);
		child_check(root->origin == ROOT_DELEGATED);
		child_check(strcmp(root->path, path) == 0);
		child_check(cgpath_of(0, &self) == 0 && root_map(root, self, &below) == 0);
		child_check(strcmp(below, "") == 0);
		_exit(0);
	}
	assert_int_equal(rig_status(pid), 0);
}

/* A leaf of a delegated group: the group above is meant. */
static void test_a_leaf_of_a_delegated_group(_unused_ void **state)
{
	static const struct {
		const char *leaf;
		bool above;
	} cases[] = {{OWN_LEAF, true}, {"daemon", true}, {"x.scope", false}, {"x.service", false}};
	_cleanup_close_ int unit = -1;
	size_t i;

	need_root();
	unit = rig_group(rig.fd, "noded.service");
	assert_int_equal(fsetxattr(unit, "user.delegate", "1", 1, 0), 0);
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_close_ int leaf = rig_group(unit, cases[i].leaf);
		pid_t pid = rig_fork(leaf);

		if (pid == 0) {
			_cleanup_free_ char *path = scratch_path(rig.path, "noded.service");
			struct cgroup_root *root = NULL;
			enum root_outcome outcome;

			child_check(root_open(NULL, &root, NULL) == 0);
			child_check((root->origin == ROOT_DELEGATED) == cases[i].above);
			child_check(!cases[i].above || strcmp(root->path, path) == 0);
			child_check(*root_explain(root, ROOT_DELEGATED, &outcome));
			child_check(outcome == (cases[i].above ? ROOT_TAKEN : ROOT_REFUSED));
			child_check(*root_explain(root, ROOT_TOP, &outcome));
			child_check(outcome == (cases[i].above ? ROOT_PASSED_OVER : ROOT_TAKEN));
			_exit(0);
		}
		assert_int_equal(rig_status(pid), 0);
	}
}

/* Which own group is meant, by its name alone. */
static void test_names_of_own_groups(_unused_ void **state)
{
	static const struct {
		const char *own, *above; /* NULL: there is none */
		bool leaf, in_step;
	} cases[] = {
		{"/", NULL, false, false},
		{"/x", "/", false, false},
		{"/" OWN_LEAF, "/", true, false},
		{"/a/" OWN_LEAF, "/a", true, false},
		{"/a/" OWN_LEAF "2", "/a", false, false},
		{"/system.slice/x.service", NULL, false, false},
		{"/user.slice", NULL, false, false},
		{"/a/init.scope", NULL, false, false},
		{"/stepd/job_7/step_0/task_1", "/stepd/job_7/step_0", false, true},
		{"/a.scope/stepd/job_7/step_0", "/a.scope/stepd/job_7", false, true},
		{"/a/stepd/job_7", "/a/stepd", false, false},
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *above = NULL;
		int r = own_get_above(cases[i].own, &above);

		if (r != (cases[i].above ? 0 : -ENOENT) ||
			(above && strcmp(above, cases[i].above) != 0) ||
			own_is_our_leaf(cases[i].own) != cases[i].leaf ||
			own_is_in_step(cases[i].own) != cases[i].in_step)
			fail_msg("%s: %d '%s'", cases[i].own, r, above ? above : "-");
	}
}

/* Hands a controller down, if there is one: 0, -EBUSY where processes are in the way, or -ENOENT.
 */
static int enable_pids(int fd)
{
	_cleanup_free_ char *all = NULL;
	char text[64];

	if (fs_read(fd, "cgroup.controllers", 4096, &all, NULL) < 0 || !strstr(all, "pids"))
		return -ENOENT;
	(void)snprintf(text, sizeof(text), "+pids");
	return fs_write(fd, "cgroup.subtree_control", text);
}

static void test_leaving_the_root(_unused_ void **state)
{
	_cleanup_close_ int unit = -1;
	pid_t pid, other;

	need_root();
	unit = rig_group(rig.fd, "left.service");
	assert_int_equal(fsetxattr(unit, "user.delegate", "1", 1, 0), 0);
	(void)enable_pids(rig.fd); /* where the test may */
	other = rig_sleeper(unit);
	pid = rig_fork(unit);
	if (pid == 0) {
		struct cgroup_root *root = NULL, *again = NULL;
		_cleanup_free_ char *own = NULL, *below = NULL;
		struct err err = ERR_INIT;
		char text[32];

		child_check(root_open(NULL, &root, NULL) == 0);
		child_check(root->origin == ROOT_DELEGATED);
		child_check(root_leave(root->fd, &err) == -EBUSY);
		(void)snprintf(text, sizeof(text), "pid %d (", (int)other);
		child_check(strstr(err.text, text));
		child_check(cgpath_of(0, &own) == 0 && root_map(root, own, &below) == 0);
		child_check(strcmp(below, "") == 0); /* not moved in vain */
		child_check(kill(other, SIGKILL) == 0);
		for (;;) { /* the parent reaps it */
			int r = root_leave(root->fd, &err);

			if (r == 0)
				break;
			child_check(r == -EBUSY);
			(void)poll(NULL, 0, 5);
		}
		free(own);
		free(below);
		own = below = NULL;
		child_check(cgpath_of(0, &own) == 0 && root_map(root, own, &below) == 0);
		child_check(strcmp(below, OWN_LEAF) == 0);
		child_check(root_leave(root->fd, &err) == 0); /* there is nothing to do */
		child_check(enable_pids(root->fd) != -EBUSY);
		child_check(root_open(NULL, &again, NULL) == 0);
		child_check(
			again->origin == ROOT_DELEGATED && strcmp(again->path, root->path) == 0);
		_exit(0);
	}
	assert_int_equal(rig_status(other), SIGKILL);
	assert_int_equal(rig_status(pid), 0);
}

static void test_a_scope_and_a_root(_unused_ void **state)
{
	struct root_request request = {.configured = "/sys/fs/cgroup", .scope = ROOT_SCOPE_YES};
	struct cgroup_root *root = NULL;
	struct err err = ERR_INIT;

	assert_int_equal(root_open_for(&request, &root, &err), -EINVAL);
	assert_non_null(strstr(err.text, "give one of them"));
	assert_null(root);
}

static void test_inside_a_cgroup_namespace(_unused_ void **state)
{
	_cleanup_close_ int outer = -1, inner = -1, side = -1;
	pid_t pid, beside;

	need_root();
	outer = rig_group(rig.fd, "outer");
	inner = rig_group(outer, "inner");
	side = rig_group(rig.fd, "side");
	beside = rig_sleeper(side);
	pid = rig_fork(inner);
	if (pid == 0) {
		_cleanup_free_ char *self = NULL, *other = NULL, *below = NULL, *path = NULL;
		struct cgroup_root *root = NULL;

		child_check(unshare(CLONE_NEWCGROUP) == 0);
		child_check(cgpath_of(0, &self) == 0 && strcmp(self, "/") == 0);
		child_check(root_open(rig.path, &root, NULL) == 0);
		child_check(root_map(root, self, &below) == 0);
		child_check(strcmp(below, "outer/inner") == 0);
		child_check(cgpath_of(beside, &other) == 0 && strncmp(other, "/../", 4) == 0);
		free(below);
		below = NULL;
		child_check(root_map(root, other, &below) == 0);
		child_check(strcmp(below, "side") == 0);
		root = root_close(root);
		child_check(fsetxattr(inner, "user.delegate", "1", 1, 0) == 0);
		child_check(root_open(NULL, &root, NULL) == 0);
		child_check(root->origin == ROOT_DELEGATED);
		path = scratch_path(rig.path, "outer/inner");
		child_check(strcmp(root->path, path) == 0);
		_exit(0);
	}
	assert_int_equal(rig_status(pid), 0);
}

/* As a container has it: a namespace of its own, and cgroup2 mounted again inside. */
static void test_inside_a_container(_unused_ void **state)
{
	_cleanup_close_ int outer = -1;
	_cleanup_free_ char *dir = NULL;
	pid_t pid;

	need_root();
	dir = scratch_make();
	outer = rig_group(rig.fd, "container");
	pid = rig_fork(outer);
	if (pid == 0) {
		_cleanup_free_ char *self = NULL, *below = NULL;
		struct cgroup_root *root = NULL;

		child_check(unshare(CLONE_NEWCGROUP | CLONE_NEWNS) == 0);
		child_check(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
		child_check(mount("none", dir, "cgroup2", 0, NULL) == 0);
		child_check(root_open(dir, &root, NULL) == 0);
		child_check(strcmp(root->mount.root, "/") == 0 && strcmp(root->below, "") == 0);
		child_check(cgpath_of(0, &self) == 0 && root_map(root, self, &below) == 0);
		child_check(strcmp(below, "") == 0);
		_exit(0);
	}
	assert_int_equal(rig_status(pid), 0);
	scratch_remove(dir);
}

/* A bind mount of a part of the tree, under a name with a blank; and the real mount hidden. */
static void test_a_part_of_the_tree_bind_mounted(_unused_ void **state)
{
	_cleanup_close_ int part = -1, member = -1;
	_cleanup_free_ char *dir = NULL, *point = NULL, *source = NULL, *top = NULL;
	pid_t pid;

	need_root();
	dir = scratch_make();
	point = scratch_path(dir, "a b");
	assert_int_equal(mkdir(point, 0755), 0);
	source = scratch_path(rig.path, "part");
	top = strndup(rig.path, strlen(rig.path) - strlen(rig.name) - 1);
	part = rig_group(rig.fd, "part");
	member = rig_group(part, "member");
	pid = rig_fork(member);
	if (pid == 0) {
		_cleanup_free_ char *self = NULL, *below = NULL;
		struct cgroup_root *root = NULL;

		child_check(unshare(CLONE_NEWNS) == 0);
		child_check(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
		child_check(mount(source, point, NULL, MS_BIND, NULL) == 0);
		child_check(mount("none", top, "tmpfs", 0, NULL) == 0);
		child_check(root_open(NULL, &root, NULL) == 0);
		child_check(strcmp(root->path, point) == 0 && root->origin == ROOT_TOP);
		child_check(cgpath_of(0, &self) == 0 && root_map(root, self, &below) == 0);
		child_check(strcmp(below, "member") == 0);
		root = root_close(root);
		child_check(umount(point) == 0);
		child_check(root_open(NULL, &root, NULL) == -ENODEV);
		_exit(0);
	}
	assert_int_equal(rig_status(pid), 0);
	scratch_remove(dir);
}

/* ---- what is offered ---------------------------------------------------------------------- */

/* As the plugin does once it is unloaded. */
static int probe(const struct cgroup_root *root, char *text, size_t size, struct err *err)
{
	bool made = false;
	int r = probe_root(root, text, size, &made, err);

	if (made) {
		assert_int_equal(r, 0);
		assert_int_equal(faccessat(root->fd, "stepd", F_OK, 0), 0);
		probe_forget(root);
	}
	return r;
}

static void test_probe_offers(_unused_ void **state)
{
	_cleanup_cgroup_root_ struct cgroup_root *root = NULL;
	struct err err = ERR_INIT;
	char text[1024];

	need_rig(&rig);
	assert_int_equal(root_open(rig.path, &root, NULL), 0);
	assert_int_equal(probe(root, text, sizeof(text), &err), 0);
	assert_non_null(strstr(text, rig.path));
	assert_non_null(strstr(text, ROOT_ENV));
	assert_null(strchr(text, '\n'));
	assert_int_equal(faccessat(rig.fd, "stepd", F_OK, 0), -1); /* nothing is left */
}

static void test_probe_refuses(_unused_ void **state)
{
	_cleanup_close_ int threaded = -1;
	_cleanup_free_ char *path = NULL, *dir = NULL;
	pid_t pid;

	need_root();
	threaded = rig_group(rig.fd, "threaded");
	rig_write(threaded, "cgroup.type", "threaded");
	path = scratch_path(rig.path, "threaded");
	dir = scratch_make();
	pid = fork();
	if (pid == 0) {
		struct cgroup_root *root = NULL;
		struct err err = ERR_INIT;
		char text[1024];

		/* A group that can't be: below a threaded one all are. */
		child_check(root_open(path, &root, NULL) == 0);
		child_check(probe(root, text, sizeof(text), &err) == -EOPNOTSUPP);
		root = root_close(root);
		/* The limit on the number of groups. */
		rig_write(rig.fd, "cgroup.max.descendants", "1");
		child_check(root_open(rig.path, &root, NULL) == 0);
		child_check(probe(root, text, sizeof(text), &err) == -EAGAIN);
		child_check(strstr(err.text, rig.path) != NULL);
		root = root_close(root);
		/* A container's read-only mount. */
		child_check(unshare(CLONE_NEWNS) == 0);
		child_check(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
		child_check(mount(rig.path, dir, NULL, MS_BIND, NULL) == 0);
		child_check(mount(NULL, dir, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) == 0);
		child_check(root_open(dir, &root, NULL) == 0);
		child_check(probe(root, text, sizeof(text), &err) == -EROFS);
		child_check(strstr(err.text, "read-only") != NULL);
		_exit(0);
	}
	assert_int_equal(rig_status(pid), 0);
	scratch_remove(dir);
}

static void become_nobody(void)
{
	child_check(setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
}

static void test_a_user_needs_delegation(_unused_ void **state)
{
	_cleanup_close_ int unit = -1, foreign = -1;
	pid_t pid;

	need_root();
	unit = rig_group(rig.fd, "unit");
	foreign = rig_group(rig.fd, "foreign");
	assert_int_equal(fchown(unit, NOBODY, NOBODY), 0);
	assert_int_equal(fchownat(unit, "cgroup.procs", NOBODY, NOBODY, 0), 0);

	pid = rig_fork(unit);
	if (pid == 0) {
		struct cgroup_root *root = NULL;
		struct err err = ERR_INIT;
		char text[1024];

		become_nobody();
		child_check(root_open(NULL, &root, NULL) == 0);
		child_check(root->origin == ROOT_DELEGATED);
		child_check(probe(root, text, sizeof(text), &err) == 0);
		_exit(0);
	}
	assert_int_equal(rig_status(pid), 0);

	pid = rig_fork(foreign);
	if (pid == 0) {
		_cleanup_free_ char *path = scratch_path(rig.path, "unit");
		struct cgroup_root *root = NULL;
		struct err err = ERR_INIT;
		char text[1024];

		become_nobody();
		child_check(root_open(NULL, &root, NULL) == 0);
		child_check(root->origin == ROOT_TOP);
		child_check(probe(root, text, sizeof(text), &err) == -EACCES);
		child_check(strstr(err.text, "Delegate=yes") != NULL);
		root = root_close(root);
		/* It may make groups there, but its processes are elsewhere and can't go in. */
		child_check(root_open(path, &root, NULL) == 0);
		child_check(probe(root, text, sizeof(text), &err) == -EACCES);
		child_check(strstr(err.text, "outside of") != NULL);
		_exit(0);
	}
	assert_int_equal(rig_status(pid), 0);
}

/* A mount that is found without mountinfo is there as well, with the same id and root. */
static void test_the_usual_mount(_unused_ void **state)
{
	_cleanup_cgmounts_ struct cgmounts found = {0}, all = {0};
	size_t i;

	need_rig(&rig);
	assert_int_equal(cgmounts_find(&found), 0);
	assert_int_equal(cgmounts_read(&all), 0);
	assert_true(found.n > 0);
	for (i = 0; i < all.n && all.v[i].id != found.v[0].id; i++)
		;
	assert_true(i < all.n);
	assert_string_equal(found.v[0].root, all.v[i].root);
	assert_string_equal(found.v[0].point, all.v[i].point);
}

/* In another namespace of cgroups, and below what is mounted over it, mountinfo is read. */
static void test_the_usual_mount_elsewhere(_unused_ void **state)
{
	pid_t pid;

	need_root();
	pid = rig_fork(rig.fd);
	if (pid == 0) {
		struct cgmounts mounts = {0};

		child_check(unshare(CLONE_NEWNS) == 0);
		child_check(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
		child_check(mount("none", "/sys/fs/cgroup", "tmpfs", 0, NULL) == 0);
		child_check(cgmounts_find(&mounts) == 0);
		child_check(mounts.n == 0 || strcmp(mounts.v[0].root, "/") == 0);
		cgmounts_clear(&mounts);
		child_check(umount2("/sys/fs/cgroup", MNT_DETACH) == 0);
		child_check(unshare(CLONE_NEWCGROUP) == 0);
		child_check(cgmounts_find(&mounts) == 0);
		child_check(mounts.n > 0 && strncmp(mounts.v[0].root, "/..", 3) == 0);
		cgmounts_clear(&mounts);
		_exit(0);
	}
	assert_int_equal(rig_status(pid), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mountinfo),
		cmocka_unit_test(test_path_below),
		cmocka_unit_test(test_path_map),
		cmocka_unit_test(test_a_root_that_will_not_do),
		cmocka_unit_test(test_nothing_is_printed),
		cmocka_unit_test(test_names_of_own_groups),
		cmocka_unit_test(test_a_scope_and_a_root),
#define rig_test(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
		rig_test(test_the_usual_mount),
		rig_test(test_the_usual_mount_elsewhere),
		rig_test(test_a_configured_root),
		rig_test(test_own_cgroup_if_delegated),
		rig_test(test_a_leaf_of_a_delegated_group),
		rig_test(test_leaving_the_root),
		rig_test(test_inside_a_cgroup_namespace),
		rig_test(test_inside_a_container),
		rig_test(test_a_part_of_the_tree_bind_mounted),
		rig_test(test_probe_offers),
		rig_test(test_probe_refuses),
		rig_test(test_a_user_needs_delegation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
