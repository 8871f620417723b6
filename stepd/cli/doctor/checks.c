/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/doctor/doctor.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

#include "config.h"
#include "mpi/confine.h"
#include "stepd/base/fs.h"
#include "stepd/record/registry.h"

#define FILES_FEW     1024 /* what a process may open by default */
#define PROCESSES_FEW 1024

/* ---- the kernel ---------------------------------------------------------------------------- */

/* With arguments that a kernel refuses if it has the call. */
static int try_clone3(void)
{
	return syscall(SYS_clone3, NULL, 0) < 0 && errno != EINVAL ? -errno : 0;
}

static int try_pidfd(void)
{
	_cleanup_close_ int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	if (fd < 0 || syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) < 0)
		return -errno;
	return 0;
}

/* For descriptors that can't be open. */
static int try_close_range(void)
{
	return syscall(SYS_close_range, ~0u, ~0u, 0) < 0 ? -errno : 0;
}

static int try_pressure(void)
{
	_cleanup_free_ char *text = NULL;

	return fs_read(AT_FDCWD, "/proc/pressure/cpu", 1u << 16, &text, NULL);
}

static const struct kernel_row {
	const char *id;
	int (*try)(void);               /* 0 or -errno */
	enum stepd_finding_level level; /* of a failure */
	const char *good, *bad, *effect, *remedy;
} kernel_rows[] = {
	{.id = "kernel.clone3",
		.try = try_clone3,
		.level = STEPD_FINDING_WARNING,
		.good = "clone3 is available",
		.bad = "clone3 can't be used",
		.effect = ": tasks are forked, then moved into their cgroup",
		.remedy = "update to Linux 5.7, or allow clone3 in the seccomp filter (of the "
			  "container)"},
	{.id = "kernel.pidfd",
		.try = try_pidfd,
		.level = STEPD_FINDING_WARNING,
		.good = "pidfd_open and pidfd_send_signal are available",
		.bad = "pidfds can't be used",
		.effect = ": most trackers can't signal a step's processes",
		.remedy = "update to Linux 5.4, or allow pidfd_open and pidfd_send_signal in the "
			  "seccomp filter (of the container)"},
	{.id = "kernel.close_range",
		.try = try_close_range,
		.level = STEPD_FINDING_NOTE,
		.good = "close_range is available",
		.bad = "close_range can't be used",
		.effect = ": descriptors are marked one by one",
		.remedy = "update to Linux 5.11 for a quicker launch"},
	{.id = "kernel.pressure",
		.try = try_pressure,
		.level = STEPD_FINDING_NOTE,
		.good = "pressure stall information is counted",
		.bad = "pressure stall information is not counted",
		.effect = "",
		.remedy = "boot with psi=1 on the command line of a kernel built with CONFIG_PSI"},
};

static void check_kernel_row(const struct reporter *reporter, const struct kernel_row *row)
{
	int r = row->try();

	if (r == 0)
		reporter_add(reporter, STEPD_FINDING_OK, row->id, NULL, NULL, "%s", row->good);
	else
		reporter_add(reporter, row->level, row->id, NULL, row->remedy, "%s (%s)%s",
			row->bad, strerror(-r), row->effect);
}

static void check_version(const struct reporter *reporter)
{
	struct utsname u;

	if (uname(&u) < 0)
		return; /* it can't fail */
	reporter_add(reporter, STEPD_FINDING_OK, "kernel.version", u.release, NULL, "%s %s on %s",
		u.sysname, u.release, u.machine);
}

/* With a filter that can't be read: the error shows whether the kernel has filters. */
static void check_seccomp(const struct reporter *reporter)
{
	bool kernel_has = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) < 0 &&
		(errno == EFAULT || errno == EACCES);

	if (kernel_has && confine_has_filter())
		reporter_add(reporter, STEPD_FINDING_OK, "kernel.seccomp", NULL, NULL,
			"a filter of system calls confines MPI service processes");
	else
		reporter_add(reporter, STEPD_FINDING_NOTE, "kernel.seccomp", NULL,
			kernel_has ? "build stepd with libseccomp"
				   : "boot a kernel built with CONFIG_SECCOMP_FILTER",
			"no filter of system calls confines MPI service processes: %s",
			kernel_has ? "stepd was built without" : "the kernel has none");
}

