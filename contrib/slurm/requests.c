/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/requests.h"

#include <fcntl.h>
#include <jansson.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "contrib/slurm/lookup.h"
#include "stepd/base/json.h"

/* Slurm's errors beyond those of the machine, the same numbers in all versions. */
#define SLURM_STEP_NOT_RUNNING 4027

/* Flags of a signal, which only a batch step heeds. */
#define SLURM_KILL_BATCH_SHELL (1u << 0)
#define SLURM_KILL_FULL_JOB    (1u << 3)

bool requests_may(const struct requests_step *step, enum requests_access access, uid_t uid)
{
	if (uid == 0 || (uid == step->admin && access != REQUESTS_ROOT))
		return true;
	if (access == REQUESTS_ANYONE && !step->private)
		return true;
	return access >= REQUESTS_OWNER && uid == step->owner;
}

void requests_plan_clear(struct requests_plan *plan)
{
	free(plan->parameters);
	plan->parameters = NULL;
	if (plan->has_name_space)
		(void)close_fd(plan->name_space_fd);
	plan->has_name_space = false;
}

/* ---- answers --------------------------------------------------------------------------------- */

static int answer_number(const json_t *reply, const char *name, struct wire_answer *a)
{
	int64_t n;

	if (!json_get_range(reply, name, 0, UINT32_MAX, &n))
		return -EPROTO;
	wire_put_u32(a, (uint32_t)n);
	return 0;
}

static int answer_agent_pid(_unused_ const struct requests_plan *plan, const json_t *reply,
	uint16_t version, struct wire_answer *a)
{
	(void)version;
	return answer_number(reply, "agent_pid", a);
}

static int answer_uid(_unused_ const struct requests_plan *plan, const json_t *reply,
	uint16_t version, struct wire_answer *a)
{
	(void)version;
	return answer_number(reply, "uid", a);
}

static int answer_node_id(_unused_ const struct requests_plan *plan, const json_t *reply,
	uint16_t version, struct wire_answer *a)
{
	(void)version;
	return answer_number(reply, "node_id", a);
}

static int answer_state(_unused_ const struct requests_plan *plan, const json_t *reply,
	uint16_t version, struct wire_answer *a)
{
	static const struct {
		const char *name;
		enum wire_state state;
	} states[] = {
		{"starting", WIRE_STARTING},
		{"running", WIRE_RUNNING},
		{"suspended", WIRE_RUNNING},
		{"ending", WIRE_CANCELLED},
		{"draining", WIRE_ENDING},
		{"unkillable", WIRE_ENDING},
		{"ended", WIRE_ENDING},
	};
	const char *name = json_string_value(json_object_get(reply, "state"));
	size_t i;

	for (i = 0; name && i < ARRAY_SIZE(states); i++) {
		if (strcmp(name, states[i].name) == 0) {
			wire_put_state(a, version, states[i].state);
			return 0;
		}
	}
	return -EPROTO;
}

/* An agent does not report its limits: "no limit" is what Slurm's clients ignore. */
static int answer_mem_limits(_unused_ const struct requests_plan *plan, const json_t *reply,
	uint16_t version, struct wire_answer *a)
{
	(void)reply;
	wire_put_mem_limits(a, version, 0, 0);
	return 0;
}

/* 0: clients find the step by its job's other number. */
static int answer_no_sluid(_unused_ const struct requests_plan *plan, const json_t *reply,
	uint16_t version, struct wire_answer *a)
{
	(void)reply;
	(void)version;
	wire_put_u64(a, 0);
	return 0;
}

/* 0: there is none, and no file for it. */
static int answer_display(const struct requests_plan *plan, const json_t *reply, uint16_t version,
	struct wire_answer *a)
{
	(void)reply;
	(void)version;
	wire_put_i32(a, (int32_t)plan->display);
	if (plan->display)
		wire_put_text(a, plan->xauthority);
	else
		wire_put_i32(a, 0);
	return 0;
}

static void put_fd(const struct requests_plan *plan, struct wire_answer *a)
{
	a->has_fd = true;
	a->fd = plan->name_space_fd;
}

/* The number of the descriptor in the sender, of which clients know only that there is one; 0:
 * there is no namespace, -1: it can't be had. */
static int answer_namespace(const struct requests_plan *plan, const json_t *reply, uint16_t version,
	struct wire_answer *a)
{
	(void)reply;
	(void)version;
	if (!plan->has_name_space) {
		wire_put_i32(a, 0);
	} else if (plan->name_space_fd < 0) {
		wire_put_i32(a, -1);
	} else {
		wire_put_i32(a, plan->name_space_fd);
		put_fd(plan, a);
	}
	return 0;
}

