/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/sim/report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "contrib/jobd/cli/columns.h"
#include "contrib/jobd/engine/engine.h"
#include "stepd/base/json.h"

#define MS_PER_S   1000
#define NAMED_MAX  10 /* jobs that a table names */
#define USERS_MAX  20 /* users that it has, those with the most CPU time first */
#define NO_NAME    "(none)"
#define LABEL_SIZE 18
#define CELL_SIZE  13

static void *must_have(void *memory)
{
	if (!memory)
		abort(); /* as the bitmaps do */
	return memory;
}

/* ---- the values of a table ---------------------------------------------------------------------
 */

enum unit {
	UNIT_COUNT,
	UNIT_SECONDS,
	UNIT_CPU_SECONDS,
	UNIT_RATIO,
	UNIT_PERCENT,
};

/* In the order of the document and of tables. title: of a column; NULL: it is in the table of all
 * jobs alone. */
static const struct value {
	const char *member, *name, *title;
	enum unit unit;
	size_t offset; /* in struct metrics_summary */
} values[] = {
#define AT(member_) offsetof(struct metrics_summary, member_)
	{"jobs", "jobs", "jobs", UNIT_COUNT, AT(jobs)},
	{"completed", "completed", NULL, UNIT_COUNT, AT(completed)},
	{"failed", "failed", NULL, UNIT_COUNT, AT(failed)},
	{"timed_out", "ended at their time limit", NULL, UNIT_COUNT, AT(timed_out)},
	{"preempted", "ended by preemption", NULL, UNIT_COUNT, AT(preempted)},
	{"waiting", "left waiting", NULL, UNIT_COUNT, AT(waiting)},
	{"wait_mean_s", "wait, mean", "wait", UNIT_SECONDS, AT(wait_mean_s)},
	{"wait_median_s", "wait, median", "median", UNIT_SECONDS, AT(wait_median_s)},
	{"wait_p95_s", "wait, of 95 % at most", "95 %", UNIT_SECONDS, AT(wait_p95_s)},
	{"wait_max_s", "wait, longest", NULL, UNIT_SECONDS, AT(wait_max_s)},
	{"slowdown_mean", "bounded slowdown, mean", "slowdown", UNIT_RATIO, AT(slowdown_mean)},
	{"slowdown_median", "bounded slowdown, median", NULL, UNIT_RATIO, AT(slowdown_median)},
	{"preemptions", "preemptions", "preempt.", UNIT_COUNT, AT(preemptions)},
	{"suspensions", "suspensions", "suspens.", UNIT_COUNT, AT(suspensions)},
	{"suspended_s", "time suspended", NULL, UNIT_SECONDS, AT(stood_s)},
	{"cpu_s", "CPU time", "CPU time", UNIT_CPU_SECONDS, AT(cpu_s)},
	{"lost_cpu_s", "of it lost by preemption", "lost", UNIT_CPU_SECONDS, AT(lost_cpu_s)},
	{"utilisation", "utilisation", "utilis.", UNIT_PERCENT, AT(utilisation)},
#undef AT
};

/* Of whole simulations. */
static const struct value totals[] = {
	{"duration_s", "from first submission to last end", NULL, UNIT_SECONDS, 0},
	{"most_waiting", "jobs waiting at a time, at most", NULL, UNIT_COUNT, 0},
};

/* ---- the document ------------------------------------------------------------------------------
 */

static double value_of(const json_t *object, const char *member)
{
	return json_number_value(json_object_get(object, member));
}

static json_t *seconds_json(uint64_t ms)
{
	return ms % MS_PER_S ? json_real((double)ms / MS_PER_S)
			     : json_integer((json_int_t)(ms / MS_PER_S));
}

json_t *report_text(const char *text)
{
	json_t *json = json_string(text);
	char printable[1024];

	if (json)
		return json;
	err_printable(printable, sizeof(printable), text);
	return must_have(json_string(printable));
}

static void put(json_t *object, const char *name, json_t *value)
{
	if (json_object_set_new(object, name, must_have(value)) < 0)
		must_have(NULL);
}