void doctor_kernel(const struct reporter *reporter)
{
	size_t i;

	check_version(reporter);
	for (i = 0; i < ARRAY_SIZE(kernel_rows); i++)
		check_kernel_row(reporter, &kernel_rows[i]);
	check_seccomp(reporter);
}

/* ---- the user ------------------------------------------------------------------------------ */

/* The number behind "Key:" in /proc/self/status. */
static uint64_t get_status(const char *status, const char *key, int base)
{
	const char *line = status ? strstr(status, key) : NULL;

	return line ? strtoull(line + strlen(key), NULL, base) : 0;
}

static void list_missing(uint64_t effective, char *text, size_t size)
{
	static const struct {
		int bit;
		const char *name;
	} needed[] = {
		{CAP_CHOWN, "CAP_CHOWN"},
		{CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE"},
		{CAP_KILL, "CAP_KILL"},
		{CAP_SETGID, "CAP_SETGID"},
		{CAP_SETUID, "CAP_SETUID"},
		{CAP_SYS_RESOURCE, "CAP_SYS_RESOURCE"},
	};
	size_t i;

	text[0] = '\0';
	for (i = 0; i < ARRAY_SIZE(needed); i++) {
		if (!(effective >> needed[i].bit & 1))
			reporter_list(text, size, needed[i].name);
	}
}

static void check_rights(const struct reporter *reporter, const char *status)
{
	char missing[128], uid[16];

	(void)snprintf(uid, sizeof(uid), "%u", (unsigned)geteuid());
	list_missing(get_status(status, "CapEff:", 16), missing, sizeof(missing));
	if (geteuid() != 0)
		reporter_add(reporter, STEPD_FINDING_NOTE, "user.rights", uid, NULL,
			"uid %s: steps of this user only, and tasks are not protected from it",
			uid);
	else if (missing[0])
		reporter_add(reporter, STEPD_FINDING_WARNING, "user.rights", uid,
			"give them to the unit or container that the agents run in",
			"root without %s: not every user's tasks can be started, signalled or limited",
			missing);
	else
		reporter_add(reporter, STEPD_FINDING_OK, "user.rights", uid, NULL,
			"root: steps of every user");
}

static void check_confinement(const struct reporter *reporter, const char *status)
{
	if (get_status(status, "NoNewPrivs:", 10) != 0)
		reporter_add(reporter, STEPD_FINDING_NOTE, "user.no_new_privs", "1", NULL,
			"no_new_privs is set on this process: set-user-ID programs will not work in "
			"tasks started from here");
	if (get_status(status, "Seccomp:", 10) != 0)
		reporter_add(reporter, STEPD_FINDING_NOTE, "user.seccomp", NULL, NULL,
			"a seccomp filter is set on this process: tasks started from here can't make "
			"the calls that it refuses, either");
}

static void check_oom_score(const struct reporter *reporter, const char *status)
{
	_cleanup_free_ char *text = NULL;
	bool able = get_status(status, "CapEff:", 16) >> CAP_SYS_RESOURCE & 1;

	if (fs_read(AT_FDCWD, "/proc/self/oom_score_adj", 64, &text, NULL) < 0)
		return;
	text[strcspn(text, "\n")] = '\0';
	if (geteuid() == 0 && able)
		reporter_add(reporter, STEPD_FINDING_OK, "user.oom_score_adj", text, NULL,
			"the agent is protected from the OOM killer; oom_score_adj of its tasks is %s",
			text);
	else
		reporter_add(reporter, STEPD_FINDING_NOTE, "user.oom_score_adj", text, NULL,
			"the agent's oom_score_adj stays %s: when memory is short the kernel may end "
			"it as well as a task",
			text);
}

void doctor_user(const struct reporter *reporter)
{
	_cleanup_free_ char *status = NULL;
	int r = fs_read(AT_FDCWD, "/proc/self/status", 1u << 16, &status, NULL);

	if (r < 0) {
		reporter_add(reporter, STEPD_FINDING_PROBLEM, "user.proc", NULL,
			"mount -t proc proc /proc", "/proc/self/status can't be read: %s",
			strerror(-r));
		return;
	}
	check_rights(reporter, status);
	check_oom_score(reporter, status);
	check_confinement(reporter, status);
}

/* ---- limits -------------------------------------------------------------------------------- */

#define LIMIT_TEXT_SIZE 32

static const char *format_limit(rlim_t n, char text[static LIMIT_TEXT_SIZE])
{
	(void)snprintf(text, LIMIT_TEXT_SIZE, "%llu", (unsigned long long)n);
	return n == RLIM_INFINITY ? "unlimited" : text;
}

static void check_nofile(const struct reporter *reporter)
{
	char buf[LIMIT_TEXT_SIZE];
	struct rlimit l = {0};
	const char *text;

	(void)getrlimit(RLIMIT_NOFILE, &l); /* it can't fail */
	text = format_limit(l.rlim_max, buf);
	if (l.rlim_max < FILES_FEW)
		reporter_add(reporter, STEPD_FINDING_WARNING, "limits.nofile", text,
			"raise the hard limit (LimitNOFILE= of the unit, limits.conf(5), ulimit -Hn)",
			"the agent may have no more than %s open files, and needs one for each task, "
			"three where it carries output, and some more",
			text);
	else
		reporter_add(reporter, STEPD_FINDING_OK, "limits.nofile", text, NULL,
			"the agent may have %s open files (the hard limit, to which it raises its own)",
			text);
}

static void check_nproc(const struct reporter *reporter)
{
	char buf[LIMIT_TEXT_SIZE];
	struct rlimit l = {0};
	const char *text;
	bool few;

	(void)getrlimit(RLIMIT_NPROC, &l); /* it can't fail */
	few = l.rlim_cur < PROCESSES_FEW;
	text = format_limit(l.rlim_cur, buf);
	reporter_add(reporter, few ? STEPD_FINDING_WARNING : STEPD_FINDING_OK, "limits.nproc", text,
		few ? "raise it (LimitNPROC= of the unit, limits.conf(5), ulimit -u), or give "
		      "steps a limit of their own (--rlimit nproc=...)"
		    : NULL,
		"tasks inherit a limit of %s processes and threads of their user", text);
}

static uint64_t read_number(const char *path)
{
	_cleanup_free_ char *text = NULL;

	return fs_read(AT_FDCWD, path, 4096, &text, NULL) == 0 ? strtoull(text, NULL, 10) : 0;
}

/* Of the whole machine, or of its PID namespace. */
static void check_pids(const struct reporter *reporter)
{
	_cleanup_free_ char *load = NULL;
	uint64_t pid_max = read_number("/proc/sys/kernel/pid_max");
	uint64_t threads_max = read_number("/proc/sys/kernel/threads-max"), used = 0, left;
	const char *slash;
	char text[32];

	if (fs_read(AT_FDCWD, "/proc/loadavg", 4096, &load, NULL) == 0) {
		slash = strchr(load, '/'); /* running/all */
		used = slash ? strtoull(slash + 1, NULL, 10) : 0;
	}
	if (threads_max && threads_max < pid_max)
		pid_max = threads_max;
	if (!pid_max)
		return;
	left = pid_max > used ? pid_max - used : 0;
	(void)snprintf(text, sizeof(text), "%" PRIu64, left);
	if (left < PROCESSES_FEW)
		reporter_add(reporter, STEPD_FINDING_WARNING, "limits.pids", text,
			"raise kernel.pid_max and kernel.threads-max (sysctl), or end what holds them",
			"only %s more processes and threads can be started on this machine", text);
	else
		reporter_add(reporter, STEPD_FINDING_OK, "limits.pids", text, NULL,
			"%s more processes and threads can be started on this machine", text);
}

void doctor_limits(const struct reporter *reporter)
{
	check_nofile(reporter);
	check_nproc(reporter);
	check_pids(reporter);
}

/* ---- the runtime directory ----------------------------------------------------------------- */

#define ANOTHER "name another by --runtime-dir or STEPD_RUNTIME_DIR"

/* The steps whose agents have died. */
struct step_count {
	unsigned alive, dead;
	char dead_names[256];
};

/* It does not exist yet: the first step creates it, so the directory above must exist and be
 * writable. */
static void check_runtime_missing(const struct reporter *reporter, const char *path)
{
	_cleanup_free_ char *copy = strdup(path);
	const char *parent = copy ? dirname(copy) : "/";
	char remedy[1024];
	int error;

	if (faccessat(AT_FDCWD, parent, W_OK | X_OK, AT_EACCESS) == 0) {
		reporter_add(reporter, STEPD_FINDING_OK, "runtime.directory", path, NULL,
			"'%s' does not exist yet; the first step creates it", path);
		return;
	}
	error = errno;
	(void)snprintf(remedy, sizeof(remedy),
		"mkdir -p '%.400s' as the agents' user (tmpfiles.d(5) at each boot), or " ANOTHER,
		path);
	reporter_add(reporter, STEPD_FINDING_PROBLEM, "runtime.directory", path, remedy,
		"'%.400s' does not exist and can't be created in '%.400s': %s", path, parent,
		strerror(error));
}

static bool is_in_memory(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 &&
		((unsigned)fs.f_type == TMPFS_MAGIC || (unsigned)fs.f_type == RAMFS_MAGIC);
}

static const char *find_fault(int fd)
{
	struct statvfs fs;

	if (faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0)
		return strerror(errno);
	if (fstatvfs(fd, &fs) == 0 && fs.f_blocks > 0 && fs.f_bavail == 0)
		return "its file system has no space left";
	if (fstatvfs(fd, &fs) == 0 && fs.f_files > 0 && fs.f_favail == 0)
		return "its file system has no inodes left";
	return NULL;
}

static void check_runtime_memory(const struct reporter *reporter, int fd, const char *path)
{
	if (is_in_memory(fd))
		reporter_add(reporter, STEPD_FINDING_OK, "runtime.tmpfs", NULL, NULL,
			"it is in memory (tmpfs), and empty after a boot");
	else
		reporter_add(reporter, STEPD_FINDING_NOTE, "runtime.tmpfs", NULL,
			"name one on a tmpfs, below /run, by --runtime-dir or STEPD_RUNTIME_DIR",
			"'%s' is not on a tmpfs: each step waits for the disk when its files go, and "
			"what a crash leaves is there after the boot",
			path);
}

static int count_step(const struct step_entry *entry, void *userdata)
{
	struct step_count *s = userdata;

	if (entry->alive) {
		s->alive++;
		return 0;
	}
	s->dead++;
	reporter_list(s->dead_names, sizeof(s->dead_names), entry->step);
	return 0;
}

static void check_runtime_steps(const struct reporter *reporter, const char *path)
{
	struct step_count steps = {0};
	struct err err = ERR_INIT;

	if (steps_each(path, count_step, &steps, &err) < 0)
		reporter_add(reporter, STEPD_FINDING_WARNING, "runtime.steps", NULL,
			"see what is in it", "the steps can't be listed: %s", err.text);
	else if (steps.dead)
		reporter_add(reporter, STEPD_FINDING_WARNING, "runtime.steps", steps.dead_names,
			"'stepctl pids STEP' lists what may still run of it; end that, and the step can "
			"be started again",
			"%u %s without an agent, which died: %s", steps.dead,
			steps.dead == 1 ? "step is" : "steps are", steps.dead_names);
	else
		reporter_add(reporter, STEPD_FINDING_OK, "runtime.steps", NULL, NULL,
			"%u %s, and none without its agent", steps.alive,
			steps.alive == 1 ? "step runs" : "steps run");
}

static void check_runtime_there(const struct reporter *reporter, int fd, const char *path)
{
	struct err err = ERR_INIT;
	const char *fault;

	if (fs_check_trusted(fd, path, &err) < 0) {
		reporter_add(reporter, STEPD_FINDING_PROBLEM, "runtime.directory", path,
			"change its owner and mode, or " ANOTHER, "%s", err.text);
		return;
	}
	fault = find_fault(fd);
	if (fault) {
		reporter_add(reporter, STEPD_FINDING_PROBLEM, "runtime.directory", path,
			"free space on its file system and make it writable, or " ANOTHER,
			"nothing can be created in '%.400s': %s", path, fault);
		return;
	}
	reporter_add(reporter, STEPD_FINDING_OK, "runtime.directory", path, NULL,
		"steps are registered in '%s', which only the agents' user can change", path);
	check_runtime_memory(reporter, fd, path);
	check_runtime_steps(reporter, path);
}

void doctor_runtime(const struct reporter *reporter, const char *runtime_dir)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;
	struct err err = ERR_INIT;

	if (steps_find_dir(runtime_dir, &path, &err) < 0) {
		reporter_add(reporter, STEPD_FINDING_PROBLEM, "runtime.directory", NULL, ANOTHER,
			"%s", err.text);
		return;
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0)
		check_runtime_there(reporter, fd, path);
	else if (errno == ENOENT)
		check_runtime_missing(reporter, path);
	else
		reporter_add(reporter, STEPD_FINDING_PROBLEM, "runtime.directory", path, ANOTHER,
			"'%.400s' can't be opened as a directory: %s", path, strerror(errno));
}

