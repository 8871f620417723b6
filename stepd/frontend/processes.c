/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ListPids. The members come from the tracker, in one reading.
 */
#include "proctrack/proctrack.h"
#include "stepd/base/procstat.h"
#include "stepd/frontend/listing.h"

static bool add_process(struct listing *l)
{
	const stepd_member_t *member = (const stepd_member_t *)l->elements + l->at;
	struct procstat st = {0};
	int r = 0;

	if (l->looks)
		r = procstat_read_at(l->proc_fd, member->pid, &st);
	if (r == -ESRCH)
		return false; /* it has ended meanwhile */
	text_add(&l->text, "{\"pid\":");
	text_add_number(&l->text, member->pid);
	if (member->rank != STEPD_MEMBER_NO_RANK) {
		text_add(&l->text, ",\"rank\":");
		text_add_number(&l->text, member->rank);
	}
	if (l->looks && r == 0) {
		text_add(&l->text, ",\"start_ticks\":");
		text_add_number(&l->text, (int64_t)st.start_ticks);
	}
	text_add(&l->text, "}");
	return true;
}

/* Members of the chosen tasks, in *ret_members for the caller to free. */
static int get_members(const struct agent *a, const struct rank_choice *choice,
	stepd_member_t **ret_members, size_t *ret_count)
{
	const stepd_step_rec_t *job = &a->plan.job;
	stepd_member_t *members = NULL;
	int n = 0, i, r;

	*ret_count = 0;
	r = proctrack_get_members(a->pt, job->cont_id, job->task, job->node_tasks, &members, &n);
	if (r < 0)
		return r == -ESRCH ? 0 : r; /* nothing is left of it */
	for (i = 0; i < n; i++) {
		if (rank_choice_has(choice, members[i].rank))
			members[(*ret_count)++] = members[i];
	}
	*ret_members = members;
	return 0;
}

void method_list_pids(struct control_call *call, const json_t *parameters, void *userdata)
{
	_cleanup_rank_choice_ struct rank_choice choice = {0};
	_cleanup_free_ stepd_member_t *members = NULL;
	struct methods *m = userdata;
	struct listing *l;
	size_t n = 0;
	int r;

	if (!param_ranks(m->a, call, parameters, &choice))
		return;
	r = get_members(m->a, &choice, &members, &n);
	if (r < 0) {
		answer_failed(call, r, "the list of the step's processes can't be had");
		return;
	}
	if (n > METHODS_PIECE_MAX && !control_call_wants_more(call)) {
		control_error_take(call, "org.varlink.service.ExpectedMore", NULL);
		return;
	}
	l = listing_new(m, call, sizeof(*l), "pids", add_process);
	if (!l)
		return;
	l->n = n;
	l->piece_max = METHODS_PIECE_MAX;
	l->looks = param_bool(parameters, "start_ticks", true);
	l->elements = take_ptr(members);
	listing_run(l);
}
