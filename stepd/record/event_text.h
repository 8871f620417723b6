/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An event as its line in the file, and what a reader of the file needs to know of a line.
 */
#ifndef STEPD_RECORD_EVENT_TEXT_H
#define STEPD_RECORD_EVENT_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct event;

/* No line is longer, its newline and a NUL included: a longer text is cut. */
#define EVENT_LINE_MAX 8192

/* The event's JSON and a newline into line: its length without the NUL. */
size_t event_format(const struct event *event, uint64_t sequence, char line[EVENT_LINE_MAX]);

/* The number of the event whose line begins at text, of which size bytes are there; 0: none does.
 */
uint64_t event_get_sequence(const char *text, size_t size);

#endif
