/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/limits.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "proctrack/cgroup/controllers.h"
#include "proctrack/cgroup/devices.h"
#include "proctrack/cgroup/group.h"
#include "proctrack/cgroup/step.h"
#include "stepd/base/bitset.h"
#include "stepd/base/fs.h"

#define LIST_BITS 65536u /* no kernel numbers a CPU or a node higher */

/* A quota of one period: the kernel takes no quota below 1 ms, and no period above 1 s. So what is
 * less than a hundredth of a CPU gets the long period, with longer pauses. */
#define CPU_PERIOD_USEC      UINT64_C(100000)
#define CPU_LONG_PERIOD_USEC UINT64_C(1000000)
#define CPU_QUOTA_LEAST_USEC UINT64_C(1000)
#define CPU_MAX_MILLI_CPUS   UINT64_C(1000000000) /* a million CPUs */
#define PAGE_LEAST_BYTES     4096u

struct row;

/* Sets one limit of the group at fd. */
typedef int (*apply_fn)(
	int fd, enum stepd_limit which, const stepd_limits_t *limits, struct err *err);

static int apply_number(int fd, enum stepd_limit which, const stepd_limits_t *l, struct err *err);
static int apply_list(int fd, enum stepd_limit which, const stepd_limits_t *l, struct err *err);
static int apply_io(int fd, enum stepd_limit which, const stepd_limits_t *l, struct err *err);
static int apply_devices(int fd, enum stepd_limit which, const stepd_limits_t *l, struct err *err);

static const struct row {
	const char *file;
	unsigned controller;
	apply_fn apply;
	uint64_t least, most; /* of a number that is not STEPD_LIMIT_NONE; most 0: any */
	const char *none;     /* what is written for STEPD_LIMIT_NONE */
	bool of_members;      /* where the step is split, its service is none of it */
	const char *absent;   /* why the file can be missing where its controller is on */
} rows[STEPD_LIMIT_COUNT] = {
	[STEPD_LIMIT_MEMORY_MAX] = {"memory.max", CONTROLLER_MEMORY, apply_number,
		.least = PAGE_LEAST_BYTES, .none = "max"},
	[STEPD_LIMIT_MEMORY_HIGH] = {"memory.high", CONTROLLER_MEMORY, apply_number,
		.least = PAGE_LEAST_BYTES, .none = "max"},
	[STEPD_LIMIT_MEMORY_SWAP_MAX] = {"memory.swap.max", CONTROLLER_MEMORY, apply_number,
		.none = "max",
		.absent = "this kernel counts no swap (swapaccount=0 on its command line, or built "
			  "without it); boot it with swapaccount=1"},
	[STEPD_LIMIT_MEMORY_OOM_GROUP] = {"memory.oom.group", CONTROLLER_MEMORY, apply_number,
		.most = 1, .none = "0", .of_members = true, .absent = "it came with Linux 4.19"},
	[STEPD_LIMIT_PIDS_MAX] = {"pids.max", CONTROLLER_PIDS, apply_number, .most = 4194304,
		.none = "max", .of_members = true},
	[STEPD_LIMIT_CPU_MAX] = {"cpu.max", CONTROLLER_CPU, apply_number, .least = 1,
		.most = CPU_MAX_MILLI_CPUS, .none = "max",
		.absent = "this kernel is built without CONFIG_CFS_BANDWIDTH"},
	[STEPD_LIMIT_CPU_WEIGHT] = {"cpu.weight", CONTROLLER_CPU, apply_number, .least = 1,
		.most = 10000, .none = "100",
		.absent = "this kernel is built without CONFIG_FAIR_GROUP_SCHED"},
	[STEPD_LIMIT_CPUSET_CPUS] = {"cpuset.cpus", CONTROLLER_CPUSET, apply_list, .none = NULL},
	[STEPD_LIMIT_CPUSET_MEMS] = {"cpuset.mems", CONTROLLER_CPUSET, apply_list, .none = NULL},
	[STEPD_LIMIT_IO_MAX] = {"io.max", CONTROLLER_IO, apply_io,
		.absent = "this kernel is built without CONFIG_BLK_DEV_THROTTLING"},
	[STEPD_LIMIT_DEVICES] = {"devices", 0, apply_devices, .none = NULL},
};

const char *limits_get_name(
	enum stepd_limit which, unsigned *ret_controller, const char **ret_absent)
{
	*ret_controller = rows[which].controller;
	*ret_absent = rows[which].absent;
	return rows[which].file;
}

