/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/user_probe.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "contrib/slurm/user_child.h"
#include "stepd/base/fs.h"
#include "stepd/process/identity.h"

#define FALLBACK_DIR "/tmp"

/* ---- in the child, as the user ------------------------------------------------------------- */

static int check_regular(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return errno;
	if (!S_ISREG(st.st_mode))
		return EACCES;
	return access(path, X_OK) < 0 ? errno : 0;
}

/* The program as slurmstepd's execve() would get it: the first one of PATH, whether it can be
 * executed or not, or relative to the directory. */
static void find_program(
	const struct user_probe_options *o, const char *program, struct user_probe *p)
{
	const char *dirs = o->path, *cwd = p->cwd_error ? FALLBACK_DIR : o->cwd;
	struct stat st;
	size_t n;

	(void)snprintf(p->program, sizeof(p->program), "%s", program);
	if (program[0] == '/')
		return;
	if (strchr(program, '/')) {
		(void)snprintf(p->program, sizeof(p->program), "%s/%s", cwd, program);
		return;
	}
	for (; dirs && *dirs; dirs += n + (dirs[n] == ':')) {
		n = strcspn(dirs, ":");
		(void)snprintf(p->program, sizeof(p->program), "%.*s/%s", n ? (int)n : 1,
			n ? dirs : ".", program);
		if (stat(p->program, &st) == 0 && !S_ISDIR(st.st_mode))
			return;
	}
	(void)snprintf(p->program, sizeof(p->program), "%s", program);
}

/* Of a script: the interpreter that its first line names. False: it is none. */
static bool read_interpreter(const char *path, char interpreter[static PATH_MAX])
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char line[256] = "", *at = line + 2;
	ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);

	if (n < 3 || strncmp(line, "#!", 2) != 0)
		return false;
	at += strspn(at, " \t");
	at[strcspn(at, " \t\r\n")] = '\0';
	(void)snprintf(interpreter, PATH_MAX, "%s", at);
	return *at == '/';
}

/* Whether the kernel would find nobody to run it. Where the machine has interpreters for other
 * formats, they decide. */
static bool is_no_program(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	_cleanup_closedir_ DIR *formats = opendir("/proc/sys/fs/binfmt_misc");
	const struct dirent *entry;
	char magic[4] = "";

	if (fd < 0 || read(fd, magic, sizeof(magic)) < 0 || memcmp(magic, "\177ELF", 4) == 0)
		return false; /* perhaps only execute permission */
	while (formats && (entry = readdir(formats))) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
			strcmp(entry->d_name, "register") != 0 &&
			strcmp(entry->d_name, "status") != 0)
			return false;
	}
	return true;
}

static void check_program(struct user_probe *p)
{
	char interpreter[PATH_MAX];

	p->program_error = check_regular(p->program);
	if (p->program_error)
		return;
	if (!read_interpreter(p->program, interpreter)) {
		p->program_error = is_no_program(p->program) ? ENOEXEC : 0;
		return;
	}
	p->program_error = check_regular(interpreter);
	if (p->program_error != ENOENT)
		return;
	p->is_interpreter = true;
	memcpy(p->program, interpreter, sizeof(interpreter));
}

/* Where files are, to the child: in a namespace, outside of it. */
struct place {
	int root; /* their "/"; -1: the child's own */
};

/* The directory of which path[at] ends the name: its parent leads through no link of /proc, and it
 * may be there. */
