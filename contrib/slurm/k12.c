/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A message of more than a chunk is a tree of one level: each chunk after the first is hashed for
 * itself, and the first chunk with these hashes is hashed once more.
 */
#include "contrib/slurm/k12.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#define LANES      25
#define RATE       168u
#define CHUNK_SIZE 8192u
#define ROUNDS     12

/* How the last byte of what is hashed differs, by what it is. */
enum {
	DOMAIN_SINGLE = 0x07,
	DOMAIN_CHUNK = 0x0b,
	DOMAIN_TREE = 0x06
};

struct sponge {
	uint64_t lanes[LANES];
	size_t at; /* in the rate */
};

/* ---- Keccak-p[1600, 12] -------------------------------------------------------------------- */

static uint64_t rotate(uint64_t n, unsigned by)
{
	return by ? n << by | n >> (64 - by) : n;
}

static void mix_columns(uint64_t a[LANES])
{
	uint64_t c[5], d;
	unsigned x, y;

	for (x = 0; x < 5; x++)
		c[x] = a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20];
	for (x = 0; x < 5; x++) {
		d = c[(x + 4) % 5] ^ rotate(c[(x + 1) % 5], 1);
		for (y = 0; y < LANES; y += 5)
			a[y + x] ^= d;
	}
}

static void move_lanes(uint64_t a[LANES])
{
	uint64_t moving = a[1], next;
	unsigned x = 1, y = 0, t, i;

	for (t = 0; t < LANES - 1; t++) {
		i = x;
		x = y;
		y = (2 * i + 3 * y) % 5;
		next = a[5 * y + x];
		a[5 * y + x] = rotate(moving, (t + 1) * (t + 2) / 2 % 64);
		moving = next;
	}
}

static void mix_rows(uint64_t a[LANES])
{
	uint64_t row[5];
	unsigned x, y;

	for (y = 0; y < LANES; y += 5) {
		memcpy(row, a + y, sizeof(row));
		for (x = 0; x < 5; x++)
			a[y + x] = row[x] ^ (~row[(x + 1) % 5] & row[(x + 2) % 5]);
	}
}

static void permute(uint64_t a[LANES])
{
	static const uint64_t constants[ROUNDS] = {0x000000008000808b, 0x800000000000008b,
		0x8000000000008089, 0x8000000000008003, 0x8000000000008002, 0x8000000000000080,
		0x000000000000800a, 0x800000008000000a, 0x8000000080008081, 0x8000000000008080,
		0x0000000080000001, 0x8000000080008008};
	unsigned i;

	for (i = 0; i < ROUNDS; i++) {
		mix_columns(a);
		move_lanes(a);
		mix_rows(a);
		a[0] ^= constants[i];
	}
}

/* ---- the sponge ---------------------------------------------------------------------------- */

static void sponge_xor(struct sponge *s, size_t at, uint8_t byte)
{
	s->lanes[at / 8] ^= (uint64_t)byte << at % 8 * 8;
}

static void sponge_add(struct sponge *s, const void *data, size_t size)
{
	const uint8_t *bytes = data;
	size_t i;

	for (i = 0; i < size; i++) {
		sponge_xor(s, s->at++, bytes[i]);
		if (s->at == RATE) {
			permute(s->lanes);
			s->at = 0;
		}
	}
}

static void sponge_end(struct sponge *s, uint8_t domain, uint8_t ret_hash[static K12_SIZE])
{
	uint64_t lane;
	size_t i;

	sponge_xor(s, s->at, domain);
	sponge_xor(s, RATE - 1, 0x80);
	permute(s->lanes);
	for (i = 0; i < K12_SIZE / sizeof(lane); i++) {
		lane = htole64(s->lanes[i]);
		memcpy(ret_hash + i * sizeof(lane), &lane, sizeof(lane));
	}
}

/* ---- the tree ------------------------------------------------------------------------------ */

/* The message, and what stands behind it. */
struct input {
	const uint8_t *message;
	size_t size;
	uint8_t behind[K12_CUSTOM_MAX + sizeof(size_t) + 1];
	size_t behind_size;
};

/* The number's bytes without leading zeros, and how many they are. */
static size_t encode_length(size_t n, uint8_t ret_bytes[static sizeof(size_t) + 1])
{
	size_t count = 0, i;

	for (i = n; i > 0; i >>= 8)
		count++;
	for (i = 0; i < count; i++)
		ret_bytes[i] = (uint8_t)(n >> 8 * (count - 1 - i));
	ret_bytes[count] = (uint8_t)count;
	return count + 1;
}

static void add_range(struct sponge *s, const struct input *in, size_t from, size_t to)
{
	size_t of_message = to < in->size ? to : in->size;

	if (from < of_message) {
		sponge_add(s, in->message + from, of_message - from);
		from = of_message;
	}
	if (from < to)
		sponge_add(s, in->behind + (from - in->size), to - from);
}

static void hash_tree(const struct input *in, size_t total, uint8_t ret_hash[static K12_SIZE])
{
	static const uint8_t mark[8] = {0x03}, end[2] = {0xff, 0xff};
	uint8_t chunk_hash[K12_SIZE], length[sizeof(size_t) + 1];
	struct sponge tree = {0};
	size_t at, to, chunks = 0;

	add_range(&tree, in, 0, CHUNK_SIZE);
	sponge_add(&tree, mark, sizeof(mark));
	for (at = CHUNK_SIZE; at < total; at = to) {
		struct sponge chunk = {0};

		to = total - at < CHUNK_SIZE ? total : at + CHUNK_SIZE;
		add_range(&chunk, in, at, to);
		sponge_end(&chunk, DOMAIN_CHUNK, chunk_hash);
		sponge_add(&tree, chunk_hash, sizeof(chunk_hash));
		chunks++;
	}
	sponge_add(&tree, length, encode_length(chunks, length));
	sponge_add(&tree, end, sizeof(end));
	sponge_end(&tree, DOMAIN_TREE, ret_hash);
}

void k12_hash(const void *message, size_t size, const void *custom, size_t custom_size,
	uint8_t ret_hash[static K12_SIZE])
{
	struct input in = {.message = message, .size = size, .behind_size = custom_size};
	struct sponge single = {0};
	size_t total;

	assert(custom_size <= K12_CUSTOM_MAX);
	memcpy(in.behind, custom, custom_size);
	in.behind_size += encode_length(custom_size, in.behind + custom_size);
	total = size + in.behind_size;
	if (total > CHUNK_SIZE) {
		hash_tree(&in, total, ret_hash);
		return;
	}
	add_range(&single, &in, 0, total);
	sponge_end(&single, DOMAIN_SINGLE, ret_hash);
}
