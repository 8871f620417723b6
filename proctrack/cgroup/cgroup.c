/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proctrack/cgroup: a step is a cgroup of cgroup v2, <root>/stepd/job_<J>/step_<S>, its tasks are
 * the groups task_<rank> below, and a process that was added and is no task is in "added" there.
 * With an MPI service process these are below the group "members", and that one is in "service"
 * beside it.
 * All that a task starts is in the task's group or below it and can't leave by itself, whatever it
 * forks, daemonises or calls itself. The container id is the id of the step's cgroup, its
 * directory's inode, so that any process of the machine can query it.
 *
 * What is done to a cgroup is in group.h and limits.h, where steps stand in the tree in
 * step.h and root.h.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "proctrack/cgroup/controllers.h"
#include "proctrack/cgroup/group.h"
#include "proctrack/cgroup/limits.h"
#include "proctrack/cgroup/probe.h"
#include "proctrack/cgroup/root.h"
#include "proctrack/cgroup/step.h"
#include "proctrack/reporter.h"
#include "stepd/api/plugin.h"
#include "stepd/api/proctrack.h"
#include "stepd/base/fs.h"
#include "systemd/systemd.h"

/* ---- containers ------------------------------------------------------------------------------ */

/* A container that this process made or took over, and what it knows of it that no file has. */
struct container {
	struct container *next;
	struct step_dir dir;
	bool tried; /* a birth, with this result: */
	int clone_result;
	bool service_given;     /* its group, for a process that may be born there */
	_Atomic uint32_t *held; /* parts that processes freeze for a moment, the agent's workers,
				 * too, which share this; NULL: no memory for it */
	uint64_t refused;       /* group_get_refused() of groups that are gone */
	bool counts_refused;    /* below here; not known before the first task has ended */
	bool is_counting_known; /* until the next limit, which may switch the controller on */
};

/* The plugin's state from one call to the next. The functions of the plugin ABI get an id or a
 * step record and no state of ours: so it has to be here, once per process. The agent has one
 * thread. */
static struct {
	struct cgroup_root *root; /* found when it is first needed: it takes some 0.5 ms */
	bool made;                /* a probe has made stepd/ there */
	struct container *containers;
} plugin;

/* 0 or more into SLURM_SUCCESS, -errno into SLURM_ERROR and errno. */
static int to_slurm(int r)
{
	if (r >= 0)
		return SLURM_SUCCESS;
	errno = -r;
	return SLURM_ERROR;
}

/* The same; a failure's sentence goes into text. */
static int to_slurm_text(int r, const struct err *err, char *text, size_t size)
{
	if (r < 0)
		(void)snprintf(text, size, "%s", err->text);
	return to_slurm(r);
}

/* Finds a container that this process made or took over, or NULL. */
static struct container *container_get(uint64_t id)
{
	struct container *c = plugin.containers;

	while (c && c->dir.id != id)
		c = c->next;
	return c;
}

