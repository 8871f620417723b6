/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/sim/simulate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config.h"
#include "contrib/jobd/sim/gantt.h"
#include "contrib/jobd/sim/metrics.h"
#include "contrib/jobd/sim/report.h"
#include "contrib/jobd/sim/sim.h"
#include "stepd/base/clock.h"
#include "stepd/base/err.h"
#include "stepd/base/hostlist.h"
#include "stepd/base/json.h"

#define MS_PER_S    1000u
#define FIRST_USER  1000u /* users other than root have uids from here on */
#define JOB_IDS_MAX (NO_VAL - 1)
#define SCRIPT      "#!/bin/sh\n"

struct simulation {
	const struct simulate_conf *options;
	struct trace *trace;
	struct sim *sim;
	struct engine *engine;
	const struct conf *conf;
	struct metrics metrics;
	const struct trace_job *submitted; /* whose jobs are being made */
	uint32_t *ids;                     /* jobd's own traces: the engine's of each number */
	json_t *refused;
	struct strv notes;
	uint32_t without_qos, in_default, whole_memory;
};

static void *must_have(void *memory)
{
	if (!memory)
		abort(); /* as the bitmaps do */
	return memory;
}

static void must_add(struct strv *notes, char *note)
{
	if (strv_add_take(notes, must_have(note)) < 0)
		abort();
}

_printf_(1, 2) static char *text_of(const char *format, ...)
{
	char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vasprintf(&text, format, ap);
	va_end(ap);
	return n < 0 ? must_have(NULL) : text;
}

/* ---- the configuration -------------------------------------------------------------------------
 */

/* Limits for real users and a busy daemon are not for a simulation. */
static void relax_conf(struct conf *conf, struct strv *notes)
{
	bool relaxed = false;
	size_t i;

	conf->first_job_id = 1;
	conf->max_job_id = JOB_IDS_MAX;
	conf->max_job_count = JOB_IDS_MAX;
	for (i = 0; i < conf->parts_count; i++) {
		relaxed |= conf->parts[i].is_root_only || conf->parts[i].allow_groups.n > 0;
		conf->parts[i].is_root_only = false;
		strv_clear(&conf->parts[i].allow_groups);
	}
	if (relaxed)
		must_add(notes,
			text_of("AllowGroups and RootOnly are not applied: the trace does not "
				"have the groups of users"));
}

/* Finds a name in --map: the first item with it, or with "*". *ret_new: "" is the default
 * partition. False: there is none. */
static bool map_find(const char *map, const char *name, char *ret_new, size_t size)
{
	while (map && *map) {
		size_t length = strcspn(map, ","), old = strcspn(map, ",=");

		if ((old == 1 && *map == '*') ||
			(old == strlen(name) && memcmp(map, name, old) == 0)) {
			const char *to = old < length ? map + old + 1 : map + length;

			(void)snprintf(ret_new, size, "%.*s", (int)(map + length - to), to);
			return true;
		}
		map += length + (map[length] == ',');
	}
	return false;
}

/* The partition of a job in this configuration. *ret_part: NULL, the default one. */
static int find_part(const struct simulate_conf *o, const struct conf *conf,
	const struct trace *trace, const struct trace_job *job, const char **ret_part,
	struct err *err)
{
	const char *name = job->request.partition;
	char mapped[256];
	int i;

	*ret_part = name;
	if (!name || conf_find_part(conf, name) >= 0)
		return 0;
	*ret_part = NULL;
	if (!map_find(o->map, name, mapped, sizeof(mapped))) {
		if (job->part_is_number)
			return 0;
		return err_set_text(err, -EINVAL,
			"%s:%u: there is no partition %.100s in %s: give it another name with "
			"--map %.100s=NAME, or use the default one for all of these with --map '*'",
			trace->file, job->line, name, o->conf_file, name);
	}
	if (!*mapped)
		return 0;
	i = conf_find_part(conf, mapped);
	if (i < 0)
		return err_set_text(err, -EINVAL, "--map: there is no partition %.100s in %s",
			mapped, o->conf_file);
	*ret_part = conf->parts[i].name;
	return 0;
}

/* Before anything runs: all of the trace's partitions are known. */
static int check_parts(const struct simulate_conf *o, const struct conf *conf,
	const struct trace *trace, struct err *err)
{
	const char *part, *last = NULL;
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < trace->count; i++) {
		const char *name = trace->jobs[i].request.partition;

		if (!name || (last && strcmp(name, last) == 0))
			continue;
		last = name;
		r = find_part(o, conf, trace, &trace->jobs[i], &part, err);
	}
	return r;
}

