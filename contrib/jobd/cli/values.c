/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/cli/values.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "contrib/jobd/conf/conf.h"
#include "stepd/base/buffer.h"
#include "stepd/base/hostlist.h"
#include "stepd/base/parse.h"

#define COUNT_MAX        0x7fffffffu
#define DEPENDENCIES_MAX 4096u
#define MB               (UINT64_C(1) << 20)

/* ---- numbers ----------------------------------------------------------------------------------
 */

/* Of the text up to end, which is its NUL or '-'. */
static int parse_count(const char *text, size_t size, uint32_t *ret_n)
{
	uint32_t unit = 1, n;
	char digits[16];

	if (size == 0 || size >= sizeof(digits))
		return -EINVAL;
	memcpy(digits, text, size);
	digits[size] = '\0';
	switch (digits[size - 1]) {
	case 'k':
	case 'K':
		unit = 1024;
		break;
	case 'm':
	case 'M':
		unit = 1024 * 1024;
		break;
	default:
		break;
	}
	if (unit > 1)
		digits[size - 1] = '\0';
	if (parse_u32(digits, 1, COUNT_MAX / unit, &n) < 0)
		return -EINVAL;
	*ret_n = n * unit;
	return 0;
}

int value_parse_count(const char *text, uint32_t *ret_n, struct err *err)
{
	if (parse_count(text, strlen(text), ret_n) < 0)
		return err_set_text(
			err, -EINVAL, "'%.100s' is not a number from 1 up, such as 4 or 1k", text);
	return 0;
}

int value_parse_range(const char *text, uint32_t *ret_min, uint32_t *ret_max, struct err *err)
{
	size_t first = strcspn(text, "-");
	uint32_t min, max;

	if (parse_count(text, first, &min) < 0)
		return err_set_text(err, -EINVAL,
			"'%.100s' is neither a number from 1 up nor a range such as 2-4", text);
	max = min;
	if (text[first] &&
		(parse_count(text + first + 1, strlen(text + first + 1), &max) < 0 || max < min))
		return err_set_text(err, -EINVAL,
			"'%.100s' is not a range of rising numbers, such as 2-4", text);
	*ret_min = min;
	*ret_max = max;
	return 0;
}

int value_parse_memory(const char *text, uint64_t *ret_mb, struct err *err)
{
	const size_t size = strlen(text);
	char copy[32];
	uint64_t bytes;

	if (size > 0 && size < sizeof(copy)) {
		memcpy(copy, text, size + 1);
		/* "512MB" is what Slurm takes, too */
		if (size > 2 && toupper((unsigned char)copy[size - 1]) == 'B' &&
			isalpha((unsigned char)copy[size - 2]))
			copy[size - 1] = '\0';
		if (parse_size(copy, MB, &bytes) == 0) {
			*ret_mb = bytes / MB + (bytes % MB != 0);
			return 0;
		}
	}
	return err_set_text(err, -EINVAL,
		"'%.100s' is not a size: a number of MB, or one with K, M, G or T after it", text);
}

int value_parse_limit(const char *text, uint32_t *ret_min, struct err *err)
{
	uint64_t ms;

	if (strcasecmp(text, "UNLIMITED") == 0 || strcasecmp(text, "INFINITE") == 0 ||
		strcmp(text, "-1") == 0) {
		*ret_min = INFINITE;
		return 0;
	}
	if (parse_slurm_time_ms(text, &ms) < 0)
		return err_set_text(err, -EINVAL,
			"'%.100s' is not a time: MINUTES, MINUTES:SECONDS, HOURS:MINUTES:SECONDS, "
			"DAYS-HOURS[:MINUTES[:SECONDS]] or UNLIMITED",
			text);
	*ret_min = ms == 0 ? INFINITE : (uint32_t)((ms + 59999) / 60000);
	return 0;
}

/* ---- points in time ---------------------------------------------------------------------------
 */

static const struct {
	const char *name;
	int hour;
} day_times[] = {{"midnight", 0}, {"elevenses", 11}, {"noon", 12}, {"fika", 15}, {"teatime", 16}};