/* How many there are, and the kind of each, CLONE_NEWNS. */
static int answer_namespaces(const struct requests_plan *plan, const json_t *reply,
	uint16_t version, struct wire_answer *a)
{
	bool is_there = plan->has_name_space && plan->name_space_fd >= 0;

	(void)reply;
	(void)version;
	wire_put_i32(a, is_there);
	if (is_there) {
		wire_put_i32(a, CLONE_NEWNS);
		put_fd(plan, a);
	}
	return 0;
}

static int answer_found(_unused_ const struct requests_plan *plan, const json_t *reply,
	uint16_t version, struct wire_answer *a)
{
	const json_t *found = json_object_get(reply, "found");

	(void)version;
	if (reply && !json_is_array(found))
		return -EPROTO;
	wire_put_u8(a, json_array_size(found) > 0);
	return 0;
}

/* Values for a task that has not started, or whose end is unknown, as slurmstepd sends them. */
#define NO_PID    (-1)
#define NO_STATUS (-1)

static int read_task(const json_t *entry, uint32_t first_rank, struct wire_task *ret_task)
{
	const char *state = json_string_value(json_object_get(entry, "state"));
	int64_t rank, local_id, pid = NO_PID, status = NO_STATUS;

	if (!state || !json_get_range(entry, "rank", first_rank, UINT32_MAX, &rank) ||
		!json_get_range(entry, "local_id", 0, INT32_MAX, &local_id))
		return -EPROTO;
	(void)json_get_range(entry, "pid", 1, INT32_MAX, &pid); /* as long as there is one */
	(void)json_get_range(entry, "wait_status", INT32_MIN, INT32_MAX, &status); /* likewise */
	*ret_task = (struct wire_task){.local_id = (int32_t)local_id,
		.rank = (uint32_t)rank - first_rank,
		.pid = (int32_t)pid,
		.exited = strcmp(state, "new") != 0 && strcmp(state, "running") != 0,
		.wait_status = (int32_t)status};
	return 0;
}

static int answer_tasks(const struct requests_plan *plan, const json_t *reply, uint16_t version,
	struct wire_answer *a)
{
	const json_t *tasks = json_object_get(reply, "tasks"), *entry;
	struct wire_task task;
	size_t i;
	int r;

	(void)version;
	if (!json_is_array(tasks))
		return -EPROTO;
	if (buffer_size(&a->bytes) == 0)
		wire_begin_list(a);
	json_array_foreach (tasks, i, entry) {
		r = read_task(entry, plan->first_rank, &task);
		if (r < 0)
			return r;
		wire_put_task(a, &task);
		wire_count_entry(a);
	}
	return 0;
}

static int answer_pids(_unused_ const struct requests_plan *plan, const json_t *reply,
	uint16_t version, struct wire_answer *a)
{
	const json_t *pids = json_object_get(reply, "pids"), *entry;
	int64_t pid;
	size_t i;

	(void)version;
	if (!json_is_array(pids))
		return -EPROTO;
	if (buffer_size(&a->bytes) == 0)
		wire_begin_list(a);
	json_array_foreach (pids, i, entry) {
		if (!json_get_range(entry, "pid", 1, INT32_MAX, &pid))
			return -EPROTO;
		wire_put_u32(a, (uint32_t)pid);
		wire_count_entry(a);
	}
	return 0;
}

static int answer_done(_unused_ const struct requests_plan *plan, const json_t *reply,
	uint16_t version, struct wire_answer *a)
{
	(void)reply;
	(void)version;
	wire_put_result(a, 0);
	return 0;
}

static int answer_notified(_unused_ const struct requests_plan *plan, const json_t *reply,
	uint16_t version, struct wire_answer *a)
{
	(void)reply;
	(void)version;
	wire_put_i32(a, 0);
	return 0;
}

static int lower_limit(pid_t pid, int resource, uint64_t bytes)
{
	struct rlimit limit = {bytes, bytes}, old;

	if (bytes == 0)
		return 0;
	if (prlimit(pid, resource, NULL, &old) < 0 ||
		(old.rlim_max > bytes && prlimit(pid, resource, &limit, NULL) < 0))
		return errno == ESRCH ? 0 : -errno; /* it has ended */
	return 0;
}

/* The process is the step's now: a login, which waits for the answer. One that can't be limited is
 * refused. */
