/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Buffers with packed values, for select plugins' information on nodes and jobs, by the names that
 * Slurm's plugins use. The host exports the functions. Numbers are in network byte order, a string
 * is its size with the NUL (uint32_t, 0 for NULL) and its bytes.
 */
#ifndef STEPD_API_PACK_H
#define STEPD_API_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default) /* the host has them, for its plugins */

typedef struct stepd_buf *Buf;

/* Zeroed memory; the program ends if memory is short. xfree() frees p and sets it to NULL. */
void *stepd_xmalloc(size_t size);
void stepd_xfree(void **p);
char *xstrdup(const char *text); /* NULL for NULL */
#define xmalloc(size) stepd_xmalloc(size)
#define xfree(p)      stepd_xfree((void **)&(p))

Buf init_buf(uint32_t size);               /* it grows */
Buf create_buf(char *data, uint32_t size); /* takes over data from xmalloc() or malloc() */
void free_buf(Buf buf);                    /* NULL is fine */
char *get_buf_data(Buf buf);
uint32_t get_buf_offset(Buf buf); /* where the next value is packed or unpacked */
void set_buf_offset(Buf buf, uint32_t offset);
uint32_t size_buf(Buf buf);
uint32_t remaining_buf(Buf buf);

void pack8(uint8_t value, Buf buf);
void pack16(uint16_t value, Buf buf);
void pack32(uint32_t value, Buf buf);
void pack64(uint64_t value, Buf buf);
void packbool(bool value, Buf buf);
void pack_time(time_t value, Buf buf);
void packmem(const void *data, uint32_t size, Buf buf);
void packstr(const char *text, Buf buf);

/* SLURM_SUCCESS, or SLURM_ERROR if the buffer is too short or has an invalid value. */
int unpack8(uint8_t *value, Buf buf);
int unpack16(uint16_t *value, Buf buf);
int unpack32(uint32_t *value, Buf buf);
int unpack64(uint64_t *value, Buf buf);
int unpackbool(bool *value, Buf buf);
int unpack_time(time_t *value, Buf buf);
int unpackmem_xmalloc(char **data, uint32_t *size, Buf buf); /* to be freed by xfree() */
int unpackstr_xmalloc(char **text, uint32_t *size, Buf buf);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