static const struct {
	const char *name; /* its beginnings are names, too */
	int seconds;
} units[] = {
	{"seconds", 1},
	{"minutes", 60},
	{"hours", 3600},
	{"days", 86400},
	{"weeks", 7 * 86400},
};

/* The text after "now". */
static int parse_offset(const char *text, time_t now, time_t *ret_time)
{
	size_t digits, i, size;
	char number[12];
	uint32_t n;

	if (!*text) {
		*ret_time = now;
		return 0;
	}
	if (*text++ != '+')
		return -EINVAL;
	digits = strspn(text, "0123456789");
	if (digits >= sizeof(number))
		return -EINVAL;
	memcpy(number, text, digits);
	number[digits] = '\0';
	text += digits;
	size = strlen(text);
	for (i = 0; i < ARRAY_SIZE(units) && strncasecmp(text, units[i].name, size) != 0; i++)
		;
	if (i == ARRAY_SIZE(units) || parse_u32(number, 0, COUNT_MAX, &n) < 0)
		return -EINVAL;
	*ret_time = now + (time_t)n * units[i].seconds;
	return 0;
}

/* Two digits at *text, which moves behind them; -1: there are none. */
static int take_two(const char **text)
{
	const char *p = *text;

	if (!isdigit((unsigned char)p[0]) || !isdigit((unsigned char)p[1]))
		return -1;
	*text += 2;
	return (p[0] - '0') * 10 + (p[1] - '0');
}

/* "16:00", "4:00PM", "16:00:30", or a name of day_times. */
static int parse_day_time(const char *text, struct tm *tm)
{
	int hour, minute, second = 0;
	char *end;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(day_times); i++) {
		if (strcasecmp(text, day_times[i].name) != 0)
			continue;
		tm->tm_hour = day_times[i].hour;
		tm->tm_min = tm->tm_sec = 0;
		return 0;
	}
	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	hour = (int)strtoul(text, &end, 10);
	if (end - text > 2 || *end++ != ':')
		return -EINVAL;
	text = end;
	minute = take_two(&text);
	if (*text == ':') {
		text++;
		second = take_two(&text);
	}
	text += *text == ' ';
	if (strcasecmp(text, "AM") == 0 || strcasecmp(text, "PM") == 0) {
		if (hour < 1 || hour > 12)
			return -EINVAL;
		hour = hour % 12 + (toupper((unsigned char)*text) == 'P' ? 12 : 0);
		text += 2;
	}
	if (*text || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59)
		return -EINVAL;
	tm->tm_hour = hour;
	tm->tm_min = minute;
	tm->tm_sec = second;
	return 0;
}

static int set_date(struct tm *tm, int year, int month, int day)
{
	static const int days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

	if (month < 1 || month > 12 || day < 1 || day > days[month - 1])
		return -EINVAL;
	tm->tm_year = year - 1900;
	tm->tm_mon = month - 1;
	tm->tm_mday = day;
	return 0;
}

/* "YYYY-MM-DD" at *text, which moves behind it. */
static int take_iso_date(const char **text, struct tm *tm)
{
	int century = take_two(text), year = take_two(text), month, day;

	if (century < 0 || year < 0 || *(*text)++ != '-')
		return -EINVAL;
	month = take_two(text);
	if (month < 0 || *(*text)++ != '-')
		return -EINVAL;
	day = take_two(text);
	return set_date(tm, century * 100 + year, month, day);
}

/* "MMDDYY", "MM/DD/YY" and "MM.DD.YY", with the year or without. */
static int take_short_date(const char **text, struct tm *tm)
{
	const char mark = (*text)[2] == '/' || (*text)[2] == '.' ? (*text)[2] : '\0';
	int month = take_two(text), day, year = tm->tm_year % 100;

	if (month < 0 || (mark && *(*text)++ != mark))
		return -EINVAL;
	day = take_two(text);
	if (day < 0)
		return -EINVAL;
	if (mark ? **text == mark : isdigit((unsigned char)**text)) {
		*text += mark != '\0';
		year = take_two(text);
	} else if (!mark) {
		return -EINVAL;
	}
	return year < 0 ? -EINVAL : set_date(tm, 2000 + year, month, day);
}

