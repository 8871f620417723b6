/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/stdio/note.h"

#include "stepd/snapshot/handover.h"
#include "stepd/stdio/pump.h"
#include "stepd/stdio/sink.h"

static int err_not_read(struct err *err)
{
	return err_say(err, -EAGAIN,
		"whoever reads the step's standard error takes nothing; try again later");
}

static int put_to_dest(struct note *note, const char *line, size_t size, struct err *err)
{
	int r = pump_put_note(note->dest, line, size);

	if (r == -EAGAIN)
		return err_not_read(err);
	return r < 0 ? err_say(err, r, "the step's standard error is closed") : 0;
}

static int put_to_fd(struct note *note, struct ev_loop *loop, const struct log *log,
	const char *line, size_t size, struct err *err)
{
	int r = 0;

	if (note->sink &&
		sink_failed(note->sink)) /* it may be better by now: a disk that was full */
		note->sink = sink_free(note->sink);
	if (!note->sink)
		r = sink_new(loop, log, note->fd, false, "standard error", &note->sink);
	if (r < 0)
		return err_set(err, r, "write to the step's standard error");
	if (sink_space(note->sink) < size)
		return err_not_read(err);
	sink_put(note->sink, line, size);
	sink_flush(note->sink);
	if (sink_failed(note->sink))
		return err_say(err, -EIO,
			"the step's standard error can't be written; the agent's log has the reason");
	return 0;
}

int note_put(struct note *note, struct ev_loop *loop, const struct log *log, const char *line,
	size_t size, struct err *err)
{
	switch (note->kind) {
	case NOTE_FD:
		return put_to_fd(note, loop, log, line, size, err);
	case NOTE_DEST:
		return put_to_dest(note, line, size, err);
	case NOTE_PER_TASK:
		return err_say(err, -EOPNOTSUPP,
			"the step has no standard error of its own: each task has a file");
	case NOTE_FIFO:
		return err_say(err, -EOPNOTSUPP,
			"the step's standard error is a FIFO, whose reader is to see its end with "
			"the tasks");
	default:
		return err_say(err, -EOPNOTSUPP, "the step's standard error is /dev/null");
	}
}

void note_clear(struct note *note)
{
	note->sink = sink_free(note->sink);
	if (note->own)
		note->fd = close_fd(note->fd);
	*note = (struct note)NOTE_INIT;
}

void note_save(const struct note *note, struct handover *h, struct json_t *object)
{
	handover_put_int(h, object, "note_kind", note->kind);
	if (note->kind == NOTE_FD)
		handover_put_fd(h, object, "note_fd", note->fd);
	if (note->sink && sink_pending(note->sink) > 0)
		sink_save(note->sink, h, handover_put_object(h, object, "note_sink"));
}

int note_restore(struct note *note, struct ev_loop *loop, const struct log *log,
	const struct handover *h, const struct json_t *object)
{
	const struct json_t *sink = json_get_object(object, "note_sink");
	int64_t kind = json_get_int(object, "note_kind", NOTE_NONE);

	if (kind > NOTE_NONE && kind < NOTE_KIND_MAX)
		note->kind = (enum note_kind)kind;
	if (note->kind != NOTE_FD)
		return 0;
	note->fd = handover_get_fd(object, "note_fd");
	note->own = note->fd > STDERR_FILENO;
	if (note->fd < 0)
		note->kind = NOTE_NONE;
	return sink ? sink_restore(loop, log, h, sink, &note->sink) : 0;
}
