/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Counts of the bytes that pass through the agent, in memory that the holder (hold.h) has, too: an
 * adopter learns from them what a dead agent had read and not written. The agent changes them
 * before and after each read and write, so that at any moment they are exact, or marked as not.
 */
#ifndef STEPD_STDIO_TALLY_H
#define STEPD_STDIO_TALLY_H

#include <stddef.h>
#include <stdint.h>

#include "stepd/base/cleanup.h"

/* Of a task's stream, by its place in the pump. */
struct tally_source {
	uint64_t read, written;
	uint32_t reading; /* more may have been read than is counted */
	uint32_t unused;
};

struct tally_dest {
	uint32_t writing;  /* more may have been written than is counted */
	uint32_t mid_line; /* the last byte was no newline */
};

struct tally {
	struct tally_source *sources;
	struct tally_dest *dests;
	size_t sources_count, dests_count;
	int fd;
	void *map;
	size_t map_size;
};

/* The counts of before (NULL: none) are copied; it may have fewer, not more. 0 or -errno. */
int tally_new(size_t sources, size_t dests, const struct tally *before,
	struct tally **ret_tally) _must_check_;

/* The tally takes fd, on failure too. 0, -EPROTO where the file is not a tally, or -errno. */
int tally_open_take(int fd, struct tally **ret_tally) _must_check_;

struct tally *tally_free(struct tally *tally);
DEFINE_CLEANUP(struct tally *, tally_free);
#define _cleanup_tally_ _cleanup_(tally_free_p)

#endif
