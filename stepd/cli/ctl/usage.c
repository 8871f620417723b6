/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl usage: what steps and their tasks use now, by their agents; where one has died, by the
 * tracker.
 */
#include "stepd/cli/ctl/usage.h"

#include <string.h>

#include "proctrack/proctrack.h"
#include "stepd/account/usage.h"
#include "stepd/base/json.h"
#include "stepd/cli/ctl/target.h"
#include "stepd/client/client.h"

/* ---- samples ------------------------------------------------------------------------------- */

void usage_sample_clear(struct usage_sample *usage)
{
	free(take_ptr(usage->tasks));
	free(take_ptr(usage->task));
	usage->n = 0;
}

static enum stepd_usage_source source_of(const json_t *row, const char *name)
{
	/* Of a newer agent: a value all the same. */
	return (enum stepd_usage_source)json_get_choice(json_object_get(row, "usage_sources"), name,
		usage_source_names, STEPD_USAGE_SOURCE_COUNT, STEPD_USAGE_PROC);
}

static void read_values(const json_t *row, stepd_usage_t *usage)
{
	const json_t *values = json_object_get(row, "usage");
	int64_t value;
	size_t i;

	for (i = 0; i < STEPD_USAGE_COUNT; i++) {
		if (!json_get_range(values, usage_values[i].name, 0, INT64_MAX, &value))
			continue;
		usage->value[i] = (uint64_t)value;
		usage->source[i] = (uint8_t)source_of(row, usage_values[i].name);
	}
}

static uint64_t number_of(const json_t *object, const char *key)
{
	int64_t number = json_get_int(object, key, 0);

	return number > 0 ? (uint64_t)number : 0;
}

int usage_read(const json_t *reply, struct usage_sample *ret_usage)
{
	const json_t *rows = json_object_get(reply, "tasks"), *row;
	struct usage_sample u = {.time_usec = number_of(reply, "time_usec"),
		.elapsed_usec = number_of(reply, "elapsed_usec"),
		.n = json_array_size(rows)};
	size_t i;

	u.tasks = calloc(u.n + 1, sizeof(*u.tasks));
	u.task = calloc(u.n + 1, sizeof(*u.task));
	if (!u.tasks || !u.task) {
		usage_sample_clear(&u);
		return -ENOMEM;
	}
	read_values(json_object_get(reply, "step"), &u.step);
	json_array_foreach (rows, i, row) {
		u.task[i].id = (uint32_t)i;
		u.task[i].gtid = (uint32_t)number_of(row, "rank");
		read_values(row, &u.tasks[i]);
	}
	*ret_usage = u;
	return 0;
}

static bool read_cpu(const stepd_usage_t *usage, uint64_t *ret_usec)
{
	if (!usage->source[STEPD_USAGE_CPU_USER_USEC] ||
		!usage->source[STEPD_USAGE_CPU_SYSTEM_USEC])
		return false;
	*ret_usec =
		usage->value[STEPD_USAGE_CPU_USER_USEC] + usage->value[STEPD_USAGE_CPU_SYSTEM_USEC];
	return true;
}

int usage_subscribe(struct stepd_client *client, int64_t interval_ms, struct stepd_error *error)
{
	json_t *parameters =
		json_pack("{s:b, s:I}", "tasks", 1, "interval_ms", (json_int_t)interval_ms);

	if (!parameters)
		return client_no_memory(error);
	return client_start_take(client, "Usage", parameters, STEPD_CALL_MORE, error);
}

double usage_cpu_share_of(
	const stepd_usage_t *now, const stepd_usage_t *before, uint64_t between_usec)
{
	uint64_t later, earlier;

	if (between_usec == 0 || !read_cpu(now, &later) || !read_cpu(before, &earlier) ||
		later < earlier)
		return -1;
	return (double)(later - earlier) / (double)between_usec;
}

double usage_cpu_share(const struct usage_sample *now, const struct usage_sample *before)
{
	if (now->time_usec <= before->time_usec || before->time_usec == 0)
		return -1;
	return usage_cpu_share_of(&now->step, &before->step, now->time_usec - before->time_usec);
}

const char *usage_cpu_text(double share, char *buf)
{
	if (share < 0)
		return "-";
	(void)snprintf(buf, CTL_TEXT_SIZE, "%.1f", share * 100);
	return buf;
}

/* ---- one sample ---------------------------------------------------------------------------- */

static int print(struct ctl *ctl, const struct target *target, const struct usage_sample *u)
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
	printf("%s%s", ctl->out.shown++ > 0 ? "\n" : "", text);
	return 0;
}

static int pack(json_t *entry, const struct usage_sample *u)
{
	json_auto_t *tasks = json_array();
	int r = usage_pack(entry, &u->step);
	size_t i;

	for (i = 0; r == 0 && i < u->n; i++) {
		json_t *task = json_pack("{s:I}", "rank", (json_int_t)u->task[i].gtid);

		r = task ? usage_pack(task, &u->tasks[i]) : -1;
		r |= json_array_append_new(tasks, task);
	}
	if (r == 0)
		r = ctl_put(entry, "time_usec", json_integer((json_int_t)u->time_usec));
	if (r == 0 && u->elapsed_usec)
		r = ctl_put(entry, "elapsed_usec", json_integer((json_int_t)u->elapsed_usec));
	return r < 0 ? -ENOMEM : ctl_put(entry, "tasks", json_incref(tasks));
}

static int show_usage(struct ctl *ctl, struct target *target, const struct usage_sample *u,
	struct stepd_error *error)
{
	int r = ctl->opt.json ? pack(target->entry, u) : print(ctl, target, u);

