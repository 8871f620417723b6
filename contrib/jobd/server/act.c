/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Methods that act on jobs: submission, waiting, and the actions of their owners and root.
 */
#include <pwd.h>
#include <string.h>

#include "contrib/jobd/server/server_impl.h"
#include "stepd/base/proc.h"

/* ---- submission ---------------------------------------------------------------------------------
 */

/* A jobd that is not root's can start jobs of its own user only. */
static bool can_run_jobs(struct call *call)
{
	char message[160];

	if (geteuid() == 0 || call->is_root)
		return true;
	(void)snprintf(message, sizeof(message),
		"this jobd is user %lld's, not root's: it runs jobs of that user alone",
		(long long)geteuid());
	call_deny(call, NEEDS_OWNER, message);
	return false;
}

static void reply_job_id(struct call *call, uint32_t job_id)
{
	call_reply(call, json_pack("{s:I}", "job_id", (json_int_t)job_id));
}

/* Users of a user namespace have as many ids as they like, none of which is known here. */
static int check_user(uid_t uid, struct err *err)
{
	if (getpwuid(uid))
		return 0;
	return err_set_text(err, -EACCES,
		"user %lld is not in this node's user database: jobs are run for its users alone",
		(long long)uid);
}

/* A path is one of the node, whatever directory jobd is in. */
static int check_request(const struct job_request *q, struct err *err)
{
	int r = request_check_texts(q, err);

	if (r < 0)
		return r;
	if (q->script && (!q->work_dir || q->work_dir[0] != '/'))
		return err_set_text(err, -EINVAL, "work_dir: needs an absolute path");
	if (q->script && strncmp(q->script, "#!", 2) != 0)
		return err_set_text(err, -EINVAL,
			"This does not look like a batch script: its first line must begin with #! "
			"and the path of a shell, such as #!/bin/sh");
	return 0;
}

/* q: n of them, more than one of a heterogeneous job. */
static int submit(struct call *call, const struct job_request *q, size_t n, struct err *err)
{
	struct server *s = call->server;
	uint32_t job_id = 0;
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && !call->is_root && i < n; i++)
		r = users_admit(s->users, call->uid, &q[i], err);
	if (r == 0)
		r = engine_submit_components(s->engine, q, n, call->uid, call->gid, &job_id, err);
	if (r == 0)
		reply_job_id(call, job_id);
	return r;
}

static int submit_test(struct call *call, const struct job_request *q, size_t n, struct err *err)
{
	struct engine_start start = {0};
	int r;

	if (n > 1)
		return err_set_text(err, -EOPNOTSUPP,
			"--test-only takes one component: test those of a heterogeneous job one by "
			"one");
	r = engine_will_run(call->server->engine, q, call->uid, call->gid, &start, err);

	if (r == 0)
		call_reply(call,
			json_pack("{s:i, s:I, s:s, s:I, s:s}", "job_id", 0, "start_time",
				(json_int_t)start.start_time, "nodes", start.nodes, "cpus",
				(json_int_t)start.cpus, "partition", start.partition));
	free(start.nodes);
	return r;
}

/* A job's, and behind it those of other components: *ret_n have been read, whatever it returns. */
static int read_requests(
	const json_t *parameters, struct job_request *requests, size_t *ret_n, struct err *err)
{
	json_t *components = json_get_array(parameters, "components"), *component;
	size_t i;
	int r = request_from_json(json_object_get(parameters, "request"), requests, err);

	*ret_n = r == 0;
	if (r == 0)
		r = check_request(requests, err);
	if (r == 0 && json_array_size(components) >= ENGINE_COMPONENTS_MAX)
		r = err_set_text(err, -E2BIG, "a heterogeneous job has at most %u components",
			ENGINE_COMPONENTS_MAX);
	for (i = 0; r == 0 && i < json_array_size(components); i++) {
		component = json_array_get(components, i);
		r = request_from_json(component, &requests[*ret_n], err);
		*ret_n += r == 0;
		if (r == 0)
			r = check_request(&requests[*ret_n - 1], err);
		if (r < 0)
			return err_prefix(err, "component %zu", i + 1);
	}
	return r;
}

void run_submit(struct call *call)
{
	struct job_request *q;
	struct err err = ERR_INIT;
	size_t n = 0, i;
	int r;

	if (!can_run_jobs(call))
		return;
	q = calloc(ENGINE_COMPONENTS_MAX, sizeof(*q));
	if (!q) {
		control_no_memory(call->control);
		return;
	}
	r = read_requests(call->parameters, q, &n, &err);
	if (r == 0 && !call->is_root)
		r = check_user(call->uid, &err);
	if (r == 0)
		r = json_get_bool(call->parameters, "test_only", false)
			? submit_test(call, q, n, &err)
			: submit(call, q, n, &err);
	if (r < 0)
		call_fail(call, r, &err, false);
	for (i = 0; i < n; i++)
		request_clear(&q[i]);
	free(q);
}

/* ---- waiting ------------------------------------------------------------------------------------
 */

static void fail_parameter(struct call *call, const char *parameter)
{
	json_t *parameters = json_pack("{s:s}", "parameter", parameter);

	if (parameters)
		control_error_take(
			call->control, "org.varlink.service.InvalidParameter", parameters);
	else
		control_no_memory(call->control);
}

