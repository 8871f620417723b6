/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The line to the program that keeps the step, steprun or a relay: a connected socket, whose other
 * end nobody else has. When it hangs up, the step is ended; the result is written to it. Unlike
 * PR_SET_PDEATHSIG it outlasts a change of the agent's identity, and an upgrade.
 */
#ifndef STEPD_STEP_KEEPER_LINE_H
#define STEPD_STEP_KEEPER_LINE_H

#include <ev.h>
#include <stdbool.h>

#include "stepd/base/cleanup.h"

typedef void (*keeper_line_fn)(void *userdata);

struct keeper_line {
	int fd; /* -1: nobody keeps the step */
	struct ev_loop *loop;
	ev_io io;
	keeper_line_fn gone;
	void *userdata;
};

/* Calls gone once, when the other end hangs up. Nothing where there is no descriptor. */
void keeper_line_watch(
	struct keeper_line *line, struct ev_loop *loop, keeper_line_fn gone, void *userdata);

/* Calls nobody until it is called with false. */
void keeper_line_pause(struct keeper_line *line, bool pause);

/* A keeper that is gone is no error. 0 or -errno. */
int keeper_line_write(const struct keeper_line *line, const char *text) _must_check_;

void keeper_line_close(struct keeper_line *line);

#endif
