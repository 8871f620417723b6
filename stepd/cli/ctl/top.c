/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl top: steps, tasks, processors and memory on a live screen, or with --batch as tables (or
 * JSON) for files and pipes. The agents send samples at the interval; each gets one request.
 */
#include <jansson.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "stepd/account/usage.h"
#include "stepd/base/buffer.h"
#include "stepd/base/clock.h"
#include "stepd/base/strv.h"
#include "stepd/cli/ctl/ctl.h"
#include "stepd/cli/ctl/top_screen.h"
#include "stepd/cli/ctl/usage.h"
#include "stepd/client/client.h"
#include "stepd/record/report.h"

#define DEFAULT_INTERVAL_MS 2000
#define KEYS_MAX            16
#define OWN_FDS             2 /* before those of the agents */

struct top_step {
	char *directory, *label, *node, *user;
	char state[16];
	enum stepd_presence presence;
	struct stepd_client *client;     /* NULL: not subscribed */
	bool refused;                    /* by the agent: not tried again */
	bool seen;                       /* by the last scan */
	struct usage_sample now, before; /* time_usec 0: not known */
};

struct top_data {
	struct ctl *ctl;
	int64_t interval_ms;
	struct top_step **steps;
	size_t n, capacity;
	struct strv only; /* directories; none: all steps */
};

enum top_sort {
	TOP_SORT_STEP,
	TOP_SORT_USER,
	TOP_SORT_CPU,
	TOP_SORT_MEM,
	TOP_SORT_PROCS,
	TOP_SORT_TIME,
	TOP_SORT_MAX,
};

struct top_view {
	enum top_sort sort;
	bool reverse;
	bool tasks;  /* show them */
	bool help;   /* the keys, in place of the table */
	size_t from; /* the first row that is shown */
};

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

static struct top_step *top_data_add(struct top_data *data, const struct stepd_step *found)
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
		step = top_data_add(data, found);
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
	size_t i, n = 0;

	for (i = 0; i < data->n; i++) {
		if (data->steps[i]->seen)
			data->steps[n++] = data->steps[i];
		else
			free_step(data->steps[i]);
	}
	data->n = n;
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

/* Reads what a step's agent has sent; its descriptor is ready. 0 or -ENOMEM. */
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

/* CPUs used between the last two samples; below 0: not known. */
static double top_step_cpu(const struct top_step *step)
{
	return usage_cpu_share(&step->now, &step->before);
}

/* Tasks have the same index in each sample: an agent reports all of them. */
static double top_task_cpu(const struct top_step *step, size_t i)
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

/* ---- the frame ----------------------------------------------------------------------------- */

#define HEAD_LINES   2 /* above the rows: the summary and the titles */
#define PAGE(height) ((size_t)((height) > HEAD_LINES + 1 ? (height)-HEAD_LINES - 1 : 1))

/* ---- keys ---------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	char key;
} sorts[TOP_SORT_MAX] = {
	[TOP_SORT_STEP] = {"step", 's'},
	[TOP_SORT_USER] = {"user", 'u'},
	[TOP_SORT_CPU] = {"cpu", 'c'},
	[TOP_SORT_MEM] = {"mem", 'm'},
	[TOP_SORT_PROCS] = {"procs", 'p'},
	[TOP_SORT_TIME] = {"time", 'e'},
};

static const char *const help_lines[] = {
	"q        quit",
	"t        tasks, or steps alone",
	"s u c    sort by step, user, cpu",
	"m p e    by memory, processes, time",
	"r        the other way round",
	"arrows   up and down, also k and j",
	"g G      first and last",
	"h        these keys",
};

/* -EINVAL: there is no such key. */
static int top_sort_parse(const char *text, enum top_sort *ret_sort)
{
	int i;

	for (i = 0; i < TOP_SORT_MAX; i++) {
		if (strcmp(sorts[i].name, text) == 0) {
			*ret_sort = (enum top_sort)i;
			return 0;
		}
	}
	return -EINVAL;
}

static bool press_sort(struct top_view *view, int key)
{
	int i;

	for (i = 0; i < TOP_SORT_MAX; i++) {
		if (sorts[i].key == key) {
			view->sort = (enum top_sort)i;
			return true;
		}
	}
	return false;
}

static void go_back(struct top_view *view, size_t rows)
{
	view->from = view->from > rows ? view->from - rows : 0;
}

/* A key that was pressed. false: the end. height: of the screen. */
static bool top_view_press(struct top_view *view, int key, int height)
{
	bool help = view->help;

	view->help = false;
	if (press_sort(view, key))
		return true;
	switch (key) {
	case 'q':
		return false;
	case 't':
		view->tasks = !view->tasks;
		break;
	case 'r':
		view->reverse = !view->reverse;
		break;
	case 'h':
	case '?':
		view->help = !help;
		break;
	case 'k':
	case SCREEN_KEY_UP:
		go_back(view, 1);
		break;
	case SCREEN_KEY_PAGE_UP:
		go_back(view, PAGE(height));
		break;
	case 'j':
	case SCREEN_KEY_DOWN:
		view->from++; /* the frame knows where the end is */
		break;
	case SCREEN_KEY_PAGE_DOWN:
		view->from += PAGE(height);
		break;
	case 'g':
	case SCREEN_KEY_HOME:
		view->from = 0;
		break;
	case 'G':
	case SCREEN_KEY_END:
		view->from = SIZE_MAX;
		break;
	default:
		break;
	}
	return true;
}

