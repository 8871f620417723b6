/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/record/registry.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "proctrack/proctrack.h"
#include "stepd/base/fs.h"
#include "stepd/base/json.h"
#include "stepd/base/proc.h"
#include "stepd/base/strv.h"
#include "stepd/snapshot/handover.h"
#include "stepd/state/steps.h"

/* ---- the lock ------------------------------------------------------------------------------ */

/* Not flock(2): it can't be tested without taking it. */
static int lock_bytes(int fd, int command, off_t from, off_t count)
{
	struct flock part = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = from, .l_len = count};
	int r;

	do
		r = fcntl(fd, command, &part);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return errno == EACCES || errno == EAGAIN ? -EWOULDBLOCK : -errno;
	return command == F_OFD_GETLK && part.l_type != F_UNLCK ? -EWOULDBLOCK : 0;
}

static int open_lock(int dir_fd)
{
	int fd = openat(dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd >= 0)
		return fd;
	return errno == ENOENT ? -ESTALE : -errno;
}

/* Its remover holds the lock: checks whether the directory was removed meanwhile. */
static int check_there(int fd, int dir_fd)
{
	struct stat a, b;

	if (fstat(fd, &a) < 0 || fstatat(dir_fd, "lock", &b, AT_SYMLINK_NOFOLLOW) < 0)
		return -ESTALE;
	return a.st_ino == b.st_ino ? 0 : -ESTALE;
}

static void do_nothing(int signal)
{
	(void)signal;
}

/* Waits for byte 0, at most that long. */
static int wait_for_lock(int fd, unsigned patience_ms)
{
	struct flock part = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	struct itimerval timer = {.it_value = {.tv_sec = patience_ms / 1000,
					  .tv_usec = (suseconds_t)(patience_ms % 1000) * 1000}};
	const struct itimerval off = {0};
	struct sigaction alarm = {.sa_handler = do_nothing},
			 saved; /* no SA_RESTART: it ends the wait */
	int r;

	if (sigaction(SIGALRM, &alarm, &saved) < 0 || setitimer(ITIMER_REAL, &timer, NULL) < 0)
		return -errno;
	r = fcntl(fd, F_OFD_SETLKW, &part) < 0 ? -errno : 0;
	(void)setitimer(ITIMER_REAL, &off, NULL); /* can't fail, nor can the next */
	(void)sigaction(SIGALRM, &saved, NULL);
	return r == -EINTR ? -EWOULDBLOCK : r;
}

/* Returns a descriptor that holds the lock. -EWOULDBLOCK: an agent lives. The children of an
 * agent that was just killed share its open files until they close them: the lock is awaited for
 * patience_ms. -ESTALE: the directory was removed meanwhile. */
static int registry_lock_for_agent(int dir_fd, unsigned patience_ms)
{
	_cleanup_close_ int fd = open_lock(dir_fd);
	int r = fd < 0 ? fd : lock_bytes(fd, F_OFD_SETLK, 0, 1);

	if (r == -EWOULDBLOCK && patience_ms)
		r = wait_for_lock(fd, patience_ms);
	if (r == 0)
		r = lock_bytes(fd, F_OFD_SETLKW, 1, 0); /* to the end */
	if (r == 0)
		r = check_there(fd, dir_fd);
	return r < 0 ? r : take_fd(&fd);
}

int registry_lock_for_cleaning(int dir_fd)
{
	_cleanup_close_ int fd = open_lock(dir_fd);
	int r = fd < 0 ? fd : lock_bytes(fd, F_OFD_SETLK, 1, 0);

	if (r == 0)
		r = lock_bytes(fd, F_OFD_GETLK, 0, 1);
	if (r == 0)
		r = check_there(fd, dir_fd);
	return r < 0 ? r : take_fd(&fd);
}

/* ---- the directory ------------------------------------------------------------------------- */

#define CLAIM_TRIES_MAX 8
#define PATIENCE_MS     5000

