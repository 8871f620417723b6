/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How limits are read, and what a backend is told of them. What the kernel makes of them is
 * tested where it has controllers: tests/testbed/guest-limits.sh.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <jansson.h>
#include <sys/sysmacros.h>

#include "proctrack/proctrack.h"
#include "stepd/account/apply_limits.h"
#include "stepd/base/err.h"
#include "stepd/spec/spec_json.h"
#include "tests/lib/scratch.h"

/* Reads an object that is written with ' for ". */
static int read_limits(const char *text, struct limits *limits, struct err *err)
{
	_cleanup_free_ char *copy = strdup(text);
	json_error_t where;
	json_t *doc;
	char *p;
	int r;

	for (p = copy; (p = strchr(p, '\'')); p++)
		*p = '"';
	doc = json_loads(copy, 0, &where);
	if (!doc)
		fail_msg("%s: %s", text, where.text);
	r = limits_from_json("limits", doc, limits, err);
	json_decref(doc);
	return r;
}

static void good(const char *text, struct limits *limits)
{
	struct err err = ERR_INIT;

	if (read_limits(text, limits, &err) < 0)
		fail_msg("%s: %s", text, err.text);
}

/* ---- values ------------------------------------------------------------------------------- */

static void test_numbers(void **state)
{
	static const struct {
		const char *text;
		enum stepd_limit which;
		uint64_t number;
	} rows[] = {
		{"{'memory_max_bytes': 1048576}", STEPD_LIMIT_MEMORY_MAX, 1048576},
		{"{'memory_max_bytes': 1152921504606846976}", STEPD_LIMIT_MEMORY_MAX, 1ull << 60},
		{"{'memory_max_bytes': '2G'}", STEPD_LIMIT_MEMORY_MAX, 2ull << 30},
		{"{'memory_max_bytes': '1.5g'}", STEPD_LIMIT_MEMORY_MAX, 3ull << 29},
		{"{'memory_max_bytes': 'max'}", STEPD_LIMIT_MEMORY_MAX, STEPD_LIMIT_NONE},
		{"{'memory_max_bytes': 'none'}", STEPD_LIMIT_MEMORY_MAX, STEPD_LIMIT_NONE},
		{"{'memory_high_bytes': '512M'}", STEPD_LIMIT_MEMORY_HIGH, 512ull << 20},
		{"{'memory_swap_max_bytes': 0}", STEPD_LIMIT_MEMORY_SWAP_MAX, 0},
		{"{'memory_swap_max_bytes': '0K'}", STEPD_LIMIT_MEMORY_SWAP_MAX, 0},
		{"{'memory_oom_group': true}", STEPD_LIMIT_MEMORY_OOM_GROUP, 1},
		{"{'memory_oom_group': false}", STEPD_LIMIT_MEMORY_OOM_GROUP, 0},
		{"{'pids_max': 1}", STEPD_LIMIT_PIDS_MAX, 1},
		{"{'pids_max': 4194304}", STEPD_LIMIT_PIDS_MAX, 4194304},
		{"{'pids_max': 'max'}", STEPD_LIMIT_PIDS_MAX, STEPD_LIMIT_NONE},
		{"{'cpu_max': 2}", STEPD_LIMIT_CPU_MAX, 2000},
		{"{'cpu_max': 1.5}", STEPD_LIMIT_CPU_MAX, 1500},
		{"{'cpu_max': '1.5'}", STEPD_LIMIT_CPU_MAX, 1500},
		{"{'cpu_max': '.25'}", STEPD_LIMIT_CPU_MAX, 250},
		{"{'cpu_max': 0.001}", STEPD_LIMIT_CPU_MAX, 1},
		{"{'cpu_max': 0.3333333}", STEPD_LIMIT_CPU_MAX, 333},
		{"{'cpu_max': 65536}", STEPD_LIMIT_CPU_MAX, 65536000},
		{"{'cpu_max': 'none'}", STEPD_LIMIT_CPU_MAX, STEPD_LIMIT_NONE},
		{"{'cpu_weight': 1}", STEPD_LIMIT_CPU_WEIGHT, 1},
		{"{'cpu_weight': 10000}", STEPD_LIMIT_CPU_WEIGHT, 10000},
		{"{'cpu_weight': 'max'}", STEPD_LIMIT_CPU_WEIGHT, 100},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_limits_ struct limits limits = {0};

		good(rows[i].text, &limits);
		if (limits.set != 1u << rows[i].which ||
			limits.number[rows[i].which] != rows[i].number)
			fail_msg("%s: %#x, %llu", rows[i].text, limits.set,
				(unsigned long long)limits.number[rows[i].which]);
	}
}

