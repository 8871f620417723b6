/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An answer of a Varlink service: a JSON object with "parameters", "continues" and "error", each of
 * which may be missing (https://varlink.org/Method-Call). Other members are left alone, as a later
 * version of the protocol may have them.
 */
#ifndef STEPD_CLIENT_REPLY_H
#define STEPD_CLIENT_REPLY_H

#include <stdbool.h>
#include <stddef.h>

#include "stepd/base/cleanup.h"

struct json_t;

struct reply {
	struct json_t *parameters; /* an object */
	char *error;               /* the name of one, NULL: it is none */
	bool continues;            /* others follow */
};

/* Takes text, size bytes without the NUL that ended it, apart. -EPROTO: it is no answer, and
 * *ret_why says why in a constant; -ENOMEM. */
int reply_parse(
	const char *text, size_t size, struct reply *ret_reply, const char **ret_why) _must_check_;
void reply_clear(struct reply *reply);

#define _cleanup_reply_ _cleanup_(reply_clear)

#endif
