/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Limits, usage and devices of proctrack/cgroup, as far as they need no controller: the texts that
 * are written and read, the sentences where a controller can't be had, and the device programs,
 * which every kernel with cgroup v2 runs. With controllers: tests/testbed/guest-limits.sh, in the
 * VM.
 */
#include "proctrack/cgroup/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <linux/bpf.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <sys/time.h>

#include "proctrack/cgroup/controllers.h"
#include "proctrack/cgroup/devices.h"
#include "proctrack/cgroup/step.h"
#include "stepd/base/clock.h"
#include "tests/lib/cgroup_rig.h"

static struct rig rig;
static struct cgroup_root *root; /* whose root is the rig's cgroup */
static struct step_dir dir;      /* a step in it */

static int set_up(_unused_ void **state)
{
	dir = (struct step_dir)STEP_DIR_INIT;
	if (!rig_open(&rig)) {
		rig.fd = -1;
		return 0;
	}
	return root_open(rig.path, &root, NULL) < 0 ? -1 : make_step(root, 7, "0", &dir);
}

static int tear_down(_unused_ void **state)
{
	step_dir_clear(&dir);
	root = root_close(root);
	return rig_tear_down(&rig);
}

static void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("'%s' is not in '%s'", part, text);
}

/* ---- texts -------------------------------------------------------------------------------- */

static void test_numbers(_unused_ void **state)
{
	static const struct {
		enum stepd_limit which;
		uint64_t n;
		const char *text; /* NULL: -ERANGE */
	} cases[] = {
		{STEPD_LIMIT_MEMORY_MAX, UINT64_C(2) << 30, "2147483648"},
		{STEPD_LIMIT_MEMORY_MAX, STEPD_LIMIT_NONE, "max"},
		{STEPD_LIMIT_MEMORY_MAX, 4095, NULL}, /* no page: all would be killed */
		{STEPD_LIMIT_MEMORY_HIGH, 0, NULL},
		{STEPD_LIMIT_MEMORY_SWAP_MAX, 0, "0"},
		{STEPD_LIMIT_MEMORY_OOM_GROUP, 1, "1"},
		{STEPD_LIMIT_MEMORY_OOM_GROUP, STEPD_LIMIT_NONE, "0"},
		{STEPD_LIMIT_MEMORY_OOM_GROUP, 2, NULL},
		{STEPD_LIMIT_PIDS_MAX, 512, "512"},
		{STEPD_LIMIT_PIDS_MAX, 4194305, NULL},
		{STEPD_LIMIT_CPU_MAX, 1500, "150000 100000"},
		{STEPD_LIMIT_CPU_MAX, 10, "1000 100000"},
		{STEPD_LIMIT_CPU_MAX, 9, "9000 1000000"}, /* 900 us in 100 ms would be refused */
		{STEPD_LIMIT_CPU_MAX, 1, "1000 1000000"},
		{STEPD_LIMIT_CPU_MAX, 0, NULL},
		{STEPD_LIMIT_CPU_MAX, 256000, "25600000 100000"},
		{STEPD_LIMIT_CPU_MAX, UINT64_MAX / 2, NULL},
		{STEPD_LIMIT_CPU_MAX, STEPD_LIMIT_NONE, "max"},
		{STEPD_LIMIT_CPU_WEIGHT, STEPD_LIMIT_NONE, "100"},
		{STEPD_LIMIT_CPU_WEIGHT, 0, NULL},
		{STEPD_LIMIT_CPU_WEIGHT, 10001, NULL},
	};
	char text[LIMITS_TEXT_SIZE];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct err err = ERR_INIT;
		int r = limits_format_number(cases[i].which, cases[i].n, text, &err);

		assert_int_equal(r, cases[i].text ? 0 : -ERANGE);
		if (cases[i].text)
			assert_string_equal(text, cases[i].text);
		else
			assert_has(err.text, cases[i].n ? "the " : "the least is");
	}
}

