/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What differs between the releases of Slurm whose steps are served: inits that slurmd of 24.11 and
 * 26.05 has written, tests/fuzz/corpus/slurm_init, messages, and requests at the step's socket.
 */
#include "contrib/slurm/decision.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "contrib/slurm/batch_spec.h"
#include "contrib/slurm/pmix_settings.h"
#include "contrib/slurm/rpc.h"
#include "contrib/slurm/site_conf.h"
#include "contrib/slurm/site_nodes.h"
#include "contrib/slurm/step_spec.h"
#include "contrib/slurm/wire.h"
#include "stepd/base/fs.h"
#include "tests/lib/scratch.h"

struct recorded {
	char *bytes;
	struct site_conf site;
	struct slurm_frame frame;
	struct slurm_init init;
};

static void recorded_clear(struct recorded *r)
{
	free(r->bytes);
}
#define _cleanup_recorded_ _cleanup_(recorded_clear)

/* One whose kind the site has chosen. */
static void load(struct recorded *r, const char *name)
{
	char path[PATH_MAX];
	size_t size;

	assert_non_null(getenv("top_srcdir"));
	(void)snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/slurm_init/%s",
		getenv("top_srcdir"), name);
	assert_int_equal(fs_read(AT_FDCWD, path, SLURM_INIT_MAX, &r->bytes, &size), 0);
	assert_int_equal(slurm_init_missing(r->bytes, size, &r->frame), 0);
	slurm_init_decode(&r->init, r->bytes, &r->frame, 0);
	assert_int_equal(r->init.error, 0);
	r->init.chosen = true;
	r->init.site = &r->site;
}

/* ---- which are served ---------------------------------------------------------------------- */

static void test_releases(void **state)
{
	static const struct {
		const char *file;
		enum slurm_reason reason;
	} rows[] = {
		{"srun", SLURM_REASON_NONE},
		{"batch", SLURM_REASON_NONE},
		{"srun-23.02", SLURM_REASON_NONE},
		{"batch-23.02", SLURM_REASON_NONE},
		{"gres-23.02", SLURM_REASON_NONE},
		{"interactive-23.02", SLURM_REASON_NONE},
		{"multi_prog-23.02", SLURM_REASON_NONE},
		{"extern-23.02", SLURM_REASON_NONE},
		{"srun-23.11", SLURM_REASON_NONE},
		{"batch-23.11", SLURM_REASON_NONE},
		{"gres-23.11", SLURM_REASON_NONE},
		{"interactive-23.11", SLURM_REASON_NONE},
		{"multi_prog-23.11", SLURM_REASON_NONE},
		{"extern-23.11", SLURM_REASON_NONE},
		{"srun-24.05", SLURM_REASON_NONE},
		{"batch-24.05", SLURM_REASON_NONE},
		{"gres-24.05", SLURM_REASON_NONE},
		{"interactive-24.05", SLURM_REASON_NONE},
		{"multi_prog-24.05", SLURM_REASON_NONE},
		{"extern-24.05", SLURM_REASON_NONE},
		{"srun-24.11", SLURM_REASON_NONE},
		{"batch-24.11", SLURM_REASON_NONE},
		{"gres-24.11", SLURM_REASON_NONE},
		{"container-24.11", SLURM_REASON_CONTAINER},
		{"interactive-24.11", SLURM_REASON_NONE},
		{"multi_prog-24.11", SLURM_REASON_NONE},
		/* The node above is known by its name, which is looked for elsewhere. */
		{"tree-24.11", SLURM_REASON_ADDRESS},
		{"extern-24.11", SLURM_REASON_NONE},
		{"het-24.11", SLURM_REASON_NONE},
		{"srun-25.05", SLURM_REASON_NONE},
		{"batch-25.05", SLURM_REASON_NONE},
		{"gres-25.05", SLURM_REASON_NONE},
		{"interactive-25.05", SLURM_REASON_NONE},
		{"multi_prog-25.05", SLURM_REASON_NONE},
		{"extern-25.05", SLURM_REASON_NONE},
		{"srun-25.11", SLURM_REASON_NONE},
		{"batch-25.11", SLURM_REASON_NONE},
		{"gres-25.11", SLURM_REASON_NONE},
		{"interactive-25.11", SLURM_REASON_NONE},
		{"multi_prog-25.11", SLURM_REASON_NONE},
		{"extern-25.11", SLURM_REASON_NONE},
		{"het-26.05", SLURM_REASON_NONE},
		{"srun-26.05", SLURM_REASON_NONE},
		{"batch-26.05", SLURM_REASON_NONE},
		{"gres-26.05", SLURM_REASON_NONE},
		{"interactive-26.05", SLURM_REASON_NONE},
		{"multi_prog-26.05", SLURM_REASON_NONE},
		{"tree-26.05", SLURM_REASON_ADDRESS},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_recorded_ struct recorded r = {0};

		load(&r, rows[i].file);
		assert_int_equal(slurm_decide(&r.init), rows[i].reason);
	}
}

