/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/mpi_link.h"

#include <assert.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/wait.h>

#include "mpi/link.h"
#include "mpi/mpi.h"
#include "proctrack/proctrack.h"
#include "stepd/base/base64.h"
#include "stepd/base/clock.h"
#include "stepd/base/err.h"
#include "stepd/base/proc.h"
#include "stepd/launch/child.h"
#include "stepd/process/mount_namespace.h"
#include "stepd/record/events.h"
#include "stepd/snapshot/handover.h"
#include "stepd/stdio/input.h"
#include "stepd/stdio/stdio.h"
#include "stepd/step/agent_impl.h"
#include "stepd/step/ending.h"
#include "stepd/step/join.h"
#include "stepd/step/result.h"

/* ---- a library that the plugin does not serve ---------------------------------------------- */

/* "pmi2" of "mpi/pmi2" */
static const char *plugin_short_name(const struct agent *a)
{
	const char *type = mpi_get_type(a->mpi.host), *slash = strchr(type, '/');

	return slash ? slash + 1 : type;
}

void singletons_linked(struct agent *a, unsigned number)
{
	const char *library = linked_library(number);

	if (!library || !a->mpi.host)
		return;
	a->start.linked = number;
	if (strcmp(plugin_short_name(a), "none") == 0)
		log_warning(a->log,
			"the program is linked with %s, and the step has no MPI plugin: each task "
			"runs as a job of one rank (--mpi=%s serves it)",
			library, linked_plugin(number));
}

/* The warning for a step in which no task has used the plugin, to be freed; NULL: none. */
static char *singletons_warning(const struct agent *a)
{
	const char *wanted = linked_plugin(a->start.linked);
	char *text = NULL;

	if (!wanted || !a->mpi.host || strcmp(wanted, plugin_short_name(a)) == 0)
		return NULL;
	if (asprintf(&text,
		    "the program is linked with %s, and no task has contacted %s: each ran as a "
		    "job of one rank (--mpi=%s serves it)",
		    linked_library(a->start.linked), mpi_get_type(a->mpi.host), wanted) < 0)
		return NULL;
	return text;
}

#define START_TIMEOUT_MS 30000
#define END_TIMEOUT_SEC  3. /* once its link is closed */
/* From the notice that the step is over, unless another node needs the service. */
#define OVER_TIMEOUT_SEC 10.
#define MESSAGES_A_TURN  16
#define LINK_TURN_NS     2000000u
#define MESSAGES_AT_END  4096  /* more than its socket holds */
#define MEMORY_SHARE     4u    /* the service's share of the machine's memory: a quarter */
#define LOG_LINES_MAX    2000u /* of one service: the user controls it, the log is the site's */
#define SIGNAL_RANKS_MAX 65536u
#define REQUESTS_MAX     256u /* of the service, under way or pending */
#define PENDING_MAX      256u /* queued replies */

/* A message that is queued for space in the link. */
struct pending_message {
	STAILQ_ENTRY(pending_message) link;
	json_t *message;
	bool is_reply; /* the service decides how many there are */
};
STAILQ_HEAD(pending_messages, pending_message);

struct mpi_link {
	struct agent *a;
	struct mpi_host host;
	struct mpi_service *service; /* a->mpi.host's */
	pid_t pid;                   /* 0: it has ended */
	ev_io link, writable;
	struct pending_messages pending;
	unsigned pending_replies; /* of these */
	ev_timer limit;           /* then it is killed */
	unsigned lines;           /* it has written to the log */
	unsigned requests;        /* not replied to yet */
	bool over;                /* it was notified that the step ends, or that it is to end */
	bool hung_up;             /* it ended before that, by itself */
};

/* ---- what goes over the link --------------------------------------------------------------- */

static void pending_drop_first(struct mpi_link *d)
{
	struct pending_message *first = STAILQ_FIRST(&d->pending);

	STAILQ_REMOVE_HEAD(&d->pending, link);
	d->pending_replies -= first->is_reply;
	json_decref(first->message);
	free(first);
}

static void pending_clear(struct mpi_link *d)
{
	while (!STAILQ_EMPTY(&d->pending))
		pending_drop_first(d);
	ev_io_stop(d->a->loop, &d->writable);
}

