/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmix/names.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "stepd/base/buffer.h"
#include "stepd/base/strv.h"

static struct nspace *nspace_free(struct nspace *nspace)
{
	for (uint32_t i = 0; nspace->apps && i < nspace->app_count; i++) {
		free(nspace->apps[i].argv);
		free(nspace->apps[i].cwd);
	}
	free(nspace->apps);
	free(nspace->ranks);
	free(nspace);
	return NULL;
}

static int nspace_new(uint32_t size, struct nspace **ret_nspace)
{
	struct nspace *nspace = calloc(1, sizeof(*nspace));

	if (!nspace)
		return -ENOMEM;
	nspace->ranks = calloc(size ? size : 1, sizeof(*nspace->ranks));
	if (!nspace->ranks) {
		free(nspace);
		return -ENOMEM;
	}
	nspace->size = size;
	nspace->app_count = 1;
	*ret_nspace = nspace;
	return 0;
}

static void append(struct names *names, struct nspace *nspace)
{
	*names->last = nspace;
	names->last = &nspace->next;
}

/* Either may be NULL. */
static int set_app(struct nspace *nspace, uint32_t i, char *const *argv, const char *cwd)
{
	struct nspace_app *app = &nspace->apps[i];

	app->argv = argv && argv[0] ? strv_join(argv, ' ') : NULL;
	app->cwd = cwd ? strdup(cwd) : NULL;
	return (argv && argv[0] && !app->argv) || (cwd && !app->cwd) ? -ENOMEM : 0;
}

static int add_apps(struct nspace *nspace)
{
	for (uint32_t i = 0; i < nspace->size; i++) {
		if (nspace->ranks[i].appnum >= nspace->app_count)
			nspace->app_count = nspace->ranks[i].appnum + 1;
	}
	nspace->apps = calloc(nspace->app_count, sizeof(*nspace->apps));
	return nspace->apps ? 0 : -ENOMEM;
}

static int fill_own(struct nspace *nspace, const stepd_step_rec_t *job)
{
	int r;

	for (uint32_t i = 0; i < job->ntasks; i++) {
		nspace->ranks[i].node = job->rank_nodes ? job->rank_nodes[i] : job->nodeid;
		nspace->ranks[i].appnum = job->rank_appnums ? job->rank_appnums[i] : 0;
	}
	for (uint32_t i = 0; job->task_cpus && i < job->node_tasks; i++) {
		if (job->task[i].gtid < job->ntasks)
			nspace->ranks[job->task[i].gtid].cpus = job->task_cpus[i];
	}
	r = add_apps(nspace);
	for (uint32_t i = 0; r == 0 && i < nspace->app_count && i < job->command_count; i++)
		r = set_app(nspace, i, (char *const *)job->commands[i].argv, job->commands[i].cwd);
	return r;
}

int names_open(struct names *names, const stepd_step_rec_t *job)
{
	struct nspace *nspace;
	int r;

	names->first = NULL;
	names->last = &names->first;
	/* Not a plain "JOB.STEP": clients that make a number of it want it to be unlike a hostname.
	 */
	(void)snprintf(
		names->base, sizeof(names->base), "stepd.%u.%s", job->job_id, job->step_name);
	r = nspace_new(job->ntasks, &nspace);
	if (r < 0)
		return r;
	append(names, nspace);
	memcpy(nspace->name, names->base, sizeof(nspace->name));
	return fill_own(nspace, job);
}

void names_close(struct names *names)
{
	struct nspace *next;

	for (struct nspace *n = names->first; n; n = next) {
		next = n->next;
		(void)nspace_free(n);
	}
	names->first = NULL;
	names->last = &names->first;
}

void names_of_spawn(const struct names *names, uint32_t number, char *name, size_t size)
{
	(void)snprintf(name, size, "%.230s.spawn-%u", names->base, number);
}

static int fill_spawned(
	struct nspace *nspace, const stepd_step_rec_t *job, const struct spawn_part *part)
{
	int r;

	for (uint32_t i = 0; i < part->size; i++) {
		nspace->ranks[i].node = part->nodes[i];
		nspace->ranks[i].appnum = part->commands[i];
	}
	r = add_apps(nspace);
	for (uint32_t i = 0; r == 0 && i < nspace->app_count; i++) {
		_cleanup_strv_ struct strv argv = {0};
		const char *cwd;

		r = spawn_get_command(part, i, &argv, &cwd);
		if (r == 0)
			r = set_app(nspace, i, argv.v, cwd ? cwd : job->cwd);
	}
	return r;
}

int names_add(struct names *names, const stepd_step_rec_t *job, const struct spawn_part *part,
	struct nspace **ret_nspace)
{
	struct nspace *nspace;
	int r = nspace_new(part->size, &nspace);

	if (r < 0)
		return r;
	names_of_spawn(names, part->number, nspace->name, sizeof(nspace->name));
	nspace->number = part->number;
	nspace->first_rank = part->first_rank;
	r = fill_spawned(nspace, job, part);
	if (r < 0) {
		(void)nspace_free(nspace);
		return r;
	}
	append(names, nspace);
	*ret_nspace = nspace;
	return 0;
}

void names_remove(struct names *names, struct nspace *nspace)
{
	struct nspace **at = &names->first;

	while (*at && *at != nspace)
		at = &(*at)->next;
	if (!*at)
		return;
	*at = nspace->next;
	if (names->last == &nspace->next)
		names->last = at;
	(void)nspace_free(nspace);
}

