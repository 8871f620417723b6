/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/procusage.h"

#include <fcntl.h>

#include "proctrack/procs.h"
#include "stepd/base/fs.h"
#include "stepd/base/parse.h"
#include "stepd/base/proc.h"

#define FILE_SIZE_MAX 65536
#define DEPTH_MAX     4096 /* of a line of parents; pids are read one after the other */

/* The values that /proc has, and how several processes add up to one. */
enum sum {
	SUM_NOT,
	SUM_COUNT, /* nothing is known of no process */
	SUM_NOW,   /* none is zero */
	SUM_PEAK,  /* the largest */
};

static const enum sum sums[STEPD_USAGE_COUNT] = {
	[STEPD_USAGE_CPU_USER_USEC] = SUM_COUNT,
	[STEPD_USAGE_CPU_SYSTEM_USEC] = SUM_COUNT,
	[STEPD_USAGE_MEMORY_BYTES] = SUM_NOW,
	[STEPD_USAGE_MEMORY_PEAK_BYTES] = SUM_PEAK,
	[STEPD_USAGE_SWAP_BYTES] = SUM_NOW,
	[STEPD_USAGE_PAGE_FAULTS] = SUM_COUNT,
	[STEPD_USAGE_MAJOR_FAULTS] = SUM_COUNT,
	[STEPD_USAGE_PROCESSES] = SUM_NOW,
	[STEPD_USAGE_IO_READ_BYTES] = SUM_COUNT,
	[STEPD_USAGE_IO_WRITE_BYTES] = SUM_COUNT,
};

bool procusage_has(enum stepd_usage_value which)
{
	return sums[which] != SUM_NOT;
}

static void set(stepd_usage_t *usage, enum stepd_usage_value which, uint64_t value)
{
	usage->value[which] = value;
	usage->source[which] = STEPD_USAGE_PROC;
}

static uint64_t ticks_to_usec(uint64_t ticks)
{
	return ticks * 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
}

static void read_stat(const struct procstat *st, stepd_usage_t *usage)
{
	set(usage, STEPD_USAGE_CPU_USER_USEC, ticks_to_usec(st->utime_ticks + st->cutime_ticks));
	set(usage, STEPD_USAGE_CPU_SYSTEM_USEC, ticks_to_usec(st->stime_ticks + st->cstime_ticks));
	set(usage, STEPD_USAGE_MEMORY_BYTES, st->rss_pages * (uint64_t)sysconf(_SC_PAGESIZE));
	set(usage, STEPD_USAGE_PAGE_FAULTS, st->minflt + st->cminflt + st->majflt + st->cmajflt);
	set(usage, STEPD_USAGE_MAJOR_FAULTS, st->majflt + st->cmajflt);
	set(usage, STEPD_USAGE_PROCESSES, 1);
}

static char *read_file(int proc_fd, pid_t pid, const char *file)
{
	char name[48];
	char *text = NULL;

	(void)snprintf(name, sizeof(name), "%d/%s", (int)pid, file);
	return fs_read(proc_fd, name, FILE_SIZE_MAX, &text, NULL) < 0 ? NULL : text;
}

static void read_status(int proc_fd, pid_t pid, stepd_usage_t *usage)
{
	_cleanup_free_ char *text = read_file(proc_fd, pid, "status");
	uint64_t kib;

	if (text && parse_line_u64(text, "VmHWM:", &kib) == 0)
		set(usage, STEPD_USAGE_MEMORY_PEAK_BYTES, kib * 1024);
	if (text && parse_line_u64(text, "VmSwap:", &kib) == 0)
		set(usage, STEPD_USAGE_SWAP_BYTES, kib * 1024);
}

static void read_io(int proc_fd, pid_t pid, stepd_usage_t *usage)
{
	_cleanup_free_ char *text = read_file(proc_fd, pid, "io");
	uint64_t bytes;

	if (text && parse_line_u64(text, "read_bytes:", &bytes) == 0)
		set(usage, STEPD_USAGE_IO_READ_BYTES, bytes);
	if (text && parse_line_u64(text, "write_bytes:", &bytes) == 0)
		set(usage, STEPD_USAGE_IO_WRITE_BYTES, bytes);
}

