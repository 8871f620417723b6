/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/join_part.h"

#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/socket.h>

#include "mpi/mpi.h"
#include "proctrack/proctrack.h"
#include "stepd/account/apply_limits.h"
#include "stepd/base/log.h"
#include "stepd/stdio/stdio.h"
#include "stepd/step/agent_impl.h"
#include "stepd/step/mpi_link.h"
#include "stepd/step/mpi_streams.h"

/* ---- what they run ------------------------------------------------------------------------- */

static int make_cwd(const struct plan *plan, struct join_group *group)
{
	char *joined;

	if (!group->cwd || group->cwd[0] == '/')
		return 0;
	if (asprintf(&joined, "%s/%s", plan->cwd, group->cwd) < 0)
		return -ENOMEM;
	free(group->cwd);
	group->cwd = joined;
	return 0;
}

/* Each program has an environment of its own, with the step's variables and all ranks in it. */
#define ENVIRON_BYTES_MAX ((size_t)64 << 20)
#define RANK_BYTES        11u /* of a number and its comma */

static int check_size(const struct plan *plan, const struct join_request *request, struct err *err)
{
	size_t one = (size_t)request->count * RANK_BYTES, i;
	const struct strv *env = &plan->programs[0].env;

	for (i = 0; i < env->n; i++)
		one += strlen(env->v[i]) + 1;
	if (one <= ENVIRON_BYTES_MAX / request->groups_count)
		return 0;
	return err_say(err, -E2BIG,
		"the environments of a spawn can have %zu bytes on a node, and its %zu programs here "
		"would have %zu each",
		ENVIRON_BYTES_MAX, request->groups_count, one);
}

/* places: the ranks among the spawn's. */
static int make_program(
	const struct plan *plan, struct join_part *part, size_t k, const uint32_t *places)
{
	struct join_group *group = &part->request.groups[k];
	struct plan_program *program = &part->programs[k];
	int r = make_cwd(plan, group);

	if (r == 0)
		r = environ_make_joined(&plan->programs[0].env, &group->env, part->joined.size,
			places, part->joined.count, &program->env);
	if (r == 0)
		r = environ_task_reserve(&part->task_env, program->env.n);
	program->argv = group->argv.v;
	program->cwd = group->cwd ? group->cwd : plan->cwd;
	return r;
}

static int make_programs(const struct plan *plan, struct join_part *part)
{
	const struct join_request *request = &part->request;
	_cleanup_free_ uint32_t *places = calloc(request->count, sizeof(*places));
	uint32_t i, n = 0;
	size_t k;
	int r = places ? 0 : -ENOMEM;

	for (k = 0; r == 0 && k < request->groups_count; k++) {
		for (i = 0; i < request->groups[k].count; i++) {
			places[n] = request->groups[k].rank + i;
			part->ranks[n] = request->first_rank + places[n];
			part->task_program[n] = (uint32_t)k;
			part->fds[n++] = -1;
		}
	}
	for (k = 0; r == 0 && k < request->groups_count; k++)
		r = make_program(plan, part, k, places);
	return r;
}

static int make_arrays(struct agent *a, struct join_part *part)
{
	uint32_t n = part->request.count;

	part->programs = calloc(part->request.groups_count, sizeof(*part->programs));
	part->task_program = calloc(n, sizeof(*part->task_program));
	part->ranks = calloc(n, sizeof(*part->ranks));
	part->errors = calloc(n, sizeof(*part->errors));
	part->fds = calloc(n, sizeof(*part->fds));
	if (!part->programs || !part->task_program || !part->ranks || !part->errors || !part->fds)
		return -ENOMEM;
	part->joined = (struct plan_joined){
		.spawn = part->request.number,
		.first_rank = part->request.first_rank,
		.size = part->request.size,
		.first_local = a->tasks.n,
		.count = n,
		.programs = part->programs,
		.task_program = part->task_program,
	};
	return make_programs(&a->plan, part);
}

/* ---- their places -------------------------------------------------------------------------- */

