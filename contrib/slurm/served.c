/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/served.h"

#include <assert.h>
#include <ev.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "config.h"
#include "contrib/slurm/accounting.h"
#include "contrib/slurm/attach.h"
#include "contrib/slurm/batch.h"
#include "contrib/slurm/call.h"
#include "contrib/slurm/credential.h"
#include "contrib/slurm/delivery.h"
#include "contrib/slurm/epilogs.h"
#include "contrib/slurm/programs.h"
#include "contrib/slurm/server.h"
#include "contrib/slurm/site_conf.h"
#include "contrib/slurm/srun_io.h"
#include "contrib/slurm/step_spec.h"
#include "contrib/slurm/task_script.h"
#include "contrib/slurm/tree.h"
#include "contrib/slurm/window.h"
#include "contrib/slurm/user_probe.h"
#include "stepd/base/fs.h"
#include "stepd/base/json.h"
#include "stepd/base/munge_client.h"
#include "stepd/base/strv.h"
#include "stepd/cli/options.h"
#include "stepd/cli/relay/supervisor.h"
#include "stepd/spec/fname.h"
#include "stepd/state/steps.h"

/* Ends of tasks within this time are reported together. */
#define GATHER_S     0.1
#define FALLBACK_DIR "/tmp"

/* Errors of Slurm, the same in all releases. */
#define SLURM_EXECVE_FAILED    4020
#define SLURM_IO_ERROR         4021
#define SLURM_STEP_NOT_RUNNING 4027

/* No signal: CONT, TERM, and KILL after a grace. */
#define SLURM_SIGNAL_TERMINATE 991
/* The job is none of slurmctld's any more: it is not to be told of the end. */
#define SLURM_SIGNAL_ABORT 997

struct served_task {
	uint32_t pid;
	bool ended, reported;
	bool has_epilog; /* it runs, or has run */
	bool killed;     /* by a request: its status does not count for the step's */
	int status;
};

/* A signal that came before the tasks ran. */
struct early_signal {
	struct served *served;
	struct wire_request request;
	struct call *call; /* NULL: not yet, or done */
};

#define EARLY_MAX 8

struct served {
	const struct slurm_init *init;
	const struct slurm_launch *launch;
	const struct log *log;
	struct munge_client *munge;
	uint32_t node_id; /* in the step, as srun counts its nodes */
	uint32_t *ranks, *groups;
	uint32_t ntasks, groups_count;
	struct served_task *tasks; /* by index on the node */
	struct programs programs;
	struct user_probe probe;
	struct fifos fifos;
	struct batch *batch; /* NULL: a step of srun */
	json_t *doc;
	char *program, *task_program, *runtime_dir;
	struct strv args;
	char label[SLURM_LABEL_SIZE];
	struct rlimit nofile; /* before it was raised */
	bool raised;
	char *directory;               /* the agent's, of the step */
	struct epilogs *epilogs;       /* NULL: there is none */
	struct accounting *accounting; /* NULL: the site has none */
	bool polled;                   /* it has just been read */

	struct ev_loop *loop;
	struct spool *spool;
	struct server server;
	struct listener *listener;
	ev_io init_end;
	struct srun_io *io;
	struct attach attach;
	struct window *window; /* NULL: no task of this node has a terminal */
	struct supervisor *supervisor;
	ev_timer gather;
	struct tree *tree; /* NULL: slurmctld knows nothing of the step */
	struct delivery_retry to_srun;
	unsigned deliveries;
	int launch_error; /* of Slurm; 0: the tasks have been started */
	int agent_error;  /* of Slurm; not 0: the node can't start agents */
	int early_kill;   /* one that ends the tasks, and came before they ran */
	struct early_signal early[EARLY_MAX];
	unsigned early_count;
	bool runs;     /* the agent serves requests */
	bool over;     /* and has ended */
	bool finishes; /* the streams do */
	bool has_streams_end, cancelled, completes, aborted, reconfigured;
};

static void check_over(struct served *s);
static void end_step(struct served *s);
static void put_note(struct served *s, const char *text);

/* ---- messages to srun and slurmctld -------------------------------------------------------- */

static void served_on_delivered(const struct err *err, void *userdata)
{
	struct served *s = userdata;

	assert(s);
	if (err->code)
		log_warning(s->log, "srun or slurmctld has not taken a message: %s, ignoring",
			err->text);
	s->deliveries--;
	check_over(s);
}

static void send_message(struct served *s, const struct delivery_options *to, struct pack *body)
{
	struct delivery *delivery;
	struct err err = ERR_INIT;

	s->deliveries++;
	if (delivery_begin_take(to, body, &delivery, &err) < 0)
		served_on_delivered(&err, s);
}

static void put_step_id(struct pack *p, const struct slurm_launch *l)
{
	pack_u32(p, l->id.job);
	pack_u32(p, l->id.step);
	pack_u32(p, l->id.het_component);
}

static void send_to_srun(struct served *s, enum slurm_rpc_type type, struct pack *body)
{
	struct delivery_options to = {.loop = s->loop,
		.munge = s->munge,
		.retry = &s->to_srun,
		.address = s->launch->srun,
		.version = s->init->frame.client_release,
		.type = (uint16_t)type,
		.reader = s->launch->uid,
		.done = served_on_delivered,
		.userdata = s};

	to.address.sin_port = htons(slurm_launch_port(&s->launch->resp_ports, s->node_id));
	send_message(s, &to, body);
}

static void report_launch(struct served *s)
{
	struct pack body = {0};
	uint32_t i;

	if (s->batch)
		return; /* nobody waits */
	put_step_id(&body, s->launch);
	pack_u32(&body, (uint32_t)s->launch_error);
	pack_text(&body, s->init->conf.node_name);
	pack_u32(&body, s->ntasks);
	pack_u32(&body, s->ntasks);
	for (i = 0; i < s->ntasks; i++)
		pack_u32(&body, s->tasks[i].pid);
	pack_u32_array(&body, s->ranks, s->ntasks);
	send_to_srun(s, SLURM_RESPONSE_LAUNCH_TASKS, &body);
}

