/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/server/daemon.h"

#include <assert.h>
#include <ev.h>
#include <limits.h>
#include <signal.h>
#include <string.h>

#include "contrib/jobd/preempt/host.h"
#include "contrib/jobd/run/run.h"
#include "contrib/jobd/select/host.h"
#include "contrib/jobd/server/server.h"
#include "contrib/jobd/store/engine_store.h"
#include "stepd/base/clock.h"
#include "stepd/base/json.h"
#include "stepd/plugin/plugin.h"
#include "systemd/systemd.h"

#define DEFAULT_STATE_DIR "/var/lib/jobd"
#define DEFAULT_SOCKET    "/run/jobd/socket"

/* The loop's timers don't notice when the machine's clock is set: the engine checks it
 * periodically. */
#define ADVANCE_AT_LEAST_MS 30000

/* The possible loss by a power cut: see store.h. */
#define FLUSH_S 5.

static const int signals[] = {SIGTERM, SIGINT, SIGHUP};

struct daemon {
	const struct daemon_options *options;
	const struct log *log;
	struct ev_loop *loop;
	struct store *store;
	struct engine_store_data store_data;
	struct engine *engine;
	struct run *run;
	struct server *server;
	ev_check turn;
	ev_timer advance, flush;
	ev_signal signals[ARRAY_SIZE(signals)];
	char *state_dir, *socket, *plugin_dir;
	bool has_begun;     /* the plugin has state to save */
	bool unflushed;     /* the store has changed */
	uint64_t engine_ms; /* the engine's clock, as of clock_ms */
	int64_t clock_ms;   /* clock_now_ms() */
};

/* ---- the clock ----------------------------------------------------------------------------------
 */

static uint64_t wall_ms(void)
{
	return clock_wall_usec() / 1000;
}

/* The machine's time, which never goes back here: where it was set back, time passes at half its
 * speed until the two agree. */
static uint64_t read_clock(struct daemon *d)
{
	const int64_t now_ms = clock_now_ms();
	const uint64_t wall = wall_ms(), passed = (uint64_t)(now_ms - d->clock_ms);

	if (wall >= d->engine_ms) {
		d->engine_ms = wall;
		d->clock_ms = now_ms;
	} else {
		d->engine_ms += passed / 2;
		d->clock_ms += (int64_t)(passed - passed % 2); /* the rest counts next time */
	}
	return d->engine_ms;
}

static void start_advance(struct daemon *d, uint64_t after_ms)
{
	if (after_ms > ADVANCE_AT_LEAST_MS)
		after_ms = ADVANCE_AT_LEAST_MS;
	ev_timer_stop(d->loop, &d->advance);
	ev_timer_set(&d->advance, (double)after_ms / 1e3, 0.);
	ev_timer_start(d->loop, &d->advance);
}

static void on_advance(struct ev_loop *loop, ev_timer *timer, int revents)
{
	struct daemon *d = timer->data;
	uint64_t now_ms, next_ms;

	(void)loop;
	(void)revents;
	now_ms = read_clock(d);
	next_ms = engine_advance(d->engine, now_ms);
	server_reply(d->server);
	start_advance(d, next_ms > now_ms ? next_ms - now_ms : 0);
}

/* Before all else of a turn of the loop: what is submitted or ends in it does so now. */
static void on_turn(struct ev_loop *loop, ev_check *check, int revents)
{
	struct daemon *d = check->data;

	(void)loop;
	(void)revents;
	engine_set_time(d->engine, read_clock(d));
}

/* Of the server and the runner: what they have reported in this turn is processed in the next one,
 * at once. */
static void on_change(void *userdata)
{
	struct daemon *d = userdata;

	assert(d);
	start_advance(d, 0);
}

/* ---- the store ----------------------------------------------------------------------------------
 */

/* The store's own functions do it; the server hears of it, too. */
static int on_job_changed(const struct job *job, void *userdata, struct err *err)
{
	struct daemon *d = userdata;
	int r;

	assert(d);
	d->unflushed = true;
	r = engine_store_functions.job_changed(job, &d->store_data, err);
	server_job_changed(d->server, job);
	return r;
}

