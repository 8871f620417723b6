/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The limits that a step has by its credential and cgroup.conf, and what is against having them.
 */
#include "contrib/slurm/step_limits.h"

#include <endian.h>
#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "contrib/slurm/decision.h"
#include "contrib/slurm/job_cgroup.h"
#include "contrib/slurm/site_conf.h"
#include "stepd/base/fs.h"
#include "tests/lib/scratch.h"

#define MIB (UINT64_C(1) << 20)

/* Numbers as a message has them. */
struct packed {
	uint16_t u16[16];
	uint32_t u32[16];
};

static struct slurm_array pack_u16(uint16_t *to, const uint16_t *values, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		to[i] = htobe16(values[i]);
	return (struct slurm_array){n, (const uint8_t *)to};
}

static struct slurm_array pack_u32(uint32_t *to, const uint32_t *values, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		to[i] = htobe32(values[i]);
	return (struct slurm_array){n, (const uint8_t *)to};
}

/* ---- a node and its scope ------------------------------------------------------------------ */

/* n3, of a job on three nodes of 2 x 2 cores with two threads, and one before of 1 x 2; the machine
 * numbers the cores' first threads before the second ones. */
struct rig {
	char *dir, *scope;
	struct packed cores[3], map;
	struct slurm_init init;
};

static void rig_init(struct rig *r)
{
	static const uint16_t per_socket[] = {2, 2}, sockets[] = {1, 2};
	static const uint32_t reps[] = {1, 3};
	static const uint16_t map[] = {0, 4, 1, 5, 2, 6, 3, 7};

	*r = (struct rig){.dir = scratch_make()};
	r->init = (struct slurm_init){.conf = {.node_name = "n3",
					      .sockets = 2,
					      .cores = 2,
					      .threads = 2,
					      .memory_mb = 1000},
		.cgroup = {.allowed_memory = 100,
			.max_memory = 100,
			.max_swap = 100,
			.min_memory_mb = 30,
			.mount = r->dir,
			.slice = "system.slice",
			.job_id_paths = true},
		.launch.cores = {.nhosts = 4, .hosts = "n[1-4]"}};
	r->init.conf.block_map = pack_u16(r->map.u16, map, 8);
	r->init.launch.cores.per_socket = pack_u16(r->cores[0].u16, per_socket, 2);
	r->init.launch.cores.sockets = pack_u16(r->cores[1].u16, sockets, 2);
	r->init.launch.cores.reps = pack_u32(r->cores[2].u32, reps, 2);
	/* 2 + 4 + 4 + 4 cores: n3's are those from 6 on. */
	r->init.launch.cores.step = (struct slurm_bits){14, "0x0140"};
	r->scope = scratch_path(r->dir, "system.slice/n3_slurmstepd.scope");
}

static void rig_make_scope(const struct rig *r, const char *controllers)
{
	_cleanup_free_ char *slice = scratch_path(r->dir, "system.slice");

	assert_int_equal(mkdir(slice, 0755), 0);
	assert_int_equal(mkdir(r->scope, 0755), 0);
	scratch_write(r->scope, "cgroup.controllers", controllers, strlen(controllers), 0644);
}

static void rig_clear(struct rig *r)
{
	scratch_remove(r->dir);
	free(r->scope);
	free(r->dir);
}
#define _cleanup_rig_ _cleanup_(rig_clear)

static void assert_refused(const struct rig *r, const char *why)
{
	_cleanup_step_limits_ struct step_limits limits = {0};
	struct err err = ERR_INIT;

	assert_true(step_limits_find(&r->init, &limits, &err) < 0);
	if (!strstr(err.text, why))
		fail_msg("'%s' is not in '%s'", why, err.text);
}

/* ---- cores --------------------------------------------------------------------------------- */

