/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/binding/binding.h"

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "stepd/base/fs.h"
#include "stepd/base/rawcall.h"
#include "stepd/binding/placement.h"
#include "stepd/spec/spec.h"

/* ---- the bounds ---------------------------------------------------------------------------- */

#define CPUS_MAX   (1u << 16) /* no kernel has more */
#define CPUSET_MAX 65536u     /* bytes of a file */
#define DEPTH_MAX  64         /* groups one in another */

void binding_bounds_clear(struct binding_bounds *bounds)
{
	bitset_clear(&bounds->cpus);
	bitset_clear(&bounds->nodes);
}

int binding_read_cpus(struct bitset *ret_cpus)
{
	size_t bits;
	long n;

	for (bits = 1024; bits <= CPUS_MAX; bits *= 4) {
		_cleanup_bitset_ struct bitset cpus = {0};

		if (bitset_init(&cpus, bits) < 0)
			return -ENOMEM;
		n = syscall(SYS_sched_getaffinity, 0, cpus.width * sizeof(*cpus.words), cpus.words);
		if (n >= 0) {
			bitset_trim(&cpus);
			*ret_cpus = take_struct(cpus);
			return 0;
		}
		if (errno != EINVAL) /* the kernel has more than the set holds */
			return -errno;
	}
	return -EINVAL;
}

static int read_nodes(struct bitset *ret_nodes)
{
	_cleanup_bitset_ struct bitset nodes = {0};

	if (bitset_init(&nodes, SPEC_NUMA_NODES_MAX) < 0)
		return -ENOMEM;
	if (syscall(SYS_get_mempolicy, NULL, nodes.words, SPEC_NUMA_NODES_MAX + 1ul, NULL,
		    MPOL_F_MEMS_ALLOWED) < 0 &&
		errno != ENOSYS && errno != EPERM) /* no NUMA in the kernel; a container's filter */
		return -errno;
	bitset_trim(&nodes);
	*ret_nodes = take_struct(nodes);
	return 0;
}

/* The agent's own CPUs count if they are a subset of the group's. Else the group's count:
 * services of the node may be confined to other CPUs. */
static void intersect_bounds(struct bitset *set, struct bitset *listed)
{
	struct bitset agents = *set;

	bitset_trim(listed);
	bitset_intersect(set, listed);
	if (bitset_count(set) > 0)
		return;
	*set = *listed;
	*listed = agents;
}

/* Reads the file of the nearest group, from the one at cgroup_fd up, that has it: a group without
 * the controller is limited by the one above. -ENOENT: none has. */
static int read_nearest(int cgroup_fd, const char *file, char **ret_text)
{
	char path[DEPTH_MAX * 3 + 32];
	size_t up;
	int r = -ENOENT;

	for (up = 0; r == -ENOENT && up < DEPTH_MAX; up++) {
		(void)snprintf(path + up * 3, sizeof(path) - up * 3, "%s", file);
		r = fs_read(cgroup_fd, path, CPUSET_MAX, ret_text, NULL);
		/* every group has this file, directories above the mount have not */
		(void)snprintf(path + up * 3, sizeof(path) - up * 3, "cgroup.procs");
		if (r == -ENOENT && faccessat(cgroup_fd, path, F_OK, 0) < 0)
			break;
		memcpy(path + up * 3, "../", 3);
	}
	return r;
}

/* Intersects set with the list in the group's file. */
static int narrow_by(int cgroup_fd, const char *file, struct bitset *set)
{
	_cleanup_bitset_ struct bitset listed = {0};
	_cleanup_free_ char *text = NULL;
	int r = read_nearest(cgroup_fd, file, &text);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	text[strcspn(text, "\n")] = '\0';
	if (bitset_init(&listed, CPUS_MAX) < 0)
		return -ENOMEM;
	r = bitset_add_list(&listed, text);
	if (r < 0)
		return r;
	intersect_bounds(set, &listed);
	return 0;
}