static int make_directory(const struct place *place, const char *path, size_t at)
{
	char name[PATH_MAX], *slash, *last = name;
	_cleanup_close_ int parent = -1;

	if (at >= sizeof(name))
		return -ENAMETOOLONG;
	memcpy(name, path, at);
	name[at] = '\0';
	slash = strrchr(name, '/');
	if (slash) {
		last = slash + 1;
		*slash = '\0';
	}
	if (!*last)
		return 0; /* the root, or one of several slashes */
	parent = userpath_open_in(place->root,
		!slash          ? "."
			: *name ? name
				: "/",
		O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
	if (parent < 0)
		return parent;
	return mkdirat(parent, last, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

static int make_directories(const struct place *place, const char *path)
{
	const char *at;
	int r = 0;

	for (at = strchr(path, '/'); r == 0 && at; at = strchr(at + 1, '/'))
		r = make_directory(place, path, (size_t)(at - path));
	return r;
}

static int probe_file(const struct user_probe_options *o, const struct place *place,
	const struct user_probe_file *file)
{
	int flags = file->flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, fd;
	const char *path = file->path;
	char joined[PATH_MAX];

	if (place->root >= 0 && *path != '/') { /* the child's directory is inside */
		if ((size_t)snprintf(joined, sizeof(joined), "%s/%s", o->cwd, path) >=
			sizeof(joined))
			return -ENAMETOOLONG;
		path = joined;
	}
	fd = userpath_open_in(place->root, path, flags, 0666);
	/* Why they can't be made is not what Slurm reports. */
	if (fd == -ENOENT && o->makes_directories && (flags & O_CREAT) &&
		make_directories(place, path) == 0)
		fd = userpath_open_in(place->root, path, flags, 0666);
	return fd;
}

/* Output files are made, as slurmstepd makes them before it starts a task. A FIFO without a reader
 * is left to the tasks. */
static void check_files(
	const struct user_probe_options *o, const struct place *place, struct user_probe *p)
{
	size_t i;

	(void)umask(o->umask);
	for (i = 0; i < o->files_count && !p->file_error; i++) {
		_cleanup_close_ int fd = probe_file(o, place, &o->files[i]);

		if (fd < 0 && fd != -ENXIO)
			p->file_error = -fd;
	}
}

static void check_programs(const struct user_probe_options *o, struct user_probe *p)
{
	size_t i;

	for (i = 0; i < o->programs_count && !p->program_error; i++) {
		find_program(o, o->programs[i], p);
		check_program(p);
	}
}

static int check_directory_outside(const struct user_probe_options *o, const struct place *place)
{
	_cleanup_close_ int fd =
		userpath_open_in(place->root, o->cwd, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);

	if (fd < 0)
		return fd == -ELOOP ? EACCES : -fd;
	return faccessat(fd, ".", X_OK, AT_EACCESS) < 0 ? errno : 0;
}

struct probing {
	const struct user_probe_options *options;
	struct place place;
};

static int probe(void *userdata, void *result)
{
	const struct probing *probing = userdata;
	const struct user_probe_options *o = probing->options;
	const struct place *place = &probing->place;
	struct user_probe *p = result;

	if (userpath_chdir(o->cwd) < 0) {
		p->cwd_error = chdir(o->cwd) < 0 ? errno : EACCES;
		(void)!chdir(FALLBACK_DIR); /* a relative program is not found then */
	}
	p->outside_cwd_error = place->root < 0 ? p->cwd_error : check_directory_outside(o, place);
	check_files(o, place, p);
	check_programs(o, p);
	return 0;
}

/* ---- in the parent ------------------------------------------------------------------------- */

int user_probe_run(
	const struct user_probe_options *options, struct user_probe *ret_probe, struct err *err)
{
	const struct identity id = {.uid = options->uid,
		.gid = options->gid,
		.groups = (gid_t *)options->groups,
		.groups_count = options->groups_count,
		.switches = true};
	struct probing probing = {.options = options, .place = {.root = -1}};
	const struct user_child child = {.identity = &id,
		.mount_namespace = options->mount_namespace,
		.timeout_ms = options->timeout_ms,
		.run = probe,
		.userdata = &probing,
		.result_size = sizeof(*ret_probe)};
	_cleanup_close_ int root = -1;
	int r;

	if (options->mount_namespace && *options->mount_namespace) {
		root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (root < 0)
			return err_set(err, -errno, "look for the step's program");
		probing.place.root = root;
	}
	r = user_child_run(&child, ret_probe, err);
	if (r < 0)
		return err_prefix(err, "look for the step's program");
	ret_probe->program[sizeof(ret_probe->program) - 1] = '\0';
	return 0;
}
