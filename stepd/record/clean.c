/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/record/clean.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "proctrack/proctrack.h"
#include "stepd/base/clock.h"
#include "stepd/base/fs.h"
#include "stepd/base/json.h"
#include "stepd/base/proc.h"
#include "stepd/plugin/plugin.h"
#include "stepd/record/registry.h"
#include "stepd/record/state_doc.h"
#include "stepd/state/steps.h"

/* ---- what a dead agent left ---------------------------------------------------------------- */

int leftover_error(const char *label, struct err *err)
{
	return err_set_text(err, -EEXIST,
		"step %s has processes that an agent left behind when it died: end those first "
		"('stepctl pids %s' lists them)",
		label, label);
}

/* 1 if the container has members, 0 if not or if it is gone. */
static int has_members(const char *plugin_dir, const struct step_entry *entry)
{
	_cleanup_proctrack_ struct proctrack *pt = NULL;
	_cleanup_free_ pid_t *pids = NULL;
	int n = 0, r;

	r = proctrack_open(plugin_dir, entry->proctrack, &pt, NULL);
	if (r == 0)
		r = proctrack_get_pids(pt, entry->cont_id, &pids, &n);
	if (r == -ESRCH || r == -ENOENT)
		return 0;
	return r < 0 ? r : n > 0;
}

static int check_entry(const struct step_entry *entry, void *userdata)
{
	const char *plugin_dir = userdata;
	const char *root = json_get_text(entry->doc, "container_root", NULL);
	const char *before = secure_getenv(STEPD_CGROUP_ROOT_ENV);
	_cleanup_free_ char *saved = before ? strdup(before) : NULL;
	int r, restored;

	if (!root)
		return 0; /* its container's number is enough */
	if (before && !saved)
		return -ENOMEM;
	r = proctrack_set_root(root);
	if (r == 0)
		r = has_members(plugin_dir, entry);
	restored = proctrack_set_root(saved);
	return restored < 0 ? restored : r;
}

/* For a tracker without a container directory: by the tasks. */
static int tasks_live(int dir_fd)
{
	_cleanup_state_doc_ struct state_doc state = {0};
	_cleanup_free_ pid_t *pids = NULL;
	int n = 0, r = state_doc_read(dir_fd, &state, NULL);

	if (r == 0)
		r = steps_list_living(state.doc, &pids, &n);
	return r < 0 ? r : n > 0;
}

/* Whether processes of the step in that directory live: 1, 0, or -errno where that can't be
 * determined. Changes nothing. */
static int leftover_lives(int dir_fd, const char *plugin_dir)
{
	int r = tasks_live(dir_fd);

	return r == 0 ? steps_show(dir_fd, check_entry, (void *)plugin_dir) : r;
}

int leftover_check(
	const struct registry *registry, const char *plugin_dir, const char *label, struct err *err)
{
	int r = registry_show_left(registry, check_entry, (void *)plugin_dir);

	if (r < 0)
		return err_set(err, r, "find what an earlier agent of step %s left", label);
	return r > 0 ? leftover_error(label, err) : 0;
}

/* ---- the runtime directory ----------------------------------------------------------------- */

#define OPEN_DIR     (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define AGE_LEAST_S  10 /* an agent that starts has its directory locked by then */
#define SOME_MOST    8  /* entries that an agent checks when it starts */
#define CLEANED_MOST 2  /* and cleans */

/* A step without processes ends as soon as its result is written. */
#define SETTLE_PATIENCE_MS 5000

const char *const clean_names[CLEAN_WHAT_MAX] = {
	[CLEAN_RESULT] = "a result whose retention time is over",
	[CLEAN_REMAINS] = "left by an agent that died",
	[CLEAN_ALONE] = "left alone",
};