/* Keeps dir, which is the container's from then on. 0 or -ENOMEM. */
static int container_add(struct step_dir *dir, struct container **ret_container)
{
	struct container *c = calloc(1, sizeof(*c));
	void *page;

	if (!c)
		return -ENOMEM;
	page = mmap(
		NULL, sizeof(*c->held), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	c->held = page == MAP_FAILED ? NULL : page;
	c->dir = *dir;
	*dir = (struct step_dir)STEP_DIR_INIT;
	c->next = plugin.containers;
	plugin.containers = c;
	*ret_container = c;
	return 0;
}

static void container_drop(uint64_t id)
{
	struct container **at = &plugin.containers, *c;

	while (*at && (*at)->dir.id != id)
		at = &(*at)->next;
	c = *at;
	if (!c)
		return;
	*at = c->next;
	step_dir_clear(&c->dir);
	if (c->held)
		(void)munmap(c->held, sizeof(*c->held)); /* what mmap() gave: can't fail */
	free(c);
}

/* ---- the root -------------------------------------------------------------------------------- */

/* Another in its stead, from now on the plugin's own. */
static void set_root(struct cgroup_root *root)
{
	if (plugin.made)
		probe_forget(plugin.root);
	plugin.made = false;
	(void)root_close(plugin.root);
	plugin.root = root;
}

/* The root that the environment has now. */
static int get_root(const struct cgroup_root **ret_root, struct err *err)
{
	const char *wanted = secure_getenv(ROOT_ENV);
	const char *known = plugin.root && plugin.root->configured ? plugin.root->configured : "";
	struct cgroup_root *fresh = NULL;
	int r;

	if (!plugin.root || strcmp(wanted ? wanted : "", known) != 0) {
		r = root_open(wanted, &fresh, err);
		if (r < 0)
			return r;
		set_root(fresh);
	}
	*ret_root = plugin.root;
	return 0;
}

/* probe_root() of it. A group that this makes stays for the step that comes next, and is removed
 * with the root, if it is not used: making and removing one takes some 0.1 ms. */
static int try_root(char *text, size_t size, struct err *err)
{
	const struct cgroup_root *root;
	bool made = false;
	int r = get_root(&root, err);

	if (r == 0)
		r = probe_root(root, text, size, &made, err);
	plugin.made |= made;
	return r;
}

/* ---- any container --------------------------------------------------------------------------- */

/* The directory of any container of the machine. found holds it if it isn't one of ours. -ESRCH:
 * there is none of that id. */
static int find_dir(uint64_t id, struct step_dir *found, const struct step_dir **ret_dir)
{
	const struct container *c = container_get(id);
	const struct cgroup_root *root;
	int r;

	*ret_dir = c ? &c->dir : found;
	if (c)
		return 0;
	r = id ? get_root(&root, NULL) : -ESRCH;
	return r < 0 ? r : step_find(root, id, found);
}

/* The same: the group of its members, or -errno. */
static int find_members(uint64_t id, struct step_dir *found)
{
	const struct step_dir *dir;
	int r = find_dir(id, found, &dir);

	return r < 0 ? r : step_get_members(dir);
}

/* One of ours, or another's that becomes ours now: an agent that took over a step. */
static int take_container(uint64_t id, struct container **ret_container)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	const struct step_dir *dir;
	int r;

	*ret_container = container_get(id);
	if (*ret_container)
		return 0;
	r = find_dir(id, &found, &dir);
	return r < 0 ? r : container_add(&found, ret_container);
}

/* ---- the plugin ------------------------------------------------------------------------------ */

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
	while (plugin.containers)
		container_drop(plugin.containers->dir.id);
	set_root(NULL);
}

int plugin_probe(char *text, size_t size)
{
	struct err err = ERR_INIT;
	int r = try_root(text, size, &err);

	return to_slurm_text(r, &err, text, size);
}

int plugin_checkup(stepd_tell_fn reporter, void *ctx)
{
	const struct cgroup_root *root = NULL;
	struct err err = ERR_INIT;

	if (get_root(&root, &err) < 0)
		root = NULL;
	checkup_cgroup(&(struct reporter){reporter, ctx}, root, &err);
	return SLURM_SUCCESS;
}

static const char *const scope_names[ROOT_SCOPE_MAX] = {
	[ROOT_SCOPE_AUTO] = "auto",
	[ROOT_SCOPE_YES] = "yes",
	[ROOT_SCOPE_NO] = "no",
};

/* Makes plugin.root the one for the step. */
static int choose_root(const stepd_step_rec_t *job, const char *scope, struct err *err)
{
	struct root_request request = {.configured = secure_getenv(ROOT_ENV), .job = job};
	struct cgroup_root *fresh = NULL;
	const struct cgroup_root *known;
	int r;

	while (request.scope < ROOT_SCOPE_MAX && strcmp(scope_names[request.scope], scope) != 0)
		request.scope++;
	if (request.scope == ROOT_SCOPE_MAX)
		return err_set_text(err, -EINVAL, "scope '%s' is not one of auto, yes, no", scope);
	if (request.scope != ROOT_SCOPE_YES) {
		r = get_root(&known, err);
		if (r < 0)
			return r;
		if (known->trial[ROOT_SCOPE].outcome != ROOT_OFFERED)
			return 0; /* a step gets the root that was found */
	}
	r = root_open_for(&request, &fresh, err);
	if (r < 0)
		return r;
	set_root(fresh);
	return 0;
}

