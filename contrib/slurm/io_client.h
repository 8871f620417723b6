/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A connection for the streams of a step's tasks on this node, 22.05: srun's, or an sattach's. This
 * side makes it, and proves itself by a key: the signature of the job's credential, or what sattach
 * has chosen. Its first message is
 *
 *	u32 length; u16 version; u32 index of the node, streams of output, of error; mem key
 *
 * and then both send messages:
 *
 *	u16 type, rank of the step, index on the node; u32 length, at most 1024; so many bytes
 *	type 0 stdin of a rank, 1 stdout, 2 stderr, 3 stdin of all, 4 a test, which is answered
 *	a message of no bytes is the end of the stream; each stream has exactly one
 *
 * What comes is not trusted: a longer message, and what on_message() refuses, end the connection.
 */
#ifndef SLURM_IO_CLIENT_H
#define SLURM_IO_CLIENT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stepd/base/err.h"

struct ev_loop;
struct io_client;

#define IO_MESSAGE_MAX 1024u /* bytes behind a header */
#define IO_HEADER_SIZE 10u
#define IO_PENDING_MAX (256u << 10)         /* a client with so much to take has all wait for it */
#define IO_PENDING_LOW (IO_PENDING_MAX / 2) /* and below this they go on */
#define IO_ALL_RANKS   0xffffu

enum io_message_type {
	IO_STDIN,
	IO_STDOUT,
	IO_STDERR,
	IO_ALL_STDIN,
	IO_TEST,
};

struct io_message {
	enum io_message_type type;
	uint32_t rank, local_id;
	const void *data;
	uint32_t size;
};

struct io_client_options {
	struct ev_loop *loop;
	struct sockaddr_in address;
	uint16_t version; /* the client's */
	uint32_t node_id;
	const void *key; /* copied */
	uint32_t key_size;
	/* Of an sattach: given up when it has taken nothing for so long while it has
	 * IO_PENDING_LOW bytes to take, or all. 0: never. */
	double patience_s;

	/* Once, from the loop: 0, or -errno, and it has gone. */
	void (*connected)(struct io_client *client, int r, void *userdata);
	/* A message has come; < 0: it is malformed. Tests are answered here. */
	int (*message)(struct io_client *client, const struct io_message *message, void *userdata);
	/* Behind each event: it may take more again, or have gone. To be freed then at last. */
	void (*event)(struct io_client *client, void *userdata);
	void *userdata;
};

/* Begins to connect. Nothing is called before it returns. */
int io_client_new(const struct io_client_options *options, struct io_client **ret_client,
	struct err *err) _must_check_;

/* In connected(): the first message. */
void io_client_put_hello(struct io_client *client, uint32_t outputs, uint32_t errors);

/* Adds a message, whatever there is already; nothing if it has gone. */
void io_client_put(struct io_client *client, const struct io_message *message);

/* Messages as they have been formatted. */
void io_client_put_raw(struct io_client *client, const void *data, size_t size);

/* What it has not taken yet; 0 if it has gone. */
size_t io_client_get_pending(const struct io_client *client);

bool io_client_has_gone(const struct io_client *client);

/* Has the loop wait for what the client can do: reads is whether more of it is taken now. */
void io_client_watch(struct io_client *client, bool reads);

/* No message follows. */
void io_client_finish(struct io_client *client);

/* Waits until the client has closed the connection, at most 10 s: it may be behind with what the
 * kernel holds for it, and loses that if bytes of its own are unread when this end is closed, since
 * the kernel resets the connection then. NULL is fine. */
void io_client_drain(struct io_client *client);

/* NULL is fine. Returns NULL. */
struct io_client *io_client_free(struct io_client *client);

#endif