static void assert_cpus(struct rig *r, const char *node, const char *mask, const char *cpus)
{
	_cleanup_step_limits_ struct step_limits limits = {0};
	struct err err = ERR_INIT;

	r->init.conf.node_name = node;
	r->init.launch.cores.step.mask = mask;
	if (step_limits_find(&r->init, &limits, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(limits.cpus, cpus);
	assert_true(!limits.has_memory && !limits.has_swap && !limits.scope);
}

static void test_cpus(void **state)
{
	_cleanup_rig_ struct rig r;
	_cleanup_free_ char *plain = NULL;

	(void)state;
	rig_init(&r);
	plain = scratch_path(r.dir, "system.slice/slurmstepd.scope");
	rig_make_scope(&r, "cpuset memory\n");
	r.init.cgroup.constrains_cores = true;
	assert_cpus(&r, "n3", "0x0140", "0,2,4,6"); /* cores 0 and 2 */
	assert_cpus(&r, "n3", "0x3fff", "0-7");
	assert_cpus(&r, "n3", "0x0200", "3,7");
	/* The others', by the scope of a Slurm that is not built for several slurmds. */
	assert_int_equal(rename(r.scope, plain), 0);
	assert_cpus(&r, "n1", "0x0002", "1,5");
	assert_cpus(&r, "n2", "0x0004", "0,4");
	assert_cpus(&r, "n4", "0x2000", "3,7");
	/* More CPUs than the machine has: they are counted round. */
	r.init.conf.block_map.n = 2;
	assert_cpus(&r, "n4", "0x2000", "0");
}

/* --oom-kill-step, where memory is limited. */
static void test_oom_kill_step(void **state)
{
	_cleanup_step_limits_ struct step_limits limits = {0}, others = {0};
	json_auto_t *doc = json_object();
	struct err err = ERR_INIT;
	_cleanup_rig_ struct rig r;

	(void)state;
	rig_init(&r);
	rig_make_scope(&r, "cpuset memory\n");
	r.init.cgroup.constrains_memory = true;
	r.init.launch.oom_kill_step = 1;
	assert_int_equal(step_limits_find(&r.init, &limits, &err), 0);
	assert_int_equal(step_limits_set(doc, &limits), 0);
	assert_true(
		json_is_true(json_object_get(json_object_get(doc, "limits"), "memory_oom_group")));
	r.init.launch.nnodes = 2;
	assert_refused(&r, "--oom-kill-step");
	r.init.cgroup.constrains_memory = false;
	r.init.cgroup.constrains_cores = true;
	assert_int_equal(step_limits_find(&r.init, &others, &err), 0);
	assert_false(others.kills_all);
}

static void test_no_cpus(void **state)
{
	_cleanup_rig_ struct rig r;
	struct slurm_cores *cores = &r.init.launch.cores;

	(void)state;
	rig_init(&r);
	rig_make_scope(&r, "cpuset memory\n");
	r.init.cgroup.constrains_cores = true;
	cores->step.mask = "0x003f";
	assert_refused(&r, "no cores of this node");
	cores->step.mask = NULL;
	assert_refused(&r, "read the credential's cores");
	cores->step.mask = "0x40"; /* cut off */
	assert_refused(&r, "read the credential's cores");
	cores->step.mask = "0x0x40";
	assert_refused(&r, "read the credential's cores");
	cores->step = (struct slurm_bits){8, "0xff"};
	assert_refused(&r, "no cores of this node");
	cores->step = (struct slurm_bits){14, "0x3fff"};
	r.init.conf.sockets = 1;
	assert_refused(&r, "core 2 of this node, which slurmd has not");
	r.init.conf.sockets = 2;
	r.init.conf.block_map.n = 0;
	assert_refused(&r, "no cores of this node");
	r.init.conf.block_map.n = 8;
	r.init.conf.node_name = "n5";
	assert_refused(&r, "find node 'n5' among those of the job, 'n[1-4]'");
	r.init.conf.node_name = NULL;
	assert_refused(&r, "find node ''");
}

/* Counts that nobody would send: their sums must not come round. */
static void test_large_counts(void **state)
{
	static const uint16_t most[] = {UINT16_MAX, UINT16_MAX, UINT16_MAX};
	static const uint32_t reps[] = {1, UINT32_MAX, UINT32_MAX};
	_cleanup_rig_ struct rig r;
	struct slurm_cores *cores = &r.init.launch.cores;

	(void)state;
	rig_init(&r);
	r.init.cgroup.constrains_cores = true;
	cores->per_socket = pack_u16(r.cores[0].u16, most, 3);
	cores->sockets = pack_u16(r.cores[1].u16, most, 3);
	cores->reps = pack_u32(r.cores[2].u32, reps, 3);
	assert_refused(&r, "no cores of this node");
	cores->step.n = UINT32_MAX - 2;
	assert_refused(&r, "no cores of this node");
	cores->per_socket.n = cores->sockets.n = cores->reps.n = 0;
	assert_refused(&r, "no cores of this node");
}

/* ---- memory -------------------------------------------------------------------------------- */

static void test_memory(void **state)
{
	static const struct {
		bool memory, swap;
		double allowed, most, allowed_swap, most_swap;
		uint64_t least_mb, job_mb, step_mb;
		/* high_mb 0: as memory_mb; swap_mb UINT64_MAX: no limit */
		uint64_t memory_mb, high_mb, swap_mb;
	} rows[] = {
		/* What is allocated, of which the job's and the step's both count. */
		{true, false, 100, 100, 0, 100, 30, 400, 300, 300, 0, UINT64_MAX},
		{true, false, 100, 100, 0, 100, 30, 200, 300, 200, 0, UINT64_MAX},
		{true, false, 100, 100, 0, 100, 30, 200, 0, 200, 0, UINT64_MAX},
		{true, false, 100, 100, 0, 100, 30, 0, 300, 300, 0, UINT64_MAX},
		/* Nothing is: the node's, whatever part of an allocation is allowed. */
		{true, false, 50, 100, 0, 100, 30, 0, 0, 1000, 0, UINT64_MAX},
		{true, false, 100, 80, 0, 100, 30, 0, 0, 800, 0, UINT64_MAX},
		/* Parts: above what is allocated tasks are slowed down. */
		{true, false, 150, 100, 0, 100, 30, 400, 400, 600, 400, UINT64_MAX},
		{true, false, 50, 100, 0, 100, 30, 400, 400, 200, 0, UINT64_MAX},
		{true, false, 150, 45, 0, 100, 30, 400, 400, 450, 400, UINT64_MAX},
		{true, false, 100, 100, 0, 100, 30, 400, 10, 30, 0, UINT64_MAX},
		{true, false, 100, 100, 0, 100, 30, 5000, 5000, 1000, 0, UINT64_MAX},
		/* Swap, in addition. */
		{true, true, 100, 100, 0, 100, 30, 400, 400, 400, 0, 0},
		{true, true, 100, 100, 25, 100, 30, 400, 400, 400, 0, 100},
		{true, true, 150, 100, 25, 100, 30, 400, 400, 600, 400, 100},
		{true, true, 100, 40, 50, 5, 30, 400, 400, 400, 0, 50},
		{true, true, 100, 100, 50, 100, 30, 0, 0, 1000, 0, 500},
		/* Swap alone: the memory is limited to both. */
		{false, true, 50, 100, 25, 100, 30, 400, 400, 500, 400, 100},
		{false, true, 50, 100, 0, 100, 30, 400, 400, 400, 0, 0},
		/* The flag of memory for each processor, which slurmstepd does not know. */
		{true, false, 100, 100, 0, 100, 30, 0, SLURM_MEMORY_PER_CPU | 100, 1000, 0,
			UINT64_MAX},
	};
	_cleanup_rig_ struct rig r;
	struct err err = ERR_INIT;
	size_t i;

	(void)state;
	rig_init(&r);
	rig_make_scope(&r, "cpuset memory\n");
	scratch_write(r.scope, "memory.swap.max", "max\n", 4, 0644);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_step_limits_ struct step_limits limits = {0};
		struct slurm_cgroup_conf *c = &r.init.cgroup;

		c->constrains_memory = rows[i].memory;
		c->constrains_swap = rows[i].swap;
		c->allowed_memory = rows[i].allowed;
		c->max_memory = rows[i].most;
		c->allowed_swap = rows[i].allowed_swap;
		c->max_swap = rows[i].most_swap;
		c->min_memory_mb = rows[i].least_mb;
		r.init.launch.job_memory_mb = rows[i].job_mb;
		r.init.launch.step_memory_mb = rows[i].step_mb;
		if (step_limits_find(&r.init, &limits, &err) < 0)
			fail_msg("row %zu: %s", i, err.text);
		if (limits.step.max_bytes != rows[i].memory_mb * MIB ||
			limits.step.high_bytes !=
				(rows[i].high_mb ? rows[i].high_mb : rows[i].memory_mb) * MIB ||
			limits.has_swap != (rows[i].swap_mb != UINT64_MAX) ||
			(limits.has_swap && limits.step.swap_bytes != rows[i].swap_mb * MIB))
			fail_msg("row %zu: memory %llu, high %llu, swap %llu", i,
				(unsigned long long)limits.step.max_bytes,
				(unsigned long long)limits.step.high_bytes,
				(unsigned long long)limits.step.swap_bytes);
		assert_null(limits.cpus);
	}
}

/* A script's message has the job's in its credential, an extern step's has nothing of a step's. */
static void test_memory_of_job(void **state)
{
	static const enum slurm_step_kind kinds[] = {SLURM_KIND_BATCH, SLURM_KIND_EXTERN};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		_cleanup_step_limits_ struct step_limits limits = {0};
		_cleanup_rig_ struct rig r;
		struct err err = ERR_INIT;

		rig_init(&r);
		rig_make_scope(&r, "memory");
		r.init.cgroup.constrains_memory = true;
		r.init.launch.kind = kinds[i];
		r.init.launch.cred_memory_mb = kinds[i] == SLURM_KIND_BATCH ? 70 : 0;
		r.init.launch.job_memory_mb = kinds[i] == SLURM_KIND_EXTERN ? 70 : 0;
		r.init.launch.step_memory_mb = 0;
		assert_int_equal(step_limits_find(&r.init, &limits, &err), 0);
		assert_true(limits.step.max_bytes == 70 * MIB && limits.job.max_bytes == 70 * MIB);
	}
}