static bool has(int dir_fd, const char *name)
{
	return faccessat(dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* ---- results ------------------------------------------------------------------------------- */

/* Whether the result has expired; false without an expiry time, which is the first member. */
static bool is_expired(int dir_fd)
{
	_cleanup_close_ int fd = openat(dir_fd, "result.json", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	static const char key[] = "\"" RESULT_KEEP_UNTIL "\":";
	char head[129], *at;
	ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof(head) - 1);

	if (n < 0)
		return false;
	head[n] = '\0';
	at = strstr(head, key);
	return at && strtoll(at + strlen(key), NULL, 10) < (long long)clock_wall_usec();
}

/* Removes a directory that holds a single file beside the lock. */
static bool is_result_only(int dir_fd)
{
	return has(dir_fd, "result.json") && !has(dir_fd, "state.json");
}

/* True if it has been removed. */
static bool remove_result(int runtime_fd, int dir_fd, const char *name)
{
	_cleanup_close_ int lock_fd = registry_lock_for_cleaning(dir_fd);

	/* An agent may have started since. */
	if (lock_fd < 0 || !is_result_only(dir_fd) || !is_expired(dir_fd))
		return false;
	(void)unlinkat(dir_fd, "result.json", 0);
	(void)unlinkat(dir_fd, "lock", 0);
	return unlinkat(runtime_fd, name, AT_REMOVEDIR) == 0;
}

/* ---- what dead agents left ----------------------------------------------------------------- */

struct cleaning {
	const struct clean_options *options;
	int runtime_fd;
	const char *runtime;
	const char *plugin_dir;
	const char *name; /* of the checked directory */
};

static void clean_report_code(
	const struct cleaning *c, enum clean_what what, const char *text, int code)
{
	char path[PATH_MAX];
	const struct clean_found found = {
		.what = what, .directory = c->name, .path = path, .text = text, .code = code};

	(void)snprintf(path, sizeof(path), "%s/%s", c->runtime, c->name);
	c->options->report(&found, c->options->userdata);
}

static void clean_report(const struct cleaning *c, enum clean_what what, const char *text)
{
	clean_report_code(c, what, text, 0);
}

/* "n1_7.0" into "n1/7.0". */
static char *step_of(const char *name)
{
	const char *under = strrchr(name, '_');
	char *step = under && under > name ? strdup(name) : NULL;

	if (step)
		step[under - name] = '/';
	return step;
}

/* In a process of its own: an adopter's changes to itself, and its loaded tracker, end with it.
 * One that hangs is killed: the step can be adopted again. */
static int settle_entry(const struct cleaning *c, const char *step)
{
	_cleanup_pidref_ struct pidref child = PIDREF_INIT;
	struct pollfd end = {.events = POLLIN};
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(c->options->settle(step, c->options) < 0);
	if (pid < 0)
		return -errno;
	if (pidref_open(pid, 0, &child) == 0) {
		end.fd = child.fd;
		while (poll(&end, 1, SETTLE_PATIENCE_MS) < 0 && errno == EINTR)
			;
	}
	if (!end.revents)
		(void)kill(pid,
			SIGKILL); /* our child, not yet reaped: the pid can't have been reused */
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return WIFEXITED(status) ? 0 : -EBUSY;
}

static void clean_remains(const struct cleaning *c, int dir_fd)
{
	_cleanup_free_ char *step = step_of(c->name);
	int r;

	if (!step) {
		clean_report(c, CLEAN_ALONE, "its name is not that of a step");
		return;
	}
	r = has(dir_fd, "state.json") ? leftover_lives(dir_fd, c->plugin_dir) : 0;
	if (r > 0)
		clean_report(c, CLEAN_ALONE,
			"its agent has died, and processes of it live: 'stepd adopt' takes it over");
	else if (r < 0)
		clean_report(c, CLEAN_ALONE, "it is not known whether its processes live");
	else if (c->options->dry_run || (settle_entry(c, step) == 0 && !has(dir_fd, "state.json")))
		clean_report(c, CLEAN_REMAINS, NULL);
	else
		clean_report(c, CLEAN_ALONE, "it could not be ended: adopt it to see the reason");
}

/* ---- one entry ----------------------------------------------------------------------------- */

/* The first file name in the directory that no agent writes, or NULL; stored in buf. */
static const char *find_strange(int dir_fd, char buf[NAME_MAX + 1])
{
	_cleanup_closedir_ DIR *dir = fs_opendir(dir_fd, ".");
	struct dirent *d;

	while (dir && (d = readdir(dir))) {
		if (d->d_name[0] == '.' || registry_has_file(d->d_name))
			continue;
		(void)snprintf(buf, NAME_MAX + 1, "%s", d->d_name);
		return buf;
	}
	return NULL;
}

/* Whether this user's agents may have made the directory; if not it is reported. */
static bool is_ours(const struct cleaning *c, int dir_fd, const struct stat *st)
{
	char strange[NAME_MAX + 1], text[NAME_MAX + 64];
	struct stat state;

	if (st->st_uid != geteuid() && geteuid() != 0)
		return false; /* most are root's and not reported */
	if (st->st_uid != geteuid()) {
		(void)snprintf(text, sizeof(text), "it belongs to uid %u", (unsigned)st->st_uid);
		clean_report(c, CLEAN_ALONE, text);
		return false;
	}
	if (st->st_mode & (S_IWGRP | S_IWOTH)) {
		clean_report(c, CLEAN_ALONE, "others may write to it");
		return false;
	}
	if (fstatat(dir_fd, "state.json", &state, AT_SYMLINK_NOFOLLOW) == 0 &&
		state.st_uid != geteuid()) {
		clean_report_code(c, CLEAN_ALONE, "its state.json is another user's", -EPERM);
		return false;
	}
	if (find_strange(dir_fd, strange)) {
		(void)snprintf(text, sizeof(text), "'%s' in it is not a file of a step", strange);
		clean_report(c, CLEAN_ALONE, text);
		return false;
	}
	return true;
}

/* An agent holds the lock, or may be about to. */
static bool is_held(int dir_fd, const struct stat *st)
{
	if (!has(dir_fd, "state.json") && time(NULL) - st->st_mtime < AGE_LEAST_S)
		return true;
	return steps_agent_lives(dir_fd);
}

static void clean_entry(const struct cleaning *c)
{
	_cleanup_close_ int fd = openat(c->runtime_fd, c->name, OPEN_DIR);
	struct stat st;

	if (fd < 0 && errno == ENOENT)
		return;
	if (fd < 0 || fstat(fd, &st) < 0) {
		clean_report(c, CLEAN_ALONE, "it is not the directory of a step");
		return;
	}
	if (is_result_only(fd)) {
		if (is_expired(fd) && is_ours(c, fd, &st) &&
			(c->options->dry_run || remove_result(c->runtime_fd, fd, c->name)))
			clean_report(c, CLEAN_RESULT, NULL);
		return;
	}
	if (!is_held(fd, &st) && is_ours(c, fd, &st))
		clean_remains(c, fd);
}

int clean_all(const struct clean_options *options, struct err *err)
{
	struct cleaning c = {.options = options};
	_cleanup_free_ char *runtime = NULL, *plugins = NULL;
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *d;
	int r;

	r = steps_find_dir(options->runtime_dir, &runtime, err);
	if (r == 0)
		r = plugin_dir_find(options->plugin_dir, &plugins, err);
	if (r < 0)
		return r;
	dir = opendir(runtime);
	if (!dir)
		return errno == ENOENT ? 0 : err_set(err, -errno, "read '%s'", runtime);
	r = steps_check_trusted(dirfd(dir), runtime, err);
	if (r < 0)
		return r;
	c.runtime_fd = dirfd(dir);
	c.runtime = runtime;
	c.plugin_dir = plugins;
	while ((d = readdir(dir))) {
		c.name = d->d_name;
		if (d->d_name[0] != '.')
			clean_entry(&c);
	}
	return 0;
}

/* ---- a few of them ------------------------------------------------------------------------- */

static void report_nothing(const struct clean_found *found, void *userdata)
{
	(void)found;
	(void)userdata;
}

/* Cheap for the many steps whose agents live. True if it has cleaned something. */
static bool clean_if_due(const struct cleaning *c)
{
	_cleanup_close_ int fd = openat(c->runtime_fd, c->name, OPEN_DIR);

	if (fd < 0)
		return false;
	if (is_result_only(fd) ? !is_expired(fd) : steps_agent_lives(fd))
		return false;
	clean_entry(c);
	return true;
}

void clean_some(
	const char *runtime_dir, int runtime_fd, const char *plugin_dir, clean_settle_fn settle)
{
	const struct clean_options options = {.runtime_dir = runtime_dir,
		.plugin_dir = plugin_dir,
		.settle = settle,
		.report = report_nothing};
	struct cleaning c = {.options = &options,
		.runtime_fd = runtime_fd,
		.runtime = "",
		.plugin_dir = plugin_dir};
	_cleanup_closedir_ DIR *dir = fs_opendir(runtime_fd, ".");
	int n = 0, skip, cleaned = 0;
	struct dirent *d;

	if (!dir)
		return;
	while (readdir(dir))
		n++;
	skip = n > SOME_MOST ? (int)getpid() % n : 0;
	rewinddir(dir);
	for (n = 0; cleaned < CLEANED_MOST && (d = readdir(dir)) && n < skip + SOME_MOST; n++) {
		c.name = d->d_name;
		if (n >= skip && d->d_name[0] != '.')
			cleaned += clean_if_due(&c);
	}
}