static void test_io_lines(_unused_ void **state)
{
	stepd_io_limit_t io = {.major = 259,
		.minor = 1048575,
		.read_bytes_per_sec = STEPD_LIMIT_NONE,
		.write_bytes_per_sec = 1 << 20,
		.reads_per_sec = UINT64_MAX - 1,
		.writes_per_sec = UINT64_MAX - 1};
	char text[LIMITS_TEXT_SIZE];

	limits_format_io(&io, text);
	assert_string_equal(text,
		"259:1048575 rbps=max wbps=1048576 riops=18446744073709551614 "
		"wiops=18446744073709551614");
	io.major = io.minor = UINT32_MAX;
	io.read_bytes_per_sec = io.write_bytes_per_sec = UINT64_MAX - 1;
	limits_format_io(&io, text); /* the longest */
	assert_has(text, " wiops=18446744073709551614");
	assert_true(strlen(text) + 1 < LIMITS_TEXT_SIZE);
}

static void test_lists(_unused_ void **state)
{
	struct err err = ERR_INIT;

	assert_int_equal(limits_check_list("0-3,8", "0-15", "F", &err), 0);
	assert_int_equal(limits_check_list("0", "0", "F", &err), 0);
	assert_int_equal(limits_check_list("0-4", "0-3,8", "F", &err), -ERANGE);
	assert_string_equal(err.text, "'0-4' names 4, but '0-3,8' of F is all there is");
	assert_int_equal(limits_check_list("70000", "0-3", "F", &err), -ERANGE);
	assert_int_equal(limits_check_list("3-1", "0-3", "F", &err), -EINVAL);
	assert_int_equal(limits_check_list("0;reboot", "0-3", "F", &err), -EINVAL);
	assert_string_equal(err.text, "'0;reboot' is no list of numbers below 65536 such as 0-3,8");
}

static void test_controller_names(_unused_ void **state)
{
	char text[CONTROLLERS_MAX_TEXT];

	assert_int_equal(controllers_parse("cpuset cpu io memory hugetlb pids rdma misc\n"),
		CONTROLLER_CPU | CONTROLLER_CPUSET | CONTROLLER_IO | CONTROLLER_MEMORY |
			CONTROLLER_PIDS);
	assert_int_equal(controllers_parse(""), 0);
	assert_int_equal(controllers_parse("cpus mem pidsx memory"), CONTROLLER_MEMORY);
	controllers_format(~0u, "+", text);
	assert_string_equal(text, "+cpu +cpuset +io +memory +pids");
	controllers_format(CONTROLLER_PIDS, "", text);
	assert_string_equal(text, "pids");
	controllers_format(0, "+", text);
	assert_string_equal(text, "");
}

static uint64_t parsed(const char *file, const char *text, enum stepd_usage_value value)
{
	stepd_usage_t usage = {0};

	group_parse_usage(file, text, &usage);
	return usage.source[value] == STEPD_USAGE_CGROUP ? usage.value[value] : UINT64_MAX;
}

static void test_usage_texts(_unused_ void **state)
{
	static const char cpu[] = "usage_usec 9\nuser_usec 5\nsystem_usec 4\nnr_throttled 1\n"
				  "throttled_usec 77\n";
	static const char events[] = "low 0\nhigh 0\nmax 30\noom 2\noom_kill 1\noom_group_kill 0\n";
	static const char psi[] = "some avg10=0.00 avg60=0.00 avg300=0.00 total=48\n"
				  "full avg10=0.00 avg60=0.00 avg300=0.00 total=31\n";
	static const char io[] = "259:0 rbytes=100 wbytes=7 rios=1 wios=1 dbytes=9 dios=1\n8:16 \n"
				 "8:0 rbytes=23 wbytes=0 rios=4 wios=0 dbytes=0 dios=0\n";

	assert_int_equal(parsed("cpu.stat", cpu, STEPD_USAGE_CPU_USER_USEC), 5);
	assert_int_equal(parsed("cpu.stat", cpu, STEPD_USAGE_CPU_SYSTEM_USEC), 4);
	assert_int_equal(parsed("cpu.stat", cpu, STEPD_USAGE_CPU_THROTTLED_USEC), 77);
	assert_int_equal(
		parsed("cpu.stat", "user_usec 5\n", STEPD_USAGE_CPU_THROTTLED_USEC), UINT64_MAX);
	assert_int_equal(parsed("memory.current", "4096\n", STEPD_USAGE_MEMORY_BYTES), 4096);
	assert_int_equal(parsed("memory.current", "max\n", STEPD_USAGE_MEMORY_BYTES), UINT64_MAX);
	assert_int_equal(parsed("memory.events", events, STEPD_USAGE_OOM_EVENTS), 2);
	assert_int_equal(parsed("memory.events", events, STEPD_USAGE_OOM_KILLS), 1);
	assert_int_equal(parsed("pids.events", "max 3\n", STEPD_USAGE_PIDS_MAX_EVENTS), 3);
	assert_int_equal(parsed("io.stat", io, STEPD_USAGE_IO_READ_BYTES), 123);
	assert_int_equal(parsed("io.stat", io, STEPD_USAGE_IO_WRITE_BYTES), 7);
	assert_int_equal(parsed("io.stat", "", STEPD_USAGE_IO_WRITE_BYTES), 0);
	assert_int_equal(parsed("cpu.pressure", psi, STEPD_USAGE_CPU_PRESSURE_USEC), 48);
	assert_int_equal(
		parsed("io.pressure", "full total=3\n", STEPD_USAGE_IO_PRESSURE_USEC), UINT64_MAX);
	assert_int_equal(
		parsed("io.pressure", "some avg10=0\n", STEPD_USAGE_IO_PRESSURE_USEC), UINT64_MAX);
}

