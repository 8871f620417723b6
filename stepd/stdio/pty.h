/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pseudo-terminals for tasks, and the agent's own terminal while it serves one of them.
 *
 * They are made in the agent's mount namespace, by the master's descriptor alone (TIOCGPTPEER,
 * Linux 4.13): no path leads to another's slave. The slave is the user's, who can open it again
 * as /dev/tty or by its name. The master stays in the agent; it closes on exec.
 */
#ifndef STEPD_STDIO_PTY_H
#define STEPD_STDIO_PTY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "stepd/base/err.h"

struct handover;
struct identity;
struct json_t;

/* ---- the agent's own terminal -------------------------------------------------------------- */

/* What is typed there goes to a task's pseudo-terminal, which interprets it: meanwhile the agent's
 * is raw. Its settings are restored whenever the tasks don't read: when they have ended, when the
 * step is suspended, and at the agent's end, except by SIGKILL. */
struct terminal {
	int fd; /* the first of 0, 1 and 2 that is a terminal; -1: none */
	bool raw;
	bool by_clients;       /* attached clients alone type, at terminals of their own */
	struct termios before; /* while it is raw */
};

#define TERMINAL_INIT                                                                              \
	{                                                                                          \
		.fd = -1                                                                           \
	}

void terminal_find(struct terminal *t);

/* Whether standard input is a terminal, which can be raw. */
bool terminal_is_input(const struct terminal *t);

/* Makes it raw, once more if it was. False: the agent is in the background, and changes nothing. */
bool terminal_take(struct terminal *t);

/* Restores its settings, unless a shell has taken it meanwhile. */
void terminal_release(struct terminal *t);

/* False: there is none, or it has no size. */
bool terminal_get_size(const struct terminal *t, struct winsize *ret_size);

/* At a re-exec (handover.h). A trial's is not raw, as it must not restore anything. */
void terminal_save(const struct terminal *t, struct handover *h, struct json_t *object);
void terminal_restore(struct terminal *t, const struct handover *h, const struct json_t *object);

/* ---- pseudo-terminals ---------------------------------------------------------------------- */

/* Bytes that a pseudo-terminal may hold between its two ends, and more than Linux has it hold. */
#define PTY_HELD_MAX 65536

/* Both above 2 and O_CLOEXEC; the master does not block, and the slave belongs to id's user. like:
 * a terminal for a person, with the settings and the size of the agent's, or the kernel's, without
 * echo, where it has none. NULL: for output alone, which passes unchanged. Neither becomes
 * anybody's controlling terminal here. rank is for err. */
int pty_open(const struct identity *id, const struct terminal *like, uint32_t rank, int *ret_master,
	int *ret_slave, struct err *err) _must_check_;

/* The two ends alone, for a terminal between two programs of stepd: with the kernel's settings, and
 * this process's own. 0 or -errno. */
int pty_open_pair(int *ret_master, int *ret_slave) _must_check_;

#endif
