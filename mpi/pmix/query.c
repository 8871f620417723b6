/* SPDX-License-Identifier: BSD-3-Clause
 *
 * PMIx_Query_info: what the server knows of the step. libpmix answers itself what is about the
 * library, and from what was registered.
 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "mpi/pmix/keys.h"
#include "mpi/pmix/px.h"
#include "stepd/base/strv.h"

/* One key of a query. */
struct question {
	struct px *px;
	const char *key;
	const struct nspace *nspace; /* the one it is about */
	bool names_nspace;           /* it was named, and is not only the default */
	const char *group;           /* likewise; NULL: none named */
	const char *set;             /* likewise */
	struct keys *results;
};

/* ---- namespaces and ranks ---- */

static pmix_proc_state_t state_of(const struct nspace_rank *rank)
{
	switch (rank->state) {
	case RANK_STARTED:
		return rank->pid ? PMIX_PROC_STATE_RUNNING : PMIX_PROC_STATE_LAUNCH_UNDERWAY;
	case RANK_CONNECTED:
	case RANK_FINALIZED:
		return PMIX_PROC_STATE_CONNECTED;
	case RANK_ENDED:
		return PMIX_PROC_STATE_TERMINATED;
	case RANK_LOST:
		return WIFSIGNALED(rank->wait_status) ? PMIX_PROC_STATE_ABORTED_BY_SIG
						      : PMIX_PROC_STATE_TERM_WO_SYNC;
	}
	return PMIX_PROC_STATE_UNDEF;
}

static pmix_status_t namespaces(struct question *q)
{
	_cleanup_strv_ struct strv names = {0};

	for (const struct nspace *n = q->px->names.first; n; n = n->next) {
		if (strv_add(&names, n->name) < 0)
			return PMIX_ERR_NOMEM;
	}
	keys_add_text_take(q->results, q->key, strv_join(names.v, ','));
	return PMIX_SUCCESS;
}

/* Of each its name and its command line, and nothing else: openpmix's tool.c takes every member for
 * a string, as PRRTE's are. */
static pmix_status_t namespace_info(struct question *q)
{
	_cleanup_keys_ struct keys all = {.v = NULL};

	for (const struct nspace *n = q->px->names.first; n; n = n->next) {
		_cleanup_keys_ struct keys one = {.v = NULL};

		if (q->names_nspace && n != q->nspace)
			continue;
		keys_add_text(&one, PMIX_NSPACE, n->name);
		keys_add_text(&one, PMIX_CMD_LINE, n->apps[0].argv ? n->apps[0].argv : "");
		keys_add_array(&all, PMIX_QUERY_NAMESPACE_INFO, &one);
	}
	keys_add_array(q->results, q->key, &all);
	return PMIX_SUCCESS;
}

static pmix_status_t job_status(struct question *q)
{
	pmix_status_t status = PMIX_SUCCESS;

	for (uint32_t i = 0; i < q->nspace->size; i++) {
		if (q->nspace->ranks[i].state == RANK_LOST)
			status = PMIX_ERR_JOB_TERM_WO_SYNC;
	}
	if (status == PMIX_SUCCESS && q->nspace->gone == q->nspace->size)
		status = PMIX_EVENT_JOB_END;
	keys_add(q->results, q->key, &status, PMIX_STATUS);
	return PMIX_SUCCESS;
}

static pmix_status_t proc_table(struct question *q)
{
	bool local = strcmp(q->key, PMIX_QUERY_LOCAL_PROC_TABLE) == 0;
	const struct px *px = q->px;
	pmix_proc_info_t *all, *p;
	size_t n = 0;

	PMIX_PROC_INFO_CREATE(all, q->nspace->size);
	if (!all)
		return PMIX_ERR_NOMEM;
	for (uint32_t i = 0; i < q->nspace->size; i++) {
		const struct nspace_rank *rank = &q->nspace->ranks[i];

		if (local && rank->node != px->node)
			continue;
		p = &all[n++];
		PMIX_LOAD_PROCID(&p->proc, q->nspace->name, i);
		p->hostname = strdup(
			px->job->node_names ? px->job->node_names[rank->node] : px->job->node_name);
		p->pid = rank->pid;
		p->exit_code = rank->state >= RANK_ENDED ? names_exit_code(rank) : 0;
		p->state = state_of(rank);
	}
	keys_add_data_take(q->results, q->key, all, n, PMIX_PROC_INFO);
	return PMIX_SUCCESS;
}