/* ---- what can't be had -------------------------------------------------------------------- */

static bool has_controllers(void)
{
	_cleanup_free_ char *text = NULL;

	return fs_read(rig.fd, "cgroup.controllers", 4096, &text, NULL) == 0 &&
		controllers_parse(text) != 0;
}

static void test_a_missing_controller_is_named(_unused_ void **state)
{
	stepd_limits_t limits = {.set = 1u << STEPD_LIMIT_MEMORY_MAX | 1u << STEPD_LIMIT_PIDS_MAX,
		.number = {[STEPD_LIMIT_MEMORY_MAX] = 1 << 20, [STEPD_LIMIT_PIDS_MAX] = 9}};
	const uint32_t rank = 3;
	struct err err = ERR_INIT;

	need_rig(&rig);
	if (has_controllers())
		skip();
	assert_int_equal(limits_apply(&dir, NULL, &limits, &err), -EOPNOTSUPP);
	assert_has(err.text, "limit memory.max=1048576 of the step: ");
	assert_has(err.text, "memory controller");
	limits = (stepd_limits_t){
		.set = 1u << STEPD_LIMIT_CPU_MAX, .number = {[STEPD_LIMIT_CPU_MAX] = 1500}};
	assert_int_equal(limits_apply(&dir, NULL, &limits, &err), -EOPNOTSUPP);
	assert_has(err.text, "limit cpu.max=1.500 of the step: ");
	limits = (stepd_limits_t){.set = 1u << STEPD_LIMIT_CPUSET_CPUS, .cpuset_cpus = "0-3"};
	assert_int_equal(limits_apply(&dir, NULL, &limits, &err), -EOPNOTSUPP);
	assert_has(err.text, "limit cpuset.cpus=0-3 of the step: ");
	limits = (stepd_limits_t){
		.set = 1u << STEPD_LIMIT_PIDS_MAX, .number = {[STEPD_LIMIT_PIDS_MAX] = 9}};
	assert_int_equal(limits_apply(&dir, &rank, &limits, &err), -EOPNOTSUPP);
	assert_has(err.text, "limit pids.max=9 of task 3: ");
	assert_has(err.text, "pids");
}

static void test_no_limit_that_we_do_not_know(_unused_ void **state)
{
	const stepd_limits_t none = {.set = 0};
	const stepd_limits_t later = {.set = 1u << STEPD_LIMIT_COUNT};
	struct err err = ERR_INIT;

	need_rig(&rig);
	assert_int_equal(limits_apply(&dir, NULL, &none, &err), 0);
	assert_int_equal(limits_apply(&dir, NULL, &later, &err), -EINVAL);
	assert_has(err.text, "0x800");
}

