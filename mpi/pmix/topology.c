/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmix/topology.h"

#include "config.h"

#ifdef HAVE_HWLOC_FOR_PMIX

#include <hwloc.h>
#include <pmix.h>
#include <pmix_server.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Fabrics and accelerators, of which MPI libraries want to know which CPUs are near. */
static bool has_devices(void)
{
	static const char *const classes[] = {
		"/sys/class/infiniband", "/sys/class/cxi", "/sys/class/kfd", "/sys/module/nvidia"};

	for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
		if (access(classes[i], F_OK) == 0)
			return true;
	}
	return false;
}

/* libpmix holds the pointer for as long as it runs, which is as long as this process. */
static hwloc_topology_t discover(void)
{
	hwloc_topology_t topology;
	bool devices = has_devices();

	/* Without devices no plugin of hwloc's finds anything, and what they are linked with, X11's
	 * libraries among it, takes as long to load as all the rest of the topology to discover. */
	if (!devices && setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 1) < 0)
		return NULL;
	if (hwloc_topology_init(&topology) < 0)
		return NULL;
#if HWLOC_API_VERSION >= 0x00020100
	/* It moves this process to one processor after the other to learn what the kernel reports,
	 * too: a third of the time. */
	if (hwloc_topology_set_components(
		    topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86") < 0) {
		hwloc_topology_destroy(topology);
		return NULL;
	}
#endif
	if ((devices &&
		    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) <
			    0) ||
		hwloc_topology_load(topology) < 0) {
		hwloc_topology_destroy(topology);
		return NULL;
	}
	return topology;
}

void topology_add(struct keys *keys, struct hwloc_topology **ret_topology)
{
	pmix_topology_t *topology = calloc(1, sizeof(*topology));
	hwloc_topology_t found = topology ? discover() : NULL;
	pmix_info_t *info;

	if (found)
		topology->source = strdup("hwloc:" HWLOC_VERSION);
	if (found && topology->source)
		keys_add_bool(keys, PMIX_TOPOLOGY2, true); /* no value: to load it would copy it */
	if (!found || !topology->source || keys->failed) {
		free(topology);
		return;
	}
	topology->topology = found;
	info = &keys->v[keys->n - 1];
	info->value.type = PMIX_TOPO;
	info->value.data.topo = topology;
	PMIX_INFO_SET_PERSISTENT(info);
	*ret_topology = found;
}

static int package_of(hwloc_topology_t topology, hwloc_const_bitmap_t set)
{
	hwloc_obj_t at = hwloc_get_obj_covering_cpuset(topology, set);

	while (at && at->type != HWLOC_OBJ_PACKAGE)
		at = at->parent;
	if (at)
		return (int)at->logical_index;
	return hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE) == 1 ? 0 : -1;
}

void topology_locate(struct hwloc_topology *topology, const char *cpus, struct spot *ret_spot)
{
	static char source[] = "hwloc:" HWLOC_VERSION; /* libpmix's fields are not const */
	pmix_cpuset_t set = {.source = source, .bitmap = hwloc_bitmap_alloc()};

	*ret_spot = (struct spot){.package = -1};
	if (topology && set.bitmap &&
		(cpus ? hwloc_bitmap_list_sscanf(set.bitmap, cpus)
		      : hwloc_bitmap_copy(
				set.bitmap, hwloc_topology_get_topology_cpuset(topology))) == 0) {
		if (PMIx_server_generate_cpuset_string(&set, &ret_spot->cpuset) != PMIX_SUCCESS)
			ret_spot->cpuset = NULL;
		if (PMIx_server_generate_locality_string(&set, &ret_spot->locality) != PMIX_SUCCESS)
			ret_spot->locality = NULL;
		ret_spot->package = package_of(topology, set.bitmap);
	}
	hwloc_bitmap_free(set.bitmap);
}

#else

void topology_add(_unused_ struct keys *keys, _unused_ struct hwloc_topology **ret_topology)
{
}

void topology_locate(
	_unused_ struct hwloc_topology *topology, _unused_ const char *cpus, struct spot *ret_spot)
{
	*ret_spot = (struct spot){.package = -1};
}

#endif

void spot_clear(struct spot *spot)
{
	free(spot->cpuset);
	free(spot->locality);
	*spot = (struct spot){.package = -1};
}
