/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The tasks' streams on the node of a tool: what it requests, what the nodes of the ranks send for
 * it, which goes to libpmix as fast as the tools read, and what it sends to them. At the end of the
 * step the rest is waited for.
 */
#include <dirent.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "mpi/pmix/admit.h"
#include "mpi/pmix/iof.h"
#include "stepd/base/buffer.h"

/* ---- whether libpmix's clients read ---------------------------------------------------------
 *
 * libpmix stores for each of them what its socket does not take, without a bound, and reports
 * nothing of it to its host. So before it gets more the sockets are polled: those that it has
 * accepted. Nothing is done to them, and one that is closed meanwhile is found out. One that takes
 * nothing more holds all up that this server delivers.
 */

static void find_sockets(struct iof_sockets *sockets)
{
	_cleanup_closedir_ DIR *dir = opendir("/proc/self/fd");
	const struct dirent *d;

	sockets->count = 0;
	sockets->stale = false;
	while (dir && (d = readdir(dir))) {
		char *end;
		long fd = strtol(d->d_name, &end, 10);

		if (end == d->d_name || *end || !admit_has_accepted((int)fd))
			continue;
		if (array_reserve(sockets->fds, sockets->capacity, sockets->count + 1) < 0)
			return;
		sockets->fds[sockets->count++] = (struct pollfd){.fd = (int)fd, .events = POLLOUT};
	}
}

static void iof_sockets_changed(struct iof *iof)
{
	iof->sockets.stale = true;
}

