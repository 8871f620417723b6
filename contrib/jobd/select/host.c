/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/select/host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/jobd/select/use.h"
#include "stepd/base/base64.h"
#include "stepd/base/cleanup.h"
#include "stepd/base/err.h"
#include "stepd/base/parse.h"
#include "stepd/plugin/plugin.h"

/* ---- what plugins find in their host ------------------------------------------------------------
 */

slurm_conf_t slurm_conf;
node_record_t *node_record_table_ptr;
int node_record_count;
List job_list, part_list;
time_t select_clock;

time_t slurm_now(void)
{
	return select_clock;
}

select_preempt_mode_fn select_preempt_mode;

uint16_t slurm_job_preempt_mode(const job_record_t *job_ptr)
{
	return select_preempt_mode ? select_preempt_mode(job_ptr) : PREEMPT_MODE_OFF;
}

/* ---- loading ------------------------------------------------------------------------------------
 */

struct select_functions {
	int (*state_save)(char *dir_name);
	int (*state_restore)(char *dir_name);
	int (*node_init)(node_record_t *node_ptr, int node_cnt);
	int (*job_init)(List jobs);
	int (*reconfigure)(void);
	select_nodeinfo_t *(*select_nodeinfo_alloc)(void);
	int (*select_nodeinfo_pack)(select_nodeinfo_t *, Buf, uint16_t);
	int (*select_nodeinfo_unpack)(select_nodeinfo_t **, Buf, uint16_t);
	int (*select_nodeinfo_free)(select_nodeinfo_t *);
	int (*select_nodeinfo_set)(job_record_t *);
	int (*select_nodeinfo_set_all)(void);
	int (*select_nodeinfo_get)(
		select_nodeinfo_t *, enum select_nodedata_type, enum node_states, void *);
	int (*update_node_config)(int index);
	bool (*node_ranking)(node_record_t *, int);
	int (*update_node_state)(node_record_t *);
	select_jobinfo_t *(*select_jobinfo_alloc)(void);
	select_jobinfo_t *(*select_jobinfo_copy)(select_jobinfo_t *);
	int (*select_jobinfo_free)(select_jobinfo_t *);
	int (*select_jobinfo_pack)(select_jobinfo_t *, Buf, uint16_t);
	int (*select_jobinfo_unpack)(select_jobinfo_t **, Buf, uint16_t);
	int (*select_jobinfo_get)(select_jobinfo_t *, enum select_jobdata_type, void *);
	int (*select_jobinfo_set)(select_jobinfo_t *, enum select_jobdata_type, void *);
	char *(*select_jobinfo_sprint)(select_jobinfo_t *, char *, size_t, int);
	char *(*select_jobinfo_xstrdup)(select_jobinfo_t *, int);
	int (*job_test)(job_record_t *, bitstr_t *, uint32_t, uint32_t, uint32_t, uint32_t, List,
		List *, bitstr_t *);
	int (*job_begin)(job_record_t *);
	int (*job_ready)(job_record_t *);
	int (*job_fini)(job_record_t *);
	int (*job_signal)(job_record_t *, int);
	int (*job_mem_confirm)(job_record_t *);
	int (*job_suspend)(job_record_t *, bool);
	int (*job_resume)(job_record_t *, bool);
	bool (*job_expand_allow)(void);
	int (*job_expand)(job_record_t *, job_record_t *);
	int (*job_resized)(job_record_t *, node_record_t *);
	bitstr_t *(*step_pick_nodes)(job_record_t *, select_jobinfo_t *, uint32_t);
	int (*step_finish)(step_record_t *, bool);
	bitstr_t *(*resv_test)(resv_desc_msg_t *, uint32_t, bitstr_t *, bitstr_t **);
	int (*get_info_from_plugin)(enum select_plugindata_info, job_record_t *, void *);
	void (*ba_init)(node_info_msg_t *, bool);
	int *(*ba_get_dims)(void);
};

