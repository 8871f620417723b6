/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A live screen: each node's state over the last seconds, a column for each, and the queue. Without
 * a terminal it is one page.
 *
 *	.  idle    1-9  so many tenths of its CPUs are in use    #  all are
 *	s  its jobs stand still    -  drained    x  down    ?  jobd did not reply
 */
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>

#include "contrib/jobd/cli/columns.h"
#include "contrib/jobd/cli/jobctl.h"
#include "contrib/jobd/cli/node_table.h"
#include "contrib/jobd/cli/queue_table.h"
#include "stepd/base/buffer.h"
#include "stepd/base/clock.h"
#include "stepd/base/json.h"
#include "stepd/cli/ctl/top_screen.h"

#define INTERVAL_MS 1000
#define HISTORY     512 /* samples of a node */
#define NAME_WIDTH  16
#define FIXED_WIDTH (NAME_WIDTH + 18) /* columns left of the history */
#define PAGE_WIDTH  80                /* without a terminal */

struct top_node {
	char *name;
	char history[HISTORY]; /* the last count of them, the newest at the end */
	size_t count;
};

struct top {
	struct jobd_client *client; /* NULL: there is no connection */
	json_t *nodes, *jobs;       /* of the last sample that succeeded; NULL: none has */
	int64_t now;
	struct top_node *history;
	size_t history_count;
	struct err failure; /* of the last sample, code 0: it succeeded */
	struct screen screen;
	bool end;
	int signal;
};

static void top_clear(struct top *top)
{
	size_t i;

	screen_close(&top->screen);
	(void)jobd_disconnect(top->client);
	json_decref(top->nodes);
	json_decref(top->jobs);
	for (i = 0; i < top->history_count; i++)
		free(top->history[i].name);
	free(top->history);
}

/* ---- samples ----------------------------------------------------------------------------------
 */

static char sample_of(const json_t *node)
{
	const int64_t cpus = json_get_int(node, "cpus", 0),
		      used = json_get_int(node, "alloc_cpus", 0);
	const char *state = node_state(node, false);
	int64_t tenths;

	if (strcmp(state, "down") == 0)
		return 'x';
	if (used <= 0 || cpus <= 0)
		return strcmp(state, "drain") == 0   ? '-'
			: strcmp(state, "idle") == 0 ? '.'
						     : *state;
	if (json_get_int(node, "suspended_jobs", 0) > 0 &&
		json_get_int(node, "running_jobs", 0) == 0)
		return 's';
	tenths = used * 10 / cpus;
	return tenths >= 10 ? '#' : (char)('0' + (tenths < 1 ? 1 : tenths));
}

static void add_sample(struct top_node *node, char sample)
{
	if (node->count == HISTORY)
		memmove(node->history, node->history + 1, HISTORY - 1);
	else
		node->count++;
	node->history[node->count - 1] = sample;
}

static bool is_same(const struct top *top, const json_t *nodes)
{
	const json_t *node;
	size_t i;

	if (json_array_size(nodes) != top->history_count)
		return false;
	json_array_foreach (nodes, i, node) {
		if (strcmp(json_get_text(node, "name", ""), top->history[i].name) != 0)
			return false;
	}
	return true;
}

/* Other nodes than before, as at the first time: their history begins. */
static int begin_history(struct top *top, const json_t *nodes)
{
	const size_t n = json_array_size(nodes);
	struct top_node *history = calloc(n + 1, sizeof(*history));
	const json_t *node;
	size_t i;

	if (!history)
		return -ENOMEM;
	for (i = 0; i < top->history_count; i++)
		free(top->history[i].name);
	free(top->history);
	top->history = history;
	top->history_count = 0;
	json_array_foreach (nodes, i, node) {
		history[i].name = strdup(json_get_text(node, "name", ""));
		if (!history[i].name)
			return -ENOMEM;
		top->history_count++;
	}
	return 0;
}

static int fetch(struct top *top, json_t **ret_nodes, json_t **ret_jobs, struct err *err)
{
	int r = top->client ? 0 : jobd_connect(&top->client, err);

	if (r == 0)
		r = jobd_list(top->client, "ListNodes", "nodes", NULL, ret_nodes, &top->now, err);
	if (r == 0)
		r = jobd_list(top->client, "ListJobs", "jobs", NULL, ret_jobs, &top->now, err);
	return r;
}

