/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames: a header of WIRE_HEADER_SIZE bytes, little-endian, then length bytes, which are encrypted
 * on all connections that are authenticated, and there a tag of WIRE_TAG_SIZE bytes over both
 * (auth.h). The greeting is in clear.
 *
 *	at 0 magic, 4 version (8 bits), 5 type (8), 6 flags (16), 8 source node, 12 target node,
 *	16 step (64), 24 set (64), 32 generation (64), 40 counter (64), 48 length, 52 total,
 *	56 offset, 60 channel (16), 62 number of blocks (16)
 *
 * Frames of a fence begin with the bitmap of its nodes where a flag is set; then come blocks,
 * which never cross frames: node, total, offset, length (32 bits each), and length bytes of what
 * that node has contributed. A node that has contributed nothing has no block.
 */
#ifndef MPI_WIRE_FRAME_H
#define MPI_WIRE_FRAME_H

#include "mpi/wire/wire.h"

/* Bytes that several frames and results are pieces of. One thread has them: the count of references
 * is a plain number. */
struct wire_buffer {
	uint32_t refs;
	size_t size;
	unsigned char bytes[];
};

/* With one reference; NULL: no memory. */
struct wire_buffer *wire_buffer_new(size_t size);

/* A copy of what iov holds; NULL with errno set: ENOMEM, or EMSGSIZE above WIRE_BLOCK_MAX. */
struct wire_buffer *wire_buffer_copy(const struct iovec *iov, int iovcnt);

DEFINE_CLEANUP(struct wire_buffer *, wire_release);
#define _cleanup_wire_buffer_ _cleanup_(wire_release_p)

#define WIRE_MAGIC        0x57445453u /* "STDW" */
#define WIRE_VERSION      2u
#define WIRE_HEADER_SIZE  64u
#define WIRE_BLOCK_HEADER 16u
#define WIRE_RUN_MAX      (64u << 10) /* bytes of blocks, or of a message, in a frame */
#define WIRE_PAYLOAD_MAX  (WIRE_RUN_MAX + WIRE_NODES_MAX / 8)
#define WIRE_NODE_ALL     0xffffffffu

enum wire_type {
	WIRE_HELLO = 1,    /* net.h */
	WIRE_FENCE_UP,     /* contributions, to the parent */
	WIRE_FENCE_DOWN,   /* all of them, to the children */
	WIRE_FENCE_BROKEN, /* to the top of a fence: it can't end well; text */
	WIRE_FENCE_FAIL,   /* from there to all: it has ended; text */
	WIRE_FENCE_LATE,   /* to the top: out of time; total: ms */
	WIRE_FENCE_WHO,    /* from there to all: have you begun? */
	WIRE_FENCE_STATUS, /* the answer; text: the missing ranks */
	WIRE_MESSAGE,      /* to target, or to all; total, offset, channel */
	WIRE_LOST,         /* to all: the edge above node offset is gone, with node total; text */
	WIRE_LEFT,         /* to those above: node source has left */
	WIRE_BYE,          /* to the parent: all here have left; and its answer, the last frame */
	WIRE_TYPE_MAX,
};

enum wire_flag {
	WIRE_LAST = 1u << 0,  /* FENCE_UP: the subtree is complete; FENCE_DOWN: the fence is */
	WIRE_ALL = 1u << 1,   /* all nodes take part */
	WIRE_NODES = 1u << 2, /* those of the bitmap at the beginning do */
	WIRE_BEGUN = 1u << 3, /* FENCE_STATUS: this node has */
	WIRE_FLAGS = (1u << 4) - 1,
};

struct wire_header {
	uint8_t type;
	uint16_t flags;
	uint32_t source, target;
	uint64_t step, set, generation, counter;
	uint32_t length, total, offset;
	uint16_t channel, blocks;
};

const char *wire_type_name(unsigned type);

void wire_put_u32(unsigned char *at, uint32_t n);
uint32_t wire_get_u32(const unsigned char *at);
void wire_put_u64(unsigned char *at, uint64_t n);
uint64_t wire_get_u64(const unsigned char *at);

void wire_header_encode(const struct wire_header *h, unsigned char bytes[WIRE_HEADER_SIZE]);

/* -EPROTO: this is no header of this version; err has what is wrong with it. */
int wire_header_decode(const unsigned char bytes[WIRE_HEADER_SIZE], struct wire_header *ret_header,
	struct err *err) _must_check_;

/* A stretch of bytes, whole blocks of a fence among others. */
struct wire_run {
	struct wire_buffer *buffer;
	const unsigned char *data;
	uint32_t size;
	uint16_t blocks;
};

struct wire_runs {
	struct wire_run *run;
	size_t count, capacity;
	size_t bytes;
};

int wire_runs_add(struct wire_runs *runs, const struct wire_run *run) _must_check_; /* holds it */
int wire_runs_append(struct wire_runs *to, const struct wire_runs *from) _must_check_;
void wire_runs_clear(struct wire_runs *runs);

/* A block at the beginning of size bytes. -EPROTO: there is no whole one. */
struct wire_part {
	uint32_t node, total, offset, length;
	const unsigned char *data;
};
int wire_part_parse(
	const unsigned char *data, size_t size, struct wire_part *ret_part) _must_check_;

/* Appends one node's contribution as blocks in runs of WIRE_RUN_MAX bytes at most. */
int wire_runs_encode(
	struct wire_runs *runs, uint32_t node, const struct iovec *iov, int iovcnt) _must_check_;

/* A frame on its way out, the same for all neighbours that get it. */
struct wire_packet {
	uint32_t refs;
	struct wire_header header; /* length is filled in */
	size_t count;
	struct wire_run runs[];
};

#define WIRE_PACKET_RUNS_MAX 512u

/* Holds the runs. NULL: no memory. */
struct wire_packet *wire_packet_new(
	const struct wire_header *header, const struct wire_run *runs, size_t count);
struct wire_packet *wire_packet_release(struct wire_packet *packet);
DEFINE_CLEANUP(struct wire_packet *, wire_packet_release);
#define _cleanup_wire_packet_ _cleanup_(wire_packet_release_p)

#endif
