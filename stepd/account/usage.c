/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/account/usage.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proctrack/proctrack.h"
#include "proctrack/procusage.h"
#include "stepd/base/cleanup.h"
#include "stepd/base/err.h"
#include "stepd/base/parse.h"
#include "stepd/snapshot/handover.h"

/* ---- the values ---------------------------------------------------------------------------- */

/* clang-format off */
const struct usage_value usage_values[STEPD_USAGE_COUNT] = {
	[STEPD_USAGE_CPU_USER_USEC] = {.name = "cpu_user_usec", .title = "CPU user", .unit = USAGE_UNIT_USEC},
	[STEPD_USAGE_CPU_SYSTEM_USEC] = {.name = "cpu_system_usec", .title = "CPU system", .unit = USAGE_UNIT_USEC},
	[STEPD_USAGE_CPU_THROTTLED_USEC] = {.name = "cpu_throttled_usec", .title = "CPU throttled", .unit = USAGE_UNIT_USEC},
	[STEPD_USAGE_MEMORY_BYTES] = {.name = "memory_bytes", .title = "memory now", .unit = USAGE_UNIT_BYTES, .now = true},
	[STEPD_USAGE_MEMORY_PEAK_BYTES] = {.name = "memory_peak_bytes", .title = "memory peak", .unit = USAGE_UNIT_BYTES, .peak = true},
	[STEPD_USAGE_SWAP_BYTES] = {.name = "swap_bytes", .title = "swap now", .unit = USAGE_UNIT_BYTES, .now = true},
	[STEPD_USAGE_PAGE_FAULTS] = {.name = "page_faults", .title = "page faults", .unit = USAGE_UNIT_COUNT},
	[STEPD_USAGE_MAJOR_FAULTS] = {.name = "major_faults", .title = "major faults", .unit = USAGE_UNIT_COUNT},
	[STEPD_USAGE_OOM_EVENTS] = {.name = "oom_events", .title = "OOM events", .unit = USAGE_UNIT_COUNT},
	[STEPD_USAGE_OOM_KILLS] = {.name = "oom_kills", .title = "OOM kills", .unit = USAGE_UNIT_COUNT},
	[STEPD_USAGE_PROCESSES] = {.name = "processes", .title = "processes now", .unit = USAGE_UNIT_COUNT, .now = true},
	[STEPD_USAGE_PIDS_MAX_EVENTS] = {.name = "pids_max_events", .title = "forks refused", .unit = USAGE_UNIT_COUNT},
	[STEPD_USAGE_IO_READ_BYTES] = {.name = "io_read_bytes", .title = "read", .unit = USAGE_UNIT_BYTES},
	[STEPD_USAGE_IO_WRITE_BYTES] = {.name = "io_write_bytes", .title = "written", .unit = USAGE_UNIT_BYTES},
	[STEPD_USAGE_CPU_PRESSURE_USEC] = {.name = "cpu_pressure_usec", .title = "CPU pressure", .unit = USAGE_UNIT_USEC},
	[STEPD_USAGE_MEMORY_PRESSURE_USEC] = {.name = "memory_pressure_usec", .title = "memory pressure", .unit = USAGE_UNIT_USEC},
	[STEPD_USAGE_IO_PRESSURE_USEC] = {.name = "io_pressure_usec", .title = "io pressure", .unit = USAGE_UNIT_USEC},
};
/* clang-format on */

const char *const usage_source_names[STEPD_USAGE_SOURCE_COUNT] = {
	[STEPD_USAGE_UNKNOWN] = "unknown",
	[STEPD_USAGE_CGROUP] = "cgroup",
	[STEPD_USAGE_PROC] = "proc",
	[STEPD_USAGE_RUSAGE] = "rusage",
};

const char usage_source_letters[STEPD_USAGE_SOURCE_COUNT + 1] = {
	[STEPD_USAGE_UNKNOWN] = '-',
	[STEPD_USAGE_CGROUP] = 'c',
	[STEPD_USAGE_PROC] = 'p',
	[STEPD_USAGE_RUSAGE] = 'r',
};

/* Without a cgroup that counts it, the peak is that of the largest process, not of all; it can be
 * less than all of them use now. */
static const char *usage_title(enum stepd_usage_value which, uint8_t source)
{
	if (which == STEPD_USAGE_MEMORY_PEAK_BYTES &&
		(source == STEPD_USAGE_PROC || source == STEPD_USAGE_RUSAGE))
		return "largest process";
	return usage_values[which].title;
}