static void test_no_memory(void **state)
{
	_cleanup_rig_ struct rig r;

	(void)state;
	rig_init(&r);
	rig_make_scope(&r, "memory");
	r.init.cgroup.constrains_memory = true;
	r.init.conf.memory_mb = 0;
	assert_refused(&r, "does not know the node's memory");
	r.init.conf.memory_mb = 1000;
	r.init.cgroup.max_memory = 0;
	r.init.cgroup.min_memory_mb = 0;
	assert_refused(&r, "a limit of 0 bytes");
	r.init.cgroup.max_memory = -1; /* and what a message could have else */
	assert_refused(&r, "bytes of memory");
	r.init.conf.memory_mb = UINT64_MAX;
	r.init.cgroup.max_memory = 1e30;
	assert_refused(&r, "bytes of memory");
	r.init.cgroup.constrains_swap = true;
	r.init.conf.memory_mb = 1000;
	r.init.cgroup.max_memory = 100;
	assert_refused(&r, "counts no swap");
}

/* ---- the container ------------------------------------------------------------------------- */

static void test_scope(void **state)
{
	_cleanup_rig_ struct rig r;

	(void)state;
	rig_init(&r);
	r.init.cgroup.constrains_memory = true;
	assert_refused(&r, "system.slice/slurmstepd.scope'");
	rig_make_scope(&r, "cpu io memoryx\n");
	assert_refused(&r, "n3_slurmstepd.scope' has no memory controller");
	r.init.cgroup.constrains_memory = false;
	r.init.cgroup.constrains_cores = true;
	assert_refused(&r, "n3_slurmstepd.scope' has no cpuset controller");
}

