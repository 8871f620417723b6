/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <string.h>
#include <sys/syscall.h>

#include "stepd/base/fs.h"
#include "stepd/binding/binding.h"
#include "stepd/spec/spec.h"

#define CPUS_MAX   (1u << 16) /* no kernel has more */
#define CPUSET_MAX 65536u     /* bytes of a file */
#define DEPTH_MAX  64         /* groups one in another */

void binding_bounds_clear(struct binding_bounds *bounds)
{
	bitset_clear(&bounds->cpus);
	bitset_clear(&bounds->nodes);
}

static int read_affinity(struct bitset *ret_cpus)
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
			*ret_cpus = cpus;
			cpus = (struct bitset){0};
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
	*ret_nodes = nodes;
	nodes = (struct bitset){0};
	return 0;
}

/* What the agent may use itself can be a part of what the group may, and then it was meant so; or
 * something else, where a node's services keep to CPUs of their own, and then the group counts. */
static void keep_common(struct bitset *set, struct bitset *listed)
{
	struct bitset agents = *set;

	bitset_trim(listed);
	bitset_intersect(set, listed);
	if (bitset_count(set) > 0)
		return;
	*set = *listed;
	*listed = agents;
}

/* Reads the file of the nearest group, from the one at cgroup_fd up, that has it: a group for which
 * the controller isn't switched on is ruled by the one above. -ENOENT: none has. */
static int read_nearest(int cgroup_fd, const char *file, char **ret_text)
{
	char path[DEPTH_MAX * 3 + 32];
	size_t up;
	int r = -ENOENT;

	for (up = 0; r == -ENOENT && up < DEPTH_MAX; up++) {
		(void)snprintf(path + up * 3, sizeof(path) - up * 3, "%s", file);
		r = fs_read(cgroup_fd, path, CPUSET_MAX, ret_text, NULL);
		/* every group has this one, what is above the mount has not */
		(void)snprintf(path + up * 3, sizeof(path) - up * 3, "cgroup.procs");
		if (r == -ENOENT && faccessat(cgroup_fd, path, F_OK, 0) < 0)
			break;
		memcpy(path + up * 3, "../", 3);
	}
	return r;
}

/* Keeps of set what the group's file lists. */
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
	keep_common(set, &listed);
	return 0;
}

int binding_bounds_read(int cgroup_fd, struct binding_bounds *ret_bounds, struct err *err)
{
	_cleanup_binding_bounds_ struct binding_bounds bounds = {0};
	int r = read_affinity(&bounds.cpus);

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
		return err_say(
			err, -EINVAL, "the cpuset of the step's cgroup has no CPU to bind to");
	*ret_bounds = bounds;
	bounds = (struct binding_bounds){0};
	return 0;
}
