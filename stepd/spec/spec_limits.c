/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The limits of a step and of its tasks, a row each in the order of enum stepd_limit: name, range,
 * how it is read. The options of "stepd run" make what stands here, and stepd-limits(7) describes
 * it; tests hold them together.
 */
#include <fcntl.h>
#include <jansson.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "stepd/base/bitset.h"
#include "stepd/base/parse.h"
#include "stepd/spec/limits.h"
#include "stepd/spec/spec_json.h"

#define BYTES_MAX      (INT64_C(1) << 60)
#define MEMORY_MIN     (INT64_C(1) << 20) /* no program starts with less */
#define PIDS_MAX       4194304            /* PID_MAX_LIMIT of the kernel */
#define CPU_LEAST      0.001              /* the plugin contract counts thousandths */
#define WEIGHT_DEFAULT 100
#define ENTRIES_MAX    256
#define LIST_MAX       4096 /* bytes that the kernel accepts in one write */

static bool means_none(const json_t *value)
{
	const char *text = json_string_value(value);

	return text && (strcmp(text, "max") == 0 || strcmp(text, "none") == 0);
}

/* ---- numbers ------------------------------------------------------------------------------- */

/* A number in the field's range, a size if the field has any, or "max". */
static int get_number(const struct spec_field *field, const struct spec_at *at, const json_t *value,
	bool is_size, uint64_t *ret_n, struct err *err)
{
	const char *text = json_string_value(value);
	uint64_t n = 0;
	int64_t number = 0;
	int r;

	if (means_none(value)) {
		*ret_n = STEPD_LIMIT_NONE;
		return 0;
	}
	if (!text) {
		r = spec_get_int(at, value, field->least, field->most, &number, err);
		if (r == 0)
			*ret_n = (uint64_t)number;
		return r;
	}
	if (!is_size)
		return spec_bad(err, at, "'%.200s' is neither a number nor \"max\"", text);
	r = parse_size(text, 0, &n);
	if (r == -EINVAL)
		return spec_bad(err, at,
			"'%.200s' is neither a number, nor a size with its unit such as \"512M\" or "
			"\"2G\", nor \"max\"",
			text);
	if (r < 0 || n < (uint64_t)field->least || n > (uint64_t)field->most)
		return spec_bad(err, at, "'%.200s' is not in the range %lld to %lld bytes", text,
			(long long)field->least, (long long)field->most);
	*ret_n = n;
	return 0;
}

int spec_row_limit_size(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	return get_number(field, at, value, true, (uint64_t *)((char *)into + field->offset), err);
}

int spec_row_limit_count(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	return get_number(field, at, value, false, (uint64_t *)((char *)into + field->offset), err);
}

/* A weight can't be removed: the kernel's default is written instead. */
int spec_row_limit_weight(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	uint64_t *weight = (uint64_t *)((char *)into + field->offset);
	int r = get_number(field, at, value, false, weight, err);

	if (r == 0 && *weight == STEPD_LIMIT_NONE)
		*weight = WEIGHT_DEFAULT;
	return r;
}

int spec_row_limit_bool(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	if (!json_is_boolean(value))
		return spec_bad(err, at, "must be true or false");
	*(uint64_t *)((char *)into + field->offset) = json_is_true(value);
	return 0;
}

/* A fractional number of CPUs, as number or text. */
int spec_row_limit_cpus(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	uint64_t *limit = (uint64_t *)((char *)into + field->offset);
	const char *text = json_string_value(value);
	double cpus = json_number_value(value);
	char *end = NULL;

	if (means_none(value)) {
		*limit = STEPD_LIMIT_NONE;
		return 0;
	}
	if (text && *text && !text[strspn(text, "0123456789.")])
		cpus = strtod(text, &end);
	if (!json_is_number(value) && (!end || *end))
		return spec_bad(err, at,
			"%s%.200s%s neither a number of CPUs such as 1.5 nor \"max\"",
			text ? "'" : "", text ? text : "", text ? "' is" : "is");
	if (!(cpus >= CPU_LEAST && cpus <= SPEC_CPUS_MAX))
		return spec_bad(err, at, "%g is not in the range %g to %u CPUs", cpus, CPU_LEAST,
			SPEC_CPUS_MAX);
	*limit = (uint64_t)(cpus * 1000 + 0.5);
	return 0;
}

/* ---- lists --------------------------------------------------------------------------------- */

