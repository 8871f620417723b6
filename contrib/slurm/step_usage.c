/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/step_usage.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "contrib/slurm/step_record.h"
#include "stepd/base/fs.h"
#include "stepd/base/json.h"
#include "stepd/base/parse.h"

#define FILE_SIZE_MAX 4096u

int step_usage_open(
	struct step_usage *u, const struct slurm_tres_list *tres, const uint32_t *ranks, uint32_t n)
{
	uint32_t i;

	*u = (struct step_usage){.tres = *tres, .n = n};
	u->tasks = calloc(n, sizeof(*u->tasks));
	if (!u->tasks)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		u->tasks[i].rank = ranks[i];
	return 0;
}

void step_usage_clear(struct step_usage *u)
{
	free(u->tasks);
	*u = (struct step_usage){0};
}

/* They come in their order, for the most part: hint is where to begin. */
static struct step_usage_task *find_task(struct step_usage *u, int64_t rank, uint32_t *hint)
{
	uint32_t i, at;

	if (u->whole)
		return u->tasks;

	for (i = 0; rank >= 0 && i < u->n; i++) {
		at = (*hint + i) % u->n;
		if (u->tasks[at].rank == rank) {
			*hint = at;
			return &u->tasks[at];
		}
	}
	return NULL;
}

static void note(struct step_usage_value *value, uint64_t now)
{
	value->known = true;
	value->now = now;
	if (value->most < now)
		value->most = now;
}

/* ---- the agent's numbers ------------------------------------------------------------------- */

static bool get_number(const json_t *usage, const char *name, uint64_t *ret_n)
{
	int64_t n;

	if (!json_get_range(usage, name, 0, INT64_MAX, &n))
		return false;
	*ret_n = (uint64_t)n;
	return true;
}

/* A cgroup's peak has the cache of files in it, which Slurm's gathering from /proc has not. */
static bool has_peak(
	const struct step_usage *u, const struct step_usage_task *task, const json_t *entry)
{
	const char *source = json_get_text(
		json_get_object(entry, "usage_sources"), "memory_peak_bytes", "cgroup");

	return u->cache_counts || strcmp(source, "cgroup") != 0 ||
		!task->values[STEP_USAGE_MEMORY].known;
}

static void take_task(struct step_usage *u, struct step_usage_task *task, const json_t *entry)
{
	const json_t *usage = json_get_object(entry, "usage");
	struct step_usage_value *memory = &task->values[STEP_USAGE_MEMORY];
	bool cpu = get_number(usage, "cpu_user_usec", &task->user_usec);
	uint64_t n;

	cpu |= get_number(usage, "cpu_system_usec", &task->system_usec);
	if (cpu)
		note(&task->values[STEP_USAGE_CPU], (task->user_usec + task->system_usec) / 1000);
	if (get_number(usage, "major_faults", &n))
		note(&task->values[STEP_USAGE_PAGES], n);
	if (u->cache_counts && get_number(usage, "memory_bytes", &n))
		note(memory, n);
	if (get_number(usage, "memory_peak_bytes", &n) && has_peak(u, task, entry)) {
		if (!memory->known)
			note(memory, n);
		else if (memory->most < n)
			memory->most = n;
	}
}

void step_usage_take(struct step_usage *u, const json_t *tasks)
{
	struct step_usage_task *task;
	const json_t *entry;
	uint32_t hint = 0;
	size_t i;

	json_array_foreach (tasks, i, entry) {
		task = find_task(u, json_get_int(entry, "rank", -1), &hint);
		if (task)
			take_task(u, task, entry);
	}
}

void step_usage_take_whole(struct step_usage *u, const json_t *step)
{
	if (u->whole && step)
		take_task(u, u->tasks, step);
}

/* ---- processes ----------------------------------------------------------------------------- */

static bool read_file(int proc_fd, int64_t pid, const char *file, char **ret_text)
{
	char name[48];

	(void)snprintf(name, sizeof(name), "%lld/%s", (long long)pid, file);
	return fs_read(proc_fd, name, FILE_SIZE_MAX, ret_text, NULL) >= 0;
}

/* A process that has ended meanwhile is passed over, also one that is a zombie: it has no memory,
 * but its task had. */