static void put_exits(
	const struct served *s, struct pack *body, int status, const uint32_t *ranks, uint32_t n)
{
	pack_u32(body, (uint32_t)status);
	pack_u32(body, n);
	pack_u32_array(body, ranks, n);
	put_step_id(body, s->launch);
}

/* To an sattach, which may have gone: tried once. */
static void send_exits_to_peer(struct served *s, const struct attach_peer *peer, int status,
	const uint32_t *ranks, uint32_t n)
{
	const struct delivery_options to = {.loop = s->loop,
		.munge = s->munge,
		.retry = &attach_retry,
		.address = peer->response,
		.version = peer->version,
		.type = SLURM_MESSAGE_TASK_EXIT,
		.reader = peer->uid,
		.done = served_on_delivered,
		.userdata = s};
	struct pack body = {0};

	put_exits(s, &body, status, ranks, n);
	send_message(s, &to, &body);
}

/* All tasks with that status that have not been reported. */
static void report_exits(struct served *s, int status)
{
	_cleanup_free_ uint32_t *ranks = calloc(s->ntasks, sizeof(*ranks));
	struct pack body = {.failed = !ranks};
	uint32_t i, n = 0;

	for (i = 0; ranks && i < s->ntasks; i++) {
		struct served_task *t = &s->tasks[i];

		if (!t->ended || t->reported || t->status != status)
			continue;
		t->reported = true;
		ranks[n++] = s->ranks[i];
	}
	put_exits(s, &body, status, ranks, n);
	send_to_srun(s, SLURM_MESSAGE_TASK_EXIT, &body);
	for (i = 0; ranks && i < s->attach.count; i++)
		send_exits_to_peer(s, &s->attach.peers[i], status, ranks, n);
}

static void report_all_exits(struct served *s)
{
	uint32_t i;

	ev_timer_stop(s->loop, &s->gather);
	for (i = 0; i < s->ntasks && !s->batch; i++) {
		if (s->tasks[i].ended && !s->tasks[i].reported)
			report_exits(s, s->tasks[i].status);
	}
}

/* False: none runs, nor is there one to begin. */
static bool run_epilogs(struct served *s)
{
	_cleanup_free_ uint32_t *ids = s->epilogs ? calloc(s->ntasks, sizeof(*ids)) : NULL;
	uint32_t i, n = 0;

	for (i = 0; ids && i < s->ntasks; i++) {
		if (!s->tasks[i].ended || s->tasks[i].has_epilog)
			continue;
		s->tasks[i].has_epilog = true;
		ids[n++] = i;
	}
	epilogs_run(s->epilogs, ids, n);
	return epilogs_are_running(s->epilogs);
}

/* srun knows of a task's end when its epilog is over. */
static void report_ends(struct served *s)
{
	ev_timer_stop(s->loop, &s->gather);
	if (!run_epilogs(s))
		report_all_exits(s);
}

static void epilogs_on_note(const char *text, void *userdata)
{
	struct served *s = userdata;

	assert(s);
	put_note(s, text);
}

static void epilogs_on_done(void *userdata)
{
	struct served *s = userdata;

	assert(s);
	report_ends(s);
	end_step(s);
}

static void on_gathered(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct served *s = timer->data;

	assert(s);
	report_ends(s);
	check_over(s);
}

/* As slurmstepd has it: a signal that nobody has requested, else the largest status; if all have
 * been killed by requests, the first one's. */
static int make_step_status(const struct served *s)
{
	int status = s->launch_error;
	bool counts = false;
	uint32_t i;

	for (i = 0; i < s->ntasks; i++) {
		const struct served_task *t = &s->tasks[i];

		if (!t->ended || t->killed)
			continue;
		counts = true;
		if (WIFSIGNALED(t->status))
			status = t->status;
		else if (!WIFSIGNALED(status) && t->status > status)
			status = t->status;
	}
	return counts || !s->tasks[0].ended ? status : s->tasks[0].status;
}

/* As slurm.conf has it now, where slurmd has said that it has changed. */
static struct sockaddr_in find_controller(const struct served *s)
{
	_cleanup_site_conf_ struct site_conf site = {0};
	struct err err = ERR_INIT;

	if (!s->reconfigured)
		return s->init->site->controller;
	if (site_conf_read(NULL, &site, &err) == 0)
		return site.controller;
	log_warning(s->log, "step %s: %s, ignoring", s->label, err.text);
	return s->init->site->controller;
}

static void report_step(struct served *s)
{
	struct tree_end end = {.status = make_step_status(s), .controller = find_controller(s)};

	accounting_pack(s->accounting, false, &end.record);
	tree_end_take(s->tree, &end);
}

static void report_script(struct served *s)
{
	const struct batch_end end = {.loop = s->loop,
		.munge = s->munge,
		.controller = find_controller(s),
		.job_status = s->tasks[0].ended ? s->tasks[0].status : s->launch_error,
		.error = s->agent_error,
		.accounting = s->accounting,
		.done = served_on_delivered,
		.userdata = s};
	struct err err = ERR_INIT;

	s->deliveries++;
	if (batch_report(s->batch, &end, &err) < 0)
		served_on_delivered(&err, s);
}

/* ---- what users read ----------------------------------------------------------------------- */

/* A line of the program that users know, on the standard error of the first task. */
static void put_note(struct served *s, const char *text)
{
	_cleanup_free_ char *line = NULL;

	if (asprintf(&line, "slurmstepd-%s: error: %s\n", s->init->conf.node_name, text) < 0)
		line = NULL;
	if (!line ||
		(s->batch ? !batch_put_note(s->batch, line) : !s->io || !srun_io_note(s->io, line)))
		log_info(s->log, "%s", text);
}

/* The first node alone, or the one that the user has named, srun(1). */
static bool is_node_of_notes(const struct served *s)
{
	const char *id = step_spec_getenv(s->launch, "SLURM_STEP_KILLED_MSG_NODE_ID");

	return s->node_id == (id ? strtoul(id, NULL, 10) : 0);
}