static int on_job_forgotten(uint32_t job_id, void *userdata, struct err *err)
{
	struct daemon *d = userdata;

	assert(d);
	server_job_forgotten(d->server, job_id);
	return engine_store_functions.job_forgotten(job_id, &d->store_data, err);
}

static int on_node_changed(const node_record_t *node, void *userdata, struct err *err)
{
	struct daemon *d = userdata;

	assert(d);
	d->unflushed = true;
	return engine_store_functions.node_changed(node, &d->store_data, err);
}

static int on_reservation_changed(
	const char *name, const json_t *json, void *userdata, struct err *err)
{
	struct daemon *d = userdata;

	assert(d);
	d->unflushed = true;
	return engine_store_functions.reservation_changed(name, json, &d->store_data, err);
}

static int on_begin(void *userdata, struct err *err)
{
	struct daemon *d = userdata;

	assert(d);
	return engine_store_functions.begin(&d->store_data, err);
}

static int on_commit(void *userdata, struct err *err)
{
	struct daemon *d = userdata;

	assert(d);
	return engine_store_functions.commit(&d->store_data, err);
}

static void on_rollback(void *userdata)
{
	struct daemon *d = userdata;

	assert(d);
	engine_store_functions.rollback(&d->store_data);
}

static const struct engine_store store_functions = {
	.begin = on_begin,
	.commit = on_commit,
	.rollback = on_rollback,
	.job_changed = on_job_changed,
	.job_forgotten = on_job_forgotten,
	.node_changed = on_node_changed,
	.reservation_changed = on_reservation_changed,
};

static void on_flush(struct ev_loop *loop, ev_timer *timer, int revents)
{
	struct daemon *d = timer->data;
	struct err err = ERR_INIT;
	int r;

	(void)loop;
	(void)revents;
	r = engine_store_retry(&d->store_data, &err);
	if (r < 0)
		return; /* each was logged */
	if (r > 0)
		log_info(d->log, "all that could not be written before is now in '%s'",
			d->state_dir);
	if (d->unflushed && store_flush(d->store, &err) < 0)
		log_error(d->log, "%s", err.text);
	d->unflushed = false;
}

/* ---- the configuration --------------------------------------------------------------------------
 */

static void report_left_out(const struct log *log, const struct conf *conf)
{
	_cleanup_free_ char *keys = conf->left_out.n ? strv_join(conf->left_out.v, ' ') : NULL;

	if (keys)
		log_info(log, "keys of the configuration that jobd ignores: %s", keys);
}

static void report_warnings(const struct log *log, const struct conf *conf)
{
	_cleanup_strv_ struct strv warnings = {.v = NULL};
	size_t i;

	if (conf_list_warnings(conf, &warnings) < 0)
		log_warning(log, "not enough memory to check the configuration, ignoring");
	for (i = 0; i < warnings.n; i++)
		log_warning(log, "%s", warnings.v[i]);
}

/* As root: who else changes it gains no rights from us. */
static int read_conf(const struct daemon_options *o, struct conf **ret_conf, struct err *err)
{
	return geteuid() == 0 ? conf_read_trusted(o->conf_file, o->qos_file, ret_conf, err)
			      : conf_read(o->conf_file, o->qos_file, ret_conf, err);
}

static int reconfigure(char **ret_needs_restart, void *userdata, struct err *err)
{
	struct daemon *d = userdata;
	struct conf *conf = NULL;
	int r;

	assert(d);
	r = read_conf(d->options, &conf, err);
	if (r < 0)
		return r;
	r = engine_reconfigure(d->engine, conf, ret_needs_restart, err);
	if (engine_get_conf(d->engine) != conf)
		(void)conf_free(conf);
	if (r < 0)
		return r;
	report_left_out(d->log, engine_get_conf(d->engine));
	report_warnings(d->log, engine_get_conf(d->engine));
	log_info(d->log, "the configuration was read again%s%s",
		*ret_needs_restart ? "; a restart is needed for " : "",
		*ret_needs_restart ? *ret_needs_restart : "");
	return 0;
}