static void sockets_watch(struct iof_sockets *sockets, int fd)
{
	struct epoll_event event = {.events = EPOLLOUT | EPOLLONESHOT, .data.fd = fd};

	/* A socket that is closed by now needs no watch. */
	if (epoll_ctl(sockets->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 && errno == EEXIST)
		(void)epoll_ctl(sockets->epoll_fd, EPOLL_CTL_MOD, fd, &event);
}

static void iof_deliver_next(struct iof *iof);

/* Whether all of libpmix's connections take more; if not, iof_deliver_next() is called once that
 * may have changed. */
static bool iof_can_deliver(struct iof *iof)
{
	struct iof_sockets *sockets = &iof->sockets;
	size_t full = 0;
	int r;

	if (sockets->stale)
		find_sockets(sockets);
	do
		r = poll(sockets->fds, sockets->count, 0);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return true;
	for (size_t i = 0; i < sockets->count; i++) {
		if (sockets->fds[i].revents & POLLNVAL)
			sockets->stale = true;
		else if (!sockets->fds[i].revents)
			full++;
	}
	for (size_t i = 0; full && i < sockets->count; i++) {
		if (!sockets->fds[i].revents)
			sockets_watch(sockets, sockets->fds[i].fd);
	}
	if (full)
		ev_io_start(iof->px->loop, &sockets->full);
	return full == 0;
}

static void on_sockets(struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct iof *iof = w->data;
	struct epoll_event events[16];

	/* Each of them is reported once; those that are still full are watched anew. */
	while (epoll_wait(w->fd, events, ARRAY_SIZE(events), 0) == ARRAY_SIZE(events))
		;
	ev_io_stop(loop, w);
	iof_deliver_next(iof);
}

/* ---- pulls ----------------------------------------------------------------------------------
 *
 * libpmix reports a tool's request for output, but not whose it is, and of one that ends not which
 * it was. So output is delivered until all requests have ended or all tools have gone; in between,
 * what perhaps no tool wants is delivered for DOUBTS_MAX bytes (libpmix 4.2 stores what it can't
 * deliver).
 */

#define DOUBTS_MAX ((uint64_t)16 << 20)

struct tool {
	struct tool *next;
	pmix_proc_t proc;
};

struct pull {
	struct pull *next;
	pmix_iof_channel_t channels;
	pmix_proc_t owner;          /* of a spawn: who gets it; else nobody */
	const struct call *request; /* of a tool, which is not answered yet; else NULL */
	size_t nprocs;
	pmix_proc_t procs[];
};

static void pack_stop(struct message *args)
{
	uint8_t none = 0;

	pack(args, &none, PMIX_UINT8);
	pack_procs(args, NULL, 0);
}

static void on_stopped(
	_unused_ struct px *px, _unused_ void *userdata, _unused_ const struct rpc_result *result)
{
}

/* Notifies all nodes, this one too, that nothing is wanted here any more. */
static void iof_pull_stop(struct iof *iof)
{
	struct message others = MESSAGE_INIT, own = MESSAGE_INIT;

	pack_stop(&others);
	rpc_notify(iof->px, RPC_STREAMS, &others);
	pack_stop(&own);
	rpc_call(iof->px, iof->px->node, RPC_STREAMS, &own, on_stopped, NULL, 0);
}

static struct pull *add_pull(
	struct iof *iof, const pmix_proc_t *procs, size_t count, pmix_iof_channel_t channels)
{
	struct pull *pull = calloc(1, sizeof(*pull) + count * sizeof(*procs));

	if (!pull)
		return NULL;
	memcpy(pull->procs, procs, count * sizeof(*procs));
	pull->nprocs = count;
	pull->channels = channels;
	pull->next = iof->pulls;
	iof->pulls = pull;
	iof->used++;
	return pull;
}

static bool has_owner(const struct pull *pull)
{
	return pull->owner.nspace[0] != '\0';
}

static bool covers(const struct pull *pull, const pmix_proc_t *proc, pmix_iof_channel_t channel)
{
	if (!(pull->channels & channel))
		return false;
	for (size_t i = 0; i < pull->nprocs; i++) {
		if (PMIX_CHECK_PROCID(&pull->procs[i], proc))
			return true;
	}
	return false;
}

/* Whether a tool on this node may want it; true only for a while where that can't be known. */
static bool iof_is_wanted(
	struct iof *iof, const pmix_proc_t *proc, pmix_iof_channel_t channel, size_t size)
{
	size_t n = 0;

	for (const struct pull *pull = iof->pulls; pull; pull = pull->next) {
		if (!covers(pull, proc, channel))
			continue;
		if (has_owner(pull))
			return true;
		n++;
	}
	if (n == 0 || n > iof->ended)
		return n > 0;
	iof->doubts += size;
	if (iof->doubts <= DOUBTS_MAX)
		return true;
	if (!iof->reported_doubts)
		serve_log(iof->px->serve, LOG_LEVEL_WARNING,
			"PMIx tools have ended some of their requests for output, and libpmix does "
			"not report which: output that may be unwanted is no longer delivered");
	iof->reported_doubts = true;
	return false;
}

static void remove_pull(struct pull **at)
{
	struct pull *pull = *at;

	*at = pull->next;
	free(pull);
}

/* ---- delivery -------------------------------------------------------------------------------
 *
 * Output that the nodes send for this one's tools goes to libpmix in the order of its arrival.
 */

/* libpmix sends a message each time round of its thread, and takes all that it is given then: one
 * at a time, or they would pile up there. */
#define IN_LIBPMIX_MAX 1u

struct delivery {
	struct delivery *next;
	struct px *px;
	struct rpc_request request;
	pmix_proc_t proc;
	pmix_iof_channel_t channel;
	pmix_byte_object_t bytes; /* owned */
	pmix_info_t info[2];
	size_t ninfo;
};

/* ---- to libpmix ---- */

static void delivery_answer(struct delivery *d, pmix_status_t status)
{
	rpc_reply(d->px, &d->request, status, NULL);
	for (size_t i = 0; i < d->ninfo; i++)
		PMIX_INFO_DESTRUCT(&d->info[i]);
	PMIX_BYTE_OBJECT_DESTRUCT(&d->bytes);
	free(d);
}

static void delivery_done(struct px *px, struct call *call)
{
	struct delivery *d = call->cbdata;
	bool open = px->iof;

	(void)call_free(call);
	if (!open)
		return;
	px->iof->in_libpmix--;
	delivery_answer(d, PMIX_SUCCESS);
	iof_deliver_next(px->iof);
}

/* On libpmix's thread. */
static void on_delivered(pmix_status_t status, void *cbdata)
{
	struct call *call = cbdata;
	struct delivery *d = call->cbdata;

	(void)status; /* a tool that does not get it any more does not miss it */
	call_submit(d->px->calls, call);
}

/* It is libpmix's until on_delivered(). */
static void delivery_give(struct delivery *d)
{
	struct call *call = call_new(delivery_done, CALL_NOTE, d);
	struct iof *iof = d->px->iof;

	if (!call) {
		delivery_answer(d, PMIX_ERR_OUT_OF_RESOURCE);
		return;
	}
	iof->in_libpmix++;
	if (PMIx_server_IOF_deliver(&d->proc, d->channel, &d->bytes, d->info, d->ninfo,
		    on_delivered, call) == PMIX_SUCCESS)
		return;
	iof->in_libpmix--;
	(void)call_free(call);
	delivery_answer(d, PMIX_ERR_OUT_OF_RESOURCE);
}

static struct delivery *delivery_take_first(struct iof *iof)
{
	struct delivery *d = iof->first;

	iof->first = d->next;
	if (!iof->first)
		iof->last = &iof->first;
	iof->waiting -= d->bytes.size;
	return d;
}

static void iof_deliver_next(struct iof *iof)
{
	while (iof->first && iof->in_libpmix < IN_LIBPMIX_MAX && iof_can_deliver(iof))
		delivery_give(delivery_take_first(iof));
	iof_check(iof);
}

static void iof_deliver_drop(struct iof *iof)
{
	while (iof->first)
		delivery_answer(delivery_take_first(iof), PMIX_SUCCESS);
}

/* ---- from the nodes ---- */

static bool unpack_delivery(struct px *px, struct delivery *d, struct message *args)
{
	uint32_t step_rank, rank = 0;
	struct nspace *nspace;
	uint8_t stream, end;
	uint64_t lost;
	bool yes = true;

	if (!unpack(args, &step_rank, PMIX_UINT32) || !unpack(args, &stream, PMIX_UINT8) ||
		!unpack(args, &end, PMIX_UINT8) || !unpack(args, &lost, PMIX_UINT64) ||
		!unpack(args, &d->bytes, PMIX_BYTE_OBJECT))
		return false;
	nspace = names_find_rank(&px->names, step_rank, &rank);
	/* Each node reports its own ranks. */
	if (!nspace || nspace->ranks[rank].node != d->request.from)
		return false;
	PMIX_LOAD_PROCID(&d->proc, nspace->name, rank);
	d->channel = stream == LINK_STDERR ? PMIX_FWD_STDERR_CHANNEL : PMIX_FWD_STDOUT_CHANNEL;
	if (end) {
		PMIX_INFO_LOAD(&d->info[d->ninfo], PMIX_IOF_COMPLETE, &yes, PMIX_BOOL);
		d->ninfo++;
	}
	if (lost) {
		PMIX_INFO_LOAD(&d->info[d->ninfo], IOF_LOST, &lost, PMIX_UINT64);
		d->ninfo++;
	}
	return true;
}

void serve_output(struct px *px, const struct rpc_request *request, struct message *args)
{
	struct delivery *d = calloc(1, sizeof(*d));
	struct iof *iof = px->iof;

	if (!d) {
		rpc_reply(px, request, PMIX_ERR_OUT_OF_RESOURCE, NULL);
		return;
	}
	d->px = px;
	d->request = *request;
	if (!unpack_delivery(px, d, args)) {
		delivery_answer(d, PMIX_ERR_BAD_PARAM);
		return;
	}
	if (!iof_is_wanted(iof, &d->proc, d->channel, d->bytes.size)) {
		delivery_answer(d, PMIX_SUCCESS);
		return;
	}
	if (iof->waiting + d->bytes.size > IOF_WAITING && d->bytes.size > 0) {
		delivery_answer(d, PMIX_ERR_OUT_OF_RESOURCE);
		return;
	}
	*iof->last = d;
	iof->last = &d->next;
	iof->waiting += d->bytes.size;
	iof_deliver_next(iof);
}

static bool iof_deliver_is_idle(const struct iof *iof)
{
	return !iof->first && iof->in_libpmix == 0;
}

/* ---- the end of pulls -------------------------------------------------------------------------
 */

/* Drops the pulls of the owner; NULL: those without one, once the last of them has ended. */
static void drop_pulls(struct iof *iof, const pmix_proc_t *owner)
{
	bool had = iof->pulls;

	for (struct pull **at = &iof->pulls; *at;) {
		if (owner ? has_owner(*at) && PMIX_CHECK_PROCID(&(*at)->owner, owner)
			  : !has_owner(*at))
			remove_pull(at);
		else
			at = &(*at)->next;
	}
	if (!owner) {
		iof->ended = 0;
		iof->doubts = 0;
		iof->reported_doubts = false;
	}
	if (!had || iof->pulls)
		return;
	iof_deliver_drop(iof);
	iof_pull_stop(iof);
}

/* One of them has ended, whichever. */
static void iof_pulls_end_one(struct iof *iof)
{
	size_t n = 0;

	for (const struct pull *pull = iof->pulls; pull; pull = pull->next)
		n += !has_owner(pull);
	if (n == 0)
		return;
	if (++iof->ended >= n)
		drop_pulls(iof, NULL);
}

/* ---- spawns whose output somebody gets ---- */

int iof_add_spawn(struct px *px, const char *nspace, const pmix_proc_t *owner, unsigned streams)
{
	struct pull *pull;
	pmix_proc_t all;

	PMIX_LOAD_PROCID(&all, nspace, PMIX_RANK_WILDCARD);
	pull = add_pull(px->iof, &all, 1,
		(pmix_iof_channel_t)((streams & LINK_STDOUT ? PMIX_FWD_STDOUT_CHANNEL : 0) |
			(streams & LINK_STDERR ? PMIX_FWD_STDERR_CHANNEL : 0)));
	if (!pull)
		return -ENOMEM;
	pull->owner = *owner;
	iof_sockets_changed(px->iof);
	return 0;
}

void iof_drop_spawn(struct px *px, const char *nspace)
{
	for (struct pull **at = &px->iof->pulls; *at;) {
		if (has_owner(*at) && PMIX_CHECK_NSPACE((*at)->procs[0].nspace, nspace))
			remove_pull(at);
		else
			at = &(*at)->next;
	}
}

/* ---- tools and ranks that come and go ---- */

void iof_tool_connected(struct px *px, const pmix_proc_t *proc)
{
	struct tool *tool = calloc(1, sizeof(*tool));

	if (!tool)
		return; /* its pulls are refused */
	tool->proc = *proc;
	tool->next = px->iof->tools;
	px->iof->tools = tool;
}

void iof_proc_gone(struct px *px, const pmix_proc_t *proc)
{
	struct tool **at = &px->iof->tools, *tool;

	drop_pulls(px->iof, proc);
	while (*at && !PMIX_CHECK_PROCID(&(*at)->proc, proc))
		at = &(*at)->next;
	tool = *at;
	if (!tool)
		return;
	*at = tool->next;
	free(tool);
	if (!px->iof->tools)
		drop_pulls(px->iof, NULL);
	iof_sockets_changed(px->iof);
	iof_deliver_next(px->iof);
}

/* ---- life ---- */

static void iof_pulls_close(struct iof *iof)
{
	struct tool *tool;

	while (iof->pulls)
		remove_pull(&iof->pulls);
	while ((tool = iof->tools)) {
		iof->tools = tool->next;
		free(tool);
	}
}

/* ---- the request of a tool ----
 *
 * All nodes that have some of the ranks are requested to send their output.
 */

static uint8_t streams_of(pmix_iof_channel_t channels)
{
	return (uint8_t)((channels & PMIX_FWD_STDOUT_CHANNEL ? LINK_STDOUT : 0) |
		(channels & PMIX_FWD_STDERR_CHANNEL ? LINK_STDERR : 0));
}

/* Some nodes may have nothing to copy. */
static void on_pulled(struct px *px, void *userdata, pmix_status_t status, uint32_t succeeded)
{
	struct pull **at = px->iof ? &px->iof->pulls : NULL;

	if (status == PMIX_ERR_NOT_SUPPORTED && succeeded > 0)
		status = PMIX_SUCCESS;
	while (at && *at && (*at)->request != userdata)
		at = &(*at)->next;
	if (at && *at && status == PMIX_SUCCESS) {
		(*at)->request = NULL;
	} else if (at && *at) { /* else the tools have gone meanwhile */
		remove_pull(at);
		if (!px->iof->pulls)
			iof_pull_stop(px->iof);
	}
	call_answer(userdata, status);
}

/* The pull is there before the first byte comes. */
static pmix_status_t begin_pull(struct px *px, struct call *call)
{
	pmix_iof_channel_t channels = (pmix_iof_channel_t)call->code;
	uint8_t streams = streams_of(channels);
	struct message args = MESSAGE_INIT;
	struct pull *pull;

	if (call->nprocs == 0 || !streams)
		return PMIX_ERR_BAD_PARAM;
	/* Whose it is libpmix does not report otherwise. */
	if (!px->iof->tools)
		return PMIX_ERR_NOT_SUPPORTED;
	pull = add_pull(px->iof, call->procs, call->nprocs, channels);
	if (!pull)
		return PMIX_ERR_NOMEM;
	pull->request = call;
	iof_sockets_changed(px->iof);
	pack(&args, &streams, PMIX_UINT8);
	pack_procs(&args, call->procs, call->nprocs);
	rpc_call_ranks(px, call->procs, call->nprocs, RPC_STREAMS, &args, on_pulled, call,
		px->host->timeout_ms);
	return PMIX_SUCCESS;
}

void px_pull(struct px *px, struct call *call)
{
	pmix_status_t status;

	if (call_find(call, PMIX_IOF_STOP)) {
		iof_pulls_end_one(px->iof);
		call_answer(call, PMIX_SUCCESS);
		return;
	}
	status = begin_pull(px, call);
	if (status != PMIX_SUCCESS)
		call_answer(call, status);
}

/* ---- input ---------------------------------------------------------------------------------- */

static void on_pushed(
	struct px *px, void *userdata, pmix_status_t status, _unused_ uint32_t succeeded)
{
	call_answer(userdata, status);
	if (px->iof) {
		px->iof->pushes--;
		iof_check(px->iof);
	}
}

void px_push(struct px *px, struct call *call)
{
	pmix_byte_object_t bytes = {.bytes = call->data, .size = call->size};
	uint8_t end = call->size == 0 || call_is_true(call, PMIX_IOF_COMPLETE);
	struct message args = MESSAGE_INIT;

	if (call->size > IOF_PUSH_MAX) {
		call_answer(call, PMIX_ERR_OUT_OF_RESOURCE);
		return;
	}
	px->iof->pushes++;
	px->iof->used++;
	pack(&args, &end, PMIX_UINT8);
	pack(&args, &bytes, PMIX_BYTE_OBJECT);
	pack_procs(&args, call->procs, call->nprocs);
	rpc_call_ranks(px, call->procs, call->nprocs, RPC_INPUT, &args, on_pushed, call, 0);
}

/* ---- the end of the step -------------------------------------------------------------------- */

/* For tools to take what is left, at the end of the step; then it ends without them. */
#define GRACE_SEC 1.

#define ROUNDS   64u
#define PAUSE_NS 20000

static void iof_leave(struct iof *iof)
{
	if (!iof->over)
		return;
	iof->over = false;
	ev_timer_stop(iof->px->loop, &iof->grace);
	serve_leave(iof->px->serve);
	serve_count(iof->px->serve, -1);
}

static void on_grace(_unused_ struct ev_loop *loop, ev_timer *w, _unused_ int revents)
{
	iof_leave(w->data);
}

void iof_check(struct iof *iof)
{
	if (!iof->over || serve_has_output(iof->px->serve) || !iof_send_is_idle(iof) ||
		!iof_deliver_is_idle(iof) || !iof_push_is_idle(iof) || !iof_can_deliver(iof))
		return;
	iof_leave(iof);
}

/* libpmix sends its output, and its answers, from its thread, a message each time round. That
 * thread does all that is asked of it before it looks at its sockets: one request right after the
 * other can keep it from them where both threads are on one processor. Hence the pauses. */
void iof_flush(struct px *px)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};

	for (unsigned i = 0; px->iof && px->iof->used && i < ROUNDS; i++) {
		(void)PMIx_server_register_resources(NULL, 0, NULL, NULL); /* changes nothing */
		(void)ppoll(NULL, 0, &pause, NULL);
	}
}