/* Whatever the place offers, creating a step never fails for it. */
static void test_accounting_is_taken_as_far_as_it_goes(_unused_ void **state)
{
	_cleanup_free_ char *text = NULL;

	need_rig(&rig);
	controllers_enable_accounting(&dir, true);
	assert_int_equal(fs_read(dir.fd, "cgroup.subtree_control", 4096, &text, NULL), 0);
	assert_int_equal(controllers_parse(text) & ~CONTROLLERS_ACCOUNTING, 0);
}

/* ---- devices ------------------------------------------------------------------------------ */

#define RULE(t, maj, min, a)                                                                       \
	{                                                                                          \
		.type = (t), .major = (maj), .minor = (min), .access = (a)                         \
	}
#define R   STEPD_DEVICE_READ
#define W   STEPD_DEVICE_WRITE
#define M   STEPD_DEVICE_MKNOD
#define ANY STEPD_DEVICE_ANY

#define NULL_MINOR 3
#define ZERO_MINOR 5

/* May this machine attach device programs at all? Elsewhere the tests of them are skipped. */
static bool has_devices(void)
{
	const stepd_device_rule_t all = RULE('a', ANY, ANY, R | W | M);
	_cleanup_close_ int fd = rig.fd < 0 ? -1 : rig_group(rig.fd, "devices-try");

	return fd >= 0 && devices_set(fd, &all, 1, NULL) == 0;
}

#define need_devices()                                                                             \
	do {                                                                                       \
		need_rig(&rig);                                                                    \
		if (!has_devices())                                                                \
			skip();                                                                    \
	} while (0)

/* The errno of opening a node in a child that is born in the group, 0 if it could. */
static int open_in(int fd, const char *path, int flags)
{
	pid_t pid = rig_fork(fd);

	if (pid == 0)
		_exit(open(path, flags | O_CLOEXEC) < 0 ? errno : 0);
	return WEXITSTATUS(rig_status(pid));
}

static int mknod_in(int fd, const char *path, mode_t type, unsigned major, unsigned minor)
{
	pid_t pid = rig_fork(fd);

	if (pid == 0)
		_exit(mknod(path, type | 0600, makedev(major, minor)) < 0 ? errno : 0);
	return WEXITSTATUS(rig_status(pid));
}

static void set_rules(int fd, const stepd_device_rule_t *rules, size_t count)
{
	struct err err = ERR_INIT;

	if (devices_set(fd, rules, count, &err) < 0)
		fail_msg("%s", err.text);
}

static void test_devices_are_refused_and_allowed(_unused_ void **state)
{
	const stepd_device_rule_t rules[] = {RULE('c', 1, NULL_MINOR, R | W)};

	need_devices();
	assert_int_equal(open_in(dir.fd, "/dev/zero", O_RDONLY), 0);
	set_rules(dir.fd, rules, 1);
	assert_int_equal(open_in(dir.fd, "/dev/null", O_RDWR), 0);
	assert_int_equal(open_in(dir.fd, "/dev/zero", O_RDONLY), EPERM);
	assert_int_equal(open_in(rig.fd, "/dev/zero", O_RDONLY), 0); /* others' */
	assert_int_equal(open_in(dir.fd, "/proc/self/stat", O_RDONLY), 0);
	set_rules(dir.fd, NULL, 0);
	assert_int_equal(open_in(dir.fd, "/dev/null", O_RDONLY), EPERM);
}