/* Node 0's service numbers spawns and ranks. None may stand for two tasks here. */
static int check_numbers(const struct agent *a, const struct join_request *request, struct err *err)
{
	const struct task *task;
	uint32_t i;

	if (request->first_rank < a->plan.job.ntasks)
		return err_say(err, -EINVAL,
			"spawn: first_rank is %u, and ranks below %u are those of the step's own tasks",
			request->first_rank, a->plan.job.ntasks);
	if (request->count > SPEC_TASKS_MAX - a->tasks.n)
		return err_say(err, -E2BIG,
			"a step can have %u tasks on a node in all its life, and this one has had %u",
			SPEC_TASKS_MAX, a->tasks.n);
	for (i = 0; i < a->tasks.n; i++) {
		task = &a->tasks.v[i];
		if (task->spawn == request->number)
			return err_say(err, -EEXIST, "spawn: there was a spawn %u before",
				request->number);
		if (task->rank >= request->first_rank &&
			task->rank - request->first_rank < request->size)
			return err_say(
				err, -EEXIST, "spawn: rank %u is another task's", task->rank);
	}
	return 0;
}

static int add_to_job(struct plan *plan, const struct join_part *part)
{
	const struct join_request *request = &part->request;
	_cleanup_free_ stepd_step_task_info_t *tasks = calloc(request->count, sizeof(*tasks));
	uint32_t i;

	if (!tasks)
		return -ENOMEM;
	for (i = 0; i < request->count; i++) {
		tasks[i].gtid = part->ranks[i];
		tasks[i].spawn = request->number;
		tasks[i].appnum = request->groups[part->task_program[i]].appnum;
	}
	return plan_add_tasks(plan, tasks, request->count);
}

static int add_to_tables(struct agent *a, struct join_part *part)
{
	uint32_t n = part->request.count;
	int r = usage_grow(&a->account.usage, a->tasks.n, n);

	if (r == 0)
		r = tasks_add(&a->tasks, part->request.number, part->ranks, n);
	if (r < 0)
		return r;
	r = add_to_job(&a->plan, part);
	if (r < 0)
		a->tasks.n -= n;
	part->added = r == 0;
	return r;
}

static int apply_limits(struct agent *a, const struct join_part *part, struct err *err)
{
	const struct spec *spec = a->plan.spec;
	const struct limits_target target = {
		.pt = a->pt,
		.cont_id = a->plan.job.cont_id,
		.mode = spec->limits_mode,
		.where = "task_limits",
		.log = a->log,
	};

	if (!spec->task_limits.set)
		return 0;
	return limits_apply(&target, &spec->task_limits, part->ranks, part->request.count, err);
}

int join_part_make(
	struct agent *a, const json_t *message, struct join_part *ret_part, struct err *err)
{
	struct join_part part = {0};
	int r = join_request_read(message, &part.request, err);

	if (r == 0)
		r = check_numbers(a, &part.request, err);
	if (r == 0)
		r = check_size(&a->plan, &part.request, err);
	if (r == 0 && make_arrays(a, &part) < 0)
		r = err_set(err, -ENOMEM, "spawn");
	if (r == 0)
		r = stdio_join(a->stdio, a->tasks.n, part.ranks, part.request.count, err);
	if (r == 0)
		r = mpi_streams_join(a, part.request.copy, err);
	if (r == 0 && add_to_tables(a, &part) < 0)
		r = err_set(err, -ENOMEM, "spawn");
	if (r == 0)
		r = apply_limits(a, &part, err);
	if (r < 0) {
		join_part_undo(a, &part);
		join_part_clear(&part);
		return r;
	}
	*ret_part = part; /* joined points into what it points to */
	return 0;
}

void join_part_undo(struct agent *a, struct join_part *part)
{
	uint32_t i;

	if (a->stdio)
		stdio_join_end(a->stdio);
	if (!part->added)
		return;
	for (i = 0; i < part->joined.count; i++)
		proctrack_task_ended(a->pt, &a->plan.job, part->joined.first_local + i);
	a->tasks.n -= part->joined.count;
	a->plan.job.node_tasks -= part->joined.count;
	part->added = false;
}

/* ---- the socket pairs ---------------------------------------------------------------------- */