static bool has_iso_date(const char *text)
{
	return strspn(text, "0123456789") == 4 && text[4] == '-';
}

/* A date, and behind a 'T' or a blank a time of day, which is midnight without one. */
static int parse_date(const char *text, struct tm *tm)
{
	int r = has_iso_date(text) ? take_iso_date(&text, tm) : take_short_date(&text, tm);

	tm->tm_hour = tm->tm_min = tm->tm_sec = 0;
	if (r < 0 || !*text)
		return r;
	if (*text != 'T' && *text != ' ' && *text != '-')
		return -EINVAL;
	return parse_day_time(text + 1, tm);
}

static bool is_day_name(const char *text)
{
	return strcasecmp(text, "today") == 0 || strcasecmp(text, "tomorrow") == 0;
}

/* The broken-down time; false: it has passed today, and is meant for tomorrow. */
static int parse_tm(const char *text, const struct tm *today, struct tm *ret_tm, bool *ret_dated)
{
	struct tm tm = *today;
	int r = 0;

	tm.tm_isdst = -1; /* as it is then */
	*ret_dated = true;
	if (is_day_name(text)) {
		tm.tm_mday += strcasecmp(text, "tomorrow") == 0;
		tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
	} else if (parse_day_time(text, &tm) == 0) {
		*ret_dated = false;
	} else {
		tm = *today;
		tm.tm_isdst = -1;
		r = strlen(text) < 4 ? -EINVAL : parse_date(text, &tm);
	}
	*ret_tm = tm;
	return r;
}

int value_parse_begin(const char *text, time_t now, time_t *ret_time, struct err *err)
{
	struct tm today, tm;
	bool dated = true;
	time_t time = -1;
	int r;

	if (strncasecmp(text, "now", 3) == 0) {
		r = parse_offset(text + 3, now, &time);
	} else {
		r = localtime_r(&now, &today) ? parse_tm(text, &today, &tm, &dated) : -EOVERFLOW;
		if (r == 0)
			time = mktime(&tm);
		if (r == 0 && !dated && time <= now) {
			tm.tm_mday++;
			tm.tm_isdst = -1;
			time = mktime(&tm);
		}
	}
	if (r < 0 || time < 0)
		return err_set_text(err, -EINVAL,
			"'%.100s' is not a time: now+NUMBER[UNIT], HH:MM[:SS], "
			"YYYY-MM-DD[THH:MM[:SS]], MM/DD/YY",
			text);
	*ret_time = time;
	return 0;
}

/* ---- dependencies -----------------------------------------------------------------------------
 */

#define DELAY_MAX_MIN (365u * 24 * 60)

struct dependencies {
	struct job_dependency *items;
	size_t n, capacity;
	bool singleton;
};

static int add_dependency(
	struct dependencies *all, enum job_dependency_kind kind, const char *id, struct err *err)
{
	struct job_dependency one = {.kind = kind, .task_id = NO_VAL};
	_cleanup_free_ char *copy = strdup(id);
	char *task = copy, *delay = copy, *number;

	if (!copy)
		return err_set(err, -ENOMEM, "read dependencies");
	(void)strsep(&delay, "+");
	number = strsep(&task, "_");
	if (delay && kind != DEPENDS_AFTER)
		return err_set_text(err, -EINVAL,
			"'%.100s' has a delay, which only after:ID+MINUTES takes", id);
	if (parse_u32(number, 1, NO_VAL - 1, &one.job_id) < 0)
		return err_set_text(err, -EINVAL, "'%.100s' is not a job's number", id);
	/* "12_*" is the whole array, as is "12" */
	if (task && strcmp(task, "*") != 0 && parse_u32(task, 0, NO_VAL - 1, &one.task_id) < 0)
		return err_set_text(err, -EINVAL, "'%.100s' is not a task of an array", id);
	if (delay && parse_u32(delay, 0, DELAY_MAX_MIN, &one.delay_min) < 0)
		return err_set_text(err, -EINVAL,
			"'%.100s': the delay is a number of minutes up to %u", id, DELAY_MAX_MIN);
	if (all->n == DEPENDENCIES_MAX)
		return err_set_text(err, -E2BIG, "there are more than %u jobs", DEPENDENCIES_MAX);
	if (array_reserve(all->items, all->capacity, all->n + 1) < 0)
		return err_set(err, -ENOMEM, "read dependencies");
	all->items[all->n++] = one;
	return 0;
}

