/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/gres.h"

#include <assert.h>
#include <jansson.h>
#include <string.h>

#include "contrib/slurm/decision.h"
#include "stepd/base/bitset.h"

#define GRES_STATE  0x438a34d4u
#define INDEX_MAX   65536u
#define DEVICES_MAX 256u /* entries of a list in a spec */

/* ---- the credential's records -------------------------------------------------------------- */

/* What one has of a node. */
struct gres_record {
	uint32_t plugin;
	struct slurm_bits devices;
};

#define RECORD(member_) UNPACK_KEEP(struct gres_record, member_)

/* clang-format off */
static const struct unpack_row record_rows[] = {
	FIELD("gres plugin_id", U32, .keep = RECORD(plugin)),
	FIELD("gres cpus_per_gres", U16),
	FIELD("gres flags", U16),
	FIELD("gres per_job", U64),
	FIELD("gres per_node", U64),
	FIELD("gres per_socket", U64),
	FIELD("gres per_task", U64),
	FIELD("gres mem_per_gres", U64),
};

static const struct unpack_row job_rows[] = {
	FIELD("gres ntasks_per_gres", U16),
	FIELD("gres total", U64),
	FIELD("gres type", TEXT),
};

static const struct unpack_row step_rows[] = {
	FIELD("gres total", U64),
	FIELD("gres type", TEXT, .since = SLURM_24_05),
};
/* clang-format on */

/* Of each node one; that of the node is kept. */
static struct slurm_bits unpack_node_bits(struct unpack *u, uint32_t nodes, uint32_t node)
{
	struct slurm_bits bits, found = {0};
	uint32_t i;

	for (i = 0; i < nodes && !u->bad; i++) {
		bits = unpack_bits(u);
		if (i == node)
			found = bits;
	}
	return found;
}

/* From 23.11 on: for each node a flag, and the shares of each device behind it. */
static void skip_shares(struct unpack *u, uint32_t nodes)
{
	if (u->release < SLURM_23_11)
		return;
	for (; nodes > 0 && !u->bad; nodes--) {
		if (unpack_u8(u))
			unpack_skip(u, UNPACK_A64);
	}
}

static void unpack_record(struct unpack *u, bool of_step, uint32_t node, struct gres_record *record)
{
	uint32_t nodes;

	*record = (struct gres_record){0};
	if (unpack_u32(u) != GRES_STATE)
		unpack_fail(u, "not a GRES record");
	unpack_rows(u, record_rows, ARRAY_SIZE(record_rows), record);
	if (of_step)
		unpack_rows(u, step_rows, ARRAY_SIZE(step_rows), NULL);
	else
		unpack_rows(u, job_rows, ARRAY_SIZE(job_rows), NULL);
	nodes = unpack_u32(u);
	if (of_step)
		unpack_skip(u, UNPACK_BITS);
	if (unpack_u8(u))
		unpack_skip(u, UNPACK_A64);
	if (unpack_u8(u))
		record->devices = unpack_node_bits(u, nodes, node);
	skip_shares(u, nodes);
	if (of_step)
		return;
	if (unpack_u8(u))
		(void)unpack_node_bits(u, nodes, nodes);
	if (unpack_u8(u))
		unpack_skip(u, UNPACK_A64);
	skip_shares(u, nodes);
}

struct gres_records gres_unpack_records(struct unpack *u, bool of_step)
{
	struct gres_records records = {
		.n = unpack_u16(u), .release = u->release, .of_step = of_step};
	size_t begin = u->at;
	struct gres_record record;
	uint16_t i;

	for (i = 0; i < records.n && !u->bad; i++)
		unpack_record(u, of_step, 0, &record);
	if (u->bad)
		return (struct gres_records){0};
	records.bytes = u->data + begin;
	records.size = u->at - begin;
	return records;
}

/* ---- the node's kinds ---------------------------------------------------------------------- */

enum kind_flags {
	KIND_COUNT_ONLY = 1u << 3, /* there is no plugin */
	KIND_ENV_NVML = 1u << 5,
	KIND_ENV_RSMI = 1u << 6,
	KIND_ENV_OPENCL = 1u << 7,
	KIND_ENV_ONEAPI = 1u << 11,
};

struct gres_kind {
	uint32_t flags, plugin;
	const char *name;
	uint32_t devices; /* so many follow */
	const uint8_t *bytes;
	size_t size;
	uint32_t env_flags; /* which variables the node's devices have */
};

struct gres_device {
	uint32_t index;  /* of several files with the same one they are one device */
	uint32_t number; /* at the end of its name */
	uint32_t type, major, minor;
	const char *unique_id;
};

/* Slurm's own plugins: what of them follows a kind's record. */
static const struct plugin_row {
	const char *name;
	bool env_flags, shares;
} plugins[] = {
	{"gpu", true, false},
	{"mps", false, true},
	{"nic", false, false},
	{"shard", true, true},
};

