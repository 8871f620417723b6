/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/served_impl.h"

#include <assert.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "contrib/slurm/accounting.h"
#include "contrib/slurm/call.h"
#include "contrib/slurm/epilogs.h"
#include "contrib/slurm/job_cgroup.h"
#include "contrib/slurm/site_conf.h"
#include "contrib/slurm/step_spec.h"
#include "contrib/slurm/suspension.h"
#include "contrib/slurm/tree.h"
#include "contrib/slurm/x11.h"
#include "stepd/cli/relay/supervisor.h"

/* The job is none of slurmctld's any more: it is not to be told of the end. */
#define SLURM_SIGNAL_ABORT 997

/* ---- signals ------------------------------------------------------------------------------- */

/* The first node alone, or the one that the user has named, srun(1). */
static bool is_node_of_notes(const struct served *s)
{
	const char *id = step_spec_getenv(s->launch, "SLURM_STEP_KILLED_MSG_NODE_ID");

	return s->setup.node_id == (id ? strtoul(id, NULL, 10) : 0);
}

static void put_cancelled(struct served *s, const char *why)
{
	char when[32] = "", text[ERR_TEXT_SIZE];
	time_t now = time(NULL);
	struct tm tm;

	if (s->requests.cancelled || !is_node_of_notes(s))
		return; /* once is enough */
	s->requests.cancelled = true;
	if (localtime_r(&now, &tm))
		(void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(text, sizeof(text), "*** %s %.*s ON %s CANCELLED AT %s%s ***",
		s->batch ? "JOB" : "STEP", s->batch ? (int)strcspn(s->label, ".") : INT_MAX,
		s->label, s->init->conf.node_name, when, why);
	served_put_note(s, text);
}

/* As slurmstepd: from 25.05 on the line says which signal it was, and there is none for the end by
 * scancel -s KILL, which has a request of its own. */
static void put_killed(struct served *s, const struct wire_request *request, int number)
{
	char why[64];

	if (s->init->frame.release < SLURM_25_05) {
		put_cancelled(s, "");
		return;
	}
	if (request->kind == WIRE_TERMINATE)
		return;
	if (number == SLURM_SIGNAL_TERMINATE)
		(void)snprintf(why, sizeof(why), " DUE TO TASK FAILURE");
	else
		(void)snprintf(why, sizeof(why), " DUE to SIGNAL %s", strsignal(number));
	put_cancelled(s, why);
}

static void mark_killed(struct served_tasks *tasks)
{
	uint32_t i;

	for (i = 0; i < tasks->n; i++)
		tasks->v[i].killed |= !tasks->v[i].ended;
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

static void early_on_done(int code, const char *text, void *userdata)
{
	struct served_early *e = userdata;

	assert(e);
	e->call = NULL;
	if (code < 0)
		log_warning(e->served->log, "step %s: an early signal is lost: %s, ignoring",
			e->served->label, text);
}

static void send_early(struct served_early *e)
{
	struct served *s = e->served;
	_cleanup_requests_plan_ struct requests_plan plan = {0};
	struct call_options call = {.loop = s->loop,
		.directory = s->requests.listener->directory,
		.timeout_ms = SERVER_ACTION_TIMEOUT_MS,
		.done = early_on_done,
		.userdata = e};
	struct stepd_error error = {0};

	if (requests_make_plan(&e->request, &s->requests.listener->step, &plan) < 0 || !plan.method)
		return; /* no memory, or nothing that an agent knows */
	call.method = plan.method;
	call.parameters = plan.parameters;
	if (call_start(&call, &e->call, &error) < 0)
		log_warning(s->log, "step %s: an early signal is lost: %s, ignoring", s->label,
			error.text);
}

/* As requests.c has it for an agent that runs. */
static void send_early_end(const struct served *s)
{
	int number = s->requests.early_end;

	if (number == SLURM_SIGNAL_TERMINATE || (number && s->launch->kind == SLURM_KIND_EXTERN))
		supervisor_terminate(s->agent.supervisor, number == SIGKILL);
	else if (number)
		supervisor_signal(s->agent.supervisor, number == SIGKILL ? "KILL" : "TERM");
}

void served_send_early(struct served *s)
{
	unsigned i;

	for (i = 0; i < s->requests.early_count; i++)
		send_early(s->requests.early[i]);
	send_early_end(s);
}

/* slurmstepd waits until its tasks run; here they get it then. */
static int hold_early(struct served *s, const struct wire_request *request)
{
	struct served_early *e;

	if (s->requests.early_count == SERVED_EARLY_MAX)
		return SLURM_STEP_NOT_RUNNING;
	e = calloc(1, sizeof(*e));
	if (!e)
		return ENOMEM;
	*e = (struct served_early){.served = s, .request = *request};
	s->requests.early[s->requests.early_count++] = e;
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
	if (request->kind == WIRE_SIGNAL && s->init->frame.release >= SLURM_23_02)
		s->requests.is_stopped |= (request->flags & SLURM_KILL_NO_FAILURE) != 0;
	kills = number == SIGKILL || number == SIGTERM || number == SLURM_SIGNAL_TERMINATE;
	if (kills || number == SLURM_SIGNAL_ABORT)
		epilogs_kill(s->epilogs);
	if (s->agent.over) {
		wire_put_result(answer, 0); /* requests.h: outlives_tasks */
		return true;
	}
	if (number == SLURM_SIGNAL_ABORT) {
		s->requests.aborted = true;
		number = SIGKILL; /* as requests.c has it, without a line for the user */
	}
	if (kills) {
		put_killed(s, request, number);
		/* Of --kill-on-bad-exit the task's status counts that it gets by that. */
		if (number != SLURM_SIGNAL_TERMINATE)
			mark_killed(&s->tasks);
	}
	if (s->agent.runs)
		return false;
	if (kills || s->requests.aborted)
		s->requests.early_end = requests_stronger_end(s->requests.early_end, number);
	else if (number)
		error = hold_early(s, request);
	wire_put_result(answer, error);
	return true;
}

/* ---- suspensions --------------------------------------------------------------------------- */

/* Nobody is there to know of processes; to change them is an error. */
static bool answer_without_agent(
	const struct served_agent *agent, enum wire_kind kind, struct wire_answer *answer)
{
	if (agent->runs && !agent->over)
		return false;
	if (kind == WIRE_X11_DISPLAY || kind == WIRE_NAMESPACE || kind == WIRE_NAMESPACES ||
		kind == WIRE_USER || kind == WIRE_GROUPS)
		return false; /* known without it, or not at all */
	if (kind == WIRE_TASK_INFO || kind == WIRE_LIST_PIDS)
		wire_begin_list(answer);
	else if (kind == WIRE_ADD_PID)
		wire_put_i32(answer, -1);
	else if (kind == WIRE_PID_IN_CONTAINER)
		wire_put_u8(answer, 0);
	else
		wire_put_result(answer, SLURM_STEP_NOT_RUNNING);
	return true;
}

static bool is_leader(uint32_t pid, const void *userdata)
{
	const struct served *s = userdata;
	uint32_t i;

	assert(s);
	for (i = 0; i < s->tasks.n && s->tasks.v[i].pid != pid; i++)
		;
	return i < s->tasks.n;
}

static void on_suspension_ready(void *userdata)
{
	struct served *s = userdata;

	assert(s);
	s->requests.suspends = true;
	server_resume(&s->requests.server, WIRE_SUSPEND);
	s->requests.suspends = false;
}

static enum server_local take_suspend(struct served *s, struct wire_answer *answer)
{
	if (answer_without_agent(&s->agent, WIRE_SUSPEND, answer))
		return SERVER_ANSWERED;
	if (s->requests.resumed) {
		wire_put_result(answer, 0);
		return SERVER_ANSWERED;
	}
	if (!s->requests.suspends && suspension_begin(s->requests.suspension))
		return SERVER_LATER;
	return SERVER_PASSED;
}

/* A step that is resumed so soon has not been suspended, and the agent knows nothing of it. */
static enum server_local take_resume(struct served *s, struct wire_answer *answer)
{
	if (answer_without_agent(&s->agent, WIRE_RESUME, answer))
		return SERVER_ANSWERED;
	if (!suspension_end(s->requests.suspension))
		return SERVER_PASSED;
	s->requests.resumed = true;
	server_resume(&s->requests.server, WIRE_SUSPEND);
	s->requests.resumed = false;
	wire_put_result(answer, 0);
	return SERVER_ANSWERED;
}

/* ---- sattach ------------------------------------------------------------------------------- */

/* It learns of the ends that were before it. */
static void report_earlier_exits(struct served *s, const struct attach_peer *peer)
{
	uint32_t i;

	for (i = 0; i < s->tasks.n; i++) {
		if (s->tasks.v[i].reported)
			served_send_exits(s, peer, s->tasks.v[i].status, &s->tasks.ranks[i], 1);
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

	/* A script has no streams to attach to. */
	if (s->streams.io && s->agent.runs && !s->agent.over) {
		r = -attach_add(&s->requests.attach, s->streams.io, request, &peer, &err);
		if (r)
			log_warning(s->log, "step %s: can't attach: %s", s->label, err.text);
	}
	wire_put_i32(answer, r);
	if (r)
		return true;
	wire_put_u32(answer, s->tasks.n);
	for (i = 0; i < s->tasks.n; i++)
		wire_put_u32(answer, s->tasks.v[i].pid);
	for (i = 0; i < s->tasks.n; i++)
		wire_put_u32(answer, s->tasks.ranks[i]);
	for (i = 0; i < s->tasks.n; i++)
		wire_put_text(answer, s->setup.programs.names.v[0]);
	report_earlier_exits(s, peer);
	return true;
}

void served_on_detached(unsigned id, void *userdata)
{
	struct served *s = userdata;

	assert(s);
	attach_remove(&s->requests.attach, id);
}

/* ---- the other requests -------------------------------------------------------------------- */

/* What slurmd has for the agents below, some of which may be slurmstepds. */
static void take_completion(
	struct served *s, const struct wire_request *request, struct wire_answer *answer)
{
	const struct tree_report report = {.first = (uint32_t)request->first,
		.last = (uint32_t)request->last,
		.status = request->status,
		.record = request->record,
		.record_size = request->record_size};
	int error = SLURM_STEP_NOT_RUNNING;

	if (s->reports.tree)
		error = tree_take_report(s->reports.tree, &report);
	wire_put_result(answer, error);
}

static enum wire_state get_state(const struct served_agent *agent)
{
	if (agent->over)
		return WIRE_ENDING;
	return agent->runs ? WIRE_RUNNING : WIRE_STARTING;
}

/* slurmd's log may have another file, and slurm.conf another slurmctld, for which it is read when
 * the step is over: to resolve a name may take long. */
static void reconfigure(struct served *s)
{
	_cleanup_close_ int fd = -1;

	s->requests.reconfigured = true;
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
	wire_put_u32(answer, s->tasks.n);
	answer->failed |= record.failed;
}

static uint64_t get_job_mb(const struct served *s)
{
	return s->requests.memory.has_changed ? s->requests.memory.job_mb
					      : step_limits_job_mb(s->launch);
}

static void put_mem_limits(const struct served *s, uint16_t version, struct wire_answer *answer)
{
	const struct slurm_launch *l = s->launch;

	wire_put_mem_limits(
		answer, version, get_job_mb(s), s->batch ? l->cred_memory_mb : l->step_memory_mb);
}

/* ---- the job's memory, of which 26.05 can take a part away while it runs ------------------- */

static void set_job_mb(struct served_memory *memory, uint64_t job_mb)
{
	memory->has_changed = true;
	memory->job_mb = job_mb;
}

static void warn_memory(const struct served *s, uint64_t job_mb, const char *text)
{
	log_warning(s->log, "step %s: limit the job's memory to %llu MB: %s", s->label,
		(unsigned long long)job_mb, text);
}

static void on_memory_set(int code, const char *text, void *userdata)
{
	struct served *s = userdata;
	struct served_memory *memory = &s->requests.memory;

	memory->call = NULL;
	memory->code = code;
	if (code)
		warn_memory(s, memory->wanted_mb, text);
	else
		set_job_mb(memory, memory->wanted_mb);
	memory->is_done = true;
	server_resume(&s->requests.server, WIRE_MEM_UPDATE);
	memory->is_done = false;
}

static int call_set_limits(struct served *s, const struct step_limits *limits, struct err *err)
{
	json_auto_t *values = json_object();
	json_auto_t *parameters = json_pack("{s:O}", "limits", values);
	_cleanup_free_ char *text = NULL;
	struct call_options options = {.loop = s->loop,
		.directory = s->agent.directory,
		.method = "SetLimits",
		.timeout_ms = SERVER_ACTION_TIMEOUT_MS,
		.done = on_memory_set,
		.userdata = s};
	struct stepd_error error = {0};
	int r = parameters ? step_limits_set_memory(values, limits) : -ENOMEM;

	if (r == 0 && !(text = json_dumps(parameters, JSON_COMPACT)))
		r = -ENOMEM;
	if (r < 0)
		return err_set(err, r, "limit the step's memory");
	options.parameters = text;
	r = call_start(&options, &s->requests.memory.call, &error);
	return r < 0 ? err_set_text(err, r, "%s", error.text) : 0;
}

/* First the job's cgroup, as slurmstepd does it. That alone limits tasks that have not started. */
static int change_memory(struct served *s, uint64_t job_mb, struct err *err)
{
	struct step_limits limits = {0}; /* nothing in it is to be freed */
	uint64_t old_mb = get_job_mb(s);
	int r;

	if (s->requests.memory.call)
		return err_set_text(err, -EBUSY, "another change is under way");
	if (job_mb > old_mb)
		return err_set_text(err, -EINVAL, "the job has %llu MB, and can't get more",
			(unsigned long long)old_mb);
	r = step_limits_find_memory(s->init, job_mb, &limits, err);
	if (r == 0)
		r = job_cgroup_set(s->job_cgroup, &limits, err);
	s->requests.memory.wanted_mb = job_mb;
	if (r == 0 && s->agent.runs && !s->agent.over)
		r = call_set_limits(s, &limits, err);
	return r;
}

/* Where the kernel keeps no limit, slurmd watches the job's, and needs the number alone. */
static enum server_local take_memory(
	struct served *s, const struct wire_request *request, struct wire_answer *answer)
{
	struct served_memory *memory = &s->requests.memory;
	struct err err = ERR_INIT;
	int r = 0;

	if (memory->is_done) {
		wire_put_i32(answer, memory->code ? -1 : 0);
		return SERVER_ANSWERED;
	}
	if (s->init->limits.has_memory)
		r = change_memory(s, request->memory_mb, &err);
	if (r == 0 && memory->call)
		return SERVER_LATER;
	if (r < 0)
		warn_memory(s, request->memory_mb, err.text);
	else
		set_job_mb(memory, request->memory_mb);
	wire_put_i32(answer, r < 0 ? -1 : 0);
	return SERVER_ANSWERED;
}

/* ---- the rest ------------------------------------------------------------------------------ */

/* The one task that Slurm has for an extern step, with the values of one that has not started. */
static void put_extern_task(const struct served *s, struct wire_answer *answer)
{
	const struct wire_task task = {.rank = s->tasks.ranks[0], .pid = -1, .wait_status = -1};

	wire_begin_list(answer);
	wire_put_task(answer, &task);
	wire_count_entry(answer);
}

/* False: it is not one of those that are answered by what is known here. */
static bool answer_known(
	struct served *s, enum wire_kind kind, uint16_t version, struct wire_answer *answer)
{
	switch (kind) {
	case WIRE_STATE:
		wire_put_state(answer, version, get_state(&s->agent));
		return true;
	case WIRE_DAEMON_PID:
		wire_put_u32(answer, (uint32_t)getpid());
		return true;
	case WIRE_UID:
		wire_put_u32(answer, s->launch->uid);
		return true;
	case WIRE_NODEID:
		wire_put_u32(answer, s->setup.node_id);
		return true;
	case WIRE_SLUID:
		wire_put_u64(answer, s->launch->id.sluid);
		return true;
	case WIRE_MEM_LIMITS:
		put_mem_limits(s, version, answer);
		return true;
	case WIRE_TASK_INFO:
		if (s->launch->kind != SLURM_KIND_EXTERN)
			return false;
		put_extern_task(s, answer);
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
	trim_again(&s->trim, s->loop);
	switch (request->kind) {
	case WIRE_USAGE:
		if (!s->requests.polled && accounting_poll(s->accounting))
			return SERVER_LATER;
		put_usage(s, answer);
		break;
	case WIRE_NOTIFY:
		served_put_note(s, request->text);
		wire_put_i32(answer, 0);
		break;
	case WIRE_COMPLETION:
		take_completion(s, request, answer);
		break;
	case WIRE_MEM_UPDATE:
		return take_memory(s, request, answer);
	case WIRE_ATTACH:
		answered = attach_peer(s, &request->attach, answer);
		break;
	case WIRE_SUSPEND:
		return take_suspend(s, answer);
	case WIRE_RESUME:
		return take_resume(s, answer);
	case WIRE_SIGNAL:
		answered = take_signal(s, request, request->signal, answer);
		break;
	case WIRE_TERMINATE:
		answered = take_signal(s, request, SIGKILL, answer);
		break;
	default:
		answered = answer_known(s, request->kind, version, answer) ||
			answer_without_agent(&s->agent, request->kind, answer);
	}
	return answered ? SERVER_ANSWERED : SERVER_PASSED;
}

/* All other parts are closed by then. What they would have known ends the connection. */
static enum server_local served_on_late_request(const struct wire_request *request,
	uint16_t version, struct wire_answer *answer, void *userdata)
{
	struct served *s = userdata;
	bool answered = true;

	assert(s);
	switch (request->kind) {
	case WIRE_SIGNAL:
	case WIRE_TERMINATE:
		wire_put_result(answer, 0);
		break;
	case WIRE_USAGE:
	case WIRE_NOTIFY:
	case WIRE_COMPLETION:
	case WIRE_MEM_UPDATE:
	case WIRE_ATTACH:
		answered = false;
		break;
	default:
		answered = answer_known(s, request->kind, version, answer) ||
			answer_without_agent(&s->agent, request->kind, answer);
	}
	return answered ? SERVER_ANSWERED : SERVER_PASSED;
}

void served_on_polled(void *userdata)
{
	struct served *s = userdata;

	assert(s);
	s->requests.polled = true;
	server_resume(&s->requests.server, WIRE_USAGE);
	s->requests.polled = false;
	trim_again(&s->trim, s->loop); /* of many tasks it takes some hundred kilobytes */
}

/* ---- the part ------------------------------------------------------------------------------ */

/* ulimit_pam_adopt, of slurmstepd from 23.02 on. */
static void limit_adopted(const struct served *s, struct requests_step *step)
{
	const struct site_conf *site = s->init->site;

	if (!site->limits_adopted || s->init->frame.release < SLURM_23_02)
		return;
	step->adopted_rss = step_spec_memory_bytes(s->launch);
	step->adopted_as = step_spec_virtual_bytes(s->launch, site);
}

int served_requests_open(struct served *s, struct err *err)
{
	const struct listener_step step = {.step = s->label,
		.node = s->init->conf.node_name,
		.directory = s->agent.directory,
		.owner = s->launch->uid};
	const struct suspension_options suspension = {.loop = s->loop,
		.log = s->log,
		.label = s->label,
		.directory = s->agent.directory,
		.is_leader = s->init->site->signals_all ? NULL : is_leader,
		.ready = on_suspension_ready,
		.userdata = s};
	int r;

	r = spool_open_slurmds(s->init->conf.spool_dir, &s->requests.spool, err);
	if (r == 0)
		r = suspension_new(&suspension, &s->requests.suspension, err);
	if (r == 0)
		r = server_open(
			&s->requests.server, s->loop, s->log, s->requests.spool, false, err);
	if (r < 0)
		return r;
	s->requests.server.admin = s->init->site->slurm_user; /* as for slurmstepd */
	s->requests.server.local = served_on_request;
	s->requests.server.userdata = s;
	r = listener_open(&s->requests.server, &step, &s->requests.listener, err);
	if (r < 0)
		return r;
	s->requests.listener->step.leaders = !s->init->site->signals_all;
	s->requests.listener->step.outlives_tasks = true;
	s->requests.listener->step.user = &s->setup.user;
	s->requests.listener->step.name_space = s->init->name_space.path;
	if (s->x11) {
		s->requests.listener->step.display = x11_get_display(s->x11);
		s->requests.listener->step.xauthority = x11_get_path(s->x11);
	}
	limit_adopted(s, &s->requests.listener->step);
	s->requests.listener->step.first_rank = slurm_whole_first_rank(s->launch);
	return 0;
}

void served_requests_drain(struct served_requests *requests)
{
	if (!requests->listener)
		return;
	requests->listener->step.display = 0; /* x11.c is closed */
	requests->listener->step.xauthority = NULL;
	server_drain(&requests->server, served_on_late_request);
}

void served_requests_close(struct served_requests *requests)
{
	unsigned i;

	for (i = 0; i < requests->early_count; i++) {
		requests->early[i]->call = call_cancel(requests->early[i]->call);
		free(requests->early[i]);
	}
	requests->memory.call = call_cancel(requests->memory.call);
	requests->suspension = suspension_free(requests->suspension);
	if (requests->server.loop)
		server_close(&requests->server);
	requests->spool = spool_close(requests->spool);
}
