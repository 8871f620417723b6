/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/watch.h"

#include <assert.h>
#include <ev.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/queue.h>

#include "stepd/state/steps.h"

/* Directories appear. */
#define RUNTIME_EVENTS (IN_ONLYDIR | IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM)
/* The runtime directory goes: IN_DELETE_SELF would wait until no file in it is open. */
#define PARENT_EVENTS (IN_ONLYDIR | IN_DELETE | IN_MOVED_FROM)
/* The socket and the state appear, the socket and the lock go, the lock is closed by its writer.
 */
#define STEP_EVENTS (IN_ONLYDIR | IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_CLOSE_WRITE)

/* A directory of a step, whether that lives or not. */
struct seen {
	LIST_ENTRY(seen) link;
	int wd;
	char *name; /* below the runtime directory */
	bool lives;
	void *data; /* of lives() */
};

struct watch {
	struct watch_options options;
	char *path;
	int inotify_fd;
	int wd, parent_wd;
	ev_io io;
	LIST_HEAD(, seen) seen;
};

/* ---- one directory --------------------------------------------------------------------------- */

/* For steps_show(). */
struct probe {
	struct watch *watch;
	struct seen *seen;
	bool alive;
};

static int on_entry(const struct step_entry *entry, void *userdata)
{
	struct probe *probe = userdata;
	struct watch *w = probe->watch;
	_cleanup_free_ char *directory = NULL;
	const json_t *uid = json_object_get(entry->doc, "uid");

	/* Without an owner there is no access to decide. */
	probe->alive = entry->alive && json_is_integer(uid) &&
		faccessat(entry->dir_fd, "socket", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	if (!probe->alive || probe->seen->lives)
		return 0;
	if (asprintf(&directory, "%s/%s", w->path, probe->seen->name) < 0) {
		directory = NULL;
		return -ENOMEM;
	}
	probe->seen->lives = true;
	probe->seen->data = w->options.lives(&(struct watch_step){.step = entry->step,
						     .node = entry->node,
						     .directory = directory,
						     .owner = (uid_t)json_integer_value(uid)},
		w->options.userdata);
	return 0;
}

static void report_gone(struct watch *w, struct seen *seen)
{
	if (seen->lives)
		w->options.gone(seen->data, w->options.userdata);
	seen->lives = false;
	seen->data = NULL;
}

/* Reports what has changed of a step. A step that can't be read is treated as absent. */
static void report_changes(struct watch *w, struct seen *seen)
{
	_cleanup_close_ int runtime_fd = open(w->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int fd = -1;
	struct probe probe = {.watch = w, .seen = seen};

	if (runtime_fd >= 0)
		fd = openat(
			runtime_fd, seen->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || steps_show(fd, on_entry, &probe) < 0)
		probe.alive = false;
	if (!probe.alive)
		report_gone(w, seen);
}

static void forget(struct watch *w, struct seen *seen)
{
	report_gone(w, seen);
	(void)inotify_rm_watch(w->inotify_fd, seen->wd); /* it may have gone by itself */
	LIST_REMOVE(seen, link);
	free(seen->name);
	free(seen);
}

static struct seen *find_name(struct watch *w, const char *name)
{
	struct seen *seen;

	LIST_FOREACH(seen, &w->seen, link)
	{
		if (strcmp(seen->name, name) == 0)
			return seen;
	}
	return NULL;
}

static struct seen *find_wd(struct watch *w, int wd)
{
	struct seen *seen;

	LIST_FOREACH(seen, &w->seen, link)
	{
		if (seen->wd == wd)
			return seen;
	}
	return NULL;
}

/* The watch on a directory, which is the same one for as long as it is the same directory. */
static int add_watch(struct watch *w, const char *name)
{
	_cleanup_free_ char *path = NULL;
	int wd;

	if (asprintf(&path, "%s/%s", w->path, name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	wd = inotify_add_watch(w->inotify_fd, path, STEP_EVENTS);
	return wd < 0 ? -errno : wd;
}

/* A directory is there. Watched first and then read: nothing can happen in between. */
static void watch_begin(struct watch *w, const char *name)
{
	struct seen *seen = find_name(w, name);

	if (!strchr(name, '_') || name[0] == '.')
		return; /* no step's */
	if (seen)
		forget(w, seen); /* another one of its name */
	seen = calloc(1, sizeof(*seen));
	if (!seen)
		return;
	seen->name = strdup(name);
	seen->wd = seen->name ? add_watch(w, name) : -ENOMEM;
	LIST_INSERT_HEAD(&w->seen, seen, link);
	if (seen->wd < 0)
		forget(w, seen); /* it has gone already, or is no directory */
	else
		report_changes(w, seen);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int begin_all(struct watch *w, struct err *err)
{
	_cleanup_closedir_ DIR *dir = opendir(w->path);
	struct dirent *d;

	if (!dir)
		return err_set(err, -errno, "read the runtime directory '%s'", w->path);
	while ((d = readdir(dir))) {
		if (!find_name(w, d->d_name))
			watch_begin(w, d->d_name);
	}
	return 0;
}

/* Events were lost: read all again. */
static void catch_up(struct watch *w)
{
	struct seen *seen, *next;
	struct err err = ERR_INIT;

	for (seen = LIST_FIRST(&w->seen); seen; seen = next) {
		next = LIST_NEXT(seen, link);
		if (add_watch(w, seen->name) != seen->wd)
			forget(w, seen);
		else
			report_changes(w, seen);
	}
	if (begin_all(w, &err) < 0)
		w->options.lost(&err, w->options.userdata);
}

static void report_lost(struct watch *w)
{
	struct err err = ERR_INIT;

	(void)err_set_text(&err, -ENOENT, "the runtime directory '%s' has gone", w->path);
	w->options.lost(&err, w->options.userdata);
}

static void on_parent_event(struct watch *w, const struct inotify_event *event)
{
	if (event->len && strcmp(event->name, strrchr(w->path, '/') + 1) == 0)
		report_lost(w);
}

static void on_runtime_event(struct watch *w, const struct inotify_event *event)
{
	struct seen *seen;

	if (event->mask & (IN_IGNORED | IN_UNMOUNT)) {
		report_lost(w);
	} else if (event->mask & (IN_CREATE | IN_MOVED_TO)) {
		watch_begin(w, event->name);
	} else if (event->mask & IN_MOVED_FROM) {
		seen = find_name(w, event->name);
		if (seen)
			forget(w, seen);
	}
}

static void on_step_event(struct watch *w, const struct inotify_event *event)
{
	struct seen *seen = find_wd(w, event->wd);
	const char *name = event->len ? event->name : "";

	if (!seen)
		return;
	if (event->mask & IN_IGNORED) /* the directory has gone */
		forget(w, seen);
	else if (strcmp(name, "socket") == 0 || strcmp(name, "lock") == 0 ||
		(!seen->lives && strcmp(name, "state.json") == 0))
		report_changes(w, seen); /* a state that only changes is of no matter here */
}

static void on_events(struct ev_loop *loop, ev_io *io, int revents)
{
	_Alignas(struct inotify_event) char buf[16 * (sizeof(struct inotify_event) + NAME_MAX + 1)];
	const struct inotify_event *event;
	struct watch *w = io->data;
	ssize_t n, at;

	(void)loop;
	(void)revents;
	assert(w);
	n = read(w->inotify_fd, buf, sizeof(buf)); /* on error, and EAGAIN, the loop comes again */
	for (at = 0; at < n; at += (ssize_t)(sizeof(*event) + event->len)) {
		event = (const struct inotify_event *)(buf + at);
		if (event->mask & IN_Q_OVERFLOW)
			catch_up(w);
		else if (event->wd == w->wd)
			on_runtime_event(w, event);
		else if (event->wd == w->parent_wd)
			on_parent_event(w, event);
		else
			on_step_event(w, event);
	}
}

/* ---- the whole ------------------------------------------------------------------------------- */

struct watch *watch_close(struct watch *w)
{
	if (!w)
		return NULL;
	while (!LIST_EMPTY(&w->seen))
		forget(w, LIST_FIRST(&w->seen));
	ev_io_stop(w->options.loop, &w->io);
	(void)close_fd(w->inotify_fd);
	free(w->path);
	free(w);
	return NULL;
}

DEFINE_CLEANUP(struct watch *, watch_close);

static int find_runtime(struct watch *w, struct err *err)
{
	_cleanup_free_ char *given = NULL;
	_cleanup_close_ int fd = -1;
	int r = steps_find_dir(w->options.runtime_dir, &given, err);

	if (r < 0)
		return r;
	w->path = realpath(given, NULL);
	if (!w->path)
		return err_set(
			err, -errno, "find the runtime directory '%s' (--runtime-dir)", given);
	fd = open(w->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set(
			err, -errno, "open the runtime directory '%s' (--runtime-dir)", w->path);
	return steps_check_trusted(fd, w->path, err);
}

static int watch_runtime(struct watch *w, struct err *err)
{
	_cleanup_free_ char *parent = strdup(w->path);

	if (!parent)
		return err_set(err, -ENOMEM, "watch the runtime directory '%s'", w->path);
	strrchr(parent, '/')[1] = '\0'; /* the path is absolute */
	w->parent_wd = inotify_add_watch(w->inotify_fd, parent, PARENT_EVENTS);
	w->wd = inotify_add_watch(w->inotify_fd, w->path, RUNTIME_EVENTS);
	if (w->parent_wd < 0 || w->wd < 0)
		return err_set(err, -errno, "watch the runtime directory '%s'", w->path);
	return 0;
}

int watch_open(const struct watch_options *options, struct watch **ret_watch, struct err *err)
{
	_cleanup_(watch_close_p) struct watch *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return err_set(err, -ENOMEM, "watch the runtime directory");
	w->options = *options;
	w->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	ev_io_init(&w->io, on_events, w->inotify_fd, EV_READ);
	w->io.data = w;
	if (w->inotify_fd < 0)
		return err_set(err, -errno, "watch the runtime directory");
	r = find_runtime(w, err);
	if (r < 0)
		return r;
	r = watch_runtime(w, err);
	if (r < 0)
		return r;
	ev_io_start(options->loop, &w->io);
	r = begin_all(w, err);
	if (r == 0)
		*ret_watch = take_ptr(w);
	return r;
}
