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

/* The root object. Borrowed, as all objects and arrays here. */
json_t *handover_root(const struct handover *h);

json_t *handover_put_object(struct handover *h, json_t *object, const char *name);
json_t *handover_put_array(struct handover *h, json_t *object, const char *name);
json_t *handover_append_object(struct handover *h, json_t *array);
json_t *handover_append_array(struct handover *h, json_t *array);
void handover_append_int(struct handover *h, json_t *array, int64_t value);
void handover_append_text(struct handover *h, json_t *array, const char *text);

void handover_put_int(struct handover *h, json_t *object, const char *name, int64_t value);
void handover_put_bool(struct handover *h, json_t *object, const char *name, bool value);

/* Any bytes but NUL. NULL is omitted. */
void handover_put_text(struct handover *h, json_t *object, const char *name, const char *text);
void handover_put_bytes(
	struct handover *h, json_t *object, const char *name, const void *data, size_t size);

/* Texts of any bytes but NUL. */
void handover_put_strv(
	struct handover *h, json_t *object, const char *name, const struct strv *texts);

/* The number of a descriptor for the new program. -1: omitted. */
void handover_put_fd(struct handover *h, json_t *object, const char *name, int fd);
void handover_add_fd(struct handover *h, int fd);

/* Takes ownership of the reference; NULL from a failed json_pack() counts as -ENOMEM. */
void handover_put_json_take(struct handover *h, json_t *object, const char *name, json_t *value);

/* Converts a timer's remaining seconds to its time of expiry on CLOCK_MONOTONIC, and back: the
 * timer does not stop during the change of programs. */
int64_t handover_deadline_ns(double left_sec);
double handover_left_sec(int64_t deadline_ns);

/* The document is for an adopter, after this agent's death: only what holds then is written, the
 * descriptors and what they are, and nothing that stands in buffers. */
void handover_set_held(struct handover *h);
bool handover_is_held(const struct handover *h);

/* Calls fn for each descriptor that the document names, in members "fd" and "..._fd" of objects,
 * and has the number that it returns in its place, or none for -1. 0, or what fn returned below -1.
 */
typedef int (*handover_fd_fn)(const json_t *object, int fd, void *userdata);
int handover_each_fd(struct handover *h, handover_fd_fn fn, void *userdata) _must_check_;

/* Marks the step as impossible to hand over, with a reason for the message. The first reason
 * stays. */
void handover_fail(struct handover *h, int code, const char *why);

/* The memfd, closed on exec, or -errno. */
int handover_finish(struct handover *h, struct err *err) _must_check_;

/* Lets the named descriptors survive an exec, or closes them on exec again. 0 or -errno. */
int handover_set_inherited(const struct handover *h, bool inherited) _must_check_;

/* ---- reading ------------------------------------------------------------------------------- */

/* Reads the document from fd, which is borrowed and keeps its offset. trial: restoring must have
 * no effect outside this process, which exits afterwards. */
int handover_open(int fd, bool trial, struct handover **ret_handover, struct err *err) _must_check_;

bool handover_is_trial(const struct handover *h);
const char *handover_get_version(const struct handover *h); /* the writer's */

/* json_get_int() and the others of base/json.h read the rest.
 *
 * The text is in the handover's memory. NULL: it is missing. */
const char *handover_get_text(const struct handover *h, const json_t *object, const char *name);
const char *handover_get_bytes(
	const struct handover *h, const json_t *object, const char *name, size_t *ret_size);

/* The same from malloc(): -ENOMEM, or 0 with NULL where it is missing. */
int handover_copy_text(const struct handover *h, const json_t *object, const char *name,
	char **ret_text) _must_check_;

/* Appends the texts of handover_put_strv(), if any. 0 or -ENOMEM. */
int handover_copy_strv(const struct handover *h, const json_t *object, const char *name,
	struct strv *texts) _must_check_;

/* An open descriptor, now the caller's; -1 if it was omitted. */
int handover_get_fd(const json_t *object, const char *name);

/* Sets the message for an invalid part. Returns -EPROTO. */
int handover_err_part(const char *part, struct err *err);

struct handover *handover_free(struct handover *h);
DEFINE_CLEANUP(struct handover *, handover_free);
#define _cleanup_handover_ _cleanup_(handover_free_p)

#endif