/* ---- what is measured --------------------------------------------------------------------------
 */

static uint32_t count_cpus(const struct job *job)
{
	const job_resources_t *r = job->record.job_resrcs;
	uint32_t cpus = 0, i;

	for (i = 0; r && i < r->nhosts; i++)
		cpus += r->cpus[i];
	return cpus;
}

static struct metrics_job *note_submitted(
	struct simulation *s, const struct job *job, uint64_t now_ms)
{
	const struct conf *conf = s->conf;
	struct metrics_job *m =
		metrics_submit(&s->metrics, job->record.job_id, s->submitted, now_ms);
	int qos = job->record.qos ? conf_find_qos(conf, job->record.qos) : -1;

	if (job->record.array_task_id != NO_VAL)
		m->task_id = job->record.array_task_id;
	m->part = (uint32_t)conf_find_part(conf, job->record.partition);
	m->qos = qos < 0 ? METRICS_NONE : (uint32_t)qos;
	return m;
}

/* A job that is ending has its nodes until it has, and counts as before. */
static int on_job_changed(const struct job *job, void *userdata, struct err *err)
{
	struct simulation *s = userdata;
	uint64_t now_ms = s->sim ? sim_get_time_ms(s->sim) : 0;
	uint32_t state = job->record.job_state, base = state & JOB_STATE_BASE;
	struct metrics_job *m = metrics_find(&s->metrics, job->record.job_id);

	(void)err;
	if (!m)
		m = note_submitted(s, job, now_ms);
	if (state & (JOB_COMPLETING | JOB_CONFIGURING))
		return 0;
	if (base == JOB_RUNNING && job->launched)
		metrics_run(&s->metrics, m, count_cpus(job), job->record.nodes, now_ms);
	else if (base == JOB_SUSPENDED)
		metrics_stand(&s->metrics, m, job->gang_shaded, now_ms);
	else if (base == JOB_PENDING)
		metrics_queue_again(&s->metrics, m, now_ms);
	else if (base > JOB_SUSPENDED)
		metrics_end(&s->metrics, m, base, now_ms);
	return 0;
}

static int on_begin(void *userdata, struct err *err)
{
	(void)userdata;
	(void)err;
	return 0;
}

static void on_rollback(void *userdata)
{
	(void)userdata;
}

static int on_job_forgotten(uint32_t job_id, void *userdata, struct err *err)
{
	(void)job_id;
	(void)userdata;
	(void)err;
	return 0;
}

static int on_node_changed(const node_record_t *node, void *userdata, struct err *err)
{
	(void)node;
	(void)userdata;
	(void)err;
	return 0;
}

static int on_reservation_changed(
	const char *name, const json_t *json, void *userdata, struct err *err)
{
	(void)name;
	(void)json;
	(void)userdata;
	(void)err;
	return 0;
}

/* Nothing is stored: the engine only reports changes. */
static const struct engine_store observer = {
	.begin = on_begin,
	.commit = on_begin,
	.rollback = on_rollback,
	.job_changed = on_job_changed,
	.job_forgotten = on_job_forgotten,
	.node_changed = on_node_changed,
	.reservation_changed = on_reservation_changed,
};

/* As long as the trace has it, from its beginning at each start; a signal ends it at once. */
static void plan_job(const struct job *job, struct sim_job_plan *plan, void *userdata)
{
	const struct simulation *s = userdata;
	const struct metrics_job *m = metrics_find(&s->metrics, job->record.job_id);

	plan->run_ms = m->trace->run_ms;
	plan->exit_status = m->trace->exit_status;
}

/* ---- submission --------------------------------------------------------------------------------
 */

/* The trace's names of partition, QOS and jobs become those of the engine. */
static int adapt_request(struct simulation *s, struct trace_job *job, struct err *err)
{
	struct job_request *q = &job->request;
	const char *part;
	size_t i;
	int r = find_part(s->options, s->conf, s->trace, job, &part, err);

	if (r < 0)
		return r;
	if (part != q->partition) {
		s->in_default += part == NULL;
		free(q->partition);
		q->partition = part ? must_have(strdup(part)) : NULL;
	}
	if (q->qos && conf_find_qos(s->conf, q->qos) < 0) {
		free(q->qos);
		q->qos = NULL;
		s->without_qos++;
	}
	for (i = 0; i < q->dependencies_count; i++)
		q->dependencies[i].job_id = s->ids[q->dependencies[i].job_id];
	if (!q->script)
		q->script = must_have(strdup(SCRIPT));
	s->whole_memory += q->memory_mb == NO_VAL64;
	return 0;
}

