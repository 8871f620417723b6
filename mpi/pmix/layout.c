/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmix/layout.h"

#include <stdio.h>

void layout_clear(struct layout *l)
{
	free(l->local_size);
	free(l->local_rank);
	free(l->node_first);
	free(l->app_size);
	free(l->app_first);
	free(l->app_rank);
}

const char *layout_node_name(const struct px *px, uint32_t node)
{
	return px->job->node_names ? px->job->node_names[node] : px->job->node_name;
}

int layout_make(struct layout *l, const struct px *px, const struct nspace *nspace)
{
	l->nspace = nspace;
	l->local_size = calloc(px->nnodes, sizeof(uint32_t));
	l->node_first = calloc(px->nnodes, sizeof(uint32_t));
	l->local_rank = calloc(nspace->size + 1, sizeof(uint32_t));
	l->app_rank = calloc(nspace->size + 1, sizeof(uint32_t));
	l->app_size = calloc(nspace->app_count, sizeof(uint32_t));
	l->app_first = calloc(nspace->app_count, sizeof(uint32_t));
	if (!l->local_size || !l->node_first || !l->local_rank || !l->app_rank || !l->app_size ||
		!l->app_first)
		return -ENOMEM;
	for (const struct nspace *n = px->names.first; n && n != nspace; n = n->next) {
		for (uint32_t i = 0; i < n->size; i++)
			l->node_first[n->ranks[i].node]++;
	}
	for (uint32_t i = 0; i < nspace->size; i++) {
		const struct nspace_rank *rank = &nspace->ranks[i];

		if (l->local_size[rank->node] == 0)
			l->nodes++;
		l->local_rank[i] = l->local_size[rank->node]++;
		if (l->app_size[rank->appnum] == 0)
			l->app_first[rank->appnum] = i;
		l->app_rank[i] = l->app_size[rank->appnum]++;
	}
	return 0;
}

char *layout_peers(const struct layout *l, uint32_t node)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	uint32_t n = 0;
	int r;

	if (!f)
		return NULL;
	for (uint32_t i = 0; i < l->nspace->size; i++) {
		if (l->nspace->ranks[i].node == node)
			(void)fprintf(f, "%s%u", n++ ? "," : "", i);
	}
	r = ferror(f);
	return fclose(f) == 0 && !r ? take_ptr(text) : NULL;
}

int layout_raw_maps(const struct px *px, const struct layout *l, char **ret_nodes, char **ret_ranks)
{
	_cleanup_free_ char *nodes = NULL, *ranks = NULL;
	size_t nodes_size, ranks_size;
	FILE *n = open_memstream(&nodes, &nodes_size), *r = open_memstream(&ranks, &ranks_size);
	bool failed = !n || !r, first = true;

	for (uint32_t i = 0; !failed && i < px->nnodes; i++) {
		_cleanup_free_ char *peers = NULL;

		if (l->local_size[i] == 0)
			continue;
		peers = layout_peers(l, i);
		failed = !peers ||
			fprintf(n, "%s%s", first ? "" : ",", layout_node_name(px, i)) < 0 ||
			fprintf(r, "%s%s", first ? "" : ";", peers) < 0;
		first = false;
	}
	if (n && fclose(n) != 0)
		failed = true;
	if (r && fclose(r) != 0)
		failed = true;
	if (failed)
		return -ENOMEM;
	*ret_nodes = take_ptr(nodes);
	*ret_ranks = take_ptr(ranks);
	return 0;
}

/* Nodes in runs of equal counts. */
char *layout_anl_map(const struct layout *l)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	FILE *f;
	uint32_t i = 0, node, count, run;

	for (i = 0; i + 1 < l->nspace->size; i++) {
		if (l->nspace->ranks[i].node > l->nspace->ranks[i + 1].node)
			return NULL;
	}
	f = open_memstream(&text, &size);
	if (!f)
		return NULL;
	(void)fputs("(vector", f);
	for (i = 0; i < l->nspace->size;) {
		node = l->nspace->ranks[i].node;
		count = l->local_size[node];
		for (run = 0; i < l->nspace->size && l->nspace->ranks[i].node == node + run &&
			l->local_size[node + run] == count;
			run++)
			i += count;
		(void)fprintf(f, ",(%u,%u,%u)", node, run, count);
	}
	(void)fputc(')', f);
	return fclose(f) == 0 ? take_ptr(text) : NULL;
}
