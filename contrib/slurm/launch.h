/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The launch message of an init (init.h): a step's tasks, or a batch script, with the credential
 * that slurmd has verified.
 */
#ifndef SLURM_LAUNCH_H
#define SLURM_LAUNCH_H

#include <netinet/in.h>

#include "contrib/slurm/gres.h"
#include "contrib/slurm/init.h"

enum slurm_step_kind {
	SLURM_KIND_SRUN,
	SLURM_KIND_BATCH,
	SLURM_KIND_EXTERN,
	SLURM_KIND_INTERACTIVE,
	SLURM_KIND_HET, /* an srun step of a heterogeneous job */
	SLURM_KIND_MAX,
};

/* "srun", for messages. */
const char *slurm_kind_name(enum slurm_step_kind kind);

#define SLURM_STEP_EXTERN      0xfffffffcu
#define SLURM_STEP_BATCH       0xfffffffbu
#define SLURM_STEP_INTERACTIVE 0xfffffffau

/* "4.0", "4.batch", "4.0+1" of a het job. */
#define SLURM_LABEL_SIZE 40
void slurm_step_label(const struct slurm_step_id *id, char label[static SLURM_LABEL_SIZE]);

/* "sGJ3Z4T1B5E2G0": how Slurm writes a job's number in the cluster, by digits without letters that
 * are taken for others. */
#define SLURM_SLUID_SIZE   15
#define SLURM_SLUID_DIGITS "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
void slurm_sluid_print(uint64_t sluid, char text[static SLURM_SLUID_SIZE]);

enum slurm_launch_flags {
	SLURM_FLAG_DEBUG = 1u << 0,
	SLURM_FLAG_MULTI_PROG = 1u << 1,
	SLURM_FLAG_PTY = 1u << 2,
	SLURM_FLAG_BUFFERED = 1u << 3,
	SLURM_FLAG_LABEL = 1u << 4,
	SLURM_FLAG_EXT_LAUNCHER = 1u << 5, /* its task starts others by itself */
	SLURM_FLAG_OVERCOMMIT = 1u << 7,
	SLURM_FLAG_SHARES_DEVICES = 1u << 9, /* 24.11 */
	SLURM_FLAG_WAIT_FOR_CHILDREN = 1u << 10,
};

enum slurm_open_mode {
	SLURM_OPEN_DEFAULT, /* as the site has it */
	SLURM_OPEN_APPEND,
	SLURM_OPEN_TRUNCATE,
};

/* Of a batch script alone. */
struct slurm_batch_job {
	const char *script;
	const char *partition, *account, *qos, *reservation;
	const char *node_aliases;
	uint64_t
		memory_mb; /* of a node, or with SLURM_MEMORY_PER_CPU of a processor; 0: no limit */
	uint8_t overcommit;
	uint32_t array_job, array_task; /* array_task is SLURM_NO_VAL: it is none of an array */
	uint16_t cpus_per_task;
	uint16_t restart_count;
	const char *tres_per_task; /* from 25.05 on */
	struct slurm_array node_cpus,
		node_cpus_reps; /* u16, and how many nodes have so many: u32 */
};

/* The job's and the step's cores, those of all nodes of the job one after the other. */
struct slurm_cores {
	struct slurm_bits job, step;
	/* u16, and how many nodes have so many: u32 */
	struct slurm_array per_socket, sockets, reps;
	uint32_t nhosts;
	const char *hosts; /* of the job */
};

#define SLURM_MEMORY_PER_CPU (UINT64_C(1) << 63)

/* A step of srun over several components, of a heterogeneous job, or of one step's own ("srun A :
 * B"): each component has a launch message as if it were a step, with what it is of the whole.
 * Numbers are SLURM_NO_VAL where srun has none. */
struct slurm_het {
	uint32_t job;    /* of the first component; 0 and SLURM_NO_VAL: it is none of such a job */
	uint32_t offset; /* the component's number */
	uint32_t node_offset, task_offset; /* of its first ones in the whole */
	uint32_t nnodes, ntasks;           /* of the whole */
	/* The ranks in the whole, of each of its nodes, and these nodes: slurm_het_ranks(). */
	struct slurm_array node_tasks;
	const char *nodes;
};

/* As they are packed. */
struct slurm_options {
	uint32_t n;
	const uint8_t *bytes;
	size_t size;
};

/* Of the extern step that forwards X11: x11.h. */
struct slurm_launch_x11 {
	uint16_t flags;   /* 0: it does not */
	const char *host; /* of the srun or salloc that has the job */
	uint16_t port;
	const char *cookie; /* of the X server, hexadecimal */
	/* The X server as that one reaches it: a host and a TCP port, or with port 0 a socket's
	 * path.
	 */
	const char *target;
	uint16_t target_port;
};

