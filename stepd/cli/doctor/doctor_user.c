/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/doctor/doctor.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include "config.h"
#include "stepd/base/fs.h"

#define FILES_FEW     1024 /* what a process may open by default */
#define PROCESSES_FEW 1024

/* ---- who we are --------------------------------------------------------------------------- */

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
	size_t i, at = 0;

	text[0] = '\0';
	for (i = 0; i < ARRAY_SIZE(needed); i++) {
		if (!(effective >> needed[i].bit & 1) && at < size)
			at += (size_t)snprintf(
				text + at, size - at, "%s%s", at ? " " : "", needed[i].name);
	}
}

static void tell_rights(const struct tell *tell, const char *status)
{
	char missing[128], uid[16];

	(void)snprintf(uid, sizeof(uid), "%u", (unsigned)geteuid());
	list_missing(get_status(status, "CapEff:", 16), missing, sizeof(missing));
	if (geteuid() != 0)
		tell_finding(tell, STEPD_FINDING_NOTE, "user.rights", uid, NULL,
			"uid %s: steps of this user only, and tasks are not protected from it",
			uid);
	else if (missing[0])
		tell_finding(tell, STEPD_FINDING_WARNING, "user.rights", uid,
			"give them to the unit or container that the agents run in",
			"root without %s: not every user's tasks can be started, signalled or limited",
			missing);
	else
		tell_finding(tell, STEPD_FINDING_OK, "user.rights", uid, NULL,
			"root: steps of every user");
}

static void tell_confinement(const struct tell *tell, const char *status)
{
	if (get_status(status, "NoNewPrivs:", 10) != 0)
		tell_finding(tell, STEPD_FINDING_NOTE, "user.no_new_privs", "1", NULL,
			"no_new_privs is set on this process: set-user-ID programs will not work in "
			"tasks started from here");
	if (get_status(status, "Seccomp:", 10) != 0)
		tell_finding(tell, STEPD_FINDING_NOTE, "user.seccomp", NULL, NULL,
			"a seccomp filter is set on this process: calls that it refuses are missing to "
			"tasks started from here, too");
}

static void tell_oom_score(const struct tell *tell, const char *status)
{
	_cleanup_free_ char *text = NULL;
	bool able = get_status(status, "CapEff:", 16) >> CAP_SYS_RESOURCE & 1;

	if (fs_read(AT_FDCWD, "/proc/self/oom_score_adj", 64, &text, NULL) < 0)
		return;
	text[strcspn(text, "\n")] = '\0';
	if (geteuid() == 0 && able)
		tell_finding(tell, STEPD_FINDING_OK, "user.oom_score_adj", text, NULL,
			"the agent is kept from the kernel's choice when memory is short; its tasks "
			"have %s",
			text);
	else
		tell_finding(tell, STEPD_FINDING_NOTE, "user.oom_score_adj", text, NULL,
			"the agent's oom_score_adj stays %s: when memory is short the kernel may end "
			"it as well as a task",
			text);
}

void doctor_user(const struct tell *tell)
{
	_cleanup_free_ char *status = NULL;
	int r = fs_read(AT_FDCWD, "/proc/self/status", 1u << 16, &status, NULL);

	if (r < 0) {
		tell_finding(tell, STEPD_FINDING_PROBLEM, "user.proc", NULL,
			"mount -t proc proc /proc", "/proc/self/status can't be read: %s",
			strerror(-r));
		return;
	}
	tell_rights(tell, status);
	tell_oom_score(tell, status);
	tell_confinement(tell, status);
}

/* ---- how many ----------------------------------------------------------------------------- */

static const char *limit_words(rlim_t n, char *text, size_t size)
{
	if (n == RLIM_INFINITY)
		(void)snprintf(text, size, "unlimited");
	else
		(void)snprintf(text, size, "%llu", (unsigned long long)n);
	return text;
}