static void test_nothing(void **state)
{
	_cleanup_step_limits_ struct step_limits limits = {0};
	_cleanup_rig_ struct rig r;
	struct err err = ERR_INIT;

	(void)state;
	rig_init(&r);
	assert_int_equal(step_limits_find(&r.init, &limits, &err), 0);
	assert_false(limits.any); /* nor is there a scope */
}

static void test_document(void **state)
{
	const struct step_limits limits = {.cgroup_root = (char *)"/c",
		.cpus = (char *)"0,2",
		.has_memory = true,
		.step = {.max_bytes = 5, .high_bytes = 4},
		.has_swap = true};
	json_auto_t *doc = json_object();
	json_auto_t *wanted = json_pack("{s:{s:s, s:i, s:i, s:i}, s:s, s:s, s:s, s:s}", "limits",
		"cpuset_cpus", "0,2", "memory_max_bytes", 5, "memory_high_bytes", 4,
		"memory_swap_max_bytes", 0, "limits_mode", "strict", "proctrack", "cgroup",
		"cgroup_root", "/c", "scope", "no");

	(void)state;
	assert_int_equal(step_limits_set(doc, &limits), 0);
	assert_true(json_equal(doc, wanted));
}

/* ---- the job's cgroup ---------------------------------------------------------------------- */