int daemon_check_conf(const struct daemon_options *options, FILE *out, struct err *err)
{
	_cleanup_conf_ struct conf *conf = NULL;
	_cleanup_strv_ struct strv warnings = {.v = NULL};
	_cleanup_free_ char *keys = NULL;
	int r = read_conf(options, &conf, err);
	size_t i;

	if (r < 0)
		return r;
	(void)fprintf(out, "%s: %zu nodes, %zu partitions, %zu QOS, select/%s, preempt/%s\n",
		options->conf_file, conf->nodes_count, conf->parts_count, conf->qos_count,
		conf->select_type, conf->preempt_type);
	keys = conf->left_out.n ? strv_join(conf->left_out.v, ' ') : NULL;
	if (keys)
		(void)fprintf(out, "left out: %s\n", keys);
	r = conf_list_warnings(conf, &warnings);
	for (i = 0; i < warnings.n; i++)
		(void)fprintf(out, "warning: %s\n", warnings.v[i]);
	return r < 0 ? err_set(err, r, "check '%s'", options->conf_file) : 0;
}

/* ---- paths --------------------------------------------------------------------------------------
 */

int daemon_make_socket_path(char **ret_path, struct err *err)
{
	const char *runtime = geteuid() == 0 ? NULL : secure_getenv("XDG_RUNTIME_DIR");
	char *path = NULL;

	if (geteuid() != 0 && (!runtime || runtime[0] != '/'))
		return err_set_text(
			err, -EINVAL, "XDG_RUNTIME_DIR is not set: name the socket with --socket");
	if (!runtime)
		path = strdup(DEFAULT_SOCKET);
	else if (asprintf(&path, "%s/jobd/socket", runtime) < 0)
		path = NULL;
	if (!path)
		return err_set(err, -ENOMEM, "name the socket");
	*ret_path = path;
	return 0;
}

/* As an absolute path without links: the store wants it. Its last name need not be there. */
static int make_state_dir(struct daemon *d, const struct conf *conf, struct err *err)
{
	const char *dir = d->options->state_dir;
	_cleanup_free_ char *parent = NULL, *real = NULL;
	const char *slash;

	if (!dir)
		dir = conf->state_save_location ? conf->state_save_location : DEFAULT_STATE_DIR;
	slash = strrchr(dir, '/');
	while (slash && slash > dir && !slash[1]) /* "/var/lib/jobd/" */
		slash = memrchr(dir, '/', (size_t)(slash - dir));
	if (!slash)
		parent = strdup(".");
	else
		parent = strndup(dir, slash == dir ? 1 : (size_t)(slash - dir));
	if (!parent)
		return err_set(err, -ENOMEM, "open the directory for state");
	real = realpath(parent, NULL);
	if (!real)
		return err_set(
			err, -errno, "directory for state '%s': there is no '%s'", dir, parent);
	dir = slash ? slash + 1 : dir;
	if (asprintf(&d->state_dir, "%s/%.*s", strcmp(real, "/") ? real : "",
		    (int)strcspn(dir, "/"), dir) < 0) {
		d->state_dir = NULL;
		return err_set(err, -ENOMEM, "open the directory for state");
	}
	return 0;
}

/* ---- at the start -------------------------------------------------------------------------------
 */

static int open_run(struct daemon *d, const struct conf *conf, struct err *err)
{
	const struct daemon_options *o = d->options;
	const struct run_options options = {
		.loop = d->loop,
		.store = d->store,
		.state_dir = d->state_dir,
		.stepd = o->stepd,
		.runtime_dir = o->runtime_dir,
		.plugin_dir = o->plugin_dir ? d->plugin_dir : NULL,
		.cgroup_root = o->cgroup_root,
		.launcher = o->launcher,
		.step_launcher = o->step_launcher,
		.allow_swap = o->allow_swap,
		.cluster_name = conf->cluster_name,
		.log = d->log,
		.on_report = on_change,
		.userdata = d,
	};

	return run_new(&options, &d->run, err);
}

