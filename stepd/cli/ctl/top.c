/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl top: steps, tasks, processors and memory on a live screen, or with --batch as tables (or
 * JSON) for files and pipes. The agents send samples at the interval; each gets one request.
 */
#include "stepd/cli/ctl/top.h"

#include <jansson.h>
#include <poll.h>
#include <string.h>

#include "stepd/base/buffer.h"
#include "stepd/base/clock.h"
#include "stepd/cli/ctl/top_screen.h"
#include "stepd/client/client.h"

#define DEFAULT_INTERVAL_MS 2000
#define KEYS_MAX            16
#define OWN_FDS             2 /* before those of the agents */

/* ---- the steps ----------------------------------------------------------------------------- */

static void unsubscribe(struct top_step *step)
{
	step->client = stepd_disconnect(step->client);
	usage_sample_clear(&step->now);
	usage_sample_clear(&step->before);
	step->now = step->before = (struct usage_sample){0};
}

static void free_step(struct top_step *step)
{
	unsubscribe(step);
	free(step->directory);
	free(step->label);
	free(step->node);
	free(step->user);
	free(step);
}

static void top_data_clear(struct top_data *data)
{
	size_t i;

	for (i = 0; i < data->n; i++)
		free_step(data->steps[i]);
	free(data->steps);
	strv_clear(&data->only);
}

static int top_data_choose(struct top_data *data)
{
	struct ctl *ctl = data->ctl;
	struct stepd_error error = {0};
	char *directory = NULL;
	int i, r;

	for (i = 0; i < ctl->count; i++) {
		r = stepd_find_step(ctl->opt.runtime_dir, ctl->args[i], &directory, &error);
		if (r < 0)
			return err_set_text(&ctl->err, r, "%s", error.text);
		if (strv_add_take(&data->only, directory) < 0)
			return err_set(&ctl->err, -ENOMEM, "choose steps");
	}
	return 0;
}

/* ---- which steps there are ----------------------------------------------------------------- */

static bool is_wanted(const struct top_data *data, const char *directory)
{
	size_t i;

	for (i = 0; i < data->only.n; i++) {
		if (strcmp(data->only.v[i], directory) == 0)
			return true;
	}
	return data->only.n == 0;
}

static struct top_step *find_step(const struct top_data *data, const char *directory)
{
	size_t i;

	for (i = 0; i < data->n; i++) {
		if (strcmp(data->steps[i]->directory, directory) == 0)
			return data->steps[i];
	}
	return NULL;
}

static struct top_step *add_step(struct top_data *data, const struct stepd_step *found)
{
	struct top_step *step;

	if (array_reserve(data->steps, data->capacity, data->n + 1) < 0)
		return NULL;
	step = calloc(1, sizeof(*step));
	if (!step)
		return NULL;
	step->directory = strdup(found->directory);
	step->label = strdup(found->step);
	step->node = strdup(found->node);
	step->user = strdup(found->user);
	if (!step->directory || !step->label || !step->node || !step->user) {
		free_step(step);
		return NULL;
	}
	data->steps[data->n++] = step;
	return step;
}

/* Does not wait: where the agent has no capacity for a connection, the next scan tries again. */
static void subscribe(const struct top_data *data, struct top_step *step)
{
	struct stepd_error error;

	if (stepd_connect_directory(step->directory, 0, &step->client, &error) < 0) {
		step->refused = error.code == -EPERM;
		return;
	}
	if (usage_subscribe(step->client, data->interval_ms, &error) < 0)
		unsubscribe(step);
}

static int on_step(const struct stepd_step *found, void *userdata)
{
	struct top_data *data = userdata;
	struct top_step *step;

	if (!is_wanted(data, found->directory))
		return 0;
	step = find_step(data, found->directory);
	if (!step)
		step = add_step(data, found);
	if (!step)
		return -ENOMEM;
	step->seen = true;
	step->presence = found->presence;
	(void)snprintf(step->state, sizeof(step->state), "%s",
		found->presence == STEPD_ORPHAN ? "died" : found->state);
	if (found->presence == STEPD_LIVES && !step->client && !step->refused)
		subscribe(data, step);
	return 0;
}

static void remove_gone(struct top_data *data)
{
	size_t i, kept = 0;

	for (i = 0; i < data->n; i++) {
		if (data->steps[i]->seen)
			data->steps[kept++] = data->steps[i];
		else
			free_step(data->steps[i]);
	}
	data->n = kept;
}

static int top_data_scan(struct top_data *data)
{
	struct stepd_error error = {0};
	size_t i;
	int r;

	for (i = 0; i < data->n; i++)
		data->steps[i]->seen = false;
	r = stepd_each_step(data->ctl->opt.runtime_dir, on_step, data, &error);
	if (r < 0)
		return err_set_text(&data->ctl->err, r, "%s",
			error.text[0] ? error.text : "no memory left for so many steps");
	remove_gone(data);
	return 0;
}

/* ---- what they use ------------------------------------------------------------------------- */

