/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/sim/replay.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "contrib/jobd/cli/node_table.h"
#include "contrib/jobd/cli/options.h"
#include "contrib/jobd/cli/queue_table.h"
#include "contrib/jobd/sim/history.h"
#include "contrib/jobd/sim/sim.h"
#include "stepd/base/err.h"
#include "stepd/base/fs.h"
#include "stepd/base/hostlist.h"
#include "stepd/base/json.h"
#include "stepd/base/parse.h"
#include "stepd/base/strv.h"

#define BEGIN_S       1700000000u /* of each case; any time does */
#define SAMPLE_MS     250
#define CASE_MAX      (16u << 20) /* bytes */
#define JOBS_MAX      100000u     /* numbers of jobs */
#define HOURS_MAX     (365 * 24)
#define MS_PER_S      1000u
#define TOLERANCE_S   (HISTORY_TOLERANCE_MS / (double)MS_PER_S)
#define START_MINUTES 0.15 /* planned starts are recorded in minutes, with one place */

/* Times are since the begin. */
struct known_job {
	uint32_t id;         /* the engine's; 0: it was refused */
	struct history ours; /* samples */
	struct history recorded;
};

struct sinfo_sample {
	uint64_t ms;
	struct strv lines;
};

struct replay {
	const char *name;
	json_t *json;
	struct sim *sim;
	struct engine *engine;
	const struct log *log;

	size_t next_event;
	struct known_job *jobs; /* by the number that Slurm gave them */
	uint32_t last_id, jobs_count;
	struct sinfo_sample *sinfo;
	size_t sinfo_count, sinfo_capacity;
	uint64_t sampled_ms;
	bool each_alone; /* a requested job is cancelled before the next one comes */

	size_t row; /* which is compared, from 1 on */
	double row_t;
	replay_fn differs;
	void *userdata;
	size_t compared, differences;
};

/* ---- what differs ------------------------------------------------------------------------------
 */

