/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl top: steps, tasks, processors and memory on a live screen, or with --batch as tables (or
 * JSON) for files and pipes. The agents send what they use at the interval; nobody is asked twice.
 */
#include <jansson.h>
#include <poll.h>
#include <string.h>

#include "stepd/base/clock.h"
#include "stepd/cli/ctl/top_screen.h"
#include "stepd/cli/ctl/top_view.h"

#define DEFAULT_INTERVAL_MS 2000
#define KEYS_MAX            16
#define OWN_FDS             2 /* before those of the agents */

struct top {
	struct ctl *ctl;
	struct top_data data;
	struct top_view view;
	struct screen screen;
	int64_t next_ms; /* when the next frame is due */
	uint64_t rounds; /* frames that were due so far */
	int signal;      /* that ends it; 0: none */
	bool end;
};

/* ---- frames -------------------------------------------------------------------------------- */

static int draw(struct top *top)
{
	struct ctl *ctl = top->ctl;
	_cleanup_free_ char *text = NULL;

	term_measure(&ctl->term, STDOUT_FILENO);
	text = top_view_format(&top->view, &top->data, ctl->term.height);
	if (!text)
		return err_set(&ctl->err, -ENOMEM, "draw the screen");
	if (screen_draw(&top->screen, text) < 0)
		top->end = true; /* the terminal is gone */
	return 0;
}

static int print(struct top *top)
{
	struct ctl *ctl = top->ctl;
	_cleanup_free_ char *text = NULL;
	int r = 0;

	if (ctl->json) {
		r = ctl_print_json(ctl, top_view_pack(&top->data), true);
	} else {
		text = top_view_format(&top->view, &top->data, 0);
		if (!text)
			return err_set(&ctl->err, -ENOMEM, "print the steps");
		printf("%s%s", top->rounds > 1 ? "\n" : "", text);
	}
	if (fflush(stdout) == EOF)
		top->end = true; /* finish() in main.c tells why */
	return r;
}

static int show(struct top *top)
{
	return top->ctl->batch ? print(top) : draw(top);
}

/* A frame is due: who has come, who has gone, and what they use. */
static int on_time(struct top *top)
{
	int r = top_data_scan(&top->data);

	top->next_ms += (int64_t)top->data.interval_ms;
	if (top->next_ms < clock_now_ms())
		top->next_ms = clock_now_ms(); /* it was stopped meanwhile */
	top->rounds++;
	if (r == 0)
		r = show(top);
	top->end |= top->rounds == top->ctl->rounds;
	return r;
}

/* ---- what happens -------------------------------------------------------------------------- */

static int on_keys(struct top *top)
{
	int keys[KEYS_MAX], i, n = screen_read_keys(&top->screen, keys, KEYS_MAX);

	top->end |= n == 0;
	for (i = 0; i < n; i++)
		top->end |= !top_view_press(&top->view, keys[i], top->ctl->term.height);
	return top->end ? 0 : draw(top);
}

static int on_signal(struct top *top)
{
	enum screen_event event = screen_take_signal(&top->screen, &top->signal);

	top->end |= event == SCREEN_ENDED;
	return event == SCREEN_CHANGED ? draw(top) : 0;
}

static void fill(const struct top *top, struct pollfd *fds)
{
	size_t i;

	fds[0] = (struct pollfd){.fd = top->ctl->batch ? -1 : STDIN_FILENO, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = top->screen.signal_fd, .events = POLLIN};
	for (i = 0; i < top->data.n; i++) {
		const struct stepd_client *client = top->data.steps[i]->client;

		fds[OWN_FDS + i] = (struct pollfd){.fd = client ? stepd_get_fd(client) : -1,
			.events = (short)(POLLIN |
				(client && stepd_wants_write(client) ? POLLOUT : 0))};
	}
}

/* The steps are those that fds was filled for: only on_time() changes them. */
static int handle(struct top *top, const struct pollfd *fds)
{
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < top->data.n; i++) {
		if (fds[OWN_FDS + i].revents)
			r = top_data_read(&top->data, top->data.steps[i]);
	}
	if (r == 0 && fds[1].revents)
		r = on_signal(top);
	if (r == 0 && !top->end && fds[0].revents)
		r = on_keys(top);
	return r;
}

static int wait_and_handle(struct top *top)
{
	_cleanup_free_ struct pollfd *fds = calloc(OWN_FDS + top->data.n, sizeof(*fds));
	int64_t left_ms = top->next_ms - clock_now_ms();
	int r;

	if (!fds)
		return err_set(&top->ctl->err, -ENOMEM, "wait for %zu steps", top->data.n);
	fill(top, fds);
	r = poll(fds, OWN_FDS + top->data.n, left_ms > 0 ? (int)left_ms : 0);
	if (r < 0)
		return errno == EINTR ? 0 : err_set(&top->ctl->err, -errno, "wait for steps");
	r = r > 0 ? handle(top, fds) : 0;
	if (r == 0 && !top->end && clock_now_ms() >= top->next_ms)
		r = on_time(top);
	return r;
}

static int run(struct top *top)
{
	int r = top_data_scan(&top->data);

	/* Agents tell at the interval, too: a little later all have told twice, and there is CPU%.
	 */
	top->next_ms =
		clock_now_ms() + (int64_t)(top->data.interval_ms + top->data.interval_ms / 8);
	if (r == 0 && !top->ctl->batch)
		r = draw(top);
	while (r == 0 && !top->end)
		r = wait_and_handle(top);
	return r;
}

static int check(struct ctl *ctl, struct top *top)
{
	if (top_sort_parse(ctl->sort, &top->view.sort) < 0)
		return err_say(&ctl->err, -EINVAL,
			"--sort: '%.100s' is none of step, user, cpu, mem, procs, time", ctl->sort);
	if (ctl->json && !ctl->batch)
		return err_say(&ctl->err, -EINVAL, "--json goes with --batch");
	if (!ctl->batch && (!ctl->term.is_terminal || isatty(STDIN_FILENO) != 1))
		return err_say(&ctl->err, -EINVAL,
			"this is no terminal; 'stepctl top --batch -n 1' prints a table");
	return 0;
}

int ctl_top(struct ctl *ctl)
{
	struct top top = {.ctl = ctl,
		.data = {.ctl = ctl,
			.interval_ms = ctl->interval_ms ? ctl->interval_ms : DEFAULT_INTERVAL_MS},
		.view = {.tasks = true},
		.screen = SCREEN_INIT};
	int r = check(ctl, &top);

	ctl->printed = true;
	if (r == 0)
		r = top_data_choose(&top.data);
	if (r == 0 && !ctl->batch)
		r = screen_open(&top.screen, STDIN_FILENO, STDOUT_FILENO, &ctl->err);
	if (r == 0)
		r = run(&top);
	screen_close(&top.screen);
	top_data_clear(&top.data);
	if (top.signal)
		(void)raise(top.signal); /* the default action: who waits for it sees the signal */
	return r;
}