/* The job's limit is its own, whatever the step's is; its cgroup is in slurmd's scope. */
static void test_job_memory(void **state)
{
	_cleanup_step_limits_ struct step_limits limits = {0};
	_cleanup_free_ char *job = NULL;
	_cleanup_rig_ struct rig r;
	struct err err = ERR_INIT;

	(void)state;
	rig_init(&r);
	rig_make_scope(&r, "memory");
	job = scratch_path(r.scope, "job_7");
	r.init.launch.id.job = 7;
	r.init.cgroup.constrains_memory = true;
	r.init.cgroup.allowed_memory = 150;
	r.init.launch.job_memory_mb = 400;
	r.init.launch.step_memory_mb = 100;
	assert_int_equal(step_limits_find(&r.init, &limits, &err), 0);
	assert_true(limits.step.max_bytes == 150 * MIB && limits.step.high_bytes == 100 * MIB);
	assert_true(limits.job.max_bytes == 600 * MIB && limits.job.high_bytes == 400 * MIB);
	assert_string_equal(limits.scope, r.scope);
	assert_string_equal(limits.cgroup_root, job);
}

/* The name of a job of 26.05, and the site's own slice. */
static void test_job_sluid(void **state)
{
	_cleanup_step_limits_ struct step_limits limits = {0};
	_cleanup_free_ char *scope = NULL, *job = NULL, *slice = NULL;
	_cleanup_rig_ struct rig r;
	struct err err = ERR_INIT;

	(void)state;
	rig_init(&r);
	slice = scratch_path(r.dir, "site.slice");
	scope = scratch_path(slice, "n3_slurmstepd.scope");
	job = scratch_path(scope, "s000000000017Z");
	assert_int_equal(mkdir(slice, 0755), 0);
	assert_int_equal(mkdir(scope, 0755), 0);
	scratch_write(scope, "cgroup.controllers", "memory", strlen("memory"), 0644);
	r.init.launch.id.job = 7;
	r.init.launch.id.sluid = 1279; /* 1, 7, 31 by five bits */
	r.init.cgroup.slice = "site.slice";
	r.init.cgroup.job_id_paths = false;
	r.init.cgroup.constrains_memory = true;
	r.init.launch.job_memory_mb = 400;
	assert_int_equal(step_limits_find(&r.init, &limits, &err), 0);
	assert_string_equal(limits.cgroup_root, job);
	assert_true(step_limits_is_job_name("s000000000017Z"));
}

static void test_job_names(void **state)
{
	(void)state;
	assert_true(step_limits_is_job_name("job_7"));
	assert_true(step_limits_is_job_name("sGJ3Z4T1B5E2G0"));
	assert_false(step_limits_is_job_name("system"));
	assert_false(step_limits_is_job_name("sGJ3Z4T1B5E2G"));
	assert_false(step_limits_is_job_name("sGJ3Z4T1B5E2GO"));
	assert_false(step_limits_is_job_name("xGJ3Z4T1B5E2G0"));
	assert_false(step_limits_is_job_name(""));
}

/* A job of 26.05 may get less while it runs, and its steps have no more than it. */
static void test_job_shrinks(void **state)
{
	struct step_limits limits = {0};
	json_auto_t *values = json_object();
	json_auto_t *wanted = json_pack(
		"{s:i, s:i}", "memory_max_bytes", 60 * MIB, "memory_high_bytes", 60 * MIB);
	_cleanup_rig_ struct rig r;
	struct err err = ERR_INIT;

	(void)state;
	rig_init(&r);
	r.init.launch.job_memory_mb = 400;
	r.init.launch.step_memory_mb = 100;
	assert_int_equal(step_limits_job_mb(&r.init.launch), 400);
	assert_int_equal(step_limits_find_memory(&r.init, 200, &limits, &err), 0);
	assert_true(limits.job.max_bytes == 200 * MIB && limits.step.max_bytes == 100 * MIB);
	assert_int_equal(step_limits_find_memory(&r.init, 60, &limits, &err), 0);
	assert_true(limits.job.max_bytes == 60 * MIB && limits.step.max_bytes == 60 * MIB);
	assert_int_equal(step_limits_set_memory(values, &limits), 0);
	assert_true(json_equal(values, wanted));
}

