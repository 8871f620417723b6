/* SPDX-License-Identifier: BSD-3-Clause
 *
 * SPANK plugins of a served step: has the agent load step_hooks_spank.so, tells that what the step
 * is, and takes the plugins' messages (spank_wire.h).
 */
#ifndef SLURM_SPANK_SERVE_H
#define SLURM_SPANK_SERVE_H

#include <stddef.h>
#include <stdint.h>

#include "stepd/base/err.h"

struct ev_loop;
struct json_t;
struct log;
struct slurm_init;
struct spank_serve;
struct strv;

struct spank_serve_options {
	struct ev_loop *loop;
	const struct log *log;
	const struct slurm_init *init; /* borrowed */
	uint32_t node_id;              /* the node's index in the step */
	const uint32_t *groups;
	uint32_t groups_count;
	const struct json_t *doc; /* the step's spec */
	const struct strv *args;  /* the agent's other arguments */
	/* A line for the user, without its end. */
	void (*show)(const char *line, void *userdata);
	void *userdata;
};

int spank_serve_new(const struct spank_serve_options *options, struct spank_serve **ret_spank,
	struct err *err) _must_check_;

/* What the agent is started with: its arguments, and a descriptor. */
const struct strv *spank_serve_args(const struct spank_serve *spank);
const int *spank_serve_fd(const struct spank_serve *spank);
/* It has been started: from now on messages are taken. */
void spank_serve_start(struct spank_serve *spank);

/* The agent has ended: takes the last messages. Returns why the step has not begun, an error of
 * Slurm; 0: the plugins are not the reason. NULL is allowed. */
int spank_serve_finish(struct spank_serve *spank);

struct spank_serve *spank_serve_free(struct spank_serve *spank);

#endif