static void test_nothing(void **state)
{
	_cleanup_limits_ struct limits limits = {0};

	(void)state;
	good("{}", &limits);
	assert_int_equal(limits.set, 0);
}

static void test_lists(void **state)
{
	_cleanup_limits_ struct limits limits = {0}, taken = {0};

	(void)state;
	good("{'cpuset_cpus': '0-3,8', 'cpuset_mems': '1'}", &limits);
	assert_int_equal(limits.set, 1u << STEPD_LIMIT_CPUSET_CPUS | 1u << STEPD_LIMIT_CPUSET_MEMS);
	assert_string_equal(limits.cpuset_cpus, "0-3,8");
	assert_string_equal(limits.cpuset_mems, "1");
	good("{'cpuset_cpus': 'max'}", &taken);
	assert_int_equal(taken.set, 1u << STEPD_LIMIT_CPUSET_CPUS);
	assert_string_equal(taken.cpuset_cpus, "");
}

static void test_io(void **state)
{
	_cleanup_limits_ struct limits limits = {0};

	(void)state;
	good("{'io_max': [{'device': '/dev/sda', 'read_bytes_per_sec': '10M', 'writes_per_sec': 5},"
	     " {'device': '8:16', 'write_bytes_per_sec': 'max', 'reads_per_sec': 7}]}",
		&limits);
	assert_int_equal(limits.set, 1u << STEPD_LIMIT_IO_MAX);
	assert_int_equal(limits.io_count, 2);
	assert_string_equal(limits.io[0].name, "/dev/sda");
	assert_int_equal(limits.io[0].limit.read_bytes_per_sec, 10u << 20);
	assert_true(limits.io[0].limit.write_bytes_per_sec == STEPD_LIMIT_NONE);
	assert_true(limits.io[0].limit.reads_per_sec == STEPD_LIMIT_NONE);
	assert_int_equal(limits.io[0].limit.writes_per_sec, 5);
	assert_string_equal(limits.io[1].name, "8:16");
	assert_true(limits.io[1].limit.write_bytes_per_sec == STEPD_LIMIT_NONE);
	assert_int_equal(limits.io[1].limit.reads_per_sec, 7);
}

static void test_devices(void **state)
{
	_cleanup_limits_ struct limits limits = {0}, refusing = {0}, defaults = {0}, all = {0};

	(void)state;
	good("{'devices': [{'device': '/dev/nvidia0', 'access': 'wr'}, {'device': 'c 195:*'}]}",
		&limits);
	assert_int_equal(limits.set, 1u << STEPD_LIMIT_DEVICES);
	assert_false(limits.all_devices);
	assert_int_equal(limits.devices_count, 2);
	assert_string_equal(limits.devices[0].name, "/dev/nvidia0");
	assert_int_equal(limits.devices[0].access, STEPD_DEVICE_READ | STEPD_DEVICE_WRITE);
	assert_int_equal(limits.devices[1].access,
		STEPD_DEVICE_READ | STEPD_DEVICE_WRITE | STEPD_DEVICE_MKNOD);
	good("{'devices': [{'device': 'a *:*'}, {'device': '/dev/null', 'access': 'none'}]}",
		&refusing);
	assert_int_equal(refusing.devices[1].access, 0);
	good("{'devices': []}", &defaults);
	assert_int_equal(defaults.set, 1u << STEPD_LIMIT_DEVICES);
	assert_int_equal(defaults.devices_count, 0);
	assert_false(defaults.all_devices);
	good("{'devices': 'max'}", &all);
	assert_int_equal(all.set, 1u << STEPD_LIMIT_DEVICES);
	assert_true(all.all_devices);
}

