/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The PMIx server of a node of a step, as its parts share it; they run in the service's loop, all
 * but module.c (call.h has the reason). One file a group of upcalls: each handles a struct call and
 * answers it, then or later.
 */
#ifndef MPI_PMIX_PX_H
#define MPI_PMIX_PX_H

#include <pmix.h>
#include <pmix_server.h>

#include "mpi/pmix/call.h"
#include "mpi/pmix/names.h"
#include "mpi/serve/serve.h"

struct collective;
struct managed;
struct old_listener;
struct publishing;
struct rank_set;
struct tmpdir;
struct rpc_wait;
struct trace;
struct modex_wait;
struct hwloc_topology;
struct iof;

struct px {
	struct serve *serve;
	struct ev_loop *loop;
	struct wire *wire;
	const stepd_step_rec_t *job;
	const struct stepd_mpi_host *host;
	uint32_t node;
	uint32_t nnodes;
	bool had_client; /* a client has called PMIx_Init */

	struct calls *calls;
	struct names names;
	struct tmpdir *tmpdir;
	struct old_listener *old_listener; /* for clients that are too old; may be NULL */
	struct hwloc_topology *topology;   /* NULL: not found */
	ev_timer starts;                   /* until ranks must have called PMIx_Init (ranks.c) */
	struct trace *trace;               /* which ranks wait, which commit; may be NULL */
	ev_timer deadline;                 /* of ranks that wait (ranks.c) */
	struct rpc_wait *requests;         /* requests to other nodes (rpc.c) */
	uint64_t last_request;             /* the number of the last one */
	bool *has_left;                    /* by node: it serves no requests any more */
	struct collective *collectives;    /* those under way (fence.c) */
	struct modex_wait *modex;          /* requests of other nodes that wait here (modex.c) */
	struct publishing *publishing;     /* the published data, on node 0 (publish.c) */
	struct rank_set *groups;           /* constructed and not destructed (group.c) */
	struct rank_set *psets;            /* process sets (group.c) */
	uint64_t contexts;                 /* how many context ids this node has given */
	uint32_t tools;                    /* how many tools have got a name */
	struct iof *iof;                   /* the tasks' streams, for tools (iof.h) */
	struct managed *managed;           /* NULL: no other process manager (managed.c) */
	bool up;                           /* libpmix runs */
};

/* Several nodes have answered a request (rpc_call_nodes()). */
typedef void (*rpc_all_done_fn)(
	struct px *px, void *userdata, pmix_status_t status, uint32_t succeeded);

/* ---- how far ranks are, and how long they wait for each other (ranks.c) ---- */

void ranks_open(struct px *px);
void ranks_close(struct px *px);
/* A rank of this node has called PMIx_Init: the others have a deadline from then on. */
void ranks_connected(struct px *px, struct nspace *nspace);
/* Queries the other nodes for what only they know of their ranks; done comes once, perhaps before
 * this returns. A node that does not answer in time leaves its ranks unknown. */
void ranks_query(struct px *px, struct call *call, rpc_all_done_fn done);

/* ---- registration (register.c) ---- */

int px_register(struct px *px, struct nspace *nspace, struct err *err) _must_check_;
void px_deregister(const struct nspace *nspace);

/* The environment of a local rank, NULL-terminated, each from malloc(). */
int px_setup_fork(struct px *px, const struct nspace *nspace, uint32_t rank, char ***ret_env,
	struct err *err) _must_check_;

/* ---- clients of other versions ---- */

/* A listener for those that libpmix has none for (compat.c); not having one is no failure. */
void old_listener_open(struct px *px);
void old_listener_close(struct px *px);
/* Adds the variables that they read to a NULL-terminated vector. 0 or -ENOMEM. */
int old_listener_environ(struct px *px, char ***env) _must_check_;

/* Whether the ranks of call->procs can form groups; the log has why they can't. */
bool compat_has_groups(struct px *px, const struct call *call);

/* ---- collectives (fence.c) ---- */

enum collective_kind {
	COLLECTIVE_FENCE,
	COLLECTIVE_CONNECT,
	COLLECTIVE_DISCONNECT,
	COLLECTIVE_GROUP_CONSTRUCT,
	COLLECTIVE_GROUP_DESTRUCT,
};

/* All nodes have come, and data holds what they brought, one behind the other, in the order of
 * the nodes; it is taken. context: a number that is the step's only such, the same on all of them.
 */
typedef void (*collective_fn)(struct px *px, struct call *call, pmix_status_t status,
	uint64_t context, char *data, size_t size);

/* Among the ranks of call->procs; text (may be NULL) distinguishes those of a kind. Takes
 * call and gives it back by done, on failure too. data is copied. */
void collective_begin(struct px *px, enum collective_kind kind, struct call *call, const char *text,
	const void *data, size_t size, collective_fn done);
/* The namespace of which all ranks are in the fence of this id; NULL: it is another collective. */
const struct nspace *collective_whole(const struct px *px, uint64_t set_id);
/* Whether a rank is in one that this node has begun. */
bool collective_has(struct px *px, const struct nspace *nspace, uint32_t rank);
/* A rank can't come any more: what waits for it ends. */
void collective_rank_absent(struct px *px, const struct nspace *nspace, uint32_t rank);
void collective_close(struct px *px);

/* ---- the process manager that has the other nodes (managed.c) ---- */

/* path: where it listens. */
int managed_open(struct px *px, const char *path, struct err *err) _must_check_;
void managed_close(struct px *px); /* those that wait are answered: PMIX_ERR_LOST_CONNECTION */

