/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages to systemd, as datagrams to its sockets: notifications of a service of Type=notify to
 * the service manager, sd_notify(3), and lines for the journal with fields of their own, by its
 * native protocol. Both protocols are stable and open to everybody, so libsystemd is not loaded for
 * them.
 */
#ifndef SYSTEMD_NOTIFY_H
#define SYSTEMD_NOTIFY_H

#include <stdbool.h>

#include "stepd/base/cleanup.h"

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

#endif