/* ---- the order ----------------------------------------------------------------------------- */

static double key_of(const struct top_step *step, enum top_sort sort)
{
	static const enum stepd_usage_value values[TOP_SORT_MAX] = {
		[TOP_SORT_MEM] = STEPD_USAGE_MEMORY_BYTES,
		[TOP_SORT_PROCS] = STEPD_USAGE_PROCESSES,
	};

	if (sort == TOP_SORT_CPU)
		return top_step_cpu(step);
	if (sort == TOP_SORT_TIME)
		return (double)step->now.elapsed_usec;
	return step->now.step.source[values[sort]] ? (double)step->now.step.value[values[sort]]
						   : -1;
}

/* Numbers descend, names ascend. */
static int compare(const void *a, const void *b, void *userdata)
{
	const struct top_step *x = *(struct top_step *const *)a, *y = *(struct top_step *const *)b;
	const struct top_view *view = userdata;
	double kx, ky;
	int r = 0;

	if (view->sort == TOP_SORT_USER) {
		r = strcmp(x->user, y->user);
	} else if (view->sort != TOP_SORT_STEP) {
		kx = key_of(x, view->sort);
		ky = key_of(y, view->sort);
		r = (kx < ky) - (kx > ky);
	}
	if (r == 0)
		r = strverscmp(x->label, y->label);
	if (r == 0)
		r = strcmp(x->node, y->node);
	return view->reverse ? -r : r;
}

/* ---- the table ----------------------------------------------------------------------------- */

static void add_usage(struct table *table, const char *const *names, const stepd_usage_t *usage,
	double cpu, const char *elapsed)
{
	char share[CTL_TEXT_SIZE], mem[USAGE_TEXT_SIZE], peak[USAGE_TEXT_SIZE],
		procs[USAGE_TEXT_SIZE];

	table_add(table,
		(const char *const[]){names[0], names[1], names[2], usage_cpu_text(cpu, share),
			usage_text(usage, STEPD_USAGE_MEMORY_BYTES, mem),
			usage_text(usage, STEPD_USAGE_MEMORY_PEAK_BYTES, peak),
			usage_text(usage, STEPD_USAGE_PROCESSES, procs), elapsed});
}

static void add_step(struct table *table, const struct top_step *step)
{
	const char *const names[] = {step->label, step->user, step->state};
	char elapsed[CTL_TEXT_SIZE];

	add_usage(table, names, &step->now.step, top_step_cpu(step),
		step->now.time_usec ? ctl_duration_text(step->now.elapsed_usec, elapsed) : "-");
	table_paint(table, 0, TERM_BOLD);
	table_paint(table, 2, term_paint_of(step->state));
}

static void add_task(struct table *table, const struct top_step *step, size_t i)
{
	char name[32];
	const char *const names[] = {name, "", ""};

	(void)snprintf(name, sizeof(name), "  task %u", step->now.task[i].gtid);
	add_usage(table, names, &step->now.tasks[i], top_task_cpu(step, i), "");
}

/* Rows [view->from, ...), at most rows of them; 0: all. */
static void add_rows(
	const struct top_view *view, const struct top_data *data, struct table *table, size_t rows)
{
	size_t i, k, at = 0;

	for (i = 0; i < data->n; i++) {
		size_t n = view->tasks ? data->steps[i]->now.n : 0;

		if (at + 1 + n <= view->from) { /* all of it is above */
			at += 1 + n;
			continue;
		}
		for (k = 0; k <= n && (rows == 0 || table->rows < rows); k++, at++) {
			if (at < view->from)
				continue;
			if (k == 0)
				add_step(table, data->steps[i]);
			else
				add_task(table, data->steps[i], k - 1);
		}
	}
}

/* The last page is the end. */
static void limit_from(struct top_view *view, const struct top_data *data, size_t rows)
{
	size_t i, total = 0;

	for (i = 0; i < data->n; i++)
		total += 1 + (view->tasks ? data->steps[i]->now.n : 0);
	if (total <= rows)
		view->from = 0;
	else if (view->from > total - rows)
		view->from = total - rows;
}

