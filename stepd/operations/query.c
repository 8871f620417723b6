/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The operations that read the step: ListTasks, ListPids, FindPid, FindPids and Describe.
 */

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "mpi/mpi.h"
#include "proctrack/proctrack.h"
#include "stepd/base/clock.h"
#include "stepd/base/fs.h"
#include "stepd/base/proc.h"
#include "stepd/operations/operations_impl.h"
#include "stepd/record/events.h"
#include "stepd/spec/spec_json.h"

/* Processes read between two turns of the loop: some milliseconds. */
#define READS_MAX 256

/* ---- listings -------------------------------------------------------------------------------
 *
 * Long replies are made in pieces: an array, for each of whose elements a process is read. The loop
 * goes on between two pieces, and the next one is made when the kernel has taken the one before it.
 */

struct listing {
	struct pending pending;
	const char *field; /* of the reply, "pids" */
	size_t n, at;      /* elements, and the next of them */
	size_t piece_max;  /* elements of a reply; the call wants more, or n is not above it */
	bool reads;        /* a process is read for an element */
	/* Writes listing_comma() and the element at l->at to l->out. False: the element is gone,
	 * and nothing is written. */
	bool (*add)(struct listing *l);
	bool one; /* the field is the element itself; NoSuchProcess if it does not exist */
	void (*clear)(
		struct listing *l); /* frees the members after this one; NULL: nothing to free */
	void *elements;             /* the operation's own; freed with the listing */
	int proc_fd;                /* /proc, -1: not open */
	FILE *out;                  /* stream of a piece's text; NULL: no piece is begun */
	char *text;
	size_t text_size;
	size_t in_piece;
	ev_timer turn;
};

static void listing_clear(struct pending *pending)
{
	struct listing *l = (struct listing *)pending;

	if (l->clear)
		l->clear(l);
	ev_timer_stop(pending->o->a->loop, &l->turn);
	(void)close_fd(l->proc_fd);
	if (l->out)
		(void)fclose(l->out); /* its text is dropped */
	free(l->text);
	free(l->elements);
}

static void listing_run(struct listing *l);

static void listing_on_turn(_unused_ struct ev_loop *loop, ev_timer *w, _unused_ int revents)
{
	assert(w->data);
	listing_run(w->data);
}

static void listing_on_drained(void *userdata)
{
	assert(userdata);
	listing_run(userdata);
}

/* size as pending_new(). NULL: the call has got its error. */
static void *listing_new(struct operations *o, struct op_call *call, size_t size, const char *field,
	bool (*add)(struct listing *l))
{
	struct listing *l = pending_new(o, call, PENDING_LISTING, size, listing_clear);

	assert(size >= sizeof(*l));
	if (!l)
		return NULL;
	l->field = field;
	l->add = add;
	l->proc_fd = -1;
	ev_timer_init(&l->turn, listing_on_turn, 0., 0.);
	l->turn.data = l;
	return l;
}

static int listing_begin_piece(struct listing *l)
{
	l->in_piece = 0;
	l->out = open_memstream(&l->text, &l->text_size);
	if (!l->out)
		return -ENOMEM;
	fprintf(l->out, l->one ? "{\"%s\":" : "{\"%s\":[", l->field);
	return 0;
}

/* 0 or -ENOMEM. */
static int listing_end_piece(struct listing *l)
{
	FILE *out = take_ptr(l->out);
	bool failed;

	fputs(l->one ? "}" : "]}", out);
	failed = ferror(out);
	return fclose(out) != 0 || failed ? -ENOMEM : 0;
}

static void listing_reply(struct listing *l)
{
	_cleanup_free_ char *text = take_ptr(l->text);
	const size_t size = l->text_size;

	if (l->at == l->n) {
		op_reply_text(pending_end(&l->pending), text, size);
	} else {
		op_on_drained(l->pending.call, listing_on_drained, l);
		op_reply_more_text(l->pending.call, text, size);
	}
}

static void listing_fail_none(struct listing *l)
{
	const pid_t pid = *(const pid_t *)l->elements; /* FindPid's */

	op_fail_process(pending_end(&l->pending), pid);
}

static void listing_fill(struct listing *l)
{
	size_t reads = 0;

	while (l->at < l->n && l->in_piece < l->piece_max) {
		if (l->reads && reads++ == READS_MAX)
			return;
		l->in_piece += l->add(l);
		l->at++;
	}
}

