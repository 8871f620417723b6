/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Data as Slurm packs it, written: big-endian numbers, and texts with their length and NUL. If
 * memory is short, failed is set, and nothing more is added.
 */
#ifndef SLURM_PACK_H
#define SLURM_PACK_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/buffer.h"

struct pack {
	struct buffer bytes;
	bool failed;
};

#define _cleanup_pack_ _cleanup_(pack_clear)
void pack_clear(struct pack *p);

void pack_raw(struct pack *p, const void *data, size_t size);
void pack_u8(struct pack *p, uint8_t n);
void pack_u16(struct pack *p, uint16_t n);
void pack_u32(struct pack *p, uint32_t n);
void pack_u64(struct pack *p, uint64_t n);
void pack_u32_array(struct pack *p, const uint32_t *values, uint32_t n);

/* NULL has the length 0. */
void pack_text(struct pack *p, const char *text);

/* A length, and so many bytes. */
void pack_bytes(struct pack *p, const void *data, uint32_t size);

#endif