int usage_pack(json_t *object, const stepd_usage_t *usage)
{
	json_t *values = json_object(), *sources = json_object();
	int i, r = values && sources ? 0 : -1;

	for (i = 0; r == 0 && i < STEPD_USAGE_COUNT; i++) {
		if (!usage->source[i])
			continue;
		r = json_object_set_new(
			values, usage_values[i].name, json_integer((json_int_t)usage->value[i]));
		if (r == 0)
			r = json_object_set_new(sources, usage_values[i].name,
				json_string(usage_source_names[usage->source[i]]));
	}
	if (r == 0)
		r = json_object_set(object, "usage", values);
	if (r == 0)
		r = json_object_set(object, "usage_sources", sources);
	json_decref(values);
	json_decref(sources);
	return r;
}

/* ---- for people ---------------------------------------------------------------------------- */

/* Three significant digits: 1.23, 12.3, 123. */
static void print_scaled(char *buf, double value, const char *unit)
{
	/* the limits are where rounding takes the number to one digit more */
	int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;

	(void)snprintf(buf, USAGE_TEXT_SIZE, "%.*f %s", digits, value, unit);
}

static void print_usec(char *buf, uint64_t usec)
{
	uint64_t seconds = usec / 1000000, hours = seconds / 3600;

	if (usec < 1000)
		(void)snprintf(buf, USAGE_TEXT_SIZE, "%u us", (unsigned)usec);
	else if (usec < 999500)
		print_scaled(buf, (double)usec / 1e3, "ms");
	else if (usec < 599500000)
		print_scaled(buf, (double)usec / 1e6, "s");
	else if (hours < 1)
		(void)snprintf(buf, USAGE_TEXT_SIZE, "%um%02us", (unsigned)(seconds / 60),
			(unsigned)(seconds % 60));
	else if (hours < 100)
		(void)snprintf(buf, USAGE_TEXT_SIZE, "%uh%02um", (unsigned)hours,
			(unsigned)(seconds / 60 % 60));
	else
		(void)snprintf(buf, USAGE_TEXT_SIZE, "%llud%02uh", (unsigned long long)(hours / 24),
			(unsigned)(hours % 24));
}

static void print_bytes(char *buf, uint64_t bytes)
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double scaled = (double)bytes / 1024;
	size_t i = 0;

	if (bytes < 1024) {
		(void)snprintf(buf, USAGE_TEXT_SIZE, "%u B", (unsigned)bytes);
		return;
	}
	for (; scaled >= 1023.5 && i + 1 < sizeof(units) / sizeof(units[0]); i++)
		scaled /= 1024;
	print_scaled(buf, scaled, units[i]);
}

static void print_count(char *buf, uint64_t n)
{
	static const char letters[] = {'k', 'M', 'G', 'T'};
	uint64_t scaled = n;
	size_t i;

	if (n < 10000000) {
		(void)snprintf(buf, USAGE_TEXT_SIZE, "%u", (unsigned)n);
		return;
	}
	for (i = 0; i < sizeof(letters); i++) {
		scaled /= 1000;
		if (scaled < 100000)
			break;
	}
	(void)snprintf(buf, USAGE_TEXT_SIZE, "%llu %c", (unsigned long long)scaled,
		letters[i < sizeof(letters) ? i : sizeof(letters) - 1]);
}

const char *usage_text(const stepd_usage_t *usage, enum stepd_usage_value which, char *buf)
{
	uint64_t n = usage->value[which];

	if (!usage->source[which])
		(void)snprintf(buf, USAGE_TEXT_SIZE, "-");
	else if (usage_values[which].unit == USAGE_UNIT_USEC)
		print_usec(buf, n);
	else if (usage_values[which].unit == USAGE_UNIT_BYTES)
		print_bytes(buf, n);
	else
		print_count(buf, n);
	return buf;
}

/* ---- sums ---------------------------------------------------------------------------------- */

static void set(stepd_usage_t *usage, enum stepd_usage_value which, uint64_t value)
{
	usage->value[which] = value;
	usage->source[which] = STEPD_USAGE_RUSAGE;
}

static uint64_t usec_of(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * 1000000u + (uint64_t)tv->tv_usec;
}

