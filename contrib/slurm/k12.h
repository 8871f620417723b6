/* SPDX-License-Identifier: BSD-3-Clause
 *
 * KangarooTwelve (RFC 9861, KT128), the hash by which Slurm binds a MUNGE credential to the message
 * that it is sent with.
 */
#ifndef SLURM_K12_H
#define SLURM_K12_H

#include <stddef.h>
#include <stdint.h>

#define K12_SIZE 32

/* The customization string has at most 64 bytes. */
#define K12_CUSTOM_MAX 64

void k12_hash(const void *message, size_t size, const void *custom, size_t custom_size,
	uint8_t ret_hash[static K12_SIZE]);

#endif