static int take_nodes(struct top *top, json_t *nodes)
{
	const json_t *node;
	size_t i;
	int r = is_same(top, nodes) ? 0 : begin_history(top, nodes);

	if (r < 0)
		return r;
	json_array_foreach (nodes, i, node)
		add_sample(&top->history[i], sample_of(node));
	return 0;
}

/* jobd may be restarted meanwhile: a failure is shown, and the next sample connects again. */
static int sample(struct top *top, struct err *err)
{
	json_auto_t *nodes = NULL, *jobs = NULL;
	size_t i;
	int r;

	top->failure = (struct err)ERR_INIT;
	r = fetch(top, &nodes, &jobs, &top->failure);
	if (r < 0) {
		top->client = jobd_disconnect(top->client);
		for (i = 0; i < top->history_count; i++)
			add_sample(&top->history[i], '?');
		return 0;
	}
	if (take_nodes(top, nodes) < 0)
		return err_set(err, -ENOMEM, "remember the nodes");
	json_decref(top->nodes);
	json_decref(top->jobs);
	top->nodes = json_incref(nodes);
	top->jobs = json_incref(jobs);
	return 0;
}

/* ---- the frame --------------------------------------------------------------------------------
 */

static size_t count_jobs(const json_t *jobs, const char *state)
{
	const json_t *job;
	size_t i, n = 0;

	json_array_foreach (jobs, i, job)
		n += strcmp(queue_state_code(job), state) == 0;
	return n;
}

static void print_head(const struct top *top, FILE *out)
{
	const time_t t = (time_t)top->now;
	char clock[16] = "--:--:--";
	struct tm tm;

	if (top->now > 0 && localtime_r(&t, &tm))
		(void)strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	(void)fprintf(out, "jobd %s  %zu nodes, jobs: %zu running, %zu pending, %zu suspended\n",
		clock, json_array_size(top->nodes), count_jobs(top->jobs, "R"),
		count_jobs(top->jobs, "PD"), count_jobs(top->jobs, "S"));
	if (top->failure.code < 0)
		(void)fprintf(out, "%s\n", top->failure.text);
}

static void print_node(const struct top_node *node, const json_t *json, int width, FILE *out)
{
	const size_t most = width > FIXED_WIDTH ? (size_t)(width - FIXED_WIDTH) : 1;
	const size_t shown = node->count < most ? node->count : most;

	text_print(node->name, NAME_WIDTH, false, out);
	(void)fprintf(out, " %-5s %4lld/%-4lld  %.*s\n", node_state(json, false),
		(long long)json_get_int(json, "alloc_cpus", 0),
		(long long)json_get_int(json, "cpus", 0), (int)shown,
		node->history + node->count - shown);
}

static void print_nodes(const struct top *top, int width, size_t most, FILE *out)
{
	const json_t *node;
	size_t i;

	(void)fprintf(out, "\n%-*s STATE  CPUS      LAST SECONDS\n", NAME_WIDTH, "NODE");
	json_array_foreach (top->nodes, i, node) {
		if (i == most) {
			(void)fprintf(out, "... and %zu more\n", json_array_size(top->nodes) - i);
			break;
		}
		print_node(&top->history[i], node, width, out);
	}
}

