/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a step of release 22.05 needs of slurm.conf, which that slurmd does not send; and what is
 * set there that is not served here. One pass over the file that SLURM_CONF names, which is
 * refused if others than root could change it.
 */
#ifndef SLURM_SITE_CONF_H
#define SLURM_SITE_CONF_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/err.h"

#define SITE_CONF_DEFAULT "/etc/slurm/slurm.conf"

/* Resource limits that srun's environment may carry, by bits. */
enum site_limit {
	SITE_LIMIT_CPU,
	SITE_LIMIT_FSIZE,
	SITE_LIMIT_DATA,
	SITE_LIMIT_STACK,
	SITE_LIMIT_CORE,
	SITE_LIMIT_RSS,
	SITE_LIMIT_NPROC,
	SITE_LIMIT_NOFILE,
	SITE_LIMIT_MEMLOCK,
	SITE_LIMIT_AS,
	SITE_LIMIT_MAX,
};

/* "STACK"; as a spec has it: "stack". */
const char *site_limit_name(enum site_limit limit);
const char *site_limit_field(enum site_limit limit);

struct site_conf {
	struct sockaddr_in controller;
	char *munge_socket; /* NULL: munged's usual one */
	uid_t slurm_user;
	unsigned propagated; /* limits, by bits */
	bool appends;        /* JobFileAppend */
	bool signals_all;    /* ProctrackType is another than cgroup, which signals tasks alone */
	char *mpi_default;   /* NULL: none */
	/* Of batch scripts' environments. */
	char *cluster;          /* in small letters; NULL: none */
	char *controller_name;  /* as it is written there */
	unsigned select_plugin; /* SelectType's number; 0: another one */
	bool packs_nodes;       /* SelectTypeParameters has CR_Pack_Nodes */
	/* What is set and not served, "TaskPlugin=task/cgroup"; NULL: nothing. */
	char *not_served;
};

void site_conf_clear(struct site_conf *conf);
#define _cleanup_site_conf_ _cleanup_(site_conf_clear)

/* path NULL: SLURM_CONF of the environment, else SITE_CONF_DEFAULT. */
int site_conf_read(const char *path, struct site_conf *conf, struct err *err) _must_check_;

#endif
