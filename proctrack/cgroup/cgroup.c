/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proctrack/cgroup: a step is a cgroup of cgroup v2, <root>/stepd/job_<J>/step_<S>, its tasks are
 * the groups task_<rank> below, and who was added and is no task is in the group "added" there.
 * With an MPI service process these are below the group "members", and that one is in "service"
 * beside it.
 * What a task starts is in the task's group or below it and can't leave by itself, whatever it
 * forks, daemonises or calls itself. The container id is the id of the step's cgroup, its
 * directory's inode, so that any process of the machine can ask about it.
 *
 * Here and in cgroup_members.c is the plugin's boundary only: arguments and errno. The state that
 * the plugin ABI leaves to a plugin is in state.h, what is done to a cgroup in group.h, members.h,
 * limits.h and usage.h, where steps stand in the tree in step.h and place.h.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "proctrack/cgroup/checkup.h"
#include "proctrack/cgroup/clone.h"
#include "proctrack/cgroup/controllers.h"
#include "proctrack/cgroup/files.h"
#include "proctrack/cgroup/group.h"
#include "proctrack/cgroup/limits.h"
#include "proctrack/cgroup/members.h"
#include "proctrack/cgroup/pidset.h"
#include "proctrack/cgroup/place.h"
#include "proctrack/cgroup/probe.h"
#include "proctrack/cgroup/state.h"
#include "proctrack/cgroup/usage.h"
#include "stepd/api/proctrack.h"
#include "stepd/base/fs.h"
#include "systemd/scope.h"

/* Of the service's threads, of which libpmix has four. */
#define SERVICE_PIDS_MAX "64"

const char plugin_type[] = "proctrack/cgroup";
const char plugin_name[] = "process tracking by cgroup v2";
const uint32_t plugin_version = STEPD_API_VERSION;

int init(void)
{
	return SLURM_SUCCESS;
}

void fini(void)
{
	state_clear();
}

int plugin_probe(char *text, size_t size)
{
	struct err err = ERR_INIT;
	int r = state_probe_place(text, size, &err);

	if (r < 0)
		(void)snprintf(text, size, "%s", err.text);
	return state_answer(r);
}

int plugin_checkup(stepd_tell_fn tell, void *ctx)
{
	const struct place *place = NULL;
	struct err err = ERR_INIT;

	if (state_get_place(&place, &err) < 0)
		place = NULL;
	checkup_cgroup(&(struct tell){tell, ctx}, place, &err);
	return SLURM_SUCCESS;
}

/* In the order of enum place_scope. */
static const char *const scope_words[PLACE_SCOPE_MAX] = {
	[PLACE_SCOPE_AUTO] = "auto",
	[PLACE_SCOPE_YES] = "yes",
	[PLACE_SCOPE_NO] = "no",
};

/* Makes plugin.place the one for the step. */
static int settle(const stepd_step_rec_t *job, const char *scope, struct err *err)
{
	struct place_request request = {.asked = secure_getenv(PLACE_ENV), .job = job};
	struct place *fresh = NULL;
	enum place_outcome outcome;
	const struct place *known;
	int r;

	while (request.scope < PLACE_SCOPE_MAX && strcmp(scope_words[request.scope], scope) != 0)
		request.scope++;
	if (request.scope == PLACE_SCOPE_MAX)
		return err_say(err, -EINVAL, "scope '%s' is not one of auto, yes, no", scope);
	if (request.scope != PLACE_SCOPE_YES) {
		r = state_get_place(&known, err);
		if (r < 0)
			return r;
		(void)place_explain(known, PLACE_SCOPE, &outcome);
		if (outcome != PLACE_OFFERED)
			return 0; /* a step gets what was seen by looking */
	}
	r = place_open_for(&request, &fresh, err);
	if (r < 0)
		return r;
	state_set_place(fresh);
	return 0;
}

/* Whether a place that is neither the scope's nor delegated serves; and where a scope should have
 * been had, a line on it. */