static void refuse(struct simulation *s, const struct trace_job *job, const char *why)
{
	_cleanup_free_ char *name = must_have(trace_job_name(job));

	(void)json_array_append_new(s->refused,
		must_have(json_pack(
			"{s:s, s:i, s:s}", "job", name, "line", (int)job->line, "reason", why)));
}

static void submit(struct simulation *s, struct trace_job *job)
{
	const bool is_root = strcmp(s->trace->users.v[job->user], "root") == 0;
	uid_t uid = is_root ? 0 : FIRST_USER + job->user;
	struct err err = ERR_INIT;
	uint32_t id = 0;

	s->submitted = job;
	if (adapt_request(s, job, &err) < 0 ||
		engine_submit(s->engine, &job->request, uid, uid, &id, &err) < 0)
		refuse(s, job, err.text);
	else if (s->ids)
		s->ids[job->number] = id;
	/* the engine has a copy */
	request_clear(&job->request);
}

/* ---- the run -----------------------------------------------------------------------------------
 */

static bool is_any_on_nodes(const struct simulation *s)
{
	size_t i;

	for (i = 0; i < engine_count_jobs(s->engine); i++) {
		const struct job *job = engine_get_job(s->engine, i);

		if (job && job->record.job_resrcs)
			return true;
	}
	return false;
}

static bool is_any_to_begin(const struct simulation *s)
{
	size_t i;

	for (i = 0; i < engine_count_jobs(s->engine); i++) {
		const struct job *job = engine_get_job(s->engine, i);

		if (job && job->record.job_state == JOB_PENDING &&
			job->begin_time > engine_get_time(s->engine))
			return true;
	}
	return false;
}

/* Longer than anything takes that the engine does by itself without a job on any node. */
static uint64_t idle_ms(const struct conf_scheduler *c)
{
	uint64_t s =
		c->sched_interval_s > c->bf_interval_s ? c->sched_interval_s : c->bf_interval_s;

	return MS_PER_S * (2 * s + 60);
}

/* Until all have ended, or those that are left never start. */
static void run_to_end(struct simulation *s)
{
	uint64_t until_ms = sim_get_time_ms(s->sim), started;
	const struct engine_stats *stats = engine_get_stats(s->engine);

	for (;;) {
		started = stats->started;
		until_ms += idle_ms(&s->conf->scheduler);
		if (sim_run_all(s->sim, until_ms))
			break;
		if (stats->started == started && !is_any_on_nodes(s) && !is_any_to_begin(s))
			break;
	}
}

static void run_trace(struct simulation *s)
{
	size_t i;

	for (i = 0; i < s->trace->count; i++) {
		struct trace_job *job = &s->trace->jobs[i];

		/* all of one time before the engine handles any */
		if (i == 0 || job->submit_ms > s->trace->jobs[i - 1].submit_ms)
			sim_run_until(s->sim, job->submit_ms);
		submit(s, job);
	}
	run_to_end(s);
}

/* ---- the document ------------------------------------------------------------------------------
 */

/* CPUs of nodes that the configuration does not have down or drained. */
static uint32_t count_capacity(const struct conf *conf)
{
	uint32_t cpus = 0;
	size_t i;

	for (i = 0; i < conf->nodes_count; i++) {
		const uint32_t state = conf->nodes[i].state;

		if ((state & NODE_STATE_BASE) != NODE_STATE_DOWN && !(state & NODE_STATE_DRAIN))
			cpus += conf->nodes[i].cpus;
	}
	return cpus;
}

/* Jobs that were as large as their machine can't run on a smaller one. */
static void note_machine(struct simulation *s)
{
	const struct trace *t = s->trace;

	if (t->max_nodes > s->conf->nodes_count)
		must_add(&s->notes,
			text_of("The trace is that of a machine with %u nodes (MaxNodes), %s has "
				"%u",
				t->max_nodes, s->options->conf_file,
				(uint32_t)s->conf->nodes_count));
	if (t->max_cpus > count_capacity(s->conf))
		must_add(&s->notes,
			text_of("The trace is that of a machine with %u CPUs (MaxProcs), %s has %u",
				t->max_cpus, s->options->conf_file, count_capacity(s->conf)));
}

static void note_counts(struct simulation *s)
{
	const struct conf *conf = s->conf;

	note_machine(s);
	if (s->in_default)
		must_add(&s->notes,
			text_of("%u jobs of partitions that %s does not have are in its default "
				"one",
				s->in_default, s->options->conf_file));
	if (s->without_qos)
		must_add(&s->notes,
			text_of("%u jobs have a QOS that is not configured, and run without one: "
				"name the file of its QOSName= lines",
				s->without_qos));
	if (s->whole_memory && (conf->select_type_param & CR_MEMORY) && !conf->def_mem)
		must_add(&s->notes,
			text_of("%u jobs give no memory size, which the configuration counts: "
				"without a DefMem of their partition they have all of their nodes",
				s->whole_memory));
}

