/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/proctrack.h"

#include <poll.h>
#include <signal.h>
#include <string.h>

#include "proctrack/generic.h"
#include "proctrack/members.h"
#include "proctrack/procusage.h"
#include "stepd/base/clock.h"
#include "stepd/base/proc.h"
#include "stepd/plugin/plugin.h"

/* The plugin's functions, in the order of <stepd/proctrack.h>. */
struct proctrack_ops {
	int (*create)(stepd_step_rec_t *job);
	int (*add)(stepd_step_rec_t *job, pid_t pid);
	int (*signal)(uint64_t id, int signal);
	int (*destroy)(uint64_t id);
	uint64_t (*find)(pid_t pid);
	uint32_t (*get_pids)(uint64_t id, pid_t **pids, int *npids);
	int (*place)(const stepd_step_rec_t *job, const char *scope, char *text, size_t size);
	int (*wait)(uint64_t id, int timeout_ms);
	int (*has_pid)(uint64_t id, pid_t pid);
	int (*suspend)(uint64_t id);
	int (*resume)(uint64_t id);
	int (*is_suspended)(uint64_t id, int *suspended, char *text, size_t size);
	int (*clone_fd)(const stepd_step_rec_t *job, uint32_t local_id);
	int (*service_fd)(const stepd_step_rec_t *job, int *may_clone);
	int (*spans_sessions)(void);
	void (*task_ended)(const stepd_step_rec_t *job, uint32_t local_id);
	int (*event_fd)(uint64_t id);
	int (*get_root)(char *path, size_t size);
	int (*usage)(uint64_t id, const uint32_t *rank, stepd_usage_t *usage);
	int (*set_limits)(uint64_t id, const uint32_t *rank, const stepd_limits_t *limits,
		char *text, size_t size);
	int (*oom_fd)(uint64_t id);
	int (*get_members)(uint64_t id, stepd_member_t **members, int *n);
	int (*find_member)(uint64_t id, pid_t pid, uint32_t *rank);
	int (*signal_task)(uint64_t id, uint32_t rank, int signal);
	int (*adopt)(stepd_step_rec_t *job, const pid_t *pids, int n);
};

struct proctrack {
	struct plugin *plugin;
	struct proctrack_ops ops;
	struct generic_ops generic;
	struct generic_stopped *stopped;
	uint64_t own_id; /* of the container that this process created or adopted, 0 for none */
	bool killed;     /* its members of a moment were sent SIGKILL */
	char note[ERR_TEXT_SIZE];
};

/* SLURM_ERROR and errno into -errno; a plugin that forgot errno gets -EIO. */
static int from_slurm(int rc)
{
	if (rc == SLURM_SUCCESS)
		return 0;
	return errno > 0 ? -errno : -EIO;
}

/* Calls a function of the plugin: 0 or -errno, -EOPNOTSUPP where it has none. */
#define call(pt, function, ...)                                                                    \
	({                                                                                         \
		errno = 0;                                                                         \
		(pt)->ops.function ? from_slurm((int)(pt)->ops.function(__VA_ARGS__))              \
				   : -EOPNOTSUPP;                                                  \
	})

/* The same of one that gives a descriptor. */
#define call_fd(pt, function, ...)                                                                 \
	({                                                                                         \
		int fd_ = -1;                                                                      \
		errno = EOPNOTSUPP;                                                                \
		if ((pt)->ops.function) {                                                          \
			errno = 0;                                                                 \
			fd_ = (pt)->ops.function(__VA_ARGS__);                                     \
		}                                                                                  \
		fd_ >= 0 ? fd_ : from_slurm(SLURM_ERROR);                                          \
	})

/* The least between two polls of a suspension that takes its time. */
#define SUSPEND_PAUSE_MS 10

/* How often the processes are polled that do not stand, once the time is up. */
#define POLLS_MAX 50

#define MANDATORY(f)                                                                               \
	{                                                                                          \
		.name = "proctrack_p_" #f, .offset = offsetof(struct proctrack_ops, f)             \
	}
#define OPTIONAL(f)                                                                                \
	{                                                                                          \
		.name = "proctrack_p_" #f, .offset = offsetof(struct proctrack_ops, f),            \
		.optional = true                                                                   \
	}