/* ---- numbers ------------------------------------------------------------------------------ */

static void format_cpu_max(uint64_t milli, char text[LIMITS_TEXT_SIZE])
{
	uint64_t period = CPU_PERIOD_USEC;

	if (milli * period / 1000 < CPU_QUOTA_LEAST_USEC)
		period = CPU_LONG_PERIOD_USEC;
	(void)snprintf(
		text, LIMITS_TEXT_SIZE, "%" PRIu64 " %" PRIu64, milli * period / 1000, period);
}

int limits_format_number(
	enum stepd_limit which, uint64_t n, char text[LIMITS_TEXT_SIZE], struct err *err)
{
	const struct row *row = &rows[which];

	if (n == STEPD_LIMIT_NONE)
		(void)snprintf(text, LIMITS_TEXT_SIZE, "%s", row->none);
	else if (n < row->least)
		return err_set_text(err, -ERANGE, "%" PRIu64 " is too small, the least is %" PRIu64,
			n, row->least);
	else if (row->most && n > row->most)
		return err_set_text(err, -ERANGE, "%" PRIu64 " is too large, the most is %" PRIu64,
			n, row->most);
	else if (which == STEPD_LIMIT_CPU_MAX)
		format_cpu_max(n, text);
	else
		(void)snprintf(text, LIMITS_TEXT_SIZE, "%" PRIu64, n);
	return 0;
}

/* ---- files -------------------------------------------------------------------------------- */

static int write_now(int fd, const char *name, const char *text)
{
	/* O_NONBLOCK: see the head of limits.h */
	_cleanup_close_ int file = openat(fd, name, O_WRONLY | O_NONBLOCK | O_CLOEXEC);

	if (file < 0)
		return -errno;
	return write(file, text, strlen(text)) < 0 ? -errno : 0;
}

static int err_absent(int fd, const struct row *row, struct err *err)
{
	char path[PATH_MAX];

	(void)cgfile_get_path(fd, path);
	if (faccessat(fd, "cgroup.procs", F_OK, 0) < 0)
		return err_set(err, -ESRCH, "limit %s of '%.400s'", row->file, path);
	return err_set_text(err, -EOPNOTSUPP, "there is no %s in '%.400s': %s", row->file, path,
		row->absent ? row->absent : "its controller was switched off just now");
}

/* help: a phrase behind "; ", or NULL. */
static int write_limit(
	int fd, const struct row *row, const char *text, const char *help, struct err *err)
{
	char path[PATH_MAX];
	int r = write_now(fd, row->file, text);

	if (r == 0)
		return 0;
	if (r == -ENOENT)
		return err_absent(fd, row, err);
	(void)cgfile_get_path(fd, path);
	if (r == -ENODEV && faccessat(fd, "cgroup.procs", F_OK, 0) < 0)
		r = -ESRCH;
	return err_set(err, r, "the kernel refuses '%.*s' for '%.400s/%s'%s%s",
		(int)strcspn(text, "\n"), text, path, row->file, help ? "; " : "",
		help ? help : "");
}

static int apply_number(int fd, enum stepd_limit which, const stepd_limits_t *l, struct err *err)
{
	char text[LIMITS_TEXT_SIZE];
	int r = limits_format_number(which, l->number[which], text, err);

	return r < 0 ? r : write_limit(fd, &rows[which], text, NULL, err);
}

/* ---- cpuset ------------------------------------------------------------------------------- */

int limits_check_list(const char *wanted, const char *had, const char *file, struct err *err)
{
	_cleanup_bitset_ struct bitset want = {NULL, 0}, have = {NULL, 0};
	uint32_t outside;
	int r = bitset_init(&want, LIST_BITS);

	if (r == 0)
		r = bitset_init(&have, LIST_BITS);
	if (r == 0)
		r = bitset_add_list(&have, had);
	if (r < 0)
		return err_set(err, r, "read the list '%.200s' of %s", had, file);
	r = bitset_add_list(&want, wanted);
	if (r < 0)
		return err_set_text(err, r, "'%.200s' is no list of numbers below %u such as 0-3,8",
			wanted, LIST_BITS);
	outside = bitset_first_outside(&want, &have);
	if (outside != BITSET_NONE)
		return err_set_text(err, -ERANGE,
			"'%.200s' names %u, but '%.200s' of %s is all there is", wanted,
			(unsigned)outside, had, file);
	return 0;
}

