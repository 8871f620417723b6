/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Heterogeneous jobs: components with requests of their own that start together and end together.
 * Each component is a job with a number of its own; only the first one is in the queue. Components
 * have different nodes; those with the fewest possible nodes choose first. The runner has the
 * processes of each component separately, so that preempted ones have their own grace times. The
 * one batch script is the first component's, and its end ends all of them; but where that is the
 * end of its grace time, those of the others go on.
 */
#include <errno.h>
#include <search.h>
#include <signal.h>
#include <stdlib.h>

#include "contrib/jobd/engine/engine_impl.h"
#include "stepd/base/err.h"

/* ---- components ---------------------------------------------------------------------------------
 */

static int compare_hets(const void *a, const void *b)
{
	const struct het_job *x = a, *y = b;

	return x->job_id < y->job_id ? -1 : x->job_id > y->job_id;
}

static struct het_job *het_make(struct engine *e, uint32_t job_id)
{
	const struct het_job wanted = {.job_id = job_id};
	void *found = tfind(&wanted, &e->hets, compare_hets);
	struct het_job *het;

	if (found)
		return *(struct het_job **)found;
	het = calloc(1, sizeof(*het));
	if (!het)
		return NULL;
	het->job_id = job_id;
	if (!tsearch(het, &e->hets, compare_hets)) {
		free(het);
		return NULL;
	}
	return het;
}

int het_add(struct engine *e, struct job *job, uint32_t job_id, uint32_t offset)
{
	struct het_job *het = offset < ENGINE_COMPONENTS_MAX ? het_make(e, job_id) : NULL;

	if (!het)
		return offset < ENGINE_COMPONENTS_MAX ? -ENOMEM : -EINVAL;
	if (het->components[offset])
		return -EINVAL;
	het->components[offset] = job;
	if (offset >= het->count)
		het->count = offset + 1;
	job->het = het;
	job->record.het_job_id = job_id;
	job->record.het_job_offset = offset;
	return 0;
}

void het_remove(struct engine *e, struct job *job)
{
	struct het_job *het = job->het;
	uint32_t i;

	if (!het)
		return;
	het->components[job->record.het_job_offset] = NULL;
	job->het = NULL;
	for (i = 0; i < het->count; i++) {
		if (het->components[i])
			return;
	}
	(void)tdelete(het, &e->hets, compare_hets);
	free(het);
}

uint32_t engine_count_components(const struct job *job)
{
	return job->het ? job->het->count : 1;
}

struct job *engine_get_component(const struct job *job, uint32_t offset)
{
	return job->het ? job->het->components[offset] : (struct job *)job;
}

struct job *het_leader(const struct job *job)
{
	struct job *leader = NULL;
	uint32_t i;

	for (i = 0; i < engine_count_components(job) && !leader; i++)
		leader = engine_get_component(job, i);
	return leader;
}

bool het_is_pending(const struct job *job)
{
	uint32_t i;

	for (i = 0; i < engine_count_components(job); i++) {
		const struct job *one = engine_get_component(job, i);

		if (one && !job_is_pending(one))
			return false;
	}
	return true;
}

bool het_has_ended(const struct job *job)
{
	uint32_t i;

	for (i = 0; i < engine_count_components(job); i++) {
		const struct job *one = engine_get_component(job, i);

		if (one && !job_has_ended(one))
			return false;
	}
	return true;
}

time_t het_begin_time(const struct job *job)
{
	time_t latest = 0;
	uint32_t i;

	for (i = 0; i < engine_count_components(job); i++) {
		const struct job *one = engine_get_component(job, i);

		if (one && one->begin_time > latest)
			latest = one->begin_time;
	}
	return latest;
}

/* ---- nodes for all of them ----------------------------------------------------------------------
 */

void het_nodes_clear(struct het_nodes *n)
{
	uint32_t i;

	for (i = 0; i < n->count; i++) {
		bit_free(n->nodes[i]);
		bit_free(n->exc_cores[i]);
	}
	n->count = 0;
}

