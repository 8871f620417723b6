/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmix/names.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "stepd/base/buffer.h"
#include "stepd/base/strv.h"

#define NAME_SIZE_MAX 220u

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

/* Directories and files have it in their names, and further names begin with it. */
static bool is_good_name(const char *name)
{
	static const char good[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

	return name[0] != '.' && name[0] && strlen(name) <= NAME_SIZE_MAX &&
		strspn(name, good) == strlen(name);
}

int names_open(struct names *names, const stepd_step_rec_t *job, const char *name)
{
	struct nspace *nspace;
	int r;

	names->first = NULL;
	names->last = &names->first;
	if (name && !is_good_name(name))
		return -EINVAL;
	/* Not a plain "JOB.STEP": clients that make a number of it want it to be unlike a hostname.
	 */
	if (name)
		(void)snprintf(names->base, sizeof(names->base), "%s", name);
	else
		(void)snprintf(names->base, sizeof(names->base), "stepd.%u.%s", job->job_id,
			job->step_name);
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

bool names_next(struct rank_cursor *at)
{
	for (; at->index < at->count; at->index++, at->next = 0) {
		pmix_rank_t rank = at->procs[at->index].rank;
		bool local = rank == PMIX_RANK_LOCAL_NODE || rank == PMIX_RANK_LOCAL_PEERS;
		bool all = local || rank == PMIX_RANK_WILDCARD;

		if (at->next == 0)
			at->nspace = names_find(at->names, at->procs[at->index].nspace);
		at->is_unknown = !at->nspace || (!all && rank >= at->nspace->size);
		if (at->is_unknown)
			return false;
		while (at->next < (all ? at->nspace->size : 1)) {
			at->rank = all ? at->next : rank;
			at->next++;
			if (!local || at->nspace->ranks[at->rank].node == at->node)
				return true;
		}
	}
	return false;
}

int names_local_ranks(const struct names *names, const pmix_proc_t *procs, size_t count,
	uint32_t node, bool living, uint32_t **ret_ranks, size_t *ret_count)
{
	struct rank_cursor at = {.names = names, .procs = procs, .count = count, .node = node};
	_cleanup_free_ uint32_t *ranks = NULL;
	size_t n = 0, capacity = 0;

	while (names_next(&at)) {
		const struct nspace_rank *rank = &at.nspace->ranks[at.rank];

		if (rank->node != node || (living && rank->state >= RANK_ENDED))
			continue;
		if (array_reserve(ranks, capacity, n + 1) < 0)
			return -ENOMEM;
		ranks[n++] = at.nspace->first_rank + at.rank;
	}
	if (at.is_unknown || n == 0)
		return at.is_unknown ? -ENOENT : -ESRCH;
	*ret_ranks = take_ptr(ranks);
	*ret_count = n;
	return 0;
}

int names_exit_code(const struct nspace_rank *rank)
{
	return WIFSIGNALED(rank->wait_status) ? 128 + WTERMSIG(rank->wait_status)
					      : WEXITSTATUS(rank->wait_status);
}

int names_nodes(const struct names *names, const pmix_proc_t *procs, size_t count, uint32_t node,
	struct bitset *nodes)
{
	struct rank_cursor at = {.names = names, .procs = procs, .count = count, .node = node};

	while (names_next(&at))
		bitset_set(nodes, at.nspace->ranks[at.rank].node);
	return at.is_unknown ? -ENOENT : 0;
}

void names_describe_end(const struct nspace *nspace, uint32_t rank, char *text, size_t size)
{
	(void)snprintf(text, size, "rank %u of %s has ended%s", rank, nspace->name,
		nspace->ranks[rank].state == RANK_LOST ? " without PMIx_Finalize" : "");
}

bool names_find_absent(const struct names *names, const pmix_proc_t *procs, size_t count,
	uint32_t node, char *text, size_t size)
{
	struct rank_cursor at = {.names = names, .procs = procs, .count = count, .node = node};

	while (names_next(&at)) {
		if (at.nspace->ranks[at.rank].absent) {
			names_describe_end(at.nspace, at.rank, text, size);
			return true;
		}
	}
	return false;
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
