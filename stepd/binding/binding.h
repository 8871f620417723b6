/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Binds tasks to CPUs and their memory to NUMA nodes. All sets are made before the first fork;
 * the machine's topology is read only where a mode needs it, and is gone again afterwards. A
 * child only makes one or two system calls.
 */
#ifndef STEPD_BINDING_BINDING_H
#define STEPD_BINDING_BINDING_H

#include "stepd/api/step.h"
#include "stepd/base/bitset.h"
#include "stepd/base/err.h"
#include "stepd/base/strv.h"
#include "stepd/spec/bind_text.h"

struct identity;
struct spec;

/* The CPUs that this process may use. 0 or -errno. */
int binding_read_cpus(struct bitset *ret_cpus) _must_check_;

/* What the step may use, the bounds of all binding. */
struct binding_bounds {
	struct bitset cpus;
	struct bitset nodes; /* NUMA; empty where the kernel knows none */
};

/* Those of this process, within the cpuset of the step's cgroup if it has one: cgroup_fd is the
 * directory tasks are born in, or -1. */
int binding_bounds_read(
	int cgroup_fd, struct binding_bounds *ret_bounds, struct err *err) _must_check_;
void binding_bounds_clear(struct binding_bounds *bounds);
#define _cleanup_binding_bounds_ _cleanup_(binding_bounds_clear)

/* Sets, and which of them is each task's: by local id. No sets: tasks are left as they are. */
struct binding_sets {
	struct bitset_table table;
	uint32_t *of_task;
};

struct binding {
	struct binding_sets cpus;
	struct binding_sets nodes;
	int mem_mode; /* MPOL_... of linux/mempolicy.h, with nodes */
};

/* Whether each task's CPUs are computed: CPUs of its own, as long as there are enough. */
static inline bool binding_is_computed(unsigned how)
{
	return how >= BIND_CPU_THREADS && how <= BIND_CPU_LDOMS;
}

/* Whether the spec has anything for binding_make() to do. */
bool binding_is_wanted(const struct spec *spec);

/* An error names the spec's field first ("cpu_bind: ..."). id: whose the step is, for
 * topology_load(). */
int binding_make(const struct spec *spec, const struct binding_bounds *bounds,
	const struct identity *id, struct binding *ret_binding, struct err *err) _must_check_;
void binding_clear(struct binding *binding);

/* Whether tasks share CPUs though each was to get its own: there are not enough. */
bool binding_is_shared(const struct spec *spec, const struct binding *binding, uint32_t *ret_cpus);
#define _cleanup_binding_ _cleanup_(binding_clear)

/* ---- in the child -------------------------------------------------------------------------- */

enum binding_part {
	BINDING_CPUS,
	BINDING_MEMORY,
};

/* Binds this process as the task's. 0, or -errno and in *ret_part what failed. */
int binding_apply(
	const struct binding *binding, uint32_t local_id, uint32_t *ret_part) _must_check_;

/* If the spec requests it: writes to fd what this process is bound to, a line for CPUs and one
 * for memory. */
void binding_report(
	const struct spec *spec, const stepd_step_rec_t *job, uint32_t local_id, int fd);

/* What a part of the task was to be bound to, for a message: " to the CPUs 0-3". */
void binding_name(
	const struct binding *binding, uint32_t local_id, uint32_t part, char *text, size_t size);

#endif
