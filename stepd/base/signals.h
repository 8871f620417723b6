/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Signals by name, as signal(7) has them: "TERM", "SIGTERM", "15", "RTMIN+3", "RTMAX-1".
 */
#ifndef STEPD_BASE_SIGNALS_H
#define STEPD_BASE_SIGNALS_H

#include <stddef.h>

/* The number, or -EINVAL. Any case. */
int signals_parse(const char *text);

/* The name without "SIG" into buf, which it returns; a number where there is no name. */
const char *signals_name(int signal, char *buf, size_t size);

#define SIGNALS_NAME_SIZE 16

#endif