static const struct {
	const char *text, *error;
} wrong[] = {
	{"[]", "limits: must be an object, not an array"},
	{"{'memory_max': 1}", "limits.memory_max: unknown field"},
	{"{'pid_max': 1}", "limits.pid_max: unknown field; did you mean 'pids_max'?"},
	{"{'memory_max_bytes': 1048575}",
		"limits.memory_max_bytes: 1048575 is not in the range 1048576 to "
		"1152921504606846976"},
	{"{'memory_max_bytes': 1.5}",
		"limits.memory_max_bytes: must be a whole number, not a fraction"},
	{"{'memory_max_bytes': null}", "limits.memory_max_bytes: must be a whole number, not null"},
	{"{'memory_max_bytes': '2'}",
		"limits.memory_max_bytes: '2' is neither a number, nor a size with its unit such as "
		"\"512M\" or \"2G\", nor \"max\""},
	{"{'memory_max_bytes': '2 G'}",
		"limits.memory_max_bytes: '2 G' is neither a number, nor a size with its unit such as "
		"\"512M\" or \"2G\", nor \"max\""},
	{"{'memory_max_bytes': '2GiB'}",
		"limits.memory_max_bytes: '2GiB' is neither a number, nor a size with its unit such as "
		"\"512M\" or \"2G\", nor \"max\""},
	{"{'memory_max_bytes': '1K'}",
		"limits.memory_max_bytes: '1K' is not in the range 1048576 to 1152921504606846976 "
		"bytes"},
	{"{'memory_max_bytes': '99999999999999999999G'}",
		"limits.memory_max_bytes: '99999999999999999999G' is not in the range 1048576 to "
		"1152921504606846976 bytes"},
	{"{'memory_high_bytes': 0}",
		"limits.memory_high_bytes: 0 is not in the range 1048576 to 1152921504606846976"},
	{"{'memory_swap_max_bytes': -1}",
		"limits.memory_swap_max_bytes: -1 is not in the range 0 to 1152921504606846976"},
	{"{'memory_oom_group': 1}", "limits.memory_oom_group: must be true or false"},
	{"{'pids_max': 0}", "limits.pids_max: 0 is not in the range 1 to 4194304"},
	{"{'pids_max': 4194305}", "limits.pids_max: 4194305 is not in the range 1 to 4194304"},
	{"{'pids_max': '5'}", "limits.pids_max: '5' is neither a number nor \"max\""},
	{"{'cpu_max': 0}", "limits.cpu_max: 0 is not in the range 0.001 to 65536 CPUs"},
	{"{'cpu_max': 65536.1}", "limits.cpu_max: 65536.1 is not in the range 0.001 to 65536 CPUs"},
	{"{'cpu_max': '1,5'}",
		"limits.cpu_max: '1,5' is neither a number of CPUs such as 1.5 nor \"max\""},
	{"{'cpu_max': '1.5.5'}",
		"limits.cpu_max: '1.5.5' is neither a number of CPUs such as 1.5 nor \"max\""},
	{"{'cpu_max': '.'}",
		"limits.cpu_max: '.' is neither a number of CPUs such as 1.5 nor \"max\""},
	{"{'cpu_max': ''}",
		"limits.cpu_max: '' is neither a number of CPUs such as 1.5 nor \"max\""},
	{"{'cpu_max': 'nan'}",
		"limits.cpu_max: 'nan' is neither a number of CPUs such as 1.5 nor \"max\""},
	{"{'cpu_max': true}",
		"limits.cpu_max: is neither a number of CPUs such as 1.5 nor \"max\""},
	{"{'cpu_weight': 0}", "limits.cpu_weight: 0 is not in the range 1 to 10000"},
	{"{'cpu_weight': 10001}", "limits.cpu_weight: 10001 is not in the range 1 to 10000"},
	{"{'cpuset_cpus': 3}", "limits.cpuset_cpus: must be a string, not a number"},
	{"{'cpuset_cpus': ''}", "limits.cpuset_cpus: is empty"},
	{"{'cpuset_cpus': '3-1'}",
		"limits.cpuset_cpus: '3-1' is neither a list such as \"0-3,8\" nor \"max\""},
	{"{'cpuset_cpus': '0-3,'}",
		"limits.cpuset_cpus: '0-3,' is neither a list such as \"0-3,8\" nor \"max\""},
	{"{'cpuset_cpus': '0xf'}",
		"limits.cpuset_cpus: '0xf' is neither a list such as \"0-3,8\" nor \"max\""},
	{"{'cpuset_cpus': '65536'}", "limits.cpuset_cpus: '65536' has a number above 65535"},
	{"{'cpuset_mems': '1024'}", "limits.cpuset_mems: '1024' has a number above 1023"},
	{"{'io_max': {}}", "limits.io_max: must be an array, not an object"},
	{"{'io_max': 'all'}", "limits.io_max: must be an array, not a string"},
	{"{'io_max': []}", "limits.io_max: is empty; \"max\" takes the limit away"},
	{"{'io_max': [{'reads_per_sec': 1}]}", "limits.io_max[0].device: is missing"},
	{"{'io_max': [{'device': '8:0'}]}",
		"limits.io_max[0]: limits nothing; give read_bytes_per_sec or another"},
	{"{'io_max': [{'device': 'sda', 'reads_per_sec': 1}]}",
		"limits.io_max[0].device: 'sda' is neither a path below /dev nor numbers such as "
		"\"8:0\""},
	{"{'io_max': [{'device': '8:*', 'reads_per_sec': 1}]}",
		"limits.io_max[0].device: '8:*' is neither a path below /dev nor numbers such as "
		"\"8:0\""},
	{"{'io_max': [{'device': '8:0', 'read_bytes_per_sec': '0K'}]}",
		"limits.io_max[0].read_bytes_per_sec: '0K' is not in the range 1 to "
		"1152921504606846976 bytes"},
	{"{'io_max': [{'device': '8:0', 'write_bytes_per_sec': 1.5}]}",
		"limits.io_max[0].write_bytes_per_sec: must be a whole number, not a fraction"},
	{"{'io_max': [{'device': '8:0', 'writes_per_sec': 4294967296}]}",
		"limits.io_max[0].writes_per_sec: 4294967296 is not in the range 1 to 4294967295"},
	{"{'io_max': [{'device': '8:0', 'reads_per_sec': 0}]}",
		"limits.io_max[0].reads_per_sec: 0 is not in the range 1 to 4294967295"},
	{"{'io_max': [{'device': '8:0', 'reads_per_sec': '1K'}]}",
		"limits.io_max[0].reads_per_sec: '1K' is neither a number nor \"max\""},
	{"{'devices': 'none'}", "limits.devices: 'none' is neither an array nor \"max\""},
	{"{'devices': ['/dev/null']}", "limits.devices[0]: must be an object, not a string"},
	{"{'devices': [{'access': 'r'}]}", "limits.devices[0].device: is missing"},
	{"{'devices': [{'device': '/tmp/x'}]}",
		"limits.devices[0].device: '/tmp/x' is neither a path below /dev nor numbers such as "
		"\"c 195:*\""},
	{"{'devices': [{'device': '/dev/'}]}",
		"limits.devices[0].device: '/dev/' is neither a path below /dev nor numbers such as "
		"\"c 195:*\""},
	{"{'devices': [{'device': 'x 1:3'}]}",
		"limits.devices[0].device: 'x 1:3' is neither a path below /dev nor numbers such as "
		"\"c 195:*\""},
	{"{'devices': [{'device': 'c 4096:0'}]}",
		"limits.devices[0].device: 'c 4096:0' is neither a path below /dev nor numbers such as "
		"\"c 195:*\""},
	{"{'devices': [{'device': 'c 1:1048576'}]}",
		"limits.devices[0].device: 'c 1:1048576' is neither a path below /dev nor numbers such "
		"as \"c 195:*\""},
	{"{'devices': [{'device': 'c 1'}]}",
		"limits.devices[0].device: 'c 1' is neither a path below /dev nor numbers such as \"c "
		"195:*\""},
	{"{'devices': [{'device': '/dev/null', 'access': ''}]}",
		"limits.devices[0].access: '' is neither one or more of the letters rwm nor "
		"\"none\""},
	{"{'devices': [{'device': '/dev/null', 'access': 'rr'}]}",
		"limits.devices[0].access: 'rr' is neither one or more of the letters rwm nor "
		"\"none\""},
	{"{'devices': [{'device': '/dev/null', 'access': 'x'}]}",
		"limits.devices[0].access: 'x' is neither one or more of the letters rwm nor "
		"\"none\""},
};

