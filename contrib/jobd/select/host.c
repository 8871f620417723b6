/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/select/host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/jobd/select/holdings.h"
#include "contrib/jobd/select/use.h"
#include "stepd/base/base64.h"
#include "stepd/base/cleanup.h"
#include "stepd/base/err.h"
#include "stepd/base/parse.h"
#include "stepd/plugin/plugin.h"

/* ---- variables of the host for plugins ----------------------------------------------------------
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

#define DESCRIPTION_SIZE 1024 /* bytes of a job's cell in a table */

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
			"it fails with a value other than SLURM_ERROR, or without errno");
	return -error;
}

static int failed(struct select *s, int r, const char *function, struct err *err)
{
	return err_set(err, r, "plugin %s: select_p_%s() failed", select_get_type(s), function);
}

#define CALL(s, function, ...) (errno = 0, result((s), (s)->call.function(__VA_ARGS__), #function))

/* For calls that don't affect the host's state: a failure is only logged. */
static void note(struct select *s, int r, const char *what)
{
	if (r < 0)
		log_warning(s->log, "plugin %s: %s: %s, ignoring", select_get_type(s), what,
			strerror(-r));
}

/* ---- beginning and end
 * --------------------------------------------------------------------------- */

/* ---- what is kept of the plugin's -------------------------------------------------------------
 * The version is before it: a later jobd may have another one. */

typedef int (*pack_fn)(struct select *s, void *info, Buf buffer);

/* free(); NULL: there is nothing, or no memory. */
static char *pack(struct select *s, pack_fn fn, void *info)
{
	Buf buf = init_buf(0);
	_cleanup_free_ char *packed = NULL;
	char *text = NULL;
	uint32_t size;

	note(s, fn(s, info, buf), "pack what it has");
	size = get_buf_offset(buf);
	packed = size ? malloc(BASE64_SIZE(size) + 1) : NULL;
	if (packed) {
		base64_encode(get_buf_data(buf), size, packed);
		if (asprintf(&text, "%u:%s", SELECT_PROTOCOL_VERSION, packed) < 0)
			text = NULL;
	}
	free_buf(buf);
	return text;
}

/* NULL: it is no such text, or there is no memory. */
static Buf unpack(const char *text, uint16_t *ret_version)
{
	const char *packed = strchr(text, ':');
	_cleanup_free_ char *version = packed ? strndup(text, (size_t)(packed - text)) : NULL;
	uint32_t number;
	ssize_t size;
	char *data;

	if (!version || parse_u32(version, 1, UINT16_MAX, &number) < 0)
		return NULL;
	packed++;
	data = malloc(strlen(packed) + 1);
	size = data ? base64_decode(packed, strlen(packed), data) : -ENOMEM;
	if (size < 0) {
		free(data);
		return NULL;
	}
	*ret_version = (uint16_t)number;
	return create_buf(data, (uint32_t)size);
}

/* ---- what the plugin has of nodes ---------------------------------------------------------------
 */

static int pack_nodeinfo(struct select *s, void *info, Buf buffer)
{
	return CALL(s, select_nodeinfo_pack, info, buffer, SELECT_PROTOCOL_VERSION);
}

char *select_nodeinfo_pack(struct select *s, const node_record_t *node)
{
	return node->select_nodeinfo ? pack(s, pack_nodeinfo, node->select_nodeinfo) : NULL;
}

static select_nodeinfo_t *unpack_nodeinfo(struct select *s, const char *text)
{
	select_nodeinfo_t *info = NULL;
	uint16_t version = 0;
	Buf buf = unpack(text, &version);

	if (buf && CALL(s, select_nodeinfo_unpack, &info, buf, version) < 0)
		info = NULL;
	if (buf)
		free_buf(buf);
	return info;
}

/* Another plugin, or another version of it, may not know what is kept. */
static int make_nodeinfos(struct select *s, const char *const *kept)
{
	int i;

	for (i = 0; i < node_record_count; i++) {
		node_record_t *node = &node_record_table_ptr[i];

		if (!node->select_nodeinfo && kept && kept[i])
			node->select_nodeinfo = unpack_nodeinfo(s, kept[i]);
		if (!node->select_nodeinfo)
			node->select_nodeinfo = s->call.select_nodeinfo_alloc();
		if (!node->select_nodeinfo)
			return breach(
				s, BREACH_NODEINFO, "select_nodeinfo_alloc", "it returns NULL");
	}
	return 0;
}

