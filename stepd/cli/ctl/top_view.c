/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/ctl/top.h"

#include <jansson.h>
#include <string.h>
#include <time.h>

#include "stepd/account/usage.h"
#include "stepd/base/clock.h"
#include "stepd/cli/ctl/top_screen.h"
#include "stepd/record/report.h"

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

int top_sort_parse(const char *text, enum top_sort *ret_sort)
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

bool top_view_press(struct top_view *view, int key, int height)
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

/* The largest number comes first, and the first name. */
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

static int print_help(const struct top_data *data, size_t rows, FILE *f)
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

char *top_view_format(struct top_view *view, struct top_data *data, int height)
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
		r = print_help(data, rows, f);
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

json_t *top_view_pack(const struct top_data *data)
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
