/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/across/conns.h"

#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "stepd/base/err.h"
#include "stepd/base/hostlist.h"
#include "stepd/base/parse.h"
#include "stepd/base/proc.h"

#define STARTS_MAX          64u /* commands under way whose relays are awaited */
#define PIPE_SIZE_USUAL     65536u
#define PIPE_SIZE_MAX       (256u << 10) /* bytes in one channel */
#define PIPES_SIZE          (8u << 20)   /* in all */
#define CHANNEL_TIMEOUT_MS  5000         /* for a launcher whose channel has ended */
#define LAUNCHER_TIMEOUT_MS 1000         /* for a channel whose launcher has */

/* ---- the end of one ------------------------------------------------------------------------ */

/* Once both have ended. */
static void conn_settle(struct conn *c)
{
	char status[STATUS_TEXT_SIZE], why[160];

	if (!c->exited || c->channel)
		return;
	if (*c->fault)
		(void)snprintf(why, sizeof(why), "%s", c->fault);
	else
		(void)snprintf(why, sizeof(why), "its launcher %s",
			status_text(c->wait_status, status, sizeof(status)));
	c->conns->events->ended(c, why);
}

/* Of a channel whose launcher has ended. */
static void conn_await_rest(struct conn *c)
{
	ev_timer_set(&c->timeout, LAUNCHER_TIMEOUT_MS / 1e3, 0.);
	ev_timer_start(c->conns->loop, &c->timeout);
}

static bool conn_is_paused(const struct conn *c)
{
	const struct conns_events *events = c->conns->events;

	return events->paused && events->paused(c);
}

static void on_conn_timeout(struct ev_loop *loop, ev_timer *w, _unused_ int revents)
{
	struct conn *c = w->data;

	assert(c);
	if (c->exited && conn_is_paused(c)) {
		conn_await_rest(c); /* nothing is read while our own readers read nothing */
		return;
	}
	if (c->exited) { /* it has left relays behind: they end when the channel does */
		ev_timer_stop(loop, w);
		c->channel = channel_free(c->channel);
		conn_settle(c);
		return;
	}
	launch_signal(&c->process, w->repeat > 0. ? SIGKILL : SIGTERM);
	w->repeat = CHANNEL_TIMEOUT_MS / 1e3; /* and then, and again, by force */
	ev_timer_again(loop, w);
}

static void on_launcher_exit(struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct conn *c = w->data;

	assert(c);
	if (waitpid(c->process.process.pid, &c->wait_status, WNOHANG) != c->process.process.pid)
		return;
	ev_io_stop(loop, w);
	ev_timer_stop(loop, &c->timeout);
	pidref_close(&c->process.process);
	c->exited = true;
	if (c->channel) /* what its relays have sent is still to be read */
		conn_await_rest(c);
	conn_settle(c);
}

/* ---- its channel --------------------------------------------------------------------------- */

static void on_line(const struct channel_line *line, void *userdata)
{
	struct conn *c = userdata;

	/* A number that the launcher has not assigned comes from a wrong variable. */
	if (line->node >= c->first && line->node < c->first + c->count)
		c->conns->events->line(c, line);
}

static size_t on_take(const struct channel_line *line, int in_fd, size_t size, void *userdata)
{
	struct conn *c = userdata;

	return c->conns->events->take && line->node == c->first
		? c->conns->events->take(c, line, in_fd, size)
		: 0;
}

static void on_foreign(const char *text, size_t size, void *userdata)
{
	struct conn *c = userdata;
	char shown[CHANNEL_LINE_MAX + 1];
	size_t i;

	for (i = 0; i < size && i < sizeof(shown) - 1; i++)
		shown[i] = text[i] ? text[i] : '?';
	shown[i] = '\0';
	c->conns->events->foreign(c, shown);
}

static void on_probed(bool unchanged, void *userdata)
{
	const struct conn *c = userdata;

	if (!unchanged || c->conns->launcher->at_once)
		return;
	channel_take_frames(c->channel);
	channel_probe(c->channel, c->first);
}

