/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/fs.h"

#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "stepd/base/clock.h"
#include "tests/lib/scratch.h"

struct ground {
	char *dir;
	int fd; /* of dir */
	int fds;
};

static int set_up(void **state)
{
	struct ground *g = calloc(1, sizeof(*g));

	if (!g)
		return -1;
	g->dir = scratch_make();
	g->fd = open(g->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	g->fds = scratch_count_fds();
	*state = g;
	return g->fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	struct ground *g = *state;
	int more = scratch_count_fds() - g->fds;

	(void)close(g->fd);
	scratch_remove(g->dir);
	free(g->dir);
	free(g);
	return more;
}

static int count_entries(const char *path)
{
	_cleanup_closedir_ DIR *dir = opendir(path);
	int n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	return n - 2;
}

/* Sizes about every growth of the buffer come back whole. */
static void test_read(void **state)
{
	static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 8191, 8192, 8193, 100000};
	struct ground *g = *state;
	size_t i, size;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		_cleanup_free_ char *data = malloc(sizes[i] + 1), *text = NULL;

		assert_non_null(data);
		memset(data, 'd', sizes[i]);
		if (sizes[i] > 2)
			data[1] = '\0'; /* a NUL is a byte like others */
		scratch_write(g->dir, "f", data, sizes[i], 0644);
		assert_int_equal(fs_read(g->fd, "f", sizes[i], &text, &size), 0);
		assert_int_equal(size, sizes[i]);
		assert_memory_equal(text, data, size);
		assert_int_equal(text[size], 0);
		if (sizes[i] == 0)
			continue;
		free(text);
		text = NULL;
		assert_int_equal(fs_read(g->fd, "f", sizes[i] - 1, &text, NULL), -EFBIG);
		assert_null(text);
	}
}

static void test_read_fails(void **state)
{
	struct ground *g = *state;
	char *text = NULL;

	assert_int_equal(fs_read(g->fd, "none", 10, &text, NULL), -ENOENT);
	assert_int_equal(fs_read(g->fd, ".", 10, &text, NULL), -EISDIR);
	assert_int_equal(fs_read(-1, "none", 10, &text, NULL), -EBADF);
	assert_int_equal(fs_read_fd(-1, 10, &text, NULL), -EBADF);
	assert_int_equal(fs_read(AT_FDCWD, "/dev/zero", 10000, &text, NULL), -EFBIG);
	assert_null(text);
}

static void test_read_fd_from_where_it_stands(void **state)
{
	struct ground *g = *state;
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *text = NULL;

	scratch_write(g->dir, "f", "0123456789", 10, 0644);
	fd = openat(g->fd, "f", O_RDONLY | O_CLOEXEC);
	assert_int_equal(lseek(fd, 4, SEEK_SET), 4);
	assert_int_equal(fs_read_fd(fd, 6, &text, NULL), 0);
	assert_string_equal(text, "456789");
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC); /* still open */
}

static void test_write(void **state)
{
	struct ground *g = *state;
	_cleanup_free_ char *text = NULL;

	assert_int_equal(fs_write(g->fd, "f", "x"), -ENOENT);
	scratch_write(g->dir, "f", "old text", 8, 0644);
	assert_int_equal(fs_write(g->fd, "f", "new"), 0);
	assert_int_equal(fs_read(g->fd, "f", 100, &text, NULL), 0);
	assert_string_equal(text, "new text"); /* as the kernel's files want it: nothing cut */
	assert_int_equal(fs_write(AT_FDCWD, "/dev/full", "x"), -ENOSPC);
	assert_int_equal(fs_write(g->fd, ".", "x"), -EISDIR);
}

static int heard_fd; /* a byte for every signal */

static void on_signal(int sig)
{
	(void)sig;
	(void)!write(heard_fd, "", 1);
}

