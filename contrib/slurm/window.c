/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/window.h"

#include <assert.h>
#include <ev.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "contrib/slurm/launch.h"
#include "contrib/slurm/step_spec.h"
#include "stepd/base/parse.h"

#define SIZE_BYTES (2 * sizeof(uint16_t))

struct window {
	struct window_options options;
	int master, slave;
	int fd;         /* the connection; -1: there is none */
	in_port_t port; /* srun's, in network order; 0: it sends no sizes */
	ev_io watcher;
	uint8_t rest[SIZE_BYTES]; /* of a size that came in part */
	size_t rest_size;
};

static uint16_t get_number(const struct slurm_launch *launch, const char *name)
{
	const char *value = step_spec_getenv(launch, name);
	uint32_t n;

	return value && parse_u32(value, 0, UINT16_MAX, &n) == 0 ? (uint16_t)n : 0;
}

/* ---- the connection ------------------------------------------------------------------------ */

static void window_disconnect(struct window *w)
{
	ev_io_stop(w->options.loop, &w->watcher);
	w->fd = close_fd(w->fd);
}

static void set_size(struct window *w, const uint8_t *bytes)
{
	struct winsize size = {.ws_col = (uint16_t)(bytes[0] << 8 | bytes[1]),
		.ws_row = (uint16_t)(bytes[2] << 8 | bytes[3])};

	if (ioctl(w->master, TIOCSWINSZ, &size) == 0)
		w->options.resized(w->options.userdata);
}

/* Of several sizes the last one counts. */
static void take_sizes(struct window *w, const uint8_t *bytes, size_t size)
{
	uint8_t last[SIZE_BYTES];
	bool has_last = false;
	size_t i;

	for (i = 0; i < size; i++) {
		w->rest[w->rest_size++] = bytes[i];
		if (w->rest_size < sizeof(w->rest))
			continue;
		memcpy(last, w->rest, sizeof(last));
		w->rest_size = 0;
		has_last = true;
	}
	if (has_last)
		set_size(w, last);
}

static void window_on_io(_unused_ struct ev_loop *loop, ev_io *watcher, _unused_ int revents)
{
	struct window *w = watcher->data;
	uint8_t bytes[64 * SIZE_BYTES];
	ssize_t n;

	assert(w);
	n = recv(w->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (n > 0)
		take_sizes(w, bytes, (size_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		window_disconnect(w); /* srun has ended, or can't be reached */
}

void window_follow(struct window *w)
{
	struct sockaddr_in address = w->options.launch->srun;

	if (w->port == 0 || w->fd >= 0)
		return;
	address.sin_port = w->port;
	w->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (w->fd < 0 ||
		(connect(w->fd, (const struct sockaddr *)&address, sizeof(address)) < 0 &&
			errno != EINPROGRESS)) {
		log_warning(w->options.log,
			"can't connect to srun for the size of its window: %s, ignoring",
			strerror(errno));
		w->fd = close_fd(w->fd);
		return;
	}
	ev_io_set(&w->watcher, w->fd, EV_READ);
	ev_io_start(w->options.loop, &w->watcher);
}

/* ---- the terminal -------------------------------------------------------------------------- */

int window_get_master(const struct window *w)
{
	return w->master;
}

int window_get_slave(const struct window *w)
{
	return w->slave;
}

void window_close_slave(struct window *w)
{
	w->slave = close_fd(w->slave);
}

int window_open(const struct window_options *options, struct window **ret_window, struct err *err)
{
	_cleanup_(window_close_p) struct window *w = calloc(1, sizeof(*w));
	const struct winsize size = {
		.ws_col = get_number(options->launch, "SLURM_PTY_WIN_COL"),
		.ws_row = get_number(options->launch, "SLURM_PTY_WIN_ROW"),
	};
	int r;

	if (!w)
		return err_set(err, -ENOMEM, "make the step's terminal");
	w->options = *options;
	w->master = w->slave = w->fd = -1;
	w->port = htons(get_number(options->launch, "SLURM_PTY_PORT"));
	ev_init(&w->watcher, window_on_io);
	w->watcher.data = w;
	r = fifos_open_terminal(&w->master, &w->slave);
	/* Its settings, and the size, go to the task's terminal. */
	if (r == 0 && ioctl(w->slave, TIOCSWINSZ, &size) < 0)
		r = -errno;
	if (r == 0 && fchmod(w->slave, S_IRUSR | S_IWUSR) < 0)
		r = -errno;
	if (r < 0)
		return err_set(err, r, "make the step's terminal");
	*ret_window = take_ptr(w);
	return 0;
}

struct window *window_close(struct window *w)
{
	if (!w)
		return NULL;
	window_disconnect(w);
	window_close_slave(w);
	(void)close_fd(w->master);
	free(w);
	return NULL;
}
