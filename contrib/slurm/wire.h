/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The protocol of Slurm's step sockets, 22.05 to 26.11, as bytes: requests are parsed and
 * answers are formatted here; nothing is read or written.
 *
 * Numbers have the machine's byte order, without frames: a request is its number and the data that
 * belong to it. A connection begins with the client's protocol version,
 * which is Slurm's release: 38 << 8 is 22.05, 46 << 8 is 26.11. The formats depend on it:
 *	before 23.11  suspend and resume are followed by a u16; state 3 is "ending"
 *	from 23.11    they are not; state 3 is "cancelled", 4 "ending"; a reconfiguration has the
 *	              controllers' addresses, which are passed over
 *	from 24.05    a completion has a step's number and a flag in front of the accounting
 *	from 25.05    who attaches may send a certificate of TLS before the rest
 *	before 26.05  the memory limits are two u64, from then on one
 */
#ifndef SLURM_SOCKET_WIRE_H
#define SLURM_SOCKET_WIRE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stepd/base/buffer.h"
#include "stepd/base/cleanup.h"

#define WIRE_22_05 (38 << 8)
#define WIRE_23_11 (40 << 8)
#define WIRE_24_05 (41 << 8)
#define WIRE_25_05 (43 << 8)
#define WIRE_25_11 (44 << 8)
#define WIRE_26_05 (45 << 8)
#define WIRE_26_11 (46 << 8)

/* Of a signal's reason, a text for people; slurmctld sends a line. */
#define WIRE_DETAILS_MAX 4096
/* Of a completion's record of accounting, 116 bytes for each kind of resource that a site counts.
 */
#define WIRE_ACCOUNTING_MAX 8192
/* Of the controllers that a reconfiguration names. */
#define WIRE_CONTROLLERS_MAX 4096
/* Of what an sattach is known by: a credential's signature, 1.2 KB in 22.05. */
#define WIRE_KEY_MAX 2048
/* Of a certificate of TLS, 1.5 KB of one that srun makes. */
#define WIRE_CERTIFICATE_MAX 4096
/* The longest request, and so the size of a connection's buffer. */
#define WIRE_REQUEST_MAX (6 * sizeof(uint32_t) + 1 + WIRE_ACCOUNTING_MAX)

enum wire_kind {
	WIRE_SLUID = 1, /* the job's number in the cluster; from 25.11 on */
	WIRE_SIGNAL = 4,
	WIRE_STATE = 5,
	WIRE_ATTACH = 7,
	WIRE_PID_IN_CONTAINER = 8,
	WIRE_DAEMON_PID = 9,
	WIRE_SUSPEND = 10,
	WIRE_RESUME = 11,
	WIRE_TERMINATE = 12,
	WIRE_TASK_INFO = 14,
	WIRE_LIST_PIDS = 15,
	WIRE_RECONFIGURE = 16, /* of slurmd alone; nothing follows before 23.11 */
	WIRE_USAGE = 17,
	WIRE_COMPLETION = 18, /* of slurmd alone: nodes below this one in the step's tree */
	WIRE_MEM_LIMITS = 19,
	WIRE_UID = 20,
	WIRE_NODEID = 21,
	WIRE_ADD_PID = 22, /* to an extern step: of pam_slurm_adopt, as the next two */
	WIRE_X11_DISPLAY = 23,
	WIRE_USER = 24, /* of nss_slurm, as the next one */
	WIRE_GROUPS = 25,
	WIRE_NAMESPACE = 26,
	WIRE_NAMESPACES = 28, /* all of them; from 25.11 on */
	WIRE_MEM_UPDATE = 30, /* of slurmd alone, a job's new limit; from 26.05 on */
	WIRE_NOTIFY = 32,     /* on the wire WIRE_NUMBER_NOTIFY */
	WIRE_KIND_MAX,
};

/* Far from the others, which are indices. */
#define WIRE_NUMBER_NOTIFY 4022

/* For messages: "list_pids"; NULL for a request that is not supported. */
const char *wire_kind_name(int kind);

/* An sattach, for which slurmd asks. */
struct wire_attach {
	struct sockaddr_in io, response; /* family 0: not an address of IPv4 */
	uint32_t uid;
	uint16_t version; /* of its messages */
	bool encrypted;   /* it has sent a certificate */
	uint32_t key_size;
	uint8_t key[WIRE_KEY_MAX];
};