int binding_bounds_read(int cgroup_fd, struct binding_bounds *ret_bounds, struct err *err)
{
	_cleanup_binding_bounds_ struct binding_bounds bounds = {0};
	int r = binding_read_cpus(&bounds.cpus);

	if (r < 0)
		return err_set(err, r, "find out which CPUs the step may use");
	r = read_nodes(&bounds.nodes);
	if (r < 0)
		return err_set(err, r, "find out which NUMA nodes the step may use");
	if (cgroup_fd >= 0) {
		r = narrow_by(cgroup_fd, "cpuset.cpus.effective", &bounds.cpus);
		if (r == 0)
			r = narrow_by(cgroup_fd, "cpuset.mems.effective", &bounds.nodes);
		if (r < 0)
			return err_set(err, r, "read the cpuset of the step's cgroup");
	}
	if (bitset_count(&bounds.cpus) == 0)
		return err_set_text(
			err, -EINVAL, "the cpuset of the step's cgroup has no CPU to bind to");
	*ret_bounds = take_struct(bounds);
	return 0;
}

#define SHOWN_MAX 200 /* bytes of a list in a message */

static void sets_clear(struct binding_sets *sets)
{
	bitset_table_clear(&sets->table);
	free(sets->of_task);
	sets->of_task = NULL;
}

void binding_clear(struct binding *binding)
{
	sets_clear(&binding->cpus);
	sets_clear(&binding->nodes);
}

/* A list for messages, "0-3,8", with dots where it is too long. Returns text. */
static const char *binding_show(const struct bitset *set, char *text, size_t size)
{
	if (bitset_format_list(set, text, size) >= size)
		memcpy(text + size - 4, "...", 4);
	return text;
}

/* ---- sets of a list ------------------------------------------------------------------------ */

/* A list under way: what its numbers mean. */
struct listing {
	const char *field;              /* "cpu_bind" */
	const char *one, *many;         /* "CPU", "CPUs" */
	const struct bitset *bound;     /* the numbers that may be used */
	const struct topology *machine; /* numbers are NUMA nodes and stand for their CPUs */
	size_t set_bits;                /* width of the sets */
};

static int err_outside(const struct listing *l, uint32_t n, struct err *err)
{
	char text[SHOWN_MAX];

	return err_set_text(err, -EINVAL, "%s: %s %u is not one of the step's (%s)", l->field,
		l->one, n, binding_show(l->bound, text, sizeof(text)));
}

/* What the numbers stand for. */
static void add_meant(const struct listing *l, const struct bitset *numbers, struct bitset *set)
{
	uint32_t n;
	size_t i;

	for (n = bitset_next(numbers, 0); !l->machine && n != BITSET_NONE;
		n = bitset_next(numbers, n + 1))
		bitset_set(set, n);
	for (i = 0; l->machine && i < l->machine->count; i++) {
		if (bitset_test(numbers, l->machine->cpus[i].node))
			bitset_set(set, l->machine->cpus[i].cpu);
	}
}

static int read_item(
	const struct listing *l, const struct bind_item *item, struct bitset *set, struct err *err)
{
	_cleanup_bitset_ struct bitset numbers = {0};
	uint32_t outside;
	int r = bitset_init(&numbers, l->bound->width * BITSET_WORD_BITS);

	if (r < 0)
		return err_set(err, r, "bind the tasks");
	if (!item->digits) {
		if (!bitset_test(l->bound, item->number))
			return err_outside(l, item->number, err);
		bitset_set(&numbers, item->number);
	} else {
		r = bitset_add_hex(&numbers, item->digits, item->digits_len);
		if (r < 0) /* beyond what the kernel can have */
			return err_set_text(err, -EINVAL,
				"%s: the mask 0x%.*s%s has %s that this machine does not have",
				l->field, (int)(item->digits_len > 64 ? 64 : item->digits_len),
				item->digits, item->digits_len > 64 ? "..." : "", l->many);
		outside = bitset_first_outside(&numbers, l->bound);
		if (outside != BITSET_NONE)
			return err_outside(l, outside, err);
	}
	add_meant(l, &numbers, set);
	return 0;
}