static void put_cancelled(struct served *s, const char *why)
{
	char when[32] = "", text[ERR_TEXT_SIZE];
	time_t now = time(NULL);
	struct tm tm;

	if (s->cancelled || !is_node_of_notes(s))
		return; /* once is enough */
	s->cancelled = true;
	if (localtime_r(&now, &tm))
		(void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(text, sizeof(text), "*** %s %.*s ON %s CANCELLED AT %s%s ***",
		s->batch ? "JOB" : "STEP", s->batch ? (int)strcspn(s->label, ".") : INT_MAX,
		s->label, s->init->conf.node_name, when, why);
	put_note(s, text);
}

/* ---- requests at the step's socket --------------------------------------------------------- */

static void mark_killed(struct served *s)
{
	uint32_t i;

	for (i = 0; i < s->ntasks; i++)
		s->tasks[i].killed |= !s->tasks[i].ended;
}

/* Numbers that are no signals, and what they mean. */
static const char *find_reason(int number)
{
	static const struct {
		int number;
		const char *why;
	} reasons[] = {
		{993, " DUE TO JOB REQUEUE"},
		{994, " DUE TO PREEMPTION"},
		{996, " DUE TO TIME LIMIT"},
		{998, " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"},
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(reasons); i++) {
		if (reasons[i].number == number)
			return reasons[i].why;
	}
	return NULL;
}

static int early_on_piece(_unused_ const json_t *reply, _unused_ void *userdata)
{
	return 0; /* that it has come is all */
}

static void early_on_done(int code, const char *text, void *userdata)
{
	struct early_signal *e = userdata;

	assert(e);
	e->call = NULL;
	if (code < 0)
		log_warning(e->served->log, "step %s: an early signal is lost: %s, ignoring",
			e->served->label, text);
}

static void send_early(struct early_signal *e)
{
	struct served *s = e->served;
	_cleanup_requests_plan_ struct requests_plan plan = {0};
	struct call_options call = {.loop = s->loop,
		.directory = s->listener->directory,
		.timeout_ms = SERVER_ACTION_TIMEOUT_MS,
		.piece = early_on_piece,
		.done = early_on_done,
		.userdata = e};
	struct stepd_error error = {0};

	if (requests_make_plan(&e->request, &s->listener->step, &plan) < 0 || !plan.method)
		return; /* no memory, or nothing that an agent knows */
	call.method = plan.method;
	call.parameters = plan.parameters;
	if (call_start(&call, &e->call, &error) < 0)
		log_warning(s->log, "step %s: an early signal is lost: %s, ignoring", s->label,
			error.text);
}

/* slurmstepd waits until its tasks run; here they get it then. */
static int hold_early(struct served *s, const struct wire_request *request)
{
	if (s->early_count == EARLY_MAX)
		return SLURM_STEP_NOT_RUNNING;
	s->early[s->early_count++] = (struct early_signal){.served = s, .request = *request};
	return 0;
}

/* True: there is nothing for the agent in it, or no agent. */
static bool take_signal(struct served *s, const struct wire_request *request, int number,
	struct wire_answer *answer)
{
	const char *why = find_reason(number);
	int error = 0;
	bool kills;

	if (why) {
		put_cancelled(s, why);
		wire_put_result(answer, 0);
		return true;
	}
	kills = number == SIGKILL || number == SIGTERM || number == SLURM_SIGNAL_TERMINATE;
	if (kills || number == SLURM_SIGNAL_ABORT)
		epilogs_kill(s->epilogs);
	if (s->over) {
		wire_put_result(answer, SLURM_STEP_NOT_RUNNING);
		return true;
	}
	if (number == SLURM_SIGNAL_ABORT) {
		s->aborted = true;
		number = SIGKILL; /* as requests.c has it, without a line for the user */
	}
	if (kills) {
		put_cancelled(s, "");
		mark_killed(s);
	}
	if (s->runs)
		return false;
	if (kills || s->aborted)
		s->early_kill = s->early_kill == SIGKILL ? SIGKILL : number;
	else if (number)
		error = hold_early(s, request);
	wire_put_result(answer, error);
	return true;
}

/* What slurmd has for the agents below, some of which may be slurmstepds. */
static void take_completion(
	struct served *s, const struct wire_request *request, struct wire_answer *answer)
{
	int error = SLURM_STEP_NOT_RUNNING;

	if (s->tree)
		error = tree_take_report(s->tree, (uint32_t)request->first, (uint32_t)request->last,
			request->status);
	wire_put_result(answer, error);
}

static enum wire_state get_state(const struct served *s)
{
	if (s->over)
		return WIRE_ENDING;
	return s->runs ? WIRE_RUNNING : WIRE_STARTING;
}

/* It learns of the ends that were before it. */
static void report_earlier_exits(struct served *s, const struct attach_peer *peer)
{
	uint32_t i;

	for (i = 0; i < s->ntasks; i++) {
		if (s->tasks[i].reported)
			send_exits_to_peer(s, peer, s->tasks[i].status, &s->ranks[i], 1);
	}
}

/* As slurmstepd: there has to be something to attach to. */
static bool attach_peer(
	struct served *s, const struct wire_attach *request, struct wire_answer *answer)
{
	const struct attach_peer *peer;
	struct err err = ERR_INIT;
	uint32_t i;
	int r = SLURM_STEP_NOT_RUNNING;

	if (s->io && s->runs && !s->over) { /* a script has no streams to attach to */
		r = -attach_add(&s->attach, s->io, request, &peer, &err);
		if (r)
			log_warning(s->log, "step %s: can't attach: %s", s->label, err.text);
	}
	wire_put_i32(answer, r);
	if (r)
		return true;
	wire_put_u32(answer, s->ntasks);
	for (i = 0; i < s->ntasks; i++)
		wire_put_u32(answer, s->tasks[i].pid);
	for (i = 0; i < s->ntasks; i++)
		wire_put_u32(answer, s->ranks[i]);
	for (i = 0; i < s->ntasks; i++)
		wire_put_text(answer, s->programs.names.v[0]);
	report_earlier_exits(s, peer);
	return true;
}

/* Nobody is there to know of processes; to change them is an error. */
static bool answer_without_agent(struct served *s, enum wire_kind kind, struct wire_answer *answer)
{
	if (s->runs && !s->over)
		return false;
	if (kind == WIRE_TASK_INFO || kind == WIRE_LIST_PIDS)
		wire_begin_list(answer);
	else if (kind == WIRE_PID_IN_CONTAINER)
		wire_put_u8(answer, 0);
	else
		wire_put_result(answer, SLURM_STEP_NOT_RUNNING);
	return true;
}

/* slurmd's log may have another file, and slurm.conf another slurmctld, for which it is read when
 * the step is over: to resolve a name may take long. */
static void reconfigure(struct served *s)
{
	_cleanup_close_ int fd = -1;

	s->reconfigured = true;
	if (s->log->fd < 0 || !s->init->conf.log_file)
		return;
	fd = open(s->init->conf.log_file,
		O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
	if (fd < 0 || dup3(fd, s->log->fd, O_CLOEXEC) < 0)
		log_warning(s->log, "step %s: open '%s' again: %s, ignoring", s->label,
			s->init->conf.log_file, strerror(errno));
}

/* A record with its length, and how many tasks there are. */
static void put_usage(const struct served *s, struct wire_answer *answer)
{
	_cleanup_pack_ struct pack record = {0};

	accounting_pack(s->accounting, true, &record);
	wire_put_i32(answer, (int32_t)buffer_size(&record.bytes));
	wire_put_bytes(answer, buffer_bytes(&record.bytes), buffer_size(&record.bytes));
	wire_put_u32(answer, s->ntasks);
	answer->failed |= record.failed;
}

/* False: it is not one of those that are answered by what is known here. */
static bool answer_known(
	struct served *s, enum wire_kind kind, uint16_t version, struct wire_answer *answer)
{
	switch (kind) {
	case WIRE_STATE:
		wire_put_state(answer, version, get_state(s));
		return true;
	case WIRE_DAEMON_PID:
		wire_put_u32(answer, (uint32_t)getpid());
		return true;
	case WIRE_UID:
		wire_put_u32(answer, s->launch->uid);
		return true;
	case WIRE_NODEID:
		wire_put_u32(answer, s->node_id);
		return true;
	case WIRE_MEM_LIMITS:
		wire_put_mem_limits(answer, version,
			s->batch ? s->launch->cred_memory_mb : s->launch->job_memory_mb,
			s->batch ? s->launch->cred_memory_mb : s->launch->step_memory_mb);
		return true;
	case WIRE_RECONFIGURE:
		reconfigure(s);
		wire_put_result(answer, 0);
		return true;
	default:
		return false;
	}
}

static enum server_local served_on_request(const struct wire_request *request, uint16_t version,
	struct wire_answer *answer, void *userdata)
{
	struct served *s = userdata;
	bool answered = true;

	assert(s);
	switch (request->kind) {
	case WIRE_USAGE:
		if (!s->polled && accounting_poll(s->accounting))
			return SERVER_LATER;
		put_usage(s, answer);
		break;
	case WIRE_NOTIFY:
		put_note(s, request->text);
		wire_put_i32(answer, 0);
		break;
	case WIRE_COMPLETION:
		take_completion(s, request, answer);
		break;
	case WIRE_ATTACH:
		answered = attach_peer(s, &request->attach, answer);
		break;
	case WIRE_SIGNAL:
		answered = take_signal(s, request, request->signal, answer);
		break;
	case WIRE_TERMINATE:
		answered = take_signal(s, request, SIGKILL, answer);
		break;
	default:
		answered = answer_known(s, request->kind, version, answer) ||
			answer_without_agent(s, request->kind, answer);
	}
	return answered ? SERVER_ANSWERED : SERVER_PASSED;
}

/* The usage is known that clients wait for. */
static void accounting_on_polled(void *userdata)
{
	struct served *s = userdata;

	assert(s);
	s->polled = true;
	server_resume(&s->server);
	s->polled = false;
}

/* ---- the agent ----------------------------------------------------------------------------- */

static struct served_task *find_task(struct served *s, uint32_t rank)
{
	uint32_t i;

	for (i = 0; i < s->ntasks; i++) {
		if (s->ranks[i] == rank)
			return &s->tasks[i];
	}
	return NULL;
}

static void end_task(struct served *s, struct served_task *task, int status)
{
	if (task->ended)
		return;
	task->ended = true;
	task->status = status;
	if (!ev_is_active(&s->gather)) {
		ev_timer_set(&s->gather, GATHER_S, 0.);
		ev_timer_start(s->loop, &s->gather);
	}
}

static void agent_on_ready(const json_t *line, void *userdata)
{
	struct served *s = userdata;
	const json_t *entry;
	struct served_task *task;
	int64_t rank, pid;
	size_t i;

	assert(s);
	json_array_foreach (json_get_array(line, "tasks"), i, entry) {
		if (!json_get_range(entry, "rank", 0, UINT32_MAX, &rank) ||
			!json_get_range(entry, "pid", 0, INT32_MAX, &pid))
			continue;
		task = find_task(s, (uint32_t)rank);
		if (task)
			task->pid = (uint32_t)pid;
	}
	s->runs = true;
	accounting_start(s->accounting);
	report_launch(s);
	if (s->io) /* a script has files */
		srun_io_start(s->io);
	if (s->window)
		window_follow(s->window);
	for (i = 0; i < s->early_count; i++)
		send_early(&s->early[i]);
	if (s->early_kill)
		supervisor_signal(s->supervisor, s->early_kill == SIGKILL ? "KILL" : "TERM");
}

static void agent_on_task_ended(uint32_t rank, int wait_status, void *userdata)
{
	struct served *s = userdata;
	struct served_task *task;

	assert(s);
	task = find_task(s, rank);
	if (task)
		end_task(s, task, wait_status);
}

static void agent_on_report(const char *text, void *userdata)
{
	struct served *s = userdata;

	assert(s);
	log_warning(s->log, "step %s: %s", s->label, text);
}

/* The ends that no event has told of, and what the tasks have used. */
static void take_result(struct served *s, const char *text)
{
	json_auto_t *result = text ? json_loads(text, 0, NULL) : NULL;
	const json_t *entry;
	struct served_task *task;
	int64_t rank, status;
	size_t i;

	json_array_foreach (json_get_array(result, "tasks"), i, entry) {
		if (!json_get_range(entry, "rank", 0, UINT32_MAX, &rank) ||
			!json_get_range(entry, "wait_status", 0, INT32_MAX, &status))
			continue;
		task = find_task(s, (uint32_t)rank);
		if (task)
			end_task(s, task, (int)status);
	}
	accounting_finish(s->accounting, result);
}

/* No task runs any more. */
static void finish(struct served *s)
{
	s->over = true;
	end_step(s);
}

static void agent_on_ended(_unused_ int exit_code, const char *result, void *userdata)
{
	struct served *s = userdata;
	uint32_t i;

	assert(s);
	if (!s->runs) { /* the agent's own messages are in slurmd's log */
		s->launch_error = SLURM_IO_ERROR;
		report_launch(s);
	}
	take_result(s, result);
	/* As a task whose status is lost, where even the successor of a killed agent has none. */
	for (i = 0; s->runs && i < s->ntasks; i++)
		end_task(s, &s->tasks[i], SIGKILL);
	finish(s);
}

static void on_resized(void *userdata)
{
	struct served *s = userdata;

	assert(s);
	if (s->supervisor && !s->over)
		supervisor_resize(s->supervisor);
}

static int start_agent(struct served *s, struct err *err)
{
	static const struct supervisor_events events = {.ready = agent_on_ready,
		.task_ended = agent_on_task_ended,
		.report = agent_on_report,
		.ended = agent_on_ended};
	_cleanup_close_ int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int fd = s->window ? window_get_slave(s->window) : null_fd, r;
	const struct supervisor_start start = {.program = s->program,
		.args = &s->args,
		.runtime_dir = s->runtime_dir,
		.doc = s->doc,
		.stdio = {fd, fd, s->log->fd >= 0 ? s->log->fd : null_fd}};

	if (null_fd < 0)
		return err_set(err, -errno, "open '/dev/null'");
	r = supervisor_new(s->loop, &start, &events, s, &s->supervisor, err);
	if (s->window)
		window_close_slave(s->window);
	return r;
}

/* ---- a step whose program can't be executed ------------------------------------------------ */

/* Users know the sentence, once for each task, and the errno as its status. */
static void end_unexecuted(struct served *s)
{
	char text[PATH_MAX + 128];
	uint32_t i;

	(void)snprintf(text, sizeof(text),
		s->probe.is_interpreter ? "execve(): bad interpreter(%s): %s" : "execve(): %s: %s",
		s->probe.program, strerror(s->probe.program_error));
	s->runs = true;
	for (i = 0; i < s->ntasks; i++)
		s->tasks[i].pid = (uint32_t)getpid();
	report_launch(s);
	for (i = 0; i < s->ntasks; i++) {
		put_note(s, text);
		end_task(s, &s->tasks[i], s->probe.program_error << 8);
	}
	finish(s);
}

/* ---- the life ------------------------------------------------------------------------------ */

static void on_reported(void *userdata)
{
	struct served *s = userdata;

	assert(s);
	ev_break(s->loop, EVBREAK_ALL);
}

/* The step is over, srun has its output and its tasks' ends: slurmctld has to know. slurmd takes
 * the launch for failed if this process has ended before slurmd has written all. */
static void check_over(struct served *s)
{
	if (ev_is_active(&s->init_end) || !s->over || !s->has_streams_end ||
		ev_is_active(&s->gather) || s->deliveries > 0 || epilogs_are_running(s->epilogs))
		return;
	if (s->completes) {
		if (s->batch) /* else the tree reports it */
			on_reported(s);
		return;
	}
	s->completes = true;
	if (s->batch && !s->aborted)
		report_script(s);
	else if (s->tree)
		report_step(s);
	else
		on_reported(s);
}

static bool has_failure(const struct served *s)
{
	uint32_t i;

	for (i = 0; i < s->ntasks; i++) {
		if (s->tasks[i].ended && s->tasks[i].status != 0)
			return true;
	}
	return false;
}

static void on_detached(unsigned id, void *userdata)
{
	struct served *s = userdata;

	assert(s);
	attach_remove(&s->attach, id);
}

static void on_streams_finished(void *userdata)
{
	struct served *s = userdata;

	assert(s);
	s->has_streams_end = true;
	/* A failure is reported when it is due: srun shows what the tasks have written before it.
	 */
	if (!has_failure(s))
		report_ends(s);
	check_over(s);
}

/* Once the agent has ended: how epilogs fail is noted in the streams. */
static void end_step(struct served *s)
{
	if (s->over && !run_epilogs(s) && !s->finishes) {
		s->finishes = true;
		if (s->io)
			srun_io_finish(s->io);
	}
	check_over(s);
}

static void fail_launch(struct served *s, int error)
{
	s->launch_error = error;
	report_launch(s);
	finish(s);
}

static void put_cwd_note(struct served *s)
{
	char text[PATH_MAX + 128];
	uint32_t i;

	(void)snprintf(text, sizeof(text), "couldn't chdir to `%s': %s: going to %s instead",
		s->launch->cwd, strerror(s->probe.cwd_error), FALLBACK_DIR);
	/* Twice: slurmstepd tries in itself, and in each task. */
	put_note(s, text);
	for (i = 0; i < s->ntasks; i++)
		put_note(s, text);
}

static void start_tasks(struct served *s)
{
	struct err err = ERR_INIT;

	if (s->probe.cwd_error)
		put_cwd_note(s);
	if (s->probe.file_error) {
		log_error(s->log, "step %s: a file of its tasks can't be opened: %s", s->label,
			strerror(s->probe.file_error));
		fail_launch(s, SLURM_IO_ERROR);
	} else if (s->probe.program_error) {
		end_unexecuted(s);
	} else if (start_agent(s, &err) < 0) {
		log_error(s->log, "step %s: %s", s->label, err.text);
		s->agent_error = SLURM_EXECVE_FAILED;
		fail_launch(s, SLURM_IO_ERROR);
	}
}

static void on_streams_connected(int r, void *userdata)
{
	struct served *s = userdata;

	assert(s);
	if (r == 0) {
		start_tasks(s);
		return;
	}
	log_error(s->log, "step %s: can't connect to srun for the tasks' streams: %s", s->label,
		strerror(-r));
	fail_launch(s, SLURM_IO_ERROR);
}

/* slurmd writes the rest of the init, takes the answer, and ends the pipe. */
static void on_init(struct ev_loop *loop, ev_io *watcher, _unused_ int revents)
{
	struct served *s = watcher->data;
	char piece[16384];
	ssize_t n = read(watcher->fd, piece, sizeof(piece));
	int null_fd;

	assert(s);

	if (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)))
		return;
	ev_io_stop(loop, watcher);
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null_fd >= 0) {
		(void)dup2(null_fd, STDIN_FILENO); /* else they stay open, to nobody */
		(void)dup2(null_fd, STDOUT_FILENO);
	}
	(void)close_fd(null_fd);
	check_over(s);
}