/* What a user or a group has to match; others match nothing. */
enum wire_match {
	WIRE_MATCH_NAME, /* the name or the number, and the client is one of the step's processes */
	WIRE_MATCH_ALWAYS, /* nothing */
	WIRE_MATCH_MEMBER, /* the latter alone */
};

#define WIRE_NAME_MAX 256

struct wire_lookup {
	int32_t match; /* enum wire_match */
	uint32_t id;
	char name[WIRE_NAME_MAX + 1]; /* "": only the number */
};

struct wire_request {
	enum wire_kind kind;
	int32_t signal; /* of WIRE_SIGNAL, as are flags */
	uint32_t flags;
	int32_t pid;                 /* of WIRE_PID_IN_CONTAINER and WIRE_ADD_PID; the client's */
	struct wire_lookup lookup;   /* of WIRE_USER and WIRE_GROUPS */
	uint64_t memory_mb;          /* of WIRE_MEM_UPDATE */
	int32_t first, last, status; /* of WIRE_COMPLETION */
	const void *record;          /* of its accounting, borrowed from what was parsed */
	size_t record_size;
	struct wire_attach attach;
	char text[WIRE_DETAILS_MAX + 1]; /* of WIRE_NOTIFY */
};

/* Parses the beginning of a connection: returns its number of bytes, with the version that both
 * sides use from now on in *ret_version; 0: it is incomplete; -EPROTONOSUPPORT: an older version,
 * or not a client of this protocol. For a client newer than 26.11 the version is 26.11, as an older
 * slurmstepd answers: clients support the versions before theirs. */
int wire_parse_hello(const void *data, size_t size, uint16_t *ret_version) _must_check_;

/* Parses the next request: returns its number of bytes; 0: it is incomplete; -EOPNOTSUPP: an
 * unknown request, whose length is unknown, too; -EMSGSIZE: a length is out of bounds. */
int wire_parse_request(const void *data, size_t size, uint16_t version,
	struct wire_request *ret_request) _must_check_;

/* A growing answer. If memory is short, failed is set, and nothing more is added. */
struct wire_answer {
	struct buffer bytes;
	bool failed;
	bool has_fd; /* behind the bytes, with one byte more, a descriptor (SCM_RIGHTS), borrowed */
	int fd;
};

#define _cleanup_wire_answer_ _cleanup_(wire_answer_clear)
void wire_answer_clear(struct wire_answer *a);

void wire_put_u8(struct wire_answer *a, uint8_t n);
void wire_put_i32(struct wire_answer *a, int32_t n);
void wire_put_u32(struct wire_answer *a, uint32_t n);
void wire_put_u64(struct wire_answer *a, uint64_t n);
void wire_put_bytes(struct wire_answer *a, const void *data, size_t size);

/* i32 length with the NUL, and the bytes. */
void wire_put_text(struct wire_answer *a, const char *text);

/* The result of an action: 0, or -1 and an errno of this machine or of Slurm. */
void wire_put_result(struct wire_answer *a, int error);

/* A list that comes in pieces: begins with its length, 0, which each entry increments. */
void wire_begin_list(struct wire_answer *a);
void wire_count_entry(struct wire_answer *a);

struct wire_task {
	int32_t local_id;
	uint32_t rank;
	int32_t pid;
	bool exited;
	int32_t wait_status;
};

/* 17 bytes: no padding. */
void wire_put_task(struct wire_answer *a, const struct wire_task *task);

/* Megabytes; 0 is "no limit". */
void wire_put_mem_limits(
	struct wire_answer *a, uint16_t version, uint64_t job_mb, uint64_t step_mb);

/* The states of a step for Slurm. The numbers differ between versions. */
enum wire_state {
	WIRE_NOT_RUNNING,
	WIRE_STARTING,
	WIRE_RUNNING,
	WIRE_CANCELLED, /* its end was requested; before 23.11 this is WIRE_ENDING */
	WIRE_ENDING,    /* its tasks have ended */
};

void wire_put_state(struct wire_answer *a, uint16_t version, enum wire_state state);

#endif
