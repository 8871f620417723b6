/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/unpack.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "stepd/base/bitset.h"

/* ---- single values ------------------------------------------------------------------------- */

void unpack_fail(struct unpack *u, const char *what)
{
	if (!u->bad)
		u->bad = what;
	u->at = u->size;
}

/* The next bytes; NULL: there are fewer, or something failed before. */
static const uint8_t *unpack_take(struct unpack *u, uint64_t size)
{
	const uint8_t *bytes = u->data + u->at;

	if (u->bad)
		return NULL;
	if (u->size - u->at < size) {
		unpack_fail(u, "end of the data");
		return NULL;
	}
	u->at += (size_t)size;
	return bytes;
}

/* Nothing here is aligned. */
static bool unpack_copy(struct unpack *u, void *value, size_t size)
{
	const uint8_t *bytes = unpack_take(u, size);

	if (bytes)
		memcpy(value, bytes, size);
	return bytes;
}

uint8_t unpack_u8(struct unpack *u)
{
	uint8_t n;

	return unpack_copy(u, &n, sizeof(n)) ? n : 0;
}

uint16_t unpack_u16(struct unpack *u)
{
	uint16_t n;

	return unpack_copy(u, &n, sizeof(n)) ? be16toh(n) : 0;
}

uint32_t unpack_u32(struct unpack *u)
{
	uint32_t n;

	return unpack_copy(u, &n, sizeof(n)) ? be32toh(n) : 0;
}

uint64_t unpack_u64(struct unpack *u)
{
	uint64_t n;

	return unpack_copy(u, &n, sizeof(n)) ? be64toh(n) : 0;
}

void unpack_skip_bytes(struct unpack *u, uint64_t size)
{
	(void)unpack_take(u, size); /* u has the failure */
}

/* ---- texts --------------------------------------------------------------------------------- */

const char *unpack_text(struct unpack *u)
{
	uint32_t size = unpack_u32(u);
	const uint8_t *bytes = size ? unpack_take(u, size) : NULL;

	if (!bytes)
		return NULL;
	if (memchr(bytes, '\0', size) != bytes + size - 1) {
		unpack_fail(u, "text without an end");
		return NULL;
	}
	return (const char *)bytes;
}

/* Checks each one, so that slurm_strs_next() need not. */
static struct slurm_strs unpack_texts(struct unpack *u)
{
	struct slurm_strs strs = {.n = unpack_u32(u)};
	size_t begin = u->at;
	uint32_t i;

	for (i = 0; i < strs.n && !u->bad; i++)
		(void)unpack_text(u);
	if (u->bad)
		return (struct slurm_strs){0};
	strs.bytes = u->data + begin;
	strs.size = u->at - begin;
	return strs;
}

const char *slurm_strs_next(struct slurm_strs *rest)
{
	struct unpack u = {.data = rest->bytes, .size = rest->size};
	const char *text;

	if (rest->n == 0)
		return NULL;
	text = unpack_text(&u);
	assert(!u.bad);
	rest->n--;
	rest->bytes += u.at;
	rest->size -= u.at;
	return text ? text : "";
}

/* ---- arrays and addresses ------------------------------------------------------------------- */

uint16_t slurm_array_u16(const struct slurm_array *array, uint32_t i)
{
	uint16_t n;

	assert(i < array->n);
	memcpy(&n, array->bytes + (size_t)i * sizeof(n), sizeof(n));
	return be16toh(n);
}

uint32_t slurm_array_u32(const struct slurm_array *array, uint32_t i)
{
	uint32_t n;

	assert(i < array->n);
	memcpy(&n, array->bytes + (size_t)i * sizeof(n), sizeof(n));
	return be32toh(n);
}

struct slurm_array unpack_array(struct unpack *u, uint32_t n, size_t value_size)
{
	const uint8_t *bytes = unpack_take(u, (uint64_t)n * value_size);

	return bytes ? (struct slurm_array){n, bytes} : (struct slurm_array){0};
}

/* Slurm puts the address's bytes, which are in network order, into that order once more. */
static struct sockaddr_in unpack_addr(struct unpack *u)
{
	struct sockaddr_in address = {0};
	uint16_t family = unpack_u16(u);

	if (family == AF_INET) {
		address.sin_family = AF_INET;
		address.sin_addr.s_addr = unpack_u32(u);
		address.sin_port = unpack_u16(u);
	} else if (family == AF_INET6) {
		unpack_skip(u, UNPACK_BYTES);
		unpack_skip_bytes(u, 2);
	}
	return address;
}

/* ---- bits ---------------------------------------------------------------------------------- */

