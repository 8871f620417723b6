/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The bytes of an input that some of its readers have not taken yet: the last BACKLOG_WINDOW of
 * them in memory, which all readers share, and what is older in a file without a name, made and
 * written as the tasks' user. A byte has a position, which counts from an arbitrary begin and may
 * be negative after a re-exec; each reader has the position of its next byte.
 *
 * The space of what all have taken is given back. What happens where the file can't grow is the
 * caller's decision.
 */
#ifndef STEPD_STDIO_BACKLOG_H
#define STEPD_STDIO_BACKLOG_H

#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/err.h"

#define BACKLOG_WINDOW (1u << 20)
#define BACKLOG_PIECE  65536u /* at most so much is added or read at once */

struct backlog;
struct handover;
struct identity;
struct json_t;

struct backlog_options {
	bool spills;               /* there may be a file */
	uint64_t spill_max;        /* its bytes; 0: no limit */
	const char *dir;           /* for the file; tried before /var/tmp; may be NULL; borrowed */
	const struct identity *id; /* borrowed; NULL: this process's own */
};

int backlog_new(const struct backlog_options *options, struct backlog **ret_backlog) _must_check_;

int64_t backlog_end(const struct backlog *b);

/* To add a piece, what stands before this position must leave the memory. */
int64_t backlog_limit(const struct backlog *b);

/* Makes space for a piece, where lowest is the position of the reader that is behind most. 0;
 * -EAGAIN: that reader needs what would be overwritten, and there may be no file; else the file
 * can't take it: -E2BIG at spill_max, or the system's reason. */
int backlog_make_space(struct backlog *b, int64_t lowest, struct err *err) _must_check_;

/* After backlog_make_space(): where to put the piece, *ret_size bytes at most; then their number.
 */
char *backlog_piece(struct backlog *b, size_t *ret_size);
void backlog_add(struct backlog *b, size_t size);

/* The bytes at a position, valid until the next call: their number, 0 at the end, or -errno if the
 * file can't be read. */
ssize_t backlog_get(struct backlog *b, int64_t at, const char **ret_data) _must_check_;

/* Whether the byte at that position is in the file. */
bool backlog_in_file(const struct backlog *b, int64_t at);

/* No reader needs what stands before lowest. */
void backlog_release(struct backlog *b, int64_t lowest);

/* At a re-exec (handover.h). Returns the position that is 0 afterwards. */
int64_t backlog_save(
	const struct backlog *b, int64_t lowest, struct handover *h, struct json_t *object);
int backlog_restore(const struct backlog_options *options, const struct handover *h,
	const struct json_t *object, struct backlog **ret_backlog) _must_check_;

struct backlog *backlog_free(struct backlog *b);
DEFINE_CLEANUP(struct backlog *, backlog_free);
#define _cleanup_backlog_ _cleanup_(backlog_free_p)

#endif
