/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A conversation's descriptor: what is read from it and written to it.
 */
#include <sys/socket.h>

#include "mpi/pmi2/service.h"

#define READ_SIZE 8192u /* on the stack, which is cleared for it: most messages have 100 bytes */

void door_close(struct door *door)
{
	struct service *s = door->service;

	ev_io_stop(s->loop, &door->readable);
	ev_io_stop(s->loop, &door->writable);
	TAILQ_REMOVE(&s->doors, door, link);
	pmi_set_data(door->task, NULL);
	door->fd = close_fd(door->fd);
	free(door);
	serve_count(s->serve, -1);
}

void door_hang_up(struct door *door, const char *how)
{
	struct pmi_task *task = door->task;
	bool is_final = !door->service->tcp || how || pmi_is_talking(task);

	door_close(door);
	if (is_final)
		pmi_hung_up(task, how);
}

/* False: the door is closed. */
static bool flush(struct door *door)
{
	struct slice out = pmi_output(door->task);
	ssize_t n;

	while (out.size > 0) {
		n = send(door->fd, out.data, out.size, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN) {
			door_hang_up(door, NULL);
			return false;
		}
		if (n < 0)
			break;
		pmi_written(door->task, (size_t)n);
		out = pmi_output(door->task);
	}
	return true;
}

void door_attend(void *userdata, struct pmi_task *task)
{
	struct door *door = pmi_get_data(task);
	struct service *s = userdata;

	if (!door || !flush(door))
		return;
	if (pmi_output(task).size > 0)
		ev_io_start(s->loop, &door->writable);
	else
		ev_io_stop(s->loop, &door->writable);
	if (pmi_has_ended(task) && pmi_output(task).size == 0)
		door_close(door);
	else if (pmi_is_full(task) || pmi_has_ended(task))
		ev_io_stop(s->loop, &door->readable);
	else
		ev_io_start(s->loop, &door->readable);
}

int door_read(struct door *door)
{
	struct pmi_task *task = door->task;
	char data[READ_SIZE];
	ssize_t n;

	n = recv(door->fd, data, sizeof(data), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		door_hang_up(door, NULL);
		return -1;
	}
	pmi_feed(task, data, (size_t)n);
	return pmi_get_data(task) == door ? 1 : -1;
}

static void on_readable(struct ev_loop *loop, ev_io *io, int revents)
{
	(void)loop;
	(void)revents;
	(void)door_read(io->data);
}

static void on_writable(struct ev_loop *loop, ev_io *io, int revents)
{
	struct door *door = io->data;

	(void)loop;
	(void)revents;
	door_attend(door->service, door->task);
}

int door_open(struct service *s, struct pmi_task *task, int fd)
{
	struct door *door = calloc(1, sizeof(*door));

	if (!door) {
		(void)close_fd(fd);
		return -ENOMEM;
	}
	*door = (struct door){.service = s, .task = task, .fd = fd};
	ev_io_init(&door->readable, on_readable, fd, EV_READ);
	ev_io_init(&door->writable, on_writable, fd, EV_WRITE);
	door->readable.data = door->writable.data = door;
	ev_io_start(s->loop, &door->readable);
	TAILQ_INSERT_TAIL(&s->doors, door, link);
	pmi_set_data(task, door);
	serve_count(s->serve, 1);
	return 0;
}
