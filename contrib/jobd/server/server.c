/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/server/server_impl.h"

#include <assert.h>
#include <ev.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "config.h"
#include "stepd/base/err.h"
#include "stepd/base/fs.h"

/* A script of 4 MiB, as text of JSON, and an environment beside it. Who waits for jobs holds a
 * connection, so that there are many. */
static const struct control_bounds bounds = {
	.frame_max = REQUEST_CALL_MAX,
	.values_max = CONTROL_VALUES_MAX,
	.user_connections_max = 512,
	.shared_connections_max = 1792,
	.turn_ms = 10,
};

/* ---- the methods --------------------------------------------------------------------------------
 */

#define P(name_, type_)                                                                            \
	{                                                                                          \
		.name = (name_), .type = (type_)                                                   \
	}
#define OPTIONAL(name_, type_)                                                                     \
	{                                                                                          \
		.name = (name_), .type = (type_), .optional = true                                 \
	}
#define JOB P("job", CONTROL_STRING)

struct method {
	const char *name;
	enum needs needs;
	run_fn run;
	struct control_parameter parameters[CONTROL_PARAMETERS_MAX + 1];
};

/* clang-format off */
static const struct method table[] = {
	{"Submit", NEEDS_NOTHING, run_submit,
		{P("request", CONTROL_OBJECT), OPTIONAL("test_only", CONTROL_BOOL), OPTIONAL("components", CONTROL_OBJECT_ARRAY)}},
	{"Wait", NEEDS_NOTHING, run_wait, {JOB, P("until", CONTROL_STRING)}},
	{"ListJobs", NEEDS_NOTHING, run_list_jobs,
		{OPTIONAL("job", CONTROL_STRING), OPTIONAL("from", CONTROL_INT), OPTIONAL("details", CONTROL_BOOL)}},
	{"ListNodes", NEEDS_NOTHING, run_list_nodes, {OPTIONAL("from", CONTROL_INT)}},
	{"ListPartitions", NEEDS_NOTHING, run_list_partitions, {{.name = NULL}}},
	{"ListReservations", NEEDS_NOTHING, run_list_reservations, {{.name = NULL}}},
	{"Cancel", NEEDS_OWNER, run_cancel, {JOB}},
	{"Signal", NEEDS_OWNER, run_signal,
		{JOB, P("signal", CONTROL_STRING), OPTIONAL("batch", CONTROL_BOOL), OPTIONAL("full", CONTROL_BOOL)}},
	{"Hold", NEEDS_OWNER, run_hold, {JOB}},
	{"Release", NEEDS_OWNER, run_release, {JOB}},
	{"Suspend", NEEDS_ROOT, run_suspend, {JOB}},
	{"Resume", NEEDS_ROOT, run_resume, {JOB}},
	{"Requeue", NEEDS_OWNER, run_requeue, {JOB}},
	{"Update", NEEDS_OWNER, run_update, {JOB, P("changes", CONTROL_OBJECT)}},
	{"Expand", NEEDS_OWNER, run_expand, {JOB, P("to", CONTROL_STRING)}},
	{"Reserve", NEEDS_ROOT, run_reserve, {P("reservation", CONTROL_OBJECT)}},
	{"DeleteReservation", NEEDS_ROOT, run_delete_reservation, {P("name", CONTROL_STRING)}},
	{"UpdateNodes", NEEDS_ROOT, run_update_nodes,
		{P("nodes", CONTROL_STRING), P("state", CONTROL_STRING), OPTIONAL("reason", CONTROL_STRING)}},
	{"Reconfigure", NEEDS_ROOT, run_reconfigure, {{.name = NULL}}},
	{"Stats", NEEDS_NOTHING, run_stats, {{.name = NULL}}},
};
/* clang-format on */

static const char *const needs_names[NEEDS_MAX] = {
	[NEEDS_NOTHING] = "nothing",
	[NEEDS_OWNER] = "owner",
	[NEEDS_ROOT] = "root",
};

/* ---- replies ------------------------------------------------------------------------------------
 */

static const struct method *method_of(const struct call *call)
{
	return &table[control_call_get_method(call->control) - call->server->methods];
}

void call_reply(struct call *call, json_t *parameters)
{
	if (parameters)
		control_reply_take(call->control, parameters, true);
	else
		control_no_memory(call->control);
}

void call_done(struct call *call)
{
	control_reply_take(call->control, NULL, true);
}

static void fail_with(struct call *call, const char *name, json_t *parameters)
{
	if (parameters)
		control_error_take(call->control, name, parameters);
	else
		control_no_memory(call->control);
}