static void test_wrong_values(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct limits limits = {.set = 0xbad};
		struct err err = ERR_INIT;

		if (read_limits(wrong[i].text, &limits, &err) >= 0)
			fail_msg("%s: was taken", wrong[i].text);
		if (strcmp(err.text, wrong[i].error) != 0)
			fail_msg("%s:\n  got:    %s\n  wanted: %s", wrong[i].text, err.text,
				wrong[i].error);
		assert_int_equal(limits.set, 0xbad);
	}
}

static void test_every_field_has_a_wrong_value(void **state)
{
	const struct spec_field *fields;
	size_t n, i, k, found;
	char part[64];
	int table;

	(void)state;
	for (table = SPEC_TABLE_LIMITS; table < SPEC_TABLE_MAX; table++) {
		fields = spec_table_get((enum spec_table)table, &n);
		for (i = 0; i < n; i++) {
			(void)snprintf(part, sizeof(part), ".%s: ", fields[i].name);
			for (found = 0, k = 0; k < ARRAY_SIZE(wrong); k++)
				found += strstr(wrong[k].error, part) != NULL;
			if (!found)
				fail_msg("no wrong value of '%s' is tried", fields[i].name);
		}
	}
}

static void test_too_many(void **state)
{
	json_t *doc = json_object(), *array = json_array();
	struct limits limits;
	struct err err = ERR_INIT;
	int i;

	(void)state;
	for (i = 0; i < 257; i++)
		assert_int_equal(json_array_append_new(array, json_object()), 0);
	assert_int_equal(json_object_set_new(doc, "devices", array), 0);
	assert_int_equal(limits_from_json("limits", doc, &limits, &err), -EINVAL);
	assert_string_equal(err.text, "limits.devices: has 257 entries, more than 256");
	json_decref(doc);
}

