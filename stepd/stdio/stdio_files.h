/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The files of the tasks' standard streams: names from patterns, opened as the user. For stdio.c.
 */
#ifndef STEPD_STDIO_STDIO_FILES_H
#define STEPD_STDIO_STDIO_FILES_H

#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/err.h"

struct identity;
struct spec;
struct spec_stream;

struct stdio_files {
	const struct spec *spec;
	const struct identity *id;
	char *cwd; /* of the step; NULL: the agent's */
	mode_t mask;
};

/* "standard output" for 1. */
const char *stdio_word(int stream);

/* The file of a task's stream, expanded, or the pattern where that can't be: for messages. */
void stdio_files_name(const struct spec *spec, const struct identity *id, int stream, uint32_t rank,
	char *text, size_t size);

int stdio_files_expand(const struct stdio_files *files, const char *pattern, uint32_t rank,
	char **ret_name, struct err *err) _must_check_;

/* For open(2), of a file that is written. Not blocking, so that a FIFO which nobody reads is an
 * error, not a halt. */
int stdio_files_flags(const struct spec_stream *stream);

/* The directory of the task of this rank. */
const char *stdio_files_cwd(const struct stdio_files *files, uint32_t rank);

/* Opens name, relative to cwd, as the user: a descriptor above 2, or -errno. */
int stdio_files_open(const struct stdio_files *files, int stream, const char *cwd, const char *name,
	int flags, struct err *err) _must_check_;

#endif
