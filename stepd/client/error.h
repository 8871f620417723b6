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
int client_error(struct stepd_error *error, int code, const char *fmt, ...) _printf_(3, 4);
int client_error_errno(struct stepd_error *error, int code, const char *fmt, ...) _printf_(3, 4);

/* The error of a module below. */
int client_error_forward(struct stepd_error *error, const struct err *err);

/* The error reply of the agent of step to a call of method: the error's name and its parameters, an
 * object. */
int client_error_remote(struct stepd_error *error, const char *step, const char *method,
	const char *name, const struct json_t *parameters);

#endif