void usage_from_rusage(const struct rusage *ru, long floor_kib, stepd_usage_t *ret_usage)
{
	stepd_usage_t usage = {0};

	set(&usage, STEPD_USAGE_CPU_USER_USEC, usec_of(&ru->ru_utime));
	set(&usage, STEPD_USAGE_CPU_SYSTEM_USEC, usec_of(&ru->ru_stime));
	if (ru->ru_maxrss > floor_kib)
		set(&usage, STEPD_USAGE_MEMORY_PEAK_BYTES, (uint64_t)ru->ru_maxrss * 1024);
	set(&usage, STEPD_USAGE_PAGE_FAULTS, (uint64_t)ru->ru_minflt + (uint64_t)ru->ru_majflt);
	set(&usage, STEPD_USAGE_MAJOR_FAULTS, (uint64_t)ru->ru_majflt);
	/* Both are zero where the kernel does not count them (CONFIG_TASK_IO_ACCOUNTING): not a
	 * known value. */
	if (access("/proc/self/io", F_OK) == 0) {
		set(&usage, STEPD_USAGE_IO_READ_BYTES, (uint64_t)ru->ru_inblock * 512);
		set(&usage, STEPD_USAGE_IO_WRITE_BYTES, (uint64_t)ru->ru_oublock * 512);
	}
	*ret_usage = usage;
}

void usage_add(stepd_usage_t *sum, const stepd_usage_t *more)
{
	int i;

	for (i = 0; i < STEPD_USAGE_COUNT; i++) {
		if (!more->source[i])
			continue;
		if (!sum->source[i])
			sum->source[i] = more->source[i];
		if (!usage_values[i].peak)
			sum->value[i] += more->value[i];
		else if (more->value[i] > sum->value[i])
			sum->value[i] = more->value[i];
	}
}

static bool is_better(const stepd_usage_t *last, const stepd_usage_t *now, int i)
{
	bool was_group = last->source[i] == STEPD_USAGE_CGROUP;
	bool is_group = now->source[i] == STEPD_USAGE_CGROUP;

	if (!now->source[i])
		return false;
	if (!last->source[i] || usage_values[i].now)
		return true;
	return was_group == is_group ? now->value[i] >= last->value[i] : is_group;
}

void usage_update(stepd_usage_t *last, const stepd_usage_t *now)
{
	int i;

	for (i = 0; i < STEPD_USAGE_COUNT; i++) {
		if (!is_better(last, now, i))
			continue;
		last->value[i] = now->value[i];
		last->source[i] = now->source[i];
	}
}

/* ---- of a step and its tasks --------------------------------------------------------------- */

int usage_open(struct usage *u, uint32_t n)
{
	*u = (struct usage){.enabled = true};
	u->tasks = calloc((size_t)n + 1, sizeof(*u->tasks));
	u->polled = calloc((size_t)n + 1, sizeof(*u->polled));
	if (u->tasks && u->polled)
		return 0;
	usage_clear(u);
	return -ENOMEM;
}

void usage_clear(struct usage *u)
{
	free(u->tasks);
	free(u->polled);
	*u = (struct usage){0};
}

static int grow(stepd_usage_t **v, uint32_t n, uint32_t more)
{
	stepd_usage_t *grown = realloc(*v, ((size_t)n + more + 1) * sizeof(**v));

	if (!grown)
		return -ENOMEM;
	memset(grown + n, 0, ((size_t)more + 1) * sizeof(*grown));
	*v = grown;
	return 0;
}

int usage_grow(struct usage *u, uint32_t n, uint32_t more)
{
	int r = u->tasks ? grow(&u->tasks, n, more) : 0;

	return r == 0 && u->polled ? grow(&u->polled, n, more) : r;
}

/* /proc has no processes that have ended; the agent's sum has. */
static void add_waited(const struct usage *u, stepd_usage_t *now)
{
	stepd_usage_t more = u->waited;
	int i;

	for (i = 0; i < STEPD_USAGE_COUNT; i++) {
		if (now->source[i] != STEPD_USAGE_PROC)
			more.source[i] = STEPD_USAGE_UNKNOWN;
	}
	usage_add(now, &more);
}

int usage_poll(struct usage *u, struct proctrack *pt, const stepd_step_rec_t *job)
{
	stepd_usage_t step = {0};
	uint32_t i;
	int r;

	r = proctrack_usage_tasks(pt, job->cont_id, job->task, job->node_tasks, &step, u->polled);
	if (r < 0)
		return r;
	add_waited(u, &step);
	usage_update(&u->step, &step);
	for (i = 0; i < job->node_tasks; i++)
		usage_update(&u->tasks[i], &u->polled[i]);
	return 0;
}

