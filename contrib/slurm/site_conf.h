/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a step needs of slurm.conf, which that slurmd does not send; and what is
 * set there that is not served here. One pass over the file that SLURM_CONF names, which is
 * refused if others than root could change it.
 */
#ifndef SLURM_SITE_CONF_H
#define SLURM_SITE_CONF_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "contrib/slurm/hosts.h"
#include "contrib/slurm/plugstack.h"
#include "stepd/base/err.h"
#include "stepd/base/strv.h"

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

enum site_accounting {
	SITE_ACCOUNTING_NONE,
	SITE_ACCOUNTING_LINUX,
	SITE_ACCOUNTING_CGROUP,
};

/* Whether step daemons stay in memory: what they have once their tasks run, or all. */
enum site_lock {
	SITE_LOCK_NONE,
	SITE_LOCK_CURRENT,
	SITE_LOCK_ALL,
};

/* What counts the energy of a node, in the step's daemon. */
enum site_energy {
	SITE_ENERGY_NONE,
	SITE_ENERGY_CRAY, /* acct_gather_energy/pm_counters */
	SITE_ENERGY_RAPL,
};

/* The tasks' nice values. */
enum site_priority {
	SITE_PRIORITY_DEFAULT, /* slurmd's */
	SITE_PRIORITY_PROPAGATED,
	SITE_PRIORITY_NICER, /* srun's, and above slurmd's */
	SITE_PRIORITY_MAX,
};

/* Which steps are profiled. */
enum site_profile {
	SITE_PROFILE_NEVER,   /* there is no plugin */
	SITE_PROFILE_ASKED,   /* by --profile */
	SITE_PROFILE_DEFAULT, /* all that don't say "none" */
	SITE_PROFILE_RELEASE, /* before 26.05 all that don't, and then those that ask: influxdb */
};

struct site_conf {
	/* slurmctld's: the primary and its backups, or the one address for all (SlurmctldAddr). */
	struct hosts controllers;
	bool uses_tokens;   /* AuthType=auth/slurm */
	char *munge_socket; /* NULL: munged's usual one */
	uid_t slurm_user;
	unsigned propagated; /* limits, by bits */
	bool appends;        /* JobFileAppend */
	bool signals_all;    /* ProctrackType is another than cgroup, which signals tasks alone */
	enum site_accounting accounting; /* JobAcctGatherType */
	uint32_t sample_s;               /* JobAcctGatherFrequency, the tasks'; 0: no samples */
	bool binds, limits;              /* TaskPlugin has task/affinity, task/cgroup */
	bool has_namespaces;             /* JobContainerType=job_container/tmpfs */
	bool uses_pam;                   /* UsePAM */
	bool sets_frequency;             /* CpuFreqDef */
	bool sets_batch_frequency;       /* LaunchParameters: batch_step_set_cpu_freq */
	bool limits_adopted;             /* and ulimit_pam_adopt */
	enum site_lock lock_memory;      /* and slurmstepd_memlock, slurmstepd_memlock_all */
	enum site_profile profile;       /* AcctGatherProfileType */
	enum site_energy energy;         /* AcctGatherEnergyType */
	/* AcctGatherInterconnectType and AcctGatherFilesystemType, which gather only what slurmctld
	 * accounts for: the TRES ic/NAME, fs/NAME; NULL: none. */
	const char *interconnect, *filesystem;
	uint32_t priority;               /* PropagatePrioProcess: enum site_priority */
	uint32_t virtual_percent;        /* VSizeFactor; 0: none */
	char *task_prolog, *task_epilog; /* NULL: none */
	char *mpi_default;               /* NULL: none */
	uint32_t tree_width;             /* TreeWidth */
	uint32_t kill_wait_s;            /* KillWait */
	char *spool_pattern;             /* SlurmdSpoolDir, with %n and %h; NULL: the default */
	char *tmp_pattern;               /* TmpFS, with %n and %h; NULL: the default */
	bool has_home_xauthority;        /* X11Parameters */
	/* Of batch scripts' environments. */
	char *cluster;          /* in small letters; NULL: none */
	char *controller_name;  /* the first one's address, as it is written there */
	unsigned select_plugin; /* SelectType's number; 0: another one */
	bool packs_nodes;       /* SelectTypeParameters has CR_Pack_Nodes */
	struct plugstack plugstack;
	/* Of site_check_spank(). */
	bool spank_loads;       /* plugins of it are loaded in each step */
	char *spank_obstacle;   /* why steps with them are not served; NULL: they are */
	struct strv not_served; /* what is set and not served, each as "UsePAM=1" */
};

void site_conf_clear(struct site_conf *conf);
#define _cleanup_site_conf_ _cleanup_(site_conf_clear)

/* Seconds between two samples of the tasks' usage: "30", "task=30,energy=60"; NULL, or a text that
 * has no number for tasks: as the site has it. */
uint32_t site_sample_interval(const char *text, const struct site_conf *conf);

/* TmpFS for a node, from malloc(); NULL: no memory. */
char *site_tmp_directory(
	const struct site_conf *conf, const char *node, const char *host) _must_check_;

/* The path of a file of this name beside slurm.conf: from malloc(); NULL: no memory. */
char *site_conf_beside(const char *conf_path, const char *name) _must_check_;

/* PlugStackConfig, or else the file beside slurm.conf: from malloc(); NULL: no memory. */
char *site_plugstack_path(const char *given, const char *conf_path) _must_check_;

/* The file: where *path is NULL, SLURM_CONF of the environment, else SITE_CONF_DEFAULT. -EINVAL: it
 * is not absolute. */
int site_conf_find(const char **path, struct err *err) _must_check_;

/* path NULL: as site_conf_find() has it. */
int site_conf_read(const char *path, struct site_conf *conf, struct err *err) _must_check_;

/* Whether steps of slurmd's release can be served with the plugins of its plugstack; version as
 * spank_check() has it. */
int site_check_spank(struct site_conf *conf, uint32_t version, struct err *err) _must_check_;

#endif