/* Files in the place of the kernel's, which are not removed with their directory. */
static void make_group(const char *scope, const char *job)
{
	static const char *const files[] = {"memory.high", "memory.max", "memory.swap.max"};
	_cleanup_free_ char *path = scratch_path(scope, job);
	size_t i;

	assert_int_equal(mkdir(path, 0755), 0);
	for (i = 0; i < ARRAY_SIZE(files); i++)
		scratch_write(path, files[i], "", 0, 0644);
}

static void assert_file(const char *scope, const char *job, const char *file, const char *wanted)
{
	_cleanup_free_ char *path = scratch_path(scope, job), *text = NULL, *name = NULL;

	name = scratch_path(path, file);
	assert_int_equal(fs_read(AT_FDCWD, name, 64, &text, NULL), 0);
	assert_string_equal(text, wanted);
}

static void test_job_limits(void **state)
{
	_cleanup_rig_ struct rig r;
	_cleanup_free_ char *root = NULL;
	struct step_limits limits = {.has_memory = true,
		.job = {.max_bytes = 5 * MIB, .high_bytes = 4 * MIB, .swap_bytes = 3}};
	struct job_cgroup *cgroup = NULL;
	struct err err = ERR_INIT;

	(void)state;
	rig_init(&r);
	rig_make_scope(&r, "memory");
	make_group(r.scope, "job_7");
	limits.scope = r.scope;
	limits.cgroup_root = root = scratch_path(r.scope, "job_7");
	assert_int_equal(job_cgroup_open(&limits, &cgroup, &err), 0);
	assert_file(r.scope, "job_7", "memory.max", "5242880");
	assert_file(r.scope, "job_7", "memory.high", "4194304");
	assert_file(r.scope, "job_7", "memory.swap.max", "");
	cgroup = job_cgroup_close(cgroup);
	limits.has_swap = true;
	assert_int_equal(job_cgroup_open(&limits, &cgroup, &err), 0);
	assert_file(r.scope, "job_7", "memory.swap.max", "3");
	limits.job.max_bytes = 3 * MIB;
	assert_int_equal(job_cgroup_set(cgroup, &limits, &err), 0);
	assert_file(r.scope, "job_7", "memory.max", "3145728");
	cgroup = job_cgroup_close(cgroup);
	/* Without the controller. */
	free(root);
	limits.cgroup_root = root = scratch_path(r.scope, "job_8");
	assert_int_equal(job_cgroup_open(&limits, &cgroup, &err), -ENOENT);
	assert_non_null(strstr(err.text, "/job_8/memory.high'"));
	assert_int_equal(access(root, F_OK), -1);
}

/* As the kernel removes a group's files with it. */
static void remove_files(const char *scope, const char *job)
{
	static const char *const files[] = {"memory.high", "memory.max", "memory.swap.max"};
	_cleanup_free_ char *path = scratch_path(scope, job);
	size_t i;

	for (i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_free_ char *file = scratch_path(path, files[i]);

		assert_int_equal(unlink(file), 0);
	}
}

/* Another step of the job, in a process of its own; it ends when the pipe is closed. */
static pid_t begin_step(const struct step_limits *limits, int *ret_fd)
{
	struct job_cgroup *cgroup = NULL;
	struct err err = ERR_INIT;
	int begun[2], end[2];
	char byte = 0;
	pid_t pid;

	assert_int_equal(pipe(begun) | pipe(end), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)close(end[1]);
		byte = (char)job_cgroup_open(limits, &cgroup, &err);
		(void)!write(begun[1], &byte, 1);
		(void)!read(end[0], &byte, 1);
		(void)job_cgroup_close(cgroup);
		_exit(0);
	}
	(void)close(begun[1]);
	(void)close(end[0]);
	assert_int_equal(read(begun[0], &byte, 1), 1);
	assert_int_equal(byte, 0);
	(void)close(begun[0]);
	*ret_fd = end[1];
	return pid;
}

