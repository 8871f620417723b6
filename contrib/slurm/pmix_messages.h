/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages between the step daemons of a step with Slurm's mpi/pmix, the same from 22.05 to 24.11.
 * Bytes only.
 *
 *	u32 magic, type, sequence number, sender's node in the job, size of the rest; u8 has a port
 *	the port, if it has one: a length (2), u16 in the sender's byte order
 *	body
 *
 * Through slurmd two numbers precede it: the user as whom it connects, and the size of all. Numbers
 * are big-endian; between daemons that connect to each other the site may choose the machine's own
 * order for the head (PMIxDirectSameArch).
 *
 * Bodies:
 *	fan in, out  a set; data: of a fence by a tree, up and down
 *	ring         a set; a length (32) and, in the machine's order, u32 unused, contributor,
 *		     sequence number, hops so far, sender, 4 bytes unused, u64 size of the
 *		     data; data
 *	modex        u8 1: a request, 2: its reply; bytes: a namespace; u32 rank; bytes: the
 *		     sender's namespace; u32 status; of a reply, bytes: data
 *	connect      a credential: who has made the connection
 *
 * A set is the kind of the fence (0: tree, 1: ring), a count, and for each of its ranks bytes: the
 * namespace with its NUL, and u32 rank. Bytes have a length before them. Contributor and sender of
 * a ring are numbers among the nodes of the set.
 */
#ifndef SLURM_PMIX_MESSAGES_H
#define SLURM_PMIX_MESSAGES_H

#include "contrib/slurm/pack.h"
#include "mpi/pmi/bytes.h"

#define SLURM_PMIX_HEAD_SIZE  21u
#define SLURM_PMIX_RELAY_SIZE 8u           /* the two numbers of slurmd's */
#define SLURM_PMIX_MAX        (128u << 20) /* of a message */
#define SLURM_PMIX_WILDCARD   0xfffffffeu  /* all ranks of a namespace */

enum slurm_pmix_type {
	SLURM_PMIX_FAN_IN = 1,
	SLURM_PMIX_FAN_OUT,
	SLURM_PMIX_MODEX,
	SLURM_PMIX_CONNECT,
	SLURM_PMIX_RING,
	SLURM_PMIX_TYPE_MAX,
};

enum slurm_pmix_kind {
	SLURM_PMIX_BY_TREE,
	SLURM_PMIX_BY_RING,
	SLURM_PMIX_KIND_MAX,
};

struct slurm_pmix_head {
	enum slurm_pmix_type type;
	uint32_t seq, node, size; /* size: of the port and the body */
	bool has_port;
};

void slurm_pmix_put_head(struct pack *p, const struct slurm_pmix_head *head, bool native);

/* Of the first SLURM_PMIX_HEAD_SIZE bytes. -EBADMSG: they are no head, or that of a larger message.
 */
int slurm_pmix_read_head(
	struct slice data, bool native, struct slurm_pmix_head *ret_head) _must_check_;

/* Behind a head that has it. */
#define SLURM_PMIX_PORT_SIZE 6u
void slurm_pmix_put_port(struct pack *p, uint16_t port);
bool slurm_pmix_take_port(struct slice *rest, uint16_t *ret_port) _must_check_;

/* ---- sets ---------------------------------------------------------------------------------- */

/* The count and the ranks, without the kind: two sets are the same if these bytes are. */
void slurm_pmix_begin_set(struct pack *set, uint32_t count);
void slurm_pmix_add_rank(struct pack *set, struct slice nspace, uint32_t rank);

/* What a body begins with. set: as above. */
void slurm_pmix_put_set(struct pack *body, enum slurm_pmix_kind kind, struct slice set);
bool slurm_pmix_take_set(
	struct slice *body, uint32_t *ret_kind, struct slice *ret_set) _must_check_;

/* The ranks of a set: the count first, then one after the other, without the NUL. */
bool slurm_pmix_take_count(struct slice *set, uint32_t *ret_count) _must_check_;
bool slurm_pmix_take_rank(
	struct slice *set, struct slice *ret_nspace, uint32_t *ret_rank) _must_check_;

/* ---- rings --------------------------------------------------------------------------------- */

struct slurm_pmix_ring {
	uint32_t contributor, seq, hops, sender;
	uint64_t size;
};

void slurm_pmix_put_ring(struct pack *body, const struct slurm_pmix_ring *ring);
bool slurm_pmix_take_ring(struct slice *body, struct slurm_pmix_ring *ret_ring) _must_check_;

/* ---- data of single ranks ------------------------------------------------------------------ */

struct slurm_pmix_modex {
	bool is_reply;
	struct slice nspace, sender; /* without their NULs */
	uint32_t rank;
	int32_t status;
	struct slice data; /* of a reply */
};

void slurm_pmix_put_modex(struct pack *body, const struct slurm_pmix_modex *modex);
bool slurm_pmix_read_modex(struct slice body, struct slurm_pmix_modex *ret_modex) _must_check_;

/* ---- connections --------------------------------------------------------------------------- */

/* A credential, or a token: of the plugin with that number, auth.h. */
void slurm_pmix_put_credential(struct pack *body, uint32_t plugin, const char *credential);
/* NULL: there is none. Borrowed from the body. */
const char *slurm_pmix_read_credential(struct slice body, uint32_t plugin);

#endif