void run_wait(struct call *call)
{
	static const char *const names[] = {"ended", "started"};
	const int until =
		json_get_choice(call->parameters, "until", names, (int)ARRAY_SIZE(names), -1);
	_cleanup_target_ struct target target = {NULL, 0};

	if (until < 0)
		fail_parameter(call, "until");
	else if (call_find(call, json_get_text(call->parameters, "job", ""), &target))
		waits_add(call->server->waits, call->control, &target, until == 1);
}

/* ---- each job of a target -----------------------------------------------------------------------
 */

typedef int (*act_fn)(struct call *call, struct job *job, const void *argument, struct err *err);

static int update(struct call *call, struct job *job, const void *argument, struct err *err)
{
	return engine_update_job(call->server->engine, job, argument, call->is_root, err);
}

/* An action is refused because of the job's state, or of an error in the changes. Tasks of an array
 * that have ended are left out, unless none remains. Some tasks may be in a state that does not
 * allow the action: it has failed only if that is so for all of them. */
static void act_on(struct call *call, const struct target *target, act_fn act, const void *argument)
{
	struct err err = ERR_INIT, first = ERR_INIT;
	size_t i, done = 0;
	int r = 0, n;

	for (i = 0; i < target->count; i++) {
		if (target->count > 1 && target_has_ended(target->jobs[i]))
			continue;
		n = act(call, target->jobs[i], argument, &err);
		done += n == 0;
		if (n < 0 && r == 0) {
			first = err;
			r = n;
		}
	}
	if (r == 0 && done == 0)
		r = err_set_text(&first, -EBUSY, "all tasks of job %.60s have ended",
			json_get_text(call->parameters, "job", ""));
	if (done > 0)
		call_done(call);
	else
		call_fail(call, r, &first, act != update);
}

/* Root's methods have no target yet. */
static void act(struct call *call, act_fn fn, const void *argument)
{
	_cleanup_target_ struct target target = {NULL, 0};

	if (call->target.count > 0)
		act_on(call, &call->target, fn, argument);
	else if (call_find(call, json_get_text(call->parameters, "job", ""), &target))
		act_on(call, &target, fn, argument);
}

static int cancel(struct call *call, struct job *job, const void *argument, struct err *err)
{
	(void)argument;
	return engine_cancel(call->server->engine, job, err);
}

void run_cancel(struct call *call)
{
	act(call, cancel, NULL);
}

static int hold(struct call *call, struct job *job, const void *argument, struct err *err)
{
	(void)argument;
	return engine_hold(call->server->engine, job, call->is_root, err);
}

void run_hold(struct call *call)
{
	act(call, hold, NULL);
}

static int release(struct call *call, struct job *job, const void *argument, struct err *err)
{
	(void)argument;
	return engine_release(call->server->engine, job, call->is_root, err);
}

void run_release(struct call *call)
{
	act(call, release, NULL);
}

static int suspend(struct call *call, struct job *job, const void *argument, struct err *err)
{
	(void)argument;
	return engine_suspend(call->server->engine, job, err);
}

void run_suspend(struct call *call)
{
	act(call, suspend, NULL);
}

static int resume(struct call *call, struct job *job, const void *argument, struct err *err)
{
	(void)argument;
	return engine_resume(call->server->engine, job, err);
}

void run_resume(struct call *call)
{
	act(call, resume, NULL);
}

static int requeue(struct call *call, struct job *job, const void *argument, struct err *err)
{
	(void)argument;
	return engine_requeue(call->server->engine, job, err);
}

void run_requeue(struct call *call)
{
	act(call, requeue, NULL);
}

/* ---- signals ------------------------------------------------------------------------------------
 */

struct signal_argument {
	int signal;
	enum job_signal_target target;
};

static int send_signal(struct call *call, struct job *job, const void *argument, struct err *err)
{
	const struct signal_argument *a = argument;

	return engine_signal(call->server->engine, job, a->signal, a->target, err);
}

static enum job_signal_target signal_target(const json_t *parameters)
{
	if (json_get_bool(parameters, "full", false))
		return JOB_SIGNAL_BOTH;
	return json_get_bool(parameters, "batch", false) ? JOB_SIGNAL_BATCH : JOB_SIGNAL_STEPS;
}

void run_signal(struct call *call)
{
	const struct signal_argument argument = {
		.signal = signals_parse(json_get_text(call->parameters, "signal", "")),
		.target = signal_target(call->parameters),
	};

	if (argument.signal <= 0)
		fail_parameter(call, "signal");
	else
		act(call, send_signal, &argument);
}

/* ---- changes ------------------------------------------------------------------------------------
 */

void run_update(struct call *call)
{
	act(call, update, json_object_get(call->parameters, "changes"));
}

void run_expand(struct call *call)
{
	const char *text = json_get_text(call->parameters, "to", "");
	_cleanup_target_ struct target to = {NULL, 0};
	struct err err = ERR_INIT;
	int r;

	if (!call_find(call, text, &to))
		return;
	if (!call->is_root && to.jobs[0]->record.user_id != call->uid) {
		call_deny(call, NEEDS_OWNER, "both jobs must be the caller's");
		return;
	}
	if (to.count != 1 || call->target.count != 1)
		r = err_set_text(
			&err, -EINVAL, "name one job, and another one that gets its resources");
	else
		r = engine_expand(call->server->engine, call->target.jobs[0], to.jobs[0], &err);
	if (r < 0)
		call_fail(call, r, &err, true);
	else
		call_done(call);
}
