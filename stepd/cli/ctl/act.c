/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl signal, terminate, suspend, resume, notify, add, reexec and wait: what is done to a step,
 * by its agent.
 */
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "proctrack/proctrack.h"
#include "stepd/base/clock.h"
#include "stepd/base/fs.h"
#include "stepd/base/json.h"
#include "stepd/base/parse.h"
#include "stepd/base/signals.h"
#include "stepd/cli/ctl/target.h"
#include "stepd/cli/ctl/tracker.h"
#include "stepd/client/client.h"
#include "stepd/record/registry.h"
#include "stepd/record/report.h"

#define DEFAULT_SIGNAL "TERM"

/* ---- signal, terminate --------------------------------------------------------------------- */

static int signal_step(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	const struct stepd_signal_target to = {
		.ranks = target->ranks, .pid = (pid_t)ctl->opt.pid, .leader = ctl->opt.leader};

	if (to.pid && to.ranks)
		return client_error(error, -EINVAL, "a pid and ranks can't be given at once");
	return stepd_signal(target->client, ctl->opt.signal, &to, error);
}

int ctl_signal(struct ctl *ctl)
{
	static const struct request request = {
		.run = signal_step, .done = true, .with_ranks = true};

	if (!ctl->opt.signal)
		ctl->opt.signal = DEFAULT_SIGNAL;
	if (signals_parse(ctl->opt.signal) < 0)
		return err_set_text(&ctl->err, -EINVAL,
			"--signal: '%.200s' is no signal such as TERM, 15 or RTMIN+3",
			ctl->opt.signal);
	return request_steps(ctl, &request);
}

static int terminate_step(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	const char *kill_sequence = ctl->opt.now ? "KILL" : ctl->opt.kill_sequence;

	return stepd_terminate(target->client, kill_sequence, ctl->opt.grace_ms, error);
}

int ctl_terminate(struct ctl *ctl)
{
	static const struct request request = {.run = terminate_step, .done = true};

	if (ctl->opt.now && (ctl->opt.kill_sequence || ctl->opt.grace_ms >= 0))
		return err_set_text(&ctl->err, -EINVAL,
			"--now is SIGKILL alone: --kill-sequence and --grace don't go with it");
	return request_steps(ctl, &request);
}

/* ---- suspend, resume: the same but for the call -------------------------------------------- */

/* Where a step's agent has died the container is suspended or resumed directly, for its owner only,
 * and state.json records it: an agent that takes the step over goes on from there, not from where
 * the dead one stopped. */
static int suspend_container(struct ctl *ctl, const struct orphan *o, bool suspend, struct err *err)
{
	int r;

	if (suspend)
		return proctrack_suspend(o->pt, o->entry.cont_id, ctl_timeout_ms(ctl), err);
	r = proctrack_resume(o->pt, o->entry.cont_id, err);
	return r < 0 ? err_prefix(err, "can't resume it") : 0;
}

/* What an agent would have written: the state, and how long the step has been suspended. */
static int change_state(json_t *doc, bool suspend)
{
	const json_int_t now = (json_int_t)clock_now_ns();
	json_int_t since = json_get_int(doc, "suspended_since_ns", 0);
	json_int_t total = json_get_int(doc, "suspended_ns", 0);

	if (since && !suspend)
		total += now - since;
	if (!suspend)
		since = 0;
	else if (!since)
		since = now;
	return json_object_update_new(doc,
		json_pack("{s:s, s:I, s:I, s:b}", "state", suspend ? "suspended" : "running",
			"suspended_since_ns", since, "suspended_ns", total, "suspending", 0));
}

/* Only of a step that was running or suspended: the next agent ends one that was being started or
 * ended. */
static int record_state(const struct orphan *o, bool suspend, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	json_auto_t *doc = NULL;
	const char *state;
	mode_t mask;
	int r;

	/* Anew, under the lock: another may have been here since it was listed. */
	r = steps_read_state(o->entry.dir_fd, &doc);
	state = json_get_text(doc, "state", "");
	if (r == 0 && strcmp(state, "running") != 0 && strcmp(state, "suspended") != 0)
		return 0;
	if (r == 0 && change_state(doc, suspend) == 0)
		text = json_dumps(doc, JSON_COMPACT);
	if (r == 0 && !text)
		r = -ENOMEM;
	if (text) {
		mask = umask(022);
		r = fs_write_atomic(o->entry.dir_fd, "state.json", text, strlen(text), 0644, false);
		(void)umask(mask); /* can't fail */
	}
	return r < 0 ? err_set(err, r,
			       "it is %s, but state.json could not be changed, and 'stepd adopt' "
			       "would undo this",
			       suspend ? "suspended" : "resumed")
		     : 0;
}

/* The lock keeps an agent from taking the step over meanwhile. */
static int lock_step(const struct orphan *o, struct err *err)
{
	int fd = registry_lock_for_cleaning(o->entry.dir_fd);

	if (fd == -EWOULDBLOCK)
		return err_set_text(err, -EBUSY,
			"its agent has died, and another process is taking the step over; try again");
	return fd < 0 ? err_set(err, fd, "its agent has died; lock its directory") : fd;
}

