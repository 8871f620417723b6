/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl usage: what steps and their tasks use now, by their agents; where one has died, what the
 * tracker still tells.
 */
#include <jansson.h>
#include <string.h>

#include "proctrack/proctrack.h"
#include "stepd/account/usage_table.h"
#include "stepd/account/usage_values.h"
#include "stepd/cli/ctl/ask.h"
#include "stepd/cli/ctl/tracker.h"
#include "stepd/cli/ctl/usage_read.h"

static int print(struct ctl *ctl, const struct target *target, const struct usage_reply *u)
{
	const struct usage_view view = {.label = target->label,
		.elapsed_usec = u->elapsed_usec,
		.live = true,
		.step = &u->step,
		.tasks = u->tasks,
		.task = u->task,
		.n = u->n};
	_cleanup_free_ char *text = usage_table_format(&view);

	if (!text)
		return -ENOMEM;
	printf("%s%s", ctl->shown++ > 0 ? "\n" : "", text);
	return 0;
}

static int pack(json_t *entry, const struct usage_reply *u)
{
	json_t *tasks = json_array(), *task;
	int r = usage_pack(entry, &u->step);
	size_t i;

	for (i = 0; r == 0 && i < u->n; i++) {
		task = json_pack("{s:I}", "rank", (json_int_t)u->task[i].gtid);
		r = task ? usage_pack(task, &u->tasks[i]) : -1;
		r |= json_array_append_new(tasks, task);
	}
	if (r == 0)
		r = ctl_put(entry, "time_usec", json_integer((json_int_t)u->time_usec));
	if (r == 0 && u->elapsed_usec)
		r = ctl_put(entry, "elapsed_usec", json_integer((json_int_t)u->elapsed_usec));
	if (r == 0)
		return ctl_put(entry, "tasks", tasks);
	json_decref(tasks);
	return -ENOMEM;
}

static int tell(struct ctl *ctl, struct target *target, const struct usage_reply *u,
	struct stepd_error *error)
{
	int r = ctl->json ? pack(target->entry, u) : print(ctl, target, u);

	return r < 0 ? target_error(error, r, "no memory left") : 0;
}

static int take_usage(
	struct ctl *ctl, struct target *target, const json_t *reply, struct stepd_error *error)
{
	_cleanup_usage_reply_ struct usage_reply u = {0};

	if (usage_read(reply, &u) < 0)
		return target_error(error, -ENOMEM, "no memory left");
	return tell(ctl, target, &u, error);
}

static json_t *make_call(struct ctl *ctl, const struct target *target, struct stepd_error *error)
{
	(void)ctl;
	(void)target;
	(void)error;
	return json_pack("{s:b}", "tasks", 1);
}

/* ---- without an agent ---------------------------------------------------------------------- */

struct orphan {
	struct ctl *ctl;
	struct usage_reply u;
	struct err err;
};

static int on_orphan(const struct step_entry *entry, void *userdata)
{
	_cleanup_tracker_ struct tracker tracker = TRACKER_INIT;
	struct orphan *o = userdata;
	int r;

	if (!tracker_can_ask(entry))
		return err_say(&o->err, -ECONNREFUSED,
			"its agent has died, and with %s nobody else knows its processes; "
			"'stepd adopt %s' takes the step over",
			entry->proctrack, entry->step);
	r = tracker_use(o->ctl, &tracker, entry, &o->err);
	if (r < 0)
		return r;
	if (tracker_read_tasks(entry, &o->u.task, &o->u.n) < 0)
		return err_set(&o->err, -ENOMEM, "read its tasks");
	o->u.tasks = calloc(o->u.n + 1, sizeof(*o->u.tasks));
	if (!o->u.tasks)
		return err_set(&o->err, -ENOMEM, "read its tasks");
	r = proctrack_usage_tasks(
		tracker.pt, entry->cont_id, o->u.task, o->u.n, &o->u.step, o->u.tasks);
	if (r == -ESRCH)
		return err_say(&o->err, r, "its agent has died, and its processes have ended");
	return r < 0 ? err_set(&o->err, r, "look at what it uses") : 1;
}

static int look_at_container(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	struct orphan o = {.ctl = ctl};
	int r = tracker_visit(target, on_orphan, &o, &o.err);

	if (r < 0)
		r = tracker_hand_on(&o.err, error);
	else
		r = tell(ctl, target, &o.u, error);
	usage_reply_clear(&o.u);
	return r;
}

/* ---- again and again ----------------------------------------------------------------------- */

