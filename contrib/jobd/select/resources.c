/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The allocation of a job: made by plugins, freed by their host.
 */
#include <string.h>

#include "contrib/jobd/select/use.h"

job_resources_t *use_resources_new(const bitstr_t *nodes)
{
	job_resources_t *r = xmalloc(sizeof(*r));

	r->node_bitmap = bit_copy(nodes);
	r->nhosts = (uint32_t)bit_set_count(nodes);
	r->cpus = xmalloc(r->nhosts * sizeof(*r->cpus));
	r->memory_allocated = xmalloc(r->nhosts * sizeof(*r->memory_allocated));
	return r;
}

job_resources_t *use_resources_copy(const job_resources_t *r)
{
	job_resources_t *copy = use_resources_new(r->node_bitmap);

	copy->core_bitmap = r->core_bitmap ? bit_copy(r->core_bitmap) : NULL;
	copy->ncpus = r->ncpus;
	memcpy(copy->cpus, r->cpus, r->nhosts * sizeof(*r->cpus));
	memcpy(copy->memory_allocated, r->memory_allocated,
		r->nhosts * sizeof(*r->memory_allocated));
	copy->node_req = r->node_req;
	copy->whole_node = r->whole_node;
	return copy;
}

void use_resources_free(job_resources_t *r)
{
	if (!r)
		return;
	FREE_NULL_BITMAP(r->node_bitmap);
	FREE_NULL_BITMAP(r->core_bitmap);
	xfree(r->cpus);
	xfree(r->memory_allocated);
	xfree(r);
}
