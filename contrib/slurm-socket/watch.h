/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which steps live on this node, as it changes: watches stepd's runtime directory by inotify(7). A
 * step lives from when its agent listens until the agent is gone, however it went: its lock file is
 * closed with it, and that is an event too.
 */
#ifndef SLURM_SOCKET_WATCH_H
#define SLURM_SOCKET_WATCH_H

#include <sys/types.h>

#include "stepd/base/err.h"

struct ev_loop;
struct watch;

/* Valid while the function that is called with it runs. */
struct watch_step {
	const char *step;      /* "7.0" */
	const char *node;      /* "n1" */
	const char *directory; /* absolute */
	uid_t owner;
};

struct watch_options {
	struct ev_loop *loop;
	const char *runtime_dir; /* NULL: as steps_find_dir() has it */

	/* A step lives. What it returns is handed to gone(). */
	void *(*lives)(const struct watch_step *step, void *userdata);
	/* It does no more. */
	void (*gone)(void *step_data, void *userdata);
	/* Nothing will be reported any more: the runtime directory has been removed, or can't be
	 * read.
	 */
	void (*lost)(const struct err *err, void *userdata);
	void *userdata;
};

/* Tells those that live at once, before it returns. */
int watch_open(const struct watch_options *options, struct watch **ret_watch,
	struct err *err) _must_check_;

/* gone() is called for all that live. NULL is fine. Returns NULL. */
struct watch *watch_close(struct watch *watch);

#endif