static void make_dir(const char *scope, const char *name)
{
	_cleanup_free_ char *path = scratch_path(scope, name);

	assert_int_equal(mkdir(path, 0755), 0);
}

static bool has_dir(const char *scope, const char *name)
{
	_cleanup_free_ char *path = scratch_path(scope, name);

	return access(path, F_OK) == 0;
}

/* The last step removes it, and what killed programs have left; a job with a step stays. */
static void test_job_removed(void **state)
{
	_cleanup_rig_ struct rig r;
	_cleanup_free_ char *root = NULL;
	struct step_limits limits = {.has_memory = true};
	struct job_cgroup *cgroup = NULL;
	struct err err = ERR_INIT;
	int end_fd = -1, status;
	pid_t pid;

	(void)state;
	rig_init(&r);
	rig_make_scope(&r, "memory");
	make_group(r.scope, "job_7");
	make_dir(r.scope, "job_7/served_1");
	make_dir(r.scope, "job_8");
	make_dir(r.scope, "job_8/served_2");
	make_dir(r.scope, "job_9");
	make_dir(r.scope, "job_9/step_0");
	make_dir(r.scope, "system");
	limits.scope = r.scope;
	limits.cgroup_root = root = scratch_path(r.scope, "job_7");
	assert_int_equal(job_cgroup_open(&limits, &cgroup, &err), 0);
	pid = begin_step(&limits, &end_fd);
	remove_files(r.scope, "job_7");
	cgroup = job_cgroup_close(cgroup);
	assert_true(has_dir(r.scope, "job_7"));
	assert_false(has_dir(r.scope, "job_7/served_1"));
	assert_false(has_dir(r.scope, "job_8"));
	(void)close(end_fd);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_false(has_dir(r.scope, "job_7"));
	assert_true(has_dir(r.scope, "job_9/step_0"));
	assert_true(has_dir(r.scope, "system"));
}

/* Where both programs of a step were killed, the next step's begin removes the group. */
static void test_job_swept(void **state)
{
	_cleanup_rig_ struct rig r;
	_cleanup_free_ char *root = NULL;
	struct step_limits limits = {.has_memory = true};
	struct job_cgroup *cgroup = NULL;
	struct err err = ERR_INIT;

	(void)state;
	rig_init(&r);
	rig_make_scope(&r, "memory");
	make_group(r.scope, "job_7");
	limits.scope = r.scope;
	limits.cgroup_root = root = scratch_path(r.scope, "job_7");
	assert_int_equal(job_cgroup_open(&limits, &cgroup, &err), 0);
	remove_files(r.scope, "job_7");
	make_dir(r.scope, "job_8");
	make_dir(r.scope, "job_8/served_2");
	make_dir(r.scope, "job_9");
	make_dir(r.scope, "job_9/step_0");
	job_cgroup_sweep(cgroup);
	assert_false(has_dir(r.scope, "job_8"));
	assert_true(has_dir(r.scope, "job_9/step_0"));
	assert_true(has_dir(r.scope, "job_7")); /* it is held */
	cgroup = job_cgroup_close(cgroup);
	assert_false(has_dir(r.scope, "job_7"));
	job_cgroup_sweep(NULL);
}

/* Who has slurmstepd's lock is not waited for: the next step's end removes the group. */
static void test_job_locked(void **state)
{
	_cleanup_rig_ struct rig r;
	_cleanup_free_ char *root = NULL;
	struct step_limits limits = {.has_memory = true};
	struct job_cgroup *cgroup = NULL;
	struct err err = ERR_INIT;
	int fd;

	(void)state;
	rig_init(&r);
	rig_make_scope(&r, "memory");
	make_group(r.scope, "job_7");
	limits.scope = r.scope;
	limits.cgroup_root = root = scratch_path(r.scope, "job_7");
	fd = open(r.scope, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0);
	assert_int_equal(job_cgroup_open(&limits, &cgroup, &err), 0);
	remove_files(r.scope, "job_7");
	cgroup = job_cgroup_close(cgroup);
	assert_true(has_dir(r.scope, "job_7"));
	(void)close(fd);
	make_group(r.scope, "job_8");
	free(root);
	limits.cgroup_root = root = scratch_path(r.scope, "job_8");
	assert_int_equal(job_cgroup_open(&limits, &cgroup, &err), 0);
	cgroup = job_cgroup_close(cgroup);
	assert_false(has_dir(r.scope, "job_7"));
}

