/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reservations: nodes, or some of their cores, that only jobs of certain users may have for a time.
 */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/jobd/engine/engine_impl.h"
#include "stepd/base/err.h"
#include "stepd/base/json.h"

static struct reservation *reservation_free(struct reservation *r)
{
	if (!r)
		return NULL;
	free(r->name);
	bit_free(r->nodes);
	bit_free(r->cores);
	free(r->users);
	free(r);
	return NULL;
}

struct reservation *reservation_find(const struct engine *e, const char *name)
{
	size_t i;

	for (i = 0; i < e->reservations_count; i++) {
		if (strcmp(e->reservations[i]->name, name) == 0)
			return e->reservations[i];
	}
	return NULL;
}

static int reservation_add(struct engine *e, struct reservation *resv)
{
	struct reservation **grown =
		reallocarray(e->reservations, e->reservations_count + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	e->reservations = grown;
	e->reservations[e->reservations_count++] = resv;
	return 0;
}

void reservations_clear(struct engine *e)
{
	size_t i;

	for (i = 0; i < e->reservations_count; i++)
		(void)reservation_free(e->reservations[i]);
	free(e->reservations);
}

/* ---- what they mean for jobs --------------------------------------------------------------------
 */

static time_t job_end_from(const struct job *job, time_t start)
{
	uint32_t limit = job->record.time_limit;

	return limit == INFINITE || limit == NO_VAL ? INT64_MAX : start + (time_t)limit * 60;
}

static bitstr_t *no_cores(void)
{
	const node_record_t *last = &node_record_table_ptr[node_record_count - 1];

	return bit_alloc((bitoff_t)last->core_offset + last->tot_cores);
}

static void except_cores(bitstr_t **exc_cores, const bitstr_t *cores)
{
	if (!*exc_cores)
		*exc_cores = no_cores();
	bit_or(*exc_cores, cores);
}

/* The job's own: it has nothing but this, while it is there. */
static bool keep_own(
	const struct reservation *resv, time_t start, bitstr_t *nodes, bitstr_t **exc_cores)
{
	bitstr_t *others;

	if (start < resv->start_time || start >= resv->end_time) {
		bit_clear_all(nodes);
		return true;
	}
	bit_and(nodes, resv->nodes);
	if (resv->cores) {
		others = bit_copy(resv->cores);
		bit_not(others);
		except_cores(exc_cores, others);
		bit_free(others);
	}
	return false;
}

/* Another's, at the same time as the job. */
static bool leave_others(const struct reservation *resv, bitstr_t *nodes, bitstr_t **exc_cores)
{
	if (!bit_overlap_any(nodes, resv->nodes))
		return false;
	if (resv->cores)
		except_cores(exc_cores, resv->cores);
	else
		bit_and_not(nodes, resv->nodes);
	return true;
}

bool reservations_apply(const struct engine *e, const struct job *job, time_t start,
	bitstr_t *nodes, bitstr_t **exc_cores)
{
	const char *own = job->request.reservation;
	time_t end = job_end_from(job, start);
	bool any = false;
	size_t i;

	for (i = 0; i < e->reservations_count; i++) {
		const struct reservation *resv = e->reservations[i];

		if (own && strcmp(own, resv->name) == 0)
			any |= keep_own(resv, start, nodes, exc_cores);
		else if (start < resv->end_time && end > resv->start_time)
			any |= leave_others(resv, nodes, exc_cores);
	}
	return any;
}

static time_t sooner(time_t a, time_t b)
{
	return !a || (b && b < a) ? b : a;
}

time_t reservations_next_change(const struct engine *e, time_t after)
{
	time_t next = 0;
	size_t i;

	for (i = 0; i < e->reservations_count; i++) {
		const struct reservation *resv = e->reservations[i];

		if (resv->start_time > after)
			next = sooner(next, resv->start_time);
		if (resv->end_time > after)
			next = sooner(next, resv->end_time);
	}
	return next;
}

static void notify_store(struct engine *e, const char *name, const json_t *json)
{
	const struct engine_store *store = e->options.store;
	struct err err = ERR_INIT;

	if (store && store->reservation_changed(name, json, e->options.store_data, &err) < 0)
		log_error(e->log, "%s", err.text);
}

/* Sets the nodes' flags of those that have begun, for plugins. */
static void flag_nodes(struct engine *e)
{
	bitoff_t node;
	size_t i;

	for (node = 0; node < node_record_count; node++)
		node_record_table_ptr[node].node_state &= ~(NODE_STATE_RES | NODE_STATE_MAINT);
	for (i = 0; i < e->reservations_count; i++) {
		const struct reservation *resv = e->reservations[i];

		for (node = 0; resv->begun && (node = bit_ffs_from_bit(resv->nodes, node)) >= 0;
			node++)
			node_record_table_ptr[node].node_state |=
				resv->maintenance ? NODE_STATE_MAINT : NODE_STATE_RES;
	}
}

static void remove_at(struct engine *e, size_t i)
{
	notify_store(e, e->reservations[i]->name, NULL);
	(void)reservation_free(e->reservations[i]);
	e->reservations_count--;
	memmove(e->reservations + i, e->reservations + i + 1,
		(e->reservations_count - i) * sizeof(*e->reservations));
	flag_nodes(e);
	engine_want_pass(e);
}

void reservations_expire(struct engine *e)
{
	time_t now = engine_now(e);
	size_t i = 0;

	while (i < e->reservations_count) {
		struct reservation *resv = e->reservations[i];

		if (resv->end_time <= now) {
			remove_at(e, i);
			continue;
		}
		if (resv->start_time <= now && !resv->begun) {
			resv->begun = true;
			flag_nodes(e);
			engine_want_pass(e);
		}
		i++;
	}
}

/* ---- making one ---------------------------------------------------------------------------------
 */

/* Takes out what other reservations have at that time. */
static void leave_reserved(const struct engine *e, const struct reservation *resv, bitstr_t *nodes,
	bitstr_t **exc_cores)
{
	size_t i;

	for (i = 0; i < e->reservations_count; i++) {
		const struct reservation *other = e->reservations[i];

		if (resv->start_time < other->end_time && resv->end_time > other->start_time)
			(void)leave_others(other, nodes, exc_cores);
	}
}

static void leave_jobs(const struct engine *e, const struct reservation *resv, bitstr_t *nodes)
{
	size_t i;

	for (i = 0; i < e->jobs_count; i++) {
		const struct job *job = e->jobs[i];

		if (job && job_has_nodes(job) && job->record.end_time > resv->start_time)
			bit_and_not(nodes, job->record.node_bitmap);
	}
}

static int named_nodes(struct reservation *resv, const struct reservation_request *q,
	bitstr_t *avail, struct err *err)
{
	bitstr_t *named;

	if (nodes_parse(q->nodelist, &named) < 0)
		return err_set_text(err, -EINVAL, "there are no nodes %.200s", q->nodelist);
	if (!bit_super_set(named, avail)) {
		bit_free(named);
		return err_set_text(err, -EBUSY,
			"Requested nodes are busy: jobs or other reservations have some of %.200s "
			"then (ignore_jobs leaves jobs there until they end)",
			q->nodelist);
	}
	bit_and(avail, named);
	resv->by_name = true;
	bit_free(named);
	return 0;
}

static int choose_nodes(struct engine *e, struct reservation *resv,
	const struct reservation_request *q, const part_record_t *part, struct err *err)
{
	bitstr_t *avail = q->nodelist ? bit_copy(e->up_nodes) : bit_copy(part->node_bitmap);
	bitstr_t *cores = NULL;
	resv_desc_msg_t desc = {.name = resv->name,
		.start_time = resv->start_time,
		.end_time = resv->end_time,
		.core_cnt = (uint32_t *)q->core_counts};
	uint32_t count = q->node_count;
	int r = 0;

	bit_and(avail, e->up_nodes);
	leave_reserved(e, resv, avail, &cores);
	if (!q->ignore_jobs)
		leave_jobs(e, resv, avail);
	if (q->nodelist) {
		r = named_nodes(resv, q, avail, err);
		count = (uint32_t)bit_set_count(avail);
	}
	if (r == 0 && q->core_counts && !cores)
		cores = no_cores();
	if (r == 0)
		resv->nodes = select_resv_test(
			e->select, &desc, count, avail, q->core_counts ? &cores : NULL);
	if (r == 0 && !resv->nodes)
		r = err_set_text(
			err, -EBUSY, "fewer than %u nodes are free for the reservation", count);
	if (r == 0 && q->core_counts) {
		resv->cores = cores;
		cores = NULL;
	}
	bit_free(cores);
	bit_free(avail);
	return r;
}

static uint32_t count_cores(const struct reservation *resv)
{
	uint32_t n = 0;
	bitoff_t i = 0;

	if (resv->cores)
		return (uint32_t)bit_set_count(resv->cores);
	for (; (i = bit_ffs_from_bit(resv->nodes, i)) >= 0; i++)
		n += node_record_table_ptr[i].tot_cores;
	return n;
}

static const part_record_t *part_of(const struct engine *e, const char *name)
{
	size_t i;

	for (i = 0; i < e->parts_count; i++) {
		if (name ? strcmp(e->parts[i].name, name) == 0 : e->conf->parts[i].is_default)
			return &e->parts[i];
	}
	return NULL;
}

/* "root_1": a name of its own where none is given. */
static char *make_name(struct engine *e, const struct reservation_request *q)
{
	const struct passwd *pw = q->users_count ? getpwuid(q->users[0]) : NULL;
	char *name = NULL;

	if (q->name)
		return strdup(q->name);
	if (asprintf(&name, "%s_%u", pw ? pw->pw_name : "resv", ++e->reservations_made) < 0)
		return NULL;
	return name;
}

static int check_request(
	const struct engine *e, const struct reservation_request *q, struct err *err)
{
	if (q->name && reservation_find(e, q->name))
		return err_set_text(err, -EEXIST, "reservation %.100s already exists", q->name);
	if (q->duration_min == 0 || q->users_count == 0)
		return err_set_text(err, -EINVAL, "a reservation needs a duration and users");
	if (!q->nodelist && q->node_count == 0)
		return err_set_text(err, -EINVAL, "a reservation needs nodes, or their number");
	if (!q->nodelist && !part_of(e, q->partition))
		return err_set_text(err, -EINVAL, "a reservation by number needs a partition");
	return 0;
}

static int fill(struct engine *e, struct reservation *resv, const struct reservation_request *q,
	struct err *err)
{
	resv->name = make_name(e, q);
	resv->users = malloc(q->users_count * sizeof(*resv->users));
	if (!resv->name || !resv->users)
		return err_set(err, -ENOMEM, "make the reservation");
	memcpy(resv->users, q->users, q->users_count * sizeof(*resv->users));
	resv->users_count = q->users_count;
	resv->start_time = q->start_time > engine_now(e) ? q->start_time : engine_now(e);
	resv->end_time = q->duration_min == INFINITE
		? resv->start_time + (time_t)365 * 24 * 3600
		: resv->start_time + (time_t)q->duration_min * 60;
	resv->ignore_jobs = q->ignore_jobs;
	resv->maintenance = q->maintenance;
	return choose_nodes(e, resv, q, part_of(e, q->partition), err);
}

int engine_reserve(struct engine *e, const struct reservation_request *q, const char **ret_name,
	struct err *err)
{
	struct reservation *resv;
	json_t *json;
	int r = check_request(e, q, err);

	if (r < 0)
		return r;
	resv = calloc(1, sizeof(*resv));
	r = resv ? fill(e, resv, q, err) : err_set(err, -ENOMEM, "make the reservation");
	if (r == 0 && reservation_add(e, resv) < 0)
		r = err_set(err, -ENOMEM, "make the reservation");
	if (r < 0) {
		(void)reservation_free(resv);
		return r;
	}
	resv->core_count = count_cores(resv);
	json = reservation_to_json(e, resv);
	notify_store(e, resv->name, json);
	json_decref(json);
	*ret_name = resv->name;
	engine_want_pass(e);
	return 0;
}

int engine_delete_reservation(struct engine *e, const char *name, struct err *err)
{
	size_t i;

	for (i = 0; i < e->reservations_count; i++) {
		if (strcmp(e->reservations[i]->name, name) == 0) {
			remove_at(e, i);
			return 0;
		}
	}
	return err_set_text(err, -ENOENT, "there is no reservation %.100s", name);
}

/* ---- documents ----------------------------------------------------------------------------------
 */

static json_t *cores_json(const struct reservation *resv)
{
	json_t *list = resv->cores ? json_array() : NULL;
	bitoff_t i = 0;

	for (; list && (i = bit_ffs_from_bit(resv->nodes, i)) >= 0; i++)
		(void)json_array_append_new(
			list, node_cores_json(&node_record_table_ptr[i], resv->cores));
	return list;
}

static json_t *users_json(const struct reservation *resv)
{
	json_t *list = json_array();
	size_t i;

	for (i = 0; i < resv->users_count; i++)
		(void)json_array_append_new(list, json_integer(resv->users[i]));
	return list;
}

static json_t *flags_json(const struct reservation *resv)
{
	json_t *list = json_array();

	if (resv->maintenance)
		(void)json_array_append_new(list, json_string("MAINT"));
	if (resv->ignore_jobs)
		(void)json_array_append_new(list, json_string("IGNORE_JOBS"));
	if (resv->by_name)
		(void)json_array_append_new(list, json_string("SPEC_NODES"));
	return list;
}

json_t *reservation_to_json(const struct engine *e, const struct reservation *resv)
{
	char *nodes = nodes_text(resv->nodes);
	json_t *json = json_pack("{s:s, s:s*, s:I, s:I, s:i, s:i, s:o*, s:o, s:o}", "name",
		resv->name, "nodes", nodes, "start_time", (json_int_t)resv->start_time, "end_time",
		(json_int_t)resv->end_time, "node_count", (int)bit_set_count(resv->nodes),
		"core_count", (int)resv->core_count, "cores", cores_json(resv), "users",
		users_json(resv), "flags", flags_json(resv));

	(void)e;
	free(nodes);
	return json;
}

json_t *engine_reservations_to_json(const struct engine *e)
{
	json_t *list = json_array();
	size_t i;

	for (i = 0; i < e->reservations_count; i++)
		(void)json_array_append_new(list, reservation_to_json(e, e->reservations[i]));
	return list;
}

static bool has_flag(const json_t *json, const char *name)
{
	json_t *flag;
	size_t i;

	json_array_foreach (json_get_array(json, "flags"), i, flag) {
		if (json_is_string(flag) && strcmp(json_string_value(flag), name) == 0)
			return true;
	}
	return false;
}

static int restore_cores(struct reservation *resv, const json_t *json)
{
	json_t *cores = json_get_array(json, "cores"), *one;
	bitstr_t *node;
	size_t i;
	int r = 0;

	if (cores)
		resv->cores = no_cores();
	json_array_foreach (cores, i, one) {
		if (nodes_parse(json_get_text(one, "name", ""), &node) < 0)
			return -EINVAL;
		if (bit_set_count(node) == 1)
			r = node_cores_parse(&node_record_table_ptr[bit_ffs(node)],
				json_get_text(one, "cores", ""), resv->cores);
		bit_free(node);
		if (r < 0)
			return r;
	}
	return 0;
}

static int restore_fields(struct reservation *resv, const json_t *json)
{
	json_t *users = json_get_array(json, "users"), *user;
	size_t i;

	resv->name = strdup(json_get_text(json, "name", ""));
	resv->users = calloc(json_array_size(users) + 1, sizeof(*resv->users));
	if (!resv->name || !resv->users)
		return -ENOMEM;
	json_array_foreach (users, i, user)
		resv->users[resv->users_count++] = (uid_t)json_integer_value(user);
	resv->start_time = (time_t)json_get_int(json, "start_time", 0);
	resv->end_time = (time_t)json_get_int(json, "end_time", 0);
	resv->core_count = (uint32_t)json_get_int(json, "core_count", 0);
	resv->maintenance = has_flag(json, "MAINT");
	resv->ignore_jobs = has_flag(json, "IGNORE_JOBS");
	resv->by_name = has_flag(json, "SPEC_NODES");
	if (nodes_parse(json_get_text(json, "nodes", ""), &resv->nodes) < 0)
		return -EINVAL;
	return restore_cores(resv, json);
}

int engine_restore_reservation(struct engine *e, const json_t *json, struct err *err)
{
	struct reservation *resv = calloc(1, sizeof(*resv));
	int r = resv ? restore_fields(resv, json) : -ENOMEM;

	if (r == 0)
		r = reservation_add(e, resv);
	if (r < 0) {
		(void)reservation_free(resv);
		return err_set(
			err, r, "restore reservation %.100s", json_get_text(json, "name", "?"));
	}
	return 0;
}
