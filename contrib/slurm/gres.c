/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/gres.h"

#include <assert.h>
#include <endian.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "contrib/slurm/gres_impl.h"

#define GRES_STATE  0x438a34d4u
#define DEVICES_MAX 256u /* entries of a list in a spec */
#define SHARE_SIZE  (2 * sizeof(uint64_t))

/* ---- the credential's records -------------------------------------------------------------- */

/* What one has of a node. */
struct gres_record {
	uint32_t id; /* of the kind */
	struct slurm_bits devices;
	uint64_t count;
};

#define RECORD(member_) UNPACK_KEEP(struct gres_record, member_)

/* clang-format off */
static const struct unpack_row record_rows[] = {
	FIELD("gres plugin_id", U32, .keep = RECORD(id)),
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

static uint64_t read_u64(const uint8_t *bytes)
{
	uint64_t n;

	memcpy(&n, bytes, sizeof(n));
	return be64toh(n);
}

/* The same of counts. */
static uint64_t unpack_node_count(struct unpack *u, uint32_t node)
{
	struct slurm_array counts = unpack_array(u, unpack_u32(u), sizeof(uint64_t));

	return u->bad || node >= counts.n ? 0 : read_u64(counts.bytes + node * sizeof(uint64_t));
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
		record->count = unpack_node_count(u, node);
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
	KIND_SHARED = 1u << 9, /* its devices are another kind's, too */
	KIND_ENV_ONEAPI = 1u << 11,
	KIND_UUID = 1u << 14, /* before 26.05: of MIG devices alone, whose numbers are the node's */
};

enum device_flags {
	DEVICE_MIG = 1u << 0, /* a part of a GPU of Nvidia's */
};

/* What of them follows a kind's record. */
static const struct plugin_row {
	const char *name;
	bool env_flags, shares;
} plugins[GRES_PLUGIN_MAX] = {
	[GRES_GPU] = {"gpu", true, false},
	[GRES_MPS] = {"mps", false, true},
	[GRES_NIC] = {"nic", false, false},
	[GRES_SHARD] = {"shard", true, true},
};

#define KIND(member_)   UNPACK_KEEP(struct gres_kind, member_)
#define DEVICE(member_) UNPACK_KEEP(struct gres_device, member_)

/* clang-format off */
static const struct unpack_row device_rows[] = {
	FIELD("gres index", U32, .keep = DEVICE(index)),
	FIELD("gres dev_num", U32, .keep = DEVICE(number)),
	FIELD("gres dev_type", U32, .keep = DEVICE(type)),
	FIELD("gres major", U32, .keep = DEVICE(major)),
	FIELD("gres minor", U32, .keep = DEVICE(minor)),
	FIELD("gres path", TEXT),
	FIELD("gres unique_id", TEXT, .keep = DEVICE(unique_id)),
	FIELD("gres flags", U32, .since = SLURM_25_11, .keep = DEVICE(flags)),
};
/* clang-format on */

/* From 25.05 on a list that is not there has a count of its own. */
static void take_devices(struct unpack *u, struct gres_kind *kind)
{
	struct gres_device device;
	size_t begin;
	uint32_t i;

	kind->devices = unpack_u32(u);
	if (kind->devices == SLURM_NO_VAL)
		kind->devices = 0;
	begin = u->at;
	for (i = 0; i < kind->devices && !u->bad; i++)
		unpack_rows(u, device_rows, ARRAY_SIZE(device_rows), &device);
	kind->bytes = u->data + begin;
	kind->size = u->at - begin;
}

/* Those of a kind that has no plugin, from 23.02 on. */
static void take_own_devices(struct unpack *u, void *result)
{
	take_devices(u, result);
}

/* clang-format off */
static const struct unpack_row kind_rows[] = {
	FIELD("gres config_flags", U32, .keep = KIND(flags)),
	FIELD("gres name", TEXT, .keep = KIND(name)),
	FIELD("gres name_colon", TEXT),
	FIELD("gres name_colon_len", U32),
	FIELD("gres type", TEXT),
	FIELD("gres np_gres_devices", CALL, .since = SLURM_23_02, .call = take_own_devices),
	FIELD("gres plugin_id", U32, .keep = KIND(id)),
	FIELD("gres total_cnt", U64),
};
/* clang-format on */

static enum gres_plugin find_plugin(const struct gres_kind *kind)
{
	int i;

	for (i = GRES_NONE + 1; i < GRES_PLUGIN_MAX && !(kind->flags & KIND_COUNT_ONLY); i++) {
		if (kind->name && strcmp(kind->name, plugins[i].name) == 0)
			return (enum gres_plugin)i;
	}
	return GRES_NONE;
}

static void unpack_shares(struct unpack *u, struct gres_kind *kind)
{
	uint32_t n = unpack_u32(u);
	size_t begin = u->at;

	unpack_skip_bytes(u, (uint64_t)n * SHARE_SIZE);
	if (u->bad)
		return;
	kind->shares = n;
	kind->share_bytes = u->data + begin;
}

bool gres_has_plugin(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(plugins); i++) {
		if (plugins[i].name && strcmp(name, plugins[i].name) == 0)
			return true;
	}
	return false;
}

