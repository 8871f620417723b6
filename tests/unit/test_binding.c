/* SPDX-License-Identifier: BSD-3-Clause
 *
 * From a spec to each task's CPUs and NUMA nodes, against the maps of tests/data/binding.golden
 * and by rules that hold for every map; the bounds; what tasks are told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stepd/binding/binding.h"
#include "stepd/launch/environ.h"
#include "stepd/binding/placement.h"
#include "stepd/spec/spec.h"
#include "tests/lib/scratch.h"

static char *data_path(const char *name)
{
	const char *top = getenv("top_srcdir");
	char *path = NULL;

	if (!top)
		fail_msg("top_srcdir is not set");
	assert_true(asprintf(&path, "%s/tests/data/%s", top, name) > 0);
	return path;
}

static bool has_hwloc(void)
{
	_cleanup_topology_ struct topology t = {0};
	struct err err = ERR_INIT;

	return topology_load(NULL, NULL, &t, &err) != -EOPNOTSUPP;
}

/* A step of ntasks with these fields, ' for ". */
static struct spec *make_spec(uint32_t ntasks, const char *fields)
{
	_cleanup_free_ char *json = NULL;
	struct spec *spec = NULL;
	struct err err = ERR_INIT;
	char *p;

	assert_true(asprintf(&json, "{'argv': ['x'], 'ntasks': %u, %s}", ntasks, fields) > 0);
	for (p = json; (p = strchr(p, '\'')); p++)
		*p = '"';
	if (spec_from_text(json, strlen(json), &spec, &err) < 0)
		fail_msg("%s: %s", json, err.text);
	return spec;
}

static struct binding_bounds make_bounds(const char *cpus, const char *nodes)
{
	struct binding_bounds b = {0};

	assert_int_equal(bitset_init(&b.cpus, 1024), 0);
	assert_int_equal(bitset_init(&b.nodes, SPEC_NUMA_NODES_MAX), 0);
	assert_int_equal(bitset_add_list(&b.cpus, cpus), 0);
	assert_int_equal(bitset_add_list(&b.nodes, nodes), 0);
	bitset_trim(&b.cpus);
	bitset_trim(&b.nodes);
	return b;
}

/* The lists of all tasks, separated by blanks. */
static char *sets_text(const struct binding_sets *sets, uint32_t ntasks)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	uint32_t i;

	assert_non_null(f);
	for (i = 0; sets->table.count && i < ntasks; i++) {
		struct bitset set = bitset_table_get(&sets->table, sets->of_task[i]);
		char list[4096];

		assert_true(bitset_format_list(&set, list, sizeof(list)) < sizeof(list));
		fprintf(f, i ? " %s" : "%s", list);
	}
	assert_int_equal(fclose(f), 0);
	return text;
}

/* ---- goldens ------------------------------------------------------------------------------ */

/* MACHINE ALLOWED TASKS CPUS_PER_TASK BIND DISTRIBUTION MEM : CPUS... : NODES... */
static void check_golden(char *line)
{
	_cleanup_binding_bounds_ struct binding_bounds bounds = {0};
	_cleanup_binding_ struct binding b = {0};
	_cleanup_spec_ struct spec *spec = NULL;
	_cleanup_free_ char *path = NULL, *fields = NULL, *got = NULL, *got_nodes = NULL;
	struct err err = ERR_INIT;
	char machine[64], allowed[64], bind[128], distribution[32], mem[16], *cpus, *nodes;
	unsigned tasks, need;

	cpus = strstr(line, " : ");
	assert_non_null(cpus);
	*cpus = '\0';
	cpus += 3;
	nodes = strstr(cpus, " :");
	assert_non_null(nodes);
	*nodes = '\0';
	nodes += 2 + (nodes[2] == ' ');
	assert_int_equal(sscanf(line, "%63s %63s %u %u %127s %31s %15s", machine, allowed, &tasks,
				 &need, bind, distribution, mem),
		7);
	assert_true(asprintf(&path, "topology/%s.xml", machine) > 0);
	fields = data_path(path);
	free(path);
	path = fields;
	assert_true(asprintf(&fields,
			    "'topology': '%s', 'cpus_per_task': %u, 'cpu_bind': '%s',"
			    " 'distribution': '%s', 'mem_bind': '%s'",
			    path, need, bind, distribution, strcmp(mem, "-") ? mem : "none") > 0);
	spec = make_spec(tasks, fields);
	bounds = make_bounds(allowed, "0-7");
	if (binding_make(spec, &bounds, NULL, &b, &err) < 0)
		fail_msg("%s: %s", line, err.text);
	got = sets_text(&b.cpus, tasks);
	got_nodes = sets_text(&b.nodes, tasks);
	if (strcmp(bind, "none") == 0)
		assert_int_equal(b.cpus.table.count, 0);
	else if (strcmp(got, cpus) != 0)
		fail_msg("%s:\n  got:    %s\n  wanted: %s", line, got, cpus);
	if (strcmp(got_nodes, nodes) != 0)
		fail_msg("%s: nodes:\n  got:    %s\n  wanted: %s", line, got_nodes, nodes);
}

