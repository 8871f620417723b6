/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/binding/binding.h"

#include <linux/mempolicy.h>
#include <string.h>

#include "stepd/binding/placement.h"
#include "stepd/spec/spec.h"

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

const char *binding_show(const struct bitset *set, char *text, size_t size)
{
	if (bitset_format_list(set, text, size) >= size)
		memcpy(text + size - 4, "...", 4);
	return text;
}

/* ---- sets of a list ----------------------------------------------------------------------- */

/* A list under way: what its numbers mean. */
struct listing {
	const char *field;              /* "cpu_bind" */
	const char *one, *many;         /* "CPU", "CPUs" */
	const struct bitset *bound;     /* the numbers that may be used */
	const struct topology *machine; /* numbers are NUMA nodes and stand for their CPUs */
	size_t set_bits;                /* room of the sets */
};

static int say_outside(const struct listing *l, uint32_t n, struct err *err)
{
	char text[SHOWN_MAX];

	return err_say(err, -EINVAL, "%s: %s %u is none of the step's (%s)", l->field, l->one, n,
		binding_show(l->bound, text, sizeof(text)));
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
			return say_outside(l, item->number, err);
		bitset_set(&numbers, item->number);
	} else {
		r = bitset_add_hex(&numbers, item->digits, item->digits_len);
		if (r < 0) /* beyond what the kernel can have */
			return err_say(err, -EINVAL,
				"%s: the mask 0x%.*s%s has %s that the machine has not", l->field,
				(int)(item->digits_len > 64 ? 64 : item->digits_len), item->digits,
				item->digits_len > 64 ? "..." : "", l->many);
		outside = bitset_first_outside(&numbers, l->bound);
		if (outside != BITSET_NONE)
			return say_outside(l, outside, err);
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

/* ---- CPUs --------------------------------------------------------------------------------- */

/* All that binding_make() goes by. */
struct maker {
	const struct spec *spec;
	const struct binding_bounds *bounds;
	const struct identity *id; /* who looks at the machine */
	struct topology machine;   /* within the bounds; empty unless a mode asks for it */
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

/* Reads the machine and leaves of it what is within the bounds. */
static int load_machine(struct maker *m, struct err *err)
{
	const char *field = cpu_needs_topology(m->spec) ? "cpu_bind" : "mem_bind";
	const char *file = m->spec->topology;
	struct topology *t = &m->machine;
	size_t i, kept = 0;
	int r = topology_load(file, m->id, t, err);

	if (r < 0)
		return err_prefix(err, "%s", file && r != -EOPNOTSUPP ? "topology" : field);
	for (i = 0; i < t->count; i++) {
		if (bitset_test(&m->bounds->cpus, t->cpus[i].cpu))
			t->cpus[kept++] = t->cpus[i];
	}
	t->count = kept;
	if (kept == 0)
		return err_say(err, -EINVAL, "topology: '%s' has none of the step's CPUs",
			file ? file : "this machine");
	return 0;
}

static int check_nodes_known(const struct topology *machine, const char *field, struct err *err)
{
	size_t i;

	for (i = 0; i < machine->count; i++) {
		if (machine->cpus[i].node >= SPEC_NUMA_NODES_MAX)
			return err_say(err, -EINVAL,
				"%s: the topology tells no NUMA node of CPU %u", field,
				machine->cpus[i].cpu);
	}
	return 0;
}

static int place_tasks(const struct maker *m, struct binding_sets *sets, struct err *err)
{
	static const enum placement_level levels[BIND_CPU_MAX] = {
		[BIND_CPU_THREADS] = PLACEMENT_THREADS,
		[BIND_CPU_CORES] = PLACEMENT_CORES,
		[BIND_CPU_SOCKETS] = PLACEMENT_SOCKETS,
		[BIND_CPU_LDOMS] = PLACEMENT_LDOMS,
	};
	struct placement ask = {
		.level = levels[m->spec->cpu_bind.how],
		.ntasks = m->spec->local_ntasks,
		.cpus_per_task = m->spec->cpus_per_task ? m->spec->cpus_per_task : 1,
		.plane = m->spec->plane,
	};
	uint32_t task;
	int r;

	if (ask.cpus_per_task > m->machine.count)
		return err_say(err, -EINVAL, "cpus_per_task: %u, but the step may use %zu CPUs",
			ask.cpus_per_task, m->machine.count);
	r = alloc_sets(sets, ask.ntasks, 0, 0, err);
	if (r == 0 && placement_make(&m->machine, &ask, &sets->table) < 0)
		r = err_set(err, -ENOMEM, "bind the tasks");
	for (task = 0; r == 0 && task < ask.ntasks; task++)
		sets->of_task[task] = placement_set_of(&ask, sets->table.count, task);
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
		return check_nodes_known(&m->machine, "cpu_bind", err) ?: place_tasks(m, sets, err);
	case BIND_CPU_RANK_LDOM:
	case BIND_CPU_MAP_LDOM:
	case BIND_CPU_MASK_LDOM:
		return check_nodes_known(&m->machine, "cpu_bind", err)
			?: bind_to_ldoms(m, sets, err);
	default:
		return place_tasks(m, sets, err);
	}
}

/* ---- memory ------------------------------------------------------------------------------- */

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
	return err_say(err, -EINVAL,
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
		return err_say(err, -EOPNOTSUPP,
			"mem_bind: this kernel has no NUMA policies, or a filter of the container keeps "
			"them from the agent; leave mem_bind out");
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

/* ---- the whole ---------------------------------------------------------------------------- */

bool binding_is_asked(const struct spec *spec)
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
	_cleanup_binding_ struct binding b = BINDING_INIT;
	int r = 0;

	if (cpu_needs_topology(spec) || mem_needs_topology(spec))
		r = load_machine(&m, err);
	if (r == 0)
		r = bind_cpus(&m, &b.cpus, err);
	if (r == 0)
		r = bind_memory(&m, &b, err);
	if (r < 0)
		return r;
	*ret_binding = b;
	b = (struct binding)BINDING_INIT;
	return 0;
}

static bool gives_own(enum bind_cpu how)
{
	return how >= BIND_CPU_THREADS && how <= BIND_CPU_LDOMS;
}

/* By threads and cores no two tasks have a CPU in common while there is room. By sockets and NUMA
 * nodes they do, and each has room for as many tasks as it has CPUs. */
bool binding_is_shared(const struct spec *spec, const struct binding *binding, uint32_t *ret_cpus)
{
	const struct bitset_table *table = &binding->cpus.table;
	uint64_t taken = 0, need = spec->cpus_per_task ? spec->cpus_per_task : 1;
	_cleanup_bitset_ struct bitset all = {0};
	enum bind_cpu how = (enum bind_cpu)spec->cpu_bind.how;
	uint32_t i, bit;

	if (!binding->cpus.of_task || !gives_own(how) ||
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
