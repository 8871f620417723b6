/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The tasks' streams are opened: files, by names from patterns and as the user; what tasks share,
 * which is opened before the first fork, and again for tasks that join; and what each task has of
 * its own, its ends of pipes and the paths that it opens itself.
 */
#include "stepd/stdio/stdio_impl.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "stepd/base/fs.h"
#include "stepd/process/identity.h"
#include "stepd/process/process.h"
#include "stepd/snapshot/handover.h"
#include "stepd/spec/fname.h"
#include "stepd/spec/spec.h"
#include "stepd/stdio/attach.h"
#include "stepd/stdio/input.h"
#include "stepd/stdio/pump.h"

/* ---- files --------------------------------------------------------------------------------- */

static const char *stdio_name(int stream)
{
	static const char *const names[] = {"standard input", "standard output", "standard error"};

	return names[stream];
}

static int file_expand(const struct stdio_files *files, const char *pattern, uint32_t rank,
	char **ret_name, struct err *err)
{
	const struct fname_vars vars = {
		.job_id = files->spec->job_id,
		.step_name = files->spec->step_name,
		.rank = rank,
		.node_id = files->spec->node_id,
		.node_name = files->spec->node_name,
		.user_name = files->id->user_name,
		.job_name = files->spec->job_name,
	};

	return fname_expand(pattern, &vars, ret_name, err);
}

void stdio_file_name(const struct spec *spec, const struct identity *id, int stream, uint32_t rank,
	char *text, size_t size)
{
	const struct spec_stream *const streams[] = {&spec->in, &spec->out, &spec->err};
	const struct stdio_files files = {.spec = spec, .id = id};
	const char *pattern = streams[stream]->pattern;
	_cleanup_free_ char *name = NULL;

	if (pattern && file_expand(&files, pattern, rank, &name, NULL) == 0)
		pattern = name;
	(void)snprintf(text, size, "%s", pattern ? pattern : "");
}

static const struct spec_stream *output_spec(const struct stdio *io, int i)
{
	return i == STDOUT_FILENO ? &io->spec->out : &io->spec->err;
}

static int file_flags(const struct spec_stream *stream)
{
	return O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK |
		(stream->append ? O_APPEND : O_TRUNC);
}

/* By the rank's entry in tasks; a rank that joined the step has no entry. */
static const char *file_cwd(const struct stdio_files *files, uint32_t rank)
{
	const struct spec *spec = files->spec;
	uint32_t entry = spec->rank_entries && rank < spec->ntasks ? spec->rank_entries[rank] : 0;
	const char *cwd = entry ? spec->overrides[entry - 1].cwd : NULL;

	return cwd ? cwd : files->cwd;
}

static int explain(
	const struct stdio_files *files, int stream, const char *path, int r, struct err *err)
{
	const char *user = files->id->user_name ? files->id->user_name : "?";
	const char *why = userpath_explain(r);

	if (why)
		return err_set_text(err, r, "%s: open '%s' as user %s: %s", stdio_name(stream),
			path, user, why);
	if (r == -ENXIO)
		return err_set_text(err, r,
			"%s: '%s' is a FIFO or socket that nobody reads; start its reader first",
			stdio_name(stream), path);
	return err_set(err, r, "%s: open '%s' as user %s", stdio_name(stream), path, user);
}

static int file_open(const struct stdio_files *files, int stream, const char *cwd, const char *name,
	int flags, struct err *err)
{
	_cleanup_free_ char *joined = NULL;
	const char *path = name;
	mode_t old;
	int r;

	if (name[0] != '/' && cwd) {
		if (asprintf(&joined, "%s/%s", cwd, name) < 0)
			return err_set(err, -ENOMEM, "%s: open '%s'", stdio_name(stream), name);
		path = joined;
	}
	r = identity_assume(files->id, err);
	if (r < 0)
		return r;
	old = umask(files->mask);
	r = userpath_open(path, flags, 0666);
	(void)umask(old); /* can't fail */
	identity_restore(files->id);
	if (r >= 0)
		r = stdfd_move_above(r);
	return r < 0 ? explain(files, stream, path, r, err) : r;
}

