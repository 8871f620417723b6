/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What libpmix is told of a namespace, so that ranks can ask for it: keys of the job, of each node,
 * of each command line and of each rank. Every node tells its libpmix the same, but for what only
 * the node of a rank knows (its directories).
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "mpi/pmix/keys.h"
#include "mpi/pmix/layout.h"
#include "mpi/pmix/tmpdir.h"
#include "mpi/pmix/topology.h"

/* ---- the maps ---- */

/* libpmix's own compressed forms; what is no text ("blob:") goes by another type. */
static void add_regex(struct keys *keys, const char *key, char *regex)
{
	if (strncmp(regex, "pmix", 4) == 0 || strncmp(regex, "raw", 3) == 0)
		keys_add_text(keys, key, regex);
	else
		keys_add(keys, key, regex, PMIX_REGEX);
	free(regex);
}

static int add_maps(struct keys *keys, const struct px *px, const struct layout *l)
{
	_cleanup_free_ char *nodes = NULL, *ranks = NULL, *anl = NULL;
	char *regex;

	if (layout_raw_maps(px, l, &nodes, &ranks) < 0)
		return -ENOMEM;
	if (PMIx_generate_regex(nodes, &regex) != PMIX_SUCCESS)
		return -EINVAL;
	add_regex(keys, PMIX_NODE_MAP, regex);
	if (PMIx_generate_ppn(ranks, &regex) != PMIX_SUCCESS)
		return -EINVAL;
	add_regex(keys, PMIX_PROC_MAP, regex);
	keys_add_text(keys, PMIX_NODE_LIST, nodes);
	anl = layout_anl_map(l);
	if (anl)
		keys_add_text(keys, PMIX_ANL_MAP, anl);
	return 0;
}

/* ---- the job ---- */

static void add_tmpdirs(struct keys *keys, const struct px *px, const struct nspace *nspace)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%s/%s", tmpdir_path(px->tmpdir), nspace->name) < 0) {
		path = NULL;
		keys->failed = true;
		return;
	}
	keys_add_text(keys, PMIX_TMPDIR, tmpdir_path(px->tmpdir));
	keys_add_text(keys, PMIX_NSDIR, path);
	keys_add_bool(keys, PMIX_TDIR_RMCLEAN, true);
}

/* Of the whole step, whether it has ranks there or not. */
static void add_allocation(struct keys *keys, const struct px *px)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f) {
		keys->failed = true;
		return;
	}
	for (uint32_t i = 0; i < px->nnodes; i++)
		(void)fprintf(f, "%s%s", i ? "," : "", layout_node_name(px, i));
	if (fclose(f) != 0) {
		keys->failed = true;
		return;
	}
	keys_add_u32(keys, PMIX_NUM_ALLOCATED_NODES, px->nnodes);
	keys_add_text(keys, PMIX_ALLOCATED_NODELIST, text);
}

/* In the words of Open MPI's launcher, as far as they can be seen from the result. */
static void add_policies(struct keys *keys, const struct px *px, const struct layout *l)
{
	const struct nspace *nspace = l->nspace;
	bool blocks = true, bound = false;

	for (uint32_t i = 0; i < nspace->size; i++) {
		if (i > 0 && nspace->ranks[i].node < nspace->ranks[i - 1].node)
			blocks = false;
		if (nspace->ranks[i].node == px->node && nspace->ranks[i].cpus)
			bound = true;
	}
	keys_add_text(keys, PMIX_MAPBY, blocks ? "BYSLOT" : "BYNODE");
	keys_add_text(keys, PMIX_RANKBY, blocks ? "SLOT" : "NODE");
	keys_add_text(keys, PMIX_BINDTO, bound ? "CPU-LIST" : "NONE");
}

