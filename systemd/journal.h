/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lines for systemd's journal with fields of their own, by its native protocol (datagrams of
 * FIELD=VALUE lines to /run/systemd/journal/socket), which is documented and stable: libsystemd is
 * not loaded for it.
 */
#ifndef SYSTEMD_JOURNAL_H
#define SYSTEMD_JOURNAL_H

#include <stdbool.h>

#include "stepd/base/cleanup.h"

/* Whether fd is a stream to the journal, as $JOURNAL_STREAM says of the standard streams. */
bool journal_has_stream(int fd);

struct journal_line {
	int priority;     /* of syslog(3) */
	const char *step; /* STEPD_STEP; NULL: none */
	const char *text; /* one line */
};

/* 0 or -errno: the journal did not get it. */
int journal_send(const struct journal_line *line) _must_check_;

#endif