static void test_goldens(void **state)
{
	_cleanup_free_ char *path = data_path("binding.golden"), *text = NULL;
	char *line, *save = NULL;
	unsigned checked = 0;

	(void)state;
	if (!has_hwloc())
		skip();
	assert_int_equal(fs_read(AT_FDCWD, path, 1u << 20, &text, NULL), 0);
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (*line == '#')
			continue;
		check_golden(line);
		checked++;
	}
	assert_true(checked > 70);
}

/* ---- rules -------------------------------------------------------------------------------- */

/* A machine with holes, whose cores, sockets and nodes are of all sizes. */
static void make_machine(struct topology *t, unsigned seed)
{
	uint32_t core = 0, socket = 0, node = 0;
	size_t i;

	srand(seed);
	t->count = 1 + (size_t)rand() % 80;
	t->cpus = calloc(t->count, sizeof(*t->cpus));
	assert_non_null(t->cpus);
	for (i = 0; i < t->count; i++) {
		if (i && rand() % 2) {
			core++;
			node += rand() % 5 == 0;
			socket += rand() % 9 == 0;
		}
		t->cpus[i] = (struct topology_cpu){.cpu = (uint32_t)(i * 37 % 81),
			.core = core,
			.socket = socket,
			.node = node};
	}
}

static uint32_t level_of(const struct topology_cpu *c, enum placement_level level)
{
	const uint32_t of[PLACEMENT_LEVEL_MAX] = {
		[PLACEMENT_THREADS] = c->cpu,
		[PLACEMENT_CORES] = c->core,
		[PLACEMENT_SOCKETS] = c->socket,
		[PLACEMENT_LDOMS] = c->node,
	};

	return of[level];
}

static void check_set(const struct topology *t, const struct placement *ask,
	const struct bitset *set, uint32_t used_by[81])
{
	size_t i, k;
	bool in;

	assert_true(bitset_count(set) >= ask->cpus_per_task);
	for (i = 0; i < t->count; i++) {
		in = bitset_test(set, t->cpus[i].cpu);
		used_by[t->cpus[i].cpu] += in;
		for (k = 0; k < t->count; k++) { /* all of a core, socket or node, or none of it */
			if (level_of(&t->cpus[i], ask->level) == level_of(&t->cpus[k], ask->level))
				assert_int_equal(in, bitset_test(set, t->cpus[k].cpu));
		}
	}
}

static void test_rules_of_every_placement(void **state)
{
	unsigned seed;

	(void)state;
	for (seed = 0; seed < 4000; seed++) {
		_cleanup_topology_ struct topology t = {0};
		_cleanup_bitset_table_ struct bitset_table sets = {0};
		struct placement ask;
		uint32_t used_by[81] = {0}, i;

		make_machine(&t, seed);
		ask = (struct placement){
			.level = (enum placement_level)(rand() % PLACEMENT_LEVEL_MAX),
			.ntasks = 1 + (uint32_t)rand() % 100,
			.cpus_per_task =
				1 + (uint32_t)rand() % (rand() % 2 ? 3 : (uint32_t)t.count),
			.plane = (uint32_t)rand() % 4,
		};
		if (ask.cpus_per_task > t.count)
			ask.cpus_per_task = (uint32_t)t.count;
		assert_int_equal(placement_make(&t, &ask, &sets), 0);
		assert_true(sets.count >= 1 && sets.count <= ask.ntasks);
		for (i = 0; i < sets.count; i++) {
			struct bitset set = bitset_table_get(&sets, i);

			check_set(&t, &ask, &set, used_by);
		}
		for (i = 0; i < 81; i++) { /* nobody shares while there is room */
			if (ask.level <= PLACEMENT_CORES)
				assert_true(used_by[i] <= 1);
		}
		for (i = 0; i < ask.ntasks; i++)
			assert_true(placement_set_of(&ask, sets.count, i) < sets.count);
	}
}

