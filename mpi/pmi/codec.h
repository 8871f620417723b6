/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages of PMI-1 and PMI-2, read and written, for the server (mpi/pmi2) and the client:
 *
 *	PMI-1  "cmd=put kvsname=7.0 key=a value=b\n"   no blank in a value, but for that of a key
 *	PMI-2  "26    cmd=kvs-put;key=a;value=b;"      ";;" stands for ";" in a value
 *
 * Input is not trusted: it has come from a task, or from an engine's server.
 */
#ifndef MPI_PMI_CODEC_H
#define MPI_PMI_CODEC_H

#include "mpi/pmi/bytes.h"

#define PMI2_HEAD_SIZE 6u      /* the length, in digits and blanks */
#define PMI2_BODY_MAX  999999u /* the most that six digits can express */
#define PMI_FIELDS_MAX 65536u

enum pmi_protocol {
	PMI_NONE, /* none yet, or none any more */
	PMI_1,
	PMI_2,
	PMI_PROTOCOL_MAX,
};

/* ---- reading ------------------------------------------------------------------------------- */

/* The position of a stream's first message. */
struct pmi_frame {
	size_t begin, size; /* its text, without the length or the newline */
	size_t total;       /* bytes that it takes */
};

/* -EAGAIN: more bytes are needed; -EMSGSIZE: its text is longer than text_max; -EBADMSG: there is
 * no message. */
int pmi_frame_find(enum pmi_protocol protocol, struct slice bytes, size_t text_max,
	struct pmi_frame *ret_frame) _must_check_;

struct pmi_field {
	struct slice key, value;
};

/* Fields in their order; they are pieces of the text that was parsed. */
struct pmi_message {
	struct pmi_field *fields;
	size_t count, capacity;
};

/* Both replace what m held. 0: there is at least one field; -EBADMSG; -ENOMEM. */
int pmi1_parse(struct slice line, struct pmi_message *m) _must_check_;
/* Changes body where something was escaped. */
int pmi2_parse(char *body, size_t size, struct pmi_message *m) _must_check_;
/* One line of a block "mcmd=... endcmd" of PMI-1: its value is the rest of the line. Adds to m. */
int pmi1_parse_block_line(struct slice line, struct pmi_message *m) _must_check_;

/* The first field of that key. */
bool pmi_message_get(const struct pmi_message *m, const char *key, struct slice *ret_value);
/* An integer that must be there within the bounds: 0, or -EINVAL. */
int pmi_message_get_int(const struct pmi_message *m, const char *key, int64_t least, int64_t most,
	int64_t *ret_n) _must_check_;
void pmi_message_clear(struct pmi_message *m); /* frees it */
#define _cleanup_pmi_message_ _cleanup_(pmi_message_clear)

/* ---- writing ------------------------------------------------------------------------------- */

/* A message that is appended to out. */
struct pmi_writer {
	struct bytes *out;
	size_t begin;
	enum pmi_protocol protocol;
};

void pmi_write_begin(struct pmi_writer *w, struct bytes *out, enum pmi_protocol protocol);
void pmi_write_field(struct pmi_writer *w, const char *key, struct slice value);
void pmi_write_text(struct pmi_writer *w, const char *key, const char *value);
void pmi_write_int(struct pmi_writer *w, const char *key, int64_t value);
/* -EMSGSIZE: it is longer than a message can be, and has been taken out again. That out has lost
 * bytes for want of memory is left to its owner. */
int pmi_write_end(struct pmi_writer *w) _must_check_;

/* How long a value of PMI-2 is once it is escaped. */
size_t pmi2_escaped_size(struct slice value);

#endif