/* "0-3,8"; field->most is the largest number. */
int spec_row_limit_list(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	char **member = (char **)((char *)into + field->offset);
	_cleanup_bitset_ struct bitset set = {0};
	const char *text = NULL;
	int r = spec_get_text(at, value, &text, err);

	if (r < 0)
		return r;
	if (means_none(value))
		text = "";
	else if (!*text)
		return spec_bad(err, at, "is empty");
	if (bitset_init(&set, (size_t)field->most + 1) < 0)
		return spec_no_memory(err);
	r = bitset_add_list(&set, text);
	if (r == -ENOMEM)
		return spec_no_memory(err);
	if (r == -ERANGE)
		return spec_bad(
			err, at, "'%.200s' has a number above %lld", text, (long long)field->most);
	if (r < 0)
		return spec_bad(
			err, at, "'%.200s' is neither a list such as \"0-3,8\" nor \"max\"", text);
	if (strlen(text) >= LIST_MAX)
		return spec_bad(err, at, "has %zu bytes, more than %d", strlen(text), LIST_MAX - 1);
	*member = strdup(text);
	return *member ? 0 : spec_no_memory(err);
}

/* ---- devices ------------------------------------------------------------------------------- */

/* Reads an array of objects. *ret_entries has as many entries, all zero. */
static int make_entries(const struct spec_at *at, const json_t *value, size_t size,
	void **ret_entries, struct err *err)
{
	int r = spec_check_array(at, value, ENTRIES_MAX, err);

	if (r < 0)
		return r;
	*ret_entries = calloc(json_array_size(value) + 1, size);
	return *ret_entries ? 0 : spec_no_memory(err);
}

static int read_io(
	struct limits_io *io, const struct spec_at *at, const json_t *value, struct err *err)
{
	int r;

	io->limit = (stepd_io_limit_t){
		.read_bytes_per_sec = STEPD_LIMIT_NONE,
		.write_bytes_per_sec = STEPD_LIMIT_NONE,
		.reads_per_sec = STEPD_LIMIT_NONE,
		.writes_per_sec = STEPD_LIMIT_NONE,
	};
	r = spec_read_object(SPEC_TABLE_IO, io, at, value, err);
	if (r == 0 && json_object_size(value) < 2)
		return spec_bad(err, at, "limits nothing; give read_bytes_per_sec or another");
	return r;
}

int spec_row_limit_io(_unused_ const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct limits *limits = into;
	void *entries = NULL;
	int r = 0;

	if (!means_none(value))
		r = make_entries(at, value, sizeof(*limits->io), &entries, err);
	limits->io = entries;
	if (r == 0 && entries && json_array_size(value) == 0)
		return spec_bad(err, at, "is empty; \"max\" takes the limit away");
	for (; r == 0 && limits->io_count < json_array_size(value); limits->io_count++)
		r = read_io(&limits->io[limits->io_count], SPEC_AT_INDEX(at, limits->io_count),
			json_array_get(value, limits->io_count), err);
	return r;
}

int spec_row_limit_access(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	static const char letters[] = "rwm"; /* in the order of enum stepd_device_access */
	uint32_t *access = (uint32_t *)((char *)into + field->offset);
	const char *text = NULL, *p, *letter;
	int r = spec_get_text(at, value, &text, err);

	if (r < 0)
		return r;
	*access = 0;
	if (strcmp(text, "none") == 0)
		return 0;
	for (p = text; *p; p++) {
		letter = strchr(letters, *p);
		if (!letter || *access & 1u << (letter - letters))
			break;
		*access |= 1u << (letter - letters);
	}
	if (*p || p == text)
		return spec_bad(err, at,
			"'%.200s' is neither one or more of the letters rwm nor \"none\"", text);
	return 0;
}

int spec_row_limit_devices(_unused_ const struct spec_field *field, void *into,
	const struct spec_at *at, const json_t *value, struct err *err)
{
	struct limits *limits = into;
	void *entries = NULL;
	const char *text = json_string_value(value);
	int r = 0;

	/* Not "none": it could be understood as no device. */
	limits->all_devices = text && strcmp(text, "max") == 0;
	if (text && !limits->all_devices)
		return spec_bad(err, at, "'%.200s' is neither an array nor \"max\"", text);
	if (!text)
		r = make_entries(at, value, sizeof(*limits->devices), &entries, err);
	limits->devices = entries;
	for (; r == 0 && limits->devices_count < json_array_size(value); limits->devices_count++) {
		limits->devices[limits->devices_count].access =
			STEPD_DEVICE_READ | STEPD_DEVICE_WRITE | STEPD_DEVICE_MKNOD;
		r = spec_read_object(SPEC_TABLE_DEVICE, &limits->devices[limits->devices_count],
			SPEC_AT_INDEX(at, limits->devices_count),
			json_array_get(value, limits->devices_count), err);
	}
	return r;
}

