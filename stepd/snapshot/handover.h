/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What an agent hands over to the program that it executes (reexec.h): one JSON
 * object, and behind it bytes that are none (what stands in buffers), in a sealed memfd. Each
 * module writes its own part with the functions here, and reads it again in the new program, which
 * may be of another version: it passes over names that it doesn't know, and what is missing has the
 * value that it had before there was such a name. HANDOVER_VERSION grows only where that can't be
 * done.
 *
 * Writing never fails in the middle: what went wrong is returned at the end, by handover_finish(),
 * and a NULL object is passed over until then.
 */
#ifndef STEPD_SNAPSHOT_HANDOVER_H
#define STEPD_SNAPSHOT_HANDOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stepd/base/err.h"
#include "stepd/base/json.h"
#include "stepd/base/strv.h"

#define HANDOVER_VERSION 3

struct handover;

/* ---- writing ------------------------------------------------------------------------------- */

/* version is this program's. NULL: no memory. */
struct handover *handover_new(const char *version);

/* The whole. Borrowed, as all objects and arrays here. */
json_t *handover_root(const struct handover *h);

json_t *handover_put_object(struct handover *h, json_t *object, const char *name);
json_t *handover_put_array(struct handover *h, json_t *object, const char *name);
json_t *handover_append_object(struct handover *h, json_t *array);
json_t *handover_append_array(struct handover *h, json_t *array);
void handover_append_int(struct handover *h, json_t *array, int64_t value);
void handover_append_text(struct handover *h, json_t *array, const char *text);

void handover_put_int(struct handover *h, json_t *object, const char *name, int64_t value);
void handover_put_bool(struct handover *h, json_t *object, const char *name, bool value);

/* Any bytes but NUL. NULL is left out. */
void handover_put_text(struct handover *h, json_t *object, const char *name, const char *text);
void handover_put_bytes(
	struct handover *h, json_t *object, const char *name, const void *data, size_t size);

/* Texts of any bytes but NUL. */
void handover_put_strv(
	struct handover *h, json_t *object, const char *name, const struct strv *texts);

/* The number of a descriptor that the new program shall have. -1: there is none. */
void handover_put_fd(struct handover *h, json_t *object, const char *name, int fd);
void handover_add_fd(struct handover *h, int fd);

/* Takes over the reference; NULL from a failed json_pack() counts as no memory. */
void handover_put_json_take(struct handover *h, json_t *object, const char *name, json_t *value);

/* When a timer that now has so many seconds left runs out, on CLOCK_MONOTONIC, and back: what the
 * change of programs takes is no time that it stands still. */
int64_t handover_deadline_ns(double left_sec);
double handover_left_sec(int64_t deadline_ns);

/* Something of the step can't be handed over: why, for people. The first reason stays. */
void handover_fail(struct handover *h, int code, const char *why);

/* The memfd, closed on exec, or -errno. */
int handover_finish(struct handover *h, struct err *err) _must_check_;

/* Lets the descriptors that were named survive an exec, or no more. 0 or -errno. */
int handover_set_inherited(const struct handover *h, bool inherited) _must_check_;

/* ---- reading ------------------------------------------------------------------------------- */

/* Reads the whole from fd, which is borrowed and stays where it stands. trial: nothing but this
 * process may be changed by what is made of it, which ends then. */
int handover_open(int fd, bool trial, struct handover **ret_handover, struct err *err) _must_check_;

bool handover_is_trial(const struct handover *h);
const char *handover_get_version(const struct handover *h); /* its writer's */

/* json_get_int() and its like of base/json.h read the rest.
 *
 * In the handover's memory. NULL: it is missing. */
const char *handover_get_text(const struct handover *h, const json_t *object, const char *name);
const char *handover_get_bytes(
	const struct handover *h, const json_t *object, const char *name, size_t *ret_size);

/* The same from malloc(): -ENOMEM, or 0 with NULL where it is missing. */
int handover_copy_text(const struct handover *h, const json_t *object, const char *name,
	char **ret_text) _must_check_;

/* Adds what was put by handover_put_strv(), which may be nothing. 0 or -ENOMEM. */
int handover_copy_strv(const struct handover *h, const json_t *object, const char *name,
	struct strv *texts) _must_check_;

/* An open descriptor, which is the caller's now; -1 where there is none. */
int handover_get_fd(const json_t *object, const char *name);

/* The sentence for a part that is not as it must be. Returns -EPROTO. */
int handover_err_part(const char *part, struct err *err);

struct handover *handover_free(struct handover *h);
DEFINE_CLEANUP(struct handover *, handover_free);
#define _cleanup_handover_ _cleanup_(handover_free_p)

#endif