static void unpack_kind(struct unpack *u, struct gres_kind *kind)
{
	*kind = (struct gres_kind){.release = u->release};
	unpack_rows(u, kind_rows, ARRAY_SIZE(kind_rows), kind);
	kind->plugin = find_plugin(kind);
	if (!kind->plugin || u->bad)
		return;
	take_devices(u, kind);
	kind->env_flags = plugins[kind->plugin].env_flags ? unpack_u32(u) : KIND_ENV_NVML;
	if (plugins[kind->plugin].shares)
		unpack_shares(u, kind);
}

int gres_read_kinds(const void *data, size_t size, uint16_t release, struct gres_kinds *ret_kinds,
	struct err *err)
{
	struct unpack u = {.data = data, .size = size, .release = release};
	struct gres_kinds kinds = {.n = unpack_u32(&u), .release = release};
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
			"the node's GRES are not those of release %s: %s at %s",
			slurm_release_name(release), u.bad ? u.bad : "more data than fields",
			u.field ? u.field : "their end");
	*ret_kinds = kinds;
	return 0;
}

bool gres_next_kind(struct gres_kinds *rest, struct gres_kind *ret_kind)
{
	struct unpack u = {.data = rest->bytes, .size = rest->size, .release = rest->release};

	if (rest->n == 0)
		return false;
	unpack_kind(&u, ret_kind);
	assert(!u.bad);
	rest->n--;
	rest->bytes += u.at;
	rest->size -= u.at;
	return true;
}

bool gres_is_shared(const struct gres_kind *kind)
{
	return plugins[kind->plugin].shares;
}

bool gres_has_uuids(const struct gres_kind *kind)
{
	return (kind->flags | kind->env_flags) & KIND_UUID;
}

bool gres_has_devices(const struct gres_kind *kind)
{
	return kind->plugin || kind->devices > 0;
}

bool gres_next_device(struct gres_kind *rest, struct gres_device *ret_device)
{
	struct unpack u = {.data = rest->bytes, .size = rest->size, .release = rest->release};

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
	return l->kind == SLURM_KIND_BATCH || l->kind == SLURM_KIND_INTERACTIVE ||
		l->kind == SLURM_KIND_EXTERN;
}

/* A script, a shell of salloc and the processes of an extern step have the job's. */
static const struct gres_records *get_records(const struct slurm_launch *l)
{
	return has_job_gres(l) ? &l->job_gres : &l->step_gres;
}

void gres_share_clear(struct gres_share *share)
{
	bitset_clear(&share->devices);
}

/* Adds what one record has. */
static int add_bits(const struct slurm_bits *bits, struct gres_share *share)
{
	_cleanup_bitset_ struct bitset of_record = {0};
	uint32_t bit;
	int r = bits->mask ? slurm_bits_read(bits, &of_record) : 0;

	if (r < 0 || !bits->mask)
		return r;
	if (bits->n > GRES_INDEX_MAX)
		return -ERANGE;
	share->has_devices = true;
	share->size = bits->n > share->size ? bits->n : share->size;
	for (bit = bitset_next(&of_record, 0); bit != BITSET_NONE;
		bit = bitset_next(&of_record, bit + 1)) {
		if (bit >= bits->n)
			return -ERANGE;
		(void)bitset_set(&share->devices, bit);
	}
	return 0;
}