static int check_second_best(const struct place *p, char *text, size_t size, struct err *err)
{
	enum place_outcome outcome;
	const char *why = place_explain(p, PLACE_SCOPE, &outcome);
	char line[ERR_TEXT_SIZE];
	int r;

	if (outcome != PLACE_FAILED && (geteuid() == 0 || p->origin < PLACE_OWN))
		return 0;
	r = state_probe_place(line, sizeof(line), err);
	if (r < 0 || outcome != PLACE_FAILED)
		return r;
	(void)snprintf(text, size,
		"no scope of systemd can be had for the step: %s; it hangs below '%s' (%s) instead, "
		"ignoring",
		why, p->path, place_get_reason(p));
	return 0;
}

/* A step that waits for its scope seems to hang, and nobody can tell why but this line. */
static void note_slow_scope(const struct place *p, char *text, size_t size)
{
	if (p->scope_took_ms > SCOPE_SLOW_MS)
		(void)snprintf(text, size,
			"systemd took %" PRIu64 " ms to start the step's scope (process 1 or the "
			"bus is overloaded: 'systemctl status'), ignoring",
			p->scope_took_ms);
}

int proctrack_p_place(const stepd_step_rec_t *job, const char *scope, char *text, size_t size)
{
	struct err err = ERR_INIT;
	const struct place *place;
	int r = settle(job, scope, &err);

	text[0] = '\0';
	if (r == 0)
		r = state_get_place(&place, &err);
	if (r == 0)
		r = check_second_best(place, text, size, &err);
	if (r == 0 && !text[0])
		note_slow_scope(place, text, size);
	if (r < 0)
		(void)snprintf(text, size, "%s", err.text);
	return state_answer(r);
}

/* ---- the guide's functions ---------------------------------------------------------------- */

int proctrack_p_create(stepd_step_rec_t *job)
{
	_cleanup_step_dir_ struct step_dir dir = STEP_DIR_INIT;
	const struct place *place;
	struct container *c;
	int r = state_get_place(&place, NULL);

	if (r == 0)
		r = step_make(place, job, &dir);
	if (r < 0)
		return state_answer(r);
	/* In a step without tasks its own group may hold what others put there. */
	controllers_enable_accounting(&dir, job->node_tasks > 0);
	r = state_keep_container(&dir, &c);
	if (r < 0) {
		(void)step_remove(&dir); /* r says more */
		return state_answer(r);
	}
	job->cont_id = c->dir.id;
	return SLURM_SUCCESS;
}

/* The rank of the task that has that pid, or NULL. */
static const uint32_t *rank_of(const stepd_step_rec_t *job, pid_t pid)
{
	uint32_t i;

	for (i = 0; i < job->node_tasks; i++) {
		if (job->task[i].pid == pid)
			return &job->task[i].gtid;
	}
	return NULL;
}

int proctrack_p_add(stepd_step_rec_t *job, pid_t pid)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	const struct step_dir *dir;
	const struct place *place;
	int r;

	if (pid <= 0)
		return state_answer(-EINVAL);
	r = state_get_dir(job->cont_id, &found, &dir);
	if (r == 0)
		r = state_get_place(&place, NULL);
	if (r == 0)
		r = step_add(place, dir, rank_of(job, pid), pid);
	return state_answer(r);
}

int proctrack_p_signal(uint64_t id, int signal)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	const struct step_dir *dir;
	struct container *c;
	int r;

	r = state_get_dir_for(signal, id, &found, &dir);
	if (r < 0)
		return state_answer(r);
	if (signal != SIGKILL)
		return state_answer(group_signal(step_get_members(dir), signal));
	r = group_kill(step_get_members(dir));
	c = state_get_container(id);
	if (c && r == 0) { /* from now on what is cloned into it is killed at birth */
		c->tried = true;
		c->clone_result = -EOPNOTSUPP;
	}
	return state_answer(r);
}

int proctrack_p_destroy(uint64_t id)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	const struct step_dir *dir;
	int r = state_get_dir(id, &found, &dir);

	if (r == 0)
		r = step_remove(dir);
	if (r == 0 || r == -ESRCH)
		state_drop_container(id);
	return state_answer(r);
}