static void test_device_access_is_told_apart(_unused_ void **state)
{
	const stepd_device_rule_t read_only[] = {RULE('c', 1, ZERO_MINOR, R)};
	const stepd_device_rule_t by_two[] = {RULE('c', 1, ZERO_MINOR, R), RULE('a', ANY, ANY, W)};
	const stepd_device_rule_t block[] = {RULE('b', ANY, ANY, R | W | M)};
	const stepd_device_rule_t whole[] = {RULE('c', 1, ANY, R | W)};
	const stepd_device_rule_t minor[] = {RULE('c', ANY, ZERO_MINOR, R | W)};
	const stepd_device_rule_t all_but[] = {
		RULE('a', ANY, ANY, R | W | M), RULE('c', 1, ZERO_MINOR, 0)};

	need_devices();
	set_rules(dir.fd, read_only, 1);
	assert_int_equal(open_in(dir.fd, "/dev/zero", O_RDONLY), 0);
	assert_int_equal(open_in(dir.fd, "/dev/zero", O_WRONLY), EPERM);
	assert_int_equal(open_in(dir.fd, "/dev/zero", O_RDWR), EPERM);
	set_rules(dir.fd, by_two, 2); /* together they allow both */
	assert_int_equal(open_in(dir.fd, "/dev/zero", O_RDWR), 0);
	assert_int_equal(open_in(dir.fd, "/dev/null", O_WRONLY), 0);
	assert_int_equal(open_in(dir.fd, "/dev/null", O_RDWR), EPERM);
	set_rules(dir.fd, block, 1);
	assert_int_equal(open_in(dir.fd, "/dev/zero", O_RDONLY), EPERM);
	set_rules(dir.fd, whole, 1);
	assert_int_equal(open_in(dir.fd, "/dev/null", O_RDWR), 0);
	set_rules(dir.fd, minor, 1);
	assert_int_equal(open_in(dir.fd, "/dev/zero", O_RDWR), 0);
	assert_int_equal(open_in(dir.fd, "/dev/null", O_RDWR), EPERM);
	set_rules(dir.fd, all_but, 2); /* wherever it stands */
	assert_int_equal(open_in(dir.fd, "/dev/zero", O_RDONLY), EPERM);
	assert_int_equal(open_in(dir.fd, "/dev/null", O_RDWR), 0);
}

static void test_device_nodes_are_made_by_rule(_unused_ void **state)
{
	const stepd_device_rule_t rules[] = {RULE('c', 0xfff, 0xfffff, M), RULE('c', 1, 3, R | W)};
	char *scratch, *path;

	need_devices();
	scratch = scratch_make();
	path = scratch_path(scratch, "node");
	set_rules(dir.fd, rules, 2);
	assert_int_equal(mknod_in(dir.fd, path, S_IFCHR, 1, 3), EPERM);
	assert_int_equal(mknod_in(dir.fd, path, S_IFBLK, 0xfff, 0xfffff), EPERM);
	assert_int_equal(mknod_in(dir.fd, path, S_IFIFO, 0, 0), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mknod_in(dir.fd, path, S_IFCHR, 0xfff, 0xfffff), 0); /* the largest */
	scratch_remove(scratch);
	free(path);
	free(scratch);
}

/* A task's program can only take away. */
static void test_devices_of_a_task(_unused_ void **state)
{
	const stepd_device_rule_t null[] = {RULE('c', 1, NULL_MINOR, R | W)};
	const stepd_device_rule_t two[] = {
		RULE('c', 1, NULL_MINOR, R | W), RULE('c', 1, ZERO_MINOR, R | W)};
	const stepd_limits_t for_step = {
		.set = 1u << STEPD_LIMIT_DEVICES, .devices = null, .devices_count = 1};
	const stepd_limits_t for_task = {
		.set = 1u << STEPD_LIMIT_DEVICES, .devices = two, .devices_count = 2};
	_cleanup_close_ int task = -1;
	const uint32_t rank = 2;
	struct err err = ERR_INIT;

	need_devices();
	assert_int_equal(limits_apply(&dir, &rank, &for_task, &err), 0);
	task = step_find_task(&dir, rank); /* made on demand */
	assert_true(task >= 0);
	assert_int_equal(open_in(task, "/dev/zero", O_RDONLY), 0);
	assert_int_equal(open_in(task, "/dev/full", O_RDONLY), EPERM);
	assert_int_equal(open_in(dir.fd, "/dev/full", O_RDONLY), 0);
	assert_int_equal(limits_apply(&dir, NULL, &for_step, &err), 0);
	assert_int_equal(open_in(task, "/dev/zero", O_RDONLY), EPERM);
	assert_int_equal(open_in(task, "/dev/null", O_RDONLY), 0);
}

/* The numbers of the programs of a group. */
static size_t count_programs(int fd)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.query.target_fd = (uint32_t)fd;
	attr.query.attach_type = BPF_CGROUP_DEVICE;
	if (syscall(SYS_bpf, BPF_PROG_QUERY, &attr, sizeof(attr)) < 0 && errno != ENOSPC)
		err(99, "BPF_PROG_QUERY");
	return attr.query.prog_cnt;
}