static int answer_added(const struct requests_plan *plan, _unused_ const json_t *reply,
	_unused_ uint16_t version, struct wire_answer *a)
{
	int r = lower_limit(plan->added, RLIMIT_RSS, plan->rss);

	if (r == 0)
		r = lower_limit(plan->added, RLIMIT_AS, plan->as);
	wire_put_i32(a, r < 0 ? -1 : 0);
	return 0;
}

static bool is_member(const json_t *reply)
{
	return json_array_size(json_object_get(reply, "found")) > 0;
}

static int answer_user(const struct requests_plan *plan, const json_t *reply,
	_unused_ uint16_t version, struct wire_answer *a)
{
	lookup_put_user(plan->user, &plan->lookup, is_member(reply), a);
	return 0;
}

static int answer_groups(const struct requests_plan *plan, const json_t *reply,
	_unused_ uint16_t version, struct wire_answer *a)
{
	lookup_put_groups(plan->user, &plan->lookup, is_member(reply), a);
	return 0;
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* The meanings of numbers beyond the kernel's signals. */
enum special_effect {
	EFFECT_KILL,
	EFFECT_TERMINATE, /* TERM, and after a grace KILL: by the step's own sequence */
	EFFECT_REPORT,    /* nothing but a line on the step's standard error */
	EFFECT_REFUSE,
};

static const struct special_signal {
	int number;
	enum special_effect effect;
	const char *text; /* for EFFECT_REPORT */
} special_signals[] = {
	{SLURM_SIGNAL_TERMINATE, EFFECT_TERMINATE, NULL},
	{992, EFFECT_REPORT, "uncorrectable memory error"},
	{993, EFFECT_REPORT, "the job is requeued"},
	{994, EFFECT_REPORT, "the job is preempted"},
	{995, EFFECT_REFUSE, NULL}, /* wakes tasks that a debugger stopped */
	{996, EFFECT_REPORT, "the job's time limit is reached"},
	{997, EFFECT_KILL, NULL}, /* abort */
	{998, EFFECT_REPORT, "a node of the job failed"},
	{999, EFFECT_REPORT, "the job failed"},
};

static const struct special_signal *find_special(int number)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(special_signals); i++) {
		if (special_signals[i].number == number)
			return &special_signals[i];
	}
	return NULL;
}

/* The reference is taken over, also where it is NULL. */
static int set_parameters_take(struct requests_plan *plan, json_t *parameters)
{
	plan->parameters = parameters ? json_dumps(parameters, JSON_COMPACT) : NULL;
	json_decref(parameters);
	return plan->parameters ? 0 : -ENOMEM;
}

static void refuse(struct requests_plan *plan, int error)
{
	plan->method = NULL;
	plan->error = error;
}

/* By the step's own sequence, or at once. As slurmstepd's process in an extern step, which ends by
 * these, and the step with it. */
static int plan_end(struct requests_plan *plan, int number)
{
	plan->method = "Terminate";
	return number == SIGKILL
		? set_parameters_take(plan, json_pack("{s:s}", "kill_sequence", "KILL"))
		: 0;
}

static int plan_kernel_signal(
	const struct requests_step *step, struct requests_plan *plan, int number, bool leader)
{
	char text[16];

	if (number == 0) { /* whether the step is there */
		plan->method = "Describe";
		return 0;
	}
	if (number < 0 || number > SIGRTMAX) {
		refuse(plan, EINVAL);
		return 0;
	}
	if (step->adopts && (number == SIGTERM || number == SIGKILL))
		return plan_end(plan, number);
	(void)snprintf(text, sizeof(text), "%d", number);
	return set_parameters_take(plan, json_pack("{s:s, s:b}", "signal", text, "leader", leader));
}

static int plan_signal(const struct wire_request *request, const struct requests_step *step,
	struct requests_plan *plan)
{
	const struct special_signal *special = find_special(request->signal);
	bool full = step->batch && (request->flags & SLURM_KILL_FULL_JOB);
	bool leader = step->batch && (request->flags & SLURM_KILL_BATCH_SHELL) && !full;

	if (step->leaders && !full && !step->adopts)
		leader |= request->signal != SIGKILL && request->signal != SIGSTOP &&
			request->signal != SIGCONT;
	if (!special)
		return plan_kernel_signal(step, plan, request->signal, leader);
	switch (special->effect) {
	case EFFECT_KILL:
		return plan_kernel_signal(step, plan, SIGKILL, false);
	case EFFECT_TERMINATE:
		plan->method = "Terminate";
		return 0;
	case EFFECT_REPORT:
		plan->method = "Notify";
		plan->access = REQUESTS_ADMIN; /* as the agent has it */
		return set_parameters_take(plan, json_pack("{s:s}", "message", special->text));
	case EFFECT_REFUSE:
		break;
	}
	refuse(plan, EOPNOTSUPP);
	return 0;
}