static double duration_s(const struct metrics *m)
{
	return m->first_ms == UINT64_MAX ? 0 : (double)(m->last_ms - m->first_ms) / MS_PER_S;
}

static json_t *summary_json(
	const struct report_input *in, const struct metrics_job *const *jobs, size_t n)
{
	json_t *json = must_have(json_object());
	struct metrics_summary summary;
	size_t i;

	metrics_summarise(jobs, n, duration_s(in->metrics) * in->cpus, &summary);
	for (i = 0; i < ARRAY_SIZE(values); i++) {
		const char *at = (const char *)&summary + values[i].offset;

		put(json, values[i].member,
			values[i].unit == UNIT_COUNT
				? json_integer((json_int_t) * (const uint64_t *)(const void *)at)
				: json_real(*(const double *)(const void *)at));
	}
	return json;
}

static const char *key_name(const struct report_input *in, enum metrics_key key, uint32_t number)
{
	if (number == METRICS_NONE)
		return NO_NAME;
	switch (key) {
	case METRICS_BY_PART:
		return in->conf->parts[number].name;
	case METRICS_BY_QOS:
		return in->conf->qos[number].name;
	case METRICS_BY_USER:
		return in->trace->users.v[number];
	case METRICS_KEY_MAX:
		break;
	}
	return "";
}

/* jobs is put in another order. */
static json_t *groups_json(const struct report_input *in, const struct metrics_job **jobs, size_t n,
	enum metrics_key key)
{
	json_t *list = must_have(json_array()), *group;
	size_t from, to;

	metrics_sort(jobs, n, key);
	for (from = 0; from < n; from = to) {
		uint32_t number = metrics_key(jobs[from], key);

		for (to = from + 1; to < n && metrics_key(jobs[to], key) == number; to++)
			;
		group = summary_json(in, jobs + from, to - from);
		put(group, "name", report_text(key_name(in, key, number)));
		(void)json_array_append_new(list, group);
	}
	return list;
}

char *report_job_name(const struct metrics_job *job)
{
	struct trace_job named = {.number = job->trace->number, .task_id = job->task_id};

	return trace_job_name(&named);
}

static json_t *runs_json(const struct metrics *m, const struct metrics_job *job)
{
	json_t *list = must_have(json_array()), *run;
	size_t i;

	for (i = job->first_run; i != SIZE_MAX; i = m->runs[i].next) {
		const struct metrics_run *r = &m->runs[i];

		if (r->begin_ms == r->end_ms && r->stands)
			continue;
		run = must_have(json_object());
		put(run, "begin", seconds_json(r->begin_ms));
		put(run, "end", seconds_json(r->end_ms));
		put(run, "nodes", report_text(r->nodes));
		put(run, "cpus", json_integer(r->cpus));
		if (r->stands)
			put(run, "suspended", json_true());
		if (r->lost)
			put(run, "lost", json_true());
		(void)json_array_append_new(list, run);
	}
	return list;
}

static json_t *job_json(const struct report_input *in, const struct metrics_job *job)
{
	_cleanup_free_ char *name = must_have(report_job_name(job));
	json_t *json = must_have(json_object());

	put(json, "job", report_text(name));
	put(json, "line", json_integer(job->trace->line));
	put(json, "user", report_text(in->trace->users.v[job->trace->user]));
	put(json, "partition", report_text(key_name(in, METRICS_BY_PART, job->part)));
	if (job->qos != METRICS_NONE)
		put(json, "qos", report_text(in->conf->qos[job->qos].name));
	put(json, "state",
		report_text(
			job->state == METRICS_ENDED ? job_state_name(job->end_state) : "PENDING"));
	put(json, "submit", seconds_json(job->submit_ms));
	if (job->has_started)
		put(json, "start", seconds_json(job->start_ms));
	if (job->state == METRICS_ENDED)
		put(json, "end", seconds_json(job->end_ms));
	put(json, "cpus", json_integer(job->cpus));
	put(json, "preemptions", json_integer(job->preemptions));
	put(json, "suspensions", json_integer(job->suspensions));
	put(json, "suspended_s", seconds_json(job->stood_ms));
	put(json, "lost_cpu_s", seconds_json(job->lost_cpu_ms));
	put(json, "runs", runs_json(in->metrics, job));
	return json;
}