static int answer_slurmd(struct served *s)
{
	const int32_t done = 0;
	int r = fs_write_all(STDOUT_FILENO, &done, sizeof(done));

	if (r < 0)
		log_error(s->log, "step %s: slurmd takes no answer: %s", s->label, strerror(-r));
	ev_io_init(&s->init_end, on_init, STDIN_FILENO, EV_READ);
	s->init_end.data = s;
	ev_io_start(s->loop, &s->init_end);
	return r;
}

/* ---- prepared ------------------------------------------------------------------------------ */

static int prepare_tasks(struct served *s, struct err *err)
{
	static const uint8_t first[sizeof(uint32_t)] = {0};
	struct slurm_array ranks = {1, first}; /* of a script */
	bool script = s->launch->kind == SLURM_KIND_BATCH;
	int r = script ? 0
		       : slurm_launch_find_node(s->launch, s->init->conf.node_name, &s->node_id);
	uint32_t i;

	if (r < 0)
		return err_set(err, r, "find node '%s' among those of the step, '%s'",
			s->init->conf.node_name ? s->init->conf.node_name : "",
			s->launch->nodes ? s->launch->nodes : "");
	if (!script &&
		(!slurm_launch_ranks(s->launch, s->node_id, &ranks) || ranks.n == 0 ||
			s->launch->ntasks > SRUN_IO_TASKS_MAX || ranks.n > s->launch->ntasks))
		return err_set_text(err, -EBADMSG, "the message has no tasks for this node");
	s->ntasks = ranks.n;
	s->ranks = calloc(ranks.n, sizeof(*s->ranks));
	s->tasks = calloc(ranks.n, sizeof(*s->tasks));
	if (!s->ranks || !s->tasks)
		return err_set(err, -ENOMEM, "read the step's tasks");
	for (i = 0; i < ranks.n; i++)
		s->ranks[i] = slurm_array_u32(&ranks, i);
	return 0;
}

