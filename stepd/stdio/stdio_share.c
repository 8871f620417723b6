/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What tasks share of their standard streams: files, the agent's own descriptors, and the
 * destinations in the pump; opened before the first fork, and again for tasks that join.
 */
#include "stepd/stdio/stdio_impl.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "stepd/process/stdfd.h"
#include "stepd/snapshot/handover.h"
#include "stepd/spec/fname.h"
#include "stepd/spec/spec.h"
#include "stepd/stdio/feed.h"
#include "stepd/stdio/pump.h"

/* The agent's own descriptor, or /dev/null where it was started without one. */
static int own_fd(const struct stdio *io, int i)
{
	return stdfd_inherited(i) ? i : io->null_fd;
}

static bool same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
		x.st_ino == y.st_ino;
}

bool stdio_is_dev_null(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

int stdio_add_dest(struct stdio *io, int i, int fd, bool own, const char *name,
	struct pump_dest **ret_dest, struct err *err)
{
	int r = pump_add_dest(io->pump, fd, own, name, ret_dest);

	return r < 0 ? err_set(err, r, "%s: make a buffer", stdio_word(i)) : 0;
}

/* Tools may have a copy of what goes nowhere else. */
static int share_null(struct stdio *io, int i, struct pump_dest **ret_dest, struct err *err)
{
	int fd;

	if (!io->spec->forward)
		return 0;
	fd = fcntl(io->null_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (fd < 0)
		return err_set(err, -errno, "%s: open '/dev/null'", stdio_word(i));
	return stdio_add_dest(io, i, fd, true, "/dev/null", ret_dest, err);
}

/* Lines of stdout and stderr that meet in one file must not mix: one destination for both. */
static int share_own(struct stdio *io, int i, struct err *err)
{
	struct shared *s = &io->shared[i], *out = &io->shared[STDOUT_FILENO];

	s->fd = own_fd(io, i);
	if (!io->pump)
		return 0;
	if (stdio_is_dev_null(s->fd))
		return share_null(io, i, &s->dest, err);
	if (i == STDERR_FILENO && out->dest && !out->name && same_file(1, 2)) {
		s->dest = out->dest;
		return 0;
	}
	return stdio_add_dest(io, i, s->fd, false,
		i == STDOUT_FILENO ? "standard output" : "standard error", &s->dest, err);
}

static int share_file(struct stdio *io, int i, const struct spec_stream *spec, struct err *err)
{
	struct shared *s = &io->shared[i];
	const char *out_name = io->shared[STDOUT_FILENO].name;
	int fd, r;

	s->per_task = fname_per_task(spec->pattern);
	if (s->per_task)
		return 0;
	r = stdio_files_expand(&io->files, spec->pattern, 0, &s->name, err);
	if (r < 0)
		return r;
	if (i == STDERR_FILENO && out_name && strcmp(s->name, out_name) == 0) {
		s->as_stdout = true;
		return 0;
	}
	fd = stdio_files_open(
		&io->files, i, io->files.cwd, s->name, stdio_files_flags(spec) | O_APPEND, err);
	if (fd < 0)
		return fd;
	if (io->pump)
		return stdio_add_dest(io, i, fd, true, s->name, &s->dest, err);
	s->fd = s->owned_fd = fd;
	r = stdfd_set_nonblock(fd, false);
	return r < 0 ? err_set(err, r, "%s: '%s'", stdio_word(i), s->name) : 0;
}

static int share_output(struct stdio *io, int i, const struct spec_stream *spec, struct err *err)
{
	struct shared *s = &io->shared[i];

	switch (spec->mode) {
	case SPEC_STREAM_FILE:
		return share_file(io, i, spec, err);
	case SPEC_STREAM_STDOUT:
		s->as_stdout = true;
		return 0;
	case SPEC_STREAM_NONE:
		s->fd = io->null_fd;
		return share_null(io, i, &s->dest, err);
	default:
		return share_own(io, i, err);
	}
}

/* How many tasks of this node read the agent's stdin. */
static uint32_t count_readers(const struct spec *spec)
{
	uint32_t i;

	if (spec->in.mode == SPEC_STREAM_ALL)
		return spec->local_ntasks;
	for (i = 0; i < spec->local_ntasks && spec->in.mode == SPEC_STREAM_RANK; i++) {
		if (spec->ranks[i] == spec->in.rank)
			return 1;
	}
	return 0;
}

/* One reader has the agent's stdin itself, unless it is a terminal: that would stop a task, which
 * is in a process group of the background. */
static int share_input(struct stdio *io, struct err *err)
{
	struct shared *s = &io->shared[STDIN_FILENO];
	uint32_t readers;
	int r;

	s->fd = io->spec->in.mode == SPEC_STREAM_NONE || io->spec->in.mode == SPEC_STREAM_TOOL
		? io->null_fd
		: own_fd(io, STDIN_FILENO);
	if (io->spec->in.mode != SPEC_STREAM_ALL && io->spec->in.mode != SPEC_STREAM_RANK)
		return 0;
	readers = count_readers(io->spec);
	if (readers == 0 || stdio_is_dev_null(s->fd) || (readers == 1 && !isatty(s->fd)))
		return 0;
	r = feed_new(io->loop, io->log, s->fd, &io->feed);
	return r < 0 ? err_set(err, r, "standard input: make a buffer") : 0;
}

int stdio_share(struct stdio *io, struct err *err)
{
	int r = share_input(io, err);

	if (r == 0)
		r = share_output(io, STDOUT_FILENO, &io->spec->out, err);
	return r < 0 ? r : share_output(io, STDERR_FILENO, &io->spec->err, err);
}

/* ---- for tasks that join --------------------------------------------------------------------- */

static int open_again(struct stdio *io, int i, struct err *err)
{
	const struct spec_stream *spec = i == STDOUT_FILENO ? &io->spec->out : &io->spec->err;
	int flags = (stdio_files_flags(spec) & ~O_TRUNC) | O_APPEND;

	return stdio_files_open(&io->files, i, io->files.cwd, io->shared[i].name, flags, err);
}

/* All tasks that wrote there had closed it, and so it was. */
static int renew_dest(struct stdio *io, int i, struct err *err)
{
	struct shared *s = &io->shared[i], *out = &io->shared[STDOUT_FILENO];
	struct pump_dest *old = s->dest;
	int fd = s->name ? open_again(io, i, err) : s->fd, r;

	if (fd < 0)
		return fd;
	if (stdio_is_dev_null(fd) && !s->name)
		r = share_null(io, i, &s->dest, err);
	else
		r = stdio_add_dest(
			io, i, fd, s->name, s->name ? s->name : stdio_word(i), &s->dest, err);
	if (r < 0)
		return r;
	if (i == STDOUT_FILENO && io->shared[STDERR_FILENO].dest == old)
		io->shared[STDERR_FILENO].dest = out->dest;
	if (io->note.dest == old)
		io->note.dest = s->dest;
	return 0;
}

static int renew_output(struct stdio *io, int i, struct err *err)
{
	struct shared *s = &io->shared[i];
	int r;

	if (s->dest)
		return pump_has_ended(s->dest) ? renew_dest(io, i, err) : 0;
	if (s->as_stdout || s->per_task || !s->name)
		return 0;
	r = open_again(io, i, err);
	if (r < 0)
		return r;
	s->fd = s->owned_fd = r;
	r = stdfd_set_nonblock(s->fd, false);
	return r < 0 ? err_set(err, r, "%s: '%s'", stdio_word(i), s->name) : 0;
}

int stdio_share_again(struct stdio *io, struct err *err)
{
	int r = renew_output(io, STDOUT_FILENO, err);

	return r < 0 ? r : renew_output(io, STDERR_FILENO, err);
}

/* ---- for the program that goes on ------------------------------------------------------------ */

/* As share_output(), with what that opened once. */
static int restore_output(
	struct stdio *io, int i, const struct spec_stream *spec, int64_t dest, struct err *err)
{
	const char *out_name = io->shared[STDOUT_FILENO].name;
	struct shared *s = &io->shared[i];
	int r;

	s->fd = spec->mode == SPEC_STREAM_NONE ? io->null_fd : own_fd(io, i);
	s->as_stdout = spec->mode == SPEC_STREAM_STDOUT;
	s->dest = io->pump ? pump_get_dest(io->pump, dest) : NULL;
	if (spec->mode != SPEC_STREAM_FILE)
		return 0;
	s->fd = -1;
	s->per_task = fname_per_task(spec->pattern);
	if (s->per_task)
		return 0;
	r = stdio_files_expand(&io->files, spec->pattern, 0, &s->name, err);
	if (r == 0 && i == STDERR_FILENO && out_name && strcmp(s->name, out_name) == 0)
		s->as_stdout = true;
	return r;
}

int stdio_share_restore(struct stdio *io, const struct json_t *object, struct err *err)
{
	const struct spec *spec = io->spec;
	int r;

	io->shared[STDIN_FILENO].fd =
		spec->in.mode == SPEC_STREAM_NONE || spec->in.mode == SPEC_STREAM_TOOL
		? io->null_fd
		: own_fd(io, STDIN_FILENO);
	r = restore_output(
		io, STDOUT_FILENO, &spec->out, json_get_int(object, "stdout_dest", -1), err);
	return r < 0 ? r
		     : restore_output(io, STDERR_FILENO, &spec->err,
			       json_get_int(object, "own_stderr_dest", -1), err);
}