int join_part_open(struct agent *a, struct join_part *part, uint32_t place, struct err *err)
{
	const struct join_group *group = &part->request.groups[part->task_program[place]];
	struct mpi_service *service = mpi_get_service(a->mpi.host);
	_cleanup_free_ char **own = NULL;
	int pair[2] = {-1, -1}, r;

	if (mpi_service_has_task_fds(service) &&
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, -errno,
			"make a task's descriptor (raise the limit of open files, ulimit -Hn)");
	part->fds[place] = pair[1];
	r = join_group_environ(
		group, part->ranks[place] - part->joined.first_rank - group->rank, &own);
	if (r < 0)
		(void)close_fd(pair[0]);
	else
		r = mpi_service_add_task_take(
			service, part->joined.first_local + place, pair[0], own);
	/* the service never waits for one of them */
	if (r == 0 && pair[1] >= 0 && fcntl(pair[1], F_SETFL, O_NONBLOCK) < 0)
		r = -errno;
	return r < 0 ? err_set(err, r, "make a task's descriptor") : 0;
}

void join_part_close(struct agent *a, struct join_part *part, uint32_t place)
{
	mpi_service_close_task_fd(mpi_get_service(a->mpi.host), part->joined.first_local + place);
}

/* ---- the answer ---------------------------------------------------------------------------- */

static int send_fds(struct agent *a, const struct join_part *part)
{
	uint32_t at, n;
	int r = 0;

	for (at = 0; r == 0 && part->fds[0] >= 0 && at < part->joined.count; at += n) {
		n = part->joined.count - at;
		if (n > LINK_FDS_MAX)
			n = LINK_FDS_MAX;
		r = mpi_link_send_take(a,
			json_pack("{s:s, s:I, s:I}", "tell", "fds", "id",
				(json_int_t)part->request.id, "at", (json_int_t)at),
			part->fds + at, n);
	}
	return r;
}

int join_part_answer(struct agent *a, struct join_part *part, struct err *err)
{
	json_t *locals = json_array();
	uint32_t i;
	int r = send_fds(a, part);

	mpi_link_tasks_started(a, part->joined.first_local, part->joined.count);
	for (i = 0; i < part->joined.count; i++)
		(void)json_array_append_new(
			locals, json_integer((json_int_t)part->joined.first_local + i));
	/* packed in any case: it takes what was made */
	if (r == 0)
		r = mpi_link_send_take(a,
			json_pack("{s:s, s:I, s:i, s:O}", "tell", "spawned", "id",
				(json_int_t)part->request.id, "error", 0, "locals", locals),
			NULL, 0);
	json_decref(locals);
	return r < 0 ? err_set(err, r, "notify the MPI service process of a spawn's tasks") : 0;
}

static void refuse(struct agent *a, int64_t id, const struct err *err, json_t *errors)
{
	json_t *message = json_pack("{s:s, s:I, s:i, s:s}", "tell", "spawned", "id", (json_int_t)id,
		"error", -err->code, "why", err->text);
	int r;

	if (errors && message)
		(void)json_object_set_new(message, "errors", errors);
	else
		json_decref(errors);
	/* A service that is gone is not missed here. */
	r = mpi_link_send_take(a, message, NULL, 0);
	if (r < 0)
		log_debug(a->log, "notify the MPI service process that a spawn failed: %s",
			strerror(-r));
}

void join_part_refuse(struct agent *a, const struct join_part *part, const struct err *err)
{
	json_t *errors = json_array();
	uint32_t i;

	for (i = 0; i < part->joined.count; i++)
		(void)json_array_append_new(errors, json_integer(part->errors[i]));
	refuse(a, part->request.id, err, errors);
}

void join_part_refuse_message(struct agent *a, const json_t *message, const struct err *err)
{
	refuse(a, json_integer_value(json_object_get(message, "id")), err, NULL);
}

void join_part_clear(struct join_part *part)
{
	uint32_t i;
	size_t k;

	for (i = 0; part->fds && i < part->joined.count; i++)
		(void)close_fd(part->fds[i]);
	for (k = 0; part->programs && k < part->request.groups_count; k++)
		strv_clear(&part->programs[k].env);
	environ_task_clear(&part->task_env);
	free(part->programs);
	free(part->task_program);
	free(part->ranks);
	free(part->errors);
	free(part->fds);
	join_request_clear(&part->request);
	*part = (struct join_part){0};
}
