/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/tree.h"

#include <assert.h>
#include <ev.h>
#include <string.h>

#include "contrib/slurm/delivery.h"
#include "contrib/slurm/site_conf.h"
#include "contrib/slurm/step_record.h"

#define WAIT_S          60.
#define WAIT_OF_LEVEL_S 3.

/* Anything but success is a reason to go on without the parent, as is a lost connection. */
static const struct delivery_retry to_parent = {
	.tries = 5, .first_s = 1, .longest_s = 1, .needs_success = true};

/* ---- who has reported ---------------------------------------------------------------------- */

int tree_ranks_init(struct tree_ranks *ranks, uint32_t rank, uint32_t below)
{
	*ranks = (struct tree_ranks){.first = rank, .count = below + 1, .missing = below + 1};
	return bitset_init(&ranks->reported, ranks->count);
}

void tree_ranks_clear(struct tree_ranks *ranks)
{
	bitset_clear(&ranks->reported);
}

int tree_ranks_add(struct tree_ranks *ranks, uint32_t first, uint32_t last, int32_t status)
{
	uint32_t i;

	if (first < ranks->first || last < first || last - ranks->first >= ranks->count)
		return -ERANGE;
	for (i = first; i <= last; i++)
		ranks->missing -= !bitset_set(&ranks->reported, i - ranks->first);
	if (status > ranks->status)
		ranks->status = status;
	return 0;
}

bool tree_ranks_have(const struct tree_ranks *ranks, uint32_t first, uint32_t last)
{
	uint32_t i;

	for (i = first; i <= last; i++) {
		if (!bitset_test(&ranks->reported, i - ranks->first))
			return false;
	}
	return true;
}

bool tree_ranks_next(
	const struct tree_ranks *ranks, uint32_t from, uint32_t *ret_first, uint32_t *ret_last)
{
	uint32_t begin = bitset_next(&ranks->reported, from - ranks->first), end = begin;

	if (begin == BITSET_NONE)
		return false;
	while (bitset_test(&ranks->reported, end + 1))
		end++;
	*ret_first = ranks->first + begin;
	*ret_last = ranks->first + end;
	return true;
}

/* ---- the reports --------------------------------------------------------------------------- */

struct tree {
	struct tree_options options;
	struct tree_ranks ranks;
	ev_timer wait;
	bool ended;               /* on this node */
	struct tree_end end;      /* once it has */
	struct step_record below; /* of the agents that have reported */
	bool reports;             /* nothing that comes now is among what is reported */
	bool has_parent;          /* as far as is known */
	uint32_t first, last;     /* of the report that is under way */
	struct delivery *delivery;
};

static void report_range(struct tree *t);

/* The next range, if there is one. */
static void report_next(struct tree *t, uint32_t from)
{
	if (tree_ranks_next(&t->ranks, from, &t->first, &t->last))
		report_range(t);
	else
		t->options.done(t->options.userdata);
}

static void tree_on_delivered(const struct err *err, void *userdata)
{
	struct tree *t = userdata;

	assert(t);
	t->delivery = NULL; /* it is no more */
	if (err->code && t->has_parent) {
		log_info(t->options.log,
			"step %s: slurmctld gets the report of its end here, as the node above "
			"does not take it: %s",
			t->options.label, err->text);
		t->has_parent = false;
		report_range(t);
		return;
	}
	if (err->code)
		log_warning(t->options.log,
			"step %s: slurmctld has not taken the report of its end: %s, ignoring",
			t->options.label, err->text);
	report_next(t, t->last + 1);
}

/* One that can't be read, or counts other resources, is left out: the end is reported all the same.
 */
static void add_record(struct tree *t, struct step_record *sum, const void *data, size_t size)
{
	_cleanup_step_record_ struct step_record record = {0};
	int r = step_record_read(&record, data, size);

	if (r == 0)
		r = step_record_add(sum, &record);
	if (r < 0)
		log_info(t->options.log, "step %s: a record of accounting is left out: %s",
			t->options.label, strerror(-r));
}

/* This node's, and those of the agents below. */
static void put_record(struct tree *t, struct pack *body)
{
	_cleanup_step_record_ struct step_record sum = {0};
	const struct buffer *own = &t->end.record.bytes;

	add_record(t, &sum, buffer_bytes(own), buffer_size(own));
	if (step_record_add(&sum, &t->below) < 0)
		log_info(t->options.log,
			"step %s: the accounting of the nodes below is left out: they count "
			"other resources, or memory is short",
			t->options.label);
	step_record_pack(&sum, body);
}