static void print_summary(const struct top_data *data, FILE *f)
{
	_cleanup_free_ char *line = NULL, *cut = NULL;
	char clock[16] = "", mem[CTL_TEXT_SIZE];
	uint64_t bytes = 0;
	double cpu = 0, share;
	size_t i, tasks = 0;
	time_t now = time(NULL);
	struct tm tm;

	for (i = 0; i < data->n; i++) {
		share = top_step_cpu(data->steps[i]);
		cpu += share > 0 ? share : 0;
		bytes += data->steps[i]->now.step.value[STEPD_USAGE_MEMORY_BYTES];
		tasks += data->steps[i]->now.n;
	}
	if (localtime_r(&now, &tm))
		(void)strftime(clock, sizeof(clock), "%T", &tm);
	if (asprintf(&line, "%s  %zu step%s, %zu task%s  cpu %.2f  mem %s", clock, data->n,
		    data->n == 1 ? "" : "s", tasks, tasks == 1 ? "" : "s", cpu,
		    ctl_bytes_text(bytes, mem)) < 0)
		line = NULL;
	cut = line ? term_printable(&data->ctl->term, line, data->ctl->term.width) : NULL;
	(void)fprintf(f, "%s\n", cut ? cut : "");
}

static int top_print_help(const struct top_data *data, size_t rows, FILE *f)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(help_lines) && i < rows; i++) {
		_cleanup_free_ char *cut =
			term_printable(&data->ctl->term, help_lines[i], data->ctl->term.width);

		if (!cut)
			return -ENOMEM;
		(void)fprintf(f, "%s\n", cut);
	}
	return 0;
}

static int print_table(struct top_view *view, struct top_data *data, size_t rows, FILE *f)
{
	static const struct column columns[] = {
		{"STEP", false, 0, 0},
		{"USER", false, 6, 5},
		{"STATE", false, 0, 4},
		{"CPU%", true, 0, 0},
		{"MEM", true, 0, 1},
		{"PEAK", true, 0, 6},
		{"PROCS", true, 0, 3},
		{"TIME", true, 0, 2},
	};
	_cleanup_table_ struct table table = TABLE_INIT(columns, &data->ctl->term);

	if (data->n > 1)
		qsort_r(data->steps, data->n, sizeof(struct top_step *), compare, view);
	if (rows > 0)
		limit_from(view, data, rows);
	add_rows(view, data, &table, rows);
	return table_print(&table, f, 0);
}

/* The frame: at most height lines, 0: all. The caller frees it; NULL: no memory. */
static char *top_view_format(struct top_view *view, struct top_data *data, int height)
{
	size_t rows = height > HEAD_LINES ? (size_t)(height - HEAD_LINES) : height > 0;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	int r;

	if (!f)
		return NULL;
	print_summary(data, f);
	if (view->help)
		r = top_print_help(data, rows, f);
	else
		r = print_table(view, data, rows, f);
	if (fclose(f) == 0 && r == 0)
		return text;
	free(text);
	return NULL;
}

/* ---- for programs -------------------------------------------------------------------------- */

static json_t *pack_share(double share)
{
	return share < 0 ? json_null() : json_real(share);
}

static json_t *pack_step(const struct top_step *step)
{
	json_auto_t *tasks = json_array();
	json_auto_t *doc =
		json_pack("{s:o, s:o, s:o, s:s, s:o}", "step", report_json_text(step->label),
			"node", report_json_text(step->node), "user", report_json_text(step->user),
			"state", step->state, "cpus", pack_share(top_step_cpu(step)));
	int r = doc ? usage_pack(doc, &step->now.step) : -1;
	size_t i;

	for (i = 0; r == 0 && i < step->now.n; i++) {
		json_t *task = json_pack("{s:I, s:o}", "rank", (json_int_t)step->now.task[i].gtid,
			"cpus", pack_share(top_task_cpu(step, i)));

		r = task ? usage_pack(task, &step->now.tasks[i]) : -1;
		r |= json_array_append_new(tasks, task);
	}
	r |= json_object_set(doc, "tasks", tasks);
	return r < 0 ? NULL : take_ptr(doc);
}

/* The same as an object: a new reference, or NULL. */
static json_t *top_view_pack(const struct top_data *data)
{
	json_auto_t *steps = json_array();
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < data->n; i++)
		r = json_array_append_new(steps, pack_step(data->steps[i]));
	return r < 0 ? NULL
		     : json_pack("{s:I, s:O}", "time_usec", (json_int_t)clock_wall_usec(), "steps",
			       steps);
}

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

/* A frame is due: new steps, ended steps, and their usage. */
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

static int top_on_signal(struct top *top)
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
		r = top_on_signal(top);
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

	/* Agents report at the interval, too: shortly after, each has reported twice, and CPU% is
	 * known. */
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
			"--sort: '%.100s' is not one of step, user, cpu, mem, procs, time",
			ctl->opt.sort);
	if (ctl->opt.json && !ctl->opt.batch)
		return err_set_text(&ctl->err, -EINVAL, "--json goes with --batch");
	if (!ctl->opt.batch && (!ctl->term.is_terminal || isatty(STDIN_FILENO) != 1))
		return err_set_text(&ctl->err, -EINVAL,
			"this is not a terminal; 'stepctl top --batch -n 1' prints a table");
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
