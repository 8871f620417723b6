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

/* How long the step's end waits for a reader that does not read. */
#define REPORT_PATIENCE_MS 2000

/* Writes text to the file path: a regular file is replaced atomically, with sync on the disk; a
 * device, pipe or the like is written to. 0 or -errno; -ETIMEDOUT: its reader does not read. */
int report_store(const char *path, const char *text, bool sync) _must_check_;

/* Whether report_store() could write there, as far as that can be checked before: 0 or -errno. */
int report_check(const char *path) _must_check_;

/* The descriptor that path names by its number ("/dev/fd/63", as from a shell's >(...)), which
 * exists only in the process that was started with it; -1: path names none. path may be NULL. */
int report_descriptor_of(const char *path);

/* For output in pieces: opens a new file that replaces path if that is a regular one, else the
 * device or pipe, non-blocking. Returns the descriptor, or -errno. */
int report_open(const char *path) _must_check_;

/* Writes all of text to fd. 0 or -errno. */
int report_write(int fd, const char *text) _must_check_;

/* Writes as much as the reader reads, and waits at most that long for it to read more. Returns
 * how much was written, which is less than size if the reader paused, or -errno. The descriptor
 * may be shared with the tasks: its flags stay as they are, and pieces are small enough not to
 * block once it is writable. */
ssize_t report_write_patiently(int fd, const char *text, size_t size, int patience_ms) _must_check_;

/* A new JSON string of the text, in which bytes that are not UTF-8 become '?': names of files and
 * commands may be any bytes, JSON strings may not. NULL: no memory. */
struct json_t *report_json_text(const char *text);

/* ---- the launch trace ---------------------------------------------------------------------- */

/* The launch trace: phases with their times, written as Chrome's trace JSON (open it in
 * about:tracing or ui.perfetto.dev). Times are CLOCK_MONOTONIC; the file's begin at the agent's
 * start. Without a file nothing is recorded: every function takes NULL. */

/* start_ns is the agent's start. NULL: no memory. */
struct trace *trace_new(uint64_t start_ns);

/* Records a phase from begin_ns to now, in the agent's row. name is a literal. */
void trace_phase(struct trace *t, const char *name, uint64_t begin_ns);

/* Records a phase of one task, in its own row. */
void trace_task(
	struct trace *t, const char *name, uint32_t rank, uint64_t begin_ns, uint64_t end_ns);

int trace_write(
	const struct trace *t, const char *path, const char *label, struct err *err) _must_check_;

/* At a re-exec (handover.h). NULL from the latter: no memory. */
void trace_save(const struct trace *t, struct handover *h, struct json_t *object);
struct trace *trace_restore(const struct json_t *object);

struct trace *trace_free(struct trace *t);

#endif
