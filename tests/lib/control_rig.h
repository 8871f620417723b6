/* SPDX-License-Identifier: BSD-3-Clause
 *
 * For tests of stepd/control/: a service with methods of the test's own at a socket in a scratch
 * directory, in this process, and clients that run its loop while they wait.
 */
#ifndef TESTS_LIB_CONTROL_RIG_H
#define TESTS_LIB_CONTROL_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/socket.h>
#include <sys/un.h>

#include "stepd/control/control_impl.h"
#include "tests/lib/scratch.h"

#define RIG_HELD_MAX 4096
#define RIG_TOIL_NS  2000000u

struct rig {
	struct ev_loop *loop;
	struct log log;
	char *dir;
	int dir_fd, fds;
	struct control_options options;
	struct control *control;
	struct sockaddr_un address;
	ev_timer guard;

	unsigned runs;    /* of methods */
	unsigned toils;   /* of Toil and Drudge, each of which takes RIG_TOIL_NS */
	char order[4096]; /* texts of Note, in the order of their runs */
	struct control_call *held[RIG_HELD_MAX];
	unsigned held_count, gone_count, drained_count;
	bool finished;
	int upgraded; /* what control_upgrade_take() has returned, and the descriptor */
	int channel;
};

/* Ready from the start; a test of what comes before opens its own. */
int rig_setup(void **state);
int rig_teardown(void **state);
void rig_open(struct rig *rig);

/* Lets the loop run once, or until nothing is left to do. */
void rig_once(struct rig *rig);
void rig_settle(struct rig *rig);

/* A connected socket that doesn't block. */
int rig_connect(struct rig *rig);

/* Sends all of it, frames ending with NUL; text is one frame. */
void rig_send_bytes(struct rig *rig, int fd, const void *data, size_t size);
void rig_send(struct rig *rig, int fd, const char *text);

/* Waits for the next frame; NULL if the connection ends. The caller frees it. */
char *rig_receive(struct rig *rig, int fd);

/* The next frame is this one; the connection ends now. */
void rig_expect(struct rig *rig, int fd, const char *text);
void rig_expect_end(struct rig *rig, int fd);

/* One call on a connection of its own. */
void rig_try(struct rig *rig, const char *call, const char *answer);

/* Runs fn in a child of that identity, which exits with what it returns, and the loop meanwhile. */
typedef int (*rig_child_fn)(struct rig *rig, int argument);
pid_t rig_fork(struct rig *rig, uid_t uid, gid_t gid, gid_t group, rig_child_fn fn, int argument);
int rig_wait(struct rig *rig, pid_t pid);

/* For such a child: a call and its answer, blocking; NULL if the connection ends. The second gives
 * -errno where it may not connect. */
int rig_child_connect(const struct rig *rig);
int rig_child_try(const struct rig *rig, enum listener_kind kind);
char *rig_child_call(int fd, const char *text);

#endif