/* "," before any element but the first. */
static const char *listing_comma(const struct listing *l)
{
	return l->in_piece ? "," : "";
}

/* All is set: replies as far as possible now. */
static void listing_run(struct listing *l)
{
	int r;

	if (l->proc_fd < 0 && l->reads)
		l->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = l->out ? 0 : listing_begin_piece(l);
	if (r == 0)
		listing_fill(l);
	if (r == 0 && l->at < l->n && l->in_piece < l->piece_max) {
		ev_timer_set(&l->turn, 0., 0.);
		ev_timer_start(l->pending.o->a->loop, &l->turn);
		return;
	}
	if (r == 0)
		r = listing_end_piece(l);
	if (r < 0)
		op_fail_no_memory(pending_end(&l->pending));
	else if (l->one && l->in_piece == 0)
		listing_fail_none(l);
	else
		listing_reply(l);
}

/* ---- ListTasks ----------------------------------------------------------------------------- */

static const char *const task_state_names[TASK_STATE_MAX] = {
	[TASK_NEW] = "new",
	[TASK_RUNNING] = "running",
	[TASK_ENDED] = "ended",
};

static void add_running(struct listing *l, const struct task *task)
{
	struct procstat st;

	fprintf(l->out, ",\"pid\":%d", (int)task->pid);
	if (procstat_read_at(l->proc_fd, task->pid, &st) == 0)
		fprintf(l->out, ",\"start_ticks\":%lld", (long long)st.start_ticks);
}

static void add_ended(struct listing *l, const struct task *task)
{
	fprintf(l->out, ",\"wait_status\":%d,\"exit_code\":%d,\"elapsed_usec\":%lld",
		task->wait_status, task_exit_code(task),
		(long long)(task->end_ns - task->start_ns) / 1000);
	if (task->oom_counted)
		fprintf(l->out, ",\"oom_killed\":%s", task->oom_kills ? "true" : "false");
}

static bool listing_add_task(struct listing *l)
{
	uint32_t id = ((const uint32_t *)l->elements)[l->at];
	const struct task *task = &l->pending.o->a->tasks.v[id];
	char outcome[TASK_TEXT_SIZE];

	fprintf(l->out, "%s{\"rank\":%u,\"local_id\":%u", listing_comma(l), task->rank, id);
	if (task->spawn)
		fprintf(l->out, ",\"spawn\":%u", task->spawn);
	/* nothing to escape in the texts */
	fprintf(l->out, ",\"state\":\"%s\",\"text\":\"%s\",\"on_request\":%s",
		task->lost ? "lost" : task_state_names[task->state],
		task_text(task, outcome, sizeof(outcome)), task->requested ? "true" : "false");
	if (task->state == TASK_RUNNING)
		add_running(l, task);
	else if (task->state == TASK_ENDED && !task->lost)
		add_ended(l, task);
	fputs("}", l->out);
	return true;
}

void op_list_tasks(struct op_call *call, const json_t *parameters, struct operations *o)
{
	_cleanup_rank_choice_ struct rank_choice choice = {0};
	_cleanup_free_ uint32_t *ids = NULL;
	struct listing *l;
	uint32_t i;
	size_t n = 0;

	if (!param_ranks(o->a, call, parameters, &choice))
		return;
	ids = malloc((o->a->tasks.n + 1u) * sizeof(*ids));
	if (!ids) {
		op_fail_no_memory(call);
		return;
	}
	for (i = 0; i < o->a->tasks.n; i++) {
		if (rank_choice_has(&choice, o->a->tasks.v[i].rank))
			ids[n++] = i;
	}
	if (n > OPERATIONS_PIECE_MAX && !call->more) {
		op_fail_more(call);
		return;
	}
	l = listing_new(o, call, sizeof(*l), "tasks", listing_add_task);
	if (!l)
		return;
	l->n = n;
	l->piece_max = OPERATIONS_PIECE_MAX;
	l->reads = true;
	l->elements = take_ptr(ids);
	listing_run(l);
}

/* ---- ListPids: the members come from the tracker, in one reading --------------------------- */

