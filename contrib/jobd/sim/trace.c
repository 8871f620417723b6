/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/sim/trace.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "contrib/jobd/cli/options.h"
#include "contrib/jobd/cli/values.h"
#include "stepd/base/fs.h"
#include "stepd/base/parse.h"

#define FILE_MAX    (UINT32_C(4) << 29) /* bytes */
#define MS_PER_S    1000u
#define RUN_MAX_S   (UINT64_C(20) * 365 * 24 * 3600)
#define NUMBER_MAX  (NO_VAL - 1)
#define NAMES_MAX   10000u /* numbers of SWF's queues and partitions */
#define COLUMNS_MAX 256u
#define MB          (UINT64_C(1) << 20)
#define EXIT_FAILED 0x100 /* exit(1), as wait(2) has it */
#define YEAR_FIRST  1971
#define YEAR_LAST   2200

/* Counters of rows that are left out, and of defaults. */
enum note {
	NOTE_STEPS,
	NOTE_NO_RUN,
	NOTE_PARTIAL,
	NOTE_RUNNING,
	NOTE_CUT,
	NOTE_HET,
	NOTE_NO_SIZE,
	NOTE_NO_LIMIT,
	NOTE_NO_USER,
	NOTE_PRECEDING,
	NOTE_MAX,
};

static const char *const note_texts[NOTE_MAX] = {
	[NOTE_STEPS] = "rows of steps are left out",
	[NOTE_NO_RUN] =
		"jobs that never started are left out: how long they would have run is unknown",
	[NOTE_PARTIAL] = "rows of parts of a job (status 2 to 4) are left out",
	[NOTE_RUNNING] = "jobs had not ended: they run as long as they had until then",
	[NOTE_CUT] = "jobs did not end by themselves (cancelled, preempted, a failed "
		     "node): they run as long as they did",
	[NOTE_HET] = "components of heterogeneous jobs are jobs of their own here",
	[NOTE_NO_SIZE] = "jobs give no number of nodes or CPUs: they have one CPU",
	[NOTE_NO_LIMIT] = "jobs have no time limit of their own: they have their partition's",
	[NOTE_NO_USER] = "jobs have no user: all are user \"" TRACE_UNKNOWN_USER "\"'s",
	[NOTE_PRECEDING] =
		"jobs name a preceding job: they are submitted at their own time all the same",
};

struct user {
	char *name;
	uint32_t number;
};

struct sacct_column;

struct reader {
	struct trace *trace;
	uint32_t line;
	void *users; /* a tree of struct user */
	uint32_t noted[NOTE_MAX];
	uint32_t begin_s;               /* of SWF */
	struct strv queues, partitions; /* of SWF: names by number, "" for none */
	const struct sacct_column *columns[COLUMNS_MAX];
	size_t columns_count;
};

const char *trace_format_name(enum trace_format format)
{
	static const char *const names[TRACE_FORMAT_MAX] = {
		[TRACE_SWF] = "swf", [TRACE_SACCT] = "sacct", [TRACE_JOBD] = "jobd"};

	return names[format];
}

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "read the trace");
}

/* ---- jobs and users ----------------------------------------------------------------------------
 */

static int compare_users(const void *a, const void *b)
{
	return strcmp(((const struct user *)a)->name, ((const struct user *)b)->name);
}

static int find_user(struct reader *r, const char *name, uint32_t *ret_user, struct err *err)
{
	struct user key = {.name = (char *)name}, *user;
	struct user *const *found = tfind(&key, &r->users, compare_users);

	if (found) {
		*ret_user = (*found)->number;
		return 0;
	}
	user = calloc(1, sizeof(*user));
	if (!user || strv_add(&r->trace->users, name) < 0) {
		free(user);
		return no_memory(err);
	}
	/* the vector grows, its texts stay where they are */
	*user = (struct user){.name = r->trace->users.v[r->trace->users.n - 1],
		.number = (uint32_t)r->trace->users.n - 1};
	if (!tsearch(user, &r->users, compare_users)) {
		free(user);
		return no_memory(err);
	}
	*ret_user = user->number;
	return 0;
}

static int set_text(char **into, const char *text, struct err *err)
{
	free(*into);
	*into = strdup(text);
	return *into ? 0 : no_memory(err);
}

/* A job without anything; it is the reader's to fill, and the trace's to clear. */
static int add_job(struct reader *r, struct trace_job **ret_job, struct err *err)
{
	struct trace *t = r->trace;
	struct trace_job *grown;

	if (t->count == TRACE_JOBS_MAX)
		return err_set_text(
			err, -E2BIG, "more than %u jobs: simulate parts of it", TRACE_JOBS_MAX);
	if (t->count == t->capacity) {
		size_t wanted = t->capacity ? 2 * t->capacity : 1024;

		grown = reallocarray(t->jobs, wanted, sizeof(*grown));
		if (!grown)
			return no_memory(err);
		t->jobs = grown;
		t->capacity = wanted;
	}
	*ret_job = &t->jobs[t->count++];
	**ret_job = (struct trace_job){.line = r->line, .task_id = NO_VAL};
	request_init(&(*ret_job)->request);
	return 0;
}