static void on_channel_end(void *userdata)
{
	struct conn *c = userdata;
	struct ev_loop *loop = c->conns->loop;

	if (channel_fault(c->channel))
		(void)snprintf(c->fault, sizeof(c->fault), "%s", channel_fault(c->channel));
	c->channel = channel_free(c->channel);
	ev_timer_stop(loop, &c->timeout);
	if (!c->exited && c->conns->events->open(c) > 0)
		launch_signal(&c->process, SIGTERM); /* it has no buffered data any more */
	if (!c->exited) {
		ev_timer_set(&c->timeout, CHANNEL_TIMEOUT_MS / 1e3, 0.);
		ev_timer_start(loop, &c->timeout);
	}
	conn_settle(c);
}

/* ---- the beginning ------------------------------------------------------------------------- */

static int conn_make_command(const struct conn *c, struct strv *argv)
{
	const struct conns *a = c->conns;
	_cleanup_free_ char *hosts = hostlist_make(a->names->v, a->names->n);

	if (!hosts)
		return -ENOMEM;
	return launcher_command(a->launcher, c->first, a->names->n ? a->names->v[c->first] : NULL,
		hosts, a->relays, argv);
}

/* All of a user's pipes have a quota: with many nodes each keeps the usual size. */
static void set_pipe_size(const struct conn *c)
{
	uint32_t size = PIPES_SIZE / c->conns->count;

	if (size > PIPE_SIZE_MAX)
		size = PIPE_SIZE_MAX;
	if (size > PIPE_SIZE_USUAL)
		(void)fcntl(c->process.from_fd, F_SETPIPE_SZ, (int)size); /* else it is smaller */
}

static int conn_start(struct conn *c, struct err *err)
{
	static const struct channel_events events = {.line = on_line,
		.take = on_take,
		.foreign = on_foreign,
		.end = on_channel_end,
		.probed = on_probed};
	_cleanup_strv_ struct strv argv = {0};
	struct ev_loop *loop = c->conns->loop;
	int r = conn_make_command(c, &argv);

	if (r < 0)
		return err_set(err, r, "make the launcher's command");
	r = launch(argv.v, &c->process, err);
	if (r < 0)
		return r;
	c->started = true;
	ev_io_init(&c->exit, on_launcher_exit, c->process.process.fd, EV_READ);
	c->exit.data = c;
	ev_io_start(loop, &c->exit);
	ev_timer_init(&c->timeout, on_conn_timeout, 0., 0.);
	ev_set_priority(&c->timeout, EV_MINPRI); /* after what has come meanwhile */
	c->timeout.data = c;
	set_pipe_size(c);
	r = channel_new_take(loop, c->process.from_fd, c->process.to_fd, &events, c, &c->channel);
	return r < 0 ? err_set(err, r, "open the channel to '%s'", argv.v[0]) : 0;
}

int conns_start_more(struct conns *a, uint32_t connected, struct err *err)
{
	int r = 0;

	while (r == 0 && a->next < a->count &&
		(a->next < STARTS_MAX || a->next - connected < STARTS_MAX))
		r = conn_start(&a->list[a->next++], err);
	return r;
}

/* Two descriptors and more for each node. */
void conns_raise_limit(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return;
	files.rlim_cur = files.rlim_max;
	(void)setrlimit(
		RLIMIT_NOFILE, &files); /* a limit that is too low is reported where it fails */
}

int conns_init(struct conns *a)
{
	bool at_once = a->launcher->at_once;
	uint32_t i;

	a->count = at_once ? 1 : a->relays;
	a->next = 0;
	a->list = calloc(a->count, sizeof(*a->list));
	if (!a->list) {
		a->count = 0;
		return -ENOMEM;
	}
	for (i = 0; i < a->count; i++)
		a->list[i] =
			(struct conn){.conns = a, .first = i, .count = at_once ? a->relays : 1};
	return 0;
}

/* ---- all of them --------------------------------------------------------------------------- */

bool conns_are_open(const struct conns *a)
{
	uint32_t i;

	for (i = 0; i < a->count; i++) {
		if (a->list[i].started && (!a->list[i].exited || a->list[i].channel))
			return true;
	}
	return false;
}

