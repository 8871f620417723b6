/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One datagram to a socket of systemd's. Never waits for long: a reader that takes nothing for 50
 * ms loses it.
 */
#ifndef SYSTEMD_DGRAM_H
#define SYSTEMD_DGRAM_H

#include <stddef.h>

#include "stepd/base/cleanup.h"

/* address: a path, or with '@' in front an abstract name. -EAGAIN: the reader takes nothing.
 * -ENAMETOOLONG: no address is that long. */
int dgram_send(const char *address, const void *data, size_t size) _must_check_;

#endif