/* The nodes as a client would have them, for a plugin that knows their places in a machine with
 * dimensions; its array of them ends with a 0. */
static void log_dimensions(struct select *s)
{
	node_info_t *nodes = xmalloc((size_t)node_record_count * sizeof(*nodes));
	node_info_msg_t msg = {.last_update = slurm_now(),
		.record_count = (uint32_t)node_record_count,
		.node_array = nodes};
	const int *dims;
	int i;

	for (i = 0; i < node_record_count; i++) {
		const node_record_t *node = &node_record_table_ptr[i];

		nodes[i] = (node_info_t){.name = node->name,
			.node_state = node->node_state,
			.cpus = node->cpus,
			.select_nodeinfo = node->select_nodeinfo};
	}
	s->call.ba_init(&msg, false);
	xfree(nodes);
	dims = s->call.ba_get_dims();
	for (i = 0; dims && dims[i] > 0; i++)
		log_info(s->log, "plugin %s: dimension %d of the machine has %d elements",
			select_get_type(s), i + 1, dims[i]);
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

int select_begin(struct select *s, char *state_dir, const char *const *kept, struct err *err)
{
	int r = CALL(s, node_init, node_record_table_ptr, node_record_count);

	if (r < 0)
		return failed(s, r, "node_init", err);
	r = make_nodeinfos(s, kept);
	if (r < 0)
		return failed(s, r, "select_nodeinfo_alloc", err);
	r = state_dir ? CALL(s, state_restore, state_dir) : 0;
	if (r < 0)
		return failed(s, r, "state_restore", err);
	r = CALL(s, job_init, job_list);
	if (r < 0)
		return failed(s, r, "job_init", err);
	holdings_make(&s->held); /* as the plugin has found that they share */
	r = CALL(s, select_nodeinfo_set_all);
	if (r < 0)
		return failed(s, r, "select_nodeinfo_set_all", err);
	log_settings(s);
	log_dimensions(s);
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

	holdings_make(&s->held); /* jobs may share otherwise now */
	return r < 0 ? failed(s, r, "reconfigure", err) : 0;
}

bool select_gives_parts(struct select *s)
{
	uint32_t parts = 0;

	return CALL(s, get_info_from_plugin, SELECT_CR_PLUGIN, NULL, &parts) == 0 && parts;
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

static int check_cores(struct select *s, const job_record_t *job)
{
	if (slurm_conf.preempt_mode & PREEMPT_MODE_GANG || !holdings_collide(&s->held, job))
		return 0;
	return breach(s, BREACH_CORES, "job_test", "it gives a core to two jobs");
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

/* Of a plan: no core that it may not have. */
static int check_plan(struct select *s, const struct select_request *q)
{
	const job_resources_t *r = q->job->job_resrcs;

	if (!r)
		return 0;
	if (!fits_nodes(r, q->nodes))
		return breach(s, BREACH_RESOURCES, "job_test",
			"job_resrcs is not of the nodes that it takes");
	if (r->core_bitmap && q->exc_cores && bit_overlap_any(r->core_bitmap, q->exc_cores))
		return breach(s, BREACH_CORES, "job_test", "it plans with other jobs' cores");
	return 0;
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
				"it preempts a job that is not a candidate");
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
	if (r == 0 && mode != SELECT_MODE_RUN_NOW)
		r = check_plan(s, q);
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
	if (q->resources)
		*q->resources = NULL;
	if (mode == SELECT_MODE_WILL_RUN)
		q->job->start_time = q->not_before;
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
	if (r < 0 && r != -EINPROGRESS)
		bit_copybits(q->nodes, given);
	if (r == 0 && mode != SELECT_MODE_RUN_NOW && q->resources) {
		*q->resources = q->job->job_resrcs;
		q->job->job_resrcs = NULL;
	} else if (r < 0 || mode != SELECT_MODE_RUN_NOW) {
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
		holdings_add(&s->held, job, false);
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

/* The plugin updates its nodes while it still has them. */
int select_job_fini(struct select *s, job_record_t *job, struct err *err)
{
	int r = CALL(s, job_fini, job), nodes_r;

	holdings_remove(&s->held, job);
	nodes_r = CALL(s, select_nodeinfo_set, job);
	if (r < 0)
		return failed(s, r, "job_fini", err);
	return nodes_r < 0 ? failed(s, nodes_r, "select_nodeinfo_set", err) : 0;
}

int select_job_suspend(struct select *s, job_record_t *job, bool by_user, struct err *err)
{
	int r = CALL(s, job_suspend, job, by_user);

	if (r == 0)
		holdings_set_suspended(&s->held, job, true);
	return r < 0 ? failed(s, r, "job_suspend", err) : 0;
}

int select_job_resume(struct select *s, job_record_t *job, bool by_user, struct err *err)
{
	int r = CALL(s, job_resume, job, by_user);

	if (r == 0)
		holdings_set_suspended(&s->held, job, false);
	return r < 0 ? failed(s, r, "job_resume", err) : 0;
}

void select_job_signal(struct select *s, job_record_t *job, int signal)
{
	note(s, CALL(s, job_signal, job, signal), "signal a job");
}

/* Of the nodes that it should have now. */
static int check_moved(
	struct select *s, const job_record_t *job, const bitstr_t *nodes, const char *function)
{
	return fits_nodes(job->job_resrcs, nodes)
		? 0
		: breach(s, BREACH_RESOURCES, function,
			  "job_resrcs is missing, or is not of the job's nodes");
}

/* Replaces what the plugin has left there, if anything, by the former resources. */
static void take_back(job_record_t *job, job_resources_t *before)
{
	use_resources_free(job->job_resrcs);
	job->job_resrcs = before;
}

static int check_expanded(struct select *s, const job_record_t *from, const job_record_t *to,
	const job_resources_t *from_had, const job_resources_t *to_had)
{
	bitstr_t *nodes = bit_copy(to_had->node_bitmap);
	int r;

	bit_or(nodes, from_had->node_bitmap);
	r = from->job_resrcs ? breach(s, BREACH_RESOURCES, "job_expand",
				       "the job that gives all that it has still has some of it")
			     : check_moved(s, to, nodes, "job_expand");
	bit_free(nodes);
	return r;
}

static int expand(struct select *s, job_record_t *from, job_record_t *to)
{
	job_resources_t *from_had = use_resources_copy(from->job_resrcs);
	job_resources_t *to_had = use_resources_copy(to->job_resrcs);
	int r = CALL(s, job_expand, from, to);

	if (r == 0)
		r = check_expanded(s, from, to, from_had, to_had);
	if (r < 0) {
		take_back(from, from_had);
		take_back(to, to_had);
		return r;
	}
	use_resources_free(from_had);
	use_resources_free(to_had);
	return 0;
}

int select_job_expand(struct select *s, job_record_t *from, job_record_t *to, struct err *err)
{
	bool suspended = holdings_is_suspended(&s->held, to);
	bool from_suspended = holdings_is_suspended(&s->held, from);
	int r;

	if (!s->call.job_expand_allow())
		return err_set_text(
			err, -EOPNOTSUPP, "plugin %s can't expand jobs", select_get_type(s));
	holdings_remove(&s->held, from);
	holdings_remove(&s->held, to);
	r = expand(s, from, to);
	holdings_add(&s->held, to, suspended);
	if (r < 0)
		holdings_add(&s->held, from, from_suspended);
	if (r == 0)
		r = CALL(s, select_nodeinfo_set_all);
	return r < 0 ? failed(s, r, "job_expand", err) : 0;
}

static int resize(struct select *s, job_record_t *job, node_record_t *node)
{
	job_resources_t *had = use_resources_copy(job->job_resrcs);
	bitstr_t *nodes = bit_copy(had->node_bitmap);
	int r = CALL(s, job_resized, job, node);

	bit_clear(nodes, (bitoff_t)node->index);
	if (r == 0)
		r = check_moved(s, job, nodes, "job_resized");
	bit_free(nodes);
	if (r < 0)
		take_back(job, had);
	else
		use_resources_free(had);
	return r;
}

int select_job_resized(struct select *s, job_record_t *job, node_record_t *node, struct err *err)
{
	bool suspended = holdings_is_suspended(&s->held, job);
	int r;

	holdings_remove(&s->held, job);
	r = resize(s, job, node);
	holdings_add(&s->held, job, suspended);
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

select_jobinfo_t *select_jobinfo_copy(struct select *s, select_jobinfo_t *info)
{
	select_jobinfo_t *copy = s->call.select_jobinfo_copy(info);

	if (!copy)
		(void)breach(s, BREACH_JOBINFO, "select_jobinfo_copy", "it returns NULL");
	return copy;
}

static bool has_nothing_to_do(int r)
{
	return r == -EINVAL || r == -EOPNOTSUPP;
}

void select_jobinfo_set_network(struct select *s, select_jobinfo_t *info, const char *network)
{
	_cleanup_free_ char *copy = strdup(network);
	int r = copy ? CALL(s, select_jobinfo_set, info, SELECT_JOBDATA_NETWORK, copy) : -ENOMEM;

	if (!has_nothing_to_do(r))
		note(s, r, "the network of a job");
}

static int pack_jobinfo(struct select *s, void *info, Buf buffer)
{
	return CALL(s, select_jobinfo_pack, info, buffer, SELECT_PROTOCOL_VERSION);
}

char *select_jobinfo_pack(struct select *s, select_jobinfo_t *info)
{
	return pack(s, pack_jobinfo, info);
}

select_jobinfo_t *select_jobinfo_unpack(struct select *s, const char *text)
{
	select_jobinfo_t *info = NULL;
	uint16_t version = 0;
	Buf buf = unpack(text, &version);

	if (buf && CALL(s, select_jobinfo_unpack, &info, buf, version) < 0)
		info = NULL;
	if (buf)
		free_buf(buf);
	return info;
}

char *select_jobinfo_describe(struct select *s, select_jobinfo_t *info, bool brief)
{
	char cell[DESCRIPTION_SIZE] = "";
	char *text;

	if (brief)
		return s->call.select_jobinfo_sprint(info, cell, sizeof(cell), SELECT_PRINT_DATA) &&
				*cell
			? strdup(cell)
			: NULL;
	text = s->call.select_jobinfo_xstrdup(info, SELECT_PRINT_MIXED);
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

	if (has_nothing_to_do(r))
		return 0;
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

/* Cores of these nodes alone. */
static bool fits_cores(const bitstr_t *nodes, const bitstr_t *cores)
{
	const node_record_t *last = &node_record_table_ptr[node_record_count - 1];
	int i;

	if (bit_size(cores) != (bitoff_t)last->core_offset + last->tot_cores)
		return false;
	for (i = 0; i < node_record_count; i++) {
		const node_record_t *node = &node_record_table_ptr[i];

		if (!bit_test(nodes, i) &&
			bit_set_count_range(cores, node->core_offset,
				(bitoff_t)node->core_offset + node->tot_cores) > 0)
			return false;
	}
	return true;
}

static int check_reserved(struct select *s, const bitstr_t *given, uint32_t node_count,
	const bitstr_t *nodes, const bitstr_t *cores)
{
	if (!bit_super_set(nodes, given))
		return breach(s, BREACH_BITS, "resv_test", "it takes nodes that it was not given");
	if ((uint32_t)bit_set_count(nodes) < node_count)
		return breach(s, BREACH_COUNT, "resv_test", "it takes fewer nodes than are needed");
	if (cores && !fits_cores(nodes, cores))
		return breach(s, BREACH_RESOURCES, "resv_test",
			"its cores are not of the nodes that it takes");
	return 0;
}

bitstr_t *select_resv_test(struct select *s, resv_desc_msg_t *desc, uint32_t node_count,
	bitstr_t *avail, bitstr_t **cores)
{
	bitstr_t *given = bit_copy(avail), *nodes;

	nodes = s->call.resv_test(desc, node_count, avail, cores);
	if (nodes && check_reserved(s, given, node_count, nodes, cores ? *cores : NULL) < 0)
		FREE_NULL_BITMAP(nodes);
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
		log_debug(s->log, "plugin %s does not report the use of node %s",
			select_get_type(s), node->name);
}
