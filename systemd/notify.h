/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a service of Type=notify tells its service manager: a datagram of lines to the socket that
 * $NOTIFY_SOCKET names, sd_notify(3). The protocol is stable and may be spoken by anybody, so
 * libsystemd is not loaded for it.
 */
#ifndef SYSTEMD_NOTIFY_H
#define SYSTEMD_NOTIFY_H

#include <stdbool.h>

#include "stepd/base/cleanup.h"

/* Whether a service manager listens. */
bool notify_is_wanted(void);

/* Sends "READY=1\nSTATUS=...". 0 also where nobody wants to know. -EAGAIN: the manager took nothing
 * for 50 ms; another -errno: the socket is no good. */
int notify_send(const char *fmt, ...) _printf_(1, 2) _must_check_;

#endif