/* The least number of programs that a group had when one was about to be taken off it. */
static size_t least_at_detach = SIZE_MAX;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...); /* by the linker's --wrap */

long __wrap_syscall(long number, ...)
{
	long a, b, c;
	size_t n;
	va_list ap;

	va_start(ap, number);
	a = va_arg(ap, long);
	b = va_arg(ap, long);
	c = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_bpf && a == BPF_PROG_DETACH) {
		n = count_programs((int)((union bpf_attr *)b)->target_fd);
		least_at_detach = n < least_at_detach ? n : least_at_detach;
	}
	return __real_syscall(number, a, b, c);
}

/* The new one is there before the old one goes: an open that comes between would find none, too
 * rarely to be waited for. */
static void test_devices_change_without_a_gap(_unused_ void **state)
{
	const stepd_device_rule_t a[] = {RULE('c', 1, NULL_MINOR, R | W)};
	const stepd_device_rule_t b[] = {RULE('c', 1, ZERO_MINOR, R | W)};
	int i;

	need_devices();
	set_rules(dir.fd, a, 1);
	least_at_detach = SIZE_MAX;
	for (i = 0; i < 100; i++) { /* more than a group may have programs */
		set_rules(dir.fd, i % 2 ? a : b, 1);
		assert_int_equal(least_at_detach, 2);
	}
	assert_int_equal(count_programs(dir.fd), 1);
	assert_int_equal(open_in(dir.fd, "/dev/null", O_RDWR), 0);
	assert_int_equal(open_in(dir.fd, "/dev/zero", O_RDWR), EPERM);
}

/* Attaches a program of somebody else's, which says yes. */
static void attach_foreign(int fd, uint32_t flags)
{
	const struct bpf_insn yes[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = 1}, {.code = BPF_JMP | BPF_EXIT}};
	union bpf_attr attr;
	int program;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
	attr.insns = (uintptr_t)yes;
	attr.insn_cnt = ARRAY_SIZE(yes);
	attr.license = (uintptr_t) "GPL";
	program = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
	assert_true(program >= 0);
	memset(&attr, 0, sizeof(attr));
	attr.target_fd = (uint32_t)fd;
	attr.attach_bpf_fd = (uint32_t)program;
	attr.attach_type = BPF_CGROUP_DEVICE;
	attr.attach_flags = flags;
	assert_int_equal(syscall(SYS_bpf, BPF_PROG_ATTACH, &attr, sizeof(attr)), 0);
	(void)close(program);
}

/* A program that another attached stays. */
static void test_foreign_device_programs_stay(_unused_ void **state)
{
	const stepd_device_rule_t rules[] = {RULE('c', 1, NULL_MINOR, R)};

	need_devices();
	attach_foreign(dir.fd, BPF_F_ALLOW_MULTI);
	set_rules(dir.fd, rules, 1);
	set_rules(dir.fd, rules, 1);
	assert_int_equal(count_programs(dir.fd), 2);
}

/* Below a group whose program was attached alone, none can be attached. */
static void test_a_lone_program_above_is_named(_unused_ void **state)
{
	struct err err = ERR_INIT;

	need_devices();
	attach_foreign(rig.fd, 0);
	assert_int_equal(devices_set(dir.fd, NULL, 0, &err), -EOPNOTSUPP);
	assert_has(err.text, "a group above '");
	assert_has(err.text, "BPF_F_ALLOW_MULTI");
}

enum {
	COUNT = 2000
};

static stepd_device_rule_t *make_rules(void)
{
	stepd_device_rule_t *rules = calloc(COUNT, sizeof(*rules));
	int i;

	assert_non_null(rules);
	for (i = 0; i < COUNT; i++)
		rules[i] = (stepd_device_rule_t)RULE(i % 3 ? 'c' : 'b', (uint32_t)(i % 7 + 200),
			(uint32_t)i, 1 + (uint32_t)i % 7);
	rules[COUNT - 1] = (stepd_device_rule_t)RULE('c', 1, NULL_MINOR, R | W);
	return rules;
}

