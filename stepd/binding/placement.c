/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/binding/placement.h"

#include <assert.h>

/* A unit that is allocated as a whole: a core or a single CPU, cpus[first] and the count behind
 * it. */
struct unit {
	uint32_t first;
	uint32_t count;
};

/* Units from next to end are free. */
struct domain {
	uint32_t next;
	uint32_t end;
	uint32_t free_cpus;
};

/* The machine while its units are allocated to tasks. */
struct allocation {
	const struct topology *machine;
	const struct placement *request;
	struct unit *units;
	size_t units_count;
	struct domain *domains;
	size_t domains_count;
	uint32_t free_cpus;
	size_t current; /* the domain whose turn it is */
	uint32_t turn;  /* how many tasks it has had in turn */
};

static void allocation_clear(struct allocation *p)
{
	free(p->units);
	free(p->domains);
}

static uint32_t level_of(const struct topology_cpu *cpu, enum placement_level level)
{
	switch (level) {
	case PLACEMENT_CORES:
		return cpu->core;
	case PLACEMENT_SOCKETS:
		return cpu->socket;
	case PLACEMENT_LDOMS:
		return cpu->node;
	default:
		return cpu->cpu;
	}
}

static void add_unit(struct allocation *p, uint32_t i, enum placement_level domain)
{
	const struct topology_cpu *cpus = p->machine->cpus;

	if (i == 0 || level_of(&cpus[i], domain) != level_of(&cpus[i - 1], domain))
		p->domains[p->domains_count++] = (struct domain){
			.next = (uint32_t)p->units_count, .end = (uint32_t)p->units_count};
	p->units[p->units_count++].first = i;
	p->domains[p->domains_count - 1].end++;
}

static int place_init(struct allocation *p)
{
	const struct topology_cpu *cpus = p->machine->cpus;
	enum placement_level level = p->request->level;
	enum placement_level domain = level == PLACEMENT_LDOMS ? level : PLACEMENT_SOCKETS;
	enum placement_level grain = level == PLACEMENT_THREADS ? level : PLACEMENT_CORES;
	uint32_t i;

	p->units = calloc(p->machine->count + 1, sizeof(*p->units));
	p->domains = calloc(p->machine->count + 1, sizeof(*p->domains));
	if (!p->units || !p->domains)
		return -ENOMEM;
	for (i = 0; i < p->machine->count; i++) {
		/* A domain's border would also divide a core; no such machine is known. */
		if (i == 0 || level_of(&cpus[i], grain) != level_of(&cpus[i - 1], grain) ||
			level_of(&cpus[i], domain) != level_of(&cpus[i - 1], domain))
			add_unit(p, i, domain);
		p->units[p->units_count - 1].count++;
		p->domains[p->domains_count - 1].free_cpus++;
	}
	p->free_cpus = (uint32_t)p->machine->count;
	return 0;
}

/* ---- taking -------------------------------------------------------------------------------- */

/* Allocates units of d until there are need CPUs, or d has no more; returns how many are still
 * needed. */
static uint32_t take_from(struct allocation *p, struct domain *d, uint32_t need, struct bitset *set)
{
	while (need > 0 && d->next < d->end) {
		const struct unit *u = &p->units[d->next++];
		uint32_t i;

		for (i = u->first; i < u->first + u->count; i++)
			bitset_set(set, p->machine->cpus[i].cpu);
		d->free_cpus -= u->count;
		p->free_cpus -= u->count;
		need -= u->count < need ? u->count : need;
	}
	return need;
}

/* From the domain whose turn it is on: the first with need free CPUs, or domains_count. */
static size_t find_domain(const struct allocation *p, uint32_t need)
{
	size_t i, at;

	for (i = 0; i < p->domains_count; i++) {
		at = (p->current + i) % p->domains_count;
		if (p->domains[at].free_cpus >= need)
			return at;
	}
	return p->domains_count;
}

/* False: no CPUs are free for another task. */
static bool take_task(struct allocation *p, struct bitset *set)
{
	uint32_t need = p->request->cpus_per_task;
	size_t at;

	if (p->free_cpus < need)
		return false;
	if (p->request->plane && p->turn >= p->request->plane) {
		p->current = (p->current + 1) % p->domains_count;
		p->turn = 0;
	}
	at = find_domain(p, need);
	if (at == p->domains_count)
		at = find_domain(p, 1); /* in pieces */
	if (at != p->current)
		p->turn = 0;
	p->current = at;
	p->turn++;
	for (; need > 0; at = (at + 1) % p->domains_count)
		need = take_from(p, &p->domains[at], need, set);
	return true;
}

/* ---- widening ------------------------------------------------------------------------------ */

/* The level's neighbours of each CPU that was taken; they stand next to it. */
static void widen(const struct allocation *p, const struct bitset *taken, struct bitset *set)
{
	const struct topology_cpu *cpus = p->machine->cpus;
	size_t n = p->machine->count, i, from, to;

	for (i = 0; i < n; i++) {
		if (!bitset_test(taken, cpus[i].cpu) || bitset_test(set, cpus[i].cpu))
			continue;
		for (from = i; from > 0 &&
			level_of(&cpus[from - 1], p->request->level) ==
				level_of(&cpus[i], p->request->level);)
			from--;
		for (to = from; to < n &&
			level_of(&cpus[to], p->request->level) ==
				level_of(&cpus[i], p->request->level);
			to++)
			bitset_set(set, cpus[to].cpu);
	}
}

static size_t largest_cpu(const struct topology *machine)
{
	size_t i, most = 0;

	for (i = 0; i < machine->count; i++)
		most = machine->cpus[i].cpu > most ? machine->cpus[i].cpu : most;
	return most;
}

int placement_make(const struct topology *machine, const struct placement *request,
	struct bitset_table *ret_sets)
{
	_cleanup_bitset_table_ struct bitset_table sets = {0};
	_cleanup_bitset_ struct bitset taken = {0};
	_cleanup_(allocation_clear) struct allocation p = {.machine = machine, .request = request};
	size_t bits = largest_cpu(machine) + 1;
	size_t most = request->ntasks < machine->count ? request->ntasks : machine->count, i;
	struct bitset set;

	assert(machine->count > 0 && request->ntasks > 0);
	assert(request->cpus_per_task > 0 && request->cpus_per_task <= machine->count);
	if (place_init(&p) < 0 || bitset_table_init(&sets, most, bits) < 0)
		return -ENOMEM;
	for (i = 0; i < most; i++) {
		bitset_clear(&taken);
		if (bitset_init(&taken, bits) < 0)
			return -ENOMEM;
		if (!take_task(&p, &taken))
			break;
		set = bitset_table_get(&sets, i);
		widen(&p, &taken, &set);
	}
	sets.count = i;
	*ret_sets = take_struct(sets);
	return 0;
}

uint32_t placement_set_of(const struct placement *request, size_t count, uint32_t task)
{
	if (count >= request->ntasks)
		return task;
	if (request->plane)
		return (uint32_t)(task % count);
	return (uint32_t)((uint64_t)task * count / request->ntasks);
}
