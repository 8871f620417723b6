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

/* ---- listings -------------------------------------------------------------------------------- */

static void list_clear(struct pending *pending)
{
	struct listing *l = (struct listing *)pending;

	if (l->clear)
		l->clear(l);
	ev_timer_stop(pending->o->a->loop, &l->turn);
	(void)close_fd(l->proc_fd);
	if (l->out)
		(void)fclose(l->out); /* nobody gets its text */
	free(l->text);
	free(l->elements);
}

static void on_turn(_unused_ struct ev_loop *loop, ev_timer *w, _unused_ int revents)
{
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

static int list_begin_piece(struct listing *l)
{
	l->in_piece = 0;
	l->out = open_memstream(&l->text, &l->text_size);
	if (!l->out)
		return -ENOMEM;
	fprintf(l->out, l->one ? "{\"%s\":" : "{\"%s\":[", l->field);
	return 0;
}

/* 0 or -ENOMEM. */
static int list_end_piece(struct listing *l)
{
	FILE *out = take_ptr(l->out);
	bool failed;

	fputs(l->one ? "}" : "]}", out);
	failed = ferror(out);
	return fclose(out) != 0 || failed ? -ENOMEM : 0;
}

static void list_reply(struct listing *l)
{
	_cleanup_free_ char *text = take_ptr(l->text);
	const size_t size = l->text_size;

	if (l->at == l->n) {
		op_reply_text(pending_end(&l->pending), text, size);
	} else {
		op_on_drained(l->pending.call, on_drained, l);
		op_reply_more_text(l->pending.call, text, size);
	}
}

static void list_fail_none(struct listing *l)
{
	const pid_t pid = *(const pid_t *)l->elements; /* FindPid's */

	op_fail_process(pending_end(&l->pending), pid);
}

static void list_fill(struct listing *l)
{
	size_t reads = 0;

	while (l->at < l->n && l->in_piece < l->piece_max) {
		if (l->reads && reads++ == READS_MAX)
			return;
		l->in_piece += l->add(l);
		l->at++;
	}
}

const char *listing_comma(const struct listing *l)
{
	return l->in_piece ? "," : "";
}

void listing_run(struct listing *l)
{
	int r;

	if (l->proc_fd < 0 && l->reads)
		l->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = l->out ? 0 : list_begin_piece(l);
	if (r == 0)
		list_fill(l);
	if (r == 0 && l->at < l->n && l->in_piece < l->piece_max) {
		ev_timer_set(&l->turn, 0., 0.);
		ev_timer_start(l->pending.o->a->loop, &l->turn);
		return;
	}
	if (r == 0)
		r = list_end_piece(l);
	if (r < 0)
		op_fail_no_memory(pending_end(&l->pending));
	else if (l->one && l->in_piece == 0)
		list_fail_none(l);
	else
		list_reply(l);
}

/* ---- ListTasks ------------------------------------------------------------------------------- */

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

static bool add_task(struct listing *l)
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
