/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/stdio/stdio.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "mpi/link.h"
#include "stepd/process/process.h"
#include "stepd/snapshot/handover.h"
#include "stepd/spec/spec.h"
#include "stepd/stdio/attach.h"
#include "stepd/stdio/hold.h"
#include "stepd/stdio/input.h"
#include "stepd/stdio/output.h"
#include "stepd/stdio/pump.h"
#include "stepd/stdio/stdio_impl.h"
#include "stepd/stdio/tally.h"

/* ---- tools and the tasks' streams ---------------------------------------------------------- */

/* The reader waits for the end of each requested stream. */
static void end_missing(
	struct stdio *io, const uint32_t *ranks, size_t count, unsigned streams, const char *found)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (streams & LINK_STDOUT & ~(unsigned)found[i])
			copy_end(io->copy, ranks[i], LINK_STDOUT, 0);
		if (streams & LINK_STDERR & ~(unsigned)found[i])
			copy_end(io->copy, ranks[i], LINK_STDERR, 0);
	}
}

static int begin_copy(
	struct stdio *io, const uint32_t *ranks, size_t count, unsigned streams, int *ret_fd)
{
	_cleanup_free_ char *found = calloc(count + 1, 1);
	int r = found ? copy_open(io->copy, ret_fd) : -ENOMEM;

	if (r < 0)
		return r;
	if (pump_copy_ranks(io->pump, ranks, count, streams, found) > 0) {
		end_missing(io, ranks, ranks ? count : 0, streams, found);
		return 0;
	}
	if (*ret_fd >= 0)
		copy_close(io->copy);
	*ret_fd = close_fd(*ret_fd);
	return -EOPNOTSUPP;
}

int stdio_copy(struct stdio *io, const uint32_t *ranks, size_t count, unsigned streams, int *ret_fd)
{
	*ret_fd = -1;
	if (!io->pump)
		return streams ? -EOPNOTSUPP : 0;
	if (streams)
		return begin_copy(io, ranks, count, streams, ret_fd);
	(void)pump_copy_ranks(io->pump, ranks, count, 0, NULL);
	if (!pump_copies(io->pump))
		copy_close(io->copy);
	return 0;
}

bool stdio_can_copy(const struct stdio *io)
{
	return io->pump;
}

int stdio_join_copy(struct stdio *io, unsigned streams, int *ret_fd)
{
	*ret_fd = -1;
	io->join_copy = io->pump ? streams : 0;
	return io->join_copy ? copy_open(io->copy, ret_fd) : 0;
}

void stdio_copy_stop(struct stdio *io)
{
	if (io->copy)
		copy_close(io->copy);
	if (io->pump)
		(void)pump_copy_ranks(io->pump, NULL, 0, 0, NULL);
}

void stdio_input_on_done(struct stdio *io, stdio_input_fn done, void *userdata)
{
	if (io->input)
		toolin_on_done(io->input, done, userdata);
}

int stdio_input(
	struct stdio *io, uint32_t rank, int64_t id, const void *data, size_t size, bool end)
{
	const struct spec_stream *in = &io->spec->in;

	switch (in->mode) {
	case SPEC_STREAM_TOOL:
		return io->input ? toolin_put(io->input, rank, id, data, size, end) : -EPIPE;
	case SPEC_STREAM_ALL:
	case SPEC_STREAM_INHERIT:
		return -EBUSY;
	case SPEC_STREAM_RANK:
		return in->rank == rank ? -EBUSY : -EOPNOTSUPP;
	default:
		return -EOPNOTSUPP;
	}
}

static void tools_save(const struct stdio *io, struct handover *h, struct json_t *object)
{
	if (io->copy)
		copy_save(io->copy, h, handover_put_object(h, object, "copy"));
	if (io->input)
		toolin_save(io->input, h, handover_put_object(h, object, "input"));
}

static int tools_restore(struct stdio *io, const struct handover *h, const struct json_t *object)
{
	const struct json_t *copy = json_get_object(object, "copy");
	const struct json_t *input = json_get_object(object, "input");
	int r = 0;

	/* An older agent made no copies: there is nothing to resume, but copying can start. */
	if (copy)
		r = copy_restore(io->loop, io->log, copy, &io->copy);
	else if (json_get_object(object, "pump"))
		r = copy_new(io->loop, io->log, &io->copy);
	if (r == 0 && input)
		r = toolin_restore(io->loop, h, input, &io->input);
	return r;
}