/* Takes the reference. */
static int pending_add(struct mpi_link *d, json_t *message, bool is_reply)
{
	bool is_full = is_reply && d->pending_replies >= PENDING_MAX;
	struct pending_message *last = message && !is_full ? calloc(1, sizeof(*last)) : NULL;

	if (!last) {
		json_decref(message);
		return is_full ? -EAGAIN : -ENOMEM;
	}
	*last = (struct pending_message){.message = message, .is_reply = is_reply};
	d->pending_replies += is_reply;
	STAILQ_INSERT_TAIL(&d->pending, last, link);
	ev_io_start(d->a->loop, &d->writable);
	return 0;
}

static void mpi_link_on_writable(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct mpi_link *d = w->data;
	int r = 0;

	assert(d);
	while (!STAILQ_EMPTY(&d->pending) && r != -EAGAIN && r != -EPIPE) {
		r = link_send_take(mpi_service_get_link(d->service),
			json_incref(STAILQ_FIRST(&d->pending)->message), NULL, 0);
		if (r != -EAGAIN && r != -EPIPE)
			pending_drop_first(d); /* sent, or failed for good */
	}
	if (STAILQ_EMPTY(&d->pending) || r == -EPIPE)
		pending_clear(d);
}

/* Takes the reference. Sends in the order of the calls: a message that does not fit into the link
 * is queued, except one with descriptors (-EAGAIN), which would have to be held. */
static int queue_send_take(
	struct mpi_link *d, json_t *message, const int *fds, size_t count, bool is_reply)
{
	int r = -EAGAIN;

	if (STAILQ_EMPTY(&d->pending))
		r = link_send_take(
			mpi_service_get_link(d->service), json_incref(message), fds, count);
	if (r == -EAGAIN && count == 0)
		return pending_add(d, message, is_reply);
	json_decref(message);
	return r;
}

int mpi_link_send_take(struct agent *a, json_t *message, const int *fds, size_t count)
{
	struct mpi_link *d = a->mpi.link;

	if (!d || d->pid == 0) {
		json_decref(message);
		return -EPIPE;
	}
	return queue_send_take(d, message, fds, count, true);
}

/* A message that each task causes once: as many may be queued as there are tasks. */
static int queue_notify_take(struct mpi_link *d, json_t *message)
{
	return queue_send_take(d, message, NULL, 0, false);
}

/* ---- what comes over the link -------------------------------------------------------------- */

