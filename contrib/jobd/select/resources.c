/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a job gets of its nodes: made by plugins, freed by their host.
 */
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
