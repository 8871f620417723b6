/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Inits that slurmd has written, of release 22.05 if their name has no other,
 * tests/fuzz/corpus/slurm_init, and what is made of them.
 */
#include "contrib/slurm/decision.h"
#include "contrib/slurm/site_conf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "contrib/slurm/site_conf.h"
#include "stepd/base/fs.h"

struct recorded {
	char *bytes;
	size_t size;
	struct slurm_frame frame;
	struct slurm_init init;
};

static void recorded_clear(struct recorded *r)
{
	free(r->bytes);
	slurm_launch_clear(&r->init.launch);
	*r = (struct recorded){0};
}
#define _cleanup_recorded_ _cleanup_(recorded_clear)

static void load(struct recorded *r, const char *name)
{
	char path[PATH_MAX];

	assert_non_null(getenv("top_srcdir"));
	(void)snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/slurm_init/%s",
		getenv("top_srcdir"), name);
	assert_int_equal(fs_read(AT_FDCWD, path, SLURM_INIT_MAX, &r->bytes, &r->size), 0);
}

static void decode(struct recorded *r)
{
	ssize_t missing = slurm_init_missing(r->bytes, r->size, &r->frame);

	slurm_launch_clear(&r->init.launch);
	slurm_init_decode(&r->init, r->bytes, &r->frame, missing > 0 ? -ENODATA : (int)missing);
}

/* Of a kind that the site has chosen. */
static void load_chosen(struct recorded *r, const char *name, const struct site_conf *site)
{
	load(r, name);
	decode(r);
	r->init.chosen = true;
	r->init.site = site;
}

/* ---- what was recorded --------------------------------------------------------------------- */

static const struct {
	const char *file;
	enum slurm_step_kind kind;
	enum slurm_reason reason;
	const char *label;
	uint16_t release;
} records[] = {
	{"srun", SLURM_KIND_SRUN, SLURM_REASON_NOT_SERVED, "2.0", SLURM_22_05},
	{"srun-9", SLURM_KIND_SRUN, SLURM_REASON_NOT_SERVED, "1104357.28", SLURM_22_05},
	{"batch", SLURM_KIND_BATCH, SLURM_REASON_NOT_SERVED, "3.batch", SLURM_22_05},
	{"extern", SLURM_KIND_EXTERN, SLURM_REASON_NOT_SERVED, "2.extern", SLURM_22_05},
	{"interactive", SLURM_KIND_INTERACTIVE, SLURM_REASON_NOT_SERVED, "2.interactive",
		SLURM_22_05},
	{"het", SLURM_KIND_HET, SLURM_REASON_NOT_SERVED, "8.0", SLURM_22_05},
	{"gres", SLURM_KIND_SRUN, SLURM_REASON_NOT_SERVED, "7.0", SLURM_22_05},
	{"multi_prog", SLURM_KIND_SRUN, SLURM_REASON_NOT_SERVED, "2.0", SLURM_22_05},
	{"container", SLURM_KIND_SRUN, SLURM_REASON_CONTAINER, "10.0", SLURM_22_05},
	{"profile", SLURM_KIND_SRUN, SLURM_REASON_NOT_SERVED, "11.0", SLURM_22_05},
	{"x11", SLURM_KIND_EXTERN, SLURM_REASON_NOT_SERVED, "3.extern", SLURM_22_05},
	{"srun-24.11", SLURM_KIND_SRUN, SLURM_REASON_NOT_SERVED, "1.0", SLURM_24_11},
	{"batch-24.11", SLURM_KIND_BATCH, SLURM_REASON_NOT_SERVED, "2.batch", SLURM_24_11},
	{"extern-24.11", SLURM_KIND_EXTERN, SLURM_REASON_NOT_SERVED, "1.extern", SLURM_24_11},
	{"gres-24.11", SLURM_KIND_SRUN, SLURM_REASON_NOT_SERVED, "3.0", SLURM_24_11},
	{"container-24.11", SLURM_KIND_SRUN, SLURM_REASON_CONTAINER, "5.0", SLURM_24_11},
	{"token-24.11", SLURM_KIND_SRUN, SLURM_REASON_NOT_SERVED, "11027681.0", SLURM_24_11},
	{"tree-24.11", SLURM_KIND_SRUN, SLURM_REASON_NOT_SERVED, "2.0", SLURM_24_11},
	{"multi_prog-24.11", SLURM_KIND_SRUN, SLURM_REASON_NOT_SERVED, "3.0", SLURM_24_11},
	{"interactive-24.11", SLURM_KIND_INTERACTIVE, SLURM_REASON_NOT_SERVED, "4.interactive",
		SLURM_24_11},
	{"het-24.11", SLURM_KIND_HET, SLURM_REASON_NOT_SERVED, "5.0", SLURM_24_11},
	{"namespace-24.11", SLURM_KIND_SRUN, SLURM_REASON_NOT_SERVED, "11054193.0", SLURM_24_11},
	{"namespace-26.05", SLURM_KIND_SRUN, SLURM_REASON_NOT_SERVED, "11064469.0", SLURM_26_05},
	{"srun-26.05", SLURM_KIND_SRUN, SLURM_REASON_NOT_SERVED, "1.0", SLURM_26_05},
	{"batch-26.05", SLURM_KIND_BATCH, SLURM_REASON_NOT_SERVED, "2.batch", SLURM_26_05},
	{"extern-26.05", SLURM_KIND_EXTERN, SLURM_REASON_NOT_SERVED, "1.extern", SLURM_26_05},
	{"gres-26.05", SLURM_KIND_SRUN, SLURM_REASON_NOT_SERVED, "3.0", SLURM_26_05},
	{"tree-26.05", SLURM_KIND_SRUN, SLURM_REASON_NOT_SERVED, "2.0", SLURM_26_05},
	{"multi_prog-26.05", SLURM_KIND_SRUN, SLURM_REASON_NOT_SERVED, "3.0", SLURM_26_05},
	{"interactive-26.05", SLURM_KIND_INTERACTIVE, SLURM_REASON_NOT_SERVED, "4.interactive",
		SLURM_26_05},
	{"het-26.05", SLURM_KIND_HET, SLURM_REASON_NOT_SERVED, "5.0", SLURM_26_05},
};