static json_t *jobs_json(const struct report_input *in)
{
	json_t *list = must_have(json_array());
	size_t i;

	for (i = 0; i < in->metrics->count; i++) {
		const struct metrics_job *job = metrics_find(in->metrics, (uint32_t)i);

		if (job)
			(void)json_array_append_new(list, job_json(in, job));
	}
	return list;
}

static json_t *notes_json(const struct strv *notes)
{
	json_t *list = must_have(json_array());
	size_t i;

	for (i = 0; i < notes->n; i++)
		(void)json_array_append_new(list, report_text(notes->v[i]));
	return list;
}

static void put_totals(json_t *json, const struct report_input *in, const json_t *all)
{
	const struct metrics *m = in->metrics;
	uint64_t first_ms = m->first_ms == UINT64_MAX ? m->last_ms : m->first_ms;

	put(json, "conf", report_text(in->conf_file));
	put(json, "nodes", json_integer((json_int_t)in->conf->nodes_count));
	put(json, "node_names", report_text(in->node_names));
	put(json, "cpus", json_integer(in->cpus));
	put(json, "begin", seconds_json(first_ms));
	put(json, "end", seconds_json(m->last_ms));
	put(json, "duration_s", json_real(duration_s(m)));
	put(json, "most_waiting", json_integer(m->most_waiting));
	put(json, "utilisation", json_real(value_of(all, "utilisation")));
}

json_t *report_make(const struct report_input *in)
{
	json_t *json = must_have(json_object()), *all;
	const struct metrics_job **jobs;
	size_t n = 0;

	jobs = metrics_list(in->metrics, &n);
	all = summary_json(in, jobs, n);
	put_totals(json, in, all);
	put(json, "all", all);
	put(json, "partitions", groups_json(in, jobs, n, METRICS_BY_PART));
	put(json, "qos", groups_json(in, jobs, n, METRICS_BY_QOS));
	put(json, "users", groups_json(in, jobs, n, METRICS_BY_USER));
	put(json, "refused", in->refused);
	put(json, "waiting", in->waiting);
	put(json, "notes", notes_json(in->notes));
	if (in->lists_jobs)
		put(json, "jobs", jobs_json(in));
	free(jobs);
	return json;
}