static int prepare_identity(struct served *s, struct err *err)
{
	int r = munge_client_open(s->init->site->munge_socket, &s->munge, err);

	if (r == 0)
		r = credential_check(s->launch, s->munge, s->init->site->slurm_user, err);
	return r == 0 ? credential_groups(s->launch, &s->groups, &s->groups_count, err) : r;
}

static int add_file(const struct served *s, int stream, uint32_t rank, struct user_probe_file *file,
	struct err *err)
{
	char step[16];
	const char *name = step_spec_getenv(s->launch, "SLURM_JOB_NAME");
	const struct fname_vars vars = {.job_id = s->launch->id.job,
		.step_name = step,
		.rank = rank,
		.node_id = s->node_id,
		.node_name = s->init->conf.node_name,
		.user_name = s->launch->user ? s->launch->user : "",
		.job_name = name ? name : ""};

	(void)snprintf(step, sizeof(step), "%u", s->launch->id.step);
	file->flags = stream == 0 ? O_RDONLY : O_WRONLY | O_CREAT;
	return fname_expand(s->launch->files[stream], &vars, &file->path, err);
}

static void files_clear(struct user_probe_options *o)
{
	size_t i;

	for (i = 0; i < o->files_count; i++)
		free(o->files[i].path);
	free((void *)o->files);
}