static void test_records(void **state)
{
	char label[SLURM_LABEL_SIZE];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(records); i++) {
		_cleanup_recorded_ struct recorded r = {0};

		load(&r, records[i].file);
		decode(&r);
		if (r.init.error)
			fail_msg("%s: %s", records[i].file, r.init.err.text);
		assert_int_equal(r.init.launch.kind, records[i].kind);
		assert_int_equal(slurm_decide(&r.init), records[i].reason);
		slurm_step_label(&r.init.launch.id, label);
		assert_string_equal(label, records[i].label);
		assert_string_equal(slurm_launch_partition(&r.init.launch), "bench");
		/* What follows is cgroup.conf and such, and slurmd's last four bytes. */
		assert_true(r.frame.end < r.size);
		assert_int_equal(r.init.frame.release, records[i].release);
	}
}

static void assert_strs(struct slurm_strs strs, const char *const *texts, size_t n)
{
	size_t i;

	assert_int_equal(strs.n, n);
	for (i = 0; i < n; i++)
		assert_string_equal(slurm_strs_next(&strs), texts[i]);
	assert_null(slurm_strs_next(&strs));
}

static void test_tasks(void **state)
{
	static const char *const argv[] = {"sh", "-c", "exit 3"};
	_cleanup_recorded_ struct recorded r = {0};
	const struct slurm_launch *l = &r.init.launch;

	(void)state;
	load(&r, "srun");
	decode(&r);
	assert_int_equal(r.frame.rank, 0);
	assert_int_equal(r.frame.parent_rank, -1);
	assert_string_equal(r.init.conf.node_name, "bench27591-1");
	assert_string_equal(r.init.conf.log_file, "/tmp/slurm-log.bench27591-1");
	assert_int_equal(r.init.conf.debug_level, 3);
	assert_false(r.init.conf.daemon);
	assert_int_equal(l->uid, 0);
	assert_string_equal(l->user, "root");
	assert_string_equal(l->cwd, "/");
	assert_string_equal(l->nodes, "bench27591-1");
	assert_int_equal(l->ntasks, 2);
	assert_int_equal(l->nnodes, 1);
	assert_strs(l->argv, argv, ARRAY_SIZE(argv));
	assert_true(l->env.n > 30);
}