/* Takes what a step's agent has sent; its descriptor was ready. 0 or -ENOMEM. */
static int top_data_read(struct top_data *data, struct top_step *step)
{
	bool continues = true;
	int r;

	while (step->client && continues) {
		_cleanup_reply_ struct reply reply = {0};
		struct stepd_error error;
		struct usage_sample sample;

		r = client_next(step->client, 0, &reply, &error);
		if (r == -EAGAIN)
			return 0;
		if (r < 0) {
			step->refused = r == -EPERM;
			unsubscribe(step);
			return 0;
		}
		if (usage_read(reply.parameters, &sample) < 0)
			return err_set(&data->ctl->err, -ENOMEM, "read what steps use");
		usage_sample_clear(&step->before);
		step->before = step->now;
		step->now = sample;
		continues = reply.continues;
	}
	step->client = stepd_disconnect(step->client);
	return 0;
}

double top_step_cpu(const struct top_step *step)
{
	return usage_cpu_share(&step->now, &step->before);
}

/* Tasks have the same index in each sample: an agent reports all of them. */
double top_task_cpu(const struct top_step *step, size_t i)
{
	const struct usage_sample *now = &step->now, *before = &step->before;

	if (i >= before->n || before->task[i].gtid != now->task[i].gtid ||
		now->time_usec <= before->time_usec)
		return -1;
	return usage_cpu_share_of(
		&now->tasks[i], &before->tasks[i], now->time_usec - before->time_usec);
}

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

	if (ctl->opt.json) {
		r = ctl_print_json(ctl, top_view_pack(&top->data), true);
	} else {
		text = top_view_format(&top->view, &top->data, 0);
		if (!text)
			return err_set(&ctl->err, -ENOMEM, "print the steps");
		printf("%s%s", top->rounds > 1 ? "\n" : "", text);
	}
	if (fflush(stdout) == EOF)
		top->end = true; /* finish() in main.c reports it */
	return r;
}

static int show_frame(struct top *top)
{
	return top->ctl->opt.batch ? print(top) : draw(top);
}

/* A frame is due: steps that came, steps that went, and what they use. */
static int on_time(struct top *top)
{
	int r = top_data_scan(&top->data);

	top->next_ms += top->data.interval_ms;
	if (top->next_ms < clock_now_ms())
		top->next_ms = clock_now_ms(); /* it was stopped meanwhile */
	top->rounds++;
	if (r == 0)
		r = show_frame(top);
	top->end |= top->rounds == top->ctl->opt.rounds;
	return r;
}

/* ---- the loop ------------------------------------------------------------------------------ */

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

static void fill_fds(const struct top *top, struct pollfd *fds)
{
	size_t i;

	fds[0] = (struct pollfd){.fd = top->ctl->opt.batch ? -1 : STDIN_FILENO, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = top->screen.signal_fd, .events = POLLIN};
	for (i = 0; i < top->data.n; i++) {
		const struct stepd_client *client = top->data.steps[i]->client;

		fds[OWN_FDS + i] = (struct pollfd){.fd = client ? stepd_get_fd(client) : -1,
			.events = (short)(POLLIN |
				(client && stepd_wants_write(client) ? POLLOUT : 0))};
	}
}

/* The steps are those that fds was filled for: only on_time() changes them. */
static int handle_fds(struct top *top, const struct pollfd *fds)
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
	fill_fds(top, fds);
	r = poll(fds, OWN_FDS + top->data.n, left_ms > 0 ? (int)left_ms : 0);
	if (r < 0)
		return errno == EINTR ? 0 : err_set(&top->ctl->err, -errno, "wait for steps");
	r = r > 0 ? handle_fds(top, fds) : 0;
	if (r == 0 && !top->end && clock_now_ms() >= top->next_ms)
		r = on_time(top);
	return r;
}

static int run_top(struct top *top)
{
	int r = top_data_scan(&top->data);

	/* Agents report at the interval, too: a little later each has done so twice, and there is
	 * CPU%. */
	top->next_ms = clock_now_ms() + top->data.interval_ms + top->data.interval_ms / 8;
	if (r == 0 && !top->ctl->opt.batch)
		r = draw(top);
	while (r == 0 && !top->end)
		r = wait_and_handle(top);
	return r;
}

static int check_top(struct ctl *ctl, struct top *top)
{
	if (top_sort_parse(ctl->opt.sort, &top->view.sort) < 0)
		return err_set_text(&ctl->err, -EINVAL,
			"--sort: '%.100s' is none of step, user, cpu, mem, procs, time",
			ctl->opt.sort);
	if (ctl->opt.json && !ctl->opt.batch)
		return err_set_text(&ctl->err, -EINVAL, "--json goes with --batch");
	if (!ctl->opt.batch && (!ctl->term.is_terminal || isatty(STDIN_FILENO) != 1))
		return err_set_text(&ctl->err, -EINVAL,
			"this is no terminal; 'stepctl top --batch -n 1' prints a table");
	return 0;
}

int ctl_top(struct ctl *ctl)
{
	struct top top = {.ctl = ctl,
		.data = {.ctl = ctl,
			.interval_ms =
				ctl->opt.interval_ms ? ctl->opt.interval_ms : DEFAULT_INTERVAL_MS},
		.view = {.tasks = true},
		.screen = SCREEN_INIT};
	int r = check_top(ctl, &top);

	ctl->out.printed = true;
	if (r == 0)
		r = top_data_choose(&top.data);
	if (r == 0 && !ctl->opt.batch)
		r = screen_open(&top.screen, STDIN_FILENO, STDOUT_FILENO, &ctl->err);
	if (r == 0)
		r = run_top(&top);
	screen_close(&top.screen);
	top_data_clear(&top.data);
	if (top.signal)
		(void)raise(top.signal); /* the default action, for the parent to see */
	return r;
}
