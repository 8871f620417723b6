/* SPDX-License-Identifier: BSD-3-Clause */
#include "systemd/systemd.h"

#include <ctype.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "config.h"

#define PATIENCE_MS 50

/* Sends to a path, or with a leading '@' to an abstract name. Waits at most 50 ms for a reader
 * that does not read: -EAGAIN, and the message is lost. */
static int dgram_send(const char *address, const void *data, size_t size)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -1;
	size_t len = strlen(address);
	struct pollfd p;

	if (len >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	memcpy(sa.sun_path, address, len);
	if (address[0] == '@')
		sa.sun_path[0] = '\0'; /* an abstract name */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* Connected, so that poll() reports whether the receiver has space. */
	if (connect(fd, (struct sockaddr *)&sa,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
		return -errno;
	p = (struct pollfd){.fd = fd, .events = POLLOUT};
	if (poll(&p, 1, PATIENCE_MS) == 0)
		return -EAGAIN;
	return send(fd, data, size, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* ---- the service manager ------------------------------------------------------------------- */

static const char *get_address(void)
{
	const char *address = secure_getenv("NOTIFY_SOCKET");

	/* Two of the forms of sd_notify(3); the third, a vsock, is for a virtual machine's init. */
	return address && (address[0] == '/' || address[0] == '@') && address[1] ? address : NULL;
}

bool notify_is_wanted(void)
{
	return get_address() != NULL;
}

int notify_send(const char *fmt, ...)
{
	const char *address = get_address();
	_cleanup_free_ char *text = NULL;
	va_list ap;
	int n;

	if (!address)
		return 0;
	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0) {
		text = NULL;
		return -ENOMEM;
	}
	return dgram_send(address, text, strlen(text));
}

/* ---- the journal --------------------------------------------------------------------------- */

#define JOURNAL_SOCKET "/run/systemd/journal/socket"

bool journal_has_stream(int fd)
{
	const char *stream = secure_getenv("JOURNAL_STREAM"); /* "DEVICE:INODE" */
	char text[64];
	struct stat st;

	if (!stream || fstat(fd, &st) < 0)
		return false;
	(void)snprintf(text, sizeof(text), "%llu:%llu", (unsigned long long)st.st_dev,
		(unsigned long long)st.st_ino);
	return strcmp(text, stream) == 0;
}

int journal_send(const struct journal_line *line)
{
	_cleanup_free_ char *text = NULL;
	int n;

	if (strchr(line->text, '\n') || (line->step && strchr(line->step, '\n')))
		return -EINVAL; /* it would start another field */
	n = asprintf(&text, "PRIORITY=%d\nSYSLOG_IDENTIFIER=stepd\n%s%s%sMESSAGE=%s\n",
		line->priority, line->step ? "STEPD_STEP=" : "", line->step ? line->step : "",
		line->step ? "\n" : "", line->text);
	if (n < 0) {
		text = NULL;
		return -ENOMEM;
	}
	return dgram_send(JOURNAL_SOCKET, text, (size_t)n);
}

/* ---- the scope: without the library ---------------------------------------------------------- */

#define SYSTEM_BUS "/run/dbus/system_bus_socket"

int scope_make_name(const char *node_name, uint32_t job_id, const char *step_name, pid_t pid,
	char name[SCOPE_NAME_SIZE])
{
	_cleanup_free_ char *text = NULL;
	const char *c;
	int at = 0;

	if (asprintf(&text, "stepd-%s_%u.%s-%d.scope", node_name, job_id, step_name, (int)pid) <
		0) {
		text = NULL;
		return -ENOMEM;
	}
	/* Copies valid characters of a unit's name, see unit_name_is_valid(), and escapes the
	 * others. */
	for (c = text; *c && at < SCOPE_NAME_SIZE; c++)
		at += snprintf(name + at, (size_t)(SCOPE_NAME_SIZE - at),
			isalnum((unsigned char)*c) || strchr(":-_.", *c) ? "%c" : "\\x%02x",
			(unsigned char)*c);
	return at < SCOPE_NAME_SIZE ? 0 : -ENAMETOOLONG;
}

#ifdef HAVE_LIBSYSTEMD

static bool is_user(void)
{
	return geteuid() != 0;
}

static int check_socket(const char *path, struct err *err)
{
	return access(path, F_OK) < 0
		? err_set_text(err, -ENOENT, "there is no D-Bus socket '%s'", path)
		: 0;
}

int scope_check(struct err *err)
{
	const char *dir = secure_getenv("XDG_RUNTIME_DIR"), *address;
	char path[PATH_MAX];
	struct stat st;

	/* As sd_booted(3) does it. */
	if (lstat("/run/systemd/system", &st) < 0 || !S_ISDIR(st.st_mode))
		return err_set_text(err, -EOPNOTSUPP, "systemd is not the init of this machine");
	address = is_user() ? secure_getenv("DBUS_SESSION_BUS_ADDRESS")
			    : secure_getenv("DBUS_SYSTEM_BUS_ADDRESS");
	if (address)
		return 0;
	if (!is_user())
		return check_socket(SYSTEM_BUS, err);
	if (!dir)
		return err_set_text(err, -ENOENT,
			"XDG_RUNTIME_DIR is not set, so the user's own systemd can't be reached");
	if (snprintf(path, sizeof(path), "%s/bus", dir) >= (int)sizeof(path))
		return err_set_text(err, -ENOENT, "XDG_RUNTIME_DIR is too long for a path");
	return check_socket(path, err);
}

/* ---- the scope: the library ------------------------------------------------------------------ */

#include <sys/syscall.h>
#include <systemd/sd-bus.h>

#include "stepd/base/clock.h"
#include "stepd/base/dynlib.h"

#define MANAGER   "org.freedesktop.systemd1"
#define PATH      "/org/freedesktop/systemd1"
#define INTERFACE "org.freedesktop.systemd1.Manager"

/* The parts of libsystemd used here. */
struct libsystemd {
	void *handle;
	__typeof__(&sd_bus_open_system) open_system;
	__typeof__(&sd_bus_open_user) open_user;
	__typeof__(&sd_bus_close_unref) close_unref;
	__typeof__(&sd_bus_is_ready) is_ready;
	__typeof__(&sd_bus_process) process;
	__typeof__(&sd_bus_wait) wait;
	__typeof__(&sd_bus_match_signal_async) match_signal_async;
	__typeof__(&sd_bus_call_async) call_async;
	__typeof__(&sd_bus_message_new_method_call) new_call;
	__typeof__(&sd_bus_message_append) append;
	__typeof__(&sd_bus_message_open_container) open_container;
	__typeof__(&sd_bus_message_close_container) close_container;
	__typeof__(&sd_bus_message_read) read;
	__typeof__(&sd_bus_message_get_error) get_error;
	__typeof__(&sd_bus_message_get_errno) get_errno;
	__typeof__(&sd_bus_message_unref) message_unref;
};

static const struct dynlib_symbol symbols[] = {
	{"sd_bus_open_system", offsetof(struct libsystemd, open_system)},
	{"sd_bus_open_user", offsetof(struct libsystemd, open_user)},
	{"sd_bus_close_unref", offsetof(struct libsystemd, close_unref)},
	{"sd_bus_is_ready", offsetof(struct libsystemd, is_ready)},
	{"sd_bus_process", offsetof(struct libsystemd, process)},
	{"sd_bus_wait", offsetof(struct libsystemd, wait)},
	{"sd_bus_match_signal_async", offsetof(struct libsystemd, match_signal_async)},
	{"sd_bus_call_async", offsetof(struct libsystemd, call_async)},
	{"sd_bus_message_new_method_call", offsetof(struct libsystemd, new_call)},
	{"sd_bus_message_append", offsetof(struct libsystemd, append)},
	{"sd_bus_message_open_container", offsetof(struct libsystemd, open_container)},
	{"sd_bus_message_close_container", offsetof(struct libsystemd, close_container)},
	{"sd_bus_message_read", offsetof(struct libsystemd, read)},
	{"sd_bus_message_get_error", offsetof(struct libsystemd, get_error)},
	{"sd_bus_message_get_errno", offsetof(struct libsystemd, get_errno)},
	{"sd_bus_message_unref", offsetof(struct libsystemd, message_unref)},
};

static void libsystemd_close(struct libsystemd *lib)
{
	lib->handle = dynlib_close(lib->handle);
}
#define _cleanup_libsystemd_ _cleanup_(libsystemd_close)

static int libsystemd_open(struct libsystemd *lib, struct err *err)
{
	lib->handle = dynlib_open(LIBSYSTEMD_SONAME, symbols, ARRAY_SIZE(symbols), lib);
	if (lib->handle)
		return 0;
	return err_set_text(err, -EOPNOTSUPP, "%s can't be loaded (install it)", LIBSYSTEMD_SONAME);
}

/* ---- the scope: the request ------------------------------------------------------------------ */

struct query {
	const struct libsystemd *lib;
	const struct scope_request *request;
	sd_bus *bus;
	int pidfd; /* -1: not connected */
	bool sent;
	bool answered; /* with result, and err if that is below 0 */
	int result;
	struct err *err;
};

static void query_clear(struct query *q)
{
	if (q->bus)
		(void)q->lib->close_unref(q->bus); /* with its queued messages */
	q->bus = NULL;
	q->pidfd = close_fd(q->pidfd);
}

static int scope_end_query(struct query *q, int result)
{
	q->answered = true;
	q->result = result;
	return 0;
}

static int send_query(struct query *q);

/* systemd before 253 does not know PIDFDs: requested again, with a pid. */
static bool is_unknown_property(const sd_bus_error *error)
{
	return strcmp(error->name, SD_BUS_ERROR_PROPERTY_READ_ONLY) == 0 ||
		strcmp(error->name, SD_BUS_ERROR_UNKNOWN_PROPERTY) == 0;
}

/* The reply names the job; a signal reports its end. */
static int on_reply(sd_bus_message *m, void *userdata, _unused_ sd_bus_error *ret_error)
{
	struct query *q = userdata;
	const sd_bus_error *error = q->lib->get_error(m);
	int code;

	if (!error || q->answered)
		return 0;
	if (q->pidfd >= 0 && is_unknown_property(error)) {
		q->pidfd = close_fd(q->pidfd);
		code = send_query(q);
		return code < 0 ? scope_end_query(q, err_set(q->err, code, "call systemd")) : 0;
	}
	code = -q->lib->get_errno(m);
	return scope_end_query(q,
		err_set_text(q->err, code < 0 ? code : -EIO, "systemd refuses it: %s (%s)",
			error->message ? error->message : "no reason given", error->name));
}

static int on_job_removed(sd_bus_message *m, void *userdata, _unused_ sd_bus_error *ret_error)
{
	struct query *q = userdata;
	const char *path, *unit, *result;
	uint32_t id;

	if (q->lib->read(m, "uoss", &id, &path, &unit, &result) < 0)
		return 0; /* not one that systemd sends */
	if (q->answered || strcmp(unit, q->request->name) != 0)
		return 0;
	if (strcmp(result, "done") == 0)
		return scope_end_query(q, 0);
	return scope_end_query(q,
		err_set_text(q->err, -ECANCELED,
			"systemd could not start the scope '%s': its job's "
			"result is '%s' ('systemctl status' and the journal have more)",
			unit, result));
}

/* The bus refuses the match for signals. */
static int on_match(sd_bus_message *m, void *userdata, _unused_ sd_bus_error *ret_error)
{
	struct query *q = userdata;
	const sd_bus_error *error = q->lib->get_error(m);

	if (!error || q->answered)
		return 0;
	return scope_end_query(q,
		err_set_text(q->err, -EACCES,
			"D-Bus refuses the signals of systemd's jobs: %s (%s)",
			error->message ? error->message : "no reason given", error->name));
}

static int append_properties(const struct query *q, sd_bus_message *m)
{
	const struct libsystemd *lib = q->lib;
	int r;

	r = lib->append(m, "(sv)(sv)(sv)(sv)(sv)", "Description", "s", q->request->description,
		"Slice", "s", SCOPE_SLICE, "Delegate", "b", 1, "CollectMode", "s",
		"inactive-or-failed", /* a failed one is forgotten, too */
		/* The default is 15 % of the machine's limit; a step has its own limits. */
		"TasksMax", "t", UINT64_MAX);
	if (r < 0)
		return r;
	if (q->pidfd >= 0)
		return lib->append(m, "(sv)", "PIDFDs", "ah", 1, q->pidfd);
	/* 0 is the sender, as the kernel reports it to the bus: correct in a PID namespace, too. */
	return lib->append(m, "(sv)", "PIDs", "au", 1, 0u);
}

static int fill_request(const struct query *q, sd_bus_message *m)
{
	const struct libsystemd *lib = q->lib;
	int r;

	r = lib->append(m, "ss", q->request->name, "fail");
	if (r >= 0)
		r = lib->open_container(m, 'a', "(sv)");
	if (r >= 0)
		r = append_properties(q, m);
	if (r >= 0)
		r = lib->close_container(m);
	return r < 0 ? r : lib->append(m, "a(sa(sv))", 0); /* no other unit beside it */
}

static int send_query(struct query *q)
{
	sd_bus_message *m = NULL;
	int r;

	r = q->lib->new_call(q->bus, &m, MANAGER, PATH, INTERFACE, "StartTransientUnit");
	if (r < 0)
		return r;
	r = fill_request(q, m);
	if (r >= 0)
		r = q->lib->call_async(q->bus, NULL, m, on_reply, q, UINT64_MAX);
	(void)q->lib->message_unref(m);
	return r < 0 ? r : 0;
}

/* One turn: handles a message of the bus, and sends our request as soon as possible. >0: there
 * may be more.
 */
static int take_turn(struct query *q)
{
	int r = q->lib->process(q->bus, NULL);

	if (r < 0 || q->sent || q->lib->is_ready(q->bus) <= 0)
		return r;
	q->sent = true;
	r = send_query(q);
	return r < 0 ? r : 1;
}

/* Only sd_bus_wait() waits here, by polling the bus. sd_bus_call(), and sending a descriptor to a
 * bus that has not greeted yet, would wait without our deadline. */
static int wait_answer(struct query *q)
{
	uint64_t end_usec = clock_now_ns() / 1000 + q->request->timeout_ms * 1000, now;
	int r;

	for (;;) {
		r = take_turn(q);
		if (q->answered)
			return q->result;
		now = clock_now_ns() / 1000;
		if (r >= 0 && now >= end_usec)
			return err_set_text(q->err, -ETIMEDOUT,
				"systemd did not answer within %u ms",
				(unsigned)q->request->timeout_ms);
		if (r == 0)
			r = q->lib->wait(q->bus, end_usec - now);
		if (r < 0 && r != -EINTR)
			return err_set(q->err, r, "communicate with systemd over D-Bus");
	}
}

int scope_start(const struct scope_request *request, uint64_t *ret_took_ms, struct err *err)
{
	_cleanup_libsystemd_ struct libsystemd lib = {0};
	const uint64_t begin_usec = clock_now_ns() / 1000;
	_cleanup_(query_clear) struct query q = {
		.lib = &lib, .request = request, .pidfd = -1, .err = err};
	int r = libsystemd_open(&lib, err);

	if (r < 0)
		return r;
	r = is_user() ? lib.open_user(&q.bus) : lib.open_system(&q.bus);
	if (r < 0)
		return err_set(
			err, r, "connect to D-Bus (the %s's)", is_user() ? "user" : "system");
#ifdef SYS_pidfd_open
	q.pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0); /* since Linux 5.3 */
#endif
	/* Before the request: the bus handles them in this order. */
	r = lib.match_signal_async(
		q.bus, NULL, MANAGER, PATH, INTERFACE, "JobRemoved", on_job_removed, on_match, &q);
	if (r < 0)
		return err_set(err, r, "request the scope '%s' of systemd", request->name);
	r = wait_answer(&q);
	if (r == 0)
		*ret_took_ms = (clock_now_ns() / 1000 - begin_usec) / 1000;
	return r;
}

#else

int scope_check(struct err *err)
{
	return err_set_text(err, -EOPNOTSUPP, "this stepd was built without libsystemd");
}

int scope_start(_unused_ const struct scope_request *request, _unused_ uint64_t *ret_took_ms,
	struct err *err)
{
	return scope_check(err);
}

#endif