static void test_tasks_24_11(void **state)
{
	static const char *const argv[] = {"sh", "-c", "exit 3"};
	_cleanup_recorded_ struct recorded r = {0};
	const struct slurm_launch *l = &r.init.launch;

	(void)state;
	load(&r, "srun-24.11");
	decode(&r);
	assert_string_equal(r.init.conf.log_file, "/tmp/slurm-log.n24");
	assert_null(r.init.conf.switch_type);
	assert_string_equal(r.init.conf.tls_type, "tls/none");
	assert_int_equal(r.init.conf.tree_width, 16); /* the default, which was 50 */
	assert_int_equal(r.init.conf.srun_port_min, 0);
	assert_int_equal(r.init.conf.srun_port_max, 0);
	assert_string_equal(l->user, "root");
	assert_string_equal(l->nodes, "n24");
	assert_int_equal(l->ntasks, 2);
	assert_strs(l->argv, argv, ARRAY_SIZE(argv));
}

static void test_batch(void **state)
{
	_cleanup_recorded_ struct recorded r = {0};

	(void)state;
	load(&r, "batch");
	decode(&r);
	assert_int_equal(r.frame.rank, -1);
	assert_int_equal(r.init.launch.id.job, 3);
	assert_non_null(r.init.launch.batch.script);
	assert_non_null(strstr(r.init.launch.batch.script, "srun -n1 true"));
	assert_string_equal(r.init.launch.cwd, "/");
}

static void test_container(void **state)
{
	_cleanup_recorded_ struct recorded r = {0};
	char text[SLURM_REASON_SIZE];

	(void)state;
	load(&r, "container");
	decode(&r);
	assert_string_equal(r.init.launch.container, "/tmp/nothing");
	slurm_reason_print(&r.init, slurm_decide(&r.init), text);
	assert_string_equal(text, "it runs in an OCI container");
}

/* ---- several nodes ------------------------------------------------------------------------- */

/* The second of nine nodes, which has all but the first one below it. */
static void test_tree(void **state)
{
	_cleanup_recorded_ struct recorded r = {0};
	const struct slurm_launch *l = &r.init.launch;
	struct slurm_array ranks;
	uint32_t node = 0;

	(void)state;
	load(&r, "srun-9");
	decode(&r);
	assert_int_equal(r.frame.rank, 1);
	assert_int_equal(r.frame.parent_rank, 0);
	assert_int_equal(r.frame.children, 7);
	assert_int_equal(r.frame.depth, 1);
	assert_int_equal(r.frame.max_depth, 2);
	assert_int_equal(r.frame.parent.sin_family, AF_INET);
	assert_int_equal(ntohl(r.frame.parent.sin_addr.s_addr), INADDR_LOOPBACK);
	assert_int_equal(ntohs(r.frame.parent.sin_port), 15781);
	assert_int_equal(l->nnodes, 9);
	assert_string_equal(l->nodes, "bench26208-[1-9]");
	assert_string_equal(r.init.conf.node_name, "bench26208-2");
	assert_int_equal(slurm_launch_find_node(l, r.init.conf.node_name, &node), 0);
	assert_int_equal(node, 1);
	assert_true(slurm_launch_ranks(l, node, &ranks));
	assert_int_equal(ranks.n, 1);
	assert_int_equal(slurm_array_u32(&ranks, 0), 1);
}

static void test_nodes(void **state)
{
	static const struct {
		const char *list, *name;
		int result;
		uint32_t index;
	} rows[] = {
		{"n[1-3,7],x", "n1", 0, 0},
		{"n[1-3,7],x", "n3", 0, 2},
		{"n[1-3,7],x", "n7", 0, 3},
		{"n[1-3,7],x", "x", 0, 4},
		{"n[08-10]", "n09", 0, 1},
		{"n[1-3,7],x", "n4", -ENOENT, 0},
		{"n[1-3,7],x", "n", -ENOENT, 0},
		{"n[1-3,7],x", "n11", -ENOENT, 0},
		{"n[1-3,7],x", NULL, -EINVAL, 0},
		{"n[1-9]", "n6", -EINVAL, 0}, /* more names than the step has nodes */
		{"n[1-3", "n9", -EINVAL, 0},
		{"", "n1", -EINVAL, 0},
		{NULL, "n1", -EINVAL, 0},
	};
	struct slurm_launch launch = {.nnodes = 5};
	uint32_t index = 0;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		launch.nodes = rows[i].list;
		assert_int_equal(
			slurm_launch_find_node(&launch, rows[i].name, &index), rows[i].result);
		if (rows[i].result == 0)
			assert_int_equal(index, rows[i].index);
	}
}