static void add_process(struct step_usage_task *task, int proc_fd, int64_t pid)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	_cleanup_free_ char *statm = NULL, *io = NULL;
	unsigned long long size, resident;
	uint64_t n;

	if (!read_file(proc_fd, pid, "statm", &statm) ||
		sscanf(statm, "%llu %llu", &size, &resident) != 2 || size == 0)
		return;
	task->is_seen = true;
	task->seen[STEP_USAGE_VIRTUAL] += size * page;
	task->seen[STEP_USAGE_MEMORY] += resident * page;
	if (!read_file(proc_fd, pid, "io", &io))
		return;
	if (parse_line_u64(io, "rchar:", &n) == 0)
		task->seen[STEP_USAGE_READ] += n;
	if (parse_line_u64(io, "wchar:", &n) == 0)
		task->seen[STEP_USAGE_WRITTEN] += n;
}

void step_usage_add_processes(struct step_usage *u, const json_t *pids)
{
	_cleanup_close_ int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct step_usage_task *task;
	const json_t *entry;
	uint32_t hint = 0;
	int64_t pid;
	size_t i;

	json_array_foreach (pids, i, entry) {
		task = find_task(u, json_get_int(entry, "rank", -1), &hint);
		if (task && proc_fd >= 0 && json_get_range(entry, "pid", 1, INT32_MAX, &pid))
			add_process(task, proc_fd, pid);
	}
}

/* What processes that have ended had read is not lost: a count never falls. */
static void note_seen(struct step_usage_task *task, enum step_usage_kind kind, bool counts)
{
	struct step_usage_value *value = &task->values[kind];
	uint64_t n = task->seen[kind];

	note(value, counts && value->most > n ? value->most : n);
}

void step_usage_end_processes(struct step_usage *u)
{
	uint32_t i;

	for (i = 0; i < u->n; i++) {
		struct step_usage_task *task = &u->tasks[i];

		if (!task->is_seen)
			continue;
		note_seen(task, STEP_USAGE_VIRTUAL, false);
		if (!u->cache_counts)
			note_seen(task, STEP_USAGE_MEMORY, false);
		note_seen(task, STEP_USAGE_READ, true);
		note_seen(task, STEP_USAGE_WRITTEN, true);
		memset(task->seen, 0, sizeof(task->seen));
		task->is_seen = false;
	}
}

/* ---- the record ---------------------------------------------------------------------------- */

/* What a TRES takes in and puts out; STEP_USAGE_KIND_MAX: nothing that is known. */
static void find_kinds(const struct slurm_tres *tres, enum step_usage_kind ret_kinds[static 2])
{
	static const struct {
		const char *type;
		enum step_usage_kind in, out;
	} rows[] = {
		{"cpu", STEP_USAGE_CPU, STEP_USAGE_KIND_MAX},
		{"mem", STEP_USAGE_MEMORY, STEP_USAGE_KIND_MAX},
		{"vmem", STEP_USAGE_VIRTUAL, STEP_USAGE_KIND_MAX},
		{"pages", STEP_USAGE_PAGES, STEP_USAGE_KIND_MAX},
		{"fs", STEP_USAGE_READ, STEP_USAGE_WRITTEN},
	};
	size_t i;

	ret_kinds[0] = ret_kinds[1] = STEP_USAGE_KIND_MAX;
	for (i = 0; tres->type && i < ARRAY_SIZE(rows); i++) {
		if (strcmp(rows[i].type, tres->type) != 0)
			continue;
		ret_kinds[0] = rows[i].in;
		ret_kinds[1] = rows[i].out;
	}
}

static void set_extreme(const struct step_usage *u, const struct step_usage_task *task,
	uint64_t most, uint64_t *columns)
{
	columns[0] = most;
	columns[1] = u->node;
	columns[2] = task->rank;
}