static void must_have_size(struct reader *r, struct job_request *q)
{
	if (q->min_nodes != NO_VAL || q->ntasks != NO_VAL)
		return;
	q->ntasks = 1;
	r->noted[NOTE_NO_SIZE]++;
}

static uint64_t divide_up(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

/* ---- fields and lines --------------------------------------------------------------------------
 */

/* The next line, without its end; NULL: there is none. */
static char *next_line(struct reader *r, char **rest, char *end, size_t *ret_size)
{
	char *line = *rest, *stop;

	if (line >= end)
		return NULL;
	stop = memchr(line, '\n', (size_t)(end - line));
	*rest = stop ? stop + 1 : end;
	stop = stop ? stop : end;
	if (stop > line && stop[-1] == '\r')
		stop--;
	*stop = '\0';
	*ret_size = (size_t)(stop - line);
	r->line++;
	return line;
}

static char *skip_blanks(char *text)
{
	while (*text == ' ' || *text == '\t')
		text++;
	return text;
}

/* The next word, NULL: there is none. */
static char *next_word(char **rest)
{
	char *word = skip_blanks(*rest);

	if (!*word)
		return NULL;
	*rest = word + strcspn(word, " \t");
	if (**rest)
		*(*rest)++ = '\0';
	return word;
}

/* ---- the Standard Workload Format --------------------------------------------------------------
 */

enum swf_field {
	SWF_NUMBER,
	SWF_SUBMIT,
	SWF_WAIT,
	SWF_RUN,
	SWF_CPUS,
	SWF_CPU_TIME,
	SWF_MEMORY,
	SWF_WANTED_CPUS,
	SWF_LIMIT,
	SWF_WANTED_MEMORY,
	SWF_STATUS,
	SWF_USER,
	SWF_GROUP,
	SWF_PROGRAM,
	SWF_QUEUE,
	SWF_PARTITION,
	SWF_PRECEDING,
	SWF_THINK,
	SWF_FIELD_MAX,
};

/* Numbers are from -1, which is unknown, to most. */
static const struct {
	const char *name;
	double most;
} swf_fields[SWF_FIELD_MAX] = {
	[SWF_NUMBER] = {"job number", NUMBER_MAX},
	[SWF_SUBMIT] = {"submit time", RUN_MAX_S},
	[SWF_WAIT] = {"wait time", 1e15},
	[SWF_RUN] = {"run time", RUN_MAX_S},
	[SWF_CPUS] = {"allocated processors", INT32_MAX},
	[SWF_CPU_TIME] = {"CPU time", 1e15},
	[SWF_MEMORY] = {"used memory", 1e12},
	[SWF_WANTED_CPUS] = {"requested processors", INT32_MAX},
	[SWF_LIMIT] = {"requested time", RUN_MAX_S},
	[SWF_WANTED_MEMORY] = {"requested memory", 1e12},
	[SWF_STATUS] = {"status", 5},
	[SWF_USER] = {"user", NUMBER_MAX},
	[SWF_GROUP] = {"group", NUMBER_MAX},
	[SWF_PROGRAM] = {"program", 1e15},
	[SWF_QUEUE] = {"queue", NUMBER_MAX},
	[SWF_PARTITION] = {"partition", NUMBER_MAX},
	[SWF_PRECEDING] = {"preceding job", 1e15},
	[SWF_THINK] = {"think time", 1e15},
};

enum swf_status {
	SWF_FAILED,
	SWF_COMPLETED,
	SWF_PARTIAL_FIRST,
	SWF_PARTIAL_LAST = 4,
	SWF_CANCELLED,
};

static int swf_parse_field(char *word, size_t i, double *ret_n, struct err *err)
{
	char *end;
	double n;

	if (!word)
		return err_set_text(
			err, -EINVAL, "%zu fields, a job has %d of them", i, SWF_FIELD_MAX);
	n = strtod(word, &end);
	if (*end || !(n >= -1) || n > swf_fields[i].most)
		return err_set_text(err, -EINVAL,
			"field %zu (%s) is '%.100s', and must be a number from -1 (unknown) to "
			"%.0f",
			i + 1, swf_fields[i].name, word, swf_fields[i].most);
	*ret_n = n;
	return 0;
}

static const char *swf_find_name(const struct strv *names, double number)
{
	size_t i = number > 0 ? (size_t)number : 0;

	return number >= 0 && i < names->n && *names->v[i] ? names->v[i] : NULL;
}

/* A partition by its name in the header, else a queue; else only a number. */
static int swf_set_partition(
	const struct reader *r, const double *fields, struct trace_job *job, struct err *err)
{
	double number = fields[SWF_PARTITION] > 0 ? fields[SWF_PARTITION] : fields[SWF_QUEUE];
	const char *name = swf_find_name(&r->partitions, fields[SWF_PARTITION]);
	char text[16];

	if (!name)
		name = swf_find_name(&r->queues, fields[SWF_QUEUE]);
	if (!name && number < 0)
		return 0;
	job->part_is_number = !name;
	(void)snprintf(text, sizeof(text), "%.0f", number);
	return set_text(&job->request.partition, name ? name : text, err);
}

static int swf_set_user(struct reader *r, double number, struct trace_job *job, struct err *err)
{
	char name[16] = TRACE_UNKNOWN_USER;

	if (number < 0)
		r->noted[NOTE_NO_USER]++;
	else
		(void)snprintf(name, sizeof(name), "%.0f", number);
	return find_user(r, name, &job->user, err);
}

static void swf_set_request(struct reader *r, const double *fields, struct job_request *q)
{
	double cpus = fields[SWF_WANTED_CPUS] > 0 ? fields[SWF_WANTED_CPUS] : fields[SWF_CPUS];
	double kb = fields[SWF_WANTED_MEMORY] > 0 ? fields[SWF_WANTED_MEMORY] : fields[SWF_MEMORY];

	if (cpus >= 1)
		q->ntasks = (uint32_t)cpus;
	must_have_size(r, q);
	if (fields[SWF_LIMIT] > 0)
		q->time_limit_min = (uint32_t)divide_up((uint64_t)ceil(fields[SWF_LIMIT]), 60);
	else
		r->noted[NOTE_NO_LIMIT]++;
	if (kb > 0) /* of each processor */
		q->memory_mb = divide_up((uint64_t)ceil(kb), 1024) | MEM_PER_CPU;
}

static bool swf_is_job(struct reader *r, const double *fields)
{
	if (fields[SWF_STATUS] >= SWF_PARTIAL_FIRST && fields[SWF_STATUS] <= SWF_PARTIAL_LAST) {
		r->noted[NOTE_PARTIAL]++;
		return false;
	}
	if (fields[SWF_RUN] < 0 || (fields[SWF_RUN] < 1 && fields[SWF_STATUS] >= SWF_CANCELLED)) {
		r->noted[NOTE_NO_RUN]++;
		return false;
	}
	return true;
}

static int swf_add_job(struct reader *r, const double *fields, struct err *err)
{
	struct trace_job *job;
	int ret;

	if (fields[SWF_NUMBER] < 0 || fields[SWF_SUBMIT] < 0)
		return err_set_text(err, -EINVAL,
			"a job needs a number and a submit time: both "
			"fields 1 and 2 must be known");
	if (!swf_is_job(r, fields))
		return 0;
	ret = add_job(r, &job, err);
	if (ret < 0)
		return ret;
	job->number = (uint32_t)fields[SWF_NUMBER];
	job->submit_ms =
		MS_PER_S * (uint64_t)r->begin_s + (uint64_t)llround(MS_PER_S * fields[SWF_SUBMIT]);
	job->run_ms = (uint64_t)llround(MS_PER_S * fields[SWF_RUN]);
	job->exit_status = fields[SWF_STATUS] == SWF_FAILED ? EXIT_FAILED : 0;
	r->noted[NOTE_CUT] += fields[SWF_STATUS] >= SWF_CANCELLED;
	r->noted[NOTE_PRECEDING] += fields[SWF_PRECEDING] > 0;
	swf_set_request(r, fields, &job->request);
	ret = swf_set_user(r, fields[SWF_USER], job, err);
	return ret < 0 ? ret : swf_set_partition(r, fields, job, err);
}

/* "1 batch: the large one": number 1 is "batch". */
static int swf_name_number(struct strv *names, char *text, struct err *err)
{
	char *word = next_word(&text), *name;
	uint32_t number;

	if (!word || parse_u32(word, 0, NAMES_MAX, &number) < 0)
		return 0; /* a text for people */
	name = next_word(&text);
	if (!name)
		return 0;
	name[strcspn(name, ",;:()")] = '\0';
	while (names->n <= number) {
		if (strv_add(names, "") < 0)
			return no_memory(err);
	}
	return set_text(&names->v[number], name, err);
}

/* A line that does not begin with a number is a text for people. */
static void swf_take_number(char *text, uint32_t most, uint32_t *into)
{
	uint32_t n;

	text[strspn(text, "0123456789")] = '\0';
	if (parse_u32(text, 1, most, &n) == 0)
		*into = n;
}

static int swf_read_header(struct reader *r, char *line, struct err *err)
{
	char *key = line + strspn(line, "; \t"), *value = strchr(key, ':');

	if (!value)
		return 0;
	*value++ = '\0';
	value = skip_blanks(value);
	if (strcasecmp(key, "Queue") == 0)
		return swf_name_number(&r->queues, value, err);
	if (strcasecmp(key, "Partition") == 0)
		return swf_name_number(&r->partitions, value, err);
	if (strcasecmp(key, "UnixStartTime") == 0)
		swf_take_number(value, UINT32_MAX, &r->begin_s);
	else if (strcasecmp(key, "MaxNodes") == 0)
		swf_take_number(value, INT32_MAX, &r->trace->max_nodes);
	else if (strcasecmp(key, "MaxProcs") == 0)
		swf_take_number(value, INT32_MAX, &r->trace->max_cpus);
	return 0;
}

static int swf_read_line(struct reader *r, char *line, struct err *err)
{
	double fields[SWF_FIELD_MAX];
	char *rest = skip_blanks(line);
	size_t i;
	int ret;

	if (!*rest)
		return 0;
	if (*rest == ';')
		return swf_read_header(r, rest, err);
	for (i = 0; i < SWF_FIELD_MAX; i++) {
		ret = swf_parse_field(next_word(&rest), i, &fields[i], err);
		if (ret < 0)
			return ret;
	}
	if (next_word(&rest))
		return err_set_text(
			err, -EINVAL, "more than the %d fields that a job has", SWF_FIELD_MAX);
	return swf_add_job(r, fields, err);
}

/* ---- sacct -P ----------------------------------------------------------------------------------
 */

/* The values of a row; missing numbers are NO_VAL, times 0 and texts NULL. */
struct sacct_row {
	uint32_t number, task_id;
	bool is_step, is_waiting, is_component;
	bool is_unallocated; /* it had no node or CPU */
	const char *user, *partition, *qos, *state, *memory, *constraint;
	time_t submit, start, end;
	uint64_t elapsed_s; /* NO_VAL64: unknown */
	uint32_t limit_min, nodes, cpus, wanted_cpus;
	int exit_status;
};

typedef int sacct_take_fn(
	struct sacct_row *row, const struct sacct_column *column, char *text, struct err *err);

struct sacct_column {
	const char *name;
	sacct_take_fn *take;
	size_t offset;
};

static bool is_empty(const char *text)
{
	return !*text || strcasecmp(text, "Unknown") == 0 || strcasecmp(text, "None") == 0 ||
		strcasecmp(text, "(null)") == 0;
}

static int sacct_take_text(
	struct sacct_row *row, const struct sacct_column *column, char *text, struct err *err)
{
	(void)err;
	if (!is_empty(text))
		*(const char **)((char *)row + column->offset) = text;
	return 0;
}

/* "4", "2K", "1.50K" for 1536; 0 is unknown. */
static int sacct_take_count(
	struct sacct_row *row, const struct sacct_column *column, char *text, struct err *err)
{
	uint64_t n;

	if (is_empty(text))
		return 0;
	if (parse_size(text, 1, &n) < 0 || n > INT32_MAX ||
		(strchr(text, '.') && text[strspn(text, "0123456789.")] == '\0'))
		return err_set_text(err, -EINVAL,
			"%s is '%.100s', and must be like 4, 1.50K, or 0 if it is unknown",
			column->name, text);
	if (n > 0)
		*(uint32_t *)((char *)row + column->offset) = (uint32_t)n;
	return 0;
}

/* sacct prints 0 of what a job never had. */
static int sacct_take_allocated(
	struct sacct_row *row, const struct sacct_column *column, char *text, struct err *err)
{
	row->is_unallocated |= strcmp(text, "0") == 0;
	return sacct_take_count(row, column, text, err);
}

static int sacct_take_time(
	struct sacct_row *row, const struct sacct_column *column, char *text, struct err *err)
{
	struct tm tm = {.tm_mday = 1};
	const char *end;

	if (is_empty(text))
		return 0;
	end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	if (!end || *end || tm.tm_year + 1900 < YEAR_FIRST || tm.tm_year + 1900 > YEAR_LAST)
		return err_set_text(err, -EINVAL,
			"%s is '%.100s', and must be like 2026-01-20T12:34:00: unset "
			"SLURM_TIME_FORMAT for sacct",
			column->name, text);
	*(time_t *)((char *)row + column->offset) = timegm(&tm);
	return 0;
}

/* "[days-]hours:minutes:seconds", "minutes:seconds", with ".fraction" or without. */
static bool parse_elapsed(const char *text, uint64_t *ret_s)
{
	unsigned days = 0, parts[3] = {0};
	int used = 0, n = 0;

	if (sscanf(text, "%6u-%n", &days, &used) == 1 && used > 0)
		text += used;
	else
		days = 0;
	used = 0;
	for (n = 0; n < 3 && sscanf(text, "%6u%n", &parts[n], &used) == 1; n++) {
		text += used;
		if (*text != ':')
			break;
		text++;
	}
	if (*text == '.')
		text += 1 + strspn(text + 1, "0123456789");
	if (*text || n < 1 || n > 2)
		return false;
	*ret_s = (uint64_t)days * 86400;
	*ret_s += n == 2 ? parts[0] * UINT64_C(3600) + parts[1] * UINT64_C(60) + parts[2]
			 : parts[0] * UINT64_C(60) + parts[1];
	return *ret_s <= RUN_MAX_S;
}

static int sacct_take_elapsed(
	struct sacct_row *row, const struct sacct_column *column, char *text, struct err *err)
{
	(void)column;
	if (is_empty(text))
		return 0;
	if (!parse_elapsed(text, &row->elapsed_s))
		return err_set_text(err, -EINVAL,
			"Elapsed is '%.100s', and must be like 1-02:03:04 or 02:03:04", text);
	return 0;
}

static int sacct_take_seconds(
	struct sacct_row *row, const struct sacct_column *column, char *text, struct err *err)
{
	if (is_empty(text))
		return 0;
	if (parse_u64(text, 0, RUN_MAX_S, &row->elapsed_s) < 0)
		return err_set_text(err, -EINVAL, "%s is '%.100s', and must be seconds, 0 or more",
			column->name, text);
	return 0;
}

static int sacct_take_limit(
	struct sacct_row *row, const struct sacct_column *column, char *text, struct err *err)
{
	if (is_empty(text) || strcasecmp(text, "Partition_Limit") == 0 ||
		strcasecmp(text, "INVALID") == 0)
		return 0;
	if (value_parse_limit(text, &row->limit_min, err) < 0)
		return err_prefix(err, "%s", column->name);
	return 0;
}

/* "12", "12_3", "12_[4-9]", "12+1", and behind them ".batch" or ".0" of steps. */
static int sacct_take_job(
	struct sacct_row *row, const struct sacct_column *column, char *text, struct err *err)
{
	char *at = text + strspn(text, "0123456789"), mark = *at;
	char *tail = mark ? at + 1 : at;
	char *dot = strchr(tail, '.');

	(void)column;
	row->is_step = mark == '.' || dot != NULL;
	if (row->is_step)
		return 0;
	*at = '\0';
	row->is_component = mark == '+';
	row->is_waiting = mark == '_' && *tail == '[';
	if (parse_u32(text, 0, NUMBER_MAX, &row->number) == 0 &&
		(!mark || (mark == '+' && *tail) || row->is_waiting ||
			(mark == '_' && parse_u32(tail, 0, NUMBER_MAX, &row->task_id) == 0)))
		return 0;
	*at = mark;
	return err_set_text(
		err, -EINVAL, "JobID is '%.100s', and must be like 12, 12_3 or 12+1", text);
}

/* "1:0": exit status and signal. */
static int sacct_take_exit(
	struct sacct_row *row, const struct sacct_column *column, char *text, struct err *err)
{
	unsigned status = 0, sign = 0;
	char more;

	(void)column;
	if (is_empty(text))
		return 0;
	if (sscanf(text, "%3u:%3u%c", &status, &sign, &more) != 2 || status > 255 || sign > 64)
		return err_set_text(
			err, -EINVAL, "ExitCode is '%.100s', and must be like 0:0 or 1:0", text);
	row->exit_status = (int)(status << 8 | sign);
	return 0;
}

#define ROW(member_) offsetof(struct sacct_row, member_)

static const struct sacct_column sacct_columns[] = {
	{"JobID", sacct_take_job, 0},
	{"User", sacct_take_text, ROW(user)},
	{"Partition", sacct_take_text, ROW(partition)},
	{"QOS", sacct_take_text, ROW(qos)},
	{"Constraints", sacct_take_text, ROW(constraint)},
	{"Submit", sacct_take_time, ROW(submit)},
	{"Start", sacct_take_time, ROW(start)},
	{"End", sacct_take_time, ROW(end)},
	{"Elapsed", sacct_take_elapsed, 0},
	{"ElapsedRaw", sacct_take_seconds, 0},
	{"Timelimit", sacct_take_limit, 0},
	{"TimelimitRaw", sacct_take_limit, 0},
	{"NNodes", sacct_take_allocated, ROW(nodes)},
	{"AllocNodes", sacct_take_allocated, ROW(nodes)},
	{"NCPUS", sacct_take_allocated, ROW(cpus)},
	{"AllocCPUS", sacct_take_allocated, ROW(cpus)},
	{"ReqCPUS", sacct_take_count, ROW(wanted_cpus)},
	{"ReqMem", sacct_take_text, ROW(memory)},
	{"State", sacct_take_text, ROW(state)},
	{"ExitCode", sacct_take_exit, 0},
};

static const struct sacct_column *sacct_find_column(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sacct_columns); i++) {
		if (strcasecmp(sacct_columns[i].name, name) == 0)
			return &sacct_columns[i];
	}
	return NULL;
}

