/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The control service's insides, shared by the files of stepd/control/ and its tests.
 *
 * A connection reads, or runs one call, or writes: only with nothing to answer and nothing to
 * write it takes more input. It never ends inside of a function that somebody else called:
 * conn_fail() closes it at once, and the next turn of the loop calls on_gone() of its call and
 * frees it. So a struct conn is valid in every callback, and code behind a reply may read it.
 */
#ifndef STEPD_CONTROL_CONTROL_IMPL_H
#define STEPD_CONTROL_CONTROL_IMPL_H

#include <ev.h>
#include <jansson.h>
#include <sys/queue.h>
#include <sys/uio.h>

#include "stepd/base/buffer.h"
#include "stepd/base/clock.h"
#include "stepd/base/err.h"
#include "stepd/control/control.h"

#define CONTROL_READ_SIZE (64u << 10) /* bytes taken from a connection at a time */

typedef void (*control_call_fn)(struct control_call *call, void *userdata);

struct control_call {
	struct conn *conn;
	bool under_way, more, oneway;
	const struct control_method *method; /* NULL: not looked up yet */
	control_call_fn on_drained, on_gone; /* NULL: none */
	void *drained_userdata, *gone_userdata;
};

/* Received bytes, cut into frames: each ends with a NUL, and none is longer than its sender may
 * send. */
struct frames {
	struct buffer bytes;
	size_t searched; /* of them: no NUL among these */
	size_t max;      /* bytes of a frame, without its NUL */
};

TAILQ_HEAD(conn_list, conn);

struct conn {
	TAILQ_ENTRY(conn) all;     /* of control->all, the one that is silent for longest first */
	TAILQ_ENTRY(conn) due;     /* of control->due or, failed, of control->failed; with is_due */
	TAILQ_ENTRY(conn) waiting; /* of control->waiting, with is_waiting */
	struct control *control;
	int fd; /* -1: failed */
	struct control_peer peer;
	enum control_access access;     /* the peer's; CONTROL_EVERYBODY: a stranger */
	enum control_access turn_class; /* the class whose share of a turn's time it uses */
	size_t values_max;              /* of a call of this peer */
	bool is_due, is_waiting, has_waited, is_serving, is_finishing;
	bool is_unread;     /* there is input, which was left for the next turn */
	bool was_answered;  /* once at least */
	bool no_more_input; /* the peer has shut its side down */
	bool hup_watched;
	ev_io in_io, out_io;
	ev_timer deadline;
	struct frames in;
	struct buffer out;
	size_t held; /* bytes of in and out, as the service has counted them */
	struct control_call call;
};

/* The listening Unix sockets of a step's directory. One is for everybody. The kernel has for each
 * socket a queue of connections that nobody has accepted yet, and connect(2) waits where it is
 * full; so users who must never wait for others have sockets of their own, with queues of their
 * own: root (and the agent's user), and the step's owner. A client tries them in this order
 * (stepd/client/client.c). */
enum listener_kind {
	LISTENER_AGENT,
	LISTENER_OWNER, /* only where the owner is neither root nor the agent's user */
	LISTENER_ALL,
	LISTENER_MAX,
};

/* Their names in the directory: "socket.agent", "socket.owner", "socket", unless the service's
 * options have another name than "socket". */
extern const char *const listener_names[LISTENER_MAX];

struct listener {
	struct control *control;
	enum listener_kind kind;
	int fd; /* -1: there is none of this kind */
	ev_io io;
};

struct control {
	struct control_options options;
	struct listener listeners[LISTENER_MAX];
	int spare_fd, hup_fd;
	bool ready, finishing, accept_failed;
	struct conn_list all, waiting, failed;
	struct conn_list due[CONTROL_ACCESS_MAX + 1]; /* by turn_class */
	unsigned turn_number;                         /* of the loop, which spent_ns is of */
	uint64_t spent_ns[CONTROL_ACCESS_MAX + 1];    /* by turn_class */
	unsigned counts[CONTROL_ACCESS_MAX + 1];      /* connections by access */
	unsigned connections_max;
	size_t memory, memory_most; /* of all buffers; the most since it was given back */
	ev_io hup_io;
	ev_timer turn, accept_again, patience;
	int patience_ms, patience_count; /* of control_finish(); how often it was over */
	void (*finished)(void *userdata);
	void *finished_userdata;
	char scratch[CONTROL_READ_SIZE]; /* the last: control_new() leaves it as it is */
};

/* ---- server.c: sockets, access, turns ------------------------------------------------------ */

/* A service that accepts nowhere yet. */
int control_new(const struct control_options *options, struct control **ret_control,
	struct err *err) _must_check_;

/* It also accepts at fd, which it owns from now on. */
void control_accept_at(struct control *c, enum listener_kind kind, int fd);
void control_schedule(struct conn *conn); /* conn_turn() at the next turn of the loop */
void control_watch_hup(struct conn *conn, bool on);

extern const char *const control_access_names[CONTROL_ACCESS_MAX];

int access_peer(int fd, struct control_peer *ret_peer) _must_check_;
enum control_access access_of(const struct control *c, int fd, const struct control_peer *peer);
void access_deny(struct control_call *call, const char *name);

DEFINE_CLEANUP(struct control *, control_close);
#define _cleanup_control_ _cleanup_(control_close_p)

/* ---- conn.c -------------------------------------------------------------------------------- */

int conn_new_take(struct control *c, int fd, const struct control_peer *peer,
	enum control_access access, struct conn **ret_conn) _must_check_;
void conn_remove(struct conn *conn); /* a failed one: calls its call's on_gone(), and frees it */
void conn_fail(struct conn *conn, const char *why);
int conn_detach(struct conn *conn);       /* its descriptor; then it is like a failed one */
void conn_turn(struct conn *conn);        /* serves it */
void conn_start(struct conn *conn);       /* reads what was sent by now, and runs its first call */
void conn_end_waiting(struct conn *conn); /* its call can run now */
void conn_settle(struct conn *conn);      /* waits for the next event */
void conn_finish(struct conn *conn);
void conn_send(struct conn *conn, struct iovec *iov, size_t count);

/* The first frame: 1 with its text, without the NUL, borrowed until anything is added or dropped; 0
 * if its end has not come; -EMSGSIZE if it is too long. */
int frames_first(struct frames *f, const char **ret_text, size_t *ret_size) _must_check_;

/* Removes the first frame, which there must be. */
void frames_drop(struct frames *f, size_t size);

void frames_clear(struct frames *f);

/* Before a parser spends memory on it: whether the text nests no deeper than CONTROL_DEPTH_MAX and
 * has at most values_max values. It need not be JSON: the parser decides on that. */
bool frame_is_bounded(const char *text, size_t size, size_t values_max);

/* Whether this peer may have one connection more: 0, or the limit that it would exceed. */
unsigned quota_admit(
	struct control *c, const struct control_peer *peer, enum control_access access);

unsigned quota_count_all(const struct control *c);

/* The connection's buffers have changed. */
void quota_update(struct conn *conn);

/* Gives memory back to the kernel once it is not used any more. */
void quota_trim(struct control *c);

/* Whether calls of this class have time left in this turn of the loop. */
bool turn_has_time(struct control *c, enum control_access turn_class);

/* ---- call.c -------------------------------------------------------------------------------- */

/* Runs the call of this frame: 0, -EAGAIN if it can't run yet, -EBADMSG if it is not a call. */
int call_run(struct conn *conn, const char *frame, size_t size) _must_check_;

/* The row of that name; NULL: there is none. */
const struct control_method *control_find_method(
	const struct control_method *rows, size_t count, const char *name);

#endif