static const char *text_of(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

bool mpi_link_may_log(struct agent *a)
{
	struct mpi_link *d = a->mpi.link;

	if (!d || ++d->lines < LOG_LINES_MAX)
		return true;
	if (d->lines == LOG_LINES_MAX)
		log_warning(a->log, "%s has written %u lines: further lines are left out",
			mpi_get_type(a->mpi.host), LOG_LINES_MAX);
	else
		d->lines = LOG_LINES_MAX;
	return false;
}

static void take_log(struct mpi_link *d, const json_t *object)
{
	static const char *const levels[LOG_LEVEL_MAX] = {
		[LOG_LEVEL_ERROR] = "error",
		[LOG_LEVEL_WARNING] = "warning",
		[LOG_LEVEL_INFO] = "info",
		[LOG_LEVEL_DEBUG] = "debug",
	};
	const char *level = text_of(object, "level"), *text = text_of(object, "text");
	struct err line = ERR_INIT;
	int i;

	for (i = 0; level && i < LOG_LEVEL_MAX && strcmp(level, levels[i]) != 0; i++)
		;
	if (!level || i == LOG_LEVEL_MAX || !text || !mpi_link_may_log(d->a))
		return;
	/* Tasks and nodes that end while the step is being ended need no report to their peers. */
	if (d->a->state >= AGENT_ENDING && d->a->reason != AGENT_REASON_COMPLETED)
		i = LOG_LEVEL_DEBUG;
	(void)err_set_text(&line, -EIO, "%s", text); /* makes it printable */
	log_line(d->a->log, (enum log_level)i, "%s: %s", mpi_get_type(d->a->mpi.host), line.text);
}

static void take_abort(struct mpi_link *d, const json_t *object)
{
	json_int_t code = json_integer_value(json_object_get(object, "code"));
	const char *text = text_of(object, "text");
	struct err why = ERR_INIT;

	(void)err_set_text(&why, -EIO, "%s", text ? text : "a task has aborted the step");
	/* The node where it happened logs it. */
	ending_abort(d->a, (int)(code & 0xff),
		json_is_true(json_object_get(object, "elsewhere")) ? LOG_LEVEL_DEBUG
								   : LOG_LEVEL_ERROR,
		why.text);
}

/* ---- requests ------------------------------------------------------------------------------ */

void mpi_link_answer(struct agent *a, int64_t id, int r, const char *why)
{
	/* A service that does not read, or is gone, is ignored here. */
	(void)!mpi_link_send_take(a,
		json_pack("{s:s, s:I, s:i, s:s}", "tell", "done", "id", (json_int_t)id, "error", -r,
			"why", why),
		NULL, 0);
}

int mpi_link_begin_request(struct agent *a)
{
	if (a->mpi.link->requests >= REQUESTS_MAX)
		return -EAGAIN;
	a->mpi.link->requests++;
	return 0;
}

void mpi_link_end_request(struct agent *a)
{
	if (a->mpi.link)
		a->mpi.link->requests--;
}

static int mpi_link_compare_ranks(const void *a, const void *b)
{
	json_int_t x = *(const json_int_t *)a, y = *(const json_int_t *)b;

	return (x > y) - (x < y);
}

static int compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

uint32_t *mpi_link_read_ranks(const struct agent *a, const json_t *array, size_t *ret_count)
{
	size_t n = json_array_size(array), i, count = 0;
	_cleanup_free_ json_int_t *wanted = NULL;
	json_int_t rank;
	uint32_t *ranks;

	if (n == 0 || n > SIGNAL_RANKS_MAX)
		return NULL;
	wanted = calloc(n, sizeof(*wanted));
	ranks = calloc(a->tasks.n + 1u, sizeof(*ranks));
	if (!wanted || !ranks) {
		free(ranks);
		return NULL;
	}
	for (i = 0; i < n; i++)
		wanted[i] = json_integer_value(json_array_get(array, i));
	qsort(wanted, n, sizeof(*wanted), mpi_link_compare_ranks);
	for (i = 0; i < a->tasks.n; i++) {
		rank = a->tasks.v[i].rank;
		if (bsearch(&rank, wanted, n, sizeof(*wanted), mpi_link_compare_ranks))
			ranks[count++] = a->tasks.v[i].rank;
	}
	qsort(ranks, count, sizeof(*ranks), compare_u32);
	*ret_count = count;
	return ranks;
}

/* Reports of the service are handled here, its requests by the frontend. */
static void take_message(struct mpi_link *d, const json_t *object)
{
	const char *what = text_of(object, "do");

	if (what && strcmp(what, "log") == 0)
		take_log(d, object);
	else if (what && strcmp(what, "abort") == 0)
		take_abort(d, object);
	else if ((!what || !frontend_mpi_request(d->a, what, object)) && mpi_link_may_log(d->a))
		log_debug(
			d->a->log, "the MPI service process has sent an invalid message, ignoring");
}

/* -EAGAIN: no message now; -EPIPE: the end; other failures but -EBADMSG end it, too, as when an
 * abort has closed the link. */
static int read_link(struct mpi_link *d, unsigned most)
{
	const uint64_t end_ns = clock_now_ns() + LINK_TURN_NS;
	unsigned i;
	int r = 0;

	for (i = 0; i < most && (r == 0 || r == -EBADMSG); i++) {
		if (i > 0 && most == MESSAGES_A_TURN && clock_now_ns() >= end_ns)
			break; /* a message of a service that was taken over may take 15 ms */
		_cleanup_link_message_ struct link_message message = LINK_MESSAGE_INIT;

		r = link_receive_bare(mpi_service_get_link(d->service), &message);
		if (r == 0)
			take_message(d, message.object);
		else if (r == -EBADMSG && mpi_link_may_log(d->a))
			log_debug(d->a->log,
				"the MPI service process has sent invalid data, ignoring");
		else if (r != -EAGAIN && r != -EPIPE && r != -EBADMSG)
			log_debug(d->a->log, "read from the MPI service process: %s", strerror(-r));
	}
	return r;
}

static void on_link(struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct mpi_link *d = w->data;

	assert(d);
	if (read_link(d, MESSAGES_A_TURN) == -EPIPE) /* the handler of its end does the rest */
		ev_io_stop(loop, &d->link);
}

static void watch_link(struct mpi_link *d)
{
	ev_io_init(&d->link, on_link, mpi_service_get_link(d->service), EV_READ);
	ev_set_priority(&d->link, -1); /* behind timers, signals and root's calls */
	d->link.data = d;
	ev_io_start(d->a->loop, &d->link);
	ev_io_set(&d->writable, mpi_service_get_link(d->service), EV_WRITE);
	d->writable.data = d;
}

/* ---- the tasks' streams, for tools: copies -------------------------------------------------- */

_Static_assert(LINK_INPUT_MAX <= TOOLIN_SIZE, "an input of the link is one piece");

static void mpi_streams_answer(struct agent *a, int64_t id, int r)
{
	mpi_link_answer(a, id, r, r < 0 ? strerror(-r) : "");
}

/* Takes fd, which may be -1. */
static int send_copies(struct agent *a, int fd)
{
	_cleanup_close_ int owned = fd;

	return fd < 0 ? 0 : mpi_link_send_take(a, json_pack("{s:s}", "tell", "copies"), &owned, 1);
}

static int mpi_streams_copy(struct agent *a, const json_t *list, json_int_t streams)
{
	_cleanup_free_ uint32_t *ranks = NULL;
	size_t count = 0;
	int fd = -1, r;

	if (streams < 0 || streams & ~(json_int_t)LINK_STREAMS ||
		json_array_size(list) > LINK_RANKS_MAX)
		return -EINVAL;
	if (list) {
		ranks = mpi_link_read_ranks(a, list, &count);
		if (!ranks)
			return -EINVAL;
		if (count == 0)
			return -ESRCH;
	}
	r = stdio_copy(a->stdio, ranks, count, (unsigned)streams, &fd);
	if (r < 0)
		return r;
	r = send_copies(a, fd);
	if (r < 0)
		stdio_copy_stop(a->stdio); /* nobody holds the other end */
	return r;
}

void mpi_streams_take_copy(struct agent *a, const json_t *object)
{
	const json_t *streams = json_object_get(object, "streams");
	int64_t id = json_integer_value(json_object_get(object, "id"));
	int r = -EINVAL;

	if (json_is_integer(streams))
		r = a->stdio ? mpi_streams_copy(a, json_object_get(object, "ranks"),
				       json_integer_value(streams))
			     : -EOPNOTSUPP;
	mpi_streams_answer(a, id, r);
}

int mpi_streams_join(struct agent *a, unsigned copy, struct err *err)
{
	unsigned streams = copy & LINK_STREAMS;
	int fd = -1, r = 0;

	if (a->stdio)
		r = stdio_join_copy(a->stdio, streams, &fd);
	if (r == 0)
		r = send_copies(a, fd);
	if (r < 0 && a->stdio)
		stdio_copy_stop(a->stdio);
	if (r < 0)
		return err_set(err, r, "spawn: copy what its tasks write");
	if (streams && copy & LINK_REQUIRED && !(a->stdio && stdio_can_copy(a->stdio)))
		return err_set_text(err, -EOPNOTSUPP,
			"spawn: its tasks' output is to be copied, and does not pass through the "
			"agent (see --forward)");
	return 0;
}

static void mpi_streams_stop(struct agent *a)
{
	if (a->stdio)
		stdio_copy_stop(a->stdio);
}

/* ---- the tasks' streams, for tools: input --------------------------------------------------- */

static void on_taken(void *userdata, int64_t id, int r)
{
	mpi_streams_answer(userdata, id, r);
}

/* 1: done; 0: later. */
static int put_input(struct agent *a, const json_t *object, int64_t id)
{
	const json_t *rank = json_object_get(object, "rank"),
		     *data = json_object_get(object, "data");
	size_t length = json_string_length(data);
	_cleanup_free_ char *bytes = NULL;
	ssize_t n;

	if (!json_is_integer(rank) || json_integer_value(rank) < 0 ||
		json_integer_value(rank) > UINT32_MAX || !json_is_string(data) ||
		length > (LINK_INPUT_MAX / 3 + 1) * 4)
		return -EINVAL;
	bytes = malloc(length + 1);
	if (!bytes)
		return -ENOMEM;
	n = base64_decode(json_string_value(data), length, bytes);
	if (n < 0 || n > (ssize_t)LINK_INPUT_MAX)
		return -EINVAL;
	stdio_input_on_done(a->stdio, on_taken, a);
	return stdio_input(a->stdio, (uint32_t)json_integer_value(rank), id, bytes, (size_t)n,
		json_is_true(json_object_get(object, "end")));
}

void mpi_streams_take_input(struct agent *a, const json_t *object)
{
	int64_t id = json_integer_value(json_object_get(object, "id"));
	int r = a->stdio ? put_input(a, object, id) : -EOPNOTSUPP;

	if (r != 0)
		mpi_streams_answer(a, id, r < 0 ? r : 0);
}

void mpi_streams_restored(struct agent *a)
{
	if (a->stdio)
		stdio_input_on_done(a->stdio, on_taken, a);
}

/* ---- its beginning ------------------------------------------------------------------------- */

/* Its directory of sessions is to be that of the tasks. */
static int enter_namespace(const struct spec *spec)
{
	_cleanup_close_ int fd = -1;

	if (!spec->mount_namespace)
		return 0;
	fd = mount_namespace_open(spec->mount_namespace, NULL);
	return fd < 0 ? fd : mount_namespace_enter(fd);
}

/* In the service process. Descriptor 2 is closed: it logs over the link. */
static int become_user(void *userdata)
{
	struct agent *a = userdata;
	const char *adj = a->start.saved.oom_score_adj;
	int fd, r;

	if (adj[0]) {
		fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		r = write(fd, adj, strlen(adj)) < 0 ? -errno : 0;
		(void)close(fd);
		if (r < 0)
			return r;
	}
	/* The user must not get root's keys. */
	r = process_new_keyring(&a->plan.id, NULL);
	if (r == 0)
		r = enter_namespace(a->plan.spec);
	return r < 0 ? r : identity_become(&a->plan.id);
}

static void early_message(const json_t *object, void *userdata)
{
	struct mpi_link *d = ((struct agent *)userdata)->mpi.link;
	const char *what = text_of(object, "do");

	if (what && strcmp(what, "log") == 0)
		take_log(d, object);
}

/* For an agent that may have to end it. */
static void note_service(struct agent *a, pid_t pid)
{
	struct procstat st;

	a->origin.recover.service = (struct recover_service){.pid = 0};
	if (procstat_read(pid, &st) ==
		0) /* our child, not yet reaped: the pid can't have been reused */
		a->origin.recover.service =
			(struct recover_service){.pid = pid, .start_ticks = st.start_ticks};
}

static bool wait_for(int fd, uint64_t limit_ms, void *userdata)
{
	assert(userdata);
	return agent_serve_meanwhile(userdata, fd, limit_ms);
}

static void on_limit(_unused_ struct ev_loop *loop, ev_timer *w, _unused_ int revents)
{
	struct mpi_link *d = w->data;

	assert(d);
	if (d->pid > 0) {
		log_warning(d->a->log, "the MPI service process does not end: killing it");
		(void)kill(d->pid, SIGKILL); /* our child, not yet reaped */
	}
}

static struct mpi_link *mpi_link_new(struct agent *a)
{
	struct mpi_link *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->a = a;
	ev_init(&d->limit, on_limit);
	d->limit.data = d;
	ev_init(&d->link, on_link);
	ev_init(&d->writable, mpi_link_on_writable);
	STAILQ_INIT(&d->pending);
	return d;
}

/* It holds the data that ranks put, and not every step has limits. */
static uint64_t memory_bytes(const struct spec *spec)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

	if (spec->pmi.memory_bytes != SPEC_PMI_MEMORY_DEFAULT)
		return spec->pmi.memory_bytes;
	return pages > 0 && page > 0 ? (uint64_t)pages / MEMORY_SHARE * (uint64_t)page : 0;
}