void call_deny(struct call *call, enum needs needs, const char *message)
{
	fail_with(call, "PermissionDenied",
		json_pack("{s:s, s:s, s:s}", "method", method_of(call)->name, "needs",
			needs_names[needs], "message", message));
}

void call_fail(struct call *call, int r, const struct err *err, bool state_error)
{
	const char *name = strerrorname_np(-r);

	switch (r) {
	case -EPERM:
		call_deny(call, NEEDS_ROOT, err->text);
		return;
	case -ESRCH:
		fail_with(call, "NoSuchJob",
			json_pack("{s:s, s:s}", "job", json_get_text(call->parameters, "job", ""),
				"message", err->text));
		return;
	case -EINVAL:
	case -ERANGE:
	case -E2BIG:
	case -EACCES:
	case -EDQUOT:
		fail_with(call, state_error ? "WrongState" : "Invalid",
			json_pack("{s:s}", "message", err->text));
		return;
	case -EBUSY:
	case -EAGAIN:
		fail_with(call, "WrongState", json_pack("{s:s}", "message", err->text));
		return;
	case -EOPNOTSUPP:
		fail_with(call, "NotSupported", json_pack("{s:s}", "message", err->text));
		return;
	default:
		log_warning(call->server->options.log, "%s for user %lld: %s",
			method_of(call)->name, (long long)call->uid, err->text);
		fail_with(call, "Failed",
			json_pack(
				"{s:s, s:s}", "message", err->text, "errno", name ? name : "EIO"));
	}
}

bool call_find(struct call *call, const char *text, struct target *ret_target)
{
	struct err err = ERR_INIT;
	int r = target_find(call->server->engine, text, ret_target, &err);

	if (r < 0)
		call_fail(call, r, &err, false);
	return r == 0;
}

/* ---- who may ------------------------------------------------------------------------------------
 */

static bool owns_all(const struct call *call)
{
	size_t i;

	for (i = 0; i < call->target.count; i++) {
		if (call->target.jobs[i]->record.user_id != call->uid)
			return false;
	}
	return true;
}

/* Has replied, if it returns false. */
static bool may_run(struct call *call, enum needs needs)
{
	const char *text = json_get_text(call->parameters, "job", "");
	struct err err = ERR_INIT;

	if (needs == NEEDS_NOTHING || (needs == NEEDS_ROOT && call->is_root))
		return true;
	if (needs == NEEDS_ROOT) {
		call_deny(call, needs, "only root may do that");
		return false;
	}
	if (!call_find(call, text, &call->target))
		return false;
	if (call->is_root || owns_all(call))
		return true;
	(void)err_set_text(&err, -EPERM,
		"job %.60s belongs to another user: only its owner and root may do that", text);
	call_deny(call, needs, err.text);
	return false;
}

static void run_method(
	struct control_call *control, const struct json_t *parameters, void *userdata)
{
	const struct control_peer *peer = control_call_peer(control);
	struct call call = {
		.server = userdata,
		.control = control,
		.parameters = parameters,
		.uid = peer->uid,
		.gid = peer->gid,
		.is_root = peer->uid == 0 || peer->uid == geteuid(),
	};
	const struct method *method;

	assert(call.server);
	method = method_of(&call);
	if (may_run(&call, method->needs))
		method->run(&call);
	target_clear(&call.target);
	call.server->options.on_change(call.server->options.userdata);
}

/* ---- the socket's directory ---------------------------------------------------------------------
 */