static void *must_have(void *memory)
{
	if (!memory)
		abort(); /* as the bitmaps do */
	return memory;
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

static void differ(struct replay *r, const char *thing, const char *expected, const char *got)
{
	const struct replay_difference difference = {.case_name = r->name,
		.t = r->row_t,
		.thing = thing,
		.expected = expected,
		.got = got};

	r->differences++;
	r->differs(&difference, r->userdata);
}

static void compare(struct replay *r, const char *thing, const char *expected, const char *got)
{
	r->compared++;
	if (strcmp(expected, got) != 0)
		differ(r, thing, expected, got);
}

static void compare_number(struct replay *r, const char *thing, int64_t expected, int64_t got)
{
	_cleanup_free_ char *a = text_of("%lld", (long long)expected);
	_cleanup_free_ char *b = text_of("%lld", (long long)got);

	compare(r, thing, a, b);
}

static uint64_t now_ms(const struct replay *r)
{
	return sim_get_time_ms(r->sim) - (uint64_t)BEGIN_S * MS_PER_S;
}

/* ---- its configuration -------------------------------------------------------------------------
 */

static int print_lines(
	FILE *out, const json_t *conf, const char *member, const char *key, struct err *err)
{
	json_t *line;
	size_t i;

	json_array_foreach (json_get_array(conf, member), i, line) {
		if (!json_is_string(line))
			return err_set_text(
				err, -EINVAL, "conf: %s must have strings only", member);
		(void)fprintf(out, "%s=%s\n", key, json_string_value(line));
	}
	return 0;
}

static int print_conf(FILE *out, const json_t *conf, struct err *err)
{
	const char *key;
	json_t *value;
	int r;

	(void)fprintf(out, "ClusterName=replay\n");
	json_object_foreach ((json_t *)conf, key, value) {
		if (json_is_string(value))
			(void)fprintf(out, "%s=%s\n", key, json_string_value(value));
		else if (json_is_integer(value))
			(void)fprintf(out, "%s=%lld\n", key, (long long)json_integer_value(value));
	}
	r = print_lines(out, conf, "nodes", "NodeName", err);
	return r < 0 ? r : print_lines(out, conf, "partitions", "PartitionName", err);
}

/* "QOS: low prio 10; mid prio 20 preempts low; lowc prio 5 PreemptMode=cancel GraceTime=8". */
static void print_qos(FILE *out, const char *text)
{
	_cleanup_free_ char *copy = must_have(strdup(text));
	char *lines = strncmp(copy, "QOS:", 4) == 0 ? copy + 4 : copy, *line, *fields, *word;

	while ((line = strsep(&lines, ";"))) {
		const char *key = "QOSName=";

		for (fields = line; (word = strsep(&fields, " "));) {
			if (!*word)
				continue;
			if (strcmp(word, "prio") == 0)
				key = " Priority=";
			else if (strcmp(word, "preempts") == 0)
				key = " Preempt=";
			else
				(void)fprintf(out, "%s%s", key, word);
			if (strcmp(word, "prio") != 0 && strcmp(word, "preempts") != 0)
				key = " ";
		}
		(void)fprintf(out, "\n");
	}
}

/* A file of memory, read by its name in /proc. */
static int memory_file(const char *text, size_t size, char **ret_path, struct err *err)
{
	int fd = fs_memory("slurm.conf", text, size);

	if (fd < 0)
		return err_set(err, fd, "make a file of memory");
	*ret_path = text_of("/proc/self/fd/%d", fd);
	return fd;
}

static int read_conf(const struct replay *r, struct conf **ret_conf, struct err *err)
{
	_cleanup_free_ char *text = NULL, *qos = NULL, *path = NULL, *qos_path = NULL;
	const char *qos_text = json_get_text(r->json, "qos", NULL);
	size_t size = 0, qos_size = 0;
	FILE *out = must_have(open_memstream(&text, &size));
	int ret = print_conf(out, json_get_object(r->json, "conf"), err), fd = -1, qos_fd = -1;

	if (fclose(out) != 0)
		must_have(NULL);
	if (qos_text) {
		out = must_have(open_memstream(&qos, &qos_size));
		print_qos(out, qos_text);
		if (fclose(out) != 0)
			must_have(NULL);
	}
	if (ret == 0)
		ret = fd = memory_file(text, size, &path, err);
	if (ret >= 0 && qos)
		ret = qos_fd = memory_file(qos, qos_size, &qos_path, err);
	if (ret >= 0)
		ret = conf_read(path, qos_path, ret_conf, err);
	if (fd >= 0)
		(void)close(fd);
	if (qos_fd >= 0)
		(void)close(qos_fd);
	return ret;
}

/* ---- samples -----------------------------------------------------------------------------------
 */

static int64_t run_seconds(const struct replay *r, const struct job *job)
{
	const job_record_t *record = &job->record;
	time_t until = (record->job_state & JOB_STATE_BASE) == JOB_SUSPENDED
		? record->suspend_time
		: engine_get_time(r->engine);

	if (record->job_state == JOB_PENDING)
		return 0;
	return until - record->start_time - record->tot_sus_time;
}

static char *where_of(const struct replay *r, const struct job *job)
{
	if (job->record.job_state == JOB_PENDING)
		return text_of("(%s)", job_reason_name(engine_get_reason(r->engine, job)));
	return text_of("%s", job->record.nodes ? job->record.nodes : "");
}

static bool has_left_queue(const struct job *job)
{
	return !job ||
		((job->record.job_state & JOB_STATE_BASE) >= JOB_COMPLETE &&
			!(job->record.job_state & JOB_COMPLETING));
}

static void sample_job(struct replay *r, struct known_job *known)
{
	struct job *job = known->id ? engine_find_job(r->engine, known->id) : NULL;

	if (known->id == 0)
		return;
	history_add_take(&known->ours,
		has_left_queue(job) ? (struct job_state){.from_ms = now_ms(r),
					      .until_ms = now_ms(r),
					      .code = "gone",
					      .where = text_of("%s", "")}
				    : (struct job_state){.from_ms = now_ms(r),
					      .until_ms = now_ms(r),
					      .code = job_state_code(job->record.job_state),
					      .where = where_of(r, job),
					      .run_s = run_seconds(r, job)});
}

static int compare_lines(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* "p*|allocated|4|n[1-4]": the nodes of a partition in the same state as this one. */
static char *sinfo_line(const struct conf_part *part, bitoff_t first, bitstr_t *left)
{
	const char *state = node_state_name(node_record_table_ptr[first].node_state);
	_cleanup_strv_ struct strv names = {.v = NULL};
	_cleanup_free_ char *list = NULL;
	bitoff_t i;

	for (i = first; (i = bit_ffs_from_bit(left, i)) >= 0; i++) {
		const node_record_t *node = &node_record_table_ptr[i];

		if (strcmp(node_state_name(node->node_state), state) != 0)
			continue;
		if (strv_add(&names, node->name) < 0)
			must_have(NULL);
		bit_clear(left, i);
	}
	list = must_have(hostlist_make(names.v, names.n));
	return text_of(
		"%s%s|%s|%zu|%s", part->name, part->is_default ? "*" : "", state, names.n, list);
}

static void sample_sinfo(struct replay *r)
{
	const struct conf *conf = engine_get_conf(r->engine);
	struct sinfo_sample *sample;
	size_t i;

	if (r->sinfo_count == r->sinfo_capacity) {
		r->sinfo_capacity = r->sinfo_capacity ? 2 * r->sinfo_capacity : 64;
		r->sinfo = must_have(reallocarray(r->sinfo, r->sinfo_capacity, sizeof(*r->sinfo)));
	}
	sample = &r->sinfo[r->sinfo_count++];
	*sample = (struct sinfo_sample){.ms = now_ms(r)};
	for (i = 0; i < conf->parts_count; i++) {
		bitstr_t *left = bit_copy(conf->parts[i].nodes);
		bitoff_t first;

		while ((first = bit_ffs(left)) >= 0) {
			if (strv_add_take(
				    &sample->lines, sinfo_line(&conf->parts[i], first, left)) < 0)
				must_have(NULL);
		}
		bit_free(left);
	}
	if (sample->lines.n > 0)
		qsort(sample->lines.v, sample->lines.n, sizeof(char *), compare_lines);
}

static void take_samples(struct replay *r)
{
	uint32_t i;

	for (i = 0; i < r->jobs_count; i++)
		sample_job(r, &r->jobs[i]);
	sample_sinfo(r);
}

/* The clock goes on, with samples on its way. */
static void run_until(struct replay *r, double t)
{
	uint64_t until_ms = t > 0 ? (uint64_t)llround(t * MS_PER_S) : 0;

	while (r->sampled_ms <= until_ms) {
		sim_run_until(r->sim, (uint64_t)BEGIN_S * MS_PER_S + r->sampled_ms);
		take_samples(r);
		r->sampled_ms += SAMPLE_MS;
	}
	if (now_ms(r) < until_ms)
		sim_run_until(r->sim, (uint64_t)BEGIN_S * MS_PER_S + until_ms);
}

/* ---- commands ----------------------------------------------------------------------------------
 */

static void job_number(struct replay *r, uint32_t number, uint32_t id)
{
	if (number >= r->jobs_count) {
		r->jobs = must_have(reallocarray(r->jobs, number + 1, sizeof(*r->jobs)));
		memset(r->jobs + r->jobs_count, 0, (number + 1 - r->jobs_count) * sizeof(*r->jobs));
		r->jobs_count = number + 1;
	}
	r->jobs[number].id = id;
	r->last_id = number;
}

static struct job *find_job(const struct replay *r, uint32_t number)
{
	uint32_t id = number < r->jobs_count ? r->jobs[number].id : 0;

	return id ? engine_find_job(r->engine, id) : NULL;
}

/* A recorded "sleep 300" runs that long, including suspensions; a job with run_s runs so many
 * seconds without them; an allocation lasts until it is cancelled. */
static void plan_job(const struct job *job, struct sim_job_plan *plan, void *userdata)
{
	const struct replay *r = userdata;
	const char *script = job->request.script, *sleep = script ? strstr(script, "sleep ") : NULL;
	_cleanup_free_ char *number = text_of("%u", job->record.job_id);
	int64_t run_s = json_get_int(json_get_object(r->json, "run_s"), number, 0);

	plan->sleeps = run_s == 0;
	if (run_s > 0)
		plan->run_ms = MS_PER_S * (uint64_t)run_s;
	else if (sleep)
		plan->run_ms = MS_PER_S * strtoull(sleep + strlen("sleep "), NULL, 10);
}

/* A job has the name of its script's file. */
static void name_job(struct job_request *request, const struct options *options)
{
	const char *file = options->rest.n ? options->rest.v[0] : NULL;
	const char *slash = file ? strrchr(file, '/') : NULL;

	if (file && !request->name)
		request->name = text_of("%s", slash ? slash + 1 : file);
}

static int submit_options(
	struct replay *r, struct options *options, uint32_t *ret_id, struct err *err)
{
	struct job_request *requests =
		must_have(calloc(options->components_count + 1, sizeof(*requests)));
	size_t i;
	int ret;

	requests[0] = options->request;
	for (i = 0; i < options->components_count; i++)
		requests[i + 1] = options->components[i];
	ret = engine_submit_components(
		r->engine, requests, options->components_count + 1, 0, 0, ret_id, err);
	free(requests);
	return ret;
}

/* The arguments of sbatch or salloc; wants: the script's text. */
static int submit(struct replay *r, enum options_command command, const struct strv *args,
	uint32_t *ret_id, struct err *err)
{
	_cleanup_options_ struct options options = {.wrap = NULL};
	struct options_input input = {.command = command,
		.argc = (int)args->n,
		.argv = args->v,
		.now = engine_get_time(r->engine)};
	struct options parsed;
	size_t i;
	int ret = options_parse(&parsed, &input, err);

	if (ret < 0)
		return ret;
	options = parsed;
	for (i = 0; i < options.notes.n; i++)
		log_warning(r->log, "%s: %s", r->name, options.notes.v[i]);
	if (command == OPTIONS_SBATCH)
		options.request.script =
			text_of("#!/bin/sh\n%s\n", options.wrap ? options.wrap : "");
	name_job(&options.request, &options);
	return submit_options(r, &options, ret_id, err);
}

/* "Granted job allocation 19": the last number of this text. */
static uint32_t number_after(const char *text, const char *before)
{
	const char *at = text ? strstr(text, before) : NULL;
	unsigned long n = at ? strtoul(at + strlen(before), NULL, 10) : 0;

	return n < JOBS_MAX ? (uint32_t)n : 0;
}

static uint32_t recorded_number(const char *out)
{
	static const char *const before[] = {
		"Submitted batch job ", "Granted job allocation ", "Pending job allocation "};
	uint32_t n = 0;
	size_t i;

	for (i = 0; n == 0 && i < ARRAY_SIZE(before); i++)
		n = number_after(out, before[i]);
	return n;
}

static int do_submit(struct replay *r, enum options_command command, const struct strv *args,
	const char *out, struct err *err)
{
	uint32_t id = 0, number = recorded_number(out);
	_cleanup_free_ char *thing = text_of("command '%s'", args->v[0]);
	struct err refused = ERR_INIT;
	uint32_t i;
	int ret = submit(r, command, args, &id, &refused);

	(void)err;
	if ((ret == 0) != (number != 0))
		compare(r, thing, out ? out : "", ret == 0 ? "accepted" : refused.text);
	else
		r->compared++;
	number = number ? number : r->last_id + 1;
	job_number(r, number, ret == 0 ? id : 0);
	for (i = 1; ret == 0 && i < engine_count_components(find_job(r, number)); i++)
		job_number(
			r, number + i, engine_get_component(find_job(r, number), i)->record.job_id);
	return 0;
}

/* ---- commands of scontrol ----------------------------------------------------------------------
 */

/* "now", "now+20minutes", "now+600". */
static time_t parse_start(const struct replay *r, const char *text)
{
	char *end;
	unsigned long n;

	if (strncmp(text, "now", 3) != 0 || text[3] != '+')
		return engine_get_time(r->engine);
	n = strtoul(text + 4, &end, 10);
	n *= strncmp(end, "minute", 6) == 0    ? 60
		: strncmp(end, "hour", 4) == 0 ? 3600
		: strncmp(end, "day", 3) == 0  ? 86400
					       : 1;
	return engine_get_time(r->engine) + (time_t)n;
}

struct resv_arguments {
	struct reservation_request request;
	uint32_t cores[64];
};

static int parse_cores(struct resv_arguments *w, const char *text)
{
	size_t n = 0;
	char *end;

	do {
		if (n + 1 == ARRAY_SIZE(w->cores))
			return -EINVAL;
		w->cores[n++] = (uint32_t)strtoul(text, &end, 10);
		if (end == text || w->cores[n - 1] == 0)
			return -EINVAL;
		text = end + 1;
	} while (*end == ',');
	w->request.core_counts = w->cores;
	return *end ? -EINVAL : 0;
}

static int parse_resv_word(
	const struct replay *r, struct resv_arguments *w, const char *key, const char *value)
{
	struct reservation_request *q = &w->request;

	if (strcasecmp(key, "reservationname") == 0)
		q->name = value;
	else if (strcasecmp(key, "starttime") == 0)
		q->start_time = parse_start(r, value);
	else if (strcasecmp(key, "duration") == 0)
		q->duration_min = (uint32_t)strtoul(value, NULL, 10);
	else if (strcasecmp(key, "nodes") == 0)
		q->nodelist = value;
	else if (strcasecmp(key, "nodecnt") == 0)
		q->node_count = (uint32_t)strtoul(value, NULL, 10);
	else if (strcasecmp(key, "corecnt") == 0)
		return parse_cores(w, value);
	else if (strcasecmp(key, "partitionname") == 0)
		q->partition = value;
	else if (strcasecmp(key, "flags") == 0)
		q->ignore_jobs = strcasestr(value, "ignore_jobs") != NULL;
	else if (strcasecmp(key, "users") != 0)
		return -EINVAL;
	return 0;
}

static int do_reserve(struct replay *r, const struct strv *args, const char *out, struct err *err)
{
	static const uid_t root = 0;
	struct resv_arguments w = {.request = {.users = &root, .users_count = 1}};
	bool expected = out && strstr(out, "created") != NULL;
	struct err refused = ERR_INIT;
	const char *name;
	size_t i;
	int ret;

	for (i = 3; i < args->n; i++) {
		char *key = args->v[i], *value = strchr(key, '=');

		if (!value)
			return err_set_text(err, -EINVAL, "'%s' in a reservation is unknown", key);
		*value++ = '\0';
		if (parse_resv_word(r, &w, key, value) < 0)
			return err_set_text(err, -EINVAL, "'%s' in a reservation is unknown", key);
	}
	ret = engine_reserve(r->engine, &w.request, &name, &refused);
	r->compared++;
	if ((ret == 0) != expected)
		differ(r, "reservation", out ? out : "", ret == 0 ? "created" : refused.text);
	return 0;
}

static int do_job_command(struct replay *r, const struct strv *args, struct err *err)
{
	const char *what = args->v[args->n > 2 ? 1 : 0];
	struct job *job = find_job(r, (uint32_t)strtoul(args->v[args->n - 1], NULL, 10));
	struct engine *e = r->engine;

	if (!job)
		return err_set_text(err, -EINVAL, "command '%s %s': there is no such job", what,
			args->v[args->n - 1]);
	if (strcmp(what, "scancel") == 0)
		return engine_cancel(e, job, err);
	if (strcmp(what, "hold") == 0)
		return engine_hold(e, job, true, err);
	if (strcmp(what, "release") == 0)
		return engine_release(e, job, true, err);
	if (strcmp(what, "suspend") == 0)
		return engine_suspend(e, job, err);
	if (strcmp(what, "resume") == 0)
		return engine_resume(e, job, err);
	if (strcmp(what, "requeue") == 0)
		return engine_requeue(e, job, err);
	return err_set_text(err, -EINVAL, "command '%s' is unknown", what);
}

static int do_scontrol(struct replay *r, const struct strv *args, const char *out, struct err *err)
{
	const char *verb = args->n > 1 ? args->v[1] : "";
	const char *what = args->n > 2 ? args->v[2] : "";

	if (strcmp(verb, "create") == 0 && strcmp(what, "reservation") == 0)
		return do_reserve(r, args, out, err);
	if (strcmp(verb, "delete") == 0 && strncmp(what, "reservationname=", 16) == 0)
		return engine_delete_reservation(r->engine, what + 16, err);
	if (args->n == 3)
		return do_job_command(r, args, err);
	return err_set_text(err, -EINVAL, "command 'scontrol %s %s' is unknown", verb, what);
}

static int do_command(struct replay *r, const char *line, const char *out, struct err *err)
{
	_cleanup_strv_ struct strv args = {.v = NULL};
	int ret = options_split(line, &args, err);

	if (ret < 0)
		return ret;
	if (args.n > 1 && strcmp(args.v[0], "salloc") == 0)
		return do_submit(r, OPTIONS_SALLOC, &args, out, err);
	if (args.n > 1 && strcmp(args.v[0], "sbatch") == 0)
		return do_submit(r, OPTIONS_SBATCH, &args, out, err);
	if (args.n > 1 && strcmp(args.v[0], "scontrol") == 0)
		return do_scontrol(r, &args, out, err);
	if (args.n > 1 && strcmp(args.v[0], "scancel") == 0)
		return do_job_command(r, &args, err);
	return err_set_text(err, -EINVAL, "command '%.60s' is unknown", line);
}

static const json_t *next_event(const struct replay *r)
{
	return json_array_get(json_get_array(r->json, "events"), r->next_event);
}

static bool event_is_reservation(const json_t *event)
{
	return strncmp(json_get_text(event, "do", ""), "scontrol create reservation", 27) == 0;
}

static int do_event(struct replay *r, const json_t *event, bool at_its_time, struct err *err)
{
	const char *line = json_get_text(event, "do", NULL);

	r->next_event++;
	if (!line)
		return err_set_text(err, -EINVAL, "event %zu has no command", r->next_event);
	if (at_its_time)
		run_until(r, json_number_value(json_object_get(event, "t")));
	if (do_command(r, line, json_get_text(event, "out", NULL), err) < 0)
		return err_prefix(err, "event %zu", r->next_event);
	run_until(r, (double)now_ms(r) / MS_PER_S);
	sim_run_until(r->sim, sim_get_time_ms(r->sim));
	return 0;
}

/* Those before a row; where it shows reservations: up to the one that was made last. */
static int do_events_before(struct replay *r, double t, bool reservations, struct err *err)
{
	const json_t *event;
	int ret = 0;

	while (ret == 0 && (event = next_event(r))) {
		double its = json_number_value(json_object_get(event, "t"));
		bool is_reservation = event_is_reservation(event);

		if (its > t || (its == t && !reservations))
			break;
		ret = do_event(r, event, true, err);
		if (reservations && is_reservation)
			break;
	}
	return ret;
}

static void cancel(struct replay *r, struct job *job)
{
	struct err err = ERR_INIT;

	if (!has_left_queue(job) && engine_cancel(r->engine, job, &err) < 0)
		log_error(r->log, "%s", err.text);
}

static void cancel_all(struct replay *r)
{
	size_t i;

	for (i = 0; i < engine_count_jobs(r->engine); i++) {
		if (engine_get_job(r->engine, i))
			cancel(r, engine_get_job(r->engine, i));
	}
	sim_run_until(r->sim, sim_get_time_ms(r->sim));
}

/* ---- what a request got ------------------------------------------------------------------------
 */

/* CPUs of a node, "0-3,8": cores have their threads one after the other. */
static char *cpus_text(const json_t *node, const node_record_t *record)
{
	const char *cores_text = json_get_text(node, "cores", NULL);
	bitstr_t *cores = bit_alloc(record->tot_cores), *cpus = bit_alloc(record->cpus);
	char text[4096];
	bitoff_t i = 0;

	if (!cores_text || bit_unfmt(cores, cores_text) < 0)
		bit_set_all(cores);
	for (; (i = bit_ffs_from_bit(cores, i)) >= 0; i++) {
		bitoff_t first = i * record->threads, last = first + record->threads - 1;

		if (last < record->cpus)
			bit_nset(cpus, first, last);
	}
	(void)bit_fmt(text, sizeof(text), cpus);
	bit_free(cores);
	bit_free(cpus);
	return text_of("%s", text);
}

static const node_record_t *find_node(const char *name)
{
	int i;

	for (i = 0; i < node_record_count; i++) {
		if (strcmp(node_record_table_ptr[i].name, name) == 0)
			return &node_record_table_ptr[i];
	}
	return NULL;
}

/* "n1:0-3:0 n2:0:0": CPUs and MB of each node. */
static char *got_allocation(const json_t *json)
{
	char *text = text_of("%s", ""), *longer;
	json_t *node;
	size_t i;

	json_array_foreach (json_get_array(json, "allocated_nodes"), i, node) {
		const char *name = json_get_text(node, "name", "?");
		const node_record_t *record = find_node(name);
		_cleanup_free_ char *cpus = record ? cpus_text(node, record) : text_of("?");

		longer = text_of("%s%s%s:%s:%lld", text, *text ? " " : "", name, cpus,
			(long long)json_get_int(node, "memory_mb", 0));
		free(text);
		text = longer;
	}
	return text;
}

struct expected_node {
	char **text;
	const char *cpus;
	long long memory_mb;
};

static int add_expected_node(const char *name, void *userdata)
{
	struct expected_node *e = userdata;
	char *longer = text_of(
		"%s%s%s:%s:%lld", *e->text, **e->text ? " " : "", name, e->cpus, e->memory_mb);

	free(*e->text);
	*e->text = longer;
	return 0;
}

static char *expected_allocation(const json_t *row)
{
	char *text = text_of("%s", "");
	json_t *part;
	size_t i;

	json_array_foreach (json_get_array(row, "alloc"), i, part) {
		struct expected_node e = {.text = &text,
			.cpus = json_get_text(part, "cpus", "?"),
			.memory_mb = json_get_int(part, "mem", 0)};

		if (hostlist_each(json_get_text(part, "nodes", ""), CONF_NODES_MAX,
			    add_expected_node, &e) < 0)
			return text;
	}
	return text;
}

/* "request 3 (-N2): WHAT" */
static char *request_thing(const struct replay *r, const char *request, const char *what)
{
	return text_of("row %zu, request %s: %s", r->row, request, what);
}

static void compare_allocation(
	struct replay *r, const json_t *row, const char *request, const json_t *job)
{
	_cleanup_free_ char *nodes = request_thing(r, request, "nodes");
	_cleanup_free_ char *cpus = request_thing(r, request, "CPUs");
	_cleanup_free_ char *count = request_thing(r, request, "number of CPUs");
	_cleanup_free_ char *expected = NULL, *got = NULL;

	compare(r, nodes, json_get_text(row, "nodes", ""), json_get_text(job, "nodes", ""));
	if (json_get_array(row, "alloc")) {
		expected = expected_allocation(row);
		got = got_allocation(job);
		compare(r, cpus, expected, got);
	}
	if (json_object_get(row, "num_cpus"))
		compare_number(
			r, count, json_get_int(row, "num_cpus", 0), json_get_int(job, "cpus", 0));
}

static void compare_request(
	struct replay *r, const json_t *row, const char *request, struct job *job)
{
	_cleanup_free_ char *state = request_thing(r, request, "state");
	const char *pending = json_get_text(row, "pending", NULL);
	_cleanup_free_ char *where = where_of(r, job), *got = NULL;
	json_t *json;

	got = job->record.job_state == JOB_PENDING
		? text_of("waits %s", where)
		: text_of("%s", job_state_name(job->record.job_state));
	if (pending) {
		_cleanup_free_ char *expected = text_of("waits %s", pending);

		compare(r, state, expected, got);
		return;
	}
	compare(r, state, "RUNNING", got);
	if (job->record.job_state != JOB_RUNNING)
		return;
	json = must_have(job_to_json(r->engine, job));
	compare_allocation(r, row, request, json);
	json_decref(json);
}

static int row_request(struct replay *r, const json_t *row, struct err *err)
{
	const char *request = json_get_text(row, "request", "");
	_cleanup_free_ char *line = text_of("salloc --no-shell %s", request);
	_cleanup_free_ char *thing = request_thing(r, request, "submission");
	const char *rejected = json_get_text(row, "rejected", NULL);
	_cleanup_strv_ struct strv args = {.v = NULL};
	struct err refused = ERR_INIT;
	struct job *job;
	uint32_t id = 0;
	int ret = options_split(line, &args, err);

	if (ret < 0)
		return ret;
	ret = submit(r, OPTIONS_SALLOC, &args, &id, &refused);
	job_number(r, r->last_id + 1, ret == 0 ? id : 0);
	r->compared++;
	if ((ret < 0) != (rejected != NULL))
		differ(r, thing, rejected ? rejected : "accepted",
			ret < 0 ? refused.text : "accepted");
	if (ret < 0)
		return 0;
	sim_run_until(r->sim, sim_get_time_ms(r->sim));
	job = engine_find_job(r->engine, id);
	if (!rejected)
		compare_request(r, row, request, job);
	/* one that waits was given up after some seconds, which are seen in the timeline */
	if (json_get_text(row, "pending", NULL) && r->row_t >= 0)
		run_until(r, r->row_t + 2);
	take_samples(r);
	if (r->each_alone || rejected)
		cancel(r, job);
	sim_run_until(r->sim, sim_get_time_ms(r->sim));
	return 0;
}

static int do_events_left(struct replay *r, struct err *err)
{
	const json_t *event;
	int ret = 0;

	while (ret == 0 && (event = next_event(r)))
		ret = do_event(r, event, false, err);
	return ret;
}

/* "free", or the nodes of an allocation that the next event makes. */
static int row_busy(struct replay *r, const json_t *row, struct err *err)
{
	const json_t *event = next_event(r);

	cancel_all(r);
	if (strcmp(json_get_text(row, "busy", ""), "free") == 0)
		return 0;
	return event ? do_event(r, event, false, err)
		     : err_set_text(err, -EINVAL, "no event makes the nodes busy");
}

static int row_sequence(struct replay *r, const json_t *row, struct err *err)
{
	const char *text = json_get_text(row, "sequence", "");

	cancel_all(r);
	r->each_alone = strstr(text, "kept") == NULL;
	return strstr(text, "pre-load") ? do_events_left(r, err) : 0;
}

/* ---- reservations ------------------------------------------------------------------------------
 */

static char *join_array(const json_t *array)
{
	char *text = text_of("%s", ""), *longer;
	json_t *one;
	size_t i;

	json_array_foreach ((json_t *)array, i, one) {
		longer = text_of("%s%s%s", text, *text ? "," : "",
			json_is_string(one) ? json_string_value(one) : "?");
		free(text);
		text = longer;
	}
	return text;
}

static void compare_reservation(struct replay *r, const json_t *expected, const json_t *got)
{
	const char *name = json_get_text(expected, "ReservationName", "");
	_cleanup_free_ char *nodes = text_of("reservation %s: nodes", name);
	_cleanup_free_ char *count = text_of("reservation %s: number of nodes", name);
	_cleanup_free_ char *cores = text_of("reservation %s: number of cores", name);
	_cleanup_free_ char *flags = text_of("reservation %s: flags", name);
	_cleanup_free_ char *its_flags = join_array(json_get_array(got, "flags"));

	compare(r, nodes, json_get_text(expected, "Nodes", ""), json_get_text(got, "nodes", ""));
	compare_number(r, count, atoll(json_get_text(expected, "NodeCnt", "0")),
		json_get_int(got, "node_count", 0));
	compare_number(r, cores, atoll(json_get_text(expected, "CoreCnt", "0")),
		json_get_int(got, "core_count", 0));
	compare(r, flags, json_get_text(expected, "Flags", ""), its_flags);
}

static const json_t *find_reservation(const json_t *list, const char *name)
{
	json_t *one;
	size_t i;

	json_array_foreach ((json_t *)list, i, one) {
		if (strcmp(json_get_text(one, "name", ""), name) == 0)
			return one;
	}
	return NULL;
}

/* "n1:0 n2:0-1", in the order of the nodes. */
static char *expected_cores(const json_t *row)
{
	char *text = text_of("%s", ""), *longer;
	json_t *pair;
	size_t i;

	json_array_foreach (json_get_array(row, "cores"), i, pair) {
		const char *name = json_string_value(json_array_get(pair, 0));
		const char *cores = json_string_value(json_array_get(pair, 1));

		longer = text_of("%s%s%s:%s", text, *text ? " " : "", name ? name : "?",
			cores ? cores : "?");
		free(text);
		text = longer;
	}
	return text;
}

static char *got_cores(const json_t *list)
{
	char *text = text_of("%s", ""), *longer;
	json_t *resv, *node;
	size_t i, k;

	json_array_foreach ((json_t *)list, i, resv) {
		json_array_foreach (json_get_array(resv, "cores"), k, node) {
			longer = text_of("%s%s%s:%s", text, *text ? " " : "",
				json_get_text(node, "name", "?"),
				json_get_text(node, "cores", "?"));
			free(text);
			text = longer;
		}
	}
	return text;
}

static int row_reservations(struct replay *r, const json_t *row, struct err *err)
{
	json_t *list = engine_reservations_to_json(r->engine), *expected;
	_cleanup_free_ char *cores = expected_cores(row), *its_cores = got_cores(list);
	size_t i, n = 0;

	(void)err;
	json_array_foreach (json_get_array(row, "reservations"), i, expected) {
		const char *name = json_get_text(expected, "ReservationName", NULL);

		if (!name)
			continue; /* scontrol's "No reservations in the system" */
		n++;
		compare_reservation(r, expected, find_reservation(list, name));
	}
	compare_number(r, "number of reservations", (int64_t)n, (int64_t)json_array_size(list));
	if (*cores)
		compare(r, "cores of reservations", cores, its_cores);
	json_decref(list);
	return 0;
}

/* ---- the start of jobs that wait ---------------------------------------------------------------
 */

static void compare_start(
	struct replay *r, const json_t *expected, const struct job *job, const char *name)
{
	_cleanup_free_ char *minute = text_of("job %s: minute of its start", name);
	_cleanup_free_ char *sched = text_of("job %s: planned nodes", name);
	json_t *json = must_have(job_to_json(r->engine, job));
	double its = ((double)json_get_int(json, "start_time", 0) - BEGIN_S) / 60;
	double wanted = json_number_value(json_object_get(expected, "start_min"));
	_cleanup_free_ char *a = text_of("%.1f", wanted), *b = text_of("%.1f", its);
	const char *nodes = json_get_text(expected, "sched_nodes", "(null)");

	r->compared++;
	if (fabs(its - wanted) > START_MINUTES)
		differ(r, minute, a, b);
	if (strcmp(nodes, "(null)") != 0)
		compare(r, sched, nodes, json_get_text(json, "scheduled_nodes", ""));
	json_decref(json);
}

static int row_start(struct replay *r, const json_t *row, struct err *err)
{
	json_t *expected;
	size_t i;

	(void)err;
	json_array_foreach (json_get_array(row, "squeue_start"), i, expected) {
		const char *name = json_get_text(expected, "job", "0");
		_cleanup_free_ char *thing = text_of("job %s: state", name);
		struct job *job = find_job(r, (uint32_t)strtoul(name, NULL, 10));

		if (has_left_queue(job)) {
			compare(r, thing, json_get_text(expected, "st", ""), "gone");
			continue;
		}
		compare(r, thing, json_get_text(expected, "st", ""),
			job_state_code(job->record.job_state));
		compare_start(r, expected, job, name);
	}
	return 0;
}

/* ---- snapshots, which are compared at the end --------------------------------------------------
 */

/* The numbers of a heterogeneous job's components follow each other: "2+1" is 3. */
static uint32_t number_of(const char *name)
{
	char *end;
	unsigned long n = strtoul(name, &end, 10);

	return (uint32_t)(n + (*end == '+' ? strtoul(end + 1, NULL, 10) : 0));
}

static bool in_time(uint64_t ms, double t)
{
	return fabs((double)ms / MS_PER_S - t) <= TOLERANCE_S;
}

/* "1:05", "1:00:05" */
static int64_t parse_run_time(const char *text)
{
	int64_t n = 0;
	char *end;

	for (;; text = end + 1) {
		n = 60 * n + strtol(text, &end, 10);
		if (*end != ':')
			return n;
	}
}

/* Of a time of any case: there is nothing of ours before the begin, nor after the last hour. */
static uint64_t ms_of(double t)
{
	return (uint64_t)llround(fmax(0, fmin(t, HOURS_MAX * 3600.)) * MS_PER_S);
}

static void differ_in_state(struct replay *r, const char *name, const struct job_state *state,
	const struct job_state *ours)
{
	_cleanup_free_ char *thing = text_of("job %s", name);
	_cleanup_free_ char *expected = text_of("%s %s", state->code, state->where);
	_cleanup_free_ char *got = ours
		? text_of("%s %s, runs for %lld s", ours->code, ours->where, (long long)ours->run_s)
		: text_of("no such job");

	differ(r, thing, expected, got);
}

static const struct known_job *find_known(const struct replay *r, const char *name)
{
	uint32_t number = number_of(name);

	return number < r->jobs_count ? &r->jobs[number] : NULL;
}

/* "PD (None)" is on its way. */
static bool is_compared(const struct job_state *state)
{
	return strcmp(state->where, "(None)") != 0;
}

/* A state at one time. */
static void compare_state(struct replay *r, const char *name, const struct job_state *state)
{
	static const struct known_job none;
	const struct known_job *known = find_known(r, name) ?: &none;

	if (!is_compared(state))
		return;
	r->compared++;
	if (!history_has(&known->ours, &known->recorded, state))
		differ_in_state(r, name, state, history_at(&known->ours, state->from_ms));
}

static void compare_sinfo(struct replay *r, const json_t *row, double t)
{
	_cleanup_strv_ struct strv lines = {.v = NULL};
	_cleanup_free_ char *expected = NULL, *got = NULL;
	json_t *line;
	size_t i;

	json_array_foreach (json_get_array(row, "sinfo"), i, line) {
		if (strv_add(&lines, json_is_string(line) ? json_string_value(line) : "?") < 0)
			must_have(NULL);
	}
	if (lines.n == 0)
		return;
	r->compared++;
	if (lines.n > 0)
		qsort(lines.v, lines.n, sizeof(char *), compare_lines);
	expected = must_have(strv_join(lines.v, ' '));
	for (i = 0; i < r->sinfo_count; i++) {
		_cleanup_free_ char *text = must_have(strv_join(r->sinfo[i].lines.v, ' '));

		if (in_time(r->sinfo[i].ms, t) && strcmp(text, expected) == 0)
			return;
		if ((double)r->sinfo[i].ms / MS_PER_S <= t) {
			free(got);
			got = take_ptr(text);
		}
	}
	differ(r, "sinfo", expected, got ? got : "");
}

static bool is_shown(const json_t *jobs, uint32_t number)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)jobs, name, value) {
		if (number_of(name) == number)
			return true;
	}
	return false;
}

