/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/checkup.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/bpf.h>
#include <mntent.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "proctrack/cgroup/mounts.h"
#include "proctrack/cgroup/pidset.h"
#include "proctrack/cgroup/place.h"
#include "stepd/base/fs.h"
#include "stepd/base/procstat.h"

#define FILES_MAX  4
#define LIST_BYTES 4096 /* of cgroup.controllers and the like */

/* What a controller gives. */
struct row {
	const char *id;
	const char *controller;
	const char *v1_name;          /* the controller's in cgroup v1 */
	const char *config;           /* the kernel's option */
	const char *files[FILES_MAX]; /* the limits, by the names of their files */
};

static const struct row rows[] = {
	{.id = "cgroup.limits.memory",
		.controller = "memory",
		.v1_name = "memory",
		.config = "CONFIG_MEMCG",
		.files = {"memory.max", "memory.high", "memory.swap.max", "memory.oom.group"}},
	{.id = "cgroup.limits.pids",
		.controller = "pids",
		.v1_name = "pids",
		.config = "CONFIG_CGROUP_PIDS",
		.files = {"pids.max"}},
	{.id = "cgroup.limits.cpu",
		.controller = "cpu",
		.v1_name = "cpu",
		.config = "CONFIG_CGROUP_SCHED and CONFIG_CFS_BANDWIDTH",
		.files = {"cpu.max", "cpu.weight"}},
	{.id = "cgroup.limits.cpuset",
		.controller = "cpuset",
		.v1_name = "cpuset",
		.config = "CONFIG_CPUSETS",
		.files = {"cpuset.cpus", "cpuset.mems"}},
	{.id = "cgroup.limits.io",
		.controller = "io",
		.v1_name = "blkio",
		.config = "CONFIG_BLK_CGROUP and CONFIG_BLK_DEV_THROTTLING",
		.files = {"io.max"}},
};

bool checkup_has_word(const char *list, const char *word)
{
	size_t len = strlen(word), n;

	for (; list && *list; list += n + (list[n] != '\0')) {
		n = strcspn(list, " ,\n");
		if (n == len && strncmp(list, word, len) == 0)
			return true;
	}
	return false;
}

static bool file_has_word(int fd, const char *name, const char *word)
{
	_cleanup_free_ char *text = NULL;

	return fs_read(fd, name, LIST_BYTES, &text, NULL) == 0 && checkup_has_word(text, word);
}

static void join(const struct row *row, int fd, bool wanted, char *text, size_t size)
{
	size_t i, at = 0;
	bool there;

	text[0] = '\0';
	for (i = 0; i < FILES_MAX && row->files[i]; i++) {
		there = fd < 0 || faccessat(fd, row->files[i], F_OK, 0) == 0;
		if (there == wanted && at < size)
			at += (size_t)snprintf(
				text + at, size - at, "%s%s", at ? " " : "", row->files[i]);
	}
}

/* ---- where a controller is not ------------------------------------------------------------ */

bool checkup_find_v1(const char *name, char path[PATH_MAX])
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	struct mntent m;
	char buf[PATH_MAX];
	bool found = false;

	while (f && !found && getmntent_r(f, &m, buf, sizeof(buf))) {
		found = strcmp(m.mnt_type, "cgroup") == 0 && hasmntopt(&m, name);
		if (found)
			(void)snprintf(path, PATH_MAX, "%s", m.mnt_dir);
	}
	if (f)
		(void)endmntent(f);
	return found;
}

struct v1_state {
	bool known;   /* to this kernel */
	bool held;    /* by a hierarchy of v1 */
	bool enabled; /* not switched off at the boot */
};

/* By /proc/cgroups, in lines of name, hierarchy (0: none, or v2), groups, enabled. */
static void look_up_v1(const char *name, struct v1_state *ret)
{
	_cleanup_free_ char *text = NULL;
	char *line, *at, word[64];
	unsigned hierarchy, groups, enabled;

	*ret = (struct v1_state){.enabled = true};
	if (fs_read(AT_FDCWD, "/proc/cgroups", 1u << 16, &text, NULL) < 0)
		return;
	for (at = text; (line = strsep(&at, "\n"));) {
		if (sscanf(line, "%63s %u %u %u", word, &hierarchy, &groups, &enabled) == 4 &&
			strcmp(word, name) == 0)
			*ret = (struct v1_state){true, hierarchy != 0, enabled != 0};
	}
}

/* Whether the kernel was told at the boot to do without. */
static bool is_disabled_at_boot(const char *controller)
{
	static const char key[] = "cgroup_disable=";
	_cleanup_free_ char *line = NULL;
	char *word, *at;

	if (fs_read(AT_FDCWD, "/proc/cmdline", 1u << 16, &line, NULL) < 0)
		return false;
	for (at = line; (word = strsep(&at, " \n"));) {
		if (strncmp(word, key, strlen(key)) == 0 &&
			checkup_has_word(word + strlen(key), controller))
			return true;
	}
	return false;
}