/* Each kind of breach is reported once: a plugin that does it does it for each job. */
enum breach {
	BREACH_NO_ERRNO,
	BREACH_BITS,
	BREACH_COUNT,
	BREACH_REQUIRED,
	BREACH_RESOURCES,
	BREACH_CORES,
	BREACH_MEMORY,
	BREACH_PREEMPTED,
	BREACH_TIME,
	BREACH_READY,
	BREACH_NODEINFO,
	BREACH_JOBINFO,
	BREACH_MAX,
};

struct holder {
	const job_record_t *job;
	bool suspended;
};

/* What the jobs that have begun hold, to see at once what is given twice. */
struct holdings {
	struct holder *jobs;
	size_t count, capacity;
	uint16_t *core_jobs, *core_alone; /* by core: jobs, and those that share it with nobody */
	uint16_t *node_jobs, *node_alone; /* by node, of jobs that have all of it */
	uint64_t *memory;                 /* by node, MB; without that of suspended jobs */
};

struct select {
	struct holdings held;
	struct plugin *plugin;
	struct select_functions call;
	const struct log *log;
	bool reported[BREACH_MAX];
};

#define FUNCTION(f)                                                                                \
	{                                                                                          \
		.name = "select_p_" #f, .offset = offsetof(struct select_functions, f)             \
	}

const struct plugin_kind *select_plugin_kind(void)
{
	static const struct plugin_symbol symbols[] = {
		FUNCTION(state_save),
		FUNCTION(state_restore),
		FUNCTION(node_init),
		FUNCTION(job_init),
		FUNCTION(reconfigure),
		FUNCTION(select_nodeinfo_alloc),
		FUNCTION(select_nodeinfo_pack),
		FUNCTION(select_nodeinfo_unpack),
		FUNCTION(select_nodeinfo_free),
		FUNCTION(select_nodeinfo_set),
		FUNCTION(select_nodeinfo_set_all),
		FUNCTION(select_nodeinfo_get),
		FUNCTION(update_node_config),
		FUNCTION(node_ranking),
		FUNCTION(update_node_state),
		FUNCTION(select_jobinfo_alloc),
		FUNCTION(select_jobinfo_copy),
		FUNCTION(select_jobinfo_free),
		FUNCTION(select_jobinfo_pack),
		FUNCTION(select_jobinfo_unpack),
		FUNCTION(select_jobinfo_get),
		FUNCTION(select_jobinfo_set),
		FUNCTION(select_jobinfo_sprint),
		FUNCTION(select_jobinfo_xstrdup),
		FUNCTION(job_test),
		FUNCTION(job_begin),
		FUNCTION(job_ready),
		FUNCTION(job_fini),
		FUNCTION(job_signal),
		FUNCTION(job_mem_confirm),
		FUNCTION(job_suspend),
		FUNCTION(job_resume),
		FUNCTION(job_expand_allow),
		FUNCTION(job_expand),
		FUNCTION(job_resized),
		FUNCTION(step_pick_nodes),
		FUNCTION(step_finish),
		FUNCTION(resv_test),
		FUNCTION(get_info_from_plugin),
		FUNCTION(ba_init),
		FUNCTION(ba_get_dims),
	};
	static const struct plugin_kind kind = {
		.name = "select", .symbols = symbols, .symbols_count = ARRAY_SIZE(symbols)};

	return &kind;
}

static void holdings_clear(struct holdings *h)
{
	free(h->jobs);
	free(h->core_jobs);
	free(h->core_alone);
	free(h->node_jobs);
	free(h->node_alone);
	free(h->memory);
	*h = (struct holdings){.jobs = NULL};
}

int select_open(const char *plugin_dir, const char *name, const struct log *log,
	struct select **ret_select, struct err *err)
{
	struct select *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "load select plugin '%.70s'", name);
	s->log = log;
	r = plugin_load(plugin_dir, select_plugin_kind(), name, &s->call, &s->plugin, err);
	if (r < 0) {
		free(s);
		return r;
	}
	*ret_select = s;
	return 0;
}

