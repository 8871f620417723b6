/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where the agent writes the tasks' bytes: a descriptor behind a bounded buffer. Nothing here
 * blocks on a reader that takes nothing: its bytes wait, and their source waits for space.
 *
 * A destination that fails (a full disk, a closed reader) is named once in the log; from then on
 * it takes everything and forgets it, so that the tasks go on.
 */
#ifndef STEPD_STDIO_SINK_H
#define STEPD_STDIO_SINK_H

#include <stdbool.h>

#include "stepd/base/cleanup.h"

#define SINK_SIZE 65536u

struct ev_loop;
struct handover;
struct json_t;
struct log;
struct sink;

/* From the loop: half of the buffer is free again, or the sink has failed. May free the sink. */
typedef void (*sink_space_fn)(void *userdata);

/* fd is borrowed, or with own the sink's from the call on, on failure too. name is for the log. */
int sink_new(struct ev_loop *loop, const struct log *log, int fd, bool own, const char *name,
	struct sink **ret_sink) _must_check_;
void sink_on_space(struct sink *sink, sink_space_fn on_space, void *userdata);

/* Bytes that sink_put() takes now. */
size_t sink_space(const struct sink *sink);

/* Bytes that still wait; 0 once it has failed. */
size_t sink_pending(const struct sink *sink);

/* Bytes that were put have not come to where they should. */
bool sink_has_lost(const struct sink *sink);

/* What is put from now on is forgotten. */
bool sink_failed(const struct sink *sink);

/* size is at most sink_space(). */
void sink_put(struct sink *sink, const void *data, size_t size);

/* Writes what can be written without waiting; the loop does the rest. */
void sink_flush(struct sink *sink);

/* Nothing more will come and nothing waits: closes what it owns, and reports it if bytes that
 * had been taken turn out lost then (NFS, quotas). */
void sink_close(struct sink *sink);

/* For the program that goes on with it (handover.h), with the bytes that wait. */
void sink_save(const struct sink *sink, struct handover *h, struct json_t *object);
int sink_restore(struct ev_loop *loop, const struct log *log, const struct handover *h,
	const struct json_t *object, struct sink **ret_sink) _must_check_;

struct sink *sink_free(struct sink *sink);
DEFINE_CLEANUP(struct sink *, sink_free);
#define _cleanup_sink_ _cleanup_(sink_free_p)

#endif
