/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/ctl/top_data.h"

#include <jansson.h>
#include <string.h>

#include "stepd/cli/ctl/ask.h"

static void stop_asking(struct top_step *step)
{
	step->client = stepd_disconnect(step->client);
	usage_reply_clear(&step->now);
	usage_reply_clear(&step->before);
	step->now = step->before = (struct usage_reply){0};
}

static void free_step(struct top_step *step)
{
	stop_asking(step);
	free(step->directory);
	free(step->label);
	free(step->node);
	free(step->user);
	free(step);
}

void top_data_clear(struct top_data *data)
{
	size_t i;

	for (i = 0; i < data->n; i++)
		free_step(data->steps[i]);
	free(data->steps);
	for (i = 0; i < data->only_count; i++)
		free(data->only[i]);
	free(data->only);
}

int top_data_choose(struct top_data *data)
{
	struct ctl *ctl = data->ctl;
	struct stepd_error error = {0};
	int i, r;

	if (ctl->count == 0)
		return 0;
	data->only = calloc((size_t)ctl->count, sizeof(*data->only));
	if (!data->only)
		return err_set(&ctl->err, -ENOMEM, "choose steps");
	for (i = 0; i < ctl->count; i++) {
		r = stepd_find_step(ctl->runtime_dir, ctl->args[i], &data->only[i], &error);
		if (r < 0)
			return err_say(&ctl->err, r, "%s", error.text);
		data->only_count++;
	}
	return 0;
}

/* ---- which steps there are ----------------------------------------------------------------- */

static bool is_wanted(const struct top_data *data, const char *directory)
{
	size_t i;

	for (i = 0; i < data->only_count; i++) {
		if (strcmp(data->only[i], directory) == 0)
			return true;
	}
	return !data->only;
}

static struct top_step *find_step(const struct top_data *data, const char *directory)
{
	size_t i;

	for (i = 0; i < data->n; i++) {
		if (strcmp(data->steps[i]->directory, directory) == 0)
			return data->steps[i];
	}
	return NULL;
}

static struct top_step *add_step(struct top_data *data, const struct stepd_step *found)
{
	size_t room = data->room ? data->room * 2 : 32;
	struct top_step **grown, *step;

	if (data->n == data->room) {
		grown = reallocarray(data->steps, room, sizeof(struct top_step *));
		if (!grown)
			return NULL;
		data->steps = grown;
		data->room = room;
	}
	step = calloc(1, sizeof(*step));
	if (!step)
		return NULL;
	step->directory = strdup(found->directory);
	step->label = strdup(found->step);
	step->node = strdup(found->node);
	step->user = strdup(found->user);
	if (!step->directory || !step->label || !step->node || !step->user) {
		free_step(step);
		return NULL;
	}
	data->steps[data->n++] = step;
	return step;
}

/* Nothing waits here: an agent that has no room for a connection is asked at the next scan. */
static void begin_asking(const struct top_data *data, struct top_step *step)
{
	struct stepd_error error;
	char parameters[64];

	(void)snprintf(parameters, sizeof(parameters), "{\"tasks\":true,\"interval_ms\":%llu}",
		(unsigned long long)data->interval_ms);
	if (stepd_connect_directory(step->directory, 0, &step->client, &error) < 0) {
		step->refused = error.code == -EPERM;
		return;
	}
	if (stepd_start_call(step->client, "Usage", parameters, STEPD_CALL_MORE, &error) < 0)
		stop_asking(step);
}

static int on_step(const struct stepd_step *found, void *userdata)
{
	struct top_data *data = userdata;
	struct top_step *step;

	if (!is_wanted(data, found->directory))
		return 0;
	step = find_step(data, found->directory);
	if (!step)
		step = add_step(data, found);
	if (!step)
		return -ENOMEM;
	step->seen = true;
	step->presence = found->presence;
	(void)snprintf(step->state, sizeof(step->state), "%s",
		found->presence == STEPD_ORPHAN ? "died" : found->state);
	if (found->presence == STEPD_LIVES && !step->client && !step->refused)
		begin_asking(data, step);
	return 0;
}

static void forget_gone(struct top_data *data)
{
	size_t i, kept = 0;

	for (i = 0; i < data->n; i++) {
		if (data->steps[i]->seen)
			data->steps[kept++] = data->steps[i];
		else
			free_step(data->steps[i]);
	}
	data->n = kept;
}

int top_data_scan(struct top_data *data)
{
	struct stepd_error error = {0};
	size_t i;
	int r;

	for (i = 0; i < data->n; i++)
		data->steps[i]->seen = false;
	r = stepd_each_step(data->ctl->runtime_dir, on_step, data, &error);
	if (r < 0)
		return err_say(&data->ctl->err, r, "%s",
			error.text[0] ? error.text : "no memory left for so many steps");
	forget_gone(data);
	return 0;
}

/* ---- what they use ------------------------------------------------------------------------- */

static int take(struct top_step *step, const char *text)
{
	struct usage_reply look = {0};
	struct stepd_error error;
	json_t *reply = NULL;
	int r = 0;

	if (ask_parse(text, &reply, &error) < 0)
		stop_asking(step);
	else
		r = usage_read(reply, &look);
	json_decref(reply);
	if (!step->client || r < 0)
		return r;
	usage_reply_clear(&step->before);
	step->before = step->now;
	step->now = look;
	return 0;
}

int top_data_read(struct top_data *data, struct top_step *step)
{
	struct stepd_error error;
	bool continues = true;
	int r = 0;

	(void)data;
	while (step->client && continues) {
		_cleanup_free_ char *text = NULL;

		r = stepd_next(step->client, 0, &text, &continues, &error);
		if (r == -EAGAIN)
			return 0;
		if (r < 0) {
			step->refused = r == -EPERM;
			stop_asking(step);
			return 0;
		}
		if (take(step, text) < 0)
			return err_set(&data->ctl->err, -ENOMEM, "read what steps use");
	}
	step->client = stepd_disconnect(step->client);
	return 0;
}

double top_step_cpu(const struct top_step *step)
{
	return usage_cpu_share(&step->now, &step->before);
}

/* Tasks keep their places: an agent tells all of them each time. */
double top_task_cpu(const struct top_step *step, size_t i)
{
	const struct usage_reply *now = &step->now, *before = &step->before;

	if (i >= before->n || before->task[i].gtid != now->task[i].gtid ||
		now->time_usec <= before->time_usec)
		return -1;
	return usage_cpu_share_of(
		&now->tasks[i], &before->tasks[i], now->time_usec - before->time_usec);
}