static int suspend_without_agent(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	const bool suspend = ctl->verb->run == ctl_suspend;
	_cleanup_orphan_ struct orphan o = ORPHAN_INIT;
	_cleanup_close_ int lock_fd = -1;
	struct err err = ERR_INIT;
	int r = orphan_open(ctl, target, ORPHAN_OWNER | ORPHAN_PROCESSES, &o, &err);

	if (r == 0)
		r = lock_fd = lock_step(&o, &err);
	if (r >= 0)
		r = suspend_container(ctl, &o, suspend, &err);
	if (r == 0)
		r = record_state(&o, suspend, &err);
	if (r == -ESRCH)
		return client_error(error, r,
			"its agent has died, and none of its processes is left or can be found");
	return r < 0 ? client_error_forward(error, &err) : 0;
}

static int suspend_step(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	return ctl->verb->run == ctl_suspend ? stepd_suspend(target->client, error)
					     : stepd_resume(target->client, error);
}

int ctl_suspend(struct ctl *ctl)
{
	static const struct request request = {.run = suspend_step,
		.without_agent = suspend_without_agent,
		.without_agent_if = STEPD_ORPHAN,
		.done = true};

	return request_steps(ctl, &request);
}

int ctl_resume(struct ctl *ctl)
{
	return ctl_suspend(ctl);
}

/* ---- notify, add, reexec ------------------------------------------------------------------- */

static int notify_step(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	json_auto_t *message = report_json_text(ctl->args[1]);

	return message ? stepd_notify(target->client, json_string_value(message), error)
		       : client_no_memory(error);
}

int ctl_notify(struct ctl *ctl)
{
	static const struct request request = {.run = notify_step, .done = true, .steps = 1};

	if (!ctl->args[1][0])
		return err_set_text(&ctl->err, -EINVAL, "the message is empty");
	return request_steps(ctl, &request);
}

/* One call for each pid: each has a result of its own. */
static int add_pids(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	json_auto_t *added = json_array();
	uint32_t pid = 0;
	int i, r = 0;

	for (i = 1; r == 0 && i < ctl->count; i++) {
		struct stepd_error failure = {0};

		(void)!parse_u32(ctl->args[i], 1, INT_MAX, &pid); /* was checked */
		if (stepd_add_pid(target->client, (pid_t)pid, 0, &failure) == -ESRCH)
			(void)client_error(
				&failure, -ESRCH, "there is no process %u on this node", pid);
		if (failure.code)
			ctl_report(ctl, target->label, &failure, target->entry);
		else
			r = json_array_append_new(added, json_integer(pid));
	}
	if (r == 0)
		r = ctl_put(target->entry, "added", json_incref(added));
	return r < 0 ? client_no_memory(error) : 0;
}

int ctl_add(struct ctl *ctl)
{
	static const struct request request = {.run = add_pids, .in_turn = true, .steps = 1};
	uint32_t pid;
	int i;

	for (i = 1; i < ctl->count; i++) {
		if (parse_u32(ctl->args[i], 1, INT_MAX, &pid) < 0)
			return err_set_text(&ctl->err, -EINVAL, "'%.200s' is no pid", ctl->args[i]);
	}
	return request_steps(ctl, &request);
}

static int reexec_step(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	_cleanup_free_ char *version = NULL, *safe = NULL;
	int r = stepd_reexec(target->client, &version, error);

	if (r < 0)
		return r;
	safe = term_printable(&ctl->term, version, TERM_WHOLE);
	if (!safe || ctl_put(target->entry, "version", json_string(version)) < 0)
		return client_error(error, -ENOMEM, "it is done, with no memory left to report it");
	if (!ctl->opt.json)
		printf("step %s: its agent runs version %s\n", target->label, safe);
	return 0;
}

int ctl_reexec(struct ctl *ctl)
{
	static const struct request request = {.run = reexec_step};

	return request_steps(ctl, &request);
}

/* ---- wait ---------------------------------------------------------------------------------- */

static int take_result(
	struct ctl *ctl, struct target *target, json_t *result, struct stepd_error *error)
{
	const json_t *code = json_object_get(result, "exit_code");

	if (!json_is_integer(code))
		return client_error(
			error, -EPROTO, "it has ended, and its result has no exit status");
	if (json_integer_value(code) > ctl->out.step_status)
		ctl->out.step_status = (int)json_integer_value(code);
	return ctl_put(target->entry, "result", json_incref(result)) < 0 ? client_no_memory(error)
									 : 0;
}

static int wait_step(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	json_auto_t *reply = NULL;
	int r = client_call_take(target->client, "Wait", NULL, &reply, error);

	return r < 0 ? r : take_result(ctl, target, json_object_get(reply, "result"), error);
}

/* A step that has ended before: its result is read as long as it is kept. */
static int wait_ended(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	json_auto_t *result = NULL;
	int r = target_read_result(target, &result, error);

	return r < 0 ? r : take_result(ctl, target, result, error);
}

/* Exits with the status of the step, of several with the largest. */
int ctl_wait(struct ctl *ctl)
{
	static const struct request request = {.run = wait_step,
		.without_agent = wait_ended,
		.without_agent_if = STEPD_ENDED,
		.for_ever = true};
	int r = request_steps(ctl, &request);

	if (r == 0 && ctl->out.status == CTL_OK)
		ctl->out.status = ctl->out.step_status;
	return r;
}