static bool listing_add_process(struct listing *l)
{
	const stepd_member_t *member = (const stepd_member_t *)l->elements + l->at;
	struct procstat st = {0};
	int r = 0;

	if (l->reads)
		r = procstat_read_at(l->proc_fd, member->pid, &st);
	if (r == -ESRCH)
		return false; /* it has ended meanwhile */
	fprintf(l->out, "%s{\"pid\":%d", listing_comma(l), (int)member->pid);
	if (member->rank != STEPD_MEMBER_NO_RANK)
		fprintf(l->out, ",\"rank\":%u", member->rank);
	if (l->reads && r == 0)
		fprintf(l->out, ",\"start_ticks\":%lld", (long long)st.start_ticks);
	fputs("}", l->out);
	return true;
}

/* Members of the chosen tasks, in *ret_members for the caller to free. */
static int get_members(const struct agent *a, const struct rank_choice *choice,
	stepd_member_t **ret_members, size_t *ret_count)
{
	const stepd_step_rec_t *job = &a->plan.job;
	stepd_member_t *members = NULL;
	int n = 0, i, r;

	*ret_count = 0;
	r = proctrack_get_members(a->pt, job->cont_id, job->task, job->node_tasks, &members, &n);
	if (r < 0)
		return r == -ESRCH ? 0 : r; /* none of its processes is left */
	for (i = 0; i < n; i++) {
		if (rank_choice_has(choice, members[i].rank))
			members[(*ret_count)++] = members[i];
	}
	*ret_members = members;
	return 0;
}

void op_list_pids(struct op_call *call, const json_t *parameters, struct operations *o)
{
	_cleanup_rank_choice_ struct rank_choice choice = {0};
	_cleanup_free_ stepd_member_t *members = NULL;
	struct listing *l;
	size_t n = 0;
	int r;

	if (!param_ranks(o->a, call, parameters, &choice))
		return;
	r = get_members(o->a, &choice, &members, &n);
	if (r < 0) {
		op_fail(call, r, "the step's processes can't be listed");
		return;
	}
	if (n > OPERATIONS_PIECE_MAX && !call->more) {
		op_fail_more(call);
		return;
	}
	l = listing_new(o, call, sizeof(*l), "pids", listing_add_process);
	if (!l)
		return;
	l->n = n;
	l->piece_max = OPERATIONS_PIECE_MAX;
	l->reads = param_bool(parameters, "start_ticks", true);
	l->elements = take_ptr(members);
	listing_run(l);
}

/* ---- FindPid, FindPids ----------------------------------------------------------------------
 *
 * The tracker knows processes by their numbers in the agent's pid namespace. A number of another
 * namespace is searched among the members that live there: all of them are read first, which takes
 * some turns of the loop.
 */

/* The kernel's limit of nested pid namespaces (MAX_PID_NS_LEVEL), and the first one. */
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
	struct translation
		*map; /* ascending by their numbers there, once all members have been read */
	size_t map_count;
};

/* The inode of the process's own pid namespace; 0: not readable. */
static uint64_t get_namespace(int proc_fd, pid_t pid)
{
	struct stat st;
	char name[32];

	(void)snprintf(name, sizeof(name), "%d/ns/pid", (int)pid);
	return fstatat(proc_fd, name, &st, 0) == 0 ? st.st_ino : 0;
}

/* The process's numbers, from the agent's namespace to its own; returns their count. */
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

static void find_add_translation(struct find *f, pid_t pid)
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

static int compare_translations(const void *a, const void *b)
{
	const struct translation *ta = a, *tb = b;

	return (ta->theirs > tb->theirs) - (ta->theirs < tb->theirs);
}

/* The number in the agent's namespace; 0: no process of the step has that number there. */
static pid_t find_translate(const struct find *f, pid_t pid)
{
	const struct translation key = {.theirs = pid}, *found;

	if (!f->pid_namespace)
		return pid;
	found = bsearch(&key, f->map, f->map_count, sizeof(*f->map), compare_translations);
	return found ? found->ours : 0;
}

static void find_add_numbers(struct find *f, pid_t pid)
{
	pid_t numbers[LEVELS_MAX] = {pid};
	uint64_t its = get_namespace(f->listing.proc_fd, pid);
	size_t n = 1, i;

	/* Saves reading a file for nearly all processes. */
	if (its != f->listing.pending.o->pid_namespace)
		n = get_numbers(f->listing.proc_fd, pid, numbers);
	fputs(",\"namespace_pids\":[", f->listing.out);
	for (i = 0; i < n; i++)
		fprintf(f->listing.out, "%s%d", i ? "," : "", (int)numbers[i]);
	fputs("]}", f->listing.out);
}