static struct job_state gone_at(uint64_t ms)
{
	return (struct job_state){
		.from_ms = ms, .until_ms = ms, .code = "gone", .where = (char *)"", .run_s = -1};
}

/* A job that squeue did not show. */
static bool is_absent(const struct known_job *known, const json_t *jobs, uint32_t i, uint64_t ms)
{
	return known->ours.n > 0 && known->ours.v[0].from_ms + HISTORY_TOLERANCE_MS <= ms &&
		!is_shown(jobs, i);
}

static struct job_state shown_at(uint64_t ms, const json_t *job)
{
	const char *run = json_string_value(json_array_get(job, 2));

	return (struct job_state){.from_ms = ms,
		.until_ms = ms,
		.code = json_string_value(json_array_get(job, 0)) ?: "",
		.where = (char *)(json_string_value(json_array_get(job, 1)) ?: ""),
		.run_s = parse_run_time(run ? run : "0")};
}

static void compare_snapshot(struct replay *r, const json_t *row, double t)
{
	json_t *jobs = json_get_object(row, "jobs"), *job;
	const char *name;
	uint32_t i;

	json_object_foreach (jobs, name, job) {
		const struct job_state state = shown_at(ms_of(t), job);

		compare_state(r, name, &state);
	}
	for (i = 1; jobs && i < r->jobs_count; i++) {
		_cleanup_free_ char *number = text_of("%u", i);
		const struct job_state state = gone_at(ms_of(t));

		if (is_absent(&r->jobs[i], jobs, i, state.from_ms))
			compare_state(r, number, &state);
	}
	compare_sinfo(r, row, t);
}