static const char *disk_problem(const char *text)
{
	uint32_t major, minor;

	if (limits_device_is_path(text) || limits_device_parse_numbers(text, &major, &minor) == 0)
		return NULL;
	return "is neither a path below /dev nor numbers such as \"8:0\"";
}

static const char *device_problem(const char *text)
{
	stepd_device_rule_t rule;

	if (limits_device_is_path(text) || limits_device_parse(text, &rule) == 0)
		return NULL;
	return "is neither a path below /dev nor numbers such as \"c 195:*\"";
}

/* ---- tables -------------------------------------------------------------------------------- */

#define DEVICE_NAME_MAX 4095
#define NUMBER(limit_)  offsetof(struct limits, number[STEPD_LIMIT_##limit_])

const struct spec_field spec_limit_fields[STEPD_LIMIT_COUNT] = {
	[STEPD_LIMIT_MEMORY_MAX] = {.name = "memory_max_bytes",
		.parse = spec_row_limit_size,
		.offset = NUMBER(MEMORY_MAX),
		.least = MEMORY_MIN,
		.most = BYTES_MAX,
		.doc = "Memory. Processes that need more are killed, if none can be reclaimed."},
	[STEPD_LIMIT_MEMORY_HIGH] = {.name = "memory_high_bytes",
		.parse = spec_row_limit_size,
		.offset = NUMBER(MEMORY_HIGH),
		.least = MEMORY_MIN,
		.most = BYTES_MAX,
		.doc = "Memory above which allocations are slowed down and memory is reclaimed."},
	[STEPD_LIMIT_MEMORY_SWAP_MAX] = {.name = "memory_swap_max_bytes",
		.parse = spec_row_limit_size,
		.offset = NUMBER(MEMORY_SWAP_MAX),
		.most = BYTES_MAX,
		.doc = "Swap space, in addition to the memory."},
	[STEPD_LIMIT_MEMORY_OOM_GROUP] = {.name = "memory_oom_group",
		.parse = spec_row_limit_bool,
		.offset = NUMBER(MEMORY_OOM_GROUP),
		.doc = "Whether an OOM kill takes all processes at once."},
	[STEPD_LIMIT_PIDS_MAX] = {.name = "pids_max",
		.parse = spec_row_limit_count,
		.offset = NUMBER(PIDS_MAX),
		.least = 1,
		.most = PIDS_MAX,
		.doc = "Processes and threads."},
	[STEPD_LIMIT_CPU_MAX] = {.name = "cpu_max",
		.parse = spec_row_limit_cpus,
		.offset = NUMBER(CPU_MAX),
		.form = "cpus",
		.doc = "CPU time each second, in CPUs, 0.001 to 65536: 1.5 is one and a half."},
	[STEPD_LIMIT_CPU_WEIGHT] = {.name = "cpu_weight",
		.parse = spec_row_limit_weight,
		.offset = NUMBER(CPU_WEIGHT),
		.least = 1,
		.most = 10000,
		.doc = "Share of the CPU time among the competitors. `max` is the kernel's default, "
		       "100."},
	[STEPD_LIMIT_CPUSET_CPUS] = {.name = "cpuset_cpus",
		.parse = spec_row_limit_list,
		.offset = offsetof(struct limits, cpuset_cpus),
		.most = SPEC_CPUS_MAX - 1,
		.form = "list",
		.doc = "The CPUs to run on, such as `\"0-3,8\"`."},
	[STEPD_LIMIT_CPUSET_MEMS] = {.name = "cpuset_mems",
		.parse = spec_row_limit_list,
		.offset = offsetof(struct limits, cpuset_mems),
		.most = SPEC_NUMA_NODES_MAX - 1,
		.form = "list",
		.doc = "The NUMA nodes to get memory from, such as `\"0-1\"`."},
	[STEPD_LIMIT_IO_MAX] = {.name = "io_max",
		.parse = spec_row_limit_io,
		.form = "io_max",
		.doc = "Rates of reading and writing disks: 1 to 256 entries, one for each disk; "
		       "see [ENTRY OF IO_MAX]. Other disks are not limited."},
	[STEPD_LIMIT_DEVICES] = {.name = "devices",
		.parse = spec_row_limit_devices,
		.form = "devices",
		.doc = "The devices that may be opened in addition to the default ones: at most 256 "
		       "entries; see [ENTRY OF DEVICES]. With an empty array only the default ones "
		       "may be opened."},
};

