/* SPDX-License-Identifier: BSD-3-Clause
 *
 * FindPid, FindPids: whose process is this? The tracker knows by a number of the agent's pid
 * namespace. A number of another one is searched among the members that live in that: all of
 * them are read first, which takes its time and turns of the loop.
 */
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "proctrack/proctrack.h"
#include "stepd/base/fs.h"
#include "stepd/base/procstat.h"
#include "stepd/operations/list.h"

/* The kernel's own limit of nested pid namespaces (MAX_PID_NS_LEVEL) and the first. */
#define LEVELS_MAX 33

#define STATUS_MAX (1u << 20)

struct translation {
	pid_t theirs, ours;
};

/* The listing's elements are first the members to be translated, then the pids. */
struct find {
	struct listing listing;
	uint64_t pid_namespace; /* 0: the agent's own */
	bool one;               /* FindPid */
	stepd_member_t *members;
	size_t members_count;
	struct translation *map; /* ascending by theirs, once all members have been read */
	size_t map_count;
};

/* ---- pid namespaces -------------------------------------------------------------------------- */

/* The inode of the namespace in which the process has its own number; 0: not to be had. */
static uint64_t get_namespace(int proc_fd, pid_t pid)
{
	struct stat st;
	char name[32];

	(void)snprintf(name, sizeof(name), "%d/ns/pid", (int)pid);
	return fstatat(proc_fd, name, &st, 0) == 0 ? st.st_ino : 0;
}

/* The process's numbers, from the agent's namespace to its own: how many. */
static size_t get_numbers(int proc_fd, pid_t pid, pid_t numbers[LEVELS_MAX])
{
	_cleanup_free_ char *text = NULL;
	char name[32], *at, *end;
	size_t n = 0;

	(void)snprintf(name, sizeof(name), "%d/status", (int)pid);
	if (fs_read(proc_fd, name, STATUS_MAX, &text, NULL) < 0)
		return 0;
	at = strstr(text, "\nNSpid:"); /* a process's name has no newline there: it is escaped */
	if (!at)
		return 0;
	at += strlen("\nNSpid:");
	while (n < LEVELS_MAX && *at && *at != '\n') {
		numbers[n] = (pid_t)strtol(at, &end, 10);
		if (end == at)
			break;
		n++;
		at = end;
	}
	return n;
}

static void add_translation(struct find *f, pid_t pid)
{
	pid_t numbers[LEVELS_MAX];
	size_t n;

	if (get_namespace(f->listing.proc_fd, pid) != f->pid_namespace)
		return;
	n = get_numbers(f->listing.proc_fd, pid, numbers);
	if (n > 0)
		f->map[f->map_count++] =
			(struct translation){.theirs = numbers[n - 1], .ours = pid};
}

static int compare(const void *a, const void *b)
{
	const struct translation *ta = a, *tb = b;

	return (ta->theirs > tb->theirs) - (ta->theirs < tb->theirs);
}

/* The agent's number; 0: none of the step's has that number there. */
static pid_t translate(const struct find *f, pid_t pid)
{
	const struct translation key = {.theirs = pid}, *found;

	if (!f->pid_namespace)
		return pid;
	found = bsearch(&key, f->map, f->map_count, sizeof(*f->map), compare);
	return found ? found->ours : 0;
}

/* ---- an answer ------------------------------------------------------------------------------- */

static void add_numbers(struct find *f, pid_t pid)
{
	pid_t numbers[LEVELS_MAX] = {pid};
	uint64_t its = get_namespace(f->listing.proc_fd, pid);
	size_t n = 1, i;

	/* One file less for nearly all. */
	if (its != f->listing.pending.o->pid_namespace)
		n = get_numbers(f->listing.proc_fd, pid, numbers);
	fputs(",\"namespace_pids\":[", f->listing.out);
	for (i = 0; i < n; i++)
		fprintf(f->listing.out, "%s%d", i ? "," : "", (int)numbers[i]);
	fputs("]}", f->listing.out);
}