static void test_modes(void **state)
{
	enum limits_mode mode = LIMITS_MODE_MAX;

	(void)state;
	assert_int_equal(limits_mode_parse("strict", &mode), 0);
	assert_int_equal(mode, LIMITS_STRICT);
	assert_int_equal(limits_mode_parse("best-effort", &mode), 0);
	assert_int_equal(mode, LIMITS_BEST_EFFORT);
	assert_int_equal(limits_mode_parse("best", &mode), -EINVAL);
}

/* ---- devices by name ---------------------------------------------------------------------- */

static void test_device_numbers(void **state)
{
	stepd_device_rule_t rule = {.access = 5};
	uint32_t major, minor;

	(void)state;
	assert_int_equal(limits_device_parse("c 195:*", &rule), 0);
	assert_true(rule.type == 'c' && rule.major == 195 && rule.minor == STEPD_DEVICE_ANY);
	assert_int_equal(limits_device_parse("b *:0", &rule), 0);
	assert_true(rule.type == 'b' && rule.major == STEPD_DEVICE_ANY && rule.minor == 0);
	assert_int_equal(limits_device_parse("a *:*", &rule), 0);
	assert_int_equal(rule.type, 'a');
	assert_int_equal(rule.access, 5);
	assert_int_equal(limits_device_parse_numbers("259:1048575", &major, &minor), 0);
	assert_true(major == 259 && minor == 1048575);
	assert_true(limits_device_parse_numbers("259", &major, &minor) < 0);
	assert_true(limits_device_parse_numbers("259:", &major, &minor) < 0);
	assert_true(limits_device_parse_numbers("1111111111111111111:0", &major, &minor) < 0);
}

static void test_device_nodes(void **state)
{
	stepd_device_rule_t rule = {0};
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(limits_device_find("/dev/null", &rule, &err), 0);
	assert_true(rule.type == 'c' && rule.major == 1 && rule.minor == 3);
	assert_int_equal(limits_device_find("/dev/nosuch", &rule, &err), -ENOENT);
	assert_string_equal(
		err.text, "look up the device '/dev/nosuch': No such file or directory");
	assert_int_equal(limits_device_find("/dev/pts/", &rule, &err), -ENODEV);
	assert_string_equal(err.text, "'/dev/pts/' is not a device");
}