void het_nodes_make(
	struct het_nodes *n, const struct engine *e, const struct job *job, const bitstr_t *avail)
{
	uint32_t i;

	*n = (struct het_nodes){.count = engine_count_components(job)};
	for (i = 0; i < n->count; i++) {
		const struct job *one = engine_get_component(job, i);

		n->nodes[i] = job_possible_nodes(e, one);
		if (!avail)
			continue;
		bit_and(n->nodes[i], avail);
		n->reserved[i] =
			reservations_apply(e, one, engine_now(e), n->nodes[i], &n->exc_cores[i]);
	}
}

/* Other components must not have nodes that one component requires. */
static void keep_required(struct het_nodes *n, const struct job *job)
{
	uint32_t i, k;

	for (i = 0; i < n->count; i++) {
		const bitstr_t *required = engine_get_component(job, i)->details.req_node_bitmap;

		for (k = 0; required && k < n->count; k++) {
			if (k != i)
				bit_and_not(n->nodes[k], required);
		}
	}
}

/* The next one without nodes that has the fewest to choose from. */
static uint32_t next_component(const struct het_nodes *n, const bool *done)
{
	uint32_t i, best = n->count;
	int32_t count, least = INT32_MAX;

	for (i = 0; i < n->count; i++) {
		count = done[i] ? INT32_MAX : bit_set_count(n->nodes[i]);
		if (count < least) {
			least = count;
			best = i;
		}
	}
	return best;
}

/* One after the other, on nodes that those before have left. Where that is 0 nodes are what each
 * gets. */
int het_choose(struct het_nodes *n, const struct job *job, het_choose_fn choose, void *userdata)
{
	bool done[ENGINE_COMPONENTS_MAX] = {false};
	uint32_t i, k, left;
	int r = 0;

	keep_required(n, job);
	for (left = n->count; r == 0 && left > 0; left--) {
		i = next_component(n, done);
		done[i] = true;
		r = choose(engine_get_component(job, i), n->nodes[i], n->exc_cores[i], userdata);
		for (k = 0; r == 0 && k < n->count; k++) {
			if (!done[k])
				bit_and_not(n->nodes[k], n->nodes[i]);
		}
	}
	return r;
}

/* ---- whether it could ever run ------------------------------------------------------------------
 */

static int choose_ever(struct job *one, bitstr_t *nodes, bitstr_t *exc_cores, void *userdata)
{
	struct engine *e = userdata;
	struct select_request q = job_make_request(e, one, nodes, exc_cores);

	return job_test(e, &q, SELECT_MODE_TEST_ONLY, NULL);
}

int het_check(struct engine *e, const struct job *job, struct err *err)
{
	struct het_nodes n;
	int r;

	het_nodes_make(&n, e, job, NULL);
	r = het_choose(&n, job, choose_ever, e);
	het_nodes_clear(&n);
	if (r == 0)
		return 0;
	return err_set_text(err, -EINVAL,
		"Requested node configuration is not available: each component of a heterogeneous "
		"job has nodes of its own");
}

/* ---- its start ----------------------------------------------------------------------------------
 */

struct het_start {
	struct engine *e;
	List preempted; /* NULL: none */
	bool waits;     /* some of these must end first */
	struct err *err;
};

static int is_same(void *item, void *key)
{
	return item == key;
}

/* All those of from that are not there yet. */
static void add_preempted(struct het_start *s, List from)
{
	ListIterator i = list_iterator_create(from);
	void *item;

	if (!s->preempted)
		s->preempted = list_create(NULL);
	while ((item = list_next(i))) {
		if (!list_find_first(s->preempted, is_same, item))
			(void)list_append(s->preempted, item);
	}
	list_iterator_destroy(i);
}

static int choose_now(struct job *one, bitstr_t *nodes, bitstr_t *exc_cores, void *userdata)
{
	struct het_start *s = userdata;
	struct select_request q = job_make_request(s->e, one, nodes, exc_cores);
	List preempted = NULL;
	int r;

	q.preempted = &preempted;
	r = job_test(s->e, &q, SELECT_MODE_RUN_NOW, s->err);
	if (preempted)
		add_preempted(s, preempted);
	FREE_NULL_LIST(preempted);
	s->waits |= r == -EINPROGRESS;
	return r == -EINPROGRESS ? 0 : r;
}