static void print_line(const struct usage_reply *now, const struct usage_reply *before)
{
	char memory[USAGE_TEXT_SIZE], peak[USAGE_TEXT_SIZE], processes[USAGE_TEXT_SIZE];
	char rd[USAGE_TEXT_SIZE], wr[USAGE_TEXT_SIZE], elapsed[CTL_TEXT_SIZE], cpu[16] = "-";
	double share = usage_cpu_share(now, before);

	if (share >= 0)
		(void)snprintf(cpu, sizeof(cpu), "%.1f", share * 100);
	printf("%9s %8s %9s %9s %9s %9s %9s\n", ctl_duration_text(now->elapsed_usec, elapsed), cpu,
		usage_text(&now->step, STEPD_USAGE_MEMORY_BYTES, memory),
		usage_text(&now->step, STEPD_USAGE_MEMORY_PEAK_BYTES, peak),
		usage_text(&now->step, STEPD_USAGE_PROCESSES, processes),
		usage_text(&now->step, STEPD_USAGE_IO_READ_BYTES, rd),
		usage_text(&now->step, STEPD_USAGE_IO_WRITE_BYTES, wr));
}

/* The reply as it came, with the step's names. */
static int print_json_line(struct ctl *ctl, const struct target *target, json_t *reply)
{
	json_t *doc = json_pack("{s:s, s:s}", "step", target->label, "node", target->node);

	if (json_object_update_missing(doc, json_object_get(reply, "step")) < 0 ||
		json_object_del(reply, "step") < 0 || json_object_update_missing(doc, reply) < 0) {
		json_decref(doc);
		return -ENOMEM;
	}
	return ctl_print_json(ctl, doc, true);
}

/* 1: more will come. */
static int take_look(struct ctl *ctl, struct target *target, struct usage_reply *before,
	struct stepd_error *error)
{
	_cleanup_usage_reply_ struct usage_reply now = {0};
	_cleanup_free_ char *text = NULL;
	json_t *reply = NULL;
	bool continues;
	int r = stepd_next(target->client, -1, &text, &continues, error);

	if (r == 0)
		r = ask_parse(text, &reply, error);
	if (r == 0 && usage_read(reply, &now) < 0)
		r = target_error(error, -ENOMEM, "no memory left");
	if (r == 0 && ctl->json)
		r = print_json_line(ctl, target, reply);
	else if (r == 0)
		print_line(&now, before);
	json_decref(reply);
	if (r < 0)
		return error->code ? r : target_error(error, r, "no memory left");
	usage_reply_clear(before);
	*before = now;
	now = (struct usage_reply){0};
	return continues && fflush(stdout) == 0;
}

static int follow(struct ctl *ctl)
{
	_cleanup_usage_reply_ struct usage_reply before = {0};
	_cleanup_target_ struct target target = TARGET_INIT;
	struct stepd_error error = {0};
	char parameters[64];
	uint64_t round = 0;
	int r;

	ctl->printed = ctl->json; /* lines, even if there is none */
	if (target_open(ctl, ctl->args[0], false, &target) < 0)
		return 0; /* it was said */
	(void)snprintf(parameters, sizeof(parameters), "{\"tasks\":true,\"interval_ms\":%llu}",
		(unsigned long long)ctl->interval_ms);
	r = stepd_start_call(target.client, "Usage", parameters, STEPD_CALL_MORE, &error);
	if (r == 0 && !ctl->json)
		printf("%9s %8s %9s %9s %9s %9s %9s\n", "ELAPSED", "CPU%", "MEMORY", "PEAK",
			"PROCS", "READ", "WRITTEN");
	do
		r = r < 0 ? r : take_look(ctl, &target, &before, &error);
	while (r > 0 && ++round != ctl->rounds);
	if (r < 0)
		ctl_complain(ctl, target.label, &error, NULL);
	return 0;
}

int ctl_usage(struct ctl *ctl)
{
	static const struct ask ask = {.method = "Usage",
		.make = make_call,
		.take = take_usage,
		.gone_ok = 1u << STEPD_ORPHAN,
		.gone = look_at_container};

	if (!ctl->interval_ms && ctl->rounds)
		return err_say(&ctl->err, -EINVAL, "--count goes with --interval");
	if (!ctl->interval_ms)
		return ask_steps(ctl, &ask);
	if (ctl->count > 1)
		return err_say(&ctl->err, -EINVAL,
			"--interval is of one step; 'stepctl top' shows several");
	return follow(ctl);
}