int procusage_read(const pid_t *pids, int n, struct procusage *ret_processes)
{
	_cleanup_close_ int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_procusage_ struct procusage all = {0};
	struct procusage_process *p;
	struct procstat st;
	int i, r;

	if (proc_fd < 0)
		return -errno;
	all.v = calloc((size_t)n + 1, sizeof(*all.v));
	if (!all.v)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		r = procstat_read_at(proc_fd, pids[i], &st);
		if (r == -ESRCH)
			continue;
		if (r < 0)
			return r;
		p = &all.v[all.n++];
		p->pid = st.pid;
		p->ppid = st.ppid;
		read_stat(&st, &p->usage);
		read_status(proc_fd, st.pid, &p->usage);
		read_io(proc_fd, st.pid, &p->usage);
	}
	qsort(all.v, all.n, sizeof(*all.v), procs_compare_pids);
	*ret_processes = take_struct(all);
	return 0;
}

void procusage_clear(struct procusage *processes)
{
	free(processes->v);
	*processes = (struct procusage){0};
}

/* Adds one process to sum, which is that of others if first is not set. */
static void usage_add(stepd_usage_t *sum, const stepd_usage_t *one, bool first)
{
	int i;

	if (first) {
		*sum = *one;
		return;
	}
	for (i = 0; i < STEPD_USAGE_COUNT; i++) {
		if (!sum->source[i] || !one->source[i]) {
			sum->source[i] = STEPD_USAGE_UNKNOWN;
			sum->value[i] = 0;
		} else if (sums[i] == SUM_PEAK) {
			if (one->value[i] > sum->value[i])
				sum->value[i] = one->value[i];
		} else {
			sum->value[i] += one->value[i];
		}
	}
}

void procusage_sum(const struct procusage *processes, stepd_usage_t *ret_usage)
{
	stepd_usage_t sum = {0};
	size_t i;

	for (i = 0; processes->n == 0 && i < STEPD_USAGE_COUNT; i++) {
		if (sums[i] == SUM_NOW)
			set(&sum, (enum stepd_usage_value)i, 0);
	}
	for (i = 0; i < processes->n; i++)
		usage_add(&sum, &processes->v[i].usage, i == 0);
	*ret_usage = sum;
}

static const struct procusage_process *process_find(const struct procusage *processes, pid_t pid)
{
	const struct procusage_process key = {.pid = pid};

	return processes->n > 0
		? bsearch(&key, processes->v, processes->n, sizeof(key), procs_compare_pids)
		: NULL;
}

/* A task's index among the tasks, found by its pid. */
struct leader {
	pid_t pid;
	size_t index;
};

/* The task that the process is or descends from, or NULL. */
static const struct leader *leader_of(const struct procusage *processes,
	const struct procusage_process *p, const struct leader *leaders, size_t n)
{
	const struct leader *found = NULL;
	int depth;

	for (depth = 0; p && !found && depth < DEPTH_MAX; depth++) {
		const struct leader key = {.pid = p->pid};

		found = bsearch(&key, leaders, n, sizeof(key), procs_compare_pids);
		p = process_find(processes, p->ppid);
	}
	return found;
}

int procusage_sum_tasks(const struct procusage *processes, const stepd_step_task_info_t *tasks,
	size_t n, stepd_usage_t *ret_usage)
{
	_cleanup_free_ struct leader *leaders = calloc(n + 1, sizeof(*leaders));
	const struct leader *leader;
	size_t living = 0, i;

	if (!leaders)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		ret_usage[i] = (stepd_usage_t){0};
		if (tasks[i].pid > 0)
			leaders[living++] = (struct leader){tasks[i].pid, i};
	}
	qsort(leaders, living, sizeof(*leaders), procs_compare_pids);
	for (i = 0; living > 0 && i < processes->n; i++) {
		leader = leader_of(processes, &processes->v[i], leaders, living);
		if (!leader)
			continue;
		usage_add(&ret_usage[leader->index], &processes->v[i].usage,
			!ret_usage[leader->index].source[STEPD_USAGE_PROCESSES]);
	}
	return 0;
}

void procusage_fill(stepd_usage_t *usage, const stepd_usage_t *other)
{
	int i;

	for (i = 0; i < STEPD_USAGE_COUNT; i++) {
		if (usage->source[i] == STEPD_USAGE_UNKNOWN) {
			usage->value[i] = other->value[i];
			usage->source[i] = other->source[i];
		}
	}
}