static void set_host(struct mpi_link *d)
{
	const struct spec *spec = d->a->plan.spec;

	d->host = (struct mpi_host){
		.timeout_ms = spec->pmi.timeout_ms,
		.tcp = spec->pmi.tcp,
		.wire =
			{
				.addresses = (const char *const *)spec->wire.addresses,
				.listen_fd = spec->wire.listen_fd,
				.auth = spec->wire.auth,
				.secret = spec->wire.secret,
				.secret_size = spec->wire.secret_size,
				.fanout = spec->wire.fanout,
				.ifname = spec->wire.ifname,
				.connect_timeout_ms = spec->wire.connect_timeout_ms,
			},
		.service =
			{
				.become = become_user,
				.meanwhile = wait_for,
				.message = early_message,
				.userdata = d->a,
				.retained_fds = &d->host.wire.listen_fd,
				.retained_fds_count = spec->wire.listen_fd >= 0,
				.start_timeout_ms = START_TIMEOUT_MS,
				.memory_bytes = memory_bytes(spec),
				.cgroup_fd = d->a->mpi.service_cgroup_fd,
				.cgroup_may_clone = d->a->mpi.service_may_clone,
				.unfiltered = d->a->options->mpi_unfiltered,
			},
	};
}

/* Then the tracker tries for the tasks. */
static void report_failed_birth(struct agent *a)
{
	bool may_clone;
	int fd = proctrack_service_fd(a->pt, &a->plan.job, &may_clone);

	if (fd >= 0) /* else the first task's start reports the reason */
		(void)close_fd(fd);
}