/* conf is the engine's once this has returned 0. */
static int open_engine(struct daemon *d, struct conf *conf, struct err *err)
{
	struct engine_options options = {
		.conf = conf,
		.runner = &run_functions,
		.runner_data = d->run,
		.store = &store_functions,
		.store_data = d,
		.log = d->log,
		.uid = geteuid(),
		.now_ms = read_clock(d),
		.next_job_id = store_get_next_job_id(d->store),
	};
	int r = select_open(d->plugin_dir, conf->select_type, d->log, &options.select, err);

	if (r == 0 && strcmp(conf->preempt_type, "none") != 0)
		r = preempt_open(d->plugin_dir, conf->preempt_type, &options.preempt, err);
	if (r == 0)
		r = engine_new(&options, &d->engine, err);
	if (r < 0) {
		(void)select_close(options.select);
		(void)preempt_close(options.preempt);
		return r;
	}
	d->store_data.engine = d->engine;
	run_set_engine(d->run, d->engine);
	return 0;
}

/* One that is no longer configured has nothing to restore. */
static int restore_node(const json_t *document, void *userdata, struct err *err)
{
	struct daemon *d = userdata;

	assert(d);
	if (engine_restore_node(d->engine, document, err) < 0)
		log_warning(d->log, "%s, ignoring", err->text);
	return 0;
}

static int restore_reservation(const json_t *document, void *userdata, struct err *err)
{
	struct daemon *d = userdata;

	assert(d);
	if (engine_restore_reservation(d->engine, document, err) < 0)
		log_warning(d->log, "%s, ignoring", err->text);
	return 0;
}

/* An accepted job is never dropped: without its nodes or its partition jobd does not start. A job
 * that has ended is not needed any more. */
static int restore_job(const json_t *document, void *userdata, struct err *err)
{
	struct daemon *d = userdata;
	int r;

	assert(d);
	r = engine_restore_job(d->engine, document, err);
	if (r == -EINVAL && engine_is_stored_job_over(document)) {
		log_warning(d->log, "a job that has ended is forgotten: %s", err->text);
		engine_store_forget_later(
			&d->store_data, (uint32_t)json_get_int(document, "job_id", 0));
		return 0;
	}
	if (r < 0)
		return err_prefix(err,
			"a stored job can't be restored (start with the old configuration, and "
			"cancel it)");
	return 0;
}

static int restore(struct daemon *d, struct err *err)
{
	int r = store_each_node(d->store, restore_node, d, err);

	if (r == 0)
		r = store_each_reservation(d->store, restore_reservation, d, err);
	if (r == 0)
		r = store_each_job(d->store, restore_job, d, err);
	if (r == 0)
		r = engine_begin(d->engine, d->state_dir, err);
	d->has_begun = r == 0;
	return r;
}

static int open_server(struct daemon *d, struct err *err)
{
	struct server_options options = {
		.loop = d->loop,
		.log = d->log,
		.engine = d->engine,
		.reconfigure = reconfigure,
		.on_change = on_change,
		.userdata = d,
	};
	int r = d->options->socket ? 0 : daemon_make_socket_path(&d->socket, err);

	if (r == 0 && d->options->socket && !(d->socket = strdup(d->options->socket)))
		r = err_set(err, -ENOMEM, "name the socket");
	if (r < 0)
		return r;
	options.socket = d->socket;
	return server_open(&options, &d->server, err);
}

/* The store's lock comes first: nothing is touched while another jobd has it. */
static int open_all(struct daemon *d, struct err *err)
{
	_cleanup_conf_ struct conf *conf = NULL;
	int r = read_conf(d->options, &conf, err);

	if (r == 0)
		r = make_state_dir(d, conf, err);
	if (r == 0)
		r = store_open(d->state_dir, STORE_SYNC_NORMAL, &d->store, err);
	if (r < 0)
		return r;
	d->store_data.store = d->store;
	report_left_out(d->log, conf);
	report_warnings(d->log, conf);
	r = plugin_dir_find(d->options->plugin_dir, &d->plugin_dir, err);
	if (r == 0)
		r = open_run(d, conf, err);
	if (r == 0)
		r = open_engine(d, conf, err);
	if (r < 0)
		return r;
	conf = NULL; /* the engine's */
	r = restore(d, err);
	if (r == 0)
		r = open_server(d, err);
	return r == 0 ? run_recover(d->run, err) : r;
}

