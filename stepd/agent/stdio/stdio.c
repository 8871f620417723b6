/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/agent/stdio/stdio.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "stepd/agent/launch/identity.h"
#include "stepd/agent/reexec/handover.h"
#include "stepd/agent/spec/spec.h"
#include "stepd/agent/stdio/feed.h"
#include "stepd/agent/stdio/fname.h"
#include "stepd/agent/stdio/toolin.h"
#include "stepd/agent/stdio/pump.h"
#include "stepd/agent/stdio/stdfd.h"
#include "stepd/agent/stdio/stdio_impl.h"

/* ---- what tasks share ------------------------------------------------------------------------ */

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

static bool is_dev_null(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

static bool is_regular(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

static int add_dest(struct stdio *io, int i, int fd, bool own, const char *name,
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
	return add_dest(io, i, fd, true, "/dev/null", ret_dest, err);
}

/* Lines of stdout and stderr that meet in one file must not mix: one destination for both. */
static int share_own(struct stdio *io, int i, struct err *err)
{
	struct shared *s = &io->shared[i], *out = &io->shared[STDOUT_FILENO];

	s->fd = own_fd(io, i);
	if (!io->pump)
		return 0;
	if (is_dev_null(s->fd))
		return share_null(io, i, &s->dest, err);
	if (i == STDERR_FILENO && out->dest && !out->name && same_file(1, 2)) {
		s->dest = out->dest;
		return 0;
	}
	return add_dest(io, i, s->fd, false,
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
		return add_dest(io, i, fd, true, s->name, &s->dest, err);
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
	if (readers == 0 || is_dev_null(s->fd) || (readers == 1 && !isatty(s->fd)))
		return 0;
	r = feed_new(io->loop, io->log, s->fd, &io->feed);
	return r < 0 ? err_set(err, r, "standard input: make a buffer") : 0;
}

/* ---- one task -------------------------------------------------------------------------------- */

static int give_path(struct stdio *io, int i, const struct spec_stream *spec,
	struct stdio_task *task, int flags, struct err *err)
{
	struct stdio_stream *s = &task->stream[i];
	struct ends *ends = &io->ends[task->local_id];
	const char *out_path = ends->path[STDOUT_FILENO];
	int r = stdio_files_expand(&io->files, spec->pattern, task->rank, &ends->path[i], err);

	if (r < 0)
		return r;
	if (i == STDERR_FILENO && out_path && strcmp(ends->path[i], out_path) == 0) {
		s->as_stdout = true;
		return 0;
	}
	s->path = ends->path[i];
	s->flags = flags;
	return 0;
}

/* A pipe to or from the task. Its inode becomes the user's, or a task couldn't open /dev/stdout. */
static int make_pipe(
	struct stdio *io, int i, struct stdio_task *task, int *ret_ours, struct err *err)
{
	_cleanup_close_ int ours = -1, theirs = -1;
	int fd[2];
	int r = stdfd_pipe(i != STDIN_FILENO, fd);

	if (r == 0) {
		ours = fd[i == STDIN_FILENO];
		theirs = fd[i != STDIN_FILENO];
		if (io->files.id->switches &&
			fchown(theirs, io->files.id->uid, io->files.id->gid) < 0)
			r = -errno;
	}
	if (r == -EMFILE || r == -ENFILE)
		return err_set(err, r,
			"%s: make a pipe for rank %u (raise the limit of open files)",
			stdio_word(i), task->rank);
	if (r < 0)
		return err_set(err, r, "%s: make a pipe for rank %u", stdio_word(i), task->rank);
	io->ends[task->local_id].fd[i] = task->stream[i].fd = take_fd(&theirs);
	*ret_ours = take_fd(&ours);
	return 0;
}

static int give_input(struct stdio *io, struct stdio_task *task, struct err *err)
{
	const struct spec_stream *spec = &io->spec->in;
	struct stdio_stream *s = &task->stream[STDIN_FILENO];
	int ours, r;

	if (spec->mode == SPEC_STREAM_FILE)
		return give_path(
			io, STDIN_FILENO, spec, task, O_RDONLY | O_CLOEXEC | O_NOCTTY, err);
	s->fd = io->shared[STDIN_FILENO].fd;
	if ((spec->mode == SPEC_STREAM_RANK && spec->rank != task->rank) ||
		(spec->mode == SPEC_STREAM_ALL && task->joins)) {
		s->fd = io->null_fd;
	} else if (io->feed || io->input) {
		r = make_pipe(io, STDIN_FILENO, task, &ours, err);
		if (r < 0)
			return r;
		r = io->feed ? feed_add_take(io->feed, ours)
			     : toolin_add_take(io->input, ours, task->rank);
		return r < 0 ? err_set(err, r, "standard input: add a task") : 0;
	}
	return 0;
}

static int give_pump(
	struct stdio *io, int i, struct stdio_task *task, struct pump_dest *dest, struct err *err)
{
	int ours, r;

	r = make_pipe(io, i, task, &ours, err);
	if (r < 0)
		return r;
	r = pump_add_source_take(io->pump, ours, task->rank, i, dest);
	if (r == 0 && io->join_copy)
		(void)pump_copy_ranks(io->pump, &task->rank, 1, io->join_copy, NULL);
	return r < 0 ? err_set(err, r, "%s: add a task", stdio_word(i)) : 0;
}

/* A file of its own, with labels. */
static int give_labelled_file(struct stdio *io, int i, const struct spec_stream *spec,
	struct stdio_task *task, struct err *err)
{
	uint32_t rank = task->rank;
	char **paths = io->ends[task->local_id].path;
	struct pump_dest *dest;
	int fd, r;

	r = stdio_files_expand(&io->files, spec->pattern, rank, &paths[i], err);
	if (r < 0)
		return r;
	if (i == STDERR_FILENO && paths[1] && strcmp(paths[1], paths[2]) == 0) {
		task->stream[i] = task->stream[STDOUT_FILENO];
		return 0;
	}
	fd = stdio_files_open(&io->files, i, stdio_files_cwd(&io->files, rank), paths[i],
		stdio_files_flags(spec), err);
	if (fd < 0)
		return fd;
	r = add_dest(io, i, fd, true, paths[i], &dest, err);
	return r < 0 ? r : give_pump(io, i, task, dest, err);
}

static int give_output(struct stdio *io, int i, const struct spec_stream *spec,
	struct stdio_task *task, struct err *err)
{
	const struct shared *shared = &io->shared[i];
	struct stdio_stream *s = &task->stream[i];

	if (shared->as_stdout) {
		*s = task->stream[STDOUT_FILENO];
		s->as_stdout = s->fd < 0;
		s->path = NULL;
		return 0;
	}
	if (spec->mode == SPEC_STREAM_RANK && spec->rank != task->rank) {
		s->fd = io->null_fd;
		return 0;
	}
	if (shared->per_task && io->pump)
		return give_labelled_file(io, i, spec, task, err);
	if (shared->per_task)
		return give_path(io, i, spec, task, stdio_files_flags(spec), err);
	if (shared->dest)
		return give_pump(io, i, task, shared->dest, err);
	s->fd = shared->fd;
	return 0;
}

int stdio_task_open(
	struct stdio *io, uint32_t local_id, struct stdio_task *ret_task, struct err *err)
{
	struct stdio_task task = {
		.stream = {{.fd = -1}, {.fd = -1}, {.fd = -1}},
		.local_id = local_id,
		.rank = local_id < io->ends_count ? io->ends[local_id].rank : 0,
		.joins = io->started,
	};
	int r;

	assert(local_id < io->ends_count);
	r = give_input(io, &task, err);
	if (r == 0)
		r = give_output(io, STDOUT_FILENO, &io->spec->out, &task, err);
	if (r == 0)
		r = give_output(io, STDERR_FILENO, &io->spec->err, &task, err);
	if (r < 0) {
		stdio_task_close(io, &task);
		return r;
	}
	*ret_task = task;
	return 0;
}

bool stdio_carries(const struct stdio *io)
{
	return io->pump || io->feed || io->input;
}

static void close_ends(struct ends *ends)
{
	int i;

	for (i = 0; i < 3; i++)
		ends->fd[i] = close_fd(ends->fd[i]);
}

static void free_ends(struct ends *ends)
{
	int i;

	close_ends(ends);
	for (i = 0; i < 3; i++)
		free(ends->path[i]);
}

/* Not the paths: a child that shares our memory reads them later. */
void stdio_task_close(struct stdio *io, struct stdio_task *task)
{
	close_ends(&io->ends[task->local_id]);
	task->stream[0] = task->stream[1] = task->stream[2] = (struct stdio_stream){.fd = -1};
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Room for count tasks, of which those from first on have these ranks. */
static int grow_ends(struct stdio *io, uint32_t first, const uint32_t *ranks, uint32_t count)
{
	struct ends *ends = realloc(io->ends, ((size_t)first + count + 1) * sizeof(*ends));
	uint32_t i;

	if (!ends)
		return -ENOMEM;
	io->ends = ends;
	for (; io->ends_count < first + count; io->ends_count++)
		ends[io->ends_count] = (struct ends){.fd = {-1, -1, -1}};
	for (i = 0; i < count; i++)
		ends[first + i].rank = ranks[i];
	return 0;
}

static int open_null(struct stdio *io, struct err *err)
{
	int r = open("/dev/null", O_RDWR | O_CLOEXEC | O_NOCTTY);

	r = r < 0 ? -errno : stdfd_move_above(r);
	if (r < 0)
		return err_set(err, r, "open '/dev/null'");
	io->null_fd = r;
	return 0;
}

static int alloc(struct stdio *io, const char *cwd, struct err *err)
{
	const struct spec *spec = io->spec;
	uint32_t i;
	int r;

	for (i = 0; i < 3; i++)
		io->shared[i].fd = io->shared[i].owned_fd = -1;
	io->null_fd = -1;
	io->files.cwd = cwd ? strdup(cwd) : NULL;
	r = cwd && !io->files.cwd ? -ENOMEM : grow_ends(io, 0, spec->ranks, spec->local_ntasks);
	if (r == 0 && (spec->label || spec->forward))
		r = pump_new(io->loop, io->log, spec->ntasks ? spec->ntasks - 1 : 0, &io->pump);
	if (r == 0 && io->pump && !spec->label)
		pump_set_raw(io->pump);
	if (r == 0)
		r = stdio_tools_open(io);
	if (r < 0)
		return err_set(err, r, "prepare the tasks' standard streams");
	return open_null(io, err);
}

int stdio_open(const struct spec *spec, const struct identity *id, const char *cwd, mode_t mask,
	struct ev_loop *loop, const struct log *log, struct stdio **ret_stdio, struct err *err)
{
	_cleanup_stdio_ struct stdio *io = calloc(1, sizeof(*io));
	int r;

	if (!io)
		return err_set(err, -ENOMEM, "prepare the tasks' standard streams");
	io->spec = spec;
	io->note = (struct note)NOTE_INIT;
	io->files = (struct stdio_files){.spec = spec, .id = id, .mask = mask};
	io->loop = loop;
	io->log = log;
	r = alloc(io, cwd, err);
	if (r == 0)
		r = share_input(io, err);
	if (r == 0)
		r = share_output(io, STDOUT_FILENO, &spec->out, err);
	if (r == 0)
		r = share_output(io, STDERR_FILENO, &spec->err, err);
	if (r < 0)
		return r;
	*ret_stdio = take_ptr(io);
	return 0;
}

/* Where the step has its standard error, if it has one. */
static void choose_note(struct stdio *io)
{
	struct shared *s = &io->shared[STDERR_FILENO];

	if (s->as_stdout)
		s = &io->shared[STDOUT_FILENO];
	if (s->per_task) {
		io->note.kind = NOTE_PER_TASK;
	} else if (is_dev_null(s->fd)) {
		io->note.kind = NOTE_NULL;
	} else if (s->dest) {
		io->note.kind = NOTE_DEST;
		io->note.dest = s->dest;
	} else if (s->owned_fd >= 0 && !is_regular(s->owned_fd)) {
		io->note.kind = NOTE_FIFO;
	} else {
		io->note.kind = NOTE_FD;
		io->note.own = s->owned_fd >= 0;
		io->note.fd = io->note.own ? take_fd(&s->owned_fd) : s->fd;
	}
}

int stdio_note(struct stdio *io, const char *line, size_t size, struct err *err)
{
	return note_put(&io->note, io->loop, io->log, line, size, err);
}

void stdio_start(struct stdio *io)
{
	int i;

	io->started = true;
	choose_note(io);
	for (i = 0; i < 3; i++)
		io->shared[i].owned_fd = close_fd(io->shared[i].owned_fd);
	if (io->feed)
		feed_start(io->feed);
	if (io->pump)
		pump_start(io->pump);
}

/* ---- tasks that join ------------------------------------------------------------------------- */

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
	if (is_dev_null(fd) && !s->name)
		r = share_null(io, i, &s->dest, err);
	else
		r = add_dest(io, i, fd, s->name, s->name ? s->name : stdio_word(i), &s->dest, err);
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

int stdio_join(
	struct stdio *io, uint32_t first, const uint32_t *ranks, uint32_t count, struct err *err)
{
	int r;

	if (!io->files.cwd)
		return err_say(err, -EOPNOTSUPP,
			"this agent does not know enough of the step's standard streams: it has taken "
			"the step over from one of an older version");
	if (grow_ends(io, first, ranks, count) < 0)
		return err_set(err, -ENOMEM, "prepare the tasks' standard streams");
	r = renew_output(io, STDOUT_FILENO, err);
	return r < 0 ? r : renew_output(io, STDERR_FILENO, err);
}

void stdio_join_end(struct stdio *io)
{
	int i;

	io->join_copy = 0;
	for (i = 0; i < 3; i++)
		io->shared[i].owned_fd = close_fd(io->shared[i].owned_fd);
}

static void on_pumped(void *userdata)
{
	struct stdio *io = userdata;

	stdio_copy_stop(io);    /* nothing more comes */
	io->done(io->userdata); /* may have freed io */
}

void stdio_finish(struct stdio *io, stdio_done_fn done, void *userdata)
{
	assert(done);
	io->done = done;
	io->userdata = userdata;
	io->feed = feed_free(io->feed);
	io->input = toolin_free(io->input);
	if (io->pump)
		pump_finish(io->pump, on_pumped, io);
	else
		done(userdata);
}

/* Of the launch only what tasks need that join the step: not the tasks' ends, nor /dev/null. */
void stdio_save(const struct stdio *io, struct handover *h, struct json_t *object)
{
	handover_put_text(h, object, "cwd", io->files.cwd);
	handover_put_int(h, object, "umask", io->files.mask);
	if (io->pump)
		handover_put_int(h, object, "stdout_dest",
			pump_number_of(io->pump, io->shared[STDOUT_FILENO].dest));
	if (io->pump)
		handover_put_int(h, object, "own_stderr_dest",
			pump_number_of(io->pump, io->shared[STDERR_FILENO].dest));
	if (io->pump)
		pump_save(io->pump, h, handover_put_object(h, object, "pump"));
	if (io->feed)
		feed_save(io->feed, h, handover_put_object(h, object, "feed"));
	if (io->pump)
		handover_put_int(h, object, "stderr_dest", pump_number_of(io->pump, io->note.dest));
	note_save(&io->note, h, object);
	stdio_tools_save(io, h, object);
}

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

static int restore_shared(
	struct stdio *io, const struct handover *h, const struct json_t *object, struct err *err)
{
	const struct spec *spec = io->spec;
	int r;

	io->started = true;
	io->files.mask = (mode_t)handover_get_int(object, "umask", 022);
	if (handover_copy_text(h, object, "cwd", &io->files.cwd) < 0)
		return err_set(err, -ENOMEM, "go on with the tasks' standard streams");
	r = open_null(io, err);
	if (r < 0)
		return r;
	io->shared[STDIN_FILENO].fd =
		spec->in.mode == SPEC_STREAM_NONE || spec->in.mode == SPEC_STREAM_TOOL
		? io->null_fd
		: own_fd(io, STDIN_FILENO);
	r = restore_output(
		io, STDOUT_FILENO, &spec->out, handover_get_int(object, "stdout_dest", -1), err);
	return r < 0 ? r
		     : restore_output(io, STDERR_FILENO, &spec->err,
			       handover_get_int(object, "own_stderr_dest", -1), err);
}

static int restore_parts(struct stdio *io, const struct handover *h, const struct json_t *object)
{
	const struct json_t *pump = handover_get_object(object, "pump");
	const struct json_t *feed = handover_get_object(object, "feed");
	int r = 0;

	if (pump)
		r = pump_restore(io->loop, io->log, h, pump, on_pumped, io, &io->pump);
	if (r == 0 && feed)
		r = feed_restore(io->loop, io->log, h, feed, &io->feed);
	if (r == 0)
		r = note_restore(&io->note, io->loop, io->log, h, object);
	if (r == 0)
		r = stdio_tools_restore(io, h, object);
	if (r < 0)
		return r;
	if (pump)
		io->note.dest =
			pump_get_dest(io->pump, handover_get_int(object, "stderr_dest", -1));
	return io->note.kind == NOTE_DEST && !io->note.dest ? -EPROTO : 0;
}

int stdio_restore(const struct spec *spec, const struct identity *id, struct ev_loop *loop,
	const struct log *log, const struct handover *h, const struct json_t *object,
	stdio_done_fn done, void *userdata, struct stdio **ret_stdio, struct err *err)
{
	_cleanup_stdio_ struct stdio *io = calloc(1, sizeof(*io));
	int i, r;

	if (!io)
		return err_set(err, -ENOMEM, "go on with the tasks' standard streams");
	io->spec = spec;
	io->note = (struct note)NOTE_INIT;
	io->files = (struct stdio_files){.spec = spec, .id = id};
	io->loop = loop;
	io->log = log;
	io->null_fd = -1;
	io->done = done;
	io->userdata = userdata;
	for (i = 0; i < 3; i++)
		io->shared[i].fd = io->shared[i].owned_fd = -1;
	r = restore_parts(io, h, object);
	if (r < 0)
		return r == -EPROTO ? handover_say_bad("tasks' standard streams", err)
				    : err_set(err, r, "go on with the tasks' standard streams");
	r = restore_shared(io, h, object, err);
	if (r < 0)
		return r;
	*ret_stdio = take_ptr(io);
	return 0;
}

struct stdio *stdio_free(struct stdio *io)
{
	uint32_t i;

	if (!io)
		return NULL;
	for (i = 0; i < io->ends_count; i++)
		free_ends(&io->ends[i]);
	for (i = 0; i < 3; i++) {
		(void)close_fd(io->shared[i].owned_fd);
		free(io->shared[i].name);
	}
	note_clear(&io->note);
	(void)pump_free(io->pump);
	(void)feed_free(io->feed);
	stdio_tools_free(io); /* behind the pump, which copies */
	(void)close_fd(io->null_fd);
	free(io->ends);
	free(io->files.cwd);
	free(io);
	return NULL;
}
