/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/supervisor_line.h"

#include <assert.h>
#include <sys/socket.h>

#include "stepd/record/report.h"

/* A supervisor writes nothing: what it should write all the same is read and dropped. */
static void on_readable(struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct supervisor_line *line = w->data;
	char bytes[256];
	ssize_t n;

	assert(line);
	n = recv(line->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	ev_io_stop(loop, w);
	line->gone(line->userdata);
}

void supervisor_line_watch(
	struct supervisor_line *line, struct ev_loop *loop, supervisor_line_fn gone, void *userdata)
{
	line->loop = loop;
	line->gone = gone;
	line->userdata = userdata;
	if (line->fd < 0)
		return;
	ev_io_init(&line->io, on_readable, line->fd, EV_READ);
	line->io.data = line;
	ev_io_start(loop, &line->io);
}

void supervisor_line_pause(struct supervisor_line *line, bool pause)
{
	if (line->fd < 0)
		return;
	if (pause)
		ev_io_stop(line->loop, &line->io);
	else
		ev_io_start(line->loop, &line->io);
}

int supervisor_line_write(const struct supervisor_line *line, const char *text)
{
	int r = line->fd < 0 ? 0 : report_write(line->fd, text);

	return r == -EPIPE || r == -ECONNRESET ? 0 : r;
}

void supervisor_line_close(struct supervisor_line *line)
{
	if (line->loop && line->fd >= 0)
		ev_io_stop(line->loop, &line->io);
	line->fd = close_fd(line->fd);
}
