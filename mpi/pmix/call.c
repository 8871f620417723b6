/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmix/call.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config.h"

/* ---- answers that libpmix's thread waits for ------------------------------------------------ */

#define WAIT_SEC 1

struct pending {
	sem_t answered;
	atomic_int users; /* both sides; the last one frees it */
	pmix_status_t status;
};

static void pending_release(struct pending *pending)
{
	if (atomic_fetch_sub(&pending->users, 1) > 1)
		return;
	(void)sem_destroy(&pending->answered);
	free(pending);
}

struct pending *pending_new(void)
{
	struct pending *pending = calloc(1, sizeof(*pending));

	if (!pending)
		return NULL;
	(void)sem_init(&pending->answered, 0, 0); /* can't fail */
	atomic_init(&pending->users, 2);
	return pending;
}

/* glibc has sem_clockwait() since 2.30. Without it, setting the clock changes the time. */
static int wait_for(sem_t *semaphore)
{
	struct timespec until;
	int r;

#ifdef HAVE_SEM_CLOCKWAIT
	(void)clock_gettime(CLOCK_MONOTONIC, &until); /* can't fail */
	until.tv_sec += WAIT_SEC;
	do
		r = sem_clockwait(semaphore, CLOCK_MONOTONIC, &until);
	while (r < 0 && errno == EINTR);
#else
	(void)clock_gettime(CLOCK_REALTIME, &until); /* likewise */
	until.tv_sec += WAIT_SEC;
	do
		r = sem_timedwait(semaphore, &until);
	while (r < 0 && errno == EINTR);
#endif
	return r;
}

pmix_status_t pending_wait(struct pending *pending, pmix_status_t otherwise)
{
	pmix_status_t status = otherwise;
	int r = wait_for(&pending->answered);

	if (r == 0)
		status = pending->status;
	pending_release(pending);
	return status;
}

void pending_answer(struct pending *pending, pmix_status_t status)
{
	pending->status = status;
	(void)sem_post(&pending->answered); /* can't fail */
	pending_release(pending);
}

/* ---- calls ---------------------------------------------------------------------------------- */

struct calls {
	pthread_mutex_t lock;
	struct call *first, **last; /* under the lock */

	struct ev_loop *loop;
	struct px *px;
	ev_async wake;
};

struct call *call_new(call_fn run, enum call_kind kind, void *cbdata)
{
	struct call *call = calloc(1, sizeof(*call));

	if (!call)
		return NULL;
	call->run = run;
	call->kind = kind;
	call->cbdata = cbdata;
	return call;
}

struct call *call_free(struct call *call)
{
	if (!call)
		return NULL;
	if (call->pending)
		pending_answer(call->pending, PMIX_ERR_NOMEM);
	free(call->procs);
	if (call->info)
		PMIX_INFO_FREE(call->info, call->ninfo);
	if (call->apps)
		PMIX_APP_FREE(call->apps, call->napps);
	if (call->queries)
		PMIX_QUERY_FREE(call->queries, call->nqueries);
	for (size_t i = 0; call->keys && call->keys[i]; i++)
		free(call->keys[i]);
	free(call->keys);
	free(call->text);
	free(call->data);
	if (call->results)
		PMIX_INFO_FREE(call->results, call->nresults);
	if (call->found)
		PMIX_PDATA_FREE(call->found, call->nfound);
	free(call);
	return NULL;
}

/* ---- to the loop ---- */

static void on_wake(_unused_ struct ev_loop *loop, ev_async *w, _unused_ int revents)
{
	struct calls *calls = w->data;
	struct call *call, *next;

	(void)pthread_mutex_lock(&calls->lock);
	call = take_ptr(calls->first);
	calls->last = &calls->first;
	(void)pthread_mutex_unlock(&calls->lock);
	for (; call; call = next) {
		next = call->next; /* run() gives the call away */
		call->next = NULL;
		call->run(calls->px, call);
	}
}

int calls_open(struct ev_loop *loop, struct px *px, struct calls **ret_calls)
{
	struct calls *calls = calloc(1, sizeof(*calls));

	if (!calls)
		return -ENOMEM;
	(void)pthread_mutex_init(&calls->lock, NULL); /* a plain one never fails */
	calls->last = &calls->first;
	calls->loop = loop;
	calls->px = px;
	ev_async_init(&calls->wake, on_wake);
	calls->wake.data = calls;
	ev_async_start(loop, &calls->wake);
	*ret_calls = calls;
	return 0;
}

/* libpmix has ended: no thread knows of it any more. */
struct calls *calls_close(struct calls *calls)
{
	struct call *next;

	if (!calls)
		return NULL;
	ev_async_stop(calls->loop, &calls->wake);
	for (struct call *call = calls->first; call; call = next) {
		next = call->next;
		(void)call_free(call);
	}
	(void)pthread_mutex_destroy(&calls->lock);
	free(calls);
	return NULL;
}

void call_submit(struct calls *calls, struct call *call)
{
	call->next = NULL;
	(void)pthread_mutex_lock(&calls->lock);
	*calls->last = call;
	calls->last = &call->next;
	(void)pthread_mutex_unlock(&calls->lock);
	ev_async_send(calls->loop, &calls->wake);
}

/* ---- to libpmix ---- */

static void call_release(void *cbdata)
{
	(void)call_free(cbdata);
}