/* Until the next change of this job, or the last one of all: later nobody saw it. */
static uint64_t until_next_change(const struct replay *r, size_t i, uint32_t number)
{
	const json_t *timeline = json_get_array(r->json, "timeline"), *change = NULL;

	while (++i < json_array_size(timeline)) {
		change = json_array_get(timeline, i);
		if (number_of(json_string_value(json_array_get(change, 1)) ?: "") == number)
			break;
	}
	return ms_of(json_number_value(json_array_get(change, 0)));
}

/* [t, job, state, nodes]; false: it is none. */
static bool read_change(
	const struct replay *r, size_t i, const char **ret_name, struct job_state *ret_state)
{
	const json_t *change = json_array_get(json_get_array(r->json, "timeline"), i);
	const char *name = json_string_value(json_array_get(change, 1));
	const char *code = json_string_value(json_array_get(change, 2));
	const char *where = json_string_value(json_array_get(change, 3));
	uint64_t from_ms = ms_of(json_number_value(json_array_get(change, 0))), until_ms;

	if (!name || !code || !where)
		return false;
	until_ms = until_next_change(r, i, number_of(name));
	*ret_state = (struct job_state){.from_ms = from_ms,
		.until_ms = until_ms > from_ms ? until_ms : from_ms,
		.code = code,
		.where = (char *)where,
		.run_s = -1};
	*ret_name = name;
	return true;
}