int slurm_bits_read(const struct slurm_bits *bits, struct bitset *ret_set)
{
	_cleanup_bitset_ struct bitset set = {0};
	const char *digits = bits->mask;
	size_t n;
	int r;

	if (!digits || strncmp(digits, "0x", 2) != 0)
		return -EBADMSG;
	digits += 2;
	n = strlen(digits);
	if ((uint64_t)n * 4 < bits->n)
		return -EBADMSG;
	r = bitset_init(&set, n * 4 + 1);
	if (r == 0 && n > 0)
		r = bitset_add_hex(&set, digits, n);
	if (r == 0)
		*ret_set = take_struct(set);
	return r == -EINVAL ? -EBADMSG : r;
}

struct slurm_bits unpack_bits(struct unpack *u)
{
	struct slurm_bits bits = {.n = unpack_u32(u)};

	if (bits.n == SLURM_NO_VAL)
		return (struct slurm_bits){0};
	bits.mask = unpack_text(u);
	if (u->bad)
		return (struct slurm_bits){0};
	return bits;
}

/* ---- what is passed over ------------------------------------------------------------------- */

void unpack_skip(struct unpack *u, enum unpack_type type)
{
	static const uint8_t sizes[] = {
		[UNPACK_U8] = 1,
		[UNPACK_U16] = 2,
		[UNPACK_U32] = 4,
		[UNPACK_U64] = 8,
		[UNPACK_BYTES] = 1,
		[UNPACK_A16] = 2,
		[UNPACK_A32] = 4,
		[UNPACK_A64] = 8,
	};

	if (type == UNPACK_BITS)
		(void)unpack_bits(u);
	else if (type == UNPACK_ADDR)
		(void)unpack_addr(u);
	else if (type == UNPACK_TEXT)
		(void)unpack_text(u);
	else if (type == UNPACK_TEXTS)
		(void)unpack_texts(u);
	else if (type == UNPACK_BYTES || type >= UNPACK_A16)
		unpack_skip_bytes(u, (uint64_t)unpack_u32(u) * sizes[type]);
	else
		unpack_skip_bytes(u, sizes[type]);
}

/* ---- tables -------------------------------------------------------------------------------- */

static struct slurm_step_id unpack_step_id(struct unpack *u)
{
	struct slurm_step_id id = {0};

	if (u->release >= SLURM_24_11)
		id.sluid = unpack_u64(u);
	id.job = unpack_u32(u);
	id.step = unpack_u32(u);
	id.het_component = unpack_u32(u);
	return id;
}

/* Into a member of the row's type. */
static void unpack_keep(struct unpack *u, const struct unpack_row *row, void *result)
{
	void *member = (char *)result + row->keep - 1;

	switch (row->type) {
	case UNPACK_U8:
		*(uint8_t *)member = unpack_u8(u);
		break;
	case UNPACK_U16:
		*(uint16_t *)member = unpack_u16(u);
		break;
	case UNPACK_U32:
		*(uint32_t *)member = unpack_u32(u);
		break;
	case UNPACK_U64:
		*(uint64_t *)member = unpack_u64(u);
		break;
	case UNPACK_TEXT:
		*(const char **)member = unpack_text(u);
		break;
	case UNPACK_TEXTS:
		*(struct slurm_strs *)member = unpack_texts(u);
		break;
	case UNPACK_BYTES:
		*(struct slurm_array *)member = unpack_array(u, unpack_u32(u), 1);
		break;
	case UNPACK_A16:
		*(struct slurm_array *)member = unpack_array(u, unpack_u32(u), sizeof(uint16_t));
		break;
	case UNPACK_A32:
		*(struct slurm_array *)member = unpack_array(u, unpack_u32(u), sizeof(uint32_t));
		break;
	case UNPACK_BITS:
		*(struct slurm_bits *)member = unpack_bits(u);
		break;
	case UNPACK_ADDR:
		*(struct sockaddr_in *)member = unpack_addr(u);
		break;
	case UNPACK_STEP_ID:
		*(struct slurm_step_id *)member = unpack_step_id(u);
		break;
	default:
		assert(!"a type that is only passed over");
	}
}

static bool unpack_has(const struct unpack *u, const struct unpack_row *row)
{
	return u->release >= row->since && (!row->until || u->release <= row->until) &&
		(u->variant & row->optional) == row->optional;
}

void unpack_rows(struct unpack *u, const struct unpack_row *rows, size_t n, void *result)
{
	size_t i;

	for (i = 0; i < n && !u->bad; i++) {
		if (!unpack_has(u, &rows[i]))
			continue;
		if (rows[i].type == UNPACK_CALL)
			rows[i].call(u, result);
		else if (rows[i].keep)
			unpack_keep(u, &rows[i], result);
		else if (rows[i].type == UNPACK_STEP_ID)
			(void)unpack_step_id(u);
		else
			unpack_skip(u, rows[i].type);
		if (u->bad && !u->field)
			u->field = rows[i].name;
	}
}