/* ---- groups and sets ---- */

static size_t count_sets(const struct rank_set *sets)
{
	size_t n = 0;

	for (; sets; sets = sets->next)
		n++;
	return n;
}

static pmix_status_t add_members(struct question *q, const struct rank_set *set)
{
	pmix_proc_t *procs = set ? calloc(set->nprocs + 1, sizeof(*procs)) : NULL;

	if (!set)
		return PMIX_ERR_NOT_FOUND;
	if (procs)
		memcpy(procs, set->procs, set->nprocs * sizeof(*procs));
	keys_add_data_take(q->results, q->key, procs, set->nprocs, PMIX_PROC);
	return PMIX_SUCCESS;
}

static pmix_status_t group_count(struct question *q)
{
	size_t n = count_sets(q->px->groups);

	keys_add(q->results, q->key, &n, PMIX_SIZE);
	return PMIX_SUCCESS;
}

static pmix_status_t group_names(struct question *q)
{
	char **names = calloc(count_sets(q->px->groups) + 1, sizeof(*names));
	size_t n = 0;

	for (const struct rank_set *g = q->px->groups; names && g; g = g->next) {
		names[n] = strdup(g->name);
		if (names[n])
			n++;
	}
	keys_add_data_take(q->results, q->key, names, n, PMIX_STRING);
	return PMIX_SUCCESS;
}

static pmix_status_t group_members(struct question *q)
{
	return add_members(q, q->group ? set_find(q->px->groups, q->group) : NULL);
}

static pmix_status_t set_count(struct question *q)
{
	size_t n = count_sets(q->px->psets);

	keys_add(q->results, q->key, &n, PMIX_SIZE);
	return PMIX_SUCCESS;
}

static pmix_status_t set_names(struct question *q)
{
	_cleanup_strv_ struct strv names = {0};

	for (const struct rank_set *p = q->px->psets; p; p = p->next) {
		if (strv_add(&names, p->name) < 0)
			return PMIX_ERR_NOMEM;
	}
	keys_add_text_take(q->results, q->key, strv_join(names.v, ','));
	return PMIX_SUCCESS;
}

static pmix_status_t set_members(struct question *q)
{
	return q->set ? add_members(q, set_find(q->px->psets, q->set)) : PMIX_ERR_BAD_PARAM;
}

/* ---- the server ---- */

static pmix_status_t spawn_support(struct question *q)
{
	keys_add_text(q->results, q->key,
		PMIX_WDIR "," PMIX_HOST "," PMIX_SET_ENVAR "," PMIX_ADD_ENVAR "," PMIX_PSET_NAME);
	return PMIX_SUCCESS;
}

static pmix_status_t debug_support(struct question *q)
{
	keys_add_text(q->results, q->key, "");
	return PMIX_SUCCESS;
}

/* The server's own, in megabytes; that of ranks is the agent's to count (stepctl usage). */
static pmix_status_t memory_usage(struct question *q)
{
	_cleanup_keys_ struct keys own = {.v = NULL};
	_cleanup_fclose_ FILE *f = fopen("/proc/self/statm", "re");
	unsigned long size, resident;
	float mbytes;

	if (!f || fscanf(f, "%lu %lu", &size, &resident) != 2)
		return PMIX_ERR_NOT_FOUND;
	mbytes = (float)resident * (float)sysconf(_SC_PAGESIZE) / (1 << 20);
	keys_add(&own, PMIX_DAEMON_MEMORY, &mbytes, PMIX_FLOAT);
	keys_add_array(q->results, q->key, &own);
	return PMIX_SUCCESS;
}

/* ---- the upcall ---- */

