/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Watches a file of the kernel that signals its news by EPOLLPRI, as cgroup.events and
 * memory.events do: libev has no such event, but an epoll descriptor around the file is readable
 * then.
 */
#ifndef STEPD_LOOP_PRI_WATCH_H
#define STEPD_LOOP_PRI_WATCH_H

#include <ev.h>

#include "stepd/base/cleanup.h"

typedef void (*pri_watch_fn)(void *userdata);

struct pri_watch {
	struct ev_loop *loop;
	int fd; /* of the file; -1: nothing is watched */
	int epoll_fd;
	ev_io io;
	char text[512]; /* the file, as it was read last */
	pri_watch_fn news;
	void *userdata;
};

#define PRI_WATCH_INIT                                                                             \
	{                                                                                          \
		.fd = -1, .epoll_fd = -1                                                           \
	}

/* fd is the watch's from the call on, on failure too. The file is read; from then on no news is
 * lost. 0 or -errno. */
int pri_watch_start(struct pri_watch *w, struct ev_loop *loop, int fd, pri_watch_fn news,
	void *userdata) _must_check_;

/* Reads the file into text: 0 or -errno, with the text as it was. */
int pri_watch_read(struct pri_watch *w) _must_check_;

void pri_watch_stop(struct pri_watch *w);

#endif