/* ---- components ---------------------------------------------------------------------------- */

static void assert_ranks(
	const struct slurm_launch *l, uint32_t node, const uint32_t *ranks, uint32_t n)
{
	struct slurm_array found;
	struct slurm_array next, rest = slurm_whole_node_tasks(l);
	uint32_t i;

	assert_true(slurm_whole_ranks(l, node, &found));
	assert_int_equal(found.n, n);
	for (i = 0; i < n; i++)
		assert_int_equal(slurm_array_u32(&found, i), ranks[i]);
	for (i = 0; i <= node; i++)
		assert_true(slurm_whole_ranks_next(l, &rest, &next));
	assert_int_equal(next.n, n);
	assert_ptr_equal(next.bytes, found.bytes);
	assert_int_equal(slurm_whole_ranks_next(l, &rest, &next), node + 1 < slurm_whole_nnodes(l));
}

/* The first of two, each with one task on a node. */
static void test_component(void **state)
{
	static const uint32_t ranks[] = {0, 1};
	_cleanup_recorded_ struct recorded r = {0};
	struct slurm_launch *l = &r.init.launch;
	struct slurm_array found;
	uint32_t node = 0;

	(void)state;
	load(&r, "het");
	decode(&r);
	assert_int_equal(l->ntasks, 1);
	assert_int_equal(l->nnodes, 1);
	assert_int_equal(l->het.offset, 0);
	assert_int_equal(slurm_whole_job(l), 8);
	assert_int_equal(slurm_whole_ntasks(l), 2);
	assert_int_equal(slurm_whole_nnodes(l), 2);
	assert_int_equal(slurm_whole_first_rank(l), 0);
	assert_int_equal(slurm_whole_first_node(l), 0);
	assert_string_equal(l->het.nodes, "bench27591-[1-2]");
	assert_int_equal(slurm_whole_find_node(l, "bench27591-2", &node), 0);
	assert_int_equal(node, 1);
	assert_ranks(l, 0, ranks, 1);
	assert_ranks(l, 1, ranks + 1, 1);
	assert_false(slurm_whole_ranks(l, 2, &found));
	assert_int_equal(slurm_whole_find_node(l, "bench27591-3", &node), -ENOENT);
	assert_int_equal(slurm_whole_find_node(l, NULL, &node), -EINVAL);
	l->het.nodes = "bench27591-1,bench27591-1";
	assert_int_equal(slurm_whole_find_node(l, "bench27591-1", &node), -EEXIST);
	l->het.nodes = "bench27591-[1-3]"; /* more than there are */
	assert_int_equal(slurm_whole_find_node(l, "bench27591-1", &node), -EINVAL);
	l->het.task_offset = 7;
	l->het.node_offset = SLURM_NO_VAL;
	assert_int_equal(slurm_whole_first_rank(l), 7);
	assert_int_equal(slurm_whole_first_node(l), 0);
	l->kind = SLURM_KIND_SRUN;
	assert_int_equal(slurm_whole_first_rank(l), 0);
}

/* A step that is no component is the whole. */
static void test_whole(void **state)
{
	static const uint32_t ranks[] = {0, 1};
	_cleanup_recorded_ struct recorded r = {0};
	const struct slurm_launch *l = &r.init.launch;
	uint32_t node = 1;

	(void)state;
	load(&r, "srun");
	decode(&r);
	assert_int_equal(slurm_whole_job(l), 2);
	assert_int_equal(slurm_whole_ntasks(l), 2);
	assert_int_equal(slurm_whole_nnodes(l), 1);
	assert_int_equal(slurm_whole_first_rank(l), 0);
	assert_int_equal(slurm_whole_first_node(l), 0);
	assert_int_equal(slurm_whole_find_node(l, r.init.conf.node_name, &node), 0);
	assert_int_equal(node, 0);
	assert_ranks(l, 0, ranks, 2);
}