/* ---- cgroup.conf --------------------------------------------------------------------------- */

/* As slurmd 22.05.8 has packed it. */
static const char recorded[] =
	"\x01\x01\0\0\0\x0f/sys/fs/cgroup\0\0\0\0\x0a/slurm_%n\0"
	"\1\1\x4c\xe4\xe1\xc0\x4c\xab\xa9\x50\0\0\0\0\0\0\0\x28" /* 120 %, 90 %, 40 MB */
	"\0\xc9\x74\x24\0\x4c\xbe\xbc\x20\0\0\0\0\0\0\0\x1e"
	"\1\x4b\xbe\xbc\x20\x4c\x3e\xbc\x20\xff\xff\xff\xff\xff\xff\xff\xfe" /* 25 %, 50 % */
	"\1\0\0\0\x0a"
	"cgroup/v2\0\0\0";

static void test_conf(void **state)
{
	struct slurm_frame frame = {
		.release = SLURM_22_05, .cgroup = {.at = 0, .size = sizeof(recorded) - 1}};
	struct slurm_cgroup_conf conf;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(slurm_init_decode_cgroup(recorded, &frame, &conf, &err), 0);
	assert_true(conf.constrains_cores && conf.constrains_memory && conf.constrains_swap &&
		conf.constrains_devices);
	assert_true(conf.allowed_memory == 120 && conf.max_memory == 90);
	assert_true(conf.allowed_swap == 25 && conf.max_swap == 50);
	assert_int_equal(conf.min_memory_mb, 40);
	assert_string_equal(conf.mount, "/sys/fs/cgroup");
	assert_string_equal(conf.slice, "system.slice");
	assert_true(conf.job_id_paths);
	for (frame.cgroup.size--; frame.cgroup.size > 0; frame.cgroup.size--)
		assert_int_equal(slurm_init_decode_cgroup(recorded, &frame, &conf, &err), -EBADMSG);
	assert_int_equal(slurm_init_decode_cgroup(recorded, &frame, &conf, &err), -EBADMSG);
}

static void test_no_conf(void **state)
{
	const struct slurm_frame frame = {.release = SLURM_22_05, .cgroup = {.at = 0, .size = 1}};
	struct slurm_cgroup_conf conf;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(slurm_init_decode_cgroup("", &frame, &conf, &err), 0);
	assert_false(conf.constrains_cores || conf.constrains_memory || conf.constrains_swap ||
		conf.constrains_devices);
	assert_string_equal(conf.mount, "/sys/fs/cgroup");
}

/* ---- the decision -------------------------------------------------------------------------- */

static void test_reason(void **state)
{
	const struct site_conf site = {.limits = true};
	struct slurm_init init = {.frame = {.release = SLURM_22_05, .client_release = SLURM_22_05},
		.chosen = true,
		.site = &site,
		.launch = {.kind = SLURM_KIND_BATCH, .cred_release = SLURM_22_05}};
	char text[SLURM_REASON_SIZE];

	(void)state;
	assert_int_equal(slurm_decide(&init), SLURM_REASON_NONE);
	(void)err_set_text(&init.limits_err, -EOPNOTSUPP, "no scope");
	assert_int_equal(slurm_decide(&init), SLURM_REASON_LIMITS);
	slurm_reason_print(&init, SLURM_REASON_LIMITS, text);
	assert_string_equal(text, "its limits (task/cgroup) can't be had here: no scope");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cpus),
		cmocka_unit_test(test_oom_kill_step),
		cmocka_unit_test(test_no_cpus),
		cmocka_unit_test(test_large_counts),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_memory_of_job),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_scope),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_document),
		cmocka_unit_test(test_job_memory),
		cmocka_unit_test(test_job_sluid),
		cmocka_unit_test(test_job_names),
		cmocka_unit_test(test_job_shrinks),
		cmocka_unit_test(test_job_limits),
		cmocka_unit_test(test_job_removed),
		cmocka_unit_test(test_job_swept),
		cmocka_unit_test(test_job_locked),
		cmocka_unit_test(test_conf),
		cmocka_unit_test(test_no_conf),
		cmocka_unit_test(test_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