static void add_job(struct keys *keys, const struct px *px, const struct layout *l)
{
	const struct nspace *nspace = l->nspace;
	uint32_t local = l->local_size[px->node];
	_cleanup_free_ char *peers = layout_peers(l, px->node);

	if (!peers) {
		keys->failed = true;
		return;
	}
	keys_add_u32(keys, PMIX_SESSION_ID, px->job->job_id);
	keys_add_text(keys, PMIX_NSPACE, nspace->name);
	keys_add_text(keys, PMIX_JOBID, nspace->name);
	keys_add_u32(keys, PMIX_UNIV_SIZE, px->job->ntasks);
	keys_add_u32(keys, PMIX_JOB_SIZE, nspace->size);
	keys_add_u32(keys, PMIX_MAX_PROCS, nspace->size);
	keys_add_u32(keys, PMIX_NUM_SLOTS, nspace->size);
	keys_add_u32(keys, PMIX_NUM_NODES, l->nodes);
	keys_add_u32(keys, PMIX_JOB_NUM_APPS, nspace->app_count);
	keys_add_rank(keys, PMIX_NPROC_OFFSET, nspace->first_rank);
	keys_add_bool(keys, PMIX_SPAWNED, nspace->number != 0);
	if (nspace->number)
		keys_add(keys, PMIX_PARENT_ID, &nspace->parent, PMIX_PROC);
	keys_add_text(keys, PMIX_RM_NAME, "stepd");
	keys_add_text(keys, PMIX_RM_VERSION, PACKAGE_VERSION);
	keys_add_u32(keys, PMIX_USERID, px->job->uid);
	keys_add_u32(keys, PMIX_GRPID, px->job->gid);
	add_allocation(keys, px);
	add_policies(keys, px, l);
	add_tmpdirs(keys, px, nspace);
	if (local == 0)
		return;
	keys_add_bool(keys, PMIX_NODE_OVERSUBSCRIBED, local > sysconf(_SC_NPROCESSORS_ONLN));
	keys_add_u32(keys, PMIX_LOCAL_SIZE, local);
	keys_add_u32(keys, PMIX_NODE_SIZE, l->node_first[px->node] + local);
	keys_add_text(keys, PMIX_LOCAL_PEERS, peers);
	keys_add_rank(keys, PMIX_LOCALLDR, (pmix_rank_t)strtoul(peers, NULL, 10));
}

/* ---- nodes and command lines ---- */

/* The ranks of a node, as names. */
static void add_local_procs(struct keys *node, const struct layout *l, uint32_t i)
{
	pmix_proc_t *procs = calloc(l->local_size[i] + 1, sizeof(*procs));
	size_t n = 0;

	for (uint32_t rank = 0; procs && rank < l->nspace->size; rank++) {
		if (l->nspace->ranks[rank].node != i)
			continue;
		PMIX_LOAD_PROCID(&procs[n], l->nspace->name, rank);
		n++;
	}
	keys_add_data_take(node, PMIX_LOCAL_PROCS, procs, n, PMIX_PROC);
}

/* By its name with the domain a node is also known without. */
static void add_aliases(struct keys *node, const char *name)
{
	_cleanup_free_ char *alias = strndup(name, strcspn(name, "."));

	if (alias)
		keys_add_text(node, PMIX_HOSTNAME_ALIASES, alias);
	else
		node->failed = true;
}

static void add_memory(struct keys *node)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	uint64_t bytes = (uint64_t)pages * (uint64_t)size;

	if (pages > 0 && size > 0)
		keys_add(node, PMIX_AVAIL_PHYS_MEMORY, &bytes, PMIX_UINT64);
}

static void add_nodes(struct keys *keys, const struct px *px, const struct layout *l)
{
	for (uint32_t i = 0; i < px->nnodes; i++) {
		_cleanup_keys_ struct keys node = {.v = NULL};
		_cleanup_free_ char *peers = NULL;

		if (l->local_size[i] == 0)
			continue;
		peers = layout_peers(l, i);
		if (!peers) {
			keys->failed = true;
			return;
		}
		keys_add_text(&node, PMIX_HOSTNAME, layout_node_name(px, i));
		keys_add_u32(&node, PMIX_NODEID, i);
		keys_add_u32(&node, PMIX_LOCAL_SIZE, l->local_size[i]);
		keys_add_u32(&node, PMIX_NODE_SIZE, l->node_first[i] + l->local_size[i]);
		keys_add_text(&node, PMIX_LOCAL_PEERS, peers);
		keys_add_rank(&node, PMIX_LOCALLDR, (pmix_rank_t)strtoul(peers, NULL, 10));
		add_aliases(&node, layout_node_name(px, i));
		add_local_procs(&node, l, i);
		if (i == px->node)
			add_memory(&node);
		keys_add_array(keys, PMIX_NODE_INFO_ARRAY, &node);
	}
}

static void add_apps(struct keys *keys, const struct layout *l)
{
	for (uint32_t i = 0; i < l->nspace->app_count; i++) {
		_cleanup_keys_ struct keys app = {.v = NULL};

		if (l->app_size[i] == 0)
			continue;
		keys_add_u32(&app, PMIX_APPNUM, i);
		keys_add_u32(&app, PMIX_APP_SIZE, l->app_size[i]);
		keys_add_rank(&app, PMIX_APPLDR, l->app_first[i]);
		if (l->nspace->apps[i].argv)
			keys_add_text(&app, PMIX_APP_ARGV, l->nspace->apps[i].argv);
		if (l->nspace->apps[i].cwd)
			keys_add_text(&app, PMIX_WDIR, l->nspace->apps[i].cwd);
		keys_add_array(keys, PMIX_APP_INFO_ARRAY, &app);
	}
}

