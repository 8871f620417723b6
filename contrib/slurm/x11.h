/* SPDX-License-Identifier: BSD-3-Clause
 *
 * X11 forwarding (srun --x11, salloc --x11): the extern step of a job listens at a display of its
 * node, localhost:20 to :99, and carries each connection to the X server of the user by way of the
 * srun or salloc that has the job. That one gets SRUN_NET_FORWARD (7010):
 *
 *	u32 job; from 25.11 on a whole step; u32 flags (0); u16 port; text: host
 *	port 0: the text is the path of the X server's own socket
 *
 * and answers with a result; what follows, both ways, is the program's conversation with the X
 * server. slurmd asks the step for the display and the file with its cookie, and has them in the
 * environment of the job's other steps.
 *
 * Only the job's user and root are served, by the kernel's word (stepd/base/peer.h). Each
 * connection has 16 KiB in either direction: who does not read is not written to.
 */
#ifndef SLURM_X11_H
#define SLURM_X11_H

#include <stddef.h>
#include <stdint.h>

#include "stepd/base/err.h"

struct ev_loop;
struct log;
struct slurm_auth;
struct slurm_init;
struct x11;

#define X11_DISPLAY_MIN     20u
#define X11_DISPLAY_MAX     99u
#define X11_CONNECTIONS_MAX 256u

struct x11_options {
	struct ev_loop *loop;
	const struct log *log;
	const struct slurm_auth *auth;
	const struct slurm_init *init;
	const uint32_t *groups; /* the user's */
	size_t groups_count;
	const char *home; /* the user's; NULL: not known */
};

/* Listens, and makes the file; programs are served by the loop. -EADDRINUSE: no display is free;
 * -EADDRNOTAVAIL: the host of srun has no IPv4 address. Waits for the name service, and xauth. */
int x11_open(const struct x11_options *options, struct x11 **ret_x11, struct err *err) _must_check_;

/* 20, and the path of the file. */
unsigned x11_get_display(const struct x11 *x11);
const char *x11_get_path(const struct x11 *x11);

/* Ends all connections, and removes the file. NULL is fine. Returns NULL. */
struct x11 *x11_close(struct x11 *x11);

#endif