int mpi_link_prefork(struct agent *a, struct err *err)
{
	struct mpi_link *d = mpi_link_new(a);
	bool in_cgroup = a->mpi.service_cgroup_fd >= 0;
	int r;

	if (!d)
		return err_set(err, -ENOMEM, "run the MPI plugin's prefork hook");
	a->mpi.link = d;
	set_host(d);
	r = plan_run_prefork(&a->plan, a->mpi.host, &d->host, err);
	/* The service owns the wire: its port must not lead to the agent. */
	if (a->options->listen_fd)
		*a->options->listen_fd = close_fd(*a->options->listen_fd);
	d->host.wire.listen_fd = -1;
	d->host.service.cgroup_fd = a->mpi.service_cgroup_fd = close_fd(a->mpi.service_cgroup_fd);
	d->service = mpi_get_service(a->mpi.host);
	if (!d->service)
		return r;
	d->pid = a->plan.job.service_pid = mpi_service_get_pid(d->service);
	note_service(a, d->pid);
	if (mpi_service_has_failed_birth(d->service))
		report_failed_birth(a);
	/* A service in the step's cgroup ends with that. Otherwise this is the only record of a
	 * service whose agent dies now. */
	if (!in_cgroup)
		result_publish_state(a, agent_state_names[a->state]);
	return r;
}