struct nspace *names_find(const struct names *names, const char *name)
{
	for (struct nspace *n = names->first; n; n = n->next) {
		if (strncmp(n->name, name, PMIX_MAX_NSLEN) == 0)
			return n;
	}
	return NULL;
}

struct nspace *names_find_rank(const struct names *names, uint32_t step_rank, uint32_t *ret_rank)
{
	for (struct nspace *n = names->first; n; n = n->next) {
		if (step_rank >= n->first_rank && step_rank - n->first_rank < n->size) {
			*ret_rank = step_rank - n->first_rank;
			return n;
		}
	}
	return NULL;
}

struct nspace_rank *names_rank(const struct names *names, const pmix_proc_t *proc)
{
	struct nspace *nspace = names_find(names, proc->nspace);

	return nspace && proc->rank < nspace->size ? &nspace->ranks[proc->rank] : NULL;
}

int names_each(const struct names *names, const pmix_proc_t *procs, size_t count, uint32_t node,
	names_each_fn each, void *userdata)
{
	struct nspace *nspace;
	bool all, local;
	int r;

	for (size_t i = 0; i < count; i++) {
		nspace = names_find(names, procs[i].nspace);
		if (!nspace)
			return -ENOENT;
		local = procs[i].rank == PMIX_RANK_LOCAL_NODE ||
			procs[i].rank == PMIX_RANK_LOCAL_PEERS;
		all = procs[i].rank == PMIX_RANK_WILDCARD || local;
		if (!all && procs[i].rank >= nspace->size)
			return -ENOENT;
		for (uint32_t rank = all ? 0 : procs[i].rank; rank < nspace->size; rank++) {
			if (local && nspace->ranks[rank].node != node)
				continue;
			r = each(nspace, rank, userdata);
			if (r < 0)
				return r;
			if (!all)
				break;
		}
	}
	return 0;
}

struct local_ranks {
	uint32_t node;
	bool living;
	uint32_t *v;
	size_t n, capacity;
};

static int add_local(struct nspace *nspace, uint32_t rank, void *userdata)
{
	struct local_ranks *ranks = userdata;

	if (nspace->ranks[rank].node != ranks->node ||
		(ranks->living && nspace->ranks[rank].state >= RANK_ENDED))
		return 0;
	if (array_reserve(ranks->v, ranks->capacity, ranks->n + 1) < 0)
		return -ENOMEM;
	ranks->v[ranks->n++] = nspace->first_rank + rank;
	return 0;
}

int names_local_ranks(const struct names *names, const pmix_proc_t *procs, size_t count,
	uint32_t node, bool living, uint32_t **ret_ranks, size_t *ret_count)
{
	struct local_ranks ranks = {.node = node, .living = living};
	int r = names_each(names, procs, count, node, add_local, &ranks);

	if (r == 0 && ranks.n == 0)
		r = -ESRCH;
	if (r < 0) {
		free(ranks.v);
		return r;
	}
	*ret_ranks = ranks.v;
	*ret_count = ranks.n;
	return 0;
}

int names_exit_code(const struct nspace_rank *rank)
{
	return WIFSIGNALED(rank->wait_status) ? 128 + WTERMSIG(rank->wait_status)
					      : WEXITSTATUS(rank->wait_status);
}

static int add_node(struct nspace *nspace, uint32_t rank, void *userdata)
{
	bitset_set(userdata, nspace->ranks[rank].node);
	return 0;
}

int names_nodes(const struct names *names, const pmix_proc_t *procs, size_t count, uint32_t node,
	struct bitset *nodes)
{
	return names_each(names, procs, count, node, add_node, nodes);
}

void names_describe_end(const struct nspace *nspace, uint32_t rank, char *text, size_t size)
{
	(void)snprintf(text, size, "rank %u of %s has ended%s", rank, nspace->name,
		nspace->ranks[rank].state == RANK_LOST ? " without PMIx_Finalize" : "");
}

struct absentee {
	struct nspace *nspace;
	uint32_t rank;
};

static int find_absent(struct nspace *nspace, uint32_t rank, void *userdata)
{
	struct absentee *absentee = userdata;

	if (!nspace->ranks[rank].absent)
		return 0;
	absentee->nspace = nspace;
	absentee->rank = rank;
	return -EEXIST; /* enough */
}

bool names_find_absent(const struct names *names, const pmix_proc_t *procs, size_t count,
	uint32_t node, char *text, size_t size)
{
	struct absentee absentee = {.nspace = NULL};

	if (names_each(names, procs, count, node, find_absent, &absentee) != -EEXIST)
		return false;
	names_describe_end(absentee.nspace, absentee.rank, text, size);
	return true;
}

bool names_show(
	const struct nspace *nspace, uint32_t node, enum rank_state state, char *text, size_t size)
{
	_cleanup_bitset_ struct bitset set = {.words = NULL};
	char list[512];

	if (bitset_init(&set, nspace->size ? nspace->size : 1) < 0) {
		(void)snprintf(text, size, "ranks of %s", nspace->name);
		return true;
	}
	for (uint32_t i = 0; i < nspace->size; i++) {
		if (nspace->ranks[i].node == node && nspace->ranks[i].state <= state)
			bitset_set(&set, i);
	}
	(void)bitset_format_list(&set, list, sizeof(list));
	(void)snprintf(text, size, "%s%s", bitset_count(&set) == 1 ? "rank " : "ranks ", list);
	return list[0] != '\0';
}
