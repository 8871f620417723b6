/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/ctl/target.h"

#include <fcntl.h>
#include <jansson.h>
#include <string.h>

#include "stepd/base/clock.h"
#include "stepd/client/client.h"
#include "stepd/state/steps.h"

static void target_clear(struct target *target)
{
	target->client = stepd_disconnect(target->client);
	free(take_ptr(target->label));
	free(take_ptr(target->node));
	free(take_ptr(target->ranks));
	free(take_ptr(target->directory));
}

/* ---- the step ------------------------------------------------------------------------------ */

/* Where "/0-3" begins in "7.0/0-3" or "n1/7.0/0-3", else NULL: in "n1/7", a beginning of "n1/7.0",
 * the last part is no ranks, as no number and dot come before it. */
static const char *find_ranks(const char *given)
{
	const char *slash = strrchr(given, '/'), *before;

	if (!slash || !slash[1] || slash[1 + strspn(slash + 1, "0123456789,-")])
		return NULL;
	for (before = slash; before > given && before[-1] != '/'; before--)
		;
	before += strspn(before, "0123456789");
	return *before == '.' ? slash : NULL;
}

/* "n1_7.0" is the name of its directory. */
static int set_names(struct target *target)
{
	const char *name = strrchr(target->directory, '/');
	const char *dash;

	name = name ? name + 1 : target->directory;
	dash = strrchr(name, '_');
	free(target->label);
	free(target->node);
	target->label = strdup(dash ? dash + 1 : name);
	target->node = strndup(name, dash ? (size_t)(dash - name) : 0);
	return target->label && target->node ? 0 : -ENOMEM;
}

/* Adds what a user of this program can do to the library's message. */
static void add_remedy(
	const struct ctl *ctl, const char *given, bool with_ranks, struct stepd_error *error)
{
	const char *ranks = find_ranks(given);

	if (ranks && !with_ranks && (error->code == -ENOENT || error->code == -EINVAL))
		(void)client_error(error, -EINVAL,
			"%s takes whole steps only: the ranks '%.200s' are for ps, pids and signal",
			ctl->verb->name, ranks + 1);
	else if (error->code == -ENOENT)
		(void)snprintf(error->text + strlen(error->text),
			sizeof(error->text) - strlen(error->text),
			" ('stepctl list' shows those that are there)");
}

/* with_ranks: "/0-3" behind the step's own name are ranks. 0, or -errno with the reason in error;
 * label and entry are set either way, unless it is for want of memory. */
static int target_find(struct ctl *ctl, const char *given, bool with_ranks, struct target *target,
	struct stepd_error *error)
{
	const char *ranks = with_ranks ? find_ranks(given) : NULL;
	int r;

	target->label = strndup(given, ranks ? (size_t)(ranks - given) : strlen(given));
	target->node = strdup("");
	target->ranks = ranks ? strdup(ranks + 1) : NULL;
	if (!target->label || !target->node || (ranks && !target->ranks))
		return client_no_memory(error);
	r = stepd_find_step(ctl->opt.runtime_dir, target->label, &target->directory, error);
	if (r < 0)
		add_remedy(ctl, given, with_ranks, error);
	r = r < 0 ? error->code : r;
	if (r == 0)
		r = set_names(target) < 0 ? client_no_memory(error) : 0;
	if (r != -ENOMEM)
		target->entry = ctl_add_entry(ctl, target);
	return r;
}