/* ---- clients that are attached ------------------------------------------------------------- */

static int attach_find_input(uint32_t rank, void *userdata)
{
	const struct stdio *io = userdata;

	assert(io);
	if (io->writer)
		return stdin_writer_find(io->writer, rank);
	return io->input ? toolin_find(io->input, rank) : -1;
}

/* Only where clients are the input's only source. */
static void attach_end_input(uint32_t rank, void *userdata)
{
	const struct stdio *io = userdata;

	assert(io);
	if (io->spec->in.mode == SPEC_STREAM_ATTACH && io->input)
		toolin_end(io->input, rank);
}

static void attach_no_window(void *userdata)
{
	assert(userdata);
	stdio_resize_terminal(userdata);
}

static void on_attach_finished(void *userdata)
{
	struct stdio *io = userdata;

	io->done(io->userdata); /* may have freed io */
}

static int clients_new(struct stdio *io)
{
	const struct attach_inputs inputs = {
		.find = attach_find_input,
		.end = attach_end_input,
		.no_window = attach_no_window,
		.userdata = io,
	};

	return attach_new(io->loop, io->log, io->spec->attach_ring_bytes, &inputs, &io->attach);
}

/* A dead agent's terminal is its shell's now, and only clients can type to the tasks' terminals. So
 * an adopter has clients also where the step was not attachable. */
static int clients_adopt(struct stdio *io)
{
	uint32_t i;
	int r = clients_new(io);

	for (i = 0; r == 0 && i < io->spec->local_ntasks; i++) {
		if (spec_has_pty(io->spec, io->spec->ranks[i]))
			r = stdio_attach_terminal(io, io->spec->ranks[i]);
	}
	return r;
}

static int clients_restore(struct stdio *io, const struct handover *h, const struct json_t *object)
{
	int r;

	if (!object && handover_is_held(h) && io->ptys > 0)
		return clients_adopt(io);
	r = object || io->spec->attachable ? clients_new(io) : 0;
	return r == 0 && object ? attach_restore(io->attach, h, object, on_attach_finished, io) : r;
}

static int check_attach(const struct stdio *io, const struct attach_choice *choice, struct err *err)
{
	unsigned limit;

	if (!io->attach)
		return err_set_text(err, -EOPNOTSUPP,
			"clients can't be attached to this step's streams: it was started without "
			"--attachable");
	if (choice->input && !attach_has_input(io->attach, choice))
		return err_set_text(err, -EOPNOTSUPP,
			"the standard input of these tasks is a file or /dev/null, or another's: "
			"attach without input (a step with --input attach takes it from clients)");
	limit = attach_admit(io->attach, choice->uid);
	if (limit > 0)
		return err_set_text(
			err, -EUSERS, "%u clients are attached, and no more may be", limit);
	return 0;
}

int stdio_attach(
	struct stdio *io, const struct attach_choice *choice, bool *ret_terminal, struct err *err)
{
	int r = check_attach(io, choice, err);

	if (r == 0)
		*ret_terminal = attach_has_terminal(io->attach, choice);
	return r;
}

int stdio_attach_take(struct stdio *io, int fd, const struct attach_choice *choice)
{
	return attach_client_take(io->attach, fd, choice);
}

/* ---- the agent's terminal ------------------------------------------------------------------ */

static void find_ptys(struct stdio *io)
{
	uint32_t i;

	for (i = 0; i < io->spec->local_ntasks; i++)
		io->ptys += spec_has_pty(io->spec, io->spec->ranks[i]);
	if (io->ptys > 0)
		terminal_find(&io->terminal);
}

static void note_raw(struct stdio *io)
{
	int i;

	for (i = STDOUT_FILENO; i <= STDERR_FILENO; i++) {
		if (io->shared[i].dest && io->shared[i].on_terminal)
			pump_set_crlf(io->shared[i].dest, io->terminal.raw);
	}
}

/* Also before every other end: the step may last longer than what reads the terminal, and only a
 * terminal that is not raw makes signals of ^C and ^Z. */
static void release_terminal(struct stdio *io)
{
	if (!io->terminal.raw)
		return;
	terminal_release(&io->terminal);
	note_raw(io);
}