static void record(struct replay *r, uint32_t number, struct job_state state)
{
	if (number >= r->jobs_count)
		return; /* there is nothing of ours to be compared */
	state.where = text_of("%s", state.where);
	history_add_take(&r->jobs[number].recorded, state);
}

/* The recorded states of each job, from the timeline and from the snapshots. */
static void read_recorded(struct replay *r)
{
	struct job_state state;
	const char *name;
	json_t *row, *jobs, *job;
	uint32_t k;
	size_t i;

	for (i = 0; i < json_array_size(json_get_array(r->json, "timeline")); i++) {
		if (read_change(r, i, &name, &state))
			record(r, number_of(name), state);
	}
	json_array_foreach (json_get_array(r->json, "expect"), i, row) {
		uint64_t ms = ms_of(json_number_value(json_object_get(row, "t")));

		jobs = json_get_object(row, "jobs");
		json_object_foreach (jobs, name, job)
			record(r, number_of(name), shown_at(ms, job));
		for (k = 1; jobs && k < r->jobs_count; k++) {
			if (is_absent(&r->jobs[k], jobs, k, ms))
				record(r, k, gone_at(ms));
		}
	}
	for (k = 0; k < r->jobs_count; k++)
		history_sort(&r->jobs[k].recorded);
}

/* A change: until the next one the job has this state. What became of the last one nobody saw, so
 * that it has to come here. */