/* Whoever may write below /dev, as all may to /dev/shm, leads nobody to another device. */
static void test_device_traps(void **state)
{
	static const char trap[] = "/dev/shm/stepd-test-trap", file[] = "/dev/shm/stepd-test-file";
	stepd_device_rule_t rule = {0};
	struct err err = ERR_INIT;

	(void)state;
	(void)unlink(trap);
	if (symlink("../null", trap) < 0)
		skip();
	assert_int_equal(limits_device_find(trap, &rule, &err), -EXDEV);
	assert_int_equal(unlink(trap), 0);
	assert_int_equal(symlink("/dev/null", trap), 0);
	assert_int_equal(limits_device_find(trap, &rule, &err), -EXDEV);
	assert_int_equal(unlink(trap), 0);
	assert_int_equal(limits_device_find("/dev/../dev/null", &rule, &err), -EXDEV);
	assert_string_equal(err.text,
		"'/dev/../dev/null' leads out of /dev or over a link on another file system; give the "
		"device itself");
	scratch_write("/dev/shm", "stepd-test-file", "", 0, 0600);
	assert_int_equal(limits_device_find(file, &rule, &err), -ENODEV);
	assert_int_equal(unlink(file), 0);
	assert_int_equal(rule.type, 0);
}

static void test_default_devices(void **state)
{
	static const char *const paths[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
		"/dev/urandom", "/dev/tty", "/dev/ptmx"};
	const stepd_device_rule_t *rules;
	stepd_device_rule_t rule;
	struct stat st;
	size_t n, i, j;

	(void)state;
	rules = limits_default_devices(&n);
	for (i = 0; i < ARRAY_SIZE(paths); i++) {
		if (stat(paths[i], &st) < 0)
			continue; /* a container may lack one */
		rule = (stepd_device_rule_t){
			.type = 'c', .major = major(st.st_rdev), .minor = minor(st.st_rdev)};
		for (j = 0; j < n; j++) {
			if (rules[j].type == rule.type && rules[j].major == rule.major &&
				(rules[j].minor == rule.minor ||
					rules[j].minor == STEPD_DEVICE_ANY))
				break;
		}
		if (j == n)
			fail_msg("%s is not in the list", paths[i]);
	}
	for (j = 0; j < n; j++) /* memory, disks and ports are not */
		assert_true(rules[j].type == 'c' && rules[j].major != 4 &&
			!(rules[j].major == 1 && rules[j].minor < 3) &&
			!(rules[j].major == 1 && rules[j].minor == 4));
}

/* ---- application -------------------------------------------------------------------------- */

struct rig {
	char *dir, *calls, *messages;
	struct proctrack *pt;
	struct log log;
	struct limits_target target;
};

static int rig_open(void **state)
{
	const char *top = getenv("top_builddir");
	struct rig *rig = calloc(1, sizeof(*rig));
	_cleanup_free_ char *plugins = NULL;
	struct err err = ERR_INIT;

	plugins = scratch_path(top ? top : ".", "tests/lib/plugins");
	rig->dir = scratch_make();
	rig->calls = scratch_path(rig->dir, "calls");
	rig->messages = scratch_path(rig->dir, "messages");
	(void)setenv("LIMITER_LOG", rig->calls, 1);
	(void)unsetenv("LIMITER_REFUSES");
	if (proctrack_open(plugins, "limiter", &rig->pt, &err) < 0)
		fail_msg("%s", err.text);
	rig->log = (struct log){.fd = open(rig->messages, O_CREAT | O_RDWR | O_CLOEXEC, 0600),
		.most = LOG_LEVEL_WARNING,
		.ident = "t"};
	rig->target = (struct limits_target){
		.pt = rig->pt, .cont_id = 7, .where = "limits", .log = &rig->log};
	*state = rig;
	return 0;
}

static int rig_close(void **state)
{
	struct rig *rig = *state;

	(void)proctrack_close(rig->pt);
	(void)close(rig->log.fd);
	scratch_remove(rig->dir);
	free(rig->dir);
	free(rig->calls);
	free(rig->messages);
	free(rig);
	return 0;
}

static void file_is(const char *path, const char *wanted)
{
	_cleanup_free_ char *text = NULL;

	if (fs_read(AT_FDCWD, path, 65536, &text, NULL) < 0)
		text = strdup("");
	assert_string_equal(text, wanted);
}

static int apply(
	struct rig *rig, const char *text, const uint32_t *ranks, size_t n, struct err *err)
{
	_cleanup_limits_ struct limits limits = {0};

	good(text, &limits);
	return limits_apply(&rig->target, &limits, ranks, n, err);
}