int gres_find_share(
	const struct slurm_init *init, const struct gres_kind *kind, struct gres_share *share)
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

	*share = (struct gres_share){0};
	if (r == 0)
		r = bitset_init(&share->devices, GRES_INDEX_MAX);
	for (i = 0; r == 0 && i < records->n; i++) {
		unpack_record(&u, records->of_step, node, &record);
		if (record.id != kind->id)
			continue;
		share->given = true;
		share->count += record.count;
		r = add_bits(&record.devices, share);
	}
	return r;
}

int gres_check(const struct slurm_init *init, struct err *err)
{
	struct gres_kinds rest = init->kinds;
	struct gres_kind kind;
	int r;

	while (gres_next_kind(&rest, &kind)) {
		_cleanup_gres_share_ struct gres_share share = {0};

		if (!gres_has_devices(&kind))
			continue;
		r = gres_find_share(init, &kind, &share);
		if (r < 0)
			return err_set(err, r, "read the step's '%s'", kind.name);
	}
	return 0;
}

/* ---- the environment ----------------------------------------------------------------------- */

void gres_lists_clear(struct gres_lists *lists)
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

/* Not by its number. */
static bool is_named_by_id(const struct gres_kind *kind, const struct gres_device *device)
{
	if (!device->unique_id)
		return false;
	if (kind->release >= SLURM_26_05)
		return kind->env_flags & KIND_UUID;
	return kind->release < SLURM_25_11 || device->flags & DEVICE_MIG;
}