/* Whether a root that is neither the scope's nor delegated serves; and where a scope should have
 * been had, a line on it. */
static int check_second_best(const struct cgroup_root *p, char *text, size_t size, struct err *err)
{
	enum root_outcome outcome;
	const char *why = root_explain(p, ROOT_SCOPE, &outcome);
	char line[ERR_TEXT_SIZE];
	int r;

	if (outcome != ROOT_FAILED && (geteuid() == 0 || p->origin < ROOT_OWN))
		return 0;
	r = try_root(line, sizeof(line), err);
	if (r < 0 || outcome != ROOT_FAILED)
		return r;
	(void)snprintf(text, size,
		"no scope of systemd can be had for the step: %s; it hangs below '%s' (%s) instead, "
		"ignoring",
		why, p->path, root_get_reason(p));
	return 0;
}

/* A step that waits for its scope seems to hang: this line has the reason. */
static void note_slow_scope(const struct cgroup_root *p, char *text, size_t size)
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
	const struct cgroup_root *root;
	int r = choose_root(job, scope, &err);

	text[0] = '\0';
	if (r == 0)
		r = get_root(&root, &err);
	if (r == 0)
		r = check_second_best(root, text, size, &err);
	if (r == 0 && !text[0])
		note_slow_scope(root, text, size);
	return to_slurm_text(r, &err, text, size);
}

/* ---- the guide's functions ---------------------------------------------------------------- */

int proctrack_p_create(stepd_step_rec_t *job)
{
	_cleanup_step_dir_ struct step_dir dir = STEP_DIR_INIT;
	const struct cgroup_root *root;
	struct container *c;
	int r = get_root(&root, NULL);

	if (r == 0)
		r = step_make(root, job, &dir);
	if (r < 0)
		return to_slurm(r);
	/* In a step without tasks its own group may hold what others put there. */
	controllers_enable_accounting(&dir, job->node_tasks > 0);
	r = container_add(&dir, &c);
	if (r < 0) {
		(void)step_remove(&dir); /* r has the reason */
		return to_slurm(r);
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
	const struct cgroup_root *root;
	int r;

	if (pid <= 0)
		return to_slurm(-EINVAL);
	r = find_dir(job->cont_id, &found, &dir);
	if (r == 0)
		r = get_root(&root, NULL);
	if (r == 0)
		r = step_add(root, dir, rank_of(job, pid), pid);
	return to_slurm(r);
}

int proctrack_p_signal(uint64_t id, int signal)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	struct container *c = container_get(id);
	int fd = find_members(id, &found), r;

	if (fd < 0 || signal != SIGKILL)
		return to_slurm(fd < 0 ? fd : group_signal(fd, signal));
	r = group_kill(fd);
	if (c && r == 0) { /* from now on what is cloned into it is killed at birth */
		c->tried = true;
		c->clone_result = -EOPNOTSUPP;
	}
	return to_slurm(r);
}

int proctrack_p_destroy(uint64_t id)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	const struct step_dir *dir;
	int r = find_dir(id, &found, &dir);

	if (r == 0)
		r = step_remove(dir);
	if (r == 0 || r == -ESRCH)
		container_drop(id);
	return to_slurm(r);
}

uint64_t proctrack_p_find(pid_t pid)
{
	const struct cgroup_root *root;
	uint64_t id = 0;
	int r = get_root(&root, NULL);

	if (r == 0)
		r = step_find_pid(root, pid, &id, NULL);
	(void)to_slurm(r);
	return id;
}

uint32_t proctrack_p_get_pids(uint64_t cont_id, pid_t **pids, int *npids)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	_cleanup_pidset_ struct pidset set = {0};
	struct group_events events;
	int fd = find_members(cont_id, &found);
	int r = fd < 0 ? fd : group_get_events(fd, &events);

	if (r == 0 && events.populated)
		r = group_list(fd, &set);
	if (r < 0)
		return (uint32_t)to_slurm(r);
	*npids = (int)set.n;
	*pids = take_ptr(set.v);
	return SLURM_SUCCESS;
}

/* ---- optional ----------------------------------------------------------------------------- */