#define KIND(member_)   UNPACK_KEEP(struct gres_kind, member_)
#define DEVICE(member_) UNPACK_KEEP(struct gres_device, member_)

/* clang-format off */
static const struct unpack_row kind_rows[] = {
	FIELD("gres config_flags", U32, .keep = KIND(flags)),
	FIELD("gres name", TEXT, .keep = KIND(name)),
	FIELD("gres name_colon", TEXT),
	FIELD("gres name_colon_len", U32),
	FIELD("gres type", TEXT),
	FIELD("gres plugin_id", U32, .keep = KIND(plugin)),
	FIELD("gres total_cnt", U64),
};

static const struct unpack_row device_rows[] = {
	FIELD("gres index", U32, .keep = DEVICE(index)),
	FIELD("gres dev_num", U32, .keep = DEVICE(number)),
	FIELD("gres dev_type", U32, .keep = DEVICE(type)),
	FIELD("gres major", U32, .keep = DEVICE(major)),
	FIELD("gres minor", U32, .keep = DEVICE(minor)),
	FIELD("gres path", TEXT),
	FIELD("gres unique_id", TEXT, .keep = DEVICE(unique_id)),
};
/* clang-format on */

/* NULL: there is no such plugin, so nothing of it follows. */
static const struct plugin_row *find_plugin(const struct gres_kind *kind)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(plugins) && !(kind->flags & KIND_COUNT_ONLY); i++) {
		if (kind->name && strcmp(kind->name, plugins[i].name) == 0)
			return &plugins[i];
	}
	return NULL;
}

enum gres_use gres_find_use(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(plugins); i++) {
		if (strcmp(name, plugins[i].name) == 0)
			return plugins[i].shares ? GRES_USE_SHARED : GRES_USE_SERVED;
	}
	return GRES_USE_COUNTED;
}

static void unpack_kind(struct unpack *u, struct gres_kind *kind)
{
	const struct plugin_row *plugin;
	struct gres_device device;
	size_t begin;
	uint32_t i;

	*kind = (struct gres_kind){0};
	unpack_rows(u, kind_rows, ARRAY_SIZE(kind_rows), kind);
	plugin = find_plugin(kind);
	if (!plugin || u->bad)
		return;
	kind->devices = unpack_u32(u);
	begin = u->at;
	for (i = 0; i < kind->devices && !u->bad; i++)
		unpack_rows(u, device_rows, ARRAY_SIZE(device_rows), &device);
	kind->bytes = u->data + begin;
	kind->size = u->at - begin;
	if (plugin->env_flags)
		kind->env_flags = unpack_u32(u);
	if (plugin->shares)
		unpack_skip_bytes(u, (uint64_t)unpack_u32(u) * 2 * sizeof(uint64_t));
}

int gres_read_kinds(const void *data, size_t size, struct gres_kinds *ret_kinds, struct err *err)
{
	struct unpack u = {.data = data, .size = size, .release = SLURM_22_05};
	struct gres_kinds kinds = {.n = unpack_u32(&u)};
	struct gres_kind kind;
	uint32_t i;

	if (kinds.n > INT32_MAX)
		kinds.n = 0; /* it is -1 where slurmd has none */
	kinds.bytes = u.data + u.at;
	kinds.size = u.size - u.at;
	for (i = 0; i < kinds.n && !u.bad; i++)
		unpack_kind(&u, &kind);
	if (u.bad || u.at != u.size)
		return err_set_text(err, -EBADMSG,
			"the node's GRES are not those of release 22.05: %s at %s",
			u.bad ? u.bad : "more data than fields", u.field ? u.field : "their end");
	*ret_kinds = kinds;
	return 0;
}

static bool kinds_next(struct gres_kinds *rest, struct gres_kind *ret_kind)
{
	struct unpack u = {.data = rest->bytes, .size = rest->size, .release = SLURM_22_05};

	if (rest->n == 0)
		return false;
	unpack_kind(&u, ret_kind);
	assert(!u.bad);
	rest->n--;
	rest->bytes += u.at;
	rest->size -= u.at;
	return true;
}

static bool devices_next(struct gres_kind *rest, struct gres_device *ret_device)
{
	struct unpack u = {.data = rest->bytes, .size = rest->size, .release = SLURM_22_05};

	if (rest->devices == 0)
		return false;
	*ret_device = (struct gres_device){0};
	unpack_rows(&u, device_rows, ARRAY_SIZE(device_rows), ret_device);
	assert(!u.bad);
	rest->devices--;
	rest->bytes += u.at;
	rest->size -= u.at;
	return true;
}

/* ---- what the step has --------------------------------------------------------------------- */