struct slurm_launch {
	enum slurm_step_kind kind;
	struct slurm_step_id id;
	uint32_t uid, gid; /* the credential's */
	const char *user;
	const char *gecos, *home, *shell; /* and the names of cred_gids, or none */
	struct slurm_strs group_names;
	uint32_t claimed_uid,
		claimed_gid; /* what the message has beside it; SLURM_NO_VAL: nothing */
	struct slurm_array gids, cred_gids; /* of the message, and of the credential */
	uint16_t cred_release;
	struct slurm_array cred_body, cred_signature; /* a token is both */
	/* auth/slurm: whom the token is for, and the memory of what is borrowed from its body. */
	bool has_token;
	uint32_t token_uid, token_gid;
	void *token_body;
	size_t token_body_size;
	struct slurm_array cred_partition; /* slurm_launch_partition() */
	const char *cred_node_aliases;     /* of nodes in a cloud; NULL: none */
	uint16_t restart_count;
	struct slurm_cores cores; /* the credential's */
	struct gres_records job_gres, step_gres;
	uint32_t ntasks, nnodes;
	struct slurm_strs argv, env;
	const char *cwd;
	const char *nodes;
	struct slurm_batch_job batch;
	uint64_t cred_memory_mb;       /* of the first node; 0: no limit */
	uint64_t start_time, end_time; /* of the job, from 23.02 on; 0: unknown */
	const char *licenses;          /* the job's; NULL: none */
	uint8_t oom_kill_step;         /* from 24.11 on */
	/* Of tasks alone. */
	struct slurm_array node_tasks; /* all nodes': slurm_launch_ranks() */
	struct sockaddr_in srun;       /* with no port; family 0: nobody */
	struct slurm_array resp_ports, io_ports;
	uint16_t cpus_per_task, node_cpus;
	uint16_t cpu_bind_type, mem_bind_type; /* flags of bind.h */
	const char *cpu_bind, *mem_bind;       /* lists */
	uint16_t accel_bind_type;
	uint64_t job_memory_mb, step_memory_mb;
	const char *sample_interval; /* of the accounting: "30", "task=30,energy=60" */
	uint32_t flags;              /* enum slurm_launch_flags */
	const char *files[3]; /* patterns of standard input, output and error; NULL: srun's, or a
				 script's default */
	uint8_t open_mode;    /* enum slurm_open_mode */
	const char *task_prolog, *task_epilog;
	const char *tres_bind, *tres_freq;
	uint32_t cpu_freq_min, cpu_freq_max, cpu_freq_gov;
	struct slurm_options options; /* of SPANK */
	uint16_t debug;               /* --slurmd-debug */
	struct slurm_strs spank_env;
	/* What not every agent can do. */
	const char *container; /* an OCI bundle */
	const char *step_manager;
	const char *tls_cert;
	uint32_t profile; /* bits, of which the first is "none" */
	struct slurm_launch_x11 x11;
	struct slurm_het het;
	bool has_job; /* the job's own records follow, which are not read */
	/* Of the plugin for switches, in releases whose messages depend on it; 0: none. */
	uint32_t switch_plugin;
};

/* 0 or -EBADMSG; what was read before the failure is valid, until slurm_launch_clear(). conf is
 * that of the init. */
int slurm_launch_decode(const void *data, const struct slurm_frame *frame,
	const struct slurm_node_conf *conf, struct slurm_launch *launch,
	struct err *err) _must_check_;

void slurm_launch_clear(struct slurm_launch *launch);

/* The node's index in the step. -ENOENT: it has no part in it; -EINVAL: the message has no list. */
int slurm_launch_find_node(
	const struct slurm_launch *launch, const char *name, uint32_t *ret_node) _must_check_;

/* The name of the node with that index, for the caller to free; NULL: there is none, or no memory.
 */
char *slurm_launch_node_name(const struct slurm_launch *launch, uint32_t node);

/* The node's index in the job, likewise. */
int slurm_launch_find_job_node(
	const struct slurm_launch *launch, const char *name, uint32_t *ret_node) _must_check_;

/* Where the cores of the job's node of that index are among the bits of a mask of cores, of which
 * there are so many. False: it is not there. */
bool slurm_cores_find(const struct slurm_cores *cores, uint32_t node, uint32_t bits,
	uint64_t *ret_first, uint64_t *ret_count);

/* The next option, "NAME:PLUGIN" with its argument, which may be NULL; false: that was the last. */
bool slurm_options_next(struct slurm_options *rest, const char **ret_name, const char **ret_arg);

/* The partition of the job, as its credential has it, which the user can't choose; NULL: it has
 * none. */
const char *slurm_launch_partition(const struct slurm_launch *launch);

/* srun's port for a node, of which it has one for so many; there is at least one. */
uint16_t slurm_launch_port(const struct slurm_array *ports, uint32_t node);

/* The ranks of the next node's tasks of those of all nodes, node_tasks; false: that was the last.
 */
bool slurm_ranks_next(struct slurm_array *rest, struct slurm_array *ret_ranks);

/* The ranks of the tasks of the node with that index: false if the message has no such node. */
bool slurm_launch_ranks(
	const struct slurm_launch *launch, uint32_t node, struct slurm_array *ret_ranks);

/* ---- the whole, of which the launch may be a component; else it is the whole -------------- */

/* What the component's ranks and nodes are counted from. */
uint32_t slurm_whole_first_rank(const struct slurm_launch *launch);
uint32_t slurm_whole_first_node(const struct slurm_launch *launch);

uint32_t slurm_whole_nnodes(const struct slurm_launch *launch);
uint32_t slurm_whole_ntasks(const struct slurm_launch *launch);

/* The job as its tasks know it: that of the first component. */
uint32_t slurm_whole_job(const struct slurm_launch *launch);

/* The index of a node among those of the whole, whose order is not that of the components. -ENOENT:
 * it is not there; -EEXIST: there are two of them; -EINVAL: the message has no list. */
int slurm_whole_find_node(
	const struct slurm_launch *launch, const char *name, uint32_t *ret_node) _must_check_;

/* As slurm_ranks_next(), from that list on, for all nodes of the whole in one pass. */
struct slurm_array slurm_whole_node_tasks(const struct slurm_launch *launch);
bool slurm_whole_ranks_next(
	const struct slurm_launch *launch, struct slurm_array *rest, struct slurm_array *ret_ranks);

/* As slurm_launch_ranks(), by that index. */
bool slurm_whole_ranks(
	const struct slurm_launch *launch, uint32_t node, struct slurm_array *ret_ranks);

#endif
