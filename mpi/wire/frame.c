/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/wire/frame.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#include "stepd/base/buffer.h"

/* ---- buffers -------------------------------------------------------------------------------- */

struct wire_buffer *wire_buffer_new(size_t size)
{
	struct wire_buffer *b = malloc(sizeof(*b) + size);

	if (!b)
		return NULL;
	b->refs = 1;
	b->size = size;
	return b;
}

/* -EMSGSIZE above WIRE_BLOCK_MAX. */
static int add_sizes(const struct iovec *iov, int iovcnt, size_t *ret_size)
{
	size_t size = 0;
	int i;

	for (i = 0; i < iovcnt; i++) {
		if (__builtin_add_overflow(size, iov[i].iov_len, &size) || size > WIRE_BLOCK_MAX)
			return -EMSGSIZE;
	}
	*ret_size = size;
	return 0;
}

struct wire_buffer *wire_buffer_copy(const struct iovec *iov, int iovcnt)
{
	struct wire_buffer *b;
	size_t size, at = 0;
	int i;

	if (add_sizes(iov, iovcnt, &size) < 0) {
		errno = EMSGSIZE;
		return NULL;
	}
	b = wire_buffer_new(size);
	for (i = 0; b && i < iovcnt; i++) {
		if (iov[i].iov_len > 0)
			memcpy(b->bytes + at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	return b;
}

struct wire_buffer *wire_hold(struct wire_buffer *buffer)
{
	assert(!buffer || buffer->refs > 0);
	if (buffer)
		buffer->refs++;
	return buffer;
}

struct wire_buffer *wire_release(struct wire_buffer *buffer)
{
	assert(!buffer || buffer->refs > 0);
	if (buffer && --buffer->refs == 0)
		free(buffer);
	return NULL;
}

static const char *const type_names[WIRE_TYPE_MAX] = {
	[WIRE_HELLO] = "HELLO",
	[WIRE_FENCE_UP] = "FENCE_UP",
	[WIRE_FENCE_DOWN] = "FENCE_DOWN",
	[WIRE_FENCE_BROKEN] = "FENCE_BROKEN",
	[WIRE_FENCE_FAIL] = "FENCE_FAIL",
	[WIRE_FENCE_LATE] = "FENCE_LATE",
	[WIRE_FENCE_WHO] = "FENCE_WHO",
	[WIRE_FENCE_STATUS] = "FENCE_STATUS",
	[WIRE_MESSAGE] = "MESSAGE",
	[WIRE_LOST] = "LOST",
	[WIRE_LEFT] = "LEFT",
	[WIRE_BYE] = "BYE",
};

const char *wire_type_name(unsigned type)
{
	return type < WIRE_TYPE_MAX && type_names[type] ? type_names[type] : "unknown";
}

static void put_u16(unsigned char *at, uint16_t n)
{
	n = htole16(n);
	memcpy(at, &n, sizeof(n));
}

static uint16_t get_u16(const unsigned char *at)
{
	uint16_t n;

	memcpy(&n, at, sizeof(n));
	return le16toh(n);
}

void wire_put_u32(unsigned char *at, uint32_t n)
{
	n = htole32(n);
	memcpy(at, &n, sizeof(n));
}

uint32_t wire_get_u32(const unsigned char *at)
{
	uint32_t n;

	memcpy(&n, at, sizeof(n));
	return le32toh(n);
}

void wire_put_u64(unsigned char *at, uint64_t n)
{
	n = htole64(n);
	memcpy(at, &n, sizeof(n));
}

uint64_t wire_get_u64(const unsigned char *at)
{
	uint64_t n;

	memcpy(&n, at, sizeof(n));
	return le64toh(n);
}

void wire_header_encode(const struct wire_header *h, unsigned char bytes[WIRE_HEADER_SIZE])
{
	wire_put_u32(bytes, WIRE_MAGIC);
	bytes[4] = WIRE_VERSION;
	bytes[5] = h->type;
	put_u16(bytes + 6, h->flags);
	wire_put_u32(bytes + 8, h->source);
	wire_put_u32(bytes + 12, h->target);
	wire_put_u64(bytes + 16, h->step);
	wire_put_u64(bytes + 24, h->set);
	wire_put_u64(bytes + 32, h->generation);
	wire_put_u64(bytes + 40, h->counter);
	wire_put_u32(bytes + 48, h->length);
	wire_put_u32(bytes + 52, h->total);
	wire_put_u32(bytes + 56, h->offset);
	put_u16(bytes + 60, h->channel);
	put_u16(bytes + 62, h->blocks);
}

int wire_header_decode(const unsigned char bytes[WIRE_HEADER_SIZE], struct wire_header *ret_header,
	struct err *err)
{
	struct wire_header h = {.type = bytes[5],
		.flags = get_u16(bytes + 6),
		.source = wire_get_u32(bytes + 8),
		.target = wire_get_u32(bytes + 12),
		.step = wire_get_u64(bytes + 16),
		.set = wire_get_u64(bytes + 24),
		.generation = wire_get_u64(bytes + 32),
		.counter = wire_get_u64(bytes + 40),
		.length = wire_get_u32(bytes + 48),
		.total = wire_get_u32(bytes + 52),
		.offset = wire_get_u32(bytes + 56),
		.channel = get_u16(bytes + 60),
		.blocks = get_u16(bytes + 62)};

	if (wire_get_u32(bytes) != WIRE_MAGIC)
		return err_set_text(
			err, -EPROTO, "it sent data that is no frame of the wire protocol");
	if (bytes[4] != WIRE_VERSION)
		return err_set_text(err, -EPROTO,
			"it has version %u of the wire and this node version %u: run the same stepd"
			" on all nodes",
			bytes[4], WIRE_VERSION);
	if (h.type == 0 || h.type >= WIRE_TYPE_MAX || (h.flags & ~WIRE_FLAGS))
		return err_set_text(err, -EPROTO, "it sent a frame of unknown type %u, flags 0x%x",
			h.type, h.flags);
	if (h.length > WIRE_PAYLOAD_MAX)
		return err_set_text(err, -EPROTO,
			"it sent a frame of %u bytes, above the limit of %u", h.length,
			WIRE_PAYLOAD_MAX);
	*ret_header = h;
	return 0;
}

/* ---- runs --------------------------------------------------------------------------------- */

int wire_runs_add(struct wire_runs *runs, const struct wire_run *run)
{
	if (array_reserve(runs->run, runs->capacity, runs->count + 1) < 0)
		return -ENOMEM;
	runs->run[runs->count] = *run;
	(void)wire_hold(runs->run[runs->count++].buffer);
	runs->bytes += run->size;
	return 0;
}

int wire_runs_append(struct wire_runs *to, const struct wire_runs *from)
{
	size_t i;
	int r;

	for (i = 0; i < from->count; i++) {
		r = wire_runs_add(to, &from->run[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

void wire_runs_clear(struct wire_runs *runs)
{
	size_t i;

	for (i = 0; i < runs->count; i++)
		(void)wire_release(runs->run[i].buffer);
	free(runs->run);
	*runs = (struct wire_runs){.run = NULL};
}

int wire_part_parse(const unsigned char *data, size_t size, struct wire_part *ret_part)
{
	struct wire_part part;

	if (size < WIRE_BLOCK_HEADER)
		return -EPROTO;
	part.node = wire_get_u32(data);
	part.total = wire_get_u32(data + 4);
	part.offset = wire_get_u32(data + 8);
	part.length = wire_get_u32(data + 12);
	part.data = data + WIRE_BLOCK_HEADER;
	if (part.length == 0 || part.length > size - WIRE_BLOCK_HEADER ||
		part.total > WIRE_BLOCK_MAX || part.offset > part.total ||
		part.length > part.total - part.offset)
		return -EPROTO;
	*ret_part = part;
	return 0;
}

/* The position of the next bytes in an iovec. */
struct source {
	const struct iovec *iov;
	int left;
	size_t at;
};

static void copy_from(struct source *s, unsigned char *to, size_t size)
{
	while (size > 0) {
		size_t n = s->iov->iov_len - s->at;

		n = n < size ? n : size;
		if (n > 0)
			memcpy(to, (const unsigned char *)s->iov->iov_base + s->at, n);
		to += n;
		size -= n;
		s->at += n;
		if (s->at == s->iov->iov_len && s->left > 1) {
			s->iov++;
			s->left--;
			s->at = 0;
		}
	}
}

int wire_runs_encode(struct wire_runs *runs, uint32_t node, const struct iovec *iov, int iovcnt)
{
	struct source source = {.iov = iov, .left = iovcnt};
	size_t total = 0, offset, n;
	int r = add_sizes(iov, iovcnt, &total);

	if (r < 0)
		return r;
	for (offset = 0; offset < total; offset += n) {
		_cleanup_wire_buffer_ struct wire_buffer *b = NULL;

		n = total - offset;
		n = n < WIRE_RUN_MAX - WIRE_BLOCK_HEADER ? n : WIRE_RUN_MAX - WIRE_BLOCK_HEADER;
		b = wire_buffer_new(WIRE_BLOCK_HEADER + n);
		if (!b)
			return -ENOMEM;
		wire_put_u32(b->bytes, node);
		wire_put_u32(b->bytes + 4, (uint32_t)total);
		wire_put_u32(b->bytes + 8, (uint32_t)offset);
		wire_put_u32(b->bytes + 12, (uint32_t)n);
		copy_from(&source, b->bytes + WIRE_BLOCK_HEADER, n);
		r = wire_runs_add(runs, &(struct wire_run){b, b->bytes, (uint32_t)b->size, 1});
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- packets ------------------------------------------------------------------------------ */

struct wire_packet *wire_packet_new(
	const struct wire_header *header, const struct wire_run *runs, size_t count)
{
	struct wire_packet *p = malloc(sizeof(*p) + count * sizeof(*runs));
	size_t i;

	if (!p)
		return NULL;
	p->refs = 1;
	p->header = *header;
	p->header.length = 0;
	p->count = count;
	for (i = 0; i < count; i++) {
		p->runs[i] = runs[i];
		(void)wire_hold(runs[i].buffer);
		p->header.length += runs[i].size;
	}
	return p;
}

struct wire_packet *wire_packet_release(struct wire_packet *packet)
{
	size_t i;

	if (!packet || --packet->refs > 0)
		return NULL;
	for (i = 0; i < packet->count; i++)
		(void)wire_release(packet->runs[i].buffer);
	free(packet);
	return NULL;
}
