/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Fills a caller's struct stepd_error, which may be NULL. All return the code.
 */
#ifndef STEPD_CLIENT_ERROR_H
#define STEPD_CLIENT_ERROR_H

#include "stepd/api/client.h"
#include "stepd/base/err.h"

struct json_t;

/* A sentence of our own, without and with the errno text behind it. */
int client_say(struct stepd_error *error, int code, const char *fmt, ...) _printf_(3, 4);
int client_fail(struct stepd_error *error, int code, const char *fmt, ...) _printf_(3, 4);

/* What the tree's other rooms said. */
int client_forward(struct stepd_error *error, const struct err *err);

/* What the agent of step answered to a call of method: the error's name and its parameters, an
 * object. */
int client_say_remote(struct stepd_error *error, const char *step, const char *method,
	const char *name, const struct json_t *parameters);

#endif