static const struct plugin_symbol symbols[] = {
	MANDATORY(create),
	MANDATORY(add),
	MANDATORY(signal),
	MANDATORY(destroy),
	MANDATORY(find),
	MANDATORY(get_pids),
	OPTIONAL(place),
	OPTIONAL(wait),
	OPTIONAL(has_pid),
	OPTIONAL(suspend),
	OPTIONAL(resume),
	OPTIONAL(is_suspended),
	OPTIONAL(clone_fd),
	OPTIONAL(service_fd),
	OPTIONAL(spans_sessions),
	OPTIONAL(task_ended),
	OPTIONAL(event_fd),
	OPTIONAL(get_root),
	OPTIONAL(usage),
	OPTIONAL(set_limits),
	OPTIONAL(oom_fd),
	OPTIONAL(get_members),
	OPTIONAL(find_member),
	OPTIONAL(signal_task),
	OPTIONAL(adopt),
};

static const struct plugin_kind kind = {
	.name = "proctrack",
	.symbols = symbols,
	.symbols_count = ARRAY_SIZE(symbols),
};

const struct plugin_kind *proctrack_plugin_kind(void)
{
	return &kind;
}

static int generic_get_pids(void *ctx, uint64_t id, pid_t **ret_pids, int *ret_count)
{
	return proctrack_get_pids(ctx, id, ret_pids, ret_count);
}

static int generic_signal(void *ctx, uint64_t id, int signal)
{
	return proctrack_signal(ctx, id, signal);
}

static int open_backend(
	const char *dir, const char *name, struct proctrack **ret_pt, struct err *err)
{
	_cleanup_proctrack_ struct proctrack *pt = calloc(1, sizeof(*pt));
	int r;

	if (!pt)
		return err_set(err, -ENOMEM, "open proctrack plugin %s", name);
	r = plugin_load(dir, &kind, name, &pt->ops, &pt->plugin, err);
	if (r < 0)
		return r;
	pt->generic = (struct generic_ops){
		.get_pids = generic_get_pids, .signal = generic_signal, .ctx = pt};
	pt->stopped = generic_stopped_new();
	if (!pt->stopped)
		return err_set(err, -ENOMEM, "open proctrack plugin %s", name);
	*ret_pt = take_ptr(pt);
	return 0;
}

/* A tracker for where no cgroup can be had. */
static int open_second_best(
	const char *dir, const char *reason, struct proctrack **ret_pt, struct err *err)
{
	struct proctrack *pt;
	int r = open_backend(dir, "linuxproc", &pt, err);

	if (r < 0)
		return r;
	(void)snprintf(pt->note, sizeof(pt->note),
		"processes are tracked by proctrack/linuxproc, which can lose some, because "
		"proctrack/cgroup can't be used: %.800s",
		reason);
	*ret_pt = pt;
	return 0;
}

static int open_auto(const char *dir, struct proctrack **ret_pt, struct err *err)
{
	_cleanup_proctrack_ struct proctrack *pt = NULL;
	char reason[512];
	struct err first = ERR_INIT;
	int r;

	if (secure_getenv(STEPD_CGROUP_ROOT_ENV)) /* one that is named is to be used, or to fail */
		return open_backend(dir, "cgroup", ret_pt, err);
	r = open_backend(dir, "cgroup", &pt, &first);
	if (r == 0 && plugin_probe_here(pt->plugin, reason, sizeof(reason))) {
		*ret_pt = take_ptr(pt);
		return 0;
	}
	if (r < 0)
		(void)snprintf(reason, sizeof(reason), "%.500s", first.text);
	return open_second_best(dir, reason, ret_pt, err);
}

static bool is_auto(const char *name)
{
	return strcmp(name, PROCTRACK_AUTO) == 0 || strcmp(name, "proctrack/" PROCTRACK_AUTO) == 0;
}

int proctrack_open(
	const char *plugin_dir, const char *name, struct proctrack **ret_pt, struct err *err)
{
	return is_auto(name) ? open_auto(plugin_dir, ret_pt, err)
			     : open_backend(plugin_dir, name, ret_pt, err);
}

static int place(
	struct proctrack *pt, const stepd_step_rec_t *job, const char *scope, struct err *err)
{
	char text[ERR_TEXT_SIZE] = "";
	int r;

