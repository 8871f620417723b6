/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/suspension.h"

#include <assert.h>
#include <ev.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>

#include "contrib/slurm/call.h"
#include "stepd/base/fs.h"
#include "stepd/base/json.h"

#define NOTICE_S         2.0
#define CALL_TIMEOUT_MS  10000
#define STATUS_BYTES_MAX 65536

struct suspension {
	struct suspension_options options;
	struct call *call;      /* of what comes before the notice */
	struct call *continues; /* SIGCONT's */
	ev_timer notice;        /* the time that processes have */
	bool caught;            /* by one of them */
};

static bool suspension_is_pending(const struct suspension *s)
{
	return s->call || ev_is_active(&s->notice);
}

static bool suspension_is_for(const struct suspension *s, int64_t pid)
{
	return !s->options.is_leader || s->options.is_leader((uint32_t)pid, s->options.userdata);
}

static int start_call(struct suspension *s, const struct call_options *what, struct call **call)
{
	struct call_options options = *what;
	struct stepd_error error = {0};

	options.loop = s->options.loop;
	options.directory = s->options.directory;
	options.timeout_ms = CALL_TIMEOUT_MS;
	options.userdata = s;
	if (call_start(&options, call, &error) >= 0)
		return 0;
	*call = NULL;
	log_warning(s->options.log,
		"step %s: its processes can't hear of a suspension: %s, ignoring", s->options.label,
		error.text);
	return -1;
}

/* ---- SIGTSTP ------------------------------------------------------------------------------- */

static void notice_on_timer(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct suspension *s = timer->data;

	assert(s);
	s->options.ready(s->options.userdata);
}

static int signal_on_piece(_unused_ const json_t *reply, _unused_ void *userdata)
{
	return 0; /* that it has been sent is all */
}

static void stop_on_done(int code, _unused_ const char *text, void *userdata)
{
	struct suspension *s = userdata;

	assert(s);
	s->call = NULL;
	ev_timer_set(&s->notice, code < 0 ? 0. : NOTICE_S, 0.);
	ev_timer_start(s->options.loop, &s->notice);
}

/* One that is gone catches nothing. */
static bool catches_stop(int64_t pid)
{
	char path[64];
	_cleanup_free_ char *status = NULL;
	const char *line;

	(void)snprintf(path, sizeof(path), "/proc/%" PRId64 "/status", pid);
	if (fs_read(AT_FDCWD, path, STATUS_BYTES_MAX, &status, NULL) < 0)
		return false;
	line = strstr(status, "\nSigCgt:\t");
	return line && (strtoull(line + strlen("\nSigCgt:\t"), NULL, 16) >> (SIGTSTP - 1) & 1);
}

static int on_pids(const json_t *reply, void *userdata)
{
	struct suspension *s = userdata;
	const json_t *entry;
	int64_t pid;
	size_t i;

	assert(s);
	json_array_foreach (json_get_array(reply, "pids"), i, entry) {
		if (json_get_range(entry, "pid", 1, INT32_MAX, &pid) && suspension_is_for(s, pid))
			s->caught = s->caught || catches_stop(pid);
	}
	return 0;
}

static void on_pids_done(_unused_ int code, _unused_ const char *text, void *userdata)
{
	struct suspension *s = userdata;
	struct call_options stop = {
		.method = "Signal", .piece = signal_on_piece, .done = stop_on_done};

	assert(s);
	s->call = NULL;
	stop.parameters = s->options.is_leader ? "{\"signal\":\"TSTP\",\"leader\":true}"
					       : "{\"signal\":\"TSTP\"}";
	if (!s->caught || start_call(s, &stop, &s->call) < 0)
		s->options.ready(s->options.userdata);
}

bool suspension_begin(struct suspension *s)
{
	static const struct call_options list = {.method = "ListPids",
		.parameters = "{\"start_ticks\":false}",
		.more = true,
		.piece = on_pids,
		.done = on_pids_done};

	if (suspension_is_pending(s))
		return true;
	s->caught = false;
	return start_call(s, &list, &s->call) == 0;
}

/* ---- SIGCONT ------------------------------------------------------------------------------- */

static void continue_on_done(_unused_ int code, _unused_ const char *text, void *userdata)
{
	struct suspension *s = userdata;

	assert(s);
	s->continues = NULL; /* one that fails is of no further interest: the step ends */
}

/* The agent holds it until the step is resumed. */
bool suspension_end(struct suspension *s)
{
	const struct call_options continues = {.method = "Signal",
		.parameters = s->options.is_leader ? "{\"signal\":\"CONT\",\"leader\":true}"
						   : "{\"signal\":\"CONT\"}",
		.piece = signal_on_piece,
		.done = continue_on_done};
	bool pending = suspension_is_pending(s);

	s->call = call_cancel(s->call);
	ev_timer_stop(s->options.loop, &s->notice);
	if (!s->continues)
		(void)start_call(s, &continues, &s->continues); /* it has logged the reason */
	return pending;
}

/* ---- life ---------------------------------------------------------------------------------- */

int suspension_new(const struct suspension_options *options, struct suspension **ret_suspension,
	struct err *err)
{
	struct suspension *s = calloc(1, sizeof(*s));

	if (!s)
		return err_set(err, -ENOMEM, "prepare for suspensions");
	s->options = *options;
	ev_timer_init(&s->notice, notice_on_timer, NOTICE_S, 0.);
	s->notice.data = s;
	*ret_suspension = s;
	return 0;
}

struct suspension *suspension_free(struct suspension *s)
{
	if (!s)
		return NULL;
	s->call = call_cancel(s->call);
	s->continues = call_cancel(s->continues);
	ev_timer_stop(s->options.loop, &s->notice);
	free(s);
	return NULL;
}