static void make_columns(const struct step_usage *u, enum step_usage_kind kind,
	uint64_t columns[static STEP_COLUMN_MAX])
{
	bool known = false;
	uint32_t i;
	int c;

	for (c = 0; c < STEP_COLUMN_MAX; c++)
		columns[c] = STEP_RECORD_UNKNOWN;
	for (i = 0; kind < STEP_USAGE_KIND_MAX && i < u->n; i++) {
		const struct step_usage_task *task = &u->tasks[i];
		const struct step_usage_value *value = &task->values[kind];

		if (!value->known)
			continue;
		if (!known || value->most > columns[STEP_COLUMN_MOST])
			set_extreme(u, task, value->most, columns + STEP_COLUMN_MOST);
		if (!known || value->most < columns[STEP_COLUMN_LEAST])
			set_extreme(u, task, value->most, columns + STEP_COLUMN_LEAST);
		columns[STEP_COLUMN_SUM] = (known ? columns[STEP_COLUMN_SUM] : 0) + value->now;
		known = true;
	}
}

/* Of the node, and of no task. */
static void set_node(const struct step_usage *u, uint64_t most, uint64_t sum,
	uint64_t columns[static STEP_COLUMN_MAX])
{
	columns[STEP_COLUMN_MOST] = columns[STEP_COLUMN_LEAST] = most;
	columns[STEP_COLUMN_SUM] = sum;
	columns[STEP_COLUMN_MOST_NODE] = columns[STEP_COLUMN_LEAST_NODE] = u->node;
}

/* 0 where nobody counts. */
static uint64_t get_joules(const struct step_usage *u, uint64_t n)
{
	if (!u->energy || u->energy->source == SITE_ENERGY_NONE)
		return 0;
	return u->energy->is_read ? n : STEP_RECORD_NO_ENERGY;
}

/* Joules are taken in, watts put out. */
static void set_energy(const struct step_usage *u, uint64_t *row)
{
	static const struct step_energy none = {.source = SITE_ENERGY_NONE};
	const struct step_energy *e = u->energy ? u->energy : &none;

	set_node(u, get_joules(u, e->most_joules), get_joules(u, e->joules), row);
	set_node(u, e->most_watts, e->mean_watts, row + STEP_COLUMN_MAX);
}

/* The table has a row for each TRES: the columns of what is taken in, then those of the other. */
static uint64_t *make_table(const struct step_usage *u)
{
	uint64_t *table = calloc((size_t)u->tres.n + 1, sizeof(*table) * 2 * STEP_COLUMN_MAX), *row;
	struct slurm_tres_list rest = u->tres;
	enum step_usage_kind kinds[2];
	struct slurm_tres tres;

	for (row = table; row && slurm_tres_next(&rest, &tres);
		row += (size_t)2 * STEP_COLUMN_MAX) {
		find_kinds(&tres, kinds);
		make_columns(u, kinds[0], row);
		make_columns(u, kinds[1], row + STEP_COLUMN_MAX);
		if (tres.type && strcmp(tres.type, "energy") == 0)
			set_energy(u, row);
	}
	return table;
}

static void pack_ids(const struct step_usage *u, struct pack *p)
{
	struct slurm_tres_list rest = u->tres;
	struct slurm_tres tres;

	pack_u32(p, u->tres.n);
	while (slurm_tres_next(&rest, &tres))
		pack_u32(p, tres.id);
}

static void pack_head(const struct step_usage *u, struct pack *p)
{
	uint64_t user_usec = 0, system_usec = 0;
	uint32_t i;

	for (i = 0; i < u->n; i++) {
		user_usec += u->tasks[i].user_usec;
		system_usec += u->tasks[i].system_usec;
	}
	pack_u8(p, 1);
	step_record_pack_time(p, user_usec);
	step_record_pack_time(p, system_usec);
	pack_u32(p, 0); /* the frequency is not known */
	pack_u64(p, get_joules(u, u->energy ? u->energy->joules : 0));
}

void step_usage_pack(const struct step_usage *u, bool with_tres, struct pack *p)
{
	_cleanup_free_ uint64_t *table = u ? make_table(u) : NULL;
	uint32_t i;
	int c;

	if (!table) {
		pack_u8(p, 0);
		return;
	}
	pack_head(u, p);
	pack_ids(u, p);
	pack_u32(p, with_tres ? u->tres.n : STEP_RECORD_NO_LIST);
	if (with_tres)
		pack_raw(p, u->tres.bytes, u->tres.size);
	for (c = 0; c < 2 * STEP_COLUMN_MAX; c++) {
		pack_u32(p, u->tres.n);
		for (i = 0; i < u->tres.n; i++)
			pack_u64(p, table[(size_t)i * 2 * STEP_COLUMN_MAX + c]);
	}
}