static void compare_change(struct replay *r, const char *name, const struct job_state *state)
{
	static const struct known_job none;
	const struct known_job *known = find_known(r, name) ?: &none;
	const struct job_state *ours = NULL;
	bool is_last = state->until_ms == state->from_ms;

	if (!is_last)
		ours = history_find_difference(&known->ours, &known->recorded, state);
	r->compared++;
	r->row_t = (double)(ours ? ours->from_ms : state->from_ms) / MS_PER_S;
	if (ours)
		differ_in_state(r, name, state, ours);
	else if (known->ours.n == 0 || (is_last && !history_comes(&known->ours, state)))
		differ_in_state(r, name, state, history_at(&known->ours, state->from_ms));
}

static void compare_timeline(struct replay *r)
{
	struct job_state state;
	const char *name;
	size_t i;

	for (i = 0; i < json_array_size(json_get_array(r->json, "timeline")); i++) {
		if (read_change(r, i, &name, &state) && is_compared(&state))
			compare_change(r, name, &state);
	}
}

/* ---- fields of scontrol show job ---------------------------------------------------------------
 */

static void compare_field(
	struct replay *r, const char *name, const char *field, const json_t *row, const char *got)
{
	const char *expected = json_get_text(row, field, NULL);
	_cleanup_free_ char *thing = text_of("job %s: %s", name, field);

	if (expected)
		compare(r, thing, expected, got);
}