static void put_report(struct tree *t, struct pack *body)
{
	const struct slurm_init *init = t->options.init;

	slurm_rpc_put_step(body, init->frame.release, &init->launch.id);
	pack_u32(body, t->first);
	pack_u32(body, t->last);
	pack_u32(body, (uint32_t)(t->end.decides ? t->end.status : t->ranks.status));
	/* This node is in the first one. */
	if (t->first == t->ranks.first)
		put_record(t, body);
	else
		pack_u8(body, 0); /* no accounting */
	if (init->frame.release >= SLURM_24_05)
		pack_u8(body, 0); /* for slurmctld, not for a step that manages the others */
	body->failed |= t->end.record.failed;
}

static void report_range(struct tree *t)
{
	const struct slurm_init *init = t->options.init;
	const struct delivery_options to = {.loop = t->options.loop,
		.auth = t->options.auth,
		.retry = t->has_parent ? &to_parent : &delivery_to_controller,
		.hosts = t->has_parent ? hosts_of_one(init->frame.parent) : t->end.controllers,
		.version = init->frame.release,
		.type = SLURM_REQUEST_STEP_COMPLETE,
		/* slurmd has the same user on all nodes; slurmctld's may be unknown here */
		.reader = t->has_parent ? geteuid() : (uid_t)-1,
		.done = tree_on_delivered,
		.userdata = t};
	struct pack body = {0};
	struct err err = ERR_INIT;

	put_report(t, &body);
	if (delivery_begin_take(&to, &body, &t->delivery, &err) == 0)
		return;
	t->has_parent = false; /* without memory it is no use to try that one */
	tree_on_delivered(&err, t);
}

static void begin_reports(struct tree *t)
{
	ev_timer_stop(t->options.loop, &t->wait);
	t->reports = true;
	report_next(t, t->ranks.first);
}

static void on_waited(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct tree *t = timer->data;

	assert(t);
	log_info(t->options.log, "step %s: %u of the %u nodes below have not reported its end",
		t->options.label, t->ranks.missing, t->ranks.count - 1);
	begin_reports(t);
}

int tree_take_report(struct tree *t, const struct tree_report *report)
{
	uint32_t first = report->first, last = report->last;

	if (first <= t->ranks.first || last < first || last - t->ranks.first >= t->ranks.count)
		return ERANGE;
	if (tree_ranks_have(&t->ranks, first, last))
		return 0; /* its sender has missed the answer */
	if (t->reports)
		return ETIMEDOUT;
	if (tree_ranks_add(&t->ranks, first, last, report->status) < 0)
		return ERANGE;
	add_record(t, &t->below, report->record, report->record_size);
	if (t->ranks.missing == 0)
		begin_reports(t);
	return 0;
}

void tree_end_take(struct tree *t, struct tree_end *end)
{
	int r = tree_ranks_add(&t->ranks, t->ranks.first, t->ranks.first, end->status);

	assert(r == 0 && !t->ended);
	(void)r;
	t->ended = true;
	t->end = *end;
	end->record = (struct pack){0};
	if (t->ranks.missing == 0)
		begin_reports(t);
	else
		ev_timer_start(t->options.loop, &t->wait);
}

static double get_wait(const struct slurm_frame *f)
{
	return WAIT_S + (f->max_depth > f->depth ? WAIT_OF_LEVEL_S * (f->max_depth - f->depth) : 0);
}

/* What slurmd has sent. */
static bool is_possible(const struct slurm_init *init)
{
	const struct slurm_frame *f = &init->frame;
	int64_t nodes = init->launch.nnodes;

	return f->rank >= 0 && f->rank < nodes && f->children >= 0 &&
		f->children < nodes - f->rank && f->parent_rank < f->rank;
}

int tree_new(const struct tree_options *options, struct tree **ret_tree, struct err *err)
{
	const struct slurm_frame *f = &options->init->frame;
	_cleanup_(tree_free_p) struct tree *t = calloc(1, sizeof(*t));

	if (!t)
		return err_set(err, -ENOMEM, "wait for other nodes");
	if (!is_possible(options->init))
		return err_set_text(err, -EBADMSG,
			"node %d of %u can't have %d nodes below it, and %d above", f->rank,
			options->init->launch.nnodes, f->children, f->parent_rank);
	t->options = *options;
	t->has_parent = f->parent_rank >= 0;
	ev_timer_init(&t->wait, on_waited, get_wait(f), 0.);
	t->wait.data = t;
	if (tree_ranks_init(&t->ranks, (uint32_t)f->rank, (uint32_t)f->children) < 0)
		return err_set(err, -ENOMEM, "wait for other nodes");
	*ret_tree = take_ptr(t);
	return 0;
}

struct tree *tree_free(struct tree *t)
{
	if (!t)
		return NULL;
	if (t->options.loop)
		ev_timer_stop(t->options.loop, &t->wait);
	t->delivery = delivery_cancel(t->delivery);
	tree_ranks_clear(&t->ranks);
	step_record_clear(&t->below);
	pack_clear(&t->end.record);
	free(t);
	return NULL;
}
