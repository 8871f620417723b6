/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Generic resources: what the credential has of them, on which node, and what a step gets:
 * variables as slurmstepd 22.05.8 has them, and the devices that it can't open.
 */
#include "contrib/slurm/gres.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "contrib/slurm/bind.h"
#include "contrib/slurm/decision.h"
#include "contrib/slurm/gres_bind.h"
#include "contrib/slurm/pack.h"
#include "contrib/slurm/site_conf.h"
#include "contrib/slurm/step_spec.h"

#define GPU    7696487u
#define NIC    17u
#define NAF    6382958u
#define MPS    5u
#define SHARD  6u
#define SHARED (1u << 9)
#define NVML   (1u << 5)
#define RSMI   (1u << 6)
#define OCL    (1u << 7)
#define ONE    (1u << 11)

/* ---- packed -------------------------------------------------------------------------------- */

struct device {
	uint32_t index, number, type, major, minor;
	const char *path, *unique_id;
};

static void pack_kind(struct pack *p, const char *name, uint32_t id, uint32_t flags)
{
	pack_u32(p, flags);
	pack_text(p, name);
	pack_text(p, "name:");
	pack_u32(p, 5);
	pack_text(p, NULL);
	pack_u32(p, id);
	pack_u64(p, 4);
}

static void pack_devices(struct pack *p, const struct device *devices, uint32_t n)
{
	uint32_t i;

	pack_u32(p, n);
	for (i = 0; i < n; i++) {
		pack_u32(p, devices[i].index);
		pack_u32(p, devices[i].number);
		pack_u32(p, devices[i].type);
		pack_u32(p, devices[i].major);
		pack_u32(p, devices[i].minor);
		pack_text(p, devices[i].path);
		pack_text(p, devices[i].unique_id);
	}
}

/* A record, of which only the bits matter, and how much each node has: "" where it has none. */
static void pack_counts(struct pack *p, bool of_step, uint32_t id, const char *const *masks,
	const uint64_t *counts, uint32_t n)
{
	uint32_t i;

	pack_u32(p, 0x438a34d4);
	pack_u32(p, id);
	pack_u16(p, 0);
	pack_u16(p, 0);
	for (i = 0; i < 5; i++)
		pack_u64(p, 0);
	if (!of_step)
		pack_u16(p, 0);
	pack_u64(p, 9);
	if (!of_step)
		pack_text(p, "type");
	pack_u32(p, n);
	if (of_step)
		pack_u32(p, SLURM_NO_VAL);
	pack_u8(p, counts != NULL);
	if (counts)
		pack_u32(p, n);
	for (i = 0; counts && i < n; i++)
		pack_u64(p, counts[i]);
	pack_u8(p, 1);
	for (i = 0; i < n; i++) {
		pack_u32(p, *masks[i] ? 4 : SLURM_NO_VAL);
		if (*masks[i])
			pack_text(p, masks[i]);
	}
	if (!of_step) {
		pack_u8(p, 0);
		pack_u8(p, 0);
	}
}

static void pack_record(
	struct pack *p, bool of_step, uint32_t id, const char *const *masks, uint32_t n)
{
	pack_counts(p, of_step, id, masks, NULL, n);
}

/* ---- a node -------------------------------------------------------------------------------- */

struct rig {
	struct pack kinds, job, step;
	uint16_t release; /* of the kinds */
	struct slurm_init init;
	json_t *env;
};

static const struct device gpus[] = {
	{0, 0, 2, 195, 0, "/dev/nvidia0", NULL},
	{1, 1, 2, 195, 1, "/dev/nvidia1", NULL},
	{2, 2, 2, 195, 2, "/dev/nvidia2", NULL},
	{3, 3, 2, 195, 3, "/dev/nvidia3", NULL},
};

static const struct device nics[] = {
	{0, 4, 2, 231, 4, "/dev/mlx4", NULL},
	{1, 5, 2, 231, 5, "/dev/mlx5", NULL},
};

/* n2, the second of a job's nodes; its environment is what srun would have left there. */
static void rig_init(struct rig *r)
{
	*r = (struct rig){.release = SLURM_22_05,
		.init = {.frame = {.release = SLURM_22_05},
			.conf = {.node_name = "n2"},
			.launch.cores = {.nhosts = 2, .hosts = "n[1-2]"}}};
	r->env = json_pack("{s:s, s:s, s:s, s:s, s:s}", "SLURM_STEP_GPUS", "9", "SLURM_JOB_GPUS",
		"8", "CUDA_VISIBLE_DEVICES", "7", "SLURM_GPUS_ON_NODE", "6", "OTHER", "5");
}

static void rig_clear(struct rig *r)
{
	pack_clear(&r->kinds);
	pack_clear(&r->job);
	pack_clear(&r->step);
	json_decref(r->env);
}
#define _cleanup_rig_ _cleanup_(rig_clear)

static struct gres_records read_records(const struct pack *p, bool of_step)
{
	struct unpack u = {.data = (const uint8_t *)buffer_bytes(&p->bytes),
		.size = buffer_size(&p->bytes),
		.release = SLURM_22_05};
	struct gres_records records = gres_unpack_records(&u, of_step);

