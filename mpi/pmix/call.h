/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One call of libpmix's to its host, and the answer to it.
 *
 * The only threads of stepd are libpmix's own, and only here do they meet the
 * service's loop. libpmix calls its host on a progress thread and expects it to return at once: the
 * upcall (module.c) copies its arguments into a struct call and puts it into a queue under a lock
 * (call_submit()); an ev_async wakes the loop, and run() works there, alone. The answer goes
 * the other way: call_answer_...() fills in the results and has libpmix's callback called on a
 * progress thread, because some of these callbacks touch what belongs to that thread. A call is
 * answered once, and belongs to nobody here after that.
 */
#ifndef MPI_PMIX_CALL_H
#define MPI_PMIX_CALL_H

#include <ev.h>
#include <pmix.h>
#include <pmix_server.h>
#include <stdbool.h>

#include "stepd/base/cleanup.h"
#include "stepd/base/err.h"

struct calls;
struct pending;
struct px;
struct call;

typedef void (*call_fn)(struct px *px, struct call *call);

/* Which of libpmix's callbacks the answer goes to. */
enum call_kind {
	CALL_NOTE, /* nobody waits */
	CALL_OP,
	CALL_MODEX,
	CALL_LOOKUP,
	CALL_SPAWN,
	CALL_INFO,
	CALL_TOOL,
};

/* That callback. */
union call_give {
	pmix_op_cbfunc_t op;
	pmix_modex_cbfunc_t modex;
	pmix_lookup_cbfunc_t lookup;
	pmix_spawn_cbfunc_t spawn;
	pmix_info_cbfunc_t info;
	pmix_tool_connection_cbfunc_t tool;
};

struct call {
	struct call *next;
	call_fn run; /* in the loop */

	/* The arguments, copies of all; which of them are used is up to the upcall. */
	pmix_proc_t proc; /* the caller, or the subject */
	pmix_proc_t *procs;
	size_t nprocs;
	pmix_info_t *info;
	size_t ninfo;
	pmix_app_t *apps;
	size_t napps;
	pmix_query_t *queries;
	size_t nqueries;
	char **keys; /* NULL-terminated */
	char *text;
	char *data; /* of size bytes */
	size_t size;
	uint64_t number; /* of a request (modex.c) */
	int code;        /* a status, an operation, a range */
	uint8_t range;

	/* The answer. */
	enum call_kind kind;
	union call_give give;
	void *cbdata;
	struct pending *pending; /* it gets the answer instead of that; NULL: nobody waits */
	pmix_status_t status;
	pmix_info_t *results;
	size_t nresults;
	pmix_pdata_t *found;
	size_t nfound;
};

/* ---- an answer that libpmix's thread waits for ----
 *
 * It serves nobody meanwhile: for the one upcall where libpmix (up to 4.2) can't be answered later,
 * as it frees what the answer needs. The wait is short and has an end: the loop may itself be
 * waiting for that thread. */

/* NULL: no memory. */
struct pending *pending_new(void);
/* Once, on libpmix's thread; gives it up. otherwise: where there is no answer in time. */
pmix_status_t pending_wait(struct pending *pending, pmix_status_t otherwise);
/* Once, in the loop; gives it up. */
void pending_answer(struct pending *pending, pmix_status_t status);

/* ---- calls ---- */

/* NULL: no memory. The kind and its function are the caller's to fill in. */
struct call *call_new(call_fn run, enum call_kind kind, void *cbdata);
struct call *call_free(struct call *call); /* one that is not answered; NULL is fine */

/* ---- from libpmix's threads to the loop ---- */

int calls_open(struct ev_loop *loop, struct px *px, struct calls **ret_calls) _must_check_;
struct calls *calls_close(struct calls *calls);

/* On any thread; takes the call. */
void call_submit(struct calls *calls, struct call *call);

/* ---- from the loop to libpmix ---- */

/* With what was put into it before (results, found), which stays where it is until libpmix is
 * done with it. */
void call_answer(struct call *call, pmix_status_t status);

/* The last ones: data becomes the call's, from malloc(). */
void call_answer_modex(struct call *call, pmix_status_t status, char *data, size_t size);
void call_answer_spawn(struct call *call, pmix_status_t status, const char *nspace);

/* The PMIx status for an errno, and whether an operation that libpmix took up has begun. */
pmix_status_t call_status_of(int r);

/* The value of a directive; *ret_x is left alone where it is not there or of no use. */
const pmix_info_t *call_find(const struct call *call, const char *key);
bool call_is_true(const struct call *call, const char *key);
uint64_t call_timeout_ms(const struct call *call, uint64_t otherwise_ms);
bool info_number(const pmix_info_t *info, int64_t *ret_value);

#endif
