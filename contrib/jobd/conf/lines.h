/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The lines of slurm.conf: "Key=Value Key=\"a value\" ...", comments from "#" on (but not "\#"), a
 * "\" at its end joins a line with the next one (not in a comment), "Include FILE" stands for the
 * lines of that file, relative to the directory of the including one. Only regular files are read.
 */
#ifndef JOBD_CONF_LINES_H
#define JOBD_CONF_LINES_H

#include <stddef.h>

#include "stepd/base/err.h"

#define LINES_SIZE_MAX    (64u << 10) /* of a line, with the lines joined to it */
#define LINES_INCLUDE_MAX 10          /* depth of included files */

struct conf_pair {
	const char *key, *value;
};

/* Its strings are valid until the callback returns. */
struct conf_line {
	const char *file;
	unsigned number; /* of its begin, from 1 */
	const struct conf_pair *pairs;
	size_t n; /* at least 1 */
};

typedef int (*conf_line_fn)(const struct conf_line *line, void *userdata, struct err *err);

/* Calls fn for each line that is not empty, until it fails. err's text begins with "FILE:NUMBER: ".
 */
int conf_lines_read(
	const char *file, conf_line_fn fn, void *userdata, struct err *err) _must_check_;

/* The same, but -EPERM if users other than root and this process's can change the file, those that
 * it includes, or the directories above them. */
int conf_lines_read_trusted(
	const char *file, conf_line_fn fn, void *userdata, struct err *err) _must_check_;

#endif
