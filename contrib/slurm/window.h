/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The terminal of "srun --pty". The task has one of its own, which the agent makes, stepd-stdio(7).
 * This one stands for the user's: the agent has one end as its streams, and what passes the other
 * end is srun's (srun_io.h). Its size is that of the user's window: first by the environment, then
 * by a connection to srun, which sends at each change
 *
 *	u16 columns, u16 rows, in network order
 *
 * and gets nothing. Where it can't be made, or has ended, the size stays.
 */
#ifndef SLURM_WINDOW_H
#define SLURM_WINDOW_H

#include <netinet/in.h>
#include <sys/ioctl.h>

#include "stepd/base/err.h"

struct ev_loop;
struct log;
struct slurm_launch;
struct window;

struct window_options {
	struct ev_loop *loop;
	const struct log *log;
	const struct slurm_launch *launch; /* borrowed */
	/* The terminal has another size. */
	void (*resized)(void *userdata);
	void *userdata;
};

/* Nothing is sent or called yet. */
int window_open(const struct window_options *options, struct window **ret_window,
	struct err *err) _must_check_;

/* This process's end, which does not block, and the agent's; borrowed. */
int window_get_master(const struct window *window);
int window_get_slave(const struct window *window);

/* The agent has its end. */
void window_close_slave(struct window *window);

/* Begins to connect to srun, if that has a port for it. */
void window_follow(struct window *window);

/* NULL is fine. Returns NULL. */
struct window *window_close(struct window *window);
DEFINE_CLEANUP(struct window *, window_close);

#endif