/* All files of all tasks; one that several tasks share is among them several times. */
static int add_files(const struct served *s, struct user_probe_options *o, struct err *err)
{
	struct user_probe_file *files;
	uint32_t i;
	int stream, r = 0;

	if (step_spec_wants_terminal(s->launch))
		return 0; /* that is all streams */
	files = calloc((size_t)s->ntasks * 3, sizeof(*files));
	if (!files)
		return err_set(err, -ENOMEM, "look for the step's files");
	o->files = files;
	for (i = 0; r == 0 && i < s->ntasks; i++) {
		for (stream = 0; r == 0 && stream < 3; stream++) {
			if (s->launch->files[stream])
				r = add_file(s, stream, s->ranks[i], &files[o->files_count++], err);
		}
	}
	return r;
}

static mode_t get_umask(const struct served *s)
{
	const char *text = step_spec_getenv(s->launch, "SLURM_UMASK");

	return text ? (mode_t)(strtoul(text, NULL, 8) & 0777) : 022;
}

static struct user_probe_options make_probe(const struct served *s)
{
	return (struct user_probe_options){.uid = s->launch->uid,
		.gid = s->launch->gid,
		.groups = s->groups,
		.groups_count = s->groups_count,
		.cwd = s->launch->cwd,
		.programs = s->programs.names.v,
		.programs_count = s->programs.names.n,
		.path = step_spec_getenv(s->launch, "PATH"),
		.umask = get_umask(s)};
}

