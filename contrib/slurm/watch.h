/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The live steps of this node: watches stepd's runtime directory by inotify(7). A step lives from
 * when its agent listens until the agent is gone, in whatever way: its lock file is closed with it,
 * which is an event, too.
 */
#ifndef SLURM_SOCKET_WATCH_H
#define SLURM_SOCKET_WATCH_H

#include <sys/types.h>

#include "stepd/base/err.h"

struct ev_loop;
struct watch;

/* Valid during the callback. */
struct watch_step {
	const char *step;      /* "7.0" */
	const char *node;      /* "n1" */
	const char *directory; /* absolute */
	uid_t owner;
};

struct watch_options {
	struct ev_loop *loop;
	const char *runtime_dir; /* NULL: by steps_find_dir() */

	/* A step lives. The result is passed to gone(). */
	void *(*lives)(const struct watch_step *step, void *userdata);
	/* It does not live any more. */
	void (*gone)(void *step_data, void *userdata);
	/* Nothing more will be reported: the runtime directory has been removed, or can't be read.
	 */
	void (*lost)(const struct err *err, void *userdata);
	void *userdata;
};

/* Reports the live steps before it returns. */
int watch_open(const struct watch_options *options, struct watch **ret_watch,
	struct err *err) _must_check_;

/* gone() is called for all that live. NULL is fine. Returns NULL. */
struct watch *watch_close(struct watch *watch);

#endif
