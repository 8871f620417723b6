/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Bytes as text and back: base64 of RFC 4648, with padding, without line breaks.
 */
#ifndef STEPD_BASE_BASE64_H
#define STEPD_BASE_BASE64_H

#include <sys/types.h>

#include "stepd/base/cleanup.h"

/* Characters that encode so many bytes, without the NUL. */
#define BASE64_SIZE(bytes) (((bytes) + 2) / 3 * 4)

/* Writes BASE64_SIZE(size) characters and a NUL. */
void base64_encode(const void *bytes, size_t size, char *text);

/* Writes at most size / 4 * 3 bytes, which may overwrite text. Returns how many, or -EINVAL for a
 * text that is not base64. */
ssize_t base64_decode(const char *text, size_t size, void *bytes) _must_check_;

#endif