	assert_null(u.bad);
	assert_int_equal(u.at, u.size);
	return records;
}

static void rig_read(struct rig *r)
{
	struct err err = ERR_INIT;

	if (gres_read_kinds(buffer_bytes(&r->kinds.bytes), buffer_size(&r->kinds.bytes), r->release,
		    &r->init.kinds, &err) < 0)
		fail_msg("%s", err.text);
	if (buffer_size(&r->job.bytes) > 0)
		r->init.launch.job_gres = read_records(&r->job, false);
	if (buffer_size(&r->step.bytes) > 0)
		r->init.launch.step_gres = read_records(&r->step, true);
	if (gres_check(&r->init, &err) < 0)
		fail_msg("%s", err.text);
}

/* Four GPUs, two NICs, and what has no plugin. */
static void rig_add_kinds(struct rig *r, uint32_t env_flags)
{
	pack_u32(&r->kinds, 3);
	pack_kind(&r->kinds, "gpu", GPU, 2);
	pack_devices(&r->kinds, gpus, 4);
	pack_u32(&r->kinds, env_flags);
	pack_kind(&r->kinds, "naf", NAF, 8);
	pack_kind(&r->kinds, "nic", NIC, 2);
	pack_devices(&r->kinds, nics, 2);
}

static void assert_env(const struct rig *r, const char *name, const char *value)
{
	const char *has = json_string_value(json_object_get(r->env, name));

	if (strcmp(has ? has : "-", value ? value : "-") != 0)
		fail_msg("%s is '%s', not '%s'", name, has ? has : "-", value ? value : "-");
}

static void assert_devices(const struct rig *r, const char *const *names, size_t n)
{
	json_auto_t *devices = NULL;
	size_t i;

	assert_int_equal(gres_make_devices(&r->init, &devices), 0);
	if (n == 0) {
		assert_null(devices);
		return;
	}
	assert_int_equal(json_array_size(devices), n + 1);
	for (i = 0; i <= n; i++) {
		const json_t *entry = json_array_get(devices, i);
		const char *access = json_string_value(json_object_get(entry, "access"));

		assert_string_equal(json_string_value(json_object_get(entry, "device")),
			i == 0 ? "a *:*" : names[i - 1]);
		assert_string_equal(access ? access : "all", i == 0 ? "all" : "none");
	}
}

/* ---- variables ----------------------------------------------------------------------------- */

static void test_step(void **state)
{
	static const char *const first[] = {"0x1", "0x2"}, *const second[] = {"", "0x8"};
	static const char *const refused[] = {"c 195:0", "c 195:2", "c 231:4", "c 231:5"};
	_cleanup_rig_ struct rig r;

	(void)state;
	rig_init(&r);
	rig_add_kinds(&r, NVML | OCL);
	pack_u16(&r.step, 2); /* a record for each type */
	pack_record(&r.step, true, GPU, first, 2);
	pack_record(&r.step, true, GPU, second, 2);
	rig_read(&r);
	assert_int_equal(gres_set_env(r.env, &r.init, false), 0);
	assert_env(&r, "SLURM_STEP_GPUS", "1,3");
	assert_env(&r, "SLURM_GPUS_ON_NODE", "2");
	assert_env(&r, "CUDA_VISIBLE_DEVICES", "1,3");
	assert_env(&r, "GPU_DEVICE_ORDINAL", "1,3");
	assert_env(&r, "ROCR_VISIBLE_DEVICES", NULL);
	assert_env(&r, "SLURM_JOB_GPUS", "8"); /* the script's */
	assert_env(&r, "OTHER", "5");
	assert_int_equal(gres_set_env(r.env, &r.init, true), 0);
	assert_env(&r, "SLURM_STEP_GPUS", "1,3");
	assert_env(&r, "CUDA_VISIBLE_DEVICES", "0,1");
	assert_devices(&r, refused, 4);
	r.init.conf.node_name = "n1";
	assert_int_equal(gres_set_env(r.env, &r.init, true), 0);
	assert_env(&r, "SLURM_STEP_GPUS", "0");
	assert_env(&r, "SLURM_GPUS_ON_NODE", "1");
}

static void test_step_without(void **state)
{
	static const char *const refused[] = {
		"c 195:0", "c 195:1", "c 195:2", "c 195:3", "c 231:4", "c 231:5"};
	static const char *const masks[] = {"0xf", "0xf"};
	_cleanup_rig_ struct rig r;

	(void)state;
	rig_init(&r);
	rig_add_kinds(&r, NVML | RSMI | ONE);
	pack_u16(&r.job, 1);
	pack_record(&r.job, false, GPU, masks, 2);
	rig_read(&r);
	assert_int_equal(gres_set_env(r.env, &r.init, false), 0);
	assert_env(&r, "SLURM_STEP_GPUS", NULL);
	assert_env(&r, "SLURM_GPUS_ON_NODE", NULL);
	assert_env(&r, "CUDA_VISIBLE_DEVICES", NULL);
	assert_env(&r, "SLURM_JOB_GPUS", "8");
	assert_devices(&r, refused, 6);
}