static bool sacct_has(const struct reader *r, const char *name)
{
	size_t i;

	for (i = 0; i < r->columns_count; i++) {
		if (r->columns[i] && strcmp(r->columns[i]->name, name) == 0)
			return true;
	}
	return false;
}

static int sacct_read_header(struct reader *r, char *line, struct err *err)
{
	char *name;

	while ((name = strsep(&line, "|"))) {
		if (!line && !*name)
			break; /* -p has one more '|' */
		if (r->columns_count == COLUMNS_MAX)
			return err_set_text(err, -E2BIG, "more than %u columns", COLUMNS_MAX);
		r->columns[r->columns_count++] = sacct_find_column(name);
	}
	if (!sacct_has(r, "JobID") || !sacct_has(r, "Submit") ||
		!(sacct_has(r, "Elapsed") || sacct_has(r, "ElapsedRaw") ||
			(sacct_has(r, "Start") && sacct_has(r, "End"))))
		return err_set_text(err, -EINVAL,
			"the columns JobID, Submit and Elapsed are needed: sacct -P -o JobID,User,"
			"Partition,QOS,Submit,Start,End,Elapsed,Timelimit,NNodes,NCPUS,ReqMem,State");
	return 0;
}

/* "4000M" and "4G" are the job's, "4Gn" is of each node, "2Gc" of each CPU. */
static int sacct_set_memory(const struct sacct_row *row, struct job_request *q, struct err *err)
{
	size_t size = row->memory ? strlen(row->memory) : 0;
	char text[32], kind = size ? row->memory[size - 1] : '\0';
	uint64_t bytes, mb;

	if (size == 0 || strcmp(row->memory, "?") == 0)
		return 0;
	if (kind == 'n' || kind == 'c')
		size--;
	(void)snprintf(text, sizeof(text), "%.*s", (int)(size < 31 ? size : 31), row->memory);
	if (parse_size(text, MB, &bytes) < 0)
		return err_set_text(err, -EINVAL,
			"ReqMem is '%.100s', and must be like 4000M, 4G, 4Gn or 2Gc", row->memory);
	mb = divide_up(bytes, MB);
	if (kind != 'n' && kind != 'c' && q->min_nodes != NO_VAL)
		mb = divide_up(mb, q->min_nodes);
	q->memory_mb = mb | (kind == 'c' ? MEM_PER_CPU : 0);
	return 0;
}