	if (!pt->ops.place) {
		if (strcmp(scope, "yes") != 0)
			return 0;
		return err_set_text(err, -EOPNOTSUPP,
			"a scope of systemd is requested, and %s has none; use proctrack/cgroup",
			proctrack_get_type(pt));
	}
	r = call(pt, place, job, scope, text, sizeof(text));
	text[sizeof(text) - 1] = '\0';
	if (r == 0 && text[0])
		(void)snprintf(pt->note, sizeof(pt->note), "%s", text);
	if (r < 0)
		return text[0] ? err_set_text(err, r, "%s", text)
			       : err_set(err, r, "place the step");
	return 0;
}

int proctrack_open_for_step(const char *plugin_dir, const char *name, const char *scope,
	const stepd_step_rec_t *job, struct proctrack **ret_pt, struct err *err)
{
	_cleanup_proctrack_ struct proctrack *pt = NULL;
	struct err reason = ERR_INIT;
	bool may_fall_back;
	int r;

	/* With a root or a scope it is cgroup, or an error. */
	may_fall_back =
		is_auto(name) && strcmp(scope, "yes") != 0 && !secure_getenv(STEPD_CGROUP_ROOT_ENV);
	r = is_auto(name) && !may_fall_back ? open_backend(plugin_dir, "cgroup", &pt, err)
					    : proctrack_open(plugin_dir, name, &pt, err);
	if (r < 0)
		return r;
	r = place(pt, job, scope, &reason);
	if (r < 0 && may_fall_back) {
		pt = proctrack_close(pt);
		return open_second_best(plugin_dir, reason.text, ret_pt, err);
	}
	if (r < 0)
		return err_set_text(err, r, "%s", reason.text);
	*ret_pt = take_ptr(pt);
	return 0;
}

int proctrack_set_root(const char *root)
{
	int r = root ? setenv(STEPD_CGROUP_ROOT_ENV, root, 1) : unsetenv(STEPD_CGROUP_ROOT_ENV);

	return r < 0 ? -errno : 0;
}

struct proctrack *proctrack_close(struct proctrack *pt)
{
	if (pt) {
		plugin_unload(pt->plugin);
		pt->stopped = generic_stopped_free(pt->stopped);
	}
	free(pt);
	return NULL;
}

const char *proctrack_get_note(const struct proctrack *pt)
{
	return pt->note[0] ? pt->note : NULL;
}

const char *proctrack_get_type(const struct proctrack *pt)
{
	return plugin_get_type(pt->plugin);
}

int proctrack_create(struct proctrack *pt, stepd_step_rec_t *job)
{
	int r = call(pt, create, job);

	if (r == 0 && job->cont_id == 0)
		return -EPROTO; /* the contract of <stepd/proctrack.h>: an id that means something
				 */
	pt->own_id = r == 0 ? job->cont_id : 0;
	pt->stopped->owned = r == 0;
	return r;
}

int proctrack_adopt(struct proctrack *pt, stepd_step_rec_t *job, const pid_t *pids, int n)
{
	int r = pt->ops.adopt ? call(pt, adopt, job, pids, n) : 0;

	/* The processes that were stopped before a suspension of the dead agent's are not known any
	 * more: a resumption continues all. */
	if (r < 0)
		return r;
	pt->own_id = job->cont_id;
	pt->stopped->owned = pt->stopped->active = false;
	pt->stopped->n = 0;
	return 0;
}

int proctrack_add(struct proctrack *pt, stepd_step_rec_t *job, pid_t pid)
{
	return call(pt, add, job, pid);
}

int proctrack_signal(struct proctrack *pt, uint64_t id, int signal)
{
	int r = call(pt, signal, id, signal);

	if (r == 0 && signal == SIGKILL && id == pt->own_id)
		pt->killed = true;
	return r;
}

bool proctrack_was_killed(const struct proctrack *pt)
{
	return pt->killed;
}

int proctrack_destroy(struct proctrack *pt, uint64_t id)
{
	int r = call(pt, destroy, id);

	if (r == 0 && id == pt->own_id)
		pt->own_id = 0;
	return r;
}

uint64_t proctrack_find(struct proctrack *pt, pid_t pid)
{
	return pt->ops.find(pid);
}