static void test_script(void **state)
{
	static const char *const masks[] = {"0x1", "0x6"}, *const ports[] = {"", "0x3"};
	static const char *const refused[] = {"c 195:0", "c 195:3"};
	_cleanup_rig_ struct rig r;

	(void)state;
	rig_init(&r);
	rig_add_kinds(&r, RSMI | ONE);
	pack_u16(&r.job, 2);
	pack_record(&r.job, false, GPU, masks, 2);
	pack_record(&r.job, false, NIC, ports, 2);
	r.init.launch.kind = SLURM_KIND_BATCH;
	rig_read(&r);
	assert_int_equal(gres_set_env(r.env, &r.init, true), 0);
	assert_env(&r, "SLURM_JOB_GPUS", "1,2");
	assert_env(&r, "SLURM_STEP_GPUS", "9");
	assert_env(&r, "ROCR_VISIBLE_DEVICES", "0,1");
	assert_env(&r, "ZE_AFFINITY_MASK", "0,1");
	assert_env(&r, "CUDA_VISIBLE_DEVICES", "7"); /* these GPUs have no such variable */
	assert_env(&r, "SLURM_JOB_NICS", "mlx4_4,mlx4_5");
	assert_env(&r, "OMPI_MCA_btl_openib_if_include", "mlx4_0,mlx4_1");
	assert_devices(&r, refused, 2);
	r.init.launch.kind = SLURM_KIND_EXTERN; /* what is added to it, too */
	assert_devices(&r, refused, 2);
}

/* Two files are one device (MultipleFiles), and names of their own. */
static void test_files(void **state)
{
	static const struct device pairs[] = {
		{0, 0, 2, 1, 3, "/dev/null", "GPU-a"},
		{0, 0, 1, 8, 0, "/dev/sda", "GPU-a"},
		{1, 1, 2, 1, 3, "/dev/other", "GPU-b"},
		{1, 1, 0, 0, 0, "/dev/gone", "GPU-b"},
		{2, 2, 2, 1, 5, "/dev/zero", NULL},
	};
	static const char *const masks[] = {"", "0x6"}, *const refused[] = {"b 8:0"};
	_cleanup_rig_ struct rig r;

	(void)state;
	rig_init(&r);
	pack_u32(&r.kinds, 1);
	pack_kind(&r.kinds, "gpu", GPU, 3);
	pack_devices(&r.kinds, pairs, 5);
	pack_u32(&r.kinds, NVML);
	pack_u16(&r.step, 1);
	pack_record(&r.step, true, GPU, masks, 2);
	rig_read(&r);
	assert_int_equal(gres_set_env(r.env, &r.init, true), 0);
	assert_env(&r, "CUDA_VISIBLE_DEVICES", "GPU-b,1");
	assert_env(&r, "SLURM_STEP_GPUS", "1,2");
	assert_devices(&r, refused, 1); /* the node is there by another name, too */
}

/* A count alone: there are no files, and slurmd knows none. */
static void test_count(void **state)
{
	_cleanup_rig_ struct rig r;

	(void)state;
	rig_init(&r);
	pack_u32(&r.kinds, UINT32_MAX); /* as where it is not configured */
	rig_read(&r);
	assert_int_equal(gres_set_env(r.env, &r.init, false), 0);
	assert_env(&r, "CUDA_VISIBLE_DEVICES", "7");
	assert_devices(&r, NULL, 0);
}

/* ---- shared devices ------------------------------------------------------------------------ */