struct select *select_close(struct select *s)
{
	if (!s)
		return NULL;
	(void)plugin_unload(s->plugin); /* always NULL */
	holdings_clear(&s->held);
	free(s);
	return NULL;
}

const char *select_get_type(const struct select *s)
{
	return plugin_get_type(s->plugin);
}

/* ---- breaches of the contract
 * -------------------------------------------------------------------- */

static int breach(struct select *s, enum breach kind, const char *function, const char *what)
{
	if (!s->reported[kind])
		log_error(s->log, "plugin %s breaks its contract: select_p_%s(): %s",
			select_get_type(s), function, what);
	s->reported[kind] = true;
	return -EPROTO;
}

/* Of a function that returns SLURM_SUCCESS, or SLURM_ERROR with errno. */
static int result(struct select *s, int r, const char *function)
{
	int error = errno;

	if (r == SLURM_SUCCESS)
		return 0;
	if (r != SLURM_ERROR || error <= 0)
		return breach(s, BREACH_NO_ERRNO, function,
			"it fails with another value than SLURM_ERROR, or without errno");
	return -error;
}

static int failed(struct select *s, int r, const char *function, struct err *err)
{
	return err_set(err, r, "plugin %s: select_p_%s() failed", select_get_type(s), function);
}

#define CALL(s, function, ...) (errno = 0, result((s), (s)->call.function(__VA_ARGS__), #function))

/* ---- beginning and end
 * --------------------------------------------------------------------------- */

static void holdings_make(struct holdings *h)
{
	const node_record_t *last = &node_record_table_ptr[node_record_count - 1];
	size_t nodes = (size_t)node_record_count, cores;

	cores = nodes ? (size_t)last->core_offset + last->tot_cores : 0;
	holdings_clear(h);
	h->core_jobs = xmalloc(cores * sizeof(*h->core_jobs));
	h->core_alone = xmalloc(cores * sizeof(*h->core_alone));
	h->node_jobs = xmalloc(nodes * sizeof(*h->node_jobs));
	h->node_alone = xmalloc(nodes * sizeof(*h->node_alone));
	h->memory = xmalloc(nodes * sizeof(*h->memory));
}

static void hold_parts(
	const bitstr_t *parts, uint16_t *jobs, uint16_t *alone, bool is_alone, bool more)
{
	uint16_t one = more ? 1 : UINT16_MAX; /* modulo 2^16 */
	bitoff_t i = 0;

	for (; (i = bit_ffs_from_bit(parts, i)) >= 0; i++) {
		jobs[i] = (uint16_t)(jobs[i] + one);
		if (is_alone)
			alone[i] = (uint16_t)(alone[i] + one);
	}
}

static void hold_memory(struct holdings *h, const job_resources_t *r, bool more)
{
	bitoff_t i = 0;
	uint32_t k = 0;

	for (; (i = bit_ffs_from_bit(r->node_bitmap, i)) >= 0; i++, k++)
		h->memory[i] += more ? r->memory_allocated[k] : -r->memory_allocated[k];
}

static void hold(struct holdings *h, const struct holder *holder, bool more)
{
	const job_resources_t *r = holder->job->job_resrcs;
	bool alone = r->node_req != NODE_CR_AVAILABLE;

	if (r->core_bitmap)
		hold_parts(r->core_bitmap, h->core_jobs, h->core_alone, alone, more);
	else
		hold_parts(r->node_bitmap, h->node_jobs, h->node_alone, alone, more);
	if (!holder->suspended)
		hold_memory(h, r, more);
}

/* Where it is among those that hold something; count: it is not. */
static size_t find_holder(const struct holdings *h, const job_record_t *job)
{
	size_t i;

	for (i = 0; i < h->count && h->jobs[i].job != job; i++)
		;
	return i;
}