#define RATE(member_) offsetof(struct limits_io, limit.member_)

const struct spec_field spec_io_fields[SPEC_IO_FIELDS] = {
	{.name = "device",
		.parse = spec_row_text,
		.required = true,
		.offset = offsetof(struct limits_io, name),
		.most = DEVICE_NAME_MAX,
		.problem = disk_problem,
		.form = "disk",
		.doc = "The disk, not a partition: `\"/dev/sda\"` or `\"8:0\"`."},
	{.name = "read_bytes_per_sec",
		.parse = spec_row_limit_size,
		.offset = RATE(read_bytes_per_sec),
		.least = 1,
		.most = BYTES_MAX,
		.doc = "Bytes read each second.",
		.unset = "not limited"},
	{.name = "write_bytes_per_sec",
		.parse = spec_row_limit_size,
		.offset = RATE(write_bytes_per_sec),
		.least = 1,
		.most = BYTES_MAX,
		.doc = "Bytes written each second.",
		.unset = "not limited"},
	{.name = "reads_per_sec",
		.parse = spec_row_limit_count,
		.offset = RATE(reads_per_sec),
		.least = 1,
		.most = UINT32_MAX,
		.doc = "Reads each second.",
		.unset = "not limited"},
	{.name = "writes_per_sec",
		.parse = spec_row_limit_count,
		.offset = RATE(writes_per_sec),
		.least = 1,
		.most = UINT32_MAX,
		.doc = "Writes each second.",
		.unset = "not limited"},
};

const struct spec_field spec_device_fields[SPEC_DEVICE_FIELDS] = {
	{.name = "device",
		.parse = spec_row_text,
		.required = true,
		.offset = offsetof(struct limits_device, name),
		.most = DEVICE_NAME_MAX,
		.problem = device_problem,
		.form = "device_node",
		.doc = "A device node below `/dev`, such as `\"/dev/nvidia0\"`, or its type "
		       "and numbers: `\"c 195:*\"`, with `c`, `b` or `a` for both, and `*` for "
		       "any number."},
	{.name = "access",
		.parse = spec_row_limit_access,
		.offset = offsetof(struct limits_device, access),
		.form = "access",
		.doc = "The permitted access, one or more of the letters `r` (read), `w` (write) "
		       "and `m` (make a node). With `none` there is none, whatever other entries "
		       "permit.",
		.unset = "`\"rwm\"`"},
};

/* ---- entry points -------------------------------------------------------------------------- */

int spec_row_limits(const struct spec_field *field, void *into, const struct spec_at *at,
	const json_t *value, struct err *err)
{
	struct limits *limits = (struct limits *)((char *)into + field->offset);
	int i, r = spec_read_object(SPEC_TABLE_LIMITS, limits, at, value, err);

	for (i = 0; r == 0 && i < STEPD_LIMIT_COUNT; i++) {
		if (json_object_get(value, spec_limit_fields[i].name))
			limits->set |= 1u << i;
	}
	return r;
}

void limits_clear(struct limits *limits)
{
	size_t i;

	free(limits->cpuset_cpus);
	free(limits->cpuset_mems);
	for (i = 0; i < limits->io_count; i++)
		free(limits->io[i].name);
	free(limits->io);
	for (i = 0; i < limits->devices_count; i++)
		free(limits->devices[i].name);
	free(limits->devices);
	*limits = (struct limits){0};
}

int limits_from_json(
	const char *where, const json_t *doc, struct limits *ret_limits, struct err *err)
{
	static const struct spec_field whole = {.parse = spec_row_limits};
	_cleanup_limits_ struct limits limits = {0};
	int r = spec_row_limits(&whole, &limits, SPEC_AT(NULL, where), doc, err);

	if (r < 0)
		return r;
	*ret_limits = limits;
	limits = (struct limits){0};
	return 0;
}

/* ==== devices by name and by number ========================================================= */

#define DEV       "/dev/"
#define MAJOR_MAX 4095u    /* MINORBITS of the kernel is 20 */
#define MINOR_MAX 1048575u /* the limit of 32 bits */

/* ---- by number ----------------------------------------------------------------------------- */

static int parse_number(const char *text, bool any, uint32_t most, uint32_t *ret_n)
{
	if (any && strcmp(text, "*") == 0) {
		*ret_n = STEPD_DEVICE_ANY;
		return 0;
	}
	return parse_u32(text, 0, most, ret_n);
}

