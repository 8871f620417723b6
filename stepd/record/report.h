/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The files that the agent's caller names for what it reports (the result, the trace), and
 * descriptors whose readers may be slow or gone. Nothing here waits for ever.
 */
#ifndef STEPD_RECORD_REPORT_H
#define STEPD_RECORD_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/cleanup.h"
#include "stepd/base/err.h"

struct handover;
struct json_t;
struct trace;

/* How long the step's end waits for a reader that takes nothing. */
#define REPORT_PATIENCE_MS 2000

/* Text to the file path: a regular one is replaced whole, with sync on the disk; a device, pipe or
 * the like is written to. 0 or -errno; -ETIMEDOUT: its reader takes nothing. */
int report_store(const char *path, const char *text, bool sync) _must_check_;

/* Whether report_store() could do it, as far as that is known before: 0 or -errno. */
int report_check(const char *path) _must_check_;

/* The descriptor that path names by its number ("/dev/fd/63", as a shell's >(...) gives it), which
 * only the process knows that was started with it; -1: it names none. path may be NULL. */
int report_descriptor_of(const char *path);

/* For what is written bit by bit: a new file that replaces path if that is a regular one, else
 * the device or pipe, non-blocking. The descriptor, or -errno. */
int report_open(const char *path) _must_check_;

/* All of text to fd, or -errno. */
int report_write(int fd, const char *text) _must_check_;

/* Writes what a reader takes, and waits at most so long for it to take more. Returns how much it
 * took in all, which is less than size if it paused, or -errno. The descriptor may be shared with
 * the tasks: its flags stay as they are, and pieces are so small that a reader that is ready takes
 * them. */
ssize_t report_write_patiently(int fd, const char *text, size_t size, int patience_ms) _must_check_;

/* A new reference to the text, whose bytes above 0x7f become '?' where they are not UTF-8: names of
 * files and commands may be any bytes, JSON's strings not. NULL: no memory. */
struct json_t *report_json_text(const char *text);

/* ---- the launch trace ---------------------------------------------------------------------- */

/* The launch trace: phases with their times, written as Chrome's trace JSON (open it in
 * about:tracing or ui.perfetto.dev). Times are CLOCK_MONOTONIC; the file's begin at the agent's
 * start. Without a file nothing is recorded: every function takes NULL. */

/* start_ns is the agent's start. NULL: no memory. */
struct trace *trace_new(uint64_t start_ns);

/* A phase from begin_ns to now, in the agent's row. name is a literal. */
void trace_phase(struct trace *t, const char *name, uint64_t begin_ns);

/* A phase of one task, in its own row. */
void trace_task(
	struct trace *t, const char *name, uint32_t rank, uint64_t begin_ns, uint64_t end_ns);

int trace_write(
	const struct trace *t, const char *path, const char *label, struct err *err) _must_check_;

/* At a re-exec (handover.h). NULL from the latter: no memory. */
void trace_save(const struct trace *t, struct handover *h, struct json_t *object);
struct trace *trace_restore(const struct json_t *object);

struct trace *trace_free(struct trace *t);

#endif