static void hold_job(struct holdings *h, const job_record_t *job, bool suspended)
{
	struct holder *grown;

	if (!job->job_resrcs || find_holder(h, job) < h->count)
		return;
	if (h->count == h->capacity) {
		h->capacity = h->capacity ? 2 * h->capacity : 64;
		grown = xmalloc(h->capacity * sizeof(*grown));
		if (h->count > 0)
			memcpy(grown, h->jobs, h->count * sizeof(*grown));
		free(h->jobs);
		h->jobs = grown;
	}
	h->jobs[h->count] = (struct holder){.job = job, .suspended = suspended};
	hold(h, &h->jobs[h->count++], true);
}

static void release_job(struct holdings *h, const job_record_t *job)
{
	size_t i = find_holder(h, job);

	if (i == h->count)
		return;
	if (job->job_resrcs)
		hold(h, &h->jobs[i], false);
	h->jobs[i] = h->jobs[--h->count];
}

static void set_suspended(struct holdings *h, const job_record_t *job, bool suspended)
{
	size_t i = find_holder(h, job);

	if (i == h->count || h->jobs[i].suspended == suspended)
		return;
	hold(h, &h->jobs[i], false);
	h->jobs[i].suspended = suspended;
	hold(h, &h->jobs[i], true);
}

static bool is_suspended(const struct holdings *h, const job_record_t *job)
{
	size_t i = find_holder(h, job);

	return i < h->count && h->jobs[i].suspended;
}

static int hold_found_job(void *item, void *holdings)
{
	const job_record_t *job = item;
	uint32_t state = job->job_state & JOB_STATE_BASE;

	if (state == JOB_RUNNING || state == JOB_SUSPENDED)
		hold_job(holdings, job, state == JOB_SUSPENDED);
	return 0;
}

static int make_nodeinfos(struct select *s)
{
	int i;

	for (i = 0; i < node_record_count; i++) {
		node_record_t *node = &node_record_table_ptr[i];

		if (!node->select_nodeinfo)
			node->select_nodeinfo = s->call.select_nodeinfo_alloc();
		if (!node->select_nodeinfo)
			return breach(
				s, BREACH_NODEINFO, "select_nodeinfo_alloc", "it returns NULL");
	}
	return 0;
}

bool select_rank_nodes(struct select *s)
{
	return s->call.node_ranking(node_record_table_ptr, node_record_count);
}

static int log_setting(void *item, void *userdata)
{
	const struct select *s = userdata;

	log_info(s->log, "plugin %s: %s", select_get_type(s), (const char *)item);
	return 0;
}

static void log_settings(struct select *s)
{
	List settings = NULL;

	if (CALL(s, get_info_from_plugin, SELECT_CONFIG_INFO, NULL, &settings) == 0 && settings)
		(void)list_for_each(settings, log_setting, s); /* none stops it */
	FREE_NULL_LIST(settings);
}

int select_begin(struct select *s, char *state_dir, struct err *err)
{
	int r = CALL(s, node_init, node_record_table_ptr, node_record_count);

	if (r < 0)
		return failed(s, r, "node_init", err);
	holdings_make(&s->held);
	(void)list_for_each(job_list, hold_found_job, &s->held); /* none stops it */
	r = make_nodeinfos(s);
	if (r < 0)
		return failed(s, r, "select_nodeinfo_alloc", err);
	r = state_dir ? CALL(s, state_restore, state_dir) : 0;
	if (r < 0)
		return failed(s, r, "state_restore", err);
	r = CALL(s, job_init, job_list);
	if (r < 0)
		return failed(s, r, "job_init", err);
	r = CALL(s, select_nodeinfo_set_all);
	if (r < 0)
		return failed(s, r, "select_nodeinfo_set_all", err);
	log_settings(s);
	return 0;
}

void select_end(struct select *s)
{
	int i;

	for (i = 0; i < node_record_count; i++) {
		node_record_t *node = &node_record_table_ptr[i];

		if (node->select_nodeinfo)
			(void)CALL(s, select_nodeinfo_free, node->select_nodeinfo);
		node->select_nodeinfo = NULL;
	}
}