/* The list of the group above; *ret_file is "<its path>/cpuset.cpus.effective". */
static int read_above(int fd, const char *name, char **ret_list, char **ret_file, struct err *err)
{
	_cleanup_close_ int above = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char path[PATH_MAX];
	int r = above < 0 ? -errno : fs_read(above, name, CGFILE_MAX_BYTES, ret_list, NULL);

	if (r < 0)
		return err_set(err, cgfile_gone(r), "read '%s' of the group above", name);
	(*ret_list)[strcspn(*ret_list, "\n")] = '\0';
	(void)cgfile_get_path(above, path);
	if (asprintf(ret_file, "%s/%s", path, name) < 0) {
		*ret_file = NULL;
		return err_set(err, -ENOMEM, "read '%s'", name);
	}
	return 0;
}

/* The kernel takes numbers that the group above does not have, and then, if nothing is left, uses
 * all that the group above has: no limit at all. So that is checked before. */
static int apply_list(int fd, enum stepd_limit which, const stepd_limits_t *l, struct err *err)
{
	bool cpus = which == STEPD_LIMIT_CPUSET_CPUS;
	const char *name = cpus ? "cpuset.cpus.effective" : "cpuset.mems.effective";
	const char *wanted = cpus ? l->cpuset_cpus : l->cpuset_mems;
	_cleanup_free_ char *had = NULL, *file = NULL;
	int r;

	r = read_above(fd, name, &had, &file, err);
	if (r < 0)
		return r;
	if (!wanted || !*wanted) {
		if (write_now(fd, rows[which].file, "\n") == 0)
			return 0; /* what is above counts, whatever that will be */
		wanted = had;     /* with processes in it, it can't be empty: -ENOSPC */
	}
	r = limits_check_list(wanted, had, file, err);
	return r < 0 ? r : write_limit(fd, &rows[which], wanted, NULL, err);
}

/* ---- I/O ---------------------------------------------------------------------------------- */

static void format_rate(char text[LIMITS_TEXT_SIZE], const char *key, uint64_t n)
{
	size_t at = strlen(text);

	if (n == STEPD_LIMIT_NONE)
		(void)snprintf(text + at, LIMITS_TEXT_SIZE - at, " %s=max", key);
	else
		(void)snprintf(text + at, LIMITS_TEXT_SIZE - at, " %s=%" PRIu64, key, n);
}

void limits_format_io(const stepd_io_limit_t *io, char text[LIMITS_TEXT_SIZE])
{
	(void)snprintf(text, LIMITS_TEXT_SIZE, "%u:%u", (unsigned)io->major, (unsigned)io->minor);
	format_rate(text, "rbps", io->read_bytes_per_sec);
	format_rate(text, "wbps", io->write_bytes_per_sec);
	format_rate(text, "riops", io->reads_per_sec);
	format_rate(text, "wiops", io->writes_per_sec);
}

static bool is_listed(const stepd_limits_t *l, unsigned major, unsigned minor)
{
	size_t i;

	for (i = 0; i < l->io_count; i++) {
		if (l->io[i].major == major && l->io[i].minor == minor)
			return true;
	}
	return false;
}

/* The list is the whole: what io.max has of other devices goes. */
static int drop_other_io(int fd, const stepd_limits_t *l, struct err *err)
{
	const struct row *row = &rows[STEPD_LIMIT_IO_MAX];
	stepd_io_limit_t none = {.read_bytes_per_sec = STEPD_LIMIT_NONE,
		.write_bytes_per_sec = STEPD_LIMIT_NONE,
		.reads_per_sec = STEPD_LIMIT_NONE,
		.writes_per_sec = STEPD_LIMIT_NONE};
	_cleanup_free_ char *now = NULL;
	char text[LIMITS_TEXT_SIZE];
	const char *line;
	int r = fs_read(fd, row->file, CGFILE_MAX_BYTES, &now, NULL);

	if (r < 0)
		return r == -ENOENT ? err_absent(fd, row, err)
				    : err_set(err, cgfile_gone(r), "read io.max");
	for (line = now; r == 0 && *line; line += strcspn(line, "\n"), line += *line == '\n') {
		if (sscanf(line, "%" SCNu32 ":%" SCNu32, &none.major, &none.minor) != 2 ||
			is_listed(l, none.major, none.minor))
			continue;
		limits_format_io(&none, text);
		r = write_limit(fd, row, text, NULL, err);
	}
	return r;
}

