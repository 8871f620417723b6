/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages of the two protocols as a client meets them:
 *   PMI-1  "cmd=NAME key=value ... value=TO THE END\n"
 *   PMI-2  a length in 6 characters, padded with blanks, and "cmd=NAME;key=value;...;", in which
 *          ";;" is a ';' of a value
 */
#ifndef MPI_PMI_CLIENT_MESSAGE_H
#define MPI_PMI_CLIENT_MESSAGE_H

#include <stddef.h>

#include "stepd/base/cleanup.h"

#define MESSAGE_MAX         8192u /* bytes of one, without PMI-2's length */
#define MESSAGE_LENGTH_SIZE 6u    /* of PMI-2 */
#define MESSAGE_FIELDS_MAX  64u

struct message_field {
	const char *key, *value;
};

/* A message taken apart: the texts are in buf, which is changed. */
struct message {
	char *buf;
	struct message_field fields[MESSAGE_FIELDS_MAX];
	size_t count;
};

/* How many bytes of a message are to be read: what data begins with is a whole one of *ret_size
 * bytes (its text begins at *ret_text); -EAGAIN: more is needed; -EMSGSIZE: it is too long;
 * -EPROTO: it is none. */
int message_find(unsigned version, const char *data, size_t size, size_t *ret_size,
	size_t *ret_text) _must_check_;

/* Takes the text of one apart, NUL-terminated and without the newline. -EPROTO: a field without
 * '=' or too many of them, or the first is not cmd. */
int message_parse(unsigned version, char *text, struct message *ret_message) _must_check_;

/* NULL: it has none of that name. */
const char *message_get(const struct message *message, const char *key);

#endif