void stdio_resize_terminal(struct stdio *io)
{
	struct winsize size;

	if (io->ptys > 0 && io->writer && terminal_get_size(&io->terminal, &size))
		stdin_writer_resize(io->writer, &size);
}

void stdio_pause_terminal(struct stdio *io, bool pause)
{
	if (!io->types || !io->writer || !stdin_writer_is_read(io->writer))
		return;
	if (pause) {
		stdin_writer_pause(io->writer, true);
		release_terminal(io);
		return;
	}
	if (!terminal_take(&io->terminal))
		return; /* a shell has it: until its fg */
	note_raw(io);
	stdio_resize_terminal(io);
	stdin_writer_pause(io->writer, false);
}

static void on_terminal(uint32_t rank, bool ended, void *userdata)
{
	struct stdio *io = userdata;

	if (!io->writer)
		return;
	if (!ended) {
		stdin_writer_pty_output(io->writer, rank);
		return;
	}
	stdin_writer_pty_ended(io->writer, rank);
	if (!stdin_writer_is_read(io->writer))
		release_terminal(io);
}

/* ---- life ---------------------------------------------------------------------------------- */

/* Entries for count tasks; those from first on have these ranks. */
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

static struct stdio *stdio_new(const struct spec *spec, const struct identity *id,
	struct ev_loop *loop, const struct log *log)
{
	struct stdio *io = calloc(1, sizeof(*io));
	int i;

	if (!io)
		return NULL;
	io->spec = spec;
	io->files = (struct stdio_files){.spec = spec, .id = id};
	io->loop = loop;
	io->log = log;
	io->null_fd = io->note.fd = -1;
	io->terminal = (struct terminal)TERMINAL_INIT;
	io->terminal.by_clients = spec->in.mode == SPEC_STREAM_ATTACH;
	for (i = 0; i < 3; i++)
		io->shared[i].fd = io->shared[i].owned_fd = -1;
	return io;
}

static int stdio_prepare(struct stdio *io, const char *cwd, struct err *err)
{
	const struct spec *spec = io->spec;
	int r;

	io->files.cwd = cwd ? strdup(cwd) : NULL;
	find_ptys(io);
	r = cwd && !io->files.cwd ? -ENOMEM : grow_ends(io, 0, spec->ranks, spec->local_ntasks);
	if (r == 0 && spec->attachable)
		r = clients_new(io);
	if (r == 0 && (spec->label || spec->unbuffered || stdio_carries_all(io)))
		r = copy_new(io->loop, io->log, &io->copy);
	if (r == 0 && io->copy)
		r = pump_new(io->loop, io->log, io->copy, spec->ntasks ? spec->ntasks - 1 : 0,
			!spec->label, &io->pump);
	if (r == 0 && io->ptys > 0)
		pump_on_terminal(io->pump, on_terminal, io);
	if (r == 0 && io->pump)
		pump_set_attach(io->pump, io->attach);
	if (r == 0 && stdio_is_fed(spec) && io->ptys == 0)
		r = toolin_new(io->loop, &io->input);
	if (r < 0)
		return err_set(err, r, "prepare the tasks' standard streams");
	return open_null(io, err);
}

/* Whether the stream of each task is a pipe with an end in the agent. */
static bool is_piped(const struct stdio *io, int i)
{
	const struct shared *s = &io->shared[i];

	if (i == STDIN_FILENO && io->ptys > 0)
		return false; /* masters, which are counted as standard output */
	if (i == STDIN_FILENO)
		return io->input || (io->writer && io->spec->in.mode == SPEC_STREAM_ALL);
	return io->pump && !s->as_stdout && (s->dest || s->per_task);
}

/* Better to report before the first pipe that there are not enough descriptors for thousands of
 * tasks.
 */
static int check_descriptors(const struct stdio *io, struct err *err)
{
	uint64_t tasks = io->spec->local_ntasks, needed = (uint64_t)io->null_fd + 1;
	struct rlimit limit;
	int i;

	for (i = 0; i < 3; i++)
		needed += is_piped(io, i) ? tasks : 0;
	needed += io->ptys;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || needed <= limit.rlim_cur)
		return 0;
	return err_set_text(err, -EMFILE,
		"the streams of %llu tasks, which the agent carries, need %llu open files, and it may "
		"have %llu (raise the limit, ulimit -Hn)",
		(unsigned long long)tasks, (unsigned long long)needed,
		(unsigned long long)limit.rlim_cur);
}