int report_write_json(const json_t *document, const char *file, struct err *err)
{
	FILE *out = strcmp(file, "-") == 0 ? stdout : fopen(file, "we");
	int r;

	if (!out)
		return err_set(err, -errno, "open '%s' for the JSON", file);
	r = json_dumpf(document, out, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
	if (fputc('\n', out) == EOF)
		r = -1;
	if ((out == stdout ? fflush(out) : fclose(out)) != 0 || r < 0)
		return err_set(err, errno ? -errno : -EIO, "write the JSON to '%s'", file);
	return 0;
}

/* ---- tables ------------------------------------------------------------------------------------
 */

/* "12:34", "3.25", "12.5 %", "1.50 h". */
static void format_value(const struct value *value, double x, char text[32])
{
	_cleanup_free_ char *time = NULL;

	switch (value->unit) {
	case UNIT_COUNT:
		(void)snprintf(text, 32, "%.0f", x);
		break;
	case UNIT_SECONDS:
		time = must_have(text_of_seconds(llround(x)));
		(void)snprintf(text, 32, "%s", time);
		break;
	case UNIT_CPU_SECONDS:
		(void)snprintf(text, 32, "%.2f h", x / 3600);
		break;
	case UNIT_RATIO:
		(void)snprintf(text, 32, "%.2f", x);
		break;
	case UNIT_PERCENT:
		(void)snprintf(text, 32, "%.1f %%", 100 * x);
		break;
	}
}

/* A line for each value: of each simulation, and how the second differs. */
static void print_lines(
	const struct value *list, size_t n, const json_t *const *objects, size_t count, FILE *out)
{
	char text[32];
	size_t i, k;

	for (i = 0; i < n; i++) {
		double a = value_of(objects[0], list[i].member);

		(void)fprintf(out, "  %-34s", list[i].name);
		for (k = 0; k < count; k++) {
			format_value(&list[i], value_of(objects[k], list[i].member), text);
			(void)fprintf(out, " %*s", CELL_SIZE, text);
		}
		if (count == 2 && a > 0)
			(void)fprintf(out, " %+9.1f %%",
				100 * (value_of(objects[1], list[i].member) / a - 1));
		(void)fputc('\n', out);
	}
}

/* In a terminal nothing of a trace or of a file's name moves the cursor. */
static void print_name(const char *name, FILE *out)
{
	char text[LABEL_SIZE + 1];

	err_printable(text, sizeof(text), name); /* cuts no character into halves */
	(void)fprintf(out, "%-*s", LABEL_SIZE, text);
}

static void print_text(const char *text, FILE *out)
{
	char printable[2048];

	err_printable(printable, sizeof(printable), text);
	(void)fputs(printable, out);
}

static const json_t *find_group(const json_t *list, const char *name)
{
	const json_t *group;
	size_t i;

	json_array_foreach (list, i, group) {
		if (strcmp(json_get_text(group, "name", ""), name) == 0)
			return group;
	}
	return NULL;
}

static void print_group(const json_t *group, FILE *out)
{
	char text[32];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(values); i++) {
		if (!values[i].title)
			continue;
		format_value(&values[i], value_of(group, values[i].member), text);
		(void)fprintf(out, " %11s", group ? text : "-");
	}
	(void)fputc('\n', out);
}

/* A group's line, or one for each simulation that has it. */
static void print_row(const char *name, const json_t *const *lists, size_t count, FILE *out)
{
	static const char *const marks[] = {"A", "B"};
	size_t k;

	for (k = 0; k < count; k++) {
		(void)fputs("  ", out);
		print_name(k == 0 ? name : "", out);
		if (count > 1)
			(void)fprintf(out, " %s", marks[k]);
		print_group(find_group(lists[k], name), out);
	}
}

static int by_cpu_time(const void *a, const void *b)
{
	double x = value_of(*(const json_t *const *)a, "cpu_s"),
	       y = value_of(*(const json_t *const *)b, "cpu_s");

	return (x < y) - (x > y);
}

/* Groups of either simulation in the order of the first; many are cut to those with most CPU time.
 */
static size_t list_groups(const json_t *const *lists, size_t count, const json_t ***ret_groups)
{
	size_t n = json_array_size(lists[0]) + (count > 1 ? json_array_size(lists[1]) : 0), k, i;
	const json_t **groups = must_have(calloc(n + 1, sizeof(*groups))), *group;

	n = 0;
	for (k = 0; k < count; k++) {
		json_array_foreach (lists[k], i, group) {
			if (k == 0 || !find_group(lists[0], json_get_text(group, "name", "")))
				groups[n++] = group;
		}
	}
	if (n > USERS_MAX)
		qsort(groups, n, sizeof(*groups), by_cpu_time);
	*ret_groups = groups;
	return n;
}

static void print_groups(const char *title, const char *member, const json_t *const *simulations,
	size_t count, FILE *out)
{
	const json_t *lists[2] = {NULL, NULL}, **groups;
	size_t i, n;

	for (i = 0; i < count; i++)
		lists[i] = json_get_array(simulations[i], member);
	n = list_groups(lists, count, &groups);
	if (n == 1 && strcmp(json_get_text(groups[0], "name", ""), NO_NAME) == 0)
		n = 0; /* no job has one */
	if (n > 0) {
		(void)fprintf(out, "\n%-*s", LABEL_SIZE + 2 + (count > 1 ? 2 : 0), title);
		for (i = 0; i < ARRAY_SIZE(values); i++) {
			if (values[i].title)
				(void)fprintf(out, " %11s", values[i].title);
		}
		(void)fputc('\n', out);
	}
	for (i = 0; i < n && i < USERS_MAX; i++)
		print_row(json_get_text(groups[i], "name", ""), lists, count, out);
	if (n > USERS_MAX)
		(void)fprintf(out, "  and %zu more with less CPU time\n", n - USERS_MAX);
	free(groups);
}