static void test_ports(void **state)
{
	static const uint8_t bytes[] = {0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc};
	static const struct slurm_array ports = {3, bytes}, one = {1, bytes};

	(void)state;
	assert_int_equal(slurm_launch_port(&ports, 0), 0x1234);
	assert_int_equal(slurm_launch_port(&ports, 2), 0x9abc);
	assert_int_equal(slurm_launch_port(&ports, 4), 0x5678);
	assert_int_equal(slurm_launch_port(&one, 99), 0x1234);
}

/* ---- what is wrong ------------------------------------------------------------------------- */

static void test_cut(void **state)
{
	_cleanup_recorded_ struct recorded r = {0};
	struct slurm_frame frame = {0};
	size_t cut, end;
	ssize_t missing;

	(void)state;
	load(&r, "srun");
	decode(&r);
	end = r.frame.end;
	for (cut = 0; cut < end; cut++) {
		missing = slurm_init_missing(r.bytes, cut, &frame);
		assert_true(missing > 0);
		assert_true(cut + (size_t)missing <= end);
	}
	assert_int_equal(slurm_init_missing(r.bytes, end, &frame), 0);
	r.size = end / 2;
	decode(&r);
	assert_int_equal(r.init.error, -ENODATA);
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_UNREADABLE);
}

static void test_release(void **state)
{
	_cleanup_recorded_ struct recorded r = {0};
	char text[SLURM_REASON_SIZE];

	(void)state;
	load(&r, "srun");
	r.bytes[4] = 0x2f; /* one after 26.11 */
	decode(&r);
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_RELEASE);
	slurm_reason_print(&r.init, SLURM_REASON_RELEASE, text);
	assert_non_null(strstr(text, "(12032)"));
	r.bytes[4] = 0x25; /* 21.08 */
	decode(&r);
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_RELEASE);
	/* A known release, but the bytes of another. */
	r.bytes[4] = 0x28;
	decode(&r);
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_UNREADABLE);
}

static void test_lengths(void **state)
{
	static const int32_t bad[] = {-1, INT_MIN, INT_MAX, 1, 0, SLURM_INIT_MAX + 1};
	_cleanup_recorded_ struct recorded r = {0};
	struct slurm_frame frame = {0};
	size_t i;

	(void)state;
	load(&r, "srun");
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		memcpy(r.bytes, &bad[i], sizeof(bad[i]));
		assert_true(slurm_init_missing(r.bytes, r.size, &frame) < 0);
	}
}

/* Each byte of the launch message, made as large as it gets: whatever it is, it ends. */
static void test_large_numbers(void **state)
{
	size_t i, at;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(records); i++) {
		_cleanup_recorded_ struct recorded r = {0};

		load(&r, records[i].file);
		decode(&r);
		for (at = r.frame.launch.at; at < r.frame.end; at++) {
			char before = r.bytes[at];

			r.bytes[at] = (char)0xff;
			decode(&r);
			assert_true(slurm_decide(&r.init) < SLURM_REASON_MAX);
			r.bytes[at] = before;
		}
	}
}

static void test_field_is_named(void **state)
{
	_cleanup_recorded_ struct recorded r = {0};
	char text[SLURM_REASON_SIZE], *options;

	(void)state;
	load(&r, "srun");
	options = memmem(r.bytes, r.size, "job_options", strlen("job_options"));
	assert_non_null(options);
	options[0] = 'J';
	decode(&r);
	slurm_reason_print(&r.init, slurm_decide(&r.init), text);
	assert_string_equal(text,
		"what slurmd sent is not understood: the launch message is not that of release "
		"22.05: no job options at job_options");
}

/* Of SPANK, as srun packs them. */
static void test_options(void **state)
{
	static const uint8_t bytes[] = "\0\0\x44\0\0\0\0\x04"
				       "a:p\0\0\0\0\x02"
				       "x\0\0\0\x44\0\0\0\0\x04"
				       "b:q\0\0\0\0\0";
	struct slurm_options options = {.n = 2, .bytes = bytes, .size = sizeof(bytes) - 1};
	const char *name, *arg;

	(void)state;
	assert_true(slurm_options_next(&options, &name, &arg));
	assert_string_equal(name, "a:p");
	assert_string_equal(arg, "x");
	assert_true(slurm_options_next(&options, &name, &arg));
	assert_string_equal(name, "b:q");
	assert_null(arg);
	assert_false(slurm_options_next(&options, &name, &arg));
}

