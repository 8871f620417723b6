/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What slurmd writes to the step daemon that it starts, up to and with the launch message, 22.05 to
 * 26.11. The stream is a sequence of items in the machine's byte order, most of them a length and
 * so many bytes, which are packed data (unpack.h): the node's configuration, whose first number is
 * slurmd's release, the node's place in the tree of the step's nodes, addresses, and the message.
 * cgroup.conf and the node's GRES stand before and behind it in 22.05, and behind it from 23.02 on,
 * where they are not read if there is a plugin for namespaces other than Slurm's tmpfs, whose data
 * may have no length. The MPI plugin's configuration and the like are not read.
 *
 * Lengths are not trusted. Nothing is copied: texts are those of the stream's bytes.
 */
#ifndef SLURM_INIT_H
#define SLURM_INIT_H

#include <netinet/in.h>

#include "contrib/slurm/unpack.h"
#include "stepd/base/err.h"

/* A batch script alone may have 4 MiB, and the environment as much. */
#define SLURM_INIT_MAX (64u << 20)

struct slurm_span {
	size_t at, size;
};

enum slurm_launch_type {
	SLURM_LAUNCH_BATCH = 0,
	SLURM_LAUNCH_TASKS = 1,
};

/* Where the items are. */
struct slurm_frame {
	uint16_t release;
	int32_t type; /* enum slurm_launch_type */
	int32_t rank, parent_rank, children, depth, max_depth;
	struct sockaddr_in parent; /* of its slurmd; family 0: it has no such address, or a name */
	/* Of its own slurmd, up to 23.02; later it is found if slurm_needs_own_address(). Family 0:
	 * likewise. */
	struct sockaddr_in self;
	struct slurm_span parent_name; /* from 23.11 on, in place of that; without a NUL */
	uint16_t client_release;       /* of srun, which may be another one */
	uint16_t frequencies; /* processors whose frequency can be set; 0: none of this node */
	struct slurm_span conf, launch;
	/* cgroup.conf, and the node's GRES: size 0 where they are not read. */
	struct slurm_span cgroup, gres;
	struct slurm_span name_space; /* of job_container.conf, from 23.02 on: job_namespace.h */
	struct slurm_span gres_conf;  /* of slurm_init_missing_gres_conf() */
	bool has_gres_conf;
	size_t end; /* of what is read here */
};

/* How many bytes are missing, at least, until the launch message is complete: 0 with *ret_frame
 * filled; -EPROTONOSUPPORT: an unknown release, ret_frame->release (and nothing more is known of
 * the stream); -EBADMSG: no such stream; -EMSGSIZE: it is longer than SLURM_INIT_MAX. */
ssize_t slurm_init_missing(
	const void *data, size_t size, struct slurm_frame *ret_frame) _must_check_;

/* The same for what follows where slurm_init_has_gres_conf(), of a frame that is complete so far.
 */
ssize_t slurm_init_missing_gres_conf(
	const void *data, size_t size, struct slurm_frame *frame) _must_check_;

/* ---- the node's configuration -------------------------------------------------------------- */

/* A resource that can be accounted for, TRES: 1, "cpu", NULL; 1001, "gres", "gpu". */
struct slurm_tres {
	uint64_t seconds, count; /* of slurmctld's own */
	uint32_t id;
	const char *name, *type;
};

/* They are one behind the other as they are packed. */
struct slurm_tres_list {
	uint32_t n;
	const uint8_t *bytes;
	size_t size;
};

/* The next of the list: false at its end. */
bool slurm_tres_next(struct slurm_tres_list *rest, struct slurm_tres *ret_tres);

/* PrologFlags, as far as they matter here. */
enum slurm_prolog_flags {
	SLURM_PROLOG_RUN_IN_JOB = 1u << 7,
};

struct slurm_node_conf {
	const char *hostname, *spool_dir, *node_name;
	const char *topology_addr, *topology_pattern;
	const char *log_file; /* NULL: none */
	uint32_t debug_level, syslog_level;
	bool daemon;                 /* slurmd runs in the background */
	struct slurm_tres_list tres; /* which slurmctld accounts for, in the order of its arrays */
	/* The node's cores, "abstract" ones: block by block; and the machine's CPU of each CPU of
	 * those, u16. */
	uint16_t sockets, cores, threads;
	struct slurm_array block_map;
	uint64_t memory_mb;
	/* From slurm.conf, which slurmd sends from 23.02 on; NULL before. */
	const char *cred_type, *namespace_plugin, *switch_type, *tls_type;
	uint16_t prolog_flags; /* enum slurm_prolog_flags; 0 before 24.05 */
	uint16_t tree_width;   /* TreeWidth, or its default, which changes; 0 before 23.02 */
	uint16_t srun_port_min, srun_port_max; /* SrunPortRange; 0: any, or before 24.05 */
};

/* If cgroup.conf names no other. */
#define SLURM_CGROUP_MOUNT "/sys/fs/cgroup"
#define SLURM_CGROUP_SLICE "system.slice"

/* cgroup.conf, with the defaults for what it has not. */
struct slurm_cgroup_conf {
	bool constrains_cores, constrains_memory, constrains_swap, constrains_devices;
	double allowed_memory, max_memory, allowed_swap, max_swap; /* percent */
	uint64_t min_memory_mb;
	const char *mount, *slice;
	bool job_id_paths; /* a job's cgroup has the name "job_7"; else, from 26.05 on, its SLUID */
};

/* 0 or -EBADMSG. */
int slurm_init_decode_cgroup(const void *data, const struct slurm_frame *frame,
	struct slurm_cgroup_conf *conf, struct err *err) _must_check_;

/* 0 or -EBADMSG. What was read before the failure is valid. */
int slurm_init_decode_conf(const void *data, const struct slurm_frame *frame,
	struct slurm_node_conf *conf, struct err *err) _must_check_;

#endif
