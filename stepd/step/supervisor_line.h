/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The line to the program that supervises the step, steprun or a relay: a connected socket, whose
 * other end nobody else has. When it hangs up, the step is ended; the result is written to it.
 * Unlike PR_SET_PDEATHSIG it outlasts a change of the agent's identity, and an upgrade.
 */
#ifndef STEPD_STEP_SUPERVISOR_LINE_H
#define STEPD_STEP_SUPERVISOR_LINE_H

#include <ev.h>
#include <stdbool.h>

#include "stepd/base/cleanup.h"

typedef void (*supervisor_line_fn)(void *userdata);

struct supervisor_line {
	int fd; /* -1: nobody supervises the step */
	struct ev_loop *loop;
	ev_io io;
	supervisor_line_fn gone;
	void *userdata;
};

/* Calls gone once, when the other end hangs up. Nothing where there is no descriptor. */
void supervisor_line_watch(struct supervisor_line *line, struct ev_loop *loop,
	supervisor_line_fn gone, void *userdata);

/* Calls nobody until it is called with false. */
void supervisor_line_pause(struct supervisor_line *line, bool pause);

/* A supervisor that is gone is no error. 0 or -errno. */
int supervisor_line_write(const struct supervisor_line *line, const char *text) _must_check_;

void supervisor_line_close(struct supervisor_line *line);

#endif