static int alloc_sets(
	struct binding_sets *sets, uint32_t ntasks, size_t count, size_t bits, struct err *err)
{
	sets->of_task = calloc(ntasks + 1, sizeof(*sets->of_task));
	if (!sets->of_task || (count && bitset_table_init(&sets->table, count, bits) < 0))
		return err_set(err, -ENOMEM, "bind the tasks");
	return 0;
}

/* Task i gets element i of the list, which begins again at its end. */
static int sets_of_list(const struct listing *l, const struct bind_text *text, uint32_t ntasks,
	struct binding_sets *sets, struct err *err)
{
	size_t i, at = 0;
	uint32_t task, left = text->items[0].repeat;
	struct bitset set;
	int r = alloc_sets(sets, ntasks, text->items_count, l->set_bits, err);

	for (i = 0; r == 0 && i < text->items_count; i++) {
		set = bitset_table_get(&sets->table, i);
		r = read_item(l, &text->items[i], &set, err);
	}
	for (task = 0; r == 0 && task < ntasks; task++, left--) {
		if (left == 0) {
			at = (at + 1) % text->items_count;
			left = text->items[at].repeat;
		}
		sets->of_task[task] = (uint32_t)at;
	}
	return r;
}

/* Task i gets the i-th of the bounds' numbers, and so on from the first. */
static int sets_of_rank(
	const struct listing *l, uint32_t ntasks, struct binding_sets *sets, struct err *err)
{
	uint32_t count = bitset_count(l->bound), n, i, task;
	int r = alloc_sets(sets, ntasks, count, l->set_bits, err);

	for (i = 0, n = bitset_next(l->bound, 0); r == 0 && n != BITSET_NONE; i++) {
		_cleanup_bitset_ struct bitset number = {0};
		struct bitset set = bitset_table_get(&sets->table, i);

		r = bitset_init(&number, l->bound->width * BITSET_WORD_BITS);
		if (r < 0)
			return err_set(err, r, "bind the tasks");
		bitset_set(&number, n);
		add_meant(l, &number, &set);
		n = bitset_next(l->bound, n + 1);
	}
	for (task = 0; r == 0 && task < ntasks; task++)
		sets->of_task[task] = task % count;
	return r;
}

/* ---- CPUs ---------------------------------------------------------------------------------- */

/* The input of binding_make(). */
struct maker {
	const struct spec *spec;
	const struct binding_bounds *bounds;
	const struct identity *id; /* whose permissions apply to reading the machine */
	struct topology machine;   /* within the bounds; empty unless a mode needs it */
	size_t cpu_bits;
};

static void maker_clear(struct maker *m)
{
	topology_clear(&m->machine);
}

static bool cpu_needs_topology(const struct spec *spec)
{
	static const uint32_t computed = 1u << BIND_CPU_THREADS | 1u << BIND_CPU_CORES |
		1u << BIND_CPU_SOCKETS | 1u << BIND_CPU_LDOMS | 1u << BIND_CPU_RANK_LDOM |
		1u << BIND_CPU_MAP_LDOM | 1u << BIND_CPU_MASK_LDOM;

	return computed >> spec->cpu_bind.how & 1;
}

static bool mem_needs_topology(const struct spec *spec)
{
	return spec->mem_bind.how == BIND_MEM_LOCAL;
}

/* Reads the machine, and drops what is not within the bounds. */
static int load_machine(struct maker *m, struct err *err)
{
	const char *field = cpu_needs_topology(m->spec) ? "cpu_bind" : "mem_bind";
	const char *file = m->spec->topology;
	struct topology *t = &m->machine;
	size_t i, n = 0;
	int r = topology_load(file, m->id, t, err);

	if (r < 0)
		return err_prefix(err, "%s", file && r != -EOPNOTSUPP ? "topology" : field);
	for (i = 0; i < t->count; i++) {
		if (bitset_test(&m->bounds->cpus, t->cpus[i].cpu))
			t->cpus[n++] = t->cpus[i];
	}
	t->count = n;
	if (n == 0)
		return err_set_text(err, -EINVAL, "topology: '%s' has none of the step's CPUs",
			file ? file : "this machine");
	return 0;
}