void conns_send_all(struct conns *a, const char *verb, const char *text)
{
	uint32_t i;

	for (i = 0; i < a->count; i++) {
		if (a->list[i].channel)
			channel_send(a->list[i].channel, CHANNEL_ALL, verb, text);
	}
}

void conns_send_bytes_all(struct conns *a, const char *verb, const void *bytes, size_t size)
{
	uint32_t i;

	for (i = 0; i < a->count; i++) {
		if (a->list[i].channel)
			channel_send_bytes(a->list[i].channel, CHANNEL_ALL, verb, bytes, size);
	}
}

void conn_update_pause(struct conn *c)
{
	if (c->channel)
		channel_pause(c->channel, conn_is_paused(c));
}

void conns_update_pause(struct conns *a)
{
	uint32_t i;

	for (i = 0; i < a->count; i++)
		conn_update_pause(&a->list[i]);
}

void conn_end(struct conn *c)
{
	if (c->exited || ev_is_active(&c->timeout))
		return;
	launch_signal(&c->process, SIGTERM);
	c->timeout.repeat = CHANNEL_TIMEOUT_MS / 1e3; /* on_conn_timeout(): by force */
	ev_timer_again(c->conns->loop, &c->timeout);
}

void conns_finish(struct conns *a)
{
	uint32_t i;

	for (i = 0; i < a->count; i++) {
		if (a->list[i].channel)
			channel_finish(a->list[i].channel);
	}
}

static void conn_clear(struct conn *c)
{
	if (!c->started)
		return;
	c->channel = channel_free(c->channel);
	if (!c->exited) {
		launch_signal(&c->process, SIGKILL);
		ev_io_stop(c->conns->loop, &c->exit);
		(void)waitpid(c->process.process.pid, NULL, 0);
		pidref_close(&c->process.process);
	}
	ev_timer_stop(c->conns->loop, &c->timeout);
}

void conns_clear(struct conns *a)
{
	uint32_t i;

	for (i = 0; i < a->count; i++)
		conn_clear(&a->list[i]);
	free(a->list);
	a->list = NULL;
	a->count = 0;
}

void conn_finish_ended(struct conn *c)
{
	if (c->channel && c->conns->events->open(c) == 0)
		channel_finish(c->channel);
}

/* ---- what a relay says first --------------------------------------------------------------- */

static void hello_read_field(const char *field, struct hello *hello)
{
	struct address_node *list = &hello->addresses;
	uint32_t port;

	if (strncmp(field, "version=", 8) == 0 &&
		parse_u32(field + 8, 0, UINT32_MAX, &hello->version) < 0)
		hello->version = 0;
	else if (strcmp(field, "frames=1") == 0)
		hello->frames = true;
	else if (strcmp(field, "got=1") == 0)
		hello->got = true;
	else if (strcmp(field, "doc=1") == 0)
		hello->doc = true;
	else if (strncmp(field, "node=", 5) == 0 && !hello->node)
		hello->node = field + 5;
	else if (strncmp(field, "port=", 5) == 0 && parse_u32(field + 5, 0, 65535, &port) == 0)
		hello->port = (uint16_t)port;
	else if (strncmp(field, "addr=", 5) == 0 && list->count < ADDRESS_MAX &&
		address_parse(field + 5, &list->list[list->count]) == 0)
		list->count++;
}

void hello_read(char *text, struct hello *ret_hello)
{
	char *save = NULL, *field;

	*ret_hello = (struct hello){0};
	for (field = strtok_r(text, " ", &save); field; field = strtok_r(NULL, " ", &save))
		hello_read_field(field, ret_hello);
}

void conn_offer_frames(struct conn *c, const struct hello *hello)
{
	if (hello->frames && !c->conns->launcher->at_once)
		channel_send(c->channel, c->first, "frames", "");
}

void conn_send_frames(struct conn *c)
{
	if (!c->conns->launcher->at_once)
		channel_send_frames(c->channel);
}
