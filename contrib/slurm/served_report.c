/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/served_impl.h"

#include <assert.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "contrib/slurm/accounting.h"
#include "contrib/slurm/batch.h"
#include "contrib/slurm/epilogs.h"
#include "contrib/slurm/origin.h"
#include "contrib/slurm/site_conf.h"
#include "contrib/slurm/srun_io.h"
#include "contrib/slurm/task_script.h"
#include "contrib/slurm/tree.h"

/* Ends of tasks within this time are reported together. */
#define GATHER_S 0.1

/* In place of the status of each task, the step and the script. */
#define STATUS_OUT_OF_MEMORY 253

/* ---- messages ------------------------------------------------------------------------------ */

static void served_on_delivered(const struct err *err, void *userdata)
{
	struct served *s = userdata;

	assert(s);
	if (err->code)
		log_warning(s->log, "srun or slurmctld has not taken a message: %s, ignoring",
			err->text);
	s->reports.deliveries--;
	served_check_over(s);
}

static void report_all_exits(struct served *s);

/* srun takes a task's end for that of a running one, so it hears of its start first. */
static void launch_on_delivered(const struct err *err, void *userdata)
{
	struct served *s = userdata;
	bool exits_wait;

	assert(s);
	exits_wait = s->reports.exits_wait;
	s->reports.launch_delivers = s->reports.exits_wait = false;
	if (exits_wait)
		report_all_exits(s);
	served_on_delivered(err, s);
}

/* srun may end once it knows that the launch has failed, so it hears of the ends before. */
static void exits_on_delivered(const struct err *err, void *userdata)
{
	struct served *s = userdata;

	assert(s);
	s->reports.exits_deliver--;
	if (s->reports.launch_waits)
		served_report_launch(s);
	served_on_delivered(err, s);
}

static void send_message(struct served *s, const struct delivery_options *to, struct pack *body)
{
	struct delivery *delivery;
	struct err err = ERR_INIT;

	s->reports.deliveries++;
	if (delivery_begin_take(to, body, &delivery, &err) < 0)
		to->done(&err, s);
}

static void send_to_srun(struct served *s, enum slurm_rpc_type type, struct pack *body)
{
	bool launch = type == SLURM_RESPONSE_LAUNCH_TASKS;
	struct delivery_options to = {.loop = s->loop,
		.auth = s->auth,
		.retry = &s->reports.to_srun,
		.hosts = hosts_of_one(s->launch->srun),
		.version = s->init->frame.client_release,
		.type = (uint16_t)type,
		.reader = s->launch->uid,
		.done = launch ? launch_on_delivered : exits_on_delivered,
		.userdata = s};

	s->reports.launch_delivers |= launch;
	s->reports.exits_deliver += !launch;
	to.hosts.address[0].sin_port =
		htons(slurm_launch_port(&s->launch->resp_ports, s->setup.node_id));
	send_message(s, &to, body);
}

/* From 26.05 on srun learns of the last ends once slurmctld knows of the step's, so that its next
 * step finds the processors free. Not where this node waits for others, which may take a minute:
 * what --kill-on-bad-exit ends has to end now. */
static bool step_ends_first(const struct served *s)
{
	return s->init->frame.release >= SLURM_26_05 && s->init->frame.children == 0 &&
		!s->reports.over;
}

void served_report_launch(struct served *s)
{
	struct pack body = {0};
	uint32_t i;

	if (!s->streams.io)
		return; /* nobody waits */
	s->reports.launch_waits =
		s->agent.launch_error && (step_ends_first(s) || s->reports.exits_deliver > 0);
	if (s->reports.launch_waits)
		return;
	slurm_rpc_put_step(&body, s->init->frame.client_release, &s->launch->id);
	pack_u32(&body, (uint32_t)s->agent.launch_error);
	pack_text(&body, s->init->conf.node_name);
	pack_u32(&body, s->tasks.n);
	pack_u32(&body, s->tasks.n);
	for (i = 0; i < s->tasks.n; i++)
		pack_u32(&body, s->tasks.v[i].pid);
	pack_u32_array(&body, s->tasks.ranks, s->tasks.n);
	send_to_srun(s, SLURM_RESPONSE_LAUNCH_TASKS, &body);
}

static int get_reported(const struct served *s, int status)
{
	return s->reports.out_of_memory ? STATUS_OUT_OF_MEMORY : status;
}

/* A task's. */
static int get_reported_end(const struct served *s, int status)
{
	if (s->requests.is_stopped && !s->reports.out_of_memory && WIFSIGNALED(status))
		return 0;
	return get_reported(s, status);
}