static int check_nodes_known(const struct topology *machine, const char *field, struct err *err)
{
	size_t i;

	for (i = 0; i < machine->count; i++) {
		if (machine->cpus[i].node >= SPEC_NUMA_NODES_MAX)
			return err_set_text(err, -EINVAL,
				"%s: the topology has no NUMA node of CPU %u", field,
				machine->cpus[i].cpu);
	}
	return 0;
}

static int compute_sets(const struct maker *m, struct binding_sets *sets, struct err *err)
{
	static const enum placement_level levels[BIND_CPU_MAX] = {
		[BIND_CPU_THREADS] = PLACEMENT_THREADS,
		[BIND_CPU_CORES] = PLACEMENT_CORES,
		[BIND_CPU_SOCKETS] = PLACEMENT_SOCKETS,
		[BIND_CPU_LDOMS] = PLACEMENT_LDOMS,
	};
	struct placement request = {
		.level = levels[m->spec->cpu_bind.how],
		.ntasks = m->spec->local_ntasks,
		.cpus_per_task = m->spec->cpus_per_task ? m->spec->cpus_per_task : 1,
		.plane = m->spec->plane,
	};
	uint32_t task;
	int r;

	if (request.cpus_per_task > m->machine.count)
		return err_set_text(err, -EINVAL,
			"cpus_per_task: %u, but the step may use %zu CPUs", request.cpus_per_task,
			m->machine.count);
	r = alloc_sets(sets, request.ntasks, 0, 0, err);
	if (r == 0 && placement_make(&m->machine, &request, &sets->table) < 0)
		r = err_set(err, -ENOMEM, "bind the tasks");
	for (task = 0; r == 0 && task < request.ntasks; task++)
		sets->of_task[task] = placement_set_of(&request, sets->table.count, task);
	return r;
}

/* By NUMA nodes that stand for their CPUs. */
static int bind_to_ldoms(const struct maker *m, struct binding_sets *sets, struct err *err)
{
	_cleanup_bitset_ struct bitset nodes = {0};
	struct listing l = {
		.field = "cpu_bind",
		.one = "NUMA node",
		.many = "NUMA nodes",
		.bound = &nodes,
		.machine = &m->machine,
		.set_bits = m->cpu_bits,
	};
	size_t i;

	if (bitset_init(&nodes, SPEC_NUMA_NODES_MAX) < 0)
		return err_set(err, -ENOMEM, "bind the tasks");
	for (i = 0; i < m->machine.count; i++)
		bitset_set(&nodes, m->machine.cpus[i].node);
	if (m->spec->cpu_bind.how == BIND_CPU_RANK_LDOM)
		return sets_of_rank(&l, m->spec->local_ntasks, sets, err);
	return sets_of_list(&l, &m->spec->cpu_bind, m->spec->local_ntasks, sets, err);
}

static int bind_cpus(const struct maker *m, struct binding_sets *sets, struct err *err)
{
	const struct spec *spec = m->spec;
	struct listing l = {
		.field = "cpu_bind",
		.one = "CPU",
		.many = "CPUs",
		.bound = &m->bounds->cpus,
		.set_bits = m->cpu_bits,
	};

	switch (spec->cpu_bind.how) {
	case BIND_CPU_NONE:
		return 0;
	case BIND_CPU_RANK:
		return sets_of_rank(&l, spec->local_ntasks, sets, err);
	case BIND_CPU_MAP:
	case BIND_CPU_MASK:
		return sets_of_list(&l, &spec->cpu_bind, spec->local_ntasks, sets, err);
	case BIND_CPU_LDOMS:
		return check_nodes_known(&m->machine, "cpu_bind", err)
			?: compute_sets(m, sets, err);
	case BIND_CPU_RANK_LDOM:
	case BIND_CPU_MAP_LDOM:
	case BIND_CPU_MASK_LDOM:
		return check_nodes_known(&m->machine, "cpu_bind", err)
			?: bind_to_ldoms(m, sets, err);
	default:
		return compute_sets(m, sets, err);
	}
}

