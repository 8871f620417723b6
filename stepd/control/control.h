/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The control service: a Unix socket that speaks Varlink (https://varlink.org/Method-Call), for a
 * table of methods that its owner gives. Here is what every method needs and none decides: frames,
 * credentials, access, limits of connections, memory and time. What a method does is its owner's
 * (stepd/frontend/frontends.c).
 *
 * One call of a connection is under way at a time; later ones wait, unread, so that a client that
 * takes no answers can't fill memory. Nobody's slowness delays another: sockets never block.
 */
#ifndef STEPD_CONTROL_CONTROL_H
#define STEPD_CONTROL_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/err.h"

struct control;      /* the service */
struct control_call; /* one call of one connection; valid until its last reply */
struct ev_loop;
struct handover;
struct json_t;
struct log;

/* Bounds, which doc/stepd-control.7 repeats.
 *
 * Memory: all buffers of all connections together never hold more than CONTROL_MEMORY_MAX;
 * inactive ones are closed for active ones (conn.c). Beside them there are
 * CONTROL_CONNECTIONS_MAX times some 600 bytes, and what one call takes while it runs, one at a
 * time: its JSON, at most 6 MiB for the worst frame that the bounds allow, and what its method
 * makes. The kernel holds for each connection what its peer has not read, at most
 * net.core.wmem_default. */
#define CONTROL_FRAME_MAX       (256u << 10) /* bytes of a call */
#define CONTROL_DEPTH_MAX       32           /* of nested arrays and objects */
#define CONTROL_VALUES_MAX      32768        /* of them, and of what is in them */
#define CONTROL_SMALL_FRAME_MAX (4u << 10)   /* bytes of a stranger's call */
#define CONTROL_SMALL_VALUES    64           /* and its values */
#define CONTROL_CONNECTIONS_MAX 2048         /* in all; half of RLIMIT_NOFILE if that is less */
#define CONTROL_CALL_TIMEOUT_MS 10000        /* from a call's first byte to its last */
#define CONTROL_MEMORY_MAX      (64u << 20)  /* of all connections' buffers */

/* The access that a method needs; each class includes those above it. PermissionDenied names it. */
enum control_access {
	CONTROL_AGENT,    /* root and the agent's user */
	CONTROL_OWNER,    /* and the step's owner */
	CONTROL_OPERATOR, /* and the operator group */
	CONTROL_ACCESS_MAX,
};
#define CONTROL_EVERYBODY CONTROL_ACCESS_MAX /* all users of this node */

enum control_method_flags {
	CONTROL_MORE = 1u << 0,       /* may reply more than once */
	CONTROL_MORE_ONLY = 1u << 1,  /* and is called no other way */
	CONTROL_WHEN_READY = 1u << 2, /* waits until control_set_ready() */
	CONTROL_UPGRADE = 1u << 3,    /* is called with upgrade, and no other is */
};

enum control_type {
	CONTROL_BOOL,
	CONTROL_INT,
	CONTROL_STRING,
	CONTROL_OBJECT,
	CONTROL_INT_ARRAY,
	CONTROL_OBJECT_ARRAY,
	CONTROL_TYPE_MAX,
};

struct control_parameter {
	const char *name; /* NULL ends the list */
	enum control_type type;
	bool optional; /* may be absent; null is the same, and is removed */
};

#define CONTROL_PARAMETERS_MAX 8

/* A row of the method table. parameters have been checked by the row: no other names, no other
 * types, none missing. They are borrowed for the time of run(). run() replies, or holds the call
 * and replies later. */
struct control_method {
	const char *name; /* "ListPids" */
	enum control_access access;
	unsigned flags;
	struct control_parameter parameters[CONTROL_PARAMETERS_MAX + 1];
	void (*run)(struct control_call *call, const struct json_t *parameters, void *userdata);
};

/* The bounds of a service for everybody: callers outside of the classes of control_access may
 * send calls of this size, and have so many connections and so much time. */
struct control_bounds {
	size_t frame_max, values_max;    /* as CONTROL_FRAME_MAX and CONTROL_VALUES_MAX */
	unsigned user_connections_max;   /* of one user, of CONTROL_CONNECTIONS_MAX */
	unsigned shared_connections_max; /* of all of them */
	unsigned turn_ms;                /* of a turn of the loop */
};

struct control_options {
	struct ev_loop *loop;
	const struct log *log;
	int dir_fd;              /* of the directory in which the sockets are made */
	const char *path;        /* the same directory, for messages and bind(2); any length */
	const char *socket_name; /* in it, and of the others' before the dot; NULL: "socket" */
	const struct control_bounds *bounds; /* NULL: strangers have the "SMALL" bounds */
	const struct control_method *methods;
	size_t methods_count;
	const char *interface;   /* "io.stepd.Step" */
	const char *description; /* the text of the interface file */
	const char *vendor, *product, *version, *url;
	uid_t owner_uid;    /* of the step */
	gid_t operator_gid; /* (gid_t)-1: there is none */
	void *userdata;     /* of methods' run() */
};

/* Listens from now on. Strings are borrowed. Sockets that a dead agent left there are replaced:
 * the caller holds the directory's lock. */
int control_open(const struct control_options *options, struct control **ret_control,
	struct err *err) _must_check_;

/* Calls of CONTROL_WHEN_READY run from now on, those that came earlier first. */
void control_set_ready(struct control *c);

/* No more calls. Replies under way still go out, from the loop, for patience_ms at most, and for
 * 100 ms to a peer that reads nothing; then done() is called. If some still wait for their turn,
 * this process is slow: they get the same time again, twelve times at most. Pending calls end
 * with their connections. */
void control_finish(
	struct control *c, int patience_ms, void (*done)(void *userdata), void *userdata);

/* Closes all and removes the sockets. Functions of control_call_on_gone() are called for calls
 * that are still held, so their data must exist until then; they must not call other functions of
 * this file. NULL is allowed. Returns NULL. */
struct control *control_close(struct control *c);

/* The interface of a step's agent, and the text of io.stepd.Step.varlink: interface.c is made of
 * it. */
#define CONTROL_INTERFACE "io.stepd.Step"
extern const char control_interface_text[];

/* ---- a call -------------------------------------------------------------------------------- */

struct control_peer {
	pid_t pid; /* in our pid namespace, 0: of another one */
	uid_t uid;
	gid_t gid;
};

const struct control_peer *control_call_peer(const struct control_call *call);

/* Its row, of the service's methods. */
const struct control_method *control_call_get_method(const struct control_call *call);

/* Whether the caller accepts several replies ("more"). */
bool control_call_wants_more(const struct control_call *call);

/* Replies. The last reply ends the call; before it there may be others if the caller accepts
 * more. Replies are queued without a bound, so a method with many sends the next one when the
 * function of control_call_on_drained() is called. parameters may be NULL for none; the reference
 * is taken over in any case. After a failed json_pack() call control_no_memory(). */
void control_reply_take(struct control_call *call, struct json_t *parameters, bool last);

/* The same with the text of a JSON object: for replies that are frequent or large. */
void control_reply_text(struct control_call *call, const char *parameters, size_t size, bool last);

/* An error of the interface ("NoSuchProcess") or, with a dot in its name, of another
 * ("org.varlink.service.ExpectedMore"). It is the last reply, too. */
void control_error_take(struct control_call *call, const char *name, struct json_t *parameters);
void control_no_memory(struct control_call *call);

/* Replies to a call of a method of CONTROL_UPGRADE, and takes its connection from the service:
 * *ret_fd is the caller's from now on, a non-blocking socket, and the call has ended. -EPIPE: the
 * peer has gone, or has sent more than its call; the connection is closed, and the call has ended,
 * too. -ENOMEM: the call has failed. parameters as of control_reply_take(). */
int control_upgrade_take(
	struct control_call *call, struct json_t *parameters, int *ret_fd) _must_check_;

/* Calls fn once, from the loop, when the kernel has all replies so far. */
void control_call_on_drained(struct control_call *call,
	void (*fn)(struct control_call *call, void *userdata), void *userdata);

/* Calls fn, from the loop, when the caller has gone before the last reply: the call does not
 * exist after it. Replies in between are dropped. A method that holds a call sets this. */
void control_call_on_gone(struct control_call *call,
	void (*fn)(struct control_call *call, void *userdata), void *userdata);

/* The userdata of that; NULL: not set. */
void *control_call_get_holder(const struct control_call *call);

/* ---- re-exec ------------------------------------------------------------------------------- */

/* Saves what control_restore() needs in that object of the handover (snapshot/handover.h). The
 * service continues unchanged if the exec fails. All connections survive. Of a call under way the
 * handover has the method's name and the state that save_state() returns for it, a new reference;
 * one without a state, NULL, ends with the error Failed. */
typedef struct json_t *(*control_save_call_fn)(struct control_call *call, void *userdata);
void control_save(const struct control *c, struct handover *h, struct json_t *object,
	control_save_call_fn save_state, void *userdata);

/* In the new program: options as of control_open(). resume() takes over a call that was saved
 * with its state, of a method that this program has; it may reply at once. On failure the sockets
 * are closed. */
typedef void (*control_resume_fn)(
	struct control_call *call, const struct json_t *state, void *userdata);
int control_restore(const struct control_options *options, const struct handover *h,
	const struct json_t *saved, control_resume_fn resume, void *userdata,
	struct control **ret_control, struct err *err) _must_check_;

#endif