/* NICs are named by the numbers of their files, the others by their order. */
int gres_make_lists(const struct gres_kind *kind, const struct gres_share *share,
	const struct bitset *usable, bool local, struct gres_lists *lists)
{
	bool nic = kind->plugin == GRES_NIC;
	const char *prefix = nic ? "mlx4_" : "";
	struct gres_kind rest = *kind;
	struct gres_device device;
	uint32_t global, number;
	int64_t last = -1;
	int r = 0;

	lists->first = -1;
	while (r == 0 && gres_next_device(&rest, &device)) {
		if (!bitset_test(&share->devices, device.index) || device.index <= last)
			continue;
		last = device.index;
		global = nic ? device.number : device.index;
		number = local ? lists->considered++ : global;
		if (usable && !bitset_test(usable, local ? number : device.index))
			continue;
		if (!lists->global)
			lists->first = (int32_t)device.number;
		if (is_named_by_id(kind, &device))
			r = append(&lists->local, "%s%s", prefix, device.unique_id);
		else
			r = append(&lists->local, "%s%d", prefix, (int)number);
		if (r == 0)
			r = append(&lists->global, "%s%d", prefix, (int)global);
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

static int set_variable(const struct gres_variables *v, const char *name, const char *value)
{
	return !value && v->protect ? 0 : set_text(v->env, name, value);
}

static int set_count(const struct gres_variables *v, const char *name, uint64_t count)
{
	char number[24];

	(void)snprintf(number, sizeof(number), "%" PRIu64, count);
	return set_variable(v, name, count > 0 ? number : NULL);
}

int gres_set_gpus(const struct gres_variables *v, const struct gres_kind *kind,
	const struct gres_share *share, const struct gres_lists *lists)
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
	size_t i;
	int r = set_count(v, "SLURM_GPUS_ON_NODE", bitset_count(&share->devices));

	if (r == 0)
		r = set_variable(
			v, v->of_job ? "SLURM_JOB_GPUS" : "SLURM_STEP_GPUS", lists->global);
	for (i = 0; r == 0 && i < ARRAY_SIZE(variables); i++) {
		if (kind->env_flags & variables[i].flag)
			r = set_variable(v, variables[i].name, lists->local);
	}
	return r;
}

int gres_set_nics(const struct gres_variables *v, const struct gres_lists *lists)
{
	int r = set_text(v->env, v->of_job ? "SLURM_JOB_NICS" : "SLURM_STEP_NICS", lists->global);

	return r < 0 ? r : set_text(v->env, "OMPI_MCA_btl_openib_if_include", lists->local);
}

/* How much a device has in all, by the number of its file, -1 without one. As Slurm: 100 of an
 * unknown one. */
static uint64_t find_total(const struct gres_kind *kind, int32_t number)
{
	const uint8_t *bytes = kind->share_bytes;
	uint32_t i;

	for (i = 0; i < kind->shares; i++, bytes += SHARE_SIZE) {
		if ((int32_t)read_u64(bytes + sizeof(uint64_t)) == number)
			return read_u64(bytes);
	}
	return 100;
}

/* The part of the first device's threads, in percent. */
static int set_percentage(const struct gres_variables *v, const struct gres_kind *kind,
	const struct gres_share *share, const struct gres_lists *lists)
{
	uint64_t percent = share->count, total;
	char number[24];

	if (share->count > 0 && kind->shares > 0) {
		total = find_total(kind, lists->first);
		percent = total > 0 ? share->count * 100 / total : 0;
		if (total > 0 && percent == 0)
			percent = 1;
	}
	(void)snprintf(number, sizeof(number), "%" PRIu64, percent);
	return set_text(
		v->env, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", share->count > 0 ? number : NULL);
}

static int set_kind(const struct gres_variables *v, const struct gres_kind *kind,
	const struct gres_share *share, bool local)
{
	_cleanup_gres_lists_ struct gres_lists lists = {0};
	int r = gres_make_lists(kind, share, NULL, local, &lists);

	if (r < 0)
		return r;
	if (kind->plugin == GRES_NIC)
		return gres_set_nics(v, &lists);
	r = gres_set_gpus(v, kind, share, &lists);
	if (r == 0 && kind->plugin == GRES_MPS)
		r = set_percentage(v, kind, share, &lists);
	if (r == 0 && kind->plugin == GRES_SHARD)
		r = set_count(v, "SLURM_SHARDS_ON_NODE", share->count);
	return r;
}

/* A step with GPUs has no part of them besides, whose kinds would remove its variables. They come
 * after them. */
int gres_set_env(json_t *env, const struct slurm_init *init, bool local)
{
	struct gres_variables v = {.env = env, .of_job = has_job_gres(&init->launch)};
	struct gres_kinds rest = init->kinds;
	struct gres_kind kind;
	bool has_gpus = false;
	int r = 0;

	while (r == 0 && gres_next_kind(&rest, &kind)) {
		_cleanup_gres_share_ struct gres_share share = {0};

		if (!kind.plugin)
			continue;
		r = gres_find_share(init, &kind, &share);
		has_gpus |= kind.plugin == GRES_GPU && share.given;
		v.protect |= has_gpus && kind.flags & KIND_SHARED;
		if (r == 0)
			r = set_kind(&v, &kind, &share, local);
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

int gres_add_devices(json_t *names, const struct gres_kind *kind, const struct gres_share *share,
	const struct bitset *usable)
{
	struct gres_kind rest = *kind;
	struct gres_device device;
	char name[32];
	int r = 0;

	while (r == 0 && gres_next_device(&rest, &device)) {
		if (!name_device(&device, name))
			continue;
		if (bitset_test(&share->devices, device.index) &&
			(!usable || bitset_test(usable, device.index)))
			r = json_object_set_new(names, name, json_true()) < 0 ? -ENOMEM : 0;
		else if (!json_object_get(names, name))
			r = json_object_set_new(names, name, json_false()) < 0 ? -ENOMEM : 0;
	}
	return r;
}

int gres_list_devices(const json_t *names, json_t **ret_devices)
{
	json_auto_t *devices = json_pack("[{s:s}]", "device", "a *:*");
	const char *name;
	const json_t *has;
	int r = devices ? 0 : -ENOMEM;

	json_object_foreach ((json_t *)names, name, has) {
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

int gres_make_devices(const struct slurm_init *init, json_t **ret_devices)
{
	json_auto_t *names = json_object();
	struct gres_kinds rest = init->kinds;
	struct gres_kind kind;
	int r = names ? 0 : -ENOMEM;

	while (r == 0 && gres_next_kind(&rest, &kind)) {
		_cleanup_gres_share_ struct gres_share share = {0};

		if (!gres_has_devices(&kind))
			continue;
		r = gres_find_share(init, &kind, &share);
		if (r == 0)
			r = gres_add_devices(names, &kind, &share, NULL);
	}
	return r == 0 ? gres_list_devices(names, ret_devices) : r;
}