/* ---- errors ------------------------------------------------------------------------------- */

static void bad(uint32_t ntasks, const char *cpus, const char *nodes, const char *fields,
	const char *wanted)
{
	_cleanup_binding_bounds_ struct binding_bounds bounds = make_bounds(cpus, nodes);
	_cleanup_spec_ struct spec *spec = make_spec(ntasks, fields);
	struct binding b = {.mem_mode = 77};
	struct err err = ERR_INIT;
	int fds = scratch_count_fds();

	if (binding_make(spec, &bounds, NULL, &b, &err) >= 0)
		fail_msg("%s: was taken", fields);
	if (strcmp(err.text, wanted) != 0)
		fail_msg("%s:\n  got:    %s\n  wanted: %s", fields, err.text, wanted);
	assert_int_equal(b.mem_mode, 77);
	assert_int_equal(scratch_count_fds(), fds);
}

static void test_lists_outside_the_bounds(void **state)
{
	(void)state;
	bad(2, "0-1", "0", "'cpu_bind': 'map_cpu:0,2'",
		"cpu_bind: CPU 2 is not one of the step's (0-1)");
	bad(1, "4-7", "0", "'cpu_bind': 'map_cpu:4,65535'",
		"cpu_bind: CPU 65535 is not one of the step's (4-7)");
	bad(1, "0-1", "0", "'cpu_bind': 'mask_cpu:0x1,0x7'",
		"cpu_bind: CPU 2 is not one of the step's (0-1)");
	bad(1, "0-1", "0", "'cpu_bind': 'mask_cpu:0x10000000000000000'",
		"cpu_bind: the mask 0x10000000000000000 has CPUs that this machine does not have");
	bad(1, "0-1", "0,2", "'mem_bind': 'map_mem:1'",
		"mem_bind: NUMA node 1 is not one of the step's (0,2)");
	bad(1, "0-1", "0,2", "'mem_bind': 'mask_mem:2'",
		"mem_bind: NUMA node 1 is not one of the step's (0,2)");
	bad(1, "0-1", "", "'mem_bind': 'rank'",
		"mem_bind: this kernel has no NUMA policies, or a filter of the container denies them "
		"to the agent; leave mem_bind out");
}

static void bad_on_16(const char *cpus, const char *nodes, const char *fields, const char *wanted)
{
	_cleanup_free_ char *path = data_path("topology/cores16.xml"), *all = NULL;

	assert_true(asprintf(&all, "'topology': '%s', %s", path, fields) > 0);
	bad(2, cpus, nodes, all, wanted);
}

static void test_topology_and_bounds(void **state)
{
	_cleanup_free_ char *path = data_path("topology/cores16.xml"), *none = NULL;

	(void)state;
	if (!has_hwloc())
		skip();
	assert_true(asprintf(&none, "topology: '%s' has none of the step's CPUs", path) > 0);
	bad_on_16("64-70", "0", "'cpu_bind': 'cores'", none);
	bad_on_16("0-3", "0-1", "'cpu_bind': 'cores', 'cpus_per_task': 5",
		"cpus_per_task: 5, but the step may use 4 CPUs");
	bad_on_16("0,2,4", "0-1", "'cpu_bind': 'map_ldom:0,1'",
		"cpu_bind: NUMA node 1 is not one of the step's (0)");
	bad_on_16("0-15", "0",
		"'cpu_bind': 'sockets', 'distribution': 'cyclic', 'mem_bind': 'local'",
		"mem_bind: the step may use no NUMA node of the CPUs 1,3,5,7,9,11,13,15, only the "
		"nodes 0");
	bad(1, "0-1", "0", "'cpu_bind': 'cores', 'topology': '/nowhere/machine.xml'",
		"topology: open '/nowhere/machine.xml': No such file or directory");
}

