/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The streams of a step whose agent goes on as a new program.
 */
#include "stepd/stdio/stdio_impl.h"

#include "stepd/snapshot/handover.h"
#include "stepd/stdio/feed.h"
#include "stepd/stdio/pump.h"

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

static int restore_files(
	struct stdio *io, const struct handover *h, const struct json_t *object, struct err *err)
{
	int r;

	io->started = true;
	io->files.mask = (mode_t)json_get_int(object, "umask", 022);
	if (handover_copy_text(h, object, "cwd", &io->files.cwd) < 0)
		return err_set(err, -ENOMEM, "go on with the tasks' standard streams");
	r = stdio_open_null(io, err);
	return r < 0 ? r : stdio_share_restore(io, object, err);
}

static int restore_parts(struct stdio *io, const struct handover *h, const struct json_t *object)
{
	const struct json_t *pump = json_get_object(object, "pump");
	const struct json_t *feed = json_get_object(object, "feed");
	int r = 0;

	if (pump)
		r = pump_restore(io->loop, io->log, h, pump, stdio_on_pumped, io, &io->pump);
	if (r == 0 && feed)
		r = feed_restore(io->loop, io->log, h, feed, &io->feed);
	if (r == 0)
		r = note_restore(&io->note, io->loop, io->log, h, object);
	if (r == 0)
		r = stdio_tools_restore(io, h, object);
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
	r = restore_files(io, h, object, err);
	if (r < 0)
		return r;
	*ret_stdio = take_ptr(io);
	return 0;
}
