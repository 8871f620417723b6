/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/stdio/attach_impl.h"

#include <assert.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/socket.h>

#include "stepd/base/err.h"
#include "stepd/snapshot/handover.h"
#include "stepd/stdio/attach_wire.h"

/* ---- the tasks' inputs --------------------------------------------------------------------- */

int attach_add_input(struct attach *a, uint32_t rank, bool is_terminal, bool by_default)
{
	if (array_reserve(a->inputs, a->inputs_capacity, a->inputs_count + 1) < 0)
		return -ENOMEM;
	a->inputs[a->inputs_count++] = (struct attach_input){
		.rank = rank, .is_terminal = is_terminal, .by_default = by_default};
	a->terminals_count += is_terminal;
	return 0;
}

static bool is_chosen(const struct attach_input *input, const uint32_t *ranks, size_t count)
{
	return ranks ? attach_has_rank(ranks, count, input->rank) : input->by_default;
}

static bool client_types_to(const struct attach_client *client, const struct attach_input *input)
{
	return is_chosen(input, client->ranks, client->ranks_count);
}

bool attach_has_input(const struct attach *a, const struct attach_choice *choice)
{
	size_t i = 0;

	while (i < a->inputs_count && !is_chosen(&a->inputs[i], choice->ranks, choice->ranks_count))
		i++;
	return i < a->inputs_count;
}

bool attach_has_terminal(const struct attach *a, const struct attach_choice *choice)
{
	size_t i;

	for (i = 0; i < a->inputs_count; i++) {
		if (a->inputs[i].is_terminal &&
			is_chosen(&a->inputs[i], choice->ranks, choice->ranks_count))
			return true;
	}
	return false;
}

bool attach_rank_has_terminal(const struct attach *a, uint32_t rank)
{
	size_t i = a->terminals_count > 0 ? 0 : a->inputs_count;

	while (i < a->inputs_count && (a->inputs[i].rank != rank || !a->inputs[i].is_terminal))
		i++;
	return i < a->inputs_count;
}

/* ---- the clients' windows ------------------------------------------------------------------ */

/* A program that draws does so again when the size changes: where it does not, it does for a
 * moment. */
static void terminal_resize(int fd, const struct winsize *size, bool redraw)
{
	struct winsize now, other = *size;

	if (redraw && ioctl(fd, TIOCGWINSZ, &now) == 0 && now.ws_row == size->ws_row &&
		now.ws_col == size->ws_col) {
		other.ws_row++;
		(void)ioctl(fd, TIOCSWINSZ, &other);
	}
	(void)ioctl(fd, TIOCSWINSZ, size); /* EIO: it is gone */
}

/* The terminals that it types to get its size, until another client's counts. */
static void window_apply(struct attach_client *client, bool redraw)
{
	struct attach *a = client->attach;
	size_t i;
	int fd;

	TAILQ_REMOVE(&a->clients, client, list);
	TAILQ_INSERT_HEAD(&a->clients, client, list);
	for (i = 0; i < a->inputs_count; i++) {
		if (!a->inputs[i].is_terminal || !client_types_to(client, &a->inputs[i]))
			continue;
		fd = a->functions.find(a->inputs[i].rank, a->functions.userdata);
		if (fd >= 0)
			terminal_resize(fd, &client->window, redraw);
	}
}

/* The one before decides again, or nobody. */
void attach_window_lost(struct attach *a)
{
	struct attach_client *client;

	TAILQ_FOREACH(client, &a->clients, list)
	{
		if (client->has_window) {
			window_apply(client, false);
			return;
		}
	}
	a->functions.no_window(a->functions.userdata);
}

static void client_set_window(struct attach_client *client, const char *body)
{
	struct attach_window w;
	bool first = !client->has_window;

	memcpy(&w, body, sizeof(w));
	if (w.rows == 0 || w.columns == 0)
		return;
	client->has_window = true;
	client->window = (struct winsize){.ws_row = w.rows,
		.ws_col = w.columns,
		.ws_xpixel = w.x_pixels,
		.ws_ypixel = w.y_pixels};
	window_apply(client, first);
}

/* ---- input from a client ------------------------------------------------------------------- */

static const char *message_body(const struct attach_client *client)
{
	return buffer_bytes(&client->in) + sizeof(struct attach_head);
}

/* Whether there is a whole one; false, too, where it is invalid, and the client is gone then. */
static bool message_get(struct attach_client *client, struct attach_head *ret_head)
{
	bool valid;

	if (client->fd < 0 || buffer_size(&client->in) < sizeof(*ret_head))
		return false;
	memcpy(ret_head, buffer_bytes(&client->in), sizeof(*ret_head));
	switch (ret_head->kind) {
	case ATTACH_INPUT:
		valid = client->takes_input && ret_head->size <= ATTACH_INPUT_MAX;
		break;
	case ATTACH_WINDOW:
		valid = client->takes_input && ret_head->size == sizeof(struct attach_window);
		break;
	case ATTACH_INPUT_END:
		valid = client->takes_input && ret_head->size == 0;
		break;
	default:
		valid = false;
		break;
	}
	if (!valid) {
		log_debug(client->attach->log,
			"an attached client of user %lld sent an invalid record",
			(long long)client->uid);
		attach_client_fail(client);
	}
	return valid && buffer_size(&client->in) >= sizeof(*ret_head) + ret_head->size;
}