static int row_show(struct replay *r, const json_t *row, struct err *err)
{
	const json_t *show = json_object_get(row, "show");
	_cleanup_free_ char *name = json_is_integer(show)
		? text_of("%lld", (long long)json_integer_value(show))
		: text_of("%s", json_get_text(row, "show", ""));
	const struct job *job = find_job(r, number_of(name));
	_cleanup_free_ char *restarts = NULL;

	(void)err;
	if (!job) {
		_cleanup_free_ char *thing = text_of("job %s", name);

		compare(r, thing, "is there", "is not there");
		return 0;
	}
	restarts = text_of("%u", job->restarts);
	compare_field(r, name, "JobState", row, job_state_name(job->record.job_state));
	compare_field(r, name, "Reason", row, job_reason_name(engine_get_reason(r->engine, job)));
	compare_field(r, name, "Restarts", row, restarts);
	compare_field(r, name, "Requeue", row, job->may_requeue ? "1" : "0");
	return 0;
}

/* [number, state, reason, restarts] */
static int row_states(struct replay *r, const json_t *row, struct err *err)
{
	json_t *one;
	size_t i;

	(void)err;
	json_array_foreach (json_get_array(row, "states"), i, one) {
		const char *name = json_string_value(json_array_get(one, 0));
		const char *state = json_string_value(json_array_get(one, 1));
		const struct job *job = find_job(r, number_of(name ? name : "0"));
		_cleanup_free_ char *thing = text_of("job %s: state", name ? name : "?");

		compare(r, thing, state ? state : "",
			job ? job_state_name(job->record.job_state) : "no such job");
	}
	return 0;
}

/* ---- preemption: low jobs of several sizes, and one that needs their nodes ---------------------
 */

/* [size, nodes] */
static void compare_low(struct replay *r, const json_t *low, const struct job *job)
{
	const char *nodes = json_string_value(json_array_get(low, 1));
	_cleanup_free_ char *thing = text_of("row %zu: nodes of a low job", r->row);

	compare(r, thing, nodes ? nodes : "", job && job->record.nodes ? job->record.nodes : "");
}

static bool was_preempted(const struct job *job)
{
	uint32_t state = job ? job->record.job_state & JOB_STATE_BASE : JOB_PREEMPTED;

	return state != JOB_RUNNING;
}

static int row_pattern(struct replay *r, const json_t *row, struct err *err)
{
	const json_t *low = json_get_array(row, "low");
	size_t n = json_array_size(low), i;
	uint32_t first = r->last_id + 1;
	char *got = text_of("%s", ""), *longer;
	_cleanup_free_ char *expected = join_array(json_get_array(row, "preempted_nodes"));
	_cleanup_free_ char *thing = text_of(
		"row %zu, pattern %s: preempted nodes", r->row, json_get_text(row, "pattern", "?"));
	int ret = 0;

	cancel_all(r);
	for (i = 0; ret == 0 && i < n; i++) {
		ret = do_event(r, next_event(r), true, err);
		if (ret == 0)
			compare_low(r, json_array_get(low, i), find_job(r, first + (uint32_t)i));
	}
	if (ret == 0)
		ret = do_event(r, next_event(r), true, err);
	for (i = 0; ret == 0 && i < n; i++) {
		const char *nodes = json_string_value(json_array_get(json_array_get(low, i), 1));

		if (!was_preempted(find_job(r, first + (uint32_t)i)))
			continue;
		longer = text_of("%s%s%s", got, *got ? "," : "", nodes ? nodes : "?");
		free(got);
		got = longer;
	}
	if (ret == 0)
		compare(r, thing, expected, got);
	free(got);
	return ret;
}

/* ---- tables as they are printed ----------------------------------------------------------------
 */

static json_t *list_jobs(const struct replay *r)
{
	json_t *list = must_have(json_array());
	size_t i;

	for (i = 0; i < engine_count_jobs(r->engine); i++) {
		const struct job *job = engine_get_job(r->engine, i);

		if (job)
			(void)json_array_append_new(list, must_have(job_to_json(r->engine, job)));
	}
	return list;
}

/* "squeue", "squeue -Si" */
static int print_queue(const struct replay *r, const struct strv *args, FILE *out, struct err *err)
{
	struct queue_view view = {.format = QUEUE_FORMAT, .header = true};
	json_t *jobs;
	int ret;

	if (args->n == 2 && strncmp(args->v[1], "-S", 2) == 0)
		view.sort = args->v[1] + 2;
	else if (args->n > 1)
		return err_set_text(err, -EINVAL,
			"option '%.60s' of squeue is unknown: only -S is known", args->v[1]);
	jobs = list_jobs(r);
	ret = queue_print(&view, jobs, engine_get_time(r->engine), out, err);
	json_decref(jobs);
	return ret;
}

static int print_nodes(const struct replay *r, FILE *out, struct err *err)
{
	const struct node_view view = {.format = NODES_FORMAT, .header = true};
	json_t *nodes = must_have(json_array()), *parts = must_have(json_array());
	part_record_t *part;
	ListIterator next = list_iterator_create(part_list);
	int ret, i;

	for (i = 0; i < node_record_count; i++)
		(void)json_array_append_new(
			nodes, must_have(node_to_json(r->engine, &node_record_table_ptr[i])));
	while ((part = list_next(next)))
		(void)json_array_append_new(parts, must_have(part_to_json(r->engine, part)));
	list_iterator_destroy(next);
	ret = node_table_print(&view, nodes, parts, out, err);
	json_decref(nodes);
	json_decref(parts);
	return ret;
}

static int print_table(
	const struct replay *r, const char *command, char **ret_text, struct err *err)
{
	_cleanup_strv_ struct strv args = {.v = NULL};
	int ret = options_split(command, &args, err);
	size_t size = 0;
	FILE *out;

	if (ret < 0)
		return ret;
	out = must_have(open_memstream(ret_text, &size));
	if (args.n > 0 && strcmp(args.v[0], "squeue") == 0)
		ret = print_queue(r, &args, out, err);
	else if (args.n == 1 && strcmp(args.v[0], "sinfo") == 0)
		ret = print_nodes(r, out, err);
	else
		ret = err_set_text(err, -EINVAL, "command '%.60s' prints no known table", command);
	(void)fclose(out);
	return ret;
}

/* The fields of a line: one blank stands between two, and "*" for the user. Tables of old have
 * NODELIST where NODELIST(REASON) is now. */
static char *plain_line(const char *line, size_t user_column)
{
	_cleanup_free_ char *copy = text_of("%s", line);
	char *rest = copy, *word, *text = text_of("%s", ""), *longer;
	size_t column = 0;

	while ((word = strsep(&rest, " \t"))) {
		if (!*word)
			continue;
		if (++column == user_column)
			word = (char *)"*";
		else if (strcmp(word, "NODELIST(REASON)") == 0)
			word = (char *)"NODELIST";
		longer = text_of("%s%s%s", text, *text ? " " : "", word);
		free(text);
		text = longer;
	}
	return text;
}

/* From 1 on; 0: a table without users. */
static size_t find_user_column(const char *title)
{
	_cleanup_free_ char *copy = text_of("%s", title);
	char *rest = copy, *word;
	size_t column = 0;

	while ((word = strsep(&rest, " \t"))) {
		column += *word != '\0';
		if (strcmp(word, "USER") == 0)
			return column;
	}
	return 0;
}

