/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Values as people write them. Each takes the whole text or fails with -EINVAL (no such value) or
 * -ERANGE (beyond the limits given); ret_x is set on success only.
 */
#ifndef STEPD_BASE_PARSE_H
#define STEPD_BASE_PARSE_H

#include <stdint.h>

#include "stepd/base/cleanup.h"

/* Decimal digits, no sign, no blanks. */
int parse_u64(const char *text, uint64_t least, uint64_t most, uint64_t *ret_n) _must_check_;
int parse_u32(const char *text, uint32_t least, uint32_t most, uint32_t *ret_n) _must_check_;
int parse_i32(const char *text, int32_t least, int32_t most, int32_t *ret_n) _must_check_;

/* The number behind key, which begins a line of text, and blanks: for the kernel's files. -EBADMSG:
 * there is no such line. */
int parse_line_u64(const char *text, const char *key, uint64_t *ret_n) _must_check_;

/* A duration: "30" or "30s" are seconds, else "250ms", "5m", "2h", "1d"; "1.5s" is fine. */
int parse_duration_ms(const char *text, uint64_t *ret_ms) _must_check_;

/* A time limit as srun's --time has it: "minutes", "minutes:seconds", "hours:minutes:seconds",
 * "days-hours", "days-hours:minutes" or "days-hours:minutes:seconds". */
int parse_slurm_time_ms(const char *text, uint64_t *ret_ms) _must_check_;

/* A size in bytes: a number, with a fraction or without, and behind it K, M, G, T, P or E, in
 * capitals or not, for a power of 1024. A bare number is of units of bare_unit bytes; 0: -EINVAL
 * for it. */
int parse_size(const char *text, uint64_t bare_unit, uint64_t *ret_bytes) _must_check_;

/* The name of a plugin, "NAME" or "KIND/NAME", without the kind; NULL: not such a name. */
const char *parse_plugin_name(const char *text, const char *kind);

/* A list of numbers and ranges, "0-3,8": calls add for each, ascending within a range, until it
 * returns a negative number, which is returned. Numbers are below limit. */
typedef int (*parse_range_fn)(uint32_t n, void *userdata);
int parse_ranges(const char *text, uint32_t limit, parse_range_fn add, void *userdata) _must_check_;

#endif