/* A site's plugins, and those that can't be served. */
static void test_spank(void **state)
{
	struct site_conf site = {.spank_loads = true};
	_cleanup_recorded_ struct recorded r = {0};
	char text[SLURM_REASON_SIZE];

	(void)state;
	load_chosen(&r, "srun", &site);
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
	r.init.launch.kind = SLURM_KIND_EXTERN;
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
	r.init.launch.kind = SLURM_KIND_SRUN;
	site.spank_obstacle = (char *)"why";
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_SPANK);
	slurm_reason_print(&r.init, SLURM_REASON_SPANK, text);
	assert_string_equal(text, "a SPANK plugin can't be served with it: why");
}

/* ---- the reasons --------------------------------------------------------------------------- */

static void test_mpi_nodes(void **state)
{
	static const char arbitrary[] = "\0\0\0\x1d"
					"SLURM_DISTRIBUTION=arbitrary";
	struct site_conf site = {0};
	_cleanup_recorded_ struct recorded r = {0};

	(void)state;
	load_chosen(&r, "srun-9", &site);
	r.init.launch.env = (struct slurm_strs){0}; /* srun's --mpi=none */
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
	site.mpi_default = (char *)"pmi2";
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE); /* a tree of levels */
	r.init.frame.self.sin_family = AF_INET6;
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_MPI_NODES);
	site.tree_width = 10;
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_MPI_NODES);
	site.tree_width = 11;
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
	site.mpi_default = (char *)"pmix";
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
	r.init.launch.env = (struct slurm_strs){1, (const uint8_t *)arbitrary, sizeof(arbitrary)};
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_MPI_NODES);
	r.init.launch.env = (struct slurm_strs){0};
	r.init.launch.kind = SLURM_KIND_HET;
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_MPI_NODES);
	r.init.launch.kind = SLURM_KIND_SRUN;
	r.init.launch.nnodes = 1;
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
	site.mpi_default = (char *)"cray_shasta";
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_MPI);
	site.mpi_default = NULL;
	r.init.launch.files[0] = "8"; /* for one of the nine ranks */
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
	r.init.launch.files[0] = "9";
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_FILES);
	r.init.launch.files[0] = NULL;
	r.init.launch.files[1] = "8";
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_FILES);
	r.init.launch.files[1] = "out.%n";
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
	r.init.launch.flags |= SLURM_FLAG_LABEL; /* those of the errors are srun's */
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_FILES);
	r.init.launch.files[2] = "err.%n";
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
	r.init.launch.kind = SLURM_KIND_HET;
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_FILES);
}

static void test_reasons(void **state)
{
	struct slurm_init init = {.launch.id.job = 7};
	char text[SLURM_REASON_SIZE];

	(void)state;
	assert_int_equal(slurm_decide(&init), SLURM_REASON_NOT_SERVED);
	init.chosen = true;
	init.rule = "user root";
	assert_int_equal(slurm_decide(&init), SLURM_REASON_RULE);
	slurm_reason_print(&init, SLURM_REASON_RULE, text);
	assert_string_equal(
		text, "by a rule of the site (slurm_handover in stepd.conf: user root)");
	(void)err_set_text(&init.rule_err, -ENOENT, "there is no user 'root'");
	slurm_reason_print(&init, SLURM_REASON_RULE, text);
	assert_string_equal(text,
		"by a rule of the site (slurm_handover in stepd.conf: user root): there is no "
		"user 'root'");
	init.chosen = false;
	init.conf.tls_type = "tls/none";
	init.conf.namespace_plugin = "job_container/none";
	assert_int_equal(slurm_decide(&init), SLURM_REASON_NOT_SERVED);
	init.conf.tls_type = "tls/s2n";
	assert_int_equal(slurm_decide(&init), SLURM_REASON_TLS);
	init.conf.namespace_plugin = "namespace/tmpfs";
	assert_int_equal(slurm_decide(&init), SLURM_REASON_TLS);
	(void)err_set_text(&init.namespace_err, -ENOENT, "there is no job_container.conf");
	assert_int_equal(slurm_decide(&init), SLURM_REASON_NAMESPACE);
	slurm_reason_print(&init, SLURM_REASON_NAMESPACE, text);
	assert_string_equal(text,
		"the job's namespace is made by a plugin of Slurm: there is no job_container.conf");
	init.namespace_err = (struct err)ERR_INIT;
	init.conf.namespace_plugin = "namespace/linux";
	assert_int_equal(slurm_decide(&init), SLURM_REASON_NAMESPACE);
	slurm_reason_print(&init, SLURM_REASON_NAMESPACE, text);
	assert_string_equal(
		text, "the job's namespace is made by a plugin of Slurm (namespace/linux)");
	init.launch.container = "/bundle";
	assert_int_equal(slurm_decide(&init), SLURM_REASON_CONTAINER);
	init.launch.has_job = true;
	assert_int_equal(slurm_decide(&init), SLURM_REASON_STEP_MANAGER);
	init.error = -EBADMSG;
	assert_int_equal(slurm_decide(&init), SLURM_REASON_UNREADABLE);
	init.launch.switch_plugin = 104;
	assert_int_equal(slurm_decide(&init), SLURM_REASON_SWITCH);
	init.error = -EPROTONOSUPPORT;
	assert_int_equal(slurm_decide(&init), SLURM_REASON_RELEASE);
}