/* The service is gone, and reaped. */
static void forget_process(struct mpi_link *d)
{
	d->pid = 0;
	d->a->plan.job.service_pid = 0;
	d->a->origin.recover.service = (struct recover_service){.pid = 0};
}

int mpi_link_wait(struct agent *a, struct err *err)
{
	struct mpi_link *d = a->mpi.link;
	int r = mpi_wait_for_service(a->mpi.host, err);

	if (r < 0) {
		d->service = NULL;
		forget_process(d);
		return r;
	}
	watch_link(d);
	return 0;
}

void mpi_link_pause(struct agent *a, bool pause)
{
	struct mpi_link *d = a->mpi.link;

	if (!d || !d->service)
		return;
	if (pause)
		ev_io_stop(a->loop, &d->link);
	else if (mpi_service_get_link(d->service) >= 0)
		ev_io_start(a->loop, &d->link);
}

void mpi_link_forked(struct agent *a)
{
	if (a->mpi.link && a->mpi.link->service)
		mpi_service_close_task_fds(a->mpi.link->service);
}

/* ---- its life ------------------------------------------------------------------------------ */

static json_t *starts_message(const struct agent *a, uint32_t first, uint32_t count)
{
	json_t *ranks = json_array(), *pids = json_array();
	uint32_t i;

	for (i = first; i < first + count; i++) {
		/* a list that lacks one makes an invalid message, which is dropped */
		(void)json_array_append_new(ranks, json_integer(a->tasks.v[i].rank));
		(void)json_array_append_new(pids, json_integer(a->tasks.v[i].pid));
	}
	return json_pack("{s:s, s:o, s:o}", "tell", "task-start", "ranks", ranks, "pids", pids);
}