/* Those that are left, and why each waits. */
static json_t *list_waiting(const struct simulation *s)
{
	json_t *list = must_have(json_array());
	size_t i;

	for (i = 0; i < s->metrics.count; i++) {
		const struct metrics_job *m = metrics_find(&s->metrics, (uint32_t)i);
		const struct job *job = m && m->state != METRICS_ENDED
			? engine_find_job(s->engine, (uint32_t)i)
			: NULL;
		_cleanup_free_ char *name = job ? must_have(report_job_name(m)) : NULL;

		if (job)
			(void)json_array_append_new(list,
				must_have(json_pack("{s:s, s:i, s:s}", "job", name, "line",
					(int)m->trace->line, "reason",
					job_reason_name(engine_get_reason(s->engine, job)))));
	}
	return list;
}

static char *node_names(const struct conf *conf)
{
	char **names = must_have(calloc(conf->nodes_count + 1, sizeof(*names))), *text;
	size_t i;

	for (i = 0; i < conf->nodes_count; i++)
		names[i] = conf->nodes[i].name;
	text = must_have(hostlist_make(names, conf->nodes_count));
	free(names);
	return text;
}

static json_t *make_document(struct simulation *s)
{
	_cleanup_free_ char *nodes = node_names(s->conf);
	struct report_input input = {.metrics = &s->metrics,
		.trace = s->trace,
		.conf = s->conf,
		.conf_file = s->options->conf_file,
		.cpus = count_capacity(s->conf),
		.node_names = nodes,
		.notes = &s->notes,
		.refused = s->refused,
		.waiting = list_waiting(s),
		.lists_jobs = s->options->lists_jobs};

	s->refused = NULL; /* the document's */
	note_counts(s);
	return report_make(&input);
}

/* ---- one simulation ----------------------------------------------------------------------------
 */

static void simulation_clear(struct simulation *s)
{
	(void)sim_free(s->sim); /* always NULL */
	metrics_clear(&s->metrics);
	strv_clear(&s->notes);
	json_decref(s->refused);
	free(s->ids);
}

static int simulation_begin(struct simulation *s, struct err *err)
{
	_cleanup_conf_ struct conf *conf = NULL;
	struct sim_options options = {.plugin_dir = s->options->plugin_dir,
		.log = s->options->log,
		.store = &observer,
		.store_data = s,
		.now_ms = s->trace->jobs[0].submit_ms,
		.no_plans = true,
		.plan = plan_job,
		.plan_data = s};
	int r = conf_read(s->options->conf_file, s->options->qos_file, &conf, err);

	if (r == 0)
		r = check_parts(s->options, conf, s->trace, err);
	if (r < 0)
		return r;
	relax_conf(conf, &s->notes);
	options.conf = conf;
	r = sim_new(&options, &s->sim, err);
	if (r < 0)
		return r;
	s->conf = conf;
	conf = NULL; /* the engine's */
	s->engine = sim_get_engine(s->sim);
	return engine_begin(s->engine, NULL, err);
}

int simulate(const struct simulate_conf *options, struct trace *trace, json_t **ret_json,
	struct err *err)
{
	struct simulation s = {.options = options, .trace = trace};
	int64_t begin_ms = clock_now_ms();
	int r;

	metrics_init(&s.metrics, options->lists_jobs);
	s.refused = must_have(json_array());
	if (trace->format == TRACE_JOBD)
		s.ids = must_have(calloc(trace->count + 1, sizeof(*s.ids)));
	r = simulation_begin(&s, err);
	if (r == 0) {
		run_trace(&s);
		*ret_json = make_document(&s);
		log_debug(options->log,
			"%s: %.1f s for %zu jobs, %llu passes, %llu backfill cycles",
			options->conf_file, (double)(clock_now_ms() - begin_ms) / MS_PER_S,
			trace->count, (unsigned long long)engine_get_stats(s.engine)->passes,
			(unsigned long long)engine_get_stats(s.engine)->backfill_cycles);
	}
	simulation_clear(&s);
	return r;
}

/* ---- two at once -------------------------------------------------------------------------------
 */