/* On libpmix's thread. */
static void call_give(_unused_ pmix_status_t unused, void *cbdata)
{
	struct call *call = cbdata;

	switch (call->kind) {
	case CALL_INFO: /* these release what they were given by themselves */
		call->give.info(call->status, call->results, call->nresults, call->cbdata,
			call_release, call);
		return;
	case CALL_MODEX:
		call->give.modex(
			call->status, call->data, call->size, call->cbdata, call_release, call);
		return;
	case CALL_OP:
		call->give.op(call->status, call->cbdata);
		break;
	case CALL_LOOKUP:
		call->give.lookup(call->status, call->found, call->nfound, call->cbdata);
		break;
	case CALL_SPAWN:
		call->give.spawn(call->status, call->text, call->cbdata);
		break;
	case CALL_TOOL:
		call->give.tool(call->status, &call->proc, call->cbdata);
		break;
	case CALL_NOTE:
		break;
	}
	(void)call_free(call);
}

/* To register no resources is libpmix's one public way to have something run on its thread that
 * changes nothing; it fails only where there is no libpmix left to wait. */
static void call_give_on_thread(struct call *call)
{
	if (call->kind == CALL_NOTE || !call->give.op ||
		PMIx_server_register_resources(NULL, 0, call_give, call) != PMIX_SUCCESS)
		(void)call_free(call);
}

void call_answer(struct call *call, pmix_status_t status)
{
	call->status = status;
	if (call->pending)
		pending_answer(take_ptr(call->pending), status);
	call_give_on_thread(call);
}

void call_answer_modex(struct call *call, pmix_status_t status, char *data, size_t size)
{
	call->status = status;
	free(call->data);
	call->data = data;
	call->size = size;
	/* libpmix moves this one to its thread by itself. */
	call_give(PMIX_SUCCESS, call);
}

void call_answer_spawn(struct call *call, pmix_status_t status, const char *nspace)
{
	free(call->text);
	call->text = nspace ? strdup(nspace) : NULL;
	call_answer(call, nspace && !call->text ? PMIX_ERR_NOMEM : status);
}

/* ---- the arguments ---- */

pmix_status_t call_status_of(int r)
{
	static const struct {
		int r;
		pmix_status_t status;
	} table[] = {
		{0, PMIX_SUCCESS},
		{-ETIMEDOUT, PMIX_ERR_TIMEOUT},
		{-ENOMEM, PMIX_ERR_NOMEM},
		{-EINVAL, PMIX_ERR_BAD_PARAM},
		{-ENOENT, PMIX_ERR_NOT_FOUND},
		{-ESRCH, PMIX_ERR_NOT_FOUND},
		{-EPERM, PMIX_ERR_NO_PERMISSIONS},
		{-EACCES, PMIX_ERR_NO_PERMISSIONS},
		{-EOPNOTSUPP, PMIX_ERR_NOT_SUPPORTED},
		{-EHOSTUNREACH, PMIX_ERR_UNREACH},
		{-EHOSTDOWN, PMIX_ERR_PROC_TERM_WO_SYNC}, /* the tasks there have ended */
		{-ECONNRESET, PMIX_ERR_LOST_CONNECTION},
		{-EPIPE, PMIX_ERR_LOST_CONNECTION},
		{-ECANCELED, PMIX_ERR_PROC_TERM_WO_SYNC},
		{-EALREADY, PMIX_ERR_RESOURCE_BUSY},
		{-EBUSY, PMIX_ERR_RESOURCE_BUSY},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (table[i].r == r)
			return table[i].status;
	}
	return PMIX_ERROR;
}

const pmix_info_t *call_find(const struct call *call, const char *key)
{
	for (size_t i = 0; i < call->ninfo; i++) {
		if (PMIX_CHECK_KEY(&call->info[i], key))
			return &call->info[i];
	}
	return NULL;
}

bool call_is_true(const struct call *call, const char *key)
{
	const pmix_info_t *info = call_find(call, key);

	return info && PMIX_INFO_TRUE(info);
}

bool info_number(const pmix_info_t *info, int64_t *ret_value)
{
	const pmix_value_t *v = &info->value;

	switch (v->type) {
	case PMIX_INT:
		*ret_value = v->data.integer;
		break;
	case PMIX_UINT:
		*ret_value = v->data.uint;
		break;
	case PMIX_INT16:
		*ret_value = v->data.int16;
		break;
	case PMIX_UINT16:
		*ret_value = v->data.uint16;
		break;
	case PMIX_INT32:
		*ret_value = v->data.int32;
		break;
	case PMIX_UINT32:
		*ret_value = v->data.uint32;
		break;
	case PMIX_INT64:
		*ret_value = v->data.int64;
		break;
	case PMIX_UINT64:
		*ret_value = (int64_t)v->data.uint64;
		break;
	case PMIX_SIZE:
		*ret_value = (int64_t)v->data.size;
		break;
	default:
		return false;
	}
	return true;
}

/* In seconds there, 0 for ever. */
uint64_t call_timeout_ms(const struct call *call, uint64_t otherwise_ms)
{
	const pmix_info_t *info = call_find(call, PMIX_TIMEOUT);
	int64_t seconds;

	if (!info || !info_number(info, &seconds) || seconds < 0)
		return otherwise_ms;
	return (uint64_t)seconds * 1000;
}
