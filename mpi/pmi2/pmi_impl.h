/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The inside of the PMI server.
 */
#ifndef MPI_PMI2_PMI_IMPL_H
#define MPI_PMI2_PMI_IMPL_H

#include <sys/queue.h>

#include "mpi/pmi/codec.h"
#include "mpi/pmi2/kvs.h"
#include "mpi/pmi2/pmi.h"
#include "stepd/base/bitset.h"

#define PMI1_LINE_MAX  65536u       /* what a client may send in a line */
#define PMI1_BLOCK_MAX (1u << 20)   /* and in "mcmd" blocks that belong together */
#define PMI1_READ_MAX  1024u        /* what clients can read in a line */
#define PMI_OUT_MAX    (256u << 10) /* with more output, a conversation stands still */
#define PMI_ID_SIZE    64u          /* of thread ids, tags, names of answers */

/* PMI-2's; PMI-1 has success and failure. */
enum pmi_code {
	PMI_OK = 0,
	PMI_FAIL = -1,
	PMI_INIT = 1,
	PMI_NOMEM = 2,
	PMI_ARG = 3,
	PMI_KEY = 4,
	PMI_KEYLEN = 5,
	PMI_VAL = 6,
	PMI_VALLEN = 7,
	PMI_ARGS = 10,
	PMI_OTHER = 14,
};

/* A further return value of a command's function, beside 0 (answered, or its request is parked) and
 * -EBADMSG (the conversation is ended). */
#define PMI_AGAIN 1 /* it can't begin now: once pmi_resume() is called */

/* ---- time ---------------------------------------------------------------------------------- */

struct deadline {
	TAILQ_ENTRY(deadline) link;
	uint64_t at_ms;
	bool set;
	void (*expired)(struct deadline *d);
};

void deadline_start(struct pmi *pmi, struct deadline *d, void (*expired)(struct deadline *d));
void deadline_stop(struct pmi *pmi, struct deadline *d);

/* ---- tasks and spaces ---------------------------------------------------------------------- */

/* A command that waits for its answer. */
struct request {
	struct pmi_task *task;
	uint32_t epoch; /* of the conversation: another one is not answered */
	enum pmi_protocol protocol;
	bool parked;
	bool holds; /* the conversation stands until it is answered */
	char answer[PMI_ID_SIZE];
	char thrid[PMI_ID_SIZE]; /* of PMI-2, to be echoed */
};

struct pmi_task {
	struct pmi *pmi;
	struct pmi_space *space;
	uint32_t rank, local, appnum;
	uint32_t secret; /* by which a connection is known as its own; 0: none */
	enum pmi_protocol protocol;
	uint32_t epoch;
	uint32_t held;         /* requests that hold it */
	bool stalled;          /* a command waits to begin: PMI_AGAIN */
	bool ended;            /* by us */
	bool gone;             /* by the task */
	bool finalized;        /* and has not begun again */
	bool died;             /* it went, or was ended, without having finalized */
	bool has_aborted;      /* it has aborted itself and no others */
	bool ready;            /* in pmi->ready */
	char how[PMI_ID_SIZE]; /* it went */
	TAILQ_ENTRY(pmi_task) ready_link;
	struct bytes in, out;
	struct bytes block; /* lines of "mcmd" blocks so far */
	bool in_block;
	uint32_t block_spawns;     /* of them: complete ones */
	struct endpoint *endpoint; /* pmi2.c; NULL: there is none */
};

TAILQ_HEAD(gather_list, gather);
TAILQ_HEAD(node_wait_list, node_wait);

struct pmi_space {
	TAILQ_ENTRY(pmi_space) link;
	struct pmi *pmi;
	uint32_t number, first_rank, size;
	int64_t parent;
	char name[PMI_NAME_MAX];
	uint32_t *nodes; /* of each rank; NULL: unknown */
	struct bitset node_set;
	struct bitset remote_deaths; /* ranks of other nodes that have died; no words: none */
	uint32_t remote_first;       /* the first of them, and how */
	char remote_how[200];
	uint32_t deaths_reported; /* of this node's */
	struct pmi_task *tasks;   /* by local index, ranks ascending */
	uint32_t local_count;
	struct kvs kvs;
	struct kvs node_attrs;
	struct gather_list gathers;
	struct node_wait_list node_waits;
	char *mapping; /* PMI_process_mapping; NULL: unknown */
};

TAILQ_HEAD(pmi_space_list, pmi_space);
TAILQ_HEAD(pmi_task_list, pmi_task);
TAILQ_HEAD(deadline_list, deadline);
TAILQ_HEAD(remote_list, remote);
TAILQ_HEAD(name_list, name);

struct pmi {
	struct pmi_config config;
	struct pmi_ops ops;
	void *userdata;
	char *label, *node_name; /* the config's */
	struct pmi_space_list spaces;
	struct pmi_task_list ready; /* with input to go on with, or output */
	bool running;
	bool had_client; /* some task has begun to */
	struct deadline_list deadlines;
	struct remote_list remotes; /* questions to other nodes */
	uint32_t last_remote;
	struct name_list names; /* of services, on node 0 */
	uint32_t names_count;
	struct gather *managed; /* which waits for the process manager; NULL: none */
	struct bytes scratch;
	struct pmi_message message;
};