/* The version is that of who reads it. */
static void put_exits(struct pack *body, const struct served *s, uint16_t version, int status,
	const uint32_t *ranks, uint32_t n)
{
	pack_u32(body, (uint32_t)get_reported_end(s, status));
	pack_u32(body, n);
	pack_u32_array(body, ranks, n);
	slurm_rpc_put_step(body, version, &s->launch->id);
}

void served_send_exits(struct served *s, const struct attach_peer *peer, int status,
	const uint32_t *ranks, uint32_t n)
{
	const struct delivery_options to = {.loop = s->loop,
		.auth = s->auth,
		.retry = &attach_retry,
		.hosts = hosts_of_one(peer->response),
		.version = peer->version,
		.type = SLURM_MESSAGE_TASK_EXIT,
		.reader = peer->uid,
		.done = served_on_delivered,
		.userdata = s};
	struct pack body = {0};

	put_exits(&body, s, peer->version, status, ranks, n);
	send_message(s, &to, &body);
}

/* All tasks with that status that have not been reported. */
static void report_exits(struct served *s, int status)
{
	_cleanup_free_ uint32_t *ranks = calloc(s->tasks.n, sizeof(*ranks));
	struct pack body = {.failed = !ranks};
	uint32_t i, n = 0;

	for (i = 0; ranks && i < s->tasks.n; i++) {
		struct served_task *t = &s->tasks.v[i];

		if (!t->ended || t->reported || t->status != status)
			continue;
		t->reported = true;
		ranks[n++] = s->tasks.ranks[i];
	}
	put_exits(&body, s, s->init->frame.client_release, status, ranks, n);
	send_to_srun(s, SLURM_MESSAGE_TASK_EXIT, &body);
	for (i = 0; ranks && i < s->requests.attach.count; i++)
		served_send_exits(s, &s->requests.attach.peers[i], status, ranks, n);
}

static void report_all_exits(struct served *s)
{
	uint32_t i;

	ev_timer_stop(s->loop, &s->reports.gather);
	s->reports.exits_wait = s->reports.launch_delivers;
	for (i = 0; i < s->tasks.n && s->streams.io && !s->reports.exits_wait; i++) {
		if (s->tasks.v[i].ended && !s->tasks.v[i].reported)
			report_exits(s, s->tasks.v[i].status);
	}
}

/* ---- epilogs ------------------------------------------------------------------------------- */

bool served_epilogs_run(struct served *s)
{
	_cleanup_free_ uint32_t *ids = s->epilogs ? calloc(s->tasks.n, sizeof(*ids)) : NULL;
	uint32_t i, n = 0;

	for (i = 0; ids && i < s->tasks.n; i++) {
		if (!s->tasks.v[i].ended || s->tasks.v[i].has_epilog)
			continue;
		s->tasks.v[i].has_epilog = true;
		ids[n++] = i;
	}
	epilogs_run(s->epilogs, ids, n);
	return epilogs_are_running(s->epilogs);
}

static bool have_all_ended(const struct served_tasks *tasks)
{
	uint32_t i;

	for (i = 0; i < tasks->n; i++) {
		if (!tasks->v[i].ended)
			return false;
	}
	return true;
}

void served_report_ends(struct served *s)
{
	ev_timer_stop(s->loop, &s->reports.gather);
	if (!served_epilogs_run(s) && !(step_ends_first(s) && have_all_ended(&s->tasks)))
		report_all_exits(s);
}

void served_report_rest(struct served *s)
{
	report_all_exits(s);
	if (s->reports.launch_waits)
		served_report_launch(s);
}

static void epilogs_on_note(const char *text, void *userdata)
{
	struct served *s = userdata;

	assert(s);
	served_put_note(s, text);
}

static void epilogs_on_done(void *userdata)
{
	struct served *s = userdata;

	assert(s);
	served_report_ends(s);
	served_end_step(s);
}

int served_epilogs_open(struct served *s, struct err *err)
{
	const char *user = s->launch->task_epilog, *site = s->init->site->task_epilog;
	const struct epilogs_options options = {.loop = s->loop,
		.log = s->log,
		.user = user && *user ? user : NULL,
		.site = site && *site ? site : NULL,
		.program = s->agent.program,
		.runtime_dir = s->agent.runtime_dir,
		.args = &s->agent.args,
		.doc = s->agent.doc,
		.task_program = s->setup.task_program,
		.step = s->launch->id.step,
		.release = s->init->frame.release,
		.ranks = s->tasks.whole_ranks,
		.ntasks = s->tasks.n,
		.note = epilogs_on_note,
		.done = epilogs_on_done,
		.userdata = s};

	return task_script_has_epilog(s->launch, s->init->site)
		? epilogs_open(&options, &s->epilogs, err)
		: 0;
}