static int prepare_probe(struct served *s, struct err *err)
{
	_cleanup_(files_clear) struct user_probe_options options = make_probe(s);
	int r;

	if (!options.cwd)
		return err_set_text(err, -EBADMSG, "the message has no directory");
	r = add_files(s, &options, err);
	if (r == 0)
		r = user_probe_run(&options, &s->probe, err);
	/* A prolog may change the PATH, or make the program. */
	if (task_script_has_prolog(s->launch, s->init->site))
		s->probe.program_error = 0;
	/* The tasks of the others would run. */
	if (r == 0 && s->programs.tasks && s->probe.program_error)
		return err_set(err, -s->probe.program_error, "a program of --multi-prog, '%s'",
			s->probe.program);
	return r;
}

/* Before the spec, which has it as the agent's own streams. */
static int prepare_terminal(struct served *s, struct err *err)
{
	const struct window_options options = {.loop = s->loop,
		.log = s->log,
		.launch = s->launch,
		.resized = on_resized,
		.userdata = s};

	if (!step_spec_wants_terminal(s->launch) || !find_task(s, 0))
		return 0;
	return window_open(&options, &s->window, err);
}

/* The agent's result has usage where it is written to a file. */
static int prepare_accounting(struct served *s, struct err *err)
{
	const struct accounting_options options = {.loop = s->loop,
		.log = s->log,
		.directory = s->directory,
		.tres = &s->init->conf.tres,
		.node = s->node_id,
		.ranks = s->ranks,
		.ntasks = s->ntasks,
		.cache_counts = s->init->site->accounting == SITE_ACCOUNTING_CGROUP,
		.interval_s = site_sample_interval(s->launch->sample_interval, s->init->site),
		.polled = accounting_on_polled,
		.userdata = s};

	if (strv_add(&s->args, "--result=/dev/null") < 0)
		return err_set(err, -ENOMEM, "account for the step");
	return accounting_open(&options, &s->accounting, err);
}

static int prepare_epilogs(struct served *s, struct err *err)
{
	const char *user = s->launch->task_epilog, *site = s->init->site->task_epilog;
	const struct epilogs_options options = {.loop = s->loop,
		.log = s->log,
		.user = user && *user ? user : NULL,
		.site = site && *site ? site : NULL,
		.program = s->program,
		.runtime_dir = s->runtime_dir,
		.args = &s->args,
		.doc = s->doc,
		.task_program = s->task_program,
		.step = s->launch->id.step,
		.ranks = s->ranks,
		.ntasks = s->ntasks,
		.note = epilogs_on_note,
		.done = epilogs_on_done,
		.userdata = s};

	return task_script_has_epilog(s->launch, s->init->site)
		? epilogs_open(&options, &s->epilogs, err)
		: 0;
}

/* Arguments before those of the program. */
static int prepare_scripts(struct served *s, struct strv *before, struct err *err)
{
	int r = program_find("stepd-slurm-task", TASK_PROGRAM, &s->task_program, err);

	if (r == 0 &&
		task_script_add(s->launch, s->init->site, s->init->conf.node_name, s->task_program,
			before) < 0)
		r = err_set(err, -ENOMEM, "prepare the step's tasks");
	return r;
}

static struct step_spec_input make_input(const struct served *s)
{
	return (struct step_spec_input){.node = &s->init->conf,
		.launch = s->launch,
		.site = s->init->site,
		.node_id = s->node_id,
		.ranks = s->ranks,
		.groups = s->groups,
		.ntasks = s->ntasks,
		.groups_count = s->groups_count,
		.fifos = &s->fifos,
		.tasks = s->programs.tasks,
		.has_terminal = s->window,
		.cwd = s->probe.cwd_error ? FALLBACK_DIR : s->launch->cwd};
}

/* A batch script, in place of the next three. */
static int prepare_script(struct served *s, struct err *err)
{
	struct user_probe_options probe = make_probe(s);
	struct step_spec_input input;
	int r = batch_new(s->init, &s->batch, err);

	if (r < 0)
		return r;
	batch_fill_probe(s->batch, &probe);
	r = user_probe_run(&probe, &s->probe, err);
	if (r < 0)
		return r;
	input = make_input(s);
	s->has_streams_end = true; /* there are none */
	if (!s->probe.file_error)
		batch_open_notes(s->batch, &input, probe.umask);
	return batch_make_spec(s->batch, &input, &s->doc, err);
}

static int prepare_spec(struct served *s, struct err *err)
{
	_cleanup_strv_ struct strv before = {0};
	struct step_spec_input input = make_input(s);
	_cleanup_free_ char *name = NULL;
	int r;

	if (asprintf(&name, "%s_%s", s->init->conf.node_name, s->label) < 0) {
		name = NULL;
		return err_set(err, -ENOMEM, "make the step's streams");
	}
	r = fifos_open(&s->fifos, name, err);
	if (r == 0)
		r = prepare_scripts(s, &before, err);
	input.before = &before;
	return r == 0 ? step_spec_make(&input, &s->doc, err) : r;
}

static int prepare_agent(struct served *s, struct err *err)
{
	int r = program_find("../../stepd/cli/stepd", STEPD_PROGRAM, &s->program, err);

	if (r == 0)
		r = steps_find_dir(NULL, &s->runtime_dir, err);
	if (r == 0 &&
		asprintf(&s->directory, "%s/%s_%s", s->runtime_dir, s->init->conf.node_name,
			s->label) < 0) {
		s->directory = NULL;
		r = err_set(err, -ENOMEM, "start the agent");
	}
	if (r == 0 && s->init->site->accounting)
		r = prepare_accounting(s, err);
	if (r == 0 &&
		(strv_add(&s->args, "--quiet") < 0 ||
			strv_addf(&s->args, "--runtime-dir=%s", s->runtime_dir) < 0 ||
			strv_add(&s->args, "--keep-result=0") < 0))
		r = err_set(err, -ENOMEM, "start the agent");
	return r == 0 ? prepare_epilogs(s, err) : r;
}