static bool state_is(const struct sacct_row *row, const char *state)
{
	return row->state && strncasecmp(row->state, state, strlen(state)) == 0;
}

/* False: it never ran. */
static bool sacct_find_run(const struct sacct_row *row, uint64_t *ret_s)
{
	if (row->is_waiting || state_is(row, "PENDING") || state_is(row, "REQUEUED"))
		return false;
	if (row->elapsed_s != NO_VAL64)
		*ret_s = row->elapsed_s;
	else if (row->start && row->end >= row->start)
		*ret_s = (uint64_t)(row->end - row->start);
	else
		return false;
	if (*ret_s > 0)
		return *ret_s <= RUN_MAX_S;
	/* the start of a job that was cancelled before may be that of its end */
	return !row->is_unallocated &&
		(row->start || !(state_is(row, "CANCELLED") || state_is(row, "NODE_FAIL")));
}

static int sacct_set_request(
	struct reader *r, const struct sacct_row *row, struct job_request *q, struct err *err)
{
	uint32_t cpus = row->wanted_cpus != NO_VAL ? row->wanted_cpus : row->cpus;
	int ret = 0;

	if (row->nodes != NO_VAL)
		q->min_nodes = q->max_nodes = row->nodes;
	if (cpus != NO_VAL)
		q->ntasks = cpus;
	must_have_size(r, q);
	q->time_limit_min = row->limit_min;
	r->noted[NOTE_NO_LIMIT] += row->limit_min == NO_VAL;
	if (row->partition)
		ret = set_text(&q->partition, row->partition, err);
	if (ret == 0 && row->qos)
		ret = set_text(&q->qos, row->qos, err);
	if (ret == 0 && row->constraint)
		ret = set_text(&q->features, row->constraint, err);
	return ret < 0 ? ret : sacct_set_memory(row, q, err);
}

