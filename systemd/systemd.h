/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What stepd sends to systemd: messages, as datagrams to its sockets (notifications of a service of
 * Type=notify to the service manager, sd_notify(3), and lines for the journal with fields of their
 * own, by its native protocol), and the request of a scope. The protocols of the messages are
 * stable and open to everybody, so libsystemd is not loaded for them.
 */
#ifndef SYSTEMD_SYSTEMD_H
#define SYSTEMD_SYSTEMD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/cleanup.h"
#include "stepd/base/err.h"

/* ---- the service manager --------------------------------------------------------------------- */

/* Whether there is a service manager to notify. */
bool notify_is_wanted(void);

/* Sends "READY=1\nSTATUS=...". 0 also without a service manager. -EAGAIN: the manager has not
 * read for 50 ms; another -errno: the socket is unusable. */
int notify_send(const char *fmt, ...) _printf_(1, 2) _must_check_;

/* ---- the journal --------------------------------------------------------------------------- */

/* Whether fd is a stream to the journal, by $JOURNAL_STREAM, which names the standard streams'. */
bool journal_has_stream(int fd);

struct journal_line {
	int priority;     /* of syslog(3) */
	const char *step; /* STEPD_STEP; NULL: none */
	const char *text; /* one line */
};

/* 0, or -errno if the journal did not get it. */
int journal_send(const struct journal_line *line) _must_check_;

/* ---- the scope ------------------------------------------------------------------------------- */

/* A transient scope of systemd around this process: requested of systemd's manager over D-Bus by
 * StartTransientUnit, org.freedesktop.systemd1(5). This is the only file that uses libsystemd,
 * which is loaded for the request and unloaded again: it takes some 3 ms, and its mappings would
 * make each fork of a task dearer. */

#define SCOPE_NAME_SIZE 256 /* of a unit's name, with its NUL */
#define SCOPE_SLICE     "stepd.slice"

/* The longest wait for systemd. At boot, or in a daemon-reload of thousands of units, it does not
 * reply for many seconds, and a step outside of its scope is the worse outcome: systemd's own
 * clients wait 25 s for a reply. */
#define SCOPE_TIMEOUT_MS 30000u
#define SCOPE_SLOW_MS    5000u /* worth a warning */

/* Forms "stepd-NODE_JOB.STEP-PID.scope". Characters that are invalid in a unit's name are written
 * \xNN, as systemd-escape(1) does. -ENAMETOOLONG: it does not fit. */
int scope_make_name(const char *node_name, uint32_t job_id, const char *step_name, pid_t pid,
	char name[SCOPE_NAME_SIZE]) _must_check_;

/* Whether a scope can be requested: systemd is the init here, and the bus of its manager (the
 * system's for root, else the user's) exists. -EOPNOTSUPP: systemd is not the init, or stepd was
 * built without libsystemd. -ENOENT: it is, but the bus is missing. Neither loads the library nor
 * connects.
 */
int scope_check(struct err *err) _must_check_;

struct scope_request {
	const char *name; /* scope_make_name() */
	const char *description;
	uint64_t timeout_ms;
};

/* Starts the scope in SCOPE_SLICE, delegated, with this process in it, and waits until systemd
 * has done so. Stores the time it took in *ret_took_ms, on success only. When the last process in
 * it has ended, systemd removes it. -ETIMEDOUT: systemd did not reply in time; it may still move
 * this process into the scope later. -EOPNOTSUPP: libsystemd can't be loaded, or stepd was built
 * without it. */
int scope_start(
	const struct scope_request *request, uint64_t *ret_took_ms, struct err *err) _must_check_;

#endif
