/* SPDX-License-Identifier: BSD-3-Clause
 *
 * For unit tests of the client library: a process that listens in a step's directory and does to
 * clients what its script has. What fails in it ends it, which the test sees as a lost
 * connection.
 */
#ifndef TESTS_LIB_FAKE_AGENT_H
#define TESTS_LIB_FAKE_AGENT_H

#include <stddef.h>
#include <sys/types.h>

/* Speaks to one client after another, until it is killed. */
typedef void (*fake_script_fn)(int fd);

struct fake_agent {
	pid_t pid;
};

/* Makes DIR/n1_7.0 with a socket, and a process that listens there. uid: as whom, 0 for the test's
 * own. script NULL: it listens and accepts nobody. */
struct fake_agent fake_agent_start(const char *runtime, fake_script_fn script, uid_t uid);

/* Kills it; its files stay. */
void fake_agent_stop(struct fake_agent *agent);

/* ---- words for scripts --------------------------------------------------------------------- */

/* The next call's text; free() it. NULL: the client has gone. */
char *fake_hear(int fd);

/* The bytes; with fake_answer(), text and its NUL. */
void fake_send(int fd, const void *data, size_t size);
void fake_answer(int fd, const char *text);

/* Hears a call and answers the same whatever it is. */
void fake_exchange(int fd, const char *text);

/* Until the client closes. */
void fake_rest(int fd);

#endif