int proctrack_get_pids(struct proctrack *pt, uint64_t id, pid_t **ret_pids, int *ret_count)
{
	pid_t *pids = NULL;
	int count = 0, r = call(pt, get_pids, id, &pids, &count);

	if (r < 0)
		return r;
	*ret_pids = pids;
	*ret_count = count;
	return 0;
}

bool proctrack_is_populated(struct proctrack *pt, uint64_t id)
{
	return proctrack_signal(pt, id, 0) != -ESRCH;
}

int proctrack_wait(struct proctrack *pt, uint64_t id, int timeout_ms)
{
	return pt->ops.wait ? call(pt, wait, id, timeout_ms)
			    : generic_wait(&pt->generic, id, timeout_ms);
}

bool proctrack_has_pid(struct proctrack *pt, uint64_t id, pid_t pid)
{
	return pt->ops.has_pid ? pt->ops.has_pid(id, pid) != 0
			       : generic_has_pid(&pt->generic, id, pid);
}

/* The backend's own way, again and again until the deadline. */
static int suspend_by_backend(struct proctrack *pt, uint64_t id, int timeout_ms)
{
	int64_t deadline = clock_now_ms() + timeout_ms, begin;
	int r;

	for (;;) {
		begin = clock_now_ms();
		r = call(pt, suspend, id);
		if (r != -ETIMEDOUT || clock_now_ms() >= deadline)
			return r;
		if (clock_now_ms() - begin < SUSPEND_PAUSE_MS) /* it does not wait itself */
			(void)poll(NULL, 0, SUSPEND_PAUSE_MS);
	}
}

static int err_moving(
	struct proctrack *pt, uint64_t id, int timeout_ms, const char *states, struct err *err)
{
	char text[ERR_TEXT_SIZE / 2];
	int i;

	/* A process that loops in the kernel is asleep at times. */
	for (i = 0; i < POLLS_MAX; i++) {
		generic_describe_moving(&pt->generic, id, states, text, sizeof(text));
		if (text[0])
			break;
		(void)poll(NULL, 0, 1);
	}
	return err_set_text(err, -ETIMEDOUT, "still running after %.10g s: %s",
		(double)timeout_ms / 1e3, text[0] ? text : "a process that is not known");
}

int proctrack_suspend(struct proctrack *pt, uint64_t id, int timeout_ms, struct err *err)
{
	const char *states = GENERIC_FROZEN_STATES;
	int r = suspend_by_backend(pt, id, timeout_ms);

	if (r == -EOPNOTSUPP) {
		states = GENERIC_STOPPED_STATES;
		r = generic_suspend(&pt->generic, id, timeout_ms, pt->stopped);
	}
	if (r == 0)
		return 0;
	if (r == -ETIMEDOUT)
		(void)err_moving(pt, id, timeout_ms, states, err);
	else
		(void)err_set(err, r, "stop the step's processes with %s", proctrack_get_type(pt));
	if (r != -ESRCH)
		(void)!proctrack_resume(pt, id, NULL); /* r has the reason */
	return r;
}

void proctrack_adopt_suspended(struct proctrack *pt)
{
	if (proctrack_can_freeze(pt))
		return;
	pt->stopped->active = true;
	pt->stopped->n = 0;
}

struct generic_stopped *proctrack_get_stopped(struct proctrack *pt)
{
	return pt->stopped;
}

bool proctrack_can_freeze(const struct proctrack *pt)
{
	return pt->ops.suspend && pt->ops.resume;
}

int proctrack_is_suspended(
	struct proctrack *pt, uint64_t id, bool *ret_suspended, char *text, size_t size)
{
	int suspended = 0, r = -EOPNOTSUPP;

	text[0] = '\0';
	if (!pt->stopped->active)
		r = call(pt, is_suspended, id, &suspended, text, size);
	text[size - 1] = '\0';
	if (r == 0)
		*ret_suspended = suspended != 0;
	if (r != -EOPNOTSUPP)
		return r;
	r = generic_is_suspended(&pt->generic, id, ret_suspended);
	return r == 0 && *ret_suspended && !pt->stopped->active ? -EAGAIN : r;
}

static int resume(struct proctrack *pt, uint64_t id)
{
	if (!pt->ops.resume || pt->stopped->active)
		return generic_resume(&pt->generic, id, pt->stopped);
	return call(pt, resume, id);
}