int proctrack_p_wait(uint64_t id, int timeout_ms)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	int fd = find_members(id, &found);

	return to_slurm(fd < 0 ? fd : group_wait_empty(fd, timeout_ms));
}

int proctrack_p_has_pid(uint64_t id, pid_t pid)
{
	return id != 0 && proctrack_p_find(pid) == id;
}

int proctrack_p_suspend(uint64_t id)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	int fd = find_members(id, &found);

	return to_slurm(fd < 0 ? fd : group_suspend(fd));
}

int proctrack_p_resume(uint64_t id)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	struct container *c = container_get(id);
	int fd = find_members(id, &found);
	int r = fd < 0 ? fd : group_resume_checked(fd);

	/* A worker that was ended while it signalled a task left that frozen. */
	if (r == 0 && c && c->held && atomic_exchange(c->held, 0) > 0)
		r = cgmembers_thaw_tasks(fd);
	return to_slurm(r);
}

int proctrack_p_is_suspended(uint64_t id, int *suspended, char *text, size_t size)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	struct group_freeze freeze;
	int fd = find_members(id, &found);
	int r = fd < 0 ? fd : group_get_freeze(fd, &freeze);

	if (r < 0)
		return to_slurm(r);
	*suspended = freeze.above || (freeze.frozen_itself && !freeze.momentary);
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

/* Whether a birth works, where the MPI service process could not be born. Else the first birth
 * shows it: a trial takes some 0.2 ms, most of which is the time until the agent runs again. */
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
	struct container *c;
	int fd, r = local_id < job->node_tasks ? take_container(job->cont_id, &c) : -EINVAL;

	if (r == 0 && c->tried)
		r = c->clone_result;
	if (r < 0)
		return to_slurm(r);
	fd = step_open_task(&c->dir, job->task[local_id].gtid);
	return fd < 0 ? to_slurm(fd) : fd;
}

int proctrack_p_service_fd(const stepd_step_rec_t *job, int *may_clone)
{
	_cleanup_close_ int fd = -1;
	struct container *c;
	int r = take_container(job->cont_id, &c);

	if (r < 0)
		return to_slurm(r);
	fd = step_split(&c->dir);
	if (fd < 0)
		return to_slurm(fd);
	controllers_enable_members(&c->dir);
	/* Without the controller nothing counts them. */
	(void)!fs_write(fd, "pids.max", SERVICE_PIDS_MAX);
	if (c->tried)
		r = c->clone_result;
	else if (c->service_given)
		r = try_birth(c, fd);
	if (r < 0 && r != -EOPNOTSUPP)
		return to_slurm(r);
	c->service_given = true;
	*may_clone = r == 0;
	return take_fd(&fd);
}

/* group_forgets_refused() of the step: the look at a file that is not there takes as long as all
 * else at a task's end but the removal of its group. */
static bool is_counting_refused(struct container *c)
{
	if (!c->is_counting_known)
		c->counts_refused = group_forgets_refused(c->dir.fd);
	c->is_counting_known = true;
	return c->counts_refused;
}

void proctrack_p_task_ended(const stepd_step_rec_t *job, uint32_t local_id)
{
	struct container *c = container_get(job->cont_id);
	_cleanup_close_ int fd = -1;
	uint64_t refused = 0;

	if (!c || local_id >= job->node_tasks)
		return;
	if (is_counting_refused(c))
		fd = step_find_task(&c->dir, job->task[local_id].gtid);
	if (fd >= 0)
		refused = group_get_refused(fd);
	if (step_remove_task(&c->dir, job->task[local_id].gtid))
		c->refused += refused;
}

/* Opens a file of the step's group, or of its members', that signals its changes. */
static int open_file(uint64_t id, bool of_members, const char *name)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	const struct step_dir *dir;
	int r = find_dir(id, &found, &dir), fd;

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

	return fd < 0 ? to_slurm(fd) : fd;
}

int proctrack_p_oom_fd(uint64_t id)
{
	int fd = open_file(id, false, "memory.events");

	return fd < 0 ? to_slurm(fd) : fd;
}

int proctrack_p_get_root(char *path, size_t size)
{
	const struct cgroup_root *root;
	int r = get_root(&root, NULL);

	if (r == 0 && strlen(root->path) >= size)
		r = -ENAMETOOLONG;
	if (r == 0)
		(void)snprintf(path, size, "%s", root->path);
	return to_slurm(r);
}

