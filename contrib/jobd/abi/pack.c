/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/api/pack.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stepd/api/plugin.h"

struct stepd_buf {
	char *data;
	uint32_t size, at;
};

_Noreturn static void no_memory(void)
{
	(void)fputs("jobd: out of memory for what a plugin packs\n", stderr);
	abort();
}

void *stepd_xmalloc(size_t size)
{
	void *p = calloc(1, size ? size : 1);

	if (!p)
		no_memory();
	return p;
}

void stepd_xfree(void **p)
{
	free(*p);
	*p = NULL;
}

char *xstrdup(const char *text)
{
	char *copy = text ? strdup(text) : NULL;

	if (text && !copy)
		no_memory();
	return copy;
}

/* ---- buffers ----------------------------------------------------------------------------------
 */

Buf create_buf(char *data, uint32_t size)
{
	Buf buf = stepd_xmalloc(sizeof(*buf));

	*buf = (struct stepd_buf){.data = data, .size = size};
	return buf;
}

Buf init_buf(uint32_t size)
{
	return create_buf(stepd_xmalloc(size), size);
}

void free_buf(Buf buf)
{
	if (buf)
		free(buf->data);
	free(buf);
}

char *get_buf_data(Buf buf)
{
	return buf->data;
}

uint32_t get_buf_offset(Buf buf)
{
	return buf->at;
}

void set_buf_offset(Buf buf, uint32_t offset)
{
	buf->at = offset < buf->size ? offset : buf->size;
}

uint32_t size_buf(Buf buf)
{
	return buf->size;
}

uint32_t remaining_buf(Buf buf)
{
	return buf->size - buf->at;
}

/* ---- packing ----------------------------------------------------------------------------------
 */

static void put(Buf buf, const void *bytes, uint32_t size)
{
	uint64_t wanted = (uint64_t)buf->at + size;
	char *grown;

	if (wanted > UINT32_MAX / 2)
		no_memory();
	if (wanted > buf->size) {
		grown = realloc(buf->data, 2 * wanted);
		if (!grown)
			no_memory();
		memset(grown + buf->size, 0, 2 * wanted - buf->size);
		buf->data = grown;
		buf->size = (uint32_t)(2 * wanted);
	}
	if (size > 0)
		memcpy(buf->data + buf->at, bytes, size);
	buf->at += size;
}

void pack8(uint8_t value, Buf buf)
{
	put(buf, &value, sizeof(value));
}

void pack16(uint16_t value, Buf buf)
{
	uint16_t be = htobe16(value);

	put(buf, &be, sizeof(be));
}

void pack32(uint32_t value, Buf buf)
{
	uint32_t be = htobe32(value);

	put(buf, &be, sizeof(be));
}

void pack64(uint64_t value, Buf buf)
{
	uint64_t be = htobe64(value);

	put(buf, &be, sizeof(be));
}

void packbool(bool value, Buf buf)
{
	pack8(value, buf);
}

void pack_time(time_t value, Buf buf)
{
	pack64((uint64_t)value, buf);
}

void packmem(const void *data, uint32_t size, Buf buf)
{
	pack32(size, buf);
	put(buf, data, size);
}

void packstr(const char *text, Buf buf)
{
	packmem(text, text ? (uint32_t)strlen(text) + 1 : 0, buf);
}

/* ---- unpacking --------------------------------------------------------------------------------
 */

static int get(Buf buf, void *bytes, uint32_t size)
{
	if (remaining_buf(buf) < size)
		return SLURM_ERROR;
	memcpy(bytes, buf->data + buf->at, size);
	buf->at += size;
	return SLURM_SUCCESS;
}

int unpack8(uint8_t *value, Buf buf)
{
	return get(buf, value, sizeof(*value));
}

int unpack16(uint16_t *value, Buf buf)
{
	int r = get(buf, value, sizeof(*value));

	if (r == SLURM_SUCCESS)
		*value = be16toh(*value);
	return r;
}

int unpack32(uint32_t *value, Buf buf)
{
	int r = get(buf, value, sizeof(*value));

	if (r == SLURM_SUCCESS)
		*value = be32toh(*value);
	return r;
}

int unpack64(uint64_t *value, Buf buf)
{
	int r = get(buf, value, sizeof(*value));

	if (r == SLURM_SUCCESS)
		*value = be64toh(*value);
	return r;
}

int unpackbool(bool *value, Buf buf)
{
	uint8_t byte;
	int r = unpack8(&byte, buf);

	if (r == SLURM_SUCCESS)
		*value = byte != 0;
	return r;
}

int unpack_time(time_t *value, Buf buf)
{
	uint64_t seconds;
	int r = unpack64(&seconds, buf);

	if (r == SLURM_SUCCESS)
		*value = (time_t)seconds;
	return r;
}

int unpackmem_xmalloc(char **data, uint32_t *size, Buf buf)
{
	uint32_t at = buf->at, n;

	*data = NULL;
	*size = 0;
	if (unpack32(&n, buf) != SLURM_SUCCESS || n > remaining_buf(buf)) {
		buf->at = at;
		return SLURM_ERROR;
	}
	if (n == 0)
		return SLURM_SUCCESS;
	*data = stepd_xmalloc(n);
	*size = n;
	return get(buf, *data, n);
}

int unpackstr_xmalloc(char **text, uint32_t *size, Buf buf)
{
	uint32_t at = buf->at;

	if (unpackmem_xmalloc(text, size, buf) != SLURM_SUCCESS)
		return SLURM_ERROR;
	if (*size == 0 || strnlen(*text, *size) == *size - 1)
		return SLURM_SUCCESS;
	stepd_xfree((void **)text);
	*size = 0;
	buf->at = at;
	return SLURM_ERROR;
}