uint64_t proctrack_p_find(pid_t pid)
{
	const struct place *place;
	uint64_t id = 0;
	int r = state_get_place(&place, NULL);

	if (r == 0)
		r = step_find_pid(place, pid, &id, NULL);
	(void)state_answer(r);
	return id;
}

uint32_t proctrack_p_get_pids(uint64_t cont_id, pid_t **pids, int *npids)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	_cleanup_pidset_ struct pidset set = PIDSET_INIT;
	struct group_events events;
	const struct step_dir *dir;
	int r = state_get_dir(cont_id, &found, &dir);

	if (r == 0)
		r = group_get_events(step_get_members(dir), &events);
	if (r == 0 && events.populated)
		r = group_list(step_get_members(dir), &set);
	if (r < 0)
		return (uint32_t)state_answer(r);
	*npids = (int)set.n;
	*pids = take_ptr(set.v);
	return SLURM_SUCCESS;
}

/* ---- optional ----------------------------------------------------------------------------- */

int proctrack_p_wait(uint64_t id, int timeout_ms)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	const struct step_dir *dir;
	int r = state_get_dir(id, &found, &dir);

	return state_answer(r < 0 ? r : group_wait_empty(step_get_members(dir), timeout_ms));
}

int proctrack_p_has_pid(uint64_t id, pid_t pid)
{
	return id != 0 && proctrack_p_find(pid) == id;
}

int proctrack_p_suspend(uint64_t id)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	const struct step_dir *dir;
	int r = state_get_dir(id, &found, &dir);

	return state_answer(r < 0 ? r : group_suspend(step_get_members(dir)));
}

/* And what a worker left frozen that was ended while it signalled a task. */
static int resume(uint64_t id, const struct step_dir *dir)
{
	int r = group_resume_checked(step_get_members(dir));

	if (r == 0 && container_was_left_held(state_get_container(id)))
		r = cgmembers_thaw_tasks(step_get_members(dir));
	return r;
}

int proctrack_p_resume(uint64_t id)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	const struct step_dir *dir;
	int r = state_get_dir(id, &found, &dir);

	return state_answer(r < 0 ? r : resume(id, dir));
}

int proctrack_p_is_suspended(uint64_t id, int *suspended, char *text, size_t size)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	const struct step_dir *dir;
	struct group_freeze freeze;
	int r = state_get_dir(id, &found, &dir);

	if (r == 0)
		r = group_get_freeze(step_get_members(dir), &freeze);
	if (r < 0)
		return state_answer(r);
	*suspended = freeze.above || (freeze.told && !freeze.momentary);
	text[0] = '\0';
	if (freeze.above && freeze.path[0])
		(void)snprintf(
			text, size, "'%s' is frozen; write 0 to its cgroup.freeze", freeze.path);
	else if (freeze.above)
		(void)snprintf(text, size,
			"a cgroup above those that can be seen here is frozen; write 0 to its "
			"cgroup.freeze");
	return SLURM_SUCCESS;
}

/* Whether a birth works, tried once in the first task's group: the step's own must hold none. */
static int try_birth(struct container *c, int fd)
{
	int r = clone_try(fd);

	c->tried = r == 0 || r == -EOPNOTSUPP;
	c->clone_result = r;
	return r;
}

int proctrack_p_spans_sessions(void)
{
	return true;
}

int proctrack_p_clone_fd(const stepd_step_rec_t *job, uint32_t local_id)
{
	_cleanup_close_ int fd = -1;
	struct container *c;
	int r = local_id < job->node_tasks ? state_take_container(job->cont_id, &c) : -EINVAL;

	if (r == 0 && c->tried)
		r = c->clone_result;
	if (r < 0)
		return state_answer(r);
	fd = step_open_task(&c->dir, job->task[local_id].gtid);
	if (fd < 0)
		return state_answer(fd);
	r = c->tried ? 0 : try_birth(c, fd);
	return r < 0 ? state_answer(r) : take_fd(&fd);
}