/* "MAJOR:MINOR", with any either as "*". */
static int parse_numbers(const char *text, bool any, uint32_t *ret_major, uint32_t *ret_minor)
{
	const char *colon = strchr(text, ':');
	uint32_t major = 0, minor = 0;
	char first[16];
	int r;

	if (!colon || (size_t)(colon - text) >= sizeof(first))
		return -EINVAL;
	memcpy(first, text, (size_t)(colon - text));
	first[colon - text] = '\0';
	r = parse_number(first, any, MAJOR_MAX, &major);
	if (r == 0)
		r = parse_number(colon + 1, any, MINOR_MAX, &minor);
	if (r < 0)
		return r;
	*ret_major = major;
	*ret_minor = minor;
	return 0;
}

int limits_device_parse_numbers(const char *text, uint32_t *ret_major, uint32_t *ret_minor)
{
	return parse_numbers(text, false, ret_major, ret_minor);
}

int limits_device_parse(const char *text, stepd_device_rule_t *ret_rule)
{
	int r;

	if (!text[0] || !strchr("abc", text[0]) || text[1] != ' ')
		return -EINVAL;
	r = parse_numbers(text + 2, true, &ret_rule->major, &ret_rule->minor);
	if (r == 0)
		ret_rule->type = text[0];
	return r;
}

/* ---- by name ------------------------------------------------------------------------------- */

bool limits_device_is_path(const char *text)
{
	return strncmp(text, DEV, strlen(DEV)) == 0 && text[strlen(DEV)];
}

static int open_node(int dev_fd, const char *name, uint64_t resolve)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | resolve,
	};
	int fd = (int)syscall(SYS_openat2, dev_fd, name, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

/* A device node may be anywhere below /dev, since only root creates nodes; a link only on /dev's
 * own file system, where udev creates those in disk/by-id and the like: not in /dev/shm, where
 * any user can, nor outside /dev. */
static int open_device(const char *path)
{
	_cleanup_close_ int dev_fd = open(DEV, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd;

	if (dev_fd < 0)
		return -errno;
	fd = open_node(dev_fd, path + strlen(DEV), RESOLVE_NO_SYMLINKS);
	return fd == -ELOOP ? open_node(dev_fd, path + strlen(DEV), RESOLVE_NO_XDEV) : fd;
}

int limits_device_find(const char *path, stepd_device_rule_t *ret_rule, struct err *err)
{
	_cleanup_close_ int fd = open_device(path);
	struct stat st;

	if (fd == -EXDEV)
		return err_set_text(err, fd,
			"'%s' leads out of /dev or over a link on another file system; give the device "
			"itself",
			path);
	if (fd == -ENOSYS) /* before Linux 5.6 */
		return err_set_text(err, fd,
			"'%s' can't be looked up safely by this kernel; give its numbers", path);
	if (fd < 0)
		return err_set(err, fd, "look up the device '%s'", path);
	if (fstat(fd, &st) < 0)
		return err_set(err, -errno, "look up the device '%s'", path);
	if (!S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode))
		return err_set_text(err, -ENODEV, "'%s' is not a device", path);
	ret_rule->type = S_ISCHR(st.st_mode) ? 'c' : 'b';
	ret_rule->major = major(st.st_rdev);
	ret_rule->minor = minor(st.st_rdev);
	return 0;
}

/* ---- always allowed ------------------------------------------------------------------------ */

/* Numbers are those of Documentation/admin-guide/devices.txt of Linux. The usual devices of
 * containers: shells, scripts and terminals need them, and none of them is hardware. */
const stepd_device_rule_t *limits_default_devices(size_t *ret_count)
{
	enum {
		ALL = STEPD_DEVICE_READ | STEPD_DEVICE_WRITE | STEPD_DEVICE_MKNOD,
	};
	static const stepd_device_rule_t rules[] = {
		{.type = 'c', .major = 1, .minor = 3, .access = ALL},                  /* null */
		{.type = 'c', .major = 1, .minor = 5, .access = ALL},                  /* zero */
		{.type = 'c', .major = 1, .minor = 7, .access = ALL},                  /* full */
		{.type = 'c', .major = 1, .minor = 8, .access = ALL},                  /* random */
		{.type = 'c', .major = 1, .minor = 9, .access = ALL},                  /* urandom */
		{.type = 'c', .major = 5, .minor = 0, .access = ALL},                  /* tty */
		{.type = 'c', .major = 5, .minor = 1, .access = ALL},                  /* console */
		{.type = 'c', .major = 5, .minor = 2, .access = ALL},                  /* ptmx */
		{.type = 'c', .major = 136, .minor = STEPD_DEVICE_ANY, .access = ALL}, /* pts */
	};

	*ret_count = ARRAY_SIZE(rules);
	return rules;
}