static int plan_notify(const struct wire_request *request, const struct requests_step *step,
	struct requests_plan *plan)
{
	json_t *parameters = json_pack("{s:s}", "message", request->text);

	(void)step;
	if (!parameters)
		refuse(plan, EILSEQ); /* it is not UTF-8 */
	return parameters ? set_parameters_take(plan, parameters) : 0;
}

static int plan_terminate(const struct wire_request *request, const struct requests_step *step,
	struct requests_plan *plan)
{
	(void)request;
	(void)step;
	return set_parameters_take(plan, json_pack("{s:s}", "kill_sequence", "KILL"));
}

/* Start times, which nobody gets, would cost a read of /proc for each process. */
static int plan_list_pids(const struct wire_request *request, const struct requests_step *step,
	struct requests_plan *plan)
{
	(void)request;
	(void)step;
	return set_parameters_take(plan, json_pack("{s:b}", "start_ticks", 0));
}

static int plan_add(const struct wire_request *request, const struct requests_step *step,
	struct requests_plan *plan)
{
	if (!step->adopts || request->pid <= 0) {
		refuse(plan, EINVAL);
		return 0;
	}
	plan->added = request->pid;
	plan->rss = step->adopted_rss;
	plan->as = step->adopted_as;
	return set_parameters_take(plan, json_pack("{s:i}", "pid", (int)request->pid));
}

static int plan_find(const struct wire_request *request, const struct requests_step *step,
	struct requests_plan *plan)
{
	(void)step;
	if (request->pid <= 0) {
		plan->method = NULL; /* no process has that */
		return 0;
	}
	return set_parameters_take(plan, json_pack("{s:[i]}", "pids", (int)request->pid));
}

static int plan_lookup(const struct wire_request *request, const struct requests_step *step,
	struct requests_plan *plan)
{
	plan->user = step->user;
	plan->lookup = request->lookup;
	if (!plan->user || request->pid <= 0 || !lookup_needs_member(&plan->lookup)) {
		plan->method = NULL;
		return 0;
	}
	return set_parameters_take(plan, json_pack("{s:[i]}", "pids", (int)request->pid));
}

static int plan_namespace(_unused_ const struct wire_request *request,
	const struct requests_step *step, struct requests_plan *plan)
{
	plan->has_name_space = step->name_space;
	if (step->name_space)
		plan->name_space_fd = open(step->name_space, O_RDONLY | O_NOCTTY | O_CLOEXEC);
	return 0;
}

static int plan_display(_unused_ const struct wire_request *request,
	const struct requests_step *step, struct requests_plan *plan)
{
	plan->display = step->display;
	plan->xauthority = step->xauthority;
	return 0;
}