static void release_pending(const struct job *job)
{
	uint32_t i;

	for (i = 0; i < engine_count_components(job); i++) {
		if (job_is_pending(engine_get_component(job, i)))
			job_release(engine_get_component(job, i));
	}
}

/* False: one of them could not begin, so that those before it end again. */
static bool start_all(struct engine *e, struct job *leader)
{
	struct het_job *het = leader->het;
	uint32_t i, k;

	for (i = 0; i < het->count; i++) {
		job_start(e, het->components[i]);
		for (k = 0; k <= i; k++) {
			if (!job_has_nodes(het->components[k]))
				return false;
		}
	}
	return true;
}

/* The store has the start of all components, or of none. */
static void het_start(struct engine *e, struct job *leader)
{
	bool begun = changes_begin(e), started;

	queue_remove(e, leader);
	started = start_all(e, leader);
	if (!started) {
		release_pending(leader);
		job_terminate(e, leader, JOB_PENDING);
		if (job_is_pending(leader))
			queue_place(e, leader);
	}
	changes_end(e, begun);
}

int het_try(struct engine *e, struct job *leader, struct het_nodes *n, struct err *err)
{
	struct het_start s = {.e = e, .err = err};
	int r = het_choose(n, leader, choose_now, &s);

	if (r == 0 && s.preempted)
		preempt_begin(e, leader, s.preempted);
	FREE_NULL_LIST(s.preempted);
	if (r < 0 || s.waits) {
		release_pending(leader);
		return r < 0 ? r : -EINPROGRESS;
	}
	het_start(e, leader);
	return 0;
}

/* ---- its end ------------------------------------------------------------------------------------
 */

/* The guide: "the GraceTime ... for each component of the heterogeneous job remain unique". */
static bool has_grace_left(const struct engine *e, const struct job *job)
{
	return job->preempted && job_has_nodes(job) && job->record.end_time > engine_now(e);
}

void het_leader_ended(struct engine *e, struct job *leader, uint32_t state)
{
	uint32_t i;

	if (!leader->het || leader->record.het_job_offset != 0)
		return;
	for (i = 1; i < engine_count_components(leader); i++) {
		struct job *one = engine_get_component(leader, i);

		if (!one || job_is_pending(one) || job_has_ended(one) ||
			(state == JOB_PREEMPTED && has_grace_left(e, one)))
			continue;
		job_terminate_component(e, one, state);
		if (job_is_completing(one))
			e->options.runner->signal(
				one, SIGKILL, JOB_SIGNAL_BOTH, e->options.runner_data);
	}
}

/* ---- suspension ---------------------------------------------------------------------------------
 */

void het_suspension_ended(struct engine *e, struct job *job)
{
	uint32_t i;

	if (!job->het || !job->het->refused)
		return;
	for (i = 0; i < job->het->count; i++) {
		const struct job *one = job->het->components[i];

		if (one && one->change != JOB_STEADY)
			return;
	}
	job->het->refused = false;
	for (i = 0; i < job->het->count; i++) {
		struct job *one = job->het->components[i];

		if (one && one->launched && one->record.job_state == JOB_SUSPENDED)
			job_begin_resumption(e, one);
	}
}

/* ---- after a restart ----------------------------------------------------------------------------
 */

/* Some of its components were being ended, or started, when the last program ended. */
void het_restore(struct engine *e)
{
	size_t i;

	for (i = 0; i < e->jobs_count; i++) {
		struct job *job = e->jobs[i], *leader = job && job->het ? het_leader(job) : NULL;

		if (!leader || job == leader || !job_has_nodes(job) || job->preempted ||
			job_has_nodes(leader) || job_is_completing(leader))
			continue;
		job_terminate_component(
			e, job, job_is_pending(leader) ? JOB_PENDING : job_base_state(leader));
	}
}