/* Those that have been seen beside their own slurmstepd. */
static void test_served(void **state)
{
	static const uint16_t served[] = {SLURM_22_05, SLURM_23_02, SLURM_23_11, SLURM_24_05,
		SLURM_24_11, SLURM_25_05, SLURM_25_11, SLURM_26_05};
	unsigned release;
	size_t i = 0;

	(void)state;
	for (release = SLURM_22_05 - 256; release <= SLURM_26_11 + 256; release += 256) {
		if (i < ARRAY_SIZE(served) && release == served[i]) {
			assert_true(slurm_release_is_served(release));
			assert_non_null(slurm_release_name(release));
			i++;
		} else {
			assert_false(slurm_release_is_served(release));
		}
	}
	assert_int_equal(i, ARRAY_SIZE(served));
}

static void test_plugin_versions(void **state)
{
	(void)state;
	assert_int_equal(slurm_release_version(SLURM_22_05), 0x160500);
	assert_int_equal(slurm_release_version(SLURM_24_11), 0x180b00);
	assert_int_equal(slurm_release_version(SLURM_26_05), 0x1a0500);
	assert_int_equal(slurm_release_version(1), 0);
}

static void test_plugins(void **state)
{
	_cleanup_recorded_ struct recorded r = {0};

	(void)state;
	load(&r, "srun-24.11");
	r.site.spank_loads = true;
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
	r.init.launch.kind = SLURM_KIND_EXTERN;
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
	r.init.launch.kind = SLURM_KIND_SRUN;
	r.site.spank_obstacle = (char *)"why";
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_SPANK);
	r.site.spank_obstacle = NULL;
}

/* cgroup.conf and the node's GRES, behind the launch message. */
static void test_rest(void **state)
{
	static const char *const files[] = {"gres-23.02", "batch-23.02", "gres-23.11", "gres-24.05",
		"gres-24.11", "batch-24.11", "gres-26.05"};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_recorded_ struct recorded r = {0};
		struct slurm_frame frame;
		const struct slurm_cgroup_conf *c = &r.init.cgroup;

		load(&r, files[i]);
		assert_string_equal(c->mount, "/sys/fs/cgroup");
		assert_string_equal(c->slice, "system.slice");
		assert_int_equal(c->job_id_paths, r.frame.release < SLURM_26_05);
		assert_true(c->allowed_memory == 100 && c->max_memory == 100);
		assert_true(c->allowed_swap == 0 && c->max_swap == 100);
		assert_int_equal(c->min_memory_mb, 30);
		assert_false(c->constrains_cores || c->constrains_memory || c->constrains_swap ||
			c->constrains_devices);
		assert_int_equal(r.init.kinds.n, 1);
		assert_int_equal(r.frame.gres.at + r.frame.gres.size, r.frame.end);
		assert_int_equal(slurm_init_missing(r.bytes, r.frame.end - 1, &frame), 1);
		assert_int_equal(slurm_init_missing(r.bytes, r.frame.gres.at - 4, &frame), 4);
	}
}

/* 23.02.0 has not the last field of its cgroup.conf; no other release goes without one. */
static void test_first_point_release(void **state)
{
	static const struct {
		const char *file;
		int r;
	} rows[] = {{"batch-23.02", 0}, {"batch-23.11", -EBADMSG}, {"batch-24.11", -EBADMSG}};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_recorded_ struct recorded r = {0};
		struct slurm_cgroup_conf conf;
		struct err err = ERR_INIT;

		load(&r, rows[i].file);
		r.frame.cgroup.size--;
		assert_int_equal(
			slurm_init_decode_cgroup(r.bytes, &r.frame, &conf, &err), rows[i].r);
		r.frame.cgroup.size--;
		assert_int_equal(
			slurm_init_decode_cgroup(r.bytes, &r.frame, &conf, &err), -EBADMSG);
	}
}

