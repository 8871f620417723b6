/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One task's streams: its ends of pipes, and the paths that it opens itself.
 */
#include "stepd/stdio/stdio_impl.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>

#include "stepd/process/identity.h"
#include "stepd/process/stdfd.h"
#include "stepd/spec/spec.h"
#include "stepd/stdio/feed.h"
#include "stepd/stdio/pump.h"
#include "stepd/stdio/toolin.h"

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
	r = stdio_add_dest(io, i, fd, true, paths[i], &dest, err);
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

static void close_ends(struct ends *ends)
{
	int i;

	for (i = 0; i < 3; i++)
		ends->fd[i] = close_fd(ends->fd[i]);
}

/* Not the paths: a child that shares our memory reads them later. */
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