void mpi_link_tasks_started(struct agent *a, uint32_t first, uint32_t count)
{
	uint32_t n;
	int r = 0;

	if (!a->mpi.link || a->mpi.link->pid == 0)
		return;
	for (; r == 0 && count; first += n, count -= n) {
		n = count < LINK_STARTS_MAX ? count : LINK_STARTS_MAX;
		r = queue_notify_take(a->mpi.link, starts_message(a, first, n));
	}
	if (r < 0)
		log_debug(a->log, "notify the MPI service process of tasks' starts: %s",
			strerror(-r));
}

void mpi_link_task_exit(struct agent *a, const struct task *task, bool end_step)
{
	int r;

	if (!a->mpi.link || a->mpi.link->pid == 0 || task->state != TASK_ENDED)
		return;
	r = queue_notify_take(a->mpi.link,
		json_pack("{s:s, s:I, s:i, s:b}", "tell", "task-exit", "rank",
			(json_int_t)task->rank, "wait_status", task->wait_status, "end_step",
			end_step));
	if (r < 0)
		log_warning(a->log,
			"the MPI service process could not be notified that task %u has ended: %s; ranks that "
			"wait for it may wait until --pmi-timeout",
			task->rank, strerror(-r));
}

/* After everything that the service has written. */
static void close_link(struct mpi_link *d)
{
	if (mpi_service_get_link(d->service) >= 0)
		(void)read_link(d, MESSAGES_AT_END);
	pending_clear(d);
	ev_io_stop(d->a->loop, &d->link);
	mpi_service_close_link(d->service);
}

static void log_death(struct agent *a, pid_t pid, int wait_status)
{
	struct event event = EVENT_INIT(EVENT_MPI_LOST);
	char text[128];

	if (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGSYS)
		(void)snprintf(text, sizeof(text),
			"was killed for a system call that no MPI server makes (mpi_filter in "
			"stepd.conf(5))");
	else if (WIFSIGNALED(wait_status))
		(void)snprintf(text, sizeof(text), "ended by signal %d", WTERMSIG(wait_status));
	else
		(void)snprintf(
			text, sizeof(text), "exited with status %d", WEXITSTATUS(wait_status));
	log_error(a->log,
		"the MPI service process (pid %d) %s: MPI calls of the tasks fail from here on",
		(int)pid, text);
	event.pid = pid;
	event.text = text;
	events_add(a->events, &event);
}

/* When the step is over SIGKILL comes from this agent, or from the end of the container. Any
 * other signal is the service's own fault, even if it closed the link later. */
static bool has_crashed(int wait_status)
{
	return WIFSIGNALED(wait_status) && WTERMSIG(wait_status) != SIGKILL;
}

bool mpi_link_reaped(struct agent *a, pid_t pid, int wait_status)
{
	struct mpi_link *d = a->mpi.link;

	if (!d || d->pid == 0 || d->pid != pid)
		return false;
	close_link(d); /* it may have aborted the step at the end */
	forget_process(d);
	ev_timer_stop(a->loop, &d->limit);
	mpi_streams_stop(a);
	if (a->state < AGENT_DRAINING || d->hung_up || has_crashed(wait_status))
		log_death(a, pid, wait_status);
	if (a->state >= AGENT_DRAINING)
		ending_settle(a);
	return true;
}

static int notify_over(struct agent *a)
{
	_cleanup_free_ char *warning = singletons_warning(a);

	return queue_notify_take(
		a->mpi.link, json_pack("{s:s, s:s*}", "tell", "over", "if_silent", warning));
}

static void begin_limit(struct mpi_link *d, double seconds)
{
	ev_timer_stop(d->a->loop, &d->limit);
	ev_now_update(d->a->loop);
	ev_timer_set(&d->limit, seconds, 0.);
	ev_timer_start(d->a->loop, &d->limit);
}

/* A service that hangs, or that its user has stopped, must not delay a step that is over. */
static void limit_if_alone(struct mpi_link *d)
{
	if (d->a->plan.spec->node_count <= 1)
		begin_limit(d, OVER_TIMEOUT_SEC);
}

/* A dying process closes its descriptors first: tasks that notice this may end and be reaped
 * before it can be reaped itself. */
static bool has_hung_up(const struct mpi_link *d)
{
	struct pollfd p = {.fd = mpi_service_get_link(d->service)};

	return poll(&p, 1, 0) > 0 && (p.revents & POLLHUP);
}

