/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The channel between steprun and the relays: lines, on the standard input and output of whatever
 * command starts a relay. Each is
 *
 *	@stepd NODE VERB [TEXT]
 *
 * NODE is the number of the relay that wrote it, or for which it is; "*" are all of them. Launchers
 * such as srun copy what they read to every relay, and mix the lines of all: so a line is short
 * enough not to be divided (CHANNEL_LINE_MAX) and names its relay, and any other line is reported
 * as foreign. Bytes of any kind travel in base64, in pieces.
 *
 * A channel queues what it is given and writes it as the other end takes it; a sender of much
 * checks channel_queued() first.
 */
#ifndef STEPD_CLI_RELAY_CHANNEL_H
#define STEPD_CLI_RELAY_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/cleanup.h"

struct ev_loop;
struct channel;

#define CHANNEL_VERSION   1
#define CHANNEL_LINE_MAX  1024u /* bytes, the newline included */
#define CHANNEL_PIECE_MAX 720u  /* bytes of a piece before they are text */
#define CHANNEL_ALL       UINT32_MAX

struct channel_line {
	uint32_t node; /* or CHANNEL_ALL */
	const char *verb;
	char *text; /* "" where there is none; may be written to */
};

struct channel_events {
	/* The channel must not be freed in it. */
	void (*line)(const struct channel_line *line, void *userdata);
	/* A line of another program's, without its newline; one that is too long in pieces of at
	 * most CHANNEL_LINE_MAX. NULL: dropped */
	void (*foreign)(const char *text, size_t size, void *userdata);
	/* The input has ended. Called once; the channel may be freed in it. */
	void (*end)(void *userdata);
	/* The other end reads no more; further output is dropped. May be NULL. */
	void (*broken)(void *userdata);
	/* All that was queued has been written. May be NULL. */
	void (*drained)(void *userdata);
};

/* Owns both descriptors from the call on, which become non-blocking. events outlives the channel. 0
 * or -errno. */
int channel_new_take(struct ev_loop *loop, int in_fd, int out_fd,
	const struct channel_events *events, void *userdata,
	struct channel **ret_channel) _must_check_;

/* text is without a newline and short enough. Without memory to queue it the channel ends. */
void channel_send(struct channel *channel, uint32_t node, const char *verb, const char *text);
void channel_sendf(struct channel *channel, uint32_t node, const char *verb, const char *fmt, ...)
	_printf_(4, 5);

/* Sends bytes, in as many lines as needed. */
void channel_send_bytes(
	struct channel *channel, uint32_t node, const char *verb, const void *bytes, size_t size);

/* The bytes of a line's text: decoded in place; a NUL follows them. -EINVAL: not base64. */
ssize_t channel_get_bytes(const struct channel_line *line) _must_check_;

size_t channel_queued(const struct channel *channel);

/* Writes as much as possible without blocking: for a process that is about to stop. */
void channel_flush(struct channel *channel);

/* Reads nothing until it is called with false. */
void channel_pause(struct channel *channel, bool pause);

/* No line will follow: the other end sees the end once all is written. */
void channel_finish(struct channel *channel);

/* NULL is allowed; returns NULL. */
struct channel *channel_free(struct channel *channel);
DEFINE_CLEANUP(struct channel *, channel_free);

#endif