/* No listener: 0 with the step's presence, or error's code. The step may end meanwhile. */
static int find_presence(struct target *target, struct stepd_error *error)
{
	_cleanup_close_ int fd =
		open(target->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0 && errno == ENOENT)
		return client_error(error, -ENOENT, "there is no step in '%s'", target->directory);
	if (fd < 0)
		return error->code;
	if (faccessat(fd, "result.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
		target->presence = STEPD_ENDED;
		return 0;
	}
	if (steps_is_locked(fd) == 1) { /* it is starting, or ending, in this moment */
		error->code = -EBUSY;
		return error->code;
	}
	if (faccessat(fd, "state.json", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return client_error(error, -ENOENT, "there is no step in '%s'", target->directory);
	target->presence = STEPD_ORPHAN;
	return 0;
}

/* 0 with target->client, or where no agent lives without it, and target->presence tells why. */
static int target_connect(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	int r = stepd_connect_directory(
		target->directory, ctl_timeout_ms(ctl), &target->client, error);

	target->presence = STEPD_LIVES;
	return r == -ECONNREFUSED || r == -ECONNRESET ? find_presence(target, error) : r;
}

/* A step without an agent: it has ended, or its agent has died. */
static int target_gone(const struct target *target, struct stepd_error *error)
{
	if (target->presence == STEPD_ENDED)
		return client_error(
			error, -ESRCH, "it has ended ('stepctl show %s' tells how)", target->label);
	return client_error(error, -ECONNREFUSED,
		"its agent has died; 'stepd adopt %s' takes the step over", target->label);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

int target_read_result(const struct target *target, json_t **ret_result, struct stepd_error *error)
{
	_cleanup_free_ char *text = NULL;
	json_auto_t *result = NULL;
	json_error_t why;
	int r = stepd_read_result(target->directory, &text, error);

	if (r < 0)
		return r;
	result = json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
	if (!json_is_object(result))
		return client_error(error, -EPROTO, "'%s/result.json' is no JSON object: %s",
			target->directory, result ? "it is of another type" : why.text);
	*ret_result = take_ptr(result);
	return 0;
}

/* ---- requests ------------------------------------------------------------------------------ */

static int run_without_agent(struct ctl *ctl, const struct request *request, struct target *target,
	struct stepd_error *error)
{
	if (request->without_agent && request->without_agent_if == target->presence)
		return request->without_agent(ctl, target, error);
	return target_gone(target, error);
}

/* r: of run() or without_agent(). */
static void request_report(struct ctl *ctl, const struct request *request, struct target *target,
	int r, struct stepd_error *error)
{
	if (r == 0 && request->done && ctl_put(target->entry, "done", json_true()) < 0)
		r = client_error(error, -ENOMEM, "it is done, with no memory left to report it");
	if (r < 0)
		ctl_report(ctl, target->label, error, target->entry);
}

/* A step whose agent went away without a reply may have ended all the same, or is ending. */
static int request_again(struct ctl *ctl, const struct request *request, struct target *target,
	struct stepd_error *error)
{
	struct stepd_error again = {0};
	int r;

	target->client = stepd_disconnect(target->client);
	r = target_connect(ctl, target, &again);
	if (r == -ENOENT)
		return client_error(error, -ENOENT,
			"it has ended in this moment, and its result was not kept; see --keep-result of "
			"'stepd run'");
	if (r == -EBUSY) {
		*error = again;
		return r;
	}
	if (again.code || target->client)
		return error->code;
	return run_without_agent(ctl, request, target, error);
}

/* Sends the request, or does without the agent. A failure is reported, and the connection closed.
 */
static void request_send(
	struct ctl *ctl, const struct request *request, const char *given, struct target *target)
{
	struct stepd_error error = {0};
	int r = target_find(ctl, given, request->with_ranks, target, &error);

	target->userdata = request->userdata;
	if (r == 0)
		r = target_connect(ctl, target, &error);
	if (r == 0 && target->client) {
		if (!request->in_turn)
			client_split_calls(target->client);
		r = request->run(ctl, target, &error);
		if (r == -EAGAIN && !request->in_turn)
			return;
		if (r == -ECONNRESET)
			r = request_again(ctl, request, target, &error);
	} else if (r == 0) {
		r = run_without_agent(ctl, request, target, &error);
	}
	request_report(ctl, request, target, r, &error);
	target->client = stepd_disconnect(target->client);
}

static void request_finish(
	struct ctl *ctl, const struct request *request, struct target *target, int timeout_ms)
{
	struct stepd_error error = {0};
	int r;

	stepd_set_timeout(target->client, timeout_ms);
	r = request->run(ctl, target, &error);
	if (r == -ECONNRESET)
		r = request_again(ctl, request, target, &error);
	else if (r == -ETIMEDOUT && request->for_ever)
		r = client_error(&error, r, "it has not ended within the --timeout of %lld ms",
			(long long)ctl->opt.timeout_ms);
	request_report(ctl, request, target, r, &error);
}

int request_steps(struct ctl *ctl, const struct request *request)
{
	int i, n = request->steps ? request->steps : ctl->count;
	struct target *targets = calloc((size_t)n, sizeof(*targets));
	bool for_ever = request->for_ever && ctl->opt.timeout_ms < 0;
	int64_t deadline_ms, left_ms;

	if (!targets)
		return err_set(&ctl->err, -ENOMEM, "send requests to %d steps", n);
	for (i = 0; i < n; i++)
		request_send(ctl, request, ctl->args[i], &targets[i]);
	deadline_ms = clock_now_ms() + ctl_timeout_ms(ctl);
	for (i = 0; i < n; i++) {
		left_ms = deadline_ms - clock_now_ms();
		if (left_ms < 1)
			left_ms = 1; /* what is here already counts; 0 would never wait */
		if (targets[i].client)
			request_finish(ctl, request, &targets[i], for_ever ? -1 : (int)left_ms);
	}
	for (i = 0; i < n; i++)
		target_clear(&targets[i]);
	free(targets);
	return 0;
}
