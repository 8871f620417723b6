/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/probe.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "proctrack/cgroup/place.h"
#include "stepd/base/fs.h"
#include "systemd/scope.h"

#define REMEDY                                                                                     \
	"run it as root, in a unit with Delegate=yes ('systemd-run --user --scope -p "             \
	"Delegate=yes ...'), or set " PLACE_ENV " to a cgroup2 directory that it may use"

#define REMEDY_READ_ONLY                                                                           \
	"mount it read-write in this container, or set " PLACE_ENV                                 \
	" to a directory of a cgroup2 mount that is"

static int say_unusable(const struct place *p, int code, const char **ret_remedy, struct err *err)
{
	if (code == -EROFS) {
		*ret_remedy = REMEDY_READ_ONLY;
		return err_say(err, code, "cgroup2 is mounted read-only at '%s'", p->mount.point);
	}
	*ret_remedy = REMEDY;
	return err_set(err, code, "can't make a cgroup in '%s' (%s)", p->path, place_get_reason(p));
}

void probe_forget(const struct place *p)
{
	(void)unlinkat(p->fd, "stepd", AT_REMOVEDIR); /* another agent may use it by now */
}

static int look_at(int fd, bool made, struct probe_abilities *ret)
{
	_cleanup_free_ char *type = NULL;

	if (!made && faccessat(fd, ".", W_OK, AT_EACCESS) < 0)
		return -errno;
	/* "domain invalid": the root is threaded, and no process may come in. */
	if (fs_read(fd, "cgroup.type", 4096, &type, NULL) == 0 && strcmp(type, "domain\n") != 0)
		return -EOPNOTSUPP;
	ret->kill = faccessat(fd, "cgroup.kill", F_OK, 0) == 0;
	ret->freeze = faccessat(fd, "cgroup.freeze", F_OK, 0) == 0;
	return 0;
}

/* Makes stepd/ as the first step would. Permission bits alone don't say it: the mount may be
 * read-only, the number of groups limited. */
static int try_group(const struct place *p, struct probe_abilities *ret)
{
	mode_t mask = umask(022);
	bool made = mkdirat(p->fd, "stepd", 0755) == 0;
	int r = made || errno == EEXIST ? 0 : -errno;
	_cleanup_close_ int fd = -1;

	(void)umask(mask);
	if (r < 0)
		return r;
	fd = openat(p->fd, "stepd", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = fd < 0 ? -errno : look_at(fd, made, ret);
	ret->made = made && r == 0;
	if (made && r < 0)
		probe_forget(p);
	return r;
}

/* To put a process into a group, a user must be allowed to write the cgroup.procs of the lowest
 * group above both where it is and where it goes. */
static int check_way_in(const struct place *p, struct err *err)
{
	_cleanup_free_ char *own = NULL, *below = NULL;
	int r;

	if (geteuid() == 0)
		return 0;
	r = cgpath_of(0, &own);
	if (r == 0)
		r = place_map(p, own, &below);
	if (r == -ENOENT)
		return err_say(err, -EACCES,
			"this process is in cgroup '%s', outside of '%s', and may not put processes "
			"there",
			own, p->path);
	if (r == 0 && faccessat(p->fd, "cgroup.procs", W_OK, AT_EACCESS) < 0)
		r = -errno;
	return r < 0 ? err_set(err, r, "can't put processes into '%s'", p->path) : 0;
}

int probe_try(const struct place *p, struct probe_abilities *ret, const char **ret_remedy,
	struct err *err)
{
	int r = try_group(p, ret);

	if (r < 0)
		return say_unusable(p, r, ret_remedy, err);
	*ret_remedy = REMEDY;
	r = check_way_in(p, err);
	if (r < 0 && ret->made)
		probe_forget(p);
	return r;
}

/* What systemd would give is not tried out: a step that starts here asks for it, and goes on with
 * the next best place if it is not given. */
static int say_offered(const struct place *p, char *text, size_t size)
{
	(void)snprintf(text, size,
		"cgroup v2 at %s, each step in a scope that %s systemd is asked for (" SCOPE_SLICE
		"): tracks every process from birth to end, daemons too; kill by cgroup.kill",
		p->mount.point, geteuid() == 0 ? "the system's" : "the user's own");
	return 0;
}

static int probe_group(
	const struct place *p, char *text, size_t size, bool *ret_made, struct err *err)
{
	_cleanup_free_ char *controllers = NULL;
	struct probe_abilities can = {.kill = false};
	struct err reason = ERR_INIT;
	const char *remedy;
	int r = probe_try(p, &can, &remedy, &reason);

	if (r < 0)
		return err_say(err, r, "%s; %s", reason.text, remedy);
	*ret_made = can.made;
	if (fs_read(p->fd, "cgroup.controllers", 4096, &controllers, NULL) == 0)
		controllers[strcspn(controllers, "\n")] = '\0';
	(void)snprintf(text, size,
		"cgroup v2 at %s, steps below %s/stepd (%s): tracks every process from birth to end, "
		"daemons too; kill by %s, other signals %s; controllers here: %s",
		p->mount.point, p->path, place_get_reason(p),
		can.kill ? "cgroup.kill" : "repeated SIGKILL (no cgroup.kill before Linux 5.14)",
		can.freeze ? "with all stopped" : "repeated (no freezer before Linux 5.2)",
		controllers && *controllers ? controllers : "none");
	return 0;
}

int probe_place(const struct place *p, char *text, size_t size, bool *ret_made, struct err *err)
{
	enum place_outcome outcome;
	const char *why = place_explain(p, PLACE_SCOPE, &outcome);
	int r;

	*ret_made = false;
	if (outcome == PLACE_OFFERED)
		return say_offered(p, text, size);
	r = probe_group(p, text, size, ret_made, err);
	if (r < 0 && outcome == PLACE_FAILED)
		return err_prefix(
			err, "no scope of systemd can be had for the step: %s; else", why);
	return r;
}