int proctrack_p_service_fd(const stepd_step_rec_t *job, int *may_clone)
{
	_cleanup_close_ int fd = -1;
	struct container *c;
	int r = state_take_container(job->cont_id, &c);

	if (r < 0)
		return state_answer(r);
	fd = step_split(&c->dir);
	if (fd < 0)
		return state_answer(fd);
	controllers_enable_members(&c->dir);
	/* Without the controller nothing counts them. */
	(void)!fs_write(fd, "pids.max", SERVICE_PIDS_MAX);
	r = c->tried ? c->clone_result : try_birth(c, fd);
	if (r < 0 && r != -EOPNOTSUPP)
		return state_answer(r);
	*may_clone = r == 0;
	return take_fd(&fd);
}

void proctrack_p_task_ended(const stepd_step_rec_t *job, uint32_t local_id)
{
	struct container *c = job->cont_id ? state_get_container(job->cont_id) : NULL;
	_cleanup_close_ int fd = -1;
	uint64_t refused = 0;

	if (!c || local_id >= job->node_tasks)
		return;
	if (usage_forgets_refused(c->dir.fd))
		fd = step_find_task(&c->dir, job->task[local_id].gtid);
	if (fd >= 0)
		refused = usage_get_refused(fd);
	if (step_remove_task(&c->dir, job->task[local_id].gtid))
		c->refused += refused;
}

/* Opens a file of the step's group, or of its members', that tells of its changes. */
static int open_file(uint64_t id, bool of_members, const char *name)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	const struct step_dir *dir;
	int r = state_get_dir(id, &found, &dir), fd;

	if (r < 0)
		return r;
	fd = openat(of_members ? step_get_members(dir) : dir->fd, name, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	r = -errno;
	return r == -ENOENT && faccessat(dir->fd, "cgroup.events", F_OK, 0) == 0 ? -EOPNOTSUPP
										 : cgfile_gone(r);
}

int proctrack_p_event_fd(uint64_t id)
{
	int fd = open_file(id, true, "cgroup.events");

	return fd < 0 ? state_answer(fd) : fd;
}

int proctrack_p_oom_fd(uint64_t id)
{
	int fd = open_file(id, false, "memory.events");

	return fd < 0 ? state_answer(fd) : fd;
}

int proctrack_p_get_root(char *path, size_t size)
{
	const struct place *place;
	int r = state_get_place(&place, NULL);

	if (r == 0 && strlen(place->path) >= size)
		r = -ENAMETOOLONG;
	if (r == 0)
		(void)snprintf(path, size, "%s", place->path);
	return state_answer(r);
}

int proctrack_p_usage(uint64_t id, const uint32_t *rank, stepd_usage_t *usage)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	_cleanup_close_ int task_fd = -1;
	const struct container *c;
	const struct step_dir *dir;
	int r = state_get_dir(id, &found, &dir);

	if (r == 0 && rank) {
		task_fd = step_find_task(dir, *rank);
		r = task_fd < 0 ? task_fd : 0;
	}
	if (r == 0)
		r = rank ? usage_read(task_fd, task_fd, usage)
			 : usage_read(dir->fd, step_get_members(dir), usage);
	c = state_get_container(id);
	if (r == 0 && !rank && c && usage->source[STEPD_USAGE_PIDS_MAX_EVENTS])
		usage->value[STEPD_USAGE_PIDS_MAX_EVENTS] += c->refused;
	return state_answer(r);
}

int proctrack_p_set_limits(
	uint64_t id, const uint32_t *rank, const stepd_limits_t *limits, char *text, size_t size)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	const struct step_dir *dir;
	struct err err = ERR_INIT;
	int r = state_get_dir(id, &found, &dir);

	if (r == 0)
		r = limits_apply(dir, rank, limits, &err);
	else
		(void)err_set(&err, r, "find the step to limit");
	if (r < 0 && size > 0)
		(void)snprintf(text, size, "%s", err.text);
	return state_answer(r);
}