static void sacct_note(struct reader *r, const struct sacct_row *row)
{
	r->noted[NOTE_NO_USER] += row->user == NULL;
	r->noted[NOTE_HET] += row->is_component;
	r->noted[NOTE_RUNNING] += state_is(row, "RUNNING") || state_is(row, "SUSPENDED");
	r->noted[NOTE_CUT] += state_is(row, "CANCELLED") || state_is(row, "PREEMPTED") ||
		state_is(row, "NODE_FAIL");
}

static int sacct_add_job(struct reader *r, const struct sacct_row *row, struct err *err)
{
	struct trace_job *job;
	uint64_t run_s = 0;
	int ret;

	if (row->is_step) {
		r->noted[NOTE_STEPS]++;
		return 0;
	}
	if (!row->submit)
		return err_set_text(err, -EINVAL, "job %u has no Submit time", row->number);
	if (!sacct_find_run(row, &run_s)) {
		r->noted[NOTE_NO_RUN]++;
		return 0;
	}
	ret = add_job(r, &job, err);
	if (ret < 0)
		return ret;
	job->number = row->number;
	job->task_id = row->task_id;
	job->submit_ms = MS_PER_S * (uint64_t)row->submit;
	job->run_ms = MS_PER_S * run_s;
	job->exit_status = row->exit_status;
	if (state_is(row, "FAILED") && !job->exit_status)
		job->exit_status = EXIT_FAILED;
	else if (!state_is(row, "FAILED"))
		job->exit_status = 0;
	sacct_note(r, row);
	ret = find_user(r, row->user ? row->user : TRACE_UNKNOWN_USER, &job->user, err);
	return ret < 0 ? ret : sacct_set_request(r, row, &job->request, err);
}