/* A process that simulates, and writes the document to out. */
static pid_t fork_simulation(
	const struct simulate_conf *options, struct trace *trace, int out, struct err *err)
{
	pid_t pid = fork();
	json_t *json = NULL;
	int r;

	if (pid < 0)
		return err_set(err, -errno, "fork a simulation");
	if (pid > 0)
		return pid;
	r = simulate(options, trace, &json, err);
	if (r == 0 && json_dumpfd(json, out, JSON_COMPACT | JSON_REAL_PRECISION(15)) < 0)
		r = err_set(err, -errno, "write the result of %s", options->conf_file);
	if (r < 0)
		log_error(options->log, "%s", err->text);
	_exit(r < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}

struct child {
	pid_t pid;
	int fd; /* what comes here is its document */
};

static int child_begin(const struct simulate_conf *options, struct trace *trace,
	struct child *child, struct err *err)
{
	int ends[2], r;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, -errno, "make a pipe for a simulation");
	r = fork_simulation(options, trace, ends[1], err);
	(void)close_fd(ends[1]);
	child->pid = r < 0 ? -1 : r;
	child->fd = ends[0];
	return r < 0 ? r : 0;
}

/* 1: it has logged why there is none. */
static int child_end(struct child *child, json_t **ret_json, struct err *err)
{
	json_error_t error;
	int status = 0;

	*ret_json = json_loadfd(child->fd, 0, &error);
	if (waitpid(child->pid, &status, 0) < 0)
		return err_set(err, -errno, "wait for a simulation");
	if (WIFSIGNALED(status))
		return err_set_text(err, -EIO,
			"a simulation was ended by signal %d: is there enough memory?",
			WTERMSIG(status));
	if (status)
		return 1;
	return *ret_json
		? 0
		: err_set_text(err, -EIO, "read the result of a simulation: %s", error.text);
}

static int simulate_two(
	const struct simulate_options *o, struct trace *trace, json_t *list, struct err *err)
{
	struct simulate_conf confs[2] = {o->conf, o->conf};
	struct child children[2] = {{-1, -1}, {-1, -1}};
	int r = 0, one;
	size_t i;

	confs[1].conf_file = o->other_conf;
	if (o->other_qos)
		confs[1].qos_file = o->other_qos;
	for (i = 0; r == 0 && i < ARRAY_SIZE(children); i++)
		r = child_begin(&confs[i], trace, &children[i], err);
	for (i = 0; i < ARRAY_SIZE(children); i++) {
		json_t *json = NULL;

		one = children[i].pid > 0 ? child_end(&children[i], &json, err) : r;
		if (json)
			(void)json_array_append_new(list, json);
		r = r == 0 ? one : r;
		(void)close_fd(children[i].fd);
	}
	return r;
}

/* ---- jobd --simulate ---------------------------------------------------------------------------
 */

static json_t *begin_document(const struct trace *trace, json_t *list)
{
	return must_have(json_pack("{s:i, s:s, s:{s:o, s:s, s:I}, s:o}", "version", 1, "jobd",
		PACKAGE_VERSION, "trace", "file", report_text(trace->file), "format",
		trace_format_name(trace->format), "jobs", (json_int_t)trace->count, "simulations",
		list));
}

static bool is_stdout(const char *file)
{
	return file && strcmp(file, "-") == 0;
}

static int write_outputs(const struct simulate_options *o, const json_t *document, struct err *err)
{
	int r = 0;

	if (o->svg_file)
		r = gantt_write(document, o->svg_file, err);
	if (r == 0 && o->json_file)
		r = report_write_json(document, o->json_file, err);
	if (r == 0 && !is_stdout(o->json_file) && !is_stdout(o->svg_file))
		r = report_print(document, stdout, err);
	return r;
}

int simulate_main(const struct simulate_options *o)
{
	_cleanup_trace_ struct trace trace = {.file = NULL};
	struct err err = ERR_INIT;
	json_t *list = must_have(json_array()), *json = NULL, *document;
	size_t i;
	int r = trace_read(o->trace_file, &trace, &err);

	if (r < 0) {
		log_error(o->conf.log, "%s", err.text);
		json_decref(list);
		return EXIT_FAILURE;
	}
	for (i = 0; i < trace.notes.n; i++)
		log_info(o->conf.log, "%s", trace.notes.v[i]);
	document = begin_document(&trace, list);
	if (o->other_conf)
		r = simulate_two(o, &trace, list, &err);
	else if ((r = simulate(&o->conf, &trace, &json, &err)) == 0)
		(void)json_array_append_new(list, json);
	if (r == 0)
		r = write_outputs(o, document, &err);
	json_decref(document);
	if (r < 0)
		log_error(o->conf.log, "%s", err.text);
	return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
