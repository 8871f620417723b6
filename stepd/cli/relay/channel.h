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
 * Where one relay has the channel alone, and bytes of any kind pass it unchanged, they travel as
 * they are, in frames:
 *
 *	@stepd NODE VERB #SIZE		and SIZE bytes, and a newline
 *
 * Both ends agree on that by lines that an earlier version ignores (relay.c), each for what it
 * reads, after a probe has come unchanged. Nothing foreign may then come within a frame: a channel
 * on which that is noticed ends. Between frames it is told apart, with a newline or without.
 *
 * A channel queues what it is given and writes it as the other end takes it; a sender of much
 * checks channel_is_full() first.
 */
#ifndef STEPD_CLI_RELAY_CHANNEL_H
#define STEPD_CLI_RELAY_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/cleanup.h"

struct ev_loop;
struct channel;

#define CHANNEL_VERSION   1
#define CHANNEL_LINE_MAX  1024u        /* bytes, the newline included */
#define CHANNEL_PIECE_MAX 720u         /* bytes of a piece before they are text */
#define CHANNEL_FRAME_MAX (1u << 20)   /* bytes */
#define CHANNEL_QUEUE_MAX (256u << 10) /* bytes that wait before a sender of much has to */
#define CHANNEL_ALL       UINT32_MAX

struct channel_line {
	uint32_t node; /* or CHANNEL_ALL */
	const char *verb;
	char *text;        /* "" where there is none; may be written to */
	const char *bytes; /* those of a frame that have come, with text ""; NULL: it is a line */
	size_t bytes_size;
};

struct channel_events {
	/* A line, or a part of a frame: as much as has come. The channel must not be freed in it.
	 */
	void (*line)(const struct channel_line *line, void *userdata);
	/* Bytes of a frame that have not been read: may take up to size of them from the descriptor
	 * itself, and returns how many. NULL: takes none */
	size_t (*take)(const struct channel_line *line, int in_fd, size_t size, void *userdata);
	/* A line of another program's, without its newline; one that is too long in pieces of at
	 * most CHANNEL_LINE_MAX. NULL: dropped */
	void (*foreign)(const char *text, size_t size, void *userdata);
	/* The input has ended, or makes no sense any more: channel_fault(). Called once; the
	 * channel may be freed in it. */
	void (*end)(void *userdata);
	/* The other end reads no more; further output is dropped. May be NULL. */
	void (*broken)(void *userdata);
	/* All that was queued has been written. May be NULL. */
	void (*drained)(void *userdata);
	/* channel_probe() of the other end has come, unchanged or not. NULL: dropped */
	void (*probed)(bool unchanged, void *userdata);
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

/* Sends bytes, in as many lines or frames as needed. */
void channel_send_bytes(
	struct channel *channel, uint32_t node, const char *verb, const void *bytes, size_t size);

/* The same in lines only: those of CHANNEL_PIECE_MAX bytes at most are received as one. */
void channel_send_lines(
	struct channel *channel, uint32_t node, const char *verb, const char *bytes, size_t size);

/* Sends what is in a non-blocking pipe, as a frame, without a copy: how many bytes, 0 at its end,
 * -EAGAIN where there are none now. -EOPNOTSUPP: such a pipe, or this channel, can't do that now;
 * read(2) and channel_send_bytes() can. */
ssize_t channel_send_pipe(
	struct channel *channel, uint32_t node, const char *verb, int pipe_fd) _must_check_;

/* The bytes that a line or a part of a frame carries. Those of a line's text are decoded in place,
 * and a NUL follows them. -EINVAL: not base64. */
ssize_t channel_get_bytes(const struct channel_line *line, const char **ret_bytes) _must_check_;

/* Sends a line with bytes of all kinds. */
void channel_probe(struct channel *channel, uint32_t node);

/* From now on bytes are sent in frames; frames are understood, which else are lines. */
void channel_send_frames(struct channel *channel);
void channel_take_frames(struct channel *channel);

size_t channel_queued(const struct channel *channel);

/* So much is queued that streams have to wait, until it has been written: drained(). */
bool channel_is_full(const struct channel *channel);

/* In end(): what was wrong with the input, as the rest of a sentence; NULL: nothing. */
const char *channel_fault(const struct channel *channel);

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