/* height 0: there is no end to it. */
static char *make_frame(const struct top *top, int width, int height, struct err *err)
{
	const struct queue_view view = {.header = true};
	const size_t nodes_most = height ? (size_t)(height > 16 ? height / 2 : 4) : SIZE_MAX;
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	int r = 0;

	if (out) {
		print_head(top, out);
		if (top->nodes) {
			print_nodes(top, width, nodes_most, out);
			(void)fputc('\n', out);
			r = queue_print(&view, top->jobs, (time_t)top->now, out, err);
		}
	}
	if (!out || fclose(out) == EOF)
		r = err_set(err, -ENOMEM, "make the screen");
	if (r < 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* Lines that are too long, or too many, are cut. */
static char *clip(const char *text, int width, int height)
{
	char *clipped = malloc(strlen(text) + 1), *to = clipped;
	size_t size, left;

	for (; clipped && *text && height > 0; text += size + (text[size] == '\n'), height--) {
		size = strcspn(text, "\n");
		left = text_cut(text, size, width);
		memcpy(to, text, left);
		to += left;
		*to++ = '\n';
	}
	if (clipped)
		*(to > clipped ? to - 1 : to) = '\0';
	return clipped;
}

static int draw(struct top *top, struct err *err)
{
	struct winsize size = {.ws_row = 24, .ws_col = 80};
	_cleanup_free_ char *frame = NULL, *clipped = NULL;
	int r;

	(void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size); /* else it is a usual one */
	size.ws_row = size.ws_row ? size.ws_row : 24;
	size.ws_col = size.ws_col ? size.ws_col : 80;
	frame = make_frame(top, size.ws_col, size.ws_row, err);
	if (!frame)
		return err->code;
	clipped = clip(frame, size.ws_col, size.ws_row);
	if (!clipped)
		return err_set(err, -ENOMEM, "make the screen");
	r = screen_draw(&top->screen, clipped);
	return r < 0 ? err_set(err, r, "write to the terminal") : 0;
}

/* ---- the loop ---------------------------------------------------------------------------------
 */

static int on_keys(struct top *top)
{
	int keys[16], i, n = screen_read_keys(&top->screen, keys, (int)ARRAY_SIZE(keys));

	top->end |= n == 0; /* the terminal is gone */
	for (i = 0; i < n; i++)
		top->end |= keys[i] == 'q' || keys[i] == 'Q';
	return 0;
}

static int on_signal(struct top *top, struct err *err)
{
	enum screen_event event = screen_take_signal(&top->screen, &top->signal);

	top->end |= event == SCREEN_ENDED;
	return event == SCREEN_CHANGED ? draw(top, err) : 0;
}

/* Until the next sample is due. */
static int wait_for_time(struct top *top, int64_t due_ms, struct err *err)
{
	struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
		{.fd = top->screen.signal_fd, .events = POLLIN}};
	int64_t left_ms;
	int n, r = 0;

	while (r == 0 && !top->end && (left_ms = due_ms - clock_now_ms()) > 0) {
		n = poll(fds, ARRAY_SIZE(fds), (int)left_ms);
		if (n < 0 && errno != EINTR)
			return err_set(err, -errno, "wait for keys");
		if (n > 0 && fds[1].revents)
			r = on_signal(top, err);
		if (n > 0 && fds[0].revents && r == 0)
			r = on_keys(top);
	}
	return r;
}

static int run_screen(struct top *top, struct err *err)
{
	int64_t due_ms = clock_now_ms();
	int r = 0;

	while (r == 0 && !top->end) {
		r = sample(top, err);
		if (r == 0)
			r = draw(top, err);
		due_ms += INTERVAL_MS;
		if (due_ms < clock_now_ms()) /* jobd was slow, or this one was stopped */
			due_ms = clock_now_ms() + INTERVAL_MS;
		if (r == 0)
			r = wait_for_time(top, due_ms, err);
	}
	return r;
}

static int print_page(struct top *top, struct err *err)
{
	_cleanup_free_ char *frame = NULL;
	int r = sample(top, err);

	if (r == 0 && top->failure.code < 0) {
		*err = top->failure;
		return err->code;
	}
	frame = r < 0 ? NULL : make_frame(top, PAGE_WIDTH, 0, err);
	if (!frame)
		return r < 0 ? r : err->code;
	(void)fputs(frame, stdout);
	return 0;
}

struct top_options {
	bool help;
};

static const struct cli_option top_rows[] = {{.name = "help",
	.letter = 'h',
	.take = cli_take_help,
	.offset = offsetof(struct top_options, help),
	.doc = "print this"}};

int jobctl_top(const char *name, int argc, char **argv, struct err *err)
{
	struct top top = {.screen = SCREEN_INIT};
	struct top_options o = {0};
	int rest = 0;
	int r = jobctl_parse(name, "", top_rows, 1, argc, argv, &o, &rest, err);

	if (r != 0)
		return r < 0 ? r : 0;
	if (isatty(STDOUT_FILENO) == 1 && isatty(STDIN_FILENO) == 1) {
		r = screen_open(&top.screen, STDIN_FILENO, STDOUT_FILENO, err);
		if (r == 0)
			r = run_screen(&top, err);
	} else {
		r = print_page(&top, err);
	}
	top_clear(&top);
	if (top.signal)
		(void)raise(top.signal); /* the default action, for the parent to see */
	return r;
}