/* ---- ranks ---- */

#define PACKAGES_MAX 64u /* of a node; ranks of further ones are counted as if on none */

/* Where the rank that was looked at last may run: others may run there too. */
struct place {
	bool known;
	const char *cpus;
	struct spot spot;
	uint16_t counts[PACKAGES_MAX + 1]; /* ranks so far, by package; at last those on no one */
};

static void place_clear(struct place *p)
{
	spot_clear(&p->spot);
}

static uint16_t next_on_package(struct place *p)
{
	unsigned package = p->spot.package < 0 ? PACKAGES_MAX : (unsigned)p->spot.package;

	return p->counts[package < PACKAGES_MAX ? package : PACKAGES_MAX]++;
}

/* Only of this node's: for those of others it does not matter. Who is not bound has a locality, the
 * whole machine, but no cpuset: Open MPI 5 takes one that has a cpuset for bound. */
static void add_place(
	struct keys *data, const struct px *px, struct place *p, const struct nspace_rank *rank)
{
	if (!p->known || p->cpus != rank->cpus) {
		spot_clear(&p->spot);
		topology_place(px->topology, rank->cpus, &p->spot);
		p->cpus = rank->cpus;
		p->known = true;
	}
	if (rank->cpus && p->spot.cpuset)
		keys_add_text(data, PMIX_CPUSET, p->spot.cpuset);
	if (p->spot.locality)
		keys_add_text(data, PMIX_LOCALITY_STRING, p->spot.locality);
	keys_add_u16(data, PMIX_PACKAGE_RANK, next_on_package(p));
}

static void add_rank(struct keys *keys, const struct px *px, const struct layout *l,
	struct place *place, uint32_t i)
{
	const struct nspace_rank *rank = &l->nspace->ranks[i];
	_cleanup_keys_ struct keys data = {.v = NULL};
	_cleanup_free_ char *path = NULL;

	keys_add_rank(&data, PMIX_RANK, i); /* libpmix wants it first */
	keys_add_u32(&data, PMIX_APPNUM, rank->appnum);
	if (l->nspace->number) /* of the job, too: some programs ask for their own rank's */
		keys_add(&data, PMIX_PARENT_ID, &l->nspace->parent, PMIX_PROC);
	keys_add_rank(&data, PMIX_GLOBAL_RANK, l->nspace->first_rank + i);
	keys_add_rank(&data, PMIX_APP_RANK, l->app_rank[i]);
	keys_add_u16(&data, PMIX_LOCAL_RANK, (uint16_t)l->local_rank[i]);
	keys_add_u16(
		&data, PMIX_NODE_RANK, (uint16_t)(l->node_first[rank->node] + l->local_rank[i]));
	keys_add_text(&data, PMIX_HOSTNAME, layout_node_name(px, rank->node));
	keys_add_u32(&data, PMIX_NODEID, rank->node);
	keys_add_u32(&data, PMIX_REINCARNATION, 0);
	if (rank->node == px->node) {
		if (asprintf(&path, "%s/%s/%u", tmpdir_path(px->tmpdir), l->nspace->name, i) < 0) {
			path = NULL;
			keys->failed = true;
			return;
		}
		keys_add_text(&data, PMIX_PROCDIR, path);
		add_place(&data, px, place, rank);
	}
	keys_add_array(keys, PMIX_PROC_DATA, &data);
}

int describe(
	const struct px *px, const struct nspace *nspace, struct keys *keys, uint32_t *ret_local)
{
	_cleanup_(layout_clear) struct layout l = {.nspace = NULL};
	_cleanup_(place_clear) struct place place = {.known = false};
	int r = layout_make(&l, px, nspace);

	if (r < 0)
		return r;
	add_job(keys, px, &l);
	r = add_maps(keys, px, &l);
	if (r < 0)
		return r;
	add_nodes(keys, px, &l);
	add_apps(keys, &l);
	for (uint32_t i = 0; i < nspace->size; i++)
		add_rank(keys, px, &l, &place, i);
	*ret_local = l.local_size[px->node];
	return keys->failed ? -ENOMEM : 0;
}