static bool find_add_process(struct find *f, pid_t pid)
{
	const struct agent *a = f->listing.pending.o->a;
	const stepd_step_rec_t *job = &a->plan.job;
	FILE *out = f->listing.out;
	pid_t ours = find_translate(f, pid);
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
	find_add_numbers(f, ours);
	return true;
}

static bool find_add(struct listing *l)
{
	struct find *f = (struct find *)l;
	const pid_t *pids = l->elements;

	if (l->at < f->members_count) {
		find_add_translation(f, f->members[l->at].pid);
		return false;
	}
	if (l->at == f->members_count && f->map_count)
		qsort(f->map, f->map_count, sizeof(*f->map), compare_translations);
	return find_add_process(f, pids[l->at - f->members_count]);
}

static void find_clear(struct listing *l)
{
	struct find *f = (struct find *)l;

	free(f->members);
	free(f->map);
}

/* The members to search for a number of another namespace. */
static int find_list_members(struct find *f)
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
	struct find *f = listing_new(o, call, sizeof(*f), "found", find_add);
	int r;

	if (!f) {
		free(pids);
		return;
	}
	f->listing.elements = pids;
	f->listing.clear = find_clear;
	f->listing.reads = true;
	f->listing.one = one;
	f->listing.piece_max = SIZE_MAX;
	if ((uint64_t)pid_namespace != o->pid_namespace)
		f->pid_namespace = (uint64_t)pid_namespace;
	r = f->pid_namespace ? find_list_members(f) : 0;
	if (r < 0) {
		op_fail(pending_end(&f->listing.pending), r,
			"the step's processes can't be listed");
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

/* ---- Describe ------------------------------------------------------------------------------ */

static json_t *pack_identity(const struct agent *a)
{
	const stepd_step_rec_t *job = &a->plan.job;

	return json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:I}",
		"version", a->options->version, "step", a->plan.label, "job_id",
		(json_int_t)job->job_id, "step_name", job->step_name, "kind",
		spec_kind_names[job->kind], "node", job->node_name, "node_id",
		(json_int_t)job->nodeid, "node_count", (json_int_t)job->nnodes, "uid",
		(json_int_t)job->uid, "gid", (json_int_t)job->gid, "user", job->user_name, "ntasks",
		(json_int_t)job->ntasks, "local_tasks", (json_int_t)a->tasks.n, "running_tasks",
		(json_int_t)a->tasks.running);
}

static json_t *pack_life(const struct operations *o)
{
	const struct agent *a = o->a;
	uint64_t now_ns = clock_now_ns(), end_ns = a->end.time_ns ? a->end.time_ns : now_ns;
	uint64_t suspended_ns = a->suspend.total_ns;

	if (a->suspend.stands)
		suspended_ns += now_ns - a->suspend.since_ns;
	return json_pack("{s:s, s:s, s:I, s:s, s:I, s:I, s:I, s:b, s:I, s:I, s:I, s:I}", "state",
		operations_state_name(a), "proctrack", proctrack_get_type(a->pt), "container_id",
		(json_int_t)a->plan.job.cont_id, "mpi",
		a->mpi.host ? mpi_get_type(a->mpi.host) : "mpi/none", "agent_pid",
		(json_int_t)getpid(), "agent_start_ticks", (json_int_t)o->agent_start_ticks,
		"pid_namespace", (json_int_t)o->pid_namespace, "adopted",
		(int)(a->origin.recover.adopted > 0), "start_time_usec",
		(json_int_t)o->start_time_usec, "elapsed_usec",
		(json_int_t)((end_ns - a->origin.begin_ns) / 1000), "suspended_usec",
		(json_int_t)(suspended_ns / 1000), "last_event",
		(json_int_t)events_last(a->events));
}

void op_describe(struct op_call *call, _unused_ const json_t *parameters, struct operations *o)
{
	const struct agent *a = o->a;
	json_auto_t *doc = pack_identity(a);
	int r = doc ? json_object_update_new(doc, pack_life(o)) : -1;

	if (r == 0 && a->state >= AGENT_ENDING)
		r = json_object_set_new(doc, "reason", json_string(agent_reason_names[a->reason]));
	if (r == 0 && a->plan.spec->time_limit_ms)
		r = json_object_set_new(doc, "time_limit_usec",
			json_integer((json_int_t)a->plan.spec->time_limit_ms * 1000));
	if (r == 0)
		op_reply_take(call, take_ptr(doc));
	else
		op_fail_no_memory(call);
}