static bool add_found(struct find *f, pid_t pid)
{
	const struct agent *a = f->listing.pending.o->a;
	const stepd_step_rec_t *job = &a->plan.job;
	FILE *out = f->listing.out;
	pid_t ours = translate(f, pid);
	uint32_t rank = STEPD_MEMBER_NO_RANK;
	struct procstat st;

	if (ours == 0 ||
		proctrack_find_member(
			a->pt, job->cont_id, job->task, job->node_tasks, ours, &rank) < 0 ||
		procstat_read_at(f->listing.proc_fd, ours, &st) < 0)
		return false;
	/* the label is of digits and letters */
	fprintf(out, "%s{\"pid\":%d,\"step\":\"%s\",\"container_id\":%lld,\"start_ticks\":%lld",
		listing_comma(&f->listing), (int)pid, a->plan.label, (long long)job->cont_id,
		(long long)st.start_ticks);
	if (rank != STEPD_MEMBER_NO_RANK)
		fprintf(out, ",\"rank\":%u", rank);
	add_numbers(f, ours);
	return true;
}

static bool add_element(struct listing *l)
{
	struct find *f = (struct find *)l;
	const pid_t *pids = l->elements;

	if (l->at < f->members_count) {
		add_translation(f, f->members[l->at].pid);
		return false;
	}
	if (l->at == f->members_count && f->map_count)
		qsort(f->map, f->map_count, sizeof(*f->map), compare);
	return add_found(f, pids[l->at - f->members_count]);
}

static void clear_find(struct listing *l)
{
	struct find *f = (struct find *)l;

	free(f->members);
	free(f->map);
}

/* ---- the calls ------------------------------------------------------------------------------- */

/* Who may be meant by a number of another namespace. */
static int list_members(struct find *f)
{
	const struct agent *a = f->listing.pending.o->a;
	const stepd_step_rec_t *job = &a->plan.job;
	int n = 0, r;

	r = proctrack_get_members(a->pt, job->cont_id, job->task, job->node_tasks, &f->members, &n);
	if (r < 0)
		return r == -ESRCH ? 0 : r;
	f->map = calloc((size_t)n + 1, sizeof(*f->map));
	if (!f->map)
		return -ENOMEM;
	f->members_count = (size_t)n;
	return 0;
}

static void find_take(struct operations *o, struct op_call *call, const json_t *parameters,
	pid_t *pids, size_t n, bool one)
{
	int64_t pid_namespace = param_int(parameters, "pid_namespace", 0);
	struct find *f = listing_new(o, call, sizeof(*f), "found", add_element);
	int r;

	if (!f) {
		free(pids);
		return;
	}
	f->listing.elements = pids;
	f->listing.clear = clear_find;
	f->listing.reads = true;
	f->listing.one = one;
	f->listing.piece_max = SIZE_MAX;
	if ((uint64_t)pid_namespace != o->pid_namespace)
		f->pid_namespace = (uint64_t)pid_namespace;
	r = f->pid_namespace ? list_members(f) : 0;
	if (r < 0) {
		op_fail(pending_end(&f->listing.pending), r,
			"the list of the step's processes can't be had");
		return;
	}
	f->listing.n = f->members_count + n;
	listing_run(&f->listing);
}

static bool check_namespace(struct op_call *call, const json_t *parameters)
{
	if (param_int(parameters, "pid_namespace", 1) > 0)
		return true;
	op_fail_parameter(call, "pid_namespace");
	return false;
}

void op_find_pid(struct op_call *call, const json_t *parameters, struct operations *o)
{
	pid_t pid, *pids;

	if (!param_pid(call, parameters, "pid", &pid) || !check_namespace(call, parameters))
		return;
	pids = malloc(sizeof(*pids));
	if (!pids) {
		op_fail_no_memory(call);
		return;
	}
	*pids = pid;
	find_take(o, call, parameters, pids, 1, true);
}

void op_find_pids(struct op_call *call, const json_t *parameters, struct operations *o)
{
	const json_t *array = json_object_get(parameters, "pids");
	size_t n = json_array_size(array), i;
	_cleanup_free_ pid_t *pids = calloc(n + 1, sizeof(*pids));
	bool valid = n <= OPERATIONS_FIND_MAX;
	json_int_t pid;

	if (!pids) {
		op_fail_no_memory(call);
		return;
	}
	for (i = 0; valid && i < n; i++) {
		pid = json_integer_value(json_array_get(array, i));
		valid = pid > 0 && pid <= INT_MAX;
		pids[i] = (pid_t)pid;
	}
	if (!valid)
		op_fail_parameter(call, "pids");
	else if (check_namespace(call, parameters))
		find_take(o, call, parameters, take_ptr(pids), n, false);
}