int proctrack_resume(struct proctrack *pt, uint64_t id, struct err *err)
{
	char text[ERR_TEXT_SIZE / 2];
	bool suspended;
	int r = resume(pt, id);

	if (r == -EBUSY && proctrack_is_suspended(pt, id, &suspended, text, sizeof(text)) == 0 &&
		text[0])
		return err_set_text(err, r, "%s", text);
	return r < 0
		? err_set(err, r, "let the step's processes go on with %s", proctrack_get_type(pt))
		: 0;
}

int proctrack_usage(
	struct proctrack *pt, uint64_t id, const uint32_t *rank, stepd_usage_t *ret_usage)
{
	*ret_usage = (stepd_usage_t){0};
	if (pt->ops.usage)
		return call(pt, usage, id, rank, ret_usage);
	/* By pids alone the task of a process is not known. */
	return rank ? -EOPNOTSUPP : generic_usage(&pt->generic, id, ret_usage);
}

static bool has_gap(const stepd_usage_t *usage)
{
	int i;

	for (i = 0; i < STEPD_USAGE_COUNT; i++) {
		if (procusage_has((enum stepd_usage_value)i) && !usage->source[i])
			return true;
	}
	return false;
}

/* The usage that the backend itself counts. *ret_gap: some of it may be had from /proc. */
static int count_tasks(struct proctrack *pt, uint64_t id, const stepd_step_task_info_t *tasks,
	size_t n, stepd_usage_t *ret_step, stepd_usage_t *ret_tasks, bool *ret_gap)
{
	size_t i;
	int r;

	*ret_step = (stepd_usage_t){0};
	*ret_gap = true;
	if (!pt->ops.usage)
		return 0;
	r = proctrack_usage(pt, id, NULL, ret_step);
	if (r < 0)
		return r;
	*ret_gap = has_gap(ret_step);
	for (i = 0; i < n; i++) {
		/* its part may be gone, or never have been: that is no failure */
		if (proctrack_usage(pt, id, &tasks[i].gtid, &ret_tasks[i]) < 0)
			ret_tasks[i] = (stepd_usage_t){0};
		*ret_gap |= tasks[i].pid > 0 && has_gap(&ret_tasks[i]);
	}
	return 0;
}

int proctrack_usage_tasks(struct proctrack *pt, uint64_t id, const stepd_step_task_info_t *tasks,
	size_t n, stepd_usage_t *ret_step, stepd_usage_t *ret_tasks)
{
	_cleanup_free_ stepd_usage_t *seen = calloc(n + 1, sizeof(*seen));
	_cleanup_procusage_ struct procusage processes = {0};
	_cleanup_free_ pid_t *pids = NULL;
	int count = 0, r;
	bool gap = false;
	size_t i;

	if (!seen)
		return -ENOMEM;
	memset(ret_tasks, 0, n * sizeof(*ret_tasks));
	r = count_tasks(pt, id, tasks, n, ret_step, ret_tasks, &gap);
	if (r < 0 || !gap)
		return r;
	r = proctrack_get_pids(pt, id, &pids, &count);
	if (r == 0)
		r = procusage_read(pids, count, &processes);
	if (r == 0)
		r = procusage_sum_tasks(&processes, tasks, n, seen);
	if (r < 0)
		return r;
	for (i = 0; i < n; i++)
		procusage_fill(&ret_tasks[i], &seen[i]);
	procusage_sum(&processes, &seen[n]);
	procusage_fill(ret_step, &seen[n]);
	return 0;
}

int proctrack_set_limits(struct proctrack *pt, uint64_t id, const uint32_t *rank,
	const stepd_limits_t *limits, struct err *err)
{
	char text[ERR_TEXT_SIZE] = "";
	int r;

	if (!pt->ops.set_limits)
		return err_set_text(err, -EOPNOTSUPP,
			"%s can't limit what a step uses; use proctrack/cgroup",
			proctrack_get_type(pt));
	r = call(pt, set_limits, id, rank, limits, text, sizeof(text));
	if (r == 0)
		return 0;
	text[sizeof(text) - 1] = '\0';
	return text[0] ? err_set_text(err, r, "%s", text) : err_set(err, r, "limit the step");
}

int proctrack_clone_fd(struct proctrack *pt, const stepd_step_rec_t *job, uint32_t local_id)
{
	return call_fd(pt, clone_fd, job, local_id);
}