/* ---- memory -------------------------------------------------------------------------------- */

/* Those of the CPUs that may be used. */
static int local_nodes(
	const struct maker *m, const struct bitset *cpus, struct bitset *nodes, struct err *err)
{
	char cpus_text[SHOWN_MAX], nodes_text[SHOWN_MAX];
	size_t i;

	for (i = 0; i < m->machine.count; i++) {
		const struct topology_cpu *cpu = &m->machine.cpus[i];

		if (bitset_test(cpus, cpu->cpu) && bitset_test(&m->bounds->nodes, cpu->node))
			bitset_set(nodes, cpu->node);
	}
	if (bitset_count(nodes) > 0)
		return 0;
	return err_set_text(err, -EINVAL,
		"mem_bind: the step may use no NUMA node of the CPUs %s, only the nodes %s",
		binding_show(cpus, cpus_text, sizeof(cpus_text)),
		binding_show(&m->bounds->nodes, nodes_text, sizeof(nodes_text)));
}

/* A set for each set of CPUs, or one for all tasks where those are not bound. */
static int bind_local(const struct maker *m, const struct binding_sets *cpus,
	struct binding_sets *sets, struct err *err)
{
	size_t count = cpus->table.count ? cpus->table.count : 1, i;
	struct bitset of, set;
	int r = check_nodes_known(&m->machine, "mem_bind", err);

	if (r == 0)
		r = alloc_sets(sets, m->spec->local_ntasks, count,
			m->bounds->nodes.width * BITSET_WORD_BITS, err);
	for (i = 0; r == 0 && i < count; i++) {
		of = cpus->table.count ? bitset_table_get(&cpus->table, i) : m->bounds->cpus;
		set = bitset_table_get(&sets->table, i);
		r = local_nodes(m, &of, &set, err);
	}
	if (r == 0 && cpus->table.count)
		memcpy(sets->of_task, cpus->of_task,
			m->spec->local_ntasks * sizeof(*sets->of_task));
	return r;
}

static int bind_memory(const struct maker *m, struct binding *b, struct err *err)
{
	const struct bind_text *text = &m->spec->mem_bind;
	struct listing l = {
		.field = "mem_bind",
		.one = "NUMA node",
		.many = "NUMA nodes",
		.bound = &m->bounds->nodes,
		.set_bits = m->bounds->nodes.width * BITSET_WORD_BITS,
	};

	if (text->how == BIND_MEM_NONE)
		return 0;
	if (bitset_count(&m->bounds->nodes) == 0)
		return err_set_text(err, -EOPNOTSUPP,
			"mem_bind: this kernel has no NUMA policies, or a filter of the container "
			"denies them to the agent; leave mem_bind out");
	b->mem_mode = text->prefer ? MPOL_PREFERRED : MPOL_BIND;
	switch (text->how) {
	case BIND_MEM_LOCAL:
		return bind_local(m, &b->cpus, &b->nodes, err);
	case BIND_MEM_RANK:
		return sets_of_rank(&l, m->spec->local_ntasks, &b->nodes, err);
	default:
		return sets_of_list(&l, text, m->spec->local_ntasks, &b->nodes, err);
	}
}

/* ---- the whole ----------------------------------------------------------------------------- */

bool binding_is_wanted(const struct spec *spec)
{
	return spec->cpu_bind.how != BIND_CPU_NONE || spec->mem_bind.how != BIND_MEM_NONE;
}