/* Of kinds that the site has chosen. */
static void test_served(void **state)
{
	static const char *const files[] = {"srun", "interactive", "multi_prog"};
	const struct site_conf site = {0};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_recorded_ struct recorded r = {0};

		load(&r, files[i]);
		decode(&r);
		r.init.chosen = true;
		assert_int_equal(slurm_decide(&r.init), SLURM_REASON_SITE);
		r.init.site = &site;
		assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
		r.init.launch.flags |= SLURM_FLAG_PTY;
		r.init.launch.files[1] = "%q"; /* which a terminal replaces */
		assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
		r.init.launch.flags &= ~(uint32_t)(SLURM_FLAG_PTY | SLURM_FLAG_BUFFERED);
		assert_int_equal(slurm_decide(&r.init), SLURM_REASON_FILES);
	}
}

/* By what the step says, and else by what the site's plugin does. */
static void test_profiled(void **state)
{
	static const struct {
		const char *file;
		enum site_profile site;
		uint32_t profile;
		bool profiled;
	} rows[] = {
		{"srun", SITE_PROFILE_NEVER, 0, false},
		{"srun", SITE_PROFILE_NEVER, 8, false},
		{"srun", SITE_PROFILE_ASKED, 0, false},
		{"srun", SITE_PROFILE_ASKED, 1, false},
		{"srun", SITE_PROFILE_ASKED, 2, true},
		{"srun", SITE_PROFILE_ASKED, UINT32_MAX, true},
		{"srun", SITE_PROFILE_DEFAULT, 0, true},
		{"srun", SITE_PROFILE_DEFAULT, 1, false},
		{"srun", SITE_PROFILE_RELEASE, 0, true},
		{"srun-24.11", SITE_PROFILE_RELEASE, 0, true},
		{"srun-26.05", SITE_PROFILE_RELEASE, 0, false},
		{"srun-26.05", SITE_PROFILE_RELEASE, 2, true},
		{"srun-26.05", SITE_PROFILE_RELEASE, 1, false},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct site_conf site = {.tree_width = 50, .profile = rows[i].site};
		_cleanup_recorded_ struct recorded r = {0};

		load_chosen(&r, rows[i].file, &site);
		r.init.launch.profile = rows[i].profile;
		if (slurm_decide(&r.init) !=
			(rows[i].profiled ? SLURM_REASON_PROFILE : SLURM_REASON_NONE))
			fail_msg("row %zu", i);
	}
}

/* Only where slurmctld accounts for it: every list has the file system "disk". */
static void test_usage(void **state)
{
	struct site_conf site = {.tree_width = 50};
	_cleanup_recorded_ struct recorded r = {0};

	(void)state;
	load_chosen(&r, "srun", &site);
	site.interconnect = "ofed";
	site.filesystem = "lustre";
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
	site.interconnect = "disk";
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
	site.filesystem = "disk";
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_USAGE);
}

