/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/ctl/ask.h"

#include <jansson.h>
#include <limits.h>

#include "stepd/base/clock.h"

int ask_parse(const char *text, json_t **ret_doc, struct stepd_error *error)
{
	json_error_t why;
	json_t *doc = json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);

	if (!doc || !json_is_object(doc)) {
		json_decref(doc);
		return target_error(
			error, -EPROTO, "what its agent answered is no JSON object: %s", why.text);
	}
	*ret_doc = doc;
	return 0;
}

int ask_take_done(
	struct ctl *ctl, struct target *target, const json_t *reply, struct stepd_error *error)
{
	(void)ctl;
	(void)reply;
	if (ctl_put(target->entry, "done", json_true()) < 0)
		return target_error(error, -ENOMEM, "it is done, with no memory left to tell");
	return 0;
}

static int send_call(
	struct ctl *ctl, const struct ask *ask, struct target *target, struct stepd_error *error)
{
	_cleanup_free_ char *text = NULL;
	json_t *parameters;

	if (!ask->make)
		return stepd_start_call(target->client, ask->method, NULL, 0, error);
	parameters = ask->make(ctl, target, error);
	text = parameters ? json_dumps(parameters, JSON_COMPACT) : NULL;
	json_decref(parameters);
	if (!text)
		return error->code ? error->code : target_error(error, -ENOMEM, "no memory left");
	return stepd_start_call(target->client, ask->method, text, 0, error);
}

/* Asks one, or does without its agent. On failure it is said, and the connection closed. */
static void ask_one(
	struct ctl *ctl, const struct ask *ask, const char *given, struct target *target)
{
	struct stepd_error error = {0};
	int r = target_find(ctl, given, ask->with_ranks, target, &error);

	if (r == 0)
		r = target_connect(ctl, target, &error);
	if (r == 0 && target->client)
		r = send_call(ctl, ask, target, &error);
	else if (r == 0 && ask->gone_ok >> target->presence & 1)
		r = ask->gone(ctl, target, &error);
	else if (r == 0)
		r = target_say_gone(target, &error);
	if (r == 0)
		return;
	ctl_complain(ctl, target->label, &error, target->entry);
	target->client = stepd_disconnect(target->client);
}

/* A step whose agent went away without an answer may have ended all the same. */
static int look_again(
	struct ctl *ctl, const struct ask *ask, struct target *target, struct stepd_error *error)
{
	struct stepd_error again = {0};

	target->client = stepd_disconnect(target->client);
	if (target_connect(ctl, target, &again) == -ENOENT)
		return target_error(error, -ENOENT,
			"it has ended in this moment, and its result was not kept; see --keep-result of "
			"'stepd run'");
	if (again.code || target->client)
		return error->code;
	if (ask->gone_ok >> target->presence & 1)
		return ask->gone(ctl, target, error);
	return target_say_gone(target, error);
}

static int take_answer(struct ctl *ctl, const struct ask *ask, struct target *target,
	int timeout_ms, struct stepd_error *error)
{
	_cleanup_free_ char *text = NULL;
	json_t *reply = NULL;
	bool continues;
	int r = stepd_next(target->client, timeout_ms, &text, &continues, error);

	if (r == -ECONNRESET)
		return look_again(ctl, ask, target, error);
	if (r == -ETIMEDOUT && ask->for_ever)
		return target_error(error, r, "it has not ended within the --timeout of %llu ms",
			(unsigned long long)ctl->timeout_ms);
	if (r == 0)
		r = ask_parse(text, &reply, error);
	if (r == 0)
		r = (ask->take ? ask->take : ask_take_done)(ctl, target, reply, error);
	json_decref(reply);
	return r;
}

static void take_answers(struct ctl *ctl, const struct ask *ask, struct target *targets, int n)
{
	bool for_ever = ask->for_ever && !ctl->timeout_given;
	int64_t deadline_ms = clock_now_ms() + ctl_timeout_ms(ctl), left_ms;
	int i;

	for (i = 0; i < n; i++) {
		struct stepd_error error = {0};

		if (!targets[i].client)
			continue;
		left_ms = deadline_ms - clock_now_ms();
		if (left_ms < 1)
			left_ms =
				1; /* what is here already counts; 0 would be no deadline passed */
		if (take_answer(ctl, ask, &targets[i], for_ever ? -1 : (int)left_ms, &error) < 0)
			ctl_complain(ctl, targets[i].label, &error, targets[i].entry);
	}
}

int ask_steps(struct ctl *ctl, const struct ask *ask)
{
	int i, n = ask->steps ? ask->steps : ctl->count;
	struct target *targets = calloc((size_t)n, sizeof(*targets));

	if (!targets)
		return err_set(&ctl->err, -ENOMEM, "ask %d steps", n);
	for (i = 0; i < n; i++)
		ask_one(ctl, ask, ctl->args[i], &targets[i]);
	take_answers(ctl, ask, targets, n);
	for (i = 0; i < n; i++)
		target_clear(&targets[i]);
	free(targets);
	return 0;
}