struct pmi_space *pmi_find_space(struct pmi *pmi, uint32_t number);
struct pmi_space *pmi_find_space_by_name(struct pmi *pmi, struct slice name);
struct pmi_task *space_find_rank(const struct pmi_space *space, uint32_t rank);
uint32_t space_node_of(const struct pmi_space *space, uint32_t rank);

/* Lets a task's conversation go on, at the end of what is being done now. */
void pmi_make_ready(struct pmi_task *task);
void pmi_resume(struct pmi_space *space);
/* After whatever came from outside: does what has become possible. */
void pmi_run(struct pmi *pmi);
/* Ends the conversation of this task alone, with a line in the log. */
void pmi_end(struct pmi_task *task, const char *fmt, ...) _printf_(2, 3);
/* "rank 3" or "ranks 0, 4-7 of spawn 1" */
void space_name_ranks(
	const struct pmi_space *space, const struct bitset *ranks, char *text, size_t size);

/* ---- conversations ------------------------------------------------------------------------- */

void conn_run(struct pmi_task *task);
void conn_restart(struct pmi_task *task, enum pmi_protocol protocol);
int pmi1_run_line(struct pmi_task *task, struct slice line);
int pmi2_run_body(struct pmi_task *task, char *body, size_t size);

/* ---- answers ------------------------------------------------------------------------------- */

/* An answer in the request's protocol, straight into the task's output. */
struct answer {
	struct request *request;
	bool is_sent; /* the conversation that has requested it goes on */
	struct pmi_writer writer;
};

void answer_open(struct answer *a, struct request *request);
void answer_add(struct answer *a, const char *key, struct slice value);
void answer_text(struct answer *a, const char *key, const char *value);
void answer_int(struct answer *a, const char *key, int64_t value);
void answer_close(struct answer *a);
void answer_ok(struct request *request); /* nothing but success */
void answer_fail(struct request *request, enum pmi_code code, const char *fmt, ...) _printf_(3, 4);
/* Within an answer: the code and why, in which what a message can't have is replaced. */
void answer_error(struct answer *a, enum pmi_code code, char *text);
/* success and the value, or that there is none */
void answer_value(struct request *request, const struct slice *value);

/* Stores a request until its answer. */
void request_park(struct request *stored, const struct request *request);

/* ---- commands of both protocols ------------------------------------------------------------ */

int fence_run(struct request *request, const struct slice *group);
int ring_run(struct request *request, const struct pmi_message *m);
int attr_get_job(struct request *request, const struct pmi_message *m);
int attr_put_node(struct request *request, const struct pmi_message *m);
int attr_get_node(struct request *request, const struct pmi_message *m);
void attr_drop_waits(struct pmi_space *space);
/* The key of a message that must have one; if not, it is answered. */
bool get_key(struct request *request, const struct pmi_message *m, struct slice *ret_key);
/* A key and a value of a put: whether they are within what is allowed; if not, it is answered. */
bool put_is_allowed(struct request *request, struct slice key, struct slice value);

/* PMI_process_mapping: where ranks are, as a list of blocks "(vector,(FIRST,COUNT,EACH),...)": of
 * COUNT nodes from node FIRST on, each has the next EACH ranks. Clients begin the list again where
 * it ends before the ranks do; it is written so only where the whole is longer than they can read.
 * nodes: of each of size ranks; NULL: all on node 0. The caller's to free. 0 or -ENOMEM. */
int mapping_format(const uint32_t *nodes, uint32_t size, char **ret_text) _must_check_;

/* ---- requests to one node (names.c) -------------------------------------------------------- */

/* Names of services: commands of both protocols. */
int name_publish(struct request *request, const struct pmi_message *m);
int name_unpublish(struct request *request, const struct pmi_message *m);
int name_lookup(struct request *request, const struct pmi_message *m);

/* The value of a key in a space that has no task here. */
int remote_get(struct request *request, struct pmi_space *space, struct slice key);
void remote_drop(struct pmi *pmi);
/* The body of an answer, and that none comes any more. */
void remote_take_answer(struct pmi *pmi, struct slice data);
void remote_fail_all(struct pmi *pmi, const char *why);

/* ---- the process manager (managed.c) ------------------------------------------------------- */

/* Both are false if it can't be reached. */
bool managed_query(struct pmi *pmi, uint32_t id, enum manager_query query, struct slice name,
	struct slice value) _must_check_;
bool managed_abort(struct pmi *pmi, int status, const char *text) _must_check_;

/* ---- spawn (spawn.c) ----------------------------------------------------------------------- */

int spawn1_run_line(struct pmi_task *task, struct slice line);
int spawn2_run(struct request *request, const struct pmi_message *m);

#endif
