/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/ctl/target.h"

#include <fcntl.h>
#include <jansson.h>
#include <string.h>

#include "proctrack/proctrack.h"
#include "stepd/base/clock.h"
#include "stepd/base/json.h"
#include "stepd/base/parse.h"
#include "stepd/base/proc.h"
#include "stepd/client/client.h"
#include "stepd/plugin/plugin.h"
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

/* Where "/0-3" begins in "7.0/0-3" or "n1/7.0/0-3", else NULL: in "n1/7", a beginning of
 * "n1/7.0", the last part is not ranks, as there is no number and dot before it. */
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

/* Adds the remedy, for users of this program, to the library's message. */
static void add_remedy(
	const struct ctl *ctl, const char *given, bool with_ranks, struct stepd_error *error)
{
	const char *ranks = find_ranks(given);

	if (ranks && !with_ranks && (error->code == -ENOENT || error->code == -EINVAL))
		(void)client_error(error, -EINVAL,
			"%s takes whole steps only: the ranks '%.200s' are for ps, pids, signal and attach",
			ctl->verb->name, ranks + 1);
	else if (error->code == -ENOENT)
		(void)snprintf(error->text + strlen(error->text),
			sizeof(error->text) - strlen(error->text),
			" ('stepctl list' shows those that are there)");
}

/* with_ranks: "/0-3" behind the step's own name are ranks. 0, or -errno with the reason in error;
 * label and entry are set in any case, unless memory is lacking. */
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

/* Where nobody listens: 0 with the step's presence, or error's code. The step may end meanwhile. */
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
	if (steps_is_locked(fd) == 1) { /* it is just starting or ending */
		error->code = -EBUSY;
		return error->code;
	}
	if (faccessat(fd, "state.json", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return client_error(error, -ENOENT, "there is no step in '%s'", target->directory);
	target->presence = STEPD_ORPHAN;
	return 0;
}

/* 0 with target->client; without it where no agent lives, and target->presence is the reason. */
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
		return client_error(error, -ESRCH,
			"it has ended ('stepctl show %s' prints its result)", target->label);
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
		return client_error(error, -EPROTO, "'%s/result.json' is not a JSON object: %s",
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
			"it has just ended, and its result was not retained; see --keep-result of "
			"'stepd run'");
	if (r == -EBUSY) {
		*error = again;
		return r;
	}
	if (again.code || target->client)
		return error->code;
	return run_without_agent(ctl, request, target, error);
}

/* Sends the request, or acts without the agent. A failure is reported, and the connection closed.
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
			left_ms = 1; /* replies that are here already count; 0 would never wait */
		if (targets[i].client)
			request_finish(ctl, request, &targets[i], for_ever ? -1 : (int)left_ms);
	}
	for (i = 0; i < n; i++)
		target_clear(&targets[i]);
	free(targets);
	return 0;
}

/* ---- steps without their agent ------------------------------------------------------------- */

bool tracker_is_of_one(const struct step_entry *entry)
{
	return !entry->alive && strcmp(entry->proctrack, "proctrack/pgid") == 0;
}

/* The number of a process group is kept for the step by a child of its agent. Once that has died,
 * and init has reaped the child, only the step's tasks show that the group is still theirs. Taking
 * it over changes nothing in the group. */
static int take_group(struct proctrack *pt, const struct step_entry *entry, struct err *err)
{
	stepd_step_rec_t job = {.cont_id = entry->cont_id};
	_cleanup_free_ pid_t *pids = NULL;
	int n = 0, r = steps_list_living(entry->doc, &pids, &n);

	if (r < 0)
		return err_set(err, r, "read its tasks");
	r = proctrack_adopt(pt, &job, pids, n);
	return r < 0 && r != -ESRCH ? err_set(err, r, "take its process group") : 0;
}

int tracker_open(
	struct ctl *ctl, const struct step_entry *entry, struct proctrack **ret_pt, struct err *err)
{
	_cleanup_free_ char *plugin_dir = NULL;
	_cleanup_proctrack_ struct proctrack *pt = NULL;
	int r = plugin_dir_find(ctl->opt.plugin_dir, &plugin_dir, err);

	if (r < 0)
		return r;
	r = proctrack_set_root(json_get_text(entry->doc, "container_root", NULL));
	if (r < 0)
		return err_set(err, r, "set the root of the step's containers");
	r = proctrack_open(plugin_dir, entry->proctrack, &pt, err);
	if (r == 0 && tracker_is_of_one(entry))
		r = take_group(pt, entry, err);
	if (r == 0)
		*ret_pt = take_ptr(pt);
	return r;
}

int tracker_read_tasks(
	const struct step_entry *entry, stepd_step_task_info_t **ret_tasks, size_t *ret_count)
{
	const json_t *rows = json_object_get(entry->doc, "tasks"), *row;
	size_t i, n = json_array_size(rows);
	stepd_step_task_info_t *tasks = calloc(n + 1, sizeof(*tasks));

	if (!tasks)
		return -ENOMEM;
	json_array_foreach (rows, i, row) {
		tasks[i].id = (uint32_t)i;
		tasks[i].gtid = (uint32_t)json_get_int(row, "rank", 0);
		tasks[i].pid = (pid_t)json_get_int(row, "pid", 0);
	}
	*ret_tasks = tasks;
	*ret_count = n;
	return 0;
}

int tracker_copy_entry(const struct step_entry *entry, struct step_entry *ret_copy)
{
	char *step = strdup(entry->step);

	if (!step)
		return -ENOMEM;
	*ret_copy = *entry;
	ret_copy->step = step;
	ret_copy->doc = json_incref((json_t *)entry->doc);
	ret_copy->dir_fd = -1;
	return 0;
}