static void piece_free(struct piece *piece)
{
	ev_io_stop(piece->client->attach->loop, &piece->io);
	LIST_REMOVE(piece, list);
	(void)close_fd(piece->fd);
	free(piece);
}

void attach_client_clear_pieces(struct attach_client *client)
{
	struct piece *piece;

	while ((piece = LIST_FIRST(&client->pieces)))
		piece_free(piece);
}

/* How many bytes the rank has taken; negative: it takes no more. */
static ssize_t input_write(int fd, const char *data, size_t size)
{
	size_t at = 0;
	ssize_t n;

	while (at < size) {
		n = write(fd, data + at, size - at);
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0 && errno != EINTR)
			return -errno;
		at += n > 0 ? (size_t)n : 0;
	}
	return (ssize_t)at;
}

static void client_run(struct attach_client *client);

static void piece_on_writable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct piece *piece = io->data;
	struct attach_client *client = piece->client;
	struct attach *a = client->attach;
	struct attach_head head;
	ssize_t n;

	memcpy(&head, buffer_bytes(&client->in), sizeof(head));
	n = input_write(piece->fd, message_body(client) + piece->at, head.size - piece->at);
	piece->at += n > 0 ? (size_t)n : 0;
	if (n >= 0 && piece->at < head.size)
		return;
	piece_free(piece);
	if (LIST_EMPTY(&client->pieces)) {
		buffer_drop(&client->in, sizeof(head) + head.size);
		client_run(client);
	}
	attach_reap(a);
}

/* fd is a copy, or -1. */
static int piece_add_take(struct attach_client *client, uint32_t rank, int fd, size_t at)
{
	struct piece *piece = fd < 0 ? NULL : calloc(1, sizeof(*piece));

	if (!piece) {
		(void)close_fd(fd);
		return -ENOMEM;
	}
	*piece = (struct piece){.client = client, .rank = rank, .fd = fd, .at = at};
	LIST_INSERT_HEAD(&client->pieces, piece, list);
	ev_io_init(&piece->io, piece_on_writable, fd, EV_WRITE);
	piece->io.data = piece;
	ev_io_start(client->attach->loop, &piece->io);
	return 0;
}

/* Whether the rank takes input. */
static bool client_type(struct attach_client *client, uint32_t rank, size_t size)
{
	const struct attach_inputs *functions = &client->attach->functions;
	int fd = functions->find(rank, functions->userdata);
	ssize_t n = fd < 0 ? -1 : input_write(fd, message_body(client), size);

	/* A hole in the input would be worse than its end. */
	if (n >= 0 && (size_t)n < size &&
		piece_add_take(
			client, rank, fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), (size_t)n) < 0)
		attach_client_fail(client);
	return n >= 0;
}

static void client_type_to_all(struct attach_client *client, size_t size)
{
	const struct attach *a = client->attach;
	bool is_read = false;
	size_t i;

	if (client->has_window && TAILQ_FIRST(&a->clients) != client)
		window_apply(client, false);
	for (i = 0; i < a->inputs_count && client->fd >= 0; i++) {
		if (client_types_to(client, &a->inputs[i]))
			is_read |= client_type(client, a->inputs[i].rank, size);
	}
	if (is_read || client->fd < 0)
		return;
	client->unread_due = !client->unread_sent;
	attach_client_send_unread(client);
}

static void client_end_input(const struct attach_client *client)
{
	const struct attach *a = client->attach;
	size_t i;

	for (i = 0; i < a->inputs_count; i++) {
		if (client_types_to(client, &a->inputs[i]))
			a->functions.end(a->inputs[i].rank, a->functions.userdata);
	}
}

/* Takes messages, until one waits for a rank. */
static void client_run(struct attach_client *client)
{
	struct attach_head head;

	while (LIST_EMPTY(&client->pieces) && message_get(client, &head)) {
		if (head.kind == ATTACH_INPUT)
			client_type_to_all(client, head.size);
		else if (head.kind == ATTACH_WINDOW)
			client_set_window(client, message_body(client));
		else
			client_end_input(client);
		if (LIST_EMPTY(&client->pieces))
			buffer_drop(&client->in, sizeof(head) + head.size);
	}
	if (client->fd < 0 || !LIST_EMPTY(&client->pieces))
		ev_io_stop(client->attach->loop, &client->in_io);
	else
		ev_io_start(client->attach->loop, &client->in_io);
}