/* Bytes by which state.json may grow between two writes. */
#define STATE_GROWTH      1024
#define STATE_TASK_GROWTH 64

struct registry {
	int runtime_fd;
	int dir_fd;
	int lock_fd;
	char *name; /* below runtime_fd */
	char *path;
	pid_t agent_pid;                            /* the process of agent_start_ticks; 0: none */
	uint64_t agent_start_ticks;                 /* 0: not known, and the lock decides */
	char *container_root;                       /* NULL: the backend needs none */
	struct fs_spare next_state[2], next_result; /* with their disk blocks reserved */
	size_t next_used;                           /* index of the next state's */
	bool inherited;                             /* a dead agent's state.json still exists */
	bool fresh;                                 /* an existing result is not this step's */
};

static int open_runtime_dir(const char *path, struct err *err)
{
	_cleanup_close_ int fd = -1;
	int r;

	if (mkdir(path, geteuid() == 0 ? 0755 : 0700) < 0 && errno != EEXIST)
		return err_set(
			err, -errno, "make the runtime directory '%s' (--runtime-dir)", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_set(
			err, -errno, "open the runtime directory '%s' (--runtime-dir)", path);
	r = steps_check_trusted(fd, path, err);
	return r < 0 ? r : take_fd(&fd);
}

/* Removes the files of agents that died in fs_write_atomic(); their names hold those agents'
 * pids.
 */
static void remove_unfinished(int dir_fd)
{
	_cleanup_closedir_ DIR *dir = fs_opendir(dir_fd, ".");
	struct dirent *d;

	while (dir && (d = readdir(dir))) {
		if (fs_is_spare(d->d_name))
			(void)unlinkat(dir_fd, d->d_name, 0); /* the next agent tries again */
	}
}

/* The lock goes last: until then no other agent starts here. */
static const char *const step_files[] = {"state.json", "spec.json", "events.jsonl", "socket.agent",
	"socket.owner", "socket", "holder", "script", "result.json", "lock"};

bool registry_has_file(const char *name)
{
	return strv_index(step_files, ARRAY_SIZE(step_files), name) >= 0 || fs_is_spare(name);
}

static void clear_spares(struct registry *reg)
{
	fs_spare_clear(&reg->next_state[0], reg->dir_fd);
	fs_spare_clear(&reg->next_state[1], reg->dir_fd);
	fs_spare_clear(&reg->next_result, reg->dir_fd);
}

static void remove_files(struct registry *reg, bool retain_result)
{
	size_t i;

	clear_spares(reg);
	for (i = 0; i < ARRAY_SIZE(step_files); i++) {
		if (!retain_result || strcmp(step_files[i], "result.json") != 0)
			(void)unlinkat(
				reg->dir_fd, step_files[i], 0); /* not every step has every file */
	}
	if (!retain_result) /* the next agent finds the rest */
		(void)unlinkat(reg->runtime_fd, reg->name, AT_REMOVEDIR);
}

/* Names the agent that has the step. */
static int err_taken(int dir_fd, const char *label, struct err *err)
{
	json_t *doc = NULL;
	int64_t pid = 0;

	if (steps_read_state(dir_fd, &doc) == 0)
		pid = json_get_int(doc, "agent_pid", 0);
	json_decref(doc);
	if (pid > 0)
		return err_set_text(err, -EEXIST,
			"step %s already runs here, under the agent with pid %d", label, (int)pid);
	return err_set_text(
		err, -EEXIST, "step %s is already being started by another agent", label);
}

static bool is_zombie(pid_t pid)
{
	struct procstat st;

	return procstat_read(pid, &st) == 0 && !procstat_is_living(&st);
}

/* By its state.json. */
static bool agent_lives(int dir_fd)
{
	_cleanup_pidref_ struct pidref ref = PIDREF_INIT;
	struct step_state state;
	json_t *doc = NULL;
	bool lives;

	lives = steps_read_state(dir_fd, &doc) == 0 && steps_parse_state(doc, &state, NULL) == 0 &&
		state.agent_start_ticks &&
		pidref_open(state.agent_pid, state.agent_start_ticks, &ref) == 0 &&
		!is_zombie(state.agent_pid);
	json_decref(doc);
	return lives;
}

/* Opens the directory and locks it: 0, -EWOULDBLOCK if an agent lives, -ESTALE if the directory is
 * not there, or was removed meanwhile. */
static int lock_dir(struct registry *reg, bool patient)
{
	unsigned patience_ms;

	reg->dir_fd = close_fd(reg->dir_fd);
	reg->lock_fd = close_fd(reg->lock_fd);
	reg->dir_fd =
		openat(reg->runtime_fd, reg->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (reg->dir_fd < 0)
		return errno == ENOENT ? -ESTALE : -errno;
	patience_ms = patient && !agent_lives(reg->dir_fd) ? PATIENCE_MS : 0;
	reg->lock_fd = registry_lock_for_agent(reg->dir_fd, patience_ms);
	return reg->lock_fd < 0 ? reg->lock_fd : 0;
}

static int claim(struct registry *reg, bool make, const char *label, struct err *err)
{
	int r = -ESTALE, tries;

	for (tries = 0; r == -ESTALE && tries < CLAIM_TRIES_MAX; tries++) {
		if (make && mkdirat(reg->runtime_fd, reg->name, 0755) < 0 && errno != EEXIST)
			return err_set(err, -errno, "make '%s'", reg->path);
		r = lock_dir(reg, !make);
	}
	if (r == -EWOULDBLOCK)
		return err_taken(reg->dir_fd, label, err);
	if (r == -ESTALE && !make)
		return err_set_text(
			err, -ENOENT, "step %s is over: '%s' is gone", label, reg->path);
	if (r < 0) {
		(void)unlinkat(reg->runtime_fd, reg->name, AT_REMOVEDIR); /* if it is empty */
		return err_set(err, r, "lock '%s/lock'", reg->path);
	}
	return 0;
}

static void free_registry(struct registry *reg)
{
	if (!reg)
		return;
	/* Not removed here: this may be a trial, while the files belong to another process. */
	free(reg->next_state[0].temp);
	free(reg->next_state[1].temp);
	free(reg->next_result.temp);
	(void)close_fd(reg->next_state[0].fd);
	(void)close_fd(reg->next_state[1].fd);
	(void)close_fd(reg->next_result.fd);
	(void)close_fd(reg->lock_fd);
	(void)close_fd(reg->dir_fd);
	(void)close_fd(reg->runtime_fd);
	free(reg->name);
	free(reg->path);
	free(reg->container_root);
	free(reg);
}

/* Tasks in other directories get the path: it is made absolute. */
static int make_names(
	struct registry *reg, const char *runtime, const stepd_step_rec_t *job, struct err *err)
{
	_cleanup_free_ char *absolute = realpath(runtime, NULL);

	if (!absolute)
		return err_set(err, -errno, "find the runtime directory '%s'", runtime);
	if (asprintf(&reg->name, "%s_%u.%s", job->node_name, job->job_id, job->step_name) < 0)
		reg->name = NULL;
	if (!reg->name || asprintf(&reg->path, "%s/%s", absolute, reg->name) < 0) {
		reg->path = NULL;
		return err_set(err, -ENOMEM, "open the runtime directory");
	}
	return 0;
}

static void cleanup_registry(struct registry **reg)
{
	free_registry(*reg);
}

static int open_registry(const char *runtime_dir, const stepd_step_rec_t *job, bool make,
	struct registry **ret_reg, struct err *err)
{
	_cleanup_(cleanup_registry) struct registry *reg = NULL;
	_cleanup_free_ char *runtime = NULL;
	char label[64];
	mode_t mask;
	int r;

	r = steps_find_dir(runtime_dir, &runtime, err);
	if (r < 0)
		return r;
	reg = calloc(1, sizeof(*reg));
	if (!reg)
		return err_set(err, -ENOMEM, "open the runtime directory");
	reg->dir_fd = reg->lock_fd = -1;
	reg->next_state[0] = reg->next_state[1] = reg->next_result = FS_SPARE_INIT;
	(void)snprintf(label, sizeof(label), "%u.%s", job->job_id, job->step_name);
	mask = umask(022); /* the step's user reads its script here, and all users the states */
	reg->runtime_fd = r = open_runtime_dir(runtime, err);
	if (r >= 0)
		r = make_names(reg, runtime, job, err);
	if (r == 0)
		r = claim(reg, make, label, err);
	(void)umask(mask);
	if (r < 0)
		return r;
	remove_unfinished(reg->dir_fd);
	reg->inherited = faccessat(reg->dir_fd, "state.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	reg->fresh = make;
	*ret_reg = take_ptr(reg);
	return 0;
}

int registry_open(const char *runtime_dir, const stepd_step_rec_t *job, struct registry **ret_reg,
	struct err *err)
{
	return open_registry(runtime_dir, job, true, ret_reg, err);
}

int registry_take_over(const char *runtime_dir, const stepd_step_rec_t *job,
	struct registry **ret_reg, struct err *err)
{
	return open_registry(runtime_dir, job, false, ret_reg, err);
}

void registry_inherit(struct registry *reg)
{
	reg->inherited = false;
}

int registry_get_runtime_fd(const struct registry *reg)
{
	return reg->runtime_fd;
}

const char *registry_get_path(const struct registry *reg)
{
	return reg->path;
}

int registry_get_dirfd(const struct registry *reg)
{
	return reg->dir_fd;
}

int registry_get_lock_fd(const struct registry *reg)
{
	return reg->lock_fd;
}

/* It is the same in every state that this agent publishes. */
static void learn_start(struct registry *reg, pid_t agent_pid)
{
	struct procstat st;

	if (reg->agent_pid == agent_pid)
		return;
	reg->agent_start_ticks = procstat_read(agent_pid, &st) == 0 ? st.start_ticks : 0;
	reg->agent_pid = agent_pid;
}

/* Together with the members of more. NULL: no memory. */
static json_t *pack_state(const struct registry *reg, const stepd_step_rec_t *job,
	const char *proctrack_type, const char *state)
{
	return json_pack("{s:i, s:I, s:s, s:s, s:I, s:I, s:s, s:s, s:s, s:I, s:s?, s:i, s:I}",
		"version", REGISTRY_STATE_VERSION, "job", (json_int_t)job->job_id, "step",
		job->step_name, "node", job->node_name, "node_id", (json_int_t)job->nodeid, "uid",
		(json_int_t)job->uid, "user", job->user_name, "state", state, "proctrack",
		proctrack_type, "container_id", (json_int_t)job->cont_id, "container_root",
		reg->container_root, "agent_pid", (int)job->jmgr_pid, "agent_start_ticks",
		(json_int_t)reg->agent_start_ticks);
}

int registry_set_root(struct registry *reg, const char *container_root)
{
	free(reg->container_root);
	reg->container_root = strdup(container_root);
	return reg->container_root ? 0 : -ENOMEM;
}

const char *registry_get_root(const struct registry *reg)
{
	return reg->container_root;
}

static int store_public(
	struct registry *reg, const char *name, struct fs_spare *spare, const char *text, bool sync)
{
	mode_t mask = umask(022); /* everyone may know what runs here */
	int r;

	if (spare->fd >= 0)
		r = fs_spare_use(spare, reg->dir_fd, name, text, strlen(text), sync);
	else
		r = fs_write_atomic(reg->dir_fd, name, text, strlen(text), 0644, sync);
	(void)umask(mask);
	return r;
}

static int reserve_public(
	struct registry *reg, const char *name, struct fs_spare *spare, size_t size)
{
	mode_t mask = umask(022);
	int r = spare->fd >= 0 ? fs_spare_grow(spare, size)
			       : fs_spare_make(reg->dir_fd, name, 0644, size, spare);

	(void)umask(mask);
	return r;
}

/* For the tasks' pids and other members not known yet. */
static size_t next_state_size(const stepd_step_rec_t *job, size_t size)
{
	return size + STATE_GROWTH + (size_t)job->node_tasks * STATE_TASK_GROWTH;
}

static void reserve_state(struct registry *reg, size_t i, const stepd_step_rec_t *job, size_t size)
{
	if (job->cont_id)
		(void)reserve_public(
			reg, i ? "state.json.1" : "state.json.0", &reg->next_state[i], size);
}

/* The next state's blocks are reserved before this one can be read, so that a reader that fills
 * the file system can't take them. They are reserved for two states, since a replaced file frees
 * its blocks only when its last reader has closed it; without a reservation the next write may
 * fail. */
static int publish_text(struct registry *reg, const stepd_step_rec_t *job, const char *text)
{
	size_t size = next_state_size(job, strlen(text)), now = reg->next_used;
	int r;

	if (reg->next_state[now].fd < 0)
		now = 1 - now;
	reg->next_used = 1 - now;
	reserve_state(reg, 1 - now, job, size);
	r = store_public(reg, "state.json", &reg->next_state[now], text, false);
	if (r == 0) {
		reserve_state(reg, now, job, size);
		reserve_state(reg, 1 - now, job, size);
	}
	return r;
}

int registry_publish(struct registry *reg, const stepd_step_rec_t *job, const char *proctrack_type,
	const char *state, json_t *more, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	json_t *doc;
	int r;

	learn_start(reg, job->jmgr_pid);
	doc = pack_state(reg, job, proctrack_type, state);
	if (doc && more && json_object_update_missing(doc, more) < 0) {
		json_decref(doc);
		doc = NULL;
	}
	text = doc ? json_dumps(doc, JSON_COMPACT) : NULL;
	json_decref(doc);
	if (!text)
		return err_set(err, -ENOMEM, "write '%s/state.json'", reg->path);
	r = publish_text(reg, job, text);
	if (r < 0)
		return err_set(err, r, "write '%s/state.json'", reg->path);
	if (reg->fresh) /* of an earlier step of this name */
		(void)unlinkat(reg->dir_fd, "result.json", 0);
	reg->inherited = reg->fresh = false;
	return 0;
}

int registry_store_spec(struct registry *reg, const char *text, struct err *err)
{
	_cleanup_close_ int fd = -1;
	int r;

	/* Nothing reads it before this agent's state.json exists: it need not be replaced
	 * atomically.
	 */
	fd = openat(reg->dir_fd, "spec.json", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		0600);
	r = fd < 0 ? -errno : fs_write_all(fd, text, strlen(text));
	return r < 0 ? err_set(err, r, "write '%s/spec.json'", reg->path) : 0;
}

int registry_reserve_result(struct registry *reg, size_t size, struct err *err)
{
	int r = reserve_public(reg, "result.json", &reg->next_result, size);

	return r < 0 ? err_set(err, r, "reserve %zu bytes for '%s/result.json'", size, reg->path)
		     : 0;
}

int registry_store_result(struct registry *reg, const char *text, struct err *err)
{
	int r = store_public(reg, "result.json", &reg->next_result, text, true);

	return r < 0 ? err_set(err, r, "write '%s/result.json'", reg->path) : 0;
}

struct registry *registry_close(struct registry *reg)
{
	if (reg && !reg->inherited)
		remove_files(reg, false);
	else if (reg)
		clear_spares(reg); /* its own descriptors; the files stay the dead agent's */
	free_registry(reg);
	return NULL;
}

struct registry *registry_retire(struct registry *reg)
{
	remove_files(reg, true);
	free_registry(reg);
	return NULL;
}

struct registry *registry_leave(struct registry *reg)
{
	clear_spares(reg);
	free_registry(reg);
	return NULL;
}

int registry_show_left(const struct registry *reg, steps_found_fn found, void *userdata)
{
	return reg->inherited ? steps_show(reg->dir_fd, found, userdata) : 0;
}

static void save_spare(
	const struct fs_spare *spare, struct handover *h, json_t *object, const char *name)
{
	json_t *saved = handover_put_object(h, object, name);

	handover_put_fd(h, saved, "fd", spare->fd);
	handover_put_text(h, saved, "temp", spare->temp);
}

static int restore_spare(
	struct fs_spare *spare, const struct handover *h, const json_t *object, const char *name)
{
	const json_t *saved = json_object_get(object, name);
	int fd = handover_get_fd(saved, "fd");

	if (fd < 0)
		return 0; /* written by an agent without that field */
	spare->fd = fd;
	return handover_copy_text(h, saved, "temp", &spare->temp) < 0 || !spare->temp ? -EPROTO : 0;
}

void registry_save(const struct registry *reg, struct handover *h, json_t *object)
{
	handover_put_fd(h, object, "runtime_fd", reg->runtime_fd);
	handover_put_fd(h, object, "dir_fd", reg->dir_fd);
	handover_put_fd(h, object, "lock_fd", reg->lock_fd);
	handover_put_text(h, object, "name", reg->name);
	handover_put_text(h, object, "path", reg->path);
	handover_put_text(h, object, "container_root", reg->container_root);
	handover_put_bool(h, object, "inherited", reg->inherited);
	handover_put_bool(h, object, "fresh", reg->fresh);
	save_spare(&reg->next_state[0], h, object, "next_state");
	save_spare(&reg->next_state[1], h, object, "next_state_1");
	save_spare(&reg->next_result, h, object, "next_result");
}

/* All members are required. */
static int registry_restore_fields(
	struct registry *reg, const struct handover *h, const json_t *object)
{
	reg->next_state[0] = reg->next_state[1] = reg->next_result = FS_SPARE_INIT;
	reg->runtime_fd = handover_get_fd(object, "runtime_fd");
	reg->dir_fd = handover_get_fd(object, "dir_fd");
	reg->lock_fd = handover_get_fd(object, "lock_fd");
	reg->inherited = json_get_bool(object, "inherited", false);
	reg->fresh = json_get_bool(object, "fresh", false);
	if (restore_spare(&reg->next_state[0], h, object, "next_state") < 0 ||
		restore_spare(&reg->next_state[1], h, object, "next_state_1") < 0 ||
		restore_spare(&reg->next_result, h, object, "next_result") < 0)
		return -EPROTO;
	if (handover_copy_text(h, object, "name", &reg->name) < 0 ||
		handover_copy_text(h, object, "path", &reg->path) < 0 ||
		handover_copy_text(h, object, "container_root", &reg->container_root) < 0)
		return -ENOMEM;
	return reg->runtime_fd < 0 || reg->dir_fd < 0 || reg->lock_fd < 0 || !reg->name ||
			!reg->path
		? -EPROTO
		: 0;
}

int registry_restore(
	const struct handover *h, const json_t *object, struct registry **ret_reg, struct err *err)
{
	_cleanup_(cleanup_registry) struct registry *reg = calloc(1, sizeof(*reg));
	int r = reg ? registry_restore_fields(reg, h, object) : -ENOMEM;

	if (r == -EPROTO)
		return handover_err_part("directory", err);
	if (r < 0)
		return err_set(err, r, "take over the step's directory");
	*ret_reg = take_ptr(reg);
	return 0;
}