int select_save(struct select *s, char *state_dir, struct err *err)
{
	int r = CALL(s, state_save, state_dir);

	return r < 0 ? failed(s, r, "state_save", err) : 0;
}

int select_reconfigure(struct select *s, struct err *err)
{
	int r = CALL(s, reconfigure);

	return r < 0 ? failed(s, r, "reconfigure", err) : 0;
}

/* ---- a test of a job
 * ----------------------------------------------------------------------------- */

static int check_nodes(
	struct select *s, const struct select_request *q, const bitstr_t *given, uint32_t mode)
{
	const bitstr_t *required = q->job->details->req_node_bitmap;
	uint32_t n = (uint32_t)bit_set_count(q->nodes);

	if (!bit_super_set(q->nodes, given))
		return breach(s, BREACH_BITS, "job_test", "it takes nodes that it was not given");
	if (mode != SELECT_MODE_TEST_ONLY && (n < q->min_nodes || n > q->max_nodes))
		return breach(s, BREACH_COUNT, "job_test",
			"it takes fewer nodes than the job needs, or more than it may have");
	if (required && !bit_super_set(required, q->nodes))
		return breach(s, BREACH_REQUIRED, "job_test",
			"it leaves out nodes that the job requires");
	return 0;
}

/* A core, or a whole node, is given once, unless all that have it share. Gang scheduling gives them
 * several times, one job after the other. */
static int check_once(struct select *s, const bitstr_t *parts, const uint16_t *jobs)
{
	bitoff_t i = 0;

	for (; (i = bit_ffs_from_bit(parts, i)) >= 0; i++) {
		if (jobs[i] > 0)
			return breach(s, BREACH_CORES, "job_test", "it gives a core to two jobs");
	}
	return 0;
}

static int check_cores(struct select *s, const job_record_t *job)
{
	const job_resources_t *r = job->job_resrcs;
	const struct holdings *h = &s->held;
	bool shares = r->node_req == NODE_CR_AVAILABLE;

	if (slurm_conf.preempt_mode & PREEMPT_MODE_GANG || find_holder(h, job) < h->count)
		return 0;
	return r->core_bitmap
		? check_once(s, r->core_bitmap, shares ? h->core_alone : h->core_jobs)
		: check_once(s, r->node_bitmap, shares ? h->node_alone : h->node_jobs);
}

static int check_memory(struct select *s, const job_resources_t *r)
{
	bool gang = slurm_conf.preempt_mode & PREEMPT_MODE_GANG;
	bitoff_t i = 0;
	uint32_t k = 0;

	for (; (i = bit_ffs_from_bit(r->node_bitmap, i)) >= 0; i++, k++) {
		uint64_t has = node_record_table_ptr[i].real_memory;
		uint64_t held = gang ? 0 : s->held.memory[i];

		if (r->memory_allocated[k] > 0 &&
			(held > has || r->memory_allocated[k] > has - held))
			return breach(s, BREACH_MEMORY, "job_test",
				"it gives more memory of a node than that has left");
	}
	return 0;
}

static bool fits_nodes(const job_resources_t *r, const bitstr_t *nodes)
{
	const node_record_t *last = &node_record_table_ptr[node_record_count - 1];

	if (!r || !r->node_bitmap || !r->cpus || !r->memory_allocated)
		return false;
	if (!bit_equal(r->node_bitmap, nodes) || r->nhosts != (uint32_t)bit_set_count(nodes))
		return false;
	return !r->core_bitmap ||
		bit_size(r->core_bitmap) == (bitoff_t)last->core_offset + last->tot_cores;
}

static int check_resources(struct select *s, const struct select_request *q)
{
	const job_resources_t *r = q->job->job_resrcs;
	int ret;

	if (!fits_nodes(r, q->nodes))
		return breach(s, BREACH_RESOURCES, "job_test",
			"job_resrcs is missing, or is not of the nodes that it takes");
	ret = check_memory(s, r);
	return ret < 0 ? ret : check_cores(s, q->job);
}