int proctrack_service_fd(struct proctrack *pt, const stepd_step_rec_t *job, bool *ret_may_clone)
{
	int may_clone = 0, fd = call_fd(pt, service_fd, job, &may_clone);

	*ret_may_clone = may_clone != 0;
	return fd;
}

bool proctrack_spans_sessions(const struct proctrack *pt)
{
	return pt->ops.spans_sessions && pt->ops.spans_sessions();
}

void proctrack_task_ended(struct proctrack *pt, const stepd_step_rec_t *job, uint32_t local_id)
{
	if (pt->ops.task_ended)
		pt->ops.task_ended(job, local_id);
}

int proctrack_event_fd(struct proctrack *pt, uint64_t id)
{
	return call_fd(pt, event_fd, id);
}

int proctrack_oom_fd(struct proctrack *pt, uint64_t id)
{
	return call_fd(pt, oom_fd, id);
}

int proctrack_get_root(struct proctrack *pt, char *path, size_t size)
{
	return call(pt, get_root, path, size);
}

/* ---- members by task ------------------------------------------------------------------------- */

/* Members by task: from the backend first, and from the line of parents for what it does not
 * know. */

struct member_query {
	struct proctrack *pt;
	const stepd_step_task_info_t *tasks;
	size_t n_tasks;
};

static int list_plain(
	struct proctrack *pt, uint64_t id, stepd_member_t **ret_members, int *ret_count)
{
	_cleanup_free_ stepd_member_t *members = NULL;
	_cleanup_free_ pid_t *pids = NULL;
	int n = 0, i, r = proctrack_get_pids(pt, id, &pids, &n);

	if (r < 0)
		return r;
	members = calloc((size_t)n + 1, sizeof(*members));
	if (!members)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		members[i] = (stepd_member_t){.pid = pids[i], .rank = STEPD_MEMBER_NO_RANK};
	*ret_members = take_ptr(members);
	*ret_count = n;
	return 0;
}

/* As the backend lists them, with ranks of the step's tasks only: for struct members_target. */
static int list_by_backend(void *ctx, uint64_t id, stepd_member_t **ret_members, int *ret_count)
{
	const struct member_query *query = ctx;
	_cleanup_free_ stepd_member_t *members = NULL;
	int n = 0, r;

	if (!query->pt->ops.get_members)
		return list_plain(query->pt, id, ret_members, ret_count);
	r = call(query->pt, get_members, id, &members, &n);
	if (r == 0)
		r = members_check_ranks(members, n, query->tasks, query->n_tasks);
	if (r < 0)
		return r;
	*ret_members = take_ptr(members);
	*ret_count = n;
	return 0;
}

int proctrack_get_members(struct proctrack *pt, uint64_t id, const stepd_step_task_info_t *tasks,
	size_t n_tasks, stepd_member_t **ret_members, int *ret_count)
{
	struct member_query query = {pt, tasks, n_tasks};
	_cleanup_free_ struct member_seed *seeds = NULL;
	_cleanup_free_ stepd_member_t *members = NULL;
	size_t n_seeds = 0;
	int n = 0, r;

	r = list_by_backend(&query, id, &members, &n);
	if (r == 0)
		r = members_get_leaders(tasks, n_tasks, &seeds, &n_seeds);
	if (r == 0)
		r = members_rank(members, n, seeds, n_seeds);
	if (r < 0)
		return r;
	*ret_members = take_ptr(members);
	*ret_count = n;
	return 0;
}

/* Whether it is a member; a zombie is none. Where find knows of none and may be wrong, because
 * another process made the container, the list is searched. */
static int check_member(struct proctrack *pt, uint64_t id, pid_t pid, uint32_t *ret_rank)
{
	struct procstat st;
	uint64_t found;
	int r;

	*ret_rank = STEPD_MEMBER_NO_RANK;
	if (id == 0 || pid <= 0)
		return -ESRCH;
	if (pt->ops.find_member) {
		r = call(pt, find_member, id, pid, ret_rank);
	} else {
		found = proctrack_find(pt, pid);
		r = found == id || (!found && pt->own_id != id && proctrack_has_pid(pt, id, pid))
			? 0
			: -ESRCH;
	}
	if (r == 0)
		r = procstat_read(pid, &st);
	return r == 0 && !procstat_is_living(&st) ? -ESRCH : r;
}

