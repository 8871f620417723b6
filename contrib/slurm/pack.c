/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/pack.h"

#include <endian.h>
#include <string.h>

void pack_clear(struct pack *p)
{
	buffer_clear(&p->bytes);
	*p = (struct pack){0};
}

void pack_raw(struct pack *p, const void *data, size_t size)
{
	if (!p->failed && size > 0)
		p->failed = buffer_add(&p->bytes, data, size) < 0;
}

void pack_u8(struct pack *p, uint8_t n)
{
	pack_raw(p, &n, sizeof(n));
}

void pack_u16(struct pack *p, uint16_t n)
{
	n = htobe16(n);
	pack_raw(p, &n, sizeof(n));
}

void pack_u32(struct pack *p, uint32_t n)
{
	n = htobe32(n);
	pack_raw(p, &n, sizeof(n));
}

void pack_u64(struct pack *p, uint64_t n)
{
	n = htobe64(n);
	pack_raw(p, &n, sizeof(n));
}

void pack_u32_array(struct pack *p, const uint32_t *values, uint32_t n)
{
	uint32_t i;

	pack_u32(p, n);
	for (i = 0; i < n; i++)
		pack_u32(p, values[i]);
}

void pack_text(struct pack *p, const char *text)
{
	pack_bytes(p, text, text ? (uint32_t)strlen(text) + 1 : 0);
}

void pack_bytes(struct pack *p, const void *data, uint32_t size)
{
	pack_u32(p, size);
	pack_raw(p, data, size);
}