/* During an upgrade. */
static void test_mixed(void **state)
{
	_cleanup_recorded_ struct recorded r = {0};
	char text[SLURM_REASON_SIZE];

	(void)state;
	load(&r, "srun-24.11");
	r.init.frame.client_release = SLURM_24_05;
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_OTHER_RELEASE);
	r.init.frame.client_release = SLURM_24_11;
	r.init.launch.cred_release = SLURM_24_05;
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_OTHER_RELEASE);
	r.init.launch.cred_release = 0; /* srun --no-alloc */
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_OTHER_RELEASE);
	slurm_reason_print(&r.init, SLURM_REASON_OTHER_RELEASE, text);
	assert_string_equal(text,
		"slurmd, srun and slurmctld are not of one release that is served (they are of "
		"24.11, 24.11 and none)");
	r.init.launch.cred_release = SLURM_24_11;
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
	r.init.launch.step_manager = "node1";
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_STEP_MANAGER);
}

/* An extern step that runs the job's prolog. */
static void test_prolog(void **state)
{
	_cleanup_recorded_ struct recorded r = {0}, other = {0};

	(void)state;
	load(&r, "extern-24.11");
	assert_true(r.init.conf.prolog_flags != 0);
	r.init.conf.prolog_flags |= SLURM_PROLOG_RUN_IN_JOB;
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_PROLOG);
	load(&other, "srun-24.11");
	other.init.conf.prolog_flags |= SLURM_PROLOG_RUN_IN_JOB;
	assert_int_equal(slurm_decide(&other.init), SLURM_REASON_NONE);
}

/* What of 26.05 has been seen over nodes. */
static void test_nodes_of_26_05(void **state)
{
	static const uint8_t env[] = "\0\0\0\024SLURM_MPI_TYPE=pmi2";
	static const uint8_t pmix_env[] = "\0\0\0\024SLURM_MPI_TYPE=pmix";
	_cleanup_recorded_ struct recorded r = {0};

	(void)state;
	load(&r, "srun-26.05");
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
	r.init.launch.nnodes = 2;
	r.site.tree_width = 50;
	r.init.launch.env = (struct slurm_strs){1, env, sizeof(env)};
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
	assert_false(slurm_needs_own_address(&r.init));
	r.site.tree_width = 3;
	assert_true(slurm_needs_own_address(&r.init));
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_MPI_NODES);
	r.init.frame.self.sin_family = AF_INET;
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
	r.init.launch.env = (struct slurm_strs){1, pmix_env, sizeof(pmix_env)};
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
}

/* A node of a large step, once the address of the one above is known. */
static void test_tree(void **state)
{
	static const char *const files[] = {"tree-24.11", "tree-26.05"};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_recorded_ struct recorded r = {0};

		load(&r, files[i]);
		assert_true(r.init.frame.parent_rank >= 0);
		r.init.frame.parent.sin_family = AF_INET;
		assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
	}
}

static void test_children(void **state)
{
	_cleanup_recorded_ struct recorded r = {0};

	(void)state;
	load(&r, "srun-26.05");
	r.init.launch.flags |= SLURM_FLAG_WAIT_FOR_CHILDREN;
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_CHILDREN);
}

/* ---- the environment ----------------------------------------------------------------------- */

static void env_is(const json_t *doc, const char *name, const char *wanted)
{
	const char *value = json_string_value(json_object_get(json_object_get(doc, "env"), name));

	if (wanted)
		assert_string_equal(value, wanted);
	else
		assert_null(value);
}

static void env_is_number(const json_t *doc, const char *name, uint64_t n)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	env_is(doc, name, text);
}