/* ---- the loop -----------------------------------------------------------------------------------
 */

static void on_signal(struct ev_loop *loop, ev_signal *watcher, int revents)
{
	struct daemon *d = watcher->data;
	_cleanup_free_ char *needs_restart = NULL;
	struct err err = ERR_INIT;

	(void)revents;
	if (watcher->signum != SIGHUP) {
		ev_break(loop, EVBREAK_ALL);
		return;
	}
	if (reconfigure(&needs_restart, d, &err) < 0)
		log_error(d->log, "the configuration stays as it was: %s", err.text);
	on_change(d);
}

static void start_watchers(struct daemon *d)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(signals); i++) {
		ev_signal_init(&d->signals[i], on_signal, signals[i]);
		d->signals[i].data = d;
		ev_signal_start(d->loop, &d->signals[i]);
	}
	ev_timer_init(&d->advance, on_advance, 0., 0.);
	ev_timer_init(&d->flush, on_flush, FLUSH_S, FLUSH_S);
	ev_check_init(&d->turn, on_turn); /* serve() starts it */
	ev_set_priority(&d->turn, EV_MAXPRI);
	d->advance.data = d->flush.data = d->turn.data = d;
}

static void stop_watchers(struct daemon *d)
{
	size_t i;

	ev_check_stop(d->loop, &d->turn);
	ev_timer_stop(d->loop, &d->advance);
	ev_timer_stop(d->loop, &d->flush);
	for (i = 0; i < ARRAY_SIZE(signals); i++)
		ev_signal_stop(d->loop, &d->signals[i]);
}

static void notify_manager(const struct daemon *d, const char *lines)
{
	int r = notify_send("%s", lines);

	if (r < 0)
		log_warning(d->log,
			"can't notify the service manager (NOTIFY_SOCKET): %s, ignoring",
			strerror(-r));
}

static void serve(struct daemon *d)
{
	ev_check_start(d->loop, &d->turn);
	ev_timer_start(d->loop, &d->flush);
	start_advance(d, 0);
	log_info(d->log, "listens at '%s', state is in '%s'", d->socket, d->state_dir);
	notify_manager(d, "READY=1\n");
	if (d->options->on_ready)
		d->options->on_ready(d->options->userdata);
	ev_run(d->loop, 0);
	notify_manager(d, "STOPPING=1\n");
}

/* The service first: no change is accepted that the plugin's state would lack. */
static int close_all(struct daemon *d, struct err *err)
{
	int r = 0;

	d->server = server_close(d->server);
	if (d->has_begun)
		r = engine_end(d->engine, d->state_dir, err);
	if (d->has_begun && r == 0 && engine_store_retry(&d->store_data, err) < 0)
		r = -EIO;
	engine_store_clear(&d->store_data);
	d->engine = engine_free(d->engine);
	d->run = run_free(d->run);
	if (d->store && d->unflushed && r == 0)
		r = store_flush(d->store, err);
	d->store = store_close(d->store);
	stop_watchers(d);
	ev_loop_destroy(d->loop);
	free(d->state_dir);
	free(d->socket);
	free(d->plugin_dir);
	return r;
}

int daemon_run(const struct daemon_options *options, struct err *err)
{
	struct daemon d = {.options = options, .log = options->log, .clock_ms = clock_now_ms()};
	int r, closed;

	d.loop = ev_loop_new(EVFLAG_NOENV);
	if (!d.loop)
		return err_set(err, -ENOMEM, "make an event loop");
	start_watchers(&d);
	r = open_all(&d, err);
	if (r == 0)
		serve(&d);
	closed = close_all(&d, r == 0 ? err : NULL);
	return r < 0 ? r : closed;
}