void tracker_free_entry(struct step_entry *copy)
{
	free((char *)copy->step);
	json_decref((json_t *)copy->doc);
	copy->dir_fd = close_fd(copy->dir_fd);
}

/* ---- a step without an agent --------------------------------------------------------------- */

static int check_owner(const struct step_entry *entry, struct err *err)
{
	if (entry->owner == geteuid())
		return 0;
	if (geteuid() != 0)
		return err_set_text(err, -EPERM,
			"its agent has died; only root and the user whose agent ran it (uid %u) may "
			"do this",
			(unsigned)entry->owner);
	return err_set_text(err, -EPERM,
		"it belongs to an agent of another user, which has died; do this as uid %u",
		(unsigned)entry->owner);
}

static int check_processes(const struct step_entry *entry, struct err *err)
{
	if (strcmp(entry->proctrack, "proctrack/linuxproc") != 0)
		return 0;
	return err_set_text(err, -ECONNREFUSED,
		"its agent has died, and with %s nobody else knows its processes; 'stepd adopt %s' "
		"takes the step over",
		entry->proctrack, entry->step);
}

static int on_entry(const struct step_entry *entry, void *userdata)
{
	int r = tracker_copy_entry(entry, userdata);

	return r < 0 ? r : 1;
}

int orphan_open(struct ctl *ctl, const struct target *target, unsigned needs, struct orphan *o,
	struct err *err)
{
	_cleanup_close_ int fd =
		open(target->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	int r;

	if (fd < 0)
		return err_set(err, -errno, "open '%s'", target->directory);
	r = steps_show(fd, on_entry, &o->entry);
	if (r <= 0)
		return r < 0 ? err_set(err, r, "read its state")
			     : err_set_text(err, -ESRCH, "its agent has died and left no state");
	o->entry.dir_fd = take_fd(&fd);
	r = needs & ORPHAN_OWNER ? check_owner(&o->entry, err) : 0;
	if (r == 0 && needs & ORPHAN_PROCESSES)
		r = check_processes(&o->entry, err);
	return r < 0 ? r : tracker_open(ctl, &o->entry, &o->pt, err);
}

void orphan_close(struct orphan *o)
{
	tracker_free_entry(&o->entry);
	o->pt = proctrack_close(o->pt);
}

/* ---- its processes ------------------------------------------------------------------------- */

struct rank_match {
	uint32_t rank;
	bool found;
};

static int match_rank(uint32_t n, void *userdata)
{
	struct rank_match *match = userdata;

	match->found |= n == match->rank;
	return 0;
}

/* tracker_list() has checked the ranks. */
static bool is_of_ranks(const char *ranks, uint32_t rank)
{
	struct rank_match match = {.rank = rank};

	if (!ranks)
		return true;
	return rank != STEPD_MEMBER_NO_RANK &&
		parse_ranges(ranks, UINT32_MAX, match_rank, &match) == 0 && match.found;
}

static int list_members(const struct orphan *o, const char *ranks, bool start_ticks,
	struct stepd_process **ret_processes, size_t *ret_count, struct err *err)
{
	_cleanup_free_ stepd_step_task_info_t *tasks = NULL;
	_cleanup_free_ stepd_member_t *members = NULL;
	struct stepd_process *v = NULL;
	size_t n_tasks = 0, count = 0;
	int n = 0, i, r;

	r = tracker_read_tasks(&o->entry, &tasks, &n_tasks);
	if (r == 0)
		r = proctrack_get_members(o->pt, o->entry.cont_id, tasks, n_tasks, &members, &n);
	if (r == -ESRCH)
		r = n = 0; /* it is empty */
	if (r == 0 && !(v = calloc((size_t)n + 1, sizeof(*v))))
		r = -ENOMEM;
	if (r < 0)
		return err_set(err, r, "list its processes");
	for (i = 0; i < n; i++) {
		const stepd_member_t *member = &members[i];
		struct procstat st = {0};

		if (!is_of_ranks(ranks, member->rank) ||
			(start_ticks && procstat_read(member->pid, &st) < 0))
			continue; /* or it has ended meanwhile */
		v[count++] = (struct stepd_process){.pid = member->pid,
			.rank = member->rank == STEPD_MEMBER_NO_RANK ? STEPD_NO_RANK : member->rank,
			.start_ticks = st.start_ticks};
	}
	*ret_processes = v;
	*ret_count = count;
	return 0;
}

int tracker_list(struct ctl *ctl, struct target *target, bool start_ticks,
	struct stepd_process **ret_processes, size_t *ret_count, struct stepd_error *error)
{
	struct rank_match none = {0};
	_cleanup_orphan_ struct orphan o = ORPHAN_INIT;
	struct err err = ERR_INIT;
	int r;

	if (target->ranks && parse_ranges(target->ranks, UINT32_MAX, match_rank, &none) < 0)
		return client_error(
			error, -EINVAL, "'%.100s' are not ranks such as 0-3,8", target->ranks);
	if (target->client)
		return stepd_list_pids(target->client, target->ranks, start_ticks, ret_processes,
			ret_count, error);
	r = orphan_open(ctl, target, ORPHAN_PROCESSES, &o, &err);
	if (r == 0)
		r = list_members(&o, target->ranks, start_ticks, ret_processes, ret_count, &err);
	return r < 0 ? client_error_forward(error, &err) : 0;
}
