/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Namespaces: how they are registered with libpmix, and what it gives to the environment of ranks.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "mpi/pmix/keys.h"
#include "mpi/pmix/px.h"
#include "mpi/pmix/tmpdir.h"
#include "mpi/pmix/topology.h"
#include "stepd/base/strv.h"

/* ---- how ranks lie on the nodes ------------------------------------------------------------- */

struct layout_node {
	uint32_t size;   /* its ranks in the namespace */
	uint32_t before; /* its ranks of other namespaces before that */
};

struct layout_app {
	uint32_t size, first; /* its ranks */
};

struct layout_rank {
	uint32_t local, app; /* its number on its node, and in its command line */
};

/* Counted once for all keys of a namespace. */
struct layout {
	const struct nspace *nspace;
	struct layout_node *nodes;
	struct layout_app *apps;
	struct layout_rank *ranks;
	uint32_t node_count; /* how many nodes hold ranks */
};

static void layout_clear(struct layout *l)
{
	free(l->nodes);
	free(l->ranks);
	free(l->apps);
}

static const char *layout_node_name(const struct px *px, uint32_t node)
{
	return px->job->node_names ? px->job->node_names[node] : px->job->node_name;
}

/* 0 or -ENOMEM; after either, layout_clear(). Valid as long as the namespace is. */
static int layout_make(struct layout *l, const struct px *px, const struct nspace *nspace)
{
	l->nspace = nspace;
	l->nodes = calloc(px->nnodes, sizeof(*l->nodes));
	l->ranks = calloc(nspace->size + 1, sizeof(*l->ranks));
	l->apps = calloc(nspace->app_count, sizeof(*l->apps));
	if (!l->nodes || !l->ranks || !l->apps)
		return -ENOMEM;
	for (const struct nspace *n = px->names.first; n && n != nspace; n = n->next) {
		for (uint32_t i = 0; i < n->size; i++)
			l->nodes[n->ranks[i].node].before++;
	}
	for (uint32_t i = 0; i < nspace->size; i++) {
		const struct nspace_rank *rank = &nspace->ranks[i];

		if (l->nodes[rank->node].size == 0)
			l->node_count++;
		l->ranks[i].local = l->nodes[rank->node].size++;
		if (l->apps[rank->appnum].size == 0)
			l->apps[rank->appnum].first = i;
		l->ranks[i].app = l->apps[rank->appnum].size++;
	}
	return 0;
}

/* The ranks of a node, "0,1,2"; from malloc(), NULL without memory. */
static char *layout_peers(const struct layout *l, uint32_t node)
{
	_cleanup_strv_ struct strv ranks = {0};

	for (uint32_t i = 0; i < l->nspace->size; i++) {
		if (l->nspace->ranks[i].node == node && strv_addf(&ranks, "%u", i) < 0)
			return NULL;
	}
	return strv_join(ranks.v, ',');
}

/* The nodes that hold ranks, "a,b", and the ranks of each, in the same order, "0,1;2,3". */
static int layout_raw_maps(
	const struct px *px, const struct layout *l, char **ret_nodes, char **ret_ranks)
{
	_cleanup_strv_ struct strv nodes = {0}, ranks = {0};

	for (uint32_t i = 0; i < px->nnodes; i++) {
		if (l->nodes[i].size > 0 &&
			(strv_add(&nodes, layout_node_name(px, i)) < 0 ||
				strv_add_take(&ranks, layout_peers(l, i)) < 0))
			return -ENOMEM;
	}
	*ret_nodes = strv_join(nodes.v, ',');
	*ret_ranks = strv_join(ranks.v, ';');
	return *ret_nodes && *ret_ranks ? 0 : -ENOMEM;
}

/* The notation of PMI-1's process mapping, nodes in runs of equal counts; NULL also where the ranks
 * are not laid out block by block, for which it has no notation. */
static char *layout_anl_map(const struct layout *l)
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
		count = l->nodes[node].size;
		for (run = 0; i < l->nspace->size && l->nspace->ranks[i].node == node + run &&
			l->nodes[node + run].size == count;
			run++)
			i += count;
		(void)fprintf(f, ",(%u,%u,%u)", node, run, count);
	}
	(void)fputc(')', f);
	return fclose(f) == 0 ? take_ptr(text) : NULL;
}

/* ---- the description ------------------------------------------------------------------------
 *
 * Every node gives its libpmix the same keys, but for what only the node of a rank knows (its
 * directories).
 */

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
	keys_add_text(keys, PMIX_TMPDIR, tmpdir_path(px->tmpdir));
	keys_add_textf(keys, PMIX_NSDIR, "%s/%s", tmpdir_path(px->tmpdir), nspace->name);
	keys_add_bool(keys, PMIX_TDIR_RMCLEAN, true);
}