/* Of four GPUs, which have 100, 50, 0 and an unknown number of parts. */
static void rig_add_shared(struct rig *r, const char *name, uint32_t id)
{
	static const uint64_t shares[] = {100, 0, 50, 1, 0, 2};
	size_t i;

	pack_u32(&r->kinds, 2);
	pack_kind(&r->kinds, "gpu", GPU, 2);
	pack_devices(&r->kinds, gpus, 4);
	pack_u32(&r->kinds, NVML);
	pack_kind(&r->kinds, name, id, 2 | SHARED);
	pack_devices(&r->kinds, gpus, 4);
	if (id == SHARD)
		pack_u32(&r->kinds, NVML | OCL);
	pack_u32(&r->kinds, 3);
	for (i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
		pack_u64(&r->kinds, shares[i]);
}

/* What the step's record gives its node of a kind: variables, and the devices. */
static void rig_share(struct rig *r, uint32_t id, const char *mask, uint64_t count)
{
	const char *const masks[] = {"", mask};
	const uint64_t counts[] = {1, count};

	pack_clear(&r->step);
	r->step = (struct pack){0};
	pack_u16(&r->step, 1);
	pack_counts(&r->step, true, id, masks, counts, 2);
	r->init.launch.step_gres = read_records(&r->step, true);
	json_object_set_new(r->env, "SLURM_SHARDS_ON_NODE", json_string("1"));
	json_object_set_new(r->env, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", json_string("50"));
	assert_int_equal(gres_set_env(r->env, &r->init, true), 0);
}

static void test_mps(void **state)
{
	static const char *const refused[] = {"c 195:0", "c 195:2", "c 195:3"};
	static const struct {
		const char *mask;
		uint64_t count;
		const char *percent;
	} rows[] = {
		{"0x1", 30, "30"}, {"0x1", 200, "200"}, {"0x2", 30, "60"}, {"0x2", 0, NULL},
		{"0x4", 30, "0"}, {"0x8", 30, "30"}, /* as of 100 */
	};
	_cleanup_rig_ struct rig r;
	size_t i;

	(void)state;
	rig_init(&r);
	rig_add_shared(&r, "mps", MPS);
	rig_read(&r);
	assert_int_equal(gres_set_env(r.env, &r.init, false), 0);
	assert_env(&r, "CUDA_VISIBLE_DEVICES", NULL);
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		rig_share(&r, MPS, rows[i].mask, rows[i].count);
		assert_env(&r, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", rows[i].percent);
		assert_env(&r, "CUDA_VISIBLE_DEVICES", "0");
		assert_env(&r, "SLURM_GPUS_ON_NODE", "1");
	}
	rig_share(&r, MPS, "0x2", 1);
	assert_env(&r, "SLURM_STEP_GPUS", "1");
	assert_devices(&r, refused, 3);
	rig_share(&r, GPU, "0x2", 1);
	assert_env(&r, "CUDA_VISIBLE_DEVICES", "0");
	assert_env(&r, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", NULL);
}

static void test_shard(void **state)
{
	_cleanup_rig_ struct rig r;

	(void)state;
	rig_init(&r);
	rig_add_shared(&r, "shard", SHARD);
	rig_read(&r);
	rig_share(&r, SHARD, "0x6", 12);
	assert_env(&r, "SLURM_SHARDS_ON_NODE", "12");
	assert_env(&r, "SLURM_STEP_GPUS", "1,2");
	assert_env(&r, "GPU_DEVICE_ORDINAL", "0,1");
	/* What the step's GPUs have stays, whatever was there of shards. */
	rig_share(&r, GPU, "0x1", 1);
	assert_env(&r, "SLURM_STEP_GPUS", "0");
	assert_env(&r, "SLURM_SHARDS_ON_NODE", "1");
	rig_share(&r, NAF, "", 0);
	assert_env(&r, "SLURM_STEP_GPUS", NULL);
	assert_env(&r, "SLURM_SHARDS_ON_NODE", NULL);
}

/* ---- tasks with devices of their own ------------------------------------------------------- */

static void pack_conf(struct pack *p, uint32_t id, const char *cpus)
{
	pack_u32(p, 0);
	pack_u64(p, 1);
	pack_u32(p, 8);
	pack_text(p, cpus);
	pack_u32(p, *cpus ? 8 : SLURM_NO_VAL);
	if (*cpus)
		pack_text(p, cpus);
	pack_text(p, "file");
	pack_text(p, NULL);
	pack_text(p, "name");
	pack_text(p, NULL);
	pack_text(p, NULL);
	pack_u32(p, id);
}

/* Each GPU is near two of eight processors, and the last one near all. */
static void rig_add_conf(struct rig *r, struct pack *conf)
{
	static const char *const cpus[] = {"0x03", "0x0c", "0x30", ""};
	struct err err = ERR_INIT;
	size_t i;

	pack_u32(conf, 0);
	pack_u32(conf, 5);
	pack_u32(conf, 5);
	pack_conf(conf, NIC, "0xff");
	for (i = 0; i < 4; i++)
		pack_conf(conf, GPU, cpus[i]);
	r->init.frame.has_gres_conf = true;
	if (gres_read_conf(buffer_bytes(&conf->bytes), buffer_size(&conf->bytes),
		    &r->init.gres_conf, &err) < 0)
		fail_msg("%s", err.text);
}

/* What task 0 to 3 have: "SLURM_STEP_GPUS CUDA_VISIBLE_DEVICES refused", and lines. */
static void assert_tasks(const struct rig *r, bool local, const char *const *wanted)
{
	struct gres_binding *binding = NULL;
	struct err err = ERR_INIT;
	uint32_t i;

	if (gres_binding_new(&r->init, local, &binding, &err) < 0)
		fail_msg("%s", err.text);
	assert_non_null(binding);
	for (i = 0; i < 4; i++) {
		_cleanup_gres_task_ struct gres_task task = {0};
		const char *step, *cuda, *name;
		char text[256];
		size_t at, k;

		assert_int_equal(gres_binding_make_task(binding, i, &task), 0);
		step = json_string_value(json_object_get(task.env, "SLURM_STEP_GPUS"));
		cuda = json_string_value(json_object_get(task.env, "CUDA_VISIBLE_DEVICES"));
		at = (size_t)snprintf(
			text, sizeof(text), "%s %s ", step ? step : "-", cuda ? cuda : "-");
		for (k = 1; k < json_array_size(task.devices); k++) {
			name = json_string_value(
				json_object_get(json_array_get(task.devices, k), "device"));
			if (strncmp(name, "c 195:", 6) == 0)
				at += (size_t)snprintf(
					text + at, sizeof(text) - at, "%s", name + 6);
		}
		for (k = 0; k < task.lines.n; k++)
			at += (size_t)snprintf(
				text + at, sizeof(text) - at, " %.11s", task.lines.v[k]);
		assert_string_equal(text, wanted[i]);
	}
	(void)gres_binding_free(binding);
}

static const uint8_t four_tasks[] = {
	0, 4, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3};

/* Of four tasks each is bound to processors of its own, the last one to all, and they have three of
 * four GPUs. */
static void rig_bind_tasks(struct rig *r, struct pack *conf, uint16_t release)
{
	static const char *const masks[] = {"", "0xd"};
	static const struct site_conf site = {.binds = true};
	struct slurm_launch *l = &r->init.launch;

	rig_init(r);
	rig_add_kinds(r, NVML);
	pack_u16(&r->step, 1);
	pack_record(&r->step, true, GPU, masks, 2);
	rig_read(r);
	rig_add_conf(r, conf);
	r->init.frame.release = release;
	r->init.site = &site;
	l->nnodes = 1;
	l->nodes = "n2";
	l->node_tasks = (struct slurm_array){sizeof(four_tasks), four_tasks};
	l->cpu_bind_type = SLURM_CPU_BY_MASK;
	l->cpu_bind = "0x2,0x8,0x20,0xff";
}

struct bound_row {
	const char *bind;
	bool local;
	const char *tasks[4];
};

static void assert_row(struct rig *r, const struct bound_row *row)
{
	r->init.launch.tres_bind = row->bind;
	assert_tasks(r, row->local, row->tasks);
}

static const uint8_t one_task[] = {0, 1, 0, 0, 0, 1, 0, 0, 0, 0};

static void test_bound(void **state)
{
	static const struct bound_row rows[] = {
		{"gpu:map_gpu:2,0", false, {"2 2 013", "0 0 123", "2 2 013", "0 0 123"}},
		{"gpu:map_gpu:2*3,0x3", false, {"2 2 013", "2 2 013", "2 2 013", "3 3 012"}},
		{"gpu:map_gpu:2,0", true, {"0 0 012", "0 0 123", "0 0 012", "0 0 123"}},
		{"gpu:map_gpu:1,9", false,
			{"0 0 123 error=Bind ", "0 0 123 error=Inval error=Bind ",
				"0 0 123 error=Bind ", "0 0 123 error=Inval error=Bind "}},
		{"gpu:mask_gpu:0x5,0x8", false, {"0,2 0,2 13", "3 3 012", "0,2 0,2 13", "3 3 012"}},
		{"gpu:mask_gpu:0x6", true, {"0 0 01", "0 0 01", "0 0 01", "0 0 01"}},
		{"gpu:closest", false, {"0,3 0,3 12", "3 3 012", "2,3 2,3 01", "0,2,3 0,2,3 1"}},
		{"gpu:closest", true, {"0,2 0,1 12", "0 0 012", "0,2 0,1 01", "0,2,3 0,1,2 1"}},
		{"gpu:single:1", false, {"0 0 123", "3 3 012", "2 2 013", "0 0 123"}},
		{"gpu:single:2", false, {"0 0 123", "3 3 012", "3 3 012", "2 2 013"}},
		{"gpu:per_task:1", false,
			{"0 0 123", "2 2 013", "3 3 012", "0 0 123 error=Not e error=Bind "}},
		{"gpu:per_task:2", true,
			{"0,2 0,1 13", "0,2 0,1 012", "0,2 0,1 123", "0,2 0,1 123"}},
		{"gpu:verbose,map_gpu:2", false,
			{"2 2 013 note=gpu-bi", "2 2 013 note=gpu-bi", "2 2 013 note=gpu-bi",
				"2 2 013 note=gpu-bi"}},
		{"gpu:none", false, {"- - 1", "- - 1", "- - 1", "- - 1"}},
		{"gpu:verbose,none", true, {"- - 1", "- - 1", "- - 1", "- - 1"}},
	};
	_cleanup_pack_ struct pack conf = {0};
	struct gres_binding *binding;
	struct err err = ERR_INIT;
	_cleanup_rig_ struct rig r;
	size_t i;

	(void)state;
	rig_bind_tasks(&r, &conf, SLURM_22_05);
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_row(&r, &rows[i]);
	/* --accel-bind=g: as closest, with more than one GPU. */
	r.init.launch.tres_bind = NULL;
	r.init.launch.accel_bind_type = 2;
	assert_int_equal(gres_binding_new(&r.init, false, &binding, &err), 0);
	assert_null(binding);
	/* Processors that only the agent finds. */
	r.init.launch.tres_bind = "gpu:closest";
	r.init.launch.cpu_bind_type = SLURM_CPU_BY_RANK;
	assert_int_equal(gres_binding_new(&r.init, false, &binding, &err), -EOPNOTSUPP);
	/* One task has all that the step has. */
	r.init.launch.node_tasks = (struct slurm_array){sizeof(one_task), one_task};
	assert_int_equal(gres_binding_new(&r.init, false, &binding, &err), 0);
	assert_null(binding);
}

/* Those of 22.05 but for single devices, which are shared out as later. */
static void test_bound_between(void **state)
{
	static const struct bound_row rows[] = {
		{"gpu:map_gpu:2,0", false, {"2 2 013", "0 0 123", "2 2 013", "0 0 123"}},
		{"gpu:single:1", false, {"0 0 123", "2 2 013", "3 3 012", "0 0 123 error=_get_"}},
		{"gpu:single:2", false, {"0 0 123", "0 0 123", "2 2 013", "2 2 013"}},
		{"gpu:single:1", true, {"0 0 123", "0 0 013", "0 0 012", "0 0 123"}},
		{"gpu:per_task:1", false,
			{"0 0 123", "2 2 013", "3 3 012", "0 0 123 error=Not e error=Bind "}},
		{"gpu:none", false, {"- - 1", "- - 1", "- - 1", "- - 1"}},
	};
	_cleanup_pack_ struct pack conf = {0};
	_cleanup_rig_ struct rig r;
	size_t i;

	(void)state;
	rig_bind_tasks(&r, &conf, SLURM_23_02);
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_row(&r, &rows[i]);
	/* Tasks that are not bound have all processors. */
	r.init.launch.cpu_bind_type = 0;
	r.init.launch.tres_bind = "gpu:closest";
	assert_tasks(&r, false,
		(const char *const[]){
			"0,2,3 0,2,3 1", "0,2,3 0,2,3 1", "0,2,3 0,2,3 1", "0,2,3 0,2,3 1"});
}

/* The rules of 24.11, and what is handed over of it. */
static void test_bound_later(void **state)
{
	static const struct bound_row rows[] = {
		{"gres/gpu:map:2,0+gres/nic:map:3,1,2", false,
			{"2 2 013", "0 0 123", "2 2 013", "0 0 123"}},
		{"gres/gpu:map_gpu:2,0", true, {"0 0 012", "0 0 123", "0 0 012", "0 0 123"}},
		{"gres/gpu:map:1,9", false,
			{"0 0 123 error=Bind ", "0 0 123 error=Inval error=Bind ",
				"0 0 123 error=Bind ", "0 0 123 error=Inval error=Bind "}},
		{"gres/gpu:mask:0x5,0x8", false,
			{"0,2 0,2 13", "3 3 012", "0,2 0,2 13", "3 3 012"}},
		{"gres/gpu:closest", false,
			{"0,3 0,3 12", "3 3 012", "2,3 2,3 01", "0,2,3 0,2,3 1"}},
		{"gres/gpu:single:1", false,
			{"0 0 123", "2 2 013", "3 3 012", "0 0 123 error=_get_"}},
		{"gres/gpu:single:2", false, {"0 0 123", "0 0 123", "2 2 013", "2 2 013"}},
		{"gres/gpu:single:1", true, {"0 0 123", "0 0 013", "0 0 012", "0 0 123"}},
		{"gres/gpu:per_task:1", false,
			{"0 0 123", "3 3 012", "2 2 013", "0 0 123 error=Not e error=Bind "}},
		{"gres/gpu:per_task:2", true,
			{"0,2 0,1 12", "0,2 0,1 013", "0,2 0,1 123", "0,2 0,1 123"}},
		{"gres/gpu:verbose,map:2", false,
			{"2 2 013 note=gpu-bi", "2 2 013 note=gpu-bi", "2 2 013 note=gpu-bi",
				"2 2 013 note=gpu-bi"}},
		{"gres/gpu:none", false,
			{"0,2,3 0,2,3 1", "0,2,3 0,2,3 1", "0,2,3 0,2,3 1", "0,2,3 0,2,3 1"}},
		{"gres/gpu:none", true, {"0,3 0,2 1", "0,3 0,2 1", "0,3 0,2 1", "0,3 0,2 1"}},
		{"gres/nic:closest", false, {"- - 1", "- - 1", "- - 1", "- - 1"}},
	};
	_cleanup_pack_ struct pack conf = {0};
	struct gres_binding *binding;
	struct err err = ERR_INIT;
	_cleanup_rig_ struct rig r;
	size_t i;

	(void)state;
	rig_bind_tasks(&r, &conf, SLURM_24_11);
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_row(&r, &rows[i]);
	/* Tasks that are not bound have all processors. */
	r.init.launch.cpu_bind_type = 0;
	r.init.launch.tres_bind = "gres/gpu:single:1";
	assert_tasks(&r, false,
		(const char *const[]){"0 0 123", "2 2 013", "3 3 012", "0 0 123 error=_get_"});
	r.init.launch.tres_bind = "gres/gpu:other";
	assert_int_equal(gres_binding_new(&r.init, false, &binding, &err), -EOPNOTSUPP);
	r.init.launch.tres_bind = "gres/gpu:closest";
	r.init.launch.flags = SLURM_FLAG_SHARES_DEVICES;
	assert_int_equal(gres_binding_new(&r.init, false, &binding, &err), -EOPNOTSUPP);
	/* The one task of a step is bound from 26.05 on. */
	r.init.launch.flags = 0;
	r.init.launch.node_tasks = (struct slurm_array){sizeof(one_task), one_task};
	assert_int_equal(gres_binding_new(&r.init, false, &binding, &err), 0);
	assert_null(binding);
	r.init.frame.release = SLURM_26_05;
	assert_int_equal(gres_binding_new(&r.init, false, &binding, &err), 0);
	assert_non_null(binding);
	(void)gres_binding_free(binding);
}

/* ---- the spec of such a step --------------------------------------------------------------- */

static void rig_bind(struct rig *r, const char *bind)
{
	static const char *const masks[] = {"", "0xd"};
	static const struct site_conf site = {0};
	struct slurm_launch *l = &r->init.launch;

	rig_init(r);
	rig_add_kinds(r, NVML);
	pack_u16(&r->step, 1);
	pack_record(&r->step, true, GPU, masks, 2);
	rig_read(r);
	r->init.site = &site;
	l->id.het_component = SLURM_NO_VAL;
	l->nnodes = 1;
	l->ntasks = 4;
	l->nodes = "n2";
	l->node_tasks = (struct slurm_array){sizeof(four_tasks), four_tasks};
	l->files[0] = l->files[1] = l->files[2] = "/dev/null";
	l->tres_bind = bind;
}

static int make_spec(struct rig *r, const json_t *programs, json_t **ret_doc, struct err *err)
{
	static const uint32_t ranks[] = {0, 1, 2, 3};
	const struct step_spec_input input = {.node = &r->init.conf,
		.launch = &r->init.launch,
		.site = r->init.site,
		.init = &r->init,
		.ranks = ranks,
		.ntasks = 4,
		.tasks = programs,
		.cwd = "/",
		.task_program = "/x/task"};

	return step_spec_make(&input, ret_doc, err);
}

/* A component's lists of ranks are arrays. */
static void test_bound_programs(void **state)
{
	static const char *const expected[] = {"a", "b", "b", "c"};
	json_auto_t *programs = json_pack("[{s:i, s:[s]}, {s:s, s:[s]}, {s:[i], s:[s]}]", "rank", 0,
		"argv", "a", "ranks", "1-2", "argv", "b", "ranks", 3, "argv", "c");
	struct err err = ERR_INIT;
	_cleanup_rig_ struct rig r;
	json_t *doc, *tasks;
	size_t i;

	(void)state;
	assert_non_null(programs);
	rig_bind(&r, "gpu:map_gpu:0");
	if (make_spec(&r, programs, &doc, &err) < 0)
		fail_msg("%s", err.text);
	tasks = json_object_get(doc, "tasks");
	assert_int_equal(json_array_size(tasks), 4);
	for (i = 0; i < 4; i++) {
		const json_t *task = json_array_get(tasks, i);

		assert_int_equal(json_integer_value(json_object_get(task, "rank")), i);
		assert_string_equal(
			json_string_value(json_array_get(json_object_get(task, "argv"), 0)),
			expected[i]);
	}
	json_decref(doc);
}

/* slurmd waits, and it is a process of root's: what a user can have many of is not multiplied. */
static void test_bound_bounds(void **state)
{
	enum {
		SIZE = 17 << 20 /* by four tasks it is too much */
	};
	static const char begin[] = "gpu:verbose,map_gpu:0";
	_cleanup_free_ char *list = malloc(SIZE + 1);
	_cleanup_pack_ struct pack argv = {0};
	struct gres_binding *binding;
	struct err err = ERR_INIT;
	_cleanup_rig_ struct rig r;
	json_t *doc;

	(void)state;
	assert_non_null(list);
	memset(list, ',', SIZE);
	list[SIZE] = '\0';
	pack_text(&argv, list);
	memcpy(list, begin, sizeof(begin) - 1);
	rig_bind(&r, list);
	assert_int_equal(gres_binding_new(&r.init, false, &binding, &err), -E2BIG);
	r.init.launch.tres_bind = begin;
	r.init.launch.argv = (struct slurm_strs){.n = 1,
		.bytes = (const uint8_t *)buffer_bytes(&argv.bytes),
		.size = buffer_size(&argv.bytes)};
	assert_int_equal(make_spec(&r, NULL, &doc, &err), -E2BIG);
}

/* ---- other releases ------------------------------------------------------------------------ */

/* From 24.11 on the devices of a kind without a plugin are in its record. */
static void test_own_devices(void **state)
{
	static const char *const masks[] = {"0x1", "0x2"};
	static const char *const refused[] = {
		"c 231:4", "c 195:0", "c 195:1", "c 195:2", "c 195:3"};
	_cleanup_rig_ struct rig r;

	(void)state;
	rig_init(&r);
	r.release = SLURM_24_11;
	pack_u32(&r.kinds, 2);
	pack_u32(&r.kinds, 1u << 3);
	pack_text(&r.kinds, "naf");
	pack_text(&r.kinds, "naf:");
	pack_u32(&r.kinds, 4);
	pack_text(&r.kinds, NULL);
	pack_devices(&r.kinds, nics, 2);
	pack_u32(&r.kinds, NAF);
	pack_u64(&r.kinds, 2);
	pack_u32(&r.kinds, 0);
	pack_text(&r.kinds, "gpu");
	pack_text(&r.kinds, "gpu:");
	pack_u32(&r.kinds, 4);
	pack_text(&r.kinds, NULL);
	pack_u32(&r.kinds, SLURM_NO_VAL); /* as 25.05 has it, whose record is the same */
	pack_u32(&r.kinds, GPU);
	pack_u64(&r.kinds, 4);
	pack_devices(&r.kinds, gpus, 4);
	pack_u32(&r.kinds, NVML);
	pack_u16(&r.step, 1);
	pack_record(&r.step, true, NAF, masks, 2);
	rig_read(&r);
	assert_devices(&r, refused, 5);
	assert_int_equal(gres_set_env(r.env, &r.init, true), 0);
	assert_env(&r, "SLURM_STEP_GPUS", NULL);
}

/* A device that has a UUID has it in variables; in 25.11 if it is a part of a GPU, MIG, and
 * from 26.05 on if gres.conf says so. */
static void test_uuids(void **state)
{
	static const char *const masks[] = {"", "0x1"};
	static const struct {
		uint16_t release;
		uint32_t of_device, flags;
		const char *value;
	} rows[] = {
		{SLURM_25_05, 0, NVML, "GPU-a"},
		{SLURM_25_11, 0, NVML, "0"},
		{SLURM_25_11, 1, NVML, "GPU-a"},
		{SLURM_26_05, 1, NVML, "0"},
		{SLURM_26_05, 0, NVML | 1u << 14, "GPU-a"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_rig_ struct rig r;

		rig_init(&r);
		r.release = rows[i].release;
		pack_u32(&r.kinds, 1);
		pack_u32(&r.kinds, 2);
		pack_text(&r.kinds, "gpu");
		pack_text(&r.kinds, "gpu:");
		pack_u32(&r.kinds, 4);
		pack_text(&r.kinds, NULL);
		pack_u32(&r.kinds, SLURM_NO_VAL);
		pack_u32(&r.kinds, GPU);
		pack_u64(&r.kinds, 1);
		pack_devices(&r.kinds,
			(const struct device[]){{0, 0, 2, 195, 0, "/dev/nvidia0", "GPU-a"}}, 1);
		if (rows[i].release >= SLURM_25_11)
			pack_u32(&r.kinds, rows[i].of_device);
		pack_u32(&r.kinds, rows[i].flags);
		pack_u16(&r.step, 1);
		pack_record(&r.step, true, GPU, masks, 2);
		rig_read(&r);
		assert_int_equal(gres_set_env(r.env, &r.init, false), 0);
		assert_env(&r, "CUDA_VISIBLE_DEVICES", rows[i].value);
		assert_env(&r, "SLURM_STEP_GPUS", "0");
	}
}

/* ---- what is wrong ------------------------------------------------------------------------- */

static void test_cut(void **state)
{
	_cleanup_rig_ struct rig r;
	struct gres_kinds kinds;
	struct err err = ERR_INIT;
	size_t size, n;

	(void)state;
	rig_init(&r);
	rig_add_kinds(&r, NVML);
	n = buffer_size(&r.kinds.bytes);
	for (size = 0; size < n; size++) {
		_cleanup_free_ void *bytes = malloc(size + 1);

		assert_non_null(bytes);
		memcpy(bytes, buffer_bytes(&r.kinds.bytes), size);
		assert_int_equal(gres_read_kinds(bytes, size, SLURM_22_05, &kinds, &err), -EBADMSG);
	}
	pack_u8(&r.kinds, 0); /* of a plugin that is not known */
	assert_int_equal(
		gres_read_kinds(buffer_bytes(&r.kinds.bytes), n + 1, SLURM_22_05, &kinds, &err),
		-EBADMSG);
}

static void test_wrong_bits(void **state)
{
	static const char *const masks[] = {"0x1", "0xg"};
	_cleanup_rig_ struct rig r;
	struct err err = ERR_INIT;

	(void)state;
	rig_init(&r);
	rig_add_kinds(&r, NVML);
	rig_read(&r);
	pack_u16(&r.step, 1);
	pack_record(&r.step, true, GPU, masks, 2);
	r.init.launch.step_gres = read_records(&r.step, true);
	assert_int_equal(gres_check(&r.init, &err), -EBADMSG);
	r.init.conf.node_name = "n9";
	assert_true(gres_check(&r.init, &err) < 0);
	r.init.conf.node_name = "n1";
	assert_int_equal(gres_check(&r.init, &err), 0);
}

static void test_reason(void **state)
{
	struct slurm_init init = {.launch.id.job = 7};
	char text[SLURM_REASON_SIZE];

	(void)state;
	(void)err_set_text(&init.gres_err, -EOPNOTSUPP, "no");
	slurm_reason_print(&init, SLURM_REASON_GRES, text);
	assert_string_equal(text, "its generic resources (GRES) are not served: no");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_step),
		cmocka_unit_test(test_step_without),
		cmocka_unit_test(test_script),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_count),
		cmocka_unit_test(test_mps),
		cmocka_unit_test(test_shard),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_bound_between),
		cmocka_unit_test(test_bound_later),
		cmocka_unit_test(test_bound_programs),
		cmocka_unit_test(test_bound_bounds),
		cmocka_unit_test(test_own_devices),
		cmocka_unit_test(test_uuids),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_wrong_bits),
		cmocka_unit_test(test_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