static int is_same(void *item, void *key)
{
	return item == key;
}

static int check_preempted(struct select *s, const struct select_request *q)
{
	ListIterator i;
	void *job;
	int r = 0;

	if (!q->preempted || !*q->preempted)
		return 0;
	i = list_iterator_create(*q->preempted);
	while (r == 0 && (job = list_next(i))) {
		if (!q->candidates || !list_find_first(q->candidates, is_same, job))
			r = breach(s, BREACH_PREEMPTED, "job_test",
				"it preempts a job that is no candidate");
	}
	list_iterator_destroy(i);
	return r;
}

static int ends(void *job, void *unused)
{
	(void)unused;
	return slurm_job_preempt_mode(job) != PREEMPT_MODE_SUSPEND;
}

/* Jobs have to end before this one can start. */
static bool must_end(const struct select_request *q)
{
	return q->preempted && *q->preempted && list_find_first(*q->preempted, ends, NULL);
}

static int check_test(
	struct select *s, const struct select_request *q, const bitstr_t *given, uint32_t mode)
{
	int r = check_nodes(s, q, given, mode);

	if (r == 0 && mode == SELECT_MODE_RUN_NOW && !must_end(q))
		r = check_resources(s, q);
	if (r == 0 && mode == SELECT_MODE_WILL_RUN && q->job->start_time < slurm_now())
		r = breach(s, BREACH_TIME, "job_test", "it expects a start in the past");
	return r == 0 ? check_preempted(s, q) : r;
}

int select_test(struct select *s, const struct select_request *q, uint32_t mode, struct err *err)
{
	bitstr_t *given = bit_copy(q->nodes);
	int r;

	if (q->preempted)
		*q->preempted = NULL;
	r = CALL(s, job_test, q->job, q->nodes, q->min_nodes, q->max_nodes, q->req_nodes, mode,
		q->candidates, q->preempted, q->exc_cores);
	if (r == 0)
		r = check_test(s, q, given, mode);
	else if (r == -EAGAIN)
		r = -EBUSY;
	if (r < 0 && q->preempted)
		FREE_NULL_LIST(*q->preempted);
	if (r == 0 && mode == SELECT_MODE_RUN_NOW && must_end(q))
		r = -EINPROGRESS;
	if (r == -EPROTO)
		bit_copybits(q->nodes, given);
	if (r == -EPROTO || r == -EINPROGRESS) {
		use_resources_free(q->job->job_resrcs);
		q->job->job_resrcs = NULL;
	}
	bit_free(given);
	return r < 0 ? err_set(err, r, "plugin %s: find nodes for job %u", select_get_type(s),
			       q->job->job_id)
		     : 0;
}

/* ---- a job's way
 * --------------------------------------------------------------------------------- */

int select_job_begin(struct select *s, job_record_t *job, struct err *err)
{
	int r = CALL(s, job_begin, job);

	if (r == 0) {
		hold_job(&s->held, job, false);
		r = CALL(s, select_nodeinfo_set, job);
	}
	return r < 0 ? failed(s, r, "job_begin", err) : 0;
}

int select_job_ready(struct select *s, job_record_t *job, struct err *err)
{
	int r;

	errno = 0;
	r = s->call.job_ready(job);
	if (r == SLURM_ERROR)
		return failed(s, result(s, r, "job_ready"), "job_ready", err);
	if (r != 0 && r != 1)
		(void)breach(s, BREACH_READY, "job_ready", "it returns neither 1 nor 0");
	return r != 0;
}

/* Its nodes are told of while it still has them. */
int select_job_fini(struct select *s, job_record_t *job, struct err *err)
{
	int r = CALL(s, job_fini, job), told;

	release_job(&s->held, job);
	told = CALL(s, select_nodeinfo_set, job);
	if (r < 0)
		return failed(s, r, "job_fini", err);
	return told < 0 ? failed(s, told, "select_nodeinfo_set", err) : 0;
}