void usage_reaped(struct usage *u, const struct rusage *ru)
{
	stepd_usage_t more;

	usage_from_rusage(ru, u->floor_kib, &more);
	usage_add(&u->waited, &more);
}

/* Values of the moment do not hold once the processes have ended. */
static void forget_moment(stepd_usage_t *usage)
{
	int i;

	for (i = 0; i < STEPD_USAGE_COUNT; i++) {
		if (usage_values[i].now && usage->source[i] == STEPD_USAGE_PROC)
			usage->source[i] = STEPD_USAGE_UNKNOWN;
	}
}

void usage_task_ended(
	struct usage *u, uint32_t local_id, const stepd_usage_t *counted, const struct rusage *ru)
{
	stepd_usage_t last = counted ? *counted : (stepd_usage_t){0}, waited = {0};

	if (ru)
		usage_from_rusage(ru, u->floor_kib, &waited);
	procusage_fill(&last, &waited);
	usage_update(&u->tasks[local_id], &last);
	forget_moment(&u->tasks[local_id]);
}

void usage_finish(struct usage *u, struct proctrack *pt, const stepd_step_rec_t *job)
{
	stepd_usage_t last;
	uint32_t i;

	for (i = 0; i < job->node_tasks; i++) {
		/* it stands where the task has left processes behind */
		if (proctrack_usage(pt, job->cont_id, &job->task[i].gtid, &last) == 0)
			usage_update(&u->tasks[i], &last);
	}
	if (proctrack_usage(pt, job->cont_id, NULL, &last) < 0)
		last = (stepd_usage_t){0}; /* what was seen before stays */
	forget_moment(&last);              /* read by the host, of a tracker that counts nothing */
	procusage_fill(&last, &u->waited);
	usage_update(&u->step, &last);
	forget_moment(&u->step);
}

/* ---- re-exec ------------------------------------------------------------------------------- */

/* The letters of the sources and then the values, in the order of the names, which are saved
 * once: a step of 1,000 tasks has 17,000 values. */
static void save_values(const stepd_usage_t *usage, struct handover *h, json_t *array)
{
	char letters[STEPD_USAGE_COUNT + 1] = "";
	int i;

	for (i = 0; i < STEPD_USAGE_COUNT; i++)
		letters[i] = usage_source_letters[usage->source[i]];
	handover_append_text(h, array, letters);
	for (i = 0; i < STEPD_USAGE_COUNT; i++)
		handover_append_int(h, array, (int64_t)usage->value[i]);
}

void usage_save(const struct usage *u, uint32_t n, struct handover *h, json_t *object)
{
	json_t *names = handover_put_array(h, object, "names"), *tasks;
	uint32_t i;

	for (i = 0; i < STEPD_USAGE_COUNT; i++)
		handover_append_text(h, names, usage_values[i].name);
	handover_put_bool(h, object, "kept", u->enabled);
	save_values(&u->step, h, handover_put_array(h, object, "step"));
	save_values(&u->waited, h, handover_put_array(h, object, "waited"));
	if (!u->tasks)
		return;
	tasks = handover_put_array(h, object, "tasks");
	for (i = 0; i < n; i++)
		save_values(&u->tasks[i], h, handover_append_array(h, tasks));
}

/* For each index of the saved arrays which value it has, -1 for one that is not known. */
static void map_names(const json_t *names, int map[STEPD_USAGE_COUNT])
{
	const char *name;
	int i, k;

	for (i = 0; i < STEPD_USAGE_COUNT; i++) {
		map[i] = -1;
		name = json_string_value(json_array_get(names, (size_t)i));
		for (k = 0; name && k < STEPD_USAGE_COUNT; k++) {
			if (strcmp(usage_values[k].name, name) == 0)
				map[i] = k;
		}
	}
}

static void restore_values(
	const json_t *array, const int map[STEPD_USAGE_COUNT], stepd_usage_t *ret_usage)
{
	const char *letters = json_string_value(json_array_get(array, 0)), *found;
	int i;

	*ret_usage = (stepd_usage_t){0};
	for (i = 0; letters && letters[i] && i < STEPD_USAGE_COUNT; i++) {
		found = strchr(usage_source_letters, letters[i]);
		if (!found || map[i] < 0)
			continue;
		ret_usage->source[map[i]] = (uint8_t)(found - usage_source_letters);
		ret_usage->value[map[i]] =
			(uint64_t)json_integer_value(json_array_get(array, (size_t)i + 1));
	}
}