/* Nobody else may put a socket of his own there. */
static int open_dir(struct server *s, struct err *err)
{
	int r = 0;

	if (mkdir(s->dir, 0755) == 0)
		r = chmod(s->dir, 0755) < 0 ? -errno : 0; /* whatever the umask */
	else if (errno != EEXIST)
		r = -errno;
	if (r < 0)
		return err_set(err, r, "make the socket's directory '%s'", s->dir);
	s->dir_fd = open(s->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (s->dir_fd < 0)
		return err_set(err, -errno, "open the socket's directory '%s'", s->dir);
	r = fs_check_trusted(s->dir_fd, s->dir, err);
	return r < 0 ? r : fs_check_parents(s->dir, NULL, err);
}

/* Sockets that are there are replaced: no other jobd may have them. The lock is the process's alone
 * (fcntl(2)): a child between fork(2) and exec(2) outlives a jobd that is killed. The file stays at
 * the end: another one may wait to lock it. */
static int lock_socket(struct server *s, const char *name, struct err *err)
{
	struct flock held = {.l_type = F_WRLCK, .l_whence = SEEK_SET}, lock = held;

	if (asprintf(&s->lock_name, "%s.lock", name) < 0) {
		s->lock_name = NULL;
		return err_set(err, -ENOMEM, "open the socket");
	}
	s->lock_fd =
		openat(s->dir_fd, s->lock_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->lock_fd < 0)
		return err_set(err, -errno, "open '%s/%s'", s->dir, s->lock_name);
	if (fcntl(s->lock_fd, F_SETLK, &lock) == 0)
		return 0;
	if ((errno == EACCES || errno == EAGAIN) && fcntl(s->lock_fd, F_GETLK, &held) == 0 &&
		held.l_type != F_UNLCK)
		return err_set_text(err, -EBUSY,
			"another jobd (pid %d) listens at '%s': stop it, or give this one another "
			"--socket",
			(int)held.l_pid, s->options.socket);
	return err_set(err, -errno, "lock '%s/%s'", s->dir, s->lock_name);
}

/* ---- life ---------------------------------------------------------------------------------------
 */

static int make_methods(struct server *s)
{
	size_t i;

	s->methods = calloc(ARRAY_SIZE(table), sizeof(*s->methods));
	if (!s->methods)
		return -ENOMEM;
	for (i = 0; i < ARRAY_SIZE(table); i++) {
		s->methods[i] = (struct control_method){
			.name = table[i].name,
			.access = CONTROL_EVERYBODY, /* the column "needs" decides */
			.run = run_method,
		};
		memcpy(s->methods[i].parameters, table[i].parameters, sizeof(table[i].parameters));
	}
	return 0;
}

static int open_control(struct server *s, const char *name, struct err *err)
{
	const struct control_options options = {
		.loop = s->options.loop,
		.log = s->options.log,
		.dir_fd = s->dir_fd,
		.path = s->dir,
		.socket_name = name,
		.bounds = &bounds,
		.methods = s->methods,
		.methods_count = ARRAY_SIZE(table),
		.interface = SERVER_INTERFACE,
		.description = server_interface_text,
		.vendor = "stepd",
		.product = "jobd",
		.version = PACKAGE_VERSION,
		.url = PACKAGE_URL,
		.owner_uid = 0, /* there is no other one */
		.operator_gid = (gid_t)-1,
		.userdata = s,
	};

	return control_open(&options, &s->control, err);
}

static int open_all(struct server *s, struct err *err)
{
	const char *slash = strrchr(s->options.socket, '/');
	int r;

	if (s->options.socket[0] != '/' || !slash[1])
		return err_set_text(err, -EINVAL, "the socket needs an absolute path, not '%s'",
			s->options.socket);
	s->dir = slash == s->options.socket
		? strdup("/")
		: strndup(s->options.socket, (size_t)(slash - s->options.socket));
	s->waits = waits_new(s->engine);
	if (!s->dir || !s->waits || make_methods(s) < 0)
		return err_set(err, -ENOMEM, "open the socket");
	r = users_new(s->engine, &s->users, err);
	if (r == 0)
		r = open_dir(s, err);
	if (r == 0)
		r = lock_socket(s, slash + 1, err);
	return r < 0 ? r : open_control(s, slash + 1, err);
}

int server_open(const struct server_options *options, struct server **ret_server, struct err *err)
{
	struct server *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "open the socket");
	s->options = *options;
	s->engine = options->engine;
	s->since = engine_get_time(options->engine);
	s->dir_fd = s->lock_fd = -1;
	r = open_all(s, err);
	if (r < 0)
		(void)server_close(s);
	else
		*ret_server = s;
	return r;
}

struct server *server_close(struct server *s)
{
	if (!s)
		return NULL;
	s->control = control_close(s->control);
	s->waits = waits_free(s->waits);
	s->users = users_free(s->users);
	s->lock_fd = close_fd(s->lock_fd);
	s->dir_fd = close_fd(s->dir_fd);
	free(s->lock_name);
	free(s->dir);
	free(s->methods);
	free(s);
	return NULL;
}

/* ---- what has changed ---------------------------------------------------------------------------
 */

void server_job_changed(struct server *s, const struct job *job)
{
	if (s)
		waits_job_changed(s->waits, job);
}

void server_job_forgotten(struct server *s, uint32_t job_id)
{
	if (s)
		waits_job_forgotten(s->waits, job_id);
}

void server_reply(struct server *s)
{
	if (s)
		waits_answer(s->waits);
}