/* ---- what tasks share ---------------------------------------------------------------------- */

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

static int add_dest(struct stdio *io, int i, int fd, bool own, const char *name,
	struct pump_dest **ret_dest, struct err *err)
{
	int r = pump_add_dest(io->pump, fd, own, name, ret_dest);

	if (r < 0)
		return err_set(err, r, "%s: make a buffer", stdio_name(i));
	pump_describe_dest(*ret_dest, i, -1);
	return 0;
}

bool stdio_carries_all(const struct stdio *io)
{
	return io->spec->forward || io->spec->attachable || io->ptys > 0;
}

bool stdio_is_fed(const struct spec *spec)
{
	return spec->in.mode == SPEC_STREAM_TOOL || spec->in.mode == SPEC_STREAM_ATTACH;
}

/* Tools may want a copy of output that goes nowhere else, and a pseudo-terminal must be read. */
static int share_null(struct stdio *io, int i, struct pump_dest **ret_dest, struct err *err)
{
	int fd;

	if (!stdio_carries_all(io))
		return 0;
	fd = fcntl(io->null_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (fd < 0)
		return err_set(err, -errno, "%s: open '/dev/null'", stdio_name(i));
	return add_dest(io, i, fd, true, "/dev/null", ret_dest, err);
}

/* Whether it is the one that may be made raw. */
static bool is_on_terminal(const struct stdio *io, int fd)
{
	return terminal_is_input(&io->terminal) && same_file(fd, io->terminal.fd);
}

/* Lines of stdout and stderr to one file must not mix: one destination for both. */
static int share_own(struct stdio *io, int i, struct err *err)
{
	struct shared *s = &io->shared[i], *out = &io->shared[STDOUT_FILENO];

	s->fd = own_fd(io, i);
	s->on_terminal = is_on_terminal(io, s->fd);
	if (!io->pump)
		return 0;
	if (stdio_is_dev_null(s->fd))
		return share_null(io, i, &s->dest, err);
	if (i == STDERR_FILENO && out->dest && !out->name && same_file(1, 2)) {
		s->dest = out->dest;
		return 0;
	}
	return add_dest(io, i, s->fd, false, stdio_name(i), &s->dest, err);
}

static int share_opened(struct shared *s, int i, int fd, struct err *err)
{
	int r = stdfd_set_nonblock(fd, false);

	s->fd = s->owned_fd = fd;
	return r < 0 ? err_set(err, r, "%s: '%s'", stdio_name(i), s->name) : 0;
}

static int share_file(struct stdio *io, int i, const struct spec_stream *spec, struct err *err)
{
	struct shared *s = &io->shared[i];
	const char *out_name = io->shared[STDOUT_FILENO].name;
	int fd, r;

	s->per_task = fname_per_task(spec->pattern);
	if (s->per_task)
		return 0;
	r = file_expand(&io->files, spec->pattern, 0, &s->name, err);
	if (r < 0)
		return r;
	if (i == STDERR_FILENO && out_name && strcmp(s->name, out_name) == 0) {
		s->as_stdout = true;
		return 0;
	}
	fd = file_open(&io->files, i, io->files.cwd, s->name, file_flags(spec) | O_APPEND, err);
	if (fd < 0)
		return fd;
	if (io->pump)
		return add_dest(io, i, fd, true, s->name, &s->dest, err);
	return share_opened(s, i, fd, err);
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

static int input_fd(const struct stdio *io)
{
	return io->spec->in.mode == SPEC_STREAM_NONE || stdio_is_fed(io->spec)
		? io->null_fd
		: own_fd(io, STDIN_FILENO);
}

void stdio_input_overflow(const struct stdio *io, struct stdin_overflow *ret_overflow)
{
	const struct spec *spec = io->spec;

	*ret_overflow = (struct stdin_overflow){
		.backlog =
			{
				.spills = spec->input_overflow == SPEC_OVERFLOW_SPILL,
				.spill_max = spec->input_spill_max,
				.dir = strv_env_get(&spec->env, "TMPDIR"),
				.id = io->files.id,
			},
		.drops = spec->input_overflow == SPEC_OVERFLOW_DROP,
	};
}

static int share_writer(struct stdio *io, int fd, struct err *err)
{
	struct stdin_overflow overflow;
	int r;

	stdio_input_overflow(io, &overflow);
	r = stdin_writer_new(io->loop, io->log, fd, &overflow, &io->writer);
	return r < 0 ? err_set(err, r, "standard input: make a buffer") : 0;
}

/* The number of this node's tasks that read the agent's stdin. */
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

/* The agent types for those that read, and an end of file for the others. */
static int share_typed_input(struct stdio *io, struct err *err)
{
	const struct spec_stream *in = &io->spec->in;
	bool reads = in->mode == SPEC_STREAM_ALL || count_readers(io->spec) > 0;
	bool by_clients = in->mode == SPEC_STREAM_ATTACH;
	int fd = reads || by_clients ? own_fd(io, STDIN_FILENO) : io->null_fd;
	int r = share_writer(io, fd, err);

	io->types = reads && terminal_is_input(&io->terminal);
	if (r == 0 && by_clients)
		stdin_writer_pause(io->writer, true); /* for ever: it is not read */
	return r;
}

/* A single reader gets the agent's stdin itself, unless clients may type, too, or it is a terminal:
 * reading it would stop a task, which is in a background process group. */
static int share_input(struct stdio *io, struct err *err)
{
	struct shared *s = &io->shared[STDIN_FILENO];
	uint32_t readers;

	s->fd = io->spec->pty_count > 0 ? io->null_fd : input_fd(io);
	if (io->ptys > 0)
		return share_typed_input(io, err);
	if (io->spec->pty_count > 0)
		return 0;
	if (io->spec->in.mode != SPEC_STREAM_ALL && io->spec->in.mode != SPEC_STREAM_RANK)
		return 0;
	readers = count_readers(io->spec);
	if (readers == 0 || stdio_is_dev_null(s->fd) ||
		(readers == 1 && !isatty(s->fd) && !io->attach))
		return 0;
	return share_writer(io, s->fd, err);
}

int stdio_share(struct stdio *io, struct err *err)
{
	int r = share_input(io, err);

	if (r == 0)
		r = share_output(io, STDOUT_FILENO, &io->spec->out, err);
	return r < 0 ? r : share_output(io, STDERR_FILENO, &io->spec->err, err);
}

/* ---- for tasks that join ------------------------------------------------------------------- */

static int open_again(struct stdio *io, int i, struct err *err)
{
	const struct spec_stream *spec = output_spec(io, i);
	int flags = (file_flags(spec) & ~O_TRUNC) | O_APPEND;

	return file_open(&io->files, i, io->files.cwd, io->shared[i].name, flags, err);
}

/* All tasks that wrote to it had closed it, so it was closed. */
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
		r = add_dest(io, i, fd, s->name, s->name ? s->name : stdio_name(i), &s->dest, err);
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
	return share_opened(s, i, r, err);
}

int stdio_share_again(struct stdio *io, struct err *err)
{
	int r = renew_output(io, STDOUT_FILENO, err);

	return r < 0 ? r : renew_output(io, STDERR_FILENO, err);
}

/* ---- re-exec ------------------------------------------------------------------------------- */

/* As share_output(), with the files that it opened. */
static int restore_output(
	struct stdio *io, int i, const struct spec_stream *spec, int64_t dest, struct err *err)
{
	const char *out_name = io->shared[STDOUT_FILENO].name;
	struct shared *s = &io->shared[i];
	int r;

	s->fd = spec->mode == SPEC_STREAM_NONE ? io->null_fd : own_fd(io, i);
	s->on_terminal = is_on_terminal(io, s->fd);
	s->as_stdout = spec->mode == SPEC_STREAM_STDOUT;
	s->dest = io->pump ? pump_get_dest(io->pump, dest) : NULL;
	if (spec->mode != SPEC_STREAM_FILE)
		return 0;
	s->fd = -1;
	s->per_task = fname_per_task(spec->pattern);
	if (s->per_task)
		return 0;
	r = file_expand(&io->files, spec->pattern, 0, &s->name, err);
	if (r == 0 && i == STDERR_FILENO && out_name && strcmp(s->name, out_name) == 0)
		s->as_stdout = true;
	return r;
}

int stdio_share_restore(struct stdio *io, const struct json_t *object, struct err *err)
{
	const struct spec *spec = io->spec;
	int r;

	io->shared[STDIN_FILENO].fd = input_fd(io);
	r = restore_output(
		io, STDOUT_FILENO, &spec->out, json_get_int(object, "stdout_dest", -1), err);
	return r < 0 ? r
		     : restore_output(io, STDERR_FILENO, &spec->err,
			       json_get_int(object, "own_stderr_dest", -1), err);
}

/* ---- a task's own -------------------------------------------------------------------------- */

/* The task's directory is that of its mount namespace, and the file is outside of it. */
static int make_absolute(
	const struct stdio_files *files, uint32_t rank, char **path, struct err *err)
{
	const char *cwd = file_cwd(files, rank);
	char *joined;

	if (!files->spec->mount_namespace || !cwd || **path == '/')
		return 0;
	if (asprintf(&joined, "%s/%s", cwd, *path) < 0)
		return err_set(err, -ENOMEM, "open '%s'", *path);
	free(*path);
	*path = joined;
	return 0;
}

static int give_path(struct stdio *io, int i, const struct spec_stream *spec,
	struct stdio_task *task, int flags, struct err *err)
{
	struct stdio_stream *s = &task->stream[i];
	struct ends *ends = &io->ends[task->local_id];
	const char *out_path = ends->path[STDOUT_FILENO];
	int r = file_expand(&io->files, spec->pattern, task->rank, &ends->path[i], err);

	if (r == 0)
		r = make_absolute(&io->files, task->rank, &ends->path[i], err);
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

/* Creates a pipe to or from the task; *ret_ours is the agent's end. Its inode becomes the user's,
 * so that a task can open /dev/stdout. */
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
	if (r < 0)
		return err_set(err, r, "%s: make a pipe for rank %u%s", stdio_name(i), task->rank,
			r == -EMFILE || r == -ENFILE ? " (raise the limit of open files)" : "");
	io->ends[task->local_id].fd[i] = task->stream[i].fd = take_fd(&theirs);
	*ret_ours = take_fd(&ours);
	return 0;
}

/* A master for the agent, and for the task the other end, which nobody controls yet. */
static int make_pty(struct stdio *io, int i, struct stdio_task *task, const struct terminal *like,
	int *ret_ours, struct err *err)
{
	int slave, r = pty_open(io->files.id, like, task->rank, ret_ours, &slave, err);

	if (r == 0)
		io->ends[task->local_id].fd[i] = task->stream[i].fd = slave;
	return r;
}

/* One for all three streams. */
static int give_terminal(struct stdio *io, struct stdio_task *task, int *ret_ours, struct err *err)
{
	int r = make_pty(io, STDIN_FILENO, task, &io->terminal, ret_ours, err);

	task->stream[STDOUT_FILENO] = task->stream[STDERR_FILENO] = task->stream[STDIN_FILENO];
	task->terminal = true;
	return r;
}

static int make_output(
	struct stdio *io, int i, struct stdio_task *task, int *ret_ours, struct err *err)
{
	return io->spec->unbuffered ? make_pty(io, i, task, NULL, ret_ours, err)
				    : make_pipe(io, i, task, ret_ours, err);
}

static int give_input(struct stdio *io, struct stdio_task *task, int *ret_ours, struct err *err)
{
	const struct spec_stream *spec = &io->spec->in;
	struct stdio_stream *s = &task->stream[STDIN_FILENO];

	if (spec->mode == SPEC_STREAM_FILE)
		return give_path(
			io, STDIN_FILENO, spec, task, O_RDONLY | O_CLOEXEC | O_NOCTTY, err);
	s->fd = io->shared[STDIN_FILENO].fd;
	if (io->spec->pty_count > 0)
		return 0; /* /dev/null */
	if ((spec->mode == SPEC_STREAM_RANK && spec->rank != task->rank) ||
		(spec->mode == SPEC_STREAM_ALL && task->joins))
		s->fd = io->null_fd;
	else if (io->writer || io->input)
		return make_pipe(io, STDIN_FILENO, task, ret_ours, err);
	return 0;
}

/* A file of its own, with labels: stdio_end_take() opens it. */
static int give_labelled_file(struct stdio *io, int i, const struct spec_stream *spec,
	struct stdio_task *task, int *ret_ours, struct err *err)
{
	char **paths = io->ends[task->local_id].path;
	int r = file_expand(&io->files, spec->pattern, task->rank, &paths[i], err);

	if (r < 0)
		return r;
	if (i == STDERR_FILENO && paths[1] && strcmp(paths[1], paths[2]) == 0) {
		task->stream[i] = task->stream[STDOUT_FILENO];
		return 0;
	}
	return make_output(io, i, task, ret_ours, err);
}

static int give_output(
	struct stdio *io, int i, struct stdio_task *task, int *ret_ours, struct err *err)
{
	const struct spec_stream *spec = output_spec(io, i);
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
		return give_labelled_file(io, i, spec, task, ret_ours, err);
	if (shared->per_task)
		return give_path(io, i, spec, task, file_flags(spec), err);
	if (shared->dest)
		return make_output(io, i, task, ret_ours, err);
	s->fd = shared->fd;
	return 0;
}

/* ---- the agent's ends of a task's pipes ---------------------------------------------------- */

static int take_input(struct stdio *io, uint32_t rank, int fd, struct err *err)
{
	int r = io->writer ? stdin_writer_add_take(io->writer, fd, rank)
			   : toolin_add_take(io->input, fd, rank);

	if (r == 0 && io->attach)
		r = attach_add_input(io->attach, rank, false, true);
	return r < 0 ? err_set(err, r, "standard input: add a task") : 0;
}

/* Of a task's own file, with labels. */
static int open_labelled_file(
	struct stdio *io, int i, uint32_t rank, struct pump_dest **ret_dest, struct err *err)
{
	const struct spec_stream *spec = output_spec(io, i);
	_cleanup_free_ char *name = NULL;
	int r = file_expand(&io->files, spec->pattern, rank, &name, err);

	if (r < 0)
		return r;
	r = file_open(&io->files, i, file_cwd(&io->files, rank), name, file_flags(spec), err);
	if (r >= 0)
		r = add_dest(io, i, r, true, name, ret_dest, err);
	if (r >= 0)
		pump_describe_dest(*ret_dest, i, rank);
	return r;
}

static int take_output(struct stdio *io, int i, uint32_t rank, int fd, struct err *err)
{
	_cleanup_close_ int ours = fd;
	struct pump_dest *dest = io->shared[i].dest;
	int r = 0;

	if (io->shared[i].per_task)
		r = open_labelled_file(io, i, rank, &dest, err);
	if (r < 0)
		return r;
	r = io->spec->unbuffered ? pump_add_pty_take(io->pump, take_fd(&ours), rank, i, dest, false)
				 : pump_add_source_take(io->pump, take_fd(&ours), rank, i, dest);
	if (r == 0 && io->join_copy)
		(void)pump_copy_ranks(io->pump, &rank, 1, io->join_copy, NULL);
	return r < 0 ? err_set(err, r, "%s: add a task", stdio_name(i)) : 0;
}

/* Whether the rank's terminal gets the step's standard input. */
static bool terminal_reads(const struct stdio *io, uint32_t rank)
{
	const struct spec_stream *in = &io->spec->in;

	return in->mode == SPEC_STREAM_ALL || in->mode == SPEC_STREAM_ATTACH ||
		(in->mode == SPEC_STREAM_RANK && in->rank == rank);
}

int stdio_attach_terminal(struct stdio *io, uint32_t rank)
{
	return attach_add_input(io->attach, rank, true,
		terminal_reads(io, rank) || io->spec->in.mode == SPEC_STREAM_NONE);
}

/* The pump reads the master, and the writer writes to it. */
static int take_terminal(struct stdio *io, uint32_t rank, int fd, struct err *err)
{
	_cleanup_close_ int master = fd;
	int typed = fcntl(master, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), r;

	r = typed < 0
		? -errno
		: stdin_writer_add_pty_take(io->writer, typed, rank, terminal_reads(io, rank));
	if (r == 0 && io->attach)
		r = stdio_attach_terminal(io, rank);
	if (r == 0)
		r = pump_add_pty_take(io->pump, take_fd(&master), rank, STDOUT_FILENO,
			io->shared[STDOUT_FILENO].dest, true);
	return r < 0 ? err_set(err, r, "add the pseudo-terminal of rank %u", rank) : 0;
}

int stdio_end_take(struct stdio *io, uint32_t local_id, int i, int fd, struct err *err)
{
	uint32_t rank = io->ends[local_id].rank;

	if (spec_has_pty(io->spec, rank))
		return take_terminal(io, rank, fd, err);
	return i == STDIN_FILENO ? take_input(io, rank, fd, err)
				 : take_output(io, i, rank, fd, err);
}

int stdio_end_error(const struct stdio *io, uint32_t local_id, int i, int r, struct err *err)
{
	return err_set(err, r, "%s: take the pipe of rank %u%s", stdio_name(i),
		io->ends[local_id].rank, r == -EMFILE ? " (raise the limit of open files)" : "");
}

/* ---- a task's streams ---------------------------------------------------------------------- */

static int give_streams(struct stdio *io, struct stdio_task *task, int ret_ours[3], struct err *err)
{
	int r;

	if (spec_has_pty(io->spec, task->rank))
		return give_terminal(io, task, &ret_ours[STDIN_FILENO], err);
	r = give_input(io, task, &ret_ours[STDIN_FILENO], err);
	if (r == 0)
		r = give_output(io, STDOUT_FILENO, task, &ret_ours[STDOUT_FILENO], err);
	return r < 0 ? r : give_output(io, STDERR_FILENO, task, &ret_ours[STDERR_FILENO], err);
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
	int ours[3] = {-1, -1, -1};
	int i, r;

	assert(local_id < io->ends_count);
	r = give_streams(io, &task, ours, err);
	for (i = 0; i < 3; i++) {
		if (r == 0 && ours[i] >= 0)
			r = stdio_transfer_sends(io)
				? stdio_transfer_put_take(io, local_id, i, ours[i], err)
				: stdio_end_take(io, local_id, i, ours[i], err);
		else
			(void)close_fd(ours[i]);
	}
	if (r < 0) {
		stdio_task_close(io, &task);
		return r;
	}
	*ret_task = task;
	return 0;
}

static void close_ends(struct ends *ends)
{
	int i;

	for (i = 0; i < 3; i++)
		ends->fd[i] = close_fd(ends->fd[i]);
}

/* Not the paths: a child that shares the agent's memory reads them later. */
void stdio_task_close(struct stdio *io, struct stdio_task *task)
{
	close_ends(&io->ends[task->local_id]);
	task->stream[0] = task->stream[1] = task->stream[2] = (struct stdio_stream){.fd = -1};
}

void stdio_ends_free(struct ends *ends)
{
	int i;

	close_ends(ends);
	for (i = 0; i < 3; i++)
		free(ends->path[i]);
}
