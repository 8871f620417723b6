/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Data as Slurm packs it, big-endian, read by tables: a row is a field, with the releases that have
 * it. Nothing is copied: texts and lists are borrowed from the packed bytes. A length is believed
 * only as far as there are bytes, and each turn of a loop takes at least one of them.
 */
#ifndef SLURM_UNPACK_H
#define SLURM_UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "contrib/slurm/release.h"
#include "stepd/base/cleanup.h"

#define SLURM_NO_VAL   0xfffffffeu
#define SLURM_NO_VAL16 0xfffeu

/* The strings of a list, one behind the other as they are packed. */
struct slurm_strs {
	uint32_t n;
	const uint8_t *bytes;
	size_t size;
};

/* The next string, NULL at the end; a string that is NULL itself is "". */
const char *slurm_strs_next(struct slurm_strs *rest);

/* The values of an array as they are packed, or so many bytes. */
struct slurm_array {
	uint32_t n;
	const uint8_t *bytes;
};

/* n bits, as a hexadecimal number whose digits are "0x..."; NULL: there are none. */
struct slurm_bits {
	uint32_t n;
	const char *mask;
};

/* All of them into a new set. -EBADMSG: there are none, or fewer than n; -ENOMEM. */
struct bitset;
int slurm_bits_read(const struct slurm_bits *bits, struct bitset *ret_set) _must_check_;

/* The value at i, which is below n. */
uint16_t slurm_array_u16(const struct slurm_array *array, uint32_t i);
uint32_t slurm_array_u32(const struct slurm_array *array, uint32_t i);

struct slurm_step_id {
	uint64_t sluid; /* 0 before 24.11 */
	uint32_t job, step, het_component;
};

struct unpack {
	const uint8_t *data;
	size_t size, at;
	uint16_t release;  /* whose formats are read */
	uint16_t variant;  /* the optional fields that are there: bits */
	const void *about; /* for the functions of rows */
	const char *bad;   /* why the data make no sense; NULL: they do */
	const char *field; /* the innermost field in which that was found */
};

enum unpack_type {
	UNPACK_U8,
	UNPACK_U16,
	UNPACK_U32,
	UNPACK_U64,
	UNPACK_TEXT,  /* a string with its NUL, or NULL: const char * */
	UNPACK_BYTES, /* of the same form, with any bytes: struct slurm_array */
	UNPACK_TEXTS, /* struct slurm_strs */
	UNPACK_A16,   /* a count, and the values: struct slurm_array */
	UNPACK_A32,
	UNPACK_A64,
	UNPACK_BITS, /* struct slurm_bits */
	UNPACK_ADDR, /* struct sockaddr_in, whose family is 0 for other addresses */
	UNPACK_STEP_ID,
	UNPACK_CALL,
};

struct unpack_row {
	const char *name;
	enum unpack_type type;
	uint16_t since, until; /* the first and the last release with it; 0: no limit */
	uint16_t optional;     /* a bit of unpack.variant: some point releases have it */
	uint16_t keep;         /* 1 + its offset in the result; 0: it is not needed */
	void (*call)(struct unpack *u, void *result); /* of UNPACK_CALL */
};

#define FIELD(name_, type_, ...)                                                                   \
	{                                                                                          \
		.name = (name_), .type = UNPACK_##type_, __VA_ARGS__                               \
	}
#define UNPACK_KEEP(type_, member_) ((uint16_t)(1 + offsetof(type_, member_)))

/* Reads the rows' fields into result. What fails leaves the rest of result as it was. */
void unpack_rows(struct unpack *u, const struct unpack_row *rows, size_t n, void *result);

/* Single values, for the functions of rows; 0 once something has failed. */
uint8_t unpack_u8(struct unpack *u);
uint16_t unpack_u16(struct unpack *u);
uint32_t unpack_u32(struct unpack *u);
uint64_t unpack_u64(struct unpack *u);
const char *unpack_text(struct unpack *u);
struct slurm_bits unpack_bits(struct unpack *u);
void unpack_skip(struct unpack *u, enum unpack_type type);
void unpack_skip_bytes(struct unpack *u, uint64_t size);
/* n values of so many bytes each. */
struct slurm_array unpack_array(struct unpack *u, uint32_t n, size_t value_size);

/* Ends it: the data are not what they should be. Without effect where something failed before. */
void unpack_fail(struct unpack *u, const char *what);

#endif