int stdio_open(const struct spec *spec, const struct identity *id, const char *cwd, mode_t mask,
	struct ev_loop *loop, const struct log *log, struct stdio **ret_stdio, struct err *err)
{
	_cleanup_stdio_ struct stdio *io = stdio_new(spec, id, loop, log);
	int r;

	if (!io)
		return err_set(err, -ENOMEM, "prepare the tasks' standard streams");
	io->files.mask = mask;
	r = stdio_prepare(io, cwd, err);
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
	return io->pump || io->writer || io->input;
}

/* ---- lines of the agent's own -------------------------------------------------------------- */

/* The agent's own lines go to the step's standard error if there is a single one: the agent's, a
 * file that the tasks share, or the labelled lines' destination. Files of single tasks get none:
 * the offsets are the tasks', and the paths the user's. */

static bool is_regular(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/* Finds the step's standard error, if there is one. */
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

static int err_not_read(struct err *err)
{
	return err_set_text(err, -EAGAIN,
		"the reader of the step's standard error reads nothing; try again later");
}

static int note_to_dest(struct pump_dest *dest, const char *line, size_t size, struct err *err)
{
	int r = pump_put_note(dest, line, size);

	if (r == -EAGAIN)
		return err_not_read(err);
	if (r == -ENOSPC)
		return err_set_text(err, r, "the step's standard error is full");
	return r < 0 ? err_set_text(err, r, "the step's standard error is closed") : 0;
}

static int note_to_fd(struct stdio *io, const char *line, size_t size, struct err *err)
{
	struct note *note = &io->note;
	int r = 0;

	if (note->sink && sink_failed(note->sink)) /* it may work by now: a disk that was full */
		note->sink = sink_free(note->sink);
	if (!note->sink)
		r = sink_new(io->loop, io->log, note->fd, false, "standard error", &note->sink);
	if (r < 0)
		return err_set(err, r, "write to the step's standard error");
	if (sink_space(note->sink) < size)
		return err_not_read(err);
	sink_put(note->sink, line, size);
	sink_flush(note->sink);
	if (sink_failed(note->sink) || sink_is_full(note->sink))
		return err_set_text(err, -EIO,
			"the step's standard error can't be written; the agent's log has the reason");
	return 0;
}

int stdio_note(struct stdio *io, const char *line, size_t size, struct err *err)
{
	switch (io->note.kind) {
	case NOTE_FD:
		return note_to_fd(io, line, size, err);
	case NOTE_DEST:
		return note_to_dest(io->note.dest, line, size, err);
	case NOTE_PER_TASK:
		return err_set_text(err, -EOPNOTSUPP,
			"the step has no standard error of its own: each task has a file");
	case NOTE_FIFO:
		return err_set_text(err, -EOPNOTSUPP,
			"the step's standard error is a FIFO, whose reader is to see its end with "
			"the tasks");
	default:
		return err_set_text(err, -EOPNOTSUPP, "the step's standard error is /dev/null");
	}
}

static void note_save(const struct note *note, struct handover *h, struct json_t *object)
{
	handover_put_int(h, object, "note_kind", note->kind);
	if (note->kind == NOTE_FD)
		handover_put_fd(h, object, "note_fd", note->fd);
	if (note->sink && sink_pending(note->sink) > 0 && !handover_is_held(h))
		sink_save(note->sink, h, handover_put_object(h, object, "note_sink"));
}

static int note_restore(struct stdio *io, const struct handover *h, const struct json_t *object)
{
	const struct json_t *sink = json_get_object(object, "note_sink");
	int64_t kind = json_get_int(object, "note_kind", NOTE_NONE);
	struct note *note = &io->note;

	if (kind > NOTE_NONE && kind < NOTE_KIND_MAX)
		note->kind = (enum note_kind)kind;
	if (note->kind != NOTE_FD)
		return 0;
	note->fd = handover_get_fd(object, "note_fd");
	note->own = note->fd > STDERR_FILENO;
	if (note->fd < 0)
		note->kind = NOTE_NONE;
	return sink ? sink_restore(io->loop, io->log, h, sink, &note->sink) : 0;
}

/* ---- the tasks run ------------------------------------------------------------------------- */

void stdio_start(struct stdio *io)
{
	int i;

	io->started = true;
	choose_note(io);
	for (i = 0; i < 3; i++)
		io->shared[i].owned_fd = close_fd(io->shared[i].owned_fd);
	if (io->types && io->writer)
		stdin_writer_pause(io->writer, true);
	stdio_pause_terminal(io, false);
	if (io->writer)
		stdin_writer_start(io->writer);
	if (io->pump)
		pump_start(io->pump);
}

/* ---- tasks that join ----------------------------------------------------------------------- */

int stdio_join(
	struct stdio *io, uint32_t first, const uint32_t *ranks, uint32_t count, struct err *err)
{
	if (!io->files.cwd)
		return err_set_text(err, -EOPNOTSUPP,
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

/* ---- the end ------------------------------------------------------------------------------- */

static void on_pumped(void *userdata)
{
	struct stdio *io = userdata;

	stdio_copy_stop(io); /* no more input */
	if (io->hold)
		hold_begin_end(io->hold); /* readers get the end of the output with ours */
	if (io->attach)
		attach_finish(io->attach, on_attach_finished, io);
	else
		on_attach_finished(io);
}

void stdio_finish(struct stdio *io, stdio_done_fn done, void *userdata)
{
	assert(done);
	io->done = done;
	io->userdata = userdata;
	release_terminal(io);
	io->input_dropped = stdio_get_input_dropped(io);
	io->writer = stdin_writer_free(io->writer);
	io->input = toolin_free(io->input);
	if (io->pump)
		pump_finish(io->pump, on_pumped, io);
	else
		done(userdata);
}

void stdio_each_loss(const struct stdio *io, stdio_loss_fn fn, void *userdata)
{
	if (io->pump)
		pump_each_loss(io->pump, fn, userdata);
}

static void on_loss(_unused_ const struct sink_loss *loss, void *userdata)
{
	*(bool *)userdata = true;
}

bool stdio_has_lost(const struct stdio *io)
{
	bool found = io->lost;

	stdio_each_loss(io, on_loss, &found);
	return found;
}

uint64_t stdio_get_input_dropped(const struct stdio *io)
{
	return io->input_dropped + (io->writer ? stdin_writer_get_dropped(io->writer) : 0);
}

struct stdio *stdio_free(struct stdio *io)
{
	uint32_t i;

	if (!io)
		return NULL;
	io->hold = hold_end(io->hold);
	stdio_transfer_free(io);
	terminal_release(&io->terminal);
	for (i = 0; i < io->ends_count; i++)
		stdio_ends_free(&io->ends[i]);
	for (i = 0; i < 3; i++) {
		(void)close_fd(io->shared[i].owned_fd);
		free(io->shared[i].name);
	}
	(void)sink_free(io->note.sink);
	if (io->note.own)
		(void)close_fd(io->note.fd);
	(void)pump_free(io->pump);
	(void)stdin_writer_free(io->writer);
	(void)copy_free(io->copy); /* after the pump, which uses these */
	(void)attach_free(io->attach);
	(void)tally_free(io->tally);
	(void)toolin_free(io->input);
	(void)close_fd(io->null_fd);
	free(io->ends);
	free(io->files.cwd);
	free(io);
	return NULL;
}

/* ---- for an adopter ------------------------------------------------------------------------ */

static void stdio_on_closing(int fd, void *userdata)
{
	struct stdio *io = userdata;

	if (io->hold)
		hold_drop(io->hold, fd);
}

/* New counts are made for each set: it may have more streams than the one before. */
static int give_to_holder(struct stdio *io, struct err *err)
{
	_cleanup_handover_ struct handover *h = hold_document(io->hold);
	_cleanup_tally_ struct tally *tally = NULL;
	int r;

	if (!h)
		return err_set(err, -ENOMEM, "hold the tasks' streams for an adopter");
	stdio_save(io, h, handover_put_object(h, handover_root(h), "stdio"));
	r = tally_new(pump_count_sources(io->pump), pump_count_dests(io->pump), io->tally, &tally);
	if (r < 0)
		return err_set(err, r, "count the tasks' output for an adopter");
	r = hold_give(io->hold, h, tally->fd, err);
	if (r < 0)
		return r;
	pump_set_tally(io->pump, tally);
	(void)tally_free(io->tally);
	io->tally = take_ptr(tally);
	pump_on_closing(io->pump, stdio_on_closing, io);
	return 0;
}

static void end_holding(struct stdio *io, const struct err *why)
{
	log_warning(io->log,
		"%s: if this agent is killed, its tasks' streams end with it, ignoring", why->text);
	io->hold = hold_end(io->hold);
	if (io->pump)
		pump_set_tally(io->pump, NULL);
	io->tally = tally_free(io->tally);
}

void stdio_hold_joined(struct stdio *io)
{
	struct err err = ERR_INIT;

	if (io->hold && give_to_holder(io, &err) < 0)
		end_holding(io, &err);
}

void stdio_hold(struct stdio *io, int dir_fd, const char *label)
{
	struct err err = ERR_INIT;
	int r;

	if (!io->pump)
		return;
	r = hold_start(dir_fd, label, &io->hold, &err);
	if (r == -ENOSYS)
		log_debug(io->log, "%s", err.text); /* Linux before 5.3 */
	else if (r < 0)
		end_holding(io, &err);
	stdio_hold_joined(io);
}

pid_t stdio_get_holder(const struct stdio *io)
{
	return io->hold ? hold_get_child(io->hold) : 0;
}

static int go_on_from(struct stdio *io, int counts_fd_take, struct err *err)
{
	_cleanup_tally_ struct tally *left = NULL;
	int r = tally_open_take(counts_fd_take, &left);

	if (r < 0)
		return err_set(err, r, "read the counts of the tasks' output");
	r = give_to_holder(io, err);
	if (r == 0)
		io->lost = pump_recover(io->pump, left);
	return r;
}

/* The holder has the dead agent's descriptors until it gets ours: an adopter that is killed here
 * has changed nothing. */
int stdio_adopt(const struct spec *spec, const struct identity *id, struct ev_loop *loop,
	const struct log *log, int dir_fd, const char *label, struct stdio **ret_stdio,
	struct err *err)
{
	_cleanup_stdio_ struct stdio *io = NULL;
	_cleanup_handover_ struct handover *h = NULL;
	_cleanup_hold_ struct hold *hold = NULL;
	const json_t *object;
	int counts_fd, r;

	r = hold_take(dir_fd, label, &hold, &h, &counts_fd, err);
	if (r < 0)
		return r;
	object = json_get_object(handover_root(h), "stdio");
	r = stdio_restore(spec, id, loop, log, h, object, NULL, NULL, &io, err);
	if (r == 0 && !io->pump)
		r = handover_err_part("tasks' standard streams", err);
	if (r < 0) {
		(void)close_fd(counts_fd);
		return r;
	}
	io->hold = take_ptr(hold);
	r = go_on_from(io, counts_fd, err);
	if (r < 0)
		return r;
	*ret_stdio = take_ptr(io);
	return 0;
}

/* ---- re-exec ------------------------------------------------------------------------------- */

static void hold_state_save(const struct stdio *io, struct handover *h, struct json_t *object)
{
	if (!io->hold || !io->tally)
		return;
	hold_save(io->hold, h, handover_put_object(h, object, "hold"));
	handover_put_fd(h, object, "tally_fd", io->tally->fd);
}

static int hold_state_restore(
	struct stdio *io, const struct handover *h, const struct json_t *object, struct err *err)
{
	const struct json_t *hold = json_get_object(object, "hold");
	int fd = handover_get_fd(object, "tally_fd"), r;

	if (!hold || !io->pump || fd < 0)
		return 0;
	r = tally_open_take(fd, &io->tally);
	if (r < 0)
		return err_set(err, r, "take over the counts of the tasks' output");
	io->hold = hold_restore(h, hold);
	if (!io->hold)
		return err_set(err, -ENOMEM, "restore the tasks' standard streams");
	pump_set_tally(io->pump, io->tally);
	pump_on_closing(io->pump, stdio_on_closing, io);
	return 0;
}

/* Of the launch only the part for tasks that join the step: not the tasks' ends, nor /dev/null. */
void stdio_save(const struct stdio *io, struct handover *h, struct json_t *object)
{
	handover_put_text(h, object, "cwd", io->files.cwd);
	handover_put_int(h, object, "umask", io->files.mask);
	if (io->pump) {
		handover_put_int(
			h, object, "stdout_dest", pump_number_of(io->shared[STDOUT_FILENO].dest));
		handover_put_int(h, object, "own_stderr_dest",
			pump_number_of(io->shared[STDERR_FILENO].dest));
		handover_put_int(h, object, "stderr_dest", pump_number_of(io->note.dest));
		pump_save(io->pump, h, handover_put_object(h, object, "pump"));
	}
	if (io->attach)
		attach_save(io->attach, h, handover_put_object(h, object, "attach"));
	if (io->writer && (io->ptys > 0 || !handover_is_held(h)))
		stdin_writer_save(io->writer, h, handover_put_object(h, object, "feed"));
	handover_put_int(h, object, "input_dropped", (int64_t)io->input_dropped);
	note_save(&io->note, h, object);
	if (handover_is_held(h))
		return; /* a pipe of standard input ends with the agent, as a tool's does */
	if (io->ptys > 0)
		terminal_save(&io->terminal, h, handover_put_object(h, object, "terminal"));
	tools_save(io, h, object);
	hold_state_save(io, h, object);
}

static int restore_files(
	struct stdio *io, const struct handover *h, const struct json_t *object, struct err *err)
{
	int r;

	io->started = true;
	io->files.mask = (mode_t)json_get_int(object, "umask", 022);
	if (handover_copy_text(h, object, "cwd", &io->files.cwd) < 0)
		return err_set(err, -ENOMEM, "restore the tasks' standard streams");
	r = open_null(io, err);
	return r < 0 ? r : stdio_share_restore(io, object, err);
}

static void restore_terminal(
	struct stdio *io, const struct handover *h, const struct json_t *object)
{
	const struct spec_stream *in = &io->spec->in;

	if (object)
		terminal_restore(&io->terminal, h, object);
	if (handover_is_held(h)) /* an adopter's terminal is not the step's */
		io->terminal = (struct terminal)TERMINAL_INIT;
	io->types = terminal_is_input(&io->terminal) && in->mode != SPEC_STREAM_NONE &&
		in->mode != SPEC_STREAM_ATTACH;
	if (io->pump)
		pump_on_terminal(io->pump, on_terminal, io);
}

static int restore_parts(struct stdio *io, const struct handover *h, const struct json_t *object)
{
	const struct json_t *pump = json_get_object(object, "pump");
	const struct json_t *writer = json_get_object(object, "feed");
	struct stdin_overflow overflow;
	int r = tools_restore(io, h, object);

	if (r == 0)
		r = clients_restore(io, h, json_get_object(object, "attach"));
	if (r == 0 && pump)
		r = pump_restore(
			io->loop, io->log, io->copy, io->attach, h, pump, on_pumped, io, &io->pump);
	stdio_input_overflow(io, &overflow);
	if (r == 0 && writer)
		r = stdin_writer_restore(io->loop, io->log, h, writer, &overflow, &io->writer);
	io->input_dropped = (uint64_t)json_get_int(object, "input_dropped", 0);
	if (r == 0 && io->ptys > 0)
		restore_terminal(io, h, json_get_object(object, "terminal"));
	if (r == 0)
		r = note_restore(io, h, object);
	if (r < 0)
		return r;
	if (pump)
		io->note.dest = pump_get_dest(io->pump, json_get_int(object, "stderr_dest", -1));
	return io->note.kind == NOTE_DEST && !io->note.dest ? -EPROTO : 0;
}

int stdio_restore(const struct spec *spec, const struct identity *id, struct ev_loop *loop,
	const struct log *log, const struct handover *h, const struct json_t *object,
	stdio_done_fn done, void *userdata, struct stdio **ret_stdio, struct err *err)
{
	_cleanup_stdio_ struct stdio *io = stdio_new(spec, id, loop, log);
	int r;

	if (!io)
		return err_set(err, -ENOMEM, "restore the tasks' standard streams");
	io->done = done;
	io->userdata = userdata;
	find_ptys(io);
	r = restore_parts(io, h, object);
	if (r < 0)
		return r == -EPROTO ? handover_err_part("tasks' standard streams", err)
				    : err_set(err, r, "restore the tasks' standard streams");
	r = restore_files(io, h, object, err);
	if (r == 0) /* last: a failure must leave the holder alone */
		r = hold_state_restore(io, h, object, err);
	if (r < 0)
		return r;
	*ret_stdio = take_ptr(io);
	return 0;
}