/* Into a pipe that is full most of the time, signals between. */
static void test_write_all(void **state)
{
	enum {
		SIZE = 1 << 20
	};
	_cleanup_free_ char *data = malloc(SIZE), *got = NULL;
	const struct sigaction act = {.sa_handler = on_signal}; /* no SA_RESTART */
	int fds[2], heard[2], status = -1, r;
	char byte;
	pid_t pid;

	(void)state;
	assert_non_null(data);
	for (r = 0; r < SIZE; r++)
		data[r] = (char)(r * 7 + r / 251);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(pipe2(heard, O_CLOEXEC), 0);
	heard_fd = heard[1];
	assert_int_equal(sigaction(SIGUSR1, &act, NULL), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)close(fds[0]);
		_exit(fs_write_all(fds[1], data, SIZE) == 0 ? 0 : 1);
	}
	(void)close(fds[1]);
	assert_int_equal(read(fds[0], &byte, 1), 1); /* it has begun */
	assert_int_equal(byte, data[0]);
	for (r = 0; r < 20; r++) {
		assert_int_equal(kill(pid, SIGUSR1), 0);
		assert_int_equal(read(heard[0], &byte, 1), 1);
	}
	r = fs_read_fd(fds[0], SIZE, &got, NULL);
	(void)close(fds[0]);
	(void)close(heard[0]);
	(void)close(heard[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(r, 0);
	assert_int_equal(status, 0);
	assert_memory_equal(got, data + 1, SIZE - 1);
	assert_int_equal(fs_write_all(-1, "x", 1), -EBADF);
	assert_int_equal(fs_write_all(-1, "", 0), 0);
}

static void test_write_atomic(void **state)
{
	struct ground *g = *state;
	_cleanup_free_ char *text = NULL, *path = scratch_path(g->dir, "f");
	_cleanup_close_ int old = -1;
	struct stat st;
	char byte;

	assert_int_equal(fs_write_atomic(g->fd, "f", "one", 3, 0600, false), 0);
	old = openat(g->fd, "f", O_RDONLY | O_CLOEXEC);
	assert_int_equal(fs_write_atomic(g->fd, "f", "two!", 4, 0640, true), 0);
	assert_int_equal(pread(old, &byte, 1, 0), 1);
	assert_int_equal(byte, 'o'); /* who has it open sees the old one, whole */
	assert_int_equal(fs_read(g->fd, "f", 100, &text, NULL), 0);
	assert_string_equal(text, "two!");
	assert_int_equal(fstatat(g->fd, "f", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(fs_write_atomic(AT_FDCWD, path, "three", 5, 0600, true), 0);
	assert_int_equal(count_entries(g->dir), 1);
}

/* A failure leaves the old file, and nothing else. */
static void test_write_atomic_fails(void **state)
{
	struct ground *g = *state;

	assert_int_equal(fs_write_atomic(g->fd, "no/f", "x", 1, 0600, true), -ENOENT);
	assert_int_equal(mkdirat(g->fd, "d", 0700), 0);
	assert_int_equal(mkdirat(g->fd, "d/full", 0700), 0);
	assert_int_equal(fs_write_atomic(g->fd, "d", "x", 1, 0600, true), -EISDIR);
	assert_int_equal(count_entries(g->dir), 1);
	assert_int_equal(fs_write_atomic(-1, "f", "x", 1, 0600, true), -EBADF);
}

/* What a process of our pid left when it died on the way. */
static void test_write_atomic_over_remains(void **state)
{
	struct ground *g = *state;
	_cleanup_free_ char *text = NULL;
	char name[64];

	(void)snprintf(name, sizeof(name), "f.%d.new", (int)getpid());
	scratch_write(g->dir, "victim", "safe", 4, 0600);
	assert_int_equal(symlinkat("victim", g->fd, name), 0);
	assert_int_equal(fs_write_atomic(g->fd, "f", "x", 1, 0600, false), 0);
	assert_int_equal(fs_read(g->fd, "victim", 100, &text, NULL), 0);
	assert_string_equal(text, "safe");
	assert_int_equal(count_entries(g->dir), 2);
}

static int check(struct ground *g, mode_t mode, uid_t uid, struct err *err)
{
	_cleanup_close_ int fd = openat(g->fd, "f", O_PATH | O_CLOEXEC);

	assert_int_equal(fchmodat(g->fd, "f", mode, 0), 0);
	if (uid != geteuid())
		assert_int_equal(fchownat(g->fd, "f", uid, (gid_t)-1, 0), 0);
	return fs_check_trusted(fd, "/a/b", err);
}

static void test_check_trusted(void **state)
{
	struct ground *g = *state;
	struct err err = ERR_INIT;

	scratch_write(g->dir, "f", "x", 1, 0644);
	assert_int_equal(check(g, 0755, geteuid(), &err), 0);
	assert_int_equal(check(g, 0775, geteuid(), &err), -EPERM);
	assert_non_null(strstr(err.text, "'/a/b'"));
	assert_non_null(strstr(err.text, "0775"));
	assert_int_equal(check(g, 0646, geteuid(), &err), -EPERM);
	assert_int_equal(fs_check_trusted(-1, "/a/b", &err), -EBADF);
	if (geteuid() != 0) {
		(void)printf("# not root: a file of another user is not tried\n");
		return;
	}
	assert_int_equal(check(g, 0644, 12345, &err), -EPERM);
	assert_non_null(strstr(err.text, "12345"));
}

static int check_file(const char *dir, const char *name, struct err *err)
{
	_cleanup_free_ char *path = scratch_path(dir, name);
	_cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);

	assert_true(fd >= 0);
	return fs_check_file(fd, path, err);
}

/* By its name and by where a link leads. */
static void test_check_file(void **state)
{
	struct ground *g = *state;
	_cleanup_close_ int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;
	struct err err = ERR_INIT;

	assert_int_equal(mkdirat(g->fd, "open", 0700), 0);
	assert_int_equal(mkdirat(g->fd, "closed", 0700), 0);
	assert_int_equal(fchmodat(g->fd, "open", 0777, 0), 0);
	scratch_write(g->dir, "open/file", "x", 1, 0644);
	scratch_write(g->dir, "closed/file", "x", 1, 0644);
	assert_int_equal(symlinkat("../open/file", g->fd, "closed/out"), 0);
	assert_int_equal(symlinkat("../closed/file", g->fd, "open/in"), 0);
	assert_int_equal(check_file(g->dir, "closed/file", &err), 0);
	assert_int_equal(check_file(g->dir, "open/file", &err), -EPERM);
	assert_non_null(strstr(err.text, "/open', above '"));
	assert_int_equal(check_file(g->dir, "closed/out", &err), -EPERM);
	assert_int_equal(check_file(g->dir, "open/in", &err), -EPERM);
	assert_int_equal(fchmodat(g->fd, "closed/file", 0664, 0), 0);
	assert_int_equal(check_file(g->dir, "closed/file", &err), -EPERM);
	/* a relative path has directories above it, too */
	fd = openat(g->fd, "open/file", O_PATH | O_CLOEXEC);
	assert_int_equal(fchdir(g->fd), 0);
	assert_int_equal(fs_check_file(fd, "open/in", &err), -EPERM);
	assert_int_equal(chdir("open"), 0);
	assert_int_equal(fs_check_file(fd, "file", &err), -EPERM);
	assert_int_equal(fchdir(here), 0);
}

/* What somebody hostile puts in the place of a file neither leads elsewhere nor makes us wait. */
static void test_open_regular(void **state)
{
	struct ground *g = *state;
	_cleanup_close_ int fd = -1;

	scratch_write(g->dir, "f", "x", 1, 0644);
	assert_int_equal(symlinkat("f", g->fd, "link"), 0);
	assert_int_equal(mkfifoat(g->fd, "fifo", 0644), 0);
	assert_int_equal(mkdirat(g->fd, "dir", 0755), 0);
	fd = fs_open_regular(g->fd, "f");
	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(fs_open_regular(g->fd, "link"), -ELOOP);
	assert_int_equal(fs_open_regular(g->fd, "fifo"), -EBADMSG);
	assert_int_equal(fs_open_regular(g->fd, "dir"), -EBADMSG);
	assert_int_equal(fs_open_regular(g->fd, "none"), -ENOENT);
	assert_int_equal(unlinkat(g->fd, "dir", AT_REMOVEDIR), 0);
}

/* ---- names in a directory -------------------------------------------------------------------- */

#define FILES 100

struct seen {
	int files, dirs, stop_at;
};

static int count(const char *name, uint8_t type, void *userdata)
{
	struct seen *seen = userdata;

	if (type == DT_DIR)
		seen->dirs += strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
	else
		seen->files++;
	return seen->stop_at && seen->files == seen->stop_at ? -ECANCELED : 0;
}

static void fill(const struct ground *g)
{
	char name[16];
	int i;

	assert_int_equal(mkdirat(g->fd, "below", 0700), 0);
	for (i = 0; i < FILES; i++) {
		(void)snprintf(name, sizeof(name), "file%d", i);
		assert_int_equal(close(openat(g->fd, name, O_CREAT | O_WRONLY, 0600)), 0);
	}
}

static void test_each_name_once(void **state)
{
	struct ground *g = *state;
	size_t piece;

	fill(g);
	for (piece = 64; piece <= DIRNAMES_PIECE_MAX; piece *= 8) {
		struct seen seen = {0};

		assert_int_equal(lseek(g->fd, 0, SEEK_SET), 0);
		assert_int_equal(dirnames_each(g->fd, piece, count, &seen), 0);
		assert_int_equal(seen.files, FILES);
		assert_int_equal(seen.dirs, 1);
	}
}

static void test_names_stop(void **state)
{
	struct ground *g = *state;
	struct seen seen = {.stop_at = 7};

	fill(g);
	assert_int_equal(dirnames_each(g->fd, 4096, count, &seen), -ECANCELED);
	assert_int_equal(seen.files, 7);
}

static void test_names_fail(void **state)
{
	struct ground *g = *state;
	_cleanup_close_ int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	struct seen seen = {0};

	assert_int_equal(dirnames_each(fd, 4096, count, &seen), -ENOTDIR);
	assert_int_equal(dirnames_each(-1, 4096, count, &seen), -EBADF);
	assert_int_equal(dirnames_each(g->fd, 8, count, &seen), -EINVAL); /* a piece too small */
}

static void test_opendir(void **state)
{
	struct ground *g = *state;
	struct dirent *d;
	int round, n;

	fill(g);
	for (round = 0; round < 2; round++) { /* the second begins anew */
		_cleanup_closedir_ DIR *dir = fs_opendir(g->fd, ".");

		for (n = 0; (d = readdir(dir)); n++)
			;
		assert_int_equal(n, FILES + 3);
	}
	assert_null(fs_opendir(g->fd, "file0"));
	assert_int_equal(errno, ENOTDIR);
}

/* ---- paths within a root ------------------------------------------------------------------- */

/* "root/" has "file", "dir/file" and links; "file" beside it is outside. */
static void build_root(struct ground *g)
{
	static const struct {
		const char *text, *name;
	} links[] = {
		{"/file", "root/absolute"},
		{"../../../file", "root/dir/up"},
		{"/../dir/file", "root/above"},
		{"dir", "root/to-dir"},
		{"loop", "root/loop"},
		{"/proc/self/cwd", "root/cwd"},
	};
	size_t i;

	assert_int_equal(mkdirat(g->fd, "root", 0755), 0);
	assert_int_equal(mkdirat(g->fd, "root/dir", 0755), 0);
	scratch_write(g->dir, "file", "outside", 7, 0644);
	scratch_write(g->dir, "root/file", "in the root", 11, 0644);
	scratch_write(g->dir, "root/dir/file", "in dir", 6, 0644);
	for (i = 0; i < ARRAY_SIZE(links); i++)
		assert_int_equal(symlinkat(links[i].text, g->fd, links[i].name), 0);
}

static const struct {
	const char *path;
	int error;
	const char *text;
} rooted[] = {
	{"/file", 0, "in the root"},
	{"/dir/file", 0, "in dir"},
	{"//dir//./file", 0, "in dir"},
	{"/dir/../file", 0, "in the root"},
	{"/../file", 0, "in the root"},
	{"/dir/../../../file", 0, "in the root"},
	{"/..", EISDIR, NULL},
	{"/absolute", 0, "in the root"},
	{"/dir/up", 0, "in the root"},
	{"/above", 0, "in dir"},
	{"/to-dir/../file", 0, "in the root"},
	{"/to-dir/file", 0, "in dir"},
	{"/to-dir/up", 0, "in the root"},
	{"/loop", ELOOP, NULL},
	{"/cwd", ENOENT, NULL}, /* there is no /proc in it */
	{"/nothing", ENOENT, NULL},
	{"/file/more", ENOTDIR, NULL},
	{"", ENOENT, NULL},
};

/* The number of the first that is not as it should be, from 1; 0: all are. */
static int try_rooted(int root)
{
	char text[32];
	ssize_t n;
	size_t i;
	int fd;

	for (i = 0; i < ARRAY_SIZE(rooted); i++) {
		/* Of a directory a read fails, after it was opened. */
		fd = userpath_open_in(root, rooted[i].path, O_RDONLY | O_CLOEXEC, 0);
		n = fd < 0 ? fd : read(fd, text, sizeof(text));
		if (fd >= 0 && n < 0)
			n = -errno;
		if (fd >= 0)
			(void)close(fd);
		if (rooted[i].error ? n != -rooted[i].error
				    : n != (ssize_t)strlen(rooted[i].text) ||
					memcmp(text, rooted[i].text, (size_t)n) != 0)
			return (int)i + 1;
	}
	/* A file that is made is in the root, too. */
	fd = userpath_open_in(root, "/to-dir/../../made", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0 || close(fd) < 0 || faccessat(root, "made", F_OK, 0) < 0 ||
		unlinkat(root, "made", 0) < 0)
		return (int)i + 1;
	return 0;
}

static void test_root(void **state)
{
	struct ground *g = *state;
	int root, wrong;

	build_root(g);
	root = openat(g->fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(root >= 0);
	wrong = try_rooted(root);
	(void)close(root);
	if (wrong)
		fail_msg("path %d", wrong);
}

/* On a kernel where openat2() has this answer. */
static int refuse_openat2(int error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((unsigned)error & SECCOMP_RET_DATA)),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {.len = ARRAY_SIZE(code), .filter = code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0
		? -1
		: prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Without it, and where a directory that is renamed elsewhere stands in its way, paths mean the
 * same. */
static void test_root_walked(void **state)
{
	static const int errors[] = {ENOSYS, EPERM, EAGAIN};
	struct ground *g = *state;
	int root, status;
	size_t i;
	pid_t pid;

	build_root(g);
	root = openat(g->fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(root >= 0);
	for (i = 0; i < ARRAY_SIZE(errors); i++) {
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			_exit(refuse_openat2(errors[i]) < 0 ? 200 : try_rooted(root));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		if (WEXITSTATUS(status) == 200)
			break; /* no filters here */
		if (WEXITSTATUS(status))
			fail_msg("openat2 %s: path %d", strerror(errors[i]), WEXITSTATUS(status));
	}
	(void)close(root);
	if (i < ARRAY_SIZE(errors))
		skip();
}

static void test_wait_readable(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(fs_wait_readable(fds[0], clock_now_ms() - 1), 0);
	assert_int_equal(fs_wait_readable(fds[0], clock_now_ms() + 5), 0);
	assert_int_equal(write(fds[1], "x", 1), 1);
	assert_int_equal(fs_wait_readable(fds[0], 0), 1);
	assert_int_equal(read(fds[0], &(char){0}, 1), 1);
	(void)close(fds[1]);
	assert_int_equal(fs_wait_readable(fds[0], INT64_MAX), 1);
	(void)close(fds[0]);
}

/* ---- removing a tree ------------------------------------------------------------------------ */

static int make_inside(int fd, const char *name)
{
	int child;

	assert_int_equal(mkdirat(fd, name, 0700), 0);
	child = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(child >= 0);
	return child;
}

static void touch_inside(int fd, const char *name)
{
	int file = openat(fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);

	assert_true(file >= 0);
	(void)close(file);
}

/* Deeper than there are descriptors and bytes of a path. */
static void make_deep(int fd, unsigned depth)
{
	int at = dup(fd), next;
	unsigned i;

	for (i = 0; i < depth; i++) {
		touch_inside(at, "file");
		touch_inside(at, "stepd-1");
		next = make_inside(at, "inner");
		(void)close(at);
		at = next;
	}
	(void)close(at);
}

static void test_empty(void **state)
{
	struct ground *g = *state;
	int tree = make_inside(g->fd, "tree"), other = make_inside(g->fd, "other"), fd;
	char name[32];
	unsigned i;

	touch_inside(other, "stays");
	assert_int_equal(fs_empty_directory(tree), 0); /* which is empty */
	assert_int_equal(symlinkat("../other", tree, "link"), 0);
	assert_int_equal(symlinkat("nowhere", tree, "dangling"), 0);
	assert_int_equal(mkfifoat(tree, "fifo", 0), 0);
	for (i = 0; i < 3000; i++) {
		(void)snprintf(name, sizeof(name), "file %u", i);
		touch_inside(tree, name);
	}
	for (i = 0; i < 20; i++) {
		(void)snprintf(name, sizeof(name), "stepd-%u", i);
		fd = make_inside(tree, name);
		touch_inside(fd, "x");
		(void)close(fd);
	}
	fd = make_inside(tree, "deep");
	make_deep(fd, 5000);
	assert_int_equal(symlinkat("../../other", fd, "link"), 0);
	if (geteuid() == 0)
		assert_int_equal(fchmod(fd, 0), 0);
	(void)close(fd);
	assert_int_equal(fs_empty_directory(tree), 0);
	assert_int_equal(unlinkat(g->fd, "tree", AT_REMOVEDIR), 0);
	assert_int_equal(faccessat(other, "stays", F_OK, 0), 0);
	(void)close(tree);
	(void)close(other);
}

/* What can't be removed is reported, and the rest is removed. */
static void test_empty_partly(void **state)
{
	struct ground *g = *state;
	int tree = make_inside(g->fd, "tree"), inner = make_inside(tree, "inner"), file, flags;

	touch_inside(inner, "kept");
	touch_inside(tree, "a");
	make_deep(inner, 100);
	file = openat(inner, "kept", O_WRONLY | O_CLOEXEC);
	flags = FS_IMMUTABLE_FL;
	if (file < 0 || ioctl(file, FS_IOC_SETFLAGS, &flags) < 0) {
		(void)close(file);
		(void)close(inner);
		(void)close(tree);
		skip(); /* not root, or a file system without that */
	}
	assert_int_equal(fs_empty_directory(tree), -ENOTEMPTY);
	assert_int_equal(faccessat(tree, "a", F_OK, 0), -1);
	assert_int_equal(faccessat(inner, "inner", F_OK, 0), -1);
	assert_int_equal(faccessat(inner, "kept", F_OK, 0), 0);
	flags = 0;
	assert_int_equal(ioctl(file, FS_IOC_SETFLAGS, &flags), 0);
	assert_int_equal(fs_empty_directory(tree), 0);
	(void)close(file);
	(void)close(inner);
	(void)close(tree);
	assert_int_equal(unlinkat(g->fd, "tree", AT_REMOVEDIR), 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_read),
		TEST(test_read_fails),
		TEST(test_read_fd_from_where_it_stands),
		TEST(test_write),
		TEST(test_wait_readable),
		TEST(test_write_all),
		TEST(test_write_atomic),
		TEST(test_write_atomic_fails),
		TEST(test_write_atomic_over_remains),
		TEST(test_open_regular),
		TEST(test_check_trusted),
		TEST(test_check_file),
		TEST(test_each_name_once),
		TEST(test_names_stop),
		TEST(test_names_fail),
		TEST(test_opendir),
		TEST(test_empty),
		TEST(test_empty_partly),
		TEST(test_root),
		TEST(test_root_walked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