/* ---- bounds ------------------------------------------------------------------------------- */

static void assert_list(const struct bitset *set, const char *wanted)
{
	char list[512];

	assert_true(bitset_format_list(set, list, sizeof(list)) < sizeof(list));
	assert_string_equal(list, wanted);
}

static void test_bounds_of_this_process(void **state)
{
	_cleanup_binding_bounds_ struct binding_bounds b = {0};
	struct err err = ERR_INIT;
	cpu_set_t mine;
	int i;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(mine), &mine), 0);
	assert_int_equal(binding_bounds_read(-1, &b, &err), 0);
	for (i = 0; i < CPU_SETSIZE; i++)
		assert_int_equal(bitset_test(&b.cpus, (uint32_t)i), CPU_ISSET(i, &mine) != 0);
}

/* Directories stand in for cgroups: DIR/job/task, each with a cpuset of its own or without. */
static void check_cpuset(
	const char *task_cpus, const char *top_cpus, int wanted_r, const char *wanted)
{
	static const char *const groups[] = {"job/task", "job", "."};
	const char *cpus[] = {task_cpus, NULL, top_cpus};
	_cleanup_binding_bounds_ struct binding_bounds b = {0};
	_cleanup_free_ char *dir = scratch_make(), *job = scratch_path(dir, "job");
	_cleanup_free_ char *task = scratch_path(job, "task");
	struct err err = ERR_INIT;
	int fds = scratch_count_fds(), r;
	_cleanup_close_ int fd = -1;
	size_t i;

	assert_int_equal(mkdir(job, 0755), 0);
	assert_int_equal(mkdir(task, 0755), 0);
	for (i = 0; i < ARRAY_SIZE(groups); i++) {
		_cleanup_free_ char *group = scratch_path(dir, groups[i]);

		scratch_write(group, "cgroup.procs", "", 0, 0644);
		if (cpus[i])
			scratch_write(
				group, "cpuset.cpus.effective", cpus[i], strlen(cpus[i]), 0644);
	}
	fd = open(task, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	r = binding_bounds_read(fd, &b, &err);
	assert_int_equal(r, wanted_r);
	if (r == 0 && wanted)
		assert_list(&b.cpus, wanted);
	if (r < 0)
		assert_non_null(strstr(err.text, "cpuset"));
	fd = close_fd(fd);
	assert_int_equal(scratch_count_fds(), fds);
	scratch_remove(dir);
}

static void test_bounds_of_a_cpuset(void **state)
{
	cpu_set_t before, one;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (sched_setaffinity(0, sizeof(one), &one) < 0)
		skip(); /* CPU 0 is not this test's */
	check_cpuset(NULL, NULL, 0, "0");
	check_cpuset("0-3\n", NULL, 0, "0");
	check_cpuset(NULL, "0-3\n", 0, "0");
	check_cpuset("0\n", "7\n", 0, "0");
	/* the agent's CPUs are others than the step's */
	check_cpuset("2-3,70\n", NULL, 0, "2-3,70");
	check_cpuset("\n", NULL, -EINVAL, NULL);
	check_cpuset("nonsense\n", NULL, -EINVAL, NULL);
	check_cpuset("0-99999999\n", NULL, -ERANGE, NULL);
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

/* ---- in a child --------------------------------------------------------------------------- */

static void test_apply(void **state)
{
	_cleanup_spec_ struct spec *spec =
		make_spec(3, "'cpu_bind': 'rank', 'mem_bind': 'prefer,rank'");
	_cleanup_binding_bounds_ struct binding_bounds bounds = {0}, after = {0};
	_cleanup_binding_ struct binding b = {0};
	struct err err = ERR_INIT;
	uint32_t part = 0, first;
	int status, mode = -1;
	pid_t pid;

	(void)state;
	assert_int_equal(binding_bounds_read(-1, &bounds, &err), 0);
	if (bitset_count(&bounds.nodes) == 0)
		skip();
	assert_int_equal(binding_make(spec, &bounds, NULL, &b, &err), 0);
	first = bitset_next(&bounds.cpus, 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (binding_apply(&b, 0, &part) < 0 || binding_bounds_read(-1, &after, &err) < 0 ||
			bitset_count(&after.cpus) != 1 || !bitset_test(&after.cpus, first))
			_exit(1);
		if (syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0) < 0 ||
			mode != MPOL_PREFERRED)
			_exit(2);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* CPUs and nodes that the kernel has not. */
static void test_apply_fails(void **state)
{
	_cleanup_spec_ struct spec *cpus = make_spec(1, "'cpu_bind': 'map_cpu:1000'");
	_cleanup_spec_ struct spec *nodes = make_spec(1, "'mem_bind': 'map_mem:900'");
	_cleanup_binding_bounds_ struct binding_bounds bounds = make_bounds("1000", "900");
	_cleanup_binding_ struct binding b = {0}, m = {0};
	struct err err = ERR_INIT;
	uint32_t part = 77;
	char text[128];

	(void)state;
	assert_int_equal(binding_make(cpus, &bounds, NULL, &b, &err), 0);
	assert_int_equal(binding_apply(&b, 0, &part), -EINVAL);
	assert_int_equal(part, BINDING_CPUS);
	binding_name(&b, 0, part, text, sizeof(text));
	assert_string_equal(text, " to the CPUs 1000");
	assert_int_equal(binding_make(nodes, &bounds, NULL, &m, &err), 0);
	assert_true(binding_apply(&m, 0, &part) < 0);
	assert_int_equal(part, BINDING_MEMORY);
	binding_name(&m, 0, part, text, sizeof(text));
	assert_string_equal(text, " its memory to the NUMA nodes 900");
}

/* ---- environment -------------------------------------------------------------------------- */

/* The variables, in the order of the alphabet, as "NAME=VALUE NAME=VALUE". */
static void check_environ(uint32_t ntasks, const char *fields, const char *wanted)
{
	_cleanup_binding_bounds_ struct binding_bounds bounds = make_bounds("0-15", "0-1");
	_cleanup_binding_ struct binding b = {0};
	_cleanup_spec_ struct spec *spec = NULL;
	_cleanup_strv_ struct strv env = {0};
	_cleanup_free_ char *path = data_path("topology/cores16.xml"), *all = NULL, *got = NULL;
	struct err err = ERR_INIT;
	size_t size, i;
	FILE *f = open_memstream(&got, &size);

	assert_true(asprintf(&all, "'topology': '%s'%s%s", path, *fields ? ", " : "", fields) > 0);
	spec = make_spec(ntasks, all);
	if (binding_make(spec, &bounds, NULL, &b, &err) < 0)
		fail_msg("%s: %s", fields, err.text);
	/* left by another step */
	assert_int_equal(strv_env_set(&env, "SLURM_CPU_BIND", "quiet,mask_cpu:0x80"), 0);
	assert_int_equal(strv_env_set(&env, "SLURM_CPU_BIND_LIST", "0x80"), 0);
	assert_int_equal(strv_env_set(&env, "SLURM_MEM_BIND_PREFER", "prefer"), 0);
	assert_int_equal(strv_env_set(&env, "A", "b"), 0);
	assert_int_equal(environ_set_binding(spec, &b, &env), 0);
	assert_non_null(f);
	for (i = 0; i < env.n; i++)
		fprintf(f, i ? " %s" : "%s", env.v[i]);
	assert_int_equal(fclose(f), 0);
	assert_null(env.v[env.n]);
	if (strcmp(got, wanted) != 0)
		fail_msg("%s:\n  got:    %s\n  wanted: %s", fields, got, wanted);
}

static void test_environ(void **state)
{
	(void)state;
	check_environ(1, "", "A=b");
	check_environ(1, "'cpus_per_task': 3, 'distribution': 'block:plane=4'",
		"A=b SLURM_DISTRIBUTION=block:plane SLURM_DIST_PLANESIZE=4 SLURM_CPUS_PER_TASK=3");
	check_environ(1, "'distribution': 'cyclic'", "A=b SLURM_DISTRIBUTION=cyclic");
	check_environ(2, "'cpu_bind': 'verbose'",
		"A=b SLURM_CPU_BIND=verbose,none SLURM_CPU_BIND_TYPE=none SLURM_CPU_BIND_LIST= "
		"SLURM_CPU_BIND_VERBOSE=verbose");
	check_environ(2, "'cpu_bind': 'map_cpu:3,0x1*2'",
		"A=b SLURM_CPU_BIND=quiet,map_cpu:3,0x1*2 SLURM_CPU_BIND_TYPE=map_cpu: "
		"SLURM_CPU_BIND_LIST=3,0x1*2 SLURM_CPU_BIND_VERBOSE=quiet");
	check_environ(2, "'cpu_bind': 'quiet,rank'",
		"A=b SLURM_CPU_BIND=quiet,rank SLURM_CPU_BIND_TYPE=rank SLURM_CPU_BIND_LIST= "
		"SLURM_CPU_BIND_VERBOSE=quiet");
	check_environ(2, "'mem_bind': 'verbose,prefer,map_mem:1'",
		"A=b SLURM_MEM_BIND=verbose,prefer,map_mem:1 SLURM_MEM_BIND_TYPE=map_mem: "
		"SLURM_MEM_BIND_LIST=1 SLURM_MEM_BIND_VERBOSE=verbose SLURM_MEM_BIND_PREFER=prefer");
}

static void test_environ_of_computed(void **state)
{
	(void)state;
	if (!has_hwloc())
		skip();
	check_environ(3, "'cpu_bind': 'cores', 'mem_bind': 'local'",
		"A=b SLURM_CPU_BIND=quiet,mask_cpu:0x1,0x4,0x10 SLURM_CPU_BIND_TYPE=mask_cpu: "
		"SLURM_CPU_BIND_LIST=0x1,0x4,0x10 SLURM_CPU_BIND_VERBOSE=quiet "
		"SLURM_MEM_BIND=quiet,local SLURM_MEM_BIND_TYPE=local SLURM_MEM_BIND_LIST= "
		"SLURM_MEM_BIND_VERBOSE=quiet");
	/* two tasks a set: neighbours, so each is told; in turn, so that the list begins again */
	check_environ(4, "'cpu_bind': 'cores', 'cpus_per_task': 8",
		"A=b SLURM_CPUS_PER_TASK=8 SLURM_CPU_BIND=quiet,mask_cpu:0x5555,0x5555,0xaaaa,0xaaaa "
		"SLURM_CPU_BIND_TYPE=mask_cpu: SLURM_CPU_BIND_LIST=0x5555,0x5555,0xaaaa,0xaaaa "
		"SLURM_CPU_BIND_VERBOSE=quiet");
	check_environ(4, "'cpu_bind': 'cores', 'cpus_per_task': 8, 'distribution': 'cyclic'",
		"A=b SLURM_DISTRIBUTION=cyclic SLURM_CPUS_PER_TASK=8 "
		"SLURM_CPU_BIND=quiet,mask_cpu:0x5555,0xaaaa SLURM_CPU_BIND_TYPE=mask_cpu: "
		"SLURM_CPU_BIND_LIST=0x5555,0xaaaa SLURM_CPU_BIND_VERBOSE=quiet");
	/* too long for a variable */
	check_environ(40000, "'cpu_bind': 'cores'",
		"A=b SLURM_CPU_BIND=quiet,cores SLURM_CPU_BIND_TYPE=cores "
		"SLURM_CPU_BIND_VERBOSE=quiet");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_goldens),
		cmocka_unit_test(test_rules_of_every_placement),
		cmocka_unit_test(test_lists_outside_the_bounds),
		cmocka_unit_test(test_topology_and_bounds),
		cmocka_unit_test(test_bounds_of_this_process),
		cmocka_unit_test(test_bounds_of_a_cpuset),
		cmocka_unit_test(test_apply),
		cmocka_unit_test(test_apply_fails),
		cmocka_unit_test(test_environ),
		cmocka_unit_test(test_environ_of_computed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