static json_t *make_script(struct recorded *r)
{
	const struct step_spec_input input = {.node = &r->init.conf,
		.launch = &r->init.launch,
		.site = &r->site,
		.ntasks = 1,
		.cwd = "/tmp"};
	_cleanup_batch_files_ struct batch_files files = {0};
	struct err err = ERR_INIT;
	json_t *doc = NULL;

	r->site.cluster = (char *)"c";
	r->site.controller_name = (char *)"ctl";
	r->site.select_plugin = 109;
	assert_int_equal(batch_expand_files(&r->init.launch, &r->init.conf, &files, &err), 0);
	assert_int_equal(batch_spec_make(&input, &files, "/script", &doc, &err), 0);
	return doc;
}

static void test_script(void **state)
{
	_cleanup_recorded_ struct recorded r = {0}, old = {0};
	json_auto_t *doc = NULL, *old_doc = NULL;

	(void)state;
	load(&r, "batch-24.11");
	assert_true(r.init.launch.start_time > 1000000000);
	assert_true(r.init.launch.end_time > r.init.launch.start_time);
	doc = make_script(&r);
	env_is(doc, "SLURM_JOB_ID", "2");
	env_is(doc, "SLURM_NODE_ALIASES", NULL);
	env_is(doc, "SLURM_WORKING_CLUSTER", NULL);
	env_is(doc, "SLURM_JOB_LICENSES", NULL);
	env_is(doc, "SLURM_OOM_KILL_STEP", "0");
	env_is_number(doc, "SLURM_JOB_START_TIME", r.init.launch.start_time);
	env_is_number(doc, "SLURM_JOB_END_TIME", r.init.launch.end_time);

	env_is(doc, "SLURM_JOB_SLUID", NULL);

	load(&old, "batch");
	old_doc = make_script(&old);
	env_is(old_doc, "SLURM_NODE_ALIASES", "(null)");
	env_is(old_doc, "SLURM_OOM_KILL_STEP", NULL);
	env_is(old_doc, "SLURM_JOB_START_TIME", NULL);
}

/* slurmctld has laid the tasks out, and their variable is its own. */
static void test_later_script(void **state)
{
	static const uint8_t env[] = "\0\0\0\033SLURM_TASKS_PER_NODE=5(x2)";
	_cleanup_recorded_ struct recorded r = {0};
	json_auto_t *doc = NULL;
	char sluid[SLURM_SLUID_SIZE];

	(void)state;
	load(&r, "batch-26.05");
	assert_int_equal(r.init.launch.id.job, 2);
	slurm_sluid_print(r.init.launch.id.sluid, sluid);
	r.init.launch.env = (struct slurm_strs){1, env, sizeof(env)};
	r.init.launch.batch.tres_per_task = "cpu:2";
	doc = make_script(&r);
	env_is(doc, "SLURM_JOB_ID", "2");
	env_is(doc, "SLURM_JOB_SLUID", sluid);
	env_is(doc, "SLURM_OOM_KILL_STEP", "0");
	env_is(doc, "SLURM_TASKS_PER_NODE", "5(x2)");
	env_is(doc, "SLURM_TRES_PER_TASK", "cpu:2");
	env_is_number(doc, "SLURM_JOB_END_TIME", r.init.launch.end_time);
}

/* What mpi/pmix of Slurm gives Open MPI's ranks. */
static void test_transport_key(void **state)
{
	static const char name[] = "OMPI_MCA_orte_precondition_transports";
	static const uint8_t own[] = "\0\0\0\053OMPI_MCA_orte_precondition_transports=mine";
	static const struct {
		const char *file, *key;
		bool has_pmix;
	} rows[] = {
		{"srun", NULL, true},
		{"srun-24.11", "0000000100000000-0000000100000000", true},
		{"srun-24.11", NULL, false},
	};
	const struct pmix_settings settings = {0};
	const uint32_t ranks[] = {0, 1};
	struct err err = ERR_INIT;
	size_t i;

	(void)state;
	for (i = 0; i <= ARRAY_SIZE(rows); i++) {
		_cleanup_recorded_ struct recorded r = {0};
		json_auto_t *doc = NULL;
		bool is_own = i == ARRAY_SIZE(rows);
		struct step_spec_input input = {.node = &r.init.conf,
			.launch = &r.init.launch,
			.site = &r.site,
			.ranks = ranks,
			.ntasks = ARRAY_SIZE(ranks),
			.cwd = "/"};

		load(&r, is_own ? "srun-24.11" : rows[i].file);
		if (is_own)
			r.init.launch.env = (struct slurm_strs){1, own, sizeof(own)};
		r.init.launch.files[0] = r.init.launch.files[1] = r.init.launch.files[2] =
			"/dev/null";
		input.pmix = is_own || rows[i].has_pmix ? &settings : NULL;
		assert_int_equal(step_spec_make(&input, &doc, &err), 0);
		env_is(doc, name, is_own ? "mine" : rows[i].key);
	}
}

