/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The launchers' processes and the channels through them.
 */
#include <assert.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "stepd/base/hostlist.h"
#include "stepd/base/status.h"
#include "stepd/cli/across/across_impl.h"

#define AT_ONCE     64u  /* commands that are started while relays are awaited */
#define PATIENCE_MS 5000 /* for a launcher whose channel has ended */
#define LEFT_MS     1000 /* for a channel whose launcher has */

static bool any_left(const struct conn *c)
{
	const struct node *nodes = c->across->nodes;
	uint32_t i;

	for (i = c->first; i < c->first + c->count; i++) {
		if (nodes[i].state < NODE_ENDED)
			return true;
	}
	return false;
}

void across_check_end(struct across *a)
{
	uint32_t i;

	for (i = 0; i < a->conns_count; i++) {
		if (a->conns[i].started && (!a->conns[i].exited || a->conns[i].channel))
			return;
	}
	if (a->ended == a->count && output_is_empty(a->out) && output_is_empty(a->err))
		ev_break(a->loop, EVBREAK_ALL);
}

/* Both ends are known: what has not ended is lost. */
static void settle(struct conn *c)
{
	char words[STATUS_WORDS_SIZE], why[160];
	uint32_t i;

	if (!c->exited || c->channel)
		return;
	(void)snprintf(why, sizeof(why), "its launcher %s",
		status_words(c->wait_status, words, sizeof(words)));
	for (i = c->first; i < c->first + c->count; i++) {
		if (c->across->nodes[i].state < NODE_ENDED)
			node_lose(&c->across->nodes[i], why);
	}
	across_check_end(c->across);
}

/* Of a channel whose launcher has ended. */
static void await_rest(struct conn *c)
{
	ev_timer_set(&c->patience, LEFT_MS / 1e3, 0.);
	ev_timer_start(c->across->loop, &c->patience);
}

static void on_patience(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct conn *c = w->data;

	assert(c);
	(void)revents;
	if (c->exited && c->across->full_streams > 0) {
		await_rest(c); /* nothing is read as long as our own readers take nothing */
		return;
	}
	if (c->exited) { /* it has left relays behind: they end when the channel does */
		ev_timer_stop(loop, w);
		c->channel = channel_free(c->channel);
		settle(c);
		return;
	}
	launch_signal(&c->process, w->repeat > 0. ? SIGKILL : SIGTERM);
	w->repeat = PATIENCE_MS / 1e3; /* and then, and again, by force */
	ev_timer_again(c->across->loop, w);
}

static void on_exit_fd(struct ev_loop *loop, ev_io *w, int revents)
{
	struct conn *c = w->data;

	assert(c);
	(void)revents;
	if (waitpid(c->process.process.pid, &c->wait_status, WNOHANG) != c->process.process.pid)
		return;
	ev_io_stop(loop, w);
	ev_timer_stop(loop, &c->patience);
	pidref_close(&c->process.process);
	c->exited = true;
	if (c->channel) /* what its relays have said is still to be read */
		await_rest(c);
	settle(c);
}

/* ---- the channel -------------------------------------------------------------------------- */

static void on_line(const struct channel_line *line, void *userdata)
{
	across_take_line(userdata, line);
}

static void on_rubbish(const char *text, size_t size, void *userdata)
{
	const struct conn *c = userdata;
	char shown[CHANNEL_LINE_MAX + 1];
	size_t i;

	for (i = 0; i < size && i < sizeof(shown) - 1; i++)
		shown[i] = text[i] ? text[i] : '?';
	shown[i] = '\0';
	if (c->count == 1 && c->across->nodes[c->first].name)
		across_say("%s: %s", c->across->nodes[c->first].name, shown);
	else
		across_say("launcher: %s", shown);
}

static void on_channel_end(int error, void *userdata)
{
	struct conn *c = userdata;

	(void)error;
	c->channel = channel_free(c->channel);
	ev_timer_stop(c->across->loop, &c->patience);
	if (!c->exited && any_left(c))
		launch_signal(&c->process, SIGTERM); /* it holds nothing any more */
	if (!c->exited) {
		ev_timer_set(&c->patience, PATIENCE_MS / 1e3, 0.);
		ev_timer_start(c->across->loop, &c->patience);
	}
	settle(c);
}

void across_pause(struct across *a)
{
	uint32_t i;

	for (i = 0; i < a->conns_count; i++) {
		if (a->conns[i].channel)
			channel_pause(a->conns[i].channel, a->full_streams > 0);
	}
}

/* ---- life --------------------------------------------------------------------------------- */

static int make_command(const struct conn *c, struct strv *argv)
{
	const struct steprun_options *o = c->across->options;
	_cleanup_free_ char *hosts = hostlist_make(o->nodes.v, o->nodes.n);

	if (!hosts)
		return -ENOMEM;
	return launcher_command(&o->launcher, c->first, o->nodes.n ? o->nodes.v[c->first] : NULL,
		hosts, c->across->count, argv);
}

int conn_start(struct conn *c, struct err *err)
{
	static const struct channel_events events = {
		.line = on_line, .rubbish = on_rubbish, .end = on_channel_end};
	_cleanup_strv_ struct strv argv = {0};
	struct across *a = c->across;
	int r = make_command(c, &argv);

	if (r < 0)
		return err_set(err, r, "make the launcher's command");
	r = launch(argv.v, &c->process, err);
	if (r < 0)
		return r;
	c->started = true;
	ev_io_init(&c->exit, on_exit_fd, c->process.process.fd, EV_READ);
	c->exit.data = c;
	ev_io_start(a->loop, &c->exit);
	ev_timer_init(&c->patience, on_patience, 0., 0.);
	ev_set_priority(&c->patience, EV_MINPRI); /* after what has come meanwhile */
	c->patience.data = c;
	r = channel_new_take(
		a->loop, c->process.from_fd, c->process.to_fd, &events, c, &c->channel);
	return r < 0 ? err_set(err, r, "open the channel to '%s'", argv.v[0]) : 0;
}

/* The next launchers, as long as not too many are under way. */
void across_start_more(struct across *a)
{
	struct err err = ERR_INIT;
	uint32_t i;

	while (!a->ending && a->conns_next < a->conns_count &&
		(a->conns_next < AT_ONCE || a->conns_next - a->here < AT_ONCE)) {
		i = a->conns_next++;
		if (conn_start(&a->conns[i], &err) == 0)
			continue;
		a->launch_failed = true;
		across_say("%s", err.text);
		across_end(a, false);
	}
}

void conn_end(struct conn *c)
{
	if (c->exited || ev_is_active(&c->patience))
		return;
	launch_signal(&c->process, SIGTERM);
	c->patience.repeat = PATIENCE_MS / 1e3; /* on_patience(): by force */
	ev_timer_again(c->across->loop, &c->patience);
}

void conn_kill(struct conn *c)
{
	if (c->started && !c->exited)
		launch_signal(&c->process, SIGKILL);
}

void conn_clear(struct conn *c)
{
	if (!c->started)
		return;
	c->channel = channel_free(c->channel);
	if (!c->exited) {
		launch_signal(&c->process, SIGKILL);
		ev_io_stop(c->across->loop, &c->exit);
		(void)waitpid(c->process.process.pid, NULL, 0);
		pidref_close(&c->process.process);
	}
	ev_timer_stop(c->across->loop, &c->patience);
}