void mpi_link_over(struct agent *a, bool now)
{
	struct mpi_link *d = a->mpi.link;

	if (!d || d->pid == 0 || mpi_service_get_link(d->service) < 0)
		return;
	if (!d->over)
		d->hung_up = has_hung_up(d);
	d->over = true;
	if (!now && notify_over(a) == 0) {
		limit_if_alone(d);
		return;
	}
	begin_limit(d, END_TIMEOUT_SEC);
	close_link(d);
}

bool mpi_link_is_open(const struct agent *a)
{
	return a->mpi.link && a->mpi.link->pid > 0;
}

void mpi_link_close(struct agent *a)
{
	struct mpi_link *d = a->mpi.link;
	int status;

	if (!d)
		return;
	pending_clear(d);
	ev_io_stop(a->loop, &d->link);
	ev_timer_stop(a->loop, &d->limit);
	if (d->pid > 0) {
		(void)kill(d->pid, SIGKILL); /* our child, not yet reaped */
		while (waitpid(d->pid, &status, 0) < 0 && errno == EINTR)
			;
		a->origin.recover.service = (struct recover_service){.pid = 0};
	}
	free(d);
	a->mpi.link = NULL;
}

/* ---- re-exec ------------------------------------------------------------------------------- */

void mpi_link_save(const struct agent *a, struct handover *h, json_t *object)
{
	const struct mpi_link *d = a->mpi.link;
	const struct pending_message *p;
	json_t *pending, *one;

	if (!d || d->pid == 0)
		return;
	pending = handover_put_array(h, object, "pending");
	STAILQ_FOREACH(p, &d->pending, link)
	{
		one = handover_append_object(h, pending);
		handover_put_json_take(h, one, "message", json_incref(p->message));
		handover_put_bool(h, one, "reply", p->is_reply);
	}
	handover_put_int(h, object, "pid", d->pid);
	handover_put_int(h, object, "lines", d->lines);
	handover_put_bool(h, object, "over", d->over);
	handover_put_bool(h, object, "hung_up", d->hung_up);
	handover_put_fd(h, object, "link_fd", mpi_service_get_link(d->service));
	handover_put_bool(h, object, "task_fds", mpi_service_has_task_fds(d->service));
	handover_put_strv(h, object, "environ", mpi_service_common(d->service));
}

static int restore_service(
	struct agent *a, const struct handover *h, const json_t *object, pid_t pid, int fd)
{
	_cleanup_strv_ struct strv common = {0};
	int r = handover_copy_strv(h, object, "environ", &common);

	if (r < 0)
		return r;
	return mpi_restore_service(
		a->mpi.host, pid, fd, json_get_bool(object, "task_fds", true), &common);
}

static int restore_pending(struct mpi_link *d, const json_t *object)
{
	const json_t *pending = json_get_array(object, "pending"), *one;
	size_t i;
	int r = 0;

	for (i = 0; r == 0 && i < json_array_size(pending); i++) {
		one = json_array_get(pending, i);
		r = pending_add(d, json_incref(json_get_object(one, "message")),
			json_get_bool(one, "reply", false));
	}
	return r;
}

int mpi_link_restore(
	struct agent *a, const struct handover *h, const json_t *object, struct err *err)
{
	pid_t pid = (pid_t)json_get_int(object, "pid", 0);
	int fd = handover_get_fd(object, "link_fd"), r;

	if (pid <= 0 || !a->mpi.host)
		return 0;
	a->mpi.link = mpi_link_new(a);
	r = a->mpi.link ? restore_service(a, h, object, pid, fd) : -ENOMEM;
	if (r < 0)
		return err_set(err, r, "take over the MPI service process");
	a->mpi.link->service = mpi_get_service(a->mpi.host);
	a->mpi.link->pid = pid;
	note_service(a, pid);
	a->mpi.link->lines = (unsigned)json_get_int(object, "lines", 0);
	a->mpi.link->over = json_get_bool(object, "over", false);
	a->mpi.link->hung_up = json_get_bool(object, "hung_up", false);
	if (fd < 0) { /* its end was requested */
		begin_limit(a->mpi.link, END_TIMEOUT_SEC);
		return 0;
	}
	watch_link(a->mpi.link);
	if (a->state == AGENT_DRAINING)
		limit_if_alone(a->mpi.link);
	r = restore_pending(a->mpi.link, object);
	return r < 0 ? err_set(err, r, "take over the MPI service process") : 0;
}