/* As collective_begin(). PMIX_ERR_NOT_SUPPORTED: it is no fence, and of several nodes. */
void managed_begin(struct px *px, enum collective_kind kind, struct call *call, const void *data,
	size_t size, collective_fn done);
/* As px_direct_modex(). */
void managed_modex(struct px *px, struct call *call);
/* The reply to a request of another node, by its number. */
void managed_reply(struct px *px, uint64_t id, pmix_status_t status, const char *data, size_t size);
/* The step is to end on all nodes. False: the manager is gone. */
bool managed_abort(struct px *px, int code, const char *text);

/* ---- named sets of ranks (group.c) ----
 *
 * A group is known to the nodes whose ranks are in it, from its construction to its destruction. A
 * process set is what MPI sessions and tools request by name: it is made where a spawn requests it
 * (PMIX_PSET_NAME), of the ranks of a command line or of all, and every node of the step knows it
 * as long as the step lasts.
 */

struct rank_set {
	struct rank_set *next;
	char *name;
	size_t nprocs;
	pmix_proc_t procs[];
};

/* NULL: there is none of that name. */
const struct rank_set *set_find(const struct rank_set *sets, const char *name);
/* Makes the process sets that a spawn which has succeeded requests. */
void psets_of_spawn(struct px *px, const struct call *call, const char *nspace);
void groups_close(struct px *px);
/* What came with PMIX_GROUP_CONSTRUCT_COMPLETE, of a group by invitation. */
void group_complete(struct px *px, const pmix_info_t *info, size_t ninfo);

/* ---- events of the service: serve_events, userdata is the px ---- */

void px_task_started(void *userdata, uint32_t step_rank, pid_t pid);
void px_task_ended(void *userdata, uint32_t step_rank, int wait_status, bool end_step);
/* "rank 3 (PMIx_Init not called: rank 3)": those of this node that are missing in a collective of
 * several nodes. */
void deadline_missing(void *userdata, uint64_t set_id, char *text, size_t size);
void rpc_message(void *userdata, uint32_t from, uint16_t channel, const struct wire_block *block);
void rpc_node_lost(void *userdata, uint32_t node, const struct err *err);
void iof_output(void *userdata, const struct serve_output *output);
void iof_output_over(void *userdata);
bool iof_over(void *userdata);

/* ---- the upcalls ---- */

void px_connected(struct px *px, struct call *call);
void px_finalized(struct px *px, struct call *call);
void px_abort(struct px *px, struct call *call);
void px_fence(struct px *px, struct call *call);
void px_direct_modex(struct px *px, struct call *call);
void px_publish(struct px *px, struct call *call);
void px_lookup(struct px *px, struct call *call);
void px_unpublish(struct px *px, struct call *call);
void px_spawn(struct px *px, struct call *call);
void px_connect(struct px *px, struct call *call);
void px_disconnect(struct px *px, struct call *call);
void px_notify(struct px *px, struct call *call);
void px_query(struct px *px, struct call *call);
void px_tool(struct px *px, struct call *call);
void px_log(struct px *px, struct call *call);
void px_control(struct px *px, struct call *call);
void px_group(struct px *px, struct call *call);
void px_group_left(struct px *px, struct call *call); /* call->text: a group of this node alone */
void px_pull(struct px *px, struct call *call);
void px_push(struct px *px, struct call *call);
void px_own_event(struct px *px, struct call *call); /* libpmix's own */

/* ---- the tasks' streams, for tools (iof.h) ---- */

int iof_open(struct px *px) _must_check_;
void iof_close(struct px *px);

void iof_tool_connected(struct px *px, const pmix_proc_t *proc);
/* A tool has gone, or a rank, which may have requested the output of what it has spawned. */
void iof_proc_gone(struct px *px, const pmix_proc_t *proc);

/* Of the spawn of this name, on this node or another, owner gets these streams (enum link_stream).
 */
int iof_add_spawn(
	struct px *px, const char *nspace, const pmix_proc_t *owner, unsigned streams) _must_check_;
void iof_drop_spawn(struct px *px, const char *nspace); /* it has failed */
/* On every node: its ranks here are copied from their first byte on, for that node. */
int iof_subscribe_spawn(
	struct px *px, uint32_t node, const struct nspace *nspace, unsigned streams) _must_check_;

/* Before libpmix is closed: what it has been given is on its way. */
void iof_flush(struct px *px);

/* The table that libpmix gets, and the handler of its own events. Upcalls carry nothing of their
 * host's, so the queue they go to is a variable here; NULL drops what still comes. */
pmix_server_module_t *module_open(struct calls *calls);
void module_close(void);
void module_on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
	size_t ninfo, pmix_info_t results[], size_t nresults,
	pmix_event_notification_cbfunc_fn_t cbfunc, void *cbdata);

/* ---- requests of other nodes (rpc.h) ---- */

/* Nobody here commits any more. */
void modex_leave(struct px *px);
void modex_rank_gone(struct px *px, const struct nspace *nspace, uint32_t rank);
void modex_close(struct px *px);
/* A node that has another server wants the data of a rank of this one: managed_reply(). */
void modex_serve_managed(struct px *px, const pmix_proc_t *proc, uint64_t id);
void publish_open(struct px *px);
void publish_rank_gone(struct px *px, const struct nspace *nspace, uint32_t rank);
void publish_close(struct px *px);
void spawn_open(struct px *px);

#endif
