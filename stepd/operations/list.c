/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Long replies; and ListTasks and ListPids, which make them.
 */
#include "stepd/operations/list.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>

#include "proctrack/proctrack.h"
#include "stepd/base/procstat.h"

/* Processes read between two turns of the loop: some milliseconds. */
#define READS_MAX 256

/* ---- text ------------------------------------------------------------------------------------ */

static void add_bytes(struct text *text, const char *p, size_t size)
{
	size_t capacity = text->capacity ? text->capacity : 512;
	char *grown;

	while (capacity - text->size < size)
		capacity *= 2;
	if (capacity > text->capacity && !text->failed) {
		grown = realloc(text->p, capacity);
		text->failed = !grown;
		if (grown) {
			text->p = grown;
			text->capacity = capacity;
		}
	}
	if (text->failed)
		return;
	memcpy(text->p + text->size, p, size);
	text->size += size;
}

void text_add(struct text *text, const char *piece)
{
	add_bytes(text, piece, strlen(piece));
}

void text_add_number(struct text *text, int64_t n)
{
	char digits[24], *p = digits + sizeof(digits);
	uint64_t left = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;

	do
		*--p = (char)('0' + left % 10);
	while (left /= 10);
	if (n < 0)
		*--p = '-';
	add_bytes(text, p, (size_t)(digits + sizeof(digits) - p));
}

void text_clear(struct text *text)
{
	free(text->p);
	*text = (struct text){0};
}

/* ---- listings -------------------------------------------------------------------------------- */

static void list_clear(struct pending *pending)
{
	struct listing *l = (struct listing *)pending;

	if (l->clear)
		l->clear(l);
	ev_timer_stop(pending->o->a->loop, &l->turn);
	(void)close_fd(l->proc_fd);
	text_clear(&l->text);
	free(l->elements);
}

static void on_turn(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)loop;
	(void)revents;
	assert(w->data);
	listing_run(w->data);
}

static void on_drained(void *userdata)
{
	assert(userdata);
	listing_run(userdata);
}

void *listing_new(struct operations *o, struct op_call *call, size_t size, const char *field,
	bool (*add)(struct listing *l))
{
	struct listing *l = pending_new(o, call, PENDING_LISTING, size, list_clear);

	assert(size >= sizeof(*l));
	if (!l)
		return NULL;
	l->field = field;
	l->add = add;
	l->proc_fd = -1;
	ev_timer_init(&l->turn, on_turn, 0., 0.);
	l->turn.data = l;
	return l;
}

static void list_begin_piece(struct listing *l)
{
	l->text.size = 0;
	l->in_piece = 0;
	text_add(&l->text, "{\"");
	text_add(&l->text, l->field);
	text_add(&l->text, l->one ? "\":" : "\":[");
}

/* FindPid's. */
static void list_fail_none(struct listing *l)
{
	struct op_call *call = l->pending.call;
	pid_t pid = *(const pid_t *)l->elements;

	pending_free(&l->pending);
	op_fail_process(call, pid);
}

/* What has been gathered, if there was memory for it; else the call has failed. */
static bool list_take_text(struct listing *l, struct text *ret_text)
{
	struct op_call *call = l->pending.call;

	if (l->text.failed) {
		pending_free(&l->pending);
		op_fail_no_memory(call);
		return false;
	}
	*ret_text = l->text;
	l->text = (struct text){0};
	return true;
}

static void list_reply(struct listing *l, bool last)
{
	struct op_call *call = l->pending.call;
	struct text text;

	if (!list_take_text(l, &text))
		return;
	if (last) {
		pending_free(&l->pending);
		op_reply_text(call, text.p, text.size);
	} else {
		op_on_drained(call, on_drained, l);
		op_reply_more_text(call, text.p, text.size);
	}
	text_clear(&text);
}

static void list_fill(struct listing *l)
{
	size_t reads = 0, before;

	while (l->at < l->n && l->in_piece < l->piece_max) {
		if (l->reads && reads++ == READS_MAX)
			return;
		before = l->text.size;
		if (l->in_piece)
			text_add(&l->text, ",");
		if (l->add(l))
			l->in_piece++;
		else
			l->text.size = before;
		l->at++;
	}
}