/* The lowest group above the root of the steps that has the controller and does not hand it down;
 * false if none has it. path is the group's, below the mount. */
static bool find_keeper(const struct place *place, const char *controller, char path[PATH_MAX])
{
	char *slash;

	(void)snprintf(path, PATH_MAX, "%s", place->path);
	while ((slash = strrchr(path, '/')) && slash > path) {
		_cleanup_close_ int fd = -1;

		*slash = '\0';
		if (!cgpath_below(place->mount.point, path))
			return false;
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0 && file_has_word(fd, "cgroup.controllers", controller))
			return true;
	}
	return false;
}

static void tell_kept(const struct tell *tell, const struct place *place, const struct row *row,
	const char *files, const char *keeper)
{
	char by_hand[512];
	const char *remedy = by_hand;

	(void)snprintf(by_hand, sizeof(by_hand),
		"add 'Delegate=yes' below [Service] in a drop-in of the unit (systemctl edit UNIT), or "
		"without systemd write '+%s' to cgroup.subtree_control of that group",
		row->controller);
	if (strstr(place->path, "/user@"))
		remedy = "put 'Delegate=cpu cpuset io memory pids' below [Service] in a drop-in of "
			 "user@.service (systemctl edit user@.service), and log in again";
	tell_finding(tell, STEPD_FINDING_WARNING, row->id, NULL, remedy,
		"%s can't be limited: '%s' does not hand the controller %s down to '%s'", files,
		keeper, row->controller, place->path);
}

static void tell_absent(const struct tell *tell, const struct place *place, const struct row *row)
{
	char files[128], path[PATH_MAX], remedy[512];
	struct v1_state v1;
	bool seen;

	join(row, -1, true, files, sizeof(files));
	look_up_v1(row->v1_name, &v1);
	if (find_keeper(place, row->controller, path)) {
		tell_kept(tell, place, row, files, path);
	} else if (v1.held) {
		seen = checkup_find_v1(row->v1_name, path);
		(void)snprintf(remedy, sizeof(remedy),
			"boot with systemd.unified_cgroup_hierarchy=1, or cgroup_no_v1=%s without "
			"systemd",
			row->v1_name);
		tell_finding(tell, STEPD_FINDING_WARNING, row->id, NULL, remedy,
			"%s can't be limited: cgroup v1 holds the controller %s, mounted %s%s%s",
			files, row->v1_name, seen ? "at '" : "", seen ? path : "out of sight",
			seen ? "'" : "");
	} else if (!v1.enabled || is_disabled_at_boot(row->controller)) {
		tell_finding(tell, STEPD_FINDING_WARNING, row->id, NULL,
			"take it out of cgroup_disable= on the kernel's command line",
			"%s can't be limited: the controller %s was disabled at the boot", files,
			row->controller);
	} else if (v1.known || strcmp(place->mount.root, "/") != 0) {
		tell_finding(tell, STEPD_FINDING_WARNING, row->id, NULL,
			"have who made this container give it the controller",
			"%s can't be limited: the controller %s does not reach '%s'", files,
			row->controller, place->mount.point);
	} else {
		(void)snprintf(remedy, sizeof(remedy), "boot a kernel built with %s", row->config);
		tell_finding(tell, STEPD_FINDING_WARNING, row->id, NULL, remedy,
			"%s can't be limited: this kernel has no controller %s", files,
			row->controller);
	}
}

/* ---- where it is -------------------------------------------------------------------------- */

/* A process in the root of the steps itself, other than this one: its pid, or 0. Beside processes
 * the kernel hands down no memory or io, and the others to threads only. The top of the hierarchy,
 * which has no cgroup.type, may have any. */
static pid_t find_in_the_way(const struct place *place)
{
	_cleanup_pidset_ struct pidset set = PIDSET_INIT;
	_cleanup_free_ char *text = NULL;
	char *line, *at;
	pid_t pid;

	if (faccessat(place->fd, "cgroup.type", F_OK, 0) < 0 ||
		fs_read(place->fd, "cgroup.procs", 16u << 20, &text, NULL) < 0)
		return 0;
	for (at = text; (line = strsep(&at, "\n"));) {
		pid = (pid_t)strtol(line, NULL, 10);
		if (pid > 0 && pid != getpid())
			return pid;
	}
	return 0;
}

static void tell_in_the_way(const struct tell *tell, const struct place *place,
	const struct row *row, const char *files, pid_t pid)
{
	struct procstat st;

	if (procstat_read(pid, &st) < 0)
		(void)snprintf(st.comm, sizeof(st.comm), "?"); /* it has ended */
	tell_finding(tell, STEPD_FINDING_WARNING, row->id, NULL,
		"keep other processes out of that group: DelegateSubgroup= in the unit (systemd 254), "
		"or a group below it for them",
		"%s can't be limited: the kernel hands the controller %s to no group beside "
		"processes, and pid %d (%s) is in '%s' itself",
		files, row->controller, (int)pid, st.comm, place->path);
}