/* ---- tasks' ends --------------------------------------------------------------------------- */

struct served_task *served_find_task(const struct served_tasks *tasks, uint32_t whole_rank)
{
	uint32_t i;

	for (i = 0; i < tasks->n; i++) {
		if (tasks->whole_ranks[i] == whole_rank)
			return &tasks->v[i];
	}
	return NULL;
}

void served_add_oom_kills(struct served *s, uint32_t rank, uint64_t kills)
{
	struct served_task *task = served_find_task(&s->tasks, rank);

	if (task && task->oom_kills < kills)
		task->oom_kills = kills;
}

static uint64_t count_oom_kills(const struct served *s)
{
	uint64_t kills = 0;
	uint32_t i;

	for (i = 0; i < s->tasks.n && s->init->limits.has_memory; i++)
		kills += s->tasks.v[i].oom_kills;
	return kills;
}

void served_note_oom(struct served *s)
{
	char text[ERR_TEXT_SIZE];
	uint64_t kills = count_oom_kills(s);

	if (!kills)
		return;
	s->reports.out_of_memory = true;
	if (s->init->frame.release >= SLURM_23_02)
		(void)snprintf(text, sizeof(text),
			"Detected %llu oom_kill event%s in StepId=%s. Some of the step tasks have "
			"been OOM Killed.",
			(unsigned long long)kills, kills == 1 ? "" : "s", s->label);
	else
		(void)snprintf(text, sizeof(text),
			"Detected %llu oom-kill event(s) in StepId=%s. Some of your processes may "
			"have been killed by the cgroup out-of-memory handler.",
			(unsigned long long)kills, s->label);
	served_put_note(s, text);
}

void served_end_task(struct served *s, struct served_task *task, int status)
{
	if (task->ended)
		return;
	task->ended = true;
	task->status = status;
	s->reports.out_of_memory |= count_oom_kills(s) > 0;
	if (!ev_is_active(&s->reports.gather)) {
		ev_timer_set(&s->reports.gather, GATHER_S, 0.);
		ev_timer_start(s->loop, &s->reports.gather);
	}
}

static void on_gathered(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct served *s = timer->data;

	assert(s);
	served_report_ends(s);
	served_check_over(s);
}

/* ---- the step's end ------------------------------------------------------------------------ */

/* As slurmstepd has it, of the tasks that no request has killed: the first one's that a signal has
 * ended, else the last one's; if all have been killed by requests, the first one's. */
static int make_step_status(const struct served_tasks *tasks, int launch_error)
{
	int status = tasks->v[0].ended ? tasks->v[0].status : launch_error;
	uint32_t i;

	for (i = 0; i < tasks->n; i++) {
		const struct served_task *t = &tasks->v[i];

		if (!t->ended || t->killed)
			continue;
		status = t->status;
		if (WIFSIGNALED(status))
			break;
	}
	return status;
}

/* As slurm.conf has it now, where slurmd has said that it has changed. */
static struct hosts find_controllers(const struct served *s)
{
	_cleanup_site_conf_ struct site_conf site = {0};
	struct err err = ERR_INIT;

	if (!s->requests.reconfigured)
		return s->init->site->controllers;
	if (site_conf_read(NULL, &site, &err) == 0)
		return site.controllers;
	log_warning(s->log, "step %s: %s, ignoring", s->label, err.text);
	return s->init->site->controllers;
}

/* why: NULL if a task has called for it. */
static void request_end(struct served *s, const char *why, uint16_t number, uint16_t flags)
{
	static const struct delivery_retry retry = {.tries = 5, .first_s = 1, .longest_s = 8};
	/* All parts of a het step; its number in the cluster is not looked at. */
	const struct slurm_step_id id = {.job = slurm_whole_job(s->launch),
		.step = s->launch->id.step,
		.het_component = SLURM_NO_VAL};
	const struct delivery_options to = {.loop = s->loop,
		.auth = s->auth,
		.retry = &retry,
		.hosts = find_controllers(s),
		.version = s->init->frame.release,
		.type = SLURM_REQUEST_CANCEL_JOB_STEP,
		.reader = (uid_t)-1,
		.done = served_on_delivered,
		.userdata = s};
	struct pack body = {0};

	if (s->reports.cancels)
		return; /* a user may call for it again and again */
	s->reports.cancels = true;
	if (why)
		log_error(s->log, "step %s: it is ended on all nodes: %s", s->label, why);
	slurm_rpc_put_step(&body, s->init->frame.release, &id);
	pack_text(&body, NULL);
	pack_text(&body, NULL);
	pack_u16(&body, number);
	pack_u16(&body, flags);
	send_message(s, &to, &body);
}