static const struct {
	struct requests_plan plan;
	int (*fill)(const struct wire_request *request, const struct requests_step *step,
		struct requests_plan *plan); /* NULL: it is all there */
} rows[WIRE_KIND_MAX] = {
	[WIRE_SIGNAL] = {{.access = REQUESTS_OWNER,
				 .method = "Signal",
				 .acts = true,
				 .answer = answer_done},
		plan_signal},
	[WIRE_STATE] = {{.access = REQUESTS_ANYONE, .method = "Describe", .answer = answer_state},
		NULL},
	[WIRE_ATTACH] = {{.access = REQUESTS_ADMIN, .local = true, .answer = answer_done}, NULL},
	[WIRE_PID_IN_CONTAINER] = {{.access = REQUESTS_ANYONE,
					   .method = "FindPids",
					   .answer = answer_found},
		plan_find},
	[WIRE_DAEMON_PID] = {{.access = REQUESTS_ANYONE,
				     .method = "Describe",
				     .answer = answer_agent_pid},
		NULL},
	[WIRE_SUSPEND] = {{.access = REQUESTS_ADMIN,
				  .method = "Suspend",
				  .acts = true,
				  .answer = answer_done},
		NULL},
	[WIRE_RESUME] = {{.access = REQUESTS_ADMIN,
				 .method = "Resume",
				 .acts = true,
				 .answer = answer_done},
		NULL},
	[WIRE_TERMINATE] = {{.access = REQUESTS_OWNER,
				    .method = "Terminate",
				    .acts = true,
				    .answer = answer_done},
		plan_terminate},
	[WIRE_TASK_INFO] = {{.access = REQUESTS_ANYONE,
				    .method = "ListTasks",
				    .more = true,
				    .answer = answer_tasks},
		NULL},
	[WIRE_LIST_PIDS] = {{.access = REQUESTS_ANYONE,
				    .method = "ListPids",
				    .more = true,
				    .answer = answer_pids},
		plan_list_pids},
	/* Only a step's own process has something to do then. */
	[WIRE_RECONFIGURE] = {{.access = REQUESTS_ADMIN, .local = true, .answer = answer_done},
		NULL},
	[WIRE_USAGE] = {{.access = REQUESTS_OWNER, .local = true, .answer = answer_done}, NULL},
	[WIRE_COMPLETION] =
		{{.access = REQUESTS_ADMIN, .local = true, .acts = true, .answer = answer_done},
			NULL},
	[WIRE_MEM_LIMITS] = {{.access = REQUESTS_ANYONE, .answer = answer_mem_limits}, NULL},
	[WIRE_UID] = {{.access = REQUESTS_ANYONE, .method = "Describe", .answer = answer_uid},
		NULL},
	[WIRE_NODEID] =
		{{.access = REQUESTS_ANYONE, .method = "Describe", .answer = answer_node_id}, NULL},
	/* What is added ends with the step: for root alone, who lets users in. */
	[WIRE_ADD_PID] = {{.access = REQUESTS_ROOT,
				  .method = "AddPid",
				  .acts = true,
				  .no_errno = true,
				  .answer = answer_added},
		plan_add},
	[WIRE_USER] = {{.access = REQUESTS_ANYONE, .method = "FindPids", .answer = answer_user},
		plan_lookup},
	[WIRE_GROUPS] = {{.access = REQUESTS_ANYONE, .method = "FindPids", .answer = answer_groups},
		plan_lookup},
	[WIRE_SLUID] = {{.access = REQUESTS_ANYONE, .answer = answer_no_sluid}, NULL},
	[WIRE_MEM_UPDATE] = {{.access = REQUESTS_ADMIN,
				     .local = true,
				     .acts = true,
				     .no_errno = true,
				     .answer = answer_notified},
		NULL},
	[WIRE_X11_DISPLAY] = {{.access = REQUESTS_OWNER, .answer = answer_display}, plan_display},
	[WIRE_NAMESPACE] = {{.access = REQUESTS_OWNER, .answer = answer_namespace}, plan_namespace},
	[WIRE_NAMESPACES] = {{.access = REQUESTS_OWNER, .answer = answer_namespaces},
		plan_namespace},
	/* As the agent has it: not for the step's owner. */
	[WIRE_NOTIFY] = {{.access = REQUESTS_ADMIN,
				 .method = "Notify",
				 .acts = true,
				 .no_errno = true,
				 .answer = answer_notified},
		plan_notify},
};

int requests_make_plan(const struct wire_request *request, const struct requests_step *step,
	struct requests_plan *ret_plan)
{
	struct requests_plan plan = rows[request->kind].plan;
	int r = 0;

	plan.first_rank = step->first_rank;

	if (rows[request->kind].fill)
		r = rows[request->kind].fill(request, step, &plan);
	plan.may_find_none = step->outlives_tasks &&
		(request->kind == WIRE_SIGNAL || request->kind == WIRE_TERMINATE);
	if (r == 0)
		*ret_plan = plan;
	return r;
}

bool requests_fail(const struct requests_plan *plan, int error, struct wire_answer *answer)
{
	if (!plan->acts)
		return false;
	if (plan->may_find_none && (error == SLURM_STEP_NOT_RUNNING || error == ESRCH))
		error = 0;
	if (plan->no_errno)
		wire_put_i32(answer, -1);
	else
		wire_put_result(answer, error);
	return true;
}

int requests_errno(int code)
{
	switch (code) {
	case -EBUSY: /* it starts, or has ended */
		return SLURM_STEP_NOT_RUNNING;
	case -ENOENT:
	case -ECONNREFUSED:
	case -ECONNRESET: /* the agent has gone, and with it the step */
		return ESRCH;
	default:
		return -code;
	}
}

int requests_stronger_end(int earlier, int later)
{
	if (earlier == SIGKILL || later == SIGKILL)
		return SIGKILL;
	return earlier == SLURM_SIGNAL_TERMINATE ? earlier : later;
}