static bool has_job_gres(const struct slurm_launch *l)
{
	return l->kind == SLURM_KIND_BATCH || l->kind == SLURM_KIND_INTERACTIVE;
}

/* A script, and a shell of salloc, have the job's. */
static const struct gres_records *get_records(const struct slurm_launch *l)
{
	return has_job_gres(l) ? &l->job_gres : &l->step_gres;
}

/* Adds what one record has. */
static int add_bits(const struct slurm_bits *bits, struct bitset *devices)
{
	_cleanup_bitset_ struct bitset of_record = {0};
	uint32_t bit;
	int r = bits->mask ? slurm_bits_read(bits, &of_record) : 0;

	if (r < 0 || !bits->mask)
		return r;
	for (bit = bitset_next(&of_record, 0); bit != BITSET_NONE;
		bit = bitset_next(&of_record, bit + 1)) {
		if (bit >= INDEX_MAX)
			return -ERANGE;
		(void)bitset_set(devices, bit);
	}
	return 0;
}

/* The devices of a kind that the step has on this node, of all types, by their indexes. */
static int find_devices(
	const struct slurm_init *init, const struct gres_kind *kind, struct bitset *devices)
{
	const struct gres_records *records = get_records(&init->launch);
	struct unpack u = {
		.data = records->bytes, .size = records->size, .release = records->release};
	struct gres_record record;
	uint32_t node = 0;
	uint16_t i;
	int r = records->n == 0
		? 0
		: slurm_launch_find_job_node(&init->launch, init->conf.node_name, &node);

	if (r == 0)
		r = bitset_init(devices, INDEX_MAX);
	for (i = 0; r == 0 && i < records->n; i++) {
		unpack_record(&u, records->of_step, node, &record);
		if (record.plugin == kind->plugin)
			r = add_bits(&record.devices, devices);
	}
	return r;
}

int gres_check(const struct slurm_init *init, struct err *err)
{
	struct gres_kinds rest = init->kinds;
	struct gres_kind kind;
	int r;

	while (kinds_next(&rest, &kind)) {
		_cleanup_bitset_ struct bitset devices = {0};
		const struct plugin_row *plugin = find_plugin(&kind);

		if (!plugin)
			continue;
		if (plugin->shares && get_records(&init->launch)->n > 0)
			return err_set_text(err, -EOPNOTSUPP,
				"devices are shared by '%s', which is not served", kind.name);
		r = find_devices(init, &kind, &devices);
		if (r < 0)
			return err_set(err, r, "read the step's '%s'", kind.name);
	}
	return 0;
}

/* ---- the environment ----------------------------------------------------------------------- */

/* The numbers that variables have: as the step counts its devices, and as the node does. */
struct lists {
	char *local, *global;
};

static void lists_clear(struct lists *lists)
{
	free(lists->local);
	free(lists->global);
}

_printf_(2, 3) static int append(char **list, const char *fmt, ...)
{
	_cleanup_free_ char *entry = NULL;
	char *longer;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&entry, fmt, ap);
	va_end(ap);
	if (n < 0) {
		entry = NULL;
		return -ENOMEM;
	}
	if (asprintf(&longer, "%s%s%s", *list ? *list : "", *list ? "," : "", entry) < 0)
		return -ENOMEM;
	free(*list);
	*list = longer;
	return 0;
}

/* by_number: as the device files are named, in place of their order. */
static int make_lists(const struct gres_kind *kind, const struct bitset *devices, bool local,
	const char *prefix, bool by_number, struct lists *lists)
{
	struct gres_kind rest = *kind;
	struct gres_device device;
	uint32_t count = 0, global;
	int64_t last = -1;
	int r = 0;

	while (r == 0 && devices_next(&rest, &device)) {
		if (!bitset_test(devices, device.index) || device.index <= last)
			continue;
		last = device.index;
		global = by_number ? device.number : device.index;
		if (device.unique_id)
			r = append(&lists->local, "%s%s", prefix, device.unique_id);
		else
			r = append(&lists->local, "%s%u", prefix, local ? count : global);
		if (r == 0)
			r = append(&lists->global, "%s%u", prefix, global);
		count++;
	}
	return r;
}

static int set_text(json_t *env, const char *name, const char *value)
{
	if (!value) {
		(void)json_object_del(env, name); /* it may not be there */
		return 0;
	}
	return json_object_set_new(env, name, json_string(value)) < 0 ? -ENOMEM : 0;
}