static void test_each_is_applied(void **state)
{
	struct rig *rig = *state;
	struct err err = ERR_INIT;

	assert_int_equal(apply(rig,
				 "{'cpuset_cpus': 'max', 'pids_max': 5, 'memory_max_bytes': '1G',"
				 " 'memory_oom_group': true, 'cpuset_mems': '0'}",
				 NULL, 0, &err),
		0);
	file_is(rig->calls,
		"-1: 0=1073741824 of 7\n"
		"-1: 3=1 of 7\n"
		"-1: 4=5 of 7\n"
		"-1: 7=0 '' of 7\n"
		"-1: 8=0 '0' of 7\n");
	file_is(rig->messages, "");
}

static void test_each_task(void **state)
{
	static const uint32_t ranks[] = {4, 2};
	struct rig *rig = *state;
	struct err err = ERR_INIT;

	assert_int_equal(apply(rig, "{'pids_max': 'max', 'cpu_max': 1.5}", ranks, 2, &err), 0);
	file_is(rig->calls,
		"4: 4=-1 of 7\n"
		"2: 4=-1 of 7\n"
		"4: 5=1500 of 7\n"
		"2: 5=1500 of 7\n");
}

static void test_nothing_is_applied(void **state)
{
	struct rig *rig = *state;
	struct err err = ERR_INIT;

	assert_int_equal(apply(rig, "{}", NULL, 0, &err), 0);
	file_is(rig->calls, "");
}

static void test_strict(void **state)
{
	static const uint32_t ranks[] = {0, 1};
	struct rig *rig = *state;
	struct err err = ERR_INIT;

	(void)setenv("LIMITER_REFUSES", "0x10", 1);
	assert_int_equal(apply(rig, "{'memory_high_bytes': '1G', 'pids_max': 5, 'cpu_weight': 5}",
				 ranks, 2, &err),
		-EOPNOTSUPP);
	assert_string_equal(err.text, "limits.pids_max: this kernel has no such file");
	file_is(rig->calls, "0: 1=1073741824 of 7\n1: 1=1073741824 of 7\n0: 4=5 of 7\n");
	file_is(rig->messages, "");
}

/* One warning for a limit, not one for each task; the others are applied. */
static void test_best_effort(void **state)
{
	static const uint32_t ranks[] = {0, 1};
	struct rig *rig = *state;
	struct err err = ERR_INIT;

	(void)setenv("LIMITER_REFUSES", "0x12", 1);
	rig->target.mode = LIMITS_BEST_EFFORT;
	rig->target.where = "task_limits";
	assert_int_equal(apply(rig, "{'memory_high_bytes': '1G', 'pids_max': 5, 'cpu_weight': 9}",
				 ranks, 2, &err),
		0);
	file_is(rig->calls, "0: 1=1073741824 of 7\n0: 4=5 of 7\n0: 6=9 of 7\n1: 6=9 of 7\n");
	file_is(rig->messages,
		"t: warning: task_limits.memory_high_bytes: this kernel has no such file, ignoring\n"
		"t: warning: task_limits.pids_max: this kernel has no such file, ignoring\n");
}

/* Of a document: the step's, all tasks', then those of single tasks, which are on this node. */
static struct spec *spec_of(const char *text)
{
	_cleanup_free_ char *json = strdup(text);
	struct err err = ERR_INIT;
	struct spec *spec = NULL;
	char *p;

	for (p = json; *p; p++) {
		if (*p == '\'')
			*p = '"';
	}
	if (spec_from_text(json, strlen(json), &spec, &err) < 0)
		fail_msg("%s", err.text);
	return spec;
}

static void test_spec_is_applied(void **state)
{
	_cleanup_spec_ struct spec *none = spec_of("{'argv': ['x'], 'tasks': [{'rank': 0}]}");
	_cleanup_spec_ struct spec *spec = spec_of(
		"{'argv': ['x'], 'ntasks': 3, 'ranks': [2, 0], 'node': {'count': 2},"
		" 'limits': {'pids_max': 9}, 'task_limits': {'pids_max': 8}, 'tasks': ["
		" {'rank': 1, 'limits': {'pids_max': 1}}, {'rank': 2, 'limits': {'pids_max': 7}}]}");
	struct rig *rig = *state;
	struct err err = ERR_INIT;

	assert_false(limits_are_given(none));
	assert_true(limits_are_given(spec));
	assert_int_equal(limits_apply_spec(spec, rig->pt, 7, &rig->log, &err), 0);
	file_is(rig->calls, "-1: 4=9 of 7\n2: 4=8 of 7\n0: 4=8 of 7\n2: 4=7 of 7\n");
	(void)setenv("LIMITER_REFUSES", "0x10", 1);
	spec->limits.set = spec->task_limits.set = 0;
	assert_int_equal(limits_apply_spec(spec, rig->pt, 7, &rig->log, &err), -EOPNOTSUPP);
	assert_string_equal(err.text, "tasks[1].limits.pids_max: this kernel has no such file");
}