int select_job_suspend(struct select *s, job_record_t *job, bool by_user, struct err *err)
{
	int r = CALL(s, job_suspend, job, by_user);

	if (r == 0)
		set_suspended(&s->held, job, true);
	return r < 0 ? failed(s, r, "job_suspend", err) : 0;
}

int select_job_resume(struct select *s, job_record_t *job, bool by_user, struct err *err)
{
	int r = CALL(s, job_resume, job, by_user);

	if (r == 0)
		set_suspended(&s->held, job, false);
	return r < 0 ? failed(s, r, "job_resume", err) : 0;
}

/* What has no bearing on the host's state: the plugin's refusal is told, and that is all. */
static void note(struct select *s, int r, const char *what)
{
	if (r < 0)
		log_warning(s->log, "plugin %s: %s: %s, ignoring", select_get_type(s), what,
			strerror(-r));
}

void select_job_signal(struct select *s, job_record_t *job, int signal)
{
	note(s, CALL(s, job_signal, job, signal), "signal a job");
}

int select_job_expand(struct select *s, job_record_t *from, job_record_t *to, struct err *err)
{
	bool suspended = is_suspended(&s->held, to), from_suspended = is_suspended(&s->held, from);
	int r;

	if (!s->call.job_expand_allow())
		return err_set_text(
			err, -EOPNOTSUPP, "plugin %s can't expand jobs", select_get_type(s));
	release_job(&s->held, from);
	release_job(&s->held, to);
	r = CALL(s, job_expand, from, to);
	hold_job(&s->held, to, suspended);
	if (r < 0)
		hold_job(&s->held, from, from_suspended);
	if (r == 0)
		r = CALL(s, select_nodeinfo_set_all);
	return r < 0 ? failed(s, r, "job_expand", err) : 0;
}

int select_job_resized(struct select *s, job_record_t *job, node_record_t *node, struct err *err)
{
	bool suspended = is_suspended(&s->held, job);
	int r;

	release_job(&s->held, job);
	r = CALL(s, job_resized, job, node);
	hold_job(&s->held, job, suspended);
	if (r == 0)
		r = CALL(s, select_nodeinfo_set_all);
	return r < 0 ? failed(s, r, "job_resized", err) : 0;
}

bool select_job_mem_confirm(struct select *s, job_record_t *job)
{
	return CALL(s, job_mem_confirm, job) == 0;
}

/* ---- what the plugin has of a job ---------------------------------------------------------------
 */

select_jobinfo_t *select_jobinfo_new(struct select *s)
{
	select_jobinfo_t *info = s->call.select_jobinfo_alloc();

	if (!info)
		(void)breach(s, BREACH_JOBINFO, "select_jobinfo_alloc", "it returns NULL");
	return info;
}

void select_jobinfo_free(struct select *s, select_jobinfo_t *info)
{
	if (info)
		note(s, CALL(s, select_jobinfo_free, info), "free what it has of a job");
}

/* The version is before it: a later jobd may have another one. */
char *select_jobinfo_pack(struct select *s, select_jobinfo_t *info)
{
	Buf buf = init_buf(0);
	char *text = NULL, *packed;
	uint32_t size;
	int n;

	note(s, CALL(s, select_jobinfo_pack, info, buf, SELECT_PROTOCOL_VERSION),
		"pack what it has of a job");
	size = get_buf_offset(buf);
	packed = size ? malloc(BASE64_SIZE(size) + 1) : NULL;
	if (packed) {
		base64_encode(get_buf_data(buf), size, packed);
		n = asprintf(&text, "%u:%s", SELECT_PROTOCOL_VERSION, packed);
		if (n < 0)
			text = NULL;
	}
	free(packed);
	free_buf(buf);
	return text;
}