static int set_gpus(json_t *env, const struct gres_kind *kind, const struct bitset *devices,
	const char *name, const struct lists *lists)
{
	static const struct {
		uint32_t flag;
		const char *name;
	} variables[] = {
		{KIND_ENV_NVML, "CUDA_VISIBLE_DEVICES"},
		{KIND_ENV_RSMI, "ROCR_VISIBLE_DEVICES"},
		{KIND_ENV_ONEAPI, "ZE_AFFINITY_MASK"},
		{KIND_ENV_OPENCL, "GPU_DEVICE_ORDINAL"},
	};
	uint32_t count = bitset_count(devices);
	char number[16];
	size_t i;
	int r;

	(void)snprintf(number, sizeof(number), "%u", count);
	r = set_text(env, "SLURM_GPUS_ON_NODE", count > 0 ? number : NULL);
	if (r == 0)
		r = set_text(env, name, lists->global);
	for (i = 0; r == 0 && i < ARRAY_SIZE(variables); i++) {
		if (kind->env_flags & variables[i].flag)
			r = set_text(env, variables[i].name, lists->local);
	}
	return r;
}

static int set_kind(
	json_t *env, const struct slurm_init *init, const struct gres_kind *kind, bool local)
{
	_cleanup_(lists_clear) struct lists lists = {0};
	_cleanup_bitset_ struct bitset devices = {0};
	bool of_job = has_job_gres(&init->launch), nic = strcmp(kind->name, "nic") == 0;
	int r = find_devices(init, kind, &devices);

	if (r == 0)
		r = make_lists(kind, &devices, local, nic ? "mlx4_" : "", nic, &lists);
	if (r < 0)
		return r;
	if (!nic)
		return set_gpus(
			env, kind, &devices, of_job ? "SLURM_JOB_GPUS" : "SLURM_STEP_GPUS", &lists);
	r = set_text(env, of_job ? "SLURM_JOB_NICS" : "SLURM_STEP_NICS", lists.global);
	return r < 0 ? r : set_text(env, "OMPI_MCA_btl_openib_if_include", lists.local);
}

/* Those that share devices have none: gres_check(). */
static void remove_shares(json_t *env, const struct gres_kind *kind)
{
	(void)json_object_del(env,
		strcmp(kind->name, "mps") == 0 ? "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
					       : "SLURM_SHARDS_ON_NODE");
}

int gres_set_env(json_t *env, const struct slurm_init *init, bool local)
{
	struct gres_kinds rest = init->kinds;
	struct gres_kind kind;
	int r = 0;

	while (r == 0 && kinds_next(&rest, &kind)) {
		const struct plugin_row *plugin = find_plugin(&kind);

		if (plugin && plugin->shares)
			remove_shares(env, &kind);
		else if (plugin)
			r = set_kind(env, init, &kind, local);
	}
	return r;
}

/* ---- devices ------------------------------------------------------------------------------- */

/* "c 195:0"; NULL: its file is no device. */
static const char *name_device(const struct gres_device *device, char name[static 32])
{
	static const char types[] = {0, 'b', 'c'};

	if (device->type == 0 || device->type >= sizeof(types))
		return NULL;
	(void)snprintf(name, 32, "%c %u:%u", types[device->type], device->major, device->minor);
	return name;
}

/* The devices of a kind, by their names: true for those that the step has. One that several kinds
 * have is the step's if any of them gives it. */
static int add_names(json_t *names, const struct slurm_init *init, const struct gres_kind *kind)
{
	_cleanup_bitset_ struct bitset devices = {0};
	struct gres_kind rest = *kind;
	struct gres_device device;
	char name[32];
	int r = find_devices(init, kind, &devices);

	while (r == 0 && devices_next(&rest, &device)) {
		if (!name_device(&device, name))
			continue;
		if (bitset_test(&devices, device.index))
			r = json_object_set_new(names, name, json_true()) < 0 ? -ENOMEM : 0;
		else if (!json_object_get(names, name))
			r = json_object_set_new(names, name, json_false()) < 0 ? -ENOMEM : 0;
	}
	return r;
}

int gres_make_devices(const struct slurm_init *init, json_t **ret_devices)
{
	json_auto_t *names = json_object(), *devices = json_pack("[{s:s}]", "device", "a *:*");
	struct gres_kinds rest = init->kinds;
	struct gres_kind kind;
	const char *name;
	json_t *has;
	int r = names && devices ? 0 : -ENOMEM;

	while (r == 0 && kinds_next(&rest, &kind)) {
		if (find_plugin(&kind))
			r = add_names(names, init, &kind);
	}
	json_object_foreach (names, name, has) {
		if (r == 0 && json_is_false(has))
			r = json_array_append_new(devices,
				    json_pack("{s:s, s:s}", "device", name, "access", "none")) < 0
				? -ENOMEM
				: 0;
	}
	if (r == 0 && json_array_size(devices) > DEVICES_MAX)
		r = -E2BIG;
	if (r == 0)
		*ret_devices = json_array_size(devices) > 1 ? json_incref(devices) : NULL;
	return r;
}