void usage_restore(struct usage *u, uint32_t n, const json_t *object)
{
	const json_t *tasks = json_get_array(object, "tasks");
	int map[STEPD_USAGE_COUNT];
	uint32_t i;

	map_names(json_get_array(object, "names"), map);
	u->enabled = json_get_bool(object, "kept", u->enabled);
	restore_values(json_get_array(object, "step"), map, &u->step);
	restore_values(json_get_array(object, "waited"), map, &u->waited);
	for (i = 0; u->tasks && i < n; i++)
		restore_values(json_array_get(tasks, i), map, &u->tasks[i]);
}

/* ---- the table ----------------------------------------------------------------------------- */

#define COLUMNS_MAX 4 /* tasks with a column each */

/* One value over the tasks of which it is known. */
struct spread {
	size_t known;
	size_t least, most; /* indices */
	stepd_usage_t mean; /* this value only */
	enum stepd_usage_source source;
	bool mixed; /* of several sources */
};

static struct spread spread_of(const struct usage_view *view, enum stepd_usage_value which)
{
	struct spread s = {0};
	long double sum = 0; /* 64 bits of a mantissa: no overflow, and exact where it matters */
	size_t i;

	for (i = 0; i < view->n; i++) {
		const stepd_usage_t *u = &view->tasks[i];

		if (!u->source[which])
			continue;
		if (s.known++ == 0) {
			s.least = s.most = i;
			s.source = (enum stepd_usage_source)u->source[which];
		}
		s.mixed |= u->source[which] != s.source;
		sum += (long double)u->value[which];
		if (u->value[which] < view->tasks[s.least].value[which])
			s.least = i;
		if (u->value[which] > view->tasks[s.most].value[which])
			s.most = i;
	}
	if (s.known > 0) {
		s.mean.value[which] = (uint64_t)(sum / (long double)s.known);
		s.mean.source[which] = (uint8_t)s.source;
	}
	return s;
}

static void print_heading(FILE *f, const struct usage_view *view)
{
	char text[USAGE_TEXT_SIZE];
	stepd_usage_t time = {0};
	size_t i;

	time.value[STEPD_USAGE_CPU_USER_USEC] = view->elapsed_usec;
	time.source[STEPD_USAGE_CPU_USER_USEC] = STEPD_USAGE_PROC;
	fprintf(f, "Usage of step %s, %zu task%s", view->label, view->n, view->n == 1 ? "" : "s");
	if (view->elapsed_usec)
		fprintf(f, ", %s", usage_text(&time, STEPD_USAGE_CPU_USER_USEC, text));
	fprintf(f, "\n%-16s %8s", "", "step");
	if (view->n > COLUMNS_MAX)
		fprintf(f, " %8s %-9s %8s %8s %-9s", "least", "@rank", "mean", "most", "@rank");
	for (i = 0; view->n <= COLUMNS_MAX && i < view->n; i++) {
		(void)snprintf(text, sizeof(text), "@%u", view->task[i].gtid);
		fprintf(f, " %9s", text);
	}
	fprintf(f, "  from\n");
}

static void print_tasks(FILE *f, const struct usage_view *view, enum stepd_usage_value which,
	const struct spread *s)
{
	char text[USAGE_TEXT_SIZE], rank[16] = "";
	size_t i;

	for (i = 0; view->n <= COLUMNS_MAX && i < view->n; i++)
		fprintf(f, " %9s", usage_text(&view->tasks[i], which, text));
	if (view->n <= COLUMNS_MAX)
		return;
	if (s->known > 0)
		(void)snprintf(rank, sizeof(rank), "@%u", view->task[s->least].gtid);
	fprintf(f, " %8s %-9s", usage_text(&view->tasks[s->least], which, text), rank);
	fprintf(f, " %8s", usage_text(&s->mean, which, text));
	if (s->known > 0)
		(void)snprintf(rank, sizeof(rank), "@%u", view->task[s->most].gtid);
	fprintf(f, " %8s %-9s", usage_text(&view->tasks[s->most], which, text), rank);
}