int proctrack_p_usage(uint64_t id, const uint32_t *rank, stepd_usage_t *usage)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	_cleanup_close_ int task_fd = -1;
	const struct container *c;
	const struct step_dir *dir;
	int r = find_dir(id, &found, &dir);

	if (r == 0 && rank) {
		task_fd = step_find_task(dir, *rank);
		r = task_fd < 0 ? task_fd : 0;
	}
	if (r == 0)
		r = rank ? group_read_usage(task_fd, task_fd, usage)
			 : group_read_usage(dir->fd, step_get_members(dir), usage);
	c = container_get(id);
	if (r == 0 && !rank && c && usage->source[STEPD_USAGE_PIDS_MAX_EVENTS])
		usage->value[STEPD_USAGE_PIDS_MAX_EVENTS] += c->refused;
	return to_slurm(r);
}

int proctrack_p_set_limits(
	uint64_t id, const uint32_t *rank, const stepd_limits_t *limits, char *text, size_t size)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	const struct step_dir *dir;
	struct err err = ERR_INIT;
	struct container *c = container_get(id);
	int r = find_dir(id, &found, &dir);

	if (c)
		c->is_counting_known = false;
	if (r == 0)
		r = limits_apply(dir, rank, limits, &err);
	else
		(void)err_set(&err, r, "find the step to limit");
	return to_slurm_text(r, &err, text, size);
}

/* ---- members by task, and adoption ----------------------------------------------------------- */

int proctrack_p_get_members(uint64_t id, stepd_member_t **members, int *n)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	int fd = find_members(id, &found);

	return to_slurm(fd < 0 ? fd : cgmembers_list(fd, members, n));
}

int proctrack_p_find_member(uint64_t id, pid_t pid, uint32_t *rank)
{
	_cleanup_free_ char *below = NULL;
	const struct cgroup_root *root;
	uint64_t its_id = 0;
	int r = get_root(&root, NULL);

	if (r == 0)
		r = step_find_pid(root, pid, &its_id, &below);
	if (r == -ENOENT || (r == 0 && (its_id != id || id == 0)))
		r = -ESRCH;
	if (r == 0 && !step_parse_task(below, rank))
		*rank = STEPD_MEMBER_NO_RANK;
	return to_slurm(r);
}

/* By the task's own group, whatever the step's state: if that is frozen, the task's stays frozen
 * all the while, and the kernel delivers the signal when it goes on. A worker may be ended on the
 * way: then the mark is for the next resumption. */
int proctrack_p_signal_task(uint64_t id, uint32_t rank, int signal)
{
	_cleanup_step_dir_ struct step_dir found = STEP_DIR_INIT;
	_cleanup_close_ int fd = -1;
	const struct step_dir *dir;
	struct container *c;
	int r;

	r = find_dir(id, &found, &dir);
	if (r == 0)
		r = fd = step_find_task(dir, rank);
	if (r < 0)
		return to_slurm(r);
	/* The task's group is cloned into by its launch alone, which is over. */
	if (signal == SIGKILL)
		return to_slurm(group_kill(fd));
	c = container_get(id);
	if (c && c->held)
		atomic_fetch_add(c->held, 1);
	r = group_signal(fd, signal);
	if (c && c->held)
		atomic_fetch_sub(c->held, 1);
	return to_slurm(r);
}

/* The id alone is found anywhere. What the dead agent was about to do to a task's group is taken
 * back, and what it was about to remove is removed. */
int proctrack_p_adopt(stepd_step_rec_t *job, _unused_ const pid_t *pids, _unused_ int n)
{
	const struct cgroup_root *root;
	struct container *c;
	int r = take_container(job->cont_id, &c);

	if (r == 0 && !step_is_of(&c->dir, job)) {
		container_drop(job->cont_id); /* a later boot's, of another step */
		r = -ESRCH;
	}
	if (r == 0)
		r = cgmembers_thaw_tasks(step_get_members(&c->dir));
	else if (r == -ESRCH && get_root(&root, NULL) == 0)
		step_remove_above(root, job);
	return to_slurm(r);
}