/* The verifier's work grows with the rules, not faster. */
static void test_hundreds_of_device_rules(_unused_ void **state)
{
	_cleanup_free_ stepd_device_rule_t *rules = make_rules();
	uint64_t begin_ns;

	need_devices();
	begin_ns = clock_now_ns();
	set_rules(dir.fd, rules, COUNT);
	print_message("# %d rules were loaded in %.1f ms\n", COUNT,
		(double)(clock_now_ns() - begin_ns) / 1e6);
	assert_int_equal(open_in(dir.fd, "/dev/null", O_RDWR), 0);
	assert_int_equal(open_in(dir.fd, "/dev/zero", O_RDONLY), EPERM);
}

static void note_signal(int signal)
{
	(void)signal;
}

/* At any moment of it. */
static void test_a_signal_while_rules_are_loaded(_unused_ void **state)
{
	_cleanup_free_ stepd_device_rule_t *rules = make_rules();
	const struct sigaction note = {.sa_handler = note_signal}, dfl = {.sa_handler = SIG_DFL};
	uint64_t took_ns;
	int i;

	need_devices();
	took_ns = clock_now_ns();
	set_rules(dir.fd, rules, COUNT);
	took_ns = clock_now_ns() - took_ns;
	assert_int_equal(sigaction(SIGALRM, &note, NULL), 0);
	for (i = 1; i < 20; i++) {
		uint64_t at_us = took_ns / 20000 * (unsigned)i;
		struct itimerval once = {.it_value = {.tv_sec = (time_t)(at_us / 1000000),
						 .tv_usec = (suseconds_t)(at_us % 1000000)}};

		assert_int_equal(setitimer(ITIMER_REAL, &once, NULL), 0);
		set_rules(dir.fd, rules, COUNT);
	}
	assert_int_equal(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL), 0);
	assert_int_equal(sigaction(SIGALRM, &dfl, NULL), 0);
}

static void test_rules_that_are_none(_unused_ void **state)
{
	const stepd_device_rule_t type = RULE('x', 1, 3, R), access = RULE('c', 1, 3, 8),
				  every = RULE('a', ANY, ANY, 0);
	struct bpf_insn *insns = NULL;
	struct err err = ERR_INIT;
	size_t n;

	assert_int_equal(devices_generate(&type, 1, &insns, &n, &err), -EINVAL);
	assert_has(err.text, "device rule 1 has the type 'x'");
	assert_int_equal(devices_generate(&access, 1, &insns, &n, &err), -EINVAL);
	assert_int_equal(devices_generate(&every, 1, &insns, &n, &err), -EINVAL);
	assert_int_equal(devices_generate(NULL, SIZE_MAX, &insns, &n, &err), -E2BIG);
	assert_null(insns);
}

/* Without rights: in a child that has become another user. */
static void test_devices_need_rights(_unused_ void **state)
{
	struct err err = ERR_INIT;
	pid_t pid;

	need_devices();
	pid = fork();
	if (pid == 0) {
		if (setresuid(65534, 65534, 65534) < 0)
			_exit(9);
		_exit(devices_set(dir.fd, NULL, 0, &err) == -EOPNOTSUPP &&
					strstr(err.text, "run as root")
				? 0
				: 1);
	}
	assert_int_equal(rig_status(pid), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_io_lines),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_controller_names),
		cmocka_unit_test(test_usage_texts),
#define rig_test(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
		rig_test(test_a_missing_controller_is_named),
		rig_test(test_no_limit_that_we_do_not_know),
		rig_test(test_accounting_is_taken_as_far_as_it_goes),
		rig_test(test_devices_are_refused_and_allowed),
		rig_test(test_device_access_is_told_apart),
		rig_test(test_device_nodes_are_made_by_rule),
		rig_test(test_devices_of_a_task),
		rig_test(test_devices_change_without_a_gap),
		rig_test(test_foreign_device_programs_stay),
		rig_test(test_a_lone_program_above_is_named),
		rig_test(test_hundreds_of_device_rules),
		rig_test(test_a_signal_while_rules_are_loaded),
		cmocka_unit_test(test_rules_that_are_none),
		rig_test(test_devices_need_rights),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