static void test_sluid(void **state)
{
	static const struct {
		uint64_t sluid;
		const char *text;
	} rows[] = {
		{0, "s0000000000000"},
		{31, "s000000000000Z"},
		{UINT64_MAX, "sFZZZZZZZZZZZZ"},
		{0x0123456789abcdef, "s028T5CY4TQKFF"},
	};
	char text[SLURM_SLUID_SIZE];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		slurm_sluid_print(rows[i].sluid, text);
		assert_string_equal(text, rows[i].text);
	}
}

/* sbatch --ntasks-per-node, without --ntasks. */
static void test_tasks_per_node(void **state)
{
	static const uint8_t env[] = "\0\0\0\030SLURM_NTASKS_PER_NODE=3";
	static const uint8_t cpus[] = {0, 4}, nodes[] = {0, 0, 0, 2};
	_cleanup_recorded_ struct recorded r = {0};
	json_auto_t *doc = NULL, *old_doc = NULL;

	(void)state;
	load(&r, "batch-24.11");
	r.init.launch.env = (struct slurm_strs){1, env, sizeof(env)};
	r.init.launch.ntasks = 0;
	r.init.launch.batch.node_cpus = (struct slurm_array){1, cpus};
	r.init.launch.batch.node_cpus_reps = (struct slurm_array){1, nodes};
	doc = make_script(&r);
	env_is(doc, "SLURM_NTASKS", "6");
	env_is(doc, "SLURM_NPROCS", "6");
	env_is(doc, "SLURM_TASKS_PER_NODE", "3(x2)");
	r.init.launch.cred_release = SLURM_22_05;
	old_doc = make_script(&r);
	env_is(old_doc, "SLURM_NTASKS", NULL);
	env_is(old_doc, "SLURM_TASKS_PER_NODE", "4(x2)");
}

/* ---- messages ------------------------------------------------------------------------------ */

static void test_step(void **state)
{
	static const struct slurm_step_id id = {
		.sluid = 0x0102030405060708, .job = 9, .step = 10, .het_component = SLURM_NO_VAL};
	static const uint8_t bytes[] = {
		1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 9, 0, 0, 0, 10, 0xff, 0xff, 0xff, 0xfe};
	static const struct {
		uint16_t release;
		size_t from;
	} rows[] = {{SLURM_22_05, 8}, {SLURM_24_05, 8}, {SLURM_24_11, 0}, {SLURM_26_11, 0}};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_pack_ struct pack p = {0};

		slurm_rpc_put_step(&p, rows[i].release, &id);
		assert_false(p.failed);
		assert_int_equal(buffer_size(&p.bytes), sizeof(bytes) - rows[i].from);
		assert_memory_equal(
			buffer_bytes(&p.bytes), bytes + rows[i].from, sizeof(bytes) - rows[i].from);
	}
}

/* A reply of 24.11 does not say who has sent it. */
static void test_reply(void **state)
{
	static const uint8_t bytes[] = {0, 0, 0, 20, 0x2a, 0, 0, 0x40, 0x1f, 0x41, 0, 0, 0, 4, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 7};
	uint8_t other[sizeof(bytes)];
	uint32_t result = 0;

	(void)state;
	assert_int_equal(slurm_rpc_size(bytes, sizeof(bytes)), (int)sizeof(bytes));
	assert_int_equal(slurm_rpc_decode_result(bytes, sizeof(bytes), &result), 0);
	assert_int_equal(result, 7);
	assert_int_equal(slurm_rpc_decode_result(bytes, sizeof(bytes) - 1, &result), -EBADMSG);
	memcpy(other, bytes, sizeof(other));
	other[7] = 0;
	assert_int_equal(slurm_rpc_decode_result(other, sizeof(other), &result), -EBADMSG);
}