static int row_prints(struct replay *r, const json_t *row, struct err *err)
{
	const json_t *lines = json_get_array(row, "lines");
	const char *command = json_get_text(row, "prints", "");
	_cleanup_free_ char *text = NULL;
	char *rest, *line;
	size_t i, user_column = 0;
	int ret = print_table(r, command, &text, err);

	if (ret < 0)
		return ret;
	rest = text;
	for (i = 0; (line = strsep(&rest, "\n")) && (*line || rest); i++) {
		const char *wanted = json_string_value(json_array_get(lines, i));
		_cleanup_free_ char *thing = text_of("%s, line %zu", command, i + 1);
		_cleanup_free_ char *expected = NULL, *got = NULL;

		expected = plain_line(wanted ? wanted : "", user_column);
		got = plain_line(line, user_column);
		compare(r, thing, expected, got);
		if (i == 0)
			user_column = find_user_column(line);
	}
	compare_number(r, "number of lines", (int64_t)json_array_size(lines), (int64_t)i);
	return 0;
}

/* ---- all rows ----------------------------------------------------------------------------------
 */

static int row_snapshot(struct replay *r, const json_t *row, struct err *err)
{
	(void)r;
	(void)row;
	(void)err;
	return 0; /* later: compare_snapshots() */
}

static const struct {
	const char *member;
	int (*run)(struct replay *r, const json_t *row, struct err *err);
} row_kinds[] = {
	{"request", row_request},
	{"busy", row_busy},
	{"sequence", row_sequence},
	{"reservations", row_reservations},
	{"squeue_start", row_start},
	{"show", row_show},
	{"states", row_states},
	{"pattern", row_pattern},
	{"prints", row_prints},
	{"jobs", row_snapshot},
	{"sinfo", row_snapshot},
	/* what processes were sent: there are none here */
	{"signals_seconds_after_hi_submission", row_snapshot},
};

static int run_row(struct replay *r, const json_t *row, struct err *err)
{
	bool has_time = json_is_number(json_object_get(row, "t"));
	size_t i;
	int ret = 0;

	r->row_t = has_time ? json_number_value(json_object_get(row, "t")) : -1;
	if (r->row_t > HOURS_MAX * 3600.)
		return err_set_text(err, -EINVAL, "t is above %d hours", HOURS_MAX);
	if (has_time) {
		ret = do_events_before(
			r, r->row_t, json_get_array(row, "reservations") != NULL, err);
		if (ret == 0)
			run_until(r, r->row_t);
	}
	for (i = 0; ret == 0 && i < ARRAY_SIZE(row_kinds); i++) {
		if (json_object_get(row, row_kinds[i].member))
			return row_kinds[i].run(r, row, err);
	}
	return ret < 0 ? ret : err_set_text(err, -EINVAL, "it shows nothing that is known here");
}

static void compare_snapshots(struct replay *r)
{
	json_t *row;
	size_t i;

	json_array_foreach (json_get_array(r->json, "expect"), i, row) {
		r->row = i + 1;
		r->row_t = json_number_value(json_object_get(row, "t"));
		if (json_object_get(row, "t"))
			compare_snapshot(r, row, r->row_t);
	}
	r->row_t = -1;
}

static double later(double a, double b)
{
	return b > a && b <= HOURS_MAX * 3600. ? b : a;
}

static double last_time(const struct replay *r)
{
	double t = (double)now_ms(r) / MS_PER_S;
	json_t *one;
	size_t i;

	json_array_foreach (json_get_array(r->json, "timeline"), i, one)
		t = later(t, json_number_value(json_array_get(one, 0)));
	return t + TOLERANCE_S;
}

static int run_case(struct replay *r, struct err *err)
{
	json_t *row;
	size_t i;

	r->each_alone = true;
	json_array_foreach (json_get_array(r->json, "expect"), i, row) {
		r->row = i + 1;
		if (run_row(r, row, err) < 0)
			return err_prefix(err, "row %zu", r->row);
	}
	if (do_events_left(r, err) < 0)
		return err->code;
	run_until(r, last_time(r));
	read_recorded(r);
	compare_snapshots(r);
	compare_timeline(r);
	return 0;
}

/* ---- a case ------------------------------------------------------------------------------------
 */

static void replay_clear(struct replay *r)
{
	uint32_t i;
	size_t k;

	for (i = 0; i < r->jobs_count; i++) {
		history_clear(&r->jobs[i].ours);
		history_clear(&r->jobs[i].recorded);
	}
	free(r->jobs);
	for (k = 0; k < r->sinfo_count; k++)
		strv_clear(&r->sinfo[k].lines);
	free(r->sinfo);
	(void)sim_free(r->sim); /* always NULL */
	json_decref(r->json);
}

static int begin_case(struct replay *r, const char *plugin_dir, struct err *err)
{
	_cleanup_conf_ struct conf *conf = NULL;
	struct sim_options options = {.plugin_dir = plugin_dir,
		.log = r->log,
		.now_ms = (uint64_t)BEGIN_S * MS_PER_S,
		.plan = plan_job,
		.plan_data = r};
	int ret = read_conf(r, &conf, err);

	if (ret < 0)
		return ret;
	options.conf = conf;
	ret = sim_new(&options, &r->sim, err);
	if (ret < 0)
		return ret;
	conf = NULL; /* the engine's */
	r->engine = sim_get_engine(r->sim);
	return engine_begin(r->engine, NULL, err);
}

static int read_case(struct replay *r, const char *file, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	json_error_t error;
	int ret = fs_read(AT_FDCWD, file, CASE_MAX, &text, &size);

	if (ret < 0)
		return err_set(err, ret, "read it");
	r->json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
	if (!r->json)
		return err_set_text(err, -EINVAL, "line %d: %s", error.line, error.text);
	r->name = json_get_text(r->json, "name", file);
	if (!json_get_object(r->json, "conf") || !json_get_array(r->json, "events") ||
		!json_get_array(r->json, "expect"))
		return err_set_text(err, -EINVAL, "a case must have conf, events and expect");
	return 0;
}

int replay_case(const char *file, const char *plugin_dir, const struct log *log, replay_fn differs,
	void *userdata, size_t *ret_compared, struct err *err)
{
	struct replay r = {
		.log = log, .name = file, .row_t = -1, .differs = differs, .userdata = userdata};
	int ret = read_case(&r, file, err);

	if (ret == 0)
		ret = begin_case(&r, plugin_dir, err);
	if (ret == 0)
		ret = run_case(&r, err);
	if (ret < 0)
		(void)err_prefix(err, "%s", file);
	else
		*ret_compared = r.compared;
	replay_clear(&r);
	return ret;
}

/* ---- jobd --replay -----------------------------------------------------------------------------
 */

static void print_difference(const struct replay_difference *d, void *userdata)
{
	size_t *count = userdata;

	(*count)++;
	if (d->t >= 0)
		(void)printf("%s: %.1f s, %s: expected '%s', got '%s'\n", d->case_name, d->t,
			d->thing, d->expected, d->got);
	else
		(void)printf("%s: %s: expected '%s', got '%s'\n", d->case_name, d->thing,
			d->expected, d->got);
}

int replay_main(int argc, char **argv, const char *plugin_dir, const struct log *log)
{
	size_t compared = 0, differences = 0, one = 0;
	int i, bad = 0;

	for (i = 0; i < argc; i++) {
		struct err err = ERR_INIT;

		if (replay_case(argv[i], plugin_dir, log, print_difference, &differences, &one,
			    &err) < 0) {
			log_error(log, "%s", err.text);
			bad++;
		} else {
			compared += one;
		}
	}
	(void)printf(
		"%d cases, %zu comparisons, %zu differences\n", argc - bad, compared, differences);
	if (fflush(stdout) != 0)
		log_error(log, "write the differences: %m");
	return bad ? 2 : differences ? 1 : 0;
}
