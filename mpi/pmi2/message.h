/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A message of a PMI client as fields in their order, and the two ways in which one is written:
 *
 *	PMI-1  "cmd=put kvsname=7.0 key=a value=b\n"      no blank in a value but in put's last one
 *	PMI-2  "26    cmd=kvs-put;key=a;value=b;"         ";;" stands for ";" in a value
 *
 * Fields are pieces of the text that was parsed.
 */
#ifndef MPI_PMI2_MESSAGE_H
#define MPI_PMI2_MESSAGE_H

#include "mpi/pmi2/bytes.h"

#define PMI2_HEAD_SIZE    6u      /* the length, in digits and blanks */
#define PMI2_BODY_MAX     999999u /* what six digits can say */
#define MESSAGE_FIELD_MAX 65536u

struct field {
	struct slice key, value;
};

struct message {
	struct field *fields;
	size_t count, room;
};

int message_add(struct message *m, struct slice key, struct slice value) _must_check_;
/* The first field of that key. */
bool message_get(const struct message *m, const char *key, struct slice *ret_value);
/* An integer that must be there within the bounds: 0, or -EINVAL. */
int message_get_int(const struct message *m, const char *key, int64_t least, int64_t most,
	int64_t *ret_n) _must_check_;
void message_clear(struct message *m); /* frees it */
#define _cleanup_message_ _cleanup_(message_clear)

/* All replace what m held. -EBADMSG: that is no message; -ENOMEM. */
int pmi1_parse(struct slice line, struct message *m) _must_check_; /* without its '\n' */
/* One line of a block "mcmd=... endcmd": the value is the rest of it. Adds to m. */
int pmi1_parse_block_line(struct slice line, struct message *m) _must_check_;
/* The length of the body, -EBADMSG, or -EAGAIN: more bytes are needed to tell. */
int pmi2_parse_head(struct slice head) _must_check_;
/* body is changed where something was escaped. */
int pmi2_parse(char *body, size_t size, struct message *m) _must_check_;

/* How long a value is when it is escaped, and the text itself. */
size_t pmi2_escaped_size(struct slice value);
void pmi2_escape(struct slice value, struct bytes *b);

#endif