	return r < 0 ? client_no_memory(error) : 0;
}

static int usage_step(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	_cleanup_usage_sample_ struct usage_sample u = {0};
	json_t *parameters = json_pack("{s:b}", "tasks", 1);
	json_auto_t *reply = NULL;
	int r = parameters ? client_call_take(target->client, "Usage", parameters, &reply, error)
			   : client_no_memory(error);

	if (r == 0 && usage_read(reply, &u) < 0)
		r = client_no_memory(error);
	return r < 0 ? r : show_usage(ctl, target, &u, error);
}

/* ---- without an agent ---------------------------------------------------------------------- */

static int usage_read_container(const struct orphan *o, struct usage_sample *u, struct err *err)
{
	int r = tracker_read_tasks(&o->entry, &u->task, &u->n);

	if (r < 0 || !(u->tasks = calloc(u->n + 1, sizeof(*u->tasks))))
		return err_set(err, -ENOMEM, "read its tasks");
	r = proctrack_usage_tasks(o->pt, o->entry.cont_id, u->task, u->n, &u->step, u->tasks);
	if (r == -ESRCH)
		return err_set_text(err, r, "its agent has died, and its processes have ended");
	return r < 0 ? err_set(err, r, "read what it uses") : 0;
}

static int usage_without_agent(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	_cleanup_usage_sample_ struct usage_sample u = {0};
	_cleanup_orphan_ struct orphan o = ORPHAN_INIT;
	struct err err = ERR_INIT;
	int r = orphan_open(ctl, target, ORPHAN_PROCESSES, &o, &err);

	if (r == 0)
		r = usage_read_container(&o, &u, &err);
	return r < 0 ? client_error_forward(error, &err) : show_usage(ctl, target, &u, error);
}

/* ---- at an interval ------------------------------------------------------------------------ */

static void print_line(const struct usage_sample *now, const struct usage_sample *before)
{
	char memory[USAGE_TEXT_SIZE], peak[USAGE_TEXT_SIZE], processes[USAGE_TEXT_SIZE];
	char rd[USAGE_TEXT_SIZE], wr[USAGE_TEXT_SIZE], elapsed[CTL_TEXT_SIZE], cpu[CTL_TEXT_SIZE];

	printf("%9s %8s %9s %9s %9s %9s %9s\n", ctl_duration_text(now->elapsed_usec, elapsed),
		usage_cpu_text(usage_cpu_share(now, before), cpu),
		usage_text(&now->step, STEPD_USAGE_MEMORY_BYTES, memory),
		usage_text(&now->step, STEPD_USAGE_MEMORY_PEAK_BYTES, peak),
		usage_text(&now->step, STEPD_USAGE_PROCESSES, processes),
		usage_text(&now->step, STEPD_USAGE_IO_READ_BYTES, rd),
		usage_text(&now->step, STEPD_USAGE_IO_WRITE_BYTES, wr));
}

/* The reply unchanged, with the step's names. */
static int print_json_line(struct ctl *ctl, const struct target *target, json_t *reply)
{
	json_auto_t *doc = json_pack("{s:s, s:s}", "step", target->label, "node", target->node);

	if (json_object_update_missing(doc, json_object_get(reply, "step")) < 0 ||
		json_object_del(reply, "step") < 0 || json_object_update_missing(doc, reply) < 0)
		return -ENOMEM;
	return ctl_print_json(ctl, json_incref(doc), true);
}

/* 1: more will come. */
static int take_sample(struct ctl *ctl, struct target *target, struct usage_sample *before,
	struct stepd_error *error)
{
	_cleanup_usage_sample_ struct usage_sample now = {0};
	_cleanup_reply_ struct reply reply = {0};
	int r = client_next(target->client, -1, &reply, error);

	if (r < 0)
		return r;
	r = usage_read(reply.parameters, &now);
	if (r == 0 && ctl->opt.json)
		r = print_json_line(ctl, target, reply.parameters);
	else if (r == 0)
		print_line(&now, before);
	if (r < 0)
		return client_no_memory(error);
	usage_sample_clear(before);
	*before = now;
	now = (struct usage_sample){0};
	return reply.continues && fflush(stdout) == 0;
}

static int follow(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	_cleanup_usage_sample_ struct usage_sample before = {0};
	uint64_t round = 0;
	int r = usage_subscribe(target->client, ctl->opt.interval_ms, error);

	if (r == 0 && !ctl->opt.json)
		printf("%9s %8s %9s %9s %9s %9s %9s\n", "ELAPSED", "CPU%", "MEMORY", "PEAK",
			"PROCS", "READ", "WRITTEN");
	do
		r = r < 0 ? r : take_sample(ctl, target, &before, error);
	while (r > 0 && ++round != ctl->opt.rounds);
	return r < 0 ? r : 0;
}

int ctl_usage(struct ctl *ctl)
{
	static const struct request once = {.run = usage_step,
		.without_agent = usage_without_agent,
		.without_agent_if = STEPD_ORPHAN};
	static const struct request follows = {.run = follow, .in_turn = true};

	if (!ctl->opt.interval_ms && ctl->opt.rounds)
		return err_set_text(&ctl->err, -EINVAL, "--count needs --interval");
	if (!ctl->opt.interval_ms)
		return request_steps(ctl, &once);
	if (ctl->count > 1)
		return err_set_text(&ctl->err, -EINVAL,
			"--interval takes one step; 'stepctl top' shows several");
	ctl->out.printed = ctl->opt.json; /* lines, even if there is none */
	return request_steps(ctl, &follows);
}