static int sacct_read_line(struct reader *r, char *line, struct err *err)
{
	struct sacct_row row = {.number = NO_VAL,
		.task_id = NO_VAL,
		.elapsed_s = NO_VAL64,
		.limit_min = NO_VAL,
		.nodes = NO_VAL,
		.cpus = NO_VAL,
		.wanted_cpus = NO_VAL};
	char *text;
	size_t i = 0;
	int ret;

	if (!*skip_blanks(line))
		return 0;
	if (r->columns_count == 0)
		return sacct_read_header(r, line, err);
	for (; (text = strsep(&line, "|")); i++) {
		if (i == r->columns_count && !line && !*text)
			break;
		if (i >= r->columns_count)
			return err_set_text(err, -EINVAL,
				"more fields than the header's %zu: leave out JobName and Comment, "
				"which may have a '|'",
				r->columns_count);
		ret = r->columns[i] ? r->columns[i]->take(&row, r->columns[i], text, err) : 0;
		if (ret < 0)
			return ret;
	}
	if (i < r->columns_count)
		return err_set_text(
			err, -EINVAL, "%zu fields, the header has %zu", i, r->columns_count);
	return sacct_add_job(r, &row, err);
}

/* ---- jobd's own --------------------------------------------------------------------------------
 */

static int jobd_parse_run(char *text, struct trace_job *job, struct err *err)
{
	char *colon = strchr(text, ':');
	uint32_t status = 0;

	if (colon)
		*colon = '\0';
	if (parse_duration_ms(text, &job->run_ms) < 0 || job->run_ms > MS_PER_S * RUN_MAX_S ||
		(colon && parse_u32(colon + 1, 0, 255, &status) < 0)) {
		if (colon)
			*colon = ':';
		return err_set_text(err, -EINVAL,
			"its run time is '%.100s', and must be like 90, 30m or 2h, with ':STATUS' "
			"where it exits with another status than 0",
			text);
	}
	job->exit_status = (int)(status << 8);
	return 0;
}