void served_cancel_step(const char *why, void *userdata)
{
	struct served *s = userdata;
	bool terminates;

	assert(s);
	/* From 26.05 on an MPI_Abort leaves the tasks a moment. */
	terminates = !why && s->init->frame.release >= SLURM_26_05;
	request_end(s, why, terminates ? SLURM_SIGNAL_TERMINATE : SIGKILL, 0);
}

/* slurmctld tells all nodes of the flag, with the signal. */
void served_stop_step(void *userdata)
{
	struct served *s = userdata;

	assert(s);
	request_end(s, NULL, SIGKILL,
		s->init->frame.release >= SLURM_23_02 ? SLURM_KILL_NO_FAILURE : 0);
}

void served_report_step(struct served *s)
{
	int status = make_step_status(&s->tasks, s->agent.launch_error);
	/* A signal of this node's counts more than what those below have, as for slurmstepd. */
	struct tree_end end = {.status = get_reported(s, status),
		.decides = s->agent.runs && WIFSIGNALED(get_reported(s, status)),
		.controllers = find_controllers(s)};

	accounting_pack(s->accounting, false, &end.record);
	tree_end_take(s->reports.tree, &end);
}

void served_report_script(struct served *s)
{
	int status = s->tasks.v[0].ended ? s->tasks.v[0].status : s->agent.launch_error;
	const struct batch_end end = {.loop = s->loop,
		.auth = s->auth,
		.controllers = find_controllers(s),
		.job_status = get_reported(s, status),
		.error = s->agent.node_error,
		.accounting = s->accounting,
		.done = served_on_delivered,
		.userdata = s};
	struct err err = ERR_INIT;

	s->reports.deliveries++;
	if (batch_report(s->batch, &end, &err) < 0)
		served_on_delivered(&err, s);
}

/* ---- what users read ----------------------------------------------------------------------- */

static bool put_line(struct served *s, const char *line)
{
	if (s->batch)
		return batch_put_note(s->batch, line);
	return s->streams.io && srun_io_note(s->streams.io, line);
}

void served_put_note(struct served *s, const char *text)
{
	_cleanup_free_ char *line = NULL;
	char origin[ORIGIN_SIZE];

	origin_print(origin, s->init->conf.node_name, s->init->frame.release >= SLURM_25_05);
	if (asprintf(&line, "%s error: %s\n", origin, text) < 0)
		line = NULL;
	if (!line || !put_line(s, line))
		log_info(s->log, "%s", text);
}

/* slurmd's log has it in any case. */
void served_on_spank_line(const char *text, void *userdata)
{
	struct served *s = userdata;
	_cleanup_free_ char *line = NULL;

	assert(s);
	if (asprintf(&line, "%s\n", text) < 0)
		line = NULL;
	if (line)
		(void)put_line(s, line);
}

/* ---- the part ------------------------------------------------------------------------------ */

void served_reports_init(struct served *s)
{
	ev_timer_init(&s->reports.gather, on_gathered, GATHER_S, 0.);
	s->reports.gather.data = s;
}

/* A step without a credential, srun --no-alloc, has the rank -1. */
int served_reports_open(struct served *s, struct err *err)
{
	const struct tree_options options = {.loop = s->loop,
		.log = s->log,
		.label = s->label,
		.auth = s->auth,
		.init = s->init,
		.done = served_on_reported,
		.userdata = s};

	s->reports.to_srun = delivery_to_srun;
	s->reports.to_srun.tries += s->launch->nnodes / 1024; /* srun is busier */
	return s->init->frame.rank < 0 ? 0 : tree_new(&options, &s->reports.tree, err);
}

bool served_reports_are_pending(const struct served_reports *reports)
{
	return ev_is_active(&reports->gather) || reports->deliveries > 0;
}

void served_reports_close(struct served_reports *reports, struct ev_loop *loop)
{
	reports->tree = tree_free(reports->tree);
	if (loop)
		ev_timer_stop(loop, &reports->gather);
}
