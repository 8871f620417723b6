/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/stdio/stdio.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "stepd/process/stdfd.h"
#include "stepd/spec/spec.h"
#include "stepd/stdio/feed.h"
#include "stepd/stdio/pump.h"
#include "stepd/stdio/stdio_impl.h"
#include "stepd/stdio/toolin.h"

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

int stdio_open_null(struct stdio *io, struct err *err)
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
	return stdio_open_null(io, err);
}

/* Whether the stream of each task is a pipe with an end in the agent. */
static bool is_piped(const struct stdio *io, int i)
{
	const struct shared *s = &io->shared[i];

	if (i == STDIN_FILENO)
		return io->input || (io->feed && io->spec->in.mode == SPEC_STREAM_ALL);
	return io->pump && !s->as_stdout && (s->dest || s->per_task);
}

/* Thousands of tasks that can't all have their pipes are better told before the first is made. */
static int check_descriptors(const struct stdio *io, struct err *err)
{
	uint64_t tasks = io->spec->local_ntasks, needed = (uint64_t)io->null_fd + 1;
	struct rlimit limit;
	int i;

	for (i = 0; i < 3; i++)
		needed += is_piped(io, i) ? tasks : 0;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || needed <= limit.rlim_cur)
		return 0;
	return err_say(err, -EMFILE,
		"the streams of %llu tasks, which the agent carries, need %llu open files, and it may "
		"have %llu (raise the limit, ulimit -Hn)",
		(unsigned long long)tasks, (unsigned long long)needed,
		(unsigned long long)limit.rlim_cur);
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
		r = stdio_share(io, err);
	if (r == 0)
		r = check_descriptors(io, err);
	if (r < 0)
		return r;
	*ret_stdio = take_ptr(io);
	return 0;
}

bool stdio_carries(const struct stdio *io)
{
	return io->pump || io->feed || io->input;
}

static bool is_regular(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/* Where the step has its standard error, if it has one. */
static void choose_note(struct stdio *io)
{
	struct shared *s = &io->shared[STDERR_FILENO];

	if (s->as_stdout)
		s = &io->shared[STDOUT_FILENO];
	if (s->per_task) {
		io->note.kind = NOTE_PER_TASK;
	} else if (stdio_is_dev_null(s->fd)) {
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

int stdio_join(
	struct stdio *io, uint32_t first, const uint32_t *ranks, uint32_t count, struct err *err)
{
	if (!io->files.cwd)
		return err_say(err, -EOPNOTSUPP,
			"this agent does not know enough of the step's standard streams: it has taken "
			"the step over from one of an older version");
	if (grow_ends(io, first, ranks, count) < 0)
		return err_set(err, -ENOMEM, "prepare the tasks' standard streams");
	return stdio_share_again(io, err);
}

void stdio_join_end(struct stdio *io)
{
	int i;

	io->join_copy = 0;
	for (i = 0; i < 3; i++)
		io->shared[i].owned_fd = close_fd(io->shared[i].owned_fd);
}

/* ---- the end --------------------------------------------------------------------------------- */

void stdio_on_pumped(void *userdata)
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
		pump_finish(io->pump, stdio_on_pumped, io);
	else
		done(userdata);
}

bool stdio_has_lost(const struct stdio *io)
{
	return io->pump && pump_has_lost(io->pump);
}

struct stdio *stdio_free(struct stdio *io)
{
	uint32_t i;

	if (!io)
		return NULL;
	for (i = 0; i < io->ends_count; i++)
		stdio_ends_free(&io->ends[i]);
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