static void tell_nofile(const struct tell *tell)
{
	char text[32];
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return; /* it can't fail */
	(void)limit_words(l.rlim_max, text, sizeof(text));
	if (l.rlim_max < FILES_FEW)
		tell_finding(tell, STEPD_FINDING_WARNING, "limits.nofile", text,
			"raise the hard limit (LimitNOFILE= of the unit, limits.conf(5), ulimit -Hn)",
			"the agent may have no more than %s open files, and takes one a task, three "
			"where it carries output, and some more",
			text);
	else
		tell_finding(tell, STEPD_FINDING_OK, "limits.nofile", text, NULL,
			"the agent may have %s open files (hard limit, which it takes)", text);
}

static void tell_nproc(const struct tell *tell)
{
	char text[32];
	struct rlimit l;

	if (getrlimit(RLIMIT_NPROC, &l) < 0)
		return; /* it can't fail */
	(void)limit_words(l.rlim_cur, text, sizeof(text));
	if (l.rlim_cur < PROCESSES_FEW)
		tell_finding(tell, STEPD_FINDING_WARNING, "limits.nproc", text,
			"raise it (LimitNPROC= of the unit, limits.conf(5), ulimit -u), or give "
			"steps a limit of their own (--rlimit nproc=...)",
			"tasks inherit a limit of %s processes and threads of their user", text);
	else
		tell_finding(tell, STEPD_FINDING_OK, "limits.nproc", text, NULL,
			"tasks inherit a limit of %s processes and threads of their user", text);
}

static uint64_t read_number(const char *path)
{
	_cleanup_free_ char *text = NULL;

	return fs_read(AT_FDCWD, path, 4096, &text, NULL) == 0 ? strtoull(text, NULL, 10) : 0;
}

/* Of the whole machine, or of its PID namespace. */
static void tell_pids(const struct tell *tell)
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
		tell_finding(tell, STEPD_FINDING_WARNING, "limits.pids", text,
			"raise kernel.pid_max and kernel.threads-max (sysctl), or end what holds them",
			"only %s processes and threads more can be started on this machine", text);
	else
		tell_finding(tell, STEPD_FINDING_OK, "limits.pids", text, NULL,
			"%s processes and threads more can be started on this machine", text);
}

void doctor_limits(const struct tell *tell)
{
	tell_nofile(tell);
	tell_nproc(tell);
	tell_pids(tell);
}

/* ---- libraries ---------------------------------------------------------------------------- */

struct library {
	const char *id;
	const char *soname; /* NULL: built without it */
	const char *use;
	bool needed; /* here */
};

static void tell_library(const struct tell *tell, const struct library *lib)
{
	char remedy[128];
	void *handle = lib->soname ? dlopen(lib->soname, RTLD_LAZY | RTLD_LOCAL) : NULL;

	if (handle) {
		(void)dlclose(handle); /* what it can't unload stays mapped, unused */
		tell_finding(tell, STEPD_FINDING_OK, lib->id, lib->soname, NULL,
			"%s can be loaded, for %s", lib->soname, lib->use);
	} else if (lib->soname) {
		(void)snprintf(
			remedy, sizeof(remedy), "install the package that has %s", lib->soname);
		tell_finding(tell, lib->needed ? STEPD_FINDING_WARNING : STEPD_FINDING_NOTE,
			lib->id, NULL, remedy, "%s can't be loaded, so there is no %s", lib->soname,
			lib->use);
	} else {
		tell_finding(tell, STEPD_FINDING_NOTE, lib->id, NULL, NULL,
			"this stepd was built without %s", lib->use);
	}
}

#ifndef LIBHWLOC_SONAME
#define LIBHWLOC_SONAME NULL
#endif
#ifndef LIBSYSTEMD_SONAME
#define LIBSYSTEMD_SONAME NULL
#endif

void doctor_libraries(const struct tell *tell)
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
		tell_library(tell, &libraries[i]);
}