/* A job waits for those before it: their numbers are those of lines of jobs. */
static int jobd_check_dependencies(const struct trace_job *job, struct err *err)
{
	const struct job_request *q = &job->request;
	size_t i;

	for (i = 0; i < q->dependencies_count; i++) {
		uint32_t number = q->dependencies[i].job_id;

		if (number == 0 || number >= job->number)
			return err_set_text(err, -EINVAL,
				"--dependency names job %u, and must name one of the %u before it",
				number, job->number - 1);
	}
	return 0;
}

static int jobd_parse_options(
	struct reader *r, const char *line, struct trace_job *job, struct err *err)
{
	_cleanup_strv_ struct strv words = {0};
	_cleanup_options_ struct options options = {.wrap = NULL};
	struct options parsed;
	struct options_input input = {
		.command = OPTIONS_SBATCH, .now = (time_t)(job->submit_ms / MS_PER_S)};
	size_t i;
	int ret;

	request_init(&options.request);
	if (strv_add(&words, "sbatch") < 0)
		return no_memory(err);
	ret = options_split(line, &words, err);
	if (ret < 0)
		return ret;
	input.argc = (int)words.n;
	input.argv = words.v;
	ret = options_parse(&parsed, &input, err);
	if (ret < 0)
		return ret;
	options = parsed;
	if (options.rest.n || options.help || options.version)
		return err_set_text(err, -EINVAL,
			"'%.100s' is not an option of a job: scripts are not read, write their "
			"options here",
			options.rest.n ? options.rest.v[0] : "--help");
	for (i = 0; i < options.notes.n; i++) {
		if (strv_addf(&r->trace->notes, "%s:%u: %s", r->trace->file, r->line,
			    options.notes.v[i]) < 0)
			return no_memory(err);
	}
	request_clear(&job->request);
	job->request = options.request;
	request_init(&options.request);
	return jobd_check_dependencies(job, err);
}

static int jobd_read_line(struct reader *r, char *line, struct err *err)
{
	char *submit = next_word(&line), *run, *user;
	struct trace_job *job;
	uint64_t submit_ms;
	int ret;

	if (!submit || *submit == '#')
		return 0;
	run = next_word(&line);
	user = next_word(&line);
	if (!user)
		return err_set_text(err, -EINVAL,
			"a job's line must have at least a submit time, a run time and a user");
	if (parse_duration_ms(submit, &submit_ms) < 0 || submit_ms > MS_PER_S * RUN_MAX_S)
		return err_set_text(err, -EINVAL,
			"its submit time is '%.100s', and must be like 90, 30m or 2h after the "
			"begin",
			submit);
	ret = add_job(r, &job, err);
	if (ret < 0)
		return ret;
	job->number = (uint32_t)r->trace->count;
	job->submit_ms = MS_PER_S * (uint64_t)TRACE_BEGIN_S + submit_ms;
	ret = jobd_parse_run(run, job, err);
	if (ret == 0)
		ret = find_user(r, user, &job->user, err);
	return ret < 0 ? ret : jobd_parse_options(r, line, job, err);
}

/* ---- all of it ---------------------------------------------------------------------------------
 */

typedef int read_line_fn(struct reader *r, char *line, struct err *err);

static read_line_fn *const read_line[TRACE_FORMAT_MAX] = {[TRACE_SWF] = swf_read_line,
	[TRACE_SACCT] = sacct_read_line,
	[TRACE_JOBD] = jobd_read_line};

static bool has_numbers_only(const char *line, size_t size)
{
	size_t i, words = 0;

	for (i = 0; i < size; i++) {
		if (!isdigit((unsigned char)line[i]) && !strchr(" \t\r.+-", line[i]))
			return false;
		words += !strchr(" \t\r", line[i]) && (i == 0 || strchr(" \t", line[i - 1]));
	}
	return words == SWF_FIELD_MAX;
}

