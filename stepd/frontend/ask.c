/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Describe and ListTasks.
 */
#include "mpi/mpi.h"
#include "proctrack/proctrack.h"
#include "stepd/base/clock.h"
#include "stepd/base/procstat.h"
#include "stepd/frontend/listing.h"
#include "stepd/record/events.h"
#include "stepd/spec/spec_json.h"

/* ---- Describe -------------------------------------------------------------------------------- */

static json_t *pack_identity(const struct agent *a)
{
	const stepd_step_rec_t *job = &a->plan.job;

	return json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:I}",
		"version", a->options->version, "step", a->plan.label, "job_id",
		(json_int_t)job->job_id, "step_name", job->step_name, "kind",
		spec_kind_name(job->kind), "node", job->node_name, "node_id",
		(json_int_t)job->nodeid, "node_count", (json_int_t)job->nnodes, "uid",
		(json_int_t)job->uid, "gid", (json_int_t)job->gid, "user", job->user_name, "ntasks",
		(json_int_t)job->ntasks, "local_tasks", (json_int_t)a->tasks.n, "running_tasks",
		(json_int_t)a->tasks.running);
}

static json_t *pack_life(const struct methods *m)
{
	const struct agent *a = m->a;
	uint64_t now_ns = clock_now_ns(), end_ns = a->end.time_ns ? a->end.time_ns : now_ns;
	uint64_t suspended_ns = a->suspend.total_ns;

	if (a->suspend.stands)
		suspended_ns += now_ns - a->suspend.since_ns;
	return json_pack("{s:s, s:s, s:I, s:s, s:I, s:I, s:I, s:b, s:I, s:I, s:I, s:I}", "state",
		methods_state_word(a), "proctrack", proctrack_get_type(a->pt), "container_id",
		(json_int_t)a->plan.job.cont_id, "mpi",
		a->mpi.host ? mpi_get_type(a->mpi.host) : "mpi/none", "agent_pid",
		(json_int_t)getpid(), "agent_start_ticks", (json_int_t)m->agent_start_ticks,
		"pid_namespace", (json_int_t)m->pid_namespace, "adopted",
		(int)(a->origin.recover.adopted > 0), "start_time_usec",
		(json_int_t)m->start_time_usec, "elapsed_usec",
		(json_int_t)((end_ns - a->origin.begin_ns) / 1000), "suspended_usec",
		(json_int_t)(suspended_ns / 1000), "last_event",
		(json_int_t)events_last(a->events));
}

void method_describe(struct control_call *call, const json_t *parameters, void *userdata)
{
	const struct methods *m = userdata;
	const struct agent *a = m->a;
	json_t *doc = pack_identity(a);
	int r = doc ? json_object_update_new(doc, pack_life(m)) : -1;

	(void)parameters;
	if (r == 0 && a->state >= AGENT_ENDING)
		r = json_object_set_new(doc, "reason", json_string(agent_reason_words[a->reason]));
	if (r == 0 && a->plan.spec->time_limit_ms)
		r = json_object_set_new(doc, "time_limit_usec",
			json_integer((json_int_t)a->plan.spec->time_limit_ms * 1000));
	if (r == 0) {
		control_reply_take(call, doc);
		return;
	}
	json_decref(doc);
	control_no_memory(call);
}

/* ---- ListTasks ------------------------------------------------------------------------------- */

static const char *const state_words[TASK_STATE_MAX] = {
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
	const struct task *task = &l->kept.m->a->tasks.v[id];
	char words[TASK_WORDS_SIZE];

	text_add(&l->text, "{\"rank\":");
	text_add_number(&l->text, task->rank);
	add_field(&l->text, "local_id", id);
	if (task->spawn)
		add_field(&l->text, "spawn", task->spawn);
	text_add(&l->text, ",\"state\":\"");
	text_add(&l->text, task->lost ? "lost" : state_words[task->state]);
	text_add(&l->text, "\",\"text\":\"");
	text_add(&l->text, task_words(task, words, sizeof(words))); /* nothing to escape in it */
	text_add(&l->text, "\",\"on_request\":");
	text_add(&l->text, task->requested ? "true" : "false");
	if (task->state == TASK_RUNNING)
		add_running(l, task);
	else if (task->state == TASK_ENDED && !task->lost)
		add_ended(l, task);
	text_add(&l->text, "}");
	return true;
}

void method_list_tasks(struct control_call *call, const json_t *parameters, void *userdata)
{
	_cleanup_rank_choice_ struct rank_choice choice = {0};
	_cleanup_free_ uint32_t *ids = NULL;
	struct methods *m = userdata;
	struct listing *l;
	uint32_t i;
	size_t n = 0;

	if (!param_ranks(m->a, call, parameters, &choice))
		return;
	ids = malloc((m->a->tasks.n + 1u) * sizeof(*ids));
	if (!ids) {
		control_no_memory(call);
		return;
	}
	for (i = 0; i < m->a->tasks.n; i++) {
		if (rank_choice_has(&choice, m->a->tasks.v[i].rank))
			ids[n++] = i;
	}
	if (n > METHODS_PIECE_MAX && !control_call_wants_more(call)) {
		control_error_take(call, "org.varlink.service.ExpectedMore", NULL);
		return;
	}
	l = listing_new(m, call, sizeof(*l), "tasks", add_task);
	if (!l)
		return;
	l->n = n;
	l->piece_max = METHODS_PIECE_MAX;
	l->looks = true;
	l->elements = take_ptr(ids);
	listing_run(l);
}