/* Of the whole step, whether it has ranks there or not. */
static void add_allocation(struct keys *keys, const struct px *px)
{
	_cleanup_strv_ struct strv nodes = {0};

	for (uint32_t i = 0; i < px->nnodes; i++) {
		if (strv_add(&nodes, layout_node_name(px, i)) < 0)
			keys->failed = true;
	}
	keys_add_u32(keys, PMIX_NUM_ALLOCATED_NODES, px->nnodes);
	keys_add_text_take(keys, PMIX_ALLOCATED_NODELIST, strv_join(nodes.v, ','));
}

/* In the terms of Open MPI's launcher, as far as they can be seen from the result. */
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
	uint32_t local = l->nodes[px->node].size;
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
	keys_add_u32(keys, PMIX_NUM_NODES, l->node_count);
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
	keys_add_u32(keys, PMIX_NODE_SIZE, l->nodes[px->node].before + local);
	keys_add_text(keys, PMIX_LOCAL_PEERS, peers);
	keys_add_rank(keys, PMIX_LOCALLDR, (pmix_rank_t)strtoul(peers, NULL, 10));
}

/* ---- nodes and command lines ---- */

/* The ranks of a node, as names. */
static void add_local_procs(struct keys *node, const struct layout *l, uint32_t i)
{
	pmix_proc_t *procs = calloc(l->nodes[i].size + 1, sizeof(*procs));
	size_t n = 0;

	for (uint32_t rank = 0; procs && rank < l->nspace->size; rank++) {
		if (l->nspace->ranks[rank].node != i)
			continue;
		PMIX_LOAD_PROCID(&procs[n], l->nspace->name, rank);
		n++;
	}
	keys_add_data_take(node, PMIX_LOCAL_PROCS, procs, n, PMIX_PROC);
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

		if (l->nodes[i].size == 0)
			continue;
		peers = layout_peers(l, i);
		if (!peers) {
			keys->failed = true;
			return;
		}
		keys_add_text(&node, PMIX_HOSTNAME, layout_node_name(px, i));
		keys_add_u32(&node, PMIX_NODEID, i);
		keys_add_u32(&node, PMIX_LOCAL_SIZE, l->nodes[i].size);
		keys_add_u32(&node, PMIX_NODE_SIZE, l->nodes[i].before + l->nodes[i].size);
		keys_add_text(&node, PMIX_LOCAL_PEERS, peers);
		keys_add_rank(&node, PMIX_LOCALLDR, (pmix_rank_t)strtoul(peers, NULL, 10));
		/* By its name with the domain a node is also known without. */
		keys_add_text_take(&node, PMIX_HOSTNAME_ALIASES,
			strndup(layout_node_name(px, i), strcspn(layout_node_name(px, i), ".")));
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

		if (l->apps[i].size == 0)
			continue;
		keys_add_u32(&app, PMIX_APPNUM, i);
		keys_add_u32(&app, PMIX_APP_SIZE, l->apps[i].size);
		keys_add_rank(&app, PMIX_APPLDR, l->apps[i].first);
		if (l->nspace->apps[i].argv)
			keys_add_text(&app, PMIX_APP_ARGV, l->nspace->apps[i].argv);
		if (l->nspace->apps[i].cwd)
			keys_add_text(&app, PMIX_WDIR, l->nspace->apps[i].cwd);
		keys_add_array(keys, PMIX_APP_INFO_ARRAY, &app);
	}
}

/* ---- ranks ---- */

#define PACKAGES_MAX 64u /* of a node; ranks of further ones are counted as if on none */

/* The CPUs of the last rank: others may run there too. */
struct location {
	bool known;
	const char *cpus;
	struct spot spot;
	uint16_t counts[PACKAGES_MAX + 1]; /* ranks so far, by package; at last those on no one */
};

static void location_clear(struct location *p)
{
	spot_clear(&p->spot);
}

static uint16_t next_on_package(struct location *p)
{
	unsigned package = p->spot.package < 0 ? PACKAGES_MAX : (unsigned)p->spot.package;

	return p->counts[package < PACKAGES_MAX ? package : PACKAGES_MAX]++;
}

/* Only of this node's: for those of others it does not matter. A rank that is not bound has a
 * locality, the whole machine, but no cpuset: Open MPI 5 takes one that has a cpuset for bound. */
static void add_location(
	struct keys *data, const struct px *px, struct location *p, const struct nspace_rank *rank)
{
	if (!p->known || p->cpus != rank->cpus) {
		spot_clear(&p->spot);
		topology_locate(px->topology, rank->cpus, &p->spot);
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
	struct location *location, uint32_t i)
{
	const struct nspace_rank *rank = &l->nspace->ranks[i];
	_cleanup_keys_ struct keys data = {.v = NULL};

