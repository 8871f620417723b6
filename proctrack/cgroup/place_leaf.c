/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "proctrack/cgroup/own.h"
#include "proctrack/cgroup/pidset.h"
#include "proctrack/cgroup/place.h"
#include "stepd/base/fs.h"
#include "stepd/base/procstat.h"

#define NAMED_MAX 3

/* -EBUSY if others are in the root; *ret_self: whether this process is. */
static int check_members(const struct place *p, bool *ret_self, struct err *err)
{
	_cleanup_pidset_ struct pidset set = PIDSET_INIT;
	char one[256], names[512] = "";
	size_t i, others = 0, at = 0;
	int r = pidset_read_group(&set, p->fd);

	if (r < 0)
		return err_set(err, r, "list the processes of cgroup '%s'", p->path);
	*ret_self = false;
	for (i = 0; i < set.n; i++) {
		if (set.v[i] == getpid()) {
			*ret_self = true;
		} else if (others++ < NAMED_MAX && at < sizeof(names)) {
			procstat_describe(set.v[i], one, sizeof(one));
			at += (size_t)snprintf(
				names + at, sizeof(names) - at, "%s%s", at ? "; " : "", one);
		}
	}
	if (others == 0)
		return 0;
	return err_say(err, -EBUSY,
		"controllers can't be used below cgroup '%s' because processes are in it itself (%s%s); "
		"have them started in a group below it (DelegateSubgroup= in the unit, systemd 254), or "
		"have the step use a scope of its own (--scope=yes)",
		p->path, names, others > NAMED_MAX ? "; and more" : "");
}

static int move_self(const struct place *p)
{
	mode_t mask = umask(022);
	int r = mkdirat(p->fd, OWN_LEAF, 0755) < 0 && errno != EEXIST ? -errno : 0;
	_cleanup_close_ int fd = -1;

	(void)umask(mask);
	if (r < 0)
		return r;
	fd = openat(p->fd, OWN_LEAF, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fs_write(fd, "cgroup.procs", "0"); /* 0 is who writes it */
}

int place_leave_root(const struct place *p, struct err *err)
{
	bool self;
	int r;

	/* The real root of the hierarchy has no such file, and no such rule. */
	if (faccessat(p->fd, "cgroup.type", F_OK, 0) < 0 && errno == ENOENT)
		return 0;
	r = check_members(p, &self, err);
	if (r < 0 || !self)
		return r;
	r = move_self(p);
	return r < 0 ? err_set(err, r, "move this process into '%s/%s'", p->path, OWN_LEAF) : 0;
}