/* slurmd's reply has those of the nodes that it has sent a message on to. */
static void test_forwarded_reply(void **state)
{
	static const struct {
		uint32_t result, error;
		uint16_t type;
		uint32_t of_other, wanted;
	} rows[] = {
		{0, 0, SLURM_RESPONSE_RC, 0, 0},
		{0, 0, SLURM_RESPONSE_RC, 9, 9},
		{4, 0, SLURM_RESPONSE_RC, 9, 4},
		{0, 1001, SLURM_RESPONSE_FORWARD_FAILED, 0, 1001},
		{0, 0, SLURM_RESPONSE_FORWARD_FAILED, 0, SLURM_RESPONSE_FORWARD_FAILED},
	};
	uint32_t result;
	size_t i, size;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_pack_ struct pack p = {0};

		pack_u32(&p, 0);
		pack_u16(&p, SLURM_24_11);
		pack_u16(&p, 0x40);
		pack_u16(&p, SLURM_RESPONSE_RC);
		pack_u32(&p, 4);
		pack_u16(&p, 0);
		pack_u16(&p, 1);
		pack_u32(&p, rows[i].error);
		pack_u16(&p, rows[i].type);
		pack_text(&p, "n2");
		if (rows[i].type == SLURM_RESPONSE_RC)
			pack_u32(&p, rows[i].of_other);
		pack_u16(&p, 0);
		pack_u32(&p, rows[i].result);
		size = buffer_size(&p.bytes);
		assert_int_equal(slurm_rpc_decode_result(buffer_bytes(&p.bytes), size, &result), 0);
		assert_int_equal(result, rows[i].wanted);
		while (size-- > 0)
			assert_int_equal(
				slurm_rpc_decode_result(buffer_bytes(&p.bytes), size, &result),
				-EBADMSG);
	}
}

/* ---- the node above ------------------------------------------------------------------------ */

static int find_node(const char *lines, const char *name, struct sockaddr_in *address)
{
	_cleanup_free_ char *dir = scratch_make(), *path = scratch_path(dir, "slurm.conf");
	_cleanup_free_ char *copy = strdup(name);
	char *names[] = {copy};
	struct err err = ERR_INIT;
	int r;

	scratch_write(dir, "slurm.conf", lines, strlen(lines), 0644);
	*address = (struct sockaddr_in){0};
	r = site_nodes_find(path, names, 1, address, &err);
	scratch_remove(dir);
	return r;
}

static void test_node_address(void **state)
{
	static const char lines[] = "NodeName=DEFAULT Port=7000 State=UNKNOWN\n"
				    "NodeName=n[1-3],m4 NodeAddr=10.0.0.[1-4] Port=[7001-7004]\n"
				    "NodeName=one NodeHostname=elsewhere NodeAddr=10.1.0.1\n"
				    "NodeName=a[1-9] nodeaddr=10.2.0.1 port=8001-8009 State=IDLE\n"
				    "NodeName=host NodeHostname=10.3.0.1 Port=1\n"
				    "NodeName=10.4.0.1\n"
				    "NodeName=cloud[1-2] NodeAddr=10.5.0.[1-2] State=CLOUD\n"
				    "NodeName=bad NodeAddr=10.6.0.1 Port=70000\n"
				    "SlurmdPort=7777\n";
	static const struct {
		const char *name, *address;
		uint16_t port;
		int error;
	} rows[] = {
		{"n1", "10.0.0.1", 7001, 0},
		{"n3", "10.0.0.3", 7003, 0},
		{"m4", "10.0.0.4", 7004, 0},
		{"one", "10.1.0.1", 7000, 0},
		{"a1", "10.2.0.1", 8001, 0},
		{"a9", "10.2.0.1", 8009, 0},
		{"host", "10.3.0.1", 1, 0},
		{"10.4.0.1", "10.4.0.1", 7000, 0},
		{"n4", NULL, 0, -ENOENT},
		{"cloud2", NULL, 0, -EADDRNOTAVAIL},
		{"bad", NULL, 0, -ERANGE},
	};
	struct sockaddr_in address;
	char text[INET_ADDRSTRLEN];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(find_node(lines, rows[i].name, &address), rows[i].error);
		if (rows[i].error)
			continue;
		assert_non_null(inet_ntop(AF_INET, &address.sin_addr, text, sizeof(text)));
		assert_string_equal(text, rows[i].address);
		assert_int_equal(ntohs(address.sin_port), rows[i].port);
	}
	assert_int_equal(
		find_node("NodeName=n NodeAddr=10.0.0.1\nSlurmdPort=7777\n", "n", &address), 0);
	assert_int_equal(ntohs(address.sin_port), 7777);
	assert_int_equal(find_node("NodeName=n NodeAddr=10.0.0.1\n", "n", &address), 0);
	assert_int_equal(ntohs(address.sin_port), 6818);
}