static int prepare_socket(struct served *s, struct err *err)
{
	const struct listener_step step = {.step = s->label,
		.node = s->init->conf.node_name,
		.directory = s->directory,
		.owner = s->launch->uid};
	int r;

	r = spool_open_slurmds(s->init->conf.spool_dir, &s->spool, err);
	if (r == 0)
		r = server_open(&s->server, s->loop, s->log, s->spool, false, err);
	if (r < 0)
		return r;
	s->server.admin = s->init->site->slurm_user; /* as for slurmstepd */
	s->server.local = served_on_request;
	s->server.userdata = s;
	r = listener_open(&s->server, &step, &s->listener, err);
	if (r == 0)
		s->listener->step.leaders = !s->init->site->signals_all;
	return r;
}

/* A descriptor for each stream of each task; with fewer, a large step can't be served. The spec has
 * the tasks' own limit. */
static void raise_descriptors(struct served *s)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &s->nofile) < 0)
		return;
	limit = s->nofile;
	limit.rlim_cur = limit.rlim_max;
	s->raised = setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

static int prepare_streams(struct served *s, struct err *err)
{
	struct srun_io_options options = {.loop = s->loop,
		.address = s->launch->srun,
		.version = s->init->frame.client_release,
		.node_id = s->node_id,
		.key = s->launch->cred_signature.bytes,
		.key_size = s->launch->cred_signature.n,
		.fifos = &s->fifos,
		.uid = s->launch->uid,
		.ntasks = s->ntasks,
		.ranks = s->ranks,
		.unbuffered = !(s->launch->flags & SLURM_FLAG_BUFFERED),
		.terminal_fd = s->window ? window_get_master(s->window) : -1,
		.patience_s = ATTACH_PATIENCE_S,
		.connected = on_streams_connected,
		.detached = on_detached,
		.finished = on_streams_finished,
		.userdata = s};

	step_spec_uses(s->launch, options.uses);
	options.notes_later = task_script_has_epilog(s->launch, s->init->site);
	options.address.sin_port = htons(slurm_launch_port(&s->launch->io_ports, s->node_id));
	raise_descriptors(s);
	return srun_io_open(&options, &s->io, err);
}

/* A step without a credential, srun --no-alloc, has the rank -1. */
static int prepare_reports(struct served *s, struct err *err)
{
	const struct tree_options options = {.loop = s->loop,
		.log = s->log,
		.label = s->label,
		.munge = s->munge,
		.init = s->init,
		.done = on_reported,
		.userdata = s};

	s->to_srun = delivery_to_srun;
	s->to_srun.tries += s->launch->nnodes / 1024; /* srun is busier */
	return s->init->frame.rank < 0 ? 0 : tree_new(&options, &s->tree, err);
}

static int prepare_srun(struct served *s, struct err *err)
{
	int r = prepare_reports(s, err);

	if (r == 0)
		r = programs_read(s->launch, &s->programs, err);
	if (r == 0)
		r = prepare_probe(s, err);
	if (r == 0)
		r = prepare_terminal(s, err);
	if (r == 0)
		r = prepare_spec(s, err);
	return r == 0 ? prepare_streams(s, err) : r;
}

int served_prepare(const struct slurm_init *init, const struct log *log, struct served **ret_served,
	struct err *err)
{
	_cleanup_(served_free_p) struct served *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "serve the step");
	s->init = init;
	s->launch = &init->launch;
	s->log = log;
	s->fifos = (struct fifos)FIFOS_INIT;
	slurm_step_label(&s->launch->id, s->label);
	s->loop = ev_loop_new(EVFLAG_NOENV);
	if (!s->loop)
		return err_set(err, -ENOMEM, "make an event loop");
	ev_timer_init(&s->gather, on_gathered, GATHER_S, 0.);
	s->gather.data = s;
	r = prepare_tasks(s, err);
	if (r == 0)
		r = prepare_identity(s, err);
	if (r == 0)
		r = s->launch->kind == SLURM_KIND_BATCH ? prepare_script(s, err)
							: prepare_srun(s, err);
	if (r == 0)
		r = prepare_agent(s, err);
	if (r == 0)
		r = prepare_socket(s, err);
	if (r == 0)
		*ret_served = take_ptr(s);
	return r;
}

int served_run(struct served *s)
{
	(void)signal(SIGPIPE, SIG_IGN);
	if (answer_slurmd(s) < 0)
		return EXIT_FAILURE;
	if (s->batch)
		start_tasks(s); /* else once srun is connected */
	ev_run(s->loop, 0);
	return EXIT_SUCCESS;
}

struct served *served_free(struct served *s)
{
	unsigned i;

	if (!s)
		return NULL;
	for (i = 0; i < s->early_count; i++)
		s->early[i].call = call_cancel(s->early[i].call);
	s->supervisor = supervisor_free(s->supervisor);
	s->accounting = accounting_close(s->accounting);
	s->epilogs = epilogs_close(s->epilogs);
	s->io = srun_io_close(s->io);
	s->batch = batch_free(s->batch);
	s->tree = tree_free(s->tree);
	s->window = window_close(s->window);
	if (s->server.loop)
		server_close(&s->server);
	s->spool = spool_close(s->spool);
	fifos_close(&s->fifos);
	if (s->raised)
		(void)setrlimit(RLIMIT_NOFILE, &s->nofile); /* for slurmstepd; it was so before */
	if (s->loop) {
		ev_timer_stop(s->loop, &s->gather);
		ev_io_stop(s->loop, &s->init_end);
		ev_loop_destroy(s->loop);
	}
	s->munge = munge_client_close(s->munge);
	programs_clear(&s->programs);
	json_decref(s->doc);
	strv_clear(&s->args);
	free(s->program);
	free(s->task_program);
	free(s->runtime_dir);
	free(s->directory);
	free(s->tasks);
	free(s->ranks);
	free(s->groups);
	free(s);
	return NULL;
}