	keys_add_rank(&data, PMIX_RANK, i); /* libpmix wants it first */
	keys_add_u32(&data, PMIX_APPNUM, rank->appnum);
	if (l->nspace->number) /* of the job, too: some programs get their own rank's */
		keys_add(&data, PMIX_PARENT_ID, &l->nspace->parent, PMIX_PROC);
	keys_add_rank(&data, PMIX_GLOBAL_RANK, l->nspace->first_rank + i);
	keys_add_rank(&data, PMIX_APP_RANK, l->ranks[i].app);
	keys_add_u16(&data, PMIX_LOCAL_RANK, (uint16_t)l->ranks[i].local);
	keys_add_u16(
		&data, PMIX_NODE_RANK, (uint16_t)(l->nodes[rank->node].before + l->ranks[i].local));
	keys_add_text(&data, PMIX_HOSTNAME, layout_node_name(px, rank->node));
	keys_add_u32(&data, PMIX_NODEID, rank->node);
	keys_add_u32(&data, PMIX_REINCARNATION, 0);
	if (rank->node == px->node) {
		keys_add_textf(&data, PMIX_PROCDIR, "%s/%s/%u", tmpdir_path(px->tmpdir),
			l->nspace->name, i);
		add_location(&data, px, location, rank);
	}
	keys_add_array(keys, PMIX_PROC_DATA, &data);
}

/* All keys of a namespace. 0 or -errno; ret_local: how many ranks of it are this node's. */
static int describe(
	const struct px *px, const struct nspace *nspace, struct keys *keys, uint32_t *ret_local)
{
	_cleanup_(layout_clear) struct layout l = {.nspace = NULL};
	_cleanup_(location_clear) struct location location = {.known = false};
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
		add_rank(keys, px, &l, &location, i);
	*ret_local = l.nodes[px->node].size;
	return keys->failed ? -ENOMEM : 0;
}

/* ---- registration --------------------------------------------------------------------------- */

static int make_directories(struct px *px, const struct nspace *nspace, struct err *err)
{
	char name[PMIX_MAX_NSLEN + 16];
	int r = tmpdir_add(px->tmpdir, nspace->name, err);

	for (uint32_t i = 0; r == 0 && i < nspace->size; i++) {
		if (nspace->ranks[i].node != px->node)
			continue;
		(void)snprintf(name, sizeof(name), "%s/%u", nspace->name, i);
		r = tmpdir_add(px->tmpdir, name, err);
	}
	return r;
}

static int register_clients(struct px *px, const struct nspace *nspace, struct err *err)
{
	pmix_status_t status;
	pmix_proc_t proc;

	for (uint32_t i = 0; i < nspace->size; i++) {
		if (nspace->ranks[i].node != px->node)
			continue;
		PMIX_LOAD_PROCID(&proc, nspace->name, i);
		status = PMIx_server_register_client(&proc, geteuid(), getegid(), NULL, NULL, NULL);
		if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED)
			return err_set_text(err, -EIO, "register rank %u of %s with libpmix: %s", i,
				nspace->name, PMIx_Error_string(status));
	}
	return 0;
}

int px_register(struct px *px, struct nspace *nspace, struct err *err)
{
	_cleanup_keys_ struct keys keys = {.v = NULL};
	uint32_t local;
	pmix_status_t status;
	int r = describe(px, nspace, &keys, &local);

	if (r < 0)
		return err_set(err, r, "describe %s to libpmix", nspace->name);
	if (local) {
		r = make_directories(px, nspace, err);
		if (r < 0)
			return r;
	}
	/* Without a function to call back it returns when it is done, on its own thread. */
	status = PMIx_server_register_nspace(nspace->name, (int)local, keys.v, keys.n, NULL, NULL);
	if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED)
		return err_set_text(err, -EIO, "register %s with libpmix: %s", nspace->name,
			PMIx_Error_string(status));
	return register_clients(px, nspace, err);
}

void px_deregister(const struct nspace *nspace)
{
	PMIx_server_deregister_nspace(nspace->name, NULL, NULL);
}

int px_setup_fork(
	struct px *px, const struct nspace *nspace, uint32_t rank, char ***ret_env, struct err *err)
{
	pmix_status_t status;
	pmix_proc_t proc;

	/* Without a vector libpmix takes its own `environ`, which is NULL: symbols are resolved
	 * among its own libraries first (pmix.c). */
	*ret_env = calloc(1, sizeof(char *));
	if (!*ret_env)
		return err_set(err, -ENOMEM, "make the environment of rank %u", rank);
	PMIX_LOAD_PROCID(&proc, nspace->name, rank);
	status = PMIx_server_setup_fork(&proc, ret_env);
	if (status != PMIX_SUCCESS)
		return err_set_text(err, -EIO, "get the environment of rank %u from libpmix: %s",
			rank, PMIx_Error_string(status));
	return old_listener_environ(px, ret_env) < 0
		? err_set(err, -ENOMEM, "make the environment of rank %u", rank)
		: 0;
}