/* ---- libraries ----------------------------------------------------------------------------- */

struct library {
	const char *id;
	const char *soname; /* NULL: built without it */
	const char *use;
	bool needed; /* here */
};

static void check_library(const struct reporter *reporter, const struct library *lib)
{
	char remedy[128];
	void *handle = lib->soname ? dlopen(lib->soname, RTLD_LAZY | RTLD_LOCAL) : NULL;

	if (handle) {
		(void)dlclose(handle); /* what it can't unload stays mapped, unused */
		reporter_add(reporter, STEPD_FINDING_OK, lib->id, lib->soname, NULL,
			"%s can be loaded, for %s", lib->soname, lib->use);
	} else if (lib->soname) {
		(void)snprintf(
			remedy, sizeof(remedy), "install the package that has %s", lib->soname);
		reporter_add(reporter, lib->needed ? STEPD_FINDING_WARNING : STEPD_FINDING_NOTE,
			lib->id, NULL, remedy, "%s can't be loaded, so there is no %s", lib->soname,
			lib->use);
	} else {
		reporter_add(reporter, STEPD_FINDING_NOTE, lib->id, NULL, NULL,
			"this stepd was built without %s", lib->use);
	}
}

#ifndef LIBHWLOC_SONAME
#define LIBHWLOC_SONAME NULL
#endif
#ifndef LIBSYSTEMD_SONAME
#define LIBSYSTEMD_SONAME NULL
#endif

void doctor_libraries(const struct reporter *reporter)
{
	const struct library libraries[] = {
		{.id = "libraries.hwloc",
			.soname = LIBHWLOC_SONAME,
			.use = "binding by cores, sockets and NUMA nodes",
			.needed = true},
		{.id = "libraries.systemd",
			.soname = LIBSYSTEMD_SONAME,
			.use = "scopes of systemd",
			.needed = access("/run/systemd/system", F_OK) == 0}, /* as sd_booted(3) */
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(libraries); i++)
		check_library(reporter, &libraries[i]);
}
