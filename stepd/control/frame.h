/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Bytes as they come, cut into frames: each ends with a NUL, none is longer than its sender may.
 * And what can be said of a frame before a parser has spent memory on it.
 */
#ifndef STEPD_CONTROL_FRAME_H
#define STEPD_CONTROL_FRAME_H

#include "stepd/base/buffer.h"

struct frames {
	struct buffer bytes;
	size_t searched; /* of them: no NUL among these */
	size_t max;      /* bytes of a frame, without its NUL */
};

/* Looks at the first frame: 1 with its text, without the NUL, borrowed until anything is added or
 * dropped; 0 if its end has not come; -EMSGSIZE if it is too long. */
int frames_first(struct frames *f, const char **ret_text, size_t *ret_size) _must_check_;

/* Takes the first frame away: there is one. */
void frames_drop(struct frames *f, size_t size);

void frames_clear(struct frames *f);

/* Whether the text nests no deeper than CONTROL_DEPTH_MAX and has at most values_max values. It
 * need not be JSON: a parser decides on that. */
bool frame_is_bounded(const char *text, size_t size, size_t values_max);

#endif