int proctrack_find_member(struct proctrack *pt, uint64_t id, const stepd_step_task_info_t *tasks,
	size_t n_tasks, pid_t pid, uint32_t *ret_rank)
{
	_cleanup_free_ struct member_seed *seeds = NULL;
	stepd_member_t member = {.pid = pid};
	size_t n_seeds = 0;
	int r = check_member(pt, id, pid, &member.rank);

	if (r == 0 && member.rank != STEPD_MEMBER_NO_RANK)
		r = members_check_ranks(&member, 1, tasks, n_tasks);
	if (r == 0 && member.rank == STEPD_MEMBER_NO_RANK) {
		r = members_get_leaders(tasks, n_tasks, &seeds, &n_seeds);
		if (r == 0)
			r = members_rank(&member, 1, seeds, n_seeds);
	}
	if (r == 0)
		*ret_rank = member.rank;
	return r;
}

/* ---- signals ------------------------------------------------------------------------------ */

/* Signals the processes that are the task's to the backend, and those that descend from it and is
 * elsewhere in the container. Those are found before the signal breaks their lines. */
static int signal_with_backend(
	struct members_target *target, struct proctrack *pt, uint32_t rank, int signal)
{
	int elsewhere, result, r = 0;

	target->unranked_only = true;
	elsewhere = members_find(target);
	result = call(pt, signal_task, target->id, rank, signal);
	if (elsewhere < 0)
		return result < 0 && result != -ESRCH ? result : elsewhere;
	if (elsewhere == 0)
		return result;
	r = members_signal(target, signal);
	if (result < 0 && result != -ESRCH)
		return result;
	return result == 0 && r == -ESRCH ? 0 : r;
}

int proctrack_signal_task(struct proctrack *pt, uint64_t id, const stepd_step_task_info_t *tasks,
	size_t n_tasks, uint32_t rank, int signal)
{
	struct member_query query = {pt, tasks, n_tasks};
	_cleanup_members_target_ struct members_target target = {
		.list = list_by_backend, .ctx = &query, .id = id, .rank = rank};
	int r;

	if (rank == STEPD_MEMBER_NO_RANK)
		return -ESRCH;
	r = members_get_leaders(tasks, n_tasks, &target.seed, &target.n_seeds);
	if (r < 0)
		return r;
	target.seed_capacity = target.n_seeds;
	return pt->ops.signal_task ? signal_with_backend(&target, pt, rank, signal)
				   : members_signal(&target, signal);
}

/* The pidfd is open before the membership is read: what is signalled is the member. */
static int signal_one(
	struct proctrack *pt, uint64_t id, pid_t pid, uint64_t start_ticks, int signal)
{
	_cleanup_pidref_ struct pidref ref = PIDREF_INIT;
	uint32_t rank;
	int r = pidref_open(pid, start_ticks, &ref);

	if (r == 0)
		r = check_member(pt, id, pid, &rank);
	return r == 0 ? pidref_signal(&ref, signal) : r;
}

static int signal_tree(
	struct proctrack *pt, uint64_t id, pid_t pid, uint64_t start_ticks, int signal)
{
	struct member_query query = {.pt = pt};
	_cleanup_members_target_ struct members_target target = {.list = list_by_backend,
		.ctx = &query,
		.id = id,
		.seed = calloc(1, sizeof(*target.seed)),
		.descendants_only = true};

	if (!target.seed)
		return -ENOMEM;
	target.n_seeds = target.seed_capacity = 1;
	target.seed[0] = (struct member_seed){.pid = pid, .start_ticks = start_ticks};
	return members_signal(&target, signal);
}

int proctrack_signal_member(
	struct proctrack *pt, uint64_t id, pid_t pid, uint64_t start_ticks, bool tree, int signal)
{
	struct procstat st;
	uint32_t rank;
	int r;

	if (!tree)
		return signal_one(pt, id, pid, start_ticks, signal);
	r = check_member(pt, id, pid, &rank);
	if (r == 0)
		r = procstat_read(pid, &st);
	if (r == 0 && start_ticks && st.start_ticks != start_ticks)
		r = -ESRCH;
	return r == 0 ? signal_tree(pt, id, pid, st.start_ticks, signal) : r;
}