/* One read, and the messages in it. False: there was nothing. */
static bool client_read(struct attach_client *client)
{
	char bytes[sizeof(struct attach_head) + ATTACH_INPUT_MAX];
	ssize_t n = recv(client->fd, bytes, sizeof(bytes) - buffer_size(&client->in), MSG_DONTWAIT);

	if (n == 0) /* it sends no more; when it is gone hup_fd tells */
		ev_io_stop(client->attach->loop, &client->in_io);
	else if (n < 0 && errno != EAGAIN && errno != EINTR)
		attach_client_fail(client);
	else if (n > 0 && buffer_add(&client->in, bytes, (size_t)n) < 0)
		attach_client_fail(client);
	else if (n > 0)
		client_run(client);
	return n > 0;
}

void attach_client_on_readable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct attach_client *client = io->data;
	struct attach *a = client->attach;

	(void)client_read(client);
	attach_reap(a);
}

void attach_client_read_rest(struct attach_client *client)
{
	while (client->fd >= 0 && LIST_EMPTY(&client->pieces) && client_read(client))
		;
}

/* ---- re-exec ------------------------------------------------------------------------------- */

void attach_inputs_save(const struct attach *a, struct handover *h, json_t *object)
{
	json_t *inputs = handover_put_array(h, object, "inputs"), *entry;
	size_t i;

	for (i = 0; i < a->inputs_count; i++) {
		entry = handover_append_object(h, inputs);
		handover_put_int(h, entry, "rank", a->inputs[i].rank);
		handover_put_bool(h, entry, "terminal", a->inputs[i].is_terminal);
		handover_put_bool(h, entry, "default", a->inputs[i].by_default);
	}
}

int attach_inputs_restore(struct attach *a, const json_t *object)
{
	const json_t *inputs = json_get_array(object, "inputs"), *entry;
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < json_array_size(inputs); i++) {
		entry = json_array_get(inputs, i);
		r = attach_add_input(a, (uint32_t)json_get_int(entry, "rank", 0),
			json_get_bool(entry, "terminal", false),
			json_get_bool(entry, "default", true));
	}
	return r;
}

static void save_pieces(const struct attach_client *client, struct handover *h, json_t *object)
{
	json_t *pieces = handover_put_array(h, object, "pieces"), *entry;
	const struct piece *piece;

	LIST_FOREACH(piece, &client->pieces, list)
	{
		entry = handover_append_object(h, pieces);
		handover_put_int(h, entry, "rank", piece->rank);
		handover_put_fd(h, entry, "fd", piece->fd);
		handover_put_int(h, entry, "at", (int64_t)piece->at);
	}
}

void attach_client_save_input(
	const struct attach_client *client, struct handover *h, json_t *object)
{
	handover_put_bool(h, object, "input", client->takes_input);
	handover_put_bool(h, object, "unread_due", client->unread_due);
	handover_put_bool(h, object, "unread_sent", client->unread_sent);
	if (buffer_size(&client->in) > 0)
		handover_put_bytes(
			h, object, "in", buffer_bytes(&client->in), buffer_size(&client->in));
	if (client->has_window)
		handover_put_bytes(h, object, "window", &client->window, sizeof(client->window));
	save_pieces(client, h, object);
}

/* The message that ranks still wait for is the first one, and whole. */
static int restore_pieces(struct attach_client *client, const json_t *pieces)
{
	struct attach_head head = {0};
	const json_t *entry;
	size_t i, at;
	int fd;

	if (buffer_size(&client->in) >= sizeof(head))
		memcpy(&head, buffer_bytes(&client->in), sizeof(head));
	for (i = 0; i < json_array_size(pieces); i++) {
		entry = json_array_get(pieces, i);
		fd = handover_get_fd(entry, "fd");
		at = (size_t)json_get_int(entry, "at", 0);
		if (head.kind != ATTACH_INPUT || at > head.size ||
			buffer_size(&client->in) < sizeof(head) + head.size) {
			(void)close_fd(fd);
			return -EPROTO;
		}
		if (piece_add_take(client, (uint32_t)json_get_int(entry, "rank", 0), fd, at) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void restore_window(
	struct attach_client *client, const struct handover *h, const json_t *object)
{
	size_t size = 0;
	const char *bytes = handover_get_bytes(h, object, "window", &size);

	client->has_window = bytes && size == sizeof(client->window);
	if (client->has_window)
		memcpy(&client->window, bytes, size);
}

int attach_client_restore_input(
	struct attach_client *client, const struct handover *h, const json_t *object)
{
	size_t size = 0;
	const char *bytes = handover_get_bytes(h, object, "in", &size);

	client->takes_input = json_get_bool(object, "input", false);
	client->unread_due = json_get_bool(object, "unread_due", false);
	client->unread_sent = json_get_bool(object, "unread_sent", false);
	restore_window(client, h, object);
	if (bytes && buffer_add(&client->in, bytes, size) < 0)
		return -ENOMEM;
	return restore_pieces(client, json_get_array(object, "pieces"));
}
