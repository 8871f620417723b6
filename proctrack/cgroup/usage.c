/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/usage.h"

#include <fcntl.h>
#include <string.h>

#include "proctrack/cgroup/cgroupfs.h"
#include "proctrack/cgroup/group.h"
#include "stepd/base/fs.h"
#include "stepd/base/parse.h"

/* ---- forms of text ------------------------------------------------------------------------ */

/* Finds the number that key means in a file's text; false if it is not there. */
typedef bool (*find_fn)(const char *text, const char *key, uint64_t *ret_n);

static bool find_number(const char *text, _unused_ const char *key, uint64_t *ret_n)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	*ret_n = strtoull(text, &end, 10);
	return *end == '\n' || *end == '\0';
}

static bool find_line(const char *text, const char *key, uint64_t *ret_n)
{
	return parse_line_u64(text, key, ret_n) == 0;
}

/* "8:0 rbytes=1 wbytes=2 ...", a line for each device, "rbytes=" being the key. A device without
 * any has a line without numbers, and a group without devices an empty file: both are 0. */
static bool find_sum(const char *text, const char *key, uint64_t *ret_n)
{
	const char *at = text;
	uint64_t sum = 0;

	while ((at = strstr(at, key))) {
		if (at > text && at[-1] == ' ')
			sum += strtoull(at + strlen(key), NULL, 10);
		at += strlen(key);
	}
	*ret_n = sum;
	return true;
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=5", and a second line, "full". */
static bool find_total(const char *text, const char *key, uint64_t *ret_n)
{
	const char *total;

	if (strncmp(text, key, strlen(key)) != 0)
		return false;
	total = strstr(text, "total=");
	if (!total || total > text + strcspn(text, "\n"))
		return false;
	*ret_n = strtoull(total + strlen("total="), NULL, 10);
	return true;
}

/* By file. */
static const struct counter {
	const char *file;
	const char *key;
	find_fn find;
	enum stepd_usage_value value;
} counters[] = {
	{"cpu.stat", "user_usec ", find_line, STEPD_USAGE_CPU_USER_USEC},
	{"cpu.stat", "system_usec ", find_line, STEPD_USAGE_CPU_SYSTEM_USEC},
	{"cpu.stat", "throttled_usec ", find_line, STEPD_USAGE_CPU_THROTTLED_USEC},
	{"memory.current", NULL, find_number, STEPD_USAGE_MEMORY_BYTES},
	{"memory.peak", NULL, find_number, STEPD_USAGE_MEMORY_PEAK_BYTES}, /* Linux 5.19 */
	{"memory.swap.current", NULL, find_number, STEPD_USAGE_SWAP_BYTES},
	{"memory.stat", "pgfault ", find_line, STEPD_USAGE_PAGE_FAULTS},
	{"memory.stat", "pgmajfault ", find_line, STEPD_USAGE_MAJOR_FAULTS},
	{"memory.events", "oom ", find_line, STEPD_USAGE_OOM_EVENTS},
	{"memory.events", "oom_kill ", find_line, STEPD_USAGE_OOM_KILLS},
	{"pids.events", "max ", find_line, STEPD_USAGE_PIDS_MAX_EVENTS},
	{"io.stat", "rbytes=", find_sum, STEPD_USAGE_IO_READ_BYTES},
	{"io.stat", "wbytes=", find_sum, STEPD_USAGE_IO_WRITE_BYTES},
	{"cpu.pressure", "some ", find_total, STEPD_USAGE_CPU_PRESSURE_USEC},
	{"memory.pressure", "some ", find_total, STEPD_USAGE_MEMORY_PRESSURE_USEC},
	{"io.pressure", "some ", find_total, STEPD_USAGE_IO_PRESSURE_USEC},
};

static void set_value(stepd_usage_t *usage, enum stepd_usage_value which, uint64_t value)
{
	usage->value[which] = value;
	usage->source[which] = STEPD_USAGE_CGROUP;
}

void usage_parse(const char *file, const char *text, stepd_usage_t *usage)
{
	const struct counter *c;
	uint64_t n;

	for (c = counters; c < counters + ARRAY_SIZE(counters); c++) {
		if (strcmp(c->file, file) == 0 && c->find(text, c->key, &n))
			set_value(usage, c->value, n);
	}
}

/* ---- groups ------------------------------------------------------------------------------- */

bool usage_forgets_refused(int fd)
{
	return faccessat(fd, "pids.events", F_OK, 0) == 0 &&
		faccessat(fd, "pids.events.local", F_OK, 0) < 0; /* Linux 6.11 */
}

static int add_refused(int fd, void *userdata)
{
	_cleanup_free_ char *text = NULL;
	uint64_t *sum = userdata, n;

	if (fs_read(fd, "pids.events", CGFILE_MAX_BYTES, &text, NULL) == 0 &&
		parse_line_u64(text, "max ", &n) == 0)
		*sum += n;
	return 0;
}

uint64_t usage_get_refused(int fd)
{
	static const struct tree_ops ops = {.enter = add_refused};
	uint64_t sum = 0;

	return tree_walk(fd, &ops, &sum) < 0 ? 0 : sum;
}

/* Not pids.current: that counts threads. */
static int count_processes(int fd, stepd_usage_t *usage)
{
	_cleanup_pidset_ struct pidset set = {0};
	int r = group_list(fd, &set);

	if (r == 0)
		set_value(usage, STEPD_USAGE_PROCESSES, set.n);
	return r;
}

int usage_read(int fd, int members_fd, stepd_usage_t *ret_usage)
{
	stepd_usage_t u = {0};
	const char *last = "";
	size_t i;
	int r;

	for (i = 0; i < ARRAY_SIZE(counters); i++) {
		_cleanup_free_ char *text = NULL;

		if (strcmp(counters[i].file, last) == 0)
			continue;
		last = counters[i].file;
		r = fs_read(fd, last, CGFILE_MAX_BYTES, &text, NULL);
		if (r < 0 && i == 0)
			return cgfile_gone(r); /* cpu.stat is in every group */
		if (r == 0)
			usage_parse(last, text, &u);
	}
	if (usage_forgets_refused(fd))
		u.value[STEPD_USAGE_PIDS_MAX_EVENTS] = usage_get_refused(fd);
	r = count_processes(members_fd, &u);
	if (r == 0)
		*ret_usage = u;
	return r;
}