/* "3 jobs can never run:", with the first of them. */
static void print_named(const json_t *list, const char *what, FILE *out)
{
	size_t n = json_array_size(list), i;

	if (n == 0)
		return;
	(void)fprintf(out, "\n%zu %s:\n", n, what);
	for (i = 0; i < n && i < NAMED_MAX; i++) {
		const json_t *job = json_array_get(list, i);

		(void)fprintf(out, "  job %s (line %lld): ", json_get_text(job, "job", ""),
			(long long)json_get_int(job, "line", 0));
		print_text(json_get_text(job, "reason", ""), out);
		(void)fputc('\n', out);
	}
	if (n > NAMED_MAX)
		(void)fprintf(out, "  and %zu more, all of which are in the JSON\n", n - NAMED_MAX);
}

static void print_time(double t, FILE *out)
{
	const time_t seconds = (time_t)t;
	char text[64];
	struct tm tm;

	if (!gmtime_r(&seconds, &tm) || !strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm))
		text[0] = '\0';
	(void)fputs(text, out);
}

static void print_head(const json_t *simulation, const char *mark, FILE *out)
{
	(void)fputs(mark, out);
	print_text(json_get_text(simulation, "conf", ""), out);
	(void)fprintf(out, ": %lld nodes, %lld CPUs, ",
		(long long)json_get_int(simulation, "nodes", 0),
		(long long)json_get_int(simulation, "cpus", 0));
	print_time(value_of(simulation, "begin"), out);
	(void)fputs(" to ", out);
	print_time(value_of(simulation, "end"), out);
	(void)fputc('\n', out);
}

static void print_tail(const json_t *simulation, bool is_one, FILE *out)
{
	const json_t *note;
	size_t i;

	if (!is_one &&
		json_array_size(json_object_get(simulation, "refused")) +
				json_array_size(json_object_get(simulation, "waiting")) +
				json_array_size(json_object_get(simulation, "notes")) >
			0) {
		(void)fputc('\n', out);
		print_text(json_get_text(simulation, "conf", ""), out);
		(void)fputc('\n', out);
	}
	print_named(json_get_array(simulation, "refused"), "rows were refused and never ran", out);
	print_named(json_get_array(simulation, "waiting"), "jobs were left waiting", out);
	json_array_foreach (json_get_array(simulation, "notes"), i, note) {
		(void)fputc('\n', out);
		print_text(json_string_value(note), out);
		(void)fputs(".\n", out);
	}
}

int report_print(const json_t *document, FILE *out, struct err *err)
{
	const json_t *list = json_get_array(document, "simulations");
	const json_t *simulations[2] = {json_array_get(list, 0), json_array_get(list, 1)}, *alls[2];
	size_t count = simulations[1] ? 2 : 1, i;

	for (i = 0; i < count; i++) {
		alls[i] = json_get_object(simulations[i], "all");
		print_head(simulations[i], count == 1 ? "" : i == 0 ? "A  " : "B  ", out);
	}
	(void)fputc('\n', out);
	if (count == 2)
		(void)fprintf(out, "  %-34s %*s %*s %11s\n", "", CELL_SIZE, "A", CELL_SIZE, "B",
			"B to A");
	print_lines(values, ARRAY_SIZE(values), alls, count, out);
	print_lines(totals, ARRAY_SIZE(totals), simulations, count, out);
	print_groups("partition", "partitions", simulations, count, out);
	print_groups("QOS", "qos", simulations, count, out);
	print_groups("user", "users", simulations, count, out);
	for (i = 0; i < count; i++)
		print_tail(simulations[i], count == 1, out);
	if (fflush(out) != 0 || ferror(out))
		return err_set(err, errno ? -errno : -EIO, "write the tables");
	return 0;
}