/* A step's list is the user's: it may have one twice, and in any order. */
static void test_node_addresses(void **state)
{
	static const char lines[] = "NodeName=n[1-3] NodeAddr=10.0.0.[1-3] Port=[7001-7003]\n";
	static struct {
		char name[4];
		unsigned last;
	} rows[] = {{"n3", 3}, {"n1", 1}, {"n3", 3}, {"n2", 2}, {"n3", 3}, {"n1", 1}};
	_cleanup_free_ char *dir = scratch_make(), *path = scratch_path(dir, "slurm.conf");
	struct sockaddr_in addresses[ARRAY_SIZE(rows)] = {0};
	char *names[ARRAY_SIZE(rows)];
	struct err err = ERR_INIT;
	size_t i;

	(void)state;
	scratch_write(dir, "slurm.conf", lines, strlen(lines), 0644);
	for (i = 0; i < ARRAY_SIZE(rows); i++)
		names[i] = rows[i].name;
	assert_int_equal(site_nodes_find(path, names, ARRAY_SIZE(rows), addresses, &err), 0);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(ntohl(addresses[i].sin_addr.s_addr), 0x0a000000 + rows[i].last);
		assert_int_equal(ntohs(addresses[i].sin_port), 7000 + rows[i].last);
	}
	scratch_remove(dir);
}

/* ---- requests ------------------------------------------------------------------------------ */

static void test_reconfigure(void **state)
{
	struct {
		int32_t kind, size;
		char controllers[7];
	} bytes = {WIRE_RECONFIGURE, 7, "nothin"};
	const size_t head = sizeof(bytes.kind) + sizeof(bytes.size),
		     all = head + sizeof(bytes.controllers);
	struct wire_request request;

	(void)state;
	assert_int_equal(wire_parse_request(&bytes, all, WIRE_22_05, &request), 4);
	assert_int_equal(wire_parse_request(&bytes, 4, WIRE_23_11, &request), 0);
	assert_int_equal(wire_parse_request(&bytes, all - 1, WIRE_23_11, &request), 0);
	assert_int_equal(wire_parse_request(&bytes, all, WIRE_23_11, &request), (int)all);
	assert_int_equal(request.kind, WIRE_RECONFIGURE);
	bytes.size = 0; /* the log alone */
	assert_int_equal(wire_parse_request(&bytes, head, WIRE_26_11, &request), (int)head);
	bytes.size = -1;
	assert_int_equal(wire_parse_request(&bytes, all, WIRE_23_11, &request), -EMSGSIZE);
	bytes.size = WIRE_CONTROLLERS_MAX + 1;
	assert_int_equal(wire_parse_request(&bytes, all, WIRE_23_11, &request), -EMSGSIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_releases),
		cmocka_unit_test(test_served),
		cmocka_unit_test(test_plugin_versions),
		cmocka_unit_test(test_plugins),
		cmocka_unit_test(test_rest),
		cmocka_unit_test(test_first_point_release),
		cmocka_unit_test(test_mixed),
		cmocka_unit_test(test_children),
		cmocka_unit_test(test_nodes_of_26_05),
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_prolog),
		cmocka_unit_test(test_script),
		cmocka_unit_test(test_later_script),
		cmocka_unit_test(test_transport_key),
		cmocka_unit_test(test_sluid),
		cmocka_unit_test(test_tasks_per_node),
		cmocka_unit_test(test_step),
		cmocka_unit_test(test_reply),
		cmocka_unit_test(test_forwarded_reply),
		cmocka_unit_test(test_node_address),
		cmocka_unit_test(test_node_addresses),
		cmocka_unit_test(test_reconfigure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
