/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The streams' life with the server, and how long it waits for them at the end of the step.
 */
#include "mpi/pmix/iof.h"

/* For tools to take what is left, at the end of the step; then it ends without them. */
#define GRACE_SEC 1.

#define ROUNDS 64u

/* ---- the end of the step ---- */

static void leave(struct iof *iof)
{
	if (!iof->over)
		return;
	iof->over = false;
	ev_timer_stop(iof->px->loop, &iof->grace);
	serve_leave(iof->px->serve);
	serve_count(iof->px->serve, -1);
}

static void on_grace(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)loop;
	(void)revents;
	leave(w->data);
}

void iof_check(struct iof *iof)
{
	if (!iof->over || serve_has_output(iof->px->serve) || !iof_send_is_idle(iof) ||
		!iof_deliver_is_idle(iof) || !iof_push_is_idle(iof) || !iof_has_room(iof))
		return;
	leave(iof);
}

/* What libpmix has been given it sends from its thread, a message each time round. */
void iof_flush(struct px *px)
{
	for (unsigned i = 0; px->iof && px->iof->used && i < ROUNDS; i++)
		(void)PMIx_server_register_resources(NULL, 0, NULL, NULL); /* changes nothing */
}

/* An end of the copies is one of the streams only once the agent has nothing more to say. */
static void look_at_end(struct iof *iof)
{
	if (iof->no_agent && !serve_has_output(iof->px->serve))
		iof_send_ends(iof);
	iof_check(iof);
}

bool iof_over(struct px *px)
{
	struct iof *iof = px->iof;

	if (!iof)
		return false;
	iof->no_agent = true;
	if (!iof->pulls && !iof->subscribers && iof_push_is_idle(iof))
		return false;
	iof->over = true;
	serve_count(px->serve, 1);
	ev_now_update(px->loop);
	ev_timer_set(&iof->grace, GRACE_SEC, 0.);
	ev_timer_start(px->loop, &iof->grace);
	look_at_end(iof);
	return true;
}

void iof_output_over(struct px *px)
{
	if (px->iof)
		look_at_end(px->iof);
}

/* ---- life ---- */

int iof_open(struct px *px)
{
	struct iof *iof = calloc(1, sizeof(*iof));

	if (!iof)
		return -ENOMEM;
	px->iof = iof;
	iof->px = px;
	iof->last = &iof->first;
	ev_init(&iof->grace, on_grace);
	iof->grace.data = iof;
	iof_copy_open(iof);
	iof_deliver_open(iof);
	iof_push_open(iof);
	return iof_room_open(iof);
}

void iof_close(struct px *px)
{
	struct iof *iof = px->iof;

	if (!iof)
		return;
	ev_timer_stop(px->loop, &iof->grace);
	iof_copy_close(iof);
	iof_deliver_close(iof);
	iof_room_close(iof);
	iof_pulls_close(iof);
	free(iof);
	px->iof = NULL;
}