static void print_row(FILE *f, const struct usage_view *view, enum stepd_usage_value which)
{
	struct spread s = spread_of(view, which);
	char text[USAGE_TEXT_SIZE], letters[4] = "";
	const uint8_t source = view->step->source[which];

	if (!source && s.known == 0)
		return;
	fprintf(f, "%-16s %8s", usage_title(which, source), usage_text(view->step, which, text));
	print_tasks(f, view, which, &s);
	letters[0] = usage_source_letters[source];
	letters[1] = s.mixed ? '*' : usage_source_letters[s.source];
	if (view->n == 0 || letters[1] == letters[0])
		letters[1] = '\0';
	fprintf(f, "  %s\n", letters);
}

char *usage_table_format(const struct usage_view *view)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	int i;

	if (!f)
		return NULL;
	print_heading(f, view);
	for (i = 0; i < STEPD_USAGE_COUNT; i++) {
		if (view->live || !usage_values[i].now)
			print_row(f, view, (enum stepd_usage_value)i);
	}
	fprintf(f,
		"from: c cgroup, p /proc, r wait4(2), * several; two: of the step, of the tasks\n");
	if (fclose(f) == 0)
		return text;
	free(text);
	return NULL;
}

/* ---- as samples ---------------------------------------------------------------------------- */

enum sample_format sample_format_of(const char *file)
{
	static const char *const endings[] = {".json", ".jsonl", ".ndjson"};
	size_t len = strlen(file), i;

	for (i = 0; i < ARRAY_SIZE(endings); i++) {
		if (len >= strlen(endings[i]) &&
			strcmp(file + len - strlen(endings[i]), endings[i]) == 0)
			return SAMPLE_JSON;
	}
	return SAMPLE_CSV;
}

void sample_print_heading(FILE *f, enum sample_format format)
{
	int i;

	if (format != SAMPLE_CSV)
		return;
	fputs("time_usec,elapsed_usec,rank", f);
	for (i = 0; i < STEPD_USAGE_COUNT; i++)
		fprintf(f, ",%s", usage_values[i].name);
	fputs(",sources\n", f);
}

/* The step has an empty rank; unknown values are empty, too. */
static void sample_print_csv(FILE *f, const struct sample_line *line)
{
	const stepd_usage_t *u = line->usage;
	int i;

	fprintf(f, "%" PRIu64 ",%" PRIu64 ",", line->time_usec, line->elapsed_usec);
	if (line->rank >= 0)
		fprintf(f, "%" PRId64, line->rank);
	for (i = 0; i < STEPD_USAGE_COUNT; i++) {
		fputc(',', f);
		if (u->source[i])
			fprintf(f, "%" PRIu64, u->value[i]);
	}
	fputc(',', f);
	for (i = 0; i < STEPD_USAGE_COUNT; i++)
		fputc(usage_source_letters[u->source[i]], f);
	fputc('\n', f);
}

/* By hand: all names are our own, and have nothing to escape. */
static void sample_print_json(FILE *f, const struct sample_line *line)
{
	const stepd_usage_t *u = line->usage;
	const char *comma = "";
	int i;

	fprintf(f, "{\"time_usec\":%" PRIu64 ",\"elapsed_usec\":%" PRIu64, line->time_usec,
		line->elapsed_usec);
	if (line->rank >= 0)
		fprintf(f, ",\"rank\":%" PRId64, line->rank);
	fputs(",\"usage\":{", f);
	for (i = 0; i < STEPD_USAGE_COUNT; i++) {
		if (u->source[i]) {
			fprintf(f, "%s\"%s\":%" PRIu64, comma, usage_values[i].name, u->value[i]);
			comma = ",";
		}
	}
	fputs("},\"sources\":\"", f);
	for (i = 0; i < STEPD_USAGE_COUNT; i++)
		fputc(usage_source_letters[u->source[i]], f);
	fputs("\"}\n", f);
}

void sample_print_line(FILE *f, enum sample_format format, const struct sample_line *line)
{
	if (format == SAMPLE_JSON)
		sample_print_json(f, line);
	else
		sample_print_csv(f, line);
}

int sample_parse_interval(const char *text, uint64_t *ret_ms, struct err *err)
{
	uint64_t ms;

	if (parse_duration_ms(text, &ms) < 0)
		return err_set_text(err, -EINVAL,
			"'%.200s' is not an interval such as 1s, 500ms or 1m (--sample INTERVAL FILE)",
			text);
	if (ms < SAMPLE_INTERVAL_MS_LEAST || ms > SAMPLE_INTERVAL_MS_MOST)
		return err_set_text(
			err, -ERANGE, "the interval '%.200s' is not between 100ms and 1d", text);
	*ret_ms = ms;
	return 0;
}