#define DEFAULTS "c1:3/7 c1:5/7 c1:7/7 c1:8/7 c1:9/7 c5:0/7 c5:1/7 c5:2/7 c136:-1/7"

static void test_devices_become_numbers(void **state)
{
	struct rig *rig = *state;
	struct err err = ERR_INIT;

	assert_int_equal(apply(rig,
				 "{'devices': [{'device': '/dev/null', 'access': 'r'},"
				 " {'device': 'c 195:*', 'access': 'rw'}]}",
				 NULL, 0, &err),
		0);
	assert_int_equal(apply(rig, "{'devices': []}", NULL, 0, &err), 0);
	assert_int_equal(apply(rig, "{'devices': 'max'}", NULL, 0, &err), 0);
	file_is(rig->calls,
		"-1: 10=0 " DEFAULTS " c1:3/1 c195:-1/3 of 7\n"
		"-1: 10=0 " DEFAULTS " of 7\n"
		"-1: 10=0 " DEFAULTS " a-1:-1/7 of 7\n");
}

static void test_absent_device(void **state)
{
	static const char text[] =
		"{'devices': [{'device': '/dev/nosuch'}, {'device': 'c 195:0'}]}";
	struct rig *rig = *state;
	struct err err = ERR_INIT;

	assert_int_equal(apply(rig, text, NULL, 0, &err), -ENOENT);
	assert_string_equal(err.text,
		"limits.devices: look up the device '/dev/nosuch': No such file or directory");
	file_is(rig->calls, "");
	rig->target.mode = LIMITS_BEST_EFFORT;
	assert_int_equal(apply(rig, text, NULL, 0, &err), 0);
	file_is(rig->calls, "-1: 10=0 " DEFAULTS " c195:0/7 of 7\n");
	file_is(rig->messages,
		"t: warning: limits.devices: look up the device '/dev/nosuch': No such file or "
		"directory, ignoring\n");
}

static void test_disks(void **state)
{
	struct rig *rig = *state;
	struct err err = ERR_INIT;

	assert_int_equal(apply(rig,
				 "{'io_max': [{'device': '8:0', 'read_bytes_per_sec': '1M'},"
				 " {'device': '8:16', 'reads_per_sec': 3}]}",
				 NULL, 0, &err),
		0);
	assert_int_equal(apply(rig, "{'io_max': [{'device': '/dev/null', 'reads_per_sec': 3}]}",
				 NULL, 0, &err),
		-ENOTBLK);
	assert_string_equal(err.text, "limits.io_max: '/dev/null' is not a block device");
	rig->target.mode = LIMITS_BEST_EFFORT;
	assert_int_equal(apply(rig, "{'io_max': [{'device': '/dev/null', 'reads_per_sec': 3}]}",
				 NULL, 0, &err),
		0);
	assert_int_equal(apply(rig, "{'io_max': 'max'}", NULL, 0, &err), 0);
	file_is(rig->calls, "-1: 9=0 8:0 1048576 8:16 -1 of 7\n-1: 9=0 of 7\n");
	file_is(rig->messages,
		"t: warning: limits.io_max: '/dev/null' is not a block device, ignoring\n");
}

#define WITH_RIG(test_) cmocka_unit_test_setup_teardown(test_, rig_open, rig_close)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_io),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_wrong_values),
		cmocka_unit_test(test_every_field_has_a_wrong_value),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_modes),
		cmocka_unit_test(test_device_numbers),
		cmocka_unit_test(test_device_nodes),
		cmocka_unit_test(test_device_traps),
		cmocka_unit_test(test_default_devices),
		WITH_RIG(test_each_is_applied),
		WITH_RIG(test_each_task),
		WITH_RIG(test_nothing_is_applied),
		WITH_RIG(test_strict),
		WITH_RIG(test_best_effort),
		WITH_RIG(test_spec_is_applied),
		WITH_RIG(test_devices_become_numbers),
		WITH_RIG(test_absent_device),
		WITH_RIG(test_disks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