/* Of nodes whose processors have one to be set, and steps whose processors get it. */
static void test_frequency(void **state)
{
	struct site_conf site = {.tree_width = 50};
	_cleanup_recorded_ struct recorded r = {0};

	(void)state;
	load_chosen(&r, "srun", &site);
	r.init.launch.cpu_freq_max = 2400000;
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
	r.init.frame.frequencies = 4;
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_FREQUENCY);
	r.init.launch.cpu_freq_max = SLURM_NO_VAL;
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
	site.sets_frequency = true;
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_FREQUENCY);
	r.init.launch.kind = SLURM_KIND_INTERACTIVE;
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
}

/* By LaunchParameters=batch_step_set_cpu_freq. */
static void test_frequency_of_scripts(void **state)
{
	struct site_conf site = {.tree_width = 50, .sets_frequency = true};
	_cleanup_recorded_ struct recorded r = {0};

	(void)state;
	load_chosen(&r, "batch", &site);
	r.init.frame.frequencies = 4;
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
	site.sets_batch_frequency = true;
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_FREQUENCY);
	r.init.frame.frequencies = 0;
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
}

/* It has no srun, no MPI, and no address but that of the node above. */
static void test_extern(void **state)
{
	struct site_conf site = {.mpi_default = (char *)"cray_shasta"};
	_cleanup_recorded_ struct recorded r = {0};

	(void)state;
	load_chosen(&r, "extern", &site);
	assert_int_equal(r.init.launch.srun.sin_family, 0);
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
	r.init.frame.parent_rank = 0;
	r.init.frame.parent.sin_family = AF_INET6;
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_ADDRESS);
}

/* auth/slurm: the credential stands in a token. */
static void test_token(void **state)
{
	struct site_conf site = {.mpi_default = (char *)"pmix", .uses_tokens = true};
	_cleanup_recorded_ struct recorded r = {0};
	const struct slurm_launch *l = &r.init.launch;
	char *text;

	(void)state;
	load_chosen(&r, "token-24.11", &site);
	assert_int_equal(r.init.error, 0);
	assert_true(l->has_token);
	assert_int_equal(l->token_uid, 0);
	assert_string_equal(l->user, "root");
	assert_int_equal(l->uid, 0);
	assert_int_equal(l->nnodes, 2);
	assert_string_equal(l->cores.hosts, l->nodes);
	assert_int_equal(slurm_decide(&r.init), SLURM_REASON_NONE);
	recorded_clear(&r);
	/* A token that is cut, or has another body. */
	load(&r, "token-24.11");
	text = memmem(r.bytes, r.size, "eyJ", 3);
	assert_non_null(text);
	text[0] = '.';
	decode(&r);
	assert_int_equal(r.init.error, -EBADMSG);
	assert_non_null(strstr(r.init.err.text, "a token without a credential"));
}

static void test_x11(void **state)
{
	_cleanup_recorded_ struct recorded r = {0};
	const struct slurm_launch_x11 *x = &r.init.launch.x11;

	(void)state;
	load(&r, "x11");
	decode(&r);
	assert_int_equal(x->flags, 1);
	assert_string_equal(x->host, "127.0.0.1");
	assert_int_equal(x->port, 42591);
	assert_string_equal(x->cookie, "0123456789abcdef0123456789abcdef");
	assert_string_equal(x->target, "localhost");
	assert_int_equal(x->target_port, 6010);
}

static void test_releases(void **state)
{
	(void)state;
	assert_string_equal(slurm_release_name(SLURM_22_05), "22.05");
	assert_string_equal(slurm_release_name(SLURM_26_11), "26.11");
	assert_null(slurm_release_name(SLURM_22_05 - 256));
	assert_null(slurm_release_name(SLURM_22_05 + 1));
	assert_null(slurm_release_name(SLURM_26_11 + 256));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_records),
		cmocka_unit_test(test_tasks),
		cmocka_unit_test(test_tasks_24_11),
		cmocka_unit_test(test_batch),
		cmocka_unit_test(test_container),
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_nodes),
		cmocka_unit_test(test_component),
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_ports),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_release),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_large_numbers),
		cmocka_unit_test(test_field_is_named),
		cmocka_unit_test(test_mpi_nodes),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_token),
		cmocka_unit_test(test_x11),
		cmocka_unit_test(test_spank),
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_served),
		cmocka_unit_test(test_profiled),
		cmocka_unit_test(test_usage),
		cmocka_unit_test(test_frequency),
		cmocka_unit_test(test_frequency_of_scripts),
		cmocka_unit_test(test_extern),
		cmocka_unit_test(test_releases),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