int binding_make(const struct spec *spec, const struct binding_bounds *bounds,
	const struct identity *id, struct binding *ret_binding, struct err *err)
{
	_cleanup_(maker_clear) struct maker m = {
		.spec = spec,
		.bounds = bounds,
		.id = id,
		.cpu_bits = bounds->cpus.width * BITSET_WORD_BITS,
	};
	_cleanup_binding_ struct binding b = {0};
	int r = 0;

	if (cpu_needs_topology(spec) || mem_needs_topology(spec))
		r = load_machine(&m, err);
	if (r == 0)
		r = bind_cpus(&m, &b.cpus, err);
	if (r == 0)
		r = bind_memory(&m, &b, err);
	if (r < 0)
		return r;
	*ret_binding = take_struct(b);
	return 0;
}

/* By threads and cores, no two tasks share a CPU as long as there are enough. By sockets and NUMA
 * nodes they do, and each holds as many tasks as it has CPUs. */
bool binding_is_shared(const struct spec *spec, const struct binding *binding, uint32_t *ret_cpus)
{
	const struct bitset_table *table = &binding->cpus.table;
	uint64_t taken = 0, need = spec->cpus_per_task ? spec->cpus_per_task : 1;
	_cleanup_bitset_ struct bitset all = {0};
	enum bind_cpu how = (enum bind_cpu)spec->cpu_bind.how;
	uint32_t i, bit;

	if (!binding->cpus.of_task || !binding_is_computed(how) ||
		bitset_init(&all, table->width * BITSET_WORD_BITS) < 0)
		return false;
	for (i = 0; i < table->count; i++) {
		struct bitset set = bitset_table_get(table, i);

		for (bit = bitset_next(&set, 0); bit != BITSET_NONE;
			bit = bitset_next(&set, bit + 1))
			bitset_set(&all, bit);
	}
	for (i = 0; i < spec->local_ntasks; i++) {
		struct bitset set = bitset_table_get(table, binding->cpus.of_task[i]);

		taken += how <= BIND_CPU_CORES ? bitset_count(&set) : need;
	}
	*ret_cpus = bitset_count(&all);
	return taken > *ret_cpus;
}

/* ---- in the child -------------------------------------------------------------------------- */

#define LIST_SIZE 200  /* of a list in a line */
#define LINE_SIZE 1024 /* below PIPE_BUF: lines of several tasks don't mix */

/* rawcall()s only, see child.h. */
int binding_apply(const struct binding *b, uint32_t local_id, uint32_t *ret_part)
{
	struct bitset set;
	long r = 0;

	if (b->cpus.table.count) {
		set = bitset_table_get(&b->cpus.table, b->cpus.of_task[local_id]);
		*ret_part = BINDING_CPUS;
		r = rawcall(SYS_sched_setaffinity, 0, set.width * sizeof(*set.words), set.words);
	}
	if (r >= 0 && b->nodes.table.count) {
		set = bitset_table_get(&b->nodes.table, b->nodes.of_task[local_id]);
		*ret_part = BINDING_MEMORY;
		/* The kernel leaves the last bit of its count out. */
		r = rawcall(SYS_set_mempolicy, b->mem_mode, set.words,
			set.width * BITSET_WORD_BITS + 1);
	}
	return r < 0 ? (int)r : 0;
}

void binding_name(
	const struct binding *b, uint32_t local_id, uint32_t part, char *text, size_t size)
{
	const struct binding_sets *sets = part == BINDING_MEMORY ? &b->nodes : &b->cpus;
	char list[LIST_SIZE] = "?";
	struct bitset set;

	if (sets->table.count) {
		set = bitset_table_get(&sets->table, sets->of_task[local_id]);
		(void)binding_show(&set, list, sizeof(list));
	}
	(void)snprintf(text, size,
		part == BINDING_MEMORY ? " its memory to the NUMA nodes %s" : " to the CPUs %s",
		list);
}

/* ---- verbose ------------------------------------------------------------------------------- */

/* The SIGPIPE of a reader that is gone is consumed: the task gets its own if it writes. All
 * signals are blocked here. */
