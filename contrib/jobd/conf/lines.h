/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The lines of slurm.conf: "Key=Value Key=\"a value\" ...", comments from "#" on ("\#" is none), a
 * "\" at its end joins a line with the next one (not that of a comment), "Include FILE" stands for
 * the lines of that file, relative to the directory of the one that has it. Only regular files are
 * read.
 */
#ifndef JOBD_CONF_LINES_H
#define JOBD_CONF_LINES_H

#include <stddef.h>

#include "stepd/base/err.h"

#define LINES_SIZE_MAX    (64u << 10) /* of one line, with those that are joined to it */
#define LINES_INCLUDE_MAX 10          /* files in files */

struct conf_pair {
	const char *key, *value;
};

/* Its strings live until the function that got it returns. */
struct conf_line {
	const char *file;
	unsigned number; /* from 1: where it begins */
	const struct conf_pair *pairs;
	size_t n; /* at least 1 */
};

typedef int (*conf_line_fn)(const struct conf_line *line, void *userdata, struct err *err);

/* Calls fn for each line that is not empty until it fails. err's text begins with "FILE:NUMBER: ".
 */
int conf_lines_read(
	const char *file, conf_line_fn fn, void *userdata, struct err *err) _must_check_;

/* The same, if only root and this process's user can change the file and those that it includes,
 * or the directories above them: -EPERM. */
int conf_lines_read_trusted(
	const char *file, conf_line_fn fn, void *userdata, struct err *err) _must_check_;

#endif