select_jobinfo_t *select_jobinfo_unpack(struct select *s, const char *text)
{
	const char *packed = strchr(text, ':');
	_cleanup_free_ char *version = packed ? strndup(text, (size_t)(packed - text)) : NULL;
	select_jobinfo_t *info = NULL;
	uint32_t number;
	ssize_t size;
	char *data;
	Buf buf;

	if (!version || parse_u32(version, 1, UINT16_MAX, &number) < 0)
		return NULL;
	packed++;
	data = malloc(strlen(packed) + 1);
	size = data ? base64_decode(packed, strlen(packed), data) : -ENOMEM;
	if (size < 0) {
		free(data);
		return NULL;
	}
	buf = create_buf(data, (uint32_t)size);
	if (CALL(s, select_jobinfo_unpack, &info, buf, (uint16_t)number) < 0)
		info = NULL;
	free_buf(buf);
	return info;
}

char *select_jobinfo_describe(struct select *s, select_jobinfo_t *info)
{
	char *text = s->call.select_jobinfo_xstrdup(info, SELECT_PRINT_MIXED);

	if (text && *text)
		return text;
	free(text);
	return NULL;
}

int select_job_is_cleaning(struct select *s, job_record_t *job, struct err *err)
{
	uint16_t cleaning = 0;
	int r = CALL(
		s, select_jobinfo_get, job->select_jobinfo, SELECT_JOBDATA_CLEANING, &cleaning);

	if (r == -EINVAL || r == -EOPNOTSUPP)
		return 0; /* it has nothing to do with that */
	return r < 0 ? failed(s, r, "select_jobinfo_get", err) : cleaning != 0;
}

/* ---- steps --------------------------------------------------------------------------------------
 */

select_jobinfo_t *select_step_begin(struct select *s, job_record_t *job)
{
	select_jobinfo_t *info = select_jobinfo_new(s);
	bitstr_t *picked = info ? s->call.step_pick_nodes(job, info, job->node_cnt) : NULL;

	if (picked && !bit_equal(picked, job->node_bitmap))
		(void)breach(s, BREACH_BITS, "step_pick_nodes",
			"it takes other nodes than those of the job");
	bit_free(picked);
	return info;
}

void select_step_finish(struct select *s, step_record_t *step, bool killing)
{
	note(s, CALL(s, step_finish, step, killing), "the end of a step");
}

void select_node_changed(struct select *s, node_record_t *node)
{
	note(s, CALL(s, update_node_state, node), "the state of a node");
}

void select_node_configured(struct select *s, node_record_t *node)
{
	note(s, CALL(s, update_node_config, (int)node->index), "the configuration of a node");
}

bitstr_t *select_resv_test(struct select *s, resv_desc_msg_t *desc, uint32_t node_count,
	bitstr_t *avail, bitstr_t **cores)
{
	bitstr_t *given = bit_copy(avail), *nodes;

	nodes = s->call.resv_test(desc, node_count, avail, cores);
	if (nodes && !bit_super_set(nodes, given)) {
		(void)breach(s, BREACH_BITS, "resv_test", "it takes nodes that it was not given");
		FREE_NULL_BITMAP(nodes);
	}
	bit_free(given);
	return nodes;
}

void select_node_use(
	struct select *s, const node_record_t *node, uint16_t *ret_cpus, uint64_t *ret_memory)
{
	*ret_cpus = 0;
	*ret_memory = 0;
	if (!node->select_nodeinfo)
		return; /* before select_begin() */
	if (CALL(s, select_nodeinfo_get, node->select_nodeinfo, SELECT_NODEDATA_SUBCNT,
		    NODE_STATE_ALLOCATED, ret_cpus) < 0 ||
		CALL(s, select_nodeinfo_get, node->select_nodeinfo, SELECT_NODEDATA_MEM_ALLOC,
			NODE_STATE_ALLOCATED, ret_memory) < 0)
		log_debug(s->log, "plugin %s does not say what is used of node %s",
			select_get_type(s), node->name);
}