/* By the first line that is neither empty nor a "#". */
static enum trace_format find_format(const char *text, size_t size)
{
	const char *end = text + size, *stop;

	for (; text < end; text = stop + 1) {
		stop = memchr(text, '\n', (size_t)(end - text));
		stop = stop ? stop : end;
		while (text < stop && strchr(" \t\r", *text))
			text++;
		if (text == stop || *text == '#')
			continue;
		if (*text == ';' || has_numbers_only(text, (size_t)(stop - text)))
			return TRACE_SWF;
		return memchr(text, '|', (size_t)(stop - text)) ? TRACE_SACCT : TRACE_JOBD;
	}
	return TRACE_JOBD;
}

static int compare_jobs(const void *a, const void *b)
{
	const struct trace_job *x = a, *y = b;

	if (x->submit_ms != y->submit_ms)
		return x->submit_ms < y->submit_ms ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

static int write_notes(const struct reader *r, struct err *err)
{
	size_t i;

	for (i = 0; i < NOTE_MAX; i++) {
		if (r->noted[i] &&
			strv_addf(&r->trace->notes, "%s: %u %s", r->trace->file, r->noted[i],
				note_texts[i]) < 0)
			return no_memory(err);
	}
	return 0;
}

/* A job that is submitted before one that it depends on would wait for nothing. */
static int check_order(const struct trace *t, struct err *err)
{
	_cleanup_free_ uint64_t *submit_ms = calloc(t->count + 1, sizeof(*submit_ms));
	size_t i, k;

	if (!submit_ms)
		return no_memory(err);
	for (i = 0; i < t->count; i++)
		submit_ms[t->jobs[i].number] = t->jobs[i].submit_ms;
	for (i = 0; i < t->count; i++) {
		const struct job_request *q = &t->jobs[i].request;

		for (k = 0; k < q->dependencies_count; k++) {
			if (submit_ms[q->dependencies[k].job_id] <= t->jobs[i].submit_ms)
				continue;
			return err_set_text(err, -EINVAL,
				"%s:%u: --dependency names job %u, which is submitted later",
				t->file, t->jobs[i].line, q->dependencies[k].job_id);
		}
	}
	return 0;
}

static int parse_lines(struct reader *r, char *text, size_t size, struct err *err)
{
	char *line, *end = text + size;
	size_t length;
	int ret = 0;

	while (ret == 0 && (line = next_line(r, &text, end, &length))) {
		if (strlen(line) != length)
			ret = err_set_text(err, -EINVAL, "there is a NUL byte: this is not text");
		else
			ret = read_line[r->trace->format](r, line, err);
		if (ret < 0)
			return err_prefix(err, "%s:%u", r->trace->file, r->line);
	}
	return 0;
}

int trace_parse(const char *file, char *text, size_t size, struct trace *ret_trace, struct err *err)
{
	struct trace t = {.file = strdup(file), .format = find_format(text, size)};
	struct reader r = {.trace = &t, .begin_s = TRACE_BEGIN_S};
	int ret = t.file ? parse_lines(&r, text, size, err) : no_memory(err);

	if (ret == 0 && t.count == 0)
		ret = err_set_text(err, -EINVAL,
			"%s has no job that ran: give a trace in the Standard Workload Format, of "
			"sacct -P, or of lines SUBMIT RUN USER OPTION...",
			file);
	if (ret == 0)
		ret = write_notes(&r, err);
	if (ret == 0)
		qsort(t.jobs, t.count, sizeof(*t.jobs), compare_jobs);
	if (ret == 0 && t.format == TRACE_JOBD)
		ret = check_order(&t, err);
	tdestroy(r.users, free);
	strv_clear(&r.queues);
	strv_clear(&r.partitions);
	if (ret < 0)
		trace_clear(&t);
	else
		*ret_trace = t;
	return ret;
}

int trace_read(const char *file, struct trace *ret_trace, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	bool is_stdin = strcmp(file, "-") == 0;
	int r = is_stdin ? fs_read_fd(STDIN_FILENO, FILE_MAX, &text, &size)
			 : fs_read(AT_FDCWD, file, FILE_MAX, &text, &size);

	if (r < 0)
		return err_set(err, r, "read the trace '%s'", is_stdin ? "standard input" : file);
	return trace_parse(is_stdin ? "standard input" : file, text, size, ret_trace, err);
}

void trace_clear(struct trace *t)
{
	size_t i;

	for (i = 0; i < t->count; i++)
		request_clear(&t->jobs[i].request);
	free(t->jobs);
	free(t->file);
	strv_clear(&t->users);
	strv_clear(&t->notes);
	*t = (struct trace){.file = NULL};
}

char *trace_job_name(const struct trace_job *job)
{
	char *name = NULL;
	int r = job->task_id == NO_VAL ? asprintf(&name, "%u", job->number)
				       : asprintf(&name, "%u_%u", job->number, job->task_id);

	return r < 0 ? NULL : name;
}