/* "afterok:1:2", which is cut into pieces. */
static int add_clause(struct dependencies *all, char *clause, struct err *err)
{
	static const char *const kinds[] = {
		[DEPENDS_AFTER] = "after",
		[DEPENDS_AFTER_ANY] = "afterany",
		[DEPENDS_AFTER_OK] = "afterok",
		[DEPENDS_AFTER_NOT_OK] = "afternotok",
	};
	char *ids = clause;
	const char *name = strsep(&ids, ":"), *id;
	int kind = -1, r = 0;
	size_t i;

	if (strcasecmp(name, "singleton") == 0 && !ids) {
		all->singleton = true;
		return 0;
	}
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (strcasecmp(name, kinds[i]) == 0)
			kind = (int)i;
	}
	if (kind < 0 || !ids)
		return err_set_text(err, -EINVAL,
			"'%.100s' is not one of after:ID, afterany:ID, afterok:ID, afternotok:ID "
			"and singleton",
			name);
	while (r == 0 && (id = strsep(&ids, ":")))
		r = add_dependency(all, (enum job_dependency_kind)kind, id, err);
	return r;
}

int value_parse_dependencies(const char *text, struct job_request *request, struct err *err)
{
	const bool any = strchr(text, '?') != NULL;
	_cleanup_free_ char *copy = strdup(text);
	struct dependencies all = {0};
	char *rest = copy, *clause;
	int r = 0;

	if (!copy)
		return err_set(err, -ENOMEM, "read dependencies");
	if (any && strchr(text, ','))
		return err_set_text(err, -EINVAL,
			"'%.100s' has both ',' and '?': use ',' for all of them, or '?' for one of "
			"them",
			text);
	while (r == 0 && (clause = strsep(&rest, any ? "?" : ",")))
		r = add_clause(&all, clause, err);
	if (r < 0) {
		free(all.items);
		return r;
	}
	free(request->dependencies);
	request->dependencies = all.items;
	request->dependencies_count = all.n;
	request->dependencies_any = any;
	request->singleton = all.singleton;
	return 0;
}

/* ---- lists ------------------------------------------------------------------------------------
 */

/* "3", "0-9" or "0-9:2", which ends at a ',' or the text's end: behind it, or NULL. */
static const char *skip_indexes(const char *text)
{
	unsigned long first, last;
	char *end;

	if (!isdigit((unsigned char)*text) || strspn(text, "0123456789") > 9)
		return NULL;
	first = strtoul(text, &end, 10);
	if (*end != '-')
		return end;
	text = end + 1;
	if (!isdigit((unsigned char)*text) || strspn(text, "0123456789") > 9)
		return NULL;
	last = strtoul(text, &end, 10);
	if (last < first)
		return NULL;
	if (*end != ':')
		return end;
	text = end + 1;
	if (!isdigit((unsigned char)*text) || strspn(text, "0123456789") > 9 ||
		strtoul(text, &end, 10) == 0)
		return NULL;
	return end;
}

int value_check_array(const char *text, struct err *err)
{
	const char *p = skip_indexes(text);
	uint32_t most;

	while (p && *p == ',')
		p = skip_indexes(p + 1);
	if (p && *p == '%' && parse_u32(p + 1, 1, COUNT_MAX, &most) == 0)
		return 0;
	if (!p || *p)
		return err_set_text(err, -EINVAL,
			"'%.100s' is not a list of indexes, such as 0-15, 1,3,7 or 0-15:4%%2",
			text);
	return 0;
}

int value_check_nodes(const char *text, struct err *err)
{
	int r = hostlist_each(text, CONF_NODES_MAX, NULL, NULL);

	return r < 0 ? err_set_text(err, -EINVAL,
			       "'%.200s' is not a list of nodes, such as n[1-4],n7", text)
		     : 0;
}
