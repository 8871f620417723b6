/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/account/usage_values.h"

#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

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

const char *const usage_source_words[STEPD_USAGE_SOURCE_COUNT] = {
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

/* Without a cgroup that counts it nobody knows the peak of all: it is that of one process, and can
 * be less than all of them have now. */
const char *usage_title(enum stepd_usage_value which, uint8_t source)
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
				json_string(usage_source_words[usage->source[i]]));
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

/* Three digits that count: 1.23, 12.3, 123. */
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
	/* Both are zero where the kernel counts none (CONFIG_TASK_IO_ACCOUNTING), and a zero would
	 * then be made up. */
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

static bool is_better(const stepd_usage_t *last, const stepd_usage_t *look, int i)
{
	bool was_group = last->source[i] == STEPD_USAGE_CGROUP;
	bool is_group = look->source[i] == STEPD_USAGE_CGROUP;

	if (!look->source[i])
		return false;
	if (!last->source[i] || usage_values[i].now)
		return true;
	return was_group == is_group ? look->value[i] >= last->value[i] : is_group;
}

void usage_update(stepd_usage_t *last, const stepd_usage_t *look)
{
	int i;

	for (i = 0; i < STEPD_USAGE_COUNT; i++) {
		if (!is_better(last, look, i))
			continue;
		last->value[i] = look->value[i];
		last->source[i] = look->source[i];
	}
}