static int apply_io(int fd, enum stepd_limit which, const stepd_limits_t *l, struct err *err)
{
	char text[LIMITS_TEXT_SIZE];
	size_t i;
	int r = drop_other_io(fd, l, err);

	for (i = 0; r == 0 && i < l->io_count; i++) {
		limits_format_io(&l->io[i], text);
		r = write_limit(fd, &rows[which], text,
			"rates are above 0, and the device a whole disk ('lsblk -d' lists them with "
			"their MAJ:MIN), no partition",
			err);
	}
	return r;
}

static int apply_devices(
	int fd, _unused_ enum stepd_limit which, const stepd_limits_t *l, struct err *err)
{
	return devices_set(fd, l->devices, l->devices_count, err);
}

/* ---- all ---------------------------------------------------------------------------------- */

static bool is_set(const stepd_limits_t *limits, enum stepd_limit which)
{
	return limits->set & 1u << which;
}

/* All that are needed at once, because each switch stands all processes below still for a moment;
 * what can't be had is reported with the limit that needs it. */
static void enable_all(const struct step_dir *dir, bool for_task, const stepd_limits_t *limits)
{
	unsigned set = 0;
	int i;

	for (i = 0; i < STEPD_LIMIT_COUNT; i++)
		set |= is_set(limits, i) ? rows[i].controller : 0;
	if (set)
		(void)controllers_enable(dir, set, for_task, NULL);
}

static int apply_one(const struct step_dir *dir, int fd, bool for_task, enum stepd_limit which,
	const stepd_limits_t *limits, struct err *err)
{
	const struct row *row = &rows[which];
	int r = row->controller ? controllers_enable(dir, row->controller, for_task, err) : 0;

	if (r == 0)
		r = row->apply(fd, which, limits, err);
	return r;
}

/* "memory.max=1048576", for a sentence. */
static void name_limit(
	enum stepd_limit which, const stepd_limits_t *limits, char text[LIMITS_TEXT_SIZE])
{
	const char *list =
		which == STEPD_LIMIT_CPUSET_CPUS ? limits->cpuset_cpus : limits->cpuset_mems;
	uint64_t n = limits->number[which];

	(void)snprintf(text, LIMITS_TEXT_SIZE, "%s", rows[which].file);
	text += strlen(text);
	if (rows[which].apply == apply_list && list)
		(void)snprintf(text, LIMITS_TEXT_SIZE / 2, "=%s", list);
	else if (rows[which].apply == apply_number && n == STEPD_LIMIT_NONE)
		(void)snprintf(text, LIMITS_TEXT_SIZE / 2, "=%s", rows[which].none);
	else if (which == STEPD_LIMIT_CPU_MAX)
		(void)snprintf(text, LIMITS_TEXT_SIZE / 2, "=%" PRIu64 ".%03u", n / 1000,
			(unsigned)(n % 1000));
	else if (rows[which].apply == apply_number)
		(void)snprintf(text, LIMITS_TEXT_SIZE / 2, "=%" PRIu64, n);
}

static int err_which(
	enum stepd_limit which, const uint32_t *rank, const stepd_limits_t *limits, struct err *err)
{
	char name[LIMITS_TEXT_SIZE];

	name_limit(which, limits, name);
	if (rank)
		return err_prefix(err, "limit %s of task %u", name, (unsigned)*rank);
	return err_prefix(err, "limit %s of the step", name);
}

int limits_apply(const struct step_dir *dir, const uint32_t *rank, const stepd_limits_t *limits,
	struct err *err)
{
	_cleanup_close_ int task_fd = rank ? step_open_task(dir, *rank) : -1;
	int fd = task_fd, i, r = 0;

	if (limits->set >> STEPD_LIMIT_COUNT)
		return err_set_text(err, -EINVAL,
			"the limits 0x%x hold one that this tracker does not know",
			(unsigned)limits->set);
	if (rank && fd < 0)
		return err_set(err, fd, "make the cgroup of task %u", (unsigned)*rank);
	enable_all(dir, rank, limits);
	for (i = 0; r == 0 && i < STEPD_LIMIT_COUNT; i++) {
		if (!rank)
			fd = rows[i].of_members ? step_get_members(dir) : dir->fd;
		if (is_set(limits, i))
			r = apply_one(dir, fd, rank, i, limits, err);
		if (r < 0)
			(void)err_which(i, rank, limits, err);
	}
	return r;
}