/* Enabled in the place: then the trial group shows it. */
static void tell_enabled(const struct tell *tell, const struct row *row, int trial_fd)
{
	char there[128], missing[128], order[32];
	int r;

	join(row, trial_fd, true, there, sizeof(there));
	join(row, trial_fd, false, missing, sizeof(missing));
	(void)snprintf(order, sizeof(order), "+%s", row->controller);
	r = fs_write(trial_fd, "cgroup.subtree_control", order);
	if (r < 0)
		tell_finding(tell, STEPD_FINDING_WARNING, row->id, NULL,
			"see whether another group below it is threaded, or a real-time process in "
			"the way",
			"%s can't be limited: a group below refuses the controller %s: %s", there,
			row->controller, strerror(-r));
	else if (missing[0])
		tell_finding(tell, STEPD_FINDING_WARNING, row->id, there,
			strstr(missing, "swap")
				? "take swapaccount=0 off the kernel's command line, or "
				  "boot a kernel with CONFIG_SWAP"
				: "boot a newer kernel, or one built with more options",
			"%s can be limited, %s not: this kernel does not have it", there, missing);
	else
		tell_finding(tell, STEPD_FINDING_OK, row->id, there, NULL,
			"%s can be limited (controller %s)", there, row->controller);
}

static void tell_offered(const struct tell *tell, const struct place *place, const struct row *row)
{
	char files[128], remedy[PATH_MAX + 64];
	pid_t pid = find_in_the_way(place);

	join(row, -1, true, files, sizeof(files));
	if (faccessat(place->fd, "cgroup.subtree_control", W_OK, AT_EACCESS) < 0) {
		(void)snprintf(remedy, sizeof(remedy),
			"chown uid %u '%s/cgroup.subtree_control', as a delegation does",
			(unsigned)geteuid(), place->path);
		tell_finding(tell, STEPD_FINDING_WARNING, row->id, NULL, remedy,
			"%s can't be limited: the controller %s can't be handed down from '%s': %s",
			files, row->controller, place->path, strerror(errno));
	} else if (pid > 0) {
		tell_in_the_way(tell, place, row, files, pid);
	} else {
		tell_finding(tell, STEPD_FINDING_OK, row->id, files, NULL,
			"%s can be limited: '%s' has the controller %s, and hands it down when a "
			"step asks",
			files, place->path, row->controller);
	}
}

/* ---- devices ------------------------------------------------------------------------------ */

static int call_bpf(enum bpf_cmd cmd, union bpf_attr *attr)
{
	int r = (int)syscall(SYS_bpf, cmd, attr, sizeof(*attr));

	return r < 0 ? -errno : r;
}

/* Loads a program that allows all and attaches it to the trial group. */
static int try_devices(int trial_fd)
{
	static const struct bpf_insn allow[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1},
		{.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr load = {0}, attach = {0};
	_cleanup_close_ int fd = -1;
	int r;

	load.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
	load.insns = (uintptr_t)allow;
	load.insn_cnt = ARRAY_SIZE(allow);
	load.license = (uintptr_t) "";
	r = call_bpf(BPF_PROG_LOAD, &load);
	if (r < 0)
		return r;
	fd = r;
	attach.target_fd = (unsigned)trial_fd;
	attach.attach_bpf_fd = (unsigned)fd;
	attach.attach_type = BPF_CGROUP_DEVICE;
	attach.attach_flags = BPF_F_ALLOW_MULTI;
	r = call_bpf(BPF_PROG_ATTACH, &attach);
	if (r < 0)
		return r;
	attach.attach_flags = 0;
	return call_bpf(BPF_PROG_DETACH, &attach); /* else it would go with the group */
}

static void tell_devices(const struct tell *tell, int trial_fd)
{
	int r = try_devices(trial_fd);

	if (r >= 0)
		tell_finding(tell, STEPD_FINDING_OK, "cgroup.limits.devices", "devices", NULL,
			"access to devices can be limited (a BPF program on the group)");
	else
		tell_finding(tell, STEPD_FINDING_WARNING, "cgroup.limits.devices", NULL,
			r == -EPERM || r == -EACCES
				? "run the agent as root with CAP_BPF and CAP_NET_ADMIN, and allow bpf in "
				  "the seccomp filter"
				: "boot a kernel built with CONFIG_CGROUP_BPF",
			"access to devices can't be limited: the kernel takes no BPF program for a "
			"group: %s",
			strerror(-r));
}

void checkup_limits(const struct tell *tell, const struct place *place, int trial_fd)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		if (file_has_word(place->fd, "cgroup.subtree_control", rows[i].controller))
			tell_enabled(tell, &rows[i], trial_fd);
		else if (file_has_word(place->fd, "cgroup.controllers", rows[i].controller))
			tell_offered(tell, place, &rows[i]);
		else
			tell_absent(tell, place, &rows[i]);
	}
	tell_devices(tell, trial_fd);
}