void listing_run(struct listing *l)
{
	if (l->proc_fd < 0 && l->reads)
		l->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (l->text.size == 0)
		list_begin_piece(l);
	list_fill(l);
	if (l->at < l->n && l->in_piece < l->piece_max) {
		ev_timer_set(&l->turn, 0., 0.);
		ev_timer_start(l->pending.o->a->loop, &l->turn);
		return;
	}
	text_add(&l->text, l->one ? "}" : "]}");
	if (l->at == l->n && l->one && l->in_piece == 0)
		list_fail_none(l);
	else
		list_reply(l, l->at == l->n);
}

/* ---- ListTasks ------------------------------------------------------------------------------- */

static const char *const task_state_names[TASK_STATE_MAX] = {
	[TASK_NEW] = "new",
	[TASK_RUNNING] = "running",
	[TASK_ENDED] = "ended",
};

static void add_field(struct text *text, const char *name, int64_t n)
{
	text_add(text, ",\"");
	text_add(text, name);
	text_add(text, "\":");
	text_add_number(text, n);
}

static void add_running(struct listing *l, const struct task *task)
{
	struct procstat st;

	add_field(&l->text, "pid", task->pid);
	if (procstat_read_at(l->proc_fd, task->pid, &st) == 0)
		add_field(&l->text, "start_ticks", (int64_t)st.start_ticks);
}

static void add_ended(struct listing *l, const struct task *task)
{
	add_field(&l->text, "wait_status", task->wait_status);
	add_field(&l->text, "exit_code", task_exit_code(task));
	add_field(&l->text, "elapsed_usec", (int64_t)((task->end_ns - task->start_ns) / 1000));
	if (task->oom_counted)
		text_add(&l->text,
			task->oom_kills ? ",\"oom_killed\":true" : ",\"oom_killed\":false");
}

static bool add_task(struct listing *l)
{
	uint32_t id = ((const uint32_t *)l->elements)[l->at];
	const struct task *task = &l->pending.o->a->tasks.v[id];
	char outcome[TASK_WORDS_SIZE];

	text_add(&l->text, "{\"rank\":");
	text_add_number(&l->text, task->rank);
	add_field(&l->text, "local_id", id);
	if (task->spawn)
		add_field(&l->text, "spawn", task->spawn);
	text_add(&l->text, ",\"state\":\"");
	text_add(&l->text, task->lost ? "lost" : task_state_names[task->state]);
	text_add(&l->text, "\",\"text\":\"");
	text_add(
		&l->text, task_words(task, outcome, sizeof(outcome))); /* nothing to escape in it */
	text_add(&l->text, "\",\"on_request\":");
	text_add(&l->text, task->requested ? "true" : "false");
	if (task->state == TASK_RUNNING)
		add_running(l, task);
	else if (task->state == TASK_ENDED && !task->lost)
		add_ended(l, task);
	text_add(&l->text, "}");
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
	l = listing_new(o, call, sizeof(*l), "tasks", add_task);
	if (!l)
		return;
	l->n = n;
	l->piece_max = OPERATIONS_PIECE_MAX;
	l->reads = true;
	l->elements = take_ptr(ids);
	listing_run(l);
}

/* ---- ListPids: the members come from the tracker, in one reading ----------------------------- */

static bool add_process(struct listing *l)
{
	const stepd_member_t *member = (const stepd_member_t *)l->elements + l->at;
	struct procstat st = {0};
	int r = 0;

	if (l->reads)
		r = procstat_read_at(l->proc_fd, member->pid, &st);
	if (r == -ESRCH)
		return false; /* it has ended meanwhile */
	text_add(&l->text, "{\"pid\":");
	text_add_number(&l->text, member->pid);
	if (member->rank != STEPD_MEMBER_NO_RANK) {
		text_add(&l->text, ",\"rank\":");
		text_add_number(&l->text, member->rank);
	}
	if (l->reads && r == 0) {
		text_add(&l->text, ",\"start_ticks\":");
		text_add_number(&l->text, (int64_t)st.start_ticks);
	}
	text_add(&l->text, "}");
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
		return r == -ESRCH ? 0 : r; /* nothing is left of it */
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
		op_fail(call, r, "the list of the step's processes can't be had");
		return;
	}
	if (n > OPERATIONS_PIECE_MAX && !call->more) {
		op_fail_more(call);
		return;
	}
	l = listing_new(o, call, sizeof(*l), "pids", add_process);
	if (!l)
		return;
	l->n = n;
	l->piece_max = OPERATIONS_PIECE_MAX;
	l->reads = param_bool(parameters, "start_ticks", true);
	l->elements = take_ptr(members);
	listing_run(l);
}