/* An end of the copies is one of the streams only once nothing more comes from the agent. */
static void iof_check_end(struct iof *iof)
{
	if (iof->no_agent && !serve_has_output(iof->px->serve))
		iof_send_ends(iof);
	iof_check(iof);
}

bool iof_over(void *userdata)
{
	struct px *px = userdata;
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
	iof_check_end(iof);
	return true;
}

void iof_output_over(void *userdata)
{
	struct px *px = userdata;
	if (px->iof)
		iof_check_end(px->iof);
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
	iof->sockets.stale = true;
	iof->sockets.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	ev_io_init(&iof->sockets.full, on_sockets, iof->sockets.epoll_fd, EV_READ);
	iof->sockets.full.data = iof;
	return iof->sockets.epoll_fd < 0 ? -errno : 0;
}

void iof_close(struct px *px)
{
	struct iof *iof = px->iof;

	if (!iof)
		return;
	ev_timer_stop(px->loop, &iof->grace);
	iof_copy_close(iof);
	iof_deliver_drop(iof); /* what libpmix has stays its own until the process ends */
	ev_io_stop(px->loop, &iof->sockets.full);
	(void)close_fd(iof->sockets.epoll_fd);
	free(iof->sockets.fds);
	iof_pulls_close(iof);
	free(iof);
	px->iof = NULL;
}