static const struct {
	const char *key;
	pmix_status_t (*answer)(struct question *q);
} answers[] = {
	{PMIX_QUERY_NAMESPACES, namespaces},
	{PMIX_QUERY_NAMESPACE_INFO, namespace_info},
	{PMIX_QUERY_JOB_STATUS, job_status},
	{PMIX_QUERY_PROC_TABLE, proc_table},
	{PMIX_QUERY_LOCAL_PROC_TABLE, proc_table},
	{PMIX_QUERY_NUM_GROUPS, group_count},
	{PMIX_QUERY_GROUP_NAMES, group_names},
	{PMIX_QUERY_GROUP_MEMBERSHIP, group_members},
	{PMIX_QUERY_NUM_PSETS, set_count},
	{PMIX_QUERY_PSET_NAMES, set_names},
	{PMIX_QUERY_PSET_MEMBERSHIP, set_members},
	{PMIX_QUERY_SPAWN_SUPPORT, spawn_support},
	{PMIX_QUERY_DEBUG_SUPPORT, debug_support},
	{PMIX_QUERY_MEMORY_USAGE, memory_usage},
};

static pmix_status_t answer(struct question *q)
{
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		if (strcmp(q->key, answers[i].key) == 0)
			return answers[i].answer(q);
	}
	return PMIX_ERR_NOT_SUPPORTED;
}

/* Its subject; no namespace: one that there is not. */
static void find_subject(struct question *question, const pmix_query_t *query)
{
	const struct names *names = &question->px->names;

	question->nspace = names->first;
	for (size_t i = 0; i < query->nqual; i++) {
		const pmix_info_t *q = &query->qualifiers[i];

		if (PMIX_CHECK_KEY(q, PMIX_NSPACE) && q->value.type == PMIX_STRING) {
			question->nspace = names_find(names, q->value.data.string);
			question->names_nspace = true;
		} else if (PMIX_CHECK_KEY(q, PMIX_PROCID) && q->value.type == PMIX_PROC) {
			question->nspace = names_find(names, q->value.data.proc->nspace);
			question->names_nspace = true;
		} else if (PMIX_CHECK_KEY(q, PMIX_GROUP_ID) && q->value.type == PMIX_STRING)
			question->group = q->value.data.string;
		else if (PMIX_CHECK_KEY(q, PMIX_PSET_NAME) && q->value.type == PMIX_STRING)
			question->set = q->value.data.string;
	}
}

static void answer_all(struct px *px, void *userdata, _unused_ pmix_status_t status_of_nodes,
	_unused_ uint32_t succeeded)
{
	struct call *call = userdata;
	struct keys results = {.v = NULL};
	pmix_status_t status, first = PMIX_SUCCESS;

	for (size_t i = 0; i < call->nqueries; i++) {
		struct question q = {.px = px, .results = &results};

		find_subject(&q, &call->queries[i]);
		for (size_t j = 0; call->queries[i].keys && call->queries[i].keys[j]; j++) {
			q.key = call->queries[i].keys[j];
			status = q.nspace ? answer(&q) : PMIX_ERR_NOT_FOUND;
			if (first == PMIX_SUCCESS)
				first = status;
		}
	}
	call->results = results.v;
	call->nresults = results.n;
	/* Of a partial success libpmix passes the status on and drops what was found. */
	if (results.failed)
		call_answer(call, PMIX_ERR_NOMEM);
	else
		call_answer(call, results.n ? PMIX_SUCCESS : first);
}

static bool has_key(const struct call *call, const char *key)
{
	for (size_t i = 0; i < call->nqueries; i++) {
		for (size_t j = 0; call->queries[i].keys && call->queries[i].keys[j]; j++) {
			if (strcmp(call->queries[i].keys[j], key) == 0)
				return true;
		}
	}
	return false;
}

void px_query(struct px *px, struct call *call)
{
	if (has_key(call, PMIX_QUERY_PROC_TABLE))
		ranks_query(px, call, answer_all);
	else
		answer_all(px, call, PMIX_SUCCESS, 0);
}