static void put_line(int fd, const char *line)
{
	const struct timespec now = {0};
	sigset_t pipe;

	if (write(fd, line, strlen(line)) >= 0 || errno != EPIPE)
		return;
	(void)sigemptyset(&pipe);
	(void)sigaddset(&pipe, SIGPIPE);
	(void)sigtimedwait(&pipe, NULL, &now); /* -1: it was none */
}

/* "n1, task 3 (local 1, pid 4711)" */
static void name_task(const stepd_step_rec_t *job, uint32_t local_id, char *text, size_t size)
{
	(void)snprintf(text, size, "%s, task %u (local %u, pid %d)", job->node_name,
		job->task[local_id].gtid, local_id, (int)syscall(SYS_getpid));
}

static void report_cpus(
	const struct spec *spec, const stepd_step_rec_t *job, uint32_t local_id, int fd)
{
	char task[128], list[LIST_SIZE], mask[LIST_SIZE], line[LINE_SIZE];
	unsigned long words[65536 / BITSET_WORD_BITS];
	struct bitset set = {.words = words, .width = ARRAY_SIZE(words)};
	long n = syscall(SYS_sched_getaffinity, 0, sizeof(words), words);

	name_task(job, local_id, task, sizeof(task));
	if (n < 0) {
		(void)snprintf(line, sizeof(line), "cpu-bind=%s - %s: can't be read: %s\n",
			bind_cpu_names[spec->cpu_bind.how], task, strerror(errno));
	} else {
		set.width = (size_t)n / sizeof(*words);
		if (bitset_format_hex(&set, mask, sizeof(mask)) >= sizeof(mask))
			memcpy(mask + sizeof(mask) - 4, "...", 4);
		(void)snprintf(line, sizeof(line), "cpu-bind=%s - %s: %s CPUs %s, mask %s\n",
			bind_cpu_names[spec->cpu_bind.how], task,
			spec->cpu_bind.how == BIND_CPU_NONE ? "not bound," : "bound to",
			binding_show(&set, list, sizeof(list)), mask);
	}
	put_line(fd, line);
}

static const char *mode_name(int mode)
{
	switch (mode & ~MPOL_MODE_FLAGS) {
	case MPOL_BIND:
		return "bound to";
	case MPOL_PREFERRED:
		return "prefers";
	default:
		return "not bound,";
	}
}

static void report_memory(
	const struct spec *spec, const stepd_step_rec_t *job, uint32_t local_id, int fd)
{
	char task[128], list[LIST_SIZE], line[LINE_SIZE];
	unsigned long words[SPEC_NUMA_NODES_MAX / BITSET_WORD_BITS] = {0};
	struct bitset set = {.words = words, .width = ARRAY_SIZE(words)};
	int mode = MPOL_DEFAULT, r;

	name_task(job, local_id, task, sizeof(task));
	r = (int)syscall(SYS_get_mempolicy, &mode, words, SPEC_NUMA_NODES_MAX + 1ul, NULL, 0);
	if (r == 0 && mode == MPOL_DEFAULT)
		r = (int)syscall(SYS_get_mempolicy, NULL, words, SPEC_NUMA_NODES_MAX + 1ul, NULL,
			MPOL_F_MEMS_ALLOWED);
	if (r < 0)
		(void)snprintf(line, sizeof(line), "mem-bind=%s - %s: can't be read: %s\n",
			bind_mem_names[spec->mem_bind.how], task, strerror(errno));
	else
		(void)snprintf(line, sizeof(line), "mem-bind=%s - %s: %s NUMA nodes %s\n",
			bind_mem_names[spec->mem_bind.how], task, mode_name(mode),
			binding_show(&set, list, sizeof(list)));
	put_line(fd, line);
}

void binding_report(const struct spec *spec, const stepd_step_rec_t *job, uint32_t local_id, int fd)
{
	if (spec->cpu_bind.verbose)
		report_cpus(spec, job, local_id, fd);
	if (spec->mem_bind.verbose)
		report_memory(spec, job, local_id, fd);
}
